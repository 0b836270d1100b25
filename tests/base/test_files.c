/* test_files.c - files read and published against what stands in the way: FIFOs, links, other owners, full disks, odd
 * names. */
#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[256]; /* a fresh one for each test */

static int make_folder(void **state)
{
    (void)state;
    return folder_temporary(folder, sizeof folder, NULL) != ATTUNE_OK;
}

static int remove_folder(void **state)
{
    (void)state;
    folder_remove(folder);
    return access(folder, F_OK) == 0;
}

static const char *in_folder(const char *name)
{
    static char paths[4][512];
    static int turn;
    turn = (turn + 1) % 4;
    assert_int_equal(path_join(paths[turn], sizeof paths[turn], folder, name, NULL), ATTUNE_OK);
    return paths[turn];
}

static int entries(const char *path)
{
    int count = -2; /* . and .. */
    DIR *stream = opendir(path);
    assert_non_null(stream);
    while (readdir(stream)) {
        count++;
    }
    closedir(stream);
    return count;
}

static void published_bytes_are_read_back(void **state)
{
    (void)state;
    static const char *const names[] = {"plain", "with blank", "qu'o\"te;$x", "\xc3\xbcn\xc3\xaf_\xe6\xb5\x8b",
                                        "-dash"};
    char bytes[100000];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(i * 7);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct buffer read = BUFFER_INIT;
        struct stat facts;
        assert_int_equal(file_publish(in_folder(names[i]), "old", 3, NULL), ATTUNE_OK);
        assert_int_equal(file_publish(in_folder(names[i]), bytes, sizeof bytes, NULL), ATTUNE_OK);
        buffer_text(&read, "kept:");
        assert_int_equal(file_read(in_folder(names[i]), sizeof bytes, &read, NULL), ATTUNE_OK);
        assert_int_equal(read.length, sizeof bytes + 5);
        assert_memory_equal(read.data + 5, bytes, sizeof bytes);
        assert_int_equal(stat(in_folder(names[i]), &facts), 0);
        assert_int_equal(facts.st_mode & 07777, 0600);
        buffer_free(&read);
    }
    assert_int_equal(entries(folder), sizeof names / sizeof names[0]); /* no temporaries */
}

static void reading_refuses_what_is_no_file_or_too_large(void **state)
{
    (void)state;
    struct buffer read = BUFFER_INIT;
    struct error error = {0};
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    assert_int_equal(file_read(in_folder("fifo"), 100, &read, &error), ATTUNE_INVALID); /* and does not hang */
    assert_non_null(strstr(error.message, "fifo"));
    assert_int_equal(file_read(folder, 100, &read, &error), ATTUNE_INVALID);
    assert_int_equal(file_read("/dev/zero", 100, &read, &error), ATTUNE_INVALID);
    assert_int_equal(file_read(in_folder("absent"), 100, &read, &error), ATTUNE_NOT_FOUND);
    assert_int_equal(error.status, ATTUNE_NOT_FOUND);
    assert_int_equal(file_read(in_folder("fifo/below"), 100, &read, &error), ATTUNE_NOT_FOUND);
    assert_int_equal(file_write(in_folder("long"), "12345", 5, &error), ATTUNE_OK);
    assert_int_equal(file_read(in_folder("long"), 4, &read, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "limit of 4 bytes"));
    buffer_clear(&read);
    assert_int_equal(file_read(in_folder("long"), 5, &read, &error), ATTUNE_OK);
    assert_string_equal(buffer_string(&read), "12345");
    buffer_clear(&read);
    assert_int_equal(file_write(in_folder("empty"), "", 0, &error), ATTUNE_OK);
    assert_int_equal(file_read(in_folder("empty"), 0, &read, &error), ATTUNE_OK);
    assert_int_equal(read.length, 0);
    buffer_free(&read);
}

