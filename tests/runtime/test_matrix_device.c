/* test_matrix_device.c - the vocabulary's matrix instructions, exchanges and copies: the text compiles for every target
 * that has them, and on the GPUs of this machine the results are those of the host's emulation: integers exactly,
 * others to rounding.
 */
#include "base/files.h"
#include "generator/compiler.h"
#include "runtime/driver.h"
#include "runtime/host_matrix.h"
#include "tests/matrix_layouts.h"
#include "tests/size.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TARGET_NAMES = 24 };

/* what a target has: from the vendors' instruction manuals */
static const struct known {
    const char *target;
    int wave;
    bool async, direct;
    const char *products[9]; /* NULL at the end */
} known[TARGET_NAMES] = {
    {"gfx900", 64, false, true, {NULL}},
    {"gfx906", 64, false, true, {NULL}},
    {"gfx908",
     64,
     false,
     true,
     {"mfma_f32_16x16x16_f16", "mfma_f32_32x32x8_f16", "mfma_f32_16x16x8_bf16", "mfma_f32_32x32x4_bf16", NULL}},
    {"gfx90a",
     64,
     false,
     true,
     {"mfma_f32_16x16x16_f16", "mfma_f32_32x32x8_f16", "mfma_f32_16x16x16_bf16", "mfma_f32_32x32x8_bf16", NULL}},
    {"gfx942",
     64,
     false,
     true,
     {"mfma_f32_16x16x16_f16", "mfma_f32_32x32x8_f16", "mfma_f32_16x16x16_bf16", "mfma_f32_32x32x8_bf16", NULL}},
    {"gfx950",
     64,
     false,
     true,
     {"mfma_f32_16x16x16_f16", "mfma_f32_32x32x8_f16", "mfma_f32_16x16x16_bf16", "mfma_f32_32x32x8_bf16",
      "mfma_f32_16x16x32_f16", "mfma_f32_16x16x32_bf16", "mfma_f32_32x32x16_f16", "mfma_f32_32x32x16_bf16", NULL}},
    {"gfx1010", 32, false, true, {NULL}},
    {"gfx1030", 32, false, true, {NULL}},
    {"gfx1100", 32, false, false, {"wmma_gfx11_f32_16x16x16_f16", "wmma_gfx11_f32_16x16x16_bf16", NULL}},
    {"gfx1103", 32, false, false, {"wmma_gfx11_f32_16x16x16_f16", "wmma_gfx11_f32_16x16x16_bf16", NULL}},
    {"gfx1151", 32, false, false, {"wmma_gfx11_f32_16x16x16_f16", "wmma_gfx11_f32_16x16x16_bf16", NULL}},
    {"gfx1200", 32, false, false, {"wmma_gfx12_f32_16x16x16_f16", "wmma_gfx12_f32_16x16x16_bf16", NULL}},
    {"gfx1201", 32, false, false, {"wmma_gfx12_f32_16x16x16_f16", "wmma_gfx12_f32_16x16x16_bf16", NULL}},
    {"sm_75", 32, false, false, {"mma_f32_16x8x8_f16", NULL}},
    {"sm_80", 32, true, false, {"mma_f32_16x8x8_f16", "mma_f32_16x8x16_f16", "mma_f32_16x8x16_bf16", NULL}},
    {"sm_86", 32, true, false, {"mma_f32_16x8x8_f16", "mma_f32_16x8x16_f16", "mma_f32_16x8x16_bf16", NULL}},
    {"sm_89", 32, true, false, {"mma_f32_16x8x8_f16", "mma_f32_16x8x16_f16", "mma_f32_16x8x16_bf16", NULL}},
    {"sm_90a", 32, true, false, {"mma_f32_16x8x8_f16", "mma_f32_16x8x16_f16", "mma_f32_16x8x16_bf16", NULL}},
    {"sm_100a", 32, true, false, {"mma_f32_16x8x8_f16", "mma_f32_16x8x16_f16", "mma_f32_16x8x16_bf16", NULL}},
    {"sm_120a", 32, true, false, {"mma_f32_16x8x8_f16", "mma_f32_16x8x16_f16", "mma_f32_16x8x16_bf16", NULL}},
};

