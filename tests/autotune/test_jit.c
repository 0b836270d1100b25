/* The miss handler through the public interface: prepare compiles once, launches of other sizes need no compile, tuning
 * on a miss leaves a record, forbid refuses. Results are compared with the fp64 reference. */
#include "attention_cases.h"
#include "autotune/history.h"
#include "autotune/tune.h"
#include "base/files.h"
#include "cache/store.h"
#include "generator/compiler.h"
#include "generator/generator.h"
#include "public_arguments.h"
#include "runtime/attune.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    char folder[512];
    attune_context *context;
    attune_device *device;
};

static void message(const struct place *place, char text[1024])
{
    attune_last_error(place->context, text, 1024);
}

static void open_place(struct place *place, const char *folder, attune_jit_mode mode)
{
    attune_context_options options = {.size = sizeof options, .jit = mode, .tune_seconds = 5.0};
    if (folder == NULL) {
        assert_int_equal(folder_temporary(place->folder, sizeof place->folder, NULL), ATTUNE_OK);
    } else {
        snprintf(place->folder, sizeof place->folder, "%s", folder);
    }
    options.store = place->folder;
    assert_int_equal(attune_context_create(&options, &place->context), ATTUNE_OK);
    assert_int_equal(attune_jit_register(place->context), ATTUNE_OK);
    assert_int_equal(attune_device_open(place->context, "host", &place->device), ATTUNE_OK);
}

static void close_place(struct place *place, bool remove)
{
    attune_context_destroy(place->context);
    if (remove) {
        folder_remove(place->folder);
    }
}

static void parse(struct place *place, const char *text, attune_problem **problem)
{
    if (attune_problem_parse(place->context, text, problem) != ATTUNE_OK) {
        char why[1024];
        message(place, why);
        fail_msg("%s: %s", text, why);
    }
}

static attune_plan *prepare(struct place *place, const attune_problem *problem)
{
    attune_plan *plan = NULL;
    attune_status status = attune_prepare(place->device, problem, NULL, &plan);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        skip();
    }
    if (status != ATTUNE_OK) {
        char why[1024];
        message(place, why);
        fail_msg("%s", why);
    }
    return plan;
}

/* one launch against the reference */
static void launch_is_right(struct place *place, const attune_plan *plan, const struct attention *a, int kind,
                            uint64_t seed)
{
    struct attention_case c;
    char reason[512], why[1024];
    double ratio;
    case_inputs(&c, a, kind, seed);
    case_compute(&c);
    void *o = malloc((size_t)a->o.span * dtype_size(a->o.dtype) + 1);
    float *lse = malloc(c.rows.count * sizeof *lse + 1);
    memset(o, 0xff, (size_t)a->o.span * dtype_size(a->o.dtype));
    memset(lse, 0xff, c.rows.count * sizeof *lse);
    attune_attention_arguments arguments = public_arguments(a);
    arguments.q = c.q;
    arguments.k = c.k;
    arguments.v = c.v;
    arguments.o = o;
    arguments.lse = a->lse ? lse : NULL;
    if (attune_launch_attention(plan, &arguments, NULL, NULL, 0) != ATTUNE_OK) {
        message(place, why);
        fail_msg("%s", why);
    }
    if (!reference_compare(a, &c.rows, &c.reference, o, a->lse ? lse : NULL, &ratio, reason, sizeof reason)) {
        fail_msg("batch %lld, heads %lld, lengths %lld on %lld: %s", (long long)a->batch, (long long)a->heads,
                 (long long)a->seqlen_q, (long long)a->seqlen_k, reason);
    }
    free(o);
    free(lse);
    case_free(&c);
}

