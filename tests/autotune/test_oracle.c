/* The oracle on a device whose kernels misbehave in known ways: right ones pass, every mistake is told. */
#include "autotune/oracle.h"
#include "fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void check(const char *text, enum fake_behaviour behaviour, bool right, const char *mentions)
{
    struct problem problem;
    struct oracle *oracle;
    struct launch launch;
    struct verdict verdict;
    struct error error = {0};
    fake_launch(&launch);
    if (problem_parse(schema_attention_forward(), text, &problem, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", text, error.message);
    }
    assert_int_equal(oracle_create(NULL, &problem, 3, &oracle, &error), ATTUNE_OK);
    if (oracle_check(oracle, fake_driver(), 0, fake_names[behaviour], strlen(fake_names[behaviour]), &launch, &verdict,
                     &error) != ATTUNE_OK) {
        fail_msg("%s, %s: %s", text, fake_names[behaviour], error.message);
    }
    if (verdict.right != right || (mentions != NULL && strstr(verdict.reason, mentions) == NULL)) {
        fail_msg("%s, %s: right %d, ratio %g: %s", text, fake_names[behaviour], verdict.right, verdict.worst_ratio,
                 verdict.reason);
    }
    assert_int_equal(verdict.right, verdict.worst_ratio <= 1.0);
    oracle_destroy(oracle);
    assert_int_equal(fake_allocations(), 0);
}

static const char *const plain = "heads=4 kv_heads=2 seqlen_q=33 seqlen_k=70 head_dim=16";
static const char *const causal = "heads=2 kv_heads=2 seqlen_q=40 seqlen_k=70 head_dim=16 causal=1 lse=1";
static const char *const dropping = "heads=2 seqlen_q=33 seqlen_k=70 head_dim=16 dropout=0.3";

static void a_right_kernel_passes(void **state)
{
    (void)state;
    check(plain, FAKE_RIGHT, true, NULL);
    check(causal, FAKE_RIGHT, true, NULL);
    check(dropping, FAKE_RIGHT, true, NULL);
}

static void unwritten_outputs_are_told(void **state)
{
    (void)state;
    check(plain, FAKE_RETURNS_AT_ONCE, false, "never written");
    check(plain, FAKE_HALF_OF_THE_ROWS, false, "never written");
    check(causal, FAKE_NO_LSE, false, "lse");
}

static void stray_writes_are_told(void **state)
{
    (void)state;
    check(plain, FAKE_WRITES_BEFORE_O, false, "guard zone before o");
    check(plain, FAKE_WRITES_BEHIND_O, false, "guard zone behind o");
    check(plain, FAKE_WRITES_BETWEEN_ROWS, false, "between rows");
    check(plain, FAKE_WRITES_INPUT, false, "input q");
}

static void wrong_reads_are_told(void **state)
{
    (void)state;
    check(plain, FAKE_READS_PAST_K, false, NULL);
    check(plain, FAKE_CONTIGUOUS_ONLY, false, NULL);
    check(plain, FAKE_WRONG_KV_HEAD, false, NULL);
    check(plain, FAKE_DROPS_LAST_KEY, false, NULL);
    check(causal, FAKE_MASK_TOO_WIDE, false, NULL);
}

static void wrong_dropout_and_lse_are_told(void **state)
{
    (void)state;
    check(dropping, FAKE_SEED_LOW_WORD, false, NULL);
    check(dropping, FAKE_IGNORES_SEED_POINTER, false, NULL);
    check(causal, FAKE_BASE_2, false, "lse");
}

/* an earlier candidate's right result must not count for a later one that writes nothing */
static void outputs_are_poisoned_between_candidates(void **state)
{
    (void)state;
    struct problem problem;
    struct oracle *oracle;
    struct launch launch;
    struct verdict verdict;
    fake_launch(&launch);
    assert_int_equal(problem_parse(schema_attention_forward(), plain, &problem, NULL), ATTUNE_OK);
    assert_int_equal(oracle_create(NULL, &problem, 3, &oracle, NULL), ATTUNE_OK);
    static const enum fake_behaviour order[] = {FAKE_RIGHT,           FAKE_RETURNS_AT_ONCE, FAKE_RIGHT,
                                                FAKE_WRITES_BEHIND_O, FAKE_WRITES_INPUT,    FAKE_RIGHT};
    static const bool right[] = {true, false, true, false, false, true};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const char *name = fake_names[order[i]];
        assert_int_equal(oracle_check(oracle, fake_driver(), 0, name, strlen(name), &launch, &verdict, NULL),
                         ATTUNE_OK);
        if (verdict.right != right[i]) {
            fail_msg("%zu, %s: %s", i, name, verdict.reason);
        }
    }
    oracle_destroy(oracle);
}

