/* verify.c - `attune verify`: candidates of a problem on a device, each under the wanted schedules, against the oracle.
 */
#include "autotune/measurer.h"
#include "autotune/objects.h"
#include "autotune/screen.h"
#include "runtime/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEDULES = 3 };

struct verifying {
    const struct verify_options *options;
    const struct driver *driver;
    int ordinal;
    bool on_host;
    struct driver *runners[SCHEDULES]; /* owned; of the sanitizers */
    struct measurer *measurer;
    struct measurer_facts facts;
    struct target target;
    struct candidate_list list;
    bool
        schedules[SCHEDULES]; /* under which every candidate runs; on a GPU the first alone, which then means nothing */
    int schedule_count;
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

static attune_status open_runner(struct verifying *state, enum host_schedule schedule, struct error *error)
{
    char program[1024];
    struct runner_options runner = {.program = program, .schedule = schedule};
    attune_status status = state->driver->describe(state->driver, state->ordinal, &runner.device, error);
    if (status == ATTUNE_OK) {
        status = runner_find(state->options->sanitize == SANITIZE_ADDRESS ? "address" : "thread", program,
                             sizeof program, error);
    }
    return status == ATTUNE_OK ? runner_create(&runner, &state->runners[schedule], error) : status;
}

static attune_status choose_schedules(struct verifying *state, struct error *error)
{
    const struct verify_options *options = state->options;
    bool any = false;
    for (int i = 0; i < SCHEDULES; i++) {
        any |= options->schedules[i];
    }
    if (!state->on_host && (any || options->sanitize != SANITIZE_NONE)) {
        return error_set(error, ATTUNE_INVALID,
                         "schedules and sanitizers are the host device's, the device is %s:%d: use --device host",
                         state->driver->name, state->ordinal);
    }
    for (int i = 0; i < SCHEDULES; i++) {
        state->schedules[i] = any ? options->schedules[i] : i == HOST_ROUND_ROBIN;
        state->schedule_count += state->schedules[i];
    }
    return ATTUNE_OK;
}

static attune_status create_measurer(struct verifying *state, struct generator *generator,
                                     const struct problem *problem, struct error *error)
{
    bool sanitized = state->options->sanitize != SANITIZE_NONE;
    for (int i = 0; i < SCHEDULES && sanitized; i++) {
        attune_status status = state->schedules[i] ? open_runner(state, (enum host_schedule)i, error) : ATTUNE_OK;
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    const struct driver *runners[SCHEDULES] = {state->runners[0], state->runners[1], state->runners[2]};
    const struct measurer_local_options local = {.generator = generator,
                                                 .problem = problem,
                                                 .seed = state->options->seed,
                                                 .driver = state->driver,
                                                 .ordinal = state->ordinal,
                                                 .companions = state->options->companions,
                                                 .runners = sanitized ? runners : NULL};
    return measurer_local(&local, &state->measurer, error);
}

static void report_outcome(struct verifying *state, const struct object_job *job, const char *schedule,
                           const char *what, double ratio, const char *reason)
{
    struct verify_outcome outcome = {.worst_ratio = ratio};
    memcpy(outcome.candidate, job->name, sizeof outcome.candidate);
    memcpy(outcome.id, job->id, sizeof outcome.id);
    snprintf(outcome.schedule, sizeof outcome.schedule, "%s", schedule);
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

static attune_status check(struct verifying *state, const struct object_job *job, enum host_schedule schedule,
                           struct error *error)
{
    const struct kernel_object object = {job->bytes.data, job->bytes.length, &job->launch};
    const char *name = state->on_host ? host_schedule_name(schedule) : "";
    struct verdict verdict;
    struct error failure = {0};
    attune_status status = measurer_check(state->measurer, &object, schedule, 0.0, &verdict, &failure);
    if (status == ATTUNE_OK) {
        report_outcome(state, job, name, verdict.right ? "right" : "wrong", verdict.worst_ratio, verdict.reason);
        return ATTUNE_OK;
    }
    report_outcome(state, job, name, "failed", 0.0, failure.message);
    if (status == ATTUNE_NO_MEMORY) {
        return error_set(error, status, "%s", failure.message);
    }
    if (measurer_fate(state->measurer) == MEASURER_LOST) {
        return error_set(error, ATTUNE_DEVICE_FAILED, "%s left the device unusable: %s", job->name, failure.message);
    }
    return ATTUNE_OK;
}

static attune_status judge(struct verifying *state, const struct object_job *job, struct error *error)
{
    char reason[SCREEN_REASON_BYTES];
    attune_status status = ATTUNE_OK;
    if (job->status != ATTUNE_OK) {
        report_outcome(state, job, "", "compile", 0.0, job->message);
        state->done += state->schedule_count - 1;
        return job->status == ATTUNE_NO_TOOLCHAIN ? error_set(error, job->status, "%s", job->message) : ATTUNE_OK;
    }
    if (!screen_fits(&state->facts.device, &job->launch, &job->resources, reason)) {
        report_outcome(state, job, "", "resources", 0.0, reason);
        state->done += state->schedule_count - 1;
        return ATTUNE_OK;
    }
    for (int i = 0; i < SCHEDULES && status == ATTUNE_OK; i++) {
        status = state->schedules[i] ? check(state, job, (enum host_schedule)i, error) : ATTUNE_OK;
    }
    return status;
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
        state->on_host = strcmp(state->driver->name, "host") == 0;
        status = choose_schedules(state, error);
    }
    if (status == ATTUNE_OK) {
        status = create_measurer(state, generator, problem, error);
    }
    if (status == ATTUNE_OK) {
        status = measurer_open(state->measurer, &state->facts, error);
    }
    if (status == ATTUNE_OK) {
        status = verify_target(&state->facts.device, options->target, &state->target, error);
    }
    if (status == ATTUNE_OK) {
        status = choose_candidates(generator, problem, state, error);
    }
    if (status == ATTUNE_OK) {
        status = road_open(&road, pool, options->store, &state->target, options->sanitize, true, error);
    }
    if (status == ATTUNE_OK) {
        status = measurer_begin(state->measurer, &state->facts, generator, &road, problem, error);
    }
    if (status == ATTUNE_OK) {
        state->total = state->list.count * state->schedule_count;
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
    measurer_close(state->measurer);
    for (int i = 0; i < SCHEDULES; i++) {
        if (state->runners[i] != NULL) {
            runner_destroy(state->runners[i]);
        }
    }
    candidate_list_free(&state->list);
    free(state);
    return status;
}
