/* What is told of runs whose counts and times are known by hand: by the report's page, `cache journals`, `cache ls` and
 * `explain` of a store whose device is not here. */
#include "report_parts.h"

#include "autotune/ranks.h"
#include "base/digest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_outcome(struct journal *journal, const char *candidate, const char *what, double microseconds)
{
    struct tune_outcome outcome = {.microseconds = microseconds, .registers = -1};
    snprintf(outcome.candidate, sizeof outcome.candidate, "%s", candidate);
    digest_short(candidate, outcome.id);
    snprintf(outcome.outcome, sizeof outcome.outcome, "%s", what);
    journal_write_outcome(journal, JOURNAL_FIRST, &outcome);
}

static struct store *begin_journal(const char *folder, struct journal *journal)
{
    struct journal_begin begin = {.candidates = 10, .started = 1790000000};
    struct error error = {.message = ""};
    struct store *store = open_store(folder);
    snprintf(begin.run, sizeof begin.run, RUN);
    snprintf(begin.problem, sizeof begin.problem, "t n=1");
    snprintf(begin.device, sizeof begin.device, "A GPU");
    snprintf(begin.target, sizeof begin.target, "gfx906");
    assert_int_equal(journal_open(journal, store, RUN, &error), ATTUNE_OK);
    journal_write_begin(journal, &begin);
    return store;
}

static const json_t *parameter_of(const json_t *result, const char *name)
{
    size_t index;
    json_t *row;
    json_array_foreach(json_object_get(result, "parameters"), index, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0) {
            return row;
        }
    }
    fail_msg("no parameter %s", name);
    return NULL;
}

