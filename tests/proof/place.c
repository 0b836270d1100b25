/* place.c - see place.h */
#include "tests/proof/place.h"

#include "base/files.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANGES_MAX = 24 };

static char folder[PLACE_PATH];
static struct place_result last;
static char compiler[PLACE_PATH + 32], counter[PLACE_PATH + 32];

/* counts compiles; questions go on to the real one */
static void write_compiler(void)
{
    char text[2 * PLACE_PATH];
    int length = snprintf(text, sizeof text,
                          "#!/bin/sh\n"
                          "for word in \"$@\"; do\n"
                          "  case \"$word\" in --version|-print-*) exec c++ \"$@\";; esac\n"
                          "done\n"
                          "printf x >>'%s/compiles' 2>/dev/null\n"
                          "exec c++ \"$@\"\n",
                          folder);
    assert_int_equal(file_write(place("compiler"), text, (size_t)length, NULL), ATTUNE_OK);
    assert_int_equal(chmod(place("compiler"), 0755), 0);
    assert_int_equal(file_write(place("compiles"), "", 0, NULL), ATTUNE_OK);
    assert_int_equal(chmod(place("compiles"), 0666), 0);
}

int place_open(void **state)
{
    (void)state;
    if (folder_temporary(folder, sizeof folder, NULL) != ATTUNE_OK || chmod(folder, 0755) != 0) {
        return -1;
    }
    snprintf(compiler, sizeof compiler, "ATTUNE_CXX=%s/compiler", folder);
    snprintf(counter, sizeof counter, "%s/compiles", folder);
    write_compiler();
    return 0;
}

int place_close(void **state)
{
    (void)state;
    buffer_free(&last.output);
    buffer_free(&last.errors);
    folder_remove(folder);
    return 0;
}

const char *place_folder(void)
{
    return folder;
}

const char *place(const char *format, ...)
{
    static char paths[32][PLACE_PATH];
    static int next;
    char *path = paths[next++ % 32];
    int used = snprintf(path, PLACE_PATH, "%s/", folder);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path + used, PLACE_PATH - (size_t)used, format, arguments);
    va_end(arguments);
    return path;
}

