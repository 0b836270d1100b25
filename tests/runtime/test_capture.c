/* test_capture.c - B20: first calls, tuning and growing workspaces beside and inside a stream's capture.
 *
 * On the stand-ins of the vendors' libraries, which know the three capture modes: a call that a capture forbids fails
 * and breaks it, so that ending it fails. Built once for each stand-in, as test_driver_gpu.c is.
 */
#include "fake.h"
#include "fake_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef TEST_CUDA
#define DEVICE "cuda:0"
#define TARGET "sm_90a"
#define BEGIN "cuStreamBeginCapture_v2"
#define END "cuStreamEndCapture"
#else
#define DEVICE "hip:0"
#define TARGET "gfx906:sramecc+:xnack-"
#define BEGIN "hipStreamBeginCapture"
#define END "hipStreamEndCapture"
#endif

static const char object[64] = "\177ELF";
static struct fake *fake;
static int (*begin_capture)(void *stream, int mode);
static int (*end_capture)(void *stream, void **graph);

struct scene {
    attune_context *context;
    attune_device *device;
    struct fake_jit jit;
    attune_attention attention;
    attune_attention_arguments arguments;
    void *workspace; /* 16 bytes for each query */
};
static _Alignas(64) unsigned char memory[4096];
static int stream_memory;
static void *const stream = &stream_memory;

static void scene_open(struct scene *scene, attune_jit_mode mode)
{
    memset(scene, 0, sizeof *scene);
    memset(fake->log, 0, sizeof fake->log);
    scene->context = fake_context(NULL, mode);
    fake_jit_init(&scene->jit);
    scene->jit.object = object;
    scene->jit.object_bytes = sizeof object;
    scene->jit.target = TARGET;
    scene->jit.launch.workspace_factor_bytes = 16;
    scene->jit.launch.workspace = (struct launch_dimension){1, {{"seqlen_q", 1}}};
    fake_jit_register(&scene->jit, scene->context);
    fake_expect(scene->context, ATTUNE_OK, attune_device_open(scene->context, DEVICE, &scene->device), NULL);
    scene->attention = (attune_attention){.size = sizeof scene->attention,
                                          .q_dtype = ATTUNE_F32,
                                          .batch = 1,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .seqlen_q = 4,
                                          .head_dim_qk = 16,
                                          .alignment_bytes = 4};
    scene->arguments = (attune_attention_arguments){
        .size = sizeof scene->arguments, .q = memory, .k = memory, .v = memory, .o = memory};
    scene->workspace = memory;
}

static void scene_close(struct scene *scene)
{
    attune_context_destroy(scene->context);
}

static attune_status forward(struct scene *scene, void *on, size_t workspace_bytes)
{
    return attune_attention_forward(scene->device, &scene->attention, &scene->arguments, on, scene->workspace,
                                    workspace_bytes);
}

static void capture_begins(int mode)
{
    assert_int_equal(begin_capture(stream, mode), 0);
    fake->log[0] = '\0';
}

/* with so many launches in it */
static void capture_is_whole(int launches)
{
    void *graph = NULL;
    assert_int_equal(fake->capture.launches, launches);
    if (end_capture(stream, &graph) != 0) {
        fail_msg("the capture is broken: %s", fake->log);
    }
    free(graph);
    fake->live--;
}

static void nothing_forbidden_was_called(void)
{
    static const char *const forbidden[] = {"Malloc", "MemAlloc", "Free", "Memcpy", "Memset", "Module", "Synchronize"};
    for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++) {
        const char *at = strstr(fake->log, forbidden[i]);
        if (at != NULL && strncmp(at, "ModuleLaunchKernel", 18) != 0) {
            fail_msg("%s in a capture: %s", forbidden[i], fake->log);
        }
    }
}

