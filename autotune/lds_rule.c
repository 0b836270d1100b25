/* lds_rule.c - reading a rule, and counting the words that banks are asked for. */
#include "autotune/lds_rule.h"

#include <assert.h>
#include <string.h>

static const int widths[LDS_WIDTHS] = {4, 8, 16};
static const char *const width_names[LDS_WIDTHS] = {"4", "8", "16"};

/* ---- reading ---- */

static attune_status read_text(const json_t *object, const char *key, char *text, size_t bytes, struct error *error)
{
    const char *value = json_string_value(json_object_get(object, key));
    if (value == NULL || value[0] == '\0' || strlen(value) >= bytes) {
        return error_set(error, ATTUNE_INVALID, "the rule of shared memory has no usable `%s`", key);
    }
    strcpy(text, value);
    return ATTUNE_OK;
}

/* lists of lanes -> phase by lane; *lanes is how many there are */
static attune_status read_phases(const json_t *lists, const char *way, const char *width, struct lds_phases *phases,
                                 int *lanes, struct error *error)
{
    bool seen[LDS_LANES_MAX] = {false};
    size_t index, place;
    const json_t *list, *item;
    int count = 0, last = -1;
    json_array_foreach(lists, index, list)
    {
        json_array_foreach(list, place, item)
        {
            const json_int_t lane = json_integer_value(item);
            if (!json_is_integer(item) || lane < 0 || lane >= LDS_LANES_MAX || seen[lane]) {
                return error_set(error, ATTUNE_INVALID,
                                 "the rule of shared memory, %s of %s bytes: a lane is no number from 0 to %d, or is "
                                 "in two phases",
                                 way, width, LDS_LANES_MAX - 1);
            }
            seen[lane] = true;
            phases->phase[lane] = (unsigned char)index;
            last = lane > last ? (int)lane : last;
            count++;
        }
    }
    phases->count = (int)json_array_size(lists);
    if (count == 0 || count != last + 1 || (*lanes > 0 && *lanes != count)) {
        return error_set(error, ATTUNE_INVALID,
                         "the rule of shared memory, %s of %s bytes: %d lanes up to lane %d, of a wave of %d", way,
                         width, count, last, *lanes);
    }
    *lanes = count;
    return ATTUNE_OK;
}

attune_status lds_rule_read(const json_t *facts, struct lds_rule *rule, struct error *error)
{
    const json_t *lds = json_object_get(facts, "lds");
    static const char *const ways[2] = {"read", "write"};
    memset(rule, 0, sizeof *rule);
    rule->banks = (int)json_integer_value(json_object_get(lds, "banks"));
    if (rule->banks < 1 || rule->banks > LDS_BANKS_MAX) {
        return error_set(error, ATTUNE_INVALID, "the rule of shared memory says %d banks: 1 to %d are possible",
                         rule->banks, LDS_BANKS_MAX);
    }
    attune_status status = read_text(lds, "name", rule->name, sizeof rule->name, error);
    if (status == ATTUNE_OK) {
        status = read_text(lds, "status", rule->status, sizeof rule->status, error);
    }
    for (int way = 0; way < 2; way++) {
        const json_t *of = json_object_get(lds, ways[way]);
        const json_t *known = json_object_get(json_object_get(lds, "known"), ways[way]);
        for (int i = 0; i < LDS_WIDTHS && status == ATTUNE_OK; i++) {
            struct lds_phases *phases = way == 0 ? &rule->read[i] : &rule->write[i];
            status = read_text(known, width_names[i], phases->known, sizeof phases->known, error);
            if (status == ATTUNE_OK) {
                status = read_phases(json_object_get(of, width_names[i]), ways[way], width_names[i], phases,
                                     &rule->lanes, error);
            }
        }
    }
    return status;
}

/* ---- counting ---- */

const struct lds_phases *lds_rule_phases(const struct lds_rule *rule, enum host_access kind, uint32_t bytes)
{
    int i = 0;
    while (i < LDS_WIDTHS - 1 && bytes > (uint32_t)widths[i]) {
        i++;
    }
    return kind == HOST_ACCESS_WRITE || kind == HOST_ACCESS_COPY ? &rule->write[i] : &rule->read[i];
}

enum { WORDS_MAX = 4, PHASE_WORDS_MAX = LDS_LANES_MAX * WORDS_MAX };

/* the different words that a phase wants, in chains by bank */
struct banks {
    int16_t first[LDS_BANKS_MAX], next[PHASE_WORDS_MAX];
    uint32_t word[PHASE_WORDS_MAX];
    int wanted[LDS_BANKS_MAX]; /* words of each bank */
    int words, most;           /* in all; of the bank that is asked for most */
};

static void want(struct banks *banks, int bank, uint32_t word)
{
    for (int i = banks->first[bank]; i >= 0; i = banks->next[i]) {
        if (banks->word[i] == word) {
            return;
        }
    }
    banks->word[banks->words] = word;
    banks->next[banks->words] = banks->first[bank];
    banks->first[bank] = (int16_t)banks->words++;
    banks->wanted[bank]++;
    banks->most = banks->wanted[bank] > banks->most ? banks->wanted[bank] : banks->most;
}

struct lds_cost lds_rule_cost(const struct lds_rule *rule, const struct host_wave_access *access)
{
    const struct lds_phases *phases = lds_rule_phases(rule, access->kind, access->bytes);
    const uint32_t lanes = access->lanes < (uint32_t)rule->lanes ? access->lanes : (uint32_t)rule->lanes;
    struct lds_cost cost = {0, 0};
    assert(access->bytes > 0 && access->bytes <= 4 * WORDS_MAX);
    for (int phase = 0; phase < phases->count; phase++) {
        struct banks banks = {.words = 0};
        memset(banks.first, -1, sizeof banks.first);
        for (uint32_t lane = 0; lane < lanes; lane++) {
            if (phases->phase[lane] != phase || access->offset[lane] == HOST_TRACE_ABSENT) {
                continue;
            }
            const uint32_t last = (access->offset[lane] + access->bytes - 1) / 4;
            for (uint32_t word = access->offset[lane] / 4; word <= last; word++) {
                want(&banks, (int)(word % (uint32_t)rule->banks), word);
            }
        }
        cost.ideal += (uint32_t)((banks.words + rule->banks - 1) / rule->banks);
        cost.cycles += (uint32_t)banks.most;
    }
    return cost;
}
