/* buffer.h - a growable run of bytes that is always NUL-terminated past its length.
 *
 * A failed allocation sets `failed` and turns later appends into no-ops, so that a caller checks once at the end with
 * buffer_ok(). Not thread-safe.
 */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct buffer {
    char *data; /* NULL until the first append */
    size_t length;
    size_t capacity;
    bool failed;
};

#define BUFFER_INIT                                                                                                    \
    {                                                                                                                  \
        NULL, 0, 0, false                                                                                              \
    }

void buffer_free(struct buffer *buffer);  /* leaves it empty and usable */
void buffer_clear(struct buffer *buffer); /* length 0, memory kept */
void buffer_append(struct buffer *buffer, const void *bytes, size_t length);
void buffer_text(struct buffer *buffer, const char *text);
void buffer_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool buffer_reserve(struct buffer *buffer, size_t capacity);
attune_status buffer_ok(const struct buffer *buffer, struct error *error); /* ATTUNE_NO_MEMORY once an append failed */
const char *buffer_string(const struct buffer *buffer);                    /* never NULL */
char *buffer_take(struct buffer *buffer); /* malloc'ed, NUL-terminated, the caller frees; buffer is empty afterwards;
                                             NULL after a failure */

#endif
