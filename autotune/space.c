/* space.c - `attune compile --space`: every candidate's object into the store, without a device. */
#include "autotune/objects.h"
#include "autotune/plan_order.h"
#include "autotune/publish.h"
#include "autotune/tune.h"
#include "base/process.h"

#include <stdlib.h>
#include <string.h>

static int compare_digests(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct digest));
}

static int count_distinct(struct digest *digests, int count)
{
    int distinct = count > 0;
    qsort(digests, (size_t)count, sizeof *digests, compare_digests);
    for (int i = 1; i < count; i++) {
        distinct += memcmp(&digests[i - 1], &digests[i], sizeof *digests) != 0;
    }
    return distinct;
}

/* values past SPACE_VALUES_MAX go uncounted */
static void count_values(struct space_result *result, const struct candidate *candidate)
{
    for (int p = 0; p < candidate->parameter_count; p++) {
        int v = 0;
        while (v < result->value_count && (strcmp(result->values[v].name, candidate->parameters[p].name) != 0 ||
                                           strcmp(result->values[v].value, candidate->parameters[p].value) != 0)) {
            v++;
        }
        if (v == SPACE_VALUES_MAX) {
            continue;
        }
        if (v == result->value_count) {
            memcpy(result->values[v].name, candidate->parameters[p].name, sizeof result->values[v].name);
            memcpy(result->values[v].value, candidate->parameters[p].value, sizeof result->values[v].value);
            result->value_count++;
        }
        result->values[v].objects++;
    }
}

/* The default candidate's object gets its record, so that a filled store serves without a compiler. */
static attune_status publish_if_default(struct store *store, const struct target *target, const struct problem *problem,
                                        const char *standard, const struct object_job *job, struct error *error)
{
    struct record record = {0};
    if (strcmp(job->name, standard) != 0) {
        return ATTUNE_OK;
    }
    attune_status status = publish_default(store, target, problem, job, &record, error);
    record_free(&record);
    return status;
}

static void count_job(struct space_result *result, const struct object_job *job)
{
    if (job->status != ATTUNE_OK) {
        result->failed++;
        return;
    }
    result->compiled += !job->reused;
    result->reused += job->reused;
    result->spilling += job->resources.scratch_bytes > 0;
    count_values(result, &job->candidate);
}

/* at least one job has been counted */
static void tell(const struct space_result *result, tune_report report, void *data)
{
    const int done = result->compiled + result->reused + result->failed;
    const struct tune_progress progress = {.stage = TUNE_COMPILE,
                                           .candidates = result->candidates,
                                           .compiled = result->compiled,
                                           .reused = result->reused,
                                           .failed = result->failed,
                                           .elapsed_seconds = result->seconds,
                                           .left_seconds = result->seconds / done * (result->candidates - done)};
    if (report != NULL) {
        report(data, &progress);
    }
}

attune_status tune_compile_space(struct generator *generator, struct compiler_pool *pool, struct store *store,
                                 const struct problem *problem, const struct target *target,
                                 const char *candidates_file, tune_report report, void *data,
                                 struct space_result *result, struct error *error)
{
    struct candidate_list list;
    struct object_road road;
    struct pipeline *pipeline = NULL;
    const struct object_job *job;
    struct digest *digests = NULL;
    int objects = 0;
    char first[512] = "", standard[CANDIDATE_TEXT_BYTES] = "";
    attune_status first_status = ATTUNE_OK;
    double begin = clock_seconds();
    memset(result, 0, sizeof *result);
    attune_status status = plan_order(generator, problem, target, PLAN_SPACE, candidates_file, 0, 0, &list, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = road_open(&road, pool, store, target, SANITIZE_NONE, false, error);
    if (status == ATTUNE_OK) {
        digests = malloc(((size_t)list.count + 1) * sizeof *digests);
        status = digests != NULL ? ATTUNE_OK : error_no_memory(error);
    }
    road.keep_bytes = true; /* objects are compared */
    if (status == ATTUNE_OK) {
        status = pipeline_create(generator, &road, problem, list.items, list.count, compiler_pool_workers(pool),
                                 &pipeline, error);
    }
    candidate_format(&list.items[0], standard); /* the order begins with the default */
    result->candidates = list.count;
    while (status == ATTUNE_OK && (job = pipeline_next(pipeline)) != NULL) {
        count_job(result, job);
        if (job->status == ATTUNE_OK) {
            digest_of(job->bytes.data, job->bytes.length, &digests[objects++]);
            status = publish_if_default(store, target, problem, standard, job, error);
        } else if (first_status == ATTUNE_OK) {
            first_status = job->status;
            memcpy(first, job->message, sizeof first);
        }
        result->seconds = clock_seconds() - begin;
        tell(result, report, data);
    }
    if (status == ATTUNE_OK && result->failed == list.count && list.count > 0) {
        status = error_set(error, first_status, "all %d candidates failed; the first: %s", list.count, first);
    }
    result->distinct = digests != NULL ? count_distinct(digests, objects) : 0;
    free(digests);
    pipeline_destroy(pipeline);
    candidate_list_free(&list);
    return status;
}
