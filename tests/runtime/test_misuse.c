/* test_misuse.c - every public function with wrong arguments answers a status, and says what is wrong. */
#include "fake.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scene {
    attune_context *context;
    attune_device *device;
    struct fake_device *gpu;
    struct fake_jit jit;
    attune_problem *problem;
    attune_plan *plan;
};

static struct scene scene;

static int scene_open(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof scene);
    scene.context = fake_context(NULL, ATTUNE_JIT_COMPILE);
    scene.device = fake_open(scene.context, &scene.gpu);
    fake_jit_init(&scene.jit);
    fake_jit_register(&scene.jit, scene.context);
    scene.problem = fake_problem(scene.context, FAKE_PROBLEM "seqlen_q=8 seqlen_k=8");
    fake_expect(scene.context, ATTUNE_OK, attune_prepare(scene.device, scene.problem, NULL, &scene.plan), NULL);
    return 0;
}

static int scene_close(void **state)
{
    (void)state;
    attune_plan_destroy(scene.plan);
    attune_problem_destroy(scene.problem);
    attune_context_destroy(scene.context);
    return 0;
}

static void null_is_answered_everywhere(void **state)
{
    (void)state;
    attune_context *context = NULL;
    attune_device *device = NULL;
    attune_problem *problem = NULL;
    attune_plan *plan = NULL;
    size_t bytes = 0;
    attune_device_info device_info = {.size = sizeof device_info};
    attune_plan_info plan_info = {.size = sizeof plan_info};
    attune_attention attention = {.size = sizeof attention};
    attune_attention_arguments arguments = {.size = sizeof arguments};
    attune_context *own = scene.context;

    fake_expect(NULL, ATTUNE_INVALID, attune_context_create(NULL, NULL), "context", NULL);
    fake_expect(NULL, ATTUNE_INVALID, attune_device_open(NULL, "host", &device), "context", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_device_open(own, "host", NULL), "device", NULL);
    fake_expect(NULL, ATTUNE_INVALID, attune_device_describe(NULL, &device_info), "device", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_device_describe(scene.device, NULL), "info", NULL);
    fake_expect(NULL, ATTUNE_INVALID, attune_problem_attention(NULL, &attention, &problem), "context", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_problem_attention(own, NULL, &problem), "attention", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_problem_attention(own, &attention, NULL), "problem", NULL);
    fake_expect(NULL, ATTUNE_INVALID, attune_problem_parse(NULL, "x", &problem), "context", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_problem_parse(own, NULL, &problem), "text", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_problem_parse(own, "x", NULL), "problem", NULL);
    assert_int_equal(attune_problem_text(NULL, NULL, 0), 0);
    fake_expect(NULL, ATTUNE_INVALID, attune_prepare(NULL, scene.problem, NULL, &plan), "device", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_prepare(scene.device, NULL, NULL, &plan), "problem", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_prepare(scene.device, scene.problem, NULL, NULL), "plan", NULL);
    fake_expect(NULL, ATTUNE_INVALID, attune_plan_describe(NULL, &plan_info), "plan", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_plan_describe(scene.plan, NULL), "info", NULL);
    fake_expect(NULL, ATTUNE_INVALID, attune_launch_attention(NULL, &arguments, NULL, NULL, 0), "plan", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_launch_attention(scene.plan, NULL, NULL, NULL, 0), "arguments", NULL);
    fake_expect(NULL, ATTUNE_INVALID, attune_workspace_attention(NULL, &arguments, &bytes), "plan", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_workspace_attention(scene.plan, &arguments, NULL), "bytes", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_workspace_attention(scene.plan, NULL, &bytes), "arguments", NULL);
    fake_expect(NULL, ATTUNE_INVALID, attune_launch(NULL, NULL, 0, NULL, NULL, 0), "plan", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_launch(scene.plan, NULL, 1, NULL, NULL, 0), "arguments", NULL);
    fake_expect(NULL, ATTUNE_INVALID, attune_attention_forward(NULL, &attention, &arguments, NULL, NULL, 0), "device",
                NULL);
    fake_expect(own, ATTUNE_INVALID, attune_attention_forward(scene.device, NULL, &arguments, NULL, NULL, 0),
                "attention", NULL);
    fake_expect(own, ATTUNE_INVALID, attune_attention_forward(scene.device, &attention, NULL, NULL, NULL, 0),
                "arguments", NULL);
    assert_int_not_equal(attune_jit_register(NULL), ATTUNE_OK);
    attune_context_destroy(NULL);
    attune_problem_destroy(NULL);
    attune_plan_destroy(NULL);
    assert_null(context);
    assert_null(device);
    assert_null(problem);
    assert_null(plan);
    assert_int_equal(scene.gpu->launches, 0);
}

