/* B27: the watchdog and its worker. What becomes of finalists when a worker ends, of a run whose device is lost, of
 * workers whose parent dies, and of programs that are no workers. */
#include "tests/autotune/parts.h"

#include "autotune/tune.h"
#include "base/process.h"
#include "tests/proof/tuner_family.h"
#include "tests/size.h"

#include <sys/stat.h>
#include <unistd.h>

struct place {
    char folder[512], templates[600], store[600];
};

static char measure[4096]; /* ATTUNE_MEASURE as the test was started */

static void open_place(struct place *place)
{
    assert_int_equal(folder_temporary(place->folder, sizeof place->folder, NULL), ATTUNE_OK);
    assert_int_equal(path_join(place->templates, sizeof place->templates, place->folder, "templates", NULL), ATTUNE_OK);
    assert_int_equal(path_join(place->store, sizeof place->store, place->folder, "store", NULL), ATTUNE_OK);
    assert_int_equal(mkdir(place->templates, 0700), 0);
}

static attune_status tune(struct place *place, struct parts *parts, const char *modes, struct tune_options options,
                          struct tune_result *result, struct error *error)
{
    struct generator *generator = tuner_family(place->templates, modes, "2", "workers");
    struct problem problem;
    struct store *store;
    assert_int_equal(store_open(place->store, &store, NULL), ATTUNE_OK);
    assert_int_equal(problem_parse(generator_schema(generator, "twice"), "twice n=300", &problem, NULL), ATTUNE_OK);
    options.device = "host";
    options.seed = 1;
    options.candidate_seconds = options.candidate_seconds > 0.0 ? options.candidate_seconds : 3.0;
    attune_status status = tune_run(generator, parts->pool, store, &problem, &options, NULL, NULL, result, error);
    store_close(store);
    generator_destroy(generator);
    return status;
}

static void expect(const struct tune_result *result, const char *mode, const char *outcome, const char *reason)
{
    for (int i = 0; i < result->outcome_count; i++) {
        const struct tune_outcome *found = &result->outcomes[i];
        if (strcmp(strrchr(found->candidate, '=') + 1, mode) == 0) {
            if (strcmp(found->outcome, outcome) != 0 || strstr(found->reason, reason) == NULL) {
                fail_msg("%s: %s (%s), expected %s (%s)", mode, found->outcome, found->reason, outcome, reason);
            }
            return;
        }
    }
    fail_msg("%s was not among the candidates", mode);
}

static void use(const char *program)
{
    assert_int_equal(setenv("ATTUNE_MEASURE", program, 1), 0);
}

static int use_the_usual(void **state)
{
    (void)state;
    return setenv("ATTUNE_MEASURE", measure, 1);
}

static void skip_without_compiler(attune_status status, const struct error *error)
{
    if (status == ATTUNE_NO_TOOLCHAIN && strstr(error->message, "attune-measure") == NULL) {
        print_message("skipped: %s\n", error->message);
        skip();
    }
}

/* The fastest crash and hang in the rounds, one at its first look: they go, the rest is loaded again and meets. */
static void finalists_return_when_their_worker_ends(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    open_place(&place);
    use(TEST_BINARY_DIR "/tests/proof/scripted_measure");
    attune_status status = tune(&place, *state, "t120 t100 lateabort50 t110 lookabort60 latehang40 half",
                                (struct tune_options){0}, &result, &error);
    skip_without_compiler(status, &error);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(result.record.candidate, "twice/plain mode=t100");
    assert_true(result.record.complete);
    assert_true(result.record.winner_microseconds > 99.99 && result.record.winner_microseconds < 100.01);
    assert_true(result.record.default_microseconds > 119.99 && result.record.default_microseconds < 120.01);
    expect(&result, "t120", "timed", "");
    expect(&result, "t110", "timed", "");
    expect(&result, "lateabort50", "crashed", "aborts");
    expect(&result, "latehang40", "hung", "final rounds: it did not end within 3 s");
    expect(&result, "lookabort60", "crashed", "first look");
    expect(&result, "half", "wrong", "");
    tune_result_free(&result);

    status = tune(&place, *state, "t120 t100 lateabort50 t110 lookabort60 latehang40 half", (struct tune_options){0},
                  &result, &error);
    assert_int_equal(status, ATTUNE_OK);
    assert_string_equal(result.record.candidate, "twice/plain mode=t100");
    expect(&result, "lateabort50", "blocked", "aborts");
    expect(&result, "latehang40", "blocked", "final rounds");
    expect(&result, "lookabort60", "blocked", "first look");
    tune_result_free(&result);
    folder_remove(place.folder);
}

