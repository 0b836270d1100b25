/* Choosing by scripted timers: bad samples are discarded, ties have a fixed answer, a clock that changes half-way does
 * not matter. */
#include "autotune/measure.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ENTRIES_MAX = 8 };

/* a timer that answers truth[entry] times a factor of the call's number */
struct script {
    double truth[ENTRIES_MAX];
    double (*factor)(int call, int entry);
    int calls, calls_of[ENTRIES_MAX];
    int order[4096];
    double clock; /* advanced by 1 a sample */
    int fail_at;  /* call that fails; -1 none */
};

static attune_status scripted(void *data, int entry, double *microseconds, struct error *error)
{
    struct script *script = data;
    if (script->calls == script->fail_at) {
        return error_set(error, ATTUNE_DEVICE_FAILED, "scripted");
    }
    *microseconds = script->truth[entry] * (script->factor != NULL ? script->factor(script->calls, entry) : 1.0);
    script->order[script->calls++] = entry;
    script->calls_of[entry]++;
    script->clock += 1.0;
    return ATTUNE_OK;
}

static double scripted_now(void *data)
{
    return ((struct script *)data)->clock;
}

static void run(struct script *script, int count, int rounds, double deadline, struct measure_result *results,
                int *done)
{
    const struct measure_source source = {.data = script, .sample = scripted, .now = scripted_now};
    memset(results, 0, ENTRIES_MAX * sizeof *results);
    assert_int_equal(measure_rounds(&source, count, 0, rounds, deadline, results, done, NULL), ATTUNE_OK);
}

static double every_third_bad(int call, int entry)
{
    static const double bad[] = {0.0, -1.0, NAN, INFINITY};
    return (call + entry) % 3 == 0 ? bad[call % 4] : 1.0;
}

static void bad_samples_are_discarded(void **state)
{
    (void)state;
    struct script script = {.truth = {10, 8, 9}, .factor = every_third_bad, .fail_at = -1};
    struct measure_result results[ENTRIES_MAX];
    int done;
    run(&script, 3, 15, 0.0, results, &done);
    assert_int_equal(done, 15);
    for (int i = 0; i < 3; i++) {
        assert_true(results[i].samples > 0);
        assert_true(fabs(results[i].microseconds - script.truth[i]) < 1e-9);
    }
    assert_int_equal(measure_choose(results, 3, 0, 0.01), 1);
}

static double always_bad(int call, int entry)
{
    (void)call;
    return entry == 1 ? NAN : 1.0;
}

static void an_entry_without_good_samples_never_wins(void **state)
{
    (void)state;
    struct script script = {.truth = {10, 1}, .factor = always_bad, .fail_at = -1};
    struct measure_result results[ENTRIES_MAX];
    int done;
    run(&script, 2, 5, 0.0, results, &done);
    assert_int_equal(results[1].samples, 0);
    assert_int_equal(measure_choose(results, 2, 0, 0.01), 0);
    results[0].microseconds = 0.0;
    assert_int_equal(measure_choose(results, 2, 0, 0.01), -1);
}

static void ties_go_to_the_default_then_to_the_first(void **state)
{
    (void)state;
    struct measure_result results[4] = {
        {.microseconds = 10.0}, {.microseconds = 9.95}, {.microseconds = 9.92}, {.microseconds = 9.93}};
    assert_int_equal(measure_choose(results, 4, 0, 0.01), 0);
    results[0].microseconds = 10.1; /* out of the band: the first of those in it, not the fastest */
    assert_int_equal(measure_choose(results, 4, 0, 0.01), 1);
    results[1].microseconds = 9.98; /* 0.6 % behind: half of the band is for the default alone */
    assert_int_equal(measure_choose(results, 4, 0, 0.01), 2);
    results[1].microseconds = 10.2;
    assert_int_equal(measure_choose(results, 4, 0, 0.01), 2);
    assert_int_equal(measure_choose(results, 4, -1, 0.01), 2);
}

/* +-0.4 % of noise that depends on the call */
static double noise(int call, int entry)
{
    uint32_t x = (uint32_t)(call * 2654435761u) ^ (uint32_t)(entry * 40503u);
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return 1.0 + ((double)(x % 1000) / 999.0 - 0.5) * 0.008;
}

