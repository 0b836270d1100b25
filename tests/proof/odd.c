/* odd.c - proof_odd: locales with a decimal comma (B32), paths with blanks, quotes, dollars and other letters (B33). */
#include "tests/proof/place.h"

#include "base/files.h"
#include "base/process.h"
#include "cli/npy.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- B32 ---- */

static const char *const problems[] = {"heads=1 seqlen_q=5 head_dim=16 scale=0.125",
                                       "heads=1 seqlen_q=5 head_dim=16 scale=0.125 dropout=0.1"};

static char locale_path[PLACE_PATH + 16];

static bool make_locale(void)
{
    char path[PLACE_PATH];
    const char *const argv[] = {"localedef", "-i", "de_DE", "-f", "UTF-8", path, NULL};
    const struct process_options options = {.argv = argv, .seconds = 60};
    struct process_result result = {.output = BUFFER_INIT, .errors = BUFFER_INIT};
    snprintf(path, sizeof path, "%s/de_DE.UTF-8", place_make("locales", 0755, 0));
    snprintf(locale_path, sizeof locale_path, "LOCPATH=%s", place("locales"));
    (void)process_run(&options, &result, NULL);
    process_result_free(&result);
    if (access(path, F_OK) != 0) {
        print_message("skipped: localedef cannot make de_DE.UTF-8 (Debian: package locales)\n");
        return false;
    }
    return true;
}

/* runs the problems in a store of this name; what it printed: object names and digests of the outputs */
static void run_in(const char *store, const char *const *words, int compiles, char printed[1024])
{
    char cache[PLACE_PATH + 16];
    const char *argv[16] = {PLACE_ENGINE};
    int count = 1;
    snprintf(cache, sizeof cache, "ATTUNE_CACHE=%s", place("%s", store));
    for (; *words != NULL; words++) {
        argv[count++] = *words;
    }
    argv[count++] = problems[0];
    argv[count++] = problems[1];
    argv[count] = NULL;
    const char *const changes[] = {cache, locale_path, NULL};
    const struct place_result *result = place_run(&(struct place_call){.argv = argv, .environment = changes});
    place_right(0, compiles);
    snprintf(printed, 1024, "%s", buffer_string(&result->output));
}

