/* test_rank_wait.c - what the journal of another rank says of it: answered, lost, absent, elsewhere, or at work. */
#include "autotune/rank_wait.h"
#include "base/files.h"
#include "cache/store.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    char folder[256];
    struct store *store;
    struct ranks ranks;
};

static int open_place(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    assert_int_equal(folder_temporary(place->folder, sizeof place->folder, NULL), ATTUNE_OK);
    assert_int_equal(store_open(place->folder, &place->store, NULL), ATTUNE_OK);
    place->ranks = (struct ranks){.rank = 0, .size = 2, .job = "waiting"};
    ranks_set_patience(&place->ranks, 0.2);
    *state = place;
    return 0;
}

static int close_place(void **state)
{
    struct place *place = *state;
    store_close(place->store);
    folder_remove(place->folder);
    free(place);
    return 0;
}

static void begin_journal(struct place *place, struct journal *journal, int rank)
{
    struct journal_begin begin = {.problem = "p",
                                  .device = "d",
                                  .target = "host",
                                  .driver = "x",
                                  .candidates = 3,
                                  .fingerprint = "host-2cu-64k-4g"};
    ranks_journal_run(&place->ranks, "p", rank, 0, begin.run);
    assert_int_equal(journal_open(journal, place->store, begin.run, NULL), ATTUNE_OK);
    journal_write_begin(journal, &begin);
}

static enum rank_state wait_for(struct place *place, const char *fingerprint)
{
    struct rank_watch watch;
    rank_watch_begin(&watch, &place->ranks, "p", 1, 0);
    rank_watch_all(&watch, 1, place->store, &place->ranks.patience, fingerprint, NULL);
    enum rank_state state = watch.state;
    rank_watch_free(&watch);
    return state;
}

static void a_journal_answers_by_its_end_and_is_lost_without_a_writer(void **state)
{
    struct place *place = *state;
    struct journal journal;
    struct journal_end end = {.winner = "", .complete = true};
    assert_int_equal(wait_for(place, NULL), RANK_ABSENT);
    begin_journal(place, &journal, 1);
    journal_close(&journal); /* as the system does for who is killed */
    assert_int_equal(wait_for(place, "host-2cu-64k-4g"), RANK_LOST);
    assert_int_equal(wait_for(place, "host-8cu-64k-4g"), RANK_ELSEWHERE);
    char run[RANKS_RUN_BYTES];
    ranks_journal_run(&place->ranks, "p", 1, 0, run);
    assert_int_equal(journal_open(&journal, place->store, run, NULL), ATTUNE_OK);
    journal_write_end(&journal, &end);
    journal_close(&journal);
    assert_int_equal(wait_for(place, "host-2cu-64k-4g"), RANK_ANSWERED);
}

static void a_journal_that_is_held_is_waited_for_longer(void **state)
{
    struct place *place = *state;
    struct journal journal;
    struct rank_watch watch;
    begin_journal(place, &journal, 1);
    place->ranks.patience.stall = 3600.0;
    place->ranks.patience.silence = 0.0;
    rank_watch_begin(&watch, &place->ranks, "p", 1, 0);
    for (int i = 0; i < 20; i++) {
        usleep(2000);
        rank_watch_look(&watch, place->store, &place->ranks.patience, NULL);
    }
    assert_int_equal(watch.state, RANK_AWAITED);
    journal_close(&journal);
    usleep(2000);
    rank_watch_look(&watch, place->store, &place->ranks.patience, NULL);
    assert_int_equal(watch.state, RANK_LOST);
    rank_watch_free(&watch);
}

static void work_that_is_claimed_held_or_ended_is_in_hand_and_what_died_is_not(void **state)
{
    struct place *place = *state;
    struct journal journal;
    struct journal_end end = {.winner = "", .complete = true};
    char run[RANKS_RUN_BYTES], path[512];
    ranks_journal_run(&place->ranks, "p", 1, 0, run);
    assert_int_equal(store_journal_path(place->store, run, path, sizeof path, NULL), ATTUNE_OK);
    assert_false(rank_is_at_work(&place->ranks, place->store, "p", 1, 0));
    FILE *claimed = fopen(path, "w");
    assert_non_null(claimed);
    fclose(claimed);
    assert_true(rank_is_at_work(&place->ranks, place->store, "p", 1, 0));
    begin_journal(place, &journal, 1);
    assert_true(rank_is_at_work(&place->ranks, place->store, "p", 1, 0));
    assert_false(rank_is_at_work(&place->ranks, place->store, "p", 1, 1));
    journal_close(&journal); /* as the system does for who is killed */
    assert_false(rank_is_at_work(&place->ranks, place->store, "p", 1, 0));
    assert_int_equal(journal_open(&journal, place->store, run, NULL), ATTUNE_OK);
    journal_write_end(&journal, &end);
    journal_close(&journal);
    assert_true(rank_is_at_work(&place->ranks, place->store, "p", 1, 0));
}

static void *let_go(void *data)
{
    usleep(5000);
    close(*(int *)data);
    return NULL;
}

static void who_looks_as_a_journal_is_opened_does_not_take_its_lock(void **state)
{
    struct place *place = *state;
    struct journal journal;
    char run[RANKS_RUN_BYTES], path[512];
    pthread_t thread;
    ranks_journal_run(&place->ranks, "p", 1, 0, run);
    assert_int_equal(store_journal_path(place->store, run, path, sizeof path, NULL), ATTUNE_OK);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(file >= 0);
    assert_int_equal(flock(file, LOCK_SH), 0);
    assert_int_equal(pthread_create(&thread, NULL, let_go, &file), 0);
    begin_journal(place, &journal, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(journal_is_written(path));
    journal_close(&journal);
    assert_false(journal_is_written(path));
}

static void whoever_is_stopped_waits_no_longer(void **state)
{
    struct place *place = *state;
    struct rank_watch watch;
    volatile int stop = 1;
    place->ranks.patience.begin = 3600.0;
    rank_watch_begin(&watch, &place->ranks, "p", 1, 0);
    assert_false(rank_watch_all(&watch, 1, place->store, &place->ranks.patience, NULL, &stop));
    assert_int_equal(watch.state, RANK_AWAITED);
    rank_watch_free(&watch);
}

int main(void)
{
#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, open_place, close_place)
    const struct CMUnitTest tests[] = {
        IN_PLACE(a_journal_answers_by_its_end_and_is_lost_without_a_writer),
        IN_PLACE(a_journal_that_is_held_is_waited_for_longer),
        IN_PLACE(work_that_is_claimed_held_or_ended_is_in_hand_and_what_died_is_not),
        IN_PLACE(who_looks_as_a_journal_is_opened_does_not_take_its_lock),
        IN_PLACE(whoever_is_stopped_waits_no_longer),
    };
    return cmocka_run_group_tests_name("rank_wait", tests, NULL, NULL);
}
