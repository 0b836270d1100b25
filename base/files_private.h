/* files_private.h - what the files of base/files.h share. */
#ifndef BASE_FILES_PRIVATE_H
#define BASE_FILES_PRIVATE_H

#include "base/files.h"

/* that a file cannot be opened: ATTUNE_NOT_FOUND where it, or a folder on the way, is not there */
attune_status files_open_error(const char *path, int errno_value, struct error *error);
/* an open folder as folder_check_private wants it; -1 on failure */
int files_open_private(const char *path, struct error *error);
/* the folder that `path` lies in, "." or "/" where the path says no more; the caller frees it; NULL without memory */
char *files_folder_of(const char *path);

#endif
