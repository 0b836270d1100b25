/* context.h - what is behind the opaque handles of attune.h; for the runtime's own files, and for tests.
 *
 * Ownership: a context owns its store, schemas, devices and jit handler; a device owns its modules and the plans that
 * attune_attention_forward remembers; a plan holds one reference on a module.
 * Locks, never two at once but device->modules_lock inside nothing: context->lock guards devices, schemas and the
 * handler; device->lock guards flights and remembered plans; device->modules_lock guards modules and is held while
 * loading, so that one object is loaded once. A launch takes none of them; one that is traced takes the trace's own.
 */
#ifndef RUNTIME_CONTEXT_H
#define RUNTIME_CONTEXT_H

#include "cache/record.h"
#include "cache/store.h"
#include "runtime/attune.h"
#include "runtime/driver.h"
#include "runtime/jit.h"

#include <pthread.h>

struct thread_error;
struct schema_node;
struct module;
struct flight;
struct remembered;
struct tracing;

struct attune_context {
    struct store *store;
    attune_jit_mode mode; /* never FROM_ENVIRONMENT */
    bool retune;          /* ATTUNE_STALE=retune */
    double tune_seconds;
    struct tracing *tracing; /* NULL: ATTUNE_TRACE names no file */

    pthread_mutex_t lock;
    attune_device *devices;
    struct schema_node *schemas;
    bool has_jit;
    struct jit_handler jit;

    pthread_mutex_t error_lock;
    struct thread_error *errors; /* latest failure first */
};

struct attune_device {
    attune_context *context;
    attune_device *next;
    const struct driver *driver;
    int ordinal;
    struct driver_device facts; /* as of opening */

    pthread_mutex_t lock;
    pthread_cond_t landed; /* a flight ended */
    struct flight *flights;
    struct remembered *remembered; /* latest used first */
    int remembered_count;

    pthread_mutex_t modules_lock;
    struct module *modules;
};

struct attune_problem {
    attune_context *context;
    struct problem problem;
    char text[PROBLEM_TEXT_BYTES];
};

/* Keeps the message when status is not ATTUNE_OK: with the context (by thread), or with the thread when context is
 * NULL. Returns status. */
attune_status context_report(attune_context *context, attune_status status, const struct error *error);

/* the context's own copy of a schema, valid as long as the context; NULL without memory */
const struct schema *context_intern_schema(attune_context *context, const struct schema *schema);

/* a device on a given driver table, as attune_device_open makes it; for tests with a driver of their own */
attune_status context_open_device(attune_context *context, const struct driver *driver, int ordinal,
                                  attune_device **device, struct error *error);
void device_destroy(attune_device *device);

/* around what allocates, loads or synchronises: the captures of other threads live on */
void device_relax(const struct driver *driver, bool begin);

/* Reads a sized struct of the caller into ours: a shorter one (older header) is filled up with zeros, a longer one must
 * be zero beyond what we know. `first_bytes` is the size in the first release that had it. */
attune_status struct_read(void *into, size_t bytes, size_t first_bytes, const void *from, const char *name,
                          struct error *error);
/* checks the size member of a struct that is to be filled, and copies as much of `from` as it has room for */
attune_status struct_write(void *into, const void *from, size_t bytes, size_t first_bytes, const char *name,
                           struct error *error);

/* ---- problems (problem_api.c) ---- */
attune_status attention_to_problem(const attune_attention *attention, struct problem *problem, struct error *error);

/* ---- modules (module.c): loaded objects, shared by plans ---- */
struct module {
    struct module *next;
    struct digest object;
    char kernel[LAUNCH_NAME_BYTES];
    uint32_t dynamic_shared_bytes;
    int references;
    bool pinned; /* by attune_attention_forward: stays loaded until the device goes */
    driver_module handle;
    driver_function function;
};
/* Loaded already, or read from the store and loaded. ATTUNE_NOT_FOUND when the store has no such object. */
attune_status module_acquire(attune_device *device, const struct record *record, struct module **module,
                             struct error *error);
void module_release(attune_device *device, struct module *module);
void module_pin(attune_device *device, struct module *module);
void modules_unload(attune_device *device);

/* ---- choosing (choose.c) ---- */
enum { CHOICE_NOTE_BYTES = 256 };
struct choice {
    struct record record; /* schema is always NULL: a plan has its problem's */
    attune_rung rung;
    double distance; /* rung near */
    int order;       /* place in the store's own order, newest first */
    bool stale;
    bool other_compiler; /* than the one here, as far as that is known */
    char note[CHOICE_NOTE_BYTES];
};
struct passed_over {        /* a record whose object nobody should launch */
    struct record record;   /* no schema */
    struct blocked blocked; /* why */
};
struct choices {
    struct choice **items; /* best first */
    int count;
    attune_rung best_dropped; /* highest rung that lowest_rung ruled out; 0 none */
    struct passed_over **passed;
    int blocked;           /* of them */
    char why_blocked[768]; /* the first one's name, what it did and why */
};
/* every stored record that can serve the problem, best first. `candidate` not NULL: only records of exactly that one */
attune_status choose_records(attune_device *device, const struct problem *problem, attune_rung lowest,
                             const char *candidate, struct choices *choices, struct error *error);
void choices_free(struct choices *choices);
/* the folders that choose_records looks in, for messages */
void choose_paths(attune_device *device, const char *specialisation, struct buffer *text);
/* Was the record's object made by another compiler than is here? Adds that to the note. False where the compiler here
 * is not known: nobody starts one to find out. */
bool choose_note_compiler(const attune_device *device, const struct record *record, char note[CHOICE_NOTE_BYTES]);
/* can a record serve this problem on this device? says why not */
attune_status choice_fits(const attune_device *device, const struct record *record, const struct problem *problem,
                          struct error *error);

/* ---- remembered plans of attune_attention_forward (forward.c) ---- */
void remembered_free(attune_device *device);

#endif
