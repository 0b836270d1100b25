/* test_issue.c - the hottest loop of hand-made listings, with the cycles worked out by hand from the published rates.
 */
#include "generator/generator.h"
#include "generator/issue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct generator *generator;
static struct issue_report report;
static struct issue_rates rates;

static int set_up(void **state)
{
    (void)state;
    struct error error = {0};
    if (generator_create(&(struct generator_options){.template_path = ""}, &generator, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    issue_rates_free(&rates);
    generator_destroy(generator);
    return 0;
}

/* An AMD listing from lines "name: instruction", "-> name" behind a branch naming where it goes; all instructions have
 * 4 bytes. */
static void amd_text(const char *const *lines, char *text, size_t bytes)
{
    size_t length = (size_t)snprintf(text, bytes, "%016x <kernel>:\n", 0x1000);
    for (int i = 0; lines[i] != NULL; i++) {
        const char *colon = strchr(lines[i], ':');
        const char *body = colon != NULL && colon[1] == ' ' && colon - lines[i] < 8 ? colon + 2 : lines[i];
        const char *arrow = strstr(body, " -> ");
        int size = arrow != NULL ? (int)(arrow - body) : (int)strlen(body);
        length += (size_t)snprintf(text + length, bytes - length, "  %8x:  %.*s", 0x1000 + 4 * i, size, body);
        for (int k = 0; arrow != NULL && lines[k] != NULL; k++) {
            size_t name = strlen(arrow + 4);
            if (strncmp(lines[k], arrow + 4, name) == 0 && lines[k][name] == ':') {
                length +=
                    (size_t)snprintf(text + length, bytes - length, " 0  ; to %x <kernel+0x%x>", 0x1000 + 4 * k, 4 * k);
            }
        }
        length += (size_t)snprintf(text + length, bytes - length, "\n");
    }
    assert_true(length < bytes);
}

static void analyse_text(const char *target_text, const char *text)
{
    struct target target;
    struct listing listing;
    struct error error = {0};
    issue_rates_free(&rates);
    assert_int_equal(target_parse(target_text, &target, &error), ATTUNE_OK);
    if (issue_rates_load(generator, &target, &rates, &error) != ATTUNE_OK ||
        listing_parse(text, strlen(text), target.vendor, "kernel", &listing, &error) != ATTUNE_OK ||
        issue_analyse(&listing, &rates, &report, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", target_text, error.message);
    }
    listing_free(&listing);
}

static void analyse(const char *target, const char *const *lines)
{
    char text[16384];
    amd_text(lines, text, sizeof text);
    analyse_text(target, text);
}

static const struct issue_totals *hottest(void)
{
    assert_true(report.hottest >= 0);
    return &report.loops[report.hottest].totals;
}

#define COUNT(class) hottest()->count[class]
#define CYCLES(unit) hottest()->cycles[unit]

static void same_number(double is, double should)
{
    if (is < should - 1e-9 || is > should + 1e-9) {
        fail_msg("%.10g should be %.10g", is, should);
    }
}

static void unit_cycles_are_the_published_ones(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "s_load_dwordx2 s[0:1], s[4:5], 0x0",
        "top: v_dot2_f32_f16 v0, v1, v2, v0",
        "v_exp_f32_e32 v3, v4",
        "v_mul_lo_u32 v5, v6, v7",
        "v_fma_f32 v8, v9, v10, v8",
        "v_cvt_f16_f32_e32 v8, v8",
        "v_mov_b32_dpp v8, v9 row_shr:1 row_mask:0xf bank_mask:0xf",
        "ds_read_b128 v[12:15], v16",
        "ds_write_b64 v16, v[12:13]",
        "ds_read2st64_b32 v[12:13], v16 offset1:1",
        "global_load_dwordx4 v[20:23], v[24:25], off",
        "s_barrier",
        "s_waitcnt vmcnt(0)",
        "s_add_u32 s0, s0, s1",
        "s_cmp_lt_u32 s0, s2",
        "s_cbranch_scc1 -> top",
        "s_endpgm",
        NULL,
    };
    analyse("gfx906", lines);
    assert_int_equal(report.loop_count, 1);
    same_number(CYCLES(ISSUE_UNIT_VECTOR), 4 + 16 + 16 + 4 + 4 + 4);
    /* 64 lanes of 16, 8 and 8 bytes over 128 bytes a clock, on behalf of four SIMDs */
    same_number(CYCLES(ISSUE_UNIT_LDS), 4 * (8 + 4 + 4));
    same_number(CYCLES(ISSUE_UNIT_SCALAR), 3 * 4);
    same_number(hottest()->class_cycles[ISSUE_EXP], 16);
    same_number(hottest()->lds_read[16], 1);
    same_number(hottest()->lds_read[8], 1);
    same_number(hottest()->lds_write[8], 1);
    same_number(hottest()->global_load[16], 1);
    same_number(COUNT(ISSUE_BARRIER), 1);
    same_number(COUNT(ISSUE_WAIT), 1);
    same_number(COUNT(ISSUE_CONVERT), 1);
    same_number(COUNT(ISSUE_EXCHANGE), 1);
    same_number(hottest()->products[ISSUE_DOT2], 128);
    same_number(hottest()->products[ISSUE_FMA], 64);
    struct issue_bound bound = issue_bound_of(&report, &rates, 4);
    assert_int_equal(bound.unit, ISSUE_UNIT_LDS);
    same_number(bound.share_of_peak, 128.0 / (32 * 64));
    same_number(bound.multiply_share, 4.0 / 48);
    same_number(issue_bound_of(&report, &rates, 0.5).share_of_peak, 64.0 / (32 * 64)); /* half of the SIMDs are idle */
}

/* the passes of AMD's tables, four cycles each; and what each generation does on its vector unit meanwhile */
static void matrix_instructions_keep_their_unit_for_their_passes(void **state)
{
    (void)state;
    static const struct {
        const char *target, *instruction;
        double matrix, vector, products;
    } cases[] = {
        {"gfx908", "v_mfma_f32_16x16x16f16 a[0:3], v[4:5], v[6:7], a[0:3]", 32, 4, 4096},
        {"gfx908", "v_mfma_f32_32x32x8f16 a[0:15], v[4:5], v[6:7], a[0:15]", 64, 4, 8192},
        {"gfx908", "v_mfma_f32_16x16x8bf16 a[0:3], v4, v6, a[0:3]", 32, 4, 2048},
        {"gfx90a", "v_mfma_f32_16x16x16bf16_1k a[0:3], v[4:5], v[6:7], a[0:3]", 32, 4, 4096},
        {"gfx90a", "v_mfma_f32_32x32x8bf16_1k a[0:15], v[4:5], v[6:7], a[0:15]", 64, 4, 8192},
        {"gfx942", "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]", 16, 4, 4096},
        {"gfx942", "v_mfma_f32_32x32x8_bf16 v[0:15], v[16:17], v[18:19], v[0:15]", 32, 4, 8192},
        {"gfx950", "v_mfma_f32_16x16x32_f16 v[0:3], v[4:7], v[8:11], v[0:3]", 16, 4, 8192},
        {"gfx950", "v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], v[0:15]", 32, 4, 16384},
        {"gfx1100", "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", 32, 32, 4096},
        {"gfx1201", "v_wmma_f32_16x16x16_bf16 v[0:7], v[8:11], v[16:19], v[0:7]", 16, 16, 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[160];
        snprintf(line, sizeof line, "top: %s", cases[i].instruction);
        const char *const lines[] = {line, "s_cbranch_vccnz -> top", "s_endpgm", NULL};
        analyse(cases[i].target, lines);
        same_number(COUNT(ISSUE_MATRIX), 1);
        same_number(CYCLES(ISSUE_UNIT_MATRIX), cases[i].matrix);
        same_number(CYCLES(ISSUE_UNIT_VECTOR), cases[i].vector);
        same_number(hottest()->products[ISSUE_MATRIX], cases[i].products);
        same_number(hottest()->unknown, 0);
        /* a loop of nothing but the best instruction is the peak; gfx908 does bf16 at half of f16's rate */
        same_number(issue_bound_of(&report, &rates, 1).share_of_peak,
                    strstr(cases[i].instruction, "8bf16 a") ? 0.5 : 1);
    }
}

static void dual_instructions_share_a_slot(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "top: v_dual_dot2acc_f32_f16 v1, v2, v3 :: v_dual_dot2acc_f32_f16 v4, v5, v6",
        "v_dual_mul_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5",
        "v_exp_f32_e32 v1, v2",
        "s_cbranch_vccnz -> top",
        "s_endpgm",
        NULL,
    };
    analyse("gfx1100", lines);
    same_number(CYCLES(ISSUE_UNIT_VECTOR), 3);
    same_number(CYCLES(ISSUE_UNIT_TRANS), 4);
    same_number(COUNT(ISSUE_DOT2), 2);
    same_number(COUNT(ISSUE_ADD), 1);
    same_number(COUNT(ISSUE_MOVE), 1);
    same_number(hottest()->products[ISSUE_DOT2], 2 * 64);
}

/* inner loop of 16 / 4 rounds, behind a block that a branch skips; another inner loop whose rounds are in a register */
static void constant_inner_loops_are_counted_in(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "outer: s_mov_b32 s0, 0",
        "inner: v_dot2_f32_f16 v0, v1, v2, v0",
        "s_add_i32 s0, s0, 4",
        "v_dot2_f32_f16 v0, v1, v2, v0",
        "s_cmp_lg_u32 s0, 16",
        "v_dot2_f32_f16 v0, v1, v2, v0",
        "s_cbranch_scc1 -> inner",
        "v_exp_f32_e32 v3, v4",
        "s_cbranch_vccnz -> outer",
        "s_endpgm",
        NULL,
    };
    analyse("gfx906", lines);
    assert_int_equal(report.loop_count, 2);
    assert_int_equal(report.hottest, 0);
    assert_int_equal(report.loops[1].trips, 4);
    assert_true(report.loops[1].counted);
    assert_int_equal(report.loops[1].parent, 0);
    same_number(COUNT(ISSUE_DOT2), 12);
    same_number(CYCLES(ISSUE_UNIT_VECTOR), 12 * 4 + 16);
}

/* loops over two halves, as compilers write them: flags through masks, and a mask through a lane's register */
static void flags_count_two_rounds(void **state)
{
    (void)state;
    static const char *const masks[] = {
        "outer: s_mov_b64 s[4:5], -1",
        "v_exp_f32_e32 v3, v4",
        "inner: v_dot2_f32_f16 v0, v1, v2, v0",
        "v_add_u32_e32 v9, s4, v8",
        "s_and_b64 vcc, exec, s[4:5]",
        "s_mov_b64 s[4:5], 0",
        "v_dot2_f32_f16 v0, v1, v2, v0",
        "s_cbranch_vccnz -> inner",
        "s_cbranch_execnz -> outer",
        "s_endpgm",
        NULL,
    };
    static const char *const lanes[] = {
        "outer: s_mov_b32 s4, -1",
        "inner: v_cndmask_b32_e64 v9, 0, 1, s4",
        "v_cmp_ne_u32_e32 vcc_lo, 1, v9",
        "v_dot2_f32_f16 v0, v1, v2, v0",
        "s_and_b32 vcc_lo, exec_lo, vcc_lo",
        "s_mov_b32 s4, 0",
        "v_dot2_f32_f16 v0, v1, v2, v0",
        "s_cbranch_vccz -> inner",
        "s_cbranch_execnz -> outer",
        "s_endpgm",
        NULL,
    };
    analyse("gfx906", masks);
    assert_int_equal(report.loops[1].trips, 2);
    same_number(COUNT(ISSUE_DOT2), 4);
    analyse("gfx1030", lanes);
    assert_int_equal(report.loops[1].trips, 2);
    same_number(COUNT(ISSUE_DOT2), 4);
}

/* a skipped block in the inner loop may change what it likes, but not what counts the rounds */
static void blocks_on_unknown_conditions_spoil_what_they_write(void **state)
{
    (void)state;
    static const char *const written[] = {"s_mov_b32 s9, 3", "s_mov_b32 s0, 3", "v_add_co_u32_e64 v5, s0, v6, v7"};
    for (int i = 0; i < 3; i++) {
        const char *const lines[] = {
            "outer: s_mov_b32 s0, 0",
            "inner: v_dot2_f32_f16 v0, v1, v2, v0",
            "s_cbranch_execz -> after",
            written[i],
            "after: s_add_i32 s0, s0, 1",
            "s_cmp_lt_i32 s0, 6",
            "s_cbranch_scc1 -> inner",
            "s_cbranch_execnz -> outer",
            "s_endpgm",
            NULL,
        };
        analyse("gfx1030", lines);
        assert_int_equal(report.loops[1].trips, i == 0 ? 6 : 0);
    }
}

/* each spoils what makes the number of rounds a constant */
static void other_inner_loops_are_not_counted_in(void **state)
{
    (void)state;
    static const char *const starts[] = {"s_mov_b32 s0, s7", "s_mov_b32 s0, 0", "s_mov_b32 s0, 0", "s_mov_b32 s0, 0",
                                         "s_mov_b32 s0, 0"};
    static const char *const steps[] = {"s_add_i32 s0, s0, 4", "s_add_i32 s0, s0, s8", "s_lshl_b32 s0, s0, 1",
                                        "s_add_i32 s0, s0, 4", "s_add_i32 s0, s0, 4"};
    static const char *const limits[] = {"s_cmp_lg_u32 s0, 16", "s_cmp_lg_u32 s0, 16", "s_cmp_lg_u32 s0, 16",
                                         "s_cmp_lg_u32 s0, s9", "s_cmp_lg_u32 s0, 16"};
    static const char *const others[] = {"s_nop 0", "s_nop 0", "s_nop 0", "s_nop 0", "s_and_b32 s3, s3, s4"};
    for (int i = 0; i < 5; i++) {
        char inner[64];
        snprintf(inner, sizeof inner, "inner: %s", steps[i]);
        const char *const lines[] = {
            "outer: v_exp_f32_e32 v3, v4",
            starts[i],
            inner,
            "v_dot2_f32_f16 v0, v1, v2, v0",
            limits[i],
            others[i],
            "s_cbranch_scc1 -> inner",
            "s_cbranch_vccnz -> outer",
            "s_endpgm",
            NULL,
        };
        analyse("gfx906", lines);
        assert_int_equal(report.loop_count, 2);
        assert_int_equal(report.loops[1].trips, 0);
        assert_false(report.loops[1].counted);
        assert_int_equal(report.hottest, 1); /* it is in the loop around it, so it runs more often */
        same_number(COUNT(ISSUE_DOT2), 1);
        same_number(COUNT(ISSUE_EXP), 0);
    }
}

/* a block in the loop that a branch skips: a mask is left out, the loads of the next tile are not */
static void the_iteration_is_the_steady_one(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "top: v_dot2_f32_f16 v0, v1, v2, v0",
        "s_cbranch_scc1 -> load",
        "v_cndmask_b32_e32 v4, v5, v6, vcc",
        "v_cndmask_b32_e32 v4, v5, v6, vcc",
        "load: s_cbranch_vccnz -> end",
        "global_load_dwordx4 v[20:23], v[24:25], off",
        "v_add_u32_e32 v24, v24, v25",
        "end: s_cbranch_execnz -> top",
        "s_endpgm",
        NULL,
    };
    analyse("gfx906", lines);
    same_number(COUNT(ISSUE_GLOBAL_LOAD), 1);
    same_number(COUNT(ISSUE_OTHER_VECTOR), 1);
    same_number(CYCLES(ISSUE_UNIT_VECTOR), 8);
    same_number(report.loops[report.hottest].beside_cycles, 8);
}

