/* explain_run.h - what `attune explain` tells from a tuning run: who else was measured, why others were out, what the
 * default would cost, and where one candidate stands. */
#ifndef CLI_EXPLAIN_RUN_H
#define CLI_EXPLAIN_RUN_H

#include "autotune/history.h"
#include "cli/cli.h"
#include "runtime/context.h"

struct explained_run {
    struct cli *cli;
    struct store *store;
    const struct problem *problem;
    const struct driver_device *device;
    const struct record *record; /* of the plan, when tuning made it; NULL: the newest run of the problem is told of */
    const char *served;          /* name of the plan's candidate; "": none */
    const char *standard;        /* name of the default candidate; "": none */
    const char *asked;           /* --candidate: a name, k=v words, an id or its first digits; NULL: not asked */
};

/* Adds "tuning" to the result: {"run", "journal": "there"|"gone"|"unreadable"|"none", "reason", "problem", "state",
 * "listed", "tried", "looks", "timed", "nearest": [...], "default", "out": [kinds], "constraints",
 * "constraints_from"}; and "candidate" where one was asked for. ATTUNE_INVALID and ATTUNE_NOT_FOUND for a candidate
 * that there is not. */
attune_status explain_run(const struct explained_run *explained, struct error *error);
/* the same for people, from the result */
void explain_run_print(const json_t *result);
/* of the candidate that was asked for, alone */
void explain_candidate_print(const json_t *result);

/* A device of that target as the store's tuned records describe it: the one whose record of the problem's
 * specialisation is the newest, else whose record is. *kinds: how many kinds of devices of the target there are records
 * of; with none nothing but the target is known of it. ATTUNE_IO, ATTUNE_NO_MEMORY. */
attune_status explain_target(struct store *store, const struct target *target, const struct problem *problem,
                             struct driver_device *device, int *kinds, struct error *error);

/* A sentence on why this record serves: `served` is its place among the choices, -1 where it is none of them. */
void explain_why(const struct choices *choices, int served, attune_rung rung, struct buffer *text);

#endif
