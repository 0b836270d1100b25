/* test_store_faults.c - the store when things go wrong: damaged entries, hostile folders, full and read-only disks. */
#include "damage.h"
#include "fixture.h"

#include "base/files.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char warning_text[65536];

static void get_first(void *store)
{
    assert_int_equal(fixture_get(store, 1), ATTUNE_NOT_FOUND);
    assert_int_equal(fixture_get(store, 1), ATTUNE_NOT_FOUND);
}

/* after `damage` the entry is set aside with one warning, is a miss, and can be published anew */
static void check_damage(const char *root, void (*damage)(const char *path, int step), int step)
{
    char path[4096];
    struct store *store = fixture_store(root);
    fixture_put(store, 1);
    int before = fixture_count(store, STORE_REJECTED);
    fixture_object_path(root, 1, path);
    damage(path, step);
    int warnings = fixture_warnings(get_first, store, warning_text, sizeof warning_text);
    assert_true(warnings <= 1);
    assert_int_equal(fixture_count(store, STORE_REJECTED), before + 1);
    assert_int_equal(access(path, F_OK), -1);
    fixture_put(store, 1);
    assert_int_equal(fixture_get(store, 1), ATTUNE_OK);
    store_close(store);
}

static void rewrite(const char *path, const char *bytes, size_t length)
{
    assert_int_equal(file_publish(path, bytes, length, NULL), ATTUNE_OK);
}

static void put_folder(const char *path, int step)
{
    (void)step;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void put_link(const char *path, int step)
{
    (void)step;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
}

static void put_text(const char *path, int step)
{
    (void)step;
    rewrite(path, "not an object\n", 14);
}

static void put_tail(const char *path, int step)
{
    (void)step;
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fputc('x', file);
    fclose(file);
}

static void every_damage_of_an_object_is_set_aside_and_repaired(void **state)
{
    for (int i = 0; i < 16; i++) {
        check_damage(*state, damage_cut, i);
    }
    for (int i = 1; i <= 200; i++) {
        check_damage(*state, damage_flip, i);
    }
    check_damage(*state, put_folder, 0);
    check_damage(*state, damage_fifo, 0);
    check_damage(*state, put_link, 0);
    check_damage(*state, put_text, 0);
    check_damage(*state, put_tail, 0);
    check_damage(*state, damage_open_to_others, 0);
}

static void a_good_object_under_a_wrong_name_is_refused(void **state)
{
    struct store *store = fixture_store(*state);
    char first[4096], second[4096];
    struct buffer bytes = BUFFER_INIT;
    struct store_verdict verdict;
    fixture_put(store, 1);
    fixture_put(store, 2);
    fixture_object_path(*state, 1, first);
    fixture_object_path(*state, 2, second);
    assert_int_equal(file_read(second, 1 << 20, &bytes, NULL), ATTUNE_OK);
    rewrite(first, bytes.data, bytes.length);
    assert_int_equal(store_verify(store, false, &verdict, NULL), ATTUNE_OK);
    assert_int_equal(verdict.bad, 1);
    int warnings = fixture_warnings(get_first, store, warning_text, sizeof warning_text);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning_text, "another object"));
    assert_int_equal(fixture_get(store, 2), ATTUNE_OK);
    buffer_free(&bytes);
    store_close(store);
}

static int records_of(struct store *store, struct record *like)
{
    struct record *records;
    char device[128];
    int count = -1;
    record_device_folder(like, device);
    assert_int_equal(store_records(store, device, like->specialisation, &records, &count, NULL), ATTUNE_OK);
    free(records);
    return count;
}

static void every_damage_of_a_record_is_set_aside(void **state)
{
    static void (*const damages[])(const char *, int) = {damage_cut, damage_flip, put_folder, damage_fifo,
                                                         put_link,   put_text,    put_tail,   damage_open_to_others};
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct store *store = fixture_store(*state);
        struct record record;
        char path[4096];
        fixture_record(1, 2048, RECORD_TUNED, &record);
        assert_int_equal(store_record_put(store, &record, NULL), ATTUNE_OK);
        fixture_only_record_path(store, *state, path);
        int before = fixture_count(store, STORE_REJECTED);
        damages[i](path, 3);
        assert_int_equal(records_of(store, &record), 0);
        assert_int_equal(fixture_count(store, STORE_REJECTED), before + 1);
        assert_int_equal(fixture_count(store, STORE_RECORD), 0);
        store_close(store);
    }
}

