/* toolchains.c - B11: compiler, product or environment changed under the same version string.
 *
 * Compilers are the real ones, in disguise: a script that runs c++ and counts its compiles, whose text is another
 * build's when asked; copies of the vendor's libraries with another build ID; templates from a folder. Compiles are
 * counted over old, old, new, old: ATTUNE_STALE=retune makes it 1, 0, 1, 0; accept makes it 1, 0, 0, 0 and says so.
 */
#include "base/files.h"
#include "base/process.h"
#include "cache/store.h"
#include "road.h"
#include "runtime/attune.h"
#include "tests/size.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBLEM "attention.forward dtype=f32 heads=1 seqlen_q=8 seqlen_k=8 head_dim="

static char folder[512];
static const char *const variables[] = {"ATTUNE_CXX", "ATTUNE_STALE", "ATTUNE_TEMPLATE_PATH", "LD_LIBRARY_PATH"};

static void in_folder(const char *name, char path[1024])
{
    snprintf(path, 1024, "%s/%s", folder, name);
}

/* ------------------------------------------------------------------------------------------------ a C++ compiler */

/* `name` becomes a compiler of that build: its text is its identity. Every compile adds a line to NAME.count. */
static void make_compiler(const char *name, const char *build, char path[1024])
{
    char count[1100], fresh[1100], text[4096];
    in_folder(name, path);
    snprintf(count, sizeof count, "%s.count", path);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    int length = snprintf(text, sizeof text,
                          "#!/bin/sh\n# %s\nfor word in \"$@\"; do\n"
                          "  case \"$word\" in --version|-print-*) exec c++ \"$@\";; esac\ndone\n"
                          "echo once >> '%s'\nexec c++ \"$@\"\n",
                          build, count);
    assert_int_equal(file_write(fresh, text, (size_t)length, NULL), ATTUNE_OK);
    assert_int_equal(chmod(fresh, 0700), 0);
    assert_int_equal(rename(fresh, path), 0);
}

static int compiles_of(const char *name)
{
    char path[1024], count[1100];
    struct buffer text = BUFFER_INIT;
    int lines = 0;
    in_folder(name, path);
    snprintf(count, sizeof count, "%s.count", path);
    if (file_read(count, 1 << 20, &text, NULL) == ATTUNE_OK) {
        for (size_t i = 0; i < text.length; i++) {
            lines += text.data[i] == '\n';
        }
    }
    buffer_free(&text);
    unlink(count);
    return lines;
}

/* ------------------------------------------------------------------------------------------------ contexts */

struct place {
    attune_context *context;
    attune_device *device;
};

static void place_open(struct place *place, const char *store, const char *stale)
{
    char path[1024];
    in_folder(store, path);
    const attune_context_options options = {.size = sizeof options, .store = path, .jit = ATTUNE_JIT_COMPILE};
    setenv("ATTUNE_STALE", stale, 1);
    assert_int_equal(attune_context_create(&options, &place->context), ATTUNE_OK);
    assert_int_equal(attune_jit_register(place->context), ATTUNE_OK);
    assert_int_equal(attune_device_open(place->context, "host", &place->device), ATTUNE_OK);
}

static void place_prepare(struct place *place, int head_dim, attune_plan_info *info)
{
    char text[256], why[1024] = "";
    attune_problem *problem;
    attune_plan *plan;
    snprintf(text, sizeof text, PROBLEM "%d", head_dim);
    assert_int_equal(attune_problem_parse(place->context, text, &problem), ATTUNE_OK);
    attune_status status = attune_prepare(place->device, problem, NULL, &plan);
    attune_last_error(place->context, why, sizeof why);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", why);
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s", why);
    }
    *info = (attune_plan_info){.size = sizeof *info};
    assert_int_equal(attune_plan_describe(plan, info), ATTUNE_OK);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
}

