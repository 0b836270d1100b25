/* The timed half of the tuner: kernels run on the host device, behind a driver whose events tell scripted times. What a
 * candidate takes is a function of its object, so every run knows the truth. */
#include "autotune/tune_on.h"
#include "base/files.h"
#include "parts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LOADS_MAX = 4096 };

/* the one scripted device; a driver's functions get no data of their own */
static struct {
    const struct driver *host;
    struct {
        driver_function function;
        double microseconds;
    } loads[LOADS_MAX];
    int load_count;
    double passed;   /* device time since the start */
    double times[2]; /* at the two events */
    int events, launches;
    bool bad_times; /* every third answer is unusable */
    int answers;
    bool dead; /* from now on every call fails */
    int die_after;
} device;

static double truth_of(const void *object, size_t bytes)
{
    struct digest digest;
    digest_of(object, bytes, &digest);
    return 50.0 + digest.bytes[0] + digest.bytes[1] / 256.0;
}

static attune_status dead(struct error *error)
{
    return error_set(error, ATTUNE_DEVICE_FAILED, "the scripted device is gone");
}

static attune_status describe(const struct driver *driver, int ordinal, struct driver_device *facts,
                              struct error *error)
{
    (void)driver;
    attune_status status = device.host->describe(device.host, ordinal, facts, error);
    facts->cache_bytes = 1 << 14;
    return status;
}

static attune_status allocate(const struct driver *driver, int ordinal, size_t bytes, void **pointer,
                              struct error *error)
{
    (void)driver;
    return device.dead ? dead(error) : device.host->allocate(device.host, ordinal, bytes, pointer, error);
}

static attune_status load(const struct driver *driver, int ordinal, const void *object, size_t bytes,
                          const char *kernel, uint32_t dynamic, driver_module *module, driver_function *function,
                          struct error *error)
{
    (void)driver;
    attune_status status =
        device.host->load(device.host, ordinal, object, bytes, kernel, dynamic, module, function, error);
    if (status == ATTUNE_OK) {
        assert_true(device.load_count < LOADS_MAX);
        device.loads[device.load_count].function = *function;
        device.loads[device.load_count++].microseconds = truth_of(object, bytes);
    }
    return status;
}

static attune_status launch(const struct driver *driver, int ordinal, const struct driver_launch *what,
                            driver_stream stream, struct error *error)
{
    (void)driver;
    device.launches++;
    if (device.die_after > 0 && device.launches >= device.die_after) {
        device.dead = true;
    }
    if (device.dead) {
        return dead(error);
    }
    for (int i = device.load_count - 1; i >= 0; i--) {
        if (device.loads[i].function == what->function) {
            device.passed += device.loads[i].microseconds;
            break;
        }
    }
    /* a timed launch would only repeat what verification ran */
    return stream != NULL ? ATTUNE_OK : device.host->launch(device.host, ordinal, what, stream, error);
}

static attune_status stream_create(const struct driver *driver, int ordinal, driver_stream *stream, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    *stream = &device;
    return ATTUNE_OK;
}

static attune_status stream_destroy(const struct driver *driver, int ordinal, driver_stream stream, struct error *error)
{
    (void)driver, (void)ordinal, (void)stream, (void)error;
    return ATTUNE_OK;
}

static attune_status synchronize(const struct driver *driver, int ordinal, driver_stream stream, struct error *error)
{
    (void)driver, (void)ordinal, (void)stream;
    return device.dead ? dead(error) : ATTUNE_OK;
}

static attune_status event_create(const struct driver *driver, int ordinal, driver_event *event, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    *event = &device.times[device.events++ % 2];
    return ATTUNE_OK;
}

static attune_status event_destroy(const struct driver *driver, int ordinal, driver_event event, struct error *error)
{
    (void)driver, (void)ordinal, (void)event, (void)error;
    return ATTUNE_OK;
}

static attune_status event_record(const struct driver *driver, int ordinal, driver_event event, driver_stream stream,
                                  struct error *error)
{
    (void)driver, (void)ordinal, (void)stream, (void)error;
    *(double *)event = device.passed;
    return ATTUNE_OK;
}

static attune_status event_elapsed(const struct driver *driver, int ordinal, driver_event begin, driver_event end,
                                   double *milliseconds, struct error *error)
{
    static const double unusable[] = {0.0, -1.0, NAN};
    (void)driver, (void)ordinal, (void)error;
    *milliseconds = (*(double *)end - *(double *)begin) * 1e-3;
    if (device.bad_times && ++device.answers % 3 == 0) {
        *milliseconds = unusable[device.answers / 3 % 3];
    }
    return ATTUNE_OK;
}

static struct driver scripted_driver(void)
{
    memset(&device, 0, sizeof device);
    assert_int_equal(driver_get("host", &device.host, NULL), ATTUNE_OK);
    struct driver driver = *device.host;
    driver.name = "scripted";
    driver.describe = describe;
    driver.allocate = allocate;
    driver.load = load;
    driver.launch = launch;
    driver.stream_create = stream_create;
    driver.stream_destroy = stream_destroy;
    driver.synchronize = synchronize;
    driver.event_create = event_create;
    driver.event_destroy = event_destroy;
    driver.event_record = event_record;
    driver.event_elapsed = event_elapsed;
    return driver;
}

