/* test_targets.c - the facts of targets: values that must not drift, rules that are whole, and where they are from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/generator/support.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>

static json_t *facts_of(struct generator *generator, const char *name)
{
    struct target target;
    struct error error = {.message = ""};
    json_t *facts = NULL;
    assert_int_equal(target_parse(name, &target, &error), ATTUNE_OK);
    if (generator_target_facts(generator, &target, &facts, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", name, error.message);
    }
    return facts;
}

static const char *text_at(const json_t *facts, const char *key)
{
    const char *text = json_string_value(json_object_get(facts, key));
    if (text == NULL) {
        fail_msg("%s has no text '%s'", json_string_value(json_object_get(facts, "name")), key);
    }
    return text;
}

static int64_t whole_at(const json_t *facts, const char *key)
{
    const json_t *value = json_object_get(facts, key);
    if (!json_is_integer(value)) {
        fail_msg("%s has no whole number '%s'", json_string_value(json_object_get(facts, "name")), key);
    }
    return json_integer_value(value);
}

/* ---- rules of shared memory ---- */

static void check_phases(const json_t *facts, const char *way, const char *width)
{
    int64_t wave = whole_at(facts, "wave");
    const json_t *lds = json_object_get(facts, "lds");
    const json_t *phases = json_object_get(json_object_get(lds, way), width);
    uint64_t seen = 0;
    size_t index, at, length = 0;
    const json_t *phase, *lane;
    json_array_foreach(phases, index, phase)
    {
        if (index == 0) {
            length = json_array_size(phase);
        }
        assert_int_equal(json_array_size(phase), length);
        json_array_foreach(phase, at, lane)
        {
            int64_t number = json_integer_value(lane);
            assert_true(json_is_integer(lane) && number >= 0 && number < wave);
            assert_true((seen >> number & 1) == 0);
            seen |= 1ull << number;
        }
    }
    assert_true(seen == (wave == 64 ? ~0ull : (1ull << wave) - 1));
    /* a phase of neighbours that read consecutive words never asks for more than the banks have */
    assert_true((int64_t)length * strtol(width, NULL, 10) <= 4 * whole_at(lds, "banks"));
}

static void every_lane_is_in_one_phase_of_every_rule(void **state)
{
    (void)state;
    static const char *const ways[] = {"read", "write"}, *const widths[] = {"4", "8", "16"};
    struct generator *generator = open_generator("");
    for (int i = 0; i < generator_target_count(generator); i++) {
        json_t *facts = facts_of(generator, generator_target_name(generator, i));
        const json_t *lds = json_object_get(facts, "lds");
        assert_string_equal(text_at(lds, "name"), text_at(facts, "lds_rule"));
        assert_int_equal(whole_at(lds, "banks"), whole_at(facts, "lds_banks"));
        assert_true(strlen(text_at(lds, "source")) > 20);
        for (int way = 0; way < 2; way++) {
            for (int width = 0; width < 3; width++) {
                const json_t *known = json_object_get(json_object_get(lds, "known"), ways[way]);
                const char *how = text_at(known, widths[width]);
                check_phases(facts, ways[way], widths[width]);
                assert_true(strcmp(how, "measured") == 0 || strcmp(how, "published") == 0 ||
                            strcmp(how, "assumed") == 0);
            }
        }
        json_decref(facts);
    }
    generator_destroy(generator);
}

/* the published lists of ds_read_b128, written apart from the rules' own functions: two quads or four a phase */
static void reads_of_16_bytes_meet_the_published_lanes(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int phases, quads, first[8][4];
    } table[] = {
        {"gfx942", 8, 2, {{0, 20}, {4, 16}, {8, 28}, {12, 24}, {32, 52}, {36, 48}, {40, 60}, {44, 56}}},
        {"gfx950", 4, 4, {{0, 12, 20, 24}, {4, 8, 16, 28}, {32, 44, 52, 56}, {36, 40, 48, 60}}},
        {"gfx1100", 4, 2, {{0, 4}, {8, 12}, {16, 20}, {24, 28}}},
        {"sm_90a", 4, 2, {{0, 4}, {8, 12}, {16, 20}, {24, 28}}},
    };
    struct generator *generator = open_generator("");
    for (size_t row = 0; row < sizeof table / sizeof table[0]; row++) {
        json_t *facts = facts_of(generator, table[row].target);
        const json_t *phases = json_object_get(json_object_get(json_object_get(facts, "lds"), "read"), "16");
        assert_int_equal(json_array_size(phases), table[row].phases);
        for (int phase = 0; phase < table[row].phases; phase++) {
            const json_t *lanes = json_array_get(phases, (size_t)phase);
            assert_int_equal(json_array_size(lanes), 4 * table[row].quads);
            for (int i = 0; i < 4 * table[row].quads; i++) {
                assert_int_equal(json_integer_value(json_array_get(lanes, (size_t)i)),
                                 table[row].first[phase][i / 4] + i % 4);
            }
        }
        json_decref(facts);
    }
    generator_destroy(generator);
}

