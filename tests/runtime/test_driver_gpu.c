/* test_driver_gpu.c - the cuda and hip drivers on stand-in libraries that record what is asked of them.
 *
 * Built once for each stand-in: TEST_CUDA or TEST_HIP, FAKE_PATH is the library. Each is a program of its own, since a
 * driver is loaded once a process.
 */
#include "fake_library.h"
#include "runtime/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>

#include <cmocka.h>

#ifdef TEST_CUDA
#define NAME "cuda"
#define P "cu"
#define OUT_OF_MEMORY_NAME "CUDA_ERROR_OUT_OF_MEMORY"
#define LAUNCH "cuLaunchKernel"
#define MALLOC "cuMemAlloc"
#else
#define NAME "hip"
#define P "hip"
#define OUT_OF_MEMORY_NAME "hipErrorOutOfMemory"
#define LAUNCH "hipModuleLaunchKernel"
#define MALLOC "hipMalloc"
#endif

static const struct driver *gpu;
static struct fake *fake;
static void *library;
static const char object[64] = "\177ELF";

static void forget(void)
{
    fake->log[0] = '\0';
    fake->fail_name[0] = '\0';
    fake->static_shared = 0;
    fake->blocks_run = 0;
    fake->other_captures = false;
}

static void fail_next(const char *name, int code)
{
    snprintf(fake->fail_name, sizeof fake->fail_name, "%s", name);
    fake->fail_code = code;
}

static void assert_logged(const char *line)
{
    if (strstr(fake->log, line) == NULL) {
        fail_msg("\"%s\" is not among the calls:\n%s", line, fake->log);
    }
}

static void assert_message(const struct error *error, const char *part)
{
    if (strstr(error->message, part) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", error->message, part);
    }
}

