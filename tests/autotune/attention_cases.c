/* attention_cases.c - small attention calls for tests. */
#include "attention_cases.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct attention attention_make(enum dtype dtype, int64_t batch, int64_t heads, int64_t kv_heads, int64_t seqlen_q,
                                int64_t seqlen_k, int64_t dim_qk, int64_t dim_v)
{
    struct attention a = {.batch = batch,
                          .heads = heads,
                          .kv_heads = kv_heads,
                          .seqlen_q = seqlen_q,
                          .seqlen_k = seqlen_k,
                          .head_dim_qk = dim_qk,
                          .head_dim_v = dim_v,
                          .scale = (float)(1.0 / sqrt((double)dim_qk)),
                          .lse = true,
                          .alignment = 2};
    a.q.dtype = a.k.dtype = a.v.dtype = a.o.dtype = dtype;
    attention_contiguous(&a);
    return a;
}

static void *zeros(const struct attention_tensor *tensor)
{
    void *memory = calloc((size_t)tensor->span + 1, dtype_size(tensor->dtype));
    assert(memory != NULL);
    return memory;
}

void case_allocate(struct attention_case *c, const struct attention *a)
{
    *c = (struct attention_case){.a = *a, .q = zeros(&a->q), .k = zeros(&a->k), .v = zeros(&a->v)};
}

void case_inputs(struct attention_case *c, const struct attention *a, int kind, uint64_t seed)
{
    case_allocate(c, a);
    attune_status status = inputs_attention(a, kind, seed, c->q, c->k, c->v, NULL);
    assert(status == ATTUNE_OK);
    (void)status;
}

void case_compute(struct attention_case *c)
{
    free(c->rows.rows);
    reference_free(&c->reference);
    attune_status status = reference_choose_rows(&c->a, INFINITY, 1, &c->rows, NULL);
    assert(status == ATTUNE_OK && c->rows.complete);
    status = reference_compute(&c->a, c->q, c->k, c->v, &c->rows, true, &c->reference, NULL);
    assert(status == ATTUNE_OK);
    (void)status;
}

void case_free(struct attention_case *c)
{
    free(c->q);
    free(c->k);
    free(c->v);
    free(c->rows.rows);
    reference_free(&c->reference);
}

static size_t element(const struct attention_tensor *tensor, int64_t b, int64_t s, int64_t h, int64_t c)
{
    return (size_t)(b * tensor->batch_stride + s * tensor->seq_stride + h * tensor->head_stride + c) *
           dtype_size(tensor->dtype);
}

void case_set(const struct attention_tensor *tensor, void *elements, int64_t b, int64_t s, int64_t h, int64_t c,
              double value)
{
    convert_from_double(tensor->dtype, &value, (char *)elements + element(tensor, b, s, h, c), 1);
}

double case_get(const struct attention_tensor *tensor, const void *elements, int64_t b, int64_t s, int64_t h, int64_t c)
{
    double value;
    convert_to_double(tensor->dtype, (const char *)elements + element(tensor, b, s, h, c), &value, 1);
    return value;
}

static size_t row_index(const struct attention_case *c, int64_t b, int64_t h, int64_t i)
{
    return (size_t)((b * c->a.heads + h) * c->a.seqlen_q + i);
}

const double *case_o(const struct attention_case *c, int64_t b, int64_t h, int64_t i)
{
    return c->reference.o + row_index(c, b, h, i) * (size_t)c->a.head_dim_v;
}

double case_lse(const struct attention_case *c, int64_t b, int64_t h, int64_t i)
{
    return c->reference.lse[row_index(c, b, h, i)];
}

void case_outputs(const struct attention_case *c, void **o, float **lse)
{
    const struct attention *a = &c->a;
    *o = zeros(&a->o);
    *lse = calloc(c->rows.count + 1, sizeof **lse);
    assert(*lse != NULL);
    for (size_t i = 0; i < c->rows.count; i++) {
        const struct reference_row *row = &c->rows.rows[i];
        convert_from_double(a->o.dtype, c->reference.o + i * (size_t)a->head_dim_v,
                            (char *)*o + element(&a->o, row->batch, row->query, row->head, 0), (size_t)a->head_dim_v);
        (*lse)[i] = (float)c->reference.lse[i];
    }
}
