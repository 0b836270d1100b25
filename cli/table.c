/* table.c - aligned tables; see table.h. */
#include "cli/table.h"

#include "base/control.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static int width_of(const char *text)
{
    int width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

static void add_cell(struct table *table, char *cell)
{
    if (cell == NULL) {
        table->failed = true;
        return;
    }
    if (table->cell_count == table->capacity) {
        int capacity = table->capacity > 0 ? table->capacity * 2 : 64;
        char **cells = realloc(table->cells, (size_t)capacity * sizeof *cells);
        if (cells == NULL) {
            table->failed = true;
            free(cell);
            return;
        }
        table->cells = cells;
        table->capacity = capacity;
    }
    table->cells[table->cell_count++] = cell;
}

void table_begin(struct table *table, const char *headings)
{
    *table = (struct table){0};
    while (headings != NULL && table->columns < TABLE_COLUMNS_MAX) {
        const char *end = strchr(headings, '|');
        size_t length = end != NULL ? (size_t)(end - headings) : strlen(headings);
        bool right = headings[0] == '>';
        table->right[table->columns++] = right;
        add_cell(table, strndup(headings + right, length - right));
        headings = end != NULL ? end + 1 : NULL;
    }
    assert(headings == NULL);
}

void text_make_plain(char *text)
{
    for (char *at = text; *at != '\0'; at++) {
        memset(at, '?', control_length(at));
    }
}

void table_cell(struct table *table, const char *format, ...)
{
    if (table->failed) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    char *cell = NULL;
    if (vasprintf(&cell, format, arguments) < 0) {
        cell = NULL;
    }
    va_end(arguments);
    if (cell != NULL) {
        text_make_plain(cell);
    }
    add_cell(table, cell);
}

/* nothing but empty cells from `column` to the end of the row whose cell `index` is */
static bool is_empty_from(const struct table *table, int index, int column)
{
    for (; column < table->columns; column++, index++) {
        if (table->cells[index][0] != '\0') {
            return false;
        }
    }
    return true;
}

void table_end(struct table *table, FILE *out)
{
    int widths[TABLE_COLUMNS_MAX] = {0};
    int rows = table->columns > 0 ? table->cell_count / table->columns : 0;
    assert(table->failed || table->cell_count == rows * table->columns);
    for (int i = 0; i < rows * table->columns && out != NULL; i++) {
        int width = width_of(table->cells[i]);
        int column = i % table->columns;
        widths[column] = width > widths[column] ? width : widths[column];
    }
    for (int i = 0; i < rows * table->columns && out != NULL; i++) {
        int column = i % table->columns;
        int padding = widths[column] - width_of(table->cells[i]);
        bool last = is_empty_from(table, i + 1, column + 1); /* no blanks at a line's end */
        fprintf(out, "%*s%s%*s", table->right[column] ? padding : 0, "", table->cells[i],
                table->right[column] || last ? 0 : padding, "");
        fputs(last ? "\n" : "  ", out);
        if (last) {
            i += table->columns - 1 - column;
        }
    }
    if (table->failed && out != NULL) {
        fputs("(the table is cut: out of memory)\n", out);
    }
    for (int i = 0; i < table->cell_count; i++) {
        free(table->cells[i]);
    }
    free(table->cells);
    *table = (struct table){0};
}
