/* npy.c - .npy reader and writer; see npy.h. */
#include "cli/npy.h"

#include "base/files.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, DATA_ALIGNMENT = 64 };
#define FILE_BYTES_MAX ((size_t)1 << 38)

static const struct {
    const char *descr; /* after the byte order */
    const char *name;
    size_t bytes;
} dtypes[] = {
    [NPY_F2] = {"f2", "float16", 2},
    [NPY_F4] = {"f4", "float32", 4},
    [NPY_F8] = {"f8", "float64", 8},
    [NPY_U2] = {"u2", "uint16 (bf16)", 2},
};

const char *npy_dtype_name(enum npy_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t npy_dtype_bytes(enum npy_dtype dtype)
{
    return dtypes[dtype].bytes;
}

/* The header is a Python dict literal with exactly the keys descr, fortran_order and shape. The cursor never passes
 * `end`. */
struct cursor {
    const char *at;
    const char *end;
};

static void skip_blanks(struct cursor *cursor)
{
    while (cursor->at < cursor->end && isspace((unsigned char)*cursor->at)) {
        cursor->at++;
    }
}

static bool take(struct cursor *cursor, const char *token)
{
    skip_blanks(cursor);
    size_t length = strlen(token);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, token, length) != 0) {
        return false;
    }
    cursor->at += length;
    return true;
}

/* a quoted string without escapes, shorter than bytes */
static bool take_string(struct cursor *cursor, char *text, size_t bytes)
{
    skip_blanks(cursor);
    if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"')) {
        return false;
    }
    char quote = *cursor->at++;
    size_t length = 0;
    while (cursor->at < cursor->end && *cursor->at != quote) {
        if (length + 1 >= bytes || *cursor->at == '\\' || *cursor->at == '\0') {
            return false;
        }
        text[length++] = *cursor->at++;
    }
    text[length] = '\0';
    if (cursor->at == cursor->end) {
        return false;
    }
    cursor->at++;
    return true;
}

static bool take_size(struct cursor *cursor, int64_t *value)
{
    skip_blanks(cursor);
    const char *begin = cursor->at;
    int64_t number = 0;
    while (cursor->at < cursor->end && isdigit((unsigned char)*cursor->at)) {
        if (__builtin_mul_overflow(number, (int64_t)10, &number) ||
            __builtin_add_overflow(number, (int64_t)(*cursor->at - '0'), &number)) {
            return false;
        }
        cursor->at++;
    }
    *value = number;
    return cursor->at > begin;
}

static bool take_shape(struct cursor *cursor, struct npy *npy)
{
    if (!take(cursor, "(")) {
        return false;
    }
    npy->rank = 0;
    while (!take(cursor, ")")) {
        if (npy->rank == NPY_RANK_MAX || !take_size(cursor, &npy->shape[npy->rank])) {
            return false;
        }
        npy->rank++;
        if (!take(cursor, ",")) {
            return take(cursor, ")");
        }
    }
    return true;
}

static attune_status set_dtype(const char *descr, struct npy *npy, struct error *error)
{
    if (descr[0] == '>') {
        return error_set(error, ATTUNE_INVALID,
                         "dtype '%s' is big-endian: only little-endian is read; save array.astype('<%s')", descr,
                         descr + 1);
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (descr[0] == '<' && strcmp(descr + 1, dtypes[i].descr) == 0) {
            npy->dtype = (enum npy_dtype)i;
            return ATTUNE_OK;
        }
    }
    return error_set(error, ATTUNE_INVALID,
                     "dtype '%s' is not read: use <f2, <f4, <f8, or <u2 holding the bits of bf16", descr);
}

