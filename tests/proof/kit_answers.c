/* kit_answers.c - attention in fp64, written from the contract's words and from nothing else. */
#include "kit.h"

static double dot(const struct proof_call *call, int64_t b, int64_t i, int64_t h, int64_t j, int64_t kv_head)
{
    double sum = 0.0;
    for (int64_t c = 0; c < call->a.head_dim_qk; c++) {
        sum += proof_get(call, PROOF_Q, b, i, h, c) * proof_get(call, PROOF_K, b, j, kv_head, c);
    }
    return sum;
}

static double unit(const struct attention *a)
{
    return fmax(dtype_unit(a->o.dtype), dtype_unit(a->v.dtype));
}

/* one row; `scores` has room for every key */
static void answer(const struct proof_call *call, int64_t b, int64_t h, int64_t i, double *scores, double *o,
                   double *lse, double *allowed)
{
    const struct attention *a = &call->a;
    int64_t kv_head = h / (a->heads / a->kv_heads),
            shift = a->causal == CAUSAL_BOTTOM_RIGHT ? a->seqlen_k - a->seqlen_q : 0;
    double largest = -(double)INFINITY, sum = 0.0, size = 0.0, steepest = 0.0;
    for (int64_t j = 0; j < a->seqlen_k; j++) {
        bool hidden = a->causal != CAUSAL_NONE && j > i + shift;
        scores[j] = hidden ? -(double)INFINITY : (double)a->scale * dot(call, b, i, h, j, kv_head);
        largest = fmax(largest, scores[j]);
        steepest = hidden ? steepest : fmax(steepest, fabs(scores[j]));
    }
    for (int64_t c = 0; c < a->head_dim_v; c++) {
        o[c] = 0.0;
    }
    for (int64_t j = 0; j < a->seqlen_k; j++) {
        double weight = isinf(largest) ? 0.0 : exp(scores[j] - largest);
        sum += weight;
        for (int64_t c = 0; c < a->head_dim_v && weight > 0.0; c++) {
            double value = proof_get(call, PROOF_V, b, j, kv_head, c);
            o[c] += weight * value;
            size = fmax(size, fabs(value));
        }
    }
    for (int64_t c = 0; c < a->head_dim_v && sum > 0.0; c++) {
        o[c] /= sum;
    }
    *lse = isinf(largest) ? -(double)INFINITY : largest + log(sum);
    *allowed = (2.0 * unit(a) + ldexp(1.0 + steepest, -20)) * size;
}

struct proof_answers proof_answers(const struct proof_call *call)
{
    const struct attention *a = &call->a;
    size_t rows = (size_t)(a->batch * a->heads * a->seqlen_q), row = 0;
    double *scores = calloc((size_t)a->seqlen_k + 1, sizeof *scores);
    struct proof_answers answers = {.o = calloc(rows * (size_t)a->head_dim_v + 1, sizeof(double)),
                                    .lse = calloc(rows + 1, sizeof(double)),
                                    .allowed = calloc(rows + 1, sizeof(double))};
    assert_true(scores != NULL && answers.o != NULL && answers.lse != NULL && answers.allowed != NULL);
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < a->seqlen_q; i++, row++) {
                answer(call, b, h, i, scores, answers.o + row * (size_t)a->head_dim_v, &answers.lse[row],
                       &answers.allowed[row]);
            }
        }
    }
    free(scores);
    return answers;
}

void proof_answers_free(struct proof_answers *answers)
{
    free(answers->o);
    free(answers->lse);
    free(answers->allowed);
    *answers = (struct proof_answers){0};
}

void proof_check_answers(const struct proof_call *call, const struct proof_answers *answers)
{
    const struct attention *a = &call->a;
    size_t row = 0;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < a->seqlen_q; i++, row++) {
                const double *wanted = answers->o + row * (size_t)a->head_dim_v;
                for (int64_t c = 0; c < a->head_dim_v; c++) {
                    proof_near(call, "o", b, h, i, c, proof_o(call, b, h, i, c), wanted[c], answers->allowed[row]);
                }
                if (call->lse != NULL) {
                    proof_near(call, "lse", b, h, i, 0, proof_lse(call, b, h, i), answers->lse[row],
                               ldexp(fmax(1.0, fabs(answers->lse[row])), -19));
                }
            }
        }
    }
}
