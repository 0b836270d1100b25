/* launch.c - the last step of every launch: limits, workspace, grid, packing, pieces. Everything is checked before the
 * first piece is launched. */
#include "runtime/plan.h"
#include "runtime/tracing.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { WORKSPACE_ALIGNMENT = 16 };

static attune_status check_limits(const attune_plan *plan, const union launch_value *values,
                                  const struct problem *sizes, struct error *error)
{
    const struct launch *launch = &plan->launch;
    for (int i = 0; i < launch->fixed_count; i++) {
        int field = plan->fixed_fields[i];
        if (sizes->values[field].integer != launch->fixed[i].value) {
            return error_set(
                error, ATTUNE_INVALID,
                "%s=%lld: this plan's kernel was compiled for %s=%lld alone; prepare a plan for the new size",
                launch->fixed[i].field, (long long)sizes->values[field].integer, launch->fixed[i].field,
                (long long)launch->fixed[i].value);
        }
    }
    for (int i = 0; i < launch->limit_count; i++) {
        const struct launch_limit *limit = &launch->limits[i];
        int64_t value = values[plan->limit_arguments[i]].integer;
        if (!launch_limit_kept(limit, value)) {
            return error_set(
                error, ATTUNE_INVALID,
                "%s=%lld: times %lld it must stay below %lld for a kernel with 32-bit offsets in a tile; prepare with "
                "index=wide (wide_index=1)",
                limit->name, (long long)value, (long long)limit->multiplier, (long long)limit->limit);
        }
    }
    return ATTUNE_OK;
}

