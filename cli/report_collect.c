/* report_collect.c - a store's records and journals, brought together by problem and device. */
#include "autotune/attention.h"
#include "autotune/trace.h"
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

/* what is shown together; either of record and run may be missing, not both */
struct result {
    char problem[PROBLEM_TEXT_BYTES];
    char specialisation[PROBLEM_TEXT_BYTES];
    char device[128];
    char target[TARGET_TEXT_BYTES];
    const struct record *record;
    const struct history_run *run;
    struct problem parsed; /* schema NULL: of a family that nobody knows any more */
};

struct collecting {
    struct cli *cli;
    struct generator *generator;
    struct store *store;
    struct history history;
    struct result *results;
    int count, capacity;
};

/* ------------------------------------------------------------------------------------------------ grouping */

/* the family's schema: of the templates here, else of a record that carries one; NULL when there is none */
static const struct schema *schema_of(const struct collecting *collecting, const char *problem)
{
    char family[FAMILY_NAME_BYTES];
    if (problem_family(problem, family, NULL) != ATTUNE_OK) {
        return NULL;
    }
    const struct schema *schema = generator_schema(collecting->generator, family);
    for (int i = 0; i < collecting->history.record_count && schema == NULL; i++) {
        const struct schema *carried = collecting->history.records[i].schema;
        schema = carried != NULL && strcmp(carried->family, family) == 0 ? carried : NULL;
    }
    return schema;
}

