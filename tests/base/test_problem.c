/* test_problem.c - problem texts: canonical form, defaults, refusals, round trips. */
#include "base/problem.h"
#include "tests/comma_locale.h"

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

/* refused, and the message holds every one of the words */
static void expect_refusal(const char *text, const char *const *words)
{
    struct problem problem;
    struct error error = {0};
    assert_int_equal(problem_parse(schema_attention_forward(), text, &problem, &error), ATTUNE_INVALID);
    assert_int_equal(error.status, ATTUNE_INVALID);
    for (; *words; words++) {
        if (!strstr(error.message, *words)) {
            fail_msg("%s: \"%s\" lacks \"%s\"", text, error.message, *words);
        }
    }
}
#define REFUSED(text, ...) expect_refusal(text, (const char *const[]){__VA_ARGS__, NULL})
#define GOOD "heads=4 seqlen_q=8 head_dim=64 "

static void refusals_name_the_field_the_value_and_the_domain(void **state)
{
    (void)state;
    REFUSED(GOOD "sequlen_k=7", "sequlen_k", "did you mean seqlen_k?", "batch_invariant");
    REFUSED(GOOD "zzzzzzzzzz=7", "no field \"zzzzzzzzzz\"", "its fields are: q_dtype");
    REFUSED(GOOD "heads=8", "heads is given twice");
    REFUSED(GOOD "head_dim=8", "head_dim is given twice");
    REFUSED(GOOD "batch", "\"batch\" is not field=value");
    REFUSED(GOOD "=3", "no field \"\"");
    REFUSED(GOOD "batch=-1", "batch=-1", "0 to 2147483647");
    REFUSED(GOOD "seqlen_k=2147483648", "seqlen_k=2147483648", "0 to 2147418112");
    REFUSED(GOOD "batch=1e3", "batch=1e3", "an integer");
    REFUSED(GOOD "batch=0x10", "an integer");
    REFUSED(GOOD "batch=+1", "an integer");
    REFUSED(GOOD "batch=", "an integer");
    REFUSED(GOOD "batch=99999999999999999999", "an integer");
    REFUSED(GOOD "batch=-9223372036854775808", "batch");
    REFUSED("heads=4 seqlen_q=8 head_dim=257", "257", "1 to 256");
    REFUSED("heads=4 seqlen_q=8 head_dim=0", "1 to 256");
    REFUSED("heads=0 seqlen_q=8 head_dim=64", "heads=0");
    REFUSED(GOOD "dtype=f64", "f64", "f16, bf16, f32, e4m3, e5m2 or q8_0");
    REFUSED(GOOD "dtype=1", "one of");
    REFUSED(GOOD "causal=2", "causal=2", "none, top_left or bottom_right");
    REFUSED(GOOD "dropout=1.5", "dropout=1.5", "0 to 1");
    REFUSED(GOOD "dropout=0,1", "dropout=0,1", "a real number");
    REFUSED(GOOD "dropout=nan", "a real number");
    REFUSED(GOOD "scale=inf", "a real number");
    REFUSED(GOOD "scale=1e999", "a real number");
    REFUSED(GOOD "scale=1e-999", "a real number"); /* 0 would mean the default */
    REFUSED(GOOD "scale=0x1p3", "a real number");
    REFUSED(GOOD "window_left=-2", "-1 to 2147483647");
    REFUSED(GOOD "kv_heads=3", "heads=4", "kv_heads=3", "divides");
    REFUSED(GOOD "alignment=6", "alignment=6", "2, 4, 8 or 16");
    REFUSED(GOOD "alignment=32", "alignment=32", "2 to 16");
    REFUSED(GOOD "dtype=f32 alignment=2", "alignment=2", "f32", "alignment=4");
    REFUSED(GOOD "head_dim_v=65 dtype=e4m3", "odd number of bytes");
    REFUSED(GOOD "paged=1", "page_size");
    REFUSED(GOOD "page_size=16", "page_size=16", "paged=1");
    REFUSED("heads=4 head_dim=64", "seqlen_q is missing");
    REFUSED("", "heads is missing");
    REFUSED("attention.backward " GOOD, "attention.backward", "attention.forward");
    REFUSED(GOOD "attention.forward", "\"attention.forward\" is not field=value");
    REFUSED("batch=2147483647 heads=2147483647 seqlen_q=2147418112 head_dim=64", "2^63", "batch=2147483647");
    REFUSED("batch=2147483647 heads=32768 seqlen_q=2048 seqlen_k=1 head_dim=128", "2^63");
    char word[400] = GOOD;
    memset(word + strlen(GOOD), 'x', 300);
    REFUSED(word, "longer than 127 bytes");
}

