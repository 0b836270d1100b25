/* npy.h - NumPy's .npy files: what `attune run` reads and writes.
 *
 * Little-endian, C order, dtypes f2 f4 f8, and u2 for bf16's bits. Input is untrusted: the header is at most 64 KiB,
 * every length is checked before it is used, and data must fill the file exactly. Format: NEP 1, versions 1.0 to 3.0.
 */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdint.h>

enum { NPY_RANK_MAX = 8, NPY_HEADER_BYTES_MAX = 65536 };

enum npy_dtype { NPY_F2, NPY_F4, NPY_F8, NPY_U2 };

struct npy {
    enum npy_dtype dtype;
    int rank;
    int64_t shape[NPY_RANK_MAX];
    int64_t elements;
    size_t offset; /* of the data within the bytes parsed */
};

const char *npy_dtype_name(enum npy_dtype dtype); /* "float16", "float32", "float64", "uint16 (bf16)" */
size_t npy_dtype_bytes(enum npy_dtype dtype);

/* header and lengths of a whole file in memory; the data is at bytes + npy->offset */
attune_status npy_parse(const void *bytes, size_t length, struct npy *npy, struct error *error);
/* the file's bytes stay in `file`; messages start with the path */
attune_status npy_read(const char *path, struct buffer *file, struct npy *npy, struct error *error);
/* a whole file, appended to `file`; rank at most NPY_RANK_MAX, the shape's bytes are all in `data` */
attune_status npy_format(enum npy_dtype dtype, int rank, const int64_t *shape, const void *data, struct buffer *file,
                         struct error *error);
attune_status npy_write(const char *path, enum npy_dtype dtype, int rank, const int64_t *shape, const void *data,
                        struct error *error);

/* round to nearest even; overflow gives infinity, NaN stays NaN (quiet) */
uint16_t half_from_double(double value);
uint16_t bfloat_from_double(double value);

#endif
