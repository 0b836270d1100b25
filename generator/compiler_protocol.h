/* compiler_protocol.h - frames between the pool and attune-helper, over the helper's stdin and stdout.
 *
 * A frame is a 20-byte header (magic, version, kind, payload length, request number; little-endian words) and a payload
 * of fields (key, length, bytes, NUL). A reply carries the number of its request: an answer that comes late, or twice,
 * never passes for the answer to another question. Both sides refuse a frame over PROTOCOL_PAYLOAD_BYTES before reading
 * its payload, and every length inside a payload is checked against what is left of it. The protocol is private to one
 * build of the library and its programs: another version is refused, never interpreted.
 * autotune/measurer_protocol.h builds on the same frames.
 */
#ifndef GENERATOR_COMPILER_PROTOCOL_H
#define GENERATOR_COMPILER_PROTOCOL_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROTOCOL_VERSION = 2,
    PROTOCOL_HEADER_BYTES = 20,
    PROTOCOL_PAYLOAD_BYTES = 64 << 20,
    PROTOCOL_SOURCE_BYTES = 16 << 20, /* of one compile's source */
    PROTOCOL_LOG_BYTES = 1 << 20,     /* of one compile's log */
    PROTOCOL_FIELDS_MAX = 16
};

enum message_kind {
    MESSAGE_HELLO = 1,   /* helper, once, when it is ready */
    MESSAGE_COMPILE = 2, /* source -> object, log, compiler, identity */
    MESSAGE_IDENTITY = 3,
    MESSAGE_DISASSEMBLE = 4,
    MESSAGE_SURVEY = 5,
    MESSAGE_REPLY = 6
};

enum message_key {
    KEY_STATUS = 1, /* integer: attune_status of the reply */
    KEY_TEXT = 2,   /* the reply's message; disassembly; survey's JSON */
    KEY_TARGET = 3,
    KEY_COMPILER = 4,    /* integer: enum compiler_kind; in replies the compiler's name */
    KEY_SANITIZE = 5,    /* integer: enum sanitize */
    KEY_CODE_OBJECT = 6, /* integer */
    KEY_SOURCE = 7,
    KEY_OBJECT = 8,
    KEY_LOG = 9,
    KEY_IDENTITY = 10,
    KEY_MICROSECONDS = 11
};

struct message {
    uint32_t kind;
    int count;
    struct message_field {
        uint32_t key;
        uint32_t length;
        const char *bytes; /* inside the payload, NUL-terminated past its length */
    } fields[PROTOCOL_FIELDS_MAX];
};

/* building: begin, add..., end; after end the buffer holds one whole frame. An over-long frame fails in end. */
void message_begin(struct buffer *frame, uint32_t kind);
void message_add(struct buffer *frame, uint32_t key, const void *bytes, size_t length);
void message_add_text(struct buffer *frame, uint32_t key, const char *text);
void message_add_integer(struct buffer *frame, uint32_t key, int64_t value);
attune_status message_end(struct buffer *frame, struct error *error);

/* into a frame that is whole; 0 in those that nobody asked for */
void message_set_request(struct buffer *frame, uint32_t request);

struct message_head {
    uint32_t kind;
    uint32_t payload_bytes;
    uint32_t request;
};
/* ATTUNE_CORRUPT for a wrong magic, ATTUNE_UNSUPPORTED for another version, ATTUNE_INVALID past the limit */
attune_status message_header(const void *header, struct message_head *head, struct error *error);
/* fields point into `payload`, which must outlive the message */
attune_status message_parse(uint32_t kind, const void *payload, size_t length, struct message *message,
                            struct error *error);

const struct message_field *message_find(const struct message *message, uint32_t key); /* or NULL */
const char *message_text(const struct message *message, uint32_t key);                 /* "" when absent */
int64_t message_integer(const struct message *message, uint32_t key);                  /* 0 when absent */

#endif
