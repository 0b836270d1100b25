/* test_prepare.c - which record becomes a plan, and what a miss does: with a store, a fake driver and a fake compiler.
 */
#include "fake.h"

#include "base/files.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZES(q, k) FAKE_PROBLEM "seqlen_q=" q " seqlen_k=" k

struct scene {
    char folder[512];
    attune_context *context;
    attune_device *device;
    struct fake_device *gpu;
    struct fake_jit jit;
};

static void scene_open(struct scene *scene, attune_jit_mode mode, bool with_jit)
{
    memset(scene, 0, sizeof *scene);
    assert_int_equal(folder_temporary(scene->folder, sizeof scene->folder, NULL), ATTUNE_OK);
    scene->context = fake_context(scene->folder, mode);
    scene->device = fake_open(scene->context, &scene->gpu);
    fake_jit_init(&scene->jit);
    if (with_jit) {
        fake_jit_register(&scene->jit, scene->context);
    }
}

static void scene_close(struct scene *scene)
{
    attune_context_destroy(scene->context);
    assert_int_equal(scene->gpu->loads, scene->gpu->unloads);
    assert_int_equal(scene->gpu->relaxed, 0);
    folder_remove(scene->folder);
}

/* prepares and describes; the plan is destroyed again */
static attune_status prepare_info(struct scene *scene, const char *text, attune_rung lowest, const char *candidate,
                                  attune_plan_info *info)
{
    attune_prepare_options options = {.size = sizeof options, .lowest_rung = lowest, .candidate = candidate};
    attune_problem *problem = fake_problem(scene->context, text);
    attune_plan *plan = (attune_plan *)scene;
    attune_status status = attune_prepare(scene->device, problem, &options, &plan);
    if (status == ATTUNE_OK) {
        assert_int_equal(((void)(info->size = sizeof *info), attune_plan_describe(plan, info)), ATTUNE_OK);
    } else {
        assert_null(plan);
    }
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    return status;
}

static void expect_plan(struct scene *scene, const char *text, attune_rung rung, const char *candidate)
{
    attune_plan_info info;
    fake_expect(scene->context, ATTUNE_OK, prepare_info(scene, text, (attune_rung)0, NULL, &info), NULL);
    assert_int_equal(info.rung, rung);
    assert_string_equal(info.candidate, candidate);
}

static void a_miss_compiles_once_and_then_the_store_serves(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ATTUNE_JIT_COMPILE, true);
    expect_plan(&scene, SIZES("100", "100"), ATTUNE_RUNG_DEFAULT, "fake/default a=1");
    expect_plan(&scene, SIZES("100", "100"), ATTUNE_RUNG_DEFAULT, "fake/default a=1");
    expect_plan(&scene, SIZES("7", "9000") " batch=3", ATTUNE_RUNG_DEFAULT,
                "fake/default a=1"); /* same specialisation */
    assert_int_equal(scene.jit.compiles, 1);
    expect_plan(&scene, SIZES("100", "100") " causal=1", ATTUNE_RUNG_DEFAULT, "fake/default a=1");
    assert_int_equal(scene.jit.compiles, 2);
    attune_context_destroy(scene.context);
    assert_int_equal(scene.jit.destroyed, 1);
    /* another process: forbidden to compile, served all the same */
    scene.context = fake_context(scene.folder, ATTUNE_JIT_FORBID);
    scene.device = fake_open(scene.context, &scene.gpu);
    expect_plan(&scene, SIZES("64", "64"), ATTUNE_RUNG_DEFAULT, "fake/default a=1");
    scene_close(&scene);
}

