/* test_instructions.c - the layouts that instruction families (templates/instruction_*.lua) give templates, held
 * against tables of the hardware's register layouts for every target and type; and that each family names what its
 * target has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/generator/support.h"
#include "tests/matrix_layouts.h"

#include <dirent.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

enum { FAMILIES_MAX = 16, SIDE = 64 };
static const char *const dtypes[] = {"f16", "bf16", "f32"};

struct families {
    lua_State *lua;
    int count;
    char file[FAMILIES_MAX][64]; /* the table that file i returned is the Lua global of its name */
};

static void open_families(struct families *families)
{
    struct dirent *entry;
    families->lua = luaL_newstate();
    families->count = 0;
    luaL_openlibs(families->lua);
    DIR *folder = opendir(TEST_SOURCE_DIR "/templates");
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        char path[512];
        if (strncmp(entry->d_name, "instruction_", 12) != 0) {
            continue;
        }
        assert_true(families->count < FAMILIES_MAX && strlen(entry->d_name) < sizeof families->file[0]);
        snprintf(path, sizeof path, "%s/templates/%s", TEST_SOURCE_DIR, entry->d_name);
        if (luaL_dofile(families->lua, path) != LUA_OK) {
            fail_msg("%s", lua_tostring(families->lua, -1));
        }
        strcpy(families->file[families->count], entry->d_name);
        lua_setglobal(families->lua, families->file[families->count++]);
    }
    closedir(folder);
    assert_true(families->count >= 6);
}

/* pushes the facts that families ask for */
static void push_target(lua_State *L, const json_t *facts)
{
    static const char *const fields[] = {"name", "wave", "matrix", "matrix_level", "dot2", "dot2_bf16"};
    lua_newtable(L);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const json_t *value = json_object_get(facts, fields[i]);
        if (json_is_string(value)) {
            lua_pushstring(L, json_string_value(value));
        } else if (json_is_integer(value)) {
            lua_pushinteger(L, json_integer_value(value));
        } else {
            assert_true(json_is_boolean(value));
            lua_pushboolean(L, json_is_true(value));
        }
        lua_setfield(L, -2, fields[i]);
    }
}

/* the form is on the top of the stack */
static int whole(lua_State *L, const char *field)
{
    lua_getfield(L, -1, field);
    assert_true(lua_isinteger(L, -1));
    int value = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return value;
}

static void place(lua_State *L, const char *function, int lane, int element, int *row, int *column)
{
    lua_getfield(L, -1, function);
    lua_pushinteger(L, lane);
    lua_pushinteger(L, element);
    lua_call(L, 2, 2);
    assert_true(lua_isinteger(L, -1) && lua_isinteger(L, -2));
    *row = (int)lua_tointeger(L, -2);
    *column = (int)lua_tointeger(L, -1);
    lua_pop(L, 2);
}

struct table_operand {
    const char *function, *elements;
    int count; /* elements or registers of a lane */
    const char *row, *column;
};

static void check_against_table(lua_State *L, const struct matrix_layout *layout)
{
    assert_int_equal(whole(L, "lanes"), layout->wave);
    assert_int_equal(whole(L, "bytes"), 2);
    assert_int_equal(whole(L, "m"), layout->m);
    assert_int_equal(whole(L, "n"), layout->n);
    assert_int_equal(whole(L, "k"), layout->k);
    const struct table_operand operands[] = {
        {"a", "a_elements", 2 * layout->a_words, layout->a_row, layout->a_k},
        {"b", "b_elements", 2 * layout->b_words, layout->b_k, layout->b_column},
        {"c", "c_elements", layout->c_words, layout->c_row, layout->c_column},
    };
    for (int o = 0; o < 3; o++) {
        assert_int_equal(whole(L, operands[o].elements), operands[o].count);
        for (int lane = 0; lane < layout->wave; lane++) {
            for (int e = 0; e < operands[o].count; e++) {
                int row, column;
                place(L, operands[o].function, lane, e, &row, &column);
                if (row != matrix_coordinate(operands[o].row, lane, e) ||
                    column != matrix_coordinate(operands[o].column, lane, e)) {
                    fail_msg("%s: %s(%d, %d) is (%d, %d)", layout->name, operands[o].function, lane, e, row, column);
                }
            }
        }
    }
}