static void one_prepare_serves_many_sizes_without_a_compile(void **state)
{
    (void)state;
    struct place place;
    attune_problem *problem;
    open_place(&place, NULL, ATTUNE_JIT_COMPILE);
    parse(&place, "attention.forward dtype=f16 heads=4 kv_heads=2 seqlen_q=20 seqlen_k=40 head_dim=32 causal=1 lse=1",
          &problem);
    attune_plan *plan = prepare(&place, problem);
    attune_plan_info info = {.size = sizeof info};
    assert_int_equal(attune_plan_describe(plan, &info), ATTUNE_OK);
    assert_int_equal(info.rung, ATTUNE_RUNG_DEFAULT);
    uint64_t starts = compiler_helper_starts();
    uint64_t random = 1;
    for (int i = 0; i < 60; i++) {
        random = hash_mix(random);
        int64_t kv_heads = 1 + (int64_t)(random >> 8 & 1);
        struct attention a = attention_make(DTYPE_F16, 1 + (int64_t)(random & 1), 2 * kv_heads, kv_heads,
                                            1 + (int64_t)(random >> 16 & 31), 1 + (int64_t)(random >> 24 & 63), 32, 32);
        a.causal = CAUSAL_BOTTOM_RIGHT;
        a.alignment = 16;
        if (random >> 40 & 1) {
            attention_scattered(&a);
        }
        launch_is_right(&place, plan, &a, i % INPUT_KINDS, random);
    }
    assert_int_equal(compiler_helper_starts(), starts);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    close_place(&place, true);
}

/* the whole stored file of the plan's object */
static void read_object(const struct place *place, const char *object, struct buffer *bytes)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/objects/%.2s/%s", place->folder, object, object);
    assert_int_equal(file_read(path, 64 << 20, bytes, NULL), ATTUNE_OK);
}

static void two_prepares_in_two_stores_make_the_same_object(void **state)
{
    (void)state;
    struct place places[2];
    attune_plan_info infos[2];
    struct buffer bytes[2] = {BUFFER_INIT, BUFFER_INIT};
    for (int i = 0; i < 2; i++) {
        attune_problem *problem;
        open_place(&places[i], NULL, ATTUNE_JIT_COMPILE);
        parse(&places[i], "attention.forward dtype=f16 heads=4 kv_heads=2 seqlen_q=20 head_dim=32 causal=1", &problem);
        attune_plan *plan = prepare(&places[i], problem);
        infos[i].size = sizeof infos[i];
        assert_int_equal(attune_plan_describe(plan, &infos[i]), ATTUNE_OK);
        read_object(&places[i], infos[i].object, &bytes[i]);
        attune_plan_destroy(plan);
        attune_problem_destroy(problem);
    }
    assert_string_equal(infos[0].object, infos[1].object);
    assert_string_equal(infos[0].candidate, infos[1].candidate);
    assert_int_equal(bytes[0].length, bytes[1].length);
    assert_memory_equal(bytes[0].data, bytes[1].data, bytes[0].length);
    for (int i = 0; i < 2; i++) {
        buffer_free(&bytes[i]);
        close_place(&places[i], true);
    }
}

struct preparing {
    struct place *place;
    const attune_problem *problem;
    attune_plan *plan;
    attune_status status;
};

static void *prepare_thread(void *data)
{
    struct preparing *one = data;
    one->status = attune_prepare(one->place->device, one->problem, NULL, &one->plan);
    return NULL;
}

static int objects_in(const char *folder)
{
    struct store *store;
    struct store_verdict verdict;
    assert_int_equal(store_open(folder, &store, NULL), ATTUNE_OK);
    assert_int_equal(store_verify(store, false, &verdict, NULL), ATTUNE_OK);
    store_close(store);
    return verdict.objects;
}

