/* The fp64 reference against closed forms, and inputs, types and dropout bits against known answers. */
#include "attention_cases.h"
#include "autotune/philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_near(found, expected, tolerance)                                                                        \
    assert_true(fabs((double)(found) - (double)(expected)) <= (tolerance)*fmax(1.0, fabs((double)(expected))))

static void half_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(half_from_float(65504.0f), 0x7bff);
    assert_int_equal(half_from_float(65519.9f), 0x7bff);
    assert_int_equal(half_from_float(65520.0f), 0x7c00);
    assert_int_equal(half_from_float(0x1p-24f), 1);
    assert_int_equal(half_from_float(0x1p-25f), 0);        /* tie to even */
    assert_int_equal(half_from_float(0x1.8p-24f), 2);      /* tie to even */
    assert_int_equal(half_from_float(0x1.000002p-25f), 1); /* just above the tie */
    assert_int_equal(half_from_float(1.0f + 0x1p-11f), 0x3c00);
    assert_int_equal(half_from_float(1.0f + 0x1.8p-10f), 0x3c02);
    assert_int_equal(half_from_float(-0.0f), 0x8000);
    assert_true(isnan(half_to_float(half_from_float(NAN))));
    assert_int_equal(bfloat_from_float(1.0f + 0x1p-8f), 0x3f80);
    assert_int_equal(bfloat_from_float(1.0f + 0x1.8p-7f), 0x3f82);
    assert_int_equal(bfloat_from_float(3.4e38f), 0x7f80);
    assert_true(isnan(bfloat_to_float(bfloat_from_float(NAN))));
    for (uint32_t bits = 0; bits < 65536; bits++) { /* every value survives the way there and back */
        float half = half_to_float((uint16_t)bits), bfloat = bfloat_to_float((uint16_t)bits);
        assert_true(isnan(half) || half_from_float(half) == bits);
        assert_true(isnan(bfloat) || bfloat_from_float(bfloat) == bits);
    }
}

static void double_is_rounded_once(void **state)
{
    (void)state;
    /* 1 + 2^-11 + 2^-40 lies above the tie; through fp32 it would fall on it and round down */
    double value = 1.0 + 0x1p-11 + 0x1p-40;
    uint16_t half;
    convert_from_double(DTYPE_F16, &value, &half, 1);
    assert_int_equal(half, 0x3c01);
    value = -value;
    convert_from_double(DTYPE_F16, &value, &half, 1);
    assert_int_equal(half, 0xbc01);
}

static void nan_is_found_wherever_it_is(void **state)
{
    (void)state;
    uint16_t shorts[10000];
    float floats[10000];
    memset(shorts, 0, sizeof shorts);
    memset(floats, 0, sizeof floats);
    assert_int_equal(convert_find_nan(DTYPE_F16, shorts, 10000), 10000);
    assert_int_equal(convert_find_nan(DTYPE_F32, floats, 10000), 10000);
    shorts[9999] = 0x7c00; /* infinity is not NaN */
    assert_int_equal(convert_find_nan(DTYPE_F16, shorts, 10000), 10000);
    assert_int_equal(convert_find_nan(DTYPE_BF16, shorts, 10000), 10000);
    shorts[9999] = 0xfc01;
    shorts[4097] = 0xffff;
    floats[7] = NAN;
    assert_int_equal(convert_find_nan(DTYPE_F16, shorts, 10000), 4097);
    assert_int_equal(convert_find_nan(DTYPE_BF16, shorts, 10000), 4097);
    assert_int_equal(convert_find_nan(DTYPE_F32, floats, 10000), 7);
    assert_true(convert_is_poison(DTYPE_F16, shorts, 4097));
    assert_false(convert_is_poison(DTYPE_F16, shorts, 9999));
}

/* Answers of Random123's known-answer file for philox4x32 with 7 rounds. */
static void philox_matches_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], output[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t output[4];
        philox4x32_7(known[i].counter, known[i].key, output);
        assert_memory_equal(output, known[i].output, sizeof output);
    }
}

static void dropout_takes_the_half_of_the_contract(void **state)
{
    (void)state;
    enum { KEYS = 100 };
    uint8_t keep[KEYS];
    uint64_t seed = 0x0123456789abcdefu, offset = 5;
    dropout_row(seed, offset, 11, 3, 30000, keep, KEYS);
    for (uint32_t j = 0; j < KEYS; j++) {
        uint32_t a = j / 32, b = j % 32 / 8, c = j % 8 / 2, e = j % 2, h = 2 * b + e;
        uint32_t counter[4] = {4 * a + c, 3, 11, (uint32_t)offset}, key[2] = {0x89abcdef, 0x01234567}, word[4];
        philox4x32_7(counter, key, word);
        assert_int_equal(keep[j], (word[h / 2] >> 16 * (h % 2) & 0xffff) < 30000);
    }
}

