/* files.h - whole files, safe folders, atomic publication. Paths are bytes: blanks, quotes and non-ASCII are ordinary.
 */
#ifndef BASE_FILES_H
#define BASE_FILES_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* names of half-written files begin with this; a reader of folders skips them, a prune removes old ones */
#define FILE_TEMPORARY_PREFIX ".tmp-"

/* regular files only: a FIFO, device or folder is refused, without hanging; more than `limit` bytes is refused.
 * Appends to `into`. ATTUNE_NOT_FOUND when there is no such file. */
attune_status file_read(const char *path, size_t limit, struct buffer *into, struct error *error);

/* the same for a text: also refused with a NUL byte, which would end it unseen, or a byte order mark */
attune_status file_read_text(const char *path, size_t limit, struct buffer *into, struct error *error);

/* the same for a file that nobody else may have written: ours, not writable by group or others, not reached through a
 * link at the last component - of the opened file, not of what the name stood for a moment ago. ATTUNE_CORRUPT when
 * something else lies there. */
attune_status file_read_private(const char *path, size_t limit, struct buffer *into, struct error *error);

/* Opens for appending, and for reading what is there, a file that nobody else can write; made with mode 0600 when it is
 * missing. ATTUNE_INVALID, before anything of it is touched, for a link at the last component, one of others on the
 * way, a file of others or one that they can write, and what is no regular file. The caller closes it. */
attune_status file_open_append(const char *path, int *file, struct error *error);

/* write to a temporary name in the same folder (unique per host, process and thread), fsync, rename over `path`, fsync
 * the folder. On failure the temporary is removed and `path` is as it was. Mode 0600. */
attune_status file_publish(const char *path, const void *bytes, size_t length, struct error *error);

/* The same with the temporary file in another folder of the same file system; both must be private folders of ours, and
 * are held open: what others do to their names meanwhile changes nothing. */
attune_status file_publish_private(const char *temporary_folder, const char *path, const void *bytes, size_t length,
                                   struct error *error);

/* The same, but what has the name already stays as it is: *first is false then, with ATTUNE_OK. Of several writers, in
 * several processes or on several machines that share the file system, one is first. */
attune_status file_publish_first(const char *temporary_folder, const char *path, const void *bytes, size_t length,
                                 bool *first, struct error *error);

/* removes files left by killed writers (FILE_TEMPORARY_PREFIX, older than that many seconds) from a private folder */
void folder_sweep(const char *path, int64_t older_than_seconds);

/* Could file_write write here? Nothing is touched: for refusing before the work is done. ATTUNE_INVALID for an empty
 * path and a folder, ATTUNE_NOT_FOUND when the folder is missing. */
attune_status file_check_output(const char *path, struct error *error);

/* plain write for the user's own outputs; the file is removed again when writing failed half-way. A FIFO that nobody
 * reads is refused, without hanging. */
attune_status file_write(const char *path, const void *bytes, size_t length, struct error *error);

/* The whole of it to an open file; returns 0 or an errno. A file size limit (`ulimit -f`) is EFBIG here: its signal,
 * which would end the caller's process, is not delivered. */
int file_write_fully(int file, const void *bytes, size_t length);

/* exactly `length` bytes from an open file, pipe or socket; false at its end before that, and on errors */
bool file_read_fully(int file, void *bytes, size_t length);

/* mkdir -p with mode 0700 for what it creates */
attune_status folder_make(const char *path, struct error *error);

/* opened without following a link at the last component; refused when not ours, or when group/others can write */
attune_status folder_check_private(const char *path, struct error *error);

/* Every symbolic link on the way to `path` must be ours or root's: others could turn theirs to anywhere. The last
 * component need not exist. */
attune_status folder_check_links(const char *path, struct error *error);

/* A fresh private folder, attune-XXXXXX (the caller removes it; of killed callers it goes after a day), under $TMPDIR,
 * else /tmp, else /var/tmp, else $HOME; the message names TMPDIR when all fail */
attune_status folder_temporary(char *path, size_t bytes, struct error *error);
/* recursively, never following links; of what took the folder's place, a link or a file, the name goes. */
void folder_remove(const char *path);

/* join with one slash; ATTUNE_INVALID when longer than bytes */
attune_status path_join(char *path, size_t bytes, const char *folder, const char *name, struct error *error);

/* the folder of the running library or program (dladdr), for finding libexec beside it */
attune_status path_self(char *path, size_t bytes, struct error *error);

#endif
