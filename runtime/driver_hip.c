/* driver_hip.c - AMD through libamdhip64: devices, memory, modules, launches.
 *
 * HIP has a current device per thread instead of contexts; each call selects its device and puts the caller's back.
 * Launches go through the module interface, as code objects are raw ELF files.
 *
 * What changed between releases, and how it is met (after the HIP headers of ROCm 5.2, 5.5, 6.x and 7.x):
 *   - hipDeviceProp_t: gcnArchName moved from byte 396 to 1160 in 6.0, where the symbol hipGetDevicePropertiesR0600
 * gives the new layout and hipGetDeviceProperties the old one. Only the name and gcnArchName are read from it.
 *   - numbers come from hipDeviceGetAttribute, whose values are the same since HIP 4.3 (6.0 retired `Name` and `Uuid`
 * in place); before that the enumeration was another one, so older libraries are refused.
 *   - HIP_LAUNCH_PARAM_END is 3, not 0 as in CUDA.
 */
#include "runtime/driver_hip.h"
#include "runtime/driver_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HIP_L2_CACHE_SIZE = 19,
    HIP_MAX_THREADS_PER_BLOCK = 56,
    HIP_MULTIPROCESSOR_COUNT = 63,
    HIP_MAX_SHARED_MEMORY_PER_BLOCK = 74,
    HIP_WARP_SIZE = 87
};
enum { HIP_FUNC_SHARED_SIZE_BYTES = 1 };
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)
#define HIP_LAUNCH_PARAM_END ((void *)3)

enum { PROPERTIES_BYTES = 8192, NAME_BYTES = 256, ARCH_OFFSET_R0600 = 1160, ARCH_OFFSET_OLD = 396 };

struct hip_module {
    void *module;
    void *function;
    char kernel[LAUNCH_NAME_BYTES];
};

/* ------------------------------------------------------------------------------------------------ devices */

static attune_status hip_count(const struct driver *driver, int *count, struct error *error)
{
    (void)driver, (void)error;
    *count = hip_device_count();
    return ATTUNE_OK;
}

static bool is_processor(const char *text)
{
    return strncmp(text, "gfx", 3) == 0 && memchr(text, '\0', TARGET_TEXT_BYTES) != NULL;
}

/* The full target ID. At its place of the layout; else, for a layout that nobody has seen yet, wherever it stands after
 * the name. NULL when there is none. */
static const char *find_processor(const char *properties, bool r0600)
{
    const char *expected = properties + (r0600 ? ARCH_OFFSET_R0600 : ARCH_OFFSET_OLD);
    if (is_processor(expected)) {
        return expected;
    }
    for (size_t i = NAME_BYTES; i + TARGET_TEXT_BYTES < PROPERTIES_BYTES; i++) {
        if (is_processor(properties + i)) {
            return properties + i;
        }
    }
    return NULL;
}

static attune_status hip_describe_target(int ordinal, struct driver_device *device, struct error *error)
{
    char *properties = calloc(1, PROPERTIES_BYTES);
    if (properties == NULL) {
        return error_no_memory(error);
    }
    attune_status status;
    bool r0600 = hip_api()->properties_r0600 != NULL;
    hip_result code =
        r0600 ? hip_api()->properties_r0600(properties, ordinal) : hip_api()->properties_old(properties, ordinal);
    const char *processor = code == HIP_SUCCESS ? find_processor(properties, r0600) : NULL;
    if (code != HIP_SUCCESS) {
        status = hip_failed(error, code, "hipGetDeviceProperties of hip:%d", ordinal);
    } else if (processor == NULL) {
        status = error_set(error, ATTUNE_UNSUPPORTED, "hip:%d: %s tells no gfx name in its device properties", ordinal,
                           hip_version());
    } else {
        properties[NAME_BYTES - 1] = '\0';
        snprintf(device->name, sizeof device->name, "%s", properties);
        status = target_parse(processor, &device->target, error);
        if (device->name[0] == '\0') { /* some releases know no marketing name */
            snprintf(device->name, sizeof device->name, "AMD %s", processor);
        }
    }
    free(properties);
    return status;
}

