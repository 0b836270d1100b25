/* fake.h - a compiling half and a driver of the tests' own: both count what they are asked. */
#ifndef TESTS_RUNTIME_FAKE_H
#define TESTS_RUNTIME_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/context.h"

#include <stdatomic.h>

/* ---- the handler: one kernel for every problem ---- */
struct fake_jit {
    atomic_int compiles, tunes, running, destroyed;
    attune_status fail;     /* not ATTUNE_OK: what every call answers */
    attune_status untuned;  /* not ATTUNE_OK: what every tuning answers */
    int delay_milliseconds; /* a compile takes this long */
    const char *object;     /* bytes that a compile gives; NULL: an ELF's first ones and the target's name */
    size_t object_bytes;
    const char *target;   /* of the objects; NULL: the asking device's */
    const char *identity; /* 64 hex digits */
    bool keep_nothing;    /* publish no object: what a store emptied at once looks like */
    struct launch launch;
    const struct schema *schema; /* of a user family, or NULL */
};
extern const char fake_identity[65], fake_other_identity[65];
void fake_jit_init(struct fake_jit *jit);
void fake_jit_register(struct fake_jit *jit, attune_context *context);

/* the launch descriptor of attention_kernel.cpp: every value that attention can bind, in order */
void fake_attention_launch(struct launch *launch);

/* publishes object and record of a problem as a tuning or a compile would; `created` orders them */
struct fake_record {
    enum record_kind kind;
    const char *problem;
    const char *candidate;
    int64_t created;
    bool incomplete;
    int tried;              /* 0: as fake_jit_init has it */
    const char *driver;     /* NULL: the fake driver's */
    int32_t power;          /* 0: the fake driver's */
    const char *target;     /* NULL: gfx906; of default records */
    const char *identity;   /* NULL: fake_identity */
    int64_t fixed_seqlen_q; /* not 0: compiled in */
    bool no_object;
};
void fake_publish(struct store *store, const struct fake_record *what);

/* ---- the driver: remembers launches ---- */
enum { FAKE_LAUNCHES_MAX = 64 };
struct fake_launch {
    uint32_t grid[3], threads, dynamic_shared_bytes;
    unsigned char arguments[LAUNCH_ARGUMENT_BYTES_MAX];
    uint32_t argument_bytes;
    void *stream;
};
struct fake_device {
    struct driver_device facts;
    atomic_int loads, unloads, launches, allocations, synchronisations;
    atomic_int relaxed; /* begins minus ends */
    attune_status load_fails;
    const char *load_refuses; /* NULL, or what an object begins with that does not load */
    struct fake_launch recorded[FAKE_LAUNCHES_MAX];
};
/* facts of an MI50; one device at a time, its state in `*state` */
const struct driver *fake_driver(struct fake_device **state);

/* a context with a memory store (or in `folder`), and the fake device; aborts the test on failure */
attune_context *fake_context(const char *folder, attune_jit_mode mode);
attune_device *fake_open(attune_context *context, struct fake_device **state);

const char *fake_last_error(attune_context *context);
/* expected status, and each of the texts in the message; NULL ends */
void fake_expect(attune_context *context, attune_status expected, attune_status status, ...);

attune_problem *fake_problem(attune_context *context, const char *text);

#define FAKE_PROBLEM "attention.forward dtype=f32 heads=4 kv_heads=2 head_dim=16 "

#endif
