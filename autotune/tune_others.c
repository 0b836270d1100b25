/* tune_others.c - what an earlier run found beyond the list that goes on: all that holds competes, whatever list or
 * strategy is named now.
 *
 * Candidates of the journal that the plan does not list are put behind the list's own, from t->planned on. Nobody asks
 * for them: the search is told what is known of them, those of which nothing holds are taken out again.
 */
#include "autotune/tune_private.h"

#include <stdlib.h>
#include <string.h>

static int by_id(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* ids of the list's candidates, sorted; free() */
static char (*sorted_ids(const struct tuning *t))[CANDIDATE_ID_BYTES]
{
    char(*ids)[CANDIDATE_ID_BYTES] = malloc(((size_t)t->list.count + 1) * sizeof *ids);
    for (int i = 0; ids != NULL && i < t->list.count; i++) {
        memcpy(ids[i], t->result->outcomes[i].id, sizeof ids[i]);
    }
    if (ids != NULL) {
        qsort(ids, (size_t)t->list.count, sizeof *ids, by_id);
    }
    return ids;
}

/* room for so many more; what is there keeps its place */
static bool make_room(struct tuning *t, int more)
{
    const size_t room = (size_t)t->list.count + (size_t)more + 1;
    struct candidate *items = realloc(t->list.items, room * sizeof *items);
    if (items != NULL) {
        t->list.items = items;
    }
    struct tune_outcome *outcomes = realloc(t->result->outcomes, room * sizeof *outcomes);
    if (outcomes != NULL) {
        t->result->outcomes = outcomes;
    }
    return items != NULL && outcomes != NULL;
}

static void tell_count(struct tuning *t)
{
    t->result->outcome_count = t->result->listed = t->result->counts.candidates = t->list.count;
}

attune_status tuning_add_others(struct tuning *t, struct generator *generator, const struct journal_reading *reading,
                                struct error *error)
{
    const struct target *target = &t->facts.device.target;
    char(*ids)[CANDIDATE_ID_BYTES] = sorted_ids(t);
    if (ids == NULL || !make_room(t, reading->outcome_count)) {
        free(ids);
        return error_no_memory(error);
    }
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct journal_outcome *earlier = &reading->outcomes[i];
        struct candidate *one = &t->list.items[t->list.count];
        if (!earlier->counts || earlier->what.object[0] == '\0' ||
            bsearch(earlier->what.id, ids, (size_t)t->planned, sizeof *ids, by_id) != NULL ||
            candidate_parse(generator, earlier->what.candidate, t->problem, target, one, NULL) != ATTUNE_OK ||
            candidate_check(generator, one, t->problem, target, NULL) != ATTUNE_OK) {
            continue; /* listed, never expanded, or none of today's space */
        }
        struct tune_outcome *outcome = &t->result->outcomes[t->list.count];
        *outcome = (struct tune_outcome){.looked = false};
        candidate_format(one, outcome->candidate);
        candidate_id(one, outcome->id);
        t->list.count += strcmp(outcome->candidate, earlier->what.candidate) == 0; /* as we write it */
    }
    free(ids);
    tell_count(t);
    return ATTUNE_OK;
}

void tuning_drop_others(struct tuning *t)
{
    int kept = t->planned;
    for (int i = t->planned; i < t->list.count; i++) {
        if (t->known[i].holds) {
            t->list.items[kept] = t->list.items[i];
            t->result->outcomes[kept] = t->result->outcomes[i];
            t->known[kept++] = t->known[i];
        }
    }
    t->list.count = kept;
    tell_count(t);
}

bool tuning_is_narrower(const struct tuning *t, const struct journal_begin *begin)
{
    const bool same = strcmp(begin->strategy, t->plan.name) == 0;
    const bool whole = t->plan.scope == PLAN_SPACE && t->options->candidates == NULL;
    const bool others = t->list.count > t->planned;
    if (t->plan.scope != PLAN_SPACE && same) {
        return false; /* the cover or the default of today's space, as it was of that day's */
    }
    if (!whole && (others || begin->candidates > t->planned)) {
        return true;
    }
    /* who comes to the end of all of it has done what any strategy would; of others only the same one has */
    return t->plan.search != SEARCH_EXHAUSTIVE && !same && begin->strategy[0] != '\0' &&
           begin->candidates >= t->planned;
}
