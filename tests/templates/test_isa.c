/* test_isa.c - the instructions of defaults: what each target's hottest loop must be made of, read from real objects.
 */
#include "tests/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/templates/isa.h"

static struct isa_tools tools;

static int set_up(void **state)
{
    (void)state;
    return isa_tools_open(&tools) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    isa_tools_close(&tools);
    return 0;
}

#define PREFILL "batch=1 heads=32 kv_heads=8 seqlen_q=2048 causal=0 "
#define F16 "dtype=f16 " PREFILL
#define BF16 "dtype=bf16 " PREFILL

/* what multiplies best on each target, as its disassembler writes it, for isa_multiplies. Where `f16_only`, bf16 is
 * left to multiply-adds. */
static const struct expected {
    const char *target;
    enum issue_class class;
    const char *pattern;
    bool f16_only;
} expected[] = {
    {"gfx900", ISSUE_FMA, NULL, false},
    {"gfx906", ISSUE_DOT2, "v_dot2*_f32_%*", true},
    {"gfx908", ISSUE_MATRIX, "v_mfma_f32_*%*", false},
    {"gfx90a", ISSUE_MATRIX, "v_mfma_f32_*%*", false},
    {"gfx942", ISSUE_MATRIX, "v_mfma_f32_*_%*", false},
    {"gfx950", ISSUE_MATRIX, "v_mfma_f32_*_%*", false},
    {"gfx1011", ISSUE_DOT2, "v_dot2*_f32_%*", true},
    {"gfx1030", ISSUE_DOT2, "v_dot2*_f32_%*", true},
    {"gfx1100", ISSUE_MATRIX, "v_wmma_f32_16x16x16_%*", false},
    {"gfx1201", ISSUE_MATRIX, "v_wmma_f32_16x16x16_%*", false},
    {"sm_75", ISSUE_MATRIX, "HMMA.1688.F32%*", true},
    {"sm_80", ISSUE_MATRIX, "HMMA.16816.F32%*", false},
    {"sm_90a", ISSUE_MATRIX, "HMMA.16816.F32%*", false},
    {"sm_120", ISSUE_MATRIX, "HMMA.16816.F32%*", false},
};

static const char *const shapes[] = {
    F16 "head_dim=128",  BF16 "head_dim=128", F16 "head_dim=256",
    BF16 "head_dim=256", F16 "head_dim=64",   BF16 "head_dim=64",
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* of the bytes at least `share` come 16 a lane */
static void holds_widths(const char *target, const char *what, const double widths[17], double share)
{
    double bytes = 0, wide = 16 * widths[16];
    for (int width = 1; width < 17; width++) {
        bytes += width * widths[width];
    }
    if (wide <= 0 || wide < share * bytes) {
        fail_msg("%s: of %g bytes a lane, %g come by %s of 16", target, bytes, wide, what);
    }
}

static void multiplies_by(const struct isa *isa, const struct expected *should)
{
    bool left = isa->bf16 && should->f16_only;
    enum issue_class class = left ? ISSUE_FMA : should->class;
    const char *pattern = left ? NULL : should->pattern;
    double products = issue_hottest(isa->report)->products[class];
    if (isa->report->multiply != class || products <= 0 || (pattern != NULL && isa_multiplies(isa, pattern) <= 0)) {
        fail_msg("%s: the loop does its products by %s, %g by %s; %d times by %s", should->target,
                 issue_class_name(isa->report->multiply), products, issue_class_name(class),
                 pattern != NULL ? isa_multiplies(isa, pattern) : 0, pattern != NULL ? pattern : "-");
    }
}

static void moves_wide(const struct isa *isa, const struct expected *should)
{
    const struct issue_totals *loop = issue_hottest(isa->report);
    double loads[17], written = 0;
    for (int width = 0; width < 17; width++) { /* gfx9 loads straight to LDS by 4 bytes at most */
        loads[width] = loop->global_load[width] + (width == 4 ? 0 : loop->direct_load[width]);
        written += loop->lds_write[width];
    }
    holds_widths(should->target, "LDS reads", loop->lds_read, 0.5);
    if (written > 0) { /* asynchronous copies leave nothing to write */
        /* k by 16; v, which is turned on its way, in parts of 4 to 16, weights of dot products in words: the LDS takes
         * as many clocks for the bytes */
        holds_widths(should->target, "LDS writes", loop->lds_write, should->class == ISSUE_DOT2 ? 0.25 : 0.5);
    }
    holds_widths(should->target, "global loads", loads, 1);
}

/* At ci's size each target's first shape and one that goes round, full: all. */
static void defaults_are_sound(void **state)
{
    const struct expected *should = *state;
    int round = 1 + (int)((should - expected) % (SHAPES - 1));
    for (int i = 0; i < test_size(2, SHAPES); i++) {
        const char *const shape = shapes[test_size(i * round, i)];
        struct isa isa;
        if (!isa_build(&tools, shape, should->target, "", &isa)) {
            isa_free(&isa);
            skip();
        }
        print_message("%s: %s\n", should->target, shape);
        isa_holds_basics(&isa, should->target);
        multiplies_by(&isa, should);
        moves_wide(&isa, should);
        isa_free(&isa);
    }
}

/* CDNA 3: nothing has more to do than the matrix unit at head size 128 */
static void mfma_is_the_bound_of_gfx942(void **state)
{
    (void)state;
    struct isa isa;
    if (!isa_build(&tools, F16 "head_dim=128", "gfx942", "", &isa)) {
        isa_free(&isa);
        skip();
    }
    if (isa.bound.unit != ISSUE_UNIT_MATRIX) {
        fail_msg("%s has %g cycles, the matrix unit %g", issue_unit_name(isa.bound.unit), isa.bound.cycles,
                 issue_hottest(isa.report)->cycles[ISSUE_UNIT_MATRIX]);
    }
    isa_free(&isa);
}

/* What an MI50 or MI60 is worth: ggml's kernel, the best known, spends 74 % (head size 128) and 60 % (64) of its vector
 * cycles on products, with sums in f16. Ours are in fp32. */
static void products_fill_gfx906(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        double share;
    } bars[] = {{F16 "head_dim=128", 0.82}, {F16 "head_dim=64", 0.70}};
    for (size_t i = 0; i < sizeof bars / sizeof *bars; i++) {
        struct isa isa;
        if (!isa_build(&tools, bars[i].problem, "gfx906", "", &isa)) {
            isa_free(&isa);
            skip();
        }
        isa_holds_basics(&isa, "gfx906"); /* no scratch */
        const double *cycles = issue_hottest(isa.report)->cycles;
        if (isa.bound.multiply_share < bars[i].share || cycles[ISSUE_UNIT_LDS] >= cycles[ISSUE_UNIT_VECTOR] ||
            isa.occupancy.waves < 2) {
            fail_msg("%s: %.1f %% of %g vector cycles are products, LDS takes %g, %g waves a SIMD", bars[i].problem,
                     100 * isa.bound.multiply_share, cycles[ISSUE_UNIT_VECTOR], cycles[ISSUE_UNIT_LDS],
                     isa.occupancy.waves);
        }
        isa_free(&isa);
    }
}

