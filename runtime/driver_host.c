/* driver_host.c - the host device behind the driver table: objects by dlopen, memory by malloc, launches at once.
 *
 * An object runs with the wave size of its own note: one made for host-gfx906 has waves of 64. Streams are all the
 * default one and events are points on the monotonic clock; they carry no meaning for speed.
 */
#include "base/codeobject.h"
#include "base/files.h"
#include "base/process.h"
#include "runtime/driver_tables.h"
#include "runtime/host_device.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    HOST_WAVE = 32,
    HOST_THREADS = 1024,
    HOST_SHARED_BYTES = 256 << 10, /* above every target that is emulated */
    HOST_ALIGNMENT = 256           /* of allocations, as GPU drivers give */
};

struct host_module {
    void *library;
    int file; /* open while the library is loaded: its number is part of the name that the loader knows it by */
    host_entry entry;
    struct resources resources;
};

static attune_status host_ordinal(int ordinal, struct error *error)
{
    return ordinal == 0
               ? ATTUNE_OK
               : error_set(error, ATTUNE_INVALID, "host device %d is not here; there is one, number 0", ordinal);
}

static attune_status host_count(const struct driver *driver, int *count, struct error *error)
{
    (void)driver, (void)error;
    *count = 1;
    return ATTUNE_OK;
}

static void processor_name(char *name, size_t bytes)
{
    snprintf(name, bytes, "host CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL) {
        return;
    }
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(name, bytes, "%s", colon[1] == ' ' ? colon + 2 : colon + 1);
            break;
        }
    }
    fclose(file);
}

static uint64_t positive(long value)
{
    return value > 0 ? (uint64_t)value : 0;
}

