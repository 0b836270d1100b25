/* Launch descriptors as JSON; what is accepted has a layout, and grids and workspaces that are counted or refused,
 * never wrapped around. */
#include "base/launch.h"
#include "tests/fuzz/foreign_locale.h"
#include "tests/fuzz/fuzz.h"

enum { PIECES_LOOKED_AT = 64 };

static void check_layout(const struct launch *launch)
{
    uint32_t offsets[LAUNCH_ARGUMENTS_MAX], bytes = 0;
    struct error error = {.message = ""};
    HOLDS(launch_layout(launch, offsets, &bytes, &error) == ATTUNE_OK, "no layout: %s", error.message);
    HOLDS(bytes <= LAUNCH_ARGUMENT_BYTES_MAX, "%u bytes of arguments", bytes);
    for (int i = 0; i < launch->argument_count; i++) {
        enum argument_type type = launch->arguments[i].type;
        uint32_t width = type == ARGUMENT_I32 || type == ARGUMENT_U32 || type == ARGUMENT_F32 ? 4 : 8;
        uint32_t next = i + 1 < launch->argument_count ? offsets[i + 1] : bytes;
        HOLDS(offsets[i] % width == 0 && offsets[i] + width <= next, "argument %d at %u", i, offsets[i]);
    }
}

/* pieces are within the limits, in order, and as many blocks as the grid when the walk ends */
static void check_pieces(const uint64_t grid[3], uint32_t threads)
{
    const struct grid_limits limits = {{2147483647, 65535, 65535}, (uint64_t)1 << 32};
    struct grid_piece piece = {.blocks = {0}};
    unsigned __int128 seen = 0;
    int count = 0;
    bool more = true;
    while (count < PIECES_LOOKED_AT && (more = grid_next(grid, &limits, threads, &piece))) {
        uint64_t blocks = 1;
        for (int d = 0; d < 3; d++) {
            HOLDS(piece.blocks[d] >= 1 && piece.blocks[d] <= limits.blocks[d], "%llu blocks in dimension %d",
                  (unsigned long long)piece.blocks[d], d);
            HOLDS(piece.origin[d] < grid[d] && piece.blocks[d] <= grid[d] - piece.origin[d], "a piece past the grid");
            blocks *= piece.blocks[d];
        }
        HOLDS(blocks * threads < limits.work_items, "a piece of %llu blocks of %u threads", (unsigned long long)blocks,
              threads);
        seen += blocks;
        count++;
    }
    unsigned __int128 all = (unsigned __int128)grid[0] * grid[1] * grid[2];
    HOLDS(more || seen == all, "blocks are missing or repeated");
}

static void check_grid(const struct launch *launch, const struct problem *problem)
{
    struct error error = {.message = ""};
    uint64_t grid[3], bytes;
    attune_status status = launch_grid(launch, problem, 60, grid, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK && grid[0] < (uint64_t)1 << 40 && grid[1] < (uint64_t)1 << 40 &&
        grid[2] < (uint64_t)1 << 40) {
        check_pieces(grid, launch->threads);
    }
    error = (struct error){.message = ""};
    status = launch_workspace(launch, problem, &bytes, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        HOLDS(bytes >= (uint64_t)launch->workspace_constant_bytes, "a workspace below its constant");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_foreign_locale();
    static const char *const problems[] = {"heads=32 seqlen_q=2048 head_dim=128",
                                           "heads=1048576 batch=1048576 seqlen_q=1048576 head_dim=1",
                                           "heads=1 batch=1 seqlen_q=0 head_dim=1"};
    struct launch launch, second;
    struct error error = {.message = ""};
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    if (json == NULL) {
        return 0;
    }
    attune_status status = launch_from_json(json, &launch, &error);
    fuzz_check_error(status, &error);
    json_decref(json);
    if (status != ATTUNE_OK) {
        return 0;
    }
    json_t *written = launch_to_json(&launch);
    HOLDS(written != NULL && launch_from_json(written, &second, &error) == ATTUNE_OK, "not read back: %s",
          error.message);
    json_t *again = launch_to_json(&second);
    HOLDS(json_equal(written, again), "it becomes another descriptor");
    HOLDS(launch.threads >= 1 && launch.threads <= 1024 && launch.kernel[0] != '\0', "%u threads", launch.threads);
    json_decref(written);
    json_decref(again);
    check_layout(&launch);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        struct problem problem;
        if (problem_parse(schema_attention_forward(), problems[i], &problem, NULL) == ATTUNE_OK) {
            check_grid(&launch, &problem);
        }
    }
    return 0;
}
