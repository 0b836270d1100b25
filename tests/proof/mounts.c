/* mounts.c - proof_mounts: full, read-only and noexec file systems, in a mount namespace of this program alone (B01,
 * B03, B04). Skipped by name where none may be made. */
#include "tests/proof/place.h"

#include "base/files.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static char at[PLACE_PATH], variable[PLACE_PATH + 32], other[PLACE_PATH + 32];

static void write_line(const char *path, const char *format, long a, long b)
{
    char text[64];
    int length = snprintf(text, sizeof text, format, a, b);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        (void)!write(file, text, (size_t)length);
        close(file);
    }
}

/* as root a mount namespace, else one of a user namespace in which we are root */
static bool enter_namespace(void)
{
    long user = geteuid(), group = getegid();
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
            return false;
        }
        write_line("/proc/self/setgroups", "deny", 0, 0);
        write_line("/proc/self/uid_map", "0 %ld 1", user, 0);
        write_line("/proc/self/gid_map", "0 %ld 1", group, 0);
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static void small_folder(const char *name, const char *size, unsigned long flags)
{
    char options[64];
    snprintf(at, sizeof at, "%s", place("%s", name));
    (void)mkdir(at, 0700);
    snprintf(options, sizeof options, "size=%s,mode=0700", size);
    assert_int_equal(mount("attune-test", at, "tmpfs", MS_NOSUID | MS_NODEV | flags, options), 0);
}

static void leave(void)
{
    assert_int_equal(umount2(at, MNT_DETACH), 0);
}

/* fills the file system, then gives so many KiB back */
static void fill(int free_kib)
{
    char block[1024] = {0};
    int file = open(place("small/filler"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    off_t size = 0;
    for (ssize_t put; (put = write(file, block, sizeof block)) > 0;) {
        size += put;
    }
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(ftruncate(file, size - (off_t)free_kib * 1024), 0);
    close(file);
}

static void verify_finds_nothing_bad(void)
{
    static const char *const argv[] = {ATTUNE_PROGRAM, "cache", "verify", NULL};
    const char *const changes[] = {variable, NULL};
    place_run(&(struct place_call){.argv = argv, .environment = changes});
    place_right(0, 0);
}

/* B03: 0, 1, 4, 8 and 16 KiB left: right, one warning, nothing cut; and stored when there is space again */
static void a_full_disk_costs_only_persistence(void **state)
{
    (void)state;
    static const int left[] = {0, 1, 4, 8, 16};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        small_folder("small", "64k", 0);
        snprintf(variable, sizeof variable, "ATTUNE_CACHE=%s", at);
        fill(left[i]);
        place_engine(0, variable, NULL);
        place_right(1, 1);
        place_says(at);
        place_says("ATTUNE_CACHE");
        verify_finds_nothing_bad();
        assert_int_equal(place_count(at, FILE_TEMPORARY_PREFIX), 0);
        unlink(place("small/filler"));
        place_engine(0, variable, NULL);
        place_right(0, 1);
        place_engine(0, variable, NULL);
        place_right(0, 0);
        verify_finds_nothing_bad();
        leave();
    }
}

/* A run whose result is lost with it says so; what it did keep is whole. */
static void a_tuning_run_on_a_full_disk_fails_and_leaves_nothing_half(void **state)
{
    (void)state;
    static const char *const argv[] = {ATTUNE_PROGRAM, "tune",        "--device", "host", "--count", "3",
                                       "--problem",    PLACE_PROBLEM, "--json",   NULL},
                             *const verify[] = {ATTUNE_PROGRAM, "cache", "verify", "--json", NULL};
    static const char *const sizes[] = {"8k", "16k", "24k", "32k", "1m"};
    if (!place_compiles()) {
        skip();
    }
    int failed = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        small_folder("small", sizes[i], 0);
        snprintf(variable, sizeof variable, "ATTUNE_CACHE=%s", at);
        const char *const changes[] = {variable, NULL};
        const struct place_result *result = place_run(&(struct place_call){.argv = argv, .environment = changes});
        bool kept = strstr(result->output.data, "\"kept\": true") != NULL;
        if (result->exit_code != (kept ? 0 : 1)) {
            fail_msg("%s: exit code %d: %s", sizes[i], result->exit_code, result->errors.data);
        }
        failed += !kept;
        place_run(&(struct place_call){.argv = verify, .environment = changes});
        place_right(-1, 0);
        assert_non_null(strstr(result->output.data, "\"missing_objects\": 0"));
        leave();
    }
    assert_in_range(failed, 1, sizeof sizes / sizeof sizes[0] - 1);
}