static void exact_goes_before_near_before_default(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ATTUNE_JIT_FORBID, false);
    struct store *store = scene.context->store;
    fake_publish(store, &(struct fake_record){RECORD_DEFAULT, SIZES("1", "1"), "f/default", .created = 9000});
    expect_plan(&scene, SIZES("1024", "1024"), ATTUNE_RUNG_DEFAULT, "f/default");
    fake_publish(store, &(struct fake_record){RECORD_TUNED, SIZES("64", "64"), "f/far", .created = 3000});
    expect_plan(&scene, SIZES("1024", "1024"), ATTUNE_RUNG_NEAR, "f/far");
    fake_publish(store, &(struct fake_record){RECORD_TUNED, SIZES("512", "1024"), "f/close", .created = 1000});
    expect_plan(&scene, SIZES("1024", "1024"), ATTUNE_RUNG_NEAR, "f/close");
    fake_publish(store, &(struct fake_record){RECORD_TUNED, SIZES("1024", "1024"), "f/exact", .created = 10});
    expect_plan(&scene, SIZES("1024", "1024"), ATTUNE_RUNG_EXACT, "f/exact");
    /* the newest complete run of a shape wins; a newer one that was cut short does not */
    fake_publish(store, &(struct fake_record){RECORD_TUNED, SIZES("1024", "1024"), "f/newer", .created = 20});
    fake_publish(
        store, &(struct fake_record){RECORD_TUNED, SIZES("1024", "1024"), "f/cut", .created = 30, .incomplete = true});
    expect_plan(&scene, SIZES("1024", "1024"), ATTUNE_RUNG_EXACT, "f/newer");
    scene_close(&scene);
}

static void of_incomplete_runs_the_one_that_tried_most_wins(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ATTUNE_JIT_FORBID, false);
    struct store *store = scene.context->store;
    struct fake_record record = {RECORD_TUNED,  SIZES("1024", "1024"), "f/long",
                                 .created = 10, .incomplete = true,    .tried = 90};
    fake_publish(store, &record);
    record.candidate = "f/short", record.created = 20, record.tried = 4;
    fake_publish(store, &record);
    expect_plan(&scene, SIZES("1024", "1024"), ATTUNE_RUNG_EXACT, "f/long");
    record.candidate = "f/as-long", record.created = 30, record.tried = 90;
    fake_publish(store, &record);
    expect_plan(&scene, SIZES("1024", "1024"), ATTUNE_RUNG_EXACT, "f/as-long");
    record.candidate = "f/whole", record.created = 5, record.tried = 2, record.incomplete = false;
    fake_publish(store, &record);
    expect_plan(&scene, SIZES("1024", "1024"), ATTUNE_RUNG_EXACT, "f/whole");
    record.candidate = "f/newer", record.created = 6, record.tried = 1; /* complete ones: by time alone */
    fake_publish(store, &record);
    expect_plan(&scene, SIZES("1024", "1024"), ATTUNE_RUNG_EXACT, "f/newer");
    scene_close(&scene);
}

static void near_is_the_smallest_sum_of_log_ratios(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ATTUNE_JIT_FORBID, false);
    struct store *store = scene.context->store;
    fake_publish(store,
                 &(struct fake_record){RECORD_TUNED, SIZES("256", "4096"), "f/a", .created = 1}); /* |2| + 0 = 2 */
    fake_publish(
        store, &(struct fake_record){RECORD_TUNED, SIZES("1024", "8192") " batch=2", "f/b", .created = 2}); /* 1 + 1 */
    fake_publish(store, &(struct fake_record){RECORD_TUNED, SIZES("1024", "1024"), "f/c", .created = 3});   /* 2 */
    fake_publish(store, &(struct fake_record){RECORD_TUNED, SIZES("900", "2048"), "f/d", .created = 0}); /* 0.19 + 1 */
    expect_plan(&scene, SIZES("1024", "4096"), ATTUNE_RUNG_NEAR, "f/d");
    /* a tie goes to the newest */
    expect_plan(&scene, SIZES("1024", "4096") " batch=4", ATTUNE_RUNG_NEAR, "f/b");
    fake_publish(store, &(struct fake_record){RECORD_TUNED, SIZES("1024", "1024"), "f/e", .created = 4});
    expect_plan(&scene, SIZES("1024", "1023"), ATTUNE_RUNG_NEAR, "f/e");
    /* batch x heads is one quantity */
    fake_publish(store,
                 &(struct fake_record){RECORD_TUNED,
                                       "attention.forward dtype=f32 heads=8 kv_heads=4 head_dim=16 seqlen_q=1024 "
                                       "seqlen_k=4096",
                                       "f/heads", .created = 0});
    expect_plan(&scene, SIZES("1024", "4096") " batch=2", ATTUNE_RUNG_NEAR, "f/heads");
    scene_close(&scene);
}

