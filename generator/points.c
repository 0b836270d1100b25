/* points.c - candidates as points of a space: names and values to indices and back, defaults, constraints, the written
 * form. */
#include "generator/generator_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- points and candidates ---- */

static int tell_support(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    struct buffer *reason = call->result;
    template_supports(L, call->generator, call->family, call->of, call->problem, call->target, reason);
    return 0;
}

/* The family's other templates with that parameter, and with that value unless it is NULL: "; F/T has it", and why that
 * one does not serve the problem, where `of` was chosen for one. */
static void append_others(const struct kernel_template *of, const struct family *family, const char *name,
                          const char *value, const struct call *chosen, struct buffer *text)
{
    for (int i = 0; i < family->template_count; i++) {
        struct kernel_template *other = &((struct family *)(uintptr_t)family)->templates[i];
        struct buffer reason = BUFFER_INIT;
        struct error failure = {.message = ""};
        int index = parameter_find(other, name);
        if (other == of || index < 0 || (value != NULL && parameter_value_find(&other->parameters[index], value) < 0)) {
            continue;
        }
        if (chosen != NULL) {
            struct call call = *chosen;
            call.of = other;
            call.result = &reason;
            if (sandbox_protect(&call.generator->sandbox, tell_support, &call, &failure) != ATTUNE_OK) {
                buffer_text(&reason, failure.message);
            }
        }
        if (reason.length > 0) {
            buffer_format(text, "; %s/%s has it, but does not serve this problem: %s", family->name, other->name,
                          buffer_string(&reason));
        } else {
            buffer_format(text, "; %s/%s has it: begin with that name", family->name, other->name);
        }
        buffer_free(&reason);
    }
}

struct values_here {
    struct call call;
    const struct parameter *parameter;
    struct buffer *text;
};

/* "on gfx90a A, B; elsewhere C, D": what the parameter's here(p, t) names, then the rest */
static int tell_values_here(lua_State *L)
{
    struct values_here *asking = lua_touserdata(L, 1);
    const struct parameter *parameter = asking->parameter;
    bool has[PARAMETER_VALUES_MAX] = {false};
    lua_rawgeti(L, LUA_REGISTRYINDEX, parameter->here);
    push_problem(L, asking->call.generator, asking->call.problem);
    push_target(L, asking->call.generator, asking->call.target);
    lua_call(L, 2, 1);
    for (int i = 1; lua_type(L, -1) == LUA_TTABLE && lua_geti(L, -1, i) != LUA_TNIL; i++) {
        int value = parameter_value_find(parameter, luaL_checkstring(L, -1));
        has[value < 0 ? 0 : value] |= value >= 0;
        lua_pop(L, 1);
    }
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        int count = 0;
        for (int i = 0; i < parameter->value_count; i++) {
            if (has[i] != (bool)elsewhere) {
                buffer_format(asking->text, "%s%s",
                              count > 0   ? ", "
                              : elsewhere ? "; elsewhere "
                                          : "",
                              parameter->values[i].text);
                count++;
            }
        }
        if (count == 0 && !elsewhere) {
            buffer_text(asking->text, "none");
        }
    }
    return 0;
}

/* the values that may stand for the parameter; where the call says on which target, its own first */
static void append_domain(const struct parameter *parameter, const struct call *chosen, struct buffer *text)
{
    struct buffer here = BUFFER_INIT;
    struct error failure = {.message = ""};
    struct values_here asking = {.parameter = parameter, .text = &here};
    if (chosen != NULL && parameter->here != LUA_NOREF) {
        asking.call = *chosen;
        if (sandbox_protect(&chosen->generator->sandbox, tell_values_here, &asking, &failure) == ATTUNE_OK) {
            buffer_format(text, "on %s %s", chosen->target->processor, buffer_string(&here));
            buffer_free(&here);
            return;
        }
    }
    buffer_free(&here);
    parameter_domain(parameter, text);
}