static struct result *result_of(struct collecting *collecting, const char *problem, const char *device,
                                const char *target)
{
    for (int i = 0; i < collecting->count; i++) {
        struct result *known = &collecting->results[i];
        if (strcmp(known->problem, problem) == 0 && strcmp(known->device, device) == 0 &&
            strcmp(known->target, target) == 0) {
            return known;
        }
    }
    if (collecting->count == collecting->capacity) {
        int capacity = collecting->capacity > 0 ? 2 * collecting->capacity : 16;
        struct result *grown = realloc(collecting->results, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        collecting->results = grown;
        collecting->capacity = capacity;
    }
    struct result *fresh = &collecting->results[collecting->count++];
    *fresh = (struct result){0};
    snprintf(fresh->problem, sizeof fresh->problem, "%s", problem);
    snprintf(fresh->device, sizeof fresh->device, "%s", device);
    snprintf(fresh->target, sizeof fresh->target, "%s", target);
    const struct schema *schema = schema_of(collecting, problem);
    if (schema == NULL || problem_parse(schema, problem, &fresh->parsed, NULL) != ATTUNE_OK ||
        problem_specialisation(&fresh->parsed, fresh->specialisation, NULL) != ATTUNE_OK) {
        fresh->parsed.schema = NULL;
    }
    return fresh;
}

/* a run without a record counts by how far it came */
static int progress_of(const struct history_run *run)
{
    return run == NULL ? 0 : !run->reading.has_end ? 1 : run->reading.end.complete ? 3 : 2;
}

/* as runtime/choose.c has it, of a record that is no older */
static bool serves_before(const struct record *record, const struct record *other)
{
    return record->complete != other->complete ? record->complete : record->complete || record->tried >= other->tried;
}

/* records and runs come oldest first: of equals the later one stays */
static attune_status group(struct collecting *collecting, const char *only, struct error *error)
{
    struct history *history = &collecting->history;
    for (int i = 0; i < history->record_count; i++) {
        const struct record *record = &history->records[i];
        if (only != NULL && strcmp(record->problem, only) != 0) {
            continue;
        }
        struct result *result = result_of(collecting, record->problem, record->device_name, record->device.target);
        if (result == NULL) {
            return error_no_memory(error);
        }
        if (result->record == NULL || serves_before(record, result->record)) {
            result->record = record;
            result->run = history_find(history, record->run);
            snprintf(result->specialisation, sizeof result->specialisation, "%s", record->specialisation);
        }
    }
    for (int i = 0; i < history->run_count; i++) {
        const struct history_run *run = &history->runs[i];
        const struct journal_begin *begin = &run->reading.begin;
        if (run->reason[0] != '\0' || !run->reading.has_begin || (only != NULL && strcmp(begin->problem, only) != 0)) {
            continue;
        }
        struct result *result = result_of(collecting, begin->problem, begin->device, begin->target);
        if (result == NULL) {
            return error_no_memory(error);
        }
        if (result->record == NULL && progress_of(run) >= progress_of(result->run)) {
            result->run = run;
        }
    }
    return ATTUNE_OK;
}

static int compare_sizes(const struct problem *left, const struct problem *right)
{
    if (left->schema == NULL || left->schema != right->schema) {
        return 0;
    }
    for (int i = 0; i < left->schema->field_count; i++) {
        int64_t a = left->values[i].integer, b = right->values[i].integer;
        if (left->schema->fields[i].role == FIELD_SIZE && a != b) {
            return a < b ? -1 : 1;
        }
    }
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct result *left = a, *right = b;
    int order = strcmp(left->device, right->device);
    order = order != 0 ? order : strcmp(left->target, right->target);
    order = order != 0 ? order : strcmp(left->specialisation, right->specialisation);
    order = order != 0 ? order : compare_sizes(&left->parsed, &right->parsed);
    return order != 0 ? order : strcmp(left->problem, right->problem);
}

/* ------------------------------------------------------------------------------------------------ one result */

static json_t *sizes_of(const struct result *result)
{
    json_t *sizes = json_array();
    const struct schema *schema = result->parsed.schema;
    for (int i = 0; schema != NULL && i < schema->field_count; i++) {
        if (schema->fields[i].role == FIELD_SIZE && schema->fields[i].kind == FIELD_INTEGER) {
            json_t *row = json_object();
            json_set_text(row, "name", schema->fields[i].name);
            json_set_whole(row, "value", result->parsed.values[i].integer);
            json_array_append_new(sizes, row);
        }
    }
    return sizes;
}

/* all runs of the result's problem and device, oldest first */
static json_t *runs_of(const struct collecting *collecting, const struct result *result)
{
    json_t *rows = json_array();
    for (int i = 0; i < collecting->history.run_count; i++) {
        const struct history_run *run = &collecting->history.runs[i];
        const struct journal_begin *begin = &run->reading.begin;
        if (run->reason[0] != '\0' || !run->reading.has_begin || strcmp(begin->problem, result->problem) != 0 ||
            strcmp(begin->device, result->device) != 0 || strcmp(begin->target, result->target) != 0) {
            continue;
        }
        json_t *row = json_object();
        json_set_text(row, "run", run->run);
        json_set_text(row, "state", history_state(run));
        json_set_whole(row, "started", begin->started);
        json_set_text(row, "winner", run->reading.end.winner);
        json_set_real(row, "winner_microseconds", run->reading.end.winner_microseconds);
        json_set_real(row, "default_microseconds", run->reading.end.default_microseconds);
        json_array_append_new(rows, row);
    }
    return rows;
}

/* The default candidate: what the templates here call so if the run knew it, else what it began with. */
static const struct tune_outcome *default_of(const struct collecting *collecting, const struct result *result,
                                             const struct journal_reading *reading)
{
    struct candidate candidate;
    struct target target;
    char name[CANDIDATE_TEXT_BYTES];
    const struct tune_outcome *found = NULL;
    if (result->parsed.schema != NULL && target_parse(result->target, &target, NULL) == ATTUNE_OK &&
        candidate_default(collecting->generator, &result->parsed, &target, &candidate, NULL) == ATTUNE_OK) {
        candidate_format(&candidate, name);
        found = standings_find(reading, name);
    }
    return found != NULL                ? found
           : reading->outcome_count > 0 ? standings_find(reading, reading->outcomes[0].what.candidate)
                                        : NULL;
}

/* name and times of winner and default: from the record, else the journal's end, else what was fastest */
static void add_winner(const struct result *result, const struct journal_reading *reading,
                       const struct standings *standings, const struct tune_outcome *standard, json_t *row)
{
    const struct record *record = result->record;
    bool ended = reading->has_end && reading->end.winner[0] != '\0';
    const struct tune_outcome *fastest = standings->fastest_count > 0 ? standings->fastest[0] : NULL;
    const char *winner = record != NULL    ? record->candidate
                         : ended           ? reading->end.winner
                         : fastest != NULL ? fastest->candidate
                                           : "";
    double winner_time = record != NULL    ? record->winner_microseconds
                         : ended           ? reading->end.winner_microseconds
                         : fastest != NULL ? fastest->microseconds
                                           : 0.0;
    double default_time = record != NULL     ? record->default_microseconds
                          : ended            ? reading->end.default_microseconds
                          : standard != NULL ? standard->microseconds
                                             : 0.0;
    const struct tune_outcome *its = winner[0] != '\0' ? standings_find(reading, winner) : NULL;
    json_set_text(row, "winner", winner);
    json_set_text(row, "winner_id", its != NULL ? its->id : "");
    json_set_real(row, "winner_spread", its != NULL ? its->spread : 0.0);
    json_set_text(row, "default", standard != NULL ? standard->candidate : "");
    json_set_text(row, "default_id", standard != NULL ? standard->id : "");
    json_set_real(row, "winner_microseconds", winner_time);
    json_set_real(row, "default_microseconds", default_time);
    json_set_real(row, "speed_up", winner_time > 0.0 && default_time > 0.0 ? default_time / winner_time : 0.0);
    json_object_set_new(row, "changed", standard != NULL ? report_changed(winner, standard->candidate) : json_array());
}

static void add_run(const struct result *result, const struct journal_reading *reading,
                    const struct standings *standings, json_t *row)
{
    const struct record *record = result->record;
    struct history_run all = {.reading = *reading, .written = result->run != NULL && result->run->written};
    json_set_text(row, "run", record != NULL ? record->run : result->run->record);
    json_set_text(row, "state", result->run != NULL ? history_state(&all) : "gone");
    json_set_real(row, "drift", reading->end.drift);
    json_set_flag(row, "drifted", reading->end.drift > TUNE_DRIFT_MAX);
    json_set_text(row, "driver",
                  reading->has_begin ? reading->begin.driver
                  : record != NULL   ? record->device.driver
                                     : "");
    json_set_text(row, "compiler", record != NULL ? record->compiler : "");
    json_set_whole(row, "started", reading->begin.started);
    json_set_whole(row, "seed", (int64_t)reading->begin.seed);
    json_set_whole(row, "listed", reading->begin.candidates);
    json_set_whole(row, "tried", reading->has_begin ? standings->tried : record != NULL ? record->tried : 0);
    json_set_whole(row, "looks", standings->looks);
    json_set_real(row, "seconds", reading->end.seconds);
    json_set_whole(row, "resumed", reading->resume_count);
    json_set_text(row, "strategy", reading->end.strategy);
    json_set_flag(row, "complete", record != NULL ? record->complete : reading->has_end && reading->end.complete);
    json_set_whole(row, "damaged", reading->damaged);
}

/* floating-point operations, 0 where nobody knows */
static double operations_of(const struct collecting *collecting, const struct problem *problem)
{
    struct attention attention;
    if (problem->schema == schema_attention_forward()) {
        return attention_from_problem(problem, &attention, NULL) == ATTUNE_OK ? attention_operations(&attention) : 0.0;
    }
    return problem->schema != NULL ? generator_operations(collecting->generator, problem) : 0.0;
}

static attune_status describe(struct collecting *collecting, const struct result *result, json_t **described,
                              struct error *error)
{
    struct journal_reading reading = {0};
    struct standings standings = {0};
    attune_status status = ATTUNE_OK;
    int journals = 0;
    if (result->run != NULL && result->run->reading.has_begin) {
        status =
            history_gather(collecting->store, &collecting->history, result->run->record, &reading, &journals, error);
    }
    if (status == ATTUNE_OK) {
        status = standings_make(&reading, &standings, error);
    }
    if (status == ATTUNE_OK) {
        const struct tune_outcome *standard = default_of(collecting, result, &reading);
        json_t *row = json_object();
        json_set_text(row, "problem", result->problem);
        json_set_text(row, "name", reading.begin.name);
        json_set_text(row, "specialisation", result->specialisation);
        json_object_set_new(row, "sizes", sizes_of(result));
        json_set_text(row, "device", result->device);
        json_set_text(row, "target", result->target);
        add_run(result, &reading, &standings, row);
        json_set_whole(row, "journals", journals);
        json_object_set_new(row, "runs", runs_of(collecting, result));
        add_winner(result, &reading, &standings, standard, row);
        json_set_flag(row, "timed",
                      json_real_value(json_object_get(row, "winner_microseconds")) > 0.0 || standings.timed > 0);
        json_set_real(row, "operations", operations_of(collecting, &result->parsed));
        json_set_real(row, "bytes",
                      result->parsed.schema != NULL ? trace_call_bytes(collecting->generator, &result->parsed) : 0.0);
        report_outcomes(&reading, &standings, row);
        *described = row;
    }
    standings_free(&standings);
    journal_reading_free(&reading);
    return status;
}

/* ------------------------------------------------------------------------------------------------ the head */

/* appended unless it is there, or empty */
static void add_once(json_t *list, const char *text)
{
    size_t index;
    json_t *known;
    json_array_foreach(list, index, known)
    {
        if (strcmp(json_string_value(known), text) == 0) {
            return;
        }
    }
    if (text[0] != '\0') {
        json_t *holder = json_object();
        json_set_text(holder, "text", text);
        json_array_append(list, json_object_get(holder, "text"));
        json_decref(holder);
    }
}

static json_t *device_row(json_t *devices, const char *name, const char *target)
{
    size_t index;
    json_t *row;
    json_array_foreach(devices, index, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0 &&
            strcmp(json_string_value(json_object_get(row, "target")), target) == 0) {
            return row;
        }
    }
    row = json_object();
    json_set_text(row, "name", name);
    json_set_text(row, "target", target);
    json_object_set_new(row, "drivers", json_array());
    json_object_set_new(row, "power_limits", json_array());
    json_array_append_new(devices, row);
    return row;
}

