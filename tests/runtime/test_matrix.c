/* test_matrix.c - the host device's matrix instructions against tables of the hardware's register layouts, and what the
 * vocabulary promises of exchanges and asynchronous copies on the host.
 */
#include "host_kernels.h"
#include "runtime/host_device.h"
#include "runtime/host_matrix.h"
#include "tests/matrix_layouts.h"
#include "tests/size.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void *wave32, *wave64;
static const enum host_schedule schedules[] = {HOST_ROUND_ROBIN, HOST_GREEDY, HOST_REVERSE};

/* ------------------------------------------------------------------------------------------------ running */

struct packed {
    const uint32_t *a, *b;
    float *c;
    uint32_t option;
};

static host_entry entry(uint32_t wave, const char *kernel)
{
    char symbol[64];
    snprintf(symbol, sizeof symbol, "entry_%s", kernel);
    void *found = dlsym(wave == 64 ? wave64 : wave32, symbol);
    assert_non_null(found);
    host_entry function;
    memcpy(&function, &found, sizeof function);
    return function;
}

static attune_status run(const char *kernel, uint32_t wave, uint32_t threads, const struct packed *packed,
                         enum host_schedule schedule, const char *target, struct error *error)
{
    struct host_launch launch = {
        .entry = entry(wave, kernel),
        .grid = {1, 1, 1},
        .threads = threads,
        .wave = wave,
        .arguments = packed,
        .schedule = schedule,
        .target = target,
    };
    return host_device_run(&launch, error);
}

