/* store_internal.h - what the files of the store share; nobody else includes it but the fuzzers of what it reads.
 *
 * Invariants
 *   `root` never changes after store_open. Everything under it may vanish or turn bad at any moment: each operation
 * makes the folders it writes to and checks those it reads from. The memory lists hold what could not be published;
 * they only grow until store_close, and are guarded by `lock`.
 */
#ifndef CACHE_STORE_INTERNAL_H
#define CACHE_STORE_INTERNAL_H

#include "cache/object_file.h"
#include "cache/store.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

enum { STORE_PATH_BYTES = PATH_MAX, STORE_TEMPORARY_SECONDS = 3600 };

struct memory_object {
    struct memory_object *next;
    struct digest name;
    struct digest source;
    struct buffer file; /* as it would lie on disk */
};

struct memory_record {
    struct memory_record *next;
    char folder[STORE_PATH_BYTES]; /* records/<device>/<spec hash> */
    char name[NAME_MAX + 1];
    struct buffer json;
};

struct store {
    char root[STORE_PATH_BYTES]; /* "" when in memory only */
    char reason[512];            /* why it is */
    pthread_mutex_t lock;
    struct memory_object *objects; /* newest first */
    struct memory_record *records; /* newest first */
    atomic_bool in_memory;         /* a put ended here */
    atomic_bool swept;             /* tmp/ was looked through for what killed writers left */
};

/* the folder `relative` under the root, checked for being private at each level; ATTUNE_NOT_FOUND when it is not there
 */
attune_status store_folder_open(struct store *store, const char *relative, char path[STORE_PATH_BYTES],
                                struct error *error);
/* the same, making what is missing */
attune_status store_folder_make(struct store *store, const char *relative, char path[STORE_PATH_BYTES],
                                struct error *error);

/* publish bytes as <folder>/<name> under the root; survives a folder that is deleted meanwhile and replaces what is not
 * a regular file. The error is the operating system's */
attune_status store_publish(struct store *store, const char *folder, const char *name, const void *bytes, size_t length,
                            struct error *error);
/* the same, but a regular file that is there stays: *first is false then */
attune_status store_publish_first(struct store *store, const char *folder, const char *name, const void *bytes,
                                  size_t length, bool *first, struct error *error);

/* move a bad entry (path relative to the root) to rejected/, warn once; never fails: what cannot be moved stays a miss
 */
void store_set_aside(struct store *store, const char *relative, const char *reason);

void object_relative_folder(const struct digest *object, char folder[STORE_PATH_BYTES]); /* objects/ab */
/* An object that its folder did not take: what names it would be lost with this process, and must not outlive it. Where
 * there is room by now it is written, and the answer is false. */
bool store_object_is_volatile(struct store *store, const struct digest *object);
void source_relative_folder(const struct digest *source, char folder[STORE_PATH_BYTES]); /* sources/ab/<hex> */
void record_relative_folder(const char *device, const char *specialisation, char folder[STORE_PATH_BYTES]);
void record_file_name(const struct record *record, char name[NAME_MAX + 1]);

/* read, decode and check one record file for its place; ATTUNE_CORRUPT when it does not belong there */
attune_status store_record_read(const char *path, const char *folder, const char *name, struct record *record,
                                struct error *error);

/* notes of blocked objects as text: malloc'ed, NULL without memory; and back, false for what is no note of that object
 */
enum { STORE_BLOCKED_BYTES_MAX = 8192 };
char *store_blocked_encode(const struct blocked *blocked);
bool store_blocked_decode(const struct buffer *file, const struct digest *object, struct blocked *blocked);

/* may `name` be a file that a killed writer left behind? */
bool store_is_temporary(const char *name);

#endif
