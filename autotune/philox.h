/* philox.h - Philox4x32-7 and the dropout mask of the numerical contract.
 *
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The mask is a function of seed,
 * offset, sequence, head, query and key alone: the same in every candidate, forward and backward.
 */
#ifndef AUTOTUNE_PHILOX_H
#define AUTOTUNE_PHILOX_H

#include <stdbool.h>
#include <stdint.h>

void philox4x32_7(const uint32_t counter[4], const uint32_t key[2], uint32_t output[4]);

/* keep[j] = 1 where key j of `count` stays for one query; `lane` is batch * heads + head; `threshold` of 65536 stay */
void dropout_row(uint64_t seed, uint64_t offset, uint32_t lane, uint32_t query, uint32_t threshold, uint8_t *keep,
                 int64_t count);

/* threshold = round(65536 (1 - p)) in fp64 and the fp32 factor of kept values, 65536 / threshold, 0 when none is kept
 */
void dropout_constants(double probability, uint32_t *threshold, float *factor);

#endif