static void note_time(int64_t seconds, int64_t *first, int64_t *last)
{
    if (seconds > 0) {
        *first = *first == 0 || seconds < *first ? seconds : *first;
        *last = seconds > *last ? seconds : *last;
    }
}

/* of the results that are shown: devices, compilers, dates */
static void add_head(const struct collecting *collecting, json_t *data)
{
    json_t *devices = json_array(), *compilers = json_array(), *unreadable = json_array();
    int64_t first = 0, last = 0;
    int runs = 0;
    for (int i = 0; i < collecting->count; i++) {
        const struct result *result = &collecting->results[i];
        json_t *row = device_row(devices, result->device, result->target);
        const struct record *record = result->record;
        if (record != NULL) {
            char watts[32];
            add_once(compilers, record->compiler);
            add_once(json_object_get(row, "drivers"), record->device.driver);
            snprintf(watts, sizeof watts, "%d W", record->device.power_limit_watts);
            add_once(json_object_get(row, "power_limits"), record->device.power_limit_watts > 0 ? watts : "");
            note_time(record->created, &first, &last);
        }
        for (int k = 0; k < collecting->history.run_count; k++) {
            const struct history_run *run = &collecting->history.runs[k];
            const struct journal_begin *begin = &run->reading.begin;
            if (run->reading.has_begin && strcmp(begin->problem, result->problem) == 0 &&
                strcmp(begin->device, result->device) == 0 && strcmp(begin->target, result->target) == 0) {
                runs++;
                add_once(json_object_get(row, "drivers"), begin->driver);
                note_time(begin->started, &first, &last);
            }
        }
    }
    for (int i = 0; i < collecting->history.run_count; i++) {
        if (collecting->history.runs[i].reason[0] != '\0') {
            json_t *row = json_object();
            json_set_text(row, "path", collecting->history.runs[i].path);
            json_set_text(row, "reason", collecting->history.runs[i].reason);
            json_array_append_new(unreadable, row);
        }
    }
    json_object_set_new(data, "devices", devices);
    json_object_set_new(data, "compilers", compilers);
    json_set_whole(data, "runs", runs);
    json_set_whole(data, "first", first);
    json_set_whole(data, "last", last);
    json_object_set_new(data, "unreadable", unreadable);
    json_set_whole(data, "unreadable_records", collecting->history.unreadable_records);
}

