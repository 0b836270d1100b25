/* rank_wait.h - watching the journal of another rank until it has ended, or will not.
 *
 * All that is known of another rank is its journal: whether it is there, whether it grows, and whether a process has it
 * locked. A file system without locks leaves growth alone, and more patience.
 */
#ifndef AUTOTUNE_RANK_WAIT_H
#define AUTOTUNE_RANK_WAIT_H

#include "autotune/journal.h"
#include "autotune/ranks.h"

enum rank_state {
    RANK_AWAITED,
    RANK_ANSWERED, /* its journal has its end line */
    RANK_LOST,     /* its journal has none, and nobody seems to go on with it */
    RANK_ABSENT,   /* of its journal there is nothing */
    RANK_ELSEWHERE /* its journal is of another kind of device: nothing to do with us */
};
const char *rank_state_name(enum rank_state state); /* "answered", "lost", ... */

struct rank_watch {
    int rank;
    char run[RANKS_RUN_BYTES];
    enum rank_state state;
    /* rank_watch_look's */
    double began, changed; /* clock_seconds: of the watch, of the last growth seen */
    uint64_t bytes;
    bool has_reading;
    struct journal_reading reading; /* what is in it; of states LOST and ANSWERED */
};

void rank_watch_begin(struct rank_watch *watch, const struct ranks *ranks, const char *problem, int rank, int turn);
/* One look, which changes `state` when it is known. `fingerprint` is the folder of our device's records, NULL where any
 * device will do. A journal that cannot be read, whatever the reason, is one that does not grow. */
void rank_watch_look(struct rank_watch *watch, struct store *store, const struct ranks_patience *patience,
                     const char *fingerprint);
void rank_watch_free(struct rank_watch *watch);

/* Looks at all until none is awaited, or *stop is set (may be NULL). False when it was. */
bool rank_watch_all(struct rank_watch *watches, int count, struct store *store, const struct ranks_patience *patience,
                    const char *fingerprint, const volatile int *stop);

/* Somebody did that rank's work of `turn`, or is at it: its journal has an end, a process has it open, or it is claimed
 * (empty as yet). */
bool rank_is_at_work(const struct ranks *ranks, struct store *store, const char *problem, int rank, int turn);

#endif
