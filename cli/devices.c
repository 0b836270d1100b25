/* devices.c - the drivers and their devices; see devices.h. */
#include "cli/devices.h"

#include "cli/cli.h"
#include "cli/table.h"
#include "runtime/driver.h"

static json_t *describe(const struct driver *driver, int ordinal)
{
    struct driver_device device;
    struct error error = {0};
    char name[32];
    json_t *row = json_object();
    snprintf(name, sizeof name, "%s:%d", driver->name, ordinal);
    json_set_text(row, "device", name);
    if (driver->describe(driver, ordinal, &device, &error) != ATTUNE_OK) {
        json_set_text(row, "reason", error.message);
        return row;
    }
    char target[TARGET_TEXT_BYTES];
    target_format(&device.target, target);
    json_set_text(row, "target", target);
    json_set_text(row, "name", device.name);
    json_set_text(row, "driver_version", device.driver_version);
    if (device.pci[0] != '\0') {
        json_set_text(row, "pci", device.pci);
    }
    json_set_whole(row, "compute_units", device.compute_units);
    json_set_whole(row, "wave_size", device.wave_size);
    json_set_whole(row, "max_threads", device.max_threads);
    json_set_whole(row, "shared_bytes", (int64_t)device.shared_bytes);
    json_set_whole(row, "memory_bytes", (int64_t)device.memory_bytes);
    json_set_whole(row, "cache_bytes", (int64_t)device.cache_bytes);
    json_set_whole(row, "power_limit_watts", device.power_limit_watts);
    return row;
}

json_t *survey_drivers(void)
{
    json_t *drivers = json_array();
    for (int i = 0; driver_name(i) != NULL; i++) {
        const struct driver *driver = NULL;
        struct error error = {0};
        int count = 0;
        json_t *row = json_object();
        json_t *devices = json_array();
        attune_status status = driver_get(driver_name(i), &driver, &error);
        if (status == ATTUNE_OK) {
            status = driver->count(driver, &count, &error);
        }
        json_set_text(row, "driver", driver_name(i));
        json_set_flag(row, "usable", status == ATTUNE_OK && count > 0);
        if (status != ATTUNE_OK) {
            json_set_text(row, "reason", error.message);
        } else if (count == 0) {
            json_set_text(row, "reason", "the driver works and sees no device");
        }
        for (int ordinal = 0; status == ATTUNE_OK && ordinal < count; ordinal++) {
            json_array_append_new(devices, describe(driver, ordinal));
        }
        json_object_set_new(row, "devices", devices);
        json_array_append_new(drivers, row);
    }
    return drivers;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "-";
}

void print_drivers(const json_t *drivers)
{
    struct table table;
    size_t index, at;
    json_t *driver, *device;
    table_begin(&table, "device|target|name|>units|>wave|>shared|>memory|driver");
    json_array_foreach(drivers, index, driver)
    {
        json_array_foreach(json_object_get(driver, "devices"), at, device)
        {
            char shared[32], memory[32];
            format_bytes((uint64_t)json_integer_value(json_object_get(device, "shared_bytes")), shared);
            format_bytes((uint64_t)json_integer_value(json_object_get(device, "memory_bytes")), memory);
            const char *reason = json_string_value(json_object_get(device, "reason"));
            table_cell(&table, "%s", text_of(device, "device"));
            table_cell(&table, "%s", text_of(device, "target"));
            table_cell(&table, "%s", reason != NULL ? reason : text_of(device, "name"));
            table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(device, "compute_units")));
            table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(device, "wave_size")));
            table_cell(&table, "%s", shared);
            table_cell(&table, "%s", memory);
            table_cell(&table, "%s", text_of(device, "driver_version"));
        }
    }
    table_end(&table, stdout);
    json_array_foreach(drivers, index, driver)
    {
        if (!json_is_true(json_object_get(driver, "usable"))) {
            printf("no %s device: %s\n", text_of(driver, "driver"), text_of(driver, "reason"));
        }
    }
}
