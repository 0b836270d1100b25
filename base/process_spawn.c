/* process_spawn.c - fork and exec.
 *
 * Everything that allocates or looks up happens before the fork; between fork and exec only async-signal-safe calls
 * run, so that any thread of any host may start programs at any time. The child reports a failed exec through a pipe
 * that a successful one closes.
 */
#include "base/process_private.h"

#include "base/environment.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
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

enum { STATUS_FILE = 3, FIRST_FILE = 10 }; /* our pipes live at FIRST_FILE and above: dup2 to 0-3 never hits them */

static bool is_program(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && access(path, X_OK) == 0;
}

attune_status program_find(const char *name, char *path, size_t bytes, struct error *error)
{
    if (strchr(name, '/')) {
        if (!is_program(name)) {
            return error_set(error, ATTUNE_NOT_FOUND, "%s is not a program", name);
        }
        if (strlen(name) >= bytes) {
            return error_set(error, ATTUNE_INVALID, "the path %s is longer than %zu bytes", name,
                             bytes ? bytes - 1 : 0);
        }
        memcpy(path, name, strlen(name) + 1);
        return ATTUNE_OK;
    }
    const char *search = environment_get("PATH");
    if (!search) {
        search = ENVIRONMENT_PATH;
    }
    for (const char *entry = search; name[0];) {
        size_t length = strcspn(entry, ":");
        int written = length > 0 ? snprintf(path, bytes, "%.*s/%s", (int)length, entry, name) : -1;
        if (written > 0 && (size_t)written < bytes && is_program(path)) {
            return ATTUNE_OK;
        }
        if (entry[length] == '\0') {
            break;
        }
        entry += length + 1;
    }
    if (bytes > 0) {
        path[0] = '\0';
    }
    return error_set(error, ATTUNE_NOT_FOUND, "the program %s is not in PATH", name);
}

attune_status program_beside(const char *name, const char *folder, char *path, size_t bytes, struct error *error)
{
    const char *const places[][2] = {
        {"../" ATTUNE_LIBEXECDIR, ""}, {"../../" ATTUNE_LIBEXECDIR, ""}, {"", folder}, {"../", folder}, {"", ""}};
    char self[4096];
    attune_status status = path_self(self, sizeof self, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int length = snprintf(path, bytes, "%s/%s%s/%s", self, places[i][0], places[i][1], name);
        if (length > 0 && (size_t)length < bytes && is_program(path)) {
            return ATTUNE_OK;
        }
    }
    if (bytes > 0) {
        path[0] = '\0';
    }
    return error_set(error, ATTUNE_NOT_FOUND, "%s is neither beside %s nor in the %s of its installation", name, self,
                     ATTUNE_LIBEXECDIR);
}

/* does `entry` ("K=V" or "K") set or unset the variable of `variable` ("K=V")? */
static bool same_variable(const char *entry, const char *variable)
{
    size_t length = strcspn(entry, "=");
    return strncmp(entry, variable, length) == 0 && variable[length] == '=';
}

static bool overridden(const char *const *changes, const char *variable)
{
    for (; changes && *changes; changes++) {
        if (same_variable(*changes, variable)) {
            return true;
        }
    }
    return false;
}

/* the strings are shared, the array is the caller's to free; NULL without memory */
static char **make_environment(const char *const *changes)
{
    static char *untrusted[] = {"PATH=" ENVIRONMENT_PATH, NULL};
    char **inherited = environment_is_trusted() ? environ : untrusted;
    size_t count = 0, used = 0;
    for (char **variable = inherited; variable && *variable; variable++) {
        count++;
    }
    for (const char *const *change = changes; change && *change; change++) {
        count++;
    }
    char **made = calloc(count + 1, sizeof *made);
    if (!made) {
        return NULL;
    }
    for (char **variable = inherited; variable && *variable; variable++) {
        if (!overridden(changes, *variable)) {
            made[used++] = *variable;
        }
    }
    for (const char *const *change = changes; change && *change; change++) {
        if (strchr(*change, '=')) {
            made[used++] = (char *)(uintptr_t)*change;
        }
    }
    return made;
}

static void close_file(int *file)
{
    if (*file >= 0) {
        close(*file);
    }
    *file = -1;
}

/* moves a descriptor to FIRST_FILE or above */
static int lift(int file)
{
    int lifted = file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, FIRST_FILE);
    int reason = errno;
    close_file(&file);
    errno = reason;
    return lifted;
}

static bool make_pipe(int ends[2])
{
    int low[2];
    if (pipe2(low, O_CLOEXEC) != 0) {
        return false;
    }
    ends[0] = lift(low[0]);
    ends[1] = lift(low[1]);
    return ends[0] >= 0 && ends[1] >= 0;
}

/* all that the child needs, prepared before the fork */
struct plan {
    const char *path;
    char *const *argv;
    char **environment;
    const char *directory;
    uint64_t file_bytes;
    bool die_with_thread;
    pid_t parent;
    volatile pid_t *group; /* of a guard */
    int files[4];          /* become 0 to 3 */
};

static _Noreturn void report_and_exit(int reason)
{
    ssize_t ignored = write(STATUS_FILE, &reason, sizeof reason);
    (void)ignored;
    _exit(127);
}

