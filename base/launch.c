/* launch.c - grid, workspace and argument arithmetic of launch descriptors. All products are checked for overflow. */
#include "base/launch.h"

#include <string.h>

static const uint8_t argument_bytes[] = {
    [ARGUMENT_POINTER] = 8, [ARGUMENT_I32] = 4, [ARGUMENT_U32] = 4,
    [ARGUMENT_I64] = 8,     [ARGUMENT_U64] = 8, [ARGUMENT_F32] = 4,
};

attune_status launch_layout(const struct launch *launch, uint32_t *offsets, uint32_t *bytes, struct error *error)
{
    uint32_t end = 0;
    for (int i = 0; i < launch->argument_count; i++) {
        uint32_t size = argument_bytes[launch->arguments[i].type];
        end = (end + size - 1) / size * size;
        offsets[i] = end;
        end += size;
    }
    if (end > LAUNCH_ARGUMENT_BYTES_MAX) {
        return error_set(error, ATTUNE_INVALID, "kernel %s takes %u bytes of arguments, the limit is %d",
                         launch->kernel, end, LAUNCH_ARGUMENT_BYTES_MAX);
    }
    *bytes = end;
    return ATTUNE_OK;
}

/* product over the factors of ceil(field / divisor) */
static attune_status dimension_blocks(const struct launch *launch, const struct launch_dimension *dimension,
                                      const struct problem *problem, const char *what, uint64_t *blocks,
                                      struct error *error)
{
    uint64_t product = 1;
    bool zero = false; /* decided first: 0 times anything is 0, not an overflow */
    for (int pass = 0; pass < 2 && !zero; pass++) {
        for (int i = 0; i < dimension->factor_count; i++) {
            const struct launch_factor *factor = &dimension->factors[i];
            int field = schema_find(problem->schema, factor->field);
            if (field < 0 || problem->schema->fields[field].kind != FIELD_INTEGER) {
                return error_set(error, ATTUNE_INVALID, "kernel %s: its %s depends on \"%s\", no integer field of %s",
                                 launch->kernel, what, factor->field, problem->schema->family);
            }
            int64_t size = problem->values[field].integer;
            if (size < 0 || factor->divisor < 1) {
                return error_set(error, ATTUNE_INVALID,
                                 "kernel %s: its %s cannot be computed from %s=%lld divided by %lld", launch->kernel,
                                 what, factor->field, (long long)size, (long long)factor->divisor);
            }
            uint64_t count = (uint64_t)(size / factor->divisor + (size % factor->divisor != 0));
            if (pass == 0) {
                zero = zero || count == 0;
            } else if (__builtin_mul_overflow(product, count, &product)) {
                return error_set(error, ATTUNE_INVALID, "kernel %s: its %s overflows 64 bits at %s=%lld",
                                 launch->kernel, what, factor->field, (long long)size);
            }
        }
    }
    *blocks = zero ? 0 : product;
    return ATTUNE_OK;
}

attune_status launch_grid(const struct launch *launch, const struct problem *problem, int64_t compute_units,
                          uint64_t grid[3], struct error *error)
{
    static const char *const names[] = {"grid in x", "grid in y", "grid in z"};
    uint64_t blocks[3];
    for (int d = 0; d < 3; d++) {
        attune_status status = dimension_blocks(launch, &launch->grid[d], problem, names[d], &blocks[d], error);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    if (launch->blocks_per_unit > 0) {
        uint64_t cap;
        if (compute_units < 1) {
            return error_set(error, ATTUNE_INVALID,
                             "kernel %s: its grid is capped per compute unit, and the device has %lld", launch->kernel,
                             (long long)compute_units);
        }
        if (!__builtin_mul_overflow((uint64_t)launch->blocks_per_unit, (uint64_t)compute_units, &cap) &&
            blocks[0] > cap) {
            blocks[0] = cap;
        }
    }
    memcpy(grid, blocks, sizeof blocks);
    return ATTUNE_OK;
}

attune_status launch_workspace(const struct launch *launch, const struct problem *problem, uint64_t *bytes,
                               struct error *error)
{
    uint64_t total = 0;
    if (launch->workspace_constant_bytes < 0 || launch->workspace_factor_bytes < 0) {
        return error_set(error, ATTUNE_INVALID, "kernel %s: its workspace is negative", launch->kernel);
    }
    if (launch->workspace_factor_bytes > 0) {
        attune_status status = dimension_blocks(launch, &launch->workspace, problem, "workspace", &total, error);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    if (__builtin_mul_overflow(total, (uint64_t)launch->workspace_factor_bytes, &total) ||
        __builtin_add_overflow(total, (uint64_t)launch->workspace_constant_bytes, &total)) {
        return error_set(error, ATTUNE_INVALID, "kernel %s: its workspace overflows 64 bits", launch->kernel);
    }
    *bytes = total;
    return ATTUNE_OK;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The grid is cut into equal boxes (smaller at the far edges), walked x fastest. The boxes' size follows from the
 * arguments alone, so that the piece needs no memory but its origin. */
bool grid_next(const uint64_t grid[3], const struct grid_limits *limits, uint32_t threads, struct grid_piece *piece)
{
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) {
        return false;
    }
    uint64_t left = UINT64_MAX; /* blocks one launch may have, by work-items */
    if (limits->work_items > 0 && threads > 0) {
        left = (limits->work_items - 1) / threads;
        left = left > 0 ? left : 1;
    }
    uint64_t box[3];
    for (int d = 0; d < 3; d++) {
        uint64_t limit = limits->blocks[d] > 0 ? least(limits->blocks[d], UINT32_MAX) : UINT32_MAX;
        box[d] = least(least(grid[d], limit), left);
        left /= box[d];
        left = left > 0 ? left : 1;
    }
    if (piece->blocks[0] == 0) {
        memset(piece, 0, sizeof *piece);
    } else {
        int d = 0;
        while (d < 3 && grid[d] - piece->origin[d] <= box[d]) {
            piece->origin[d++] = 0;
        }
        if (d == 3) {
            return false;
        }
        piece->origin[d] += box[d];
    }
    for (int d = 0; d < 3; d++) {
        piece->blocks[d] = least(box[d], grid[d] - piece->origin[d]);
    }
    return true;
}

static bool takes_origin(const struct launch *launch, int dimension)
{
    static const char *const origins[3] = {"origin_x", "origin_y", "origin_z"};
    for (int i = 0; i < launch->argument_count; i++) {
        if (strcmp(launch->arguments[i].name, origins[dimension]) == 0) {
            return true;
        }
    }
    return false;
}

int launch_uncuttable(const struct launch *launch, const uint64_t grid[3], const struct grid_limits *limits)
{
    struct grid_piece first = {0};
    if (!grid_next(grid, limits, launch->threads, &first)) {
        return -1;
    }
    for (int d = 0; d < 3; d++) {
        if (grid[d] != first.blocks[d] && (grid[d] > UINT32_MAX || !takes_origin(launch, d))) {
            return d;
        }
    }
    return -1;
}

bool launch_limit_kept(const struct launch_limit *limit, int64_t value)
{
    int64_t product;
    return !__builtin_mul_overflow(value, limit->multiplier, &product) && product < limit->limit;
}
