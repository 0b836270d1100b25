/* attention.h - one attention.forward call as numbers: sizes, strides, mask, dropout. What inputs, reference and checks
 * share.
 *
 * Shapes are those of attune.h; strides in elements, the head dimension contiguous.
 */
#ifndef AUTOTUNE_ATTENTION_H
#define AUTOTUNE_ATTENTION_H

#include "autotune/convert.h"
#include "base/error.h"
#include "base/problem.h"

enum { ATTENTION_HEAD_DIM_MAX = 256 }; /* the schema refuses more */

struct attention_tensor {
    enum dtype dtype;
    int64_t batch_stride, seq_stride, head_stride;
    int64_t span; /* elements from the first to one past the last that the strides reach */
};

enum attention_causal { CAUSAL_NONE, CAUSAL_TOP_LEFT, CAUSAL_BOTTOM_RIGHT };

struct attention {
    struct attention_tensor q, k, v, o;
    int64_t batch, heads, kv_heads, seqlen_q, seqlen_k;
    int64_t head_dim_qk, head_dim_v;
    enum attention_causal causal;
    float scale; /* as the kernel gets it */
    bool lse;
    bool dropout;
    uint32_t dropout_threshold;
    float dropout_scale;
    uint64_t seed, offset;
    int64_t alignment; /* bytes that every row start keeps */
    bool flushes;      /* the target's products take subnormal 16-bit elements as zero: so does the naive algorithm */
};

/* Contiguous tensors. ATTUNE_UNSUPPORTED, by the option's name, for what the reference does not compute. */
attune_status attention_from_problem(const struct problem *problem, struct attention *attention, struct error *error);

/* contiguous [batch, seq, head, dim] */
void attention_contiguous(struct attention *attention);
/* Strides that no contiguous kernel survives, within the alignment class: q and o ordered [batch, head, seq, dim], k
 * [head, batch, seq, dim], v [batch, seq, head, dim]; rows and heads with gaps between them. */
void attention_scattered(struct attention *attention);

/* keys 0 .. result-1 are visible to the query */
int64_t attention_visible(const struct attention *attention, int64_t query);

/* floating-point operations: 2 (head_dim_qk + head_dim_v) for each visible pair */
double attention_operations(const struct attention *attention);

#endif
