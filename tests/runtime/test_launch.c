/* test_launch.c - what reaches the driver, and what is refused before it does: with a driver that remembers its
 * launches. */
#include "fake.h"

#include "runtime/plan.h"

#include <math.h>
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
    attune_attention_arguments good; /* arguments of a launch that works */
};

/* addresses that the fake driver never reads */
#define ADDRESS(n) ((void *)(uintptr_t)(0x100000 * (n)))

static void scene_open(struct scene *scene, const char *text, void (*change)(struct launch *launch))
{
    memset(scene, 0, sizeof *scene);
    scene->context = fake_context(NULL, ATTUNE_JIT_COMPILE);
    scene->device = fake_open(scene->context, &scene->gpu);
    fake_jit_init(&scene->jit);
    if (change != NULL) {
        change(&scene->jit.launch);
    }
    fake_jit_register(&scene->jit, scene->context);
    scene->problem = fake_problem(scene->context, text);
    fake_expect(scene->context, ATTUNE_OK, attune_prepare(scene->device, scene->problem, NULL, &scene->plan), NULL);
    scene->good = (attune_attention_arguments){
        .size = sizeof scene->good, .q = ADDRESS(1), .k = ADDRESS(2), .v = ADDRESS(3), .o = ADDRESS(4)};
}

static void scene_close(struct scene *scene)
{
    attune_plan_destroy(scene->plan);
    attune_problem_destroy(scene->problem);
    attune_context_destroy(scene->context);
}

/* the bytes of an argument in the last launch */
static const void *sent(const struct scene *scene, const char *name)
{
    const struct launch *launch = &scene->jit.launch;
    uint32_t offsets[LAUNCH_ARGUMENTS_MAX], bytes;
    assert_int_equal(launch_layout(launch, offsets, &bytes, NULL), ATTUNE_OK);
    int last = scene->gpu->launches - 1;
    assert_in_range(last, 0, FAKE_LAUNCHES_MAX - 1);
    for (int i = 0; i < launch->argument_count; i++) {
        if (strcmp(launch->arguments[i].name, name) == 0) {
            return scene->gpu->recorded[last].arguments + offsets[i];
        }
    }
    fail_msg("no argument %s", name);
    return NULL;
}

static int64_t sent_i64(const struct scene *scene, const char *name)
{
    int64_t value;
    memcpy(&value, sent(scene, name), sizeof value);
    return value;
}

static int32_t sent_i32(const struct scene *scene, const char *name)
{
    int32_t value;
    memcpy(&value, sent(scene, name), sizeof value);
    return value;
}

static float sent_f32(const struct scene *scene, const char *name)
{
    float value;
    memcpy(&value, sent(scene, name), sizeof value);
    return value;
}

static attune_status launch(struct scene *scene, const attune_attention_arguments *arguments)
{
    return attune_launch_attention(scene->plan, arguments, ADDRESS(9), NULL, 0);
}

#define PROBLEM                                                                                                        \
    "attention.forward dtype=f16 batch=2 heads=6 kv_heads=3 seqlen_q=100 seqlen_k=70 head_dim_qk=16 head_dim_v=8 "     \
    "dropout=0.25"

