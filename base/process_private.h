/* process_private.h - starting a program, shared by process.c and process_spawn.c. */
#ifndef BASE_PROCESS_PRIVATE_H
#define BASE_PROCESS_PRIVATE_H

#include "base/process.h"

struct spawned {
    pid_t pid;  /* leader of a group of its own */
    int input;  /* our end of its stdin, -1 when that is /dev/null */
    int output; /* our ends of stdout and stderr */
    int errors;
};

/* with_input: stdin is a pipe, else /dev/null. die_with_thread: the kernel kills the child when the calling thread
 * ends. Our ends are non-blocking and close-on-exec. */
attune_status process_spawn(const struct process_options *options, bool with_input, bool die_with_thread,
                            struct spawned *spawned, struct error *error);

#endif
