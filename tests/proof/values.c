/* values.c - attention whose right answers are known in closed form: rows without keys, scores that are all alike or
 * far from zero, sums that 16 bits cannot hold, the logarithm's base. */
#include "kit.h"

#include "autotune/inputs.h"

static const char *const dtypes[] = {"f16", "bf16", "f32"};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

static void call_for(struct proof_call *call, const char *label, const char *dtype, const char *rest)
{
    char text[256];
    snprintf(text, sizeof text, "dtype=%s %s", dtype, rest);
    proof_call_make(call, label, text);
}

/* small whole numbers, the same for the same place */
static double whole_numbers(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data;
    return (double)(hash_mix((uint64_t)(((b * 64 + h) * 4096 + s) * 256 + c)) % 17) - 8.0;
}
/* data: the scale of values in [-1, 1] */
static double scaled_noise(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    uint64_t bits = hash_mix(0x5eed + (uint64_t)(((b * 64 + h) * 4096 + s) * 256 + c));
    return *(const double *)data * ((double)(bits >> 40) / 8388608.0 - 1.0);
}

/* mean over the keys that a query sees, from the elements as they are stored */
static double mean_of_v(const struct proof_call *call, int64_t b, int64_t h, int64_t i, int64_t c)
{
    int64_t seen = attention_visible(&call->a, i), kv_head = h / (call->a.heads / call->a.kv_heads);
    double sum = 0.0;
    for (int64_t j = 0; j < seen; j++) {
        sum += proof_get(call, PROOF_V, b, j, kv_head, c);
    }
    return seen == 0 ? 0.0 : sum / (double)seen;
}

/* Rows whose visible scores are all `score`: o is the mean of what is seen, to the rounding of o alone, since every
 * weight is exactly 1. */
static void check_uniform_rows(const struct proof_call *call, double score)
{
    const struct attention *a = &call->a;
    double unit = dtype_unit(a->o.dtype) + ldexp(1.0, -20);
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < a->seqlen_q; i++) {
                for (int64_t c = 0; c < a->head_dim_v; c += 7) {
                    double wanted = mean_of_v(call, b, h, i, c);
                    /* sums of numbers up to 8, or of one sign: rounded once a key at most */
                    proof_near(call, "o", b, h, i, c, proof_o(call, b, h, i, c), wanted,
                               unit * fabs(wanted) + ldexp(1.0, -20));
                }
                int64_t seen = attention_visible(a, i);
                double lse = seen == 0 ? -(double)INFINITY : score + log((double)seen);
                proof_near(call, "lse", b, h, i, 0, proof_lse(call, b, h, i), lse, ldexp(fmax(1.0, fabs(score)), -20));
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------ A01 */

static double ten_a_key(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)b, (void)h, (void)c;
    return 10.0 * (double)(s + 1);
}
static double key_number_first(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)b, (void)h;
    return c == 0 ? (double)(s + 1) : 0.0;
}

/* rows that see nothing are 0 and -infinity, the row that sees one key is that key's V: all exact */
static void check_first_rows(const struct proof_call *call)
{
    const struct attention *a = &call->a;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < a->seqlen_q && attention_visible(a, i) <= 1; i++) {
                bool empty = attention_visible(a, i) == 0;
                for (int64_t c = 0; c < a->head_dim_v; c++) {
                    double wanted = empty ? 0.0 : proof_get(call, PROOF_V, b, 0, h / (a->heads / a->kv_heads), c);
                    proof_near(call, "o", b, h, i, c, proof_o(call, b, h, i, c), wanted, 0.0);
                }
                if (empty) {
                    proof_near(call, "lse", b, h, i, 0, proof_lse(call, b, h, i), -(double)INFINITY, 0.0);
                }
            }
        }
    }
}

/* A01: scores 1 and 2, values 10 and 20 */
static void rows_without_keys_are_zero(void **state)
{
    static const double one = 1.0;
    for (int type = 0; type < DTYPES; type++) {
        struct proof_call call;
        call_for(&call, "Sq=4 Sk=2", dtypes[type], "heads=2 seqlen_q=4 seqlen_k=2 head_dim=64 causal=1 scale=1 lse=1");
        proof_fill(&call, PROOF_Q, proof_constant, &one);
        proof_fill(&call, PROOF_K, key_number_first, NULL);
        proof_fill(&call, PROOF_V, ten_a_key, NULL);
        for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
            check_first_rows(&call);
            for (int64_t h = 0; h < 2; h++) {
                proof_near(&call, "lse", 0, h, 2, 0, proof_lse(&call, 0, h, 2), 1.0, 1e-6);
                proof_near(&call, "lse", 0, h, 3, 0, proof_lse(&call, 0, h, 3), 2.31326169, 1e-6);
                proof_near(&call, "o", 0, h, 3, 63, proof_o(&call, 0, h, 3, 63), 17.3105858,
                           32.0 * dtype_unit(call.a.o.dtype));
            }
        }
        proof_call_free(&call);
    }
}

