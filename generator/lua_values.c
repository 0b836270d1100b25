/* lua_values.c - problems, targets and candidates as Lua sees them; Lua tables as JSON. */
#include "generator/generator_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- c: one userdata per generator, showing generator->point ---- */

static int candidate_read(lua_State *L)
{
    struct generator *generator = lua_touserdata(L, lua_upvalueindex(1));
    struct point *point = &generator->point;
    lua_rawgeti(L, LUA_REGISTRYINDEX, point->of->names);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, -2) != LUA_TNUMBER) {
        return luaL_error(L, "template '%s' has no parameter '%s'", point->of->name,
                          lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2));
    }
    int index = (int)lua_tointeger(L, -1);
    const struct value *value = &point->of->parameters[index].values[point->index[index]];
    if (index > point->deepest_read) {
        point->deepest_read = index;
    }
    if (value->integer) {
        lua_pushinteger(L, value->number);
    } else {
        lua_pushstring(L, value->text);
    }
    return 1;
}

static int candidate_write(lua_State *L)
{
    return luaL_error(L, "a candidate is read-only; derive() may return values of its own");
}

void values_open(lua_State *L, struct generator *generator)
{
    lua_newuserdatauv(L, 0, 0);
    lua_createtable(L, 0, 2);
    lua_pushlightuserdata(L, generator);
    lua_pushcclosure(L, candidate_read, 1);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, candidate_write);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    generator->candidate = luaL_ref(L, LUA_REGISTRYINDEX);
    generator->problem_table = LUA_NOREF;
}

void push_candidate(lua_State *L, struct generator *generator)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, generator->candidate);
}

/* ---- p ---- */

static void push_field(lua_State *L, const struct field *field, union field_value value)
{
    switch (field->kind) {
    case FIELD_INTEGER:
        lua_pushinteger(L, value.integer);
        break;
    case FIELD_REAL:
        lua_pushnumber(L, value.real);
        break;
    case FIELD_CHOICE:
        if (value.integer < 0 || value.integer >= field->choice_count) {
            sandbox_raise(L, ATTUNE_INTERNAL, "problem field %s is not set: problem_check comes first", field->name);
        }
        lua_pushstring(L, field->choices[value.integer]);
        break;
    }
}

static bool same_problem(const struct problem *a, const struct problem *b)
{
    return a->schema == b->schema &&
           memcmp(a->values, b->values, (size_t)a->schema->field_count * sizeof a->values[0]) == 0;
}

void push_problem(lua_State *L, struct generator *generator, const struct problem *problem)
{
    const struct schema *schema = problem->schema;
    if (generator->problem_table != LUA_NOREF && same_problem(&generator->problem, problem)) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, generator->problem_table);
        return;
    }
    lua_createtable(L, 0, schema->field_count + schema->ratio_count);
    for (int i = 0; i < schema->field_count; i++) {
        push_field(L, &schema->fields[i], problem->values[i]);
        lua_setfield(L, -2, schema->fields[i].name);
    }
    for (int i = 0; i < schema->ratio_count; i++) {
        const struct schema_ratio *ratio = &schema->ratios[i];
        int64_t denominator = problem->values[ratio->denominator].integer;
        lua_pushinteger(L, denominator > 0 ? problem->values[ratio->numerator].integer / denominator : 1);
        lua_setfield(L, -2, ratio->name);
    }
    sandbox_freeze(L, "the problem has no field");
    int old = generator->problem_table;
    generator->problem_table = LUA_NOREF;
    luaL_unref(L, LUA_REGISTRYINDEX, old);
    lua_pushvalue(L, -1);
    generator->problem_table = luaL_ref(L, LUA_REGISTRYINDEX);
    generator->problem = *problem;
}

/* ---- t ---- */

/* keys_of(t): the texts among a table's keys, in no order. Facts are checked with it; templates have nothing like it,
 * since what they make must not depend on an order */
static int keys_of(lua_State *L)
{
    lua_Integer count = 0;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_newtable(L);
    lua_pushnil(L);
    while (lua_next(L, 1) != 0) {
        lua_pop(L, 1);
        if (lua_type(L, -1) == LUA_TSTRING) {
            lua_pushvalue(L, -1);
            lua_rawseti(L, 2, ++count);
        }
    }
    return 1;
}