/* no inode left: EDQUOT's and ENOSPC's other form, in which folders cannot be made either */
static void a_disk_without_inodes_costs_only_persistence(void **state)
{
    (void)state;
    for (int inodes = 2; inodes < 12; inodes += 2) {
        char options[64];
        snprintf(at, sizeof at, "%s", place("small"));
        (void)mkdir(at, 0700);
        snprintf(options, sizeof options, "size=1m,mode=0700,nr_inodes=%d", inodes);
        assert_int_equal(mount("attune-test", at, "tmpfs", MS_NOSUID | MS_NODEV, options), 0);
        snprintf(variable, sizeof variable, "ATTUNE_CACHE=%s", at);
        const struct place_result *result = place_engine(0, variable, NULL);
        place_right(result->warnings > 1 ? 1 : result->warnings, 1);
        verify_finds_nothing_bad();
        assert_int_equal(place_count(at, FILE_TEMPORARY_PREFIX), 0);
        leave();
    }
}

/* B03: RLIMIT_FSIZE: the object still loads (the host device needs a file of its code for that), its file in the store,
 * with the header in front, does not fit; then nothing but the records does not fit; then all does */
static void a_file_limit_costs_only_persistence(void **state)
{
    (void)state;
    static const char *const argv[] = {PLACE_ENGINE, "--calls", "2", PLACE_PROBLEM, NULL};
    char hex[65];
    struct stat object;
    if (!place_compiles()) {
        skip();
    }
    snprintf(at, sizeof at, "%s", place_make("limited", 0700, 0));
    snprintf(variable, sizeof variable, "ATTUNE_CACHE=%s", at);
    place_engine(0, variable, NULL);
    place_right(0, 1);
    place_object(hex);
    assert_int_equal(stat(place("limited/objects/%.2s/%s", hex, hex), &object), 0);
    const uint64_t size = (uint64_t)object.st_size, limits[] = {size - 440, size - 200, size - 1, size, 1 << 20};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        int kept = limits[i] >= size;
        const char *const changes[] = {variable, NULL};
        place_make("limited", 0700, 0);
        place_run(&(struct place_call){.argv = argv, .environment = changes, .file_bytes = limits[i]});
        place_right(!kept, 1);
        if (!kept) {
            place_says(at);
        }
        assert_int_equal(place_count(at, FILE_TEMPORARY_PREFIX), 0);
        verify_finds_nothing_bad();
        place_engine(0, variable, NULL);
        place_right(0, !kept);
        place_engine(0, variable, NULL);
        place_right(0, 0);
        verify_finds_nothing_bad();
    }
}

/* B01: mounted read-only, empty and filled */
static void a_read_only_mount_is_read(void **state)
{
    (void)state;
    small_folder("readonly", "1m", 0);
    snprintf(variable, sizeof variable, "ATTUNE_CACHE=%s", at);
    for (int filled = 0; filled < 2; filled++) {
        assert_int_equal(mount(NULL, at, NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL), 0);
        place_engine(0, variable, NULL);
        place_right(filled ? 0 : 1, filled ? 0 : 1);
        if (!filled) {
            place_says(at);
            place_says("ATTUNE_CACHE");
        }
        assert_int_equal(mount(NULL, at, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, NULL), 0);
        place_engine(0, variable, NULL);
        place_right(0, filled ? 0 : 1);
    }
    leave();
}

/* ---- B04 ---- */

static int gpu_objects;

/* the host compiler through the engine, hiprtc (or clang) through the program; both must make right objects */
static void both_compilers_work(int warnings, const char *in_warning)
{
    static const char *const compile[] = {ATTUNE_PROGRAM,
                                          "compile",
                                          "--target",
                                          "gfx906",
                                          "-o",
                                          "/dev/null",
                                          "--problem",
                                          "dtype=f16 heads=1 seqlen_q=8 head_dim=16",
                                          NULL};
    snprintf(other, sizeof other, "ATTUNE_CACHE=%s", place_make("cache", 0700, 0));
    place_engine(0, variable, other, NULL);
    place_right(warnings, 1);
    place_says(in_warning);
    const char *const changes[] = {variable, other, NULL};
    const struct place_result *result = place_run(&(struct place_call){.argv = compile, .environment = changes});
    if (result->exit_code == 3) {
        print_message("skipped in part: no compiler for gfx906\n");
        return;
    }
    place_right(warnings, 0);
    place_says(in_warning);
    gpu_objects++;
}

