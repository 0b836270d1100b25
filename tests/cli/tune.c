/* `attune tune` on many problems and devices: through the real program, on the host device. */
#include "program.h"

#include <stdio.h>
#include <string.h>

/* the host compiler is all it needs, and a test is skipped by name without it */
static void need_host_compiler(void)
{
    size_t index, at;
    json_t *row, *target;
    attune("doctor", "--json", NULL);
    json_array_foreach(json_object_get(answer(), "compilers"), index, row)
    {
        json_array_foreach(json_object_get(row, "targets"), at, target)
        {
            if (json_is_true(json_object_get(row, "found")) && strcmp(json_string_value(target), "host") == 0) {
                return;
            }
        }
    }
    print_message("skipped: no C++ compiler for the host device\n");
    skip();
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char *text_at(const json_t *rows, size_t index, const char *key)
{
    const char *text = json_string_value(json_object_get(json_array_get(rows, index), key));
    assert_non_null(text);
    return text;
}

static void several_devices_share_a_list(void **state)
{
    (void)state;
    need_host_compiler();
    write_file(scratch("several.txt"), "a: test.scale elements=100 factor=3\nb: test.scale elements=200 factor=3\n"
                                       "c: test.scale elements=300 factor=3\nd: test.scale elements=400 factor=3\n");
    attune("tune", "--problems", scratch("several.txt"), "--device", "host,host", "--store", scratch("several"),
           "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *results = json_object_get(answer(), "results");
    assert_int_equal(json_array_size(results), 4); /* each once, in the order of the file */
    for (size_t i = 0; i < 4; i++) {
        const char name[] = {(char)('a' + i), '\0'};
        assert_string_equal(text_at(results, i, "name"), name);
        assert_string_equal(text_at(results, i, "device"), "host");
        assert_string_equal(text_at(results, i, "ending"), "complete");
    }
    attune("cache", "ls", "--store", scratch("several"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    size_t index, tuned = 0;
    json_t *row;
    json_array_foreach(json_object_get(answer(), "entries"), index, row)
    {
        const char *record = json_string_value(json_object_get(row, "record"));
        tuned += record != NULL && strcmp(record, "tuned") == 0;
    }
    assert_int_equal(tuned, 4);
    attune("cache", "verify", "--store", scratch("several"), NULL);
    exits_with(EXIT_IS_DONE);
}

static void devices_are_named_and_checked(void **state)
{
    (void)state;
    static const struct {
        const char *devices, *named;
        int code;
    } cases[] = {
        {"host,", "'' is no device", EXIT_IS_USAGE},
        {",", "'' is no device", EXIT_IS_USAGE},
        {"host,abacus", "\"abacus\" is unknown", EXIT_IS_USAGE},
        {"host,host:1", "host", EXIT_IS_MISSING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        attune("tune", "--problem", "test.scale elements=100", "--device", cases[i].devices, NULL);
        exits_with(cases[i].code);
        complains(cases[i].named);
    }
    attune("tune", "--problem", "test.scale elements=100", "--problems", "x", "--device", "host,host", NULL);
    exits_with(EXIT_IS_USAGE);
}

static void ranges_are_problems_with_names(void **state)
{
    (void)state;
    need_host_compiler();
    write_file(scratch("ranges.txt"), "s: test.scale elements=100..400*2 factor=3\ntest.scale elements=7,9\n");
    attune("tune", "--problems", scratch("ranges.txt"), "--device", "host", "--count", "1", "--store",
           scratch("ranges"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    static const char *const names[] = {"s[elements=100]", "s[elements=200]", "s[elements=400]", "[elements=7]",
                                        "[elements=9]"};
    const json_t *results = json_object_get(answer(), "results");
    assert_int_equal(json_array_size(results), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(text_at(results, i, "name"), names[i]);
    }
    assert_non_null(strstr(text_at(results, 1, "problem"), "elements=200 "));
    attune("verify", "--problem", "test.scale elements=5..6+1", "--device", "host", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    assert_int_equal(json_array_size(json_object_get(answer(), "results")), 2);
    attune("compile", "--space", "--problem", "test.scale elements=5..6+1", "--target", "host", "--store",
           scratch("ranges"), NULL);
    exits_with(EXIT_IS_DONE);
    attune("compile", "--defaults", "--problem", "test.scale elements=5..6+1", "--target", "host", "--store",
           scratch("ranges"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
}

static void one_problem_commands_name_the_range(void **state)
{
    (void)state;
    static const char *const commands[][8] = {
        {"show", "--target", "host"}, {"params", "test.scale", "--target", "host"},   {"explain", "--device", "host"},
        {"run", "--device", "host"},  {"compile", "--target", "host", "--resources"},
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const char *const *w = commands[i];
        attune(w[0], "--problem", "test.scale elements=5..6+1", w[1], w[2], w[3], w[4], NULL);
        exits_with(EXIT_IS_USAGE);
        complains("'elements=5..6+1' stands for several problems");
    }
    attune("tune", "--problem", "test.scale elements=1..5000+1", "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("5000 problems");
    write_file(scratch("many.txt"), "test.scale elements=1..3000+1\ntest.scale elements=1..2000+1\n");
    attune("tune", "--problems", scratch("many.txt"), "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("line 2: this stands for 2000 problems, more than the 1096");
    attune("tune", "--problem", "test.scale elements=5,x", "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("[elements=x]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_devices_share_a_list),
        cmocka_unit_test(devices_are_named_and_checked),
        cmocka_unit_test(ranges_are_problems_with_names),
        cmocka_unit_test(one_problem_commands_name_the_range),
    };
    return cmocka_run_group_tests_name("cli_tune", tests, program_setup, program_teardown);
}