/* load_own(name): what generator/lua/NAME.lua returns; each file gets load_own itself and keys_of as its arguments */
static int load_own(lua_State *L)
{
    char name[128];
    snprintf(name, sizeof name, "%s.lua", luaL_checkstring(L, 1));
    const struct embedded_file *file = attune_embedded_lua;
    while (file->name != NULL && strcmp(file->name, name) != 0) {
        file++;
    }
    if (file->name == NULL) {
        sandbox_raise(L, ATTUNE_INTERNAL, "generator/lua/%s is not embedded", name);
    }
    char path[160];
    snprintf(path, sizeof path, "generator/lua/%s", name);
    sandbox_load(L, (const char *)file->bytes, file->length, path);
    lua_pushcfunction(L, load_own);
    lua_pushcfunction(L, keys_of);
    lua_call(L, 2, 1);
    return 1;
}

void push_own_lua(lua_State *L, const char *name)
{
    lua_pushcfunction(L, load_own);
    lua_pushstring(L, name);
    lua_call(L, 1, 1);
}

void values_load_targets(lua_State *L, struct generator *generator)
{
    push_own_lua(L, "targets");
    lua_getfield(L, -1, "find");
    generator->targets_find = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_getfield(L, -1, "describe");
    generator->targets_describe = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_getfield(L, -1, "names");
    int count = (int)luaL_len(L, -1);
    generator->target_names = calloc((size_t)count + 1, sizeof *generator->target_names);
    if (generator->target_names == NULL) {
        sandbox_raise(L, ATTUNE_NO_MEMORY, "no memory for the target names");
    }
    for (int i = 0; i < count; i++) {
        size_t length = 0;
        lua_rawgeti(L, -1, i + 1);
        const char *name = lua_tolstring(L, -1, &length);
        if (name == NULL || length >= TARGET_TEXT_BYTES) {
            sandbox_raise(L, ATTUNE_INTERNAL, "generator/lua/targets.lua: names[%d] is not a target name", i + 1);
        }
        memcpy(generator->target_names[generator->target_count++], name, length + 1);
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
    lua_createtable(L, 0, count);
    generator->facts = luaL_ref(L, LUA_REGISTRYINDEX);
}

void push_target(lua_State *L, struct generator *generator, const struct target *target)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, generator->facts);
    if (lua_getfield(L, -1, target->processor) == LUA_TTABLE) {
        lua_remove(L, -2);
        return;
    }
    lua_pop(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, generator->targets_find);
    lua_pushstring(L, target->processor);
    lua_call(L, 1, 1);
    if (lua_type(L, -1) != LUA_TTABLE) {
        char list[1024] = "";
        for (int i = 0; i < generator->target_count && strlen(list) + TARGET_TEXT_BYTES + 2 < sizeof list; i++) {
            strcat(strcat(list, i > 0 ? ", " : ""), generator->target_names[i]);
        }
        sandbox_raise(L, ATTUNE_UNSUPPORTED, "target '%s' has no facts; known are %s, and host-X for each of these",
                      target->processor, list);
    }
    sandbox_freeze(L, NULL);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, target->processor);
    lua_remove(L, -2);
}

void push_target_description(lua_State *L, struct generator *generator, const struct target *target)
{
    push_target(L, generator, target); /* raises for one without facts */
    lua_pop(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, generator->targets_describe);
    lua_pushstring(L, target->processor);
    lua_call(L, 1, 1);
}

/* ---- JSON ---- */

/* JSON has no references: a table that is held in many places is written out in each of them, and twelve levels of ten
 * are 10^12 values. They are counted, since neither Lua's memory nor its instructions see this work. */
