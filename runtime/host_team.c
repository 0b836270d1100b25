/* host_team.c - one block of a kernel on fibers: schedules, barriers, wave operations, shared arrays, strict checks.
 *
 * A fiber runs until it waits, returns or breaks a rule; then the scheduler picks the next. What always holds:
 *   - a fiber is READY, waits at the block's barrier, waits at an operation of its wave, or has RETURNED;
 *   - all fibers that wait at the barrier wait at one site, and so do all that wait at an operation of one wave: the
 * first to come with another site fails the launch;
 *   - an operation completes when every lane of its wave is there. When no fiber of the block is ready, a shuffle
 * completes for the lanes that are there (the others are inactive: they wait at the barrier or have returned); anything
 * else that is incomplete then can never complete and fails the launch. Under ThreadSanitizer this file is not
 * instrumented; host_sync_* carry the order that barriers give.
 */
#include "runtime/host_team.h"

#include "runtime/host_fiber.h"
#include "runtime/host_matrix.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum fiber_state { FIBER_READY, FIBER_AT_BARRIER, FIBER_AT_WAVE, FIBER_RETURNED };
enum wave_operation { WAVE_BARRIER, WAVE_SHUFFLE, WAVE_COLLECTIVE, WAVE_MATRIX };
static const char *const operation_names[] = {"wave barrier", "shuffle", "wave collective", "matrix multiply"};

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
static _Thread_local struct fiber *current;

/* ------------------------------------------------------------------------------------------------ failing */

static void describe_thread(const struct host_team *team, uint32_t thread, char *text, size_t bytes)
{
    uint32_t wave = team->launch->wave;
    snprintf(text, bytes, "block (%u,%u,%u) thread %u (wave %u, lane %u)", team->block[0], team->block[1],
             team->block[2], thread, thread / wave, thread % wave);
}

static void team_fail(struct host_team *team, uint32_t thread, const char *format, va_list arguments)
{
    if (team->failed) {
        return;
    }
    team->failed = true;
    char where[96];
    describe_thread(team, thread, where, sizeof where);
    int used = snprintf(team->failure, HOST_FAILURE_BYTES, "%s: ", where);
    vsnprintf(team->failure + used, HOST_FAILURE_BYTES - (size_t)used, format, arguments);
    host_sync_release(&team->launch_order->end);
}

/* from the scheduler */
__attribute__((format(printf, 3, 4))) static void fail_block(struct host_team *team, uint32_t thread,
                                                             const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    team_fail(team, thread, format, arguments);
    va_end(arguments);
}

/* from a fiber: back to the scheduler for good */
__attribute__((noreturn, format(printf, 2, 3))) static void fail_fiber(struct fiber *fiber, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    team_fail(fiber->team, fiber->thread, format, arguments);
    va_end(arguments);
    host_context_switch(&fiber->context, &fiber->team->scheduler);
    abort(); /* the scheduler never resumes a fiber of a failed block */
}

/* where thread `thread` is, for messages about those who are missing */
static void describe_place(const struct host_team *team, uint32_t thread, char *text, size_t bytes)
{
    const struct fiber *fiber = team->fibers[thread];
    switch (fiber->state) {
    case FIBER_RETURNED:
        snprintf(text, bytes, "thread %u has returned", thread);
        break;
    case FIBER_AT_BARRIER:
        snprintf(text, bytes, "thread %u waits at the barrier of site %u", thread, fiber->site);
        break;
    case FIBER_AT_WAVE:
        snprintf(text, bytes, "thread %u waits at the %s of site %u", thread, operation_names[fiber->wave->operation],
                 fiber->site);
        break;
    default:
        snprintf(text, bytes, "thread %u has not come", thread);
    }
}

/* ------------------------------------------------------------------------------------------------ waiting */

static void wait_as(struct fiber *fiber, enum fiber_state state, uint32_t site)
{
    fiber->state = state;
    fiber->site = site;
    host_context_switch(&fiber->context, &fiber->team->scheduler);
}

static uint32_t api_thread_index(void)
{
    return current->thread;
}

static uint32_t api_block_index(int dimension)
{
    struct fiber *fiber = current;
    if (dimension < 0 || dimension > 2) {
        fail_fiber(fiber, "block_index(%d): dimensions are 0, 1 and 2", dimension);
    }
    return fiber->team->block[dimension];
}

