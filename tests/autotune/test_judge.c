/* test_judge.c - the two kernels that judge attention.forward on a device, judged by the CPU's reference. */
#include "autotune/verify.h"
#include "judge_trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* no C++ compiler: 77 from main */
static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    struct generator_options options = {.template_path = ""};
    struct target target;
    assert_int_equal(generator_create(&options, &b->generator, &b->error), ATTUNE_OK);
    assert_int_equal(compiler_pool_create(NULL, &b->pool, &b->error), ATTUNE_OK);
    assert_int_equal(driver_get("host", &b->host, &b->error), ATTUNE_OK);
    assert_int_equal(target_parse("host", &target, &b->error), ATTUNE_OK);
    assert_int_equal(road_open(&b->road, b->pool, NULL, &target, SANITIZE_NONE, true, &b->error), ATTUNE_OK);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    compiler_pool_destroy(b->pool);
    generator_destroy(b->generator);
    free(b);
    return 0;
}

static void begin(struct bench *b, const char *text, int kind, struct trial *t)
{
    if (!trial_begin(b, text, kind, t)) {
        fail_msg("%s", b->error.message);
    }
}

static void answers_equal_the_cpu_reference(void **state)
{
    struct bench *b = *state;
    for (size_t i = 0; i < JUDGE_PROBLEMS; i++) {
        for (int kind = 0; kind < INPUT_KINDS; kind++) {
            struct trial t;
            begin(b, judge_problems[i], kind, &t);
            assert_null(trial_difference(&t));
            trial_end(&t);
        }
    }
}

static void the_naive_algorithm_passes(void **state)
{
    struct bench *b = *state;
    for (size_t i = 0; i < JUDGE_PROBLEMS; i++) {
        struct trial t;
        begin(b, judge_problems[i], INPUT_NORMAL, &t);
        assert_true(judged_right(b, &t));
        trial_end(&t);
    }
}

static void one_wrong_row_is_found(void **state)
{
    struct bench *b = *state;
    struct trial t;
    begin(b, judge_problems[0], INPUT_NORMAL, &t);
    spoil(&t, 1, 3, 36, 1.02f); /* the very last row, 2 % off */
    assert_false(judged_right(b, &t));
    trial_end(&t);
    begin(b, judge_problems[0], INPUT_NORMAL, &t);
    spoil(&t, 0, 0, 0, NAN);
    assert_false(judged_right(b, &t));
    trial_end(&t);
}

static void rows_without_keys_must_be_exactly_zero(void **state)
{
    struct bench *b = *state;
    struct trial t;
    begin(b, judge_problems[1], INPUT_NORMAL, &t);
    assert_true(t.cpu.empty[0]); /* 60 queries on 45 keys: the first 15 see none */
    float tiny[130] = {0};
    tiny[129] = 1e-30f;
    convert_from_float(t.a.o.dtype, tiny, t.o, 130);
    assert_false(judged_right(b, &t));
    trial_end(&t);
}

static void a_wrong_lse_is_found(void **state)
{
    struct bench *b = *state;
    struct trial t;
    begin(b, judge_problems[0], INPUT_NORMAL, &t);
    t.lse[t.cpu.count - 1] *= 1.442695f; /* base 2 */
    assert_false(judged_right(b, &t));
    trial_end(&t);
    begin(b, judge_problems[1], INPUT_NORMAL, &t);
    t.lse[0] = -1e30f; /* a finite stand-in for -infinity */
    assert_false(judged_right(b, &t));
    trial_end(&t);
}

/* for host-gfx90a the judge allows what subnormal elements are worth, as the CPU's reference does */
static void a_target_that_flushes_is_judged_by_its_own_bound(void **state)
{
    struct bench *b = *state;
    struct bench other = {.generator = b->generator, .pool = b->pool, .host = b->host, .tiny = true};
    struct target target;
    struct trial t;
    assert_int_equal(target_parse("host-gfx90a", &target, &other.error), ATTUNE_OK);
    assert_int_equal(road_open(&other.road, b->pool, NULL, &target, SANITIZE_NONE, true, &other.error), ATTUNE_OK);
    for (int i = 0; i < 3; i++) { /* f16, bf16, f32 with f16 */
        begin(&other, judge_problems[i], INPUT_NORMAL, &t);
        assert_null(trial_difference(&t));
        assert_true(judged_right(&other, &t));
        trial_end(&t);
    }
    other.road = b->road; /* the plain host's judge allows less */
    begin(&other, judge_problems[0], INPUT_NORMAL, &t);
    assert_non_null(trial_difference(&t));
    trial_end(&t);
}

int main(void)
{
    int skip = judge_trial_skip();
    if (skip != 0) {
        return skip;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_equal_the_cpu_reference),
        cmocka_unit_test(the_naive_algorithm_passes),
        cmocka_unit_test(one_wrong_row_is_found),
        cmocka_unit_test(rows_without_keys_must_be_exactly_zero),
        cmocka_unit_test(a_wrong_lse_is_found),
        cmocka_unit_test(a_target_that_flushes_is_judged_by_its_own_bound),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