static void a_record_with_fixed_sizes_serves_only_these(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ATTUNE_JIT_FORBID, false);
    struct store *store = scene.context->store;
    fake_publish(store, &(struct fake_record){RECORD_TUNED, SIZES("1024", "1024"), "f/fixed", .created = 5,
                                              .fixed_seqlen_q = 1024});
    fake_publish(store, &(struct fake_record){RECORD_TUNED, SIZES("64", "64"), "f/free", .created = 4});
    expect_plan(&scene, SIZES("1024", "1024"), ATTUNE_RUNG_EXACT, "f/fixed");
    expect_plan(&scene, SIZES("1024", "512"), ATTUNE_RUNG_NEAR, "f/fixed");
    expect_plan(&scene, SIZES("1025", "1024"), ATTUNE_RUNG_NEAR, "f/free");
    scene_close(&scene);
}

static void batch_invariant_keeps_the_batch_out_of_the_choice(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ATTUNE_JIT_FORBID, false);
    struct store *store = scene.context->store;
#define INVARIANT(q, batch) SIZES(q, "512") " batch_invariant=1 batch=" batch
    fake_publish(store, &(struct fake_record){RECORD_TUNED, INVARIANT("512", "1"), "f/one", .created = 1});
    fake_publish(store, &(struct fake_record){RECORD_TUNED, INVARIANT("512", "64"), "f/many", .created = 2});
    expect_plan(&scene, INVARIANT("512", "1"), ATTUNE_RUNG_EXACT, "f/many");
    expect_plan(&scene, INVARIANT("512", "64"), ATTUNE_RUNG_EXACT, "f/many");
    expect_plan(&scene, INVARIANT("300", "1"), ATTUNE_RUNG_NEAR, "f/many");
    scene_close(&scene);
}

static void another_driver_or_power_limit_lowers_the_rung_and_is_noted(void **state)
{
    (void)state;
    struct scene scene;
    attune_plan_info info = {.size = sizeof info};
    scene_open(&scene, ATTUNE_JIT_FORBID, false);
    struct store *store = scene.context->store;
    fake_publish(store,
                 &(struct fake_record){RECORD_TUNED, SIZES("512", "512"), "f/old", .created = 1, .driver = "HIP old"});
    fake_expect(scene.context, ATTUNE_OK, prepare_info(&scene, SIZES("512", "512"), (attune_rung)0, NULL, &info), NULL);
    assert_int_equal(info.rung, ATTUNE_RUNG_NEAR);
    assert_int_equal(info.stale, 1);
    assert_non_null(strstr(info.note, "HIP old"));
    assert_int_equal(prepare_info(&scene, SIZES("512", "512"), ATTUNE_RUNG_EXACT, NULL, &info), ATTUNE_FORBIDDEN);
    fake_publish(store,
                 &(struct fake_record){RECORD_TUNED, SIZES("256", "256"), "f/capped", .created = 1, .power = 150});
    fake_expect(scene.context, ATTUNE_OK, prepare_info(&scene, SIZES("256", "256"), (attune_rung)0, NULL, &info), NULL);
    assert_int_equal(info.rung, ATTUNE_RUNG_NEAR);
    assert_non_null(strstr(info.note, "150 W"));
    scene_close(&scene);
}

