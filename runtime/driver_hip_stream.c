/* driver_hip_stream.c - the hip driver's streams, events and graphs. */
#include "runtime/driver_hip.h"

enum { HIP_STREAM_NON_BLOCKING = 1, HIP_CAPTURE_THREAD_LOCAL = 1, HIP_CAPTURE_RELAXED = 2 };

/* ------------------------------------------------------------------------------------------------ streams and events
 */

attune_status hip_stream_create(const struct driver *driver, int ordinal, driver_stream *stream, struct error *error)
{
    (void)driver;
    int previous;
    *stream = NULL;
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = hip_api()->stream_create(stream, HIP_STREAM_NON_BLOCKING);
    hip_leave(ordinal, previous);
    return hip_result_of(error, code, "hipStreamCreate", ordinal);
}

attune_status hip_stream_destroy(const struct driver *driver, int ordinal, driver_stream stream, struct error *error)
{
    (void)driver;
    return hip_result_of(error, hip_api()->stream_destroy(stream), "hipStreamDestroy", ordinal);
}

attune_status hip_synchronize(const struct driver *driver, int ordinal, driver_stream stream, struct error *error)
{
    (void)driver;
    int previous; /* the NULL stream is the current device's */
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = hip_api()->stream_synchronize(stream);
    hip_leave(ordinal, previous);
    return hip_result_of(error, code, "hipStreamSynchronize", ordinal);
}

attune_status hip_event_create(const struct driver *driver, int ordinal, driver_event *event, struct error *error)
{
    (void)driver;
    int previous;
    *event = NULL;
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = hip_api()->event_create(event, 0);
    hip_leave(ordinal, previous);
    return hip_result_of(error, code, "hipEventCreate", ordinal);
}

attune_status hip_event_destroy(const struct driver *driver, int ordinal, driver_event event, struct error *error)
{
    (void)driver;
    return hip_result_of(error, hip_api()->event_destroy(event), "hipEventDestroy", ordinal);
}

attune_status hip_event_record(const struct driver *driver, int ordinal, driver_event event, driver_stream stream,
                               struct error *error)
{
    (void)driver;
    int previous;
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = hip_api()->event_record(event, stream);
    hip_leave(ordinal, previous);
    return hip_result_of(error, code, "hipEventRecord", ordinal);
}

attune_status hip_event_elapsed(const struct driver *driver, int ordinal, driver_event begin, driver_event end,
                                double *milliseconds, struct error *error)
{
    (void)driver;
    float elapsed = 0;
    hip_result code = hip_api()->event_synchronize(end);
    if (code == HIP_SUCCESS) {
        code = hip_api()->event_elapsed(&elapsed, begin, end);
    }
    *milliseconds = elapsed;
    return hip_result_of(error, code, "hipEventElapsedTime", ordinal);
}

/* ------------------------------------------------------------------------------------------------ graphs */

attune_status hip_graph_begin(const struct driver *driver, int ordinal, driver_stream stream, struct error *error)
{
    (void)driver;
    return hip_result_of(error, hip_api()->capture_begin(stream, HIP_CAPTURE_THREAD_LOCAL), "hipStreamBeginCapture",
                         ordinal);
}

attune_status hip_graph_end(const struct driver *driver, int ordinal, driver_stream stream, driver_graph *graph,
                            struct error *error)
{
    (void)driver;
    int previous;
    void *captured = NULL;
    *graph = NULL;
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = hip_api()->capture_end(stream, &captured);
    if (code != HIP_SUCCESS) {
        status = hip_failed(error, code, "hipStreamEndCapture on hip:%d", ordinal);
    } else if (hip_api()->graph_instantiate == NULL) {
        status = error_set(error, ATTUNE_UNSUPPORTED, "hip:%d: %s cannot instantiate graphs; HIP 4.5 or later can",
                           ordinal, hip_version());
    } else {
        code = hip_api()->graph_instantiate(graph, captured, 0);
        status = hip_result_of(error, code, "hipGraphInstantiateWithFlags", ordinal);
    }
    if (captured != NULL) {
        hip_api()->graph_destroy(captured);
    }
    hip_leave(ordinal, previous);
    return status;
}

attune_status hip_graph_replay(const struct driver *driver, int ordinal, driver_graph graph, driver_stream stream,
                               struct error *error)
{
    (void)driver;
    int previous;
    attune_status status = hip_enter(ordinal, &previous, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    hip_result code = hip_api()->graph_launch(graph, stream);
    hip_leave(ordinal, previous);
    return hip_result_of(error, code, "hipGraphLaunch", ordinal);
}

attune_status hip_graph_destroy(const struct driver *driver, int ordinal, driver_graph graph, struct error *error)
{
    (void)driver;
    return hip_result_of(error, hip_api()->graph_executable_destroy(graph), "hipGraphExecDestroy", ordinal);
}

void hip_relax_capture(const struct driver *driver, bool begin)
{
    (void)driver;
    static _Thread_local int depth;
    static _Thread_local int previous; /* the caller's mode; valid while depth > 0 */
    if (hip_api()->capture_mode == NULL) {
        return; /* such releases know no capture that another thread could break */
    }
    int mode = begin ? HIP_CAPTURE_RELAXED : previous;
    if (begin ? depth++ == 0 : --depth == 0) {
        hip_api()->capture_mode(&mode);
        previous = mode;
    }
}

/* The default stream (NULL) is never captured, and asking about it while another stream is would be an error. */
attune_status hip_capturing(const struct driver *driver, int ordinal, driver_stream stream, bool *capturing,
                            struct error *error)
{
    (void)driver;
    int status = 0;
    *capturing = false;
    if (stream == NULL || hip_api()->capture_status == NULL) {
        return ATTUNE_OK;
    }
    hip_result code = hip_api()->capture_status(stream, &status);
    *capturing = status != 0; /* active or invalidated */
    return hip_result_of(error, code, "hipStreamIsCapturing", ordinal);
}
