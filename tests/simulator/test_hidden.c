/* test_hidden.c - no kernel of any family has hidden arguments, in code objects of version 4 and 5: whoever launches
 * one needs its arguments and nothing else. An object that has some is told, and refused by the simulator's driver. */
#include "kit.h"

#include "base/codeobject.h"
#include "generator/compiler.h"
#include "generator/generator.h"
#include "tests/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct generator *generator;
static struct compiler_pool *pool;

static int set_up(void **state)
{
    struct generator_options options = {.template_path = ""};
    struct error error = {0};
    if (kit_set_up(state) != 0 || generator_create(&options, &generator, &error) != ATTUNE_OK ||
        compiler_pool_create(NULL, &pool, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    compiler_pool_destroy(pool);
    generator_destroy(generator);
    return kit_tear_down(state);
}

/* false where no compiler here makes it */
static bool build(const struct candidate *candidate, const struct problem *problem, const struct target *target,
                  int version, struct resources *resources)
{
    struct expansion expansion = {0};
    struct compile_result result = {0};
    struct error error = {0};
    if (candidate_expand(generator, candidate, problem, target, &expansion, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    struct compile_request request = {.target = *target,
                                      .source = buffer_string(&expansion.compile),
                                      .source_bytes = expansion.compile.length,
                                      .code_object = version};
    attune_status status = compiler_compile(pool, &request, &result, &error);
    if (status == ATTUNE_OK) {
        status =
            codeobject_resources(result.object.data, result.object.length, expansion.launch.kernel, resources, &error);
    }
    if (status != ATTUNE_OK && status != ATTUNE_NO_TOOLCHAIN) {
        fail_msg("%s", error.message);
    }
    uint32_t offsets[LAUNCH_ARGUMENTS_MAX], bytes = 0;
    assert_int_equal(launch_layout(&expansion.launch, offsets, &bytes, &error), ATTUNE_OK);
    if (status == ATTUNE_OK &&
        (resources->argument_bytes < (int32_t)bytes || resources->argument_bytes > (int32_t)bytes + 15)) {
        fail_msg("version %d: %d bytes of arguments in the object, %u in the launch descriptor", version,
                 resources->argument_bytes, bytes);
    }
    compile_result_free(&result);
    expansion_free(&expansion);
    return status == ATTUNE_OK;
}

/* every family there is has a row here, or the test fails */
static const struct {
    const char *family, *problem;
} problems[] = {
    {"attention.forward", "dtype=bf16 heads=4 seqlen_q=64 head_dim=128"}, /* in size full alone */
    {"attention.forward",
     "dtype=f16 heads=4 kv_heads=2 seqlen_q=64 seqlen_k=96 head_dim=64 causal=1 lse=1 dropout=0.1"},
    {"attention.reference", "head_dim_qk=64 head_dim_v=64 dropout=1 batch=1 heads=1 kv_heads=1 seqlen_q=1 seqlen_k=1"},
    {"attention.compare", "head_dim_v=64 lse=1 batch=1 heads=1 seqlen_q=1"},
};
enum { PROBLEMS = sizeof problems / sizeof problems[0] };

static int check_problem(const char *family, const char *text, const char *target_text)
{
    struct problem problem;
    struct target target;
    struct candidate_list list = {0};
    struct error error = {0};
    int checked = 0;
    assert_int_equal(target_parse(target_text, &target, &error), ATTUNE_OK);
    if (problem_parse(generator_schema(generator, family), text, &problem, &error) != ATTUNE_OK ||
        candidate_cover(generator, &problem, &target, test_size(3, 30), 1, &list, &error) != ATTUNE_OK) {
        fail_msg("%s %s: %s", family, text, error.message);
    }
    for (int i = 0; i < list.count; i++) {
        for (int version = 4; version <= 5; version++) {
            struct resources resources;
            if (build(&list.items[i], &problem, &target, version, &resources)) {
                char name[CANDIDATE_TEXT_BYTES];
                candidate_format(&list.items[i], name);
                if (resources.hidden_arguments != 0) {
                    fail_msg("%s on %s, version %d: %d hidden arguments", name, target_text, version,
                             resources.hidden_arguments);
                }
                checked++;
            }
        }
    }
    candidate_list_free(&list);
    return checked;
}

static void no_kernel_of_any_family_has_hidden_arguments(void **state)
{
    (void)state;
    static const char *const targets[] = {"gfx906", "gfx942", "gfx1100", "gfx908",
                                          "gfx90a", "gfx950", "gfx1030", "gfx1201"};
    int checked = 0;
    for (int i = 0; i < generator_family_count(generator); i++) {
        const char *family = generator_family_name(generator, i);
        int rows = 0;
        for (int p = test_size(1, 0); p < PROBLEMS; p++) {
            for (int t = 0;
                 t < test_size(2, sizeof targets / sizeof targets[0]) && strcmp(family, problems[p].family) == 0;
                 t++, rows++) {
                checked += check_problem(family, problems[p].problem, targets[t]);
            }
        }
        if (rows == 0) {
            fail_msg("family %s has no problem in this test", family);
        }
    }
    if (checked == 0) {
        print_message("skipped: no compiler for AMD targets here\n");
        skip();
    }
}

/* the block's size is a hidden argument since version 5 */
static void object_with_hidden_arguments_is_told_and_refused(void **state)
{
    (void)state;
    static const char source[] =
        "extern \"C\" __attribute__((global)) void k(int *p) { *p = __builtin_amdgcn_workgroup_size_x(); }\n";
    struct compile_request request = {.compiler = COMPILER_CLANG, .source = source, .source_bytes = sizeof source - 1};
    struct compile_result result = {0};
    struct resources resources;
    struct error error = {0};
    driver_module module;
    driver_function function;
    request.code_object = 5;
    assert_int_equal(target_parse("gfx906", &request.target, &error), ATTUNE_OK);
    attune_status status = compiler_compile(pool, &request, &result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error.message);
        compile_result_free(&result);
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(codeobject_resources(result.object.data, result.object.length, "k", &resources, &error),
                     ATTUNE_OK);
    assert_true(resources.hidden_arguments > 0 && resources.argument_bytes > 8);
    kit_simulate("is not reached", "exit 0");
    const struct driver *driver = kit_driver(KIT_DEVICE);
    assert_int_equal(
        driver->load(driver, 0, result.object.data, result.object.length, "k", 0, &module, &function, &error),
        ATTUNE_UNSUPPORTED);
    kit_says(&error, "hidden arguments");
    compile_result_free(&result);
}

/* where only hiprtc 5.2 is, version 5 is refused with its name, not by silence or by another version */
static void version_that_no_compiler_here_makes_is_refused_by_name(void **state)
{
    (void)state;
    static const char source[] = "extern \"C\" __attribute__((global)) void k(int *p) { *p = 1; }\n";
    struct compiler_pool *without_clang;
    struct compile_result result = {0};
    struct error error = {0};
    char compiler[64], identity[DIGEST_HEX_BYTES];
    struct compile_request request = {.source = source, .source_bytes = sizeof source - 1, .code_object = 5};
    assert_int_equal(target_parse("gfx906", &request.target, &error), ATTUNE_OK);
    setenv("ATTUNE_CLANG", "/nonexistent/clang", 1);
    assert_int_equal(compiler_pool_create(NULL, &without_clang, &error), ATTUNE_OK);
    attune_status there =
        compiler_identity(without_clang, &request.target, COMPILER_HIPRTC, SANITIZE_NONE, compiler, identity, &error);
    bool is_old = there == ATTUNE_OK && strncmp(compiler, "hiprtc 5.", 9) == 0;
    attune_status status = compiler_compile(without_clang, &request, &result, &error);
    compiler_pool_destroy(without_clang);
    unsetenv("ATTUNE_CLANG");
    compile_result_free(&result);
    if (!is_old) {
        print_message("skipped: the hiprtc here makes version 5, or there is none\n");
        skip();
    }
    assert_int_equal(status, ATTUNE_NO_TOOLCHAIN);
    kit_says(&error, "makes code objects of version 4 alone, 5 is asked for");
    kit_says(&error, "no clang for gfx906");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_kernel_of_any_family_has_hidden_arguments),
        cmocka_unit_test(object_with_hidden_arguments_is_told_and_refused),
        cmocka_unit_test(version_that_no_compiler_here_makes_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
