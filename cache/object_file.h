/* object_file.h - the bytes of an object's file: a fixed header that is checked field by field, then the payload.
 *
 * Little-endian. The header holds the payload's digest, its own digest and the name it was published under, so that a
 * cut, a flipped bit anywhere and a valid file under another name are all told from a good one. Pure functions: no
 * files here.
 */
#ifndef CACHE_OBJECT_FILE_H
#define CACHE_OBJECT_FILE_H

#include "cache/store.h"

enum { OBJECT_FILE_VERSION = 1, OBJECT_FILE_HEADER_BYTES = 448 };
#define OBJECT_FILE_BYTES_MAX ((size_t)256 << 20)

/* header and payload, appended to `file`. ATTUNE_INVALID when a text of the header is malformed */
attune_status object_file_encode(const struct digest *name, const struct object_header *header, const void *payload,
                                 size_t length, struct buffer *file, struct error *error);

/* ATTUNE_CORRUPT with the failing check; `payload` points into `file`. `header` may be NULL */
attune_status object_file_decode(const struct digest *name, const char *file, size_t length,
                                 struct object_header *header, const char **payload, size_t *payload_bytes,
                                 struct error *error);

#endif
