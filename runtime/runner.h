/* runner.h - a driver whose launches another program executes: the sanitizer runners now, instruction simulators later.
 *
 * Memory is plain host memory, one exact heap block an allocation. A launch writes a private folder - launch.json
 * (object file, entry, grid, threads, wave, schedule, argument file, relocations as offset/buffer/addend, buffers with
 * file and bytes), the files it names - runs `program FOLDER`, and reads the buffers back. A program that dies, hangs,
 * writes short files or does not say that it is done is ATTUNE_DEVICE_FAILED with its output. Synchronous; one launch
 * at a time a driver.
 */
#ifndef RUNTIME_RUNNER_H
#define RUNTIME_RUNNER_H

#include "base/error.h"
#include "runtime/driver.h"
#include "runtime/host_device.h"

/* the last file that a program writes into the folder, empty: the launch was carried out */
#define RUNNER_DONE "done"

struct runner_options {
    const char *program;         /* path */
    struct driver_device device; /* what describe() answers */
    enum host_schedule schedule;
    double seconds; /* limit of one launch; 0: 120 */
};

attune_status runner_create(const struct runner_options *options, struct driver **driver, struct error *error);
void runner_destroy(struct driver *driver);

/* path of the sanitizer runner ("address", "thread") beside the library, or by $ATTUNE_RUNNER_ADDRESS / _THREAD;
 * ATTUNE_NO_TOOLCHAIN when it was not built */
attune_status runner_find(const char *sanitizer, char *path, size_t bytes, struct error *error);

#endif