/* a form made of scalar instructions has no table: it must hold each result once, and for each of them whole operands
 */
static void check_whole(lua_State *L, const char *name)
{
    static const char *const functions[] = {"a", "b", "c"}, *const elements[] = {"a_elements", "b_elements",
                                                                                 "c_elements"};
    int m = whole(L, "m"), n = whole(L, "n"), k = whole(L, "k"), lanes = whole(L, "lanes");
    int rows[] = {m, k, m}, columns[] = {k, n, n};
    for (int o = 0; o < 3; o++) {
        static int seen[SIDE][SIDE];
        memset(seen, 0, sizeof seen);
        for (int lane = 0; lane < lanes; lane++) {
            for (int e = 0; e < whole(L, elements[o]); e++) {
                int row, column;
                place(L, functions[o], lane, e, &row, &column);
                if (row < 0 || row >= rows[o] || column < 0 || column >= columns[o]) {
                    fail_msg("%s: %s(%d, %d) is (%d, %d)", name, functions[o], lane, e, row, column);
                }
                seen[row][column]++;
            }
        }
        for (int i = 0; i < rows[o]; i++) {
            for (int j = 0; j < columns[o]; j++) {
                assert_true(o == 2 ? seen[i][j] == 1 : seen[i][j] >= 1);
            }
        }
    }
}

/* the form on the top of the stack; the name of its instruction, or NULL when it is made of scalar ones */
static const char *check_form(lua_State *L)
{
    lua_getfield(L, -1, "name");
    const char *name = lua_tostring(L, -1);
    lua_pop(L, 1); /* the form still holds it */
    lua_getfield(L, -1, "call");
    const char *call = lua_tostring(L, -1);
    lua_pop(L, 1);
    if (call == NULL) {
        check_whole(L, name);
        return NULL;
    }
    for (int x = 0; x < MATRIX_LAYOUTS; x++) {
        if (strcmp(matrix_layouts[x].name, call) == 0) {
            check_against_table(L, &matrix_layouts[x]);
            return matrix_layouts[x].name;
        }
    }
    fail_msg("%s: no table for %s", name, call);
    return NULL;
}

/* instructions of a target for a type, from all families, each followed by a space, into text; count of all forms */
static int forms_of(struct families *families, const json_t *facts, const char *dtype, char *text, size_t bytes)
{
    lua_State *L = families->lua;
    int forms = 0;
    text[0] = '\0';
    for (int f = 0; f < families->count; f++) {
        lua_getglobal(L, families->file[f]);
        lua_getfield(L, -1, "forms");
        push_target(L, facts);
        lua_pushstring(L, dtype);
        if (lua_pcall(L, 2, 1, 0) != LUA_OK) {
            fail_msg("%s: %s", families->file[f], lua_tostring(L, -1));
        }
        int count = (int)luaL_len(L, -1);
        for (int i = 1; i <= count; i++) {
            lua_geti(L, -1, i);
            const char *call = check_form(L);
            if (call != NULL) {
                snprintf(text + strlen(text), bytes - strlen(text), "%s ", call);
            }
            lua_pop(L, 1);
        }
        forms += count;
        lua_pop(L, 2);
    }
    return forms;
}

static json_t *facts_of(struct generator *generator, const char *name)
{
    struct target target;
    json_t *facts = NULL;
    assert_int_equal(target_parse(name, &target, NULL), ATTUNE_OK);
    assert_int_equal(generator_target_facts(generator, &target, &facts, NULL), ATTUNE_OK);
    return facts;
}

