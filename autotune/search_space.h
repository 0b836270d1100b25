/* search_space.h - a list of candidates as a table of small numbers: a row each, a column for every parameter.
 *
 * Columns go by name over all templates; the template is a column of its own, and a candidate without a parameter has
 * ABSENT there. Values of a column that are all numbers above 0 keep their order: they lie on a logarithmic scale.
 */
#ifndef AUTOTUNE_SEARCH_SPACE_H
#define AUTOTUNE_SEARCH_SPACE_H

#include "generator/generator.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SEARCH_COLUMNS_MAX = 64, /* further parameters are not told apart: the search knows less, and stays right */
    SEARCH_CODES_MAX = 64,   /* values of a column; further ones share the last code */
    SEARCH_ABSENT = 0
};

struct search_column {
    char name[FIELD_NAME_BYTES];                          /* "" for the template */
    int codes;                                            /* values seen, and one more for ABSENT */
    char values[SEARCH_CODES_MAX][CANDIDATE_VALUE_BYTES]; /* by code; [SEARCH_ABSENT] is "" */
    bool ordered;                                         /* numbers: log2 of them in `scale` */
    double scale[SEARCH_CODES_MAX];
};

struct search_space {
    int count, columns;
    struct search_column *column;
    uint8_t *codes; /* row by row */
};

attune_status search_space_create(const struct candidate_list *list, struct search_space *space, struct error *error);
void search_space_free(struct search_space *space);

static inline const uint8_t *search_space_row(const struct search_space *space, int index)
{
    return space->codes + (size_t)index * (size_t)space->columns;
}

/* how far apart two values of a column are: 0 equal, 1 different; numbers by the logarithm of their ratio to base 2 */
double search_space_step(const struct search_column *column, int a, int b);

/* columns in which two rows differ */
int search_space_distance(const struct search_space *space, int a, int b);

#endif
