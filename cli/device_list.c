/* device_list.c - see device_list.h. */
#include "cli/device_list.h"

#include "autotune/publish.h"
#include "autotune/tune.h"

#include <stdio.h>
#include <string.h>

static attune_status add(struct device_list *list, const char *name, size_t length, struct error *error)
{
    if (list->count == DEVICES_MAX) {
        return error_set(error, ATTUNE_INVALID, "--device names more than %d devices", DEVICES_MAX);
    }
    struct listed_device *device = &list->items[list->count];
    if (length == 0 || length >= sizeof device->name) {
        return error_set(error, ATTUNE_INVALID,
                         "--device: '%.*s' is no device; write names with commas between them, such as cuda:0,cuda:1",
                         (int)(length < 100 ? length : 100), name);
    }
    *device = (struct listed_device){.group = 0};
    memcpy(device->name, name, length);
    list->count++;
    return ATTUNE_OK;
}

static attune_status add_all(struct device_list *list, struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (int i = 0; driver_name(i) != NULL && status == ATTUNE_OK; i++) {
        const struct driver *driver;
        struct error unused;
        int devices = 0;
        if (strcmp(driver_name(i), "host") == 0 || driver_get(driver_name(i), &driver, &unused) != ATTUNE_OK ||
            driver->count(driver, &devices, &unused) != ATTUNE_OK) {
            continue;
        }
        for (int ordinal = 0; ordinal < devices && status == ATTUNE_OK; ordinal++) {
            char name[32];
            int length = snprintf(name, sizeof name, "%s:%d", driver->name, ordinal);
            status = add(list, name, (size_t)length, error);
        }
    }
    return status == ATTUNE_OK && list->count == 0 ? add(list, "host", 4, error) : status;
}

static attune_status add_names(struct device_list *list, const char *text, struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (const char *rest = text; rest != NULL && status == ATTUNE_OK;) {
        size_t length = strcspn(rest, ",");
        if (length == 3 && strncmp(rest, "all", 3) == 0) {
            return error_set(error, ATTUNE_INVALID,
                             "--device %.100s: `all` stands alone; it is every GPU, or the host where there is none",
                             text);
        }
        status = add(list, rest, length, error);
        rest = rest[length] == ',' ? rest + length + 1 : NULL;
    }
    return status;
}

/* what it is, under the one name it has; grouped with the earlier ones of its fingerprint */
static attune_status describe(struct device_list *list, int index, struct error *error)
{
    struct listed_device *device = &list->items[index];
    const struct driver *driver;
    int ordinal;
    struct record own = {0};
    char folder[128];
    attune_status status = tune_accepts_device(device->name, error);
    if (status == ATTUNE_OK) {
        status = driver_parse_device(device->name, &driver, &ordinal, error);
    }
    if (status == ATTUNE_OK) {
        status = driver->describe(driver, ordinal, &device->facts, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    const bool is_host = strcmp(driver->name, "host") == 0;
    snprintf(device->name, sizeof device->name, is_host ? "host" : "%s:%d", driver->name, ordinal);
    record_set_device(&own, &device->facts);
    fingerprint_folder(&own.device, folder);
    device->group = list->groups;
    for (int i = 0; i < index; i++) {
        struct record other = {0};
        char others[128];
        if (strcmp(list->items[i].name, device->name) == 0 && !is_host) {
            return error_set(error, ATTUNE_INVALID, "--device names %s twice: name each GPU once", device->name);
        }
        record_set_device(&other, &list->items[i].facts);
        fingerprint_folder(&other.device, others);
        if (strcmp(folder, others) == 0) {
            device->group = list->items[i].group;
        }
    }
    list->groups += device->group == list->groups;
    return ATTUNE_OK;
}

attune_status device_list_read(const char *text, struct device_list *list, struct error *error)
{
    memset(list, 0, sizeof *list);
    attune_status status = text != NULL && strcmp(text, "all") == 0
                               ? add_all(list, error)
                               : add_names(list, text != NULL ? text : "best", error);
    for (int i = 0; i < list->count && status == ATTUNE_OK; i++) {
        status = describe(list, i, error);
    }
    return status;
}
