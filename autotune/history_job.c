/* history_job.c - the journals of a job's ranks as one. Of a candidate that several looked at, as all do at the
 * default, the first journal's outcomes stay. */
#include "autotune/history.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* whose outcomes of a candidate stay: the first journal's that came to it, else the first's that names it */
static bool find_owners(const struct journal_reading *readings, int count, json_t *owners)
{
    bool good = owners != NULL;
    for (int pass = 0; pass < 2; pass++) {
        for (int j = 0; j < count; j++) {
            for (int i = 0; i < readings[j].outcome_count && good; i++) {
                const struct journal_outcome *outcome = &readings[j].outcomes[i];
                const char *name = outcome->what.candidate;
                bool tried = strcmp(outcome->what.outcome, "not-tried") != 0;
                if (outcome->counts && (tried || pass == 1) && json_object_get(owners, name) == NULL) {
                    good = json_object_set_new(owners, name, json_integer(j)) == 0;
                }
            }
        }
    }
    return good;
}

/* the default's time, 0 where it has none; all begin with the default */
static double yardstick(const struct journal_reading *reading, const char *standard)
{
    const struct tune_outcome *what = standings_find(reading, standard);
    return what != NULL ? what->microseconds : 0.0;
}

static void add_end(struct journal_end *into, const struct journal_end *end)
{
    if (into->winner[0] == '\0') {
        memcpy(into->winner, end->winner, sizeof into->winner);
    }
    into->complete &= end->complete;
    into->seconds = fmax(into->seconds, end->seconds);
    into->drift = fmax(into->drift, end->drift);
    into->verified += end->verified;
    into->rejected += end->rejected;
}

/* How many the whole space has. Older writers say their share alone: all shares have the default, and no fewer are
 * known than were come to. */
static int all_candidates(const struct journal_reading *readings, int count, int named)
{
    int64_t shares = 0;
    int space = 0;
    for (int j = 0; j < count; j++) {
        const struct journal_begin *begin = &readings[j].begin;
        shares += begin->candidates - (j > 0 && begin->candidates > 0);
        space = begin->space > space ? begin->space : space;
    }
    int64_t all = space > 0 ? space : count > 1 ? shares : readings[0].begin.candidates;
    return (int)(all < named ? named : all < INT32_MAX ? all : INT32_MAX);
}

/* into the first of the readings, which takes what it needs of the others */
static attune_status merge(struct journal_reading *readings, int count, struct error *error)
{
    struct journal_reading *into = &readings[0];
    json_t *owners = json_object();
    size_t room = 1;
    for (int j = 0; j < count; j++) {
        room += (size_t)readings[j].outcome_count;
    }
    struct journal_outcome *all = malloc(room * sizeof *all);
    if (all == NULL || !find_owners(readings, count, owners)) {
        free(all);
        json_decref(owners);
        return error_no_memory(error);
    }
    const char *standard = into->outcome_count > 0 ? into->outcomes[0].what.candidate : "";
    double first = yardstick(into, standard);
    int used = 0;
    into->end.tried = into->end.looks = 0;
    for (int j = 0; j < count; j++) {
        double own = yardstick(&readings[j], standard), factor = first > 0.0 && own > 0.0 ? first / own : 1.0;
        for (int i = 0; i < readings[j].outcome_count; i++) {
            const struct journal_outcome *outcome = &readings[j].outcomes[i];
            if (json_integer_value(json_object_get(owners, outcome->what.candidate)) == j) {
                all[used] = *outcome;
                all[used].what.microseconds *= factor;
                all[used].what.spread *= factor;
                into->end.tried += outcome->counts && strcmp(outcome->what.outcome, "not-tried") != 0;
                into->end.looks += outcome->counts && outcome_was_looked_at(&outcome->what);
                used++;
            }
        }
        if (j > 0) {
            into->has_end &= readings[j].has_end;
            into->torn |= readings[j].torn;
            into->damaged += readings[j].damaged;
            add_end(&into->end, &readings[j].end);
        }
    }
    into->begin.candidates = all_candidates(readings, count, (int)json_object_size(owners));
    json_decref(owners);
    free(into->outcomes);
    into->outcomes = all;
    into->outcome_count = used;
    return ATTUNE_OK;
}

attune_status history_gather(struct store *store, const struct history *history, const char *record,
                             struct journal_reading *reading, int *count, struct error *error)
{
    struct journal_reading *readings = calloc((size_t)history->run_count + 1, sizeof *readings);
    attune_status status = readings != NULL ? ATTUNE_OK : error_no_memory(error);
    int found = 0;
    for (int i = 0; i < history->run_count && status == ATTUNE_OK; i++) {
        const struct history_run *run = &history->runs[i];
        if (run->reason[0] == '\0' && run->reading.has_begin && strcmp(run->record, record) == 0) {
            status = history_outcomes(store, run->run, &readings[found], error);
            found += status == ATTUNE_OK;
        }
    }
    if (status == ATTUNE_OK && found == 0) {
        status = error_set(error, ATTUNE_NOT_FOUND, "no journal leaves the record of run %s", record);
    }
    if (status == ATTUNE_OK && found > 1) {
        status = merge(readings, found, error);
    } else if (status == ATTUNE_OK) {
        readings[0].begin.candidates = all_candidates(readings, 1, 0);
    }
    for (int i = status == ATTUNE_OK ? 1 : 0; i < found; i++) {
        journal_reading_free(&readings[i]);
    }
    if (status == ATTUNE_OK) {
        *reading = readings[0];
    }
    if (count != NULL) {
        *count = found;
    }
    free(readings);
    return status;
}
