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

/* `*` matches any text; the last one that matched is where a mismatch goes back to */
static bool fits(const char *pattern, struct slice text)
{
    const char *star = NULL;
    size_t at = 0, retry = 0;
    while (at < text.length) {
        if (*pattern == '*') {
            star = pattern++;
            retry = at;
        } else if (*pattern == text.text[at]) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star + 1;
            at = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

const struct issue_rule *issue_rule_find(const struct issue_rates *rates, struct slice mnemonic)
{
    for (int i = 0; i < rates->rule_count; i++) {
        if (fits(rates->rules[i].pattern, mnemonic)) {
            return &rates->rules[i];
        }
    }
    return NULL;
}

/* ---- from Lua ---- */

static int ask(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    const struct embedded_file *file = attune_embedded_lua;
    while (file->name != NULL && strcmp(file->name, "issue_rates.lua") != 0) {
        file++;
    }
    if (file->name == NULL) {
        sandbox_raise(L, ATTUNE_INTERNAL, "generator/lua/issue_rates.lua is not embedded");
    }
    sandbox_load(L, (const char *)file->bytes, file->length, "generator/lua/issue_rates.lua");
    lua_call(L, 0, 1);
    lua_getfield(L, -1, "find");
    lua_pushstring(L, call->target->processor);
    lua_call(L, 1, 1);
    if (lua_type(L, -1) == LUA_TTABLE) {
        *(json_t **)call->result = value_to_json(L, -1);
    }
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

static attune_status read_facts(struct generator *generator, const struct target *target, struct issue_rates *rates,
                                struct error *error)
{
    json_t *facts = NULL;
    attune_status status = generator_target_facts(generator, target, &facts, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    rates->wave = (int)number_of(facts, "wave");
    rates->simds = (int)number_of(facts, "simds");
    rates->max_waves = (int)number_of(facts, "max_waves");
    rates->unit_registers = (int)number_of(facts, "unit_registers");
    rates->unit_lds_bytes = (int)number_of(facts, "unit_lds_bytes");
    rates->lds_bytes_a_clock = 4 * (int)number_of(facts, "lds_banks");
    json_decref(facts);
    return rates->wave > 0 && rates->simds > 0 && rates->lds_bytes_a_clock > 0
               ? ATTUNE_OK
               : error_set(error, ATTUNE_INTERNAL, "generator/lua/targets.lua: %s has no wave, simds or lds_banks",
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
    const json_t *rules = json_object_get(json, "rules");
    const char *generation = json_string_value(json_object_get(json, "generation"));
    const char *source = json_string_value(json_object_get(json, "peak_source"));
    size_t count = json_array_size(rules);
    rates->rules = calloc(count + 1, sizeof *rates->rules);
    status = rates->rules != NULL ? ATTUNE_OK : error_no_memory(error);
    for (size_t i = 0; i < count && status == ATTUNE_OK; i++) {
        const json_t *row = json_array_get(rules, i);
        if (!read_rule(row, &rates->rules[rates->rule_count++])) {
            status = error_set(error, ATTUNE_INTERNAL, "generator/lua/issue_rates.lua: %s, rule %zu: '%s' is wrong",
                               target->processor, i + 1, json_string_value(json_object_get(row, "pattern")));
        }
    }
    (void)snprintf(rates->generation, sizeof rates->generation, "%s", generation != NULL ? generation : "");
    (void)snprintf(rates->peak_source, sizeof rates->peak_source, "%s", source != NULL ? source : "");
    rates->peak = number_of(json, "peak");
    rates->granule = (int)number_of(json, "granule");
    rates->lds_granule = (int)number_of(json, "lds_granule");
    rates->lds_reserved = (int)number_of(json, "lds_reserved");
    rates->unified = json_is_true(json_object_get(json, "unified"));
    if (status == ATTUNE_OK && (rates->peak <= 0 || rates->granule <= 0 || rates->lds_granule <= 0)) {
        status = error_set(error, ATTUNE_INTERNAL, "generator/lua/issue_rates.lua: %s has no peak or granules",
                           target->processor);
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