const char *place_make(const char *name, mode_t mode, uid_t owner)
{
    const char *path = place("%s", name);
    folder_remove(path);
    assert_int_equal(mkdir(path, 0700), 0);
    if (owner != 0) {
        assert_int_equal(chown(path, owner, owner), 0);
    }
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

/* in the child */
static _Noreturn void become(const struct place_call *call, int output, int errors)
{
    static const char *const ours[] = {"ATTUNE_CACHE", "ATTUNE_JIT",     "ATTUNE_STALE", "ATTUNE_QUIET",
                                       "HOME",         "XDG_CACHE_HOME", "TMPDIR",       "ATTUNE_TEMPLATE_PATH"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        unsetenv(ours[i]);
    }
    putenv(compiler);
    for (const char *const *change = call->environment; change != NULL && *change != NULL; change++) {
        const char *equals = strchr(*change, '=');
        if (equals == NULL) {
            unsetenv(*change);
        } else {
            putenv(strdup(*change));
        }
    }
    if (call->file_bytes > 0) {
        struct rlimit limit = {call->file_bytes, RLIM_INFINITY};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (chdir(call->directory != NULL ? call->directory : folder) != 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0) {
        _exit(126);
    }
    if (call->user != 0 && geteuid() == 0 &&
        (setgroups(0, NULL) != 0 || setresgid(call->user, call->user, call->user) != 0 ||
         setresuid(call->user, call->user, call->user) != 0)) {
        _exit(126);
    }
    if (call->real_user != 0 && setresuid(call->real_user, (uid_t)-1, (uid_t)-1) != 0) {
        _exit(126);
    }
    execvp(call->argv[0], (char *const *)(uintptr_t)call->argv);
    _exit(127);
}

static int log_open(const char *name, const char *suffix)
{
    int file = open(place("%s.%s", name, suffix), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    return file;
}

pid_t place_start(const struct place_call *call, const char *log)
{
    int output = log_open(log, "out"), errors = log_open(log, "err");
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        become(call, output, errors);
    }
    close(output);
    close(errors);
    return child;
}

static int count_compiles(void)
{
    struct stat facts;
    assert_int_equal(stat(counter, &facts), 0);
    return (int)facts.st_size;
}

const struct place_result *place_run(const struct place_call *call)
{
    int status = 0, before = count_compiles();
    double deadline = clock_seconds() + (call->seconds > 0 ? call->seconds : 120);
    buffer_free(&last.output);
    buffer_free(&last.errors);
    last = (struct place_result){.exit_code = -1};
    pid_t child = place_start(call, "last");
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (clock_seconds() > deadline) {
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
            status = SIGALRM; /* as if ended by it */
            break;
        }
        usleep(2000);
    }
    last.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    last.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    last.compiles = count_compiles() - before;
    assert_int_equal(file_read(place("last.out"), 1 << 24, &last.output, NULL), ATTUNE_OK);
    assert_int_equal(file_read(place("last.err"), 1 << 24, &last.errors, NULL), ATTUNE_OK);
    for (const char *at = buffer_string(&last.errors); (at = strstr(at, "attune: warning: ")) != NULL; at++) {
        last.warnings++;
    }
    return &last;
}

const struct place_result *place_engine(uid_t user, const char *change, ...)
{
    static const char *const argv[] = {PLACE_ENGINE, "--calls", "2", PLACE_PROBLEM, NULL};
    const char *changes[CHANGES_MAX] = {change};
    int count = change != NULL;
    va_list rest;
    va_start(rest, change);
    while (count > 0 && count < CHANGES_MAX - 1 && (changes[count] = va_arg(rest, const char *)) != NULL) {
        count++;
    }
    va_end(rest);
    const struct place_call call = {.argv = argv, .environment = changes, .user = user};
    return place_run(&call);
}

static void show(void)
{
    print_error("exit code %d, signal %d, %d warnings, %d compiles\nstdout: %s\nstderr: %s\n", last.exit_code,
                last.signal, last.warnings, last.compiles, buffer_string(&last.output), buffer_string(&last.errors));
}

void place_right(int warnings, int compiles)
{
    if (last.exit_code != 0 || (warnings >= 0 && last.warnings != warnings) ||
        (compiles >= 0 && last.compiles != compiles)) {
        show();
        fail_msg("expected exit code 0, %d warnings, %d compiles", warnings, compiles);
    }
}

void place_says(const char *text)
{
    if (strstr(buffer_string(&last.errors), text) == NULL) {
        show();
        fail_msg("stderr lacks '%s'", text);
    }
}

void place_object(char hex[65])
{
    if (sscanf(buffer_string(&last.output), "plan %64[0-9a-f]", hex) != 1) {
        show();
        fail_msg("no plan was told");
    }
}

/* a build below a folder that is closed to others, such as root's home, cannot be run by them */
static bool others_reach_the_build(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(setgroups(0, NULL) == 0 && setresgid(PLACE_NOBODY, PLACE_NOBODY, PLACE_NOBODY) == 0 &&
                      setresuid(PLACE_NOBODY, PLACE_NOBODY, PLACE_NOBODY) == 0 && access(PLACE_ENGINE, X_OK) == 0
                  ? 0
                  : 1);
    }
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

bool place_is_root(void)
{
    if (geteuid() != 0) {
        print_message("skipped: only root can become another user\n");
        return false;
    }
    if (!others_reach_the_build()) {
        print_message("skipped: another user cannot reach %s: build below a folder that is open to others\n",
                      PLACE_ENGINE);
        return false;
    }
    return true;
}

bool place_compiles(void)
{
    char path[PLACE_PATH];
    if (program_find("c++", path, sizeof path, NULL) != ATTUNE_OK) {
        print_message("skipped: no C++ compiler for the host device\n");
        return false;
    }
    return true;
}

/* nftw has no argument of ours */
static struct {
    const char *root;
    void (*visit)(const char *root, const char *relative, void *data);
    void *data;
    int count;
} walk;

static int walk_entry(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    (void)facts, (void)where;
    if (kind != FTW_D && kind != FTW_DP) {
        walk.count++;
        if (walk.visit != NULL) {
            walk.visit(walk.root, path + strlen(walk.root) + 1, walk.data);
        }
    }
    return 0;
}

int place_walk(const char *root, void (*visit)(const char *root, const char *relative, void *data), void *data)
{
    walk.root = root;
    walk.visit = visit;
    walk.data = data;
    walk.count = 0;
    (void)nftw(root, walk_entry, 16, FTW_PHYS);
    return walk.count;
}

struct counting {
    const char *part;
    int count;
};

static void count_one(const char *root, const char *relative, void *data)
{
    struct counting *counting = data;
    (void)root;
    counting->count += strstr(relative, counting->part) != NULL;
}

int place_count(const char *root, const char *part)
{
    struct counting counting = {part, 0};
    place_walk(root, count_one, &counting);
    return counting.count;
}

void place_copy(const char *from, const char *to)
{
    const char *const argv[] = {"cp", "-a", from, to, NULL};
    const struct process_options options = {.argv = argv};
    struct process_result result;
    assert_int_equal(process_run(&options, &result, NULL), ATTUNE_OK);
    assert_int_equal(result.exit_code, 0);
    process_result_free(&result);
}