static void dropout_constants_are_exact_at_the_ends(void **state)
{
    (void)state;
    uint32_t threshold;
    float factor;
    dropout_constants(0.0, &threshold, &factor);
    assert_int_equal(threshold, 65536);
    assert_true(factor == 1.0f);
    dropout_constants(1.0, &threshold, &factor);
    assert_int_equal(threshold, 0);
    assert_true(factor == 0.0f);
    dropout_constants(0.1, &threshold, &factor);
    assert_int_equal(threshold, 58982);
    assert_true(factor == 65536.0f / 58982.0f);
}

static void rows_without_keys_are_zero(void **state)
{
    (void)state;
    struct attention_case c;
    struct attention a = attention_make(DTYPE_F32, 1, 1, 1, 4, 2, 1, 1);
    a.causal = CAUSAL_BOTTOM_RIGHT;
    a.scale = 1.0f;
    case_allocate(&c, &a);
    for (int64_t i = 0; i < 4; i++) {
        case_set(&a.q, c.q, 0, i, 0, 0, 1.0);
    }
    for (int64_t j = 0; j < 2; j++) {
        case_set(&a.k, c.k, 0, j, 0, 0, (double)(j + 1));
        case_set(&a.v, c.v, 0, j, 0, 0, (double)(10 * (j + 1)));
    }
    case_compute(&c);
    for (int64_t i = 0; i < 2; i++) {
        assert_true(case_o(&c, 0, 0, i)[0] == 0.0);
        assert_true(isinf(case_lse(&c, 0, 0, i)) && case_lse(&c, 0, 0, i) < 0);
    }
    assert_true(case_o(&c, 0, 0, 2)[0] == 10.0);
    assert_near(case_lse(&c, 0, 0, 2), 1.0, 1e-15);
    assert_near(case_lse(&c, 0, 0, 3), 2.3132616875182228, 1e-15);
    case_free(&c);
}

static void rows_after_empty_tiles_do_not_underflow(void **state)
{
    (void)state;
    struct attention_case c;
    struct attention a = attention_make(DTYPE_F16, 1, 14, 2, 88, 448, 64, 64);
    a.causal = CAUSAL_BOTTOM_RIGHT;
    a.scale = 0.125f;
    case_allocate(&c, &a);
    for (int64_t d = 0; d < 64; d++) {
        for (int64_t h = 0; h < 14; h++) {
            for (int64_t i = 0; i < 88; i++) {
                case_set(&a.q, c.q, 0, i, h, d, 5.0);
            }
        }
        for (int64_t j = 0; j < 448; j++) {
            for (int64_t h = 0; h < 2; h++) {
                case_set(&a.k, c.k, 0, j, h, d, -5.0);
                case_set(&a.v, c.v, 0, j, h, d, (double)j / 8.0);
            }
        }
    }
    case_compute(&c);
    for (int64_t i = 0; i < 88; i++) {
        double visible = (double)(i + 361);
        assert_near(case_o(&c, 0, 13, i)[63], (visible - 1.0) / 16.0, 1e-12);
        assert_near(case_lse(&c, 0, 13, i), -200.0 + log(visible), 1e-13);
    }
    case_free(&c);
}

static void very_negative_scores_weigh_alike(void **state)
{
    (void)state;
    struct attention_case c;
    struct attention a = attention_make(DTYPE_F16, 1, 1, 1, 70, 64, 128, 8);
    case_allocate(&c, &a);
    for (int64_t d = 0; d < 128; d++) {
        for (int64_t i = 0; i < 70; i++) {
            case_set(&a.q, c.q, 0, i, 0, d, 64.0);
        }
        for (int64_t j = 0; j < 64; j++) {
            case_set(&a.k, c.k, 0, j, 0, d, -84.0);
        }
    }
    for (int64_t j = 0; j < 64; j++) {
        case_set(&a.v, c.v, 0, j, 0, 0, (double)j);
    }
    case_compute(&c);
    assert_near(case_o(&c, 0, 0, 69)[0], 31.5, 1e-12);
    assert_near(case_lse(&c, 0, 0, 69), 64.0 * -84.0 * 128.0 * (double)a.scale + log(64.0), 1e-13);
    case_free(&c);
}

