/* many_blocks.c - more batches and heads than a grid's dimension takes (A16), more work-items than a launch takes
 * (A17), positions at the end of the longest sequences. Every block of a cut grid must do its own work: outputs are
 * compared, not launches counted.
 *
 * On a GPU the sizes are the true ones; the host device has the same limits on dimensions (they are ours there), and
 * stands in for AMD's limit on work-items with a smaller one of the same form.
 */
#include "tests/proof/views.h"

#include "autotune/convert.h"

#define ONE "dtype=f16 batch=1 heads=1 seqlen_q=1 head_dim="

/* one query, one key; short rows where blocks are slow */
static const char *one(const struct views *views)
{
    return views->host && test_size(1, 0) ? ONE "8" : ONE "64";
}

/* o must be the values' own bits: with one key the weight is 1. Contiguous o and v of one key and as many heads. */
static void expect_values(struct views *views, const struct view_call *call, const unsigned char *values,
                          const char *label, const char *candidate)
{
    size_t bytes = 0;
    unsigned char *rows = views_output(views, call, &bytes);
    assert_true(bytes == views_bytes(call, VIEW_O));
    for (size_t i = 0; i < bytes; i++) {
        if (rows[i] != values[i]) {
            fail_msg("%s: %s: o differs from v at element %zu of %zu", label, candidate, i / 2, bytes / 2);
        }
    }
    free(rows);
}

/* A16. The host device takes 0.2 ms a block: in size ci its limit of blocks is 1023 instead of 65535. */
static void each_of_more_batches_and_heads_than_a_grid_takes_is_computed(void **state)
{
    struct views *views = *state;
    struct view_kernels kernels;
    bool scaled = views->host && test_size(1, 0);
    const int64_t limit = scaled ? 1023 : 65535, more = scaled ? 1100 : 70000;
    const int64_t sizes[][2] = {{limit, 1}, {limit + 1, 1}, {more, 1}, {1, limit + 1}, {2, limit + 1}};
    views_compile(views, one(views), views->host ? test_size(3, 12) : 12, &kernels);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct view_call call = views_call(&kernels.problem, sizes[s][0], sizes[s][1], sizes[s][1], 1, 1);
        size_t bytes = views_bytes(&call, VIEW_V);
        unsigned char *values = malloc(bytes);
        char label[64];
        snprintf(label, sizeof label, "batch=%lld heads=%lld", (long long)call.batch, (long long)call.heads);
        assert_non_null(values);
        for (enum view_tensor t = VIEW_Q; t < VIEW_TENSORS; t++) {
            views_make(views, &call, t);
        }
        assert_int_equal(views->driver->copy_out(views->driver, views->device.ordinal, values,
                                                 call.tensors[VIEW_V].data, bytes, NULL),
                         ATTUNE_OK);
        for (int i = 0; i < kernels.count; i++) {
            uint64_t *blocks = kernels.items[i].kernel.limits.blocks;
            blocks[1] = scaled ? (uint64_t)limit : blocks[1];
            blocks[2] = scaled ? (uint64_t)limit : blocks[2];
            assert_true(blocks[1] == (uint64_t)limit && blocks[2] == (uint64_t)limit);
            views_poison(views, &call);
            views_run(views, &kernels, i, &call, label);
            expect_values(views, &call, values, label, kernels.items[i].name);
        }
        free(values);
        views_free_all(views, &call);
    }
    view_kernels_free(&kernels);
}

