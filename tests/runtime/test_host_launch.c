/* test_host_launch.c - one prepare, then a thousand launches of any size and stride, right and without a compile: with
 * a kernel written by hand, and with the one that the generator makes. On the host device. */
#include "fake.h"

#include "base/files.h"
#include "base/process.h"
#include "runtime/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[512];
static struct buffer object = BUFFER_INIT;

static uint64_t random_state;
static uint32_t draw(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

/* ------------------------------------------------------------------------------------------------ one random call */

enum { AXES = 3, DIM_QK = 24, DIM_V = 16, ELEMENTS_MAX = 1 << 16 };

struct tensor {
    float *memory, *base; /* base: past a guard */
    int64_t size[AXES], stride[AXES];
    int dim;
};
static const float guard = -12345.0f;

/* axes in any order, rows apart by up to 12 elements more than they need, kept to multiples of 4 */
static void tensor_make(struct tensor *t, int64_t batch, int64_t seq, int64_t heads, int dim, bool output)
{
    int order[AXES] = {0, 1, 2};
    int64_t span = dim;
    t->size[0] = batch;
    t->size[1] = seq;
    t->size[2] = heads;
    t->dim = dim;
    for (int i = AXES - 1; i > 0; i--) {
        int j = (int)draw((uint32_t)i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (int i = 0; i < AXES; i++) {
        int axis = order[i];
        t->stride[axis] = span + 4 * draw(4);
        if (!output && draw(8) == 0) {
            t->stride[axis] = 0; /* one row for the whole axis */
        }
        span = (t->size[axis] > 0 ? t->size[axis] - 1 : 0) * t->stride[axis] + span;
        span = (span + 3) / 4 * 4;
    }
    t->memory = aligned_alloc(64, ((size_t)span + 64) * sizeof(float) / 64 * 64 + 64);
    assert_non_null(t->memory);
    t->base = t->memory + 32;
    for (int64_t i = -32; i < span + 32; i++) {
        t->base[i] = output || i < 0 || i >= span ? guard : ((float)draw(2001) - 1000) / 500;
    }
}

static float *at(const struct tensor *t, int64_t b, int64_t s, int64_t h)
{
    return t->base + b * t->stride[0] + s * t->stride[1] + h * t->stride[2];
}

struct call {
    struct tensor q, k, v, o;
    float *lse;
    double scale, dropout;
    uint64_t seed, offset;
    bool causal, fake_dropout;
};

static void check_row(const struct call *c, int64_t b, int64_t h, int64_t i, int64_t ratio)
{
    double scores[128], maximum = -INFINITY, denominator = 0, sums[DIM_V] = {0};
    int64_t keys = c->k.size[1], delta = keys - c->q.size[1];
    long threshold = lround(65536 * (1 - c->dropout));
    for (int64_t j = 0; j < keys; j++) {
        scores[j] = 0;
        for (int d = 0; d < c->q.dim; d++) {
            scores[j] += (double)at(&c->q, b, i, h)[d] * at(&c->k, b, j, h / ratio)[d];
        }
        scores[j] = c->causal && j > i + delta ? -INFINITY : scores[j] * (float)c->scale;
        maximum = fmax(maximum, scores[j]);
    }
    for (int64_t j = 0; j < keys && maximum > -INFINITY; j++) {
        double weight = exp(scores[j] - maximum);
        uint32_t drawn = (uint32_t)((uint32_t)i * 7919u + (uint32_t)j * 104729u + (uint32_t)h * 31u +
                                    (uint32_t)c->seed * 13u + (uint32_t)c->offset) &
                         0xffffu;
        denominator += weight;
        if (!c->fake_dropout || (long)drawn < threshold) {
            double factor = c->fake_dropout ? (float)(65536.0 / (double)threshold) : 1;
            for (int d = 0; d < DIM_V; d++) {
                sums[d] += weight * factor * at(&c->v, b, j, h / ratio)[d];
            }
        }
    }
    for (int d = 0; d < DIM_V; d++) {
        double expected = denominator > 0 ? sums[d] / denominator : 0, got = at(&c->o, b, i, h)[d];
        if (!(fabs(got - expected) <= 2e-5 * (1 + fabs(expected)))) {
            fail_msg("o[%lld][%lld][%lld][%d] = %.9g, expected %.9g", (long long)b, (long long)i, (long long)h, d, got,
                     expected);
        }
    }
    double expected = denominator > 0 ? maximum + log(denominator) : -INFINITY;
    double got = c->lse[(b * c->q.size[2] + h) * c->q.size[1] + i];
    if (!(got == expected || fabs(got - expected) <= 1e-5 * (1 + fabs(expected)))) {
        fail_msg("lse[%lld][%lld][%lld] = %.9g, expected %.9g", (long long)b, (long long)h, (long long)i, got,
                 expected);
    }
}

/* what is not a row of o was not written */
static void check_guards(const struct tensor *o)
{
    int64_t span = o->dim;
    for (int axis = 0; axis < AXES; axis++) {
        span += (o->size[axis] - 1) * o->stride[axis];
    }
    size_t written = 0, untouched = 0;
    for (int64_t i = -32; i < span + 32; i++) {
        untouched += o->base[i] == guard;
    }
    written = (size_t)(o->size[0] * o->size[1] * o->size[2] * o->dim);
    assert_int_equal(untouched + written, (size_t)(span + 64));
}

static void random_launch(attune_context *context, attune_plan *plan, int64_t ratio, bool causal, bool fake_dropout)
{
    struct call c = {.causal = causal, .fake_dropout = fake_dropout};
    int64_t batch = 1 + draw(3), kv_heads = 1 + draw(2), seqlen_q = 1 + draw(70),
            seqlen_k = draw(12) == 0 ? 0 : 1 + draw(90);
    int64_t heads = kv_heads * ratio;
    tensor_make(&c.q, batch, seqlen_q, heads, DIM_QK, false);
    tensor_make(&c.k, batch, seqlen_k, kv_heads, DIM_QK, false);
    tensor_make(&c.v, batch, seqlen_k, kv_heads, DIM_V, false);
    tensor_make(&c.o, batch, seqlen_q, heads, DIM_V, true);
    c.lse = malloc((size_t)(batch * heads * seqlen_q) * sizeof *c.lse);
    c.scale = 0.05 + draw(100) / 200.0;
    c.dropout = fake_dropout ? draw(90) / 100.0 : 0;
    c.seed = random_state;
    c.offset = draw(1 << 30);
    attune_attention_arguments a = {
        .size = sizeof a,
        .q = c.q.base,
        .k = c.k.base,
        .v = c.v.base,
        .o = c.o.base,
        .lse = c.lse,
        .batch = batch,
        .heads = heads,
        .kv_heads = kv_heads,
        .seqlen_q = seqlen_q,
        .seqlen_k = seqlen_k,
        .explicit_sizes = 1,
        .explicit_strides = 1,
        .scale = c.scale,
        .dropout = c.dropout,
        .explicit_dropout = fake_dropout,
    };
    memcpy(&a.q_batch_stride, c.q.stride, sizeof c.q.stride);
    memcpy(&a.k_batch_stride, c.k.stride, sizeof c.k.stride);
    memcpy(&a.v_batch_stride, c.v.stride, sizeof c.v.stride);
    memcpy(&a.o_batch_stride, c.o.stride, sizeof c.o.stride);
    if (draw(2)) { /* by value or by pointer: the same */
        a.seed = c.seed;
        a.offset = c.offset;
    } else {
        a.seed_pointer = &c.seed;
        a.offset_pointer = &c.offset;
    }
    fake_expect(context, ATTUNE_OK, attune_launch_attention(plan, &a, NULL, NULL, 0), NULL);
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t i = 0; i < seqlen_q; i += 1 + draw(8)) { /* some rows of each head */
                check_row(&c, b, h, i, ratio);
            }
        }
    }
    check_guards(&c.o);
    free(c.q.memory);
    free(c.k.memory);
    free(c.v.memory);
    free(c.o.memory);
    free(c.lse);
}

