/* store_keep.c - housekeeping: walking, verifying and pruning a store that others may be using meanwhile. A file that
 * vanishes under our hands is nothing to report. */
#include "cache/store_internal.h"

#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WALK_DEPTH_MAX = 4 };

/* ------------------------------------------------------------------------------------------------ walk */

struct walk {
    struct store *store;
    store_visitor visit;
    void *data;
    struct error *error;
};

static bool kind_of(const char *relative, const char *name, enum store_entry_kind *kind)
{
    static const struct {
        const char *folder;
        enum store_entry_kind kind;
    } kinds[] = {{"objects/", STORE_OBJECT},
                 {"records/", STORE_RECORD},
                 {"journals/", STORE_JOURNAL},
                 {"blocked/", STORE_BLOCKED},
                 {"rejected/", STORE_REJECTED}};
    if (store_is_temporary(name)) {
        *kind = STORE_TEMPORARY;
        return true;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strncmp(relative, kinds[i].folder, strlen(kinds[i].folder)) == 0) {
            *kind = kinds[i].kind;
            return true;
        }
    }
    return false; /* sources/ and what is not ours */
}

/* a folder is entered, except inside rejected/, where it is one entry; `relative` is "" for the root */
static attune_status walk_folder(struct walk *walk, const char *relative, int depth)
{
    char path[STORE_PATH_BYTES];
    attune_status status = ATTUNE_OK;
    struct error why = {0};
    status = store_folder_open(walk->store, relative, path, &why);
    if (status != ATTUNE_OK) {
        return status == ATTUNE_NOT_FOUND ? ATTUNE_OK : error_set(walk->error, status, "%s", why.message);
    }
    struct dirent **names = NULL;
    int count = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        struct store_entry entry = {0};
        struct stat facts;
        char child[STORE_PATH_BYTES], full[STORE_PATH_BYTES];
        if (status != ATTUNE_OK || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            goto next;
        }
        if ((relative[0] != '\0' ? path_join(child, sizeof child, relative, name, NULL)
                                 : path_join(child, sizeof child, "", name, NULL)) != ATTUNE_OK) {
            goto next;
        }
        const char *own = child[0] == '/' ? child + 1 : child;
        if (path_join(full, sizeof full, path, name, NULL) != ATTUNE_OK || lstat(full, &facts) != 0) {
            goto next;
        }
        if (S_ISDIR(facts.st_mode) && strcmp(relative, "rejected") != 0 && depth < WALK_DEPTH_MAX &&
            folder_check_private(full, NULL) == ATTUNE_OK) {
            char copy[STORE_PATH_BYTES];
            snprintf(copy, sizeof copy, "%s", own);
            status = walk_folder(walk, copy, depth + 1);
        } else if (kind_of(own, name, &entry.kind) && strlen(own) < sizeof entry.path) {
            strcpy(entry.path, own);
            entry.bytes = S_ISREG(facts.st_mode) ? (uint64_t)facts.st_size : 0;
            entry.modified = facts.st_mtim.tv_sec;
            status = walk->visit(walk->data, &entry, walk->error);
        }
    next:
        free(names[i]);
    }
    free(names);
    return status;
}

attune_status store_walk(struct store *store, store_visitor visit, void *data, struct error *error)
{
    struct walk walk = {store, visit, data, error};
    return store->root[0] == '\0' ? ATTUNE_OK : walk_folder(&walk, "", 0);
}

attune_status store_walk_journals(struct store *store, store_visitor visit, void *data, struct error *error)
{
    struct walk walk = {store, visit, data, error};
    return store->root[0] == '\0' ? ATTUNE_OK : walk_folder(&walk, "journals", 1);
}

/* ------------------------------------------------------------------------------------------------ verify */

struct verify {
    struct store *store;
    bool repair;
    struct store_verdict *verdict;
    store_bad_visitor tell;
    void *data;
};

