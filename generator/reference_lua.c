/* reference_lua.c - a user family's own tensors, inputs, reference and operation count, as Lua functions of its file.
 */
#include "generator/generator_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TENSORS_MAX = 32, REFERENCE_BUDGET = 25 /* times the instruction limit: these loop over elements */ };

struct tensor_call {
    struct call call;
    struct tensor_spec specs[TENSORS_MAX];
    int count;
    int tensor;
    int kind;
    uint64_t random;
    double *values;
    double *const *tensors;
    double *const *tolerance;
    double operations;
};

bool generator_has_reference(struct generator *generator, const char *name)
{
    struct family *family;
    return family_find(generator, name, &family, NULL) == ATTUNE_OK && family->reference != LUA_NOREF &&
           family->inputs != LUA_NOREF && family->tensors != LUA_NOREF;
}

/* ---- tensors(p) ---- */

static void read_spec(lua_State *L, const struct family *family, int index, struct tensor_spec *spec)
{
    const char *const keys[] = {"name", "dtype"};
    char *const texts[] = {spec->name, spec->dtype};
    if (lua_geti(L, -1, index + 1) != LUA_TTABLE) {
        sandbox_raise(L, ATTUNE_INVALID,
                      "templates/%s: tensors(): entry %d must be {name=, dtype=, output=, elements=}", family->file,
                      index + 1);
    }
    for (int i = 0; i < 2; i++) {
        size_t length = 0;
        lua_getfield(L, -1, keys[i]);
        const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : NULL;
        if (length == 0 || length >= FIELD_NAME_BYTES) {
            sandbox_raise(L, ATTUNE_INVALID, "templates/%s: tensors(): entry %d: %s must be a text of 1 to %d bytes",
                          family->file, index + 1, keys[i], FIELD_NAME_BYTES - 1);
        }
        memcpy(texts[i], text, length + 1);
        lua_pop(L, 1);
    }
    int whole = 0;
    lua_getfield(L, -1, "output");
    spec->output = lua_toboolean(L, -1);
    lua_getfield(L, -2, "elements");
    spec->elements = lua_tointegerx(L, -1, &whole);
    if (!whole || spec->elements < 0) {
        sandbox_raise(L, ATTUNE_INVALID, "templates/%s: tensors(): %s: elements must be an integer from 0",
                      family->file, spec->name);
    }
    lua_pop(L, 3);
}

static int list_tensors(lua_State *L)
{
    struct tensor_call *call = lua_touserdata(L, 1);
    const struct family *family = call->call.family;
    lua_rawgeti(L, LUA_REGISTRYINDEX, family->tensors);
    push_problem(L, call->call.generator, call->call.problem);
    lua_call(L, 1, 1);
    lua_Integer count = lua_type(L, -1) == LUA_TTABLE ? luaL_len(L, -1) : -1;
    if (count < 1 || count > TENSORS_MAX) {
        sandbox_raise(L, ATTUNE_INVALID, "templates/%s: tensors() must return a list of 1 to %d tensors", family->file,
                      TENSORS_MAX);
    }
    for (call->count = 0; call->count < (int)count; call->count++) {
        read_spec(L, family, call->count, &call->specs[call->count]);
    }
    return 0;
}

static attune_status begin_call(struct tensor_call *call, struct generator *generator, const struct problem *problem,
                                struct error *error)
{
    struct family *family;
    memset(call, 0, sizeof *call);
    attune_status status = family_find(generator, problem->schema->family, &family, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (family->tensors == LUA_NOREF) {
        return error_set(error, ATTUNE_UNSUPPORTED, "templates/%s: the family %s has no tensors() function",
                         family->file, family->name);
    }
    call->call = (struct call){generator, family, NULL, problem, NULL, NULL, error};
    generator->importing = family;
    return sandbox_protect(&generator->sandbox, list_tensors, call, error);
}

attune_status generator_tensors(struct generator *generator, const struct problem *problem, struct tensor_spec *specs,
                                int capacity, int *count, struct error *error)
{
    struct tensor_call call;
    *count = 0;
    attune_status status = begin_call(&call, generator, problem, error);
    if (status == ATTUNE_OK && call.count > capacity) {
        status = error_set(error, ATTUNE_INVALID, "family %s has %d tensors, the caller takes %d",
                           problem->schema->family, call.count, capacity);
    }
    if (status == ATTUNE_OK) {
        memcpy(specs, call.specs, (size_t)call.count * sizeof *specs);
        *count = call.count;
    }
    return status;
}

/* ---- inputs(p, name, kind, random) ---- */

/* splitmix64 (Steele, Lea, Flood 2014) to (0, 1] */
static double next_uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return ((double)(z >> 11) + 1.0) * 0x1p-53;
}

