/* table.c - mutants.lua in a Lua state of its own. */
#include "table.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct table {
    lua_State *L; /* the plan function is at index 1 */
};

struct table *table_open(const char *path)
{
    struct table *table = calloc(1, sizeof *table);
    assert_non_null(table);
    table->L = luaL_newstate();
    assert_non_null(table->L);
    luaL_openlibs(table->L);
    if (luaL_dofile(table->L, path) != LUA_OK) {
        fail_msg("%s", lua_tostring(table->L, -1));
    }
    lua_getfield(table->L, -1, "plan");
    lua_replace(table->L, 1);
    lua_settop(table->L, 1);
    return table;
}

void table_close(struct table *table)
{
    lua_close(table->L);
    free(table);
}

/* whole numbers as such, everything else as text */
static void push_word(lua_State *L, const char *text)
{
    if (lua_stringtonumber(L, text) == 0) {
        lua_pushstring(L, text);
    }
}

static void push_candidate(lua_State *L, const struct candidate *candidate)
{
    lua_newtable(L);
    for (int i = 0; i < candidate->parameter_count; i++) {
        push_word(L, candidate->parameters[i].value);
        lua_setfield(L, -2, candidate->parameters[i].name);
    }
}

static void push_problem(lua_State *L, const struct problem *problem)
{
    const struct schema *schema = problem->schema;
    lua_newtable(L);
    for (int i = 0; i < schema->field_count; i++) {
        const char *name = schema->fields[i].name;
        if (schema->fields[i].kind == FIELD_INTEGER) {
            lua_pushinteger(L, problem_integer(problem, name));
        } else if (schema->fields[i].kind == FIELD_REAL) {
            lua_pushnumber(L, problem_real(problem, name));
        } else {
            lua_pushstring(L, problem_choice(problem, name));
        }
        lua_setfield(L, -2, name);
    }
}

static void take_text(lua_State *L, const char *field, char *to, size_t bytes)
{
    lua_getfield(L, -1, field);
    const char *text = lua_tostring(L, -1);
    size_t length = text != NULL ? strlen(text) : 0;
    assert_true(length < bytes);
    memcpy(to, text != NULL ? text : "", length + 1);
    lua_pop(L, 1);
}

static void take_mutant(lua_State *L, struct mutant *mutant)
{
    take_text(L, "kind", mutant->kind, sizeof mutant->kind);
    take_text(L, "name", mutant->name, sizeof mutant->name);
    take_text(L, "says", mutant->says, sizeof mutant->says);
    take_text(L, "equivalent", mutant->equivalent, sizeof mutant->equivalent);
    lua_getfield(L, -1, "text");
    mutant->text = lua_isstring(L, -1) ? strdup(lua_tostring(L, -1)) : NULL;
    lua_pop(L, 1);
    lua_getfield(L, -1, "free");
    mutant->free = lua_toboolean(L, -1);
    lua_pop(L, 1);
}

struct mutants table_plan(struct table *table, const char *text, const struct candidate *candidate,
                          const struct problem *problem)
{
    lua_State *L = table->L;
    struct mutants mutants = {0};
    lua_pushvalue(L, 1);
    lua_pushstring(L, text);
    push_candidate(L, candidate);
    push_problem(L, problem);
    if (lua_pcall(L, 3, 1, 0) != LUA_OK) {
        fail_msg("mutants.lua: %s", lua_tostring(L, -1));
    }
    mutants.count = (int)lua_rawlen(L, -1);
    mutants.items = calloc((size_t)mutants.count + 1, sizeof *mutants.items);
    assert_non_null(mutants.items);
    for (int i = 0; i < mutants.count; i++) {
        lua_rawgeti(L, -1, i + 1);
        take_mutant(L, &mutants.items[i]);
        lua_pop(L, 1);
    }
    lua_settop(L, 1);
    return mutants;
}

void mutants_free(struct mutants *mutants)
{
    for (int i = 0; i < mutants->count; i++) {
        free(mutants->items[i].text);
    }
    free(mutants->items);
    *mutants = (struct mutants){0};
}
