/* driver.c - drivers by name, devices by text. */
#include "runtime/driver.h"

#include "runtime/driver_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    attune_status (*get)(const struct driver **driver, struct error *error);
} drivers[] = {
    {"cuda", driver_cuda},
    {"hip", driver_hip},
    {"host", driver_host},
};
enum { DRIVERS = sizeof drivers / sizeof drivers[0] };

const char *driver_name(int index)
{
    return index >= 0 && index < DRIVERS ? drivers[index].name : NULL;
}

attune_status driver_get(const char *name, const struct driver **driver, struct error *error)
{
    *driver = NULL;
    for (int i = 0; i < DRIVERS; i++) {
        if (strcmp(name, drivers[i].name) == 0) {
            attune_status status = drivers[i].get(driver, error);
            return status == ATTUNE_OK ? status : error_prefix(error, "driver %s", name);
        }
    }
    return error_set(error, ATTUNE_INVALID, "driver \"%s\" is unknown; use cuda, hip or host", name);
}

static attune_status first_device(const struct driver **driver, int *ordinal, struct error *error)
{
    for (int i = 0; i < DRIVERS; i++) {
        int count = 0;
        if (drivers[i].get(driver, error) == ATTUNE_OK && (*driver)->count(*driver, &count, error) == ATTUNE_OK &&
            count > 0) {
            *ordinal = 0;
            return ATTUNE_OK;
        }
    }
    return error_set(error, ATTUNE_INTERNAL, "the host driver cannot be used");
}

attune_status driver_parse_device(const char *text, const struct driver **driver, int *ordinal, struct error *error)
{
    *driver = NULL;
    *ordinal = 0;
    if (text == NULL || text[0] == '\0' || strcmp(text, "best") == 0) {
        struct error unused; /* a GPU that is not here is no failure of "best" */
        return first_device(driver, ordinal, &unused) == ATTUNE_OK
                   ? ATTUNE_OK
                   : error_set(error, ATTUNE_NO_DEVICE, "no device can be used: %s", unused.message);
    }
    if (strcmp(text, "sim") == 0 || strncmp(text, "sim:", 4) == 0) {
        return driver_sim(text[3] == ':' ? text + 4 : "", driver, error);
    }
    if (strncmp(text, "host-", 5) == 0) {
        return error_set(error, ATTUNE_INVALID,
                         "device \"%.100s\" is unknown: the device is host, and `attune verify --device host --target "
                         "%.100s` runs the text made for that target on it",
                         text, text + 5);
    }
    char name[16];
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    if (length >= sizeof name) {
        return error_set(error, ATTUNE_INVALID,
                         "device \"%.100s\" is unknown; use cuda:N, hip:N, host, sim:TARGET or best", text);
    }
    memcpy(name, text, length);
    name[length] = '\0';
    long number = 0;
    if (colon != NULL) {
        char *end;
        number = strtol(colon + 1, &end, 10);
        if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || number > 1023) {
            return error_set(error, ATTUNE_INVALID, "device \"%.100s\": what follows the colon is not a device number",
                             text);
        }
    }
    const struct driver *found;
    attune_status status = driver_get(name, &found, error);
    if (status == ATTUNE_INVALID) {
        return error_set(error, ATTUNE_INVALID,
                         "device \"%.100s\" is unknown; use cuda:N, hip:N, host, sim:TARGET or best", text);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    int count = 0;
    status = found->count(found, &count, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (number >= count) {
        return error_set(error, ATTUNE_NO_DEVICE, "device \"%.100s\" is not here: driver %s has %d device%s", text,
                         name, count, count == 1 ? "" : "s");
    }
    *driver = found;
    *ordinal = (int)number;
    return ATTUNE_OK;
}

void driver_format_device(const struct driver *driver, int ordinal, char text[DRIVER_DEVICE_BYTES])
{
    if (driver->device != NULL) {
        snprintf(text, DRIVER_DEVICE_BYTES, "%s", driver->device);
    } else {
        snprintf(text, DRIVER_DEVICE_BYTES, "%s:%d", driver->name, ordinal);
    }
}

bool driver_has_times(const struct driver *driver)
{
    return strcmp(driver->name, "host") != 0 && strcmp(driver->name, "sim") != 0;
}
