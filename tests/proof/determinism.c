/* determinism.c - same plan and inputs, same bits: every candidate of a cover, launched again and again, under every
 * order in which the host device may run its threads; on a GPU, whatever order the hardware takes. */
#include "kit.h"
#include "runtime/host_device.h"

static double scattered(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    const uint64_t *seed = data;
    uint64_t x = *seed + (uint64_t)(((b * 997 + s) * 991 + h) * 983 + c) * 0x9e3779b97f4a7c15u;
    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    return (double)(int64_t)(x >> 11) / (double)(1LL << 52) - 1.0;
}

static void launches_agree(struct proof *proof, struct proof_call *call)
{
    static const uint64_t seeds[] = {1, 2, 3};
    static const enum host_schedule orders[] = {HOST_GREEDY, HOST_REVERSE, HOST_ROUND_ROBIN};
    for (int t = PROOF_Q; t <= PROOF_V; t++) {
        proof_fill(call, (enum proof_tensor)t, scattered, &seeds[t]);
    }
    host_device_set_schedule(HOST_ROUND_ROBIN);
    for (struct proof_run run = proof_start(proof, call); proof_next(&run);) {
        struct proof_bits bits = proof_bits(call);
        for (int i = 0; i < 3 * test_size(1, 8); i++) {
            char what[64];
            host_device_set_schedule(orders[i % 3]);
            snprintf(what, sizeof what, "launch %d, %s", i + 2, host_schedule_name(orders[i % 3]));
            proof_also(&run, call);
            proof_same_bits(call, &bits, what);
        }
        proof_bits_free(&bits);
    }
    proof_call_free(call);
}

static void launches_give_the_same_bits(void **state)
{
    static const char *const texts[] = {
        "dtype=f16 heads=4 kv_heads=2 seqlen_q=21 seqlen_k=75 head_dim=32 causal=1 lse=1",
        "dtype=bf16 batch=2 heads=2 seqlen_q=1 seqlen_k=150 head_dim=64 lse=1",
        "dtype=f32 heads=2 seqlen_q=19 seqlen_k=40 head_dim=24 lse=1",
    };
    for (int i = 0; i < test_size(2, 3); i++) {
        struct proof_call call;
        proof_call_make(&call, "two launches", texts[i]);
        launches_agree(*state, &call);
    }
}

static void launches_with_dropout_give_the_same_bits(void **state)
{
    struct proof_call call;
    proof_call_make(&call, "two launches with dropout",
                    "dtype=f16 heads=2 seqlen_q=33 seqlen_k=60 head_dim=32 dropout=0.3 lse=1");
    call.a.seed = 0x1234567890abcdefu;
    call.a.offset = 77;
    call.seed_by_pointer = true;
    launches_agree(*state, &call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_give_the_same_bits),
        cmocka_unit_test(launches_with_dropout_give_the_same_bits),
    };
    return cmocka_run_group_tests_name("proof_determinism", tests, proof_set_up, proof_tear_down);
}
