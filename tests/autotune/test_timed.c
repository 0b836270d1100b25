/* The timed half of the tuner on a scripted device: what a candidate takes is a function of its object, so every run
 * knows the truth. */
#include "autotune/tune_on.h"
#include "base/files.h"
#include "parts.h"
#include "scripted_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double truth_of(const void *object, size_t bytes)
{
    struct digest digest;
    digest_of(object, bytes, &digest);
    return 50.0 + digest.bytes[0] + digest.bytes[1] / 256.0;
}

static double truth(const char *kernel, const void *object, size_t bytes)
{
    (void)kernel;
    return truth_of(object, bytes);
}

static void parse_problem(struct problem *problem)
{
    assert_int_equal(problem_parse(schema_attention_forward(),
                                   "attention.forward dtype=f16 heads=1 seqlen_q=9 seqlen_k=20 head_dim=16", problem,
                                   NULL),
                     ATTUNE_OK);
}

static void tune(struct parts *parts, const struct driver *driver, const struct tune_options *options,
                 tune_report report, void *data, struct tune_result *result)
{
    struct problem problem;
    struct error error = {0};
    parse_problem(&problem);
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
    struct driver driver = scripted_driver(truth);
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
    assert_true(result.ending == TUNE_COUNT && !result.record.complete); /* the count is below the space */
    assert_true(result.counts.device_bytes > 0);
    tune_result_free(&result);
}

static void unusable_times_change_no_winner(void **state)
{
    struct parts *parts = *state;
    struct driver driver = scripted_driver(truth);
    struct tune_result plain, rough;
    const struct tune_options options = {.budget_candidates = 4, .seed = 1};
    tune(parts, &driver, &options, NULL, NULL, &plain);
    driver = scripted_driver(truth);
    scripted.bad_times = true;
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
    struct driver driver = scripted_driver(truth);
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
        *(int *)data = scripted.launches;
    }
}

static void a_dead_device_ends_with_the_best_so_far(void **state)
{
    struct parts *parts = *state;
    struct driver driver = scripted_driver(truth);
    struct tune_result result;
    int first = 0; /* launches that the default takes */
    const struct tune_options options = {.budget_candidates = 4, .seed = 1};
    tune(parts, &driver, &options, remember_launches, &first, &result);
    tune_result_free(&result);
    assert_true(first > 0);
    driver = scripted_driver(truth);
    scripted.die_after = first + 2;
    tune(parts, &driver, &options, NULL, NULL, &result);
    assert_false(result.record.complete);
    assert_string_equal(result.outcomes[1].outcome, "crashed");
    assert_string_equal(result.outcomes[2].outcome, "not-tried");
    assert_string_equal(result.record.candidate, result.outcomes[0].candidate);
    assert_int_equal(result.ending, TUNE_DEVICE_LOST);
    tune_result_free(&result);
}

/* there is no result then, but it is told why: who has other devices goes on with those */
static void a_device_dead_from_the_start_is_told_from_a_bad_problem(void **state)
{
    struct parts *parts = *state;
    struct driver driver = scripted_driver(truth);
    struct tune_result result;
    struct problem problem;
    struct error error = {.message = ""};
    struct store *store; /* its own: the default, in whose hands the device died, is blocked there */
    char folder[600];
    const struct tune_options options = {.budget_candidates = 4, .seed = 1};
    snprintf(folder, sizeof folder, "%s/dead", parts->folder);
    assert_int_equal(store_open(folder, &store, &error), ATTUNE_OK);
    parse_problem(&problem);
    scripted.die_after = 1;
    attune_status status =
        tune_run_on(&driver, 0, parts->generator, parts->pool, store, &problem, &options, NULL, NULL, &result, &error);
    store_close(store);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        skip();
    }
    assert_int_not_equal(status, ATTUNE_OK);
    assert_int_equal(result.ending, TUNE_DEVICE_LOST);
}

static void a_budget_of_no_time_still_looks_at_the_default(void **state)
{
    struct parts *parts = *state;
    struct driver driver = scripted_driver(truth);
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
        cmocka_unit_test(a_device_dead_from_the_start_is_told_from_a_bad_problem),
        cmocka_unit_test(a_budget_of_no_time_still_looks_at_the_default),
    };
    return cmocka_run_group_tests_name("timed", tests, parts_set_up, parts_tear_down);
}
