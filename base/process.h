/* process.h - running other programs: exec'd with posix_spawn semantics, never a shell, never work after fork.
 *
 * A child gets its own process group (killed whole), descriptors 0 to 2 only, default signal dispositions, no core
 * dumps.
 *
 * Children do not outlive us. process_run's are killed by the kernel when the calling thread dies, and what they
 * started by a guard where the caller has one. The kernel's mechanism watches the thread, not the process, so it would
 * end a long-lived child with the thread that happened to start it; a child of process_start must end itself when its
 * stdin closes (POLLHUP), which our death brings about.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_options {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH when it has no slash */
    const char *const
        *environment; /* NULL-terminated "K=V" additions/overrides ("K" alone unsets) to the parent's; may be NULL */
    const char *directory; /* working directory; NULL: the parent's */
    const void *input;     /* bytes for stdin; NULL: /dev/null */
    size_t input_bytes;
    double seconds;      /* wall-clock limit; 0: none. Past it the group is killed, status ATTUNE_TIMEOUT */
    uint64_t rss_bytes;  /* limit on the group's resident set, polled; 0: none. Past it killed, ATTUNE_NO_MEMORY */
    uint64_t file_bytes; /* RLIMIT_FSIZE for the child; 0: none */
    size_t output_limit; /* bytes kept of each stream; the rest is drained and dropped; 0: 1 MiB */
    bool keep_end;       /* of more than that, keep the end (half the limit at least) and not the start */
    const struct process_guard *guard; /* told of the child's group while it lives; may be NULL */
};

struct process_result {
    int exit_code;        /* -1 when a signal ended it */
    int signal;           /* 0 when it exited */
    struct buffer output; /* stdout */
    struct buffer errors; /* stderr */
    double seconds;
};

/* Runs to the end. ATTUNE_OK whenever the program ran and ended by itself, whatever its exit code; ATTUNE_NOT_FOUND
 * when the program is not there. Results must be freed by process_result_free also after an error. */
attune_status process_run(const struct process_options *options, struct process_result *result, struct error *error);
void process_result_free(struct process_result *result);

/* A process beside us that, when the calling thread ends before process_guard_end, however it ends, kills the group
 * that runs under it and removes the folder, unless that is NULL. */
struct process_guard {
    pid_t pid;
    volatile pid_t *group; /* shared with it; 0: none */
};
attune_status process_guard_start(const char *folder, struct process_guard *guard, struct error *error);
void process_guard_end(struct process_guard *guard); /* safe twice, and on one of zeros */

/* A long-lived child with pipes on stdin and stdout (stderr goes to a pipe the caller drains with process_errors). */
struct process {
    pid_t pid;
    int to_child;       /* write end; all three are non-blocking and close-on-exec */
    int from_child;     /* read end */
    int errors;         /* read end of stderr */
    struct buffer kept; /* stderr drained while reading and writing, so that a talkative child cannot block; bounded */
};

/* options' input, seconds, rss_bytes, output_limit, keep_end and guard are process_run's alone */
attune_status process_start(const struct process_options *options, struct process *process, struct error *error);
void process_kill(struct process *process); /* kills the group, reaps, closes; safe twice */
/* reads exactly/writes exactly n bytes before `deadline` (CLOCK_MONOTONIC seconds; 0: none). ATTUNE_TIMEOUT;
 * ATTUNE_NO_MEMORY when the group's resident set passes rss_bytes (0: no limit); ATTUNE_IO when the child ended, the
 * message says how. The child is not killed: that is the caller's, by process_kill. Never SIGPIPE. */
attune_status process_write(struct process *process, const void *bytes, size_t length, double deadline,
                            struct error *error);
attune_status process_read(struct process *process, void *bytes, size_t length, double deadline, uint64_t rss_bytes,
                           struct error *error);
/* appends what stderr has given since the last call, at most `limit` bytes; the rest is dropped */
void process_errors(struct process *process, struct buffer *into, size_t limit);

/* of what a program does itself, like SIGSEGV; the others come from outside: a person, a limit, the system */
bool process_signal_is_fault(int number);

double clock_seconds(void); /* CLOCK_MONOTONIC */
/* bytes resident in the group's processes, 0 when gone. What a child starts by process_run has a group and a limit of
 * its own. */
uint64_t process_group_rss(pid_t group);
attune_status program_find(const char *name, char *path, size_t bytes, struct error *error); /* PATH look-up;
    ATTUNE_NOT_FOUND; empty entries of PATH, the working folder, are passed over */
/* one of our own programs: in libexec/ of the installation that this library or program belongs to, else beside it,
 * else in `folder` of the build tree; ATTUNE_NOT_FOUND says where it was looked for */
attune_status program_beside(const char *name, const char *folder, char *path, size_t bytes, struct error *error);

#endif
