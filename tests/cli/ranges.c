/* A text with ranges stands for exactly the problems that its reader would list by hand, or is refused by name. */
#include "cli/ranges.h"

#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct seen {
    struct buffer texts, suffixes; /* a line each */
    int count, stop_at;
};

static attune_status see(void *data, const char *text, const char *suffix, struct error *error)
{
    struct seen *seen = data;
    buffer_format(&seen->texts, "%s\n", text);
    buffer_format(&seen->suffixes, "%s\n", suffix);
    return ++seen->count == seen->stop_at ? error_set(error, ATTUNE_CORRUPT, "enough") : ATTUNE_OK;
}

static void stands_for(const char *text, const char *texts, const char *suffixes)
{
    struct seen seen = {.texts = BUFFER_INIT, .suffixes = BUFFER_INIT};
    struct error error = {.message = ""};
    if (ranges_visit(text, 4096, see, &seen, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", text, error.message);
    }
    assert_string_equal(buffer_string(&seen.texts), texts);
    assert_string_equal(buffer_string(&seen.suffixes), suffixes);
    buffer_free(&seen.texts);
    buffer_free(&seen.suffixes);
}

static void ranges_give_their_values_in_order(void **state)
{
    (void)state;
    stands_for("f a=512..4096*2", "f a=512\nf a=1024\nf a=2048\nf a=4096\n", "[a=512]\n[a=1024]\n[a=2048]\n[a=4096]\n");
    stands_for("a=1000..2000+250", "a=1000\na=1250\na=1500\na=1750\na=2000\n",
               "[a=1000]\n[a=1250]\n[a=1500]\n[a=1750]\n[a=2000]\n");
    stands_for("a=1,2,8", "a=1\na=2\na=8\n", "[a=1]\n[a=2]\n[a=8]\n");
    stands_for("a=7..7*2", "a=7\n", "[a=7]\n");
    stands_for("a=-1..1+1", "a=-1\na=0\na=1\n", "[a=-1]\n[a=0]\n[a=1]\n");
    stands_for("a=x,3..9*3,0.5 b=1", "a=x b=1\na=3 b=1\na=9 b=1\na=0.5 b=1\n", "[a=x]\n[a=3]\n[a=9]\n[a=0.5]\n");
}

static void an_end_off_the_step_is_not_passed(void **state)
{
    (void)state;
    stands_for("a=512..5000*2", "a=512\na=1024\na=2048\na=4096\n", "[a=512]\n[a=1024]\n[a=2048]\n[a=4096]\n");
    stands_for("a=1..6+2", "a=1\na=3\na=5\n", "[a=1]\n[a=3]\n[a=5]\n");
    stands_for("a=9223372036854775806..9223372036854775807+2", "a=9223372036854775806\n", "[a=9223372036854775806]\n");
    stands_for("a=4611686018427387904..9223372036854775807*2", "a=4611686018427387904\n", "[a=4611686018427387904]\n");
}

static void several_fields_give_the_product(void **state)
{
    (void)state;
    stands_for(" f  a=1,2\tc=3 b=x,y,z ",
               " f  a=1\tc=3 b=x \n f  a=1\tc=3 b=y \n f  a=1\tc=3 b=z \n"
               " f  a=2\tc=3 b=x \n f  a=2\tc=3 b=y \n f  a=2\tc=3 b=z \n",
               "[a=1,b=x]\n[a=1,b=y]\n[a=1,b=z]\n[a=2,b=x]\n[a=2,b=y]\n[a=2,b=z]\n");
}

static void a_text_without_ranges_is_left_alone(void **state)
{
    (void)state;
    stands_for("f a=1 b=0.5 word, x..y =", "f a=1 b=0.5 word, x..y =\n", "\n");
    stands_for("", "\n", "\n");
}

static void what_is_no_range_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *named;
    } cases[] = {
        {"a=1 seqlen_q=1..9", "seqlen_q: the range '1..9' lacks its factor or step"},
        {"a=1..9-1", "lacks its factor or step"},
        {"a=1..", "not of whole numbers"},
        {"a=..5+1", "not of whole numbers"},
        {"a=1..5+", "not of whole numbers"},
        {"a=1..5+1x", "not of whole numbers"},
        {"a=0.5..2+1", "not of whole numbers"},
        {"a=1..99999999999999999999+1", "beyond 64 bits"},
        {"a=-9223372036854775809..1+1", "beyond 64 bits"},
        {"a=1..5*99999999999999999999", "9223372036854775807"},
        {"a=9..1+1", "begins past its end"},
        {"a=1..9+0", "step below 1"},
        {"a=1..9*1", "factor below 2"},
        {"a=0..9*2", "begins below 1"},
        {"a=-4..9*2", "begins below 1"},
        {"a=1,,2", "a value is missing"},
        {"a=1,", "a value is missing"},
        {"a=,", "a value is missing"},
        {"a=1..9+1,", "a value is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct seen seen = {.texts = BUFFER_INIT, .suffixes = BUFFER_INIT};
        struct error error = {.message = ""};
        assert_int_equal(ranges_visit(cases[i].text, 4096, see, &seen, &error), ATTUNE_INVALID);
        if (strstr(error.message, cases[i].named) == NULL) {
            fail_msg("%s: %s", cases[i].text, error.message);
        }
        assert_int_equal(seen.count, 0);
    }
}