/* Compilers are slower than this device: meanwhile the best so far are timed again, and the times stay what they are.
 */
static void while_compilers_work_the_best_are_timed_again(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    open_place(&place);
    use(TEST_BINARY_DIR "/tests/proof/scripted_measure");
    attune_status status =
        tune(&place, *state, "t120 t101 t102 t103 t104 t105 t106 t107 t108 t109 t110 t111 t112 t113 t114 t115 t100",
             (struct tune_options){0}, &result, &error);
    skip_without_compiler(status, &error);
    assert_int_equal(status, ATTUNE_OK);
    assert_true(result.between_samples > 0);
    assert_true(result.between_seconds > 0.0);
    assert_string_equal(result.record.candidate, "twice/plain mode=t100");
    assert_true(result.record.winner_microseconds > 99.99 && result.record.winner_microseconds < 100.01);
    expect(&result, "t114", "slower", "");
    expect(&result, "t115", "slower", "");
    tune_result_free(&result);
    folder_remove(place.folder);
}

/* What another process found right is loaded into a worker without a check; one of them fails in the rounds, and the
 * worker that comes after it has the others again. */
static void finalists_of_an_earlier_run_meet_todays(void **state)
{
    static const char modes[] = "t120 t100 lateabort50 t110 t105 half t90 t95";
    struct place place;
    struct tune_result result;
    struct error error = {0};
    open_place(&place);
    use(TEST_BINARY_DIR "/tests/proof/scripted_measure");
    attune_status status = tune(&place, *state, modes, (struct tune_options){.budget_candidates = 5}, &result, &error);
    skip_without_compiler(status, &error);
    assert_int_equal(status, ATTUNE_OK);
    tune_result_free(&result);
    assert_int_equal(tune(&place, *state, modes, (struct tune_options){.resume = true}, &result, &error), ATTUNE_OK);
    assert_true(result.counts.resumed);
    assert_int_equal(result.counts.held, 5);
    assert_int_equal(result.counts.looks, 8);
    assert_string_equal(result.record.candidate, "twice/plain mode=t90");
    assert_true(result.record.winner_microseconds > 89.99 && result.record.winner_microseconds < 90.01);
    assert_true(result.record.default_microseconds > 119.99 && result.record.default_microseconds < 120.01);
    expect(&result, "t100", "timed", "");
    expect(&result, "t95", "timed", "");
    expect(&result, "lateabort50", "crashed", "aborts");
    expect(&result, "half", "wrong", "");
    tune_result_free(&result);
    folder_remove(place.folder);
}

/* the default is the yardstick: without it the first of the others is */
static void a_default_that_fails_in_the_rounds_leaves_the_others(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    open_place(&place);
    use(TEST_BINARY_DIR "/tests/proof/scripted_measure");
    attune_status status = tune(&place, *state, "lateabort120 t100 t110", (struct tune_options){0}, &result, &error);
    skip_without_compiler(status, &error);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(result.record.candidate, "twice/plain mode=t100");
    assert_true(result.record.default_microseconds == 0.0);
    expect(&result, "lateabort120", "crashed", "aborts");
    tune_result_free(&result);
    folder_remove(place.folder);
}

/* a program in the folder that runs `text` by the shell */
static void write_program(const struct place *place, const char *text, char path[600])
{
    assert_int_equal(path_join(path, 600, place->folder, "attune-measure", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, text, strlen(text), NULL), ATTUNE_OK);
    assert_int_equal(chmod(path, 0700), 0);
}

/* the device answers once and never again: what was found is kept, nobody is blamed for the rest */
static void a_lost_device_ends_the_run_with_what_there_is(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    char path[600], text[8192];
    open_place(&place);
    snprintf(text, sizeof text,
             "#!/bin/sh\nif [ -e '%s/once' ]; then echo 'no device any more' >&2; exit 1; fi\n"
             "touch '%s/once'\nexec '%s' \"$@\"\n",
             place.folder, place.folder, measure);
    write_program(&place, text, path);
    use(path);
    attune_status status = tune(&place, *state, "right fault half early", (struct tune_options){0}, &result, &error);
    skip_without_compiler(status, &error);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(result.record.candidate, "twice/plain mode=right");
    assert_false(result.record.complete);
    expect(&result, "fault", "crashed", "signal 11");
    int lost = 0;
    for (int i = 0; i < result.outcome_count; i++) {
        const struct tune_outcome *outcome = &result.outcomes[i];
        lost += strcmp(outcome->outcome, "not-tried") == 0 && strstr(outcome->reason, "no device any more") != NULL;
    }
    /* the order is the seed's: whoever came next met the loss */
    bool fault_was_last = strstr(result.outcomes[result.outcome_count - 1].candidate, "fault") != NULL;
    assert_true(lost == 1 || fault_was_last);
    tune_result_free(&result);
    folder_remove(place.folder);
}

