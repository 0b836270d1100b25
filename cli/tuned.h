/* tuned.h - what the store already knows for good: problems that need no tuning again. */
#ifndef CLI_TUNED_H
#define CLI_TUNED_H

#include "cli/cli.h"
#include "cli/device_list.h"

/* Records are read once for each device and specialisation: a trace has thousands of shapes of one. */
struct tuned;
/* Store and generator are used until it is freed; NULL without memory. Runs that looked at the default alone count only
 * when `default_will_do`: that is all that is asked. */
struct tuned *tuned_create(struct store *store, struct generator *generator, bool default_will_do);
void tuned_free(struct tuned *known);

/* Is there a record of a complete run for the problem's very shape, by the device with its driver and power limit and
 * today's template, and is its object there? False also where that cannot be found out. */
bool tuned_has(struct tuned *known, const struct listed_device *device, const struct problem *problem);

#endif
