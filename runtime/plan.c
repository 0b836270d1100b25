/* plan.c - making plans: load, lay out the arguments, resolve every name. */
#include "runtime/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_origin(const struct launch_argument *argument, int *dimension)
{
    static const char *const names[] = {"origin_x", "origin_y", "origin_z"};
    for (int d = 0; d < 3; d++) {
        if (strcmp(argument->name, names[d]) == 0 && argument->type == ARGUMENT_U32) {
            *dimension = d;
            return true;
        }
    }
    return false;
}

/* an integer field fits any integer argument (checked when packed), a real one f32 */
static bool is_field(const struct schema *schema, const struct launch_argument *argument, int *index)
{
    *index = schema_find(schema, argument->name);
    if (*index < 0 || argument->type == ARGUMENT_POINTER) {
        return false;
    }
    enum field_kind kind = schema->fields[*index].kind;
    return argument->type == ARGUMENT_F32 ? kind == FIELD_REAL : kind == FIELD_INTEGER;
}

static attune_status bind_argument(const attune_plan *plan, const struct launch_argument *argument,
                                   struct binding *binding, struct error *error)
{
    int index = 0;
    if (is_origin(argument, &index)) {
        *binding = (struct binding){BIND_ORIGIN, index};
    } else if (strcmp(argument->name, "workspace") == 0 && argument->type == ARGUMENT_POINTER) {
        *binding = (struct binding){BIND_WORKSPACE, 0};
    } else if (plan->is_attention && attention_bind(argument, binding)) {
        return ATTUNE_OK;
    } else if (is_field(plan->problem.schema, argument, &index)) {
        *binding = (struct binding){BIND_FIELD, index};
    } else if (!plan->is_attention) {
        *binding = (struct binding){BIND_NAMED, 0};
    } else {
        return error_set(
            error, ATTUNE_UNSUPPORTED,
            "kernel %s takes an argument \"%s\" of a type or name that %s does not bind; it was made for another "
            "release of attune: tune or compile it again",
            plan->launch.kernel, argument->name, plan->problem.schema->family);
    }
    return ATTUNE_OK;
}

static int find_argument(const struct launch *launch, const char *name)
{
    for (int i = 0; i < launch->argument_count; i++) {
        if (strcmp(launch->arguments[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* sizes in grids, limits and fixed values name things that exist */
static attune_status bind_all(attune_plan *plan, struct error *error)
{
    const struct launch *launch = &plan->launch;
    uint64_t grid[3], workspace = 0;
    attune_status status = launch_layout(launch, plan->offsets, &plan->argument_bytes, error);
    for (int i = 0; i < launch->argument_count && status == ATTUNE_OK; i++) {
        status = bind_argument(plan, &launch->arguments[i], &plan->bindings[i], error);
        if (launch->arguments[i].type == ARGUMENT_POINTER) {
            plan->pointer_offsets[plan->pointer_count++] = plan->offsets[i];
        }
    }
    for (int i = 0; i < launch->limit_count && status == ATTUNE_OK; i++) {
        plan->limit_arguments[i] = find_argument(launch, launch->limits[i].name);
        int at = plan->limit_arguments[i];
        if (at < 0 || launch->arguments[at].type == ARGUMENT_POINTER || launch->arguments[at].type == ARGUMENT_F32) {
            status = error_set(error, ATTUNE_UNSUPPORTED, "kernel %s limits \"%s\", which is no integer argument of it",
                               launch->kernel, launch->limits[i].name);
        }
    }
    for (int i = 0; i < launch->fixed_count && status == ATTUNE_OK; i++) {
        plan->fixed_fields[i] = schema_find(plan->problem.schema, launch->fixed[i].field);
        if (plan->fixed_fields[i] < 0) {
            status = error_set(error, ATTUNE_UNSUPPORTED, "kernel %s fixes \"%s\", which is no field of %s",
                               launch->kernel, launch->fixed[i].field, plan->problem.schema->family);
        }
    }
    if (status == ATTUNE_OK) {
        status = launch_grid(launch, &plan->problem, plan->device->facts.compute_units, grid, error);
    }
    if (status == ATTUNE_OK) {
        status = launch_workspace(launch, &plan->problem, &workspace, error);
        plan->info.workspace_bytes = workspace;
    }
    return status;
}

static void describe(attune_plan *plan, const struct record *record, attune_rung rung, bool stale, const char *note)
{
    attune_plan_info *info = &plan->info;
    info->size = sizeof *info;
    info->rung = rung;
    snprintf(info->candidate, sizeof info->candidate, "%s", record->candidate);
    digest_short(record->candidate, info->candidate_id);
    digest_hex(&record->object, info->object);
    snprintf(info->compiler, sizeof info->compiler, "%s", record->compiler);
    info->threads = record->launch.threads;
    info->shared_bytes = record->launch.static_shared_bytes + record->launch.dynamic_shared_bytes;
    info->winner_microseconds = record->winner_microseconds;
    info->default_microseconds = record->default_microseconds;
    info->stale = stale;
    snprintf(info->note, sizeof info->note, "%s", note);
}

attune_status plan_create(attune_device *device, const struct problem *problem, const struct record *record,
                          attune_rung rung, bool stale, const char *note, attune_plan **plan, struct error *error)
{
    *plan = NULL;
    attune_plan *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    made->device = device;
    made->launch = record->launch;
    made->problem = *problem;
    made->is_attention = problem->schema == schema_attention_forward();
    if (made->is_attention) {
        attention_facts_read(problem, &made->attention);
    }
    attune_status status = bind_all(made, error);
    if (status == ATTUNE_OK) {
        status = module_acquire(device, record, &made->module, error);
    }
    if (status != ATTUNE_OK) {
        free(made);
        return status;
    }
    describe(made, record, rung, stale, note);
    *plan = made;
    return ATTUNE_OK;
}

void attune_plan_destroy(attune_plan *plan)
{
    if (plan != NULL) {
        module_release(plan->device, plan->module);
        free(plan);
    }
}

attune_status attune_plan_describe(const attune_plan *plan, attune_plan_info *info)
{
    struct error error = {0};
    if (plan == NULL) {
        return context_report(NULL, error_set(&error, ATTUNE_INVALID, "plan is NULL"), &error);
    }
    return context_report(plan->device->context,
                          struct_write(info, &plan->info, sizeof plan->info, sizeof plan->info, "info", &error),
                          &error);
}
