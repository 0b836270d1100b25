/* report_parameters.c - what each value of each parameter was worth in a tuning run, and how much each parameter does.
 * What was timed too seldom says nothing: one slow candidate would make its values look bad that are not. */
#include "cli/report.h"

#include "base/digest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 1024, ENOUGH = 3 /* times or comparisons below which nothing is concluded */ };

/* ------------------------------------------------------------------------------------------------ names */

bool report_next_word(const char **at, const char **word, size_t *length)
{
    *at += strspn(*at, " ");
    *word = *at;
    *length = strcspn(*at, " ");
    *at += *length;
    return *length > 0;
}

bool report_split_word(const char *word, size_t length, bool first, char name[FIELD_NAME_BYTES],
                       char value[CANDIDATE_TEXT_BYTES])
{
    const char *equals = memchr(word, '=', length);
    size_t name_length = equals != NULL ? (size_t)(equals - word) : 0;
    if (first) {
        const char *slash = memrchr(word, '/', length);
        size_t skip = slash != NULL ? (size_t)(slash - word) + 1 : 0;
        snprintf(name, FIELD_NAME_BYTES, "template");
        snprintf(value, CANDIDATE_TEXT_BYTES, "%.*s", (int)(length - skip), word + skip);
        return true;
    }
    if (equals == NULL || name_length >= FIELD_NAME_BYTES) {
        return false;
    }
    snprintf(name, FIELD_NAME_BYTES, "%.*s", (int)name_length, word);
    snprintf(value, CANDIDATE_TEXT_BYTES, "%.*s", (int)(length - name_length - 1), equals + 1);
    return true;
}

/* ------------------------------------------------------------------------------------------------ values */

struct worth { /* of one value of one parameter */
    char name[FIELD_NAME_BYTES];
    char value[CANDIDATE_TEXT_BYTES];
    int place; /* of the parameter, by first appearance */
    int tried, timed, capacity;
    double *times; /* owned */
};

struct worths {
    struct worth *items;
    int count, places;
};

/* NULL for more values than there can be: what no template declares is left out */
static struct worth *worth_of(struct worths *worths, const char *name, const char *value)
{
    int place = worths->places;
    for (int i = 0; i < worths->count; i++) {
        if (strcmp(worths->items[i].name, name) == 0) {
            place = worths->items[i].place;
            if (strcmp(worths->items[i].value, value) == 0) {
                return &worths->items[i];
            }
        }
    }
    if (worths->count == VALUES_MAX) {
        return NULL;
    }
    struct worth *fresh = &worths->items[worths->count];
    *fresh = (struct worth){.place = place};
    snprintf(fresh->name, sizeof fresh->name, "%s", name);
    snprintf(fresh->value, sizeof fresh->value, "%s", value);
    worths->places += place == worths->places;
    worths->count++;
    return fresh;
}

static void add_time(struct worth *worth, double microseconds)
{
    if (worth->timed == worth->capacity) {
        int capacity = worth->capacity > 0 ? 2 * worth->capacity : 32;
        double *grown = realloc(worth->times, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            return;
        }
        worth->times = grown;
        worth->capacity = capacity;
    }
    worth->times[worth->timed++] = microseconds;
}

static void note(struct worths *worths, const struct tune_outcome *what)
{
    char name[FIELD_NAME_BYTES], value[CANDIDATE_TEXT_BYTES];
    const char *word, *at = what->candidate;
    size_t length;
    for (int i = 0; i <= CANDIDATE_PARAMETERS_MAX && report_next_word(&at, &word, &length); i++) {
        struct worth *worth =
            report_split_word(word, length, i == 0, name, value) ? worth_of(worths, name, value) : NULL;
        if (worth == NULL) {
            continue;
        }
        worth->tried++;
        if (outcome_stands(what) && what->microseconds > 0.0) {
            add_time(worth, what->microseconds);
        }
    }
}

