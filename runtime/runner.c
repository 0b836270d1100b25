/* runner.c - the driver side of runner programs: memory, objects, and a launch as a private folder that an exec'd
 * program works on.
 *
 * Memory is one heap block an allocation; the driver keeps the list of them, so that a pointer argument can be named as
 * buffer and offset. The driver's mutex covers the list and the launch: one at a time.
 */
#include "base/environment.h"
#include "base/files.h"
#include "base/process.h"
#include "runtime/runner_private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 256, ARGUMENT_PADDING = 15 };
static const double default_seconds = 120;

static struct runner *runner_of(const struct driver *driver)
{
    return (struct runner *)(uintptr_t)driver;
}

/* ------------------------------------------------------------------------------------------------ device and memory */

static attune_status runner_count(const struct driver *driver, int *count, struct error *error)
{
    (void)driver, (void)error;
    *count = 1;
    return ATTUNE_OK;
}

static attune_status runner_describe(const struct driver *driver, int ordinal, struct driver_device *device,
                                     struct error *error)
{
    if (ordinal != 0) {
        return error_set(error, ATTUNE_INVALID, "device %d is not here; there is one, number 0", ordinal);
    }
    *device = runner_of(driver)->device;
    return ATTUNE_OK;
}

static attune_status runner_allocate(const struct driver *driver, int ordinal, size_t bytes, void **pointer,
                                     struct error *error)
{
    (void)ordinal;
    struct runner *runner = runner_of(driver);
    attune_status status = ATTUNE_OK;
    *pointer = NULL;
    pthread_mutex_lock(&runner->mutex);
    if (runner->count == runner->capacity) {
        size_t capacity = runner->capacity ? 2 * runner->capacity : 16;
        struct allocation *grown = realloc(runner->allocations, capacity * sizeof *grown);
        if (grown != NULL) {
            runner->allocations = grown;
            runner->capacity = capacity;
        }
    }
    if (runner->count == runner->capacity || posix_memalign(pointer, ALIGNMENT, bytes ? bytes : 1) != 0) {
        *pointer = NULL;
        status = error_set(error, ATTUNE_NO_MEMORY, "%s: cannot allocate %zu bytes", runner->text, bytes);
    } else {
        runner->allocations[runner->count++] = (struct allocation){*pointer, bytes};
    }
    pthread_mutex_unlock(&runner->mutex);
    return status;
}

static attune_status runner_release(const struct driver *driver, int ordinal, void *pointer, struct error *error)
{
    (void)ordinal;
    struct runner *runner = runner_of(driver);
    attune_status status = ATTUNE_OK;
    if (pointer == NULL) {
        return ATTUNE_OK;
    }
    pthread_mutex_lock(&runner->mutex);
    size_t i = 0;
    while (i < runner->count && runner->allocations[i].data != pointer) {
        i++;
    }
    if (i < runner->count) {
        free(pointer);
        runner->allocations[i] = runner->allocations[--runner->count];
    } else {
        status = error_set(error, ATTUNE_INVALID, "%s: %p is no allocation of this device", runner->text, pointer);
    }
    pthread_mutex_unlock(&runner->mutex);
    return status;
}

static attune_status runner_copy_in(const struct driver *driver, int ordinal, void *device, const void *host,
                                    size_t bytes, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    if (bytes > 0) {
        memcpy(device, host, bytes);
    }
    return ATTUNE_OK;
}

static attune_status runner_copy_out(const struct driver *driver, int ordinal, void *host, const void *device,
                                     size_t bytes, struct error *error)
{
    return runner_copy_in(driver, ordinal, host, device, bytes, error);
}

