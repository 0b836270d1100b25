/* matrix_layouts.h - register layouts of the matrix instructions, as data and apart from the product's own formulas.
 *
 * Every layout permutes bits: a row or column number is made of bits of the lane l, of the 16-bit element e of an
 * operand (register e / 2, half e % 2) or of the 32-bit register r of C and D. A coordinate is written as those bits,
 * lowest first: "l0l1l2l3" is lane % 16, "e0e1l4l5" is 4 * (lane / 16) + element. Bits that appear in neither
 * coordinate hold copies.
 *
 * From AMD's matrix instruction calculator (gfx950: from the public tables of its 16x16x32 fp8 form, which has the same
 * shape), the RDNA 3 and RDNA 4 ISA manuals, and the PTX ISA's figures for mma.m16n8k16 and mma.m16n8k8.
 */
#ifndef TESTS_MATRIX_LAYOUTS_H
#define TESTS_MATRIX_LAYOUTS_H

struct matrix_layout {
    const char *name; /* as in matrix_multiply(name, c, a, b) */
    int bf16;
    int wave;
    int m, n, k;
    int c_words, a_words, b_words; /* 32-bit registers of a lane */
    const char *a_row, *a_k;
    const char *b_k, *b_column;
    const char *c_row, *c_column;
};

#define MATRIX_MFMA_16 "l0l1l2l3"
#define MATRIX_MFMA_32 "l0l1l2l3l4"
/* A and B have the same layout with the roles of row and column swapped */
#define MATRIX_SAME(row, k) row, k, k, row

static const struct matrix_layout matrix_layouts[] = {
    {"mfma_f32_16x16x16_f16", 0, 64, 16, 16, 16, 4, 2, 2, MATRIX_SAME(MATRIX_MFMA_16, "e0e1l4l5"), "r0r1l4l5",
     MATRIX_MFMA_16},
    {"mfma_f32_16x16x16_bf16", 1, 64, 16, 16, 16, 4, 2, 2, MATRIX_SAME(MATRIX_MFMA_16, "e0e1l4l5"), "r0r1l4l5",
     MATRIX_MFMA_16},
    {"mfma_f32_32x32x8_f16", 0, 64, 32, 32, 8, 16, 2, 2, MATRIX_SAME(MATRIX_MFMA_32, "e0e1l5"), "r0r1l5r2r3",
     MATRIX_MFMA_32},
    {"mfma_f32_32x32x8_bf16", 1, 64, 32, 32, 8, 16, 2, 2, MATRIX_SAME(MATRIX_MFMA_32, "e0e1l5"), "r0r1l5r2r3",
     MATRIX_MFMA_32},
    {"mfma_f32_16x16x8_bf16", 1, 64, 16, 16, 8, 4, 1, 1, MATRIX_SAME(MATRIX_MFMA_16, "e0l4l5"), "r0r1l4l5",
     MATRIX_MFMA_16},
    {"mfma_f32_32x32x4_bf16", 1, 64, 32, 32, 4, 16, 1, 1, MATRIX_SAME(MATRIX_MFMA_32, "e0l5"), "r0r1l5r2r3",
     MATRIX_MFMA_32},
    {"mfma_f32_16x16x32_f16", 0, 64, 16, 16, 32, 4, 4, 4, MATRIX_SAME(MATRIX_MFMA_16, "e0e1e2l4l5"), "r0r1l4l5",
     MATRIX_MFMA_16},
    {"mfma_f32_16x16x32_bf16", 1, 64, 16, 16, 32, 4, 4, 4, MATRIX_SAME(MATRIX_MFMA_16, "e0e1e2l4l5"), "r0r1l4l5",
     MATRIX_MFMA_16},
    {"mfma_f32_32x32x16_f16", 0, 64, 32, 32, 16, 16, 4, 4, MATRIX_SAME(MATRIX_MFMA_32, "e0e1e2l5"), "r0r1l5r2r3",
     MATRIX_MFMA_32},
    {"mfma_f32_32x32x16_bf16", 1, 64, 32, 32, 16, 16, 4, 4, MATRIX_SAME(MATRIX_MFMA_32, "e0e1e2l5"), "r0r1l5r2r3",
     MATRIX_MFMA_32},
    {"wmma_gfx11_f32_16x16x16_f16", 0, 32, 16, 16, 16, 8, 8, 8, MATRIX_SAME("l0l1l2l3", "e0e1e2e3"), "l4r0r1r2",
     "l0l1l2l3"},
    {"wmma_gfx11_f32_16x16x16_bf16", 1, 32, 16, 16, 16, 8, 8, 8, MATRIX_SAME("l0l1l2l3", "e0e1e2e3"), "l4r0r1r2",
     "l0l1l2l3"},
    {"wmma_gfx12_f32_16x16x16_f16", 0, 32, 16, 16, 16, 8, 4, 4, MATRIX_SAME("l0l1l2l3", "e0e1l4e2"), "r0r1r2l4",
     "l0l1l2l3"},
    {"wmma_gfx12_f32_16x16x16_bf16", 1, 32, 16, 16, 16, 8, 4, 4, MATRIX_SAME("l0l1l2l3", "e0e1l4e2"), "r0r1r2l4",
     "l0l1l2l3"},
    {"mma_f32_16x8x16_f16", 0, 32, 16, 8, 16, 4, 4, 2, "l2l3l4e1", "e0l0l1e2", "e0l0l1e1", "l2l3l4", "l2l3l4r1",
     "r0l0l1"},
    {"mma_f32_16x8x16_bf16", 1, 32, 16, 8, 16, 4, 4, 2, "l2l3l4e1", "e0l0l1e2", "e0l0l1e1", "l2l3l4", "l2l3l4r1",
     "r0l0l1"},
    {"mma_f32_16x8x8_f16", 0, 32, 16, 8, 8, 4, 2, 1, "l2l3l4e1", "e0l0l1", "e0l0l1", "l2l3l4", "l2l3l4r1", "r0l0l1"},
};
enum { MATRIX_LAYOUTS = sizeof matrix_layouts / sizeof matrix_layouts[0] };

/* the coordinate that `bits` spell, for a lane and an element or register */
static inline int matrix_coordinate(const char *bits, int lane, int element)
{
    int value = 0;
    for (int i = 0; bits[2 * i] != '\0'; i++) {
        int from = bits[2 * i] == 'l' ? lane : element;
        value |= (from >> (bits[2 * i + 1] - '0') & 1) << i;
    }
    return value;
}

#endif
