/* stand_in.c - a program in a simulator's place: holds the launch folder against docs/simulator.md, strictly, and runs
 * the host device's build of the same kernel.
 *
 *   stand_in_simulator FOLDER
 * $STAND_IN_OBJECTS is a folder where DIGEST.so is the host object of the kernel whose GPU object has that digest.
 * Every folder that was right adds one line to $STAND_IN_LOG. Exit code 3 with the reason when anything is not as the
 * page says.
 */
#include "base/codeobject.h"
#include "base/digest.h"
#include "base/files.h"
#include "runtime/driver.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFERS_MAX = 64, FILE_MAX = 1 << 30 };

struct loaded {
    struct buffer bytes;
    char name[64];
    void *device;
    bool is_used;
};

struct folder {
    const char *path;
    json_t *root;
    struct buffer object, arguments;
    struct loaded buffers[BUFFERS_MAX];
    size_t buffer_count;
    uint32_t pointer_offsets[BUFFERS_MAX];
    int pointer_count;
    struct resources code;
};

static void refuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void refuse(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fprintf(stderr, "stand-in: ");
    vfprintf(stderr, format, values);
    fprintf(stderr, "\n");
    va_end(values);
    exit(3);
}

static void must(attune_status status, const struct error *error)
{
    if (status != ATTUNE_OK) {
        refuse("%s", error->message);
    }
}

/* an object has exactly these keys */
static void has_keys(const json_t *object, const char *const *keys)
{
    size_t count = 0;
    for (; keys[count] != NULL; count++) {
        if (json_object_get(object, keys[count]) == NULL) {
            refuse("\"%s\" is missing", keys[count]);
        }
    }
    if (json_object_size(object) != count) {
        refuse("%zu keys where there should be %zu", json_object_size(object), count);
    }
}

static json_int_t whole(const json_t *object, const char *key, json_int_t least, json_int_t most)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most) {
        refuse("\"%s\" is not a whole number from %lld to %lld", key, (long long)least, (long long)most);
    }
    return json_integer_value(value);
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    if (value == NULL || value[0] == '\0') {
        refuse("\"%s\" is no text", key);
    }
    return value;
}

static void three(const json_t *root, const char *key, uint32_t sizes[3])
{
    const json_t *list = json_object_get(root, key);
    for (size_t i = 0; i < 3; i++) {
        const json_t *size = json_array_get(list, i);
        if (json_array_size(list) != 3 || json_integer_value(size) < 1 || json_integer_value(size) > UINT32_MAX) {
            refuse("\"%s\" is not three sizes from 1 on", key);
        }
        sizes[i] = (uint32_t)json_integer_value(size);
    }
}

static void read_named(const struct folder *folder, const json_t *object, const char *key, struct buffer *bytes)
{
    const char *name = text(object, key);
    char path[4096];
    struct error error = {0};
    if (strchr(name, '/') != NULL || name[0] == '.') {
        refuse("\"%s\": %s is no file name of the folder", key, name);
    }
    must(path_join(path, sizeof path, folder->path, name, &error), &error);
    must(file_read(path, FILE_MAX, bytes, &error), &error);
}

static void read_buffers(struct folder *folder)
{
    static const char *const keys[] = {"file", "bytes", NULL};
    const json_t *list = json_object_get(folder->root, "buffers");
    folder->buffer_count = json_array_size(list);
    if (!json_is_array(list) || folder->buffer_count > BUFFERS_MAX) {
        refuse("\"buffers\" is no list of at most %d", BUFFERS_MAX);
    }
    for (size_t i = 0; i < folder->buffer_count; i++) {
        const json_t *entry = json_array_get(list, i);
        struct loaded *loaded = &folder->buffers[i];
        has_keys(entry, keys);
        read_named(folder, entry, "file", &loaded->bytes);
        snprintf(loaded->name, sizeof loaded->name, "%s", text(entry, "file"));
        if ((json_int_t)loaded->bytes.length != whole(entry, "bytes", 0, FILE_MAX)) {
            refuse("%s has %zu bytes", loaded->name, loaded->bytes.length);
        }
    }
}

