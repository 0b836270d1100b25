/* runner_folder.c - one launch as files: written for a runner program, buffers read back (docs/simulator.md).
 *
 * Only buffers that the launch's arguments point into are written and read back. Which arguments are pointers is known
 * from the launch descriptor, so nothing is guessed: every other byte of the arguments is copied as it is.
 */
#include "base/files.h"
#include "runtime/runner_private.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static attune_status folder_file(const char *folder, const char *name, const void *bytes, size_t length,
                                 struct error *error)
{
    char path[1024];
    attune_status status = path_join(path, sizeof path, folder, name, error);
    return status == ATTUNE_OK ? file_write(path, bytes, length, error) : status;
}

/* One pointer argument as {"offset","buffer","addend"}; the buffer is entered into `buffers` when it is new. A pointer
 * just past the end of an allocation belongs to that allocation. NULL stays NULL and needs no relocation. */
static attune_status relocate(const struct runner *runner, const struct driver_launch *launch, uint32_t offset,
                              struct launch_buffers *buffers, json_t *relocations, struct error *error)
{
    const char *pointer;
    if (offset + sizeof pointer > launch->argument_bytes) {
        return error_set(error, ATTUNE_INVALID, "pointer at byte %u lies outside the %u bytes of arguments", offset,
                         launch->argument_bytes);
    }
    memcpy(&pointer, (const char *)launch->arguments + offset, sizeof pointer);
    if (pointer == NULL) {
        return ATTUNE_OK;
    }
    size_t found = runner->count;
    for (size_t i = 0; i < runner->count; i++) {
        uintptr_t at = (uintptr_t)pointer - (uintptr_t)runner->allocations[i].data;
        if (at < runner->allocations[i].bytes || (at == runner->allocations[i].bytes && found == runner->count)) {
            found = i;
        }
    }
    if (found == runner->count) {
        return error_set(error, ATTUNE_INVALID,
                         "the pointer at byte %u of the arguments (%p) is not memory of this device", offset,
                         (const void *)pointer);
    }
    size_t buffer = 0;
    while (buffer < buffers->count && buffers->allocation[buffer] != found) {
        buffer++;
    }
    if (buffer == buffers->count) {
        buffers->allocation[buffers->count++] = found;
    }
    json_int_t addend = (json_int_t)(pointer - runner->allocations[found].data);
    json_t *entry =
        json_pack("{s:I,s:I,s:I}", "offset", (json_int_t)offset, "buffer", (json_int_t)buffer, "addend", addend);
    return json_array_append_new(relocations, entry) == 0 ? ATTUNE_OK : error_no_memory(error);
}

static attune_status write_buffers(const struct runner *runner, const char *folder,
                                   const struct launch_buffers *buffers, json_t *list, struct error *error)
{
    for (size_t i = 0; i < buffers->count; i++) {
        const struct allocation *allocation = &runner->allocations[buffers->allocation[i]];
        char name[32];
        snprintf(name, sizeof name, "buffer-%zu.bin", i);
        attune_status status = folder_file(folder, name, allocation->data, allocation->bytes, error);
        if (status != ATTUNE_OK) {
            return status;
        }
        json_t *entry = json_pack("{s:s,s:I}", "file", name, "bytes", (json_int_t)allocation->bytes);
        if (json_array_append_new(list, entry) != 0) {
            return error_no_memory(error);
        }
    }
    return ATTUNE_OK;
}

static const char *object_name(const struct runner *runner)
{
    return runner->simulates ? "object.elf" : "object.so";
}

/* the object may want padding after the last argument */
static uint32_t argument_bytes(const struct driver_launch *launch)
{
    const struct runner_module *module = launch->function;
    uint32_t wanted = (uint32_t)module->resources.argument_bytes;
    return wanted > launch->argument_bytes ? wanted : launch->argument_bytes;
}

/* Pointers are zero in the file: addresses of this process mean nothing to the program, and equal launches give equal
 * folders. They were found inside the arguments before. */
static attune_status write_arguments(const char *folder, const struct driver_launch *launch, struct error *error)
{
    struct buffer bytes = BUFFER_INIT;
    buffer_append(&bytes, launch->arguments, launch->argument_bytes);
    while (bytes.length < argument_bytes(launch) && !bytes.failed) {
        buffer_append(&bytes, "", 1);
    }
    attune_status status = buffer_ok(&bytes, error);
    for (int i = 0; i < launch->pointer_count && status == ATTUNE_OK; i++) {
        memset(bytes.data + launch->pointer_offsets[i], 0, sizeof(void *));
    }
    if (status == ATTUNE_OK) {
        status = folder_file(folder, "arguments.bin", bytes.data, bytes.length, error);
    }
    buffer_free(&bytes);
    return status;
}

