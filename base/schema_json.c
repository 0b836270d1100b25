/* schema_json.c - a user family's field list as JSON. It comes from records and packs: nothing in it is trusted. */
#include "base/problem_private.h"

#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {"integer", "real", "choice"};
static const char *const role_names[] = {"compiled", "option", "size", "scalar"};

static json_t *field_to_json(const struct field *field)
{
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:b, s:b, s:s}", "name", field->name, "kind", kind_names[field->kind], "role",
                  role_names[field->role], "always", field->always, "required", field->required, "doc", field->doc);
    if (field->follows[0]) {
        json_object_set_new(json, "follows", json_string(field->follows));
    }
    if (field->kind == FIELD_INTEGER) {
        json_object_set_new(json, "min", json_integer(field->minimum));
        json_object_set_new(json, "max", json_integer(field->maximum));
        json_object_set_new(json, "default", json_integer(field->fallback.integer));
    } else if (field->kind == FIELD_REAL) {
        json_object_set_new(json, "min", json_real(field->real_minimum));
        json_object_set_new(json, "max", json_real(field->real_maximum));
        json_object_set_new(json, "default", json_real(field->fallback.real));
    } else {
        json_t *choices = json_array();
        for (int i = 0; i < field->choice_count; i++) {
            json_array_append_new(choices, json_string(field->choices[i]));
        }
        json_object_set_new(json, "choices", choices);
        json_object_set_new(json, "default", json_string(field->choices[field->fallback.integer]));
        if (field->on_choice > 0) {
            json_object_set_new(json, "on", json_string(field->choices[field->on_choice]));
        }
    }
    return json;
}

json_t *schema_to_json(const struct schema *schema)
{
    json_t *fields = json_array();
    json_t *ratios = json_array();
    json_t *shorthands = json_array();
    for (int i = 0; i < schema->field_count; i++) {
        json_array_append_new(fields, field_to_json(&schema->fields[i]));
    }
    for (int i = 0; i < schema->ratio_count; i++) {
        const struct schema_ratio *ratio = &schema->ratios[i];
        json_array_append_new(ratios, json_pack("{s:s, s:s, s:s}", "name", ratio->name, "numerator",
                                                schema->fields[ratio->numerator].name, "denominator",
                                                schema->fields[ratio->denominator].name));
    }
    for (int i = 0; i < schema->shorthand_count; i++) {
        json_t *names = json_array();
        for (int j = 0; j < schema->shorthands[i].field_count; j++) {
            json_array_append_new(names, json_string(schema->fields[schema->shorthands[i].fields[j]].name));
        }
        json_array_append_new(shorthands, json_pack("{s:s, s:o}", "name", schema->shorthands[i].name, "fields", names));
    }
    return json_pack("{s:s, s:o, s:o, s:o}", "family", schema->family, "fields", fields, "ratios", ratios, "shorthands",
                     shorthands);
}

