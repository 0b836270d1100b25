/* journal.h - the run's outcomes as JSON lines, on disk as soon as they are known: a killed run keeps what it learnt.
 *
 *   {"kind":"begin", "run", "problem", "device", "target", "driver", "candidates", "seed", "started"}
 *   {"kind":"outcome", "stage":"first"|"final", "id", "candidate", "outcome", "reason", "microseconds", ...}
 *   {"kind":"end", "winner", "complete", "seconds", ...}
 */
#ifndef AUTOTUNE_JOURNAL_H
#define AUTOTUNE_JOURNAL_H

#include "autotune/tune.h"

#include <jansson.h>

struct journal {
    int file; /* -1: there is none, writes do nothing */
    char path[512];
};

/* A store without a folder gives a journal that keeps nothing. */
attune_status journal_open(struct journal *journal, struct store *store, const char *run, struct error *error);
/* appends one line and flushes it to disk; takes the reference. The first failure warns and ends the journal: tuning
 * goes on. */
void journal_write(struct journal *journal, json_t *line);
void journal_outcome(struct journal *journal, const char *stage, const struct tune_outcome *outcome);
void journal_close(struct journal *journal);

#endif
