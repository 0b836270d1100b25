/* runner.c - the driver side of runner programs: a launch as a private folder, an exec'd program, buffers read back.
 *
 * docs/host-device.md describes launch.json. Memory is one heap block an allocation; the driver keeps the list of them,
 * so that a pointer argument can be named as buffer and offset. Only buffers that a launch's arguments point into are
 * written and read back. The driver's mutex covers the list and the launch: one at a time.
 */
#include "runtime/runner.h"

#include "base/codeobject.h"
#include "base/environment.h"
#include "base/files.h"
#include "base/process.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 256, REPORT_BYTES = 2500, REPORT_LINES = 24 };
static const double default_seconds = 120;

struct allocation {
    char *data;
    size_t bytes;
};

struct runner {
    struct driver table; /* first: the driver's pointer is the runner's */
    char *program;
    struct driver_device device;
    enum host_schedule schedule;
    double seconds;
    pthread_mutex_t mutex;
    struct allocation *allocations;
    size_t count, capacity;
};

struct runner_module {
    struct buffer object;
    struct resources resources;
};

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
        return error_set(error, ATTUNE_INVALID, "runner device %d is not here; there is one, number 0", ordinal);
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
        status = error_set(error, ATTUNE_NO_MEMORY, "runner: cannot allocate %zu bytes", bytes);
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
        status = error_set(error, ATTUNE_INVALID, "runner: %p is no allocation of this device", pointer);
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

static attune_status runner_load(const struct driver *driver, int ordinal, const void *object, size_t bytes,
                                 const char *kernel, uint32_t dynamic_shared_bytes, driver_module *loaded,
                                 driver_function *function, struct error *error)
{
    (void)dynamic_shared_bytes; /* the program's to honour: it goes into each launch */
    *loaded = NULL;
    *function = NULL;
    struct runner_module *module = calloc(1, sizeof *module);
    if (module == NULL) {
        return error_no_memory(error);
    }
    attune_status status = codeobject_resources(object, bytes, kernel, &module->resources, error);
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

/* ------------------------------------------------------------------------------------------------ launch folder */

/* the buffers that one launch uses: indices into the runner's allocations */
struct launch_buffers {
    size_t *allocation;
    size_t count;
};

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
        return error_set(error, ATTUNE_INVALID, "runner: pointer at byte %u lies outside the %u bytes of arguments",
                         offset, launch->argument_bytes);
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
                         "runner: the pointer at byte %u of the arguments (%p) is not memory of this "
                         "device",
                         offset, (const void *)pointer);
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

