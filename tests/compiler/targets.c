/* targets.c - small kernels through every compiler that is here; absent ones are skipped by name. */
#include "tests/compiler/fixture.h"

#include <dlfcn.h>
#include <jansson.h>
#include <unistd.h>

static struct compiler_pool *pool;

static void compile_and_disassemble(const char *target, enum compiler_kind kind, const char *mnemonic)
{
    struct compile_request request = request_for(target, "");
    struct compile_result first = {.seconds = 0};
    struct compile_result second = {.seconds = 0};
    struct buffer text = BUFFER_INIT;
    struct error error = {.message = ""};
    request.source = kernel_for(&request.target);
    request.source_bytes = strlen(request.source);
    request.compiler = kind;
    attune_status status = compile_request_once(pool, &request, &first, &error);
    SKIP_IF_MISSING(status, error);
    assert_true(first.object.length > 64);
    assert_memory_equal(first.object.data, "\177ELF", 4);
    assert_int_equal(strlen(first.identity), DIGEST_HEX_BYTES - 1);
    assert_true(first.compiler[0] != '\0');
    assert_true(first.seconds > 0);
    /* same input, same bytes */
    assert_int_equal(compile_request_once(pool, &request, &second, &error), ATTUNE_OK);
    assert_int_equal(first.object.length, second.object.length);
    assert_memory_equal(first.object.data, second.object.data, first.object.length);
    assert_string_equal(first.identity, second.identity);
    /* the identity is known without a compile and is the same */
    char compiler[64];
    char identity[DIGEST_HEX_BYTES];
    assert_int_equal(compiler_identity(pool, &request.target, kind, SANITIZE_NONE, compiler, identity, &error),
                     ATTUNE_OK);
    assert_string_equal(compiler, first.compiler);
    assert_string_equal(identity, first.identity);
    status = compiler_disassemble(pool, &request.target, first.object.data, first.object.length, &text, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("%s: %s\n", target, error.message);
    } else if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    } else {
        assert_non_null(strstr(text.data, mnemonic));
        assert_non_null(strstr(text.data, request.target.vendor == TARGET_HOST ? "attune_host_entry" : "test_kernel"));
    }
    print_message("%s: %s, %zu bytes, %.3f s\n", target, first.compiler, first.object.length, first.seconds);
    buffer_free(&text);
    compile_result_free(&first);
    compile_result_free(&second);
}

#define TARGET_TEST(name, target, mnemonic)                                                                            \
    static void name(void **state)                                                                                     \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        compile_and_disassemble(target, COMPILER_AUTO, mnemonic);                                                      \
    }
TARGET_TEST(gfx900_compiles, "gfx900", "s_endpgm")
TARGET_TEST(gfx906_compiles, "gfx906", "s_endpgm")
TARGET_TEST(gfx906_with_features_compiles, "gfx906:sramecc+:xnack-", "s_endpgm")
TARGET_TEST(gfx908_compiles, "gfx908", "s_endpgm")
TARGET_TEST(gfx90a_compiles, "gfx90a", "s_endpgm")
TARGET_TEST(gfx942_compiles, "gfx942", "s_endpgm")
TARGET_TEST(gfx950_compiles, "gfx950", "s_endpgm")
TARGET_TEST(gfx1030_compiles, "gfx1030", "s_endpgm")
TARGET_TEST(gfx1100_compiles, "gfx1100", "s_endpgm")
TARGET_TEST(gfx1201_compiles, "gfx1201", "s_endpgm")
TARGET_TEST(sm_80_compiles, "sm_80", "EXIT")
TARGET_TEST(sm_90a_compiles, "sm_90a", "EXIT")
TARGET_TEST(host_compiles, "host", "ret")
TARGET_TEST(emulated_host_compiles, "host-gfx906", "ret")

static void clang_serves_what_hiprtc_also_knows(void **state)
{
    (void)state;
    compile_and_disassemble("gfx906", COMPILER_CLANG, "s_endpgm");
}

static void code_object_version_is_as_asked(void **state)
{
    (void)state;
    for (int version = 4; version <= 5; version++) {
        struct compile_request request = request_for("gfx906", AMD_KERNEL);
        struct compile_result result = {.seconds = 0};
        struct error error = {.message = ""};
        request.code_object = version;
        attune_status status = compile_request_once(pool, &request, &result, &error);
        SKIP_IF_MISSING(status, error);
        assert_int_equal(result.object.data[8] + 2, version);
        compile_result_free(&result);
    }
    assert_int_equal(setenv("ATTUNE_CODE_OBJECT", "7", 1), 0);
    struct compile_request request = request_for("gfx906", AMD_KERNEL);
    struct compile_result result = {.seconds = 0};
    struct error error = {.message = ""};
    assert_int_equal(compile_request_once(pool, &request, &result, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "ATTUNE_CODE_OBJECT"));
    assert_int_equal(unsetenv("ATTUNE_CODE_OBJECT"), 0);
    compile_result_free(&result);
}

