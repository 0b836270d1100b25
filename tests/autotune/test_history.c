/* What tuning left in a store, looked back at: which runs there are and how each went, who stands among a run's
 * candidates and what kept the others out. */
#include "autotune/history.h"

#include "autotune/ranks.h"
#include "base/digest.h"
#include "base/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RUN_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define RUN_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define RUN_C "cccccccccccccccccccccccccccccccc"

static struct tune_outcome outcome_of(const char *name, const char *what, double microseconds, const char *reason)
{
    struct tune_outcome outcome = {.microseconds = microseconds};
    snprintf(outcome.candidate, sizeof outcome.candidate, "t/a %s", name);
    digest_short(outcome.candidate, outcome.id);
    snprintf(outcome.outcome, sizeof outcome.outcome, "%s", what);
    snprintf(outcome.reason, sizeof outcome.reason, "%s", reason);
    return outcome;
}

static void write_run(struct store *store, const char *run, int64_t started, const char *winner, bool complete)
{
    struct journal journal;
    struct error error = {.message = ""};
    struct journal_begin begin = {.candidates = 3, .started = started};
    snprintf(begin.run, sizeof begin.run, "%s", run);
    snprintf(begin.problem, sizeof begin.problem, "t n=1");
    snprintf(begin.device, sizeof begin.device, "a device");
    snprintf(begin.target, sizeof begin.target, "gfx906");
    assert_int_equal(journal_open(&journal, store, run, &error), ATTUNE_OK);
    journal_write_begin(&journal, &begin);
    struct tune_outcome outcome = outcome_of("x=1", "timed", 3.0, "");
    journal_write_outcome(&journal, JOURNAL_FIRST, &outcome);
    if (winner != NULL) {
        struct journal_end end = {.complete = complete};
        snprintf(end.winner, sizeof end.winner, "%s", winner);
        journal_write_end(&journal, &end);
    }
    journal_close(&journal);
}

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[4096];
    struct error error = {.message = ""};
    assert_int_equal(path_join(path, sizeof path, folder, name, &error), ATTUNE_OK);
    assert_int_equal(file_publish(path, text, strlen(text), &error), ATTUNE_OK);
}

static void runs_come_in_the_order_in_which_they_began(void **state)
{
    struct store *store = NULL;
    struct history history;
    struct error error = {.message = ""};
    assert_int_equal(store_open(*state, &store, &error), ATTUNE_OK);
    write_run(store, RUN_A, 3000, "t/a x=1", true);
    write_run(store, RUN_B, 1000, "t/a x=1", false);
    write_run(store, RUN_C, 2000, NULL, false);
    put_file(*state, "journals/dddddddddddddddddddddddddddddddd.jsonl", "nothing\n");
    put_file(*state, "journals/notes.txt", "nothing\n");
    assert_int_equal(history_read(store, &history, &error), ATTUNE_OK);
    assert_int_equal(history.run_count, 5);
    static const char *const states[] = {"unreadable", "unreadable", "stopped", "killed", "ended"};
    for (int i = 0; i < 5; i++) { /* those that do not say when come first */
        assert_string_equal(history_state(&history.runs[i]), states[i]);
        assert_true((history.runs[i].reason[0] != '\0') == (i < 2));
    }
    assert_string_equal(history.runs[2].run, RUN_B);
    assert_string_equal(history.runs[4].run, RUN_A);
    assert_ptr_equal(history_find(&history, RUN_C), &history.runs[3]);
    assert_null(history_find(&history, "0123"));
    history_free(&history);
    assert_int_equal(history_read_runs(store, &history, &error), ATTUNE_OK);
    assert_int_equal(history.run_count, 5);
    history_free(&history);
    store_close(store);
}

static void outcomes_are_read_of_the_run_that_is_named(void **state)
{
    struct store *store = NULL;
    struct journal_reading reading;
    struct error error = {.message = ""};
    char from[4096], to[4096];
    assert_int_equal(store_open(*state, &store, &error), ATTUNE_OK);
    write_run(store, RUN_A, 1, "", false);
    assert_int_equal(history_outcomes(store, RUN_A, &reading, &error), ATTUNE_OK);
    assert_int_equal(reading.outcome_count, 1);
    struct history_run run = {.reading = reading};
    assert_string_equal(history_state(&run), "failed");
    journal_reading_free(&reading);
    assert_int_equal(history_outcomes(store, RUN_B, &reading, &error), ATTUNE_NOT_FOUND);
    snprintf(from, sizeof from, "%s/journals/" RUN_A ".jsonl", (const char *)*state);
    snprintf(to, sizeof to, "%s/journals/" RUN_B ".jsonl", (const char *)*state);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(history_outcomes(store, RUN_B, &reading, &error), ATTUNE_CORRUPT);
    assert_non_null(strstr(error.message, "it is the journal of run " RUN_A));
    store_close(store);
}

