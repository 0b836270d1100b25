/* kill_at.c - a library that is preloaded into `attune`: it ends the process by SIGKILL at the Nth of the calls that
 * leave something on disk. A write that is to be the last one leaves its first half.
 *
 *   KILL_AT=N       the Nth call, from 1; 0 and unset: none; -N: the Nth write to a file that is appended to
 *   KILL_AT_FOLDER=P writes count that go to files whose path begins so
 *   KILL_AT_LOG=F   appends the names of the calls, one a line, so that a test knows how many there are
 *
 * Programs that attune starts have the variables too, but are not named attune: they are left alone.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

static atomic_int calls;
static int last, log_file = -1;
static int is_mine; /* the program is attune */
static const char *folder;

typedef ssize_t (*write_function)(int, const void *, size_t);
static write_function real_write;

static void *next_of(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("KILL_AT"), *path = getenv("KILL_AT_LOG");
    *(void **)&real_write = next_of("write");
    if (strcmp(program_invocation_short_name, "attune") != 0) {
        return;
    }
    is_mine = 1;
    folder = getenv("KILL_AT_FOLDER");
    last = at != NULL ? atoi(at) : 0;
    log_file = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
}

/* true: this call is to be the last */
static int is_last(const char *name, int appends)
{
    char line[64];
    if (!is_mine) {
        return 0;
    }
    int length = snprintf(line, sizeof line, "%s\n", name);
    if (log_file >= 0 && real_write(log_file, line, (size_t)length) != length) {
        _exit(99);
    }
    if (last < 0 && !appends) {
        return 0;
    }
    return atomic_fetch_add(&calls, 1) + 1 == abs(last);
}

static void end(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;) {
        pause();
    }
}

/* to a file in the folder */
static int is_kept(int file)
{
    char name[64], path[4096];
    int before = errno, kept = 0;
    if (folder != NULL) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", file);
        ssize_t length = readlink(name, path, sizeof path);
        kept = length > (ssize_t)strlen(folder) && strncmp(path, folder, strlen(folder)) == 0;
    }
    errno = before;
    return kept;
}

SHOWN ssize_t write(int file, const void *bytes, size_t length)
{
    if (real_write == NULL) {
        *(void **)&real_write = next_of("write");
    }
    if (is_kept(file) && is_last("write", fcntl(file, F_GETFL) & O_APPEND)) {
        (void)real_write(file, bytes, length / 2);
        end();
    }
    return real_write(file, bytes, length);
}

SHOWN int fsync(int file)
{
    int (*real)(int);
    *(void **)&real = next_of("fsync");
    if (is_last("fsync", 0)) {
        end();
    }
    return real(file);
}

SHOWN int fdatasync(int file)
{
    int (*real)(int);
    *(void **)&real = next_of("fdatasync");
    if (is_last("fdatasync", 0)) {
        end();
    }
    return real(file);
}

SHOWN int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *);
    *(void **)&real = next_of("rename");
    if (is_last("rename", 0)) {
        end();
    }
    return real(from, to);
}

SHOWN int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    int (*real)(int, const char *, int, const char *);
    *(void **)&real = next_of("renameat");
    if (is_last("rename", 0)) {
        end();
    }
    return real(from_folder, from, to_folder, to);
}

SHOWN int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    int (*real)(int, const char *, int, const char *, int);
    *(void **)&real = next_of("linkat");
    if (is_last("link", 0)) {
        end();
    }
    return real(from_folder, from, to_folder, to, flags);
}
