/* test_target_compiler.c - what the table of facts calls "compiled here", and the granules from LLVM, asked of clang
 * again: for every AMD target there are facts for. A row that is wrong about its processor fails here before anything
 * is generated for it. Skipped where no clang that knows the newest targets is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/generator/support.h"

#include <stdlib.h>

/* Each is compiled alone: clang stops at the first builtin that a target lacks. */
#define PRELUDE                                                                                                        \
    "#define K extern \"C\" __attribute__((global)) void\n"                                                            \
    "typedef _Float16 h2 __attribute__((ext_vector_type(2)));\n"                                                       \
    "typedef __bf16 b2 __attribute__((ext_vector_type(2)));\n"                                                         \
    "typedef _Float16 h4 __attribute__((ext_vector_type(4)));\n"                                                       \
    "typedef _Float16 h8 __attribute__((ext_vector_type(8)));\n"                                                       \
    "typedef _Float16 h16 __attribute__((ext_vector_type(16)));\n"                                                     \
    "typedef float f4 __attribute__((ext_vector_type(4)));\n"                                                          \
    "typedef float f8 __attribute__((ext_vector_type(8)));\n"                                                          \
    "typedef __attribute__((address_space(1))) void gp;\n"                                                             \
    "typedef __attribute__((address_space(3))) void lp;\n"
#define DIRECT_LOAD(bytes)                                                                                             \
    PRELUDE "K k(int *a, int *b) { __attribute__((shared)) static int s[512]; __builtin_amdgcn_global_load_lds("       \
            "(gp *)a, (lp *)s, " bytes ", 0, 0); b[0] = s[1]; }\n"

enum probe { DOT2, DOT2_BF16, MIX, DIRECT_4, DIRECT_16, MFMA, MFMA_950, WMMA_11, WMMA_12, PROBE_COUNT };
static const char *const probes[PROBE_COUNT] = {
    [DOT2] = PRELUDE "K k(h2 *a, float *c) { c[0] = __builtin_amdgcn_fdot2(a[0], a[1], c[1], false); }\n",
    [DOT2_BF16] = PRELUDE "K k(b2 *a, float *c) { c[0] = __builtin_amdgcn_fdot2_f32_bf16(a[0], a[1], c[1], false); }\n",
    [MIX] = PRELUDE "K k(_Float16 *a, float *c) { c[0] = __builtin_fmaf((float)a[0], (float)a[1], c[1]); }\n",
    [DIRECT_4] = DIRECT_LOAD("4"),
    [DIRECT_16] = DIRECT_LOAD("16"),
    [MFMA] = PRELUDE "K k(h4 *a, f4 *c) { c[0] = __builtin_amdgcn_mfma_f32_16x16x16f16(a[0], a[1], c[1], 0, 0, 0); }\n",
    [MFMA_950] =
        PRELUDE "K k(h8 *a, f4 *c) { c[0] = __builtin_amdgcn_mfma_f32_16x16x32_f16(a[0], a[1], c[1], 0, 0, 0); }\n",
    [WMMA_11] = PRELUDE "K k(h16 *a, f8 *c) { c[0] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a[0], a[1], c[1]); }\n",
    [WMMA_12] =
        PRELUDE "K k(h8 *a, f8 *c) { c[0] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a[0], a[1], c[1]); }\n",
};

static char folder[4096];
static const char *clang;

/* what clang says to that text for that target: assembly and messages */
static void compile(const char *target, const char *text, struct buffer *said)
{
    char command[8192], chunk[4096];
    size_t length;
    put_file(folder, "probe.hip", text);
    snprintf(command, sizeof command,
             "cd '%s' && %s -x hip --cuda-device-only --no-gpu-bundle-output --offload-arch=%s -nogpulib -nogpuinc "
             "-nostdinc "
             "-std=c++17 -O2 -fno-crash-diagnostics -S -o - probe.hip 2>&1",
             folder, clang, target);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    buffer_clear(said);
    while ((length = fread(chunk, 1, sizeof chunk, pipe)) > 0) {
        buffer_append(said, chunk, length);
    }
    pclose(pipe);
}

static void compare(const char *target, const char *what, int fact, int compiler)
{
    if (fact != compiler) {
        fail_msg("%s: %s is %d in the table, %d by the compiler", target, what, fact, compiler);
    }
}

