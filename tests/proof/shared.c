/* shared.c - proof_shared: one store and many processes, some of which are killed or stopped at any moment (B06, B08).
 */
#include "tests/proof/place.h"
#include "tests/size.h"

#include "base/files.h"
#include "base/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

enum { CROWD = 16, KERNELS = 4 };

static const char *const kernels[KERNELS] = {"heads=1 seqlen_q=4 head_dim=16",
                                             "heads=1 seqlen_q=4 head_dim=16 causal=1",
                                             "heads=1 seqlen_q=4 head_dim=32", "heads=1 seqlen_q=4 head_dim=8"};

static char store[PLACE_PATH], cache[PLACE_PATH + 16], temporary[PLACE_PATH], tmpdir[PLACE_PATH + 16];
static const char *changes[] = {cache, tmpdir, NULL, NULL};

static void fresh(void)
{
    snprintf(store, sizeof store, "%s", place_make("store", 0700, 0));
    snprintf(cache, sizeof cache, "ATTUNE_CACHE=%s", store);
    snprintf(temporary, sizeof temporary, "%s", place_make("temporary", 0700, 0));
    snprintf(tmpdir, sizeof tmpdir, "TMPDIR=%s", temporary);
    changes[2] = NULL;
}

static const struct place_result *engine(double seconds)
{
    const char *const argv[] = {PLACE_ENGINE, kernels[0], kernels[1], NULL};
    const struct place_call call = {.argv = argv, .environment = changes, .seconds = seconds};
    return place_run(&call);
}

static void make_old(const char *root, const char *relative, void *data)
{
    char path[2 * PLACE_PATH];
    struct utimbuf ago = {time(NULL) - 7200, time(NULL) - 7200};
    (void)data;
    snprintf(path, sizeof path, "%s/%s", root, relative);
    if (strstr(relative, FILE_TEMPORARY_PREFIX) != NULL) {
        assert_int_equal(utime(path, &ago), 0);
    }
}

static bool goes_away(const char *root)
{
    for (int i = 0; i < 3000; i++) {
        char command[PLACE_PATH + 32];
        snprintf(command, sizeof command, "%s", root);
        const char *const argv[] = {"find", command, "-mindepth", "1", NULL};
        const struct process_options options = {.argv = argv};
        struct process_result result;
        assert_int_equal(process_run(&options, &result, NULL), ATTUNE_OK);
        bool empty = result.output.length == 0;
        process_result_free(&result);
        if (empty) {
            return true;
        }
        usleep(10000);
    }
    return false;
}

static void verify_finds_nothing_bad(void)
{
    static const char *const argv[] = {ATTUNE_PROGRAM, "cache", "verify", NULL};
    place_run(&(struct place_call){.argv = argv, .environment = changes});
    place_right(0, 0);
    assert_int_equal(place_count(store, "rejected/"), 0);
}

/* B06: after each kill the next process has right numbers, without waiting for anybody */
static void a_killed_compile_blocks_nobody(void **state)
{
    (void)state;
    if (!place_compiles()) {
        skip();
    }
    const char *const argv[] = {PLACE_ENGINE, kernels[0], kernels[1], NULL};
    unsigned seed = 7;
    fresh();
    for (int round = 0; round < test_size(8, 200); round++) {
        if (round % 2 == 0) { /* cold, else with what the killed one left */
            folder_remove(store);
        }
        const struct place_call call = {.argv = argv, .environment = changes};
        pid_t child = place_start(&call, "killed");
        seed = seed * 1103515245 + 12345;
        usleep(seed / 65536 % 500 * 1000);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        engine(60);
        place_right(0, -1);
        engine(60);
        place_right(0, 0);
    }
    verify_finds_nothing_bad();
    /* What the killed left is gone in the end. Helpers that outlived their caller remove the compilers' folders; a
     * caller killed before it had a helper leaves one, and half-written files: these go when they are old. */
    usleep(1000000);
    char old[PLACE_PATH + 64];
    snprintf(old, sizeof old, "%s/attune-AbCd12", temporary);
    assert_int_equal(mkdir(old, 0700), 0);
    snprintf(old, sizeof old, "%s/attune-AbCd12/kernel.o", temporary);
    assert_int_equal(file_write(old, "half", 4, NULL), ATTUNE_OK);
    static const char *const age[] = {"sh", "-c", "touch -d '2 days ago' \"$TMPDIR\"/attune-*", NULL};
    place_run(&(struct place_call){.argv = age, .environment = changes});
    place_right(0, 0);
    char leftover[PLACE_PATH + 64];
    snprintf(leftover, sizeof leftover, "%s/tmp/" FILE_TEMPORARY_PREFIX "of-a-killed-one", store);
    assert_int_equal(file_write(leftover, "half", 4, NULL), ATTUNE_OK);
    place_walk(store, make_old, NULL);
    const char *const one_more[] = {PLACE_ENGINE, kernels[2], NULL};
    place_run(&(struct place_call){.argv = one_more, .environment = changes});
    place_right(0, 1);
    assert_int_equal(place_count(store, FILE_TEMPORARY_PREFIX), 0);
    assert_true(goes_away(temporary));
}

