/* --resume on a device whose times the test writes: what a run that goes on makes again is counted in its journal and
 * in what the device loads, and its choice is that of a run that nobody disturbed. */
#include "resume_place.h"

#include "autotune/journal.h"
#include "tests/size.h"

#include <math.h>
#include <sys/stat.h>

static const char spoilt[] = "    if (i == 1) y[i] = 0.0f;";

/* ------------------------------------------------------------------------------------------------ journals */

static void read_journal(const char *path, struct buffer *text, struct journal_reading *reading)
{
    buffer_clear(text);
    assert_int_equal(file_read(path, STORE_JOURNAL_BYTES_MAX, text, NULL), ATTUNE_OK);
    assert_int_equal(journal_read(text->data, text->length, reading, NULL), ATTUNE_OK);
}

/* first looks in the bytes of a journal, as a mode's name each: " r00 r03" */
static void first_looks(const char *bytes, size_t length, char looks[512])
{
    looks[0] = '\0';
    for (const char *line = bytes, *end; (end = memchr(line, '\n', length - (size_t)(line - bytes))) != NULL;
         line = end + 1) {
        const char *mode = memmem(line, (size_t)(end - line), "mode=", 5);
        if (memmem(line, (size_t)(end - line), "\"stage\":\"first\"", 15) != NULL) {
            assert_non_null(mode);
            snprintf(looks + strlen(looks), 512 - strlen(looks), " %.3s", mode + 5);
        }
        if (end + 1 == bytes + length) {
            break;
        }
    }
}

static int count_words(const char *text)
{
    int words = 0;
    for (; *text != '\0'; text++) {
        words += *text == ' ';
    }
    return words;
}

/* all modes, each once, whatever the order */
static void assert_each_once(const char *looks, const char *modes)
{
    char word[8];
    for (const char *mode = modes; *mode != '\0'; mode += strcspn(mode, " "), mode += *mode == ' ') {
        snprintf(word, sizeof word, " %.3s", mode);
        const char *found = strstr(looks, word);
        if (found == NULL || strstr(found + 1, word) != NULL) {
            fail_msg("%s: not once in '%s'", word, looks);
        }
    }
}

/* what the journal has got since it had `before` bytes; they are all as they were */
static void looks_since(const char *path, const struct buffer *before, char looks[512])
{
    struct buffer text = BUFFER_INIT;
    assert_int_equal(file_read(path, STORE_JOURNAL_BYTES_MAX, &text, NULL), ATTUNE_OK);
    assert_true(text.length >= before->length);
    assert_memory_equal(text.data, before->data, before->length);
    first_looks(text.data + before->length, text.length - before->length, looks);
    buffer_free(&text);
}

static attune_status remove_record(void *data, const struct store_entry *entry, struct error *error)
{
    (void)error;
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", (const char *)data, entry->path);
    if (entry->kind == STORE_RECORD) {
        assert_int_equal(unlink(path), 0);
    }
    return ATTUNE_OK;
}

static void remove_records(struct place *place)
{
    struct store *store;
    assert_int_equal(store_open(place->store, &store, NULL), ATTUNE_OK);
    assert_int_equal(store_walk(store, remove_record, place->store, NULL), ATTUNE_OK);
    store_close(store);
}

/* ------------------------------------------------------------------------------------------------ tests */

/* Killed at any byte of its journal, in the middle of lines and in the finals: what was written stays, what is missing
 * is made once, the choice is the same. */
