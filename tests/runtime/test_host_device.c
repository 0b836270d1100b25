/* test_host_device.c - what the host device promises: right numbers under every schedule, and every broken rule named.
 */
#include "host_kernels.h"
#include "runtime/host_device.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 128, BLOCKS = 6 };

static void *wave32, *wave64;
static const enum host_schedule schedules[] = {HOST_ROUND_ROBIN, HOST_GREEDY, HOST_REVERSE};

static host_entry entry(void *library, const char *kernel)
{
    char symbol[64];
    snprintf(symbol, sizeof symbol, "entry_%s", kernel);
    void *found = dlsym(library, symbol);
    assert_non_null(found);
    host_entry function;
    memcpy(&function, &found, sizeof function);
    return function;
}

struct setup {
    const char *kernel;
    uint32_t wave, threads, blocks;
    uint32_t n, option;
    enum host_schedule schedule;
};

static float in[THREADS * BLOCKS], out[2 * THREADS * BLOCKS];

static attune_status run(const struct setup *setup, struct error *error)
{
    for (int i = 0; i < THREADS * BLOCKS; i++) {
        in[i] = (float)(i % 97 - 31);
    }
    memset(out, 0, sizeof out);
    struct kernel_arguments arguments = {in, out, setup->n, setup->option};
    struct host_launch launch = {
        .entry = entry(setup->wave == 64 ? wave64 : wave32, setup->kernel),
        .grid = {setup->blocks ? setup->blocks : 1, 1, 1},
        .threads = setup->threads ? setup->threads : THREADS,
        .wave = setup->wave,
        .arguments = &arguments,
        .schedule = setup->schedule,
    };
    return host_device_run(&launch, error);
}

/* the launch fails, and its message holds all the parts */
static void assert_fails(struct setup setup, const char *const *parts)
{
    for (int s = 0; s < 3; s++) {
        struct error error = {0};
        setup.schedule = schedules[s];
        assert_int_equal(run(&setup, &error), ATTUNE_DEVICE_FAILED);
        for (int i = 0; parts[i] != NULL; i++) {
            if (strstr(error.message, parts[i]) == NULL) {
                fail_msg("\"%s\" lacks \"%s\"", error.message, parts[i]);
            }
        }
        /* the device is as good as new */
        assert_int_equal(run(&(struct setup){"copy", .wave = 32, .blocks = 2, .n = 2 * THREADS}, &error), ATTUNE_OK);
        assert_memory_equal(out, in, 2 * THREADS * sizeof(float));
    }
}

