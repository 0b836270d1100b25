/* runner.h - a driver whose launches another program executes: the sanitizer runners, instruction simulators.
 *
 * Memory is plain host memory, one exact heap block an allocation. A launch writes a private folder - launch.json
 * (object file, kernel, grid, block, argument file, relocations as offset/buffer/addend, buffers with file and bytes)
 * and the files it names (docs/simulator.md) -, runs `program FOLDER`, and reads the buffers back. A program that dies,
 * fails, writes short files or does not say that it is done is ATTUNE_DEVICE_FAILED with what it printed, one that
 * hangs ATTUNE_TIMEOUT. Synchronous; one launch at a time a driver, during which its memory can be neither allocated
 * nor released. No folder outlasts its launch.
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
    const char *simulates;       /* NULL: the program runs host objects, under `schedule`; else the device's text
                                    ("sim:gfx906"): the program runs objects of the device's target */
    enum host_schedule schedule;
    double seconds;    /* limit of one launch; 0: 120 */
    bool keep_folders; /* for who writes such a program: the folders stay, and a line on stderr names each */
};

attune_status runner_create(const struct runner_options *options, struct driver **driver, struct error *error);
void runner_destroy(struct driver *driver);

/* path of the sanitizer runner ("address", "thread") beside the library, or by $ATTUNE_RUNNER_ADDRESS / _THREAD;
 * ATTUNE_NO_TOOLCHAIN when it was not built */
attune_status runner_find(const char *sanitizer, char *path, size_t bytes, struct error *error);

#endif
