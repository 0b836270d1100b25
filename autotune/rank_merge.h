/* rank_merge.h - from the journals of several ranks to one choice.
 *
 * Each journal was written on a device of its own, by a clock of its own: a candidate counts by its time over the
 * default's in the same journal. The choice depends on the journals' outcomes and the order of candidates alone, not on
 * the order of the journals.
 */
#ifndef AUTOTUNE_RANK_MERGE_H
#define AUTOTUNE_RANK_MERGE_H

#include "autotune/journal.h"

/* the candidates of a problem in the order of the plan, the default first */
struct rank_order {
    char (*ids)[CANDIDATE_ID_BYTES];
    int count;
};

struct rank_choice {
    int found; /* 0: no journal has a right candidate */
    char candidate[CANDIDATE_TEXT_BYTES];
    char id[CANDIDATE_ID_BYTES];
    char object[DIGEST_HEX_BYTES];             /* what was right and timed; "" where the journal does not say */
    double microseconds, default_microseconds; /* of one journal, the winner's; 0 when not timed */
    double ratio;                              /* winner over default; 0 when not timed */
    int tried, looks;                          /* distinct candidates of all journals */
    int verified, rejected, timed;
    struct tune_outcome *outcomes; /* one for each distinct candidate, in the plan's order; free() */
    int outcome_count;
};

/* The choice from `count` readings. `timed`: the fastest; of those within 1 % of it the first by tie_compare (ties.h),
 * as in a single run. Otherwise the first right one in order. In a journal with times of the finals only these count. A
 * journal whose default has no time is measured by the median of the other journals' defaults, and where no journal has
 * one, times are compared as they are. ATTUNE_NO_MEMORY. */
attune_status rank_choose(const struct journal_reading *readings, int count, const struct rank_order *order, bool timed,
                          struct rank_choice *choice, struct error *error);

#endif
