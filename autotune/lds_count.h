/* lds_count.h - bank conflicts of a candidate's kernel, access by access, from the addresses that it really uses.
 *
 * The kernel's text is compiled for the host device with its accesses told (runtime/host_trace.h), run on a few blocks
 * of a problem, and every access of a wave is counted by the target's rule. The text is the target's own; only what the
 * compiler makes of an access (two words read as one, a value kept instead of read again) is not known here.
 */
#ifndef AUTOTUNE_LDS_COUNT_H
#define AUTOTUNE_LDS_COUNT_H

#include "autotune/lds_rule.h"
#include "base/buffer.h"
#include "generator/compiler.h"
#include "generator/generator.h"

/* all accesses of one kind and width at one line */
struct lds_line {
    uint32_t line; /* of the source, from 1 */
    enum host_access kind;
    uint32_t bytes;           /* a lane */
    const char *known;        /* how the phases that it was counted by are known; the rule's */
    bool inner;               /* again and again between barriers: once a key tile, or more */
    uint64_t count;           /* instructions of waves */
    uint64_t ideal, cycles;   /* clocks: cycles - ideal are lost to conflicts */
    uint32_t block, interval; /* where it was seen first in the block that was counted last */
};

struct lds_count {
    struct lds_rule rule;
    struct lds_line *lines; /* by line, kind, width */
    int line_count;
    int last;                     /* index of the line that was counted last */
    bool failed;                  /* there was no memory for a line */
    struct problem problem;       /* that was run */
    uint64_t blocks, grid_blocks; /* run, and of that problem's grid */
    struct buffer source;         /* what `attune show` prints for the host-target; its lines are named */
};
void lds_count_free(struct lds_count *count);

/* one access more; what a trace's `access` calls, with the count as its data */
void lds_count_access(void *count, const struct host_wave_access *access);

/* The sizes that are run instead of the problem's own: few rows and heads, keys for several tiles. Other families than
 * attention.forward run as they are. */
attune_status lds_problem(const struct problem *given, struct problem *run, struct error *error);

/* Counts one candidate that is valid for problem and target (a host-target counts as the target it stands for). At most
 * `blocks` of the grid are run, 0: all. `count` is zeroed first and must be freed also after an error.
 * ATTUNE_UNSUPPORTED for what has no inputs, ATTUNE_INVALID for what is too large to run; errors of compiler and
 * kernel. */
attune_status lds_count_candidate(struct generator *generator, struct compiler_pool *pool,
                                  const struct candidate *candidate, const struct problem *problem,
                                  const struct target *target, uint32_t blocks, struct lds_count *count,
                                  struct error *error);

/* the source's line without indentation; "" past its end */
void lds_count_text(const struct lds_count *count, uint32_t line, char *text, size_t bytes);

/* "read", "write", "rows" (load_matrices), "copy" (asynchronous, from global memory) */
const char *lds_access_name(enum host_access kind);

#endif
