/* Frames between library and helper, as both sides read them: header, bounded payload, fields. Several frames may
 * follow each other. What is accepted is built again to the same bytes. */
#include "generator/compiler_protocol.h"
#include "tests/fuzz/fuzz.h"

static void check_message(const struct message *message, uint32_t request, const uint8_t *frame, size_t frame_bytes)
{
    struct buffer again = BUFFER_INIT;
    struct error error = {.message = ""};
    message_begin(&again, message->kind);
    for (int i = 0; i < message->count; i++) {
        const struct message_field *field = &message->fields[i];
        HOLDS(field->bytes[field->length] == '\0', "field %u is not ended", field->key);
        message_add(&again, (enum message_key)field->key, field->bytes, field->length);
        HOLDS(message_find(message, (enum message_key)field->key) != NULL, "field %u is not found", field->key);
    }
    HOLDS(message_end(&again, &error) == ATTUNE_OK, "not built again: %s", error.message);
    message_set_request(&again, request);
    HOLDS(again.length == frame_bytes && memcmp(again.data, frame, frame_bytes) == 0, "another frame");
    for (int key = 0; key <= KEY_MICROSECONDS + 1; key++) {
        HOLDS(strlen(message_text(message, (enum message_key)key)) < frame_bytes, "a text past the frame");
        (void)message_integer(message, (enum message_key)key);
    }
    buffer_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = fuzz_bytes(data, size);
    size_t at = 0;
    while (size - at >= PROTOCOL_HEADER_BYTES) {
        struct message_head head = {0};
        struct message message;
        struct error error = {.message = ""};
        attune_status status = message_header(bytes + at, &head, &error);
        fuzz_check_error(status, &error);
        if (status != ATTUNE_OK) {
            break;
        }
        uint32_t length = head.payload_bytes;
        HOLDS(length <= PROTOCOL_PAYLOAD_BYTES, "a payload of %u bytes", length);
        if (length > size - at - PROTOCOL_HEADER_BYTES) {
            break; /* a reader waits here, until its limit */
        }
        uint8_t *payload = fuzz_bytes(bytes + at + PROTOCOL_HEADER_BYTES, length);
        status = message_parse(head.kind, payload, length, &message, &error);
        fuzz_check_error(status, &error);
        if (status == ATTUNE_OK) {
            check_message(&message, head.request, bytes + at, PROTOCOL_HEADER_BYTES + length);
        }
        free(payload);
        at += PROTOCOL_HEADER_BYTES + length;
    }
    free(bytes);
    return 0;
}
