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

#define PREFILL "dtype=f16 batch=1 heads=32 kv_heads=8 seqlen_q=2048 causal=0 "

/* what all defaults owe, and 16 bytes a lane for every read of q, k, v and most reads of LDS */
static void defaults_are_sound(void **state)
{
    const char *target = *state;
    static const char *const problems[] = {PREFILL "head_dim=128", PREFILL "head_dim=64"};
    for (int i = 0; i < test_size(1, 2); i++) {
        struct isa isa;
        if (!isa_build(&tools, problems[i], target, "", &isa)) {
            isa_free(&isa);
            skip();
        }
        isa_holds_basics(&isa, target);
        const struct issue_totals *loop = issue_hottest(isa.report);
        double wide = loop->lds_read[16], loads = loop->global_load[16] + loop->direct_load[16];
        if (wide <= 0 || wide < 0.5 * loop->count[ISSUE_LDS_READ]) {
            fail_msg("%s: %g of %g LDS reads of 16 bytes", target, wide, loop->count[ISSUE_LDS_READ]);
        }
        if (loads + loop->direct_load[4] <= 0 || loads < loop->count[ISSUE_GLOBAL_LOAD]) {
            fail_msg("%s: %g of %g global loads of 16 bytes", target, loads, loop->count[ISSUE_GLOBAL_LOAD]);
        }
        isa_free(&isa);
    }
}

/* The portable template on gfx906: the products of a tile are known, so are the instructions that do them. Both inner
 * loops are read off the code: were their rounds not known, too few products would be counted. */
static void portable_does_the_products_of_a_tile_by_dot2(void **state)
{
    (void)state;
    struct isa isa;
    static const char name[] = "attention.forward/portable ";
    if (!isa_build(&tools, PREFILL "head_dim=128", "gfx906", "attention.forward/portable block_q=64 block_k=64", &isa)) {
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

#define ON(test, target)                                                                                               \
    {                                                                                                                  \
#test " on " target, test, NULL, NULL, (void *)target                                                          \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(defaults_are_sound, "gfx900"),
        ON(defaults_are_sound, "gfx906"),
        ON(defaults_are_sound, "gfx908"),
        ON(defaults_are_sound, "gfx90a"),
        ON(defaults_are_sound, "gfx942"),
        ON(defaults_are_sound, "gfx950"),
        ON(defaults_are_sound, "gfx1011"),
        ON(defaults_are_sound, "gfx1030"),
        ON(defaults_are_sound, "gfx1100"),
        ON(defaults_are_sound, "gfx1201"),
        ON(defaults_are_sound, "sm_75"),
        ON(defaults_are_sound, "sm_80"),
        ON(defaults_are_sound, "sm_90a"),
        ON(defaults_are_sound, "sm_120"),
        cmocka_unit_test(portable_does_the_products_of_a_tile_by_dot2),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
