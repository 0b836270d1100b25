/* philox.c - the counter-based generator behind dropout. */
#include "autotune/philox.h"

#include <math.h>

void philox4x32_7(const uint32_t counter[4], const uint32_t key[2], uint32_t output[4])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    uint32_t key0 = key[0], key1 = key[1];
    for (int round = 0; round < 7; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * x0;
        uint64_t product1 = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(product1 >> 32) ^ x1 ^ key0;
        x1 = (uint32_t)product1;
        x2 = (uint32_t)(product0 >> 32) ^ x3 ^ key1;
        x3 = (uint32_t)product0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    output[0] = x0;
    output[1] = x1;
    output[2] = x2;
    output[3] = x3;
}

void dropout_row(uint64_t seed, uint64_t offset, uint32_t lane, uint32_t query, uint32_t threshold, uint8_t *keep,
                 int64_t count)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int64_t base = 0; base < count; base += 32) { /* j = 32 a + 8 b + 2 c + e */
        for (uint32_t c = 0; c < 4; c++) {
            const uint32_t counter[4] = {(uint32_t)(base / 32) * 4 + c, query, lane, (uint32_t)offset};
            uint32_t words[4];
            philox4x32_7(counter, key, words);
            for (uint32_t half = 0; half < 8; half++) { /* half = 2 b + e sits in bits 16 e of word b */
                int64_t j = base + 8 * (half / 2) + 2 * c + half % 2;
                if (j < count) {
                    keep[j] = (words[half / 2] >> 16 * (half % 2) & 0xffffu) < threshold;
                }
            }
        }
    }
}

void dropout_constants(double probability, uint32_t *threshold, float *factor)
{
    *threshold = (uint32_t)lround(65536.0 * (1.0 - probability));
    *factor = *threshold == 0 ? 0.0f : 65536.0f / (float)*threshold;
}
