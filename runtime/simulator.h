/* simulator.h - devices `sim:TARGET`: a GPU that is not here, whose every launch a program of the user's carries out.
 *
 * Such a device takes the objects that are compiled for TARGET, is never the best one, is listed by nobody, and has no
 * times. docs/simulator.md says what the program gets and must leave behind; runner.h how a launch runs.
 *
 *   ATTUNE_SIMULATOR          the program: a path, or a name that PATH has
 *   ATTUNE_SIMULATOR_SECONDS  limit of one launch, whole seconds, 1 to 1000000; default 600
 *   ATTUNE_SIMULATOR_KEEP     1: the folders of launches stay
 */
#ifndef RUNTIME_SIMULATOR_H
#define RUNTIME_SIMULATOR_H

#include "base/error.h"
#include "runtime/driver.h"

#include <stdbool.h>

/* what $ATTUNE_SIMULATOR names; ATTUNE_NO_DEVICE says what is wrong with it */
attune_status simulator_find(char *path, size_t bytes, struct error *error);

/* The device as describe() tells it: the target with any features that are not given, 1 compute unit (a launch is
 * correct or not; kernels that size their grid by the units then do least), the limits of the target's generation, this
 * machine's memory. ATTUNE_INVALID for what is no GPU, ATTUNE_UNSUPPORTED for a generation that is not known. */
attune_status simulator_describe(const char *target, struct driver_device *device, struct error *error);

/* A driver of its own for the target, by the variables above; `seconds` > 0 replaces their limit. runner_destroy frees
 * it. */
attune_status simulator_create(const char *target, double seconds, struct driver **driver, struct error *error);

/* is the device's text one of a simulator? */
bool simulator_is_named(const char *device);

#endif
