/* cmd_cache_journals.c - `attune cache journals`: one row a tuning run, newest first. A file that is no journal, or not
 * ours alone to write, keeps its row and the reason. */
#include "autotune/history.h"
#include "cli/cmd_cache.h"
#include "cli/table.h"

#include <stdlib.h>
#include <string.h>

/* The winner; of a run without an end the fastest, of the finals if there were any. NULL when nothing was timed. */
static const struct tune_outcome *fastest(const struct journal_reading *reading)
{
    const struct journal_outcome *best = NULL;
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct journal_outcome *outcome = &reading->outcomes[i];
        bool timed = strcmp(outcome->what.outcome, "timed") == 0 || strcmp(outcome->what.outcome, "slower") == 0;
        if (outcome->counts && timed && outcome->what.microseconds > 0.0 &&
            (best == NULL || outcome->stage > best->stage ||
             (outcome->stage == best->stage && outcome->what.microseconds < best->what.microseconds))) {
            best = outcome;
        }
    }
    return best != NULL ? &best->what : NULL;
}

static void add_best(const struct journal_reading *reading, json_t *row)
{
    const struct tune_outcome *best = fastest(reading);
    bool won = reading->has_end && reading->end.winner[0] != '\0';
    json_set_text(row, "best", won ? reading->end.winner : best != NULL ? best->candidate : "");
    json_set_real(row, "best_microseconds",
                  won            ? reading->end.winner_microseconds
                  : best != NULL ? best->microseconds
                                 : 0.0);
}

static void add_outcomes(const struct journal_reading *reading, json_t *row)
{
    json_t *kinds = json_object();
    int tried = 0, looks = 0;
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct journal_outcome *outcome = &reading->outcomes[i];
        if (outcome->counts) {
            json_int_t count = json_integer_value(json_object_get(kinds, outcome->what.outcome));
            json_set_whole(kinds, outcome->what.outcome, count + 1);
            tried += strcmp(outcome->what.outcome, "not-tried") != 0;
            looks += outcome_was_looked_at(&outcome->what);
        }
    }
    json_set_whole(row, "tried", tried);
    json_set_whole(row, "looks", looks);
    json_object_set_new(row, "outcomes", kinds);
}

static json_t *describe_constraints(const struct journal_reading *reading)
{
    json_t *rows = json_array();
    for (int i = 0; i < reading->constraint_count; i++) {
        const struct journal_constraint *constraint = &reading->constraints[i];
        json_t *row = json_object();
        json_set_text(row, "reason", constraint->reason);
        json_set_whole(row, "count", constraint->count);
        json_set_text(row, "example", constraint->example);
        json_set_text(row, "because", constraint->because);
        json_array_append_new(rows, row);
    }
    return rows;
}

static void describe(const struct history_run *run, const struct journal_reading *reading, json_t *row)
{
    json_set_text(row, "state", history_state(run));
    json_set_text(row, "problem", reading->begin.problem);
    json_set_text(row, "device_name", reading->begin.device);
    json_set_text(row, "target", reading->begin.target);
    json_set_text(row, "driver", reading->begin.driver);
    json_set_whole(row, "candidates", reading->begin.candidates);
    add_outcomes(reading, row);
    add_best(reading, row);
    json_set_whole(row, "resumed", reading->resume_count);
    json_object_set_new(row, "constraints", describe_constraints(reading));
    json_set_flag(row, "torn", reading->torn);
    json_set_whole(row, "damaged", reading->damaged);
}

static int64_t when(const struct history_run *run)
{
    return run->reading.begin.started > 0 ? run->reading.begin.started : run->modified;
}

