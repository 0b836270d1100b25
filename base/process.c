/* process.c - waiting for programs and talking to them, always with a deadline. */
#include "base/process_private.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEPT_BYTES = 65536, OUTPUT_BYTES = 1 << 20, DRAIN_ROUNDS = 256 };
static const double rss_interval = 0.1;    /* seconds between looks at the resident set: /proc is not free */
static const double blind_interval = 0.01; /* without pidfd (kernels before 5.3) an exit is seen by looking */

bool process_signal_is_fault(int number)
{
    static const int faults[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (faults[i] == number) {
            return true;
        }
    }
    return false;
}

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* pages of one process when it is in the group; /proc/PID/stat: pid (name) state ppid pgrp ... 24th: rss */
static uint64_t member_pages(const char *pid, pid_t group)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return 0;
    }
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    const char *rest = strrchr(line, ')'); /* the name may hold anything, brackets too */
    long found_group, pages;
    if (!rest ||
        sscanf(rest + 1, " %*c %*d %ld %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u %*u %ld",
               &found_group, &pages) != 2) {
        return 0;
    }
    return found_group == (long)group && pages > 0 ? (uint64_t)pages : 0;
}

uint64_t process_group_rss(pid_t group)
{
    uint64_t pages = 0;
    DIR *processes = opendir("/proc");
    if (!processes) {
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(processes));) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') {
            pages += member_pages(entry->d_name, group);
        }
    }
    closedir(processes);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* write() without SIGPIPE for a descriptor that cannot take MSG_NOSIGNAL: block it, write, take back what became
 * pending */
static ssize_t write_quietly(int file, const void *bytes, size_t length)
{
    sigset_t pipe_signal, before, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    ssize_t put = write(file, bytes, length);
    int reason = errno;
    if (put < 0 && reason == EPIPE && !was_pending) {
        struct timespec now = {0, 0};
        while (sigtimedwait(&pipe_signal, NULL, &now) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return put;
}

/* appends what is there, keeping the buffer within `limit`, its start or its end; false at the end of the stream */
static bool drain(int file, struct buffer *into, size_t limit, bool keep_end)
{
    char chunk[4096]; /* callers' threads may have small stacks */
    /* not for ever: a program that writes as fast as we read must not keep us from looking at the clock */
    for (int round = 0; round < DRAIN_ROUNDS; round++) {
        ssize_t got = read(file, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 && errno == EAGAIN;
        }
        size_t room = into->length < limit ? limit - into->length : 0;
        buffer_append(into, chunk, keep_end || (size_t)got < room ? (size_t)got : room);
        if (into->length > limit) {
            memmove(into->data, into->data + into->length - limit / 2, limit / 2);
            into->length = limit / 2;
            into->data[into->length] = '\0';
        }
    }
    return true;
}

static void close_file(int *file)
{
    if (*file >= 0) {
        close(*file);
    }
    *file = -1;
}

/* has the child ended? It stays a zombie, so that its group's number stays its own until we have killed the group */
static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) != 0) {
        return errno == ECHILD; /* SIGCHLD is ignored, or somebody in this process waits for every child */
    }
    return info.si_pid == pid;
}

/* false: it ended and its status went elsewhere */
static bool reap(pid_t pid, const struct process_guard *guard, int *status)
{
    pid_t got;
    *status = 0;
    kill(-pid, SIGKILL);
    if (guard != NULL) {
        *guard->group = 0; /* the number may soon be another group's */
    }
    while ((got = waitpid(pid, status, 0)) < 0 && errno == EINTR) {
    }
    return got == pid;
}

static int poll_milliseconds(double seconds)
{
    return seconds <= 0 ? 0 : seconds > 3600 ? 3600000 : (int)ceil(seconds * 1e3);
}

/* ---- process_run ---- */

struct run {
    const struct process_options *options;
    struct process_result *result;
    struct spawned child;
    size_t sent; /* bytes of input */
    size_t limit;
    int pidfd; /* readable when the child ends; -1: not available */
    double start, next_rss;
};

static void feed(struct run *run)
{
    const char *bytes = run->options->input;
    while (run->sent < run->options->input_bytes) {
        ssize_t put = write_quietly(run->child.input, bytes + run->sent, run->options->input_bytes - run->sent);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0 && errno == EAGAIN) {
            return;
        }
        if (put < 0) { /* it does not read on: its choice */
            break;
        }
        run->sent += (size_t)put;
    }
    close_file(&run->child.input);
}

