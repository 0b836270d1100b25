/* issue_private.h - what the files of the loop analysis share. */
#ifndef GENERATOR_ISSUE_PRIVATE_H
#define GENERATOR_ISSUE_PRIVATE_H

#include "generator/issue.h"

/* instructions [first, end) that are always run together */
struct block {
    int first, end;
    int next[2]; /* blocks that may follow, -1: none */
};

struct flow {
    const struct listing *listing;
    struct block *blocks;
    int count;
    int *block_of; /* instruction -> block */
    struct priced {
        const struct issue_rule *rule, *second; /* of both halves of a dual instruction; NULL: no rule */
    } * priced;                                 /* of every instruction */
    double *products, *loads, *cycles;          /* of every block; the multiply's products, loads, all units' cycles */
};
attune_status flow_make(const struct listing *listing, const struct issue_rates *rates, struct flow *flow,
                        struct error *error);
void flow_free(struct flow *flow);

/* the multiplies of the listing: whichever class does most products */
enum issue_class flow_multiply(const struct flow *flow);
/* fills products and cycles */
void flow_price(struct flow *flow, const struct issue_rates *rates, enum issue_class multiply);

/* adds instruction `index`, run `times` times */
void totals_add(struct issue_totals *totals, const struct issue_rates *rates, const struct priced *priced,
                double times);
void totals_add_all(struct issue_totals *totals, const struct issue_totals *more, double times);
double totals_cycles(const struct issue_totals *totals); /* of all units */
double totals_loads(const struct issue_totals *totals);  /* from global memory, into registers or LDS */

/* How often a loop's body runs each time it is entered, where that is a constant that its code shows; 0: not known.
 * `inside` tells of each instruction whether it is in the loop, `header` is its first one in the flow. AMD's code is
 * evaluated; of NVIDIA's `exit`, the only branch that leaves, is looked at. */
int evaluate_trips(const struct listing *listing, const bool *inside, int header);
int counted_trips(const struct listing *listing, const bool *inside, int header, int exit);

#endif
