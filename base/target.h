/* target.h - target IDs: what a kernel is compiled for.
 *
 *   gfx906            gfx90a:sramecc+:xnack-            AMD, processor with features
 *   sm_80  sm_90a                                       NVIDIA
 *   host                                                the CPU, running the portable text with waves of 32
 *   host-gfx906  host-sm_90a                            the CPU, running the text made for that target (its wave size,
 * its matrix instructions with the hardware's register layouts)
 *
 * Features are kept in alphabetical order (sramecc before xnack); gfx906:xnack-:sramecc+ becomes
 * gfx906:sramecc+:xnack-. Source: LLVM AMDGPU usage, "Target ID".
 */
#ifndef BASE_TARGET_H
#define BASE_TARGET_H

#include "base/error.h"

#include <stdbool.h>

enum { TARGET_TEXT_BYTES = 64 };

enum target_vendor { TARGET_AMD, TARGET_NVIDIA, TARGET_HOST };
enum target_feature { TARGET_FEATURE_ANY = 0, TARGET_FEATURE_ON = 1, TARGET_FEATURE_OFF = 2 };

struct target {
    enum target_vendor vendor;
    char processor[32]; /* gfx906, sm_90a, host, host-gfx906 */
    enum target_feature sramecc;
    enum target_feature xnack;
};

/* syntax only: an unknown gfx number is legal here and refused by who has no facts for it */
attune_status target_parse(const char *text, struct target *target, struct error *error);
void target_format(const struct target *target, char text[TARGET_TEXT_BYTES]); /* canonical */

/* may code built for `code` run on a device that calls itself `device`? Equal processors, and each feature of the code
 * either any or equal to the device's. sm_90a code runs on sm_90a only; sm_80 code runs on sm_8x with x >= 0 of the
 * same major version (CUDA binary compatibility), never for an `a` suffix. The plain `host` device runs the code of
 * every host-*. On refusal `error` says which part differs. */
attune_status target_accepts(const struct target *device, const struct target *code, struct error *error);

/* the emulated processor of host-gfx906 ("gfx906"), "" for plain host and for real targets */
const char *target_emulated(const struct target *target);

/* Do its products of 16-bit elements (matrix and dot instructions) take subnormal numbers as zero, real or emulated?
 * gfx90a alone. */
bool target_flushes(const struct target *target);

/* the name CUDA gives a compute capability: 9.0 -> sm_90a, 8.0 -> sm_80, 10.0 -> sm_100a */
void target_from_compute_capability(int major, int minor, struct target *target);

#endif
