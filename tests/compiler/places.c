/* places.c - where helper, compilers and temporary files are: odd names, missing ones, full ones, wrong ones. */
#include "tests/compiler/fakes.h"

#include "base/process.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs in a child with a tmpfs of its own as TMPDIR; 0 when all was as it should be, 77 when no such file system may be
 * mounted. */
static int in_a_small_folder(const char *size, const char *body, attune_status expected, const char *in_message)
{
    char place[1100];
    char script[4096];
    (void)snprintf(place, sizeof place, "%s/small", folder);
    (void)mkdir(place, 0700);
    write_script("fake c++", body, script);
    pid_t child = fork();
    if (child == 0) {
        struct error error = {.message = ""};
        struct compiler_pool *pool = NULL;
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", place, "tmpfs", 0, size) != 0) {
            _exit(77);
        }
        (void)setenv("TMPDIR", place, 1);
        (void)setenv("ATTUNE_CXX", script, 1);
        const struct compiler_options options = {.workers = 1};
        if (compiler_pool_create(&options, &pool, &error) != ATTUNE_OK) {
            _exit(1);
        }
        attune_status status = compile_with(pool, HOST_KERNEL, &error, NULL);
        compiler_pool_destroy(pool);
        print_message("%s: %s\n", attune_status_name(status), error.message);
        _exit(status != expected || strstr(error.message, in_message) == NULL || entries_in(place, "") != 0);
    }
    int state = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &state, 0), child);
    assert_true(WIFEXITED(state));
    return WEXITSTATUS(state);
}

static void full_temporary_folder_falls_back(void **state)
{
    (void)state;
    int result = in_a_small_folder("size=64k", "exec c++ \"$@\"", ATTUNE_OK, "");
    if (result == 77) {
        print_message("skipped: mounting a tmpfs is not permitted here\n");
        skip();
    }
    assert_int_equal(result, 0);
}

static void folder_filled_by_a_compile_is_named(void **state)
{
    (void)state;
    int result = in_a_small_folder("size=512k", "cat /dev/zero > \"$TMPDIR/much\"; exit 1", ATTUNE_IO, "set TMPDIR");
    if (result == 77) {
        print_message("skipped: mounting a tmpfs is not permitted here\n");
        skip();
    }
    assert_int_equal(result, 0);
}

static void missing_compiler_names_the_variable(void **state)
{
    (void)state;
    struct error error = {.message = ""};
    assert_int_equal(setenv("ATTUNE_CXX", "/nowhere/c++", 1), 0);
    struct compiler_pool *pool = pool_with(1, 0, 0);
    assert_int_equal(compile_with(pool, HOST_KERNEL, &error, NULL), ATTUNE_NO_TOOLCHAIN);
    assert_non_null(strstr(error.message, "ATTUNE_CXX"));
    compiler_pool_destroy(pool);
}

static void missing_lld_is_said_plainly(void **state)
{
    (void)state;
    char script[4096];
    (void)snprintf(script, sizeof script, "%s/clang without lld", folder);
    FILE *file = fopen(script, "w");
    assert_non_null(file);
    (void)fputs("#!/bin/sh\ncase \"$*\" in\n*--version*) echo 'clang version 22.9.9';;\n*--print-supported-cpus*) echo "
                "' gfx942';;\n"
                "*) echo lld-that-is-not-there;;\nesac\n",
                file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(script, 0700), 0);
    assert_int_equal(setenv("ATTUNE_CLANG", script, 1), 0);
    struct compiler_pool *pool = pool_with(1, 0, 0);
    struct error error = {.message = ""};
    struct compile_request request = request_for("gfx942", AMD_KERNEL);
    struct compile_result result = {.seconds = 0};
    request.compiler = COMPILER_CLANG;
    assert_int_equal(compile_request_once(pool, &request, &result, &error), ATTUNE_NO_TOOLCHAIN);
    assert_non_null(strstr(error.message, "lld-22"));
    compile_result_free(&result);
    request = request_for("gfx1201", AMD_KERNEL);
    request.compiler = COMPILER_CLANG;
    assert_int_equal(compile_request_once(pool, &request, &result, &error), ATTUNE_NO_TOOLCHAIN);
    assert_non_null(strstr(error.message, "clang 22.9"));
    compile_result_free(&result);
    compiler_pool_destroy(pool);
}

