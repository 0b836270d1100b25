/* tune_finals.c - the best dozen and the default in interleaved rounds, fewer of them from stage to stage.
 *
 * What counts are ratios to the yardstick beside each sample, so a clock that drifts changes no order. It does change
 * the times that are told: finals during which the yardstick drifted are held again, and what drift is left is told.
 */
#include "autotune/tune_private.h"

#include "autotune/measure.h"
#include "autotune/ties.h"
#include "base/process.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_MAX = 3 };
static const struct measure_stage stages[] = {{3, TUNING_FINALISTS / 2}, {8, 3}, {15, 0}};
static const double tie_band = 0.01, warm_milliseconds = 200.0;

static attune_status sample_finalist(void *data, int entry, double *microseconds, struct error *error)
{
    struct tuning *t = data;
    t->sampled = entry;
    return measurer_sample(t->measurer, t->finalists[entry].slot, microseconds, error);
}

static struct tie tie_of(const struct contender *contender)
{
    return (struct tie){.standard = contender->place == 0,
                        .fixed = contender->facts.launch.fixed_count > 0,
                        .name = contender->facts.name};
}

static int by_tie(const void *a, const void *b)
{
    const struct tie left = tie_of(a), right = tie_of(b);
    return tie_compare(&left, &right);
}

/* The first is the yardstick, and ties go to it and then to the next: the same ones whatever the seed's order is. */
static void order_finalists(struct tuning *t)
{
    int yardstick = t->finalist_count > 0 ? t->finalists[0].place : -1;
    qsort(t->finalists, (size_t)t->finalist_count, sizeof t->finalists[0], by_tie);
    if (t->finalist_count > 0 && t->finalists[0].place != yardstick) {
        t->yardstick_begin = 0.0;
    }
}

void tuning_drop_finalist(struct tuning *t, int index, const char *reason)
{
    struct tune_outcome *outcome = &t->result->outcomes[t->finalists[index].place];
    tuning_fail(t, &t->finalists[index].facts, outcome, reason);
    journal_write_outcome(&t->journal, JOURNAL_FINAL, outcome);
    t->result->counts.verified--;
    if (index == 0) {
        t->yardstick_begin = 0.0; /* another one is the yardstick from now on */
    }
    measurer_drop(t->measurer, t->finalists[index].slot, NULL);
    memmove(&t->finalists[index], &t->finalists[index + 1],
            (size_t)(t->finalist_count - index - 1) * sizeof t->finalists[0]);
    t->finalist_count--;
}

bool tuning_part_with(struct tuning *t, int index, const char *reason)
{
    const enum measurer_fate fate = measurer_fate(t->measurer);
    if (fate == MEASURER_LOST || fate == MEASURER_INTERRUPTED) {
        t->device_dead |= fate == MEASURER_LOST;
        t->stopped = true;
        return false;
    }
    tuning_drop_finalist(t, index, reason);
    return true;
}

/* Rounds, begun again without a finalist that fails. course->rounds 0: there were none, for want of time or device. */
static void hold_rounds(struct tuning *t, struct measure_result *results, struct measure_course *course)
{
    const struct measure_source source = {.data = t, .sample = sample_finalist};
    *course = (struct measure_course){.rounds = 0};
    while (t->finalist_count > 0 && !t->device_dead) {
        struct error why = {0};
        t->sampled = 0;
        attune_status status = measurer_warm(t->measurer, t->finalists[0].slot, warm_milliseconds, &why);
        if (status == ATTUNE_OK) {
            status = measure_halving(&source, t->finalist_count, 0, stages, sizeof stages / sizeof stages[0], tie_band,
                                     t->deadline, results, course, &why);
        }
        if (status == ATTUNE_OK) {
            return;
        }
        course->rounds = 0;
        if (!tuning_part_with(t, t->sampled, why.message)) {
            return;
        }
    }
}

/* relative change from one time to another; 0 where either is not known */
static double drift_between(double before, double after)
{
    return before > 0.0 && after > 0.0 ? fabs(after / before - 1.0) : 0.0;
}

/* Again while the yardstick drifts, as long as there is time. The drift that is left is the result's: within the
 * finals, or from the run's first samples to them. */
static void hold_steady_rounds(struct tuning *t, struct measure_result *results, struct measure_course *course)
{
    double within = 0.0;
    for (int held = 0; held < HELD_MAX; held++) {
        hold_rounds(t, results, course);
        within = drift_between(course->before, course->after);
        if (within <= TUNE_DRIFT_MAX || course->rounds == 0 || t->stopped || tuning_is_interrupted(t) ||
            (t->deadline > 0.0 && clock_seconds() >= t->deadline)) {
            break;
        }
    }
    t->result->drift = fmax(within, drift_between(t->yardstick_begin, course->before));
}

attune_status tuning_hold_finals(struct tuning *t, int *winner, struct error *error)
{
    struct measure_result results[TUNING_FINALISTS + 1] = {{0}};
    struct measure_course course;
    order_finalists(t);
    *winner = 0;
    if (!t->facts.timed) {
        return ATTUNE_OK;
    }
    hold_steady_rounds(t, results, &course);
    if (t->finalist_count == 0) {
        return ATTUNE_OK;
    }
    for (int i = 0; i < t->finalist_count && course.rounds == 0; i++) { /* what there is when rounds are impossible */
        results[i] = (struct measure_result){.microseconds = t->finalists[i].quick};
    }
    bool has_default = t->finalists[0].place == 0;
    *winner = measure_choose(results, t->finalist_count, has_default ? 0 : -1, tie_band);
    if (*winner < 0) {
        return error_set(error, ATTUNE_DEVICE_FAILED, "%s gave no usable time in %d rounds", t->facts.device.name,
                         course.rounds);
    }
    for (int i = 0; i < t->finalist_count; i++) {
        struct tune_outcome *outcome = &t->result->outcomes[t->finalists[i].place];
        tuning_set_outcome(outcome, "timed", "");
        outcome->microseconds = results[i].microseconds;
        outcome->spread = results[i].spread;
        journal_write_outcome(&t->journal, JOURNAL_FINAL, outcome);
    }
    t->result->counts.best_microseconds = results[*winner].microseconds;
    t->result->counts.default_microseconds = has_default ? results[0].microseconds : 0.0;
    return ATTUNE_OK;
}