static void records_of_other_devices_and_targets_do_not_count(void **state)
{
    (void)state;
    struct scene scene;
    attune_plan_info info = {.size = sizeof info};
    scene_open(&scene, ATTUNE_JIT_FORBID, false);
    struct store *store = scene.context->store;
    static const char *const others[] = {"gfx900", "gfx908", "gfx906:xnack+", "sm_90a"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        fake_publish(store, &(struct fake_record){RECORD_DEFAULT, SIZES("1", "1"), "f/other", .created = 1,
                                                  .target = others[i]});
    }
    assert_int_equal(prepare_info(&scene, SIZES("8", "8"), (attune_rung)0, NULL, &info), ATTUNE_FORBIDDEN);
    /* code that leaves the features open runs on a device that sets them */
    assert_int_equal(target_parse("gfx906:sramecc+:xnack-", &scene.device->facts.target, NULL), ATTUNE_OK);
    fake_publish(store,
                 &(struct fake_record){RECORD_DEFAULT, SIZES("1", "1"), "f/open", .created = 1, .target = "gfx906"});
    expect_plan(&scene, SIZES("8", "8"), ATTUNE_RUNG_DEFAULT, "f/open");
    fake_publish(store, &(struct fake_record){RECORD_DEFAULT, SIZES("1", "1"), "f/half", .created = 2,
                                              .target = "gfx906:xnack-"});
    expect_plan(&scene, SIZES("8", "8"), ATTUNE_RUNG_DEFAULT, "f/half");
    /* more shared memory than the device has */
    scene.device->facts.shared_bytes = 0;
    scene.device->facts.max_threads = 16;
    assert_int_equal(prepare_info(&scene, SIZES("8", "8"), (attune_rung)0, NULL, &info), ATTUNE_FORBIDDEN);
    scene_close(&scene);
}

static void forbid_names_the_key_the_device_and_the_paths(void **state)
{
    (void)state;
    struct scene scene;
    attune_plan_info info = {.size = sizeof info};
    scene_open(&scene, ATTUNE_JIT_FORBID, true);
    fake_expect(scene.context, ATTUNE_FORBIDDEN, prepare_info(&scene, SIZES("8", "8"), (attune_rung)0, NULL, &info),
                "attention.forward q_dtype=f32", "head_ratio=2", "gfx906", "Fake MI50", "ATTUNE_JIT", scene.folder,
                "gfx906-60cu-64k-16g", "default-gfx906", "`attune compile --defaults --problem P --target gfx906",
                "` or `attune tune --problem P`", NULL);
    assert_int_equal(scene.jit.compiles, 0);
    assert_int_equal(scene.jit.tunes, 0);
    scene_close(&scene);
    /* without the compiling half the message says what to link */
    scene_open(&scene, ATTUNE_JIT_COMPILE, false);
    fake_expect(scene.context, ATTUNE_NOT_FOUND, prepare_info(&scene, SIZES("8", "8"), (attune_rung)0, NULL, &info),
                "attune_jit_register", scene.folder, NULL);
    scene_close(&scene);
}

static void the_lowest_rung_is_kept(void **state)
{
    (void)state;
    struct scene scene;
    attune_plan_info info = {.size = sizeof info};
    scene_open(&scene, ATTUNE_JIT_COMPILE, true);
    expect_plan(&scene, SIZES("512", "512"), ATTUNE_RUNG_DEFAULT, "fake/default a=1");
    fake_expect(scene.context, ATTUNE_NOT_FOUND,
                prepare_info(&scene, SIZES("512", "512"), ATTUNE_RUNG_NEAR, NULL, &info), "near", NULL);
    fake_publish(scene.context->store, &(struct fake_record){RECORD_TUNED, SIZES("64", "64"), "f/near", .created = 1});
    fake_expect(scene.context, ATTUNE_OK, prepare_info(&scene, SIZES("512", "512"), ATTUNE_RUNG_NEAR, NULL, &info),
                NULL);
    fake_expect(scene.context, ATTUNE_NOT_FOUND,
                prepare_info(&scene, SIZES("512", "512"), ATTUNE_RUNG_EXACT, NULL, &info), "exact", NULL);
    assert_int_equal(scene.jit.compiles, 1);
    fake_expect(scene.context, ATTUNE_INVALID, prepare_info(&scene, SIZES("512", "512"), (attune_rung)7, NULL, &info),
                "lowest_rung", NULL);
    scene_close(&scene);
}

