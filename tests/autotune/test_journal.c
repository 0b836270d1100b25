/* Journals: what the tuner writes is read back field by field; whatever else lies there is counted, never believed. */
#include "autotune/journal.h"
#include "autotune/tune.h"
#include "base/digest.h"
#include "parts.h"
#include "tests/comma_locale.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char problem_text[] = "attention.forward dtype=f16 heads=1 seqlen_q=17 seqlen_k=40 head_dim=16 causal=1";
static const char run_id[] = "0123456789abcdef0123456789abcdef";

static void read_text(const char *text, size_t length, struct journal_reading *reading)
{
    struct error error = {.message = ""};
    /* of exactly that size: a byte read past it is seen */
    char *bytes = malloc(length > 0 ? length : 1);
    memcpy(bytes, text, length);
    attune_status status = journal_read(bytes, length, reading, &error);
    free(bytes);
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

static void assert_same_outcome(const struct tune_outcome *a, const struct tune_outcome *b)
{
    assert_string_equal(a->candidate, b->candidate);
    assert_string_equal(a->id, b->id);
    assert_string_equal(a->outcome, b->outcome);
    assert_string_equal(a->reason, b->reason);
    assert_true(fabs(a->microseconds - b->microseconds) <= 1e-8 * b->microseconds);
    assert_true(fabs(a->spread - b->spread) <= 1e-8 * b->spread);
    assert_int_equal(a->registers, b->registers);
    assert_int_equal(a->scratch_bytes, b->scratch_bytes);
    assert_string_equal(a->object, b->object);
    assert_string_equal(a->binary, b->binary);
    assert_int_equal(a->shared_bytes, b->shared_bytes);
}

static struct tune_outcome outcome_of(const char *candidate, const char *what, double microseconds)
{
    struct tune_outcome outcome = {.microseconds = microseconds, .registers = -1};
    snprintf(outcome.candidate, sizeof outcome.candidate, "%s", candidate);
    digest_short(candidate, outcome.id);
    snprintf(outcome.outcome, sizeof outcome.outcome, "%s", what);
    return outcome;
}

static struct journal_begin a_begin(void)
{
    struct journal_begin begin = {.candidates = 9, .seed = UINT64_MAX, .started = 1700000000};
    snprintf(begin.run, sizeof begin.run, "%s", run_id);
    snprintf(begin.problem, sizeof begin.problem, "%s", problem_text);
    snprintf(begin.device, sizeof begin.device, "a device");
    snprintf(begin.target, sizeof begin.target, "gfx90a:sramecc+:xnack-");
    snprintf(begin.driver, sizeof begin.driver, "HIP 5.2");
    return begin;
}

/* begin, three first looks, one of the finals, end; free() */
static char *a_journal(size_t *length)
{
    struct journal_outcome outcomes[] = {
        {.stage = JOURNAL_FIRST, .what = outcome_of("t/a x=1", "slower", 12.5)},
        {.stage = JOURNAL_FIRST, .what = outcome_of("t/a x=2", "wrong", 0.0)},
        {.stage = JOURNAL_FIRST, .what = outcome_of("t/a x=3", "slower", 7.25)},
        {.stage = JOURNAL_FINAL, .what = outcome_of("t/a x=3", "timed", 7.125)},
    };
    struct journal_reading reading = {.has_begin = true, .has_end = true, .begin = a_begin(), .outcomes = outcomes};
    struct buffer text = BUFFER_INIT;
    reading.outcome_count = (int)(sizeof outcomes / sizeof outcomes[0]);
    reading.end = (struct journal_end){.complete = true, .seconds = 3.5, .winner_microseconds = 7.125, .tried = 3};
    snprintf(reading.end.winner, sizeof reading.end.winner, "t/a x=3");
    snprintf(outcomes[1].what.reason, sizeof outcomes[1].what.reason, "row 3:\n\"1e9\" > bound \\ \x01");
    assert_int_equal(journal_format(&reading, &text, NULL), ATTUNE_OK);
    *length = text.length;
    return buffer_take(&text);
}

static void what_the_tuner_wrote_is_read_back(void **state)
{
    struct parts *parts = *state;
    struct problem problem;
    struct tune_result result;
    struct error error = {.message = ""};
    assert_int_equal(
        problem_parse(generator_schema(parts->generator, "attention.forward"), problem_text, &problem, &error),
        ATTUNE_OK);
    const struct tune_options options = {
        .device = "host", .budget_candidates = 4, .seed = 0xfedcba9876543210, .name = "small"};
    attune_status status =
        tune_run(parts->generator, parts->pool, parts->store, &problem, &options, NULL, NULL, &result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error.message);
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    struct buffer text = BUFFER_INIT;
    struct journal_reading reading;
    char canonical[PROBLEM_TEXT_BYTES];
    assert_int_equal(store_journal_read(parts->store, result.record.run, &text, &error), ATTUNE_OK);
    read_text(text.data, text.length, &reading);
    assert_int_equal(problem_format(&problem, canonical, NULL), ATTUNE_OK);
    assert_true(reading.has_begin && reading.has_end && !reading.torn);
    assert_int_equal(reading.damaged, 0);
    assert_int_equal(reading.repeated, 0);
    assert_string_equal(reading.begin.run, result.record.run);
    assert_string_equal(reading.begin.problem, canonical);
    assert_string_equal(reading.begin.device, result.record.device_name);
    assert_string_equal(reading.begin.target, result.record.device.target);
    assert_string_equal(reading.begin.driver, result.record.device.driver);
    assert_int_equal(reading.begin.candidates, result.listed);
    assert_string_equal(reading.begin.name, "small");
    assert_string_equal(reading.begin.strategy, "exhaustive");
    assert_int_equal(reading.begin.space, 0); /* no rank has a share of it */
    assert_true(result.listed > 4 && result.ending == TUNE_COUNT && !reading.end.complete);
    assert_true(reading.begin.seed == options.seed);
    assert_true(reading.begin.started > 0 && reading.begin.started <= result.record.created + 1);
    assert_int_equal(reading.outcome_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(reading.outcomes[i].stage, JOURNAL_FIRST);
        assert_true(reading.outcomes[i].counts);
        assert_same_outcome(&reading.outcomes[i].what, &result.outcomes[i]);
    }
    /* constraints are outcomes too: every point of the space is a candidate or was refused by one of them */
    struct candidate_list space;
    struct target target;
    int64_t refused = 0;
    assert_int_equal(target_parse("host", &target, NULL), ATTUNE_OK);
    assert_int_equal(candidate_enumerate(parts->generator, &problem, &target, &space, NULL), ATTUNE_OK);
    assert_true(reading.constraint_count > 1);
    for (int i = 0; i < reading.constraint_count; i++) {
        const struct journal_constraint *constraint = &reading.constraints[i];
        assert_true(constraint->reason[0] != '\0' && constraint->because[0] != '\0' && constraint->count > 0);
        assert_int_equal(strncmp(constraint->example, "attention.forward/", 18), 0);
        refused += constraint->count;
    }
    assert_int_equal(refused, space.rejected);
    assert_int_equal(space.points, space.rejected + space.count);
    candidate_list_free(&space);
    assert_string_equal(reading.end.winner, result.record.candidate);
    assert_int_equal(reading.end.complete, result.record.complete);
    assert_true(reading.end.seconds > 0.0);
    assert_int_equal(reading.end.tried, result.record.tried);
    assert_int_equal(reading.end.verified, result.record.verified);
    assert_int_equal(reading.end.rejected, result.record.rejected);
    journal_reading_free(&reading);
    buffer_free(&text);
    tune_result_free(&result);
}

/* what no JSON holds, a numeric locale with commas, the ends of ranges */
static void odd_values_come_back_as_what_is_nearest(void **state)
{
    struct parts *parts = *state;
    struct journal journal;
    struct journal_reading reading;
    struct buffer text = BUFFER_INIT;
    struct journal_begin begin = a_begin();
    struct tune_outcome outcome = outcome_of("t/a name=\"\xc3\xa9\"", "timed", 1234567.5);
    snprintf(begin.device, sizeof begin.device, "card\x1b[2J\xff\xc2\x9bz");
    snprintf(begin.name, sizeof begin.name, "llama \"3\"\n\u202e");
    begin.space = INT32_MAX;
    snprintf(outcome.reason, sizeof outcome.reason, "two\nlines\x01 \xff");
    outcome.spread = NAN;
    outcome.registers = -7;
    outcome.scratch_bytes = INT32_MAX;
    memset(outcome.binary, 'a', sizeof outcome.binary - 1); /* without `object`: it was not expanded here */
    bool commas = comma_locale_enter();
    assert_int_equal(journal_open(&journal, parts->store, run_id, NULL), ATTUNE_OK);
    journal_write_begin(&journal, &begin);
    journal_write_outcome(&journal, JOURNAL_FINAL, &outcome);
    assert_true(journal_is_written(journal.path));
    journal_close(&journal);
    assert_false(journal_is_written(journal.path));
    assert_int_equal(store_journal_read(parts->store, run_id, &text, NULL), ATTUNE_OK);
    read_text(text.data, text.length, &reading);
    if (commas) {
        assert_non_null(setlocale(LC_ALL, "C"));
    }
    assert_int_equal(reading.damaged, 0);
    assert_string_equal(reading.begin.device, "card?[2J???z"); /* no UTF-8: byte by byte */
    assert_true(reading.begin.seed == UINT64_MAX);
    assert_string_equal(reading.begin.name, "llama \"3\"????");
    assert_int_equal(reading.begin.space, INT32_MAX);
    assert_int_equal(reading.outcome_count, 1);
    assert_string_equal(reading.outcomes[0].what.candidate, outcome.candidate);
    assert_string_equal(reading.outcomes[0].what.reason, "two\nlines\x01 ?");
    assert_true(reading.outcomes[0].what.microseconds == 1234567.5);
    assert_true(reading.outcomes[0].what.spread == 0.0);
    assert_int_equal(reading.outcomes[0].what.registers, -1);
    assert_int_equal(reading.outcomes[0].what.scratch_bytes, INT32_MAX);
    assert_string_equal(reading.outcomes[0].what.binary, outcome.binary);
    assert_string_equal(reading.outcomes[0].what.object, "");
    assert_false(reading.has_end);
    journal_reading_free(&reading);
    buffer_free(&text);
    assert_int_equal(unlink(journal.path), 0);
}

/* a time that no device takes is no time, whoever wrote it: ratios of times stay numbers */
static void a_line_with_an_impossible_time_is_damaged(void **state)
{
    static const struct {
        const char *as;
        int damaged;
    } times[] = {{"12.5", 0}, {"0", 0},      {"1e-3", 0},     {"1e15", 0},  {"1e-310", 1},
                 {"1e-4", 1}, {"1e-300", 1}, {"1.001e15", 1}, {"1e300", 1}, {"-1", 1}};
    (void)state;
    size_t length;
    char *journal = a_journal(&length);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        static const char *const fields[] = {"\"microseconds\":12.5", "\"winner_microseconds\":7.125"};
        for (size_t f = 0; f < 2; f++) {
            struct buffer text = BUFFER_INIT;
            struct journal_reading reading;
            const char *at = strstr(journal, fields[f]);
            assert_non_null(at);
            const char *value = strchr(at, ':') + 1;
            buffer_append(&text, journal, (size_t)(value - journal));
            buffer_text(&text, times[i].as);
            buffer_text(&text, at + strlen(fields[f]));
            read_text(text.data, text.length, &reading);
            assert_int_equal(reading.damaged, times[i].damaged);
            journal_reading_free(&reading);
            buffer_free(&text);
        }
    }
    free(journal);
}

