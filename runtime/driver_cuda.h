/* driver_cuda.h - what the parts of the cuda driver share: libcuda's functions, errors, contexts; private to the
 * driver.
 *
 * Prototypes and constants are written out here after the CUDA 11.4 - 13.0 driver API; none of them has changed in
 * those.
 */
#ifndef RUNTIME_DRIVER_CUDA_H
#define RUNTIME_DRIVER_CUDA_H

#include "runtime/driver.h"

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
    CU_COMPUTE_MODE = 20,
    CU_L2_CACHE_SIZE = 38,
    CU_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_COMPUTE_CAPABILITY_MINOR = 76,
    CU_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};
enum { CU_COMPUTE_MODE_PROHIBITED = 2, CU_COMPUTE_MODE_EXCLUSIVE_PROCESS = 3 };
enum { CU_FUNC_SHARED_SIZE_BYTES = 1, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
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
    cu_result (*capture_status)(void *stream, int *status);
    cu_result (*graph_instantiate)(void **executable, void *graph, unsigned long long flags);
    cu_result (*graph_destroy)(void *graph);
    cu_result (*graph_launch)(void *executable, void *stream);
    cu_result (*graph_executable_destroy)(void *executable);
};

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
/* Load the libraries and start the driver, once a process; later calls give the same answer. */
attune_status cuda_open(struct error *error);

/* all below only after cuda_open gave ATTUNE_OK */
const struct cuda_functions *cuda_api(void);
const struct nvml_functions *cuda_nvml(void); /* NULL when the management library cannot be used */
int cuda_device_count(void);
bool cuda_has_primary(int ordinal); /* retained already: using it costs nothing */

/* "what: CUDA_ERROR_X: text (number)"; the status says whether memory, the device or something else is the matter */
attune_status cuda_failed(struct error *error, cu_result code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
attune_status cuda_ordinal(int ordinal, struct error *error); /* ATTUNE_NO_DEVICE outside 0 .. count - 1 */

/* Make a context of the device, or this very context, current for one call; *pushed is for cuda_leave. */
attune_status cuda_enter(int ordinal, bool *pushed, struct error *error);
attune_status cuda_enter_context(cu_context context, bool *pushed, struct error *error);
void cuda_leave(bool pushed);

/* streams, events, graphs: entries of the driver's table, in driver_cuda_stream.c */
attune_status cuda_stream_create(const struct driver *driver, int ordinal, driver_stream *stream, struct error *error);
attune_status cuda_stream_destroy(const struct driver *driver, int ordinal, driver_stream stream, struct error *error);
attune_status cuda_synchronize(const struct driver *driver, int ordinal, driver_stream stream, struct error *error);
attune_status cuda_event_create(const struct driver *driver, int ordinal, driver_event *event, struct error *error);
attune_status cuda_event_destroy(const struct driver *driver, int ordinal, driver_event event, struct error *error);
attune_status cuda_event_record(const struct driver *driver, int ordinal, driver_event event, driver_stream stream,
                                struct error *error);
attune_status cuda_event_elapsed(const struct driver *driver, int ordinal, driver_event begin, driver_event end,
                                 double *milliseconds, struct error *error);
attune_status cuda_graph_begin(const struct driver *driver, int ordinal, driver_stream stream, struct error *error);
attune_status cuda_graph_end(const struct driver *driver, int ordinal, driver_stream stream, driver_graph *graph,
                             struct error *error);
attune_status cuda_graph_replay(const struct driver *driver, int ordinal, driver_graph graph, driver_stream stream,
                                struct error *error);
attune_status cuda_graph_destroy(const struct driver *driver, int ordinal, driver_graph graph, struct error *error);
void cuda_relax_capture(const struct driver *driver, bool begin);
attune_status cuda_capturing(const struct driver *driver, int ordinal, driver_stream stream, bool *capturing,
                             struct error *error);

#endif
