/* inputs.h - input tensors, a pure function of (seed, kind, logical index): the same values whatever the layout.
 *
 *   normal      N(0,1), 65536 quantiles
 *   peaked      the same with q and k times 8: softmax close to one-hot, large scores
 *   structured  k rows are codes of +-1 behind a first column that all share; a query is the code of one visible key,
 * chosen at the edges of what it sees, plus, for every fourth query, the code of the first key it must not see, twice
 * as strong; every eighth query is 0, which weighs all keys alike, and every eighth scores all keys alike and far below
 * zero. v is one-hot: row j of KV head h has the value 1 + (j / head_dim_v) % 120 at one column that depends on j, h
 * and the batch index, so that a wrong row, head or mask shows as another column.
 */
#ifndef AUTOTUNE_INPUTS_H
#define AUTOTUNE_INPUTS_H

#include "autotune/attention.h"

enum input_kind { INPUT_NORMAL, INPUT_PEAKED, INPUT_STRUCTURED, INPUT_KINDS };
const char *input_kind_name(int kind);

uint64_t hash_mix(uint64_t value); /* a bijection of 64 bits whose output looks random */

/* the quantiles of N(0,1) that draws are taken from: entry i is the ((i + 1/2) / 65536)-quantile */
enum { NORMAL_ENTRIES = 65536 };
void normal_table(float table[NORMAL_ENTRIES]);

/* q, k and v of a call, in their layouts: spans of elements, filled with 0xff (NaN) where no element is. */
attune_status inputs_attention(const struct attention *attention, int kind, uint64_t seed, void *q, void *k, void *v,
                               struct error *error);

#endif