static void a_journal_cut_at_any_byte_keeps_its_whole_lines(void **state)
{
    (void)state;
    size_t length, lines = 0;
    char *text = a_journal(&length);
    struct journal_reading whole, cut;
    read_text(text, length, &whole);
    assert_int_equal(whole.outcome_count, 4);
    assert_true(whole.has_begin && whole.has_end && !whole.torn);
    for (size_t at = 0; at <= length; at++) {
        lines += at > 0 && text[at - 1] == '\n';
        read_text(text, at, &cut);
        int outcomes = lines == 0 ? 0 : lines > 5 ? 4 : (int)lines - 1;
        assert_int_equal(cut.torn, at > 0 && text[at - 1] != '\n');
        assert_int_equal(cut.damaged, 0);
        assert_int_equal(cut.has_begin, lines >= 1);
        assert_int_equal(cut.has_end, at == length);
        assert_int_equal(cut.outcome_count, outcomes);
        for (int i = 0; i < outcomes; i++) {
            assert_int_equal(cut.outcomes[i].stage, whole.outcomes[i].stage);
            assert_same_outcome(&cut.outcomes[i].what, &whole.outcomes[i].what);
        }
        journal_reading_free(&cut);
    }
    journal_reading_free(&whole);
    free(text);
}

/* a first look that the finals overruled does not count, nor the finals of what was looked at again since; of the same
 * stage the last one stays */