/* a rank's journal: the default in `standard` µs, one candidate more in `other` */
static void write_rank(struct store *store, const struct ranks *ranks, const char *name, double standard, double other,
                       bool ended)
{
    struct journal journal;
    struct error error = {.message = ""};
    struct journal_begin begin = {.candidates = 4, .space = 9, .started = 1000 + ranks->rank};
    snprintf(begin.problem, sizeof begin.problem, "t n=1");
    snprintf(begin.device, sizeof begin.device, "a device");
    snprintf(begin.target, sizeof begin.target, "gfx906");
    snprintf(begin.rank, sizeof begin.rank, "%d/%d %s", ranks->rank, ranks->size, ranks->job);
    ranks_journal_run(ranks, begin.problem, ranks->rank, 0, begin.run);
    assert_int_equal(journal_open(&journal, store, begin.run, &error), ATTUNE_OK);
    journal_write_begin(&journal, &begin);
    struct tune_outcome outcome = outcome_of("x=0", "timed", standard, "");
    journal_write_outcome(&journal, JOURNAL_FIRST, &outcome);
    outcome = outcome_of(name, "timed", other, "");
    journal_write_outcome(&journal, JOURNAL_FIRST, &outcome);
    outcome = outcome_of(ranks->rank == 0 ? "x=2" : "x=1", "not-tried", 0.0, "");
    journal_write_outcome(&journal, JOURNAL_FIRST, &outcome);
    if (ended) {
        struct journal_end end = {.complete = ranks->rank == 0, .looks = 2};
        snprintf(end.winner, sizeof end.winner, "t/a x=1");
        journal_write_end(&journal, &end);
    }
    journal_close(&journal);
}

static void the_ranks_of_a_job_are_one_run(void **state)
{
    struct store *store = NULL;
    struct history history;
    struct journal_reading reading;
    struct standings standings;
    struct error error = {.message = ""};
    struct ranks ranks = {.size = 2, .job = "a job, with blanks"};
    char record[33];
    int count = 0;
    assert_int_equal(store_open(*state, &store, &error), ATTUNE_OK);
    write_rank(store, &ranks, "x=1", 10.0, 8.0, true);
    ranks.rank = 1; /* on a device that is half as fast */
    write_rank(store, &ranks, "x=2", 20.0, 12.0, true);
    write_run(store, RUN_A, 3000, "t/a x=9", true);
    ranks_record_run(&ranks, "t n=1", record);
    assert_int_equal(history_read_runs(store, &history, &error), ATTUNE_OK);
    assert_string_equal(history_find(&history, record)->reading.begin.rank, "0/2 a job, with blanks");
    assert_int_equal(history_gather(store, &history, record, &reading, &count, &error), ATTUNE_OK);
    assert_int_equal(count, 2);
    assert_int_equal(reading.outcome_count, 3); /* the default once; not-tried by one, timed by the other */
    assert_true(reading.has_end && !reading.end.complete);
    assert_int_equal(reading.end.looks, 3);        /* all three were timed, one of them by both */
    assert_int_equal(reading.begin.candidates, 9); /* that is what both say there are */
    assert_int_equal(standings_make(&reading, &standings, &error), ATTUNE_OK);
    assert_string_equal(standings.fastest[0]->candidate, "t/a x=2");
    assert_true(standings.fastest[0]->microseconds == 6.0); /* 12 of 20, where the default takes 10 */
    assert_true(standings.fastest[1]->microseconds == 8.0);
    assert_true(standings.fastest[2]->microseconds == 10.0);
    standings_free(&standings);
    journal_reading_free(&reading);
    assert_int_equal(history_gather(store, &history, RUN_A, &reading, &count, &error), ATTUNE_OK);
    assert_int_equal(count, 1);
    journal_reading_free(&reading);
    assert_int_equal(history_gather(store, &history, RUN_B, &reading, &count, &error), ATTUNE_NOT_FOUND);
    history_free(&history);
    store_close(store);
}

/* a reading of these outcomes, each of the first stage and counting; on the caller's memory */
static struct journal_reading reading_of(struct journal_outcome *outcomes, int count)
{
    for (int i = 0; i < count; i++) {
        outcomes[i].counts = true;
    }
    return (struct journal_reading){.outcomes = outcomes, .outcome_count = count};
}

static void those_that_stand_are_in_the_order_of_their_times(void **state)
{
    (void)state;
    struct journal_outcome outcomes[] = {
        {.what = outcome_of("x=1", "slower", 5.0, "")}, {.what = outcome_of("x=2", "timed", 4.0, "")},
        {.what = outcome_of("x=3", "same", 4.5, "")},   {.what = outcome_of("x=4", "wrong", 0.0, "row 3")},
        {.what = outcome_of("x=5", "same", 0.0, "")},   {.what = outcome_of("x=6", "not-tried", 0.0, "")},
        {.what = outcome_of("x=7", "timed", 4.0, "")},  {.what = outcome_of("x=8", "strange", 1.0, "")},
    };
    struct journal_reading reading = reading_of(outcomes, 8);
    struct standings standings;
    struct error error = {.message = ""};
    outcomes[0].counts = false; /* a later stage says more */
    assert_int_equal(standings_make(&reading, &standings, &error), ATTUNE_OK);
    assert_int_equal(standings.fastest_count, 3);
    assert_int_equal(standings.timed, 3);
    assert_ptr_equal(standings.fastest[0], &outcomes[1].what); /* of equals the earlier one */
    assert_ptr_equal(standings.fastest[1], &outcomes[6].what);
    assert_ptr_equal(standings.fastest[2], &outcomes[2].what);
    assert_int_equal(standings.tried, 6);
    assert_int_equal(standings.looks, 3); /* two timed, one wrong */
    assert_int_equal(standings.out_count, 4);
    int out = 0;
    for (int i = 0; i < standings.out_count; i++) {
        out += standings.out[i].count;
    }
    assert_int_equal(out, 4);
    standings_free(&standings);
}

