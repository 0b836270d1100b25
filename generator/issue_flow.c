/* issue_flow.c - a listing as blocks with their cost, and what instructions add up to. */
#include "generator/issue_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- totals ---- */

static bool is_lds(enum issue_class class)
{
    return class == ISSUE_LDS_READ || class == ISSUE_LDS_WRITE || class == ISSUE_LDS_EXCHANGE ||
           class == ISSUE_DIRECT_LOAD;
}

static double lds_cycles(const struct issue_rates *rates, const struct issue_rule *rule)
{
    return is_lds(rule->class) ? (double)rule->bytes * rates->wave * rates->simds / rates->lds_bytes_a_clock : 0;
}

/* what a reader wants to see of a class: the cycles of the unit that it is there for */
static double own_cycles(const struct issue_rates *rates, const struct issue_rule *rule)
{
    switch (rule->class) {
    case ISSUE_MATRIX:
        return rule->cycles[ISSUE_UNIT_MATRIX];
    case ISSUE_EXP:
        return rule->cycles[ISSUE_UNIT_TRANS] > 0 ? rule->cycles[ISSUE_UNIT_TRANS] : rule->cycles[ISSUE_UNIT_VECTOR];
    case ISSUE_SCALAR:
    case ISSUE_BRANCH:
        return rule->cycles[ISSUE_UNIT_SCALAR];
    default:
        return is_lds(rule->class) ? lds_cycles(rates, rule)
                                   : rule->cycles[ISSUE_UNIT_VECTOR] + rule->cycles[ISSUE_UNIT_INTEGER];
    }
}

static void add_rule(struct issue_totals *totals, const struct issue_rates *rates, const struct issue_rule *rule,
                     double times, double share)
{
    double *widths = rule->class == ISSUE_LDS_READ      ? totals->lds_read
                     : rule->class == ISSUE_LDS_WRITE   ? totals->lds_write
                     : rule->class == ISSUE_GLOBAL_LOAD ? totals->global_load
                     : rule->class == ISSUE_DIRECT_LOAD ? totals->direct_load
                                                        : NULL;
    totals->count[rule->class] += times;
    totals->class_cycles[rule->class] += own_cycles(rates, rule) * times * share;
    for (int unit = 0; unit < ISSUE_UNITS; unit++) {
        totals->cycles[unit] += (unit == ISSUE_UNIT_LDS ? lds_cycles(rates, rule) : rule->cycles[unit]) * times * share;
    }
    if (rule->class <= ISSUE_FMA) {
        totals->products[rule->class] += rule->products * times;
    }
    if (widths != NULL) {
        widths[rule->bytes] += times;
    }
    totals->unknown += rule->unknown ? times : 0;
}

void totals_add(struct issue_totals *totals, const struct issue_rates *rates, const struct priced *priced, double times)
{
    if (priced->rule == NULL) {
        totals->unknown += times;
        return;
    }
    /* both halves of a dual instruction go in one slot */
    add_rule(totals, rates, priced->rule, times, priced->second != NULL ? 0.5 : 1);
    if (priced->second != NULL) {
        add_rule(totals, rates, priced->second, times, 0.5);
    }
}

void totals_add_all(struct issue_totals *totals, const struct issue_totals *more, double times)
{
    for (int i = 0; i < ISSUE_CLASSES; i++) {
        totals->count[i] += times * more->count[i];
        totals->class_cycles[i] += times * more->class_cycles[i];
    }
    for (int i = 0; i < ISSUE_UNITS; i++) {
        totals->cycles[i] += times * more->cycles[i];
    }
    for (int i = 0; i < 3; i++) {
        totals->products[i] += times * more->products[i];
    }
    for (int i = 0; i < 17; i++) {
        totals->lds_read[i] += times * more->lds_read[i];
        totals->lds_write[i] += times * more->lds_write[i];
        totals->global_load[i] += times * more->global_load[i];
        totals->direct_load[i] += times * more->direct_load[i];
    }
    totals->unknown += times * more->unknown;
}

double totals_cycles(const struct issue_totals *totals)
{
    double sum = 0;
    for (int unit = 0; unit < ISSUE_UNITS; unit++) {
        sum += totals->cycles[unit];
    }
    return sum;
}

double totals_loads(const struct issue_totals *totals)
{
    return totals->count[ISSUE_GLOBAL_LOAD] + totals->count[ISSUE_DIRECT_LOAD];
}

/* ---- blocks ---- */

