/* trace.h - what ATTUNE_TRACE wrote (docs/runtime.md): problems, how often each was called, and what that costs.
 *
 * Bytes of any kind are legal: what is not a line of a trace is counted and left out, since a writer may have been
 * killed in the middle of one.
 */
#ifndef AUTOTUNE_TRACE_H
#define AUTOTUNE_TRACE_H

#include "base/problem.h"
#include "generator/generator.h"

struct traced_problem {
    char *text; /* canonical as its writer knew it, at most PROBLEM_TEXT_BYTES with its NUL */
    int64_t calls;
};

struct trace {
    struct traced_problem *problems; /* each text once, by text */
    int count;
    int64_t calls;             /* of all; sums end at INT64_MAX */
    int64_t lines, unreadable; /* not blank; of them no line of a trace */
};

enum { TRACE_FILE_BYTES_MAX = 65 << 20, TRACE_FILES_MAX = 64 };

/* Adds the lines of `bytes`; a zeroed trace is empty. Call trace_sum when all are added. ATTUNE_NO_MEMORY. */
attune_status trace_add(struct trace *trace, const char *bytes, size_t length, struct error *error);
void trace_sum(struct trace *trace);
void trace_free(struct trace *trace);

/* A file, added and not summed. ATTUNE_INVALID when it has lines and none of them is of a trace. */
attune_status trace_add_file(struct trace *trace, const char *path, struct error *error);

/* Estimated microseconds of one call, the same for every device, since only ratios between problems count: the longer
 * of computing and moving bytes at the rates of a machine with 100 operations of 16-bit floats, or 20 of f32, a byte of
 * memory - GPUs of the last ten years have 25 to 250 of the former - and 4 microseconds of launching:
 *
 *   4 + max(operations / 1e8, bytes / 1e6)     f16, bf16 and smaller
 *   4 + max(operations / 2e7, bytes / 1e6)     q in f32
 *
 * Bytes are those of all tensors, each once. A family that does not tell its operations is taken to move bytes alone.
 */
double trace_call_cost(struct generator *generator, const struct problem *problem);
/* those bytes; 0 where nobody knows */
double trace_call_bytes(struct generator *generator, const struct problem *problem);

#endif
