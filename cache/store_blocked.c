/* store_blocked.c - objects that nobody should launch again: a candidate was wrong, hung or crashed with one, or its
 * compile did not end. blocked/<2 hex>/<64 hex>.json, named as the object is; a changed template or compiler is another
 * object. */
#include "cache/store_internal.h"

#include "base/files.h"
#include "base/locale.h"
#include "base/text_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKED_FORMAT = 1 };

static void place(const struct digest *object, char folder[STORE_PATH_BYTES], char name[NAME_MAX + 1])
{
    char hex[DIGEST_HEX_BYTES];
    digest_hex(object, hex);
    snprintf(folder, STORE_PATH_BYTES, "blocked/%.2s", hex);
    snprintf(name, NAME_MAX + 1, "%s.json", hex);
}

char *store_blocked_encode(const struct blocked *blocked)
{
    char hex[DIGEST_HEX_BYTES];
    digest_hex(&blocked->object, hex);
    locale_t previous = locale_enter();
    json_t *root = json_pack("{s:i, s:s, s:s, s:s, s:s, s:o, s:I}", "attune_blocked", BLOCKED_FORMAT, "object", hex,
                             "target", blocked->target, "candidate", blocked->candidate, "outcome", blocked->outcome,
                             "reason", text_to_json(blocked->reason), "created", (json_int_t)blocked->created);
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    locale_leave(previous);
    json_decref(root);
    return text;
}

attune_status store_blocked_put(struct store *store, const struct blocked *blocked, struct error *error)
{
    char folder[STORE_PATH_BYTES], name[NAME_MAX + 1];
    if (store->root[0] == '\0') {
        return ATTUNE_OK; /* this process knows, and no other can */
    }
    char *text = store_blocked_encode(blocked);
    if (text == NULL) {
        return error_no_memory(error);
    }
    place(&blocked->object, folder, name);
    attune_status status = store_publish(store, folder, name, text, strlen(text), error);
    free(text);
    return status;
}

static bool read_text(const json_t *root, const char *key, char *into, size_t bytes)
{
    const json_t *value = json_object_get(root, key);
    if (!json_is_string(value) || json_string_length(value) >= bytes ||
        json_string_length(value) != strlen(json_string_value(value))) {
        return false;
    }
    memcpy(into, json_string_value(value), json_string_length(value) + 1);
    return true;
}

bool store_blocked_decode(const struct buffer *file, const struct digest *object, struct blocked *blocked)
{
    char hex[DIGEST_HEX_BYTES], named[DIGEST_HEX_BYTES];
    locale_t previous = locale_enter();
    json_t *root = json_loadb(buffer_string(file), file->length, JSON_REJECT_DUPLICATES, NULL);
    locale_leave(previous);
    const json_t *created = json_object_get(root, "created");
    digest_hex(object, hex);
    *blocked = (struct blocked){.object = *object};
    bool good = json_integer_value(json_object_get(root, "attune_blocked")) == BLOCKED_FORMAT &&
                read_text(root, "object", named, sizeof named) && strcmp(named, hex) == 0 &&
                read_text(root, "target", blocked->target, sizeof blocked->target) &&
                read_text(root, "candidate", blocked->candidate, sizeof blocked->candidate) &&
                read_text(root, "outcome", blocked->outcome, sizeof blocked->outcome) &&
                read_text(root, "reason", blocked->reason, sizeof blocked->reason) && json_is_integer(created) &&
                json_integer_value(created) >= 0;
    blocked->created = json_integer_value(created);
    json_decref(root);
    return good;
}

attune_status store_blocked_get(struct store *store, const struct digest *object, struct blocked *blocked,
                                struct error *error)
{
    char relative[STORE_PATH_BYTES], folder[STORE_PATH_BYTES], path[STORE_PATH_BYTES], name[NAME_MAX + 1];
    struct buffer file = BUFFER_INIT;
    struct error why = {0};
    place(object, relative, name);
    attune_status status = store_folder_open(store, relative, folder, &why);
    if (status == ATTUNE_OK) {
        status = path_join(path, sizeof path, folder, name, &why);
    }
    if (status == ATTUNE_OK) {
        status = file_read_private(path, STORE_BLOCKED_BYTES_MAX, &file, &why);
    }
    if (status == ATTUNE_OK && !store_blocked_decode(&file, object, blocked)) {
        status = error_set(&why, ATTUNE_CORRUPT, "it is no note of a blocked object");
    }
    if (status == ATTUNE_CORRUPT) { /* whoever wrote it blocks nothing */
        store_set_aside(store, path + strlen(store->root) + 1, why.message);
    }
    buffer_free(&file);
    return status == ATTUNE_OK ? status : error_set(error, ATTUNE_NOT_FOUND, "%s", why.message);
}

void store_blocked_remove(struct store *store, const struct digest *object)
{
    char relative[STORE_PATH_BYTES], folder[STORE_PATH_BYTES], path[STORE_PATH_BYTES], name[NAME_MAX + 1];
    place(object, relative, name);
    if (store_folder_open(store, relative, folder, NULL) == ATTUNE_OK &&
        path_join(path, sizeof path, folder, name, NULL) == ATTUNE_OK) {
        unlink(path);
    }
}
