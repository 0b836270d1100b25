/* Reading a trace: any bytes, sums, and what a call is taken to cost. */
#include "autotune/attention.h"
#include "autotune/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void read_text(struct trace *trace, const char *text)
{
    assert_int_equal(trace_add(trace, text, strlen(text), NULL), ATTUNE_OK);
}

static void lines_of_one_problem_are_summed(void **state)
{
    (void)state;
    struct trace trace = {0};
    read_text(&trace,
              "{\"calls\":1,\"problem\":\"b\"}\n{\"calls\":2,\"problem\":\"a\"}\n{\"calls\":4,\"problem\":\"b\"}\n");
    read_text(&trace, "{\"calls\":8,\"problem\":\"b\",\"later\":true}\n\n{\"calls\":16,\"problem\":\"c\"}");
    trace_sum(&trace);
    assert_int_equal(trace.count, 3);
    assert_string_equal(trace.problems[0].text, "a");
    assert_int_equal(trace.problems[0].calls, 2);
    assert_string_equal(trace.problems[1].text, "b");
    assert_int_equal(trace.problems[1].calls, 13);
    assert_int_equal(trace.problems[2].calls, 16);
    assert_int_equal(trace.calls, 31);
    assert_int_equal(trace.lines, 5);
    assert_int_equal(trace.unreadable, 0);
    trace_free(&trace);
}

static void what_is_no_line_is_counted_and_left_out(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"calls\":1,\"prob",
        "{\"calls\":0,\"problem\":\"a\"}",
        "{\"calls\":-1,\"problem\":\"a\"}",
        "{\"calls\":1.5,\"problem\":\"a\"}",
        "{\"calls\":\"1\",\"problem\":\"a\"}",
        "{\"calls\":99999999999999999999,\"problem\":\"a\"}",
        "{\"calls\":1,\"problem\":\"\"}",
        "{\"calls\":1,\"problem\":7}",
        "{\"calls\":1}",
        "{\"problem\":\"a\"}",
        "[1,\"a\"]",
        "{\"calls\":1,\"calls\":2,\"problem\":\"a\"}",
        "{\"calls\":1,\"problem\":\"a\"}{\"calls\":1,\"problem\":\"a\"}",
        "{\"calls\":1,\"problem\":\"a\\u0000b\"}",
        "{\"calls\":1,\"problem\":\"\xff\"}",
        "\x01\x02",
    };
    struct trace trace = {0};
    char line[PROBLEM_TEXT_BYTES + 64];
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        read_text(&trace, lines[i]);
        assert_int_equal(trace.unreadable, i + 1);
    }
    const int64_t before = trace.unreadable;
    snprintf(line, sizeof line, "{\"calls\":1,\"problem\":\"%0*d\"}", PROBLEM_TEXT_BYTES, 0);
    read_text(&trace, line);
    assert_int_equal(trace.unreadable, before + 1);
    assert_int_equal(trace.count, 0);
    snprintf(line, sizeof line, "{\"calls\":1,\"problem\":\"%0*d\"}", PROBLEM_TEXT_BYTES - 1, 0);
    read_text(&trace, line);
    assert_int_equal(trace.count, 1);
    trace_free(&trace);
}

static void sums_end_where_numbers_do(void **state)
{
    (void)state;
    struct trace trace = {0};
    for (int i = 0; i < 3; i++) {
        read_text(&trace, "{\"calls\":9223372036854775807,\"problem\":\"a\"}\n");
    }
    trace_sum(&trace);
    assert_int_equal(trace.count, 1);
    assert_true(trace.problems[0].calls == INT64_MAX && trace.calls == INT64_MAX);
    trace_free(&trace);
}

static void a_file_without_a_line_of_a_trace_is_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/attune-trace-XXXXXX";
    struct trace trace = {0};
    struct error error = {.message = ""};
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(trace_add_file(&trace, path, &error), ATTUNE_OK); /* of a process that launched nothing */
    assert_int_equal(write(file, "some\ntext\n", 10), 10);
    assert_int_equal(trace_add_file(&trace, path, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "none of its 2 lines"));
    assert_int_equal(write(file, "{\"calls\":1,\"problem\":\"a\"}\n", 26), 26);
    assert_int_equal(trace_add_file(&trace, path, &error), ATTUNE_OK);
    assert_int_equal(trace.count, 1);
    close(file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(trace_add_file(&trace, path, &error), ATTUNE_NOT_FOUND);
    trace_free(&trace);
}

