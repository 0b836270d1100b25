/* test_cover_objects.c - what compilers make of covers: every candidate compiles on its target, by each compiler that
 * has it, and its object keeps what the space promised of it. test_isa.c asks more of the defaults.
 */
#include "base/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cover_list.h"
#include "tests/size.h"
#include "tests/templates/isa.h"

static struct isa_tools tools;
static struct cover_list targets, problems;

/* of one target: objects looked at, by any compiler but the automatic choice, with scratch, promises not kept */
static struct tally {
    const char *target, *problem;
    int objects, broken;
} tally;

static int set_up(void **state)
{
    (void)state;
    cover_list_read("problems.txt", &problems);
    return isa_tools_open(&tools) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    isa_tools_close(&tools);
    cover_list_free(&problems);
    return 0;
}

/* one that is broken does not hide the others: the target's test fails at its end */
__attribute__((format(printf, 3, 4))) static void promise(bool kept, const struct isa *isa, const char *format, ...)
{
    if (kept) {
        return;
    }
    char name[CANDIDATE_TEXT_BYTES], what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    candidate_format(&isa->candidate, name);
    print_error("%s (%s), %s: %s: %s\n", tally.target, isa->compiler, tally.problem, name, what);
    tally.broken++;
}

/* How disassemblers write the instruction that a candidate's `multiply` names, for isa_multiplies. Multiply-adds have
 * too many names: their class is enough. */
static const struct multiply {
    const char *name;
    enum issue_class class;
    const char *pattern, *other; /* `other` must not be there */
} multiplies[] = {
    {"fma", ISSUE_FMA, NULL, NULL},
    {"dot2", ISSUE_DOT2, "v_*dot2*_f32_%*", NULL},
    {"mfma_32x32x16", ISSUE_MATRIX, "v_mfma_f32_32x32x16*%*", "v_mfma_*16x16x*"},
    {"mfma_16x16x32", ISSUE_MATRIX, "v_mfma_f32_16x16x32*%*", "v_mfma_*32x32x*"},
    {"mfma_32x32x8", ISSUE_MATRIX, "v_mfma_f32_32x32x8*%*", "v_mfma_*16x16x*"},
    {"mfma_16x16x16", ISSUE_MATRIX, "v_mfma_f32_16x16x16*%*", "v_mfma_*32x32x*"},
    {"mfma_32x32x4", ISSUE_MATRIX, "v_mfma_f32_32x32x4*%*", "v_mfma_*16x16x*"},
    {"mfma_16x16x8", ISSUE_MATRIX, "v_mfma_f32_16x16x8*%*", "v_mfma_*32x32x*"},
    {"wmma", ISSUE_MATRIX, "v_wmma_f32_16x16x16_%*", NULL},
    {"mma_16x8x16", ISSUE_MATRIX, "HMMA.16816.F32%*", "HMMA.1688.*"},
    {"mma_16x8x8", ISSUE_MATRIX, "HMMA.1688.F32%*", "HMMA.16816.*"},
};

static const struct multiply *multiply_of(const struct isa *isa)
{
    const char *value = isa_value(isa, "multiply");
    for (size_t i = 0; i < sizeof multiplies / sizeof *multiplies; i++) {
        size_t length = strlen(multiplies[i].name);
        if (strncmp(value, multiplies[i].name, length) == 0 && (value[length] == '\0' || value[length] == '_')) {
            return &multiplies[i];
        }
    }
    fail_msg("multiply=%s: no instruction is named for it here", value);
    return NULL;
}

/* The products are done by the named instruction, in the loop. A loop that compiled lengths let run once is none. */
static void multiplies_as_it_says(const struct isa *isa)
{
    const struct multiply *by = multiply_of(isa);
    promise(isa->report->hottest >= 0 || strcmp(isa_value(isa, "exact"), "lengths") == 0, isa, "no loop");
    promise(isa->report->multiply == by->class && issue_hottest(isa->report)->products[by->class] > 0, isa,
            "its products are done by %s", issue_class_name(isa->report->multiply));
    promise(by->pattern == NULL || isa_multiplies(isa, by->pattern) > 0, isa, "no %s in its loop", by->pattern);
    promise(by->other == NULL || isa_count(isa, by->other) == 0, isa, "%s beside it", by->other);
}

/* Registers leave room for what the candidate says it leaves room for: on AMD waves of a SIMD, on NVIDIA blocks of an
 * SM; a block at least. */
