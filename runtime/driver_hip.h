/* driver_hip.h - what the parts of the hip driver share: libamdhip64's functions, errors, the current device; private
 * to the driver. Prototypes and constants are written out after the HIP headers of ROCm 5.2, 5.5, 6.x and 7.x. */
#ifndef RUNTIME_DRIVER_HIP_H
#define RUNTIME_DRIVER_HIP_H

#include "runtime/driver.h"

typedef int hip_result;

enum {
    HIP_SUCCESS = 0,
    HIP_OUT_OF_MEMORY = 2,
    HIP_NOT_INITIALIZED = 3,
    HIP_INSUFFICIENT_DRIVER = 35,
    HIP_NO_DEVICE = 100,
    HIP_INVALID_DEVICE = 101
};

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
    hip_result (*device_pci)(char *address, int length, int device); /* NULL where the library lacks it */
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
    hip_result (*capture_status)(void *stream, int *status);
    hip_result (*graph_instantiate)(void **executable, void *graph, unsigned long long flags);
    hip_result (*graph_destroy)(void *graph);
    hip_result (*graph_launch)(void *executable, void *stream);
    hip_result (*graph_executable_destroy)(void *executable);
};

/* Load the library and start the driver, once a process; later calls give the same answer. */
attune_status hip_open(struct error *error);

/* all below only after hip_open gave ATTUNE_OK */
const struct hip_functions *hip_api(void);
int hip_device_count(void);
const char *hip_version(void); /* "HIP 5.2.21153" */

/* "what: hipErrorX: text (number)"; the status says whether memory, the device or something else is the matter */
attune_status hip_failed(struct error *error, hip_result code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* ATTUNE_OK for success, else "what on hip:N: ..." */
attune_status hip_result_of(struct error *error, hip_result code, const char *what, int ordinal);

/* Make the device the thread's current one for a call; *previous is for hip_leave. */
attune_status hip_enter(int ordinal, int *previous, struct error *error);
void hip_leave(int ordinal, int previous);

/* streams, events, graphs: entries of the driver's table, in driver_hip_stream.c */
attune_status hip_stream_create(const struct driver *driver, int ordinal, driver_stream *stream, struct error *error);
attune_status hip_stream_destroy(const struct driver *driver, int ordinal, driver_stream stream, struct error *error);
attune_status hip_synchronize(const struct driver *driver, int ordinal, driver_stream stream, struct error *error);
attune_status hip_event_create(const struct driver *driver, int ordinal, driver_event *event, struct error *error);
attune_status hip_event_destroy(const struct driver *driver, int ordinal, driver_event event, struct error *error);
attune_status hip_event_record(const struct driver *driver, int ordinal, driver_event event, driver_stream stream,
                               struct error *error);
attune_status hip_event_elapsed(const struct driver *driver, int ordinal, driver_event begin, driver_event end,
                                double *milliseconds, struct error *error);
attune_status hip_graph_begin(const struct driver *driver, int ordinal, driver_stream stream, struct error *error);
attune_status hip_graph_end(const struct driver *driver, int ordinal, driver_stream stream, driver_graph *graph,
                            struct error *error);
attune_status hip_graph_replay(const struct driver *driver, int ordinal, driver_graph graph, driver_stream stream,
                               struct error *error);
attune_status hip_graph_destroy(const struct driver *driver, int ordinal, driver_graph graph, struct error *error);
void hip_relax_capture(const struct driver *driver, bool begin);
attune_status hip_capturing(const struct driver *driver, int ordinal, driver_stream stream, bool *capturing,
                            struct error *error);

#endif
