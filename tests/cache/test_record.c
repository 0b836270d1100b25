/* test_record.c - records as JSON: what is written is read back, what is damaged is refused. */
#include "damage.h"
#include "fixture.h"
#include "tests/comma_locale.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void to_json(const struct record *record, struct buffer *json)
{
    struct error error = {0};
    assert_status(ATTUNE_OK, record_to_json(record, json, &error), error);
}

static void a_record_comes_back_as_it_was(void **state)
{
    (void)state;
    for (int kind = RECORD_TUNED; kind <= RECORD_DEFAULT; kind++) {
        struct record record, back;
        struct buffer json = BUFFER_INIT, again = BUFFER_INIT;
        struct error error = {0};
        fixture_record(1, 2048, (enum record_kind)kind, &record);
        to_json(&record, &json);
        assert_true(json.length <= 4096);
        assert_status(ATTUNE_OK, record_from_json(json.data, json.length, &back, &error), error);
        assert_int_equal(back.kind, record.kind);
        assert_string_equal(back.problem, record.problem);
        assert_string_equal(back.specialisation, record.specialisation);
        assert_string_equal(back.shape, record.shape);
        assert_string_equal(back.candidate, record.candidate);
        assert_string_equal(back.run, record.run);
        assert_true(back.winner_microseconds == record.winner_microseconds);
        assert_int_equal(back.device.compute_units, record.device.compute_units);
        assert_int_equal(back.created, record.created);
        assert_true(back.complete);
        assert_memory_equal(back.object.bytes, record.object.bytes, DIGEST_BYTES);
        assert_int_equal(back.launch.threads, 256);
        to_json(&back, &again);
        assert_string_equal(buffer_string(&again), buffer_string(&json));
        buffer_free(&json);
        buffer_free(&again);
    }
}

static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    struct record record, back;
    struct buffer json = BUFFER_INIT;
    fixture_record(1, 2048, RECORD_TUNED, &record);
    to_json(&record, &json);
    for (size_t i = 0; i + 1 < json.length; i++) { /* the last byte is the newline after the object */
        json.data[i] ^= (char)(1 << (i % 8));
        if (record_from_json(json.data, json.length, &back, NULL) == ATTUNE_OK) {
            fail_msg("byte %zu of %zu flipped, still accepted", i, json.length);
        }
        json.data[i] ^= (char)(1 << (i % 8));
    }
    for (size_t length = 0; length + 1 < json.length; length++) {
        assert_int_not_equal(record_from_json(json.data, length, &back, NULL), ATTUNE_OK);
    }
    buffer_free(&json);
}

/* writes a record, replaces one text in it and seals it anew, as a wrong writer would */
static attune_status with_replaced(const char *from, const char *to)
{
    struct record record, back;
    struct buffer json = BUFFER_INIT, changed = BUFFER_INIT;
    fixture_record(1, 2048, RECORD_TUNED, &record);
    to_json(&record, &json);
    damage_resealed(&json, from, to, &changed);
    attune_status status = record_from_json(changed.data, changed.length, &back, NULL);
    if (status == ATTUNE_OK) {
        record_free(&back);
    }
    buffer_free(&json);
    buffer_free(&changed);
    return status;
}

