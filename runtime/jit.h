/* jit.h - how a context asks for what its stores do not hold. libattune-jit fills this table (attune_jit_register);
 * libattune calls it and knows nothing of Lua or compilers. */
#ifndef RUNTIME_JIT_H
#define RUNTIME_JIT_H

#include "base/error.h"
#include "base/problem.h"
#include "cache/record.h"
#include "cache/store.h"
#include "runtime/attune.h"
#include "runtime/driver.h"

struct jit_request {
    const struct problem *problem;
    const struct driver *driver;
    int ordinal;
    const struct driver_device *device;
    struct store *store; /* the context's first, writable or memory-only */
    double tune_seconds; /* for tune */
    /* for compile: exactly this candidate (`family/template k=v ...` or `k=v ...`), NULL: the default one. A named
     * candidate publishes its object, and a default record only when it is the default; *record describes it with kind
     * RECORD_DEFAULT */
    const char *candidate;
    bool own_compiler; /* for compile: what another compiler made is there, and the driver does not load it */
};

struct jit_handler {
    void *data;
    void (*destroy)(void *data);
    /* expand and compile the default candidate, publish object and default record in the store, fill *record */
    attune_status (*compile)(void *data, const struct jit_request *request, struct record *record, struct error *error);
    /* tune, publish, fill *record with the winner's. A failure leaves the device and the caller's memory as they were:
     * the caller then asks compile for the default */
    attune_status (*tune)(void *data, const struct jit_request *request, struct record *record, struct error *error);
    /* schema of a family libattune has no table for; owned by the handler */
    const struct schema *(*schema)(void *data, const char *family);
    /* full name of the candidate that compile would take for the problem; may be NULL. A stored default record of
     * another candidate then does not serve while compiling is allowed: a default made for decoding is no default for
     * prefill */
    attune_status (*default_candidate)(void *data, const struct problem *problem, const struct target *target,
                                       char candidate[RECORD_CANDIDATE_BYTES], struct error *error);
    /* compiler identity that a compile for the target would use now, for ATTUNE_STALE=retune only; may be NULL */
    attune_status (*identity)(void *data, const struct target *target, char identity[DIGEST_HEX_BYTES],
                              struct error *error);
    /* For ATTUNE_STALE=retune only; may be NULL: is `object` what a compile of the candidate would be named now, by
     * templates, generator, options and compiler? */
    attune_status (*is_current)(void *data, const struct problem *problem, const struct target *target,
                                const char *candidate, const struct digest *object, bool *current, struct error *error);
    /* The identity, if it is known without starting a compiler (one was asked or has compiled before); false if not,
     * may be NULL. For telling that what ATTUNE_STALE=accept serves is of another compiler. */
    bool (*identity_known)(void *data, const struct target *target, char identity[DIGEST_HEX_BYTES]);
};

/* all but destroy are called from any thread, several at once; the runtime sees to it that one key is
 * asked for once at a time */

/* takes ownership of handler->data, replaces (and destroys) an earlier handler; no prepare may be running */
attune_status context_set_jit(attune_context *context, const struct jit_handler *handler);

#endif
