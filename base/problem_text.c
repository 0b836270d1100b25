/* problem_text.c - problems as text. All printing and reading of numbers happens in the C locale. */
#include "base/locale.h"
#include "base/problem_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 65536, TOKEN_BYTES = 128 };
static const char blanks[] = " \t\r\n";

void field_value_text(const struct field *field, union field_value value, char text[VALUE_TEXT_BYTES])
{
    if (field->kind == FIELD_INTEGER) {
        snprintf(text, VALUE_TEXT_BYTES, "%lld", (long long)value.integer);
    } else if (field->kind == FIELD_CHOICE) {
        snprintf(text, VALUE_TEXT_BYTES, "%s", field->choices[value.integer]);
    } else {
        locale_t previous = locale_enter();
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(text, VALUE_TEXT_BYTES, "%.*g", digits, value.real);
            if (strtod(text, NULL) == value.real) {
                break;
            }
        }
        locale_leave(previous);
    }
}

/* decimal digits with an optional minus: no blanks, plus signs, octal or hexadecimal */
static bool parse_integer(const char *text, int64_t *value)
{
    const char *digits = text + (text[0] == '-');
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || digits[count] != '\0') {
        return false;
    }
    errno = 0;
    *value = strtoll(text, NULL, 10);
    return errno == 0 && *value != FIELD_UNSET;
}

static bool parse_real(const char *text, double *value)
{
    if (text[0] == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0') { /* no inf, nan, hexadecimal, blanks */
        return false;
    }
    char *end;
    locale_t previous = locale_enter();
    *value = strtod(text, &end);
    locale_leave(previous);
    if (*value == 0 && text[strcspn(text, "123456789eE")] >= '1' && text[strcspn(text, "123456789eE")] <= '9') {
        return false; /* too small for a double: 0 would mean something else */
    }
    return *end == '\0' && isfinite(*value);
}

attune_status field_value_parse(const struct field *field, const char *text, union field_value *value,
                                struct error *error)
{
    bool legal = false;
    if (field->kind == FIELD_INTEGER) {
        legal = parse_integer(text, &value->integer);
    } else if (field->kind == FIELD_REAL) {
        legal = parse_real(text, &value->real);
    } else {
        for (int i = 0; i < field->choice_count && !legal; i++) {
            value->integer = i;
            legal = strcmp(field->choices[i], text) == 0;
        }
        if (!legal && field->on_choice > 0 && (strcmp(text, "0") == 0 || strcmp(text, "1") == 0)) {
            value->integer = text[0] == '1' ? field->on_choice : 0;
            legal = true;
        }
    }
    if (legal) {
        return ATTUNE_OK;
    }
    static const char *const kinds[] = {"an integer", "a real number", "one of"};
    char domain[512];
    field_domain_text(field, domain, sizeof domain);
    return error_set(error, ATTUNE_INVALID, "%s=%s: expected %s%s%s", field->name, text, kinds[field->kind],
                     field->kind == FIELD_CHOICE ? " " : ", ", domain);
}

/* letters to change, add or drop to make b of a; names are short */
static int edit_distance(const char *a, const char *b)
{
    int row[TOKEN_BYTES + 1];
    int width = (int)strlen(b);
    for (int j = 0; j <= width; j++) {
        row[j] = j;
    }
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= width; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < shift ? change : shift;
        }
    }
    return row[width];
}

attune_status problem_unknown_field(const struct schema *schema, const char *name, struct error *error)
{
    const char *nearest = NULL;
    int best = 4; /* further off is no help */
    char list[SCHEMA_FIELDS_MAX * (FIELD_NAME_BYTES + 2)] = "";
    size_t used = 0;
    for (int i = 0; i < schema->field_count + schema->shorthand_count; i++) {
        const char *known =
            i < schema->field_count ? schema->fields[i].name : schema->shorthands[i - schema->field_count].name;
        int distance = edit_distance(name, known);
        if (distance < best) {
            best = distance;
            nearest = known;
        }
        if (used < sizeof list) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? " " : "", known);
        }
    }
    return error_set(error, ATTUNE_INVALID, "%s has no field \"%s\"%s%s%s; its fields are: %s", schema->family, name,
                     nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "", list);
}