/* loaded as the host driver does, and run */
static void host_object_is_closed_and_runs(void **state)
{
    (void)state;
    struct compile_request request = request_for("host", HOST_KERNEL);
    struct compile_result result = {.seconds = 0};
    struct error error = {.message = ""};
    char path[] = "/tmp/attune-test-XXXXXX";
    float values[256];
    float *pointer = values;
    attune_status status = compile_request_once(pool, &request, &result, &error);
    SKIP_IF_MISSING(status, error);
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, result.object.data, result.object.length), result.object.length);
    assert_int_equal(close(file), 0);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fail_msg("%s", dlerror());
    }
    void (*entry)(const void *, const void *) = NULL;
    *(void **)&entry = dlsym(library, "attune_host_entry");
    assert_non_null(entry);
    for (int i = 0; i < 256; i++) {
        values[i] = (float)i;
    }
    entry(NULL, &pointer);
    assert_true(values[0] == 510.0f && values[255] == 0.0f);
    (void)dlclose(library);
    (void)unlink(path);
    compile_result_free(&result);
}

static void unknown_name_in_a_host_kernel_is_named(void **state)
{
    (void)state;
    struct compile_request request =
        request_for("host", "#line 7 \"templates/test.hip\"\nextern \"C\" int bogus_function();\nextern \"C\" int "
                            "attune_host_entry() { return bogus_function(); }\n");
    struct compile_result result = {.seconds = 0};
    struct error error = {.message = ""};
    attune_status status = compile_request_once(pool, &request, &result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        SKIP_IF_MISSING(status, error);
    }
    assert_int_equal(status, ATTUNE_COMPILE_FAILED);
    assert_non_null(strstr(error.message, "bogus_function"));
    compile_result_free(&result);
}

static void sanitized_objects_call_their_runtime(void **state)
{
    (void)state;
    static const char *const marks[] = {"", "__asan_", "__tsan_"};
    for (int sanitize = SANITIZE_ADDRESS; sanitize <= SANITIZE_THREAD; sanitize++) {
        struct compile_request request = request_for("host", HOST_KERNEL);
        struct compile_result result = {.seconds = 0};
        struct error error = {.message = ""};
        request.sanitize = (enum sanitize)sanitize;
        attune_status status = compile_request_once(pool, &request, &result, &error);
        SKIP_IF_MISSING(status, error);
        assert_non_null(memmem(result.object.data, result.object.length, marks[sanitize], strlen(marks[sanitize])));
        compile_result_free(&result);
    }
}

/* an error shows the template's file and line, in the message and in the log, for every compiler */
static void errors_name_template_and_line(void **state)
{
    (void)state;
    static const char *const targets[] = {"gfx906", "gfx950", "sm_90a", "host"};
    int tried = 0;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        struct compile_request request =
            request_for(targets[i], "\n#line 41 \"templates/broken.hip\"\nstruct whole { int value; };\n"
                                    "struct broken { undeclared_name value; };\n");
        struct compile_result result = {.seconds = 0};
        struct error error = {.message = ""};
        attune_status status = compiler_compile(pool, &request, &result, &error);
        if (status == ATTUNE_NO_TOOLCHAIN) {
            print_message("%s skipped: %s\n", targets[i], error.message);
        } else {
            tried++;
            assert_int_equal(status, ATTUNE_COMPILE_FAILED);
            assert_non_null(strstr(error.message, "templates/broken.hip"));
            assert_non_null(strstr(error.message, "42"));
            assert_non_null(strstr(error.message, "undeclared_name"));
            assert_non_null(strstr(error.message, targets[i]));
            assert_non_null(strstr(result.log.data, "undeclared_name"));
            assert_int_equal(result.object.length, 0);
        }
        compile_result_free(&result);
    }
    if (tried == 0) {
        skip();
    }
}

/* a vector type that NVRTC does not have must fail, not silently become a scalar */
static void unknown_attribute_is_an_error_for_nvrtc(void **state)
{
    (void)state;
    struct compile_request request =
        request_for("sm_90a", "typedef float float4v __attribute__((ext_vector_type(4)));\nextern \"C\" __global__ "
                              "void k(float4v *x) { x[0] = x[1]; }\n");
    struct compile_result result = {.seconds = 0};
    struct error error = {.message = ""};
    attune_status status = compile_request_once(pool, &request, &result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        SKIP_IF_MISSING(status, error);
    }
    assert_int_equal(status, ATTUNE_COMPILE_FAILED);
    compile_result_free(&result);
}

