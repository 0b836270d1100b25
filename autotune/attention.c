/* attention.c - sizes, strides and visibility of an attention.forward call. */
#include "autotune/attention.h"

#include "autotune/philox.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Options that a problem may carry and that the reference here has no mathematics for. */
static attune_status refuse_options(const struct problem *problem, struct error *error)
{
    static const char *const names[] = {"window_left", "window_right", "softcap", "alibi", "sinks",
                                        "bias",        "mask",         "varlen",  "paged"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int index = schema_find(problem->schema, names[i]);
        if (index < 0) {
            continue;
        }
        const struct field *field = &problem->schema->fields[index];
        const union field_value *value = &problem->values[index];
        bool real = field->kind == FIELD_REAL;
        if (real ? value->real == field->fallback.real : value->integer == field->fallback.integer) {
            continue;
        }
        char text[FIELD_NAME_BYTES];
        if (field->kind == FIELD_CHOICE) {
            snprintf(text, sizeof text, "%s", field->choices[value->integer]);
        } else {
            snprintf(text, sizeof text, "%.10g", real ? value->real : (double)value->integer);
        }
        return error_set(error, ATTUNE_UNSUPPORTED, "%s=%s: there is no reference for this option yet; leave it out",
                         names[i], text);
    }
    return ATTUNE_OK;
}

static attune_status take_dtype(const struct problem *problem, const char *field, enum dtype *dtype,
                                struct error *error)
{
    const char *text = problem_choice(problem, field);
    if (!dtype_parse(text, dtype)) {
        return error_set(error, ATTUNE_UNSUPPORTED, "%s=%s: there is no reference for this type; use f16, bf16 or f32",
                         field, text);
    }
    return ATTUNE_OK;
}

