/* test_judge_mutants.c - mistakes planted in the templates of the judging kernels: the CPU's reference must see each.
 *
 * A mutant is a file in a folder of templates, which takes the embedded one's place. What a spoiled kernel does to its
 * process it does to a child.
 */
#include "base/files.h"
#include "child.h"
#include "tests/autotune/judge_trial.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define REFERENCE "attention_reference.hip"
#define COMPARE "attention_compare.hip"

static const struct {
    const char *file, *says, *find, *replace;
} mutants[] = {
    {REFERENCE, "a query sees one key too many", "(i64)row + 1 + seqlen_k - seqlen_q",
     "(i64)row + 2 + seqlen_k - seqlen_q"},
    {REFERENCE, "a query sees one key too few", "(i64)row + 1 + seqlen_k - seqlen_q", "(i64)row + seqlen_k - seqlen_q"},
    {REFERENCE, "top_left is off by one", "visible[r] = (i64)row + 1;", "visible[r] = (i64)row;"},
    {REFERENCE, "the last key is left out", "        visible[r] = seqlen_k;", "        visible[r] = seqlen_k - 1;"},
    {REFERENCE, "KV heads are interleaved", "head / (heads / kv_heads)", "head % kv_heads"},
    {REFERENCE, "q: heads for sequences", "batch_index * q_batch_stride", "batch_index * q_head_stride"},
    {REFERENCE, "k: sequences for heads", "kv_head * k_head_stride", "kv_head * k_batch_stride"},
    {REFERENCE, "v: the next row's columns", "(begin + i) * v_seq_stride + c", "(begin + i + 1) * v_seq_stride + c"},
    {REFERENCE, "the sum is not rescaled", "sum_of[r] * exponential(maximum_of[r] - scaled) + 1.0", "sum_of[r] + 1.0"},
    {REFERENCE, "the naive sum is not rescaled",
     "naive_sum[r] * (float)exponential(naive_maximum[r] - naive_scaled) + 1.0f", "naive_sum[r] + 1.0f"},
    {REFERENCE, "the maximum starts at 0", "maximum_of[r] = -(double)INFINITY_FLOAT;", "maximum_of[r] = 0.0;"},
    {REFERENCE, "the last thread's sum is not merged",
     "++i)\n            if (partial[thread * THREADS + i] != 0.0)  // a",
     "++i)\n            if (i + 1 < THREADS && partial[thread * THREADS + i] != 0.0)  // a"},
    {REFERENCE, "the dropout mask is a row off", "(u32)(q_begin + r), ", "(u32)(q_begin + r + 1), "},
    {REFERENCE, "the dropout mask is another head's", "(u32)heads + (u32)head, (u32)offset", "(u32)heads, (u32)offset"},
    {REFERENCE, "halves of a draw are swapped", "half % 2 * 16", "(1 - half % 2) * 16"},
    {REFERENCE, "six Philox rounds", "round < 7", "round < 6"},
    {REFERENCE, "kept weights are not scaled", "(double)dropout_scale : 0.0", "1.0 : 0.0"},
    {REFERENCE, "scores are scaled twice", "const double scaled = score[r] * scale;",
     "const double scaled = score[r] * scale * scale;"},
    {REFERENCE, "lse lacks the sum", "mine[MAXIMUM] + logarithm(mine[SUM])", "mine[MAXIMUM]"},
    {REFERENCE, "lse of an empty row is 0", "mine[SUM] == 0.0 ? -(double)INFINITY_FLOAT : mine[MAXIMUM]",
     "mine[SUM] == 0.0 ? 0.0 : mine[MAXIMUM]"},
    {REFERENCE, "the bound lacks the naive error", "2.0 * square_root(difference)", "0.0 * square_root(difference)"},
    {REFERENCE, "the bound of o is doubled", "(ROUNDOFF + 0x1p-22", "2.0 * (ROUNDOFF + 0x1p-22"},
    {REFERENCE, "the bound of lse lacks the keys",
     "square_root(query_norm) *\n                                                       square_root(mine[KEY_NORM])",
     "square_root(query_norm)"},
    {REFERENCE, "an empty row may err", "(mine[SUM] == 0.0 ? 0.0 : 0x1p-110)", "0x1p-110"},
    {REFERENCE, "the last column is left out", "if (c >= HEAD_DIM_V)\n                    continue;",
     "if (c >= HEAD_DIM_V - 1)\n                    continue;"},
    {COMPARE, "the last column is not compared", "c < HEAD_DIM_V; c += SHARE", "c < HEAD_DIM_V - 1; c += SHARE"},
    {COMPARE, "a row's last share is not added", "for (int i = 0; i < SHARE; ++i)",
     "for (int i = 0; i < SHARE - 1; ++i)"},
    {COMPARE, "NaN passes", "return ratio > 1.0f ? ratio : INFINITY_FLOAT;  // NaN too", "return ratio;"},
    {COMPARE, "lse is not looked at", "worst = worst > ratio ? worst : ratio;", ";"},
    {COMPARE, "o: heads for rows", "row * o_seq_stride", "row * o_head_stride"},
    {COMPARE, "the last row is not looked at", "row >= seqlen_q)\n        return;",
     "row >= seqlen_q - 1)\n        return;"},
    {COMPARE, "squares are not rooted", "ratio_of(square_root(squares), allowed[index])",
     "ratio_of(squares, allowed[index])"},
};

