/* `attune explain` from a tuning run: who is next to the winner, why others are out, what the default would cost, where
 * one candidate stands; and what it says of journals that are gone and of objects that nobody should launch. The run is
 * a real one on the host device; its journal gets times by hand, which that device does not take. */
#include "program.h"

#include "autotune/journal.h"
#include "base/files.h"
#include "cache/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROBLEM "test.scale elements=1000 factor=3"

static bool tuned(const char *count)
{
    attune_in_shell("rm -rf \"$ATTUNE_CACHE\"");
    int code = count == NULL
                   ? attune("tune", "--problem", PROBLEM, "--device", "host", NULL)->exit_code
                   : attune("tune", "--problem", PROBLEM, "--device", "host", "--count", count, NULL)->exit_code;
    if (code == EXIT_IS_MISSING) {
        print_message("skipped: no C++ compiler for the host device\n");
        return false;
    }
    exits_with(EXIT_IS_DONE);
    return true;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

static double real_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void explain_json(const char *candidate)
{
    if (candidate == NULL) {
        attune("explain", "--problem", PROBLEM, "--device", "host", "--json", NULL);
    } else {
        attune("explain", "--problem", PROBLEM, "--device", "host", "--candidate", candidate, "--json", NULL);
    }
}

/* the only journal of the cache */
static void journal_path(char path[4096])
{
    attune("cache", "journals", "--json", NULL);
    const json_t *run = json_array_get(json_object_get(answer(), "runs"), 0);
    snprintf(path, 4096, "%s/%s", text_of(answer(), "store"), text_of(run, "path"));
}

/* Outcome i gets 20 µs and i tenths; the fourth is wrong, the fifth hangs, the sixth is in no final. */
static void give_times(void)
{
    char path[4096];
    struct buffer text = BUFFER_INIT, changed = BUFFER_INIT;
    struct journal_reading reading;
    struct error error = {.message = ""};
    journal_path(path);
    assert_int_equal(file_read(path, 1 << 20, &text, &error), ATTUNE_OK);
    assert_int_equal(journal_read(buffer_string(&text), text.length, &reading, &error), ATTUNE_OK);
    assert_int_equal(reading.outcome_count, 8);
    for (int i = 0; i < reading.outcome_count; i++) {
        struct tune_outcome *what = &reading.outcomes[i].what;
        static const char *const names[] = {[3] = "wrong", [4] = "hung", [5] = "slower"};
        bool out = i == 3 || i == 4;
        snprintf(what->outcome, sizeof what->outcome, "%s", i >= 3 && i <= 5 ? names[i] : "timed");
        snprintf(what->reason, sizeof what->reason, "%s",
                 i == 3   ? "element 17: error 3, the bound is 1e-06"
                 : i == 4 ? "a launch took longer than 10 s"
                          : "");
        what->microseconds = out ? 0.0 : 20.0 + 0.1 * i;
        what->spread = out ? 0.0 : 0.02;
    }
    reading.end.drift = 0.046;
    assert_int_equal(journal_format(&reading, &changed, &error), ATTUNE_OK);
    assert_int_equal(file_write(path, changed.data, changed.length, &error), ATTUNE_OK);
    journal_reading_free(&reading);
    buffer_free(&text);
    buffer_free(&changed);
}

static void the_run_tells_who_is_next_and_why_others_are_out(void **state)
{
    (void)state;
    if (!tuned(NULL)) {
        skip();
    }
    give_times();
    explain_json(NULL);
    exits_with(EXIT_IS_DONE);
    matches_golden("explain");
    const json_t *tuning = json_object_get(answer(), "tuning"), *row;
    size_t index;
    double before = 0.0;
    assert_int_equal(json_array_size(json_object_get(tuning, "nearest")), 5); /* eight, less the winner and two */
    json_array_foreach(json_object_get(tuning, "nearest"), index, *(json_t **)&row)
    {
        double ratio = real_of(row, "ratio");
        assert_true(ratio > before && ratio > 1.0);
        assert_true(ratio == real_of(row, "microseconds") / 20.0);
        before = ratio;
    }
    assert_true(real_of(json_object_get(tuning, "default"), "ratio") == 1.0);
    attune("explain", "--problem", PROBLEM, "--device", "host", NULL);
    says("the default would cost 20.0 µs, 1.000 times the winner's time");
    says("nearest to it, of those that were measured");
    says("1 wrong: gave wrong results");
    says("1: element 17: error 3, the bound is 1e-06");
    says("1 hung: did not end in time");
    says("1 point refused by constraints");
    says("looked at 8 of 8 candidates (8 tried), 6 right, 6 timed");
    says("times drifted by 4.6 % while it ran");
}

static void one_candidate_is_told_by_name_words_or_id(void **state)
{
    (void)state;
    if (!tuned(NULL)) {
        skip();
    }
    give_times();
    char path[4096], name[CANDIDATE_TEXT_BYTES], id[CANDIDATE_ID_BYTES];
    struct buffer text = BUFFER_INIT;
    struct journal_reading reading;
    struct error error = {.message = ""};
    journal_path(path);
    assert_int_equal(file_read(path, 1 << 20, &text, &error), ATTUNE_OK);
    assert_int_equal(journal_read(buffer_string(&text), text.length, &reading, &error), ATTUNE_OK);
    static const struct {
        int outcome;
        const char *standing;
    } cases[] = {{0, "it is what a call would get"},
                 {1, "rank 2 of 6 by time, 1.005 times the winner's, in the finals"},
                 {5, "rank 4 of 6 by time, 1.025 times the winner's, by its first look"},
                 {3, "wrong: gave wrong results: element 17: error 3, the bound is 1e-06"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(name, sizeof name, "%s", reading.outcomes[cases[i].outcome].what.candidate);
        snprintf(id, sizeof id, "%s", reading.outcomes[cases[i].outcome].what.id);
        for (int form = 0; form < 4; form++) {
            char digits[8];
            snprintf(digits, sizeof digits, "%.6s", id);
            explain_json(form == 0 ? name : form == 1 ? id : form == 2 ? digits : strchr(name, ' ') + 1);
            exits_with(EXIT_IS_DONE);
            const json_t *row = json_object_get(answer(), "candidate");
            assert_string_equal(text_of(row, "standing"), cases[i].standing);
            assert_string_equal(text_of(row, "candidate"), name);
        }
    }
    journal_reading_free(&reading);
    buffer_free(&text);
    explain_json("threads=128 unroll=4");
    exits_with(EXIT_IS_DONE);
    assert_non_null(strstr(text_of(json_object_get(answer(), "candidate"), "standing"), "refused by a constraint: "));
    explain_json("000000000000");
    exits_with(EXIT_IS_FAILED);
    assert_non_null(strstr(text_of(json_object_get(answer(), "error"), "message"), "has an id that begins so"));
    attune("explain", "--problem", PROBLEM, "--device", "host", "--candidate", name, NULL);
    says("tuning run");
    assert_null(strstr(
        buffer_string(&attune("explain", "--problem", PROBLEM, "--device", "host", "--candidate", name, NULL)->output),
        "records considered")); /* the answer alone */
    explain_json("colour=blue");
    exits_with(EXIT_IS_USAGE);
    assert_non_null(strstr(text_of(json_object_get(answer(), "error"), "message"), "colour"));
}

/* the first digits of an id are enough while they are one candidate's; else all that it may be are named */
static void digits_of_several_ids_name_them(void **state)
{
    (void)state;
    if (!tuned(NULL)) {
        skip();
    }
    char path[4096], digit[2] = "";
    struct buffer text = BUFFER_INIT;
    struct journal_reading reading;
    struct error error = {.message = ""};
    int most = 0;
    journal_path(path);
    assert_int_equal(file_read(path, 1 << 20, &text, &error), ATTUNE_OK);
    assert_int_equal(journal_read(buffer_string(&text), text.length, &reading, &error), ATTUNE_OK);
    for (const char *at = "0123456789abcdef"; *at != '\0'; at++) {
        int count = 0;
        for (int i = 0; i < reading.outcome_count; i++) {
            count += reading.outcomes[i].what.id[0] == *at;
        }
        if (count > most) {
            most = count;
            digit[0] = *at;
        }
    }
    assert_in_range(most, 2, 5);
    explain_json(digit);
    exits_with(EXIT_IS_FAILED);
    const char *message = text_of(json_object_get(answer(), "error"), "message");
    for (int i = 0; i < reading.outcome_count; i++) {
        const struct tune_outcome *what = &reading.outcomes[i].what;
        assert_true((strstr(message, what->candidate) != NULL) == (what->id[0] == digit[0]));
    }
    assert_non_null(strstr(message, "candidates begin so; which one is it?"));
    journal_reading_free(&reading);
    buffer_free(&text);
}

static void tune_again(const char *option, const char *value)
{
    attune("tune", "--problem", PROBLEM, "--device", "host", option, value, NULL);
    exits_with(EXIT_IS_DONE);
}

static void which_of_several_runs_serves_is_said_as_it_is(void **state)
{
    (void)state;
    if (!tuned("2")) {
        skip();
    }
    static const char *const sentences[] = {
        "tuned on this device for this problem, by a run that was stopped before its search came to its end",
        "tuned on this device for this problem; of 2 runs, none of which came to its end, the one that tried most",
        "tuned on this device for this problem; of 3 runs the only one that came to its end",
        "tuned on this device for this problem; of 4 runs, 2 of which came to their end, the newest of these"};
    for (int i = 0; i < 4; i++) {
        if (i > 0) {
            tune_again(i == 1 ? "--count" : "--seed", i == 1 ? "3" : i == 2 ? "4" : "5");
        }
        explain_json(NULL);
        exits_with(EXIT_IS_DONE);
        const char *why = text_of(answer(), "why");
        if (strncmp(why, sentences[i], strlen(sentences[i])) != 0) {
            fail_msg("%s", why);
        }
        const json_t *first = json_array_get(json_object_get(answer(), "records"), 0);
        assert_int_equal(json_integer_value(json_object_get(first, "tried")), i == 0 ? 2 : i == 1 ? 3 : 8);
    }
    attune("explain", "--problem", "test.scale elements=2000 factor=3", "--device", "host", NULL);
    says("not tuned for this problem; the nearest shape of the same specialisation on this device; of 4 runs, 2 of");
}

static void what_the_run_did_not_come_to_is_told(void **state)
{
    (void)state;
    if (!tuned("2")) {
        skip();
    }
    int unknown = 0;
    static const char *const words[] = {"threads=64 unroll=1", "threads=64 unroll=2", "threads=64 unroll=4",
                                        "threads=128 unroll=1", "threads=128 unroll=2"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        explain_json(words[i]);
        exits_with(EXIT_IS_DONE);
        unknown += strcmp(text_of(json_object_get(answer(), "candidate"), "standing"),
                          "no constraint refuses it, but the run did not come to it") == 0;
    }
    assert_in_range(unknown, 3, 5);
}

static void a_journal_that_is_gone_or_damaged_is_told(void **state)
{
    (void)state;
    if (!tuned(NULL)) {
        skip();
    }
    char path[4096];
    struct error error = {.message = ""};
    journal_path(path);
    assert_int_equal(file_write(path, "no journal\n", 11, &error), ATTUNE_OK);
    explain_json(NULL);
    exits_with(EXIT_IS_DONE);
    assert_string_equal(text_of(json_object_get(answer(), "tuning"), "journal"), "unreadable");
    assert_int_equal(unlink(path), 0);
    explain_json("threads=64");
    exits_with(EXIT_IS_DONE);
    assert_string_equal(text_of(json_object_get(answer(), "tuning"), "journal"), "gone");
    assert_string_equal(text_of(json_object_get(answer(), "plan"), "rung"), "exact");
    attune("explain", "--problem", PROBLEM, "--device", "host", NULL);
    says("its journal is gone, so nobody knows who else was measured");
    says("1 point refused by constraints, by the templates that are here");
}

/* a run without a record: it was killed, or nothing was right */
static void a_run_without_a_record_is_told_of(void **state)
{
    (void)state;
    if (!tuned(NULL)) {
        skip();
    }
    give_times();
    attune_in_shell("rm -r \"$ATTUNE_CACHE/records\"");
    explain_json(NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *tuning = json_object_get(answer(), "tuning");
    assert_null(json_object_get(answer(), "plan"));
    assert_string_equal(text_of(tuning, "journal"), "there");
    assert_int_equal(json_array_size(json_object_get(tuning, "nearest")), 6);
}

static attune_status block_one(void *data, const struct store_entry *entry, struct error *error)
{
    struct store *store = data;
    struct record record;
    if (entry->kind != STORE_RECORD || store_record_at(store, entry->path, &record, error) != ATTUNE_OK) {
        return ATTUNE_OK;
    }
    struct blocked blocked = {.object = record.object, .outcome = "hung", .reason = "a launch took longer than 10 s"};
    snprintf(blocked.target, sizeof blocked.target, "host");
    snprintf(blocked.candidate, sizeof blocked.candidate, "%s", record.candidate);
    record_free(&record);
    return store_blocked_put(store, &blocked, error);
}

static void what_is_blocked_is_passed_over_and_not_promised(void **state)
{
    (void)state;
    if (!tuned(NULL)) {
        skip();
    }
    struct store *store = NULL;
    struct error error = {.message = ""};
    assert_int_equal(store_open(scratch("cache"), &store, &error), ATTUNE_OK);
    assert_int_equal(store_walk(store, block_one, store, &error), ATTUNE_OK);
    store_close(store);
    explain_json(NULL);
    exits_with(EXIT_IS_DONE);
    assert_null(json_object_get(answer(), "plan"));
    const json_t *passed = json_object_get(answer(), "passed_over");
    assert_int_equal(json_array_size(passed), 2); /* the winner's record and the default's, of one object */
    assert_string_equal(text_of(json_array_get(passed, 0), "outcome"), "hung");
    assert_string_equal(text_of(json_object_get(answer(), "default_blocked"), "outcome"), "hung");
    attune_in_shell("rm -r \"$ATTUNE_CACHE/records\"");
    attune("explain", "--problem", PROBLEM, "--device", "host", NULL);
    exits_with(EXIT_IS_DONE);
    says("the default candidate is blocked: it was hung before (a launch took longer than 10 s)");
    says("it is blocked, hung before: a launch took longer than 10 s");
    const struct process_result *result = attune("explain", "--problem", PROBLEM, "--device", "host", NULL);
    assert_null(strstr(buffer_string(&result->output), "would compile the default"));
    attune("cache", "prune", "--blocked", NULL);
    attune("explain", "--problem", PROBLEM, "--device", "host", NULL);
    says("would compile the default");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_run_tells_who_is_next_and_why_others_are_out),
        cmocka_unit_test(one_candidate_is_told_by_name_words_or_id),
        cmocka_unit_test(digits_of_several_ids_name_them),
        cmocka_unit_test(which_of_several_runs_serves_is_said_as_it_is),
        cmocka_unit_test(what_the_run_did_not_come_to_is_told),
        cmocka_unit_test(a_journal_that_is_gone_or_damaged_is_told),
        cmocka_unit_test(a_run_without_a_record_is_told_of),
        cmocka_unit_test(what_is_blocked_is_passed_over_and_not_promised),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
