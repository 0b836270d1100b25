/* test_driver_device.c - the drivers on real GPUs: memory, a compiled kernel, events, a graph. Skipped where there is
 * none. */
#include "generator/compiler.h"
#include "runtime/driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 1000, THREADS = 128 };

/* Vocabulary of the vendor's compiler only: out[i] = in[i] + step for each i below n, through dynamic shared memory. */
static const char cuda_source[] =
    "extern __shared__ float tile[];\n"
    "extern \"C\" __global__ void __launch_bounds__(128) add(const float *in, float *out, unsigned n, float step) {\n"
    "  unsigned i = blockIdx.x * 128 + threadIdx.x;\n"
    "  tile[threadIdx.x] = i < n ? in[i] : 0.0f;\n"
    "  __syncthreads();\n"
    "  if (i < n) out[i] = tile[threadIdx.x] + step;\n"
    "}\n";
static const char hip_source[] =
    "extern \"C\" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(128, 128)))\n"
    "void add(const float *in, float *out, unsigned n, float step) {\n"
    "  unsigned i = __builtin_amdgcn_workgroup_id_x() * 128 + __builtin_amdgcn_workitem_id_x();\n"
    "  if (i < n) out[i] = in[i] + step;\n"
    "}\n";

struct add_arguments {
    const float *in;
    float *out;
    uint32_t n;
    float step;
};

static const struct driver *gpu;
static struct driver_device device;
static struct compile_result object;
static uint32_t dynamic_shared;

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != ATTUNE_OK) {                                                                                     \
            fail_msg("%s", error.message);                                                                             \
        }                                                                                                              \
    } while (0)

static void device_describes_itself(void **state)
{
    (void)state;
    char target[TARGET_TEXT_BYTES];
    target_format(&device.target, target);
    printf("%s: %s, %s, %s, %d units, wave %d, %llu KiB shared, %.1f of %.1f GiB free, L2 %llu KiB, %d W\n", gpu->name,
           device.name, target, device.driver_version, device.compute_units, device.wave_size,
           (unsigned long long)device.shared_bytes >> 10, (double)device.memory_free_bytes / (1 << 30),
           (double)device.memory_bytes / (1 << 30), (unsigned long long)device.cache_bytes >> 10,
           device.power_limit_watts);
    assert_true(device.compute_units > 0 && device.memory_bytes > 0 && device.memory_free_bytes > 0);
    assert_true(device.memory_free_bytes <= device.memory_bytes);
    assert_true(device.wave_size == 32 || device.wave_size == 64);
    assert_true(device.shared_bytes >= 49152);
}

static void kernel_runs_is_timed_and_replayed(void **state)
{
    (void)state;
    struct error error = {0};
    float values[COUNT], result[COUNT];
    void *in, *out;
    driver_module module;
    driver_function function;
    driver_stream stream;
    driver_event begin, end;
    driver_graph graph;
    double milliseconds = -1;
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)i;
    }
    CHECK(gpu->allocate(gpu, 0, sizeof values, &in, &error));
    CHECK(gpu->allocate(gpu, 0, sizeof values, &out, &error));
    CHECK(gpu->copy_in(gpu, 0, in, values, sizeof values, &error));
    CHECK(gpu->fill(gpu, 0, out, 0xff, sizeof values, &error));
    CHECK(
        gpu->load(gpu, 0, object.object.data, object.object.length, "add", dynamic_shared, &module, &function, &error));
    CHECK(gpu->stream_create(gpu, 0, &stream, &error));
    CHECK(gpu->event_create(gpu, 0, &begin, &error));
    CHECK(gpu->event_create(gpu, 0, &end, &error));
    struct add_arguments arguments = {in, out, COUNT, 0.5f};
    struct driver_launch launch = {.function = function,
                                   .grid = {(COUNT + THREADS - 1) / THREADS, 1, 1},
                                   .threads = THREADS,
                                   .dynamic_shared_bytes = dynamic_shared,
                                   .arguments = &arguments,
                                   .argument_bytes = sizeof arguments};
    CHECK(gpu->event_record(gpu, 0, begin, stream, &error));
    CHECK(gpu->launch(gpu, 0, &launch, stream, &error));
    CHECK(gpu->event_record(gpu, 0, end, stream, &error));
    CHECK(gpu->event_elapsed(gpu, 0, begin, end, &milliseconds, &error));
    assert_true(milliseconds >= 0 && milliseconds < 10000);
    CHECK(gpu->copy_out(gpu, 0, result, out, sizeof result, &error));
    for (int i = 0; i < COUNT; i++) {
        assert_true(result[i] == (float)i + 0.5f);
    }
    /* what is captured runs when it is replayed, with the arguments of the capture */
    arguments.step = 2;
    CHECK(gpu->graph_begin(gpu, 0, stream, &error));
    CHECK(gpu->launch(gpu, 0, &launch, stream, &error));
    CHECK(gpu->graph_end(gpu, 0, stream, &graph, &error));
    arguments.step = 77;
    CHECK(gpu->graph_replay(gpu, 0, graph, stream, &error));
    CHECK(gpu->synchronize(gpu, 0, stream, &error));
    CHECK(gpu->copy_out(gpu, 0, result, out, sizeof result, &error));
    for (int i = 0; i < COUNT; i++) {
        assert_true(result[i] == (float)i + 2);
    }
    CHECK(gpu->graph_destroy(gpu, 0, graph, &error));
    CHECK(gpu->event_destroy(gpu, 0, begin, &error));
    CHECK(gpu->event_destroy(gpu, 0, end, &error));
    CHECK(gpu->stream_destroy(gpu, 0, stream, &error));
    CHECK(gpu->unload(gpu, 0, module, &error));
    CHECK(gpu->release(gpu, 0, in, &error));
    CHECK(gpu->release(gpu, 0, out, &error));
}

