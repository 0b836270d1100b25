/* module.c - objects loaded on a device, one for all plans that use them. */
#include "runtime/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct module *find(attune_device *device, const struct record *record)
{
    struct module *module = device->modules;
    while (module != NULL && (memcmp(module->object.bytes, record->object.bytes, DIGEST_BYTES) != 0 ||
                              strcmp(module->kernel, record->launch.kernel) != 0 ||
                              module->dynamic_shared_bytes != record->launch.dynamic_shared_bytes)) {
        module = module->next;
    }
    return module;
}

/* is code with this header allowed on the device? */
static attune_status check_target(const attune_device *device, const struct object_header *header, struct error *error)
{
    struct target code;
    attune_status status = target_parse(header->target, &code, error);
    return status == ATTUNE_OK ? target_accepts(&device->facts.target, &code, error) : status;
}

attune_status module_acquire(attune_device *device, const struct record *record, struct module **module,
                             struct error *error)
{
    struct buffer bytes = BUFFER_INIT;
    struct object_header header;
    struct module *made = NULL;
    attune_status status = ATTUNE_OK;
    pthread_mutex_lock(&device->modules_lock);
    *module = find(device, record);
    if (*module != NULL) {
        (*module)->references++;
        goto out;
    }
    status = store_object_get(device->context->store, &record->object, &header, &bytes, error);
    struct error reason = {.message = ""};
    if (status == ATTUNE_OK && check_target(device, &header, &reason) != ATTUNE_OK) {
        /* the record is for this device, its object is not: somebody else's under this name */
        store_object_reject(device->context->store, &record->object, reason.message);
        status = error_set(error, ATTUNE_NOT_FOUND, "%s", reason.message);
    }
    if (status == ATTUNE_OK && (made = calloc(1, sizeof *made)) == NULL) {
        status = error_no_memory(error);
    }
    if (status != ATTUNE_OK) {
        goto out;
    }
    made->object = record->object;
    snprintf(made->kernel, sizeof made->kernel, "%s", record->launch.kernel);
    made->dynamic_shared_bytes = record->launch.dynamic_shared_bytes;
    made->references = 1;
    status = device->driver->load(device->driver, device->ordinal, bytes.data, bytes.length, made->kernel,
                                  made->dynamic_shared_bytes, &made->handle, &made->function, error);
    if (status != ATTUNE_OK) {
        free(made);
        goto out;
    }
    made->next = device->modules;
    device->modules = made;
    *module = made;
out:
    pthread_mutex_unlock(&device->modules_lock);
    buffer_free(&bytes);
    return status;
}

void module_release(attune_device *device, struct module *module)
{
    pthread_mutex_lock(&device->modules_lock);
    if (--module->references == 0) {
        struct module **link = &device->modules;
        while (*link != module) {
            link = &(*link)->next;
        }
        *link = module->next;
        device_relax(device->driver, true);
        device->driver->unload(device->driver, device->ordinal, module->handle, NULL);
        device_relax(device->driver, false);
        free(module);
    }
    pthread_mutex_unlock(&device->modules_lock);
}

void module_pin(attune_device *device, struct module *module)
{
    pthread_mutex_lock(&device->modules_lock);
    if (!module->pinned) {
        module->pinned = true;
        module->references++;
    }
    pthread_mutex_unlock(&device->modules_lock);
}

void modules_unload(attune_device *device)
{
    while (device->modules != NULL) {
        struct module *module = device->modules;
        device->modules = module->next;
        device_relax(device->driver, true);
        device->driver->unload(device->driver, device->ordinal, module->handle, NULL);
        device_relax(device->driver, false);
        free(module);
    }
}
