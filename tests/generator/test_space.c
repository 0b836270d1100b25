/* Spaces: candidates by name, constraints with reasons, enumeration against brute force, covers, expansion's
 * descriptor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support.h"
#include "tests/cover_list.h"

#include <stdlib.h>

struct toy {
    struct generator *generator;
    struct problem problem;
    struct target target;
    struct error error;
};

static void toy_open(struct toy *toy, const char *problem, const char *target)
{
    memset(toy, 0, sizeof *toy);
    toy->generator = open_generator(TOY_FOLDER);
    toy_setup(toy->generator, problem, target, &toy->problem, &toy->target);
}

static void assert_parses(struct toy *toy, const char *text, const char *name)
{
    struct candidate candidate;
    char formatted[CANDIDATE_TEXT_BYTES];
    if (candidate_parse(toy->generator, text, &toy->problem, &toy->target, &candidate, &toy->error) != ATTUNE_OK) {
        fail_msg("%s: %s", text, toy->error.message);
    }
    candidate_format(&candidate, formatted);
    assert_string_equal(formatted, name);
}

static void assert_parse_fails(struct toy *toy, const char *text, attune_status expected, const char *part)
{
    struct candidate candidate;
    assert_int_equal(candidate_parse(toy->generator, text, &toy->problem, &toy->target, &candidate, &toy->error),
                     expected);
    assert_contains(toy->error.message, part);
}

static void candidates_are_read_from_text(void **state)
{
    (void)state;
    struct toy toy;
    struct candidate candidate;
    toy_open(&toy, TOY_PROBLEM, "gfx906");
    assert_parses(&toy, "", "toy.scale/plain threads=128 unroll=2 order=up wide=no");
    assert_parses(&toy, " order=down threads=64 ", "toy.scale/plain threads=64 unroll=2 order=down wide=no");
    assert_parses(&toy, "toy.scale/plain unroll=4", "toy.scale/plain threads=128 unroll=4 order=up wide=no");
    assert_parses(&toy, "toy.scale/plain wide=yes order=up unroll=1 threads=64",
                  "toy.scale/plain threads=64 unroll=1 order=up wide=yes");
    assert_parse_fails(&toy, "block_q=64", ATTUNE_INVALID,
                       "toy.scale/plain has no parameter 'block_q'; its parameters are: threads, unroll, order, wide");
    assert_parse_fails(&toy, "threads=100", ATTUNE_INVALID,
                       "threads=100 is outside its domain in toy.scale/plain: 32, 64, 128, 256");
    assert_parse_fails(&toy, "threads=64 threads=64", ATTUNE_INVALID, "parameter threads is given twice");
    assert_parse_fails(&toy, "threads", ATTUNE_INVALID, "'threads' is not parameter=value");
    assert_parse_fails(&toy, "toy.scale/fast", ATTUNE_NOT_FOUND, "has no template 'fast'; its templates are: plain");
    assert_parse_fails(&toy, "toy/plain", ATTUNE_NOT_FOUND, "there is no family 'toy'; families are: ");
    assert_int_equal(candidate_parse(toy.generator, "threads=64", NULL, NULL, &candidate, &toy.error), ATTUNE_INVALID);
    assert_int_equal(candidate_parse(toy.generator, "toy.scale/plain threads=64", NULL, NULL, &candidate, &toy.error),
                     ATTUNE_INVALID);
    assert_contains(toy.error.message, "lacks the parameter unroll");
    assert_int_equal(candidate_parse(toy.generator, "toy.scale/plain threads=64 unroll=1 order=up wide=no", NULL, NULL,
                                     &candidate, &toy.error),
                     ATTUNE_OK);
    generator_destroy(toy.generator);
}

static void a_broken_constraint_gives_its_reason_and_the_candidate(void **state)
{
    (void)state;
    struct toy toy;
    struct candidate candidate;
    struct expansion expansion = {.shown = BUFFER_INIT, .compile = BUFFER_INIT};
    const char *expected = "toy.scale/plain threads=256 unroll=4 order=up wide=no: threads*unroll = 1024 > 512";
    toy_open(&toy, TOY_PROBLEM, "gfx906");
    assert_int_equal(
        candidate_parse(toy.generator, "threads=256 unroll=4", &toy.problem, &toy.target, &candidate, &toy.error),
        ATTUNE_OK);
    assert_int_equal(candidate_check(toy.generator, &candidate, &toy.problem, &toy.target, &toy.error),
                     ATTUNE_UNSUPPORTED);
    assert_string_equal(toy.error.message, expected);
    assert_int_equal(candidate_expand(toy.generator, &candidate, &toy.problem, &toy.target, &expansion, &toy.error),
                     ATTUNE_UNSUPPORTED);
    assert_string_equal(toy.error.message, expected);
    assert_int_equal(candidate_parse(toy.generator, "threads=32", &toy.problem, &toy.target, &candidate, &toy.error),
                     ATTUNE_OK);
    assert_int_equal(candidate_check(toy.generator, &candidate, &toy.problem, &toy.target, &toy.error),
                     ATTUNE_UNSUPPORTED);
    assert_contains(toy.error.message, "threads=32 is no multiple of the wave of 64");
    strcpy(candidate.parameters[0].value, "7");
    assert_int_equal(candidate_check(toy.generator, &candidate, &toy.problem, &toy.target, &toy.error), ATTUNE_INVALID);
    expansion_free(&expansion);
    generator_destroy(toy.generator);
}

static void an_option_nobody_serves_is_refused_by_name(void **state)
{
    (void)state;
    struct toy toy;
    struct candidate candidate;
    struct candidate_list list;
    toy_open(&toy, TOY_PROBLEM " window=3", "host");
    assert_int_equal(candidate_default(toy.generator, &toy.problem, &toy.target, &candidate, &toy.error),
                     ATTUNE_UNSUPPORTED);
    assert_contains(toy.error.message, "plain: window=3 is not built; leave window at 0");
    assert_int_equal(candidate_enumerate(toy.generator, &toy.problem, &toy.target, &list, &toy.error),
                     ATTUNE_UNSUPPORTED);
    assert_null(list.items);
    generator_destroy(toy.generator);
}

/* default() may count on supports(): where that says no it is not asked, however the template is named */
static void a_template_named_where_it_does_not_serve_gives_its_reason(void **state)
{
    (void)state;
    static const char family[] =
        "return { name = 'fragile.scale', templates = { { name = 'plain', file = 'fragile.hip',\n"
        "  supports = function(p, t) if t.name == 'host' then return false, 'the host has no forms' end return true "
        "end,\n"
        "  parameters = { { name = 'form', doc = 'd', values = { 'wide' } }, { name = 'threads', doc = 'd', values = { "
        "64 } } },\n"
        "  default = function(p, t) return { form = ({ gfx906 = { name = 'wide' } })[t.name].name, threads = 64 } "
        "end,\n"
        "  launch = function() return {} end } },\n"
        "  fields = { { name = 'count', kind = 'integer', role = 'size', required = true, always = true, min = 1, max "
        "= 9 } } }\n";
    char folder[4096];
    struct toy toy = {0};
    assert_int_equal(folder_temporary(folder, sizeof folder, &toy.error), ATTUNE_OK);
    put_file(folder, "fragile.lua", family);
    put_file(folder, "fragile.hip", "");
    toy.generator = open_generator(folder);
    toy_setup(toy.generator, "fragile.scale count=1", "gfx906", &toy.problem, &toy.target);
    assert_parses(&toy, "fragile.scale/plain", "fragile.scale/plain form=wide threads=64");
    assert_int_equal(target_parse("host", &toy.target, &toy.error), ATTUNE_OK);
    assert_parse_fails(&toy, "fragile.scale/plain", ATTUNE_UNSUPPORTED, "fragile.scale/plain: the host has no forms");
    assert_parse_fails(&toy, "fragile.scale/plain threads=64", ATTUNE_UNSUPPORTED, "the host has no forms");
    generator_destroy(toy.generator);
    folder_remove(folder);
}

