/* bind_named.c - launches of any family: values come by name. attention.forward's names are those of its struct, so
 * that its checks are the same whichever call is used. */
#include "runtime/plan.h"

#include <stddef.h>
#include <string.h>

static const char *kind_name(attune_argument_kind kind)
{
    switch (kind) {
    case ATTUNE_ARGUMENT_POINTER:
        return "a pointer";
    case ATTUNE_ARGUMENT_INTEGER:
        return "an integer";
    case ATTUNE_ARGUMENT_REAL:
        return "a real number";
    }
    return "of no kind (set kind)";
}

static attune_status wrong_kind(const attune_argument *argument, attune_argument_kind expected, struct error *error)
{
    return error_set(error, ATTUNE_INVALID, "argument \"%.40s\" is %s, expected %s", argument->name,
                     kind_name(argument->kind), kind_name(expected));
}

/* every name once, none NULL */
static attune_status check_names(const attune_argument *arguments, size_t count, struct error *error)
{
    if (count > 2 * LAUNCH_ARGUMENTS_MAX) {
        return error_set(error, ATTUNE_INVALID, "count=%zu arguments are more than the %d that a kernel can take",
                         count, 2 * LAUNCH_ARGUMENTS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (arguments[i].name == NULL) {
            return error_set(error, ATTUNE_INVALID, "arguments[%zu].name is NULL", i);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(arguments[i].name, arguments[j].name) == 0) {
                return error_set(error, ATTUNE_INVALID, "argument \"%.40s\" is given twice", arguments[i].name);
            }
        }
    }
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ attention */

#define MEMBER(name, kind)                                                                                             \
    {                                                                                                                  \
#name, kind, offsetof(attune_attention_arguments, name)                                                        \
    }
static const struct {
    const char *name;
    attune_argument_kind kind;
    size_t offset;
} members[] = {
    MEMBER(q, ATTUNE_ARGUMENT_POINTER),
    MEMBER(k, ATTUNE_ARGUMENT_POINTER),
    MEMBER(v, ATTUNE_ARGUMENT_POINTER),
    MEMBER(o, ATTUNE_ARGUMENT_POINTER),
    MEMBER(lse, ATTUNE_ARGUMENT_POINTER),
    MEMBER(seed_pointer, ATTUNE_ARGUMENT_POINTER),
    MEMBER(offset_pointer, ATTUNE_ARGUMENT_POINTER),
    MEMBER(batch, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(heads, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(kv_heads, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(seqlen_q, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(seqlen_k, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(q_batch_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(q_seq_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(q_head_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(k_batch_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(k_seq_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(k_head_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(v_batch_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(v_seq_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(v_head_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(o_batch_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(o_seq_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(o_head_stride, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(seed, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(offset, ATTUNE_ARGUMENT_INTEGER),
    MEMBER(scale, ATTUNE_ARGUMENT_REAL),
    MEMBER(dropout, ATTUNE_ARGUMENT_REAL),
};
#undef MEMBER
enum { MEMBER_COUNT = sizeof members / sizeof members[0] };

static attune_status attention_by_name(const attune_plan *plan, const attune_argument *arguments, size_t count,
                                       void *stream, void *workspace, size_t workspace_bytes, struct error *error)
{
    attune_attention_arguments own = {.size = sizeof own};
    for (size_t i = 0; i < count; i++) {
        int m = 0;
        while (m < MEMBER_COUNT && strcmp(members[m].name, arguments[i].name) != 0) {
            m++;
        }
        if (m == MEMBER_COUNT && strlen(arguments[i].name) > 2 && strcmp(arguments[i].name + 1, "_dim_stride") == 0) {
            return error_set(error, ATTUNE_INVALID,
                             "argument \"%.40s\": the head dimension is contiguous (stride 1) in every tensor; copy a "
                             "transposed one",
                             arguments[i].name);
        }
        if (m == MEMBER_COUNT) {
            return error_set(error, ATTUNE_INVALID,
                             "argument \"%.40s\" is unknown to attention.forward; names are the fields of "
                             "attune_attention_arguments",
                             arguments[i].name);
        }
        if (arguments[i].kind != members[m].kind) {
            return wrong_kind(&arguments[i], members[m].kind, error);
        }
        char *at = (char *)&own + members[m].offset;
        if (members[m].kind == ATTUNE_ARGUMENT_POINTER) {
            memcpy(at, &arguments[i].pointer, sizeof arguments[i].pointer);
        } else if (members[m].kind == ATTUNE_ARGUMENT_INTEGER) {
            memcpy(at, &arguments[i].integer, sizeof arguments[i].integer);
        } else {
            memcpy(at, &arguments[i].real, sizeof arguments[i].real);
        }
        own.explicit_dropout = own.explicit_dropout || strcmp(arguments[i].name, "dropout") == 0;
        if (arguments[i].kind == ATTUNE_ARGUMENT_INTEGER && arguments[i].integer == 0 &&
            strstr(arguments[i].name, "_stride") == NULL && strcmp(arguments[i].name, "seed") != 0 &&
            strcmp(arguments[i].name, "offset") != 0) {
            own.explicit_sizes = 1;
        }
    }
    /* a size of 0 that is named is meant: then those not named must be filled in here */
    if (own.explicit_sizes) {
        const struct attention_facts *facts = &plan->attention;
        const int fields[] = {facts->batch, facts->heads, facts->kv_heads, facts->seqlen_q, facts->seqlen_k};
        int64_t *const sizes[] = {&own.batch, &own.heads, &own.kv_heads, &own.seqlen_q, &own.seqlen_k};
        for (int s = 0; s < 5; s++) {
            bool named = false;
            for (size_t i = 0; i < count; i++) {
                named = named || strcmp(arguments[i].name, plan->problem.schema->fields[fields[s]].name) == 0;
            }
            *sizes[s] = named ? *sizes[s] : plan->problem.values[fields[s]].integer;
        }
    }
    return attention_launch(plan, &own, stream, workspace, workspace_bytes, error);
}

/* ------------------------------------------------------------------------------------------------ other families */

static const attune_argument *find_named(const attune_argument *arguments, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(arguments[i].name, name) == 0) {
            return &arguments[i];
        }
    }
    return NULL;
}

/* named run-time fields replace those of the plan's problem; compiled ones may only repeat them */
static attune_status read_fields(const attune_plan *plan, const attune_argument *arguments, size_t count,
                                 struct problem *sizes, struct error *error)
{
    const struct schema *schema = plan->problem.schema;
    *sizes = plan->problem;
    for (size_t i = 0; i < count; i++) {
        const attune_argument *given = &arguments[i];
        int f = schema_find(schema, given->name);
        if (f < 0) {
            continue;
        }
        const struct field *field = &schema->fields[f];
        if (field->kind == FIELD_INTEGER && given->kind == ATTUNE_ARGUMENT_INTEGER) {
            bool run_time = field->role == FIELD_SIZE || field->role == FIELD_SCALAR || field->role == FIELD_OPTION;
            if (!run_time && given->integer != sizes->values[f].integer) {
                return error_set(
                    error, ATTUNE_INVALID, "%s=%lld: the plan's kernel was compiled for %s=%lld; prepare another plan",
                    field->name, (long long)given->integer, field->name, (long long)sizes->values[f].integer);
            }
            int64_t minimum = field->role == FIELD_SIZE && field->minimum > 0 ? 0 : field->minimum;
            if (given->integer < minimum || given->integer > field->maximum) {
                return error_set(error, ATTUNE_INVALID, "%s=%lld is outside %lld to %lld", field->name,
                                 (long long)given->integer, (long long)minimum, (long long)field->maximum);
            }
            sizes->values[f].integer = given->integer;
        } else if (field->kind == FIELD_REAL && given->kind == ATTUNE_ARGUMENT_REAL) {
            if (!(given->real >= field->real_minimum && given->real <= field->real_maximum)) {
                return error_set(error, ATTUNE_INVALID, "%s=%g is outside %g to %g", field->name, given->real,
                                 field->real_minimum, field->real_maximum);
            }
            sizes->values[f].real = given->real;
        } else if (field->kind != FIELD_CHOICE && given->kind != ATTUNE_ARGUMENT_POINTER) {
            return wrong_kind(given, field->kind == FIELD_REAL ? ATTUNE_ARGUMENT_REAL : ATTUNE_ARGUMENT_INTEGER, error);
        }
    }
    return ATTUNE_OK;
}

static attune_status check_ratios(const attune_plan *plan, const struct problem *sizes, struct error *error)
{
    const struct schema *schema = plan->problem.schema;
    for (int i = 0; i < schema->ratio_count; i++) {
        const struct schema_ratio *ratio = &schema->ratios[i];
        int64_t above = sizes->values[ratio->numerator].integer, below = sizes->values[ratio->denominator].integer;
        int64_t planned =
            plan->problem.values[ratio->numerator].integer / plan->problem.values[ratio->denominator].integer;
        if (below < 1 || above % below != 0 || above / below != planned) {
            return error_set(error, ATTUNE_INVALID,
                             "%s=%lld on %s=%lld: the plan's kernel was compiled for a ratio of %lld",
                             schema->fields[ratio->numerator].name, (long long)above,
                             schema->fields[ratio->denominator].name, (long long)below, (long long)planned);
        }
    }
    return ATTUNE_OK;
}

/* is the name an argument of the kernel, or a field of the family? */
static attune_status check_known(const attune_plan *plan, const attune_argument *given, struct error *error)
{
    for (int i = 0; i < plan->launch.argument_count; i++) {
        enum binding_source source = plan->bindings[i].source;
        if ((source == BIND_NAMED || source == BIND_FIELD) &&
            strcmp(plan->launch.arguments[i].name, given->name) == 0) {
            return ATTUNE_OK;
        }
    }
    if (schema_find(plan->problem.schema, given->name) >= 0) {
        return ATTUNE_OK;
    }
    return error_set(error, ATTUNE_INVALID, "argument \"%.40s\" is neither an argument of kernel %s nor a field of %s",
                     given->name, plan->launch.kernel, plan->problem.schema->family);
}

static attune_argument_kind kind_of(enum argument_type type)
{
    return type == ARGUMENT_POINTER ? ATTUNE_ARGUMENT_POINTER
           : type == ARGUMENT_F32   ? ATTUNE_ARGUMENT_REAL
                                    : ATTUNE_ARGUMENT_INTEGER;
}

static attune_status read_value(const attune_plan *plan, int index, const attune_argument *arguments, size_t count,
                                const struct problem *sizes, union launch_value *value, struct error *error)
{
    const struct launch_argument *argument = &plan->launch.arguments[index];
    const struct binding *binding = &plan->bindings[index];
    value->natural = 0;
    if (binding->source == BIND_FIELD) {
        if (sizes->schema->fields[binding->index].kind == FIELD_REAL) {
            value->real = sizes->values[binding->index].real;
        } else {
            value->integer = sizes->values[binding->index].integer;
        }
        return ATTUNE_OK;
    }
    if (binding->source != BIND_NAMED) {
        return ATTUNE_OK;
    }
    const attune_argument *given = find_named(arguments, count, argument->name);
    if (given == NULL) {
        return error_set(error, ATTUNE_INVALID, "argument \"%s\" of kernel %s is missing; give %s", argument->name,
                         plan->launch.kernel, kind_name(kind_of(argument->type)));
    }
    if (given->kind != kind_of(argument->type)) {
        return wrong_kind(given, kind_of(argument->type), error);
    }
    if (given->kind == ATTUNE_ARGUMENT_POINTER) {
        value->pointer = given->pointer;
    } else if (given->kind == ATTUNE_ARGUMENT_REAL) {
        value->real = given->real;
    } else {
        value->integer = given->integer; /* u64: the same bits */
    }
    return ATTUNE_OK;
}

/* after the grid is known to have blocks: pointers must be there */
static attune_status check_pointers(const attune_plan *plan, const union launch_value *values,
                                    const struct problem *sizes, struct error *error)
{
    uint64_t grid[3];
    attune_status status = launch_grid(&plan->launch, sizes, plan->device->facts.compute_units, grid, error);
    if (status != ATTUNE_OK || grid[0] == 0 || grid[1] == 0 || grid[2] == 0) {
        return status;
    }
    for (int i = 0; i < plan->launch.argument_count; i++) {
        if (plan->bindings[i].source == BIND_NAMED && plan->launch.arguments[i].type == ARGUMENT_POINTER &&
            values[i].pointer == NULL) {
            return error_set(error, ATTUNE_INVALID, "%s is NULL; pass the device address of the tensor",
                             plan->launch.arguments[i].name);
        }
    }
    return ATTUNE_OK;
}

attune_status named_launch(const attune_plan *plan, const attune_argument *arguments, size_t count, void *stream,
                           void *workspace, size_t workspace_bytes, struct error *error)
{
    struct problem sizes;
    union launch_value values[LAUNCH_ARGUMENTS_MAX];
    attune_status status = check_names(arguments, count, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (plan->is_attention) {
        return attention_by_name(plan, arguments, count, stream, workspace, workspace_bytes, error);
    }
    for (size_t i = 0; i < count && status == ATTUNE_OK; i++) {
        status = check_known(plan, &arguments[i], error);
    }
    if (status == ATTUNE_OK) {
        status = read_fields(plan, arguments, count, &sizes, error);
    }
    if (status == ATTUNE_OK) {
        status = check_ratios(plan, &sizes, error);
    }
    for (int i = 0; i < plan->launch.argument_count && status == ATTUNE_OK; i++) {
        status = read_value(plan, i, arguments, count, &sizes, &values[i], error);
    }
    if (status == ATTUNE_OK) {
        status = check_pointers(plan, values, &sizes, error);
    }
    return status == ATTUNE_OK ? launch_values(plan, values, &sizes, stream, workspace, workspace_bytes, error)
                               : status;
}