static void defaults_and_derived_values_reach_the_kernel(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, PROBLEM, NULL);
    scene.good.seed = 0x123456789abcdefull;
    scene.good.offset = 77;
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &scene.good), NULL);
    assert_int_equal(scene.gpu->launches, 1);
    const struct fake_launch *seen = &scene.gpu->recorded[0];
    assert_int_equal(seen->grid[0], 4);
    assert_int_equal(seen->grid[1], 6);
    assert_int_equal(seen->grid[2], 2);
    assert_int_equal(seen->threads, 32);
    assert_ptr_equal(seen->stream, ADDRESS(9));
    assert_int_equal(sent_i64(&scene, "q"), (intptr_t)ADDRESS(1));
    assert_int_equal(sent_i64(&scene, "o"), (intptr_t)ADDRESS(4));
    assert_int_equal(sent_i64(&scene, "lse"), 0);
    assert_int_equal(sent_i64(&scene, "q_head_stride"), 16);
    assert_int_equal(sent_i64(&scene, "q_seq_stride"), 16 * 6);
    assert_int_equal(sent_i64(&scene, "q_batch_stride"), 16 * 6 * 100);
    assert_int_equal(sent_i64(&scene, "k_seq_stride"), 16 * 3);
    assert_int_equal(sent_i64(&scene, "k_batch_stride"), 16 * 3 * 70);
    assert_int_equal(sent_i64(&scene, "v_head_stride"), 8);
    assert_int_equal(sent_i64(&scene, "v_batch_stride"), 8 * 3 * 70);
    assert_int_equal(sent_i64(&scene, "o_seq_stride"), 8 * 6);
    assert_int_equal(sent_i32(&scene, "batch"), 2);
    assert_int_equal(sent_i32(&scene, "heads"), 6);
    assert_int_equal(sent_i32(&scene, "kv_heads"), 3);
    assert_int_equal(sent_i32(&scene, "seqlen_q"), 100);
    assert_int_equal(sent_i32(&scene, "seqlen_k"), 70);
    assert_int_equal(sent_i32(&scene, "head_dim_v"), 8);
    assert_true(sent_f32(&scene, "scale") == 0.25f);
    assert_int_equal(sent_i32(&scene, "dropout_threshold"), 49152);
    assert_true(sent_f32(&scene, "dropout_scale") == (float)(65536.0 / 49152));
    assert_true((uint64_t)sent_i64(&scene, "seed") == 0x123456789abcdefull);
    assert_int_equal(sent_i64(&scene, "offset"), 77);
    assert_int_equal(sent_i64(&scene, "workspace"), 0);
    scene_close(&scene);
}

static void given_values_replace_those_of_the_problem(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, PROBLEM, NULL);
    attune_attention_arguments a = scene.good;
    a.batch = 5;
    a.heads = 2;
    a.kv_heads = 1;
    a.seqlen_q = 33;
    a.seqlen_k = 1;
    a.q_batch_stride = 10000;
    a.q_seq_stride = 200;
    a.q_head_stride = 16;
    a.scale = -2.5;
    a.dropout = 1;
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &a), NULL);
    assert_int_equal(scene.gpu->recorded[0].grid[0], 2);
    assert_int_equal(scene.gpu->recorded[0].grid[1], 2);
    assert_int_equal(scene.gpu->recorded[0].grid[2], 5);
    assert_int_equal(sent_i64(&scene, "q_batch_stride"), 10000);
    assert_true(sent_f32(&scene, "scale") == -2.5f);
    assert_int_equal(sent_i32(&scene, "dropout_threshold"), 0);
    assert_true(sent_f32(&scene, "dropout_scale") == 0);
    a.dropout = 0;
    a.explicit_dropout = 1;
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &a), NULL);
    assert_int_equal(sent_i32(&scene, "dropout_threshold"), 65536);
    /* a real stride of 0: one row for all */
    a.explicit_strides = 1;
    a.o_batch_stride = 33 * 2 * 8;
    a.o_seq_stride = 16;
    a.o_head_stride = 8;
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &a), NULL);
    assert_int_equal(sent_i64(&scene, "k_seq_stride"), 0);
    scene_close(&scene);
}

/* what is wrong with a launch, and the words that its message must hold */
struct wrong {
    void (*change)(attune_attention_arguments *a);
    const char *words[3];
};

#define CHANGE(name, statement)                                                                                        \
    static void name(attune_attention_arguments *a)                                                                    \
    {                                                                                                                  \
        statement;                                                                                                     \
    }
