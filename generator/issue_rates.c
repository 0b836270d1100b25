/* issue_rates.c - the Lua table of issue rates as C. */
#include "generator/issue.h"

#include "generator/generator_private.h"

#include <stdlib.h>
#include <string.h>

static const char *const class_names[ISSUE_CLASSES] = {
    [ISSUE_MATRIX] = "matrix",
    [ISSUE_DOT2] = "dot2",
    [ISSUE_FMA] = "fma",
    [ISSUE_ADD] = "add or multiply",
    [ISSUE_EXP] = "exp",
    [ISSUE_CONVERT] = "convert",
    [ISSUE_EXCHANGE] = "exchange",
    [ISSUE_MOVE] = "move",
    [ISSUE_OTHER_VECTOR] = "other vector",
    [ISSUE_SCALAR] = "scalar",
    [ISSUE_LDS_READ] = "lds read",
    [ISSUE_LDS_WRITE] = "lds write",
    [ISSUE_LDS_EXCHANGE] = "lds exchange",
    [ISSUE_GLOBAL_LOAD] = "global load",
    [ISSUE_DIRECT_LOAD] = "direct load",
    [ISSUE_GLOBAL_STORE] = "global store",
    [ISSUE_FLAT] = "flat",
    [ISSUE_SCRATCH] = "scratch",
    [ISSUE_BARRIER] = "barrier",
    [ISSUE_WAIT] = "wait",
    [ISSUE_BRANCH] = "branch",
};

static const char *const unit_names[ISSUE_UNITS] = {"vector", "transcendental", "integer", "issue slots",
                                                    "scalar", "matrix",         "lds"};

const char *issue_class_name(enum issue_class class)
{
    return class_names[class];
}

const char *issue_unit_name(enum issue_unit unit)
{
    return unit_names[unit];
}

const struct issue_rule *issue_rule_find(const struct issue_rates *rates, struct slice mnemonic)
{
    for (int i = 0; i < rates->rule_count; i++) {
        if (slice_fits(rates->rules[i].pattern, mnemonic)) {
            return &rates->rules[i];
        }
    }
    return NULL;
}

/* ---- from Lua ---- */

/* call->result: the rules of call->target as JSON, left NULL where there are none */
static int ask(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    push_own_lua(L, "issue_rates");
    lua_getfield(L, -1, "rules");
    push_target(L, call->generator, call->target);
    lua_call(L, 1, 1);
    if (lua_type(L, -1) == LUA_TTABLE) {
        *(json_t **)call->result = value_to_json(L, -1);
    }
    return 0;
}

struct registers {
    int vector, accumulators, waves;
};

static int ask_waves(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    struct registers *registers = call->result;
    push_target(L, call->generator, call->target);
    lua_getfield(L, -1, "waves_per_simd");
    lua_pushinteger(L, registers->vector);
    lua_pushinteger(L, registers->accumulators);
    lua_call(L, 2, 1);
    registers->waves = (int)lua_tointeger(L, -1);
    return 0;
}

static double number_of(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static bool read_rule(const json_t *row, struct issue_rule *rule)
{
    static const struct {
        const char *key;
        enum issue_unit unit;
    } units[] = {{"valu", ISSUE_UNIT_VECTOR}, {"trans", ISSUE_UNIT_TRANS},   {"integer", ISSUE_UNIT_INTEGER},
                 {"port", ISSUE_UNIT_PORT},   {"scalar", ISSUE_UNIT_SCALAR}, {"matrix", ISSUE_UNIT_MATRIX}};
    const char *pattern = json_string_value(json_object_get(row, "pattern"));
    const char *class = json_string_value(json_object_get(row, "class"));
    int index = 0;
    while (index < ISSUE_CLASSES && class != NULL && strcmp(class_names[index], class) != 0) {
        index++;
    }
    *rule = (struct issue_rule){.class = (enum issue_class)index, .products = number_of(row, "products")};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        rule->cycles[units[i].unit] = number_of(row, units[i].key);
    }
    rule->bytes = (int)number_of(row, "bytes");
    rule->unknown = json_is_true(json_object_get(row, "unknown"));
    if (pattern == NULL || strlen(pattern) >= sizeof rule->pattern) {
        return false;
    }
    memcpy(rule->pattern, pattern, strlen(pattern) + 1);
    return class != NULL && index < ISSUE_CLASSES && rule->bytes >= 0 && rule->bytes <= 16;
}

/* what is best at multiplying f16 with f32 accumulation, and where its rate is from */
static void read_peak(const json_t *target, struct issue_rates *rates)
{
    double matrix = number_of(target, "matrix_macs");
    const char *column = matrix > 0 ? "matrix_macs" : "fp32_lanes";
    size_t index;
    json_t *fact;
    rates->peak = (matrix > 0 ? matrix : number_of(target, "fp32_lanes")) / rates->simds;
    if (matrix <= 0 && json_is_true(json_object_get(target, "dot2"))) {
        rates->peak *= 2;
    }
    json_array_foreach(json_object_get(target, "facts"), index, fact)
    {
        if (strcmp(json_string_value(json_object_get(fact, "name")), column) == 0) {
            (void)snprintf(rates->peak_source, sizeof rates->peak_source, "%s",
                           json_string_value(json_object_get(fact, "source")));
        }
    }
}

