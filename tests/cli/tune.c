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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_devices_share_a_list),
        cmocka_unit_test(devices_are_named_and_checked),
    };
    return cmocka_run_group_tests_name("cli_tune", tests, program_setup, program_teardown);
}
