/* plain.h - causal attention in plain C, a row at a time, and numbers to try it on. */
#ifndef PLAIN_H
#define PLAIN_H

#include <math.h>
#include <stddef.h>

/* numbers from -1 to 1, the same for the same seed */
static void plain_fill(float *values, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / (1 << 23) - 1.0f;
    }
}

static double plain_score(const float *q, const float *k, int dim)
{
    double score = 0;
    for (int d = 0; d < dim; d++) {
        score += (double)q[d] * k[d];
    }
    return score / sqrt(dim);
}

/* The largest difference between a row of o and causal attention in fp64. q and o are [query][heads][dim], k and v
 * [key][kv_heads][dim]; as many keys as queries. Scores of numbers from -1 to 1 need no maximum subtracted. */
static double plain_difference(int heads, int kv_heads, int dim, const float *q, const float *k, const float *v,
                               const float *o, int query, int head)
{
    const float *q_row = q + (size_t)(query * heads + head) * dim;
    const float *o_row = o + (size_t)(query * heads + head) * dim;
    const int kv = head / (heads / kv_heads);
    double worst = 0;
    for (int d = 0; d < dim; d++) {
        double sum = 0, value = 0;
        for (int j = 0; j <= query; j++) {
            double weight = exp(plain_score(q_row, k + (size_t)(j * kv_heads + kv) * dim, dim));
            sum += weight;
            value += weight * v[(size_t)(j * kv_heads + kv) * dim + d];
        }
        worst = fmax(worst, fabs(value / sum - o_row[d]));
    }
    return worst;
}

#endif
