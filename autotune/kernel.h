/* kernel.h - a loaded object with its launch descriptor, launched with arguments by name. What verification and timing
 * use; unlike a plan it takes any sizes, checks nothing about pointers and belongs to one thread.
 */
#ifndef AUTOTUNE_KERNEL_H
#define AUTOTUNE_KERNEL_H

#include "base/error.h"
#include "base/launch.h"
#include "base/problem.h"
#include "runtime/driver.h"

/* one argument's value; names as in the launch descriptor */
struct named_value {
    const char *name;
    enum { NAMED_POINTER, NAMED_INTEGER, NAMED_REAL } kind;
    void *pointer;
    int64_t integer;
    double real;
};

/* an object as it is loaded; owns nothing */
struct kernel_object {
    const void *bytes;
    size_t length;
    const struct launch *launch;
};

struct kernel {
    const struct driver *driver;
    int ordinal;
    driver_module module;
    driver_function function;
    struct launch launch;
    struct grid_limits limits;
    int32_t compute_units;
    uint32_t offsets[LAUNCH_ARGUMENTS_MAX];
    uint32_t argument_bytes;
    uint32_t pointer_offsets[LAUNCH_ARGUMENTS_MAX];
    int pointer_count;
    int origin[3]; /* argument index of origin_x .. origin_z, -1 when the kernel has none */
};

/* `device` is what describe() said of it: asking anew for every kernel would cost more than loading */
attune_status kernel_load(struct kernel *kernel, const struct driver *driver, const struct driver_device *device,
                          const void *object, size_t bytes, const struct launch *launch, struct error *error);
void kernel_unload(struct kernel *kernel); /* safe on a zeroed struct and twice */

/* a kernel with its arguments packed, ready to launch any number of times */
struct kernel_call {
    const struct kernel *kernel;
    uint64_t grid[3];
    unsigned char arguments[LAUNCH_ARGUMENT_BYTES_MAX];
};

/* Arguments come from `values`, then from the problem's fields; `workspace` from its own parameter. ATTUNE_UNSUPPORTED
 * when the problem has another value than one the kernel was compiled for, or breaks one of its limits. */
attune_status kernel_bind(const struct kernel *kernel, const struct problem *problem, const struct named_value *values,
                          int count, void *workspace, struct kernel_call *call, struct error *error);

/* all pieces of the grid, asynchronously on the stream */
attune_status kernel_launch(const struct kernel_call *call, driver_stream stream, struct error *error);

/* Does the device still allocate, write and read? After a fault in a kernel a GPU's context may be beyond use. */
bool device_answers(const struct driver *driver, int ordinal);

#endif