/* A17: limits that cut each dimension, and work-items that cut all of them together, give the bits of one launch */
static void a_cut_grid_gives_the_bits_of_a_whole_one(void **state)
{
    struct views *views = *state;
    /* causal: blocks are numbered from the end there, so that an origin's sign counts too */
    static const char *const problems[] = {
        "dtype=f16 batch=1 heads=4 kv_heads=2 seqlen_q=70 head_dim=32 lse=1 causal=1",
        "dtype=f16 batch=1 heads=4 kv_heads=2 seqlen_q=70 head_dim=32 lse=1"};
    static const struct {
        uint64_t blocks[3], pieces; /* pieces: at most this many blocks by work-items; 0 without limit */
    } limits[] = {{{1, 1, 1}, 0}, {{2, 4, 2}, 0}, {{0, 4, 0}, 0}, {{0, 0, 2}, 0},
                  {{0, 0, 0}, 1}, {{0, 0, 0}, 5}, {{0, 0, 0}, 14}};
    for (size_t p = 0; p < (size_t)test_size(1, 2); p++) {
        struct view_kernels kernels;
        views_compile(views, problems[p], test_size(4, 0), &kernels);
        for (int i = 0; i < kernels.count; i++) {
            struct kernel *kernel = &kernels.items[i].kernel;
            const struct grid_limits own = kernel->limits;
            struct view_call call = views_call(&kernels.problem, 3, 4, 2, 70, 70);
            size_t bytes, again;
            views_make_all(views, &call);
            views_poison(views, &call);
            views_run(views, &kernels, i, &call, "whole");
            unsigned char *whole = views_output(views, &call, &bytes);
            for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
                memcpy(kernel->limits.blocks, limits[l].blocks, sizeof kernel->limits.blocks);
                kernel->limits.work_items = limits[l].pieces * kernel->launch.threads + (limits[l].pieces > 0);
                views_poison(views, &call);
                views_run(views, &kernels, i, &call, "cut");
                unsigned char *cut = views_output(views, &call, &again);
                if (again != bytes || memcmp(cut, whole, bytes) != 0) {
                    fail_msg("%s: limits %zu: the pieces' bits are not those of one launch", kernels.items[i].name, l);
                }
                free(cut);
            }
            kernel->limits = own;
            free(whole);
            views_free_all(views, &call);
        }
        view_kernels_free(&kernels);
    }
}

/* the same through attune.h: a plan whose device takes few blocks and work-items a launch */
static void a_plan_cuts_its_grid_as_its_device_demands(void **state)
{
    struct views *views = *state;
    struct view_plan plan;
    view_plan_open(&plan, "dtype=f16 batch=3 heads=4 kv_heads=2 seqlen_q=140 head_dim=32 causal=1 lse=1");
    struct view_call call = views_call(&plan.problem->problem, 3, 4, 2, 140, 140);
    const struct grid_limits limits[] = {
        plan.device->facts.grid, {{1, 1, 1}, 0}, {{2, 3, 2}, 0}, {{0, 0, 0}, 1 + 256 * 5}};
    unsigned char *whole = NULL;
    size_t bytes = 0, again;
    views_make_all(views, &call);
    for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
        plan.device->facts.grid = limits[l];
        views_poison(views, &call);
        view_plan_launch(views, &plan, &call, NULL);
        unsigned char *rows = views_output(views, &call, &again);
        if (l == 0) {
            whole = rows;
            bytes = again;
            continue;
        }
        if (again != bytes || memcmp(rows, whole, bytes) != 0) {
            fail_msg("limits %zu: the pieces' bits are not those of one launch", l);
        }
        free(rows);
    }
    free(whole);
    views_free_all(views, &call);
    view_plan_close(&plan);
}

/* every row of o is the one value row; o is fetched in parts */
static void expect_first_value(struct views *views, const struct view_call *call, const char *label)
{
    enum { PART = 1 << 24 };
    size_t row_bytes = (size_t)call->head_dim_v * 2, bytes = views_bytes(call, VIEW_O);
    unsigned char *part = malloc(PART), row[512];
    assert_non_null(part);
    for (int64_t c = 0; c < call->head_dim_v; c++) {
        uint16_t element = views_element(VIEW_V, 0, 0, 0, c);
        memcpy(row + 2 * c, &element, 2);
    }
    for (size_t at = 0; at < bytes; at += PART) {
        size_t now = bytes - at < PART ? bytes - at : PART;
        assert_int_equal(views->driver->copy_out(views->driver, views->device.ordinal, part,
                                                 call->tensors[VIEW_O].data + at, now, NULL),
                         ATTUNE_OK);
        for (size_t i = 0; i < now; i += row_bytes) {
            if (memcmp(part + i, row, row_bytes) != 0) {
                fail_msg("%s: row %zu of o is not v's row", label, (at + i) / row_bytes);
            }
        }
    }
    free(part);
}