static void sizes_of_structs_are_checked(void **state)
{
    (void)state;
    attune_context *context = (attune_context *)state;
    static const size_t sizes[] = {0, 1, 8, sizeof(attune_context_options) - 1, (size_t)1 << 40, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        attune_context_options options = {.size = sizes[i]};
        context = (attune_context *)state;
        fake_expect(NULL, ATTUNE_INVALID, attune_context_create(&options, &context), "options.size", "sizeof", NULL);
        assert_null(context);
    }
    /* a newer header's struct: fine while what we do not know is zero */
    struct {
        attune_attention known;
        int64_t later;
    } newer = {{.size = sizeof newer, .batch = 1, .heads = 1, .seqlen_q = 8, .head_dim_qk = 8}, 0};
    attune_problem *problem = NULL;
    fake_expect(scene.context, ATTUNE_OK, attune_problem_attention(scene.context, &newer.known, &problem), NULL);
    attune_problem_destroy(problem);
    newer.later = 1;
    fake_expect(scene.context, ATTUNE_INVALID, attune_problem_attention(scene.context, &newer.known, &problem),
                "does not know", NULL);
    /* and a larger info is filled up with zeros */
    struct {
        attune_plan_info known;
        int64_t later;
    } info = {{.size = sizeof info}, 77};
    fake_expect(scene.context, ATTUNE_OK, attune_plan_describe(scene.plan, &info.known), NULL);
    assert_int_equal(info.later, 0);
    assert_int_equal(info.known.size, sizeof info);
}

static attune_attention good_attention(void)
{
    return (attune_attention){
        .size = sizeof(attune_attention), .batch = 2, .heads = 8, .kv_heads = 2, .seqlen_q = 16, .head_dim_qk = 64};
}

#define EXPECT_WRONG(status, statement, ...)                                                                           \
    do {                                                                                                               \
        attune_attention a = good_attention();                                                                         \
        attune_problem *made = (attune_problem *)state;                                                                \
        statement;                                                                                                     \
        fake_expect(scene.context, status, attune_problem_attention(scene.context, &a, &made), __VA_ARGS__, NULL);     \
        assert_null(made);                                                                                             \
    } while (0)