/* who ends a worker once - an operator, memory that ran out elsewhere - condemns no candidate, at whatever moment */
static void an_end_from_outside_is_nobodys_fault(void **state)
{
    static const char *const moments[] = {"0.05", "0.2", "0.4", "0.6", "0.8", "1"};
    for (int i = 0; i < test_size(3, 6); i++) {
        struct place place;
        struct tune_result result;
        struct error error = {0};
        char path[600], text[8192];
        open_place(&place);
        snprintf(
            text, sizeof text,
            "#!/bin/sh\nif [ ! -e '%s/once' ]; then touch '%s/once'; (sleep %s; kill -9 $$) & fi\nexec '%s' \"$@\"\n",
            place.folder, place.folder, moments[i], measure);
        write_program(&place, text, path);
        use(path);
        attune_status status = tune(&place, *state, "right half", (struct tune_options){0}, &result, &error);
        skip_without_compiler(status, &error);
        if (status != ATTUNE_OK) {
            fail_msg("ended after %s s: %s", moments[i], error.message);
        }
        assert_string_equal(result.record.candidate, "twice/plain mode=right");
        expect(&result, "half", "wrong", "");
        tune_result_free(&result);
        folder_remove(place.folder);
    }
}

/* a worker that is stopped looks like one that hangs: the candidate is asked about once more */
static void stop_or_kill(void **state, const char *modes, const char *faultless)
{
    struct place place;
    char winner[64];
    struct tune_result result;
    struct error error = {0};
    char once[600];
    open_place(&place);
    assert_int_equal(path_join(once, sizeof once, place.folder, "once", NULL), ATTUNE_OK);
    assert_int_equal(setenv("ATTUNE_TEST_ONCE", once, 1), 0);
    use(TEST_BINARY_DIR "/tests/proof/scripted_measure");
    attune_status status = tune(&place, *state, modes, (struct tune_options){0}, &result, &error);
    skip_without_compiler(status, &error);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(access(once, F_OK), 0); /* it happened */
    snprintf(winner, sizeof winner, "twice/plain mode=%s", faultless);
    assert_string_equal(result.record.candidate, winner);
    expect(&result, faultless, "timed", "");
    expect(&result, "t110", "timed", "");
    assert_int_equal(unsetenv("ATTUNE_TEST_ONCE"), 0);
    tune_result_free(&result);
    folder_remove(place.folder);
}

static void a_stop_from_outside_is_nobodys_fault(void **state)
{
    stop_or_kill(state, "t120 stoponce100 t110", "stoponce100");
}

static void a_kill_between_samples_is_nobodys_fault(void **state)
{
    stop_or_kill(state, "t120 killonce100 t110", "killonce100");
}

static void programs_that_are_no_workers_are_refused_by_name(void **state)
{
    static const struct {
        const char *text, *expected;
    } programs[] = {{"#!/bin/sh\nexit 3\n", "exited with code 3"},
                    {"#!/bin/sh\necho this is no frame at all, and long enough; sleep 100\n", "no message"},
                    {"#!/bin/sh\nkill -9 $$\n", "signal 9"},
                    {"#!/bin/sh\necho why it fails >&2; exit 1\n", "why it fails"}};
    struct place place;
    struct tune_result result;
    char path[600];
    open_place(&place);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        struct error error = {0};
        write_program(&place, programs[i].text, path);
        use(path);
        assert_int_equal(tune(&place, *state, "right", (struct tune_options){0}, &result, &error), ATTUNE_NO_TOOLCHAIN);
        if (strstr(error.message, "attune-measure") == NULL || strstr(error.message, programs[i].expected) == NULL) {
            fail_msg("%s", error.message);
        }
    }
    struct error error = {0};
    use("/nowhere/attune-measure");
    assert_int_equal(tune(&place, *state, "right", (struct tune_options){0}, &result, &error), ATTUNE_NO_TOOLCHAIN);
    assert_non_null(strstr(error.message, "ATTUNE_MEASURE=/nowhere/attune-measure cannot be run"));
    folder_remove(place.folder);
}