CHANGE(size_unset, a->size = 0)
CHANGE(size_small, a->size = 64)
CHANGE(q_null, a->q = NULL)
CHANGE(k_null, a->k = NULL)
CHANGE(v_null, a->v = NULL)
CHANGE(o_null, a->o = NULL)
CHANGE(q_odd, a->q = (const char *)a->q + 8)
CHANGE(v_odd, a->v = (const char *)a->v + 1)
CHANGE(o_odd, a->o = (char *)a->o + 4)
CHANGE(negative_batch, a->batch = -1)
CHANGE(huge_seqlen, a->seqlen_k = (int64_t)1 << 31)
CHANGE(huge_heads, a->heads = INT64_MAX)
CHANGE(not_divisible, (a->heads = 7, a->kv_heads = 2))
CHANGE(other_ratio, (a->heads = 6, a->kv_heads = 6))
CHANGE(ratio_by_omission, a->heads = 12)
CHANGE(negative_stride, a->q_seq_stride = -96)
CHANGE(odd_stride, (a->k_batch_stride = 100000, a->k_seq_stride = 52, a->k_head_stride = 16))
/* A25: v as [batch, head, dim, seq]: keys are neighbours, and no stride says how far its columns are apart */
CHANGE(transposed_v, (a->v_batch_stride = 1680, a->v_seq_stride = 1, a->v_head_stride = 560))
CHANGE(overflowing_stride, (a->v_batch_stride = INT64_MAX / 2, a->v_seq_stride = 24, a->v_head_stride = 8))
CHANGE(o_stride_zero, (a->o_batch_stride = 0, a->o_seq_stride = 48, a->o_head_stride = 8))
CHANGE(o_rows_overlap, (a->o_batch_stride = 4800, a->o_seq_stride = 40, a->o_head_stride = 8))
CHANGE(o_heads_overlap, (a->o_batch_stride = 100000, a->o_seq_stride = 8, a->o_head_stride = 400))
CHANGE(unwanted_lse, a->lse = (float *)ADDRESS(5))
CHANGE(nan_scale, a->scale = NAN)
CHANGE(infinite_scale, a->scale = INFINITY)
CHANGE(scale_past_fp32, a->scale = 1e39)
CHANGE(dropout_above_one, a->dropout = 1.5)
CHANGE(dropout_negative, a->dropout = -0.1)
CHANGE(dropout_nan, a->dropout = NAN)
CHANGE(wide_offset, a->offset = (uint64_t)1 << 32)
CHANGE(odd_seed_pointer, a->seed_pointer = (const uint64_t *)(const void *)((const char *)ADDRESS(6) + 4))
CHANGE(odd_offset_pointer, a->offset_pointer = (const uint64_t *)(const void *)((const char *)ADDRESS(6) + 2))

/* odd rows of fp16 keep 2 bytes: that is the class, and fp32 tensors beside them keep their own 4 */
static void mixed_dtypes_are_aligned_to_their_own_elements(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene,
               "attention.forward q_dtype=f32 k_dtype=f16 v_dtype=f16 o_dtype=f32 batch=2 heads=6 kv_heads=3 "
               "seqlen_q=100 seqlen_k=70 head_dim=33",
               NULL);
    attune_attention_arguments a = scene.good;
    a.q = (const char *)a.q + 4;
    a.k = (const char *)a.k + 2;
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &a), NULL);
    a.q = (const char *)a.q - 2;
    fake_expect(scene.context, ATTUNE_INVALID, launch(&scene, &a), "q=0x", "elements of 4 bytes", NULL);
    scene_close(&scene);
}

static void everything_wrong_is_refused_by_name_and_nothing_launched(void **state)
{
    (void)state;
    static const struct wrong wrongs[] = {
        {size_unset, {"arguments.size=0", "sizeof"}},
        {size_small, {"arguments.size=64"}},
        {q_null, {"q is NULL"}},
        {k_null, {"k is NULL"}},
        {v_null, {"v is NULL"}},
        {o_null, {"o is NULL"}},
        {q_odd, {"q=0x", "16 bytes", "alignment=8 (alignment_bytes)"}},
        {v_odd, {"v=0x", "elements of 2 bytes"}},
        {o_odd, {"o=0x", "alignment=4 (alignment_bytes)"}},
        {negative_batch, {"batch=-1"}},
        {huge_seqlen, {"seqlen_k=2147483648", "2147418112"}},
        {huge_heads, {"heads="}},
        {not_divisible, {"heads=7", "kv_heads=2"}},
        {other_ratio, {"heads=6", "kv_heads=6", "kv_heads=3"}},
        {ratio_by_omission, {"heads=12", "kv_heads=3", "kv_heads=6"}},
        {negative_stride, {"q_seq_stride=-96"}},
        {odd_stride, {"k_seq_stride=52", "alignment of 16", "alignment=8 (alignment_bytes) or less"}},
        {transposed_v, {"v_seq_stride=1 ", "head dimension's stride is 1", "copy"}},
        {overflowing_stride, {"v_batch_stride="}},
        {o_stride_zero, {"o_batch_stride=0", "overlap"}},
        {o_rows_overlap, {"o_seq_stride=40", "48"}},
        {o_heads_overlap, {"o_head_stride=400", "800"}},
        {unwanted_lse, {"lse", "lse=1"}},
        {nan_scale, {"scale=nan"}},
        {infinite_scale, {"scale=inf"}},
        {scale_past_fp32, {"scale=1e+39"}},
        {dropout_above_one, {"dropout=1.5"}},
        {dropout_negative, {"dropout=-0.1"}},
        {dropout_nan, {"dropout=nan"}},
        {wide_offset, {"offset=4294967296", "2^32"}},
        {odd_seed_pointer, {"seed_pointer"}},
        {odd_offset_pointer, {"offset_pointer"}},
    };
    struct scene scene;
    scene_open(&scene, PROBLEM, NULL);
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        attune_attention_arguments a = scene.good;
        wrongs[i].change(&a);
        fake_expect(scene.context, ATTUNE_INVALID, launch(&scene, &a), wrongs[i].words[0], wrongs[i].words[1],
                    wrongs[i].words[2], NULL);
        assert_int_equal(scene.gpu->launches, 0);
    }
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &scene.good), NULL);
    scene_close(&scene);
}