static void tune(struct parts *parts, const struct driver *driver, const struct tune_options *options,
                 tune_report report, void *data, struct tune_result *result)
{
    struct problem problem;
    struct error error = {0};
    assert_int_equal(problem_parse(schema_attention_forward(),
                                   "attention.forward dtype=f16 heads=1 seqlen_q=9 seqlen_k=20 head_dim=16", &problem,
                                   NULL),
                     ATTUNE_OK);
    attune_status status = tune_run_on(driver, 0, parts->generator, parts->pool, parts->store, &problem, options,
                                       report, data, result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

static void the_fastest_right_candidate_wins(void **state)
{
    struct parts *parts = *state;
    struct driver driver = scripted_driver();
    struct tune_result result;
    tune(parts, &driver, &(struct tune_options){.budget_candidates = 6, .seed = 1}, NULL, NULL, &result);
    struct buffer object = BUFFER_INIT;
    struct object_header header;
    assert_int_equal(store_object_get(parts->store, &result.record.object, &header, &object, NULL), ATTUNE_OK);
    double winner = truth_of(object.data, object.length), best = INFINITY;
    buffer_free(&object);
    for (int i = 0; i < result.outcome_count; i++) {
        const struct tune_outcome *outcome = &result.outcomes[i];
        if (strcmp(outcome->outcome, "timed") == 0) {
            best = fmin(best, outcome->microseconds);
            assert_true(outcome->spread < 1e-6);
        } else {
            assert_string_equal(outcome->outcome, "slower");
        }
    }
    assert_true(isfinite(best));
    assert_true(fabs(result.record.winner_microseconds - winner) < 1e-6);
    assert_true(winner <= best * 1.01);
    assert_true(result.record.winner_microseconds <= result.record.default_microseconds);
    assert_true(fabs(result.outcomes[0].microseconds - result.record.default_microseconds) < 1e-6);
    assert_true(result.record.complete);
    assert_true(result.counts.device_bytes > 0);
    tune_result_free(&result);
}

static void unusable_times_change_no_winner(void **state)
{
    struct parts *parts = *state;
    struct driver driver = scripted_driver();
    struct tune_result plain, rough;
    const struct tune_options options = {.budget_candidates = 4, .seed = 1};
    tune(parts, &driver, &options, NULL, NULL, &plain);
    driver = scripted_driver();
    device.bad_times = true;
    tune(parts, &driver, &options, NULL, NULL, &rough);
    assert_string_equal(rough.record.candidate, plain.record.candidate);
    assert_true(fabs(rough.record.winner_microseconds - plain.record.winner_microseconds) < 1e-6);
    tune_result_free(&plain);
    tune_result_free(&rough);
}

static void stop_after_two(void *data, const struct tune_progress *progress)
{
    if (progress->verified + progress->screened_out >= 2) {
        *(int *)data = 1;
    }
}

static void a_stopped_run_publishes_the_best_so_far(void **state)
{
    struct parts *parts = *state;
    struct driver driver = scripted_driver();
    struct tune_result result;
    int stop = 0;
    const struct tune_options options = {.budget_candidates = 6, .seed = 1, .stop = &stop};
    tune(parts, &driver, &options, stop_after_two, &stop, &result);
    assert_false(result.record.complete);
    assert_int_equal(result.record.tried, 2);
    assert_string_equal(result.outcomes[5].outcome, "not-tried");
    tune_result_free(&result);
}

static void remember_launches(void *data, const struct tune_progress *progress)
{
    if (progress->verified == 1 && *(int *)data == 0) {
        *(int *)data = device.launches;
    }
}

static void a_dead_device_ends_with_the_best_so_far(void **state)
{
    struct parts *parts = *state;
    struct driver driver = scripted_driver();
    struct tune_result result;
    int first = 0; /* launches that the default takes */
    const struct tune_options options = {.budget_candidates = 4, .seed = 1};
    tune(parts, &driver, &options, remember_launches, &first, &result);
    tune_result_free(&result);
    assert_true(first > 0);
    driver = scripted_driver();
    device.die_after = first + 2;
    tune(parts, &driver, &options, NULL, NULL, &result);
    assert_false(result.record.complete);
    assert_string_equal(result.outcomes[1].outcome, "crashed");
    assert_string_equal(result.outcomes[2].outcome, "not-tried");
    assert_string_equal(result.record.candidate, result.outcomes[0].candidate);
    tune_result_free(&result);
}

static void a_budget_of_no_time_still_looks_at_the_default(void **state)
{
    struct parts *parts = *state;
    struct driver driver = scripted_driver();
    struct tune_result result;
    tune(parts, &driver, &(struct tune_options){.budget_candidates = 4, .seed = 1, .budget_seconds = 1e-3}, NULL, NULL,
         &result);
    assert_int_equal(result.record.tried, 1);
    assert_string_equal(result.record.candidate, result.outcomes[0].candidate);
    assert_true(result.record.winner_microseconds > 0.0);
    assert_false(result.record.complete);
    tune_result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_right_candidate_wins),
        cmocka_unit_test(unusable_times_change_no_winner),
        cmocka_unit_test(a_stopped_run_publishes_the_best_so_far),
        cmocka_unit_test(a_dead_device_ends_with_the_best_so_far),
        cmocka_unit_test(a_budget_of_no_time_still_looks_at_the_default),
    };
    return cmocka_run_group_tests_name("timed", tests, parts_set_up, parts_tear_down);
}