static void the_last_outcome_of_a_candidate_counts(void **state)
{
    (void)state;
    struct journal_outcome outcomes[] = {
        {.stage = JOURNAL_FIRST, .what = outcome_of("t/a x=1", "hung", 0.0)},
        {.stage = JOURNAL_FINAL, .what = outcome_of("t/a x=2", "timed", 3.0)},
        {.stage = JOURNAL_FIRST, .what = outcome_of("t/a x=2", "slower", 4.0)},
        {.stage = JOURNAL_FIRST, .what = outcome_of("t/a x=1", "wrong", 0.0)},
        {.stage = JOURNAL_FIRST, .what = outcome_of("t/a x=1", "slower", 5.0)},
        {.stage = JOURNAL_FIRST, .what = outcome_of("t/a x=3", "slower", 6.0)},
        {.stage = JOURNAL_FINAL, .what = outcome_of("t/a x=3", "timed", 6.5)},
    };
    struct journal_reading written = {.outcomes = outcomes, .outcome_count = 7}, reading;
    struct buffer text = BUFFER_INIT;
    assert_int_equal(journal_format(&written, &text, NULL), ATTUNE_OK);
    read_text(text.data, text.length, &reading);
    assert_false(reading.has_begin);
    assert_int_equal(reading.repeated, 2);
    assert_int_equal(reading.outcome_count, 5);
    static const struct {
        int written;
        bool counts;
    } left[] = {{1, false}, {2, true}, {4, true}, {5, false}, {6, true}};
    for (int i = 0; i < 5; i++) {
        assert_same_outcome(&reading.outcomes[i].what, &outcomes[left[i].written].what);
        assert_int_equal(reading.outcomes[i].counts, left[i].counts);
    }
    journal_reading_free(&reading);
    buffer_free(&text);
}

