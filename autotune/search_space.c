/* search_space.c - candidates to rows of codes. */
#include "autotune/search_space.h"

#include "base/locale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* the column of a parameter, -1 when there is none */
static int find_column(const struct search_space *space, const char *name)
{
    for (int c = 0; c < space->columns; c++) {
        if (strcmp(space->column[c].name, name) == 0) {
            return c;
        }
    }
    return -1;
}

static void add_column(struct search_space *space, const char *name)
{
    if (find_column(space, name) < 0 && space->columns < SEARCH_COLUMNS_MAX) {
        struct search_column *column = &space->column[space->columns++];
        memcpy(column->name, name, strlen(name) + 1); /* both are FIELD_NAME_BYTES */
        column->codes = 1;
    }
}

static int find_code(struct search_column *column, const char *value)
{
    for (int code = 1; code < column->codes; code++) {
        if (strcmp(column->values[code], value) == 0) {
            return code;
        }
    }
    if (column->codes == SEARCH_CODES_MAX) {
        return SEARCH_CODES_MAX - 1;
    }
    memcpy(column->values[column->codes], value, strlen(value) + 1); /* both are CANDIDATE_VALUE_BYTES */
    return column->codes++;
}

static void find_scale(struct search_column *column)
{
    column->ordered = column->codes > 1;
    for (int code = 1; code < column->codes; code++) {
        char *end;
        double number = strtod(column->values[code], &end);
        if (*end != '\0' || !(number > 0.0) || !isfinite(number)) {
            column->ordered = false;
            return;
        }
        column->scale[code] = log2(number);
    }
}

/* Columns of all candidates must be known before the first row has its length. */
static void find_columns(struct search_space *space, const struct candidate_list *list)
{
    const struct candidate *before = NULL;
    add_column(space, "");
    for (int i = 0; i < list->count; i++) {
        const struct candidate *one = &list->items[i];
        if (before == NULL || strcmp(one->template_name, before->template_name) != 0) {
            for (int p = 0; p < one->parameter_count; p++) {
                add_column(space, one->parameters[p].name);
            }
        }
        before = one;
    }
}

attune_status search_space_create(const struct candidate_list *list, struct search_space *space, struct error *error)
{
    *space = (struct search_space){.count = list->count};
    space->column = calloc(SEARCH_COLUMNS_MAX, sizeof *space->column);
    if (space->column == NULL) {
        return error_no_memory(error);
    }
    find_columns(space, list);
    space->codes = calloc((size_t)list->count * (size_t)space->columns, 1);
    if (space->codes == NULL) {
        search_space_free(space);
        return error_no_memory(error);
    }
    for (int i = 0; i < list->count; i++) {
        const struct candidate *one = &list->items[i];
        uint8_t *row = space->codes + (size_t)i * (size_t)space->columns;
        row[0] = (uint8_t)find_code(&space->column[0], one->template_name);
        for (int p = 0; p < one->parameter_count; p++) {
            int c = find_column(space, one->parameters[p].name);
            if (c > 0) {
                row[c] = (uint8_t)find_code(&space->column[c], one->parameters[p].value);
            }
        }
    }
    locale_t caller = locale_enter();
    for (int c = 0; c < space->columns; c++) {
        find_scale(&space->column[c]);
    }
    locale_leave(caller);
    return ATTUNE_OK;
}

void search_space_free(struct search_space *space)
{
    free(space->column);
    free(space->codes);
    *space = (struct search_space){0};
}

int search_space_distance(const struct search_space *space, int a, int b)
{
    const uint8_t *left = search_space_row(space, a), *right = search_space_row(space, b);
    int distance = 0;
    for (int c = 0; c < space->columns; c++) {
        distance += left[c] != right[c];
    }
    return distance;
}

double search_space_step(const struct search_column *column, int a, int b)
{
    if (a == b) {
        return 0.0;
    }
    if (column->ordered && a != SEARCH_ABSENT && b != SEARCH_ABSENT) {
        return fabs(column->scale[a] - column->scale[b]);
    }
    return 1.0;
}
