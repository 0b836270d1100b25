/* problem.h - problems: what a caller wants computed, as data.
 *
 * A family's *schema* is its ordered list of fields. attention.forward's is a table in schema_attention.c, so that
 * libattune reads it without Lua; a user family's comes from its Lua file and travels in its records (schema_to_json).
 *
 * Canonical text: `family field=value ...` in schema order; fields marked `always` are always printed, others only when
 * they differ from their default; shorter than PROBLEM_TEXT_BYTES. Parsing accepts any order, shorthands, and refuses
 * unknown or repeated fields by name. The C locale whatever the process's.
 *
 * The three kinds of facts (docs/families.md) are a field's role:
 *   FIELD_COMPILED  in the specialisation (dtypes, head sizes, mask kind, alignment class, index width)
 *   FIELD_OPTION    compiled in as on/off (value != default), its value is a run-time argument (dropout)
 *   FIELD_SIZE      run-time size: batch, heads, kv_heads, lengths; part of the shape
 *   FIELD_SCALAR    run-time value that changes neither kernel nor shape (scale)
 */
#ifndef BASE_PROBLEM_H
#define BASE_PROBLEM_H

#include "base/buffer.h"
#include "base/error.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    PROBLEM_TEXT_BYTES = 1025, /* canonical text with its NUL */
    SCHEMA_FIELDS_MAX = 48,
    SCHEMA_SHORTHANDS_MAX = 4,
    SHORTHAND_FIELDS_MAX = 4,
    SCHEMA_CHOICES_MAX = 12,
    FIELD_NAME_BYTES = 24,
    FAMILY_NAME_BYTES = 64
};

/* Longest sequence of attention.forward: kernels count positions in 32 bits with sign and may step past a length by a
 * tile, which is always shorter than 2^16. */
enum { ATTENTION_LENGTH_MAX = INT32_MAX - 65535 };

enum field_kind { FIELD_INTEGER, FIELD_REAL, FIELD_CHOICE };
enum field_role { FIELD_COMPILED, FIELD_OPTION, FIELD_SIZE, FIELD_SCALAR };

union field_value {
    int64_t integer; /* FIELD_INTEGER; index into `choices` for FIELD_CHOICE */
    double real;
};

struct field {
    char name[FIELD_NAME_BYTES];
    enum field_kind kind;
    enum field_role role;
    bool always;                                        /* printed even at its default */
    bool required;                                      /* has no default */
    int64_t minimum, maximum;                           /* FIELD_INTEGER */
    double real_minimum, real_maximum;                  /* FIELD_REAL, inclusive; NaN never legal */
    int choice_count;                                   /* FIELD_CHOICE */
    char choices[SCHEMA_CHOICES_MAX][FIELD_NAME_BYTES]; /* dtypes are choices: f16 bf16 f32 ... */
    int on_choice;                  /* FIELD_CHOICE: what "1" means, "0" then means choice 0 (causal=1);
                                       0: neither is accepted */
    union field_value fallback;     /* the default, unless: */
    char follows[FIELD_NAME_BYTES]; /* an earlier field of the same kind whose value is the default */
    char doc[96];
};

/* in `values`: not set yet, problem_check fills in the default or refuses a required field */
#define FIELD_UNSET INT64_MIN
#define FIELD_UNSET_REAL ((double)NAN) /* the same for FIELD_REAL */

/* one name in a text that sets several fields of the same kind; an explicit value of a field wins over it */
struct schema_shorthand {
    char name[FIELD_NAME_BYTES];
    int field_count;
    int fields[SHORTHAND_FIELDS_MAX]; /* field indices */
};

/* heads/kv_heads: compiled in though both are run-time sizes; must divide */
struct schema_ratio {
    char name[FIELD_NAME_BYTES];
    int numerator, denominator; /* field indices */
};

