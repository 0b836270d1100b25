/* device_memory.h - just enough of CUDA and HIP for an example: attune leaves memory to its caller, and a real engine
 * has an allocator of its own. By dlopen, so that the example builds without either toolkit. Every function returns 0
 * on success.
 */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device_memory {
    enum { MEMORY_HOST, MEMORY_CUDA, MEMORY_HIP } kind;
    int (*cuda_allocate)(unsigned long long *pointer, size_t bytes);
    int (*cuda_in)(unsigned long long device, const void *host, size_t bytes);
    int (*cuda_out)(void *host, unsigned long long device, size_t bytes); /* waits for the default stream */
    int (*hip_allocate)(void **pointer, size_t bytes);
    int (*hip_copy)(void *to, const void *from, size_t bytes, int kind);
};

static void *device_memory_symbol(void *library, const char *name, int *missing)
{
    void *symbol = library != NULL ? dlsym(library, name) : NULL;
    if (symbol == NULL) {
        fprintf(stderr, "device memory: %s is missing\n", name);
        *missing = 1;
    }
    return symbol;
}

/* `target` as attune_device_describe says: sm_90a, gfx906, host; first device of its driver */
static int device_memory_open(struct device_memory *memory, const char *target)
{
    int missing = 0;
    *memory = (struct device_memory){.kind = MEMORY_HOST};
    if (strncmp(target, "sm_", 3) == 0) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        int (*init)(unsigned) = (int (*)(unsigned))device_memory_symbol(library, "cuInit", &missing);
        int (*retain)(void **, int) =
            (int (*)(void **, int))device_memory_symbol(library, "cuDevicePrimaryCtxRetain", &missing);
        int (*set)(void *) = (int (*)(void *))device_memory_symbol(library, "cuCtxSetCurrent", &missing);
        void *context = NULL;
        memory->kind = MEMORY_CUDA;
        memory->cuda_allocate =
            (int (*)(unsigned long long *, size_t))device_memory_symbol(library, "cuMemAlloc_v2", &missing);
        memory->cuda_in = (int (*)(unsigned long long, const void *, size_t))device_memory_symbol(
            library, "cuMemcpyHtoD_v2", &missing);
        memory->cuda_out =
            (int (*)(void *, unsigned long long, size_t))device_memory_symbol(library, "cuMemcpyDtoH_v2", &missing);
        return missing || init(0) || retain(&context, 0) || set(context);
    }
    if (strncmp(target, "gfx", 3) == 0) {
        static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
        void *library = NULL;
        for (int i = 0; i < 3 && library == NULL; i++) {
            library = dlopen(names[i], RTLD_NOW);
        }
        memory->kind = MEMORY_HIP;
        memory->hip_allocate = (int (*)(void **, size_t))device_memory_symbol(library, "hipMalloc", &missing);
        memory->hip_copy =
            (int (*)(void *, const void *, size_t, int))device_memory_symbol(library, "hipMemcpy", &missing);
        return missing;
    }
    return 0;
}

/* device memory with a copy of `host` in it, or just memory when host is NULL; the program ends when there is none */
static void *device_memory_new(const struct device_memory *memory, const void *host, size_t bytes)
{
    unsigned long long address = 0;
    void *pointer = NULL;
    int failed = 0;
    switch (memory->kind) {
    case MEMORY_CUDA:
        failed = memory->cuda_allocate(&address, bytes) || (host != NULL && memory->cuda_in(address, host, bytes));
        pointer = (void *)(size_t)address;
        break;
    case MEMORY_HIP:
        failed = memory->hip_allocate(&pointer, bytes) ||
                 (host != NULL && memory->hip_copy(pointer, host, bytes, 1 /* host to device */));
        break;
    case MEMORY_HOST:
        pointer = malloc(bytes);
        failed = pointer == NULL;
        if (!failed && host != NULL) {
            memcpy(pointer, host, bytes);
        }
        break;
    }
    if (failed) {
        fprintf(stderr, "device memory: %zu bytes cannot be had\n", bytes);
        exit(1);
    }
    return pointer;
}

static int device_memory_read(const struct device_memory *memory, void *host, const void *device, size_t bytes)
{
    switch (memory->kind) {
    case MEMORY_CUDA:
        return memory->cuda_out(host, (unsigned long long)(size_t)device, bytes);
    case MEMORY_HIP:
        return memory->hip_copy(host, device, bytes, 2 /* device to host */);
    case MEMORY_HOST:
        break;
    }
    memcpy(host, device, bytes);
    return 0;
}

#endif