static void assert_same_constraint(const struct journal_constraint *a, const struct journal_constraint *b)
{
    assert_string_equal(a->reason, b->reason);
    assert_int_equal(a->count, b->count);
    assert_string_equal(a->example, b->example);
    assert_string_equal(a->because, b->because);
}

/* killed in the middle of a line, continued, killed again, continued: one journal */
static void a_run_that_goes_on_appends_to_its_journal(void **state)
{
    struct parts *parts = *state;
    struct journal journal, other;
    struct journal_reading reading, ignored;
    struct buffer text = BUFFER_INIT;
    struct error error = {.message = ""};
    bool written;
    const struct journal_constraint refused[] = {
        {.reason = "two\nlines", .count = 7, .example = "t/a x=9", .because = "9 is too much"},
        {.reason = "another", .count = 1, .example = "t/a x=8", .because = ""},
    };
    const struct journal_resume goes_on = {.started = 1700000001, .driver = "HIP 6", .held = 1, .invalid = 2};
    const struct tune_outcome first = outcome_of("t/a x=1", "slower", 2.0), second = outcome_of("t/a x=2", "right", 0);
    assert_int_equal(journal_open(&journal, parts->store, run_id, NULL), ATTUNE_OK);
    struct journal_begin begin = a_begin(), peeked;
    journal_write_begin(&journal, &begin);
    journal_write_constraints(&journal, refused, 2);
    journal_write_outcome(&journal, JOURNAL_FIRST, &first);
    assert_int_equal(write(journal.file, "{\"kind\":\"outco", 14), 14);
    /* two processes do not continue one run */
    assert_int_equal(journal_continue(&other, parts->store, run_id, &ignored, &written, &error), ATTUNE_IO);
    assert_true(written && other.file < 0);
    assert_non_null(strstr(error.message, run_id));
    journal_close(&journal);
    assert_true(journal_peek(journal.path, &peeked));
    assert_string_equal(peeked.problem, begin.problem);
    assert_true(peeked.seed == begin.seed);

    assert_int_equal(journal_continue(&journal, parts->store, run_id, &reading, &written, &error), ATTUNE_OK);
    assert_true(!written && journal_is_written(journal.path));
    assert_true(reading.has_begin && reading.torn && !reading.has_end);
    assert_int_equal(reading.outcome_count, 1);
    assert_int_equal(reading.constraint_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_same_constraint(&reading.constraints[i], &refused[i]);
    }
    journal_reading_free(&reading);
    journal_write_resume(&journal, &goes_on);
    journal_write_constraints(&journal, refused + 1, 1); /* another space by now */
    journal_write_outcome(&journal, JOURNAL_FIRST, &second);
    journal_write_end(&journal, &(struct journal_end){.complete = true, .tried = 2});
    journal_close(&journal);

    assert_int_equal(journal_continue(&journal, parts->store, run_id, &reading, &written, &error), ATTUNE_OK);
    assert_true(reading.has_begin && !reading.torn && reading.has_end && reading.end.complete);
    assert_int_equal(reading.damaged, 1);
    assert_int_equal(reading.outcome_count, 2);
    assert_same_outcome(&reading.outcomes[0].what, &first);
    assert_same_outcome(&reading.outcomes[1].what, &second);
    assert_int_equal(reading.constraint_count, 1);
    assert_same_constraint(&reading.constraints[0], &refused[1]);
    assert_int_equal(reading.resume_count, 1);
    assert_true(reading.resumes[0].started == goes_on.started);
    assert_string_equal(reading.resumes[0].driver, goes_on.driver);
    assert_int_equal(reading.resumes[0].held, 1);
    assert_int_equal(reading.resumes[0].invalid, 2);
    journal_reading_free(&reading);
    journal_write_resume(&journal, &goes_on); /* it is not at its end any more */
    journal_close(&journal);
    assert_int_equal(store_journal_read(parts->store, run_id, &text, NULL), ATTUNE_OK);
    read_text(text.data, text.length, &reading);
    assert_false(reading.has_end);
    assert_int_equal(reading.resume_count, 2);
    journal_reading_free(&reading);
    buffer_free(&text);
    /* what is not there, and what is another run's */
    static const char foreign[] = "0123456789abcdef0123456789abcdee";
    assert_int_equal(journal_continue(&other, parts->store, foreign, &ignored, &written, &error), ATTUNE_NOT_FOUND);
    char path[sizeof journal.path];
    assert_int_equal(store_journal_path(parts->store, foreign, path, sizeof path, NULL), ATTUNE_OK);
    assert_int_equal(rename(journal.path, path), 0);
    assert_int_equal(journal_continue(&other, parts->store, foreign, &ignored, &written, &error), ATTUNE_CORRUPT);
    assert_false(journal_is_written(path));
    assert_int_equal(unlink(path), 0);
    assert_false(journal_peek(path, &peeked));
}

