/* test_paths.c - a small cover holds every line that any candidate of a template has, measured by the #line directives
 * of what the compiler gets: what `attune verify --cover 10` does not look at is no text of its own. */
#include "generator/generator.h"
#include "tests/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LINES_MAX = 4096, COVER = 10, TEMPLATES = 2 };

static const char *const files[TEMPLATES] = {
    "\"templates/attention_forward_portable.hip\"",
    "\"templates/attention_forward_fragments.hip\"",
};

/* lines of each template that some text was made of */
struct lines {
    bool seen[TEMPLATES][LINES_MAX];
};

static int set_up(void **state)
{
    struct error error = {0};
    struct generator_options options = {.template_path = ""};
    struct generator *generator;
    if (generator_create(&options, &generator, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    *state = generator;
    return 0;
}

static int tear_down(void **state)
{
    generator_destroy(*state);
    return 0;
}

/* add the lines that a text was made of; false when there is no such directive */
static bool add_lines(const char *text, struct lines *lines)
{
    int line = 0, template = 0;
    bool found = false;
    for (const char *at = text; at != NULL && *at != '\0'; at = strchr(at, '\n'), at += at != NULL) {
        int number;
        if (sscanf(at, "#line %d", &number) == 1) {
            const char *end = strchr(at, '\n');
            line = 0;
            for (int i = 0; i < TEMPLATES; i++) {
                const char *name = strstr(at, files[i]);
                if (name != NULL && name < end) {
                    line = number;
                    template = i;
                }
            }
            found |= line > 0;
            continue;
        }
        if (line > 0 && line < LINES_MAX) {
            lines->seen[template][line++] = true;
        }
    }
    return found;
}

static void expand_all(struct generator *generator, const struct candidate_list *list, const struct problem *problem,
                       const struct target *target, struct lines *lines)
{
    struct expansion expansion = {0};
    struct error error = {0};
    for (int i = 0; i < list->count; i++) {
        if (candidate_expand(generator, &list->items[i], problem, target, &expansion, &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        assert_true(add_lines(buffer_string(&expansion.compile), lines));
    }
    expansion_free(&expansion);
}

static void check(struct generator *generator, const char *text, const char *target_text, int count, uint64_t seed)
{
    struct problem problem;
    struct target target;
    struct candidate_list cover, all;
    struct error error = {0};
    static struct lines in_cover, in_space;
    memset(&in_cover, 0, sizeof in_cover);
    memset(&in_space, 0, sizeof in_space);
    if (problem_parse(schema_attention_forward(), text, &problem, &error) != ATTUNE_OK ||
        target_parse(target_text, &target, &error) != ATTUNE_OK ||
        candidate_cover(generator, &problem, &target, count, seed, &cover, &error) != ATTUNE_OK ||
        candidate_enumerate(generator, &problem, &target, &all, &error) != ATTUNE_OK) {
        fail_msg("%s on %s: %s", text, target_text, error.message);
    }
    assert_true(cover.count <= count);
    expand_all(generator, &cover, &problem, &target, &in_cover);
    expand_all(generator, &all, &problem, &target, &in_space);
    int lines = 0;
    for (int i = 0; i < TEMPLATES * LINES_MAX; i++) {
        int template = i / LINES_MAX, line = i % LINES_MAX;
        lines += in_space.seen[template][line];
        if (in_space.seen[template][line] && !in_cover.seen[template][line]) {
            fail_msg("%s on %s, seed %llu: no candidate of the cover has line %d of %s", text, target_text,
                     (unsigned long long)seed, line, files[template]);
        }
    }
    assert_true(lines > 300); /* the directives were understood */
    candidate_list_free(&cover);
    candidate_list_free(&all);
}

static void a_cover_of_ten_has_every_line_of_the_space(void **state)
{
    static const char *const problems[] = {
        "dtype=f16 heads=4 kv_heads=2 seqlen_q=70 seqlen_k=135 head_dim=40 causal=1 lse=1 dropout=0.1",
        "q_dtype=f32 k_dtype=f16 v_dtype=f16 o_dtype=f32 heads=8 kv_heads=2 seqlen_q=1 seqlen_k=300 head_dim=64",
        "dtype=bf16 heads=2 seqlen_q=4 seqlen_k=64 head_dim=128",
        "dtype=f32 heads=2 seqlen_q=64 head_dim=20 causal=top_left lse=1 index=wide",
        "q_dtype=f32 k_dtype=f16 v_dtype=bf16 o_dtype=f32 heads=2 seqlen_q=9 seqlen_k=40 head_dim=33",
        "q_dtype=f32 k_dtype=f16 v_dtype=f16 o_dtype=f32 heads=2 seqlen_q=4096 seqlen_k=77 head_dim=256 dropout=0.1",
    };
    static const char *const targets[] = {"host", "gfx906", "gfx1100", "sm_90a"};
    int seeds = test_size(1, 3), all_targets = test_size(0, 1);
    for (size_t p = 0; p < sizeof problems / sizeof problems[0]; p++) {
        for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
            for (int seed = 1; seed <= seeds && (all_targets || t == p % 4); seed++) {
                check(*state, problems[p], targets[t], COVER, (uint64_t)seed);
            }
        }
    }
}

/* twice as many where two templates serve a problem */
static void a_cover_of_both_templates_has_every_line_of_the_space(void **state)
{
    static const struct {
        const char *target, *problem;
    } cases[] = {
        {"gfx906", "dtype=f16 heads=4 kv_heads=2 seqlen_q=70 seqlen_k=135 head_dim=64 causal=1 lse=1 dropout=0.1"},
        {"sm_80", "dtype=bf16 heads=2 seqlen_q=64 head_dim=128 causal=1 lse=1"},
        {"gfx1100", "dtype=f16 heads=2 seqlen_q=64 head_dim=96 dropout=0.1"},
        {"gfx1201", "dtype=bf16 heads=2 seqlen_q=64 head_dim=80 causal=top_left lse=1 index=wide"},
        {"gfx942", "dtype=f16 heads=2 seqlen_q=4096 seqlen_k=77 head_dim=128 dropout=0.1"},
        {"sm_75", "dtype=f16 heads=2 seqlen_q=4096 seqlen_k=77 head_dim=40 alignment=2"},
    };
    int seeds = test_size(1, 3), count = test_size(3, 6);
    for (int i = 0; i < count; i++) {
        for (int seed = 1; seed <= seeds; seed++) {
            check(*state, cases[i].problem, cases[i].target, 2 * COVER, (uint64_t)seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cover_of_ten_has_every_line_of_the_space),
        cmocka_unit_test(a_cover_of_both_templates_has_every_line_of_the_space),
    };
    return cmocka_run_group_tests_name("paths", tests, set_up, tear_down);
}