static void too_many_are_counted_and_none_is_given(void **state)
{
    (void)state;
    static const struct {
        const char *text, *number;
    } cases[] = {
        {"a=1..4097+1", " 4097 problems"},
        {"a=1..100+1 b=1..100+1", " 10000 problems"},
        {"a=1..4611686018427387904*2 b=1..4611686018427387904*2 c=1,2", " 7938 problems"},
        {"a=-9223372036854775807..9223372036854775807+1", "at least 9223372036854775807 problems"},
        {"a=1..9223372036854775807+1 b=1,2", "at least 9223372036854775807 problems"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct seen seen = {.texts = BUFFER_INIT, .suffixes = BUFFER_INIT};
        struct error error = {.message = ""};
        assert_int_equal(ranges_visit(cases[i].text, 4096, see, &seen, &error), ATTUNE_INVALID);
        if (strstr(error.message, cases[i].number) == NULL) {
            fail_msg("%s: %s", cases[i].text, error.message);
        }
        assert_int_equal(seen.count, 0);
    }
    struct seen seen = {.texts = BUFFER_INIT, .suffixes = BUFFER_INIT};
    assert_int_equal(ranges_visit("a=1..4096+1", 4096, see, &seen, NULL), ATTUNE_OK);
    assert_int_equal(seen.count, 4096);
    buffer_free(&seen.texts);
    buffer_free(&seen.suffixes);
}

static void a_visitor_may_end_it(void **state)
{
    (void)state;
    struct seen seen = {.texts = BUFFER_INIT, .suffixes = BUFFER_INIT, .stop_at = 2};
    struct error error = {.message = ""};
    assert_int_equal(ranges_visit("a=1..9+1", 4096, see, &seen, &error), ATTUNE_CORRUPT);
    assert_int_equal(seen.count, 2);
    buffer_free(&seen.texts);
    buffer_free(&seen.suffixes);
}

static void where_one_is_wanted_the_range_is_named(void **state)
{
    (void)state;
    struct error error = {.message = ""};
    assert_int_equal(ranges_refuse("f a=1 b=x c=0.5", &error), ATTUNE_OK);
    assert_int_equal(ranges_refuse("f a=1 batch=1,2 c=3..4+1", &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "'batch=1,2'"));
    assert_int_equal(ranges_refuse("f c=3..4", &error), ATTUNE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_give_their_values_in_order),
        cmocka_unit_test(an_end_off_the_step_is_not_passed),
        cmocka_unit_test(several_fields_give_the_product),
        cmocka_unit_test(a_text_without_ranges_is_left_alone),
        cmocka_unit_test(what_is_no_range_is_refused_by_name),
        cmocka_unit_test(too_many_are_counted_and_none_is_given),
        cmocka_unit_test(a_visitor_may_end_it),
        cmocka_unit_test(where_one_is_wanted_the_range_is_named),
    };
    return cmocka_run_group_tests_name("cli_ranges", tests, NULL, NULL);
}
