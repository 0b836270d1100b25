/* fast_math.c - A40: no option tells a compiler that numbers are finite, none comes in from outside, and a compiler
 * that assumes it by itself is refused by the vocabulary's first lines. Masks are infinities: without them a guard such
 * as `maximum == -infinity` is compiled away. */
#include "base/files.h"
#include "generator/compiler.h"
#include "generator/generator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define PROBLEM "dtype=f16 batch=1 heads=2 seqlen_q=300 seqlen_k=45 head_dim=64 causal=1 lse=1"

static struct generator *generator;
static char folder[512];

static int set_up(void **state)
{
    (void)state;
    struct error error = {.message = ""};
    if (generator_create(&(struct generator_options){.template_path = ""}, &generator, &error) != ATTUNE_OK ||
        folder_temporary(folder, sizeof folder, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove(folder);
    generator_destroy(generator);
    return 0;
}

/* the portable template's default kernel by a new pool, whose workers see the environment as it is now */
static attune_status build(const char *target_text, enum compiler_kind kind, struct compile_result *result,
                           struct buffer *listing, struct error *error)
{
    struct problem problem;
    struct target target = {0};
    struct candidate candidate;
    struct expansion expansion = {0};
    struct compiler_pool *pool = NULL;
    const struct compiler_options options = {.workers = 1};
    memset(result, 0, sizeof *result);
    error->message[0] = '\0';
    if (problem_parse(schema_attention_forward(), PROBLEM, &problem, error) != ATTUNE_OK ||
        target_parse(target_text, &target, error) != ATTUNE_OK ||
        candidate_parse(generator, "attention.forward/portable", &problem, &target, &candidate, error) != ATTUNE_OK ||
        candidate_expand(generator, &candidate, &problem, &target, &expansion, error) != ATTUNE_OK ||
        compiler_pool_create(&options, &pool, error) != ATTUNE_OK) {
        fail_msg("%s: %s", target_text, error->message);
    }
    const struct compile_request request = {.target = target,
                                            .compiler = kind,
                                            .source = buffer_string(&expansion.compile),
                                            .source_bytes = expansion.compile.length};
    attune_status status = compiler_compile(pool, &request, result, error);
    if (status == ATTUNE_OK && listing != NULL &&
        compiler_disassemble(pool, &target, result->object.data, result->object.length, listing, NULL) != ATTUNE_OK) {
        buffer_clear(listing);
    }
    expansion_free(&expansion);
    compiler_pool_destroy(pool);
    return status;
}

static void skip_without_toolchain(attune_status status, const char *target, const struct error *error)
{
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("%s: skipped: %s\n", target, error->message);
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s: %s", target, error->message);
    }
}

/* ------------------------------------------------------------------------------------------------ our own options */

static void no_option_of_ours_assumes_finite_numbers(void **state)
{
    (void)state;
    static const char *const words[] = {"fast",        "finite",  "Ofast",     "unsafe", "reciprocal",
                                        "associative", "honor-n", "honor-inf", "ftz",    "denorm"};
    static const char *const targets[] = {"gfx906", "gfx942", "sm_90a", "host", "host-gfx906"};
    for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
        struct target target;
        assert_int_equal(target_parse(targets[t], &target, NULL), ATTUNE_OK);
        for (int kind = COMPILER_AUTO; kind <= COMPILER_HOST; kind++) {
            for (int sanitize = SANITIZE_NONE; sanitize <= SANITIZE_THREAD; sanitize++) {
                for (int version = 0; version <= 6; version += version == 0 ? 4 : 1) {
                    const char *text =
                        compiler_options_text(&target, (enum compiler_kind)kind, (enum sanitize)sanitize, version);
                    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
                        if (strstr(text, words[w]) != NULL) {
                            fail_msg("%s: '%s' in: %s", targets[t], words[w], text);
                        }
                    }
                }
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------ from outside */

static const char *const variables[][2] = {{"HIPRTC_COMPILE_OPTIONS_APPEND", "-ffast-math"},
                                           {"HIPCC_COMPILE_FLAGS_APPEND", "-ffast-math"},
                                           {"AMD_COMGR_COMPILE_OPTIONS", "-ffast-math"},
                                           {"AMD_OCL_BUILD_OPTIONS_APPEND", "-cl-finite-math-only"},
                                           {"CCC_OVERRIDE_OPTIONS", "+-ffast-math"},
                                           {"CLANG_CONFIG_FILE_USER_DIR", "/nowhere"},
                                           {"NVCC_APPEND_FLAGS", "-use_fast_math"},
                                           {"NVRTC_APPEND_FLAGS", "-use_fast_math"},
                                           {"CFLAGS", "-Ofast"},
                                           {"CXXFLAGS", "-Ofast"},
                                           {"CPPFLAGS", "-D__FAST_MATH__"},
                                           {"COLLECT_GCC_OPTIONS", "'-ffast-math'"}};

static void set_variables(bool on)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        if (on) {
            assert_int_equal(setenv(variables[i][0], variables[i][1], 1), 0);
        } else {
            assert_int_equal(unsetenv(variables[i][0]), 0);
        }
    }
}

/* the same bytes as without them */
static void no_variable_brings_an_option_in(void **state)
{
    const char *target = *state;
    struct compile_result plain, with;
    struct error error;
    attune_status status = build(target, COMPILER_AUTO, &plain, NULL, &error);
    if (status == ATTUNE_OK) {
        set_variables(true);
        status = build(target, COMPILER_AUTO, &with, NULL, &error);
        set_variables(false);
        if (status == ATTUNE_OK) {
            assert_int_equal(plain.object.length, with.object.length);
            assert_memory_equal(plain.object.data, with.object.data, plain.object.length);
        }
        compile_result_free(&with);
    }
    compile_result_free(&plain);
    skip_without_toolchain(status, target, &error);
}

/* `name` becomes the compiler with more options, before ours or behind them */
static void make_wrapper(const char *name, const char *compiler, const char *before, const char *behind,
                         char path[1024])
{
    char text[1024];
    (void)snprintf(path, 1024, "%s/%s", folder, name);
    int length = snprintf(text, sizeof text,
                          "#!/bin/sh\nfor word in \"$@\"; do\n"
                          "  case \"$word\" in --version|-print-*|--print-*) exec %s \"$@\";; esac\ndone\n"
                          "exec %s %s \"$@\" %s\n",
                          compiler, compiler, before, behind);
    (void)remove(path);
    assert_int_equal(file_write(path, text, (size_t)length, NULL), ATTUNE_OK);
    assert_int_equal(chmod(path, 0700), 0);
}

static void expect_refused(const char *variable, const char *compiler, const char *target, enum compiler_kind kind)
{
    static const char *const flags[][2] = {{"", "-ffast-math"},
                                           {"", "-Ofast"},
                                           {"", "-ffinite-math-only"},
                                           {"-ffast-math", ""},
                                           {"-ffinite-math-only", ""}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        char path[1024];
        struct compile_result result;
        struct error error;
        make_wrapper("wrapped", compiler, flags[i][0], flags[i][1], path);
        assert_int_equal(setenv(variable, path, 1), 0);
        attune_status status = build(target, kind, &result, NULL, &error);
        assert_int_equal(unsetenv(variable), 0);
        if (status != ATTUNE_COMPILE_FAILED || strstr(error.message, "-ffast-math") == NULL) {
            fail_msg("%s%s: status %d: %s", flags[i][0], flags[i][1], status, error.message);
        }
        compile_result_free(&result);
    }
}

static void a_host_compiler_that_assumes_finite_numbers_is_refused(void **state)
{
    (void)state;
    struct compile_result result;
    struct error error;
    attune_status status = build("host", COMPILER_HOST, &result, NULL, &error);
    compile_result_free(&result);
    skip_without_toolchain(status, "host", &error);
    expect_refused("ATTUNE_CXX", "c++", "host", COMPILER_HOST);
}

/* a clang that knows gfx906, by the name that its compile reports ("clang 22.1" is clang-22) */
static bool find_clang(char name[64])
{
    struct compile_result result;
    struct error error;
    attune_status status = build("gfx906", COMPILER_CLANG, &result, NULL, &error);
    int major = 0;
    bool found = status == ATTUNE_OK && sscanf(result.compiler, "clang %d", &major) == 1;
    (void)snprintf(name, 64, "clang-%d", major);
    compile_result_free(&result);
    if (!found) {
        print_message("skipped: no clang for gfx906 here: %s\n", error.message);
    }
    return found;
}

static void a_clang_that_assumes_finite_numbers_is_refused(void **state)
{
    (void)state;
    char clang[64];
    if (!find_clang(clang)) {
        skip();
    }
    expect_refused("ATTUNE_CLANG", clang, "gfx906", COMPILER_CLANG);
}

/* ------------------------------------------------------------------------------------------------ the guards */

static int count_of(const struct buffer *listing, const char *word)
{
    int count = 0;
    for (const char *at = buffer_string(listing); (at = strstr(at, word)) != NULL; at += strlen(word)) {
        count++;
    }
    return count;
}

/* The comparisons that finite numbers would make needless are in the object: as many more v_cmp as a thread has rows,
 * for the empty tile and for the empty row, than a compiler leaves that was told so and kept from saying it. */
static void guards_against_infinity_are_compiled(void **state)
{
    (void)state;
    char clang[64], path[1024];
    struct buffer listing = BUFFER_INIT, finite = BUFFER_INIT, hiprtc = BUFFER_INIT;
    struct compile_result result;
    struct error error;
    if (!find_clang(clang)) {
        skip();
    }
    assert_int_equal(build("gfx906", COMPILER_CLANG, &result, &listing, &error), ATTUNE_OK);
    compile_result_free(&result);
    make_wrapper("finite", clang, "", "-ffinite-math-only -U__FINITE_MATH_ONLY__", path);
    assert_int_equal(setenv("ATTUNE_CLANG", path, 1), 0);
    attune_status status = build("gfx906", COMPILER_CLANG, &result, &finite, &error);
    assert_int_equal(unsetenv("ATTUNE_CLANG"), 0);
    compile_result_free(&result);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    if (build("gfx906", COMPILER_HIPRTC, &result, &hiprtc, &error) != ATTUNE_OK) {
        print_message("no hiprtc for gfx906 here: %s\n", error.message);
    }
    compile_result_free(&result);
    int guarded = count_of(&listing, "v_cmp"), bare = count_of(&finite, "v_cmp"), other = count_of(&hiprtc, "v_cmp");
    bool listed = listing.length > 0 && finite.length > 0;
    print_message("v_cmp in gfx906's default: %s %d, with -ffinite-math-only %d, hiprtc %d\n", clang, guarded, bare,
                  other);
    buffer_free(&listing);
    buffer_free(&finite);
    buffer_free(&hiprtc);
    if (!listed) {
        print_message("skipped: no disassembler for gfx906 here\n");
        skip();
    }
    assert_true(guarded >= bare + 8); /* tile_q=4 rows, twice */
    assert_true(other == 0 || other >= bare + 8);
}

#define ON(test, target)                                                                                               \
    {                                                                                                                  \
#test " on " target, test, NULL, NULL, (void *)target                                                          \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_option_of_ours_assumes_finite_numbers),
        ON(no_variable_brings_an_option_in, "host"),
        ON(no_variable_brings_an_option_in, "gfx906"),
        ON(no_variable_brings_an_option_in, "gfx942"),
        ON(no_variable_brings_an_option_in, "sm_90a"),
        cmocka_unit_test(a_host_compiler_that_assumes_finite_numbers_is_refused),
        cmocka_unit_test(a_clang_that_assumes_finite_numbers_is_refused),
        cmocka_unit_test(guards_against_infinity_are_compiled),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