/* what is not published must not pass for it */
static void rules_say_how_they_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *target, *status;
    } table[] = {{"gfx906", "assumed"}, {"gfx942", "assumed"}, {"gfx1100", "assumed"}, {"sm_90a", "published"}};
    struct generator *generator = open_generator("");
    for (size_t row = 0; row < sizeof table / sizeof table[0]; row++) {
        json_t *facts = facts_of(generator, table[row].target);
        assert_string_equal(text_at(json_object_get(facts, "lds"), "status"), table[row].status);
        json_decref(facts);
    }
    generator_destroy(generator);
}

/* ---- values ---- */

/* Articles on the web call it RDNA 2, gfx1030, GDDR6, 32 compute units: it is none of these. */
static void the_mi50_is_a_vega_20(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t value;
    } wholes[] = {{"wave", 64},           {"lds_bytes", 65536}, {"lds_banks", 32},  {"simds", 4},
                  {"registers", 256},     {"max_waves", 40},    {"fp32_lanes", 64}, {"exp_lanes", 16},
                  {"matrix_level", 0},    {"matrix_macs", 0},   {"direct_lds", 4},  {"async_copy", 0},
                  {"register_granule", 4}};
    struct generator *generator = open_generator("");
    json_t *facts = facts_of(generator, "gfx906");
    assert_string_equal(text_at(facts, "generation"), "GCN 5.1 (Vega 20)");
    assert_string_equal(text_at(facts, "matrix"), "none");
    assert_true(json_is_true(json_object_get(facts, "dot2")));
    assert_false(json_is_true(json_object_get(facts, "dot2_bf16")));
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
        assert_int_equal(whole_at(facts, wholes[i].name), wholes[i].value);
    }
    const json_t *board = json_array_get(json_object_get(facts, "boards"), 0);
    assert_string_equal(text_at(board, "name"), "Instinct MI50");
    assert_string_equal(text_at(board, "memory"), "HBM2");
    assert_int_equal(whole_at(board, "units"), 60);
    assert_int_equal(whole_at(board, "memory_gb"), 16);
    assert_int_equal(whole_at(board, "gb_a_second"), 1024);
    json_decref(facts);
    facts = facts_of(generator, "gfx1030"); /* and that one has none of its boards */
    size_t index;
    json_t *row;
    json_array_foreach(json_object_get(facts, "boards"), index, row)
    {
        assert_null(strstr(text_at(row, "name"), "MI50"));
    }
    json_decref(facts);
    generator_destroy(generator);
}

static void what_a_target_can_multiply_and_prefetch_with(void **state)
{
    (void)state;
    static const struct {
        const char *target, *matrix;
        int level, macs, async_copy, direct_lds;
    } table[] = {
        {"gfx900", "none", 0, 0, 0, 4},
        {"gfx908", "mfma", 1, 512, 0, 4},
        {"gfx90a", "mfma", 2, 512, 0, 4},
        {"gfx942", "mfma", 3, 1024, 0, 4},
        {"gfx950", "mfma", 4, 2048, 0, 16},
        {"gfx1010", "none", 0, 0, 0, 4},
        {"gfx1030", "none", 0, 0, 0, 4},
        {"gfx1100", "wmma_gfx11", 11, 256, 0, 0},
        {"gfx1103", "wmma_gfx11", 11, 256, 0, 0},
        {"gfx1151", "wmma_gfx11", 11, 256, 0, 0},
        {"gfx1201", "wmma_gfx12", 12, 512, 0, 0},
        {"sm_75", "mma_sync", 75, 512, 0, 0},
        {"sm_80", "mma_sync", 80, 1024, 16, 0},
        {"sm_86", "mma_sync", 86, 512, 16, 0},
        {"sm_89", "mma_sync", 89, 512, 16, 0},
        {"sm_90a", "mma_sync", 90, 2048, 16, 0},
        {"sm_100a", "mma_sync", 100, 4096, 16, 0},
        {"sm_120a", "mma_sync", 120, 512, 16, 0},
        {"host", "none", 0, 0, 0, 0},
    };
    struct generator *generator = open_generator("");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        json_t *facts = facts_of(generator, table[i].target);
        assert_string_equal(text_at(facts, "matrix"), table[i].matrix);
        assert_int_equal(whole_at(facts, "matrix_level"), table[i].level);
        assert_int_equal(whole_at(facts, "matrix_macs"), table[i].macs);
        assert_int_equal(whole_at(facts, "async_copy"), table[i].async_copy);
        assert_int_equal(whole_at(facts, "direct_lds"), table[i].direct_lds);
        assert_int_equal(json_is_true(json_object_get(facts, "wgmma")), strcmp(table[i].target, "sm_90a") == 0);
        json_decref(facts);
    }
    generator_destroy(generator);
}

