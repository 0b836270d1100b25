/* host_matrix.c - where each lane's registers lie in A, B, C of each matrix instruction, and the product itself.
 *
 * Where an element lies is written as the vendors write it (AMD's matrix instruction calculator; the PTX ISA's figures
 * for mma.sync), and turned once into tables register -> element of a dense matrix. All tables are filled before the
 * first product and never change.
 */
#include "runtime/host_matrix.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum layout { LAYOUT_MFMA, LAYOUT_WMMA_GFX11, LAYOUT_WMMA_GFX12, LAYOUT_MMA };
enum { ELEMENTS_MAX = 512, RESULTS_MAX = 1024 }; /* of A or B, of C, in all lanes */

struct operation {
    struct host_matrix_shape shape;
    enum layout layout;
    bool bf16;
};

static const struct operation operations[HOST_MATRIX_COUNT] = {
    /* name, wave, m n k, words of a b c */
    {{"mfma_f32_16x16x16_f16", 64, 16, 16, 16, 2, 2, 4}, LAYOUT_MFMA, false},
    {{"mfma_f32_32x32x8_f16", 64, 32, 32, 8, 2, 2, 16}, LAYOUT_MFMA, false},
    {{"mfma_f32_16x16x16_bf16", 64, 16, 16, 16, 2, 2, 4}, LAYOUT_MFMA, true},
    {{"mfma_f32_32x32x8_bf16", 64, 32, 32, 8, 2, 2, 16}, LAYOUT_MFMA, true},
    {{"mfma_f32_16x16x8_bf16", 64, 16, 16, 8, 1, 1, 4}, LAYOUT_MFMA, true},
    {{"mfma_f32_32x32x4_bf16", 64, 32, 32, 4, 1, 1, 16}, LAYOUT_MFMA, true},
    {{"mfma_f32_16x16x32_f16", 64, 16, 16, 32, 4, 4, 4}, LAYOUT_MFMA, false},
    {{"mfma_f32_16x16x32_bf16", 64, 16, 16, 32, 4, 4, 4}, LAYOUT_MFMA, true},
    {{"mfma_f32_32x32x16_f16", 64, 32, 32, 16, 4, 4, 16}, LAYOUT_MFMA, false},
    {{"mfma_f32_32x32x16_bf16", 64, 32, 32, 16, 4, 4, 16}, LAYOUT_MFMA, true},
    {{"wmma_gfx11_f32_16x16x16_f16", 32, 16, 16, 16, 8, 8, 8}, LAYOUT_WMMA_GFX11, false},
    {{"wmma_gfx11_f32_16x16x16_bf16", 32, 16, 16, 16, 8, 8, 8}, LAYOUT_WMMA_GFX11, true},
    {{"wmma_gfx12_f32_16x16x16_f16", 32, 16, 16, 16, 4, 4, 8}, LAYOUT_WMMA_GFX12, false},
    {{"wmma_gfx12_f32_16x16x16_bf16", 32, 16, 16, 16, 4, 4, 8}, LAYOUT_WMMA_GFX12, true},
    {{"mma_f32_16x8x16_f16", 32, 16, 8, 16, 4, 2, 4}, LAYOUT_MMA, false},
    {{"mma_f32_16x8x16_bf16", 32, 16, 8, 16, 4, 2, 4}, LAYOUT_MMA, true},
    {{"mma_f32_16x8x8_f16", 32, 16, 8, 8, 2, 1, 4}, LAYOUT_MMA, false},
};

const struct host_matrix_shape *host_matrix_shape(uint32_t operation)
{
    return operation < HOST_MATRIX_COUNT ? &operations[operation].shape : NULL;
}

bool host_matrix_flushes(const char *target)
{
    static const char name[] = "host-gfx90a";
    return target != NULL && strncmp(target, name, sizeof name - 1) == 0 &&
           (target[sizeof name - 1] == '\0' || target[sizeof name - 1] == ':');
}

