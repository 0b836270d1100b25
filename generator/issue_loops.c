/* issue_loops.c - loops as strongly connected parts of the flow, one iteration of each, and which is hottest.
 *
 * A loop is a strongly connected part with more than one block, or one block that follows itself; its header is the
 * block that is entered from outside. Without the edges into the header, what is still connected inside are the loops
 * in it, and the rest is a graph without cycles in which one iteration is a path from the header to a block that goes
 * back to it.
 */
#include "generator/issue_private.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct analysis {
    const struct flow *flow;
    const struct issue_rates *rates;
    struct issue_report *report;
    struct error *error;
    int *region;                     /* block -> number of the innermost region looked at that holds it */
    int regions;                     /* numbers given */
    int *index, *low, *stack, *edge; /* of the search for connected parts, by block */
    bool *on_stack, *inside;         /* by block, by instruction */
};

/* the blocks of a region, part by part, every part before the parts that lead to it */
struct parts {
    int *blocks, *begin, *of; /* begin[count] is the end; `of` by block of the whole flow */
    int count;
};

static void parts_free(struct parts *parts)
{
    free(parts->blocks);
    free(parts->begin);
    free(parts->of);
}

/* does the edge stay in the region, and not go back to its header? */
static bool follows(const struct analysis *analysis, int region, int header, int next)
{
    return next >= 0 && next != header && analysis->region[next] == region;
}

/* Tarjan's search from one block, with a stack of its own: listings may be long */
static void search_parts(struct analysis *analysis, int region, int header, int root, int *counter, int *depth,
                         struct parts *parts)
{
    int *path = analysis->edge; /* blocks on the way; behind them, by block, how many of its edges were taken */
    int length = 0, used = parts->begin[parts->count];
    int *taken = analysis->edge + analysis->flow->count;
    path[length++] = root;
    analysis->index[root] = analysis->low[root] = ++*counter;
    analysis->stack[(*depth)++] = root;
    analysis->on_stack[root] = true;
    taken[root] = 0;
    while (length > 0) {
        int block = path[length - 1];
        if (taken[block] < 2) {
            int next = analysis->flow->blocks[block].next[taken[block]++];
            if (!follows(analysis, region, header, next)) {
                continue;
            }
            if (analysis->index[next] == 0) {
                analysis->index[next] = analysis->low[next] = ++*counter;
                analysis->stack[(*depth)++] = next;
                analysis->on_stack[next] = true;
                taken[next] = 0;
                path[length++] = next;
            } else if (analysis->on_stack[next] && analysis->index[next] < analysis->low[block]) {
                analysis->low[block] = analysis->index[next];
            }
            continue;
        }
        length--;
        if (length > 0 && analysis->low[block] < analysis->low[path[length - 1]]) {
            analysis->low[path[length - 1]] = analysis->low[block];
        }
        if (analysis->low[block] == analysis->index[block]) {
            int popped;
            do {
                popped = analysis->stack[--*depth];
                analysis->on_stack[popped] = false;
                parts->of[popped] = parts->count;
                parts->blocks[used++] = popped;
            } while (popped != block);
            parts->begin[++parts->count] = used;
        }
    }
}

static attune_status find_parts(struct analysis *analysis, int region, int header, const int *blocks, int count,
                                struct parts *parts)
{
    size_t all = (size_t)analysis->flow->count;
    int counter = 0, depth = 0;
    *parts = (struct parts){.count = 0};
    parts->blocks = calloc((size_t)count + 1, sizeof *parts->blocks);
    parts->begin = calloc((size_t)count + 2, sizeof *parts->begin);
    parts->of = calloc(all + 1, sizeof *parts->of);
    if (parts->blocks == NULL || parts->begin == NULL || parts->of == NULL) {
        return error_no_memory(analysis->error);
    }
    for (int i = 0; i < count; i++) {
        analysis->index[blocks[i]] = 0;
    }
    for (int i = 0; i < count; i++) {
        if (analysis->index[blocks[i]] == 0) {
            search_parts(analysis, region, header, blocks[i], &counter, &depth, parts);
        }
    }
    return ATTUNE_OK;
}

/* ---- one loop ---- */

struct loop_work {
    const int *blocks;
    int count, header;
    int loop; /* index in the report */
};

static attune_status analyse_region(struct analysis *analysis, int region, const struct loop_work *around, int nesting,
                                    const int *blocks, int count);

