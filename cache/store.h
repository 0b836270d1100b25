/* store.h - a folder of immutable objects and records.
 *
 *   objects/<2 hex>/<64 hex>                         compiled binaries behind a checked header, named by their key
 *   sources/<2 hex>/<64 hex>/<64 hex>                empty: source key -> objects made from it by any compiler
 *   records/<device>/<spec hash>/<shape>.<run>.json
 *   journals/<run>.jsonl
 *   blocked/<2 hex>/<64 hex>.json                    objects that were wrong, hung, crashed or never finished compiling
 *   rejected/                                        what failed its check, set aside
 *   tmp/                                             half-written files, until they are renamed into place
 *
 * Everything is published by write-to-temporary, fsync, rename: no lock is needed for correctness (NFS, kill -9).
 * Readers trust nothing. Folders that others can write, are not ours, or are links, are refused. A store that cannot be
 * written falls back to memory, with one warning that names the path and ATTUNE_CACHE. Thread-safe.
 */
#ifndef CACHE_STORE_H
#define CACHE_STORE_H

#include "base/buffer.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/target.h"
#include "cache/record.h"

#include <stdbool.h>

struct store;

/* path NULL: $ATTUNE_CACHE, else $XDG_CACHE_HOME/attune, else $HOME/.cache/attune (relative or empty values and HOME=/
 * are not used), else memory only, warned once. Never fails because a folder cannot be used: it falls back to memory.
 */
attune_status store_open(const char *path, struct store **store, struct error *error);
void store_close(struct store *store);
const char *store_path(const struct store *store);          /* "" when in memory */
const char *store_memory_reason(const struct store *store); /* why store_path is "", else "" */
/* something that was put since opening is in memory alone, for want of a folder that takes it: it ends with the process
 */
bool store_is_volatile(const struct store *store);

/* The warning that things are kept in memory from now on, once a store: also for who writes into the store by himself,
 * as journals do. */
void store_warn_memory(const struct store *store, const struct error *error);

/* ---- keys ---- */
struct object_key {
    const char *shown; /* source as shown, without #line and the digest of the template's files, and the launch */
    size_t shown_bytes;
    struct digest vocabulary;
    const char *options;  /* compiler_options_text */
    struct target target; /* full */
    const char *identity; /* compiler identity, hex */
};
void object_key_digest(const struct object_key *key, struct digest *object,
                       struct digest *source); /* source: without identity */
/* the name of what a compiler makes of a source key */
void object_name_digest(const struct digest *source, const char *identity, struct digest *object);

/* ---- objects ---- */
struct object_header {
    char target[TARGET_TEXT_BYTES];
    char compiler[64];
    char identity[DIGEST_HEX_BYTES];
    char kernel[64];
    char minimum_driver[32]; /* "" none */
    struct digest source;    /* key without the compiler's identity */
};

attune_status store_object_put(struct store *store, const struct digest *object, const struct object_header *header,
                               const void *bytes, size_t length, struct error *error);
/* ATTUNE_NOT_FOUND on a miss; a damaged or misnamed entry is moved to rejected/, warned once, and is a miss */
attune_status store_object_get(struct store *store, const struct digest *object, struct object_header *header,
                               struct buffer *bytes, struct error *error);
/* What the header says is no proof of what the caller expects: an object that does not serve where a record or key says
 * it does is set aside like a damaged one, warned once, and made again. */
void store_object_reject(struct store *store, const struct digest *object, const char *reason);
bool store_object_has(struct store *store, const struct digest *object); /* by name only */
/* an object of the same source key by any compiler; newest first */
attune_status store_object_find_source(struct store *store, const struct digest *source, struct digest *object,
                                       struct error *error);

/* Keeps the source of a compile that failed, for who reads the message: rejected/<source key>.txt. `path` gets where,
 * "" when there is no folder that takes it. */
void store_source_keep(struct store *store, const struct digest *source, const char *text, size_t length, char *path,
                       size_t bytes);

/* ---- records ---- */
/* A record whose object is in memory alone stays there too: no record on disk names what is not there. */
attune_status store_record_put(struct store *store, const struct record *record, struct error *error);
/* is it in the store's folder, so that other processes find it? */
bool store_record_is_kept(struct store *store, const struct record *record);
/* For who must agree with others: of all records of one problem, device and run the first that is put stays, whoever
 * puts it and on whichever machine. *kept (record_free) is that one, as it lies on disk; *first says whether it is
 * ours. ATTUNE_UNSUPPORTED for a store without a folder: nobody else would see it; ATTUNE_IO when it did not take the
 * object. */
