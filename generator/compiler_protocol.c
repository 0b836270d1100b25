/* compiler_protocol.c - building and checking frames; no input or output here. */
#include "generator/compiler_protocol.h"

#include <string.h>

static const uint32_t protocol_magic = 0x484e5441; /* "ATNH" */

void message_begin(struct buffer *frame, uint32_t kind)
{
    uint32_t header[PROTOCOL_HEADER_BYTES / 4] = {protocol_magic, PROTOCOL_VERSION, kind, 0, 0};
    buffer_clear(frame);
    buffer_append(frame, header, sizeof header);
}

void message_add(struct buffer *frame, uint32_t key, const void *bytes, size_t length)
{
    if (length > PROTOCOL_PAYLOAD_BYTES) {
        frame->failed = true;
        return;
    }
    uint32_t head[2] = {key, (uint32_t)length};
    buffer_append(frame, head, sizeof head);
    if (length > 0) {
        buffer_append(frame, bytes, length);
    }
    buffer_append(frame, "", 1);
}

void message_add_text(struct buffer *frame, uint32_t key, const char *text)
{
    message_add(frame, key, text, strlen(text));
}

void message_add_integer(struct buffer *frame, uint32_t key, int64_t value)
{
    message_add(frame, key, &value, sizeof value);
}

attune_status message_end(struct buffer *frame, struct error *error)
{
    attune_status status = buffer_ok(frame, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    size_t payload = frame->length - PROTOCOL_HEADER_BYTES;
    if (payload > PROTOCOL_PAYLOAD_BYTES) {
        return error_set(error, ATTUNE_INVALID,
                         "a message of %zu bytes to or from a program of attune is over the limit of %d", payload,
                         PROTOCOL_PAYLOAD_BYTES);
    }
    uint32_t length = (uint32_t)payload;
    memcpy(frame->data + 12, &length, sizeof length);
    return ATTUNE_OK;
}

void message_set_request(struct buffer *frame, uint32_t request)
{
    memcpy(frame->data + 16, &request, sizeof request);
}

attune_status message_header(const void *header, struct message_head *head, struct error *error)
{
    uint32_t words[PROTOCOL_HEADER_BYTES / 4];
    memcpy(words, header, sizeof words);
    if (words[0] != protocol_magic) {
        return error_set(error, ATTUNE_CORRUPT, "the bytes read are no message of attune's programs");
    }
    if (words[1] != PROTOCOL_VERSION) {
        return error_set(
            error, ATTUNE_UNSUPPORTED,
            "the other side speaks version %u of the helper protocol, this one version %d: install library "
            "and programs of the same release",
            words[1], PROTOCOL_VERSION);
    }
    if (words[3] > PROTOCOL_PAYLOAD_BYTES) {
        return error_set(error, ATTUNE_INVALID,
                         "a message of %u bytes to or from a program of attune is over the limit of %d", words[3],
                         PROTOCOL_PAYLOAD_BYTES);
    }
    *head = (struct message_head){words[2], words[3], words[4]};
    return ATTUNE_OK;
}

attune_status message_parse(uint32_t kind, const void *payload, size_t length, struct message *message,
                            struct error *error)
{
    const char *bytes = payload;
    size_t at = 0;
    message->kind = kind;
    message->count = 0;
    while (at < length) {
        uint32_t head[2];
        if (length - at < sizeof head) {
            return error_set(error, ATTUNE_CORRUPT, "a message ends inside a field's head at byte %zu", at);
        }
        memcpy(head, bytes + at, sizeof head);
        at += sizeof head;
        if (length - at <= head[1] || bytes[at + head[1]] != '\0') {
            return error_set(error, ATTUNE_CORRUPT, "field %u of a message says %u bytes, %zu are left", head[0],
                             head[1], length - at);
        }
        if (message->count == PROTOCOL_FIELDS_MAX) {
            return error_set(error, ATTUNE_CORRUPT, "a message has more than %d fields", PROTOCOL_FIELDS_MAX);
        }
        message->fields[message->count++] = (struct message_field){head[0], head[1], bytes + at};
        at += (size_t)head[1] + 1;
    }
    return ATTUNE_OK;
}

const struct message_field *message_find(const struct message *message, uint32_t key)
{
    for (int i = 0; i < message->count; i++) {
        if (message->fields[i].key == key) {
            return &message->fields[i];
        }
    }
    return NULL;
}

const char *message_text(const struct message *message, uint32_t key)
{
    const struct message_field *field = message_find(message, key);
    return field != NULL ? field->bytes : "";
}

int64_t message_integer(const struct message *message, uint32_t key)
{
    const struct message_field *field = message_find(message, key);
    int64_t value = 0;
    if (field != NULL && field->length == sizeof value) {
        memcpy(&value, field->bytes, sizeof value);
    }
    return value;
}
