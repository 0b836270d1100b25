/* What Lua in templates and families can and cannot do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support.h"

static void assert_fails(const char *lua, attune_status expected, const char *part)
{
    struct error error;
    attune_status status = run_lua(lua, &error);
    if (status != expected) {
        fail_msg("%s: status %d, not %d: %s", lua, (int)status, (int)expected, error.message);
    }
    assert_contains(error.message, part);
}

/* the snippet ends in error(text): everything before it worked and gave that text */
static void assert_says(const char *lua, const char *text)
{
    assert_fails(lua, ATTUNE_INVALID, text);
}

static void names_that_reach_outside_do_not_exist(void **state)
{
    (void)state;
    static const char *const names[] = {"io",     "os",     "package",        "debug",        "coroutine", "pcall",
                                        "xpcall", "load",   "loadfile",       "loadstring",   "dofile",    "require",
                                        "rawset", "rawget", "setmetatable",   "getmetatable", "pairs",     "next",
                                        "_G",     "print",  "collectgarbage", "utf8",         "warn"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char lua[128], expected[128];
        snprintf(lua, sizeof lua, "local x = 1\nlocal y = %s", names[i]);
        snprintf(expected, sizeof expected, "templates/probe.lua:2: undefined name '%s'", names[i]);
        assert_fails(lua, ATTUNE_INVALID, expected);
    }
    static const char *const functions[] = {"string.find", "string.match", "string.gmatch",
                                            "string.gsub", "string.dump",  "string.pack",
                                            "table.move",  "math.random",  "math.randomseed"};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        char lua[128];
        snprintf(lua, sizeof lua, "local y = %s", functions[i]);
        assert_fails(lua, ATTUNE_INVALID, "has no function");
        if (strncmp(functions[i], "string.", 7) == 0) {
            snprintf(lua, sizeof lua, "local y = (\"x\"):%s()", functions[i] + 7);
            assert_fails(lua, ATTUNE_INVALID, "has no function");
        }
    }
}

static void bytecode_is_refused(void **state)
{
    (void)state;
    assert_fails("\x1bLua", ATTUNE_INVALID, "templates/probe.lua: attempt to load a binary chunk");
}

/* Lua names no file when its parser runs out of levels */
static void deep_nesting_is_refused_with_its_file(void **state)
{
    (void)state;
    struct buffer lua = BUFFER_INIT;
    buffer_text(&lua, "return ");
    for (int i = 0; i < 220; i++) {
        buffer_text(&lua, "function() return ");
    }
    buffer_text(&lua, "1");
    for (int i = 0; i < 220; i++) {
        buffer_text(&lua, " end");
    }
    assert_fails(buffer_string(&lua), ATTUNE_INVALID, "templates/probe.lua: C stack overflow");
    buffer_free(&lua);
}

static void addresses_never_become_text(void **state)
{
    (void)state;
    assert_fails("return tostring({})", ATTUNE_INVALID, "templates/probe.lua:1: tostring: a table has no text");
    assert_fails("return tostring(ipairs)", ATTUNE_INVALID, "a function has no text");
    assert_fails("return string.format('%p', 'x')", ATTUNE_INVALID, "%p would show an address");
    assert_fails("return string.format('%-20p', 'x')", ATTUNE_INVALID, "%p would show an address");
    assert_fails("return string.format('%s', {})", ATTUNE_INVALID, "argument 2 is a table");
    assert_fails("return ('%s'):format(error)", ATTUNE_INVALID, "argument 2 is a function");
    assert_says("error(string.format('%d %s %5.2f %s %%p', 3, 'a', 0.5, true))", "3 a  0.50 true %p");
    assert_fails("\nerror({})", ATTUNE_INVALID, "templates/probe.lua:2: error() was given a table value");
    assert_fails("local t = {}\nlocal x = 'a' .. t", ATTUNE_INVALID,
                 "templates/probe.lua:2: attempt to concatenate a table");
}

static void endless_work_ends_at_the_limit_with_file_and_line(void **state)
{
    (void)state;
    assert_fails("local x = 1\nwhile true do\nx = x + 1 end", ATTUNE_TIMEOUT,
                 "templates/probe.lua:3: still running after 2000000");
    assert_fails("local function f() return f() end return f()", ATTUNE_TIMEOUT,
                 "templates/probe.lua:1: still running");
    assert_fails("local t = {1, 2, 3}\ntable.sort(t, function() while true do end end)", ATTUNE_TIMEOUT,
                 "probe.lua:2:");
    /* large steps count for what they are */
    assert_fails("local s = ('x'):rep(1 << 21)\nwhile true do local r = s:reverse() end", ATTUNE_TIMEOUT,
                 "probe.lua:2:");
    assert_fails("local s = ('x'):rep(1 << 21)\nwhile true do local r = s:contains('y') end", ATTUNE_TIMEOUT,
                 "probe.lua:2:");
    assert_fails(
        "local t = {} for i = 1, 10000 do t[i] = i end\nwhile true do table.insert(t, 1, 0) table.remove(t, 1) end",
        ATTUNE_TIMEOUT, "probe.lua:2:");
    assert_fails("local s = ('x'):rep(1 << 21)\nwhile true do local r = s:starts_with(s) end", ATTUNE_TIMEOUT,
                 "probe.lua:2:");
    /* one instruction of Lua's own may read megabytes: the thread's clock counts for it */
    assert_fails("local s = ('x'):rep(1 << 21)\nlocal r = s:reverse()\nwhile true do local equal = s == r end",
                 ATTUNE_TIMEOUT, "probe.lua:3: still running after the time of 2000000 instructions");
    /* loops inside C functions are not counted: they must be bounded themselves */
    assert_fails("return string.rep('', 1 << 62)", ATTUNE_INVALID, "must return the family's table");
    assert_fails("return string.rep('x', 1 << 62)", ATTUNE_INVALID, "string.rep: the result has more than");
    assert_fails("return ('x'):rep(1 << 30, 'yy')", ATTUNE_INVALID, "string.rep: the result has more than");
    assert_fails("local t = {} local i = 1 while i > 0 do t[i] = i i = i * 2 end table.insert(t, 1, 0)", ATTUNE_INVALID,
                 "templates/probe.lua");
    assert_fails("return table.concat({}, '', 1, 1 << 60)", ATTUNE_INVALID, "invalid value");
    assert_fails("return table.unpack({}, 1, 1 << 30)", ATTUNE_INVALID, "too many results");
}

