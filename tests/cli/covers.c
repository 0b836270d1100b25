/* `attune verify` of the fragments template on the host device, as each target's own text: head sizes that fill
 * fragments and that do not, odd lengths, every option; and what forced values that cannot work are told. */
#include "program.h"

#include "tests/size.h"

#include <stdio.h>
#include <string.h>

static const char *const targets[] = {"gfx906",  "gfx908",  "gfx90a", "gfx942", "gfx950", "gfx1030",
                                      "gfx1100", "gfx1201", "sm_75",  "sm_80",  "sm_90a"};
enum { TARGETS = sizeof targets / sizeof *targets };

/* each option in some problem: both kinds of causal masks, grouped heads, dropout, lse, alignment, wide offsets */
static const char *const problems[] = {
    "dtype=f16 heads=4 kv_heads=2 seqlen_q=37 seqlen_k=83 head_dim=64 causal=1 lse=1",
    "dtype=f16 heads=2 seqlen_q=70 seqlen_k=45 head_dim=40 causal=top_left dropout=0.2 lse=1",
    "dtype=bf16 heads=2 kv_heads=1 seqlen_q=33 seqlen_k=131 head_dim=80 dropout=0.1 alignment=2",
    "dtype=f16 heads=1 seqlen_q=29 seqlen_k=67 head_dim_qk=192 head_dim_v=128 causal=1",
    "dtype=bf16 heads=2 seqlen_q=65 seqlen_k=63 head_dim=96 causal=1 index=wide",
    "dtype=f16 heads=2 seqlen_q=41 seqlen_k=97 head_dim=128 causal=top_left lse=1 alignment=4",
    "dtype=bf16 heads=1 seqlen_q=19 seqlen_k=70 head_dim=256 lse=1",
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

/* Problem i of target t at ci's size: each problem and each target a few times. Full: all of both, three schedules. */
static void covers_are_right_on_every_target(void **state)
{
    (void)state;
    int each = test_size(1, PROBLEMS), fragments = 0;
    char count[16];
    snprintf(count, sizeof count, "%d", test_size(3, 16));
    for (int t = 0; t < TARGETS; t++) {
        for (int i = 0; i < each; i++) {
            char problem[192];
            snprintf(problem, sizeof problem, "batch=1 %s", problems[(t + i) % PROBLEMS]);
            const struct process_result *result =
                attune("verify", "--device", "host", "--target", targets[t], "--problem", problem, "--cover", count,
                       "--schedule", test_size(0, 1) ? "all" : "reverse", "--json", NULL);
            if (result->exit_code == EXIT_IS_MISSING) {
                print_message("skipped: no C++ compiler for the host device\n");
                skip();
            }
            if (result->exit_code != EXIT_IS_DONE) {
                print_error("%s: %s\n", targets[t], problem);
            }
            exits_with(EXIT_IS_DONE);
            fragments += strstr(buffer_string(&result->output), "attention.forward/fragments ") != NULL;
        }
    }
    assert_true(fragments > TARGETS / 2); /* the template was looked at */
}

static void an_instruction_that_a_target_lacks_is_refused_with_those_it_has(void **state)
{
    (void)state;
    attune("compile", "--problem", "dtype=f16 batch=1 heads=1 seqlen_q=64 head_dim=64", "--target", "gfx906", "-o",
           scratch("forced.o"), "multiply=mfma_16x16x16", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("gfx906 has no such instruction for f16; it has dot2");
    attune("compile", "--problem", "dtype=f16 batch=1 heads=1 seqlen_q=64 head_dim=64", "--target", "gfx942", "-o",
           scratch("forced.o"), "multiply=wmma_16x16x16", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("gfx942 has no such instruction for f16; it has mfma_32x32x8, mfma_16x16x16");
}

static void blocks_that_do_not_fit_are_refused_with_the_numbers(void **state)
{
    (void)state;
    attune("compile", "--problem", "dtype=f16 batch=1 heads=1 seqlen_q=64 head_dim=256", "--target", "gfx942", "-o",
           scratch("large.o"), "block_k=96", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("shared memory: ");
    complains("the target has 65536");
    attune("compile", "--problem", "dtype=f16 batch=1 heads=1 seqlen_q=64 head_dim=256", "--target", "sm_80", "-o",
           scratch("large.o"), "block_q=256", "threads=128", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("registers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers_are_right_on_every_target),
        cmocka_unit_test(an_instruction_that_a_target_lacks_is_refused_with_those_it_has),
        cmocka_unit_test(blocks_that_do_not_fit_are_refused_with_the_numbers),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
