/* isa.c - objects through compiler, disassembler and loop analysis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/templates/isa.h"

bool isa_tools_open(struct isa_tools *tools)
{
    struct error error = {0};
    struct generator_options options = {.template_path = ""};
    struct compiler_options compilers = {.workers = 2};
    *tools = (struct isa_tools){0};
    if (generator_create(&options, &tools->generator, &error) != ATTUNE_OK ||
        compiler_pool_create(&compilers, &tools->pool, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return false;
    }
    return true;
}

void isa_tools_close(struct isa_tools *tools)
{
    compiler_pool_destroy(tools->pool);
    generator_destroy(tools->generator);
}

static attune_status compile(const struct isa_tools *tools, const struct target *target,
                             const struct expansion *expansion, struct compile_result *result, struct error *error)
{
    struct compile_request request = {.target = *target,
                                      .compiler = tools->compiler,
                                      .source = buffer_string(&expansion->compile),
                                      .source_bytes = expansion->compile.length};
    return compiler_compile(tools->pool, &request, result, error);
}

static attune_status read_object(const struct isa_tools *tools, const struct target *target,
                                 const struct compile_result *result, struct isa *isa, struct error *error)
{
    const struct buffer *object = &result->object;
    attune_status status =
        codeobject_resources(object->data, object->length, isa->launch.kernel, &isa->resources, error);
    if (status == ATTUNE_OK) {
        status = compiler_disassemble(tools->pool, target, object->data, object->length, &isa->text, error);
    }
    if (status == ATTUNE_OK) {
        status = issue_rates_load(tools->generator, target, &isa->rates, error);
    }
    if (status == ATTUNE_OK) {
        status = listing_parse(buffer_string(&isa->text), isa->text.length, target->vendor, isa->launch.kernel,
                               &isa->listing, error);
    }
    if (status == ATTUNE_OK) {
        status = issue_analyse(&isa->listing, &isa->rates, isa->report, error);
    }
    if (status == ATTUNE_OK) {
        status = issue_occupancy(tools->generator, target, &isa->rates, &isa->resources, (int)isa->launch.threads,
                                 (int)isa->launch.dynamic_shared_bytes, &isa->occupancy, error);
    }
    if (status == ATTUNE_OK) {
        isa->bound = issue_bound_of(isa->report, &isa->rates, isa->occupancy.waves);
    }
    return status;
}

bool isa_build(const struct isa_tools *tools, const char *problem_text, const char *target_text, const char *changes,
               struct isa *isa)
{
    struct problem problem;
    struct target target = {0};
    struct expansion expansion = {0};
    struct compile_result result = {0};
    struct error error = {0};
    memset(isa, 0, sizeof *isa);
    isa->report = calloc(1, sizeof *isa->report);
    assert_non_null(isa->report);
    if (problem_parse(schema_attention_forward(), problem_text, &problem, &error) != ATTUNE_OK ||
        target_parse(target_text, &target, &error) != ATTUNE_OK ||
        candidate_parse(tools->generator, changes, &problem, &target, &isa->candidate, &error) != ATTUNE_OK ||
        candidate_check(tools->generator, &isa->candidate, &problem, &target, &error) != ATTUNE_OK ||
        candidate_expand(tools->generator, &isa->candidate, &problem, &target, &expansion, &error) != ATTUNE_OK) {
        fail_msg("%s on %s: %s", problem_text, target_text, error.message);
    }
    isa->launch = expansion.launch;
    isa->bf16 = strstr(problem_text, "dtype=bf16") != NULL;
    attune_status status = compile(tools, &target, &expansion, &result, &error);
    if (status == ATTUNE_OK) {
        snprintf(isa->compiler, sizeof isa->compiler, "%s", result.compiler);
        status = read_object(tools, &target, &result, isa, &error);
    }
    compile_result_free(&result);
    expansion_free(&expansion);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("%s: %s\n", target_text, error.message);
    } else if (status != ATTUNE_OK) {
        fail_msg("%s on %s: %s", problem_text, target_text, error.message);
    }
    return status == ATTUNE_OK;
}

void isa_free(struct isa *isa)
{
    listing_free(&isa->listing);
    issue_rates_free(&isa->rates);
    buffer_free(&isa->text);
    free(isa->report);
    isa->report = NULL;
}

const char *isa_value(const struct isa *isa, const char *parameter)
{
    for (int i = 0; i < isa->candidate.parameter_count; i++) {
        if (strcmp(isa->candidate.parameters[i].name, parameter) == 0) {
            return isa->candidate.parameters[i].value;
        }
    }
    return "";
}

static int count_between(const struct isa *isa, const char *pattern, uint64_t begin, uint64_t end)
{
    int count = 0;
    for (int i = 0; i < isa->listing.count; i++) {
        const struct instruction *at = &isa->listing.items[i];
        count += at->address >= begin && at->address <= end && slice_fits(pattern, at->mnemonic);
    }
    return count;
}

int isa_count(const struct isa *isa, const char *pattern)
{
    return count_between(isa, pattern, 0, UINT64_MAX);
}

int isa_count_in_loop(const struct isa *isa, const char *pattern)
{
    const struct issue_report *report = isa->report;
    assert_true(report->hottest >= 0);
    return count_between(isa, pattern, report->loops[report->hottest].begin, report->loops[report->hottest].end);
}

static int count_of_type(const struct isa *isa, const char *pattern, const char *type)
{
    char text[64];
    size_t before = strcspn(pattern, "%");
    snprintf(text, sizeof text, "%.*s%s%s", (int)before, pattern, type, pattern + before + (pattern[before] == '%'));
    return isa->report->hottest >= 0 ? isa_count_in_loop(isa, text) : isa_count(isa, text);
}

int isa_multiplies(const struct isa *isa, const char *pattern)
{
    bool nvidia = strncmp(isa->resources.target, "sm_", 3) == 0;
    int bf16 = count_of_type(isa, pattern, nvidia ? ".BF16" : "bf16");
    return isa->bf16 ? bf16 : count_of_type(isa, pattern, nvidia ? "" : "f16") - bf16;
}

void isa_holds_basics(const struct isa *isa, const char *target)
{
    const struct resources *resources = &isa->resources;
    char name[CANDIDATE_TEXT_BYTES];
    candidate_format(&isa->candidate, name);
    int registers = resources->vector_registers;
    if (resources->scratch_bytes != 0) {
        fail_msg("%s: %s: %d bytes of scratch (%s)", target, name, resources->scratch_bytes, isa->compiler);
    }
    if (resources->shared_bytes != (int)isa->launch.static_shared_bytes) {
        fail_msg("%s: %s: %d bytes of LDS in the object, the space has %d", target, name, resources->shared_bytes,
                 (int)isa->launch.static_shared_bytes);
    }
    if (isa->occupancy.waves <= 0) {
        fail_msg("%s: %s: %d registers leave no room for a block of %d", target, name, registers,
                 (int)isa->launch.threads);
    }
    if (isa->report->whole.count[ISSUE_FLAT] > 0 || isa->report->whole.count[ISSUE_SCRATCH] > 0) {
        fail_msg("%s: %s: %g flat and %g scratch accesses", target, name, isa->report->whole.count[ISSUE_FLAT],
                 isa->report->whole.count[ISSUE_SCRATCH]);
    }
    if (isa->report->hottest < 0) {
        fail_msg("%s: %s: no loop", target, name);
    }
    if (issue_hottest(isa->report)->unknown > 0) {
        fail_msg("%s: %s: %g instructions of the loop without published cycles", target, name,
                 issue_hottest(isa->report)->unknown);
    }
}
