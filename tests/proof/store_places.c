/* store_places.c - folders that cannot be written, are not there, or are somebody else's: the numbers stay right, one
 * warning says what to change, nothing is compiled twice in a process, and nothing is left where it does not belong. */
#include "tests/proof/place.h"
#include "tests/proof/store.h"

#include "base/files.h"
#include "base/process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *cache_at(const char *path)
{
    static char texts[4][PLACE_PATH + 32];
    static int next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "ATTUNE_CACHE=%s", path);
    return text;
}

static uid_t somebody(void) /* root ignores modes */
{
    return geteuid() == 0 ? PLACE_NOBODY : 0;
}

static void put_file(const char *path, const char *text)
{
    assert_int_equal(file_write(path, text, strlen(text), NULL), ATTUNE_OK);
}

static void same_file(const char *path, const char *text)
{
    struct buffer bytes = BUFFER_INIT;
    assert_int_equal(file_read(path, 1 << 16, &bytes, NULL), ATTUNE_OK);
    assert_string_equal(buffer_string(&bytes), text);
    buffer_free(&bytes);
}

/* The program, which tunes to keep what it finds, says path and variable and that the result is lost; an engine gets
 * its plan all the same. */
static void program_says(uid_t user, const char *cache, const char *path)
{
    static const char *const argv[] = {
        ATTUNE_PROGRAM, "tune", "--device", "host", "--count", "1", "--problem", "dtype=f32 " PLACE_PROBLEM, NULL};
    const char *const changes[] = {cache, NULL};
    const struct place_call call = {.argv = argv, .environment = changes, .user = user};
    const struct place_result *result = place_run(&call);
    assert_int_equal(result->exit_code, 1);
    assert_int_equal(result->warnings, 1);
    place_says(path);
    place_says("ATTUNE_CACHE");
    place_says("lost with this process");
}

/* B01: 0555 folders, there and to be made, and paths through a file. (Read-only mounts: proof_mounts.) */
void an_unwritable_store_costs_only_persistence(void **state)
{
    (void)state;
    if ((geteuid() == 0 && !place_is_root()) || !place_compiles()) {
        skip();
    }
    uid_t user = somebody();
    const char *paths[4];
    paths[0] = place_make("readonly", 0555, user);
    paths[1] = place("readonly/below/it");
    put_file(place("file"), "a file");
    chmod(place("file"), 0644);
    paths[2] = place("file");
    paths[3] = place("file/below");
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char path[PLACE_PATH];
        snprintf(path, sizeof path, "%s", paths[i]);
        place_engine(user, cache_at(path), NULL); /* two calls */
        place_right(1, 1);
        place_says(path);
        place_says("ATTUNE_CACHE");
        program_says(user, cache_at(path), path);
    }
    assert_int_equal(place_walk(place("readonly"), NULL, NULL), 0);
    same_file(place("file"), "a file");
}

static int entries(const char *path)
{
    int count = 0;
    DIR *stream = opendir(path);
    assert_non_null(stream);
    while (readdir(stream) != NULL) {
        count++;
    }
    closedir(stream);
    return count;
}

