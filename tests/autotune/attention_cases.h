/* attention_cases.h - small attention calls for the tests here: made by hand, tensors in fp32 unless said otherwise. */
#ifndef TESTS_AUTOTUNE_ATTENTION_CASES_H
#define TESTS_AUTOTUNE_ATTENTION_CASES_H

#include "autotune/inputs.h"
#include "autotune/reference.h"

struct attention_case {
    struct attention a;
    void *q, *k, *v;
    struct reference_rows rows;
    struct reference reference;
};

/* heads / kv_heads heads, contiguous, all tensors of one type, scale 1/sqrt(d), lse on */
struct attention attention_make(enum dtype dtype, int64_t batch, int64_t heads, int64_t kv_heads, int64_t seqlen_q,
                                int64_t seqlen_k, int64_t dim_qk, int64_t dim_v);
void case_allocate(struct attention_case *c, const struct attention *a); /* tensors of zeros */
void case_inputs(struct attention_case *c, const struct attention *a, int kind, uint64_t seed);
void case_compute(struct attention_case *c); /* every row, with the naive result */
void case_free(struct attention_case *c);

/* element access by indices; sets round to the tensor's type */
void case_set(const struct attention_tensor *tensor, void *elements, int64_t b, int64_t s, int64_t h, int64_t c,
              double value);
double case_get(const struct attention_tensor *tensor, const void *elements, int64_t b, int64_t s, int64_t h,
                int64_t c);

/* reference o and lse of a row */
const double *case_o(const struct attention_case *c, int64_t b, int64_t h, int64_t i);
double case_lse(const struct attention_case *c, int64_t b, int64_t h, int64_t i);

/* o and lse as a kernel would write them: the reference's values rounded; free() both */
void case_outputs(const struct attention_case *c, void **o, float **lse);

#endif
