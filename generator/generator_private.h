/* generator_private.h - what the generator's own files share: families as read from Lua, and how values cross into Lua.
 *
 * Everything that a family declares as data is copied into C when the generator is made; its functions are kept as
 * references in the Lua registry. Functions marked "inside" run within sandbox_protect and may raise.
 */
#ifndef GENERATOR_PRIVATE_H
#define GENERATOR_PRIVATE_H

#include "generator/dialect.h"
#include "generator/generator.h"
#include "generator/sandbox.h"
#include "generator/sources.h"

enum { PARAMETER_VALUES_MAX = 64, CONSTRAINTS_MAX = 64, TEMPLATES_MAX = 16, FAMILIES_MAX = 256, DOC_BYTES = 256 };

struct value {
    char text[CANDIDATE_VALUE_BYTES];
    bool integer;
    lua_Integer number;
};

struct parameter {
    char name[FIELD_NAME_BYTES];
    char doc[DOC_BYTES];
    int value_count;
    struct value *values; /* owned */
    int here;             /* Lua function (p, t): the values that this target has for this problem, or LUA_NOREF */
};

struct constraint {
    char doc[DOC_BYTES];
    int check; /* Lua function (c, p, t) */
};

struct kernel_template {
    char name[FIELD_NAME_BYTES];
    char file[SOURCE_NAME_BYTES];
    char doc[DOC_BYTES];
    int parameter_count;
    struct parameter parameters[CANDIDATE_PARAMETERS_MAX];
    int constraint_count;
    struct constraint constraints[CONSTRAINTS_MAX];
    int supports, fallback, derive, launch, paths; /* Lua functions; LUA_NOREF when absent */
    int names;                                     /* Lua table: parameter name -> index from 0 */
    struct dialect_program *program;               /* NULL before the first expansion */
    struct digest digest;                          /* of all files it is made of; set with program */
    char digest_hex[DIGEST_HEX_BYTES];
};

struct family {
    char name[FAMILY_NAME_BYTES];
    char doc[DOC_BYTES];
    char file[SOURCE_NAME_BYTES];
    int origin;                /* folder index or SOURCE_EMBEDDED */
    struct schema *own_schema; /* NULL for built-in families */
    const struct schema *schema;
    int template_count;
    struct kernel_template *templates; /* owned, TEMPLATES_MAX allocated */
    int tensors, inputs, reference, operations;
    struct buffer bytes; /* the file, for the digest */
};

/* The candidate that the shared `c` shows to Lua: reads are noted, so that the space walk knows what a verdict depended
 * on. */
struct point {
    const struct kernel_template *of;
    uint8_t index[CANDIDATE_PARAMETERS_MAX]; /* per parameter: which of its values */
    int deepest_read;                        /* largest parameter index read since it was set to -1 */
};

struct vocabulary {
    char name[FIELD_NAME_BYTES];
    struct buffer text;
    struct digest digest;
    char digest_hex[DIGEST_HEX_BYTES];
};

enum { VOCABULARIES_MAX = 8 };

struct generator {
    struct sandbox sandbox;
    struct sources sources;
    int family_count;
    struct family *families[FAMILIES_MAX]; /* in the order of their names */
    int imports;                           /* Lua table: "origin:name" -> result */
    const struct family *importing;        /* whose folder import() prefers */
    int targets_find;                      /* Lua: targets.find */
    int targets_describe;                  /* Lua: targets.describe */
    int target_count;
    char (*target_names)[TARGET_TEXT_BYTES];
    int facts;     /* Lua table: processor -> read-only row */
    int candidate; /* Lua: the shared c */
    struct point point;
    int problem_table; /* Lua: read-only p of `problem`, LUA_NOREF before the first */
    struct problem problem;
    int vocabulary_count;
    struct vocabulary vocabularies[VOCABULARIES_MAX];
    struct buffer scratch;
};

/* ---- families.c ---- */
attune_status families_load(struct generator *generator, struct error *error);
void families_free(struct generator *generator);
/* ATTUNE_NOT_FOUND lists the families */
attune_status family_find(const struct generator *generator, const char *name, struct family **family,
                          struct error *error);
/* ATTUNE_NOT_FOUND lists the family's templates */
attune_status template_find(const struct family *family, const char *name, struct kernel_template **result,
                            struct error *error);
