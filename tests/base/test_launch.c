/* test_launch.c - launch descriptors: JSON that trusts nothing, layouts, grids that overflow or pass a device's limits.
 */
#include "base/launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const example =
    "{\"kernel\":\"attention_forward\",\"threads\":256,\"static_shared_bytes\":1024,\"dynamic_shared_bytes\":0,"
    "\"arguments\":[[\"q\",\"pointer\"],[\"seqlen_q\",\"i32\"],[\"q_seq_stride\",\"i64\"],[\"scale\",\"f32\"],"
    "[\"origin_x\",\"u32\"],[\"seed\",\"u64\"],[\"last\",\"u32\"]],"
    "\"grid\":[[[\"seqlen_q\",64]],[[\"heads\",1],[\"batch\",1]],[]],\"blocks_per_unit\":0,"
    "\"workspace\":{\"constant\":256,\"factor\":8,\"dims\":[[\"seqlen_k\",128]]},"
    "\"fixed\":[[\"seqlen_q\",4096]],\"limits\":[[\"q_seq_stride\",32,2147483648]]}";

static struct launch read_example(void)
{
    struct launch launch;
    struct error error = {0};
    json_t *json = json_loads(example, 0, NULL);
    assert_non_null(json);
    if (launch_from_json(json, &launch, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    json_decref(json);
    return launch;
}

static struct problem sizes(int64_t batch, int64_t heads, int64_t seqlen_q, int64_t seqlen_k)
{
    struct problem problem;
    problem_defaults(schema_attention_forward(), &problem);
    problem.values[schema_find(problem.schema, "batch")].integer = batch;
    problem.values[schema_find(problem.schema, "heads")].integer = heads;
    problem.values[schema_find(problem.schema, "seqlen_q")].integer = seqlen_q;
    problem.values[schema_find(problem.schema, "seqlen_k")].integer = seqlen_k;
    return problem;
}

static void json_round_trip_keeps_everything(void **state)
{
    (void)state;
    struct launch launch = read_example();
    json_t *before = json_loads(example, 0, NULL);
    json_t *after = launch_to_json(&launch);
    assert_true(json_equal(before, after));
    json_decref(before);
    json_decref(after);
}

static void layout_is_that_of_a_c_struct(void **state)
{
    (void)state;
    struct packed {
        void *q;
        int32_t seqlen_q;
        int64_t stride;
        float scale;
        uint32_t origin;
        uint64_t seed;
        uint32_t last;
    };
    struct launch launch = read_example();
    uint32_t offsets[LAUNCH_ARGUMENTS_MAX], bytes;
    assert_int_equal(launch_layout(&launch, offsets, &bytes, NULL), ATTUNE_OK);
    assert_int_equal(offsets[0], offsetof(struct packed, q));
    assert_int_equal(offsets[1], offsetof(struct packed, seqlen_q));
    assert_int_equal(offsets[2], offsetof(struct packed, stride));
    assert_int_equal(offsets[3], offsetof(struct packed, scale));
    assert_int_equal(offsets[4], offsetof(struct packed, origin));
    assert_int_equal(offsets[5], offsetof(struct packed, seed));
    assert_int_equal(offsets[6], offsetof(struct packed, last));
    assert_int_equal(bytes, offsetof(struct packed, last) + sizeof(uint32_t)); /* no padding behind the last one */
}

static void grid_and_workspace_follow_the_sizes(void **state)
{
    (void)state;
    struct launch launch = read_example();
    struct problem problem = sizes(3, 8, 577, 129);
    uint64_t grid[3], bytes;
    struct error error = {0};
    assert_int_equal(launch_grid(&launch, &problem, 60, grid, &error), ATTUNE_OK);
    assert_int_equal(grid[0], 10);
    assert_int_equal(grid[1], 24);
    assert_int_equal(grid[2], 1);
    assert_int_equal(launch_workspace(&launch, &problem, &bytes, &error), ATTUNE_OK);
    assert_int_equal(bytes, 256 + 8 * 2);
    problem = sizes(0, 8, 577, 0);
    assert_int_equal(launch_grid(&launch, &problem, 60, grid, &error), ATTUNE_OK);
    assert_int_equal(grid[1], 0);
    launch.blocks_per_unit = 2;
    problem = sizes(1, 1, 1 << 20, 1);
    assert_int_equal(launch_grid(&launch, &problem, 60, grid, &error), ATTUNE_OK);
    assert_int_equal(grid[0], 120);
    assert_int_equal(launch_grid(&launch, &problem, 0, grid, &error), ATTUNE_INVALID);
}

static void overflow_and_unknown_fields_are_errors(void **state)
{
    (void)state;
    struct launch launch = read_example();
    struct error error = {0};
    uint64_t grid[3], bytes;
    struct problem problem = sizes(INT64_MAX, INT64_MAX, 1, INT64_MAX);
    assert_int_equal(launch_grid(&launch, &problem, 60, grid, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "overflows"));
    launch.workspace_factor_bytes = INT64_MAX;
    assert_int_equal(launch_workspace(&launch, &problem, &bytes, &error), ATTUNE_INVALID);
    problem = sizes(-1, 1, 1, 1);
    assert_int_equal(launch_grid(&launch, &problem, 60, grid, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "batch=-1"));
    problem = sizes(1, 1, 1, 1);
    strcpy(launch.grid[0].factors[0].field, "rows");
    assert_int_equal(launch_grid(&launch, &problem, 60, grid, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "rows"));
    strcpy(launch.grid[0].factors[0].field, "scale"); /* a real */
    assert_int_equal(launch_grid(&launch, &problem, 60, grid, &error), ATTUNE_INVALID);
}

/* one member replaced by a text, all else right */
static void expect_json_refused(const char *key, const char *value)
{
    json_t *json = json_loads(example, 0, NULL);
    struct launch launch = {.kernel = "untouched"};
    struct error error = {0};
    if (value) {
        json_t *replaced = json_loads(value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(replaced);
        json_object_set_new(json, key, replaced);
    } else {
        json_object_del(json, key);
    }
    if (launch_from_json(json, &launch, &error) == ATTUNE_OK) {
        fail_msg("%s: %s was accepted", key, value ? value : "missing");
    }
    assert_true(error.status == ATTUNE_CORRUPT || error.status == ATTUNE_INVALID);
    assert_true(error.message[0]);
    assert_string_equal(launch.kernel, "untouched");
    json_decref(json);
}

static void hostile_json_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"kernel", NULL},
        {"kernel", "\"\""},
        {"kernel", "\"a b\""},
        {"kernel", "\"9lives\""},
        {"kernel", "\"a\\u0000b\""},
        {"kernel", "7"},
        {"kernel", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""},
        {"threads", "0"},
        {"threads", "1025"},
        {"threads", "-256"},
        {"threads", "256.0"},
        {"threads", "null"},
        {"threads", NULL},
        {"static_shared_bytes", "-1"},
        {"static_shared_bytes", "4294967296"},
        {"dynamic_shared_bytes", NULL},
        {"arguments", NULL},
        {"arguments", "{}"},
        {"arguments", "[[\"q\"]]"},
        {"arguments", "[[\"q\",\"pointer\",1]]"},
        {"arguments", "[[\"q\",\"f64\"]]"},
        {"arguments", "[[\"q\",3]]"},
        {"arguments", "[[\"q\",\"pointer\"],[\"q\",\"pointer\"]]"},
        {"arguments", "[[\"a_name_that_is_too_long_for_us\",\"pointer\"]]"},
        {"grid", NULL},
        {"grid", "[[],[]]"},
        {"grid", "[[],[],[],[]]"},
        {"grid", "[[[\"q\",0]],[],[]]"},
        {"grid", "[[[\"q\",-64]],[],[]]"},
        {"grid", "[[[\"a\",1],[\"b\",1],[\"c\",1],[\"d\",1],[\"e\",1]],[],[]]"},
        {"grid", "[null,[],[]]"},
        {"blocks_per_unit", "-1"},
        {"workspace", "[]"},
        {"workspace", "{\"constant\":-1}"},
        {"workspace", "{\"other\":1}"},
        {"fixed", "[[\"seqlen_q\",1.5]]"},
        {"fixed", "[[\"a\",1],[\"a\",1],[\"a\",1],[\"a\",1],[\"a\",1],[\"a\",1],[\"a\",1],[\"a\",1],[\"a\",1]]"},
        {"limits", "[[\"q_seq_stride\",-1,5]]"},
        {"limits", "[[\"q_seq_stride\",1]]"},
        {"cluster", "2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_json_refused(bad[i][0], bad[i][1]);
    }
    struct launch launch;
    assert_int_equal(launch_from_json(NULL, &launch, NULL), ATTUNE_CORRUPT);
    /* more arguments than the struct holds */
    json_t *json = json_loads(example, 0, NULL);
    json_t *arguments = json_array();
    for (int i = 0; i <= LAUNCH_ARGUMENTS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "a%d", i);
        json_array_append_new(arguments, json_pack("[s,s]", name, "u64"));
    }
    json_object_set_new(json, "arguments", arguments);
    assert_int_equal(launch_from_json(json, &launch, NULL), ATTUNE_CORRUPT);
    json_decref(json);
}

