/* screen.h - which candidates a device cannot run, or cannot run well, told from the object before any launch. */
#ifndef AUTOTUNE_SCREEN_H
#define AUTOTUNE_SCREEN_H

#include "base/codeobject.h"
#include "base/launch.h"
#include "generator/generator.h"
#include "runtime/driver.h"

#include <stdbool.h>

enum { SCREEN_REASON_BYTES = 512 };

/* false with the reason when the launch cannot succeed: shared memory, threads or registers beyond the device's */
bool screen_fits(const struct driver_device *device, const struct launch *launch, const struct resources *resources,
                 char reason[SCREEN_REASON_BYTES]);

/* false with the reason when it could run but registers spill: more than a few values in scratch memory are not worth
 * timing, on AMD none are */
bool screen_pays(enum target_vendor vendor, const struct resources *resources, char reason[SCREEN_REASON_BYTES]);

/* What a compute unit or multiprocessor has for all its blocks: the target's facts, which no driver tells. Zeros: not
 * known, as of the host device. */
struct screen_unit {
    int wave, simds;
    int waves;  /* at most, of a SIMD */
    int blocks; /* at most, of the unit; AMD counts only those of more than one wave */
    bool counts_small_blocks;
    int registers;            /* of a SIMD, for each lane */
    int granule;              /* they are given in multiples of this */
    bool shared_accumulators; /* are given from them too */
    int64_t shared_bytes, shared_granule, shared_reserved;
};

/* ATTUNE_UNSUPPORTED for a target that there are no facts for */
attune_status screen_unit_of(struct generator *generator, const struct target *target, struct screen_unit *unit,
                             struct error *error);

/* Blocks that one unit holds at once, by registers, shared memory and waves; at least 1, as what does not fit at all is
 * screen_fits' business. 0 where that is not known. */
int screen_resident_blocks(const struct screen_unit *unit, const struct launch *launch,
                           const struct resources *resources);

#endif