static void tune_tunes_a_miss_and_not_what_is_near(void **state)
{
    (void)state;
    struct scene scene;
    attune_plan_info info = {.size = sizeof info};
    scene_open(&scene, ATTUNE_JIT_TUNE, true);
    fake_publish(scene.context->store,
                 &(struct fake_record){RECORD_DEFAULT, SIZES("1", "1"), "f/default", .created = 1});
    expect_plan(&scene, SIZES("512", "512"), ATTUNE_RUNG_EXACT, "fake/default a=1");
    expect_plan(&scene, SIZES("512", "512"), ATTUNE_RUNG_EXACT, "fake/default a=1");
    expect_plan(&scene, SIZES("256", "512"), ATTUNE_RUNG_NEAR, "fake/default a=1");
    assert_int_equal(scene.jit.tunes, 1);
    fake_expect(scene.context, ATTUNE_OK, prepare_info(&scene, SIZES("256", "512"), ATTUNE_RUNG_EXACT, NULL, &info),
                NULL);
    assert_int_equal(scene.jit.tunes, 2);
    assert_int_equal(scene.jit.compiles, 0);
    scene_close(&scene);
}

/* the caller has the device's memory, or the device serves one process: no reason to have no plan */
static void where_tuning_cannot_be_done_the_default_serves(void **state)
{
    (void)state;
    struct scene scene;
    attune_plan_info info = {.size = sizeof info};
    scene_open(&scene, ATTUNE_JIT_TUNE, true);
    scene.jit.untuned = ATTUNE_NO_MEMORY;
    expect_plan(&scene, SIZES("512", "512"), ATTUNE_RUNG_DEFAULT, "fake/default a=1");
    assert_int_equal(scene.jit.tunes, 1);
    assert_int_equal(scene.jit.compiles, 1);
    /* who asks for more than a default is told why there is none */
    fake_expect(scene.context, ATTUNE_NO_MEMORY,
                prepare_info(&scene, SIZES("512", "512"), ATTUNE_RUNG_NEAR, NULL, &info), "serves one process", NULL);
    assert_int_equal(scene.jit.compiles, 1);
    /* nothing to serve either: the first reason is the one that is told */
    scene.jit.fail = ATTUNE_COMPILE_FAILED;
    fake_expect(scene.context, ATTUNE_COMPILE_FAILED,
                prepare_info(&scene, SIZES("512", "512") " causal=1", (attune_rung)0, NULL, &info), "tuner refuses",
                NULL);
    scene.jit.fail = scene.jit.untuned = ATTUNE_OK;
    expect_plan(&scene, SIZES("512", "512"), ATTUNE_RUNG_EXACT, "fake/default a=1");
    scene_close(&scene);
}

static void a_named_candidate_is_served_from_the_store_or_compiled(void **state)
{
    (void)state;
    struct scene scene;
    attune_plan_info info = {.size = sizeof info};
    scene_open(&scene, ATTUNE_JIT_COMPILE, true);
    fake_publish(scene.context->store,
                 &(struct fake_record){RECORD_TUNED, SIZES("64", "64"), "f/stored", .created = 1});
    fake_expect(scene.context, ATTUNE_OK, prepare_info(&scene, SIZES("64", "64"), (attune_rung)0, "f/stored", &info),
                NULL);
    assert_int_equal(scene.jit.compiles, 0);
    fake_expect(scene.context, ATTUNE_OK, prepare_info(&scene, SIZES("64", "64"), (attune_rung)0, "f/other", &info),
                NULL);
    assert_string_equal(info.candidate, "f/other");
    assert_int_equal(scene.jit.compiles, 1);
    fake_expect(scene.context, ATTUNE_INVALID, prepare_info(&scene, SIZES("64", "64"), (attune_rung)0, "", &info),
                "candidate", NULL);
    scene_close(&scene);
}

