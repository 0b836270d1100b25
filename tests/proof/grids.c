/* grids.c - launch limits as pure functions, at the sizes where 32 bits end (A16, A17): how a grid is cut into pieces,
 * which grids cannot be, and the limits that 32-bit offsets put on strides.
 */
#include "base/launch.h"
#include "tests/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CUDA_LIMITS                                                                                                    \
    {                                                                                                                  \
        {2147483647, 65535, 65535}, 0                                                                                  \
    }
#define AMD_LIMITS                                                                                                     \
    {                                                                                                                  \
        {2147483647, 65535, 65535}, UINT64_C(1) << 32                                                                  \
    }
static const struct grid_limits devices[] = {CUDA_LIMITS, AMD_LIMITS, {{0, 0, 0}, 0}, {{7, 5, 3}, 1000}};
enum { DEVICES = sizeof devices / sizeof devices[0] };

/* The pieces of a grid that is too large to mark each block: they come in the order x, y, z; within a row of pieces
 * each begins where the one before ended, and each row ends at the grid's edge. Every block is then in exactly one. The
 * walk stops after `most` pieces; returns how many there were. */
static long walk(const uint64_t grid[3], const struct grid_limits *limits, uint32_t threads, long most)
{
    struct grid_piece piece = {{0}, {0}};
    uint64_t expected[3] = {0, 0, 0}, box[3] = {0, 0, 0};
    long count = 0;
    bool done = false;
    while (count < most && grid_next(grid, limits, threads, &piece)) {
        assert_false(done);
        uint64_t blocks = 1;
        for (int d = 0; d < 3; d++) {
            assert_true(piece.origin[d] == expected[d]);
            assert_true(piece.blocks[d] > 0 && piece.blocks[d] <= UINT32_MAX);
            assert_true(limits->blocks[d] == 0 || piece.blocks[d] <= limits->blocks[d]);
            assert_true(piece.blocks[d] <= grid[d] - piece.origin[d]); /* nothing outside */
            box[d] = count == 0 ? piece.blocks[d] : box[d];
            assert_true(piece.blocks[d] == box[d] || piece.blocks[d] == grid[d] - piece.origin[d]);
            blocks *= piece.blocks[d];
        }
        if (limits->work_items > 0) {
            unsigned __int128 items = (unsigned __int128)piece.blocks[0] * piece.blocks[1] * piece.blocks[2] * threads;
            assert_true(blocks == 1 || items < limits->work_items);
        }
        count++;
        int d = 0;
        while (d < 3 && expected[d] + piece.blocks[d] == grid[d]) {
            expected[d++] = 0;
        }
        done = d == 3;
        if (!done) {
            expected[d] += piece.blocks[d];
        }
    }
    assert_true(done || count == most || grid[0] == 0 || grid[1] == 0 || grid[2] == 0);
    return count;
}

static const uint64_t edges[] = {1,
                                 2,
                                 65534,
                                 65535,
                                 65536,
                                 70000,
                                 131070,
                                 131071,
                                 (1u << 24) - 1,
                                 1u << 24,
                                 (1u << 24) + 1,
                                 (1u << 31) - 1,
                                 1u << 31,
                                 (1u << 31) + 1,
                                 UINT32_MAX - 256,
                                 UINT32_MAX,
                                 (uint64_t)UINT32_MAX + 1,
                                 (uint64_t)UINT32_MAX + 257};
enum { EDGES = sizeof edges / sizeof edges[0] };

/* A16, A17: each dimension at every edge, each device's limits, every block size */
static void grids_at_the_edges_of_32_bits_are_cut_without_gap_or_overlap(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 32, 64, 128, 256, 512, 1024};
    const long most = test_size(40, 4000);
    for (int x = 0; x < EDGES; x++) {
        for (int y = 0; y < EDGES; y++) {
            for (int z = 0; z < EDGES; z++) {
                const uint64_t grid[3] = {edges[x], edges[y], edges[z]};
                for (int device = 0; device < DEVICES; device++) {
                    walk(grid, &devices[device], threads[(x + y + z) % 7], most);
                }
            }
        }
    }
}

