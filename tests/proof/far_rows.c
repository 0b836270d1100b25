/* far_rows.c - rows farther than 2^31 elements from the first (A14): each stride of each tensor by itself, the largest
 * stride that a candidate's 32-bit offsets allow and the first that they refuse. A view must give the bits of a
 * contiguous copy. On the host device views are addresses without memory behind them; on a GPU they are whole.
 */
#include "tests/proof/views.h"

#define NARROW "dtype=f16 batch=1 heads=2 kv_heads=1 seqlen_q=64 head_dim=64 lse=1"
#define WIDE NARROW " index=wide"
#define TWO(n) (INT64_C(1) << (n))

struct far {
    const char *label;
    enum view_axis axis;
    int64_t stride;
    int64_t count; /* rows along the axis: the last one begins at 2^31 elements or beyond */
};

static struct view_call call_for(const struct view_kernels *kernels, enum view_tensor tensor, enum view_axis axis,
                                 int64_t count)
{
    bool queries = tensor == VIEW_Q || tensor == VIEW_O;
    int64_t batch = axis == VIEW_BATCH ? count : 1;
    int64_t kv_heads = axis != VIEW_HEAD ? 2 : queries ? (count + 1) / 2 : count;
    int64_t seqlen_q = axis == VIEW_SEQ && queries ? count : 3, seqlen_k = axis == VIEW_SEQ && !queries ? count : 5;
    return views_call(&kernels->problem, batch, 2 * kv_heads, kv_heads, seqlen_q, seqlen_k);
}

static void expect_bits(struct views *views, const struct view_kernels *kernels, int index,
                        const struct view_call *call, const unsigned char *wanted, size_t wanted_bytes,
                        const char *label)
{
    size_t bytes = 0;
    unsigned char *rows = views_output(views, call, &bytes);
    assert_int_equal(bytes, wanted_bytes);
    if (memcmp(rows, wanted, bytes) != 0) {
        fail_msg("%s: %s: the view's bits are not those of the contiguous copy", label, kernels->items[index].name);
    }
    free(rows);
}

/* the bits of each candidate on contiguous tensors; NULL where it may not run at these sizes (exact=lengths) */
static void run_contiguous(struct views *views, const struct view_kernels *kernels, struct view_call call,
                           unsigned char **wanted, size_t *bytes)
{
    struct error error = {.message = ""};
    views_make_all(views, &call);
    for (int i = 0; i < kernels->count; i++) {
        wanted[i] = NULL;
        views_poison(views, &call);
        attune_status status = views_launch(views, kernels, i, &call, &error);
        if (status == ATTUNE_OK) {
            wanted[i] = views_output(views, &call, bytes);
        } else if (status != ATTUNE_UNSUPPORTED || strstr(kernels->items[i].name, "exact=lengths") == NULL) {
            fail_msg("%s: %s", kernels->items[i].name, error.message);
        }
    }
    views_free_all(views, &call);
}

static const char *name_of(const struct view_kernels *kernels, int index)
{
    return kernels->items[index].name;
}

/* the stride times the tile's bytes, as the launch descriptor has it, for one tensor; 0 without such a limit */
static const struct launch_limit *limit_of(const struct view_kernels *kernels, int index, enum view_tensor tensor)
{
    const struct launch *launch = &kernels->items[index].kernel.launch;
    for (int i = 0; i < launch->limit_count; i++) {
        if (launch->limits[i].name[0] == view_tensor_names[tensor][0]) {
            return &launch->limits[i];
        }
    }
    return NULL;
}

