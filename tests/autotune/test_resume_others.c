/* What goes on by --resume and what does not: candidates that are not asked for now, compilers that others ended. */
#include "resume_place.h"

#include "autotune/tune_private.h"
#include "tests/size.h"

#include <unistd.h>

/* A compiler that others end while it has the kernel of r05 in hand: `how` is what its script does then, as long as the
 * file `bad` is there. */
static void use_mortal_compiler(const struct place *place, const char *how)
{
    char path[700], text[8 * sizeof place->folder];
    snprintf(text, sizeof text,
             "#!/bin/sh\ncase \"$*\" in *' -') ;; *) exec c++ \"$@\";; esac\n"
             "cat > %s/source.$$\nif [ -e %s/bad ] && grep -q twice_r05 %s/source.$$; then\n"
             "echo x >> %s/ended; rm %s/source.$$; %s\nfi\nc++ \"$@\" < %s/source.$$; code=$?; rm %s/source.$$; "
             "exit $code\n",
             place->folder, place->folder, place->folder, place->folder, place->folder, how, place->folder,
             place->folder);
    assert_int_equal(path_join(path, sizeof path, place->folder, "cxx", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, text, strlen(text), NULL), ATTUNE_OK);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(setenv("ATTUNE_CXX", path, 1), 0);
}

static int count_notes(const struct place *place)
{
    struct store *store;
    struct store_verdict verdict;
    assert_int_equal(store_open(place->store, &store, NULL), ATTUNE_OK);
    assert_int_equal(store_verify(store, false, &verdict, NULL), ATTUNE_OK);
    store_close(store);
    return verdict.blocked;
}

/* Memory that ran out, a limit, an operator: asked once more, and nothing that holds. */
static void a_compiler_that_others_end_says_nothing_of_the_candidate(void **state)
{
    static const char *const ends[] = {"kill -9 $$",
                                       "echo 'c++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1",
                                       "echo 'as: kernel.o: No space left on device' >&2; exit 1"};
    struct parts mine = *(struct parts *)*state;
    for (size_t i = 0; i < (size_t)test_size(2, 3); i++) {
        struct place place;
        struct tune_result result;
        struct buffer ended = BUFFER_INIT;
        char bad[700], log[700];
        open_place(&place, &mine);
        assert_int_equal(path_join(bad, sizeof bad, place.folder, "bad", NULL), ATTUNE_OK);
        assert_int_equal(path_join(log, sizeof log, place.folder, "ended", NULL), ATTUNE_OK);
        use_mortal_compiler(&place, ends[i]);
        assert_int_equal(file_write(bad, "", 0, NULL), ATTUNE_OK);
        assert_int_equal(compiler_pool_create(NULL, &mine.pool, NULL), ATTUNE_OK);
        tune(&place, true, (struct tune_options){.accept_stored = true}, &result);
        assert_string_equal(outcome_of(&result, "r05")->outcome, "not-compiled");
        assert_int_equal(result.counts.failed, 1);
        assert_string_equal(result.record.candidate, BEST);
        assert_int_equal(count_notes(&place), 0);
        assert_int_equal(file_read(log, 100, &ended, NULL), ATTUNE_OK);
        assert_string_equal(ended.data, "x\nx\n"); /* asked twice */
        tune_result_free(&result);
        assert_int_equal(unlink(bad), 0);
        tune(&place, true, resume, &result);
        assert_int_equal(result.counts.held, RANKS - 1);
        assert_int_equal(result.counts.compiled, 1);
        assert_int_equal(result.counts.verified, RANKS);
        tune_result_free(&result);
        compiler_pool_destroy(mine.pool);
        buffer_free(&ended);
        close_place(&place);
    }
    assert_int_equal(unsetenv("ATTUNE_CXX"), 0);
}

/* a file that names these modes, for --candidates */
static void name_candidates(const struct place *place, const char *modes, char path[700])
{
    char copy[256];
    struct buffer text = BUFFER_INIT;
    snprintf(copy, sizeof copy, "%s", modes);
    for (char *rest = copy, *mode; (mode = strtok_r(rest, " ", &rest)) != NULL;) {
        buffer_format(&text, "twice/plain mode=%s\n", mode);
    }
    assert_int_equal(path_join(path, 700, place->folder, "candidates", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, text.data, text.length, NULL), ATTUNE_OK);
    buffer_free(&text);
}