static attune_status parse_header(const char *text, size_t length, struct npy *npy, struct error *error)
{
    struct cursor cursor = {text, text + length};
    bool have_descr = false, have_order = false, have_shape = false;
    bool good = take(&cursor, "{");
    while (good && !take(&cursor, "}")) {
        char key[16], descr[16];
        good = take_string(&cursor, key, sizeof key) && take(&cursor, ":");
        if (good && strcmp(key, "descr") == 0 && !have_descr) {
            good = have_descr = take_string(&cursor, descr, sizeof descr);
            if (good && set_dtype(descr, npy, error) != ATTUNE_OK) {
                return ATTUNE_INVALID;
            }
        } else if (good && strcmp(key, "fortran_order") == 0 && !have_order) {
            have_order = true;
            if (take(&cursor, "True")) {
                return error_set(error, ATTUNE_INVALID,
                                 "the array is in Fortran order: save numpy.ascontiguousarray(array)");
            }
            good = take(&cursor, "False");
        } else if (good && strcmp(key, "shape") == 0 && !have_shape) {
            good = have_shape = take_shape(&cursor, npy);
        } else {
            good = false;
        }
        if (good && !take(&cursor, ",")) {
            good = take(&cursor, "}");
            break;
        }
    }
    skip_blanks(&cursor);
    if (!good || !have_descr || !have_order || !have_shape || cursor.at != cursor.end) {
        return error_set(error, ATTUNE_INVALID,
                         "the header is not a dict of descr, fortran_order and shape with at most %d axes: is the "
                         "file written by numpy.save?",
                         NPY_RANK_MAX);
    }
    return ATTUNE_OK;
}

static attune_status check_size(struct npy *npy, size_t data_bytes, struct error *error)
{
    npy->elements = 1;
    for (int i = 0; i < npy->rank; i++) {
        if (__builtin_mul_overflow(npy->elements, npy->shape[i], &npy->elements)) {
            return error_set(error, ATTUNE_INVALID, "the product of the shape's %d axes overflows 64 bits", npy->rank);
        }
    }
    uint64_t expected = 0;
    if (__builtin_mul_overflow((uint64_t)npy->elements, (uint64_t)dtypes[npy->dtype].bytes, &expected)) {
        return error_set(error, ATTUNE_INVALID, "the array's size in bytes overflows 64 bits");
    }
    if (expected != data_bytes) {
        return error_set(error, ATTUNE_INVALID, "the header promises %llu bytes of data, the file has %llu: it is %s",
                         (unsigned long long)expected, (unsigned long long)data_bytes,
                         expected > data_bytes ? "truncated" : "longer than its array");
    }
    return ATTUNE_OK;
}

