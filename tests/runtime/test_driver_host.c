/* test_driver_host.c - the host device behind the driver table, and devices by name. */
#include "base/files.h"
#include "host_kernels.h"
#include "runtime/driver.h"
#include "runtime/host_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 128 };

static char folder[512];
static const struct driver *host;

static void object_make(const char *kernel, const char *const *extra, struct buffer *object)
{
    char path[600], define[80];
    const char *arguments[16] = {define};
    snprintf(define, sizeof define, "-DKERNEL=%s", kernel);
    for (int i = 0; extra != NULL && extra[i] != NULL; i++) {
        arguments[i + 1] = extra[i];
    }
    snprintf(path, sizeof path, "%s/%s.so", folder, kernel);
    host_kernels_compile(path, arguments);
    assert_int_equal(file_read(path, 1 << 24, object, NULL), ATTUNE_OK);
    unlink(path);
}

static attune_status launch(driver_function function, const float *in, float *out, uint32_t threads, uint32_t blocks,
                            uint32_t bytes, struct error *error)
{
    struct kernel_arguments arguments = {in, out, threads * blocks, 0};
    struct driver_launch call = {.function = function,
                                 .grid = {blocks, 1, 1},
                                 .threads = threads,
                                 .arguments = &arguments,
                                 .argument_bytes = bytes};
    return host->launch(host, 0, &call, NULL, error);
}

