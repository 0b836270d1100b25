/* store_object.c - objects: keys, publication, reading, and the index from source keys. */
#include "cache/store_internal.h"

#include "base/codeobject.h"
#include "base/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void object_key_digest(const struct object_key *key, struct digest *object, struct digest *source)
{
    static const char domain[] = "attune object 1"; /* change it and every object ever made is another one */
    char target[TARGET_TEXT_BYTES];
    struct digest_state state;
    struct digest without;
    target_format(&key->target, target);
    digest_begin(&state);
    digest_field(&state, domain, sizeof domain - 1);
    digest_field(&state, key->shown, key->shown_bytes);
    digest_field(&state, key->vocabulary.bytes, DIGEST_BYTES);
    digest_field(&state, key->options, strlen(key->options));
    digest_field(&state, target, strlen(target));
    digest_end(&state, &without);
    if (source != NULL) {
        *source = without;
    }
    if (object != NULL) {
        object_name_digest(&without, key->identity, object);
    }
}

void object_name_digest(const struct digest *source, const char *identity, struct digest *object)
{
    struct digest_state state;
    digest_begin(&state);
    digest_field(&state, source->bytes, DIGEST_BYTES);
    digest_field(&state, identity, strlen(identity));
    digest_end(&state, object);
}

void object_relative_folder(const struct digest *object, char folder[STORE_PATH_BYTES])
{
    char hex[DIGEST_HEX_BYTES];
    digest_hex(object, hex);
    snprintf(folder, STORE_PATH_BYTES, "objects/%.2s", hex);
}

void source_relative_folder(const struct digest *source, char folder[STORE_PATH_BYTES])
{
    char hex[DIGEST_HEX_BYTES];
    digest_hex(source, hex);
    snprintf(folder, STORE_PATH_BYTES, "sources/%.2s/%s", hex, hex);
}

/* Code tells its own target (AMD: e_flags and note, NVIDIA: e_flags, host: note) and kernels; they must be the
 * header's. What is no ELF file at all is left to the driver. */
static attune_status check_payload(const struct object_header *header, const char *payload, size_t bytes,
                                   struct error *error)
{
    struct resources code;
    struct error why = {.message = ""};
    if (bytes < 4 || memcmp(payload, "\177ELF", 4) != 0) {
        return ATTUNE_OK;
    }
    if (codeobject_resources(payload, bytes, header->kernel, &code, &why) != ATTUNE_OK) {
        return error_set(error, ATTUNE_CORRUPT, "%s", why.message);
    }
    if (strcmp(code.target, header->target) != 0) {
        return error_set(error, ATTUNE_CORRUPT, "its header says %s, its code is for %s", header->target, code.target);
    }
    return ATTUNE_OK;
}

/* reads the whole file of an object; what does not belong there is set aside and is a miss */
static attune_status read_file(struct store *store, const struct digest *object, struct object_header *header,
                               struct buffer *file, const char **payload, size_t *bytes, struct error *error)
{
    char folder[STORE_PATH_BYTES], path[STORE_PATH_BYTES], relative[STORE_PATH_BYTES], hex[DIGEST_HEX_BYTES];
    struct error why = {0};
    struct object_header scratch;
    if (header == NULL) {
        header = &scratch;
    }
    digest_hex(object, hex);
    object_relative_folder(object, relative);
    attune_status status = store_folder_open(store, relative, folder, &why);
    if (status == ATTUNE_OK) {
        status = path_join(path, sizeof path, folder, hex, &why);
    }
    if (status == ATTUNE_OK) {
        status = file_read_private(path, OBJECT_FILE_BYTES_MAX, file, &why);
    }
    if (status == ATTUNE_OK) {
        status = object_file_decode(object, file->data, file->length, header, payload, bytes, &why);
    }
    if (status == ATTUNE_OK) {
        status = check_payload(header, *payload, *bytes, &why);
    }
    if (status == ATTUNE_OK || status == ATTUNE_NO_MEMORY) {
        return status == ATTUNE_OK ? ATTUNE_OK : error_set(error, status, "%s", why.message);
    }
    if (status == ATTUNE_CORRUPT) {
        store_set_aside(store, path + strlen(store->root) + 1, why.message);
    } else if (status != ATTUNE_NOT_FOUND) {
        store_warn_memory(store, &why);
    }
    return error_set(error, ATTUNE_NOT_FOUND, "object %s is not in the store (%s)", hex, why.message);
}

