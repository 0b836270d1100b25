/* Runs whose compiler fails for many candidates or for all. */
#include "loop_family.h"

#include "autotune/tune.h"

#include <stdlib.h>
#include <sys/stat.h>

enum { MODES = 30 };

/* a compiler that fails for kernels whose name has `which` in it, with a message of its own for each process if `alike`
 * is false */
static void use_failing_compiler(const char *folder, const char *which, bool alike)
{
    char path[700], text[8192];
    snprintf(text, sizeof text,
             "#!/bin/sh\ncase \"$*\" in *' -') ;; *) exec c++ \"$@\";; esac\ncat > %s/source.$$\n"
             "if grep -q %s %s/source.$$; then\n  name=$(grep -o 'loop_r[0-9]*' %s/source.$$ | head -1 | tr 0-9 "
             "ghijklmnop)\n"
             "  echo \"<stdin>:$$: error: no header %s\" >&2; rm %s/source.$$; exit 1\nfi\n"
             "c++ \"$@\" < %s/source.$$; code=$?; rm %s/source.$$; exit $code\n",
             folder, which, folder, folder, alike ? "" : "$name", folder, folder, folder);
    assert_int_equal(path_join(path, sizeof path, folder, "cxx", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, text, strlen(text), NULL), ATTUNE_OK);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(setenv("ATTUNE_CXX", path, 1), 0);
}

static attune_status tune(const char *which, bool alike, int count, struct tune_result *result, struct error *error)
{
    char folder[512], store_folder[600], modes[256] = "1";
    struct compiler_pool *pool;
    struct store *store;
    struct problem problem;
    for (int i = 2; i <= MODES; i++) {
        snprintf(modes + strlen(modes), sizeof modes - strlen(modes), ", %d", i);
    }
    assert_int_equal(folder_temporary(folder, sizeof folder, NULL), ATTUNE_OK);
    assert_int_equal(path_join(store_folder, sizeof store_folder, folder, "store", NULL), ATTUNE_OK);
    use_failing_compiler(folder, which, alike);
    struct generator *generator = loop_family(folder, modes, "1");
    assert_int_equal(compiler_pool_create(NULL, &pool, NULL), ATTUNE_OK);
    assert_int_equal(store_open(store_folder, &store, NULL), ATTUNE_OK);
    assert_int_equal(problem_parse(generator_schema(generator, "loop"), "loop n=70", &problem, NULL), ATTUNE_OK);
    const struct tune_options options = {
        .device = "host", .seed = 1, .budget_candidates = count, .accept_stored = true};
    attune_status status = tune_run(generator, pool, store, &problem, &options, NULL, NULL, result, error);
    store_close(store);
    compiler_pool_destroy(pool);
    generator_destroy(generator);
    folder_remove(folder);
    assert_int_equal(unsetenv("ATTUNE_CXX"), 0);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error->message);
        skip();
    }
    return status;
}

/* A broken compiler is found out soon, whatever --count says; failures that differ are the candidates' own. */
static void a_compiler_that_always_fails_ends_the_run(void **state)
{
    (void)state;
    struct tune_result result;
    struct error error = {.message = ""};
    assert_int_equal(tune("loop_r", true, 0, &result, &error), ATTUNE_COMPILE_FAILED);
    assert_non_null(strstr(error.message, "; 17 compile-error ("));
    assert_non_null(strstr(error.message, "no header"));
    assert_non_null(strstr(error.message, "all fail alike"));
    assert_int_equal(tune("loop_r", false, 0, &result, &error), ATTUNE_COMPILE_FAILED);
    assert_non_null(strstr(error.message, "; 30 compile-error ("));
    assert_null(strstr(error.message, "all fail alike"));
}

static void what_does_not_compile_counts(void **state)
{
    (void)state;
    struct tune_result result;
    struct error error = {.message = ""};
    assert_int_equal(tune("loop_r", false, 4, &result, &error), ATTUNE_COMPILE_FAILED);
    assert_non_null(strstr(error.message, "; 4 compile-error ("));
    assert_int_equal(tune("'loop_r[2-9]'", true, 6, &result, &error), ATTUNE_OK);
    assert_int_equal(result.record.tried, 6);
    assert_true(result.counts.failed > 0);
    assert_int_equal(result.ending, TUNE_COUNT);
    assert_false(result.record.complete);
    tune_result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_compiler_that_always_fails_ends_the_run),
        cmocka_unit_test(what_does_not_compile_counts),
    };
    return cmocka_run_group_tests(tests, parts_set_up, parts_tear_down);
}
