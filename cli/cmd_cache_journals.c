/* cmd_cache_journals.c - `attune cache journals`: one row a tuning run, newest first, and one more for a job that left
 * several. A file that is no journal, or not ours alone to write, keeps its row and the reason. */
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
    const char *name = won ? reading->end.winner : best != NULL ? best->candidate : "";
    const struct tune_outcome *its = name[0] != '\0' ? standings_find(reading, name) : NULL;
    json_set_text(row, "best", name);
    json_set_text(row, "best_id", its != NULL ? its->id : "");
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
    json_set_text(row, "name", reading->begin.name);
    json_set_text(row, "device_name", reading->begin.device);
    json_set_text(row, "target", reading->begin.target);
    json_set_text(row, "driver", reading->begin.driver);
    json_set_whole(row, "candidates", reading->begin.candidates);
    json_set_whole(row, "seed", (int64_t)reading->begin.seed);
    json_set_real(row, "seconds", reading->end.seconds);
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
    json_set_text(row, "rank", run->reading.begin.rank);
    json_set_text(row, "record_run", run->record);
    json_set_whole(row, "created", when(run));
    journal_reading_free(&reading);
    return row;
}

/* The run of all ranks of a job; NULL where the record is one journal's alone. New reference */
static json_t *job_of(struct store *store, const struct history *history, const struct history_run *run)
{
    struct history_run all = {.modified = 0};
    json_t *row = NULL;
    int count = 0;
    if (strcmp(run->record, run->run) != 0 &&
        history_gather(store, history, run->record, &all.reading, &count, NULL) == ATTUNE_OK) {
        for (int i = 0; i < history->run_count; i++) {
            all.written |= history->runs[i].written && strcmp(history->runs[i].record, run->record) == 0;
        }
        row = json_object();
        json_set_text(row, "run", run->record);
        describe(&all, &all.reading, row);
        json_set_whole(row, "journals", count);
        json_set_whole(row, "created", when(run));
        journal_reading_free(&all.reading);
    }
    return row;
}

static int newest_first(const void *a, const void *b)
{
    const struct history_run *left = *(struct history_run *const *)a, *right = *(struct history_run *const *)b;
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
    long long damaged = json_integer_value(json_object_get(row, "damaged"));
    if (damaged > 0) {
        buffer_format(&text, "%s%lld damaged %s", text.length > 0 ? ", " : "", damaged,
                      plural(damaged, "line", "lines"));
    }
    table_cell(table, "%s", text.length > 0 ? buffer_string(&text) : "-");
    buffer_free(&text);
}

static void print_number(struct table *table, const char *format, double number)
{
    if (number > 0.0) {
        table_cell(table, format, number);
    } else {
        table_cell(table, "-");
    }
}

static double refused_by_constraints(const json_t *row)
{
    double refused = 0.0;
    size_t index;
    json_t *constraint;
    json_array_foreach(json_object_get(row, "constraints"), index, constraint)
    {
        refused += (double)json_integer_value(json_object_get(constraint, "count"));
    }
    return refused;
}

/* "llama: dtype=f16 ...", with whose part of the job it is, or how many journals the job has */
static void print_problem(struct table *table, const json_t *row)
{
    struct buffer text = BUFFER_INIT, whose = BUFFER_INIT;
    const char *name = json_string_value(json_object_get(row, "name"));
    const char *rank = json_string_value(json_object_get(row, "rank"));
    json_int_t journals = json_integer_value(json_object_get(row, "journals"));
    problem_short(text_of(row, "problem"), &text);
    if (rank != NULL && rank[0] != '\0') {
        buffer_format(&whose, "rank %.*s of the job: ", (int)strcspn(rank, " "), rank);
    } else if (journals > 0) {
        buffer_format(&whose, "%lld %s of one job: ", (long long)journals, plural(journals, "rank", "ranks"));
    }
    table_cell(table, "%s%s%s%s", buffer_string(&whose), name != NULL ? name : "",
               name != NULL && name[0] != '\0' ? ": " : "", buffer_string(&text));
    buffer_free(&text);
    buffer_free(&whose);
}

