/* explain_target.c - a store looked at without the device that it is of: the device is what its records say of it. */
#include "cli/explain_run.h"

#include <string.h>

/* Of the tuned records of that target the newest of this specialisation, else the newest; NULL: there is none. */
static const struct record *record_of(const struct history *history, const char *target, const char *specialisation)
{
    const struct record *found = NULL;
    bool fits = false;
    for (int i = 0; i < history->record_count; i++) { /* oldest first */
        const struct record *record = &history->records[i];
        bool same = strcmp(record->specialisation, specialisation) == 0;
        if (strcmp(record->device.target, target) == 0 && (same || !fits)) {
            found = record;
            fits |= same;
        }
    }
    return found;
}

/* folders of records of that target: kinds of devices */
static int count_kinds(const struct history *history, const char *target)
{
    int kinds = 0;
    for (int i = 0; i < history->record_count; i++) {
        char folder[128], other[128];
        bool seen = strcmp(history->records[i].device.target, target) != 0;
        fingerprint_folder(&history->records[i].device, folder);
        for (int k = 0; k < i && !seen; k++) {
            fingerprint_folder(&history->records[k].device, other);
            seen = strcmp(folder, other) == 0;
        }
        kinds += !seen;
    }
    return kinds;
}

attune_status explain_target(struct store *store, const struct target *target, const struct problem *problem,
                             struct driver_device *device, int *kinds, struct error *error)
{
    /* what no record says: any candidate of the target may run there */
    *device = (struct driver_device){.target = *target, .max_threads = 1024, .shared_bytes = UINT64_MAX};
    char name[TARGET_TEXT_BYTES], specialisation[PROBLEM_TEXT_BYTES];
    struct history history = {0};
    *kinds = 0;
    attune_status status = problem_specialisation(problem, specialisation, error);
    if (status == ATTUNE_OK && store_path(store)[0] != '\0') {
        status = history_read(store, &history, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    target_format(target, name);
    const struct record *record = record_of(&history, name, specialisation);
    if (record != NULL) {
        *kinds = count_kinds(&history, name);
        device->compute_units = record->device.compute_units;
        device->shared_bytes = record->device.shared_bytes;
        device->memory_bytes = record->device.memory_bytes;
        device->power_limit_watts = record->device.power_limit_watts;
        memcpy(device->driver_version, record->device.driver, sizeof device->driver_version);
        memcpy(device->name, record->device_name, sizeof device->name);
    }
    history_free(&history);
    return ATTUNE_OK;
}