static int by_time(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* by parameter; numbers by size, words by letter */
static int by_value(const void *a, const void *b)
{
    const struct worth *left = a, *right = b;
    char *left_end, *right_end;
    if (left->place != right->place) {
        return left->place < right->place ? -1 : 1;
    }
    long long first = strtoll(left->value, &left_end, 10), second = strtoll(right->value, &right_end, 10);
    bool numbers = *left_end == '\0' && *right_end == '\0';
    return numbers && first != second ? (first < second ? -1 : 1) : strcmp(left->value, right->value);
}

static double median(const double *sorted, int count)
{
    return count == 0 ? 0.0 : count % 2 == 1 ? sorted[count / 2] : 0.5 * (sorted[count / 2 - 1] + sorted[count / 2]);
}

static json_t *worth_row(const struct worth *worth, double best)
{
    json_t *row = json_object();
    json_set_text(row, "value", worth->value);
    json_set_whole(row, "tried", worth->tried);
    json_set_whole(row, "timed", worth->timed);
    json_set_flag(row, "few", worth->timed < ENOUGH);
    json_set_real(row, "best", worth->timed > 0 ? worth->times[0] : 0.0);
    json_set_real(row, "median", median(worth->times, worth->timed));
    json_set_real(row, "ratio", worth->timed > 0 && best > 0.0 ? worth->times[0] / best : 0.0);
    return row;
}

/* "span": how much slower than the best of all the slowest value's own best is, of values that were timed often enough.
 * 0 with less than two of these. */
static double span_of(const struct worth *values, int count, double best)
{
    double span = 0.0;
    int enough = 0;
    for (int i = 0; i < count; i++) {
        if (values[i].timed >= ENOUGH) {
            enough++;
            span = fmax(span, values[i].times[0] / best);
        }
    }
    return enough > 1 ? span : 0.0;
}

/* ------------------------------------------------------------------------------------------------ all else equal */

struct compared {
    struct digest rest; /* of the candidate's name without the parameter's word */
    double time;
};

static int by_rest(const void *a, const void *b)
{
    const struct compared *left = a, *right = b;
    int order = memcmp(&left->rest, &right->rest, sizeof left->rest);
    return order != 0 ? order : by_time(&left->time, &right->time);
}

/* the candidate's name without the word of that parameter; false when its value was timed too seldom, or it has none */
static bool digest_rest(const char *candidate, const struct worth *values, int count, struct digest *rest)
{
    char name[FIELD_NAME_BYTES], value[CANDIDATE_TEXT_BYTES];
    struct buffer text = BUFFER_INIT;
    const char *word;
    size_t length;
    bool found = false;
    for (bool first = true; report_next_word(&candidate, &word, &length); first = false) {
        bool its = report_split_word(word, length, first, name, value) && strcmp(name, values[0].name) == 0;
        for (int i = 0; i < count && its; i++) {
            found |= strcmp(values[i].value, value) == 0 && values[i].timed >= ENOUGH;
        }
        if (!its) {
            buffer_format(&text, "%.*s ", (int)length, word);
        }
    }
    found = found && !text.failed;
    if (found) {
        digest_of(buffer_string(&text), text.length, rest);
    }
    buffer_free(&text);
    return found;
}

/* The slowest by the fastest of candidates that differ in this parameter alone: the median of all such groups. 0 with
 * fewer groups than are enough. `groups` gets how many there are. */
static double effect_of(const struct journal_reading *reading, const struct worth *values, int count, int *groups)
{
    size_t room = (size_t)reading->outcome_count + 1;
    struct compared *all = malloc(room * sizeof *all);
    double *ratios = malloc(room * sizeof *ratios);
    int used = 0;
    *groups = 0;
    for (int i = 0; all != NULL && ratios != NULL && i < reading->outcome_count; i++) {
        const struct tune_outcome *what = &reading->outcomes[i].what;
        if (reading->outcomes[i].counts && outcome_stands(what) && what->microseconds > 0.0 &&
            digest_rest(what->candidate, values, count, &all[used].rest)) {
            all[used++].time = what->microseconds;
        }
    }
    if (used > 1) {
        qsort(all, (size_t)used, sizeof *all, by_rest);
    }
    for (int i = 0, begin = 0; i < used; i++) {
        bool last = i + 1 == used || memcmp(&all[i + 1].rest, &all[i].rest, sizeof all[i].rest) != 0;
        if (last && i > begin) {
            ratios[(*groups)++] = all[i].time / all[begin].time;
        }
        begin = last ? i + 1 : begin;
    }
    if (*groups > 1) {
        qsort(ratios, (size_t)*groups, sizeof *ratios, by_time);
    }
    double effect = *groups >= ENOUGH ? median(ratios, *groups) : 0.0;
    free(all);
    free(ratios);
    return effect;
}

static json_t *parameter_row(const struct journal_reading *reading, const struct worth *values, int count, double best)
{
    json_t *row = json_object(), *list = json_array();
    int groups = 0;
    for (int i = 0; i < count; i++) {
        json_array_append_new(list, worth_row(&values[i], best));
    }
    json_set_text(row, "name", values[0].name);
    json_set_real(row, "effect", count > 1 ? effect_of(reading, values, count, &groups) : 0.0);
    json_set_whole(row, "comparisons", groups);
    json_set_real(row, "span", span_of(values, count, best));
    json_object_set_new(row, "values", list);
    return row;
}

json_t *report_parameters(const struct journal_reading *reading)
{
    struct worths worths = {.items = calloc(VALUES_MAX, sizeof *worths.items)};
    json_t *parameters = json_array();
    double best = 0.0;
    for (int i = 0; worths.items != NULL && i < reading->outcome_count; i++) {
        const struct tune_outcome *what = &reading->outcomes[i].what;
        if (!reading->outcomes[i].counts || strcmp(what->outcome, "not-tried") == 0) {
            continue;
        }
        note(&worths, what);
        if (outcome_stands(what) && what->microseconds > 0.0 && (best == 0.0 || what->microseconds < best)) {
            best = what->microseconds;
        }
    }
    for (int i = 0; i < worths.count; i++) {
        if (worths.items[i].timed > 1) {
            qsort(worths.items[i].times, (size_t)worths.items[i].timed, sizeof(double), by_time);
        }
    }
    if (worths.count > 1) {
        qsort(worths.items, (size_t)worths.count, sizeof *worths.items, by_value);
    }
    for (int i = 0, next; i < worths.count; i = next) {
        next = i + 1;
        while (next < worths.count && worths.items[next].place == worths.items[i].place) {
            next++;
        }
        json_array_append_new(parameters, parameter_row(reading, &worths.items[i], next - i, best));
    }
    for (int i = 0; i < worths.count; i++) {
        free(worths.items[i].times);
    }
    free(worths.items);
    return parameters;
}