static void other_plans_refuse_what_they_cannot_do(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, FAKE_PROBLEM "seqlen_q=8 seqlen_k=8 lse=1", NULL);
    fake_expect(scene.context, ATTUNE_INVALID, launch(&scene, &scene.good), "lse is NULL", NULL);
    scene.good.lse = (float *)(void *)((char *)ADDRESS(5) + 2);
    fake_expect(scene.context, ATTUNE_INVALID, launch(&scene, &scene.good), "lse=0x", NULL);
    scene.good.lse = (float *)ADDRESS(5);
    scene.good.dropout = 0.5;
    fake_expect(scene.context, ATTUNE_INVALID, launch(&scene, &scene.good), "dropout=0.5", "without", NULL);
    scene.good.dropout = 0;
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &scene.good), NULL);
    assert_int_equal(sent_i64(&scene, "lse"), (intptr_t)ADDRESS(5));
    assert_int_equal(scene.gpu->launches, 1);
    scene_close(&scene);
}

static void nothing_to_do_launches_nothing(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, PROBLEM, NULL);
    attune_attention_arguments none = {.size = sizeof none, .explicit_sizes = 1, .heads = 6, .kv_heads = 3, .batch = 2};
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &none), NULL); /* seqlen_q 0, and no pointer */
    none = (attune_attention_arguments){.size = sizeof none, .explicit_sizes = 1, .seqlen_q = 4, .seqlen_k = 4};
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &none), NULL);
    assert_int_equal(scene.gpu->launches, 0);
    /* no keys still means zeros to write */
    attune_attention_arguments keyless = scene.good;
    keyless.explicit_sizes = 1;
    keyless.batch = 2;
    keyless.heads = 6;
    keyless.kv_heads = 3;
    keyless.seqlen_q = 4;
    keyless.k = keyless.v = NULL;
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &keyless), NULL);
    assert_int_equal(scene.gpu->launches, 1);
    assert_int_equal(sent_i32(&scene, "seqlen_k"), 0);
    scene_close(&scene);
}

static void with_fixed_limit_and_workspace(struct launch *launch)
{
    launch->fixed_count = 1;
    launch->fixed[0] = (struct launch_fixed){"seqlen_q", 100};
    launch->limit_count = 1;
    launch->limits[0] = (struct launch_limit){"k_seq_stride", 64, 8192};
    launch->workspace_constant_bytes = 64;
    launch->workspace_factor_bytes = 100;
    launch->workspace = (struct launch_dimension){2, {{"batch", 1}, {"seqlen_k", 32}}};
}

