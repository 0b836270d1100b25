/* host_shared.c - a block's shared arrays: exact heap blocks, one a site, and who reads and writes them.
 */
#include "runtime/host_team_private.h"

#include <stdlib.h>
#include <string.h>

enum { SHARED_ALIGNMENT = 64 };

void *host_api_shared(uint32_t site, uint64_t bytes)
{
    struct fiber *fiber = host_fiber_current;
    struct host_team *team = fiber->team;
    for (size_t i = 0; i < team->shared_count; i++) {
        struct shared_array *array = &team->shared[i];
        if (array->site == site) {
            if (array->bytes != bytes) {
                host_fail_fiber(fiber, "shared array of site %u: %llu bytes, but another thread asked for %llu", site,
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
            host_fail_fiber(fiber, "out of memory for shared array of site %u", site);
        }
        team->shared = grown;
        team->shared_capacity = capacity;
    }
    void *data = NULL;
    if (bytes == 0 || posix_memalign(&data, SHARED_ALIGNMENT, bytes) != 0) {
        host_fail_fiber(fiber, "shared array of site %u: cannot allocate %llu bytes", site, (unsigned long long)bytes);
    }
    memset(data, host_device_shared_fill(), bytes);
    host_sync_release(data);
    team->shared[team->shared_count++] = (struct shared_array){site, bytes, data};
    return data;
}

void host_shared_free(struct host_team *team)
{
    for (size_t i = 0; i < team->shared_count; i++) {
        free(team->shared[i].data);
    }
    team->shared_count = 0;
}

void host_api_access(uint32_t line, const void *address, uint32_t bytes, uint32_t kind)
{
    struct fiber *fiber = host_fiber_current;
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
            host_fail_fiber(fiber, "line %u: an access of kind %u cannot be traced: no such kind, or no memory", line,
                            kind);
        }
        return;
    }
}