/* B27: a note of a blocked object blocks what it names and nothing else, whatever somebody does to the file */
static void every_damage_of_a_blocked_note_is_set_aside(void **state)
{
    static void (*const damages[])(const char *, int) = {damage_cut, put_folder, damage_fifo,          put_link,
                                                         put_text,   put_tail,   damage_open_to_others};
    struct blocked note = {.target = "gfx906", .candidate = "a/b c=1", .outcome = "hung", .reason = "\xff \"no\" end"};
    struct blocked found;
    struct object_header header;
    char path[4096], hex[DIGEST_HEX_BYTES];
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct store *store = fixture_store(*state);
        fixture_key(1, 0, &note.object, &header);
        digest_hex(&note.object, hex);
        snprintf(path, sizeof path, "%s/blocked/%.2s/%s.json", (const char *)*state, hex, hex);
        assert_int_equal(store_blocked_get(store, &note.object, &found, NULL), ATTUNE_NOT_FOUND);
        assert_int_equal(store_blocked_put(store, &note, NULL), ATTUNE_OK);
        assert_int_equal(store_blocked_get(store, &note.object, &found, NULL), ATTUNE_OK);
        assert_string_equal(found.outcome, "hung");
        assert_string_equal(found.reason, "? \"no\" end");
        assert_int_equal(fixture_count(store, STORE_BLOCKED), 1);
        int before = fixture_count(store, STORE_REJECTED);
        struct store_verdict verdict;
        assert_int_equal(store_verify(store, false, &verdict, NULL), ATTUNE_OK);
        assert_int_equal(verdict.blocked, 1);
        assert_int_equal(verdict.bad, 0);
        damages[i](path, 3);
        assert_int_equal(store_verify(store, false, &verdict, NULL), ATTUNE_OK);
        assert_int_equal(verdict.bad, damages[i] != put_folder); /* a folder is looked into, and is empty */
        assert_int_equal(store_blocked_get(store, &note.object, &found, NULL), ATTUNE_NOT_FOUND);
        assert_int_equal(fixture_count(store, STORE_REJECTED), before + 1);
        assert_int_equal(fixture_count(store, STORE_BLOCKED), 0);
        store_close(store);
    }
}

static void a_blocked_note_under_another_name_blocks_nothing(void **state)
{
    struct store *store = fixture_store(*state);
    struct blocked note = {.target = "gfx906", .candidate = "a/b c=1", .outcome = "hung", .reason = "why"}, found;
    struct object_header header;
    struct digest other;
    struct buffer bytes = BUFFER_INIT;
    char from[4096], folder[4096], to[8192], hex[DIGEST_HEX_BYTES];
    fixture_key(1, 0, &note.object, &header);
    fixture_key(2, 0, &other, &header);
    assert_int_equal(store_blocked_put(store, &note, NULL), ATTUNE_OK);
    digest_hex(&note.object, hex);
    snprintf(from, sizeof from, "%s/blocked/%.2s/%s.json", (const char *)*state, hex, hex);
    assert_int_equal(file_read(from, 1 << 20, &bytes, NULL), ATTUNE_OK);
    digest_hex(&other, hex);
    snprintf(folder, sizeof folder, "%s/blocked/%.2s", (const char *)*state, hex);
    snprintf(to, sizeof to, "%s/%s.json", folder, hex);
    (void)mkdir(folder, 0700);
    rewrite(to, bytes.data, bytes.length);
    assert_int_equal(store_blocked_get(store, &other, &found, NULL), ATTUNE_NOT_FOUND);
    assert_int_equal(store_blocked_get(store, &note.object, &found, NULL), ATTUNE_OK);
    store_blocked_remove(store, &note.object);
    assert_int_equal(store_blocked_get(store, &note.object, &found, NULL), ATTUNE_NOT_FOUND);
    buffer_free(&bytes);
    store_close(store);
}