/* B02: each odd HOME and XDG_CACHE_HOME, also of a user that no passwd file knows */
void every_odd_home_leaves_nothing_behind(void **state)
{
    (void)state;
    if ((geteuid() == 0 && !place_is_root()) || !place_compiles()) {
        skip();
    }
    static const struct {
        const char *home, *xdg;
        bool kept; /* below the folder `home` */
    } cases[] = {
        {"HOME", "XDG_CACHE_HOME", false},          {"HOME=/", "XDG_CACHE_HOME", false},
        {"HOME=//", "XDG_CACHE_HOME=/", false},     {"HOME=", "XDG_CACHE_HOME=", false},
        {"HOME=relative", "XDG_CACHE_HOME", false}, {"HOME=~", "XDG_CACHE_HOME", false},
        {"HOME=.", "XDG_CACHE_HOME=..", false},     {"HOME=/nonexistent/home", "XDG_CACHE_HOME", false},
        {NULL, "XDG_CACHE_HOME=relative", true},    {NULL, "XDG_CACHE_HOME=", true},
        {NULL, "XDG_CACHE_HOME=~/.cache", true},
    };
    uid_t users[2] = {0, PLACE_WITHOUT_NAME};
    for (int u = 0; u < (geteuid() == 0 ? 2 : 1); u++) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            char home[PLACE_PATH + 16], folder[PLACE_PATH];
            snprintf(folder, sizeof folder, "%s", place_make("home", 0700, users[u]));
            snprintf(home, sizeof home, "HOME=%s", folder);
            const char *work = place_make("work", 0700, users[u]);
            int at_root = entries("/");
            static const char *const argv[] = {PLACE_ENGINE, "--calls", "2", PLACE_PROBLEM, NULL};
            const char *const changes[] = {cases[i].home != NULL ? cases[i].home : home, cases[i].xdg, NULL};
            const struct place_call call = {.argv = argv, .environment = changes, .user = users[u], .directory = work};
            place_run(&call);
            place_right(cases[i].kept ? 0 : 1, 1);
            if (!cases[i].kept) {
                place_says("ATTUNE_CACHE");
            }
            assert_int_equal(entries("/"), at_root);
            assert_int_equal(entries(work), 2);
            assert_true((place_walk(folder, NULL, NULL) > 0) == cases[i].kept);
            assert_int_equal(place_count(folder, "/.cache/attune/") > 0 || place_count(folder, ".cache/attune/") > 0,
                             cases[i].kept);
        }
    }
}

/* B35: made beforehand by another user, open to all, a link, below a link of another user */
void a_store_that_others_made_is_not_used(void **state)
{
    (void)state;
    if (!place_is_root() || !place_compiles()) {
        skip();
    }
    static const mode_t modes[] = {0700, 0755, 0777, 01777, 0775};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        for (int owner = 0; owner < 2; owner++) { /* theirs, then our own but open */
            if (owner == 1 && (modes[i] & 022) == 0) {
                continue;
            }
            const char *path = place_make("theirs", modes[i], owner == 0 ? PLACE_OTHER : PLACE_NOBODY);
            place_engine(PLACE_NOBODY, cache_at(path), NULL);
            place_right(1, 1);
            place_says("theirs");
            place_says("ATTUNE_CACHE");
            assert_int_equal(place_walk(place("theirs"), NULL, NULL), 0);
        }
    }
}

/* a store of somebody else with right names and right digests, whose code would be run by whoever believes it */
void planted_code_is_not_loaded(void **state)
{
    (void)state;
    if (!place_is_root() || !place_compiles()) {
        skip();
    }
    char hex[65], store[PLACE_PATH], object[PLACE_PATH + 128];
    snprintf(store, sizeof store, "%s", place_make("planted", 0755, PLACE_OTHER));
    place_engine(PLACE_OTHER, cache_at(store), NULL);
    place_right(0, 1);
    place_object(hex);
    /* theirs as a whole: readable, of the right name, and yet compiled anew */
    static const char *const opened[] = {"chmod -R a+rX \"$0\"", "chmod -R a+rwX \"$0\""};
    for (size_t i = 0; i < sizeof opened / sizeof opened[0]; i++) {
        const char *const argv[] = {"sh", "-c", opened[i], store, NULL};
        place_run(&(struct place_call){.argv = argv});
        place_right(0, 0);
        place_engine(PLACE_NOBODY, cache_at(store), NULL);
        place_right(1, 1);
    }
    /* our own store with one file of theirs in it: folder ours, file not */
    char ours[PLACE_PATH];
    snprintf(ours, sizeof ours, "%s", place_make("ours", 0700, PLACE_NOBODY));
    place_engine(PLACE_NOBODY, cache_at(ours), NULL);
    place_right(0, 1);
    snprintf(object, sizeof object, "%s/objects/%.2s/%s", ours, hex, hex);
    assert_int_equal(access(object, F_OK), 0);
    assert_int_equal(chown(object, PLACE_OTHER, PLACE_OTHER), 0);
    assert_int_equal(chmod(object, 0644), 0);
    place_engine(PLACE_NOBODY, cache_at(ours), NULL);
    place_right(1, 1);
    place_says("belongs to user");
    place_engine(PLACE_NOBODY, cache_at(ours), NULL);
    place_right(0, 0);
}

