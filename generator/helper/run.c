/* run.c - running compiler programs from the helper.
 *
 * They stay in the helper's process group, so that the pool's one kill at a time or memory limit ends driver, compiler
 * proper and linker alike; PR_SET_PDEATHSIG covers a helper that dies alone (the helper's main thread starts them, so
 * the signal cannot come early). Output is bounded: what is over the limit is read and dropped, so that no program
 * blocks on it.
 */
#include "generator/helper/helper.h"

#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const rlim_t file_limit_bytes = (rlim_t)256 << 20;
static const rlim_t stack_bytes = (rlim_t)8 << 20; /* the stack's limit decides where everything else is mapped */
static const char *const lonely[] = {"LC_ALL=C", NULL};

struct pipes {
    int input[2];
    int output[2];
    int errors[2];
};

static void close_end(int *end)
{
    if (*end >= 0) {
        (void)close(*end);
        *end = -1;
    }
}

static void close_pipes(struct pipes *pipes)
{
    int *ends[] = {&pipes->input[0],  &pipes->input[1],  &pipes->output[0],
                   &pipes->output[1], &pipes->errors[0], &pipes->errors[1]};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        close_end(ends[i]);
    }
}

/* in the child: only async-signal-safe calls */
static _Noreturn void become(const struct run *run, const char *path, const struct pipes *pipes, pid_t parent)
{
    const struct rlimit no_core = {0, 0};
    const struct rlimit file = {file_limit_bytes, file_limit_bytes};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127);
    }
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)setrlimit(RLIMIT_FSIZE, &file);
    if (run->alone) {
        struct rlimit stack;
        if (getrlimit(RLIMIT_STACK, &stack) == 0) {
            stack.rlim_cur = stack_bytes < stack.rlim_max ? stack_bytes : stack.rlim_max;
            (void)setrlimit(RLIMIT_STACK, &stack);
        }
    }
    if (dup2(pipes->input[0], 0) < 0 || dup2(pipes->output[1], 1) < 0 || dup2(pipes->errors[1], 2) < 0 ||
        chdir("/") != 0) {
        _exit(127);
    }
    (void)execve(path, (char *const *)run->argv, run->alone ? (char *const *)lonely : environ);
    _exit(127);
}

static void feed(int *end, const char *input, size_t bytes, size_t *written)
{
    ssize_t n = write(*end, input + *written, bytes - *written);
    if (n > 0) {
        *written += (size_t)n;
    }
    if ((n < 0 && errno != EINTR && errno != EAGAIN) || *written == bytes) {
        close_end(end);
    }
}

static void drain(int *end, struct buffer *into, size_t limit)
{
    char block[16384];
    ssize_t n = read(*end, block, sizeof block);
    if (n > 0 && into != NULL && into->length < limit) {
        size_t room = limit - into->length;
        buffer_append(into, block, (size_t)n < room ? (size_t)n : room);
    } else if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        close_end(end);
    }
}

/* until both outputs are closed; an own child that keeps them open past the program's end does not hold us */
static void converse(const struct run *run, struct pipes *pipes, pid_t child)
{
    const size_t limit = run->kept_bytes > 0 ? run->kept_bytes : RUN_KEPT_BYTES;
    size_t written = 0;
    bool ended = false;
    (void)fcntl(pipes->input[1], F_SETFL, O_NONBLOCK);
    if (run->input_bytes == 0) {
        close_end(&pipes->input[1]);
    }
    while (pipes->output[0] >= 0 || pipes->errors[0] >= 0) {
        struct pollfd files[3] = {
            {pipes->output[0], POLLIN, 0}, {pipes->errors[0], POLLIN, 0}, {pipes->input[1], POLLOUT, 0}};
        int ready = poll(files, 3, 100);
        if (ready == 0) {
            siginfo_t info = {0};
            if (ended) {
                break;
            }
            ended = waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child;
            continue;
        }
        if (files[0].revents != 0) {
            drain(&pipes->output[0], run->output, limit);
        }
        if (files[1].revents != 0) {
            drain(&pipes->errors[0], run->errors, limit);
        }
        if (files[2].revents != 0) {
            feed(&pipes->input[1], run->input, run->input_bytes, &written);
        }
    }
}

