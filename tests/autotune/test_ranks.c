/* test_ranks.c - who a rank is, what its share is, and one choice from the journals of many. Processes, mpirun and
 * srun: tests/cluster. */
#include "autotune/rank_merge.h"
#include "autotune/ranks.h"
#include "base/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ------------------------------------------------------------------------------------------------ who am I */

static const char *const variables[] = {"OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_STEP_TASKS_PER_NODE",
                                        "SLURM_NODEID",
                                        "OMPI_MCA_orte_precondition_transports",
                                        "OMPI_MCA_ess_base_jobid",
                                        "PMIX_NAMESPACE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMI_JOBID",
                                        "MPI_LOCALRANKID",
                                        "SLURM_PROCID",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NTASKS",
                                        "SLURM_LOCALID",
                                        "SLURM_JOB_ID",
                                        "SLURM_STEP_ID",
                                        "SLURM_CLUSTER_NAME",
                                        "SLURM_RESTART_COUNT"};

static int forget(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        unsetenv(variables[i]);
    }
    return 0;
}

static void say(const char *const pairs[][2])
{
    forget(NULL);
    for (int i = 0; pairs[i][0] != NULL; i++) {
        setenv(pairs[i][0], pairs[i][1], 1);
    }
}

#define SAY(...) say((const char *const[][2]){__VA_ARGS__, {NULL, NULL}})