static void a_run_cut_anywhere_goes_on_to_the_same_choice(void **state)
{
    struct place place;
    struct tune_result result;
    struct buffer whole = BUFFER_INIT, now = BUFFER_INIT;
    struct journal_reading reading;
    char path[512], looks[512], before[512];
    int rounds = test_size(8, 60);
    open_place(&place, *state);
    tune(&place, true, (struct tune_options){.accept_stored = true}, &result);
    assert_string_equal(result.record.candidate, BEST);
    assert_int_equal(result.counts.looks, RANKS);
    snprintf(path, sizeof path, "%s", result.journal);
    tune_result_free(&result);
    assert_int_equal(file_read(path, 1 << 20, &whole, NULL), ATTUNE_OK);
    size_t begin = (size_t)(strchr(whole.data, '\n') + 1 - whole.data);
    for (int round = 0; round < rounds; round++) {
        size_t cut = begin + (whole.length - begin - 1) * (size_t)round / (size_t)(rounds - 1);
        const struct buffer kept = {.data = whole.data, .length = cut};
        assert_int_equal(file_write(path, whole.data, cut, NULL), ATTUNE_OK);
        assert_int_equal(chmod(path, 0600), 0);
        remove_records(&place);
        first_looks(whole.data, cut, before);
        tune(&place, true, resume, &result);
        assert_true(result.counts.resumed && !result.already_done);
        assert_string_equal(result.journal, path);
        assert_string_equal(result.record.candidate, BEST);
        assert_true(fabs(result.record.winner_microseconds - 100.0) < 0.01);
        assert_true(fabs(result.record.default_microseconds - 120.0) < 0.01);
        assert_int_equal(result.counts.held, count_words(before));
        assert_int_equal(result.counts.invalid, 0);
        assert_int_equal(result.counts.looks, RANKS);
        assert_int_equal(result.outcome_count, RANKS);
        looks_since(path, &kept, looks);
        /* a line that lacked its newline alone is whole again: it counts for neither */
        int made = count_words(looks);
        assert_true(made == RANKS - count_words(before));
        strcat(looks, before);
        assert_each_once(looks, place.modes);
        read_journal(path, &now, &reading);
        assert_true(reading.has_begin && reading.has_end && reading.end.complete && !reading.torn);
        assert_string_equal(reading.end.winner, BEST);
        assert_string_equal(reading.begin.run, result.record.run);
        assert_int_equal(reading.resume_count, 1);
        journal_reading_free(&reading);
        tune_result_free(&result);
    }
    buffer_free(&whole);
    buffer_free(&now);
    close_place(&place);
}

/* The clock is a tenth of what it was, as when a GPU is throttled: what was timed then and what is timed now are
 * compared on one scale. */
static void old_times_count_by_todays_clock(void **state)
{
    struct place place;
    struct tune_result result;
    struct error error = {.message = ""};
    open_place(&place, *state);
    tune(&place, true, (struct tune_options){.accept_stored = true, .budget_candidates = 6}, &result);
    tune_result_free(&result);
    assert_int_equal(run(&place, true, ten_times_as_slow, resume, &result, &error), ATTUNE_OK);
    assert_true(result.counts.resumed);
    assert_int_equal(result.counts.held, 6);
    assert_string_equal(result.record.candidate, BEST);
    assert_true(fabs(result.record.winner_microseconds - 1000.0) < 0.1);
    assert_int_equal(result.counts.wrong + result.counts.failed + result.counts.screened_out, 0);
    for (int i = 0; i < result.outcome_count; i++) { /* first looks as the first run would have had them */
        const struct tune_outcome *outcome = &result.outcomes[i];
        char kernel[64];
        snprintf(kernel, sizeof kernel, "twice_%s", strrchr(outcome->candidate, '=') + 1);
        double truth = rank_truth(kernel, NULL, 0);
        bool final = strcmp(outcome->outcome, "timed") == 0;
        if (fabs(outcome->microseconds - (final ? 10.0 : 1.0) * truth) > 0.02 * (final ? 10.0 : 1.0) * truth) {
            fail_msg("%s %s: %g us, the truth is %g", outcome->candidate, outcome->outcome, outcome->microseconds,
                     truth);
        }
    }
    tune_result_free(&result);
    close_place(&place);
}

