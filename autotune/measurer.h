/* measurer.h - what tuning and verification need of one device for one problem: candidates checked and timed.
 *
 * A measurer owns the inputs, the right answers, the device's buffers and the judge of its problem. Calls come in this
 * order: create, open, begin, then any number of check, look, drop, warm and sample, close. One thread.
 */
#ifndef AUTOTUNE_MEASURER_H
#define AUTOTUNE_MEASURER_H

#include "autotune/idle.h"
#include "autotune/judge.h"
#include "autotune/oracle.h"
#include "autotune/verify.h"
#include "runtime/driver.h"
#include "runtime/host_device.h"

enum { MEASURER_SLOTS = 16 }; /* candidates that stay loaded for sampling */

struct measurer_facts {
    struct driver_device device;
    bool timed;        /* its times mean something: a GPU, and timing was asked for */
    bool wants_judge;  /* large cases: the device can answer them in every row */
    double operations; /* floating-point operations of the problem; 0 unknown */
    uint64_t bytes;    /* device memory that begin and the checks will take */
};

/* how the last request ended, beside its status */
enum measurer_fate {
    MEASURER_WELL,        /* it was answered, if by an error */
    MEASURER_HUNG,        /* the candidate outlasted its limit and was ended */
    MEASURER_CRASHED,     /* the candidate took its process or the device's context with it */
    MEASURER_INTERRUPTED, /* the run's own end came first: nothing is known of the candidate */
    MEASURER_LOST         /* the device is gone: neither this request nor a further one can be tried */
};

struct measurer;

struct measurer_kind {
    bool overlaps; /* its requests run the aside once they are sent */
    attune_status (*open)(struct measurer *measurer, struct measurer_facts *facts, struct error *error);
    attune_status (*begin)(struct measurer *measurer, const struct judge_objects *judge, struct error *error);
    attune_status (*check)(struct measurer *measurer, const struct kernel_object *object, enum host_schedule schedule,
                           bool companions, double patience, struct verdict *verdict, struct error *error);
    attune_status (*look)(struct measurer *measurer, int slot, const struct kernel_object *object, double give_up,
                          double *microseconds, struct error *error);
    void (*vouch)(struct measurer *measurer, const struct kernel_object *object); /* NULL: it does not matter here */
    attune_status (*drop)(struct measurer *measurer, int slot, struct error *error);
    attune_status (*warm)(struct measurer *measurer, int slot, double milliseconds, struct error *error);
    attune_status (*sample)(struct measurer *measurer, int slot, double *microseconds, struct error *error);
    void (*close)(struct measurer *measurer);
};

struct measurer {
    const struct measurer_kind *kind;
    enum measurer_fate fate;
    struct idle idle;          /* between requests */
    void (*aside)(void *data); /* measurer_meanwhile's, until it ran */
    void *aside_data;
};

/* Describes the device and says how much of its memory will be taken, before any of it is. ATTUNE_NO_MEMORY when the
 * device has not so much, ATTUNE_INVALID when the host device would take minutes. */
attune_status measurer_open(struct measurer *measurer, struct measurer_facts *facts, struct error *error);
/* Takes the memory; references are made by a thread meanwhile. Compiles a judge first where `facts`, which open filled,
 * want one; without, after a warning, the CPU samples rows of large cases. Called by the generator's thread. */
attune_status measurer_begin(struct measurer *measurer, const struct measurer_facts *facts, struct generator *generator,
                             const struct object_road *road, const struct problem *problem, struct error *error);

/* Every case of the problem, under one of the host device's schedules (GPUs have none). `companions` false leaves out
 * the small calls that were asked for when the measurer was made. `patience` in microseconds: a
 * launch at the problem's own sizes that takes longer ends the check, too_slow; 0: never. Wrong numbers give ATTUNE_OK
 * and right=false; ATTUNE_NO_MEMORY: there was none for the inputs and answers. */
attune_status measurer_check(struct measurer *measurer, const struct kernel_object *object, enum host_schedule schedule,
                             bool companions, double patience, struct verdict *verdict, struct error *error);