/* A17: one block below, at and above the most work-items of a launch; q, k and v expanded by strides of 0. Once by the
 * device's own limits, once by AMD's form of them. */
static void work_items_around_the_limit_are_all_done(void **state)
{
    struct views *views = *state;
    struct view_kernels kernels;
    /* batch x heads = 2^n - 1, 2^n, 2^n + 1 for the blocks of 256 threads; each factor is legal for one dimension */
    static const int64_t real[][2] = {{4095, 4097}, {4096, 4096}, {257, 65281}};
    static const int64_t small[][2] = {{15, 17}, {16, 16}, {1, 257}};
    const uint64_t limit = views->host ? UINT64_C(1) << 16 : UINT64_C(1) << 32;
    int runs = 0;
    views_compile(views, one(views), views->host ? test_size(6, 0) : 12, &kernels);
    for (int i = 0; i < kernels.count && runs < (views->host ? test_size(2, 16) : 2); i++) {
        struct kernel *kernel = &kernels.items[i].kernel;
        if (kernel->launch.threads != 256 || strstr(kernels.items[i].name, "exact=off") == NULL) {
            continue;
        }
        runs++;
        for (int s = 0; s < 3; s++) {
            const int64_t *size = views->host ? small[s] : real[s];
            assert_true((uint64_t)(size[0] * size[1]) == limit / 256 - 1 + (uint64_t)s);
            struct view_call call = views_call(&kernels.problem, size[0], size[1], size[1], 1, 1);
            for (enum view_tensor t = VIEW_Q; t < VIEW_O; t++) {
                memset(call.tensors[t].stride, 0, sizeof call.tensors[t].stride);
                struct view_call first = views_call(&kernels.problem, 1, 1, 1, 1, 1);
                call.tensors[t].data = views_memory(views, views_bytes(&call, t));
                first.tensors[t].data = call.tensors[t].data;
                views_fill(views, &first, t);
            }
            views_make(views, &call, VIEW_O);
            const struct grid_limits own = kernel->limits;
            for (int amd = 0; amd < 2; amd++) {
                char label[64];
                snprintf(label, sizeof label, "%lld x %lld blocks%s", (long long)size[0], (long long)size[1],
                         amd ? ", cut by work-items" : "");
                kernel->limits.work_items = amd ? limit : own.work_items;
                views_poison(views, &call);
                views_run(views, &kernels, i, &call, label);
                expect_first_value(views, &call, label);
            }
            kernel->limits = own;
            views_free_all(views, &call);
        }
    }
    view_kernels_free(&kernels);
    assert_true(runs >= 2);
}

/* ------------------------------------------------------------------------------------------------ long sequences */

/* the last queries, or the first, of a sequence with one head: a call of its own */
static struct view_call some_queries(const struct view_call *call, int64_t first, int64_t count)
{
    struct view_call some = *call;
    some.seqlen_q = count;
    some.tensors[VIEW_O].data += first * call->tensors[VIEW_O].stride[VIEW_SEQ] * 2;
    some.lse += first;
    return some;
}

/* The first and the last block of the longest sequence of queries, one query's row for all: the bits of a short
 * sequence's first and last rows. */
