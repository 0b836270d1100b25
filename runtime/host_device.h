/* host_device.h - generated kernels on the CPU: one fiber per GPU thread.
 *
 * Correctness only; it says nothing of speed. Strict: divergent barriers, shuffles from lanes that are not there, reads
 * of shared memory nobody wrote (NaN poison) show up as errors or NaN. Blocks run in index order on a pool of workers.
 */
#ifndef RUNTIME_HOST_DEVICE_H
#define RUNTIME_HOST_DEVICE_H

#include "base/error.h"
#include "base/launch.h"
#include "runtime/host_trace.h"

#include <stdint.h>

/* order in which a block's fibers run between barriers; a removed barrier shows under greedy or reverse (or TSan) */
enum host_schedule { HOST_ROUND_ROBIN, HOST_GREEDY, HOST_REVERSE };
const char *host_schedule_name(enum host_schedule schedule);
attune_status host_schedule_parse(const char *text, enum host_schedule *schedule, struct error *error);

/* schedule of later launches on the host driver by any thread; until the first call $ATTUNE_HOST_SCHEDULE, else
 * round-robin */
void host_device_set_schedule(enum host_schedule schedule);
attune_status host_device_schedule(enum host_schedule *schedule, struct error *error);

/* What shared arrays hold when a block starts, for later launches by any thread: every byte `byte`, by default the
 * poison, which is NaN in f16, bf16, f32 and f64. A kernel that reads only what its block wrote gives the same bits for
 * every value. */
enum { HOST_SHARED_POISON = 0xff };
void host_device_set_shared_fill(uint8_t byte);
uint8_t host_device_shared_fill(void);

/* What generated code calls; handed to the object's entry by pointer, so that an object has no undefined symbols.
 * `site` is the call site's __COUNTER__. All are called on a fiber. Versioned: size first. */
struct host_api {
    uint32_t size;
    uint32_t version; /* 2 */
    uint32_t (*thread_index)(void);
    uint32_t (*block_index)(int dimension);
    void (*barrier)(uint32_t site);                                           /* whole block */
    void (*wave_barrier)(uint32_t site);                                      /* the lanes of one wave */
    uint32_t (*shuffle)(uint32_t site, uint32_t value, uint32_t source_lane); /* lane absolute within the wave */
    /* exact heap block, filled with host_device_shared_fill() at block start; same address for all threads of a block
     * at one site */
    void *(*shared)(uint32_t site, uint64_t bytes);
    /* a wave collective: each lane deposits `in`, the last to arrive runs `compute` over all lanes' deposits, each
     * picks up `out`. For matrix instructions and votes. in/out strides are the sizes given. */
    void (*collective)(uint32_t site, const void *in, uint32_t in_bytes, void *out, uint32_t out_bytes,
                       void (*compute)(const void *ins, void *outs, uint32_t lanes));
    void (*fail)(const char *message); /* does not return to the kernel: the launch fails with this text */
    /* Kernels compiled with ATTUNE_TRACE_LDS: this lane's access of `bytes` bytes, of an enum host_access, asked for at
     * a line. What is no shared memory of the block, and all where nobody listens, is passed over. */
    void (*access)(uint32_t line, const void *address, uint32_t bytes, uint32_t kind);
    /* since version 2: a matrix instruction of the whole wave, `operation` an enum host_matrix of
     * runtime/host_matrix.h; c (fp32, overwritten with the result), a, b: this lane's registers */
    void (*matrix)(uint32_t site, uint32_t operation, float *c, const uint32_t *a, const uint32_t *b);
};

/* the symbol a host object exports: runs one thread of the block with the packed arguments */
#define HOST_ENTRY_SYMBOL "attune_host_entry"
typedef void (*host_entry)(const struct host_api *api, const void *arguments);

/* Run a grid now, on the calling thread and the pool ($ATTUNE_HOST_WORKERS threads in all; the online CPUs by default).
 * Blocks are started in index order. `wave` lanes a wave. ATTUNE_DEVICE_FAILED with site and thread when a
 * strict check fires. */
struct host_launch {
    host_entry entry;
    uint32_t grid[3];
    uint32_t threads;
    uint32_t wave;
    const void *arguments;
    enum host_schedule schedule;
    struct host_trace *trace; /* NULL: nobody listens */
    const char *target; /* what is emulated, as in the object's note; NULL: the host itself. Decides only what matrix
                         * instructions do with subnormal numbers. Until the launch ends */
};
attune_status host_device_run(const struct host_launch *launch, struct error *error);

#endif