static void lse_is_the_natural_logarithm(void **state)
{
    (void)state;
    struct attention_case c;
    struct attention a = attention_make(DTYPE_F32, 1, 1, 1, 1, 1000, 4, 4);
    case_allocate(&c, &a);
    case_set(&a.q, c.q, 0, 0, 0, 0, 3.0);
    case_compute(&c);
    assert_near(case_lse(&c, 0, 0, 0), log(1000.0), 1e-13);
    case_free(&c);
}

static void query_heads_read_their_kv_head(void **state)
{
    (void)state;
    static const int64_t pairs[][2] = {{6, 2}, {7, 1}, {14, 2}, {40, 8}, {4, 4}};
    for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
        struct attention_case c;
        struct attention a = attention_make(DTYPE_BF16, 1, pairs[p][0], pairs[p][1], 2, 5, 8, 3);
        case_inputs(&c, &a, INPUT_NORMAL, 3);
        for (int64_t j = 0; j < 5; j++) {
            for (int64_t h = 0; h < pairs[p][1]; h++) {
                for (int64_t d = 0; d < 3; d++) {
                    case_set(&a.v, c.v, 0, j, h, d, (double)h);
                }
            }
        }
        case_compute(&c);
        for (int64_t h = 0; h < pairs[p][0]; h++) {
            assert_near(case_o(&c, 0, h, 1)[2], (double)(h / (pairs[p][0] / pairs[p][1])), 1e-14);
        }
        case_free(&c);
    }
}

static void causal_alignments_show_the_right_keys(void **state)
{
    (void)state;
    struct attention a = attention_make(DTYPE_F32, 1, 1, 1, 3, 5, 1, 1);
    static const int64_t expected[3][3] = {{5, 5, 5}, {1, 2, 3}, {3, 4, 5}};
    for (int mask = 0; mask < 3; mask++) {
        a.causal = (enum attention_causal)mask;
        for (int64_t i = 0; i < 3; i++) {
            assert_int_equal(attention_visible(&a, i), expected[mask][i]);
        }
    }
    a.seqlen_q = 5;
    a.seqlen_k = 3;
    assert_int_equal(attention_visible(&a, 0), 0);
    assert_int_equal(attention_visible(&a, 4), 3);
    a.causal = CAUSAL_TOP_LEFT;
    assert_int_equal(attention_visible(&a, 4), 3);
}

/* V is the identity, so the mask can be read from O; k = 0 makes all weights alike. */
static void dropout_drops_what_philox_says(void **state)
{
    (void)state;
    enum { KEYS = 48, QUERIES = 9 };
    struct attention_case c;
    struct attention a = attention_make(DTYPE_F32, 2, 2, 1, QUERIES, KEYS, 4, KEYS);
    a.dropout = true;
    a.seed = 0xfeedfacecafebeefu;
    a.offset = 77;
    dropout_constants(0.48, &a.dropout_threshold, &a.dropout_scale);
    case_allocate(&c, &a);
    for (int64_t b = 0; b < 2; b++) {
        for (int64_t j = 0; j < KEYS; j++) {
            case_set(&a.v, c.v, b, j, 0, j, 1.0);
        }
    }
    case_compute(&c);
    int kept = 0;
    for (int64_t b = 0; b < 2; b++) {
        for (int64_t h = 0; h < 2; h++) {
            for (int64_t i = 0; i < QUERIES; i++) {
                uint8_t keep[KEYS];
                dropout_row(a.seed, a.offset, (uint32_t)(b * 2 + h), (uint32_t)i, a.dropout_threshold, keep, KEYS);
                for (int64_t j = 0; j < KEYS; j++) {
                    kept += keep[j];
                    assert_near(case_o(&c, b, h, i)[j], keep[j] ? (double)a.dropout_scale / KEYS : 0.0, 1e-12);
                }
                assert_near(case_lse(&c, b, h, i), log(KEYS), 1e-13); /* lse is without dropout */
            }
        }
    }
    double n = 4.0 * QUERIES * KEYS, rate = (double)a.dropout_threshold / 65536.0;
    assert_true(fabs(kept - n * rate) < 4.0 * sqrt(n * rate * (1.0 - rate)));
    dropout_constants(1.0, &c.a.dropout_threshold, &c.a.dropout_scale);
    case_compute(&c);
    for (size_t i = 0; i < c.rows.count * KEYS; i++) {
        assert_true(c.reference.o[i] == 0.0);
    }
    case_free(&c);
}