/* both templates of attention.forward, on targets with each kind of instruction and without any: a default that passes,
 * or the reason; never an error of Lua's */
static void every_template_has_a_default_or_a_reason(void **state)
{
    (void)state;
    static const char *const targets[] = {"host", "gfx900", "gfx906", "gfx90a", "gfx1030", "sm_75"};
    static const char *const problems[] = {"dtype=f16 seqlen_q=96",  "dtype=bf16 seqlen_q=96",
                                           "dtype=f32 seqlen_q=96",  "dtype=f16 k_dtype=f32 seqlen_q=96",
                                           "dtype=e4m3 seqlen_q=96", "dtype=f16 seqlen_q=1"};
    static const char *const templates[] = {"attention.forward/fragments", "attention.forward/portable"};
    enum { TARGETS = sizeof targets / sizeof *targets, PROBLEMS = sizeof problems / sizeof *problems };
    struct toy toy = {.generator = open_generator("")};
    for (int i = 0; i < TARGETS * PROBLEMS * 2; i++) {
        char text[256];
        struct candidate candidate;
        const char *of = templates[i % 2], *target = targets[i / 2 / PROBLEMS];
        snprintf(text, sizeof text, "attention.forward heads=2 head_dim=64 %s", problems[i / 2 % PROBLEMS]);
        toy_setup(toy.generator, text, target, &toy.problem, &toy.target);
        attune_status status = candidate_parse(toy.generator, of, &toy.problem, &toy.target, &candidate, &toy.error);
        if (status == ATTUNE_OK) {
            assert_int_equal(candidate_check(toy.generator, &candidate, &toy.problem, &toy.target, &toy.error),
                             ATTUNE_OK);
        } else if (status != ATTUNE_UNSUPPORTED || strncmp(toy.error.message, of, strlen(of)) != 0) {
            fail_msg("%s on %s, %s: %s", of, target, text, toy.error.message);
        }
    }
    toy_setup(toy.generator, "attention.forward heads=2 dtype=bf16 seqlen_q=96 head_dim=64", "gfx906", &toy.problem,
              &toy.target);
    assert_parse_fails(
        &toy, "attention.forward/fragments", ATTUNE_UNSUPPORTED,
        "gfx906 has neither matrix instructions nor dot2 for bf16, only fma: the portable template serves it");
    generator_destroy(toy.generator);
}