static void wrong_problems_are_refused_by_field(void **state)
{
    EXPECT_WRONG(ATTUNE_INVALID, a.heads = 0, "heads=0");
    EXPECT_WRONG(ATTUNE_INVALID, a.kv_heads = 3, "heads=8", "kv_heads=3");
    EXPECT_WRONG(ATTUNE_INVALID, a.kv_heads = 16, "kv_heads=16");
    EXPECT_WRONG(ATTUNE_INVALID, a.batch = -1, "batch=-1");
    EXPECT_WRONG(ATTUNE_INVALID, a.seqlen_q = -5, "seqlen_q=-5");
    EXPECT_WRONG(ATTUNE_INVALID, a.seqlen_k = INT64_MAX, "seqlen_k=");
    EXPECT_WRONG(ATTUNE_INVALID, a.seqlen_k = INT64_MIN, "seqlen_k=");
    EXPECT_WRONG(ATTUNE_INVALID, a.head_dim_qk = 0, "head_dim_qk=0");
    EXPECT_WRONG(ATTUNE_INVALID, a.head_dim_qk = 257, "head_dim_qk=257", "256");
    EXPECT_WRONG(ATTUNE_INVALID, a.head_dim_v = -1, "head_dim_v=-1");
    EXPECT_WRONG(ATTUNE_INVALID, a.q_dtype = (attune_dtype)9, "q_dtype=9");
    EXPECT_WRONG(ATTUNE_INVALID, a.o_dtype = (attune_dtype)-1, "o_dtype=-1");
    EXPECT_WRONG(ATTUNE_INVALID, a.causal = (attune_causal)5, "causal=5");
    EXPECT_WRONG(ATTUNE_INVALID, a.scale = NAN, "scale");
    EXPECT_WRONG(ATTUNE_INVALID, a.scale = INFINITY, "scale");
    EXPECT_WRONG(ATTUNE_INVALID, a.dropout = NAN, "dropout");
    EXPECT_WRONG(ATTUNE_INVALID, a.dropout = 1.01, "dropout=1.01");
    EXPECT_WRONG(ATTUNE_INVALID, a.softcap = -1, "softcap=-1");
    EXPECT_WRONG(ATTUNE_INVALID, a.lse = 2, "lse=2");
    EXPECT_WRONG(ATTUNE_INVALID, a.alignment_bytes = 3, "alignment=3");
    EXPECT_WRONG(ATTUNE_INVALID, a.alignment_bytes = 32, "alignment=32");
    EXPECT_WRONG(ATTUNE_INVALID, (a.q_dtype = ATTUNE_F32, a.alignment_bytes = 2), "alignment=2", "f32");
    EXPECT_WRONG(ATTUNE_INVALID, a.wide_index = 7, "wide_index=7");
    EXPECT_WRONG(ATTUNE_UNSUPPORTED, a.window_left = 128, "window_left=128");
    EXPECT_WRONG(ATTUNE_INVALID,
                 (a.batch = INT32_MAX, a.heads = INT32_MAX, a.kv_heads = 1, a.seqlen_q = ATTENTION_LENGTH_MAX), "2^63");
}

static void the_struct_and_the_text_mean_the_same(void **state)
{
    (void)state;
    attune_attention a = good_attention();
    attune_problem *made = NULL;
    char text[2048], cut[10];
    a.causal = ATTUNE_CAUSAL_BOTTOM_RIGHT;
    a.k_dtype = ATTUNE_BF16;
    a.dropout = 0.125;
    a.lse = 1;
    a.wide_index = 1;
    a.window_left = a.window_right = -1;
    fake_expect(scene.context, ATTUNE_OK, attune_problem_attention(scene.context, &a, &made), NULL);
    size_t length = attune_problem_text(made, text, sizeof text);
    assert_int_equal(length, strlen(text));
    assert_string_equal(text,
                        "attention.forward q_dtype=f16 k_dtype=bf16 v_dtype=f16 o_dtype=f16 batch=2 heads=8 kv_heads=2 "
                        "seqlen_q=16 seqlen_k=16 head_dim_qk=64 head_dim_v=64 causal=bottom_right dropout=0.125 lse=1 "
                        "index=wide");
    assert_int_equal(attune_problem_text(made, cut, sizeof cut), length);
    assert_string_equal(cut, "attention");
    attune_problem_destroy(made);
}

