/* files.c - whole files and safe folders. Every descriptor is close-on-exec; EINTR is retried. */
#include "base/files_private.h"

#include "base/environment.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

attune_status files_open_error(const char *path, int errno_value, struct error *error)
{
    attune_status status = error_errno(error, errno_value, "%s", path);
    if (errno_value == ENOENT || errno_value == ENOTDIR) {
        status = ATTUNE_NOT_FOUND;
        if (error) {
            error->status = status;
        }
    }
    return status;
}

/* the rest of an open regular file */
static attune_status read_rest(int file, const struct stat *facts, const char *path, size_t limit, struct buffer *into,
                               struct error *error)
{
    size_t before = into->length;
    if (facts->st_size > 0 && (uint64_t)facts->st_size <= limit) {
        buffer_reserve(into, before + (size_t)facts->st_size + 1);
    }
    char chunk[4096]; /* small: callers' threads may have small stacks */
    for (;;) {
        ssize_t got = read(file, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return error_errno(error, errno, "%s", path);
        }
        if (got == 0) {
            return buffer_ok(into, error);
        }
        if ((size_t)got > limit - (into->length - before)) {
            return error_set(error, ATTUNE_INVALID, "%s is larger than the limit of %zu bytes", path, limit);
        }
        buffer_append(into, chunk, (size_t)got);
        if (into->failed) {
            return error_no_memory(error);
        }
    }
}

attune_status file_read(const char *path, size_t limit, struct buffer *into, struct error *error)
{
    attune_status status = ATTUNE_OK;
    struct stat facts;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* non-blocking: a FIFO must not hang us */
    if (file < 0) {
        return files_open_error(path, errno, error);
    }
    if (fstat(file, &facts) != 0) {
        status = error_errno(error, errno, "%s", path);
    } else if (!S_ISREG(facts.st_mode)) {
        status = error_set(error, ATTUNE_INVALID, "%s is not a regular file", path);
    } else {
        status = read_rest(file, &facts, path, limit, into, error);
    }
    close(file);
    return status;
}

static attune_status check_private_file(const struct stat *facts, size_t limit, struct error *error)
{
    if (!S_ISREG(facts->st_mode)) {
        return error_set(error, ATTUNE_CORRUPT, "it is not a regular file");
    }
    if (facts->st_uid != geteuid() || (facts->st_mode & 022) != 0) {
        return error_set(error, ATTUNE_CORRUPT, "it belongs to user %ld with mode %04o: others can write it",
                         (long)facts->st_uid, (unsigned)(facts->st_mode & 07777));
    }
    if ((uint64_t)facts->st_size > limit) {
        return error_set(error, ATTUNE_CORRUPT, "its %llu bytes are more than the limit of %zu",
                         (unsigned long long)facts->st_size, limit);
    }
    return ATTUNE_OK;
}

attune_status file_read_private(const char *path, size_t limit, struct buffer *into, struct error *error)
{
    struct stat facts;
    /* before opening: to open a device may already do something */
    if (lstat(path, &facts) != 0) {
        return files_open_error(path, errno, error);
    }
    attune_status status = check_private_file(&facts, limit, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) {
        return files_open_error(path, errno, error);
    }
    if (fstat(file, &facts) != 0) {
        status = error_errno(error, errno, "%s", path);
    } else {
        status = check_private_file(&facts, limit, error);
    }
    if (status == ATTUNE_OK) {
        status = read_rest(file, &facts, path, limit, into, error);
    }
    close(file);
    return status;
}

attune_status file_read_text(const char *path, size_t limit, struct buffer *into, struct error *error)
{
    size_t before = into->length;
    attune_status status = file_read(path, limit, into, error);
    const char *text = buffer_string(into) + before;
    size_t length = into->length - before;
    const char *nul = status == ATTUNE_OK ? memchr(text, '\0', length) : NULL;
    if (nul != NULL) {
        int line = 1;
        for (const char *at = text; at < nul; at++) {
            line += *at == '\n';
        }
        return error_set(error, ATTUNE_INVALID, "%s: line %d holds a NUL byte: this is no text file", path, line);
    }
    if (status == ATTUNE_OK && length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        return error_set(error, ATTUNE_INVALID, "%s begins with a byte order mark: save it as UTF-8 without one", path);
    }
    return status;
}

