/* msgpack.c - see the header. */
#include "base/msgpack.h"

enum kind { KIND_OTHER, KIND_INTEGER, KIND_STRING, KIND_ARRAY, KIND_MAP };

/* a value's head: what it is, its number (value, length, entries or pairs), and how many payload bytes follow */
struct head {
    enum kind kind;
    uint64_t number;
    uint64_t payload;
};

static void fail(struct msgpack *cursor)
{
    cursor->broken = true;
    cursor->at = cursor->end;
}

static uint64_t take(struct msgpack *cursor, size_t bytes)
{
    uint64_t value = 0;
    if ((size_t)(cursor->end - cursor->at) < bytes) {
        fail(cursor);
        return 0;
    }
    for (size_t i = 0; i < bytes; i++) {
        value = value << 8 | *cursor->at++;
    }
    return value;
}

/* n bytes of two's complement widened */
static uint64_t widen(uint64_t value, size_t bytes)
{
    uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
    return (value ^ sign) - sign;
}

/* codes 0xc0 to 0xdf */
static struct head take_long_head(struct msgpack *cursor, uint8_t code)
{
    static const uint8_t widths[] = {1, 2, 4, 8};
    struct head head = {KIND_OTHER, 0, 0};
    if (code >= 0xcc && code <= 0xcf) { /* unsigned 8 to 64 */
        head = (struct head){KIND_INTEGER, take(cursor, widths[code - 0xcc]), 0};
        head.kind = head.number > INT64_MAX ? KIND_OTHER : KIND_INTEGER;
    } else if (code >= 0xd0 && code <= 0xd3) { /* signed */
        uint8_t width = widths[code - 0xd0];
        uint64_t value = take(cursor, width);
        head = (struct head){KIND_INTEGER, width == 8 ? value : widen(value, width), 0};
    } else if (code >= 0xd9 && code <= 0xdb) { /* strings */
        uint64_t length = take(cursor, widths[code - 0xd9]);
        head = (struct head){KIND_STRING, length, length};
    } else if (code == 0xdc || code == 0xdd) {
        head = (struct head){KIND_ARRAY, take(cursor, widths[code - 0xdc + 1]), 0};
    } else if (code == 0xde || code == 0xdf) {
        head = (struct head){KIND_MAP, take(cursor, widths[code - 0xde + 1]), 0};
    } else if (code >= 0xc4 && code <= 0xc6) { /* binary */
        head.payload = take(cursor, widths[code - 0xc4]);
    } else if (code >= 0xc7 && code <= 0xc9) { /* extensions: a type byte more */
        head.payload = take(cursor, widths[code - 0xc7]) + 1;
    } else if (code >= 0xd4 && code <= 0xd8) { /* fixed extensions of 1 to 16 bytes */
        head.payload = (UINT64_C(1) << (code - 0xd4)) + 1;
    } else if (code == 0xca || code == 0xcb) { /* floats */
        head.payload = code == 0xca ? 4 : 8;
    } else if (code == 0xc1) { /* never used */
        fail(cursor);
    }
    return head;
}

static struct head take_head(struct msgpack *cursor)
{
    uint8_t code = (uint8_t)take(cursor, 1);
    struct head head;
    if (cursor->broken) {
        return (struct head){KIND_OTHER, 0, 0};
    }
    if (code < 0x80) {
        head = (struct head){KIND_INTEGER, code, 0};
    } else if (code < 0x90) {
        head = (struct head){KIND_MAP, code & 15, 0};
    } else if (code < 0xa0) {
        head = (struct head){KIND_ARRAY, code & 15, 0};
    } else if (code < 0xc0) {
        head = (struct head){KIND_STRING, code & 31, code & 31};
    } else if (code < 0xe0) {
        head = take_long_head(cursor, code);
    } else {
        head = (struct head){KIND_INTEGER, widen(code, 1), 0};
    }
    if (head.payload > (uint64_t)(cursor->end - cursor->at)) {
        fail(cursor);
    }
    return cursor->broken ? (struct head){KIND_OTHER, 0, 0} : head;
}

/* `pending` values are still to be passed over; each takes a byte at least, so the work is bounded by the bytes */
static void skip_values(struct msgpack *cursor, uint64_t pending)
{
    while (pending > 0 && !cursor->broken) {
        struct head head = take_head(cursor);
        cursor->at += head.payload;
        pending--;
        if (head.kind == KIND_ARRAY) {
            pending += head.number;
        } else if (head.kind == KIND_MAP) {
            pending += 2 * head.number;
        }
    }
}

void msgpack_skip(struct msgpack *cursor)
{
    skip_values(cursor, 1);
}

static bool take_kind(struct msgpack *cursor, enum kind kind, struct head *head)
{
    const uint8_t *start = cursor->at;
    *head = take_head(cursor);
    if (cursor->broken) {
        return false;
    }
    if (head->kind != kind) {
        cursor->at = start;
        msgpack_skip(cursor);
        return false;
    }
    return true;
}

bool msgpack_map(struct msgpack *cursor, uint32_t *pairs)
{
    struct head head;
    if (!take_kind(cursor, KIND_MAP, &head)) {
        return false;
    }
    *pairs = (uint32_t)head.number;
    return true;
}

bool msgpack_array(struct msgpack *cursor, uint32_t *entries)
{
    struct head head;
    if (!take_kind(cursor, KIND_ARRAY, &head)) {
        return false;
    }
    *entries = (uint32_t)head.number;
    return true;
}

bool msgpack_string(struct msgpack *cursor, const char **text, size_t *length)
{
    struct head head;
    if (!take_kind(cursor, KIND_STRING, &head)) {
        return false;
    }
    *text = (const char *)cursor->at;
    *length = (size_t)head.number;
    cursor->at += head.payload;
    return true;
}

bool msgpack_integer(struct msgpack *cursor, int64_t *value)
{
    struct head head;
    if (!take_kind(cursor, KIND_INTEGER, &head)) {
        return false;
    }
    *value = (int64_t)head.number;
    return true;
}