/* one by one: a comment in three kernels, then in the default's, then in all */
static void a_changed_template_invalidates_what_it_touches(void **state)
{
    static const char *const touched[] = {"r03 r07 r12", "r00", "r11 r02"};
    struct place place;
    struct tune_result result;
    struct buffer before = BUFFER_INIT;
    char path[512], looks[512], all[256];
    open_place(&place, *state);
    tune(&place, true, (struct tune_options){.accept_stored = true}, &result);
    snprintf(path, sizeof path, "%s", result.journal);
    tune_result_free(&result);
    for (int i = 0; i < 4; i++) {
        const char *modes = i < 3 ? touched[i] : strcpy(all, place.modes);
        char line[64];
        int count = 1 + (int)(strlen(modes) - 3) / 4;
        snprintf(line, sizeof line, "// edited %d", i);
        edit(&place, modes, line);
        buffer_clear(&before);
        assert_int_equal(file_read(path, 1 << 20, &before, NULL), ATTUNE_OK);
        tune(&place, true, resume, &result);
        assert_string_equal(result.journal, path);
        assert_int_equal(result.counts.invalid, count);
        assert_int_equal(result.counts.held, RANKS - count);
        assert_string_equal(result.record.candidate, BEST);
        assert_true(fabs(result.record.default_microseconds - 120.0) < 0.01);
        looks_since(path, &before, looks);
        assert_int_equal(count_words(looks), count);
        assert_each_once(looks, modes);
        tune_result_free(&result);
        /* and nothing is left then */
        tune(&place, true, resume, &result);
        assert_true(result.already_done);
        assert_int_equal(scripted.launches, 0);
        assert_string_equal(result.record.candidate, BEST);
        assert_int_equal(result.counts.looks, RANKS);
        tune_result_free(&result);
    }
    buffer_free(&before);
    close_place(&place);
}

/* a script that is c++ under another text, hence another compiler */
static void use_compiler(const struct place *place, const char *build)
{
    char path[700], text[256];
    snprintf(text, sizeof text, "#!/bin/sh\n# %s\nexec c++ \"$@\"\n", build);
    assert_int_equal(path_join(path, sizeof path, place->folder, "cxx", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, text, strlen(text), NULL), ATTUNE_OK);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(setenv("ATTUNE_CXX", path, 1), 0);
}

/* Objects of another compiler hold as tuning uses them, unless they are not to be used. */
static void another_compiler_invalidates_all_or_nothing(void **state)
{
    struct parts mine = *(struct parts *)*state;
    struct place place;
    struct tune_result result;
    open_place(&place, &mine);
    for (int build = 0; build < 3; build++) {
        char name[16];
        snprintf(name, sizeof name, "build %d", build);
        use_compiler(&place, name);
        assert_int_equal(compiler_pool_create(NULL, &mine.pool, NULL), ATTUNE_OK);
        struct tune_options options = {.resume = build > 0, .accept_stored = build != 2};
        tune(&place, true, options, &result);
        if (build == 1) { /* the store has them all */
            assert_true(result.already_done);
        } else {
            assert_int_equal(result.counts.invalid, build == 0 ? 0 : RANKS);
            assert_int_equal(result.counts.held, 0);
            assert_int_equal(result.counts.compiled, RANKS);
        }
        assert_string_equal(result.record.candidate, BEST);
        tune_result_free(&result);
        compiler_pool_destroy(mine.pool);
    }
    assert_int_equal(unsetenv("ATTUNE_CXX"), 0);
    close_place(&place);
}

static attune_status damage_objects(void *data, const struct store_entry *entry, struct error *error)
{
    const char *store = data;
    char path[2048];
    (void)error;
    snprintf(path, sizeof path, "%s/%s", store, entry->path);
    if (entry->kind == STORE_OBJECT) { /* every other one is gone, the rest cut short */
        assert_int_equal(entry->path[11] % 2 == 0 ? unlink(path) : truncate(path, (off_t)entry->bytes / 2), 0);
    }
    return ATTUNE_OK;
}