static void every_unusable_temporary_folder_has_a_fallback(void **state)
{
    (void)state;
    if (!place_compiles()) {
        skip();
    }
    snprintf(variable, sizeof variable, "TMPDIR=/nonexistent");
    both_compilers_work(1, "TMPDIR");
    snprintf(variable, sizeof variable, "TMPDIR=relative");
    both_compilers_work(-1, "");
    snprintf(variable, sizeof variable, "TMPDIR=");
    both_compilers_work(0, "");
    assert_int_equal(file_write(place("no folder"), "x", 1, NULL), ATTUNE_OK);
    snprintf(variable, sizeof variable, "TMPDIR=%s", place("no folder"));
    both_compilers_work(1, "TMPDIR");
    small_folder("full", "8k", 0);
    snprintf(variable, sizeof variable, "TMPDIR=%s", at);
    both_compilers_work(1, "TMPDIR");
    assert_int_equal(place_walk(at, NULL, NULL), 0);
    leave();
    small_folder("noexec", "64m", MS_NOEXEC);
    snprintf(variable, sizeof variable, "TMPDIR=%s", at);
    both_compilers_work(0, "");
    assert_int_equal(place_walk(at, NULL, NULL), 0);
    leave();
    snprintf(variable, sizeof variable, "TMPDIR=%s", place_make("a b/", 0700, 0));
    both_compilers_work(0, "");
    snprintf(variable, sizeof variable, "TMPDIR=%s",
             place_make("\xc3\xbcn\xc3\xaf_\xe6\xb5\x8b qu'ote;$x\"\n", 0700, 0));
    both_compilers_work(0, "");
}

/* the folder goes away between two compiles of one process: the second one works, in another folder */
static void a_temporary_folder_removed_after_the_start_is_replaced(void **state)
{
    (void)state;
    if (!place_compiles()) {
        skip();
    }
    char script[3 * PLACE_PATH];
    const char *temporary = place_make("going", 0700, 0);
    snprintf(variable, sizeof variable, "TMPDIR=%s", temporary);
    snprintf(other, sizeof other, "ATTUNE_CACHE=%s", place_make("cache", 0700, 0));
    /* the compiler itself removes it after its first object: the worker's own folder is inside */
    snprintf(script, sizeof script,
             "#!/bin/sh\nfor word in \"$@\"; do case \"$word\" in --version|-print-*) exec c++ \"$@\";; esac; done\n"
             "if [ -e '%s/removed' ]; then exec c++ \"$@\"; fi\n"
             "c++ \"$@\"; code=$?; : >'%s/removed'; (sleep 0.3; rm -rf '%s') >/dev/null 2>&1 & exit $code\n",
             place_folder(), place_folder(), temporary);
    assert_int_equal(file_write(place("removing"), script, strlen(script), NULL), ATTUNE_OK);
    assert_int_equal(chmod(place("removing"), 0755), 0);
    char cxx[PLACE_PATH + 32];
    snprintf(cxx, sizeof cxx, "ATTUNE_CXX=%s", place("removing"));
    const char *const changes[] = {variable, other, cxx, NULL};
    static const char *const argv[] = {
        PLACE_ENGINE, "--pause", "1", "heads=1 seqlen_q=4 head_dim=16", "heads=1 seqlen_q=4 head_dim=32", NULL};
    place_run(&(struct place_call){.argv = argv, .environment = changes});
    place_right(-1, -1);
    assert_int_not_equal(access(temporary, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_costs_only_persistence),
        cmocka_unit_test(a_tuning_run_on_a_full_disk_fails_and_leaves_nothing_half),
        cmocka_unit_test(a_disk_without_inodes_costs_only_persistence),
        cmocka_unit_test(a_file_limit_costs_only_persistence),
        cmocka_unit_test(a_read_only_mount_is_read),
        cmocka_unit_test(every_unusable_temporary_folder_has_a_fallback),
        cmocka_unit_test(a_temporary_folder_removed_after_the_start_is_replaced),
    };
    if (!enter_namespace()) {
        printf("skipped: no mount namespace may be made here (unshare: %s)\n", strerror(errno));
        return 77;
    }
    return cmocka_run_group_tests_name("proof_mounts", tests, place_open, place_close);
}