static void fixed_sizes_limits_and_workspace_are_kept(void **state)
{
    (void)state;
    struct scene scene;
    attune_plan_info info = {.size = sizeof info};
    size_t bytes = 1;
    void *workspace = ADDRESS(7);
    scene_open(&scene, PROBLEM, with_fixed_limit_and_workspace);
    assert_int_equal(attune_plan_describe(scene.plan, &info), ATTUNE_OK);
    assert_int_equal(info.workspace_bytes, 64 + 100 * 2 * 3);
    attune_attention_arguments a = scene.good;
    a.batch = 10;
    fake_expect(scene.context, ATTUNE_OK, attune_workspace_attention(scene.plan, &a, &bytes), NULL);
    assert_int_equal(bytes, 64 + 100 * 10 * 3);
    fake_expect(scene.context, ATTUNE_INVALID, launch(&scene, &a), "workspace", "3064", NULL);
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch_attention(scene.plan, &a, NULL, workspace, 3063), "3063",
                "3064", NULL);
    fake_expect(scene.context, ATTUNE_INVALID,
                attune_launch_attention(scene.plan, &a, NULL, (char *)workspace + 8, 5000), "aligned", NULL);
    fake_expect(scene.context, ATTUNE_OK, attune_launch_attention(scene.plan, &a, NULL, workspace, 3064), NULL);
    assert_int_equal(sent_i64(&scene, "workspace"), (intptr_t)workspace);
    a.seqlen_q = 99;
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch_attention(scene.plan, &a, NULL, workspace, 9999),
                "seqlen_q=99", "seqlen_q=100", NULL);
    a.seqlen_q = 0;
    a.k_batch_stride = 100000;
    a.k_seq_stride = 128; /* 128 x 64 is the limit */
    a.k_head_stride = 16;
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch_attention(scene.plan, &a, NULL, workspace, 9999),
                "k_seq_stride=128", "8192", "index=wide", NULL);
    assert_int_equal(scene.gpu->launches, 1);
    a.k_seq_stride = 120;
    fake_expect(scene.context, ATTUNE_OK, attune_launch_attention(scene.plan, &a, NULL, workspace, 9999), NULL);
    /* one key: its stride means nothing, and breaks nothing */
    a.seqlen_k = 1;
    a.k_seq_stride = 12345;
    fake_expect(scene.context, ATTUNE_OK, attune_launch_attention(scene.plan, &a, NULL, workspace, 9999), NULL);
    assert_int_equal(sent_i64(&scene, "k_seq_stride"), 0);
    scene_close(&scene);
}

static void grids_past_the_limits_are_split_into_all_their_blocks(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, FAKE_PROBLEM "seqlen_q=40 seqlen_k=8", NULL);
    attune_attention_arguments a = scene.good;
    a.batch = 70000;
    a.heads = 65536 * 2;
    a.kv_heads = 65536;
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &a), NULL);
    uint64_t blocks = 0;
    uint32_t offsets[LAUNCH_ARGUMENTS_MAX], bytes;
    launch_layout(&scene.jit.launch, offsets, &bytes, NULL);
    int count = scene.gpu->launches;
    assert_in_range(count, 4, 4096);
    for (int i = 0; i < count && i < FAKE_LAUNCHES_MAX; i++) {
        const struct fake_launch *seen = &scene.gpu->recorded[i];
        uint32_t origin[3];
        for (int d = 0; d < 3; d++) {
            for (int n = 0; n < scene.jit.launch.argument_count; n++) {
                char name[] = "origin_x";
                name[7] = (char)("xyz"[d]);
                if (strcmp(scene.jit.launch.arguments[n].name, name) == 0) {
                    memcpy(&origin[d], seen->arguments + offsets[n], 4);
                }
            }
        }
        assert_true(seen->grid[0] <= 2 && seen->grid[1] <= 65535 && seen->grid[2] <= 65535);
        assert_true((uint64_t)seen->grid[0] * seen->grid[1] * seen->grid[2] * 32 < (uint64_t)1 << 32);
        assert_true(origin[1] + (uint64_t)seen->grid[1] <= 131072 && origin[2] + (uint64_t)seen->grid[2] <= 70000);
        blocks += (uint64_t)seen->grid[0] * seen->grid[1] * seen->grid[2];
    }
    if (count <= FAKE_LAUNCHES_MAX) {
        assert_true(blocks == (uint64_t)2 * 131072 * 70000);
    }
    scene_close(&scene);
}

static void without_origins(struct launch *launch)
{
    int kept = 0;
    for (int i = 0; i < launch->argument_count; i++) {
        if (strncmp(launch->arguments[i].name, "origin_", 7) != 0) {
            launch->arguments[kept++] = launch->arguments[i];
        }
    }
    launch->argument_count = kept;
}

static void a_kernel_without_origins_is_not_split(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, FAKE_PROBLEM "seqlen_q=40 seqlen_k=8", without_origins);
    attune_attention_arguments a = scene.good;
    a.batch = 65535;
    fake_expect(scene.context, ATTUNE_OK, launch(&scene, &a), NULL);
    a.batch = 65536;
    fake_expect(scene.context, ATTUNE_INVALID, launch(&scene, &a), "65536", "cannot be split", NULL);
    assert_int_equal(scene.gpu->launches, 1);
    scene_close(&scene);
}

/* ------------------------------------------------------------------------------------------------ by name */

