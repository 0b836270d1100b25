/* bind_attention.c - attention.forward: from the caller's struct to the kernel's arguments.
 *
 * A table lists every value that a kernel may take by name. A launch fills all of them, after checking all that can be
 * wrong with them; the plan's bindings pick those that its kernel takes.
 */
#include "runtime/plan.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum value_kind { VALUE_POINTER, VALUE_INTEGER, VALUE_NATURAL, VALUE_REAL };

enum value_id {
    VALUE_Q,
    VALUE_K,
    VALUE_V,
    VALUE_O,
    VALUE_LSE,
    VALUE_SEED_POINTER,
    VALUE_OFFSET_POINTER,
    VALUE_BATCH,
    VALUE_HEADS,
    VALUE_KV_HEADS,
    VALUE_SEQLEN_Q,
    VALUE_SEQLEN_K,
    VALUE_STRIDES, /* batch, seq, head of q, k, v, o */
    VALUE_SCALE = VALUE_STRIDES + 3 * TENSOR_COUNT,
    VALUE_DROPOUT_THRESHOLD,
    VALUE_DROPOUT_SCALE,
    VALUE_SEED,
    VALUE_OFFSET,
    VALUE_COUNT
};

static const struct {
    const char *name;
    enum value_kind kind;
} table[VALUE_COUNT] = {
    [VALUE_Q] = {"q", VALUE_POINTER},
    [VALUE_K] = {"k", VALUE_POINTER},
    [VALUE_V] = {"v", VALUE_POINTER},
    [VALUE_O] = {"o", VALUE_POINTER},
    [VALUE_LSE] = {"lse", VALUE_POINTER},
    [VALUE_SEED_POINTER] = {"seed_pointer", VALUE_POINTER},
    [VALUE_OFFSET_POINTER] = {"offset_pointer", VALUE_POINTER},
    [VALUE_BATCH] = {"batch", VALUE_INTEGER},
    [VALUE_HEADS] = {"heads", VALUE_INTEGER},
    [VALUE_KV_HEADS] = {"kv_heads", VALUE_INTEGER},
    [VALUE_SEQLEN_Q] = {"seqlen_q", VALUE_INTEGER},
    [VALUE_SEQLEN_K] = {"seqlen_k", VALUE_INTEGER},
    [VALUE_STRIDES + 0] = {"q_batch_stride", VALUE_INTEGER},
    [VALUE_STRIDES + 1] = {"q_seq_stride", VALUE_INTEGER},
    [VALUE_STRIDES + 2] = {"q_head_stride", VALUE_INTEGER},
    [VALUE_STRIDES + 3] = {"k_batch_stride", VALUE_INTEGER},
    [VALUE_STRIDES + 4] = {"k_seq_stride", VALUE_INTEGER},
    [VALUE_STRIDES + 5] = {"k_head_stride", VALUE_INTEGER},
    [VALUE_STRIDES + 6] = {"v_batch_stride", VALUE_INTEGER},
    [VALUE_STRIDES + 7] = {"v_seq_stride", VALUE_INTEGER},
    [VALUE_STRIDES + 8] = {"v_head_stride", VALUE_INTEGER},
    [VALUE_STRIDES + 9] = {"o_batch_stride", VALUE_INTEGER},
    [VALUE_STRIDES + 10] = {"o_seq_stride", VALUE_INTEGER},
    [VALUE_STRIDES + 11] = {"o_head_stride", VALUE_INTEGER},
    [VALUE_SCALE] = {"scale", VALUE_REAL},
    [VALUE_DROPOUT_THRESHOLD] = {"dropout_threshold", VALUE_INTEGER},
    [VALUE_DROPOUT_SCALE] = {"dropout_scale", VALUE_REAL},
    [VALUE_SEED] = {"seed", VALUE_NATURAL},
    [VALUE_OFFSET] = {"offset", VALUE_NATURAL},
};

bool attention_bind(const struct launch_argument *argument, struct binding *binding)
{
    for (int id = 0; id < VALUE_COUNT; id++) {
        if (strcmp(table[id].name, argument->name) != 0) {
            continue;
        }
        *binding = (struct binding){BIND_ATTENTION, id};
        switch (table[id].kind) {
        case VALUE_POINTER:
            return argument->type == ARGUMENT_POINTER;
        case VALUE_INTEGER:
            return argument->type == ARGUMENT_I32 || argument->type == ARGUMENT_U32 || argument->type == ARGUMENT_I64;
        case VALUE_NATURAL:
            return argument->type == ARGUMENT_U64;
        case VALUE_REAL:
            return argument->type == ARGUMENT_F32;
        }
    }
    return false;
}

