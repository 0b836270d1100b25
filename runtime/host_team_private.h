/* host_team_private.h - what the files of a team share: host_team.c (scheduling, barriers), host_wave.c (operations of
 * a wave), host_shared.c (shared arrays).
 */
#ifndef RUNTIME_HOST_TEAM_PRIVATE_H
#define RUNTIME_HOST_TEAM_PRIVATE_H

#include "runtime/host_fiber.h"
#include "runtime/host_matrix.h"
#include "runtime/host_team.h"

enum fiber_state { FIBER_READY, FIBER_AT_BARRIER, FIBER_AT_WAVE, FIBER_RETURNED };
enum wave_operation { WAVE_BARRIER, WAVE_SHUFFLE, WAVE_COLLECTIVE, WAVE_MATRIX };

struct fiber {
    struct host_context context;
    struct host_team *team;
    struct wave *wave; /* of the current launch */
    uint32_t thread;
    enum fiber_state state;
    uint32_t site;   /* where it waits */
    uint32_t value;  /* shuffle: what this lane offers */
    uint32_t source; /* shuffle: whose value it wants */
    uint32_t result; /* shuffle: written when the operation completes */
    float *c;        /* matrix multiply: this lane's registers, on its stack */
    const uint32_t *a, *b;
    bool made;              /* its context is parked at fiber_main's switch, or fresh */
    uint32_t meetings;      /* operations of its wave since the last barrier */
    uint32_t wave_barriers; /* of its wave in this block */
};

typedef void (*collective_compute)(const void *ins, void *outs, uint32_t lanes);

struct wave {
    uint32_t first, lanes; /* threads first .. first + lanes - 1 */
    uint32_t arrived;
    enum wave_operation operation; /* valid while arrived > 0 */
    uint32_t site;
    uint32_t in_bytes, out_bytes;
    collective_compute compute;
    enum host_matrix matrix; /* of a matrix multiply */
    char *ins, *outs;        /* lanes * in_bytes, lanes * out_bytes of the current or last collective */
    size_t ins_bytes, outs_bytes;
    unsigned
        generation; /* of wave barriers: two alternating addresses keep a fast lane's next arrival out of this one */
    char order[2];
};

struct shared_array {
    uint32_t site;
    uint64_t bytes;
    char *data; /* exactly bytes long: AddressSanitizer guards its ends */
};

struct host_team {
    struct host_context scheduler;
    struct fiber *fibers[HOST_MAX_THREADS];
    uint32_t fiber_count;
    struct wave waves[HOST_MAX_THREADS];
    uint32_t wave_count;

    const struct host_launch *launch;
    struct host_launch_order *launch_order;
    bool flushes; /* matrix instructions of the emulated target take subnormals as zero */
    uint32_t block[3];
    uint32_t returned;

    uint32_t at_barrier;
    uint32_t barrier_site;  /* valid while at_barrier > 0 */
    uint32_t barrier_first; /* thread that came first */
    unsigned barrier_generation;
    char barrier_order[2];

    struct shared_array *shared;
    size_t shared_count, shared_capacity;

    struct host_trace_log log;
    uint32_t traced;   /* blocks told before */
    uint32_t barriers; /* completed in this block */

    bool failed;
    char *failure; /* HOST_FAILURE_BYTES, the caller's */
};

/* The fiber that the calling CPU thread runs; set by the scheduler before each switch. Read once at the start of an API
 * function: a fiber never changes CPU threads within a block. */
extern _Thread_local struct fiber *host_fiber_current;

/* ---- host_team.c ---- */

/* The block fails with this text, at this thread; the first failure stays. */
void host_fail_block(struct host_team *team, uint32_t thread, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* the same from the fiber itself: back to the scheduler for good */
void host_fail_fiber(struct fiber *fiber, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* where thread `thread` is, for messages about those who are missing */
void host_describe_place(const struct host_team *team, uint32_t thread, char *text, size_t bytes);
/* the running fiber waits at a site until someone makes it READY */
void host_wait_as(struct fiber *fiber, enum fiber_state state, uint32_t site);

/* ---- host_wave.c ---- */

extern const char *const host_wave_operations[]; /* names, by enum wave_operation */
void host_api_wave_barrier(uint32_t site);
uint32_t host_api_shuffle(uint32_t site, uint32_t value, uint32_t source_lane);
void host_api_collective(uint32_t site, const void *in, uint32_t in_bytes, void *out, uint32_t out_bytes,
                         collective_compute compute);
void host_api_matrix(uint32_t site, uint32_t operation, float *c, const uint32_t *a, const uint32_t *b);
/* Complete a shuffle for the lanes that are there. false: the block has failed. */
bool host_wave_shuffle_now(struct host_team *team, struct wave *wave);

/* ---- host_shared.c ---- */

void *host_api_shared(uint32_t site, uint64_t bytes);
void host_api_access(uint32_t line, const void *address, uint32_t bytes, uint32_t kind);
void host_shared_free(struct host_team *team); /* the block's arrays */

#endif