static attune_status check_workspace(const attune_plan *plan, const struct problem *sizes, const void *workspace,
                                     size_t workspace_bytes, struct error *error)
{
    uint64_t needed = 0;
    attune_status status = launch_workspace(&plan->launch, sizes, &needed, error);
    if (status != ATTUNE_OK || needed == 0) {
        return status;
    }
    if (workspace == NULL || workspace_bytes < needed) {
        return error_set(
            error, ATTUNE_INVALID,
            "workspace of %zu bytes%s: these sizes need %llu; ask attune_workspace_attention or the plan's "
            "workspace_bytes",
            workspace_bytes, workspace == NULL ? " at NULL" : "", (unsigned long long)needed);
    }
    if ((uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0) {
        return error_set(error, ATTUNE_INVALID, "workspace=%p is not aligned to %d bytes", workspace,
                         WORKSPACE_ALIGNMENT);
    }
    return ATTUNE_OK;
}

static attune_status no_fit(const struct launch_argument *argument, int64_t value, const char *what,
                            struct error *error)
{
    return error_set(error, ATTUNE_INVALID, "%s=%lld does not fit the kernel's argument (%s)", argument->name,
                     (long long)value, what);
}

static attune_status pack_one(const struct launch_argument *argument, union launch_value value, unsigned char *at,
                              struct error *error)
{
    switch (argument->type) {
    case ARGUMENT_POINTER:
        memcpy(at, &value.pointer, 8);
        return ATTUNE_OK;
    case ARGUMENT_I32: {
        int32_t narrow = (int32_t)value.integer;
        if (narrow != value.integer) {
            return no_fit(argument, value.integer, "-2^31 to 2^31-1", error);
        }
        memcpy(at, &narrow, 4);
        return ATTUNE_OK;
    }
    case ARGUMENT_U32: {
        uint32_t narrow = (uint32_t)value.integer;
        if (value.integer < 0 || value.integer > UINT32_MAX) {
            return no_fit(argument, value.integer, "0 to 2^32-1", error);
        }
        memcpy(at, &narrow, 4);
        return ATTUNE_OK;
    }
    case ARGUMENT_I64:
        memcpy(at, &value.integer, 8);
        return ATTUNE_OK;
    case ARGUMENT_U64:
        memcpy(at, &value.natural, 8);
        return ATTUNE_OK;
    case ARGUMENT_F32: {
        if (!isfinite(value.real) || fabs(value.real) > FLT_MAX) {
            return error_set(error, ATTUNE_INVALID, "%s=%g is not a finite fp32 number", argument->name, value.real);
        }
        float narrow = (float)value.real;
        memcpy(at, &narrow, 4);
        return ATTUNE_OK;
    }
    }
    return error_set(error, ATTUNE_INTERNAL, "argument %s is of an unknown type", argument->name);
}

static attune_status pack(const attune_plan *plan, const union launch_value *values, void *workspace,
                          unsigned char *bytes, struct error *error)
{
    attune_status status = ATTUNE_OK;
    memset(bytes, 0, plan->argument_bytes); /* gaps are read by no kernel, but captured graphs compare them */
    for (int i = 0; i < plan->launch.argument_count && status == ATTUNE_OK; i++) {
        union launch_value value = values[i];
        if (plan->bindings[i].source == BIND_WORKSPACE) {
            value.pointer = workspace;
        } else if (plan->bindings[i].source == BIND_ORIGIN) {
            value.integer = 0;
        }
        status = pack_one(&plan->launch.arguments[i], value, bytes + plan->offsets[i], error);
    }
    return status;
}

/* all pieces, before any is launched: origins must fit and must be wanted */
static attune_status check_pieces(const attune_plan *plan, const uint64_t grid[3], struct error *error)
{
    int d = launch_uncuttable(&plan->launch, grid, &plan->device->facts.grid);
    if (d < 0) {
        return ATTUNE_OK;
    }
    return error_set(error, ATTUNE_INVALID,
                     "the grid has %llu blocks in %c, more than one launch takes here, and %s; launch it in parts with "
                     "smaller sizes",
                     (unsigned long long)grid[d], "xyz"[d],
                     grid[d] > UINT32_MAX ? "more than 2^32-1" : "this kernel cannot be split");
}

static attune_status launch_pieces(const attune_plan *plan, const uint64_t grid[3], unsigned char *bytes, void *stream,
                                   struct error *error)
{
    const attune_device *device = plan->device;
    struct grid_piece piece = {0};
    struct driver_launch launch = {
        .function = plan->module->function,
        .threads = plan->launch.threads,
        .dynamic_shared_bytes = plan->launch.dynamic_shared_bytes,
        .arguments = bytes,
        .argument_bytes = plan->argument_bytes,
        .pointer_offsets = plan->pointer_offsets,
        .pointer_count = plan->pointer_count,
    };
    attune_status status = ATTUNE_OK;
    while (status == ATTUNE_OK && grid_next(grid, &device->facts.grid, plan->launch.threads, &piece)) {
        for (int i = 0; i < plan->launch.argument_count; i++) {
            if (plan->bindings[i].source == BIND_ORIGIN) {
                uint32_t origin = (uint32_t)piece.origin[plan->bindings[i].index];
                memcpy(bytes + plan->offsets[i], &origin, sizeof origin);
            }
        }
        for (int d = 0; d < 3; d++) {
            launch.grid[d] = (uint32_t)piece.blocks[d];
        }
        status = device->driver->launch(device->driver, device->ordinal, &launch, stream, error);
    }
    return status;
}

attune_status launch_values(const attune_plan *plan, const union launch_value *values, const struct problem *sizes,
                            void *stream, void *workspace, size_t workspace_bytes, struct error *error)
{
    _Alignas(16) unsigned char bytes[LAUNCH_ARGUMENT_BYTES_MAX];
    uint64_t grid[3];
    attune_status status = check_limits(plan, values, sizes, error);
    if (status == ATTUNE_OK) {
        status = check_workspace(plan, sizes, workspace, workspace_bytes, error);
    }
    if (status == ATTUNE_OK) {
        status = launch_grid(&plan->launch, sizes, plan->device->facts.compute_units, grid, error);
    }
    if (status == ATTUNE_OK) {
        status = check_pieces(plan, grid, error);
    }
    if (status == ATTUNE_OK) {
        status = pack(plan, values, workspace, bytes, error);
    }
    if (status == ATTUNE_OK) {
        status = launch_pieces(plan, grid, bytes, stream, error);
    }
    if (status == ATTUNE_OK && plan->device->context->tracing != NULL && grid[0] > 0 && grid[1] > 0 && grid[2] > 0) {
        tracing_note(plan->device->context->tracing, sizes);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------ public */

attune_status attune_launch(const attune_plan *plan, const attune_argument *arguments, size_t count, void *stream,
                            void *workspace, size_t workspace_bytes)
{
    struct error error;
    error.message[0] = '\0';
    if (plan == NULL || (arguments == NULL && count > 0)) {
        return context_report(plan != NULL ? plan->device->context : NULL,
                              error_set(&error, ATTUNE_INVALID, "%s is NULL", plan == NULL ? "plan" : "arguments"),
                              &error);
    }
    return context_report(plan->device->context,
                          named_launch(plan, arguments, count, stream, workspace, workspace_bytes, &error), &error);
}

static attune_status check_attention(const attune_plan *plan, const attune_attention_arguments *given,
                                     attune_attention_arguments *arguments, struct error *error)
{
    if (!plan->is_attention) {
        return error_set(error, ATTUNE_INVALID, "the plan is of family %s; launch it by attune_launch",
                         plan->problem.schema->family);
    }
    return struct_read(arguments, sizeof *arguments, sizeof *arguments, given, "arguments", error);
}

attune_status attune_launch_attention(const attune_plan *plan, const attune_attention_arguments *arguments,
                                      void *stream, void *workspace, size_t workspace_bytes)
{
    struct error error;
    attune_attention_arguments own;
    error.message[0] = '\0';
    if (plan == NULL) {
        return context_report(NULL, error_set(&error, ATTUNE_INVALID, "plan is NULL"), &error);
    }
    attune_status status = check_attention(plan, arguments, &own, &error);
    if (status == ATTUNE_OK) {
        status = attention_launch(plan, &own, stream, workspace, workspace_bytes, &error);
    }
    return context_report(plan->device->context, status, &error);
}

attune_status attune_workspace_attention(const attune_plan *plan, const attune_attention_arguments *arguments,
                                         size_t *bytes)
{
    struct error error;
    attune_attention_arguments own;
    struct problem sizes;
    uint64_t needed = 0;
    bool empty = false;
    error.message[0] = '\0';
    if (plan == NULL || bytes == NULL) {
        return context_report(plan != NULL ? plan->device->context : NULL,
                              error_set(&error, ATTUNE_INVALID, "%s is NULL", plan == NULL ? "plan" : "bytes"), &error);
    }
    *bytes = 0;
    attune_status status = check_attention(plan, arguments, &own, &error);
    if (status == ATTUNE_OK) {
        status = attention_sizes(plan, &own, &sizes, &empty, &error);
    }
    if (status == ATTUNE_OK && !empty) {
        status = launch_workspace(&plan->launch, &sizes, &needed, &error);
    }
    if (status == ATTUNE_OK && needed > SIZE_MAX) {
        status = error_set(&error, ATTUNE_NO_MEMORY, "workspace of %llu bytes is larger than memory can be",
                           (unsigned long long)needed);
    }
    *bytes = status == ATTUNE_OK ? (size_t)needed : 0;
    return context_report(plan->device->context, status, &error);
}
