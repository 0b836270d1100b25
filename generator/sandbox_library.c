/* sandbox_library.c - the functions a template may call.
 *
 * Of Lua's own: those that end in time proportional to their input and show no address. Patterns can backtrack without
 * end, so contains, split and replace work on plain text; rep and format are bounded; insert, remove and sort look at
 * the length first. Coercion of strings in arithmetic is off: "1" + 1 is an error.
 */
#include "generator/sandbox.h"

#include <lualib.h>
#include <string.h>

enum { TABLE_LENGTH_MAX = 1 << 22 };

/* ---- basic ---- */

static int plain_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    switch (lua_type(L, 1)) {
    case LUA_TNIL:
    case LUA_TBOOLEAN:
    case LUA_TNUMBER:
    case LUA_TSTRING:
        luaL_tolstring(L, 1, NULL);
        return 1;
    default:
        return luaL_error(L, "tostring: a %s has no text that is the same in every run", luaL_typename(L, 1));
    }
}

/* ---- strings ---- */

static int bounded_rep(lua_State *L)
{
    size_t length, separator_length;
    const char *text = luaL_checklstring(L, 1, &length);
    lua_Integer count = luaL_checkinteger(L, 2);
    const char *separator = luaL_optlstring(L, 3, "", &separator_length);
    if (count <= 0 || length + separator_length == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if ((lua_Unsigned)count > SANDBOX_TEXT_MAX / (length + separator_length)) {
        return luaL_error(L, "string.rep: the result has more than %d bytes", SANDBOX_TEXT_MAX);
    }
    luaL_Buffer result;
    luaL_buffinit(L, &result);
    for (lua_Integer i = 0; i < count; i++) {
        luaL_addlstring(&result, text, length);
        if (i + 1 < count) {
            luaL_addlstring(&result, separator, separator_length);
        }
    }
    luaL_pushresult(&result);
    return 1;
}

static int checked_format(lua_State *L)
{
    size_t length;
    const char *format = luaL_checklstring(L, 1, &length);
    for (const char *at = format; at < format + length; at++) {
        if (*at != '%') {
            continue;
        }
        at++;
        while (at < format + length && strchr("-+ #0123456789.", *at) != NULL && *at != '\0') {
            at++;
        }
        if (at < format + length && *at == 'p') {
            return luaL_error(L, "string.format: %%p would show an address");
        }
    }
    int count = lua_gettop(L);
    for (int i = 2; i <= count; i++) {
        int type = lua_type(L, i);
        if (type != LUA_TNUMBER && type != LUA_TSTRING && type != LUA_TBOOLEAN) {
            return luaL_error(L, "string.format: argument %d is a %s; only numbers, strings and booleans are formatted",
                              i, luaL_typename(L, i));
        }
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, count, 1);
    return 1;
}

static int plain_contains(lua_State *L)
{
    size_t length, part_length;
    const char *text = luaL_checklstring(L, 1, &length);
    const char *part = luaL_checklstring(L, 2, &part_length);
    sandbox_charge(L, length);
    lua_pushboolean(L, part_length == 0 || memmem(text, length, part, part_length) != NULL);
    return 1;
}

static int plain_starts(lua_State *L)
{
    size_t length, part_length;
    const char *text = luaL_checklstring(L, 1, &length);
    const char *part = luaL_checklstring(L, 2, &part_length);
    sandbox_charge(L, part_length);
    lua_pushboolean(L, part_length <= length && memcmp(text, part, part_length) == 0);
    return 1;
}

static int plain_split(lua_State *L)
{
    size_t length, separator_length;
    const char *text = luaL_checklstring(L, 1, &length);
    const char *separator = luaL_checklstring(L, 2, &separator_length);
    const char *end = text + length;
    luaL_argcheck(L, separator_length > 0, 2, "the separator is empty");
    lua_createtable(L, 4, 0);
    for (lua_Integer i = 1;; i++) {
        const char *found = memmem(text, (size_t)(end - text), separator, separator_length);
        lua_pushlstring(L, text, (size_t)((found != NULL ? found : end) - text));
        lua_rawseti(L, -2, i);
        if (found == NULL) {
            return 1;
        }
        text = found + separator_length;
    }
}

static int plain_replace(lua_State *L)
{
    size_t length, from_length, to_length;
    const char *text = luaL_checklstring(L, 1, &length);
    const char *from = luaL_checklstring(L, 2, &from_length);
    const char *to = luaL_checklstring(L, 3, &to_length);
    const char *end = text + length;
    luaL_argcheck(L, from_length > 0, 2, "the text to replace is empty");
    luaL_Buffer result;
    luaL_buffinit(L, &result);
    for (;;) {
        const char *found = memmem(text, (size_t)(end - text), from, from_length);
        luaL_addlstring(&result, text, (size_t)((found != NULL ? found : end) - text));
        if (found == NULL) {
            break;
        }
        luaL_addlstring(&result, to, to_length);
        text = found + from_length;
    }
    luaL_pushresult(&result);
    return 1;
}

/* ---- tables ---- */

/* upvalue: Lua's own function, which moves up to the whole list: each item counts as an instruction. A length found by
 * probing can be astronomically larger than the table. */
static int bounded_table_function(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer length = luaL_len(L, 1);
    if (length < 0 || length > TABLE_LENGTH_MAX) {
        return luaL_error(L, "the table is not a list of at most %d items", TABLE_LENGTH_MAX);
    }
    sandbox_charge(L, (size_t)length * 64);
    int count = lua_gettop(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, count, LUA_MULTRET);
    return lua_gettop(L);
}

/* ---- assembly ---- */

/* copies the named functions from the table at `from` into the one at `to` */
static void copy_names(lua_State *L, int from, int to, const char *const *names)
{
    for (; *names != NULL; names++) {
        lua_getfield(L, from, *names);
        lua_setfield(L, to, *names);
    }
}

static void wrap(lua_State *L, int from, int to, const char *name, lua_CFunction function)
{
    lua_getfield(L, from, name);
    lua_pushcclosure(L, function, 1);
    lua_setfield(L, to, name);
}

static void open_strings(lua_State *L, int globals)
{
    static const char *const kept[] = {"byte", "char", "len", "lower", "upper", "reverse", "sub", NULL};
    static const luaL_Reg own[] = {{"rep", bounded_rep},   {"contains", plain_contains}, {"starts_with", plain_starts},
                                   {"split", plain_split}, {"replace", plain_replace},   {NULL, NULL}};
    lua_pushcfunction(L, luaopen_string);
    lua_call(L, 0, 1);
    int from = lua_gettop(L);
    lua_createtable(L, 0, 16);
    int to = lua_gettop(L);
    copy_names(L, from, to, kept);
    luaL_setfuncs(L, own, 0);
    wrap(L, from, to, "format", checked_format);
    /* ("x"):rep(3) finds the same functions; Lua's own metatable also had arithmetic on strings */
    lua_pushliteral(L, "");
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, to);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
    sandbox_freeze(L, "string has no function");
    lua_setfield(L, globals, "string");
    lua_pop(L, 1);
}