static void a_failed_parse_leaves_the_problem_as_it_was(void **state)
{
    (void)state;
    struct problem problem = {.schema = NULL};
    assert_int_equal(problem_parse(schema_attention_forward(), GOOD "batch=-1", &problem, NULL), ATTUNE_INVALID);
    assert_null(problem.schema);
}

static void planned_options_are_part_of_the_text(void **state)
{
    (void)state;
    expect_text(
        GOOD
        "batch_invariant=1 strict_nan=1 page_size=16 paged=1 varlen=1 mask=1 bias=bf16 sinks=1 alibi=1 softcap=30.5 "
        "window_right=0 window_left=127 dropout=0.1 scale=0.125 lse=1 index=wide alignment=2 dtype=f16",
        "attention.forward q_dtype=f16 k_dtype=f16 v_dtype=f16 o_dtype=f16 batch=1 heads=4 kv_heads=4 seqlen_q=8 "
        "seqlen_k=8 head_dim_qk=64 head_dim_v=64 window_left=127 window_right=0 softcap=30.5 alibi=1 sinks=1 bias=bf16 "
        "mask=bool varlen=1 paged=1 page_size=16 dropout=0.1 scale=0.125 lse=1 alignment=2 index=wide strict_nan=1 "
        "batch_invariant=1");
}

static void alignment_defaults_to_what_contiguous_rows_have(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t alignment;
    } table[] = {
        {"head_dim=64 dtype=f16", 16},
        {"head_dim=4 dtype=f16", 8},
        {"head_dim=6 dtype=f16", 4},
        {"head_dim=65 dtype=f16", 2},
        {"head_dim=65 dtype=f32", 4},
        {"head_dim_qk=64 head_dim_v=65 dtype=f16", 2},
        {"head_dim=65 q_dtype=f32 o_dtype=f32 k_dtype=f16 v_dtype=f16 alignment=4", 4},
        {"head_dim=65 q_dtype=f32 o_dtype=f32 k_dtype=f16 v_dtype=f16", 2}, /* k's rows; q keeps its elements' 4 */
        {"head_dim=16 dtype=e4m3", 16},
        {"head_dim=64 q_dtype=f32 k_dtype=q8_0 v_dtype=q8_0 o_dtype=f32", 4},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct problem problem;
        struct error error = {0};
        char text[256];
        snprintf(text, sizeof text, "heads=1 seqlen_q=1 %s", table[i].text);
        if (problem_parse(schema_attention_forward(), text, &problem, &error) != ATTUNE_OK) {
            fail_msg("%s: %s", text, error.message);
        }
        assert_int_equal(problem_integer(&problem, "alignment"), table[i].alignment);
    }
}

static struct problem parse(const char *text)
{
    struct problem problem;
    struct error error = {0};
    if (problem_parse(schema_attention_forward(), text, &problem, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", text, error.message);
    }
    return problem;
}

static void specialisation_holds_compiled_facts_alone(void **state)
{
    (void)state;
    char first[PROBLEM_TEXT_BYTES], second[PROBLEM_TEXT_BYTES];
    struct problem problem =
        parse("dtype=f16 batch=1 heads=32 kv_heads=8 seqlen_q=2048 head_dim=128 causal=1 dropout=0.1");
    assert_int_equal(problem_specialisation(&problem, first, NULL), ATTUNE_OK);
    assert_string_equal(
        first, "attention.forward q_dtype=f16 k_dtype=f16 v_dtype=f16 o_dtype=f16 head_dim_qk=128 head_dim_v=128 "
               "causal=bottom_right head_ratio=4 dropout=on");
    problem =
        parse("dtype=f16 batch=9 heads=8 kv_heads=2 seqlen_q=1 seqlen_k=77 head_dim=128 causal=1 dropout=0.5 scale=2");
    assert_int_equal(problem_specialisation(&problem, second, NULL), ATTUNE_OK);
    assert_string_equal(first, second);
    assert_int_equal(problem_shape(&problem, second, NULL), ATTUNE_OK);
    assert_string_equal(second, "batch9-heads8-kv_heads2-seqlen_q1-seqlen_k77");
    static const char *const others[] = {
        "dtype=f16 heads=8 kv_heads=2 seqlen_q=1 head_dim=128 causal=1",
        "dtype=f16 heads=8 kv_heads=4 seqlen_q=1 head_dim=128 causal=1 dropout=0.1",
        "dtype=f16 heads=8 kv_heads=2 seqlen_q=1 head_dim=128 causal=top_left dropout=0.1",
        "dtype=f16 heads=8 kv_heads=2 seqlen_q=1 head_dim=128 causal=1 dropout=0.1 alignment=8",
        "dtype=f16 heads=8 kv_heads=2 seqlen_q=1 head_dim=128 causal=1 dropout=0.1 index=wide",
        "dtype=f16 heads=8 kv_heads=2 seqlen_q=1 head_dim=128 causal=1 dropout=0.1 window_left=0",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        problem = parse(others[i]);
        assert_int_equal(problem_specialisation(&problem, second, NULL), ATTUNE_OK);
        assert_string_not_equal(first, second);
    }
}

static uint64_t random_state = 88172645463325252u;
static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state >> 16;
}

