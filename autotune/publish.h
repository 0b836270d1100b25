/* publish.h - records from what is known of an object: shared by the tuner and the miss handler. */
#ifndef AUTOTUNE_PUBLISH_H
#define AUTOTUNE_PUBLISH_H

#include "autotune/objects.h"
#include "cache/record.h"
#include "runtime/driver.h"

/* Texts of the problem, candidate, object, compiler, launch, schema of user families, time. The device stays zero. */
attune_status record_describe(struct record *record, enum record_kind kind, const struct problem *problem,
                              const struct object_job *job, struct error *error);

/* what makes two devices the same for a record */
void device_fingerprint(const struct driver_device *device, struct fingerprint *fingerprint);

/* the device's part of a tuned record */
void record_set_device(struct record *record, const struct driver_device *device);

/* The default record of specialisation and target, unless the newest one there already names the same object. *record
 * is filled either way (record_free). */
attune_status publish_default(struct store *store, const struct target *target, const struct problem *problem,
                              const struct object_job *job, struct record *record, struct error *error);

#endif