/* B35: links of another user on the way, to a folder and to a file of the victim */
void nothing_is_written_through_a_planted_link(void **state)
{
    (void)state;
    if (!place_is_root() || !place_compiles()) {
        skip();
    }
    char victim[PLACE_PATH], shared[PLACE_PATH], link[PLACE_PATH + 32], secret[PLACE_PATH + 32];
    snprintf(victim, sizeof victim, "%s", place_make("victim", 0700, PLACE_NOBODY));
    snprintf(shared, sizeof shared, "%s", place_make("shared", 01777, 0));
    snprintf(secret, sizeof secret, "%s/secret", victim);
    snprintf(link, sizeof link, "%s/attune", shared);
    put_file(secret, "the victim's");
    assert_int_equal(chown(secret, PLACE_NOBODY, PLACE_NOBODY), 0);
    const char *const targets[] = {victim, secret, "/nonexistent/there"};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        unlink(link);
        assert_int_equal(symlink(targets[i], link), 0);
        assert_int_equal(lchown(link, PLACE_OTHER, PLACE_OTHER), 0);
        for (int below = 0; below < 2; below++) { /* the store itself, and a folder on the way to it */
            char path[PLACE_PATH + 64];
            snprintf(path, sizeof path, "%s%s", link, below ? "/cache" : "");
            place_engine(PLACE_NOBODY, cache_at(path), NULL);
            place_right(1, 1);
            place_says("link");
            assert_int_equal(place_walk(victim, NULL, NULL), 1);
            assert_int_equal(entries(victim), 3);
            same_file(secret, "the victim's");
        }
    }
    /* a link of the victim's own making on the way is no attack */
    unlink(link);
    assert_int_equal(symlink(victim, link), 0);
    assert_int_equal(lchown(link, PLACE_NOBODY, PLACE_NOBODY), 0);
    char own[PLACE_PATH + 64];
    snprintf(own, sizeof own, "%s/cache", link);
    place_engine(PLACE_NOBODY, cache_at(own), NULL);
    place_right(0, 1);
    /* inside the store: a link where a folder of ours was */
    const char *const inner[] = {"objects", "records", "sources", "tmp", "rejected"};
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
        char path[PLACE_PATH + 128];
        snprintf(path, sizeof path, "%s/cache/%s", victim, inner[i]);
        folder_remove(path);
        const char *outside = place_make("outside", 0700, PLACE_NOBODY);
        assert_int_equal(symlink(outside, path), 0);
        assert_int_equal(lchown(path, PLACE_OTHER, PLACE_OTHER), 0);
        place_engine(PLACE_NOBODY, cache_at(own), NULL);
        place_right(-1, -1);
        assert_int_equal(place_walk(place("outside"), NULL, NULL), 0);
        unlink(path);
    }
}

/* no name that others could foresee: with TMPDIR a folder of all, every file there was made by mkdtemp, 0700, and is
 * gone
 */
