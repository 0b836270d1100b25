/* kfd.h - what the Linux kernel says of the AMD GPUs, apart from what the HIP runtime says.
 *
 * /sys/class/kfd/kfd/topology/nodes/N/properties has lines `name value`, one file a node; nodes without SIMD units are
 * CPUs. It names the real processor even where HSA_OVERRIDE_GFX_VERSION makes the runtime claim another. The texts are
 * untrusted bytes: reads are bounded, and what is not of this form is refused with its line.
 */
#ifndef CLI_KFD_H
#define CLI_KFD_H

#include "base/error.h"
#include "base/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KFD_NODES_MAX = 256, KFD_PCI_BYTES = 16, KFD_FILE_MAX = 65536 };

/* 0 and "" where the kernel does not say */
struct kfd_node {
    int number;                        /* of topology/nodes */
    char processor[TARGET_TEXT_BYTES]; /* gfx90a */
    char pci[KFD_PCI_BYTES];           /* 0000:03:00.0 */
    int64_t compute_units;
    int64_t wave_size;
    int64_t lds_bytes; /* of a compute unit, or of one block where that has more */
    int64_t max_waves; /* a SIMD */
};

struct kfd_topology {
    int count; /* GPUs only */
    struct kfd_node nodes[KFD_NODES_MAX];
    int troubles;      /* nodes whose file could not be read or understood */
    char trouble[512]; /* the first one's reason */
};

/* One node's file. *gpu is false for a CPU, of which nothing else is read. ATTUNE_CORRUPT names the line. */
attune_status kfd_parse(const char *text, size_t length, struct kfd_node *node, bool *gpu, struct error *error);

/* All of them below `sys` ("/sys"). ATTUNE_NOT_FOUND when there is no topology: no amdgpu driver, or a container
 * without it. Nodes that cannot be read count as troubles; they are no failure. */
attune_status kfd_read(const char *sys, struct kfd_topology *topology, struct error *error);

/* the processor that a value of HSA_OVERRIDE_GFX_VERSION asks for: "10.3.0" -> gfx1030; false for what is no version */
bool kfd_override(const char *value, char processor[TARGET_TEXT_BYTES]);

#endif