static void api_barrier(uint32_t site)
{
    struct fiber *fiber = current;
    struct host_team *team = fiber->team;
    if (team->at_barrier == 0) {
        team->barrier_site = site;
        team->barrier_first = fiber->thread;
    } else if (team->barrier_site != site) {
        fail_fiber(
            fiber,
            "divergent barrier of site %u: thread %u waits at the barrier of site %u; every thread of a block must "
            "reach the same barrier",
            site, team->barrier_first, team->barrier_site);
    }
    char *order = &team->barrier_order[team->barrier_generation & 1];
    host_sync_release(order);
    team->at_barrier++;
    if (team->at_barrier == team->launch->threads) {
        team->at_barrier = 0;
        team->barrier_generation++;
        if (team->launch->trace != NULL) {
            host_trace_flush(&team->log, team->launch->trace, team->traced, team->launch->wave);
        }
        team->barriers++;
        for (uint32_t i = 0; i < team->launch->threads; i++) {
            team->fibers[i]->state = FIBER_READY;
            team->fibers[i]->meetings = 0;
        }
        /* the schedule decides who goes first */
        host_context_switch(&fiber->context, &team->scheduler);
    } else {
        wait_as(fiber, FIBER_AT_BARRIER, site);
    }
    host_sync_acquire(order);
}

/* ------------------------------------------------------------------------------------------------ wave operations */

/* Join the wave's operation or fail when its other lanes are at another one. The caller has set its deposits before. */
static struct wave *wave_join(struct fiber *fiber, enum wave_operation operation, uint32_t site)
{
    struct host_team *team = fiber->team;
    struct wave *wave = fiber->wave;
    if (wave->arrived == 0) {
        wave->operation = operation;
        wave->site = site;
    } else if (wave->site != site || wave->operation != operation) {
        uint32_t other = wave->first;
        while (team->fibers[other]->state != FIBER_AT_WAVE) {
            other++;
        }
        fail_fiber(fiber,
                   "%s of site %u: thread %u of the same wave waits at the %s of site %u; the lanes of a wave must "
                   "meet at one site",
                   operation_names[operation], site, other, operation_names[wave->operation], wave->site);
    }
    return wave;
}

/* Results of a shuffle for the lanes that are there; `last` is the arriving fiber, whose state still says READY. */
static bool shuffle_complete(struct host_team *team, struct wave *wave, const struct fiber *last)
{
    for (uint32_t lane = 0; lane < wave->lanes; lane++) {
        struct fiber *fiber = team->fibers[wave->first + lane];
        if (fiber != last && fiber->state != FIBER_AT_WAVE) {
            continue;
        }
        if (fiber->source >= wave->lanes) {
            fail_block(team, fiber->thread, "shuffle of site %u reads lane %u, but this wave has %u lanes", wave->site,
                       fiber->source, wave->lanes);
            return false;
        }
        const struct fiber *source = team->fibers[wave->first + fiber->source];
        if (source != last && source->state != FIBER_AT_WAVE) {
            char place[96];
            describe_place(team, source->thread, place, sizeof place);
            fail_block(team, fiber->thread, "shuffle of site %u reads lane %u, which is inactive: %s", wave->site,
                       fiber->source, place);
            return false;
        }
        fiber->result = source->value;
    }
    return true;
}

/* exactly `bytes` long, contents lost; hidden from ThreadSanitizer: lanes free what others allocated */
static bool deposits_resize(char **data, size_t *data_bytes, size_t bytes)
{
    host_ignore_begin();
    free(*data);
    *data = malloc(bytes ? bytes : 1);
    host_ignore_end();
    *data_bytes = *data ? bytes : 0;
    return *data != NULL;
}

static bool collective_complete(struct host_team *team, struct wave *wave)
{
    size_t bytes = (size_t)wave->out_bytes * wave->lanes;
    if (wave->outs_bytes != bytes) {
        if (!deposits_resize(&wave->outs, &wave->outs_bytes, bytes)) {
            fail_block(team, wave->first, "out of memory for a wave collective of %zu bytes", bytes);
            return false;
        }
    }
    host_ignore_begin();
    wave->compute(wave->ins, wave->outs, wave->lanes);
    host_ignore_end();
    return true;
}