static bool differs(const char **what, struct trial *t, struct bench *b)
{
    *what = trial_difference(t);
    if (*what == NULL && !judged_right(b, t)) {
        *what = "the naive algorithm does not pass";
    }
    return *what != NULL;
}

/* of outputs that are wrong in one element of the last row, in all of it, or in its lse */
static const char *missed(struct trial *t, struct bench *b)
{
    const struct attention *a = &t->a;
    size_t size = dtype_size(a->o.dtype);
    char *row = t->o + (size_t)(a->o.span - a->head_dim_v) * size;
    for (int64_t c = 0; c < a->head_dim_v; c++) {
        char kept[8];
        memcpy(kept, row + (size_t)c * size, size);
        convert_from_float(a->o.dtype, &(float){c % 2 == 0 ? 77.0f : NAN}, row + (size_t)c * size, 1);
        if (judged_right(b, t)) {
            return c % 2 == 0 ? "a wrong element passes" : "NaN passes";
        }
        memcpy(row + (size_t)c * size, kept, size);
    }
    t->lse[t->cpu.count - 1] += 1.0f;
    if (a->lse && judged_right(b, t)) {
        return "a wrong lse passes";
    }
    t->lse[t->cpu.count - 1] -= 1.0f;
    spoil(t, a->batch - 1, a->heads - 1, a->seqlen_q - 1, 1.05f);
    return judged_right(b, t) ? "a row 5 % off passes" : NULL;
}

/* what the CPU sees of a judge made of the templates in `folder`; NULL: nothing */
static const char *fault(struct compiler_pool *pool, const char *folder)
{
    static struct bench b;
    struct generator_options options = {.template_path = folder};
    struct target target;
    const char *what = NULL;
    assert_int_equal(target_parse("host", &target, &b.error), ATTUNE_OK);
    assert_int_equal(driver_get("host", &b.host, &b.error), ATTUNE_OK);
    if (generator_create(&options, &b.generator, &b.error) != ATTUNE_OK ||
        road_open(&b.road, pool, NULL, &target, SANITIZE_NONE, true, &b.error) != ATTUNE_OK) {
        return "no generator or compiler";
    }
    for (int i = 0; i < JUDGE_PROBLEMS && what == NULL; i++) {
        for (int kind = 0; kind < INPUT_KINDS && what == NULL; kind++) {
            struct trial t;
            if (!trial_begin(&b, judge_problems[i], kind, &t)) {
                return b.error.status == ATTUNE_DEVICE_FAILED ? "stopped by the host device" : b.error.message;
            }
            what = differs(&what, &t, &b) ? what : kind == INPUT_NORMAL ? missed(&t, &b) : NULL;
            trial_end(&t);
        }
    }
    generator_destroy(b.generator);
    return what;
}