/* where nothing is timed a twin stands as its other does */
static void a_twin_of_one_that_is_right_stands(void **state)
{
    (void)state;
    struct journal_outcome outcomes[] = {
        {.what = outcome_of("x=1", "right", 0.0, "")},
        {.what = outcome_of("x=2", "wrong", 0.0, "")},
        {.what = outcome_of("x=3", "same", 0.0, "")},
        {.what = outcome_of("x=4", "same", 0.0, "")},
    };
    struct journal_reading reading = reading_of(outcomes, 4);
    struct standings standings;
    struct error error = {.message = ""};
    for (int i = 0; i < 4; i++) {
        snprintf(outcomes[i].what.binary, sizeof outcomes[i].what.binary, "%02d", i % 2);
    }
    assert_int_equal(standings_make(&reading, &standings, &error), ATTUNE_OK);
    assert_int_equal(standings.fastest_count, 2);
    assert_int_equal(standings.timed, 0);
    assert_ptr_equal(standings.fastest[1], &outcomes[2].what);
    standings_free(&standings);
}

static void reasons_that_differ_by_numbers_are_one(void **state)
{
    (void)state;
    struct journal_outcome outcomes[] = {
        {.what = outcome_of("x=1", "hung", 0.0, "a launch took 10 s")},
        {.what = outcome_of("x=2", "wrong", 0.0, "row 7: error 1.5e-03")},
        {.what = outcome_of("x=3", "wrong", 0.0, "column 7")},
        {.what = outcome_of("x=4", "wrong", 0.0, "row 129: error 2")},
        {.what = outcome_of("x=5", "wrong", 0.0, "row 0: error 12.25")},
        {.what = outcome_of("x=6", "wrong", 0.0, "")},
    };
    struct journal_reading reading = reading_of(outcomes, 6);
    struct standings standings;
    struct error error = {.message = ""};
    assert_int_equal(standings_make(&reading, &standings, &error), ATTUNE_OK);
    assert_int_equal(standings.out_count, 2);
    const struct history_kind *wrong = &standings.out[0]; /* the more frequent kind comes first */
    assert_string_equal(wrong->outcome, "wrong");
    assert_int_equal(wrong->count, 5);
    assert_int_equal(wrong->reason_count, 3);
    assert_int_equal(wrong->reasons[0].count, 3);
    assert_ptr_equal(wrong->reasons[0].example, &outcomes[1].what);
    assert_ptr_equal(wrong->reasons[1].example, &outcomes[2].what); /* of equals the earlier one */
    assert_int_equal(standings.out[1].reason_count, 1);
    standings_free(&standings);
}

static void a_candidate_is_found_by_name_or_the_head_of_its_id(void **state)
{
    (void)state;
    enum { COUNT = 400 };
    static struct journal_outcome outcomes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "x=%d", i);
        outcomes[i].what = outcome_of(name, "timed", 1.0, "");
    }
    struct journal_reading reading = reading_of(outcomes, COUNT);
    const struct tune_outcome *what = &outcomes[123].what;
    char head[CANDIDATE_ID_BYTES];
    assert_ptr_equal(standings_find(&reading, what->candidate), what);
    assert_ptr_equal(standings_find(&reading, what->id), what);
    snprintf(head, sizeof head, "%.9s", what->id);
    assert_ptr_equal(standings_find(&reading, head), what);
    head[1] = '\0'; /* 400 of them, 16 digits */
    assert_null(standings_find(&reading, head));
    assert_null(standings_find(&reading, ""));
    assert_null(standings_find(&reading, "t/a x=400"));
}

static int set_up(void **state)
{
    struct error error;
    *state = malloc(4096);
    return *state != NULL && folder_temporary(*state, 4096, &error) == ATTUNE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    folder_remove(*state);
    free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(runs_come_in_the_order_in_which_they_began, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outcomes_are_read_of_the_run_that_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_ranks_of_a_job_are_one_run, set_up, tear_down),
        cmocka_unit_test(those_that_stand_are_in_the_order_of_their_times),
        cmocka_unit_test(a_twin_of_one_that_is_right_stands),
        cmocka_unit_test(reasons_that_differ_by_numbers_are_one),
        cmocka_unit_test(a_candidate_is_found_by_name_or_the_head_of_its_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
