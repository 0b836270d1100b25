/* params.c - the report on a family's parameters: domains, defaults, which values live, and why the others are dead.
 *
 * A dead value's reason is found where it would matter: put into points that are valid otherwise, and ask which
 * constraint then refuses.
 */
#include "base/text_json.h"
#include "generator/generator_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBES_MAX = 64 };

static json_t *value_json(const struct value *value)
{
    return value->integer ? json_integer(value->number) : json_string(value->text);
}

/* ---- with a problem: what of the space is alive ---- */

struct report {
    struct call call;
    struct space space;
    struct buffer unsupported; /* supports()' reason; empty: supported */
    struct point fallback;
    char (*reasons)[256]; /* per parameter and value: why dead; PARAMETER_VALUES_MAX a parameter */
    bool live[CANDIDATE_PARAMETERS_MAX][PARAMETER_VALUES_MAX];
};

static int begin_report(lua_State *L)
{
    struct report *report = lua_touserdata(L, 1);
    struct call *call = &report->call;
    if (template_supports(L, call->generator, call->family, call->of, call->problem, call->target,
                          &report->unsupported)) {
        point_default(L, call->generator, call->family, call->of, call->problem, call->target, &report->fallback);
    }
    return 0;
}

/* why value `value` of parameter `parameter` is in no valid point */
static void explain_dead(lua_State *L, struct report *report, int parameter, int value, int p, int t)
{
    const struct space *space = &report->space;
    struct generator *generator = report->call.generator;
    char *reason = report->reasons[parameter * PARAMETER_VALUES_MAX + value];
    char reasons[CONSTRAINTS_MAX][256];
    int counts[CONSTRAINTS_MAX] = {0};
    int best = -1;
    size_t width = (size_t)space->of->parameter_count;
    size_t step = space->valid_count / PROBES_MAX + 1;
    for (size_t row = 0; row < space->valid_count; row += step) {
        struct point *point = &generator->point;
        *point = (struct point){.of = space->of};
        memcpy(point->index, space->points + row * width, width);
        point->index[parameter] = (uint8_t)value;
        for (int i = 0; i < space->of->constraint_count; i++) {
            if (constraint_holds(L, generator, report->call.family, i, p, t)) {
                continue;
            }
            if (counts[i]++ == 0) {
                snprintf(reasons[i], sizeof reasons[i], "%s", lua_tostring(L, -1));
            }
            best = best < 0 || counts[i] > counts[best] ? i : best;
            lua_settop(L, t);
            break;
        }
    }
    if (best >= 0) {
        strcpy(reason, reasons[best]);
        return;
    }
    for (int i = 0; i < space->of->constraint_count; i++) { /* nothing is valid: the constraint that refuses most */
        best = best < 0 || space->rejections[i].count > space->rejections[best].count ? i : best;
    }
    if (best >= 0) {
        strcpy(reason, space->rejections[best].reason);
    }
}

static int explain_all(lua_State *L)
{
    struct report *report = lua_touserdata(L, 1);
    const struct kernel_template *of = report->call.of;
    push_problem(L, report->call.generator, report->call.problem);
    push_target(L, report->call.generator, report->call.target);
    int t = lua_gettop(L);
    for (int i = 0; i < of->parameter_count; i++) {
        for (int j = 0; j < of->parameters[i].value_count; j++) {
            if (!report->live[i][j]) {
                explain_dead(L, report, i, j, t - 1, t);
            }
        }
    }
    return 0;
}

