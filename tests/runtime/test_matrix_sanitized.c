/* test_matrix_sanitized.c - copies to shared memory, exchanges and matrix instructions in the sanitizer runners: a
 * right kernel is clean and gives the same bits, a missing barrier or a too early overwrite is a race, a copy past an
 * array's end is found.
 */
#include "base/files.h"
#include "host_kernels.h"
#include "runtime/runner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 128, IN_WORDS = 3 * 512, OUT_WORDS = 4 * THREADS };
enum { EARLY = 1, NO_BARRIER = 2, PAST_END = 4, DIRECT = 8 }; /* as in tile_kernel.cpp */

static const char *const sanitizers[] = {"address", "thread"};
static struct buffer objects[2];
static const enum host_schedule schedules[] = {HOST_ROUND_ROBIN, HOST_GREEDY, HOST_REVERSE};

static void make_objects(void)
{
    static const char *const flags[] = {"-fsanitize=address,undefined", "-fsanitize=thread"};
    char path[64];
    snprintf(path, sizeof path, "/tmp/attune_test_matrix_sanitized.%d.so", (int)getpid());
    for (int i = 0; i < 2; i++) {
        host_kernels_compile(path, (const char *[]){"-include", VOCABULARY, flags[i], "-fno-sanitize-recover=all",
                                                    "-fno-omit-frame-pointer", NULL});
        if (file_read(path, 1 << 24, &objects[i], NULL) != ATTUNE_OK) {
            exit(1);
        }
        unlink(path);
    }
}

/* the test is skipped where this sanitizer's runner was not built */
static attune_status run(int sanitizer, uint32_t option, enum host_schedule schedule, float *result,
                         struct error *error)
{
    char program[1024];
    if (runner_find(sanitizers[sanitizer], program, sizeof program, error) != ATTUNE_OK) {
        fprintf(stderr, "skipped: %s\n", error->message);
        skip();
    }
    struct runner_options options = {.program = program, .schedule = schedule};
    struct driver *driver;
    driver_module module;
    driver_function function;
    uint32_t *in;
    float *out;
    assert_int_equal(runner_create(&options, &driver, error), ATTUNE_OK);
    assert_int_equal(driver->allocate(driver, 0, IN_WORDS * 4, (void **)&in, error), ATTUNE_OK);
    assert_int_equal(driver->allocate(driver, 0, OUT_WORDS * 4, (void **)&out, error), ATTUNE_OK);
    for (uint32_t i = 0; i < IN_WORDS; i++) { /* halves of 1 to 1.5 */
        uint32_t word = 0x3c003c00u + i % 16 * 0x20u + i % 7 * 0x400000u / 8;
        driver->copy_in(driver, 0, in + i, &word, sizeof word, error);
    }
    driver->fill(driver, 0, out, 0xff, OUT_WORDS * 4, error);
    assert_int_equal(driver->load(driver, 0, objects[sanitizer].data, objects[sanitizer].length, "tiles", 0, &module,
                                  &function, error),
                     ATTUNE_OK);
    struct kernel_arguments arguments = {(const float *)in, out, 0, option};
    struct driver_launch launch = {
        .function = function,
        .grid = {1, 1, 1},
        .threads = THREADS,
        .arguments = &arguments,
        .argument_bytes = sizeof arguments,
        .pointer_offsets =
            (const uint32_t[]){offsetof(struct kernel_arguments, in), offsetof(struct kernel_arguments, out)},
        .pointer_count = 2,
    };
    attune_status status = driver->launch(driver, 0, &launch, NULL, error);
    driver->copy_out(driver, 0, result, out, OUT_WORDS * 4, NULL);
    driver->unload(driver, 0, module, NULL);
    driver->release(driver, 0, in, NULL);
    driver->release(driver, 0, out, NULL);
    runner_destroy(driver);
    return status;
}

static void right_kernels_are_clean_and_give_the_same_bits(void **state)
{
    (void)state;
    static float first[OUT_WORDS], result[OUT_WORDS];
    for (int sanitizer = 0; sanitizer < 2; sanitizer++) {
        for (int s = 0; s < 3; s++) {
            for (uint32_t option = 0; option <= DIRECT; option += DIRECT) {
                struct error error = {0};
                if (run(sanitizer, option, schedules[s], result, &error) != ATTUNE_OK) {
                    fail_msg("%s: %s", sanitizers[sanitizer], error.message);
                }
                if (sanitizer == 0 && s == 0 && option == 0) {
                    memcpy(first, result, sizeof first);
                }
                assert_memory_equal(result, first, sizeof first);
                assert_true(first[5] > 3 * 16 && first[5] < 100000);
            }
        }
    }
}

static void assert_reported(int sanitizer, uint32_t option, const char *what)
{
    static float result[OUT_WORDS];
    for (int s = 0; s < 3; s++) {
        struct error error = {0};
        assert_int_equal(run(sanitizer, option, schedules[s], result, &error), ATTUNE_DEVICE_FAILED);
        if (strstr(error.message, what) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", error.message, what);
        }
    }
}

static void missing_barriers_are_races(void **state)
{
    (void)state;
    assert_reported(1, EARLY, "ThreadSanitizer: data race");
    assert_reported(1, NO_BARRIER, "ThreadSanitizer: data race");
    assert_reported(1, EARLY | DIRECT, "ThreadSanitizer: data race");
}

static void copies_past_an_array_are_found(void **state)
{
    (void)state;
    assert_reported(0, PAST_END, "heap-buffer-overflow");
}

int main(void)
{
    if (!host_compiler_present()) {
        return 77;
    }
    make_objects();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_are_clean_and_give_the_same_bits),
        cmocka_unit_test(missing_barriers_are_races),
        cmocka_unit_test(copies_past_an_array_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
