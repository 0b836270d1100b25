/* The loop between search, compilers and device, on a scripted device: who is looked at, how often, and what is said of
 * those who are not. */
#include "autotune/idle.h"
#include "autotune/journal.h"
#include "autotune/measurer.h"
#include "autotune/objects.h"
#include "autotune/search.h"
#include "autotune/tune_on.h"
#include "base/files.h"
#include "loop_family.h"
#include "scripted_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct setting {
    char folder[512];
    struct generator *generator;
    struct problem problem;
};

static void open_setting(struct setting *setting, const char *modes, const char *aliases)
{
    assert_int_equal(folder_temporary(setting->folder, sizeof setting->folder, NULL), ATTUNE_OK);
    setting->generator = loop_family(setting->folder, modes, aliases);
    assert_int_equal(problem_parse(generator_schema(setting->generator, "loop"), "loop n=70", &setting->problem, NULL),
                     ATTUNE_OK);
}

static void close_setting(struct setting *setting)
{
    generator_destroy(setting->generator);
    folder_remove(setting->folder);
}

/* loop_r0 takes 100 us, each further one five less; the wrong one would win, loop_r99 is left after a launch */
static double truth(const char *kernel, const void *object, size_t bytes)
{
    (void)object, (void)bytes;
    const char *mode = strrchr(kernel, '_') + 2;
    return strcmp(mode, "wrong") == 0 ? 1.0 : strcmp(mode, "99") == 0 ? 5000.0 : 100.0 - 5.0 * atoi(mode);
}

/* all alike */
static double same_for_all(const char *kernel, const void *object, size_t bytes)
{
    (void)kernel, (void)object, (void)bytes;
    return 100.0;
}

static attune_status try_tune(struct parts *parts, struct setting *setting, const struct driver *driver,
                              const struct tune_options *options, tune_report report, struct tune_result *result,
                              struct error *error)
{
    return tune_run_on(driver, 0, setting->generator, parts->pool, parts->store, &setting->problem, options, report,
                       NULL, result, error);
}

