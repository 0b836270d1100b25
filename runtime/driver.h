/* driver.h - one table for hip, cuda, host and simulators.
 *
 * A driver is loaded by dlopen on first use and lives as long as the process. All may be live at once. Every function
 * returns a status whose message ends with the driver's own error text. Streams and memory are the caller's; the
 * caller's current context is used, else the device's primary one is retained. All functions are thread-safe.
 */
#ifndef RUNTIME_DRIVER_H
#define RUNTIME_DRIVER_H

#include "base/error.h"
#include "base/launch.h"
#include "base/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* how many processes the device serves at once (NVIDIA's compute modes; AMD's devices serve any number) */
enum driver_sharing { DRIVER_SHARED, DRIVER_EXCLUSIVE, DRIVER_PROHIBITED };

struct driver_device {
    int ordinal;
    struct target target; /* full ID as the driver says */
    char name[128];
    char driver_version[64]; /* "CUDA 13.0 (580.159)", "HIP 5.2", "host" */
    char pci[16];            /* 0000:03:00.0, "" where the driver does not tell (cuda and host never do) */
    int32_t compute_units;
    int32_t wave_size;
    int32_t max_threads;   /* a block */
    uint64_t shared_bytes; /* a block's limit, opt-in included */
    uint64_t memory_bytes;
    uint64_t memory_free_bytes; /* when asked */
    uint64_t cache_bytes;       /* last-level (L2), for rotating buffers; 0 unknown */
    int32_t power_limit_watts;  /* soft part of the fingerprint; 0 unknown */
    int32_t sharing;            /* enum driver_sharing */
    struct grid_limits grid;
};

/* opaque handles; meaning is the driver's (CUstream, hipStream_t, ...) */
typedef void *driver_stream; /* NULL: the default stream */
typedef void *driver_module;
typedef void *driver_function;
typedef void *driver_event;
typedef void *driver_graph;

struct driver_launch {
    driver_function function;
    uint32_t grid[3];
    uint32_t threads;
    uint32_t dynamic_shared_bytes;
    const void *arguments; /* packed as launch_layout says */
    uint32_t argument_bytes;
    const uint32_t *pointer_offsets; /* where pointers sit in arguments; for drivers that must relocate */
    int pointer_count;
};

struct driver {
    const char *name;   /* "cuda", "hip", "host", "sim" */
    const char *device; /* text of its only device ("sim:gfx906"); NULL: NAME:ordinal */

    attune_status (*count)(const struct driver *driver, int *count, struct error *error);
    attune_status (*describe)(const struct driver *driver, int ordinal, struct driver_device *device,
                              struct error *error);

    /* memory of the device; host's is plain memory. copy/fill are synchronous */
    attune_status (*allocate)(const struct driver *driver, int ordinal, size_t bytes, void **pointer,
                              struct error *error);
    attune_status (*release)(const struct driver *driver, int ordinal, void *pointer, struct error *error);
    attune_status (*copy_in)(const struct driver *driver, int ordinal, void *device, const void *host, size_t bytes,
                             struct error *error);
    attune_status (*copy_out)(const struct driver *driver, int ordinal, void *host, const void *device, size_t bytes,
                              struct error *error);
    attune_status (*fill)(const struct driver *driver, int ordinal, void *device, uint8_t value, size_t bytes,
                          struct error *error);

    /* `kernel` is looked up at once; dynamic shared memory above the default limit is opted in to here */
    attune_status (*load)(const struct driver *driver, int ordinal, const void *object, size_t bytes,
                          const char *kernel, uint32_t dynamic_shared_bytes, driver_module *module,
                          driver_function *function, struct error *error);
    attune_status (*unload)(const struct driver *driver, int ordinal, driver_module module, struct error *error);

    /* asynchronous on GPUs; neither allocates nor synchronises; may be captured */
    attune_status (*launch)(const struct driver *driver, int ordinal, const struct driver_launch *launch,
                            driver_stream stream, struct error *error);

    attune_status (*stream_create)(const struct driver *driver, int ordinal, driver_stream *stream,
                                   struct error *error);
    attune_status (*stream_destroy)(const struct driver *driver, int ordinal, driver_stream stream,
                                    struct error *error);
    attune_status (*synchronize)(const struct driver *driver, int ordinal, driver_stream stream, struct error *error);

    attune_status (*event_create)(const struct driver *driver, int ordinal, driver_event *event, struct error *error);
    attune_status (*event_destroy)(const struct driver *driver, int ordinal, driver_event event, struct error *error);
    attune_status (*event_record)(const struct driver *driver, int ordinal, driver_event event, driver_stream stream,
                                  struct error *error);
    attune_status (*event_elapsed)(const struct driver *driver, int ordinal, driver_event begin, driver_event end,
                                   double *milliseconds, struct error *error);

    /* graphs: begin capture on a stream, end into an executable graph, replay; NULL members where a driver has none */
    attune_status (*graph_begin)(const struct driver *driver, int ordinal, driver_stream stream, struct error *error);
    attune_status (*graph_end)(const struct driver *driver, int ordinal, driver_stream stream, driver_graph *graph,
                               struct error *error);
    attune_status (*graph_replay)(const struct driver *driver, int ordinal, driver_graph graph, driver_stream stream,
                                  struct error *error);
    attune_status (*graph_destroy)(const struct driver *driver, int ordinal, driver_graph graph, struct error *error);

    /* make the calling thread tolerant of other threads' captures while we allocate and load; begin/end pair; may be
     * NULL */
    void (*relax_capture)(const struct driver *driver, bool begin);

    /* is the stream being captured, or its capture broken? Disturbs no capture; may be NULL, where there are none */
    attune_status (*capturing)(const struct driver *driver, int ordinal, driver_stream stream, bool *capturing,
                               struct error *error);
};

/* ATTUNE_NO_DEVICE with the reason (library not found, driver's text) when it cannot be used. The table lives forever.
 */
attune_status driver_get(const char *name, const struct driver **driver, struct error *error);
/* names of the drivers that list devices, in order of preference: cuda, hip, host; NULL past the end. Simulators list
 * none: simulator.h. */
const char *driver_name(int index);

/* `cuda:0`, `hip:1`, `host`, `cuda` (= :0), `sim:gfx906` -> driver and ordinal; "" or "best": first GPU, else host,
 * never a simulator */
attune_status driver_parse_device(const char *text, const struct driver **driver, int *ordinal, struct error *error);

/* the text that driver_parse_device gives this device for */
enum { DRIVER_DEVICE_BYTES = 80 };
void driver_format_device(const struct driver *driver, int ordinal, char text[DRIVER_DEVICE_BYTES]);

/* does time on its devices mean anything? Not on the host and not in a simulator. */
bool driver_has_times(const struct driver *driver);

#endif
