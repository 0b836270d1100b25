/* dropout.c - which weights are dropped: the contract's mask, in every candidate, from seed and offset alone.
 *
 * With equal scores and V the identity, column j of o is 0 where key j was dropped and the same number elsewhere: the
 * mask is read off the output. The Philox here is written from docs/numerics.md and shares nothing with the product's.
 */
#include "kit.h"

enum { KEYS = 128 }; /* of the widest mask: head_dim_v */

static const char *const dtypes[] = {"f16", "bf16", "f32"};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

/* ------------------------------------------------------------------------------------------------ the contract's mask
 */

struct draw {
    uint32_t words[4];
};

static struct draw philox(uint32_t x, uint32_t y, uint32_t z, uint32_t w, uint64_t seed)
{
    uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32);
    for (int round = 0; round < 7; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * x, b = (uint64_t)0xcd9e8d57u * z;
        x = (uint32_t)(b >> 32) ^ y ^ low;
        y = (uint32_t)b;
        z = (uint32_t)(a >> 32) ^ w ^ high;
        w = (uint32_t)a;
        low += 0x9e3779b9u;
        high += 0xbb67ae85u;
    }
    return (struct draw){{x, y, z, w}};
}

static bool kept(const struct attention *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    uint32_t x = (uint32_t)(j / 32 * 4 + j / 2 % 4), half = (uint32_t)(2 * (j / 8 % 4) + j % 2);
    struct draw draw = philox(x, (uint32_t)i, (uint32_t)(b * a->heads + h), (uint32_t)a->offset, a->seed);
    return (draw.words[half / 2] >> 16 * (half % 2) & 0xffff) < a->dropout_threshold;
}

/* ------------------------------------------------------------------------------------------------ calls */

static double diagonal(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)b, (void)h;
    return s == c ? 1.0 : 0.0;
}

static void make_readable(struct proof_call *call, const char *dtype, int seqlen_q, int seqlen_k, const char *rest)
{
    static const double zero = 0.0;
    char text[224];
    snprintf(text, sizeof text,
             "dtype=%s batch=2 heads=4 kv_heads=2 seqlen_q=%d seqlen_k=%d head_dim_qk=16 head_dim_v=%d lse=1 %s", dtype,
             seqlen_q, seqlen_k, KEYS, rest);
    proof_call_make(call, "dropout", text);
    proof_fill(call, PROOF_Q, proof_constant, &zero);
    proof_fill(call, PROOF_K, proof_constant, &zero);
    proof_fill(call, PROOF_V, diagonal, NULL);
}

/* Every weight is dropped or kept as the contract says, kept ones count 65536/k; lse is without dropout. Returns how
 * many are kept. */
static int64_t check_mask(const struct proof_call *call)
{
    const struct attention *a = &call->a;
    int64_t count = 0;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < a->seqlen_q; i++) {
                int64_t seen = attention_visible(a, i);
                for (int64_t j = 0; j < KEYS; j++) {
                    bool keep = j < seen && kept(a, b, h, i, j);
                    double wanted = keep ? 65536.0 / a->dropout_threshold / (double)seen : 0.0;
                    proof_near(call, "o", b, h, i, j, proof_o(call, b, h, i, j), wanted,
                               wanted * 2.0 * dtype_unit(a->o.dtype));
                    count += keep;
                }
                proof_near(call, "lse", b, h, i, 0, proof_lse(call, b, h, i),
                           seen == 0 ? -(double)INFINITY : log((double)seen), 1e-6);
            }
        }
    }
    return count;
}

/* ------------------------------------------------------------------------------------------------ A33 */

/* A33 */
static void every_candidate_draws_the_documented_mask(void **state)
{
    static const struct {
        int seqlen_q, seqlen_k;
        const char *rest;
    } cases[] = {{70, 128, "dropout=0.48"},
                 {1, 125, "dropout=0.48"},
                 {5, 77, "dropout=0.1"},
                 {33, 45, "dropout=0.48 causal=top_left"},
                 {90, 45, "dropout=0.48 causal=1"}};
    for (int type = 0; type < DTYPES; type++) {
        for (int n = 0; n < test_size(type == 0 ? 5 : 3, 5); n++) {
            struct proof_call call;
            make_readable(&call, dtypes[type], cases[n].seqlen_q, cases[n].seqlen_k, cases[n].rest);
            for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
                check_mask(&call);
            }
            proof_call_free(&call);
        }
    }
}