/* lower-case words with _ (and dots in a family's name): fit for a text, a C name and a file name */
static bool copy_name(const json_t *json, char *name, size_t bytes, const char *alphabet)
{
    const char *text = json_is_string(json) ? json_string_value(json) : "";
    size_t length = strlen(text);
    if (length == 0 || length >= bytes || length != json_string_length(json) || text[strspn(text, alphabet)] != '\0') {
        return false;
    }
    memcpy(name, text, length + 1);
    return true;
}

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static int find_text(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (text && strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static int find_choice(const struct field *field, const json_t *json)
{
    const char *text = json_string_value(json);
    for (int i = 0; text && i < field->choice_count; i++) {
        if (strcmp(text, field->choices[i]) == 0) {
            return i;
        }
    }
    return -1;
}

/* NULL, or what is wrong */
static const char *read_choices(const json_t *json, struct field *field)
{
    const json_t *choices = json_object_get(json, "choices");
    size_t count = json_array_size(choices);
    if (count == 0 || count > SCHEMA_CHOICES_MAX) {
        return "choices must be a list of 1 to 12 names";
    }
    for (size_t i = 0; i < count; i++) {
        json_t *choice = json_array_get(choices, i);
        if (find_choice(field, choice) >= 0) {
            return "a choice occurs twice";
        }
        if (!copy_name(choice, field->choices[i], FIELD_NAME_BYTES, NAME_LETTERS "-+.:")) {
            return "a choice is not a short name";
        }
        field->choice_count++;
    }
    const json_t *on = json_object_get(json, "on");
    if (on) {
        field->on_choice = find_choice(field, on);
        if (field->on_choice < 1) {
            return "on must be a choice other than the first";
        }
    }
    const json_t *fallback = json_object_get(json, "default");
    if (fallback) {
        field->fallback.integer = find_choice(field, fallback);
        if (field->fallback.integer < 0) {
            return "default must be one of the choices";
        }
    } else if (!field->required && !field->follows[0]) {
        return "a field needs a default or required";
    }
    return NULL;
}

static const char *read_number(const json_t *json, struct field *field)
{
    const json_t *low = json_object_get(json, "min");
    const json_t *high = json_object_get(json, "max");
    const json_t *fallback = json_object_get(json, "default");
    if (!fallback && !field->required && !field->follows[0]) {
        return "a field needs a default or required";
    }
    if (field->kind == FIELD_INTEGER) {
        if (!json_is_integer(low) || !json_is_integer(high) || (fallback && !json_is_integer(fallback))) {
            return "min, max and default must be integers";
        }
        field->minimum = json_integer_value(low);
        field->maximum = json_integer_value(high);
        field->fallback.integer = fallback ? json_integer_value(fallback) : 0;
        if (field->minimum > field->maximum || field->minimum == FIELD_UNSET) {
            return "min is above max";
        }
        if (field->role == FIELD_SIZE && field->minimum < 0) {
            return "a size's min must not be negative";
        }
    } else {
        if (!json_is_number(low) || !json_is_number(high) || (fallback && !json_is_number(fallback))) {
            return "min, max and default must be numbers";
        }
        field->real_minimum = json_number_value(low);
        field->real_maximum = json_number_value(high);
        field->fallback.real = fallback ? json_number_value(fallback) : 0;
        if (!(field->real_minimum <= field->real_maximum)) {
            return "min is above max";
        }
    }
    bool checked = !field->required && !field->follows[0];
    return checked && field_check(field, field->fallback, NULL) != ATTUNE_OK ? "default is outside min to max" : NULL;
}

static const char *read_field(const json_t *json, const struct schema *schema, struct field *field)
{
    if (!copy_name(json_object_get(json, "name"), field->name, sizeof field->name, NAME_LETTERS)) {
        return "name is missing or not a short name";
    }
    if (schema_find(schema, field->name) >= 0) {
        return "the name occurs twice";
    }
    int kind = find_text(json_string_value(json_object_get(json, "kind")), kind_names, 3);
    int role = find_text(json_string_value(json_object_get(json, "role")), role_names, 4);
    if (kind < 0 || role < 0) {
        return "kind must be integer, real or choice; role compiled, option, size or scalar";
    }
    field->kind = (enum field_kind)kind;
    field->role = (enum field_role)role;
    if (field->role == FIELD_SIZE && field->kind != FIELD_INTEGER) {
        return "a size must be an integer";
    }
    field->always = json_is_true(json_object_get(json, "always"));
    field->required = json_is_true(json_object_get(json, "required"));
    const char *doc = json_string_value(json_object_get(json, "doc"));
    if (doc && strlen(doc) >= sizeof field->doc) {
        return "doc is longer than 95 bytes";
    }
    if (doc) {
        memcpy(field->doc, doc, strlen(doc) + 1);
    }
    const json_t *follows = json_object_get(json, "follows");
    if (follows) {
        if (!copy_name(follows, field->follows, sizeof field->follows, NAME_LETTERS)) {
            return "follows is not a field's name";
        }
        int leader = schema_find(schema, field->follows);
        if (leader < 0 || schema->fields[leader].kind != field->kind || field->required) {
            return "follows must name an earlier field of the same kind, and excludes required";
        }
    }
    return field->kind == FIELD_CHOICE ? read_choices(json, field) : read_number(json, field);
}

/* a leader and its follower share the meaning of a choice index only with the same choices */
static bool choices_agree(const struct schema *schema, const struct field *field)
{
    if (field->kind != FIELD_CHOICE || !field->follows[0]) {
        return true;
    }
    const struct field *leader = &schema->fields[schema_find(schema, field->follows)];
    return leader->choice_count == field->choice_count &&
           memcmp(leader->choices, field->choices, sizeof field->choices) == 0;
}

static int named_field(const struct schema *schema, const json_t *json)
{
    const char *name = json_string_value(json);
    return name ? schema_find(schema, name) : -1;
}

static const char *read_ratios(const json_t *list, struct schema *schema)
{
    size_t count = json_array_size(list);
    if (count > sizeof schema->ratios / sizeof schema->ratios[0]) {
        return "more than 2 ratios";
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *json = json_array_get(list, i);
        struct schema_ratio *ratio = &schema->ratios[i];
        ratio->numerator = named_field(schema, json_object_get(json, "numerator"));
        ratio->denominator = named_field(schema, json_object_get(json, "denominator"));
        if (!copy_name(json_object_get(json, "name"), ratio->name, sizeof ratio->name, NAME_LETTERS) ||
            ratio->numerator < 0 || ratio->denominator < 0 || schema->fields[ratio->numerator].kind != FIELD_INTEGER ||
            schema->fields[ratio->denominator].kind != FIELD_INTEGER || schema_find(schema, ratio->name) >= 0) {
            return "a ratio needs a name of its own and two integer fields";
        }
        schema->ratio_count++;
    }
    return NULL;
}

static const char *read_shorthands(const json_t *list, struct schema *schema)
{
    size_t count = json_array_size(list);
    if (count > SCHEMA_SHORTHANDS_MAX) {
        return "more than 4 shorthands";
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *json = json_array_get(list, i);
        const json_t *names = json_object_get(json, "fields");
        struct schema_shorthand *shorthand = &schema->shorthands[i];
        if (!copy_name(json_object_get(json, "name"), shorthand->name, sizeof shorthand->name, NAME_LETTERS) ||
            schema_find(schema, shorthand->name) >= 0 || json_array_size(names) == 0 ||
            json_array_size(names) > SHORTHAND_FIELDS_MAX) {
            return "a shorthand needs a name of its own and 1 to 4 fields";
        }
        for (size_t j = 0; j < json_array_size(names); j++) {
            int field = named_field(schema, json_array_get(names, j));
            if (field < 0) {
                return "a shorthand names a field that is not there";
            }
            shorthand->fields[shorthand->field_count++] = field;
        }
        schema->shorthand_count++;
    }
    return NULL;
}

static attune_status read_fields(const json_t *list, struct schema *schema, struct error *error)
{
    size_t count = json_array_size(list);
    if (count == 0 || count > SCHEMA_FIELDS_MAX) {
        return error_set(error, ATTUNE_CORRUPT, "family %s: fields must be a list of 1 to %d", schema->family,
                         SCHEMA_FIELDS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        struct field *field = &schema->fields[i];
        const char *wrong = read_field(json_array_get(list, i), schema, field);
        if (!wrong && !choices_agree(schema, field)) {
            wrong = "follows needs a field with the same choices";
        }
        if (wrong) {
            return error_set(error, ATTUNE_CORRUPT, "family %s, field %zu (%s): %s", schema->family, i + 1, field->name,
                             wrong);
        }
        schema->field_count++;
    }
    return ATTUNE_OK;
}

attune_status schema_from_json(const json_t *json, struct schema **schema, struct error *error)
{
    struct schema *read = calloc(1, sizeof *read);
    if (!read) {
        return error_no_memory(error);
    }
    attune_status status = ATTUNE_OK;
    if (!copy_name(json_object_get(json, "family"), read->family, sizeof read->family, NAME_LETTERS ".")) {
        status = error_set(error, ATTUNE_CORRUPT, "a family's description lacks a legal name");
        goto out;
    }
    status = read_fields(json_object_get(json, "fields"), read, error);
    if (status != ATTUNE_OK) {
        goto out;
    }
    const char *wrong = read_ratios(json_object_get(json, "ratios"), read);
    if (!wrong) {
        wrong = read_shorthands(json_object_get(json, "shorthands"), read);
    }
    if (wrong) {
        status = error_set(error, ATTUNE_CORRUPT, "family %s: %s", read->family, wrong);
        goto out;
    }
    *schema = read;
    read = NULL;
out:
    free(read);
    return status;
}