/* The child's side. Async-signal-safe calls only. */
static _Noreturn void become(const struct plan *plan)
{
    setpgid(0, 0);
    if (plan->group != NULL) { /* before it can start anything */
        *plan->group = getpid();
    }
    for (int i = 0; i < STATUS_FILE; i++) {
        if (dup2(plan->files[i], i) < 0) {
            _exit(127);
        }
    }
    if (dup3(plan->files[STATUS_FILE], STATUS_FILE, O_CLOEXEC) < 0) {
        _exit(127);
    }
    if (close_range(STATUS_FILE + 1, ~0U, 0) != 0) { /* a kernel before 5.9 */
        struct rlimit limit = {.rlim_cur = 65536};
        getrlimit(RLIMIT_NOFILE, &limit);
        for (int file = STATUS_FILE + 1; file < (int)(limit.rlim_cur < 1048576 ? limit.rlim_cur : 1048576); file++) {
            close(file);
        }
    }
    if (plan->die_with_thread) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != plan->parent) { /* it died before the line above */
            _exit(127);
        }
    }
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (plan->file_bytes > 0) {
        struct rlimit limit = {plan->file_bytes, plan->file_bytes};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            report_and_exit(errno);
        }
    }
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) {
        sigaction(number, &standard, NULL); /* refused for SIGKILL, SIGSTOP and libc's own */
    }
    sigset_t nothing;
    sigemptyset(&nothing);
    sigprocmask(SIG_SETMASK, &nothing, NULL);
    if (plan->directory && chdir(plan->directory) != 0) {
        report_and_exit(errno);
    }
    execve(plan->path, plan->argv, plan->environment);
    report_and_exit(errno);
}

/* errno of a failed exec, 0 when it succeeded */
static int exec_result(int status_file)
{
    int reason = 0;
    ssize_t got;
    do {
        got = read(status_file, &reason, sizeof reason);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof reason ? reason : 0;
}

static attune_status fork_and_exec(const struct plan *plan, int status_read, int *status_write, pid_t *pid,
                                   struct error *error)
{
    /* no handler of the host may run in the child before exec */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    int reason = errno;
    if (child == 0) {
        become(plan);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child < 0) {
        return error_errno(error, reason, "cannot start %s", plan->path);
    }
    setpgid(child, child); /* also here: whoever comes first, before anybody kills the group */
    close_file(status_write);
    reason = exec_result(status_read);
    if (reason) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
        attune_status status = error_errno(error, reason, "cannot start %s%s%s", plan->path,
                                           plan->directory ? " in " : "", plan->directory ? plan->directory : "");
        if (reason == ENOENT && error) {
            error->status = ATTUNE_NOT_FOUND;
        }
        return reason == ENOENT ? ATTUNE_NOT_FOUND : status;
    }
    *pid = child;
    return ATTUNE_OK;
}

static void set_nonblocking(int file)
{
    if (file >= 0) {
        fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
    }
}

attune_status process_spawn(const struct process_options *options, bool with_input, bool die_with_thread,
                            struct spawned *spawned, struct error *error)
{
    char path[4096];
    char *absolute = NULL;
    int input[2] = {-1, -1}, output[2] = {-1, -1}, errors[2] = {-1, -1}, exec_status[2] = {-1, -1};
    struct plan plan = {.directory = options->directory,
                        .file_bytes = options->file_bytes,
                        .die_with_thread = die_with_thread,
                        .parent = getpid(),
                        .group = die_with_thread && options->guard ? options->guard->group : NULL};
    *spawned = (struct spawned){.pid = 0, .input = -1, .output = -1, .errors = -1};
    attune_status status = program_find(options->argv[0], path, sizeof path, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    absolute = options->directory && path[0] != '/' ? realpath(path, NULL) : NULL; /* before the child changes folder */
    plan.path = absolute ? absolute : path;
    plan.argv = (char *const *)(uintptr_t)options->argv;
    plan.environment = make_environment(options->environment);
    if (!plan.environment) {
        status = error_no_memory(error);
        goto out;
    }
    bool made = make_pipe(output) && make_pipe(errors) && make_pipe(exec_status);
    if (made && with_input) {
        made = make_pipe(input);
    } else if (made) {
        input[0] = lift(open("/dev/null", O_RDONLY | O_CLOEXEC));
        made = input[0] >= 0;
    }
    if (!made) {
        /* a limit of FIRST_FILE or less is EINVAL to fcntl */
        status = error_errno(error, errno == EINVAL ? EMFILE : errno,
                             "cannot start %s: no pipe (`ulimit -n` and open files decide)", plan.path);
        goto out;
    }
    memcpy(plan.files, (int[]){input[0], output[1], errors[1], exec_status[1]}, sizeof plan.files);
    status = fork_and_exec(&plan, exec_status[0], &exec_status[1], &spawned->pid, error);
    if (status == ATTUNE_OK) {
        spawned->input = input[1];
        spawned->output = output[0];
        spawned->errors = errors[0];
        set_nonblocking(input[1]);
        set_nonblocking(output[0]);
        set_nonblocking(errors[0]);
        input[1] = output[0] = errors[0] = -1;
    }
out:
    for (int i = 0; i < 2; i++) {
        close_file(&input[i]);
        close_file(&output[i]);
        close_file(&errors[i]);
        close_file(&exec_status[i]);
    }
    free(plan.environment);
    free(absolute);
    return status;
}
