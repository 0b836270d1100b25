/* driver_hip.c - AMD through libamdhip64, loaded at run time.
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
#include "runtime/driver_library.h"
#include "runtime/driver_tables.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int hip_result;

enum {
    HIP_SUCCESS = 0,
    HIP_OUT_OF_MEMORY = 2,
    HIP_NOT_INITIALIZED = 3,
    HIP_INSUFFICIENT_DRIVER = 35,
    HIP_NO_DEVICE = 100,
    HIP_INVALID_DEVICE = 101
};
enum {
    HIP_L2_CACHE_SIZE = 19,
    HIP_MAX_THREADS_PER_BLOCK = 56,
    HIP_MULTIPROCESSOR_COUNT = 63,
    HIP_MAX_SHARED_MEMORY_PER_BLOCK = 74,
    HIP_WARP_SIZE = 87
};
enum { HIP_FUNC_SHARED_SIZE_BYTES = 1 };
enum { HIP_STREAM_NON_BLOCKING = 1, HIP_CAPTURE_THREAD_LOCAL = 1, HIP_CAPTURE_RELAXED = 2 };
enum { HIP_FIRST_VERSION = 40300000 }; /* major * 10^7 + minor * 10^5 + patch */
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)
#define HIP_LAUNCH_PARAM_END ((void *)3)

enum { PROPERTIES_BYTES = 8192, NAME_BYTES = 256, ARCH_OFFSET_R0600 = 1160, ARCH_OFFSET_OLD = 396 };

struct hip_functions {
    hip_result (*init)(unsigned flags);
    hip_result (*runtime_version)(int *version);
    const char *(*error_name)(hip_result code);
    const char *(*error_string)(hip_result code);
    hip_result (*device_count)(int *count);
    hip_result (*properties_r0600)(void *properties, int device);
    hip_result (*properties_old)(void *properties, int device);
    hip_result (*device_attribute)(int *value, int attribute, int device);
    hip_result (*device_memory)(size_t *bytes, int device);
    hip_result (*device_current)(int *device);
    hip_result (*device_select)(int device);
    hip_result (*memory_info)(size_t *free_bytes, size_t *total_bytes);
    hip_result (*memory_allocate)(void **pointer, size_t bytes);
    hip_result (*memory_free)(void *pointer);
    hip_result (*copy_in)(void *device, void *host, size_t bytes);
    hip_result (*copy_out)(void *host, void *device, size_t bytes);
    hip_result (*fill)(void *device, unsigned char value, size_t count);
    hip_result (*module_load)(void **module, const void *image);
    hip_result (*module_unload)(void *module);
    hip_result (*module_function)(void **function, void *module, const char *name);
    hip_result (*function_get)(int *value, int attribute, void *function);
    hip_result (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters,
                         void **extra);
    hip_result (*stream_create)(void **stream, unsigned flags);
    hip_result (*stream_destroy)(void *stream);
    hip_result (*stream_synchronize)(void *stream);
    hip_result (*event_create)(void **event, unsigned flags);
    hip_result (*event_destroy)(void *event);
    hip_result (*event_record)(void *event, void *stream);
    hip_result (*event_synchronize)(void *event);
    hip_result (*event_elapsed)(float *milliseconds, void *begin, void *end);
    hip_result (*capture_begin)(void *stream, int mode);
    hip_result (*capture_end)(void *stream, void **graph);
    hip_result (*capture_mode)(int *mode);
    hip_result (*graph_instantiate)(void **executable, void *graph, unsigned long long flags);
    hip_result (*graph_destroy)(void *graph);
    hip_result (*graph_launch)(void *executable, void *stream);
    hip_result (*graph_executable_destroy)(void *executable);
};

#define REQUIRED(member, name)                                                                                         \
    {                                                                                                                  \
        offsetof(struct hip_functions, member), false,                                                                 \
        {                                                                                                              \
            name                                                                                                       \
        }                                                                                                              \
    }
#define OPTIONAL(member, name)                                                                                         \
    {                                                                                                                  \
        offsetof(struct hip_functions, member), true,                                                                  \
        {                                                                                                              \
            name                                                                                                       \
        }                                                                                                              \
    }