/* B20: a first call on a stream that is captured, compiling or tuning on a miss */
static void a_first_call_inside_a_capture_is_refused_and_harms_nothing(void **state)
{
    (void)state;
    static const attune_jit_mode jit_modes[] = {ATTUNE_JIT_COMPILE, ATTUNE_JIT_TUNE, ATTUNE_JIT_FORBID};
    for (int mode = 0; mode < 3; mode++) { /* global, thread-local, relaxed */
        for (int j = 0; j < 3; j++) {
            struct scene scene;
            scene_open(&scene, jit_modes[j]);
            capture_begins(mode);
            fake_expect(scene.context, ATTUNE_INVALID, forward(&scene, stream, 64), "captured", "attune_prepare", NULL);
            nothing_forbidden_was_called();
            assert_int_equal(scene.jit.compiles + scene.jit.tunes, 0);
            capture_is_whole(0);
            if (jit_modes[j] == ATTUNE_JIT_FORBID) {
                scene_close(&scene);
                continue;
            }
            /* the choice is not poisoned: the next call outside is served as if nothing had been */
            fake_expect(scene.context, ATTUNE_OK, forward(&scene, stream, 64), NULL);
            assert_int_equal(scene.jit.compiles, jit_modes[j] == ATTUNE_JIT_COMPILE);
            assert_int_equal(scene.jit.tunes, jit_modes[j] == ATTUNE_JIT_TUNE);
            /* and then a capture takes it */
            capture_begins(mode);
            fake_expect(scene.context, ATTUNE_OK, forward(&scene, stream, 64), NULL);
            nothing_forbidden_was_called();
            capture_is_whole(1);
            scene_close(&scene);
        }
    }
}

/* B20: a longer sequence needs more workspace than was given: refused, the capture goes on, and enough serves */
static void a_workspace_too_small_inside_a_capture_is_refused(void **state)
{
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        struct scene scene;
        attune_problem *problem;
        attune_plan *plan;
        scene_open(&scene, ATTUNE_JIT_COMPILE);
        fake_expect(scene.context, ATTUNE_OK, attune_problem_attention(scene.context, &scene.attention, &problem),
                    NULL);
        fake_expect(scene.context, ATTUNE_OK, attune_prepare(scene.device, problem, NULL, &plan), NULL);
        capture_begins(mode);
        scene.arguments.seqlen_q = 8;
        fake_expect(scene.context, ATTUNE_INVALID,
                    attune_launch_attention(plan, &scene.arguments, stream, scene.workspace, 64), "workspace", "128",
                    NULL);
        fake_expect(scene.context, ATTUNE_OK,
                    attune_launch_attention(plan, &scene.arguments, stream, scene.workspace, 128), NULL);
        nothing_forbidden_was_called();
        capture_is_whole(1);
        attune_plan_destroy(plan);
        attune_problem_destroy(problem);
        scene_close(&scene);
    }
}

/* a graph is replayed without us: its launch counts when it is captured, and writing about it breaks nothing */
static void a_captured_launch_is_traced_once(void **state)
{
    (void)state;
    char folder[] = "/tmp/attune-capture-XXXXXX", path[64], line[1200];
    struct scene scene;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/trace", folder);
    setenv("ATTUNE_TRACE", path, 1);
    scene_open(&scene, ATTUNE_JIT_COMPILE);
    unsetenv("ATTUNE_TRACE");
    scene.attention.head_dim_qk = 32;
    attune_problem *problem;
    attune_plan *plan;
    fake_expect(scene.context, ATTUNE_OK, attune_problem_attention(scene.context, &scene.attention, &problem), NULL);
    fake_expect(scene.context, ATTUNE_OK, attune_prepare(scene.device, problem, NULL, &plan), NULL);
    capture_begins(0);
    fake_expect(scene.context, ATTUNE_OK, attune_launch_attention(plan, &scene.arguments, stream, scene.workspace, 64),
                NULL);
    nothing_forbidden_was_called();
    capture_is_whole(1);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    scene_close(&scene);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_non_null(strstr(line, "{\"calls\":1,\"problem\":\"attention.forward "));
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

struct other {
    struct scene *scene;
    attune_status statuses[4];
};

/* everything that allocates, loads and unloads, while the main thread captures */
static void *work_beside(void *data)
{
    struct other *other = data;
    struct scene *scene = other->scene;
    attune_problem *problem = NULL;
    attune_plan *plan = NULL;
    attune_device *device = NULL;
    int own;
    other->statuses[0] = attune_problem_attention(scene->context, &scene->attention, &problem);
    other->statuses[1] = attune_prepare(scene->device, problem, NULL, &plan);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    scene->attention.head_dim_qk = 24; /* another first call, on a stream of its own */
    other->statuses[2] = forward(scene, &own, 64);
    other->statuses[3] = attune_device_open(scene->context, DEVICE, &device);
    return NULL;
}

/* B20: another thread prepares, launches and unloads while this one captures */
static void a_capture_lives_on_while_another_thread_compiles(void **state)
{
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        struct scene scene;
        struct other other = {.scene = &scene};
        pthread_t thread;
        scene_open(&scene, ATTUNE_JIT_COMPILE);
        capture_begins(mode);
        assert_int_equal(pthread_create(&thread, NULL, work_beside, &other), 0);
        pthread_join(thread, NULL);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(other.statuses[i], ATTUNE_OK);
        }
        assert_int_equal(scene.jit.compiles, 2);
        capture_is_whole(0);
        scene_close(&scene);
    }
}