static attune_status read_facts(struct generator *generator, const struct target *target, struct issue_rates *rates,
                                struct error *error)
{
    json_t *facts = NULL;
    attune_status status = generator_target_facts(generator, target, &facts, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    const char *generation = json_string_value(json_object_get(facts, "generation"));
    (void)snprintf(rates->generation, sizeof rates->generation, "%s", generation != NULL ? generation : "");
    rates->wave = (int)number_of(facts, "wave");
    rates->simds = (int)number_of(facts, "simds");
    rates->max_waves = (int)number_of(facts, "max_waves");
    rates->max_blocks = (int)number_of(facts, "max_blocks");
    rates->unit_lds_bytes = (int)number_of(facts, "unit_lds_bytes");
    rates->lds_bytes_a_clock = (int)number_of(facts, "lds_clock_bytes");
    rates->lds_granule = (int)number_of(facts, "lds_granule");
    rates->lds_reserved = (int)number_of(facts, "lds_reserved");
    if (rates->simds > 0) {
        read_peak(facts, rates);
    }
    json_decref(facts);
    return rates->wave > 0 && rates->lds_bytes_a_clock > 0 && rates->lds_granule > 0 && rates->peak > 0
               ? ATTUNE_OK
               : error_set(
                     error, ATTUNE_INTERNAL,
                     "generator/lua/targets.lua: %s has no wave, simds, lds_clock_bytes, lds_granule or fp32_lanes",
                     target->processor);
}

attune_status issue_rates_load(struct generator *generator, const struct target *target, struct issue_rates *rates,
                               struct error *error)
{
    json_t *json = NULL;
    struct call call = {generator, NULL, NULL, NULL, target, &json, error};
    *rates = (struct issue_rates){.rule_count = 0};
    attune_status status = read_facts(generator, target, rates, error);
    if (status == ATTUNE_OK) {
        status = sandbox_protect(&generator->sandbox, ask, &call, error);
    }
    if (status == ATTUNE_OK && json == NULL) {
        status = error_set(error, ATTUNE_UNSUPPORTED, "no published issue rates for %s: %s", target->processor,
                           target->vendor == TARGET_HOST ? "a CPU's cycles say nothing about a GPU"
                                                         : "generator/lua/issue_rates.lua has no row for it");
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    size_t count = json_array_size(json);
    rates->rules = calloc(count + 1, sizeof *rates->rules);
    status = rates->rules != NULL ? ATTUNE_OK : error_no_memory(error);
    for (size_t i = 0; i < count && status == ATTUNE_OK; i++) {
        const json_t *row = json_array_get(json, i);
        if (!read_rule(row, &rates->rules[rates->rule_count++])) {
            status = error_set(error, ATTUNE_INTERNAL, "generator/lua/issue_rates.lua: %s, rule %zu: '%s' is wrong",
                               target->processor, i + 1, json_string_value(json_object_get(row, "pattern")));
        }
    }
    json_decref(json);
    if (status != ATTUNE_OK) {
        issue_rates_free(rates);
    }
    return status;
}

void issue_rates_free(struct issue_rates *rates)
{
    free(rates->rules);
    *rates = (struct issue_rates){.rule_count = 0};
}

/* ---- occupancy ---- */

attune_status issue_occupancy(struct generator *generator, const struct target *target, const struct issue_rates *rates,
                              const struct resources *resources, int threads, int dynamic_shared_bytes,
                              struct issue_occupancy *occupancy, struct error *error)
{
    struct registers registers = {resources->vector_registers, resources->accumulator_registers, 0};
    struct call call = {generator, NULL, NULL, NULL, target, &registers, error};
    attune_status status = sandbox_protect(&generator->sandbox, ask_waves, &call, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    int waves_a_block = threads > rates->wave ? (threads + rates->wave - 1) / rates->wave : 1;
    int most = rates->max_waves / rates->simds;
    int blocks = registers.waves * rates->simds / waves_a_block;
    int shared = resources->shared_bytes + dynamic_shared_bytes + rates->lds_reserved;
    *occupancy = (struct issue_occupancy){.by_registers = registers.waves, .by_target = most, .by_lds = most};
    blocks = blocks < rates->max_blocks ? blocks : rates->max_blocks;
    if (shared > 0) {
        int granules = (shared + rates->lds_granule - 1) / rates->lds_granule;
        int fit = rates->unit_lds_bytes / (granules * rates->lds_granule);
        occupancy->by_lds = (double)(fit * waves_a_block) / rates->simds;
        blocks = fit < blocks ? fit : blocks;
    }
    occupancy->waves = (double)(blocks * waves_a_block) / rates->simds;
    return ATTUNE_OK;
}
