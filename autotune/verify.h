/* verify.h - is a candidate right? Runs it on poisoned, guarded outputs against the fp64 reference.
 *
 * The tolerance is the numerical contract's (docs/numerics.md): per row, against the error of the naive algorithm.
 * Inputs: normal, peaked (q and k times 8), structured (one-hot V with row indices; exact closed form). Outputs are
 * filled with NaN, buffers end in guard zones of 4 KiB that must be untouched.
 */
#ifndef AUTOTUNE_VERIFY_H
#define AUTOTUNE_VERIFY_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/launch.h"
#include "base/problem.h"
#include "cache/store.h"
#include "generator/compiler.h"
#include "generator/generator.h"
#include "runtime/driver.h"
#include "runtime/host_device.h"

/* Inputs, references and tolerances of one problem: made once, shared by all candidates. Immutable after creation
 * except for the caches inside, so one per thread. */
struct oracle;

enum { ORACLE_KINDS = 3 }; /* normal, peaked, structured */

attune_status oracle_create(struct generator *generator, const struct problem *problem, uint64_t seed,
                            struct oracle **oracle, struct error *error);
void oracle_destroy(struct oracle *oracle);

struct verdict {
    bool right;
    bool too_slow;      /* gave up: right is false, but nothing wrong was seen */
    int kind;           /* input kind of the first failure */
    int calls;          /* that ran, a failing one the last */
    int companions;     /* of them at other sizes than the problem's own */
    double worst_ratio; /* largest error / allowed over all rows and kinds: <= 1 passes */
    char reason[512]; /* "o: batch 0, head 3, query 17: error 0.12 > 0.003" , "guard zone before o overwritten", ... */
};

/* Run an object on a device for all input kinds. Device errors give their status; wrong numbers give ATTUNE_OK and
 * right=false. */
attune_status oracle_check(struct oracle *oracle, const struct driver *driver, int ordinal, const void *object,
                           size_t object_bytes, const struct launch *launch, struct verdict *verdict,
                           struct error *error);

/* ---- `attune verify` ---- */
struct verify_options {
    const char *device; /* driver_parse_device text; NULL best */
    const char *target; /* emulated target on host ("gfx906"), NULL: the device's own */
    bool all_candidates;
    int cover;             /* > 0: that many of a pairwise cover; 0 with !all: the default only */
    const char *candidate; /* exactly this one, or NULL */
    uint64_t seed;
    bool schedules[3]; /* host: indexed by enum host_schedule; none set: round-robin */
    enum sanitize sanitize;
    bool companions;          /* host: also the small calls that real devices always get, a second a candidate;
                                 verify_accepts refuses it where a family has none */
    double candidate_seconds; /* limit of one step of a candidate; 0: from the first right one's (measurer.h), of a
                                 sanitizer's launch 120 */
    struct store *store;      /* objects are taken from and put there; NULL: compiled anew and not kept */
    struct store *notes;      /* what is wrong, hangs or crashes is noted there as blocked; NULL: nowhere */
};

struct verify_outcome {
    char candidate[CANDIDATE_TEXT_BYTES];
    char id[CANDIDATE_ID_BYTES];
    char schedule[16];
    char outcome[16]; /* the tuner's words: right, wrong, compile-error, launch-failed, crashed, hung, resources (does
                         not fit the device; counts for nothing) */
    int calls, companions; /* the verdict's; 0 when there is none */
    double worst_ratio;
    char reason[512];
};
typedef void (*verify_report)(void *data, const struct verify_outcome *outcome, int done, int total);

/* Are the options ones that this problem's family honours? ATTUNE_INVALID names the one that is not. */
attune_status verify_accepts(const struct verify_options *options, const struct problem *problem, struct error *error);

/* ATTUNE_OK when all are right, ATTUNE_WRONG when numbers are not, ATTUNE_COMPILE_FAILED when all that failed did not
 * compile, ATTUNE_DEVICE_FAILED when some stopped while running; other statuses when the checks could not go on */
attune_status verify_run(struct generator *generator, struct compiler_pool *pool, const struct problem *problem,
                         const struct verify_options *options, verify_report report, void *data, int *right, int *total,
                         struct error *error);

#endif