/* ------------------------------------------------------------------------------------------------ layouts */

struct place {
    unsigned row, column;
};

/* A[i][k] of element e of lane l */
static struct place place_a(const struct operation *op, unsigned l, unsigned e)
{
    switch (op->layout) {
    case LAYOUT_MFMA: /* a lane holds neighbours in k */
        return (struct place){l % op->shape.m, 2u * op->shape.a_words * (l / op->shape.m) + e};
    case LAYOUT_WMMA_GFX11: /* lanes l and l + 16 hold the same row */
        return (struct place){l % 16, e};
    case LAYOUT_WMMA_GFX12:
        return (struct place){l % 16, 8 * (e / 4) + 4 * (l / 16) + e % 4};
    default:
        return (struct place){l / 4 + 8 * (e / 2 % 2), 2 * (l % 4) + e % 2 + 8 * (e / 4)};
    }
}

/* B[k][j]: AMD's B is A with the roles of rows and columns swapped */
static struct place place_b(const struct operation *op, unsigned l, unsigned e)
{
    if (op->layout == LAYOUT_MMA) {
        return (struct place){2 * (l % 4) + e % 2 + 8 * (e / 2), l / 4};
    }
    struct place place = place_a(op, l, e);
    return (struct place){place.column, place.row};
}

/* C[i][j] of register r of lane l */
static struct place place_c(const struct operation *op, unsigned l, unsigned r)
{
    unsigned m = op->shape.m;
    switch (op->layout) {
    case LAYOUT_MFMA: /* groups of four rows, dealt to the 64 / m groups of lanes in turn */
        return (struct place){256 / m * (r / 4) + 4 * (l / m) + r % 4, l % m};
    case LAYOUT_WMMA_GFX11:
        return (struct place){2 * r + l / 16, l % 16};
    case LAYOUT_WMMA_GFX12:
        return (struct place){8 * (l / 16) + r, l % 16};
    default:
        return (struct place){l / 4 + 8 * (r / 2), 2 * (l % 4) + r % 2};
    }
}

/* register (lane by lane) -> index into a dense matrix of m x k, k x n, m x n, rows one after another */
struct map {
    uint16_t a[ELEMENTS_MAX], b[ELEMENTS_MAX], c[RESULTS_MAX];
};
static struct map maps[HOST_MATRIX_COUNT];
static pthread_once_t maps_once = PTHREAD_ONCE_INIT;

