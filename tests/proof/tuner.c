/* B27, B29: candidates that hang, crash, exhaust the machine or are wrong, in the tuner as users have it: a worker
 * process holds them, a watchdog ends it, and the next run does not try them again. */
#include "tests/autotune/parts.h"

#include "autotune/tune.h"
#include "autotune/verify.h"
#include "base/process.h"
#include "runtime/attune.h"
#include "tests/proof/tuner_place.h"

#include <math.h>
#include <unistd.h>

enum { CANDIDATES_MAX = 16 };

static const struct tune_outcome *outcome_of(const struct tune_result *result, const char *mode)
{
    char name[128];
    snprintf(name, sizeof name, "twice/plain mode=%s", mode);
    for (int i = 0; i < result->outcome_count; i++) {
        if (strcmp(result->outcomes[i].candidate, name) == 0) {
            return &result->outcomes[i];
        }
    }
    fail_msg("%s was not among the candidates", mode);
    return NULL;
}

static void expect(const struct tune_result *result, const char *mode, const char *outcome, const char *reason)
{
    const struct tune_outcome *found = outcome_of(result, mode);
    if (strcmp(found->outcome, outcome) != 0 || strstr(found->reason, reason) == NULL) {
        fail_msg("%s: %s (%s), expected %s (%s)", mode, found->outcome, found->reason, outcome, reason);
    }
}

static bool journal_has(const struct tune_result *result, const char *mode, const char *outcome)
{
    char line[8192], name[128], what[64];
    bool found = false;
    FILE *file = fopen(result->journal, "r");
    assert_non_null(file);
    snprintf(name, sizeof name, "\"twice/plain mode=%s\"", mode);
    snprintf(what, sizeof what, "\"outcome\":\"%s\"", outcome);
    while (fgets(line, sizeof line, file) != NULL) {
        found |= strstr(line, name) != NULL && strstr(line, what) != NULL;
    }
    fclose(file);
    return found;
}

static const struct {
    const char *mode, *outcome, *reason;
} misbehaving[] = {
    {"spin", "hung", "did not end within 3 s"},
    {"forever", "hung", "normal inputs"},
    {"fault", "crashed", "signal 11"},
#if defined(__x86_64__)
    {"exit", "crashed", "exited with code 0"},
#endif
    {"stack", "crashed", "signal"},
};
enum { MISBEHAVING = sizeof misbehaving / sizeof misbehaving[0] };

static void all_modes(char text[512], const char *first)
{
    snprintf(text, 512, "%s", first);
    for (int i = 0; i < MISBEHAVING; i++) {
        snprintf(text + strlen(text), 512 - strlen(text), " %s", misbehaving[i].mode);
    }
}

/* B27: hung and crashed candidates are told as such with their reason, the others are looked at, the run ends in
 * bounded time; B29: none of them is chosen */
static void candidates_that_hang_or_crash_end_alone_and_are_not_tried_again(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    char modes[512];
    open_place(&place, *state);
    all_modes(modes, "early");
    strcat(modes, " right");
    double begin = clock_seconds();
    attune_status status = tune(&place, modes, "2", (struct tune_options){0}, &result, &error);
    double took = clock_seconds() - begin;
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(result.record.candidate, "twice/plain mode=right");
    assert_true(result.record.complete);
    expect(&result, "right", "right", "");
    expect(&result, "early", "wrong", "never written");
    for (int i = 0; i < MISBEHAVING; i++) {
        expect(&result, misbehaving[i].mode, misbehaving[i].outcome, misbehaving[i].reason);
        assert_true(journal_has(&result, misbehaving[i].mode, misbehaving[i].outcome));
    }
    /* two of them wait for their limit; the rest is compiling and starting workers on a busy machine */
    assert_true(took < 120.0);
    tune_result_free(&result);

    status = tune(&place, modes, "2", (struct tune_options){0}, &result, &error);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(result.record.candidate, "twice/plain mode=right");
    for (int i = 0; i < MISBEHAVING; i++) {
        expect(&result, misbehaving[i].mode, "blocked", misbehaving[i].reason);
        assert_true(journal_has(&result, misbehaving[i].mode, "blocked"));
    }
    expect(&result, "early", "blocked", "wrong before: ");
    tune_result_free(&result);

    /* asked for, they are tried again */
    status = tune(&place, "right fault", "2", (struct tune_options){.retry_blocked = true}, &result, &error);
    assert_int_equal(status, ATTUNE_OK);
    expect(&result, "fault", "crashed", "signal 11");
    tune_result_free(&result);
    folder_remove(place.folder);
}