/* the finalists' objects are made again, their outcomes hold; the others' are not even missed */
static void objects_that_are_gone_are_compiled_again(void **state)
{
    struct place place;
    struct tune_result result;
    struct buffer before = BUFFER_INIT;
    struct store *store;
    struct store_verdict verdict;
    char looks[512];
    open_place(&place, *state);
    tune(&place, true, (struct tune_options){.accept_stored = true}, &result);
    assert_int_equal(file_read(result.journal, 1 << 20, &before, NULL), ATTUNE_OK);
    tune_result_free(&result);
    assert_int_equal(store_open(place.store, &store, NULL), ATTUNE_OK);
    assert_int_equal(store_walk(store, damage_objects, place.store, NULL), ATTUNE_OK);
    tune(&place, true, resume, &result);
    assert_false(result.already_done);
    assert_int_equal(result.counts.held, RANKS);
    assert_int_equal(result.counts.compiled, 13);
    assert_string_equal(result.record.candidate, BEST);
    looks_since(result.journal, &before, looks);
    assert_string_equal(looks, "");
    assert_int_equal(store_verify(store, true, &verdict, NULL), ATTUNE_OK);
    assert_int_equal(verdict.missing_objects, 0);
    tune_result_free(&result);
    store_close(store);
    buffer_free(&before);
    close_place(&place);
}

/* more looks, then all; and a run of another seed is another run */
static void a_larger_budget_goes_on(void **state)
{
    struct place place;
    struct tune_result result;
    char path[512] = "";
    static const int budgets[] = {3, 9, 9, 5, 0, 0};
    static const int held[] = {0, 3, 9, 9, 9, RANKS};
    open_place(&place, *state);
    for (int i = 0; i < 6; i++) {
        struct tune_options options = resume;
        options.budget_candidates = budgets[i];
        tune(&place, true, options, &result);
        assert_int_equal(result.counts.held, held[i]);
        assert_int_equal(result.counts.resumed, i > 0);
        assert_int_equal(result.already_done, i == 2 || i == 3 || i == 5);
        assert_int_equal(result.ending, i < 4 ? TUNE_COUNT : TUNE_COMPLETE);
        assert_true(i == 0 || strcmp(result.journal, path) == 0);
        snprintf(path, sizeof path, "%s", result.journal);
        assert_string_equal(result.record.candidate, i < 4 ? result.record.candidate : BEST);
        tune_result_free(&result);
    }
    struct tune_options other = resume;
    other.seed = 2;
    tune(&place, true, other, &result);
    assert_false(result.counts.resumed);
    assert_string_not_equal(result.journal, path);
    tune_result_free(&result);
    close_place(&place);
}

/* wrong stays wrong as long as the store remembers it */
static void what_was_wrong_is_made_again_when_its_note_is_taken_back(void **state)
{
    struct place place;
    struct tune_result result;
    struct store *store;
    int removed;
    open_place(&place, *state);
    edit(&place, "r05", spoilt);
    tune(&place, true, (struct tune_options){.accept_stored = true}, &result);
    assert_string_equal(outcome_of(&result, "r05")->outcome, "wrong");
    tune_result_free(&result);
    tune(&place, true, resume, &result);
    assert_true(result.already_done);
    assert_string_equal(outcome_of(&result, "r05")->outcome, "wrong");
    tune_result_free(&result);
    struct tune_options again = resume;
    again.retry_blocked = true;
    tune(&place, true, again, &result);
    assert_int_equal(result.counts.held, RANKS - 1);
    assert_int_equal(result.counts.invalid, 0);
    assert_string_equal(outcome_of(&result, "r05")->outcome, "wrong");
    tune_result_free(&result);
    assert_int_equal(store_open(place.store, &store, NULL), ATTUNE_OK);
    assert_int_equal(store_prune(store, &(struct store_prune){.blocked = true}, &removed, NULL, NULL), ATTUNE_OK);
    store_close(store);
    tune(&place, true, resume, &result);
    assert_int_equal(result.counts.held, RANKS - 1);
    assert_string_equal(outcome_of(&result, "r05")->outcome, "wrong");
    tune_result_free(&result);
    close_place(&place);
}