/* digest and place of an entry under objects/; ATTUNE_CORRUPT for a name that no object has */
static attune_status object_of_path(const char *path, struct digest *object)
{
    char folder[STORE_PATH_BYTES];
    const char *name = strrchr(path, '/') + 1;
    if (digest_from_hex(name, strlen(name), object) != ATTUNE_OK) {
        return ATTUNE_CORRUPT;
    }
    object_relative_folder(object, folder);
    return strncmp(path, folder, strlen(folder)) == 0 && path + strlen(folder) + 1 == name ? ATTUNE_OK : ATTUNE_CORRUPT;
}

static attune_status check_object(struct verify *verify, const struct store_entry *entry, struct error *why)
{
    char path[2 * STORE_PATH_BYTES];
    struct digest object;
    struct buffer file = BUFFER_INIT;
    const char *payload;
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s", verify->store->root, entry->path);
    attune_status status = object_of_path(entry->path, &object);
    if (status != ATTUNE_OK) {
        return error_set(why, status, "its name is not an object's");
    }
    status = file_read_private(path, OBJECT_FILE_BYTES_MAX, &file, why);
    if (status == ATTUNE_OK) {
        status = object_file_decode(&object, buffer_string(&file), file.length, NULL, &payload, &bytes, why);
    }
    buffer_free(&file);
    return status;
}