/* the plainest kernel can be had from every target's default by naming prefetch=off; at most the refusal of it says how
 * many blocks fit once no tile waits in registers */
static void prefetch_off_is_a_candidate_beside_every_default(void **state)
{
    (void)state;
    static const char *const words[] = {"prefetch=off", "prefetch=off resident=2", "prefetch=off resident=3"};
    struct cover_list targets;
    struct toy toy = {.generator = open_generator("")};
    cover_list_read("targets.txt", &targets);
    for (int i = 0; i < targets.count; i++) {
        bool found = false;
        toy_setup(toy.generator, "attention.forward dtype=f16 heads=4 kv_heads=2 seqlen_q=96 head_dim=64 causal=1",
                  targets.items[i], &toy.problem, &toy.target);
        for (int j = 0; j < 3 && !found; j++) {
            struct candidate candidate;
            found = candidate_parse(toy.generator, words[j], &toy.problem, &toy.target, &candidate, &toy.error) ==
                        ATTUNE_OK &&
                    candidate_check(toy.generator, &candidate, &toy.problem, &toy.target, &toy.error) == ATTUNE_OK;
            if (!found && strstr(toy.error.message, "leaves registers unused") == NULL) {
                break;
            }
        }
        if (!found) {
            fail_msg("%s: %s", targets.items[i], toy.error.message);
        }
    }
    cover_list_free(&targets);
    generator_destroy(toy.generator);
}

/* AMD: what a block's own waves ask for is no choice of `resident`; with it every such candidate made an object twice
 */
static void resident_is_no_less_than_a_blocks_own_waves(void **state)
{
    (void)state;
    struct toy toy = {.generator = open_generator("")};
    struct candidate candidate;
    toy_setup(toy.generator, "attention.forward dtype=f16 heads=4 seqlen_q=96 head_dim=128", "gfx906", &toy.problem,
              &toy.target);
    static const char *const words[] = {"threads=512 block_q=128 block_k=64 kv_buffers=1 resident=1",
                                        "threads=512 block_q=128 block_k=64 kv_buffers=1 resident=2"};
    attune_status status[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(candidate_parse(toy.generator, words[i], &toy.problem, &toy.target, &candidate, &toy.error),
                         ATTUNE_OK);
        status[i] = candidate_check(toy.generator, &candidate, &toy.problem, &toy.target, &toy.error);
        if (i == 0) {
            assert_contains(toy.error.message, "a block of 512 threads has 2 waves on each SIMD unit");
        }
    }
    assert_int_equal(status[0], ATTUNE_UNSUPPORTED);
    assert_int_equal(status[1], ATTUNE_OK);
    generator_destroy(toy.generator);
}