/* B06: nobody holds anything that a stopped process could keep: another compiles by itself */
static void a_stopped_compile_blocks_nobody(void **state)
{
    (void)state;
    if (!place_compiles()) {
        skip();
    }
    const char *const argv[] = {PLACE_ENGINE, kernels[0], kernels[1], NULL};
    fresh();
    for (int round = 0; round < test_size(3, 40); round++) {
        folder_remove(store);
        const struct place_call call = {.argv = argv, .environment = changes};
        pid_t child = place_start(&call, "stopped");
        usleep((useconds_t)(20000 + round * 60000 % 600000));
        kill(child, SIGSTOP);
        engine(60);
        place_right(0, -1);
        engine(60);
        place_right(0, 0);
        kill(child, SIGCONT);
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0); /* it goes on as if nothing had been */
        engine(60);
        place_right(0, 0);
    }
    verify_finds_nothing_bad();
}

static void compare_with_single(const char *root, const char *relative, void *data)
{
    struct buffer one = BUFFER_INIT, other = BUFFER_INIT;
    char path[2 * PLACE_PATH];
    int *count = data;
    if (strncmp(relative, "objects/", 8) != 0) {
        return;
    }
    snprintf(path, sizeof path, "%s/%s", root, relative);
    assert_int_equal(file_read(path, 64 << 20, &one, NULL), ATTUNE_OK);
    snprintf(path, sizeof path, "%s/%s", store, relative);
    assert_int_equal(file_read(path, 64 << 20, &other, NULL), ATTUNE_OK);
    assert_int_equal(one.length, other.length);
    assert_memory_equal(one.data, other.data, one.length);
    ++*count;
    buffer_free(&one);
    buffer_free(&other);
}

/* B08: a crowd released at once on a cold store, of which somebody deletes the folder meanwhile */
static void a_crowd_shares_a_cold_store(void **state)
{
    (void)state;
    if (!place_compiles()) {
        skip();
    }
    char go[PLACE_PATH], single[PLACE_PATH];
    fresh();
    const char *const alone[] = {PLACE_ENGINE, kernels[0], kernels[1], kernels[2], kernels[3], NULL};
    place_run(&(struct place_call){.argv = alone, .environment = changes});
    place_right(0, KERNELS);
    snprintf(single, sizeof single, "%s", place("single"));
    folder_remove(single);
    place_copy(store, single);
    snprintf(go, sizeof go, "%s", place("go"));
    const char *const argv[] = {PLACE_ENGINE, "--wait", go, kernels[0], kernels[1], kernels[2], kernels[3], NULL};
    for (int round = 0; round < test_size(2, 100); round++) {
        pid_t children[CROWD];
        unlink(go);
        folder_remove(store);
        for (int i = 0; i < CROWD; i++) {
            char log[32];
            snprintf(log, sizeof log, "crowd-%d", i);
            children[i] = place_start(&(struct place_call){.argv = argv, .environment = changes}, log);
        }
        usleep(50000);
        assert_int_equal(file_write(go, "", 0, NULL), ATTUNE_OK);
        usleep((useconds_t)(300000 + round * 137000 % 1500000));
        folder_remove(store); /* in mid-round */
        for (int i = 0; i < CROWD; i++) {
            int status = -1;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                struct buffer errors = BUFFER_INIT;
                file_read(place("crowd-%d.err", i), 1 << 20, &errors, NULL);
                fail_msg("round %d, process %d: status %x: %s", round, i, (unsigned)status, buffer_string(&errors));
            }
        }
        place_run(&(struct place_call){.argv = alone, .environment = changes}); /* what was deleted last */
        place_right(0, -1);
        int compared = 0;
        assert_int_equal(place_count(store, FILE_TEMPORARY_PREFIX), 0);
        place_walk(single, compare_with_single, &compared);
        assert_int_equal(compared, KERNELS);
        assert_int_equal(place_count(store, "objects/"), KERNELS);
        verify_finds_nothing_bad();
    }
    assert_true(goes_away(temporary));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_compile_blocks_nobody),
        cmocka_unit_test(a_stopped_compile_blocks_nobody),
        cmocka_unit_test(a_crowd_shares_a_cold_store),
    };
    return cmocka_run_group_tests_name("proof_shared", tests, place_open, place_close);
}
