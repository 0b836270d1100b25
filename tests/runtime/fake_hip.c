/* fake_hip.c - a stand-in for libamdhip64: two devices, gfx906 and gfx90a, a current device per thread.
 *
 * FAKE_LAYOUT chooses what hipGetDeviceProperties looks like: 5 only the old layout (gcnArchName at byte 396), 6 both
 * symbols (the new one has it at 1160), 8 a layout that nobody has seen yet, under the new symbol. FAKE_VERSION is what
 * hipRuntimeGetVersion says. Launches count work-items in 32 bits, as the real runtime does: too large a grid runs less
 * and reports success.
 *
 * FAKE_HIP_DEVICE in the environment makes it one device of another kind, for programs that no test can reach into:
 * "gfx1030 40 32 0000:03:00.0" is its processor, units, wave size and PCI address ("-": it tells none). */
#include "fake_body.h"

#define EXPORT __attribute__((visibility("default")))
#define FUNCTION(name, ...)                                                                                            \
    EXPORT int name(__VA_ARGS__);                                                                                      \
    EXPORT int name(__VA_ARGS__)
#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        int code_ = (expression);                                                                                      \
        if (code_ != 0) {                                                                                              \
            return code_;                                                                                              \
        }                                                                                                              \
    } while (0)

#ifndef FAKE_VERSION
#define FAKE_VERSION 60000000 + 340091
#endif

static _Thread_local int selected;
static const char *const processors[] = {"gfx906:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"};

static struct {
    char processor[64], pci[32];
    int units, wave;
} other;

__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("FAKE_HIP_DEVICE");
    if (text != NULL && sscanf(text, "%63s %d %d %31s", other.processor, &other.units, &other.wave, other.pci) == 4) {
        fake.devices = 1;
    }
}

static int properties(char *bytes, size_t size, size_t processor_offset, int device)
{
    memset(bytes, 0, size);
    if (device == 0) {
        snprintf(bytes, 256, "Fake Instinct MI50");
    }
    /* a number that looks like text stands before the real name */
    memcpy(bytes + 300, "gf", 2);
    snprintf(bytes + processor_offset, 256, "%s", other.units > 0 ? other.processor : processors[device]);
    return call("hipGetDeviceProperties", "%d", device);
}

#if FAKE_LAYOUT == 5
FUNCTION(hipGetDeviceProperties, void *bytes, int device)
{
    return properties(bytes, 792, 396, device);
}
#elif FAKE_LAYOUT == 6
FUNCTION(hipGetDevicePropertiesR0600, void *bytes, int device)
{
    return properties(bytes, 1472, 1160, device);
}
FUNCTION(hipGetDeviceProperties, void *bytes, int device)
{
    return properties(bytes, 792, 396, device);
}
#else
FUNCTION(hipGetDevicePropertiesR0600, void *bytes, int device)
{
    return properties(bytes, 2000, 1288, device);
}
#endif