/* the means of prefetch that a candidate names is the one in its loop; direct loads are in no other */
static void prefetch_is_seen_in_the_loop(void **state)
{
    (void)state;
    static const struct {
        const char *target, *with, *without, *pattern;
    } cases[] = {
        {"gfx942", "prefetch=direct resident=1", "prefetch=registers resident=1", "global_load_lds_*"},
        {"gfx950", "prefetch=direct resident=1", "prefetch=registers resident=1", "global_load_lds_*"},
        {"sm_80", "prefetch=async2 block_k=32", "", "LDGSTS*128*"},
        {"sm_90a", "prefetch=async2 block_k=32", "", "LDGSTS*128*"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct isa with, without;
        if (!isa_build(&tools, F16 "head_dim=128", cases[i].target, cases[i].with, &with)) {
            isa_free(&with);
            skip();
        }
        if (isa_count_in_loop(&with, cases[i].pattern) == 0) {
            fail_msg("%s, %s: no %s in the loop", cases[i].target, cases[i].with, cases[i].pattern);
        }
        isa_free(&with);
        if (cases[i].without[0] == '\0') {
            continue; /* asynchronous copies are in all candidates but a corner */
        }
        if (isa_build(&tools, F16 "head_dim=128", cases[i].target, cases[i].without, &without)) {
            assert_int_equal(isa_count(&without, cases[i].pattern), 0);
        }
        isa_free(&without);
    }
}

/* The portable template on gfx906: the products of a tile are known, so are the instructions that do them. Both inner
 * loops are read off the code: were their rounds not known, too few products would be counted. */
static void portable_does_the_products_of_a_tile_by_dot2(void **state)
{
    (void)state;
    struct isa isa;
    static const char name[] = "attention.forward/portable ";
    if (!isa_build(&tools, F16 "head_dim=128", "gfx906", "attention.forward/portable block_q=64 block_k=64", &isa)) {
        isa_free(&isa);
        skip();
    }
    char text[CANDIDATE_TEXT_BYTES];
    candidate_format(&isa.candidate, text);
    assert_memory_equal(text, name, sizeof name - 1);
    const struct issue_totals *loop = issue_hottest(isa.report);
    assert_int_equal(isa.report->multiply, ISSUE_DOT2);
    double waves = isa.launch.threads / 64.0;
    /* 64 queries by 64 keys by 128 + 128 products, over the waves of a block, 128 an instruction */
    assert_true(loop->count[ISSUE_DOT2] == 64.0 * 64 * 256 / 128 / waves);
    assert_true(loop->products[ISSUE_DOT2] == 64.0 * 64 * 256 / waves);
    assert_true(isa_count_in_loop(&isa, "v_dot2_f32_f16*") > 0);
    assert_int_equal(isa_count(&isa, "flat_*"), 0);
    isa_free(&isa);
}

int main(void)
{
    enum { TARGETS = sizeof expected / sizeof expected[0] };
    struct CMUnitTest tests[TARGETS + 3] = {
        cmocka_unit_test(portable_does_the_products_of_a_tile_by_dot2),
        cmocka_unit_test(mfma_is_the_bound_of_gfx942),
        cmocka_unit_test(products_fill_gfx906),
        cmocka_unit_test(prefetch_is_seen_in_the_loop),
    };
    static char names[TARGETS][64];
    for (int i = 0; i < TARGETS; i++) {
        snprintf(names[i], sizeof names[i], "defaults_are_sound on %s", expected[i].target);
        tests[i + 3] = (struct CMUnitTest){names[i], defaults_are_sound, NULL, NULL, (void *)(uintptr_t)&expected[i]};
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
