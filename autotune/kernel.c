/* kernel.c - arguments by name into the packed block that drivers take. */
#include "autotune/kernel.h"

#include <math.h>
#include <string.h>

attune_status kernel_load(struct kernel *kernel, const struct driver *driver, const struct driver_device *device,
                          const void *object, size_t bytes, const struct launch *launch, struct error *error)
{
    *kernel = (struct kernel){.driver = driver,
                              .ordinal = device->ordinal,
                              .launch = *launch,
                              .limits = device->grid,
                              .compute_units = device->compute_units};
    attune_status status = launch_layout(launch, kernel->offsets, &kernel->argument_bytes, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    static const char *const origins[3] = {"origin_x", "origin_y", "origin_z"};
    for (int dimension = 0; dimension < 3; dimension++) {
        kernel->origin[dimension] = -1;
        for (int i = 0; i < launch->argument_count; i++) {
            if (strcmp(launch->arguments[i].name, origins[dimension]) == 0) {
                kernel->origin[dimension] = i;
            }
        }
    }
    for (int i = 0; i < launch->argument_count; i++) {
        if (launch->arguments[i].type == ARGUMENT_POINTER) {
            kernel->pointer_offsets[kernel->pointer_count++] = kernel->offsets[i];
        }
    }
    return driver->load(driver, device->ordinal, object, bytes, launch->kernel, launch->dynamic_shared_bytes,
                        &kernel->module, &kernel->function, error);
}

void kernel_unload(struct kernel *kernel)
{
    if (kernel->module != NULL) {
        kernel->driver->unload(kernel->driver, kernel->ordinal, kernel->module, NULL);
        kernel->module = NULL;
    }
}

/* the value of a name: given, a field of the problem, or 0 for the grid's own that are set at launch */
static bool find_value(const struct problem *problem, const struct named_value *values, int count, const char *name,
                       struct named_value *found)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(values[i].name, name) == 0) {
            *found = values[i];
            return true;
        }
    }
    *found = (struct named_value){.name = name, .kind = NAMED_INTEGER};
    int index = schema_find(problem->schema, name);
    if (index >= 0) {
        if (problem->schema->fields[index].kind == FIELD_REAL) {
            found->kind = NAMED_REAL;
            found->real = problem->values[index].real;
        } else {
            found->integer = problem->values[index].integer;
        }
        return true;
    }
    return strncmp(name, "origin_", 7) == 0;
}

static attune_status pack(const struct launch_argument *argument, const struct named_value *value, unsigned char *at,
                          struct error *error)
{
    int64_t integer = value->integer;
    bool fits = true;
    switch (argument->type) {
    case ARGUMENT_POINTER:
        fits = value->kind == NAMED_POINTER;
        memcpy(at, &value->pointer, sizeof value->pointer);
        break;
    case ARGUMENT_I32: {
        int32_t narrow = (int32_t)integer;
        fits = value->kind == NAMED_INTEGER && narrow == integer;
        memcpy(at, &narrow, sizeof narrow);
        break;
    }
    case ARGUMENT_U32: {
        uint32_t narrow = (uint32_t)integer;
        fits = value->kind == NAMED_INTEGER && (int64_t)narrow == integer;
        memcpy(at, &narrow, sizeof narrow);
        break;
    }
    case ARGUMENT_I64:
    case ARGUMENT_U64:
        fits = value->kind == NAMED_INTEGER;
        memcpy(at, &integer, sizeof integer);
        break;
    case ARGUMENT_F32: {
        float real = value->kind == NAMED_REAL ? (float)value->real : (float)integer;
        fits = value->kind != NAMED_POINTER;
        memcpy(at, &real, sizeof real);
        break;
    }
    }
    return fits ? ATTUNE_OK
                : error_set(error, ATTUNE_INVALID, "argument %s: value %lld does not fit its type in the kernel",
                            argument->name, (long long)integer);
}