/* every combination of values, tried one by one */
static int count_by_brute_force(struct toy *toy)
{
    static const char *const threads[] = {"32", "64", "128", "256"}, *const unroll[] = {"1", "2", "4"};
    static const char *const order[] = {"up", "down", "fused"}, *const wide[] = {"no", "yes"};
    int count = 0;
    for (int i = 0; i < 4 * 3 * 3 * 2; i++) {
        char text[128];
        struct candidate candidate;
        snprintf(text, sizeof text, "threads=%s unroll=%s order=%s wide=%s", threads[i % 4], unroll[i / 4 % 3],
                 order[i / 12 % 3], wide[i / 36]);
        assert_int_equal(candidate_parse(toy->generator, text, &toy->problem, &toy->target, &candidate, &toy->error),
                         ATTUNE_OK);
        count += candidate_check(toy->generator, &candidate, &toy->problem, &toy->target, &toy->error) == ATTUNE_OK;
    }
    return count;
}

static void the_walk_finds_what_brute_force_finds(void **state)
{
    (void)state;
    static const char *const targets[] = {"gfx900", "gfx906", "gfx1100", "sm_90a", "host"};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        struct toy toy;
        struct candidate_list list;
        toy_open(&toy, TOY_PROBLEM, targets[i]);
        assert_int_equal(candidate_enumerate(toy.generator, &toy.problem, &toy.target, &list, &toy.error), ATTUNE_OK);
        assert_int_equal(list.count, count_by_brute_force(&toy));
        assert_int_equal(list.points, 72);
        assert_int_equal(list.rejected, 72 - list.count);
        char first[CANDIDATE_TEXT_BYTES];
        candidate_format(&list.items[0], first);
        assert_string_equal(first, "toy.scale/plain threads=128 unroll=2 order=up wide=no");
        for (int j = 0; j < list.count; j++) {
            char id[CANDIDATE_ID_BYTES], other[CANDIDATE_ID_BYTES];
            assert_int_equal(candidate_check(toy.generator, &list.items[j], &toy.problem, &toy.target, &toy.error),
                             ATTUNE_OK);
            candidate_id(&list.items[j], id);
            for (int k = 0; k < j; k++) {
                candidate_id(&list.items[k], other);
                assert_string_not_equal(id, other);
            }
        }
        candidate_list_free(&list);
        generator_destroy(toy.generator);
    }
}

/* is the pair of values (a, b) of parameters i, j in the list? */
static bool has_pair(const struct candidate_list *list, const struct candidate *of, int i, int j)
{
    for (int k = 0; k < list->count; k++) {
        const struct candidate *item = &list->items[k];
        if (strcmp(item->template_name, of->template_name) == 0 &&
            strcmp(item->parameters[i].value, of->parameters[i].value) == 0 &&
            strcmp(item->parameters[j].value, of->parameters[j].value) == 0) {
            return true;
        }
    }
    return false;
}

static void assert_covers(struct generator *generator, const struct problem *problem, const struct target *target)
{
    struct candidate_list all, cover, again, few;
    struct error error;
    assert_int_equal(candidate_enumerate(generator, problem, target, &all, &error), ATTUNE_OK);
    assert_int_equal(candidate_cover(generator, problem, target, 0, 1, &cover, &error), ATTUNE_OK);
    assert_true(cover.count < all.count);
    int step = all.count / 500 + 1;
    for (int k = 0; k < all.count; k += step) {
        for (int i = 0; i < all.items[k].parameter_count; i++) {
            for (int j = 0; j < i; j++) {
                assert_true(has_pair(&cover, &all.items[k], i, j));
            }
        }
    }
    assert_memory_equal(&cover.items[0], &all.items[0], sizeof cover.items[0]);
    assert_int_equal(candidate_cover(generator, problem, target, 0, 1, &again, &error), ATTUNE_OK);
    assert_int_equal(again.count, cover.count);
    assert_memory_equal(again.items, cover.items, (size_t)cover.count * sizeof *cover.items);
    candidate_list_free(&again);
    assert_int_equal(candidate_cover(generator, problem, target, 0, 2, &again, &error), ATTUNE_OK);
    assert_true(again.count != cover.count ||
                memcmp(again.items, cover.items, (size_t)cover.count * sizeof *cover.items) != 0);
    candidate_list_free(&again);
    assert_int_equal(candidate_cover(generator, problem, target, 5, 1, &few, &error), ATTUNE_OK);
    assert_int_equal(few.count, 5);
    assert_memory_equal(few.items, cover.items, 5 * sizeof *few.items);
    candidate_list_free(&few);
    assert_int_equal(candidate_cover(generator, problem, target, all.count + 10, 1, &few, &error), ATTUNE_OK);
    assert_int_equal(few.count, all.count);
    candidate_list_free(&few);
    candidate_list_free(&cover);
    candidate_list_free(&all);
}

