/* launch.h - the launch descriptor: all that is needed to launch a compiled kernel without its template.
 *
 * Made by a template's Lua (`launch` function), kept in records as JSON, read by the runtime. Argument lists are data,
 * not C structs per family. A kernel takes its arguments in this order with natural alignment (the layout that CUDA,
 * HIP and a C struct agree on).
 */
#ifndef BASE_LAUNCH_H
#define BASE_LAUNCH_H

#include "base/error.h"
#include "base/problem.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    LAUNCH_NAME_BYTES = 64,
    LAUNCH_ARGUMENTS_MAX = 64,
    LAUNCH_FACTORS_MAX = 4,
    LAUNCH_FIXED_MAX = 8,
    LAUNCH_LIMITS_MAX = 8,
    LAUNCH_ARGUMENT_BYTES_MAX = 1024
};

enum argument_type { ARGUMENT_POINTER, ARGUMENT_I32, ARGUMENT_U32, ARGUMENT_I64, ARGUMENT_U64, ARGUMENT_F32 };

struct launch_argument {
    char name[FIELD_NAME_BYTES]; /* a value the family binds (q, k_seq_stride, scale, ...), a field of the problem, or
                                    one of the grid's own: origin_x origin_y origin_z (u32: first block of this piece),
                                    workspace */
    enum argument_type type;
};

struct launch_factor {
    char field[FIELD_NAME_BYTES]; /* a problem field (run-time size) */
    int64_t divisor;              /* contributes ceil(field / divisor) */
};

struct launch_dimension {
    int factor_count; /* 0: one block */
    struct launch_factor factors[LAUNCH_FACTORS_MAX];
};

struct launch_fixed { /* compiled in by exact=: the record serves only problems with this value */
    char field[FIELD_NAME_BYTES];
    int64_t value;
};

struct launch_limit {            /* value * multiplier must stay below limit (index=narrow: a tile's span in bytes) */
    char name[FIELD_NAME_BYTES]; /* an argument's name */
    int64_t multiplier;
    int64_t limit;
};

struct launch {
    char kernel[LAUNCH_NAME_BYTES]; /* symbol in the object */
    int argument_count;
    struct launch_argument arguments[LAUNCH_ARGUMENTS_MAX];
    uint32_t threads;                 /* a block's threads, one-dimensional */
    uint32_t static_shared_bytes;     /* inside the object; for the check against the device's limit */
    uint32_t dynamic_shared_bytes;    /* passed at launch */
    struct launch_dimension grid[3];  /* x, y, z in blocks before splitting */
    int64_t blocks_per_unit;          /* grid x at most this times the compute units; 0: no cap */
    int64_t workspace_constant_bytes; /* workspace = constant + per_factor * product of ceil_div(field, divisor) */
    int64_t workspace_factor_bytes;
    struct launch_dimension workspace;
    int fixed_count;
    struct launch_fixed fixed[LAUNCH_FIXED_MAX];
    int limit_count;
    struct launch_limit limits[LAUNCH_LIMITS_MAX];
};

json_t *launch_to_json(const struct launch *launch); /* new reference, NULL without memory */
attune_status launch_from_json(const json_t *json, struct launch *launch, struct error *error);

/* byte offset of each argument; *bytes is where the last one ends, without padding: CUDA refuses a launch whose buffer
 * is longer than the kernel's parameters (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES). offsets has argument_count entries */
attune_status launch_layout(const struct launch *launch, uint32_t *offsets, uint32_t *bytes, struct error *error);

/* grid in blocks for these sizes, before splitting; a zero size gives 0 blocks in that dimension. Overflow is an error.
 * `problem` supplies the size fields. */
attune_status launch_grid(const struct launch *launch, const struct problem *problem, int64_t compute_units,
                          uint64_t grid[3], struct error *error);
attune_status launch_workspace(const struct launch *launch, const struct problem *problem, uint64_t *bytes,
                               struct error *error);

/* Pieces of a grid that respect a device's limits, as a pure iterator.
 *   struct grid_piece piece = {0};
 *   while (grid_next(grid, limits, threads, &piece)) launch(piece.origin, piece.blocks)
 * Every block of the grid is in exactly one piece; order is x fastest. */
struct grid_limits {
    uint64_t blocks[3]; /* per dimension: CUDA 2^31-1, 65535, 65535; AMD 2^31-1 each, of which 65535 is safe in y and z;
                           0: what fits the 32 bits of a launch's grid */
    uint64_t work_items; /* blocks * threads of one launch must stay below this; 0: no limit. AMD: 2^32 */
};
struct grid_piece {
    uint64_t origin[3];
    uint64_t blocks[3]; /* all zero before the first call */
};
bool grid_next(const uint64_t grid[3], const struct grid_limits *limits, uint32_t threads, struct grid_piece *piece);

/* A kernel adds its origins, 32 bits each, to its block index: a dimension that must be cut needs its origin among the
 * kernel's arguments and fewer than 2^32 blocks. Returns the first dimension that must be cut and cannot, -1 for none.
 * To be asked before the first piece is launched. */
int launch_uncuttable(const struct launch *launch, const uint64_t grid[3], const struct grid_limits *limits);

/* does an argument's value keep a limit? The product is not computed modulo 2^64 */
bool launch_limit_kept(const struct launch_limit *limit, int64_t value);

#endif