static void tune_told(struct parts *parts, struct setting *setting, const struct driver *driver,
                      const struct tune_options *options, tune_report report, struct tune_result *result)
{
    struct error error = {0};
    attune_status status = try_tune(parts, setting, driver, options, report, result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error.message);
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

static void tune(struct parts *parts, struct setting *setting, const struct driver *driver,
                 const struct tune_options *options, struct tune_result *result)
{
    tune_told(parts, setting, driver, options, NULL, result);
}

/* ------------------------------------------------------------------------------------------------ pipeline */

static void objects_come_in_the_order_of_adding_with_their_places(void **state)
{
    struct parts *parts = *state;
    struct setting setting;
    struct object_road road;
    struct candidate_list list;
    struct pipeline *pipeline;
    struct target target;
    int added = 0, taken = 0, place;
    open_setting(&setting, "0, 1, 2, 3, 4, 5, 6", "1, 2, 3");
    assert_int_equal(target_parse("host", &target, NULL), ATTUNE_OK);
    assert_int_equal(candidate_enumerate(setting.generator, &setting.problem, &target, &list, NULL), ATTUNE_OK);
    assert_int_equal(road_open(&road, parts->pool, parts->store, &target, SANITIZE_NONE, true, NULL), ATTUNE_OK);
    assert_int_equal(pipeline_create(setting.generator, &road, &setting.problem, NULL, 0, 2, &pipeline, NULL),
                     ATTUNE_OK);
    assert_null(pipeline_take(pipeline, &place)); /* nothing is under way */
    while (added < list.count && pipeline_add(pipeline, &list.items[list.count - 1 - added], 100 + added)) {
        added++;
    }
    assert_in_range(added, 1, list.count - 1); /* there is an end to its room */
    assert_int_equal(pipeline_under_way(pipeline), added);
    for (const struct object_job *job; (job = pipeline_take(pipeline, &place)) != NULL; taken++) {
        char name[CANDIDATE_TEXT_BYTES];
        candidate_format(&list.items[list.count - 1 - taken], name);
        assert_string_equal(job->name, name);
        assert_int_equal(place, 100 + taken);
        assert_int_equal(pipeline_under_way(pipeline), added - taken - 1);
        if (added < list.count) { /* room again for one */
            assert_true(pipeline_add(pipeline, &list.items[list.count - 1 - added], 100 + added));
            added++;
        }
        assert_string_equal(job->name, name); /* it is the reader's still */
    }
    assert_int_equal(taken, list.count);
    pipeline_destroy(pipeline);
    candidate_list_free(&list);
    close_setting(&setting);
}

/* ------------------------------------------------------------------------------------------------ identical binaries
 */

static const struct tune_outcome *outcome_of(const struct tune_result *result, const char *id)
{
    for (int i = 0; i < result->outcome_count; i++) {
        if (strcmp(result->outcomes[i].id, id) == 0) {
            return &result->outcomes[i];
        }
    }
    fail_msg("no outcome of %s", id);
    return NULL;
}

static struct digest digest_of_hex(const char *hex)
{
    struct digest digest;
    for (size_t i = 0; i < sizeof digest.bytes; i++) {
        unsigned byte = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        digest.bytes[i] = (uint8_t)byte;
    }
    return digest;
}

static void the_same_binary_is_looked_at_once(void **state)
{
    struct parts *parts = *state;
    struct setting setting;
    struct tune_result result;
    struct driver driver = scripted_driver(truth);
    int same = 0, same_wrong = 0, same_slow = 0;
    open_setting(&setting, "0, 1, 2, 99, -1", "1, 2, 3");
    tune(parts, &setting, &driver, &(struct tune_options){.seed = 1}, &result);
    assert_int_equal(result.listed, 15);
    assert_int_equal(result.outcome_count, 15);
    assert_int_equal(result.counts.looks, 5);
    assert_int_equal(result.counts.verified, 3);
    assert_int_equal(result.counts.wrong, 1);
    assert_int_equal(result.counts.same, 10);
    assert_int_equal(result.record.tried, 15);
    assert_true(result.record.complete && result.ending == TUNE_COMPLETE);
    for (int i = 0; i < result.outcome_count; i++) {
        const struct tune_outcome *outcome = &result.outcomes[i];
        char id[CANDIDATE_ID_BYTES] = "";
        if (strcmp(outcome->outcome, "same") != 0) {
            assert_true(outcome->looked);
            continue;
        }
        assert_false(outcome->looked);
        assert_int_equal(sscanf(outcome->reason, "the same binary as %12[0-9a-f]", id), 1);
        const struct tune_outcome *twin = outcome_of(&result, id);
        assert_true(twin->looked);
        assert_string_equal(twin->binary, outcome->binary);
        same++;
        if (strcmp(twin->outcome, "wrong") == 0) {
            struct digest object;
            struct blocked note;
            same_wrong++;
            assert_non_null(strstr(outcome->reason, ", which is wrong"));
            assert_true(outcome->microseconds == 0.0);
            object = digest_of_hex(outcome->object);
            assert_int_equal(store_blocked_get(parts->store, &object, &note, NULL), ATTUNE_OK);
        } else if (strstr(twin->candidate, "mode=99") != NULL) {
            same_slow++;
            assert_non_null(strstr(outcome->reason, ", which is slower, unverified"));
            assert_true(outcome->microseconds == 0.0);
        } else {
            assert_true(fabs(outcome->microseconds - twin->microseconds) < 1e-6 && outcome->microseconds > 0.0);
        }
    }
    assert_int_equal(same, 10);
    assert_int_equal(same_slow, 2);
    assert_int_equal(same_wrong, 2);
    assert_non_null(strstr(result.record.candidate, "mode=2 "));
    tune_result_free(&result);
    close_setting(&setting);
}

/* ------------------------------------------------------------------------------------------------ strategies */

static void a_count_is_of_looks(void **state)
{
    struct setting setting;
    struct tune_result result;
    struct driver driver = scripted_driver(truth);
    open_setting(&setting, "0, 1, 2, 3, 4", "1, 2");
    tune(*state, &setting, &driver, &(struct tune_options){.seed = 1, .budget_candidates = 3}, &result);
    assert_int_equal(result.counts.looks, 3);
    assert_true(result.outcome_count >= 3 && result.outcome_count < 10);
    assert_int_equal(result.listed, 10);
    assert_true(result.ending == TUNE_COUNT && !result.record.complete);
    tune_result_free(&result);
    close_setting(&setting);
}

static void a_strategy_that_leaves_candidates_is_complete_at_its_end(void **state)
{
    struct setting setting;
    struct tune_result result;
    char modes[512] = "0";
    enum { MODES = 64, TWINS = 4, LISTED = MODES * TWINS };
    const int looks = search_share(LISTED);
    assert_in_range(looks, 2, LISTED - 1);
    for (int mode = 1; mode < MODES; mode++) {
        snprintf(modes + strlen(modes), sizeof modes - strlen(modes), ", %d", mode);
    }
    open_setting(&setting, modes, "1, 2, 3, 4");
    static const char *const strategies[] = {NULL, "model", "random", "local"};
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        struct driver driver = scripted_driver(same_for_all);
        tune(*state, &setting, &driver, &(struct tune_options){.seed = 1, .strategy = strategies[i]}, &result);
        assert_string_equal(result.strategy, strategies[i] != NULL ? strategies[i] : "model");
        bool model = strcmp(result.strategy, "model") == 0;
        assert_int_equal(result.listed, LISTED);
        assert_in_range(result.counts.looks, model ? 1 : looks, looks); /* a model may expect nothing of the rest */
        assert_in_range(result.outcome_count, result.counts.looks, LISTED - 1);
        assert_true(result.ending == TUNE_COMPLETE && result.record.complete);
        assert_non_null(strstr(result.record.candidate, "mode=0 ")); /* the default wins among equals */
        tune_result_free(&result);
    }
    struct driver driver = scripted_driver(same_for_all);
    tune(*state, &setting, &driver, &(struct tune_options){.seed = 1, .strategy = "exhaustive"}, &result);
    assert_int_equal(result.counts.looks, MODES);
    tune_result_free(&result);
    close_setting(&setting);
}