/* A16: as attention.forward launches them, to the last piece: heads in y, batch in z */
static void heads_and_batches_beyond_65535_take_as_many_launches_as_they_need(void **state)
{
    (void)state;
    static const struct {
        uint64_t grid[3];
        long cuda, amd;
    } cases[] = {
        {{1, 1, 65535}, 1, 1},        {{1, 1, 65536}, 2, 2},        {{1, 1, 70000}, 2, 2},
        {{1, 65536, 1}, 2, 2},        {{1, 70000, 2}, 2, 2},        {{1, 131072, 1}, 3, 3},
        {{1, 65536, 65536}, 4, 512},  {{1, 2, 65536}, 2, 2},        {{1, 4096, 4096}, 1, 2},
        {{16777215, 1, 1}, 1, 1},     {{16777216, 1, 1}, 1, 2},     {{16777217, 1, 1}, 1, 2},
        {{2147483647, 1, 1}, 1, 129}, {{2147483648, 1, 1}, 2, 129}, {{0, 70000, 70000}, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint64_t *grid = cases[i].grid;
        long cuda = walk(grid, &devices[0], 256, 100000), amd = walk(grid, &devices[1], 256, 100000);
        if (cuda != cases[i].cuda || amd != cases[i].amd) {
            fail_msg("%llu x %llu x %llu: %ld launches by CUDA's limits, %ld by AMD's", (unsigned long long)grid[0],
                     (unsigned long long)grid[1], (unsigned long long)grid[2], cuda, amd);
        }
    }
}

/* A17: 2^32 - 256, 2^32 and 2^32 + 256 work-items, spread over the dimensions in every way */
static void a_launch_on_amd_stays_below_2_to_the_32_work_items(void **state)
{
    (void)state;
    for (int x = 0; x <= 24; x++) {
        for (int y = 0; x + y <= 24; y++) {
            uint64_t grid[3] = {UINT64_C(1) << x, UINT64_C(1) << y, UINT64_C(1) << (24 - x - y)};
            assert_true(walk(grid, &devices[1], 256, 100000) >= 2); /* 2^32: one block too many */
            assert_true(walk(grid, &devices[1], 128, 100000) >= 1);
            for (int d = 0; d < 3; d++) {
                for (int by = -1; by <= 1; by += 2) {
                    grid[d] += (uint64_t)by;
                    walk(grid, &devices[1], 256, 100000);
                    grid[d] -= (uint64_t)by;
                }
            }
        }
    }
}

static struct launch with_origins(bool x, bool y, bool z)
{
    struct launch launch = {.kernel = "k", .threads = 256};
    const bool wanted[3] = {x, y, z};
    for (int d = 0; d < 3; d++) {
        if (wanted[d]) {
            struct launch_argument *argument = &launch.arguments[launch.argument_count++];
            (void)snprintf(argument->name, sizeof argument->name, "origin_%c", 'x' + d);
            argument->type = ARGUMENT_U32;
        }
    }
    return launch;
}

/* a kernel that is told no origin would do the first piece's blocks again: seen before anything is launched */
static void a_grid_is_cut_only_where_the_kernel_is_told_the_origin(void **state)
{
    (void)state;
    const struct launch all = with_origins(true, true, true), none = with_origins(false, false, false);
    const struct launch x_and_z = with_origins(true, false, true);
    const uint64_t small[3] = {2147483647, 65535, 65535}, tall[3] = {1, 65536, 1}, deep[3] = {1, 1, 65536};
    const uint64_t items[3] = {1 << 24, 1, 1}, wide[3] = {UINT64_C(1) << 32, 1, 1}, empty[3] = {0, 70000, 1};
    assert_int_equal(launch_uncuttable(&none, small, &devices[0]), -1);
    assert_int_equal(launch_uncuttable(&none, tall, &devices[0]), 1);
    assert_int_equal(launch_uncuttable(&none, deep, &devices[0]), 2);
    assert_int_equal(launch_uncuttable(&x_and_z, tall, &devices[0]), 1);
    assert_int_equal(launch_uncuttable(&x_and_z, deep, &devices[0]), -1);
    assert_int_equal(launch_uncuttable(&none, items, &devices[0]), -1);
    assert_int_equal(launch_uncuttable(&none, items, &devices[1]), 0);
    assert_int_equal(launch_uncuttable(&x_and_z, items, &devices[1]), -1);
    assert_int_equal(launch_uncuttable(&none, empty, &devices[0]), -1);
    for (int device = 0; device < DEVICES; device++) {
        assert_int_equal(launch_uncuttable(&all, tall, &devices[device]), -1);
        assert_int_equal(launch_uncuttable(&all, wide, &devices[device]), 0); /* origins have 32 bits */
    }
}

/* strides times a tile's bytes, just below, at and above the limit, and where 64 bits end */
static void a_limit_is_kept_only_by_values_whose_product_is_below_it(void **state)
{
    (void)state;
    const struct launch_limit limit = {.name = "k_seq_stride", .multiplier = 128, .limit = INT64_C(1) << 31};
    assert_true(launch_limit_kept(&limit, 0));
    assert_true(launch_limit_kept(&limit, (INT64_C(1) << 24) - 1));
    assert_false(launch_limit_kept(&limit, INT64_C(1) << 24));
    assert_false(launch_limit_kept(&limit, INT64_C(1) << 32)); /* 2^39: 0 in 32 bits */
    assert_false(launch_limit_kept(&limit, INT64_C(1) << 57)); /* 2^64: 0 in 64 bits */
    assert_false(launch_limit_kept(&limit, (INT64_C(1) << 57) + 1));
    assert_false(launch_limit_kept(&limit, INT64_MAX));
    for (int bit = 0; bit < 63; bit++) {
        for (int64_t by = -1; by <= 1; by++) {
            int64_t value = (INT64_C(1) << bit) + by;
            for (int64_t multiplier = 1; multiplier <= 4096; multiplier *= 2) {
                const struct launch_limit each = {"", multiplier, INT64_C(1) << 31};
                assert_int_equal(launch_limit_kept(&each, value), (__int128)value * multiplier < each.limit);
            }
        }
    }
}

static struct problem sizes(int64_t batch, int64_t heads, int64_t seqlen_q)
{
    struct problem problem;
    problem_defaults(schema_attention_forward(), &problem);
    problem.values[schema_find(problem.schema, "batch")].integer = batch;
    problem.values[schema_find(problem.schema, "heads")].integer = heads;
    problem.values[schema_find(problem.schema, "seqlen_q")].integer = seqlen_q;
    return problem;
}

/* at the largest sizes of every field the grid is exact; one dimension of several fields may pass 64 bits, and says so
 */
static void products_of_sizes_are_exact_or_refused(void **state)
{
    (void)state;
    struct launch launch = {
        .kernel = "k", .threads = 256, .grid = {{1, {{"seqlen_q", 64}}}, {1, {{"heads", 1}}}, {1, {{"batch", 1}}}}};
    struct problem problem = sizes(INT32_MAX, INT32_MAX, ATTENTION_LENGTH_MAX);
    uint64_t grid[3];
    assert_int_equal(launch_grid(&launch, &problem, 1, grid, NULL), ATTUNE_OK);
    assert_true(grid[0] == (uint64_t)(ATTENTION_LENGTH_MAX + INT64_C(63)) / 64);
    assert_true(grid[1] == INT32_MAX && grid[2] == INT32_MAX);
    const struct launch all = with_origins(true, true, true);
    assert_int_equal(launch_uncuttable(&all, grid, &devices[0]), -1);
    launch.grid[0] = (struct launch_dimension){2, {{"heads", 1}, {"batch", 1}}};
    assert_int_equal(launch_grid(&launch, &problem, 1, grid, NULL), ATTUNE_OK);
    assert_true(grid[0] == (uint64_t)INT32_MAX * INT32_MAX);
    assert_int_equal(launch_uncuttable(&all, grid, &devices[0]), 0);
    struct error error = {.message = ""};
    launch.grid[0] = (struct launch_dimension){3, {{"heads", 1}, {"batch", 1}, {"seqlen_q", 1}}};
    assert_int_equal(launch_grid(&launch, &problem, 1, grid, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "overflows 64 bits"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_at_the_edges_of_32_bits_are_cut_without_gap_or_overlap),
        cmocka_unit_test(heads_and_batches_beyond_65535_take_as_many_launches_as_they_need),
        cmocka_unit_test(a_launch_on_amd_stays_below_2_to_the_32_work_items),
        cmocka_unit_test(a_grid_is_cut_only_where_the_kernel_is_told_the_origin),
        cmocka_unit_test(a_limit_is_kept_only_by_values_whose_product_is_below_it),
        cmocka_unit_test(products_of_sizes_are_exact_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