static void tied_variants_have_one_winner_whatever_the_noise(void **state)
{
    (void)state;
    for (int shift = 0; shift < 60; shift++) {
        struct script script = {.truth = {12, 10.0, 10.02, 10.01}, .factor = noise, .fail_at = -1};
        struct measure_result results[ENTRIES_MAX];
        int done;
        script.calls = shift * 7 % 1000; /* another stretch of the noise */
        run(&script, 4, 15, 0.0, results, &done);
        assert_int_equal(measure_choose(results, 4, 0, 0.01), 1);
    }
}

static double clock_halves(int call, int entry)
{
    (void)entry;
    return call < 37 ? 1.0 : 2.0;
}

static void a_clock_that_halves_changes_no_winner(void **state)
{
    (void)state;
    struct script script = {.truth = {10.0, 9.7, 9.5, 9.9}, .factor = clock_halves, .fail_at = -1};
    struct measure_result results[ENTRIES_MAX];
    int done;
    run(&script, 4, 15, 0.0, results, &done);
    assert_int_equal(measure_choose(results, 4, 0, 0.01), 2);
    assert_true(fabs(results[2].microseconds / results[0].microseconds - 0.95) < 0.01);
}

static void run_stages(struct script *script, int count, double deadline, struct measure_result *results,
                       struct measure_course *course)
{
    static const struct measure_stage stages[] = {{3, 3}, {6, 1}, {10, 0}};
    const struct measure_source source = {.data = script, .sample = scripted, .now = scripted_now};
    assert_int_equal(measure_halving(&source, count, 0, stages, 3, 0.01, deadline, results, course, NULL), ATTUNE_OK);
}

static void slower_entries_leave_and_keep_their_times(void **state)
{
    (void)state;
    struct script script = {.truth = {10, 14, 8, 9, 13, 12, 11}, .fail_at = -1};
    static const int rounds_of[] = {0, 3, 10, 6, 3, 3, 6};
    struct measure_result results[ENTRIES_MAX];
    struct measure_course course;
    run_stages(&script, 7, 0.0, results, &course);
    assert_int_equal(course.rounds, 10);
    for (int i = 0; i < 7; i++) {
        assert_true(fabs(results[i].microseconds - script.truth[i]) < 1e-9);
        assert_int_equal(results[i].left, i != 0 && i != 2);
        assert_true(i == 0 || script.calls_of[i] == rounds_of[i]);
        assert_int_equal(results[i].samples, i == 0 ? 10 : rounds_of[i]);
    }
    assert_true(course.before == 10.0 && course.after == 10.0);
}

static void who_is_within_the_tie_or_was_not_seen_stays(void **state)
{
    (void)state;
    struct script tied = {.truth = {10.0, 9.00, 9.05, 9.02, 9.08, 9.01, 9.30}, .fail_at = -1};
    struct script unseen = {.truth = {10, 1, 9}, .factor = always_bad, .fail_at = -1};
    struct measure_result results[ENTRIES_MAX];
    struct measure_course course;
    run_stages(&tied, 7, 0.0, results, &course);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(results[i].left, i == 6);
    }
    run_stages(&unseen, 3, 0.0, results, &course);
    assert_false(results[1].left);
    assert_int_equal(unseen.calls_of[1], 10);
}

/* one that only its last rounds would show to be the best */
static double late(int call, int entry)
{
    return entry == 3 && call < 40 ? 2.0 : 1.0;
}

static void who_has_left_does_not_win(void **state)
{
    (void)state;
    struct script script = {.truth = {10, 9, 9.5, 5, 9.7}, .factor = late, .fail_at = -1};
    struct measure_result results[ENTRIES_MAX];
    struct measure_course course;
    run_stages(&script, 5, 0.0, results, &course);
    assert_true(results[3].left);
    results[3].microseconds = 5.0;
    assert_int_equal(measure_choose(results, 5, 0, 0.01), 1);
}

static void a_course_tells_the_baseline_before_and_after(void **state)
{
    (void)state;
    struct script script = {.truth = {10.0, 9.7, 9.5, 9.9}, .factor = clock_halves, .fail_at = -1};
    struct measure_result results[ENTRIES_MAX];
    struct measure_course course;
    run_stages(&script, 4, 0.0, results, &course);
    assert_true(course.before == 10.0 && course.after == 20.0);
    script.calls = 0;
    script.clock = 0;
    run_stages(&script, 4, 8.0, results, &course); /* a deadline after the second round */
    assert_int_equal(course.rounds, 2);
    assert_true(course.before == 10.0 && course.after == 10.0);
    assert_false(results[1].left || results[2].left || results[3].left);
}