/* B20: attune_prepare by the very thread that captures, which is what a careless warm-up does */
static void prepare_by_the_capturing_thread_leaves_the_capture_whole(void **state)
{
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        struct scene scene;
        attune_problem *problem;
        attune_plan *plan;
        scene_open(&scene, ATTUNE_JIT_COMPILE);
        fake_expect(scene.context, ATTUNE_OK, attune_problem_attention(scene.context, &scene.attention, &problem),
                    NULL);
        capture_begins(mode);
        fake_expect(scene.context, ATTUNE_OK, attune_prepare(scene.device, problem, NULL, &plan), NULL);
        fake_expect(scene.context, ATTUNE_OK,
                    attune_launch_attention(plan, &scene.arguments, stream, scene.workspace, 64), NULL);
        capture_is_whole(1);
        attune_plan_destroy(plan);
        attune_problem_destroy(problem);
        scene_close(&scene);
    }
}

/* the stand-in does break captures: the tests above could fail */
static void the_stand_in_breaks_captures(void **state)
{
    (void)state;
    struct scene scene;
    void *pointer, *graph;
    scene_open(&scene, ATTUNE_JIT_COMPILE);
    for (int mode = 0; mode < 3; mode++) {
        struct error error = {0};
        capture_begins(mode);
        attune_status status = scene.device->driver->allocate(scene.device->driver, 0, 64, &pointer, &error);
        assert_int_equal(status == ATTUNE_OK, mode == 2);
        if (mode == 2) {
            capture_is_whole(0);
            scene.device->driver->release(scene.device->driver, 0, pointer, NULL);
        } else {
            assert_int_not_equal(end_capture(stream, &graph), 0);
        }
    }
    scene_close(&scene);
}

int main(void)
{
#ifdef TEST_CUDA
    setenv("ATTUNE_CUDA_LIBRARY", FAKE_PATH, 1);
    setenv("ATTUNE_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so", 1);
#else
    setenv("ATTUNE_HIP_LIBRARY", FAKE_PATH, 1);
#endif
    void *library = dlopen(FAKE_PATH, RTLD_NOW | RTLD_LOCAL);
    struct fake *(*find)(void) = NULL;
    if (library != NULL) {
        *(void **)&find = dlsym(library, "fake_state");
        *(void **)&begin_capture = dlsym(library, BEGIN);
        *(void **)&end_capture = dlsym(library, END);
    }
    if (find == NULL || begin_capture == NULL || end_capture == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    fake = find();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_call_inside_a_capture_is_refused_and_harms_nothing),
        cmocka_unit_test(a_workspace_too_small_inside_a_capture_is_refused),
        cmocka_unit_test(a_captured_launch_is_traced_once),
        cmocka_unit_test(a_capture_lives_on_while_another_thread_compiles),
        cmocka_unit_test(prepare_by_the_capturing_thread_leaves_the_capture_whole),
        cmocka_unit_test(the_stand_in_breaks_captures),
    };
    return cmocka_run_group_tests_name("capture", tests, NULL, NULL);
}