static const struct driver_symbol hip_symbols[] = {
    REQUIRED(init, "hipInit"),
    REQUIRED(runtime_version, "hipRuntimeGetVersion"),
    REQUIRED(error_name, "hipGetErrorName"),
    REQUIRED(error_string, "hipGetErrorString"),
    REQUIRED(device_count, "hipGetDeviceCount"),
    OPTIONAL(properties_r0600, "hipGetDevicePropertiesR0600"),
    OPTIONAL(properties_old, "hipGetDeviceProperties"),
    REQUIRED(device_attribute, "hipDeviceGetAttribute"),
    REQUIRED(device_memory, "hipDeviceTotalMem"),
    REQUIRED(device_current, "hipGetDevice"),
    REQUIRED(device_select, "hipSetDevice"),
    REQUIRED(memory_info, "hipMemGetInfo"),
    REQUIRED(memory_allocate, "hipMalloc"),
    REQUIRED(memory_free, "hipFree"),
    REQUIRED(copy_in, "hipMemcpyHtoD"),
    REQUIRED(copy_out, "hipMemcpyDtoH"),
    REQUIRED(fill, "hipMemsetD8"),
    REQUIRED(module_load, "hipModuleLoadData"),
    REQUIRED(module_unload, "hipModuleUnload"),
    REQUIRED(module_function, "hipModuleGetFunction"),
    OPTIONAL(function_get, "hipFuncGetAttribute"),
    REQUIRED(launch, "hipModuleLaunchKernel"),
    REQUIRED(stream_create, "hipStreamCreateWithFlags"),
    REQUIRED(stream_destroy, "hipStreamDestroy"),
    REQUIRED(stream_synchronize, "hipStreamSynchronize"),
    REQUIRED(event_create, "hipEventCreateWithFlags"),
    REQUIRED(event_destroy, "hipEventDestroy"),
    REQUIRED(event_record, "hipEventRecord"),
    REQUIRED(event_synchronize, "hipEventSynchronize"),
    REQUIRED(event_elapsed, "hipEventElapsedTime"),
    REQUIRED(capture_begin, "hipStreamBeginCapture"),
    REQUIRED(capture_end, "hipStreamEndCapture"),
    OPTIONAL(capture_mode, "hipThreadExchangeStreamCaptureMode"), /* since 5.0 */
    OPTIONAL(graph_instantiate, "hipGraphInstantiateWithFlags"),  /* since 4.5 */
    REQUIRED(graph_destroy, "hipGraphDestroy"),
    REQUIRED(graph_launch, "hipGraphLaunch"),
    REQUIRED(graph_executable_destroy, "hipGraphExecDestroy"),
};
#undef REQUIRED
#undef OPTIONAL

/* Written once by hip_start, then read only. */
static struct {
    pthread_once_t once;
    struct error error; /* status ATTUNE_OK when the driver can be used */
    struct hip_functions hip;
    int device_count;
    char version[32]; /* "HIP 5.2.21153" */
} state = {.once = PTHREAD_ONCE_INIT};

struct hip_module {
    void *module;
    void *function;
    char kernel[LAUNCH_NAME_BYTES];
};

/* ------------------------------------------------------------------------------------------------ errors and start */

static attune_status hip_status(hip_result code)
{
    switch (code) {
    case HIP_OUT_OF_MEMORY:
        return ATTUNE_NO_MEMORY;
    case HIP_NOT_INITIALIZED:
    case HIP_INSUFFICIENT_DRIVER:
    case HIP_NO_DEVICE:
    case HIP_INVALID_DEVICE:
        return ATTUNE_NO_DEVICE;
    default:
        return ATTUNE_DEVICE_FAILED;
    }
}

/* "what: hipErrorX: text (number)" */
__attribute__((format(printf, 3, 4))) static attune_status hip_failed(struct error *error, hip_result code,
                                                                      const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const char *name = state.hip.error_name(code), *text = state.hip.error_string(code);
    return error_set(error, hip_status(code), "%s: %s: %s (%d)", what, name ? name : "unknown error",
                     text ? text : "no text", code);
}

static attune_status hip_result_of(struct error *error, hip_result code, const char *what, int ordinal)
{
    return code == HIP_SUCCESS ? ATTUNE_OK : hip_failed(error, code, "%s on hip:%d", what, ordinal);
}

/* what the kernel driver has to say when the library sees no device */
static const char *kernel_driver_hint(void)
{
    if (access("/dev/kfd", F_OK) != 0) {
        return "; /dev/kfd is not there: the amdgpu kernel driver is not loaded, or the container has no access to it";
    }
    if (access("/dev/kfd", R_OK | W_OK) != 0) {
        return "; /dev/kfd may not be opened by this user: join the group render";
    }
    return "";
}

