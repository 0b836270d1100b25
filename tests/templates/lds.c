/* Default candidates have no bank conflicts where the inner loop reads shared memory, on any target, under the target's
 * stated rule; and what is not conflict-free is counted as such. */
#include "autotune/lds_count.h"
#include "tests/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct generator *generator;
static struct compiler_pool *pool;

static int set_up(void **state)
{
    (void)state;
    const struct generator_options options = {.template_path = ""};
    const struct compiler_options one = {.workers = 1};
    struct error error = {.message = ""};
    if (generator_create(&options, &generator, &error) != ATTUNE_OK ||
        compiler_pool_create(&one, &pool, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    generator_destroy(generator);
    compiler_pool_destroy(pool);
    return 0;
}

/* Size ci takes the targets named here, or with NULL all of them: the sizes whose rows are no power of two, and tiles
 * of few keys, where they meet most banks twice unless rows lie in the order of the lanes. Size full takes everything.
 */
static const struct looked_at {
    const char *problem, *ci_targets;
} looked_at[] = {
    {"dtype=f16 batch=1 heads=2 seqlen_q=512 seqlen_k=2048 head_dim=64", NULL},
    {"dtype=f32 batch=1 heads=2 seqlen_q=512 seqlen_k=2048 head_dim=128", NULL},
    {"dtype=f16 batch=1 heads=2 seqlen_q=512 seqlen_k=2048 head_dim=40", "gfx906"},
    {"dtype=f16 batch=1 heads=2 seqlen_q=512 seqlen_k=2048 head_dim=80", "gfx1011"},
    {"dtype=f16 batch=1 heads=2 seqlen_q=512 seqlen_k=2048 head_dim=96", "gfx906"},
    {"dtype=f16 batch=1 heads=2 seqlen_q=512 seqlen_k=2048 head_dim_qk=192 head_dim_v=128", "gfx1100"},
    {"dtype=f16 batch=1 heads=2 seqlen_q=512 seqlen_k=2048 head_dim=256", "gfx906 gfx950"},
    {"dtype=f16 batch=1 heads=2 seqlen_q=512 seqlen_k=2048 head_dim=128", ""},
    {"dtype=f16 batch=1 heads=2 seqlen_q=1 seqlen_k=2048 head_dim=128", ""},
    {"dtype=bf16 batch=1 heads=2 seqlen_q=512 seqlen_k=2048 head_dim=128 causal=1", ""},
    {"dtype=bf16 batch=1 heads=2 seqlen_q=512 seqlen_k=2048 head_dim=80", ""},
    {"dtype=f32 batch=1 heads=2 seqlen_q=512 seqlen_k=2048 head_dim=64", ""},
    {"dtype=f32 batch=1 heads=2 seqlen_q=1 seqlen_k=2048 head_dim=256", ""},
    {"dtype=f16 q_dtype=f32 o_dtype=f32 batch=1 heads=4 kv_heads=2 seqlen_q=100 seqlen_k=2048 head_dim=64 dropout=0.1",
     ""},
};

static void parse(const char *problem_text, const char *target_text, struct problem *problem, struct target *target)
{
    struct error error = {.message = ""};
    char text[512];
    snprintf(text, sizeof text, "attention.forward %s", problem_text);
    const struct schema *schema = generator_schema(generator, "attention.forward");
    if (problem_parse(schema, text, problem, &error) != ATTUNE_OK ||
        target_parse(target_text, target, &error) != ATTUNE_OK) {
        fail_msg("%s for %s: %s", text, target_text, error.message);
    }
}

static void count_or_skip(const struct candidate *candidate, const struct problem *problem, const struct target *target,
                          struct lds_count *count)
{
    struct error error = {.message = ""};
    attune_status status = lds_count_candidate(generator, pool, candidate, problem, target, 1, count, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: no C++ compiler for the host device\n");
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

static uint64_t inner_read_conflicts(const struct lds_count *count, const char *tell)
{
    uint64_t conflicts = 0, reads = 0;
    for (int i = 0; i < count->line_count; i++) {
        const struct lds_line *line = &count->lines[i];
        if (!line->inner || (line->kind != HOST_ACCESS_READ && line->kind != HOST_ACCESS_ROWS)) {
            continue;
        }
        reads += line->count;
        conflicts += line->cycles - line->ideal;
        if (tell != NULL && line->cycles != line->ideal) {
            char text[128];
            lds_count_text(count, line->line, text, sizeof text);
            print_error("%s: %llu clocks where %llu would do: %s\n", tell, (unsigned long long)line->cycles,
                        (unsigned long long)line->ideal, text);
        }
    }
    assert_true(reads > 0);
    return conflicts;
}

/* Targets whose default and rule are the same have the same text and the same conflicts: one of them is looked at. */
enum { SEEN_MAX = 512, KEY_BYTES = CANDIDATE_TEXT_BYTES + PROBLEM_TEXT_BYTES + 64 };
static char seen[SEEN_MAX][KEY_BYTES];
static int seen_count;

static bool is_new(const struct candidate *candidate, const struct problem *problem, const struct target *target)
{
    char name[CANDIDATE_TEXT_BYTES], text[PROBLEM_TEXT_BYTES], key[KEY_BYTES];
    struct error error = {.message = ""};
    json_t *facts = NULL;
    assert_int_equal(generator_target_facts(generator, target, &facts, &error), ATTUNE_OK);
    candidate_format(candidate, name);
    problem_format(problem, text, NULL);
    snprintf(key, sizeof key, "%s %s %s", json_string_value(json_object_get(json_object_get(facts, "lds"), "name")),
             name, text);
    json_decref(facts);
    for (int i = 0; i < seen_count; i++) {
        if (strcmp(seen[i], key) == 0) {
            return false;
        }
    }
    assert_true(seen_count < SEEN_MAX);
    strcpy(seen[seen_count++], key);
    return true;
}

/* 0 when a target with the same text was looked at */
static uint64_t conflicts_of_default(const char *problem_text, const char *target_text)
{
    struct problem problem;
    struct target target;
    struct candidate candidate;
    struct lds_count count;
    struct error error = {.message = ""};
    char tell[256];
    parse(problem_text, target_text, &problem, &target);
    assert_int_equal(candidate_default(generator, &problem, &target, &candidate, &error), ATTUNE_OK);
    if (!is_new(&candidate, &problem, &target)) {
        return 0;
    }
    snprintf(tell, sizeof tell, "%s, %s", target_text, problem_text);
    count_or_skip(&candidate, &problem, &target, &count);
    const uint64_t conflicts = inner_read_conflicts(&count, tell);
    lds_count_free(&count);
    return conflicts;
}

static void defaults_read_without_conflicts_in_the_inner_loop(void **state)
{
    (void)state;
    uint64_t conflicts = 0;
    for (size_t p = 0; p < sizeof looked_at / sizeof looked_at[0]; p++) {
        const char *const only = test_size(0, 1) ? NULL : looked_at[p].ci_targets;
        for (int i = 0; i < generator_target_count(generator); i++) {
            const char *name = generator_target_name(generator, i);
            if (only == NULL || strstr(only, name) != NULL) {
                conflicts += conflicts_of_default(looked_at[p].problem, name);
            }
        }
    }
    print_message("%d defaults looked at\n", seen_count);
    assert_int_equal(conflicts, 0);
}

/* lds_layout is a choice that shows: plain rows are in conflict, padded and swizzled ones are not */
static void layouts_differ_where_they_should(void **state)
{
    (void)state;
    static const struct {
        const char *target, *candidate;
        bool conflicts;
    } cases[] = {
        {"gfx900", "lds_layout=row", true},   {"gfx900", "lds_layout=padded kv_buffers=2", false},
        {"gfx900", "lds_layout=xor", false},  {"gfx1010", "lds_layout=row", true},
        {"gfx1010", "lds_layout=xor", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct problem problem;
        struct target target;
        struct candidate candidate;
        struct lds_count count;
        struct error error = {.message = ""};
        parse(looked_at[0].problem, cases[i].target, &problem, &target);
        if (candidate_parse(generator, cases[i].candidate, &problem, &target, &candidate, &error) != ATTUNE_OK) {
            fail_msg("%s: %s", cases[i].candidate, error.message);
        }
        count_or_skip(&candidate, &problem, &target, &count);
        const bool conflicts = inner_read_conflicts(&count, NULL) > 0;
        if (conflicts != cases[i].conflicts) {
            fail_msg("%s on %s: %s", cases[i].candidate, cases[i].target, conflicts ? "conflicts" : "no conflict");
        }
        lds_count_free(&count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_read_without_conflicts_in_the_inner_loop),
        cmocka_unit_test(layouts_differ_where_they_should),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
