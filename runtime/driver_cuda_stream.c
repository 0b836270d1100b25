/* driver_cuda_stream.c - the cuda driver's streams, events and graphs. */
#include "runtime/driver_cuda.h"

enum { CU_STREAM_NON_BLOCKING = 1, CU_CAPTURE_THREAD_LOCAL = 1, CU_CAPTURE_RELAXED = 2 };

/* ------------------------------------------------------------------------------------------------ streams and events
 */

attune_status cuda_stream_create(const struct driver *driver, int ordinal, driver_stream *stream, struct error *error)
{
    (void)driver;
    *stream = NULL;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->stream_create(stream, CU_STREAM_NON_BLOCKING);
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuStreamCreate on cuda:%d", ordinal);
}

attune_status cuda_stream_destroy(const struct driver *driver, int ordinal, driver_stream stream, struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->stream_destroy(stream);
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuStreamDestroy on cuda:%d", ordinal);
}

attune_status cuda_synchronize(const struct driver *driver, int ordinal, driver_stream stream, struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->stream_synchronize(stream);
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "waiting for cuda:%d", ordinal);
}

attune_status cuda_event_create(const struct driver *driver, int ordinal, driver_event *event, struct error *error)
{
    (void)driver;
    *event = NULL;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->event_create(event, 0);
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuEventCreate on cuda:%d", ordinal);
}

attune_status cuda_event_destroy(const struct driver *driver, int ordinal, driver_event event, struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->event_destroy(event);
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuEventDestroy on cuda:%d", ordinal);
}

attune_status cuda_event_record(const struct driver *driver, int ordinal, driver_event event, driver_stream stream,
                                struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->event_record(event, stream);
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuEventRecord on cuda:%d", ordinal);
}

attune_status cuda_event_elapsed(const struct driver *driver, int ordinal, driver_event begin, driver_event end,
                                 double *milliseconds, struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    float elapsed = 0;
    cu_result code = cuda_api()->event_synchronize(end);
    if (code == CU_SUCCESS) {
        code = cuda_api()->event_elapsed(&elapsed, begin, end);
    }
    cuda_leave(pushed);
    *milliseconds = elapsed;
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "timing on cuda:%d", ordinal);
}

/* ------------------------------------------------------------------------------------------------ graphs */

attune_status cuda_graph_begin(const struct driver *driver, int ordinal, driver_stream stream, struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->capture_begin(stream, CU_CAPTURE_THREAD_LOCAL);
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuStreamBeginCapture on cuda:%d", ordinal);
}

attune_status cuda_graph_end(const struct driver *driver, int ordinal, driver_stream stream, driver_graph *graph,
                             struct error *error)
{
    (void)driver;
    *graph = NULL;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    void *captured = NULL;
    cu_result code = cuda_api()->capture_end(stream, &captured);
    if (code == CU_SUCCESS) {
        code = cuda_api()->graph_instantiate(graph, captured, 0);
    }
    if (captured != NULL) {
        cuda_api()->graph_destroy(captured);
    }
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "ending a capture on cuda:%d", ordinal);
}

attune_status cuda_graph_replay(const struct driver *driver, int ordinal, driver_graph graph, driver_stream stream,
                                struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->graph_launch(graph, stream);
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuGraphLaunch on cuda:%d", ordinal);
}

attune_status cuda_graph_destroy(const struct driver *driver, int ordinal, driver_graph graph, struct error *error)
{
    (void)driver;
    bool pushed;
    attune_status status = cuda_enter(ordinal, &pushed, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    cu_result code = cuda_api()->graph_executable_destroy(graph);
    cuda_leave(pushed);
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuGraphExecDestroy on cuda:%d", ordinal);
}

void cuda_relax_capture(const struct driver *driver, bool begin)
{
    (void)driver;
    static _Thread_local int depth;
    static _Thread_local int previous; /* the caller's mode; valid while depth > 0 */
    int mode = begin ? CU_CAPTURE_RELAXED : previous;
    if (begin ? depth++ == 0 : --depth == 0) {
        cuda_api()->capture_mode(&mode);
        previous = mode;
    }
}

/* The legacy default stream (NULL) is never captured, and asking about it while another stream is would be an error. */
attune_status cuda_capturing(const struct driver *driver, int ordinal, driver_stream stream, bool *capturing,
                             struct error *error)
{
    (void)driver;
    int status = 0;
    *capturing = false;
    if (stream == NULL) {
        return ATTUNE_OK;
    }
    cu_result code = cuda_api()->capture_status(stream, &status);
    *capturing = status != 0; /* active or invalidated */
    return code == CU_SUCCESS ? ATTUNE_OK : cuda_failed(error, code, "cuStreamIsCapturing on cuda:%d", ordinal);
}