void attention_facts_read(const struct problem *problem, struct attention_facts *facts)
{
    static const char *const dtypes[TENSOR_COUNT] = {"q_dtype", "k_dtype", "v_dtype", "o_dtype"};
    int64_t qk = problem_integer(problem, "head_dim_qk"), v = problem_integer(problem, "head_dim_v");
    facts->batch = schema_find(problem->schema, "batch");
    facts->heads = schema_find(problem->schema, "heads");
    facts->kv_heads = schema_find(problem->schema, "kv_heads");
    facts->seqlen_q = schema_find(problem->schema, "seqlen_q");
    facts->seqlen_k = schema_find(problem->schema, "seqlen_k");
    facts->head_ratio = problem->values[facts->heads].integer / problem->values[facts->kv_heads].integer;
    facts->head_dim[TENSOR_Q] = facts->head_dim[TENSOR_K] = qk;
    facts->head_dim[TENSOR_V] = facts->head_dim[TENSOR_O] = v;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        int bytes = dtype_bytes(problem_choice(problem, dtypes[t]));
        facts->element_bytes[t] = bytes > 0 ? bytes : 1; /* block formats are counted in bytes */
    }
    facts->alignment = problem_integer(problem, "alignment");
    facts->lse = problem_integer(problem, "lse") != 0;
    facts->probability = problem_real(problem, "dropout");
    facts->dropout = facts->probability > 0;
    facts->scale = problem_real(problem, "scale");
    if (facts->scale == 0) {
        facts->scale = 1 / sqrt((double)qk);
    }
}

/* ------------------------------------------------------------------------------------------------ sizes */

static attune_status check_flag(const char *name, int32_t value, struct error *error)
{
    return value == 0 || value == 1 ? ATTUNE_OK
                                    : error_set(error, ATTUNE_INVALID, "%s=%d is neither 0 nor 1", name, (int)value);
}

attune_status attention_sizes(const attune_plan *plan, const attune_attention_arguments *a, struct problem *sizes,
                              bool *empty, struct error *error)
{
    const struct attention_facts *facts = &plan->attention;
    const struct {
        const char *name;
        int field;
        int64_t value;
    } given[] = {
        {"batch", facts->batch, a->batch},          {"heads", facts->heads, a->heads},
        {"kv_heads", facts->kv_heads, a->kv_heads}, {"seqlen_q", facts->seqlen_q, a->seqlen_q},
        {"seqlen_k", facts->seqlen_k, a->seqlen_k},
    };
    *empty = false;
    *sizes = plan->problem;
    if (check_flag("explicit_sizes", a->explicit_sizes, error) != ATTUNE_OK) {
        return ATTUNE_INVALID;
    }
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        int64_t maximum = sizes->schema->fields[given[i].field].maximum;
        if (given[i].value < 0 || given[i].value > maximum) {
            return error_set(error, ATTUNE_INVALID, "%s=%lld is outside 0 to %lld", given[i].name,
                             (long long)given[i].value, (long long)maximum);
        }
        if (given[i].value != 0 || a->explicit_sizes) {
            sizes->values[given[i].field].integer = given[i].value;
        }
    }
    int64_t heads = sizes->values[facts->heads].integer, kv_heads = sizes->values[facts->kv_heads].integer;
    *empty = sizes->values[facts->batch].integer == 0 || heads == 0 || sizes->values[facts->seqlen_q].integer == 0;
    if (*empty) {
        return ATTUNE_OK;
    }
    if (kv_heads == 0 || heads % kv_heads != 0) {
        return error_set(error, ATTUNE_INVALID, "heads=%lld is not divisible by kv_heads=%lld", (long long)heads,
                         (long long)kv_heads);
    }
    if (heads / kv_heads != facts->head_ratio) {
        return error_set(
            error, ATTUNE_INVALID,
            "heads=%lld on kv_heads=%lld: the plan's kernel was compiled for %lld query heads on one KV head; set "
            "kv_heads=%lld, or prepare a plan for the new ratio",
            (long long)heads, (long long)kv_heads, (long long)facts->head_ratio,
            (long long)(heads / facts->head_ratio));
    }
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ tensors */