static void a_launch_error_is_no_verdict(void **state)
{
    (void)state;
    struct problem problem;
    struct oracle *oracle;
    struct launch launch;
    struct verdict verdict;
    struct error error;
    fake_launch(&launch);
    assert_int_equal(problem_parse(schema_attention_forward(), plain, &problem, NULL), ATTUNE_OK);
    assert_int_equal(oracle_create(NULL, &problem, 3, &oracle, NULL), ATTUNE_OK);
    assert_int_equal(oracle_check(oracle, fake_driver(), 0, "fails", 5, &launch, &verdict, &error),
                     ATTUNE_DEVICE_FAILED);
    assert_non_null(strstr(error.message, "scripted failure"));
    oracle_destroy(oracle);
}

/* a kernel for one length and one stride alone is checked at these, and refused elsewhere */
static void fixed_values_choose_the_cases(void **state)
{
    (void)state;
    struct problem problem;
    struct oracle *oracle;
    struct launch launch;
    struct verdict verdict;
    fake_launch(&launch);
    assert_int_equal(problem_parse(schema_attention_forward(), plain, &problem, NULL), ATTUNE_OK);
    assert_int_equal(oracle_create(NULL, &problem, 3, &oracle, NULL), ATTUNE_OK);
    launch.fixed_count = 2;
    strcpy(launch.fixed[0].field, "seqlen_k");
    launch.fixed[0].value = 70;
    strcpy(launch.fixed[1].field, "k_seq_stride");
    launch.fixed[1].value = 2 * 16;
    const char *name = fake_names[FAKE_CONTIGUOUS_ONLY]; /* right for contiguous tensors */
    assert_int_equal(oracle_check(oracle, fake_driver(), 0, name, strlen(name), &launch, &verdict, NULL), ATTUNE_OK);
    assert_true(verdict.right);
    launch.fixed[0].value = 71;
    assert_int_equal(oracle_check(oracle, fake_driver(), 0, name, strlen(name), &launch, &verdict, NULL),
                     ATTUNE_UNSUPPORTED);
    oracle_destroy(oracle);
}

static void options_without_a_reference_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"softcap=30", "softcap"}, {"alibi=1", "alibi"}, {"sinks=1", "sinks"}, {"window_left=8", "window_left"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[256];
        struct problem problem;
        struct oracle *oracle;
        struct error error = {0};
        snprintf(text, sizeof text, "%s %s", plain, texts[i][0]);
        assert_int_equal(problem_parse(schema_attention_forward(), text, &problem, NULL), ATTUNE_OK);
        assert_int_equal(oracle_create(NULL, &problem, 3, &oracle, &error), ATTUNE_UNSUPPORTED);
        assert_non_null(strstr(error.message, texts[i][1]));
        assert_null(oracle);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_kernel_passes),
        cmocka_unit_test(unwritten_outputs_are_told),
        cmocka_unit_test(stray_writes_are_told),
        cmocka_unit_test(wrong_reads_are_told),
        cmocka_unit_test(wrong_dropout_and_lse_are_told),
        cmocka_unit_test(outputs_are_poisoned_between_candidates),
        cmocka_unit_test(a_launch_error_is_no_verdict),
        cmocka_unit_test(fixed_values_choose_the_cases),
        cmocka_unit_test(options_without_a_reference_are_refused_by_name),
    };
    return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