static void an_object_that_is_gone_is_compiled_again(void **state)
{
    (void)state;
    struct scene scene;
    attune_plan_info info = {.size = sizeof info};
    scene_open(&scene, ATTUNE_JIT_COMPILE, true);
    fake_publish(scene.context->store,
                 &(struct fake_record){RECORD_TUNED, SIZES("64", "64"), "f/gone", .created = 1, .no_object = true});
    fake_expect(scene.context, ATTUNE_OK, prepare_info(&scene, SIZES("64", "64"), (attune_rung)0, NULL, &info), NULL);
    assert_string_equal(info.candidate, "f/gone");
    assert_int_equal(info.rung, ATTUNE_RUNG_EXACT);
    assert_int_equal(scene.jit.compiles, 1);
    fake_expect(scene.context, ATTUNE_OK, prepare_info(&scene, SIZES("64", "64"), (attune_rung)0, NULL, &info), NULL);
    assert_int_equal(scene.jit.compiles, 1); /* its object is back */
    scene_close(&scene);
    /* where nothing may be compiled the message says what is missing */
    scene_open(&scene, ATTUNE_JIT_FORBID, true);
    fake_publish(scene.context->store,
                 &(struct fake_record){RECORD_TUNED, SIZES("64", "64"), "f/gone", .created = 1, .no_object = true});
    fake_expect(scene.context, ATTUNE_FORBIDDEN, prepare_info(&scene, SIZES("64", "64"), (attune_rung)0, NULL, &info),
                "1 records", "objects are gone", NULL);
    scene_close(&scene);
}

static void a_store_that_keeps_nothing_ends_in_an_error_not_in_a_loop(void **state)
{
    (void)state;
    struct scene scene;
    attune_plan_info info = {.size = sizeof info};
    scene_open(&scene, ATTUNE_JIT_COMPILE, true);
    scene.jit.keep_nothing = true;
    assert_int_equal(prepare_info(&scene, SIZES("64", "64"), (attune_rung)0, NULL, &info), ATTUNE_NOT_FOUND);
    assert_true(scene.jit.compiles <= 4);
    scene.jit.keep_nothing = false;
    expect_plan(&scene, SIZES("64", "64"), ATTUNE_RUNG_DEFAULT, "fake/default a=1");
    scene_close(&scene);
}

static void stale_retune_ignores_other_compilers_and_accept_serves_them(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ATTUNE_JIT_COMPILE, true);
    fake_publish(scene.context->store, &(struct fake_record){RECORD_TUNED, SIZES("64", "64"), "f/old", .created = 1,
                                                             .identity = fake_other_identity});
    expect_plan(&scene, SIZES("64", "64"), ATTUNE_RUNG_EXACT, "f/old");
    attune_context_destroy(scene.context);
    setenv("ATTUNE_STALE", "retune", 1);
    scene.context = fake_context(scene.folder, ATTUNE_JIT_COMPILE);
    unsetenv("ATTUNE_STALE");
    scene.device = fake_open(scene.context, &scene.gpu);
    fake_jit_register(&scene.jit, scene.context);
    expect_plan(&scene, SIZES("64", "64"), ATTUNE_RUNG_DEFAULT, "fake/default a=1");
    assert_int_equal(scene.jit.compiles, 1);
    scene.jit.identity = fake_other_identity; /* going back finds the old ones again */
    expect_plan(&scene, SIZES("64", "64"), ATTUNE_RUNG_EXACT, "f/old");
    assert_int_equal(scene.jit.compiles, 1);
    scene_close(&scene);
}

static void wrong_environment_values_are_refused_by_name(void **state)
{
    (void)state;
    attune_context *context = (attune_context *)state;
    static const char *const names[][2] = {{"ATTUNE_JIT", "sometimes"}, {"ATTUNE_STALE", "maybe"}};
    for (int i = 0; i < 2; i++) {
        setenv(names[i][0], names[i][1], 1);
        fake_expect(NULL, ATTUNE_INVALID, attune_context_create(NULL, &context), names[i][0], names[i][1], NULL);
        assert_null(context);
        unsetenv(names[i][0]);
    }
}