static int random_normal(lua_State *L)
{
    struct tensor_call *call = lua_touserdata(L, lua_upvalueindex(1));
    double radius = sqrt(-2.0 * log(next_uniform(&call->random)));
    lua_pushnumber(L, radius * cos(6.283185307179586 * next_uniform(&call->random)));
    return 1;
}

/* the list on top into `values`; what() names it in messages */
static void read_numbers(lua_State *L, const struct family *family, const char *what, const char *name,
                         int64_t elements, double *values)
{
    lua_Integer length = lua_type(L, -1) == LUA_TTABLE ? luaL_len(L, -1) : -1;
    if (length != elements) {
        sandbox_raise(L, ATTUNE_INVALID, "templates/%s: %s: %s must be a list of %lld numbers, it is a %s of %lld",
                      family->file, what, name, (long long)elements, luaL_typename(L, -1), (long long)length);
    }
    for (int64_t i = 0; i < elements; i++) {
        int type = lua_geti(L, -1, i + 1);
        if (type != LUA_TNUMBER) {
            sandbox_raise(L, ATTUNE_INVALID, "templates/%s: %s: %s[%lld] is a %s value, not a number", family->file,
                          what, name, (long long)i + 1, lua_typename(L, type));
        }
        values[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
}

static int make_inputs(lua_State *L)
{
    static const char *const kinds[] = {"normal", "peaked", "structured"};
    struct tensor_call *call = lua_touserdata(L, 1);
    const struct tensor_spec *spec = &call->specs[call->tensor];
    sandbox_refill(L, REFERENCE_BUDGET);
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->call.family->inputs);
    push_problem(L, call->call.generator, call->call.problem);
    lua_pushstring(L, spec->name);
    lua_pushstring(L, kinds[call->kind]);
    lua_pushlightuserdata(L, call);
    lua_pushcclosure(L, random_normal, 1);
    lua_call(L, 4, 1);
    read_numbers(L, call->call.family, "inputs()", spec->name, spec->elements, call->values);
    return 0;
}

attune_status generator_inputs(struct generator *generator, const struct problem *problem, int tensor, int kind,
                               uint64_t seed, double *values, struct error *error)
{
    struct tensor_call call;
    attune_status status = begin_call(&call, generator, problem, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (call.call.family->inputs == LUA_NOREF) {
        return error_set(error, ATTUNE_UNSUPPORTED, "templates/%s: the family %s has no inputs() function",
                         call.call.family->file, call.call.family->name);
    }
    if (tensor < 0 || tensor >= call.count || kind < 0 || kind > 2) {
        return error_set(error, ATTUNE_INVALID, "tensor %d (0 to %d) or kind %d (0 to 2) is out of range", tensor,
                         call.count - 1, kind);
    }
    call.tensor = tensor;
    call.kind = kind;
    call.values = values;
    call.random = seed * 0x9e3779b97f4a7c15u + (uint64_t)tensor * 0xd1342543de82ef95u + (uint64_t)kind;
    return sandbox_protect(&generator->sandbox, make_inputs, &call, error);
}

/* ---- reference(p, t) ---- */

static void push_tensors(lua_State *L, const struct tensor_call *call)
{
    lua_createtable(L, 0, call->count);
    for (int i = 0; i < call->count; i++) {
        const struct tensor_spec *spec = &call->specs[i];
        if (spec->output) {
            continue;
        }
        if (spec->elements > INT32_MAX) {
            sandbox_raise(L, ATTUNE_UNSUPPORTED, "%s has %lld elements, too many for a reference in Lua", spec->name,
                          (long long)spec->elements);
        }
        lua_createtable(L, (int)spec->elements, 0);
        for (int64_t j = 0; j < spec->elements; j++) {
            lua_pushnumber(L, call->tensors[i][j]);
            lua_rawseti(L, -2, j + 1);
        }
        lua_setfield(L, -2, spec->name);
    }
}

static void read_tolerance(lua_State *L, const struct family *family, const struct tensor_spec *spec, double *tolerance)
{
    if (lua_type(L, -1) == LUA_TNUMBER) {
        for (int64_t i = 0; i < spec->elements; i++) {
            tolerance[i] = lua_tonumber(L, -1);
        }
    } else {
        read_numbers(L, family, "reference(): tolerance", spec->name, spec->elements, tolerance);
    }
    for (int64_t i = 0; i < spec->elements; i++) {
        if (!(tolerance[i] >= 0 && isfinite(tolerance[i]))) {
            sandbox_raise(L, ATTUNE_INVALID,
                          "templates/%s: reference(): tolerance of %s[%lld] is %g; it must be finite, from 0",
                          family->file, spec->name, (long long)i + 1, tolerance[i]);
        }
    }
}

static int make_reference(lua_State *L)
{
    struct tensor_call *call = lua_touserdata(L, 1);
    const struct family *family = call->call.family;
    sandbox_refill(L, REFERENCE_BUDGET);
    lua_rawgeti(L, LUA_REGISTRYINDEX, family->reference);
    push_problem(L, call->call.generator, call->call.problem);
    push_tensors(L, call);
    lua_call(L, 2, 2);
    if (lua_type(L, -2) != LUA_TTABLE || lua_type(L, -1) != LUA_TTABLE) {
        sandbox_raise(L, ATTUNE_INVALID,
                      "templates/%s: reference() must return two tables: outputs and their tolerances", family->file);
    }
    for (int i = 0; i < call->count; i++) {
        const struct tensor_spec *spec = &call->specs[i];
        if (!spec->output) {
            continue;
        }
        lua_getfield(L, -2, spec->name);
        read_numbers(L, family, "reference()", spec->name, spec->elements, call->tensors[i]);
        lua_pop(L, 1);
        lua_getfield(L, -1, spec->name);
        read_tolerance(L, family, spec, call->tolerance[i]);
        lua_pop(L, 1);
    }
    return 0;
}

attune_status generator_reference(struct generator *generator, const struct problem *problem, double *const *tensors,
                                  double *const *tolerance, struct error *error)
{
    struct tensor_call call;
    attune_status status = begin_call(&call, generator, problem, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (call.call.family->reference == LUA_NOREF) {
        return error_set(error, ATTUNE_UNSUPPORTED, "templates/%s: the family %s has no reference() function",
                         call.call.family->file, call.call.family->name);
    }
    call.tensors = tensors;
    call.tolerance = tolerance;
    return sandbox_protect(&generator->sandbox, make_reference, &call, error);
}

/* ---- operations(p) ---- */

static int count_operations(lua_State *L)
{
    struct tensor_call *call = lua_touserdata(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->call.family->operations);
    push_problem(L, call->call.generator, call->call.problem);
    lua_call(L, 1, 1);
    call->operations = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
    return 0;
}

double generator_operations(struct generator *generator, const struct problem *problem)
{
    struct family *family;
    struct tensor_call call;
    if (family_find(generator, problem->schema->family, &family, NULL) != ATTUNE_OK ||
        family->operations == LUA_NOREF) {
        return 0;
    }
    memset(&call, 0, sizeof call);
    call.call = (struct call){generator, family, NULL, problem, NULL, NULL, NULL};
    generator->importing = family;
    if (sandbox_protect(&generator->sandbox, count_operations, &call, NULL) != ATTUNE_OK ||
        !isfinite(call.operations)) {
        return 0;
    }
    return call.operations;
}
