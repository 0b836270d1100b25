/* The example family: every candidate of a cover, compiled for the host and run, against the family's own reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/process.h"
#include "runtime/host_device.h"

#include "support.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

#define SOFTMAX_FOLDER TEST_SOURCE_DIR "/examples/softmax"

enum { ELEMENTS_MAX = 4096 };

struct work {
    struct generator *generator;
    struct problem problem;
    struct target target;
    char folder[4096];
    char compiler[4096];
    int64_t elements;
    int wave;
    double x[ELEMENTS_MAX], expected[ELEMENTS_MAX], tolerance[ELEMENTS_MAX];
};

static void make_reference(struct work *work, int kind)
{
    struct error error;
    struct tensor_spec specs[2];
    int count = 0;
    double *tensors[] = {work->x, work->expected}, *tolerances[] = {NULL, work->tolerance};
    assert_int_equal(generator_tensors(work->generator, &work->problem, specs, 2, &count, &error), ATTUNE_OK);
    work->elements = specs[0].elements;
    assert_true(work->elements <= ELEMENTS_MAX);
    assert_int_equal(generator_inputs(work->generator, &work->problem, 0, kind, 1, work->x, &error), ATTUNE_OK);
    for (int64_t i = 0; i < work->elements; i++) {
        work->x[i] = (float)work->x[i];
    }
    if (generator_reference(work->generator, &work->problem, tensors, tolerances, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

static void *compile_candidate(struct work *work, const struct expansion *expansion, const char *name)
{
    char source[4200], object[4200];
    struct error error;
    snprintf(source, sizeof source, "%s/%s.cpp", work->folder, name);
    snprintf(object, sizeof object, "%s/%s.so", work->folder, name);
    assert_int_equal(file_write(source, expansion->compile.data, expansion->compile.length, &error), ATTUNE_OK);
    const char *const argv[] = {work->compiler, "-std=c++17", "-O1", "-w",   "-fPIC",
                                "-shared",      source,       "-o",  object, NULL};
    struct process_options options = {.argv = argv, .seconds = 120};
    struct process_result result = {.output = BUFFER_INIT, .errors = BUFFER_INIT};
    assert_int_equal(process_run(&options, &result, &error), ATTUNE_OK);
    if (result.exit_code != 0) {
        fail_msg("%s: %s", name, buffer_string(&result.errors));
    }
    process_result_free(&result);
    void *library = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fail_msg("%s", dlerror());
    }
    return library;
}

static void run_candidate(struct work *work, const struct candidate *candidate)
{
    struct expansion expansion = {.shown = BUFFER_INIT, .compile = BUFFER_INIT};
    struct error error = {.message = ""};
    char id[CANDIDATE_ID_BYTES], name[CANDIDATE_TEXT_BYTES];
    uint64_t grid[3];
    static float x[ELEMENTS_MAX], y[ELEMENTS_MAX + 1];
    candidate_id(candidate, id);
    candidate_format(candidate, name);
    if (candidate_expand(work->generator, candidate, &work->problem, &work->target, &expansion, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    void *library = compile_candidate(work, &expansion, id);
    host_entry entry;
    *(void **)&entry = dlsym(library, HOST_ENTRY_SYMBOL);
    assert_non_null(entry);
    for (int kind = 0; kind < 3; kind++) {
        make_reference(work, kind);
        for (int64_t i = 0; i <= work->elements; i++) {
            x[i % ELEMENTS_MAX] = (float)work->x[i % work->elements];
            y[i] = NAN;
        }
        struct {
            const float *x;
            float *y;
            int32_t rows;
            uint32_t origin_x;
        } arguments = {x, y, (int32_t)problem_integer(&work->problem, "rows"), 0};
        assert_int_equal(launch_grid(&expansion.launch, &work->problem, 1, grid, &error), ATTUNE_OK);
        struct host_launch launch = {.entry = entry,
                                     .grid = {(uint32_t)grid[0], 1, 1},
                                     .threads = expansion.launch.threads,
                                     .wave = (uint32_t)work->wave,
                                     .arguments = &arguments};
        if (host_device_run(&launch, &error) != ATTUNE_OK) {
            fail_msg("%s: %s", name, error.message);
        }
        for (int64_t i = 0; i < work->elements; i++) {
            if (!(fabs(y[i] - work->expected[i]) <= work->tolerance[i])) {
                fail_msg("%s: kind %d, y[%d] = %g, not %g within %g", name, kind, (int)i, y[i], work->expected[i],
                         work->tolerance[i]);
            }
        }
        assert_true(isnan(y[work->elements]));
    }
    dlclose(library);
    expansion_free(&expansion);
}

static void candidates_agree_with_the_reference(void **state)
{
    (void)state;
    static const char *const problems[] = {"softmax dtype=f32 rows=19 columns=72 alignment=16",
                                           "softmax dtype=f32 rows=3 columns=77",
                                           "softmax dtype=f32 rows=2 columns=2000"};
    struct work *work = calloc(1, sizeof *work);
    struct error error = {.message = ""};
    work->generator = open_generator(SOFTMAX_FOLDER);
    if (program_find("c++", work->compiler, sizeof work->compiler, &error) != ATTUNE_OK) {
        generator_destroy(work->generator);
        free(work);
        print_message("skipped: %s\n", error.message);
        skip();
    }
    assert_int_equal(folder_temporary(work->folder, sizeof work->folder, &error), ATTUNE_OK);
    for (int i = 0; i < 3; i++) {
        struct candidate_list list;
        json_t *facts;
        toy_setup(work->generator, problems[i], i == 0 ? "host-gfx906" : "host", &work->problem, &work->target);
        assert_int_equal(generator_target_facts(work->generator, &work->target, &facts, &error), ATTUNE_OK);
        work->wave = (int)json_integer_value(json_object_get(facts, "wave"));
        json_decref(facts);
        if (candidate_cover(work->generator, &work->problem, &work->target, 4, 1, &list, &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        for (int j = 0; j < list.count; j++) {
            run_candidate(work, &list.items[j]);
        }
        candidate_list_free(&list);
    }
    folder_remove(work->folder);
    generator_destroy(work->generator);
    free(work);
}

static void every_target_and_dtype_has_a_default(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"f16", "bf16", "f32"};
    struct generator *generator = open_generator(SOFTMAX_FOLDER);
    struct expansion expansion = {.shown = BUFFER_INIT, .compile = BUFFER_INIT};
    struct error error = {.message = ""};
    for (int i = 0; i < generator_target_count(generator); i++) {
        for (int j = 0; j < 9; j++) {
            static const int columns[] = {2, 100, 4096};
            char text[128];
            struct problem problem;
            struct target target;
            struct candidate candidate;
            snprintf(text, sizeof text, "softmax dtype=%s rows=10 columns=%d", dtypes[j % 3], columns[j / 3]);
            toy_setup(generator, text, generator_target_name(generator, i), &problem, &target);
            if (candidate_default(generator, &problem, &target, &candidate, &error) != ATTUNE_OK ||
                candidate_expand(generator, &candidate, &problem, &target, &expansion, &error) != ATTUNE_OK) {
                fail_msg("%s: %s", text, error.message);
            }
        }
    }
    expansion_free(&expansion);
    generator_destroy(generator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_agree_with_the_reference),
        cmocka_unit_test(every_target_and_dtype_has_a_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
