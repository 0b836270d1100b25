/* test_space.c - attention.forward's space: enough candidates, every value alive, a default for every problem, refusals
 * that name the option, text that depends on the specialisation and not on run-time sizes. Needs no compiler. */
#include "generator/generator.h"
#include "tests/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* live candidates of the fragments template for a specialisation */
enum { LEAST = 50, MOST = 700 };

static struct generator *generator;

static int set_up(void **state)
{
    (void)state;
    struct error error = {0};
    struct generator_options options = {.template_path = ""};
    attune_status status = generator_create(&options, &generator, &error);
    if (status != ATTUNE_OK) {
        print_error("%s\n", error.message);
    }
    return status == ATTUNE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    generator_destroy(generator);
    return 0;
}

static void parse(const char *problem_text, const char *target_text, struct problem *problem, struct target *target)
{
    struct error error = {0};
    if (problem_parse(schema_attention_forward(), problem_text, problem, &error) != ATTUNE_OK ||
        target_parse(target_text, target, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", problem_text, error.message);
    }
}

static int compare_digests(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct digest));
}

/* one text for each candidate, no two alike */
static void texts_differ(const struct candidate_list *list, const struct problem *problem, const struct target *target)
{
    struct expansion expansion = {0};
    struct error error = {0};
    struct digest *digests = calloc((size_t)list->count, sizeof *digests);
    assert_non_null(digests);
    for (int i = 0; i < list->count; i++) {
        if (candidate_expand(generator, &list->items[i], problem, target, &expansion, &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        /* the head comment names the candidate: only what follows it can be alike */
        const char *kernel = strstr(buffer_string(&expansion.shown), "// Flash attention");
        assert_non_null(kernel);
        digest_of(kernel, strlen(kernel), &digests[i]);
    }
    qsort(digests, (size_t)list->count, sizeof *digests, compare_digests);
    for (int i = 1; i < list->count; i++) {
        assert_memory_not_equal(&digests[i - 1], &digests[i], sizeof *digests);
    }
    free(digests);
    expansion_free(&expansion);
}

/* how many candidates carry the value */
static int alive(const struct candidate_list *list, int parameter, const char *value)
{
    int count = 0;
    for (int i = 0; i < list->count; i++) {
        count += strcmp(list->items[i].parameters[parameter].value, value) == 0;
    }
    return count;
}

/* what `attune params` tells of a template of attention.forward: take json_decref(*declared) when done */
static json_t *parameters_of(const char *template, json_t **declared)
{
    struct error error = {0};
    assert_int_equal(generator_params(generator, "attention.forward", NULL, NULL, declared, &error), ATTUNE_OK);
    json_t *templates = json_object_get(*declared, "templates"), *one;
    size_t i;
    json_array_foreach(templates, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "name")), template) == 0) {
            return json_object_get(one, "parameters");
        }
    }
    fail_msg("no template %s", template);
    return NULL;
}

static void value_text(const json_t *entry, char text[CANDIDATE_VALUE_BYTES])
{
    if (json_is_integer(entry)) {
        snprintf(text, CANDIDATE_VALUE_BYTES, "%lld", (long long)json_integer_value(entry));
    } else {
        snprintf(text, CANDIDATE_VALUE_BYTES, "%s", json_string_value(entry));
    }
}

static void each_declared_value_is_alive(const struct candidate_list *list, bool dot2)
{
    json_t *declared = NULL, *parameters = parameters_of("portable", &declared);
    assert_int_equal(json_array_size(parameters), list->items[0].parameter_count);
    for (size_t i = 0; i < json_array_size(parameters); i++) {
        json_t *parameter = json_array_get(parameters, i), *domain = json_object_get(parameter, "domain");
        assert_true(json_array_size(domain) > 1);
        for (size_t j = 0; j < json_array_size(domain); j++) {
            json_t *entry = json_array_get(domain, j);
            char value[CANDIDATE_VALUE_BYTES];
            value_text(entry, value);
            int count = alive(list, (int)i, value);
            bool offered = dot2 || strcmp(value, "dot2") != 0;
            if (offered ? count < 5 : count != 0) {
                fail_msg("%s=%s is alive in %d candidates", json_string_value(json_object_get(parameter, "name")),
                         value, count);
            }
        }
    }
    json_decref(declared);
}