/* a=2 costs a tenth with all else equal, though it is faster on the whole; b=9 was timed once, and was slow */
static void what_was_timed_too_seldom_decides_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *candidate;
        double microseconds;
    } timed[] = {{"t/p a=1 b=1", 100}, {"t/p a=2 b=1", 110}, {"t/p a=1 b=2", 200}, {"t/p a=2 b=2", 220},
                 {"t/p a=1 b=3", 400}, {"t/p a=2 b=3", 440}, {"t/p a=1 b=9", 999}, {"t/p a=2 b=4", 50},
                 {"t/p a=2 b=5", 50},  {"t/p a=2 b=6", 50}};
    struct journal journal;
    struct store *store = begin_journal(scratch("seldom"), &journal);
    for (size_t i = 0; i < sizeof timed / sizeof timed[0]; i++) {
        write_outcome(&journal, timed[i].candidate, "slower", timed[i].microseconds);
    }
    journal_close(&journal);
    store_close(store);
    attune("cache", "report", "--store", scratch("seldom"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *result = json_array_get(json_object_get(answer(), "results"), 0);
    const json_t *a = parameter_of(result, "a"), *b = parameter_of(result, "b"), *row;
    assert_true(fabs(json_real_value(json_object_get(a, "effect")) - 1.1) < 1e-9);
    assert_int_equal(json_integer_value(json_object_get(a, "comparisons")), 3);
    assert_true(json_real_value(json_object_get(a, "span")) == 2.0); /* the best of a=1 by the best of all */
    assert_true(json_real_value(json_object_get(b, "effect")) == 0.0);
    assert_true(json_real_value(json_object_get(b, "span")) == 0.0); /* no value of b was timed three times */
    size_t index;
    json_array_foreach(json_object_get(b, "values"), index, *(json_t **)&row)
    {
        assert_true(json_is_true(json_object_get(row, "few")));
    }
    assert_int_equal(index, 7);
    report_page(scratch("seldom"), scratch("seldom.html"));
    static const char *const texts[] = {
        "the parameter that matters most here: with all else equal its "
        "slowest value takes ×1.10 the time of its fastest, the median of 3 comparisons",
        "Values marked * were timed less than three times", NULL};
    if (!page_is_whole(scratch("seldom.html"), texts)) {
        skip();
    }
}

/* within a tie a rule decides, and a first look says little: the page says so where rank 1 is not the fastest */
static void a_winner_that_is_not_the_fastest_is_explained(void **state)
{
    (void)state;
    static const char tie[] = "Rank 1 is the winner. It need not have the least time",
                      look[] = "A first look is a few launches";
    for (int i = 0; i < 3; i++) {
        struct journal journal;
        struct store *store = begin_journal(scratch("tie"), &journal);
        struct journal_end end = {.complete = true, .seconds = 67.8, .winner_microseconds = 100};
        write_outcome(&journal, "t/p a=1", "timed", 100);
        write_outcome(&journal, "t/p a=2", i == 1 ? "timed" : "slower", i == 0 ? 101 : 99.5);
        snprintf(end.winner, sizeof end.winner, "t/p a=1");
        journal_write_end(&journal, &end);
        journal_close(&journal);
        store_close(store);
        report_page(scratch("tie"), scratch("tie.html"));
        char *page = bytes_of(scratch("tie.html"));
        assert_true((strstr(page, tie) != NULL) == (i == 1));
        assert_true((strstr(page, look) != NULL) == (i == 2));
        assert_non_null(strstr(page, "ran for 68 s, its search came to its end"));
        free(page);
        attune_in_shell("rm -r \"${ATTUNE_CACHE%/*}/tie\"");
    }
}

static void write_rank(struct store *store, int rank)
{
    struct ranks ranks = {.rank = rank, .size = 2, .job = "monday"};
    struct journal journal;
    struct journal_begin begin = {.candidates = 4 + rank, .space = 8, .started = 1790000000, .seed = 9};
    struct journal_end end = {.seconds = 12.5 + rank, .looks = 2, .winner_microseconds = 90};
    struct error error = {.message = ""};
    snprintf(begin.problem, sizeof begin.problem, "t n=1");
    snprintf(begin.name, sizeof begin.name, "shared");
    snprintf(begin.device, sizeof begin.device, "A GPU");
    snprintf(begin.target, sizeof begin.target, "gfx906");
    snprintf(begin.rank, sizeof begin.rank, "%d/2 monday", rank);
    snprintf(end.winner, sizeof end.winner, "t/p a=2");
    ranks_journal_run(&ranks, begin.problem, rank, 0, begin.run);
    assert_int_equal(journal_open(&journal, store, begin.run, &error), ATTUNE_OK);
    journal_write_begin(&journal, &begin);
    write_outcome(&journal, "t/p a=1", "slower", 100);
    write_outcome(&journal, rank == 0 ? "t/p a=2" : "t/p a=3", "slower", 90 + rank);
    write_outcome(&journal, rank == 0 ? "t/p a=4" : "t/p a=5", "resources", 0);
    journal_write_end(&journal, &end);
    journal_close(&journal);
}

/* ranks that shared a problem: all together looked at three of eight, and five came to an outcome */
static void a_job_counts_the_same_wherever_it_is_told_of(void **state)
{
    (void)state;
    struct store *store = open_store(scratch("job"));
    write_rank(store, 0);
    write_rank(store, 1);
    store_close(store);
    report_page(scratch("job"), scratch("job.html"));
    char *page = bytes_of(scratch("job.html"));
    assert_non_null(strstr(page, "looked at 3 of 8 candidates, tried 5, by 2 ranks of one job"));
    assert_non_null(strstr(page, "<td class=\"n\">3 of 8</td>"));
    free(page);
    attune("cache", "journals", "--store", scratch("job"), "--json", NULL);
    const json_t *jobs = json_object_get(answer(), "jobs"), *job = json_array_get(jobs, 0);
    assert_int_equal(json_array_size(jobs), 1);
    assert_int_equal(json_array_size(json_object_get(answer(), "runs")), 2);
    assert_int_equal(json_integer_value(json_object_get(job, "looks")), 3);
    assert_int_equal(json_integer_value(json_object_get(job, "tried")), 5);
    assert_int_equal(json_integer_value(json_object_get(job, "candidates")), 8);
    assert_int_equal(json_integer_value(json_object_get(job, "journals")), 2);
    attune("cache", "journals", "--store", scratch("job"), NULL);
    says("13.5     9     3 of 8      5");
    says("2 ranks of one job: shared: t n=1");
    says("12.5     9     2 of 4      3");
    says("rank 0/2 of the job: shared: t n=1");
    says("13.5     9     2 of 5      3");
}

static void journals_of_one_problem_are_listed_when_asked_for(void **state)
{
    (void)state;
    static const char problem[] = "dtype=f16 heads=32 kv_heads=8 seqlen_q=2048 head_dim=128 causal=1";
    attune("cache", "journals", "--store", scratch("one"), "--json", NULL);
    assert_int_equal(json_array_size(json_object_get(answer(), "runs")), 8);
    attune("cache", "journals", "--store", scratch("one"), "--problem", problem, "--json", NULL);
    assert_int_equal(json_array_size(json_object_get(answer(), "runs")), 1);
    attune("cache", "journals", "--store", scratch("one"), "--problem", problem, NULL);
    says("  dtype=f16 batch=1 heads=32 kv_heads=8 seqlen_q=2048 head_dim=128 causal=bottom_right");
    attune("cache", "journals", "--store", scratch("one"), NULL);
    size_t longest = 0, length = 0;
    for (const char *at = buffer_string(&attune("cache", "journals", "--store", scratch("one"), NULL)->output);
         *at != '\0'; at++) {
        length = *at == '\n' ? 0 : length + 1;
        longest = length > longest ? length : longest;
    }
    assert_true(longest < 360); /* every kind of failure at once; a name in full is 200 more */
}

/* by kind, target and problem, each with its run */
static void records_are_listed_in_order(void **state)
{
    (void)state;
    attune("cache", "ls", "--store", scratch("one"), "--json", NULL);
    const json_t *entries = json_object_get(answer(), "entries"), *row;
    char before[PROBLEM_TEXT_BYTES + TARGET_TEXT_BYTES] = "";
    size_t index;
    json_array_foreach(entries, index, *(json_t **)&row)
    {
        char now[sizeof before];
        snprintf(now, sizeof now, "%s %s", json_string_value(json_object_get(row, "target")),
                 json_string_value(json_object_get(row, "problem")));
        assert_true(strcmp(before, now) <= 0);
        memcpy(before, now, sizeof before);
        assert_int_equal(strlen(json_string_value(json_object_get(row, "run"))), 32);
    }
    assert_int_equal(index, 6);
}

/* where none is complete: who tried most, though others are newer */
static void of_incomplete_runs_the_longest_is_shown(void **state)
{
    (void)state;
    static const struct {
        const char *run;
        int tried;
    } runs[] = {{RUN, 20}, {"22222222222222222222222222222222", 40}, {"33333333333333333333333333333333", 10}};
    struct fake_run run = a_run();
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        run.run = runs[i].run;
        run.looked_at = runs[i].tried;
        run.started += 1000;
        one_run(scratch("short"), &run);
    }
    attune("cache", "report", "--store", scratch("short"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *result = json_array_get(json_object_get(answer(), "results"), 0);
    assert_string_equal(json_string_value(json_object_get(result, "run")), "22222222222222222222222222222222");
    attune("explain", "--store", scratch("short"), "--target", "gfx906", "--problem", SMALL, "--json", NULL);
    exits_with(EXIT_IS_DONE);
    assert_string_equal(json_string_value(json_object_get(json_object_get(answer(), "tuning"), "run")),
                        "22222222222222222222222222222222"); /* the same */
}

/* a store of a machine that is not here, with nothing of that machine but its folder */
static void a_store_is_explained_without_its_device(void **state)
{
    (void)state;
    static const char problem[] = "dtype=f16 heads=32 kv_heads=8 seqlen_q=2048 head_dim=128 causal=1";
    attune("explain", "--store", scratch("one"), "--target", "sm_90a", "--problem", problem, "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *plan = json_object_get(answer(), "plan"), *tuning = json_object_get(answer(), "tuning");
    assert_string_equal(json_string_value(json_object_get(plan, "rung")), "exact");
    assert_int_equal(strlen(json_string_value(json_object_get(plan, "id"))), 12);
    assert_string_equal(json_string_value(json_object_get(answer(), "device_name")), "An Invented GPU 140GB");
    assert_string_equal(json_string_value(json_object_get(tuning, "journal")), "there");
    assert_int_equal(json_array_size(json_object_get(tuning, "nearest")), 10);
    attune("explain", "--store", scratch("one"), "--target", "sm_90a", "--problem", problem, NULL);
    says("as for An Invented GPU 140GB, by the store's records; nothing is loaded");
    says("why: tuned on this device for this problem");
    attune("explain", "--store", scratch("one"), "--target", "gfx906", "--problem", problem, NULL);
    exits_with(EXIT_IS_DONE);
    says("nothing was tuned on a device of this target");
    says("no plan is stored");
    attune("explain", "--store", scratch("one"), "--target", "sm_90a", "--device", "host", "--problem", problem, NULL);
    exits_with(EXIT_IS_USAGE);
    complains("give one of them");
}

static int set_up(void **state)
{
    return program_setup(state) == 0 && fake_store_make(scratch("one"), 100) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_timed_too_seldom_decides_nothing),
        cmocka_unit_test(a_winner_that_is_not_the_fastest_is_explained),
        cmocka_unit_test(a_job_counts_the_same_wherever_it_is_told_of),
        cmocka_unit_test(journals_of_one_problem_are_listed_when_asked_for),
        cmocka_unit_test(records_are_listed_in_order),
        cmocka_unit_test(of_incomplete_runs_the_longest_is_shown),
        cmocka_unit_test(a_store_is_explained_without_its_device),
    };
    return cmocka_run_group_tests(tests, set_up, program_teardown);
}