/* how far each candidate is from a best one that is not the default */
static double valley(const char *kernel, const void *object, size_t bytes)
{
    (void)object, (void)bytes;
    return 100.0 + 3.0 * abs(atoi(strrchr(kernel, '_') + 2) - 41);
}

/* the ids of a journal's first looks, in the order in which they were written */
static void read_order(const struct tune_result *result, struct buffer *order)
{
    struct buffer bytes = BUFFER_INIT;
    assert_int_equal(file_read(result->journal, 1 << 20, &bytes, NULL), ATTUNE_OK);
    for (const char *at = buffer_string(&bytes); (at = strstr(at, "\"stage\":\"first\",\"id\":\"")) != NULL; at++) {
        buffer_format(order, "%.*s ", CANDIDATE_ID_BYTES - 1, strstr(at, "\"id\":\"") + 6);
    }
    buffer_free(&bytes);
}

/* compilers get ahead */
static void dawdle(void *data, const struct tune_progress *progress)
{
    (void)data, (void)progress;
    usleep(20000);
}

/* The first run waits for its compilers, the second for nobody: it finds all in the store, and takes its time. */
static void the_order_of_candidates_does_not_depend_on_compilers(void **state)
{
    struct parts parts = *(struct parts *)*state;
    struct setting setting;
    char modes[512] = "0", folder[512];
    enum { MODES = 64 };
    for (int mode = 1; mode < MODES; mode++) {
        snprintf(modes + strlen(modes), sizeof modes - strlen(modes), ", %d", mode);
    }
    open_setting(&setting, modes, "1");
    assert_int_equal(folder_temporary(folder, sizeof folder, NULL), ATTUNE_OK);
    assert_int_equal(store_open(folder, &parts.store, NULL), ATTUNE_OK);
    static const char *const strategies[] = {"model", "local"};
    for (int i = 0; i < 2; i++) {
        struct buffer orders[2] = {BUFFER_INIT, BUFFER_INIT};
        for (int run = 0; run < 2; run++) {
            struct driver driver = scripted_driver(valley);
            struct tune_result result;
            const struct tune_options options = {.seed = 1, .strategy = strategies[i]};
            tune_told(&parts, &setting, &driver, &options, run > 0 ? dawdle : NULL, &result);
            assert_int_equal(result.counts.reused > 0, run > 0 || i > 0);
            assert_true(result.counts.looks > 8);
            read_order(&result, &orders[run]);
            tune_result_free(&result);
        }
        assert_in_range(orders[0].length, 9 * CANDIDATE_ID_BYTES, MODES * CANDIDATE_ID_BYTES);
        assert_string_equal(buffer_string(&orders[0]), buffer_string(&orders[1]));
        buffer_free(&orders[0]);
        buffer_free(&orders[1]);
    }
    store_close(parts.store);
    folder_remove(folder);
    close_setting(&setting);
}