/* A01: whole tiles without keys, tiles with some, and no keys at all */
static void blocks_without_keys_are_zero(void **state)
{
    static const char *const rest[] = {"heads=4 kv_heads=2 seqlen_q=300 seqlen_k=45 head_dim=64 causal=1 lse=1",
                                       "heads=4 kv_heads=2 seqlen_q=70 seqlen_k=0 head_dim=64 causal=1 lse=1",
                                       "heads=4 kv_heads=2 seqlen_q=70 seqlen_k=0 head_dim=64 lse=1"};
    static const double two = 2.0;
    for (int type = 0; type < test_size(1, DTYPES); type++) {
        for (size_t r = 0; r < sizeof rest / sizeof rest[0]; r++) {
            struct proof_call call;
            call_for(&call, "empty blocks", dtypes[type], rest[r]);
            proof_fill(&call, PROOF_Q, scaled_noise, &two);
            proof_fill(&call, PROOF_K, scaled_noise, &two);
            proof_fill(&call, PROOF_V, scaled_noise, &two);
            struct proof_answers answers = proof_answers(&call);
            for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
                check_first_rows(&call);
                proof_check_answers(&call, &answers);
            }
            proof_answers_free(&answers);
            proof_call_free(&call);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ A02 */

static double eighth_of_key(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)b;
    return (double)s / 8.0 + (double)(c % 4 + h);
}

/* A02: every visible score is -200, and for the first rows whole tiles are hidden */
static void scores_of_minus_200_are_uniform(void **state)
{
    static const struct {
        const char *dtype, *rest;
    } cases[] = {
        {"f16", "heads=2 kv_heads=1 seqlen_q=88 seqlen_k=448 head_dim=64 causal=bottom_right lse=1"},
        {"f16", "heads=2 kv_heads=1 seqlen_q=300 seqlen_k=45 head_dim=64 causal=bottom_right lse=1"},
        {"f16", "heads=1 kv_heads=1 seqlen_q=88 seqlen_k=448 head_dim=64 causal=top_left lse=1"},
        {"bf16", "heads=1 kv_heads=1 seqlen_q=88 seqlen_k=190 head_dim=64 causal=bottom_right lse=1"},
        {"f32", "heads=1 kv_heads=1 seqlen_q=88 seqlen_k=190 head_dim=64 causal=bottom_right lse=1"},
        {"f16", "heads=14 kv_heads=2 seqlen_q=88 seqlen_k=448 head_dim=64 causal=bottom_right lse=1"},
    };
    int count = test_size(5, 6);
    static const double five = 5.0, minus_five = -5.0;
    for (int i = 0; i < count; i++) {
        struct proof_call call;
        call_for(&call, "scores of -200", cases[i].dtype, cases[i].rest);
        proof_fill(&call, PROOF_Q, proof_constant, &five);
        proof_fill(&call, PROOF_K, proof_constant, &minus_five);
        proof_fill(&call, PROOF_V, eighth_of_key, NULL);
        for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
            check_uniform_rows(&call, -200.0);
        }
        proof_call_free(&call);
    }
}

/* ------------------------------------------------------------------------------------------------ A03 */

/* A03: no finite number may stand for minus infinity, and none for plus */
static void scores_far_from_zero_are_uniform(void **state)
{
    static const char *const sizes[] = {"heads=2 seqlen_q=1 seqlen_k=64 head_dim=128 lse=1",
                                        "heads=2 seqlen_q=70 seqlen_k=64 head_dim=128 lse=1"};
    static const char *const scales[] = {"", " scale=1.45", " scale=3.5e30", " scale=-1.45"};
    static const double q = 64.0, k = -84.0;
    for (int type = 0; type < DTYPES; type++) {
        for (size_t i = 0; i < 2; i++) {
            for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
                char rest[128];
                struct proof_call call;
                snprintf(rest, sizeof rest, "%s%s", sizes[i], scales[s]);
                call_for(&call, "far scores", dtypes[type], rest);
                proof_fill(&call, PROOF_Q, proof_constant, &q);
                proof_fill(&call, PROOF_K, proof_constant, &k);
                proof_fill(&call, PROOF_V, whole_numbers, NULL);
                for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
                    check_uniform_rows(&call, 128.0 * q * k * (double)call.a.scale);
                }
                proof_call_free(&call);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------ A04 */

static double hot_key(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)b, (void)h, (void)c;
    return s == *(const int64_t *)data ? 64.0 : 63.0;
}

/* A04: raw products of 524288 and 516096 are beyond f16, the softmax of them is one-hot */
static void products_beyond_f16_stay_finite(void **state)
{
    static const double q = 64.0;
    static const int64_t hot[] = {0, 33, 89};
    for (int type = 0; type < DTYPES; type++) {
        for (size_t n = 0; n < sizeof hot / sizeof hot[0]; n++) {
            struct proof_call call;
            call_for(&call, "one large key", dtypes[type], "heads=2 seqlen_q=37 seqlen_k=90 head_dim=128 lse=1");
            proof_fill(&call, PROOF_Q, proof_constant, &q);
            proof_fill(&call, PROOF_K, hot_key, &hot[n]);
            proof_fill(&call, PROOF_V, whole_numbers, NULL);
            for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
                for (int64_t row = 0; row < 2 * 37; row++) {
                    for (int64_t c = 0; c < 128; c++) {
                        proof_near(&call, "o", 0, row / 37, row % 37, c, proof_o(&call, 0, row / 37, row % 37, c),
                                   proof_get(&call, PROOF_V, 0, hot[n], row / 37, c), 0.0);
                    }
                }
            }
            proof_call_free(&call);
        }
    }
}

