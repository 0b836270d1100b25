/* B25, B28, B29: choosing by times that the test writes, among candidates that a device cannot run, that are fast and
 * wrong, and on a device whose clock, timer and load misbehave. */
#include "tests/autotune/parts.h"

#include "autotune/kernel.h"
#include "autotune/screen.h"
#include "autotune/tune_on.h"
#include "tests/autotune/scripted_device.h"
#include "tests/proof/tuner_family.h"
#include "tests/size.h"

#include <math.h>

enum { RANKS = 24 };

/* a generator of the family with these modes, its folder, and the problem */
struct setting {
    char folder[512];
    struct generator *generator;
    struct problem problem;
};

static void open_setting(struct setting *setting, const char *modes)
{
    assert_int_equal(folder_temporary(setting->folder, sizeof setting->folder, NULL), ATTUNE_OK);
    setting->generator = tuner_family(setting->folder, modes, "2", "scripted times");
    assert_int_equal(
        problem_parse(generator_schema(setting->generator, "twice"), "twice n=70", &setting->problem, NULL), ATTUNE_OK);
}

static void close_setting(struct setting *setting)
{
    generator_destroy(setting->generator);
    folder_remove(setting->folder);
}

static attune_status tune(struct parts *parts, struct setting *setting, const struct driver *driver,
                          const struct tune_options *options, struct tune_result *result, struct error *error)
{
    attune_status status = tune_run_on(driver, 0, setting->generator, parts->pool, parts->store, &setting->problem,
                                       options, NULL, NULL, result, error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error->message);
        skip();
    }
    return status;
}

/* ---- B28 ---- */

/* r00 is the default; r04, r15 and r21 are within a tenth of a percent of the best, the next is 4 % behind. They come
 * late in the order of seed 1: what happens before they are looked at is held against nobody. */
static double rank_truth(const char *kernel, const void *object, size_t bytes)
{
    (void)object, (void)bytes;
    int rank = atoi(strrchr(kernel, '_') + 2);
    switch (rank) {
    case 0:
        return 120.0;
    case 15:
        return 100.05;
    case 21:
        return 100.0;
    case 4:
        return 100.1;
    default:
        return 104.0 + (rank * 7) % 23;
    }
}

static uint32_t run_seed;

/* +-0.4 %, another one for every launch and run */
static double noise(int launch)
{
    uint32_t x = (uint32_t)launch * 2654435761u ^ run_seed * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return 1.0 + ((double)(x % 1000) / 999.0 - 0.5) * 0.008;
}

static double steady(int launch, int of_function)
{
    (void)of_function;
    return noise(launch);
}

/* a function's first launch loads code */
static double first_is_slow(int launch, int of_function)
{
    return noise(launch) * (of_function == 0 ? 10.0 : 1.0);
}

/* somewhere in the sweep, at another place in every run */
static double clock_halves(int launch, int of_function)
{
    (void)of_function;
    return noise(launch) * (launch > 200 + (int)(run_seed * 131 % 1500) ? 2.0 : 1.0);
}

/* another process takes a third of the device for a while, again and again */
static double others_work(int launch, int of_function)
{
    (void)of_function;
    return noise(launch) * (launch / 170 % 3 == 1 ? 1.5 : 1.0);
}

static double all_at_once(int launch, int of_function)
{
    return first_is_slow(launch, of_function) * clock_halves(launch, of_function) / noise(launch);
}

