/* test_ranks_timed.c - ranks with times: each a process with a scripted device of its own clock, and one cache. */
#include "autotune/ranks.h"
#include "autotune/tune_on.h"
#include "base/files.h"
#include "loop_family.h"
#include "scripted_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, NO_TOOLCHAIN = 77 };

/* what a rank ends with */
struct answer {
    char winner[CANDIDATE_TEXT_BYTES];
    double winner_microseconds, default_microseconds;
    int tried, adopted, complete, merged;
    char states[RANKS][12];
};

/* loop_r0, the default, takes 100 us, loop_r1 99, ... */
static double truth(const char *kernel, const void *object, size_t bytes)
{
    (void)object, (void)bytes;
    return 100.0 - atoi(strrchr(kernel, '_') + 2);
}

static double half_clock(int launch, int of_function)
{
    (void)launch, (void)of_function;
    return 2.0;
}

/* in a process of its own: the exit code */
static int be_rank(const char *cache, const char *templates, int rank, int size, int other_kind, int answers)
{
    static struct answer answer;
    static struct tune_result result;
    struct generator *generator = NULL;
    struct compiler_pool *pool = NULL;
    struct store *store = NULL;
    struct problem problem;
    struct error error = {0};
    struct driver driver = scripted_driver(truth);
    struct ranks ranks = {.rank = rank, .size = size, .local = -1, .job = "timed"};
    const struct tune_share share = {.ranks = &ranks, .divided = true, .rank = rank};
    const struct tune_options options = {.strategy = "exhaustive", .seed = 1, .share = &share};
    ranks_set_patience(&ranks, 10.0);
    /* whose share has the fastest */
    scripted.pace = rank == 2 ? half_clock : NULL;
    scripted.shared_bytes = rank == other_kind ? 96 * 1024 : 64 * 1024;
    attune_status status =
        generator_create(&(struct generator_options){.template_path = templates}, &generator, &error);
    if (status == ATTUNE_OK) {
        status = compiler_pool_create(NULL, &pool, &error);
    }
    if (status == ATTUNE_OK) {
        status = store_open(cache, &store, &error);
    }
    if (status == ATTUNE_OK) {
        status = problem_parse(generator_schema(generator, "loop"), "loop n=70", &problem, &error);
    }
    if (status == ATTUNE_OK) {
        status = tune_run_on(&driver, 0, generator, pool, store, &problem, &options, NULL, NULL, &result, &error);
    }
    if (status != ATTUNE_OK) {
        print_message("rank %d: %s\n", rank, error.message);
        return status == ATTUNE_NO_TOOLCHAIN ? NO_TOOLCHAIN : 1;
    }
    snprintf(answer.winner, sizeof answer.winner, "%s", result.record.candidate);
    answer.winner_microseconds = result.record.winner_microseconds;
    answer.default_microseconds = result.record.default_microseconds;
    answer.tried = result.record.tried;
    answer.adopted = result.adopted;
    answer.complete = result.record.complete;
    for (int i = 0; i < result.peer_count; i++) {
        snprintf(answer.states[result.peers[i].rank], sizeof answer.states[0], "%s", result.peers[i].state);
        answer.merged += result.peers[i].merged;
    }
    bool told = write(answers, &answer, sizeof answer) == sizeof answer;
    tune_result_free(&result);
    store_close(store);
    compiler_pool_destroy(pool);
    generator_destroy(generator);
    return told ? 0 : 1;
}

/* all ranks of a job of its own at once */
static void run_ranks(int size, int other_kind, struct answer *answers)
{
    char cache[512], templates[512];
    int pipes[RANKS][2], status, missing = 0, failed = 0;
    pid_t children[RANKS];
    assert_int_equal(folder_temporary(cache, sizeof cache, NULL), ATTUNE_OK);
    assert_int_equal(folder_temporary(templates, sizeof templates, NULL), ATTUNE_OK);
    generator_destroy(
        loop_family(templates, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19", "1"));
    for (int r = 0; r < size; r++) {
        assert_int_equal(pipe(pipes[r]), 0);
        children[r] = fork();
        assert_true(children[r] >= 0);
        if (children[r] == 0) {
            _exit(be_rank(cache, templates, r, size, other_kind, pipes[r][1]));
        }
        close(pipes[r][1]);
    }
    for (int r = 0; r < size; r++) {
        failed += !file_read_fully(pipes[r][0], &answers[r], sizeof answers[r]);
        close(pipes[r][0]);
        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        missing += WIFEXITED(status) && WEXITSTATUS(status) == NO_TOOLCHAIN;
    }
    folder_remove(cache);
    folder_remove(templates);
    if (missing > 0) {
        skip();
    }
    assert_int_equal(failed, 0);
}

static void the_best_ratio_of_all_ranks_wins_whatever_their_clocks(void **state)
{
    static struct answer answers[RANKS];
    (void)state;
    run_ranks(RANKS, -1, answers);
    int adopted = 0;
    for (int r = 0; r < RANKS; r++) {
        assert_string_equal(answers[r].winner, "loop/plain mode=19 alias=1");
        /* both times of one journal, so of one clock */
        assert_true(fabs(answers[r].winner_microseconds / answers[r].default_microseconds - 0.81) < 1e-3);
        assert_true(answers[r].winner_microseconds == answers[0].winner_microseconds);
        assert_int_equal(answers[r].tried, 20);
        assert_int_equal(answers[r].merged, RANKS - 1);
        assert_true(answers[r].complete);
        adopted += answers[r].adopted;
    }
    assert_int_equal(adopted, RANKS - 1);
}

static void ranks_on_another_kind_of_device_are_left_out(void **state)
{
    static struct answer answers[RANKS];
    (void)state;
    run_ranks(RANKS, 2, answers);
    assert_string_equal(answers[0].states[1], "answered");
    assert_string_equal(answers[0].states[2], "elsewhere");
    assert_string_equal(answers[2].states[0], "elsewhere");
    assert_string_equal(answers[2].states[1], "elsewhere");
    assert_string_equal(answers[0].winner, answers[1].winner);
    assert_int_equal(answers[0].merged, 1);
    assert_int_equal(answers[2].merged, 0);
    assert_false(answers[0].complete || answers[2].complete);
    assert_false(answers[2].adopted); /* the first of its kind, and its only one */
    /* nobody saw all: the default belongs to both kinds */
    assert_int_equal(answers[0].tried + answers[2].tried, 20 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_ratio_of_all_ranks_wins_whatever_their_clocks),
        cmocka_unit_test(ranks_on_another_kind_of_device_are_left_out),
    };
    return cmocka_run_group_tests_name("ranks_timed", tests, NULL, NULL);
}