/* new reference */
static json_t *row_of(struct store *store, const struct history_run *run)
{
    struct journal_reading reading = {0};
    struct error why = {.message = ""};
    json_t *row = json_object();
    json_set_text(row, "path", run->path);
    json_set_whole(row, "bytes", (int64_t)run->bytes);
    json_set_text(row, "run", run->run);
    snprintf(why.message, sizeof why.message, "%s", run->reason);
    if (why.message[0] == '\0' &&
        (!run->reading.has_begin || history_outcomes(store, run->run, &reading, &why) == ATTUNE_OK)) {
        describe(run, run->reading.has_begin ? &reading : &run->reading, row);
    } else {
        json_set_text(row, "state", "unreadable");
        json_set_text(row, "reason", why.message);
    }
    json_set_whole(row, "created", when(run));
    journal_reading_free(&reading);
    return row;
}

static int newest_first(const void *a, const void *b)
{
    const struct history_run *left = a, *right = b;
    return when(left) != when(right) ? (when(left) < when(right) ? 1 : -1) : strcmp(left->path, right->path);
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text != NULL && text[0] != '\0' ? text : "-";
}

/* "5 right, 1 wrong" */
static void print_kinds(struct table *table, json_t *row)
{
    struct buffer text = BUFFER_INIT;
    const char *kind;
    json_t *count;
    json_object_foreach(json_object_get(row, "outcomes"), kind, count)
    {
        buffer_format(&text, "%s%lld %s", text.length > 0 ? ", " : "", (long long)json_integer_value(count), kind);
    }
    long long refused = 0;
    size_t index;
    json_t *constraint;
    json_array_foreach(json_object_get(row, "constraints"), index, constraint)
    {
        refused += json_integer_value(json_object_get(constraint, "count"));
    }
    if (refused > 0) {
        buffer_format(&text, "%s%lld constraint", text.length > 0 ? ", " : "", refused);
    }
    long long damaged = json_integer_value(json_object_get(row, "damaged"));
    if (damaged > 0) {
        buffer_format(&text, "%s%lld damaged %s", text.length > 0 ? ", " : "", damaged,
                      plural(damaged, "line", "lines"));
    }
    table_cell(table, "%s", text.length > 0 ? buffer_string(&text) : "-");
    buffer_free(&text);
}

static void print_rows(const json_t *runs)
{
    struct table table;
    size_t index;
    json_t *row;
    table_begin(&table, "started|run|state|device|>looked at|outcomes|>best µs|best|problem, or why not");
    json_array_foreach(runs, index, row)
    {
        char date[32];
        double best = json_real_value(json_object_get(row, "best_microseconds"));
        bool read = json_object_get(row, "reason") == NULL;
        format_minute(json_integer_value(json_object_get(row, "created")), date);
        table_cell(&table, "%s", date);
        table_cell(&table, "%s", text_of(row, read ? "run" : "path"));
        table_cell(&table, "%s", text_of(row, "state"));
        table_cell(&table, "%s", text_of(row, "device_name"));
        if (read) {
            table_cell(&table, "%lld of %lld", (long long)json_integer_value(json_object_get(row, "looks")),
                       (long long)json_integer_value(json_object_get(row, "candidates")));
        } else {
            table_cell(&table, "-");
        }
        print_kinds(&table, row);
        if (best > 0.0) {
            table_cell(&table, "%.1f", best);
        } else {
            table_cell(&table, "-");
        }
        table_cell(&table, "%s", text_of(row, "best"));
        table_cell(&table, "%s", text_of(row, read ? "problem" : "reason"));
    }
    table_end(&table, stdout);
}

attune_status cache_journals(struct cli *cli, struct store *store, struct error *error)
{
    struct history history;
    attune_status status = history_read_runs(store, &history, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    json_t *runs = json_array();
    if (history.run_count > 1) {
        qsort(history.runs, (size_t)history.run_count, sizeof *history.runs, newest_first);
    }
    for (int i = 0; i < history.run_count; i++) {
        json_array_append_new(runs, row_of(store, &history.runs[i]));
    }
    history_free(&history);
    json_object_set_new(cli->result, "runs", runs);
    if (!cli->json) {
        print_rows(runs);
    }
    return ATTUNE_OK;
}
