/* A short text means the same problem, and leaves out what follows from the rest. */
#include "cli/cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void a_short_text_is_of_the_same_problem(void **state)
{
    (void)state;
    static const struct {
        const char *problem, *is;
    } cases[] = {
        {"dtype=f16 batch=2 heads=8 seqlen_q=64 head_dim=64", "dtype=f16 batch=2 heads=8 seqlen_q=64 head_dim=64"},
        {"dtype=bf16 heads=8 kv_heads=2 seqlen_q=64 seqlen_k=65 head_dim=64 causal=1",
         "dtype=bf16 batch=1 heads=8 kv_heads=2 seqlen_q=64 seqlen_k=65 head_dim=64 causal=bottom_right"},
        {"heads=1 seqlen_q=8 seqlen_k=80 head_dim=64", "dtype=f16 batch=1 heads=1 seqlen_q=8 seqlen_k=80 head_dim=64"},
        {"q_dtype=f32 k_dtype=f16 v_dtype=f16 o_dtype=f32 heads=1 seqlen_q=1 seqlen_k=9 head_dim_qk=64 head_dim_v=32",
         "q_dtype=f32 k_dtype=f16 v_dtype=f16 o_dtype=f32 batch=1 heads=1 seqlen_q=1 seqlen_k=9 head_dim_qk=64 "
         "head_dim_v=32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct problem problem, again;
        struct error error = {.message = ""};
        char text[PROBLEM_TEXT_BYTES], other[PROBLEM_TEXT_BYTES];
        struct buffer brief = BUFFER_INIT;
        assert_int_equal(problem_parse(schema_attention_forward(), cases[i].problem, &problem, &error), ATTUNE_OK);
        assert_int_equal(problem_format(&problem, text, &error), ATTUNE_OK);
        problem_short(text, &brief);
        assert_string_equal(buffer_string(&brief), cases[i].is);
        assert_int_equal(problem_parse(schema_attention_forward(), buffer_string(&brief), &again, &error), ATTUNE_OK);
        assert_int_equal(problem_format(&again, other, &error), ATTUNE_OK);
        assert_string_equal(text, other);
        buffer_free(&brief);
    }
}

static void what_is_no_problem_of_attention_stays(void **state)
{
    (void)state;
    static const char *const texts[] = {"test.scale dtype=f32 elements=1000",
                                        "",
                                        "=",
                                        "a=b=c",
                                        "records/x.json",
                                        "x attention.forward heads=2",
                                        "heads=2 kv_heads="};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct buffer brief = BUFFER_INIT;
        problem_short(texts[i], &brief);
        assert_string_equal(buffer_string(&brief), texts[i]);
        buffer_free(&brief);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_text_is_of_the_same_problem),
        cmocka_unit_test(what_is_no_problem_of_attention_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
