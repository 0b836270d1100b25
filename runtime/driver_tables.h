/* driver_tables.h - the drivers that driver.c chooses from; private to the runtime.
 *
 * Each initialises once, thread-safe, and gives the same answer for the rest of the process.
 */
#ifndef RUNTIME_DRIVER_TABLES_H
#define RUNTIME_DRIVER_TABLES_H

#include "runtime/driver.h"

attune_status driver_cuda(const struct driver **driver, struct error *error);
attune_status driver_hip(const struct driver **driver, struct error *error);
attune_status driver_host(const struct driver **driver, struct error *error);

#endif
