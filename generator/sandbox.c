/* sandbox.c - the state, its limits and its environment. The library functions are in sandbox_library.c. */
#include "generator/sandbox.h"

#include "base/locale.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HOOK_INTERVAL = 1000, FREEZE_DEPTH_MAX = 16, BYTES_PER_INSTRUCTION = 64 };
/* what a call may take: an ordinary instruction takes a twentieth of this, sanitized C a fifth */
static const double seconds_at_least = 2, seconds_per_instruction = 200e-9;

struct sandbox *sandbox_of(lua_State *L)
{
    return *(struct sandbox **)lua_getextraspace(L);
}

/* where the innermost Lua function stands; "" outside of any. Allocates nothing, so that the allocator may ask */
static void position_now(lua_State *L, char *position, size_t bytes)
{
    lua_Debug where;
    position[0] = '\0';
    for (int level = 0; L != NULL && position[0] == '\0' && lua_getstack(L, level, &where); level++) {
        lua_getinfo(L, "Sl", &where);
        if (where.currentline > 0) {
            snprintf(position, bytes, "%s:%d: ", where.short_src, where.currentline);
        }
    }
}

static void *limited_allocate(void *data, void *block, size_t old_bytes, size_t new_bytes)
{
    struct sandbox *sandbox = data;
    if (block == NULL) {
        old_bytes = 0; /* Lua passes the kind of object here */
    }
    if (new_bytes == 0) {
        free(block);
        sandbox->memory_used -= old_bytes;
        return NULL;
    }
    if (new_bytes > old_bytes && new_bytes - old_bytes > sandbox->memory_limit - sandbox->memory_used) {
        position_now(sandbox->lua, sandbox->refused_at, sizeof sandbox->refused_at); /* Lua tells no handler */
        return NULL;
    }
    void *fresh = realloc(block, new_bytes);
    if (fresh != NULL) {
        sandbox->memory_used = sandbox->memory_used - old_bytes + new_bytes;
        if (new_bytes > old_bytes) { /* one instruction may build a text of megabytes: it counts as many */
            sandbox->instructions_left -= (int64_t)((new_bytes - old_bytes) / BYTES_PER_INSTRUCTION);
        }
    }
    return fresh;
}

/* true once the call's instructions took longer than so many can; the clock starts at the call's first count */
static bool cpu_spent(struct sandbox *sandbox)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    if (sandbox->cpu_limit == 0) {
        sandbox->cpu_limit = seconds + seconds_at_least + seconds_per_instruction * (double)sandbox->budget;
    }
    return seconds > sandbox->cpu_limit;
}

static void count_instructions(lua_State *L, lua_Debug *where)
{
    struct sandbox *sandbox = sandbox_of(L);
    sandbox->instructions_left -= HOOK_INTERVAL;
    bool slow = sandbox->instructions_left > 0 && cpu_spent(sandbox);
    if (sandbox->instructions_left > 0 && !slow) {
        return;
    }
    sandbox->raised = ATTUNE_TIMEOUT;
    lua_getinfo(L, "Sl", where);
    if (slow) {
        lua_pushfstring(L, "%s:%d: still running after the time of %I instructions: are long texts compared in a loop?",
                        where->short_src, where->currentline, (LUAI_UACINT)sandbox->budget);
        lua_error(L);
    }
    lua_pushfstring(L, "%s:%d: still running after %I instructions: an endless loop?", where->short_src,
                    where->currentline, (LUAI_UACINT)sandbox->budget);
    lua_error(L);
}

void sandbox_refill(lua_State *L, unsigned times)
{
    struct sandbox *sandbox = sandbox_of(L);
    sandbox->budget = sandbox->instruction_limit > INT64_MAX / times ? INT64_MAX : sandbox->instruction_limit * times;
    sandbox->instructions_left = (int64_t)sandbox->budget;
    sandbox->cpu_limit = 0;
}

void sandbox_charge(lua_State *L, size_t bytes)
{
    sandbox_of(L)->instructions_left -= (int64_t)(bytes / BYTES_PER_INSTRUCTION);
}

int sandbox_raise(lua_State *L, attune_status status, const char *format, ...)
{
    char text[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sandbox_of(L)->raised = status;
    lua_pushstring(L, text);
    return lua_error(L);
}

int sandbox_raise_error(lua_State *L, const struct error *error)
{
    return sandbox_raise(L, error->status, "%s", error->message);
}

void sandbox_load(lua_State *L, const char *bytes, size_t length, const char *name)
{
    char chunk[128];
    snprintf(chunk, sizeof chunk, "=%s", name);
    int outcome = luaL_loadbufferx(L, bytes, length, chunk, "t");
    if (outcome != LUA_OK) {
        const char *text = lua_tostring(L, -1);
        if (outcome != LUA_ERRMEM && text != NULL &&
            strncmp(text, name, strlen(name)) != 0) { /* bytecode, deep nesting: Lua names no file */
            lua_pushfstring(L, "%s: %s", name, text);
        }
        lua_error(L);
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, sandbox_of(L)->environment);
    lua_setupvalue(L, -2, 1);
}

/* ---- read-only faces ---- */

static int refuse_write(lua_State *L)
{
    return luaL_error(L, "this table is read-only (it belongs to the library, or is shared by import)");
}

static int refuse_global(lua_State *L)
{
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";
    return luaL_error(L, "assignment to the undeclared name '%s': write 'local %s'", name, name);
}

static int refuse_unknown_global(lua_State *L)
{
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";
    return luaL_error(L, "undefined name '%s'", name);
}

static int refuse_absent(lua_State *L)
{
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
    return luaL_error(L, "%s '%s'", lua_tostring(L, lua_upvalueindex(1)), name);
}

static int length_of_upvalue(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)lua_rawlen(L, lua_upvalueindex(1)));
    return 1;
}

