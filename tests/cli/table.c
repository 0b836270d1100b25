/* Tables line up, by code points. */
#include "cli/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void columns_line_up_whatever_the_bytes(void **state)
{
    (void)state;
    struct table table;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    table_begin(&table, "name|>time µs|note");
    table_cell(&table, "a");
    table_cell(&table, "%.1f", 12.5);
    table_cell(&table, "x");
    table_cell(&table, "longer-é");
    table_cell(&table, "%d", 1000000);
    table_cell(&table, "y");
    table_end(&table, out);
    fclose(out);
    assert_string_equal(text, "name      time µs  note\n"
                              "a            12.5  x\n"
                              "longer-é  1000000  y\n");
    free(text);
}

static void control_characters_do_not_reach_a_terminal(void **state)
{
    (void)state;
    struct table table;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    table_begin(&table, "path");
    table_cell(&table, "journals/\x1b[2J\xc2\x9b\n\t\x7f-é\u202e\u2066");
    table_end(&table, out);
    fclose(out);
    assert_string_equal(text, "path\njournals/?[2J"
                              "??"
                              "??"
                              "?-é??????\n");
    free(text);
}

static void no_line_ends_with_blanks(void **state)
{
    (void)state;
    struct table table;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    table_begin(&table, "name|what|note");
    table_cell(&table, "a");
    table_cell(&table, "long words");
    table_cell(&table, "y");
    table_cell(&table, "b");
    table_cell(&table, "x");
    table_cell(&table, "%s", "");
    table_cell(&table, "c");
    table_cell(&table, "%s", "");
    table_cell(&table, "%s", "");
    table_cell(&table, "d");
    table_cell(&table, "%s", "");
    table_cell(&table, "z");
    table_end(&table, out);
    fclose(out);
    assert_string_equal(text, "name  what        note\n"
                              "a     long words  y\n"
                              "b     x\n"
                              "c\n"
                              "d                 z\n");
    free(text);
}

static void a_table_without_rows_is_its_heading(void **state)
{
    (void)state;
    struct table table;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    table_begin(&table, "one|two");
    table_end(&table, out);
    table_begin(&table, "dropped");
    table_end(&table, NULL);
    fclose(out);
    assert_string_equal(text, "one  two\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up_whatever_the_bytes),
        cmocka_unit_test(control_characters_do_not_reach_a_terminal),
        cmocka_unit_test(no_line_ends_with_blanks),
        cmocka_unit_test(a_table_without_rows_is_its_heading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