static attune_status hip_describe(const struct driver *driver, int ordinal, struct driver_device *device,
                                  struct error *error)
{
    (void)driver;
    int previous;
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    memset(device, 0, sizeof *device);
    device->ordinal = ordinal;
    hip_result code = HIP_SUCCESS;
    size_t memory_bytes = 0, available = 0, total = 0;
    int shared = 0, cache = 0;
    const struct {
        int attribute;
        int *value;
    } facts[] = {
        {HIP_MULTIPROCESSOR_COUNT, &device->compute_units},
        {HIP_WARP_SIZE, &device->wave_size},
        {HIP_MAX_THREADS_PER_BLOCK, &device->max_threads},
        {HIP_MAX_SHARED_MEMORY_PER_BLOCK, &shared},
        {HIP_L2_CACHE_SIZE, &cache},
    };
    status = hip_describe_target(ordinal, device, error);
    if (status != ATTUNE_OK) {
        goto out;
    }
    for (size_t i = 0; i < sizeof facts / sizeof facts[0] && code == HIP_SUCCESS; i++) {
        code = hip_api()->device_attribute(facts[i].value, facts[i].attribute, ordinal);
    }
    if (code == HIP_SUCCESS) {
        code = hip_api()->device_memory(&memory_bytes, ordinal);
    }
    if (code == HIP_SUCCESS) {
        code = hip_api()->memory_info(&available, &total);
    }
    if (code != HIP_SUCCESS) {
        status = hip_failed(error, code, "reading the properties of hip:%d", ordinal);
        goto out;
    }
    if (hip_api()->device_pci != NULL &&
        hip_api()->device_pci(device->pci, (int)sizeof device->pci, ordinal) != HIP_SUCCESS) {
        device->pci[0] = '\0'; /* nothing depends on it but what doctor tells */
    }
    device->pci[sizeof device->pci - 1] = '\0';
    snprintf(device->driver_version, sizeof device->driver_version, "%s", hip_version());
    device->shared_bytes = (uint64_t)shared;
    device->memory_bytes = memory_bytes;
    device->memory_free_bytes = available;
    device->cache_bytes = (uint64_t)cache;
    /* the dispatch packet counts work-items in 32 bits a dimension, the runtime in 32 bits a launch */
    device->grid = (struct grid_limits){.blocks = {0x7fffffff, 65535, 65535}, .work_items = UINT64_C(1) << 32};
out:
    hip_leave(ordinal, previous);
    return status;
}

/* ------------------------------------------------------------------------------------------------ memory */

static attune_status hip_allocate(const struct driver *driver, int ordinal, size_t bytes, void **pointer,
                                  struct error *error)
{
    (void)driver;
    int previous;
    *pointer = NULL;
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = hip_api()->memory_allocate(pointer, bytes ? bytes : 1);
    hip_leave(ordinal, previous);
    if (code != HIP_SUCCESS) {
        *pointer = NULL;
        return hip_failed(error, code, "hipMalloc of %zu bytes on hip:%d", bytes, ordinal);
    }
    return ATTUNE_OK;
}

static attune_status hip_release(const struct driver *driver, int ordinal, void *pointer, struct error *error)
{
    (void)driver;
    int previous;
    if (pointer == NULL) {
        return ATTUNE_OK;
    }
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = hip_api()->memory_free(pointer);
    hip_leave(ordinal, previous);
    return hip_result_of(error, code, "hipFree", ordinal);
}