static void missing_helper_names_the_variable(void **state)
{
    (void)state;
    struct compiler_pool *pool = NULL;
    struct error error = {.message = ""};
    assert_int_equal(setenv("ATTUNE_HELPER", "/nowhere/attune-helper", 1), 0);
    assert_int_equal(compiler_pool_create(NULL, &pool, &error), ATTUNE_NO_TOOLCHAIN);
    assert_null(pool);
    assert_non_null(strstr(error.message, "ATTUNE_HELPER"));
    /* a program that is no helper */
    assert_int_equal(setenv("ATTUNE_HELPER", "/bin/cat", 1), 0);
    pool = pool_with(1, 5, 0);
    assert_int_equal(compile_with(pool, HOST_KERNEL, &error, NULL), ATTUNE_NO_TOOLCHAIN);
    assert_non_null(strstr(error.message, "/bin/cat"));
    compiler_pool_destroy(pool);
}

/* worker folders are made under TMPDIR, whatever its name, and are gone with the pool */
static void temporary_folder_with_odd_name_works(void **state)
{
    (void)state;
    char place[4200];
    struct error error = {.message = ""};
    (void)snprintf(place, sizeof place, "%s/tmp 'é \"x\" $y", folder);
    assert_int_equal(mkdir(place, 0700), 0);
    assert_int_equal(setenv("TMPDIR", place, 1), 0);
    struct compiler_pool *pool = pool_with(1, 0, 0);
    attune_status status = compile_with(pool, HOST_KERNEL, &error, NULL);
    if (status == ATTUNE_OK) {
        assert_int_equal(entries_in(place, "attune"), 1);
    }
    compiler_pool_destroy(pool);
    assert_int_equal(entries_in(place, ""), 0);
    SKIP_IF_MISSING(status, error);
}

static void every_compiler_works_in_an_odd_temporary_folder(void **state)
{
    (void)state;
    static const char *const targets[] = {"gfx906", "gfx950", "sm_90a"};
    char place[4200];
    (void)snprintf(place, sizeof place, "%s/odd 测试'\"$;", folder);
    assert_int_equal(mkdir(place, 0700), 0);
    assert_int_equal(setenv("TMPDIR", place, 1), 0);
    struct compiler_pool *pool = pool_with(1, 0, 0);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        struct error error = {.message = ""};
        struct compile_request request = request_for(targets[i], "");
        struct compile_result result = {.seconds = 0};
        request.source = kernel_for(&request.target);
        request.source_bytes = strlen(request.source);
        attune_status status = compile_request_once(pool, &request, &result, &error);
        if (status == ATTUNE_NO_TOOLCHAIN) {
            print_message("%s skipped: %s\n", targets[i], error.message);
        } else if (status != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        compile_result_free(&result);
    }
    compiler_pool_destroy(pool);
    assert_int_equal(entries_in(place, ""), 0);
}

static void missing_temporary_folder_falls_back(void **state)
{
    (void)state;
    struct error error = {.message = ""};
    assert_int_equal(setenv("TMPDIR", "/nowhere/at all", 1), 0);
    struct compiler_pool *pool = pool_with(1, 0, 0);
    attune_status status = compile_with(pool, HOST_KERNEL, &error, NULL);
    compiler_pool_destroy(pool);
    SKIP_IF_MISSING(status, error);
}