/* the good journal's second line, with `what` in the place of `was` */
static void damage(const char *text, const char *was, const char *what, struct buffer *into)
{
    const char *second = strchr(text, '\n') + 1, *found = strstr(second, was);
    assert_non_null(found);
    assert_true(found < strchr(second, '\n'));
    buffer_append(into, text, (size_t)(found - text));
    buffer_text(into, what);
    buffer_text(into, found + strlen(was));
}

static void damaged_lines_are_counted_and_passed_over(void **state)
{
    (void)state;
    static const struct {
        const char *was, *what;
    } damages[] = {
        {"\"kind\":\"outcome\"", "\"kind\":\"income\""},
        {"\"kind\":\"outcome\"", "\"kind\":7"},
        {"\"kind\":\"outcome\",", ""},
        {"\"stage\":\"first\"", "\"stage\":\"third\""},
        {"t/a x=1", "t/a x=7"}, /* the id is another's */
        {"t/a x=1", "t/a\\nx=1"},
        {"t/a x=1", "t/a\\u0000x=1"},
        {"\"slower\"", "\"\""},
        {"\"slower\"", "\"Slower!\""},
        {"\"slower\"", "\"slowerslowerslowerslower\""},
        {"\"reason\":\"\"", "\"reason\":null"},
        {"12.5", "-12.5"},
        {"12.5", "1e16"},
        {"12.5", "1e400"},
        {"12.5", "NaN"},
        {"12.5", "\"12.5\""},
        {"12.5", "12,5"},
        {"\"registers\":-1", "\"registers\":-2"},
        {"\"registers\":-1", "\"registers\":2147483648"},
        {"\"registers\":-1", "\"registers\":1.5"},
        {"\"registers\":-1", "\"registers\":99999999999999999999"},
        {",\"registers\":-1", ""},
        {"\"spread\"", "\"microseconds\""},
        {"\"spread\"", "\"spread\":1,\"spread\""}, /* which of them? */
        {"{", "{{"},
        {"{", ""},
        {"}", "}}"},
        {"{", "[[[[[[[["},
        {"\"first\"", "\"\xff\""},
    };
    size_t length;
    char *text = a_journal(&length);
    struct journal_reading whole, reading;
    read_text(text, length, &whole);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct buffer bad = BUFFER_INIT;
        damage(text, damages[i].was, damages[i].what, &bad);
        read_text(bad.data, bad.length, &reading);
        if (reading.damaged != 1 || reading.outcome_count != 3) {
            fail_msg("%s for %s: %d damaged, %d outcomes", damages[i].what, damages[i].was, reading.damaged,
                     reading.outcome_count);
        }
        assert_true(reading.has_begin && reading.has_end && !reading.torn);
        for (int at = 0; at < 3; at++) {
            assert_same_outcome(&reading.outcomes[at].what, &whole.outcomes[at + 1].what);
        }
        journal_reading_free(&reading);
        buffer_free(&bad);
    }
    journal_reading_free(&whole);
    free(text);
}

