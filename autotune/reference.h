/* reference.h - attention.forward in fp64, with the naive fp32 algorithm beside it and the bound that follows from
 * both.
 *
 * Implements docs/numerics.md, not any kernel: visible keys by index, softmax in two passes, dropout from Philox.
 * Rows are independent; all or some may be asked for.
 *
 * naive: fp32 scores and softmax, P rounded to V's type, fp32 P V, o rounded.
 * allowed = 2 |naive - ref| + (u + 2^-22 (1 + max|s|)) (|ref| + |(sum P^2 V^2)^1/2|), norms over a row; u is the
 * coarser unit roundoff of V and o. lse_allowed = 2^-20 max(1, |scale| |q_i| max|k_j|).
 *
 * For a target that flushes, the naive algorithm takes subnormal elements of 16-bit q, k, v as zero, and lse_allowed
 * has |scale| (|q_i - q_i'| max|k_j| + |q_i| max|k_j - k_j'|) more, x' being x without them: nothing where there are
 * none.
 */
#ifndef AUTOTUNE_REFERENCE_H
#define AUTOTUNE_REFERENCE_H

#include "autotune/attention.h"

struct reference_row {
    int32_t batch, head;
    int64_t query;
};

/* row lists: sorted so that rows which share keys stand together; free() `rows` */
struct reference_rows {
    struct reference_row *rows;
    size_t count;
    bool complete; /* every row of the problem is in */
};

/* All rows when that costs at most `operations`, else a sample: of every head the first and last rows, rows at and
 * beside multiples of 16 and rows drawn with the seed, at least 64 a head; and of two heads (the first and last) every
 * row as far as operations last. */
attune_status reference_choose_rows(const struct attention *attention, double operations, uint64_t seed,
                                    struct reference_rows *rows, struct error *error);

struct reference {
    size_t count;    /* rows, in the order asked for */
    double *o;       /* count x head_dim_v */
    double *allowed; /* norm of the difference that passes */
    double *lse;     /* natural logarithm, -inf for rows without keys */
    double *lse_allowed;
    bool *empty;  /* the row sees no key: o exactly 0, lse exactly -inf */
    float *naive; /* count x head_dim_v, rounded to o's type; NULL unless asked for */
};

attune_status reference_compute(const struct attention *attention, const void *q, const void *k, const void *v,
                                const struct reference_rows *rows, bool keep_naive, struct reference *reference,
                                struct error *error);
void reference_free(struct reference *reference);

/* Compare an output (o in attention's layout, lse contiguous or NULL) with the rows. Returns true when all pass; else
 * `reason` says which row and by how much. *ratio is the largest error / allowed, infinity for NaN and
 * the like; NaN when there was no memory to compare. */
bool reference_compare(const struct attention *attention, const struct reference_rows *rows,
                       const struct reference *reference, const void *o, const float *lse, double *ratio, char *reason,
                       size_t reason_bytes);

#endif