void nothing_of_ours_lies_in_shared_folders(void **state)
{
    (void)state;
    if (!place_compiles()) {
        skip();
    }
    char shared[PLACE_PATH], temporary[PLACE_PATH + 16];
    snprintf(shared, sizeof shared, "%s", place_make("tmp", 01777, 0));
    snprintf(temporary, sizeof temporary, "TMPDIR=%s", shared);
    static const char *const argv[] = {
        "strace",     "-f",          "-qq", "-o", "trace", "-e", "trace=mkdir,mkdirat,openat,open",
        PLACE_ENGINE, PLACE_PROBLEM, NULL};
    char path[PLACE_PATH];
    const char *const changes[] = {temporary, "HOME", NULL};
    bool traced = program_find("strace", path, sizeof path, NULL) == ATTUNE_OK;
    const struct place_call call = {.argv = traced ? argv : argv + 7, .environment = changes};
    place_run(&call);
    place_right(1, 1);
    assert_int_equal(entries(shared), 2);
    if (!traced) {
        print_message("skipped in part: no strace\n");
        return;
    }
    struct buffer trace = BUFFER_INIT;
    assert_int_equal(file_read(place("trace"), 64 << 20, &trace, NULL), ATTUNE_OK);
    char at[PLACE_PATH + 16];
    int made = 0, inside = (int)strlen(shared) + 1;
    snprintf(at, sizeof at, "%s/", shared);
    for (char *line = trace.data; (line = strstr(line, at)) != NULL; line++) {
        size_t length = strcspn(line + inside, "/\"");
        assert_true(length == strlen("attune-XXXXXX") && strncmp(line + inside, "attune-", 7) == 0);
        made++;
    }
    assert_true(made > 0);
    /* and nothing of ours was made in the machine's own */
    for (char *line = trace.data; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1) {
        char *end = strchr(line, '\n');
        if (end == NULL) {
            break;
        }
        *end = '\0';
        bool creates = strstr(line, "O_CREAT") != NULL || strstr(line, "mkdir") != NULL;
        assert_false(creates && strstr(line, "\"/tmp/") != NULL && strstr(line, place_folder()) == NULL);
        *end = '\n';
    }
    buffer_free(&trace);
}

/* what setuid makes of a process: its user's variables choose neither programs nor folders */
void more_rights_than_the_user_trust_no_variable(void **state)
{
    (void)state;
    if (!place_is_root() || !place_compiles()) {
        skip();
    }
    char cache[PLACE_PATH], home[PLACE_PATH], evil[PLACE_PATH], text[2 * PLACE_PATH];
    static const char *const names[] = {"c++", "g++", "ld", "as", "attune-helper", "clang"};
    snprintf(cache, sizeof cache, "%s", place_make("cache", 0700, 0));
    snprintf(home, sizeof home, "%s", place_make("home", 0700, 0));
    snprintf(evil, sizeof evil, "%s", place_make("evil", 0755, 0));
    snprintf(text, sizeof text, "#!/bin/sh\n: >'%s/ran'\nexit 1\n", evil);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        put_file(place("evil/%s", names[i]), text);
        chmod(place("evil/%s", names[i]), 0755);
    }
    char variables[9][2 * PLACE_PATH];
    snprintf(variables[0], sizeof variables[0], "ATTUNE_CACHE=%s", cache);
    snprintf(variables[1], sizeof variables[1], "ATTUNE_HELPER=%s/attune-helper", evil);
    snprintf(variables[2], sizeof variables[2], "ATTUNE_CXX=%s/c++", evil);
    snprintf(variables[3], sizeof variables[3], "PATH=%s", evil);
    snprintf(variables[4], sizeof variables[4], "HOME=%s", home);
    snprintf(variables[5], sizeof variables[5], "XDG_CACHE_HOME=%s", home);
    snprintf(variables[6], sizeof variables[6], "TMPDIR=%s", evil);
    snprintf(variables[7], sizeof variables[7], "ATTUNE_TEMPLATE_PATH=%s", evil);
    snprintf(variables[8], sizeof variables[8], "GCC_EXEC_PREFIX=%s/", evil);
    const char *const changes[] = {variables[0], variables[1],          variables[2],     variables[3],
                                   variables[4], variables[5],          variables[6],     variables[7],
                                   variables[8], "ATTUNE_JIT=nonsense", "ATTUNE_QUIET=1", NULL};
    static const char *const argv[] = {PLACE_ENGINE, "--calls", "2", PLACE_PROBLEM, NULL};
    const struct place_call call = {.argv = argv, .environment = changes, .real_user = PLACE_NOBODY};
    place_run(&call);
    place_right(1, 0); /* by the system's own compiler, not by the one that counts */
    place_says("more rights than its user");
    assert_int_not_equal(access(place("evil/ran"), F_OK), 0);
    assert_int_equal(place_walk(cache, NULL, NULL), 0);
    assert_int_equal(place_walk(home, NULL, NULL), 0);
    /* the same variables in an ordinary process do choose: the test would see it */
    const struct place_call ordinary = {.argv = argv, .environment = changes};
    assert_int_not_equal(place_run(&ordinary)->exit_code, 0);
}

