/* msgpack.h - a reader of MessagePack, as much of it as AMDGPU metadata uses. Values are taken in order from a cursor.
 *
 * The first broken value sets `broken` and empties the cursor: later reads give nothing, so that a caller checks once.
 * Source of the format: the MessagePack specification. No recursion, no allocation.
 */
#ifndef BASE_MSGPACK_H
#define BASE_MSGPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msgpack {
    const uint8_t *at, *end;
    bool broken;
};

void msgpack_skip(struct msgpack *cursor); /* one value with all that is in it */

/* The next value, when it is of the kind; else it is skipped and the result is false. */
bool msgpack_map(struct msgpack *cursor, uint32_t *pairs);
bool msgpack_array(struct msgpack *cursor, uint32_t *entries);
bool msgpack_string(struct msgpack *cursor, const char **text, size_t *length); /* not NUL-terminated */
bool msgpack_integer(struct msgpack *cursor, int64_t *value);                   /* also unsigned ones below 2^63 */

#endif