/* one prepare in a context of its own: a process that comes after an upgrade */
static void prepare_anew(const char *store, const char *stale, int head_dim, attune_plan_info *info)
{
    struct place place;
    place_open(&place, store, stale);
    place_prepare(&place, head_dim, info);
    attune_context_destroy(place.context);
}

/* no object is bad, and each record tells the identity of the very object that it names */
static attune_status check_record(void *data, const struct store_entry *entry, struct error *error)
{
    struct store *store = data;
    char path[2048];
    struct buffer json = BUFFER_INIT, bytes = BUFFER_INIT;
    struct record record;
    struct object_header header;
    if (entry->kind != STORE_RECORD) {
        return ATTUNE_OK;
    }
    snprintf(path, sizeof path, "%s/%s", store_path(store), entry->path);
    attune_status status = file_read(path, RECORD_BYTES_MAX, &json, error);
    if (status == ATTUNE_OK) {
        status = record_from_json(json.data, json.length, &record, error);
    }
    if (status == ATTUNE_OK) {
        status = store_object_get(store, &record.object, &header, &bytes, error);
        assert_int_equal(status, ATTUNE_OK);
        assert_string_equal(header.identity, record.identity);
        record_free(&record);
    }
    buffer_free(&json);
    buffer_free(&bytes);
    return status;
}

