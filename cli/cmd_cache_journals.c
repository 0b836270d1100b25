/* cmd_cache_journals.c - `attune cache journals`: one row a tuning run, newest first. A file that is no journal, or not
 * ours alone to write, keeps its row and the reason. */
#include "autotune/journal.h"
#include "base/files.h"
#include "cli/cmd_cache.h"
#include "cli/table.h"

#include <stdlib.h>
#include <string.h>

struct rows {
    struct store *store;
    struct row {
        json_t *json;
        int64_t when;
    } * items;
    int count, capacity;
};

/* how it came out: the program's word for the run */
static const char *state_of(const struct journal_reading *reading, bool written)
{
    if (!reading->has_end) {
        return written ? "running" : "killed";
    }
    return reading->end.winner[0] == '\0' ? "failed" : reading->end.complete ? "ended" : "stopped";
}

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
    int looked_at = 0;
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct journal_outcome *outcome = &reading->outcomes[i];
        if (outcome->counts) {
            json_int_t count = json_integer_value(json_object_get(kinds, outcome->what.outcome));
            json_set_whole(kinds, outcome->what.outcome, count + 1);
            looked_at += strcmp(outcome->what.outcome, "not-tried") != 0;
        }
    }
    json_set_whole(row, "looked_at", looked_at);
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

static void describe(const struct journal_reading *reading, bool written, json_t *row)
{
    json_set_text(row, "state", state_of(reading, written));
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

/* journals/<run>.jsonl -> run; false for another name */
static bool run_of(const char *path, char run[64])
{
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    const char *ending = strrchr(name, '.');
    if (ending == NULL || strcmp(ending, ".jsonl") != 0 || ending == name || ending - name > 32) {
        return false;
    }
    memcpy(run, name, (size_t)(ending - name));
    run[ending - name] = '\0';
    return true;
}

static attune_status read_run(struct store *store, const char *entry, json_t *row, int64_t *when, struct error *why)
{
    char run[64] = "", path[4096];
    struct buffer text = BUFFER_INIT;
    struct journal_reading reading = {0};
    bool written = false;
    json_set_text(row, "run", run_of(entry, run) ? run : "");
    attune_status status = run[0] == '\0' ? error_set(why, ATTUNE_CORRUPT, "its name is no journal's")
                                          : path_join(path, sizeof path, store_path(store), entry, why);
    if (status == ATTUNE_OK) { /* asked first: of a run that ends meanwhile the last line is read */
        written = journal_is_written(path);
        status = store_journal_read(store, run, &text, why);
    }
    if (status == ATTUNE_OK) {
        status = journal_read(buffer_string(&text), text.length, &reading, why);
    }
    if (status == ATTUNE_OK && !reading.has_begin && !written) {
        status = error_set(why, ATTUNE_CORRUPT, "it does not begin as a journal");
    }
    if (status == ATTUNE_OK && reading.has_begin && strcmp(reading.begin.run, run) != 0) {
        status = error_set(why, ATTUNE_CORRUPT, "it is the journal of run %s", reading.begin.run);
    }
    if (status == ATTUNE_OK) {
        *when = reading.begin.started > 0 ? reading.begin.started : *when;
        describe(&reading, written, row);
    }
    journal_reading_free(&reading);
    buffer_free(&text);
    return status;
}

static attune_status add_run(void *data, const struct store_entry *entry, struct error *error)
{
    struct rows *rows = data;
    if (entry->kind != STORE_JOURNAL) {
        return ATTUNE_OK;
    }
    if (rows->count == rows->capacity) {
        int capacity = rows->capacity > 0 ? 2 * rows->capacity : 64;
        struct row *grown = realloc(rows->items, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            return error_no_memory(error);
        }
        rows->items = grown;
        rows->capacity = capacity;
    }
    struct error why = {.message = ""};
    struct row *row = &rows->items[rows->count++];
    *row = (struct row){json_object(), entry->modified};
    json_set_text(row->json, "path", entry->path);
    json_set_whole(row->json, "bytes", (int64_t)entry->bytes);
    attune_status status = read_run(rows->store, entry->path, row->json, &row->when, &why);
    if (status != ATTUNE_OK) {
        json_set_text(row->json, "state", "unreadable");
        json_set_text(row->json, "reason", why.message);
    }
    json_set_whole(row->json, "created", row->when);
    return status == ATTUNE_NO_MEMORY ? error_set(error, status, "%s", why.message) : ATTUNE_OK;
}

static int newest_first(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    if (left->when != right->when) {
        return left->when < right->when ? 1 : -1;
    }
    return strcmp(json_string_value(json_object_get(left->json, "path")),
                  json_string_value(json_object_get(right->json, "path")));
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
            table_cell(&table, "%lld of %lld", (long long)json_integer_value(json_object_get(row, "looked_at")),
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
    struct rows rows = {.store = store};
    json_t *runs = json_array();
    attune_status status = store_walk_journals(store, add_run, &rows, error);
    qsort(rows.items, (size_t)rows.count, sizeof rows.items[0], newest_first);
    for (int i = 0; i < rows.count; i++) {
        json_array_append_new(runs, rows.items[i].json);
    }
    free(rows.items);
    json_object_set_new(cli->result, "runs", runs);
    if (status == ATTUNE_OK && !cli->json) {
        print_rows(runs);
    }
    return status;
}