static void the_winner_is_the_same_and_near_the_best_whatever_the_device_does(void **state)
{
    static const struct {
        const char *what;
        double (*pace)(int launch, int of_function);
        bool bad_times;
        bool tied; /* the same of the tied ones wins in every run */
    } scripts[] = {{"noise", steady, false, true},
                   {"samples of 0, -1 and NaN", steady, true, true},
                   {"a slow first launch", first_is_slow, false, true},
                   {"a clock that halves", clock_halves, false, true},
                   {"another process's work", others_work, false, true},
                   {"all at once", all_at_once, true, true}};
    struct setting setting;
    char modes[256] = "";
    int runs = test_size(10, 60);
    for (int rank = 0; rank < RANKS; rank++) {
        snprintf(modes + strlen(modes), sizeof modes - strlen(modes), "%sr%02d", rank > 0 ? " " : "", rank);
    }
    open_setting(&setting, modes);
    for (size_t s = 0; s < sizeof scripts / sizeof scripts[0]; s++) {
        char winner[CANDIDATE_TEXT_BYTES] = "";
        for (int run = 0; run < runs; run++) {
            struct driver driver = scripted_driver(rank_truth);
            struct tune_result result;
            struct error error = {0};
            scripted.pace = scripts[s].pace;
            scripted.bad_times = scripts[s].bad_times;
            run_seed = (uint32_t)(run + 1);
            if (tune(*state, &setting, &driver, &(struct tune_options){.seed = 1}, &result, &error) != ATTUNE_OK) {
                fail_msg("%s: %s", scripts[s].what, error.message);
            }
            assert_int_equal(result.counts.timed, RANKS);
            char kernel[64];
            snprintf(kernel, sizeof kernel, "twice_%s", strrchr(result.record.candidate, '=') + 1);
            double truth = rank_truth(kernel, NULL, 0);
            if (truth > 102.0) {
                fail_msg("%s, run %d: %s takes %.1f us, the best 100", scripts[s].what, run, result.record.candidate,
                         truth);
            }
            if (scripts[s].tied && winner[0] != '\0' && strcmp(winner, result.record.candidate) != 0) {
                fail_msg("%s, run %d: %s wins, before it was %s", scripts[s].what, run, result.record.candidate,
                         winner);
            }
            memcpy(winner, result.record.candidate, sizeof winner);
            tune_result_free(&result);
        }
    }
    close_setting(&setting);
}

/* ---- B29 ---- */

/* the wrong ones would win by far */
static double wrong_is_fast(const char *kernel, const void *object, size_t bytes)
{
    (void)object, (void)bytes;
    return strcmp(kernel, "twice_right") == 0 ? 100.0 : strcmp(kernel, "twice_slower") == 0 ? 150.0 : 1.0;
}

