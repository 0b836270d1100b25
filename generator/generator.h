/* generator.h - families, spaces, candidates and their source text.
 *
 * One `struct generator` owns one sandboxed Lua state with all families loaded: the embedded ones, then those found in
 * ATTUNE_TEMPLATE_PATH (colon-separated folders; each *.lua directly inside returns one family table, or is a library
 * for import; a family of the same name replaces the embedded one, a file of the same name the embedded file). Not
 * thread-safe: one generator a thread. Knows nothing of stores or devices.
 *
 * Same input, same bytes: no pairs() order, addresses, time or locale reach the text.
 */
#ifndef GENERATOR_GENERATOR_H
#define GENERATOR_GENERATOR_H

#include "base/buffer.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/launch.h"
#include "base/problem.h"
#include "base/target.h"

enum {
    CANDIDATE_PARAMETERS_MAX = 24,
    CANDIDATE_VALUE_BYTES = 24,
    CANDIDATE_TEXT_BYTES = 1024,
    CANDIDATE_ID_BYTES = DIGEST_SHORT_BYTES
};

struct candidate {
    char family[FAMILY_NAME_BYTES];
    char template_name[FIELD_NAME_BYTES];
    int parameter_count;
    struct {
        char name[FIELD_NAME_BYTES];
        char value[CANDIDATE_VALUE_BYTES];
    } parameters[CANDIDATE_PARAMETERS_MAX]; /* in declaration order, complete */
};

struct generator;

struct generator_options {
    const char *template_path;  /* NULL: $ATTUNE_TEMPLATE_PATH; "" : embedded only */
    uint64_t instruction_limit; /* a Lua call; 0: 200 million */
    size_t memory_limit;        /* the Lua state; 0: 256 MiB */
};

attune_status generator_create(const struct generator_options *options, struct generator **generator,
                               struct error *error);
void generator_destroy(struct generator *generator);
/* appends the folders that it reads templates from, colon-separated; nothing when there are only the embedded ones */
void generator_template_path(const struct generator *generator, struct buffer *path);

/* ---- families and parameters, for people and for tools ---- */
int generator_family_count(const struct generator *generator);
const char *generator_family_name(const struct generator *generator, int index); /* owned by the generator */
const char *generator_family_doc(const struct generator *generator, int index);
/* NULL when there is no such family; owned by the generator, or static for built-in families */
const struct schema *generator_schema(struct generator *generator, const char *family);

/* {"family","doc","templates":[{"name","doc","file","constraints":[doc...],
 *   "parameters":[{"name","doc","domain":[...],"default","live":[...],"dead":[{"value","reason"}]}],
 *   "supported":bool,"reason", "points","valid","rejected":[{"reason","count","example":{"candidate","reason"}}]}]}:
 * what `attune params` prints. With problem and target NULL only the declarations; "reason" only of a template that
 * does not support the problem, which then has no default, live, dead, points, valid and rejected. New reference. */
attune_status generator_params(struct generator *generator, const char *family, const struct problem *problem,
                               const struct target *target, json_t **json, struct error *error);

/* the facts row of a target as JSON (wave, lds_bytes, lds_banks, registers, ...), with "lds", the rule named by
 * lds_rule:
 * {"name","banks","status","source","note","read":{"4":[[lane...]...],"8","16"},"write","known"}. ATTUNE_UNSUPPORTED
 * for a target without facts: the message lists those there are. New reference. */
attune_status generator_target_facts(struct generator *generator, const struct target *target, json_t **json,
                                     struct error *error);
int generator_target_count(struct generator *generator);
const char *generator_target_name(struct generator *generator, int index);

/* ---- candidates ---- */
/* `family/template k=v ...` or `k=v ...` on top of the default; unknown names and values outside their domain are
 * refused with the domain. problem and target may be NULL only for a full name. */
attune_status candidate_parse(struct generator *generator, const char *text, const struct problem *problem,
                              const struct target *target, struct candidate *candidate, struct error *error);
void candidate_format(const struct candidate *candidate, char text[CANDIDATE_TEXT_BYTES]);
void candidate_id(const struct candidate *candidate,
                  char id[CANDIDATE_ID_BYTES]); /* 12 hex digits of the name's digest */

