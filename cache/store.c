/* store.c - where a store lies, its folders, and the ways in and out that objects and records share. */
#include "cache/store_internal.h"

#include "base/environment.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------ where */

static bool is_folder(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

/* "/", "//", "/." and the like: a cache there would be a file of the system */
static bool is_root(const char *path)
{
    return path[strspn(path, "/.")] == '\0';
}

/* the folder by the rules of store_open, or "" with the reason */
static void choose_root(const char *path, char root[STORE_PATH_BYTES], char reason[256])
{
    const char *attune = environment_get("ATTUNE_CACHE");
    const char *xdg = environment_get("XDG_CACHE_HOME");
    const char *home = environment_get("HOME");
    char folder[STORE_PATH_BYTES] = "";
    int length = 0;
    root[0] = '\0';
    reason[0] = '\0';
    if (!environment_is_trusted() && (path == NULL || path[0] == '\0')) {
        snprintf(reason, 256,
                 "this process has more rights than its user (setuid), whose variables name no folder for it");
        return;
    }
    if (path != NULL && path[0] != '\0') {
        if (path[0] == '/') {
            length = snprintf(root, STORE_PATH_BYTES, "%s", path);
        } else if (getcwd(folder, sizeof folder) != NULL) { /* absolute from now on: the program may change folder */
            length = snprintf(root, STORE_PATH_BYTES, "%s/%s", folder, path);
        }
    } else if (attune != NULL && attune[0] != '\0') {
        if (attune[0] != '/') {
            snprintf(reason, 256, "ATTUNE_CACHE=\"%.100s\" is not an absolute path", attune);
            return;
        }
        length = snprintf(root, STORE_PATH_BYTES, "%s", attune);
    } else if (xdg != NULL && xdg[0] == '/' && !is_root(xdg)) {
        length = snprintf(root, STORE_PATH_BYTES, "%s/attune", xdg);
    } else if (home != NULL && home[0] == '/' && !is_root(home) && is_folder(home)) {
        length = snprintf(root, STORE_PATH_BYTES, "%s/.cache/attune", home);
    } else {
        snprintf(reason, 256,
                 "neither ATTUNE_CACHE nor XDG_CACHE_HOME is set, and HOME (%.100s) is not a folder to write to",
                 home != NULL ? home : "not set");
        return;
    }
    /* entries below add up to a device folder, a hash and a file name */
    if (length <= 0 || length > STORE_PATH_BYTES - 1024) {
        root[0] = '\0';
        snprintf(reason, 256, "the path of the store is too long (%d bytes; the limit is %d)", length,
                 STORE_PATH_BYTES - 1024);
        return;
    }
    while (length > 1 && root[length - 1] == '/') {
        root[--length] = '\0';
    }
    if (is_root(root)) {
        root[0] = '\0';
        snprintf(reason, 256, "the store cannot be the root folder");
    }
}

attune_status store_open(const char *path, struct store **store, struct error *error)
{
    struct error why = {0};
    *store = NULL;
    struct store *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    pthread_mutex_init(&made->lock, NULL);
    choose_root(path, made->root, made->reason);
    if (made->root[0] == '\0') {
        warn_once("store:none", "%s: compiled kernels are kept in memory only; set ATTUNE_CACHE to a folder of yours",
                  made->reason);
    } else {
        /* a folder that is not there yet is made by the first thing to keep; one that cannot be there is told now */
        struct stat facts;
        bool missing = lstat(made->root, &facts) != 0 && errno == ENOENT;
        if (folder_check_links(made->root, &why) != ATTUNE_OK ||
            (!missing && folder_check_private(made->root, &why) != ATTUNE_OK)) {
            store_warn_memory(made, &why);
            snprintf(made->reason, sizeof made->reason, "%.500s", why.message);
            made->root[0] = '\0';
        }
    }
    *store = made;
    return ATTUNE_OK;
}

void store_close(struct store *store)
{
    if (store == NULL) {
        return;
    }
    while (store->objects != NULL) {
        struct memory_object *object = store->objects;
        store->objects = object->next;
        buffer_free(&object->file);
        free(object);
    }
    while (store->records != NULL) {
        struct memory_record *record = store->records;
        store->records = record->next;
        buffer_free(&record->json);
        free(record);
    }
    pthread_mutex_destroy(&store->lock);
    free(store);
}

const char *store_memory_reason(const struct store *store)
{
    return store->reason;
}

const char *store_path(const struct store *store)
{
    return store->root;
}

bool store_is_volatile(const struct store *store)
{
    return atomic_load(&store->in_memory);
}

/* keys of warnings are short: the digest stands for the path */
static void path_key(const char *what, const char *path, char key[64])
{
    struct digest digest;
    char hex[DIGEST_HEX_BYTES];
    digest_of(path, strlen(path), &digest);
    digest_hex(&digest, hex);
    snprintf(key, 64, "%s:%.32s", what, hex);
}

void store_warn_memory(const struct store *store, const struct error *error)
{
    char key[64];
    path_key("store", store->root, key);
    warn_once(
        key,
        "the store %s cannot be used (%s): compiled kernels are kept in memory only; set ATTUNE_CACHE to a folder of "
        "yours that can be written",
        store->root, error->message);
}

/* ------------------------------------------------------------------------------------------------ folders */

/* walks root and each part of `relative`, checking (and making) one level at a time, so that no link is ever passed */
static attune_status folder_walk(struct store *store, const char *relative, bool make, char path[STORE_PATH_BYTES],
                                 struct error *error)
{
    size_t length = strlen(store->root);
    if (length == 0) {
        return error_set(error, ATTUNE_NOT_FOUND, "the store is in memory only");
    }
    if (length + strlen(relative) + 2 > STORE_PATH_BYTES) {
        return error_set(error, ATTUNE_INVALID, "the path %s/%s is too long", store->root, relative);
    }
    memcpy(path, store->root, length + 1);
    attune_status status = folder_check_links(path, error);
    if (status == ATTUNE_OK && make) {
        status = folder_make(path, error);
    }
    if (status == ATTUNE_OK) {
        status = folder_check_private(path, error);
    }
    for (const char *part = relative; *part != '\0' && status == ATTUNE_OK;) {
        size_t bytes = strcspn(part, "/");
        path[length++] = '/';
        memcpy(path + length, part, bytes);
        length += bytes;
        path[length] = '\0';
        part += bytes + (part[bytes] == '/');
        if (make && mkdir(path, 0700) != 0 && errno != EEXIST) {
            status = error_errno(error, errno, "cannot create the folder %s", path);
        } else {
            status = folder_check_private(path, error);
        }
    }
    return status;
}

attune_status store_folder_open(struct store *store, const char *relative, char path[STORE_PATH_BYTES],
                                struct error *error)
{
    return folder_walk(store, relative, false, path, error);
}

attune_status store_folder_make(struct store *store, const char *relative, char path[STORE_PATH_BYTES],
                                struct error *error)
{
    return folder_walk(store, relative, true, path, error);
}

/* ------------------------------------------------------------------------------------------------ files */

/* Half-written files have a folder of their own, so that those of killed writers are found by one look: the first thing
 * that a store keeps looks for old ones. */
static attune_status temporaries_make(struct store *store, char path[STORE_PATH_BYTES], struct error *error)
{
    attune_status status = store_folder_make(store, "tmp", path, error);
    if (status == ATTUNE_OK && !atomic_exchange(&store->swept, true)) {
        folder_sweep(path, STORE_TEMPORARY_SECONDS);
    }
    return status;
}

static attune_status publish(struct store *store, const char *folder, const char *name, const void *bytes,
                             size_t length, bool *first, struct error *error)
{
    char path[STORE_PATH_BYTES], temporaries[STORE_PATH_BYTES];
    attune_status status = ATTUNE_OK;
    /* the folder may be deleted between making it and writing: a few rounds outlast that */
    for (int round = 0; round < 8; round++) {
        status = temporaries_make(store, temporaries, error);
        if (status == ATTUNE_OK) {
            status = store_folder_make(store, folder, path, error);
        }
        if (status == ATTUNE_OK) {
            size_t used = strlen(path);
            if (used + strlen(name) + 2 > sizeof path) {
                return error_set(error, ATTUNE_INVALID, "the path %s/%s is too long", path, name);
            }
            path[used] = '/';
            strcpy(path + used + 1, name);
            struct stat facts;
            if (lstat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) {
                store_set_aside(store, path + strlen(store->root) + 1, "it is not a regular file");
            }
            status = first != NULL ? file_publish_first(temporaries, path, bytes, length, first, error)
                                   : file_publish_private(temporaries, path, bytes, length, error);
            if (status == ATTUNE_OK) {
                return ATTUNE_OK;
            }
        }
        /* others may have made the vanished folder again by now: so two rounds whatever the reason, more while it is
         * gone */
        char again[STORE_PATH_BYTES];
        if (round >= 1 && store_folder_open(store, folder, again, NULL) != ATTUNE_NOT_FOUND) {
            break;
        }
    }
    return status;
}

attune_status store_publish(struct store *store, const char *folder, const char *name, const void *bytes, size_t length,
                            struct error *error)
{
    return publish(store, folder, name, bytes, length, NULL, error);
}

attune_status store_publish_first(struct store *store, const char *folder, const char *name, const void *bytes,
                                  size_t length, bool *first, struct error *error)
{
    *first = false;
    return publish(store, folder, name, bytes, length, first, error);
}

void store_set_aside(struct store *store, const char *relative, const char *reason)
{
    char from[2 * STORE_PATH_BYTES], folder[STORE_PATH_BYTES], to[2 * STORE_PATH_BYTES];
    char salt[33], key[64];
    const char *name = strrchr(relative, '/') != NULL ? strrchr(relative, '/') + 1 : relative;
    snprintf(from, sizeof from, "%s/%s", store->root, relative);
    record_new_run(salt);
    bool moved = false;
    if (store_folder_make(store, "rejected", folder, NULL) == ATTUNE_OK) {
        /* the salt keeps two rejects of one name apart; the name is cut so that both fit */
        snprintf(to, sizeof to, "%s/%.200s.%.16s", folder, name, salt);
        moved = rename(from, to) == 0;
    }
    path_key("rejected", from, key);
    warn_once(key, "%s is damaged (%s): %s; it will be made again", from, reason,
              moved ? "set aside in rejected/" : "it cannot be moved away and is ignored");
}

void store_source_keep(struct store *store, const struct digest *source, const char *text, size_t length, char *path,
                       size_t bytes)
{
    char hex[DIGEST_HEX_BYTES], name[DIGEST_HEX_BYTES + 8];
    digest_hex(source, hex);
    snprintf(name, sizeof name, "%s.txt", hex);
    int used = 0;
    if (store->root[0] != '\0' && store_publish(store, "rejected", name, text, length, NULL) == ATTUNE_OK) {
        used = snprintf(path, bytes, "%s/rejected/%s", store->root, name);
    }
    if (used <= 0 || (size_t)used >= bytes) {
        path[0] = '\0';
    }
}

bool store_is_temporary(const char *name)
{
    return strncmp(name, FILE_TEMPORARY_PREFIX, strlen(FILE_TEMPORARY_PREFIX)) == 0;
}

/* ------------------------------------------------------------------------------------------------ journals */

static attune_status journal_name(const char *run, char name[64], struct error *error)
{
    if (strlen(run) == 0 || strlen(run) > 40 || strspn(run, "0123456789abcdef") != strlen(run)) {
        return error_set(error, ATTUNE_INVALID, "run \"%.40s\" is not a run id (hex digits)", run);
    }
    snprintf(name, 64, "%s.jsonl", run);
    return ATTUNE_OK;
}

attune_status store_journal_path(struct store *store, const char *run, char *path, size_t bytes, struct error *error)
{
    char folder[STORE_PATH_BYTES], name[64];
    path[0] = '\0';
    attune_status status = journal_name(run, name, error);
    if (status == ATTUNE_OK) {
        status = store_folder_make(store, "journals", folder, error);
    }
    return status == ATTUNE_OK ? path_join(path, bytes, folder, name, error) : status;
}

attune_status store_journal_read(struct store *store, const char *run, struct buffer *text, struct error *error)
{
    char folder[STORE_PATH_BYTES], path[STORE_PATH_BYTES], name[64];
    attune_status status = journal_name(run, name, error);
    if (status == ATTUNE_OK) {
        status = store_folder_open(store, "journals", folder, error);
    }
    if (status == ATTUNE_OK) {
        status = path_join(path, sizeof path, folder, name, error);
    }
    return status == ATTUNE_OK ? file_read_private(path, STORE_JOURNAL_BYTES_MAX, text, error) : status;
}