static attune_status make_report(struct report *report, struct error *error)
{
    const struct call *call = &report->call;
    const struct kernel_template *of = call->of;
    struct sandbox *sandbox = &call->generator->sandbox;
    call->generator->importing = call->family;
    attune_status status = sandbox_protect(sandbox, begin_report, report, error);
    if (status != ATTUNE_OK || report->unsupported.length > 0) {
        return status;
    }
    report->reasons = calloc(CANDIDATE_PARAMETERS_MAX * PARAMETER_VALUES_MAX, sizeof *report->reasons);
    if (report->reasons == NULL) {
        return error_no_memory(error);
    }
    status = space_walk(call->generator, call->family, of, call->problem, call->target, &report->space, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    for (size_t row = 0; row < report->space.valid_count; row++) {
        for (int i = 0; i < of->parameter_count; i++) {
            report->live[i][report->space.points[row * (size_t)of->parameter_count + (size_t)i]] = true;
        }
    }
    return sandbox_protect(sandbox, explain_all, report, error);
}

static void close_report(struct report *report)
{
    space_free(&report->space);
    buffer_free(&report->unsupported);
    free(report->reasons);
    free(report);
}

/* ---- JSON ---- */

static json_t *parameter_json(const struct parameter *parameter, const struct report *report, int index)
{
    json_t *json = json_pack("{s:s, s:o}", "name", parameter->name, "doc", text_to_json(parameter->doc));
    json_t *domain = json_array(), *live = json_array(), *dead = json_array();
    for (int i = 0; i < parameter->value_count; i++) {
        const struct value *value = &parameter->values[i];
        json_array_append_new(domain, value_json(value));
        if (report == NULL || report->unsupported.length > 0) {
            continue;
        }
        if (report->live[index][i]) {
            json_array_append_new(live, value_json(value));
        } else {
            json_array_append_new(dead, json_pack("{s:o, s:o}", "value", value_json(value), "reason",
                                                  text_to_json(report->reasons[index * PARAMETER_VALUES_MAX + i])));
        }
    }
    json_object_set_new(json, "domain", domain);
    if (report != NULL && report->unsupported.length == 0) {
        json_object_set_new(json, "default", value_json(&parameter->values[report->fallback.index[index]]));
        json_object_set(json, "live", live);
        json_object_set(json, "dead", dead);
    }
    json_decref(live);
    json_decref(dead);
    return json;
}

static json_t *rejections_json(const struct family *family, const struct space *space)
{
    json_t *list = json_array();
    for (int i = 0; i < space->of->constraint_count; i++) {
        const struct rejection *rejection = &space->rejections[i];
        struct candidate candidate;
        char name[CANDIDATE_TEXT_BYTES];
        if (rejection->count == 0) {
            continue;
        }
        candidate_of_point(family, &rejection->example, &candidate);
        candidate_format(&candidate, name);
        json_t *example = json_pack("{s:s, s:o}", "candidate", name, "reason", text_to_json(rejection->reason));
        json_array_append_new(list, json_pack("{s:o, s:I, s:o}", "reason", text_to_json(space->of->constraints[i].doc),
                                              "count", (json_int_t)rejection->count, "example", example));
    }
    return list;
}

static json_t *template_json(const struct family *family, const struct kernel_template *of, const struct report *report)
{
    json_t *json = json_pack("{s:s, s:o, s:s}", "name", of->name, "doc", text_to_json(of->doc), "file", of->file);
    json_t *parameters = json_array(), *constraints = json_array();
    for (int i = 0; i < of->parameter_count; i++) {
        json_array_append_new(parameters, parameter_json(&of->parameters[i], report, i));
    }
    for (int i = 0; i < of->constraint_count; i++) {
        json_array_append_new(constraints, text_to_json(of->constraints[i].doc));
    }
    json_object_set_new(json, "parameters", parameters);
    json_object_set_new(json, "constraints", constraints);
    if (report != NULL) {
        json_object_set_new(json, "supported", json_boolean(report->unsupported.length == 0));
        if (report->unsupported.length > 0) {
            json_object_set_new(json, "reason", text_to_json(buffer_string(&report->unsupported)));
        } else {
            json_object_set_new(json, "points", json_integer((json_int_t)report->space.total));
            json_object_set_new(json, "valid", json_integer((json_int_t)report->space.valid_count));
            json_object_set_new(json, "rejected", rejections_json(family, &report->space));
        }
    }
    return json;
}

attune_status generator_params(struct generator *generator, const char *name, const struct problem *problem,
                               const struct target *target, json_t **json, struct error *error)
{
    struct family *family;
    *json = NULL;
    attune_status status = family_find(generator, name, &family, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if ((problem == NULL) != (target == NULL)) {
        return error_set(error, ATTUNE_INVALID, "a problem and a target are needed together, or neither");
    }
    if (problem != NULL && strcmp(problem->schema->family, family->name) != 0) {
        return error_set(error, ATTUNE_INVALID, "the problem is of family %s, not %s", problem->schema->family,
                         family->name);
    }
    json_t *templates = json_array();
    for (int i = 0; i < family->template_count && status == ATTUNE_OK; i++) {
        struct kernel_template *of = &family->templates[i];
        struct report *report = NULL;
        if (problem != NULL) {
            report = calloc(1, sizeof *report);
            if (report == NULL) {
                status = error_no_memory(error);
                break;
            }
            report->call = (struct call){generator, family, of, problem, target, NULL, error};
            status = make_report(report, error);
        }
        if (status == ATTUNE_OK) {
            json_array_append_new(templates, template_json(family, of, report));
        }
        if (report != NULL) {
            close_report(report);
        }
    }
    if (status != ATTUNE_OK) {
        json_decref(templates);
        return status;
    }
    *json =
        json_pack("{s:s, s:o, s:o}", "family", family->name, "doc", text_to_json(family->doc), "templates", templates);
    return *json != NULL ? ATTUNE_OK : error_no_memory(error);
}
