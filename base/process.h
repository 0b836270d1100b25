/* process.h - running other programs: exec'd with posix_spawn semantics, never a shell, never work after fork.
 *
 * A child gets its own process group (killed whole), a closed set of descriptors, and an explicit environment.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_options {
    const char *const *argv;        /* NULL-terminated; argv[0] is looked up in PATH when it has no slash */
    const char *const *environment; /* NULL-terminated "K=V" additions/overrides ("K" alone unsets) to the parent's; may be NULL */
    const char *directory;          /* working directory; NULL: the parent's */
    const void *input;              /* bytes for stdin; NULL: /dev/null */
    size_t input_bytes;
    double seconds;                 /* wall-clock limit; 0: none. Past it the group is killed, status ATTUNE_TIMEOUT */
    uint64_t rss_bytes;             /* limit on the group's resident set, polled; 0: none. Past it killed, ATTUNE_NO_MEMORY */
    uint64_t file_bytes;            /* RLIMIT_FSIZE for the child; 0: none */
    size_t output_limit;            /* bytes kept of each stream; the rest is drained and dropped; 0: 1 MiB */
};

struct process_result {
    int exit_code;         /* -1 when a signal ended it */
    int signal;            /* 0 when it exited */
    struct buffer output;  /* stdout */
    struct buffer errors;  /* stderr */
    double seconds;
};

/* Runs to the end. ATTUNE_OK whenever the program ran and ended by itself, whatever its exit code; ATTUNE_NOT_FOUND when the
 * program is not there. Results must be freed by process_result_free also after an error. */
attune_status process_run(const struct process_options *options, struct process_result *result, struct error *error);
void process_result_free(struct process_result *result);

/* A long-lived child with pipes on stdin and stdout (stderr goes to a pipe the caller drains with process_errors). */
struct process {
    pid_t pid;
    int to_child;   /* write end, blocking, close-on-exec */
    int from_child; /* read end */
    int errors;     /* read end of stderr, non-blocking */
};

attune_status process_start(const struct process_options *options, struct process *process, struct error *error);
void process_kill(struct process *process); /* kills the group, reaps, closes; safe twice */
/* reads exactly/writes exactly n bytes before `deadline` (CLOCK_MONOTONIC seconds; 0: none) */
attune_status process_write(struct process *process, const void *bytes, size_t length, double deadline, struct error *error);
attune_status process_read(struct process *process, void *bytes, size_t length, double deadline, uint64_t rss_bytes,
                           struct error *error);
void process_errors(struct process *process, struct buffer *into, size_t limit); /* what stderr holds now */

double clock_seconds(void);                         /* CLOCK_MONOTONIC */
uint64_t process_group_rss(pid_t group);            /* bytes, 0 when gone */
attune_status program_find(const char *name, char *path, size_t bytes, struct error *error); /* PATH look-up */

#endif
