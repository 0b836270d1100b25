/* timing.h - launches timed by device events, on sets of buffers that together exceed the last-level cache.
 *
 * Every launch of a sample takes the next set, so no launch finds its inputs warm from the one before. Not on the host
 * device. One thread.
 */
#ifndef AUTOTUNE_TIMING_H
#define AUTOTUNE_TIMING_H

#include "autotune/kernel.h"
#include "autotune/oracle.h"

struct timing;

/* a first launch may take so many times what the next ones do: code is loaded, clocks are low */
enum { TIMING_FIRST_LAUNCH = 20 };

/* Buffers of the oracle's timed case. Fewer sets than wished when memory is short, at least one. */
attune_status timing_create(struct oracle *oracle, const struct driver *driver, int ordinal, struct timing **timing,
                            struct error *error);
void timing_destroy(struct timing *timing);
double timing_set_bytes(const struct timing *timing); /* of one launch: every tensor read or written once */
/* device memory that timing_create will ask for */
uint64_t timing_bytes_wanted(const struct oracle *oracle, const struct driver_device *device);

/* a kernel loaded and bound to every set */
struct timed_kernel {
    struct kernel kernel;
    struct guarded workspace;
    struct kernel_call *calls;
    int launches; /* of one sample */
    int next_set;
};

attune_status timed_open(struct timing *timing, const void *object, size_t bytes, const struct launch *launch,
                         struct timed_kernel *timed, struct error *error);
void timed_close(struct timed_kernel *timed); /* safe on a zeroed struct */

/* mean time of one launch over `launches` of them */
attune_status timed_sample(struct timing *timing, struct timed_kernel *timed, int launches, double *microseconds,
                           struct error *error);

/* A first impression after warming up, and launches set for samples of a few milliseconds. A kernel slower than
 * `give_up` (0: none) by its first launches is not looked at longer. */
attune_status timed_quick(struct timing *timing, struct timed_kernel *timed, double give_up, double *microseconds,
                          struct error *error);

/* launches until so many milliseconds of device time have passed, so that clocks are up */
attune_status timed_warm(struct timing *timing, struct timed_kernel *timed, double milliseconds, struct error *error);

#endif
