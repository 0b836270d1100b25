/* search_prior.c - terms of a table found in a space. */
#include "autotune/search_prior.h"

#include <string.h>

struct place {
    int column, code;
};

static bool find_place(const struct search_space *space, const char *name, size_t name_bytes, const char *value,
                       size_t value_bytes, struct place *place)
{
    for (int c = 0; c < space->columns; c++) {
        const struct search_column *column = &space->column[c];
        if (strlen(column->name) != name_bytes || memcmp(column->name, name, name_bytes) != 0) {
            continue;
        }
        for (int code = 1; code < column->codes; code++) {
            if (strlen(column->values[code]) == value_bytes && memcmp(column->values[code], value, value_bytes) == 0) {
                *place = (struct place){c, code};
                return true;
            }
        }
    }
    return false;
}

/* "template a=b c=d": the template's place, then the parameters'; 0 when the space lacks one of them */
static int find_term(const struct search_space *space, const char *term, struct place places[3])
{
    int count = 0;
    for (const char *word = term; *word != '\0' && count < 3;) {
        size_t length = strcspn(word, " "), name = strcspn(word, "= ");
        bool found = count == 0 ? find_place(space, "", 0, word, length, &places[0])
                                : name < length &&
                                      find_place(space, word, name, word + name + 1, length - name - 1, &places[count]);
        if (!found) {
            return 0;
        }
        count++;
        word += length + strspn(word + length, " ");
    }
    return count;
}

static bool has(const uint8_t *row, const struct place *places, int count)
{
    for (int i = 0; i < count; i++) {
        if (row[places[i].column] != places[i].code) {
            return false;
        }
    }
    return true;
}

bool search_prior_values(const struct search_prior *prior, const char *family, const struct search_space *space,
                         float *const values[])
{
    bool found = false;
    for (int s = 0; s < prior->sources; s++) {
        memset(values[s], 0, (size_t)space->count * sizeof values[s][0]);
    }
    for (int t = 0; t < prior->count && strcmp(prior->family, family) == 0; t++) {
        struct place places[3];
        int count = find_term(space, prior->terms[t].name, places);
        for (int i = 0; i < space->count && count > 1; i++) {
            if (has(search_space_row(space, i), places, count)) {
                found = true;
                for (int s = 0; s < prior->sources; s++) {
                    values[s][i] += prior->terms[t].effect[s];
                }
            }
        }
    }
    for (int s = 0; s < prior->sources; s++) {
        double sum = 0.0;
        for (int i = 0; i < space->count; i++) {
            sum += values[s][i];
        }
        for (int i = 0; i < space->count; i++) {
            values[s][i] -= (float)(sum / space->count);
        }
    }
    return found;
}
