/* report_outcomes.c - a tuning run's candidates as JSON: each with what came of it, the kinds of outcomes with their
 * reasons. */
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

enum { REASONS_SHOWN = 5, CONSTRAINTS_SHOWN = 12 };

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

/* the value that a candidate's name gives a parameter; false when it has none */
static bool value_in(const char *candidate, const char *wanted, char value[CANDIDATE_TEXT_BYTES])
{
    char name[FIELD_NAME_BYTES];
    const char *word;
    size_t length;
    for (bool first = true; report_next_word(&candidate, &word, &length); first = false) {
        if (report_split_word(word, length, first, name, value) && strcmp(name, wanted) == 0) {
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
    for (bool first = true; report_next_word(&at, &word, &length); first = false) {
        if (report_split_word(word, length, first, name, value) && value_in(standard, name, other) &&
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
    json_object_set_new(result, "parameters", report_parameters(reading));
}