static json_t *to_json(lua_State *L, int index, int depth, int *left);

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static json_t *object_to_json(lua_State *L, int depth, int *left)
{
    int table = lua_gettop(L);
    size_t count = 0, used = 0;
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_pop(L, 1)) {
        count++;
    }
    if (count > (size_t)*left) {
        return NULL;
    }
    const char **keys = calloc(count + 1, sizeof *keys);
    json_t *object = json_object();
    bool good = keys != NULL && object != NULL;
    for (lua_pushnil(L); good && lua_next(L, table) != 0; lua_pop(L, 1)) {
        good = lua_type(L, -2) == LUA_TSTRING && strlen(lua_tostring(L, -2)) == lua_rawlen(L, -2);
        keys[used++] = good ? lua_tostring(L, -2) : "";
    }
    lua_settop(L, table);
    if (good) {
        qsort(keys, used, sizeof *keys, compare_keys);
    }
    for (size_t i = 0; good && i < used; i++) { /* quadratic without getfield, which may raise: rows are small */
        json_t *value = NULL;
        for (lua_pushnil(L); value == NULL && lua_next(L, table) != 0; lua_pop(L, 1)) {
            if (lua_tostring(L, -2) == keys[i]) {
                value = to_json(L, -1, depth + 1, left);
                good = value != NULL && json_object_set_new(object, keys[i], value) == 0;
                if (!good) {
                    break;
                }
            }
        }
        lua_settop(L, table);
    }
    free(keys);
    if (!good) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *array_to_json(lua_State *L, int depth, int *left)
{
    int table = lua_gettop(L);
    json_t *array = json_array();
    lua_Unsigned count = lua_rawlen(L, table);
    for (lua_Unsigned i = 1; array != NULL && i <= count; i++) {
        lua_rawgeti(L, table, (lua_Integer)i);
        json_t *value = to_json(L, -1, depth + 1, left);
        lua_settop(L, table);
        if (value == NULL || json_array_append_new(array, value) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *table_to_json(lua_State *L, int index, int depth, int *left)
{
    int top = lua_gettop(L);
    if (depth > JSON_DEPTH_MAX || !lua_checkstack(L, 12)) {
        return NULL;
    }
    lua_pushvalue(L, index);
    sandbox_thaw(L, top + 1);
    bool list = lua_rawlen(L, top + 1) > 0;
    if (!list) {
        lua_pushnil(L);
        list = lua_next(L, top + 1) == 0; /* an empty table is an empty list */
        lua_settop(L, top + 1);
    }
    json_t *json = list ? array_to_json(L, depth, left) : object_to_json(L, depth, left);
    lua_settop(L, top);
    return json;
}

static json_t *to_json(lua_State *L, int index, int depth, int *left)
{
    lua_Number number;
    size_t length;
    const char *text;
    if (--*left < 0) {
        return NULL;
    }
    switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
        return json_boolean(lua_toboolean(L, index));
    case LUA_TSTRING:
        text = lua_tolstring(L, index, &length);
        return json_stringn(text, length); /* with its NULs: who reads it refuses them */
    case LUA_TNUMBER:
        if (lua_isinteger(L, index)) {
            return json_integer(lua_tointeger(L, index));
        }
        number = lua_tonumber(L, index);
        if (number == floor(number) && fabs(number) < 9007199254740992.0) {
            return json_integer((json_int_t)number);
        }
        return json_real(number);
    case LUA_TTABLE:
        return table_to_json(L, index, depth, left);
    default:
        return NULL;
    }
}

json_t *value_to_json(lua_State *L, int index)
{
    int left = VALUE_JSON_MAX;
    return to_json(L, lua_absindex(L, index), 0, &left);
}

static void push_nested(lua_State *L, const json_t *value, int depth)
{
    size_t index;
    const char *key;
    json_t *item;
    if (depth > JSON_DEPTH_MAX) {
        sandbox_raise(L, ATTUNE_INVALID, "the page's data is nested deeper than %d", JSON_DEPTH_MAX);
    }
    luaL_checkstack(L, 4, "the page's data");
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        lua_createtable(L, 0, (int)json_object_size(value));
        json_object_foreach((json_t *)value, key, item)
        {
            push_nested(L, item, depth + 1);
            lua_setfield(L, -2, key);
        }
        break;
    case JSON_ARRAY:
        lua_createtable(L, (int)json_array_size(value), 0);
        json_array_foreach(value, index, item)
        {
            push_nested(L, item, depth + 1);
            lua_rawseti(L, -2, (lua_Integer)index + 1);
        }
        break;
    case JSON_STRING:
        lua_pushlstring(L, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        lua_pushinteger(L, json_integer_value(value));
        break;
    case JSON_REAL:
        lua_pushnumber(L, json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        lua_pushboolean(L, json_is_true(value));
        break;
    case JSON_NULL:
        lua_pushnil(L);
        break;
    }
}

void push_json(lua_State *L, const json_t *value)
{
    push_nested(L, value, 0);
}