/* ------------------------------------------------------------------------------------------------ threads */

enum { THREADS = 16 };
struct crew {
    struct scene *scene;
    attune_problem *problem[THREADS];
    attune_plan *plan[THREADS];
    attune_status status[THREADS];
    char message[THREADS][256];
    pthread_barrier_t barrier;
    atomic_int next;
    const char *candidate;
};

static void *prepare_one(void *data)
{
    struct crew *crew = data;
    int i = atomic_fetch_add(&crew->next, 1);
    attune_prepare_options options = {.size = sizeof options, .candidate = crew->candidate};
    pthread_barrier_wait(&crew->barrier);
    crew->status[i] = attune_prepare(crew->scene->device, crew->problem[i], &options, &crew->plan[i]);
    if (crew->status[i] != ATTUNE_OK) {
        attune_last_error(crew->scene->context, crew->message[i], sizeof crew->message[i]);
    }
    return NULL;
}

static void run_crew(struct crew *crew, struct scene *scene, bool different_sizes, const char *candidate)
{
    pthread_t threads[THREADS];
    memset(crew, 0, sizeof *crew);
    crew->scene = scene;
    crew->candidate = candidate;
    pthread_barrier_init(&crew->barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        char text[256];
        snprintf(text, sizeof text, FAKE_PROBLEM "seqlen_q=%d seqlen_k=64", different_sizes ? 10 + i : 64);
        crew->problem[i] = fake_problem(scene->context, text);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, prepare_one, crew), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&crew->barrier);
}

static void crew_free(struct crew *crew)
{
    for (int i = 0; i < THREADS; i++) {
        attune_plan_destroy(crew->plan[i]);
        attune_problem_destroy(crew->problem[i]);
    }
}

static void sixteen_threads_compile_once_and_share_one_module(void **state)
{
    (void)state;
    for (int different = 0; different < 2; different++) {
        for (int named = 0; named < 2; named++) {
            struct scene scene;
            struct crew crew;
            scene_open(&scene, ATTUNE_JIT_COMPILE, true);
            /* nobody publishes a record of a named candidate: all must have come before it is made */
            scene.jit.delay_milliseconds = named ? 400 : 50;
            run_crew(&crew, &scene, different, named ? "fake/named a=2" : NULL);
            for (int i = 0; i < THREADS; i++) {
                if (crew.status[i] != ATTUNE_OK) {
                    fail_msg("thread %d: %s", i, crew.message[i]);
                }
            }
            assert_int_equal(scene.jit.compiles, 1);
            assert_int_equal(scene.gpu->loads, 1);
            assert_int_equal(scene.gpu->unloads, 0);
            crew_free(&crew);
            assert_int_equal(scene.gpu->unloads, 1);
            scene_close(&scene);
        }
    }
}

static void a_failure_is_told_to_all_and_can_be_tried_again(void **state)
{
    (void)state;
    struct scene scene;
    struct crew crew;
    scene_open(&scene, ATTUNE_JIT_COMPILE, true);
    scene.jit.delay_milliseconds = 100;
    scene.jit.fail = ATTUNE_COMPILE_FAILED;
    run_crew(&crew, &scene, false, NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(crew.status[i], ATTUNE_COMPILE_FAILED);
        assert_non_null(strstr(crew.message[i], "the fake compiler refuses"));
        assert_null(crew.plan[i]);
    }
    crew_free(&crew);
    int before = scene.jit.compiles;
    scene.jit.fail = ATTUNE_OK;
    expect_plan(&scene, SIZES("64", "64"), ATTUNE_RUNG_DEFAULT, "fake/default a=1");
    assert_int_equal(scene.jit.compiles, before + 1);
    scene_close(&scene);
}

