/* test_first_calls.c - B19: thirty-two threads meet an empty store at one moment. One compile or tuning for each key,
 * the others wait for it; a failure is everybody's, and the next call tries again. */
#include "fake.h"

#include "base/files.h"
#include "tests/size.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 32 };
_Static_assert((int)THREADS <= (int)FAKE_LAUNCHES_MAX, "every launch is recorded");

enum kinds { SAME_PROBLEM, OTHER_SIZES, OTHER_KEYS };

struct round {
    char folder[512];
    attune_context *context;
    attune_device *device;
    struct fake_device *gpu;
    struct fake_jit jit;
    bool forward; /* attune_attention_forward, else prepare and launch */
    enum kinds kind;
    pthread_barrier_t barrier;
    struct caller {
        struct round *round;
        int index;
        attune_status status;
        char message[256];
    } callers[THREADS];
};
static _Alignas(64) unsigned char memory[4096];
static char streams[THREADS];

static void round_open(struct round *round, attune_jit_mode mode, enum kinds kind, bool on_disk)
{
    memset(round, 0, sizeof *round);
    if (on_disk) {
        assert_int_equal(folder_temporary(round->folder, sizeof round->folder, NULL), ATTUNE_OK);
    }
    round->context = fake_context(on_disk ? round->folder : NULL, mode);
    round->device = fake_open(round->context, &round->gpu);
    fake_jit_init(&round->jit);
    fake_jit_register(&round->jit, round->context);
    round->kind = kind;
    pthread_barrier_init(&round->barrier, NULL, THREADS);
}

static void round_close(struct round *round)
{
    attune_context_destroy(round->context);
    pthread_barrier_destroy(&round->barrier);
    if (round->folder[0] != '\0') {
        folder_remove(round->folder);
    }
}

static attune_attention attention_of(const struct caller *caller)
{
    bool other_size = caller->round->kind == OTHER_SIZES, other_key = caller->round->kind == OTHER_KEYS;
    return (attune_attention){.size = sizeof(attune_attention),
                              .q_dtype = ATTUNE_F32,
                              .batch = 1,
                              .heads = 4,
                              .kv_heads = 2,
                              .seqlen_q = other_size ? 2 + caller->index : 2,
                              .seqlen_k = 2,
                              .head_dim_qk = other_key ? 8 + 4 * caller->index : 8,
                              .alignment_bytes = 4};
}

static attune_status prepare_and_launch(const struct caller *caller, const attune_attention *attention,
                                        const attune_attention_arguments *arguments, void *stream)
{
    attune_problem *problem = NULL;
    attune_plan *plan = NULL;
    attune_status status = attune_problem_attention(caller->round->context, attention, &problem);
    if (status == ATTUNE_OK) {
        status = attune_prepare(caller->round->device, problem, NULL, &plan);
    }
    if (status == ATTUNE_OK) {
        status = attune_launch_attention(plan, arguments, stream, NULL, 0);
    }
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    return status;
}

static void *first_call(void *data)
{
    struct caller *caller = data;
    struct round *round = caller->round;
    const attune_attention attention = attention_of(caller);
    const attune_attention_arguments arguments = {
        .size = sizeof arguments, .q = memory, .k = memory, .v = memory, .o = memory};
    void *stream = &streams[caller->index];
    pthread_barrier_wait(&round->barrier);
    caller->status = round->forward ? attune_attention_forward(round->device, &attention, &arguments, stream, NULL, 0)
                                    : prepare_and_launch(caller, &attention, &arguments, stream);
    if (caller->status != ATTUNE_OK) {
        attune_last_error(round->context, caller->message, sizeof caller->message);
    }
    return NULL;
}