static void randomise(struct problem *problem)
{
    const struct schema *schema = problem->schema;
    for (int i = 0; i < schema->field_count; i++) {
        const struct field *field = &schema->fields[i];
        if (random_number() % 3 == 0 && !field->required) {
            continue;
        }
        if (field->kind == FIELD_CHOICE) {
            problem->values[i].integer = (int64_t)(random_number() % (uint64_t)field->choice_count);
        } else if (field->kind == FIELD_REAL) {
            union {
                uint64_t bits;
                double real;
            } any = {.bits = random_number() << 16 ^ random_number()};
            double unit = (double)random_number() / 281474976710656.0;
            double wild = isfinite(any.real) && fabs(any.real) <= field->real_maximum ? any.real : unit;
            problem->values[i].real = wild < field->real_minimum ? unit : wild;
        } else {
            int64_t span = field->maximum - field->minimum + 1;
            problem->values[i].integer =
                field->minimum + (int64_t)(random_number() % (uint64_t)(span > 4096 ? 4096 : span));
        }
    }
    int64_t ratio = 1 + (int64_t)(random_number() % 8), kv_heads = 1 + (int64_t)(random_number() % 64);
    problem->values[schema_find(schema, "heads")].integer = ratio * kv_heads;
    problem->values[schema_find(schema, "kv_heads")].integer = kv_heads;
    problem->values[schema_find(schema, "alignment")].integer = 4 << random_number() % 3;
    int64_t paged = problem->values[schema_find(schema, "paged")].integer;
    problem->values[schema_find(schema, "page_size")].integer = paged ? 1 + (int64_t)(random_number() % 65536) : 0;
}