static void devices_are_described(void **state)
{
    (void)state;
    struct driver_device device;
    struct error error = {0};
    char target[TARGET_TEXT_BYTES];
    int count = 0;
    forget();
    assert_int_equal(gpu->count(gpu, &count, &error), ATTUNE_OK);
    assert_int_equal(count, 2);
    for (int i = 0; i < 2; i++) {
        if (gpu->describe(gpu, i, &device, &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        target_format(&device.target, target);
        assert_int_equal(device.ordinal, i);
#ifdef TEST_CUDA
        assert_string_equal(target, i == 0 ? "sm_90a" : "sm_86");
        assert_string_equal(device.name, i == 0 ? "Fake GPU 0" : "Fake GPU 1");
        assert_int_equal(device.compute_units, 132);
        assert_int_equal(device.wave_size, 32);
        assert_int_equal(device.shared_bytes, i == 0 ? 232448 : 101376);
        assert_int_equal(device.grid.blocks[1], 65535);
        assert_int_equal(device.grid.work_items, 0);
        assert_int_equal(strncmp(device.driver_version, "CUDA 13.0", 9), 0);
        assert_true(device.memory_bytes == (uint64_t)80 << 30);
#else
        assert_string_equal(target, i == 0 ? "gfx906:sramecc+:xnack-" : "gfx90a:sramecc+:xnack-");
        assert_string_equal(device.name, i == 0 ? "Fake Instinct MI50" : "AMD gfx90a:sramecc+:xnack-");
        assert_int_equal(device.compute_units, i == 0 ? 60 : 104);
        assert_int_equal(device.wave_size, 64);
        assert_int_equal(device.shared_bytes, 65536);
        assert_true(device.grid.work_items == (uint64_t)1 << 32);
        assert_string_equal(device.driver_version, FAKE_VERSION_TEXT);
        const bool old = strncmp(FAKE_VERSION_TEXT, "HIP 5", 5) == 0; /* that stand-in has no such function */
        assert_string_equal(device.pci, old ? "" : i == 0 ? "0000:03:00.0" : "0000:04:00.0");
        assert_true(device.memory_bytes == (uint64_t)(i == 0 ? 16 : 64) << 30);
#endif
        assert_int_equal(device.max_threads, 1024);
        assert_true(device.cache_bytes > 0 && device.memory_free_bytes > 0);
    }
#ifdef TEST_CUDA
    for (int mode = 0; mode < 4; mode++) { /* 1 was "exclusive thread", which drivers of today do not have */
        fake->compute_mode = mode;
        assert_int_equal(gpu->describe(gpu, 0, &device, &error), ATTUNE_OK);
        assert_int_equal(device.sharing, mode == 3 ? DRIVER_EXCLUSIVE : mode == 2 ? DRIVER_PROHIBITED : DRIVER_SHARED);
    }
    fake->compute_mode = 0;
#else
    assert_int_equal(device.sharing, DRIVER_SHARED);
#endif
    assert_int_equal(gpu->describe(gpu, 2, &device, &error), ATTUNE_NO_DEVICE);
    assert_message(&error, NAME ":2");
}

static void devices_are_found_by_text(void **state)
{
    (void)state;
    const struct driver *driver;
    int ordinal;
    struct error error;
    assert_int_equal(driver_parse_device(NAME ":1", &driver, &ordinal, &error), ATTUNE_OK);
    assert_ptr_equal(driver, gpu);
    assert_int_equal(ordinal, 1);
    assert_int_equal(driver_parse_device(NAME, &driver, &ordinal, &error), ATTUNE_OK);
    assert_int_equal(ordinal, 0);
    assert_int_equal(driver_parse_device("best", &driver, &ordinal, &error), ATTUNE_OK);
    assert_ptr_equal(driver, gpu);
    assert_int_equal(driver_parse_device(NAME ":2", &driver, &ordinal, &error), ATTUNE_NO_DEVICE);
    assert_message(&error, "2 devices");
}

static void memory_is_copied_and_filled_synchronously(void **state)
{
    (void)state;
    struct error error = {0};
    void *memory;
    char in[100], out[100];
    memset(in, 7, sizeof in);
    forget();
    int live = fake->live;
    assert_int_equal(gpu->allocate(gpu, 1, sizeof in, &memory, &error), ATTUNE_OK);
    assert_int_equal(gpu->copy_in(gpu, 1, memory, in, sizeof in, &error), ATTUNE_OK);
    assert_int_equal(gpu->copy_out(gpu, 1, out, memory, sizeof out, &error), ATTUNE_OK);
    assert_memory_equal(in, out, sizeof in);
    assert_logged(P "MemcpyHtoD 100");
    assert_logged(P "StreamSynchronize 0");
    forget();
    assert_int_equal(gpu->fill(gpu, 1, memory, 0xff, sizeof in, &error), ATTUNE_OK);
    assert_logged(P "MemsetD8 100");
    assert_logged(P "StreamSynchronize 0");
    assert_int_equal(*(unsigned char *)memory, 0xff);
    assert_int_equal(gpu->release(gpu, 1, memory, &error), ATTUNE_OK);
    assert_int_equal(gpu->release(gpu, 1, NULL, &error), ATTUNE_OK);
    assert_int_equal(fake->live, live);
    /* nothing to do asks nothing of the driver */
    forget();
    assert_int_equal(gpu->copy_in(gpu, 1, NULL, NULL, 0, &error), ATTUNE_OK);
    assert_int_equal(gpu->copy_out(gpu, 1, NULL, NULL, 0, &error), ATTUNE_OK);
    assert_int_equal(gpu->fill(gpu, 1, NULL, 0, 0, &error), ATTUNE_OK);
    assert_string_equal(fake->log, "");
}

static void launch_passes_packed_arguments(void **state)
{
    (void)state;
    struct error error = {0};
    driver_module module;
    driver_function function;
    driver_stream stream;
    const char arguments[40] = "0123456789abcdefghijklmnopqrstuvwxyz";
    forget();
    int live = fake->live;
    assert_int_equal(gpu->stream_create(gpu, 0, &stream, &error), ATTUNE_OK);
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "attention", 0, &module, &function, &error), ATTUNE_OK);
    assert_logged(P "ModuleGetFunction attention");
    struct driver_launch launch = {.function = function,
                                   .grid = {3, 4, 5},
                                   .threads = 256,
                                   .dynamic_shared_bytes = 128,
                                   .arguments = arguments,
                                   .argument_bytes = sizeof arguments};
    forget();
    assert_int_equal(gpu->launch(gpu, 0, &launch, stream, &error), ATTUNE_OK);
    assert_logged(LAUNCH " 3 4 5, 256 1 1, 128, 1 on 0");
    assert_int_equal(fake->argument_bytes, sizeof arguments);
    assert_memory_equal(fake->arguments, arguments, sizeof arguments);
    /* neither allocates nor waits */
    assert_null(strstr(fake->log, "Synchronize"));
    assert_null(strstr(fake->log, MALLOC));
    assert_int_equal(gpu->synchronize(gpu, 0, stream, &error), ATTUNE_OK);
    assert_logged(P "StreamSynchronize 1");
    assert_int_equal(gpu->unload(gpu, 0, module, &error), ATTUNE_OK);
    assert_int_equal(gpu->stream_destroy(gpu, 0, stream, &error), ATTUNE_OK);
    assert_int_equal(fake->live, live);
}