/* A33: 71,680 draws; the share that is kept lies within four standard deviations of k/65536 */
static void the_keep_rate_is_one_minus_p(void **state)
{
    static const double probabilities[] = {0.48, 0.02, 0.9};
    struct proof_call call;
    make_readable(&call, "f16", 70, KEYS, "dropout=0.48");
    for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
        for (size_t n = 0; n < sizeof probabilities / sizeof probabilities[0]; n++) {
            proof_call_dropout(&call, probabilities[n]);
            proof_also(&run, &call);
            double draws = 2.0 * 4 * 70 * KEYS, keep = 1.0 - probabilities[n];
            double kept_share = (double)check_mask(&call) / draws, sigma = sqrt(keep * (1.0 - keep) / draws);
            if (!(fabs(kept_share - keep) <= 4.0 * sigma)) {
                proof_fail(&call, "p=%g: %g of the weights were kept", probabilities[n], kept_share);
            }
        }
        proof_call_dropout(&call, 0.48);
    }
    proof_call_free(&call);
}

static double mixed_values(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data;
    return sin((double)(s * 37 + c * 11 + h * 5 + b));
}

static void make_mixed(struct proof_call *call, const char *dtype, int seqlen_q, const char *rest)
{
    char text[224];
    snprintf(text, sizeof text, "dtype=%s batch=2 heads=2 kv_heads=1 seqlen_q=%d seqlen_k=150 head_dim=64 lse=1 %s",
             dtype, seqlen_q, rest);
    proof_call_make(call, "dropout", text);
    proof_fill(call, PROOF_Q, mixed_values, NULL);
    proof_fill(call, PROOF_K, mixed_values, NULL);
    proof_fill(call, PROOF_V, mixed_values, NULL);
}

/* runs `call` again and says whether the bits are those of `bits` */
static bool again_the_same(struct proof_run *run, struct proof_call *call, const struct proof_bits *bits)
{
    proof_also(run, call);
    struct proof_bits now = proof_bits(call);
    bool same = proof_equal_bits(&now, bits);
    proof_bits_free(&now);
    return same;
}

/* A33: the mask is a function of seed and offset; the caller advances the offset */
static void seed_and_offset_decide_and_nothing_else(void **state)
{
    static const struct {
        const char *what;
        uint64_t seed, offset;
    } others[] = {{"the next offset", 0, 1},
                  {"the largest offset", 0, 0xffffffffu},
                  {"a seed with another low word", 1, 0},
                  {"a seed with another high word", (uint64_t)1 << 32, 0}};
    static const int lengths[] = {33, 1};
    for (int l = 0; l < 2; l++) {
        struct proof_call call;
        make_mixed(&call, "f16", lengths[l], "dropout=0.48");
        call.a.seed = 0x0123456789abcdefu;
        call.a.offset = 0;
        const struct attention first = call.a;
        for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
            struct proof_bits bits = proof_bits(&call);
            if (!again_the_same(&run, &call, &bits)) {
                proof_fail(&call, "the same seed and offset give other bits");
            }
            for (size_t n = 0; n < sizeof others / sizeof others[0]; n++) {
                call.a.seed = first.seed ^ others[n].seed;
                call.a.offset = first.offset ^ others[n].offset;
                if (again_the_same(&run, &call, &bits)) {
                    proof_fail(&call, "%s gives the same output", others[n].what);
                }
            }
            call.a = first;
            proof_bits_free(&bits);
        }
        proof_call_free(&call);
    }
}

/* A33: seed and offset from device memory, which the kernel reads when it runs, give what they give by value */
static void seeds_by_pointer_are_seeds_by_value(void **state)
{
    struct proof_call call;
    make_mixed(&call, "f16", 33, "dropout=0.48");
    for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
        struct proof_bits bits = proof_bits(&call);
        call.seed_by_pointer = true;
        if (!again_the_same(&run, &call, &bits)) {
            proof_fail(&call, "by pointer the bits are others");
        }
        call.a.offset++; /* the memory holds another number at the next launch: a new mask */
        if (again_the_same(&run, &call, &bits)) {
            proof_fail(&call, "another offset in memory gives the same output");
        }
        call.a.offset--;
        call.seed_by_pointer = false;
        proof_bits_free(&bits);
    }
    proof_call_free(&call);
}