static void queries_at_the_end_of_the_longest_sequence_are_right(void **state)
{
    struct views *views = *state;
    static const char *const problems[] = {
        "dtype=f16 batch=1 heads=1 seqlen_q=200 seqlen_k=5 head_dim=8 lse=1 causal=bottom_right",
        "dtype=f16 batch=1 heads=1 seqlen_q=200 seqlen_k=5 head_dim=8 lse=1 causal=top_left"};
    enum { SHORT = 200, ROWS = 8 };
    for (int p = 0; p < 2; p++) {
        struct view_kernels kernels;
        views_compile(views, problems[p], test_size(6, 0), &kernels);
        struct view_call near = views_call(&kernels.problem, 1, 1, 1, SHORT, 5);
        struct view_call far = views_call(&kernels.problem, 1, 1, 1, ATTENTION_LENGTH_MAX, 5);
        if (!views_room(views, views_bytes(&far, VIEW_O) + ((size_t)12 << 30))) {
            view_kernels_free(&kernels);
            skip();
        }
        near.tensors[VIEW_Q].stride[VIEW_SEQ] = far.tensors[VIEW_Q].stride[VIEW_SEQ] = 0;
        struct view_call one_query = views_call(&kernels.problem, 1, 1, 1, 1, 5);
        near.tensors[VIEW_Q].data = one_query.tensors[VIEW_Q].data = views_memory(views, 4096);
        views_fill(views, &one_query, VIEW_Q);
        views_make(views, &near, VIEW_K);
        views_make(views, &near, VIEW_V);
        views_make(views, &near, VIEW_O);
        near.lse = views_memory(views, SHORT * sizeof(float));
        for (enum view_tensor t = VIEW_Q; t < VIEW_O; t++) {
            far.tensors[t].data = near.tensors[t].data;
        }
        size_t lse_bytes = (size_t)ATTENTION_LENGTH_MAX * sizeof(float);
        far.tensors[VIEW_O].data = views_memory(views, views_bytes(&far, VIEW_O));
        far.lse = views_memory(views, lse_bytes);
        for (int i = 0; i < kernels.count; i++) {
            const struct launch *launch = &kernels.items[i].kernel.launch;
            uint32_t blocks = (uint32_t)((ATTENTION_LENGTH_MAX + launch->grid[0].factors[0].divisor - 1) /
                                         launch->grid[0].factors[0].divisor);
            const int64_t firsts[2][2] = {{0, 0}, {SHORT - ROWS, ATTENTION_LENGTH_MAX - ROWS}};
            if (launch->fixed_count > 0) {
                continue; /* exact=lengths */
            }
            views_run(views, &kernels, i, &near, "short");
            for (int end = 0; end < 2; end++) {
                struct view_call found = some_queries(&far, firsts[end][1], ROWS);
                views_poison(views, &found);
            }
            /* enough blocks at each end for the rows that are compared, whichever end a kernel numbers from */
            for (int end = 0; end < 2; end++) {
                struct error error = {.message = ""};
                const uint32_t origin[3] = {end == 0 ? 0 : blocks - ROWS, 0, 0}, count[3] = {ROWS, 1, 1};
                if (views_launch_part(views, &kernels, i, &far, origin, count, &error) != ATTUNE_OK) {
                    fail_msg("%s: %s", kernels.items[i].name, error.message);
                }
            }
            for (int end = 0; end < 2; end++) {
                size_t bytes, again;
                struct view_call wanted = some_queries(&near, firsts[end][0], ROWS);
                struct view_call found = some_queries(&far, firsts[end][1], ROWS);
                unsigned char *a = views_output(views, &wanted, &bytes), *b = views_output(views, &found, &again);
                if (bytes != again || memcmp(a, b, bytes) != 0) {
                    fail_msg("%s: %s: the %s queries differ from a short sequence's", problems[p],
                             kernels.items[i].name, end == 0 ? "first" : "last");
                }
                free(a);
                free(b);
            }
        }
        views_release(views, far.tensors[VIEW_O].data, views_bytes(&far, VIEW_O));
        views_release(views, far.lse, lse_bytes);
        views_release(views, near.tensors[VIEW_Q].data, 4096);
        near.tensors[VIEW_Q].data = NULL;
        views_free_all(views, &near);
        view_kernels_free(&kernels);
    }
}

