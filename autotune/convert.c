/* convert.c - element types: conversion and scanning.
 *
 * The loops are free of branches, so that compilers turn them into vector code: a check reads every element of an
 * output.
 */
#include "autotune/convert.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool dtype_parse(const char *text, enum dtype *dtype)
{
    static const char *const names[] = {"f16", "bf16", "f32"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *dtype = (enum dtype)i;
            return true;
        }
    }
    return false;
}

size_t dtype_size(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 4 : 2;
}

double dtype_unit(enum dtype dtype)
{
    return dtype == DTYPE_F16 ? 0x1p-11 : dtype == DTYPE_BF16 ? 0x1p-8 : 0x1p-23;
}

uint16_t half_from_float(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) { /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) {
        /* below 2^-14: adding 0.5 makes the fp32 unit 2^-24, the unit of a subnormal half; the adder rounds for us */
        return (uint16_t)(sign | (float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u));
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (magnitude - 0x38000000u) >> 13);
}

uint16_t bfloat_from_float(float value)
{
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = (uint32_t)(half & 0x7fffu) << 13;
    uint32_t scaled = float_bits(bits_float(magnitude) * 0x1p112f); /* exact, subnormals included */
    uint32_t special = magnitude | 0x7f800000u;
    return bits_float(sign | (magnitude >= 0x0f800000u ? special : scaled));
}

float bfloat_to_float(uint16_t bits)
{
    return bits_float((uint32_t)bits << 16);
}

float float_to_odd(double value)
{
    float nearest = (float)value;
    if ((double)nearest == value || !isfinite(nearest)) {
        return nearest; /* exact, NaN or beyond fp32 */
    }
    float truncated = fabs((double)nearest) > fabs(value) ? nextafterf(nearest, 0.0f) : nearest;
    return bits_float(float_bits(truncated) | 1u);
}

float dtype_least_normal(enum dtype dtype)
{
    return dtype == DTYPE_F16 ? 0x1p-14f : 0x1p-126f;
}

float dtype_round(enum dtype dtype, float value)
{
    switch (dtype) {
    case DTYPE_F16:
        return half_to_float(half_from_float(value));
    case DTYPE_BF16:
        return bfloat_to_float(bfloat_from_float(value));
    case DTYPE_F32:
        break;
    }
    return value;
}

void convert_to_float(enum dtype dtype, const void *from, float *to, size_t count)
{
    const uint16_t *short_elements = from;
    if (dtype == DTYPE_F16) {
        for (size_t i = 0; i < count; i++) {
            to[i] = half_to_float(short_elements[i]);
        }
    } else if (dtype == DTYPE_BF16) {
        for (size_t i = 0; i < count; i++) {
            to[i] = bfloat_to_float(short_elements[i]);
        }
    } else {
        memcpy(to, from, count * sizeof *to);
    }
}

void convert_from_float(enum dtype dtype, const float *from, void *to, size_t count)
{
    uint16_t *short_elements = to;
    if (dtype == DTYPE_F16) {
        for (size_t i = 0; i < count; i++) {
            short_elements[i] = half_from_float(from[i]);
        }
    } else if (dtype == DTYPE_BF16) {
        for (size_t i = 0; i < count; i++) {
            short_elements[i] = bfloat_from_float(from[i]);
        }
    } else {
        memcpy(to, from, count * sizeof *from);
    }
}

void convert_from_double(enum dtype dtype, const double *from, void *to, size_t count)
{
    uint16_t *short_elements = to;
    float *elements = to;
    for (size_t i = 0; i < count; i++) {
        if (dtype == DTYPE_F32) {
            elements[i] = (float)from[i];
        } else {
            float odd = float_to_odd(from[i]);
            short_elements[i] = dtype == DTYPE_F16 ? half_from_float(odd) : bfloat_from_float(odd);
        }
    }
}

void convert_to_double(enum dtype dtype, const void *from, double *to, size_t count)
{
    const uint16_t *short_elements = from;
    const float *elements = from;
    for (size_t i = 0; i < count; i++) {
        to[i] = dtype == DTYPE_F16    ? (double)half_to_float(short_elements[i])
                : dtype == DTYPE_BF16 ? (double)bfloat_to_float(short_elements[i])
                                      : (double)elements[i];
    }
}

size_t convert_find_nan(enum dtype dtype, const void *elements, size_t count)
{
    enum { BLOCK = 4096 };
    const uint16_t *short_elements = elements;
    const uint32_t *word_elements = elements;
    uint16_t infinity = dtype == DTYPE_F16 ? 0x7c00u : 0x7f80u;
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = count - begin < BLOCK ? count : begin + BLOCK;
        unsigned found = 0;
        if (dtype == DTYPE_F32) {
            for (size_t i = begin; i < end; i++) {
                found |= (word_elements[i] & 0x7fffffffu) > 0x7f800000u;
            }
        } else {
            for (size_t i = begin; i < end; i++) {
                found |= (uint16_t)(short_elements[i] & 0x7fffu) > infinity;
            }
        }
        for (size_t i = begin; found && i < end; i++) {
            if (dtype == DTYPE_F32 ? (word_elements[i] & 0x7fffffffu) > 0x7f800000u
                                   : (short_elements[i] & 0x7fffu) > infinity) {
                return i;
            }
        }
    }
    return count;
}

bool convert_is_poison(enum dtype dtype, const void *elements, size_t index)
{
    static const unsigned char poison[4] = {0xff, 0xff, 0xff, 0xff};
    size_t size = dtype_size(dtype);
    assert(size <= sizeof poison);
    return memcmp((const char *)elements + index * size, poison, size) == 0;
}