static void errors_carry_the_drivers_text(void **state)
{
    (void)state;
    struct error error = {0};
    void *memory;
    driver_module module;
    driver_function function;
    forget();
    int live = fake->live;
    fail_next(MALLOC, 2);
    assert_int_equal(gpu->allocate(gpu, 0, 12345, &memory, &error), ATTUNE_NO_MEMORY);
    assert_null(memory);
    assert_message(&error, "12345 bytes on " NAME ":0: " OUT_OF_MEMORY_NAME ": out of memory (2)");
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "missing", 0, &module, &function, &error),
                     ATTUNE_DEVICE_FAILED);
    assert_message(&error, "kernel missing");
    assert_message(&error, "(500)");
    assert_null(module);
    fail_next(P "ModuleLoadData", 209);
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "k", 0, &module, &function, &error),
                     ATTUNE_DEVICE_FAILED);
    assert_message(&error, "(209)");
    assert_int_equal(gpu->load(gpu, 0, "no object", 9, "k", 0, &module, &function, &error), ATTUNE_CORRUPT);
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "k", 0, &module, &function, &error), ATTUNE_OK);
    struct driver_launch launch = {.function = function, .grid = {1, 1, 1}, .threads = 2048, .arguments = object};
    fail_next(LAUNCH, 701);
    assert_int_equal(gpu->launch(gpu, 0, &launch, NULL, &error), ATTUNE_DEVICE_FAILED);
    assert_message(&error, "of k on " NAME ":0 (grid 1 x 1 x 1, 2048 threads");
    fail_next(P "StreamSynchronize", 700);
    assert_int_equal(gpu->synchronize(gpu, 0, NULL, &error), ATTUNE_DEVICE_FAILED);
    assert_message(&error, "an illegal memory access was encountered (700)");
    assert_int_equal(gpu->unload(gpu, 0, module, &error), ATTUNE_OK);
    assert_int_equal(fake->live, live);
}

static void shared_memory_is_checked_when_loading(void **state)
{
    (void)state;
    struct error error = {0};
    driver_module module;
    driver_function function;
    forget();
    int live = fake->live;
    fake->static_shared = 16384;
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "k", 32768, &module, &function, &error), ATTUNE_OK);
    assert_null(strstr(fake->log, "FuncSetAttribute"));
    gpu->unload(gpu, 0, module, NULL);
#ifdef TEST_CUDA
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "k", 65536, &module, &function, &error), ATTUNE_OK);
    assert_logged("cuFuncSetAttribute 8 65536");
    gpu->unload(gpu, 0, module, NULL);
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "k", 232448 - 16384 + 1, &module, &function, &error),
                     ATTUNE_INVALID);
    assert_message(&error, "16384 + 216065 bytes of shared memory; cuda:0 allows 232448");
#else
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "k", 49152, &module, &function, &error), ATTUNE_OK);
    gpu->unload(gpu, 0, module, NULL);
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "k", 49156, &module, &function, &error), ATTUNE_INVALID);
    assert_message(&error, "16384 + 49156 bytes of LDS; hip:0 allows 65536");
#endif
    assert_int_equal(fake->live, live);
}

