/* The progress line is as wide as it may be, and what it has no room for is left out whole. */
#include "cli/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const parts[] = {"time", "best 123.4 µs", "default 150.2", "right 12", "compiled 40"};

static int line_of(char line[512], int columns, const char *lead)
{
    return progress_line(line, 512, columns, lead, 12, 48, 80.0, parts, sizeof parts / sizeof parts[0]);
}

static void parts_follow_as_far_as_there_is_room(void **state)
{
    (void)state;
    char line[512];
    assert_int_equal(line_of(line, 79, "3/40 llama"), 75);
    assert_string_equal(line, "3/40 llama [##........] 12/48 1:20 left, time, best 123.4 µs, default 150.2");
    line_of(line, 200, "3/40 llama");
    assert_non_null(strstr(line, ", right 12, compiled 40"));
    /* a later part may fit where an earlier one does not */
    assert_int_equal(line_of(line, 72, "3/40 llama"), 70);
    assert_string_equal(line, "3/40 llama [##........] 12/48 1:20 left, time, best 123.4 µs, right 12");
}

static void no_width_cuts_a_word(void **state)
{
    (void)state;
    char line[512], whole[512];
    line_of(whole, 400, "3/40 llama");
    for (int columns = 1; columns < 120; columns++) {
        assert_true(line_of(line, columns, "3/40 llama") <= columns);
        for (const char *at = line; *at != '\0';) { /* every word is one of the whole line's */
            char word[64];
            size_t length = strcspn(at, " ,");
            snprintf(word, sizeof word, "%.*s", (int)length, at);
            const char *found = strstr(whole, word);
            while (found != NULL && found[length] != '\0' && strchr(" ,", found[length]) == NULL) {
                found = strstr(found + 1, word);
            }
            assert_non_null(found);
            at += length;
            at += strspn(at, " ,");
        }
    }
}

static void numbers_past_their_total_draw_a_full_bar(void **state)
{
    (void)state;
    char line[512];
    assert_int_equal(progress_line(line, sizeof line, 80, "", 9, 4, -1.0, NULL, 0), 16);
    assert_string_equal(line, "[##########] 9/4");
    assert_int_equal(progress_line(line, sizeof line, 80, "", 0, 0, -1.0, NULL, 0), 16);
    assert_string_equal(line, "[..........] 0/0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_follow_as_far_as_there_is_room),
        cmocka_unit_test(no_width_cuts_a_word),
        cmocka_unit_test(numbers_past_their_total_draw_a_full_bar),
    };
    return cmocka_run_group_tests_name("cli_progress", tests, NULL, NULL);
}