static int write_all(int file, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t put = write(file, bytes, length);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return errno;
        }
        bytes += put;
        length -= (size_t)put;
    }
    return 0;
}

int file_write_fully(int file, const void *bytes, size_t length)
{
    sigset_t size_signal, before, pending;
    sigemptyset(&size_signal);
    sigaddset(&size_signal, SIGXFSZ);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &size_signal, &before);
    int failed = write_all(file, bytes, length);
    if (failed == EFBIG && !was_pending) { /* take back what became pending for this thread */
        struct timespec now = {0, 0};
        while (sigtimedwait(&size_signal, NULL, &now) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

bool file_read_fully(int file, void *bytes, size_t length)
{
    char *at = bytes;
    while (length > 0) {
        ssize_t got = read(file, at, length);
        if (got > 0) {
            at += got;
            length -= (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

char *files_folder_of(const char *path)
{
    char *folder = strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) {
        slash[slash == folder ? 1 : 0] = '\0';
    } else if (folder) {
        free(folder);
        folder = strdup(".");
    }
    return folder;
}

attune_status file_check_output(const char *path, struct error *error)
{
    struct stat facts;
    if (path[0] == '\0') {
        return error_set(error, ATTUNE_INVALID, "the name of an output is empty");
    }
    if (stat(path, &facts) == 0) {
        if (S_ISDIR(facts.st_mode)) {
            return error_set(error, ATTUNE_INVALID, "%s is a folder; name a file", path);
        }
        return access(path, W_OK) == 0 ? ATTUNE_OK : files_open_error(path, errno, error);
    }
    struct stat link;
    if (errno != ENOENT || (lstat(path, &link) == 0 && S_ISLNK(link.st_mode))) {
        return files_open_error(path, errno, error); /* also a link to nothing or to itself */
    }
    char *folder = files_folder_of(path);
    if (folder == NULL) {
        return error_no_memory(error);
    }
    attune_status status = ATTUNE_OK;
    if (stat(folder, &facts) != 0 || access(folder, W_OK | X_OK) != 0) {
        status = files_open_error(path, errno, error);
    } else if (!S_ISDIR(facts.st_mode)) {
        status = files_open_error(path, ENOTDIR, error);
    }
    free(folder);
    return status;
}

attune_status file_write(const char *path, const void *bytes, size_t length, struct error *error)
{
    struct stat facts;
    /* non-blocking only while opening: a FIFO without reader must not hang us, one with a slow reader may */
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (file < 0 && errno == ENXIO) {
        return error_set(error, ATTUNE_IO, "%s: nobody reads this FIFO; start its reader first or name a file", path);
    }
    if (file < 0) {
        return files_open_error(path, errno, error);
    }
    int flags = fcntl(file, F_GETFL);
    if (flags >= 0) {
        (void)fcntl(file, F_SETFL, flags & ~O_NONBLOCK);
    }
    int failed = file_write_fully(file, bytes, length);
    bool regular = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
    if (close(file) != 0 && !failed) {
        failed = errno;
    }
    if (failed) {
        if (regular) { /* /dev/full and its like stay */
            unlink(path);
        }
        return error_errno(error, failed, "%s: cannot write", path);
    }
    return ATTUNE_OK;
}

attune_status folder_make(const char *path, struct error *error)
{
    attune_status status = ATTUNE_OK;
    char *part = strdup(path);
    if (!part) {
        return error_no_memory(error);
    }
    if (!*part) {
        status = error_set(error, ATTUNE_INVALID, "the name of a folder is empty");
    }
    for (char *end = part; *end && status == ATTUNE_OK;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char saved = *end;
        *end = '\0';
        struct stat facts;
        if (mkdir(part, 0700) != 0 && !(errno == EEXIST && stat(part, &facts) == 0 && S_ISDIR(facts.st_mode))) {
            int reason = errno;
            if (!(stat(part, &facts) == 0 && S_ISDIR(facts.st_mode))) { /* read-only parents that exist are fine */
                status = error_errno(error, reason, "cannot create the folder %s", part);
            }
        }
        *end = saved;
    }
    free(part);
    return status;
}

/* opens a private folder of ours; -1 with the reason */
int files_open_private(const char *path, struct error *error)
{
    struct stat facts;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        struct stat link;
        int reason = errno;
        if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode)) {
            error_set(error, ATTUNE_INVALID, "%s is a symbolic link; name the folder itself", path);
        } else {
            files_open_error(path, reason, error);
        }
        return -1;
    }
    if (fstat(folder, &facts) != 0) {
        error_errno(error, errno, "%s", path);
    } else if (facts.st_uid != geteuid()) {
        error_set(error, ATTUNE_INVALID, "%s belongs to user %ld, not to us (%ld); use a folder of your own", path,
                  (long)facts.st_uid, (long)geteuid());
    } else if (facts.st_mode & 022) {
        error_set(error, ATTUNE_INVALID, "%s can be written by others (mode %04o); chmod go-w it", path,
                  (unsigned)(facts.st_mode & 07777));
    } else {
        return folder;
    }
    close(folder);
    return -1;
}

attune_status folder_check_private(const char *path, struct error *error)
{
    struct error why = {.message = ""};
    int folder = files_open_private(path, &why);
    if (folder < 0) {
        return error_set(error, why.status, "%s", why.message);
    }
    close(folder);
    return ATTUNE_OK;
}

attune_status folder_check_links(const char *path, struct error *error)
{
    char *part = strdup(path);
    attune_status status = part ? ATTUNE_OK : error_no_memory(error);
    for (char *end = part; part && *end && status == ATTUNE_OK;) {
        struct stat facts;
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char saved = *end;
        *end = '\0';
        if (lstat(part, &facts) == 0 && S_ISLNK(facts.st_mode) && facts.st_uid != 0 && facts.st_uid != geteuid()) {
            status =
                error_set(error, ATTUNE_INVALID,
                          "%s is a symbolic link of user %ld, who could turn it to anywhere; name a folder that is "
                          "not reached through it",
                          part, (long)facts.st_uid);
        }
        *end = saved;
    }
    free(part);
    return status;
}

void folder_sweep(const char *path, int64_t older_than_seconds)
{
    int folder = files_open_private(path, NULL);
    DIR *stream = folder >= 0 ? fdopendir(folder) : NULL;
    if (!stream) {
        if (folder >= 0) {
            close(folder);
        }
        return;
    }
    for (struct dirent *entry; (entry = readdir(stream));) {
        struct stat facts;
        if (strncmp(entry->d_name, FILE_TEMPORARY_PREFIX, strlen(FILE_TEMPORARY_PREFIX)) == 0 &&
            fstatat(dirfd(stream), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(facts.st_mode) &&
            time(NULL) - facts.st_mtim.tv_sec > older_than_seconds) {
            unlinkat(dirfd(stream), entry->d_name, 0);
        }
    }
    closedir(stream);
}

/* opens a folder of ours for removing what it holds, whatever it permits us now; never follows a link; -1: it is none
 */
static int open_to_empty(int at, const char *name)
{
    struct stat facts;
    char self[64];
    int place = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0) {
        return -1;
    }
    if (fstat(place, &facts) == 0 && (facts.st_mode & S_IRWXU) != S_IRWXU) {
        snprintf(self, sizeof self, "/proc/self/fd/%d", place);
        chmod(self, S_IRWXU);
    }
    int folder = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(place);
    return folder;
}

/* takes the descriptor; what cannot be removed is left behind */
static void remove_contents(int folder)
{
    DIR *stream = fdopendir(folder);
    if (!stream) {
        close(folder);
        return;
    }
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (unlinkat(folder, entry->d_name, 0) == 0) {
            continue;
        }
        int inner = open_to_empty(folder, entry->d_name);
        if (inner >= 0) {
            remove_contents(inner);
            unlinkat(folder, entry->d_name, AT_REMOVEDIR);
        }
    }
    closedir(stream);
}

void folder_remove(const char *path)
{
    int folder = open_to_empty(AT_FDCWD, path);
    if (folder >= 0) {
        remove_contents(folder);
        rmdir(path);
    } else {
        unlink(path); /* a link or a file that took its place */
    }
}

enum { LEFTOVER_SECONDS = 24 * 3600 };

/* `attune-` and mkdtemp's six characters */
static bool is_temporary_folder(const char *name)
{
    return strncmp(name, "attune-", 7) == 0 && strlen(name) == 13 &&
           strspn(name + 7, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == 6;
}

/* A process that is killed between making its folder and starting the program that would remove it leaves the folder
 * behind: one that nobody touched for a day goes. Only where nobody else could have given another folder of ours such a
 * name. (A worker that slept that long finds its folder gone and is replaced.) */
static void remove_leftovers(const char *place)
{
    struct stat facts;
    DIR *stream = opendir(place);
    bool safe = stream && fstat(dirfd(stream), &facts) == 0 && (facts.st_uid == 0 || facts.st_uid == geteuid()) &&
                ((facts.st_mode & 022) == 0 || (facts.st_mode & S_ISVTX) != 0);
    for (struct dirent *entry; safe && (entry = readdir(stream));) {
        char path[PATH_MAX];
        if (is_temporary_folder(entry->d_name) &&
            fstatat(dirfd(stream), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(facts.st_mode) &&
            facts.st_uid == geteuid() && time(NULL) - facts.st_mtim.tv_sec > LEFTOVER_SECONDS &&
            path_join(path, sizeof path, place, entry->d_name, NULL) == ATTUNE_OK) {
            folder_remove(path);
        }
    }
    if (stream) {
        closedir(stream);
    }
}

attune_status folder_temporary(char *path, size_t bytes, struct error *error)
{
    const char *places[] = {environment_get("TMPDIR"), "/tmp", "/var/tmp", environment_get("HOME")};
    int reason = ENOENT;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!places[i] || places[i][0] != '/') {
            continue;
        }
        int length = snprintf(path, bytes, "%s/attune-XXXXXX", places[i]);
        if (length < 0 || (size_t)length >= bytes) {
            reason = ENAMETOOLONG;
            continue;
        }
        if (mkdtemp(path)) {
            static atomic_bool looked; /* once a process is enough */
            if (!atomic_exchange(&looked, true)) {
                remove_leftovers(places[i]);
            }
            return ATTUNE_OK;
        }
        reason = errno;
    }
    if (bytes) {
        path[0] = '\0';
    }
    return error_errno(error, reason,
                       "no temporary folder: neither TMPDIR (%s) nor /tmp, /var/tmp or HOME can be written; set TMPDIR",
                       places[0] ? places[0] : "not set");
}

attune_status path_join(char *path, size_t bytes, const char *folder, const char *name, struct error *error)
{
    size_t length = strlen(folder);
    const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
    int written = snprintf(path, bytes, "%s%s%s", folder, slash, name);
    if (written < 0 || (size_t)written >= bytes) {
        return error_set(error, ATTUNE_INVALID, "the path %s%s%s is longer than %zu bytes", folder, slash, name,
                         bytes ? bytes - 1 : 0);
    }
    return ATTUNE_OK;
}

attune_status path_self(char *path, size_t bytes, struct error *error)
{
    Dl_info info;
    struct link_map *map = NULL;
    const char *name = "";
    if (dladdr1((const void *)(uintptr_t)path_self, &info, (void **)&map, RTLD_DL_LINKMAP) && map) {
        name = map->l_name; /* "" for the program itself, whose argv[0] says nothing reliable */
    }
    char *real = realpath(name[0] ? name : "/proc/self/exe", NULL);
    if (!real) {
        return error_errno(error, errno, "cannot find the folder of %s", name[0] ? name : "the program");
    }
    attune_status status = ATTUNE_OK;
    char *slash = strrchr(real, '/');
    size_t length = slash == real ? 1 : (size_t)(slash - real);
    if (length >= bytes) {
        status = error_set(error, ATTUNE_INVALID, "the path %s is longer than %zu bytes", real, bytes ? bytes - 1 : 0);
    } else {
        memcpy(path, real, length);
        path[length] = '\0';
    }
    free(real);
    return status;
}