static void a_cover_has_every_live_pair(void **state)
{
    (void)state;
    struct toy toy;
    toy_open(&toy, TOY_PROBLEM, "gfx906");
    assert_covers(toy.generator, &toy.problem, &toy.target);
    toy_setup(toy.generator, "attention.forward heads=8 seqlen_q=512 head_dim=64", "gfx906", &toy.problem, &toy.target);
    assert_covers(toy.generator, &toy.problem, &toy.target);
    generator_destroy(toy.generator);
}

static json_t *find_named(json_t *list, const char *key, const char *value)
{
    size_t index;
    json_t *item;
    json_array_foreach(list, index, item)
    {
        const char *text = json_string_value(json_object_get(item, key));
        if (text != NULL && strcmp(text, value) == 0) {
            return item;
        }
    }
    fail_msg("no entry with %s=%s", key, value);
    return NULL;
}

static void the_report_tells_live_and_dead_values_with_reasons(void **state)
{
    (void)state;
    struct toy toy;
    json_t *json = NULL;
    toy_open(&toy, TOY_PROBLEM, "gfx900");
    assert_int_equal(generator_params(toy.generator, "toy.scale", &toy.problem, &toy.target, &json, &toy.error),
                     ATTUNE_OK);
    json_t *of = find_named(json_object_get(json, "templates"), "name", "plain");
    assert_true(json_is_true(json_object_get(of, "supported")));
    assert_int_equal(json_integer_value(json_object_get(of, "points")), 72);
    json_int_t rejected = 0;
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(of, "rejected"), index, item)
    {
        rejected += json_integer_value(json_object_get(item, "count"));
        assert_non_null(json_string_value(json_object_get(json_object_get(item, "example"), "reason")));
    }
    assert_int_equal(json_integer_value(json_object_get(of, "valid")) + rejected, 72);
    json_t *order = find_named(json_object_get(of, "parameters"), "name", "order");
    assert_int_equal(json_array_size(json_object_get(order, "live")), 2);
    json_t *dead = find_named(json_object_get(order, "dead"), "value", "fused");
    assert_string_equal(json_string_value(json_object_get(dead, "reason")),
                        "order=fused needs dot2, which gfx900 lacks");
    json_t *threads = find_named(json_object_get(of, "parameters"), "name", "threads");
    assert_int_equal(json_integer_value(json_object_get(threads, "default")), 128);
    dead = json_array_get(json_object_get(threads, "dead"), 0);
    assert_int_equal(json_integer_value(json_object_get(dead, "value")), 32);
    assert_string_equal(json_string_value(json_object_get(dead, "reason")),
                        "threads=32 is no multiple of the wave of 64");
    json_decref(json);
    assert_int_equal(generator_params(toy.generator, "toy.scale", NULL, NULL, &json, &toy.error), ATTUNE_OK);
    of = find_named(json_object_get(json, "templates"), "name", "plain");
    assert_null(json_object_get(of, "valid"));
    assert_int_equal(
        json_array_size(json_object_get(find_named(json_object_get(of, "parameters"), "name", "threads"), "domain")),
        4);
    json_decref(json);
    generator_destroy(toy.generator);
}