/* ten tables of ten tables of ...: 10^11 values if each were written out where it is held */
static void tables_that_multiply_are_refused(void **state)
{
    (void)state;
    static const char many[] = "local t = {1} for i = 1, 10 do t = {t, t, t, t, t, t, t, t, t, t} end ";
    static const char wide[] = "local t = {} for i = 1, 50000 do t['k' .. i] = i end ";
    char lua[256];
    snprintf(lua, sizeof lua, "%s return {name = 'a.b', templates = {}, fields = t}", many);
    assert_fails(lua, ATTUNE_INVALID, "fields must be a list of plain values, at most 16384");
    snprintf(lua, sizeof lua, "%s return {name = 'a.b', templates = {}, fields = {t}}", wide);
    assert_fails(lua, ATTUNE_INVALID, "fields must be a list of plain values, at most 16384");
    assert_fails("return {name = 'a.b', templates = {}, fields = {{name = 'n\\0x', kind = 'integer', role = 'size', "
                 "required = true, min = 0, max = 9}}}",
                 ATTUNE_INVALID, "name is missing or not a short name");
}

static void memory_ends_at_the_limit(void **state)
{
    (void)state;
    assert_fails("local t = {} for i = 1, 1e6 do t[i] = ('x'):rep(1000) .. i end", ATTUNE_NO_MEMORY,
                 "memory limit of 16777216");
    assert_fails("local s = 'x'\nwhile true do\ns = s .. s end", ATTUNE_NO_MEMORY,
                 "templates/probe.lua:3: Lua needs more than its memory limit");
    assert_fails("local function f() return 1 + f() end f()", ATTUNE_NO_MEMORY, "memory limit");
}

static void names_must_be_declared(void **state)
{
    (void)state;
    assert_fails("\ncount = 1", ATTUNE_INVALID,
                 "templates/probe.lua:2: assignment to the undeclared name 'count': write 'local count'");
    assert_fails("return cuont", ATTUNE_INVALID, "undefined name 'cuont'");
}

static void library_tables_are_read_only(void **state)
{
    (void)state;
    assert_fails("string.rep = nil", ATTUNE_INVALID, "templates/probe.lua:1: this table is read-only");
    assert_fails("table.insert(math, 1)", ATTUNE_INVALID, "read-only");
    assert_fails("table.sort(string)", ATTUNE_INVALID, "must return the family's table");
}

static void strings_are_no_numbers(void **state)
{
    (void)state;
    assert_fails("return '1' + 1", ATTUNE_INVALID, "attempt to perform arithmetic on a string");
}

static void plain_string_functions_work(void **state)
{
    (void)state;
    assert_says("error(table.concat(('a,b,,c'):split(','), '|'))", "a|b||c");
    assert_says("error(('a.b.c'):replace('.', '->'))", "a->b->c");
    assert_says("error(tostring(('a.b'):contains('.')) .. tostring(('ab'):contains('.')))", "truefalse");
    assert_says("error(tostring(('gfx906'):starts_with('gfx')))", "true");
    assert_says("error(('ab'):rep(3, '-'))", "ab-ab-ab");
    assert_says("error('<' .. ('ab'):rep(0) .. '>')", "<>");
    assert_says("local t = {3, 1, 2} table.sort(t) table.insert(t, 4) error(table.concat(t, ' '))", "1 2 3 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_reach_outside_do_not_exist),
        cmocka_unit_test(bytecode_is_refused),
        cmocka_unit_test(deep_nesting_is_refused_with_its_file),
        cmocka_unit_test(addresses_never_become_text),
        cmocka_unit_test(endless_work_ends_at_the_limit_with_file_and_line),
        cmocka_unit_test(tables_that_multiply_are_refused),
        cmocka_unit_test(memory_ends_at_the_limit),
        cmocka_unit_test(names_must_be_declared),
        cmocka_unit_test(library_tables_are_read_only),
        cmocka_unit_test(strings_are_no_numbers),
        cmocka_unit_test(plain_string_functions_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