static void unknown_fields_are_passed_over(void **state)
{
    (void)state;
    size_t length;
    char *text = a_journal(&length);
    struct buffer more = BUFFER_INIT;
    struct journal_reading reading;
    damage(text, "\"stage\"", "\"watts\":[1,{\"x\":null}],\"stage\"", &more);
    read_text(more.data, more.length, &reading);
    assert_int_equal(reading.damaged, 0);
    assert_int_equal(reading.outcome_count, 4);
    journal_reading_free(&reading);
    buffer_free(&more);
    free(text);
}

/* two journals in one file: no outcome of the second counts for the first one's problem */
static void another_runs_lines_are_not_this_runs(void **state)
{
    (void)state;
    size_t length;
    char *text = a_journal(&length);
    struct buffer both = BUFFER_INIT;
    struct journal_reading reading;
    buffer_append(&both, text, length);
    buffer_append(&both, text, length);
    read_text(both.data, both.length, &reading);
    assert_int_equal(reading.outcome_count, 4);
    assert_int_equal(reading.repeated, 0);
    assert_int_equal(reading.damaged, 6);
    assert_true(reading.has_end);
    journal_reading_free(&reading);
    /* outcomes after the end: it was not the end */
    buffer_clear(&both);
    buffer_append(&both, text, length);
    const char *second = strchr(text, '\n') + 1;
    buffer_append(&both, second, (size_t)(strchr(second, '\n') + 1 - second));
    read_text(both.data, both.length, &reading);
    assert_false(reading.has_end);
    assert_int_equal(reading.repeated, 1);
    journal_reading_free(&reading);
    buffer_free(&both);
    free(text);
}