/* the one conditional branch that leaves the loop, -1: several, or none */
static int only_exit(const struct analysis *analysis, int region, const int *blocks, int count)
{
    int exit = -1, exits = 0;
    for (int i = 0; i < count; i++) {
        const struct block *block = &analysis->flow->blocks[blocks[i]];
        for (int k = 0; k < 2; k++) {
            if (block->next[k] >= 0 && analysis->region[block->next[k]] != region) {
                exit = block->end - 1;
                exits++;
            }
        }
    }
    return exits == 1 && analysis->flow->listing->items[exit].branches &&
                   analysis->flow->listing->items[exit].falls_through
               ? exit
               : -1;
}

/* the block entered from outside with the lowest address, else the lowest */
static int find_header(const struct analysis *analysis, int region, const int *blocks, int count)
{
    int lowest = blocks[0], header = -1;
    for (int i = 1; i < count; i++) {
        lowest = blocks[i] < lowest ? blocks[i] : lowest;
    }
    for (int b = 0; b < analysis->flow->count; b++) {
        for (int k = 0; k < 2 && analysis->region[b] != region; k++) {
            int next = analysis->flow->blocks[b].next[k];
            if (next >= 0 && analysis->region[next] == region && (header < 0 || next < header)) {
                header = next;
            }
        }
    }
    return header >= 0 ? header : lowest;
}

static void describe_loop(struct analysis *analysis, int region, const int *blocks, int count, int header, int parent,
                          struct issue_loop *loop)
{
    const struct listing *listing = analysis->flow->listing;
    int exit = only_exit(analysis, region, blocks, count);
    loop->parent = parent;
    loop->begin = UINT64_MAX;
    memset(analysis->inside, 0, (size_t)listing->count * sizeof *analysis->inside);
    for (int i = 0; i < count; i++) {
        const struct block *block = &analysis->flow->blocks[blocks[i]];
        uint64_t first = listing->items[block->first].address, last = listing->items[block->end - 1].address;
        memset(analysis->inside + block->first, 1, (size_t)(block->end - block->first));
        loop->begin = first < loop->begin ? first : loop->begin;
        loop->end = last > loop->end ? last : loop->end;
        loop->instructions += block->end - block->first;
    }
    int first = analysis->flow->blocks[header].first;
    if (islower((unsigned char)listing->items[first].mnemonic.text[0])) { /* AMD */
        loop->trips = evaluate_trips(listing, analysis->inside, first);
    } else if (exit >= 0) {
        loop->trips = counted_trips(listing, analysis->inside, first, exit);
    }
}

/* values along the best path to a part */
struct reach {
    double products, loads, cycles;
    int from; /* part, -1: the header's */
    bool reached;
};

static bool is_better(const struct reach *a, const struct reach *b)
{
    if (!b->reached || a->products != b->products) {
        return !b->reached || a->products > b->products;
    }
    return a->loads != b->loads ? a->loads > b->loads : a->cycles < b->cycles;
}

/* what going through part `part` costs: its block's, or its loop's as often as it is counted */
static void cost_of_part(const struct analysis *analysis, const struct parts *parts, const int *loop_of_part, int part,
                         struct reach *value)
{
    int loop = loop_of_part[part];
    if (loop < 0) {
        int block = parts->blocks[parts->begin[part]];
        value->products += analysis->flow->products[block];
        value->loads += analysis->flow->loads[block];
        value->cycles += analysis->flow->cycles[block];
    } else if (analysis->report->loops[loop].counted) {
        const struct issue_loop *inner = &analysis->report->loops[loop];
        value->products += inner->trips * inner->totals.products[analysis->report->multiply];
        value->loads += inner->trips * totals_loads(&inner->totals);
        value->cycles += inner->trips * totals_cycles(&inner->totals);
    }
}

static void add_part(const struct analysis *analysis, const struct parts *parts, const int *loop_of_part, int part,
                     struct issue_totals *totals)
{
    int loop = loop_of_part[part];
    if (loop >= 0 && analysis->report->loops[loop].counted) {
        totals_add_all(totals, &analysis->report->loops[loop].totals, analysis->report->loops[loop].trips);
    }
    if (loop < 0) {
        const struct block *block = &analysis->flow->blocks[parts->blocks[parts->begin[part]]];
        for (int i = block->first; i < block->end; i++) {
            totals_add(totals, analysis->rates, &analysis->flow->priced[i], 1);
        }
    }
}