/* every pointer: aligned, inside the arguments, apart from the others, into a buffer or just behind it */
static void check_relocations(struct folder *folder)
{
    static const char *const keys[] = {"offset", "buffer", "addend", NULL};
    const json_t *list = json_object_get(folder->root, "relocations");
    json_int_t least = 0;
    if (!json_is_array(list) || json_array_size(list) > BUFFERS_MAX) {
        refuse("\"relocations\" is no list");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        has_keys(entry, keys);
        json_int_t offset = whole(entry, "offset", least, (json_int_t)folder->arguments.length - 8);
        json_int_t buffer = whole(entry, "buffer", 0, (json_int_t)folder->buffer_count - 1);
        whole(entry, "addend", 0, (json_int_t)folder->buffers[buffer].bytes.length);
        if (offset % 8 != 0) {
            refuse("offset %lld of a pointer is no multiple of 8", (long long)offset);
        }
        folder->buffers[buffer].is_used = true;
        folder->pointer_offsets[folder->pointer_count++] = (uint32_t)offset;
        least = offset + 8;
    }
    for (size_t i = 0; i < folder->buffer_count; i++) {
        if (!folder->buffers[i].is_used) {
            refuse("no argument points into %s", folder->buffers[i].name);
        }
    }
}

static void check_code(struct folder *folder)
{
    struct error error = {0};
    struct target target;
    uint32_t block[3];
    must(codeobject_resources(folder->object.data, folder->object.length, text(folder->root, "kernel"), &folder->code,
                              &error),
         &error);
    three(folder->root, "block", block);
    must(target_parse(folder->code.target, &target, &error), &error);
    if (target.vendor == TARGET_HOST || strcmp(folder->code.target, text(folder->root, "target")) != 0) {
        refuse("the object is for %s", folder->code.target);
    }
    if (block[0] != (uint32_t)folder->code.max_threads || block[1] != 1 || block[2] != 1) {
        refuse("a block of %u x %u x %u for a kernel of %d", block[0], block[1], block[2], folder->code.max_threads);
    }
    if (whole(folder->root, "wave", 1, 64) != folder->code.wave_size) {
        refuse("the object's waves have %d lanes", folder->code.wave_size);
    }
    if (whole(folder->root, "dynamic_shared_bytes", 0, 1 << 20) + folder->code.shared_bytes > 160 << 10) {
        refuse("too much shared memory");
    }
    if ((json_int_t)folder->arguments.length != whole(folder->root, "argument_bytes", 1, 4096) ||
        folder->arguments.length < (size_t)folder->code.argument_bytes || folder->code.hidden_arguments != 0) {
        refuse("%zu bytes of arguments, the kernel wants %d and %d hidden ones", folder->arguments.length,
               folder->code.argument_bytes, folder->code.hidden_arguments);
    }
}

/* nothing lies in the folder that launch.json does not name */
static void check_files(const struct folder *folder)
{
    DIR *entries = opendir(folder->path);
    size_t files = 0;
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        files += entry->d_name[0] != '.';
    }
    if (entries == NULL || files != folder->buffer_count + 3) {
        refuse("%zu files in the folder, %zu are named", files, folder->buffer_count + 3);
    }
    closedir(entries);
}

