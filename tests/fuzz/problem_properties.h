/* problem_properties.h - what holds for every problem that was accepted, of whatever schema. */
#ifndef TESTS_FUZZ_PROBLEM_PROPERTIES_H
#define TESTS_FUZZ_PROBLEM_PROPERTIES_H

#include "base/problem.h"
#include "tests/fuzz/fuzz.h"

static inline void fuzz_check_values(const struct problem *problem)
{
    for (int i = 0; i < problem->schema->field_count; i++) {
        const struct field *field = &problem->schema->fields[i];
        union field_value value = problem->values[i];
        if (field->kind == FIELD_REAL) {
            HOLDS(value.real >= field->real_minimum && value.real <= field->real_maximum, "%s=%g", field->name,
                  value.real);
            HOLDS(value.real != 0 || !signbit(value.real), "%s is a negative zero: one value, two texts", field->name);
        } else if (field->kind == FIELD_INTEGER) {
            HOLDS(value.integer >= field->minimum && value.integer <= field->maximum, "%s=%lld", field->name,
                  (long long)value.integer);
        } else {
            HOLDS(value.integer >= 0 && value.integer < field->choice_count, "%s=%lld", field->name,
                  (long long)value.integer);
        }
    }
}

/* canonical text, specialisation and shape exist, and the text is read back to the same three */
static inline void fuzz_check_problem(const struct problem *problem)
{
    char text[3][PROBLEM_TEXT_BYTES], again[3][PROBLEM_TEXT_BYTES];
    struct problem second;
    struct error error = {.message = ""};
    fuzz_check_values(problem);
    HOLDS(problem_format(problem, text[0], &error) == ATTUNE_OK &&
              problem_specialisation(problem, text[1], &error) == ATTUNE_OK &&
              problem_shape(problem, text[2], &error) == ATTUNE_OK,
          "an accepted problem has no text: %s", error.message);
    HOLDS(problem_parse(problem->schema, text[0], &second, &error) == ATTUNE_OK, "'%s' is not read back: %s", text[0],
          error.message);
    problem_format(&second, again[0], NULL);
    problem_specialisation(&second, again[1], NULL);
    problem_shape(&second, again[2], NULL);
    for (int i = 0; i < 3; i++) {
        HOLDS(strcmp(text[i], again[i]) == 0, "'%s' becomes '%s'", text[i], again[i]);
        HOLDS(strlen(text[i]) < PROBLEM_TEXT_BYTES, "text %d is too long", i);
        for (const char *c = text[i]; *c != '\0'; c++) {
            HOLDS(*c >= ' ' && *c <= '~', "byte %02x in '%s'", (unsigned char)*c, text[i]);
        }
    }
    HOLDS(strpbrk(text[2], "/ ") == NULL && text[2][0] != '.', "shape '%s' is no file name", text[2]);
    char family[FAMILY_NAME_BYTES];
    HOLDS(problem_family(text[0], family, NULL) == ATTUNE_OK && strcmp(family, problem->schema->family) == 0,
          "'%s' names no family", text[0]);
}

#endif