static void fits_as_it_says(const struct isa *isa)
{
    const struct resources *resources = &isa->resources;
    int static_bytes = (int)isa->launch.static_shared_bytes, registers = resources->vector_registers;
    int waves_a_block = ((int)isa->launch.threads + isa->rates.wave - 1) / isa->rates.wave;
    double blocks = isa->occupancy.by_registers * isa->rates.simds / waves_a_block;
    int resident = isa_value(isa, "resident")[0] != '\0' ? atoi(isa_value(isa, "resident")) : 0;
    bool nvidia = strncmp(tally.target, "sm_", 3) == 0;
    promise(resources->shared_bytes == static_bytes, isa, "%d bytes of LDS in the object, the space has %d and %d",
            resources->shared_bytes, static_bytes, (int)isa->launch.dynamic_shared_bytes);
    promise(isa->occupancy.waves > 0 && blocks >= 1, isa, "%d + %d registers leave no room for a block of %d threads",
            registers, resources->accumulator_registers, (int)isa->launch.threads);
    promise((nvidia ? blocks : isa->occupancy.by_registers) >= resident, isa,
            "resident=%d: %d + %d registers leave %g waves a SIMD, %g blocks", resident, registers,
            resources->accumulator_registers, isa->occupancy.by_registers, blocks);
    promise(resources->max_threads == (int)isa->launch.threads, isa, "made for %d threads, launched with %d",
            resources->max_threads, (int)isa->launch.threads);
}

/* false: no compiler or disassembler for it here */
static bool keeps_its_promises(const struct candidate *candidate, enum compiler_kind compiler)
{
    char name[CANDIDATE_TEXT_BYTES];
    struct isa isa;
    candidate_format(candidate, name);
    tools.compiler = compiler;
    bool built = isa_build(&tools, tally.problem, tally.target, name, &isa);
    if (built) {
        double flat = isa.report->whole.count[ISSUE_FLAT];
        tally.objects++;
        promise(flat == 0, &isa, "%g flat accesses", flat);
        multiplies_as_it_says(&isa);
        fits_as_it_says(&isa);
    }
    isa_free(&isa);
    return built;
}

static void cover_of(struct candidate_list *cover)
{
    struct problem problem;
    struct target target;
    struct error error = {0};
    if (problem_parse(schema_attention_forward(), tally.problem, &problem, &error) != ATTUNE_OK ||
        target_parse(tally.target, &target, &error) != ATTUNE_OK ||
        candidate_cover(tools.generator, &problem, &target, test_size(3, 16), 1, cover, &error) != ATTUNE_OK) {
        fail_msg("%s on %s: %s", tally.problem, tally.target, error.message);
    }
    assert_true(cover->count >= test_size(2, 8));
}

/* At ci's size a problem a target and its candidates by each of AMD's compilers in turn, full: all by both. What hiprtc
 * cannot make is clang's by either name. */
static void covers_keep_what_the_space_promised(void **state)
{
    const int index = *(const int *)*state;
    tally = (struct tally){.target = targets.items[index]};
    const bool amd = strncmp(tally.target, "gfx", 3) == 0;
    for (int i = 0; i < test_size(1, problems.count); i++) {
        struct candidate_list cover;
        tally.problem = problems.items[(index + i) % problems.count];
        cover_of(&cover);
        bool built = true;
        for (int j = 0; j < cover.count && built; j++) {
            built = keeps_its_promises(&cover.items[j], amd && test_size(j % 2, 0) ? COMPILER_CLANG : COMPILER_AUTO);
            if (built && amd && test_size(0, 1)) {
                built = keeps_its_promises(&cover.items[j], COMPILER_CLANG);
            }
        }
        candidate_list_free(&cover);
        if (!built) {
            skip();
        }
    }
    print_message("%s: %d objects\n", tally.target, tally.objects);
    assert_int_equal(tally.broken, 0);
}

int main(void)
{
    static struct CMUnitTest tests[COVER_LIST_MAX];
    static char names[COVER_LIST_MAX][64];
    static int indices[COVER_LIST_MAX];
    cover_list_read("targets.txt", &targets);
    for (int i = 0; i < targets.count; i++) {
        indices[i] = i;
        snprintf(names[i], sizeof names[i], "covers_keep_what_the_space_promised on %s", targets.items[i]);
        tests[i] = (struct CMUnitTest){names[i], covers_keep_what_the_space_promised, NULL, NULL, &indices[i]};
    }
    int failed = _cmocka_run_group_tests("cover_objects", tests, (size_t)targets.count, set_up, tear_down);
    cover_list_free(&targets);
    return failed;
}
