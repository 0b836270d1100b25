/* plan_order.h - which candidates are looked at, and in which order: so that a budget that ends early has seen the
 * default and a cover of the space first. */
#ifndef AUTOTUNE_PLAN_ORDER_H
#define AUTOTUNE_PLAN_ORDER_H

#include "generator/generator.h"

/* strategy NULL or "sweep": default, pairwise cover, the rest shuffled by seed; "cover": without the rest; "default":
 * it alone. A `file` (one candidate a line, # comments) takes the space's place; the default stands before its lines.
 * At most `limit` candidates (0: all). list->rejected and ->points are the space's. */
attune_status plan_order(struct generator *generator, const struct problem *problem, const struct target *target,
                         const char *strategy, const char *file, uint64_t seed, int limit, struct candidate_list *list,
                         struct error *error);

#endif