static void every_layout_is_the_hardwares(void **state)
{
    (void)state;
    struct families families;
    struct generator *generator = open_generator("");
    bool used[MATRIX_LAYOUTS] = {false};
    open_families(&families);
    for (int i = 0; i < generator_target_count(generator); i++) {
        json_t *facts = facts_of(generator, generator_target_name(generator, i));
        for (int d = 0; d < 3; d++) {
            char text[512], *rest = text, *call;
            /* fma at least, whatever the target */
            assert_true(forms_of(&families, facts, dtypes[d], text, sizeof text) >= 1);
            while ((call = strtok_r(rest, " ", &rest)) != NULL) {
                for (int x = 0; x < MATRIX_LAYOUTS; x++) {
                    used[x] = used[x] || strcmp(matrix_layouts[x].name, call) == 0;
                    assert_true(strcmp(matrix_layouts[x].name, call) != 0 ||
                                matrix_layouts[x].bf16 == (strcmp(dtypes[d], "bf16") == 0));
                }
            }
        }
        json_decref(facts);
    }
    for (int x = 0; x < MATRIX_LAYOUTS; x++) {
        if (!used[x]) {
            fail_msg("no target uses %s", matrix_layouts[x].name);
        }
    }
    lua_close(families.lua);
    generator_destroy(generator);
}

/* from the vendors' instruction manuals, generation by generation */
static void targets_have_the_instructions_of_their_generation(void **state)
{
    (void)state;
    static const struct {
        const char *target, *dtype, *calls;
    } expected[] = {
        {"gfx906", "f16", ""},
        {"gfx1030", "f16", ""},
        {"gfx908", "f16", "mfma_f32_32x32x8_f16 mfma_f32_16x16x16_f16 "},
        {"gfx908", "bf16", "mfma_f32_32x32x4_bf16 mfma_f32_16x16x8_bf16 "},
        {"gfx90a", "bf16", "mfma_f32_32x32x8_bf16 mfma_f32_16x16x16_bf16 "},
        {"gfx942", "f16", "mfma_f32_32x32x8_f16 mfma_f32_16x16x16_f16 "},
        {"gfx942", "f32", ""},
        {"gfx950", "bf16",
         "mfma_f32_32x32x16_bf16 mfma_f32_16x16x32_bf16 mfma_f32_32x32x8_bf16 mfma_f32_16x16x16_bf16 "},
        {"gfx1100", "f16", "wmma_gfx11_f32_16x16x16_f16 "},
        {"gfx1151", "bf16", "wmma_gfx11_f32_16x16x16_bf16 "},
        {"gfx1201", "bf16", "wmma_gfx12_f32_16x16x16_bf16 "},
        {"sm_75", "f16", "mma_f32_16x8x8_f16 "},
        {"sm_75", "bf16", ""},
        {"sm_80", "bf16", "mma_f32_16x8x16_bf16 "},
        {"sm_90a", "f16", "mma_f32_16x8x16_f16 "},
        {"sm_120", "f16", "mma_f32_16x8x16_f16 "},
        {"host", "f16", ""},
    };
    struct families families;
    struct generator *generator = open_generator("");
    open_families(&families);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char text[512];
        json_t *facts = facts_of(generator, expected[i].target);
        forms_of(&families, facts, expected[i].dtype, text, sizeof text);
        assert_string_equal(text, expected[i].calls);
        json_decref(facts);
    }
    lua_close(families.lua);
    generator_destroy(generator);
}

/* ---- mistakes in a form ---- */

/* the searcher of imports, the mistakes and the judge; called with facts, dtype and a judge of layouts, which is true
 * for the hardware's */
/* Lua: every mistake in every form of a target for a type must be refused; how many there were. That a layout is not
 * just any, but the hardware's, is the tables' to tell. */
