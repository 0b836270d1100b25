/* `attune verify` says of every failed check what became of it and why, and one that fails stops no other. The kernels
 * are those of tests/cli/templates/fault.hip. */
#include "program.h"

#include "base/files.h"

#include <stdio.h>
#include <string.h>

#define FAULT(name) "test.fault elements=100 fault=" name

static bool host_compiler_is_there(void)
{
    bool there = strstr(buffer_string(&attune("doctor", NULL)->output), "++ ") != NULL;
    if (!there) {
        print_message("skipped: no C++ compiler for the host device\n");
    }
    return there;
}

static const json_t *result_at(size_t index)
{
    return json_array_get(json_object_get(answer(), "results"), index);
}

static const char *status_of(const json_t *of)
{
    return json_string_value(json_object_get(json_object_get(of, "error"), "status"));
}

static void every_failed_check_is_a_row_with_its_reason(void **state)
{
    (void)state;
    static const struct {
        const char *problem, *outcome, *reason;
        int exit_code;
        const char *status;
    } cases[] = {
        {FAULT("compile"), "compile-error ", "this fault does not compile", EXIT_IS_FAILED, "compile failed"},
        {FAULT("crash"), "crashed ", "ended by signal", EXIT_IS_FAILED, "device failed"},
        {FAULT("hang"), "hung ", "did not end within", EXIT_IS_FAILED, "device failed"},
        {FAULT("wrong"), "wrong ", "y: element 3: ", EXIT_IS_WRONG, "wrong numbers"},
    };
    if (!host_compiler_is_there()) {
        skip();
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char outcome[32];
        attune("verify", "--device", "host", "--candidate-limit", "2s", "--problem", cases[i].problem, NULL);
        exits_with(cases[i].exit_code);
        says(cases[i].outcome);
        says(cases[i].reason);
        says("0 of 1 right");
        attune("verify", "--device", "host", "--candidate-limit", "2s", "--problem", cases[i].problem, "--json", NULL);
        exits_with(cases[i].exit_code);
        assert_string_equal(status_of(answer()), cases[i].status);
        const json_t *row = json_array_get(json_object_get(result_at(0), "outcomes"), 0);
        snprintf(outcome, sizeof outcome, "%s ", json_string_value(json_object_get(row, "outcome")));
        assert_string_equal(outcome, cases[i].outcome);
    }
}

static void sanitizers_reports_are_shown(void **state)
{
    (void)state;
    static const struct {
        const char *sanitizer, *problem, *report;
    } cases[] = {{"address", FAULT("beyond"), "heap-buffer-overflow"}, {"thread", FAULT("race"), "data race"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct process_result *result =
            attune("verify", "--device", "host", "--sanitize", cases[i].sanitizer, "--problem", cases[i].problem, NULL);
        if (result->exit_code == EXIT_IS_MISSING) {
            print_message("skipped: %s\n", buffer_string(&result->errors));
            skip();
        }
        exits_with(EXIT_IS_FAILED);
        says("launch-failed");
        says(cases[i].report);
    }
}

static void a_nan_is_an_infinite_error_in_every_place(void **state)
{
    (void)state;
    if (!host_compiler_is_there()) {
        skip();
    }
    attune("verify", "--device", "host", "--problem", FAULT("nan"), NULL);
    exits_with(EXIT_IS_WRONG);
    says("largest error inf");
    says("  inf  normal inputs: y: element 3: nan");
}

/* 2 says that nothing was done */
static void a_refused_problem_of_a_list_is_no_usage_error(void **state)
{
    (void)state;
    static const char large[] = "attention.forward heads=64 seqlen_q=16384 head_dim=128";
    struct error error = {0};
    if (!host_compiler_is_there()) {
        skip();
    }
    attune("verify", "--device", "host", "--problem", large, NULL);
    exits_with(EXIT_IS_USAGE);
    char text[512];
    snprintf(text, sizeof text, "large: %s\nsmall: " FAULT("none") "\n", large);
    assert_int_equal(file_write(scratch("problems"), text, strlen(text), &error), ATTUNE_OK);
    attune("verify", "--device", "host", "--problems", scratch("problems"), NULL);
    exits_with(EXIT_IS_FAILED);
    says("small: 1 of 1 right");
    complains("attune verify: large: the problem takes ");
    complains("1 of 2 problems failed: large; why is told above");
}

static void a_problem_that_fails_stops_no_other(void **state)
{
    (void)state;
    static const char text[] =
        "first: " FAULT("compile") "\nsecond: " FAULT("wrong") "\n" FAULT("crash") "\nlast: " FAULT("none") "\n";
    static const char failing[] = FAULT("none") "\n" FAULT("crash") "\n" FAULT("compile") "\n";
    static const char *const statuses[] = {"compile failed", "wrong numbers", "device failed"};
    struct error error = {0};
    if (!host_compiler_is_there()) {
        skip();
    }
    assert_int_equal(file_write(scratch("problems"), text, strlen(text), &error), ATTUNE_OK);
    attune("verify", "--device", "host", "--problems", scratch("problems"), "--json", NULL);
    exits_with(EXIT_IS_WRONG);
    assert_int_equal(json_array_size(json_object_get(answer(), "results")), 4);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(status_of(result_at(i)), statuses[i]);
    }
    assert_null(json_object_get(result_at(3), "error"));
    assert_int_equal(json_integer_value(json_object_get(result_at(3), "right")), 1);
    assert_string_equal(status_of(answer()), "wrong numbers");
    complains("3 of 4 problems failed: first, second and 1 more; why is told above");
    attune("verify", "--device", "host", "--problems", scratch("problems"), NULL);
    exits_with(EXIT_IS_WRONG);
    says("last: 1 of 1 right");
    assert_int_equal(file_write(scratch("problems"), failing, strlen(failing), &error), ATTUNE_OK);
    attune("verify", "--device", "host", "--problems", scratch("problems"), NULL);
    exits_with(EXIT_IS_FAILED);
    complains("2 of 3 problems failed");
}

static void companions_are_counted_and_refused_where_there_are_none(void **state)
{
    (void)state;
#define SMALL "heads=2 seqlen_q=16 head_dim=16"
    attune("verify", "--device", "host", "--companions", "--problem", FAULT("none"), NULL);
    exits_with(EXIT_IS_USAGE);
    complains("--companions");
    complains("test.fault");
    if (!host_compiler_is_there()) {
        skip();
    }
    attune("verify", "--device", "host", "--problem", SMALL, NULL);
    exits_with(EXIT_IS_DONE);
    says("3 calls a candidate\n");
    attune("verify", "--device", "host", "--companions", "--problem", SMALL, "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *row = json_array_get(json_object_get(result_at(0), "outcomes"), 0);
    json_int_t calls = json_integer_value(json_object_get(row, "calls"));
    json_int_t companions = json_integer_value(json_object_get(row, "companions"));
    char told[64];
    assert_true(companions > 0);
    assert_int_equal(calls, companions + 3);
    snprintf(told, sizeof told, "%d calls a candidate, %d of them companions\n", (int)calls, (int)companions);
    attune("verify", "--device", "host", "--companions", "--problem", SMALL, NULL);
    exits_with(EXIT_IS_DONE);
    says(told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failed_check_is_a_row_with_its_reason),
        cmocka_unit_test(sanitizers_reports_are_shown),
        cmocka_unit_test(a_nan_is_an_infinite_error_in_every_place),
        cmocka_unit_test(a_refused_problem_of_a_list_is_no_usage_error),
        cmocka_unit_test(a_problem_that_fails_stops_no_other),
        cmocka_unit_test(companions_are_counted_and_refused_where_there_are_none),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