static void open_tables(lua_State *L, int globals)
{
    static const char *const kept[] = {"concat", "unpack", NULL};
    lua_pushcfunction(L, luaopen_table);
    lua_call(L, 0, 1);
    int from = lua_gettop(L);
    lua_createtable(L, 0, 8);
    int to = lua_gettop(L);
    copy_names(L, from, to, kept);
    wrap(L, from, to, "insert", bounded_table_function);
    wrap(L, from, to, "remove", bounded_table_function);
    wrap(L, from, to, "sort", bounded_table_function);
    sandbox_freeze(L, "table has no function");
    lua_setfield(L, globals, "table");
    lua_pop(L, 1);
}

static void open_numbers(lua_State *L, int globals)
{
    static const char *const kept[] = {"abs",  "ceil",      "cos",        "exp",        "floor", "fmod", "log",
                                       "max",  "min",       "modf",       "sin",        "sqrt",  "tan",  "pi",
                                       "huge", "tointeger", "maxinteger", "mininteger", "type",  "ult",  NULL};
    lua_pushcfunction(L, luaopen_math);
    lua_call(L, 0, 1);
    int from = lua_gettop(L);
    lua_createtable(L, 0, 24);
    copy_names(L, from, lua_gettop(L), kept);
    sandbox_freeze(L, "math has no function");
    lua_setfield(L, globals, "math");
    lua_pop(L, 1);
}

void sandbox_open_library(lua_State *L)
{
    static const char *const kept[] = {"assert", "error",    "ipairs", "rawequal", "rawlen",
                                       "select", "tonumber", "type",   NULL};
    int globals = lua_gettop(L);
    lua_pushcfunction(L, luaopen_base); /* fills the state's real global table, which no chunk can reach */
    lua_call(L, 0, 1);
    copy_names(L, lua_gettop(L), globals, kept);
    lua_pop(L, 1);
    lua_pushcfunction(L, plain_tostring);
    lua_setfield(L, globals, "tostring");
    open_strings(L, globals);
    open_tables(L, globals);
    open_numbers(L, globals);
}