/* for debuggers: no worker, the same answers */
static void none_keeps_candidates_in_the_process(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    open_place(&place);
    use("none");
    attune_status status = tune(&place, *state, "half right", (struct tune_options){0}, &result, &error);
    skip_without_compiler(status, &error);
    assert_int_equal(status, ATTUNE_OK);
    assert_string_equal(result.record.candidate, "twice/plain mode=right");
    expect(&result, "half", "wrong", "never written");
    tune_result_free(&result);
    folder_remove(place.folder);
}

struct interrupting {
    volatile int stop;
    double when;
};

static void stop_at_the_second(void *data, const struct tune_progress *progress)
{
    struct interrupting *interrupting = data;
    if (progress->verified + progress->wrong + progress->failed >= 1 && interrupting->stop == 0) {
        interrupting->stop = 1;
        interrupting->when = clock_seconds();
    }
}

/* Ctrl-C */
static void a_stop_ends_a_hanging_candidate_too(void **state)
{
    struct place place;
    struct parts *parts = *state;
    struct tune_result result;
    struct error error = {0};
    struct interrupting interrupting = {0};
    struct problem problem;
    open_place(&place);
    struct generator *generator = tuner_family(place.templates, "forever right", "2", "workers");
    assert_int_equal(problem_parse(generator_schema(generator, "twice"), "twice n=300", &problem, NULL), ATTUNE_OK);
    interrupting.stop = 1; /* from the first moment on: the default is looked at nevertheless, and hangs */
    interrupting.when = clock_seconds();
    const struct tune_options options = {
        .device = "host", .seed = 1, .candidate_seconds = 500.0, .stop = &interrupting.stop};
    attune_status status = tune_run(generator, parts->pool, parts->store, &problem, &options, stop_at_the_second,
                                    &interrupting, &result, &error);
    skip_without_compiler(status, &error);
    assert_int_not_equal(status, ATTUNE_OK); /* nothing is known */
    assert_true(clock_seconds() - interrupting.when < 60.0);
    generator_destroy(generator);
    folder_remove(place.folder);
}

/* a child of ours that tunes and is killed in the middle of a hanging candidate leaves no worker behind */
static void a_worker_ends_with_its_parent(void **state)
{
    struct place place;
    char path[600], text[8192], pid_file[600], number[32] = "";
    (void)state;
    open_place(&place);
    assert_int_equal(path_join(pid_file, sizeof pid_file, place.folder, "pid", NULL), ATTUNE_OK);
    snprintf(text, sizeof text, "#!/bin/sh\necho $$ > '%s'\nexec '%s' \"$@\"\n", pid_file, measure);
    write_program(&place, text, path);
    struct generator *generator = tuner_family(place.templates, "forever", "2", "workers");
    generator_destroy(generator);
    const char *environment[8] = {0};
    char templates[700], program[700], store[700];
    snprintf(templates, sizeof templates, "ATTUNE_TEMPLATE_PATH=%s", place.templates);
    snprintf(program, sizeof program, "ATTUNE_MEASURE=%s", path);
    snprintf(store, sizeof store, "ATTUNE_CACHE=%s", place.store);
    environment[0] = templates;
    environment[1] = program;
    environment[2] = store;
    const char *const argv[] = {
        TEST_BINARY_DIR "/cli/attune", "tune", "--device", "host", "--problem", "twice n=300", NULL};
    const struct process_options options = {.argv = argv, .environment = environment};
    struct process child;
    struct error error = {0};
    assert_int_equal(process_start(&options, &child, &error), ATTUNE_OK);
    for (int i = 0; i < 600 && number[0] == '\0'; i++) {
        struct buffer bytes = BUFFER_INIT;
        if (file_read(pid_file, 31, &bytes, NULL) == ATTUNE_OK && bytes.length > 1) {
            snprintf(number, sizeof number, "%s", buffer_string(&bytes));
        }
        buffer_free(&bytes);
        usleep(100000);
    }
    pid_t worker = (pid_t)atoi(number);
    if (worker <= 0) {
        process_kill(&child);
        print_message("skipped: no worker was started, perhaps for want of a compiler\n");
        skip();
    }
    process_kill(&child); /* its group; the worker's is another */
    bool gone = false;
    for (int i = 0; i < 300 && !gone; i++) {
        gone = process_group_rss(worker) == 0; /* it leads a group of its own; what nobody reaped holds nothing */
        usleep(gone ? 0 : 100000);
    }
    assert_true(gone);
    folder_remove(place.folder);
}