static void events_and_graphs_work(void **state)
{
    (void)state;
    struct error error = {0};
    driver_event begin, end;
    driver_stream stream;
    driver_graph graph;
    double milliseconds = 0;
    forget();
    int live = fake->live;
    assert_int_equal(gpu->stream_create(gpu, 1, &stream, &error), ATTUNE_OK);
    assert_int_equal(gpu->event_create(gpu, 1, &begin, &error), ATTUNE_OK);
    assert_int_equal(gpu->event_create(gpu, 1, &end, &error), ATTUNE_OK);
    assert_int_equal(gpu->event_record(gpu, 1, begin, stream, &error), ATTUNE_OK);
    assert_int_equal(gpu->event_record(gpu, 1, end, stream, &error), ATTUNE_OK);
    assert_int_equal(gpu->event_elapsed(gpu, 1, begin, end, &milliseconds, &error), ATTUNE_OK);
    assert_true(milliseconds == 1.5);
    assert_logged(P "EventSynchronize 1");
    assert_int_equal(gpu->graph_begin(gpu, 1, stream, &error), ATTUNE_OK);
    assert_logged(P "StreamBeginCapture 1 1");
    assert_int_equal(gpu->graph_end(gpu, 1, stream, &graph, &error), ATTUNE_OK);
    assert_logged(P "GraphInstantiateWithFlags 1 0");
    assert_int_equal(gpu->graph_replay(gpu, 1, graph, stream, &error), ATTUNE_OK);
    assert_logged(P "GraphLaunch 1 1");
    assert_int_equal(gpu->graph_destroy(gpu, 1, graph, &error), ATTUNE_OK);
    fail_next(P "StreamEndCapture", 901);
    assert_int_equal(gpu->graph_end(gpu, 1, stream, &graph, &error), ATTUNE_DEVICE_FAILED);
    assert_null(graph);
    assert_int_equal(gpu->event_destroy(gpu, 1, begin, &error), ATTUNE_OK);
    assert_int_equal(gpu->event_destroy(gpu, 1, end, &error), ATTUNE_OK);
    assert_int_equal(gpu->stream_destroy(gpu, 1, stream, &error), ATTUNE_OK);
    assert_int_equal(fake->live, live);
}

/* while another thread captures, loading works between relax_capture's begin and end, and the caller's mode comes back
 */
static void relaxed_threads_leave_other_captures_alone(void **state)
{
    (void)state;
    struct error error = {0};
    void *memory;
    forget();
    fake->other_captures = true;
    assert_int_equal(gpu->allocate(gpu, 0, 8, &memory, &error), ATTUNE_DEVICE_FAILED);
    assert_message(&error, "(900)");
    gpu->relax_capture(gpu, true);
    gpu->relax_capture(gpu, true);
    assert_int_equal(gpu->allocate(gpu, 0, 8, &memory, &error), ATTUNE_OK);
    gpu->relax_capture(gpu, false);
    assert_int_equal(gpu->release(gpu, 0, memory, &error), ATTUNE_OK);
    assert_int_equal(gpu->allocate(gpu, 0, 8, &memory, &error), ATTUNE_OK);
    gpu->release(gpu, 0, memory, NULL);
    gpu->relax_capture(gpu, false);
    assert_int_equal(gpu->allocate(gpu, 0, 8, &memory, &error), ATTUNE_DEVICE_FAILED);
    assert_logged(P "ThreadExchangeStreamCaptureMode 2");
    assert_logged(P "ThreadExchangeStreamCaptureMode 0");
}

/* every block of a grid runs, whatever its size; without the splitting the stand-in would lose some, as hardware does
 */
