/* host_wave.c - operations of one wave: barriers, shuffles, collectives, matrix instructions.
 *
 * Lanes that meet are at one site with one operation. The last lane to arrive completes it from what all have left,
 * wakes the others and goes on. A shuffle alone may complete without some lanes, when no fiber of the block can run.
 */
#include "runtime/host_team_private.h"

#include <stdlib.h>

const char *const host_wave_operations[] = {"wave barrier", "shuffle", "wave collective", "matrix multiply"};

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
        host_fail_fiber(
            fiber,
            "%s of site %u: thread %u of the same wave waits at the %s of site %u; the lanes of a wave must "
            "meet at one site",
            host_wave_operations[operation], site, other, host_wave_operations[wave->operation], wave->site);
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
            host_fail_block(team, fiber->thread, "shuffle of site %u reads lane %u, but this wave has %u lanes",
                            wave->site, fiber->source, wave->lanes);
            return false;
        }
        const struct fiber *source = team->fibers[wave->first + fiber->source];
        if (source != last && source->state != FIBER_AT_WAVE) {
            char place[96];
            host_describe_place(team, source->thread, place, sizeof place);
            host_fail_block(team, fiber->thread, "shuffle of site %u reads lane %u, which is inactive: %s", wave->site,
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
            host_fail_block(team, wave->first, "out of memory for a wave collective of %zu bytes", bytes);
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
        host_fail_block(team, wave->first, "matrix multiply of site %u: %s", wave->site, failure);
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

bool host_wave_shuffle_now(struct host_team *team, struct wave *wave)
{
    bool right = shuffle_complete(team, wave, NULL);
    if (right) {
        wave_release(team, wave);
    }
    return right;
}

/* Counts this lane in; the last lane completes the operation and goes on at once. */
static void wave_arrive(struct fiber *fiber, struct wave *wave)
{
    struct host_team *team = fiber->team;
    fiber->meetings++;
    fiber->wave_barriers += wave->operation == WAVE_BARRIER;
    wave->arrived++;
    if (wave->arrived < wave->lanes) {
        host_wait_as(fiber, FIBER_AT_WAVE, wave->site);
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

void host_api_wave_barrier(uint32_t site)
{
    struct fiber *fiber = host_fiber_current;
    struct wave *wave = wave_join(fiber, WAVE_BARRIER, site);
    char *order = &wave->order[wave->generation & 1];
    host_sync_release(order);
    wave_arrive(fiber, wave);
    host_sync_acquire(order);
}

uint32_t host_api_shuffle(uint32_t site, uint32_t value, uint32_t source_lane)
{
    struct fiber *fiber = host_fiber_current;
    if (source_lane >= fiber->team->launch->wave) {
        host_fail_fiber(fiber, "shuffle of site %u reads lane %u; a wave has lanes 0 to %u", site, source_lane,
                        fiber->team->launch->wave - 1);
    }
    struct wave *wave = wave_join(fiber, WAVE_SHUFFLE, site);
    fiber->value = value;
    fiber->source = source_lane;
    wave_arrive(fiber, wave);
    return fiber->result;
}

void host_api_collective(uint32_t site, const void *in, uint32_t in_bytes, void *out, uint32_t out_bytes,
                         collective_compute compute)
{
    struct fiber *fiber = host_fiber_current;
    struct wave *wave = wave_join(fiber, WAVE_COLLECTIVE, site);
    if (wave->arrived == 0) {
        size_t bytes = (size_t)in_bytes * wave->lanes;
        wave->in_bytes = in_bytes;
        wave->out_bytes = out_bytes;
        wave->compute = compute;
        if (wave->ins_bytes != bytes) {
            if (!deposits_resize(&wave->ins, &wave->ins_bytes, bytes)) {
                host_fail_fiber(fiber, "out of memory for a wave collective of %zu bytes", bytes);
            }
        }
    } else if (wave->in_bytes != in_bytes || wave->out_bytes != out_bytes || wave->compute != compute) {
        host_fail_fiber(
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

void host_api_matrix(uint32_t site, uint32_t operation, float *c, const uint32_t *a, const uint32_t *b)
{
    struct fiber *fiber = host_fiber_current;
    const struct host_matrix_shape *shape = host_matrix_shape(operation);
    if (shape == NULL) {
        host_fail_fiber(fiber, "matrix multiply of site %u: operation %u is unknown; this library has 0 to %d", site,
                        operation, HOST_MATRIX_COUNT - 1);
    }
    if (fiber->wave->lanes != shape->wave) {
        host_fail_fiber(fiber, "matrix multiply of site %u: %s is for a whole wave of %u lanes; this wave has %u", site,
                        shape->name, shape->wave, fiber->wave->lanes);
    }
    struct wave *wave = wave_join(fiber, WAVE_MATRIX, site);
    if (wave->arrived == 0) {
        wave->matrix = operation;
    } else if (wave->matrix != operation) {
        host_fail_fiber(fiber, "matrix multiply of site %u: %s, while other lanes of the wave are at %s", site,
                        shape->name, host_matrix_shape(wave->matrix)->name);
    }
    fiber->c = c;
    fiber->a = a;
    fiber->b = b;
    wave_arrive(fiber, wave);
}
