/* host_trace.c - from the accesses of single lanes to those of waves. */
#include "runtime/host_trace.h"

#include "runtime/host_fiber.h"
#include "runtime/host_team.h"

#include <assert.h>
#include <stdlib.h>

/* A team's fibers take turns with its log, and then its scheduler: ThreadSanitizer learns of it through the log. */
bool host_trace_add(struct host_trace_log *log, const struct host_trace_event *event)
{
    host_sync_acquire(log);
    if (log->count == log->capacity) {
        size_t capacity = log->capacity > 0 ? 2 * log->capacity : 4096;
        struct host_trace_event *grown = capacity <= UINT32_MAX ? realloc(log->events, capacity * sizeof *grown) : NULL;
        if (grown == NULL) {
            return false;
        }
        log->events = grown;
        log->capacity = capacity;
    }
    log->events[log->count] = *event;
    log->events[log->count].order = (uint32_t)log->count;
    log->count++;
    host_sync_release(log);
    return true;
}

/* what the accesses of one instruction have in common, then lane by lane in the order of the program */
static int compare_groups(const struct host_trace_event *a, const struct host_trace_event *b)
{
    const uint32_t keys[][2] = {{a->wave, b->wave}, {a->interval, b->interval}, {a->meeting, b->meeting},
                                {a->line, b->line}, {a->kind, b->kind},         {a->bytes, b->bytes}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i][0] != keys[i][1]) {
            return keys[i][0] < keys[i][1] ? -1 : 1;
        }
    }
    return 0;
}

static int compare_events(const void *first, const void *second)
{
    const struct host_trace_event *a = first, *b = second;
    int groups = compare_groups(a, b);
    if (groups != 0) {
        return groups;
    }
    if (a->lane != b->lane) {
        return a->lane < b->lane ? -1 : 1;
    }
    return a->order < b->order ? -1 : a->order > b->order;
}

/* the n-th access of every lane of a group is one instruction */
static void tell_group(const struct host_trace_event *events, size_t count, const struct host_trace *trace,
                       uint32_t block, uint32_t lanes)
{
    size_t begin[HOST_MAX_WAVE] = {0}, length[HOST_MAX_WAVE] = {0}, longest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t lane = events[i].lane;
        begin[lane] = length[lane] == 0 ? i : begin[lane];
        length[lane]++;
        longest = length[lane] > longest ? length[lane] : longest;
    }
    for (size_t n = 0; n < longest; n++) {
        uint32_t offset[HOST_MAX_WAVE];
        for (uint32_t lane = 0; lane < lanes; lane++) {
            offset[lane] = n < length[lane] ? events[begin[lane] + n].offset : HOST_TRACE_ABSENT;
        }
        const struct host_wave_access access = {.line = events[0].line,
                                                .kind = (enum host_access)events[0].kind,
                                                .bytes = events[0].bytes,
                                                .block = block,
                                                .interval = events[0].interval,
                                                .lanes = lanes,
                                                .offset = offset};
        trace->access(trace->data, &access);
    }
}

void host_trace_flush(struct host_trace_log *log, const struct host_trace *trace, uint32_t block, uint32_t lanes)
{
    assert(lanes <= HOST_MAX_WAVE);
    host_sync_acquire(log);
    if (log->count > 0) {
        qsort(log->events, log->count, sizeof *log->events, compare_events);
    }
    for (size_t begin = 0, end; begin < log->count; begin = end) {
        for (end = begin + 1; end < log->count && compare_groups(&log->events[begin], &log->events[end]) == 0;) {
            end++;
        }
        tell_group(&log->events[begin], end - begin, trace, block, lanes);
    }
    log->count = 0;
    host_sync_release(log);
}
