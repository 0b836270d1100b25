/* compiler_worker.h - one attune-helper process as the pool sees it. Used by one thread at a time. */
#ifndef GENERATOR_COMPILER_WORKER_H
#define GENERATOR_COMPILER_WORKER_H

#include "base/process.h"
#include "generator/compiler.h"
#include "generator/compiler_protocol.h"

#include <limits.h>

struct worker {
    struct process process;
    bool running;
    bool ended_by_others;  /* by a signal that was neither ours nor for a fault of its own, since it was started or last
                              asked */
    int served;            /* requests since its start */
    uint32_t requests;     /* number of the last one, from 1; 0 is the hello's */
    char folder[PATH_MAX]; /* its private temporary folder: made and removed by us, so that a killed worker leaves
                              nothing */
};

struct worker_limits {
    double seconds;
    uint64_t rss_bytes;
};

/* find the helper program: `path`, else $ATTUNE_HELPER, else beside the library */
attune_status worker_find_helper(const char *path, char *helper, size_t bytes, struct error *error);

/* start and wait for its hello, at most `seconds` (and never more than 30); on failure nothing is left running */
attune_status worker_start(struct worker *worker, const char *helper, double seconds, struct error *error);
void worker_stop(struct worker *worker); /* kills the group, removes the folder; safe twice */
bool worker_alive(const struct worker *worker);

/* Send a frame, read the reply into `payload` and parse it. `errors` receives what the worker wrote to stderr
 * (bounded). On any failure the worker is stopped; the message says how it died. */
attune_status worker_exchange(struct worker *worker, struct buffer *frame, const struct worker_limits *limits,
                              struct buffer *payload, struct message *reply, struct buffer *errors,
                              struct error *error);

uint64_t worker_starts(void);

#endif
