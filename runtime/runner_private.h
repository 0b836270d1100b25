/* runner_private.h - what runner.c, runner_folder.c and runner_program.c share. */
#ifndef RUNTIME_RUNNER_PRIVATE_H
#define RUNTIME_RUNNER_PRIVATE_H

#include "base/buffer.h"
#include "base/codeobject.h"
#include "base/process.h"
#include "runtime/runner.h"

#include <pthread.h>

struct allocation {
    char *data;
    size_t bytes;
};

struct runner {
    struct driver table; /* first: the driver's pointer is the runner's */
    char *program, *text;
    struct driver_device device;
    bool simulates, keep_folders;
    enum host_schedule schedule;
    double seconds;
    pthread_mutex_t mutex; /* of the allocations; held during a launch */
    struct allocation *allocations;
    size_t count, capacity;
};

struct runner_module {
    struct buffer object;
    struct resources resources;
};

/* the buffers that one launch uses: indices into the runner's allocations, room for one a pointer */
struct launch_buffers {
    size_t *allocation;
    size_t count;
};

/* runner_folder.c: everything of a launch into an empty folder, and afterwards the buffers back from it */
attune_status runner_write_folder(const struct runner *runner, const char *folder, const struct driver_launch *launch,
                                  struct launch_buffers *buffers, struct error *error);
attune_status runner_read_folder(struct runner *runner, const char *folder, const struct launch_buffers *buffers,
                                 struct error *error);

/* runner_program.c: the program on a written folder, then the buffers read back; its words are in every error. The
 * guard is the folder's. */
attune_status runner_run_folder(struct runner *runner, const char *folder, const struct process_guard *guard,
                                const struct launch_buffers *buffers, struct error *error);

#endif