/* a row of equal elements */
static void put_row(struct views *views, char *place, double value)
{
    uint16_t row[8];
    for (int c = 0; c < 8; c++) {
        row[c] = half_from_float((float)value);
    }
    assert_int_equal(views->driver->copy_in(views->driver, views->device.ordinal, place, row, sizeof row, NULL),
                     ATTUNE_OK);
}

/* The last key of the longest sequence outweighs all others, what lies behind it is NaN: o is its value. The host
 * device would take hours and has a shorter one. */
static void the_last_key_of_the_longest_sequence_is_seen(void **state)
{
    struct views *views = *state;
    struct view_kernels kernels;
    const int64_t length = views->host ? 70001 : ATTENTION_LENGTH_MAX;
    int runs = 0;
    views_compile(views, "dtype=f16 batch=1 heads=1 seqlen_q=1 seqlen_k=5 head_dim=8", 12, &kernels);
    struct view_call call = views_call(&kernels.problem, 1, 1, 1, 1, length);
    size_t bytes = views_bytes(&call, VIEW_K), behind = (size_t)1 << 20;
    if (!views_room(views, 2 * (bytes + behind) + behind)) {
        view_kernels_free(&kernels);
        skip();
    }
    for (enum view_tensor t = VIEW_Q; t < VIEW_TENSORS; t++) {
        size_t size = t == VIEW_K || t == VIEW_V ? bytes + behind : 16;
        call.tensors[t].data = views_memory(views, size);
        assert_int_equal(
            views->driver->fill(views->driver, views->device.ordinal, call.tensors[t].data, 0xff, size, NULL),
            ATTUNE_OK);
        if (t == VIEW_K || t == VIEW_V) {
            assert_int_equal(
                views->driver->fill(views->driver, views->device.ordinal, call.tensors[t].data, 0, bytes, NULL),
                ATTUNE_OK);
            put_row(views, call.tensors[t].data + (length - 1) * 16, t == VIEW_K ? 16 : 1.25);
        }
    }
    put_row(views, call.tensors[VIEW_Q].data, 4);
    for (int i = 0; i < kernels.count && runs < (views->host ? test_size(4, 12) : 1); i++) {
        const struct launch *launch = &kernels.items[i].kernel.launch;
        if (launch->fixed_count > 0 || launch->threads != 256 || launch->grid[0].factors[0].divisor > 4) {
            continue; /* the widest tiles of keys are the quickest */
        }
        runs++;
        uint16_t row[8], wanted = half_from_float(1.25f);
        views_poison(views, &call);
        views_run(views, &kernels, i, &call, "long");
        assert_int_equal(
            views->driver->copy_out(views->driver, views->device.ordinal, row, call.tensors[VIEW_O].data, 16, NULL),
            ATTUNE_OK);
        for (int c = 0; c < 8; c++) {
            if (row[c] != wanted) {
                fail_msg("%s: o[%d] has bits %04x, the last value's are %04x", kernels.items[i].name, c, row[c],
                         wanted);
            }
        }
    }
    for (enum view_tensor t = VIEW_Q; t < VIEW_TENSORS; t++) {
        views_release(views, call.tensors[t].data, t == VIEW_K || t == VIEW_V ? bytes + behind : 16);
    }
    view_kernels_free(&kernels);
    assert_true(runs >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_more_batches_and_heads_than_a_grid_takes_is_computed),
        cmocka_unit_test(a_cut_grid_gives_the_bits_of_a_whole_one),
        cmocka_unit_test(a_plan_cuts_its_grid_as_its_device_demands),
        cmocka_unit_test(work_items_around_the_limit_are_all_done),
        cmocka_unit_test(queries_at_the_end_of_the_longest_sequence_are_right),
        cmocka_unit_test(the_last_key_of_the_longest_sequence_is_seen),
    };
    return cmocka_run_group_tests(tests, views_set_up, views_tear_down);
}
