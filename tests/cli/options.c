/* The option parser takes what the table lists, in both spellings, and names what it refuses. */
#include "cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct option table[] = {
    {"problem", 0, OPTION_TEXT, false, "TEXT", "a problem"},
    {"target", 0, OPTION_TEXT, true, "T", "a target"},
    {"output", 'o', OPTION_TEXT, false, "PATH", "where to"},
    {"count", 0, OPTION_COUNT, false, "N", "how many"},
    {"seed", 0, OPTION_SEED, false, "S", "seed"},
    {"scale", 0, OPTION_REAL, false, "X", "scale"},
    {"budget", 0, OPTION_DURATION, false, "TIME", "time"},
    {"keep", 0, OPTION_BYTES, false, "SIZE", "size"},
    {"json", 0, OPTION_FLAG, false, NULL, "JSON"},
    {"jobs", 0, OPTION_ELSEWHERE, false, NULL, "the environment says how many"},
    {0},
};

enum { WORDS_MAX = 16 };

/* splits at single blanks; the words stay valid until the next call */
static attune_status parse(struct options *options, const char *line, struct error *error)
{
    static char copy[512];
    static char *words[WORDS_MAX];
    int count = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *rest = copy, *word; (word = strsep(&rest, " ")) != NULL;) {
        words[count++] = word;
    }
    return options_parse(options, table, line[0] == '\0' ? 0 : count, words, error);
}

static void both_spellings_and_letters_are_read(void **state)
{
    (void)state;
    struct options options;
    struct error error = {0};
    assert_int_equal(parse(&options, "--problem=a=b --target x one --target=y -o file -- --json", &error), ATTUNE_OK);
    assert_string_equal(options_text(&options, "problem"), "a=b");
    assert_string_equal(options_nth(&options, "target", 0), "x");
    assert_string_equal(options_nth(&options, "target", 1), "y");
    assert_null(options_nth(&options, "target", 2));
    assert_string_equal(options_text(&options, "output"), "file");
    assert_false(options_has(&options, "json"));
    assert_int_equal(options.positional_count, 2);
    assert_string_equal(options.positionals[1], "--json");
    options_free(&options);
}

static void numbers_are_converted_by_kind(void **state)
{
    (void)state;
    struct options options;
    struct error error = {0};
    assert_int_equal(
        parse(&options, "--count 12 --seed 18446744073709551615 --scale -0.5 --budget 5m --keep 2MiB --json", &error),
        ATTUNE_OK);
    assert_int_equal(options_whole(&options, "count", 0), 12);
    assert_true(options_whole(&options, "seed", 0) == UINT64_MAX);
    assert_true(options_real(&options, "scale", 0) == -0.5);
    assert_true(options_real(&options, "budget", 0) == 300);
    assert_int_equal(options_whole(&options, "keep", 0), 2 << 20);
    assert_true(options_has(&options, "json"));
    options_free(&options);
    assert_int_equal(parse(&options, "--count 010 --seed 0x10", &error), ATTUNE_OK);
    assert_int_equal(options_whole(&options, "count", 0), 10); /* never octal */
    assert_int_equal(options_whole(&options, "seed", 0), 16);
    options_free(&options);
    assert_int_equal(parse(&options, "", &error), ATTUNE_OK);
    assert_int_equal(options_whole(&options, "count", 7), 7);
    options_free(&options);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *named;
    } cases[] = {
        {"--probelm x", "unknown option --probelm: did you mean --problem?"},
        {"--prob x", "did you mean --problem?"},
        {"--zzzzzz", "--help lists"},
        {"--jobs 4", "--jobs is no option of this command: the environment says how many"},
        {"--job", "unknown option --job: --help lists"}, /* what is none is nobody's nearest */
        {"-x", "unknown option -x"},
        {"--problem", "--problem needs a value: --problem TEXT"},
        {"--problem a --problem b", "--problem is given twice ('a' and 'b')"},
        {"--json=1", "--json takes no value, got '1'"},
        {"--count 0", "--count: '0' is no whole number from 1"},
        {"--count -3", "--count: '-3'"},
        {"--count 3x", "--count: '3x'"},
        {"--seed 18446744073709551616", "--seed: '18446744073709551616'"},
        {"--scale nan", "--scale: 'nan' is no finite number"},
        {"--scale 1e999", "--scale: '1e999'"},
        {"--budget 10x", "--budget: '10x' is no duration"},
        {"--budget 0x10s", "--budget: '0x10s' is no duration"},
        {"--scale 0x1p3", "--scale: '0x1p3' is no finite number"},
        {"--budget 0", "--budget: '0'"},
        {"--budget -5s", "--budget: '-5s'"},
        {"--keep 5MB", "--keep: '5MB' is no size"},
        {"--keep 99999999TiB", "--keep: '99999999TiB'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;
        struct error error = {0};
        assert_int_equal(parse(&options, cases[i].line, &error), ATTUNE_INVALID);
        if (strstr(error.message, cases[i].named) == NULL) {
            fail_msg("'%s' gave '%s', which does not say '%s'", cases[i].line, error.message, cases[i].named);
        }
    }
}

static void nearest_name_wants_likeness(void **state)
{
    (void)state;
    static const char *const names[] = {"devices", "doctor", "verify", NULL};
    assert_string_equal(nearest_name("device", names), "devices");
    assert_string_equal(nearest_name("verfiy", names), "verify");
    assert_string_equal(nearest_name("doc", names), "doctor");
    assert_null(nearest_name("xyzzyq", names));
    assert_null(nearest_name("", names));
}

static void durations_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double seconds;
    } cases[] = {{"60", 60}, {"60s", 60}, {"500ms", 0.5}, {"5m", 300}, {"1h", 3600}, {"2d", 172800}, {"1.5s", 1.5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double seconds = 0;
        assert_int_equal(parse_duration(cases[i].text, &seconds, NULL), ATTUNE_OK);
        assert_true(seconds == cases[i].seconds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_spellings_and_letters_are_read),
        cmocka_unit_test(numbers_are_converted_by_kind),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(nearest_name_wants_likeness),
        cmocka_unit_test(durations_have_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