static attune_status runner_fill(const struct driver *driver, int ordinal, void *device, uint8_t value, size_t bytes,
                                 struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    if (bytes > 0) {
        memset(device, value, bytes);
    }
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ modules */

static attune_status runner_unload(const struct driver *driver, int ordinal, driver_module loaded, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    struct runner_module *module = loaded;
    if (module != NULL) {
        buffer_free(&module->object);
        free(module);
    }
    return ATTUNE_OK;
}

/* what a GPU's driver refuses, and what the folder has no place for; a runner program checks host objects itself */
static attune_status check_object(const struct driver_device *device, const struct resources *resources,
                                  uint32_t dynamic_shared_bytes, struct error *error)
{
    struct target code;
    attune_status status = target_parse(resources->target, &code, error);
    if (status == ATTUNE_OK) {
        status = target_accepts(&device->target, &code, error);
    }
    uint64_t shared = (uint64_t)resources->shared_bytes + dynamic_shared_bytes;
    if (status == ATTUNE_OK && shared > device->shared_bytes) {
        return error_set(error, ATTUNE_INVALID, "kernel %s wants %llu bytes of shared memory; %s has %llu",
                         resources->kernel, (unsigned long long)shared, device->name,
                         (unsigned long long)device->shared_bytes);
    }
    if (status == ATTUNE_OK && resources->hidden_arguments > 0) {
        return error_set(error, ATTUNE_UNSUPPORTED,
                         "kernel %s has %d hidden arguments, which a launch folder does not carry: do without "
                         "blockDim, gridDim and printf",
                         resources->kernel, resources->hidden_arguments);
    }
    return status;
}

static attune_status runner_load(const struct driver *driver, int ordinal, const void *object, size_t bytes,
                                 const char *kernel, uint32_t dynamic_shared_bytes, driver_module *loaded,
                                 driver_function *function, struct error *error)
{
    *loaded = NULL;
    *function = NULL;
    struct runner_module *module = calloc(1, sizeof *module);
    if (module == NULL) {
        return error_no_memory(error);
    }
    attune_status status = codeobject_resources(object, bytes, kernel, &module->resources, error);
    if (status == ATTUNE_OK && runner_of(driver)->simulates) {
        status = check_object(&runner_of(driver)->device, &module->resources, dynamic_shared_bytes, error);
    }
    if (status == ATTUNE_OK) {
        buffer_append(&module->object, object, bytes);
        status = buffer_ok(&module->object, error);
    }
    if (status != ATTUNE_OK) {
        runner_unload(driver, ordinal, module, NULL);
        return status;
    }
    *loaded = *function = module;
    return ATTUNE_OK;
}

static attune_status check_launch(const struct runner *runner, const struct driver_launch *launch, struct error *error)
{
    const struct resources *resources = &((const struct runner_module *)launch->function)->resources;
    uint32_t wanted = (uint32_t)resources->argument_bytes;
    if (resources->max_threads > 0 && launch->threads != (uint32_t)resources->max_threads) {
        return error_set(error, ATTUNE_INVALID, "kernel %s was made for blocks of %d threads, not %u",
                         resources->kernel, resources->max_threads, launch->threads);
    }
    /* a GPU's object counts the padding behind the last argument, which launch_layout leaves out */
    if (launch->argument_bytes + (runner->simulates ? ARGUMENT_PADDING : 0) < wanted) {
        return error_set(error, ATTUNE_INVALID, "kernel %s takes %u bytes of arguments, not %u", resources->kernel,
                         wanted, launch->argument_bytes);
    }
    return ATTUNE_OK;
}

static attune_status launch_in_folder(struct runner *runner, const struct driver_launch *launch, struct error *error)
{
    struct launch_buffers buffers = {0};
    struct process_guard guard = {0};
    char folder[512];
    attune_status status = folder_temporary(folder, sizeof folder, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    buffers.allocation = calloc((size_t)launch->pointer_count + 1, sizeof *buffers.allocation);
    status = buffers.allocation != NULL ? ATTUNE_OK : error_no_memory(error);
    if (status == ATTUNE_OK) {
        status = process_guard_start(runner->keep_folders ? NULL : folder, &guard, error);
    }
    if (status == ATTUNE_OK) {
        status = runner_write_folder(runner, folder, launch, &buffers, error);
    }
    if (status == ATTUNE_OK) {
        status = runner_run_folder(runner, folder, &guard, &buffers, error);
    }
    process_guard_end(&guard);
    if (runner->keep_folders) {
        tell_line("%s: the launch is kept in %s", runner->table.name, folder);
    } else {
        folder_remove(folder);
    }
    free(buffers.allocation);
    return status;
}

static attune_status runner_launch(const struct driver *driver, int ordinal, const struct driver_launch *launch,
                                   driver_stream stream, struct error *error)
{
    (void)ordinal, (void)stream;
    struct runner *runner = runner_of(driver);
    attune_status status = check_launch(runner, launch, error);
    if (status == ATTUNE_OK) {
        pthread_mutex_lock(&runner->mutex);
        status = launch_in_folder(runner, launch, error);
        pthread_mutex_unlock(&runner->mutex);
    }
    return status == ATTUNE_OK || !runner->simulates ? status : error_prefix(error, "%s", runner->text);
}

/* ------------------------------------------------------------------------------------------------ streams and events
 */

static char only_stream; /* its address is every stream */

static attune_status runner_stream_create(const struct driver *driver, int ordinal, driver_stream *stream,
                                          struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    *stream = &only_stream;
    return ATTUNE_OK;
}

static attune_status runner_stream_nothing(const struct driver *driver, int ordinal, driver_stream stream,
                                           struct error *error)
{
    (void)driver, (void)ordinal, (void)stream, (void)error;
    return ATTUNE_OK;
}

static attune_status runner_event_create(const struct driver *driver, int ordinal, driver_event *event,
                                         struct error *error)
{
    (void)driver, (void)ordinal;
    *event = calloc(1, sizeof(double));
    return *event != NULL ? ATTUNE_OK : error_no_memory(error);
}

static attune_status runner_event_destroy(const struct driver *driver, int ordinal, driver_event event,
                                          struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    free(event);
    return ATTUNE_OK;
}

static attune_status runner_event_record(const struct driver *driver, int ordinal, driver_event event,
                                         driver_stream stream, struct error *error)
{
    (void)driver, (void)ordinal, (void)stream, (void)error;
    *(double *)event = clock_seconds();
    return ATTUNE_OK;
}

static attune_status runner_event_elapsed(const struct driver *driver, int ordinal, driver_event begin,
                                          driver_event end, double *milliseconds, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    *milliseconds = (*(double *)end - *(double *)begin) * 1e3;
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ life */

attune_status runner_create(const struct runner_options *options, struct driver **driver, struct error *error)
{
    *driver = NULL;
    if (options->program == NULL || access(options->program, X_OK) != 0) {
        return error_set(error, ATTUNE_NOT_FOUND, "runner program %s cannot be run",
                         options->program ? options->program : "NULL");
    }
    struct runner *runner = calloc(1, sizeof *runner);
    char *program = strdup(options->program);
    char *text = strdup(options->simulates != NULL ? options->simulates : "runner");
    if (runner == NULL || program == NULL || text == NULL) {
        free(runner);
        free(program);
        free(text);
        return error_no_memory(error);
    }
    runner->table = (struct driver){
        .name = options->simulates != NULL ? "sim" : "runner",
        .device = text,
        .count = runner_count,
        .describe = runner_describe,
        .allocate = runner_allocate,
        .release = runner_release,
        .copy_in = runner_copy_in,
        .copy_out = runner_copy_out,
        .fill = runner_fill,
        .load = runner_load,
        .unload = runner_unload,
        .launch = runner_launch,
        .stream_create = runner_stream_create,
        .stream_destroy = runner_stream_nothing,
        .synchronize = runner_stream_nothing,
        .event_create = runner_event_create,
        .event_destroy = runner_event_destroy,
        .event_record = runner_event_record,
        .event_elapsed = runner_event_elapsed,
    };
    runner->program = program;
    runner->text = text;
    runner->device = options->device;
    runner->simulates = options->simulates != NULL;
    runner->keep_folders = options->keep_folders;
    runner->schedule = options->schedule;
    runner->seconds = options->seconds > 0 ? options->seconds : default_seconds;
    pthread_mutex_init(&runner->mutex, NULL);
    *driver = &runner->table;
    return ATTUNE_OK;
}

void runner_destroy(struct driver *driver)
{
    if (driver == NULL) {
        return;
    }
    struct runner *runner = runner_of(driver);
    for (size_t i = 0; i < runner->count; i++) {
        free(runner->allocations[i].data);
    }
    free(runner->allocations);
    free(runner->program);
    free(runner->text);
    pthread_mutex_destroy(&runner->mutex);
    free(runner);
}

attune_status runner_find(const char *sanitizer, char *path, size_t bytes, struct error *error)
{
    static const struct {
        const char *sanitizer, *variable, *program;
    } runners[] = {{"address", "ATTUNE_RUNNER_ADDRESS", "attune-runner-address"},
                   {"thread", "ATTUNE_RUNNER_THREAD", "attune-runner-thread"}};
    for (size_t i = 0; i < sizeof runners / sizeof runners[0]; i++) {
        if (strcmp(sanitizer, runners[i].sanitizer) != 0) {
            continue;
        }
        const char *chosen = environment_get(runners[i].variable);
        if (chosen != NULL && chosen[0] != '\0') {
            if (program_find(chosen, path, bytes, NULL) != ATTUNE_OK) {
                return error_set(error, ATTUNE_NO_TOOLCHAIN, "%s=%s cannot be run", runners[i].variable, chosen);
            }
            return ATTUNE_OK;
        }
        if (program_beside(runners[i].program, "runtime", path, bytes, NULL) == ATTUNE_OK) {
            return ATTUNE_OK;
        }
        return error_set(error, ATTUNE_NO_TOOLCHAIN,
                         "%s was not built (the C compiler lacks that sanitizer) or not installed; %s names its path",
                         runners[i].program, runners[i].variable);
    }
    return error_set(error, ATTUNE_INVALID, "sanitizer \"%s\" has no runner; use address or thread", sanitizer);
}