/* cold blocks behind the end that branch back are no loops */
static void backward_branches_alone_are_no_loops(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "s_cbranch_execz -> cold",
        "back: v_dot2_f32_f16 v0, v1, v2, v0",
        "s_endpgm",
        "cold: v_exp_f32_e32 v3, v4",
        "s_branch -> back",
        NULL,
    };
    analyse("gfx906", lines);
    assert_int_equal(report.loop_count, 0);
    assert_int_equal(report.hottest, -1);
    same_number(report.whole.cycles[ISSUE_UNIT_VECTOR], 20);
    assert_non_null(strstr(report.why, "no loop"));
}

/* two copies of a loop, one with masks: the plain one is what runs for most tiles */
static void of_copies_the_plain_one_is_taken(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "masked: v_dot2_f32_f16 v0, v1, v2, v0",
        "v_cndmask_b32_e32 v4, v5, v6, vcc",
        "s_cbranch_vccnz -> masked",
        "plain: v_dot2_f32_f16 v0, v1, v2, v0",
        "s_cbranch_vccnz -> plain",
        "s_endpgm",
        NULL,
    };
    analyse("gfx906", lines);
    assert_int_equal(report.loop_count, 2);
    same_number(COUNT(ISSUE_OTHER_VECTOR), 0);
    same_number(COUNT(ISSUE_DOT2), 1);
}