/* The parts come last first. Fills the loop's totals with those of the best path, and the cycles beside it. */
static attune_status best_path(struct analysis *analysis, int region, const struct loop_work *work,
                               const struct parts *parts, const int *loop_of_part)
{
    struct issue_loop *loop = &analysis->report->loops[work->loop];
    struct reach *reach = calloc((size_t)parts->count + 1, sizeof *reach);
    struct reach best = {.reached = false};
    int last = -1;
    double all = 0, path = 0;
    if (reach == NULL) {
        return error_no_memory(analysis->error);
    }
    reach[parts->of[work->header]] = (struct reach){.from = -1, .reached = true};
    for (int part = parts->count - 1; part >= 0; part--) {
        struct reach value = reach[part];
        bool back = false;
        if (loop_of_part[part] < 0) {
            all += analysis->flow->cycles[parts->blocks[parts->begin[part]]];
        }
        if (!value.reached) {
            continue;
        }
        cost_of_part(analysis, parts, loop_of_part, part, &value);
        value.from = part;
        for (int i = parts->begin[part]; i < parts->begin[part + 1]; i++) {
            for (int k = 0; k < 2; k++) {
                int next = analysis->flow->blocks[parts->blocks[i]].next[k];
                back |= next == work->header;
                if (follows(analysis, region, work->header, next) && parts->of[next] != part &&
                    is_better(&value, &reach[parts->of[next]])) {
                    reach[parts->of[next]] = value;
                }
            }
        }
        if (back && is_better(&value, &best)) {
            best = value;
            last = part;
        }
    }
    for (int part = last; part >= 0; part = reach[part].from) {
        add_part(analysis, parts, loop_of_part, part, &loop->totals);
        path += loop_of_part[part] < 0 ? analysis->flow->cycles[parts->blocks[parts->begin[part]]] : 0;
    }
    loop->beside_cycles = all - path;
    free(reach);
    return ATTUNE_OK;
}

static attune_status analyse_loop(struct analysis *analysis, const int *blocks, int count, int parent, int nesting,
                                  int *result)
{
    struct issue_report *report = analysis->report;
    if (report->loop_count == ISSUE_LOOPS_MAX || nesting > ISSUE_DEPTH_MAX) {
        return error_set(analysis->error, ATTUNE_UNSUPPORTED, "the kernel has more than %d loops, or deeper than %d",
                         ISSUE_LOOPS_MAX, ISSUE_DEPTH_MAX);
    }
    int region = ++analysis->regions;
    for (int i = 0; i < count; i++) {
        analysis->region[blocks[i]] = region;
    }
    struct loop_work work = {blocks, count, find_header(analysis, region, blocks, count), report->loop_count++};
    report->loops[work.loop] = (struct issue_loop){.parent = -1};
    describe_loop(analysis, region, blocks, count, work.header, parent, &report->loops[work.loop]);
    attune_status status = analyse_region(analysis, region, &work, nesting, blocks, count);
    *result = work.loop;
    return status;
}

/* the loops inside a region; `around` NULL: the whole flow, which has no iteration of its own */
static attune_status analyse_region(struct analysis *analysis, int region, const struct loop_work *around, int nesting,
                                    const int *blocks, int count)
{
    struct parts parts;
    int *loop_of_part = NULL;
    int header = around != NULL ? around->header : -1;
    attune_status status = find_parts(analysis, region, header, blocks, count, &parts);
    if (status == ATTUNE_OK) {
        loop_of_part = calloc((size_t)parts.count + 1, sizeof *loop_of_part);
        status = loop_of_part != NULL ? ATTUNE_OK : error_no_memory(analysis->error);
    }
    for (int part = 0; part < parts.count && status == ATTUNE_OK; part++) {
        const int *inner = parts.blocks + parts.begin[part];
        int size = parts.begin[part + 1] - parts.begin[part];
        const struct block *first = &analysis->flow->blocks[inner[0]];
        bool itself = inner[0] != header && (first->next[0] == inner[0] || first->next[1] == inner[0]);
        loop_of_part[part] = -1;
        if (size > 1 || itself) {
            status = analyse_loop(analysis, inner, size, around != NULL ? around->loop : -1, nesting + 1,
                                  &loop_of_part[part]);
            for (int i = 0; i < size; i++) {
                analysis->region[inner[i]] = region;
            }
        }
        if (status == ATTUNE_OK && loop_of_part[part] >= 0) {
            struct issue_loop *loop = &analysis->report->loops[loop_of_part[part]];
            loop->counted = around != NULL && loop->trips > 0;
        }
    }
    if (status == ATTUNE_OK && around != NULL) {
        status = best_path(analysis, region, around, &parts, loop_of_part);
    }
    free(loop_of_part);
    parts_free(&parts);
    return status;
}

