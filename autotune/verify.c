/* verify.c - `attune verify`: candidates of a problem on a device, each under the wanted schedules, against the oracle.
 */
#include "autotune/judge.h"
#include "autotune/objects.h"
#include "autotune/oracle.h"
#include "autotune/screen.h"
#include "runtime/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEDULES = 3 };

/* one way to run every candidate: a schedule of the host device or a runner, or the GPU as it is */
struct check_place {
    const char *schedule; /* for reports; "" on GPUs */
    enum host_schedule host;
    struct driver *runner; /* owned; NULL without sanitizers */
    const struct driver *driver;
    struct oracle_device *device;
};

struct verifying {
    const struct verify_options *options;
    const struct driver *driver;
    int ordinal;
    struct driver_device device;
    struct target target;
    struct oracle *oracle;
    struct judge *judge;
    struct candidate_list list;
    struct check_place places[SCHEDULES];
    int place_count;
    verify_report report;
    void *data;
    int done, total, right, judged, wrong;
};

static attune_status verify_target(const struct driver_device *device, const char *text, struct target *target,
                                   struct error *error)
{
    *target = device->target;
    if (text == NULL || text[0] == '\0') {
        return ATTUNE_OK;
    }
    char name[TARGET_TEXT_BYTES + 8];
    bool host = strncmp(text, "host", 4) == 0;
    if (device->target.vendor != TARGET_HOST) {
        struct target wanted;
        attune_status status = target_parse(text, &wanted, error);
        if (status == ATTUNE_OK) {
            status = target_accepts(&device->target, &wanted, error);
        }
        *target = status == ATTUNE_OK ? wanted : *target;
        return status;
    }
    snprintf(name, sizeof name, "%s%s", host ? "" : "host-", text);
    return target_parse(name, target, error);
}

static attune_status choose_candidates(struct generator *generator, const struct problem *problem,
                                       struct verifying *state, struct error *error)
{
    const struct verify_options *options = state->options;
    if (options->all_candidates) {
        return candidate_enumerate(generator, problem, &state->target, &state->list, error);
    }
    if (options->cover > 0) {
        return candidate_cover(generator, problem, &state->target, options->cover, options->seed, &state->list, error);
    }
    state->list.items = calloc(1, sizeof *state->list.items);
    if (state->list.items == NULL) {
        return error_no_memory(error);
    }
    state->list.count = 1;
    if (options->candidate == NULL) {
        return candidate_default(generator, problem, &state->target, state->list.items, error);
    }
    attune_status status =
        candidate_parse(generator, options->candidate, problem, &state->target, state->list.items, error);
    return status == ATTUNE_OK ? candidate_check(generator, state->list.items, problem, &state->target, error) : status;
}

static attune_status open_place(struct verifying *state, enum host_schedule schedule, struct error *error)
{
    struct check_place *place = &state->places[state->place_count++];
    const char *sanitizer = state->options->sanitize == SANITIZE_ADDRESS ? "address" : "thread";
    attune_status status = ATTUNE_OK;
    place->schedule = state->device.target.vendor == TARGET_HOST ? host_schedule_name(schedule) : "";
    place->host = schedule;
    place->driver = state->driver;
    if (state->options->sanitize != SANITIZE_NONE) {
        char program[1024];
        struct runner_options runner = {.program = program, .device = state->device, .schedule = schedule};
        status = runner_find(sanitizer, program, sizeof program, error);
        if (status == ATTUNE_OK) {
            status = runner_create(&runner, &place->runner, error);
        }
        place->driver = place->runner;
    }
    return status == ATTUNE_OK ? oracle_device_create(state->oracle, place->driver, state->ordinal,
                                                      place->runner == NULL, &place->device, error)
                               : status;
}

static attune_status open_places(struct verifying *state, struct error *error)
{
    const struct verify_options *options = state->options;
    bool host = state->device.target.vendor == TARGET_HOST, any = false;
    for (int i = 0; i < SCHEDULES; i++) {
        any |= options->schedules[i];
    }
    if (!host && (any || options->sanitize != SANITIZE_NONE)) {
        return error_set(error, ATTUNE_INVALID,
                         "schedules and sanitizers are the host device's, the device is %s: use --device host",
                         state->device.name);
    }
    for (int i = 0; i < SCHEDULES; i++) {
        if (any ? options->schedules[i] : i == HOST_ROUND_ROBIN) {
            attune_status status = open_place(state, (enum host_schedule)i, error);
            if (status != ATTUNE_OK) {
                return status;
            }
        }
    }
    return ATTUNE_OK;
}

static void report_outcome(struct verifying *state, const struct object_job *job, const struct check_place *place,
                           const char *what, double ratio, const char *reason)
{
    struct verify_outcome outcome = {.worst_ratio = ratio};
    memcpy(outcome.candidate, job->name, sizeof outcome.candidate);
    memcpy(outcome.id, job->id, sizeof outcome.id);
    snprintf(outcome.schedule, sizeof outcome.schedule, "%s", place != NULL ? place->schedule : "");
    snprintf(outcome.outcome, sizeof outcome.outcome, "%s", what);
    snprintf(outcome.reason, sizeof outcome.reason, "%.500s", reason);
    state->done++;
    if (strcmp(what, "resources") != 0) {
        state->judged++;
        state->right += strcmp(what, "right") == 0;
        state->wrong += strcmp(what, "wrong") == 0;
    }
    if (state->report != NULL) {
        state->report(state->data, &outcome, state->done, state->total);
    }
}

