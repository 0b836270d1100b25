/* history_job.c - the journals of a job's ranks as one. Of a candidate that several looked at, as all do at the
 * default, the first journal's outcomes stay. */
#include "autotune/history.h"

#include <jansson.h>
#include <math.h>
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
    into->tried += end->tried;
    into->verified += end->verified;
    into->rejected += end->rejected;
    into->looks += end->looks;
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
    for (int j = 0; j < count; j++) {
        double own = yardstick(&readings[j], standard), factor = first > 0.0 && own > 0.0 ? first / own : 1.0;
        for (int i = 0; i < readings[j].outcome_count; i++) {
            const struct journal_outcome *outcome = &readings[j].outcomes[i];
            if (json_integer_value(json_object_get(owners, outcome->what.candidate)) == j) {
                all[used] = *outcome;
                all[used].what.microseconds *= factor;
                all[used].what.spread *= factor;
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
    /* a rank lists its share alone; how many there are in all is known by those that were come to */
    int named = (int)json_object_size(owners);
    into->begin.candidates = named > into->begin.candidates ? named : into->begin.candidates;
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