/* one wait; ATTUNE_OK to go on */
static attune_status run_step(struct run *run, struct error *error)
{
    const struct process_options *options = run->options;
    double now = clock_seconds();
    double wait = run->pidfd >= 0 ? 3600 : blind_interval;
    if (options->seconds > 0 && now - run->start >= options->seconds) {
        return error_set(error, ATTUNE_TIMEOUT, "%s ran longer than its limit of %g s and was killed", options->argv[0],
                         options->seconds);
    }
    if (options->seconds > 0) {
        wait = fmin(wait, run->start + options->seconds - now);
    }
    if (options->rss_bytes > 0) {
        if (now >= run->next_rss) {
            uint64_t used = process_group_rss(run->child.pid);
            if (used > options->rss_bytes) {
                return error_set(error, ATTUNE_NO_MEMORY,
                                 "%s uses %llu bytes of memory, its limit is %llu; it was killed", options->argv[0],
                                 (unsigned long long)used, (unsigned long long)options->rss_bytes);
            }
            run->next_rss = now + rss_interval;
        }
        wait = fmin(wait, rss_interval);
    }
    struct pollfd files[4] = {{run->child.output, POLLIN, 0},
                              {run->child.errors, POLLIN, 0},
                              {run->child.input, POLLOUT, 0},
                              {run->pidfd, POLLIN, 0}}; /* negative ones are passed over */
    if (poll(files, 4, poll_milliseconds(wait)) < 0 && errno != EINTR) {
        return error_errno(error, errno, "cannot wait for %s", options->argv[0]);
    }
    if (files[0].revents && !drain(run->child.output, &run->result->output, run->limit, run->options->keep_end)) {
        close_file(&run->child.output);
    }
    if (files[1].revents && !drain(run->child.errors, &run->result->errors, run->limit, run->options->keep_end)) {
        close_file(&run->child.errors);
    }
    if (files[2].revents) {
        feed(run);
    }
    return ATTUNE_OK;
}

attune_status process_run(const struct process_options *options, struct process_result *result, struct error *error)
{
    *result = (struct process_result){.exit_code = -1, .output = BUFFER_INIT, .errors = BUFFER_INIT};
    struct run run = {.options = options, .result = result, .limit = options->output_limit, .pidfd = -1};
    run.start = clock_seconds();
    if (run.limit == 0) {
        run.limit = OUTPUT_BYTES;
    }
    attune_status status = process_spawn(options, options->input != NULL, true, &run.child, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    run.pidfd = (int)syscall(SYS_pidfd_open, run.child.pid, 0);
    if (run.child.input >= 0) {
        feed(&run);
    }
    while (status == ATTUNE_OK && !has_ended(run.child.pid)) {
        status = run_step(&run, error);
    }
    int fate;
    bool known = reap(run.child.pid, options->guard, &fate);
    /* what is still in the pipes; their other ends are gone with the group, or held by a daemon we do not wait for */
    if (run.child.output >= 0) {
        drain(run.child.output, &result->output, run.limit, options->keep_end);
    }
    if (run.child.errors >= 0) {
        drain(run.child.errors, &result->errors, run.limit, options->keep_end);
    }
    close_file(&run.child.input);
    close_file(&run.child.output);
    close_file(&run.child.errors);
    close_file(&run.pidfd);
    result->seconds = clock_seconds() - run.start;
    if (!known) {
        status = status != ATTUNE_OK
                     ? status
                     : error_set(error, ATTUNE_IO,
                                 "%s ended, but its exit status is lost: this process ignores SIGCHLD or "
                                 "waits for children it did not start; restore SIGCHLD's default",
                                 options->argv[0]);
    } else if (WIFEXITED(fate)) {
        result->exit_code = WEXITSTATUS(fate);
    } else if (WIFSIGNALED(fate)) {
        result->signal = WTERMSIG(fate);
    }
    if (status == ATTUNE_OK && (result->output.failed || result->errors.failed)) {
        status = error_no_memory(error);
    }
    return status;
}

void process_result_free(struct process_result *result)
{
    buffer_free(&result->output);
    buffer_free(&result->errors);
}

/* ---- long-lived children ---- */

attune_status process_start(const struct process_options *options, struct process *process, struct error *error)
{
    struct spawned spawned;
    *process = (struct process){.pid = 0, .to_child = -1, .from_child = -1, .errors = -1, .kept = BUFFER_INIT};
    attune_status status = process_spawn(options, true, false, &spawned, error);
    if (status == ATTUNE_OK) {
        process->pid = spawned.pid;
        process->to_child = spawned.input;
        process->from_child = spawned.output;
        process->errors = spawned.errors;
    }
    return status;
}

void process_kill(struct process *process)
{
    if (process->pid > 0) {
        int fate;
        (void)reap(process->pid, NULL, &fate);
        close_file(&process->to_child);
        close_file(&process->from_child);
        close_file(&process->errors);
        buffer_free(&process->kept);
    }
    process->pid = 0;
}

static void drain_errors(struct process *process)
{
    if (process->errors >= 0 && !drain(process->errors, &process->kept, KEPT_BYTES, false)) {
        close_file(&process->errors);
    }
}

void process_errors(struct process *process, struct buffer *into, size_t limit)
{
    drain_errors(process);
    buffer_append(into, process->kept.data, process->kept.length < limit ? process->kept.length : limit);
    buffer_clear(&process->kept);
}

/* a stream broke: the child is about to end or has ended; say how */
static attune_status ended(const struct process *process, struct error *error)
{
    siginfo_t info = {0};
    /* the pipe closes before the process can be waited for; on a busy machine long before */
    for (int i = 0; i < 300 && info.si_pid != process->pid; i++) {
        if (i > 0) {
            poll(NULL, 0, 10);
        }
        if (waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOWAIT | WNOHANG) != 0) {
            break;
        }
    }
    if (info.si_pid != process->pid) {
        return error_set(error, ATTUNE_IO, "the program closed its end of the pipe");
    }
    if (info.si_code == CLD_EXITED) {
        return error_set(error, ATTUNE_IO, "the program exited with code %d", info.si_status);
    }
    return error_set(error, ATTUNE_IO, "the program was ended by signal %d (%s)", info.si_status,
                     sigdescr_np(info.si_status) ? sigdescr_np(info.si_status) : "unknown");
}