static void read_template(const char *name, struct buffer *text)
{
    char path[1024];
    struct error error = {0};
    snprintf(path, sizeof path, "%s/templates/%s", TEST_SOURCE_DIR, name);
    if (file_read_text(path, 1 << 20, text, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

/* the fault, found by a child; "" none */
static void look(const char *file, const char *text, size_t bytes, enum host_schedule schedule, char found[256])
{
    char folder[512], path[1024];
    int ends[2], ended;
    struct error error = {0};
    assert_int_equal(folder_temporary(folder, sizeof folder, &error), ATTUNE_OK);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    assert_int_equal(file_write(path, text, bytes, &error), ATTUNE_OK);
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct compiler_pool *pool;
        child_dies_alone();
        alarm(240);
        host_device_set_schedule(schedule);
        const char *what = compiler_pool_create(NULL, &pool, &error) == ATTUNE_OK ? fault(pool, folder) : error.message;
        bool told = what == NULL || write(ends[1], what, strlen(what)) > 0;
        compiler_pool_destroy(pool);
        _exit(told ? 0 : 1);
    }
    close(ends[1]);
    ssize_t length = read(ends[0], found, 255);
    found[length > 0 ? length : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &ended, 0), child);
    if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0) {
        snprintf(found, 256, "crash");
    }
    folder_remove(folder);
}

static void the_cpu_sees_every_mistake_planted_in_the_judge(void **state)
{
    (void)state;
    char found[256];
    int passed = 0;
    for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
        struct buffer text = BUFFER_INIT, spoiled = BUFFER_INIT;
        read_template(mutants[i].file, &text);
        const char *at = strstr(buffer_string(&text), mutants[i].find);
        if (at == NULL) {
            fail_msg("'%s' is stale: %s has no '%s'", mutants[i].says, mutants[i].file, mutants[i].find);
        }
        buffer_format(&spoiled, "%.*s%s%s", (int)(at - buffer_string(&text)), buffer_string(&text), mutants[i].replace,
                      at + strlen(mutants[i].find));
        look(mutants[i].file, buffer_string(&spoiled), spoiled.length, HOST_ROUND_ROBIN, found);
        print_message("| %s | %s | %s |\n", mutants[i].file, mutants[i].says, found);
        passed += found[0] == '\0';
        buffer_free(&text);
        buffer_free(&spoiled);
    }
    assert_int_equal(passed, 0);
}

/* each line of the templates that is a barrier, whatever there will be */
static void the_cpu_sees_every_barrier_that_the_judge_lacks(void **state)
{
    (void)state;
    static const char *const files[] = {REFERENCE, COMPARE};
    int barriers = 0, passed = 0;
    for (size_t f = 0; f < 2; f++) {
        struct buffer text = BUFFER_INIT;
        read_template(files[f], &text);
        for (char *at = strstr(text.data, "barrier();\n"); at != NULL; at = strstr(at + 1, "barrier();\n")) {
            char found[256] = "";
            memcpy(at, "(void)0  ;", 10);
            for (int schedule = 0; schedule < 3 && found[0] == '\0'; schedule++) {
                look(files[f], text.data, text.length, (enum host_schedule)schedule, found);
            }
            memcpy(at, "barrier();", 10);
            barriers++;
            print_message("| %s | barrier %d removed | %s |\n", files[f], barriers, found);
            passed += found[0] == '\0';
        }
        buffer_free(&text);
    }
    assert_true(barriers >= 10);
    assert_int_equal(passed, 0);
}

static void the_templates_as_they_are_pass(void **state)
{
    (void)state;
    struct buffer text = BUFFER_INIT;
    char found[256];
    read_template(REFERENCE, &text);
    look(REFERENCE, buffer_string(&text), text.length, HOST_ROUND_ROBIN, found);
    assert_string_equal(found, "");
    buffer_free(&text);
}

int main(void)
{
    int skip = judge_trial_skip();
    if (skip != 0) {
        return skip;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_templates_as_they_are_pass),
        cmocka_unit_test(the_cpu_sees_every_mistake_planted_in_the_judge),
        cmocka_unit_test(the_cpu_sees_every_barrier_that_the_judge_lacks),
    };
    return cmocka_run_group_tests_name("judge_mutants", tests, NULL, NULL);
}