static void instructions_without_a_rate_are_told(void **state)
{
    (void)state;
    static const char *const lines[] = {"top: v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3]",
                                        "s_cbranch_vccnz -> top", "s_endpgm", NULL};
    analyse("gfx942", lines);
    same_number(hottest()->unknown, 1);
    same_number(COUNT(ISSUE_MATRIX), 1);
}

/* nvdisasm's text: labels, predicates, a far branch that is written as a call */
static void sass_is_read(void **state)
{
    (void)state;
    analyse_text("sm_80", "\t.section\t.text.kernel,\"ax\",@progbits\n"
                          "kernel:\n"
                          ".text.kernel:\n"
                          "        /*0000*/                   MOV R4, RZ ;\n"
                          ".L_x_2:\n"
                          "        /*0010*/                   CS2R R8, SRZ ;\n"
                          ".L_x_0:\n"
                          "        /*0020*/                   HMMA.16816.F32 R12, R16, R20, R12 ;\n"
                          "        /*0030*/                   IADD3 R8, R8.reuse, 0x2, RZ ;\n"
                          "        /*0040*/                   LDSM.16.M88.4 R16, [R30] ;\n"
                          "        /*0050*/                   ISETP.NE.AND P0, PT, R8, 0x10, PT ;\n"
                          "        /*0060*/                   LDGSTS.E.BYPASS.128 [R30], [R32.64] ;\n"
                          "        /*0070*/              @!P0 CALL.REL.NOINC `(.L_x_1) ;\n"
                          "        /*0080*/                   BRA `(.L_x_0) ;\n"
                          ".L_x_1:\n"
                          "        /*0090*/                   MUFU.EX2 R9, R9 ;\n"
                          "        /*00a0*/              @P1  BRA `(.L_x_2) ;\n"
                          "        /*00b0*/                   EXIT ;\n");
    assert_int_equal(report.loop_count, 2);
    assert_int_equal(report.loops[1].trips, 8);
    assert_int_equal(report.hottest, 0);
    same_number(COUNT(ISSUE_MATRIX), 8);
    same_number(CYCLES(ISSUE_UNIT_MATRIX), 8 * 8);
    same_number(CYCLES(ISSUE_UNIT_TRANS), 8);
    same_number(CYCLES(ISSUE_UNIT_LDS), 8 * 2 * 16); /* LDSM and LDGSTS, 512 bytes each, 4 partitions */
    same_number(hottest()->direct_load[16], 8);
    same_number(hottest()->products[ISSUE_MATRIX], 8 * 2048);
}