static attune_status refuse_parameter(const struct kernel_template *of, const struct family *family, const char *name,
                                      const struct call *chosen, struct error *error)
{
    struct buffer list = BUFFER_INIT, others = BUFFER_INIT;
    for (int i = 0; i < of->parameter_count; i++) {
        buffer_format(&list, "%s%s", i > 0 ? ", " : "", of->parameters[i].name);
    }
    append_others(of, family, name, NULL, chosen, &others);
    error_set(error, ATTUNE_INVALID, "%s/%s has no parameter '%s'; its parameters are: %s%s", family->name, of->name,
              name, list.length > 0 ? buffer_string(&list) : "none", buffer_string(&others));
    buffer_free(&list);
    buffer_free(&others);
    return ATTUNE_INVALID;
}

/* `chosen`: the call for which `of` is the default's template; NULL when it was named */
static attune_status set_value(const struct kernel_template *of, const struct family *family, const char *name,
                               const char *text, const struct call *chosen, struct point *point, bool *seen,
                               struct error *error)
{
    int index = parameter_find(of, name);
    if (index < 0) {
        return refuse_parameter(of, family, name, chosen, error);
    }
    int value = parameter_value_find(&of->parameters[index], text);
    if (value < 0) {
        struct buffer domain = BUFFER_INIT;
        append_domain(&of->parameters[index], chosen, &domain);
        append_others(of, family, name, text, chosen, &domain);
        error_set(error, ATTUNE_INVALID, "%s=%s is outside its domain in %s/%s: %s", name, text, family->name, of->name,
                  buffer_string(&domain));
        buffer_free(&domain);
        return ATTUNE_INVALID;
    }
    if (seen[index]) {
        return error_set(error, ATTUNE_INVALID, "parameter %s is given twice", name);
    }
    seen[index] = true;
    point->index[index] = (uint8_t)value;
    return ATTUNE_OK;
}

static attune_status refuse_missing(const struct kernel_template *of, const struct family *family, const bool *seen,
                                    struct error *error)
{
    for (int i = 0; i < of->parameter_count; i++) {
        if (!seen[i]) {
            return error_set(error, ATTUNE_INVALID, "the candidate of %s/%s lacks the parameter %s", family->name,
                             of->name, of->parameters[i].name);
        }
    }
    return ATTUNE_OK;
}