/* A33: p=0 in a kernel with dropout is a kernel without it, to the bit; a probability that rounds to 0 too */
static void probability_zero_is_no_dropout(void **state)
{
    static const int lengths[] = {70, 1};
    for (int type = 0; type < test_size(1, DTYPES); type++) {
        for (int l = 0; l < 2; l++) {
            struct proof_call with, without;
            make_mixed(&with, dtypes[type], lengths[l], "dropout=0.5");
            make_mixed(&without, dtypes[type], lengths[l], "");
            for (struct proof_run run = proof_start(*state, &with); proof_next(&run);) {
                proof_also(&run, &without);
                struct proof_bits bits = proof_bits(&without);
                proof_call_dropout(&with, 0.0);
                proof_also(&run, &with);
                proof_same_bits(&with, &bits, "p=0");
                proof_call_dropout(&with, 1e-9);
                proof_also(&run, &with);
                proof_same_bits(&with, &bits, "p=1e-9");
                proof_call_dropout(&with, 0.5);
                proof_bits_free(&bits);
            }
            proof_call_free(&with);
            proof_call_free(&without);
        }
    }
}

/* A33: p=1 is 0 everywhere and no NaN; lse is as ever. */
static void probability_one_is_zero(void **state)
{
    static const double ones[] = {1.0, 1.0 - 1e-9};
    static const int lengths[] = {70, 1};
    for (int l = 0; l < 2; l++) {
        struct proof_call with, without;
        make_mixed(&with, "f16", lengths[l], "dropout=0.5");
        make_mixed(&without, "f16", lengths[l], "");
        for (struct proof_run run = proof_start(*state, &with); proof_next(&run);) {
            proof_also(&run, &without);
            for (int n = 0; n < 2; n++) {
                proof_call_dropout(&with, ones[n]);
                proof_also(&run, &with);
                for (int64_t row = 0; row < 2 * 2 * lengths[l]; row++) {
                    int64_t b = row / (2 * lengths[l]), h = row / lengths[l] % 2, i = row % lengths[l];
                    for (int64_t c = 0; c < 64; c++) {
                        proof_near(&with, "o", b, h, i, c, proof_o(&with, b, h, i, c), 0.0, 0.0);
                    }
                    proof_near(&with, "lse", b, h, i, 0, proof_lse(&with, b, h, i), proof_lse(&without, b, h, i), 0.0);
                }
            }
            proof_call_dropout(&with, 0.5);
        }
        proof_call_free(&with);
        proof_call_free(&without);
    }
}

/* A33: what a caller must not ask for is refused before anything runs */
static void impossible_draws_are_refused(void **state)
{
    const char *const with = "dtype=f16 heads=2 seqlen_q=4 head_dim=64 dropout=0.5";
    const char *const without = "dtype=f16 heads=2 seqlen_q=4 head_dim=64";
    attune_attention_arguments arguments = {.size = sizeof arguments, .offset = (uint64_t)1 << 32};
    proof_launch_refused(*state, with, &arguments, "offset");
    arguments.offset = UINT64_MAX;
    proof_launch_refused(*state, with, &arguments, "offset");
    arguments.offset = 0;
    static const double impossible[] = {-0.1, 1.5, (double)NAN, (double)INFINITY};
    for (size_t n = 0; n < sizeof impossible / sizeof impossible[0]; n++) {
        arguments.dropout = impossible[n];
        arguments.explicit_dropout = 1;
        proof_launch_refused(*state, with, &arguments, "dropout");
    }
    arguments.dropout = 0.25;
    proof_launch_refused(*state, without, &arguments, "dropout");
    proof_refused(*state, "dtype=f16 heads=2 seqlen_q=4 head_dim=64 dropout=1.5", "dropout");
    proof_refused(*state, "dtype=f16 heads=2 seqlen_q=4 head_dim=64 dropout=-0.5", "dropout");
    proof_refused(*state, "dtype=f16 heads=2 seqlen_q=4 head_dim=64 dropout=nan", "dropout");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_candidate_draws_the_documented_mask),
        cmocka_unit_test(the_keep_rate_is_one_minus_p),
        cmocka_unit_test(seed_and_offset_decide_and_nothing_else),
        cmocka_unit_test(seeds_by_pointer_are_seeds_by_value),
        cmocka_unit_test(probability_zero_is_no_dropout),
        cmocka_unit_test(probability_one_is_zero),
        cmocka_unit_test(impossible_draws_are_refused),
    };
    proof_arguments(argc, argv);
    return cmocka_run_group_tests_name("proof_dropout", tests, proof_set_up, proof_tear_down);
}
