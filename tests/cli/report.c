/* The page of `attune cache report`: what must stand in it, that nothing in a store can run or break it, and that it
 * depends on the store's contents alone. tests/cli/report_page.py reads it. */
#include "report_parts.h"

#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* XML and scripts in every way that a text can hold them */
#define HOSTILE                                                                                                        \
    "</style></script><script>alert(1)</script> <img src=x onerror=alert(1)> \"' & &amp; ]]> <!-- "                    \
    "${d} % --> "
static const char hostile[] = HOSTILE "\xe2\x80\xae", hostile_as_shown[] = HOSTILE "\xef\xbf\xbd";

static void the_page_holds_every_problem_and_every_kind_of_failure(void **state)
{
    (void)state;
    assert_true(fake_store_make(scratch("full"), 120));
    report_page(scratch("full"), scratch("full.html"));
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
    report_page(scratch("hostile"), scratch("hostile.html"));
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
    report_page(scratch("one"), scratch("one.html"));
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
    report_page(scratch("host"), scratch("host.html"));
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
    report_page(scratch("parts"), scratch("parts.html"));
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
    report_page(scratch("step"), scratch("step.html"));
    static const char *const texts[] = {"1. llama <step>: dtype=f16",
                                        "GB/s, where queries are few: the bytes of all tensors, each once", NULL};
    if (!page_is_whole(scratch("step.html"), texts)) {
        skip();
    }
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
        cmocka_unit_test(a_name_and_the_rate_of_memory_are_shown),
        cmocka_unit_test(the_newest_complete_run_is_shown),
        cmocka_unit_test(an_output_that_cannot_be_is_refused_before_anything_is_done),
        cmocka_unit_test(an_existing_page_is_replaced_whole_or_not_at_all),
        cmocka_unit_test(a_line_with_an_impossible_time_costs_itself_alone),
        cmocka_unit_test(a_page_whose_template_fails_is_no_usage_error),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