/* Every lane waits, or is the last to come: their registers stay where they are. */
static bool matrix_complete(struct host_team *team, struct wave *wave)
{
    float *c[HOST_MATRIX_LANES];
    const uint32_t *a[HOST_MATRIX_LANES], *b[HOST_MATRIX_LANES];
    char failure[HOST_MATRIX_FAILURE_BYTES];
    for (uint32_t lane = 0; lane < wave->lanes; lane++) {
        const struct fiber *fiber = team->fibers[wave->first + lane];
        c[lane] = fiber->c;
        a[lane] = fiber->a;
        b[lane] = fiber->b;
    }
    host_ignore_begin();
    bool right = host_matrix_multiply(wave->matrix, team->flushes, c, a, b, failure);
    host_ignore_end();
    if (!right) {
        fail_block(team, wave->first, "matrix multiply of site %u: %s", wave->site, failure);
    }
    return right;
}

/* Wake the lanes that wait. */
static void wave_release(struct host_team *team, struct wave *wave)
{
    wave->arrived = 0;
    wave->generation++;
    for (uint32_t i = wave->first; i < wave->first + wave->lanes; i++) {
        if (team->fibers[i]->state == FIBER_AT_WAVE) {
            team->fibers[i]->state = FIBER_READY;
        }
    }
}

/* Counts this lane in; the last lane completes the operation and goes on at once. */
static void wave_arrive(struct fiber *fiber, struct wave *wave)
{
    struct host_team *team = fiber->team;
    fiber->meetings++;
    fiber->wave_barriers += wave->operation == WAVE_BARRIER;
    wave->arrived++;
    if (wave->arrived < wave->lanes) {
        wait_as(fiber, FIBER_AT_WAVE, wave->site);
        return;
    }
    bool right = true;
    if (wave->operation == WAVE_SHUFFLE) {
        right = shuffle_complete(team, wave, fiber);
    } else if (wave->operation == WAVE_COLLECTIVE) {
        right = collective_complete(team, wave);
    } else if (wave->operation == WAVE_MATRIX) {
        right = matrix_complete(team, wave);
    }
    if (!right) {
        host_context_switch(&fiber->context, &team->scheduler);
        abort(); /* failed blocks are not resumed */
    }
    wave_release(team, wave);
}

static void api_wave_barrier(uint32_t site)
{
    struct fiber *fiber = current;
    struct wave *wave = wave_join(fiber, WAVE_BARRIER, site);
    char *order = &wave->order[wave->generation & 1];
    host_sync_release(order);
    wave_arrive(fiber, wave);
    host_sync_acquire(order);
}

static uint32_t api_shuffle(uint32_t site, uint32_t value, uint32_t source_lane)
{
    struct fiber *fiber = current;
    if (source_lane >= fiber->team->launch->wave) {
        fail_fiber(fiber, "shuffle of site %u reads lane %u; a wave has lanes 0 to %u", site, source_lane,
                   fiber->team->launch->wave - 1);
    }
    struct wave *wave = wave_join(fiber, WAVE_SHUFFLE, site);
    fiber->value = value;
    fiber->source = source_lane;
    wave_arrive(fiber, wave);
    return fiber->result;
}

static void api_collective(uint32_t site, const void *in, uint32_t in_bytes, void *out, uint32_t out_bytes,
                           collective_compute compute)
{
    struct fiber *fiber = current;
    struct wave *wave = wave_join(fiber, WAVE_COLLECTIVE, site);
    if (wave->arrived == 0) {
        size_t bytes = (size_t)in_bytes * wave->lanes;
        wave->in_bytes = in_bytes;
        wave->out_bytes = out_bytes;
        wave->compute = compute;
        if (wave->ins_bytes != bytes) {
            if (!deposits_resize(&wave->ins, &wave->ins_bytes, bytes)) {
                fail_fiber(fiber, "out of memory for a wave collective of %zu bytes", bytes);
            }
        }
    } else if (wave->in_bytes != in_bytes || wave->out_bytes != out_bytes || wave->compute != compute) {
        fail_fiber(
            fiber,
            "wave collective of site %u: %u bytes in, %u out, while other lanes of the wave gave %u in, %u out or "
            "another function",
            site, in_bytes, out_bytes, wave->in_bytes, wave->out_bytes);
    }
    uint32_t lane = fiber->thread - wave->first;
    host_copy(wave->ins + (size_t)lane * in_bytes, in, in_bytes);
    wave_arrive(fiber, wave);
    host_copy(out, wave->outs + (size_t)lane * out_bytes, out_bytes);
}

