/* `attune run`: right arrays give the closed form, wrong ones are refused by name and write nothing. */
#include "program.h"

#include "base/files.h"
#include "cli/npy.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEQLEN = 5, HEADS = 2, DIM = 16, ELEMENTS = SEQLEN * HEADS * DIM };
#define PROBLEM "dtype=f32 batch=1 heads=2 seqlen_q=5 head_dim=16 causal=1"

static void write_array(const char *path, enum npy_dtype dtype, int64_t seqlen, const void *data)
{
    const int64_t shape[] = {1, seqlen, HEADS, DIM};
    struct error error = {0};
    if (npy_write(path, dtype, 4, shape, data, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

/* zero scores: every row is the mean of the values it sees */
static void make_inputs(void)
{
    float q[ELEMENTS] = {0}, k[ELEMENTS], v[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        k[i] = 1;
        v[i] = (float)(i / (HEADS * DIM));
    }
    write_array(scratch("q.npy"), NPY_F4, SEQLEN, q);
    write_array(scratch("k.npy"), NPY_F4, SEQLEN, k);
    write_array(scratch("v.npy"), NPY_F4, SEQLEN, v);
}

static void run_with(const char *problem, const char *q, const char *word, const char *value)
{
    attune("run", "--device", "host", "--problem", problem, "--q", q, "--k", scratch("k.npy"), "--v", scratch("v.npy"),
           "--o", scratch("o.npy"), word, value, NULL);
}

static bool host_compiler_is_there(void)
{
    bool there = strstr(buffer_string(&attune("doctor", NULL)->output), "++ ") != NULL;
    if (!there) {
        print_message("skipped: no C++ compiler for the host device\n");
    }
    return there;
}

static void zero_scores_give_means(void **state)
{
    (void)state;
    make_inputs();
    run_with(PROBLEM, scratch("q.npy"), "--seed=1", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("--seed");
    run_with(PROBLEM " lse=1", scratch("q.npy"), "--lse", scratch("lse.npy"));
    if (!host_compiler_is_there()) {
        skip();
    }
    run_with(PROBLEM " lse=1", scratch("q.npy"), "--lse", scratch("lse.npy"));
    exits_with(EXIT_IS_DONE);
    struct buffer file = BUFFER_INIT;
    struct npy npy;
    assert_int_equal(npy_read(scratch("o.npy"), &file, &npy, NULL), ATTUNE_OK);
    assert_int_equal(npy.dtype, NPY_F4);
    assert_int_equal(npy.rank, 4);
    for (int i = 0; i < ELEMENTS; i++) {
        float value;
        memcpy(&value, file.data + npy.offset + (size_t)i * sizeof value, sizeof value);
        assert_true(fabsf(value - (float)(i / (HEADS * DIM)) / 2) < 1e-5f);
    }
    buffer_free(&file);
    assert_int_equal(npy_read(scratch("lse.npy"), &file, &npy, NULL), ATTUNE_OK);
    assert_int_equal(npy.rank, 3);
    for (int i = 0; i < HEADS * SEQLEN; i++) {
        float value;
        memcpy(&value, file.data + npy.offset + (size_t)i * sizeof value, sizeof value);
        assert_true(fabsf(value - logf((float)(i % SEQLEN + 1))) < 1e-5f);
    }
    buffer_free(&file);
    unlink(scratch("o.npy"));
}

/* float64 is rounded to the problem's dtype, and outputs have it: bits of bf16 as uint16, f16 as float16 */
static void narrow_dtypes_are_read_from_float64_and_written_as_asked(void **state)
{
    (void)state;
    if (!host_compiler_is_there()) {
        skip();
    }
    static const struct {
        const char *problem;
        enum npy_dtype dtype;
        uint16_t (*narrow)(double value);
    } cases[] = {
        {"dtype=bf16 batch=1 heads=2 seqlen_q=5 head_dim=16 causal=1", NPY_U2, bfloat_from_double},
        {"dtype=f16 batch=1 heads=2 seqlen_q=5 head_dim=16 causal=1", NPY_F2, half_from_double},
    };
    double q[ELEMENTS] = {0}, v[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        v[i] = (double)(i / (HEADS * DIM));
    }
    write_array(scratch("q.npy"), NPY_F8, SEQLEN, q);
    write_array(scratch("k.npy"), NPY_F8, SEQLEN, q);
    write_array(scratch("v.npy"), NPY_F8, SEQLEN, v);
    for (size_t at = 0; at < sizeof cases / sizeof cases[0]; at++) {
        run_with(cases[at].problem, scratch("q.npy"), NULL, NULL);
        exits_with(EXIT_IS_DONE);
        struct buffer file = BUFFER_INIT;
        struct npy npy;
        assert_int_equal(npy_read(scratch("o.npy"), &file, &npy, NULL), ATTUNE_OK);
        assert_int_equal(npy.dtype, cases[at].dtype);
        for (int i = 0; i < ELEMENTS; i++) {
            uint16_t bits;
            memcpy(&bits, file.data + npy.offset + (size_t)i * sizeof bits, sizeof bits);
            assert_int_equal(bits, cases[at].narrow(i / (HEADS * DIM) / 2.0)); /* means of 0..n are exact in both */
        }
        buffer_free(&file);
        unlink(scratch("o.npy"));
    }
}

static void wrong_arrays_are_refused_and_nothing_is_written(void **state)
{
    (void)state;
    make_inputs();
    uint16_t halves[ELEMENTS] = {0};
    write_array(scratch("half.npy"), NPY_F2, SEQLEN, halves);
    float long_rows[ELEMENTS * 2] = {0};
    write_array(scratch("long.npy"), NPY_F4, SEQLEN * 2, long_rows);
    struct buffer whole = BUFFER_INIT;
    assert_int_equal(file_read(scratch("q.npy"), 1 << 20, &whole, NULL), ATTUNE_OK);
    assert_int_equal(file_write(scratch("cut.npy"), whole.data, whole.length - 1, NULL), ATTUNE_OK);
    buffer_free(&whole);
    static const struct {
        const char *file;
        const char *named[2];
    } cases[] = {
        {"half.npy", {"--q: the array is float16", "q_dtype=f32"}},
        {"long.npy", {"--q: axis 1 has 10 elements", "seqlen_q=5"}},
        {"cut.npy", {"--q", "truncated"}},
        {"none.npy", {"--q", "none.npy"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_with(PROBLEM, scratch(cases[i].file), NULL, NULL);
        exits_with(strcmp(cases[i].file, "none.npy") == 0 ? EXIT_IS_FAILED : EXIT_IS_USAGE);
        complains(cases[i].named[0]);
        complains(cases[i].named[1]);
        assert_int_not_equal(access(scratch("o.npy"), F_OK), 0);
    }
    run_with(PROBLEM, scratch("q.npy"), "--lse", scratch("lse2.npy"));
    exits_with(EXIT_IS_USAGE);
    complains("--lse needs a problem with lse=1");
    attune("run", "--device", "host", "--problem", PROBLEM, "--q", scratch("q.npy"), NULL);
    exits_with(EXIT_IS_USAGE);
    complains("--k is missing");
    run_with("test.scale elements=3", scratch("q.npy"), NULL, NULL);
    exits_with(EXIT_IS_FAILED);
    complains("not of test.scale");
}

/* a file size limit is a full disk to us; its signal does not end the program, or an engine that embeds the library */
static void a_file_size_limit_is_an_error_not_an_end(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    print_message("skipped: ThreadSanitizer writes a file of its own before main\n");
    skip();
#endif
    make_inputs();
    char script[8192];
    snprintf(script, sizeof script,
             "ulimit -f 0; exec \"$0\" run --device host --problem '" PROBLEM "' --q '%s' --k '%s' --v '%s' --o '%s'",
             scratch("q.npy"), scratch("k.npy"), scratch("v.npy"), scratch("limited.npy"));
    assert_int_equal(attune_in_shell(script)->signal, 0);
    assert_true(attune_in_shell(script)->exit_code > 0);
    assert_int_not_equal(access(scratch("limited.npy"), F_OK), 0);
}

/* 64 KiB are less than some systems' smallest thread; compilers, which need more, get the usual size from the helper */
static void a_small_stack_is_enough(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("skipped: sanitizers need a stack of their own\n");
    skip();
#endif
    if (!host_compiler_is_there()) {
        skip();
    }
    attune_in_shell("ulimit -S -s 64; exec \"$0\" tune --device host --count 2 --problem '" PROBLEM "'");
    exits_with(EXIT_IS_DONE);
    attune_in_shell("ulimit -S -s 64; exec \"$0\" explain --device host --problem '" PROBLEM "'");
    exits_with(EXIT_IS_DONE);
    attune_in_shell("ulimit -S -s 64; exec \"$0\" cache verify");
    exits_with(EXIT_IS_DONE);
    attune_in_shell("ulimit -S -s 64; exec \"$0\" doctor");
    exits_with(EXIT_IS_DONE);
}

/* an output that cannot be written, or is also something else, must not cost another output or an input */
static void outputs_are_checked_before_anything_runs(void **state)
{
    (void)state;
    make_inputs();
    char q[4096], lse[4096];
    snprintf(q, sizeof q, "%s", scratch("q.npy"));
    snprintf(lse, sizeof lse, "%s", scratch("lse-folder"));
    assert_int_equal(mkdir(lse, 0700), 0);
    unlink(scratch("o.npy"));
    run_with(PROBLEM " lse=1", q, "--lse", lse);
    exits_with(EXIT_IS_USAGE);
    complains("is a folder");
    run_with(PROBLEM " lse=1", q, "--lse", scratch("o.npy"));
    exits_with(EXIT_IS_USAGE);
    complains("--o and --lse are the same file");
    run_with(PROBLEM " lse=1", q, "--lse", q);
    exits_with(EXIT_IS_USAGE);
    complains("--q and --lse are the same file");
    run_with(PROBLEM " lse=1", q, "--lse", scratch("nowhere/lse.npy"));
    exits_with(EXIT_IS_FAILED);
    complains("--lse");
    run_with(PROBLEM, q, "--scale", "0");
    exits_with(EXIT_IS_USAGE);
    complains("--scale 0");
    assert_int_not_equal(access(scratch("o.npy"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_scores_give_means),
        cmocka_unit_test(narrow_dtypes_are_read_from_float64_and_written_as_asked),
        cmocka_unit_test(wrong_arrays_are_refused_and_nothing_is_written),
        cmocka_unit_test(a_file_size_limit_is_an_error_not_an_end),
        cmocka_unit_test(a_small_stack_is_enough),
        cmocka_unit_test(outputs_are_checked_before_anything_runs),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
