/* test_two_devices.c - B16: unlike devices in one process, with stand-ins for both vendors' libraries: hip:0 is a
 * gfx906 and hip:1 a gfx90a, with waves of 64; cuda:0 is an sm_90a, with waves of 32. Each has its own code, handles
 * and choices.
 */
#include "fake.h"
#include "fake_library.h"

#include "base/codeobject.h"
#include "runtime/plan.h"

#include <dlfcn.h>
#include <pthread.h>

enum { DEVICES = 3 };
static const char *const names[DEVICES] = {"hip:0", "hip:1", "cuda:0"};
static const int waves[DEVICES] = {64, 64, 32};
static const char *const launched[DEVICES] = {"hipModuleLaunchKernel ", "hipModuleLaunchKernel ", "cuLaunchKernel "};
static const char *const ordinal[DEVICES] = {"on 0\n", "on 1\n", "on 0\n"};
static struct fake *fakes[DEVICES]; /* the library's, by device */
static _Alignas(64) unsigned char memory[4096];

static attune_context *context;
static attune_device *devices[DEVICES];
static struct fake_jit jit;

static void open_all(attune_jit_mode mode)
{
    context = fake_context(NULL, mode);
    for (int i = 0; i < DEVICES; i++) {
        attune_device_info info = {.size = sizeof info};
        fakes[i]->log[0] = '\0';
        fake_expect(context, ATTUNE_OK, attune_device_open(context, names[i], &devices[i]), NULL);
        fake_expect(context, ATTUNE_OK, attune_device_describe(devices[i], &info), NULL);
        assert_int_equal(info.wave_size, waves[i]);
    }
}

static void close_all(void)
{
    attune_context_destroy(context);
}

static void use_fake_jit(void)
{
    fake_jit_init(&jit);
    jit.target = NULL; /* each device's own */
    jit.object = NULL;
    fake_jit_register(&jit, context);
}

static attune_plan *prepare(int device, const char *text, attune_plan_info *info)
{
    attune_plan *plan = NULL;
    attune_problem *problem = fake_problem(context, text);
    attune_status status = attune_prepare(devices[device], problem, NULL, &plan);
    attune_problem_destroy(problem);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", fake_last_error(context));
        close_all();
        skip();
    }
    fake_expect(context, ATTUNE_OK, status, NULL);
    *info = (attune_plan_info){.size = sizeof *info};
    fake_expect(context, ATTUNE_OK, attune_plan_describe(plan, info), NULL);
    return plan;
}

static int launches_on(int device)
{
    int count = 0;
    for (const char *at = fakes[device]->log; (at = strstr(at, launched[device])) != NULL; at++) {
        const char *end = strstr(at, "on ");
        count += end != NULL && strncmp(end, ordinal[device], strlen(ordinal[device])) == 0;
    }
    return count;
}

static const attune_attention attention = {.size = sizeof attention,
                                           .q_dtype = ATTUNE_F32,
                                           .batch = 1,
                                           .heads = 4,
                                           .kv_heads = 2,
                                           .seqlen_q = 4,
                                           .head_dim_qk = 16};

static attune_status forward(int device)
{
    const attune_attention_arguments arguments = {
        .size = sizeof arguments, .q = memory, .k = memory, .v = memory, .o = memory};
    return attune_attention_forward(devices[device], &attention, &arguments, &memory, NULL, 0);
}

/* B16: one problem, three devices: three objects, modules and functions; asking again finds each its own */
static void each_device_has_its_own_code_and_handles(void **state)
{
    (void)state;
    attune_plan *plans[2 * DEVICES];
    attune_plan_info infos[2 * DEVICES];
    open_all(ATTUNE_JIT_COMPILE);
    use_fake_jit();
    for (int i = 0; i < 2 * DEVICES; i++) {
        plans[i] = prepare(i % DEVICES, FAKE_PROBLEM "seqlen_q=4", &infos[i]);
        assert_ptr_equal(plans[i]->device, devices[i % DEVICES]);
    }
    assert_int_equal(jit.compiles, DEVICES);
    for (int i = 0; i < DEVICES; i++) {
        assert_string_equal(infos[i].object, infos[i + DEVICES].object);
        assert_ptr_equal(plans[i]->module, plans[i + DEVICES]->module);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(infos[i].object, infos[k].object);
            assert_ptr_not_equal(plans[i]->module->handle, plans[k]->module->handle);
            assert_ptr_not_equal(plans[i]->module->function, plans[k]->module->function);
        }
    }
    for (int i = 0; i < 2 * DEVICES; i++) {
        attune_plan_destroy(plans[i]);
    }
    close_all();
}

