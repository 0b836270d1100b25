/* plan_order.h - what a strategy's name means, and the order in which a list of candidates stands: so that whoever goes
 * by it has seen the default and a cover of the space first. */
#ifndef AUTOTUNE_PLAN_ORDER_H
#define AUTOTUNE_PLAN_ORDER_H

#include "autotune/search.h"
#include "generator/generator.h"

enum plan_scope { PLAN_SPACE, PLAN_COVER, PLAN_DEFAULT }; /* all candidates, a pairwise cover, the default alone */

struct plan {
    const char *name; /* static */
    enum plan_scope scope;
    enum search_strategy search;
};

/* NULL or "" is what suits: model where there are times to learn from and nobody listed the candidates in a file, else
 * exhaustive. model and local need times, a cover and the default need the whole space: refused otherwise, by name. */
attune_status plan_named(const char *strategy, bool timed, const char *file, struct plan *plan, struct error *error);

/* PLAN_SPACE: default, pairwise cover, the rest shuffled by seed. A `file` (one candidate a line, # comments) takes the
 * space's place; the default stands before its lines. At most `limit` candidates (0: all). list->rejected and ->points
 * are the space's. */
attune_status plan_order(struct generator *generator, const struct problem *problem, const struct target *target,
                         enum plan_scope scope, const char *file, uint64_t seed, int limit, struct candidate_list *list,
                         struct error *error);

#endif