static void blocked_candidates_return_with_another_text_or_when_pruned(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    struct store *store;
    struct store_prune rule = {.blocked = true};
    int removed = 0;
    open_place(&place, *state);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(tune(&place, "right fault", "2", (struct tune_options){0}, &result, &error), ATTUNE_OK);
        expect(&result, "fault", round == 0 ? "crashed" : "blocked", "signal 11");
        tune_result_free(&result);
    }
    place.comment = "another text, thus another object"; /* the author mended it, perhaps */
    assert_int_equal(tune(&place, "right fault", "2", (struct tune_options){0}, &result, &error), ATTUNE_OK);
    expect(&result, "fault", "crashed", "signal 11");
    tune_result_free(&result);
    /* `attune cache prune --blocked` clears them */
    assert_int_equal(store_open(place.store_folder, &store, NULL), ATTUNE_OK);
    assert_int_equal(store_prune(store, &rule, &removed, NULL, NULL), ATTUNE_OK);
    store_close(store);
    assert_int_equal(removed, 2);
    assert_int_equal(tune(&place, "right fault", "2", (struct tune_options){0}, &result, &error), ATTUNE_OK);
    expect(&result, "fault", "crashed", "signal 11");
    tune_result_free(&result);
    folder_remove(place.folder);
}

/* the yardstick itself may be the one */
static void a_default_that_hangs_or_crashes_leaves_the_others(void **state)
{
    static const char *const defaults[][2] = {{"forever", "hung"}, {"fault", "crashed"}};
    for (int i = 0; i < 2; i++) {
        struct place place;
        struct tune_result result;
        struct error error = {0};
        char modes[64];
        open_place(&place, *state);
        snprintf(modes, sizeof modes, "%s half right", defaults[i][0]);
        attune_status status = tune(&place, modes, "2", (struct tune_options){0}, &result, &error);
        if (status != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        expect(&result, defaults[i][0], defaults[i][1], "");
        assert_string_equal(result.record.candidate, "twice/plain mode=right");
        tune_result_free(&result);
        folder_remove(place.folder);
    }
}

static void when_all_hang_or_crash_the_error_lists_why(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    open_place(&place, *state);
    assert_int_equal(tune(&place, "fault forever stack", "2", (struct tune_options){0}, &result, &error),
                     ATTUNE_DEVICE_FAILED);
    assert_non_null(strstr(error.message, "none of 3 candidates is usable"));
    assert_non_null(strstr(error.message, "1 hung"));
    assert_non_null(strstr(error.message, "2 crashed"));
    assert_non_null(strstr(error.message, "signal 11"));
    folder_remove(place.folder);
}

/* the total limit holds in the middle of a candidate; what is known by then is published */
static void the_budget_ends_in_the_middle_of_a_candidate(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    open_place(&place, *state);
    /* objects first, so that the budget is the device's */
    assert_int_equal(tune(&place, "right", "2", (struct tune_options){0}, &result, &error), ATTUNE_OK);
    tune_result_free(&result);
    double begin = clock_seconds();
    attune_status status =
        tune(&place, "right forever", "2", (struct tune_options){.candidate_seconds = 600.0, .budget_seconds = 10.0},
             &result, &error);
    double took = clock_seconds() - begin;
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(took < 60.0);
    expect(&result, "forever", "not-tried", "budget");
    assert_false(result.record.complete);
    assert_string_equal(result.record.candidate, "twice/plain mode=right");
    tune_result_free(&result);
    folder_remove(place.folder);
}

/* B27: a compile has a limit of its own, and is not begun again either */
static void a_compile_that_takes_minutes_is_ended_and_remembered(void **state)
{
    struct parts *parts = *state, mine = *parts;
    struct place place;
    struct tune_result result;
    struct error error = {0};
    const struct compiler_options limits = {.seconds = 10.0};
    assert_int_equal(compiler_pool_create(&limits, &mine.pool, &error), ATTUNE_OK);
    open_place(&place, &mine);
    for (int round = 0; round < 2; round++) {
        double begin = clock_seconds();
        attune_status status = tune(&place, "right compile", "2", (struct tune_options){0}, &result, &error);
        double took = clock_seconds() - begin;
        if (status != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        assert_string_equal(result.record.candidate, "twice/plain mode=right");
        expect(&result, "compile", round == 0 ? "compile-error" : "blocked", "10 seconds");
        assert_true(journal_has(&result, "compile", round == 0 ? "compile-error" : "blocked"));
        assert_true(took < 60.0);
        tune_result_free(&result);
    }
    compiler_pool_destroy(mine.pool);
    folder_remove(place.folder);
}

/* a candidate's workspace that the machine does not have is that candidate's failure */
static void memory_that_is_not_there_fails_one_candidate(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    char script[600];
    const char *measure = getenv("ATTUNE_MEASURE");
    open_place(&place, *state);
    if (measure == NULL || strstr(measure, "/attune-measure") == NULL) {
        print_message("skipped: ATTUNE_MEASURE does not name the measuring program\n");
        skip();
    }
    char kept[4096], text[4400];
    snprintf(kept, sizeof kept, "%s", measure);
    snprintf(text, sizeof text, "#!/bin/sh\nulimit -v 6000000\nexec '%s' \"$@\"\n", kept);
    assert_int_equal(path_join(script, sizeof script, place.folder, "attune-measure", NULL), ATTUNE_OK);
    assert_int_equal(file_write(script, text, strlen(text), NULL), ATTUNE_OK);
    assert_int_equal(chmod(script, 0700), 0);
    assert_int_equal(setenv("ATTUNE_MEASURE", script, 1), 0);
    attune_status status = tune(&place, "right memory half", "2", (struct tune_options){0}, &result, &error);
    assert_int_equal(setenv("ATTUNE_MEASURE", kept, 1), 0);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    expect(&result, "memory", "launch-failed", "workspace of 8589934592 bytes");
    expect(&result, "half", "wrong", "never written");
    assert_string_equal(result.record.candidate, "twice/plain mode=right");
    tune_result_free(&result);
    folder_remove(place.folder);
}

/* B29 */
static void a_wrong_candidate_is_never_chosen(void **state)
{
    static const char *const wrong[] = {"early", "half", "shifted", "normal_only", "beyond"};
    for (int i = 0; i < 5; i++) { /* each of them as the default, which ties would favour */
        struct place place;
        struct tune_result result;
        struct error error = {0};
        char modes[256];
        open_place(&place, *state);
        snprintf(modes, sizeof modes, "%s right early half shifted normal_only beyond", wrong[i]);
        if (i > 0) { /* a value may occur once */
            char *again = strstr(modes + strlen(wrong[i]), wrong[i]);
            memmove(again - 1, again + strlen(wrong[i]), strlen(again + strlen(wrong[i])) + 1);
        } else {
            snprintf(modes, sizeof modes, "early right half shifted normal_only beyond");
        }
        attune_status status = tune(&place, modes, "2", (struct tune_options){0}, &result, &error);
        if (status != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        assert_string_equal(result.record.candidate, "twice/plain mode=right");
        for (int w = 0; w < 5; w++) {
            expect(&result, wrong[w], "wrong", "");
        }
        expect(&result, "normal_only", "wrong", "peaked");
        tune_result_free(&result);
        folder_remove(place.folder);
    }
}

static void all_wrong_is_a_clear_error(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    open_place(&place, *state);
    assert_int_equal(tune(&place, "early half", "2", (struct tune_options){0}, &result, &error), ATTUNE_WRONG);
    assert_non_null(strstr(error.message, "none of 2 candidates is usable; 2 wrong"));
    /* nor is it another day's right, until somebody says so */
    assert_int_equal(tune(&place, "early half", "2", (struct tune_options){0}, &result, &error), ATTUNE_WRONG);
    assert_non_null(strstr(error.message, "2 blocked"));
    assert_non_null(strstr(error.message, "wrong before: "));
    assert_non_null(strstr(error.message, "--retry-blocked"));
    place.comment = "another text";
    /* a broken reference: nothing agrees with it, so nothing wins */
    assert_int_equal(tune(&place, "right early half", "2.5", (struct tune_options){0}, &result, &error), ATTUNE_WRONG);
    assert_non_null(strstr(error.message, "3 wrong"));
    /* mended, which changes no kernel's text: whoever asks finds the right one, and later runs have it */
    for (int round = 0; round < 2; round++) {
        struct tune_options again = {.retry_blocked = round == 0};
        assert_int_equal(tune(&place, "right early half", "2", again, &result, &error), ATTUNE_OK);
        assert_string_equal(result.record.candidate, "twice/plain mode=right");
        expect(&result, "half", round == 0 ? "wrong" : "blocked", "");
        tune_result_free(&result);
    }
    folder_remove(place.folder);
}

/* a default that hung: neither a stored record nor a compile on a miss brings it into the caller's process */
static void a_default_known_to_hang_is_not_served(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    struct problem problem;
    open_place(&place, *state);
    struct generator *generator = tuner_family(place.templates, "forever right", "2", place.comment);
    assert_int_equal(problem_parse(generator_schema(generator, "twice"), "twice n=300", &problem, NULL), ATTUNE_OK);
    attune_status status = tune(&place, "forever right", "2", (struct tune_options){0}, &result, &error);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    expect(&result, "forever", "hung", "");
    struct blocked later = {.object = result.record.object, .target = "host", .outcome = "crashed", .reason = "since"};
    tune_result_free(&result);

    attune_context_options options = {.size = sizeof options, .store = place.store_folder, .jit = ATTUNE_JIT_COMPILE};
    attune_context *context;
    attune_device *device;
    attune_problem *wanted;
    attune_plan *plan = NULL;
    char message[1024];
    assert_int_equal(setenv("ATTUNE_TEMPLATE_PATH", place.templates, 1), 0);
    assert_int_equal(attune_context_create(&options, &context), ATTUNE_OK);
    assert_int_equal(attune_jit_register(context), ATTUNE_OK);
    assert_int_equal(attune_device_open(context, "host", &device), ATTUNE_OK);
    /* the problem that was tuned has its winner */
    assert_int_equal(attune_problem_parse(context, "twice n=300", &wanted), ATTUNE_OK);
    assert_int_equal(attune_prepare(device, wanted, NULL, &plan), ATTUNE_OK);
    attune_plan_info info = {.size = sizeof info};
    assert_int_equal(attune_plan_describe(plan, &info), ATTUNE_OK);
    assert_non_null(strstr(info.candidate, "mode=right"));
    attune_plan_destroy(plan);
    attune_problem_destroy(wanted);
    /* the default by its name is refused with the reason */
    assert_int_equal(attune_problem_parse(context, "twice n=300", &wanted), ATTUNE_OK);
    attune_prepare_options exactly = {.size = sizeof exactly, .candidate = "twice/plain mode=forever"};
    assert_int_not_equal(attune_prepare(device, wanted, &exactly, &plan), ATTUNE_OK);
    attune_last_error(context, message, sizeof message);
    if (strstr(message, "hung before") == NULL || strstr(message, "cache prune --blocked") == NULL) {
        fail_msg("%s", message);
    }
    /* so is the winner once it is blocked, record or not */
    struct store *store;
    assert_int_equal(store_open(place.store_folder, &store, NULL), ATTUNE_OK);
    assert_int_equal(store_blocked_put(store, &later, NULL), ATTUNE_OK);
    store_close(store);
    assert_int_not_equal(attune_prepare(device, wanted, NULL, &plan), ATTUNE_OK);
    attune_problem_destroy(wanted);
    attune_context_destroy(context);
    assert_int_equal(unsetenv("ATTUNE_TEMPLATE_PATH"), 0);
    generator_destroy(generator);
    folder_remove(place.folder);
}

/* no default record is left of a default that is wrong: other shapes would find it without a check */
static void a_wrong_default_leaves_no_record(void **state)
{
    static const char *const defaults[] = {"half", "fault", "right"};
    for (int i = 0; i < 3; i++) {
        struct place place;
        struct tune_result result;
        struct error error = {0};
        struct store *store;
        struct record *records = NULL;
        struct target target;
        char modes[64], folder[128];
        int count = -1;
        open_place(&place, *state);
        snprintf(modes, sizeof modes, "%s %s", defaults[i], i == 2 ? "half" : "right");
        assert_int_equal(tune(&place, modes, "2", (struct tune_options){0}, &result, &error), ATTUNE_OK);
        assert_string_equal(result.record.candidate, "twice/plain mode=right");
        assert_int_equal(target_parse("host", &target, NULL), ATTUNE_OK);
        default_folder(&target, folder);
        assert_int_equal(store_open(place.store_folder, &store, NULL), ATTUNE_OK);
        assert_int_equal(store_records(store, folder, result.record.specialisation, &records, &count, NULL), ATTUNE_OK);
        assert_int_equal(count, i == 2);
        for (int r = 0; r < count; r++) {
            record_free(&records[r]);
        }
        free(records);
        store_close(store);
        tune_result_free(&result);
        folder_remove(place.folder);
    }
}

struct seen {
    int count;
    struct verify_outcome outcomes[CANDIDATES_MAX];
};

static void note(void *data, const struct verify_outcome *outcome, int done, int total)
{
    struct seen *seen = data;
    (void)done, (void)total;
    assert_true(seen->count < CANDIDATES_MAX);
    seen->outcomes[seen->count++] = *outcome;
}

static void verification_goes_on_past_candidates_that_hang_or_crash(void **state)
{
    struct place place;
    struct error error = {0};
    struct seen seen = {0};
    struct problem problem;
    int right, total;
    char modes[512];
    open_place(&place, *state);
    all_modes(modes, "right");
    strcat(modes, " half divergent");
    struct generator *generator = tuner_family(place.templates, modes, "2", place.comment);
    assert_int_equal(problem_parse(generator_schema(generator, "twice"), "twice n=300", &problem, NULL), ATTUNE_OK);
    const struct verify_options options = {
        .device = "host", .all_candidates = true, .seed = 1, .candidate_seconds = candidate_seconds};
    attune_status status =
        verify_run(generator, place.parts->pool, &problem, &options, note, &seen, &right, &total, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        skip();
    }
    assert_int_equal(status, ATTUNE_WRONG);
    assert_int_equal(seen.count, MISBEHAVING + 3);
    assert_int_equal(right, 1);
    for (int i = 0; i < seen.count; i++) {
        const struct verify_outcome *outcome = &seen.outcomes[i];
        const char *mode = strstr(outcome->candidate, "mode=") + 5;
        const char *expected = strcmp(mode, "right") == 0                                  ? "right"
                               : strcmp(mode, "half") == 0                                 ? "wrong"
                               : strcmp(mode, "spin") == 0 || strcmp(mode, "forever") == 0 ? "hung"
                               : strcmp(mode, "compile") == 0                              ? "compile-error"
                               : strcmp(mode, "divergent") == 0                            ? "launch-failed"
                                                                                           : "crashed";
        if (strcmp(outcome->outcome, expected) != 0) {
            fail_msg("%s: %s (%s)", mode, outcome->outcome, outcome->reason);
        }
    }
    generator_destroy(generator);
    folder_remove(place.folder);
}

/* sanitizers run every launch in a program of its own, under the same limit */
static void a_sanitized_candidate_that_never_ends_is_ended(void **state)
{
    struct place place;
    struct error error = {0};
    struct seen seen = {0};
    struct problem problem;
    int right, total;
    open_place(&place, *state);
    struct generator *generator = tuner_family(place.templates, "right forever", "2", place.comment);
    assert_int_equal(problem_parse(generator_schema(generator, "twice"), "twice n=300", &problem, NULL), ATTUNE_OK);
    const struct verify_options options = {.device = "host",
                                           .all_candidates = true,
                                           .seed = 1,
                                           .sanitize = SANITIZE_ADDRESS,
                                           .candidate_seconds = 2.0 * candidate_seconds};
    attune_status status =
        verify_run(generator, place.parts->pool, &problem, &options, note, &seen, &right, &total, &error);
    generator_destroy(generator);
    folder_remove(place.folder);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error.message);
        skip();
    }
    assert_int_equal(right, 1);
    assert_int_equal(seen.count, 2);
    for (int i = 0; i < 2; i++) {
        bool endless = strstr(seen.outcomes[i].candidate, "forever") != NULL;
        if (strcmp(seen.outcomes[i].outcome, endless ? "hung" : "right") != 0) {
            fail_msg("%s: %s (%s)", seen.outcomes[i].candidate, seen.outcomes[i].outcome, seen.outcomes[i].reason);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_that_hang_or_crash_end_alone_and_are_not_tried_again),
        cmocka_unit_test(blocked_candidates_return_with_another_text_or_when_pruned),
        cmocka_unit_test(a_default_that_hangs_or_crashes_leaves_the_others),
        cmocka_unit_test(when_all_hang_or_crash_the_error_lists_why),
        cmocka_unit_test(the_budget_ends_in_the_middle_of_a_candidate),
        cmocka_unit_test(a_compile_that_takes_minutes_is_ended_and_remembered),
        cmocka_unit_test(memory_that_is_not_there_fails_one_candidate),
        cmocka_unit_test(a_wrong_candidate_is_never_chosen),
        cmocka_unit_test(all_wrong_is_a_clear_error),
        cmocka_unit_test(a_wrong_default_leaves_no_record),
        cmocka_unit_test(a_default_known_to_hang_is_not_served),
        cmocka_unit_test(verification_goes_on_past_candidates_that_hang_or_crash),
        cmocka_unit_test(a_sanitized_candidate_that_never_ends_is_ended),
    };
    return cmocka_run_group_tests_name("tuner", tests, parts_set_up, parts_tear_down);
}
