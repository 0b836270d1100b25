/* ranks.h - several processes that tune together: who am I among how many, and of which job.
 *
 * Nothing is sent between ranks. They share a cache folder, and each knows the names of the others' journals: a run's
 * id follows from job, problem and rank. Launchers say rank, size and job in the environment; whoever starts processes
 * by other means says them with options.
 */
#ifndef AUTOTUNE_RANKS_H
#define AUTOTUNE_RANKS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { RANKS_MAX = 4096, RANKS_JOB_BYTES = 256, RANKS_RUN_BYTES = 33 };

/* how long others are waited for, in seconds */
struct ranks_patience {
    double begin;   /* after our own end, for a journal of which there is nothing yet */
    double silence; /* for one that nobody has open and that does not grow */
    double stall;   /* for one that somebody has open and that does not grow */
    double poll;    /* between two looks */
};

struct ranks {
    int rank, size; /* 0 <= rank < size; size 1: alone, and nothing else counts */
    int local;      /* rank among those on this machine; -1: not known */
    int neighbours; /* ranks on this machine, ours too; 0: not known */
    char job[RANKS_JOB_BYTES];
    const char *launcher; /* "Open MPI", "PMI", "Slurm", "--rank", "none" */
    struct ranks_patience patience;
};

/* By --rank R/N (`place`) and --job NAME, either of which may be NULL, else by what the launcher says: Open MPI, then
 * PMI, then Slurm, since the inner one is started by the outer one. --job alone names the launcher's job. A process
 * that nobody launched as one of several is alone. A job that Slurm starts again is another one unless it `goes_on`.
 * ATTUNE_INVALID, with the variable or option and its value, for what
 * is no rank of a job. */
attune_status ranks_find(const char *place, const char *job, bool goes_on, struct ranks *ranks, struct error *error);

/* all limits from the second: begin twice, stall twenty times as long; the default is 30 s */
void ranks_set_patience(struct ranks *ranks, double silence_seconds);

/* Run ids, the same for all ranks of the job. `problem` is the canonical text. `turn` 0 is the first try of that rank's
 * work; a rank that takes over what another left undone writes turn 1, then 2. */
void ranks_journal_run(const struct ranks *ranks, const char *problem, int rank, int turn, char run[RANKS_RUN_BYTES]);
/* of the one record that the job leaves for a problem and a kind of device */
void ranks_record_run(const struct ranks *ranks, const char *problem, char run[RANKS_RUN_BYTES]);

/* Whose is it? A whole problem by its number in the list; a candidate of a divided problem by its id, so that it has
 * the same owner where lists differ. */
int ranks_owner_of_problem(const struct ranks *ranks, int number);
int ranks_owner_of_candidate(const struct ranks *ranks, const char *id);

#endif
