/* test_text.c - errors, buffers, digests, locales. */
#include "base/buffer.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/locale.h"
#include "base/text_json.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void error_keeps_status_and_sentence(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(error_set(&error, ATTUNE_INVALID, "heads=%d", 3), ATTUNE_INVALID);
    assert_string_equal(error.message, "heads=3");
    assert_int_equal(error_prefix(&error, "problem %d", 7), ATTUNE_INVALID);
    assert_string_equal(error.message, "problem 7: heads=3");
    assert_int_equal(error_set(&error, ATTUNE_WRONG, "again: %s", error.message),
                     ATTUNE_WRONG); /* its own text as argument */
    assert_string_equal(error.message, "again: problem 7: heads=3");
    assert_int_equal(error_errno(&error, ENOENT, "/x"), ATTUNE_IO);
    assert_string_equal(error.message, "/x: No such file or directory");
    assert_int_equal(error_errno(&error, ENOMEM, "/x"), ATTUNE_NO_MEMORY);
    assert_int_equal(error.status, ATTUNE_NO_MEMORY);
    assert_int_equal(error_no_memory(&error), ATTUNE_NO_MEMORY);
    assert_int_equal(error_set(NULL, ATTUNE_INVALID, "x"), ATTUNE_INVALID);
    assert_int_equal(error_errno(NULL, ENOMEM, "x"), ATTUNE_NO_MEMORY);
}

static void long_messages_are_cut_at_the_end(void **state)
{
    (void)state;
    static char text[3 * ERROR_MESSAGE_BYTES];
    struct error error = {0};
    memset(text, 'x', sizeof text - 1);
    error_set(&error, ATTUNE_INVALID, "%s", text);
    assert_int_equal(strlen(error.message), ERROR_MESSAGE_BYTES - 1);
    error_prefix(&error, "front");
    assert_int_equal(strncmp(error.message, "front: xxx", 10), 0);
    assert_int_equal(strlen(error.message), ERROR_MESSAGE_BYTES - 1);
    error_prefix(&error, "%s", text);
    assert_int_equal(strlen(error.message), ERROR_MESSAGE_BYTES - 1);
    error_errno(&error, ENOENT, "%s", text);
    assert_int_equal(strlen(error.message), ERROR_MESSAGE_BYTES - 1);
}

/* a foreign file's name or text must not write to the reader's terminal, whoever prints the message */
static void quoted_control_characters_are_written_out(void **state)
{
    (void)state;
    struct error error = {0};
    char text[ERROR_MESSAGE_BYTES];
    error_set(&error, ATTUNE_INVALID, "%s",
              "a\x1b[31mb\x7f\r\xc2\x9b"
              "c\n\td\xc3\xa9");
    assert_string_equal(error.message, "a\\x1b[31mb\\x7f\\x0d\\x9b"
                                       "c\n\td\xc3\xa9");
    error_set(&error, ATTUNE_INVALID, "a\u202eb\u200fc\u2069d\u061c");
    assert_string_equal(error.message, "a\\xe2\\x80\\xaeb\\xe2\\x80\\x8fc\\xe2\\x81\\xa9d\\xd8\\x9c");
    error_set(&error, ATTUNE_INVALID, "\u2013 \u2065 \u206a \u202f \u200d"); /* their neighbours */
    assert_string_equal(error.message, "\u2013 \u2065 \u206a \u202f \u200d");
    error_set(&error, ATTUNE_INVALID, "a\x1b");
    error_prefix(&error, "\x07");
    assert_int_equal(strncmp(error.message, "\\x07: a\\x1b", 10), 0);
    memset(text, 1, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set(&error, ATTUNE_INVALID, "%s", text);
    assert_in_range(strlen(error.message), ERROR_MESSAGE_BYTES - 5, ERROR_MESSAGE_BYTES - 1);
    assert_string_equal(error.message + strlen(error.message) - 4, "\\x01");
}

static void any_text_is_a_json_string(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"plain", "plain"}, {"\xc3\xa9", "\xc3\xa9"}, {"a\xc3", "a?"}, {"\xff\xc3\xa9 b", "??? b"}, {"", ""}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_t *json = text_to_json(texts[i][0]);
        assert_string_equal(json_string_value(json), texts[i][1]);
        json_decref(json);
    }
}

static void every_status_has_a_name(void **state)
{
    (void)state;
    for (int i = ATTUNE_OK; i <= ATTUNE_INTERNAL; i++) {
        assert_string_not_equal(attune_status_name((attune_status)i), "unknown status");
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(attune_status_name((attune_status)i), attune_status_name((attune_status)j));
        }
    }
    assert_string_equal(attune_status_name((attune_status)99), "unknown status");
    assert_string_equal(attune_status_name((attune_status)-1), "unknown status");
}

static void *warn(void *data)
{
    (void)data;
    warn_once("test.threads", "two\nlines");
    return NULL;
}