static void fast_and_wrong_never_wins(void **state)
{
    struct setting setting;
    struct tune_result result;
    struct error error = {0};
    struct driver driver = scripted_driver(wrong_is_fast);
    open_setting(&setting, "slower early half right shifted normal_only beyond");
    if (tune(*state, &setting, &driver, &(struct tune_options){.seed = 1}, &result, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(result.record.candidate, "twice/plain mode=right");
    assert_true(fabs(result.record.winner_microseconds - 100.0) < 1e-6);
    assert_int_equal(result.counts.wrong, 5);
    assert_int_equal(result.counts.timed, 2); /* what is wrong is not even timed */
    tune_result_free(&result);
    close_setting(&setting);
}

/* ---- B25 ---- */

static double same_for_all(const char *kernel, const void *object, size_t bytes)
{
    (void)kernel, (void)object, (void)bytes;
    return 100.0;
}

/* gfx906's limits: 64 KiB of shared memory, 1024 threads a block */
static struct driver small_device(void)
{
    struct driver driver = scripted_driver(same_for_all);
    scripted.shared_bytes = 65536;
    scripted.max_threads = 1024;
    return driver;
}

static const char *outcome_of(const struct tune_result *result, const char *mode, const char **reason)
{
    for (int i = 0; i < result->outcome_count; i++) {
        if (strcmp(strrchr(result->outcomes[i].candidate, '=') + 1, mode) == 0) {
            *reason = result->outcomes[i].reason;
            return result->outcomes[i].outcome;
        }
    }
    *reason = "";
    return "";
}

static void candidates_beyond_the_device_are_left_out_with_their_reason(void **state)
{
    static const struct {
        const char *mode, *outcome, *reason;
    } expected[] = {{"static_fits", "timed", ""},
                    {"static_over", "resources", "65540 bytes of shared memory, the device has 65536"},
                    {"static_far", "resources", "131072 bytes of shared memory"},
                    {"dynamic_fits", "timed", ""},
                    {"dynamic_over", "resources", "65540 bytes of shared memory, the device has 65536"},
                    {"dynamic_far", "resources", "131072 bytes of shared memory"},
                    {"threads", "compile-error", "threads must be an integer, 1 to 1024"}};
    struct setting setting;
    struct tune_result result;
    struct error error = {0};
    struct driver driver = small_device();
    open_setting(&setting, "right static_fits static_over static_far dynamic_fits dynamic_over dynamic_far threads");
    if (tune(*state, &setting, &driver, &(struct tune_options){.seed = 1}, &result, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(result.record.candidate, "twice/plain mode=right");
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const char *reason, *outcome = outcome_of(&result, expected[i].mode, &reason);
        if (strcmp(outcome, expected[i].outcome) != 0 || strstr(reason, expected[i].reason) == NULL) {
            fail_msg("%s: %s (%s)", expected[i].mode, outcome, reason);
        }
    }
    tune_result_free(&result);
    assert_int_equal(scripted.refused, 0); /* nothing was launched that would leave an error behind */
    assert_true(device_answers(&driver, 0));
    close_setting(&setting);
}

static void when_none_fits_the_error_lists_the_reasons(void **state)
{
    struct setting setting;
    struct tune_result result;
    struct error error = {0};
    struct driver driver = small_device();
    open_setting(&setting, "dynamic_over static_far threads");
    attune_status status = tune(*state, &setting, &driver, &(struct tune_options){.seed = 1}, &result, &error);
    if (status != ATTUNE_COMPILE_FAILED) { /* the first of its reasons, in order of how near to a launch they came */
        fail_msg("%s", error.message);
    }
    assert_non_null(strstr(error.message, "none of 3 candidates is usable"));
    assert_non_null(strstr(error.message, "2 resources"));
    assert_non_null(strstr(error.message, "65540 bytes of shared memory, the device has 65536"));
    assert_non_null(strstr(error.message, "threads must be an integer, 1 to 1024"));
    assert_int_equal(scripted.refused, 0);
    close_setting(&setting);
    /* the next tuning on the same device is undisturbed */
    open_setting(&setting, "right half");
    if (tune(*state, &setting, &driver, &(struct tune_options){.seed = 1}, &result, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(result.record.candidate, "twice/plain mode=right");
    tune_result_free(&result);
    close_setting(&setting);
}

/* every limit at its edge, as devices state them */
static void screens_at_the_edge_of_each_limit(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        uint64_t device_shared;
        uint32_t threads, static_shared, dynamic_shared;
        int object_shared, object_threads, registers, accumulators;
        bool fits;
    } cases[] = {
        {"gfx906", 65536, 256, 65536, 0, -1, 0, -1, 0, true},
        {"gfx906", 65536, 256, 65540, 0, -1, 0, -1, 0, false},
        {"gfx906", 65536, 256, 32768, 32768, -1, 0, -1, 0, true},
        {"gfx906", 65536, 256, 32768, 32772, -1, 0, -1, 0, false},
        {"gfx906", 65536, 256, 0, 0, 65540, 0, -1, 0, false}, /* the object knows better than the template */
        {"gfx906", 65536, 1024, 0, 0, -1, 0, -1, 0, true},
        {"gfx906", 65536, 1025, 0, 0, -1, 0, -1, 0, false},
        {"gfx906", 65536, 512, 0, 0, -1, 256, -1, 0, false}, /* compiled for fewer */
        {"gfx90a", 65536, 512, 0, 0, -1, 0, 128, 128, true},
        {"gfx90a", 65536, 512, 0, 0, -1, 0, 129, 128, false},
        {"sm_80", 166912, 1024, 0, 166912, -1, 0, 64, 0, true},
        {"sm_80", 166912, 1024, 0, 166916, -1, 0, 64, 0, false},
        {"sm_80", 166912, 1024, 0, 0, -1, 0, 65, 0, false}, /* 65 x 1024 registers, handed out by eight */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct driver_device device = {.max_threads = 1024, .shared_bytes = cases[i].device_shared};
        struct launch launch = {.threads = cases[i].threads,
                                .static_shared_bytes = cases[i].static_shared,
                                .dynamic_shared_bytes = cases[i].dynamic_shared};
        struct resources resources = {.shared_bytes = cases[i].object_shared,
                                      .max_threads = cases[i].object_threads,
                                      .vector_registers = cases[i].registers,
                                      .accumulator_registers = cases[i].accumulators};
        char reason[SCREEN_REASON_BYTES] = "";
        assert_int_equal(target_parse(cases[i].target, &device.target, NULL), ATTUNE_OK);
        device.wave_size = device.target.vendor == TARGET_AMD ? 64 : 32;
        if (screen_fits(&device, &launch, &resources, reason) != cases[i].fits) {
            fail_msg("case %zu: %s", i, cases[i].fits ? reason : "it was let through");
        }
        assert_true(cases[i].fits || strlen(reason) > 0);
    }
    struct resources spilling = {.scratch_bytes = 4}, tight = {.scratch_bytes = 0};
    char reason[SCREEN_REASON_BYTES];
    assert_false(screen_pays(TARGET_AMD, &spilling, reason));
    assert_non_null(strstr(reason, "4 bytes of scratch"));
    assert_true(screen_pays(TARGET_AMD, &tight, reason));
    struct resources most = {.scratch_bytes = 128}, more = {.scratch_bytes = 132};
    assert_true(screen_pays(TARGET_NVIDIA, &most, reason));
    assert_false(screen_pays(TARGET_NVIDIA, &more, reason));
}

/* said with the bytes before any memory is taken or candidate compiled; a program of its own tunes such a device */
static void a_device_of_one_process_is_not_tuned_beside_its_user(void **state)
{
    struct parts *parts = *state;
    struct setting setting;
    struct tune_result result;
    struct error error = {0};
    struct tune_options options = {.seed = 1, .device_in_use = true};
    struct driver driver = scripted_driver(rank_truth);
    open_setting(&setting, "right r01 r02");
    scripted.sharing = DRIVER_EXCLUSIVE;
    assert_int_equal(tune(parts, &setting, &driver, &options, &result, &error), ATTUNE_DEVICE_FAILED);
    assert_non_null(strstr(error.message, "exclusive process"));
    assert_non_null(strstr(error.message, "MiB of device memory"));
    assert_int_equal(scripted.load_count, 0);
    options.device_in_use = false;
    assert_int_equal(tune(parts, &setting, &driver, &options, &result, &error), ATTUNE_OK);
    tune_result_free(&result);
    scripted.sharing = DRIVER_PROHIBITED;
    assert_int_equal(tune(parts, &setting, &driver, &options, &result, &error), ATTUNE_DEVICE_FAILED);
    assert_non_null(strstr(error.message, "prohibited"));
    close_setting(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_of_one_process_is_not_tuned_beside_its_user),
        cmocka_unit_test(the_winner_is_the_same_and_near_the_best_whatever_the_device_does),
        cmocka_unit_test(fast_and_wrong_never_wins),
        cmocka_unit_test(candidates_beyond_the_device_are_left_out_with_their_reason),
        cmocka_unit_test(when_none_fits_the_error_lists_the_reasons),
        cmocka_unit_test(screens_at_the_edge_of_each_limit),
    };
    return cmocka_run_group_tests_name("tuner_times", tests, parts_set_up, parts_tear_down);
}
