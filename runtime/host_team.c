/* host_team.c - one block of a kernel on fibers: schedules, barriers, strict checks.
 *
 * A fiber runs until it waits, returns or breaks a rule; then the scheduler picks the next. What always holds:
 *   - a fiber is READY, waits at the block's barrier, waits at an operation of its wave, or has RETURNED;
 *   - all fibers that wait at the barrier wait at one site, and so do all that wait at an operation of one wave: the
 * first to come with another site fails the launch;
 *   - an operation completes when every lane of its wave is there. When no fiber of the block is ready, a shuffle
 * completes for the lanes that are there (the others are inactive: they wait at the barrier or have returned); anything
 * else that is incomplete then can never complete and fails the launch. Under ThreadSanitizer the team's files are not
 * instrumented; host_sync_* carry the order that barriers give.
 */
#include "runtime/host_team_private.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Thread_local struct fiber *host_fiber_current;

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

void host_fail_block(struct host_team *team, uint32_t thread, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    team_fail(team, thread, format, arguments);
    va_end(arguments);
}

void host_fail_fiber(struct fiber *fiber, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    team_fail(fiber->team, fiber->thread, format, arguments);
    va_end(arguments);
    host_context_switch(&fiber->context, &fiber->team->scheduler);
    abort(); /* the scheduler never resumes a fiber of a failed block */
}

void host_describe_place(const struct host_team *team, uint32_t thread, char *text, size_t bytes)
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
        snprintf(text, bytes, "thread %u waits at the %s of site %u", thread,
                 host_wave_operations[fiber->wave->operation], fiber->site);
        break;
    default:
        snprintf(text, bytes, "thread %u has not come", thread);
    }
}

/* ------------------------------------------------------------------------------------------------ waiting */

void host_wait_as(struct fiber *fiber, enum fiber_state state, uint32_t site)
{
    fiber->state = state;
    fiber->site = site;
    host_context_switch(&fiber->context, &fiber->team->scheduler);
}

static uint32_t api_thread_index(void)
{
    return host_fiber_current->thread;
}

static uint32_t api_block_index(int dimension)
{
    struct fiber *fiber = host_fiber_current;
    if (dimension < 0 || dimension > 2) {
        host_fail_fiber(fiber, "block_index(%d): dimensions are 0, 1 and 2", dimension);
    }
    return fiber->team->block[dimension];
}

static void api_barrier(uint32_t site)
{
    struct fiber *fiber = host_fiber_current;
    struct host_team *team = fiber->team;
    if (team->at_barrier == 0) {
        team->barrier_site = site;
        team->barrier_first = fiber->thread;
    } else if (team->barrier_site != site) {
        host_fail_fiber(
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
        host_wait_as(fiber, FIBER_AT_BARRIER, site);
    }
    host_sync_acquire(order);
}

static void api_fail(const char *message)
{
    host_fail_fiber(host_fiber_current, "%s", message);
}

static const struct host_api api = {
    .size = sizeof(struct host_api),
    .version = 2,
    .thread_index = api_thread_index,
    .block_index = api_block_index,
    .barrier = api_barrier,
    .wave_barrier = host_api_wave_barrier,
    .shuffle = host_api_shuffle,
    .shared = host_api_shared,
    .collective = host_api_collective,
    .fail = api_fail,
    .access = host_api_access,
    .matrix = host_api_matrix,
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
    host_fiber_current = fiber;
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
            if (!host_wave_shuffle_now(team, wave)) {
                return false;
            }
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
        host_describe_place(team, missing, place, sizeof place);
        host_fail_block(team, waiting, "divergent %s of site %u: it needs all %u lanes of the wave, but %s",
                        host_wave_operations[wave->operation], wave->site, wave->lanes, place);
        return false;
    }
    if (progress) {
        return true;
    }
    uint32_t missing = 0;
    while (team->fibers[missing]->state != FIBER_RETURNED) {
        missing++;
    }
    host_fail_block(team, team->barrier_first,
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
    host_fiber_current = NULL;
    if (team->failed) {
        team_abandon(team);
    } else if (launch->trace != NULL) {
        host_trace_flush(&team->log, launch->trace, traced, launch->wave);
    }
    host_sync_acquire(&order->end);
    host_shared_free(team);
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
    host_shared_free(team);
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