static void api_matrix(uint32_t site, uint32_t operation, float *c, const uint32_t *a, const uint32_t *b)
{
    struct fiber *fiber = current;
    const struct host_matrix_shape *shape = host_matrix_shape(operation);
    if (shape == NULL) {
        fail_fiber(fiber, "matrix multiply of site %u: operation %u is unknown; this library has 0 to %d", site,
                   operation, HOST_MATRIX_COUNT - 1);
    }
    if (fiber->wave->lanes != shape->wave) {
        fail_fiber(fiber, "matrix multiply of site %u: %s is for a whole wave of %u lanes; this wave has %u", site,
                   shape->name, shape->wave, fiber->wave->lanes);
    }
    struct wave *wave = wave_join(fiber, WAVE_MATRIX, site);
    if (wave->arrived == 0) {
        wave->matrix = operation;
    } else if (wave->matrix != operation) {
        fail_fiber(fiber, "matrix multiply of site %u: %s, while other lanes of the wave are at %s", site, shape->name,
                   host_matrix_shape(wave->matrix)->name);
    }
    fiber->c = c;
    fiber->a = a;
    fiber->b = b;
    wave_arrive(fiber, wave);
}

/* ------------------------------------------------------------------------------------------------ shared arrays */

enum { SHARED_ALIGNMENT = 64 };

static void *api_shared(uint32_t site, uint64_t bytes)
{
    struct fiber *fiber = current;
    struct host_team *team = fiber->team;
    for (size_t i = 0; i < team->shared_count; i++) {
        struct shared_array *array = &team->shared[i];
        if (array->site == site) {
            if (array->bytes != bytes) {
                fail_fiber(fiber, "shared array of site %u: %llu bytes, but another thread asked for %llu", site,
                           (unsigned long long)bytes, (unsigned long long)array->bytes);
            }
            host_sync_acquire(array->data);
            return array->data;
        }
    }
    if (team->shared_count == team->shared_capacity) {
        size_t capacity = team->shared_capacity ? 2 * team->shared_capacity : 8;
        host_ignore_begin();
        struct shared_array *grown = realloc(team->shared, capacity * sizeof *grown);
        host_ignore_end();
        if (grown == NULL) {
            fail_fiber(fiber, "out of memory for shared array of site %u", site);
        }
        team->shared = grown;
        team->shared_capacity = capacity;
    }
    void *data = NULL;
    if (bytes == 0 || posix_memalign(&data, SHARED_ALIGNMENT, bytes) != 0) {
        fail_fiber(fiber, "shared array of site %u: cannot allocate %llu bytes", site, (unsigned long long)bytes);
    }
    memset(data, host_device_shared_fill(), bytes);
    host_sync_release(data);
    team->shared[team->shared_count++] = (struct shared_array){site, bytes, data};
    return data;
}

static void shared_free(struct host_team *team)
{
    for (size_t i = 0; i < team->shared_count; i++) {
        free(team->shared[i].data);
    }
    team->shared_count = 0;
}

static void api_access(uint32_t line, const void *address, uint32_t bytes, uint32_t kind)
{
    struct fiber *fiber = current;
    struct host_team *team = fiber->team;
    uint64_t base = 0;
    for (size_t i = 0; i < team->shared_count && team->launch->trace != NULL; i++) {
        const struct shared_array *array = &team->shared[i];
        uint64_t within = (uint64_t)((uintptr_t)address - (uintptr_t)array->data);
        if (within >= array->bytes) {
            base += (array->bytes + 15) / 16 * 16;
            continue;
        }
        const struct host_trace_event event = {.wave = fiber->wave->first,
                                               .lane = fiber->thread - fiber->wave->first,
                                               .interval = team->barriers + fiber->wave_barriers,
                                               .meeting = fiber->meetings,
                                               .line = line,
                                               .kind = kind,
                                               .bytes = bytes,
                                               .offset = (uint32_t)(base + within)};
        if (kind >= HOST_ACCESS_KINDS || !host_trace_add(&team->log, &event)) {
            fail_fiber(fiber, "line %u: an access of kind %u cannot be traced: no such kind, or no memory", line, kind);
        }
        return;
    }
}