static void large_grids_run_whole_in_pieces(void **state)
{
    (void)state;
    static const uint64_t grids[][3] = {{((uint64_t)1 << 24) - 1, 1, 1},
                                        {(uint64_t)1 << 24, 1, 1},
                                        {((uint64_t)1 << 24) + 1, 1, 1},
                                        {7, 65535, 3},
                                        {7, 65536, 3},
                                        {3, 5, 70000},
                                        {(uint64_t)1 << 32, 2, 1},
                                        {4096, 4096, 2}};
    struct error error = {0};
    driver_module module;
    driver_function function;
    struct driver_device device;
    forget();
    assert_int_equal(gpu->describe(gpu, 0, &device, &error), ATTUNE_OK);
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "k", 0, &module, &function, &error), ATTUNE_OK);
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        struct grid_piece piece = {0};
        int pieces = 0;
        forget();
        while (grid_next(grids[i], &device.grid, 256, &piece)) {
            struct driver_launch launch = {
                .function = function,
                .grid = {(uint32_t)piece.blocks[0], (uint32_t)piece.blocks[1], (uint32_t)piece.blocks[2]},
                .threads = 256,
                .arguments = object,
                .argument_bytes = 8};
            if (gpu->launch(gpu, 0, &launch, NULL, &error) != ATTUNE_OK) {
                fail_msg("%s", error.message);
            }
            pieces++;
        }
        assert_true(pieces >= 1);
        assert_true(fake->blocks_run == grids[i][0] * grids[i][1] * grids[i][2]);
    }
    gpu->unload(gpu, 0, module, NULL);
}

#ifdef TEST_HIP
static void launches_of_2_to_the_32_work_items_are_refused(void **state)
{
    (void)state;
    struct error error = {0};
    driver_module module;
    driver_function function;
    forget();
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "k", 0, &module, &function, &error), ATTUNE_OK);
    static const uint32_t grids[][3] = {
        {1 << 24, 1, 1}, {1 << 12, 1 << 12, 1}, {1 << 30, 1 << 30, 1 << 30}, {1 << 16, 1 << 16, 1}, {1, 1, 1 << 24}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        struct driver_launch launch = {.function = function, .threads = 256, .arguments = object, .argument_bytes = 8};
        memcpy(launch.grid, grids[i], sizeof launch.grid);
        forget();
        assert_int_equal(gpu->launch(gpu, 0, &launch, NULL, &error), ATTUNE_INVALID);
        assert_message(&error, "2^32");
        assert_null(strstr(fake->log, LAUNCH));
    }
    struct driver_launch launch = {
        .function = function, .grid = {(1 << 24) - 1, 1, 1}, .threads = 256, .arguments = object, .argument_bytes = 8};
    assert_int_equal(gpu->launch(gpu, 0, &launch, NULL, &error), ATTUNE_OK);
    gpu->unload(gpu, 0, module, NULL);
}

static void current_device_of_the_caller_stays(void **state)
{
    (void)state;
    struct error error = {0};
    void *memory;
    int (*select)(int), (*selected)(int *), device = -1;
    *(void **)&select = dlsym(library, "hipSetDevice");
    *(void **)&selected = dlsym(library, "hipGetDevice");
    select(1);
    forget();
    assert_int_equal(gpu->allocate(gpu, 0, 16, &memory, &error), ATTUNE_OK);
    assert_logged("hipMalloc 16 on 0");
    selected(&device);
    assert_int_equal(device, 1);
    fail_next("hipMalloc", 2);
    void *none;
    assert_int_equal(gpu->allocate(gpu, 0, 16, &none, &error), ATTUNE_NO_MEMORY);
    selected(&device);
    assert_int_equal(device, 1);
    gpu->release(gpu, 0, memory, NULL);
    select(0);
}
#endif

#ifdef TEST_CUDA
static void *current_context(void)
{
    int (*current)(void **);
    void *context;
    *(void **)&current = dlsym(library, "cuCtxGetCurrent");
    assert_int_equal(current(&context), 0);
    return context;
}

static void primary_context_is_retained_once_and_not_left_current(void **state)
{
    (void)state;
    struct error error = {0};
    void *memory;
    forget();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gpu->allocate(gpu, 0, 8, &memory, &error), ATTUNE_OK);
        assert_int_equal(gpu->release(gpu, 0, memory, &error), ATTUNE_OK);
        assert_null(current_context());
    }
    fail_next(MALLOC, 2);
    assert_int_equal(gpu->allocate(gpu, 0, 8, &memory, &error), ATTUNE_NO_MEMORY);
    assert_null(current_context());
    const char *first = strstr(fake->log, "cuDevicePrimaryCtxRetain 0");
    assert_true(first == NULL || strstr(first + 1, "cuDevicePrimaryCtxRetain 0") == NULL);
}