/* ATTUNE_OK, or ATTUNE_UNSUPPORTED with the constraint's own reason */
attune_status candidate_check(struct generator *generator, const struct candidate *candidate,
                              const struct problem *problem, const struct target *target, struct error *error);

/* the default of the best template for the target; always passes candidate_check or the call fails with the reason (for
 * example an option that no template honours yet, by the option's name) */
attune_status candidate_default(struct generator *generator, const struct problem *problem, const struct target *target,
                                struct candidate *candidate, struct error *error);

struct candidate_list {
    struct candidate *items; /* free with candidate_list_free */
    int count;
    int points;   /* points of all spaces looked at */
    int rejected; /* of them refused by constraints */
};
void candidate_list_free(struct candidate_list *list);

/* every valid candidate, declaration order, default first */
attune_status candidate_enumerate(struct generator *generator, const struct problem *problem,
                                  const struct target *target, struct candidate_list *list, struct error *error);
/* A pairwise cover, at most n candidates (n <= 0: as many as pairs need): every live pair of parameter values in as
 * many candidates as fit. Deterministic in seed; default first, then those that bring the templates' paths. */
attune_status candidate_cover(struct generator *generator, const struct problem *problem, const struct target *target,
                              int n, uint64_t seed, struct candidate_list *list, struct error *error);

/* ---- source ---- */
struct expansion {
    struct buffer shown;   /* the product: head comment, vocabulary include line, kernel. What people read */
    struct buffer keyed;   /* what an object's name depends on: `shown` without the line that tells the digest of the
                              template's files, which any edit changes, and the launch descriptor */
    struct buffer compile; /* vocabulary + kernel with #line directives that name templates/FILE: what compilers get */
    size_t vocabulary_begin, vocabulary_bytes; /* where in `compile` the vocabulary stands */
    struct launch launch;
    struct digest template_digest; /* of the template's and family's bytes */
    struct digest vocabulary_digest;
};
void expansion_free(struct expansion *expansion);

/* Buffers are cleared and reused, so that a loop of expansions does not allocate. A failing template gives
 * ATTUNE_INVALID (its Lua error) or ATTUNE_TIMEOUT (instruction limit) with file and line. */
attune_status candidate_expand(struct generator *generator, const struct candidate *candidate,
                               const struct problem *problem, const struct target *target, struct expansion *expansion,
                               struct error *error);

/* ---- pages: texts that are no kernels ---- */
/* Appends what templates/FILE, a text in the same language, makes of `data`, which it sees as `d`: objects and arrays
 * as tables, null as nil. It has no c, p and t. The text is HTML or XML: whatever ${} substitutes is escaped, always,
 * so that no template can forget it; markup stands in the template alone. Files come from where kernels' do, so that a
 * folder of the template path may bring another page. Errors as candidate_expand's; `text` is then as it was. */
attune_status generator_render(struct generator *generator, const char *file, const json_t *data, struct buffer *text,
                               struct error *error);

/* ---- a user family's own reference and inputs (Lua functions); attention's are in C ---- */
/* does the family bring `reference` and `inputs`? */
bool generator_has_reference(struct generator *generator, const char *family);

/* Tensors of a problem, in the order of the family's `tensors` list. */
struct tensor_spec {
    char name[FIELD_NAME_BYTES];
    char dtype[FIELD_NAME_BYTES];
    bool output;
    int64_t elements;
};
attune_status generator_tensors(struct generator *generator, const struct problem *problem, struct tensor_spec *specs,
                                int capacity, int *count, struct error *error);
/* fp64 input of one tensor; kind 0 normal, 1 peaked, 2 structured */
attune_status generator_inputs(struct generator *generator, const struct problem *problem, int tensor, int kind,
                               uint64_t seed, double *values, struct error *error);
/* all tensors' values in; outputs filled with the fp64 reference and, per element, the allowed absolute difference */
attune_status generator_reference(struct generator *generator, const struct problem *problem, double *const *tensors,
                                  double *const *tolerance, struct error *error);
/* floating-point operations of the problem, for TFLOP/s; 0 when the family does not say */
double generator_operations(struct generator *generator, const struct problem *problem);

#endif