static struct problem parse(const char *text)
{
    struct problem problem;
    struct error error = {.message = ""};
    if (problem_parse(schema_attention_forward(), text, &problem, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return problem;
}

static double cost(const char *text)
{
    const struct problem problem = parse(text);
    return trace_call_cost(NULL, &problem);
}

/* by hand, with the rates that trace.h states */
static void a_call_costs_its_operations_or_its_bytes(void **state)
{
    (void)state;
    /* 2 (128 + 128) 32 heads 4096^2 pairs = 2.75e11 operations of 16 bits: 2749 us; bytes are few */
    assert_float_equal(cost("dtype=f16 heads=32 seqlen_q=4096 head_dim=128"), 4 + 2748.8, 1);
    assert_float_equal(cost("dtype=bf16 heads=32 seqlen_q=4096 head_dim=128 batch=3"), 4 + 3 * 2748.8, 3);
    assert_float_equal(cost("dtype=f32 heads=32 seqlen_q=4096 head_dim=128"), 4 + 5 * 2748.8, 5);
    /* decoding: 8 heads of 4096 keys and values of 128 halves = 16.8e6 bytes, and hardly an operation */
    assert_float_equal(cost("dtype=f16 heads=32 kv_heads=8 seqlen_q=1 seqlen_k=4096 head_dim=128"), 4 + 16.78, 0.1);
    assert_float_equal(cost("dtype=f16 heads=1 seqlen_q=1 seqlen_k=0 head_dim=8"), 4, 0.01);
}

static void masks_are_counted_as_the_reference_counts_them(void **state)
{
    (void)state;
    static const char *const shapes[] = {"seqlen_q=1000 seqlen_k=1000", "seqlen_q=1000 seqlen_k=400",
                                         "seqlen_q=400 seqlen_k=1000",  "seqlen_q=1 seqlen_k=5000",
                                         "seqlen_q=50 seqlen_k=1",      "seqlen_q=7 seqlen_k=0"};
    static const char *const masks[] = {"none", "top_left", "bottom_right"};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (size_t m = 0; m < 3; m++) {
            char text[256];
            struct attention attention;
            /* many heads on one: of long rows the operations count */
            snprintf(text, sizeof text, "dtype=f16 heads=100000 kv_heads=1 head_dim=256 %s causal=%s", shapes[i],
                     masks[m]);
            const struct problem problem = parse(text);
            assert_int_equal(attention_from_problem(&problem, &attention, NULL), ATTUNE_OK);
            const double operations = attention_operations(&attention) / 1e8;
            const double queries = (double)problem_integer(&problem, "seqlen_q");
            const double bytes = (queries * 100000 + (double)problem_integer(&problem, "seqlen_k")) * 1024 / 1e6;
            assert_float_equal(trace_call_cost(NULL, &problem), 4 + (operations > bytes ? operations : bytes), 0.01);
        }
    }
}

static void no_size_takes_long_or_overflows(void **state)
{
    (void)state;
    const double most = cost("dtype=f16 heads=4 seqlen_q=2147418112 head_dim=256 causal=1");
    assert_true(most > 1e13 && most < 1e15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_one_problem_are_summed),
        cmocka_unit_test(what_is_no_line_is_counted_and_left_out),
        cmocka_unit_test(sums_end_where_numbers_do),
        cmocka_unit_test(a_file_without_a_line_of_a_trace_is_refused),
        cmocka_unit_test(a_call_costs_its_operations_or_its_bytes),
        cmocka_unit_test(masks_are_counted_as_the_reference_counts_them),
        cmocka_unit_test(no_size_takes_long_or_overflows),
    };
    return cmocka_run_group_tests_name("trace_reader", tests, NULL, NULL);
}
