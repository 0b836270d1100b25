/* space.c - `attune compile --space`: every candidate's object into the store, without a device. */
#include "autotune/objects.h"
#include "autotune/plan_order.h"
#include "autotune/tune.h"
#include "base/process.h"

#include <string.h>

attune_status tune_compile_space(struct generator *generator, struct compiler_pool *pool, struct store *store,
                                 const struct problem *problem, const struct target *target,
                                 const char *candidates_file, tune_report report, void *data,
                                 struct space_result *result, struct error *error)
{
    struct candidate_list list;
    struct object_road road;
    struct pipeline *pipeline = NULL;
    struct tune_progress progress = {.stage = TUNE_COMPILE, .left_seconds = -1.0};
    const struct object_job *job;
    char first[512] = "";
    attune_status first_status = ATTUNE_OK;
    double begin = clock_seconds();
    memset(result, 0, sizeof *result);
    attune_status status = plan_order(generator, problem, target, NULL, candidates_file, 0, 0, &list, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = road_open(&road, pool, store, target, SANITIZE_NONE, false, error);
    road.keep_bytes = false;
    if (status == ATTUNE_OK) {
        status = pipeline_create(generator, &road, problem, list.items, list.count, compiler_pool_workers(pool),
                                 &pipeline, error);
    }
    result->candidates = progress.candidates = list.count;
    while (status == ATTUNE_OK && (job = pipeline_next(pipeline)) != NULL) {
        if (job->status != ATTUNE_OK) {
            result->failed++;
            if (first_status == ATTUNE_OK) {
                first_status = job->status;
                memcpy(first, job->message, sizeof first);
            }
        } else {
            result->compiled += !job->reused;
            result->reused += job->reused;
        }
        result->seconds = clock_seconds() - begin;
        progress.compiled = result->compiled;
        progress.reused = result->reused;
        progress.failed = result->failed;
        progress.elapsed_seconds = result->seconds;
        int looked = result->compiled + result->reused + result->failed;
        progress.left_seconds = result->seconds / looked * (list.count - looked);
        if (report != NULL) {
            report(data, &progress);
        }
    }
    if (status == ATTUNE_OK && result->failed == list.count && list.count > 0) {
        status = error_set(error, first_status, "all %d candidates failed; the first: %s", list.count, first);
    }
    pipeline_destroy(pipeline);
    candidate_list_free(&list);
    return status;
}
