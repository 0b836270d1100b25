/* measure.h - from samples to a winner, whatever the timer: rounds, robust statistics, ties.
 *
 * Samples of all entries are interleaved, and the baseline is sampled before and after each: an entry counts by its
 * ratio to its two neighbours, and only where these agree, so that a clock that changes or work of others that comes
 * and goes changes nothing. Samples that are zero, negative, NaN or infinite are discarded.
 */
#ifndef AUTOTUNE_MEASURE_H
#define AUTOTUNE_MEASURE_H

#include "base/error.h"

#include <stdbool.h>

struct measure_source {
    void *data;
    attune_status (*sample)(void *data, int entry, double *microseconds, struct error *error);
    double (*now)(void *data); /* seconds, for the deadline; NULL: clock_seconds */
};

struct measure_result {
    double microseconds; /* median; 0 when no sample was good */
    double spread;       /* median absolute deviation */
    int samples;
    bool left; /* the rounds went on without it: it is no winner */
};

/* After so many rounds in all the slower ones leave: so many of the fastest go on, the baseline beside them, and
 * whoever is within the tie of the fastest or had no good sample yet. The last stage's `keep` is not used. */
struct measure_stage {
    int rounds, keep;
};

struct measure_course {
    int rounds;           /* that were made */
    double before, after; /* the baseline's time in the first and in the last round; 0: no good sample */
};

enum { MEASURE_ROUNDS_MAX = 64 };

/* At most `rounds` rounds over `count` entries; entry `baseline` is the yardstick. After the first round none is begun
 * past `deadline` (0: none). *done says how many were made. A failing sample ends the measurement with its status. */
attune_status measure_rounds(const struct measure_source *source, int count, int baseline, int rounds, double deadline,
                             struct measure_result *results, int *done, struct error *error);

/* As above, with fewer entries from stage to stage, since many of them need few rounds to be told from the best. All
 * keep what was measured of them. `stages` in ascending order of rounds. */
attune_status measure_halving(const struct measure_source *source, int count, int baseline,
                              const struct measure_stage *stages, int stage_count, double tie, double deadline,
                              struct measure_result *results, struct measure_course *course, struct error *error);

/* The winner among the entries that have not left: the baseline if it is within `tie` (0.01) of the fastest of them,
 * else the first in order of those within half of that. An entry at the band's edge is in it in one run and not in the
 * next: with half the band for all but the baseline whoever wins is within the whole of it in every run. -1 when none
 * has a good sample. */
int measure_choose(const struct measure_result *results, int count, int baseline, double tie);

/* A sample between two of the yardstick: *ratio to them, left as it is where there is no time to compare; *steady when
 * the yardstick's two agree within 5 %, so that nothing changed meanwhile. */
void measure_compare(double before, double sample, double after, double *ratio, bool *steady);

double median_of(double *values, int count); /* reorders values; 0 for count 0 */

#endif
