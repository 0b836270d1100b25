/* test_runner.c - launches in the sanitizer runners: clean kernels pass, each planted fault is reported at its line. */
#include "base/files.h"
#include "host_kernels.h"
#include "runtime/runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 128 };

static char folder[512];
static const enum host_schedule schedules[] = {HOST_ROUND_ROBIN, HOST_GREEDY, HOST_REVERSE};

static const char *const address_flags[] = {"-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                                            "-fno-omit-frame-pointer", NULL};
static const char *const thread_flags[] = {"-fsanitize=thread", "-fno-omit-frame-pointer", NULL};

/* compiled once for each kernel and kind of flags; lives until the program's end */
static const struct buffer *object_make(const char *kernel, const char *const *flags)
{
    static struct {
        const char *kernel;
        const char *const *flags;
        struct buffer object;
    } made[40];
    size_t n = 0;
    while (made[n].kernel != NULL && (strcmp(made[n].kernel, kernel) != 0 || made[n].flags != flags)) {
        n++;
    }
    if (made[n].kernel != NULL) {
        return &made[n].object;
    }
    char path[600], define[80];
    const char *arguments[16] = {define};
    snprintf(define, sizeof define, "-DKERNEL=%s", kernel);
    for (int i = 0; flags != NULL && flags[i] != NULL; i++) {
        arguments[i + 1] = flags[i];
    }
    snprintf(path, sizeof path, "%s/%s.so", folder, kernel);
    host_kernels_compile(path, arguments);
    assert_int_equal(file_read(path, 1 << 24, &made[n].object, NULL), ATTUNE_OK);
    unlink(path);
    assert_true(n + 1 < sizeof made / sizeof made[0]);
    made[n].kernel = kernel;
    made[n].flags = flags;
    return &made[n].object;
}

static struct driver *runner_make(const char *program, enum host_schedule schedule, double seconds)
{
    struct runner_options options = {.program = program, .schedule = schedule, .seconds = seconds};
    struct driver *driver;
    struct error error;
    if (runner_create(&options, &driver, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return driver;
}

/* `in` holds `count` floats 0, 1, 2...; `out` as many, poisoned; both are exact allocations */
struct run {
    const char *program, *kernel;
    const char *const *flags;
    enum host_schedule schedule;
    uint32_t option, blocks, count;
    double seconds;
    float *result; /* count floats, may be NULL */
};

static attune_status run(const struct run *run, struct error *error)
{
    struct driver *driver = runner_make(run->program, run->schedule, run->seconds);
    size_t bytes = run->count * sizeof(float);
    float *in, *out;
    driver_module module;
    driver_function function;
    const struct buffer *object = object_make(run->kernel, run->flags);
    assert_int_equal(driver->allocate(driver, 0, bytes, (void **)&in, error), ATTUNE_OK);
    assert_int_equal(driver->allocate(driver, 0, bytes, (void **)&out, error), ATTUNE_OK);
    for (uint32_t i = 0; i < run->count; i++) {
        float value = (float)i;
        driver->copy_in(driver, 0, in + i, &value, sizeof value, error);
    }
    driver->fill(driver, 0, out, 0xff, bytes, error);
    assert_int_equal(driver->load(driver, 0, object->data, object->length, run->kernel, 0, &module, &function, error),
                     ATTUNE_OK);
    struct kernel_arguments arguments = {in, out, run->count, run->option};
    struct driver_launch launch = {
        .function = function,
        .grid = {run->blocks ? run->blocks : 1, 1, 1},
        .threads = THREADS,
        .arguments = &arguments,
        .argument_bytes = sizeof arguments,
        .pointer_offsets =
            (const uint32_t[]){offsetof(struct kernel_arguments, in), offsetof(struct kernel_arguments, out)},
        .pointer_count = 2,
    };
    attune_status status = driver->launch(driver, 0, &launch, NULL, error);
    if (run->result != NULL) {
        driver->copy_out(driver, 0, run->result, out, bytes, error);
    }
    driver->unload(driver, 0, module, NULL);
    driver->release(driver, 0, in, NULL);
    driver->release(driver, 0, out, NULL);
    runner_destroy(driver);
    return status;
}

/* the path of a runner, or the test is skipped */
static const char *find(const char *sanitizer)
{
    static char path[1024];
    struct error error;
    if (runner_find(sanitizer, path, sizeof path, &error) != ATTUNE_OK) {
        fprintf(stderr, "skipped: %s\n", error.message);
        skip();
    }
    return path;
}

/* number of the line of host_kernels.cpp that holds `marker`, as "host_kernels.cpp:NN" */
static const char *line_of(const char *marker)
{
    static char text[64];
    char line[512];
    int number = 0;
    FILE *file = fopen(KERNELS_SOURCE, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        number++;
        if (strstr(line, marker) != NULL) {
            snprintf(text, sizeof text, "host_kernels.cpp:%d", number);
        }
    }
    fclose(file);
    return text;
}

static void assert_reported(struct run setup, const char *const *parts)
{
    struct error error = {0};
    assert_int_equal(run(&setup, &error), setup.seconds > 0 ? ATTUNE_TIMEOUT : ATTUNE_DEVICE_FAILED);
    for (int i = 0; parts[i] != NULL; i++) {
        if (strstr(error.message, parts[i]) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", error.message, parts[i]);
        }
    }
}

static void assert_clean(struct run setup)
{
    for (int s = 0; s < 3; s++) {
        struct error error = {0};
        setup.schedule = schedules[s];
        if (run(&setup, &error) != ATTUNE_OK) {
            fail_msg("%s %s: %s", setup.kernel, host_schedule_name(schedules[s]), error.message);
        }
    }
}

static void clean_kernels_pass(const char *sanitizer, const char *const *flags)
{
    const char *program = find(sanitizer);
    float result[4 * THREADS];
    static const char *const kernels[] = {"copy",       "reduction",       "reverse",
                                          "collective", "shared_overflow", "global_overflow",
                                          "bad_shift",  "poison",          "shuffle_some_returned"};
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        uint32_t blocks = strcmp(kernels[k], "copy") == 0 ? 4 : 1;
        assert_clean(
            (struct run){program, kernels[k], flags, .blocks = blocks, .count = 4 * THREADS, .result = result});
        if (strcmp(kernels[k], "copy") == 0) {
            for (int i = 0; i < 4 * THREADS; i++) {
                assert_true(result[i] == (float)i);
            }
        }
        if (strcmp(kernels[k], "reverse") == 0) {
            for (int i = 0; i < 4 * THREADS; i++) {
                assert_true(result[i] == (float)(i / THREADS * THREADS + THREADS - 1 - i % THREADS));
            }
        }
    }
}

static void clean_kernels_pass_in_the_address_runner(void **state)
{
    (void)state;
    clean_kernels_pass("address", address_flags);
}

static void clean_kernels_pass_in_the_thread_runner(void **state)
{
    (void)state;
    clean_kernels_pass("thread", thread_flags);
}

/* a user may turn the leak check on for all programs; ours gives everything back */
static void leak_check_finds_nothing_in_the_runner(void **state)
{
    (void)state;
    const char *before = getenv("ASAN_OPTIONS");
    char *saved = before ? strdup(before) : NULL;
    const char *program = find("address");
    setenv("ASAN_OPTIONS", "detect_leaks=1", 1);
    struct error error = {0};
    attune_status status =
        run(&(struct run){program, "reduction", address_flags, .blocks = 1, .count = 4 * THREADS}, &error);
    if (saved != NULL) {
        setenv("ASAN_OPTIONS", saved, 1);
    } else {
        unsetenv("ASAN_OPTIONS");
    }
    free(saved);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

static void overflow_of_a_shared_array_is_reported_at_its_line(void **state)
{
    (void)state;
    const char *program = find("address");
    assert_reported((struct run){program, "shared_overflow", address_flags, .option = 1, .count = THREADS},
                    (const char *[]){"heap-buffer-overflow", line_of("OVERFLOW_LINE"), NULL});
}

static void overflow_of_a_global_array_is_reported_at_its_line(void **state)
{
    (void)state;
    const char *program = find("address");
    assert_reported((struct run){program, "global_overflow", address_flags, .option = 1, .count = THREADS},
                    (const char *[]){"heap-buffer-overflow", line_of("GLOBAL_LINE"), NULL});
}

static void undefined_behaviour_is_reported_at_its_line(void **state)
{
    (void)state;
    const char *program = find("address");
    assert_reported((struct run){program, "bad_shift", address_flags, .option = 1, .count = THREADS},
                    (const char *[]){"runtime error: shift exponent 32", line_of("SHIFT_LINE"), NULL});
}

/* under every schedule, round-robin too, where the numbers may well be right */
static void removed_barrier_is_a_race(void **state)
{
    (void)state;
    const char *program = find("thread");
    for (uint32_t drop = 1; drop <= 2; drop++) {
        for (int s = 0; s < 3; s++) {
            assert_reported((struct run){program, "reverse", thread_flags, .schedule = schedules[s], .option = drop,
                                         .count = 4 * THREADS},
                            (const char *[]){"ThreadSanitizer: data race", "host_kernels.cpp:", NULL});
        }
    }
}

static void strict_checks_reach_the_caller(void **state)
{
    (void)state;
    assert_reported((struct run){find("address"), "early_return", address_flags, .option = 7, .count = THREADS},
                    (const char *[]){"divergent barrier", "thread 7 has returned", NULL});
    assert_reported((struct run){find("thread"), "early_return", thread_flags, .option = 7, .count = THREADS},
                    (const char *[]){"divergent barrier", "thread 7 has returned", NULL});
}

static void hanging_kernel_is_stopped(void **state)
{
    (void)state;
    assert_reported((struct run){find("address"), "loops_forever", address_flags, .count = THREADS, .seconds = 1},
                    (const char *[]){"did not end within 1 seconds", NULL});
}

static const char *script(const char *name, const char *text)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_write(path, text, strlen(text), NULL), ATTUNE_OK);
    assert_int_equal(chmod(path, 0700), 0);
    return path;
}

/* any program can stand behind the driver; what it does wrong is said */
static void faults_of_a_program_are_reported(void **state)
{
    (void)state;
    struct run setup = {.kernel = "copy", .count = THREADS};
    setup.program = script("dies", "#!/bin/sh\necho about to die >&2\nkill -9 $$\n");
    assert_reported(setup, (const char *[]){"died by signal 9", "about to die", NULL});
    setup.program = script("fails", "#!/bin/sh\necho no such target >&2\nexit 3\n");
    assert_reported(setup, (const char *[]){"no such target", NULL});
    setup.program = script("silent", "#!/bin/sh\nexit 3\n");
    assert_reported(setup, (const char *[]){"exit code 3; it printed nothing", NULL});
    /* success without work must not pass for results */
    setup.program = "/bin/true";
    assert_reported(setup, (const char *[]){"true", "did not say that it ran the kernel", NULL});
    setup.program = script("shortens", "#!/bin/sh\nprintf x > \"$1/buffer-1.bin\"; : >\"$1/done\"\n");
    assert_reported(setup, (const char *[]){"came back with 1 bytes instead of 512", NULL});
    setup.program = script("removes", "#!/bin/sh\nrm \"$1/buffer-0.bin\"; : >\"$1/done\"\n");
    assert_reported(setup, (const char *[]){"buffer-0.bin", NULL});
    setup.program = script("grows", "#!/bin/sh\necho more >> \"$1/buffer-0.bin\"; : >\"$1/done\"\n");
    assert_reported(setup, (const char *[]){"buffer-0.bin", NULL});
}

static void folder_says_all_that_a_program_needs(void **state)
{
    (void)state;
    char copy[700], path[800];
    snprintf(copy, sizeof copy, "#!/bin/sh\ncp \"$1/launch.json\" '%s/seen.json'\n: >\"$1/done\"\n", folder);
    float result[THREADS];
    struct run setup = {script("keeps", copy), "copy",           .schedule = HOST_REVERSE,
                        .blocks = 3,           .count = THREADS, .result = result};
    struct error error = {0};
    assert_int_equal(run(&setup, &error), ATTUNE_OK);
    snprintf(path, sizeof path, "%s/seen.json", folder);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    int one, threads, block[2], wave, grid[3], bytes, offsets[2], buffers[2], addends[2], sizes[2];
    const char *object, *entry, *kernel, *target, *schedule, *arguments, *files[2];
    assert_int_equal(
        json_unpack(root,
                    "{s:i,s:s,s:s,s:s,s:s,s:[i,i,i],s:[i,i,i],s:i,s:s,s:s,s:i,s:[{s:i,s:i,s:i},{s:i,s:i,s:i}],"
                    "s:[{s:s,s:i},{s:s,s:i}]}",
                    "attune_launch", &one, "object", &object, "entry", &entry, "kernel", &kernel, "target", &target,
                    "grid", &grid[0], &grid[1], &grid[2], "block", &threads, &block[0], &block[1], "wave", &wave,
                    "schedule", &schedule, "arguments", &arguments, "argument_bytes", &bytes, "relocations", "offset",
                    &offsets[0], "buffer", &buffers[0], "addend", &addends[0], "offset", &offsets[1], "buffer",
                    &buffers[1], "addend", &addends[1], "buffers", "file", &files[0], "bytes", &sizes[0], "file",
                    &files[1], "bytes", &sizes[1]),
        0);
    assert_int_equal(one, 1);
    assert_true(block[0] == 1 && block[1] == 1);
    assert_string_equal(entry, "attune_host_entry");
    assert_string_equal(kernel, "copy");
    assert_string_equal(target, "host");
    assert_string_equal(schedule, "reverse");
    assert_true(grid[0] == 3 && grid[1] == 1 && grid[2] == 1 && threads == THREADS && wave == 32);
    assert_true(offsets[0] == 0 && buffers[0] == 0 && addends[0] == 0 && offsets[1] == 8 && buffers[1] == 1);
    assert_true(bytes == 24 && sizes[0] == THREADS * 4 && sizes[1] == THREADS * 4);
    json_decref(root);
    unlink(path);
}

static void pointers_that_are_not_the_devices_are_refused(void **state)
{
    (void)state;
    struct driver *driver = runner_make(script("does nothing", "#!/bin/sh\n: >\"$1/done\"\n"), HOST_GREEDY, 0);
    struct error error = {0};
    driver_module module;
    driver_function function;
    float outside[THREADS];
    const struct buffer *object = object_make("copy", NULL);
    assert_int_equal(driver->load(driver, 0, object->data, object->length, "copy", 0, &module, &function, &error),
                     ATTUNE_OK);
    struct kernel_arguments arguments = {outside, NULL, 0, 0};
    struct driver_launch launch = {.function = function,
                                   .grid = {1, 1, 1},
                                   .threads = THREADS,
                                   .arguments = &arguments,
                                   .argument_bytes = sizeof arguments,
                                   .pointer_offsets = (const uint32_t[]){0},
                                   .pointer_count = 1};
    assert_int_equal(driver->launch(driver, 0, &launch, NULL, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "not memory of this device"));
    arguments.in = NULL;
    assert_int_equal(driver->launch(driver, 0, &launch, NULL, &error), ATTUNE_OK);
    assert_int_equal(driver->release(driver, 0, outside, &error), ATTUNE_INVALID);
    driver->unload(driver, 0, module, NULL);
    runner_destroy(driver);
}

static void missing_runners_are_named(void **state)
{
    (void)state;
    char path[1024];
    struct error error = {0};
    struct driver *driver;
    assert_int_equal(runner_find("memory", path, sizeof path, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "memory"));
    struct runner_options options = {.program = "/nonexistent/runner"};
    assert_int_equal(runner_create(&options, &driver, &error), ATTUNE_NOT_FOUND);
    assert_null(driver);
    char *saved = getenv("ATTUNE_RUNNER_THREAD");
    saved = saved ? strdup(saved) : NULL;
    setenv("ATTUNE_RUNNER_THREAD", "/nonexistent/runner", 1);
    assert_int_equal(runner_find("thread", path, sizeof path, &error), ATTUNE_NO_TOOLCHAIN);
    assert_non_null(strstr(error.message, "ATTUNE_RUNNER_THREAD"));
    if (saved != NULL) {
        setenv("ATTUNE_RUNNER_THREAD", saved, 1);
    } else {
        unsetenv("ATTUNE_RUNNER_THREAD");
    }
    free(saved);
}

int main(void)
{
    struct error error;
    if (!host_compiler_present()) {
        return 77;
    }
    if (folder_temporary(folder, sizeof folder, &error) != ATTUNE_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clean_kernels_pass_in_the_address_runner),
        cmocka_unit_test(clean_kernels_pass_in_the_thread_runner),
        cmocka_unit_test(leak_check_finds_nothing_in_the_runner),
        cmocka_unit_test(overflow_of_a_shared_array_is_reported_at_its_line),
        cmocka_unit_test(overflow_of_a_global_array_is_reported_at_its_line),
        cmocka_unit_test(undefined_behaviour_is_reported_at_its_line),
        cmocka_unit_test(removed_barrier_is_a_race),
        cmocka_unit_test(strict_checks_reach_the_caller),
        cmocka_unit_test(hanging_kernel_is_stopped),
        cmocka_unit_test(faults_of_a_program_are_reported),
        cmocka_unit_test(folder_says_all_that_a_program_needs),
        cmocka_unit_test(pointers_that_are_not_the_devices_are_refused),
        cmocka_unit_test(missing_runners_are_named),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(folder);
    return failed;
}