/* fills are asynchronous, and so may be the end of a copy from pageable memory: hence the wait */
static attune_status hip_copy_in(const struct driver *driver, int ordinal, void *device, const void *host, size_t bytes,
                                 struct error *error)
{
    (void)driver;
    int previous;
    if (bytes == 0) {
        return ATTUNE_OK;
    }
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = hip_api()->copy_in(device, (void *)(uintptr_t)host, bytes);
    if (code == HIP_SUCCESS) {
        code = hip_api()->stream_synchronize(NULL);
    }
    hip_leave(ordinal, previous);
    return code == HIP_SUCCESS ? ATTUNE_OK
                               : hip_failed(error, code, "hipMemcpyHtoD of %zu bytes to hip:%d", bytes, ordinal);
}

static attune_status hip_copy_out(const struct driver *driver, int ordinal, void *host, const void *device,
                                  size_t bytes, struct error *error)
{
    (void)driver;
    int previous;
    if (bytes == 0) {
        return ATTUNE_OK;
    }
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = hip_api()->copy_out(host, (void *)(uintptr_t)device, bytes);
    hip_leave(ordinal, previous);
    return code == HIP_SUCCESS ? ATTUNE_OK
                               : hip_failed(error, code, "hipMemcpyDtoH of %zu bytes from hip:%d", bytes, ordinal);
}

static attune_status hip_fill(const struct driver *driver, int ordinal, void *device, uint8_t value, size_t bytes,
                              struct error *error)
{
    (void)driver;
    int previous;
    if (bytes == 0) {
        return ATTUNE_OK;
    }
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = hip_api()->fill(device, value, bytes);
    if (code == HIP_SUCCESS) {
        code = hip_api()->stream_synchronize(NULL);
    }
    hip_leave(ordinal, previous);
    return code == HIP_SUCCESS ? ATTUNE_OK
                               : hip_failed(error, code, "hipMemsetD8 of %zu bytes on hip:%d", bytes, ordinal);
}

/* ------------------------------------------------------------------------------------------------ modules and launches
 */

static attune_status check_shared(int ordinal, const struct hip_module *module, uint32_t dynamic_bytes,
                                  struct error *error)
{
    int fixed = 0, limit = 0;
    if (hip_api()->function_get == NULL ||
        hip_api()->function_get(&fixed, HIP_FUNC_SHARED_SIZE_BYTES, module->function) != HIP_SUCCESS) {
        fixed = 0;
    }
    hip_result code = hip_api()->device_attribute(&limit, HIP_MAX_SHARED_MEMORY_PER_BLOCK, ordinal);
    if (code != HIP_SUCCESS) {
        return hip_failed(error, code, "reading the LDS limit of hip:%d", ordinal);
    }
    if ((uint64_t)fixed + dynamic_bytes > (uint64_t)limit) {
        return error_set(error, ATTUNE_INVALID, "kernel %s wants %d + %u bytes of LDS; hip:%d allows %d",
                         module->kernel, fixed, dynamic_bytes, ordinal, limit);
    }
    return ATTUNE_OK;
}