FUNCTION(hipInit, unsigned flags)
{
    return call("hipInit", "%u", flags);
}
FUNCTION(hipRuntimeGetVersion, int *version)
{
    *version = FAKE_VERSION;
    return 0;
}
EXPORT const char *hipGetErrorName(int code);
EXPORT const char *hipGetErrorName(int code)
{
    return code == 2     ? "hipErrorOutOfMemory"
           : code == 100 ? "hipErrorNoDevice"
           : code == 900 ? "hipErrorStreamCaptureUnsupported"
                         : "hipErrorUnknown";
}
EXPORT const char *hipGetErrorString(int code);
EXPORT const char *hipGetErrorString(int code)
{
    return code == 2 ? "out of memory" : code == 700 ? "an illegal memory access was encountered" : "no text";
}
FUNCTION(hipGetDeviceCount, int *count)
{
    *count = fake.devices;
    return 0;
}
FUNCTION(hipDeviceGetAttribute, int *value, int attribute, int device)
{
    switch (attribute) {
    case 19:
        *value = 4 << 20;
        break;
    case 56:
        *value = 1024;
        break;
    case 63:
        *value = other.units > 0 ? other.units : device == 0 ? 60 : 104;
        break;
    case 74:
        *value = 65536;
        break;
    case 87:
        *value = other.units > 0 ? other.wave : 64;
        break;
    default:
        return 1;
    }
    return call("hipDeviceGetAttribute", "%d", attribute);
}
#if FAKE_LAYOUT != 5
FUNCTION(hipDeviceGetPCIBusId, char *address, int length, int device)
{
    if (other.units > 0) {
        snprintf(address, (size_t)length, "%s", other.pci);
        return other.pci[0] == '-';
    }
    snprintf(address, (size_t)length, "0000:%02x:00.0", 3 + device);
    return 0;
}
#endif
FUNCTION(hipDeviceTotalMem, size_t *bytes, int device)
{
    *bytes = (size_t)(device == 0 ? 16 : 64) << 30;
    return 0;
}
FUNCTION(hipGetDevice, int *device)
{
    *device = selected;
    return 0;
}
FUNCTION(hipSetDevice, int device)
{
    TRY(call("hipSetDevice", "%d", device));
    selected = device;
    return 0;
}
FUNCTION(hipMemGetInfo, size_t *available, size_t *total)
{
    *available = (size_t)15 << 30;
    *total = (size_t)16 << 30;
    return 0;
}
FUNCTION(hipMalloc, void **pointer, size_t bytes)
{
    TRY(call("hipMalloc", "%zu on %d", bytes, selected));
    TRY(may_allocate());
    *pointer = malloc(bytes);
    fake.live++;
    return 0;
}
FUNCTION(hipFree, void *pointer)
{
    TRY(call("hipFree", "%d", 0));
    TRY(may_allocate());
    return unmake(pointer);
}
FUNCTION(hipMemcpyHtoD, void *device, void *host, size_t bytes)
{
    TRY(call("hipMemcpyHtoD", "%zu", bytes));
    TRY(may_wait(NULL));
    memcpy(device, host, bytes);
    return 0;
}
FUNCTION(hipMemcpyDtoH, void *host, void *device, size_t bytes)
{
    TRY(call("hipMemcpyDtoH", "%zu", bytes));
    TRY(may_wait(NULL));
    memcpy(host, device, bytes);
    return 0;
}
FUNCTION(hipMemsetD8, void *device, unsigned char value, size_t count)
{
    TRY(call("hipMemsetD8", "%zu", count));
    TRY(may_wait(NULL));
    memset(device, value, count);
    return 0;
}
FUNCTION(hipModuleLoadData, void **module, const void *image)
{
    TRY(call("hipModuleLoadData", "%d", *(const unsigned char *)image));
    TRY(may_allocate());
    return make(module);
}
FUNCTION(hipModuleUnload, void *module)
{
    TRY(call("hipModuleUnload", "%d", 0));
    TRY(may_allocate());
    return unmake(module);
}
FUNCTION(hipModuleGetFunction, void **function, void *module, const char *name)
{
    TRY(call("hipModuleGetFunction", "%s", name));
    *function = module;
    return strcmp(name, "missing") == 0 ? 500 : 0;
}
FUNCTION(hipFuncGetAttribute, int *value, int attribute, void *function)
{
    (void)function;
    *value = fake.static_shared;
    return attribute == 1 ? 0 : 1;
}
FUNCTION(hipModuleLaunchKernel, void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
         unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra)
{
    (void)function;
    TRY(call("hipModuleLaunchKernel", "%u %u %u, %u %u %u, %u, %d on %d", grid_x, grid_y, grid_z, block_x, block_y,
             block_z, shared, stream != NULL, selected));
    launched(stream, (grid_x * grid_y * grid_z * block_x) / block_x); /* 32 bits */
    return take_arguments(parameters, extra, 3);
}
FUNCTION(hipStreamCreateWithFlags, void **stream, unsigned flags)
{
    TRY(call("hipStreamCreate", "%u", flags));
    return make(stream);
}
FUNCTION(hipStreamDestroy, void *stream)
{
    return unmake(stream);
}
FUNCTION(hipStreamSynchronize, void *stream)
{
    TRY(call("hipStreamSynchronize", "%d", stream != NULL));
    return may_wait(stream);
}
FUNCTION(hipEventCreateWithFlags, void **event, unsigned flags)
{
    TRY(call("hipEventCreate", "%u", flags));
    return make(event);
}
FUNCTION(hipEventDestroy, void *event)
{
    return unmake(event);
}
FUNCTION(hipEventRecord, void *event, void *stream)
{
    return call("hipEventRecord", "%d %d", event != NULL, stream != NULL);
}
FUNCTION(hipEventSynchronize, void *event)
{
    return call("hipEventSynchronize", "%d", event != NULL);
}
FUNCTION(hipEventElapsedTime, float *milliseconds, void *begin, void *end)
{
    (void)begin, (void)end;
    *milliseconds = 1.5f;
    return call("hipEventElapsedTime", "%d", 0);
}
FUNCTION(hipStreamBeginCapture, void *stream, int mode)
{
    TRY(call("hipStreamBeginCapture", "%d %d", stream != NULL, mode));
    return begin_capture(stream, mode);
}
FUNCTION(hipStreamEndCapture, void *stream, void **graph)
{
    TRY(call("hipStreamEndCapture", "%d", stream != NULL));
    TRY(end_capture());
    return make(graph);
}
FUNCTION(hipStreamIsCapturing, void *stream, int *status)
{
    return capture_status(stream, status);
}
FUNCTION(hipThreadExchangeStreamCaptureMode, int *mode)
{
    TRY(call("hipThreadExchangeStreamCaptureMode", "%d", *mode));
    return exchange_mode(mode);
}
FUNCTION(hipGraphInstantiateWithFlags, void **executable, void *graph, unsigned long long flags)
{
    TRY(call("hipGraphInstantiateWithFlags", "%d %llu", graph != NULL, flags));
    return make(executable);
}
FUNCTION(hipGraphDestroy, void *graph)
{
    return unmake(graph);
}
FUNCTION(hipGraphLaunch, void *executable, void *stream)
{
    return call("hipGraphLaunch", "%d %d", executable != NULL, stream != NULL);
}
FUNCTION(hipGraphExecDestroy, void *executable)
{
    return unmake(executable);
}