static void verify_repairs_only_when_told(void **state)
{
    struct store *store = fixture_store(*state);
    struct store_verdict verdict;
    char path[4096];
    fixture_put(store, 1);
    fixture_object_path(*state, 1, path);
    damage_cut(path, 8);
    assert_int_equal(store_verify(store, false, &verdict, NULL), ATTUNE_OK);
    assert_int_equal(verdict.bad, 1);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(store_verify(store, true, &verdict, NULL), ATTUNE_OK);
    assert_int_equal(verdict.bad, 1);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(store_verify(store, true, &verdict, NULL), ATTUNE_OK);
    assert_int_equal(verdict.bad, 0);
    store_close(store);
}

/* ------------------------------------------------------------------------------------------------ places */

static const char *environment_path;

/* what store_open(NULL) chose */
static void check_place(const char *attune, const char *xdg, const char *home, const char *expected)
{
    const char *const names[] = {"ATTUNE_CACHE", "XDG_CACHE_HOME", "HOME"};
    const char *const values[] = {attune, xdg, home};
    for (int i = 0; i < 3; i++) {
        if (values[i] != NULL) {
            setenv(names[i], values[i], 1);
        } else {
            unsetenv(names[i]);
        }
    }
    struct store *store = fixture_store(NULL);
    if (strcmp(store_path(store), expected) != 0) {
        fail_msg("ATTUNE_CACHE=%s XDG_CACHE_HOME=%s HOME=%s: store \"%s\", expected \"%s\"",
                 attune ? attune : "(unset)", xdg ? xdg : "(unset)", home ? home : "(unset)", store_path(store),
                 expected);
    }
    fixture_put(store, 1); /* and it works */
    assert_int_equal(fixture_get(store, 1), ATTUNE_OK);
    store_close(store);
}

static void the_environment_chooses_the_place(void **state)
{
    char under_home[512], under_xdg[512], own[512], missing[512];
    char saved[512];
    environment_path = *state;
    snprintf(saved, sizeof saved, "%s", getenv("HOME") != NULL ? getenv("HOME") : "/nonexistent");
    snprintf(under_home, sizeof under_home, "%s/.cache/attune", environment_path);
    snprintf(under_xdg, sizeof under_xdg, "%s/attune", environment_path);
    snprintf(own, sizeof own, "%s/own", environment_path);
    snprintf(missing, sizeof missing, "%s/no-such-home", environment_path);
    check_place(own, environment_path, environment_path, own);
    check_place("", environment_path, environment_path, under_xdg);
    check_place(NULL, "", environment_path, under_home);
    check_place(NULL, "relative/cache", environment_path, under_home);
    check_place(NULL, NULL, environment_path, under_home);
    check_place(NULL, NULL, NULL, "");
    check_place(NULL, NULL, "", "");
    check_place(NULL, NULL, "/", "");
    check_place(NULL, "/", "//", "");
    check_place(NULL, NULL, "relative", "");
    check_place(NULL, NULL, missing, "");
    check_place("relative", environment_path, environment_path, "");
    check_place("/", environment_path, environment_path, "");
    assert_int_equal(access("relative", F_OK), -1);
    assert_int_equal(access("/.cache/attune", F_OK), -1);
    assert_int_equal(access("/attune", F_OK), -1);
    assert_int_equal(access(missing, F_OK), -1);
    setenv("HOME", saved, 1);
    unsetenv("ATTUNE_CACHE");
    unsetenv("XDG_CACHE_HOME");
}

static const char *place;

static void use_place(void *data)
{
    (void)data;
    for (int round = 0; round < 2; round++) {
        struct store *store = fixture_store(place);
        fixture_put(store, 1);
        assert_int_equal(fixture_get(store, 1), ATTUNE_OK); /* from memory: nothing need be compiled twice */
        fixture_put(store, 2);
        assert_int_equal(fixture_get(store, 2), ATTUNE_OK);
        store_close(store);
    }
}

static void expect_one_warning(const char *path)
{
    place = path;
    int warnings = fixture_warnings(use_place, NULL, warning_text, sizeof warning_text);
    if (warnings != 1 || strstr(warning_text, path) == NULL || strstr(warning_text, "ATTUNE_CACHE") == NULL) {
        fail_msg("%d warnings for %s: %s", warnings, path, warning_text);
    }
}

