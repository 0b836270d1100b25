/* driver_cuda.c - NVIDIA through libcuda's driver interface: devices, memory, modules, launches.
 *
 * A module remembers the context that it was loaded in, and a launch runs in that.
 */
#include "runtime/driver_cuda.h"
#include "runtime/driver_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CU_LAUNCH_PARAM_END ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)

struct cuda_module {
    cu_module module;
    cu_function function;
    cu_context context; /* in which it was loaded */
    char kernel[LAUNCH_NAME_BYTES];
};

/* ------------------------------------------------------------------------------------------------ devices */

static attune_status cuda_count(const struct driver *driver, int *count, struct error *error)
{
    (void)driver, (void)error;
    *count = cuda_device_count();
    return ATTUNE_OK;
}

/* Free memory without making a context when one can do without. */
static uint64_t free_memory(int ordinal, void *nvml_device)
{
    size_t available = 0, total = 0;
    struct nvml_memory memory;
    if (!cuda_has_primary(ordinal) && nvml_device != NULL && cuda_nvml()->memory(nvml_device, &memory) == 0) {
        return memory.free;
    }
    bool pushed;
    if (cuda_enter(ordinal, &pushed, NULL) != ATTUNE_OK) {
        return 0;
    }
    cu_result code = cuda_api()->memory_info(&available, &total);
    cuda_leave(pushed);
    return code == CU_SUCCESS ? available : 0;
}

static void describe_version(struct driver_device *device)
{
    int version = 0;
    char release[40];
    cuda_api()->driver_version(&version);
    int used = snprintf(device->driver_version, sizeof device->driver_version, "CUDA %d.%d", version / 1000,
                        version % 1000 / 10);
    if (cuda_nvml() != NULL && cuda_nvml()->driver_version(release, sizeof release) == 0) {
        snprintf(device->driver_version + used, sizeof device->driver_version - (size_t)used, " (%.*s)",
                 (int)sizeof release - 1, release);
    }
}

