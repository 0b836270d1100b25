/* test_embedding.c - the library from outside: its symbols, its header in C99 and C++. */
#include "base/buffer.h"
#include "base/files.h"
#include "base/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* runs a program; skips the test when it is not installed */
static void run(struct buffer *output, const char *const *argv)
{
    struct process_options options = {.argv = argv, .seconds = 120, .output_limit = 4 << 20};
    struct process_result result;
    struct error error = {0};
    attune_status status = process_run(&options, &result, &error);
    if (status == ATTUNE_NOT_FOUND) {
        process_result_free(&result);
        print_message("skipped: %s is not installed\n", argv[0]);
        skip();
    }
    if (status != ATTUNE_OK || result.exit_code != 0) {
        fail_msg("%s: %s%s", argv[0], error.message, buffer_string(&result.errors));
    }
    if (output != NULL) {
        buffer_append(output, result.output.data, result.output.length);
    }
    process_result_free(&result);
}

static void the_runtime_has_no_lua_symbol(void **state)
{
    (void)state;
    struct buffer symbols = BUFFER_INIT;
    if (LIBRARY_IS_SHARED) {
        run(&symbols, (const char *const[]){"nm", "-D", LIBRARY, NULL});
        assert_non_null(strstr(buffer_string(&symbols), "attune_prepare"));
        assert_null(strstr(buffer_string(&symbols), "lua_"));
        assert_null(strstr(buffer_string(&symbols), "luaL_"));
        buffer_clear(&symbols);
    }
    run(&symbols, (const char *const[]){"nm", LIBRARY, NULL});
    assert_non_null(strstr(buffer_string(&symbols), "attune_prepare"));
    assert_null(strstr(buffer_string(&symbols), "lua_"));
    assert_null(strstr(buffer_string(&symbols), "luaL_"));
    buffer_free(&symbols);
}

static void every_symbol_shown_has_its_version(void **state)
{
    (void)state;
    struct buffer symbols = BUFFER_INIT;
    int public_symbols = 0;
    if (!LIBRARY_IS_SHARED) {
        print_message("skipped: libattune is static\n");
        skip();
    }
    run(&symbols, (const char *const[]){"nm", "-D", "--defined-only", LIBRARY, NULL});
    for (char *line = strtok(symbols.data, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        const char *name = strrchr(line, ' ') + 1;
        if (strcmp(name, "ATTUNE_0") == 0 || strcmp(name, "ATTUNE_PRIVATE") == 0 || strncmp(name, "__", 2) == 0) {
            continue; /* the version nodes, and what a sanitizer adds */
        }
        bool is_public = strncmp(name, "attune_", 7) == 0;
        if (strstr(name, is_public ? "@@ATTUNE_0" : "@@ATTUNE_PRIVATE") == NULL) {
            fail_msg("%s is shown under no version of its kind", name);
        }
        public_symbols += is_public;
    }
    assert_in_range(public_symbols, 17, 40);
    buffer_free(&symbols);
}

static void the_header_is_c99_and_cxx11(void **state)
{
    (void)state;
    static const char *const languages[][3] = {
        {"cc", "c", "-std=c99"}, {"c++", "c++", "-std=c++11"}, {"c++", "c++", "-std=c++20"}};
    char folder[512], file[600], runtime[600], base[600];
    assert_int_equal(folder_temporary(folder, sizeof folder, NULL), ATTUNE_OK);
    snprintf(file, sizeof file, "%s/alone", folder);
    snprintf(runtime, sizeof runtime, "-I%s/runtime", TEST_SOURCE_DIR);
    snprintf(base, sizeof base, "-I%s/base", TEST_SOURCE_DIR);
    static const char text[] = "#include \"attune.h\"\nint main(void) { return attune_version() == 0; }\n";
    assert_int_equal(file_write(file, text, sizeof text - 1, NULL), ATTUNE_OK);
    for (int i = 0; i < 3; i++) {
        run(NULL, (const char *const[]){languages[i][0], "-x", languages[i][1], languages[i][2], "-Wall", "-Wextra",
                                        "-pedantic", "-Werror", "-fsyntax-only", runtime, base, file, NULL});
    }
    folder_remove(folder);
}

static void a_cxx_program_links_and_runs(void **state)
{
    (void)state;
    char folder[512], program[600], source[600], runtime[600], base[600], place[600];
    struct buffer output = BUFFER_INIT;
    if (!LIBRARY_IS_SHARED || SANITIZERS[0] != '\0') {
        print_message("skipped: libattune is static or sanitized\n");
        skip();
    }
    assert_int_equal(folder_temporary(folder, sizeof folder, NULL), ATTUNE_OK);
    snprintf(program, sizeof program, "%s/embed", folder);
    snprintf(source, sizeof source, "%s/tests/runtime/embed.cpp", TEST_SOURCE_DIR);
    snprintf(runtime, sizeof runtime, "-I%s/runtime", TEST_SOURCE_DIR);
    snprintf(base, sizeof base, "-I%s/base", TEST_SOURCE_DIR);
    snprintf(place, sizeof place, "-Wl,-rpath,%s", TEST_BINARY_DIR);
    run(NULL, (const char *const[]){"c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", runtime, base, source, "-o",
                                    program, LIBRARY, place, NULL});
    run(&output, (const char *const[]){program, NULL});
    assert_non_null(strstr(buffer_string(&output), "heads=2"));
    buffer_free(&output);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_runtime_has_no_lua_symbol),
        cmocka_unit_test(every_symbol_shown_has_its_version),
        cmocka_unit_test(the_header_is_c99_and_cxx11),
        cmocka_unit_test(a_cxx_program_links_and_runs),
    };
    return cmocka_run_group_tests_name("embedding", tests, NULL, NULL);
}
