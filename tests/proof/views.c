/* views.c - see views.h. */
#include "tests/proof/views.h"

#include "autotune/convert.h"
#include "autotune/inputs.h"
#include "autotune/screen.h"
#include "base/files.h"

#include <errno.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const view_tensor_names[VIEW_TENSORS] = {"q", "k", "v", "o"};
const char *const view_axis_names[VIEW_AXES] = {"batch", "seq", "head"};

enum { ELEMENT_BYTES = 2 };

int views_set_up(void **state)
{
    struct views *views = calloc(1, sizeof *views);
    struct error error = {.message = ""};
    const char *name = getenv("ATTUNE_TEST_DEVICE");
    int ordinal = 0;
    assert_non_null(views);
    *state = views;
    attune_status status = driver_parse_device(name != NULL ? name : "host", &views->driver, &ordinal, &error);
    if (status == ATTUNE_OK) {
        status = views->driver->describe(views->driver, ordinal, &views->device, &error);
    }
    if (status == ATTUNE_OK) {
        status = generator_create(NULL, &views->generator, &error);
    }
    if (status == ATTUNE_OK) {
        status = compiler_pool_create(NULL, &views->pool, &error);
    }
    if (status == ATTUNE_OK) {
        char compiler[64], identity[DIGEST_HEX_BYTES];
        status = compiler_identity(views->pool, &views->device.target, COMPILER_AUTO, SANITIZE_NONE, compiler, identity,
                                   &error);
    }
    if (status == ATTUNE_NO_DEVICE || status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error.message);
        exit(77);
    }
    if (status != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    views->host = views->device.target.vendor == TARGET_HOST;
    return 0;
}

