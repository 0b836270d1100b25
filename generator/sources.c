/* sources.c - reading template files from folders or from the embedded table. */
#include "generator/sources.h"

#include "base/environment.h"
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SOURCE_BYTES_MAX = 4 << 20, SOURCE_FILES_MAX = 1024 };

attune_status sources_open(struct sources *sources, const char *path, struct error *error)
{
    memset(sources, 0, sizeof *sources);
    if (path == NULL) {
        path = environment_get("ATTUNE_TEMPLATE_PATH");
    }
    if (path == NULL || path[0] == '\0') {
        return ATTUNE_OK;
    }
    sources->path = strdup(path);
    if (sources->path == NULL) {
        return error_no_memory(error);
    }
    char *rest = NULL;
    for (char *folder = strtok_r(sources->path, ":", &rest); folder != NULL; folder = strtok_r(NULL, ":", &rest)) {
        struct stat facts;
        if (sources->folder_count == SOURCE_FOLDERS_MAX) {
            return error_set(error, ATTUNE_INVALID, "ATTUNE_TEMPLATE_PATH names more than %d folders",
                             SOURCE_FOLDERS_MAX);
        }
        if (stat(folder, &facts) != 0) {
            int saved = errno;
            return error_set(error, ATTUNE_NOT_FOUND,
                             "ATTUNE_TEMPLATE_PATH: folder '%s' cannot be read: %s; correct the path or unset it",
                             folder, strerror(saved));
        }
        if (!S_ISDIR(facts.st_mode)) {
            return error_set(
                error, ATTUNE_INVALID,
                "ATTUNE_TEMPLATE_PATH: '%s' is not a folder; name the folder that holds the family's files", folder);
        }
        sources->folders[sources->folder_count++] = folder;
    }
    return ATTUNE_OK;
}

void sources_close(struct sources *sources)
{
    free(sources->path);
    memset(sources, 0, sizeof *sources);
}

bool source_name_legal(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length >= SOURCE_NAME_BYTES || name[0] == '/' || strstr(name, "..") != NULL) {
        return false;
    }
    for (const char *at = name; *at != '\0'; at++) {
        bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9');
        if (!plain && strchr("_-./", *at) == NULL) {
            return false;
        }
    }
    return true;
}

static attune_status read_from_folder(const char *folder, const char *name, struct buffer *bytes, bool *found,
                                      struct error *error)
{
    char path[4096];
    struct stat facts;
    attune_status status = path_join(path, sizeof path, folder, name, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    *found = stat(path, &facts) == 0;
    if (!*found) {
        return ATTUNE_OK;
    }
    buffer_clear(bytes);
    return file_read(path, SOURCE_BYTES_MAX, bytes, error);
}

attune_status sources_read(const struct sources *sources, const char *name, int preferred, struct buffer *bytes,
                           int *origin, struct error *error)
{
    if (!source_name_legal(name)) {
        return error_set(
            error, ATTUNE_INVALID,
            "file name '%s': names are relative to templates/, made of letters, digits and _-./ without '..', "
            "shorter than %d",
            name, SOURCE_NAME_BYTES);
    }
    for (int i = -1; i < sources->folder_count; i++) {
        int folder = i < 0 ? preferred : i;
        bool found = false;
        if (folder < 0 || (i >= 0 && folder == preferred)) {
            continue;
        }
        attune_status status = read_from_folder(sources->folders[folder], name, bytes, &found, error);
        if (status != ATTUNE_OK || found) {
            *origin = folder;
            return status;
        }
    }
    for (const struct embedded_file *file = attune_embedded_templates; file->name != NULL; file++) {
        if (strcmp(file->name, name) == 0) {
            buffer_clear(bytes);
            buffer_append(bytes, file->bytes, file->length);
            *origin = SOURCE_EMBEDDED;
            return buffer_ok(bytes, error);
        }
    }
    struct buffer places = BUFFER_INIT;
    for (int i = 0; i < sources->folder_count; i++) {
        buffer_format(&places, "%s, ", sources->folders[i]);
    }
    error_set(error, ATTUNE_NOT_FOUND, "templates/%s is not there (searched: %sthe embedded files)", name,
              buffer_string(&places));
    buffer_free(&places);
    return ATTUNE_NOT_FOUND;
}

static bool is_family_file(const char *name)
{
    size_t length = strlen(name);
    return length > 4 && name[0] != '.' && strcmp(name + length - 4, ".lua") == 0 && strchr(name, '/') == NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static attune_status list_folder(const char *folder, char **names, int *count, struct error *error)
{
    attune_status status = ATTUNE_OK;
    DIR *directory = opendir(folder);
    if (directory == NULL) {
        return error_errno(error, errno, "ATTUNE_TEMPLATE_PATH: folder '%s'", folder);
    }
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (!is_family_file(entry->d_name)) {
            continue;
        }
        if (*count == SOURCE_FILES_MAX) {
            status = error_set(error, ATTUNE_INVALID, "ATTUNE_TEMPLATE_PATH: folder '%s' holds more than %d Lua files",
                               folder, SOURCE_FILES_MAX);
            break;
        }
        names[*count] = strdup(entry->d_name);
        if (names[*count] == NULL) {
            status = error_no_memory(error);
            break;
        }
        ++*count;
    }
    closedir(directory);
    return status;
}

attune_status sources_families(const struct sources *sources, int origin, source_visitor visit, void *data,
                               struct error *error)
{
    attune_status status = ATTUNE_OK;
    if (origin == SOURCE_EMBEDDED) {
        for (const struct embedded_file *file = attune_embedded_templates; file->name != NULL; file++) {
            if (is_family_file(file->name)) {
                status = visit(data, file->name, origin, error);
            }
            if (status != ATTUNE_OK) {
                return status;
            }
        }
        return ATTUNE_OK;
    }
    int count = 0;
    char **names = calloc(SOURCE_FILES_MAX, sizeof *names);
    if (names == NULL) {
        return error_no_memory(error);
    }
    status = list_folder(sources->folders[origin], names, &count, error);
    qsort(names, (size_t)count, sizeof *names, compare_names);
    for (int i = 0; i < count && status == ATTUNE_OK; i++) {
        status = visit(data, names[i], origin, error);
    }
    for (int i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
    return status;
}
