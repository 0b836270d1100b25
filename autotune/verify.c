/* verify.c - `attune verify`: candidates of a problem on a device, each under the wanted schedules, against the oracle.
 */
#include "autotune/measurer.h"
#include "autotune/objects.h"
#include "autotune/screen.h"
#include "runtime/runner.h"
#include "runtime/simulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEDULES = 3 };

struct verifying {
    const struct verify_options *options;
    bool on_host;
    struct driver *runners[SCHEDULES]; /* owned; of the sanitizers */
    struct driver *simulator;          /* owned; NULL: a device of this machine */
    struct measurer *measurer;
    struct measurer_facts facts;
    struct target target;
    struct candidate_list list;
    bool
        schedules[SCHEDULES]; /* under which every candidate runs; on a GPU the first alone, which then means nothing */
    int schedule_count;
    verify_report report;
    void *data;
    int done, total, right, judged, wrong, uncompiled;
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

/* of a target that is emulated on the host device; a real device answers for itself */
static bool verify_flushes(const struct verify_options *options)
{
    struct target target;
    const struct driver_device host = {.target = {.vendor = TARGET_HOST}};
    return verify_target(&host, options->target, &target, NULL) == ATTUNE_OK && target_flushes(&target);
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

static attune_status choose_schedules(struct verifying *state, struct error *error)
{
    const struct verify_options *options = state->options;
    bool any = false;
    for (int i = 0; i < SCHEDULES; i++) {
        any |= options->schedules[i];
    }
    if (!state->on_host && (any || options->sanitize != SANITIZE_NONE)) {
        return error_set(error, ATTUNE_INVALID,
                         "schedules and sanitizers are the host device's, the device is %s: use --device host",
                         state->facts.device.name);
    }
    for (int i = 0; i < SCHEDULES; i++) {
        state->schedules[i] = any ? options->schedules[i] : i == HOST_ROUND_ROBIN;
        state->schedule_count += state->schedules[i];
    }
    return ATTUNE_OK;
}

/* the sanitizers' programs in place of the host device: processes of their own at every launch */
static attune_status open_runners(struct verifying *state, const struct driver *driver, int ordinal,
                                  struct error *error)
{
    char program[1024];
    struct runner_options runner = {.program = program, .seconds = state->options->candidate_seconds};
    attune_status status = driver->describe(driver, ordinal, &runner.device, error);
    if (status == ATTUNE_OK) {
        state->facts.device = runner.device;
        state->on_host = runner.device.target.vendor == TARGET_HOST;
        status = choose_schedules(state, error);
    }
    if (status == ATTUNE_OK) {
        status = runner_find(state->options->sanitize == SANITIZE_ADDRESS ? "address" : "thread", program,
                             sizeof program, error);
    }
    for (int i = 0; i < SCHEDULES && status == ATTUNE_OK; i++) {
        runner.schedule = (enum host_schedule)i;
        status = state->schedules[i] ? runner_create(&runner, &state->runners[i], error) : ATTUNE_OK;
    }
    return status;
}

/* A simulator of our own, with the limit of this run. Its launches are processes already: there is nothing to guard. */
static attune_status open_simulator(struct verifying *state, const struct driver **driver, struct error *error)
{
    const struct verify_options *options = state->options;
    const char *target = strchr(options->device, ':');
    attune_status status =
        simulator_create(target != NULL ? target + 1 : "", options->candidate_seconds, &state->simulator, error);
    *driver = state->simulator;
    return status;
}

static attune_status create_local(struct verifying *state, struct generator *generator, const struct problem *problem,
                                  struct error *error)
{
    const struct verify_options *options = state->options;
    bool sanitized = options->sanitize != SANITIZE_NONE;
    const struct driver *driver;
    int ordinal = 0;
    attune_status status =
        simulator_is_named(options->device)
            ? open_simulator(state, &driver, error)
            : driver_parse_device(options->device != NULL ? options->device : "best", &driver, &ordinal, error);
    if (status == ATTUNE_OK && sanitized) {
        status = open_runners(state, driver, ordinal, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    const struct driver *runners[SCHEDULES] = {state->runners[0], state->runners[1], state->runners[2]};
    const struct measurer_local_options local = {.generator = generator,
                                                 .problem = problem,
                                                 .seed = options->seed,
                                                 .driver = driver,
                                                 .ordinal = ordinal,
                                                 .companions = options->companions,
                                                 .flushes = verify_flushes(options),
                                                 .runners = sanitized ? runners : NULL};
    return measurer_local(&local, &state->measurer, error);
}

static attune_status open_measurer(struct verifying *state, struct generator *generator, const struct problem *problem,
                                   struct error *error)
{
    const struct verify_options *options = state->options;
    const struct measurer_remote_options remote = {.generator = generator,
                                                   .device = options->device,
                                                   .problem = problem,
                                                   .seed = options->seed,
                                                   .companions = options->companions,
                                                   .flushes = verify_flushes(options),
                                                   .candidate_seconds = options->candidate_seconds};
    bool local = measurer_is_local() || options->sanitize != SANITIZE_NONE || simulator_is_named(options->device);
    attune_status status =
        local ? create_local(state, generator, problem, error) : measurer_remote(&remote, &state->measurer, error);
    if (status == ATTUNE_OK) {
        status = measurer_open(state->measurer, &state->facts, error);
    }
    if (status == ATTUNE_OK && state->schedule_count == 0) {
        state->on_host = state->facts.device.target.vendor == TARGET_HOST;
        status = choose_schedules(state, error);
    }
    return status;
}

static void report_outcome(struct verifying *state, const struct object_job *job, const char *schedule,
                           const char *what, const struct verdict *verdict, const char *reason)
{
    struct verify_outcome outcome = {0};
    if (verdict != NULL) {
        outcome.worst_ratio = verdict->worst_ratio;
        outcome.calls = verdict->calls;
        outcome.companions = verdict->companions;
    }
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
        state->uncompiled += strcmp(what, "compile-error") == 0;
    }
    if (state->report != NULL) {
        state->report(state->data, &outcome, state->done, state->total);
    }
}

/* Sanitized objects are nobody's plan, and a simulator's fault is no reason to keep an object from the GPU: what they
 * do is told alone. */
static void block(const struct verifying *state, const struct object_job *job, const char *outcome, const char *reason)
{
    if (state->options->notes != NULL && state->options->sanitize == SANITIZE_NONE && state->simulator == NULL) {
        object_block(state->options->notes, &state->target, job, outcome, reason);
    }
}

static attune_status check(struct verifying *state, const struct object_job *job, enum host_schedule schedule,
                           struct error *error)
{
    const struct kernel_object object = {job->bytes.data, job->bytes.length, &job->launch};
    const char *name = state->on_host ? host_schedule_name(schedule) : "";
    struct verdict verdict;
    struct error failure = {0};
    attune_status status = measurer_check(state->measurer, &object, schedule, true, 0.0, &verdict, &failure);
    if (status == ATTUNE_OK) {
        report_outcome(state, job, name, verdict.right ? "right" : "wrong", &verdict, verdict.reason);
        if (!verdict.right) {
            block(state, job, "wrong", verdict.reason);
        }
        return ATTUNE_OK;
    }
    enum measurer_fate fate = measurer_fate(state->measurer);
    const char *what = fate == MEASURER_HUNG || status == ATTUNE_TIMEOUT ? "hung"
                       : fate == MEASURER_CRASHED                        ? "crashed"
                                                                         : "launch-failed";
    report_outcome(state, job, name, what, NULL, failure.message);
    if (fate == MEASURER_HUNG || fate == MEASURER_CRASHED) {
        block(state, job, what, failure.message);
    }
    if (status == ATTUNE_NO_MEMORY && fate == MEASURER_WELL) {
        return error_set(error, status, "%s", failure.message);
    }
    if (fate == MEASURER_LOST) {
        return error_set(error, ATTUNE_DEVICE_FAILED, "%s left the device unusable: %s", job->name, failure.message);
    }
    return ATTUNE_OK;
}

static attune_status judge(struct verifying *state, const struct object_job *job, struct error *error)
{
    char reason[SCREEN_REASON_BYTES];
    attune_status status = ATTUNE_OK;
    if (job->status != ATTUNE_OK) {
        report_outcome(state, job, "", "compile-error", NULL, job->message);
        state->done += state->schedule_count - 1;
        return job->status == ATTUNE_NO_TOOLCHAIN ? error_set(error, job->status, "%s", job->message) : ATTUNE_OK;
    }
    if (!screen_fits(&state->facts.device, &job->launch, &job->resources, reason)) {
        report_outcome(state, job, "", "resources", NULL, reason);
        state->done += state->schedule_count - 1;
        return ATTUNE_OK;
    }
    for (int i = 0; i < SCHEDULES && status == ATTUNE_OK; i++) {
        status = state->schedules[i] ? check(state, job, (enum host_schedule)i, error) : ATTUNE_OK;
    }
    return status;
}

attune_status verify_accepts(const struct verify_options *options, const struct problem *problem, struct error *error)
{
    if (options->companions && !oracle_has_companions(problem)) {
        return error_set(error, ATTUNE_INVALID,
                         "--companions are attention.forward's small calls, %s has none: leave --companions out",
                         problem->schema->family);
    }
    return ATTUNE_OK;
}

static attune_status conclude(const struct verifying *state, struct error *error)
{
    int failed = state->judged - state->right;
    if (state->judged == 0) {
        return error_set(error, ATTUNE_UNSUPPORTED, "none of the %d candidates fits the device", state->list.count);
    }
    if (state->wrong > 0) {
        return error_set(error, ATTUNE_WRONG, "%d of %d checks failed, %d of them by wrong numbers", failed,
                         state->judged, state->wrong);
    }
    if (state->uncompiled > 0 && state->uncompiled == failed) {
        return error_set(error, ATTUNE_COMPILE_FAILED, "%d of %d checks failed: not compiled", failed, state->judged);
    }
    return failed == 0
               ? ATTUNE_OK
               : error_set(error, ATTUNE_DEVICE_FAILED,
                           "%d of %d checks failed: not compiled, or stopped while running", failed, state->judged);
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
    attune_status status = verify_accepts(options, problem, error);
    if (status == ATTUNE_OK) {
        status = open_measurer(state, generator, problem, error);
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
    if (status == ATTUNE_OK) {
        status = conclude(state, error);
    }
    pipeline_destroy(pipeline);
    measurer_close(state->measurer);
    for (int i = 0; i < SCHEDULES; i++) {
        if (state->runners[i] != NULL) {
            runner_destroy(state->runners[i]);
        }
    }
    runner_destroy(state->simulator);
    candidate_list_free(&state->list);
    free(state);
    return status;
}
