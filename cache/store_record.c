/* store_record.c - records: publication, and reading those of one device and specialisation. */
#include "cache/store_internal.h"

#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* how many file names of one specialisation are looked at; far above what tuning makes */
enum { RECORDS_MAX = 65536 };

void record_relative_folder(const char *device, const char *specialisation, char folder[STORE_PATH_BYTES])
{
    struct digest digest;
    char hex[DIGEST_HEX_BYTES];
    digest_of(specialisation, strlen(specialisation), &digest);
    digest_hex(&digest, hex);
    snprintf(folder, STORE_PATH_BYTES, "records/%.127s/%s", device, hex);
}

void record_file_name(const struct record *record, char name[NAME_MAX + 1])
{
    size_t length = strlen(record->shape);
    if (length <= 200) {
        snprintf(name, NAME_MAX + 1, "%.200s.%.32s.json", record->shape, record->run);
        return;
    }
    /* a shape too long for a file name: its head, and a digest that tells it apart */
    struct digest digest;
    char hex[DIGEST_HEX_BYTES];
    digest_of(record->shape, length, &digest);
    digest_hex(&digest, hex);
    snprintf(name, NAME_MAX + 1, "%.160s-%.32s.%s.json", record->shape, hex, record->run);
}

static attune_status memory_put(struct store *store, const char *folder, const char *name, struct buffer *json,
                                struct error *error)
{
    atomic_store(&store->in_memory, true);
    struct memory_record *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    snprintf(made->folder, sizeof made->folder, "%s", folder);
    snprintf(made->name, sizeof made->name, "%s", name);
    made->json = *json;
    *json = (struct buffer)BUFFER_INIT;
    pthread_mutex_lock(&store->lock);
    made->next = store->records;
    store->records = made;
    pthread_mutex_unlock(&store->lock);
    return ATTUNE_OK;
}

attune_status store_record_put(struct store *store, const struct record *record, struct error *error)
{
    struct buffer json = BUFFER_INIT;
    struct error why = {0};
    char device[128], folder[STORE_PATH_BYTES], name[NAME_MAX + 1];
    attune_status status = record_to_json(record, &json, error);
    if (status != ATTUNE_OK) {
        goto out;
    }
    record_device_folder(record, device);
    record_relative_folder(device, record->specialisation, folder);
    record_file_name(record, name);
    if (store->root[0] != '\0' && !store_object_is_volatile(store, &record->object)) {
        status = store_publish(store, folder, name, json.data, json.length, &why);
        if (status == ATTUNE_OK) {
            goto out;
        }
        store_warn_memory(store, &why);
    }
    status = memory_put(store, folder, name, &json, error);
out:
    buffer_free(&json);
    return status;
}

bool store_record_is_kept(struct store *store, const struct record *record)
{
    char device[128], relative[STORE_PATH_BYTES], folder[STORE_PATH_BYTES], name[NAME_MAX + 1];
    char path[STORE_PATH_BYTES + NAME_MAX + 2];
    struct stat facts;
    record_device_folder(record, device);
    record_relative_folder(device, record->specialisation, relative);
    record_file_name(record, name);
    return store_folder_open(store, relative, folder, NULL) == ATTUNE_OK &&
           path_join(path, sizeof path, folder, name, NULL) == ATTUNE_OK && lstat(path, &facts) == 0 &&
           S_ISREG(facts.st_mode);
}

/* ------------------------------------------------------------------------------------------------ reading */

attune_status store_record_read(const char *path, const char *folder, const char *name, struct record *record,
                                struct error *error)
{
    struct buffer json = BUFFER_INIT;
    char device[128], own_folder[STORE_PATH_BYTES], own_name[NAME_MAX + 1];
    memset(record, 0, sizeof *record);
    attune_status status = file_read_private(path, RECORD_BYTES_MAX, &json, error);
    if (status == ATTUNE_OK) {
        status = record_from_json(buffer_string(&json), json.length, record, error);
    }
    if (status == ATTUNE_OK) {
        record_device_folder(record, device);
        record_relative_folder(device, record->specialisation, own_folder);
        record_file_name(record, own_name);
        if (strcmp(folder, own_folder) != 0 || strcmp(name, own_name) != 0) {
            record_free(record);
            status = error_set(error, ATTUNE_CORRUPT, "it is another record under this name");
        }
    }
    buffer_free(&json);
    return status;
}

