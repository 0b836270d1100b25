/* guarded.h - device memory between two guard zones, so that stray writes and reads show.
 *
 *   [ guard | data, exact bytes | guard ]
 *
 * Guards of inputs hold 0xff (NaN in every float type: what is read past the end poisons the result); those of outputs
 * hold GUARD_BYTE and must be found untouched. Devices whose every allocation is an exact, checked block (the sanitizer
 * runners) take no guards.
 */
#ifndef AUTOTUNE_GUARDED_H
#define AUTOTUNE_GUARDED_H

#include "base/error.h"
#include "runtime/driver.h"

#include <stdbool.h>

enum { GUARD_BYTES = 4096, GUARD_BYTE = 0xa5 };

struct guarded {
    const struct driver *driver;
    int ordinal;
    void *base; /* NULL when nothing is allocated */
    void *data;
    size_t bytes;
    size_t guard;
};

attune_status guarded_make(struct guarded *memory, const struct driver *driver, int ordinal, size_t bytes, bool guards,
                           uint8_t guard_byte, struct error *error);
void guarded_free(struct guarded *memory); /* safe on a zeroed struct */

/* ATTUNE_OK with *place "before" or "behind" when a guard zone was written, NULL when both are whole */
attune_status guarded_check(const struct guarded *memory, uint8_t guard_byte, const char **place, struct error *error);

#endif
