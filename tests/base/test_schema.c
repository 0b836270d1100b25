/* test_schema.c - field lists of user families as JSON. */
#include "base/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const softmax =
    "{\"family\":\"softmax.rows\",\"fields\":["
    "{\"name\":\"dtype\",\"kind\":\"choice\",\"role\":\"compiled\",\"always\":true,\"choices\":[\"f16\",\"f32\"],"
    "\"default\":\"f32\",\"doc\":\"element type\"},"
    "{\"name\":\"rows\",\"kind\":\"integer\",\"role\":\"size\",\"required\":true,\"min\":1,\"max\":2147483647},"
    "{\"name\":\"columns\",\"kind\":\"integer\",\"role\":\"size\",\"min\":1,\"max\":2147483647,\"follows\":\"rows\"},"
    "{\"name\":\"scale\",\"kind\":\"real\",\"role\":\"scalar\",\"min\":0,\"max\":1e30,\"default\":1},"
    "{\"name\":\"masked\",\"kind\":\"choice\",\"role\":\"option\",\"choices\":[\"no\",\"yes\"],\"default\":\"no\","
    "\"on\":\"yes\"}],"
    "\"ratios\":[{\"name\":\"share\",\"numerator\":\"rows\",\"denominator\":\"columns\"}],"
    "\"shorthands\":[{\"name\":\"side\",\"fields\":[\"rows\",\"columns\"]}]}";