/* A04: 4096 weights of 1 times 30000, in every type that can hold 30000 */
static void unnormalised_sums_do_not_overflow(void **state)
{
    static const double zero = 0.0, large = 30000.0;
    for (int type = 0; type < DTYPES; type++) {
        static const int64_t lengths[] = {4096, 999};
        for (int n = 0; n < 2; n++) {
            struct proof_call call;
            char rest[128];
            snprintf(rest, sizeof rest, "heads=1 seqlen_q=5 seqlen_k=%lld head_dim=128 lse=1", (long long)lengths[n]);
            call_for(&call, "values of 30000", dtypes[type], rest);
            proof_fill(&call, PROOF_Q, proof_constant, &zero);
            proof_fill(&call, PROOF_K, proof_constant, &zero);
            proof_fill(&call, PROOF_V, proof_constant, &large);
            double wanted = proof_get(&call, PROOF_V, 0, 0, 0, 0);
            for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
                for (int64_t i = 0; i < 5; i++) {
                    double allowed = call.a.o.dtype == DTYPE_F32 ? ldexp(wanted, -23) : 0.0;
                    proof_near(&call, "o", 0, 0, i, 127, proof_o(&call, 0, 0, i, 127), wanted, allowed);
                    proof_near(&call, "o", 0, 0, i, 0, proof_o(&call, 0, 0, i, 0), wanted, allowed);
                }
            }
            proof_call_free(&call);
        }
    }
}

/* A04: q, k and v that f16 cannot hold, in types that can */
static void bf16_is_not_routed_through_f16(void **state)
{
    static const double large = 3e4, huge = 1e30;
    for (int type = 1; type < DTYPES; type++) {
        struct proof_call call;
        call_for(&call, "values of 3e4", dtypes[type], "heads=2 seqlen_q=37 seqlen_k=90 head_dim=128 scale=1e-9 lse=1");
        proof_fill(&call, PROOF_Q, scaled_noise, &large);
        proof_fill(&call, PROOF_K, scaled_noise, &large);
        proof_fill(&call, PROOF_V, scaled_noise, &huge);
        struct proof_answers answers = proof_answers(&call);
        for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
            proof_check_answers(&call, &answers);
        }
        proof_answers_free(&answers);
        proof_call_free(&call);
    }
}

/* ------------------------------------------------------------------------------------------------ A31 */

/* A31: ln 1000 is 6.9078; in base 2 it would be 9.9658 */
static void lse_is_the_natural_logarithm(void **state)
{
    static const double zero = 0.0, two = 2.0;
    static const char *const scales[] = {"", " scale=0.3"};
    for (int type = 0; type < DTYPES; type++) {
        for (size_t s = 0; s < 2; s++) {
            char rest[128];
            struct proof_call call;
            snprintf(rest, sizeof rest, "heads=2 seqlen_q=9 seqlen_k=1000 head_dim=128 lse=1%s", scales[s]);
            call_for(&call, "k=0", dtypes[type], rest);
            proof_fill(&call, PROOF_Q, scaled_noise, &two);
            proof_fill(&call, PROOF_K, proof_constant, &zero);
            proof_fill(&call, PROOF_V, whole_numbers, NULL);
            for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
                check_uniform_rows(&call, 0.0);
            }
            proof_call_free(&call);
        }
    }
}

static double first_element_of_hot_key(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)b, (void)h;
    return s == *(const int64_t *)data && c == 0 ? 3.0 : 0.0;
}
static double one_of_hot_key(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)b, (void)h, (void)c;
    return s == *(const int64_t *)data ? 1.0 : 0.0;
}