static void hip_start(void)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
                                        NULL};
    struct error *error = &state.error;
    void *library;
    char path[256];
    int version = 0;
    error->status = ATTUNE_OK;
    if (driver_library_open("ATTUNE_HIP_LIBRARY", names, &library, path, sizeof path, error) != ATTUNE_OK ||
        driver_library_resolve(library, path, hip_symbols, sizeof hip_symbols / sizeof hip_symbols[0], &state.hip,
                               error) != ATTUNE_OK) {
        return;
    }
    if (state.hip.properties_r0600 == NULL && state.hip.properties_old == NULL) {
        error_set(error, ATTUNE_NO_DEVICE, "%s has no hipGetDeviceProperties of a known layout", path);
        return;
    }
    hip_result code = state.hip.init(0);
    if (code == HIP_SUCCESS) {
        code = state.hip.device_count(&state.device_count);
    }
    if (code != HIP_SUCCESS || state.device_count == 0) {
        code = code == HIP_SUCCESS ? HIP_NO_DEVICE : code;
        hip_failed(error, code, "hipInit of %s", path);
        size_t used = strlen(error->message);
        snprintf(error->message + used, sizeof error->message - used, "%s", kernel_driver_hint());
        error->status = ATTUNE_NO_DEVICE; /* whatever keeps the driver from starting */
        return;
    }
    code = state.hip.runtime_version(&version);
    if (code == HIP_SUCCESS && version >= 1000 && version < HIP_FIRST_VERSION) {
        error_set(error, ATTUNE_NO_DEVICE, "%s is version %d; HIP 4.3 (%d) is the oldest that works", path, version,
                  HIP_FIRST_VERSION);
        return;
    }
    snprintf(state.version, sizeof state.version, "HIP %d.%d.%d", version / 10000000, version / 100000 % 100,
             version % 100000);
}

/* ------------------------------------------------------------------------------------------------ devices */

static attune_status enter(int ordinal, int *previous, struct error *error)
{
    if (ordinal < 0 || ordinal >= state.device_count) {
        return error_set(error, ATTUNE_NO_DEVICE, "hip:%d is not here; there are devices 0 to %d", ordinal,
                         state.device_count - 1);
    }
    *previous = ordinal;
    hip_result code = state.hip.device_current(previous);
    if (code == HIP_SUCCESS && *previous != ordinal) {
        code = state.hip.device_select(ordinal);
    }
    return code == HIP_SUCCESS ? ATTUNE_OK : hip_failed(error, code, "selecting hip:%d", ordinal);
}

static void leave(int ordinal, int previous)
{
    if (previous != ordinal) {
        state.hip.device_select(previous);
    }
}

static attune_status hip_count(const struct driver *driver, int *count, struct error *error)
{
    (void)driver, (void)error;
    *count = state.device_count;
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
    bool r0600 = state.hip.properties_r0600 != NULL;
    hip_result code =
        r0600 ? state.hip.properties_r0600(properties, ordinal) : state.hip.properties_old(properties, ordinal);
    const char *processor = code == HIP_SUCCESS ? find_processor(properties, r0600) : NULL;
    if (code != HIP_SUCCESS) {
        status = hip_failed(error, code, "hipGetDeviceProperties of hip:%d", ordinal);
    } else if (processor == NULL) {
        status = error_set(error, ATTUNE_UNSUPPORTED, "hip:%d: %s tells no gfx name in its device properties", ordinal,
                           state.version);
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
    attune_status status = enter(ordinal, &previous, error);
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
        code = state.hip.device_attribute(facts[i].value, facts[i].attribute, ordinal);
    }
    if (code == HIP_SUCCESS) {
        code = state.hip.device_memory(&memory_bytes, ordinal);
    }
    if (code == HIP_SUCCESS) {
        code = state.hip.memory_info(&available, &total);
    }
    if (code != HIP_SUCCESS) {
        status = hip_failed(error, code, "reading the properties of hip:%d", ordinal);
        goto out;
    }
    snprintf(device->driver_version, sizeof device->driver_version, "%s", state.version);
    device->shared_bytes = (uint64_t)shared;
    device->memory_bytes = memory_bytes;
    device->memory_free_bytes = available;
    device->cache_bytes = (uint64_t)cache;
    /* the dispatch packet counts work-items in 32 bits a dimension, the runtime in 32 bits a launch */
    device->grid = (struct grid_limits){.blocks = {0x7fffffff, 65535, 65535}, .work_items = UINT64_C(1) << 32};
out:
    leave(ordinal, previous);
    return status;
}

