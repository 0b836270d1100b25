/* runner_main.c - attune-runner-address and attune-runner-thread: one launch of a sanitized host object.
 *
 *   attune-runner-* FOLDER
 * reads FOLDER/launch.json (docs/host-device.md), maps each buffer as an exact heap block, puts the blocks' addresses
 * into the arguments, runs the object on the host device and writes the buffers back. Exit code 0; 1 when a strict
 * check of the host device fired (the message is on stderr); 2 when the folder is wrong; 99 when the sanitizer found
 * something (its report is on stderr). Nothing here is instrumented, only the object is: the sanitizer's runtime is
 * linked in.
 */
#include "base/buffer.h"
#include "base/files.h"
#include "runtime/host_device.h"
#include "runtime/runner.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_FAILED = 1, EXIT_FOLDER = 2 };
enum { ALIGNMENT = 256 };

struct mapped {
    char path[1024];
    char *data;
    size_t bytes;
};

struct folder {
    const char *path;
    json_t *root;
    struct mapped *buffers;
    size_t buffer_count;
    struct buffer arguments;
};

static json_int_t field_integer(const struct folder *folder, const json_t *object, const char *name, json_int_t minimum,
                                json_int_t maximum)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value) || json_integer_value(value) < minimum || json_integer_value(value) > maximum) {
        fprintf(stderr, "%s/launch.json: \"%s\" must be an integer from %lld to %lld\n", folder->path, name,
                (long long)minimum, (long long)maximum);
        exit(EXIT_FOLDER);
    }
    return json_integer_value(value);
}

static const char *field_string(const struct folder *folder, const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    if (value == NULL) {
        fprintf(stderr, "%s/launch.json: \"%s\" must be a string\n", folder->path, name);
        exit(EXIT_FOLDER);
    }
    return value;
}

static void field_sizes(const struct folder *folder, const char *name, uint32_t sizes[3])
{
    const json_t *list = json_object_get(folder->root, name);
    for (size_t i = 0; i < 3; i++) {
        const json_t *size = json_array_get(list, i);
        if (json_array_size(list) != 3 || !json_is_integer(size) || json_integer_value(size) < 1 ||
            json_integer_value(size) > UINT32_MAX) {
            fprintf(stderr, "%s/launch.json: \"%s\" must be three integers from 1 on\n", folder->path, name);
            exit(EXIT_FOLDER);
        }
        sizes[i] = (uint32_t)json_integer_value(size);
    }
}

/* a name within the folder: no slash, so that a launch touches nothing else */
static void field_path(const struct folder *folder, const json_t *object, const char *name, char *path, size_t bytes)
{
    const char *file = field_string(folder, object, name);
    if (strchr(file, '/') != NULL || file[0] == '.' ||
        snprintf(path, bytes, "%s/%s", folder->path, file) >= (int)bytes) {
        fprintf(stderr, "%s/launch.json: \"%s\" is not a file name of this folder\n", folder->path, file);
        exit(EXIT_FOLDER);
    }
}

static void die(const struct error *error, int code)
{
    fprintf(stderr, "%s\n", error->message);
    exit(code);
}

static void read_buffers(struct folder *folder)
{
    const json_t *list = json_object_get(folder->root, "buffers");
    folder->buffer_count = json_array_size(list);
    folder->buffers = calloc(folder->buffer_count + 1, sizeof *folder->buffers);
    for (size_t i = 0; i < folder->buffer_count && folder->buffers != NULL; i++) {
        struct mapped *mapped = &folder->buffers[i];
        struct buffer bytes = BUFFER_INIT;
        struct error error;
        const json_t *entry = json_array_get(list, i);
        field_path(folder, entry, "file", mapped->path, sizeof mapped->path);
        mapped->bytes = (size_t)field_integer(folder, entry, "bytes", 0, INT64_MAX);
        if (file_read(mapped->path, mapped->bytes + 1, &bytes, &error) != ATTUNE_OK) {
            die(&error, EXIT_FOLDER);
        }
        void *data = NULL;
        if (bytes.length != mapped->bytes || posix_memalign(&data, ALIGNMENT, mapped->bytes ? mapped->bytes : 1) != 0) {
            fprintf(stderr, "%s: %zu bytes, not %zu, or out of memory\n", mapped->path, bytes.length, mapped->bytes);
            exit(EXIT_FOLDER);
        }
        mapped->data = data;
        if (bytes.length > 0) {
            memcpy(mapped->data, bytes.data, bytes.length);
        }
        buffer_free(&bytes);
    }
}