/* A31: one score of 3 and 100 of 0 weigh 0.16726; with mixed bases 0.0898 */
static void exponents_and_lse_share_a_base(void **state)
{
    static const double one = 1.0;
    static const int64_t hot[] = {0, 64, 100};
    for (int type = 0; type < DTYPES; type++) {
        for (size_t n = 0; n < sizeof hot / sizeof hot[0]; n++) {
            struct proof_call call;
            call_for(&call, "scores 3 and 0", dtypes[type],
                     "heads=2 seqlen_q=9 seqlen_k=101 head_dim=128 lse=1 scale=1");
            proof_fill(&call, PROOF_Q, proof_constant, &one);
            proof_fill(&call, PROOF_K, first_element_of_hot_key, &hot[n]);
            proof_fill(&call, PROOF_V, one_of_hot_key, &hot[n]);
            for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
                for (int64_t i = 0; i < 9; i++) {
                    proof_near(&call, "o", 0, 1, i, 5, proof_o(&call, 0, 1, i, 5), exp(3.0) / (exp(3.0) + 100.0),
                               0.4 * dtype_unit(call.a.o.dtype) + 1e-6);
                    proof_near(&call, "lse", 0, 1, i, 0, proof_lse(&call, 0, 1, i), log(exp(3.0) + 100.0), 6e-6);
                }
            }
            proof_call_free(&call);
        }
    }
}

struct part {
    int64_t first;
    double scale;
};
static double part_of_noise(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    const struct part *part = data;
    return scaled_noise(&part->scale, b, s + part->first, h, c);
}

static void make_part(struct proof_call *call, const char *dtype, int64_t first, int64_t count)
{
    static const double three = 3.0;
    const struct part part = {first, 3.0};
    char rest[128];
    snprintf(rest, sizeof rest, "heads=2 kv_heads=1 seqlen_q=21 seqlen_k=%lld head_dim=128 lse=1", (long long)count);
    call_for(call, "parts of the keys", dtype, rest);
    proof_fill(call, PROOF_Q, scaled_noise, &three);
    proof_fill(call, PROOF_K, part_of_noise, &part);
    proof_fill(call, PROOF_V, part_of_noise, &part);
}

/* A31: two calls on two parts of the keys, merged with exp(lse), are one call on all of them */
static void parts_merge_by_their_lse(void **state)
{
    enum { KEYS = 311 };
    static const int64_t cuts[] = {200, 1, 64};
    for (int type = 0; type < DTYPES; type++) {
        for (int n = 0; n < test_size(type == 0 ? 2 : 1, 3); n++) {
            struct proof_call whole, left, right;
            make_part(&whole, dtypes[type], 0, KEYS);
            make_part(&left, dtypes[type], 0, cuts[n]);
            make_part(&right, dtypes[type], cuts[n], KEYS - cuts[n]);
            for (struct proof_run run = proof_start(*state, &whole); proof_next(&run);) {
                proof_also(&run, &left);
                proof_also(&run, &right);
                for (int64_t row = 0; row < 2 * 21; row++) {
                    int64_t h = row / 21, i = row % 21;
                    double a = proof_lse(&left, 0, h, i), b = proof_lse(&right, 0, h, i), both = fmax(a, b);
                    double lse = both + log(exp(a - both) + exp(b - both));
                    proof_near(&whole, "lse", 0, h, i, 0, proof_lse(&whole, 0, h, i), lse, 3e-5);
                    for (int64_t c = 0; c < 128; c++) {
                        double o =
                            exp(a - lse) * proof_o(&left, 0, h, i, c) + exp(b - lse) * proof_o(&right, 0, h, i, c);
                        proof_near(&whole, "o", 0, h, i, c, proof_o(&whole, 0, h, i, c), o,
                                   9.0 * dtype_unit(whole.a.o.dtype) + 1e-4);
                    }
                }
            }
            proof_call_free(&whole);
            proof_call_free(&left);
            proof_call_free(&right);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_without_keys_are_zero),      cmocka_unit_test(blocks_without_keys_are_zero),
        cmocka_unit_test(scores_of_minus_200_are_uniform), cmocka_unit_test(scores_far_from_zero_are_uniform),
        cmocka_unit_test(products_beyond_f16_stay_finite), cmocka_unit_test(unnormalised_sums_do_not_overflow),
        cmocka_unit_test(bf16_is_not_routed_through_f16),  cmocka_unit_test(lse_is_the_natural_logarithm),
        cmocka_unit_test(exponents_and_lse_share_a_base),  cmocka_unit_test(parts_merge_by_their_lse),
    };
    proof_arguments(argc, argv);
    return cmocka_run_group_tests_name("proof_values", tests, proof_set_up, proof_tear_down);
}