static void hostile_places_are_not_used(void **state)
{
    char path[512], target[512], victim[600];
    struct stat facts;
    snprintf(path, sizeof path, "%s/file", (char *)*state);
    rewrite(path, "x", 1);
    expect_one_warning(path);
    snprintf(path, sizeof path, "%s/file/below", (char *)*state);
    expect_one_warning(path);

    snprintf(path, sizeof path, "%s/open", (char *)*state);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0);
    expect_one_warning(path);
    snprintf(victim, sizeof victim, "%s/objects", path);
    assert_int_equal(stat(victim, &facts), -1); /* nothing was written there */

    snprintf(target, sizeof target, "%s/elsewhere", (char *)*state);
    assert_int_equal(mkdir(target, 0700), 0);
    snprintf(path, sizeof path, "%s/link", (char *)*state);
    assert_int_equal(symlink(target, path), 0);
    expect_one_warning(path);
    snprintf(victim, sizeof victim, "%s/objects", target);
    assert_int_equal(stat(victim, &facts), -1);

    /* a folder inside that is a link, as someone with access for a moment would plant it */
    snprintf(path, sizeof path, "%s/planted", (char *)*state);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(victim, sizeof victim, "%s/objects", path);
    assert_int_equal(symlink(target, victim), 0);
    expect_one_warning(path);
    assert_int_equal(rmdir(target), 0); /* still empty */
}

static void a_folder_that_turns_hostile_later_is_not_used(void **state)
{
    char path[512], away[512], objects[600];
    struct stat facts;
    snprintf(path, sizeof path, "%s/store", (char *)*state);
    snprintf(away, sizeof away, "%s/away", (char *)*state);
    snprintf(objects, sizeof objects, "%s/objects", away);
    struct store *store = fixture_store(path);
    fixture_put(store, 1);
    assert_int_equal(chmod(path, 0777), 0); /* others may have planted what lies there */
    assert_int_equal(fixture_get(store, 1), ATTUNE_NOT_FOUND);
    fixture_put(store, 2);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(fixture_count(store, STORE_OBJECT), 1);
    folder_remove(path);
    assert_int_equal(mkdir(away, 0700), 0);
    assert_int_equal(symlink(away, path), 0);
    fixture_put(store, 3);
    assert_int_equal(stat(objects, &facts), -1); /* nothing was written through the link */
    assert_int_equal(fixture_get(store, 2), ATTUNE_OK);
    assert_int_equal(fixture_get(store, 3), ATTUNE_OK);
    store_close(store);
}

/* runs in a child so that limits and users do not stay; 0 fine, 77 skip */
static int in_child(void (*call)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        call();
        fflush(NULL);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* asserts inside a child must not jump: exit with a reason instead */
#define child_expect(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static void read_only_as_another_user(void)
{
    if (geteuid() == 0) { /* root ignores modes */
        child_expect(chown(place, 65534, 65534) == 0);
        if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) {
            _exit(77);
        }
    }
    struct store *store = fixture_store(place);
    fixture_put(store, 1);
    store_close(store);
    char path[4096];
    fixture_object_path(place, 1, path);
    for (int i = 0; i < 3; i++) { /* from the inside out */
        *strrchr(path, '/') = '\0';
        child_expect(chmod(path, 0555) == 0);
    }
    store = fixture_store(place);
    child_expect(fixture_get(store, 1) == ATTUNE_OK); /* still read */
    fixture_put(store, 2);
    child_expect(fixture_get(store, 2) == ATTUNE_OK); /* kept in memory */
    store_close(store);
    store = fixture_store(place);
    child_expect(fixture_get(store, 2) == ATTUNE_NOT_FOUND);
    store_close(store);
    child_expect(chmod(place, 0700) == 0);
}

static void a_read_only_store_is_read_and_memory_takes_the_rest(void **state)
{
    char path[512];
    snprintf(path, sizeof path, "%s/readonly", (char *)*state);
    assert_int_equal(mkdir(path, 0700), 0);
    if (geteuid() == 0) { /* the other user must get there */
        assert_int_equal(chmod(*state, 0755), 0);
    }
    place = path;
    int code = in_child(read_only_as_another_user);
    if (code == 77) {
        print_message("skipped: cannot become another user\n");
        skip();
    }
    assert_int_equal(code, 0);
}

