/* driver_tables.h - the drivers that driver.c chooses from; private to the runtime.
 *
 * Each initialises once, thread-safe, and gives the same answer for the rest of the process (a simulator: as long as
 * its variables stay as they are).
 */
#ifndef RUNTIME_DRIVER_TABLES_H
#define RUNTIME_DRIVER_TABLES_H

#include "runtime/driver.h"

attune_status driver_cuda(const struct driver **driver, struct error *error);
attune_status driver_hip(const struct driver **driver, struct error *error);
attune_status driver_host(const struct driver **driver, struct error *error);
/* the simulated device of a target, as the environment describes the simulator: simulator.h */
attune_status driver_sim(const char *target, const struct driver **driver, struct error *error);

#endif