attune_status store_record_put_first(struct store *store, const struct record *record, struct record *kept, bool *first,
                                     struct error *error)
{
    struct buffer json = BUFFER_INIT;
    struct error why = {0};
    char device[128], folder[STORE_PATH_BYTES], name[NAME_MAX + 1], path[2 * STORE_PATH_BYTES + NAME_MAX + 3];
    *first = false;
    if (store->root[0] == '\0') {
        return error_set(error, ATTUNE_UNSUPPORTED, "the cache is in memory, where no other process sees it: %s",
                         store->reason);
    }
    attune_status status = store_object_is_volatile(store, &record->object)
                               ? error_set(error, ATTUNE_IO,
                                           "the store '%s' did not take the object that the record names: make room, "
                                           "or see that it can be written, and run this again",
                                           store->root)
                               : record_to_json(record, &json, error);
    if (status == ATTUNE_OK) {
        record_device_folder(record, device);
        record_relative_folder(device, record->specialisation, folder);
        record_file_name(record, name);
        snprintf(path, sizeof path, "%s/%s/%s", store->root, folder, name);
    }
    /* what is there may be no record, or vanish between both steps */
    for (int round = 0; round < 3 && status == ATTUNE_OK; round++) {
        status = store_publish_first(store, folder, name, json.data, json.length, first, error);
        if (status != ATTUNE_OK) {
            break;
        }
        attune_status read = store_record_read(path, folder, name, kept, &why);
        if (read == ATTUNE_OK) {
            goto out;
        }
        if (read == ATTUNE_CORRUPT) {
            store_set_aside(store, path + strlen(store->root) + 1, why.message);
        } else if (read != ATTUNE_NOT_FOUND) {
            break;
        }
    }
    if (status == ATTUNE_OK) {
        status = error_set(error, why.status, "%s", why.message);
    }
out:
    buffer_free(&json);
    return status;
}

struct named_record {
    char name[NAME_MAX + 1];
    struct record record;
};

struct record_list {
    struct named_record **items; /* each on its own: a record is large */
    int count, capacity;
};