static void attention_can_be_launched_by_name_with_the_same_checks(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, PROBLEM, NULL);
    attune_argument a[12] = {
        {.name = "q", .kind = ATTUNE_ARGUMENT_POINTER, .pointer = ADDRESS(1)},
        {.name = "k", .kind = ATTUNE_ARGUMENT_POINTER, .pointer = ADDRESS(2)},
        {.name = "v", .kind = ATTUNE_ARGUMENT_POINTER, .pointer = ADDRESS(3)},
        {.name = "o", .kind = ATTUNE_ARGUMENT_POINTER, .pointer = ADDRESS(4)},
        {.name = "batch", .kind = ATTUNE_ARGUMENT_INTEGER, .integer = 3},
        {.name = "dropout", .kind = ATTUNE_ARGUMENT_REAL, .real = 0},
    };
    fake_expect(scene.context, ATTUNE_OK, attune_launch(scene.plan, a, 6, NULL, NULL, 0), NULL);
    assert_int_equal(sent_i32(&scene, "batch"), 3);
    assert_int_equal(sent_i32(&scene, "dropout_threshold"), 65536);
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 3, NULL, NULL, 0), "o is NULL", NULL);
    a[6] = (attune_argument){.name = "block_q", .kind = ATTUNE_ARGUMENT_INTEGER, .integer = 3};
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 7, NULL, NULL, 0), "block_q", NULL);
    a[6] = (attune_argument){.name = "v_dim_stride", .kind = ATTUNE_ARGUMENT_INTEGER, .integer = 70};
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 7, NULL, NULL, 0), "v_dim_stride",
                "contiguous", NULL);
    a[6] = a[4];
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 7, NULL, NULL, 0), "batch", "twice", NULL);
    a[6] = (attune_argument){.name = "scale", .kind = ATTUNE_ARGUMENT_INTEGER, .integer = 3};
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 7, NULL, NULL, 0), "scale", "real", NULL);
    a[6] = (attune_argument){.kind = ATTUNE_ARGUMENT_INTEGER};
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 7, NULL, NULL, 0), "arguments[6].name",
                NULL);
    assert_int_equal(scene.gpu->launches, 1);
    a[6] = (attune_argument){.name = "seqlen_k", .kind = ATTUNE_ARGUMENT_INTEGER, .integer = 0};
    fake_expect(scene.context, ATTUNE_OK, attune_launch(scene.plan, a, 7, NULL, NULL, 0), NULL);
    assert_int_equal(sent_i32(&scene, "seqlen_k"), 0);
    assert_int_equal(sent_i32(&scene, "seqlen_q"), 100);
    scene_close(&scene);
}

static struct schema softmax;

static void make_softmax(void)
{
    static const char *const names[] = {"dtype", "rows", "columns", "factor"};
    memset(&softmax, 0, sizeof softmax);
    strcpy(softmax.family, "softmax");
    softmax.field_count = 4;
    for (int i = 0; i < 4; i++) {
        struct field *f = &softmax.fields[i];
        strcpy(f->name, names[i]);
        f->kind = i == 0 ? FIELD_CHOICE : i == 3 ? FIELD_REAL : FIELD_INTEGER;
        f->role = i == 1 ? FIELD_SIZE : i == 3 ? FIELD_SCALAR : FIELD_COMPILED;
        f->always = i < 3;
        f->required = i == 1 || i == 2;
        f->minimum = 1;
        f->maximum = 1 << 20;
        f->real_minimum = -10;
        f->real_maximum = 10;
        f->fallback.integer = 0;
    }
    softmax.fields[0].choice_count = 2;
    strcpy(softmax.fields[0].choices[0], "f32");
    strcpy(softmax.fields[0].choices[1], "f16");
    softmax.fields[3].fallback.real = 1;
}

static void softmax_launch(struct launch *launch)
{
    memset(launch, 0, sizeof *launch);
    strcpy(launch->kernel, "softmax");
    launch->argument_count = 6;
    launch->arguments[0] = (struct launch_argument){"x", ARGUMENT_POINTER};
    launch->arguments[1] = (struct launch_argument){"y", ARGUMENT_POINTER};
    launch->arguments[2] = (struct launch_argument){"rows", ARGUMENT_I32};
    launch->arguments[3] = (struct launch_argument){"columns", ARGUMENT_I64};
    launch->arguments[4] = (struct launch_argument){"factor", ARGUMENT_F32};
    launch->arguments[5] = (struct launch_argument){"origin_x", ARGUMENT_U32};
    launch->threads = 64;
    launch->grid[0] = (struct launch_dimension){1, {{"rows", 1}}};
}

