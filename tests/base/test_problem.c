/* test_problem.c - problem texts: canonical form, defaults, refusals, round trips. */
#include "base/problem.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_text(const char *text, const char *canonical)
{
    struct problem problem;
    struct error error = {0};
    char printed[PROBLEM_TEXT_BYTES];
    if (problem_parse(schema_attention_forward(), text, &problem, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", text, error.message);
    }
    assert_int_equal(problem_format(&problem, printed, &error), ATTUNE_OK);
    assert_string_equal(printed, canonical);
}

static void canonical_text_has_fixed_order_and_defaults(void **state)
{
    (void)state;
    const char *llama = "attention.forward q_dtype=f16 k_dtype=f16 v_dtype=f16 o_dtype=f16 batch=1 heads=32 kv_heads=8 "
                        "seqlen_q=2048 seqlen_k=2048 head_dim_qk=128 head_dim_v=128 causal=bottom_right";
    expect_text(llama, llama);
    expect_text("attention.forward causal=1 head_dim=128 seqlen_q=2048 kv_heads=8 heads=32 dtype=f16", llama);
    expect_text("head_dim=128\tseqlen_q=2048\n kv_heads=8 heads=32 causal=bottom_right", llama);
    expect_text(
        "heads=2 seqlen_q=3 head_dim=5 causal=none alignment=2 dropout=0 scale=-0",
        "attention.forward q_dtype=f16 k_dtype=f16 v_dtype=f16 o_dtype=f16 batch=1 heads=2 kv_heads=2 seqlen_q=3 "
        "seqlen_k=3 head_dim_qk=5 head_dim_v=5");
}

static void explicit_field_wins_over_shorthand_in_any_order(void **state)
{
    (void)state;
    const char *ggml = "attention.forward q_dtype=f32 k_dtype=f16 v_dtype=f16 o_dtype=f32 batch=1 heads=8 kv_heads=8 "
                       "seqlen_q=1 seqlen_k=1 head_dim_qk=64 head_dim_v=32";
    expect_text("dtype=f32 k_dtype=f16 v_dtype=f16 heads=8 seqlen_q=1 head_dim=64 head_dim_v=32", ggml);
    expect_text("k_dtype=f16 v_dtype=f16 head_dim_v=32 heads=8 seqlen_q=1 head_dim=64 dtype=f32", ggml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text_has_fixed_order_and_defaults),
        cmocka_unit_test(explicit_field_wins_over_shorthand_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