static void api_fail(const char *message)
{
    fail_fiber(current, "%s", message);
}

static const struct host_api api = {
    .size = sizeof(struct host_api),
    .version = 2,
    .thread_index = api_thread_index,
    .block_index = api_block_index,
    .barrier = api_barrier,
    .wave_barrier = api_wave_barrier,
    .shuffle = api_shuffle,
    .shared = api_shared,
    .collective = api_collective,
    .fail = api_fail,
    .access = api_access,
    .matrix = api_matrix,
};

/* ------------------------------------------------------------------------------------------------ scheduling */

/* One pass is one block; between blocks the fiber is parked in the switch. */
static void fiber_main(void *argument)
{
    struct fiber *fiber = argument;
    struct host_team *team = fiber->team;
    for (;;) {
        host_sync_acquire(&team->launch_order->start);
        team->launch->entry(&api, team->launch->arguments);
        host_sync_release(&team->launch_order->end);
        fiber->state = FIBER_RETURNED;
        team->returned++;
        host_context_switch(&fiber->context, &team->scheduler);
    }
}

static void fiber_run(struct host_team *team, uint32_t thread)
{
    struct fiber *fiber = team->fibers[thread];
    current = fiber;
    host_context_switch(&team->scheduler, &fiber->context);
}

/* No fiber is ready and not all have returned: complete shuffles among the lanes that are there, else say why not. */
static bool team_unblock(struct host_team *team)
{
    bool progress = false;
    for (uint32_t w = 0; w < team->wave_count; w++) {
        struct wave *wave = &team->waves[w];
        if (wave->arrived == 0) {
            continue;
        }
        if (wave->operation == WAVE_SHUFFLE) {
            if (!shuffle_complete(team, wave, NULL)) {
                return false;
            }
            wave_release(team, wave);
            progress = true;
            continue;
        }
        uint32_t waiting = wave->first, missing = wave->first;
        while (team->fibers[waiting]->state != FIBER_AT_WAVE) {
            waiting++;
        }
        while (team->fibers[missing]->state == FIBER_AT_WAVE) {
            missing++;
        }
        char place[96];
        describe_place(team, missing, place, sizeof place);
        fail_block(team, waiting, "divergent %s of site %u: it needs all %u lanes of the wave, but %s",
                   operation_names[wave->operation], wave->site, wave->lanes, place);
        return false;
    }
    if (progress) {
        return true;
    }
    uint32_t missing = 0;
    while (team->fibers[missing]->state != FIBER_RETURNED) {
        missing++;
    }
    fail_block(team, team->barrier_first,
               "divergent barrier of site %u: thread %u has returned, so the barrier can never "
               "complete",
               team->barrier_site, missing);
    return false;
}

/* every ready fiber once, in index order: all waves advance together */
static bool pass_round_robin(struct host_team *team)
{
    bool progress = false;
    for (uint32_t i = 0; i < team->launch->threads && !team->failed; i++) {
        if (team->fibers[i]->state == FIBER_READY) {
            fiber_run(team, i);
            progress = true;
        }
    }
    return progress;
}

/* Wave after wave, each as far as it can get: to a barrier or its end. The same wave is ahead in every phase: once a
 * barrier completes the pass begins anew. The reverse order lets the last wave and the last lane race ahead. */
static bool pass_waves(struct host_team *team, bool reverse)
{
    bool progress = false;
    unsigned phase = team->barrier_generation;
    for (uint32_t n = 0; n < team->wave_count; n++) {
        const struct wave *wave = &team->waves[reverse ? team->wave_count - 1 - n : n];
        for (bool ran = true; ran;) {
            ran = false;
            for (uint32_t m = 0; m < wave->lanes; m++) {
                uint32_t thread = wave->first + (reverse ? wave->lanes - 1 - m : m);
                if (team->fibers[thread]->state == FIBER_READY) {
                    fiber_run(team, thread);
                    ran = progress = true;
                }
                if (team->failed || team->barrier_generation != phase) {
                    return true;
                }
            }
        }
    }
    return progress;
}

