/* protocol.c - frames: what is sent is read, and no length or count in a frame is believed. */
#include "generator/compiler_protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs those first */
#include <cmocka.h>

static void fields_come_back_as_sent(void **state)
{
    (void)state;
    struct buffer frame = BUFFER_INIT;
    struct message message;
    struct message_head head = {0};
    message_begin(&frame, MESSAGE_COMPILE);
    message_add_text(&frame, KEY_TARGET, "gfx906");
    message_add_integer(&frame, KEY_STATUS, -7);
    message_add(&frame, KEY_OBJECT, "a\0b", 3);
    message_add(&frame, KEY_LOG, NULL, 0);
    assert_int_equal(message_end(&frame, NULL), ATTUNE_OK);
    message_set_request(&frame, 0xfffffff1);
    assert_int_equal(message_header(frame.data, &head, NULL), ATTUNE_OK);
    assert_int_equal(head.kind, MESSAGE_COMPILE);
    assert_int_equal(head.request, 0xfffffff1);
    assert_int_equal(head.payload_bytes, frame.length - PROTOCOL_HEADER_BYTES);
    assert_int_equal(message_parse(head.kind, frame.data + PROTOCOL_HEADER_BYTES, head.payload_bytes, &message, NULL),
                     ATTUNE_OK);
    assert_string_equal(message_text(&message, KEY_TARGET), "gfx906");
    assert_int_equal(message_integer(&message, KEY_STATUS), -7);
    assert_int_equal(message_find(&message, KEY_OBJECT)->length, 3);
    assert_memory_equal(message_find(&message, KEY_OBJECT)->bytes, "a\0b", 3);
    assert_int_equal(message_find(&message, KEY_LOG)->length, 0);
    assert_null(message_find(&message, KEY_SOURCE));
    assert_string_equal(message_text(&message, KEY_SOURCE), "");
    buffer_free(&frame);
}

static void wrong_headers_are_refused(void **state)
{
    (void)state;
    struct buffer frame = BUFFER_INIT;
    struct message_head head = {0};
    uint32_t words[PROTOCOL_HEADER_BYTES / 4];
    struct error error;
    message_begin(&frame, MESSAGE_HELLO);
    assert_int_equal(message_end(&frame, NULL), ATTUNE_OK);
    memcpy(words, frame.data, sizeof words);
    words[0] ^= 1;
    assert_int_equal(message_header(words, &head, &error), ATTUNE_CORRUPT);
    words[0] ^= 1;
    words[1] = PROTOCOL_VERSION + 1;
    assert_int_equal(message_header(words, &head, &error), ATTUNE_UNSUPPORTED);
    assert_non_null(strstr(error.message, "same release"));
    words[1] = PROTOCOL_VERSION;
    words[3] = PROTOCOL_PAYLOAD_BYTES + 1;
    assert_int_equal(message_header(words, &head, &error), ATTUNE_INVALID);
    words[3] = PROTOCOL_PAYLOAD_BYTES;
    assert_int_equal(message_header(words, &head, &error), ATTUNE_OK);
    buffer_free(&frame);
}

static void a_frame_over_the_limit_is_not_built(void **state)
{
    (void)state;
    struct buffer frame = BUFFER_INIT;
    char *big = calloc(1, PROTOCOL_PAYLOAD_BYTES);
    assert_non_null(big);
    message_begin(&frame, MESSAGE_REPLY);
    message_add(&frame, KEY_OBJECT, big, PROTOCOL_PAYLOAD_BYTES);
    assert_int_equal(message_end(&frame, NULL), ATTUNE_INVALID);
    buffer_free(&frame);
    free(big);
}

/* every prefix and every changed byte of a good payload: refused or read, never outside the payload (sanitizers watch)
 */
static void damaged_payloads_stay_inside(void **state)
{
    (void)state;
    struct buffer frame = BUFFER_INIT;
    struct message message;
    message_begin(&frame, MESSAGE_REPLY);
    message_add_text(&frame, KEY_TARGET, "gfx906");
    message_add_integer(&frame, KEY_STATUS, 3);
    message_add_text(&frame, KEY_LOG, "some log");
    assert_int_equal(message_end(&frame, NULL), ATTUNE_OK);
    size_t whole = frame.length - PROTOCOL_HEADER_BYTES;
    int refused = 0;
    for (size_t length = 1; length <= whole; length++) {
        char *copy = malloc(length);
        assert_non_null(copy);
        memcpy(copy, frame.data + PROTOCOL_HEADER_BYTES, length);
        refused += message_parse(MESSAGE_REPLY, copy, length, &message, NULL) != ATTUNE_OK;
        for (size_t i = 0; i < length; i++) {
            copy[i] = (char)(copy[i] ^ 0xff);
            if (message_parse(MESSAGE_REPLY, copy, length, &message, NULL) == ATTUNE_OK) {
                (void)strlen(message_text(&message, KEY_TARGET));
                (void)message_integer(&message, KEY_STATUS);
            }
            copy[i] = (char)(copy[i] ^ 0xff);
        }
        free(copy);
    }
    assert_int_equal(refused, (int)whole - 3);
    buffer_free(&frame);
}

static void too_many_fields_are_refused(void **state)
{
    (void)state;
    struct buffer frame = BUFFER_INIT;
    struct message message;
    message_begin(&frame, MESSAGE_REPLY);
    for (int i = 0; i <= PROTOCOL_FIELDS_MAX; i++) {
        message_add_text(&frame, KEY_TEXT, "x");
    }
    assert_int_equal(message_end(&frame, NULL), ATTUNE_OK);
    assert_int_equal(message_parse(MESSAGE_REPLY, frame.data + PROTOCOL_HEADER_BYTES,
                                   frame.length - PROTOCOL_HEADER_BYTES, &message, NULL),
                     ATTUNE_CORRUPT);
    buffer_free(&frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_come_back_as_sent),
        cmocka_unit_test(wrong_headers_are_refused),
        cmocka_unit_test(a_frame_over_the_limit_is_not_built),
        cmocka_unit_test(damaged_payloads_stay_inside),
        cmocka_unit_test(too_many_fields_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