attune_status npy_parse(const void *bytes, size_t length, struct npy *npy, struct error *error)
{
    const unsigned char *file = bytes;
    *npy = (struct npy){0};
    if (length < MAGIC_BYTES + 4 || memcmp(file, magic, MAGIC_BYTES) != 0) {
        return error_set(error, ATTUNE_INVALID, "not a .npy file: it does not start with \\x93NUMPY");
    }
    int version = file[MAGIC_BYTES];
    size_t prefix = version == 1 ? MAGIC_BYTES + 4 : MAGIC_BYTES + 6;
    if (version < 1 || version > 3) {
        return error_set(error, ATTUNE_INVALID, ".npy format version %d is not read: 1 to 3 are", version);
    }
    if (length < prefix) {
        return error_set(error, ATTUNE_INVALID, "the file is truncated inside its header");
    }
    const unsigned char *at = file + MAGIC_BYTES + 2;
    uint64_t header = (uint64_t)at[0] | (uint64_t)at[1] << 8;
    if (version > 1) {
        header |= (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24;
    }
    if (header > NPY_HEADER_BYTES_MAX) {
        return error_set(error, ATTUNE_INVALID, "the header has %llu bytes, at most %d are read",
                         (unsigned long long)header, NPY_HEADER_BYTES_MAX);
    }
    if (length - prefix < header) {
        return error_set(error, ATTUNE_INVALID, "the file is truncated inside its header");
    }
    npy->offset = prefix + header;
    attune_status status = parse_header((const char *)file + prefix, header, npy, error);
    return status == ATTUNE_OK ? check_size(npy, length - npy->offset, error) : status;
}

attune_status npy_read(const char *path, struct buffer *file, struct npy *npy, struct error *error)
{
    attune_status status = file_read(path, FILE_BYTES_MAX, file, error);
    if (status != ATTUNE_OK) {
        return status; /* names the path */
    }
    status = npy_parse(buffer_string(file), file->length, npy, error);
    return status == ATTUNE_OK ? ATTUNE_OK : error_prefix(error, "'%s'", path);
}

attune_status npy_format(enum npy_dtype dtype, int rank, const int64_t *shape, const void *data, struct buffer *file,
                         struct error *error)
{
    struct buffer header = BUFFER_INIT;
    size_t elements = 1;
    buffer_format(&header, "{'descr': '<%s', 'fortran_order': False, 'shape': (", dtypes[dtype].descr);
    for (int i = 0; i < rank; i++) {
        buffer_format(&header, i + 1 < rank ? "%lld, " : (rank == 1 ? "%lld," : "%lld"), (long long)shape[i]);
        elements *= (size_t)shape[i];
    }
    buffer_text(&header, "), }");
    while ((MAGIC_BYTES + 4 + header.length + 1) % DATA_ALIGNMENT != 0 && !header.failed) {
        buffer_text(&header, " ");
    }
    buffer_text(&header, "\n");
    buffer_append(file, magic, MAGIC_BYTES);
    unsigned char prefix[] = {1, 0, (unsigned char)(header.length & 0xff), (unsigned char)(header.length >> 8)};
    buffer_append(file, prefix, sizeof prefix);
    buffer_append(file, buffer_string(&header), header.length);
    buffer_append(file, data, elements * dtypes[dtype].bytes);
    attune_status status = buffer_ok(&header, error);
    buffer_free(&header);
    return status == ATTUNE_OK ? buffer_ok(file, error) : status;
}

attune_status npy_write(const char *path, enum npy_dtype dtype, int rank, const int64_t *shape, const void *data,
                        struct error *error)
{
    struct buffer file = BUFFER_INIT;
    attune_status status = npy_format(dtype, rank, shape, data, &file, error);
    if (status == ATTUNE_OK) {
        status = file_write(path, file.data, file.length, error);
    }
    buffer_free(&file);
    return status;
}

/* Rounds a double's bits to a smaller format in one step (never through float: that would round twice). */
static uint16_t narrow(double value, int exponent_bits, int mantissa_bits)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 63 << 15);
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint16_t infinity = (uint16_t)(((1 << exponent_bits) - 1) << mantissa_bits);
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t fraction = bits & 0xfffffffffffffULL;
    if (exponent == 0x7ff) {
        return (uint16_t)(sign | infinity | (fraction != 0 ? 1 << (mantissa_bits - 1) : 0));
    }
    if (exponent == 0) {
        return sign; /* double subnormals are far below half of any narrow subnormal */
    }
    exponent += bias - 1023;
    uint64_t mantissa = fraction | 1ULL << 52;
    int drop = 52 - mantissa_bits;
    if (exponent < 1) {
        drop += 1 - exponent; /* subnormal: the implicit one moves right */
        exponent = 0;
        if (drop > 60) {
            return sign;
        }
    }
    uint64_t kept = mantissa >> drop;
    uint64_t rest = mantissa & ((1ULL << drop) - 1);
    uint64_t half = 1ULL << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1) != 0);
    /* a carry out of the mantissa lands in the exponent field, which is what rounding up means */
    uint64_t packed = exponent > 0 ? ((uint64_t)(exponent - 1) << mantissa_bits) + kept : kept;
    return (uint16_t)(sign | (packed > infinity ? infinity : packed));
}

uint16_t half_from_double(double value)
{
    return narrow(value, 5, 10);
}

uint16_t bfloat_from_double(double value)
{
    return narrow(value, 8, 7);
}