/* Peaks of data sheets (f16 with fp32 accumulation, dense) from units, clock and the table's rate: within a percent and
 * a half, since sheets round their clocks. */
static void rates_give_the_peaks_of_data_sheets(void **state)
{
    (void)state;
    static const struct {
        const char *target, *board;
        double tflops;
    } table[] = {{"gfx906", "Instinct MI50", 26.5},
                 {"gfx908", "Instinct MI100", 184.6},
                 {"gfx90a", "Instinct MI210", 181.0},
                 {"gfx942", "Instinct MI300X", 1307.4},
                 {"gfx950", "Instinct MI355X", 2516.6},
                 {"gfx1100", "Radeon RX 7900 XTX", 122.8},
                 {"gfx1201", "Radeon RX 9070 XT", 194.6},
                 {"sm_75", "T4", 65.0},
                 {"sm_80", "A100 SXM 80GB", 312.0},
                 {"sm_86", "A40", 149.7},
                 {"sm_89", "L40S", 362.0},
                 {"sm_90a", "H200 SXM", 989.5}};
    struct generator *generator = open_generator("");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        json_t *facts = facts_of(generator, table[i].target);
        int64_t macs = whole_at(facts, "matrix_macs");
        macs = macs > 0 ? macs : 2 * whole_at(facts, "fp32_lanes"); /* dot2 */
        bool found = false;
        size_t index;
        json_t *board;
        json_array_foreach(json_object_get(facts, "boards"), index, board)
        {
            if (strcmp(text_at(board, "name"), table[i].board) == 0) {
                double peak = 2e-6 * (double)(macs * whole_at(board, "units") * whole_at(board, "mhz"));
                if (peak < 0.985 * table[i].tflops || peak > 1.015 * table[i].tflops) {
                    fail_msg("%s: %.1f TFLOP/s, its data sheet says %.1f", table[i].board, peak, table[i].tflops);
                }
                found = true;
            }
        }
        assert_true(found);
        json_decref(facts);
    }
    generator_destroy(generator);
}

static void every_value_says_how_it_is_known_and_where_from(void **state)
{
    (void)state;
    struct generator *generator = open_generator("");
    for (int i = 0; i < generator_target_count(generator); i++) {
        json_t *facts = facts_of(generator, generator_target_name(generator, i));
        const json_t *list = json_object_get(facts, "facts");
        size_t index;
        json_t *fact;
        assert_true(json_array_size(list) > 25);
        json_array_foreach(list, index, fact)
        {
            const char *known = text_at(fact, "known");
            assert_true(strcmp(known, "published") == 0 || strcmp(known, "measured") == 0 ||
                        strcmp(known, "assumed") == 0);
            assert_true(strlen(text_at(fact, "source")) > 10 && strlen(text_at(fact, "doc")) > 5);
            /* templates read the same value */
            assert_true(json_equal(json_object_get(fact, "value"), json_object_get(facts, text_at(fact, "name"))));
        }
        json_decref(facts);
    }
    generator_destroy(generator);
}