static void run_far(struct views *views, const struct view_kernels *kernels, enum view_tensor tensor,
                    const struct far *far, int *runs)
{
    struct view_call call = call_for(kernels, tensor, far->axis, far->count);
    unsigned char *wanted[256];
    size_t bytes = 0;
    char label[128];
    assert_true(kernels->count <= 256);
    snprintf(label, sizeof label, "%s_%s_stride=%lld (%s)", view_tensor_names[tensor], view_axis_names[far->axis],
             (long long)far->stride, far->label);
    run_contiguous(views, kernels, call, wanted, &bytes);
    call.tensors[tensor].stride[far->axis] = far->stride;
    assert_true((views_size(&call, tensor, far->axis) - 1) * far->stride >= TWO(31));
    views_make_all(views, &call);
    for (int i = 0; i < kernels->count; i++) {
        struct error error = {.message = ""};
        if (wanted[i] == NULL) {
            continue;
        }
        views_poison(views, &call);
        attune_status status = views_launch(views, kernels, i, &call, &error);
        const struct launch_limit *limit = limit_of(kernels, i, tensor);
        bool over = far->axis == VIEW_SEQ && limit != NULL && far->stride >= limit->limit / limit->multiplier;
        if (over != (status == ATTUNE_UNSUPPORTED) || (over && strstr(error.message, "index=wide") == NULL) ||
            (!over && status != ATTUNE_OK)) {
            fail_msg("%s: %s: status %d, %s", label, name_of(kernels, i), status, error.message);
        }
        if (!over) {
            expect_bits(views, kernels, i, &call, wanted[i], bytes, label);
            ++*runs;
        }
    }
    views_free_all(views, &call);
    for (int i = 0; i < kernels->count; i++) {
        free(wanted[i]);
    }
}

static void run_all(struct views *views, const char *problem, const struct far *table, size_t entries)
{
    struct view_kernels kernels;
    int runs = 0;
    views_compile(views, problem, test_size(8, 0), &kernels);
    if (views_room(views, 20 * (size_t)TWO(30))) {
        for (size_t i = 0; i < entries; i++) {
            for (enum view_tensor tensor = VIEW_Q; tensor < VIEW_TENSORS; tensor++) {
                struct far far = table[i];
                if (far.axis == VIEW_HEAD && (tensor == VIEW_Q || tensor == VIEW_O)) {
                    far.count *= 2; /* two query heads on each KV head */
                }
                run_far(views, &kernels, tensor, &far, &runs);
            }
        }
        assert_true(runs > kernels.count);
    }
    view_kernels_free(&kernels);
    if (runs == 0) {
        skip();
    }
}

/* Strides below 2^31 whose products pass it, and strides that are beyond it themselves. */
static void rows_past_2_to_the_31_elements_are_found(void **state)
{
    static const struct far table[] = {
        {"1025 tokens, the last at 2^31", VIEW_SEQ, TWO(21), 1025},
        {"5 sequences, the last past 2^31", VIEW_BATCH, TWO(29) + 8, 5},
        {"2 sequences, 2^31 apart", VIEW_BATCH, TWO(31) + 8, 2},
        {"5 KV heads, the last past 2^31", VIEW_HEAD, TWO(29) + 8, 5},
        {"2 KV heads, 2^31 apart", VIEW_HEAD, TWO(31) + 8, 2},
    };
    run_all(*state, NARROW, table, sizeof table / sizeof table[0]);
}

static void tiles_that_span_2_to_the_31_elements_take_wide_offsets(void **state)
{
    static const struct far table[] = {
        {"33 tokens, the last at 2^31", VIEW_SEQ, TWO(26), 33},
        {"3 tokens, 2^31 apart", VIEW_SEQ, TWO(31) + 8, 3},
    };
    run_all(*state, WIDE, table, sizeof table / sizeof table[0]);
}