static void round_run(struct round *round)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        round->callers[i] = (struct caller){.round = round, .index = i};
        assert_int_equal(pthread_create(&threads[i], NULL, first_call, &round->callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* every thread's launch came to the driver, on its own stream */
static void all_launched(const struct round *round)
{
    for (int i = 0; i < THREADS; i++) {
        int seen = 0;
        if (round->callers[i].status != ATTUNE_OK) {
            fail_msg("thread %d: %s", i, round->callers[i].message);
        }
        for (int k = 0; k < THREADS; k++) {
            seen += round->gpu->recorded[k].stream == &streams[i];
        }
        assert_int_equal(seen, 1);
    }
    assert_int_equal(round->gpu->launches, THREADS);
}

static void rounds_of(attune_jit_mode mode, enum kinds kind, int expected_compiles, int expected_tunes)
{
    for (int i = 0; i < test_size(2, 50); i++) {
        for (int forward = 0; forward < 2; forward++) {
            struct round round;
            round_open(&round, mode, kind, i % 2 == 0);
            round.forward = forward;
            round.jit.delay_milliseconds = i % 3;
            round_run(&round);
            all_launched(&round);
            assert_int_equal(round.jit.compiles, expected_compiles);
            assert_int_equal(round.jit.tunes, expected_tunes);
            assert_int_equal(round.gpu->relaxed, 0);
            round_close(&round);
        }
    }
}

/* B19 */
static void one_problem_is_compiled_once(void **state)
{
    (void)state;
    rounds_of(ATTUNE_JIT_COMPILE, SAME_PROBLEM, 1, 0);
}

/* B19 */
static void sizes_of_one_specialisation_share_one_compile(void **state)
{
    (void)state;
    rounds_of(ATTUNE_JIT_COMPILE, OTHER_SIZES, 1, 0);
}

/* B19 */
static void every_key_is_compiled_once(void **state)
{
    (void)state;
    rounds_of(ATTUNE_JIT_COMPILE, OTHER_KEYS, THREADS, 0);
}

/* B19 */
static void one_problem_is_tuned_once(void **state)
{
    (void)state;
    rounds_of(ATTUNE_JIT_TUNE, SAME_PROBLEM, 0, 1);
}

/* B19 */
static void every_key_is_tuned_once(void **state)
{
    (void)state;
    rounds_of(ATTUNE_JIT_TUNE, OTHER_KEYS, 0, THREADS);
}

/* B19: who waited hears of the failure, nothing is launched, and the next round succeeds in the same context */
static void a_failure_is_everybodys_and_the_next_round_succeeds(void **state)
{
    (void)state;
    for (int i = 0; i < test_size(2, 50); i++) {
        struct round round;
        round_open(&round, i % 2 ? ATTUNE_JIT_TUNE : ATTUNE_JIT_COMPILE, SAME_PROBLEM, false);
        round.forward = i % 4 < 2;
        round.jit.fail = ATTUNE_COMPILE_FAILED;
        round.jit.delay_milliseconds = 20;
        round_run(&round);
        for (int k = 0; k < THREADS; k++) {
            assert_int_equal(round.callers[k].status, ATTUNE_COMPILE_FAILED);
            assert_non_null(strstr(round.callers[k].message, "refuses"));
        }
        assert_int_equal(round.gpu->launches, 0);
        assert_true(round.jit.compiles + round.jit.tunes < THREADS);
        int before = round.jit.compiles + round.jit.tunes;
        round.jit.fail = ATTUNE_OK;
        round_run(&round);
        all_launched(&round);
        assert_int_equal(round.jit.compiles + round.jit.tunes, before + 1);
        round_close(&round);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_problem_is_compiled_once),
        cmocka_unit_test(sizes_of_one_specialisation_share_one_compile),
        cmocka_unit_test(every_key_is_compiled_once),
        cmocka_unit_test(one_problem_is_tuned_once),
        cmocka_unit_test(every_key_is_tuned_once),
        cmocka_unit_test(a_failure_is_everybodys_and_the_next_round_succeeds),
    };
    return cmocka_run_group_tests_name("first_calls", tests, NULL, NULL);
}