/* what LLVM 22 says of the occupancy of kernels with so many registers, and NVIDIA's occupancy tables */
static void waves_follow_from_registers(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int at[6]; /* 32, 64, 96, 128, 168, 256 registers */
    } table[] = {{"gfx906", {8, 4, 2, 2, 1, 1}},     {"gfx908", {8, 4, 2, 2, 1, 1}},
                 {"gfx90a", {8, 8, 5, 4, 3, 2}},     {"gfx1010", {20, 16, 10, 8, 6, 4}},
                 {"gfx1030", {16, 16, 10, 8, 5, 4}}, {"gfx1100", {16, 16, 16, 10, 9, 5}},
                 {"gfx1103", {16, 16, 10, 8, 5, 4}}, {"gfx1200", {16, 16, 16, 10, 9, 5}},
                 {"sm_86", {12, 8, 5, 4, 3}},        {"sm_90a", {16, 8, 5, 4, 3}}};
    struct generator *generator = open_generator("");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        json_t *facts = facts_of(generator, table[i].target);
        for (int at = 0; at < 6 && table[i].at[at] > 0; at++) {
            const json_t *row = json_array_get(json_object_get(facts, "waves"), (size_t)at);
            if (whole_at(row, "per_simd") != table[i].at[at]) {
                fail_msg("%s: %d waves at %d registers, not %d", table[i].target, (int)whole_at(row, "per_simd"),
                         (int)whole_at(row, "registers"), table[i].at[at]);
            }
        }
        json_decref(facts);
    }
    generator_destroy(generator);
}

/* templates ask the same, by the function of t: a reason of a space without anything in it has the numbers */
static void templates_can_ask_for_waves(void **state)
{
    (void)state;
    static const struct {
        const char *target, *waves;
    } cases[] = {{"gfx906", "4 2 0"}, {"gfx908", "4 1 0"}, {"gfx90a", "8 1 1"}, {"host-gfx1103", "16 8 0"}};
    char folder[4096];
    struct error error = {.message = ""};
    struct problem problem;
    struct target target;
    struct candidate candidate;
    assert_int_equal(folder_temporary(folder, sizeof folder, &error), ATTUNE_OK);
    put_file(
        folder, "probe.lua",
        "return { name = 'probe', fields = {{ name = 'n', kind = 'integer', role = 'size', required = true, min = 0, "
        "max = 9 }}, "
        "templates = {{ name = 'a', file = 'a.hip', default = function() return {} end, launch = function() return {} "
        "end, "
        "supports = function(p, t) return false, t.waves_per_simd(64) .. ' ' .. t.waves_per_simd(128, 129) .. ' ' .. "
        "t.waves_per_simd(257) end }} }");
    put_file(folder, "a.hip", "x\n");
    struct generator *generator = open_generator(folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        toy_setup(generator, "probe n=3", cases[i].target, &problem, &target);
        assert_int_equal(candidate_default(generator, &problem, &target, &candidate, &error), ATTUNE_UNSUPPORTED);
        assert_contains(error.message, cases[i].waves);
    }
    generator_destroy(generator);
    folder_remove(folder);
}

/* ---- adding a target ---- */

/* load_own of the test: the files of the source tree, targets.lua with `changed` in place of its text */
static int load_from_source(lua_State *L)
{
    char path[4096];
    const char *name = luaL_checkstring(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "changed targets");
    snprintf(path, sizeof path, "%s/generator/lua/%s.lua", TEST_SOURCE_DIR, name);
    int code = strcmp(name, "targets") == 0 ? luaL_loadstring(L, lua_tostring(L, -1)) : luaL_loadfile(L, path);
    if (code != LUA_OK) {
        return lua_error(L);
    }
    lua_pushcfunction(L, load_from_source);
    int keys = luaL_dostring(L, "return function(t) local list = {} for key in pairs(t) do "
                                "list[#list + 1] = type(key) == 'string' and key or nil end return list end");
    if (keys != LUA_OK) {
        return lua_error(L);
    }
    lua_call(L, 2, 1);
    return 1;
}

/* wave, matrix and generation of a target by a table whose row list has `row` in place of `line`; false: no such
 * target, with "", or the table is refused, with the message */
