/* `attune explain --lds`: clocks and conflicts line by line, totals, words for people, and what it refuses. */
#include "program.h"

#include <string.h>

#define PLACES "ATTUNE_TEMPLATE_PATH=" TEST_SOURCE_DIR "/tests/autotune/lds \"$0\" explain --lds "
#define PROBLEM "--problem 'test.lds elements=512' "
#define ATTENTION "dtype=f16 batch=2 heads=4 kv_heads=2 seqlen_q=100 seqlen_k=100 head_dim=64"

static bool counted(const char *script)
{
    if (attune_in_shell(script)->exit_code == EXIT_IS_MISSING) {
        print_message("skipped: no C++ compiler for the host device\n");
        return false;
    }
    exits_with(EXIT_IS_DONE);
    return true;
}

static json_int_t whole(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void each_access_has_its_line_and_its_clocks(void **state)
{
    (void)state;
    if (!counted(PLACES PROBLEM "--target gfx942 places=rows --json")) {
        skip();
    }
    const json_t *result = answer(), *accesses = json_object_get(result, "accesses");
    assert_int_equal(json_array_size(accesses), 2);
    const json_t *write = json_array_get(accesses, 0), *read = json_array_get(accesses, 1);
    assert_string_equal(json_string_value(json_object_get(write, "access")), "write");
    assert_string_equal(json_string_value(json_object_get(read, "access")), "read");
    assert_string_equal(json_string_value(json_object_get(read, "source")),
                        "load_words<WORDS>(word, tile + place(lane));");
    assert_true(json_is_true(json_object_get(read, "inner")));
    assert_true(json_is_false(json_object_get(write, "inner")));
    assert_int_equal(whole(read, "bytes"), 16);
    assert_int_equal(whole(read, "count"), 6); /* two blocks of one wave, three rounds */
    assert_int_equal(whole(read, "ideal"), 48);
    assert_int_equal(whole(read, "cycles"), 384);
    assert_int_equal(whole(read, "conflicts"), 336);
    const json_t *totals = json_object_get(result, "totals");
    assert_int_equal(whole(json_object_get(totals, "inner_reads"), "conflicts"), 336);
    assert_int_equal(whole(json_object_get(totals, "inner_writes"), "count"), 0);
    assert_int_equal(whole(json_object_get(totals, "once_writes"), "conflicts"), 112);
    assert_int_equal(whole(json_object_get(totals, "once_reads"), "count"), 0);
    assert_int_equal(whole(result, "blocks"), 2);
    assert_int_equal(whole(result, "grid_blocks"), 2);
    const json_t *rule = json_object_get(result, "rule");
    assert_string_equal(json_string_value(json_object_get(rule, "name")), "cdna3");
    assert_int_equal(whole(rule, "banks"), 32);
    assert_non_null(json_string_value(json_object_get(rule, "status")));
    assert_string_equal(json_string_value(json_object_get(read, "known")), "measured");
}

static void people_read_the_rule_and_how_it_is_known(void **state)
{
    (void)state;
    if (!counted(PLACES PROBLEM "--target gfx906 places=padded")) {
        skip();
    }
    says("rule       gcn, assumed: 32 banks of 4 bytes");
    says("load_words<WORDS>(word, tile + place(lane));");
    says("inner loop, reads       6     48      48          0");
    says("2 of 2 blocks");
}

/* the sizes that are run are few rows and heads, and keys for several tiles */
static void attention_runs_small_and_says_so(void **state)
{
    (void)state;
    if (attune("explain", "--lds", "--problem", ATTENTION, "--target", "gfx900", "--candidate", "lds_layout=row",
               "--json", NULL)
            ->exit_code == EXIT_IS_MISSING) {
        print_message("skipped: no C++ compiler for the host device\n");
        skip();
    }
    exits_with(EXIT_IS_DONE);
    assert_non_null(strstr(json_string_value(json_object_get(answer(), "problem")), "batch=2 heads=4"));
    assert_non_null(strstr(json_string_value(json_object_get(answer(), "run")),
                           "batch=1 heads=2 kv_heads=1 seqlen_q=100 seqlen_k=2048"));
    assert_non_null(strstr(json_string_value(json_object_get(answer(), "candidate")), "lds_layout=row "));
    const json_t *reads = json_object_get(json_object_get(answer(), "totals"), "inner_reads");
    assert_true(whole(reads, "conflicts") > 0); /* rows of 128 bytes */
}

static void what_does_not_go_with_it_is_refused(void **state)
{
    (void)state;
    attune("explain", "--lds", "--problem", ATTENTION, "--target", "gfx906", "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("--target and --device both say what to look at");
    attune("explain", "--lds", "--problem", ATTENTION, "--target", "gfx906", "--store", scratch("store"), NULL);
    exits_with(EXIT_IS_USAGE);
    complains("leave --store out");
    attune("explain", "--lds", "--problem", ATTENTION, "--target", "gfx906", "--candidate", "block_q=64", "block_k=64",
           NULL);
    exits_with(EXIT_IS_USAGE);
    complains("give one of them");
    attune("explain", "--lds", "--problem", ATTENTION, "--target", "gfx90x", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("--target");
    attune("explain", "--lds", "--problem", ATTENTION, "--target", "gfx906", "lds_layout=diagonal", NULL);
    complains("lds_layout");
    attune("explain", "--problem", ATTENTION, "--device", "host", "block_q=64", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("'block_q=64': name=value words go with --lds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_access_has_its_line_and_its_clocks),
        cmocka_unit_test(people_read_the_rule_and_how_it_is_known),
        cmocka_unit_test(attention_runs_small_and_says_so),
        cmocka_unit_test(what_does_not_go_with_it_is_refused),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