static void nan_scores_make_nan_rows_only(void **state)
{
    (void)state;
    struct attention_case c;
    struct attention a = attention_make(DTYPE_F32, 1, 1, 1, 4, 4, 2, 2);
    a.causal = CAUSAL_TOP_LEFT;
    case_inputs(&c, &a, INPUT_NORMAL, 1);
    case_set(&a.k, c.k, 0, 2, 0, 0, NAN);
    case_set(&a.v, c.v, 0, 3, 0, 0, NAN);
    case_compute(&c);
    assert_false(isnan(case_o(&c, 0, 0, 1)[0]));
    assert_true(isnan(case_o(&c, 0, 0, 2)[1]));
    case_free(&c);
}

static void results_do_not_depend_on_the_layout(void **state)
{
    (void)state;
    for (int kind = 0; kind < INPUT_KINDS; kind++) {
        struct attention_case plain, spread;
        struct attention a = attention_make(DTYPE_F16, 2, 4, 2, 19, 23, 24, 16), b = a;
        a.causal = b.causal = CAUSAL_BOTTOM_RIGHT;
        b.alignment = 16;
        attention_scattered(&b);
        assert_int_equal(b.q.seq_stride % 8, 0);
        assert_true(b.v.head_stride > 16);
        case_inputs(&plain, &a, kind, 42);
        case_inputs(&spread, &b, kind, 42);
        case_compute(&plain);
        case_compute(&spread);
        assert_memory_equal(plain.reference.o, spread.reference.o, plain.rows.count * 16 * sizeof(double));
        assert_memory_equal(plain.reference.lse, spread.reference.lse, plain.rows.count * sizeof(double));
        case_free(&plain);
        case_free(&spread);
    }
}

static void normal_inputs_have_unit_moments(void **state)
{
    (void)state;
    float *table = malloc(NORMAL_ENTRIES * sizeof *table);
    double sum = 0.0, squares = 0.0;
    assert_non_null(table);
    normal_table(table);
    for (int i = 0; i < NORMAL_ENTRIES; i++) {
        sum += (double)table[i];
        squares += (double)table[i] * (double)table[i];
        assert_true(i == 0 || table[i] >= table[i - 1]);
    }
    assert_near(sum, 0.0, 1e-6);
    assert_near(squares / NORMAL_ENTRIES, 1.0, 1e-3);
    free(table);
}

static void peaked_inputs_are_the_normal_ones_times_eight(void **state)
{
    (void)state;
    struct attention_case normal, peaked;
    struct attention a = attention_make(DTYPE_F32, 1, 2, 2, 5, 6, 12, 12);
    case_inputs(&normal, &a, INPUT_NORMAL, 9);
    case_inputs(&peaked, &a, INPUT_PEAKED, 9);
    for (int64_t c = 0; c < 12; c++) {
        assert_true(case_get(&a.q, peaked.q, 0, 4, 1, c) == 8.0 * case_get(&a.q, normal.q, 0, 4, 1, c));
        assert_true(case_get(&a.k, peaked.k, 0, 5, 0, c) == 8.0 * case_get(&a.k, normal.k, 0, 5, 0, c));
        assert_true(case_get(&a.v, peaked.v, 0, 5, 1, c) == case_get(&a.v, normal.v, 0, 5, 1, c));
    }
    case_free(&normal);
    case_free(&peaked);
}

static void sampled_rows_hold_edges_of_every_head(void **state)
{
    (void)state;
    struct attention a = attention_make(DTYPE_F16, 2, 3, 3, 5000, 5000, 64, 64);
    struct reference_rows rows;
    double whole = attention_operations(&a);
    assert_int_equal(reference_choose_rows(&a, whole * 0.4, 1, &rows, NULL), ATTUNE_OK);
    assert_false(rows.complete);
    int first[6] = {0}, last[6] = {0}, count[6] = {0};
    for (size_t i = 0; i < rows.count; i++) {
        int lane = rows.rows[i].batch * 3 + rows.rows[i].head;
        count[lane]++;
        first[lane] |= rows.rows[i].query == 0;
        last[lane] |= rows.rows[i].query == 4999;
    }
    for (int lane = 0; lane < 6; lane++) {
        assert_true(first[lane] && last[lane] && count[lane] >= 48);
    }
    assert_int_equal(count[0], 5000);
    assert_int_equal(count[5], 5000);
    free(rows.rows);
    assert_int_equal(reference_choose_rows(&a, whole, 1, &rows, NULL), ATTUNE_OK);
    assert_true(rows.complete);
    assert_int_equal(rows.count, 30000);
    free(rows.rows);
}

