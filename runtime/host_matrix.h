/* host_matrix.h - matrix instructions of every vendor, computed on the CPU from registers laid out as the hardware has
 * them.
 *
 * One call is one instruction of one wave: D = A B + C in place. Operands are 16-bit elements, two in a 32-bit word,
 * the lower index in the low half; C and D are fp32. Products are exact in fp32; sums start with C and add k = 0, 1, 2
 * ... with one fp32 rounding each (hardware may add in another order and keep more bits between).
 */
#ifndef RUNTIME_HOST_MATRIX_H
#define RUNTIME_HOST_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* numbers are part of the host device's contract (templates/vocabulary/host.h has them too): append only */
enum host_matrix {
    HOST_MATRIX_MFMA_F32_16X16X16_F16,
    HOST_MATRIX_MFMA_F32_32X32X8_F16,
    HOST_MATRIX_MFMA_F32_16X16X16_BF16,
    HOST_MATRIX_MFMA_F32_32X32X8_BF16,
    HOST_MATRIX_MFMA_F32_16X16X8_BF16,
    HOST_MATRIX_MFMA_F32_32X32X4_BF16,
    HOST_MATRIX_MFMA_F32_16X16X32_F16,
    HOST_MATRIX_MFMA_F32_16X16X32_BF16,
    HOST_MATRIX_MFMA_F32_32X32X16_F16,
    HOST_MATRIX_MFMA_F32_32X32X16_BF16,
    HOST_MATRIX_WMMA_GFX11_F32_16X16X16_F16,
    HOST_MATRIX_WMMA_GFX11_F32_16X16X16_BF16,
    HOST_MATRIX_WMMA_GFX12_F32_16X16X16_F16,
    HOST_MATRIX_WMMA_GFX12_F32_16X16X16_BF16,
    HOST_MATRIX_MMA_F32_16X8X16_F16,
    HOST_MATRIX_MMA_F32_16X8X16_BF16,
    HOST_MATRIX_MMA_F32_16X8X8_F16,
    HOST_MATRIX_COUNT
};
enum { HOST_MATRIX_LANES = 64, HOST_MATRIX_FAILURE_BYTES = 256 };

struct host_matrix_shape {
    const char *name; /* as templates write it */
    uint8_t wave;     /* lanes that take part: all of the wave */
    uint8_t m, n, k;
    uint8_t a_words, b_words, c_words; /* a lane's registers */
};
/* NULL for a number that is no operation */
const struct host_matrix_shape *host_matrix_shape(uint32_t operation);

/* gfx90a alone takes subnormal 16-bit inputs as zero and gives zero for a subnormal result. `target` as in the object's
 * note ("host-gfx90a"), features after a colon allowed; NULL is a target that keeps them. */
bool host_matrix_flushes(const char *target);

/* c[l], a[l], b[l]: registers of lane l, for every lane of the wave. false when the hardware would not give what the
 * operands promise (gfx11: lanes l and l + 16 hold different A or B); `failure` says which lanes, and C is as it was.
 */
bool host_matrix_multiply(enum host_matrix operation, bool flush, float *const *c, const uint32_t *const *a,
                          const uint32_t *const *b, char failure[HOST_MATRIX_FAILURE_BYTES]);

#endif
