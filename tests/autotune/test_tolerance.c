/* The contract's tolerance: it accepts the naive algorithm and rejects planted mistakes, on every kind of input.
 *
 * A mistake is simulated by the reference of a changed problem, rounded to o's type: the best that a kernel with this
 * mistake can do, so what is caught here is caught in any kernel. */
#include "attention_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool accepted(const struct attention_case *c, const void *o, const float *lse, char reason[512])
{
    double ratio;
    bool right = reference_compare(&c->a, &c->rows, &c->reference, o, lse, &ratio, reason, 512);
    assert_int_equal(right, ratio <= 1.0);
    return right;
}

static void naive_passes(void **state)
{
    (void)state;
    for (int dtype = DTYPE_F16; dtype <= DTYPE_F32; dtype++) {
        for (int kind = 0; kind < INPUT_KINDS; kind++) {
            for (int causal = CAUSAL_NONE; causal <= CAUSAL_BOTTOM_RIGHT; causal++) {
                struct attention_case c;
                struct attention a = attention_make((enum dtype)dtype, 2, 4, 2, 70, 83, 32, 24);
                a.causal = (enum attention_causal)causal;
                case_inputs(&c, &a, kind, 5);
                case_compute(&c);
                void *o;
                float *lse;
                char reason[512];
                case_outputs(&c, &o, &lse);
                assert_true(accepted(&c, o, lse, reason)); /* the reference itself */
                for (size_t i = 0; i < c.rows.count; i++) {
                    const struct reference_row *row = &c.rows.rows[i];
                    for (int64_t d = 0; d < a.head_dim_v; d++) {
                        case_set(&a.o, o, row->batch, row->query, row->head, d,
                                 (double)c.reference.naive[i * (size_t)a.head_dim_v + (size_t)d]);
                    }
                }
                assert_true(accepted(&c, o, lse, reason));
                free(o);
                free(lse);
                case_free(&c);
            }
        }
    }
}

typedef void (*mistake)(struct attention_case *wrong);

static void drop_last_tile(struct attention_case *wrong)
{
    wrong->a.seqlen_k -= wrong->a.seqlen_k % 16; /* the tail tile */
}
static void drop_last_key(struct attention_case *wrong)
{
    wrong->a.seqlen_k -= 1;
    wrong->a.causal = CAUSAL_NONE;
}
static void no_mask(struct attention_case *wrong)
{
    wrong->a.causal = CAUSAL_NONE;
}
static void wrong_alignment(struct attention_case *wrong)
{
    wrong->a.causal = CAUSAL_TOP_LEFT;
}
static void one_key_too_many(struct attention_case *wrong)
{
    wrong->a.seqlen_q -= 1; /* row i sees i + seqlen_k - seqlen_q + 1 keys */
}
static void one_key_too_few(struct attention_case *wrong)
{
    wrong->a.seqlen_k -= 1;
}
static void wrong_scale(struct attention_case *wrong)
{
    wrong->a.scale *= 1.02f;
}
/* shift K and V by one row: what a mask one off reads, and a start one off */
static void off_by_one(struct attention_case *wrong)
{
    wrong->a.seqlen_k -= 1;
    wrong->k = (char *)wrong->k + (size_t)wrong->a.k.seq_stride * dtype_size(wrong->a.k.dtype);
    wrong->v = (char *)wrong->v + (size_t)wrong->a.v.seq_stride * dtype_size(wrong->a.v.dtype);
}
static void wrong_kv_head(struct attention_case *wrong)
{
    wrong->k = (char *)wrong->k + (size_t)wrong->a.k.head_stride * dtype_size(wrong->a.k.dtype);
    wrong->v = (char *)wrong->v + (size_t)wrong->a.v.head_stride * dtype_size(wrong->a.v.dtype);
    wrong->a.kv_heads = 1;
    wrong->a.heads = 2;
}
static void swapped_key_order(struct attention_case *wrong)
{
    wrong->v = (char *)wrong->v + (size_t)wrong->a.v.seq_stride * dtype_size(wrong->a.v.dtype);
    wrong->a.seqlen_k -= 1;
}

static void reject(const char *name, mistake plant, enum dtype dtype, enum attention_causal causal)
{
    for (int kind = 0; kind < INPUT_KINDS; kind++) {
        struct attention_case right, wrong;
        struct attention a = attention_make(dtype, 1, 4, 2, 70, 83, 32, 24);
        a.causal = causal;
        case_inputs(&right, &a, kind, 11);
        case_compute(&right);
        wrong = (struct attention_case){.a = right.a, .q = right.q, .k = right.k, .v = right.v};
        plant(&wrong);
        case_compute(&wrong);
        void *o;
        float *lse;
        char reason[512];
        case_outputs(&right, &o, &lse);
        for (size_t i = 0; i < wrong.rows.count; i++) {
            const struct reference_row *row = &wrong.rows.rows[i];
            for (int64_t d = 0; d < a.head_dim_v; d++) {
                case_set(&a.o, o, row->batch, row->query, row->head, d,
                         wrong.reference.o[i * (size_t)a.head_dim_v + (size_t)d]);
            }
        }
        if (accepted(&right, o, NULL, reason)) {
            fail_msg("%s passed on %s inputs", name, input_kind_name(kind));
        }
        assert_true(strlen(reason) > 0);
        free(o);
        free(lse);
        free(wrong.rows.rows);
        reference_free(&wrong.reference);
        case_free(&right);
    }
}