static void object_is_loaded_run_and_unloaded(void **state)
{
    (void)state;
    struct error error = {0};
    struct buffer object = BUFFER_INIT;
    driver_module module;
    driver_function function;
    void *in, *out;
    float values[2 * THREADS], result[2 * THREADS];
    object_make("copy", NULL, &object);
    for (int i = 0; i < 2 * THREADS; i++) {
        values[i] = (float)i;
    }
    assert_int_equal(host->allocate(host, 0, sizeof values, &in, &error), ATTUNE_OK);
    assert_int_equal(host->allocate(host, 0, sizeof values, &out, &error), ATTUNE_OK);
    assert_int_equal((uintptr_t)in % 256, 0);
    assert_int_equal(host->copy_in(host, 0, in, values, sizeof values, &error), ATTUNE_OK);
    assert_int_equal(host->fill(host, 0, out, 0xff, sizeof values, &error), ATTUNE_OK);
    if (host->load(host, 0, object.data, object.length, "copy", 0, &module, &function, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(launch(function, in, out, THREADS, 2, sizeof(struct kernel_arguments), &error), ATTUNE_OK);
    assert_int_equal(host->synchronize(host, 0, NULL, &error), ATTUNE_OK);
    assert_int_equal(host->copy_out(host, 0, result, out, sizeof values, &error), ATTUNE_OK);
    assert_memory_equal(result, values, sizeof values);
    assert_int_equal(host->unload(host, 0, module, &error), ATTUNE_OK);
    assert_int_equal(host->release(host, 0, in, &error), ATTUNE_OK);
    assert_int_equal(host->release(host, 0, out, &error), ATTUNE_OK);
    buffer_free(&object);
}

/* many objects in turn and at once: each runs its own code, whatever file numbers the loader sees again */
static void objects_do_not_stand_in_for_each_other(void **state)
{
    (void)state;
    struct error error = {0};
    struct buffer objects[2] = {BUFFER_INIT, BUFFER_INIT};
    static const char *const kernels[] = {"copy", "poison"};
    float in[THREADS] = {0}, out[THREADS];
    object_make("copy", NULL, &objects[0]);
    object_make("poison", NULL, &objects[1]);
    for (int round = 0; round < 40; round++) {
        driver_module modules[2];
        driver_function functions[2];
        int count = round % 2 + 1;
        for (int i = 0; i < count; i++) {
            int which = (round / 2 + i) % 2;
            assert_int_equal(host->load(host, 0, objects[which].data, objects[which].length, kernels[which], 0,
                                        &modules[i], &functions[i], &error),
                             ATTUNE_OK);
        }
        for (int i = 0; i < count; i++) {
            int which = (round / 2 + i) % 2;
            assert_int_equal(launch(functions[i], in, out, THREADS, 1, sizeof(struct kernel_arguments), &error),
                             ATTUNE_OK);
            assert_int_equal(isnan(out[5]) != 0, which == 1);
        }
        for (int i = 0; i < count; i++) {
            assert_int_equal(host->unload(host, 0, modules[i], &error), ATTUNE_OK);
        }
    }
    buffer_free(&objects[0]);
    buffer_free(&objects[1]);
}

static void wave_size_comes_from_the_object(void **state)
{
    (void)state;
    struct error error = {0};
    struct buffer object = BUFFER_INIT;
    driver_module module;
    driver_function function;
    float in[THREADS], out[2 * THREADS];
    for (int i = 0; i < THREADS; i++) {
        in[i] = 1;
    }
    object_make("collective", (const char *[]){"-DWAVE=64", "-DTARGET=\"host-gfx906\"", NULL}, &object);
    assert_int_equal(host->load(host, 0, object.data, object.length, "collective", 0, &module, &function, &error),
                     ATTUNE_OK);
    assert_int_equal(launch(function, in, out, THREADS, 1, sizeof(struct kernel_arguments), &error), ATTUNE_OK);
    assert_true(out[1] == 64);
    host->unload(host, 0, module, NULL);
    buffer_free(&object);
}

static void wrong_objects_and_launches_are_refused(void **state)
{
    (void)state;
    struct error error = {0};
    struct buffer object = BUFFER_INIT;
    driver_module module;
    driver_function function;
    float in[THREADS] = {0}, out[THREADS];
    object_make("copy", NULL, &object);
    assert_int_not_equal(host->load(host, 0, "junk", 4, "copy", 0, &module, &function, &error), ATTUNE_OK);
    assert_null(module);
    assert_int_not_equal(host->load(host, 0, object.data, object.length, "other", 0, &module, &function, &error),
                         ATTUNE_OK);
    assert_non_null(strstr(error.message, "other"));
    assert_int_equal(host->load(host, 0, object.data, object.length, "copy", 1 << 30, &module, &function, &error),
                     ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "shared memory"));
    assert_int_equal(host->load(host, 1, object.data, object.length, "copy", 0, &module, &function, &error),
                     ATTUNE_INVALID);
    assert_int_equal(host->load(host, 0, object.data, object.length, "copy", 0, &module, &function, &error), ATTUNE_OK);
    assert_int_equal(launch(function, in, out, 64, 1, sizeof(struct kernel_arguments), &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "128 threads, not 64"));
    assert_int_equal(launch(function, in, out, THREADS, 1, 8, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "24 bytes of arguments, not 8"));
    host->unload(host, 0, module, NULL);
    buffer_free(&object);
    object_make("copy", (const char *[]){"-DTARGET=\"gfx906\"", NULL}, &object);
    assert_int_not_equal(host->load(host, 0, object.data, object.length, "copy", 0, &module, &function, &error),
                         ATTUNE_OK);
    assert_null(module);
    buffer_free(&object);
}

static void strict_checks_name_the_kernel(void **state)
{
    (void)state;
    struct error error = {0};
    struct buffer object = BUFFER_INIT;
    driver_module module;
    driver_function function;
    object_make("early_return", NULL, &object);
    assert_int_equal(host->load(host, 0, object.data, object.length, "early_return", 0, &module, &function, &error),
                     ATTUNE_OK);
    assert_int_equal(launch(function, NULL, NULL, THREADS, 1, sizeof(struct kernel_arguments), &error),
                     ATTUNE_DEVICE_FAILED);
    assert_non_null(strstr(error.message, "kernel early_return"));
    assert_non_null(strstr(error.message, "divergent barrier"));
    setenv("ATTUNE_HOST_SCHEDULE", "sideways", 1);
    assert_int_equal(launch(function, NULL, NULL, THREADS, 1, sizeof(struct kernel_arguments), &error), ATTUNE_INVALID);
    unsetenv("ATTUNE_HOST_SCHEDULE");
    host->unload(host, 0, module, NULL);
    buffer_free(&object);
}

static void events_measure_forward(void **state)
{
    (void)state;
    driver_event begin, end;
    double milliseconds = -1;
    assert_int_equal(host->event_create(host, 0, &begin, NULL), ATTUNE_OK);
    assert_int_equal(host->event_create(host, 0, &end, NULL), ATTUNE_OK);
    assert_int_equal(host->event_record(host, 0, begin, NULL, NULL), ATTUNE_OK);
    assert_int_equal(host->event_record(host, 0, end, NULL, NULL), ATTUNE_OK);
    assert_int_equal(host->event_elapsed(host, 0, begin, end, &milliseconds, NULL), ATTUNE_OK);
    assert_true(milliseconds >= 0);
    host->event_destroy(host, 0, begin, NULL);
    host->event_destroy(host, 0, end, NULL);
}

static void describes_itself(void **state)
{
    (void)state;
    struct driver_device device;
    char text[TARGET_TEXT_BYTES];
    assert_int_equal(host->describe(host, 0, &device, NULL), ATTUNE_OK);
    target_format(&device.target, text);
    assert_string_equal(text, "host");
    assert_int_equal(device.wave_size, 32);
    assert_int_equal(device.max_threads, 1024);
    assert_true(device.compute_units >= 1 && device.memory_bytes > 0 && device.name[0] != '\0');
    struct error error;
    assert_int_equal(host->describe(host, 3, &device, &error), ATTUNE_INVALID);
}

static void devices_have_names(void **state)
{
    (void)state;
    const struct driver *driver;
    int ordinal;
    struct error error = {0};
    assert_string_equal(driver_name(0), "cuda");
    assert_string_equal(driver_name(1), "hip");
    assert_string_equal(driver_name(2), "host");
    assert_null(driver_name(3));
    assert_int_equal(driver_parse_device("host", &driver, &ordinal, &error), ATTUNE_OK);
    assert_ptr_equal(driver, host);
    assert_int_equal(driver_parse_device("host:0", &driver, &ordinal, &error), ATTUNE_OK);
    assert_int_equal(driver_parse_device("host:1", &driver, &ordinal, &error), ATTUNE_NO_DEVICE);
    assert_non_null(strstr(error.message, "host:1"));
    static const char *const wrong[] = {
        "host:", "host:x", "host:-1", "host:0x0", "host: 0", "vulkan", "vulkan:0", ":0", "averylongnameofadevice"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(driver_parse_device(wrong[i], &driver, &ordinal, &error), ATTUNE_INVALID);
        assert_non_null(strstr(error.message, wrong[i]));
        assert_null(driver);
    }
}

/* a library path that is nothing makes cuda and hip absent on every machine */
static void best_is_the_host_without_gpus(void **state)
{
    (void)state;
    const struct driver *driver;
    int ordinal;
    struct error error = {0};
    assert_int_equal(driver_get("cuda", &driver, &error), ATTUNE_NO_DEVICE);
    assert_non_null(strstr(error.message, "/nonexistent/libcuda.so"));
    assert_null(driver);
    assert_int_equal(driver_get("hip", &driver, &error), ATTUNE_NO_DEVICE);
    assert_non_null(strstr(error.message, "ATTUNE_HIP_LIBRARY"));
    assert_int_equal(driver_parse_device("hip:0", &driver, &ordinal, &error), ATTUNE_NO_DEVICE);
    assert_int_equal(driver_parse_device("best", &driver, &ordinal, &error), ATTUNE_OK);
    assert_ptr_equal(driver, host);
    assert_int_equal(driver_parse_device("", &driver, &ordinal, &error), ATTUNE_OK);
    assert_ptr_equal(driver, host);
    assert_int_equal(driver_parse_device(NULL, &driver, &ordinal, &error), ATTUNE_OK);
    assert_ptr_equal(driver, host);
}

int main(void)
{
    setenv("ATTUNE_CUDA_LIBRARY", "/nonexistent/libcuda.so", 1);
    setenv("ATTUNE_HIP_LIBRARY", "/nonexistent/libamdhip64.so", 1);
    struct error error;
    if (!host_compiler_present()) {
        return 77;
    }
    if (folder_temporary(folder, sizeof folder, &error) != ATTUNE_OK ||
        driver_get("host", &host, &error) != ATTUNE_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(object_is_loaded_run_and_unloaded),
        cmocka_unit_test(objects_do_not_stand_in_for_each_other),
        cmocka_unit_test(wave_size_comes_from_the_object),
        cmocka_unit_test(wrong_objects_and_launches_are_refused),
        cmocka_unit_test(strict_checks_name_the_kernel),
        cmocka_unit_test(events_measure_forward),
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(devices_have_names),
        cmocka_unit_test(best_is_the_host_without_gpus),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(folder);
    return failed;
}