static void user_family_parses_prints_and_specialises(void **state)
{
    (void)state;
    json_t *json = json_loads(softmax, 0, NULL);
    struct schema *schema;
    struct problem problem;
    struct error error = {0};
    char text[PROBLEM_TEXT_BYTES];
    if (schema_from_json(json, &schema, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_false(schema->built_in);
    assert_int_equal(problem_parse(schema, "softmax.rows rows=8 columns=4 masked=1", &problem, &error), ATTUNE_OK);
    assert_int_equal(problem_format(&problem, text, &error), ATTUNE_OK);
    assert_string_equal(text, "softmax.rows dtype=f32 rows=8 columns=4 masked=yes");
    assert_int_equal(problem_specialisation(&problem, text, &error), ATTUNE_OK);
    assert_string_equal(text, "softmax.rows dtype=f32 share=2 masked=on");
    assert_int_equal(problem_shape(&problem, text, &error), ATTUNE_OK);
    assert_string_equal(text, "rows8-columns4");
    assert_int_equal(problem_parse(schema, "side=5", &problem, &error), ATTUNE_OK);
    assert_int_equal(problem_format(&problem, text, &error), ATTUNE_OK);
    assert_string_equal(text, "softmax.rows dtype=f32 rows=5"); /* columns follows */
    assert_int_equal(problem_parse(schema, "rows=8 columns=3", &problem, &error), ATTUNE_INVALID);
    assert_int_equal(problem_parse(schema, "columns=3", &problem, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "rows is missing"));
    free(schema);
    json_decref(json);
}

static void json_round_trip_keeps_a_user_schema(void **state)
{
    (void)state;
    struct schema *copy, *again;
    json_t *json = json_loads(softmax, 0, NULL);
    assert_int_equal(schema_from_json(json, &copy, NULL), ATTUNE_OK);
    json_t *printed = schema_to_json(copy);
    assert_int_equal(schema_from_json(printed, &again, NULL), ATTUNE_OK);
    assert_memory_equal(copy, again, sizeof *copy);
    free(copy);
    free(again);
    json_decref(json);
    json_decref(printed);
}

/* alignment's default is computed in C, which JSON cannot say: no description may pass for the built-in family */
static void built_in_schema_does_not_come_from_json(void **state)
{
    (void)state;
    json_t *attention = schema_to_json(schema_attention_forward());
    struct schema *copy = NULL;
    struct error error = {0};
    assert_non_null(attention);
    assert_int_equal(schema_from_json(attention, &copy, &error), ATTUNE_CORRUPT);
    assert_non_null(strstr(error.message, "alignment"));
    json_decref(attention);
}

static void problem_whose_text_is_too_long_is_refused(void **state)
{
    (void)state;
    json_t *fields = json_array();
    struct buffer text = BUFFER_INIT;
    for (int i = 0; i < SCHEMA_FIELDS_MAX; i++) {
        char name[FIELD_NAME_BYTES];
        snprintf(name, sizeof name, "a_rather_long_name_%02u", (unsigned)i % 100);
        json_array_append_new(fields, json_pack("{s:s,s:s,s:s,s:f,s:f,s:f}", "name", name, "kind", "real", "role",
                                                "scalar", "min", -1e300, "max", 1e300, "default", 0.0));
        buffer_format(&text, "%s=1.5 ", name);
    }
    json_t *json = json_pack("{s:s,s:o}", "family", "wide", "fields", fields);
    struct schema *schema;
    struct problem problem;
    struct error error = {0};
    assert_int_equal(schema_from_json(json, &schema, &error), ATTUNE_OK);
    assert_int_equal(problem_parse(schema, "a_rather_long_name_07=1.5", &problem, &error), ATTUNE_OK);
    assert_int_equal(problem_parse(schema, buffer_string(&text), &problem, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "1024"));
    buffer_free(&text);
    free(schema);
    json_decref(json);
}

static void sizes_whose_product_overflows_are_refused(void **state)
{
    (void)state;
    json_t *json = json_loads(
        "{\"family\":\"cube\",\"fields\":["
        "{\"name\":\"a\",\"kind\":\"integer\",\"role\":\"size\",\"required\":true,\"min\":0,\"max\":4294967296},"
        "{\"name\":\"b\",\"kind\":\"integer\",\"role\":\"size\",\"required\":true,\"min\":0,\"max\":4294967296}]}",
        0, NULL);
    struct schema *schema;
    struct problem problem;
    assert_int_equal(schema_from_json(json, &schema, NULL), ATTUNE_OK);
    assert_int_equal(problem_parse(schema, "a=4294967296 b=4294967296", &problem, NULL), ATTUNE_INVALID);
    assert_int_equal(problem_parse(schema, "a=4294967296 b=1073741824", &problem, NULL), ATTUNE_OK);
    assert_int_equal(problem_parse(schema, "a=0 b=4294967296", &problem, NULL), ATTUNE_OK);
    free(schema);
    json_decref(json);
}

static void hostile_descriptions_are_refused(void **state)
{
    (void)state;
#define ONE(field) "{\"family\":\"f\",\"fields\":[" field "]}"
#define INTEGER(rest) ONE("{\"name\":\"n\",\"kind\":\"integer\",\"role\":\"size\"," rest "}")
#define CHOICE(rest) ONE("{\"name\":\"n\",\"kind\":\"choice\",\"role\":\"compiled\"," rest "}")
    static const char *const bad[] = {
        "null",
        "[]",
        "{}",
        "{\"family\":\"f\"}",
        "{\"family\":\"f\",\"fields\":[]}",
        "{\"family\":\"f\",\"fields\":{}}",
        "{\"family\":\"a "
        "b\",\"fields\":[{\"name\":\"n\",\"kind\":\"integer\",\"role\":\"size\",\"min\":0,\"max\":1,\"default\":0}]}",
        ONE("7"),
        ONE("{}"),
        ONE("{\"name\":\"a=b\",\"kind\":\"integer\",\"role\":\"size\",\"min\":0,\"max\":1,\"default\":0}"),
        ONE("{\"name\":\"../x\",\"kind\":\"integer\",\"role\":\"size\",\"min\":0,\"max\":1,\"default\":0}"),
        ONE("{\"name\":\"a_name_of_more_than_23_bytes\",\"kind\":\"integer\",\"role\":\"size\",\"min\":0,\"max\":1,"
            "\"default\":0}"),
        ONE("{\"name\":\"n\",\"kind\":\"text\",\"role\":\"size\",\"min\":0,\"max\":1,\"default\":0}"),
        ONE("{\"name\":\"n\",\"kind\":\"integer\",\"role\":\"other\",\"min\":0,\"max\":1,\"default\":0}"),
        ONE("{\"name\":\"n\",\"kind\":\"real\",\"role\":\"size\",\"min\":0,\"max\":1,\"default\":0}"),
        INTEGER("\"min\":0,\"max\":1"),
        INTEGER("\"min\":2,\"max\":1,\"default\":1"),
        INTEGER("\"min\":0,\"max\":1,\"default\":2"),
        INTEGER("\"min\":-1,\"max\":1,\"default\":0"),
        INTEGER("\"min\":0,\"max\":1.5,\"default\":0"),
        INTEGER("\"min\":0,\"max\":1,\"follows\":\"n\""),
        INTEGER("\"min\":0,\"max\":1,\"follows\":\"m\""),
        CHOICE("\"choices\":[],\"default\":\"a\""),
        CHOICE("\"choices\":[\"a\",\"a\"],\"default\":\"a\""),
        CHOICE("\"choices\":[\"a b\"],\"default\":\"a b\""),
        CHOICE("\"choices\":[\"a\"],\"default\":\"b\""),
        CHOICE("\"choices\":[\"a\"],\"default\":0"),
        CHOICE("\"choices\":[\"a\",\"b\"],\"default\":\"a\",\"on\":\"a\""),
        CHOICE("\"choices\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\",\"k\",\"l\",\"m\"],"
               "\"default\":\"a\""),
        "{\"family\":\"f\",\"fields\":[{\"name\":\"n\",\"kind\":\"integer\",\"role\":\"size\",\"min\":0,\"max\":1,"
        "\"default\":0},"
        "{\"name\":\"n\",\"kind\":\"integer\",\"role\":\"size\",\"min\":0,\"max\":1,\"default\":0}]}",
        "{\"family\":\"f\",\"fields\":[{\"name\":\"n\",\"kind\":\"choice\",\"role\":\"compiled\",\"choices\":[\"a\","
        "\"b\"],"
        "\"default\":\"b\"},{\"name\":\"m\",\"kind\":\"choice\",\"role\":\"compiled\",\"choices\":[\"a\"],\"follows\":"
        "\"n\"}]}",
        "{\"family\":\"f\",\"fields\":[{\"name\":\"n\",\"kind\":\"integer\",\"role\":\"size\",\"min\":0,\"max\":1,"
        "\"default\":0}],"
        "\"ratios\":[{\"name\":\"r\",\"numerator\":\"n\",\"denominator\":\"m\"}]}",
        "{\"family\":\"f\",\"fields\":[{\"name\":\"n\",\"kind\":\"integer\",\"role\":\"size\",\"min\":0,\"max\":1,"
        "\"default\":0}],"
        "\"shorthands\":[{\"name\":\"n\",\"fields\":[\"n\"]}]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *json = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        struct schema *schema = NULL;
        struct error error = {0};
        assert_non_null(json);
        if (schema_from_json(json, &schema, &error) != ATTUNE_CORRUPT) {
            fail_msg("accepted: %s", bad[i]);
        }
        assert_null(schema);
        assert_true(error.message[0]);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(user_family_parses_prints_and_specialises),
        cmocka_unit_test(json_round_trip_keeps_a_user_schema),
        cmocka_unit_test(built_in_schema_does_not_come_from_json),
        cmocka_unit_test(problem_whose_text_is_too_long_is_refused),
        cmocka_unit_test(sizes_whose_product_overflows_are_refused),
        cmocka_unit_test(hostile_descriptions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
