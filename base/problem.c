/* problem.c - values of a problem: defaults, domains, checks, access by name. */
#include "base/problem_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int dtype_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        int bytes;
    } table[] = {{"f16", 2}, {"bf16", 2}, {"f32", 4}, {"e4m3", 1}, {"e5m2", 1}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].name, dtype) == 0) {
            return table[i].bytes;
        }
    }
    return 0;
}

bool field_unset(const struct field *field, union field_value value)
{
    return field->kind == FIELD_REAL ? isnan(value.real) : value.integer == FIELD_UNSET;
}

bool field_equal(const struct field *field, union field_value a, union field_value b)
{
    return field->kind == FIELD_REAL ? a.real == b.real : a.integer == b.integer;
}

static bool is_computed(const struct schema *schema, int index)
{
    return schema->built_in && strcmp(schema->fields[index].name, "alignment") == 0;
}

bool problem_default_value(const struct problem *problem, int index, union field_value *value)
{
    const struct field *field = &problem->schema->fields[index];
    if (field->follows[0]) {
        *value = problem->values[schema_find(problem->schema, field->follows)];
    } else if (is_computed(problem->schema, index)) {
        value->integer = attention_alignment(problem);
    } else {
        *value = field->fallback;
    }
    return !field->required;
}

void problem_defaults(const struct schema *schema, struct problem *problem)
{
    memset(problem, 0, sizeof *problem);
    problem->schema = schema;
    for (int i = 0; i < schema->field_count; i++) {
        const struct field *field = &schema->fields[i];
        if (!field->required && !field->follows[0] && !is_computed(schema, i)) {
            problem->values[i] = field->fallback;
        } else if (field->kind == FIELD_REAL) {
            problem->values[i].real = FIELD_UNSET_REAL;
        } else {
            problem->values[i].integer = FIELD_UNSET;
        }
    }
}

void field_domain_text(const struct field *field, char *text, size_t bytes)
{
    if (field->kind == FIELD_INTEGER) {
        snprintf(text, bytes, "%lld to %lld", (long long)field->minimum, (long long)field->maximum);
        return;
    }
    if (field->kind == FIELD_REAL) {
        char low[VALUE_TEXT_BYTES], high[VALUE_TEXT_BYTES];
        field_value_text(field, (union field_value){.real = field->real_minimum}, low);
        field_value_text(field, (union field_value){.real = field->real_maximum}, high);
        snprintf(text, bytes, "%s to %s", low, high);
        return;
    }
    size_t used = 0;
    for (int i = 0; i < field->choice_count && used < bytes; i++) {
        const char *separator = i == 0 ? "" : i + 1 == field->choice_count ? " or " : ", ";
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", separator, field->choices[i]);
    }
}

attune_status field_check(const struct field *field, union field_value value, struct error *error)
{
    bool legal;
    if (field->kind == FIELD_REAL) {
        legal = value.real >= field->real_minimum && value.real <= field->real_maximum; /* false for NaN */
    } else if (field->kind == FIELD_INTEGER) {
        legal = value.integer >= field->minimum && value.integer <= field->maximum;
    } else {
        legal = value.integer >= 0 && value.integer < field->choice_count;
    }
    if (legal) {
        return ATTUNE_OK;
    }
    char domain[512], shown[VALUE_TEXT_BYTES];
    field_domain_text(field, domain, sizeof domain);
    if (field->kind == FIELD_CHOICE) {
        snprintf(shown, sizeof shown, "choice %lld", (long long)value.integer);
    } else {
        field_value_text(field, value, shown);
    }
    return error_set(error, ATTUNE_INVALID, "%s=%s is outside its domain: %s", field->name, shown, domain);
}

/* a user family's sizes: how they multiply is Lua's business, so the product of all must be countable */
static attune_status check_size_product(const struct problem *problem, struct error *error)
{
    int64_t product = 1;
    for (int i = 0; i < problem->schema->field_count; i++) {
        const struct field *field = &problem->schema->fields[i];
        int64_t value = problem->values[i].integer;
        if (field->role == FIELD_SIZE && value != 0 && __builtin_mul_overflow(product, value, &product)) {
            return error_set(error, ATTUNE_INVALID,
                             "the product of the sizes up to %s=%lld passes 2^63; use smaller sizes", field->name,
                             (long long)value);
        }
    }
    return ATTUNE_OK;
}