static attune_status hip_load(const struct driver *driver, int ordinal, const void *object, size_t bytes,
                              const char *kernel, uint32_t dynamic_shared_bytes, driver_module *loaded,
                              driver_function *function, struct error *error)
{
    (void)driver;
    int previous;
    hip_result code;
    *loaded = NULL;
    *function = NULL;
    /* the runtime reads as far as the object's own headers say: they must be there */
    if (bytes < 64 || memcmp(object, "\177ELF", 4) != 0) {
        return error_set(error, ATTUNE_CORRUPT, "hip: the object of %zu bytes is not an ELF file", bytes);
    }
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct hip_module *module = calloc(1, sizeof *module);
    if (module == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    snprintf(module->kernel, sizeof module->kernel, "%s", kernel);
    code = hip_api()->module_load(&module->module, object);
    if (code != HIP_SUCCESS) {
        module->module = NULL;
        status = hip_failed(error, code, "hipModuleLoadData of an object of %zu bytes on hip:%d", bytes, ordinal);
        goto out;
    }
    code = hip_api()->module_function(&module->function, module->module, kernel);
    if (code != HIP_SUCCESS) {
        status = hip_failed(error, code, "hipModuleGetFunction of kernel %s", kernel);
        goto out;
    }
    status = check_shared(ordinal, module, dynamic_shared_bytes, error);
out:
    if (status == ATTUNE_OK) {
        *loaded = *function = module;
    } else if (module != NULL) {
        if (module->module != NULL) {
            hip_api()->module_unload(module->module);
        }
        free(module);
    }
    hip_leave(ordinal, previous);
    return status;
}

static attune_status hip_unload(const struct driver *driver, int ordinal, driver_module loaded, struct error *error)
{
    (void)driver;
    int previous;
    struct hip_module *module = loaded;
    if (module == NULL) {
        return ATTUNE_OK;
    }
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status == ATTUNE_OK) {
        hip_result code = hip_api()->module_unload(module->module);
        hip_leave(ordinal, previous);
        status = hip_result_of(error, code, "hipModuleUnload", ordinal);
    }
    free(module);
    return status;
}

static attune_status hip_launch(const struct driver *driver, int ordinal, const struct driver_launch *launch,
                                driver_stream stream, struct error *error)
{
    (void)driver;
    const struct hip_module *module = launch->function;
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1];
    /* past 2^32 work-items the runtime wraps around and reports success */
    if (blocks > UINT32_MAX || blocks * launch->grid[2] > UINT32_MAX ||
        blocks * launch->grid[2] * launch->threads > UINT32_MAX) {
        return error_set(
            error, ATTUNE_INVALID,
            "kernel %s: grid %u x %u x %u of %u threads has 2^32 work-items or more; a launch on AMD must have "
            "fewer: split the grid",
            module->kernel, launch->grid[0], launch->grid[1], launch->grid[2], launch->threads);
    }
    int previous;
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    size_t bytes = launch->argument_bytes;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)launch->arguments,
                     HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes, HIP_LAUNCH_PARAM_END};
    hip_result code = hip_api()->launch(module->function, launch->grid[0], launch->grid[1], launch->grid[2],
                                        launch->threads, 1, 1, launch->dynamic_shared_bytes, stream, NULL, extra);
    hip_leave(ordinal, previous);
    if (code != HIP_SUCCESS) {
        return hip_failed(
            error, code,
            "hipModuleLaunchKernel of %s on hip:%d (grid %u x %u x %u, %u threads, %u bytes of dynamic LDS, %u "
            "of arguments)",
            module->kernel, ordinal, launch->grid[0], launch->grid[1], launch->grid[2], launch->threads,
            launch->dynamic_shared_bytes, launch->argument_bytes);
    }
    return ATTUNE_OK;
}

static const struct driver hip_driver = {
    .name = "hip",
    .count = hip_count,
    .describe = hip_describe,
    .allocate = hip_allocate,
    .release = hip_release,
    .copy_in = hip_copy_in,
    .copy_out = hip_copy_out,
    .fill = hip_fill,
    .load = hip_load,
    .unload = hip_unload,
    .launch = hip_launch,
    .stream_create = hip_stream_create,
    .stream_destroy = hip_stream_destroy,
    .synchronize = hip_synchronize,
    .event_create = hip_event_create,
    .event_destroy = hip_event_destroy,
    .event_record = hip_event_record,
    .event_elapsed = hip_event_elapsed,
    .graph_begin = hip_graph_begin,
    .graph_end = hip_graph_end,
    .graph_replay = hip_graph_replay,
    .graph_destroy = hip_graph_destroy,
    .relax_capture = hip_relax_capture,
    .capturing = hip_capturing,
};

attune_status driver_hip(const struct driver **driver, struct error *error)
{
    attune_status status = hip_open(error);
    if (status == ATTUNE_OK) {
        *driver = &hip_driver;
    }
    return status;
}
