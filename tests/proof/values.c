/* values.c - attention whose right answers are known in closed form: rows without keys, scores that are all alike or
 * far from zero, sums that 16 bits cannot hold. */
#include "kit.h"

/* the query whose key `visible - 1` is the last it sees */
static int64_t keys_seen(const struct proof_call *call, int64_t i)
{
    return attention_visible(&call->a, i);
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

static void check_empty_rows(const struct proof_call *call)
{
    const struct attention *a = &call->a;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < a->seqlen_q; i++) {
                int64_t seen = keys_seen(call, i);
                for (int64_t c = 0; c < a->head_dim_v && seen <= 1; c++) {
                    double wanted = seen == 0 ? 0.0 : proof_get(call, PROOF_V, b, 0, h / (a->heads / a->kv_heads), c);
                    proof_near(call, "o", b, h, i, c, proof_o(call, b, h, i, c), wanted, 0.0);
                }
                if (seen == 0) {
                    proof_near(call, "lse", b, h, i, 0, proof_lse(call, b, h, i), -(double)INFINITY, 0.0);
                }
            }
        }
    }
}

/* A01 */
static void rows_without_keys_are_zero(void **state)
{
    static const double one = 1.0;
    struct proof_call call;
    proof_call_make(&call, "Sq=4 Sk=2", "dtype=f16 heads=2 seqlen_q=4 seqlen_k=2 head_dim=64 causal=1 scale=1 lse=1");
    proof_fill(&call, PROOF_Q, proof_constant, &one);
    proof_fill(&call, PROOF_K, key_number_first, NULL);
    proof_fill(&call, PROOF_V, ten_a_key, NULL);
    for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
        check_empty_rows(&call);
        for (int64_t h = 0; h < 2; h++) {
            proof_near(&call, "lse", 0, h, 2, 0, proof_lse(&call, 0, h, 2), 1.0, 1e-6);
            proof_near(&call, "lse", 0, h, 3, 0, proof_lse(&call, 0, h, 3), 2.31326169, 1e-6);
            proof_near(&call, "o", 0, h, 3, 63, proof_o(&call, 0, h, 3, 63), 17.3105858, 0.01);
        }
    }
    proof_call_free(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_without_keys_are_zero),
    };
    return cmocka_run_group_tests_name("proof_values", tests, proof_set_up, proof_tear_down);
}