static void a_family_without_code_here_is_launched_by_name(void **state)
{
    (void)state;
    struct scene scene;
    memset(&scene, 0, sizeof scene);
    make_softmax();
    scene.context = fake_context(NULL, ATTUNE_JIT_COMPILE);
    scene.device = fake_open(scene.context, &scene.gpu);
    fake_jit_init(&scene.jit);
    softmax_launch(&scene.jit.launch);
    scene.jit.schema = &softmax;
    fake_jit_register(&scene.jit, scene.context);
    scene.problem = fake_problem(scene.context, "softmax rows=100 columns=50");
    fake_expect(scene.context, ATTUNE_OK, attune_prepare(scene.device, scene.problem, NULL, &scene.plan), NULL);

    attune_argument a[8] = {
        {.name = "x", .kind = ATTUNE_ARGUMENT_POINTER, .pointer = ADDRESS(1)},
        {.name = "y", .kind = ATTUNE_ARGUMENT_POINTER, .pointer = ADDRESS(2)},
    };
    fake_expect(scene.context, ATTUNE_OK, attune_launch(scene.plan, a, 2, NULL, NULL, 0), NULL);
    assert_int_equal(scene.gpu->recorded[0].grid[0], 100);
    assert_int_equal(sent_i64(&scene, "columns"), 50);
    assert_true(sent_f32(&scene, "factor") == 1);
    a[2] = (attune_argument){.name = "rows", .kind = ATTUNE_ARGUMENT_INTEGER, .integer = 7};
    a[3] = (attune_argument){.name = "factor", .kind = ATTUNE_ARGUMENT_REAL, .real = 0.5};
    fake_expect(scene.context, ATTUNE_OK, attune_launch(scene.plan, a, 4, NULL, NULL, 0), NULL);
    assert_int_equal(sent_i32(&scene, "rows"), 7);
    assert_true(sent_f32(&scene, "factor") == 0.5f);
    a[2].integer = 0; /* nothing to do, with or without pointers */
    fake_expect(scene.context, ATTUNE_OK, attune_launch(scene.plan, a, 4, NULL, NULL, 0), NULL);
    assert_int_equal(scene.gpu->launches, 2);
    a[2].integer = -7;
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 4, NULL, NULL, 0), "rows=-7", NULL);
    a[2] = (attune_argument){.name = "columns", .kind = ATTUNE_ARGUMENT_INTEGER, .integer = 51};
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 3, NULL, NULL, 0), "columns=51",
                "columns=50", NULL);
    a[2] = (attune_argument){.name = "z", .kind = ATTUNE_ARGUMENT_INTEGER, .integer = 51};
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 3, NULL, NULL, 0), "\"z\"", NULL);
    a[2] = (attune_argument){.name = "factor", .kind = ATTUNE_ARGUMENT_REAL, .real = NAN};
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 3, NULL, NULL, 0), "factor=nan", NULL);
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 1, NULL, NULL, 0), "\"y\"", "missing",
                NULL);
    a[1].pointer = NULL;
    fake_expect(scene.context, ATTUNE_INVALID, attune_launch(scene.plan, a, 2, NULL, NULL, 0), "y is NULL", NULL);
    fake_expect(scene.context, ATTUNE_INVALID,
                launch(&scene, &(attune_attention_arguments){.size = sizeof(attune_attention_arguments)}), "softmax",
                "attune_launch", NULL);
    assert_int_equal(scene.gpu->launches, 2);
    scene_close(&scene);
}

static void a_stored_family_is_read_without_the_compiling_half(void **state)
{
    (void)state;
    struct scene scene;
    memset(&scene, 0, sizeof scene);
    make_softmax();
    scene.context = fake_context(NULL, ATTUNE_JIT_COMPILE);
    scene.device = fake_open(scene.context, &scene.gpu);
    attune_problem *problem = NULL;
    fake_expect(scene.context, ATTUNE_NOT_FOUND,
                attune_problem_parse(scene.context, "softmax rows=100 columns=50", &problem), "softmax",
                "attune_jit_register", NULL);
    fake_jit_init(&scene.jit);
    softmax_launch(&scene.jit.launch);
    scene.jit.schema = &softmax;
    fake_jit_register(&scene.jit, scene.context);
    scene.problem = fake_problem(scene.context, "softmax rows=100 columns=50");
    fake_expect(scene.context, ATTUNE_OK, attune_prepare(scene.device, scene.problem, NULL, &scene.plan), NULL);
    attune_plan_destroy(scene.plan);
    attune_problem_destroy(scene.problem);
    scene.context->has_jit = false; /* as in a process that never registered it, with the same store */
    scene.problem = fake_problem(scene.context, "softmax rows=3 columns=50");
    fake_expect(scene.context, ATTUNE_OK, attune_prepare(scene.device, scene.problem, NULL, &scene.plan), NULL);
    assert_int_equal(scene.jit.compiles, 1);
    scene_close(&scene);
}