static attune_status host_describe(const struct driver *driver, int ordinal, struct driver_device *device,
                                   struct error *error)
{
    (void)driver;
    attune_status status = host_ordinal(ordinal, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    memset(device, 0, sizeof *device);
    status = target_parse("host", &device->target, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    processor_name(device->name, sizeof device->name);
    snprintf(device->driver_version, sizeof device->driver_version, "host");
    uint64_t page = positive(sysconf(_SC_PAGESIZE));
    device->compute_units = (int32_t)positive(sysconf(_SC_NPROCESSORS_ONLN));
    if (device->compute_units == 0) {
        device->compute_units = 1;
    }
    device->wave_size = HOST_WAVE;
    device->max_threads = HOST_THREADS;
    device->shared_bytes = HOST_SHARED_BYTES;
    device->memory_bytes = positive(sysconf(_SC_PHYS_PAGES)) * page;
    device->memory_free_bytes = positive(sysconf(_SC_AVPHYS_PAGES)) * page;
    device->cache_bytes = positive(sysconf(_SC_LEVEL3_CACHE_SIZE));
    /* CUDA's limits, so that the splitting of grids is exercised here too */
    device->grid = (struct grid_limits){.blocks = {0x7fffffff, 65535, 65535}, .work_items = 0};
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ memory */

static attune_status host_allocate(const struct driver *driver, int ordinal, size_t bytes, void **pointer,
                                   struct error *error)
{
    (void)driver, (void)ordinal;
    *pointer = NULL;
    if (posix_memalign(pointer, HOST_ALIGNMENT, bytes ? bytes : 1) != 0) {
        *pointer = NULL;
        return error_set(error, ATTUNE_NO_MEMORY, "host: cannot allocate %zu bytes", bytes);
    }
    return ATTUNE_OK;
}

static attune_status host_release(const struct driver *driver, int ordinal, void *pointer, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    free(pointer);
    return ATTUNE_OK;
}

static attune_status host_copy_in(const struct driver *driver, int ordinal, void *device, const void *host,
                                  size_t bytes, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    if (bytes > 0) {
        memcpy(device, host, bytes);
    }
    return ATTUNE_OK;
}

static attune_status host_copy_out(const struct driver *driver, int ordinal, void *host, const void *device,
                                   size_t bytes, struct error *error)
{
    return host_copy_in(driver, ordinal, host, device, bytes, error);
}

static attune_status host_fill(const struct driver *driver, int ordinal, void *device, uint8_t value, size_t bytes,
                               struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    if (bytes > 0) {
        memset(device, value, bytes);
    }
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ modules */

static attune_status write_all(int file, const char *bytes, size_t length, struct error *error)
{
    int failed = file_write_fully(file, bytes, length);
    return failed == 0
               ? ATTUNE_OK
               : error_errno(error, failed,
                             "host: cannot write the object's %zu bytes for loading (`ulimit -f` and memory decide)",
                             length);
}

/* An unnamed file that the loader can open: memory where the system has that, else an unlinked temporary file. */
static attune_status object_file(int *file, struct error *error)
{
    *file = memfd_create("attune-object", MFD_CLOEXEC);
    if (*file >= 0) {
        return ATTUNE_OK;
    }
    char folder[512], path[600];
    attune_status status = folder_temporary(folder, sizeof folder, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    snprintf(path, sizeof path, "%s/object.so", folder);
    *file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    int problem = errno;
    folder_remove(folder);
    return *file >= 0 ? ATTUNE_OK : error_errno(error, problem, "host: cannot create %s for loading an object", path);
}

static void library_close(struct host_module *module)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", module->file);
    dlclose(module->library);
    /* An object with unique symbols stays loaded; its name must then stay taken, or a later object would get it
     * instead. */
    void *resident = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (resident != NULL) {
        dlclose(resident);
        return;
    }
    close(module->file);
}

static attune_status host_load(const struct driver *driver, int ordinal, const void *object, size_t bytes,
                               const char *kernel, uint32_t dynamic_shared_bytes, driver_module *loaded,
                               driver_function *function, struct error *error)
{
    (void)driver;
    *loaded = NULL;
    *function = NULL;
    attune_status status = host_ordinal(ordinal, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct host_module *module = calloc(1, sizeof *module);
    if (module == NULL) {
        return error_no_memory(error);
    }
    module->file = -1;
    status = codeobject_resources(object, bytes, kernel, &module->resources, error);
    if (status != ATTUNE_OK) {
        goto out;
    }
    struct target target;
    status = target_parse(module->resources.target, &target, error);
    if (status == ATTUNE_OK && target.vendor != TARGET_HOST) {
        status = error_set(error, ATTUNE_INVALID,
                           "host: the object is for %s; the host device runs objects for host or "
                           "host-TARGET",
                           module->resources.target);
    }
    if (status == ATTUNE_OK && (uint64_t)module->resources.shared_bytes + dynamic_shared_bytes > HOST_SHARED_BYTES) {
        status = error_set(
            error, ATTUNE_INVALID, "host: kernel %s wants %d + %u bytes of shared memory; the limit is %d",
            module->resources.kernel, module->resources.shared_bytes, dynamic_shared_bytes, HOST_SHARED_BYTES);
    }
    if (status != ATTUNE_OK) {
        goto out;
    }
    status = object_file(&module->file, error);
    if (status == ATTUNE_OK) {
        status = write_all(module->file, object, bytes, error);
    }
    if (status != ATTUNE_OK) {
        goto out;
    }
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", module->file);
    module->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (module->library == NULL) {
        status = error_set(error, ATTUNE_DEVICE_FAILED, "host: the object cannot be loaded: %s", dlerror());
        goto out;
    }
    void *entry = dlsym(module->library, HOST_ENTRY_SYMBOL);
    memcpy(&module->entry, &entry, sizeof entry);
    if (entry == NULL) {
        status = error_set(error, ATTUNE_INVALID, "host: the object has no symbol %s", HOST_ENTRY_SYMBOL);
    }
out:
    if (status == ATTUNE_OK) {
        *loaded = *function = module;
        return ATTUNE_OK;
    }
    if (module->library != NULL) {
        library_close(module);
    } else if (module->file >= 0) {
        close(module->file);
    }
    free(module);
    return status;
}

static attune_status host_unload(const struct driver *driver, int ordinal, driver_module loaded, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    struct host_module *module = loaded;
    if (module != NULL) {
        library_close(module);
        free(module);
    }
    return ATTUNE_OK;
}

static attune_status host_run(const struct driver *driver, int ordinal, const struct driver_launch *launch,
                              driver_stream stream, struct error *error)
{
    (void)driver, (void)ordinal, (void)stream;
    const struct host_module *module = launch->function;
    const struct resources *resources = &module->resources;
    if (resources->max_threads > 0 && launch->threads != (uint32_t)resources->max_threads) {
        return error_set(error, ATTUNE_INVALID, "host: kernel %s was made for blocks of %d threads, not %u",
                         resources->kernel, resources->max_threads, launch->threads);
    }
    if (launch->argument_bytes < (uint32_t)resources->argument_bytes) {
        return error_set(error, ATTUNE_INVALID, "host: kernel %s takes %d bytes of arguments, not %u",
                         resources->kernel, resources->argument_bytes, launch->argument_bytes);
    }
    struct host_launch run = {
        .entry = module->entry,
        .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
        .threads = launch->threads,
        .wave = (uint32_t)resources->wave_size,
        .arguments = launch->arguments,
        .trace = host_device_trace(),
        .target = resources->target,
    };
    attune_status status = host_device_schedule(&run.schedule, error);
    if (status == ATTUNE_OK) {
        status = host_device_run(&run, error);
    }
    return status == ATTUNE_OK ? status : error_prefix(error, "kernel %s", resources->kernel);
}

/* ------------------------------------------------------------------------------------------------ streams and events
 */

static char only_stream; /* its address is every stream */

static attune_status host_stream_create(const struct driver *driver, int ordinal, driver_stream *stream,
                                        struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    *stream = &only_stream;
    return ATTUNE_OK;
}

static attune_status host_stream_nothing(const struct driver *driver, int ordinal, driver_stream stream,
                                         struct error *error)
{
    (void)driver, (void)ordinal, (void)stream, (void)error;
    return ATTUNE_OK;
}

static attune_status host_event_create(const struct driver *driver, int ordinal, driver_event *event,
                                       struct error *error)
{
    (void)driver, (void)ordinal;
    *event = calloc(1, sizeof(double));
    return *event != NULL ? ATTUNE_OK : error_no_memory(error);
}

static attune_status host_event_destroy(const struct driver *driver, int ordinal, driver_event event,
                                        struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    free(event);
    return ATTUNE_OK;
}

static attune_status host_event_record(const struct driver *driver, int ordinal, driver_event event,
                                       driver_stream stream, struct error *error)
{
    (void)driver, (void)ordinal, (void)stream, (void)error;
    *(double *)event = clock_seconds();
    return ATTUNE_OK;
}

static attune_status host_event_elapsed(const struct driver *driver, int ordinal, driver_event begin, driver_event end,
                                        double *milliseconds, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    *milliseconds = (*(double *)end - *(double *)begin) * 1e3;
    return ATTUNE_OK;
}

static const struct driver host_driver = {
    .name = "host",
    .count = host_count,
    .describe = host_describe,
    .allocate = host_allocate,
    .release = host_release,
    .copy_in = host_copy_in,
    .copy_out = host_copy_out,
    .fill = host_fill,
    .load = host_load,
    .unload = host_unload,
    .launch = host_run,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_nothing,
    .synchronize = host_stream_nothing,
    .event_create = host_event_create,
    .event_destroy = host_event_destroy,
    .event_record = host_event_record,
    .event_elapsed = host_event_elapsed,
};

attune_status driver_host(const struct driver **driver, struct error *error)
{
    (void)error;
    *driver = &host_driver;
    return ATTUNE_OK;
}
