/* store_contents.c - B10: whatever lies in a store, the numbers are right, what is damaged is made again once with one
 * warning, and the next process finds a good entry. */
#include "tests/cache/damage.h"
#include "tests/proof/place.h"
#include "tests/proof/store.h"
#include "tests/size.h"

#include "base/digest.h"
#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char good[PLACE_PATH], store[PLACE_PATH], cache[PLACE_PATH + 16];
static char object[65];

/* `good` is filled once, by a compile and by tuning; each damage works on a copy in `store` */
static void fill_good(void)
{
    if (good[0] != '\0') {
        return;
    }
    snprintf(good, sizeof good, "%s", place_make("good", 0700, 0));
    snprintf(store, sizeof store, "%s", place("store"));
    snprintf(cache, sizeof cache, "ATTUNE_CACHE=%s", good);
    place_engine(0, cache, NULL);
    place_right(0, 1);
    place_object(object);
    snprintf(cache, sizeof cache, "ATTUNE_CACHE=%s", store);
}

static void fresh_copy(void)
{
    folder_remove(store);
    place_copy(good, store);
}

static void find_one(const char *root, const char *relative, void *data)
{
    snprintf(data, PLACE_PATH, "%s/%s", root, relative);
}

static void path_of_object(char path[PLACE_PATH])
{
    snprintf(path, PLACE_PATH, "%.3000s/objects/%.2s/%s", store, object, object);
}

static void read_whole(const char *path, struct buffer *bytes)
{
    buffer_clear(bytes);
    assert_int_equal(file_read(path, 64 << 20, bytes, NULL), ATTUNE_OK);
}

/* ---- damages; `step` is of the kinds that have several ---- */

static void put_folder(const char *path, int step)
{
    (void)step;
    char inner[PLACE_PATH + 16];
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(inner, sizeof inner, "%s/inner", path);
    assert_int_equal(file_write(inner, "x", 1, NULL), ATTUNE_OK); /* so that no rmdir or rename over it helps */
}

static void put_link(const char *path, int step)
{
    (void)step;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
}

static void put_text(const char *path, int step)
{
    (void)step;
    assert_int_equal(file_publish(path, "{\"not\": \"what it was\"}\n", 23, NULL), ATTUNE_OK);
}

static void put_huge(const char *path, int step)
{
    (void)step;
    assert_int_equal(truncate(path, (off_t)1 << 40), 0); /* sparse: reading it whole would be the end */
}

/* after the damage: right numbers, so many compiles, one warning, an entry set aside; and then all is well again */
static void check(const char *what, int step, int compiles)
{
    const struct place_result *result = place_engine(0, cache, NULL);
    if (result->exit_code != 0 || result->compiles != compiles || result->warnings != 1) {
        print_error("after %s %d:\n", what, step);
    }
    place_right(1, compiles);
    place_says("set aside");
    assert_true(place_count(store, "rejected/") > 0);
    place_engine(0, cache, NULL);
    place_right(0, 0);
}

struct damage {
    const char *name;
    void (*make)(const char *path, int step);
};
static const struct damage whole[] = {{"a folder", put_folder},   {"a FIFO", damage_fifo},
                                      {"a link", put_link},       {"a text", put_text},
                                      {"a sparse TiB", put_huge}, {"an open mode", damage_open_to_others}};

/* the object of the plan: damaged in every way it is compiled once, and the bytes are those of before */
void every_damaged_object_is_rebuilt_once(void **state)
{
    (void)state;
    if (!place_compiles()) {
        skip();
    }
    char path[PLACE_PATH], first[PLACE_PATH];
    struct buffer before = BUFFER_INIT, after = BUFFER_INIT;
    fill_good();
    path_of_object(path);
    snprintf(first, sizeof first, "%.3000s/objects/%.2s/%s", good, object, object);
    read_whole(first, &before);
    for (int step = 0; step < 16; step += test_size(6, 1)) {
        fresh_copy();
        damage_cut(path, step);
        check("a cut at sixteenth", step, 1);
    }
    for (int step = 1; step <= test_size(4, 200); step++) {
        fresh_copy();
        damage_flip(path, step);
        check("a flipped bit", step, 1);
        read_whole(path, &after);
        assert_int_equal(before.length, after.length);
        assert_memory_equal(before.data, after.data, after.length);
    }
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        fresh_copy();
        whole[i].make(path, 0);
        check(whole[i].name, 0, 1);
    }
    buffer_free(&before);
    buffer_free(&after);
}

/* an object of another kernel, of right form, under this name */
static void put_another_object(char *path)
{
    static const char *const argv[] = {PLACE_ENGINE, "heads=1 seqlen_q=3 head_dim=32", NULL};
    char other[PLACE_PATH], hex[65];
    snprintf(other, sizeof other, "%s", place_make("other", 0700, 0));
    char variable[PLACE_PATH + 16];
    snprintf(variable, sizeof variable, "ATTUNE_CACHE=%s", other);
    const char *const changes[] = {variable, NULL};
    const struct place_call call = {.argv = argv, .environment = changes};
    place_run(&call);
    place_right(0, 1);
    place_object(hex);
    char from[PLACE_PATH + 128];
    struct buffer bytes = BUFFER_INIT;
    snprintf(from, sizeof from, "%s/objects/%.2s/%s", other, hex, hex);
    read_whole(from, &bytes);
    assert_int_equal(file_publish(path, bytes.data, bytes.length, NULL), ATTUNE_OK);
    buffer_free(&bytes);
}