int views_tear_down(void **state)
{
    struct views *views = *state;
    compiler_pool_destroy(views->pool);
    generator_destroy(views->generator);
    free(views);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ kernels */

static void load(struct views *views, struct view_kernels *kernels, const struct object_job *job)
{
    struct view_kernel *item = &kernels->items[kernels->count];
    struct error error = {.message = ""};
    char reason[SCREEN_REASON_BYTES];
    if (job->status != ATTUNE_OK) {
        fail_msg("%s: %s", job->name, job->message);
    }
    if (!screen_fits(&views->device, &job->launch, &job->resources, reason)) {
        return;
    }
    if (kernel_load(&item->kernel, views->driver, &views->device, job->bytes.data, job->bytes.length, &job->launch,
                    &error) != ATTUNE_OK) {
        fail_msg("%s: %s", job->name, error.message);
    }
    memcpy(item->name, job->name, sizeof item->name);
    kernels->count++;
}

/* all of them, for a target whose code the device takes */
static void compile(struct views *views, const struct target *target, const struct candidate *items, int count,
                    struct view_kernels *kernels)
{
    struct object_road road;
    struct pipeline *pipeline = NULL;
    struct error error = {.message = ""};
    kernels->items = calloc((size_t)count, sizeof *kernels->items);
    assert_non_null(kernels->items);
    if (road_open(&road, views->pool, NULL, target, SANITIZE_NONE, false, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    road.keep_bytes = true;
    if (pipeline_create(views->generator, &road, &kernels->problem, items, count, compiler_pool_workers(views->pool),
                        &pipeline, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    for (const struct object_job *job = pipeline_next(pipeline); job != NULL; job = pipeline_next(pipeline)) {
        load(views, kernels, job);
    }
    pipeline_destroy(pipeline);
}

void views_compile(struct views *views, const char *problem_text, int count, struct view_kernels *kernels)
{
    struct candidate_list list = {0};
    struct error error = {.message = ""};
    const struct target *target = &views->device.target;
    *kernels = (struct view_kernels){.count = 0};
    if (problem_parse(schema_attention_forward(), problem_text, &kernels->problem, &error) != ATTUNE_OK ||
        candidate_cover(views->generator, &kernels->problem, target, count, 1, &list, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", problem_text, error.message);
    }
    compile(views, target, list.items, list.count, kernels);
    candidate_list_free(&list);
    assert_true(kernels->count >= 2);
}

void views_compile_for(struct views *views, const char *target_text, const char *problem_text,
                       const char *candidate_text, struct view_kernels *kernels)
{
    struct target target;
    struct candidate candidate;
    struct error error = {.message = ""};
    *kernels = (struct view_kernels){.count = 0};
    if (problem_parse(schema_attention_forward(), problem_text, &kernels->problem, &error) != ATTUNE_OK ||
        target_parse(target_text, &target, &error) != ATTUNE_OK ||
        candidate_parse(views->generator, candidate_text, &kernels->problem, &target, &candidate, &error) !=
            ATTUNE_OK ||
        candidate_check(views->generator, &candidate, &kernels->problem, &target, &error) != ATTUNE_OK) {
        fail_msg("%s, %s: %s", target_text, problem_text, error.message);
    }
    compile(views, &target, &candidate, 1, kernels);
    assert_int_equal(kernels->count, 1);
}

void view_kernels_free(struct view_kernels *kernels)
{
    for (int i = 0; i < kernels->count; i++) {
        kernel_unload(&kernels->items[i].kernel);
    }
    free(kernels->items);
    kernels->items = NULL;
}

/* ------------------------------------------------------------------------------------------------ memory */

void views_forbid_gaps(const struct view_call *call, enum view_tensor tensor)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const struct view *view = &call->tensors[tensor];
    int64_t rows = views_size(call, tensor, VIEW_SEQ);
    size_t row_bytes = views_bytes(call, tensor) - (size_t)((rows - 1) * view->stride[VIEW_SEQ] * 2);
    for (int64_t row = 0; row + 1 < rows; row++) {
        uintptr_t at = (uintptr_t)((const char *)view->data + row * view->stride[VIEW_SEQ] * 2);
        uintptr_t from = (at + row_bytes + page - 1) / page * page;
        uintptr_t to = (at + (uintptr_t)view->stride[VIEW_SEQ] * 2) / page * page;
        if (from < to && mprotect((void *)from, to - from, PROT_NONE) != 0) {
            fail_msg("pages between rows: %s", strerror(errno));
        }
    }
}

void *views_memory(struct views *views, size_t bytes)
{
    struct error error = {.message = ""};
    void *memory = NULL;
    if (views->host) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            fail_msg("%zu bytes of addresses: %s", bytes, strerror(errno));
        }
        return memory;
    }
    if (views->driver->allocate(views->driver, views->device.ordinal, bytes, &memory, &error) != ATTUNE_OK ||
        views->driver->fill(views->driver, views->device.ordinal, memory, 0xff, bytes, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return memory;
}

void views_release(struct views *views, void *memory, size_t bytes)
{
    if (memory == NULL) {
        return;
    }
    if (views->host) {
        assert_int_equal(munmap(memory, bytes), 0);
    } else {
        assert_int_equal(views->driver->release(views->driver, views->device.ordinal, memory, NULL), ATTUNE_OK);
    }
}

bool views_room(struct views *views, size_t bytes)
{
    if (views->host) { /* addresses only: limits on them (ulimit -v, strict overcommit) are found by trying */
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            print_message("skipped: %zu bytes of addresses cannot be reserved here\n", bytes);
            return false;
        }
        munmap(memory, bytes);
        return true;
    }
    struct driver_device now;
    assert_int_equal(views->driver->describe(views->driver, views->device.ordinal, &now, NULL), ATTUNE_OK);
    if (now.memory_free_bytes < bytes) {
        print_message("skipped: the device has %llu bytes free, %zu are wanted\n",
                      (unsigned long long)now.memory_free_bytes, bytes);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ calls */

struct view_call views_call(const struct problem *problem, int64_t batch, int64_t heads, int64_t kv_heads,
                            int64_t seqlen_q, int64_t seqlen_k)
{
    struct view_call call = {batch,
                             heads,
                             kv_heads,
                             seqlen_q,
                             seqlen_k,
                             problem_integer(problem, "head_dim_qk"),
                             problem_integer(problem, "head_dim_v"),
                             {{NULL, {0, 0, 0}}},
                             NULL};
    for (enum view_tensor t = VIEW_Q; t < VIEW_TENSORS; t++) {
        int64_t dim = t == VIEW_Q || t == VIEW_K ? call.head_dim_qk : call.head_dim_v;
        int64_t *stride = call.tensors[t].stride;
        int64_t step = dim;
        for (int axis = VIEW_HEAD; axis >= VIEW_BATCH; axis--) {
            int64_t size = views_size(&call, t, axis);
            stride[axis] = size > 1 ? step : 0;
            step *= size;
        }
    }
    return call;
}

int64_t views_size(const struct view_call *call, enum view_tensor tensor, enum view_axis axis)
{
    bool queries = tensor == VIEW_Q || tensor == VIEW_O;
    const int64_t sizes[VIEW_AXES] = {call->batch, queries ? call->seqlen_q : call->seqlen_k,
                                      queries ? call->heads : call->kv_heads};
    return sizes[axis];
}

static int64_t columns(const struct view_call *call, enum view_tensor tensor)
{
    return tensor == VIEW_Q || tensor == VIEW_K ? call->head_dim_qk : call->head_dim_v;
}

size_t views_bytes(const struct view_call *call, enum view_tensor tensor)
{
    int64_t last = columns(call, tensor);
    for (enum view_axis axis = VIEW_BATCH; axis < VIEW_AXES; axis++) {
        last += (views_size(call, tensor, axis) - 1) * call->tensors[tensor].stride[axis];
    }
    return (size_t)last * ELEMENT_BYTES;
}

static size_t lse_bytes(const struct view_call *call)
{
    return (size_t)(call->batch * call->heads * call->seqlen_q) * sizeof(float);
}

void views_make(struct views *views, struct view_call *call, enum view_tensor tensor)
{
    call->tensors[tensor].data = views_memory(views, views_bytes(call, tensor));
    if (tensor != VIEW_O) {
        views_fill(views, call, tensor);
    }
}

void views_make_all(struct views *views, struct view_call *call)
{
    for (enum view_tensor t = VIEW_Q; t < VIEW_TENSORS; t++) {
        views_make(views, call, t);
    }
    call->lse = views_memory(views, lse_bytes(call));
}

void views_free_all(struct views *views, struct view_call *call)
{
    for (enum view_tensor t = VIEW_Q; t < VIEW_TENSORS; t++) {
        views_release(views, call->tensors[t].data, views_bytes(call, t));
        call->tensors[t].data = NULL;
    }
    views_release(views, call->lse, lse_bytes(call));
    call->lse = NULL;
}

uint16_t views_element(enum view_tensor tensor, int64_t b, int64_t s, int64_t h, int64_t c)
{
    uint64_t place =
        ((((uint64_t)tensor * 1000003 + (uint64_t)b) * 1000003 + (uint64_t)s) * 1000003 + (uint64_t)h) * 1000003 +
        (uint64_t)c;
    return half_from_float((float)(hash_mix(place) >> 52) / 1024 - 2); /* [-2, 2) in steps of 2^-10 */
}

/* Rows in memory order, as few transfers as their strides allow: `visit` gets the place of a run of rows and its
 * bytes. */
static void each_row(const struct view_call *call, enum view_tensor tensor,
                     void (*visit)(void *data, char *place, int64_t b, int64_t s, int64_t h), void *data)
{
    const int64_t *stride = call->tensors[tensor].stride;
    for (int64_t b = 0; b < views_size(call, tensor, VIEW_BATCH); b++) {
        for (int64_t s = 0; s < views_size(call, tensor, VIEW_SEQ); s++) {
            for (int64_t h = 0; h < views_size(call, tensor, VIEW_HEAD); h++) {
                int64_t element = b * stride[VIEW_BATCH] + s * stride[VIEW_SEQ] + h * stride[VIEW_HEAD];
                visit(data, call->tensors[tensor].data + element * ELEMENT_BYTES, b, s, h);
            }
        }
    }
}

struct row_visit {
    struct views *views;
    const struct view_call *call;
    enum view_tensor tensor;
    unsigned char *rows;
    size_t row_bytes;
};

static bool is_contiguous(const struct view_call *call, enum view_tensor tensor)
{
    int64_t step = columns(call, tensor);
    for (int axis = VIEW_HEAD; axis >= VIEW_BATCH; axis--) {
        int64_t size = views_size(call, tensor, axis);
        if (size > 1 && call->tensors[tensor].stride[axis] != step) {
            return false;
        }
        step *= size;
    }
    return true;
}

static void check(attune_status status, const struct error *error)
{
    if (status != ATTUNE_OK) {
        fail_msg("%s", error->message);
    }
}

static void put_row(void *data, char *place, int64_t b, int64_t s, int64_t h)
{
    struct row_visit *visit = data;
    uint16_t *row = (uint16_t *)(void *)visit->rows;
    int64_t count = columns(visit->call, visit->tensor);
    struct error error;
    for (int64_t c = 0; c < count; c++) {
        row[c] = views_element(visit->tensor, b, s, h, c);
    }
    if (visit->row_bytes == 0) { /* gathering: the transfer comes at the end */
        visit->rows += count * ELEMENT_BYTES;
        return;
    }
    check(visit->views->driver->copy_in(visit->views->driver, visit->views->device.ordinal, place, row,
                                        visit->row_bytes, &error),
          &error);
}

void views_fill(struct views *views, const struct view_call *call, enum view_tensor tensor)
{
    bool whole = is_contiguous(call, tensor);
    size_t row_bytes = (size_t)columns(call, tensor) * ELEMENT_BYTES;
    unsigned char *memory = malloc(whole ? views_bytes(call, tensor) : row_bytes);
    struct row_visit visit = {views, call, tensor, memory, whole ? 0 : row_bytes};
    struct error error;
    assert_non_null(memory);
    each_row(call, tensor, put_row, &visit);
    if (whole) {
        check(views->driver->copy_in(views->driver, views->device.ordinal, call->tensors[tensor].data, memory,
                                     views_bytes(call, tensor), &error),
              &error);
    }
    free(memory);
}

static void take_row(void *data, char *place, int64_t b, int64_t s, int64_t h)
{
    struct row_visit *visit = data;
    struct error error;
    (void)b, (void)s, (void)h;
    check(visit->views->driver->copy_out(visit->views->driver, visit->views->device.ordinal, visit->rows, place,
                                         visit->row_bytes, &error),
          &error);
    visit->rows += visit->row_bytes;
}

unsigned char *views_output(struct views *views, const struct view_call *call, size_t *bytes)
{
    size_t row_bytes = (size_t)call->head_dim_v * ELEMENT_BYTES;
    size_t rows_bytes = (size_t)(call->batch * call->heads * call->seqlen_q) * row_bytes;
    size_t lse = call->lse != NULL ? lse_bytes(call) : 0;
    unsigned char *output = malloc(rows_bytes + lse + 1);
    struct row_visit visit = {views, call, VIEW_O, output, row_bytes};
    struct error error;
    assert_non_null(output);
    if (is_contiguous(call, VIEW_O)) {
        visit.row_bytes = rows_bytes;
        take_row(&visit, call->tensors[VIEW_O].data, 0, 0, 0);
    } else {
        each_row(call, VIEW_O, take_row, &visit);
    }
    if (lse > 0) {
        check(
            views->driver->copy_out(views->driver, views->device.ordinal, output + rows_bytes, call->lse, lse, &error),
            &error);
    }
    *bytes = rows_bytes + lse;
    return output;
}

static void poison_row(void *data, char *place, int64_t b, int64_t s, int64_t h)
{
    struct row_visit *visit = data;
    struct error error;
    (void)b, (void)s, (void)h;
    check(visit->views->driver->fill(visit->views->driver, visit->views->device.ordinal, place, 0xff, visit->row_bytes,
                                     &error),
          &error);
}

void views_poison(struct views *views, const struct view_call *call)
{
    struct row_visit visit = {views, call, VIEW_O, NULL, (size_t)call->head_dim_v * ELEMENT_BYTES};
    if (is_contiguous(call, VIEW_O)) {
        visit.row_bytes = views_bytes(call, VIEW_O);
        poison_row(&visit, call->tensors[VIEW_O].data, 0, 0, 0);
    } else {
        each_row(call, VIEW_O, poison_row, &visit);
    }
    if (call->lse != NULL) {
        visit.row_bytes = lse_bytes(call);
        poison_row(&visit, (char *)call->lse, 0, 0, 0);
    }
}

/* ------------------------------------------------------------------------------------------------ launches */

enum { VALUES_MAX = 32 };

static int name_values(const struct view_call *call, char names[VALUES_MAX][FIELD_NAME_BYTES],
                       struct named_value *values)
{
    int n = 0;
    for (enum view_tensor t = VIEW_Q; t < VIEW_TENSORS; t++) {
        values[n++] =
            (struct named_value){.name = view_tensor_names[t], .kind = NAMED_POINTER, .pointer = call->tensors[t].data};
        for (enum view_axis axis = VIEW_BATCH; axis < VIEW_AXES; axis++) {
            snprintf(names[n], FIELD_NAME_BYTES, "%s_%s_stride", view_tensor_names[t], view_axis_names[axis]);
            values[n] =
                (struct named_value){.name = names[n], .kind = NAMED_INTEGER, .integer = call->tensors[t].stride[axis]};
            n++;
        }
    }
    values[n++] = (struct named_value){.name = "lse", .kind = NAMED_POINTER, .pointer = call->lse};
    values[n++] =
        (struct named_value){.name = "scale", .kind = NAMED_REAL, .real = 1 / sqrt((double)call->head_dim_qk)};
    return n;
}

static attune_status bind(const struct view_kernels *kernels, int index, const struct view_call *call,
                          struct kernel_call *bound, struct error *error)
{
    struct problem problem = kernels->problem;
    char names[VALUES_MAX][FIELD_NAME_BYTES];
    struct named_value values[VALUES_MAX];
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"batch", call->batch},
                 {"heads", call->heads},
                 {"kv_heads", call->kv_heads},
                 {"seqlen_q", call->seqlen_q},
                 {"seqlen_k", call->seqlen_k}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        problem.values[schema_find(problem.schema, sizes[i].name)].integer = sizes[i].value;
    }
    int count = name_values(call, names, values);
    return kernel_bind(&kernels->items[index].kernel, &problem, values, count, NULL, bound, error);
}

attune_status views_launch(struct views *views, const struct view_kernels *kernels, int index,
                           const struct view_call *call, struct error *error)
{
    struct kernel_call bound;
    attune_status status = bind(kernels, index, call, &bound, error);
    if (status == ATTUNE_OK) {
        status = kernel_launch(&bound, NULL, error);
    }
    return status == ATTUNE_OK ? views->driver->synchronize(views->driver, views->device.ordinal, NULL, error) : status;
}

attune_status views_launch_part(struct views *views, const struct view_kernels *kernels, int index,
                                const struct view_call *call, const uint32_t origin[3], const uint32_t blocks[3],
                                struct error *error)
{
    const struct kernel *kernel = &kernels->items[index].kernel;
    struct kernel_call bound;
    attune_status status = bind(kernels, index, call, &bound, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    for (int d = 0; d < 3; d++) {
        assert_true(origin[d] + (uint64_t)blocks[d] <= bound.grid[d] && kernel->origin[d] >= 0);
        memcpy(bound.arguments + kernel->offsets[kernel->origin[d]], &origin[d], sizeof origin[d]);
    }
    const struct driver_launch launch = {.function = kernel->function,
                                         .grid = {blocks[0], blocks[1], blocks[2]},
                                         .threads = kernel->launch.threads,
                                         .dynamic_shared_bytes = kernel->launch.dynamic_shared_bytes,
                                         .arguments = bound.arguments,
                                         .argument_bytes = kernel->argument_bytes,
                                         .pointer_offsets = kernel->pointer_offsets,
                                         .pointer_count = kernel->pointer_count};
    status = views->driver->launch(views->driver, views->device.ordinal, &launch, NULL, error);
    return status == ATTUNE_OK ? views->driver->synchronize(views->driver, views->device.ordinal, NULL, error) : status;
}

void views_run(struct views *views, const struct view_kernels *kernels, int index, const struct view_call *call,
               const char *label)
{
    struct error error = {.message = ""};
    if (views_launch(views, kernels, index, call, &error) != ATTUNE_OK) {
        fail_msg("%s: %s: %s", label, kernels->items[index].name, error.message);
    }
}

/* ------------------------------------------------------------------------------------------------ attune.h */

void view_plan_open(struct view_plan *plan, const char *problem_text)
{
    char text[512], message[512] = "";
    const char *name = getenv("ATTUNE_TEST_DEVICE");
    *plan = (struct view_plan){.store = ""};
    assert_int_equal(folder_temporary(plan->store, sizeof plan->store, NULL), ATTUNE_OK);
    const attune_context_options options = {.size = sizeof options, .store = plan->store, .jit = ATTUNE_JIT_COMPILE};
    snprintf(text, sizeof text, "attention.forward %s", problem_text);
    if (attune_context_create(&options, &plan->context) != ATTUNE_OK ||
        attune_jit_register(plan->context) != ATTUNE_OK ||
        attune_device_open(plan->context, name != NULL ? name : "host", &plan->device) != ATTUNE_OK ||
        attune_problem_parse(plan->context, text, &plan->problem) != ATTUNE_OK ||
        attune_prepare(plan->device, plan->problem, NULL, &plan->plan) != ATTUNE_OK) {
        attune_last_error(plan->context, message, sizeof message);
        view_plan_close(plan);
        fail_msg("%s: %s", problem_text, message);
    }
}

void view_plan_close(struct view_plan *plan)
{
    attune_plan_destroy(plan->plan);
    attune_problem_destroy(plan->problem);
    attune_context_destroy(plan->context);
    folder_remove(plan->store);
}

attune_status view_plan_launch(struct views *views, const struct view_plan *plan, const struct view_call *call,
                               char message[512])
{
    const struct view *q = &call->tensors[VIEW_Q], *k = &call->tensors[VIEW_K], *v = &call->tensors[VIEW_V],
                      *o = &call->tensors[VIEW_O];
    const attune_attention_arguments arguments = {.size = sizeof arguments,
                                                  .q = q->data,
                                                  .k = k->data,
                                                  .v = v->data,
                                                  .o = o->data,
                                                  .lse = call->lse,
                                                  .batch = call->batch,
                                                  .heads = call->heads,
                                                  .kv_heads = call->kv_heads,
                                                  .seqlen_q = call->seqlen_q,
                                                  .seqlen_k = call->seqlen_k,
                                                  .q_batch_stride = q->stride[VIEW_BATCH],
                                                  .q_seq_stride = q->stride[VIEW_SEQ],
                                                  .q_head_stride = q->stride[VIEW_HEAD],
                                                  .k_batch_stride = k->stride[VIEW_BATCH],
                                                  .k_seq_stride = k->stride[VIEW_SEQ],
                                                  .k_head_stride = k->stride[VIEW_HEAD],
                                                  .v_batch_stride = v->stride[VIEW_BATCH],
                                                  .v_seq_stride = v->stride[VIEW_SEQ],
                                                  .v_head_stride = v->stride[VIEW_HEAD],
                                                  .o_batch_stride = o->stride[VIEW_BATCH],
                                                  .o_seq_stride = o->stride[VIEW_SEQ],
                                                  .o_head_stride = o->stride[VIEW_HEAD],
                                                  .explicit_strides = 1,
                                                  .explicit_sizes = 1};
    char own[512] = "";
    attune_status status = attune_launch_attention(plan->plan, &arguments, NULL, NULL, 0);
    if (status == ATTUNE_OK) {
        status = views->driver->synchronize(views->driver, views->device.ordinal, NULL, NULL);
    } else {
        attune_last_error(plan->context, message != NULL ? message : own, 512);
    }
    if (message == NULL && status != ATTUNE_OK) {
        fail_msg("%s", own);
    }
    return status;
}