static void check_space(const char *target_text, int head_dim, bool dot2)
{
    struct problem problem;
    struct target target;
    struct candidate_list list = {0};
    struct error error = {0};
    char text[128];
    /* decoding: the whole portable space, which elsewhere is a corner beside that of fragments */
    snprintf(text, sizeof text, "dtype=f16 batch=2 heads=8 seqlen_q=4 seqlen_k=1024 head_dim=%d", head_dim);
    parse(text, target_text, &problem, &target);
    assert_int_equal(candidate_enumerate(generator, &problem, &target, &list, &error), ATTUNE_OK);
    assert_in_range(list.count, 300, 1000);
    each_declared_value_is_alive(&list, dot2);
    texts_differ(&list, &problem, &target);
    candidate_list_free(&list);
}

static void portable_on_gfx906_has_hundreds_of_candidates_and_no_dead_value(void **state)
{
    (void)state;
    check_space("gfx906", 64, true);
    check_space("gfx906", 128, true);
}

static void portable_on_sm_90a_has_hundreds_of_candidates_and_no_dead_value(void **state)
{
    (void)state;
    check_space("sm_90a", 64, false);
    check_space("sm_90a", 128, false);
}

/* of the fragments template; the others are counted */
static int keep_fragments(struct candidate_list *list)
{
    int kept = 0, others = 0;
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].template_name, "fragments") == 0) {
            list->items[kept++] = list->items[i];
        } else {
            others++;
        }
    }
    list->count = kept;
    return others;
}

static void enumerate(const char *text, const char *target_text, struct candidate_list *list)
{
    struct problem problem;
    struct target target;
    struct error error = {0};
    parse(text, target_text, &problem, &target);
    if (candidate_enumerate(generator, &problem, &target, list, &error) != ATTUNE_OK) {
        fail_msg("%s on %s: %s", text, target_text, error.message);
    }
}

static const char *const matrix_targets[] = {"gfx906",  "gfx908",  "gfx90a", "gfx942", "gfx950", "gfx1030",
                                             "gfx1100", "gfx1201", "sm_75",  "sm_80",  "sm_90a", "sm_120"};
enum { MATRIX_TARGETS = sizeof matrix_targets / sizeof *matrix_targets };

/* what a search of minutes can see; beside them few of the portable template */
static void fragments_spaces_are_neither_a_dozen_nor_thousands(void **state)
{
    (void)state;
    int few = 0;
    for (int t = 0; t < MATRIX_TARGETS; t++) {
        for (int head_dim = 64; head_dim <= 128; head_dim += 64) {
            char text[128];
            struct candidate_list list = {0};
            snprintf(text, sizeof text, "dtype=f16 batch=2 heads=8 seqlen_q=1024 head_dim=%d", head_dim);
            enumerate(text, matrix_targets[t], &list);
            int portable = keep_fragments(&list);
            if (list.count < LEAST || list.count > MOST || portable < 1 || portable > 100) {
                print_error("%s, head size %d: %d candidates of fragments, %d of portable\n", matrix_targets[t],
                            head_dim, list.count, portable);
                few++;
            }
            candidate_list_free(&list);
        }
    }
    assert_int_equal(few, 0);
}

/* a value that no target has is dead text */
static void each_value_of_fragments_is_alive_on_some_target(void **state)
{
    (void)state;
    json_t *declared = NULL, *parameters = parameters_of("fragments", &declared);
    static int counts[CANDIDATE_PARAMETERS_MAX][64];
    for (int t = 0; t < MATRIX_TARGETS; t++) {
        for (int bf16 = 0; bf16 < 2; bf16++) {
            struct candidate_list list = {0};
            enumerate(bf16 ? "dtype=bf16 batch=2 heads=8 seqlen_q=1024 head_dim=64"
                           : "dtype=f16 batch=2 heads=8 seqlen_q=1024 head_dim=64",
                      matrix_targets[t], &list);
            keep_fragments(&list);
            for (size_t i = 0; i < json_array_size(parameters); i++) {
                json_t *domain = json_object_get(json_array_get(parameters, i), "domain");
                for (size_t j = 0; j < json_array_size(domain); j++) {
                    char value[CANDIDATE_VALUE_BYTES];
                    value_text(json_array_get(domain, j), value);
                    counts[i][j] += alive(&list, (int)i, value);
                }
            }
            candidate_list_free(&list);
        }
    }
    for (size_t i = 0; i < json_array_size(parameters); i++) {
        json_t *parameter = json_array_get(parameters, i), *domain = json_object_get(parameter, "domain");
        for (size_t j = 0; j < json_array_size(domain); j++) {
            char value[CANDIDATE_VALUE_BYTES];
            value_text(json_array_get(domain, j), value);
            if (counts[i][j] < 2) {
                fail_msg("%s=%s is alive in %d candidates", json_string_value(json_object_get(parameter, "name")),
                         value, counts[i][j]);
            }
        }
    }
    json_decref(declared);
}

