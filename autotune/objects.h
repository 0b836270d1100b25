/* objects.h - the one road from a candidate to a binary: expand -> key -> store -> compile -> store.
 *
 * The miss handler, the tuner, `compile --space` and verification all walk it. Expansion needs the generator and so
 * belongs to one thread; the rest is thread-safe.
 */
#ifndef AUTOTUNE_OBJECTS_H
#define AUTOTUNE_OBJECTS_H

#include "base/codeobject.h"
#include "cache/store.h"
#include "generator/compiler.h"
#include "generator/generator.h"

/* what all objects of one run share */
struct object_road {
    struct compiler_pool *pool;
    struct store *store; /* NULL: nothing is looked up or kept */
    struct target target;
    enum sanitize sanitize;
    bool accept_other; /* an object of the same source by another compiler will do */
    bool heed_blocked; /* what the store knows to be wrong, to hang, crash or never finish compiling is not made */
    bool keep_bytes;   /* false: jobs only see to it that the store has the object (`compile --space`) */
    /* filled by road_open; identity is "" when the compiler is missing: then stored objects of others are all there is
     */
    char compiler[64];
    char identity[DIGEST_HEX_BYTES];
    attune_status toolchain;
    char toolchain_message[512];
};

/* Asks the pool who would compile. A missing toolchain is not an error here. `sanitize` objects are never shared with
 * the store's others: their options differ. */
attune_status road_open(struct object_road *road, struct compiler_pool *pool, struct store *store,
                        const struct target *target, enum sanitize sanitize, bool accept_other, struct error *error);

/* $ATTUNE_STALE: accept (the default) or retune; true for accept. Other values are ATTUNE_INVALID */
attune_status stale_accepted(bool *accepted, struct error *error);

struct object_job {
    struct candidate candidate;
    char name[CANDIDATE_TEXT_BYTES];
    char id[CANDIDATE_ID_BYTES];
    struct launch launch;
    struct digest template_digest;
    struct digest source_key; /* key without the compiler */
    struct digest object;     /* name in the store */
    char *source;             /* text for the compiler; gone once compiled */
    size_t source_bytes;
    /* result */
    attune_status status;
    char message[512];
    struct buffer bytes;
    struct buffer log;
    char compiler[64];
    char identity[DIGEST_HEX_BYTES];
    bool blocked;               /* by an earlier run; the message says why */
    bool reused;                /* taken from the store */
    bool other_compiler;        /* and made by another one than would compile now */
    struct resources resources; /* zero when the object says nothing; the sizes are -1 then */
    double seconds;             /* of the compile */
    struct digest binary;       /* object_binary's, of a job that a pipeline made; zero where it failed */
};

/* Expansion and key; `scratch` is reused between calls. The job's status is set too. */
attune_status object_expand(struct generator *generator, const struct object_road *road,
                            const struct candidate *candidate, const struct problem *problem, struct expansion *scratch,
                            struct object_job *job, struct error *error);

/* The binary: stored under the key, stored by another compiler if the road accepts that, or compiled and stored.
 * Thread-safe. Sets the job's status and message. */
attune_status object_obtain(const struct object_road *road, struct object_job *job, struct error *error);

/* Notes in the store that nobody should launch the object again, and why: "hung", "crashed", "wrong", "compile-error".
 * A note that cannot be written is a warning. Not for sanitized objects, which are no plan's. */
void object_block(struct store *store, const struct target *target, const struct object_job *job, const char *outcome,
                  const char *reason);

/* Digest of a finished job's bytes and launch: where it is equal nothing can differ when they run. ATTUNE_NO_MEMORY. */
attune_status object_binary(const struct object_job *job, struct digest *binary);

void object_job_free(struct object_job *job); /* frees what it owns, not itself */

/* Jobs in the order in which their candidates were added, while threads work ahead of the reader. One thread, the
 * generator's, adds and takes. */
struct pipeline;
/* `candidates`, `count`: added by themselves as there is room; NULL and 0 when all come by pipeline_add. Not owned. */
attune_status pipeline_create(struct generator *generator, const struct object_road *road,
                              const struct problem *problem, const struct candidate *candidates, int count, int threads,
                              struct pipeline **pipeline, struct error *error);
/* Expands a candidate, which a thread then compiles. `place` is the caller's name for it. False when there is no room:
 * take a job first. A candidate that does not expand is a job that failed. */
bool pipeline_add(struct pipeline *pipeline, const struct candidate *candidate, int place);
bool pipeline_has_room(const struct pipeline *pipeline);
int pipeline_under_way(const struct pipeline *pipeline); /* added and not taken yet */
/* The next job, done or failed (job->status), valid until the following call; waits for it. NULL when nothing is under
 * way. A list's places are its indexes. */
struct object_job *pipeline_take(struct pipeline *pipeline, int *place);
bool pipeline_is_ready(struct pipeline *pipeline);           /* pipeline_take would not wait */
struct object_job *pipeline_next(struct pipeline *pipeline); /* for those who need no place */
void pipeline_destroy(struct pipeline *pipeline);            /* waits for compiles in flight; starts no more */

#endif