static void store_is_sound(const char *name, int objects)
{
    char path[1024];
    struct store *store;
    struct store_verdict verdict;
    struct error error;
    in_folder(name, path);
    assert_int_equal(store_open(path, &store, NULL), ATTUNE_OK);
    assert_int_equal(store_verify(store, false, &verdict, NULL), ATTUNE_OK);
    assert_int_equal(verdict.bad, 0);
    assert_int_equal(verdict.objects, objects);
    if (store_walk(store, check_record, store, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    store_close(store);
}

/* ------------------------------------------------------------------------------------------------ tests */

/* B11: another build of the host compiler */
static void retune_compiles_once_for_each_build(void **state)
{
    (void)state;
    static const int expected[] = {1, 0, 1, 0};
    attune_plan_info info[4];
    char path[1024];
    for (int i = 0; i < 4; i++) {
        make_compiler("cxx", i == 2 ? "new build" : "old build", path);
        setenv("ATTUNE_CXX", path, 1);
        prepare_anew("retune", "retune", 16, &info[i]);
        assert_int_equal(compiles_of("cxx"), expected[i]);
    }
    assert_string_equal(info[0].object, info[1].object);
    assert_string_not_equal(info[0].object, info[2].object);
    assert_string_equal(info[0].object, info[3].object);
    store_is_sound("retune", 2);
}

static void redirect_errors(const char *name, int *saved)
{
    char path[1024];
    in_folder(name, path);
    fflush(stderr);
    *saved = dup(2);
    assert_non_null(freopen(path, "we", stderr));
}

static void restore_errors(int saved, const char *name, struct buffer *text)
{
    char path[1024];
    in_folder(name, path);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    assert_int_equal(file_read(path, 1 << 20, text, NULL), ATTUNE_OK);
}

static int occurrences(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        count++;
    }
    return count;
}

/* B11: accept serves what the old build made; as soon as the new one is known, the plan says so, and stderr once */
static void accept_keeps_serving_and_says_so_once(void **state)
{
    (void)state;
    char path[1024];
    int saved;
    struct place place;
    struct buffer told = BUFFER_INIT;
    attune_plan_info old, info[3];
    make_compiler("cxx", "old build", path);
    setenv("ATTUNE_CXX", path, 1);
    prepare_anew("accept", "accept", 16, &old);
    prepare_anew("accept", "accept", 24, &info[0]);
    assert_int_equal(compiles_of("cxx"), 2);
    make_compiler("cxx", "new build", path);
    redirect_errors("told", &saved);
    place_open(&place, "accept", "accept");
    place_prepare(&place, 16, &info[0]); /* nobody has asked the new build yet */
    place_prepare(&place, 32, &info[1]); /* a miss: now it is known */
    place_prepare(&place, 24, &info[2]);
    place_prepare(&place, 16, &info[0]);
    attune_context_destroy(place.context);
    restore_errors(saved, "told", &told);
    assert_int_equal(compiles_of("cxx"), 1);
    assert_string_equal(info[0].object, old.object);
    assert_non_null(strstr(info[0].note, "another build of the compiler"));
    assert_non_null(strstr(info[2].note, "ATTUNE_STALE=retune"));
    assert_string_equal(info[1].note, "");
    assert_int_equal(occurrences(buffer_string(&told), "another build of"), 1);
    buffer_free(&told);
    store_is_sound("accept", 3);
}

/* B11: who asks why gets told, though nothing was compiled in that process */
static void explain_tells_of_another_build(void **state)
{
    (void)state;
    static const char *const builds[] = {"old build", "new build", "old build"};
    char path[1024], store[1024];
    attune_plan_info info;
    in_folder("explained", store);
    for (int i = 0; i < 3; i++) {
        struct process_result result;
        struct error error = {0};
        make_compiler("cxx", builds[i], path);
        setenv("ATTUNE_CXX", path, 1);
        if (i == 0) {
            prepare_anew("explained", "accept", 16, &info);
        }
        const char *const argv[] = {ATTUNE_PROGRAM, "explain", "--problem", PROBLEM "16", "--device",
                                    "host",         "--store", store,       "--json",     NULL};
        const struct process_options options = {.argv = argv, .seconds = 120, .output_limit = 1 << 20};
        assert_int_equal(process_run(&options, &result, &error), ATTUNE_OK);
        assert_int_equal(result.exit_code, 0);
        const char *output = buffer_string(&result.output);
        assert_non_null(strstr(output, info.object));
        assert_int_equal(strstr(output, "another build of the compiler") != NULL, i == 1);
        process_result_free(&result);
    }
    assert_int_equal(compiles_of("cxx"), 1);
}

/* B11: an upgrade under a running process: what the new build makes is not filed under the old one's name */
static void a_compiler_replaced_under_a_running_pool_is_noticed(void **state)
{
    (void)state;
    char path[1024];
    struct place place;
    attune_plan_info first, second, fresh;
    make_compiler("cxx", "old build", path);
    setenv("ATTUNE_CXX", path, 1);
    place_open(&place, "running", "retune");
    place_prepare(&place, 16, &first);
    make_compiler("cxx", "new build", path);
    place_prepare(&place, 24, &second);
    attune_context_destroy(place.context);
    compiles_of("cxx");
    prepare_anew("running", "retune", 24, &fresh); /* by the new build from the start: the same name, in the store */
    assert_int_equal(compiles_of("cxx"), 0);
    assert_string_equal(fresh.object, second.object);
    store_is_sound("running", 2);
}

struct tenant {
    struct place place;
    char objects[8][72];
    int shapes;
};

static void *tenant_thread(void *data)
{
    struct tenant *tenant = data;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < tenant->shapes; i++) {
            attune_plan_info info;
            place_prepare(&tenant->place, 16 + 8 * i, &info);
            memcpy(tenant->objects[i], info.object, sizeof info.object);
        }
    }
    return NULL;
}