static void no_two_candidates_of_fragments_have_the_same_text(void **state)
{
    (void)state;
    static const char text[] = "dtype=f16 batch=2 heads=8 seqlen_q=1024 head_dim=128 causal=1";
    for (int t = 0; t < MATRIX_TARGETS; t += test_size(4, 1)) {
        struct problem problem;
        struct target target;
        struct candidate_list list = {0};
        enumerate(text, matrix_targets[t], &list);
        keep_fragments(&list);
        parse(text, matrix_targets[t], &problem, &target);
        texts_differ(&list, &problem, &target);
        candidate_list_free(&list);
    }
}

/* one template forced, or one instruction: the answer lists what there is */
static void an_instruction_of_another_target_is_refused_with_those_it_has(void **state)
{
    (void)state;
    static const struct {
        const char *target, *changes, *has;
    } cases[] = {
        {"gfx906", "multiply=mfma_16x16x16", "it has dot2"},
        {"gfx942", "multiply=wmma_16x16x16", "mfma_32x32x8, mfma_16x16x16"},
        {"gfx1100", "multiply=mma_16x8x16", "wmma_16x16x16"},
        {"sm_80", "multiply=mfma_32x32x8", "mma_16x8x16"},
        {"sm_75", "multiply=mma_16x8x16", "mma_16x8x8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct problem problem;
        struct target target;
        struct candidate candidate;
        struct error error = {0};
        parse("dtype=f16 batch=1 heads=1 seqlen_q=64 head_dim=64", cases[i].target, &problem, &target);
        assert_int_equal(candidate_parse(generator, cases[i].changes, &problem, &target, &candidate, &error),
                         ATTUNE_OK);
        assert_int_not_equal(candidate_check(generator, &candidate, &problem, &target, &error), ATTUNE_OK);
        if (strstr(error.message, cases[i].changes) == NULL || strstr(error.message, cases[i].has) == NULL ||
            strstr(error.message, cases[i].target) == NULL) {
            fail_msg("'%s' does not name %s, %s and %s", error.message, cases[i].changes, cases[i].target,
                     cases[i].has);
        }
    }
}

static void every_target_has_a_default_for_every_head_size_and_dtype(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"dtype=f16", "dtype=bf16", "dtype=f32",
                                         "q_dtype=f32 k_dtype=f16 v_dtype=f16 o_dtype=f32",
                                         "q_dtype=bf16 k_dtype=f32 v_dtype=f16 o_dtype=bf16"};
    static const int head_dims[] = {1, 3, 33, 64, 72, 80, 100, 128, 185, 200, 256};
    static const char *const rest[] = {"seqlen_q=1 index=wide", "seqlen_q=3", "seqlen_q=1000"};
    for (int t = 0; t < generator_target_count(generator); t++) {
        for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
            for (size_t j = 0; j < sizeof head_dims / sizeof *head_dims; j++) {
                for (size_t k = 0; k < sizeof rest / sizeof *rest; k++) {
                    struct problem problem;
                    struct target target;
                    struct candidate candidate;
                    struct error error = {0};
                    char text[256];
                    snprintf(text, sizeof text, "%s head_dim=%d batch=1 heads=4 seqlen_k=700 %s", dtypes[i],
                             head_dims[j], rest[k]);
                    parse(text, generator_target_name(generator, t), &problem, &target);
                    if (candidate_default(generator, &problem, &target, &candidate, &error) != ATTUNE_OK) {
                        fail_msg("%s on %s: %s", text, generator_target_name(generator, t), error.message);
                    }
                }
            }
        }
    }
}

static void options_without_a_template_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *option, *name;
    } cases[] = {{"window_left=63", "window_left"},
                 {"softcap=30", "softcap"},
                 {"alibi=1", "alibi"},
                 {"sinks=1", "sinks"},
                 {"bias=f16", "bias"},
                 {"mask=bool", "mask"},
                 {"varlen=1", "varlen"},
                 {"strict_nan=1", "strict_nan"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct problem problem;
        struct target target;
        struct candidate candidate;
        struct error error = {0};
        char text[128];
        snprintf(text, sizeof text, "dtype=f16 batch=1 heads=1 seqlen_q=64 head_dim=64 causal=1 %s", cases[i].option);
        parse(text, "gfx906", &problem, &target);
        assert_int_equal(candidate_default(generator, &problem, &target, &candidate, &error), ATTUNE_UNSUPPORTED);
        if (strstr(error.message, cases[i].name) == NULL) {
            fail_msg("'%s' does not name %s", error.message, cases[i].name);
        }
    }
}