static void others_folder_as_another_user(void)
{
    if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) {
        _exit(77);
    }
    struct store *store = fixture_store(place);
    child_expect(strcmp(store_path(store), "") == 0);
    child_expect(fixture_get(store, 1) == ATTUNE_NOT_FOUND); /* planted code is not loaded */
    store_close(store);
}

static void a_store_of_another_user_is_not_used(void **state)
{
    char path[512];
    if (geteuid() != 0) {
        print_message("skipped: only root can make a folder of another user\n");
        skip();
    }
    snprintf(path, sizeof path, "%s/theirs", (char *)*state);
    struct store *store = fixture_store(path);
    fixture_put(store, 1);
    store_close(store);
    assert_int_equal(chmod(*state, 0755), 0);
    assert_int_equal(chmod(path, 0755), 0);
    place = path;
    int code = in_child(others_folder_as_another_user);
    if (code == 77) {
        print_message("skipped: cannot become another user\n");
        skip();
    }
    assert_int_equal(code, 0);
}

static void with_a_file_limit(void)
{
    struct rlimit limit = {1000, RLIM_INFINITY};
    child_expect(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    struct store *store = fixture_store(place);
    fixture_put(store, 1); /* larger than the limit */
    child_expect(fixture_get(store, 1) == ATTUNE_OK);
    limit.rlim_cur = RLIM_INFINITY;
    child_expect(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    child_expect(fixture_count(store, STORE_OBJECT) == 0 && fixture_count(store, STORE_TEMPORARY) == 0);
    fixture_put(store, 2); /* works again without opening anew */
    child_expect(fixture_count(store, STORE_OBJECT) == 1);
    store_close(store);
}

static void a_file_limit_leaves_nothing_half_written(void **state)
{
    place = *state;
    assert_int_equal(in_child(with_a_file_limit), 0);
}

static void with_a_full_disk(void)
{
    /* a mount of this process alone, gone with it */
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("attune-test", place, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0700") != 0) {
        _exit(77);
    }
    char filler[600], block[4096] = {0};
    snprintf(filler, sizeof filler, "%s/filler", place);
    FILE *file = fopen(filler, "w");
    child_expect(file != NULL);
    setvbuf(file, NULL, _IONBF, 0);
    while (fwrite(block, 1, sizeof block, file) == sizeof block) {
    }
    fclose(file);
    struct store *store = fixture_store(place);
    fixture_put(store, 1);
    child_expect(fixture_get(store, 1) == ATTUNE_OK && store_is_volatile(store));
    struct store_verdict verdict;
    child_expect(store_verify(store, false, &verdict, NULL) == ATTUNE_OK && verdict.bad == 0);
    child_expect(unlink(filler) == 0);
    store_close(store);
    store = fixture_store(place);
    child_expect(!store_is_volatile(store));
    fixture_put(store, 2);
    child_expect(fixture_count(store, STORE_OBJECT) == 1 && fixture_count(store, STORE_TEMPORARY) == 0);
    child_expect(!store_is_volatile(store));
    store_close(store);
}

static void a_full_disk_costs_only_persistence(void **state)
{
    place = *state;
    int code = in_child(with_a_full_disk);
    if (code == 77) {
        print_message("skipped: a tmpfs cannot be mounted here\n");
        skip();
    }
    assert_int_equal(code, 0);
}

/* room for records, none for the object */
static void with_a_disk_too_small_for_the_object(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("attune-test", place, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0700") != 0) {
        _exit(77);
    }
    static const char bytes[100 << 10] = "no code";
    struct store *store = fixture_store(place);
    struct record record, kept, *found;
    struct digest object;
    struct object_header header;
    struct store_verdict verdict;
    char device[128];
    int count = 0;
    bool first = true;
    fixture_key(7, 1, &object, &header);
    fixture_record(7, 64, RECORD_TUNED, &record);
    child_expect(store_object_put(store, &object, &header, bytes, sizeof bytes, NULL) == ATTUNE_OK);
    child_expect(store_record_put(store, &record, NULL) == ATTUNE_OK);
    child_expect(store_is_volatile(store) && !store_record_is_kept(store, &record));
    child_expect(store_record_put_first(store, &record, &kept, &first, NULL) == ATTUNE_IO && !first);
    child_expect(fixture_count(store, STORE_RECORD) == 0);
    record_device_folder(&record, device);
    child_expect(store_records(store, device, record.specialisation, &found, &count, NULL) == ATTUNE_OK && count == 1);
    free(found);
    /* a record of an object that is there is kept; and both are once there is room */
    fixture_put(store, 2);
    struct record other;
    fixture_record(2, 64, RECORD_TUNED, &other);
    child_expect(store_record_put(store, &other, NULL) == ATTUNE_OK && store_record_is_kept(store, &other));
    child_expect(mount(NULL, place, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, "size=1m") == 0);
    child_expect(store_record_put(store, &record, NULL) == ATTUNE_OK && store_record_is_kept(store, &record));
    child_expect(store_verify(store, false, &verdict, NULL) == ATTUNE_OK);
    child_expect(verdict.objects == 2 && verdict.records == 2 && verdict.bad == 0 && verdict.missing_objects == 0);
    store_close(store);
}

static void no_record_names_an_object_that_the_disk_did_not_take(void **state)
{
    place = *state;
    int code = in_child(with_a_disk_too_small_for_the_object);
    if (code == 77) {
        print_message("skipped: a tmpfs cannot be mounted here\n");
        skip();
    }
    assert_int_equal(code, 0);
}

static void a_folder_deleted_between_two_calls_is_made_again(void **state)
{
    char path[512];
    snprintf(path, sizeof path, "%s/store", (char *)*state);
    struct store *store = fixture_store(path);
    fixture_put(store, 1);
    folder_remove(path);
    assert_int_equal(fixture_get(store, 1), ATTUNE_NOT_FOUND);
    fixture_put(store, 1);
    assert_int_equal(fixture_get(store, 1), ATTUNE_OK);
    assert_int_equal(fixture_count(store, STORE_OBJECT), 1);
    store_close(store);
}

static void malformed_headers_are_not_published(void **state)
{
    struct store *store = fixture_store(*state);
    struct digest object;
    struct object_header header;
    struct error error = {0};
    fixture_key(1, 1, &object, &header);
    strcpy(header.target, "gfx906:bogus");
    assert_int_equal(store_object_put(store, &object, &header, "x", 1, &error), ATTUNE_INVALID);
    fixture_key(1, 1, &object, &header);
    header.kernel[0] = '\0';
    assert_int_equal(store_object_put(store, &object, &header, "x", 1, &error), ATTUNE_INVALID);
    fixture_key(1, 1, &object, &header);
    header.compiler[3] = '\n';
    assert_int_equal(store_object_put(store, &object, &header, "x", 1, &error), ATTUNE_INVALID);
    fixture_key(1, 1, &object, &header);
    assert_int_equal(store_object_put(store, &object, &header, "", 0, &error), ATTUNE_INVALID);
    assert_int_equal(fixture_count(store, STORE_OBJECT), 0);
    assert_int_equal(store_journal_path(store, "../../etc", warning_text, sizeof warning_text, &error), ATTUNE_INVALID);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(every_damage_of_an_object_is_set_aside_and_repaired),
        WITH_FOLDER(a_good_object_under_a_wrong_name_is_refused),
        WITH_FOLDER(every_damage_of_a_record_is_set_aside),
        WITH_FOLDER(every_damage_of_a_blocked_note_is_set_aside),
        WITH_FOLDER(a_blocked_note_under_another_name_blocks_nothing),
        WITH_FOLDER(verify_repairs_only_when_told),
        WITH_FOLDER(the_environment_chooses_the_place),
        WITH_FOLDER(hostile_places_are_not_used),
        WITH_FOLDER(a_folder_that_turns_hostile_later_is_not_used),
        WITH_FOLDER(a_read_only_store_is_read_and_memory_takes_the_rest),
        WITH_FOLDER(a_store_of_another_user_is_not_used),
        WITH_FOLDER(a_file_limit_leaves_nothing_half_written),
        WITH_FOLDER(a_full_disk_costs_only_persistence),
        WITH_FOLDER(no_record_names_an_object_that_the_disk_did_not_take),
        WITH_FOLDER(a_folder_deleted_between_two_calls_is_made_again),
        WITH_FOLDER(malformed_headers_are_not_published),
    };
    return cmocka_run_group_tests_name("store_faults", tests, NULL, NULL);
}