static attune_status read_record(struct store *store, const struct store_entry *entry, struct record *record,
                                 struct error *why)
{
    char path[2 * STORE_PATH_BYTES], folder[STORE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", store->root, entry->path);
    snprintf(folder, sizeof folder, "%s", entry->path);
    char *slash = strrchr(folder, '/');
    *slash = '\0';
    return store_record_read(path, folder, slash + 1, record, why);
}

static attune_status check_blocked(struct verify *verify, const struct store_entry *entry, struct error *why)
{
    char path[2 * STORE_PATH_BYTES], hex[DIGEST_HEX_BYTES], own[STORE_PATH_BYTES];
    const char *name = strrchr(entry->path, '/') + 1;
    struct blocked blocked;
    struct digest object;
    struct buffer file = BUFFER_INIT;
    snprintf(hex, sizeof hex, "%.64s", name);
    snprintf(own, sizeof own, "blocked/%.2s/%s.json", hex, hex);
    if (digest_from_hex(hex, strlen(hex), &object) != ATTUNE_OK || strcmp(entry->path, own) != 0) {
        return error_set(why, ATTUNE_CORRUPT, "its name is not that of a note of a blocked object");
    }
    snprintf(path, sizeof path, "%s/%s", verify->store->root, entry->path);
    attune_status status = file_read_private(path, STORE_BLOCKED_BYTES_MAX, &file, why);
    if (status == ATTUNE_OK && !store_blocked_decode(&file, &object, &blocked)) {
        status = error_set(why, ATTUNE_CORRUPT, "it is no note of a blocked object");
    }
    buffer_free(&file);
    return status;
}

static attune_status verify_entry(void *data, const struct store_entry *entry, struct error *error)
{
    struct verify *verify = data;
    struct error why = {0};
    attune_status status;
    if (entry->kind == STORE_OBJECT) {
        verify->verdict->objects++;
        status = check_object(verify, entry, &why);
    } else if (entry->kind == STORE_RECORD) {
        struct record *record = calloc(1, sizeof *record);
        if (record == NULL) {
            return error_no_memory(error);
        }
        verify->verdict->records++;
        status = read_record(verify->store, entry, record, &why);
        if (status == ATTUNE_OK) {
            verify->verdict->missing_objects += !store_object_has(verify->store, &record->object);
            record_free(record);
        }
        free(record);
    } else if (entry->kind == STORE_BLOCKED) {
        verify->verdict->blocked++;
        status = check_blocked(verify, entry, &why);
    } else {
        return ATTUNE_OK;
    }
    if (status == ATTUNE_NO_MEMORY) {
        return error_no_memory(error);
    }
    if (status == ATTUNE_CORRUPT) {
        verify->verdict->bad++;
        if (verify->tell != NULL) {
            verify->tell(verify->data, entry->path, why.message);
        }
        if (verify->repair) {
            store_set_aside(verify->store, entry->path, why.message);
        }
    }
    return ATTUNE_OK; /* vanished, or another release's */
}

/* objects first: a record whose object was just set aside is one without its object */
static attune_status verify_objects(void *data, const struct store_entry *entry, struct error *error)
{
    return entry->kind == STORE_OBJECT ? verify_entry(data, entry, error) : ATTUNE_OK;
}

static attune_status verify_others(void *data, const struct store_entry *entry, struct error *error)
{
    return entry->kind != STORE_OBJECT ? verify_entry(data, entry, error) : ATTUNE_OK;
}

attune_status store_verify(struct store *store, bool repair, struct store_verdict *verdict, struct error *error)
{
    return store_verify_telling(store, repair, NULL, NULL, verdict, error);
}

attune_status store_verify_telling(struct store *store, bool repair, store_bad_visitor tell, void *data,
                                   struct store_verdict *verdict, struct error *error)
{
    struct verify verify = {store, repair, verdict, tell, data};
    memset(verdict, 0, sizeof *verdict);
    attune_status status = store_walk(store, verify_objects, &verify, error);
    return status == ATTUNE_OK ? store_walk(store, verify_others, &verify, error) : status;
}

/* ------------------------------------------------------------------------------------------------ prune */

struct kept_object {
    struct store_entry entry;
    struct digest name;
    bool referenced, gone;
};

struct prune {
    struct store *store;
    const struct store_prune *rule;
    int64_t now;
    struct kept_object *objects;
    size_t object_count, object_capacity;
    int removed;
    uint64_t bytes;
    uint64_t total; /* bytes of objects that stay */
};

static bool is_old(const struct prune *prune, const struct store_entry *entry)
{
    return prune->rule->older_than_seconds > 0 && prune->now - entry->modified > prune->rule->older_than_seconds;
}

static void drop(struct prune *prune, const struct store_entry *entry)
{
    char path[2 * STORE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", prune->store->root, entry->path);
    if (!prune->rule->dry_run) {
        struct stat facts;
        if (lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) {
            folder_remove(path);
        } else if (unlink(path) != 0 && errno != ENOENT) {
            return;
        }
    }
    prune->removed++;
    prune->bytes += entry->bytes;
}

static attune_status prune_collect(struct prune *prune, const struct store_entry *entry, struct error *error)
{
    struct digest name;
    if (object_of_path(entry->path, &name) != ATTUNE_OK) {
        return ATTUNE_OK; /* verify's business */
    }
    if (prune->object_count == prune->object_capacity) {
        size_t capacity = prune->object_capacity > 0 ? 2 * prune->object_capacity : 64;
        struct kept_object *grown = realloc(prune->objects, capacity * sizeof *grown);
        if (grown == NULL) {
            return error_no_memory(error);
        }
        prune->objects = grown;
        prune->object_capacity = capacity;
    }
    prune->objects[prune->object_count++] = (struct kept_object){*entry, name, false, false};
    prune->total += entry->bytes;
    return ATTUNE_OK;
}

static attune_status prune_first(void *data, const struct store_entry *entry, struct error *error)
{
    struct prune *prune = data;
    switch (entry->kind) {
    case STORE_OBJECT:
        return prune_collect(prune, entry, error);
    case STORE_TEMPORARY:
        if (prune->rule->rejected && prune->now - entry->modified > STORE_TEMPORARY_SECONDS) {
            drop(prune, entry);
        }
        return ATTUNE_OK;
    case STORE_REJECTED:
        if (prune->rule->rejected || is_old(prune, entry)) {
            drop(prune, entry);
        }
        return ATTUNE_OK;
    case STORE_BLOCKED:
        if (prune->rule->blocked || is_old(prune, entry)) {
            drop(prune, entry);
        }
        return ATTUNE_OK;
    case STORE_RECORD:
    case STORE_JOURNAL:
        if (is_old(prune, entry)) {
            drop(prune, entry);
        }
        return ATTUNE_OK;
    }
    return ATTUNE_OK;
}

static int by_name(const void *a, const void *b)
{
    return memcmp(((const struct kept_object *)a)->name.bytes, ((const struct kept_object *)b)->name.bytes,
                  DIGEST_BYTES);
}

/* the order in which a size limit takes them: unreferenced ones, oldest first; then referenced ones, oldest first */
static int by_worth(const void *a, const void *b)
{
    const struct kept_object *x = a, *y = b;
    if (x->referenced != y->referenced) {
        return x->referenced ? 1 : -1;
    }
    if (x->entry.modified != y->entry.modified) {
        return x->entry.modified < y->entry.modified ? -1 : 1;
    }
    return by_name(a, b);
}

/* marks the objects that records name; with `dry_run` records that would be dropped for their age do not count */
static attune_status prune_mark(void *data, const struct store_entry *entry, struct error *error)
{
    struct prune *prune = data;
    if (entry->kind != STORE_RECORD || is_old(prune, entry)) {
        return ATTUNE_OK;
    }
    struct record *record = calloc(1, sizeof *record);
    if (record == NULL) {
        return error_no_memory(error);
    }
    if (read_record(prune->store, entry, record, NULL) == ATTUNE_OK) {
        struct kept_object key = {.name = record->object};
        struct kept_object *found =
            prune->object_count == 0 ? NULL : bsearch(&key, prune->objects, prune->object_count, sizeof key, by_name);
        if (found != NULL) {
            found->referenced = true;
        }
        record_free(record);
    }
    free(record);
    return ATTUNE_OK;
}

static void prune_objects(struct prune *prune)
{
    for (size_t i = 0; i < prune->object_count; i++) {
        struct kept_object *object = &prune->objects[i];
        if (!object->referenced && (prune->rule->unreferenced || is_old(prune, &object->entry))) {
            drop(prune, &object->entry);
            object->gone = true;
            prune->total -= object->entry.bytes;
        }
    }
    if (prune->rule->keep_bytes == 0 || prune->object_count == 0) {
        return;
    }
    qsort(prune->objects, prune->object_count, sizeof *prune->objects, by_worth);
    for (size_t i = 0; i < prune->object_count && prune->total > prune->rule->keep_bytes; i++) {
        if (!prune->objects[i].gone) {
            drop(prune, &prune->objects[i].entry);
            prune->objects[i].gone = true;
            prune->total -= prune->objects[i].entry.bytes;
        }
    }
}

/* entries of sources/ that name objects no longer here, and folders that are empty now */
static void prune_sources(struct store *store, const char *relative, int depth)
{
    char path[STORE_PATH_BYTES], child[STORE_PATH_BYTES];
    if (store_folder_open(store, relative, path, NULL) != ATTUNE_OK) {
        return;
    }
    DIR *stream = opendir(path);
    for (struct dirent *entry; stream != NULL && (entry = readdir(stream)) != NULL;) {
        struct digest name;
        if (entry->d_name[0] == '.' || path_join(child, sizeof child, relative, entry->d_name, NULL) != ATTUNE_OK) {
            continue;
        }
        if (depth < 2) {
            prune_sources(store, child, depth + 1);
        } else if (digest_from_hex(entry->d_name, strlen(entry->d_name), &name) == ATTUNE_OK &&
                   !store_object_has(store, &name) &&
                   path_join(child, sizeof child, path, entry->d_name, NULL) == ATTUNE_OK) {
            unlink(child);
        }
    }
    if (stream != NULL) {
        closedir(stream);
    }
    if (depth > 0) {
        rmdir(path); /* refused while something is in it */
    }
}

attune_status store_prune(struct store *store, const struct store_prune *rule, int *removed, uint64_t *bytes,
                          struct error *error)
{
    struct prune prune = {.store = store, .rule = rule, .now = (int64_t)time(NULL)};
    attune_status status = store_walk(store, prune_first, &prune, error);
    if (status == ATTUNE_OK) {
        if (prune.object_count > 0) {
            qsort(prune.objects, prune.object_count, sizeof *prune.objects, by_name);
        }
        status = store_walk(store, prune_mark, &prune, error);
    }
    if (status == ATTUNE_OK) {
        prune_objects(&prune);
        if (!rule->dry_run) {
            prune_sources(store, "sources", 0);
        }
    }
    free(prune.objects);
    if (removed != NULL) {
        *removed = prune.removed;
    }
    if (bytes != NULL) {
        *bytes = prune.bytes;
    }
    return status;
}