static void expansion_is_text_and_descriptor(void **state)
{
    (void)state;
    struct toy toy;
    struct candidate candidate;
    struct expansion expansion = {.shown = BUFFER_INIT, .compile = BUFFER_INIT};
    toy_open(&toy, TOY_PROBLEM, "gfx906");
    assert_int_equal(
        candidate_parse(toy.generator, "order=down wide=yes", &toy.problem, &toy.target, &candidate, &toy.error),
        ATTUNE_OK);
    if (candidate_expand(toy.generator, &candidate, &toy.problem, &toy.target, &expansion, &toy.error) != ATTUNE_OK) {
        fail_msg("%s", toy.error.message);
    }
    const char *shown = buffer_string(&expansion.shown), *compile = buffer_string(&expansion.compile);
    assert_true(strncmp(shown, "// toy.scale/plain threads=128 unroll=2 order=down wide=yes\n", 60) == 0);
    assert_contains(shown, " for gfx906\n");
    assert_contains(shown, "// toy.scale dtype=f32\n");
    assert_contains(shown, "// templates/vocabulary/amd.h ");
    assert_contains(shown, "#define THIRD 0.3333333333333333f\n#define HALF 0.5 2.0 7\n");
    assert_contains(shown, "/* element 0 */\n    y[index + 1 * 128] = x[index + 1 * 128] * factor;\n");
    assert_contains(shown, "/* launch toy_scale true */");
    assert_null(strstr(shown, "#line"));
    assert_contains(compile, "#line 1 \"templates/vocabulary/amd.h\"\n");
    assert_contains(compile, "#line 9 \"templates/toy.hip\"\n    /* element 1 */");
    assert_string_equal(expansion.launch.kernel, "toy_scale");
    assert_int_equal(expansion.launch.threads, 128);
    assert_int_equal(expansion.launch.argument_count, 4);
    assert_int_equal(expansion.launch.grid[0].factors[0].divisor, 256);
    expansion_free(&expansion);
    generator_destroy(toy.generator);
}

/* sizes are run-time values: no text depends on them */
static void the_text_depends_on_the_specialisation_only(void **state)
{
    (void)state;
    static const char *const sizes[] = {"batch=1 heads=8 kv_heads=4 seqlen_q=512",
                                        "batch=3 heads=6 kv_heads=3 seqlen_q=77 seqlen_k=1000"};
    struct toy toy;
    struct expansion expansions[2] = {{.shown = BUFFER_INIT}, {.shown = BUFFER_INIT}};
    toy_open(&toy, TOY_PROBLEM, "host");
    for (int i = 0; i < 2; i++) {
        char text[256];
        struct candidate candidate;
        snprintf(text, sizeof text, "attention.forward head_dim=64 causal=1 %s", sizes[i]);
        toy_setup(toy.generator, text, "gfx906", &toy.problem, &toy.target);
        assert_int_equal(
            candidate_parse(toy.generator, "block_q=64 block_k=64", &toy.problem, &toy.target, &candidate, &toy.error),
            ATTUNE_OK);
        if (candidate_expand(toy.generator, &candidate, &toy.problem, &toy.target, &expansions[i], &toy.error) !=
            ATTUNE_OK) {
            fail_msg("%s", toy.error.message);
        }
    }
    assert_string_equal(buffer_string(&expansions[0].shown), buffer_string(&expansions[1].shown));
    assert_string_equal(buffer_string(&expansions[0].compile), buffer_string(&expansions[1].compile));
    expansion_free(&expansions[0]);
    expansion_free(&expansions[1]);
    generator_destroy(toy.generator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_are_read_from_text),
        cmocka_unit_test(a_broken_constraint_gives_its_reason_and_the_candidate),
        cmocka_unit_test(an_option_nobody_serves_is_refused_by_name),
        cmocka_unit_test(a_template_named_where_it_does_not_serve_gives_its_reason),
        cmocka_unit_test(every_template_has_a_default_or_a_reason),
        cmocka_unit_test(prefetch_off_is_a_candidate_beside_every_default),
        cmocka_unit_test(resident_is_no_less_than_a_blocks_own_waves),
        cmocka_unit_test(the_walk_finds_what_brute_force_finds),
        cmocka_unit_test(a_cover_has_every_live_pair),
        cmocka_unit_test(the_report_tells_live_and_dead_values_with_reasons),
        cmocka_unit_test(expansion_is_text_and_descriptor),
        cmocka_unit_test(the_text_depends_on_the_specialisation_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
