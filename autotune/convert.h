/* convert.h - the element types of tensors, and exact conversion between them and fp32/fp64.
 *
 * Rounding is to nearest, ties to even, once: fp64 reaches f16 and bf16 without a second rounding on the way. NaN stays
 * NaN (quiet), overflow gives infinity, subnormals are kept.
 */
#ifndef AUTOTUNE_CONVERT_H
#define AUTOTUNE_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype { DTYPE_F16, DTYPE_BF16, DTYPE_F32 };

bool dtype_parse(const char *text, enum dtype *dtype); /* f16, bf16, f32 */
size_t dtype_size(enum dtype dtype);                   /* bytes of one element */
double dtype_unit(enum dtype dtype);                   /* unit roundoff: 2^-11, 2^-8, 2^-23 (the contract's u) */

uint16_t half_from_float(float value);
uint16_t bfloat_from_float(float value);
float half_to_float(uint16_t bits);
float bfloat_to_float(uint16_t bits);

/* fp64 to the nearest fp32 value whose later rounding to 16 bits equals rounding the fp64 value directly (round to odd)
 */
float float_to_odd(double value);

float dtype_round(enum dtype dtype, float value); /* through the type and back */
float dtype_least_normal(enum dtype dtype);       /* 2^-14, 2^-126, 2^-126: what is smaller is subnormal or 0 */

/* whole runs of elements */
void convert_to_float(enum dtype dtype, const void *from, float *to, size_t count);
void convert_from_float(enum dtype dtype, const float *from, void *to, size_t count);
void convert_from_double(enum dtype dtype, const double *from, void *to, size_t count);
void convert_to_double(enum dtype dtype, const void *from, double *to, size_t count);

/* index of the first NaN, or count */
size_t convert_find_nan(enum dtype dtype, const void *elements, size_t count);
/* does the element hold the fill byte 0xff everywhere: was it never written? */
bool convert_is_poison(enum dtype dtype, const void *elements, size_t index);

#endif