static attune_status cuda_describe(const struct driver *driver, int ordinal, struct driver_device *device,
                                   struct error *error)
{
    (void)driver;
    attune_status status = cuda_ordinal(ordinal, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    memset(device, 0, sizeof *device);
    device->ordinal = ordinal;
    cu_device handle;
    cu_result code = cuda_api()->device_get(&handle, ordinal);
    size_t memory_bytes = 0;
    if (code == CU_SUCCESS) {
        code = cuda_api()->device_name(device->name, sizeof device->name, handle);
    }
    if (code == CU_SUCCESS) {
        code = cuda_api()->device_memory(&memory_bytes, handle);
    }
    int major = 0, minor = 0, shared = 0, cache = 0, mode = 0, grid[3] = {0};
    const struct {
        int attribute;
        int *value;
    } facts[] = {
        {CU_COMPUTE_CAPABILITY_MAJOR, &major},
        {CU_COMPUTE_CAPABILITY_MINOR, &minor},
        {CU_MULTIPROCESSOR_COUNT, &device->compute_units},
        {CU_WARP_SIZE, &device->wave_size},
        {CU_MAX_THREADS_PER_BLOCK, &device->max_threads},
        {CU_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared},
        {CU_L2_CACHE_SIZE, &cache},
        {CU_COMPUTE_MODE, &mode},
        {CU_MAX_GRID_DIM_X, &grid[0]},
        {CU_MAX_GRID_DIM_Y, &grid[1]},
        {CU_MAX_GRID_DIM_Z, &grid[2]},
    };
    for (size_t i = 0; i < sizeof facts / sizeof facts[0] && code == CU_SUCCESS; i++) {
        code = cuda_api()->device_attribute(facts[i].value, facts[i].attribute, handle);
    }
    if (code != CU_SUCCESS) {
        return cuda_failed(error, code, "reading the properties of cuda:%d", ordinal);
    }
    if (shared == 0) {
        cuda_api()->device_attribute(&shared, CU_MAX_SHARED_MEMORY_PER_BLOCK, handle);
    }
    target_from_compute_capability(major, minor, &device->target);
    describe_version(device);
    device->shared_bytes = (uint64_t)shared;
    device->memory_bytes = memory_bytes;
    device->cache_bytes = (uint64_t)cache;
    device->sharing = mode == CU_COMPUTE_MODE_EXCLUSIVE_PROCESS ? DRIVER_EXCLUSIVE
                      : mode == CU_COMPUTE_MODE_PROHIBITED      ? DRIVER_PROHIBITED
                                                                : DRIVER_SHARED;
    device->grid = (struct grid_limits){.blocks = {(uint64_t)grid[0], (uint64_t)grid[1], (uint64_t)grid[2]}};
    void *nvml_device = NULL;
    char bus[32];
    unsigned milliwatts;
    if (cuda_nvml() == NULL || cuda_api()->device_bus(bus, sizeof bus, handle) != CU_SUCCESS ||
        cuda_nvml()->device_by_bus(bus, &nvml_device) != 0) {
        nvml_device = NULL;
    }
    if (nvml_device != NULL && cuda_nvml()->power_limit(nvml_device, &milliwatts) == 0) {
        device->power_limit_watts = (int32_t)(milliwatts / 1000);
    }
    device->memory_free_bytes = free_memory(ordinal, nvml_device);
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ memory */

static cu_pointer device_pointer(const void *pointer)
{
    return (cu_pointer)(uintptr_t)pointer;
}

static attune_status cuda_allocate(const struct driver *driver, int ordinal, size_t bytes, void **pointer,
                                   struct error *error)
{
    (void)driver;
    *pointer = NULL;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_pointer memory = 0;
    cu_result code = cuda_api()->memory_allocate(&memory, bytes ? bytes : 1);
    cuda_leave(pushed);
    if (code != CU_SUCCESS) {
        return cuda_failed(error, code, "cuMemAlloc of %zu bytes on cuda:%d", bytes, ordinal);
    }
    *pointer = (void *)(uintptr_t)memory;
    return ATTUNE_OK;
}

static attune_status cuda_release(const struct driver *driver, int ordinal, void *pointer, struct error *error)
{
    (void)driver;
    bool pushed;
    if (pointer == NULL) {
        return ATTUNE_OK;
    }
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->memory_free(device_pointer(pointer));
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuMemFree on cuda:%d", ordinal);
}

/* Copies from pageable memory may return before the device has all of it, and fills are asynchronous: hence the wait.
 */
static attune_status cuda_copy_in(const struct driver *driver, int ordinal, void *device, const void *host,
                                  size_t bytes, struct error *error)
{
    (void)driver;
    bool pushed;
    if (bytes == 0) {
        return ATTUNE_OK;
    }
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->copy_in(device_pointer(device), host, bytes);
    if (code == CU_SUCCESS) {
        code = cuda_api()->stream_synchronize(NULL);
    }
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK
                              : cuda_failed(error, code, "cuMemcpyHtoD of %zu bytes to cuda:%d", bytes, ordinal);
}

static attune_status cuda_copy_out(const struct driver *driver, int ordinal, void *host, const void *device,
                                   size_t bytes, struct error *error)
{
    (void)driver;
    bool pushed;
    if (bytes == 0) {
        return ATTUNE_OK;
    }
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->copy_out(host, device_pointer(device), bytes);
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK
                              : cuda_failed(error, code, "cuMemcpyDtoH of %zu bytes from cuda:%d", bytes, ordinal);
}

static attune_status cuda_fill(const struct driver *driver, int ordinal, void *device, uint8_t value, size_t bytes,
                               struct error *error)
{
    (void)driver;
    bool pushed;
    if (bytes == 0) {
        return ATTUNE_OK;
    }
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->fill(device_pointer(device), value, bytes);
    if (code == CU_SUCCESS) {
        code = cuda_api()->stream_synchronize(NULL);
    }
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK
                              : cuda_failed(error, code, "cuMemsetD8 of %zu bytes on cuda:%d", bytes, ordinal);
}

/* ------------------------------------------------------------------------------------------------ modules and launches
 */

/* Dynamic shared memory beyond what a kernel has by default must be asked for; beyond the device's limit it is refused.
 */
static attune_status allow_shared(int ordinal, const struct cuda_module *module, uint32_t dynamic_bytes,
                                  struct error *error)
{
    int fixed = 0, ordinary = 0, limit = 0;
    cu_device device;
    cu_result code = cuda_api()->device_get(&device, ordinal);
    if (code == CU_SUCCESS) {
        code = cuda_api()->function_get(&fixed, CU_FUNC_SHARED_SIZE_BYTES, module->function);
    }
    if (code == CU_SUCCESS) {
        code = cuda_api()->device_attribute(&ordinary, CU_MAX_SHARED_MEMORY_PER_BLOCK, device);
    }
    if (code == CU_SUCCESS) {
        code = cuda_api()->device_attribute(&limit, CU_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
    }
    if (code != CU_SUCCESS) {
        return cuda_failed(error, code, "reading the shared memory of kernel %s", module->kernel);
    }
    uint64_t total = (uint64_t)fixed + dynamic_bytes;
    if (total <= (uint64_t)ordinary) {
        return ATTUNE_OK;
    }
    if (total > (uint64_t)limit) {
        return error_set(error, ATTUNE_INVALID, "kernel %s wants %d + %u bytes of shared memory; cuda:%d allows %d",
                         module->kernel, fixed, dynamic_bytes, ordinal, limit);
    }
    code = cuda_api()->function_set(module->function, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)dynamic_bytes);
    return code == CU_SUCCESS ? ATTUNE_OK
                              : cuda_failed(error, code, "allowing kernel %s %u bytes of dynamic shared memory",
                                            module->kernel, dynamic_bytes);
}

static attune_status cuda_load(const struct driver *driver, int ordinal, const void *object, size_t bytes,
                               const char *kernel, uint32_t dynamic_shared_bytes, driver_module *loaded,
                               driver_function *function, struct error *error)
{
    (void)driver;
    *loaded = NULL;
    *function = NULL;
    /* the driver reads as far as the object's own headers say: they must be there */
    if (bytes < 64 || memcmp(object, "\177ELF", 4) != 0) {
        return error_set(error, ATTUNE_CORRUPT, "cuda: the object of %zu bytes is not an ELF file", bytes);
    }
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code;
    struct cuda_module *module = calloc(1, sizeof *module);
    if (module == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    snprintf(module->kernel, sizeof module->kernel, "%s", kernel);
    code = cuda_api()->context_current(&module->context);
    if (code == CU_SUCCESS) {
        code = cuda_api()->module_load(&module->module, object);
    }
    if (code != CU_SUCCESS) {
        status = cuda_failed(error, code, "cuModuleLoadData of an object of %zu bytes on cuda:%d", bytes, ordinal);
        goto out;
    }
    code = cuda_api()->module_function(&module->function, module->module, kernel);
    if (code != CU_SUCCESS) {
        status = cuda_failed(error, code, "cuModuleGetFunction of kernel %s", kernel);
        goto out;
    }
    status = allow_shared(ordinal, module, dynamic_shared_bytes, error);
out:
    if (status == ATTUNE_OK) {
        *loaded = *function = module;
    } else if (module != NULL) {
        if (module->module != NULL) {
            cuda_api()->module_unload(module->module);
        }
        free(module);
    }
    cuda_leave(pushed);
    return status;
}

static attune_status cuda_unload(const struct driver *driver, int ordinal, driver_module loaded, struct error *error)
{
    (void)driver, (void)ordinal;
    struct cuda_module *module = loaded;
    bool pushed;
    if (module == NULL) {
        return ATTUNE_OK;
    }
    attune_status status = cuda_enter_context(module->context, &pushed, error);
    if (status == ATTUNE_OK) {
        cu_result code = cuda_api()->module_unload(module->module);
        cuda_leave(pushed);
        if (code != CU_SUCCESS) {
            status = cuda_failed(error, code, "cuModuleUnload of kernel %s", module->kernel);
        }
    }
    free(module);
    return status;
}

static attune_status cuda_launch(const struct driver *driver, int ordinal, const struct driver_launch *launch,
                                 driver_stream stream, struct error *error)
{
    (void)driver;
    const struct cuda_module *module = launch->function;
    bool pushed;
    attune_status status = cuda_enter_context(module->context, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    size_t bytes = launch->argument_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)launch->arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};
    cu_result code = cuda_api()->launch(module->function, launch->grid[0], launch->grid[1], launch->grid[2],
                                        launch->threads, 1, 1, launch->dynamic_shared_bytes, stream, NULL, extra);
    cuda_leave(pushed);
    if (code != CU_SUCCESS) {
        return cuda_failed(error, code,
                           "cuLaunchKernel of %s on cuda:%d (grid %u x %u x %u, %u threads, %u bytes of dynamic shared "
                           "memory, %u of arguments)",
                           module->kernel, ordinal, launch->grid[0], launch->grid[1], launch->grid[2], launch->threads,
                           launch->dynamic_shared_bytes, launch->argument_bytes);
    }
    return ATTUNE_OK;
}

static const struct driver cuda_driver = {
    .name = "cuda",
    .count = cuda_count,
    .describe = cuda_describe,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .fill = cuda_fill,
    .load = cuda_load,
    .unload = cuda_unload,
    .launch = cuda_launch,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .synchronize = cuda_synchronize,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_elapsed = cuda_event_elapsed,
    .graph_begin = cuda_graph_begin,
    .graph_end = cuda_graph_end,
    .graph_replay = cuda_graph_replay,
    .graph_destroy = cuda_graph_destroy,
    .relax_capture = cuda_relax_capture,
    .capturing = cuda_capturing,
};

attune_status driver_cuda(const struct driver **driver, struct error *error)
{
    attune_status status = cuda_open(error);
    if (status == ATTUNE_OK) {
        *driver = &cuda_driver;
    }
    return status;
}
