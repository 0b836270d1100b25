/* driver_cuda.c - NVIDIA through libcuda's driver interface, loaded at run time.
 *
 * Context rule: a call that needs a context uses the caller's current one when that belongs to the device; else the
 * device's primary context, retained once and kept, is pushed for the length of the call. A module remembers its
 * context, and a launch runs in that. The caller's current context is the same before and after every call.
 *
 * Prototypes and constants are written out here after the CUDA 11.4 - 13.0 driver API; none of them has changed in
 * those.
 */
#include "runtime/driver_library.h"
#include "runtime/driver_tables.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int cu_result;
typedef int cu_device;
typedef unsigned long long cu_pointer;
typedef struct cu_context_opaque *cu_context;
typedef struct cu_module_opaque *cu_module;
typedef struct cu_function_opaque *cu_function;

enum {
    CU_SUCCESS = 0,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_INITIALIZED = 3,
    CU_STUB_LIBRARY = 34,
    CU_NO_DEVICE = 100,
    CU_INVALID_DEVICE = 101,
    CU_SYSTEM_DRIVER_MISMATCH = 803,
    CU_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804
};
enum {
    CU_MAX_THREADS_PER_BLOCK = 1,
    CU_MAX_GRID_DIM_X = 5,
    CU_MAX_GRID_DIM_Y = 6,
    CU_MAX_GRID_DIM_Z = 7,
    CU_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_WARP_SIZE = 10,
    CU_MULTIPROCESSOR_COUNT = 16,
    CU_L2_CACHE_SIZE = 38,
    CU_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_COMPUTE_CAPABILITY_MINOR = 76,
    CU_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};
