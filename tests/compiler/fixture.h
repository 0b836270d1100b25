/* fixture.h - what the compiler tests share: a pool, small kernels, compiling with a reason to skip. */
#ifndef TESTS_COMPILER_FIXTURE_H
#define TESTS_COMPILER_FIXTURE_H

#include "generator/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#define AMD_KERNEL                                                                                                     \
    "#line 1 \"templates/test.hip\"\n"                                                                                 \
    "extern \"C\" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(1, 64)))\n"                       \
    "void test_kernel(float *x, int n)\n"                                                                              \
    "{\n"                                                                                                              \
    "    int lane = __builtin_amdgcn_workitem_id_x();\n"                                                               \
    "    for (int i = 0; i < n; i++) { x[lane] = x[lane] * 2.0f + x[i]; }\n"                                           \
    "}\n"
#define NVIDIA_KERNEL                                                                                                  \
    "#line 1 \"templates/test.hip\"\n"                                                                                 \
    "extern \"C\" __global__ void test_kernel(float *x, int n)\n"                                                      \
    "{\n"                                                                                                              \
    "    for (int i = 0; i < n; i++) { x[threadIdx.x] = x[threadIdx.x] * 2.0f + x[i]; }\n"                             \
    "}\n"
#define HOST_KERNEL                                                                                                    \
    "#line 1 \"templates/test.hip\"\n"                                                                                 \
    "extern \"C\" void attune_host_entry(const void *api, const void *arguments)\n"                                    \
    "{\n"                                                                                                              \
    "    float *x = *(float *const *)arguments;\n"                                                                     \
    "    float table[256] = {0};\n"                                                                                    \
    "    for (int i = 0; i < 256; i++) { table[i] = x[i] * 2.0f; }\n"                                                  \
    "    for (int i = 0; i < 256; i++) { x[i] = table[255 - i]; }\n"                                                   \
    "}\n"

static inline struct compile_request request_for(const char *target, const char *source)
{
    struct compile_request request = {.source = source, .source_bytes = strlen(source)};
    assert_int_equal(target_parse(target, &request.target, NULL), ATTUNE_OK);
    return request;
}

static inline const char *kernel_for(const struct target *target)
{
    return target->vendor == TARGET_AMD ? AMD_KERNEL : target->vendor == TARGET_NVIDIA ? NVIDIA_KERNEL : HOST_KERNEL;
}

static inline struct compiler_pool *pool_with(int workers, double seconds, uint64_t rss_bytes)
{
    struct compiler_pool *pool = NULL;
    struct error error = {.message = ""};
    const struct compiler_options options = {.workers = workers, .seconds = seconds, .rss_bytes = rss_bytes};
    if (compiler_pool_create(&options, &pool, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return pool;
}

/* the result is the caller's to free only on success: a test that skips or fails leaves nothing behind */
static inline attune_status compile_request_once(struct compiler_pool *pool, const struct compile_request *request,
                                                 struct compile_result *result, struct error *error)
{
    attune_status status = compiler_compile(pool, request, result, error);
    if (status != ATTUNE_OK) {
        compile_result_free(result);
    }
    return status;
}

/* a test whose compiler is not here says so and skips */
#define SKIP_IF_MISSING(status, error)                                                                                 \
    do {                                                                                                               \
        if ((status) == ATTUNE_NO_TOOLCHAIN) {                                                                         \
            print_message("skipped: %s\n", (error).message);                                                           \
            skip();                                                                                                    \
        }                                                                                                              \
        if ((status) != ATTUNE_OK) {                                                                                   \
            fail_msg("%s", (error).message);                                                                           \
        }                                                                                                              \
    } while (0)

#endif