static void read_folder(struct folder *folder)
{
    static const char *const keys[] = {"attune_launch",
                                       "object",
                                       "kernel",
                                       "target",
                                       "grid",
                                       "block",
                                       "wave",
                                       "arguments",
                                       "argument_bytes",
                                       "relocations",
                                       "buffers",
                                       "dynamic_shared_bytes",
                                       NULL};
    char path[4096];
    struct error error = {0};
    json_error_t problem;
    if (folder->path[0] != '/') {
        refuse("%s is no absolute path", folder->path);
    }
    must(path_join(path, sizeof path, folder->path, "launch.json", &error), &error);
    folder->root = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    if (folder->root == NULL) {
        refuse("launch.json:%d: %s", problem.line, problem.text);
    }
    has_keys(folder->root, keys);
    whole(folder->root, "attune_launch", 1, 1);
    read_named(folder, folder->root, "object", &folder->object);
    read_named(folder, folder->root, "arguments", &folder->arguments);
    read_buffers(folder);
    check_relocations(folder);
    check_code(folder);
    check_files(folder);
}

static void read_host_object(const struct folder *folder, struct buffer *object)
{
    char path[4096], hex[DIGEST_HEX_BYTES];
    const char *objects = getenv("STAND_IN_OBJECTS");
    struct digest digest;
    struct error error = {0};
    digest_of(folder->object.data, folder->object.length, &digest);
    digest_hex(&digest, hex);
    snprintf(path, sizeof path, "%s/%s.so", objects != NULL ? objects : "", hex);
    must(file_read(path, FILE_MAX, object, &error), &error);
}

static void run(struct folder *folder)
{
    const struct driver *host;
    struct buffer object = BUFFER_INIT;
    struct error error = {0};
    driver_module module;
    struct driver_launch launch = {.dynamic_shared_bytes =
                                       (uint32_t)whole(folder->root, "dynamic_shared_bytes", 0, 1 << 20)};
    uint32_t block[3];
    three(folder->root, "block", block);
    three(folder->root, "grid", launch.grid);
    read_host_object(folder, &object);
    must(driver_get("host", &host, &error), &error);
    for (size_t i = 0; i < folder->buffer_count; i++) {
        struct loaded *loaded = &folder->buffers[i];
        must(host->allocate(host, 0, loaded->bytes.length, &loaded->device, &error), &error);
        must(host->copy_in(host, 0, loaded->device, loaded->bytes.data, loaded->bytes.length, &error), &error);
    }
    for (int i = 0; i < folder->pointer_count; i++) {
        const json_t *entry = json_array_get(json_object_get(folder->root, "relocations"), (size_t)i);
        char *pointer = folder->buffers[whole(entry, "buffer", 0, BUFFERS_MAX)].device;
        pointer += whole(entry, "addend", 0, FILE_MAX);
        memcpy(folder->arguments.data + folder->pointer_offsets[i], &pointer, sizeof pointer);
    }
    must(host->load(host, 0, object.data, object.length, text(folder->root, "kernel"), launch.dynamic_shared_bytes,
                    &module, &launch.function, &error),
         &error);
    launch.threads = block[0];
    launch.arguments = folder->arguments.data;
    launch.argument_bytes = (uint32_t)folder->arguments.length;
    must(host->launch(host, 0, &launch, NULL, &error), &error);
    for (size_t i = 0; i < folder->buffer_count; i++) {
        char path[4096];
        must(path_join(path, sizeof path, folder->path, folder->buffers[i].name, &error), &error);
        must(file_write(path, folder->buffers[i].device, folder->buffers[i].bytes.length, &error), &error);
    }
    buffer_free(&object);
}

static void add_to_log(const struct folder *folder)
{
    const char *path = getenv("STAND_IN_LOG");
    int log = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (log >= 0) {
        dprintf(log, "%s %s\n", folder->code.kernel, folder->code.target);
        close(log);
    }
}

int main(int count, char **words)
{
    static struct folder folder;
    char path[4096];
    struct error error = {0};
    if (count != 2) {
        refuse("one argument, the folder, not %d", count - 1);
    }
    folder.path = words[1];
    read_folder(&folder);
    run(&folder);
    add_to_log(&folder);
    must(path_join(path, sizeof path, folder.path, "done", &error), &error);
    must(file_write(path, "", 0, &error), &error);
    return 0; /* what was read goes with the process */
}