/* newest first, then by name */
static int by_age(const void *a, const void *b)
{
    const struct named_record *x = *(struct named_record *const *)a, *y = *(struct named_record *const *)b;
    if (x->record.created != y->record.created) {
        return x->record.created > y->record.created ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

/* takes what `item` owns; frees it when there is no room */
static attune_status list_add(struct record_list *list, struct named_record *item, struct error *error)
{
    if (list->count == list->capacity) {
        int capacity = list->capacity > 0 ? 2 * list->capacity : 8;
        struct named_record **grown = realloc(list->items, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            record_free(&item->record);
            free(item);
            return error_no_memory(error);
        }
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return ATTUNE_OK;
}

static void list_free(struct record_list *list, bool records_too)
{
    for (int i = 0; i < list->count; i++) {
        if (records_too) {
            record_free(&list->items[i]->record);
        }
        free(list->items[i]);
    }
    free(list->items);
}

static attune_status add_memory(struct store *store, const char *folder, struct record_list *list, struct error *error)
{
    attune_status status = ATTUNE_OK;
    pthread_mutex_lock(&store->lock);
    for (struct memory_record *m = store->records; m != NULL && status == ATTUNE_OK; m = m->next) {
        if (strcmp(m->folder, folder) != 0) {
            continue;
        }
        struct named_record *item = calloc(1, sizeof *item);
        if (item == NULL) {
            status = error_no_memory(error);
            break;
        }
        snprintf(item->name, sizeof item->name, "%s", m->name);
        status = record_from_json(m->json.data, m->json.length, &item->record, error);
        if (status == ATTUNE_OK) {
            status = list_add(list, item, error);
        } else {
            free(item);
        }
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

static attune_status add_folder(struct store *store, const char *folder, struct record_list *list, struct error *error)
{
    char path[STORE_PATH_BYTES], file[STORE_PATH_BYTES];
    struct error why = {0};
    attune_status status = store_folder_open(store, folder, path, &why);
    if (status != ATTUNE_OK) {
        if (status != ATTUNE_NOT_FOUND) { /* a folder that is not to be trusted, or not to be read: nothing is in it */
            store_warn_memory(store, &why);
        }
        return ATTUNE_OK;
    }
    DIR *stream = opendir(path);
    status = ATTUNE_OK;
    for (struct dirent *entry; stream != NULL && status == ATTUNE_OK && (entry = readdir(stream)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (store_is_temporary(entry->d_name) || length < 6 || strcmp(entry->d_name + length - 5, ".json") != 0 ||
            list->count >= RECORDS_MAX || path_join(file, sizeof file, path, entry->d_name, NULL) != ATTUNE_OK) {
            continue;
        }
        struct named_record *item = calloc(1, sizeof *item);
        if (item == NULL) {
            status = error_no_memory(error);
            break;
        }
        snprintf(item->name, sizeof item->name, "%s", entry->d_name);
        attune_status read = store_record_read(file, folder, entry->d_name, &item->record, &why);
        if (read == ATTUNE_OK) {
            status = list_add(list, item, error);
            continue;
        }
        free(item);
        if (read == ATTUNE_CORRUPT) {
            store_set_aside(store, file + strlen(store->root) + 1, why.message);
        } else if (read == ATTUNE_NO_MEMORY) {
            status = error_no_memory(error);
        }
    }
    if (stream != NULL) {
        closedir(stream);
    }
    return status;
}

attune_status store_records(struct store *store, const char *device, const char *specialisation,
                            struct record **records, int *count, struct error *error)
{
    struct record_list list = {0};
    char folder[STORE_PATH_BYTES];
    *records = NULL;
    *count = 0;
    record_relative_folder(device, specialisation, folder);
    attune_status status = add_memory(store, folder, &list, error);
    if (status == ATTUNE_OK && store->root[0] != '\0') {
        status = add_folder(store, folder, &list, error);
    }
    if (status == ATTUNE_OK && list.count > 0) {
        *records = malloc((size_t)list.count * sizeof **records);
        status = *records != NULL ? ATTUNE_OK : error_no_memory(error);
    }
    if (status == ATTUNE_OK && list.count > 0) {
        qsort(list.items, (size_t)list.count, sizeof *list.items, by_age);
        for (int i = 0; i < list.count; i++) {
            (*records)[i] = list.items[i]->record;
        }
        *count = list.count;
    }
    list_free(&list, status != ATTUNE_OK);
    return status;
}

/* ------------------------------------------------------------------------------------------------ families */

struct family_search {
    struct store *store;
    const char *family;
    struct record best; /* its schema is NULL until one is found */
};

/* keeps the newer one; `record` is ours */
static void family_offer(struct family_search *search, struct record *record)
{
    if (record->schema != NULL && strcmp(record->schema->family, search->family) == 0 &&
        (search->best.schema == NULL || record->created > search->best.created)) {
        record_free(&search->best);
        search->best = *record;
    } else {
        record_free(record);
    }
}

attune_status store_record_at(struct store *store, const char *relative, struct record *record, struct error *error)
{
    char path[2 * STORE_PATH_BYTES], folder[STORE_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", relative);
    char *slash = strrchr(folder, '/');
    if (store->root[0] == '\0' || slash == NULL || strlen(relative) >= sizeof folder) {
        return error_set(error, ATTUNE_NOT_FOUND, "the store has no file '%s'", relative);
    }
    snprintf(path, sizeof path, "%s/%s", store->root, relative);
    *slash = '\0';
    return store_record_read(path, folder, slash + 1, record, error);
}

static attune_status family_visit(void *data, const struct store_entry *entry, struct error *error)
{
    struct family_search *search = data;
    if (entry->kind != STORE_RECORD) {
        return ATTUNE_OK;
    }
    struct record *record = calloc(1, sizeof *record);
    if (record == NULL) {
        return error_no_memory(error);
    }
    if (store_record_at(search->store, entry->path, record, NULL) == ATTUNE_OK) {
        family_offer(search, record);
    }
    free(record);
    return ATTUNE_OK;
}

attune_status store_family_schema(struct store *store, const char *family, struct schema **schema, struct error *error)
{
    struct family_search *search = calloc(1, sizeof *search);
    struct record *record = calloc(1, sizeof *record);
    attune_status status = search != NULL && record != NULL ? ATTUNE_OK : error_no_memory(error);
    *schema = NULL;
    if (status == ATTUNE_OK) {
        search->store = store;
        search->family = family;
        pthread_mutex_lock(&store->lock);
        for (struct memory_record *m = store->records; m != NULL; m = m->next) {
            if (record_from_json(m->json.data, m->json.length, record, NULL) == ATTUNE_OK) {
                family_offer(search, record);
            }
        }
        pthread_mutex_unlock(&store->lock);
        status = store_walk(store, family_visit, search, error);
        *schema = search->best.schema;
        if (status == ATTUNE_OK && *schema == NULL) {
            status = error_set(error, ATTUNE_NOT_FOUND, "no record is of family %s", family);
        }
    }
    free(record);
    free(search);
    return status;
}