static void failed_publication_leaves_all_as_it_was(void **state)
{
    (void)state;
    static char large[65536];
    struct error error = {0};
    struct buffer read = BUFFER_INIT;
    struct rlimit before, small;
    assert_int_equal(file_publish(in_folder("target"), "old", 3, &error), ATTUNE_OK);
    assert_int_equal(mkdir(in_folder("taken"), 0700), 0);
    assert_int_equal(file_publish(in_folder("taken"), "new", 3, &error), ATTUNE_IO); /* a folder is in the way */
    assert_int_equal(file_publish(in_folder("absent/target"), "new", 3, &error), ATTUNE_NOT_FOUND);
    assert_int_equal(file_publish(in_folder("target/below"), "new", 3, &error), ATTUNE_NOT_FOUND);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0); /* its signal would end us if it came through */
    small = before;
    small.rlim_cur = 4096; /* stands for a full disk */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    attune_status published = file_publish(in_folder("target"), large, sizeof large, &error);
    attune_status written = file_write(in_folder("output"), large, sizeof large, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(published, ATTUNE_IO);
    assert_int_equal(written, ATTUNE_IO);
    assert_non_null(strstr(error.message, "output"));
    assert_int_equal(access(in_folder("output"), F_OK), -1);
    assert_int_equal(file_read(in_folder("target"), 100, &read, &error), ATTUNE_OK);
    assert_string_equal(buffer_string(&read), "old");
    assert_int_equal(entries(folder), 2);
    assert_int_equal(file_write("/dev/full", "x", 1, &error), ATTUNE_IO);
    assert_int_equal(access("/dev/full", F_OK), 0);
    buffer_free(&read);
}

/* opening a FIFO for writing waits for a reader, which may never come */
static void a_fifo_without_reader_is_refused(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    assert_int_equal(file_write(in_folder("fifo"), "x", 1, &error), ATTUNE_IO);
    assert_non_null(strstr(error.message, "nobody reads"));
    int reader = open(in_folder("fifo"), O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(file_write(in_folder("fifo"), "x", 1, &error), ATTUNE_OK);
    close(reader);
}

static void outputs_are_checked_without_touching_them(void **state)
{
    (void)state;
    struct error error = {0};
    char text[8];
    assert_int_equal(file_check_output(in_folder("new"), &error), ATTUNE_OK);
    assert_int_not_equal(access(in_folder("new"), F_OK), 0);
    assert_int_equal(file_write(in_folder("old"), "kept", 4, NULL), ATTUNE_OK);
    assert_int_equal(file_check_output(in_folder("old"), &error), ATTUNE_OK);
    struct buffer bytes = BUFFER_INIT;
    assert_int_equal(file_read(in_folder("old"), sizeof text, &bytes, &error), ATTUNE_OK);
    assert_int_equal(bytes.length, 4);
    buffer_free(&bytes);
    assert_int_equal(file_check_output("/dev/null", &error), ATTUNE_OK);
    assert_int_equal(file_check_output("", &error), ATTUNE_INVALID);
    assert_int_equal(file_check_output(in_folder(""), &error), ATTUNE_INVALID);
    assert_int_equal(file_check_output(in_folder("old/x"), &error), ATTUNE_NOT_FOUND);
    assert_int_equal(file_check_output(in_folder("none/x"), &error), ATTUNE_NOT_FOUND);
    assert_int_equal(symlink("loop", in_folder("loop")), 0);
    assert_int_not_equal(file_check_output(in_folder("loop"), &error), ATTUNE_OK);
}

static void a_text_has_no_nul_and_no_byte_order_mark(void **state)
{
    (void)state;
    struct error error = {0};
    struct buffer text = BUFFER_INIT;
    assert_int_equal(file_write(in_folder("text"), "one\ntwo\n", 8, NULL), ATTUNE_OK);
    assert_int_equal(file_read_text(in_folder("text"), 100, &text, &error), ATTUNE_OK);
    assert_string_equal(buffer_string(&text), "one\ntwo\n");
    assert_int_equal(file_write(in_folder("text"), "one\nt\0o\n", 8, NULL), ATTUNE_OK);
    assert_int_equal(file_read_text(in_folder("text"), 100, &text, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "line 2"));
    assert_int_equal(file_write(in_folder("text"), "\xef\xbb\xbfone", 6, NULL), ATTUNE_OK);
    buffer_clear(&text);
    assert_int_equal(file_read_text(in_folder("text"), 100, &text, &error), ATTUNE_INVALID);
    buffer_free(&text);
}

static void publication_replaces_a_link_and_not_what_it_points_to(void **state)
{
    (void)state;
    struct buffer read = BUFFER_INIT;
    assert_int_equal(file_write(in_folder("victim"), "precious", 8, NULL), ATTUNE_OK);
    assert_int_equal(symlink(in_folder("victim"), in_folder("entry")), 0);
    assert_int_equal(file_publish(in_folder("entry"), "ours", 4, NULL), ATTUNE_OK);
    assert_int_equal(file_read(in_folder("victim"), 100, &read, NULL), ATTUNE_OK);
    assert_string_equal(buffer_string(&read), "precious");
    buffer_free(&read);
}

static void *publish_many(void *data)
{
    char bytes[20000], path[512];
    snprintf(path, sizeof path, "%s/shared", folder);
    memset(bytes, (int)(uintptr_t)data, sizeof bytes);
    for (int i = 0; i < 20; i++) {
        if (file_publish(path, bytes, sizeof bytes, NULL) != ATTUNE_OK) {
            return (void *)(uintptr_t)1;
        }
    }
    return NULL;
}

static void readers_see_whole_files_while_many_publish(void **state)
{
    (void)state;
    pthread_t threads[4];
    assert_int_equal(file_publish(in_folder("shared"), "", 0, NULL), ATTUNE_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, publish_many, (void *)(uintptr_t)('a' + i)), 0);
    }
    char path[512];
    assert_int_equal(path_join(path, sizeof path, folder, "shared", NULL), ATTUNE_OK);
    for (int i = 0; i < 200; i++) {
        struct buffer read = BUFFER_INIT;
        assert_int_equal(file_read(path, 20000, &read, NULL), ATTUNE_OK);
        assert_true(read.length == 0 || read.length == 20000);
        for (size_t at = 1; at < read.length; at++) {
            assert_int_equal(read.data[at], read.data[0]);
        }
        buffer_free(&read);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(entries(folder), 1);
}