/* waits until `file` is ready for `events`, draining stderr meanwhile */
static attune_status await(struct process *process, int file, short events, double deadline, uint64_t rss_bytes,
                           struct error *error)
{
    double next_rss = 0;
    for (;;) {
        double now = clock_seconds();
        double wait = 3600;
        if (deadline > 0 && now >= deadline) {
            return error_set(error, ATTUNE_TIMEOUT, "the program did not answer within its time limit");
        }
        if (deadline > 0) {
            wait = deadline - now;
        }
        if (rss_bytes > 0) {
            if (now >= next_rss) {
                uint64_t used = process_group_rss(process->pid);
                if (used > rss_bytes) {
                    return error_set(error, ATTUNE_NO_MEMORY,
                                     "the program uses %llu bytes of memory, its limit is %llu",
                                     (unsigned long long)used, (unsigned long long)rss_bytes);
                }
                next_rss = now + rss_interval;
            }
            wait = fmin(wait, rss_interval);
        }
        struct pollfd files[2] = {{file, events, 0}, {process->errors, POLLIN, 0}};
        int ready = poll(files, 2, poll_milliseconds(wait));
        if (ready < 0 && errno != EINTR) {
            return error_errno(error, errno, "cannot wait for a program");
        }
        if (ready > 0 && files[1].revents) {
            drain_errors(process);
        }
        if (ready > 0 && files[0].revents) {
            return ATTUNE_OK;
        }
    }
}

attune_status process_write(struct process *process, const void *bytes, size_t length, double deadline,
                            struct error *error)
{
    const char *next = bytes;
    while (length > 0) {
        ssize_t put = write_quietly(process->to_child, next, length);
        if (put >= 0) {
            next += put;
            length -= (size_t)put;
        } else if (errno == EAGAIN) {
            attune_status status = await(process, process->to_child, POLLOUT, deadline, 0, error);
            if (status != ATTUNE_OK) {
                return status;
            }
        } else if (errno == EPIPE) {
            return ended(process, error);
        } else if (errno != EINTR) {
            return error_errno(error, errno, "cannot write to a program");
        }
    }
    return ATTUNE_OK;
}

attune_status process_read(struct process *process, void *bytes, size_t length, double deadline, uint64_t rss_bytes,
                           struct error *error)
{
    char *next = bytes;
    while (length > 0) {
        ssize_t got = read(process->from_child, next, length);
        if (got > 0) {
            next += got;
            length -= (size_t)got;
        } else if (got == 0) {
            drain_errors(process);
            return ended(process, error);
        } else if (errno == EAGAIN) {
            attune_status status = await(process, process->from_child, POLLIN, deadline, rss_bytes, error);
            if (status != ATTUNE_OK) {
                return status;
            }
        } else if (errno != EINTR) {
            return error_errno(error, errno, "cannot read from a program");
        }
    }
    return ATTUNE_OK;
}