static void read_arguments(struct folder *folder)
{
    char path[1024];
    struct error error;
    field_path(folder, folder->root, "arguments", path, sizeof path);
    json_int_t bytes = field_integer(folder, folder->root, "argument_bytes", 0, 1 << 20);
    if (file_read(path, (size_t)bytes + 1, &folder->arguments, &error) != ATTUNE_OK) {
        die(&error, EXIT_FOLDER);
    }
    if (folder->arguments.length != (size_t)bytes) {
        fprintf(stderr, "%s: %zu bytes, not %lld\n", path, folder->arguments.length, (long long)bytes);
        exit(EXIT_FOLDER);
    }
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(folder->root, "relocations"), i, entry)
    {
        json_int_t offset = field_integer(folder, entry, "offset", 0, bytes - (json_int_t)sizeof(void *));
        json_int_t buffer = field_integer(folder, entry, "buffer", 0, (json_int_t)folder->buffer_count - 1);
        const struct mapped *mapped = &folder->buffers[buffer];
        json_int_t addend = field_integer(folder, entry, "addend", 0, (json_int_t)mapped->bytes);
        char *pointer = mapped->data + addend;
        memcpy(folder->arguments.data + offset, &pointer, sizeof pointer);
    }
}

static void write_buffers(const struct folder *folder)
{
    for (size_t i = 0; i < folder->buffer_count; i++) {
        struct error error;
        if (file_write(folder->buffers[i].path, folder->buffers[i].data, folder->buffers[i].bytes, &error) !=
            ATTUNE_OK) {
            die(&error, EXIT_FOLDER);
        }
    }
}

/* last of all: without it the launch counts as failed */
static void write_done(const struct folder *folder)
{
    char path[1024];
    struct error error;
    snprintf(path, sizeof path, "%s/" RUNNER_DONE, folder->path);
    if (file_write(path, "", 0, &error) != ATTUNE_OK) {
        die(&error, EXIT_FOLDER);
    }
}

static host_entry load_entry(const struct folder *folder)
{
    char path[1024];
    host_entry entry;
    field_path(folder, folder->root, "object", path, sizeof path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, field_string(folder, folder->root, "entry")) : NULL;
    if (symbol == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(EXIT_FOLDER);
    }
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

static void read_folder(struct folder *folder)
{
    char path[1024];
    json_error_t problem;
    snprintf(path, sizeof path, "%s/launch.json", folder->path);
    folder->root = json_load_file(path, 0, &problem);
    if (folder->root == NULL) {
        fprintf(stderr, "%s:%d: %s\n", path, problem.line, problem.text);
        exit(EXIT_FOLDER);
    }
    field_integer(folder, folder->root, "attune_launch", 1, 1);
    read_buffers(folder);
    read_arguments(folder);
}

/* At a clean end all is given back: a leak check that the user turns on must speak of nothing but the kernel's run. */
static void free_folder(struct folder *folder)
{
    for (size_t i = 0; i < folder->buffer_count; i++) {
        free(folder->buffers[i].data);
    }
    free(folder->buffers);
    buffer_free(&folder->arguments);
    json_decref(folder->root);
}

int main(int count, char **values)
{
    if (count != 2) {
        fprintf(stderr, "usage: %s FOLDER\nruns the launch that FOLDER/launch.json describes\n", values[0]);
        return EXIT_FOLDER;
    }
    struct error error;
    struct folder folder = {.path = values[1], .arguments = BUFFER_INIT};
    read_folder(&folder);
    struct host_launch launch = {
        .entry = load_entry(&folder),
        .wave = (uint32_t)field_integer(&folder, folder.root, "wave", 1, UINT32_MAX),
        .arguments = folder.arguments.data,
        .target = field_string(&folder, folder.root, "target"),
    };
    uint32_t block[3];
    field_sizes(&folder, "grid", launch.grid);
    field_sizes(&folder, "block", block);
    launch.threads = block[0];
    if (block[1] != 1 || block[2] != 1) {
        fprintf(stderr, "%s/launch.json: \"block\" must be [THREADS, 1, 1]\n", folder.path);
        return EXIT_FOLDER;
    }
    if (host_schedule_parse(field_string(&folder, folder.root, "schedule"), &launch.schedule, &error) != ATTUNE_OK) {
        die(&error, EXIT_FOLDER);
    }
    if (host_device_run(&launch, &error) != ATTUNE_OK) {
        die(&error, error.status == ATTUNE_DEVICE_FAILED ? EXIT_FAILED : EXIT_FOLDER);
    }
    write_buffers(&folder);
    write_done(&folder);
    free_folder(&folder);
    return 0;
}
