/* tune_check.h - what `attune tune` can refuse before it plans, deals out or opens anything: so a dry run refuses what
 * a real one would, and all ranks of a job agree about what there is to do. */
#ifndef CLI_TUNE_CHECK_H
#define CLI_TUNE_CHECK_H

#include "autotune/tune.h"
#include "cli/cli.h"
#include "cli/device_list.h"

/* A problem that is in the list again is tuned once: the earliest of equal ones stays, the others leave the list and
 * are counted. */
attune_status tune_check_repeated(struct problem_list *problems, int *repeated, struct error *error);

/* The strategy by name, whether these devices and the file of candidates go with it, and that the file can be read.
 * Devices that were not described are judged by their name. */
attune_status tune_check_strategy(const struct tune_options *settings, const struct device_list *devices,
                                  struct error *error);

#endif