static void folders_are_made_private_with_their_parents(void **state)
{
    (void)state;
    struct stat facts;
    struct error error = {0};
    umask(0);
    assert_int_equal(folder_make(in_folder("a//b/c/"), &error), ATTUNE_OK);
    umask(022);
    assert_int_equal(stat(in_folder("a/b"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    assert_int_equal(folder_make(in_folder("a/b/c"), &error), ATTUNE_OK);
    assert_int_equal(file_write(in_folder("file"), "", 0, NULL), ATTUNE_OK);
    assert_int_equal(folder_make(in_folder("file/x"), &error), ATTUNE_IO);
    assert_non_null(strstr(error.message, "file"));
    assert_int_equal(folder_make("", &error), ATTUNE_INVALID);
    assert_int_equal(folder_make("/", &error), ATTUNE_OK);
}

static void only_private_folders_are_trusted(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(folder_check_private(folder, &error), ATTUNE_OK);
    assert_int_equal(mkdir(in_folder("open"), 0700), 0);
    chmod(in_folder("open"), 0777);
    assert_int_equal(folder_check_private(in_folder("open"), &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "chmod go-w"));
    chmod(in_folder("open"), 0770);
    assert_int_equal(folder_check_private(in_folder("open"), &error), ATTUNE_INVALID);
    chmod(in_folder("open"), 0755);
    assert_int_equal(folder_check_private(in_folder("open"), &error), ATTUNE_OK);
    assert_int_equal(symlink(in_folder("open"), in_folder("link")), 0);
    assert_int_equal(folder_check_private(in_folder("link"), &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "symbolic link"));
    assert_int_equal(folder_check_private(in_folder("absent"), &error), ATTUNE_NOT_FOUND);
    if (geteuid() == 0) {
        assert_int_equal(chown(in_folder("open"), 12345, 12345), 0);
        assert_int_equal(folder_check_private(in_folder("open"), &error), ATTUNE_INVALID);
        assert_non_null(strstr(error.message, "12345"));
    } else {
        assert_int_equal(folder_check_private("/", &error), ATTUNE_INVALID);
    }
}

static void removal_does_not_follow_links(void **state)
{
    (void)state;
    assert_int_equal(folder_make(in_folder("keep"), NULL), ATTUNE_OK);
    assert_int_equal(file_write(in_folder("keep/file"), "x", 1, NULL), ATTUNE_OK);
    assert_int_equal(folder_make(in_folder("drop/deep/deeper"), NULL), ATTUNE_OK);
    assert_int_equal(file_write(in_folder("drop/deep/file"), "x", 1, NULL), ATTUNE_OK);
    assert_int_equal(symlink(in_folder("keep"), in_folder("drop/link")), 0);
    folder_remove(in_folder("drop"));
    assert_int_equal(access(in_folder("drop"), F_OK), -1);
    assert_int_equal(access(in_folder("keep/file"), F_OK), 0);
    assert_int_equal(symlink(in_folder("keep"), in_folder("link")), 0);
    folder_remove(in_folder("link"));
    assert_int_equal(access(in_folder("keep/file"), F_OK), 0);
}

static void temporary_folder_falls_back_and_names_tmpdir(void **state)
{
    (void)state;
    char path[256];
    struct stat facts;
    struct error error = {0};
    setenv("TMPDIR", folder, 1);
    assert_int_equal(folder_temporary(path, sizeof path, &error), ATTUNE_OK);
    assert_int_equal(strncmp(path, folder, strlen(folder)), 0);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    setenv("TMPDIR", "/nonexistent", 1);
    assert_int_equal(folder_temporary(path, sizeof path, &error), ATTUNE_OK);
    assert_int_not_equal(strncmp(path, "/nonexistent", 12), 0);
    folder_remove(path);
    assert_int_equal(folder_temporary(path, 5, &error), ATTUNE_IO);
    assert_non_null(strstr(error.message, "TMPDIR"));
    unsetenv("TMPDIR");
}

static void joined_paths_have_one_slash_and_fit(void **state)
{
    (void)state;
    char path[8];
    struct error error = {0};
    assert_int_equal(path_join(path, sizeof path, "ab", "cd", &error), ATTUNE_OK);
    assert_string_equal(path, "ab/cd");
    assert_int_equal(path_join(path, sizeof path, "ab/", "cd", &error), ATTUNE_OK);
    assert_string_equal(path, "ab/cd");
    assert_int_equal(path_join(path, sizeof path, "abcd", "efg", &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "abcd/efg"));
}

static void own_folder_holds_the_library(void **state)
{
    (void)state;
    char path[1024], short_path[3];
    struct error error = {0};
    assert_int_equal(path_self(path, sizeof path, &error), ATTUNE_OK);
    assert_string_equal(path, TEST_BINARY_DIR);
    assert_int_equal(path_self(short_path, sizeof short_path, &error), ATTUNE_INVALID);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(published_bytes_are_read_back),
        WITH_FOLDER(reading_refuses_what_is_no_file_or_too_large),
        WITH_FOLDER(failed_publication_leaves_all_as_it_was),
        WITH_FOLDER(publication_replaces_a_link_and_not_what_it_points_to),
        WITH_FOLDER(readers_see_whole_files_while_many_publish),
        WITH_FOLDER(folders_are_made_private_with_their_parents),
        WITH_FOLDER(only_private_folders_are_trusted),
        WITH_FOLDER(removal_does_not_follow_links),
        WITH_FOLDER(temporary_folder_falls_back_and_names_tmpdir),
        WITH_FOLDER(a_fifo_without_reader_is_refused),
        WITH_FOLDER(outputs_are_checked_without_touching_them),
        WITH_FOLDER(a_text_has_no_nul_and_no_byte_order_mark),
        cmocka_unit_test(joined_paths_have_one_slash_and_fit),
        cmocka_unit_test(own_folder_holds_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