/* "@!PT" never holds: an issue slot each, no LDS, no branch, no loop */
static void instructions_that_never_run_cost_their_issue_alone(void **state)
{
    (void)state;
    static const char before[] = ".text.kernel:\n"
                                 ".L_x_0:\n"
                                 "        /*0000*/                   HMMA.16816.F32 R12, R16, R20, R12 ;\n"
                                 "        /*0010*/                   LDS.128 R20, [R30] ;\n";
    static const char after[] = "        /*0050*/             @P1   BRA `(.L_x_0) ;\n"
                                "        /*0060*/                   EXIT ;\n";
    static const char never[] = "        /*0020*/            @!PT   LDS RZ, [RZ] ;\n"
                                "        /*0030*/            @!UPT  UMOV UR4, UR4 ;\n"
                                "        /*0040*/            @!PT   BRA `(.L_x_0) ;\n";
    char text[1024];
    double lds[2], slots[2], reads[2];
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%s%s%s", before, i == 0 ? "" : never, after);
        analyse_text("sm_80", text);
        assert_int_equal(report.loop_count, 1);
        lds[i] = CYCLES(ISSUE_UNIT_LDS);
        slots[i] = CYCLES(ISSUE_UNIT_PORT);
        reads[i] = COUNT(ISSUE_LDS_READ);
    }
    same_number(reads[0], 1);
    same_number(reads[1], 1);
    same_number(lds[1], lds[0]);
    same_number(slots[1], slots[0] + 3);
}