enum { AXES = 3 }; /* batch, seq, head */
static const char *const axis_names[AXES] = {"batch", "seq", "head"};

struct tensor {
    const char *name;
    const void *pointer;
    int64_t size[AXES];
    int64_t stride[AXES];
    int64_t head_dim;
    int element_bytes;
    int64_t alignment;
};

/* contiguous [batch, seq, heads, dim] unless the caller says otherwise. ATTUNE_INVALID when even that overflows */
static attune_status default_strides(struct tensor *t, bool explicit_strides, struct error *error)
{
    if (explicit_strides || t->stride[0] != 0 || t->stride[1] != 0 || t->stride[2] != 0) {
        return ATTUNE_OK;
    }
    t->stride[2] = t->head_dim;
    if (__builtin_mul_overflow(t->stride[2], t->size[2], &t->stride[1]) ||
        __builtin_mul_overflow(t->stride[1], t->size[1], &t->stride[0])) {
        return error_set(error, ATTUNE_INVALID, "%s of %lld x %lld x %lld x %lld elements cannot be addressed", t->name,
                         (long long)t->size[0], (long long)t->size[1], (long long)t->size[2], (long long)t->head_dim);
    }
    return ATTUNE_OK;
}

/* An axis with one element or none has no stride: whatever the caller says there is replaced by 0, so that it can
 * neither break a limit nor be used. */
static attune_status check_strides(struct tensor *t, struct error *error)
{
    int64_t last = t->head_dim, bytes = 0;
    for (int axis = 0; axis < AXES; axis++) {
        int64_t stride = t->stride[axis], span = 0;
        if (stride < 0) {
            return error_set(error, ATTUNE_INVALID, "%s_%s_stride=%lld is negative; strides are 0 or more elements",
                             t->name, axis_names[axis], (long long)stride);
        }
        if (t->size[axis] < 2) {
            t->stride[axis] = 0;
            continue;
        }
        if (__builtin_mul_overflow(stride, t->size[axis] - 1, &span) || __builtin_add_overflow(last, span, &last) ||
            __builtin_mul_overflow(last, t->element_bytes, &bytes)) {
            return error_set(error, ATTUNE_INVALID, "%s_%s_stride=%lld times %lld: the tensor's end is past 2^63 bytes",
                             t->name, axis_names[axis], (long long)stride, (long long)t->size[axis]);
        }
        if (stride * t->element_bytes % t->alignment != 0) {
            return error_set(
                error, ATTUNE_INVALID,
                "%s_%s_stride=%lld elements of %d bytes is no multiple of the plan's alignment of %lld bytes; prepare "
                "with alignment=%lld (alignment_bytes) or less%s",
                t->name, axis_names[axis], (long long)stride, t->element_bytes, (long long)t->alignment,
                (long long)((stride * t->element_bytes) & -(stride * t->element_bytes)),
                stride < t->head_dim ? "; rows are contiguous (the head dimension's stride is 1): copy a transposed "
                                       "tensor"
                                     : "");
        }
    }
    return ATTUNE_OK;
}

/* element_bytes: what no alignment class helps against */
static attune_status check_pointer(const char *name, const void *pointer, int64_t alignment, int element_bytes,
                                   struct error *error)
{
    if (pointer == NULL) {
        return error_set(error, ATTUNE_INVALID, "%s is NULL; pass the device address of the tensor", name);
    }
    if ((uintptr_t)pointer % (uintptr_t)element_bytes != 0) {
        return error_set(error, ATTUNE_INVALID, "%s=%p is not aligned to its elements of %d bytes; align it", name,
                         pointer, element_bytes);
    }
    if ((uintptr_t)pointer % (uintptr_t)alignment != 0) {
        uintptr_t address = (uintptr_t)pointer;
        return error_set(error, ATTUNE_INVALID,
                         "%s=%p is not aligned to %lld bytes, as the plan was prepared; align it, or prepare "
                         "with alignment=%lld (alignment_bytes)",
                         name, pointer, (long long)alignment, (long long)(address & (~address + 1)));
    }
    return ATTUNE_OK;
}

/* Each element of an output is written once: sorted by stride, each axis must step over all that the smaller ones span.
 */
