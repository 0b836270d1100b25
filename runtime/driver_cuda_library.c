/* driver_cuda_library.c - libcuda by dlopen: its functions, its errors, the contexts of its calls.
 *
 * Context rule: a call that needs a context uses the caller's current one when that belongs to the device; else the
 * device's primary context, retained once and kept, is pushed for the length of the call. The caller's current context
 * is the same before and after every call.
 */
#include "runtime/driver_cuda.h"
#include "runtime/driver_library.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
    REQUIRED(capture_status, "cuStreamIsCapturing"),
    REQUIRED(graph_instantiate, "cuGraphInstantiateWithFlags"),
    REQUIRED(graph_destroy, "cuGraphDestroy"),
    REQUIRED(graph_launch, "cuGraphLaunch"),
    REQUIRED(graph_executable_destroy, "cuGraphExecDestroy"),
};
#undef REQUIRED

/* The management library: optional, for the driver's release, free memory without a context, and the power limit. */
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

const struct cuda_functions *cuda_api(void)
{
    return &state.cu;
}

const struct nvml_functions *cuda_nvml(void)
{
    return state.nvml_present ? &state.nvml : NULL;
}

int cuda_device_count(void)
{
    return state.device_count;
}

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

attune_status cuda_failed(struct error *error, cu_result code, const char *format, ...)
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

attune_status cuda_open(struct error *error)
{
    pthread_once(&state.once, cuda_start);
    return state.error.status == ATTUNE_OK ? ATTUNE_OK
                                           : error_set(error, state.error.status, "%s", state.error.message);
}

/* ------------------------------------------------------------------------------------------------ contexts */

attune_status cuda_ordinal(int ordinal, struct error *error)
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

/* Makes a context of the device current for this call. *pushed says whether cuda_leave() has to pop. */
attune_status cuda_enter(int ordinal, bool *pushed, struct error *error)
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
attune_status cuda_enter_context(cu_context context, bool *pushed, struct error *error)
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

void cuda_leave(bool pushed)
{
    cu_context popped;
    if (pushed) {
        state.cu.context_pop(&popped);
    }
}

bool cuda_has_primary(int ordinal)
{
    pthread_mutex_lock(&state.mutex);
    bool present = state.primary[ordinal] != NULL;
    pthread_mutex_unlock(&state.mutex);
    return present;
}
