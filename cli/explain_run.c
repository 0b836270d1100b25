/* explain_run.c - see explain_run.h. Reads the journal of the run that made the plan's record; without one, the newest
 * run of the same problem on such a device. */
#include "cli/explain_run.h"

#include "cli/report.h"
#include "cli/table.h"

#include <stdlib.h>
#include <string.h>

enum { NEAREST = 10, REASONS = 3, CONSTRAINTS = 12 };

struct telling {
    const struct explained_run *asked;
    char run[33];
    struct journal_reading reading;
    struct standings standings;
    bool read;
    int journals;  /* more than one: of a job's ranks */
    double winner; /* microseconds; 0: nothing was timed */
    json_t *tuning;
};

/* ------------------------------------------------------------------------------------------------ the run */

/* The record's id of the newest run of the problem on a device of this name and target; "" when there is none. */
static attune_status newest_run(const struct explained_run *asked, const struct history *history, char run[33],
                                struct error *error)
{
    char problem[PROBLEM_TEXT_BYTES], target[TARGET_TEXT_BYTES];
    attune_status status = problem_format(asked->problem, problem, error);
    run[0] = '\0';
    target_format(&asked->device->target, target);
    for (int i = 0; i < history->run_count && status == ATTUNE_OK; i++) {
        const struct journal_begin *begin = &history->runs[i].reading.begin;
        if (history->runs[i].reading.has_begin && strcmp(begin->problem, problem) == 0 &&
            strcmp(begin->device, asked->device->name) == 0 && strcmp(begin->target, target) == 0) {
            snprintf(run, 33, "%s", history->runs[i].record);
        }
    }
    return status;
}

/* All that leaves the record. One journal has its name; a job's are found among all. */
static attune_status read_run(struct telling *telling, const struct history *history, struct error *why)
{
    struct store *store = telling->asked->store;
    attune_status status = history_outcomes(store, telling->run, &telling->reading, why);
    telling->journals = status == ATTUNE_OK;
    return status == ATTUNE_NOT_FOUND
               ? history_gather(store, history, telling->run, &telling->reading, &telling->journals, why)
               : status;
}

static const char *state_of(const struct journal_reading *reading)
{
    struct history_run run = {.reading = *reading};
    return history_state(&run);
}

