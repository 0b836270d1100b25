/* test_offset_mutants.c - offsets cut to 32 bits in the template: the proof of views over 2^31 elements must fail.
 *
 * The checks of candidates cannot have tensors so large; tests/proof/far_rows.c has, by sparse mappings. It takes its
 * templates from ATTUNE_TEMPLATE_PATH like any program, here a folder with a spoiled one.
 */
#include "base/files.h"
#include "tests/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define TEMPLATE "attention_forward_portable.hip"

static const struct {
    const char *says, *find, *replace;
} mutants[] = {
    {"the offset of a tile of k", "k_begin * k_seq_stride * (i64)sizeof(k_type)",
     "(int)(k_begin * k_seq_stride * (i64)sizeof(k_type))"},
    {"the offset of a tile of v", "k_begin * v_seq_stride * (i64)sizeof(v_type)",
     "(int)(k_begin * v_seq_stride * (i64)sizeof(v_type))"},
    {"the offset of a sequence's q", "q + batch_index * q_batch_stride", "q + (int)(batch_index * q_batch_stride)"},
    {"the offset of a sequence's k", "k + batch_index * k_batch_stride", "k + (int)(batch_index * k_batch_stride)"},
    {"the offset of a head's v", "kv_head * v_head_stride", "(int)(kv_head * v_head_stride)"},
    {"the offset of a block's o", "q_begin * o_seq_stride", "(int)(q_begin * o_seq_stride)"},
    {"offsets inside a tile, index=wide", "typedef i64 row_offset;", "typedef u32 row_offset;"},
};

/* how far_rows ends with this template */
static int run(const char *text, size_t bytes)
{
    char folder[512], path[1024];
    struct error error = {0};
    int ended = -1;
    assert_int_equal(folder_temporary(folder, sizeof folder, &error), ATTUNE_OK);
    snprintf(path, sizeof path, "%s/" TEMPLATE, folder);
    assert_int_equal(file_write(path, text, bytes, &error), ATTUNE_OK);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("ATTUNE_TEMPLATE_PATH", folder, 1);
        setenv("ATTUNE_TEST_SIZE", "ci", 1); /* shows it as well */
        if (freopen("/dev/null", "w", stdout) != NULL && freopen("/dev/null", "w", stderr) != NULL) {
            execl(TEST_BINARY_DIR "/tests/proof/test_proof_far_rows", "far_rows", (char *)NULL);
        }
        _exit(127);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    folder_remove(folder);
    return ended;
}

static void offsets_of_32_bits_are_seen(void **state)
{
    (void)state;
    struct buffer text = BUFFER_INIT;
    struct error error = {0};
    int count = test_size(1, (int)(sizeof mutants / sizeof mutants[0])), passed = 0;
    if (file_read_text(TEST_SOURCE_DIR "/templates/" TEMPLATE, 1 << 20, &text, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    for (int i = test_size(0, -1); i < count; i++) {
        struct buffer spoiled = BUFFER_INIT;
        const char *at = i < 0 ? text.data : strstr(buffer_string(&text), mutants[i].find);
        if (at == NULL) {
            fail_msg("'%s' is stale: the template has no '%s'", mutants[i].says, mutants[i].find);
        }
        buffer_format(&spoiled, "%.*s%s%s", (int)(at - text.data), text.data, i < 0 ? "" : mutants[i].replace,
                      at + (i < 0 ? 0 : strlen(mutants[i].find)));
        int ended = run(buffer_string(&spoiled), spoiled.length);
        buffer_free(&spoiled);
        assert_false(WIFEXITED(ended) && WEXITSTATUS(ended) == 127);
        if (WIFEXITED(ended) && WEXITSTATUS(ended) == 77) {
            print_message("skipped: far_rows is\n");
            skip();
        }
        bool right = WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
        print_message("| %s | %s |\n", i < 0 ? "the template as it is" : mutants[i].says,
                      right                ? "passes"
                      : WIFSIGNALED(ended) ? "crash"
                                           : "fails");
        passed += i < 0 ? 0 : right;
        assert_true(i >= 0 || right);
    }
    buffer_free(&text);
    assert_int_equal(passed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_of_32_bits_are_seen),
    };
    return cmocka_run_group_tests_name("offset_mutants", tests, NULL, NULL);
}
