/* process_guard.c - what ends with us even when we are killed.
 *
 * The kernel's signal for a dead parent reaches the child alone, not what that child started, and nothing of ours runs
 * after SIGKILL. So a second process waits for our death: a fork without exec, which makes async-signal-safe calls
 * only and holds no file of ours. It is in a group of its own, so that neither a terminal's Ctrl-C nor the end of the
 * group that it guards reaches it.
 */
#include "base/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_files(void)
{
    if (close_range(0, ~0U, 0) != 0) { /* a kernel before 5.9 */
        struct rlimit limit = {.rlim_cur = 65536};
        getrlimit(RLIMIT_NOFILE, &limit);
        for (int file = 0; file < (int)(limit.rlim_cur < 1048576 ? limit.rlim_cur : 1048576); file++) {
            close(file);
        }
    }
}

/* The guard's side; all signals that can be are blocked. */
static _Noreturn void watch(pid_t parent, const volatile pid_t *group, const char *remover, char *const *words)
{
    static char *nothing[] = {NULL};
    sigset_t death, none;
    setpgid(0, 0);
    close_files();
    sigemptyset(&none);
    sigemptyset(&death);
    sigaddset(&death, SIGTERM);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    while (getppid() == parent) { /* anybody may send that signal, and the parent may have died before the line above */
        sigwaitinfo(&death, NULL);
    }
    if (*group > 0) {
        kill(-*group, SIGKILL);
    }
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(remover, words, nothing);
    _exit(127);
}

attune_status process_guard_start(const char *folder, struct process_guard *guard, struct error *error)
{
    char remover[4096];
    char *words[] = {"rm", "-rf", "--", (char *)(uintptr_t)folder, NULL};
    *guard = (struct process_guard){0};
    if (folder == NULL || program_find("rm", remover, sizeof remover, NULL) != ATTUNE_OK) {
        remover[0] = '\0'; /* the folder stays then, as that of a killed caller does */
    }
    void *shared = mmap(NULL, sizeof *guard->group, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return error_no_memory(error);
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t parent = getpid(), child = fork();
    int reason = errno;
    if (child == 0) {
        watch(parent, shared, remover, words);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child < 0) {
        munmap(shared, sizeof *guard->group);
        return error_errno(error, reason, "cannot start a process beside this one");
    }
    guard->pid = child;
    guard->group = shared;
    return ATTUNE_OK;
}

void process_guard_end(struct process_guard *guard)
{
    if (guard->pid > 0) {
        kill(guard->pid, SIGKILL);
        while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        munmap((void *)(uintptr_t)guard->group, sizeof *guard->group);
    }
    *guard = (struct process_guard){0};
}