/* a helper under a path with blanks, quotes and non-ASCII, reached through a link */
static void helper_with_odd_path_works(void **state)
{
    (void)state;
    char path[4200];
    struct error error = {.message = ""};
    (void)snprintf(path, sizeof path, "%s/helper 'ü \"q\"", folder);
    assert_int_equal(symlink(helper_path(), path), 0);
    assert_int_equal(setenv("ATTUNE_HELPER", path, 1), 0);
    struct compiler_pool *pool = pool_with(1, 0, 0);
    attune_status status = compile_with(pool, HOST_KERNEL, &error, NULL);
    compiler_pool_destroy(pool);
    SKIP_IF_MISSING(status, error);
}

/* whatever a program answers instead of frames of this release is refused before its length is believed */
static void answers_that_are_no_frames_are_refused(void **state)
{
    (void)state;
    static const char *const answers[][2] = {
        {"printf 'ATNH\\002\\000\\000\\000\\001\\000\\000\\000\\377\\377\\377\\377\\0\\0\\0\\0'; sleep 100", "limit"},
        {"printf 'ATNH\\377\\000\\000\\000\\001\\000\\000\\000\\000\\000\\000\\000\\0\\0\\0\\0'; sleep 100",
         "same release"},
        {"echo 'hello, this is no frame at all'; sleep 100", "no message of attune's programs"},
        {"echo 'cannot load libsomething' >&2; exit 3", "cannot load libsomething"},
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        char script[4096];
        struct error error = {.message = ""};
        (void)snprintf(script, sizeof script, "%s/no helper", folder);
        FILE *file = fopen(script, "w");
        assert_non_null(file);
        (void)fprintf(file, "#!/bin/sh\n%s\n", answers[i][0]);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(chmod(script, 0700), 0);
        assert_int_equal(setenv("ATTUNE_HELPER", script, 1), 0);
        struct compiler_pool *pool = pool_with(1, 0, 0);
        assert_int_equal(compile_with(pool, HOST_KERNEL, &error, NULL), ATTUNE_NO_TOOLCHAIN);
        compiler_pool_destroy(pool);
        if (strstr(error.message, answers[i][1]) == NULL) {
            fail_msg("%s", error.message);
        }
    }
}

/* the helper's side: a request over the limit ends it, and its folder goes */
static void helper_ends_on_requests_over_the_limit(void **state)
{
    (void)state;
    char place[4096];
    char hello[20];
    struct process process;
    const unsigned char header[20] = {'A', 'T', 'N', 'H', 2, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f};
    const char *helper = helper_path();
    (void)snprintf(place, sizeof place, "%s/served", folder);
    assert_int_equal(mkdir(place, 0700), 0);
    const char *const argv[] = {helper, "--serve", place, NULL};
    const struct process_options options = {.argv = argv};
    assert_int_equal(process_start(&options, &process, NULL), ATTUNE_OK);
    double deadline = clock_seconds() + 60;
    assert_int_equal(process_read(&process, hello, sizeof hello, deadline, 0, NULL), ATTUNE_OK);
    assert_memory_equal(hello, header, 8);
    assert_int_equal(process_write(&process, header, sizeof header, deadline, NULL), ATTUNE_OK);
    assert_int_equal(process_read(&process, hello, 1, deadline, 0, NULL), ATTUNE_IO);
    process_kill(&process);
    assert_int_not_equal(access(place, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(full_temporary_folder_falls_back),
        TEST(folder_filled_by_a_compile_is_named),
        TEST(missing_compiler_names_the_variable),
        TEST(missing_lld_is_said_plainly),
        TEST(missing_helper_names_the_variable),
        TEST(temporary_folder_with_odd_name_works),
        TEST(every_compiler_works_in_an_odd_temporary_folder),
        TEST(missing_temporary_folder_falls_back),
        TEST(helper_with_odd_path_works),
        TEST(answers_that_are_no_frames_are_refused),
        TEST(helper_ends_on_requests_over_the_limit),
    };
    return cmocka_run_group_tests(tests, fakes_open, fakes_close);
}
