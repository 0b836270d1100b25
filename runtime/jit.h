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
};

struct jit_handler {
    void *data;
    void (*destroy)(void *data);
    /* expand and compile the default candidate, publish object and default record in the store, fill *record */
    attune_status (*compile)(void *data, const struct jit_request *request, struct record *record, struct error *error);
    /* tune, publish, fill *record with the winner's */
    attune_status (*tune)(void *data, const struct jit_request *request, struct record *record, struct error *error);
    /* schema of a family libattune has no table for; owned by the handler */
    const struct schema *(*schema)(void *data, const char *family);
};

/* takes ownership of handler->data, replaces (and destroys) an earlier handler */
attune_status context_set_jit(attune_context *context, const struct jit_handler *handler);

#endif