/* replaces the plain table on top by an empty one whose metatable reads from it */
static void freeze_one(lua_State *L, const char *strict)
{
    if (strict != NULL) {
        lua_createtable(L, 0, 1);
        lua_pushstring(L, strict);
        lua_pushcclosure(L, refuse_absent, 1);
        lua_setfield(L, -2, "__index");
        lua_setmetatable(L, -2);
    }
    lua_createtable(L, 0, 0); /* table face */
    lua_createtable(L, 1, 4); /* table face meta */
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pushvalue(L, -3);
    lua_rawseti(L, -2, 1); /* for sandbox_thaw */
    lua_pushcfunction(L, refuse_write);
    lua_setfield(L, -2, "__newindex");
    lua_pushvalue(L, -3);
    lua_pushcclosure(L, length_of_upvalue, 1);
    lua_setfield(L, -2, "__len");
    lua_setmetatable(L, -2);
    lua_remove(L, -2);
}

static void freeze(lua_State *L, const char *strict, int depth)
{
    luaL_checkstack(L, 8, "nested too deeply");
    if (depth > FREEZE_DEPTH_MAX) {
        luaL_error(L, "a table is nested more than %d deep, or holds itself", FREEZE_DEPTH_MAX);
    }
    int table = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, table) != 0) {
        if (lua_type(L, -1) == LUA_TTABLE && !lua_getmetatable(L, -1)) {
            freeze(L, NULL, depth + 1);
            lua_pushvalue(L, -2); /* key value key */
            lua_insert(L, -2);
            lua_rawset(L, table); /* an existing key keeps its place: lua_next may go on */
        } else {
            lua_settop(L, table + 1); /* the key stays */
        }
    }
    freeze_one(L, strict);
}

void sandbox_freeze(lua_State *L, const char *strict)
{
    freeze(L, strict, 0);
}

void sandbox_thaw(lua_State *L, int index)
{
    if (lua_type(L, index) == LUA_TTABLE && lua_getmetatable(L, index)) {
        if (lua_rawgeti(L, -1, 1) == LUA_TTABLE) {
            lua_replace(L, index < 0 ? index - 2 : index);
            lua_pop(L, 1);
        } else {
            lua_pop(L, 2);
        }
    }
}

/* ---- life ---- */

static int prepare_state(lua_State *L)
{
    struct sandbox *sandbox = sandbox_of(L);
    lua_createtable(L, 0, 32);
    sandbox_open_library(L);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, refuse_unknown_global);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    sandbox->globals = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_createtable(L, 0, 0);
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse_global);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    sandbox->environment = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

attune_status sandbox_open(struct sandbox *sandbox, uint64_t instruction_limit, size_t memory_limit,
                           struct error *error)
{
    memset(sandbox, 0, sizeof *sandbox);
    sandbox->instruction_limit = instruction_limit != 0 ? instruction_limit : 200000000;
    sandbox->memory_limit = memory_limit != 0 ? memory_limit : (size_t)256 << 20;
    sandbox->lua = lua_newstate(limited_allocate, sandbox);
    if (sandbox->lua == NULL) {
        return error_set(error, ATTUNE_NO_MEMORY, "a Lua state does not fit in memory_limit = %zu bytes",
                         sandbox->memory_limit);
    }
    *(struct sandbox **)lua_getextraspace(sandbox->lua) = sandbox;
    lua_sethook(sandbox->lua, count_instructions, LUA_MASKCOUNT, HOOK_INTERVAL);
    return sandbox_protect(sandbox, prepare_state, NULL, error);
}

void sandbox_close(struct sandbox *sandbox)
{
    if (sandbox->lua != NULL) {
        lua_close(sandbox->lua);
        sandbox->lua = NULL;
    }
}

/* Every message of a Lua error begins with the file and line of the innermost Lua function: values that are no text get
 * one, and so do messages raised from C functions that C called */
static int describe_error(lua_State *L)
{
    char position[160] = "";
    const char *text = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : NULL;
    if (sandbox_of(L)->raised != ATTUNE_OK ||
        (text != NULL && (strncmp(text, "templates/", 10) == 0 || strncmp(text, "generator/lua/", 14) == 0))) {
        return 1;
    }
    position_now(L, position, sizeof position);
    if (text != NULL) {
        lua_pushfstring(L, "%s%s", position, text);
    } else {
        lua_pushfstring(L, "%serror() was given a %s value; give it a text", position, luaL_typename(L, 1));
    }
    return 1;
}

attune_status sandbox_protect(struct sandbox *sandbox, lua_CFunction function, void *data, struct error *error)
{
    lua_State *L = sandbox->lua;
    int top = lua_gettop(L);
    attune_status status = ATTUNE_OK;
    if (!lua_checkstack(L, 8)) {
        return error_no_memory(error);
    }
    sandbox_refill(L, 1);
    sandbox->raised = ATTUNE_OK;
    sandbox->refused_at[0] = '\0';
    locale_t previous = locale_enter();
    lua_pushcfunction(L, describe_error);
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, data);
    int outcome = lua_pcall(L, 1, 0, top + 1);
    locale_leave(previous);
    if (outcome == LUA_ERRMEM) {
        status = error_set(error, ATTUNE_NO_MEMORY, "%sLua needs more than its memory limit of %zu bytes",
                           sandbox->refused_at, sandbox->memory_limit);
    } else if (outcome != LUA_OK) {
        const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error without a text";
        status = error_set(error, sandbox->raised != ATTUNE_OK ? sandbox->raised : ATTUNE_INVALID, "%s", text);
    }
    lua_settop(L, top);
    return status;
}
