/* test_issue_mca.c - issue rates against llvm-mca's, where it has the target.
 *
 * LLVM's scheduling models count issue slots: one is four cycles of a wave64 on GCN and CDNA, one cycle of a wave32 on
 * RDNA. What they know: full-rate vector instructions and the passes of MFMA, both as reciprocal throughput, and the
 * quarter rate of transcendental functions and 32-bit integer multiplies, as latency alone. What they do not know: the
 * throughput of these (1 slot), WMMA (1 slot), and that a dual instruction is one slot (2).
 */
#include "base/process.h"
#include "generator/generator.h"
#include "generator/issue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum column { LATENCY, THROUGHPUT };

static const struct check {
    const char *target, *instruction;
    enum column column;
    double slot; /* cycles */
    enum issue_unit unit;
} checks[] = {
    {"gfx906", "v_dot2_f32_f16 v3, v4, v5, v3", THROUGHPUT, 4, ISSUE_UNIT_VECTOR},
    {"gfx906", "v_fma_f32 v6, v7, v8, v9", THROUGHPUT, 4, ISSUE_UNIT_VECTOR},
    {"gfx906", "v_mul_f32_e32 v6, v7, v8", THROUGHPUT, 4, ISSUE_UNIT_VECTOR},
    {"gfx906", "v_cvt_f16_f32_e32 v6, v7", THROUGHPUT, 4, ISSUE_UNIT_VECTOR},
    {"gfx906", "v_perm_b32 v6, v7, v8, v9", THROUGHPUT, 4, ISSUE_UNIT_VECTOR},
    {"gfx906", "v_max3_f32 v6, v7, v8, v9", THROUGHPUT, 4, ISSUE_UNIT_VECTOR},
    {"gfx906", "v_exp_f32_e32 v1, v2", LATENCY, 4, ISSUE_UNIT_VECTOR},
    {"gfx906", "v_rcp_f32_e32 v1, v2", LATENCY, 4, ISSUE_UNIT_VECTOR},
    {"gfx906", "v_mul_lo_u32 v10, v11, v12", LATENCY, 4, ISSUE_UNIT_VECTOR},
    {"gfx942", "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]", THROUGHPUT, 4, ISSUE_UNIT_MATRIX},
    {"gfx942", "v_mfma_f32_32x32x8_f16 v[16:31], v[4:5], v[6:7], v[16:31]", THROUGHPUT, 4, ISSUE_UNIT_MATRIX},
    {"gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], v[0:3]", THROUGHPUT, 4, ISSUE_UNIT_MATRIX},
    {"gfx942", "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", THROUGHPUT, 4, ISSUE_UNIT_VECTOR},
    {"gfx942", "v_exp_f32_e32 v1, v2", LATENCY, 4, ISSUE_UNIT_VECTOR},
    {"gfx950", "v_mfma_f32_16x16x32_f16 v[0:3], v[4:7], v[8:11], v[0:3]", THROUGHPUT, 4, ISSUE_UNIT_MATRIX},
    {"gfx950", "v_mfma_f32_32x32x16_bf16 v[16:31], v[4:7], v[8:11], v[16:31]", THROUGHPUT, 4, ISSUE_UNIT_MATRIX},
    {"gfx908", "v_mfma_f32_16x16x16f16 a[0:3], v[4:5], v[6:7], a[0:3]", THROUGHPUT, 4, ISSUE_UNIT_MATRIX},
    {"gfx908", "v_mfma_f32_32x32x8f16 a[0:15], v[4:5], v[6:7], a[0:15]", THROUGHPUT, 4, ISSUE_UNIT_MATRIX},
    {"gfx90a", "v_mfma_f32_16x16x16bf16_1k a[0:3], v[4:5], v[6:7], a[0:3]", THROUGHPUT, 4, ISSUE_UNIT_MATRIX},
    {"gfx90a", "v_mfma_f32_32x32x8bf16_1k a[0:15], v[4:5], v[6:7], a[0:15]", THROUGHPUT, 4, ISSUE_UNIT_MATRIX},
    {"gfx1100", "v_fma_f32 v6, v7, v8, v9", THROUGHPUT, 1, ISSUE_UNIT_VECTOR},
    {"gfx1100", "v_dot2_f32_f16 v6, v7, v8, v9", THROUGHPUT, 1, ISSUE_UNIT_VECTOR},
    {"gfx1100", "v_cvt_f16_f32_e32 v6, v7", THROUGHPUT, 1, ISSUE_UNIT_VECTOR},
    {"gfx1201", "v_fma_f32 v6, v7, v8, v9", THROUGHPUT, 1, ISSUE_UNIT_VECTOR},
};
enum { CHECKS = sizeof checks / sizeof checks[0] };

static struct generator *generator;

static int set_up(void **state)
{
    (void)state;
    return generator_create(&(struct generator_options){.template_path = ""}, &generator, NULL) == ATTUNE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    generator_destroy(generator);
    return 0;
}

/* runs the newest llvm-mca that knows the target on one instruction; false, with the reason printed: none does */
static bool ask_mca(const struct check *check, double values[2])
{
    static const char *const programs[] = {"llvm-mca-22", "llvm-mca-21", "llvm-mca-20", "llvm-mca-19", "llvm-mca"};
    char processor[32];
    snprintf(processor, sizeof processor, "-mcpu=%s", check->target);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        const char *const argv[] = {programs[i],     "-mtriple=amdgcn",   processor,
                                    "-iterations=1", "-instruction-info", NULL};
        struct process_options options = {
            .argv = argv, .input = check->instruction, .input_bytes = strlen(check->instruction), .seconds = 60};
        struct process_result result = {0};
        struct error error = {0};
        attune_status status = process_run(&options, &result, &error);
        const char *info = status == ATTUNE_OK && result.exit_code == 0 &&
                                   strstr(buffer_string(&result.errors), "not a recognized") == NULL
                               ? strstr(buffer_string(&result.output), "Instructions:\n ")
                               : NULL;
        bool read =
            info != NULL && sscanf(info, "Instructions:\n %*d %lf %lf", &values[LATENCY], &values[THROUGHPUT]) == 2;
        process_result_free(&result);
        if (read) {
            return true;
        }
    }
    print_message("%s: no llvm-mca here knows '%s'\n", check->target, check->instruction);
    return false;
}

static void rates_agree_with_llvm(void **state)
{
    (void)state;
    int asked = 0;
    for (int i = 0; i < CHECKS; i++) {
        const struct check *check = &checks[i];
        double values[2] = {0};
        struct target target;
        struct issue_rates rates;
        struct error error = {0};
        if (!ask_mca(check, values)) {
            continue;
        }
        asked++;
        assert_int_equal(target_parse(check->target, &target, NULL), ATTUNE_OK);
        if (issue_rates_load(generator, &target, &rates, &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        struct slice mnemonic = {check->instruction, strcspn(check->instruction, " ")};
        const struct issue_rule *rule = issue_rule_find(&rates, mnemonic);
        assert_non_null(rule);
        double cycles = rule->cycles[check->unit], theirs = values[check->column] * check->slot;
        if (cycles != theirs) {
            fail_msg("%s, %s: %g cycles of the %s unit, llvm-mca says %g", check->target, check->instruction, cycles,
                     issue_unit_name(check->unit), theirs);
        }
        issue_rates_free(&rates);
    }
    if (asked == 0) {
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rates_agree_with_llvm)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
