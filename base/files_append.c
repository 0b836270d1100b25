/* files_append.c - files that several processes append to; see files.h. */
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static attune_status check(const char *path, const struct stat *facts, struct error *error)
{
    if (S_ISLNK(facts->st_mode)) {
        return error_set(error, ATTUNE_INVALID, "%s is a symbolic link; name the file itself", path);
    }
    if (!S_ISREG(facts->st_mode)) {
        return error_set(error, ATTUNE_INVALID, "%s is not a regular file", path);
    }
    if (facts->st_uid != geteuid()) {
        return error_set(error, ATTUNE_INVALID, "%s belongs to user %ld, not to us (%ld); name a file of your own",
                         path, (long)facts->st_uid, (long)geteuid());
    }
    if ((facts->st_mode & 022) != 0) {
        return error_set(error, ATTUNE_INVALID, "%s can be written by others (mode %04o); chmod go-w it", path,
                         (unsigned)(facts->st_mode & 07777));
    }
    return ATTUNE_OK;
}

attune_status file_open_append(const char *path, int *file, struct error *error)
{
    struct stat facts;
    *file = -1;
    attune_status status = folder_check_links(path, error);
    if (status == ATTUNE_OK &&
        lstat(path, &facts) == 0) { /* before opening: to open a device may already do something */
        status = check(path, &facts, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    *file = open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    if (*file < 0) {
        return error_errno(error, errno, "%s cannot be opened for appending", path);
    }
    status = fstat(*file, &facts) == 0 ? check(path, &facts, error) : error_errno(error, errno, "%s", path);
    if (status != ATTUNE_OK) {
        close(*file);
        *file = -1;
    }
    return status;
}