static void assert_runs(struct setup setup)
{
    struct error error = {0};
    if (run(&setup, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", setup.kernel, error.message);
    }
}

static void copies_every_element_once(void **state)
{
    (void)state;
    for (int s = 0; s < 3; s++) {
        uint32_t n = THREADS * BLOCKS - 5;
        assert_runs((struct setup){"copy", .wave = 32, .blocks = BLOCKS, .n = n, .schedule = schedules[s]});
        assert_memory_equal(out, in, n * sizeof(float));
        assert_true(out[n] == 0);
    }
}

static void every_block_of_a_grid_runs_once(void **state)
{
    (void)state;
    memset(out, 0, sizeof out);
    struct kernel_arguments arguments = {in, out, 0, 0};
    struct host_launch launch = {.entry = entry(wave32, "blocks"),
                                 .grid = {5, 3, 2},
                                 .threads = 1,
                                 .wave = 32,
                                 .arguments = &arguments,
                                 .schedule = HOST_GREEDY};
    struct error error;
    assert_int_equal(host_device_run(&launch, &error), ATTUNE_OK);
    for (int i = 0; i < 30; i++) {
        assert_true(out[i] == (float)(i % 5 + 10 * (i / 5 % 3) + 100 * (i / 15)));
    }
}

static void reduces_by_shuffles_in_waves_of_32_and_64(void **state)
{
    (void)state;
    for (int s = 0; s < 3; s++) {
        for (uint32_t wave = 32; wave <= 64; wave += 32) {
            assert_runs((struct setup){"reduction", .wave = wave, .blocks = BLOCKS, .schedule = schedules[s]});
            for (int b = 0; b < BLOCKS; b++) {
                float sum = 0;
                for (int i = 0; i < THREADS; i++) {
                    sum += in[b * THREADS + i];
                }
                assert_true(out[b] == sum); /* small integers: exact in any order */
            }
        }
    }
}

static bool reversed(void)
{
    for (int i = 0; i < 4 * THREADS; i++) {
        if (out[i] != in[i / THREADS * THREADS + THREADS - 1 - i % THREADS]) {
            return false;
        }
    }
    return true;
}

static void barriers_order_shared_memory(void **state)
{
    (void)state;
    for (int s = 0; s < 3; s++) {
        assert_runs((struct setup){"reverse", .wave = 32, .schedule = schedules[s]});
        assert_true(reversed());
    }
}

static void removed_barrier_hides_from_round_robin_alone(void **state)
{
    (void)state;
    for (uint32_t drop = 1; drop <= 2; drop++) {
        assert_runs((struct setup){"reverse", .wave = 32, .option = drop, .schedule = HOST_ROUND_ROBIN});
        assert_true(reversed());
        assert_runs((struct setup){"reverse", .wave = 32, .option = drop, .schedule = HOST_GREEDY});
        assert_false(reversed());
        assert_runs((struct setup){"reverse", .wave = 32, .option = drop, .schedule = HOST_REVERSE});
        assert_false(reversed());
    }
}

static bool rounds_in_order(void)
{
    for (int i = 0; i < 2 * 64; i++) {
        if (out[i] != (float)(i / 64)) {
            return false;
        }
    }
    return true;
}

/* the first wave under greedy, and the last one under reverse, is ahead after every barrier and not only after the
 * first */
static void same_wave_is_ahead_in_every_phase(void **state)
{
    (void)state;
    for (uint32_t writer = 0; writer < 2; writer++) {
        for (int s = 0; s < 3; s++) {
            assert_runs((struct setup){"producer", .wave = 32, .threads = 64, .n = writer, .schedule = schedules[s]});
            assert_true(rounds_in_order());
        }
    }
    assert_runs((struct setup){"producer", .wave = 32, .threads = 64, .n = 0, .option = 1, .schedule = HOST_GREEDY});
    assert_false(rounds_in_order());
    assert_runs((struct setup){"producer", .wave = 32, .threads = 64, .n = 1, .option = 1, .schedule = HOST_REVERSE});
    assert_false(rounds_in_order());
}

static void unwritten_shared_memory_is_nan_in_every_block(void **state)
{
    (void)state;
    assert_runs((struct setup){"poison", .wave = 32, .blocks = BLOCKS});
    for (int i = 0; i < THREADS * BLOCKS; i++) {
        assert_true(isnan(out[i]));
    }
}

static void divergent_barriers_fail(void **state)
{
    (void)state;
    assert_fails((struct setup){"divergent_sites", .wave = 32, .option = 77},
                 (const char *[]){"block (0,0,0)", "thread", "divergent barrier of site", "every thread", NULL});
    assert_fails((struct setup){"early_return", .wave = 32, .option = 77},
                 (const char *[]){"divergent barrier of site", "thread 77 has returned", NULL});
    assert_fails((struct setup){"early_return", .wave = 32, .option = THREADS - 1},
                 (const char *[]){"divergent barrier of site", "thread 127 has returned", NULL});
}

static void shuffles_from_lanes_that_are_not_there_fail(void **state)
{
    (void)state;
    assert_fails((struct setup){"shuffle_from", .wave = 32, .option = 32},
                 (const char *[]){"reads lane 32", "lanes 0 to 31", NULL});
    assert_fails((struct setup){"shuffle_from", .wave = 64, .option = 64},
                 (const char *[]){"reads lane 64", "lanes 0 to 63", NULL});
    assert_fails(
        (struct setup){"shuffle_some_returned", .wave = 32, .option = 9},
        (const char *[]){"thread 0 (wave 0, lane 0)", "reads lane 9", "inactive", "thread 9 has returned", NULL});
    assert_fails((struct setup){"shuffle_some_waiting", .wave = 32, .option = 9},
                 (const char *[]){"reads lane 9", "inactive", "thread 9 waits at the barrier", NULL});
}

static void shuffles_among_active_lanes_work(void **state)
{
    (void)state;
    static const char *const kernels[] = {"shuffle_some_returned", "shuffle_some_waiting"};
    for (int s = 0; s < 3; s++) {
        for (int k = 0; k < 2; k++) {
            assert_runs((struct setup){kernels[k], .wave = 32, .option = 7, .schedule = schedules[s]});
            for (int i = 0; i < THREADS; i++) {
                assert_true(out[i] == (i % 32 < 8 ? (float)(i - i % 32 + 7 - i % 32) : 0));
            }
        }
    }
}

static void lanes_of_a_wave_meet_at_one_site(void **state)
{
    (void)state;
    assert_fails((struct setup){"mismatched_wave", .wave = 32},
                 (const char *[]){"shuffle of site", "the lanes of a wave must meet at one site", NULL});
    assert_fails((struct setup){"wave_barrier_without_one", .wave = 32, .option = 40},
                 (const char *[]){"divergent wave barrier", "thread 40 has returned", NULL});
    assert_fails((struct setup){"collective_without_one", .wave = 32, .option = 40},
                 (const char *[]){"divergent wave collective of site 1000", "thread 40 waits at the barrier", NULL});
}

static void uneven_last_wave_works_and_is_guarded(void **state)
{
    (void)state;
    for (int s = 0; s < 3; s++) {
        assert_runs((struct setup){"collective", .wave = 32, .threads = 72, .schedule = schedules[s]});
        for (int i = 0; i < 72; i++) {
            assert_true(out[2 * i + 1] == (i < 64 ? 32 : 8));
        }
    }
    assert_fails((struct setup){"shuffle_from", .wave = 32, .threads = 72, .option = 8},
                 (const char *[]){"wave 2", "reads lane 8", "this wave has 8 lanes", NULL});
}

static void collectives_compute_over_all_lanes(void **state)
{
    (void)state;
    for (int s = 0; s < 3; s++) {
        for (uint32_t wave = 32; wave <= 64; wave += 32) {
            assert_runs((struct setup){"collective", .wave = wave, .schedule = schedules[s]});
            for (uint32_t w = 0; w < THREADS / wave; w++) {
                float value[64];
                memcpy(value, in + w * wave, wave * sizeof(float));
                for (int round = 0; round < 3; round++) {
                    for (uint32_t i = 1; i < wave; i++) {
                        value[i] += value[i - 1];
                    }
                }
                for (uint32_t i = 0; i < wave; i++) {
                    assert_true(out[2 * (w * wave + i)] == value[i]);
                    assert_true(out[2 * (w * wave + i) + 1] == (float)wave);
                }
            }
        }
    }
}

static void shared_arrays_have_one_size(void **state)
{
    (void)state;
    assert_fails((struct setup){"shared_sizes", .wave = 32},
                 (const char *[]){"shared array of site 1000", "8 bytes", "4", NULL});
}

static void kernel_can_fail_the_launch(void **state)
{
    (void)state;
    assert_fails((struct setup){"says_fail", .wave = 32, .blocks = BLOCKS, .option = 2},
                 (const char *[]){"block (2,0,0) thread 3", "operand rows differ", NULL});
}

static void block_may_wait_for_lower_blocks(void **state)
{
    (void)state;
    for (int repeat = 0; repeat < 20; repeat++) {
        assert_runs((struct setup){"ordered", .wave = 32, .blocks = 100, .threads = 64});
        for (uint32_t i = 0; i < 100; i++) {
            uint32_t mark;
            memcpy(&mark, &out[i], 4);
            assert_int_equal(mark, i + 1);
        }
    }
}

static void wrong_launches_are_refused(void **state)
{
    (void)state;
    struct error error;
    struct host_launch good = {.entry = entry(wave32, "copy"), .grid = {1, 1, 1}, .threads = 32, .wave = 32};
    struct host_launch bad = good;
    bad.threads = 1025;
    assert_int_equal(host_device_run(&bad, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "1025"));
    bad.threads = 0;
    assert_int_equal(host_device_run(&bad, &error), ATTUNE_INVALID);
    bad = good;
    bad.wave = 65;
    assert_int_equal(host_device_run(&bad, &error), ATTUNE_INVALID);
    bad = good;
    bad.grid[1] = 0;
    assert_int_equal(host_device_run(&bad, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "1 x 0 x 1"));
    bad = good;
    bad.entry = NULL;
    assert_int_equal(host_device_run(&bad, &error), ATTUNE_INVALID);
}

static void schedules_have_names(void **state)
{
    (void)state;
    struct error error;
    for (int s = 0; s < 3; s++) {
        enum host_schedule parsed;
        assert_int_equal(host_schedule_parse(host_schedule_name(schedules[s]), &parsed, &error), ATTUNE_OK);
        assert_int_equal(parsed, schedules[s]);
    }
    enum host_schedule schedule;
    assert_int_equal(host_schedule_parse("random", &schedule, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "random"));
    setenv("ATTUNE_HOST_SCHEDULE", "greedy", 1);
    assert_int_equal(host_device_schedule(&schedule, &error), ATTUNE_OK);
    assert_int_equal(schedule, HOST_GREEDY);
    setenv("ATTUNE_HOST_SCHEDULE", "sideways", 1);
    assert_int_equal(host_device_schedule(&schedule, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "ATTUNE_HOST_SCHEDULE"));
    unsetenv("ATTUNE_HOST_SCHEDULE");
    host_device_set_schedule(HOST_REVERSE);
    assert_int_equal(host_device_schedule(&schedule, &error), ATTUNE_OK);
    assert_int_equal(schedule, HOST_REVERSE);
}

static void *load(const char *folder, const char *name, const char *wave)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    host_kernels_compile(path, (const char *[]){wave, NULL});
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
    }
    unlink(path);
    return library;
}

