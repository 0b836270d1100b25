/* files_publish.c - whole files under their names at once, by rename or, where the first one stays, by link; see
 * files.h. */
#include "base/files_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* unique per host, process, thread and call: NFS gives no other exclusion */
static void temporary_name(char *name, size_t bytes)
{
    static atomic_uint counter;
    char host[33] = "";
    if (gethostname(host, sizeof host - 1) != 0) {
        host[0] = '\0';
    }
    host[sizeof host - 1] = '\0';
    for (char *c = host; *c; c++) {
        if (*c == '/') {
            *c = '_';
        }
    }
    uint32_t salt = 0;
    if (getrandom(&salt, sizeof salt, GRND_NONBLOCK) != (ssize_t)sizeof salt) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        salt = (uint32_t)now.tv_nsec;
    }
    snprintf(name, bytes, FILE_TEMPORARY_PREFIX "%s-%ld-%ld-%u-%08x", host, (long)getpid(), (long)gettid(),
             atomic_fetch_add(&counter, 1), salt);
}

/* The temporary gets the name unless something has it: 0, or an errno, EEXIST where something has. A link is what NFS
 * does once and for all; its reply may be lost and the call repeated, so that the count of links has the last word. */
static int name_first(int folder, const char *temporary, int into, const char *name)
{
    struct stat facts;
    if (linkat(folder, temporary, into, name, 0) == 0) {
        return 0;
    }
    int failed = errno;
    if (failed == EEXIST && fstatat(folder, temporary, &facts, AT_SYMLINK_NOFOLLOW) == 0 && facts.st_nlink == 2) {
        return 0;
    }
    if (failed != EPERM && failed != EOPNOTSUPP && failed != ENOSYS && failed != EMLINK) {
        return failed;
    }
    return renameat2(folder, temporary, into, name, RENAME_NOREPLACE) == 0 ? 0 : errno; /* no links on this one */
}

/* `folder` holds the temporary, `into` gets the name; both may be one. `first` NULL: what has the name is replaced. */
static attune_status publish_between(int folder, int into, const char *path, const void *bytes, size_t length,
                                     bool *first, struct error *error)
{
    attune_status status = ATTUNE_OK;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char temporary[128];
    temporary_name(temporary, sizeof temporary);
    int file = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) {
        return error_errno(error, errno, "%s: cannot create a file in its folder", path);
    }
    int failed = file_write_fully(file, bytes, length);
    if (!failed && fsync(file) != 0) {
        failed = errno;
    }
    if (close(file) != 0 && !failed) { /* NFS reports a full disk here */
        failed = errno;
    }
    if (!failed && first != NULL) {
        failed = name_first(folder, temporary, into, name);
        *first = failed == 0;
        unlinkat(folder, temporary, 0);
        if (failed == EEXIST) {
            return ATTUNE_OK;
        }
    } else if (!failed && renameat(folder, temporary, into, name) != 0) {
        failed = errno;
    }
    if (failed) {
        unlinkat(folder, temporary, 0);
        return error_errno(error, failed, "%s: cannot write", path);
    }
    /* some file systems refuse to sync a folder; the rename is done either way */
    if (fsync(into) != 0 && errno == EIO) {
        status = error_errno(error, errno, "%s: cannot sync its folder", path);
    }
    return status;
}

attune_status file_publish(const char *path, const void *bytes, size_t length, struct error *error)
{
    char *name = files_folder_of(path);
    if (!name) {
        return error_no_memory(error);
    }
    attune_status status;
    int folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        status = files_open_error(name, errno, error);
    } else {
        status = publish_between(folder, folder, path, bytes, length, NULL, error);
        close(folder);
    }
    free(name);
    return status;
}

static attune_status publish_private(const char *temporary_folder, const char *path, const void *bytes, size_t length,
                                     bool *first, struct error *error)
{
    struct error why = {.message = ""};
    char *name = files_folder_of(path);
    if (!name) {
        return error_no_memory(error);
    }
    attune_status status;
    int temporary = files_open_private(temporary_folder, &why);
    int folder = temporary < 0 ? -1 : files_open_private(name, &why);
    if (folder < 0) {
        status = error_set(error, why.status, "%s", why.message);
    } else {
        status = publish_between(temporary, folder, path, bytes, length, first, error);
        close(folder);
    }
    if (temporary >= 0) {
        close(temporary);
    }
    free(name);
    return status;
}

attune_status file_publish_private(const char *temporary_folder, const char *path, const void *bytes, size_t length,
                                   struct error *error)
{
    return publish_private(temporary_folder, path, bytes, length, NULL, error);
}

attune_status file_publish_first(const char *temporary_folder, const char *path, const void *bytes, size_t length,
                                 bool *first, struct error *error)
{
    *first = false;
    return publish_private(temporary_folder, path, bytes, length, first, error);
}
