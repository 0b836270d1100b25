/* measurer_local.c - a measurer in this process: one oracle, its state on the device, the slots' kernels.
 *
 * One thread uses the device, so nothing runs beside a measurement; another one makes the references while the first
 * objects are compiled elsewhere.
 */
#include "autotune/measurer.h"
#include "autotune/timing.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

enum { SCHEDULES = 3 };

struct local {
    struct measurer base;
    struct measurer_local_options options; /* `runners` copied below */
    struct problem problem;
    const struct driver *runners[SCHEDULES];
    bool on_host; /* the host device, or a runner in its place */
    struct measurer_facts facts;
    struct oracle *oracle;
    struct oracle_device *checks[SCHEDULES]; /* the first alone without runners */
    struct judge *judge;
    struct timing *timing;
    struct timed_kernel slots[MEASURER_SLOTS];
    pthread_t preparing;
    bool is_preparing;
    bool lost; /* the device stopped answering */
};

static struct local *local_of(struct measurer *measurer)
{
    return (struct local *)measurer;
}

/* schedules that have memory of their own: one without runners, each one's with them */
static attune_status create_checks(struct local *local, struct error *error)
{
    bool runners = local->options.runners != NULL;
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < (runners ? SCHEDULES : 1) && status == ATTUNE_OK; i++) {
        const struct driver *driver = runners ? local->runners[i] : local->options.driver;
        if (driver != NULL) {
            status =
                oracle_device_create(local->oracle, driver, local->options.ordinal, !runners, &local->checks[i], error);
            if (status == ATTUNE_OK) {
                oracle_device_watch(local->checks[i], local->options.step, local->options.step_data);
            }
        }
        if (status == ATTUNE_OK && local->options.companions && local->checks[i] != NULL) {
            oracle_device_companions(local->checks[i], true);
        }
    }
    return status;
}

static uint64_t bytes_wanted(const struct local *local)
{
    uint64_t bytes = local->facts.timed ? timing_bytes_wanted(local->oracle, &local->facts.device) : 0;
    for (int i = 0; i < SCHEDULES; i++) {
        if (local->checks[i] != NULL) {
            return bytes + oracle_device_bytes(local->checks[i], local->facts.wants_judge);
        }
    }
    return bytes;
}

