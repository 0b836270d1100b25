/* table.h - aligned tables for people. Cells are copied; column widths count code points, not bytes. A failed
 * allocation drops the table's rest and says so when printed. Control characters are shown as '?': names and texts may
 * be a foreign file's. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 16 };

struct table {
    int columns;
    int cell_count;
    int capacity;
    char **cells; /* headings first, row by row */
    bool right[TABLE_COLUMNS_MAX];
    bool failed;
};

/* headings separated by '|'; a heading that starts with '>' aligns its column to the right: "name|>time µs|>TFLOP/s" */
void table_begin(struct table *table, const char *headings);
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* control characters, newline and tab too, become '?' */
void text_make_plain(char *text);
/* prints heading and rows (nothing but the heading when there is none) and frees; out NULL: only frees */
void table_end(struct table *table, FILE *out);

#endif
