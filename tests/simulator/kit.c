/* kit.c - see kit.h. */
#include "kit.h"

#include "base/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATHS = 8 };

static char folder[512], place[600];

int kit_set_up(void **state)
{
    (void)state;
    struct error error = {0};
    if (folder_temporary(folder, sizeof folder, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    snprintf(place, sizeof place, "%s/a place 'with' $odd names", folder);
    if (folder_make(kit_path("tmp dir"), &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    return setenv("TMPDIR", kit_path("tmp dir"), 1);
}

int kit_tear_down(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

const char *kit_path(const char *name)
{
    static char paths[PATHS][1024];
    static int next;
    char *path = paths[next++ % PATHS];
    snprintf(path, sizeof paths[0], "%s/%s", place, name);
    return path;
}

int kit_files(const char *path)
{
    int count = 0;
    DIR *entries = opendir(path);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(entries);
    return count;
}

bool kit_left_nothing(void)
{
    return kit_files(kit_path("tmp dir")) == 0;
}

void kit_open_to_others(bool open)
{
    assert_int_equal(chmod(folder, open ? 0711 : 0700), 0);
    assert_int_equal(chmod(place, open ? 0711 : 0700), 0);
    assert_int_equal(chmod(kit_path("tmp dir"), open ? 01777 : 0700), 0);
    assert_int_equal(chmod(getenv("ATTUNE_SIMULATOR"), open ? 0755 : 0700), 0);
}

void kit_simulate(const char *name, const char *text)
{
    const char *path = kit_path(name);
    struct buffer script = BUFFER_INIT;
    buffer_format(&script, "#!/bin/sh\n%s\n", text);
    assert_int_equal(file_write(path, buffer_string(&script), script.length, NULL), ATTUNE_OK);
    assert_int_equal(chmod(path, 0700), 0);
    setenv("ATTUNE_SIMULATOR", path, 1);
    buffer_free(&script);
}

const struct driver *kit_driver(const char *device)
{
    const struct driver *driver;
    int ordinal = -1;
    struct error error = {0};
    if (driver_parse_device(device, &driver, &ordinal, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(ordinal, 0);
    return driver;
}

struct buffer kit_object(const char *name)
{
    struct buffer bytes = BUFFER_INIT;
    char path[1024];
    struct error error = {0};
    snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/base/data/%s", name);
    if (file_read(path, 1 << 20, &bytes, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return bytes;
}

void kit_begin(struct kit_launch *launch, const struct driver *driver)
{
    struct error error = {0};
    struct buffer object = kit_object("hiprtc-gfx906-v4.hsaco");
    memset(launch, 0, sizeof *launch);
    launch->driver = driver;
    if (driver->load(driver, 0, object.data, object.length, "attention_forward", 0, &launch->module, &launch->function,
                     &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    for (int i = 0; i < 2; i++) {
        void *memory;
        assert_int_equal(driver->allocate(driver, 0, KIT_BYTES, &memory, &error), ATTUNE_OK);
        assert_int_equal(driver->fill(driver, 0, memory, (uint8_t)('a' + i), KIT_BYTES, &error), ATTUNE_OK);
        launch->buffers[i] = memory;
        kit_point(launch, i, memory);
    }
    buffer_free(&object);
}

void kit_point(struct kit_launch *launch, int index, const void *pointer)
{
    memcpy(launch->arguments + 8 * index, &pointer, sizeof pointer);
}

attune_status kit_run(struct kit_launch *launch, struct error *error)
{
    static const uint32_t offsets[] = {0, 8, 16};
    struct driver_launch run = {.function = launch->function,
                                .grid = {3, 2, 1},
                                .threads = KIT_THREADS,
                                .arguments = launch->arguments,
                                .argument_bytes = sizeof launch->arguments,
                                .pointer_offsets = offsets,
                                .pointer_count = 3};
    return launch->driver->launch(launch->driver, 0, &run, NULL, error);
}

void kit_end(struct kit_launch *launch)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(launch->driver->release(launch->driver, 0, launch->buffers[i], NULL), ATTUNE_OK);
    }
    launch->driver->unload(launch->driver, 0, launch->module, NULL);
}

void kit_says(const struct error *error, const char *part)
{
    if (strstr(error->message, part) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", error->message, part);
    }
}