/* next blank-separated word of *text into word; *length 0 at the end */
static attune_status next_word(const char **text, char word[TOKEN_BYTES], size_t *length, struct error *error)
{
    const char *start = *text + strspn(*text, blanks);
    *length = strcspn(start, blanks);
    if (*length >= TOKEN_BYTES) {
        return error_set(error, ATTUNE_INVALID, "the problem's word \"%.40s...\" is longer than %d bytes", start,
                         TOKEN_BYTES - 1);
    }
    memcpy(word, start, *length);
    word[*length] = '\0';
    *text = start + *length;
    return ATTUNE_OK;
}

attune_status problem_family(const char *text, char family[FAMILY_NAME_BYTES], struct error *error)
{
    char word[TOKEN_BYTES];
    size_t length;
    attune_status status = next_word(&text, word, &length, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (length == 0 || length >= FAMILY_NAME_BYTES || strchr(word, '=')) {
        return error_set(
            error, ATTUNE_INVALID,
            "a problem begins with its family, for example \"attention.forward dtype=f16 ...\"; found \"%s\"", word);
    }
    memcpy(family, word, length + 1);
    return ATTUNE_OK;
}

static int find_shorthand(const struct schema *schema, const char *name)
{
    for (int i = 0; i < schema->shorthand_count; i++) {
        if (strcmp(schema->shorthands[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* one name=value; `given` remembers fields, then shorthands, that occurred */
static attune_status parse_pair(struct problem *problem, char *word, bool *given, struct error *error)
{
    const struct schema *schema = problem->schema;
    char *value = strchr(word, '=');
    if (!value) {
        return error_set(error, ATTUNE_INVALID, "\"%s\" is not field=value", word);
    }
    *value++ = '\0';
    int index = schema_find(schema, word);
    int shorthand = index < 0 ? find_shorthand(schema, word) : -1;
    if (index < 0 && shorthand < 0) {
        return problem_unknown_field(schema, word, error);
    }
    bool *seen = &given[index >= 0 ? index : SCHEMA_FIELDS_MAX + shorthand];
    if (*seen) {
        return error_set(error, ATTUNE_INVALID, "%s is given twice; keep one", word);
    }
    *seen = true;
    if (index >= 0) {
        attune_status status = field_value_parse(&schema->fields[index], value, &problem->values[index], error);
        return status == ATTUNE_OK ? field_check(&schema->fields[index], problem->values[index], error) : status;
    }
    for (int i = 0; i < schema->shorthands[shorthand].field_count; i++) {
        int field = schema->shorthands[shorthand].fields[i];
        union field_value parsed;
        attune_status status = field_value_parse(&schema->fields[field], value, &parsed, error);
        if (status == ATTUNE_OK) {
            status = field_check(&schema->fields[field], parsed, error);
        }
        if (status != ATTUNE_OK) {
            return status;
        }
        if (!given[field]) { /* an explicit one that comes later overwrites this */
            problem->values[field] = parsed;
        }
    }
    return ATTUNE_OK;
}

attune_status problem_parse(const struct schema *schema, const char *text, struct problem *problem, struct error *error)
{
    struct problem parsed;
    bool given[SCHEMA_FIELDS_MAX + SCHEMA_SHORTHANDS_MAX] = {false};
    char word[TOKEN_BYTES];
    if (strnlen(text, TEXT_MAX) == TEXT_MAX) {
        return error_set(error, ATTUNE_INVALID, "the problem's text is longer than %d bytes", TEXT_MAX - 1);
    }
    problem_defaults(schema, &parsed);
    for (bool first = true;; first = false) {
        size_t length;
        attune_status status = next_word(&text, word, &length, error);
        if (status == ATTUNE_OK && length == 0) {
            break;
        }
        if (status == ATTUNE_OK && first && !strchr(word, '=')) {
            if (strcmp(word, schema->family) != 0) {
                status = error_set(error, ATTUNE_INVALID, "the problem is of family \"%s\", expected %s", word,
                                   schema->family);
            }
        } else if (status == ATTUNE_OK) {
            status = parse_pair(&parsed, word, given, error);
        }
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    attune_status status = problem_check(&parsed, error);
    if (status == ATTUNE_OK) {
        *problem = parsed;
    }
    return status;
}

/* text of bounded length: `full` is set instead of writing past the end */
struct line {
    char *text;
    size_t used;
    bool full;
};

static void line_add(struct line *line, const char *a, const char *b, const char *c, const char *d)
{
    int length = snprintf(line->text + line->used, PROBLEM_TEXT_BYTES - line->used, "%s%s%s%s", a, b, c, d);
    if (length < 0 || line->used + (size_t)length >= PROBLEM_TEXT_BYTES) {
        line->full = true;
        line->text[line->used] = '\0';
        return;
    }
    line->used += (size_t)length;
}

static attune_status line_end(const struct line *line, const struct problem *problem, struct error *error)
{
    if (!line->full) {
        return ATTUNE_OK;
    }
    return error_set(error, ATTUNE_INVALID,
                     "the problem's text passes the limit of %d bytes; leave fields of %s at their defaults",
                     PROBLEM_TEXT_BYTES - 1, problem->schema->family);
}

static bool at_default(const struct problem *problem, int index)
{
    union field_value value;
    return problem_default_value(problem, index, &value) &&
           field_equal(&problem->schema->fields[index], value, problem->values[index]);
}

attune_status problem_format(const struct problem *problem, char text[PROBLEM_TEXT_BYTES], struct error *error)
{
    struct line line = {.text = text};
    line_add(&line, problem->schema->family, "", "", "");
    for (int i = 0; i < problem->schema->field_count; i++) {
        const struct field *field = &problem->schema->fields[i];
        if (field->always || field->required || !at_default(problem, i)) {
            char value[VALUE_TEXT_BYTES];
            field_value_text(field, problem->values[i], value);
            line_add(&line, " ", field->name, "=", value);
        }
    }
    return line_end(&line, problem, error);
}

attune_status problem_specialisation(const struct problem *problem, char text[PROBLEM_TEXT_BYTES], struct error *error)
{
    const struct schema *schema = problem->schema;
    struct line line = {.text = text};
    char value[VALUE_TEXT_BYTES];
    line_add(&line, schema->family, "", "", "");
    for (int i = 0; i < schema->field_count; i++) {
        const struct field *field = &schema->fields[i];
        if (field->role == FIELD_COMPILED && (field->always || field->required || !at_default(problem, i))) {
            field_value_text(field, problem->values[i], value);
            line_add(&line, " ", field->name, "=", value);
        }
    }
    for (int i = 0; i < schema->ratio_count; i++) {
        const struct schema_ratio *ratio = &schema->ratios[i];
        int64_t quotient = problem->values[ratio->numerator].integer / problem->values[ratio->denominator].integer;
        snprintf(value, sizeof value, "%lld", (long long)quotient);
        line_add(&line, " ", ratio->name, "=", value);
    }
    for (int i = 0; i < schema->field_count; i++) {
        if (schema->fields[i].role == FIELD_OPTION && !at_default(problem, i)) {
            line_add(&line, " ", schema->fields[i].name, "=on", "");
        }
    }
    return line_end(&line, problem, error);
}

attune_status problem_shape(const struct problem *problem, char text[PROBLEM_TEXT_BYTES], struct error *error)
{
    struct line line = {.text = text};
    text[0] = '\0';
    for (int i = 0; i < problem->schema->field_count; i++) {
        const struct field *field = &problem->schema->fields[i];
        if (field->role == FIELD_SIZE) {
            char value[VALUE_TEXT_BYTES];
            field_value_text(field, problem->values[i], value);
            line_add(&line, line.used ? "-" : "", field->name, value, "");
        }
    }
    return line_end(&line, problem, error);
}
