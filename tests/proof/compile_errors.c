/* compile_errors.c - B31: what a compiler says reaches who asked, whatever it says and however it hands it over. */
#include "base/files.h"
#include "generator/compiler_options.h"
#include "road.h"
#include "runtime/attune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBLEM "attention.forward dtype=f32 heads=1 seqlen_q=8 seqlen_k=8 head_dim=16"

static char folder[512];
static const char *const variables[] = {"LD_LIBRARY_PATH", "FAKE_LOG", "ATTUNE_TEMPLATE_PATH", "ATTUNE_CXX"};

static void in_folder(const char *name, char path[1024])
{
    snprintf(path, 1024, "%s/%s", folder, name);
}

static void contains(const char *message, const char *text)
{
    if (strstr(message, text) == NULL) {
        fail_msg("\"%s\" is not in: %s", text, message);
    }
}

/* the file that the message names at its end holds the text */
static void source_is_kept(const char *message, const char *text)
{
    static const char mark[] = "its source is kept as ";
    struct buffer source = BUFFER_INIT;
    contains(message, mark);
    const char *path = strstr(message, mark) + sizeof mark - 1;
    if (file_read(path, 1 << 20, &source, NULL) != ATTUNE_OK) {
        fail_msg("there is no file %s", path);
    }
    contains(buffer_string(&source), text);
    buffer_free(&source);
}

/* ------------------------------------------------------------------------------------------------ a faulty template */

static void break_template(const char *line)
{
    char templates[1024], file[1100];
    struct buffer text = BUFFER_INIT;
    in_folder("templates", templates);
    snprintf(file, sizeof file, "%s/attention_forward_portable.hip", templates);
    (void)mkdir(templates, 0700);
    assert_int_equal(file_read(TEST_SOURCE_DIR "/templates/attention_forward_portable.hip", 1 << 20, &text, NULL),
                     ATTUNE_OK);
    buffer_text(&text, line);
    assert_int_equal(file_write(file, text.data, text.length, NULL), ATTUNE_OK);
    buffer_free(&text);
    setenv("ATTUNE_TEMPLATE_PATH", templates, 1);
}

/* B31: every compiler's own "error:" line, the options, the target, the template's line, and the source on disk */
static void a_faulty_template_is_shown_with_all_that_matters(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        enum compiler_kind kind;
    } cases[] = {
        {"host", COMPILER_HOST}, {"gfx906", COMPILER_HIPRTC}, {"gfx1100", COMPILER_CLANG}, {"sm_90a", COMPILER_NVRTC}};
    break_template("\nthis_is_no_type x;\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[1024];
        struct store *store;
        struct object_job job;
        struct error error = {0};
        in_folder("faulty", path);
        assert_int_equal(store_open(path, &store, NULL), ATTUNE_OK);
        attune_status status = road_obtain(store, cases[i].target, PROBLEM, &job, &error);
        object_job_free(&job);
        store_close(store);
        if (status == ATTUNE_NO_TOOLCHAIN) {
            print_message("%s skipped: %s\n", cases[i].target, error.message);
            continue;
        }
        assert_int_equal(status, ATTUNE_COMPILE_FAILED);
        contains(error.message, "this_is_no_type");
        contains(error.message, "error:");
        contains(error.message, "templates/attention_forward_portable.hip");
        contains(error.message, cases[i].target);
        contains(error.message, compiler_flags(cases[i].kind, SANITIZE_NONE, 0));
        source_is_kept(error.message, "this_is_no_type");
    }
}

static void redirect_errors(int *saved)
{
    char path[1024];
    in_folder("told", path);
    fflush(stderr);
    *saved = dup(2);
    assert_non_null(freopen(path, "we", stderr));
}

static void restore_errors(int saved, struct buffer *text)
{
    char path[1024];
    in_folder("told", path);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    assert_int_equal(file_read(path, 4 << 20, text, NULL), ATTUNE_OK);
}

/* a prepare of the host device: status, and the message of the context */
static attune_status prepare(const char *store, char message[4096])
{
    char path[1024];
    attune_context *context;
    attune_device *device;
    attune_problem *problem;
    attune_plan *plan;
    in_folder(store, path);
    const attune_context_options options = {.size = sizeof options, .store = path, .jit = ATTUNE_JIT_COMPILE};
    assert_int_equal(attune_context_create(&options, &context), ATTUNE_OK);
    assert_int_equal(attune_jit_register(context), ATTUNE_OK);
    assert_int_equal(attune_device_open(context, "host", &device), ATTUNE_OK);
    assert_int_equal(attune_problem_parse(context, PROBLEM, &problem), ATTUNE_OK);
    attune_status status = attune_prepare(device, problem, NULL, &plan);
    attune_last_error(context, message, 4096);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    attune_context_destroy(context);
    return status;
}