attune_status point_of_candidate(const struct candidate *candidate, const struct family *family,
                                 const struct kernel_template *of, struct point *point, struct error *error)
{
    bool seen[CANDIDATE_PARAMETERS_MAX] = {false};
    *point = (struct point){.of = of, .deepest_read = -1};
    if (candidate->parameter_count < 0 || candidate->parameter_count > CANDIDATE_PARAMETERS_MAX) {
        return error_set(error, ATTUNE_INVALID, "a candidate has 0 to %d parameters, not %d", CANDIDATE_PARAMETERS_MAX,
                         candidate->parameter_count);
    }
    for (int i = 0; i < candidate->parameter_count; i++) {
        attune_status status = set_value(of, family, candidate->parameters[i].name, candidate->parameters[i].value,
                                         NULL, point, seen, error);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    return refuse_missing(of, family, seen, error);
}

void candidate_of_point(const struct family *family, const struct point *point, struct candidate *candidate)
{
    const struct kernel_template *of = point->of;
    memset(candidate, 0, sizeof *candidate);
    snprintf(candidate->family, sizeof candidate->family, "%s", family->name);
    snprintf(candidate->template_name, sizeof candidate->template_name, "%s", of->name);
    candidate->parameter_count = of->parameter_count;
    for (int i = 0; i < of->parameter_count; i++) {
        strcpy(candidate->parameters[i].name, of->parameters[i].name);
        strcpy(candidate->parameters[i].value, of->parameters[i].values[point->index[i]].text);
    }
}

/* ---- inside Lua ---- */

void point_default(lua_State *L, struct generator *generator, const struct family *family,
                   const struct kernel_template *of, const struct problem *problem, const struct target *target,
                   struct point *point)
{
    char text[64];
    *point = (struct point){.of = of, .deepest_read = -1};
    sandbox_refill(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, of->fallback);
    push_problem(L, generator, problem);
    push_target(L, generator, target);
    lua_call(L, 2, 1);
    if (lua_type(L, -1) != LUA_TTABLE) {
        sandbox_raise(L, ATTUNE_INVALID,
                      "templates/%s: template %s: default() returned a %s value, not a table of parameters",
                      family->file, of->name, luaL_typename(L, -1));
    }
    for (int i = 0; i < of->parameter_count; i++) {
        const struct parameter *parameter = &of->parameters[i];
        int whole = 0;
        int type = lua_getfield(L, -1, parameter->name);
        lua_Integer number = lua_tointegerx(L, -1, &whole);
        if (type == LUA_TNUMBER && whole) {
            snprintf(text, sizeof text, "%lld", (long long)number);
        } else {
            snprintf(text, sizeof text, "%s", type == LUA_TSTRING ? lua_tostring(L, -1) : luaL_typename(L, -1));
        }
        int value = parameter_value_find(parameter, text);
        if (value < 0) {
            sandbox_raise(L, ATTUNE_INVALID,
                          "templates/%s: template %s: default() gives %s=%s, which is not in its domain", family->file,
                          of->name, parameter->name, text);
        }
        point->index[i] = (uint8_t)value;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* the two results of a predicate are on top: true, or false and a reason. On false the reason stays on the stack */
static bool read_verdict(lua_State *L, const struct family *family, const struct kernel_template *of, const char *what)
{
    if (lua_type(L, -2) != LUA_TBOOLEAN) {
        sandbox_raise(L, ATTUNE_INVALID,
                      "templates/%s: template %s: %s returned a %s value; expected true, or false and a reason",
                      family->file, of->name, what, luaL_typename(L, -2));
    }
    if (lua_toboolean(L, -2)) {
        lua_pop(L, 2);
        return true;
    }
    if (lua_type(L, -1) != LUA_TSTRING) {
        sandbox_raise(L, ATTUNE_INVALID, "templates/%s: template %s: %s returned false without a reason", family->file,
                      of->name, what);
    }
    lua_remove(L, -2);
    return false;
}

/* supports(p, t); on false its reason is on the stack */
static bool supports_verdict(lua_State *L, struct generator *generator, const struct family *family,
                             const struct kernel_template *of, const struct problem *problem,
                             const struct target *target)
{
    if (of->supports == LUA_NOREF) {
        return true;
    }
    sandbox_refill(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, of->supports);
    push_problem(L, generator, problem);
    push_target(L, generator, target);
    lua_call(L, 2, 2);
    return read_verdict(L, family, of, "supports()");
}

bool template_supports(lua_State *L, struct generator *generator, const struct family *family,
                       const struct kernel_template *of, const struct problem *problem, const struct target *target,
                       struct buffer *reason)
{
    if (supports_verdict(L, generator, family, of, problem, target)) {
        return true;
    }
    buffer_text(reason, lua_tostring(L, -1));
    lua_pop(L, 1);
    return false;
}

void template_require(lua_State *L, const struct call *call)
{
    if (!supports_verdict(L, call->generator, call->family, call->of, call->problem, call->target)) {
        sandbox_raise(L, ATTUNE_UNSUPPORTED, "%s/%s: %s", call->family->name, call->of->name, lua_tostring(L, -1));
    }
}

bool constraint_holds(lua_State *L, struct generator *generator, const struct family *family, int index, int p, int t)
{
    const struct kernel_template *of = generator->point.of;
    char what[DOC_BYTES + 32];
    sandbox_refill(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, of->constraints[index].check);
    push_candidate(L, generator);
    lua_pushvalue(L, p);
    lua_pushvalue(L, t);
    lua_call(L, 3, 2);
    if (lua_type(L, -2) == LUA_TBOOLEAN && lua_toboolean(L, -2)) {
        lua_pop(L, 2);
        return true;
    }
    snprintf(what, sizeof what, "constraint %d (%s)", index + 1, of->constraints[index].doc);
    return read_verdict(L, family, of, what);
}

void point_check(lua_State *L, struct generator *generator, const struct family *family, int p, int t)
{
    const struct kernel_template *of = generator->point.of;
    for (int i = 0; i < of->constraint_count; i++) {
        if (!constraint_holds(L, generator, family, i, p, t)) {
            struct candidate candidate;
            char name[CANDIDATE_TEXT_BYTES];
            candidate_of_point(family, &generator->point, &candidate);
            candidate_format(&candidate, name);
            sandbox_raise(L, ATTUNE_UNSUPPORTED, "%s: %s", name, lua_tostring(L, -1));
        }
    }
}

/* ---- the public calls ---- */

static attune_status refuse_other_family(const struct problem *problem, const char *family, struct error *error)
{
    if (strcmp(problem->schema->family, family) != 0) {
        return error_set(error, ATTUNE_INVALID, "the candidate is of family %s, the problem of %s", family,
                         problem->schema->family);
    }
    return ATTUNE_OK;
}

static int check_point(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    template_require(L, call);
    push_problem(L, call->generator, call->problem);
    push_target(L, call->generator, call->target);
    point_check(L, call->generator, call->family, lua_gettop(L) - 1, lua_gettop(L));
    return 0;
}

attune_status candidate_check(struct generator *generator, const struct candidate *candidate,
                              const struct problem *problem, const struct target *target, struct error *error)
{
    struct family *family;
    struct kernel_template *of;
    attune_status status = family_find(generator, candidate->family, &family, error);
    if (status == ATTUNE_OK) {
        status = refuse_other_family(problem, family->name, error);
    }
    if (status == ATTUNE_OK) {
        status = template_find(family, candidate->template_name, &of, error);
    }
    if (status == ATTUNE_OK) {
        status = point_of_candidate(candidate, family, of, &generator->point, error);
    }
    if (status == ATTUNE_OK) {
        struct call call = {generator, family, of, problem, target, NULL, error};
        generator->importing = family;
        status = sandbox_protect(&generator->sandbox, check_point, &call, error);
    }
    return status;
}

struct default_result {
    struct point point;
    struct buffer reasons;
};

/* the first template, in the family's order, that supports the problem on the target */
static int find_default(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    struct default_result *result = call->result;
    struct generator *generator = call->generator;
    for (int i = 0; i < call->family->template_count; i++) {
        const struct kernel_template *of = &call->family->templates[i];
        buffer_format(&result->reasons, "%s%s: ", i > 0 ? "; " : "", of->name);
        if (!template_supports(L, generator, call->family, of, call->problem, call->target, &result->reasons)) {
            continue;
        }
        point_default(L, generator, call->family, of, call->problem, call->target, &result->point);
        generator->point = result->point;
        push_problem(L, generator, call->problem);
        push_target(L, generator, call->target);
        point_check(L, generator, call->family, lua_gettop(L) - 1, lua_gettop(L));
        return 0;
    }
    return sandbox_raise(L, ATTUNE_UNSUPPORTED, "%s on %s: no template serves this problem: %s", call->family->name,
                         call->target->processor, buffer_string(&result->reasons));
}

attune_status candidate_default(struct generator *generator, const struct problem *problem, const struct target *target,
                                struct candidate *candidate, struct error *error)
{
    struct family *family;
    struct default_result result = {.reasons = BUFFER_INIT};
    attune_status status = family_find(generator, problem->schema->family, &family, error);
    if (status == ATTUNE_OK) {
        struct call call = {generator, family, NULL, problem, target, &result, error};
        generator->importing = family;
        status = sandbox_protect(&generator->sandbox, find_default, &call, error);
    }
    if (status == ATTUNE_OK) {
        candidate_of_point(family, &result.point, candidate);
    }
    buffer_free(&result.reasons);
    return status;
}

/* A template's default is asked for only where it serves the problem: elsewhere default() has nothing to go by. */
static int default_of_template(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    template_require(L, call);
    point_default(L, call->generator, call->family, call->of, call->problem, call->target, call->result);
    return 0;
}

/* `name=value` words of a candidate's text onto the point; seen tells which parameters were named */
static attune_status parse_words(char *words, const struct family *family, const struct kernel_template *of,
                                 const struct call *chosen, struct point *point, bool *seen, struct error *error)
{
    char *rest = NULL;
    for (char *word = strtok_r(words, " \t\n", &rest); word != NULL; word = strtok_r(NULL, " \t\n", &rest)) {
        char *equals = strchr(word, '=');
        if (equals == NULL || equals == word || equals[1] == '\0') {
            return error_set(error, ATTUNE_INVALID, "'%s' is not parameter=value", word);
        }
        *equals = '\0';
        attune_status status = set_value(of, family, word, equals + 1, chosen, point, seen, error);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    return ATTUNE_OK;
}

attune_status candidate_parse(struct generator *generator, const char *text, const struct problem *problem,
                              const struct target *target, struct candidate *candidate, struct error *error)
{
    struct family *family = NULL;
    struct kernel_template *of = NULL;
    struct candidate fallback;
    struct point point = {0};
    bool seen[CANDIDATE_PARAMETERS_MAX] = {false};
    char copy[CANDIDATE_TEXT_BYTES];
    attune_status status = ATTUNE_OK;
    text += strspn(text, " \t\n");
    if (strlen(text) >= sizeof copy) {
        return error_set(error, ATTUNE_INVALID, "a candidate's text has at most %zu bytes, this one %zu",
                         sizeof copy - 1, strlen(text));
    }
    strcpy(copy, text);
    char *words = copy;
    size_t head = strcspn(copy, " \t\n");
    bool named = memchr(copy, '/', head) != NULL && memchr(copy, '=', head) == NULL;
    if (named) {
        words = copy + head + (copy[head] != '\0' ? 1 : 0);
        copy[head] = '\0';
        char *slash = strchr(copy, '/');
        *slash = '\0';
        status = family_find(generator, copy, &family, error);
        if (status == ATTUNE_OK) {
            status = template_find(family, slash + 1, &of, error);
        }
        if (status == ATTUNE_OK && problem != NULL) {
            status = refuse_other_family(problem, family->name, error);
        }
    } else if (problem == NULL || target == NULL) {
        status =
            error_set(error, ATTUNE_INVALID, "'%s' does not begin with family/template, and no problem is given", text);
    } else {
        status = candidate_default(generator, problem, target, &fallback, error);
        if (status == ATTUNE_OK) {
            status = family_find(generator, fallback.family, &family, error);
        }
        if (status == ATTUNE_OK) {
            status = template_find(family, fallback.template_name, &of, error);
        }
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    point.of = of;
    struct call chosen = {generator, family, of, problem, target, NULL, error};
    generator->importing = family;
    status = parse_words(words, family, of, named ? NULL : &chosen, &point, seen, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (refuse_missing(of, family, seen, NULL) != ATTUNE_OK) {
        struct point base;
        struct call call = {generator, family, of, problem, target, &base, error};
        if (problem == NULL || target == NULL) {
            return refuse_missing(of, family, seen, error);
        }
        generator->importing = family;
        status = sandbox_protect(&generator->sandbox, default_of_template, &call, error);
        for (int i = 0; i < of->parameter_count && status == ATTUNE_OK; i++) {
            point.index[i] = seen[i] ? point.index[i] : base.index[i];
        }
    }
    if (status == ATTUNE_OK) {
        candidate_of_point(family, &point, candidate);
    }
    return status;
}