/* ---- which one ---- */

static void choose(struct issue_report *report)
{
    double weights[ISSUE_LOOPS_MAX], heaviest = 0;
    int counted = 0, alike = 0, deep = 0;
    report->hottest = -1;
    for (int i = 0; i < report->loop_count; i++) { /* outer loops come first */
        struct issue_loop *loop = &report->loops[i];
        for (int at = i; report->loops[at].parent >= 0; at = report->loops[at].parent) {
            loop->depth += !report->loops[at].counted;
        }
        weights[i] = totals_cycles(&loop->totals);
        for (int level = 0; level < loop->depth; level++) {
            weights[i] *= ISSUE_ASSUMED_TRIPS;
        }
        counted += loop->counted;
        if (!loop->counted && (report->hottest < 0 || weights[i] > heaviest)) {
            heaviest = weights[i];
            report->hottest = i;
        }
    }
    if (report->hottest < 0) {
        (void)snprintf(report->why, sizeof report->why, "the code has no loop: every instruction once");
        return;
    }
    const struct issue_loop *first = &report->loops[report->hottest];
    double products = first->totals.products[report->multiply];
    int cheapest = report->hottest;
    for (int i = 0; i < report->loop_count && products > 0; i++) {
        const struct issue_loop *loop = &report->loops[i];
        if (!loop->counted && loop->depth == first->depth &&
            loop->totals.products[report->multiply] >= 0.98 * products) {
            alike++;
            cheapest = totals_cycles(&loop->totals) < totals_cycles(&report->loops[cheapest].totals) ? i : cheapest;
        }
    }
    report->hottest = cheapest;
    deep = report->loops[cheapest].depth;
    int length =
        snprintf(report->why, sizeof report->why, "of %d loops the one with the most cycles", report->loop_count);
    if (deep > 0) {
        length += snprintf(report->why + length, sizeof report->why - (size_t)length,
                           ", each loop around it assumed to run %d times less", ISSUE_ASSUMED_TRIPS);
    }
    if (alike > 1) {
        length += snprintf(report->why + length, sizeof report->why - (size_t)length,
                           "; the cheapest of %d that multiply alike: the others have masks", alike);
    }
    if (counted > 0) {
        (void)snprintf(report->why + length, sizeof report->why - (size_t)length,
                       "; %d that run a constant number of times are counted in those around them", counted);
    }
}

attune_status issue_analyse(const struct listing *listing, const struct issue_rates *rates, struct issue_report *report,
                            struct error *error)
{
    struct flow flow;
    struct analysis analysis = {.flow = &flow, .rates = rates, .report = report, .error = error};
    memset(report, 0, sizeof *report);
    report->hottest = -1;
    attune_status status = flow_make(listing, rates, &flow, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    size_t count = (size_t)flow.count + 1;
    report->multiply = flow_multiply(&flow);
    flow_price(&flow, rates, report->multiply);
    for (int i = 0; i < listing->count; i++) {
        totals_add(&report->whole, rates, &flow.priced[i], 1);
    }
    int *numbers = calloc(6 * count, sizeof *numbers);
    int *blocks = calloc(count, sizeof *blocks);
    bool *flags = calloc(count + (size_t)listing->count + 1, sizeof *flags);
    if (numbers == NULL || blocks == NULL || flags == NULL) {
        status = error_no_memory(error);
    } else {
        analysis.region = numbers;
        analysis.index = numbers + count;
        analysis.low = numbers + 2 * count;
        analysis.stack = numbers + 3 * count;
        analysis.edge = numbers + 4 * count; /* two runs: the way, and edges taken */
        analysis.on_stack = flags;
        analysis.inside = flags + count;
        for (int b = 0; b < flow.count; b++) {
            blocks[b] = b;
        }
        status = analyse_region(&analysis, 0, NULL, 0, blocks, flow.count);
    }
    if (status == ATTUNE_OK) {
        choose(report);
    }
    free(numbers);
    free(blocks);
    free(flags);
    flow_free(&flow);
    return status;
}
