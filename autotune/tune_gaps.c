/* tune_gaps.c - while nothing that is compiled waits for the device, the best so far are timed again, each between two
 * samples of the yardstick. A first look says little; who belongs into the finals is then known better, at no cost.
 *
 * Ratios are of one slot's kernel against one yardstick: they begin anew when either changes.
 */
#include "autotune/measure.h"
#include "autotune/tune_private.h"
#include "base/process.h"

#include <math.h>
#include <string.h>

enum { RATIOS_LEAST = 3 };

void tuning_forget_gap(struct tuning *t, int slot)
{
    t->gaps.of_slot[slot].count = 0;
}

static bool sample(struct tuning *t, int index, double *microseconds)
{
    struct error why = {0};
    const attune_status status = measurer_sample(t->measurer, t->finalists[index].slot, microseconds, &why);
    if (status != ATTUNE_OK) {
        (void)tuning_part_with(t, index, why.message);
    }
    return status == ATTUNE_OK;
}

static void note_ratio(struct tuning *t, struct contender *finalist, double ratio)
{
    struct gap *gap = &t->gaps.of_slot[finalist->slot];
    double sorted[GAP_RATIOS];
    gap->ratios[gap->count++ % GAP_RATIOS] = ratio;
    const int known = gap->count < GAP_RATIOS ? gap->count : GAP_RATIOS;
    if (known >= RATIOS_LEAST) {
        memcpy(sorted, gap->ratios, sizeof sorted);
        finalist->quick = median_of(sorted, known) * t->finalists[0].quick;
    }
}

bool tuning_use_gap(struct tuning *t)
{
    struct gaps *gaps = &t->gaps;
    double before, now, after, ratio = NAN;
    bool steady = false;
    if (!t->facts.timed || !measurer_is_aside(t->measurer) || t->finalist_count < 2 || t->stopped) {
        return false;
    }
    if (gaps->yardstick != t->finalists[0].place) {
        memset(gaps, 0, sizeof *gaps);
        gaps->yardstick = t->finalists[0].place;
    }
    const double begin = clock_seconds();
    const int index = 1 + gaps->turn++ % (t->finalist_count - 1);
    const int count = t->finalist_count;
    if (sample(t, 0, &before) && sample(t, index, &now) && sample(t, 0, &after)) {
        measure_compare(before, now, after, &ratio, &steady);
    }
    if (steady && !isnan(ratio)) {
        note_ratio(t, &t->finalists[index], ratio);
        t->result->between_samples++;
    }
    t->result->between_seconds += clock_seconds() - begin;
    return t->finalist_count == count && !t->stopped;
}