/* B11: two builds in one store at once: each finds its own, none disturbs the other */
static void two_builds_alternate_in_one_store(void **state)
{
    (void)state;
    struct tenant tenants[2] = {{.shapes = test_size(2, 8)}, {.shapes = test_size(2, 8)}};
    static const char *const names[] = {"cxx-a", "cxx-b"};
    pthread_t threads[2];
    char path[1024];
    for (int i = 0; i < 2; i++) {
        attune_plan_info info;
        make_compiler(names[i], names[i], path);
        setenv("ATTUNE_CXX", path, 1);
        place_open(&tenants[i].place, "shared", "retune");
        place_prepare(&tenants[i].place, 16, &info); /* its worker starts, and keeps this build */
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, tenant_thread, &tenants[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < tenants[0].shapes; i++) {
        assert_string_not_equal(tenants[0].objects[i], tenants[1].objects[i]);
    }
    for (int i = 0; i < 2; i++) {
        attune_context_destroy(tenants[i].place.context);
        assert_int_equal(compiles_of(names[i]), tenants[i].shapes);
    }
    store_is_sound("shared", 2 * tenants[0].shapes);
}

/* B11: another git build of the product with the same version: its templates differ */
static void another_build_of_the_product_has_its_own_kernels(void **state)
{
    (void)state;
    static const int expected[2][4] = {{1, 0, 1, 0}, {1, 0, 0, 0}};
    static const char *const rules[] = {"retune", "accept"};
    char path[1024], templates[1024], file[1100];
    struct buffer text = BUFFER_INIT;
    attune_plan_info info[4];
    make_compiler("cxx", "old build", path);
    setenv("ATTUNE_CXX", path, 1);
    in_folder("templates", templates);
    snprintf(file, sizeof file, "%s/attention_forward_portable.hip", templates);
    assert_int_equal(mkdir(templates, 0700), 0);
    assert_int_equal(file_read(TEST_SOURCE_DIR "/templates/attention_forward_portable.hip", 1 << 20, &text, NULL),
                     ATTUNE_OK);
    buffer_text(&text, "\n// the next build says more here\n");
    assert_int_equal(file_write(file, text.data, text.length, NULL), ATTUNE_OK);
    buffer_free(&text);
    for (int rule = 0; rule < 2; rule++) {
        for (int i = 0; i < 4; i++) {
            char store[32];
            snprintf(store, sizeof store, "product-%s", rules[rule]);
            if (i == 2) {
                setenv("ATTUNE_TEMPLATE_PATH", templates, 1);
            } else {
                unsetenv("ATTUNE_TEMPLATE_PATH");
            }
            prepare_anew(store, rules[rule], 16, &info[i]);
            assert_int_equal(compiles_of("cxx"), expected[rule][i]);
        }
        assert_string_equal(info[0].object, info[1].object);
        assert_string_equal(info[0].object, info[3].object);
        assert_int_equal(strcmp(info[0].object, info[2].object) != 0, rule == 0);
    }
    store_is_sound("product-retune", 2);
    store_is_sound("product-accept", 1);
}

/* ------------------------------------------------------------------------------------------------ AMD's libraries */

/* default candidate for a target; *reused tells a store's answer */
static attune_status obtain(struct store *store, const char *target_text, char name[DIGEST_HEX_BYTES],
                            struct buffer *bytes, bool *reused, struct error *error)
{
    struct object_job job;
    attune_status status = road_obtain(store, target_text, PROBLEM "16", &job, error);
    if (status == ATTUNE_OK) {
        digest_hex(&job.object, name);
        buffer_clear(bytes);
        buffer_append(bytes, job.bytes.data, job.bytes.length);
        *reused = job.reused;
    }
    object_job_free(&job);
    return status;
}

static json_t *hiprtc_files(void)
{
    struct compiler_pool *pool;
    struct buffer text = BUFFER_INIT;
    json_t *files = NULL, *row;
    size_t index;
    assert_int_equal(compiler_pool_create(&(struct compiler_options){.workers = 1}, &pool, NULL), ATTUNE_OK);
    assert_int_equal(compiler_survey(pool, &text, NULL), ATTUNE_OK);
    compiler_pool_destroy(pool);
    json_t *survey = json_loads(buffer_string(&text), 0, NULL);
    json_array_foreach(survey, index, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "compiler")), "hiprtc") == 0 &&
            json_is_true(json_object_get(row, "found"))) {
            files = json_incref(json_object_get(row, "files"));
        }
    }
    json_decref(survey);
    buffer_free(&text);
    return files;
}