static bool passes(const struct attention_case *c, const void *o, const float *lse)
{
    double ratio;
    char reason[256];
    return reference_compare(&c->a, &c->rows, &c->reference, o, lse, &ratio, reason, sizeof reason);
}

/* the result with the subnormal elements of q, k, v as zero passes for a target that flushes, and nowhere else */
static void a_target_that_flushes_may_lose_subnormal_elements(void **state)
{
    (void)state;
    for (int tensor = 0; tensor < 3; tensor++) {
        struct attention_case whole, lost;
        struct attention a = attention_make(DTYPE_F16, 1, 1, 1, 4, 24, 8, 8);
        a.scale = 64.0f;
        case_inputs(&whole, &a, INPUT_NORMAL, 11);
        case_inputs(&lost, &a, INPUT_NORMAL, 11);
        const struct attention_tensor *shapes[] = {&a.q, &a.k, &a.v};
        void *in_whole[] = {whole.q, whole.k, whole.v}, *in_lost[] = {lost.q, lost.k, lost.v};
        for (int64_t s = 0; s < (tensor == 0 ? a.seqlen_q : a.seqlen_k); s++) {
            for (int64_t c = 0; c < 8; c++) { /* the largest subnormals */
                case_set(shapes[tensor], in_whole[tensor], 0, s, 0, c, (s + c) % 3 ? 0x1p-14 - 0x1p-24 : -0x1p-15);
                case_set(shapes[tensor], in_lost[tensor], 0, s, 0, c, 0.0);
            }
        }
        void *o;
        float *lse;
        case_compute(&lost);
        case_outputs(&lost, &o, &lse);
        case_compute(&whole);
        assert_false(passes(&whole, o, lse));
        whole.a.flushes = true;
        case_compute(&whole);
        assert_true(passes(&whole, o, lse));
        free(o);
        free(lse);
        case_free(&whole);
        case_free(&lost);
    }
}

static void bounds_are_the_same_where_nothing_is_subnormal(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32};
    for (int d = 0; d < 3; d++) {
        struct attention_case c;
        struct attention a = attention_make(dtypes[d], 1, 2, 1, 5, 40, 8, 8);
        case_inputs(&c, &a, INPUT_STRUCTURED, 3);
        case_compute(&c);
        double allowed[10], lse_allowed[10];
        memcpy(allowed, c.reference.allowed, sizeof allowed);
        memcpy(lse_allowed, c.reference.lse_allowed, sizeof lse_allowed);
        c.a.flushes = true;
        case_compute(&c);
        assert_memory_equal(allowed, c.reference.allowed, sizeof allowed);
        assert_memory_equal(lse_allowed, c.reference.lse_allowed, sizeof lse_allowed);
        case_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_rounds_to_nearest_even),
        cmocka_unit_test(double_is_rounded_once),
        cmocka_unit_test(nan_is_found_wherever_it_is),
        cmocka_unit_test(philox_matches_known_answers),
        cmocka_unit_test(dropout_takes_the_half_of_the_contract),
        cmocka_unit_test(dropout_constants_are_exact_at_the_ends),
        cmocka_unit_test(rows_without_keys_are_zero),
        cmocka_unit_test(rows_after_empty_tiles_do_not_underflow),
        cmocka_unit_test(very_negative_scores_weigh_alike),
        cmocka_unit_test(lse_is_the_natural_logarithm),
        cmocka_unit_test(query_heads_read_their_kv_head),
        cmocka_unit_test(causal_alignments_show_the_right_keys),
        cmocka_unit_test(dropout_drops_what_philox_says),
        cmocka_unit_test(nan_scores_make_nan_rows_only),
        cmocka_unit_test(results_do_not_depend_on_the_layout),
        cmocka_unit_test(normal_inputs_have_unit_moments),
        cmocka_unit_test(peaked_inputs_are_the_normal_ones_times_eight),
        cmocka_unit_test(sampled_rows_hold_edges_of_every_head),
        cmocka_unit_test(a_target_that_flushes_may_lose_subnormal_elements),
        cmocka_unit_test(bounds_are_the_same_where_nothing_is_subnormal),
    };
    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