attune_status attention_from_problem(const struct problem *problem, struct attention *attention, struct error *error)
{
    struct attention a = {0};
    if (strcmp(problem->schema->family, "attention.forward") != 0) {
        return error_set(error, ATTUNE_INVALID, "family %s: attention.forward is meant", problem->schema->family);
    }
    attune_status status = refuse_options(problem, error);
    if (status == ATTUNE_OK) {
        status = take_dtype(problem, "q_dtype", &a.q.dtype, error);
    }
    if (status == ATTUNE_OK) {
        status = take_dtype(problem, "k_dtype", &a.k.dtype, error);
    }
    if (status == ATTUNE_OK) {
        status = take_dtype(problem, "v_dtype", &a.v.dtype, error);
    }
    if (status == ATTUNE_OK) {
        status = take_dtype(problem, "o_dtype", &a.o.dtype, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    a.batch = problem_integer(problem, "batch");
    a.heads = problem_integer(problem, "heads");
    a.kv_heads = problem_integer(problem, "kv_heads");
    a.seqlen_q = problem_integer(problem, "seqlen_q");
    a.seqlen_k = problem_integer(problem, "seqlen_k");
    a.head_dim_qk = problem_integer(problem, "head_dim_qk");
    a.head_dim_v = problem_integer(problem, "head_dim_v");
    const char *causal = problem_choice(problem, "causal");
    a.causal = strcmp(causal, "top_left") == 0       ? CAUSAL_TOP_LEFT
               : strcmp(causal, "bottom_right") == 0 ? CAUSAL_BOTTOM_RIGHT
                                                     : CAUSAL_NONE;
    double scale = problem_real(problem, "scale");
    a.scale = (float)(scale == 0.0 ? 1.0 / sqrt((double)a.head_dim_qk) : scale);
    a.lse = problem_integer(problem, "lse") != 0;
    double probability = problem_real(problem, "dropout");
    a.dropout = probability > 0.0;
    dropout_constants(probability, &a.dropout_threshold, &a.dropout_scale);
    a.seed = 0x8badf00d5eed1234u; /* both words in use, so that a kernel that drops one is caught */
    a.offset = 0x9000000bu;
    a.alignment = problem_integer(problem, "alignment");
    attention_contiguous(&a);
    *attention = a;
    return ATTUNE_OK;
}

static void set_span(struct attention_tensor *tensor, int64_t batch, int64_t seqlen, int64_t heads, int64_t dim)
{
    tensor->span = batch == 0 || seqlen == 0 || heads == 0
                       ? 0
                       : (batch - 1) * tensor->batch_stride + (seqlen - 1) * tensor->seq_stride +
                             (heads - 1) * tensor->head_stride + dim;
}

static void set_contiguous(struct attention_tensor *tensor, int64_t batch, int64_t seqlen, int64_t heads, int64_t dim)
{
    tensor->head_stride = dim;
    tensor->seq_stride = heads * dim;
    tensor->batch_stride = seqlen * heads * dim;
    set_span(tensor, batch, seqlen, heads, dim);
}

void attention_contiguous(struct attention *a)
{
    set_contiguous(&a->q, a->batch, a->seqlen_q, a->heads, a->head_dim_qk);
    set_contiguous(&a->k, a->batch, a->seqlen_k, a->kv_heads, a->head_dim_qk);
    set_contiguous(&a->v, a->batch, a->seqlen_k, a->kv_heads, a->head_dim_v);
    set_contiguous(&a->o, a->batch, a->seqlen_q, a->heads, a->head_dim_v);
}

/* the smallest row pitch above dim that keeps the alignment class, in elements */
static int64_t gapped(const struct attention *a, enum dtype dtype, int64_t dim)
{
    int64_t unit = a->alignment / (int64_t)dtype_size(dtype);
    unit = unit < 1 ? 1 : unit;
    return (dim + unit) / unit * unit;
}

void attention_scattered(struct attention *a)
{
    int64_t q = gapped(a, a->q.dtype, a->head_dim_qk), k = gapped(a, a->k.dtype, a->head_dim_qk);
    int64_t v = gapped(a, a->v.dtype, a->head_dim_v), o = gapped(a, a->o.dtype, a->head_dim_v);

    a->q.seq_stride = q;
    a->q.head_stride = (a->seqlen_q + 1) * q;
    a->q.batch_stride = a->heads * a->q.head_stride;
    set_span(&a->q, a->batch, a->seqlen_q, a->heads, a->head_dim_qk);

    a->k.seq_stride = k;
    a->k.batch_stride = (a->seqlen_k + 2) * k;
    a->k.head_stride = a->batch * a->k.batch_stride;
    set_span(&a->k, a->batch, a->seqlen_k, a->kv_heads, a->head_dim_qk);

    a->v.head_stride = v;
    a->v.seq_stride = (a->kv_heads + 1) * v;
    a->v.batch_stride = a->seqlen_k * a->v.seq_stride;
    set_span(&a->v, a->batch, a->seqlen_k, a->kv_heads, a->head_dim_v);

    a->o.seq_stride = o;
    a->o.head_stride = (a->seqlen_q + 3) * o;
    a->o.batch_stride = a->heads * a->o.head_stride;
    set_span(&a->o, a->batch, a->seqlen_q, a->heads, a->head_dim_v);
}

int64_t attention_visible(const struct attention *a, int64_t query)
{
    if (a->causal == CAUSAL_NONE) {
        return a->seqlen_k;
    }
    int64_t shift = a->causal == CAUSAL_BOTTOM_RIGHT ? a->seqlen_k - a->seqlen_q : 0;
    int64_t visible = query + shift + 1;
    return visible < 0 ? 0 : visible > a->seqlen_k ? a->seqlen_k : visible;
}

double attention_operations(const struct attention *a)
{
    double pairs = 0.0;
    if (a->causal == CAUSAL_NONE) {
        pairs = (double)a->seqlen_q * (double)a->seqlen_k;
    } else {
        for (int64_t i = 0; i < a->seqlen_q; i++) {
            pairs += (double)attention_visible(a, i);
        }
    }
    return 2.0 * pairs * (double)(a->head_dim_qk + a->head_dim_v) * (double)(a->batch * a->heads);
}