static const char mistakes[] = "local folder, facts, dtype = ...\n"
                               "local loaded = {}\n"
                               "function import(name)\n"
                               "    loaded[name] = loaded[name] or dofile(folder .. name .. '.lua')\n"
                               "    return loaded[name]\n"
                               "end\n"
                               "local tried = 0\n"
                               "local function copy(form)\n"
                               "    local made = {}\n"
                               "    for key, value in pairs(form) do made[key] = value end\n"
                               "    return made\n"
                               "end\n"
                               "-- as the generator refuses: by the check of a form, or by what is derived from it, "
                               "which is kept once it is there\n"
                               "local function must_be_refused(form, what)\n"
                               "    tried = tried + 1\n"
                               "    if not pcall(import('instructions').check, form, facts, dtype) then return end\n"
                               "    loaded = {}\n"
                               "    if pcall(import('instructions').fragment, form) then\n"
                               "        error(form.name .. ' of ' .. facts.name .. ' passed with ' .. what)\n"
                               "    end\n"
                               "end\n"
                               "local function same(f, g, elements)\n"
                               "    for lane = 0, facts.wave - 1 do\n"
                               "        for e = 0, elements - 1 do\n"
                               "            local i, j = f(lane, e)\n"
                               "            local x, y = g(lane, e)\n"
                               "            if i ~= x or j ~= y then return false end\n"
                               "        end\n"
                               "    end\n"
                               "    return true\n"
                               "end\n"
                               "local changes = {\n"
                               "    turned = function(i, j) return j, i end,\n"
                               "    shifted_rows = function(i, j) return i + 1, j end,\n"
                               "    shifted_columns = function(i, j) return i, j + 1 end,\n"
                               "    rows_twice = function(i, j) return i // 2, j end,\n"
                               "    columns_twice = function(i, j) return i, j // 2 end,\n"
                               "}\n"
                               "for _, form in ipairs(import('instructions').forms(facts, dtype)) do\n"
                               "    for field, value in pairs(form) do\n"
                               "        for other = 0, math.type(value) == 'integer' and 65 or -1 do\n"
                               "            local wrong = copy(form)\n"
                               "            wrong[field] = other\n"
                               "            if other ~= value then must_be_refused(wrong, field .. '=' .. other) end\n"
                               "        end\n"
                               "    end\n"
                               "    for _, name in ipairs { 'a', 'b', 'c' } do\n"
                               "        for what, change in pairs(changes) do\n"
                               "            local wrong = copy(form)\n"
                               "            wrong[name] = function(lane, e) return change(form[name](lane, e)) end\n"
                               "            must_be_refused(wrong, name .. ' ' .. what)\n"
                               "        end\n"
                               "        local wrong = copy(form)\n"
                               "        wrong[name] = function(lane, e) return form[name](lane, e + 1) end\n"
                               "        must_be_refused(wrong, name .. ' from element 1 on')\n"
                               "        local other = name == 'a' and 'b' or name == 'b' and 'c' or 'a'\n"
                               "        wrong = copy(form)\n"
                               "        wrong[name], wrong[other] = form[other], form[name]\n"
                               "        if not same(form[name], form[other], form.c_elements) then "
                               "must_be_refused(wrong, name .. ' and ' .. other .. ' exchanged') end\n"
                               "    end\n"
                               "end\n"
                               "return tried\n";

static void forms_with_a_mistake_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *target, *dtypes[3];
    } cases[] = {
        {"gfx906", {"f16", "f32"}}, {"gfx908", {"f16", "bf16"}}, {"gfx950", {"f16", "bf16"}},
        {"gfx1030", {"f16"}},       {"gfx1100", {"f16"}},        {"gfx1200", {"bf16"}},
        {"sm_75", {"f16"}},         {"sm_80", {"bf16"}},         {"host", {"f16"}},
    };
    struct generator *generator = open_generator("");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int d = 0; d < 3 && cases[i].dtypes[d] != NULL; d++) {
            lua_State *L = luaL_newstate();
            json_t *facts = facts_of(generator, cases[i].target);
            luaL_openlibs(L);
            assert_int_equal(luaL_loadstring(L, mistakes), LUA_OK);
            lua_pushstring(L, TEST_SOURCE_DIR "/templates/");
            push_target(L, facts);
            lua_pushstring(L, cases[i].dtypes[d]);
            if (lua_pcall(L, 3, 1, 0) != LUA_OK) {
                fail_msg("%s", lua_tostring(L, -1));
            }
            assert_true(lua_tointeger(L, -1) > 500);
            json_decref(facts);
            lua_close(L);
        }
    }
    generator_destroy(generator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_is_the_hardwares),
        cmocka_unit_test(forms_with_a_mistake_are_refused),
        cmocka_unit_test(targets_have_the_instructions_of_their_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
