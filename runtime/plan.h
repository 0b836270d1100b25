/* plan.h - plans: a problem bound to a loaded object, with everything about a launch that can be known before it.
 *
 * A plan never changes once made; a launch keeps all it needs on its stack: it takes no lock, allocates nothing,
 * compiles, loads and synchronises nothing.
 */
#ifndef RUNTIME_PLAN_H
#define RUNTIME_PLAN_H

#include "runtime/context.h"

/* an argument's value before it is packed; which member holds follows from the argument's type */
union launch_value {
    const void *pointer;
    int64_t integer;
    uint64_t natural; /* u64 */
    double real;
};

/* where a kernel argument's value comes from */
enum binding_source {
    BIND_ATTENTION, /* index into the values of bind_attention.c */
    BIND_FIELD,     /* field of the problem, run-time sizes as launched */
    BIND_NAMED,     /* given by the caller under the argument's name */
    BIND_ORIGIN,    /* index: dimension of the grid */
    BIND_WORKSPACE
};
struct binding {
    enum binding_source source;
    int index;
};

enum attention_tensor { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_O, TENSOR_COUNT };

/* attention.forward: what its checks need, read from the problem once */
struct attention_facts {
    int batch, heads, kv_heads, seqlen_q, seqlen_k; /* field indices */
    int64_t head_ratio;
    int64_t head_dim[TENSOR_COUNT];
    int element_bytes[TENSOR_COUNT];
    int64_t alignment;
    bool lse;
    bool dropout;              /* compiled in */
    double scale, probability; /* of the problem; scale resolved */
};

struct attune_plan {
    attune_device *device;
    struct module *module;
    struct launch launch;
    struct problem problem;
    bool is_attention;
    struct attention_facts attention;
    struct binding bindings[LAUNCH_ARGUMENTS_MAX];
    uint32_t offsets[LAUNCH_ARGUMENTS_MAX];
    uint32_t argument_bytes;
    uint32_t pointer_offsets[LAUNCH_ARGUMENTS_MAX];
    int pointer_count;
    int limit_arguments[LAUNCH_LIMITS_MAX]; /* argument index */
    int fixed_fields[LAUNCH_FIXED_MAX];     /* field index */
    attune_plan_info info;
};

/* Loads the record's object and binds it. ATTUNE_NOT_FOUND when the store has no such object; ATTUNE_UNSUPPORTED when
 * the descriptor asks for something that cannot be bound. */
attune_status plan_create(attune_device *device, const struct problem *problem, const struct record *record,
                          attune_rung rung, bool stale, const char *note, attune_plan **plan, struct error *error);

/* attune_prepare without the reporting */
attune_status plan_prepare(attune_device *device, const struct problem *problem, const attune_prepare_options *options,
                           attune_plan **plan, struct error *error);

/* ---- launch.c ---- */
/* one value per argument (origins and workspace are filled in here); `sizes` is the problem with this launch's sizes */
attune_status launch_values(const attune_plan *plan, const union launch_value *values, const struct problem *sizes,
                            void *stream, void *workspace, size_t workspace_bytes, struct error *error);

/* ---- bind_attention.c ---- */
/* binding of a kernel argument by name; false when attention has no such value or not of this type */
bool attention_bind(const struct launch_argument *argument, struct binding *binding);
void attention_facts_read(const struct problem *problem, struct attention_facts *facts);
/* run-time sizes of a launch into `sizes`, checked against the plan; *empty when no output element exists */
attune_status attention_sizes(const attune_plan *plan, const attune_attention_arguments *arguments,
                              struct problem *sizes, bool *empty, struct error *error);
attune_status attention_launch(const attune_plan *plan, const attune_attention_arguments *arguments, void *stream,
                               void *workspace, size_t workspace_bytes, struct error *error);

/* ---- bind_named.c ---- */
attune_status named_launch(const attune_plan *plan, const attune_argument *arguments, size_t count, void *stream,
                           void *workspace, size_t workspace_bytes, struct error *error);

#endif