static attune_status local_open(struct measurer *measurer, struct measurer_facts *facts, struct error *error)
{
    struct local *local = local_of(measurer);
    const struct measurer_local_options *options = &local->options;
    attune_status status = options->driver->describe(options->driver, options->ordinal, &local->facts.device, error);
    if (status == ATTUNE_OK) {
        status = oracle_create(options->generator, &local->problem, options->seed, &local->oracle, error);
    }
    if (status == ATTUNE_OK) {
        oracle_set_flushes(local->oracle, options->flushes || target_flushes(&local->facts.device.target));
    }
    if (status == ATTUNE_OK && local->on_host) {
        status = oracle_check_host(local->oracle, error);
    }
    if (status == ATTUNE_OK) {
        status = create_checks(local, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    local->facts.timed = options->timing && !local->on_host && driver_has_times(options->driver);
    local->facts.wants_judge = !local->on_host && oracle_wants_judge(local->oracle);
    local->facts.operations = oracle_operations(local->oracle);
    local->facts.bytes = bytes_wanted(local);
    *facts = local->facts;
    return oracle_check_memory(facts->bytes, &facts->device, error);
}

static void *prepare_references(void *data)
{
    struct local *local = data;
    /* a failure shows again, with its text, when the case is needed */
    bool always = !local->on_host && driver_has_times(local->options.driver);
    oracle_prepare(local->oracle, always || local->options.companions, NULL);
    return NULL;
}

static attune_status local_begin(struct measurer *measurer, const struct judge_objects *judge, struct error *error)
{
    struct local *local = local_of(measurer);
    const struct measurer_local_options *options = &local->options;
    if (judge != NULL) {
        attune_status status = judge_load(options->generator, judge, &local->problem, options->driver, options->ordinal,
                                          &local->judge, error);
        if (status != ATTUNE_OK) {
            return status;
        }
        oracle_set_judge(local->oracle, local->judge);
    }
    local->options.generator = NULL;
    if (local->oracle->is_attention) {
        local->is_preparing = thread_start(&local->preparing, prepare_references, local);
    }
    return local->facts.timed ? timing_create(local->oracle, options->driver, options->ordinal, &local->timing, error)
                              : ATTUNE_OK;
}

/* after a failed request: the device may be beyond use */
static attune_status look_after(struct local *local, attune_status status)
{
    if (status != ATTUNE_OK && status != ATTUNE_NO_MEMORY && local->options.runners == NULL &&
        !device_answers(local->options.driver, local->options.ordinal)) {
        local->lost = true;
        local->base.fate = MEASURER_CRASHED;
    }
    return status;
}

static attune_status refuse_lost(struct local *local, struct error *error)
{
    local->base.fate = MEASURER_LOST;
    return error_set(error, ATTUNE_DEVICE_FAILED, "the device stopped answering");
}

static attune_status local_check(struct measurer *measurer, const struct kernel_object *object,
                                 enum host_schedule schedule, bool companions, double patience, struct verdict *verdict,
                                 struct error *error)
{
    struct local *local = local_of(measurer);
    if (local->lost) {
        return refuse_lost(local, error);
    }
    struct oracle_device *checks = local->checks[local->options.runners != NULL ? (int)schedule : 0];
    attune_status status = ATTUNE_OK;
    if (local->on_host && local->options.runners == NULL) {
        host_device_set_schedule(schedule);
    }
    if (local->options.companions) {
        oracle_device_companions(checks, companions);
    }
    if (patience > 0.0 || local->facts.timed) {
        status = oracle_device_patience(checks, patience, error);
    }
    if (status == ATTUNE_OK) {
        status = oracle_device_check(checks, object->bytes, object->length, object->launch, verdict, error);
    }
    return look_after(local, status);
}

/* work in the hands of a slot's kernel */
static void tell(const struct local *local, const char *what)
{
    if (local->options.step != NULL) {
        local->options.step(local->options.step_data, what);
    }
}

static attune_status local_look(struct measurer *measurer, int slot, const struct kernel_object *object, double give_up,
                                double *microseconds, struct error *error)
{
    struct local *local = local_of(measurer);
    if (local->lost) {
        return refuse_lost(local, error);
    }
    struct timed_kernel *timed = &local->slots[slot];
    timed_close(timed);
    tell(local, "first look");
    attune_status status = timed_open(local->timing, object->bytes, object->length, object->launch, timed, error);
    if (status == ATTUNE_OK) {
        status = timed_quick(local->timing, timed, give_up, microseconds, error);
    }
    tell(local, NULL);
    if (status != ATTUNE_OK) {
        timed_close(timed);
    }
    return look_after(local, status);
}

static attune_status local_drop(struct measurer *measurer, int slot, struct error *error)
{
    (void)error;
    timed_close(&local_of(measurer)->slots[slot]);
    return ATTUNE_OK;
}

static attune_status local_warm(struct measurer *measurer, int slot, double milliseconds, struct error *error)
{
    struct local *local = local_of(measurer);
    if (local->lost) {
        return refuse_lost(local, error);
    }
    tell(local, "warming up");
    attune_status status = timed_warm(local->timing, &local->slots[slot], milliseconds, error);
    tell(local, NULL);
    return look_after(local, status);
}

static attune_status local_sample(struct measurer *measurer, int slot, double *microseconds, struct error *error)
{
    struct local *local = local_of(measurer);
    if (local->lost) {
        return refuse_lost(local, error);
    }
    struct timed_kernel *timed = &local->slots[slot];
    tell(local, "final rounds");
    attune_status status = timed_sample(local->timing, timed, timed->launches, microseconds, error);
    tell(local, NULL);
    return look_after(local, status);
}

static void local_close(struct measurer *measurer)
{
    struct local *local = local_of(measurer);
    for (int i = 0; i < MEASURER_SLOTS; i++) {
        timed_close(&local->slots[i]);
    }
    if (local->is_preparing) {
        pthread_join(local->preparing, NULL);
    }
    timing_destroy(local->timing);
    for (int i = 0; i < SCHEDULES; i++) {
        oracle_device_destroy(local->checks[i]);
    }
    oracle_destroy(local->oracle);
    judge_destroy(local->judge);
    free(local);
}

attune_status measurer_local(const struct measurer_local_options *options, struct measurer **measurer,
                             struct error *error)
{
    static const struct measurer_kind kind = {.open = local_open,
                                              .begin = local_begin,
                                              .check = local_check,
                                              .look = local_look,
                                              .drop = local_drop,
                                              .warm = local_warm,
                                              .sample = local_sample,
                                              .close = local_close};
    struct local *made = calloc(1, sizeof *made);
    *measurer = NULL;
    if (made == NULL) {
        return error_no_memory(error);
    }
    made->base.kind = &kind;
    made->options = *options;
    made->problem = *options->problem;
    for (int i = 0; i < SCHEDULES && options->runners != NULL; i++) {
        made->runners[i] = options->runners[i];
    }
    made->on_host = options->runners != NULL || strcmp(options->driver->name, "host") == 0;
    *measurer = &made->base;
    return ATTUNE_OK;
}
