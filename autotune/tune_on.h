/* tune_on.h - the tuner on a driver that is given, not looked up by name: for drivers that driver.h does not list. */
#ifndef AUTOTUNE_TUNE_ON_H
#define AUTOTUNE_TUNE_ON_H

#include "autotune/tune.h"

/* tune_run; options->device is not looked at. A driver called "host" is not timed, every other one is. */
attune_status tune_run_on(const struct driver *driver, int ordinal, struct generator *generator,
                          struct compiler_pool *pool, struct store *store, const struct problem *problem,
                          const struct tune_options *options, tune_report report, void *data,
                          struct tune_result *result, struct error *error);

#endif
