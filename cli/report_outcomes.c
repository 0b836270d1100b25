/* report_outcomes.c - a tuning run's candidates as JSON: each with what came of it, the kinds of outcomes with their
 * reasons, and what each value of each parameter was worth. */
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

enum { REASONS_SHOWN = 5, CONSTRAINTS_SHOWN = 12, VALUES_MAX = 1024 };

json_t *report_candidate(const struct tune_outcome *what)
{
    json_t *row = json_object();
    json_set_text(row, "candidate", what->candidate);
    json_set_text(row, "id", what->id);
    json_set_text(row, "outcome", what->outcome);
    json_set_real(row, "microseconds", what->microseconds);
    json_set_real(row, "spread", what->spread);
    json_set_whole(row, "registers", what->registers);
    json_set_whole(row, "scratch_bytes", what->scratch_bytes);
    json_set_whole(row, "shared_bytes", what->shared_bytes);
    return row;
}

/* ------------------------------------------------------------------------------------------------ names */

/* "family/template k=v k=v": the words one by one, from *at on; false at the end */
static bool next_word(const char **at, const char **word, size_t *length)
{
    *at += strspn(*at, " ");
    *word = *at;
    *length = strcspn(*at, " ");
    *at += *length;
    return *length > 0;
}

/* a word as parameter and value; the first word is the template */
static bool split_word(const char *word, size_t length, bool first, char name[FIELD_NAME_BYTES],
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

/* the value that a candidate's name gives a parameter; false when it has none */
static bool value_in(const char *candidate, const char *wanted, char value[CANDIDATE_TEXT_BYTES])
{
    char name[FIELD_NAME_BYTES];
    const char *word;
    size_t length;
    for (bool first = true; next_word(&candidate, &word, &length); first = false) {
        if (split_word(word, length, first, name, value) && strcmp(name, wanted) == 0) {
            return true;
        }
    }
    return false;
}

json_t *report_changed(const char *winner, const char *standard)
{
    json_t *changed = json_array();
    char name[FIELD_NAME_BYTES], value[CANDIDATE_TEXT_BYTES], other[CANDIDATE_TEXT_BYTES];
    const char *word, *at = winner;
    size_t length;
    for (bool first = true; next_word(&at, &word, &length); first = false) {
        if (split_word(word, length, first, name, value) && value_in(standard, name, other) &&
            strcmp(value, other) != 0) {
            json_t *row = json_object();
            json_set_text(row, "name", name);
            json_set_text(row, "winner", value);
            json_set_text(row, "default", other);
            json_array_append_new(changed, row);
        }
    }
    return changed;
}

/* ------------------------------------------------------------------------------------------------ kinds */

json_t *report_kind(const struct history_kind *kind, int reasons)
{
    json_t *row = json_object(), *list = json_array();
    json_set_text(row, "outcome", kind->outcome);
    json_set_text(row, "meaning", outcome_meaning(kind->outcome));
    json_set_whole(row, "count", kind->count);
    for (int i = 0; i < kind->reason_count && i < reasons; i++) {
        const struct history_reason *reason = &kind->reasons[i];
        json_t *item = json_object();
        json_set_whole(item, "count", reason->count);
        json_set_text(item, "reason", reason->example->reason);
        json_set_text(item, "candidate", reason->example->candidate);
        json_set_text(item, "id", reason->example->id);
        json_array_append_new(list, item);
    }
    json_set_whole(row, "distinct_reasons", kind->reason_count);
    json_object_set_new(row, "reasons", list);
    return row;
}

json_t *report_constraints(const struct journal_reading *reading, int reasons)
{
    json_t *row = json_object(), *list = json_array();
    int64_t count = 0;
    for (int i = 0; i < reading->constraint_count; i++) {
        const struct journal_constraint *constraint = &reading->constraints[i];
        count += constraint->count;
        if (i < reasons) {
            json_t *item = json_object();
            json_set_whole(item, "count", constraint->count);
            json_set_text(item, "reason", constraint->reason);
            json_set_text(item, "because", constraint->because);
            json_set_text(item, "candidate", constraint->example);
            json_set_text(item, "id", "");
            json_array_append_new(list, item);
        }
    }
    json_set_text(row, "outcome", "constraint");
    json_set_text(row, "meaning", outcome_meaning("constraint"));
    json_set_whole(row, "count", count);
    json_set_whole(row, "distinct_reasons", reading->constraint_count);
    json_object_set_new(row, "reasons", list);
    return row;
}

static json_t *standing_kinds(const struct standings *standings)
{
    json_t *kinds = json_array();
    for (int i = 0; i < standings->fastest_count; i++) {
        const char *outcome = standings->fastest[i]->outcome;
        json_t *row = NULL;
        for (size_t k = 0; k < json_array_size(kinds) && row == NULL; k++) {
            json_t *known = json_array_get(kinds, k);
            row = strcmp(json_string_value(json_object_get(known, "outcome")), outcome) == 0 ? known : NULL;
        }
        if (row == NULL) {
            row = json_object();
            json_set_text(row, "outcome", outcome);
            json_set_text(row, "meaning", outcome_meaning(outcome));
            json_set_whole(row, "count", 0);
            json_set_flag(row, "stands", true);
            json_object_set_new(row, "reasons", json_array());
            json_array_append_new(kinds, row);
        }
        json_set_whole(row, "count", json_integer_value(json_object_get(row, "count")) + 1);
    }
    return kinds;
}

/* ------------------------------------------------------------------------------------------------ parameters */

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
    for (int i = 0; i <= CANDIDATE_PARAMETERS_MAX && next_word(&at, &word, &length); i++) {
        struct worth *worth = split_word(word, length, i == 0, name, value) ? worth_of(worths, name, value) : NULL;
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
    json_set_real(row, "best", worth->timed > 0 ? worth->times[0] : 0.0);
    json_set_real(row, "median", median(worth->times, worth->timed));
    json_set_real(row, "ratio", worth->timed > 0 && best > 0.0 ? worth->times[0] / best : 0.0);
    return row;
}

/* "effect": how much slower than the best the worst value's own best is; 1: the parameter does not matter */
static json_t *worth_rows(const struct worths *worths, double best)
{
    json_t *parameters = json_array(), *values = NULL, *parameter = NULL;
    double effect = 0.0;
    for (int i = 0; i < worths->count; i++) {
        const struct worth *worth = &worths->items[i];
        if (i == 0 || worth->place != worths->items[i - 1].place) {
            parameter = json_object();
            values = json_array();
            effect = 0.0;
            json_set_text(parameter, "name", worth->name);
            json_object_set_new(parameter, "values", values);
            json_array_append_new(parameters, parameter);
        }
        json_array_append_new(values, worth_row(worth, best));
        double ratio = worth->timed > 0 && best > 0.0 ? worth->times[0] / best : 0.0;
        effect = ratio > effect ? ratio : effect;
        json_set_real(parameter, "effect", effect);
    }
    return parameters;
}

static json_t *parameters_of(const struct journal_reading *reading)
{
    struct worths worths = {.items = calloc(VALUES_MAX, sizeof *worths.items)};
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
    json_t *parameters = worth_rows(&worths, best);
    for (int i = 0; i < worths.count; i++) {
        free(worths.items[i].times);
    }
    free(worths.items);
    return parameters;
}

/* ------------------------------------------------------------------------------------------------ all */

/* one row a candidate in the order of first looks, with the time of that look beside the one that counts */
static json_t *candidate_rows(const struct journal_reading *reading)
{
    json_t *rows = json_array();
    json_t *by_id = json_object();
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct journal_outcome *outcome = &reading->outcomes[i];
        json_t *first = json_object_get(by_id, outcome->what.candidate);
        if (first == NULL) {
            json_t *row = report_candidate(&outcome->what);
            json_set_real(row, "look_microseconds", outcome->what.microseconds);
            json_object_set(by_id, outcome->what.candidate, row);
            json_array_append_new(rows, row);
        } else if (outcome->counts) {
            json_t *row = report_candidate(&outcome->what);
            json_object_update(first, row);
            json_decref(row);
        }
    }
    json_decref(by_id);
    return rows;
}

void report_outcomes(const struct journal_reading *reading, const struct standings *standings, json_t *result)
{
    json_t *kinds = standing_kinds(standings);
    for (int i = 0; i < standings->out_count; i++) {
        json_t *row = report_kind(&standings->out[i], REASONS_SHOWN);
        json_set_flag(row, "stands", false);
        json_array_append_new(kinds, row);
    }
    if (reading->constraint_count >
        0) { /* points that never were candidates: they come last, and count for themselves */
        json_t *row = report_constraints(reading, CONSTRAINTS_SHOWN);
        json_set_flag(row, "stands", false);
        json_array_append_new(kinds, row);
    }
    json_object_set_new(result, "kinds", kinds);
    json_object_set_new(result, "candidates", candidate_rows(reading));
    json_object_set_new(result, "parameters", parameters_of(reading));
}