/* the caller's own context on device 0 is used as it is; on another device the primary one is pushed over it */
static void current_context_of_the_caller_is_used(void **state)
{
    (void)state;
    struct error error = {0};
    int (*push)(void *), (*pop)(void **);
    void *(*context)(int), *memory, *popped;
    driver_module module;
    driver_function function;
    *(void **)&push = dlsym(library, "cuCtxPushCurrent_v2");
    *(void **)&pop = dlsym(library, "cuCtxPopCurrent_v2");
    *(void **)&context = dlsym(library, "fake_context");
    push(context(2));
    forget();
    assert_int_equal(gpu->allocate(gpu, 0, 8, &memory, &error), ATTUNE_OK);
    assert_null(strstr(fake->log, "cuCtxPushCurrent"));
    gpu->release(gpu, 0, memory, NULL);
    assert_int_equal(gpu->allocate(gpu, 1, 8, &memory, &error), ATTUNE_OK);
    assert_logged("cuCtxPushCurrent 1");
    gpu->release(gpu, 1, memory, NULL);
    assert_ptr_equal(current_context(), context(2));
    /* a module runs in the context that it was loaded in, even when another or none is current */
    assert_int_equal(gpu->load(gpu, 0, object, sizeof object, "k", 0, &module, &function, &error), ATTUNE_OK);
    struct driver_launch launch = {.function = function, .grid = {1, 1, 1}, .threads = 32, .arguments = object};
    assert_int_equal(gpu->launch(gpu, 0, &launch, NULL, &error), ATTUNE_OK);
    assert_logged("cuLaunchKernel 1 1 1, 32 1 1, 0, 0 on 2");
    pop(&popped);
    assert_null(current_context());
    forget();
    assert_int_equal(gpu->launch(gpu, 0, &launch, NULL, &error), ATTUNE_OK);
    assert_logged("cuLaunchKernel 1 1 1, 32 1 1, 0, 0 on 2");
    assert_null(current_context());
    gpu->unload(gpu, 0, module, NULL);
    assert_null(current_context());
}
#endif

int main(void)
{
#ifdef TEST_CUDA
    setenv("ATTUNE_CUDA_LIBRARY", FAKE_PATH, 1);
    setenv("ATTUNE_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so", 1);
    setenv("ATTUNE_HIP_LIBRARY", "/nonexistent/libamdhip64.so", 1);
#else
    setenv("ATTUNE_HIP_LIBRARY", FAKE_PATH, 1);
    setenv("ATTUNE_CUDA_LIBRARY", "/nonexistent/libcuda.so", 1);
#endif
    struct error error = {0};
    library = dlopen(FAKE_PATH, RTLD_NOW | RTLD_LOCAL);
    struct fake *(*find)(void) = NULL;
    if (library != NULL) {
        *(void **)&find = dlsym(library, "fake_state");
    }
    if (find == NULL || driver_get(NAME, &gpu, &error) != ATTUNE_OK) {
        fprintf(stderr, "%s\n", find ? error.message : dlerror());
        return 1;
    }
    fake = find();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_described),
        cmocka_unit_test(devices_are_found_by_text),
        cmocka_unit_test(memory_is_copied_and_filled_synchronously),
        cmocka_unit_test(launch_passes_packed_arguments),
        cmocka_unit_test(errors_carry_the_drivers_text),
        cmocka_unit_test(shared_memory_is_checked_when_loading),
        cmocka_unit_test(events_and_graphs_work),
        cmocka_unit_test(relaxed_threads_leave_other_captures_alone),
        cmocka_unit_test(large_grids_run_whole_in_pieces),
#ifdef TEST_HIP
        cmocka_unit_test(launches_of_2_to_the_32_work_items_are_refused),
        cmocka_unit_test(current_device_of_the_caller_stays),
#else
        cmocka_unit_test(primary_context_is_retained_once_and_not_left_current),
        cmocka_unit_test(current_context_of_the_caller_is_used),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