static void print_row(struct table *table, json_t *row)
{
    char date[32];
    bool read = json_object_get(row, "reason") == NULL;
    const json_t *best = json_object_get(row, "best_id");
    format_minute(json_integer_value(json_object_get(row, "created")), date);
    table_cell(table, "%s", date);
    table_cell(table, read ? "%.12s" : "%s", text_of(row, read ? "run" : "path"));
    table_cell(table, "%s", text_of(row, "state"));
    table_cell(table, "%s", text_of(row, "device_name"));
    print_number(table, "%.1f", json_real_value(json_object_get(row, "seconds")));
    if (read) {
        table_cell(table, "%llu", (unsigned long long)json_integer_value(json_object_get(row, "seed")));
        table_cell(table, "%lld of %lld", (long long)json_integer_value(json_object_get(row, "looks")),
                   (long long)json_integer_value(json_object_get(row, "candidates")));
        table_cell(table, "%lld", (long long)json_integer_value(json_object_get(row, "tried")));
    } else {
        table_cell(table, "-");
        table_cell(table, "-");
        table_cell(table, "-");
    }
    print_kinds(table, row);
    print_number(table, "%.0f", refused_by_constraints(row));
    print_number(table, "%.1f", json_real_value(json_object_get(row, "best_microseconds")));
    table_cell(table, "%s", best != NULL ? text_of(row, "best_id") : "-");
    if (read) {
        print_problem(table, row);
    } else {
        table_cell(table, "%s", text_of(row, "reason"));
    }
}

/* the row among `rows` whose `key` is that; NULL: none. `before` rows are looked at */
static json_t *find_row(const json_t *rows, size_t before, const char *key, const char *text)
{
    for (size_t i = 0; i < before; i++) {
        json_t *row = json_array_get(rows, i);
        if (strcmp(text_of(row, key), text) == 0) {
            return row;
        }
    }
    return NULL;
}

/* a job's row comes before those of its ranks, which follow each other */
static void print_rows(const json_t *runs, const json_t *jobs)
{
    struct table table;
    size_t index, of;
    json_t *row, *rank;
    table_begin(&table, "started|run|state|device|>seconds|>seed|>looked at|>tried|outcomes|>refused|>best µs|best|"
                        "problem, or why not");
    json_array_foreach(runs, index, row)
    {
        const char *record = text_of(row, "record_run");
        json_t *job = find_row(jobs, json_array_size(jobs), "run", record);
        if (job == NULL) {
            print_row(&table, row);
        } else if (find_row(runs, index, "record_run", record) == NULL) {
            print_row(&table, job);
            json_array_foreach(runs, of, rank)
            {
                if (strcmp(text_of(rank, "record_run"), record) == 0) {
                    print_row(&table, rank);
                }
            }
        }
    }
    table_end(&table, stdout);
}

/* the runs of `only`, or all */
static attune_status collect(struct store *store, const char *only, json_t *runs, json_t *jobs, struct error *error)
{
    struct history history;
    attune_status status = history_read_runs(store, &history, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct history_run **sorted = calloc((size_t)history.run_count + 1, sizeof *sorted);
    if (sorted == NULL) {
        history_free(&history);
        return error_no_memory(error);
    }
    for (int i = 0; i < history.run_count; i++) {
        sorted[i] = &history.runs[i];
    }
    if (history.run_count > 1) {
        qsort(sorted, (size_t)history.run_count, sizeof *sorted, newest_first);
    }
    for (int i = 0; i < history.run_count; i++) {
        if (only != NULL && strcmp(sorted[i]->reading.begin.problem, only) != 0) {
            continue;
        }
        json_t *job = find_row(jobs, json_array_size(jobs), "run", sorted[i]->record) != NULL
                          ? NULL
                          : job_of(store, &history, sorted[i]);
        if (job != NULL) {
            json_array_append_new(jobs, job);
        }
        json_array_append_new(runs, row_of(store, sorted[i]));
    }
    free(sorted);
    history_free(&history);
    return ATTUNE_OK;
}

attune_status cache_journals(struct cli *cli, struct store *store, struct error *error)
{
    json_t *runs = json_array(), *jobs = json_array();
    char only[PROBLEM_TEXT_BYTES];
    struct problem problem;
    const bool narrowed = options_has(&cli->options, "problem");
    attune_status status = narrowed ? cli_problem(cli, &problem, error) : ATTUNE_OK;
    if (status == ATTUNE_OK && narrowed) {
        status = problem_format(&problem, only, error);
    }
    if (status == ATTUNE_OK) {
        status = collect(store, narrowed ? only : NULL, runs, jobs, error);
    }
    json_object_set_new(cli->result, "runs", runs);
    json_object_set_new(cli->result, "jobs", jobs);
    if (status == ATTUNE_OK && !cli->json) {
        print_rows(runs, jobs);
    }
    return status;
}
