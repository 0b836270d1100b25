/* publish.c - filling records. */
#include "autotune/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

attune_status record_describe(struct record *record, enum record_kind kind, const struct problem *problem,
                              const struct object_job *job, struct error *error)
{
    memset(record, 0, sizeof *record);
    record->kind = kind;
    attune_status status = problem_format(problem, record->problem, error);
    if (status == ATTUNE_OK) {
        status = problem_specialisation(problem, record->specialisation, error);
    }
    if (status == ATTUNE_OK) {
        status = problem_shape(problem, record->shape, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    if (!problem->schema->built_in) {
        record->schema = malloc(sizeof *record->schema);
        if (record->schema == NULL) {
            return error_no_memory(error);
        }
        *record->schema = *problem->schema;
    }
    snprintf(record->candidate, sizeof record->candidate, "%s", job->name);
    snprintf(record->compiler, sizeof record->compiler, "%s", job->compiler);
    snprintf(record->identity, sizeof record->identity, "%s", job->identity);
    digest_hex(&job->template_digest, record->template_digest);
    record->object = job->object;
    record->launch = job->launch;
    record->complete = true;
    record->created = (int64_t)time(NULL);
    record_new_run(record->run);
    return ATTUNE_OK;
}

void device_fingerprint(const struct driver_device *device, struct fingerprint *fingerprint)
{
    *fingerprint = (struct fingerprint){.compute_units = device->compute_units,
                                        .shared_bytes = device->shared_bytes,
                                        .memory_bytes = device->memory_bytes,
                                        .power_limit_watts = device->power_limit_watts};
    target_format(&device->target, fingerprint->target);
    snprintf(fingerprint->driver, sizeof fingerprint->driver, "%s", device->driver_version);
}

void record_set_device(struct record *record, const struct driver_device *device)
{
    device_fingerprint(device, &record->device);
    snprintf(record->device_name, sizeof record->device_name, "%s", device->name);
}

attune_status publish_default(struct store *store, const struct target *target, const struct problem *problem,
                              const struct object_job *job, struct record *record, struct error *error)
{
    char folder[128];
    struct record *known = NULL;
    int count = 0;
    attune_status status = record_describe(record, RECORD_DEFAULT, problem, job, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    target_format(target, record->device.target);
    default_folder(target, folder);
    bool there = store_records(store, folder, record->specialisation, &known, &count, NULL) == ATTUNE_OK && count > 0 &&
                 memcmp(&known[0].object, &record->object, sizeof record->object) == 0;
    for (int i = 0; i < count; i++) {
        record_free(&known[i]);
    }
    free(known);
    if (!there) { /* a store that cannot keep it warns by itself; the caller has what it needs */
        store_record_put(store, record, NULL);
    }
    return ATTUNE_OK;
}