/* ------------------------------------------------------------------------------------------------ memory */

static attune_status hip_allocate(const struct driver *driver, int ordinal, size_t bytes, void **pointer,
                                  struct error *error)
{
    (void)driver;
    int previous;
    *pointer = NULL;
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = state.hip.memory_allocate(pointer, bytes ? bytes : 1);
    leave(ordinal, previous);
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
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = state.hip.memory_free(pointer);
    leave(ordinal, previous);
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
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = state.hip.copy_in(device, (void *)(uintptr_t)host, bytes);
    if (code == HIP_SUCCESS) {
        code = state.hip.stream_synchronize(NULL);
    }
    leave(ordinal, previous);
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
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = state.hip.copy_out(host, (void *)(uintptr_t)device, bytes);
    leave(ordinal, previous);
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
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = state.hip.fill(device, value, bytes);
    if (code == HIP_SUCCESS) {
        code = state.hip.stream_synchronize(NULL);
    }
    leave(ordinal, previous);
    return code == HIP_SUCCESS ? ATTUNE_OK
                               : hip_failed(error, code, "hipMemsetD8 of %zu bytes on hip:%d", bytes, ordinal);
}

/* ------------------------------------------------------------------------------------------------ modules and launches
 */

static attune_status check_shared(int ordinal, const struct hip_module *module, uint32_t dynamic_bytes,
                                  struct error *error)
{
    int fixed = 0, limit = 0;
    if (state.hip.function_get == NULL ||
        state.hip.function_get(&fixed, HIP_FUNC_SHARED_SIZE_BYTES, module->function) != HIP_SUCCESS) {
        fixed = 0;
    }
    hip_result code = state.hip.device_attribute(&limit, HIP_MAX_SHARED_MEMORY_PER_BLOCK, ordinal);
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
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct hip_module *module = calloc(1, sizeof *module);
    if (module == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    snprintf(module->kernel, sizeof module->kernel, "%s", kernel);
    code = state.hip.module_load(&module->module, object);
    if (code != HIP_SUCCESS) {
        module->module = NULL;
        status = hip_failed(error, code, "hipModuleLoadData of an object of %zu bytes on hip:%d", bytes, ordinal);
        goto out;
    }
    code = state.hip.module_function(&module->function, module->module, kernel);
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
            state.hip.module_unload(module->module);
        }
        free(module);
    }
    leave(ordinal, previous);
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
    attune_status status = enter(ordinal, &previous, error);
    if (status == ATTUNE_OK) {
        hip_result code = state.hip.module_unload(module->module);
        leave(ordinal, previous);
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
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    size_t bytes = launch->argument_bytes;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)launch->arguments,
                     HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes, HIP_LAUNCH_PARAM_END};
    hip_result code = state.hip.launch(module->function, launch->grid[0], launch->grid[1], launch->grid[2],
                                       launch->threads, 1, 1, launch->dynamic_shared_bytes, stream, NULL, extra);
    leave(ordinal, previous);
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

/* ------------------------------------------------------------------------------------------------ streams and events
 */

static attune_status hip_stream_create(const struct driver *driver, int ordinal, driver_stream *stream,
                                       struct error *error)
{
    (void)driver;
    int previous;
    *stream = NULL;
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = state.hip.stream_create(stream, HIP_STREAM_NON_BLOCKING);
    leave(ordinal, previous);
    return hip_result_of(error, code, "hipStreamCreate", ordinal);
}

static attune_status hip_stream_destroy(const struct driver *driver, int ordinal, driver_stream stream,
                                        struct error *error)
{
    (void)driver;
    return hip_result_of(error, state.hip.stream_destroy(stream), "hipStreamDestroy", ordinal);
}

static attune_status hip_synchronize(const struct driver *driver, int ordinal, driver_stream stream,
                                     struct error *error)
{
    (void)driver;
    int previous; /* the NULL stream is the current device's */
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = state.hip.stream_synchronize(stream);
    leave(ordinal, previous);
    return hip_result_of(error, code, "hipStreamSynchronize", ordinal);
}