static bool try_table(const char *line, const char *row, const char *target, char text[1024])
{
    struct error error = {.message = ""};
    struct buffer source = BUFFER_INIT, changed = BUFFER_INIT;
    assert_int_equal(file_read(TEST_SOURCE_DIR "/generator/lua/targets.lua", 1 << 20, &source, &error), ATTUNE_OK);
    const char *whole = buffer_string(&source), *at = strstr(whole, line);
    assert_non_null(at);
    buffer_format(&changed, "%.*s%s%s", (int)(at - whole), whole, row, at + strlen(line));
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    lua_pushstring(L, buffer_string(&changed));
    lua_setfield(L, LUA_REGISTRYINDEX, "changed targets");
    lua_pushcfunction(L, load_from_source);
    lua_pushliteral(L, "targets");
    bool found = false;
    text[0] = '\0';
    int code = lua_pcall(L, 1, 1, 0);
    if (code == LUA_OK) {
        lua_getfield(L, -1, "describe");
        lua_getfield(L, -2, "find");
        lua_pushstring(L, target);
        code = lua_pcall(L, 1, 1, 0);
        found = code == LUA_OK && lua_istable(L, -1);
    }
    if (found) {
        lua_getfield(L, -1, "generation");
        lua_getfield(L, -2, "matrix");
        lua_getfield(L, -3, "wave");
        snprintf(text, 1024, "%s, %s, wave of %d", lua_tostring(L, -3), lua_tostring(L, -2), (int)lua_tointeger(L, -1));
    } else if (code != LUA_OK) {
        snprintf(text, 1024, "%s", lua_tostring(L, -1));
    }
    lua_close(L);
    buffer_free(&source);
    buffer_free(&changed);
    return found;
}

static void a_target_is_one_row(void **state)
{
    (void)state;
    char text[1024];
    const char *row = "    { \"gfx1103\", \"rdna3\" },\n";
    assert_false(try_table(row, "", "gfx1103", text)); /* without its row nothing knows it */
    assert_string_equal(text, "");
    assert_true(try_table(row, row, "gfx1103", text));
    assert_string_equal(text, "RDNA 3, wmma_gfx11, wave of 32");
    assert_true(try_table(row, "{ 'gfx1199', 'rdna3' },", "gfx1199", text));
    assert_string_equal(text, "RDNA 3, wmma_gfx11, wave of 32");
    assert_true(try_table(row, "{ 'gfx1199', 'rdna3' },", "host-gfx1199", text));
    /* what is not a row is told */
    assert_false(try_table(row, "{ 'gfx1199', 'rdna9' },", "gfx1199", text));
    assert_contains(text, "gfx1199 names a generation that there is none of");
    assert_false(try_table(row, "{ 'gfx1199', 'rdna3', wave = 64 },", "gfx1199", text));
    assert_contains(text, "gfx1199: wave does not vary in generation rdna3");
    assert_false(try_table(row, "{ 'gfx1199', 'rdna', dto2 = yes },", "gfx1199", text));
    assert_contains(text, "gfx1199: there is no column dto2; columns are wave, max_threads");
    assert_contains(text, " dot2, dot2_bf16, ");
    assert_false(try_table(row, "{ 'gfx1100', 'rdna3' },", "gfx1100", text));
    assert_contains(text, "two rows for gfx1100");
}

/* The names of these are in no example, so that any other place in the product would be a second list. */
static void no_other_file_lists_targets(void **state)
{
    (void)state;
    FILE *pipe = popen("cd '" TEST_SOURCE_DIR
                       "' && grep -rlE 'gfx1103|gfx1152|gfx1034|gfx1101' base cache cli generator runtime "
                       "autotune templates cmake CMakeLists.txt",
                       "r");
    char line[256];
    assert_non_null(pipe);
    assert_non_null(fgets(line, sizeof line, pipe));
    int others = 0;
    do {
        if (strcmp(line, "generator/lua/targets.lua\n") != 0 && strcmp(line, "generator/lua/boards.lua\n") != 0) {
            print_error("a target is named in %s", line);
            others++;
        }
    } while (fgets(line, sizeof line, pipe) != NULL);
    pclose(pipe);
    assert_int_equal(others, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_lane_is_in_one_phase_of_every_rule),
        cmocka_unit_test(reads_of_16_bytes_meet_the_published_lanes),
        cmocka_unit_test(rules_say_how_they_are_known),
        cmocka_unit_test(the_mi50_is_a_vega_20),
        cmocka_unit_test(what_a_target_can_multiply_and_prefetch_with),
        cmocka_unit_test(rates_give_the_peaks_of_data_sheets),
        cmocka_unit_test(every_value_says_how_it_is_known_and_where_from),
        cmocka_unit_test(waves_follow_from_registers),
        cmocka_unit_test(templates_can_ask_for_waves),
        cmocka_unit_test(a_target_is_one_row),
        cmocka_unit_test(no_other_file_lists_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