attune_status store_record_put_first(struct store *store, const struct record *record, struct record *kept, bool *first,
                                     struct error *error);
/* every readable record of a device folder and specialisation, newest first (created, then name); free() the array.
 * `device` is record_device_folder()'s text. ATTUNE_OK with count 0 when there is none. Bad files are set aside. */
attune_status store_records(struct store *store, const char *device, const char *specialisation,
                            struct record **records, int *count, struct error *error);

/* the record at a path below the store's folder, as store_walk tells it; checked as all others, and left where it is.
 * ATTUNE_CORRUPT, ATTUNE_UNSUPPORTED (of another format version) or ATTUNE_NOT_FOUND */
attune_status store_record_at(struct store *store, const char *path, struct record *record, struct error *error);

/* the field list of a user family, from the newest record that carries one; free() it. Reads every record: for a family
 * that neither this library nor the compiling half knows. ATTUNE_NOT_FOUND when no record is of that family */
attune_status store_family_schema(struct store *store, const char *family, struct schema **schema, struct error *error);

/* ---- journals: append-only JSON lines ---- */
enum { STORE_JOURNAL_BYTES_MAX = 64 << 20 };
attune_status store_journal_path(struct store *store, const char *run, char *path, size_t bytes, struct error *error);
/* Appends the bytes of a run's journal: a file of ours alone, whatever is in it. ATTUNE_NOT_FOUND, ATTUNE_CORRUPT when
 * something else lies there or it is larger than STORE_JOURNAL_BYTES_MAX. */
attune_status store_journal_read(struct store *store, const char *run, struct buffer *text, struct error *error);

/* ---- objects that nobody should launch again ---- */
struct blocked {
    char target[TARGET_TEXT_BYTES];
    struct digest object;
    char candidate[RECORD_CANDIDATE_BYTES];
    char outcome[24]; /* wrong, hung, crashed, compile-error */
    char reason[512];
    int64_t created; /* seconds since 1970 */
};
/* A store without a folder remembers nothing. */
attune_status store_blocked_put(struct store *store, const struct blocked *blocked, struct error *error);
/* ATTUNE_NOT_FOUND when it is not blocked; a file that is no such note is set aside and blocks nothing */
attune_status store_blocked_get(struct store *store, const struct digest *object, struct blocked *blocked,
                                struct error *error);
void store_blocked_remove(struct store *store, const struct digest *object);

/* ---- housekeeping: `attune cache ...` ---- */
enum store_entry_kind { STORE_OBJECT, STORE_RECORD, STORE_JOURNAL, STORE_BLOCKED, STORE_REJECTED, STORE_TEMPORARY };
struct store_entry {
    enum store_entry_kind kind;
    char path[512]; /* relative to the store */
    uint64_t bytes;
    int64_t modified; /* seconds since 1970 */
};
typedef attune_status (*store_visitor)(void *data, const struct store_entry *entry, struct error *error);
/* every entry on disk, folder by folder in the order of names; what is kept in memory is not visited */
attune_status store_walk(struct store *store, store_visitor visit, void *data, struct error *error);
/* the same, of journals alone: objects may be many */
attune_status store_walk_journals(struct store *store, store_visitor visit, void *data, struct error *error);

struct store_verdict {
    int objects, records, blocked; /* looked at; blocked: notes of blocked objects */
    int bad;
    int missing_objects; /* records whose object is not there */
};
/* path below the store's folder, and what is wrong with the entry */
typedef void (*store_bad_visitor)(void *data, const char *path, const char *reason);
/* checks every object, record and note of a blocked object; with `repair` bad ones are set aside. `tell` (may be NULL)
 * hears of each bad one */
attune_status store_verify_telling(struct store *store, bool repair, store_bad_visitor tell, void *data,
                                   struct store_verdict *verdict, struct error *error);
attune_status store_verify(struct store *store, bool repair, struct store_verdict *verdict, struct error *error);

struct store_prune {
    int64_t older_than_seconds; /* 0: no age limit */
    uint64_t keep_bytes;        /* 0: no size limit; oldest unreferenced objects go first */
    bool unreferenced;          /* objects no record names */
    bool blocked;               /* notes of blocked objects: they are tried again */
    bool rejected;              /* rejected/ and left-over temporaries older than an hour */
    bool dry_run;
};
attune_status store_prune(struct store *store, const struct store_prune *rule, int *removed, uint64_t *bytes,
                          struct error *error);

#endif