/* bytes changed at random in the text: refused by the reader of JSON, by ours, or it means something that prints again
 */
static void damaged_json_never_breaks_the_reader(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 20000; round++) {
        char text[2048];
        snprintf(text, sizeof text, "%s", example);
        for (int i = 0; i <= round % 3; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            text[(random >> 20) % strlen(example)] = "0123456789-\"[]{},:qx"[(random >> 8) % 20];
        }
        json_t *json = json_loads(text, 0, NULL);
        struct launch launch;
        struct error error = {0};
        if (json && launch_from_json(json, &launch, &error) == ATTUNE_OK) {
            json_t *again = launch_to_json(&launch);
            assert_non_null(again);
            json_decref(again);
        }
        json_decref(json);
    }
}

/* every block of a small grid is in exactly one piece, and no piece passes a limit */
static void expect_exact_cover(const uint64_t grid[3], const struct grid_limits *limits, uint32_t threads)
{
    size_t total = grid[0] * grid[1] * grid[2];
    unsigned char *seen = calloc(total ? total : 1, 1);
    assert_non_null(seen);
    struct grid_piece piece = {0};
    while (grid_next(grid, limits, threads, &piece)) {
        uint64_t blocks = piece.blocks[0] * piece.blocks[1] * piece.blocks[2];
        assert_true(blocks > 0);
        for (int d = 0; d < 3; d++) {
            assert_true(limits->blocks[d] == 0 || piece.blocks[d] <= limits->blocks[d]);
        }
        assert_true(limits->work_items == 0 || blocks == 1 || blocks * threads < limits->work_items);
        for (uint64_t z = piece.origin[2]; z < piece.origin[2] + piece.blocks[2]; z++) {
            for (uint64_t y = piece.origin[1]; y < piece.origin[1] + piece.blocks[1]; y++) {
                for (uint64_t x = piece.origin[0]; x < piece.origin[0] + piece.blocks[0]; x++) {
                    assert_true(x < grid[0] && y < grid[1] && z < grid[2]);
                    seen[(z * grid[1] + y) * grid[0] + x]++;
                }
            }
        }
    }
    for (size_t i = 0; i < total; i++) {
        assert_int_equal(seen[i], 1);
    }
    free(seen);
}

