/* fake_cuda.c - a stand-in for libcuda.so.1: two devices of compute capability 9.0 and 8.6, contexts with a stack per
 * thread, as the driver interface has them. Calls that need a context fail without one. */
#include "fake_body.h"

#define EXPORT __attribute__((visibility("default")))
#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        int code_ = (expression);                                                                                      \
        if (code_ != 0) {                                                                                              \
            return code_;                                                                                              \
        }                                                                                                              \
    } while (0)

enum { CONTEXTS = 3 }; /* primary of device 0, of device 1, and one of the caller's own on device 0 */
static struct {
    int device;
} contexts[CONTEXTS] = {{0}, {1}, {0}};
static _Thread_local void *stack[16];
static _Thread_local int depth;

static void *current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

static int in_context(void)
{
    return current() ? 0 : 201;
}

EXPORT void *fake_context(int index);
EXPORT void *fake_context(int index)
{
    return &contexts[index];
}

#define FUNCTION(name, ...)                                                                                            \
    EXPORT int name(__VA_ARGS__);                                                                                      \
    EXPORT int name(__VA_ARGS__)

FUNCTION(cuInit, unsigned flags)
{
    return call("cuInit", "%u", flags);
}
FUNCTION(cuDriverGetVersion, int *version)
{
    *version = 13000;
    return 0;
}
FUNCTION(cuGetErrorName, int code, const char **text)
{
    *text = code == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : code == 100 ? "CUDA_ERROR_NO_DEVICE"
            : code == 201 ? "CUDA_ERROR_INVALID_CONTEXT"
            : code == 900 ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
                          : NULL;
    return *text ? 0 : 1;
}
FUNCTION(cuGetErrorString, int code, const char **text)
{
    *text = code == 2 ? "out of memory" : code == 700 ? "an illegal memory access was encountered" : NULL;
    return *text ? 0 : 1;
}
FUNCTION(cuDeviceGetCount, int *count)
{
    *count = fake.devices;
    return 0;
}
FUNCTION(cuDeviceGet, int *device, int ordinal)
{
    *device = ordinal + 10; /* a handle is not an ordinal */
    return ordinal >= 0 && ordinal < fake.devices ? 0 : 101;
}
FUNCTION(cuDeviceGetName, char *name, int bytes, int device)
{
    snprintf(name, (size_t)bytes, "Fake GPU %d", device - 10);
    return 0;
}
FUNCTION(cuDeviceGetAttribute, int *value, int attribute, int device)
{
    TRY(call("cuDeviceGetAttribute", "%d", attribute));
    switch (attribute) {
    case 1:
        *value = 1024;
        break;
    case 5:
        *value = 0x7fffffff;
        break;
    case 6:
    case 7:
        *value = 65535;
        break;
    case 8:
        *value = 49152;
        break;
    case 10:
        *value = 32;
        break;
    case 16:
        *value = 132;
        break;
    case 20:
        *value = fake.compute_mode;
        break;
    case 38:
        *value = 50 << 20;
        break;
    case 75:
        *value = device == 10 ? 9 : 8;
        break;
    case 76:
        *value = device == 10 ? 0 : 6;
        break;
    case 97:
        *value = device == 10 ? 232448 : 101376;
        break;
    default:
        return 1;
    }
    return 0;
}
FUNCTION(cuDeviceTotalMem_v2, size_t *bytes, int device)
{
    *bytes = (size_t)80 << 30;
    return device >= 10 ? 0 : 101;
}
FUNCTION(cuDeviceGetPCIBusId, char *text, int bytes, int device)
{
    snprintf(text, (size_t)bytes, "0000:0%d:00.0", device - 10);
    return 0;
}
FUNCTION(cuCtxGetCurrent, void **context)
{
    *context = current();
    return 0;
}
FUNCTION(cuCtxGetDevice, int *device)
{
    TRY(in_context());
    *device = *(int *)current() + 10;
    return 0;
}
FUNCTION(cuCtxPushCurrent_v2, void *context)
{
    TRY(call("cuCtxPushCurrent", "%d", *(int *)context));
    stack[depth++] = context;
    return 0;
}
FUNCTION(cuCtxPopCurrent_v2, void **context)
{
    TRY(in_context());
    *context = stack[--depth];
    return call("cuCtxPopCurrent", "%d", *(int *)*context);
}
FUNCTION(cuDevicePrimaryCtxRetain, void **context, int device)
{
    TRY(call("cuDevicePrimaryCtxRetain", "%d", device - 10));
    *context = &contexts[device - 10];
    return 0;
}
FUNCTION(cuMemGetInfo_v2, size_t *available, size_t *total)
{
    TRY(in_context());
    *available = (size_t)70 << 30;
    *total = (size_t)80 << 30;
    return 0;
}
FUNCTION(cuMemAlloc_v2, unsigned long long *pointer, size_t bytes)
{
    TRY(in_context());
    TRY(call("cuMemAlloc", "%zu", bytes));
    TRY(may_allocate());
    *pointer = (uintptr_t)malloc(bytes);
    fake.live++;
    return 0;
}
FUNCTION(cuMemFree_v2, unsigned long long pointer)
{
    TRY(in_context());
    TRY(call("cuMemFree", "%d", 0));
    TRY(may_allocate());
    return unmake((void *)(uintptr_t)pointer);
}
FUNCTION(cuMemcpyHtoD_v2, unsigned long long device, const void *host, size_t bytes)
{
    TRY(in_context());
    TRY(call("cuMemcpyHtoD", "%zu", bytes));
    TRY(may_wait(NULL));
    memcpy((void *)(uintptr_t)device, host, bytes);
    return 0;
}
FUNCTION(cuMemcpyDtoH_v2, void *host, unsigned long long device, size_t bytes)
{
    TRY(in_context());
    TRY(call("cuMemcpyDtoH", "%zu", bytes));
    TRY(may_wait(NULL));
    memcpy(host, (void *)(uintptr_t)device, bytes);
    return 0;
}
FUNCTION(cuMemsetD8_v2, unsigned long long device, unsigned char value, size_t count)
{
    TRY(in_context());
    TRY(call("cuMemsetD8", "%zu", count));
    TRY(may_wait(NULL));
    memset((void *)(uintptr_t)device, value, count);
    return 0;
}
FUNCTION(cuModuleLoadData, void **module, const void *image)
{
    TRY(in_context());
    TRY(call("cuModuleLoadData", "%d", *(const unsigned char *)image));
    TRY(may_allocate());
    return make(module);
}
FUNCTION(cuModuleUnload, void *module)
{
    TRY(in_context());
    TRY(call("cuModuleUnload", "%d", 0));
    TRY(may_allocate());
    return unmake(module);
}
FUNCTION(cuModuleGetFunction, void **function, void *module, const char *name)
{
    TRY(in_context());
    TRY(call("cuModuleGetFunction", "%s", name));
    *function = module;
    return strcmp(name, "missing") == 0 ? 500 : 0;
}
FUNCTION(cuFuncGetAttribute, int *value, int attribute, void *function)
{
    (void)function;
    *value = fake.static_shared;
    return attribute == 1 ? 0 : 1;
}
FUNCTION(cuFuncSetAttribute, void *function, int attribute, int value)
{
    (void)function;
    return call("cuFuncSetAttribute", "%d %d", attribute, value);
}
FUNCTION(cuLaunchKernel, void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
         unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra)
{
    (void)function;
    TRY(in_context());
    TRY(call("cuLaunchKernel", "%u %u %u, %u %u %u, %u, %d on %d", grid_x, grid_y, grid_z, block_x, block_y, block_z,
             shared, stream != NULL, (int)((char *)current() - (char *)contexts) / (int)sizeof contexts[0]));
    if (grid_y > 65535 || grid_z > 65535 || grid_x > 0x7fffffff) {
        return 1;
    }
    launched(stream, (uint64_t)grid_x * grid_y * grid_z);
    return take_arguments(parameters, extra, 0);
}
FUNCTION(cuStreamCreate, void **stream, unsigned flags)
{
    TRY(in_context());
    TRY(call("cuStreamCreate", "%u", flags));
    return make(stream);
}
FUNCTION(cuStreamDestroy_v2, void *stream)
{
    return unmake(stream);
}
FUNCTION(cuStreamSynchronize, void *stream)
{
    TRY(in_context());
    TRY(call("cuStreamSynchronize", "%d", stream != NULL));
    return may_wait(stream);
}
FUNCTION(cuEventCreate, void **event, unsigned flags)
{
    TRY(in_context());
    TRY(call("cuEventCreate", "%u", flags));
    return make(event);
}
FUNCTION(cuEventDestroy_v2, void *event)
{
    return unmake(event);
}
FUNCTION(cuEventRecord, void *event, void *stream)
{
    return call("cuEventRecord", "%d %d", event != NULL, stream != NULL);
}
FUNCTION(cuEventSynchronize, void *event)
{
    return call("cuEventSynchronize", "%d", event != NULL);
}
FUNCTION(cuEventElapsedTime, float *milliseconds, void *begin, void *end)
{
    (void)begin, (void)end;
    *milliseconds = 1.5f;
    return call("cuEventElapsedTime", "%d", 0);
}
FUNCTION(cuStreamBeginCapture_v2, void *stream, int mode)
{
    TRY(call("cuStreamBeginCapture", "%d %d", stream != NULL, mode));
    return begin_capture(stream, mode);
}
FUNCTION(cuStreamEndCapture, void *stream, void **graph)
{
    TRY(call("cuStreamEndCapture", "%d", stream != NULL));
    TRY(end_capture());
    return make(graph);
}
FUNCTION(cuStreamIsCapturing, void *stream, int *status)
{
    return capture_status(stream, status);
}
FUNCTION(cuThreadExchangeStreamCaptureMode, int *mode)
{
    TRY(call("cuThreadExchangeStreamCaptureMode", "%d", *mode));
    return exchange_mode(mode);
}
FUNCTION(cuGraphInstantiateWithFlags, void **executable, void *graph, unsigned long long flags)
{
    TRY(call("cuGraphInstantiateWithFlags", "%d %llu", graph != NULL, flags));
    return make(executable);
}
FUNCTION(cuGraphDestroy, void *graph)
{
    return unmake(graph);
}
FUNCTION(cuGraphLaunch, void *executable, void *stream)
{
    return call("cuGraphLaunch", "%d %d", executable != NULL, stream != NULL);
}
FUNCTION(cuGraphExecDestroy, void *executable)
{
    return unmake(executable);
}