int parameter_find(const struct kernel_template *of, const char *name);        /* index or -1 */
int parameter_value_find(const struct parameter *parameter, const char *text); /* index or -1 */
void parameter_domain(const struct parameter *parameter, struct buffer *text); /* "16, 32, 64" */
/* import(), into the table of globals on top. Inside */
void families_open_import(lua_State *L, struct generator *generator);
/* reads and compiles the template's file once */
attune_status template_prepare(struct generator *generator, const struct family *family, struct kernel_template *of,
                               struct error *error);

/* ---- lua_values.c ---- */
/* makes `c`; inside */
void values_open(lua_State *L, struct generator *generator);
/* what generator/lua/NAME.lua returns; inside */
void push_own_lua(lua_State *L, const char *name);
/* loads generator/lua/targets.lua; inside */
void values_load_targets(lua_State *L, struct generator *generator);
/* one value each; inside */
void push_candidate(lua_State *L, struct generator *generator);
void push_problem(lua_State *L, struct generator *generator, const struct problem *problem);
void push_target(lua_State *L, struct generator *generator, const struct target *target);
/* the facts with where they are from and the whole LDS rule: for people and tools, not for templates */
void push_target_description(lua_State *L, struct generator *generator, const struct target *target);
/* the JSON value as Lua's own tables, null as nil; inside. Raises for what is nested deeper than JSON_DEPTH_MAX */
enum { JSON_DEPTH_MAX = 12 };
void push_json(lua_State *L, const json_t *value);
/* the plain value at `index` as JSON; tables with items are arrays, others objects with sorted keys, whole reals
 * integers. Raises nothing. NULL for what JSON cannot hold (functions, NaN, deep nesting, more than VALUE_JSON_MAX
 * values in all), or without memory */
enum { VALUE_JSON_MAX = 16384 };
json_t *value_to_json(lua_State *L, int index);

struct call;

/* ---- points ---- */
/* checks names, completeness and domains; does not look at constraints */
attune_status point_of_candidate(const struct candidate *candidate, const struct family *family,
                                 const struct kernel_template *of, struct point *point, struct error *error);
void candidate_of_point(const struct family *family, const struct point *point, struct candidate *candidate);
/* the template's default table as a point; inside */
void point_default(lua_State *L, struct generator *generator, const struct family *family,
                   const struct kernel_template *of, const struct problem *problem, const struct target *target,
                   struct point *point);
/* supports(p, t): true, or false with the reason in `reason`; inside */
bool template_supports(lua_State *L, struct generator *generator, const struct family *family,
                       const struct kernel_template *of, const struct problem *problem, const struct target *target,
                       struct buffer *reason);
/* raises ATTUNE_UNSUPPORTED with supports()' reason where the template does not serve the call's problem; inside */
void template_require(lua_State *L, const struct call *call);
/* runs constraint `index` on generator->point with p and t at those stack places; on false the reason is on the stack's
 * top. inside */
bool constraint_holds(lua_State *L, struct generator *generator, const struct family *family, int index, int p, int t);
/* all constraints on generator->point; raises ATTUNE_UNSUPPORTED with candidate and reason; inside */
void point_check(lua_State *L, struct generator *generator, const struct family *family, int p, int t);

/* ---- space.c ---- */
struct rejection {
    uint64_t count;
    char reason[256]; /* of its first point */
    struct point example;
};

/* every valid point of one template's space, in declaration order with the last parameter fastest */
struct space {
    const struct kernel_template *of;
    uint8_t *points; /* valid_count rows of parameter_count value indices; owned */
    size_t valid_count, capacity;
    uint64_t *paths; /* by row, a bit each; NULL until named; owned */
    uint64_t total;  /* product of the domains */
    uint64_t rejected;
    struct rejection rejections[CONSTRAINTS_MAX]; /* by constraint */
};
attune_status space_walk(struct generator *generator, const struct family *family, const struct kernel_template *of,
                         const struct problem *problem, const struct target *target, struct space *space,
                         struct error *error);
void space_free(struct space *space);
/* paths.c: asks the template which pieces of its text each valid point has */
attune_status space_name_paths(struct generator *generator, const struct family *family, const struct problem *problem,
                               const struct target *target, struct space *space, struct error *error);

/* one Lua call with everything bound, for sandbox_protect's data */
struct call {
    struct generator *generator;
    const struct family *family;
    const struct kernel_template *of;
    const struct problem *problem;
    const struct target *target;
    void *result;
    struct error *error;
};

#endif
