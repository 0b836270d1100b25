/* tails.c - lengths and head sizes that fill no tile, on shared memory that was left full of something: NaN, zeros,
 * large numbers. Answers must be right and their bits must not depend on it. */
#include "kit.h"

#include "autotune/inputs.h"

/* data: a double, the largest size */
static double noise(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    uint64_t bits = hash_mix(0x7a11 + (uint64_t)(((b * 64 + h) * 4096 + s) * 256 + c));
    return *(const double *)data * ((double)(bits >> 40) / 8388608.0 - 1.0);
}

/* NaN in every float type; 0; f16 10144 and fp32 3.9e34: finite in all of them and large */
static const uint8_t fills[] = {0xff, 0x00, 0x70};
enum { FILLS = sizeof fills / sizeof fills[0] };

/* One call on every candidate: right after NaN, the same bits after the others. */
static void check_call(struct proof *proof, const char *text)
{
    static const double two = 2.0;
    struct proof_call call;
    proof_call_make(&call, "tails", text);
    proof_fill(&call, PROOF_Q, noise, &two);
    proof_fill(&call, PROOF_K, noise, &two);
    proof_fill(&call, PROOF_V, noise, &two);
    struct proof_answers answers = proof_answers(&call);
    proof_shared_fill(proof, fills[0]);
    for (struct proof_run run = proof_start(proof, &call); proof_next(&run);) {
        proof_check_answers(&call, &answers);
        struct proof_bits bits = proof_bits(&call);
        for (int i = 1; i < FILLS; i++) {
            proof_shared_fill(proof, fills[i]);
            proof_also(&run, &call);
            proof_same_bits(&call, &bits, "shared memory held something else before");
        }
        proof_bits_free(&bits);
        proof_shared_fill(proof, fills[0]);
    }
    proof_answers_free(&answers);
    proof_call_free(&call);
}

static const int edges[] = {1, 7, 9, 17, 63, 65, 127, 129};
enum { EDGES = sizeof edges / sizeof edges[0] };

/* Every edge as a number of queries and as one of keys; in size full every pair of them. */
static void sweep_edges(struct proof *proof, const char *options)
{
    for (int q = 0; q < EDGES; q++) {
        for (int k = 0; k < EDGES; k++) {
            char text[160];
            if ((q * 5 + 3) % EDGES == k || test_size(0, 1)) {
                snprintf(text, sizeof text, "%s heads=2 kv_heads=1 seqlen_q=%d seqlen_k=%d lse=1", options, edges[q],
                         edges[k]);
                check_call(proof, text);
            }
        }
    }
}

/* A37 */
static void head_dim_64_after_poison(void **state)
{
    sweep_edges(*state, "dtype=f16 head_dim=64");
}
/* A37 */
static void head_dim_72_after_poison(void **state)
{
    sweep_edges(*state, "dtype=f16 head_dim=72");
}
/* A37 */
static void head_dim_128_after_poison(void **state)
{
    sweep_edges(*state, "dtype=f16 head_dim=128");
}
/* A37 */
static void causal_tails_after_poison(void **state)
{
    sweep_edges(*state, "dtype=f16 head_dim=72 causal=1");
}

/* A37: columns of q, k and of v that fill no unit of 16 bytes, each by itself */
static void rows_that_fill_no_unit_after_poison(void **state)
{
    static const char *const options[] = {
        "dtype=f16 head_dim_qk=33 head_dim_v=17",
        "dtype=bf16 head_dim_qk=72 head_dim_v=9",
        "dtype=f32 head_dim_qk=13 head_dim_v=50",
        "q_dtype=f32 k_dtype=f16 v_dtype=f16 o_dtype=f32 head_dim_qk=40 head_dim_v=72",
        "dtype=bf16 head_dim=1",
        "dtype=f32 head_dim=72",
        "dtype=f16 head_dim=256",
    };
    for (int i = 0; i < test_size(4, 7); i++) {
        char text[160];
        snprintf(text, sizeof text, "%s heads=2 kv_heads=1 seqlen_q=9 seqlen_k=65 lse=1", options[i]);
        check_call(*state, text);
        snprintf(text, sizeof text, "%s heads=2 kv_heads=1 seqlen_q=65 seqlen_k=17 lse=1", options[i]);
        check_call(*state, text);
    }
}

/* A37 */
static void long_odd_lengths_after_poison(void **state)
{
    check_call(*state, test_size(0, 1) ? "dtype=f16 heads=1 head_dim=64 seqlen_q=1001 seqlen_k=503 lse=1"
                                       : "dtype=f16 heads=1 head_dim=64 seqlen_q=151 seqlen_k=503 lse=1");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_dim_64_after_poison),
        cmocka_unit_test(head_dim_72_after_poison),
        cmocka_unit_test(head_dim_128_after_poison),
        cmocka_unit_test(causal_tails_after_poison),
        cmocka_unit_test(rows_that_fill_no_unit_after_poison),
        cmocka_unit_test(long_odd_lengths_after_poison),
    };
    proof_arguments(argc, argv);
    return cmocka_run_group_tests_name("proof_tails", tests, proof_set_up, proof_tear_down);
}