/* K and V as two views of one buffer, V a row behind K */
static void keys_and_values_interleaved_over_2_to_the_31_elements(void **state)
{
    struct views *views = *state;
    struct view_kernels kernels;
    unsigned char *wanted[256];
    size_t bytes = 0;
    views_compile(views, NARROW, test_size(8, 0), &kernels);
    assert_true(kernels.count <= 256);
    struct view_call call = call_for(&kernels, VIEW_K, VIEW_SEQ, 1025);
    size_t span = (size_t)TWO(32) + TWO(20);
    bool room = views_room(views, span);
    if (room) {
        run_contiguous(views, &kernels, call, wanted, &bytes);
        struct view_call shared = call;
        views_make(views, &shared, VIEW_Q);
        views_make(views, &shared, VIEW_O);
        shared.lse = views_memory(views, (size_t)(shared.heads * shared.seqlen_q) * sizeof(float));
        shared.tensors[VIEW_K].stride[VIEW_SEQ] = shared.tensors[VIEW_V].stride[VIEW_SEQ] = TWO(21);
        shared.tensors[VIEW_K].data = views_memory(views, span);
        shared.tensors[VIEW_V].data = shared.tensors[VIEW_K].data + 2 * 64 * 2; /* two heads of 64 elements */
        views_fill(views, &shared, VIEW_K);
        views_fill(views, &shared, VIEW_V);
        for (int i = 0; i < kernels.count; i++) {
            struct error error;
            views_poison(views, &shared);
            if (wanted[i] != NULL && views_launch(views, &kernels, i, &shared, &error) == ATTUNE_OK) {
                expect_bits(views, &kernels, i, &shared, wanted[i], bytes, "k and v in one buffer");
            }
            free(wanted[i]);
        }
        views_release(views, shared.tensors[VIEW_K].data, span);
        shared.tensors[VIEW_K].data = shared.tensors[VIEW_V].data = NULL;
        views_free_all(views, &shared);
    }
    view_kernels_free(&kernels);
    if (!room) {
        skip();
    }
}

/* A13's arithmetic, as far as there is any without paging: a pool of (block, K or V, 16 tokens, KV heads, columns) read
 * as one sequence of 16 tokens a block. Only the blocks just below, at and above 2^31 elements are run. */
static void blocks_of_a_pool_around_2_to_the_31_elements_are_found(void **state)
{
    struct views *views = *state;
    struct view_kernels kernels;
    unsigned char *wanted[256];
    size_t bytes = 0;
    enum { TOKENS = 16, KV_HEADS = 2, COLUMNS = 64, HALF = TOKENS * KV_HEADS * COLUMNS, SOME = 3 };
    const int64_t wrap = TWO(31) / (2 * HALF); /* the block whose first element is number 2^31 */
    views_compile(views, NARROW, test_size(8, 0), &kernels);
    assert_true(kernels.count <= 256);
    bool room = views_room(views, (size_t)TWO(33));
    struct view_call some = views_call(&kernels.problem, SOME, 2 * KV_HEADS, KV_HEADS, 1, TOKENS);
    struct view_call pool = views_call(&kernels.problem, wrap + 2, 2 * KV_HEADS, KV_HEADS, 1, TOKENS);
    if (room) {
        run_contiguous(views, &kernels, some, wanted, &bytes);
        pool.tensors[VIEW_K].stride[VIEW_BATCH] = pool.tensors[VIEW_V].stride[VIEW_BATCH] = 2 * HALF;
        size_t pool_bytes = views_bytes(&pool, VIEW_K) + HALF * 2;
        char *data = views_memory(views, pool_bytes);
        pool.tensors[VIEW_K].data = data;
        pool.tensors[VIEW_V].data = data + HALF * 2;
        for (enum view_tensor t = VIEW_Q; t < VIEW_TENSORS; t++) {
            if (t == VIEW_Q || t == VIEW_O) {
                pool.tensors[t].data = views_memory(views, views_bytes(&pool, t));
            }
            memcpy(some.tensors[t].stride, pool.tensors[t].stride, sizeof some.tensors[t].stride);
            some.tensors[t].data = pool.tensors[t].data + (wrap - 1) * pool.tensors[t].stride[VIEW_BATCH] * 2;
            if (t != VIEW_O) {
                views_fill(views, &some, t);
            }
        }
        size_t lse_rows = (size_t)(pool.batch * pool.heads);
        pool.lse = views_memory(views, lse_rows * sizeof(float));
        some.lse = pool.lse + (wrap - 1) * pool.heads;
    }
    for (int i = 0; i < kernels.count && room; i++) {
        struct error error = {.message = ""};
        if (wanted[i] == NULL) {
            continue;
        }
        views_poison(views, &some);
        const uint32_t origin[3] = {0, 0, (uint32_t)wrap - 1}, blocks[3] = {1, 2 * KV_HEADS, SOME};
        if (views_launch_part(views, &kernels, i, &pool, origin, blocks, &error) != ATTUNE_OK) {
            fail_msg("%s: %s", name_of(&kernels, i), error.message);
        }
        expect_bits(views, &kernels, i, &some, wanted[i], bytes, "pool");
        free(wanted[i]);
    }
    if (room) {
        views_release(views, pool.tensors[VIEW_K].data, views_bytes(&pool, VIEW_K) + HALF * 2);
        pool.tensors[VIEW_K].data = pool.tensors[VIEW_V].data = NULL;
        views_free_all(views, &pool);
    }
    view_kernels_free(&kernels);
    if (!room) {
        skip();
    }
}