static attune_status open_run(struct telling *telling, const struct history *history, struct error *error)
{
    const struct explained_run *asked = telling->asked;
    struct error why = {.message = ""};
    attune_status status = ATTUNE_OK;
    if (asked->record != NULL) {
        snprintf(telling->run, sizeof telling->run, "%s", asked->record->run);
    } else {
        status = newest_run(asked, history, telling->run, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    json_set_text(telling->tuning, "run", telling->run);
    if (telling->run[0] == '\0') {
        json_set_text(telling->tuning, "journal", "none");
        return ATTUNE_OK;
    }
    status = read_run(telling, history, &why);
    if (status == ATTUNE_NO_MEMORY) {
        return error_set(error, status, "%s", why.message);
    }
    json_set_text(telling->tuning, "journal",
                  status == ATTUNE_OK          ? "there"
                  : status == ATTUNE_NOT_FOUND ? "gone"
                                               : "unreadable");
    if (status != ATTUNE_OK) {
        json_set_text(telling->tuning, "reason", why.message);
        return ATTUNE_OK;
    }
    telling->read = true;
    return standings_make(&telling->reading, &telling->standings, error);
}

/* ------------------------------------------------------------------------------------------------ rows */

/* a candidate's row with its time against the winner's and what differs from what is served, or from the fastest */
static json_t *row_of(const struct telling *telling, const struct tune_outcome *what)
{
    const char *best = telling->asked->served[0] != '\0'      ? telling->asked->served
                       : telling->standings.fastest_count > 0 ? telling->standings.fastest[0]->candidate
                                                              : what->candidate;
    json_t *row = report_candidate(what), *words = report_changed(what->candidate, best), *changed = json_object();
    size_t index;
    json_t *word;
    json_set_text(row, "reason", what->reason);
    json_set_real(row, "ratio",
                  what->microseconds > 0.0 && telling->winner > 0.0 ? what->microseconds / telling->winner : 0.0);
    json_array_foreach(words, index, word)
    {
        json_object_set(changed, json_string_value(json_object_get(word, "name")), json_object_get(word, "winner"));
    }
    json_decref(words);
    json_object_set_new(row, "changed", changed);
    return row;
}

static void add_nearest(const struct telling *telling)
{
    json_t *rows = json_array();
    const struct standings *standings = &telling->standings;
    for (int i = 0; i < standings->timed && json_array_size(rows) < NEAREST; i++) {
        const struct tune_outcome *what = standings->fastest[i];
        if (strcmp(what->candidate, telling->asked->served) != 0) {
            json_array_append_new(rows, row_of(telling, what));
        }
    }
    json_object_set_new(telling->tuning, "nearest", rows);
}

/* what a template's constraints refuse today, as report_constraints gives it for a journal */
static json_t *constraints_of_templates(const struct explained_run *asked)
{
    json_t *params = NULL, *reasons = json_array(), *row = json_object(), *of, *rejection;
    size_t t, i;
    int64_t count = 0;
    if (generator_params(asked->cli->generator, asked->problem->schema->family, asked->problem, &asked->device->target,
                         &params, NULL) == ATTUNE_OK) {
        json_array_foreach(json_object_get(params, "templates"), t, of)
        {
            json_array_foreach(json_object_get(of, "rejected"), i, rejection)
            {
                const json_t *example = json_object_get(rejection, "example");
                json_t *reason = json_object();
                count += json_integer_value(json_object_get(rejection, "count"));
                json_object_set(reason, "count", json_object_get(rejection, "count"));
                json_object_set(reason, "reason", json_object_get(rejection, "reason"));
                json_object_set(reason, "because", json_object_get(example, "reason"));
                json_object_set(reason, "candidate", json_object_get(example, "candidate"));
                if (json_array_size(reasons) < CONSTRAINTS) {
                    json_array_append(reasons, reason);
                }
                json_decref(reason);
            }
        }
        json_decref(params);
    }
    json_set_whole(row, "count", count);
    json_object_set_new(row, "reasons", reasons);
    return row;
}

/* the journal's; where it says nothing of them, those of the templates that are here */
static void add_constraints(const struct telling *telling)
{
    bool told = telling->reading.constraint_count > 0;
    json_t *row = told ? report_constraints(&telling->reading, CONSTRAINTS) : constraints_of_templates(telling->asked);
    json_set_text(row, "from", told ? "journal" : "templates");
    json_object_set_new(telling->tuning, "constraints", row);
}

static void add_out(const struct telling *telling)
{
    json_t *kinds = json_array();
    for (int i = 0; i < telling->standings.out_count; i++) {
        json_array_append_new(kinds, report_kind(&telling->standings.out[i], REASONS));
    }
    json_object_set_new(telling->tuning, "out", kinds);
}

/* the default, as this run saw it: today's, else what the run began with */
static void add_default(const struct telling *telling)
{
    const struct journal_reading *reading = &telling->reading;
    const struct tune_outcome *what = standings_find(reading, telling->asked->standard);
    bool current = what != NULL;
    if (what == NULL && reading->outcome_count > 0) {
        what = standings_find(reading, reading->outcomes[0].what.candidate);
    }
    if (what != NULL) {
        json_t *row = row_of(telling, what);
        json_set_flag(row, "current", current);
        json_object_set_new(telling->tuning, "default", row);
    }
}

static void add_head(const struct telling *telling)
{
    const struct journal_reading *reading = &telling->reading;
    json_t *tuning = telling->tuning;
    json_set_text(tuning, "problem", reading->begin.problem);
    json_set_text(tuning, "driver", reading->begin.driver);
    json_set_text(tuning, "state", state_of(reading));
    json_set_text(tuning, "strategy", reading->end.strategy);
    json_set_whole(tuning, "started", reading->begin.started);
    json_set_whole(tuning, "listed", reading->begin.candidates);
    json_set_whole(tuning, "tried", telling->standings.tried);
    json_set_whole(tuning, "looks", telling->standings.looks);
    json_set_whole(tuning, "journals", telling->journals);
    json_set_real(tuning, "drift", reading->end.drift);
    json_set_whole(tuning, "right", telling->standings.fastest_count);
    json_set_whole(tuning, "timed", telling->standings.timed);
    json_set_real(tuning, "winner_microseconds", telling->winner);
}

/* The time that others are held against: of what is served, as the run itself took it, else the record's; without a
 * plan the fastest's. */
static double winner_time(const struct telling *telling)
{
    const struct explained_run *asked = telling->asked;
    const struct tune_outcome *what = standings_find(&telling->reading, asked->served);
    double recorded = asked->record != NULL ? asked->record->winner_microseconds : 0.0;
    return what != NULL && what->microseconds > 0.0 ? what->microseconds
           : recorded > 0.0                         ? recorded
           : telling->standings.timed > 0           ? telling->standings.fastest[0]->microseconds
                                                    : 0.0;
}

/* ------------------------------------------------------------------------------------------------ one candidate */

/* where it stands, in one sentence */
static void say_standing(const struct telling *telling, const struct tune_outcome *what, json_t *row)
{
    const struct standings *standings = &telling->standings;
    char text[ERROR_MESSAGE_BYTES];
    int rank = 0;
    for (int i = 0; i < standings->timed && rank == 0; i++) {
        rank = standings->fastest[i] == what ? i + 1 : 0;
    }
    json_set_whole(row, "rank", rank);
    if (strcmp(what->candidate, telling->asked->served) == 0) {
        snprintf(text, sizeof text, "it is what a call would get");
    } else if (rank > 0) {
        snprintf(text, sizeof text, "rank %d of %d by time, %.3f times the winner's%s%s%s", rank, standings->timed,
                 telling->winner > 0.0 ? what->microseconds / telling->winner : 1.0,
                 strcmp(what->outcome, "timed") == 0 ? ", in the finals" : ", by its first look",
                 what->reason[0] != '\0' ? ": " : "", what->reason);
    } else {
        snprintf(text, sizeof text, "%s: %s%s%s", what->outcome, outcome_meaning(what->outcome),
                 what->reason[0] != '\0' ? ": " : "", what->reason);
    }
    json_set_text(row, "standing", text);
}

/* an id, or its begin, that is not one candidate's */
static attune_status refuse_digits(const struct telling *telling, const char *digits, struct error *error)
{
    enum { NAMED = 5 };
    struct buffer named = BUFFER_INIT;
    int count = 0;
    for (int i = 0; i < telling->reading.outcome_count; i++) {
        const struct tune_outcome *what = &telling->reading.outcomes[i].what;
        if (telling->reading.outcomes[i].counts && strncmp(what->id, digits, strlen(digits)) == 0 && count++ < NAMED) {
            buffer_format(&named, "\n  %s %s", what->id, what->candidate);
        }
    }
    if (count > NAMED) {
        buffer_format(&named, "\n  and %d more", count - NAMED);
    }
    if (!telling->read) {
        error_set(error, ATTUNE_NOT_FOUND,
                  "--candidate %s: there is no journal to find an id in; give the candidate by name=value", digits);
    } else if (count == 0) {
        error_set(error, ATTUNE_NOT_FOUND,
                  "--candidate %s: no candidate that run %s came to has an id that begins so; give it by name=value",
                  digits, telling->run);
    } else {
        error_set(error, ATTUNE_NOT_FOUND, "--candidate %s: the ids of %d candidates begin so; which one is it?%s",
                  digits, count, buffer_string(&named));
    }
    buffer_free(&named);
    return ATTUNE_NOT_FOUND;
}

/* One that no outcome names: refused by a constraint, or not among what the run looked at. */
static attune_status judge_unknown(const struct telling *telling, const char *text, json_t *row, struct error *error)
{
    const struct explained_run *asked = telling->asked;
    const struct target *target = &asked->device->target;
    struct candidate candidate;
    struct error why = {.message = ""};
    char name[CANDIDATE_TEXT_BYTES], id[CANDIDATE_ID_BYTES];
    if (text[0] != '\0' && strspn(text, "0123456789abcdef") == strlen(text)) {
        return refuse_digits(telling, text, error);
    }
    attune_status status = candidate_parse(asked->cli->generator, text, asked->problem, target, &candidate, error);
    if (status != ATTUNE_OK) {
        return error_prefix(error, "--candidate");
    }
    candidate_format(&candidate, name);
    candidate_id(&candidate, id);
    json_set_text(row, "candidate", name);
    json_set_text(row, "id", id);
    const struct tune_outcome *what = standings_find(&telling->reading, name);
    if (what != NULL) {
        json_t *found = row_of(telling, what);
        json_object_update(row, found);
        json_decref(found);
        say_standing(telling, what, row);
        return ATTUNE_OK;
    }
    if (candidate_check(asked->cli->generator, &candidate, asked->problem, target, &why) != ATTUNE_OK) {
        size_t length = strlen(name); /* "NAME: reason" */
        const char *reason = strncmp(why.message, name, length) == 0 && strncmp(why.message + length, ": ", 2) == 0
                                 ? why.message + length + 2
                                 : why.message;
        char standing[ERROR_MESSAGE_BYTES + 32];
        snprintf(standing, sizeof standing, "refused by a constraint: %s", reason);
        json_set_text(row, "outcome", "constraint");
        json_set_text(row, "reason", reason);
        json_set_text(row, "standing", standing);
        return ATTUNE_OK;
    }
    json_set_text(row, "outcome", "unknown");
    json_set_text(row, "standing",
                  strcmp(name, asked->served) == 0 ? "it is what a call would get"
                  : telling->read                  ? "no constraint refuses it, but the run did not come to it"
                                  : "no constraint refuses it; there is no journal that tells what came of it");
    return ATTUNE_OK;
}

static attune_status explain_candidate(const struct telling *telling, struct error *error)
{
    const char *text = telling->asked->asked;
    const struct tune_outcome *what = standings_find(&telling->reading, text);
    json_t *row = json_object();
    attune_status status = ATTUNE_OK;
    json_set_text(row, "asked", text);
    if (what != NULL) {
        json_t *found = row_of(telling, what);
        json_object_update(row, found);
        json_decref(found);
        say_standing(telling, what, row);
    } else {
        status = judge_unknown(telling, text, row, error);
    }
    json_object_set_new(telling->asked->cli->result, "candidate", row);
    return status;
}

attune_status explain_run(const struct explained_run *asked, struct error *error)
{
    struct telling telling = {.asked = asked, .tuning = json_object()};
    json_object_set_new(asked->cli->result, "tuning", telling.tuning);
    struct history history = {0};
    attune_status status =
        store_path(asked->store)[0] != '\0' ? history_read_runs(asked->store, &history, error) : ATTUNE_OK;
    if (status == ATTUNE_OK) {
        status = open_run(&telling, &history, error);
    }
    history_free(&history);
    if (status == ATTUNE_OK) {
        telling.winner = winner_time(&telling);
    }
    if (status == ATTUNE_OK && telling.read) {
        add_head(&telling);
        add_nearest(&telling);
        add_default(&telling);
        add_out(&telling);
    }
    if (status == ATTUNE_OK && asked->standard[0] != '\0') {
        add_constraints(&telling);
    }
    if (status == ATTUNE_OK && asked->asked != NULL) {
        status = explain_candidate(&telling, error);
    }
    standings_free(&telling.standings);
    journal_reading_free(&telling.reading);
    return status;
}