/* the library as its soname in a folder of ours, with one byte of its build ID changed */
static void copy_as_another_build(const char *path, const char *build_id, const char *into)
{
    char name[256], copy[1400];
    unsigned char id[32];
    struct buffer bytes = BUFFER_INIT;
    size_t length = strlen(build_id) / 2;
    snprintf(name, sizeof name, "%s", strrchr(path, '/') + 1);
    char *version = strstr(name, ".so.");
    if (version != NULL) {
        version[4 + strcspn(version + 4, ".")] = '\0'; /* libamd_comgr.so.2.4.0: the soname ends after the 2 */
    }
    assert_true(length >= 8 && length <= sizeof id);
    for (size_t i = 0; i < length; i++) {
        unsigned value;
        assert_int_equal(sscanf(build_id + 2 * i, "%2x", &value), 1);
        id[i] = (unsigned char)value;
    }
    assert_int_equal(file_read(path, (size_t)1 << 30, &bytes, NULL), ATTUNE_OK);
    unsigned char *at = memmem(bytes.data, bytes.length, id, length);
    assert_non_null(at);
    at[0] ^= 1;
    snprintf(copy, sizeof copy, "%s/%s", into, name);
    assert_int_equal(file_write(copy, bytes.data, bytes.length, NULL), ATTUNE_OK);
    buffer_free(&bytes);
}

/* B11: another libamd_comgr, hiprtc or LLVM of the same version */
static void another_build_of_amds_libraries_compiles_once(void **state)
{
    (void)state;
    static const int expected[] = {1, 0, 1, 0};
    json_t *files = hiprtc_files(), *file;
    size_t index;
    if (files == NULL) {
        print_message("skipped: hiprtc is not installed\n");
        skip();
    }
    json_array_foreach(files, index, file)
    {
        char libraries[1024], path[1024], names[4][DIGEST_HEX_BYTES];
        struct store *store;
        struct buffer bytes = BUFFER_INIT;
        if ((int)index >= test_size(2, 100)) {
            break; /* hiprtc and comgr */
        }
        in_folder("libraries", libraries);
        in_folder("amd", path);
        assert_int_equal(mkdir(libraries, 0700), 0);
        copy_as_another_build(json_string_value(json_object_get(file, "path")),
                              json_string_value(json_object_get(file, "build_id")), libraries);
        assert_int_equal(store_open(path, &store, NULL), ATTUNE_OK);
        for (int i = 0; i < 4; i++) {
            struct error error = {0};
            bool reused = false;
            if (i == 2) {
                setenv("LD_LIBRARY_PATH", libraries, 1);
            } else {
                unsetenv("LD_LIBRARY_PATH");
            }
            if (obtain(store, "gfx906", names[i], &bytes, &reused, &error) != ATTUNE_OK) {
                fail_msg("%s", error.message);
            }
            assert_int_equal(!reused, expected[i] && !(index > 0 && i == 0)); /* the old build served the file before */
        }
        assert_string_equal(names[0], names[1]);
        assert_string_not_equal(names[0], names[2]);
        assert_string_equal(names[0], names[3]);
        buffer_free(&bytes);
        store_close(store);
        folder_remove(libraries);
    }
    json_decref(files);
}