static void maps_fill(void)
{
    for (int o = 0; o < HOST_MATRIX_COUNT; o++) {
        const struct operation *op = &operations[o];
        const struct host_matrix_shape *shape = &op->shape;
        struct map *map = &maps[o];
        size_t a = 0, b = 0, c = 0;
        for (unsigned l = 0; l < shape->wave; l++) {
            for (unsigned e = 0; e < 2u * shape->a_words; e++) {
                struct place place = place_a(op, l, e);
                map->a[a++] = (uint16_t)(place.row * shape->k + place.column);
            }
            for (unsigned e = 0; e < 2u * shape->b_words; e++) {
                struct place place = place_b(op, l, e);
                map->b[b++] = (uint16_t)(place.row * shape->n + place.column);
            }
            for (unsigned r = 0; r < shape->c_words; r++) {
                struct place place = place_c(op, l, r);
                map->c[c++] = (uint16_t)(place.row * shape->n + place.column);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------ elements */

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* exact; the multiplication moves the exponent, subnormals included */
static inline float half_value(uint32_t half)
{
    float magnitude = float_of((half & 0x7fffu) << 13) * 0x1p112f;
    uint32_t bits = bits_of(magnitude) | (magnitude >= 65536.0f ? 0x7f800000u : 0u);
    return float_of(bits | (half & 0x8000u) << 16);
}

static inline float element_value(uint32_t element, bool bf16, bool flush)
{
    if (flush && (element & (bf16 ? 0x7f80u : 0x7c00u)) == 0) {
        element &= 0x8000u;
    }
    return bf16 ? float_of(element << 16) : half_value(element);
}

static void gather(const uint32_t *const *words, unsigned lanes, unsigned count, const uint16_t *map, bool bf16,
                   bool flush, float *dense)
{
    for (unsigned l = 0; l < lanes; l++) {
        for (unsigned w = 0; w < count; w++) {
            uint32_t word = words[l][w];
            *(dense + *map++) = element_value(word & 0xffffu, bf16, flush);
            *(dense + *map++) = element_value(word >> 16, bf16, flush);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ product */

/* n is a constant at each call, so that the inner loops become vector code */
static inline __attribute__((always_inline)) void product(unsigned m, unsigned n, unsigned k, const float *a,
                                                          const float *b, float *c)
{
    for (unsigned i = 0; i < m; i++) {
        for (unsigned x = 0; x < k; x++) {
            float factor = a[i * k + x];
            for (unsigned j = 0; j < n; j++) {
                c[i * n + j] += factor * b[x * n + j];
            }
        }
    }
}

/* gfx11 reads a row from lane l for one half of the result and from lane l + 16 for the other */
static bool replicated(const struct host_matrix_shape *shape, const uint32_t *const *words, unsigned count,
                       char operand, char failure[HOST_MATRIX_FAILURE_BYTES])
{
    for (unsigned l = 0; l < 16; l++) {
        for (unsigned w = 0; w < count; w++) {
            if (words[l][w] != words[l + 16][w]) {
                snprintf(failure, HOST_MATRIX_FAILURE_BYTES,
                         "%s: lanes %u and %u must hold the same %c, but its word %u is 0x%08x in lane %u and 0x%08x "
                         "in lane %u",
                         shape->name, l, l + 16, operand, w, words[l][w], l, words[l + 16][w], l + 16);
                return false;
            }
        }
    }
    return true;
}

bool host_matrix_multiply(enum host_matrix operation, bool flush, float *const *c, const uint32_t *const *a,
                          const uint32_t *const *b, char failure[HOST_MATRIX_FAILURE_BYTES])
{
    const struct operation *op = &operations[operation];
    const struct host_matrix_shape *shape = &op->shape;
    if (op->layout == LAYOUT_WMMA_GFX11 &&
        (!replicated(shape, a, shape->a_words, 'A', failure) || !replicated(shape, b, shape->b_words, 'B', failure))) {
        return false;
    }
    pthread_once(&maps_once, maps_fill);
    const struct map *map = &maps[operation];
    float dense_a[ELEMENTS_MAX] = {0}, dense_b[ELEMENTS_MAX] = {0}, dense_c[RESULTS_MAX] = {0};
    gather(a, shape->wave, shape->a_words, map->a, op->bf16, flush, dense_a);
    gather(b, shape->wave, shape->b_words, map->b, op->bf16, flush, dense_b);
    const uint16_t *where = map->c;
    for (unsigned l = 0; l < shape->wave; l++) {
        for (unsigned r = 0; r < shape->c_words; r++) {
            dense_c[*where++] = c[l][r];
        }
    }
    if (shape->n == 8) {
        product(shape->m, 8, shape->k, dense_a, dense_b, dense_c);
    } else if (shape->n == 16) {
        product(shape->m, 16, shape->k, dense_a, dense_b, dense_c);
    } else {
        product(shape->m, 32, shape->k, dense_a, dense_b, dense_c);
    }
    where = map->c;
    for (unsigned l = 0; l < shape->wave; l++) {
        for (unsigned r = 0; r < shape->c_words; r++) {
            float value = dense_c[*where++];
            if (flush && (bits_of(value) & 0x7f800000u) == 0) {
                value = float_of(bits_of(value) & 0x80000000u);
            }
            c[l][r] = value;
        }
    }
    return true;
}