/* New reference, NULL without memory. What a host object needs besides comes last. */
static json_t *describe_launch(const struct runner *runner, const struct driver_launch *launch, json_t *relocations,
                               json_t *buffers)
{
    const struct runner_module *module = launch->function;
    const struct resources *resources = &module->resources;
    json_t *root =
        json_pack("{s:i,s:s,s:s,s:s,s:[I,I,I],s:[I,i,i],s:I,s:I,s:s,s:I,s:O,s:O}", "attune_launch", 1, "object",
                  object_name(runner), "kernel", resources->kernel, "target", resources->target, "grid",
                  (json_int_t)launch->grid[0], (json_int_t)launch->grid[1], (json_int_t)launch->grid[2], "block",
                  (json_int_t)launch->threads, 1, 1, "wave", (json_int_t)resources->wave_size, "dynamic_shared_bytes",
                  (json_int_t)launch->dynamic_shared_bytes, "arguments", "arguments.bin", "argument_bytes",
                  (json_int_t)argument_bytes(launch), "relocations", relocations, "buffers", buffers);
    if (root != NULL && !runner->simulates &&
        (json_object_set_new(root, "entry", json_string(HOST_ENTRY_SYMBOL)) != 0 ||
         json_object_set_new(root, "schedule", json_string(host_schedule_name(runner->schedule))) != 0)) {
        json_decref(root);
        root = NULL;
    }
    return root;
}

attune_status runner_write_folder(const struct runner *runner, const char *folder, const struct driver_launch *launch,
                                  struct launch_buffers *buffers, struct error *error)
{
    const struct runner_module *module = launch->function;
    attune_status status;
    char *text = NULL;
    json_t *relocations = json_array(), *list = json_array(), *root = NULL;
    if (relocations == NULL || list == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    for (int i = 0; i < launch->pointer_count; i++) {
        status = relocate(runner, launch, launch->pointer_offsets[i], buffers, relocations, error);
        if (status != ATTUNE_OK) {
            goto out;
        }
    }
    status = write_buffers(runner, folder, buffers, list, error);
    if (status != ATTUNE_OK) {
        goto out;
    }
    root = describe_launch(runner, launch, relocations, list);
    text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    if (text == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    status = folder_file(folder, object_name(runner), module->object.data, module->object.length, error);
    if (status == ATTUNE_OK) {
        status = write_arguments(folder, launch, error);
    }
    if (status == ATTUNE_OK) {
        status = folder_file(folder, "launch.json", text, strlen(text), error);
    }
out:
    free(text);
    json_decref(root);
    json_decref(list);
    json_decref(relocations);
    return status;
}

/* What is missing, short or overlong is the program's fault, whatever the reader calls it. */
static attune_status read_buffer(const char *folder, size_t index, const struct allocation *allocation,
                                 struct error *error)
{
    struct buffer bytes = BUFFER_INIT;
    char name[32], path[1024];
    snprintf(name, sizeof name, "buffer-%zu.bin", index);
    attune_status status = path_join(path, sizeof path, folder, name, error);
    if (status == ATTUNE_OK) {
        status = file_read(path, allocation->bytes + 1, &bytes, error);
    }
    if (status == ATTUNE_OK && bytes.length != allocation->bytes) {
        status = error_set(error, ATTUNE_DEVICE_FAILED, "%s came back with %zu bytes instead of %zu", name,
                           bytes.length, allocation->bytes);
    } else if (status == ATTUNE_OK && bytes.length > 0) {
        memcpy(allocation->data, bytes.data, bytes.length);
    } else if (status != ATTUNE_OK && status != ATTUNE_NO_MEMORY) {
        error_prefix(error, "%s did not come back with its %zu bytes", name, allocation->bytes);
        status = ATTUNE_DEVICE_FAILED;
        if (error != NULL) {
            error->status = status;
        }
    }
    buffer_free(&bytes);
    return status;
}

attune_status runner_read_folder(struct runner *runner, const char *folder, const struct launch_buffers *buffers,
                                 struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (size_t i = 0; i < buffers->count && status == ATTUNE_OK; i++) {
        status = read_buffer(folder, i, &runner->allocations[buffers->allocation[i]], error);
    }
    return status;
}
