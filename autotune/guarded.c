/* guarded.c - device memory with guard zones. */
#include "autotune/guarded.h"

#include <string.h>

attune_status guarded_make(struct guarded *memory, const struct driver *driver, int ordinal, size_t bytes, bool guards,
                           uint8_t guard_byte, struct error *error)
{
    size_t guard = guards ? GUARD_BYTES : 0;
    *memory = (struct guarded){.driver = driver, .ordinal = ordinal, .bytes = bytes, .guard = guard};
    if (bytes == 0 && guard == 0) {
        return ATTUNE_OK;
    }
    attune_status status = driver->allocate(driver, ordinal, bytes + 2 * guard, &memory->base, error);
    if (status != ATTUNE_OK) {
        memory->base = NULL;
        return status;
    }
    memory->data = (char *)memory->base + guard;
    if (guard > 0) {
        status = driver->fill(driver, ordinal, memory->base, guard_byte, guard, error);
        if (status == ATTUNE_OK) {
            status = driver->fill(driver, ordinal, (char *)memory->data + bytes, guard_byte, guard, error);
        }
    }
    return status;
}

void guarded_free(struct guarded *memory)
{
    if (memory->base != NULL) {
        memory->driver->release(memory->driver, memory->ordinal, memory->base, NULL);
    }
    *memory = (struct guarded){0};
}

static bool filled(const unsigned char *bytes, uint8_t value, size_t count)
{
    return count == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, count - 1) == 0);
}

attune_status guarded_check(const struct guarded *memory, uint8_t guard_byte, const char **place, struct error *error)
{
    unsigned char zone[GUARD_BYTES];
    *place = NULL;
    if (memory->guard == 0) {
        return ATTUNE_OK;
    }
    const struct driver *driver = memory->driver;
    attune_status status = driver->copy_out(driver, memory->ordinal, zone, memory->base, memory->guard, error);
    if (status == ATTUNE_OK && !filled(zone, guard_byte, memory->guard)) {
        *place = "before";
        return ATTUNE_OK;
    }
    if (status == ATTUNE_OK) {
        status =
            driver->copy_out(driver, memory->ordinal, zone, (char *)memory->data + memory->bytes, memory->guard, error);
    }
    if (status == ATTUNE_OK && !filled(zone, guard_byte, memory->guard)) {
        *place = "behind";
    }
    return status;
}