attune_status run_program(struct run *run, struct error *error)
{
    struct pipes pipes = {{-1, -1}, {-1, -1}, {-1, -1}};
    char path[PATH_MAX];
    int state = 0;
    attune_status status = ATTUNE_OK;
    run->exit_code = -1;
    run->signal = 0;
    if (!run_find(run->argv[0], path, NULL)) {
        return error_set(error, ATTUNE_NOT_FOUND, "the program %s is not there", run->argv[0]);
    }
    if (pipe2(pipes.input, O_CLOEXEC) != 0 || pipe2(pipes.output, O_CLOEXEC) != 0 ||
        pipe2(pipes.errors, O_CLOEXEC) != 0) {
        status = error_errno(error, errno, "pipes for %s", path);
        goto out;
    }
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        become(run, path, &pipes, parent);
    }
    if (child < 0) {
        status = error_errno(error, errno, "starting %s", path);
        goto out;
    }
    close_end(&pipes.input[0]);
    close_end(&pipes.output[1]);
    close_end(&pipes.errors[1]);
    converse(run, &pipes, child);
    pid_t ended = waitpid(child, &state, 0);
    while (ended < 0 && errno == EINTR) {
        ended = waitpid(child, &state, 0);
    }
    run->exit_code = ended == child && WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    run->signal = ended == child && WIFSIGNALED(state) ? WTERMSIG(state) : 0;
out:
    close_pipes(&pipes);
    return status;
}

bool run_line(const char *program, const char *argument, char *line, size_t bytes)
{
    const char *const argv[] = {program, argument, NULL};
    struct buffer text = BUFFER_INIT;
    struct run run = {.argv = argv, .output = &text};
    bool good = run_program(&run, NULL) == ATTUNE_OK && run.exit_code == 0;
    const char *first = buffer_string(&text);
    (void)snprintf(line, bytes, "%.*s", (int)strcspn(first, "\n"), first);
    buffer_free(&text);
    return good && line[0] != '\0';
}

void run_split(const char *text, char *words, size_t bytes, const char **argv, int *count)
{
    (void)snprintf(words, bytes, "%s", text);
    char *rest = NULL;
    for (char *word = strtok_r(words, " ", &rest); word != NULL && *count < RUN_WORDS_MAX - 1;
         word = strtok_r(NULL, " ", &rest)) {
        argv[(*count)++] = word;
    }
    argv[*count] = NULL;
}

void run_describe(const struct run *run, char *text, size_t bytes)
{
    text[0] = '\0';
    if (run->signal != 0) {
        (void)snprintf(text, bytes, " (ended by signal %d, %s)", run->signal, strsignal(run->signal));
    } else if (run->exit_code != 0) {
        (void)snprintf(text, bytes, " (exit status %d)", run->exit_code);
    }
}

/* The limit that a program had on its files is ours unless who started us set a lower one. */
static bool files_are_limited_by_others(void)
{
    struct rlimit file;
    return getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_max < file_limit_bytes;
}

static bool says_any(const char *text, const char *const *marks)
{
    while (*marks != NULL && strstr(text, *marks) == NULL) {
        marks++;
    }
    return *marks != NULL;
}

attune_status run_blame(const struct run *run, const struct buffer *log)
{
    /* drivers tell so of the compiler proper, the assembler and the linker, which they start */
    static const char *const outside[] = {"Killed signal terminated program",
                                          "Terminated signal terminated program",
                                          "Hangup signal terminated program",
                                          "CPU time limit exceeded signal terminated program",
                                          "unable to execute command: Killed",
                                          "unable to execute command: Terminated",
                                          "No space left on device",
                                          "Disk quota exceeded",
                                          "Cannot allocate memory",
                                          "out of memory allocating",
                                          "LLVM ERROR: out of memory",
                                          "Resource temporarily unavailable",
                                          "Too many open files",
                                          NULL};
    static const char *const of_files[] = {"File size limit exceeded", "File too large", NULL};
    const char *text = log->length > 0 ? log->data : "";
    const bool ended = run->signal != 0 && run->signal != SIGXFSZ && !process_signal_is_fault(run->signal);
    const bool limited = (run->signal == SIGXFSZ || says_any(text, of_files)) && files_are_limited_by_others();
    return ended || limited || says_any(text, outside) ? ATTUNE_IO : ATTUNE_COMPILE_FAILED;
}

bool run_is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

bool run_find(const char *name, char path[PATH_MAX], char *real)
{
    if (strchr(name, '/') != NULL) {
        if ((size_t)snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX) {
            return false;
        }
    } else if (program_find(name, path, PATH_MAX, NULL) != ATTUNE_OK) {
        return false;
    }
    return run_is_file(path) && access(path, X_OK) == 0 && (real == NULL || realpath(path, real) != NULL);
}