static attune_status count_objects(void *data, const struct store_entry *entry, struct error *error)
{
    (void)error;
    *(int *)data += entry->kind == STORE_OBJECT;
    return ATTUNE_OK;
}

/* Nobody looks at anything meanwhile, and yet objects are made. */
static void wait_for_objects(void *data, const struct tune_progress *progress)
{
    enum { AHEAD = 3 };
    struct store *store = data;
    if (progress->looks != 1) {
        return;
    }
    for (int tries = 0, objects = 0; objects < 1 + AHEAD; tries++) {
        objects = 0;
        assert_int_equal(store_walk(store, count_objects, &objects, NULL), ATTUNE_OK);
        assert_true(tries < 3000); /* a minute */
        usleep(20000);
    }
}

static void objects_are_made_while_a_candidate_is_looked_at(void **state)
{
    struct parts parts = *(struct parts *)*state;
    struct setting setting;
    struct tune_result result;
    struct error error = {0};
    struct driver driver = scripted_driver(truth);
    char folder[512];
    open_setting(&setting, "0, 1, 2, 3, 4, 5, 6, 7", "1");
    assert_int_equal(folder_temporary(folder, sizeof folder, NULL), ATTUNE_OK);
    assert_int_equal(store_open(folder, &parts.store, NULL), ATTUNE_OK);
    attune_status status =
        tune_run_on(&driver, 0, setting.generator, parts.pool, parts.store, &setting.problem,
                    &(struct tune_options){.seed = 1}, wait_for_objects, parts.store, &result, &error);
    if (status == ATTUNE_OK) {
        assert_int_equal(result.counts.compiled, 8);
        tune_result_free(&result);
    } else if (status != ATTUNE_NO_TOOLCHAIN) {
        fail_msg("%s", error.message);
    }
    store_close(parts.store);
    folder_remove(folder);
    close_setting(&setting);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error.message);
        skip();
    }
}

static void a_file_of_candidates_is_looked_at_whole(void **state)
{
    struct setting setting;
    struct tune_result result;
    struct driver driver = scripted_driver(truth);
    struct error error = {0};
    char path[600];
    static const char lines[] = "loop/plain mode=3 alias=1\nloop/plain mode=1 alias=1\n";
    open_setting(&setting, "0, 1, 2, 3, 4", "1");
    assert_int_equal(path_join(path, sizeof path, setting.folder, "candidates", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, lines, strlen(lines), NULL), ATTUNE_OK);
    tune(*state, &setting, &driver, &(struct tune_options){.seed = 1, .candidates = path}, &result);
    assert_string_equal(result.strategy, "exhaustive");
    assert_int_equal(result.counts.looks, 3);
    assert_string_equal(result.record.candidate, "loop/plain mode=3 alias=1");
    tune_result_free(&result);
    static const char *const whole[] = {"cover", "default"};
    for (int i = 0; i < 2; i++) {
        const struct tune_options options = {.seed = 1, .candidates = path, .strategy = whole[i]};
        assert_int_equal(try_tune(*state, &setting, &driver, &options, NULL, &result, &error), ATTUNE_INVALID);
        assert_non_null(strstr(error.message, whole[i]));
    }
    close_setting(&setting);
}

/* ------------------------------------------------------------------------------------------------ finals */

/* launches of a run until its finals, and in all */
static int until_finals, in_all;

static void note_launches(void *data, const struct tune_progress *progress)
{
    (void)data;
    if (progress->stage == TUNE_DONE) {
        in_all = scripted.launches;
    } else {
        until_finals = scripted.launches;
    }
}