static attune_status check_ratios(const struct problem *problem, struct error *error)
{
    const struct schema *schema = problem->schema;
    for (int i = 0; i < schema->ratio_count; i++) {
        const struct schema_ratio *ratio = &schema->ratios[i];
        int64_t numerator = problem->values[ratio->numerator].integer;
        int64_t denominator = problem->values[ratio->denominator].integer;
        const char *above = schema->fields[ratio->numerator].name;
        const char *below = schema->fields[ratio->denominator].name;
        if (denominator < 1 || numerator < 0 || numerator % denominator != 0) {
            return error_set(error, ATTUNE_INVALID, "%s=%lld is not divisible by %s=%lld; use a %s that divides %s",
                             above, (long long)numerator, below, (long long)denominator, below, above);
        }
    }
    return ATTUNE_OK;
}

attune_status problem_check(struct problem *problem, struct error *error)
{
    const struct schema *schema = problem->schema;
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < schema->field_count; i++) {
        const struct field *field = &schema->fields[i];
        union field_value value = problem->values[i];
        if (field_unset(field, value) && !problem_default_value(problem, i, &value)) {
            char domain[512];
            field_domain_text(field, domain, sizeof domain);
            return error_set(error, ATTUNE_INVALID, "%s is missing from the problem; give %s=... (%s)", field->name,
                             field->name, domain);
        }
        if (is_computed(schema, i) && value.integer == 1) {
            return error_set(
                error, ATTUNE_INVALID,
                "the rows of q, k, v or o have an odd number of bytes; use even head sizes with 1-byte dtypes");
        }
        status = field_check(field, value, error);
        if (status != ATTUNE_OK) {
            return status;
        }
        if (field->kind == FIELD_REAL && value.real == 0) {
            value.real = 0; /* one zero, one text */
        }
        problem->values[i] = value;
    }
    status = check_ratios(problem, error);
    if (status == ATTUNE_OK) {
        status = schema->built_in ? attention_check(problem, error) : check_size_product(problem, error);
    }
    char text[PROBLEM_TEXT_BYTES];
    return status == ATTUNE_OK ? problem_format(problem, text, error) : status;
}

static int find_known(const struct problem *problem, const char *field)
{
    int index = schema_find(problem->schema, field);
    assert(index >= 0);
    if (index < 0) {
        abort(); /* a caller's mistake, never a user's: there is no value to answer with */
    }
    return index;
}

int64_t problem_integer(const struct problem *problem, const char *field)
{
    int index = find_known(problem, field);
    assert(problem->schema->fields[index].kind == FIELD_INTEGER);
    return problem->values[index].integer;
}

double problem_real(const struct problem *problem, const char *field)
{
    int index = find_known(problem, field);
    assert(problem->schema->fields[index].kind == FIELD_REAL);
    return problem->values[index].real;
}

const char *problem_choice(const struct problem *problem, const char *field)
{
    int index = find_known(problem, field);
    const struct field *facts = &problem->schema->fields[index];
    assert(facts->kind == FIELD_CHOICE && problem->values[index].integer >= 0 &&
           problem->values[index].integer < facts->choice_count);
    return facts->choices[problem->values[index].integer];
}

/* index of a field of this kind, or -1 with the error set */
static int find_settable(const struct problem *problem, const char *name, enum field_kind kind, struct error *error)
{
    static const char *const kinds[] = {"an integer", "a real", "a choice"};
    int index = schema_find(problem->schema, name);
    if (index < 0) {
        problem_unknown_field(problem->schema, name, error);
    } else if (problem->schema->fields[index].kind != kind) {
        error_set(error, ATTUNE_INVALID, "%s takes %s, not %s", name, kinds[problem->schema->fields[index].kind],
                  kinds[kind]);
        index = -1;
    }
    return index;
}

static attune_status set_value(struct problem *problem, int index, union field_value value, struct error *error)
{
    attune_status status = field_check(&problem->schema->fields[index], value, error);
    if (status == ATTUNE_OK) {
        problem->values[index] = value;
    }
    return status;
}

attune_status problem_set_integer(struct problem *problem, const char *field, int64_t value, struct error *error)
{
    int index = find_settable(problem, field, FIELD_INTEGER, error);
    return index < 0 ? ATTUNE_INVALID : set_value(problem, index, (union field_value){.integer = value}, error);
}

attune_status problem_set_real(struct problem *problem, const char *field, double value, struct error *error)
{
    int index = find_settable(problem, field, FIELD_REAL, error);
    return index < 0 ? ATTUNE_INVALID : set_value(problem, index, (union field_value){.real = value}, error);
}

attune_status problem_set_choice(struct problem *problem, const char *field, const char *value, struct error *error)
{
    int index = find_settable(problem, field, FIELD_CHOICE, error);
    union field_value parsed;
    attune_status status = ATTUNE_INVALID;
    if (index >= 0) {
        status = field_value_parse(&problem->schema->fields[index], value, &parsed, error);
    }
    if (status == ATTUNE_OK) {
        problem->values[index] = parsed;
    }
    return status;
}