struct schema {
    char family[FAMILY_NAME_BYTES];
    bool built_in;
    int field_count;
    struct field fields[SCHEMA_FIELDS_MAX];
    int ratio_count;
    struct schema_ratio ratios[2];
    int shorthand_count;
    struct schema_shorthand shorthands[SCHEMA_SHORTHANDS_MAX];
};

struct problem {
    const struct schema *schema; /* not owned */
    union field_value values[SCHEMA_FIELDS_MAX];
};

/* the schema of attention.forward: static, immutable, valid forever. heads, seqlen_q and head_dim_qk are required.
 * Fields: q_dtype k_dtype v_dtype o_dtype batch heads kv_heads seqlen_q seqlen_k head_dim_qk head_dim_v
 * causal(none|top_left|bottom_right) window_left window_right softcap alibi sinks bias(none|f16|bf16|f32)
 * mask(none|bool) varlen paged page_size dropout scale lse alignment index strict_nan batch_invariant. scale=0 means
 * 1/sqrt(head_dim_qk). alignment (bytes: 2 4 8 16) defaults to the largest class that the contiguous rows of all four
 * tensors have. Shorthands: dtype= (q,k,v,o), head_dim= (qk,v), causal=1 (bottom_right), causal=0 (none). kv_heads
 * defaults to heads, head_dim_v to head_dim_qk, k/v/o dtype to q's, seqlen_k to seqlen_q. */
const struct schema *schema_attention_forward(void);

/* built-in schema by family name, or NULL */
const struct schema *schema_built_in(const char *family);

int schema_find(const struct schema *schema, const char *field); /* index or -1 */

/* a heap copy read from JSON ({"family":..., "fields":[{"name","kind","role",...}], "ratios":[...]}) ; free() it */
attune_status schema_from_json(const json_t *json, struct schema **schema, struct error *error);
json_t *schema_to_json(const struct schema *schema); /* new reference, NULL without memory */

/* family name at the head of a problem text, so that its schema can be looked up */
attune_status problem_family(const char *text, char family[FAMILY_NAME_BYTES], struct error *error);

/* Parse and check everything that needs no template: syntax, domains, divisibility, sizes whose products overflow
 * int64. `text` may or may not start with the family name. */
attune_status problem_parse(const struct schema *schema, const char *text, struct problem *problem,
                            struct error *error);

/* the same checks on values set by hand (the C API's struct). Fields still unset get their default first, so set all
 * you mean to set before */
attune_status problem_check(struct problem *problem, struct error *error);
/* every value at its default; fields that are required, follow another or are computed (alignment) are left unset until
 * problem_check */
void problem_defaults(const struct schema *schema, struct problem *problem);

attune_status problem_format(const struct problem *problem, char text[PROBLEM_TEXT_BYTES], struct error *error);
/* compiled facts only: `attention.forward q_dtype=f16 ... head_ratio=4 dropout=on`; equal text = same specialisation */
attune_status problem_specialisation(const struct problem *problem, char text[PROBLEM_TEXT_BYTES], struct error *error);
/* run-time sizes only, in schema order, fit for a file name: `batch1-heads32-kv_heads8-seqlen_q2048-seqlen_k2048` */
attune_status problem_shape(const struct problem *problem, char text[PROBLEM_TEXT_BYTES], struct error *error);

/* value by name; the caller knows that the field exists and its kind (asserted) */
int64_t problem_integer(const struct problem *problem, const char *field);
double problem_real(const struct problem *problem, const char *field);
const char *problem_choice(const struct problem *problem, const char *field);
attune_status problem_set_integer(struct problem *problem, const char *field, int64_t value, struct error *error);
attune_status problem_set_real(struct problem *problem, const char *field, double value, struct error *error);
attune_status problem_set_choice(struct problem *problem, const char *field, const char *value, struct error *error);

/* bytes of one element of a dtype name ("f16" 2, "f32" 4), 0 if unknown or if elements come in blocks (q8_0) */
int dtype_bytes(const char *dtype);

#endif