/* the text of one candidate for a problem, into `text` */
static void expand(const char *problem_text, const char *target_text, const char *changes, struct expansion *expansion)
{
    struct problem problem;
    struct target target;
    struct candidate candidate;
    struct error error = {0};
    parse(problem_text, target_text, &problem, &target);
    if (candidate_parse(generator, changes, &problem, &target, &candidate, &error) != ATTUNE_OK ||
        candidate_check(generator, &candidate, &problem, &target, &error) != ATTUNE_OK ||
        candidate_expand(generator, &candidate, &problem, &target, expansion, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", changes, error.message);
    }
}

static void text_depends_on_the_specialisation_not_on_sizes(void **state)
{
    (void)state;
    struct expansion a = {0}, b = {0};
    static const char candidate[] =
        "attention.forward/portable index=narrow exact=off multiply=dot2 lds_type=storage lds_layout=padded "
        "prefetch=registers q_in=shared kv_buffers=2 block_q=64 tile_q=4 threads=256 block_k=64 "
        "tile_k=4";
    expand("dtype=f16 batch=1 heads=8 seqlen_q=1000 head_dim=128 causal=1", "gfx906", candidate, &a);
    expand("dtype=f16 batch=7 heads=3 seqlen_q=1 seqlen_k=31 head_dim=128 causal=1 scale=2", "gfx906", candidate, &b);
    assert_string_equal(buffer_string(&a.shown), buffer_string(&b.shown));
    expand("dtype=f16 batch=1 heads=8 kv_heads=4 seqlen_q=1000 head_dim=128 causal=1", "gfx906", candidate, &b);
    assert_string_not_equal(buffer_string(&a.shown), buffer_string(&b.shown));
    /* compiled lengths are the exception, and the launch descriptor says so */
    expand("dtype=f16 batch=1 heads=8 seqlen_q=1000 head_dim=128 causal=1", "gfx900", "exact=lengths", &a);
    assert_int_equal(a.launch.fixed_count, 2);
    assert_string_equal(a.launch.fixed[0].field, "seqlen_q");
    assert_int_equal(a.launch.fixed[0].value, 1000);
    expansion_free(&a);
    expansion_free(&b);
}

static void narrow_offsets_limit_the_strides(void **state)
{
    (void)state;
    struct expansion expansion = {0};
    expand("dtype=f16 batch=1 heads=8 seqlen_q=1000 head_dim=128", "gfx906", "attention.forward/portable index=narrow",
           &expansion);
    int found = 0;
    for (int i = 0; i < expansion.launch.limit_count; i++) {
        if (strcmp(expansion.launch.limits[i].name, "k_seq_stride") == 0) {
            /* 64 rows of 2-byte elements stay below 2^31 bytes */
            assert_int_equal(expansion.launch.limits[i].multiplier, 64 * 2);
            assert_int_equal(expansion.launch.limits[i].limit, (int64_t)1 << 31);
            found = 1;
        }
    }
    assert_int_equal(found, 1);
    expand("dtype=f16 batch=1 heads=8 seqlen_q=1000 head_dim=128 index=wide", "gfx906",
           "attention.forward/portable q_in=shared", &expansion);
    assert_int_equal(expansion.launch.limit_count, 0);
    expansion_free(&expansion);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(portable_on_gfx906_has_hundreds_of_candidates_and_no_dead_value),
        cmocka_unit_test(portable_on_sm_90a_has_hundreds_of_candidates_and_no_dead_value),
        cmocka_unit_test(fragments_spaces_are_neither_a_dozen_nor_thousands),
        cmocka_unit_test(each_value_of_fragments_is_alive_on_some_target),
        cmocka_unit_test(no_two_candidates_of_fragments_have_the_same_text),
        cmocka_unit_test(an_instruction_of_another_target_is_refused_with_those_it_has),
        cmocka_unit_test(every_target_has_a_default_for_every_head_size_and_dtype),
        cmocka_unit_test(options_without_a_template_are_refused_by_name),
        cmocka_unit_test(text_depends_on_the_specialisation_not_on_sizes),
        cmocka_unit_test(narrow_offsets_limit_the_strides),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
