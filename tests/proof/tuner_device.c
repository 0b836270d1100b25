/* B25, B27, B29 on the device that ATTUNE_TEST_DEVICE names (default: host): among candidates that ask for too much,
 * hang, fault or are wrong the right one wins, the others keep their reasons, and the device is well afterwards. */
#include "tests/autotune/parts.h"

#include "autotune/tune.h"
#include "autotune/verify.h"
#include "tests/proof/tuner_family.h"

static const struct {
    const char *mode, *outcome, *reason;
} bad[] = {
    {"early", "wrong", "never written"}, {"half", "wrong", "never written"},
    {"normal_only", "wrong", "peaked"},  {"forever", "hung", "did not end within 5 s"},
    {"fault", "crashed", "normal"},      {"dynamic_huge", "resources", "1048576 bytes of shared memory"},
};
enum { BAD = sizeof bad / sizeof bad[0] };
static const char modes[] = "early right half normal_only forever fault dynamic_huge";

static const char *device_name(void)
{
    const char *name = getenv("ATTUNE_TEST_DEVICE");
    return name != NULL && name[0] != '\0' ? name : "host";
}

static struct tune_result tune_with(struct parts *parts, struct generator *generator, struct tune_options options)
{
    struct problem problem;
    struct tune_result result;
    struct error error = {0};
    options.device = device_name();
    options.seed = 1;
    options.candidate_seconds = 5.0;
    assert_int_equal(problem_parse(generator_schema(generator, "twice"), "twice n=30000", &problem, NULL), ATTUNE_OK);
    attune_status status =
        tune_run(generator, parts->pool, parts->store, &problem, &options, NULL, NULL, &result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN || status == ATTUNE_NO_DEVICE) {
        print_message("skipped: %s\n", error.message);
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return result;
}

static struct tune_result tune(struct parts *parts, struct generator *generator)
{
    return tune_with(parts, generator, (struct tune_options){0});
}

static void expect(const struct tune_result *result, const char *mode, const char *outcome, const char *reason)
{
    for (int i = 0; i < result->outcome_count; i++) {
        const struct tune_outcome *found = &result->outcomes[i];
        if (strcmp(strrchr(found->candidate, '=') + 1, mode) != 0) {
            continue;
        }
        print_message("%s: %s %s\n", mode, found->outcome, found->reason);
        if (strcmp(found->outcome, outcome) != 0 || strstr(found->reason, reason) == NULL) {
            fail_msg("%s: %s (%s), expected %s (%s)", mode, found->outcome, found->reason, outcome, reason);
        }
        return;
    }
    fail_msg("%s was not among the candidates", mode);
}

static void the_right_one_wins_whatever_the_others_do(void **state)
{
    struct parts *parts = *state;
    char folder[512];
    bool host = strcmp(device_name(), "host") == 0;
    assert_int_equal(folder_temporary(folder, sizeof folder, NULL), ATTUNE_OK);
    struct generator *generator = tuner_family(folder, modes, "2", "on a device");
    for (int run = 0; run < 2; run++) {
        struct tune_result result = tune(parts, generator);
        assert_string_equal(result.record.candidate, "twice/plain mode=right");
        assert_true(result.record.complete);
        assert_true(host || result.record.winner_microseconds > 0.0);
        expect(&result, "right", host ? "right" : "timed", "");
        for (int i = 0; i < BAD; i++) {
            bool noted = strcmp(bad[i].outcome, "resources") != 0;
            expect(&result, bad[i].mode, run > 0 && noted ? "blocked" : bad[i].outcome, bad[i].reason);
        }
        tune_result_free(&result);
    }
    generator_destroy(generator);
    folder_remove(folder);
}

/* kernels that were right and timed in another process are loaded without a check, and the rest is looked at */
static void a_stopped_run_goes_on(void **state)
{
    struct parts *parts = *state;
    char folder[512], journal[512];
    bool host = strcmp(device_name(), "host") == 0;
    assert_int_equal(folder_temporary(folder, sizeof folder, NULL), ATTUNE_OK);
    struct generator *generator = tuner_family(folder, "half right r01 r02 fault r03 r04 r05", "2", "goes on");
    struct tune_result result = tune_with(parts, generator, (struct tune_options){.budget_candidates = 4});
    assert_int_equal(result.counts.looks, 4);
    snprintf(journal, sizeof journal, "%s", result.journal);
    tune_result_free(&result);
    result = tune_with(parts, generator, (struct tune_options){.resume = true, .accept_stored = true});
    assert_true(result.counts.resumed && !result.already_done);
    assert_int_equal(result.counts.held, 4);
    assert_int_equal(result.counts.looks, 8);
    assert_int_equal(result.outcome_count, 8);
    assert_int_equal(result.counts.verified, 6);
    assert_string_equal(result.journal, journal);
    assert_true(result.record.complete);
    assert_true(host || result.record.winner_microseconds > 0.0);
    expect(&result, "half", "wrong", "never written");
    expect(&result, "fault", "crashed", "normal");
    for (int i = 1; i < 6; i++) {
        char mode[16];
        snprintf(mode, sizeof mode, "r%02d", i);
        expect(&result, mode, host ? "right" : "timed", "");
    }
    tune_result_free(&result);
    result = tune_with(parts, generator, (struct tune_options){.resume = true, .accept_stored = true});
    assert_true(result.already_done);
    assert_int_equal(result.counts.held, 8);
    tune_result_free(&result);
    generator_destroy(generator);
    folder_remove(folder);
}

static void count(void *data, const struct verify_outcome *outcome, int done, int total)
{
    int *hung_and_crashed = data;
    (void)done, (void)total;
    hung_and_crashed[0] += strcmp(outcome->outcome, "hung") == 0;
    hung_and_crashed[1] += strcmp(outcome->outcome, "crashed") == 0;
}

static void verification_goes_on_past_them(void **state)
{
    struct parts *parts = *state;
    struct problem problem;
    struct error error = {0};
    char folder[512];
    int seen[2] = {0}, right, total;
    assert_int_equal(folder_temporary(folder, sizeof folder, NULL), ATTUNE_OK);
    struct generator *generator = tuner_family(folder, modes, "2", "on a device");
    const struct verify_options options = {
        .device = device_name(), .all_candidates = true, .seed = 1, .candidate_seconds = 5.0, .store = parts->store};
    assert_int_equal(problem_parse(generator_schema(generator, "twice"), "twice n=30000", &problem, NULL), ATTUNE_OK);
    attune_status status = verify_run(generator, parts->pool, &problem, &options, count, seen, &right, &total, &error);
    if (status == ATTUNE_NO_TOOLCHAIN || status == ATTUNE_NO_DEVICE) {
        print_message("skipped: %s\n", error.message);
        skip();
    }
    assert_int_equal(status, ATTUNE_WRONG);
    assert_int_equal(right, 1);
    assert_int_equal(total, BAD - 1 + 1); /* what does not fit is not judged */
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[1], 1);
    generator_destroy(generator);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_one_wins_whatever_the_others_do),
        cmocka_unit_test(a_stopped_run_goes_on),
        cmocka_unit_test(verification_goes_on_past_them),
    };
    return cmocka_run_group_tests_name("tuner_device", tests, parts_set_up, parts_tear_down);
}
