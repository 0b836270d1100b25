/* driver_hip_library.c - libamdhip64 by dlopen: its functions, its errors, the current device of a call. */
#include "runtime/driver_hip.h"
#include "runtime/driver_library.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* before it hipDeviceAttribute_t was numbered otherwise */
enum { HIP_FIRST_VERSION = 40300000 }; /* major * 10^7 + minor * 10^5 + patch */

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
    OPTIONAL(device_pci, "hipDeviceGetPCIBusId"),
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
    OPTIONAL(capture_status, "hipStreamIsCapturing"),             /* since 4.3 */
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

const struct hip_functions *hip_api(void)
{
    return &state.hip;
}

int hip_device_count(void)
{
    return state.device_count;
}

const char *hip_version(void)
{
    return state.version;
}

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

attune_status hip_failed(struct error *error, hip_result code, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const char *name = state.hip.error_name(code), *text = state.hip.error_string(code);
    name = name ? name : "unknown error";
    bool told = text != NULL && strcmp(text, name) != 0; /* HIP 5 has no words for most codes and repeats the name */
    return error_set(error, hip_status(code), "%s: %s%s%s (%d)", what, name, told ? ": " : "", told ? text : "", code);
}

attune_status hip_result_of(struct error *error, hip_result code, const char *what, int ordinal)
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

attune_status hip_open(struct error *error)
{
    pthread_once(&state.once, hip_start);
    return state.error.status == ATTUNE_OK ? ATTUNE_OK
                                           : error_set(error, state.error.status, "%s", state.error.message);
}

attune_status hip_enter(int ordinal, int *previous, struct error *error)
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

void hip_leave(int ordinal, int previous)
{
    if (previous != ordinal) {
        state.hip.device_select(previous);
    }
}
