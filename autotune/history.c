/* history.c - journals and records of a store, found and read. What is made of their outcomes: standings.c. */
#include "autotune/history.h"

#include "autotune/ranks.h"
#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* journals/<run>.jsonl -> run; false for another name */
static bool run_of(const char *path, char run[33])
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

static attune_status read_journal(struct store *store, const char *run, bool written, struct journal_reading *reading,
                                  struct error *error)
{
    struct buffer text = BUFFER_INIT;
    attune_status status = store_journal_read(store, run, &text, error);
    if (status == ATTUNE_OK) {
        status = journal_read(buffer_string(&text), text.length, reading, error);
    }
    buffer_free(&text);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (!reading->has_begin && !written) {
        status = error_set(error, ATTUNE_CORRUPT, "it does not begin as a journal");
    } else if (reading->has_begin && strcmp(reading->begin.run, run) != 0) {
        status = error_set(error, ATTUNE_CORRUPT, "it is the journal of run %s", reading->begin.run);
    }
    if (status != ATTUNE_OK) {
        journal_reading_free(reading);
    }
    return status;
}

attune_status history_outcomes(struct store *store, const char *run, struct journal_reading *reading,
                               struct error *error)
{
    return read_journal(store, run, false, reading, error);
}

/* A rank's journal says "R/N JOB"; the record's id follows from job, size and problem. */
static void find_record(struct history_run *run)
{
    struct ranks ranks = {0};
    const struct journal_begin *begin = &run->reading.begin;
    int used = 0;
    snprintf(run->record, sizeof run->record, "%s", run->run);
    if (sscanf(begin->rank, "%5d/%5d %n", &ranks.rank, &ranks.size, &used) == 2 && used > 0 && ranks.rank >= 0 &&
        ranks.rank < ranks.size && strlen(begin->rank + used) < sizeof ranks.job) {
        snprintf(ranks.job, sizeof ranks.job, "%s", begin->rank + used);
        ranks_record_run(&ranks, begin->problem, run->record);
    }
}

struct gathering {
    struct store *store;
    struct history *history;
    int run_capacity, record_capacity;
};

/* room for one more item, or NULL */
static void *room(void **items, int count, int *capacity, size_t bytes)
{
    if (count == *capacity) {
        int larger = *capacity > 0 ? 2 * *capacity : 16;
        void *grown = realloc(*items, (size_t)larger * bytes);
        if (grown == NULL) {
            return NULL;
        }
        *items = grown;
        *capacity = larger;
    }
    return (char *)*items + (size_t)count * bytes;
}

static attune_status add_run(struct gathering *g, const struct store_entry *entry, struct error *error)
{
    char path[4096];
    struct error why = {.message = ""};
    struct history_run *run =
        room((void **)&g->history->runs, g->history->run_count, &g->run_capacity, sizeof *g->history->runs);
    if (run == NULL) {
        return error_no_memory(error);
    }
    *run = (struct history_run){.bytes = entry->bytes, .modified = entry->modified};
    snprintf(run->path, sizeof run->path, "%s", entry->path);
    attune_status status = run_of(entry->path, run->run)
                               ? path_join(path, sizeof path, store_path(g->store), entry->path, &why)
                               : error_set(&why, ATTUNE_CORRUPT, "its name is no journal's");
    if (status == ATTUNE_OK) { /* asked first: of a run that ends meanwhile the last line is read */
        run->written = journal_is_written(path);
        status = read_journal(g->store, run->run, run->written, &run->reading, &why);
    }
    if (status == ATTUNE_NO_MEMORY) {
        return error_set(error, status, "%s", why.message);
    }
    if (status != ATTUNE_OK) {
        run->reading = (struct journal_reading){0};
        snprintf(run->reason, sizeof run->reason, "%.500s", why.message);
    }
    find_record(run);
    journal_reading_free(&run->reading);
    g->history->run_count++;
    return ATTUNE_OK;
}

static attune_status add_record(struct gathering *g, const struct store_entry *entry, struct error *error)
{
    struct history *history = g->history;
    struct record *record =
        room((void **)&history->records, history->record_count, &g->record_capacity, sizeof *history->records);
    if (record == NULL) {
        return error_no_memory(error);
    }
    attune_status status = store_record_at(g->store, entry->path, record, NULL);
    if (status == ATTUNE_NO_MEMORY) {
        return error_no_memory(error);
    }
    if (status != ATTUNE_OK) {
        history->unreadable_records++;
    } else if (record->kind == RECORD_TUNED) {
        history->record_count++;
    } else {
        record_free(record);
    }
    return ATTUNE_OK;
}

static attune_status add_journal(void *data, const struct store_entry *entry, struct error *error)
{
    return entry->kind == STORE_JOURNAL ? add_run(data, entry, error) : ATTUNE_OK;
}

static attune_status add_entry(void *data, const struct store_entry *entry, struct error *error)
{
    switch (entry->kind) {
    case STORE_JOURNAL:
        return add_run(data, entry, error);
    case STORE_RECORD:
        return add_record(data, entry, error);
    default:
        return ATTUNE_OK;
    }
}

static int by_start(const void *a, const void *b)
{
    const struct history_run *left = a, *right = b;
    int64_t first = left->reading.begin.started, second = right->reading.begin.started;
    return first != second ? (first < second ? -1 : 1) : strcmp(left->path, right->path);
}

static int by_creation(const void *a, const void *b)
{
    const struct record *left = a, *right = b;
    if (left->created != right->created) {
        return left->created < right->created ? -1 : 1;
    }
    int order = strcmp(left->run, right->run);
    return order != 0 ? order : strcmp(left->problem, right->problem);
}

static attune_status read_all(struct store *store, bool records, struct history *history, struct error *error)
{
    *history = (struct history){0};
    struct gathering g = {.store = store, .history = history};
    attune_status status =
        records ? store_walk(store, add_entry, &g, error) : store_walk_journals(store, add_journal, &g, error);
    if (status != ATTUNE_OK) {
        history_free(history);
        return status;
    }
    if (history->run_count > 1) {
        qsort(history->runs, (size_t)history->run_count, sizeof *history->runs, by_start);
    }
    if (history->record_count > 1) {
        qsort(history->records, (size_t)history->record_count, sizeof *history->records, by_creation);
    }
    return ATTUNE_OK;
}

attune_status history_read(struct store *store, struct history *history, struct error *error)
{
    return read_all(store, true, history, error);
}

attune_status history_read_runs(struct store *store, struct history *history, struct error *error)
{
    return read_all(store, false, history, error);
}

void history_free(struct history *history)
{
    for (int i = 0; i < history->record_count; i++) {
        record_free(&history->records[i]);
    }
    free(history->records);
    free(history->runs);
    *history = (struct history){0};
}

const struct history_run *history_find(const struct history *history, const char *record)
{
    for (int i = 0; i < history->run_count; i++) {
        if (history->runs[i].reason[0] == '\0' && strcmp(history->runs[i].record, record) == 0) {
            return &history->runs[i];
        }
    }
    return NULL;
}

const char *history_state(const struct history_run *run)
{
    const struct journal_reading *reading = &run->reading;
    if (run->reason[0] != '\0') {
        return "unreadable";
    }
    if (!reading->has_end) {
        return run->written ? "running" : "killed";
    }
    return reading->end.winner[0] == '\0' ? "failed" : reading->end.complete ? "ended" : "stopped";
}
