/* host_kernels.h - compiling host_kernels.cpp in a test. */
#ifndef TESTS_HOST_KERNELS_H
#define TESTS_HOST_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

struct kernel_arguments {
    const float *in;
    float *out;
    uint32_t n;
    uint32_t option;
};

bool host_compiler_present(void); /* prints why not */

/* Compile with the extra arguments (NULL-terminated list, may be NULL) into `object`, a shared object. Undefined
 * symbols are an error unless the arguments hold a -fsanitize option. Asserts on failure. */
void host_kernels_compile(const char *object, const char *const *extra);

#endif