/* one more register than fits, one more byte than fits */
static void occupancy_follows_registers_and_lds(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int vector, accumulators, shared, threads;
        double waves;
    } cases[] = {
        {"gfx906", 128, 0, 32768, 256, 2},   {"gfx906", 129, 0, 32768, 256, 1},   {"gfx906", 128, 0, 32769, 256, 1},
        {"gfx906", 24, 0, 0, 256, 10},       {"gfx906", 84, 0, 0, 256, 3},        {"gfx906", 85, 0, 0, 256, 2},
        {"gfx90a", 128, 128, 32768, 256, 2}, {"gfx90a", 128, 132, 32768, 256, 1}, {"gfx908", 128, 128, 32768, 256, 2},
        {"gfx1100", 192, 0, 0, 256, 8},      {"gfx1100", 193, 0, 0, 256, 4},      {"gfx906", 128, 0, 65536, 128, 0.5},
        {"sm_80", 128, 0, 0, 128, 4},        {"sm_80", 129, 0, 0, 128, 3},        {"sm_80", 32, 0, 80 * 1024, 128, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct target target;
        struct error error = {0};
        struct resources resources = {.vector_registers = cases[i].vector,
                                      .accumulator_registers = cases[i].accumulators,
                                      .shared_bytes = cases[i].shared};
        issue_rates_free(&rates);
        assert_int_equal(target_parse(cases[i].target, &target, NULL), ATTUNE_OK);
        if (issue_rates_load(generator, &target, &rates, &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        struct issue_occupancy occupancy;
        if (issue_occupancy(generator, &target, &rates, &resources, cases[i].threads, 0, &occupancy, &error) !=
            ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        if (occupancy.waves != cases[i].waves) {
            fail_msg("%s, case %zu: %g waves, not %g", cases[i].target, i, occupancy.waves, cases[i].waves);
        }
    }
}

/* every target that kernels are made for has rates, and its rules are reachable: no mnemonic is left to none */
static void every_target_has_rates(void **state)
{
    (void)state;
    for (int i = 0; i < generator_target_count(generator); i++) {
        const char *name = generator_target_name(generator, i);
        struct target target;
        struct error error = {0};
        issue_rates_free(&rates);
        assert_int_equal(target_parse(name, &target, NULL), ATTUNE_OK);
        attune_status status = issue_rates_load(generator, &target, &rates, &error);
        if (status != (target.vendor == TARGET_HOST ? ATTUNE_UNSUPPORTED : ATTUNE_OK)) {
            fail_msg("%s: %s", name, error.message);
        }
        static const char *const amd[] = {"v_anything", "s_anything", "ds_anything", "global_load_b128",
                                          "flat_load_dword"};
        for (size_t k = 0; k < 5 && target.vendor == TARGET_AMD; k++) {
            assert_non_null(issue_rule_find(&rates, (struct slice){amd[k], strlen(amd[k])}));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unit_cycles_are_the_published_ones),
        cmocka_unit_test(matrix_instructions_keep_their_unit_for_their_passes),
        cmocka_unit_test(dual_instructions_share_a_slot),
        cmocka_unit_test(constant_inner_loops_are_counted_in),
        cmocka_unit_test(flags_count_two_rounds),
        cmocka_unit_test(blocks_on_unknown_conditions_spoil_what_they_write),
        cmocka_unit_test(other_inner_loops_are_not_counted_in),
        cmocka_unit_test(the_iteration_is_the_steady_one),
        cmocka_unit_test(backward_branches_alone_are_no_loops),
        cmocka_unit_test(of_copies_the_plain_one_is_taken),
        cmocka_unit_test(instructions_without_a_rate_are_told),
        cmocka_unit_test(sass_is_read),
        cmocka_unit_test(instructions_that_never_run_cost_their_issue_alone),
        cmocka_unit_test(occupancy_follows_registers_and_lds),
        cmocka_unit_test(every_target_has_rates),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