static void check_instructions(const char *target, const json_t *facts)
{
    struct buffer said = BUFFER_INIT;
    bool has[PROBE_COUNT];
    const char *matrix = json_string_value(json_object_get(facts, "matrix"));
    int level = (int)json_integer_value(json_object_get(facts, "matrix_level"));
    for (int i = 0; i < PROBE_COUNT; i++) {
        compile(target, probes[i], &said);
        const char *text = buffer_string(&said);
        has[i] = strstr(text, i == MIX ? "v_fma_mix_f32" : "s_endpgm") != NULL;
        if (!has[i] && i != MIX && strstr(text, "needs target feature") == NULL &&
            strstr(text, "invalid size value") == NULL && strstr(text, "Cannot select") == NULL) {
            fail_msg("%s, probe %d is refused for another reason: %s", target, i, text);
        }
    }
    const int direct = has[DIRECT_16] ? 16 : has[DIRECT_4] ? 4 : 0;
    compare(target, "dot2", json_is_true(json_object_get(facts, "dot2")), has[DOT2]);
    compare(target, "dot2_bf16", json_is_true(json_object_get(facts, "dot2_bf16")), has[DOT2_BF16]);
    compare(target, "matrix mfma", strcmp(matrix, "mfma") == 0, has[MFMA]);
    compare(target, "matrix_level 4", strcmp(matrix, "mfma") == 0 && level == 4, has[MFMA_950]);
    compare(target, "matrix wmma_gfx11", strcmp(matrix, "wmma_gfx11") == 0, has[WMMA_11]);
    compare(target, "matrix wmma_gfx12", strcmp(matrix, "wmma_gfx12") == 0, has[WMMA_12]);
    compare(target, "mix_fma", json_is_true(json_object_get(facts, "mix_fma")), has[MIX]);
    compare(target, "direct_lds", (int)json_integer_value(json_object_get(facts, "direct_lds")), direct);
    buffer_free(&said);
}

/* kernels that use so many registers, and LLVM's word for the waves a SIMD holds of each */
static void check_waves(const char *target, const json_t *facts)
{
    struct buffer text = BUFFER_INIT, said = BUFFER_INIT;
    size_t index;
    json_t *row;
    const char *at;
    json_array_foreach(json_object_get(facts, "waves"), index, row)
    {
        int registers = (int)json_integer_value(json_object_get(row, "registers"));
        if (registers <= 256) { /* beyond are accumulators */
            buffer_format(
                &text,
                "extern \"C\" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(64, 64))) void "
                "k%d(int *a) { asm volatile(\"\" ::: \"v%d\"); a[0] = 1; }\n",
                registers, registers - 1);
        }
    }
    compile(target, buffer_string(&text), &said);
    at = buffer_string(&said);
    json_array_foreach(json_object_get(facts, "waves"), index, row)
    {
        int registers = (int)json_integer_value(json_object_get(row, "registers"));
        int waves = (int)json_integer_value(json_object_get(row, "per_simd"));
        if (registers > 256) {
            continue;
        }
        at = strstr(at, "; Occupancy: ");
        if (at == NULL) {
            fail_msg("%s: no occupancy of %d registers: %s", target, registers, buffer_string(&said));
        }
        at += strlen("; Occupancy: ");
        if (waves > 16) { /* RDNA: LLVM's number is for blocks of two waves, 16 of them at most */
            waves = 16;
        }
        compare(target, "waves a SIMD", waves, atoi(at));
    }
    buffer_free(&text);
    buffer_free(&said);
}

static void the_table_says_what_the_compiler_says(void **state)
{
    (void)state;
    struct generator *generator = open_generator("");
    int checked = 0;
    for (int i = 0; i < generator_target_count(generator); i++) {
        const char *name = generator_target_name(generator, i);
        struct target target;
        struct error error = {.message = ""};
        json_t *facts = NULL;
        assert_int_equal(target_parse(name, &target, &error), ATTUNE_OK);
        if (target.vendor != TARGET_AMD) {
            continue;
        }
        assert_int_equal(generator_target_facts(generator, &target, &facts, &error), ATTUNE_OK);
        check_instructions(name, facts);
        check_waves(name, facts);
        json_decref(facts);
        checked++;
    }
    assert_true(checked > 20);
    generator_destroy(generator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_says_what_the_compiler_says),
    };
    struct error error = {.message = ""};
    clang = getenv("ATTUNE_CLANG") != NULL ? getenv("ATTUNE_CLANG") : "clang-22";
    char command[4200];
    snprintf(command, sizeof command, "%s --version >/dev/null 2>&1", clang);
    if (system(command) != 0) {
        fprintf(stderr, "skipped: %s is not here\n", clang);
        return 77;
    }
    if (folder_temporary(folder, sizeof folder, &error) != ATTUNE_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(folder);
    return failed;
}