/* B11: what a caller sets for compilers changes neither name nor bytes of what ours make */
static void environment_of_the_caller_changes_nothing(void **state)
{
    (void)state;
    static const char *const settings[][2] = {
        {"AMD_COMGR_SAVE_TEMPS", "1"},
        {"AMD_COMGR_EMIT_VERBOSE_LOGS", "1"},
        {"AMD_COMGR_REDIRECT_LOGS", "stderr"},
        {"AMD_COMGR_TIME_STATISTICS", "1"},
        {"HIPRTC_COMPILE_OPTIONS_APPEND", "-O0 -ffast-math"},
        {"HIPRTC_LINK_OPTIONS_APPEND", "-O0"},
        {"HIPCC_COMPILE_FLAGS_APPEND", "-O0"},
        {"CPATH", "/nowhere"},
        {"C_INCLUDE_PATH", "/nowhere"},
        {"CPLUS_INCLUDE_PATH", "/nowhere"},
        {"CCC_OVERRIDE_OPTIONS", "+-O0"},
        {"LLVM_PROFILE_FILE", "/nowhere/profile"},
        {"NVCC_APPEND_FLAGS", "-G"},
        {"NVCC_PREPEND_FLAGS", "-G"},
        {"NVRTC_DISABLE_CONCURRENT_NVVM", "1"},
        {"CUDA_CACHE_DISABLE", "1"},
        {"CXXFLAGS", "-O0 -g"},
        {"CFLAGS", "-O0 -g"},
        {"LDFLAGS", "-Wl,--build-id"},
        {"GCC_COMPARE_DEBUG", "-g"},
        {"COLLECT_GCC_OPTIONS", "-O0"},
        {"DEPENDENCIES_OUTPUT", "/nowhere/deps"},
        {"LIBRARY_PATH", "/nowhere"},
        {"SOURCE_DATE_EPOCH", "1"},
    };
    static const char *const targets[] = {"host", "gfx906", "gfx1100", "sm_90a"};
    enum { SETTINGS = sizeof settings / sizeof settings[0] };
    for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
        struct error error = {0};
        struct buffer plain = BUFFER_INIT, disturbed = BUFFER_INIT;
        char names[2][DIGEST_HEX_BYTES];
        bool reused;
        attune_status status = obtain(NULL, targets[t], names[0], &plain, &reused, &error);
        if (status == ATTUNE_NO_TOOLCHAIN) {
            print_message("%s skipped: %s\n", targets[t], error.message);
            continue;
        }
        assert_int_equal(status, ATTUNE_OK);
        for (int i = 0; i < SETTINGS; i++) {
            setenv(settings[i][0], settings[i][1], 1);
        }
        status = obtain(NULL, targets[t], names[1], &disturbed, &reused, &error);
        for (int i = 0; i < SETTINGS; i++) {
            unsetenv(settings[i][0]);
        }
        if (status != ATTUNE_OK) {
            fail_msg("%s: %s", targets[t], error.message);
        }
        assert_string_equal(names[0], names[1]);
        assert_int_equal(plain.length, disturbed.length);
        assert_memory_equal(plain.data, disturbed.data, plain.length);
        buffer_free(&plain);
        buffer_free(&disturbed);
    }
}

/* ------------------------------------------------------------------------------------------------ */

static char *saved[sizeof variables / sizeof variables[0]];

static int group_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        saved[i] = value != NULL ? strdup(value) : NULL;
    }
    return folder_temporary(folder, sizeof folder, NULL) == ATTUNE_OK ? 0 : 1;
}

static int restore(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        if (saved[i] != NULL) {
            setenv(variables[i], saved[i], 1);
        } else {
            unsetenv(variables[i]);
        }
    }
    return 0;
}

static int group_close(void **state)
{
    (void)state;
    folder_remove(folder);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        free(saved[i]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(retune_compiles_once_for_each_build, restore),
        cmocka_unit_test_teardown(accept_keeps_serving_and_says_so_once, restore),
        cmocka_unit_test_teardown(explain_tells_of_another_build, restore),
        cmocka_unit_test_teardown(a_compiler_replaced_under_a_running_pool_is_noticed, restore),
        cmocka_unit_test_teardown(two_builds_alternate_in_one_store, restore),
        cmocka_unit_test_teardown(another_build_of_the_product_has_its_own_kernels, restore),
        cmocka_unit_test_teardown(another_build_of_amds_libraries_compiles_once, restore),
        cmocka_unit_test_teardown(environment_of_the_caller_changes_nothing, restore),
    };
    return cmocka_run_group_tests_name("proof_toolchains", tests, group_open, group_close);
}