static double first_is_slow(int call, int entry)
{
    (void)entry;
    return call < 5 ? 10.0 : 1.0;
}

static void a_slow_first_round_does_not_count(void **state)
{
    (void)state;
    struct script script = {.truth = {10.0, 9.0, 11.0}, .factor = first_is_slow, .fail_at = -1};
    struct measure_result results[ENTRIES_MAX];
    int done;
    run(&script, 3, 15, 0.0, results, &done);
    assert_true(fabs(results[0].microseconds - 10.0) < 1e-9);
    assert_int_equal(measure_choose(results, 3, 0, 0.01), 1);
}

static void every_entry_stands_between_two_samples_of_the_baseline(void **state)
{
    (void)state;
    struct script script = {.truth = {10, 9, 8}, .fail_at = -1};
    struct measure_result results[ENTRIES_MAX];
    int done;
    run(&script, 3, 4, 0.0, results, &done);
    assert_int_equal(script.calls, 20);
    for (int r = 0; r < 4; r++) {
        for (int i = 0; i < 5; i += 2) {
            assert_int_equal(script.order[5 * r + i], 0);
        }
        assert_int_equal(script.order[5 * r + 1] + script.order[5 * r + 3], 3);
    }
    assert_int_not_equal(script.order[1], script.order[11]); /* another entry first */
}

/* a third of the time half of the device is another's, in stretches that have nothing to do with rounds */
static int stretch;

static double others_work(int call, int entry)
{
    return (call / stretch % 3 == 1 ? 1.5 : 1.0) * noise(call, entry);
}

static void work_of_others_that_comes_and_goes_changes_no_winner(void **state)
{
    (void)state;
    for (stretch = 4; stretch < 60; stretch++) {
        for (int shift = 0; shift < 3 * stretch; shift++) {
            struct script script = {.truth = {10.0, 9.7, 9.5, 9.9, 9.8}, .factor = others_work, .fail_at = -1};
            struct measure_result results[ENTRIES_MAX];
            int done;
            script.calls = shift;
            run(&script, 5, 15, 0.0, results, &done);
            if (measure_choose(results, 5, 0, 0.01) != 2 ||
                fabs(results[2].microseconds / results[0].microseconds - 0.95) > 0.01) {
                fail_msg("stretches of %d from %d on: %g us, the default %g", stretch, shift, results[2].microseconds,
                         results[0].microseconds);
            }
        }
    }
}

static void a_deadline_leaves_at_least_one_round(void **state)
{
    (void)state;
    struct script script = {.truth = {10, 9}, .fail_at = -1};
    struct measure_result results[ENTRIES_MAX];
    int done;
    run(&script, 2, 15, 0.5, results, &done);
    assert_int_equal(done, 1);
    assert_int_equal(results[1].samples, 1);
    script.clock = 0.0;
    run(&script, 2, 15, 7.0, results, &done);
    assert_int_equal(done, 3);
}

static void a_failing_sample_ends_with_its_status(void **state)
{
    (void)state;
    struct script script = {.truth = {10, 9}, .fail_at = 5};
    struct measure_result results[ENTRIES_MAX] = {{0}};
    const struct measure_source source = {.data = &script, .sample = scripted, .now = scripted_now};
    struct error error;
    int done;
    assert_int_equal(measure_rounds(&source, 2, 0, 9, 0.0, results, &done, &error), ATTUNE_DEVICE_FAILED);
    assert_string_equal(error.message, "scripted");
    assert_int_equal(done, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_samples_are_discarded),
        cmocka_unit_test(an_entry_without_good_samples_never_wins),
        cmocka_unit_test(ties_go_to_the_default_then_to_the_first),
        cmocka_unit_test(tied_variants_have_one_winner_whatever_the_noise),
        cmocka_unit_test(a_clock_that_halves_changes_no_winner),
        cmocka_unit_test(slower_entries_leave_and_keep_their_times),
        cmocka_unit_test(who_is_within_the_tie_or_was_not_seen_stays),
        cmocka_unit_test(who_has_left_does_not_win),
        cmocka_unit_test(a_course_tells_the_baseline_before_and_after),
        cmocka_unit_test(a_slow_first_round_does_not_count),
        cmocka_unit_test(every_entry_stands_between_two_samples_of_the_baseline),
        cmocka_unit_test(work_of_others_that_comes_and_goes_changes_no_winner),
        cmocka_unit_test(a_deadline_leaves_at_least_one_round),
        cmocka_unit_test(a_failing_sample_ends_with_its_status),
    };
    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