attune_status report_collect(struct cli *cli, struct store *store, const struct problem *only, json_t *data,
                             struct error *error)
{
    struct collecting collecting = {.cli = cli, .store = store};
    char text[PROBLEM_TEXT_BYTES];
    json_t *results = json_array();
    attune_status status = cli_generator(cli, error);
    if (status == ATTUNE_OK && only != NULL) {
        status = problem_format(only, text, error);
    }
    if (status == ATTUNE_OK) {
        collecting.generator = cli->generator;
        status = history_read(store, &collecting.history, error);
    }
    if (status == ATTUNE_OK) {
        status = group(&collecting, only != NULL ? text : NULL, error);
    }
    if (status == ATTUNE_OK && collecting.count == 0) {
        status = only != NULL ? error_set(error, ATTUNE_NOT_FOUND,
                                          "'%s' holds no tuning of %s: see what there is with `attune cache journals`",
                                          store_path(store), text)
                              : error_set(error, ATTUNE_NOT_FOUND,
                                          "'%s' holds no tuning to report: run `attune tune` first", store_path(store));
    }
    if (status == ATTUNE_OK) {
        qsort(collecting.results, (size_t)collecting.count, sizeof *collecting.results, by_place);
        add_head(&collecting, data);
    }
    for (int i = 0; i < collecting.count && status == ATTUNE_OK; i++) {
        json_t *row = NULL;
        status = describe(&collecting, &collecting.results[i], &row, error);
        if (status == ATTUNE_OK) {
            json_array_append_new(results, row);
        }
    }
    json_object_set_new(data, "results", results);
    free(collecting.results);
    history_free(&collecting.history);
    return status;
}