/* A first impression of the time; the kernel stays loaded in the slot, whose former one is dropped. Slower than
 * `give_up` (0: none) it is not looked at longer. */
attune_status measurer_look(struct measurer *measurer, int slot, const struct kernel_object *object, double give_up,
                            double *microseconds, struct error *error);
/* The object was right in an earlier run. Until a check finds another, it is what is asked about after several ends in
 * a row, and its look, if that was the last request, says how long a step may take. */
void measurer_vouch(struct measurer *measurer, const struct kernel_object *object);
attune_status measurer_drop(struct measurer *measurer, int slot, struct error *error); /* an empty slot is legal */
/* launches of a slot's kernel until so much device time has passed */
attune_status measurer_warm(struct measurer *measurer, int slot, double milliseconds, struct error *error);
/* mean time of one launch over a few milliseconds of them */
attune_status measurer_sample(struct measurer *measurer, int slot, double *microseconds, struct error *error);

/* Work that the next request does while the device is busy with it; where the device is this process's, before it. It
 * runs once, in the caller's thread, and uses no measurer. */
void measurer_meanwhile(struct measurer *measurer, void (*run)(void *data), void *data);
void measurer_catch_up(struct measurer *measurer); /* now, unless a request has */

enum measurer_fate measurer_fate(const struct measurer *measurer);
/* The share of its time, 0 to 1, that the measurer waited for a request, from ten seconds after it was opened on: what
 * device time the caller wasted. Below 0 before. */
double measurer_idle(const struct measurer *measurer);
void measurer_close(struct measurer *measurer); /* NULL is legal */

/* ---- in this process ---- */

/* For drivers that no other process has, for debuggers, and inside the measuring program. A candidate that never ends
 * never ends here; after one that leaves the device unusable all further requests are MEASURER_LOST. */
struct measurer_local_options {
    struct generator *generator; /* used until the measurer is open */
    const struct problem *problem;
    uint64_t seed;
    const struct driver *driver;
    int ordinal;
    bool timing;                         /* false: checks alone */
    bool companions;                     /* on the host device too */
    bool flushes;                        /* the emulated target's products do (target_flushes) */
    const struct driver *const *runners; /* by schedule: drivers whose launches other programs execute, such as the
                                            sanitizers'; NULL: the driver itself. Not owned */
    oracle_step step;                    /* told of work in a candidate's hands; NULL: nobody is */
    void *step_data;
};
attune_status measurer_local(const struct measurer_local_options *options, struct measurer **measurer,
                             struct error *error);

/* ---- in a worker process ---- */

/* attune-measure ($ATTUNE_MEASURE, else in libexec/) holds the device, its memory and every candidate. A watchdog ends
 * it when a candidate outlasts its limit or the machine's memory; the next request then begins with a new one that has
 * the slots' kernels again. After three ends in a row a candidate that was right before must be right again, else the
 * device is lost; so it is when no new worker gets as far as its first request. */
struct measurer_remote_options {
    struct generator *generator; /* its template path travels */
    const char *device;          /* driver_parse_device text; NULL: best */
    const struct problem *problem;
    uint64_t seed;
    bool timing;
    bool companions;          /* on the host device too */
    bool flushes;             /* the emulated target's products do (target_flushes) */
    double candidate_seconds; /* limit of one step: a launch, a load, a sample; 0: 120 for the first candidate, then 20
                                 times what its slowest step took, at least 10 */
    double deadline;          /* clock_seconds at which checks and looks end, once a candidate was right; 0: none */
    const volatile int *stop; /* non-zero: requests end within five seconds; may be NULL */
};
attune_status measurer_remote(const struct measurer_remote_options *options, struct measurer **measurer,
                              struct error *error);
/* its requests are answered by another process: this one's times are its own */
bool measurer_is_aside(const struct measurer *measurer);
/* ATTUNE_MEASURE=none: the user wants candidates in this process */
bool measurer_is_local(void);

/* the measuring program's loop: requests from `input`, replies to `output`; its exit code. `driver` NULL: the one that
 * the request names, else this one, whatever the request says */
int measurer_serve(int input, int output, const struct driver *driver);

#endif