/* One tile over its whole width: the largest stride below the limit is right, the next one is refused by name. */
static void the_largest_stride_of_narrow_offsets_is_right_and_the_next_refused(void **state)
{
    struct views *views = *state;
    struct view_kernels kernels;
    int narrow = 0;
    views_compile(views, NARROW, test_size(8, 0), &kernels);
    bool room = views_room(views, 8 * (size_t)TWO(30));
    for (int i = 0; i < kernels.count && room; i++) {
        for (enum view_tensor tensor = VIEW_Q; tensor < VIEW_TENSORS; tensor++) {
            const struct launch_limit *limit = limit_of(&kernels, i, tensor);
            if (limit == NULL || strstr(name_of(&kernels, i), "exact=lengths") != NULL) {
                continue;
            }
            struct view_kernels one = {kernels.problem, &kernels.items[i], 1};
            struct view_call call = call_for(&kernels, tensor, VIEW_SEQ, limit->multiplier / 2 + 1);
            unsigned char *wanted = NULL;
            size_t bytes = 0;
            struct error error = {.message = ""};
            run_contiguous(views, &one, call, &wanted, &bytes);
            call.tensors[tensor].stride[VIEW_SEQ] = (limit->limit - 1) / limit->multiplier / 8 * 8;
            views_make_all(views, &call);
            views_poison(views, &call);
            views_run(views, &one, 0, &call, "largest stride");
            expect_bits(views, &one, 0, &call, wanted, bytes, "largest stride");
            call.tensors[tensor].stride[VIEW_SEQ] += 8;
            assert_int_equal(views_launch(views, &one, 0, &call, &error), ATTUNE_UNSUPPORTED);
            assert_non_null(strstr(error.message, limit->name));
            assert_non_null(strstr(error.message, "index=wide"));
            call.tensors[tensor].stride[VIEW_SEQ] -= 8;
            views_free_all(views, &call);
            free(wanted);
            narrow++;
        }
    }
    view_kernels_free(&kernels);
    if (!room) {
        skip();
    }
    assert_true(narrow >= 8);
}

/* More threads than a tile has units: what the rest would load is never used, but its offsets must not wrap into
 * addresses between rows, which need not be anybody's. */