static void absurd_values_are_refused_though_sealed(void **state)
{
    (void)state;
    static const char *const changes[][2] = {
        {"\"kind\":\"tuned\"", "\"kind\":\"sharp\""},
        {"\"winner_microseconds\":812.25", "\"winner_microseconds\":-1.0"},
        {"\"winner_microseconds\":812.25", "\"winner_microseconds\":1e300"},
        {"\"winner_microseconds\":812.25", "\"winner_microseconds\":1e-310"},
        {"\"winner_microseconds\":812.25", "\"winner_microseconds\":9e-4"},
        {"\"winner_microseconds\":812.25", "\"winner_microseconds\":1.1e12"},
        {"\"winner_microseconds\":812.25", "\"winner_microseconds\":1e999"},
        {"\"winner_microseconds\":812.25", "\"winner_microseconds\":NaN"},
        {"\"winner_microseconds\":812.25", "\"winner_microseconds\":\"fast\""},
        {"\"tried\":0", "\"tried\":-1"},
        {"\"tried\":0", "\"tried\":99999999999"},
        {"\"created\":1700000001", "\"created\":1e9"},
        {"\"complete\":true", "\"complete\":1"},
        {"seqlen_q2048", "seqlen_q2049"},
        {"head_ratio=4", "head_ratio=8"},
        {"heads=32", "heads=33"},
        {"\"threads\":256", "\"threads\":4096"},
        {"\"gfx906\"", "\"gfx906:bogus+\""},
        {"\"record\":1", "\"record\":\"1\""},
        {"\"kernel\":\"attention_forward\"", "\"kernel\":\"\""},
        {"\"identity\":\"", "\"identity\":\"zz"},
        {"attention.forward q_dtype", "attention.sideways q_dtype"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        if (with_replaced(changes[i][0], changes[i][1]) != ATTUNE_CORRUPT) {
            fail_msg("%s was not refused as corrupt", changes[i][1]);
        }
    }
    assert_int_equal(with_replaced("\"record\":1", "\"record\":2"), ATTUNE_UNSUPPORTED);
    assert_int_equal(with_replaced("\"tried\":0", "\"tried\":5"), ATTUNE_OK); /* the sealing itself is right */
}

static void a_record_that_contradicts_itself_is_not_written(void **state)
{
    (void)state;
    struct record record;
    struct buffer json = BUFFER_INIT;
    struct error error = {0};
    fixture_record(1, 2048, RECORD_TUNED, &record);
    record.winner_microseconds = NAN;
    assert_int_equal(record_to_json(&record, &json, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "winner_microseconds"));
    fixture_record(1, 2048, RECORD_TUNED, &record);
    strcpy(record.shape, "batch1");
    assert_int_equal(record_to_json(&record, &json, &error), ATTUNE_INVALID);
    assert_int_equal(json.length, 0);
    buffer_free(&json);
}

static void a_user_family_brings_its_schema(void **state)
{
    (void)state;
    struct record record, back;
    struct buffer json = BUFFER_INIT;
    struct error error = {0};
    struct schema *schema = calloc(1, sizeof *schema);
    struct problem problem;
    strcpy(schema->family, "softmax");
    schema->field_count = 2;
    static const char *const names[] = {"rows", "columns"};
    for (int i = 0; i < 2; i++) {
        strcpy(schema->fields[i].name, names[i]);
        schema->fields[i].kind = FIELD_INTEGER;
        schema->fields[i].role = i == 0 ? FIELD_SIZE : FIELD_COMPILED;
        schema->fields[i].always = true;
        schema->fields[i].required = true;
        schema->fields[i].minimum = 1;
        schema->fields[i].maximum = 1 << 20;
    }
    fixture_record(1, 2048, RECORD_DEFAULT, &record);
    record.schema = schema;
    assert_status(ATTUNE_OK, problem_parse(schema, "softmax rows=64 columns=100", &problem, &error), error);
    assert_status(ATTUNE_OK, problem_format(&problem, record.problem, &error), error);
    assert_status(ATTUNE_OK, problem_specialisation(&problem, record.specialisation, &error), error);
    assert_status(ATTUNE_OK, problem_shape(&problem, record.shape, &error), error);
    to_json(&record, &json);
    assert_status(ATTUNE_OK, record_from_json(json.data, json.length, &back, &error), error);
    assert_non_null(back.schema);
    assert_string_equal(back.schema->family, "softmax");
    assert_int_equal(back.schema->field_count, 2);
    record_free(&back);
    record_free(&record);
    buffer_free(&json);
}

static void folders_tell_devices_apart_and_are_fit_for_files(void **state)
{
    (void)state;
    static const char *const targets[] = {"gfx900",
                                          "gfx906",
                                          "gfx906:sramecc+:xnack-",
                                          "gfx906:sramecc-:xnack+",
                                          "gfx906:xnack-",
                                          "gfx908",
                                          "gfx90a",
                                          "sm_90a",
                                          "sm_80",
                                          "host",
                                          "host-gfx906"};
    enum { COUNT = sizeof targets / sizeof targets[0] };
    char folders[2 * COUNT][128];
    for (int i = 0; i < COUNT; i++) {
        struct target target;
        struct fingerprint print = {
            .compute_units = 60, .shared_bytes = 65536, .memory_bytes = ((uint64_t)16 << 30) - 4096};
        assert_int_equal(target_parse(targets[i], &target, NULL), ATTUNE_OK);
        strcpy(print.target, targets[i]);
        default_folder(&target, folders[2 * i]);
        fingerprint_folder(&print, folders[2 * i + 1]);
        for (int j = 0; j < 2 * i + 2; j++) {
            assert_null(strpbrk(folders[j], ":+/ "));
            for (int k = 0; k < j; k++) {
                assert_string_not_equal(folders[j], folders[k]);
            }
        }
    }
    assert_string_equal(folders[3], "gfx906-60cu-64k-16g");
    assert_string_equal(folders[2], "default-gfx906");
    assert_string_equal(folders[4], "default-gfx906_sramecc_on_xnack_off");
}

static void another_locale_changes_no_byte(void **state)
{
    (void)state;
    struct record record, back;
    struct buffer plain = BUFFER_INIT, other = BUFFER_INIT;
    fixture_record(1, 2048, RECORD_TUNED, &record);
    to_json(&record, &plain);
    if (!comma_locale_enter()) {
        buffer_free(&plain);
        skip();
    }
    to_json(&record, &other);
    attune_status status = record_from_json(plain.data, plain.length, &back, NULL);
    setlocale(LC_ALL, "C");
    assert_int_equal(status, ATTUNE_OK);
    assert_true(back.winner_microseconds == 812.25);
    assert_string_equal(plain.data, other.data);
    buffer_free(&plain);
    buffer_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_comes_back_as_it_was),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(absurd_values_are_refused_though_sealed),
        cmocka_unit_test(a_record_that_contradicts_itself_is_not_written),
        cmocka_unit_test(a_user_family_brings_its_schema),
        cmocka_unit_test(folders_tell_devices_apart_and_are_fit_for_files),
        cmocka_unit_test(another_locale_changes_no_byte),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
