/* The page of `attune cache report`: what must stand in it, that nothing in a store can run or break it, and that it
 * depends on the store's contents alone. tests/cli/report_page.py reads it. */
#include "fake_store.h"
#include "program.h"

#include "autotune/ranks.h"
#include "base/digest.h"
#include "base/files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL "attention.forward dtype=f16 heads=2 seqlen_q=64 head_dim=64"
#define RUN "0123456789abcdef0123456789abcdef"

/* XML and scripts in every way that a text can hold them */
#define HOSTILE                                                                                                        \
    "</style></script><script>alert(1)</script> <img src=x onerror=alert(1)> \"' & &amp; ]]> <!-- "                    \
    "${d} % --> "
static const char hostile[] = HOSTILE "\xe2\x80\xae", hostile_as_shown[] = HOSTILE "\xef\xbf\xbd";

static struct store *open_store(const char *folder)
{
    struct store *store = NULL;
    struct error error = {.message = ""};
    if (store_open(folder, &store, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return store;
}

static struct fake_run a_run(void)
{
    return (struct fake_run){.problem = SMALL,
                             .device = "A GPU",
                             .target = "gfx906",
                             .driver = "5.2",
                             .run = RUN,
                             .candidates = 150,
                             .fastest = 20,
                             .ended = true,
                             .record = true,
                             .started = 1790000000};
}

static void one_run(const char *folder, const struct fake_run *run)
{
    struct store *store = open_store(folder);
    assert_true(fake_run_write(store, run));
    store_close(store);
}

static void report(const char *store, const char *page)
{
    attune("cache", "report", "--store", store, "-o", page, NULL);
    exits_with(EXIT_IS_DONE);
}

/* with the texts that must stand there; NULL ends them. False without Python */
static bool page_is_whole(const char *page, const char *const *texts)
{
    const char *words[64] = {"python3", TEST_SOURCE_DIR "/tests/cli/report_page.py", page};
    int count = 3;
    for (; *texts != NULL; texts++) {
        assert_true(count < 62);
        words[count++] = *texts;
    }
    struct process_result result = {0};
    struct process_options options = {.argv = words, .seconds = 60, .output_limit = 1 << 20};
    struct error error = {.message = ""};
    if (process_run(&options, &result, &error) != ATTUNE_OK) {
        print_message("skipped: %s\n", error.message);
        return false;
    }
    if (result.exit_code != 0) {
        fail_msg("%s%s", buffer_string(&result.output), buffer_string(&result.errors));
    }
    process_result_free(&result);
    return true;
}

static char *bytes_of(const char *path)
{
    struct buffer text = BUFFER_INIT;
    struct error error = {.message = ""};
    if (file_read(path, 64 << 20, &text, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return buffer_take(&text);
}

static void the_page_holds_every_problem_and_every_kind_of_failure(void **state)
{
    (void)state;
    assert_true(fake_store_make(scratch("full"), 120));
    report(scratch("full"), scratch("full.html"));
    says("8 tuned problems");
    static const char *const texts[] = {
        "8 problems on 2 devices, from 8 tuning runs",
        "An Invented GPU 140GB (sm_90a)",
        "a compiler 1.2",
        "driver 580.1",
        "power limit 700 W",
        "2026-09-21 14:13 UTC to 2026-09-22",
        "1. dtype=f16 batch=1 heads=32 kv_heads=8 seqlen_q=1024 head_dim=128 causal=bottom_right",
        "q_dtype=bf16 k_dtype=bf16",
        "seqlen_q=4096 seqlen_k=4096",
        "6 searches came to their end; 2 were stopped before.",
        "looked at 87 of 120 candidates, tried 90",
        "looked at 116 of 120 candidates, tried 120",
        "seqlen_q = seqlen_k",
        "it was killed",
        "wrong",
        "batch 0, head 5, row 5: error 0.05, the bound is 0.0012",
        "resources",
        "uses 32 bytes of scratch memory",
        "compile-error",
        "no member named 'x'",
        "hung",
        "crashed",
        "launch-failed",
        "not-tried",
        "the budget ended before",
        "Shapes",
        "Effect of each parameter",
        "Some results are of the host device",
        NULL,
    };
    if (!page_is_whole(scratch("full.html"), texts)) {
        skip();
    }
}

/* the numbers behind the page, by hand: three candidates whose times are known */
static void the_data_tell_who_won_by_how_much(void **state)
{
    (void)state;
    struct fake_run run = a_run();
    one_run(scratch("data"), &run);
    attune("cache", "report", "--store", scratch("data"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *result = json_array_get(json_object_get(answer(), "results"), 0);
    double winner = json_real_value(json_object_get(result, "winner_microseconds"));
    double standard = json_real_value(json_object_get(result, "default_microseconds"));
    char name[CANDIDATE_TEXT_BYTES];
    fake_candidate(0, name);
    assert_string_equal(json_string_value(json_object_get(result, "default")), name);
    assert_true(winner > 0 && standard > winner);
    assert_true(json_real_value(json_object_get(result, "speed_up")) == standard / winner);
    size_t index, timed = 0, least = 0;
    json_t *row;
    json_array_foreach(json_object_get(result, "candidates"), index, row)
    {
        double time = json_real_value(json_object_get(row, "microseconds"));
        timed += time > 0;
        least += time > 0 && time <= winner;
    }
    assert_int_equal(index, 150);
    assert_int_equal(least, 1);
    json_array_foreach(json_object_get(result, "parameters"), index, row)
    {
        size_t at, sum = 0;
        double lowest = 1e9;
        json_t *value;
        json_array_foreach(json_object_get(row, "values"), at, value)
        {
            double ratio = json_real_value(json_object_get(value, "ratio"));
            sum += (size_t)json_integer_value(json_object_get(value, "timed"));
            lowest = ratio > 0 && ratio < lowest ? ratio : lowest;
            assert_true(json_real_value(json_object_get(value, "median")) >=
                        json_real_value(json_object_get(value, "best")));
        }
        assert_int_equal(sum, timed);
        assert_true(lowest == 1.0); /* the winner has one of the values */
    }
    json_int_t counted = 0;
    json_array_foreach(json_object_get(result, "kinds"), index, row)
    {
        counted += json_integer_value(json_object_get(row, "count"));
    }
    assert_int_equal(counted, 150);
}

static void the_data_are_as_agreed(void **state)
{
    (void)state;
    struct fake_run run = a_run();
    run.candidates = 18;
    one_run(scratch("golden"), &run);
    attune("cache", "report", "--store", scratch("golden"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    matches_golden("report");
}

static void no_text_of_a_store_is_more_than_text(void **state)
{
    (void)state;
    struct fake_run run = a_run();
    run.device = "<script>alert('device')</script> & \"quoted\"";
    run.driver = "</dd><script>";
    run.reason = hostile;
    one_run(scratch("hostile"), &run);
    report(scratch("hostile"), scratch("hostile.html"));
    char *page = bytes_of(scratch("hostile.html"));
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "<img"));
    assert_null(strstr(page, "<!-- "));
    free(page);
    const char *const texts[] = {hostile_as_shown, run.device, NULL};
    if (!page_is_whole(scratch("hostile.html"), texts)) {
        skip();
    }
}

static void the_same_store_gives_the_same_bytes_wherever_it_lies(void **state)
{
    (void)state;
    assert_true(fake_store_make(scratch("one"), 100));
    report(scratch("one"), scratch("one.html"));
    attune_in_shell(
        "cd \"${ATTUNE_CACHE%/*}\" && cp -r one other && touch -d 2001-01-01 other/journals/* && "
        "TZ=Asia/Tokyo LC_ALL=C.UTF-8 \"$0\" cache report --store other -o other.html && cmp one.html other.html");
    exits_with(EXIT_IS_DONE);
}

static void one_problem_alone_is_shown_when_asked_for(void **state)
{
    (void)state;
    attune("cache", "report", "--store", scratch("one"), "--problem",
           "dtype=f16 heads=32 kv_heads=8 seqlen_q=2048 head_dim=128 causal=1", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *results = json_object_get(answer(), "results");
    assert_int_equal(json_array_size(results), 1);
    assert_int_equal(json_integer_value(json_object_get(answer(), "runs")), 1);
    attune("cache", "report", "--store", scratch("one"), "--problem", "heads=3 seqlen_q=9 head_dim=64", "-o",
           scratch("no.html"), NULL);
    exits_with(EXIT_IS_FAILED);
    complains("holds no tuning of attention.forward");
    assert_int_not_equal(access(scratch("no.html"), F_OK), 0);
}

static void a_store_of_the_host_shows_outcomes_only(void **state)
{
    (void)state;
    struct fake_run run = a_run();
    run.fastest = 0;
    run.target = run.device = "host";
    one_run(scratch("host"), &run);
    report(scratch("host"), scratch("host.html"));
    static const char *const texts[] = {"Nothing here was timed.", "This page shows outcomes only.",
                                        "nothing is timed on this device", "wrong", NULL};
    char *page = bytes_of(scratch("host.html"));
    assert_null(strstr(page, "µs"));
    assert_null(strstr(page, "<figure"));
    free(page);
    if (!page_is_whole(scratch("host.html"), texts)) {
        skip();
    }
}

/* a journal whose record is gone, a record whose journal is gone, a run that was killed, a file that is no journal */
static void what_is_left_of_a_run_is_shown(void **state)
{
    (void)state;
    struct fake_run run = a_run();
    run.record = false;
    one_run(scratch("parts"), &run);
    run.record = true;
    run.run = "fedcba9876543210fedcba9876543210";
    run.problem = "attention.forward dtype=f16 heads=2 seqlen_q=128 head_dim=64";
    one_run(scratch("parts"), &run);
    run.run = "11111111111111111111111111111111";
    run.problem = "attention.forward dtype=f16 heads=2 seqlen_q=256 head_dim=64";
    run.ended = run.record = false;
    one_run(scratch("parts"), &run);
    attune_in_shell("cd \"${ATTUNE_CACHE%/*}/parts/journals\" && rm fedcba9876543210fedcba9876543210.jsonl && "
                    "echo '<b>no journal' >22222222222222222222222222222222.jsonl && chmod 600 *");
    report(scratch("parts"), scratch("parts.html"));
    static const char *const texts[] = {"3 problems on 1 device",
                                        "its journal is gone: what is left is the record",
                                        "it was killed",
                                        "its search came to its end",
                                        "journals/22222222222222222222222222222222.jsonl",
                                        "it does not begin as a journal",
                                        NULL};
    attune("cache", "report", "--store", scratch("parts"), "--json", NULL);
    size_t index;
    json_t *row;
    json_array_foreach(json_object_get(answer(), "results"), index, row)
    {
        assert_true(json_real_value(json_object_get(row, "winner_microseconds")) > 0);
        assert_string_not_equal(json_string_value(json_object_get(row, "winner")), "");
    }
    assert_int_equal(index, 3);
    if (!page_is_whole(scratch("parts.html"), texts)) {
        skip();
    }
}

static void write_outcome(struct journal *journal, const char *candidate, const char *what, double microseconds)
{
    struct tune_outcome outcome = {.microseconds = microseconds, .registers = -1};
    struct digest digest;
    char hex[DIGEST_HEX_BYTES];
    digest_of(candidate, strlen(candidate), &digest);
    digest_hex(&digest, hex);
    snprintf(outcome.candidate, sizeof outcome.candidate, "%s", candidate);
    snprintf(outcome.id, sizeof outcome.id, "%.12s", hex);
    snprintf(outcome.outcome, sizeof outcome.outcome, "%s", what);
    journal_write_outcome(journal, JOURNAL_FIRST, &outcome);
}

static struct store *begin_journal(const char *folder, struct journal *journal)
{
    struct journal_begin begin = {.candidates = 10, .started = 1790000000};
    struct error error = {.message = ""};
    struct store *store = open_store(folder);
    snprintf(begin.run, sizeof begin.run, RUN);
    snprintf(begin.problem, sizeof begin.problem, "t n=1");
    snprintf(begin.device, sizeof begin.device, "A GPU");
    snprintf(begin.target, sizeof begin.target, "gfx906");
    assert_int_equal(journal_open(journal, store, RUN, &error), ATTUNE_OK);
    journal_write_begin(journal, &begin);
    return store;
}

static const json_t *parameter_of(const json_t *result, const char *name)
{
    size_t index;
    json_t *row;
    json_array_foreach(json_object_get(result, "parameters"), index, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0) {
            return row;
        }
    }
    fail_msg("no parameter %s", name);
    return NULL;
}

/* a=2 costs a tenth with all else equal, though it is faster on the whole; b=9 was timed once, and was slow */
static void what_was_timed_too_seldom_decides_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *candidate;
        double microseconds;
    } timed[] = {{"t/p a=1 b=1", 100}, {"t/p a=2 b=1", 110}, {"t/p a=1 b=2", 200}, {"t/p a=2 b=2", 220},
                 {"t/p a=1 b=3", 400}, {"t/p a=2 b=3", 440}, {"t/p a=1 b=9", 999}, {"t/p a=2 b=4", 50},
                 {"t/p a=2 b=5", 50},  {"t/p a=2 b=6", 50}};
    struct journal journal;
    struct store *store = begin_journal(scratch("seldom"), &journal);
    for (size_t i = 0; i < sizeof timed / sizeof timed[0]; i++) {
        write_outcome(&journal, timed[i].candidate, "slower", timed[i].microseconds);
    }
    journal_close(&journal);
    store_close(store);
    attune("cache", "report", "--store", scratch("seldom"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *result = json_array_get(json_object_get(answer(), "results"), 0);
    const json_t *a = parameter_of(result, "a"), *b = parameter_of(result, "b"), *row;
    assert_true(fabs(json_real_value(json_object_get(a, "effect")) - 1.1) < 1e-9);
    assert_int_equal(json_integer_value(json_object_get(a, "comparisons")), 3);
    assert_true(json_real_value(json_object_get(a, "span")) == 2.0); /* the best of a=1 by the best of all */
    assert_true(json_real_value(json_object_get(b, "effect")) == 0.0);
    assert_true(json_real_value(json_object_get(b, "span")) == 0.0); /* no value of b was timed three times */
    size_t index;
    json_array_foreach(json_object_get(b, "values"), index, *(json_t **)&row)
    {
        assert_true(json_is_true(json_object_get(row, "few")));
    }
    assert_int_equal(index, 7);
    report(scratch("seldom"), scratch("seldom.html"));
    static const char *const texts[] = {
        "the parameter that matters most here: with all else equal its "
        "slowest value takes ×1.10 the time of its fastest, the median of 3 comparisons",
        "Values marked * were timed less than three times", NULL};
    if (!page_is_whole(scratch("seldom.html"), texts)) {
        skip();
    }
}

/* within a tie a rule decides, and a first look says little: the page says so where rank 1 is not the fastest */
static void a_winner_that_is_not_the_fastest_is_explained(void **state)
{
    (void)state;
    static const char tie[] = "Rank 1 is the winner. It need not have the least time",
                      look[] = "A first look is a few launches";
    for (int i = 0; i < 3; i++) {
        struct journal journal;
        struct store *store = begin_journal(scratch("tie"), &journal);
        struct journal_end end = {.complete = true, .seconds = 67.8, .winner_microseconds = 100};
        write_outcome(&journal, "t/p a=1", "timed", 100);
        write_outcome(&journal, "t/p a=2", i == 1 ? "timed" : "slower", i == 0 ? 101 : 99.5);
        snprintf(end.winner, sizeof end.winner, "t/p a=1");
        journal_write_end(&journal, &end);
        journal_close(&journal);
        store_close(store);
        report(scratch("tie"), scratch("tie.html"));
        char *page = bytes_of(scratch("tie.html"));
        assert_true((strstr(page, tie) != NULL) == (i == 1));
        assert_true((strstr(page, look) != NULL) == (i == 2));
        assert_non_null(strstr(page, "its search came to its end after 68 s"));
        free(page);
        attune_in_shell("rm -r \"${ATTUNE_CACHE%/*}/tie\"");
    }
}

static void a_name_and_the_rate_of_memory_are_shown(void **state)
{
    (void)state;
    struct fake_run run = a_run();
    run.name = "llama <step>";
    run.problem = "attention.forward dtype=f16 heads=8 seqlen_q=1 seqlen_k=1024 head_dim=64";
    one_run(scratch("step"), &run);
    attune("cache", "report", "--store", scratch("step"), "--json", NULL);
    const json_t *result = json_array_get(json_object_get(answer(), "results"), 0);
    assert_string_equal(json_string_value(json_object_get(result, "name")), run.name);
    assert_true(json_real_value(json_object_get(result, "bytes")) == 2.0 * 8 * 64 * (2 * 1 + 2 * 1024));
    report(scratch("step"), scratch("step.html"));
    static const char *const texts[] = {"1. llama <step>: dtype=f16",
                                        "GB/s, where queries are few: the bytes of all tensors, each once", NULL};
    if (!page_is_whole(scratch("step.html"), texts)) {
        skip();
    }
}

static void write_rank(struct store *store, int rank)
{
    struct ranks ranks = {.rank = rank, .size = 2, .job = "monday"};
    struct journal journal;
    struct journal_begin begin = {.candidates = 4 + rank, .space = 8, .started = 1790000000, .seed = 9};
    struct journal_end end = {.seconds = 12.5 + rank, .looks = 2, .winner_microseconds = 90};
    struct error error = {.message = ""};
    snprintf(begin.problem, sizeof begin.problem, "t n=1");
    snprintf(begin.name, sizeof begin.name, "shared");
    snprintf(begin.device, sizeof begin.device, "A GPU");
    snprintf(begin.target, sizeof begin.target, "gfx906");
    snprintf(begin.rank, sizeof begin.rank, "%d/2 monday", rank);
    snprintf(end.winner, sizeof end.winner, "t/p a=2");
    ranks_journal_run(&ranks, begin.problem, rank, 0, begin.run);
    assert_int_equal(journal_open(&journal, store, begin.run, &error), ATTUNE_OK);
    journal_write_begin(&journal, &begin);
    write_outcome(&journal, "t/p a=1", "slower", 100);
    write_outcome(&journal, rank == 0 ? "t/p a=2" : "t/p a=3", "slower", 90 + rank);
    write_outcome(&journal, rank == 0 ? "t/p a=4" : "t/p a=5", "resources", 0);
    journal_write_end(&journal, &end);
    journal_close(&journal);
}

/* ranks that shared a problem: all together looked at three of eight, and five came to an outcome */
static void a_job_counts_the_same_wherever_it_is_told_of(void **state)
{
    (void)state;
    struct store *store = open_store(scratch("job"));
    write_rank(store, 0);
    write_rank(store, 1);
    store_close(store);
    report(scratch("job"), scratch("job.html"));
    char *page = bytes_of(scratch("job.html"));
    assert_non_null(strstr(page, "looked at 3 of 8 candidates, tried 5, by 2 ranks of one job"));
    assert_non_null(strstr(page, "<td class=\"n\">3 of 8</td>"));
    free(page);
    attune("cache", "journals", "--store", scratch("job"), "--json", NULL);
    const json_t *jobs = json_object_get(answer(), "jobs"), *job = json_array_get(jobs, 0);
    assert_int_equal(json_array_size(jobs), 1);
    assert_int_equal(json_array_size(json_object_get(answer(), "runs")), 2);
    assert_int_equal(json_integer_value(json_object_get(job, "looks")), 3);
    assert_int_equal(json_integer_value(json_object_get(job, "tried")), 5);
    assert_int_equal(json_integer_value(json_object_get(job, "candidates")), 8);
    assert_int_equal(json_integer_value(json_object_get(job, "journals")), 2);
    attune("cache", "journals", "--store", scratch("job"), NULL);
    says("13.5     9     3 of 8      5");
    says("2 ranks of one job: shared: t n=1");
    says("12.5     9     2 of 4      3");
    says("rank 0/2 of the job: shared: t n=1");
    says("13.5     9     2 of 5      3");
}

static void journals_of_one_problem_are_listed_when_asked_for(void **state)
{
    (void)state;
    static const char problem[] = "dtype=f16 heads=32 kv_heads=8 seqlen_q=2048 head_dim=128 causal=1";
    attune("cache", "journals", "--store", scratch("one"), "--json", NULL);
    assert_int_equal(json_array_size(json_object_get(answer(), "runs")), 8);
    attune("cache", "journals", "--store", scratch("one"), "--problem", problem, "--json", NULL);
    assert_int_equal(json_array_size(json_object_get(answer(), "runs")), 1);
    attune("cache", "journals", "--store", scratch("one"), "--problem", problem, NULL);
    says("  dtype=f16 batch=1 heads=32 kv_heads=8 seqlen_q=2048 head_dim=128 causal=bottom_right");
    attune("cache", "journals", "--store", scratch("one"), NULL);
    size_t longest = 0, length = 0;
    for (const char *at = buffer_string(&attune("cache", "journals", "--store", scratch("one"), NULL)->output);
         *at != '\0'; at++) {
        length = *at == '\n' ? 0 : length + 1;
        longest = length > longest ? length : longest;
    }
    assert_true(longest < 360); /* every kind of failure at once; a name in full is 200 more */
}

/* by kind, target and problem, each with its run */
static void records_are_listed_in_order(void **state)
{
    (void)state;
    attune("cache", "ls", "--store", scratch("one"), "--json", NULL);
    const json_t *entries = json_object_get(answer(), "entries"), *row;
    char before[PROBLEM_TEXT_BYTES + TARGET_TEXT_BYTES] = "";
    size_t index;
    json_array_foreach(entries, index, *(json_t **)&row)
    {
        char now[sizeof before];
        snprintf(now, sizeof now, "%s %s", json_string_value(json_object_get(row, "target")),
                 json_string_value(json_object_get(row, "problem")));
        assert_true(strcmp(before, now) <= 0);
        memcpy(before, now, sizeof before);
        assert_int_equal(strlen(json_string_value(json_object_get(row, "run"))), 32);
    }
    assert_int_equal(index, 6);
}

/* of several runs of one problem the one is shown whose record a call gets */
static void the_newest_complete_run_is_shown(void **state)
{
    (void)state;
    struct fake_run run = a_run();
    one_run(scratch("many"), &run);
    run.run = "22222222222222222222222222222222";
    run.started += 1000;
    run.fastest = 10;
    one_run(scratch("many"), &run);
    run.run = "33333333333333333333333333333333";
    run.started += 1000;
    run.looked_at = 20; /* newer, but not complete */
    one_run(scratch("many"), &run);
    attune("cache", "report", "--store", scratch("many"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *result = json_array_get(json_object_get(answer(), "results"), 0);
    assert_int_equal(json_array_size(json_object_get(answer(), "results")), 1);
    assert_string_equal(json_string_value(json_object_get(result, "run")), "22222222222222222222222222222222");
    assert_int_equal(json_array_size(json_object_get(result, "runs")), 3);
}

/* where none is complete: who tried most, though others are newer */
static void of_incomplete_runs_the_longest_is_shown(void **state)
{
    (void)state;
    static const struct {
        const char *run;
        int tried;
    } runs[] = {{RUN, 20}, {"22222222222222222222222222222222", 40}, {"33333333333333333333333333333333", 10}};
    struct fake_run run = a_run();
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        run.run = runs[i].run;
        run.looked_at = runs[i].tried;
        run.started += 1000;
        one_run(scratch("short"), &run);
    }
    attune("cache", "report", "--store", scratch("short"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *result = json_array_get(json_object_get(answer(), "results"), 0);
    assert_string_equal(json_string_value(json_object_get(result, "run")), "22222222222222222222222222222222");
    attune("explain", "--store", scratch("short"), "--target", "gfx906", "--problem", SMALL, "--json", NULL);
    exits_with(EXIT_IS_DONE);
    assert_string_equal(json_string_value(json_object_get(json_object_get(answer(), "tuning"), "run")),
                        "22222222222222222222222222222222"); /* the same */
}

/* a store of a machine that is not here, with nothing of that machine but its folder */
static void a_store_is_explained_without_its_device(void **state)
{
    (void)state;
    static const char problem[] = "dtype=f16 heads=32 kv_heads=8 seqlen_q=2048 head_dim=128 causal=1";
    attune("explain", "--store", scratch("one"), "--target", "sm_90a", "--problem", problem, "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *plan = json_object_get(answer(), "plan"), *tuning = json_object_get(answer(), "tuning");
    assert_string_equal(json_string_value(json_object_get(plan, "rung")), "exact");
    assert_int_equal(strlen(json_string_value(json_object_get(plan, "id"))), 12);
    assert_string_equal(json_string_value(json_object_get(answer(), "device_name")), "An Invented GPU 140GB");
    assert_string_equal(json_string_value(json_object_get(tuning, "journal")), "there");
    assert_int_equal(json_array_size(json_object_get(tuning, "nearest")), 10);
    attune("explain", "--store", scratch("one"), "--target", "sm_90a", "--problem", problem, NULL);
    says("as for An Invented GPU 140GB, by the store's records; nothing is loaded");
    says("why: tuned on this device for this problem");
    attune("explain", "--store", scratch("one"), "--target", "gfx906", "--problem", problem, NULL);
    exits_with(EXIT_IS_DONE);
    says("nothing was tuned on a device of this target");
    says("no plan is stored");
    attune("explain", "--store", scratch("one"), "--target", "sm_90a", "--device", "host", "--problem", problem, NULL);
    exits_with(EXIT_IS_USAGE);
    complains("give one of them");
}

static void an_output_that_cannot_be_is_refused_before_anything_is_done(void **state)
{
    (void)state;
    attune("cache", "report", "--store", scratch("one"), NULL);
    exits_with(EXIT_IS_USAGE);
    complains("-o report.html");
    attune("cache", "report", "--store", scratch("one"), "-o", scratch(""), NULL);
    exits_with(EXIT_IS_USAGE);
    complains("is a folder; name a file");
    attune("cache", "report", "--store", scratch("one"), "-o", scratch("absent/report.html"), NULL);
    exits_with(EXIT_IS_FAILED);
    complains("absent/report.html");
    attune("cache", "report", "--store", scratch("one"), "-o", "", NULL);
    exits_with(EXIT_IS_USAGE);
    attune("cache", "ls", "--store", scratch("one"), "-o", "x", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("--output does not go with `cache ls`");
    attune("cache", "report", "--store", scratch("nothing-there"), "-o", scratch("no.html"), NULL);
    exits_with(EXIT_IS_FAILED);
    complains("holds no tuning to report");
    assert_int_not_equal(access(scratch("no.html"), F_OK), 0);
}

static void an_existing_page_is_replaced_whole_or_not_at_all(void **state)
{
    (void)state;
    struct stat facts;
    attune_in_shell(
        "cd \"${ATTUNE_CACHE%/*}\" && echo old >old.html && ln old.html kept.html && umask 022 && "
        "\"$0\" cache report --store one -o old.html && grep -q old kept.html && ! grep -q '^old' old.html && "
        "mkdir -p frozen && echo old >frozen/page.html && ulimit -f 1 && "
        "! \"$0\" cache report --store one -o frozen/page.html && grep -q old frozen/page.html && "
        "test $(ls -A frozen | wc -l) = 1");
    exits_with(EXIT_IS_DONE);
    assert_int_equal(stat(scratch("old.html"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0644);
    attune_in_shell("\"$0\" cache report --store \"${ATTUNE_CACHE%/*}/one\" -o /dev/stdout | grep -c '</html>'");
    says("1");
    attune_in_shell("cd \"${ATTUNE_CACHE%/*}\" && \"$0\" cache report --store one -o - >dash.html && "
                    "\"$0\" cache report --store one -o file.html && cmp dash.html file.html && test ! -e ./-");
    exits_with(EXIT_IS_DONE);
    attune("cache", "report", "--store", scratch("one"), "-o", "-", "--json", NULL);
    exits_with(EXIT_IS_USAGE);
}

/* what one line of one journal says does not keep all others from being shown */
static void a_line_with_an_impossible_time_costs_itself_alone(void **state)
{
    (void)state;
    attune_in_shell(
        "cd \"${ATTUNE_CACHE%/*}\" && cp -r one edited && cd edited/journals && "
        "sed -i '0,/e\":\"timed/{/e\":\"timed/s/microseconds\":[0-9.]*/microseconds\":1e-310/}' *.jsonl && "
        "grep -c 'e-310' *.jsonl && cd ../.. && \"$0\" cache report --store edited -o edited.html && "
        "grep -q 'of the journal could not be read' edited.html && \"$0\" cache report --store edited --json | "
        "grep -c 'e-310'");
    exits_with(EXIT_IS_FAILED); /* grep's: no such time is in the answer */
    says("edited.html: ");
}

static void a_page_whose_template_fails_is_no_usage_error(void **state)
{
    (void)state;
    attune_in_shell("cd \"${ATTUNE_CACHE%/*}\" && mkdir -p own/report && echo '${1 < nil}' >own/report/result.html && "
                    "ATTUNE_TEMPLATE_PATH=own \"$0\" cache report --store one -o own.html");
    exits_with(EXIT_IS_FAILED);
    complains("the page's own template fails");
    assert_int_not_equal(access(scratch("own.html"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_holds_every_problem_and_every_kind_of_failure),
        cmocka_unit_test(the_data_tell_who_won_by_how_much),
        cmocka_unit_test(the_data_are_as_agreed),
        cmocka_unit_test(no_text_of_a_store_is_more_than_text),
        cmocka_unit_test(the_same_store_gives_the_same_bytes_wherever_it_lies),
        cmocka_unit_test(one_problem_alone_is_shown_when_asked_for),
        cmocka_unit_test(a_store_of_the_host_shows_outcomes_only),
        cmocka_unit_test(what_is_left_of_a_run_is_shown),
        cmocka_unit_test(what_was_timed_too_seldom_decides_nothing),
        cmocka_unit_test(a_winner_that_is_not_the_fastest_is_explained),
        cmocka_unit_test(a_name_and_the_rate_of_memory_are_shown),
        cmocka_unit_test(a_job_counts_the_same_wherever_it_is_told_of),
        cmocka_unit_test(journals_of_one_problem_are_listed_when_asked_for),
        cmocka_unit_test(records_are_listed_in_order),
        cmocka_unit_test(the_newest_complete_run_is_shown),
        cmocka_unit_test(of_incomplete_runs_the_longest_is_shown),
        cmocka_unit_test(a_store_is_explained_without_its_device),
        cmocka_unit_test(an_output_that_cannot_be_is_refused_before_anything_is_done),
        cmocka_unit_test(an_existing_page_is_replaced_whole_or_not_at_all),
        cmocka_unit_test(a_line_with_an_impossible_time_costs_itself_alone),
        cmocka_unit_test(a_page_whose_template_fails_is_no_usage_error),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