static attune_status hip_event_create(const struct driver *driver, int ordinal, driver_event *event,
                                      struct error *error)
{
    (void)driver;
    int previous;
    *event = NULL;
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = state.hip.event_create(event, 0);
    leave(ordinal, previous);
    return hip_result_of(error, code, "hipEventCreate", ordinal);
}

static attune_status hip_event_destroy(const struct driver *driver, int ordinal, driver_event event,
                                       struct error *error)
{
    (void)driver;
    return hip_result_of(error, state.hip.event_destroy(event), "hipEventDestroy", ordinal);
}

static attune_status hip_event_record(const struct driver *driver, int ordinal, driver_event event,
                                      driver_stream stream, struct error *error)
{
    (void)driver;
    int previous;
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = state.hip.event_record(event, stream);
    leave(ordinal, previous);
    return hip_result_of(error, code, "hipEventRecord", ordinal);
}

static attune_status hip_event_elapsed(const struct driver *driver, int ordinal, driver_event begin, driver_event end,
                                       double *milliseconds, struct error *error)
{
    (void)driver;
    float elapsed = 0;
    hip_result code = state.hip.event_synchronize(end);
    if (code == HIP_SUCCESS) {
        code = state.hip.event_elapsed(&elapsed, begin, end);
    }
    *milliseconds = elapsed;
    return hip_result_of(error, code, "hipEventElapsedTime", ordinal);
}

/* ------------------------------------------------------------------------------------------------ graphs */

static attune_status hip_graph_begin(const struct driver *driver, int ordinal, driver_stream stream,
                                     struct error *error)
{
    (void)driver;
    return hip_result_of(error, state.hip.capture_begin(stream, HIP_CAPTURE_THREAD_LOCAL), "hipStreamBeginCapture",
                         ordinal);
}

static attune_status hip_graph_end(const struct driver *driver, int ordinal, driver_stream stream, driver_graph *graph,
                                   struct error *error)
{
    (void)driver;
    int previous;
    void *captured = NULL;
    *graph = NULL;
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = state.hip.capture_end(stream, &captured);
    if (code != HIP_SUCCESS) {
        status = hip_failed(error, code, "hipStreamEndCapture on hip:%d", ordinal);
    } else if (state.hip.graph_instantiate == NULL) {
        status = error_set(error, ATTUNE_UNSUPPORTED, "hip:%d: %s cannot instantiate graphs; HIP 4.5 or later can",
                           ordinal, state.version);
    } else {
        code = state.hip.graph_instantiate(graph, captured, 0);
        status = hip_result_of(error, code, "hipGraphInstantiateWithFlags", ordinal);
    }
    if (captured != NULL) {
        state.hip.graph_destroy(captured);
    }
    leave(ordinal, previous);
    return status;
}

static attune_status hip_graph_replay(const struct driver *driver, int ordinal, driver_graph graph,
                                      driver_stream stream, struct error *error)
{
    (void)driver;
    int previous;
    attune_status status = enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = state.hip.graph_launch(graph, stream);
    leave(ordinal, previous);
    return hip_result_of(error, code, "hipGraphLaunch", ordinal);
}

static attune_status hip_graph_destroy(const struct driver *driver, int ordinal, driver_graph graph,
                                       struct error *error)
{
    (void)driver;
    return hip_result_of(error, state.hip.graph_executable_destroy(graph), "hipGraphExecDestroy", ordinal);
}

static void hip_relax_capture(const struct driver *driver, bool begin)
{
    (void)driver;
    static _Thread_local int depth;
    static _Thread_local int previous; /* the caller's mode; valid while depth > 0 */
    if (state.hip.capture_mode == NULL) {
        return; /* such releases know no capture that another thread could break */
    }
    int mode = begin ? HIP_CAPTURE_RELAXED : previous;
    if (begin ? depth++ == 0 : --depth == 0) {
        state.hip.capture_mode(&mode);
        previous = mode;
    }
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
};

attune_status driver_hip(const struct driver **driver, struct error *error)
{
    pthread_once(&state.once, hip_start);
    if (state.error.status != ATTUNE_OK) {
        return error_set(error, state.error.status, "%s", state.error.message);
    }
    *driver = &hip_driver;
    return ATTUNE_OK;
}