/* B16: what was tuned on one device is no choice for another */
static void each_device_has_its_own_tuned_choice(void **state)
{
    (void)state;
    attune_plan_info info;
    open_all(ATTUNE_JIT_TUNE);
    use_fake_jit();
    for (int i = 0; i < DEVICES; i++) {
        for (int again = 0; again < 2; again++) {
            attune_plan_destroy(prepare(i, FAKE_PROBLEM "seqlen_q=4", &info));
            assert_int_equal(info.rung, ATTUNE_RUNG_EXACT);
            assert_int_equal(jit.tunes, i + 1); /* nobody takes the record of the device before */
        }
    }
    close_all();
}

/* B16: no static remembers the device of the first call */
static void calls_alternate_between_the_devices(void **state)
{
    (void)state;
    open_all(ATTUNE_JIT_COMPILE);
    use_fake_jit();
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < DEVICES; i++) {
            fake_expect(context, ATTUNE_OK, forward(i), NULL);
            assert_int_equal(launches_on(i), round + 1);
        }
    }
    assert_int_equal(jit.compiles, DEVICES);
    close_all();
}

static void *call_one(void *data)
{
    int device = *(const int *)data;
    for (int i = 0; i < 20; i++) {
        if (forward(device) != ATTUNE_OK) {
            return "failed";
        }
    }
    return NULL;
}

/* B16: from threads at once, the first call included */
static void threads_call_their_own_devices(void **state)
{
    (void)state;
    static const int order[DEVICES] = {0, 1, 2};
    pthread_t threads[DEVICES];
    open_all(ATTUNE_JIT_COMPILE);
    use_fake_jit();
    for (int i = 0; i < DEVICES; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, call_one, (void *)&order[i]), 0);
    }
    for (int i = 0; i < DEVICES; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    for (int i = 0; i < DEVICES; i++) {
        assert_int_equal(launches_on(i), 20);
    }
    assert_int_equal(jit.compiles, DEVICES);
    close_all();
}

/* B16: the real generator and compilers: code for each device's target, of its wave */
static void compilers_make_each_devices_code(void **state)
{
    (void)state;
    attune_plan_info infos[DEVICES];
    open_all(ATTUNE_JIT_COMPILE);
    fake_expect(context, ATTUNE_OK, attune_jit_register(context), NULL);
    for (int i = 0; i < DEVICES; i++) {
        char path[2048];
        struct buffer file = BUFFER_INIT;
        struct object_header header;
        struct digest name;
        attune_plan *plan = prepare(i, "attention.forward dtype=f16 heads=2 seqlen_q=32 head_dim=32", &infos[i]);
        struct resources resources;
        name = plan->module->object;
        assert_int_equal(store_object_get(context->store, &name, &header, &file, NULL), ATTUNE_OK);
        target_format(&devices[i]->facts.target, path);
        assert_string_equal(header.target, path);
        assert_int_equal(codeobject_resources(file.data, file.length, plan->launch.kernel, &resources, NULL),
                         ATTUNE_OK);
        if (resources.wave_size > 0) {
            assert_int_equal(resources.wave_size, waves[i]);
        }
        assert_int_equal(plan->launch.threads % (uint32_t)waves[i], 0);
        buffer_free(&file);
        attune_plan_destroy(plan);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(infos[i].object, infos[k].object);
        }
    }
    close_all();
}

static struct fake *fake_of(const char *path)
{
    struct fake *(*find)(void) = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        *(void **)&find = dlsym(library, "fake_state");
    }
    return find != NULL ? find() : NULL;
}

int main(void)
{
    setenv("ATTUNE_CUDA_LIBRARY", FAKE_CUDA_PATH, 1);
    setenv("ATTUNE_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so", 1);
    setenv("ATTUNE_HIP_LIBRARY", FAKE_HIP_PATH, 1);
    fakes[0] = fakes[1] = fake_of(FAKE_HIP_PATH);
    fakes[2] = fake_of(FAKE_CUDA_PATH);
    if (fakes[0] == NULL || fakes[2] == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_device_has_its_own_code_and_handles),
        cmocka_unit_test(each_device_has_its_own_tuned_choice),
        cmocka_unit_test(calls_alternate_between_the_devices),
        cmocka_unit_test(threads_call_their_own_devices),
        cmocka_unit_test(compilers_make_each_devices_code),
    };
    return cmocka_run_group_tests_name("two_devices", tests, NULL, NULL);
}