static void allocation_beyond_the_memory_fails_and_harms_nothing(void **state)
{
    (void)state;
    struct error error = {0};
    void *memory;
    assert_int_equal(gpu->allocate(gpu, 0, (size_t)device.memory_bytes * 2, &memory, &error), ATTUNE_NO_MEMORY);
    assert_null(memory);
    CHECK(gpu->allocate(gpu, 0, 4096, &memory, &error));
    CHECK(gpu->release(gpu, 0, memory, &error));
}

static void launch_that_the_device_refuses_is_explained(void **state)
{
    (void)state;
    struct error error = {0};
    driver_module module;
    driver_function function;
    CHECK(
        gpu->load(gpu, 0, object.object.data, object.object.length, "add", dynamic_shared, &module, &function, &error));
    struct add_arguments arguments = {NULL, NULL, 0, 0};
    struct driver_launch launch = {.function = function,
                                   .grid = {1, 1, 1},
                                   .threads = 4096,
                                   .dynamic_shared_bytes = dynamic_shared,
                                   .arguments = &arguments,
                                   .argument_bytes = sizeof arguments};
    assert_int_equal(gpu->launch(gpu, 0, &launch, NULL, &error), ATTUNE_DEVICE_FAILED);
    assert_non_null(strstr(error.message, "4096 threads"));
    printf("%s\n", error.message);
    launch.threads = THREADS;
    CHECK(gpu->launch(gpu, 0, &launch, NULL, &error));
    CHECK(gpu->synchronize(gpu, 0, NULL, &error));
    CHECK(gpu->unload(gpu, 0, module, &error));
}

static void capture_elsewhere_survives_loading_here(void **state)
{
    (void)state;
    struct error error = {0};
    driver_stream stream;
    driver_graph graph;
    driver_module module;
    driver_function function;
    void *memory;
    CHECK(gpu->stream_create(gpu, 0, &stream, &error));
    CHECK(gpu->graph_begin(gpu, 0, stream, &error));
    gpu->relax_capture(gpu, true);
    CHECK(gpu->allocate(gpu, 0, 4096, &memory, &error));
    CHECK(
        gpu->load(gpu, 0, object.object.data, object.object.length, "add", dynamic_shared, &module, &function, &error));
    gpu->relax_capture(gpu, false);
    CHECK(gpu->graph_end(gpu, 0, stream, &graph, &error));
    CHECK(gpu->graph_destroy(gpu, 0, graph, &error));
    CHECK(gpu->unload(gpu, 0, module, &error));
    CHECK(gpu->release(gpu, 0, memory, &error));
    CHECK(gpu->stream_destroy(gpu, 0, stream, &error));
}

static void a_captured_stream_is_recognised(void **state)
{
    (void)state;
    driver_stream stream;
    driver_graph graph;
    bool capturing = true;
    struct error error = {0};
    CHECK(gpu->stream_create(gpu, 0, &stream, &error));
    CHECK(gpu->capturing(gpu, 0, stream, &capturing, &error));
    assert_false(capturing);
    CHECK(gpu->graph_begin(gpu, 0, stream, &error));
    CHECK(gpu->capturing(gpu, 0, stream, &capturing, &error));
    assert_true(capturing);
    CHECK(gpu->capturing(gpu, 0, NULL, &capturing, &error));
    assert_false(capturing);
    CHECK(gpu->graph_end(gpu, 0, stream, &graph, &error)); /* asking broke nothing */
    CHECK(gpu->graph_destroy(gpu, 0, graph, &error));
    CHECK(gpu->stream_destroy(gpu, 0, stream, &error));
}

/* every GPU driver that can be used here; 0 when the tests passed or there is nothing to test */
static int run_on(const char *name, int *tested)
{
    struct error error = {0};
    struct compiler_pool *pool = NULL;
    int failed = 0;
    if (driver_get(name, &gpu, &error) != ATTUNE_OK) {
        fprintf(stderr, "skipped: %s\n", error.message);
        return 0;
    }
    if (gpu->describe(gpu, 0, &device, &error) != ATTUNE_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    struct compiler_options options = {.workers = 1};
    bool cuda = strcmp(name, "cuda") == 0;
    const char *source = cuda ? cuda_source : hip_source;
    struct compile_request request = {.target = device.target, .source = source, .source_bytes = strlen(source)};
    dynamic_shared = cuda ? 65536 : 0; /* above what a kernel may have without asking */
    attune_status status = compiler_pool_create(&options, &pool, &error);
    if (status == ATTUNE_OK) {
        status = compiler_compile(pool, &request, &object, &error);
    }
    if (status != ATTUNE_OK) {
        fprintf(stderr, "%s: %s\n", status == ATTUNE_NO_TOOLCHAIN ? "skipped" : "failed", error.message);
        failed = status != ATTUNE_NO_TOOLCHAIN;
        goto out;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_describes_itself),
        cmocka_unit_test(kernel_runs_is_timed_and_replayed),
        cmocka_unit_test(allocation_beyond_the_memory_fails_and_harms_nothing),
        cmocka_unit_test(launch_that_the_device_refuses_is_explained),
        cmocka_unit_test(capture_elsewhere_survives_loading_here),
        cmocka_unit_test(a_captured_stream_is_recognised),
    };
    *tested += 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
out:
    compile_result_free(&object);
    compiler_pool_destroy(pool);
    return failed;
}

int main(void)
{
    int tested = 0;
    int failed = run_on("cuda", &tested) + run_on("hip", &tested);
    return failed ? 1 : tested ? 0 : 77;
}
