/* device.c - devices: opening by name, describing, closing with all they hold. */
#include "runtime/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static attune_device *find_open(attune_context *context, const struct driver *driver, int ordinal)
{
    attune_device *device = context->devices;
    while (device != NULL && (device->driver != driver || device->ordinal != ordinal)) {
        device = device->next;
    }
    return device;
}

void device_relax(const struct driver *driver, bool begin)
{
    if (driver->relax_capture != NULL) {
        driver->relax_capture(driver, begin);
    }
}

attune_status context_open_device(attune_context *context, const struct driver *driver, int ordinal,
                                  attune_device **device, struct error *error)
{
    pthread_mutex_lock(&context->lock);
    *device = find_open(context, driver, ordinal);
    pthread_mutex_unlock(&context->lock);
    if (*device != NULL) {
        return ATTUNE_OK;
    }
    attune_device *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    device_relax(driver, true);
    attune_status status = driver->describe(driver, ordinal, &made->facts, error);
    device_relax(driver, false);
    if (status != ATTUNE_OK) {
        free(made);
        return status;
    }
    made->context = context;
    made->driver = driver;
    made->ordinal = ordinal;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->landed, NULL);
    pthread_mutex_init(&made->modules_lock, NULL);
    pthread_mutex_lock(&context->lock);
    *device = find_open(context, driver, ordinal); /* another thread may have been faster */
    if (*device == NULL) {
        made->next = context->devices;
        context->devices = made;
        *device = made;
        made = NULL;
    }
    pthread_mutex_unlock(&context->lock);
    if (made != NULL) {
        device_destroy(made);
    }
    return ATTUNE_OK;
}

void device_destroy(attune_device *device)
{
    remembered_free(device);
    modules_unload(device);
    pthread_mutex_destroy(&device->lock);
    pthread_cond_destroy(&device->landed);
    pthread_mutex_destroy(&device->modules_lock);
    free(device);
}

attune_status attune_device_open(attune_context *context, const char *name, attune_device **device)
{
    struct error error = {0};
    const struct driver *driver = NULL;
    int ordinal = 0;
    if (device != NULL) {
        *device = NULL;
    }
    if (context == NULL || device == NULL) {
        return context_report(
            context, error_set(&error, ATTUNE_INVALID, "%s is NULL", context == NULL ? "context" : "device"), &error);
    }
    attune_status status = driver_parse_device(name != NULL ? name : "best", &driver, &ordinal, &error);
    if (status == ATTUNE_OK) {
        status = context_open_device(context, driver, ordinal, device, &error);
    }
    return context_report(context, status, &error);
}

attune_status attune_device_describe(attune_device *device, attune_device_info *info)
{
    struct error error = {0};
    attune_device_info full = {.size = sizeof full};
    if (device == NULL) {
        return context_report(NULL, error_set(&error, ATTUNE_INVALID, "device is NULL"), &error);
    }
    snprintf(full.name, sizeof full.name, "%s", device->facts.name);
    target_format(&device->facts.target, full.target);
    snprintf(full.driver, sizeof full.driver, "%s", device->facts.driver_version);
    full.compute_units = device->facts.compute_units;
    full.wave_size = device->facts.wave_size;
    full.shared_bytes = device->facts.shared_bytes;
    full.memory_bytes = device->facts.memory_bytes;
    return context_report(device->context, struct_write(info, &full, sizeof full, sizeof full, "info", &error), &error);
}