/* Without times the first one that is right is held to the companions; when it is not any more, the next one is. */
static void the_host_devices_winner_is_the_first_right_one_of_today(void **state)
{
    struct place place;
    struct tune_result result;
    struct buffer before = BUFFER_INIT;
    char looks[512], second[CANDIDATE_TEXT_BYTES], mode[8];
    open_place(&place, *state);
    tune(&place, false, (struct tune_options){.accept_stored = true}, &result);
    assert_string_equal(result.record.candidate, "twice/plain mode=r00");
    assert_true(result.outcomes[0].companions && !result.outcomes[1].companions);
    snprintf(second, sizeof second, "%s", result.outcomes[1].candidate);
    tune_result_free(&result);
    edit(&place, "r00", spoilt);
    tune(&place, false, resume, &result);
    assert_int_equal(result.counts.invalid, 1);
    assert_string_equal(outcome_of(&result, "r00")->outcome, "wrong");
    assert_string_equal(result.record.candidate, second);
    assert_true(result.outcomes[1].companions);
    assert_int_equal(result.counts.verified, RANKS - 1);
    tune_result_free(&result);
    /* mended: it is the first again, and the only one that is made again */
    edit(&place, "r00", "    if (i == 1) y[i] = 2.0f * x[i];");
    assert_int_equal(file_read(result.journal, 1 << 20, &before, NULL), ATTUNE_OK);
    tune(&place, false, resume, &result);
    assert_string_equal(result.record.candidate, "twice/plain mode=r00");
    assert_true(outcome_of(&result, "r00")->companions);
    looks_since(result.journal, &before, looks);
    snprintf(mode, sizeof mode, " r00");
    assert_string_equal(looks, mode);
    tune_result_free(&result);
    buffer_free(&before);
    close_place(&place);
}

/* what was not tried since the device was lost is tried on the next one; in whose hands it was lost is remembered */
static void a_lost_device_is_no_end(void **state)
{
    struct place place;
    struct tune_result result;
    struct buffer before = BUFFER_INIT;
    char looks[512];
    open_place(&place, *state);
    tune(&place, true, (struct tune_options){.accept_stored = true}, &result);
    tune_result_free(&result);
    die_after = launches_of_six;
    struct tune_options other = {.accept_stored = true, .seed = 3};
    tune(&place, true, other, &result);
    die_after = 0;
    assert_int_equal(result.ending, TUNE_DEVICE_LOST);
    int looked = result.counts.looks;
    assert_true(looked > 1 && looked < RANKS);
    assert_int_equal(file_read(result.journal, 1 << 20, &before, NULL), ATTUNE_OK);
    tune_result_free(&result);
    other.resume = true;
    tune(&place, true, other, &result);
    assert_true(result.counts.resumed && result.record.complete);
    assert_int_equal(result.counts.held, looked);
    assert_int_equal(result.counts.looks, RANKS);
    assert_int_equal(result.counts.verified, RANKS - 1);
    assert_int_equal(result.counts.failed, 1);
    looks_since(result.journal, &before, looks);
    assert_int_equal(count_words(looks), RANKS - looked);
    tune_result_free(&result);
    buffer_free(&before);
    close_place(&place);
}

/* a run of so many looks, its journal in `path`; goes on with another if that is asked for */
static void tune_so_many(struct place *place, int looks, bool going_on, char path[600], int *held)
{
    struct tune_result result;
    tune(place, true, (struct tune_options){.accept_stored = true, .resume = going_on, .budget_candidates = looks},
         &result);
    assert_true(result.counts.resumed == going_on);
    snprintf(path, 600, "%s", result.journal);
    *held = result.counts.held;
    tune_result_free(&result);
}

