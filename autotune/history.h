/* history.h - what tuning left in a store: its runs (journals), and the records that they published.
 *
 * For those who look back: `attune cache journals`, `cache report` and `explain`. Reads, and changes nothing. One
 * thread a struct. Every run comes with its reason when it cannot be read; none fails the others.
 */
#ifndef AUTOTUNE_HISTORY_H
#define AUTOTUNE_HISTORY_H

#include "autotune/journal.h"

/* ---- runs ---- */
struct history_run {
    char run[33];                   /* "" where the file's name is no run's */
    char record[33];                /* id of the record that it leaves: its own, or that of its job of several ranks */
    char path[512];                 /* below the store's folder */
    uint64_t bytes;                 /* of the file */
    int64_t modified;               /* seconds since 1970 */
    bool written;                   /* somebody appends to it now, as far as locks tell */
    char reason[512];               /* why it cannot be read; "" when it was */
    struct journal_reading reading; /* empty when it could not */
};

/* All journals of the store: those that began first come first, and of those that do not say when, by path. Outcomes
 * are not kept (history_outcomes reads them), only counted: runs may be many. */
struct history {
    struct history_run *runs;
    int run_count;
    struct record *records; /* tuned ones, oldest first, then by run */
    int record_count;
    int unreadable_records;
};
/* ATTUNE_IO and ATTUNE_NO_MEMORY; nothing is to free then */
attune_status history_read(struct store *store, struct history *history, struct error *error);
/* the same without records */
attune_status history_read_runs(struct store *store, struct history *history, struct error *error);
void history_free(struct history *history);
/* the first run that leaves, or would leave, the record of that id; NULL: no such journal */
const struct history_run *history_find(const struct history *history, const char *record);

/* One run's journal with its outcomes, by its id; on failure (ATTUNE_NOT_FOUND, ATTUNE_CORRUPT, ...) nothing is to
 * free. A journal that is of another run, or does not begin as one, is ATTUNE_CORRUPT. */
attune_status history_outcomes(struct store *store, const char *run, struct journal_reading *reading,
                               struct error *error);

/* The journals of all runs that leave the record of that id, as one: those of a job's ranks, each of whose times counts
 * by its default's against the first's. It is of the whole space, has an end when all have, and is complete when all
 * are; a candidate that several looked at counts once. ATTUNE_NOT_FOUND when there is none. `count` gets how many there
 * are; may be NULL. */
attune_status history_gather(struct store *store, const struct history *history, const char *record,
                             struct journal_reading *reading, int *count, struct error *error);

/* "ended": every candidate was looked at; "stopped" before that; "failed": no winner; "running"; "killed"; "unreadable"
 */
const char *history_state(const struct history_run *run);

/* ---- what came of a run's candidates ---- */
/* Right and, on a device, timed: it might have won. The same binary as another ("same") stands when it has its time. */
bool outcome_stands(const struct tune_outcome *outcome);
/* the device was asked for it: it was checked or timed */
bool outcome_was_looked_at(const struct tune_outcome *outcome);
/* a sentence on what an outcome means, for people; "" for one that this version does not know */
const char *outcome_meaning(const char *outcome);

/* Of one kind of outcome, the reasons that differ by more than their numbers, the most frequent first. */
struct history_reason {
    const struct tune_outcome *example; /* the first with it */
    int count;
};
struct history_kind {
    const char *outcome;
    int count;
    struct history_reason *reasons;
    int reason_count;
};
struct standings {
    const struct tune_outcome **fastest; /* those that stand: by their time, then those without one */
    int fastest_count, timed;
    struct history_kind *out; /* all others by kind, the most frequent first */
    int out_count;
    struct history_reason *reasons; /* of all kinds, which point into it */
    int tried;                      /* all but not-tried: what came to an outcome */
    int looks;                      /* of them that cost the device a look */
};
/* Of the outcomes that count. Points into the reading, which must outlive it. ATTUNE_NO_MEMORY. */
attune_status standings_make(const struct journal_reading *reading, struct standings *standings, struct error *error);
void standings_free(struct standings *standings);
/* the counting outcome of a candidate by full name or id (or the first digits of one); NULL when there is none, or
 * several begin so */
const struct tune_outcome *standings_find(const struct journal_reading *reading, const char *candidate);

#endif