static void many_threads_share_one_compile(void **state)
{
    (void)state;
    enum { THREADS = 32 };
    struct place place;
    attune_problem *problem;
    struct preparing each[THREADS];
    pthread_t threads[THREADS];
    open_place(&place, NULL, ATTUNE_JIT_COMPILE);
    parse(&place, "attention.forward dtype=f16 heads=1 seqlen_q=20 head_dim=16", &problem);
    uint64_t starts = compiler_helper_starts();
    for (int i = 0; i < THREADS; i++) {
        each[i] = (struct preparing){.place = &place, .problem = problem};
        assert_int_equal(pthread_create(&threads[i], NULL, prepare_thread, &each[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (each[i].status == ATTUNE_NO_TOOLCHAIN) {
            skip();
        }
        assert_int_equal(each[i].status, ATTUNE_OK);
        attune_plan_destroy(each[i].plan);
    }
    assert_int_equal(compiler_helper_starts() - starts, 1);
    assert_int_equal(objects_in(place.folder), 1);
    attune_problem_destroy(problem);
    close_place(&place, true);
}

static void a_filled_store_needs_no_compiler(void **state)
{
    (void)state;
    struct place place, later;
    attune_problem *problem;
    const char *text = "attention.forward dtype=f16 heads=1 seqlen_q=20 head_dim=16";
    open_place(&place, NULL, ATTUNE_JIT_COMPILE);
    parse(&place, text, &problem);
    attune_plan_destroy(prepare(&place, problem));
    attune_problem_destroy(problem);
    close_place(&place, false);
    uint64_t starts = compiler_helper_starts();
    open_place(&later, place.folder, ATTUNE_JIT_FORBID);
    parse(&later, text, &problem);
    attune_plan_destroy(prepare(&later, problem));
    attune_problem_destroy(problem);
    assert_int_equal(compiler_helper_starts(), starts);
    parse(&later, "attention.forward dtype=f16 heads=1 seqlen_q=20 head_dim=24", &problem);
    attune_plan *plan;
    assert_int_equal(attune_prepare(later.device, problem, NULL, &plan), ATTUNE_FORBIDDEN);
    assert_null(plan);
    attune_problem_destroy(problem);
    close_place(&later, true);
}

static void candidate_for(struct place *place, const char *text, char candidate[1024])
{
    attune_problem *problem;
    attune_plan_info info = {.size = sizeof info};
    parse(place, text, &problem);
    attune_plan *plan = prepare(place, problem);
    assert_int_equal(attune_plan_describe(plan, &info), ATTUNE_OK);
    snprintf(candidate, 1024, "%s", info.candidate);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
}

/* one specialisation, two defaults: each problem gets the one made for its like, also from a store alone */
static void decoding_and_prefill_have_defaults_of_their_own(void **state)
{
    (void)state;
    static const char *const texts[] = {"attention.forward dtype=f16 heads=2 seqlen_q=1 seqlen_k=90 head_dim=64",
                                        "attention.forward dtype=f16 heads=2 seqlen_q=200 seqlen_k=200 head_dim=64"};
    struct place place, later;
    char decode[1024], prefill[1024], again[1024];
    open_place(&place, NULL, ATTUNE_JIT_COMPILE);
    candidate_for(&place, texts[0], decode);
    candidate_for(&place, texts[1], prefill);
    assert_string_not_equal(decode, prefill);
    close_place(&place, false);
    open_place(&later, place.folder, ATTUNE_JIT_FORBID);
    candidate_for(&later, texts[1], again);
    assert_string_equal(again, prefill);
    candidate_for(&later, texts[0], again);
    assert_string_equal(again, decode);
    close_place(&later, true);
}

/* stderr goes into a file meanwhile */
struct hearing {
    FILE *file;
    int before;
};

static struct hearing hear_begin(void)
{
    struct hearing hearing = {.file = tmpfile(), .before = dup(STDERR_FILENO)};
    assert_non_null(hearing.file);
    assert_true(hearing.before >= 0 && dup2(fileno(hearing.file), STDERR_FILENO) >= 0);
    return hearing;
}

static void hear_end(struct hearing *hearing, char *text, size_t bytes)
{
    fflush(stderr);
    assert_true(dup2(hearing->before, STDERR_FILENO) >= 0);
    close(hearing->before);
    rewind(hearing->file);
    text[fread(text, 1, bytes - 1, hearing->file)] = '\0';
    fclose(hearing->file);
}

static void a_miss_in_tune_mode_leaves_an_exact_record(void **state)
{
    (void)state;
    struct place place;
    attune_problem *problem;
    open_place(&place, NULL, ATTUNE_JIT_TUNE);
    parse(&place, "attention.forward dtype=f16 heads=1 seqlen_q=9 seqlen_k=20 head_dim=16", &problem);
    char told[4096];
    struct hearing hearing = hear_begin();
    attune_plan *plan = prepare(&place, problem);
    hear_end(&hearing, told, sizeof told);
    assert_non_null(strstr(told, "attune: ATTUNE_JIT=tune: tunes on host for 5 s at most"));
    assert_non_null(strstr(told, " seqlen_q=9 "));
    assert_non_null(strstr(told, "ATTUNE_QUIET=1"));
    attune_plan_info info = {.size = sizeof info};
    assert_int_equal(attune_plan_describe(plan, &info), ATTUNE_OK);
    assert_int_equal(info.rung, ATTUNE_RUNG_EXACT);
    struct attention a = attention_make(DTYPE_F16, 1, 1, 1, 9, 20, 16, 16);
    a.lse = false;
    launch_is_right(&place, plan, &a, INPUT_NORMAL, 1);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    close_place(&place, false);
    /* `attune tune --resume` takes runs of its own seed */
    struct store *store;
    struct history history;
    assert_int_equal(store_open(place.folder, &store, NULL), ATTUNE_OK);
    assert_int_equal(history_read_runs(store, &history, NULL), ATTUNE_OK);
    assert_int_equal(history.run_count, 1);
    assert_int_equal(history.runs[0].reading.begin.seed, TUNE_SEED);
    history_free(&history);
    store_close(store);
    folder_remove(place.folder);
}

static void a_named_candidate_is_made(void **state)
{
    (void)state;
    struct place place;
    attune_problem *problem;
    open_place(&place, NULL, ATTUNE_JIT_COMPILE);
    const char *text = "attention.forward dtype=f16 heads=1 seqlen_q=9 seqlen_k=20 head_dim=64";
    parse(&place, text, &problem);
    /* another candidate of the space than the default */
    struct generator *generator;
    struct problem same;
    struct target target;
    struct candidate_list cover;
    char name[CANDIDATE_TEXT_BYTES];
    assert_int_equal(generator_create(NULL, &generator, NULL), ATTUNE_OK);
    assert_int_equal(problem_parse(schema_attention_forward(), text, &same, NULL), ATTUNE_OK);
    assert_int_equal(target_parse("host", &target, NULL), ATTUNE_OK);
    assert_int_equal(candidate_cover(generator, &same, &target, 2, 1, &cover, NULL), ATTUNE_OK);
    assert_int_equal(cover.count, 2);
    candidate_format(&cover.items[1], name);
    candidate_list_free(&cover);
    generator_destroy(generator);
    attune_prepare_options options = {.size = sizeof options, .candidate = name};
    attune_plan *plan;
    attune_status status = attune_prepare(place.device, problem, &options, &plan);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        skip();
    }
    char why[1024];
    message(&place, why);
    if (status != ATTUNE_OK) {
        fail_msg("%s", why);
    }
    attune_plan_info info = {.size = sizeof info};
    assert_int_equal(attune_plan_describe(plan, &info), ATTUNE_OK);
    assert_string_equal(info.candidate, name);
    attune_plan_destroy(plan);
    options.candidate = "lds_layout=diagonal";
    assert_int_equal(attune_prepare(place.device, problem, &options, &plan), ATTUNE_INVALID);
    message(&place, why);
    assert_non_null(strstr(why, "lds_layout"));
    attune_problem_destroy(problem);
    close_place(&place, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_prepare_serves_many_sizes_without_a_compile),
        cmocka_unit_test(two_prepares_in_two_stores_make_the_same_object),
        cmocka_unit_test(many_threads_share_one_compile),
        cmocka_unit_test(a_filled_store_needs_no_compiler),
        cmocka_unit_test(decoding_and_prefill_have_defaults_of_their_own),
        cmocka_unit_test(a_miss_in_tune_mode_leaves_an_exact_record),
        cmocka_unit_test(a_named_candidate_is_made),
    };
    return cmocka_run_group_tests_name("jit", tests, NULL, NULL);
}
