/* test_targets.c - the facts of targets: values that must not drift, rules that are whole, and where they are from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/generator/support.h"

#include <stdlib.h>

static json_t *facts_of(struct generator *generator, const char *name)
{
    struct target target;
    struct error error = {.message = ""};
    json_t *facts = NULL;
    assert_int_equal(target_parse(name, &target, &error), ATTUNE_OK);
    if (generator_target_facts(generator, &target, &facts, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", name, error.message);
    }
    return facts;
}

static const char *text_at(const json_t *facts, const char *key)
{
    const char *text = json_string_value(json_object_get(facts, key));
    if (text == NULL) {
        fail_msg("%s has no text '%s'", json_string_value(json_object_get(facts, "name")), key);
    }
    return text;
}

static int64_t whole_at(const json_t *facts, const char *key)
{
    const json_t *value = json_object_get(facts, key);
    if (!json_is_integer(value)) {
        fail_msg("%s has no whole number '%s'", json_string_value(json_object_get(facts, "name")), key);
    }
    return json_integer_value(value);
}

/* ---- rules of shared memory ---- */

static void check_phases(const json_t *facts, const char *way, const char *width)
{
    int64_t wave = whole_at(facts, "wave");
    const json_t *lds = json_object_get(facts, "lds");
    const json_t *phases = json_object_get(json_object_get(lds, way), width);
    uint64_t seen = 0;
    size_t index, at, length = 0;
    const json_t *phase, *lane;
    json_array_foreach(phases, index, phase)
    {
        if (index == 0) {
            length = json_array_size(phase);
        }
        assert_int_equal(json_array_size(phase), length);
        json_array_foreach(phase, at, lane)
        {
            int64_t number = json_integer_value(lane);
            assert_true(json_is_integer(lane) && number >= 0 && number < wave);
            assert_true((seen >> number & 1) == 0);
            seen |= 1ull << number;
        }
    }
    assert_true(seen == (wave == 64 ? ~0ull : (1ull << wave) - 1));
    /* a phase of neighbours that read consecutive words never asks for more than the banks have */
    assert_true((int64_t)length * strtol(width, NULL, 10) <= 4 * whole_at(lds, "banks"));
}

static void every_lane_is_in_one_phase_of_every_rule(void **state)
{
    (void)state;
    static const char *const ways[] = {"read", "write"}, *const widths[] = {"4", "8", "16"};
    struct generator *generator = open_generator("");
    for (int i = 0; i < generator_target_count(generator); i++) {
        json_t *facts = facts_of(generator, generator_target_name(generator, i));
        const json_t *lds = json_object_get(facts, "lds");
        assert_string_equal(text_at(lds, "name"), text_at(facts, "lds_rule"));
        assert_int_equal(whole_at(lds, "banks"), whole_at(facts, "lds_banks"));
        assert_true(strlen(text_at(lds, "source")) > 20);
        for (int way = 0; way < 2; way++) {
            for (int width = 0; width < 3; width++) {
                const json_t *known = json_object_get(json_object_get(lds, "known"), ways[way]);
                const char *how = text_at(known, widths[width]);
                check_phases(facts, ways[way], widths[width]);
                assert_true(strcmp(how, "measured") == 0 || strcmp(how, "published") == 0 ||
                            strcmp(how, "assumed") == 0);
            }
        }
        json_decref(facts);
    }
    generator_destroy(generator);
}

/* the published lists of ds_read_b128, written apart from the rules' own functions: two quads or four a phase */
static void reads_of_16_bytes_meet_the_published_lanes(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int phases, quads, first[8][4];
    } table[] = {
        {"gfx942", 8, 2, {{0, 20}, {4, 16}, {8, 28}, {12, 24}, {32, 52}, {36, 48}, {40, 60}, {44, 56}}},
        {"gfx950", 4, 4, {{0, 12, 20, 24}, {4, 8, 16, 28}, {32, 44, 52, 56}, {36, 40, 48, 60}}},
        {"gfx1100", 4, 2, {{0, 4}, {8, 12}, {16, 20}, {24, 28}}},
        {"sm_90a", 4, 2, {{0, 4}, {8, 12}, {16, 20}, {24, 28}}},
    };
    struct generator *generator = open_generator("");
    for (size_t row = 0; row < sizeof table / sizeof table[0]; row++) {
        json_t *facts = facts_of(generator, table[row].target);
        const json_t *phases = json_object_get(json_object_get(json_object_get(facts, "lds"), "read"), "16");
        assert_int_equal(json_array_size(phases), table[row].phases);
        for (int phase = 0; phase < table[row].phases; phase++) {
            const json_t *lanes = json_array_get(phases, (size_t)phase);
            assert_int_equal(json_array_size(lanes), 4 * table[row].quads);
            for (int i = 0; i < 4 * table[row].quads; i++) {
                assert_int_equal(json_integer_value(json_array_get(lanes, (size_t)i)),
                                 table[row].first[phase][i / 4] + i % 4);
            }
        }
        json_decref(facts);
    }
    generator_destroy(generator);
}

/* what is not published must not pass for it */
static void rules_say_how_they_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *target, *status;
    } table[] = {{"gfx906", "assumed"}, {"gfx942", "assumed"}, {"gfx1100", "assumed"}, {"sm_90a", "published"}};
    struct generator *generator = open_generator("");
    for (size_t row = 0; row < sizeof table / sizeof table[0]; row++) {
        json_t *facts = facts_of(generator, table[row].target);
        assert_string_equal(text_at(json_object_get(facts, "lds"), "status"), table[row].status);
        json_decref(facts);
    }
    generator_destroy(generator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_lane_is_in_one_phase_of_every_rule),
        cmocka_unit_test(reads_of_16_bytes_meet_the_published_lanes),
        cmocka_unit_test(rules_say_how_they_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