/* ------------------------------------------------------------------------------------------------ scenes */

static int run_program(const char *const *argv)
{
    struct process_options options = {.argv = argv, .seconds = 120};
    struct process_result result;
    attune_status status = process_run(&options, &result, NULL);
    int code = status == ATTUNE_OK ? result.exit_code : -1;
    if (code != 0 && status == ATTUNE_OK) {
        fprintf(stderr, "%s\n", buffer_string(&result.errors));
    }
    process_result_free(&result);
    return code;
}

static bool has_compiler(void)
{
    if (run_program((const char *const[]){"c++", "-dumpversion", NULL}) == 0) {
        return true;
    }
    print_message("skipped: no C++ compiler (c++) on PATH\n");
    return false;
}

static attune_device *open_host(attune_context *context)
{
    attune_device *device = NULL, *again = NULL;
    fake_expect(context, ATTUNE_OK, attune_device_open(context, "host", &device), NULL);
    fake_expect(context, ATTUNE_OK, attune_device_open(context, "host:0", &again), NULL);
    assert_ptr_equal(device, again);
    return device;
}

static void a_thousand_launches_of_a_kernel_by_hand(void **state)
{
    (void)state;
    char source[600], part[600], library[600];
    if (!has_compiler()) {
        skip();
    }
    snprintf(source, sizeof source, "%s/tests/runtime/attention_kernel.cpp", TEST_SOURCE_DIR);
    snprintf(part, sizeof part, "%s/kernel.o", folder);
    snprintf(library, sizeof library, "%s/kernel.so", folder);
    assert_int_equal(
        run_program((const char *const[]){"c++", "-std=c++17", "-O2", "-fPIC", "-c", "-o", part, source, NULL}), 0);
    assert_int_equal(run_program((const char *const[]){"ld", "-shared", "--no-undefined", "-o", library, part, NULL}),
                     0);
    assert_int_equal(file_read(library, 1 << 24, &object, NULL), ATTUNE_OK);

    struct fake_jit jit;
    attune_plan *plan = NULL;
    attune_plan_info info = {.size = sizeof info};
    attune_context *context = fake_context(NULL, ATTUNE_JIT_COMPILE);
    attune_device *device = open_host(context);
    fake_jit_init(&jit);
    jit.object = object.data;
    jit.object_bytes = object.length;
    jit.target = "host";
    fake_jit_register(&jit, context);
    attune_problem *problem =
        fake_problem(context, "attention.forward dtype=f32 heads=6 kv_heads=2 seqlen_q=50 seqlen_k=60 "
                              "head_dim_qk=24 head_dim_v=16 dropout=0.2 lse=1");
    fake_expect(context, ATTUNE_OK, attune_prepare(device, problem, NULL, &plan), NULL);
    assert_int_equal(attune_plan_describe(plan, &info), ATTUNE_OK);
    assert_int_equal(info.rung, ATTUNE_RUNG_DEFAULT);
    assert_int_equal(info.workspace_bytes, 0);
    random_state = 1;
    for (int i = 0; i < 1000; i++) {
        random_launch(context, plan, 3, false, true);
    }
    assert_int_equal(jit.compiles, 1);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    attune_context_destroy(context);
}