static attune_status judge(struct verifying *state, struct object_job *job, struct error *error)
{
    char reason[SCREEN_REASON_BYTES];
    if (job->status != ATTUNE_OK) {
        report_outcome(state, job, NULL, "compile", 0.0, job->message);
        state->done += state->place_count - 1;
        return job->status == ATTUNE_NO_TOOLCHAIN ? error_set(error, job->status, "%s", job->message) : ATTUNE_OK;
    }
    if (!screen_fits(&state->device, &job->launch, &job->resources, reason)) {
        report_outcome(state, job, NULL, "resources", 0.0, reason);
        state->done += state->place_count - 1;
        return ATTUNE_OK;
    }
    for (int i = 0; i < state->place_count; i++) {
        struct check_place *place = &state->places[i];
        struct verdict verdict;
        struct error failure = {0};
        if (place->runner == NULL && state->device.target.vendor == TARGET_HOST) {
            host_device_set_schedule(place->host);
        }
        attune_status status =
            oracle_device_check(place->device, job->bytes.data, job->bytes.length, &job->launch, &verdict, &failure);
        if (status == ATTUNE_OK) {
            report_outcome(state, job, place, verdict.right ? "right" : "wrong", verdict.worst_ratio, verdict.reason);
            continue;
        }
        report_outcome(state, job, place, "failed", 0.0, failure.message);
        if (status == ATTUNE_NO_MEMORY) {
            return error_set(error, status, "%s", failure.message);
        }
        if (place->runner == NULL && !device_answers(state->driver, state->ordinal)) {
            return error_set(error, ATTUNE_DEVICE_FAILED, "%s left the device unusable: %s", job->name,
                             failure.message);
        }
    }
    return ATTUNE_OK;
}

attune_status verify_run(struct generator *generator, struct compiler_pool *pool, const struct problem *problem,
                         const struct verify_options *options, verify_report report, void *data, int *right, int *total,
                         struct error *error)
{
    struct verifying *state = calloc(1, sizeof *state);
    struct object_road road;
    struct pipeline *pipeline = NULL;
    struct object_job *job;
    *right = *total = 0;
    if (state == NULL) {
        return error_no_memory(error);
    }
    state->options = options;
    state->report = report;
    state->data = data;
    attune_status status =
        driver_parse_device(options->device != NULL ? options->device : "best", &state->driver, &state->ordinal, error);
    if (status == ATTUNE_OK) {
        status = state->driver->describe(state->driver, state->ordinal, &state->device, error);
    }
    if (status == ATTUNE_OK) {
        status = verify_target(&state->device, options->target, &state->target, error);
    }
    if (status == ATTUNE_OK) {
        status = choose_candidates(generator, problem, state, error);
    }
    if (status == ATTUNE_OK) {
        status = oracle_create(generator, problem, options->seed, &state->oracle, error);
    }
    if (status == ATTUNE_OK && state->device.target.vendor == TARGET_HOST) {
        status = oracle_check_host(state->oracle, error);
    }
    if (status == ATTUNE_OK) {
        status = open_places(state, error);
    }
    if (status == ATTUNE_OK) {
        status = oracle_check_memory(oracle_device_bytes(state->places[0].device), &state->device, error);
    }
    if (status == ATTUNE_OK) {
        status = road_open(&road, pool, options->store, &state->target, options->sanitize, true, error);
    }
    if (status == ATTUNE_OK && state->device.target.vendor != TARGET_HOST) {
        state->judge = judge_for_oracle(generator, &road, state->oracle, state->driver, state->ordinal);
    }
    if (status == ATTUNE_OK) {
        state->total = state->list.count * state->place_count;
        status = pipeline_create(generator, &road, problem, state->list.items, state->list.count,
                                 compiler_pool_workers(pool), &pipeline, error);
    }
    while (status == ATTUNE_OK && (job = pipeline_next(pipeline)) != NULL) {
        status = judge(state, job, error);
    }
    *right = state->right;
    *total = state->judged;
    if (status == ATTUNE_OK && state->right < state->judged) {
        int failed = state->judged - state->right;
        status =
            state->wrong > 0
                ? error_set(error, ATTUNE_WRONG, "%d of %d checks failed, %d of them by wrong numbers", failed,
                            state->judged, state->wrong)
                : error_set(error, ATTUNE_DEVICE_FAILED,
                            "%d of %d checks failed: not compiled, or stopped while running", failed, state->judged);
    }
    if (status == ATTUNE_OK && state->judged == 0) {
        status = error_set(error, ATTUNE_UNSUPPORTED, "none of the %d candidates fits the device", state->list.count);
    }
    pipeline_destroy(pipeline);
    for (int i = 0; i < state->place_count; i++) {
        oracle_device_destroy(state->places[i].device);
        if (state->places[i].runner != NULL) {
            runner_destroy(state->places[i].runner);
        }
    }
    oracle_destroy(state->oracle);
    judge_destroy(state->judge);
    candidate_list_free(&state->list);
    free(state);
    return status;
}
