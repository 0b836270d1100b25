/* host_trace.h - accesses of shared memory, wave by wave, in the order in which the hardware would see them.
 *
 * Kernels compiled with ATTUNE_TRACE_LDS tell the host device every access that goes through the vocabulary. The lanes
 * of a wave run one after another here; on a GPU they make one instruction. Two accesses belong to one instruction when
 * their lanes are of one wave and they are the n-th at their line, with the same kind and width, since the wave last
 * met (a barrier, a wave barrier, a shuffle, a collective). So a lane that leaves a loop early does not shift the
 * others' later accesses; one that skips the middle of a loop does, until the wave meets again.
 */
#ifndef RUNTIME_HOST_TRACE_H
#define RUNTIME_HOST_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* as the vocabulary numbers them: host_api.access's `kind` */
enum host_access {
    HOST_ACCESS_READ,
    HOST_ACCESS_WRITE,
    HOST_ACCESS_ROWS, /* each lane names a row of 16 bytes of an 8 x 8 matrix (load_matrices) */
    HOST_ACCESS_COPY, /* written by an asynchronous copy from global memory */
    HOST_ACCESS_KINDS
};

enum { HOST_TRACE_ABSENT = 0xffffffff }; /* offset of a lane that takes no part */

/* one instruction of one wave */
struct host_wave_access {
    uint32_t line; /* of the compiled text, by its #line directives */
    enum host_access kind;
    uint32_t bytes;         /* of each lane */
    uint32_t block;         /* number of traced blocks before this one */
    uint32_t interval;      /* barriers and wave barriers that the block or wave had passed */
    uint32_t lanes;         /* entries of `offset`: the wave's lanes */
    const uint32_t *offset; /* in the block's shared memory, its arrays in the order of their declaration, each at a
                               multiple of 16 bytes; HOST_TRACE_ABSENT */
};

/* What a launch tells to whom. `access` may run on a fiber: it uses little stack, and must not launch. */
struct host_trace {
    uint32_t blocks_max; /* run no more blocks than these, spread over the grid from its first to its last; 0: all */
    void (*access)(void *data, const struct host_wave_access *access);
    void *data;
    uint64_t blocks;      /* out: blocks that ran */
    uint64_t grid_blocks; /* out: blocks of the grid */
};

/* Later launches on the host driver by the calling thread are traced: this thread alone runs the blocks, in index
 * order. NULL ends it. The trace must live until then. */
void host_device_set_trace(struct host_trace *trace);
struct host_trace *host_device_trace(void);

/* ---- inside the host device ---- */

struct host_trace_event {
    uint32_t wave, lane;
    uint32_t interval;
    uint32_t meeting; /* wave operations since the block's last barrier */
    uint32_t line, kind, bytes;
    uint32_t offset;
    uint32_t order;
};

/* a block's accesses since its last barrier */
struct host_trace_log {
    struct host_trace_event *events; /* free() */
    size_t count, capacity;
};

bool host_trace_add(struct host_trace_log *log, const struct host_trace_event *event); /* false without memory */
/* Tells the accesses that are in the log and empties it. `lanes` of a wave, at most HOST_MAX_WAVE. */
void host_trace_flush(struct host_trace_log *log, const struct host_trace *trace, uint32_t block, uint32_t lanes);

#endif
