/* screen.h - which candidates a device cannot run, or cannot run well, told from the object before any launch. */
#ifndef AUTOTUNE_SCREEN_H
#define AUTOTUNE_SCREEN_H

#include "base/codeobject.h"
#include "base/launch.h"
#include "runtime/driver.h"

#include <stdbool.h>

enum { SCREEN_REASON_BYTES = 512 };

/* false with the reason when the launch cannot succeed: shared memory, threads or registers beyond the device's */
bool screen_fits(const struct driver_device *device, const struct launch *launch, const struct resources *resources,
                 char reason[SCREEN_REASON_BYTES]);

/* false with the reason when it could run but registers spill: scratch memory is never worth timing */
bool screen_pays(const struct resources *resources, char reason[SCREEN_REASON_BYTES]);

/* Blocks that one compute unit holds at once, by registers, shared memory and threads; 0 where that is not known, as on
 * the host device. Where a device does not tell its registers, those of the smallest of its kind. */
int screen_resident_blocks(const struct driver_device *device, const struct launch *launch,
                           const struct resources *resources);

#endif
