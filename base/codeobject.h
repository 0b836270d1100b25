/* codeobject.h - what a compiled binary says of itself.
 *
 * Reads the object's own metadata, never a compiler's log: the AMDGPU msgpack note (code objects v4 and v5), a cubin's
 * .nv.info, the note of a host object. Input is untrusted: every offset is checked, nothing is written outside
 * `resources`.
 */
#ifndef BASE_CODEOBJECT_H
#define BASE_CODEOBJECT_H

#include "base/error.h"
#include "base/target.h"

#include <stdbool.h>
#include <stdint.h>

enum { CODEOBJECT_THREADS_MAX = 1024 }; /* of a block, on every target; an object that says more is damaged */

struct resources {
    char kernel[64];
    char target[TARGET_TEXT_BYTES]; /* as the object says, canonical; sm_90a is told from sm_90 */
    int32_t vector_registers;       /* VGPRs (without AGPRs); registers a thread on NVIDIA; -1 unknown (host) */
    int32_t accumulator_registers;  /* AGPRs, 0 elsewhere */
    int32_t scalar_registers;       /* SGPRs; -1 unknown */
    int32_t spilled_registers;      /* as reported, -1 unknown (NVIDIA); scratch is the fact to gate on */
    int32_t shared_bytes;           /* static LDS / shared memory */
    int32_t scratch_bytes;          /* private segment / local memory a thread: includes stack and spills */
    int32_t wave_size;
    int32_t argument_bytes;   /* kernel-argument segment */
    int32_t hidden_arguments; /* AMD: that the compiler added for the launching runtime to fill in; 0 elsewhere */
    int32_t max_threads;      /* launch bound the object was compiled for, 1 to 1024; -1 unknown */
    uint64_t code_bytes;
};

/* the first kernel, or the one named `kernel` when not NULL */
attune_status codeobject_resources(const void *bytes, size_t length, const char *kernel, struct resources *resources,
                                   struct error *error);

/* GNU build ID note of an ELF file in memory as hex; ATTUNE_NOT_FOUND when it has none */
attune_status codeobject_build_id(const void *bytes, size_t length, char *hex, size_t hex_bytes, struct error *error);

/* Host objects carry one note, owner "attune", type 1, whose descriptor is this struct (vocabulary/host emits it). */
struct host_note {
    uint32_t version; /* 1 */
    uint32_t wave_size;
    uint32_t threads;
    uint32_t shared_bytes;
    uint32_t argument_bytes;
    char kernel[64];
    char target[TARGET_TEXT_BYTES]; /* host or host-gfx906 */
};

#endif
