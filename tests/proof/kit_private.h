/* kit_private.h - what the kit's own files share. */
#ifndef TESTS_PROOF_KIT_PRIVATE_H
#define TESTS_PROOF_KIT_PRIVATE_H

#include "kit.h"

enum { KERNEL_KEY_BYTES = CANDIDATE_TEXT_BYTES + PROBLEM_TEXT_BYTES + 4 };

/* one candidate of one specialisation, loaded from its fresh object and from the stored one */
struct proof_kernel {
    char key[KERNEL_KEY_BYTES];
    struct digest object;
    bool fits;
    bool compared; /* the stored object has given the fresh one's bits */
    struct kernel fresh, warm;
    struct proof_kernel *next;
};

/* the candidates of one specialisation */
struct proof_set {
    char specialisation[PROBLEM_TEXT_BYTES];
    struct candidate *candidates;
    int count;
    struct proof_set *next;
};

struct proof {
    char device_name[32];
    const struct driver *driver;
    int ordinal;
    struct driver_device device;
    struct target target;
    int wave;
    struct generator *generator;
    struct compiler_pool *pool;
    struct store *store;
    char folder[512];
    struct object_road road;
    struct proof_set *sets;
    struct proof_kernel *kernels;
    attune_context *context; /* NULL for an emulated target */
    attune_device *public_device;
    bool public_ran; /* attune_prepare may have put objects into the store */
    struct {
        bool wanted; /* on a GPU: fill before each launch */
        uint8_t byte;
        driver_module module;
        driver_function function;
        uint32_t shared_bytes;
    } fill;
};

const char *candidate_value(const struct candidate *candidate, const char *name);
int candidate_splits(const struct proof *proof, const struct candidate *candidate);
struct proof_set *set_of(struct proof *proof, const struct problem *problem);
void kernels_make(struct proof *proof, const struct problem *problem, const struct candidate *candidates, int count);
struct proof_kernel *kernel_of(struct proof *proof, const struct candidate *candidate, const struct problem *problem);

/* shared memory of a GPU; kit_fill.c */
void proof_fill_launch(struct proof *proof);
void proof_fill_close(struct proof *proof);

#endif