/* ------------------------------------------------------------------------------------------------ memory */

static struct memory_object *memory_find(struct store *store, const struct digest *object)
{
    for (struct memory_object *m = store->objects; m != NULL; m = m->next) {
        if (memcmp(m->name.bytes, object->bytes, DIGEST_BYTES) == 0) {
            return m;
        }
    }
    return NULL;
}

/* takes the bytes out of `file` */
static attune_status memory_put(struct store *store, const struct digest *object, const struct digest *source,
                                struct buffer *file, struct error *error)
{
    atomic_store(&store->in_memory, true);
    struct memory_object *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    made->name = *object;
    made->source = *source;
    made->file = *file;
    *file = (struct buffer)BUFFER_INIT;
    pthread_mutex_lock(&store->lock);
    bool there = memory_find(store, object) != NULL;
    if (!there) {
        made->next = store->objects;
        store->objects = made;
    }
    pthread_mutex_unlock(&store->lock);
    if (there) {
        buffer_free(&made->file);
        free(made);
    }
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ put, get */

attune_status store_object_put(struct store *store, const struct digest *object, const struct object_header *header,
                               const void *bytes, size_t length, struct error *error)
{
    struct buffer file = BUFFER_INIT, old = BUFFER_INIT;
    char folder[STORE_PATH_BYTES], hex[DIGEST_HEX_BYTES];
    struct error why = {0};
    const char *payload = NULL;
    size_t payload_bytes = 0;
    attune_status status = object_file_encode(object, header, bytes, length, &file, error);
    if (status != ATTUNE_OK) {
        goto out;
    }
    if (store->root[0] == '\0') {
        status = memory_put(store, object, &header->source, &file, error);
        goto out;
    }
    digest_hex(object, hex);
    /* an object is immutable: a good one under this name stays */
    if (read_file(store, object, NULL, &old, &payload, &payload_bytes, NULL) != ATTUNE_OK) {
        object_relative_folder(object, folder);
        status = store_publish(store, folder, hex, file.data, file.length, &why);
    }
    if (status == ATTUNE_OK) {
        source_relative_folder(&header->source, folder);
        status = store_publish(store, folder, hex, "", 0, &why);
    }
    if (status != ATTUNE_OK) {
        store_warn_memory(store, &why);
        status = memory_put(store, object, &header->source, &file, error);
    }
out:
    buffer_free(&file);
    buffer_free(&old);
    return status;
}

attune_status store_object_get(struct store *store, const struct digest *object, struct object_header *header,
                               struct buffer *bytes, struct error *error)
{
    struct buffer file = BUFFER_INIT;
    struct object_header scratch;
    const char *payload = NULL;
    size_t payload_bytes = 0;
    pthread_mutex_lock(&store->lock);
    struct memory_object *kept = memory_find(store, object);
    pthread_mutex_unlock(&store->lock); /* entries live until store_close */
    attune_status status;
    if (kept != NULL) {
        status =
            object_file_decode(object, kept->file.data, kept->file.length, &scratch, &payload, &payload_bytes, error);
    } else {
        status = read_file(store, object, &scratch, &file, &payload, &payload_bytes, error);
    }
    if (status == ATTUNE_OK) {
        if (header != NULL) {
            *header = scratch;
        }
        if (bytes != NULL) {
            buffer_append(bytes, payload, payload_bytes);
            status = buffer_ok(bytes, error);
        }
    }
    buffer_free(&file);
    return status;
}

static bool is_on_disk(struct store *store, const struct digest *object)
{
    char folder[STORE_PATH_BYTES], path[STORE_PATH_BYTES], relative[STORE_PATH_BYTES], hex[DIGEST_HEX_BYTES];
    struct stat facts;
    digest_hex(object, hex);
    object_relative_folder(object, relative);
    return store_folder_open(store, relative, folder, NULL) == ATTUNE_OK &&
           path_join(path, sizeof path, folder, hex, NULL) == ATTUNE_OK && lstat(path, &facts) == 0 &&
           S_ISREG(facts.st_mode);
}

bool store_object_is_volatile(struct store *store, const struct digest *object)
{
    char folder[STORE_PATH_BYTES], hex[DIGEST_HEX_BYTES];
    pthread_mutex_lock(&store->lock);
    const struct memory_object *kept = memory_find(store, object);
    pthread_mutex_unlock(&store->lock); /* entries live until store_close */
    if (kept == NULL || is_on_disk(store, object)) {
        return false;
    }
    digest_hex(object, hex);
    object_relative_folder(object, folder);
    if (store->root[0] == '\0' ||
        store_publish(store, folder, hex, kept->file.data, kept->file.length, NULL) != ATTUNE_OK) {
        return true;
    }
    source_relative_folder(&kept->source, folder);
    (void)store_publish(store, folder, hex, "", 0, NULL); /* the object is found by its name without it */
    return false;
}

void store_object_reject(struct store *store, const struct digest *object, const char *reason)
{
    char relative[STORE_PATH_BYTES], hex[DIGEST_HEX_BYTES];
    if (store->root[0] == '\0') {
        return;
    }
    digest_hex(object, hex);
    object_relative_folder(object, relative);
    size_t used = strlen(relative);
    snprintf(relative + used, sizeof relative - used, "/%s", hex);
    store_set_aside(store, relative, reason);
}

bool store_object_has(struct store *store, const struct digest *object)
{
    pthread_mutex_lock(&store->lock);
    bool kept = memory_find(store, object) != NULL;
    pthread_mutex_unlock(&store->lock);
    return kept || is_on_disk(store, object);
}

attune_status store_object_find_source(struct store *store, const struct digest *source, struct digest *object,
                                       struct error *error)
{
    char folder[STORE_PATH_BYTES], relative[STORE_PATH_BYTES], path[STORE_PATH_BYTES], hex[DIGEST_HEX_BYTES];
    struct timespec newest = {0};
    bool found = false;
    pthread_mutex_lock(&store->lock);
    for (struct memory_object *m = store->objects; m != NULL && !found; m = m->next) {
        if (memcmp(m->source.bytes, source->bytes, DIGEST_BYTES) == 0) {
            *object = m->name;
            found = true;
        }
    }
    pthread_mutex_unlock(&store->lock);
    if (found) {
        return ATTUNE_OK;
    }
    source_relative_folder(source, relative);
    DIR *stream = store_folder_open(store, relative, folder, NULL) == ATTUNE_OK ? opendir(folder) : NULL;
    for (struct dirent *entry; stream != NULL && (entry = readdir(stream)) != NULL;) {
        struct digest name;
        struct stat facts;
        if (digest_from_hex(entry->d_name, strlen(entry->d_name), &name) != ATTUNE_OK ||
            !store_object_has(store, &name) || path_join(path, sizeof path, folder, entry->d_name, NULL) != ATTUNE_OK ||
            lstat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) {
            continue;
        }
        bool later = facts.st_mtim.tv_sec != newest.tv_sec ? facts.st_mtim.tv_sec > newest.tv_sec
                                                           : facts.st_mtim.tv_nsec > newest.tv_nsec;
        bool same = facts.st_mtim.tv_sec == newest.tv_sec && facts.st_mtim.tv_nsec == newest.tv_nsec;
        if (!found || later || (same && memcmp(name.bytes, object->bytes, DIGEST_BYTES) < 0)) {
            *object = name;
            newest = facts.st_mtim;
            found = true;
        }
    }
    if (stream != NULL) {
        closedir(stream);
    }
    if (found) {
        return ATTUNE_OK;
    }
    digest_hex(source, hex);
    return error_set(error, ATTUNE_NOT_FOUND, "no object was made from source %s by any compiler", hex);
}
