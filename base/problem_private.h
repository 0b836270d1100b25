/* problem_private.h - what the files of problem.h share among themselves. */
#ifndef BASE_PROBLEM_PRIVATE_H
#define BASE_PROBLEM_PRIVATE_H

#include "base/problem.h"

enum { VALUE_TEXT_BYTES = 48 };

/* a value as canonical text: integers in decimal, reals the shortest that reads back equal, choices by name */
void field_value_text(const struct field *field, union field_value value, char text[VALUE_TEXT_BYTES]);

/* text to value, domain not yet checked (that is field_check); ATTUNE_INVALID with the domain when it is not of the
 * kind */
attune_status field_value_parse(const struct field *field, const char *text, union field_value *value,
                                struct error *error);

/* value within the field's domain? */
attune_status field_check(const struct field *field, union field_value value, struct error *error);

bool field_unset(const struct field *field, union field_value value);
bool field_equal(const struct field *field, union field_value a, union field_value b);

/* "1 to 256", "f16, bf16 or f32" into text */
void field_domain_text(const struct field *field, char *text, size_t bytes);

/* the default of a field given the values before it; false for a required field */
bool problem_default_value(const struct problem *problem, int index, union field_value *value);

/* "unknown field ...; did you mean ...; fields are ..." */
attune_status problem_unknown_field(const struct schema *schema, const char *name, struct error *error);

/* ---- attention.forward's own rules (schema_attention.c) ---- */
int64_t attention_alignment(const struct problem *problem); /* default: what contiguous rows have; 1 when none fits */
attune_status attention_check(const struct problem *problem, struct error *error);

#endif