static void pieces_cover_a_grid_exactly_once(void **state)
{
    (void)state;
    for (uint64_t code = 0; code < 6 * 6 * 6 * 4 * 4 * 4; code++) {
        const uint64_t grid[3] = {code % 6, code / 6 % 6, code / 36 % 6};
        struct grid_limits limits = {{code / 216 % 4, code / 864 % 4, code / 3456 % 4}, 0};
        for (uint64_t items = 0; items < 4; items++) {
            limits.work_items = (const uint64_t[]){0, 1, 9, 30}[items];
            expect_exact_cover(grid, &limits, 2);
        }
    }
}

static void hardware_limits_split_where_they_must(void **state)
{
    (void)state;
    const struct grid_limits cuda = {{2147483647, 65535, 65535}, 0};
    const struct grid_limits amd = {{2147483647, 65535, 65535}, UINT64_C(1) << 32};
    struct grid_piece piece = {0};
    const uint64_t tall[3] = {7, 65536, 1};
    assert_true(grid_next(tall, &cuda, 256, &piece));
    assert_int_equal(piece.blocks[1], 65535);
    assert_true(grid_next(tall, &cuda, 256, &piece));
    assert_int_equal(piece.origin[1], 65535);
    assert_int_equal(piece.blocks[1], 1);
    assert_int_equal(piece.blocks[0], 7);
    assert_false(grid_next(tall, &cuda, 256, &piece));
    /* 2^24 blocks of 256 threads are 2^32 work-items: one too many for one launch */
    for (uint64_t blocks = (1 << 24) - 1; blocks <= (1 << 24) + 1; blocks++) {
        const uint64_t wide[3] = {blocks, 1, 1};
        uint64_t sum = 0, pieces = 0;
        memset(&piece, 0, sizeof piece);
        while (grid_next(wide, &amd, 256, &piece)) {
            assert_true(piece.blocks[0] * 256 < UINT64_C(1) << 32);
            assert_int_equal(piece.origin[0], sum);
            sum += piece.blocks[0];
            pieces++;
        }
        assert_int_equal(sum, blocks);
        assert_int_equal(pieces, blocks < 1 << 24 ? 1 : 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_round_trip_keeps_everything),
        cmocka_unit_test(layout_is_that_of_a_c_struct),
        cmocka_unit_test(grid_and_workspace_follow_the_sizes),
        cmocka_unit_test(overflow_and_unknown_fields_are_errors),
        cmocka_unit_test(hostile_json_is_refused),
        cmocka_unit_test(damaged_json_never_breaks_the_reader),
        cmocka_unit_test(pieces_cover_a_grid_exactly_once),
        cmocka_unit_test(hardware_limits_split_where_they_must),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