static attune_status check_output(const struct tensor *t, struct error *error)
{
    int order[AXES] = {0, 1, 2}, used = 0;
    for (int axis = 0; axis < AXES; axis++) {
        if (t->size[axis] < 2) {
            continue;
        }
        int at = used++;
        while (at > 0 && t->stride[order[at - 1]] > t->stride[axis]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = axis;
    }
    int64_t span = t->head_dim; /* check_strides saw that nothing below overflows */
    for (int i = 0; i < used; i++) {
        int axis = order[i];
        if (t->stride[axis] < span) {
            return error_set(
                error, ATTUNE_INVALID,
                "%s_%s_stride=%lld: rows of %s would overlap, as each step must pass the %lld elements within it; use "
                "%lld or more",
                t->name, axis_names[axis], (long long)t->stride[axis], t->name, (long long)span, (long long)span);
        }
        span += t->stride[axis] * (t->size[axis] - 1);
    }
    return ATTUNE_OK;
}

static attune_status read_tensors(const attune_plan *plan, const attune_attention_arguments *a,
                                  const struct problem *sizes, struct tensor tensors[TENSOR_COUNT], struct error *error)
{
    const struct attention_facts *facts = &plan->attention;
    static const char *const names[TENSOR_COUNT] = {"q", "k", "v", "o"};
    const void *const pointers[TENSOR_COUNT] = {a->q, a->k, a->v, a->o};
    const int64_t strides[TENSOR_COUNT][AXES] = {
        {a->q_batch_stride, a->q_seq_stride, a->q_head_stride},
        {a->k_batch_stride, a->k_seq_stride, a->k_head_stride},
        {a->v_batch_stride, a->v_seq_stride, a->v_head_stride},
        {a->o_batch_stride, a->o_seq_stride, a->o_head_stride},
    };
    attune_status status = check_flag("explicit_strides", a->explicit_strides, error);
    for (int i = 0; i < TENSOR_COUNT && status == ATTUNE_OK; i++) {
        bool keys = i == TENSOR_K || i == TENSOR_V;
        struct tensor *t = &tensors[i];
        *t = (struct tensor){
            .name = names[i],
            .pointer = pointers[i],
            .size = {sizes->values[facts->batch].integer,
                     sizes->values[keys ? facts->seqlen_k : facts->seqlen_q].integer,
                     sizes->values[keys ? facts->kv_heads : facts->heads].integer},
            .stride = {strides[i][0], strides[i][1], strides[i][2]},
            .head_dim = facts->head_dim[i],
            .element_bytes = facts->element_bytes[i],
            .alignment = facts->alignment > facts->element_bytes[i] ? facts->alignment : facts->element_bytes[i],
        };
        status = default_strides(t, a->explicit_strides != 0, error);
        if (status == ATTUNE_OK) {
            status = check_strides(t, error);
        }
        if (status == ATTUNE_OK && t->size[1] > 0) { /* no keys: nothing is read */
            status = check_pointer(t->name, t->pointer, t->alignment, t->element_bytes, error);
        }
    }
    return status == ATTUNE_OK ? check_output(&tensors[TENSOR_O], error) : status;
}

/* ------------------------------------------------------------------------------------------------ scalars */

static attune_status read_lse(const attune_plan *plan, const attune_attention_arguments *a, struct error *error)
{
    if (!plan->attention.lse) {
        return a->lse == NULL
                   ? ATTUNE_OK
                   : error_set(error, ATTUNE_INVALID, "lse is given, but the plan writes none; prepare with lse=1");
    }
    return check_pointer("lse", a->lse, sizeof *a->lse, sizeof *a->lse, error);
}

static attune_status read_scale(const attune_plan *plan, const attune_attention_arguments *a,
                                union launch_value *values, struct error *error)
{
    double scale = a->scale != 0 ? a->scale : plan->attention.scale;
    if (!isfinite(scale) || fabs(scale) > FLT_MAX) {
        return error_set(error, ATTUNE_INVALID, "scale=%g is not a finite fp32 number", scale);
    }
    values[VALUE_SCALE].real = scale;
    return ATTUNE_OK;
}

static attune_status read_dropout(const attune_plan *plan, const attune_attention_arguments *a,
                                  union launch_value *values, struct error *error)
{
    if (check_flag("explicit_dropout", a->explicit_dropout, error) != ATTUNE_OK) {
        return ATTUNE_INVALID;
    }
    double p = a->explicit_dropout || a->dropout != 0 ? a->dropout : plan->attention.probability;
    if (!(p >= 0 && p <= 1)) {
        return error_set(error, ATTUNE_INVALID, "dropout=%g is no probability from 0 to 1", p);
    }
    if (p > 0 && !plan->attention.dropout) {
        return error_set(error, ATTUNE_INVALID,
                         "dropout=%g, but the plan was prepared without; prepare with dropout > 0", p);
    }
    if (a->offset >> 32 != 0) {
        return error_set(error, ATTUNE_INVALID, "offset=%llu is not below 2^32; change the seed instead",
                         (unsigned long long)a->offset);
    }
    const uint64_t *const pointers[] = {a->seed_pointer, a->offset_pointer};
    for (int i = 0; i < 2; i++) {
        if ((uintptr_t)pointers[i] % 8 != 0) {
            return error_set(error, ATTUNE_INVALID, "%s=%p is not aligned to 8 bytes",
                             i == 0 ? "seed_pointer" : "offset_pointer", (const void *)pointers[i]);
        }
    }
    long threshold = lround(65536 * (1 - p));
    values[VALUE_DROPOUT_THRESHOLD].integer = threshold;
    values[VALUE_DROPOUT_SCALE].real = threshold > 0 ? 65536.0 / (double)threshold : 0;
    values[VALUE_SEED].natural = a->seed;
    values[VALUE_OFFSET].natural = a->offset;
    values[VALUE_SEED_POINTER].pointer = a->seed_pointer;
    values[VALUE_OFFSET_POINTER].pointer = a->offset_pointer;
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ launch */

static void fill_values(const attune_plan *plan, const attune_attention_arguments *a, const struct problem *sizes,
                        const struct tensor tensors[TENSOR_COUNT], union launch_value *values)
{
    const struct attention_facts *facts = &plan->attention;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        values[VALUE_Q + t].pointer = tensors[t].pointer;
        for (int axis = 0; axis < AXES; axis++) {
            values[VALUE_STRIDES + AXES * t + axis].integer = tensors[t].stride[axis];
        }
    }
    values[VALUE_LSE].pointer = a->lse;
    values[VALUE_BATCH].integer = sizes->values[facts->batch].integer;
    values[VALUE_HEADS].integer = sizes->values[facts->heads].integer;
    values[VALUE_KV_HEADS].integer = sizes->values[facts->kv_heads].integer;
    values[VALUE_SEQLEN_Q].integer = sizes->values[facts->seqlen_q].integer;
    values[VALUE_SEQLEN_K].integer = sizes->values[facts->seqlen_k].integer;
}

static union launch_value field_value(const struct problem *sizes, int field)
{
    union launch_value value = {.integer = 0};
    if (sizes->schema->fields[field].kind == FIELD_REAL) {
        value.real = sizes->values[field].real;
    } else {
        value.integer = sizes->values[field].integer;
    }
    return value;
}

attune_status attention_launch(const attune_plan *plan, const attune_attention_arguments *arguments, void *stream,
                               void *workspace, size_t workspace_bytes, struct error *error)
{
    struct problem sizes;
    struct tensor tensors[TENSOR_COUNT];
    union launch_value values[VALUE_COUNT], bound[LAUNCH_ARGUMENTS_MAX];
    bool empty = false;
    attune_status status = attention_sizes(plan, arguments, &sizes, &empty, error);
    if (status != ATTUNE_OK || empty) {
        return status;
    }
    if ((status = read_tensors(plan, arguments, &sizes, tensors, error)) != ATTUNE_OK ||
        (status = read_lse(plan, arguments, error)) != ATTUNE_OK ||
        (status = read_scale(plan, arguments, values, error)) != ATTUNE_OK ||
        (status = read_dropout(plan, arguments, values, error)) != ATTUNE_OK) {
        return status;
    }
    fill_values(plan, arguments, &sizes, tensors, values);
    for (int i = 0; i < plan->launch.argument_count; i++) {
        const struct binding *binding = &plan->bindings[i];
        bound[i].natural = 0;
        if (binding->source == BIND_ATTENTION) {
            bound[i] = values[binding->index];
        } else if (binding->source == BIND_FIELD) {
            bound[i] = field_value(&sizes, binding->index);
        }
    }
    return launch_values(plan, bound, &sizes, stream, workspace, workspace_bytes, error);
}