/* Who goes on with less than the run was begun for loses nothing of what the run knows, and ends no search. */
static void a_narrower_search_loses_no_winner(void **state)
{
    struct place place;
    struct tune_result result;
    char file[700], path[512];
    open_place(&place, *state);
    name_candidates(&place, "r11 r02 r05", file);
    struct tune_options begun = {.accept_stored = true, .candidates = file}, narrow = resume;
    tune(&place, true, begun, &result);
    assert_true(result.record.complete);
    assert_string_equal(result.record.candidate, BEST);
    snprintf(path, sizeof path, "%s", result.journal);
    tune_result_free(&result);

    /* the default alone: nothing is left to do */
    narrow.strategy = "default";
    tune(&place, true, narrow, &result);
    assert_true(result.already_done);
    assert_string_equal(result.record.candidate, BEST);
    assert_int_equal(result.record.tried, 4);
    assert_int_equal(result.counts.held, 4);
    assert_int_equal(result.ending, TUNE_COMPLETE); /* the record is of a run that came to its end */
    tune_result_free(&result);

    /* other candidates: all that are known meet them in the finals */
    name_candidates(&place, "r07 r08", file);
    narrow = (struct tune_options){.accept_stored = true, .resume = true, .candidates = file};
    tune(&place, true, narrow, &result);
    assert_string_equal(result.journal, path);
    assert_string_equal(result.record.candidate, BEST);
    assert_int_equal(result.counts.held, 4);
    assert_int_equal(result.record.tried, 6);
    assert_int_equal(result.listed, 6);
    assert_int_equal(result.ending, TUNE_NARROWER);
    assert_false(result.record.complete);
    assert_string_equal(outcome_of(&result, "r11")->outcome, "timed");
    tune_result_free(&result);

    /* the default is another now: it is made again, and what else holds competes; of what does not nobody asks */
    edit(&place, "r00 r05", "    // y = 2 x");
    narrow = resume;
    narrow.strategy = "default";
    tune(&place, true, narrow, &result);
    assert_int_equal(result.counts.invalid, 1);
    assert_int_equal(result.counts.held, 4);
    assert_int_equal(result.counts.compiled, 1);
    assert_string_equal(result.record.candidate, BEST);
    assert_int_equal(result.record.tried, 5);
    assert_false(result.record.complete);
    tune_result_free(&result);

    /* the whole space is more than the file that it was begun with */
    tune(&place, true, resume, &result);
    assert_string_equal(result.journal, path);
    assert_int_equal(result.counts.held, 5);
    assert_int_equal(result.record.tried, RANKS);
    assert_true(result.record.complete);
    tune_result_free(&result);
    close_place(&place);
}

/* Whose end is that of a run: the same strategy's over as many candidates, or whoever sees more. */
static void only_as_wide_a_plan_ends_a_run(void **state)
{
    (void)state;
    static const struct {
        const char *begun; /* "" : by an older writer */
        int candidates;    /* of those it was begun for; 100 are the space, a file has 5 */
        const char *now;
        bool of_file;
        int others; /* it knows, that are not listed now */
        bool narrower;
    } rows[] = {
        {"exhaustive", 100, "exhaustive", false, 0, false},
        {"exhaustive", 100, "model", false, 0, true},
        {"exhaustive", 100, "cover", false, 0, true},
        {"exhaustive", 100, "default", false, 0, true},
        {"exhaustive", 100, "exhaustive", true, 0, true},
        {"model", 100, "model", false, 0, false},
        {"model", 100, "random", false, 0, true},
        {"model", 100, "exhaustive", false, 0, false},
        {"random", 120, "random", false, 3, false},
        {"", 100, "model", false, 0, false},
        {"", 100, "default", false, 0, true},
        {"cover", 12, "cover", false, 4, false},
        {"cover", 12, "model", false, 0, false},
        {"default", 1, "default", false, 0, false},
        {"default", 1, "cover", false, 0, false},
        {"default", 1, "exhaustive", true, 0, false},
        {"exhaustive", 5, "exhaustive", true, 0, false},
        {"exhaustive", 5, "exhaustive", true, 1, true},
        {"exhaustive", 5, "random", true, 0, true},
        {"exhaustive", 3, "default", false, 0, true},
        {"exhaustive", 5, "model", false, 0, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tune_options options = {.candidates = rows[i].of_file ? "five.txt" : NULL};
        struct tuning t = {.options = &options};
        struct journal_begin begin = {.candidates = rows[i].candidates};
        assert_int_equal(plan_named(rows[i].now, true, options.candidates, &t.plan, NULL), ATTUNE_OK);
        snprintf(begin.strategy, sizeof begin.strategy, "%s", rows[i].begun);
        t.planned = rows[i].of_file ? 5 : t.plan.scope == PLAN_SPACE ? 100 : t.plan.scope == PLAN_DEFAULT ? 1 : 12;
        t.list.count = t.planned + rows[i].others;
        if (tuning_is_narrower(&t, &begin) != rows[i].narrower) {
            fail_msg("begun as %s of %d, now %s%s, %d others", rows[i].begun, rows[i].candidates, rows[i].now,
                     rows[i].of_file ? " of a file" : "", rows[i].others);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_narrower_search_loses_no_winner),
        cmocka_unit_test(only_as_wide_a_plan_ends_a_run),
        cmocka_unit_test(a_compiler_that_others_end_says_nothing_of_the_candidate),
    };
    return cmocka_run_group_tests(tests, parts_set_up, parts_tear_down);
}
