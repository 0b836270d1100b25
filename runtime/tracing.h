/* tracing.h - ATTUNE_TRACE: which problems are launched, and how often, noted in a file for `attune tune --trace`.
 *
 * A context counts its launches by problem, with the sizes of the launch, and appends to the file
 *
 *   {"calls":2,"problem":"attention.forward q_dtype=f16 ..."}
 *
 * a line for so many further calls: at a problem's first call, whenever those not yet written are as many as those that
 * are, and for the rest when the context is destroyed. A process that is killed has so written more than half of each
 * problem's calls. A line is one write to a file open for appending: processes and threads may share it.
 *
 * A launch that is captured counts once, when it is captured. One lock a context; without ATTUNE_TRACE a launch pays
 * for one look at a pointer.
 */
#ifndef RUNTIME_TRACING_H
#define RUNTIME_TRACING_H

#include "base/problem.h"

/* a file that grew to this size gets no more */
#define TRACING_FILE_BYTES_MAX ((int64_t)64 << 20)
/* problems counted at a time: at the next one what is pending is written, and all begin anew */
enum { TRACING_PROBLEMS_MAX = 4096 };

struct tracing;
/* Opens what ATTUNE_TRACE names, as file_open_append does; *tracing is NULL when it is unset, empty or not to be
 * trusted (environment.h). ATTUNE_INVALID or ATTUNE_IO for a file that is not written to. */
attune_status tracing_open(struct tracing **tracing, struct error *error);
/* One launch; thread-safe. Never fails: what cannot be written ends the tracing with a warning. */
void tracing_note(struct tracing *tracing, const struct problem *sizes);
void tracing_close(struct tracing *tracing); /* writes what is pending; NULL is legal */

#endif