enum { CU_FUNC_SHARED_SIZE_BYTES = 1, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
enum { CU_STREAM_NON_BLOCKING = 1, CU_CAPTURE_THREAD_LOCAL = 1, CU_CAPTURE_RELAXED = 2 };
#define CU_LAUNCH_PARAM_END ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)

struct cuda_functions {
    cu_result (*init)(unsigned flags);
    cu_result (*driver_version)(int *version);
    cu_result (*error_name)(cu_result code, const char **text);
    cu_result (*error_string)(cu_result code, const char **text);
    cu_result (*device_count)(int *count);
    cu_result (*device_get)(cu_device *device, int ordinal);
    cu_result (*device_name)(char *name, int bytes, cu_device device);
    cu_result (*device_attribute)(int *value, int attribute, cu_device device);
    cu_result (*device_memory)(size_t *bytes, cu_device device);
    cu_result (*device_bus)(char *text, int bytes, cu_device device);
    cu_result (*context_current)(cu_context *context);
    cu_result (*context_device)(cu_device *device);
    cu_result (*context_push)(cu_context context);
    cu_result (*context_pop)(cu_context *context);
    cu_result (*primary_retain)(cu_context *context, cu_device device);
    cu_result (*memory_info)(size_t *free_bytes, size_t *total_bytes);
    cu_result (*memory_allocate)(cu_pointer *pointer, size_t bytes);
    cu_result (*memory_free)(cu_pointer pointer);
    cu_result (*copy_in)(cu_pointer device, const void *host, size_t bytes);
    cu_result (*copy_out)(void *host, cu_pointer device, size_t bytes);
    cu_result (*fill)(cu_pointer device, unsigned char value, size_t count);
    cu_result (*module_load)(cu_module *module, const void *image);
    cu_result (*module_unload)(cu_module module);
    cu_result (*module_function)(cu_function *function, cu_module module, const char *name);
    cu_result (*function_get)(int *value, int attribute, cu_function function);
    cu_result (*function_set)(cu_function function, int attribute, int value);
    cu_result (*launch)(cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters,
                        void **extra);
    cu_result (*stream_create)(void **stream, unsigned flags);
    cu_result (*stream_destroy)(void *stream);
    cu_result (*stream_synchronize)(void *stream);
    cu_result (*event_create)(void **event, unsigned flags);
    cu_result (*event_destroy)(void *event);
    cu_result (*event_record)(void *event, void *stream);
    cu_result (*event_synchronize)(void *event);
    cu_result (*event_elapsed)(float *milliseconds, void *begin, void *end);
    cu_result (*capture_begin)(void *stream, int mode);
    cu_result (*capture_end)(void *stream, void **graph);
    cu_result (*capture_mode)(int *mode);
    cu_result (*graph_instantiate)(void **executable, void *graph, unsigned long long flags);
    cu_result (*graph_destroy)(void *graph);
    cu_result (*graph_launch)(void *executable, void *stream);
    cu_result (*graph_executable_destroy)(void *executable);
};

#define REQUIRED(member, ...)                                                                                          \
    {                                                                                                                  \
        offsetof(struct cuda_functions, member), false,                                                                \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
static const struct driver_symbol cuda_symbols[] = {
    REQUIRED(init, "cuInit"),
    REQUIRED(driver_version, "cuDriverGetVersion"),
    REQUIRED(error_name, "cuGetErrorName"),
    REQUIRED(error_string, "cuGetErrorString"),
    REQUIRED(device_count, "cuDeviceGetCount"),
    REQUIRED(device_get, "cuDeviceGet"),
    REQUIRED(device_name, "cuDeviceGetName"),
    REQUIRED(device_attribute, "cuDeviceGetAttribute"),
    REQUIRED(device_memory, "cuDeviceTotalMem_v2"),
    REQUIRED(device_bus, "cuDeviceGetPCIBusId"),
    REQUIRED(context_current, "cuCtxGetCurrent"),
    REQUIRED(context_device, "cuCtxGetDevice"),
    REQUIRED(context_push, "cuCtxPushCurrent_v2"),
    REQUIRED(context_pop, "cuCtxPopCurrent_v2"),
    REQUIRED(primary_retain, "cuDevicePrimaryCtxRetain"),
    REQUIRED(memory_info, "cuMemGetInfo_v2"),
    REQUIRED(memory_allocate, "cuMemAlloc_v2"),
    REQUIRED(memory_free, "cuMemFree_v2"),
    REQUIRED(copy_in, "cuMemcpyHtoD_v2"),
    REQUIRED(copy_out, "cuMemcpyDtoH_v2"),
    REQUIRED(fill, "cuMemsetD8_v2"),
    REQUIRED(module_load, "cuModuleLoadData"),
    REQUIRED(module_unload, "cuModuleUnload"),
    REQUIRED(module_function, "cuModuleGetFunction"),
    REQUIRED(function_get, "cuFuncGetAttribute"),
    REQUIRED(function_set, "cuFuncSetAttribute"),
    REQUIRED(launch, "cuLaunchKernel"),
    REQUIRED(stream_create, "cuStreamCreate"),
    REQUIRED(stream_destroy, "cuStreamDestroy_v2"),
    REQUIRED(stream_synchronize, "cuStreamSynchronize"),
    REQUIRED(event_create, "cuEventCreate"),
    REQUIRED(event_destroy, "cuEventDestroy_v2"),
    REQUIRED(event_record, "cuEventRecord"),
    REQUIRED(event_synchronize, "cuEventSynchronize"),
    REQUIRED(event_elapsed, "cuEventElapsedTime"),
    REQUIRED(capture_begin, "cuStreamBeginCapture_v2"),
    REQUIRED(capture_end, "cuStreamEndCapture"),
    REQUIRED(capture_mode, "cuThreadExchangeStreamCaptureMode"),
    REQUIRED(graph_instantiate, "cuGraphInstantiateWithFlags"),
    REQUIRED(graph_destroy, "cuGraphDestroy"),
    REQUIRED(graph_launch, "cuGraphLaunch"),
    REQUIRED(graph_executable_destroy, "cuGraphExecDestroy"),
};
#undef REQUIRED

/* The management library: optional, for the driver's release, free memory without a context, and the power limit. */
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_functions {
    int (*init)(void);
    int (*driver_version)(char *text, unsigned bytes);
    int (*device_by_bus)(const char *bus, void **device);
    int (*power_limit)(void *device, unsigned *milliwatts);
    int (*memory)(void *device, struct nvml_memory *memory);
};
#define REQUIRED(member, name)                                                                                         \
    {                                                                                                                  \
        offsetof(struct nvml_functions, member), false,                                                                \
        {                                                                                                              \
            name                                                                                                       \
        }                                                                                                              \
    }
static const struct driver_symbol nvml_symbols[] = {
    REQUIRED(init, "nvmlInit_v2"),
    REQUIRED(driver_version, "nvmlSystemGetDriverVersion"),
    REQUIRED(device_by_bus, "nvmlDeviceGetHandleByPciBusId_v2"),
    REQUIRED(power_limit, "nvmlDeviceGetEnforcedPowerLimit"),
    REQUIRED(memory, "nvmlDeviceGetMemoryInfo"),
};
#undef REQUIRED

enum { CUDA_DEVICES_MAX = 64 };

/* Written once by cuda_start, then read only, but for the primary contexts under their mutex. */
static struct {
    pthread_once_t once;
    struct error error; /* status ATTUNE_OK when the driver can be used */
    struct cuda_functions cu;
    int device_count;
    bool nvml_present;
    struct nvml_functions nvml;
    pthread_mutex_t mutex;
    cu_context primary[CUDA_DEVICES_MAX]; /* retained, NULL until first needed */
} state = {.once = PTHREAD_ONCE_INIT, .mutex = PTHREAD_MUTEX_INITIALIZER};

struct cuda_module {
    cu_module module;
    cu_function function;
    cu_context context; /* in which it was loaded */
    char kernel[LAUNCH_NAME_BYTES];
};

/* ------------------------------------------------------------------------------------------------ errors */

static attune_status cuda_status(cu_result code)
{
    switch (code) {
    case CU_OUT_OF_MEMORY:
        return ATTUNE_NO_MEMORY;
    case CU_NOT_INITIALIZED:
    case CU_STUB_LIBRARY:
    case CU_NO_DEVICE:
    case CU_INVALID_DEVICE:
    case CU_SYSTEM_DRIVER_MISMATCH:
    case CU_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        return ATTUNE_NO_DEVICE;
    default:
        return ATTUNE_DEVICE_FAILED;
    }
}

/* "what: CUDA_ERROR_X: text (number)" */
__attribute__((format(printf, 3, 4))) static attune_status cuda_failed(struct error *error, cu_result code,
                                                                       const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const char *name = NULL, *text = NULL;
    state.cu.error_name(code, &name);
    state.cu.error_string(code, &text);
    return error_set(error, cuda_status(code), "%s: %s: %s (%d)", what, name ? name : "unknown error",
                     text ? text : "no text", code);
}

/* ------------------------------------------------------------------------------------------------ start */

static void nvml_start(void)
{
    static const char *const names[] = {"libnvidia-ml.so.1", NULL};
    void *library;
    char path[256];
    state.nvml_present =
        driver_library_open("ATTUNE_NVML_LIBRARY", names, &library, path, sizeof path, NULL) == ATTUNE_OK &&
        driver_library_resolve(library, path, nvml_symbols, sizeof nvml_symbols / sizeof nvml_symbols[0], &state.nvml,
                               NULL) == ATTUNE_OK &&
        state.nvml.init() == 0;
}

static void cuda_start(void)
{
    static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
    struct error *error = &state.error;
    void *library;
    char path[256];
    error->status = ATTUNE_OK;
    if (driver_library_open("ATTUNE_CUDA_LIBRARY", names, &library, path, sizeof path, error) != ATTUNE_OK ||
        driver_library_resolve(library, path, cuda_symbols, sizeof cuda_symbols / sizeof cuda_symbols[0], &state.cu,
                               error) != ATTUNE_OK) {
        return;
    }
    cu_result code = state.cu.init(0);
    if (code != CU_SUCCESS) {
        cuda_failed(error, code, "cuInit of %s", path);
        error->status = ATTUNE_NO_DEVICE; /* whatever keeps the driver from starting */
        return;
    }
    code = state.cu.device_count(&state.device_count);
    if (code != CU_SUCCESS) {
        cuda_failed(error, code, "cuDeviceGetCount");
        error->status = ATTUNE_NO_DEVICE;
        return;
    }
    if (state.device_count == 0) {
        error_set(error, ATTUNE_NO_DEVICE, "the driver works but shows no device (CUDA_VISIBLE_DEVICES?)");
        return;
    }
    if (state.device_count > CUDA_DEVICES_MAX) {
        state.device_count = CUDA_DEVICES_MAX;
    }
    nvml_start();
}

/* ------------------------------------------------------------------------------------------------ contexts */

static attune_status cuda_ordinal(int ordinal, struct error *error)
{
    if (ordinal < 0 || ordinal >= state.device_count) {
        return error_set(error, ATTUNE_NO_DEVICE, "cuda:%d is not here; there are devices 0 to %d", ordinal,
                         state.device_count - 1);
    }
    return ATTUNE_OK;
}

static attune_status primary_context(int ordinal, cu_context *context, struct error *error)
{
    attune_status status = ATTUNE_OK;
    pthread_mutex_lock(&state.mutex);
    if (state.primary[ordinal] == NULL) {
        cu_device device;
        cu_result code = state.cu.device_get(&device, ordinal);
        if (code == CU_SUCCESS) {
            code = state.cu.primary_retain(&state.primary[ordinal], device);
        }
        if (code != CU_SUCCESS) {
            state.primary[ordinal] = NULL;
            status = cuda_failed(error, code, "cuDevicePrimaryCtxRetain of device %d", ordinal);
        }
    }
    *context = state.primary[ordinal];
    pthread_mutex_unlock(&state.mutex);
    return status;
}

/* Makes a context of the device current for this call. *pushed says whether leave() has to pop. */
static attune_status enter(int ordinal, bool *pushed, struct error *error)
{
    *pushed = false;
    attune_status status = cuda_ordinal(ordinal, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_context current = NULL;
    cu_device device, wanted;
    if (state.cu.context_current(&current) == CU_SUCCESS && current != NULL &&
        state.cu.context_device(&device) == CU_SUCCESS && state.cu.device_get(&wanted, ordinal) == CU_SUCCESS &&
        device == wanted) {
        return ATTUNE_OK;
    }
    cu_context primary;
    status = primary_context(ordinal, &primary, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.context_push(primary);
    if (code != CU_SUCCESS) {
        return cuda_failed(error, code, "cuCtxPushCurrent of device %d", ordinal);
    }
    *pushed = true;
    return ATTUNE_OK;
}

/* the same for a context that is known */
static attune_status enter_context(cu_context context, bool *pushed, struct error *error)
{
    *pushed = false;
    cu_context current = NULL;
    if (state.cu.context_current(&current) == CU_SUCCESS && current == context) {
        return ATTUNE_OK;
    }
    cu_result code = state.cu.context_push(context);
    if (code != CU_SUCCESS) {
        return cuda_failed(error, code, "cuCtxPushCurrent");
    }
    *pushed = true;
    return ATTUNE_OK;
}

static void leave(bool pushed)
{
    cu_context popped;
    if (pushed) {
        state.cu.context_pop(&popped);
    }
}

/* ------------------------------------------------------------------------------------------------ devices */

static attune_status cuda_count(const struct driver *driver, int *count, struct error *error)
{
    (void)driver, (void)error;
    *count = state.device_count;
    return ATTUNE_OK;
}

/* Free memory without making a context when one can do without. */
static uint64_t free_memory(int ordinal, void *nvml_device)
{
    size_t available = 0, total = 0;
    struct nvml_memory memory;
    pthread_mutex_lock(&state.mutex);
    bool have_context = state.primary[ordinal] != NULL;
    pthread_mutex_unlock(&state.mutex);
    if (!have_context && nvml_device != NULL && state.nvml.memory(nvml_device, &memory) == 0) {
        return memory.free;
    }
    bool pushed;
    if (enter(ordinal, &pushed, NULL) != ATTUNE_OK) {
        return 0;
    }
    cu_result code = state.cu.memory_info(&available, &total);
    leave(pushed);
    return code == CU_SUCCESS ? available : 0;
}

static void describe_version(struct driver_device *device)
{
    int version = 0;
    char release[40];
    state.cu.driver_version(&version);
    int used = snprintf(device->driver_version, sizeof device->driver_version, "CUDA %d.%d", version / 1000,
                        version % 1000 / 10);
    if (state.nvml_present && state.nvml.driver_version(release, sizeof release) == 0) {
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
    cu_result code = state.cu.device_get(&handle, ordinal);
    size_t memory_bytes = 0;
    if (code == CU_SUCCESS) {
        code = state.cu.device_name(device->name, sizeof device->name, handle);
    }
    if (code == CU_SUCCESS) {
        code = state.cu.device_memory(&memory_bytes, handle);
    }
    int major = 0, minor = 0, shared = 0, cache = 0, grid[3] = {0};
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
        {CU_MAX_GRID_DIM_X, &grid[0]},
        {CU_MAX_GRID_DIM_Y, &grid[1]},
        {CU_MAX_GRID_DIM_Z, &grid[2]},
    };
    for (size_t i = 0; i < sizeof facts / sizeof facts[0] && code == CU_SUCCESS; i++) {
        code = state.cu.device_attribute(facts[i].value, facts[i].attribute, handle);
    }
    if (code != CU_SUCCESS) {
        return cuda_failed(error, code, "reading the properties of cuda:%d", ordinal);
    }
    if (shared == 0) {
        state.cu.device_attribute(&shared, CU_MAX_SHARED_MEMORY_PER_BLOCK, handle);
    }
    target_from_compute_capability(major, minor, &device->target);
    describe_version(device);
    device->shared_bytes = (uint64_t)shared;
    device->memory_bytes = memory_bytes;
    device->cache_bytes = (uint64_t)cache;
    device->grid = (struct grid_limits){.blocks = {(uint64_t)grid[0], (uint64_t)grid[1], (uint64_t)grid[2]}};
    void *nvml_device = NULL;
    char bus[32];
    unsigned milliwatts;
    if (!state.nvml_present || state.cu.device_bus(bus, sizeof bus, handle) != CU_SUCCESS ||
        state.nvml.device_by_bus(bus, &nvml_device) != 0) {
        nvml_device = NULL;
    }
    if (nvml_device != NULL && state.nvml.power_limit(nvml_device, &milliwatts) == 0) {
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
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_pointer memory = 0;
    cu_result code = state.cu.memory_allocate(&memory, bytes ? bytes : 1);
    leave(pushed);
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
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.memory_free(device_pointer(pointer));
    leave(pushed);
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
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.copy_in(device_pointer(device), host, bytes);
    if (code == CU_SUCCESS) {
        code = state.cu.stream_synchronize(NULL);
    }
    leave(pushed);
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
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.copy_out(host, device_pointer(device), bytes);
    leave(pushed);
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
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.fill(device_pointer(device), value, bytes);
    if (code == CU_SUCCESS) {
        code = state.cu.stream_synchronize(NULL);
    }
    leave(pushed);
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
    cu_result code = state.cu.device_get(&device, ordinal);
    if (code == CU_SUCCESS) {
        code = state.cu.function_get(&fixed, CU_FUNC_SHARED_SIZE_BYTES, module->function);
    }
    if (code == CU_SUCCESS) {
        code = state.cu.device_attribute(&ordinary, CU_MAX_SHARED_MEMORY_PER_BLOCK, device);
    }
    if (code == CU_SUCCESS) {
        code = state.cu.device_attribute(&limit, CU_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
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
    code = state.cu.function_set(module->function, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)dynamic_bytes);
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
    attune_status status = enter(ordinal, &pushed, error);
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
    code = state.cu.context_current(&module->context);
    if (code == CU_SUCCESS) {
        code = state.cu.module_load(&module->module, object);
    }
    if (code != CU_SUCCESS) {
        status = cuda_failed(error, code, "cuModuleLoadData of an object of %zu bytes on cuda:%d", bytes, ordinal);
        goto out;
    }
    code = state.cu.module_function(&module->function, module->module, kernel);
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
            state.cu.module_unload(module->module);
        }
        free(module);
    }
    leave(pushed);
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
    attune_status status = enter_context(module->context, &pushed, error);
    if (status == ATTUNE_OK) {
        cu_result code = state.cu.module_unload(module->module);
        leave(pushed);
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
    attune_status status = enter_context(module->context, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    size_t bytes = launch->argument_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)launch->arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};
    cu_result code = state.cu.launch(module->function, launch->grid[0], launch->grid[1], launch->grid[2],
                                     launch->threads, 1, 1, launch->dynamic_shared_bytes, stream, NULL, extra);
    leave(pushed);
    if (code != CU_SUCCESS) {
        return cuda_failed(error, code,
                           "cuLaunchKernel of %s on cuda:%d (grid %u x %u x %u, %u threads, %u bytes of dynamic shared "
                           "memory, %u of arguments)",
                           module->kernel, ordinal, launch->grid[0], launch->grid[1], launch->grid[2], launch->threads,
                           launch->dynamic_shared_bytes, launch->argument_bytes);
    }
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ streams and events
 */

static attune_status cuda_stream_create(const struct driver *driver, int ordinal, driver_stream *stream,
                                        struct error *error)
{
    (void)driver;
    *stream = NULL;
    bool pushed;
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.stream_create(stream, CU_STREAM_NON_BLOCKING);
    leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuStreamCreate on cuda:%d", ordinal);
}

static attune_status cuda_stream_destroy(const struct driver *driver, int ordinal, driver_stream stream,
                                         struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.stream_destroy(stream);
    leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuStreamDestroy on cuda:%d", ordinal);
}

static attune_status cuda_synchronize(const struct driver *driver, int ordinal, driver_stream stream,
                                      struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.stream_synchronize(stream);
    leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "waiting for cuda:%d", ordinal);
}

static attune_status cuda_event_create(const struct driver *driver, int ordinal, driver_event *event,
                                       struct error *error)
{
    (void)driver;
    *event = NULL;
    bool pushed;
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.event_create(event, 0);
    leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuEventCreate on cuda:%d", ordinal);
}

static attune_status cuda_event_destroy(const struct driver *driver, int ordinal, driver_event event,
                                        struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.event_destroy(event);
    leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuEventDestroy on cuda:%d", ordinal);
}

static attune_status cuda_event_record(const struct driver *driver, int ordinal, driver_event event,
                                       driver_stream stream, struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.event_record(event, stream);
    leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuEventRecord on cuda:%d", ordinal);
}

static attune_status cuda_event_elapsed(const struct driver *driver, int ordinal, driver_event begin, driver_event end,
                                        double *milliseconds, struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    float elapsed = 0;
    cu_result code = state.cu.event_synchronize(end);
    if (code == CU_SUCCESS) {
        code = state.cu.event_elapsed(&elapsed, begin, end);
    }
    leave(pushed);
    *milliseconds = elapsed;
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "timing on cuda:%d", ordinal);
}

/* ------------------------------------------------------------------------------------------------ graphs */

static attune_status cuda_graph_begin(const struct driver *driver, int ordinal, driver_stream stream,
                                      struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.capture_begin(stream, CU_CAPTURE_THREAD_LOCAL);
    leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuStreamBeginCapture on cuda:%d", ordinal);
}

static attune_status cuda_graph_end(const struct driver *driver, int ordinal, driver_stream stream, driver_graph *graph,
                                    struct error *error)
{
    (void)driver;
    *graph = NULL;
    bool pushed;
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    void *captured = NULL;
    cu_result code = state.cu.capture_end(stream, &captured);
    if (code == CU_SUCCESS) {
        code = state.cu.graph_instantiate(graph, captured, 0);
    }
    if (captured != NULL) {
        state.cu.graph_destroy(captured);
    }
    leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "ending a capture on cuda:%d", ordinal);
}

static attune_status cuda_graph_replay(const struct driver *driver, int ordinal, driver_graph graph,
                                       driver_stream stream, struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.graph_launch(graph, stream);
    leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuGraphLaunch on cuda:%d", ordinal);
}

static attune_status cuda_graph_destroy(const struct driver *driver, int ordinal, driver_graph graph,
                                        struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = state.cu.graph_executable_destroy(graph);
    leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuGraphExecDestroy on cuda:%d", ordinal);
}

static void cuda_relax_capture(const struct driver *driver, bool begin)
{
    (void)driver;
    static _Thread_local int depth;
    static _Thread_local int previous; /* the caller's mode; valid while depth > 0 */
    int mode = begin ? CU_CAPTURE_RELAXED : previous;
    if (begin ? depth++ == 0 : --depth == 0) {
        state.cu.capture_mode(&mode);
        previous = mode;
    }
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
};

attune_status driver_cuda(const struct driver **driver, struct error *error)
{
    pthread_once(&state.once, cuda_start);
    if (state.error.status != ATTUNE_OK) {
        return error_set(error, state.error.status, "%s", state.error.message);
    }
    *driver = &cuda_driver;
    return ATTUNE_OK;
}