static attune_status check_fixed(const struct launch *launch, const struct problem *problem,
                                 const struct named_value *values, int count, struct error *error)
{
    struct named_value value;
    for (int i = 0; i < launch->fixed_count; i++) {
        const struct launch_fixed *fixed = &launch->fixed[i];
        if (!find_value(problem, values, count, fixed->field, &value) || value.integer != fixed->value) {
            return error_set(error, ATTUNE_UNSUPPORTED, "%s=%lld: this candidate is compiled for %lld alone",
                             fixed->field, (long long)value.integer, (long long)fixed->value);
        }
    }
    for (int i = 0; i < launch->limit_count; i++) {
        const struct launch_limit *limit = &launch->limits[i];
        if (!find_value(problem, values, count, limit->name, &value) || !launch_limit_kept(limit, value.integer)) {
            return error_set(error, ATTUNE_UNSUPPORTED,
                             "%s=%lld: times %lld it must stay below %lld for this candidate; use index=wide",
                             limit->name, (long long)value.integer, (long long)limit->multiplier,
                             (long long)limit->limit);
        }
    }
    return ATTUNE_OK;
}

attune_status kernel_bind(const struct kernel *kernel, const struct problem *problem, const struct named_value *values,
                          int count, void *workspace, struct kernel_call *call, struct error *error)
{
    const struct launch *launch = &kernel->launch;
    attune_status status = check_fixed(launch, problem, values, count, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    memset(call, 0, sizeof *call);
    call->kernel = kernel;
    for (int i = 0; i < launch->argument_count; i++) {
        const struct launch_argument *argument = &launch->arguments[i];
        struct named_value value = {.name = "workspace", .kind = NAMED_POINTER, .pointer = workspace};
        if (strcmp(argument->name, "workspace") != 0 && !find_value(problem, values, count, argument->name, &value)) {
            return error_set(error, ATTUNE_INVALID,
                             "kernel %s wants an argument %s, which neither %s nor its problem has", launch->kernel,
                             argument->name, problem->schema->family);
        }
        status = pack(argument, &value, call->arguments + kernel->offsets[i], error);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    status = launch_grid(launch, problem, kernel->compute_units, call->grid, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    int d = launch_uncuttable(launch, call->grid, &kernel->limits);
    if (d < 0) {
        return ATTUNE_OK;
    }
    unsigned long long blocks = call->grid[d];
    return error_set(error, ATTUNE_UNSUPPORTED, "kernel %s: its grid of %llu blocks in %c must be split, and %s",
                     launch->kernel, blocks, "xyz"[d],
                     blocks > UINT32_MAX ? "2^32-1 is the most" : "it takes no origin there");
}

attune_status kernel_launch(const struct kernel_call *call, driver_stream stream, struct error *error)
{
    const struct kernel *kernel = call->kernel;
    unsigned char arguments[LAUNCH_ARGUMENT_BYTES_MAX];
    struct grid_piece piece = {0};
    attune_status status = ATTUNE_OK;
    memcpy(arguments, call->arguments, sizeof arguments);
    while (status == ATTUNE_OK && grid_next(call->grid, &kernel->limits, kernel->launch.threads, &piece)) {
        struct driver_launch launch = {.function = kernel->function,
                                       .threads = kernel->launch.threads,
                                       .dynamic_shared_bytes = kernel->launch.dynamic_shared_bytes,
                                       .arguments = arguments,
                                       .argument_bytes = kernel->argument_bytes,
                                       .pointer_offsets = kernel->pointer_offsets,
                                       .pointer_count = kernel->pointer_count};
        for (int dimension = 0; dimension < 3; dimension++) {
            launch.grid[dimension] = (uint32_t)piece.blocks[dimension];
            uint32_t origin = (uint32_t)piece.origin[dimension];
            if (kernel->origin[dimension] >= 0) { /* else kernel_bind saw that it stays 0 */
                memcpy(arguments + kernel->offsets[kernel->origin[dimension]], &origin, sizeof origin);
            }
        }
        status = kernel->driver->launch(kernel->driver, kernel->ordinal, &launch, stream, error);
    }
    return status;
}

bool device_answers(const struct driver *driver, int ordinal)
{
    void *memory = NULL;
    unsigned char byte = 0;
    bool lives = driver->allocate(driver, ordinal, 256, &memory, NULL) == ATTUNE_OK &&
                 driver->fill(driver, ordinal, memory, 7, 256, NULL) == ATTUNE_OK &&
                 driver->copy_out(driver, ordinal, &byte, memory, 1, NULL) == ATTUNE_OK && byte == 7;
    if (memory != NULL) {
        driver->release(driver, ordinal, memory, NULL);
    }
    return lives;
}