static void every_line_is_json(const char *root, const char *relative, void *data)
{
    char path[2 * PLACE_PATH];
    struct buffer text = BUFFER_INIT;
    int *records = data;
    bool lines = strncmp(relative, "journals/", 9) == 0;
    if (!lines && strncmp(relative, "records/", 8) != 0) {
        return;
    }
    snprintf(path, sizeof path, "%s/%s", root, relative);
    assert_int_equal(file_read(path, 1 << 24, &text, NULL), ATTUNE_OK);
    char *rest = NULL;
    for (char *line = strtok_r(text.data, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        json_t *json = json_loads(line, 0, NULL);
        if (json == NULL) {
            fail_msg("%s is no JSON: %s", relative, line);
        }
        json_decref(json);
        ++*records;
    }
    buffer_free(&text);
}

struct records {
    json_t *found; /* by folder: the record without what differs between runs */
};

static void take_record(const char *root, const char *relative, void *data)
{
    static const char *const changing[] = {"run", "created", "check"};
    struct records *records = data;
    char path[2 * PLACE_PATH];
    if (strncmp(relative, "records/", 8) != 0) {
        return;
    }
    snprintf(path, sizeof path, "%s/%s", root, relative);
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    for (size_t i = 0; i < sizeof changing / sizeof changing[0]; i++) {
        json_object_del(json, changing[i]);
    }
    *strrchr(path, '/') = '\0';
    assert_int_equal(json_object_set_new(records->found, path + strlen(root), json), 0);
}

static json_t *records_of(const char *store)
{
    struct records records = {json_object()};
    char root[PLACE_PATH];
    snprintf(root, sizeof root, "%s", place("%s", store));
    place_walk(root, take_record, &records);
    assert_true(json_object_size(records.found) >= 2);
    return records.found;
}

static void a_decimal_comma_changes_no_byte(void **state)
{
    (void)state;
    if (!place_compiles() || !make_locale()) {
        skip();
    }
    char plain[1024], printed[1024];
    run_in("plain", (const char *const[]){NULL}, 2, plain);
    assert_non_null(strstr(plain, "output"));
    json_t *expected = records_of("plain");
    for (int way = 0; way < 2; way++) { /* from the first call on; between the first kernel and the second */
        const char *store = way == 0 ? "comma" : "comma-late";
        run_in(store, (const char *const[]){way == 0 ? "--locale" : "--locale-late", "de_DE.UTF-8", NULL}, 2, printed);
        assert_string_equal(printed, plain);
        json_t *got = records_of(store);
        char *a = json_dumps(expected, JSON_SORT_KEYS), *b = json_dumps(got, JSON_SORT_KEYS);
        assert_string_equal(a, b);
        free(a);
        free(b);
        json_decref(got);
    }
    /* written under one, read under the other, with compiling forbidden */
    run_in("plain", (const char *const[]){"--forbid", "--locale", "de_DE.UTF-8", NULL}, 0, printed);
    assert_string_equal(printed, plain);
    run_in("comma", (const char *const[]){"--forbid", NULL}, 0, printed);
    assert_string_equal(printed, plain);
    /* counts, times and journals as tuning writes them */
    run_in("tuned", (const char *const[]){"--tune", "--calls", "2", "--locale", "de_DE.UTF-8", NULL}, -1, printed);
    int lines = 0;
    place_walk(place("tuned"), every_line_is_json, &lines);
    assert_true(lines > 4);
    run_in("tuned", (const char *const[]){"--forbid", NULL}, 0, printed);
    json_decref(expected);
}

/* the locale is really there, and would be seen: the same engine prints a comma */
static void the_comma_is_real(void **state)
{
    (void)state;
    if (!make_locale()) {
        skip();
    }
    static const char *const argv[] = {PLACE_ENGINE, "--show-locale", "de_DE.UTF-8", NULL};
    const char *const changes[] = {locale_path, NULL};
    const struct place_result *result = place_run(&(struct place_call){.argv = argv, .environment = changes});
    assert_string_equal(buffer_string(&result->output), "0,125 1.024,5\n");
}

/* ---- B33 ---- */

#define ODD "a b/\xc3\xbcn\xc3\xaf_\xe6\xb5\x8b\xe8\xaf\x95/qu'ote;$x"

enum { SEQLEN = 5, HEADS = 2, DIM = 16, ELEMENTS = SEQLEN * HEADS * DIM };
static char odd[PLACE_PATH], program[2 * PLACE_PATH], variables[4][2 * PLACE_PATH];
static const char *odd_changes[8];

static const char *odd_file(const char *name)
{
    static char paths[8][2 * PLACE_PATH];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", odd, name);
    return path;
}

static bool install(void)
{
    snprintf(odd, sizeof odd, "%s", place("%s", ODD));
    assert_int_equal(folder_make(odd, NULL), ATTUNE_OK);
    const char *const argv[] = {"cmake", "--install", TEST_BINARY_DIR, "--prefix", odd_file("prefix"), NULL};
    place_run(&(struct place_call){.argv = argv});
    place_right(-1, 0);
    snprintf(program, sizeof program, "%s/prefix/bin/attune", odd);
    assert_int_equal(access(program, X_OK), 0);
    assert_int_equal(folder_make(odd_file("tmp"), NULL), ATTUNE_OK);
    snprintf(variables[0], sizeof variables[0], "ATTUNE_CACHE=%s", odd_file("cache"));
    snprintf(variables[1], sizeof variables[1], "TMPDIR=%s", odd_file("tmp"));
    snprintf(variables[2], sizeof variables[2], "ROCM_PATH=%s", odd_file("rocm"));
    snprintf(variables[3], sizeof variables[3], "ATTUNE_TEMPLATE_PATH=%s", odd_file("templates"));
    const char *const all[] = {
        variables[0],           variables[1], variables[2], variables[3], "ATTUNE_HELPER", "ATTUNE_RUNNER_ADDRESS",
        "ATTUNE_RUNNER_THREAD", NULL};
    memcpy(odd_changes, all, sizeof all);
    return true;
}

static const struct place_result *installed(const char *const *words)
{
    const char *argv[24] = {program};
    int count = 1;
    for (; *words != NULL; words++) {
        argv[count++] = *words;
    }
    argv[count] = NULL;
    return place_run(&(struct place_call){.argv = argv, .environment = odd_changes});
}

/* zero scores: every row is the mean of the values it sees */
static void write_arrays(void)
{
    static const int64_t shape[] = {1, SEQLEN, HEADS, DIM};
    float q[ELEMENTS] = {0}, v[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        v[i] = (float)(i / (HEADS * DIM));
    }
    assert_int_equal(npy_write(odd_file("q.npy"), NPY_F4, 4, shape, q, NULL), ATTUNE_OK);
    assert_int_equal(npy_write(odd_file("v.npy"), NPY_F4, 4, shape, v, NULL), ATTUNE_OK);
}

static void read_means(void)
{
    struct buffer file = BUFFER_INIT;
    struct npy npy;
    assert_int_equal(npy_read(odd_file("o.npy"), &file, &npy, NULL), ATTUNE_OK);
    for (int i = 0; i < ELEMENTS; i++) {
        float value;
        memcpy(&value, file.data + npy.offset + (size_t)i * sizeof value, sizeof value);
        assert_true(fabsf(value - (float)(i / (HEADS * DIM)) / 2) < 1e-5f);
    }
    buffer_free(&file);
    unlink(odd_file("o.npy"));
}

static void an_installation_works_under_any_name(void **state)
{
    (void)state;
    if (!place_compiles() || !install()) {
        skip();
    }
    /* a ROCm whose libraries are here, under a name with blanks and quotes; templates of one's own beside it */
    assert_int_equal(folder_make(odd_file("rocm/lib"), NULL), ATTUNE_OK);
    assert_int_equal(folder_make(odd_file("rocm/llvm/bin"), NULL), ATTUNE_OK);
    char clang[PLACE_PATH];
    if (program_find("clang-22", clang, sizeof clang, NULL) == ATTUNE_OK) {
        assert_int_equal(symlink(clang, odd_file("rocm/llvm/bin/clang")), 0);
    }
    place_copy(TEST_SOURCE_DIR "/tests/cli/templates", odd_file("templates"));
    write_arrays();
    const char *const run[] = {"run",
                               "--device",
                               "host",
                               "--problem",
                               "dtype=f32 " PLACE_PROBLEM,
                               "--q",
                               odd_file("q.npy"),
                               "--k",
                               odd_file("q.npy"),
                               "--v",
                               odd_file("v.npy"),
                               "--o",
                               odd_file("o.npy"),
                               NULL};
    for (int warm = 0; warm < 2; warm++) {
        installed(run);
        place_right(0, !warm);
        read_means();
    }
    installed((const char *const[]){"verify", "--device", "host", "--problem", "test.scale elements=100", NULL});
    place_right(0, -1);
    static const char *const gpus[] = {"gfx906", "gfx950", "sm_90a"};
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        for (int warm = 0; warm < 2; warm++) {
            const struct place_result *result =
                installed((const char *const[]){"compile", "--target", gpus[i], "-o", odd_file(gpus[i]), "--problem",
                                                "dtype=f16 heads=1 seqlen_q=8 head_dim=16", NULL});
            if (result->exit_code == 3) {
                print_message("skipped in part: no compiler for %s\n", gpus[i]);
                break;
            }
            place_right(0, 0);
            assert_int_equal(access(odd_file(gpus[i]), F_OK), 0);
        }
    }
    installed((const char *const[]){"cache", "verify", NULL});
    place_right(0, 0);
    installed((const char *const[]){"doctor", NULL});
    place_right(0, 0);
    /* nothing was cut at a blank, split at a semicolon or expanded: one entry at each level */
    char first[PLACE_PATH];
    snprintf(first, sizeof first, "%s", place("a b"));
    assert_true(place_walk(first, NULL, NULL) > 10);
    assert_int_not_equal(access(place("a"), F_OK), 0);
    assert_int_equal(place_walk(odd_file("tmp"), NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_comma_is_real),
        cmocka_unit_test(a_decimal_comma_changes_no_byte),
        cmocka_unit_test(an_installation_works_under_any_name),
    };
    return cmocka_run_group_tests_name("proof_odd", tests, place_open, place_close);
}