/* The block's fibers are left where they are; their contexts are made anew before the next block. */
static void team_abandon(struct host_team *team)
{
    for (uint32_t i = 0; i < team->launch->threads; i++) {
        if (team->fibers[i]->state != FIBER_RETURNED) {
            team->fibers[i]->made = false;
        }
    }
}

static void team_begin(struct host_team *team, uint64_t block)
{
    const struct host_launch *launch = team->launch;
    team->block[0] = (uint32_t)(block % launch->grid[0]);
    team->block[1] = (uint32_t)(block / launch->grid[0] % launch->grid[1]);
    team->block[2] = (uint32_t)(block / launch->grid[0] / launch->grid[1]);
    team->returned = 0;
    team->at_barrier = 0;
    team->failed = false;
    team->barriers = 0;
    team->log.count = 0;
    team->flushes = host_matrix_flushes(launch->target);
    team->wave_count = (launch->threads + launch->wave - 1) / launch->wave;
    for (uint32_t w = 0; w < team->wave_count; w++) {
        struct wave *wave = &team->waves[w];
        wave->first = w * launch->wave;
        wave->lanes = launch->threads - wave->first < launch->wave ? launch->threads - wave->first : launch->wave;
        wave->arrived = 0;
    }
    for (uint32_t i = 0; i < launch->threads; i++) {
        struct fiber *fiber = team->fibers[i];
        fiber->state = FIBER_READY;
        fiber->meetings = fiber->wave_barriers = 0;
        fiber->wave = &team->waves[i / launch->wave];
        if (!fiber->made) {
            /* cannot fail: the stack is mapped since host_team_reserve */
            fiber->made = host_context_make(&fiber->context, i, fiber_main, fiber);
            assert(fiber->made);
        }
    }
}

bool host_team_run(struct host_team *team, const struct host_launch *launch, struct host_launch_order *order,
                   uint64_t block, uint32_t traced, char failure[HOST_FAILURE_BYTES])
{
    assert(launch->threads <= team->fiber_count);
    team->launch = launch;
    team->launch_order = order;
    team->failure = failure;
    team->traced = traced;
    host_context_adopt(&team->scheduler);
    team_begin(team, block);
    while (team->returned < launch->threads && !team->failed) {
        bool progress = launch->schedule == HOST_ROUND_ROBIN ? pass_round_robin(team)
                                                             : pass_waves(team, launch->schedule == HOST_REVERSE);
        if (!progress && !team->failed) {
            team_unblock(team);
        }
    }
    current = NULL;
    if (team->failed) {
        team_abandon(team);
    } else if (launch->trace != NULL) {
        host_trace_flush(&team->log, launch->trace, traced, launch->wave);
    }
    host_sync_acquire(&order->end);
    shared_free(team);
    return !team->failed;
}

/* ------------------------------------------------------------------------------------------------ life */

struct host_team *host_team_create(void)
{
    return calloc(1, sizeof(struct host_team));
}

bool host_team_reserve(struct host_team *team, uint32_t threads)
{
    while (team->fiber_count < threads) {
        struct fiber *fiber = calloc(1, sizeof *fiber);
        if (fiber == NULL) {
            return false;
        }
        fiber->team = team;
        fiber->thread = team->fiber_count;
        if (!host_context_make(&fiber->context, fiber->thread, fiber_main, fiber)) {
            free(fiber);
            return false;
        }
        fiber->made = true;
        team->fibers[team->fiber_count++] = fiber;
    }
    return true;
}

void host_team_destroy(struct host_team *team)
{
    if (team == NULL) {
        return;
    }
    shared_free(team);
    free(team->shared);
    free(team->log.events);
    for (uint32_t w = 0; w < HOST_MAX_THREADS; w++) {
        free(team->waves[w].ins);
        free(team->waves[w].outs);
    }
    for (uint32_t i = 0; i < team->fiber_count; i++) {
        host_context_free(&team->fibers[i]->context);
        free(team->fibers[i]);
    }
    free(team);
}