static void search(const char *root, const char *relative, void *data)
{
    static const struct {
        const char *word;
        const char *only_in; /* NULL: nowhere */
    } forbidden[] = {
        {"getenv(", "base/environment.c"},
        {"system(", NULL},
        {"popen(", NULL},
        {"mktemp(", NULL},
        {"tmpnam(", NULL},
        {"tempnam(", NULL},
        {"mkstemp(", NULL},
        {"execlp(", NULL},
    };
    struct buffer text = BUFFER_INIT;
    char path[PLACE_PATH];
    size_t length = strlen(relative);
    int *files = data;
    if (length < 3 || (strcmp(relative + length - 2, ".c") != 0 && strcmp(relative + length - 2, ".h") != 0)) {
        return;
    }
    snprintf(path, sizeof path, "%s/%s", root, relative);
    assert_int_equal(file_read(path, 1 << 20, &text, NULL), ATTUNE_OK);
    ++*files;
    for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++) {
        const char *base = strrchr(root, '/') + 1;
        for (const char *at = buffer_string(&text); (at = strstr(at, forbidden[i].word)) != NULL; at++) {
            char name[PLACE_PATH];
            snprintf(name, sizeof name, "%s/%s", base, relative);
            bool part_of_a_word = at > text.data && (at[-1] == '_' || (at[-1] >= 'a' && at[-1] <= 'z'));
            if (!part_of_a_word && (forbidden[i].only_in == NULL || strcmp(forbidden[i].only_in, name) != 0)) {
                fail_msg("%s has %s", name, forbidden[i].word);
            }
        }
    }
    buffer_free(&text);
}

/* shells, predictable temporary names and variables read past base/environment.h are mistakes of a kind: none is there
 */
void variables_are_read_in_one_place(void **state)
{
    (void)state;
    static const char *const folders[] = {"base", "cache", "runtime", "generator", "autotune", "cli"};
    int files = 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char root[PLACE_PATH];
        snprintf(root, sizeof root, "%s/%s", TEST_SOURCE_DIR, folders[i]);
        place_walk(root, search, &files);
    }
    assert_true(files > 100);
}

/* 128 KiB, as attune.h says: cold, warm, and when something is set aside and made again */
void a_thread_with_a_small_stack_may_call(void **state)
{
    (void)state;
    static const char *const argv[] = {PLACE_ENGINE, "--stack", "131072", "--calls", "2", PLACE_PROBLEM, NULL};
    static const char *const cut[] = {"sh", "-c", "find \"$ATTUNE_CACHE\" -type f -size +0 -exec truncate -s 100 {} +",
                                      NULL};
    if (!place_compiles()) {
        skip();
    }
    const char *const changes[] = {cache_at(place_make("small", 0700, 0)), NULL};
    const struct place_call call = {.argv = argv, .environment = changes};
    for (int damaged = 0; damaged < 2; damaged++) {
        place_run(&call);
        place_right(damaged ? 2 : 0, 1); /* record and object */
        place_run(&call);
        place_right(0, 0);
        place_run(&(struct place_call){.argv = cut, .environment = changes});
        place_right(0, 0);
    }
}
