/* `attune verify` of covers on the host device, as each target's own text: head sizes that fill
 * fragments and that do not, odd lengths, every option; and what forced values that cannot work are told. */
#include "program.h"

#include "tests/cover_list.h"
#include "tests/size.h"

#include <stdio.h>
#include <string.h>

/* Problem i of target t at ci's size: each problem and each target a few times. Full: all of both, three schedules. */
static void covers_are_right_on_every_target(void **state)
{
    (void)state;
    struct cover_list problems, targets;
    cover_list_read("problems.txt", &problems);
    cover_list_read("targets.txt", &targets);
    int each = test_size(1, problems.count), fragments = 0;
    char count[16];
    snprintf(count, sizeof count, "%d", test_size(3, 16));
    for (int t = 0; t < targets.count; t++) {
        for (int i = 0; i < each; i++) {
            const char *problem = problems.items[(t + i) % problems.count];
            const struct process_result *result =
                attune("verify", "--device", "host", "--target", targets.items[t], "--problem", problem, "--cover",
                       count, "--schedule", test_size(0, 1) ? "all" : "reverse", "--json", NULL);
            if (result->exit_code == EXIT_IS_MISSING) {
                print_message("skipped: no C++ compiler for the host device\n");
                skip();
            }
            if (result->exit_code != EXIT_IS_DONE) {
                print_error("%s: %s\n", targets.items[t], problem);
            }
            exits_with(EXIT_IS_DONE);
            fragments += strstr(buffer_string(&result->output), "attention.forward/fragments ") != NULL;
        }
    }
    assert_true(fragments > targets.count / 2); /* the template was looked at */
    cover_list_free(&problems);
    cover_list_free(&targets);
}

/* m16n8k8 takes four fragments of columns at once: 40 columns fill five */
static void columns_that_fill_no_load_of_four_matrices_are_right(void **state)
{
    (void)state;
    static const char *const dims[] = {"head_dim=40", "head_dim=80"};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        char problem[128];
        snprintf(problem, sizeof problem, "dtype=f16 batch=1 heads=1 seqlen_q=40 seqlen_k=45 dropout=0.2 %s", dims[i]);
        const struct process_result *result = attune("verify", "--device", "host", "--target", "sm_75", "--sanitize",
                                                     "address", "--problem", problem, "--cover", "1", NULL);
        if (result->exit_code == EXIT_IS_MISSING) {
            print_message("skipped: no C++ compiler for the host device\n");
            skip();
        }
        exits_with(EXIT_IS_DONE);
    }
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

/* the portable template is chosen there, which knows no such value: the other one's reason is told with its name */
static void why_the_other_template_does_not_serve_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *target, *problem, *word, *reason;
    } cases[] = {
        {"gfx900", "dtype=f16 batch=1 heads=1 seqlen_q=64 head_dim=64", "multiply=mfma_16x16x16",
         "gfx900 has neither matrix instructions nor dot2 for f16, only fma"},
        {"gfx1100", "dtype=f32 batch=1 heads=1 seqlen_q=64 head_dim=64", "multiply=wmma_16x16x16",
         "gfx1100 has neither matrix instructions nor dot2 for f32, only fma"},
        {"gfx906", "dtype=bf16 batch=1 heads=1 seqlen_q=64 head_dim=64", "multiply=dot2_8",
         "gfx906 has neither matrix instructions nor dot2 for bf16, only fma"},
        {"gfx942", "dtype=f16 batch=1 heads=1 seqlen_q=1 seqlen_k=64 head_dim=64", "multiply=mfma_16x16x16",
         "seqlen_q=1 fills no fragment"},
        {"gfx942", "dtype=f16 batch=1 heads=1 seqlen_q=1 seqlen_k=64 head_dim=64", "masking=asked",
         "seqlen_q=1 fills no fragment"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        attune("show", "--problem", cases[i].problem, "--target", cases[i].target, cases[i].word, NULL);
        exits_with(EXIT_IS_USAGE);
        complains("attention.forward/fragments has it, but does not serve this problem: ");
        complains(cases[i].reason);
    }
}

static void blocks_that_do_not_fit_are_refused_with_the_numbers(void **state)
{
    (void)state;
    attune("compile", "--problem", "dtype=f16 batch=1 heads=1 seqlen_q=64 head_dim=256", "--target", "gfx942", "-o",
           scratch("large.o"), "block_k=96", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("shared memory: ");
    complains("the target has 65536: take block_k=32 or ");
    attune("compile", "--problem", "dtype=f16 batch=1 heads=1 seqlen_q=64 head_dim=256", "--target", "sm_80", "-o",
           scratch("large.o"), "block_q=256", "threads=128", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("registers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers_are_right_on_every_target),
        cmocka_unit_test(columns_that_fill_no_load_of_four_matrices_are_right),
        cmocka_unit_test(an_instruction_that_a_target_lacks_is_refused_with_those_it_has),
        cmocka_unit_test(why_the_other_template_does_not_serve_is_told),
        cmocka_unit_test(blocks_that_do_not_fit_are_refused_with_the_numbers),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