static struct compiler_pool *pool;

static const struct matrix_layout *layout_of(const char *name)
{
    for (int x = 0; x < MATRIX_LAYOUTS; x++) {
        if (strcmp(matrix_layouts[x].name, name) == 0) {
            return &matrix_layouts[x];
        }
    }
    fail_msg("no table for %s", name);
    return NULL;
}

static void add_file(struct buffer *source, const char *path)
{
    char whole[512];
    struct error error;
    snprintf(whole, sizeof whole, "%s/%s", TEST_SOURCE_DIR, path);
    /* on another machine: from the tree's root */
    const char *place = file_read(path, 1 << 20, source, &error) == ATTUNE_OK ? path : NULL;
    if (place == NULL && file_read(whole, 1 << 20, source, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

static void make_source(const struct known *of, struct buffer *source)
{
    bool amd = of->target[0] == 'g';
    struct buffer text = BUFFER_INIT;
    add_file(&text, amd ? "templates/vocabulary/amd.h" : "templates/vocabulary/nvidia.h");
    buffer_text(source, buffer_string(&text));
    buffer_format(
        source, "#define WAVE_LANES %d\n#define MASKS EXCHANGE(1) EXCHANGE(2) EXCHANGE(4) EXCHANGE(8) EXCHANGE(16)%s\n",
        of->wave, of->wave == 64 ? " EXCHANGE(32)" : "");
    buffer_text(source, "#define PRODUCTS");
    for (int i = 0; of->products[i] != NULL; i++) {
        const struct matrix_layout *layout = layout_of(of->products[i]);
        buffer_format(source, " PRODUCT(%d, %s, %d, %d, %d)", i, layout->name, layout->c_words, layout->a_words,
                      layout->b_words);
    }
    buffer_format(source, "\n%s%s#define SHARED_TILE %s\n", of->async ? "#define ASYNC_COPIES\n" : "",
                  of->direct ? "#define DIRECT_COPIES\n" : "",
                  amd ? "shared_array u32 tile[128];" : "__shared__ __align__(16) u32 tile[128];");
    buffer_free(&text);
    add_file(&text, "tests/runtime/device_products.txt");
    buffer_text(source, buffer_string(&text));
    buffer_free(&text);
}

static attune_status compile(const struct known *of, const struct target *target, struct compile_result *result,
                             struct error *error)
{
    struct buffer source = BUFFER_INIT;
    make_source(of, &source);
    struct compile_request request = {
        .target = *target, .source = buffer_string(&source), .source_bytes = source.length};
    attune_status status = compiler_compile(pool, &request, result, error);
    buffer_free(&source);
    return status;
}

static void the_text_compiles_for_every_target_that_has_it(void **state)
{
    (void)state;
    int compiled = 0;
    for (int i = 0; i < TARGET_NAMES && known[i].target != NULL; i++) {
        struct target target;
        struct error error = {0};
        struct compile_result result = {0};
        assert_int_equal(target_parse(known[i].target, &target, &error), ATTUNE_OK);
        attune_status status = compile(&known[i], &target, &result, &error);
        if (status == ATTUNE_NO_TOOLCHAIN) {
            fprintf(stderr, "skipped %s: %s\n", known[i].target, error.message);
        } else if (status != ATTUNE_OK) {
            fail_msg("%s: %s", known[i].target, error.message);
        }
        compiled += status == ATTUNE_OK;
        compile_result_free(&result);
    }
    if (compiled == 0) {
        skip();
    }
}

/* ------------------------------------------------------------------------------------------------ on the GPU */

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != ATTUNE_OK) {                                                                                     \
            fail_msg("%s", error.message);                                                                             \
        }                                                                                                              \
    } while (0)

struct gpu {
    const struct driver *driver;
    struct driver_device device;
    const struct known *known;
    struct compile_result object;
    void *memory[3];
};
enum { MEMORY_BYTES = 64 * 1024 };

/* the row of the device's processor; of another one of its generation where it has none: NULL is an unknown GPU */
static const struct known *known_of(const struct target *target)
{
    for (int i = 0; i < TARGET_NAMES && known[i].target != NULL; i++) {
        if (strcmp(known[i].target, target->processor) == 0) {
            return &known[i];
        }
    }
    return NULL;
}

static bool gpu_open(const char *name, struct gpu *gpu)
{
    struct error error = {0};
    *gpu = (struct gpu){0};
    if (driver_get(name, &gpu->driver, &error) != ATTUNE_OK) {
        fprintf(stderr, "skipped: %s\n", error.message);
        return false;
    }
    CHECK(gpu->driver->describe(gpu->driver, 0, &gpu->device, &error));
    gpu->known = known_of(&gpu->device.target);
    if (gpu->known == NULL) {
        fprintf(stderr, "skipped: this test does not know %s\n", gpu->device.target.processor);
        return false;
    }
    CHECK(compile(gpu->known, &gpu->device.target, &gpu->object, &error));
    for (int i = 0; i < 3; i++) {
        CHECK(gpu->driver->allocate(gpu->driver, 0, MEMORY_BYTES, &gpu->memory[i], &error));
    }
    return true;
}

static void gpu_close(struct gpu *gpu)
{
    for (int i = 0; i < 3; i++) {
        gpu->driver->release(gpu->driver, 0, gpu->memory[i], NULL);
    }
    compile_result_free(&gpu->object);
}

static void gpu_launch(struct gpu *gpu, const char *kernel, const void *arguments)
{
    struct error error = {0};
    const struct driver *driver = gpu->driver;
    driver_module module;
    driver_function function;
    CHECK(driver->load(driver, 0, gpu->object.object.data, gpu->object.object.length, kernel, 0, &module, &function,
                       &error));
    struct driver_launch launch = {.function = function,
                                   .grid = {1, 1, 1},
                                   .threads = (uint32_t)gpu->known->wave,
                                   .arguments = arguments,
                                   .argument_bytes = kernel[0] == 'p' ? 28 : 24};
    CHECK(driver->launch(driver, 0, &launch, NULL, &error));
    CHECK(driver->synchronize(driver, 0, NULL, &error));
    CHECK(driver->unload(driver, 0, module, &error));
}

struct registers {
    uint32_t a[64 * 8], b[64 * 8];
    float c[64 * 16];
};

static void run_product(struct gpu *gpu, int operation, struct registers *registers)
{
    struct error error = {0};
    const struct driver *driver = gpu->driver;
    const struct {
        void *left, *right, *sums;
        uint32_t operation;
    } arguments = {gpu->memory[0], gpu->memory[1], gpu->memory[2], (uint32_t)operation};
    CHECK(driver->copy_in(driver, 0, gpu->memory[0], registers->a, sizeof registers->a, &error));
    CHECK(driver->copy_in(driver, 0, gpu->memory[1], registers->b, sizeof registers->b, &error));
    CHECK(driver->copy_in(driver, 0, gpu->memory[2], registers->c, sizeof registers->c, &error));
    gpu_launch(gpu, "products", &arguments);
    CHECK(driver->copy_out(driver, 0, registers->c, gpu->memory[2], sizeof registers->c, &error));
}

static void emulate(const struct gpu *gpu, const struct matrix_layout *layout, struct registers *registers)
{
    float *c[64];
    const uint32_t *a[64], *b[64];
    char failure[HOST_MATRIX_FAILURE_BYTES];
    uint32_t operation = 0;
    while (strcmp(host_matrix_shape(operation)->name, layout->name) != 0) {
        operation++;
    }
    for (int l = 0; l < layout->wave; l++) {
        c[l] = registers->c + l * layout->c_words;
        a[l] = registers->a + l * layout->a_words;
        b[l] = registers->b + l * layout->b_words;
    }
    assert_true(
        host_matrix_multiply((enum host_matrix)operation, target_flushes(&gpu->device.target), c, a, b, failure));
}

enum inputs { INTEGERS, FRACTIONS, SUBNORMALS, INPUTS };

/* Elements of A and B, from a hash of row and column so that lanes that hold copies agree: integers of magnitude 4 to
 * 7, fractions of 1 to 2, any subnormals of the type. */
static uint32_t element(enum inputs kind, int bf16, int row, int column, uint32_t seed)
{
    uint32_t hash = (uint32_t)row * 0x9e3779b1u ^ (uint32_t)column * 0x85ebca77u ^ seed * 0xc2b2ae3du;
    hash ^= hash >> 15;
    hash *= 0x2c1b3c6du;
    hash ^= hash >> 13;
    uint32_t sign = hash & 0x8000u;
    if (kind == SUBNORMALS) {
        return sign | (hash >> 16 & (bf16 ? 0x7fu : 0x3ffu));
    }
    uint32_t fraction = kind == INTEGERS ? (hash >> 16 & 3) << (bf16 ? 5 : 8) : hash >> 16 & (bf16 ? 0x7fu : 0x3ffu);
    uint32_t one = bf16 ? 0x3f80u : 0x3c00u, four = bf16 ? 0x4080u : 0x4400u;
    return sign | ((kind == INTEGERS ? four : one) + fraction);
}

static void fill(const struct matrix_layout *layout, enum inputs kind, uint32_t seed, struct registers *registers)
{
    memset(registers, 0, sizeof *registers);
    for (int l = 0; l < layout->wave; l++) {
        for (int e = 0; e < 2 * layout->a_words; e++) {
            int row = matrix_coordinate(layout->a_row, l, e), k = matrix_coordinate(layout->a_k, l, e);
            registers->a[l * layout->a_words + e / 2] |= element(kind, layout->bf16, row, k, seed) << 16 * (e % 2);
        }
        for (int e = 0; e < 2 * layout->b_words; e++) {
            int k = matrix_coordinate(layout->b_k, l, e), column = matrix_coordinate(layout->b_column, l, e);
            /* subnormals are multiplied by integers, so that the products are exact in fp32 */
            registers->b[l * layout->b_words + e / 2] |=
                element(kind == SUBNORMALS ? INTEGERS : kind, layout->bf16, k, column, seed + 1) << 16 * (e % 2);
        }
        for (int r = 0; r < layout->c_words; r++) {
            registers->c[l * layout->c_words + r] =
                kind == SUBNORMALS
                    ? 0.0f
                    : (float)((l * 7 + r * 31 + (int)seed) % 41 - 20) * (kind == FRACTIONS ? 0.37f : 1.0f);
        }
    }
}

/* sums of up to 32 products below 4 and a C below 20: hardware may keep two bits fewer than fp32 has while it adds */
static void products_are_the_emulations(struct gpu *gpu)
{
    int rounds = test_size(8, 400);
    for (int i = 0; gpu->known->products[i] != NULL; i++) {
        const struct matrix_layout *layout = layout_of(gpu->known->products[i]);
        double worst = 0.0;
        for (int kind = 0; kind < INPUTS; kind++) {
            for (int round = 0; round < rounds; round++) {
                static struct registers device, host;
                fill(layout, (enum inputs)kind, (uint32_t)round, &device);
                host = device;
                run_product(gpu, i, &device);
                emulate(gpu, layout, &host);
                for (int x = 0; x < layout->wave * layout->c_words; x++) {
                    double off = fabs((double)device.c[x] - (double)host.c[x]);
                    worst = fmax(worst, off);
                    bool right = kind == FRACTIONS ? off <= 128 * 0x1p-22 : off == 0;
                    if (!right) {
                        fail_msg("%s on %s, inputs %d, lane %d register %d: %.9g, the emulation has %.9g", layout->name,
                                 gpu->device.name, kind, x / layout->c_words, x % layout->c_words, (double)device.c[x],
                                 (double)host.c[x]);
                    }
                }
            }
        }
        printf("%s on %s: %d rounds, largest difference %.3g\n", layout->name, gpu->device.name, rounds, worst);
    }
}

static void lanes_are_the_emulations(struct gpu *gpu)
{
    struct error error = {0};
    const struct driver *driver = gpu->driver;
    int wave = gpu->known->wave, slot = 0;
    static uint32_t in[256], out[64 * 32];
    const struct {
        void *in, *out;
        uint32_t unused[2];
    } arguments = {gpu->memory[0], gpu->memory[1], {0, 0}};
    for (uint32_t i = 0; i < 256; i++) {
        in[i] = i * 0x00030001u + 5;
    }
    CHECK(driver->copy_in(driver, 0, gpu->memory[0], in, sizeof in, &error));
    gpu_launch(gpu, "lanes", &arguments);
    CHECK(driver->copy_out(driver, 0, out, gpu->memory[1], sizeof out, &error));
    for (int mask = 1; mask < wave; mask *= 2, slot += 2) {
        for (int t = 0; t < wave; t++) {
            float value;
            memcpy(&value, &out[wave * (slot + 1) + t], 4);
            assert_int_equal(out[wave * slot + t], in[t ^ mask]);
            assert_true(value == (float)(int32_t)in[t ^ mask]);
        }
    }
    for (int t = 0; t < wave; t++) {
        assert_int_equal(out[wave * slot + t], in[0]);
    }
    slot++;
    if (gpu->known->async) {
        uint16_t tile[32][8]; /* row r of the tile is what lane r copied; lane x named row 5 x mod 32 */
        memcpy(tile, in, sizeof tile);
        memset(tile[3], 0, sizeof tile[3]);
        for (int t = 0; t < 32; t++) {
            for (int i = 0; i < 4; i++) {
                const uint16_t *row = tile[(8 * i + t / 4) * 5 % 32];
                int pair = 2 * (t % 4);
                assert_int_equal(out[wave * (slot + i) + t], row[pair] | (uint32_t)row[pair + 1] << 16);
                assert_int_equal(out[wave * (slot + 4 + i) + t],
                                 tile[(8 * i + pair) * 5 % 32][t / 4] |
                                     (uint32_t)tile[(8 * i + pair + 1) * 5 % 32][t / 4] << 16);
            }
        }
    }
    for (int t = 0; t < wave && gpu->known->direct; t++) {
        assert_int_equal(out[wave * slot + t], in[t ^ 1]);
    }
}

static void on_every_gpu(void (*check)(struct gpu *))
{
    static const char *const drivers[] = {"cuda", "hip"};
    int tested = 0;
    for (int i = 0; i < 2; i++) {
        struct gpu gpu;
        if (gpu_open(drivers[i], &gpu)) {
            check(&gpu);
            gpu_close(&gpu);
            tested++;
        }
    }
    if (tested == 0) {
        skip();
    }
}

static void products_on_a_gpu_are_the_emulations(void **state)
{
    (void)state;
    on_every_gpu(products_are_the_emulations);
}

static void lanes_on_a_gpu_are_the_emulations(void **state)
{
    (void)state;
    on_every_gpu(lanes_are_the_emulations);
}

int main(void)
{
    struct error error = {0};
    if (compiler_pool_create(NULL, &pool, &error) != ATTUNE_OK) {
        fprintf(stderr, "skipped: %s\n", error.message);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_compiles_for_every_target_that_has_it),
        cmocka_unit_test(products_on_a_gpu_are_the_emulations),
        cmocka_unit_test(lanes_on_a_gpu_are_the_emulations),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    compiler_pool_destroy(pool);
    return failed;
}