static void planted_mistakes_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        mistake plant;
        enum attention_causal causal;
    } mistakes[] = {
        {"dropped tail tile", drop_last_tile, CAUSAL_NONE},
        {"mask one too wide", one_key_too_many, CAUSAL_BOTTOM_RIGHT},
        {"mask one too narrow", one_key_too_few, CAUSAL_BOTTOM_RIGHT},
        {"dropped last key", drop_last_key, CAUSAL_NONE},
        {"no mask", no_mask, CAUSAL_BOTTOM_RIGHT},
        {"wrong causal alignment", wrong_alignment, CAUSAL_BOTTOM_RIGHT},
        {"keys shifted by one", off_by_one, CAUSAL_BOTTOM_RIGHT},
        {"keys shifted by one", off_by_one, CAUSAL_NONE},
        {"wrong KV head", wrong_kv_head, CAUSAL_NONE},
        {"V rows shifted against K", swapped_key_order, CAUSAL_NONE},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        reject(mistakes[i].name, mistakes[i].plant, DTYPE_F16, mistakes[i].causal);
        reject(mistakes[i].name, mistakes[i].plant, DTYPE_BF16, mistakes[i].causal);
    }
}

/* on inputs with all weights one-hot the scale does not show: normal ones must catch it */
static void wrong_scale_is_rejected_on_normal_inputs(void **state)
{
    (void)state;
    struct attention_case right, wrong;
    struct attention a = attention_make(DTYPE_F16, 1, 2, 2, 40, 64, 32, 32);
    case_inputs(&right, &a, INPUT_NORMAL, 2);
    case_compute(&right);
    wrong = (struct attention_case){.a = right.a, .q = right.q, .k = right.k, .v = right.v};
    wrong_scale(&wrong);
    case_compute(&wrong);
    void *o;
    float *lse;
    char reason[512];
    case_outputs(&wrong, &o, &lse);
    assert_false(accepted(&right, o, NULL, reason));
    free(o);
    free(lse);
    free(wrong.rows.rows);
    reference_free(&wrong.reference);
    case_free(&right);
}

static void lse_mistakes_are_rejected(void **state)
{
    (void)state;
    struct attention_case c;
    struct attention a = attention_make(DTYPE_BF16, 1, 2, 1, 33, 65, 16, 16);
    a.causal = CAUSAL_BOTTOM_RIGHT;
    case_inputs(&c, &a, INPUT_NORMAL, 4);
    case_compute(&c);
    void *o;
    float *lse;
    char reason[512];
    case_outputs(&c, &o, &lse);
    assert_true(accepted(&c, o, lse, reason));
    float kept = lse[40];
    lse[40] = kept * (float)M_LOG2E; /* base 2 */
    assert_false(accepted(&c, o, lse, reason));
    lse[40] = NAN;
    assert_false(accepted(&c, o, lse, reason));
    lse[40] = kept + 0x1p-18f * fmaxf(1.0f, fabsf(kept)) * 40.0f;
    assert_false(accepted(&c, o, lse, reason));
    free(o);
    free(lse);
    case_free(&c);
}

static void rows_without_keys_must_be_exact(void **state)
{
    (void)state;
    struct attention_case c;
    struct attention a = attention_make(DTYPE_F16, 1, 1, 1, 8, 4, 16, 16);
    a.causal = CAUSAL_BOTTOM_RIGHT;
    case_inputs(&c, &a, INPUT_NORMAL, 4);
    case_compute(&c);
    void *o;
    float *lse;
    char reason[512];
    case_outputs(&c, &o, &lse);
    assert_true(accepted(&c, o, lse, reason));
    case_set(&a.o, o, 0, 1, 0, 3, 0x1p-24);
    assert_false(accepted(&c, o, lse, reason));
    case_set(&a.o, o, 0, 1, 0, 3, 0.0);
    lse[1] = -3.4e38f;
    assert_false(accepted(&c, o, lse, reason));
    free(o);
    free(lse);
    case_free(&c);
}

static void nan_where_the_reference_has_none_fails(void **state)
{
    (void)state;
    struct attention_case c;
    struct attention a = attention_make(DTYPE_F32, 1, 1, 1, 3, 4, 4, 4);
    case_inputs(&c, &a, INPUT_NORMAL, 4);
    case_compute(&c);
    void *o;
    float *lse;
    char reason[512];
    case_outputs(&c, &o, &lse);
    case_set(&a.o, o, 0, 2, 0, 1, NAN);
    assert_false(accepted(&c, o, lse, reason));
    assert_non_null(strstr(reason, "query 2"));
    free(o);
    free(lse);
    case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(naive_passes),
        cmocka_unit_test(planted_mistakes_are_rejected),
        cmocka_unit_test(wrong_scale_is_rejected_on_normal_inputs),
        cmocka_unit_test(lse_mistakes_are_rejected),
        cmocka_unit_test(rows_without_keys_must_be_exact),
        cmocka_unit_test(nan_where_the_reference_has_none_fails),
    };
    return cmocka_run_group_tests_name("tolerance", tests, NULL, NULL);
}