/* B27 as a user meets it: two processes of the program, and the cache's commands in between */
static void the_next_process_of_the_program_does_not_try_again(void **state)
{
    static const char *const tune_it[] = {
        TEST_BINARY_DIR "/cli/attune", "tune", "--device", "host", "--problem", "twice n=300",
        "--candidate-limit",           "3s",   "--json",   NULL};
    static const char *const list_it[] = {TEST_BINARY_DIR "/cli/attune", "cache", "ls", "--all", "--json", NULL};
    static const char *const prune_it[] = {TEST_BINARY_DIR "/cli/attune", "cache", "prune", "--blocked", NULL};
    static const struct {
        const char *const *argv;
        const char *expected;
    } steps[] = {{tune_it, "\"hung\": 1"},
                 {list_it, "\"kind\": \"blocked\""},
                 {tune_it, "\"blocked\": 1"},
                 {prune_it, "removed 1 entry"},
                 {tune_it, "\"hung\": 1"}};
    struct place place;
    (void)state;
    open_place(&place);
    generator_destroy(tuner_family(place.templates, "right forever", "2", "workers"));
    char templates[700], store[700];
    snprintf(templates, sizeof templates, "ATTUNE_TEMPLATE_PATH=%s", place.templates);
    snprintf(store, sizeof store, "ATTUNE_CACHE=%s", place.store);
    const char *const environment[] = {templates, store, NULL};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const struct process_options options = {.argv = steps[i].argv, .environment = environment, .seconds = 200};
        struct process_result result;
        struct error error = {0};
        assert_int_equal(process_run(&options, &result, &error), ATTUNE_OK);
        if (result.exit_code == 3) {
            print_message("skipped: %s\n", buffer_string(&result.errors));
            process_result_free(&result);
            folder_remove(place.folder);
            skip();
        }
        if (result.exit_code != 0 || strstr(buffer_string(&result.output), steps[i].expected) == NULL) {
            fail_msg("step %zu: exit code %d: %s%s", i, result.exit_code, buffer_string(&result.output),
                     buffer_string(&result.errors));
        }
        process_result_free(&result);
    }
    folder_remove(place.folder);
}

/* Takes more than 4 GiB for a moment: in full size, where there is room. */
static void memory_without_end_is_ended(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {0};
    if (test_size(0, 1) == 0 || sysconf(_SC_AVPHYS_PAGES) / 1024 * sysconf(_SC_PAGESIZE) / 1024 < 12 * 1024) {
        print_message("skipped: size ci, or less than 12 GiB of free memory\n");
        skip();
    }
    open_place(&place);
    use(TEST_BINARY_DIR "/tests/proof/scripted_measure");
    attune_status status =
        tune(&place, *state, "t120 grow90 t100", (struct tune_options){.candidate_seconds = 100.0}, &result, &error);
    skip_without_compiler(status, &error);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(result.record.candidate, "twice/plain mode=t100");
    expect(&result, "grow90", "crashed", "out of memory");
    tune_result_free(&result);
    folder_remove(place.folder);
}

static int set_up(void **state)
{
    const char *named = getenv("ATTUNE_MEASURE");
    snprintf(measure, sizeof measure, "%s", named != NULL ? named : TEST_BINARY_DIR "/autotune/attune-measure");
    return parts_set_up(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(finalists_return_when_their_worker_ends, use_the_usual),
        cmocka_unit_test_teardown(finalists_of_an_earlier_run_meet_todays, use_the_usual),
        cmocka_unit_test_teardown(while_compilers_work_the_best_are_timed_again, use_the_usual),
        cmocka_unit_test_teardown(a_default_that_fails_in_the_rounds_leaves_the_others, use_the_usual),
        cmocka_unit_test_teardown(a_lost_device_ends_the_run_with_what_there_is, use_the_usual),
        cmocka_unit_test_teardown(an_end_from_outside_is_nobodys_fault, use_the_usual),
        cmocka_unit_test_teardown(a_stop_from_outside_is_nobodys_fault, use_the_usual),
        cmocka_unit_test_teardown(a_kill_between_samples_is_nobodys_fault, use_the_usual),
        cmocka_unit_test_teardown(programs_that_are_no_workers_are_refused_by_name, use_the_usual),
        cmocka_unit_test_teardown(none_keeps_candidates_in_the_process, use_the_usual),
        cmocka_unit_test_teardown(a_stop_ends_a_hanging_candidate_too, use_the_usual),
        cmocka_unit_test_teardown(a_worker_ends_with_its_parent, use_the_usual),
        cmocka_unit_test_teardown(the_next_process_of_the_program_does_not_try_again, use_the_usual),
        cmocka_unit_test_teardown(memory_without_end_is_ended, use_the_usual),
    };
    return cmocka_run_group_tests_name("tuner_workers", tests, set_up, parts_tear_down);
}