/* half again as slow in the second half of the first finals, and then as before */
static double slow_for_a_while(int launch, int of_function)
{
    (void)of_function;
    return launch > (until_finals + in_all) / 2 && launch < in_all ? 1.5 : 1.0;
}

/* slower and slower from the finals on, 20 % in the time of one */
static double slower_and_slower(int launch, int of_function)
{
    (void)of_function;
    return launch > until_finals ? 1.0 + 0.2 * (launch - until_finals) / (in_all - until_finals) : 1.0;
}

static void tune_at_a_pace(struct parts *parts, struct setting *setting, double (*pace)(int, int),
                           struct tune_result *result)
{
    struct driver driver = scripted_driver(truth);
    scripted.pace = pace;
    tune_told(parts, setting, &driver, &(struct tune_options){.seed = 1}, pace == NULL ? note_launches : NULL, result);
    assert_non_null(strstr(result->record.candidate, "mode=5 "));
}

static double drift_in_the_journal(const struct tune_result *result)
{
    struct buffer bytes = BUFFER_INIT;
    struct journal_reading reading;
    assert_int_equal(file_read(result->journal, 1 << 20, &bytes, NULL), ATTUNE_OK);
    assert_int_equal(journal_read(bytes.data, bytes.length, &reading, NULL), ATTUNE_OK);
    assert_true(reading.has_end);
    double drift = reading.end.drift;
    journal_reading_free(&reading);
    buffer_free(&bytes);
    return drift;
}

static void finals_that_drift_are_held_again_and_what_is_left_is_told(void **state)
{
    struct setting setting;
    struct tune_result result;
    open_setting(&setting, "0, 1, 2, 3, 4, 5", "1");
    tune_at_a_pace(*state, &setting, NULL, &result);
    assert_true(result.drift < 1e-9);
    const int finals = in_all - until_finals;
    assert_true(finals > 100);
    tune_result_free(&result);

    tune_at_a_pace(*state, &setting, slow_for_a_while, &result);
    assert_true(result.drift < 0.01); /* the finals that count were held when it was over */
    assert_in_range(scripted.launches, in_all + finals / 2, in_all + 3 * finals / 2);
    assert_true(fabs(result.record.winner_microseconds - 75.0) < 0.5);
    tune_result_free(&result);

    tune_at_a_pace(*state, &setting, slower_and_slower, &result);
    assert_true(result.drift > 0.03);
    assert_in_range(scripted.launches, until_finals + 2 * finals, until_finals + 4 * finals); /* three times in all */
    assert_true(fabs(drift_in_the_journal(&result) - result.drift) < 1e-6);
    tune_result_free(&result);
    close_setting(&setting);
}

/* three within half a percent, the default a fifth behind */
static double tied(const char *kernel, const void *object, size_t bytes)
{
    (void)object, (void)bytes;
    int mode = atoi(strrchr(kernel, '_') + 2) % 100;
    return mode == 0 ? 120.0 : mode == 2 ? 100.4 : mode == 4 ? 100.0 : mode == 6 ? 100.2 : 110.0 + mode;
}

static void ties_have_one_winner_whatever_the_seed(void **state)
{
    struct setting setting;
    open_setting(&setting, "0, 1, 2, 3, 4, 5, 6, 7", "1");
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct driver driver = scripted_driver(tied);
        struct tune_result result;
        tune(*state, &setting, &driver, &(struct tune_options){.seed = seed}, &result);
        assert_string_equal(result.record.candidate, "loop/plain mode=2 alias=1");
        tune_result_free(&result);
    }
    close_setting(&setting);
}

/* mode=102 is the first by name */
static void of_those_that_tie_who_serves_every_size_wins(void **state)
{
    struct setting setting;
    open_setting(&setting, "0, 1, 102, 3, 4, 5, 6, 7", "1");
    struct driver driver = scripted_driver(tied);
    struct tune_result result;
    tune(*state, &setting, &driver, &(struct tune_options){.seed = 1}, &result);
    assert_string_equal(result.record.candidate, "loop/plain mode=4 alias=1");
    tune_result_free(&result);
    close_setting(&setting);
}

