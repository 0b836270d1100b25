/* fake_store.h - stores as tuning leaves them, with times that were made up: for what reads journals and records. */
#ifndef TESTS_CLI_FAKE_STORE_H
#define TESTS_CLI_FAKE_STORE_H

#include "autotune/journal.h"
#include "cache/store.h"

struct fake_run {
    const char *problem; /* of attention.forward */
    const char *device, *target, *driver;
    const char *run;  /* 32 hex digits */
    const char *name; /* of the problem; NULL: none */
    int candidates;
    int looked_at;      /* the rest is not-tried; 0: all */
    double fastest;     /* microseconds, about; 0: not timed */
    bool ended, record; /* has an end line; has a record */
    const char *reason; /* of what was wrong; NULL: an ordinary one */
    int64_t started;
};

/* the name of the run's `index`-th candidate; 0 is the default */
void fake_candidate(int index, char name[CANDIDATE_TEXT_BYTES]);
/* writes journal and record; on failure says why on stderr */
bool fake_run_write(struct store *store, const struct fake_run *run);
/* a store of several shapes, devices and fates, with so many candidates each; false when something failed */
bool fake_store_make(const char *folder, int candidates);

#endif
