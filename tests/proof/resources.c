/* resources.c - what a block may use: the launch bound in the object is the launch's own size (B26), and candidates
 * that want more shared memory, threads or registers than there are, are refused or screened with the numbers (B25). */
#include "autotune/objects.h"
#include "autotune/screen.h"
#include "tests/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct generator *generator;
static struct compiler_pool *pool;

static int set_up(void **state)
{
    (void)state;
    struct error error = {.message = ""};
    if (generator_create(&(struct generator_options){.template_path = ""}, &generator, &error) != ATTUNE_OK ||
        compiler_pool_create(NULL, &pool, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    compiler_pool_destroy(pool);
    generator_destroy(generator);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ B26 */

static void check_bound(const struct object_job *job, const char *target, unsigned *seen)
{
    if (job->status != ATTUNE_OK) {
        fail_msg("%s: %s: %s", target, job->name, job->message);
    }
    uint32_t threads = job->launch.threads;
    if (job->resources.max_threads != (int32_t)threads) {
        fail_msg("%s: %s: the object's bound is %d threads, the launch has %u", target, job->name,
                 job->resources.max_threads, threads);
    }
    char parameter[32];
    snprintf(parameter, sizeof parameter, " threads=%u ", threads);
    assert_non_null(strstr(job->name, parameter));
    *seen |= threads / 64;
}

static const char *threads_of(const struct candidate *candidate)
{
    int p = 0;
    while (strcmp(candidate->parameters[p].name, "threads") != 0) {
        p++;
    }
    return candidate->parameters[p].value;
}

/* of each of the space's numbers of threads so many candidates */
static void keep_some(struct candidate_list *list, int most)
{
    int kept = 0;
    struct {
        char value[CANDIDATE_VALUE_BYTES];
        int count;
    } sizes[8] = {{"", 0}};
    for (int i = 0; i < list->count; i++) {
        const struct candidate *candidate = &list->items[i];
        int at = 0;
        while (sizes[at].count > 0 && strcmp(sizes[at].value, threads_of(candidate)) != 0) {
            at++;
        }
        memcpy(sizes[at].value, threads_of(candidate), sizeof sizes[at].value);
        if (sizes[at].count++ < most) {
            list->items[kept++] = *candidate;
        }
    }
    list->count = kept;
}

static void the_launch_bound_is_the_launch_size(void **state)
{
    const char *target_text = *state;
    struct problem problem;
    struct target target = {0};
    struct candidate_list list = {0};
    struct object_road road;
    struct pipeline *pipeline = NULL;
    struct error error = {.message = ""};
    unsigned seen = 0, offered = 0;
    if (problem_parse(schema_attention_forward(), "dtype=f16 batch=1 heads=2 seqlen_q=64 head_dim=64 lse=1", &problem,
                      &error) != ATTUNE_OK ||
        target_parse(target_text, &target, &error) != ATTUNE_OK ||
        candidate_cover(generator, &problem, &target, 0, 1, &list, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", target_text, error.message);
    }
    attune_status status = road_open(&road, pool, NULL, &target, SANITIZE_NONE, false, &error);
    if (status == ATTUNE_NO_TOOLCHAIN || (status == ATTUNE_OK && road.toolchain == ATTUNE_NO_TOOLCHAIN)) {
        print_message("%s: skipped: %s\n", target_text, status == ATTUNE_OK ? road.toolchain_message : error.message);
        candidate_list_free(&list);
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s: %s", target_text, error.message);
    }
    road.keep_bytes = true;
    for (int i = 0; i < list.count; i++) {
        offered |= (unsigned)strtoul(threads_of(&list.items[i]), NULL, 10) / 64;
    }
    keep_some(&list, test_size(2, 1000));
    if (pipeline_create(generator, &road, &problem, list.items, list.count, compiler_pool_workers(pool), &pipeline,
                        &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    for (const struct object_job *job = pipeline_next(pipeline); job != NULL; job = pipeline_next(pipeline)) {
        check_bound(job, target_text, &seen);
    }
    pipeline_destroy(pipeline);
    candidate_list_free(&list);
    assert_int_equal(seen & (2 | 4), 2 | 4); /* 128 and 256 threads, which every target has, */
    assert_int_equal(seen, offered);         /* and all that the space has */
}

/* ------------------------------------------------------------------------------------------------ B25 */

static void what_a_device_cannot_run_is_screened_with_its_numbers(void **state)
{
    (void)state;
    struct driver_device mi50 = {.max_threads = 1024, .shared_bytes = 65536, .wave_size = 64};
    struct driver_device h200 = {.max_threads = 1024, .shared_bytes = 232448, .wave_size = 32};
    assert_int_equal(target_parse("gfx906", &mi50.target, NULL), ATTUNE_OK);
    assert_int_equal(target_parse("sm_90a", &h200.target, NULL), ATTUNE_OK);
    const struct {
        const struct driver_device *device;
        struct launch launch;
        struct resources resources;
        const char *word, *limit; /* NULL: it fits */
    } cases[] = {
        {&mi50, {.threads = 256}, {.shared_bytes = 65536, .max_threads = 256}, NULL, NULL},
        {&mi50, {.threads = 256}, {.shared_bytes = 65540, .max_threads = 256}, "65540", "65536"},
        {&mi50, {.threads = 256}, {.shared_bytes = 131072, .max_threads = 256}, "131072", "65536"},
        {&mi50, {.threads = 256, .dynamic_shared_bytes = 65536}, {.max_threads = 256}, NULL, NULL},
        {&mi50, {.threads = 256, .dynamic_shared_bytes = 65540}, {.max_threads = 256}, "65540", "65536"},
        {&mi50, {.threads = 256, .dynamic_shared_bytes = 131072}, {.max_threads = 256}, "131072", "65536"},
        {&mi50,
         {.threads = 256, .dynamic_shared_bytes = 4},
         {.shared_bytes = 65536, .max_threads = 256},
         "65540",
         "65536"},
        {&mi50,
         {.threads = 256, .dynamic_shared_bytes = UINT32_MAX},
         {.shared_bytes = INT32_MAX, .max_threads = 256},
         "6442450942",
         "65536"},
        {&mi50,
         {.threads = 256, .static_shared_bytes = 65540},
         {.shared_bytes = -1, .max_threads = 256},
         "65540",
         "65536"},
        {&mi50, {.threads = 1024}, {.max_threads = 1024}, NULL, NULL},
        {&mi50, {.threads = 1025}, {.max_threads = 1025}, "1025", "1024"},
        {&mi50, {.threads = 256}, {.max_threads = 128}, "256", "128"},
        {&mi50, {.threads = 1024}, {.max_threads = 1024, .vector_registers = 128}, NULL, NULL},
        {&mi50, {.threads = 1024}, {.max_threads = 1024, .vector_registers = 132}, "132", "512"},
        {&h200, {.threads = 256, .dynamic_shared_bytes = 232448}, {.max_threads = 256}, NULL, NULL},
        {&h200, {.threads = 256, .dynamic_shared_bytes = 232449}, {.max_threads = 256}, "232449", "232448"},
        {&h200, {.threads = 256}, {.max_threads = 256, .vector_registers = 255}, NULL, NULL},
        {&h200, {.threads = 512}, {.max_threads = 512, .vector_registers = 255}, "255", "65536"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char reason[SCREEN_REASON_BYTES] = "";
        bool fits = screen_fits(cases[i].device, &cases[i].launch, &cases[i].resources, reason);
        if (fits != (cases[i].word == NULL) ||
            (!fits && (strstr(reason, cases[i].word) == NULL || strstr(reason, cases[i].limit) == NULL))) {
            fail_msg("case %zu: fits %d, '%s' lacks '%s' or '%s'", i, fits, reason, cases[i].word, cases[i].limit);
        }
    }
    char reason[SCREEN_REASON_BYTES];
    assert_true(screen_pays(TARGET_NVIDIA, &(struct resources){.scratch_bytes = 0}, reason));
    assert_false(screen_pays(TARGET_NVIDIA, &(struct resources){.scratch_bytes = 512}, reason));
    assert_non_null(strstr(reason, "512 bytes of scratch"));
}

/* no candidate of a space reaches the compiler that would not fit; those asked for by name hear the numbers */
static void the_space_keeps_within_each_target(void **state)
{
    (void)state;
    struct error error = {.message = ""};
    for (int t = 0; t < generator_target_count(generator); t++) {
        struct problem problem;
        struct target target = {0};
        struct candidate_list list = {0};
        struct expansion expansion = {0};
        json_t *facts = NULL;
        const char *name = generator_target_name(generator, t);
        if (problem_parse(schema_attention_forward(), "dtype=f32 batch=1 heads=2 seqlen_q=64 head_dim=256", &problem,
                          &error) != ATTUNE_OK ||
            target_parse(name, &target, &error) != ATTUNE_OK ||
            generator_target_facts(generator, &target, &facts, &error) != ATTUNE_OK ||
            candidate_cover(generator, &problem, &target, 0, 1, &list, &error) != ATTUNE_OK) {
            fail_msg("%s: %s", name, error.message);
        }
        json_int_t shared = json_integer_value(json_object_get(facts, "lds_bytes"));
        json_int_t threads = json_integer_value(json_object_get(facts, "max_threads"));
        assert_true(shared >= 65536 && threads >= 256);
        for (int i = 0; i < list.count; i++) {
            if (candidate_expand(generator, &list.items[i], &problem, &target, &expansion, &error) != ATTUNE_OK) {
                fail_msg("%s: %s", name, error.message);
            }
            const struct launch *launch = &expansion.launch;
            assert_true((json_int_t)launch->static_shared_bytes + launch->dynamic_shared_bytes <= shared);
            assert_true(launch->threads >= 64 && (json_int_t)launch->threads <= threads);
        }
        expansion_free(&expansion);
        candidate_list_free(&list);
        json_decref(facts);
    }
    struct problem problem;
    struct target target;
    struct candidate candidate;
    assert_int_equal(
        problem_parse(schema_attention_forward(), "dtype=f32 batch=1 heads=2 seqlen_q=64 head_dim=256", &problem, NULL),
        ATTUNE_OK);
    assert_int_equal(target_parse("gfx906", &target, NULL), ATTUNE_OK);
    assert_int_equal(candidate_parse(generator, "block_q=64 block_k=128 kv_buffers=2 tile_q=8 threads=256 tile_k=4",
                                     &problem, &target, &candidate, &error),
                     ATTUNE_OK);
    assert_int_equal(candidate_check(generator, &candidate, &problem, &target, &error), ATTUNE_UNSUPPORTED);
    if (strstr(error.message, "shared memory:") == NULL || strstr(error.message, "65536") == NULL) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(candidate_parse(generator, "threads=1025", &problem, &target, &candidate, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "1025"));
    assert_non_null(strstr(error.message, "256"));
}

/* what a compiler says of too much shared memory is a failed compile with its words, for each that is here */
static void static_shared_memory_over_the_limit_fails_to_compile(void **state)
{
    (void)state;
    static const char format[] =
        "extern \"C\" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(64, 64))) void big(int *x)\n"
        "{\n"
        "    static __attribute__((shared)) int memory[%d];\n"
        "    memory[__builtin_amdgcn_workitem_id_x()] = x[0];\n"
        "    __builtin_amdgcn_s_barrier();\n"
        "    x[1] = memory[x[2]];\n"
        "}\n";
    static const int bytes[] = {65536, 65540, 131072};
    for (int i = 0; i < 3; i++) {
        char source[1024];
        struct compile_result result = {.seconds = 0};
        struct error error = {.message = ""};
        snprintf(source, sizeof source, format, bytes[i] / 4);
        struct compile_request request = {.source = source, .source_bytes = strlen(source)};
        assert_int_equal(target_parse("gfx906", &request.target, NULL), ATTUNE_OK);
        attune_status status = compiler_compile(pool, &request, &result, &error);
        compile_result_free(&result);
        if (status == ATTUNE_NO_TOOLCHAIN) {
            print_message("skipped: %s\n", error.message);
            skip();
        }
        if (status != (bytes[i] > 65536 ? ATTUNE_COMPILE_FAILED : ATTUNE_OK) ||
            (status != ATTUNE_OK && strstr(error.message, "65536") == NULL)) {
            fail_msg("%d bytes: status %d: %s", bytes[i], status, error.message);
        }
    }
}

#define ON(test, target)                                                                                               \
    {                                                                                                                  \
#test " on " target, test, NULL, NULL, (void *)target                                                          \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(the_launch_bound_is_the_launch_size, "gfx906"),
        ON(the_launch_bound_is_the_launch_size, "gfx942"),
        ON(the_launch_bound_is_the_launch_size, "gfx1100"),
        ON(the_launch_bound_is_the_launch_size, "sm_90a"),
        ON(the_launch_bound_is_the_launch_size, "host"),
        cmocka_unit_test(what_a_device_cannot_run_is_screened_with_its_numbers),
        cmocka_unit_test(the_space_keeps_within_each_target),
        cmocka_unit_test(static_shared_memory_over_the_limit_fails_to_compile),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