static void expect(const char *place, const char *job, int rank, int size, int local, const char *name)
{
    struct ranks ranks;
    struct error error = {.message = ""};
    if (ranks_find(place, job, false, &ranks, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(ranks.rank, rank);
    assert_int_equal(ranks.size, size);
    assert_int_equal(ranks.local, local);
    if (size > 1) {
        assert_string_equal(ranks.job, name);
    }
}

/* refused, and the message has both texts in it */
static void expect_refusal(const char *place, const char *job, const char *what, const char *value)
{
    struct ranks ranks;
    struct error error = {.message = ""};
    assert_int_equal(ranks_find(place, job, false, &ranks, &error), ATTUNE_INVALID);
    if (strstr(error.message, what) == NULL || strstr(error.message, value) == NULL) {
        fail_msg("'%s' names neither %s nor %s", error.message, what, value);
    }
}

static void each_launcher_says_rank_size_and_job(void **state)
{
    (void)state;
    forget(NULL);
    expect(NULL, NULL, 0, 1, -1, NULL);
    SAY({"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "12"},
        {"SLURM_STEP_ID", "0"}, {"SLURM_CLUSTER_NAME", "big"});
    expect(NULL, NULL, 2, 3, 1, "Slurm 12.0.big");
    setenv("SLURM_RESTART_COUNT", "1", 1); /* a job that Slurm starts again is another one */
    expect(NULL, NULL, 2, 3, 1, "Slurm 12.0.big.1");
    struct ranks going_on;
    assert_int_equal(ranks_find(NULL, NULL, true, &going_on, NULL), ATTUNE_OK); /* unless it is to go on */
    assert_string_equal(going_on.job, "Slurm 12.0.big");
    SAY({"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_MCA_orte_precondition_transports", "aa-bb"}, {"OMPI_MCA_ess_base_jobid", "77"});
    expect(NULL, NULL, 1, 4, 1, "Open MPI aa-bb.77");
    SAY({"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "prterun-a-5@1"});
    expect(NULL, NULL, 1, 4, -1, "Open MPI prterun-a-5@1");
    SAY({"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_JOBID", "5.0"}, {"MPI_LOCALRANKID", "0"});
    expect(NULL, NULL, 3, 4, 0, "PMI 5.0");
    expect(NULL, "night", 3, 4, 0, "night");
    expect("0/2", "night", 0, 2, -1, "night");
    expect("0/1", NULL, 0, 1, -1, NULL);
}

static void the_inner_launcher_counts(void **state)
{
    (void)state;
    /* mpirun in a Slurm job: its daemons are Slurm's tasks, and the ranks have the daemons' variables too */
    SAY({"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "1"}, {"SLURM_JOB_ID", "12"},
        {"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_MCA_ess_base_jobid", "77"});
    expect(NULL, NULL, 5, 8, -1, "Open MPI 77");
    SAY({"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "1"}, {"SLURM_JOB_ID", "12"}, {"PMI_RANK", "5"},
        {"PMI_SIZE", "8"});
    expect(NULL, NULL, 5, 8, -1, "PMI 12.1");
}

static void one_process_for_a_whole_allocation_is_alone(void **state)
{
    (void)state;
    SAY({"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "12"}); /* a batch script */
    expect(NULL, NULL, 0, 1, -1, NULL);
    setenv("SLURM_STEP_ID", "4294967291", 1);
    expect(NULL, NULL, 0, 1, -1, NULL);
    setenv("SLURM_STEP_ID", "0", 1);
    expect(NULL, NULL, 0, 4, -1, "Slurm 12.0");
}

static int neighbours_of(const char *list, const char *node)
{
    struct ranks ranks;
    SAY({"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "7"}, {"SLURM_STEP_ID", "1"}, {"SLURM_JOB_ID", "12"});
    setenv("SLURM_STEP_TASKS_PER_NODE", list, 1);
    setenv("SLURM_NODEID", node, 1);
    assert_int_equal(ranks_find(NULL, NULL, false, &ranks, NULL), ATTUNE_OK);
    return ranks.neighbours;
}

static void a_machines_ranks_are_counted_where_the_launcher_says(void **state)
{
    (void)state;
    struct ranks ranks;
    assert_int_equal(neighbours_of("7", "0"), 7);
    assert_int_equal(neighbours_of("2(x3),1", "0"), 2);
    assert_int_equal(neighbours_of("2(x3),1", "2"), 2);
    assert_int_equal(neighbours_of("2(x3),1", "3"), 1);
    assert_int_equal(neighbours_of("2(x3),1", "4"), 0);
    const char *const nonsense[] = {"", "x", "(x3)", "2(x", "2(x99999999999999999999),1", "-1", "0", "2,,1"};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        assert_in_range(neighbours_of(nonsense[i], "1"), 0, 2);
    }
    SAY({"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "x"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"});
    assert_int_equal(ranks_find(NULL, NULL, false, &ranks, NULL), ATTUNE_OK);
    assert_int_equal(ranks.neighbours, 3);
}

static void nonsense_is_refused_by_name_and_value(void **state)
{
    (void)state;
    SAY({"SLURM_PROCID", "4"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "0"});
    expect_refusal(NULL, NULL, "SLURM_PROCID=4", "SLURM_NTASKS=4");
    setenv("SLURM_PROCID", "-1", 1);
    expect_refusal(NULL, NULL, "SLURM_PROCID=-1", "0 to 3");
    setenv("SLURM_PROCID", "1x", 1);
    expect_refusal(NULL, NULL, "SLURM_PROCID=1x", "0 to 3");
    setenv("SLURM_PROCID", "1", 1);
    setenv("SLURM_LOCALID", "9", 1);
    expect_refusal(NULL, NULL, "SLURM_LOCALID=9", "SLURM_NTASKS=4");
    unsetenv("SLURM_LOCALID");
    setenv("SLURM_NTASKS", "0", 1);
    expect_refusal(NULL, NULL, "SLURM_NTASKS=0", "1 to");
    setenv("SLURM_NTASKS", "99999999999999999999", 1);
    expect_refusal(NULL, NULL, "SLURM_NTASKS=9999999", "1 to");
    unsetenv("SLURM_NTASKS");
    expect_refusal(NULL, NULL, "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS");
    SAY({"PMI_RANK", "1"}, {"PMI_SIZE", "2"});
    expect_refusal(NULL, NULL, "PMI_RANK=1", "--job");
    forget(NULL);
    expect_refusal("2/2", "night", "--rank 2/2", "0 to 1");
    expect_refusal("1", "night", "--rank 1", "R/N");
    expect_refusal("1/", "night", "--rank 1/", "R/N");
    expect_refusal("/2", "night", "--rank /2", "0 to 1");
    expect_refusal("1/2", NULL, "--rank 1/2", "--job");
    expect_refusal(NULL, "night", "--job night", "--rank");
    expect_refusal("1/2", "", "--job", "1 to 255");
    expect_refusal("1/2", "a\nb", "--job", "control");
}

/* ------------------------------------------------------------------------------------------------ shares and names */

static void every_candidate_has_one_owner_and_shares_are_near_equal(void **state)
{
    (void)state;
    struct ranks ranks = {.size = 7};
    int owned[7] = {0}, candidates = 7000;
    for (int i = 0; i < candidates; i++) {
        char id[CANDIDATE_ID_BYTES];
        snprintf(id, sizeof id, "%012x", (unsigned)i);
        int owner = ranks_owner_of_candidate(&ranks, id);
        assert_in_range(owner, 0, 6);
        assert_int_equal(owner, ranks_owner_of_candidate(&ranks, id));
        owned[owner]++;
    }
    for (int r = 0; r < 7; r++) {
        assert_in_range(owned[r], 850, 1150);
    }
}

static void runs_differ_by_job_problem_size_rank_and_turn_alone(void **state)
{
    (void)state;
    struct ranks one = {.rank = 0, .size = 3, .job = "a"}, other = one, larger = one, named = one;
    char runs[7][RANKS_RUN_BYTES];
    other.rank = 1;
    larger.size = 4;
    snprintf(named.job, sizeof named.job, "b");
    ranks_journal_run(&one, "p", 0, 0, runs[0]);
    ranks_journal_run(&one, "p", 1, 0, runs[1]);
    ranks_journal_run(&one, "p", 0, 1, runs[2]);
    ranks_journal_run(&one, "q", 0, 0, runs[3]);
    ranks_journal_run(&larger, "p", 0, 0, runs[4]);
    ranks_journal_run(&named, "p", 0, 0, runs[5]);
    ranks_record_run(&one, "p", runs[6]);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(strlen(runs[i]), 32);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(runs[i], runs[k]);
        }
    }
    char same[RANKS_RUN_BYTES];
    ranks_journal_run(&other, "p", 0, 0, same); /* as another rank names it */
    assert_string_equal(same, runs[0]);
}

/* ------------------------------------------------------------------------------------------------ one choice */

enum { PLACES = 6 };

struct line {
    int place; /* in the order; PLACES and above: not in it */
    enum journal_stage stage;
    const char *outcome;
    double microseconds;
};

struct journals {
    struct journal_reading readings[4];
    struct journal_outcome outcomes[4][16];
    struct rank_order order;
    char ids[PLACES][CANDIDATE_ID_BYTES];
};

static void name(int place, char *candidate, char id[CANDIDATE_ID_BYTES])
{
    sprintf(candidate, "family/template n=%d", place);
    digest_short(candidate, id);
}

static void prepare(struct journals *all)
{
    char candidate[CANDIDATE_TEXT_BYTES];
    memset(all, 0, sizeof *all);
    for (int i = 0; i < PLACES; i++) {
        name(i, candidate, all->ids[i]);
    }
    all->order = (struct rank_order){.ids = all->ids, .count = PLACES};
}

static void write_lines(struct journals *all, int journal, const struct line *lines, int count)
{
    struct journal_reading *reading = &all->readings[journal];
    *reading = (struct journal_reading){.has_begin = true, .outcomes = all->outcomes[journal], .outcome_count = count};
    for (int i = 0; i < count; i++) {
        struct journal_outcome *outcome = &reading->outcomes[i];
        memset(outcome, 0, sizeof *outcome);
        outcome->stage = lines[i].stage;
        outcome->counts = true;
        for (int k = i + 1; k < count; k++) {
            outcome->counts &= lines[k].place != lines[i].place;
        }
        name(lines[i].place, outcome->what.candidate, outcome->what.id);
        snprintf(outcome->what.outcome, sizeof outcome->what.outcome, "%s", lines[i].outcome);
        outcome->what.microseconds = lines[i].microseconds;
    }
}

#define LINES(all, journal, ...)                                                                                       \
    write_lines(all, journal, (const struct line[]){__VA_ARGS__},                                                      \
                sizeof((const struct line[]){__VA_ARGS__}) / sizeof(struct line))

/* the winner's place, whatever the order of the journals; -1: none */
static int choose(struct journals *all, int count, bool timed, struct rank_choice *kept)
{
    int place = -2;
    for (int turn = 0; turn < count; turn++) {
        struct journal_reading turned[4];
        struct rank_choice choice;
        int found = -1;
        for (int i = 0; i < count; i++) {
            turned[i] = all->readings[(i + turn) % count];
        }
        assert_int_equal(rank_choose(turned, count, &all->order, timed, &choice, NULL), ATTUNE_OK);
        if (choice.found) {
            assert_int_equal(sscanf(choice.candidate, "family/template n=%d", &found), 1);
        }
        assert_true(place == -2 || place == found);
        place = found;
        if (kept != NULL) {
            *kept = choice;
            kept->outcomes = NULL;
        }
        free(choice.outcomes);
    }
    return place;
}

static void a_candidate_counts_by_its_ratio_to_the_default_of_its_journal(void **state)
{
    (void)state;
    static struct journals all;
    static struct rank_choice choice;
    prepare(&all);
    /* the second device runs at half the clock: 120 of 200 there is better than 80 of 100 here */
    LINES(&all, 0, {0, JOURNAL_FINAL, "timed", 100.0}, {1, JOURNAL_FINAL, "timed", 80.0});
    LINES(&all, 1, {0, JOURNAL_FINAL, "timed", 200.0}, {2, JOURNAL_FINAL, "timed", 120.0},
          {3, JOURNAL_FIRST, "wrong", 0.0});
    assert_int_equal(choose(&all, 2, true, &choice), 2);
    assert_true(choice.microseconds == 120.0 && choice.default_microseconds == 200.0);
    assert_int_equal(choice.tried, 4);
    assert_int_equal(choice.verified, 3);
    assert_int_equal(choice.rejected, 1);
    assert_int_equal(choice.timed, 3);
}

static void ties_go_to_the_default_then_to_who_serves_every_length_then_by_name(void **state)
{
    (void)state;
    static struct journals all;
    prepare(&all);
    LINES(&all, 0, {0, JOURNAL_FINAL, "timed", 100.0}, {4, JOURNAL_FINAL, "timed", 80.0});
    LINES(&all, 1, {0, JOURNAL_FINAL, "timed", 100.0}, {2, JOURNAL_FINAL, "timed", 80.3});
    LINES(&all, 2, {0, JOURNAL_FINAL, "timed", 100.0}, {1, JOURNAL_FINAL, "timed", 81.5});
    char second[CANDIDATE_ID_BYTES]; /* the plan's order, which depends on the seed, changes nothing */
    memcpy(second, all.ids[2], sizeof second);
    memcpy(all.ids[2], all.ids[4], sizeof second);
    memcpy(all.ids[4], second, sizeof second);
    assert_int_equal(choose(&all, 3, true, NULL), 2);
    all.outcomes[1][1].what.fixed = true;
    assert_int_equal(choose(&all, 3, true, NULL), 4);
    all.outcomes[0][1].what.fixed = true;
    assert_int_equal(choose(&all, 3, true, NULL), 2);
    LINES(&all, 0, {0, JOURNAL_FINAL, "timed", 100.0}, {4, JOURNAL_FINAL, "timed", 99.2});
    LINES(&all, 1, {0, JOURNAL_FINAL, "timed", 100.0}, {2, JOURNAL_FINAL, "timed", 99.5});
    LINES(&all, 2, {0, JOURNAL_FINAL, "timed", 100.0});
    assert_int_equal(choose(&all, 3, true, NULL), 0);
}

static void first_looks_count_only_where_there_were_no_finals(void **state)
{
    (void)state;
    static struct journals all;
    prepare(&all);
    LINES(&all, 0, {0, JOURNAL_FIRST, "slower", 100.0}, {1, JOURNAL_FIRST, "slower", 50.0},
          {3, JOURNAL_FIRST, "slower", 40.0}, {0, JOURNAL_FINAL, "timed", 100.0}, {1, JOURNAL_FINAL, "timed", 90.0});
    assert_int_equal(choose(&all, 1, true, NULL), 1);
    /* a rank that was killed before its finals */
    LINES(&all, 1, {0, JOURNAL_FIRST, "slower", 100.0}, {5, JOURNAL_FIRST, "slower", 60.0});
    assert_int_equal(choose(&all, 2, true, NULL), 5);
}

static void what_one_rank_found_wrong_no_rank_publishes(void **state)
{
    (void)state;
    static struct journals all;
    prepare(&all);
    LINES(&all, 0, {0, JOURNAL_FINAL, "timed", 100.0}, {1, JOURNAL_FINAL, "timed", 50.0});
    LINES(&all, 1, {0, JOURNAL_FINAL, "timed", 100.0}, {1, JOURNAL_FIRST, "wrong", 0.0},
          {2, JOURNAL_FINAL, "timed", 70.0});
    assert_int_equal(choose(&all, 2, true, NULL), 2);
    LINES(&all, 1, {0, JOURNAL_FIRST, "wrong", 0.0}, {2, JOURNAL_FIRST, "compile-error", 0.0});
    LINES(&all, 0, {0, JOURNAL_FIRST, "right", 0.0}, {2, JOURNAL_FIRST, "right", 0.0});
    assert_int_equal(choose(&all, 2, false, NULL), 2); /* that a compiler is missing somewhere says nothing */
}

static void a_journal_without_a_default_is_measured_by_the_others(void **state)
{
    (void)state;
    static struct journals all;
    prepare(&all);
    LINES(&all, 0, {0, JOURNAL_FINAL, "timed", 100.0}, {1, JOURNAL_FINAL, "timed", 80.0});
    LINES(&all, 1, {2, JOURNAL_FINAL, "timed", 79.0}, {3, JOURNAL_FINAL, "timed", 60.0});
    assert_int_equal(choose(&all, 2, true, NULL), 3);
    LINES(&all, 0, {1, JOURNAL_FINAL, "timed", 80.0}); /* nobody has it: times as they are */
    LINES(&all, 1, {2, JOURNAL_FINAL, "timed", 79.9}, {4, JOURNAL_FINAL, "timed", 110.0});
    assert_int_equal(choose(&all, 2, true, NULL), 1);
}

static void without_times_the_first_right_one_of_the_plan_wins(void **state)
{
    (void)state;
    static struct journals all;
    prepare(&all);
    LINES(&all, 0, {0, JOURNAL_FIRST, "wrong", 0.0}, {4, JOURNAL_FIRST, "right", 0.0});
    LINES(&all, 1, {0, JOURNAL_FIRST, "wrong", 0.0}, {PLACES + 3, JOURNAL_FIRST, "right", 0.0},
          {2, JOURNAL_FIRST, "right", 0.0});
    assert_int_equal(choose(&all, 2, false, NULL), 2);
    LINES(&all, 1, {0, JOURNAL_FIRST, "wrong", 0.0}, {2, JOURNAL_FIRST, "not-tried", 0.0});
    LINES(&all, 0, {0, JOURNAL_FIRST, "wrong", 0.0}, {4, JOURNAL_FIRST, "crashed", 0.0});
    assert_int_equal(choose(&all, 2, false, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_launcher_says_rank_size_and_job),
        cmocka_unit_test(the_inner_launcher_counts),
        cmocka_unit_test(one_process_for_a_whole_allocation_is_alone),
        cmocka_unit_test(a_machines_ranks_are_counted_where_the_launcher_says),
        cmocka_unit_test(nonsense_is_refused_by_name_and_value),
        cmocka_unit_test(every_candidate_has_one_owner_and_shares_are_near_equal),
        cmocka_unit_test(runs_differ_by_job_problem_size_rank_and_turn_alone),
        cmocka_unit_test(a_candidate_counts_by_its_ratio_to_the_default_of_its_journal),
        cmocka_unit_test(ties_go_to_the_default_then_to_who_serves_every_length_then_by_name),
        cmocka_unit_test(first_looks_count_only_where_there_were_no_finals),
        cmocka_unit_test(what_one_rank_found_wrong_no_rank_publishes),
        cmocka_unit_test(a_journal_without_a_default_is_measured_by_the_others),
        cmocka_unit_test(without_times_the_first_right_one_of_the_plan_wins),
    };
    return cmocka_run_group_tests_name("ranks", tests, forget, NULL);
}