static void requests_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct compile_request request = request_for("gfx906", AMD_KERNEL);
    struct compile_result result = {.seconds = 0};
    struct error error = {.message = ""};
    request.compiler = COMPILER_NVRTC;
    assert_int_equal(compile_request_once(pool, &request, &result, &error), ATTUNE_INVALID);
    request.compiler = COMPILER_AUTO;
    request.sanitize = SANITIZE_THREAD;
    assert_int_equal(compile_request_once(pool, &request, &result, &error), ATTUNE_INVALID);
    request = request_for("host", HOST_KERNEL);
    request.source_bytes++; /* takes the final NUL in */
    assert_int_equal(compile_request_once(pool, &request, &result, &error), ATTUNE_INVALID);
    request.source = NULL;
    assert_int_equal(compile_request_once(pool, &request, &result, &error), ATTUNE_INVALID);
    request = request_for("gfx999", AMD_KERNEL);
    assert_int_equal(compile_request_once(pool, &request, &result, &error), ATTUNE_NO_TOOLCHAIN);
    request = request_for("sm_999", NVIDIA_KERNEL);
    assert_int_equal(compile_request_once(pool, &request, &result, &error), ATTUNE_NO_TOOLCHAIN);
    compile_result_free(&result);
}

static void option_texts_tell_flags_apart(void **state)
{
    (void)state;
    struct target amd;
    struct target host;
    assert_int_equal(target_parse("gfx906", &amd, NULL), ATTUNE_OK);
    assert_int_equal(target_parse("host", &host, NULL), ATTUNE_OK);
    const char *four = compiler_options_text(&amd, COMPILER_AUTO, SANITIZE_NONE, 4);
    const char *five = compiler_options_text(&amd, COMPILER_AUTO, SANITIZE_NONE, 5);
    assert_string_not_equal(four, five);
    assert_string_equal(four, compiler_options_text(&amd, COMPILER_AUTO, SANITIZE_NONE, 4));
    assert_int_equal(setenv("ATTUNE_CODE_OBJECT", "4", 1), 0);
    assert_string_equal(four, compiler_options_text(&amd, COMPILER_AUTO, SANITIZE_NONE, 0));
    assert_int_equal(unsetenv("ATTUNE_CODE_OBJECT"), 0);
    assert_string_not_equal(compiler_options_text(&host, COMPILER_AUTO, SANITIZE_NONE, 0),
                            compiler_options_text(&host, COMPILER_AUTO, SANITIZE_THREAD, 0));
    for (int kind = COMPILER_AUTO; kind <= COMPILER_HOST; kind++) {
        assert_null(strstr(compiler_options_text(&amd, (enum compiler_kind)kind, SANITIZE_NONE, 0), "fast-math"));
        assert_null(strstr(compiler_options_text(&amd, (enum compiler_kind)kind, SANITIZE_NONE, 0), "finite"));
    }
}

static void survey_lists_every_compiler(void **state)
{
    (void)state;
    struct buffer text = BUFFER_INIT;
    struct error error = {.message = ""};
    static const char *const wanted[] = {"hiprtc", "clang", "nvrtc", "host", "disassembler"};
    if (compiler_survey(pool, &text, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    json_t *list = json_loads(buffer_string(&text), 0, NULL);
    assert_true(json_is_array(list));
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        bool seen = false;
        size_t index;
        json_t *entry;
        json_array_foreach(list, index, entry)
        {
            if (strcmp(json_string_value(json_object_get(entry, "compiler")), wanted[i]) == 0) {
                seen = true;
                if (json_is_true(json_object_get(entry, "found"))) {
                    assert_true(json_array_size(json_object_get(entry, "files")) > 0);
                    assert_true(json_array_size(json_object_get(entry, "targets")) > 0);
                } else {
                    assert_true(strlen(json_string_value(json_object_get(entry, "note"))) > 0);
                }
            }
        }
        assert_true(seen);
    }
    json_decref(list);
    buffer_free(&text);
}

static int open_pool(void **state)
{
    (void)state;
    pool = pool_with(2, 0, 0);
    return 0;
}

static int close_pool(void **state)
{
    (void)state;
    compiler_pool_destroy(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gfx900_compiles),
        cmocka_unit_test(gfx906_compiles),
        cmocka_unit_test(gfx906_with_features_compiles),
        cmocka_unit_test(gfx908_compiles),
        cmocka_unit_test(gfx90a_compiles),
        cmocka_unit_test(gfx942_compiles),
        cmocka_unit_test(gfx950_compiles),
        cmocka_unit_test(gfx1030_compiles),
        cmocka_unit_test(gfx1100_compiles),
        cmocka_unit_test(gfx1201_compiles),
        cmocka_unit_test(sm_80_compiles),
        cmocka_unit_test(sm_90a_compiles),
        cmocka_unit_test(host_compiles),
        cmocka_unit_test(emulated_host_compiles),
        cmocka_unit_test(clang_serves_what_hiprtc_also_knows),
        cmocka_unit_test(code_object_version_is_as_asked),
        cmocka_unit_test(host_object_is_closed_and_runs),
        cmocka_unit_test(unknown_name_in_a_host_kernel_is_named),
        cmocka_unit_test(sanitized_objects_call_their_runtime),
        cmocka_unit_test(errors_name_template_and_line),
        cmocka_unit_test(unknown_attribute_is_an_error_for_nvrtc),
        cmocka_unit_test(requests_that_make_no_sense_are_refused),
        cmocka_unit_test(option_texts_tell_flags_apart),
        cmocka_unit_test(survey_lists_every_compiler),
    };
    return cmocka_run_group_tests(tests, open_pool, close_pool);
}