static void threads_beyond_a_tile_read_no_gap(void **state)
{
    struct views *views = *state;
    static const char *const cases[][2] = {
        {"host-gfx906", "threads=512 block_q=128 block_k=32"},
        {"host-sm_75", "threads=512 block_q=256 block_k=32 resident=1"},
        {"host-gfx942", "threads=512 block_q=128 block_k=32 multiply=mfma_16x16x16"},
    };
    if (!views->host || !views_room(views, 8 * (size_t)TWO(30))) {
        skip();
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct view_kernels one;
        views_compile_for(views, cases[i][0], "dtype=f16 batch=1 heads=2 kv_heads=1 seqlen_q=64 head_dim=8 lse=1",
                          cases[i][1], &one);
        for (enum view_tensor tensor = VIEW_K; tensor <= VIEW_V; tensor++) {
            const struct launch_limit *limit = limit_of(&one, 0, tensor);
            assert_non_null(limit);
            struct view_call call = views_call(&one.problem, 1, 2, 1, 3, limit->multiplier / 2 + 1);
            unsigned char *wanted = NULL;
            size_t bytes = 0;
            run_contiguous(views, &one, call, &wanted, &bytes);
            call.tensors[tensor].stride[VIEW_SEQ] =
                limit->limit / limit->multiplier / 80 * 72; /* a wrap ends far from rows */
            views_make_all(views, &call);
            views_poison(views, &call);
            views_forbid_gaps(&call, tensor);
            views_run(views, &one, 0, &call, cases[i][0]);
            expect_bits(views, &one, 0, &call, wanted, bytes, cases[i][0]);
            views_free_all(views, &call);
            free(wanted);
        }
        view_kernels_free(&one);
    }
}

/* A14 through attune.h: keys by token, queries by head, values and outputs by sequence, at once; then a token stride
 * that 32-bit offsets in a tile cannot take: refused by name, and right with index=wide. */
static void a_plan_takes_rows_past_2_to_the_31_elements(void **state)
{
    struct views *views = *state;
    for (int wide = 0; wide < 2; wide++) {
        struct view_plan plan;
        char message[512] = "";
        size_t bytes, again;
        if (!views_room(views, 32 * (size_t)TWO(30))) {
            skip();
        }
        view_plan_open(&plan, wide ? WIDE : NARROW);
        struct view_call call = views_call(&plan.problem->problem, 2, 4, 2, 3, wide ? 33 : 1025);
        views_make_all(views, &call);
        views_poison(views, &call);
        view_plan_launch(views, &plan, &call, NULL);
        unsigned char *wanted = views_output(views, &call, &bytes);
        views_free_all(views, &call);
        call.tensors[VIEW_K].stride[VIEW_SEQ] = wide ? TWO(26) : TWO(21);
        call.tensors[VIEW_K].stride[VIEW_BATCH] = 256;
        call.tensors[VIEW_V].stride[VIEW_BATCH] = call.tensors[VIEW_O].stride[VIEW_BATCH] = TWO(31) + 8;
        call.tensors[VIEW_Q].stride[VIEW_HEAD] = TWO(30) + 8;
        views_make_all(views, &call);
        views_poison(views, &call);
        view_plan_launch(views, &plan, &call, NULL);
        unsigned char *rows = views_output(views, &call, &again);
        if (again != bytes || memcmp(rows, wanted, bytes) != 0) {
            fail_msg("index=%s: the view's bits are not those of the contiguous copy", wide ? "wide" : "narrow");
        }
        if (!wide) {
            call.tensors[VIEW_K].stride[VIEW_SEQ] = TWO(26);
            assert_int_equal(view_plan_launch(views, &plan, &call, message), ATTUNE_INVALID);
            assert_non_null(strstr(message, "k_seq_stride=67108864"));
            assert_non_null(strstr(message, "index=wide"));
            call.tensors[VIEW_K].stride[VIEW_SEQ] = TWO(21);
        }
        free(wanted);
        free(rows);
        views_free_all(views, &call);
        view_plan_close(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_past_2_to_the_31_elements_are_found),
        cmocka_unit_test(tiles_that_span_2_to_the_31_elements_take_wide_offsets),
        cmocka_unit_test(keys_and_values_interleaved_over_2_to_the_31_elements),
        cmocka_unit_test(blocks_of_a_pool_around_2_to_the_31_elements_are_found),
        cmocka_unit_test(threads_beyond_a_tile_read_no_gap),
        cmocka_unit_test(a_plan_takes_rows_past_2_to_the_31_elements),
        cmocka_unit_test(the_largest_stride_of_narrow_offsets_is_right_and_the_next_refused),
    };
    return cmocka_run_group_tests(tests, views_set_up, views_tear_down);
}
