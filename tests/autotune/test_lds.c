/* Bank conflicts counted from addresses: kernels whose conflicts are known by hand, under each rule; what a rule must
 * be. */
#include "autotune/lds_count.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct parts {
    struct generator *generator;
    struct compiler_pool *pool;
};

static int set_up(void **state)
{
    static struct parts parts;
    const struct generator_options options = {.template_path = TEST_SOURCE_DIR "/tests/autotune/lds"};
    const struct compiler_options one = {.workers = 1};
    struct error error = {.message = ""};
    if (generator_create(&options, &parts.generator, &error) != ATTUNE_OK ||
        compiler_pool_create(&one, &parts.pool, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    *state = &parts;
    return 0;
}

static int tear_down(void **state)
{
    struct parts *parts = *state;
    generator_destroy(parts->generator);
    compiler_pool_destroy(parts->pool);
    return 0;
}

/* the test family's candidate on a target, all blocks of a grid of two */
static void count_places(const struct parts *parts, const char *target_text, const char *words, struct lds_count *count)
{
    struct problem problem;
    struct target target;
    struct candidate candidate;
    struct error error = {.message = ""};
    const struct schema *schema = generator_schema(parts->generator, "test.lds");
    assert_non_null(schema);
    assert_int_equal(problem_parse(schema, "test.lds elements=512", &problem, &error), ATTUNE_OK);
    assert_int_equal(target_parse(target_text, &target, &error), ATTUNE_OK);
    if (candidate_parse(parts->generator, words, &problem, &target, &candidate, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", words, error.message);
    }
    attune_status status =
        lds_count_candidate(parts->generator, parts->pool, &candidate, &problem, &target, 0, count, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: no C++ compiler for the host device\n");
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s on %s: %s", words, target_text, error.message);
    }
}

static const struct lds_line *line_of(const struct lds_count *count, enum host_access kind)
{
    const struct lds_line *found = NULL;
    for (int i = 0; i < count->line_count; i++) {
        if (count->lines[i].kind == kind) {
            assert_null(found);
            found = &count->lines[i];
        }
    }
    assert_non_null(found);
    return found;
}

/* ---- clocks of one instruction, counted by hand ---- */

struct expected {
    const char *target, *candidate;
    unsigned read_ideal, read, write_ideal, write; /* clocks */
};

static const struct expected hand_made[] = {
    /* 32 lanes in phases of 8 for 16 bytes, 16 for 8, 32 for 4; 32 banks */
    {"sm_90", "words=4 places=dense", 4, 4, 4, 4},
    {"sm_90", "words=4 places=rows", 4, 32, 4, 32}, /* rows of 128 bytes: 8-way */
    {"sm_90", "words=4 places=padded", 4, 4, 4, 4},
    {"sm_90", "words=4 places=xor", 4, 4, 4, 4},
    {"sm_90", "words=4 places=same", 4, 4, 4, 4}, /* one word for all is no conflict */
    {"sm_90", "words=4 places=apart", 4, 8, 4, 8},
    {"sm_90", "words=4 places=quads", 4, 8, 4, 8},
    {"sm_90", "words=4 places=even", 4, 16, 4, 16}, /* four lanes of eight take part */
    {"sm_90", "words=2 places=dense", 2, 2, 2, 2},
    {"sm_90", "words=2 places=rows", 2, 32, 2, 32},
    {"sm_90", "words=2 places=padded", 2, 4, 2, 4}, /* 16 rows, 8 starts: each bank twice */
    {"sm_90", "words=2 places=apart", 2, 4, 2, 4},
    {"sm_90", "words=2 places=same", 2, 2, 2, 2},
    {"sm_90", "words=1 places=dense", 1, 1, 1, 1},
    {"sm_90", "words=1 places=rows", 1, 32, 1, 32},
    {"sm_90", "words=1 places=padded", 1, 4, 1, 4},
    {"sm_90", "words=1 places=apart", 1, 2, 1, 2},
    {"sm_90", "words=1 places=same", 1, 1, 1, 1},
    /* 64 lanes; reads of 16 bytes serve lanes 0-3 with 20-23 and so on, writes of 16 bytes neighbours */
    {"gfx942", "words=4 places=dense", 8, 8, 8, 8},
    {"gfx942", "words=4 places=rows", 8, 64, 8, 64},
    {"gfx942", "words=4 places=padded", 8, 8, 8, 8},
    {"gfx942", "words=4 places=xor", 8, 8, 8, 8},
    {"gfx942", "words=4 places=quads", 8, 8, 8, 16},
    {"gfx942", "words=2 places=rows", 4, 64, 4, 64},
    {"gfx942", "words=1 places=apart", 2, 4, 2, 4},
    {"gfx906", "words=4 places=rows", 8, 64, 8, 64},
    {"gfx906", "words=4 places=padded", 8, 8, 8, 8},
    /* 64 banks for reads of twice as many lanes at once, writes as before them */
    {"gfx950", "words=4 places=dense", 4, 4, 8, 8},
    {"gfx950", "words=4 places=rows", 4, 32, 8, 32}, /* every other row begins in the same half of the banks */
    {"gfx950", "words=4 places=padded", 4, 4, 8, 8},
    {"gfx950", "words=4 places=quads", 4, 4, 8, 8},
    {"gfx950", "words=1 places=apart", 1, 2, 2, 2},
    {"gfx1100", "words=4 places=rows", 4, 32, 4, 32},
    {"gfx1100", "words=4 places=padded", 4, 4, 4, 4},
};

static void clocks_of_known_layouts_are_those_counted_by_hand(void **state)
{
    const struct parts *parts = *state;
    for (size_t i = 0; i < sizeof hand_made / sizeof hand_made[0]; i++) {
        const struct expected *expected = &hand_made[i];
        struct lds_count count;
        count_places(parts, expected->target, expected->candidate, &count);
        const struct lds_line *read = line_of(&count, HOST_ACCESS_READ), *write = line_of(&count, HOST_ACCESS_WRITE);
        assert_int_equal(count.line_count, 2);
        assert_int_equal(count.blocks, 2);
        assert_int_equal(write->count, 2);
        assert_int_equal(read->count, 6);
        if (read->ideal != 6 * expected->read_ideal || read->cycles != 6 * expected->read ||
            write->ideal != 2 * expected->write_ideal || write->cycles != 2 * expected->write) {
            fail_msg("%s on %s: a read takes %g of %g clocks, a write %g of %g", expected->candidate, expected->target,
                     (double)read->cycles / 6, (double)read->ideal / 6, (double)write->cycles / 2,
                     (double)write->ideal / 2);
        }
        lds_count_free(&count);
    }
}

/* eight rows of 16 bytes make a matrix and are read together */
static void rows_of_matrices_are_read_eight_at_a_time(void **state)
{
    struct lds_count count;
    count_places(*state, "sm_90", "by=matrices places=rows", &count);
    assert_int_equal(line_of(&count, HOST_ACCESS_ROWS)->cycles, 6 * 32);
    lds_count_free(&count);
    count_places(*state, "sm_90", "by=matrices places=xor", &count);
    assert_int_equal(line_of(&count, HOST_ACCESS_ROWS)->cycles, 6 * 4);
    assert_int_equal(line_of(&count, HOST_ACCESS_ROWS)->bytes, 16);
    lds_count_free(&count);
}

static void asynchronous_copies_count_as_writes(void **state)
{
    struct lds_count count;
    count_places(*state, "sm_90", "by=copies places=rows", &count);
    assert_int_equal(line_of(&count, HOST_ACCESS_COPY)->count, 2);
    assert_int_equal(line_of(&count, HOST_ACCESS_COPY)->cycles, 2 * 32);
    lds_count_free(&count);
}

static void what_is_done_between_several_barriers_is_of_the_inner_loop(void **state)
{
    struct lds_count count;
    count_places(*state, "sm_90", "rounds=3", &count);
    assert_true(line_of(&count, HOST_ACCESS_READ)->inner);
    assert_false(line_of(&count, HOST_ACCESS_WRITE)->inner);
    lds_count_free(&count);
    count_places(*state, "sm_90", "rounds=1", &count);
    assert_false(line_of(&count, HOST_ACCESS_READ)->inner);
    lds_count_free(&count);
}

static void lines_are_those_of_the_shown_text(void **state)
{
    struct lds_count count;
    char text[64];
    count_places(*state, "sm_90", "", &count);
    lds_count_text(&count, line_of(&count, HOST_ACCESS_READ)->line, text, sizeof text);
    assert_string_equal(text, "load_words<WORDS>(word, tile + place(lane));");
    lds_count_text(&count, line_of(&count, HOST_ACCESS_WRITE)->line, text, 12);
    assert_string_equal(text, "store_words");
    lds_count_text(&count, 100000, text, sizeof text);
    assert_string_equal(text, "");
    lds_count_free(&count);
}

/* ---- rules ---- */

#define PHASES "[[0,1],[2,3]]"
#define ALL "{\"4\":" PHASES ",\"8\":" PHASES ",\"16\":" PHASES "}"
#define KNOWN "{\"4\":\"measured\",\"8\":\"measured\",\"16\":\"assumed\"}"
#define RULE(banks, read)                                                                                              \
    "{\"lds\":{\"name\":\"r\",\"status\":\"assumed\",\"banks\":" banks ",\"read\":" read ",\"write\":" ALL             \
    ",\"known\":{\"read\":" KNOWN ",\"write\":" KNOWN "}}}"

static attune_status read_rule(const char *text, struct lds_rule *rule, struct error *error)
{
    json_t *facts = json_loads(text, 0, NULL);
    assert_non_null(facts);
    attune_status status = lds_rule_read(facts, rule, error);
    json_decref(facts);
    return status;
}

static void a_rule_puts_every_lane_into_one_phase(void **state)
{
    (void)state;
    struct lds_rule rule;
    struct error error = {.message = ""};
    assert_int_equal(read_rule(RULE("32", ALL), &rule, &error), ATTUNE_OK);
    assert_int_equal(rule.lanes, 4);
    assert_int_equal(rule.banks, 32);
    assert_int_equal(rule.read[1].phase[3], 1);
    assert_string_equal(rule.read[2].known, "assumed");
    static const char *const bad[] = {
        "{}",
        RULE("0", ALL),
        RULE("1000", ALL),
        RULE("32", "{\"4\":[[0,1],[1,2]],\"8\":" PHASES ",\"16\":" PHASES "}"),  /* lane 1 twice, no 3 */
        RULE("32", "{\"4\":" PHASES ",\"8\":[[0,1],[3]],\"16\":" PHASES "}"),    /* no lane 2 */
        RULE("32", "{\"4\":" PHASES ",\"8\":" PHASES ",\"16\":[[0,1]]}"),        /* half a wave */
        RULE("32", "{\"4\":" PHASES ",\"8\":" PHASES ",\"16\":[[0,1],[2,64]]}"), /* no wave has lane 64 */
        RULE("32", "{\"4\":" PHASES ",\"8\":" PHASES "}"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (read_rule(bad[i], &rule, &error) != ATTUNE_INVALID) {
            fail_msg("taken: %s", bad[i]);
        }
    }
}

static void every_target_has_a_rule_for_its_wave(void **state)
{
    const struct parts *parts = *state;
    for (int i = 0; i < generator_target_count(parts->generator); i++) {
        struct target target;
        struct lds_rule rule;
        struct error error = {.message = ""};
        json_t *facts = NULL;
        const char *name = generator_target_name(parts->generator, i);
        assert_int_equal(target_parse(name, &target, &error), ATTUNE_OK);
        assert_int_equal(generator_target_facts(parts->generator, &target, &facts, &error), ATTUNE_OK);
        if (lds_rule_read(facts, &rule, &error) != ATTUNE_OK) {
            fail_msg("%s: %s", name, error.message);
        }
        assert_int_equal(rule.lanes, json_integer_value(json_object_get(facts, "wave")));
        assert_int_equal(rule.banks, json_integer_value(json_object_get(facts, "lds_banks")));
        json_decref(facts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_of_known_layouts_are_those_counted_by_hand),
        cmocka_unit_test(rows_of_matrices_are_read_eight_at_a_time),
        cmocka_unit_test(asynchronous_copies_count_as_writes),
        cmocka_unit_test(what_is_done_between_several_barriers_is_of_the_inner_loop),
        cmocka_unit_test(lines_are_those_of_the_shown_text),
        cmocka_unit_test(a_rule_puts_every_lane_into_one_phase),
        cmocka_unit_test(every_target_has_a_rule_for_its_wave),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