/* The first that was right is the yardstick of the looks, the first by name that of the finals: no drift. */
static void a_wrong_default_is_no_drift(void **state)
{
    struct setting setting;
    open_setting(&setting, "-1, 1, 2, 3, 4, 5", "1");
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct driver driver = scripted_driver(truth);
        struct tune_result result;
        tune(*state, &setting, &driver, &(struct tune_options){.seed = seed}, &result);
        assert_string_equal(result.record.candidate, "loop/plain mode=5 alias=1");
        assert_true(result.record.default_microseconds == 0.0);
        assert_true(result.drift < 1e-9);
        tune_result_free(&result);
    }
    close_setting(&setting);
}

/* ------------------------------------------------------------------------------------------------ waiting */

static void waiting_counts_between_replies_and_requests(void **state)
{
    (void)state;
    struct idle idle;
    idle_begin(&idle, 100.0, 10.0);
    assert_true(idle_share(&idle, 109.0) < 0.0);
    assert_true(idle_share(&idle, 110.5) < 0.0); /* half a second says nothing */
    idle_request(&idle, 105.0);                  /* before the time that counts */
    idle_reply(&idle, 108.0);
    assert_true(fabs(idle_share(&idle, 114.0) - 1.0) < 1e-9); /* waiting from its begin on */
    idle_request(&idle, 112.0);
    assert_true(fabs(idle_share(&idle, 118.0) - 2.0 / 8.0) < 1e-9);
    idle_reply(&idle, 120.0);
    assert_true(fabs(idle_share(&idle, 130.0) - 12.0 / 20.0) < 1e-9);
    idle_request(&idle, 121.0);
    assert_true(fabs(idle_share(&idle, 130.0) - 3.0 / 20.0) < 1e-9);
}

static void count(void *data)
{
    ++*(int *)data;
}

static void what_is_set_aside_runs_once_with_the_next_request(void **state)
{
    (void)state;
    struct setting setting;
    struct driver driver = scripted_driver(truth);
    open_setting(&setting, "0", "1");
    const struct measurer_local_options local = {
        .generator = setting.generator, .problem = &setting.problem, .driver = &driver, .timing = true};
    const struct measurer_remote_options remote = {
        .generator = setting.generator, .device = "host", .problem = &setting.problem};
    for (int other_process = 0; other_process < 2; other_process++) {
        struct measurer *measurer;
        struct measurer_facts facts;
        struct error error = {0};
        int ran = 0;
        attune_status status =
            other_process ? measurer_remote(&remote, &measurer, &error) : measurer_local(&local, &measurer, &error);
        if (status != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        measurer_meanwhile(measurer, count, &ran);
        assert_int_equal(ran, 0);
        if (measurer_open(measurer, &facts, &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        assert_int_equal(ran, 1);
        if (measurer_begin(measurer, &facts, setting.generator, NULL, &setting.problem, &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        assert_int_equal(ran, 1);
        measurer_catch_up(measurer); /* nothing is left to do */
        assert_int_equal(ran, 1);
        measurer_meanwhile(measurer, count, &ran);
        measurer_catch_up(measurer);
        assert_int_equal(ran, 2);
        measurer_close(measurer);
    }
    close_setting(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_come_in_the_order_of_adding_with_their_places),
        cmocka_unit_test(the_same_binary_is_looked_at_once),
        cmocka_unit_test(a_count_is_of_looks),
        cmocka_unit_test(a_strategy_that_leaves_candidates_is_complete_at_its_end),
        cmocka_unit_test(the_order_of_candidates_does_not_depend_on_compilers),
        cmocka_unit_test(objects_are_made_while_a_candidate_is_looked_at),
        cmocka_unit_test(a_file_of_candidates_is_looked_at_whole),
        cmocka_unit_test(finals_that_drift_are_held_again_and_what_is_left_is_told),
        cmocka_unit_test(ties_have_one_winner_whatever_the_seed),
        cmocka_unit_test(of_those_that_tie_who_serves_every_size_wins),
        cmocka_unit_test(a_wrong_default_is_no_drift),
        cmocka_unit_test(waiting_counts_between_replies_and_requests),
        cmocka_unit_test(what_is_set_aside_runs_once_with_the_next_request),
    };
    return cmocka_run_group_tests_name("loop", tests, parts_set_up, parts_tear_down);
}