static void warnings_come_once_for_a_key_on_one_line(void **state)
{
    (void)state;
    char text[512] = "";
    int ends[2], before = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        pthread_create(&threads[i], NULL, warn, NULL);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    warn_once("test.other", "path %s", "/x");
    tell_line("begins\t%d", 1);
    tell_line("begins\t%d", 1);
    setenv("ATTUNE_QUIET", "1", 1);
    warn_once("test.quiet", "not seen");
    tell_line("not seen");
    unsetenv("ATTUNE_QUIET");
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[1]);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    assert_string_equal(text,
                        "attune: warning: two lines\nattune: warning: path /x\nattune: begins 1\nattune: begins 1\n");
}

static void buffers_grow_and_stay_terminated(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT;
    assert_string_equal(buffer_string(&buffer), "");
    buffer_append(&buffer, NULL, 0);
    buffer_text(&buffer, "ab");
    buffer_append(&buffer, "\0c", 2);
    assert_int_equal(buffer.length, 4);
    assert_memory_equal(buffer.data, "ab\0c", 5);
    buffer_clear(&buffer);
    assert_string_equal(buffer_string(&buffer), "");
    for (int i = 0; i < 5000; i++) {
        buffer_format(&buffer, "%04d,", i);
    }
    assert_int_equal(buffer.length, 25000);
    assert_int_equal(strlen(buffer.data), 25000);
    assert_memory_equal(buffer.data + 24995, "4999,", 6);
    buffer_format(&buffer, "%s", "");
    assert_int_equal(buffer.length, 25000);
    assert_int_equal(buffer_ok(&buffer, NULL), ATTUNE_OK);
    char *taken = buffer_take(&buffer);
    assert_int_equal(strlen(taken), 25000);
    assert_int_equal(buffer.length, 0);
    free(taken);
    taken = buffer_take(&buffer); /* an empty one gives an empty string */
    assert_string_equal(taken, "");
    free(taken);
    /* formatting that exactly fills, and passes by one, the capacity */
    for (int length = 60; length < 70; length++) {
        buffer_clear(&buffer);
        buffer_format(&buffer, "%*d", length, 7);
        assert_int_equal(buffer.length, length);
        assert_int_equal(buffer.data[length - 1], '7');
    }
    buffer_free(&buffer);
}

static void failed_allocation_sticks(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT;
    struct error error = {0};
    buffer_text(&buffer, "kept");
    assert_false(buffer_reserve(&buffer, SIZE_MAX / 2 + 1));
    buffer_text(&buffer, "more");
    buffer_format(&buffer, "more");
    assert_int_equal(buffer.length, 4);
    assert_int_equal(buffer_ok(&buffer, &error), ATTUNE_NO_MEMORY);
    assert_int_equal(error.status, ATTUNE_NO_MEMORY);
    assert_null(buffer_take(&buffer));
    assert_int_equal(buffer_ok(&buffer, NULL), ATTUNE_OK); /* usable again */
    buffer_text(&buffer, "x");
    assert_string_equal(buffer_string(&buffer), "x");
    buffer_free(&buffer);
}

static void digest_is_blake2b_256(void **state)
{
    (void)state;
    struct digest digest;
    char hex[DIGEST_HEX_BYTES];
    digest_of("", 0, &digest);
    digest_hex(&digest, hex);
    assert_string_equal(hex, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"); /* Python's hashlib */
    digest_of("abc", 3, &digest);
    digest_hex(&digest, hex);
    assert_string_equal(hex, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

static void digest_fields_keep_their_borders(void **state)
{
    (void)state;
    struct digest_state first, second, pieces;
    struct digest a, b;
    digest_begin(&first);
    digest_field(&first, "ab", 2);
    digest_field(&first, "c", 1);
    digest_begin(&second);
    digest_field(&second, "a", 1);
    digest_field(&second, "bc", 2);
    digest_end(&first, &a);
    digest_end(&second, &b);
    assert_memory_not_equal(a.bytes, b.bytes, DIGEST_BYTES);
    digest_begin(&pieces);
    digest_update(&pieces, "a", 1);
    digest_update(&pieces, NULL, 0);
    digest_update(&pieces, "bc", 2);
    digest_end(&pieces, &a);
    digest_of("abc", 3, &b);
    assert_memory_equal(a.bytes, b.bytes, DIGEST_BYTES);
}

static void locale_nests_and_comes_back(void **state)
{
    (void)state;
    locale_t before = uselocale((locale_t)0);
    locale_t outer = locale_enter();
    locale_t inner = locale_enter();
    locale_leave(inner);
    locale_leave(outer);
    assert_true(uselocale((locale_t)0) == before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_keeps_status_and_sentence),
        cmocka_unit_test(long_messages_are_cut_at_the_end),
        cmocka_unit_test(quoted_control_characters_are_written_out),
        cmocka_unit_test(any_text_is_a_json_string),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(warnings_come_once_for_a_key_on_one_line),
        cmocka_unit_test(buffers_grow_and_stay_terminated),
        cmocka_unit_test(failed_allocation_sticks),
        cmocka_unit_test(digest_is_blake2b_256),
        cmocka_unit_test(digest_fields_keep_their_borders),
        cmocka_unit_test(locale_nests_and_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