static void wrong_texts_and_devices_are_refused(void **state)
{
    (void)state;
    attune_problem *made = NULL;
    attune_device *device = NULL;
    fake_expect(scene.context, ATTUNE_INVALID, attune_problem_parse(scene.context, "", &made), NULL);
    fake_expect(scene.context, ATTUNE_INVALID, attune_problem_parse(scene.context, "heads=3", &made), NULL);
    fake_expect(scene.context, ATTUNE_NOT_FOUND,
                attune_problem_parse(scene.context, "attention.sideways heads=3", &made), "attention.sideways",
                "ATTUNE_TEMPLATE_PATH", NULL);
    fake_expect(scene.context, ATTUNE_INVALID,
                attune_problem_parse(scene.context, FAKE_PROBLEM "seqlen_q=1 colour=3", &made), "colour", NULL);
    static const char *const devices[] = {"tpu:0", "host:7", "cuda:", "hip:x", "cuda:-1", "host:99999999999"};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        attune_status status = attune_device_open(scene.context, devices[i], &device);
        assert_int_not_equal(status, ATTUNE_OK);
        assert_null(device);
        assert_true(attune_last_error(scene.context, NULL, 0) > 0);
    }
    assert_null(made);
}

static void handles_of_another_context_are_refused(void **state)
{
    (void)state;
    attune_plan *plan = NULL;
    attune_context *other = fake_context(NULL, ATTUNE_JIT_FORBID);
    attune_problem *problem = fake_problem(other, FAKE_PROBLEM "seqlen_q=8");
    fake_expect(scene.context, ATTUNE_INVALID, attune_prepare(scene.device, problem, NULL, &plan), "two contexts",
                NULL);
    assert_null(plan);
    attune_problem_destroy(problem);
    attune_context_destroy(other);
}

/* ------------------------------------------------------------------------------------------------ errors by thread */

static void *fail_by_number(void *data)
{
    char text[128], message[512];
    long number = (long)(intptr_t)data;
    attune_problem *problem = NULL;
    for (int round = 0; round < 50; round++) {
        snprintf(text, sizeof text, FAKE_PROBLEM "seqlen_q=-%ld", number);
        if (attune_problem_parse(scene.context, text, &problem) == ATTUNE_OK) {
            return scene.context;
        }
        attune_last_error(scene.context, message, sizeof message);
        snprintf(text, sizeof text, "seqlen_q=-%ld ", number);
        if (strstr(message, text) == NULL) {
            return scene.context;
        }
    }
    return NULL;
}

static void each_thread_has_its_own_last_error(void **state)
{
    (void)state;
    pthread_t threads[16];
    char before[512], after[512], cut[8];
    attune_device *device = NULL;
    assert_int_not_equal(attune_device_open(scene.context, "tpu:0", &device), ATTUNE_OK);
    size_t length = attune_last_error(scene.context, before, sizeof before);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, fail_by_number, (void *)(intptr_t)(i + 1)), 0);
    }
    for (int i = 0; i < 16; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(attune_last_error(scene.context, after, sizeof after), length);
    assert_string_equal(before, after);
    assert_int_equal(attune_last_error(scene.context, cut, sizeof cut), length);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_int_equal(attune_last_error(scene.context, NULL, 0), length);
    /* threads come and go: what is kept stays bounded */
    for (int i = 0; i < 400; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, fail_by_number, (void *)(intptr_t)(i + 1)), 0);
        void *failed = NULL;
        pthread_join(thread, &failed);
        assert_null(failed);
    }
}

static void a_context_without_failures_has_no_message(void **state)
{
    (void)state;
    char message[16] = "x";
    attune_context *context = fake_context(NULL, ATTUNE_JIT_FORBID);
    assert_int_equal(attune_last_error(context, message, sizeof message), 0);
    assert_string_equal(message, "");
    attune_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_is_answered_everywhere),
        cmocka_unit_test(sizes_of_structs_are_checked),
        cmocka_unit_test(wrong_problems_are_refused_by_field),
        cmocka_unit_test(the_struct_and_the_text_mean_the_same),
        cmocka_unit_test(wrong_texts_and_devices_are_refused),
        cmocka_unit_test(handles_of_another_context_are_refused),
        cmocka_unit_test(each_thread_has_its_own_last_error),
        cmocka_unit_test(a_context_without_failures_has_no_message),
    };
    return cmocka_run_group_tests_name("misuse", tests, scene_open, scene_close);
}