static void a_short_run_that_was_left_hides_none_that_got_further(void **state)
{
    struct place place;
    char longer[600], shorter[600], path[600];
    int held;
    open_place(&place, *state);
    tune_so_many(&place, 8, false, longer, &held);
    tune_so_many(&place, 3, false, shorter, &held);
    assert_string_not_equal(longer, shorter);
    tune_so_many(&place, 9, true, path, &held);
    assert_string_equal(path, longer);
    assert_int_equal(held, 8);
    /* of another template nothing may hold: what was begun since goes on */
    edit(&place, "r00", "    // y = 2 x");
    tune_so_many(&place, 2, false, shorter, &held);
    tune_so_many(&place, 4, true, path, &held);
    assert_string_equal(path, shorter);
    assert_int_equal(held, 2);
    /* what is complete hides what was before it */
    tune_so_many(&place, 0, false, longer, &held);
    tune_so_many(&place, 2, false, shorter, &held);
    tune_so_many(&place, 3, true, path, &held);
    assert_string_equal(path, shorter);
    close_place(&place);
}

/* --count has what it asks for, though others were of another template once; but never without the default, and with no
 * winner of that template */
static void what_another_template_left_keeps_no_run_going(void **state)
{
    struct place place;
    struct tune_result result;
    struct tune_options two = resume;
    struct buffer before = BUFFER_INIT;
    char path[700];
    open_place(&place, *state);
    two.budget_candidates = 2;
    tune(&place, true, resume, &result);
    tune_result_free(&result);

    edit(&place, "r00 r01", "    // y = 2 x");
    tune(&place, true, two, &result);
    assert_false(result.already_done);
    assert_int_equal(result.counts.held, RANKS - 2);
    assert_int_equal(result.counts.invalid, 2);
    assert_int_equal(result.counts.looks, RANKS - 1); /* the default, and no other */
    assert_true(outcome_of(&result, "r00")->looked);
    assert_true(result.record.default_microseconds > 0.0);
    tune_result_free(&result);
    tune(&place, true, two, &result);
    assert_true(result.already_done);
    assert_int_equal(result.counts.held, RANKS - 1);
    tune_result_free(&result);

    assert_int_equal(path_join(path, sizeof path, place.templates, "twice.hip", NULL), ATTUNE_OK);
    assert_int_equal(file_read(path, 1 << 16, &before, NULL), ATTUNE_OK);
    edit(&place, "r11", "    // y = 2 x");
    tune(&place, true, resume, &result);
    assert_string_equal(result.record.candidate, BEST);
    tune_result_free(&result);
    assert_int_equal(file_write(path, before.data, before.length, NULL), ATTUNE_OK); /* changed back */
    tune(&place, true, two, &result);
    assert_false(result.already_done);
    assert_string_not_equal(result.record.candidate, BEST); /* its object is not looked at again yet */
    tune_result_free(&result);
    tune(&place, true, resume, &result);
    assert_string_equal(result.record.candidate, BEST);
    assert_true(result.record.complete);
    tune_result_free(&result);
    tune(&place, true, resume, &result);
    assert_true(result.already_done);
    tune_result_free(&result);
    buffer_free(&before);
    close_place(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_another_template_left_keeps_no_run_going),
        cmocka_unit_test(a_short_run_that_was_left_hides_none_that_got_further),
        cmocka_unit_test(a_run_cut_anywhere_goes_on_to_the_same_choice),
        cmocka_unit_test(old_times_count_by_todays_clock),
        cmocka_unit_test(a_changed_template_invalidates_what_it_touches),
        cmocka_unit_test(another_compiler_invalidates_all_or_nothing),
        cmocka_unit_test(objects_that_are_gone_are_compiled_again),
        cmocka_unit_test(a_larger_budget_goes_on),
        cmocka_unit_test(what_was_wrong_is_made_again_when_its_note_is_taken_back),
        cmocka_unit_test(a_lost_device_is_no_end),
        cmocka_unit_test(the_host_devices_winner_is_the_first_right_one_of_today),
    };
    return cmocka_run_group_tests(tests, parts_set_up, parts_tear_down);
}