/* B31: the caller of attune_prepare gets it all */
static void the_caller_of_prepare_gets_the_compilers_words(void **state)
{
    (void)state;
    char message[4096];
    break_template("\nthis_is_no_type x;\n");
    attune_status status = prepare("called", message);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", message);
        skip();
    }
    assert_int_equal(status, ATTUNE_COMPILE_FAILED);
    contains(message, "error:");
    contains(message, "this_is_no_type");
    contains(message, compiler_flags(COMPILER_HOST, SANITIZE_NONE, 0));
    source_is_kept(message, "this_is_no_type");
}

/* B31: success with a megabyte of warnings prints nothing and leaves no message */
static void success_with_warnings_is_quiet(void **state)
{
    (void)state;
    static const char script[] = "#!/bin/sh\nyes 'x.hip:1:1: warning: again' | head -c 1048576 >&2\nexec c++ \"$@\"\n";
    char path[1024], message[4096];
    struct buffer told = BUFFER_INIT;
    int saved;
    in_folder("warner", path);
    assert_int_equal(file_write(path, script, sizeof script - 1, NULL), ATTUNE_OK);
    assert_int_equal(chmod(path, 0700), 0);
    setenv("ATTUNE_CXX", path, 1);
    redirect_errors(&saved);
    attune_status status = prepare("warned", message);
    restore_errors(saved, &told);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", message);
        skip();
    }
    assert_int_equal(status, ATTUNE_OK);
    assert_string_equal(message, "");
    assert_string_equal(buffer_string(&told), "");
    buffer_free(&told);
}

/* ------------------------------------------------------------------------------------------------ hiprtc's logs */

/* B31: sizes with and without the NUL, long logs, failing queries */
static void logs_of_every_shape_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *mode;
        bool works;
        const char *message; /* in the message, when it fails; in the log, when it works */
    } cases[] = {
        {"bare", false, "templates/x.hip:7:3: error: the fake refuses"},
        {"counted", false, "templates/x.hip:7:3: error: the fake refuses"},
        {"long", false, "templates/x.hip:7:3: error: the fake refuses"},
        {"longer", false, "templates/x.hip:7:3: error: the fake refuses"},
        {"no-size", false, "the compiler's log cannot be read: HIPRTC_ERROR_INTERNAL_ERROR"},
        {"no-log", false, "the compiler's log cannot be read: HIPRTC_ERROR_INTERNAL_ERROR"},
        {"absurd", false, "the compiler's log cannot be read"},
        {"warnings", true, "warning: the fake warns"},
        {"quiet", true, ""},
    };
    setenv("LD_LIBRARY_PATH", FAKE_LIBRARIES, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[1024];
        struct store *store;
        struct object_job job;
        struct error error = {0};
        in_folder(cases[i].mode, path);
        setenv("FAKE_LOG", cases[i].mode, 1);
        assert_int_equal(store_open(path, &store, NULL), ATTUNE_OK);
        attune_status status = road_obtain(store, "gfx906", PROBLEM, &job, &error);
        store_close(store);
        if (status != (cases[i].works ? ATTUNE_OK : ATTUNE_COMPILE_FAILED)) {
            fail_msg("%s: %s: %s", cases[i].mode, attune_status_name(status), error.message);
        }
        assert_true(job.log.length <= 1 << 20);
        if (cases[i].works) {
            contains(buffer_string(&job.log), cases[i].message);
        } else {
            contains(error.message, cases[i].message);
            contains(error.message, "HIPRTC_ERROR_COMPILATION");
            contains(error.message, "gfx906");
            contains(error.message, compiler_flags(COMPILER_HIPRTC, SANITIZE_NONE, 0));
            source_is_kept(error.message, "attention_forward");
        }
        object_job_free(&job);
    }
}

/* ------------------------------------------------------------------------------------------------ */

static char *saved_values[sizeof variables / sizeof variables[0]];

static int group_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        saved_values[i] = value != NULL ? strdup(value) : NULL;
    }
    return folder_temporary(folder, sizeof folder, NULL) == ATTUNE_OK ? 0 : 1;
}

static int restore(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        if (saved_values[i] != NULL) {
            setenv(variables[i], saved_values[i], 1);
        } else {
            unsetenv(variables[i]);
        }
    }
    return 0;
}

static int group_close(void **state)
{
    restore(state);
    folder_remove(folder);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        free(saved_values[i]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_faulty_template_is_shown_with_all_that_matters, restore),
        cmocka_unit_test_teardown(the_caller_of_prepare_gets_the_compilers_words, restore),
        cmocka_unit_test_teardown(success_with_warnings_is_quiet, restore),
        cmocka_unit_test_teardown(logs_of_every_shape_are_read, restore),
    };
    return cmocka_run_group_tests_name("proof_compile_errors", tests, group_open, group_close);
}
