/* fake_library.h - what the stand-ins for libcuda and libamdhip64 share: a log of calls, failures on demand, plain
 * memory.
 *
 * A test loads the stand-in by path, as the driver does, and finds these through dlsym.
 */
#ifndef TESTS_FAKE_LIBRARY_H
#define TESTS_FAKE_LIBRARY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake {
    int compute_mode;   /* what CUDA says of a device */
    char log[1 << 16];  /* "name detail\n" for each call */
    char fail_name[64]; /* the next call of this name fails with fail_code */
    int fail_code;
    unsigned char arguments[1024]; /* of the last launch */
    size_t argument_bytes;
    uint64_t blocks_run; /* by all launches, as the hardware counts */
    int static_shared;   /* of any kernel */
    bool other_captures; /* another thread captures in the global mode: only relaxed threads may allocate */
    int live;            /* allocations, modules, streams, events, graphs */
    int devices;
    /* one capture at a time, as the vendors define it: what a capture forbids fails with 900 and breaks it */
    struct fake_capture {
        void *stream; /* NULL: none */
        int mode;     /* 0 global, 1 thread-local, 2 relaxed */
        unsigned long thread;
        bool broken;
        int launches; /* captured */
    } capture;
};

struct fake *fake_state(void);

#endif