static void must_run(const char *kernel, uint32_t wave, uint32_t threads, const struct packed *packed,
                     enum host_schedule schedule)
{
    struct error error = {0};
    if (run(kernel, wave, threads, packed, schedule, NULL, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", kernel, error.message);
    }
}

/* fails under every schedule, with a message that holds all the parts (NULL at the end) */
static void must_fail(const char *kernel, uint32_t wave, uint32_t threads, const struct packed *packed,
                      const char *const *parts)
{
    for (int s = 0; s < 3; s++) {
        struct error error = {0};
        assert_int_equal(run(kernel, wave, threads, packed, schedules[s], NULL, &error), ATTUNE_DEVICE_FAILED);
        for (int i = 0; parts[i] != NULL; i++) {
            if (strstr(error.message, parts[i]) == NULL) {
                fail_msg("\"%s\" lacks \"%s\"", error.message, parts[i]);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------ dense and packed */

enum { SIDE = 32 };
struct dense {
    uint16_t a[SIDE][SIDE], b[SIDE][SIDE]; /* elements' bits: a[i][k], b[k][j] */
    float c[SIDE][SIDE];
};
struct registers {
    uint32_t a[64 * 8], b[64 * 8];
    float c[64 * 16];
};

static void set_element(uint32_t *words, int element, uint16_t bits)
{
    uint32_t shift = 16 * (element % 2);
    words[element / 2] = (words[element / 2] & ~(0xffffu << shift)) | (uint32_t)bits << shift;
}

/* As the hardware would hold them, by the tables (a permutation of k common to A and B shows in no product); copies
 * where bits of a lane count for nothing */
static void pack(const struct matrix_layout *layout, const struct dense *dense, struct registers *registers)
{
    for (int l = 0; l < layout->wave; l++) {
        for (int e = 0; e < 2 * layout->a_words; e++) {
            int i = matrix_coordinate(layout->a_row, l, e), k = matrix_coordinate(layout->a_k, l, e);
            set_element(registers->a + l * layout->a_words, e, dense->a[i][k]);
        }
        for (int e = 0; e < 2 * layout->b_words; e++) {
            int k = matrix_coordinate(layout->b_k, l, e), j = matrix_coordinate(layout->b_column, l, e);
            set_element(registers->b + l * layout->b_words, e, dense->b[k][j]);
        }
        for (int r = 0; r < layout->c_words; r++) {
            registers->c[l * layout->c_words + r] =
                dense->c[matrix_coordinate(layout->c_row, l, r)][matrix_coordinate(layout->c_column, l, r)];
        }
    }
}

/* runs one instruction on the dense matrices; c becomes the result */
static void multiply(const struct matrix_layout *layout, struct dense *dense, enum host_schedule schedule,
                     const char *target)
{
    static struct registers registers;
    pack(layout, dense, &registers);
    struct packed packed = {registers.a, registers.b, registers.c, 0};
    struct error error = {0};
    if (run(layout->name, (uint32_t)layout->wave, (uint32_t)layout->wave, &packed, schedule, target, &error) !=
        ATTUNE_OK) {
        fail_msg("%s: %s", layout->name, error.message);
    }
    for (int l = 0; l < layout->wave; l++) {
        for (int r = 0; r < layout->c_words; r++) {
            dense->c[matrix_coordinate(layout->c_row, l, r)][matrix_coordinate(layout->c_column, l, r)] =
                registers.c[l * layout->c_words + r];
        }
    }
}

/* small integers as 16-bit elements, exact in both types */
static uint16_t bits_of(int value, int bf16)
{
    if (value == 0) {
        return 0;
    }
    int exponent;
    double fraction = frexp(abs(value), &exponent) * 2 - 1; /* 1.fraction * 2^(exponent - 1) */
    int mantissa = bf16 ? 7 : 10, bias = bf16 ? 127 : 15;
    return (uint16_t)((value < 0 ? 0x8000 : 0) | (exponent - 1 + bias) << mantissa | (int)ldexp(fraction, mantissa));
}

/* any finite or infinite element, from its definition */
static double value_of(uint16_t bits, int bf16)
{
    int mantissa = bf16 ? 7 : 10, bias = bf16 ? 127 : 15, top = bf16 ? 255 : 31;
    int exponent = (bits & 0x7fff) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
    double value = exponent == top ? INFINITY
                   : exponent == 0 ? ldexp(fraction, 1 - bias - mantissa)
                                   : ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
    return bits & 0x8000 ? -value : value;
}

/* ------------------------------------------------------------------------------------------------ products */

static void the_tables_name_every_element_once(void **state)
{
    (void)state;
    for (int x = 0; x < MATRIX_LAYOUTS; x++) {
        const struct matrix_layout *layout = &matrix_layouts[x];
        static int a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
        memset(a, 0, sizeof a), memset(b, 0, sizeof b), memset(c, 0, sizeof c);
        for (int l = 0; l < layout->wave; l++) {
            for (int e = 0; e < 2 * layout->a_words; e++) {
                a[matrix_coordinate(layout->a_row, l, e)][matrix_coordinate(layout->a_k, l, e)]++;
            }
            for (int e = 0; e < 2 * layout->b_words; e++) {
                b[matrix_coordinate(layout->b_k, l, e)][matrix_coordinate(layout->b_column, l, e)]++;
            }
            for (int r = 0; r < layout->c_words; r++) {
                c[matrix_coordinate(layout->c_row, l, r)][matrix_coordinate(layout->c_column, l, r)]++;
            }
        }
        int copies = strncmp(layout->name, "wmma_gfx11", 10) == 0 ? 2 : 1;
        for (int i = 0; i < SIDE; i++) {
            for (int j = 0; j < SIDE; j++) {
                assert_int_equal(a[i][j], i < layout->m && j < layout->k ? copies : 0);
                assert_int_equal(b[i][j], i < layout->k && j < layout->n ? copies : 0);
                assert_int_equal(c[i][j], i < layout->m && j < layout->n ? 1 : 0);
            }
        }
    }
}

static void every_operation_has_a_table(void **state)
{
    (void)state;
    assert_int_equal(MATRIX_LAYOUTS, HOST_MATRIX_COUNT);
    for (uint32_t o = 0; o < HOST_MATRIX_COUNT; o++) {
        const struct host_matrix_shape *shape = host_matrix_shape(o);
        const struct matrix_layout *found = NULL;
        for (int x = 0; x < MATRIX_LAYOUTS; x++) {
            found = strcmp(matrix_layouts[x].name, shape->name) == 0 ? &matrix_layouts[x] : found;
        }
        assert_non_null(found);
        assert_int_equal(found->wave, shape->wave);
        assert_int_equal(found->a_words, shape->a_words);
        assert_int_equal(found->b_words, shape->b_words);
        assert_int_equal(found->c_words, shape->c_words);
    }
    assert_null(host_matrix_shape(HOST_MATRIX_COUNT));
}

static void random_integers_multiply_exactly(void **state)
{
    (void)state;
    srand(5);
    int rounds = test_size(6, 200);
    for (int x = 0; x < MATRIX_LAYOUTS; x++) {
        const struct matrix_layout *layout = &matrix_layouts[x];
        for (int round = 0; round < rounds; round++) {
            static struct dense dense;
            static int expected[SIDE][SIDE], a[SIDE][SIDE], b[SIDE][SIDE];
            for (int i = 0; i < SIDE; i++) {
                for (int j = 0; j < SIDE; j++) {
                    a[i][j] = rand() % 257 - 128;
                    b[i][j] = rand() % 257 - 128;
                    dense.a[i][j] = bits_of(a[i][j], layout->bf16);
                    dense.b[i][j] = bits_of(b[i][j], layout->bf16);
                    expected[i][j] = rand() % 2001 - 1000;
                    dense.c[i][j] = (float)expected[i][j];
                }
            }
            multiply(layout, &dense, schedules[round % 3], NULL);
            for (int i = 0; i < layout->m; i++) {
                for (int j = 0; j < layout->n; j++) {
                    for (int k = 0; k < layout->k; k++) {
                        expected[i][j] += a[i][k] * b[k][j];
                    }
                    if (dense.c[i][j] != (float)expected[i][j]) {
                        fail_msg("%s: D[%d][%d] is %g, not %d", layout->name, i, j, dense.c[i][j], expected[i][j]);
                    }
                }
            }
        }
    }
}

/* A has one 1 in each row: D's rows are rows of B, and each element of A shows where it is */
static void permutations_move_rows(void **state)
{
    (void)state;
    for (int x = 0; x < MATRIX_LAYOUTS; x++) {
        const struct matrix_layout *layout = &matrix_layouts[x];
        for (int shift = 0; shift < layout->k; shift++) {
            static struct dense dense;
            memset(&dense, 0, sizeof dense);
            for (int i = 0; i < layout->m; i++) {
                dense.a[i][(5 * i + shift) % layout->k] = bits_of(1, layout->bf16);
            }
            for (int k = 0; k < layout->k; k++) {
                for (int j = 0; j < layout->n; j++) {
                    dense.b[k][j] = bits_of(shift % 2 ? k + 1 : j + 1, layout->bf16);
                }
            }
            multiply(layout, &dense, HOST_ROUND_ROBIN, NULL);
            for (int i = 0; i < layout->m; i++) {
                for (int j = 0; j < layout->n; j++) {
                    int k = (5 * i + shift) % layout->k;
                    assert_true(dense.c[i][j] == (float)(shift % 2 ? k + 1 : j + 1));
                }
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------ numbers */

static int is_subnormal(uint16_t bits, int bf16)
{
    return (bits & (bf16 ? 0x7f80 : 0x7c00)) == 0;
}

/* B's elements pass through A = 1 at [i][i % k]: every finite pattern comes out as it is, on gfx90a without subnormals
 */
static void every_finite_element_passes(void **state)
{
    (void)state;
    static const char *const targets[] = {NULL, "host-gfx942", "host-gfx90a", "host-gfx90a:sramecc+:xnack-"};
    int step = test_size(7, 1);
    for (int x = 0; x < 4; x++) { /* the two 16x16x16 and 32x32x8 forms, f16 and bf16 */
        const struct matrix_layout *layout = &matrix_layouts[x];
        for (int t = 0; t < 4; t++) {
            int per = layout->k * layout->n;
            for (int first = 0; first < 65536; first += per * step) {
                static struct dense dense;
                memset(&dense, 0, sizeof dense);
                for (int i = 0; i < layout->k; i++) {
                    dense.a[i][i] = bits_of(1, layout->bf16);
                    for (int j = 0; j < layout->n; j++) {
                        uint16_t bits = (uint16_t)(first + i * layout->n + j);
                        dense.b[i][j] = isfinite(value_of(bits, layout->bf16)) ? bits : 0;
                    }
                }
                multiply(layout, &dense, HOST_ROUND_ROBIN, targets[t]);
                for (int i = 0; i < layout->k; i++) {
                    for (int j = 0; j < layout->n; j++) {
                        uint16_t bits = dense.b[i][j];
                        double expected = t >= 2 && is_subnormal(bits, layout->bf16) ? 0 : value_of(bits, layout->bf16);
                        if ((double)dense.c[i][j] != expected) {
                            fail_msg("%s for %s: 0x%04x came out as %g", layout->name, targets[t] ? targets[t] : "host",
                                     bits, dense.c[i][j]);
                        }
                    }
                }
            }
        }
    }
}

static void gfx90a_flushes_subnormal_results(void **state)
{
    (void)state;
    const struct matrix_layout *layout = &matrix_layouts[1];
    assert_true(layout->bf16);
    for (int flushes = 0; flushes < 2; flushes++) {
        static struct dense dense;
        memset(&dense, 0, sizeof dense);
        dense.a[3][2] = (127 - 100) << 7; /* 2^-100, a normal number */
        dense.b[2][4] = (127 - 40) << 7;
        dense.c[5][5] = ldexpf(1, -140);
        multiply(layout, &dense, HOST_ROUND_ROBIN, flushes ? "host-gfx90a" : "host-gfx908");
        assert_true(dense.c[3][4] == (flushes ? 0 : ldexpf(1, -140)));
        assert_true(dense.c[5][5] == (flushes ? 0 : ldexpf(1, -140)));
    }
}

static void infinity_and_nan_stay_in_their_column(void **state)
{
    (void)state;
    for (int x = 0; x < MATRIX_LAYOUTS; x++) {
        const struct matrix_layout *layout = &matrix_layouts[x];
        static struct dense dense;
        memset(&dense, 0, sizeof dense);
        for (int i = 0; i < layout->m; i++) {
            for (int k = 0; k < layout->k; k++) {
                dense.a[i][k] = bits_of(1, layout->bf16);
            }
        }
        dense.b[1][2] = layout->bf16 ? 0x7f80 : 0x7c00;
        dense.b[3][6] = layout->bf16 ? 0xffff : 0xfc01;
        multiply(layout, &dense, HOST_ROUND_ROBIN, NULL);
        for (int i = 0; i < layout->m; i++) {
            for (int j = 0; j < layout->n; j++) {
                if (j == 6) {
                    assert_true(isnan(dense.c[i][j]));
                } else {
                    assert_true(dense.c[i][j] == (j == 2 ? INFINITY : 0));
                }
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------ strict checks */

static void gfx11_operands_must_be_replicated(void **state)
{
    (void)state;
    for (int x = 0; x < MATRIX_LAYOUTS; x++) {
        const struct matrix_layout *layout = &matrix_layouts[x];
        if (strncmp(layout->name, "wmma_gfx11", 10) != 0) {
            continue;
        }
        static struct registers registers;
        memset(&registers, 0, sizeof registers);
        struct packed packed = {registers.a, registers.b, registers.c, 0};
        registers.a[19 * 8 + 2] = 0x3c00;
        must_fail(layout->name, 32, 32, &packed,
                  (const char *[]){layout->name, "lanes 3 and 19", " A", "word 2", "0x00000000 in lane 3",
                                   "0x00003c00 in lane 19", NULL});
        registers.a[3 * 8 + 2] = 0x3c00;
        must_run(layout->name, 32, 32, &packed, HOST_GREEDY);
        registers.b[15 * 8 + 7] = 0x80000000;
        must_fail(layout->name, 32, 32, &packed,
                  (const char *[]){"lanes 15 and 31", " B", "word 7", "0x80000000 in lane 15", NULL});
    }
}

static void every_lane_takes_part_at_one_site_in_one_operation(void **state)
{
    (void)state;
    struct packed packed = {0};
    must_fail("one_lane_stays_away", 64, 64, &packed,
              (const char *[]){"divergent matrix multiply", "all 64 lanes", "thread 5 has returned", NULL});
    must_fail("lanes_at_two_sites", 64, 64, &packed,
              (const char *[]){"the lanes of a wave must meet at one site", "matrix multiply of site", NULL});
    must_fail("two_operations_at_one_site", 64, 64, &packed,
              (const char *[]){"site 7", "mfma_f32_16x16x16_f16", "mfma_f32_16x16x16_bf16", NULL});
    must_fail("unknown_operation", 64, 64, &packed, (const char *[]){"site 7", "operation 99 is unknown", NULL});
}

static void waves_must_be_whole_and_of_the_instructions_size(void **state)
{
    (void)state;
    static struct registers registers;
    struct packed packed = {registers.a, registers.b, registers.c, 0};
    must_fail("mfma_f32_16x16x16_f16", 64, 48, &packed,
              (const char *[]){"mfma_f32_16x16x16_f16", "wave of 64 lanes", "has 48", NULL});
    must_fail("mfma_f32_16x16x16_f16", 32, 64, &packed, (const char *[]){"wave of 64 lanes", "has 32", NULL});
    must_fail("mma_f32_16x8x16_f16", 64, 64, &packed, (const char *[]){"wave of 32 lanes", "has 64", NULL});
}

/* ------------------------------------------------------------------------------------------------ lanes */

static void exchange_gives_the_other_lanes_value(void **state)
{
    (void)state;
    enum { THREADS = 192 };
    static uint32_t in[THREADS];
    static float out[12 * THREADS];
    for (int i = 0; i < THREADS; i++) {
        in[i] = (uint32_t)(i * 7 % 251);
    }
    for (uint32_t wave = 32; wave <= 64; wave *= 2) {
        for (int s = 0; s < 3; s++) {
            memset(out, 0, sizeof out);
            struct packed packed = {in, NULL, out, THREADS};
            must_run("exchanges", wave, THREADS, &packed, schedules[s]);
            for (int slot = 0; 1u << slot < wave; slot++) {
                for (int t = 0; t < THREADS; t++) {
                    assert_true(out[(2 * slot) * THREADS + t] == (float)in[t ^ 1 << slot]);
                    assert_true(out[(2 * slot + 1) * THREADS + t] == (float)in[t ^ 1 << slot]);
                }
            }
        }
    }
}

static void a_uniform_value_is_the_same_in_all_lanes(void **state)
{
    (void)state;
    static float out[128];
    struct packed packed = {NULL, NULL, out, 0};
    must_run("uniform", 64, 128, &packed, HOST_GREEDY);
    assert_true(out[63] == 0 && out[64] == 1);
    packed.option = 1;
    must_fail("uniform", 64, 128, &packed, (const char *[]){"wave_uniform", "lane 9", NULL});
}

static void load_matrices_deals_rows_and_columns(void **state)
{
    (void)state;
    static uint16_t elements[32][8];
    static float out[64 * 8];
    for (int row = 0; row < 32; row++) {
        for (int column = 0; column < 8; column++) {
            elements[row][column] = (uint16_t)(0x4000 + 8 * row + column);
        }
    }
    uint32_t words[256] = {0};
    memcpy(words, elements, sizeof elements);
    struct packed packed = {words, NULL, out, 0};
    for (int s = 0; s < 3; s++) {
        must_run("matrices", 32, 32, &packed, schedules[s]);
        uint16_t got[32][2][4][2]; /* lane, straight or transposed, matrix, half */
        memcpy(got, out, sizeof got);
        for (int l = 0; l < 32; l++) {
            for (int matrix = 0; matrix < 4; matrix++) {
                for (int half = 0; half < 2; half++) {
                    int pair = 2 * (l % 4) + half; /* lane x of the call named row 5 x mod 32 */
                    assert_int_equal(got[l][0][matrix][half], elements[(8 * matrix + l / 4) * 5 % 32][pair]);
                    assert_int_equal(got[l][1][matrix][half], elements[(8 * matrix + pair) * 5 % 32][l / 4]);
                }
            }
        }
    }
    packed.option = 1;
    must_fail("matrices", 32, 32, &packed, (const char *[]){"multiple of 16 bytes", NULL});
    packed.option = 0;
    must_fail("matrices", 64, 64, &packed, (const char *[]){"waves of 32", NULL});
}

/* ------------------------------------------------------------------------------------------------ copies */

enum { NO_WAIT = 1, EARLY = 2, SHORT_WAIT = 4, MISALIGNED = 8, TOO_MANY = 16, SCATTERED = 32 };
enum { COPY_WORDS = 1024 };
static uint32_t source[COPY_WORDS];
static float copied[512];

static void fill_source(void)
{
    for (int i = 0; i < COPY_WORDS; i++) {
        float value = (float)(i + 1);
        memcpy(&source[i], &value, 4);
    }
}

/* whether the kernel `copies` gave what it copied, in each of its three reads */
static int copies_are_right(uint32_t option, enum host_schedule schedule)
{
    struct packed packed = {source, NULL, copied, option};
    memset(copied, 0, sizeof copied);
    must_run("copies", 32, 64, &packed, schedule);
    int right = 1;
    for (int t = 0; t < 64; t++) {
        right &= copied[t] == (float)(4 * (t ^ 1) + 1);
        right &= copied[64 + t] == (float)((t ^ 1) < 60 ? 256 + 4 * (t ^ 1) + 1 : 0);
        right &= copied[128 + t] == (float)(512 + 4 * (t ^ 1) + 4);
    }
    return right;
}

static void copies_end_at_their_wait_and_not_before(void **state)
{
    (void)state;
    fill_source();
    for (int s = 0; s < 3; s++) {
        assert_true(copies_are_right(0, schedules[s]));
        assert_false(copies_are_right(NO_WAIT, schedules[s]));
        assert_true(isnan(copied[0])); /* of thread 1, which copies late */
        assert_false(copies_are_right(SHORT_WAIT, schedules[s]));
        /* in reverse order the late thread of each pair goes first, and nothing is lost */
        assert_true(schedules[s] == HOST_REVERSE || !copies_are_right(EARLY, schedules[s]));
    }
    struct packed packed = {source, NULL, copied, MISALIGNED};
    must_fail("copies", 32, 64, &packed, (const char *[]){"multiple of its bytes", NULL});
    packed.option = TOO_MANY;
    must_fail("copies", 32, 64, &packed, (const char *[]){"more than 512", NULL});
}

static int direct_is_right(uint32_t wave, uint32_t option, enum host_schedule schedule)
{
    struct packed packed = {source, NULL, copied, option};
    memset(copied, 0, sizeof copied);
    must_run("direct", wave, 128, &packed, schedule);
    int right = 1;
    for (int t = 0; t < 128; t++) {
        right &= copied[t] == (float)((t ^ 1) + 1);
        right &= copied[128 + t] == (float)(128 + 4 * (t ^ 1) + 2);
        right &= copied[256 + t] == (float)(640 + (t ^ 1) + 1);
    }
    return right;
}

static void direct_copies_go_lane_by_lane_and_end_at_their_wait(void **state)
{
    (void)state;
    fill_source();
    for (uint32_t wave = 32; wave <= 64; wave *= 2) {
        for (int s = 0; s < 3; s++) {
            assert_true(direct_is_right(wave, 0, schedules[s]));
            assert_false(direct_is_right(wave, NO_WAIT, schedules[s]));
        }
    }
    struct packed packed = {source, NULL, copied, SCATTERED};
    must_fail("direct", 64, 128, &packed, (const char *[]){"destination differs", NULL});
}

/* ------------------------------------------------------------------------------------------------ main */

static void *load(const char *suffix, const char *definition)
{
    char object[64];
    snprintf(object, sizeof object, "/tmp/attune_test_matrix.%d.%s.so", (int)getpid(), suffix);
    host_kernels_compile(object, (const char *[]){"-include", VOCABULARY, definition, NULL});
    void *library = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return library;
}

static void remove_objects(void)
{
    char object[64];
    for (int wave = 32; wave <= 64; wave *= 2) {
        snprintf(object, sizeof object, "/tmp/attune_test_matrix.%d.%d.so", (int)getpid(), wave);
        unlink(object);
    }
}

int main(void)
{
    if (!host_compiler_present()) {
        return 77;
    }
    atexit(remove_objects);
    wave32 = load("32", "-DWAVE_LANES=32");
    wave64 = load("64", "-DWAVE_LANES=64");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_name_every_element_once),
        cmocka_unit_test(every_operation_has_a_table),
        cmocka_unit_test(random_integers_multiply_exactly),
        cmocka_unit_test(permutations_move_rows),
        cmocka_unit_test(every_finite_element_passes),
        cmocka_unit_test(gfx90a_flushes_subnormal_results),
        cmocka_unit_test(infinity_and_nan_stay_in_their_column),
        cmocka_unit_test(gfx11_operands_must_be_replicated),
        cmocka_unit_test(every_lane_takes_part_at_one_site_in_one_operation),
        cmocka_unit_test(waves_must_be_whole_and_of_the_instructions_size),
        cmocka_unit_test(exchange_gives_the_other_lanes_value),
        cmocka_unit_test(a_uniform_value_is_the_same_in_all_lanes),
        cmocka_unit_test(load_matrices_deals_rows_and_columns),
        cmocka_unit_test(copies_end_at_their_wait_and_not_before),
        cmocka_unit_test(direct_copies_go_lane_by_lane_and_end_at_their_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