static void tuning_from_many_threads_tunes_each_problem_once(void **state)
{
    (void)state;
    struct scene scene;
    struct crew crew;
    scene_open(&scene, ATTUNE_JIT_TUNE, true);
    scene.jit.delay_milliseconds = 50;
    run_crew(&crew, &scene, false, NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(crew.status[i], ATTUNE_OK);
    }
    assert_int_equal(scene.jit.tunes, 1);
    crew_free(&crew);
    scene_close(&scene);
}

static void a_driver_that_cannot_load_is_an_error_with_its_text(void **state)
{
    (void)state;
    struct scene scene;
    attune_plan_info info = {.size = sizeof info};
    scene_open(&scene, ATTUNE_JIT_COMPILE, true);
    scene.gpu->load_fails = ATTUNE_DEVICE_FAILED;
    fake_expect(scene.context, ATTUNE_DEVICE_FAILED,
                prepare_info(&scene, SIZES("64", "64"), (attune_rung)0, NULL, &info), "the driver cannot load", NULL);
    scene.gpu->load_fails = ATTUNE_OK;
    expect_plan(&scene, SIZES("64", "64"), ATTUNE_RUNG_DEFAULT, "fake/default a=1");
    scene_close(&scene);
}

static void a_descriptor_that_cannot_be_bound_is_refused(void **state)
{
    (void)state;
    static const struct launch_argument wrong[] = {{"qq", ARGUMENT_POINTER},
                                                   {"q", ARGUMENT_I64},
                                                   {"seed", ARGUMENT_I32},
                                                   {"scale", ARGUMENT_I32},
                                                   {"causal", ARGUMENT_I32}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct scene scene;
        attune_plan_info info = {.size = sizeof info};
        scene_open(&scene, ATTUNE_JIT_COMPILE, true);
        scene.jit.launch.arguments[0] = wrong[i];
        scene.jit.launch.argument_count = 1;
        fake_expect(scene.context, ATTUNE_UNSUPPORTED,
                    prepare_info(&scene, SIZES("64", "64"), (attune_rung)0, NULL, &info), wrong[i].name, NULL);
        scene_close(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_miss_compiles_once_and_then_the_store_serves),
        cmocka_unit_test(exact_goes_before_near_before_default),
        cmocka_unit_test(of_incomplete_runs_the_one_that_tried_most_wins),
        cmocka_unit_test(near_is_the_smallest_sum_of_log_ratios),
        cmocka_unit_test(a_record_with_fixed_sizes_serves_only_these),
        cmocka_unit_test(batch_invariant_keeps_the_batch_out_of_the_choice),
        cmocka_unit_test(another_driver_or_power_limit_lowers_the_rung_and_is_noted),
        cmocka_unit_test(records_of_other_devices_and_targets_do_not_count),
        cmocka_unit_test(forbid_names_the_key_the_device_and_the_paths),
        cmocka_unit_test(the_lowest_rung_is_kept),
        cmocka_unit_test(tune_tunes_a_miss_and_not_what_is_near),
        cmocka_unit_test(where_tuning_cannot_be_done_the_default_serves),
        cmocka_unit_test(a_named_candidate_is_served_from_the_store_or_compiled),
        cmocka_unit_test(an_object_that_is_gone_is_compiled_again),
        cmocka_unit_test(a_store_that_keeps_nothing_ends_in_an_error_not_in_a_loop),
        cmocka_unit_test(stale_retune_ignores_other_compilers_and_accept_serves_them),
        cmocka_unit_test(wrong_environment_values_are_refused_by_name),
        cmocka_unit_test(sixteen_threads_compile_once_and_share_one_module),
        cmocka_unit_test(a_failure_is_told_to_all_and_can_be_tried_again),
        cmocka_unit_test(tuning_from_many_threads_tunes_each_problem_once),
        cmocka_unit_test(a_driver_that_cannot_load_is_an_error_with_its_text),
        cmocka_unit_test(a_descriptor_that_cannot_be_bound_is_refused),
    };
    return cmocka_run_group_tests_name("prepare", tests, NULL, NULL);
}