static attune_status write_folder(const struct runner *runner, const char *folder, const struct driver_launch *launch,
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
    root = json_pack("{s:i,s:s,s:s,s:s,s:s,s:[I,I,I],s:I,s:I,s:s,s:I,s:s,s:I,s:O,s:O}", "attune_launch", 1, "object",
                     "object.so", "entry", HOST_ENTRY_SYMBOL, "kernel", module->resources.kernel, "target",
                     module->resources.target, "grid", (json_int_t)launch->grid[0], (json_int_t)launch->grid[1],
                     (json_int_t)launch->grid[2], "threads", (json_int_t)launch->threads, "wave",
                     (json_int_t)module->resources.wave_size, "schedule", host_schedule_name(runner->schedule),
                     "dynamic_shared_bytes", (json_int_t)launch->dynamic_shared_bytes, "arguments", "arguments.bin",
                     "argument_bytes", (json_int_t)launch->argument_bytes, "relocations", relocations, "buffers", list);
    text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    if (text == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    status = folder_file(folder, "object.so", module->object.data, module->object.length, error);
    if (status == ATTUNE_OK) {
        status = folder_file(folder, "arguments.bin", launch->arguments, launch->argument_bytes, error);
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

static attune_status read_buffers(struct runner *runner, const char *folder, const struct launch_buffers *buffers,
                                  struct error *error)
{
    for (size_t i = 0; i < buffers->count; i++) {
        struct allocation *allocation = &runner->allocations[buffers->allocation[i]];
        struct buffer bytes = BUFFER_INIT;
        char path[1024];
        snprintf(path, sizeof path, "%s/buffer-%zu.bin", folder, i);
        attune_status status = file_read(path, allocation->bytes + 1, &bytes, error);
        if (status == ATTUNE_OK && bytes.length != allocation->bytes) {
            status = ATTUNE_DEVICE_FAILED;
            error_set(error, status, "buffer %zu came back with %zu bytes instead of %zu", i, bytes.length,
                      allocation->bytes);
        } else if (status == ATTUNE_OK && bytes.length > 0) {
            memcpy(allocation->data, bytes.data, bytes.length);
        } else if (status != ATTUNE_OK) {
            status = ATTUNE_DEVICE_FAILED; /* missing or overlong: the program's fault */
            if (error != NULL) {
                error->status = status;
            }
        }
        buffer_free(&bytes);
        if (status != ATTUNE_OK) {
            return error_prefix(error, "%s", runner->program);
        }
    }
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ running */

/* An exit code alone may come from a program that did nothing: buffers that it never touched would pass for results. */
static attune_status check_done(const struct runner *runner, const char *folder, struct error *error)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/" RUNNER_DONE, folder);
    if (access(path, F_OK) != 0) {
        return error_set(error, ATTUNE_DEVICE_FAILED,
                         "%s ended with exit code 0 and did not say that it ran the kernel (no file %s): it is no "
                         "attune-runner of this release",
                         runner->program, RUNNER_DONE);
    }
    return ATTUNE_OK;
}

/* The lines that explain: from the sanitizer's headline on where there is one, else from the start; bounded. */
static void excerpt(const char *text, char report[REPORT_BYTES])
{
    static const char *const headlines[] = {"ERROR: AddressSanitizer", "WARNING: ThreadSanitizer",
                                            "runtime error:", "FATAL: ThreadSanitizer"};
    const char *start = NULL;
    for (size_t i = 0; i < sizeof headlines / sizeof headlines[0]; i++) {
        const char *found = strstr(text, headlines[i]);
        if (found != NULL && (start == NULL || found < start)) {
            start = found;
        }
    }
    if (start == NULL) {
        start = text;
    }
    while (start > text && start[-1] != '\n') {
        start--;
    }
    size_t length = 0;
    for (int lines = 0; start[length] != '\0' && length < REPORT_BYTES - 1 && lines < REPORT_LINES; length++) {
        lines += start[length] == '\n';
    }
    while (length > 0 && (start[length - 1] == '\n' || start[length - 1] == ' ')) {
        length--;
    }
    memcpy(report, start, length);
    report[length] = '\0';
}

static void sanitizer_variable(char *text, size_t bytes, const char *name, const char *ours)
{
    const char *theirs = environment_get(name); /* the user's options come last and win */
    snprintf(text, bytes, "%s=%s%s%s", name, ours, theirs && theirs[0] ? ":" : "", theirs ? theirs : "");
}

static attune_status run_program(const struct runner *runner, const char *folder, bool fixed_addresses,
                                 struct process_result *result, struct error *error)
{
    char address[1024], undefined[1024], thread[1024];
    sanitizer_variable(address, sizeof address, "ASAN_OPTIONS",
                       "detect_leaks=0:halt_on_error=1:exitcode=99:abort_on_error=0:detect_stack_use_after_return=0");
    sanitizer_variable(undefined, sizeof undefined, "UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1:exitcode=99");
    sanitizer_variable(thread, sizeof thread, "TSAN_OPTIONS",
                       "atexit_sleep_ms=0:halt_on_error=1:exitcode=99:report_thread_leaks=0");
    /* one worker: blocks in index order, so that a report is the same every time */
    const char *environment[] = {address, undefined, thread, "ATTUNE_HOST_WORKERS=1", NULL};
    const char *plain[] = {runner->program, folder, NULL};
    const char *fixed[] = {"setarch", "-R", runner->program, folder, NULL};
    struct process_options options = {
        .argv = fixed_addresses ? fixed : plain,
        .environment = environment,
        .seconds = runner->seconds,
    };
    return process_run(&options, result, error);
}

static attune_status check_result(const struct runner *runner, const struct process_result *result, struct error *error)
{
    char report[REPORT_BYTES];
    if (result->exit_code == 0) {
        return ATTUNE_OK;
    }
    excerpt(result->errors.length ? buffer_string(&result->errors) : buffer_string(&result->output), report);
    const char *name = strrchr(runner->program, '/');
    name = name ? name + 1 : runner->program;
    if (result->exit_code < 0) {
        return error_set(error, ATTUNE_DEVICE_FAILED, "%s died by signal %d%s%s", name, result->signal,
                         report[0] ? ":\n" : "", report);
    }
    if (report[0] == '\0') {
        return error_set(error, ATTUNE_DEVICE_FAILED, "%s ended with exit code %d and no message", name,
                         result->exit_code);
    }
    return error_set(error, ATTUNE_DEVICE_FAILED, "%s: %s", name, report);
}

static attune_status run_folder(struct runner *runner, const char *folder, const struct launch_buffers *buffers,
                                struct error *error)
{
    struct process_result result = {0};
    attune_status status = run_program(runner, folder, false, &result, error);
    /* ThreadSanitizer of older compilers cannot live with the address randomisation of newer kernels */
    if (status == ATTUNE_OK && result.exit_code != 0 &&
        strstr(buffer_string(&result.errors), "unexpected memory mapping") != NULL) {
        process_result_free(&result);
        memset(&result, 0, sizeof result);
        status = run_program(runner, folder, true, &result, error);
    }
    if (status == ATTUNE_OK) {
        status = check_result(runner, &result, error);
    } else if (status == ATTUNE_TIMEOUT) {
        status = error_set(error, ATTUNE_TIMEOUT, "%s did not end within %g seconds: %.*s", runner->program,
                           runner->seconds, 1000, buffer_string(&result.errors));
    }
    process_result_free(&result);
    if (status == ATTUNE_OK) {
        status = check_done(runner, folder, error);
    }
    return status == ATTUNE_OK ? read_buffers(runner, folder, buffers, error) : status;
}

static attune_status runner_launch(const struct driver *driver, int ordinal, const struct driver_launch *launch,
                                   driver_stream stream, struct error *error)
{
    (void)ordinal, (void)stream;
    struct runner *runner = runner_of(driver);
    const struct runner_module *module = launch->function;
    const struct resources *resources = &module->resources;
    char folder[512] = "";
    struct launch_buffers buffers = {0};
    attune_status status;
    if (resources->max_threads > 0 && launch->threads != (uint32_t)resources->max_threads) {
        return error_set(error, ATTUNE_INVALID, "runner: kernel %s was made for blocks of %d threads, not %u",
                         resources->kernel, resources->max_threads, launch->threads);
    }
    if (launch->argument_bytes < (uint32_t)resources->argument_bytes) {
        return error_set(error, ATTUNE_INVALID, "runner: kernel %s takes %d bytes of arguments, not %u",
                         resources->kernel, resources->argument_bytes, launch->argument_bytes);
    }
    pthread_mutex_lock(&runner->mutex);
    buffers.allocation = calloc((size_t)launch->pointer_count + 1, sizeof *buffers.allocation);
    if (buffers.allocation == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    status = folder_temporary(folder, sizeof folder, error);
    if (status != ATTUNE_OK) {
        folder[0] = '\0';
        goto out;
    }
    status = write_folder(runner, folder, launch, &buffers, error);
    if (status == ATTUNE_OK) {
        status = run_folder(runner, folder, &buffers, error);
    }
out:
    if (folder[0] != '\0') {
        folder_remove(folder);
    }
    free(buffers.allocation);
    pthread_mutex_unlock(&runner->mutex);
    return status;
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
    if (runner == NULL || program == NULL) {
        free(runner);
        free(program);
        return error_no_memory(error);
    }
    runner->table = (struct driver){
        .name = "runner",
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
    runner->device = options->device;
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