int main(void)
{
    if (!host_compiler_present()) {
        return 77;
    }
    char folder[] = "/tmp/test_host_device_XXXXXX";
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    wave32 = load(folder, "wave32.so", "-DWAVE=32");
    wave64 = load(folder, "wave64.so", "-DWAVE=64");
    rmdir(folder);
    if (wave32 == NULL || wave64 == NULL) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_every_element_once),
        cmocka_unit_test(every_block_of_a_grid_runs_once),
        cmocka_unit_test(reduces_by_shuffles_in_waves_of_32_and_64),
        cmocka_unit_test(barriers_order_shared_memory),
        cmocka_unit_test(removed_barrier_hides_from_round_robin_alone),
        cmocka_unit_test(same_wave_is_ahead_in_every_phase),
        cmocka_unit_test(unwritten_shared_memory_is_nan_in_every_block),
        cmocka_unit_test(divergent_barriers_fail),
        cmocka_unit_test(shuffles_from_lanes_that_are_not_there_fail),
        cmocka_unit_test(shuffles_among_active_lanes_work),
        cmocka_unit_test(lanes_of_a_wave_meet_at_one_site),
        cmocka_unit_test(uneven_last_wave_works_and_is_guarded),
        cmocka_unit_test(collectives_compute_over_all_lanes),
        cmocka_unit_test(shared_arrays_have_one_size),
        cmocka_unit_test(kernel_can_fail_the_launch),
        cmocka_unit_test(block_may_wait_for_lower_blocks),
        cmocka_unit_test(wrong_launches_are_refused),
        cmocka_unit_test(schedules_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