static void a_thousand_launches_of_a_generated_kernel(void **state)
{
    (void)state;
    if (!has_compiler()) {
        skip();
    }
    char store[600], target[TARGET_TEXT_BYTES];
    snprintf(store, sizeof store, "%s/store", folder);
    attune_plan *plan = NULL;
    attune_plan_info first = {.size = sizeof first}, second = {.size = sizeof second};
    attune_device_info device_info = {.size = sizeof device_info};
    static const char text[] = "attention.forward dtype=f32 heads=6 kv_heads=2 seqlen_q=50 seqlen_k=60 head_dim_qk=24 "
                               "head_dim_v=16 causal=1 lse=1";
    attune_context *context = fake_context(store, ATTUNE_JIT_COMPILE);
    attune_device *device = open_host(context);
    assert_int_equal(attune_device_describe(device, &device_info), ATTUNE_OK);
    target_format(&device->facts.target, target);
    assert_string_equal(device_info.target, target);
    fake_expect(context, ATTUNE_OK, attune_jit_register(context), NULL);
    attune_problem *problem = fake_problem(context, text);
    fake_expect(context, ATTUNE_OK, attune_prepare(device, problem, NULL, &plan), NULL);
    assert_int_equal(attune_plan_describe(plan, &first), ATTUNE_OK);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    attune_context_destroy(context);

    /* what follows has no compiling half and may not compile: it launches what is stored */
    context = fake_context(store, ATTUNE_JIT_FORBID);
    device = open_host(context);
    problem = fake_problem(context, text);
    fake_expect(context, ATTUNE_OK, attune_prepare(device, problem, NULL, &plan), NULL);
    assert_int_equal(attune_plan_describe(plan, &second), ATTUNE_OK);
    assert_string_equal(second.object, first.object);
    assert_string_equal(second.candidate, first.candidate);
    random_state = 2;
    for (int i = 0; i < 1000; i++) {
        random_launch(context, plan, 3, true, false);
    }
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    attune_context_destroy(context);
}

static int make_folder(void **state)
{
    (void)state;
    return folder_temporary(folder, sizeof folder, NULL) == ATTUNE_OK ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    folder_remove(folder);
    buffer_free(&object);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_launches_of_a_kernel_by_hand),
        cmocka_unit_test(a_thousand_launches_of_a_generated_kernel),
    };
    return cmocka_run_group_tests_name("host_launch", tests, make_folder, remove_folder);
}
