/* measurer_worker.h - one attune-measure process: started, asked, watched, ended. One thread. */
#ifndef AUTOTUNE_MEASURER_WORKER_H
#define AUTOTUNE_MEASURER_WORKER_H

#include "autotune/measurer.h"
#include "base/process.h"
#include "generator/compiler_protocol.h"

struct measurer_worker {
    struct process process;
    bool running;
    struct buffer words; /* what it wrote to stderr, its end */
    /* the step it is in */
    bool in_candidate;
    char step[96];
    double step_begin;
    double longest;         /* candidate's step of the last request, in seconds */
    struct measurer *owner; /* whose aside runs once a request was sent; NULL: nobody's */
    bool broke; /* the last request failed since the process ended or spoke no sense, not by a limit of ours */
};

struct measurer_limits {
    double candidate_seconds; /* of one step in a candidate's hands */
    double own_seconds;       /* of one step in ours */
    double deadline;          /* clock_seconds; 0: none */
    const volatile int *stop; /* or NULL */
    uint64_t rss_bytes;       /* of the worker; 0: none */
};

/* $ATTUNE_MEASURE, else beside the library; ATTUNE_NO_TOOLCHAIN when there is none */
attune_status measurer_worker_find(char *program, size_t bytes, struct error *error);

/* waits for its hello; on failure nothing is left running */
attune_status measurer_worker_start(struct measurer_worker *worker, const char *program, const volatile int *stop,
                                    struct error *error);
void measurer_worker_stop(struct measurer_worker *worker); /* safe on a zeroed struct and twice */
/* running and waiting for a request: one that ended by itself in between is stopped */
bool measurer_worker_ready(struct measurer_worker *worker);

/* One request. ATTUNE_OK when a reply came, whatever it says; else the worker is stopped, *fate says why, and the
 * message names the step, how it ended and its last words. */
attune_status measurer_worker_ask(struct measurer_worker *worker, const struct buffer *frame,
                                  const struct measurer_limits *limits, struct buffer *payload, struct message *reply,
                                  enum measurer_fate *fate, struct error *error);

#endif