/* the mnemonic behind "::", of RDNA's dual instructions */
static const struct issue_rule *second_rule(const struct issue_rates *rates, struct slice operands)
{
    for (size_t i = 0; i + 2 < operands.length; i++) {
        if (operands.text[i] == ':' && operands.text[i + 1] == ':') {
            size_t begin = i + 2;
            while (begin < operands.length && operands.text[begin] == ' ') {
                begin++;
            }
            size_t end = begin;
            while (end < operands.length && operands.text[end] != ' ') {
                end++;
            }
            return issue_rule_find(rates, (struct slice){operands.text + begin, end - begin});
        }
    }
    return NULL;
}

static void cut_blocks(struct flow *flow, const bool *begins)
{
    const struct listing *listing = flow->listing;
    for (int i = 0; i < listing->count; i++) {
        if (begins[i]) {
            flow->blocks[flow->count++] = (struct block){i, i, {-1, -1}};
        }
        flow->blocks[flow->count - 1].end = i + 1;
        flow->block_of[i] = flow->count - 1;
    }
    for (int b = 0; b < flow->count; b++) {
        struct block *block = &flow->blocks[b];
        const struct instruction *last = &listing->items[block->end - 1];
        if (last->branches && last->target >= 0) {
            block->next[0] = flow->block_of[last->target];
        }
        if (last->falls_through && block->end < listing->count) {
            block->next[1] = b + 1;
        }
    }
}

attune_status flow_make(const struct listing *listing, const struct issue_rates *rates, struct flow *flow,
                        struct error *error)
{
    size_t count = (size_t)listing->count + 1;
    bool *begins = calloc(count, sizeof *begins);
    *flow = (struct flow){.listing = listing};
    flow->blocks = calloc(count, sizeof *flow->blocks);
    flow->block_of = calloc(count, sizeof *flow->block_of);
    flow->priced = calloc(count, sizeof *flow->priced);
    flow->products = calloc(count, sizeof *flow->products);
    flow->loads = calloc(count, sizeof *flow->loads);
    flow->cycles = calloc(count, sizeof *flow->cycles);
    if (begins == NULL || flow->blocks == NULL || flow->block_of == NULL || flow->priced == NULL ||
        flow->products == NULL || flow->loads == NULL || flow->cycles == NULL) {
        free(begins);
        flow_free(flow);
        return error_no_memory(error);
    }
    begins[0] = true;
    for (int i = 0; i < listing->count; i++) {
        const struct instruction *at = &listing->items[i];
        if (at->branches && at->target >= 0) {
            begins[at->target] = true;
        }
        if (at->branches || !at->falls_through) {
            begins[i + 1] = true;
        }
        flow->priced[i].rule = issue_rule_find(rates, at->mnemonic);
        if (slice_begins(at->mnemonic, "v_dual_")) {
            flow->priced[i].second = second_rule(rates, at->operands);
        }
    }
    cut_blocks(flow, begins);
    free(begins);
    return ATTUNE_OK;
}

void flow_free(struct flow *flow)
{
    free(flow->blocks);
    free(flow->block_of);
    free(flow->priced);
    free(flow->products);
    free(flow->loads);
    free(flow->cycles);
    *flow = (struct flow){.listing = NULL};
}

enum issue_class flow_multiply(const struct flow *flow)
{
    double products[3] = {0};
    for (int i = 0; i < flow->listing->count; i++) {
        const struct issue_rule *const rules[] = {flow->priced[i].rule, flow->priced[i].second};
        for (int k = 0; k < 2; k++) {
            if (rules[k] != NULL && rules[k]->class <= ISSUE_FMA) {
                products[rules[k]->class] += rules[k]->products;
            }
        }
    }
    return products[ISSUE_MATRIX] > 0 && products[ISSUE_MATRIX] >= products[ISSUE_DOT2] &&
                   products[ISSUE_MATRIX] >= products[ISSUE_FMA]
               ? ISSUE_MATRIX
           : products[ISSUE_DOT2] > 0 && products[ISSUE_DOT2] >= products[ISSUE_FMA] ? ISSUE_DOT2
                                                                                     : ISSUE_FMA;
}

void flow_price(struct flow *flow, const struct issue_rates *rates, enum issue_class multiply)
{
    for (int b = 0; b < flow->count; b++) {
        struct issue_totals totals = {.unknown = 0};
        for (int i = flow->blocks[b].first; i < flow->blocks[b].end; i++) {
            totals_add(&totals, rates, &flow->priced[i], 1);
        }
        flow->products[b] = totals.products[multiply];
        flow->loads[b] = totals_loads(&totals);
        flow->cycles[b] = totals_cycles(&totals);
    }
}