static void canonical_text_reads_back_as_the_same_problem(void **state)
{
    (void)state;
    const struct schema *schema = schema_attention_forward();
    for (int round = 0; round < 20000; round++) {
        struct problem problem, again;
        struct error error = {0};
        char text[PROBLEM_TEXT_BYTES], second[PROBLEM_TEXT_BYTES];
        problem_defaults(schema, &problem);
        randomise(&problem);
        if (problem_check(&problem, &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        assert_int_equal(problem_format(&problem, text, &error), ATTUNE_OK);
        if (problem_parse(schema, text, &again, &error) != ATTUNE_OK) {
            fail_msg("%s: %s", text, error.message);
        }
        for (int i = 0; i < schema->field_count; i++) {
            bool same = schema->fields[i].kind == FIELD_REAL ? problem.values[i].real == again.values[i].real
                                                             : problem.values[i].integer == again.values[i].integer;
            if (!same) {
                fail_msg("%s: %s differs", text, schema->fields[i].name);
            }
        }
        assert_int_equal(problem_format(&again, second, &error), ATTUNE_OK);
        assert_string_equal(text, second);
    }
}

static void damaged_text_is_refused_or_means_something(void **state)
{
    (void)state;
    const char *good =
        "attention.forward dtype=f16 batch=1 heads=32 kv_heads=8 seqlen_q=2048 head_dim=128 causal=1 dropout=0.1";
    static const char letters[] = "=-+.0159eE \tabfqx_\x80\xff";
    for (int round = 0; round < 20000; round++) {
        struct problem problem;
        struct error error = {0};
        char text[256], printed[PROBLEM_TEXT_BYTES], family[FAMILY_NAME_BYTES];
        snprintf(text, sizeof text, "%s", good);
        for (int i = 0; i <= round % 4; i++) {
            text[random_number() % strlen(good)] = letters[random_number() % (sizeof letters - 1)];
        }
        problem_family(text, family, &error);
        attune_status status = problem_parse(schema_attention_forward(), text, &problem, &error);
        if (status == ATTUNE_OK) {
            assert_int_equal(problem_format(&problem, printed, &error), ATTUNE_OK);
        } else {
            assert_int_equal(status, ATTUNE_INVALID);
            assert_true(error.message[0]);
        }
    }
}

static void values_set_by_hand_pass_the_same_checks(void **state)
{
    (void)state;
    struct problem problem;
    struct error error = {0};
    char text[PROBLEM_TEXT_BYTES];
    problem_defaults(schema_attention_forward(), &problem);
    assert_int_equal(problem_check(&problem, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "heads is missing"));
    problem_defaults(schema_attention_forward(), &problem);
    assert_int_equal(problem_set_choice(&problem, "q_dtype", "bf16", &error), ATTUNE_OK);
    assert_int_equal(problem_set_integer(&problem, "heads", 8, &error), ATTUNE_OK);
    assert_int_equal(problem_set_integer(&problem, "seqlen_q", 5, &error), ATTUNE_OK);
    assert_int_equal(problem_set_integer(&problem, "head_dim_qk", 64, &error), ATTUNE_OK);
    assert_int_equal(problem_set_real(&problem, "dropout", 0.25, &error), ATTUNE_OK);
    assert_int_equal(problem_check(&problem, &error), ATTUNE_OK);
    assert_int_equal(problem_format(&problem, text, &error), ATTUNE_OK);
    assert_string_equal(
        text, "attention.forward q_dtype=bf16 k_dtype=bf16 v_dtype=bf16 o_dtype=bf16 batch=1 heads=8 kv_heads=8 "
              "seqlen_q=5 seqlen_k=5 head_dim_qk=64 head_dim_v=64 dropout=0.25");
    assert_string_equal(problem_choice(&problem, "v_dtype"), "bf16");
    assert_true(problem_real(&problem, "dropout") == 0.25);
    assert_int_equal(problem_set_integer(&problem, "heads", 0, &error), ATTUNE_INVALID);
    assert_int_equal(problem_set_integer(&problem, "q_dtype", 1, &error), ATTUNE_INVALID);
    assert_int_equal(problem_set_integer(&problem, "head", 1, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "did you mean heads"));
    assert_int_equal(problem_set_real(&problem, "dropout", NAN, &error), ATTUNE_INVALID);
    assert_int_equal(problem_set_choice(&problem, "causal", "both", &error), ATTUNE_INVALID);
    assert_int_equal(problem_integer(&problem, "heads"), 8);
}

static void numbers_have_points_in_any_locale(void **state)
{
    (void)state;
    if (!comma_locale_enter()) {
        print_message("no locale with a decimal comma can be had here\n");
        skip();
    }
    assert_string_equal(localeconv()->decimal_point, ",");
    expect_text(
        GOOD "softcap=30.5 scale=0.125 dropout=0.1",
        "attention.forward q_dtype=f16 k_dtype=f16 v_dtype=f16 o_dtype=f16 batch=1 heads=4 kv_heads=4 seqlen_q=8 "
        "seqlen_k=8 head_dim_qk=64 head_dim_v=64 softcap=30.5 dropout=0.1 scale=0.125");
    REFUSED(GOOD "dropout=0,1", "a real number");
    assert_string_equal(localeconv()->decimal_point, ","); /* the host's locale is as it was */
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text_has_fixed_order_and_defaults),
        cmocka_unit_test(explicit_field_wins_over_shorthand_in_any_order),
        cmocka_unit_test(refusals_name_the_field_the_value_and_the_domain),
        cmocka_unit_test(a_failed_parse_leaves_the_problem_as_it_was),
        cmocka_unit_test(planned_options_are_part_of_the_text),
        cmocka_unit_test(alignment_defaults_to_what_contiguous_rows_have),
        cmocka_unit_test(specialisation_holds_compiled_facts_alone),
        cmocka_unit_test(canonical_text_reads_back_as_the_same_problem),
        cmocka_unit_test(damaged_text_is_refused_or_means_something),
        cmocka_unit_test(values_set_by_hand_pass_the_same_checks),
        cmocka_unit_test(numbers_have_points_in_any_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