static void hostile_sizes_are_bounded(void **state)
{
    (void)state;
    size_t length;
    char *text = a_journal(&length), *second = strchr(text, '\n') + 1;
    struct buffer large = BUFFER_INIT;
    struct journal_reading reading;
    struct error error = {.message = ""};
    /* a line of a megabyte that would be good but for its length */
    buffer_append(&large, text, (size_t)(second - text));
    for (int i = 0; i < 1 << 20; i++) {
        buffer_text(&large, " ");
    }
    buffer_text(&large, second);
    read_text(large.data, large.length, &reading);
    assert_int_equal(reading.damaged, 1);
    assert_int_equal(reading.outcome_count, 3);
    journal_reading_free(&reading);
    /* as many lines as are read, and one more */
    buffer_clear(&large);
    for (int i = 0; i < JOURNAL_LINES_MAX; i++) {
        buffer_text(&large, "\n");
    }
    read_text(large.data, large.length, &reading);
    assert_int_equal(reading.damaged, JOURNAL_LINES_MAX);
    journal_reading_free(&reading);
    buffer_text(&large, "\n");
    assert_int_equal(journal_read(large.data, large.length, &reading, &error), ATTUNE_CORRUPT);
    assert_non_null(strstr(error.message, "65536 lines"));
    assert_null(reading.outcomes);
    buffer_free(&large);
    /* zeros, as a file system may leave them: one line without end, and one byte too many */
    char *zeros = calloc(1, STORE_JOURNAL_BYTES_MAX + 1);
    assert_non_null(zeros);
    assert_int_equal(journal_read(zeros, STORE_JOURNAL_BYTES_MAX, &reading, &error), ATTUNE_OK);
    assert_true(reading.torn);
    journal_reading_free(&reading);
    assert_int_equal(journal_read(zeros, STORE_JOURNAL_BYTES_MAX + 1, &reading, &error), ATTUNE_CORRUPT);
    assert_non_null(strstr(error.message, "67108864"));
    free(zeros);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_tuner_wrote_is_read_back),
        cmocka_unit_test(odd_values_come_back_as_what_is_nearest),
        cmocka_unit_test(a_line_with_an_impossible_time_is_damaged),
        cmocka_unit_test(a_journal_cut_at_any_byte_keeps_its_whole_lines),
        cmocka_unit_test(the_last_outcome_of_a_candidate_counts),
        cmocka_unit_test(a_run_that_goes_on_appends_to_its_journal),
        cmocka_unit_test(damaged_lines_are_counted_and_passed_over),
        cmocka_unit_test(unknown_fields_are_passed_over),
        cmocka_unit_test(another_runs_lines_are_not_this_runs),
        cmocka_unit_test(hostile_sizes_are_bounded),
    };
    return cmocka_run_group_tests(tests, parts_set_up, parts_tear_down);
}