/* ---- records ---- */

/* replaces one text of the record and seals it anew: a wrong writer, or one who knows how */
static void reseal(const char *path, const char *from, const char *to)
{
    struct buffer text = BUFFER_INIT, changed = BUFFER_INIT;
    read_whole(path, &text);
    damage_resealed(&text, from, to, &changed);
    assert_int_equal(file_publish(path, changed.data, changed.length, NULL), ATTUNE_OK);
    buffer_free(&text);
    buffer_free(&changed);
}

static void path_of_record(char path[PLACE_PATH])
{
    char records[PLACE_PATH + 16];
    snprintf(records, sizeof records, "%s/records", store);
    path[0] = '\0';
    assert_int_equal(place_walk(records, find_one, path), 1);
}

/* the only record, damaged: its object still serves, so nothing is compiled */
void every_damaged_record_is_made_again(void **state)
{
    (void)state;
    static const char *const lies[][2] = {
        {"\"threads\":", "\"threads\":99999999999999999999"},
        {"\"threads\":", "\"threads\":-"},
        {"\"threads\":", "\"threads\":1e300,\"x\":"},
        {"\"winner_microseconds\":", "\"winner_microseconds\":NaN,\"x\":"},
        {"\"winner_microseconds\":", "\"winner_microseconds\":-1,\"x\":"},
        {"\"winner_microseconds\":", "\"winner_microseconds\":1e999,\"x\":"},
        {"\"created\":", "\"created\":9223372036854775808,\"x\":"},
        {"head_dim_qk=16", "head_dim_qk=17"},
        {"{", "[{"},
        {"\"kernel\":\"", "\"kernel\":\"\\u0000"},
        {"host", "gfx906"},
    };
    if (!place_compiles()) {
        skip();
    }
    char path[PLACE_PATH];
    fill_good();
    for (int step = 0; step < 16; step += test_size(6, 1)) {
        fresh_copy();
        path_of_record(path);
        damage_cut(path, step);
        check("a record cut at sixteenth", step, 0);
    }
    for (int step = 1; step <= test_size(4, 200); step++) {
        fresh_copy();
        path_of_record(path);
        damage_flip(path, step);
        check("a flipped bit of a record", step, 0);
    }
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        fresh_copy();
        path_of_record(path);
        whole[i].make(path, 0);
        check(whole[i].name, 0, 0);
    }
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        fresh_copy();
        path_of_record(path);
        reseal(path, lies[i][0], lies[i][1]);
        check(lies[i][1], (int)i, 0);
    }
    /* of right form, but of a candidate that nobody knows (another release's): passed over, and not an error */
    fresh_copy();
    path_of_record(path);
    reseal(path, "attention.forward/portable ", "attention.forward/portable nonsense=1 ");
    place_engine(0, cache, NULL);
    place_right(0, 0);
    /* of right form, but its object was replaced by another kernel's */
    char at[PLACE_PATH];
    fresh_copy();
    path_of_object(at);
    put_another_object(at);
    check("another kernel's object", 0, 1);
}

/* journals, the index of sources, strange files and folders everywhere: the store serves, or makes it again */
void every_other_file_may_be_anything(void **state)
{
    (void)state;
    static const char *const folders[] = {"",         "objects", "objects/00", "records", "sources",
                                          "journals", "blocked", "tmp",        "rejected"};
    static const char *const tops[] = {"objects", "records", "sources", "journals", "blocked", "tmp", "rejected"};
    if (!place_compiles()) {
        skip();
    }
    fill_good();
    fresh_copy();
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[2 * PLACE_PATH];
        snprintf(path, sizeof path, "%s/%s", store, folders[i]);
        (void)mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/%s/fifo.json", store, folders[i]);
        assert_int_equal(mkfifo(path, 0600), 0);
        snprintf(path, sizeof path, "%s/%s/folder.json", store, folders[i]);
        assert_int_equal(mkdir(path, 0), 0);
        snprintf(path, sizeof path, "%s/%s/name\n with \xff bytes", store, folders[i]);
        assert_int_equal(file_write(path, "x", 1, NULL), ATTUNE_OK);
    }
    place_engine(0, cache, NULL);
    place_right(0, 0);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) { /* so that the copy can be removed again */
        char path[2 * PLACE_PATH];
        snprintf(path, sizeof path, "%s/%s/folder.json", store, folders[i]);
        (void)chmod(path, 0700);
    }
    /* each folder of the store a file, a FIFO, unreadable: what cannot be used costs only persistence */
    for (size_t i = 0; i < sizeof tops / sizeof tops[0]; i++) {
        for (int kind = 0; kind < 2; kind++) {
            char path[2 * PLACE_PATH];
            fresh_copy();
            snprintf(path, sizeof path, "%s/%s", store, tops[i]);
            folder_remove(path);
            if (kind == 0) {
                assert_int_equal(file_write(path, "x", 1, NULL), ATTUNE_OK);
            } else {
                assert_int_equal(mkfifo(path, 0600), 0);
            }
            place_engine(0, cache, NULL);
            place_right(-1, -1);
            static const char *const argv[] = {ATTUNE_PROGRAM, "cache", "verify", NULL};
            const char *const changes[] = {cache, NULL};
            place_run(&(struct place_call){.argv = argv, .environment = changes, .seconds = 20});
            assert_int_equal(place_run(&(struct place_call){.argv = argv, .environment = changes})->signal, 0);
        }
    }
}