/* ------------------------------------------------------------------------------------------------ frugality */

/* Counts what a launch must not do. A sanitizer has its own malloc and locks: then nothing is counted. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTING 1
static _Thread_local volatile int counted; /* volatile: the compiler knows that malloc changes no variable */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *malloc(size_t bytes)
{
    counted++;
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes)
{
    counted++;
    return __libc_calloc(count, bytes);
}
void *realloc(void *memory, size_t bytes)
{
    counted++;
    return __libc_realloc(memory, bytes);
}
#else
#define COUNTING 0
static volatile int counted;
#endif

static void a_launch_allocates_nothing(void **state)
{
    (void)state;
    struct scene scene;
    if (!COUNTING) {
        print_message("skipped: a sanitizer replaces malloc\n");
        skip();
    }
    scene_open(&scene, PROBLEM, NULL);
    counted = 0;
    void *volatile probe = malloc(16);
    free(probe);
    assert_int_equal(counted, 1); /* the counter works */
    for (int i = 0; i < 10; i++) {
        attune_attention_arguments a = scene.good;
        a.batch = 1 + i;
        assert_int_equal(launch(&scene, &a), ATTUNE_OK);
    }
    assert_int_equal(counted, 1);
    assert_int_equal(scene.gpu->launches, 10);
    scene_close(&scene);
}

/* ------------------------------------------------------------------------------------------------ forward */

static void forward_remembers_its_plans(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, PROBLEM, NULL);
    attune_attention attention = {.size = sizeof attention, .batch = 1, .heads = 4, .seqlen_q = 10, .head_dim_qk = 32};
    for (int i = 0; i < 600; i++) { /* more than are remembered */
        attention.seqlen_q = 10 + i;
        for (int again = 0; again < 2; again++) {
            fake_expect(scene.context, ATTUNE_OK,
                        attune_attention_forward(scene.device, &attention, &scene.good, NULL, NULL, 0), NULL);
        }
    }
    assert_int_equal(scene.gpu->launches, 1200);
    assert_int_equal(scene.jit.compiles, 2); /* the scene's own plan and ours */
    assert_int_equal(scene.gpu->loads, 2);
    assert_int_equal(scene.gpu->unloads, 0);
    assert_int_equal(scene.gpu->relaxed, 0);
    attune_attention_arguments a = scene.good;
    a.seqlen_k = 3;
    fake_expect(scene.context, ATTUNE_INVALID, attune_attention_forward(scene.device, &attention, &a, NULL, NULL, 0),
                "arguments.seqlen_k=3", NULL);
    attention.head_dim_qk = 300;
    fake_expect(scene.context, ATTUNE_INVALID,
                attune_attention_forward(scene.device, &attention, &scene.good, NULL, NULL, 0), "head_dim_qk=300",
                "256", NULL);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_and_derived_values_reach_the_kernel),
        cmocka_unit_test(given_values_replace_those_of_the_problem),
        cmocka_unit_test(mixed_dtypes_are_aligned_to_their_own_elements),
        cmocka_unit_test(everything_wrong_is_refused_by_name_and_nothing_launched),
        cmocka_unit_test(other_plans_refuse_what_they_cannot_do),
        cmocka_unit_test(nothing_to_do_launches_nothing),
        cmocka_unit_test(fixed_sizes_limits_and_workspace_are_kept),
        cmocka_unit_test(grids_past_the_limits_are_split_into_all_their_blocks),
        cmocka_unit_test(a_kernel_without_origins_is_not_split),
        cmocka_unit_test(attention_can_be_launched_by_name_with_the_same_checks),
        cmocka_unit_test(a_family_without_code_here_is_launched_by_name),
        cmocka_unit_test(a_stored_family_is_read_without_the_compiling_half),
        cmocka_unit_test(a_launch_allocates_nothing),
        cmocka_unit_test(forward_remembers_its_plans),
    };
    return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
