/* tune_finals.c - the best dozen and the default in interleaved rounds. */
#include "autotune/tune_private.h"

#include "autotune/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 15 };
static const double tie_band = 0.01, warm_milliseconds = 200.0;

static attune_status sample_finalist(void *data, int entry, double *microseconds, struct error *error)
{
    struct tuning *t = data;
    t->sampled = entry;
    return measurer_sample(t->measurer, t->finalists[entry].slot, microseconds, error);
}

static int by_place(const void *a, const void *b)
{
    return ((const struct contender *)a)->place - ((const struct contender *)b)->place;
}

void tuning_drop_finalist(struct tuning *t, int index, const char *reason)
{
    struct tune_outcome *outcome = &t->result->outcomes[t->finalists[index].place];
    tuning_fail(t, &t->finalists[index].facts, outcome, reason);
    journal_write_outcome(&t->journal, JOURNAL_FINAL, outcome);
    t->result->counts.verified--;
    measurer_drop(t->measurer, t->finalists[index].slot, NULL);
    memmove(&t->finalists[index], &t->finalists[index + 1],
            (size_t)(t->finalist_count - index - 1) * sizeof t->finalists[0]);
    t->finalist_count--;
}

/* Rounds, begun again without a finalist that fails. *rounds 0: there were none, for want of time or device. */
static void hold_rounds(struct tuning *t, struct measure_result *results, int *rounds)
{
    const struct measure_source source = {.data = t, .sample = sample_finalist};
    *rounds = 0;
    while (t->finalist_count > 0 && !t->device_dead) {
        struct error why = {0};
        t->sampled = 0;
        attune_status status = measurer_warm(t->measurer, t->finalists[0].slot, warm_milliseconds, &why);
        if (status == ATTUNE_OK) {
            status = measure_rounds(&source, t->finalist_count, 0, ROUNDS, t->deadline, results, rounds, &why);
        }
        if (status == ATTUNE_OK) {
            return;
        }
        *rounds = 0;
        enum measurer_fate fate = measurer_fate(t->measurer);
        if (fate == MEASURER_LOST || fate == MEASURER_INTERRUPTED) {
            t->device_dead |= fate == MEASURER_LOST;
            t->stopped = true;
            return;
        }
        tuning_drop_finalist(t, t->sampled, why.message);
    }
}

attune_status tuning_hold_finals(struct tuning *t, int *winner, struct error *error)
{
    struct measure_result results[TUNING_FINALISTS + 1] = {{0}};
    int rounds = 0;
    qsort(t->finalists, (size_t)t->finalist_count, sizeof t->finalists[0], by_place);
    *winner = 0;
    if (!t->facts.timed) {
        return ATTUNE_OK;
    }
    hold_rounds(t, results, &rounds);
    if (t->finalist_count == 0) {
        return ATTUNE_OK;
    }
    for (int i = 0; i < t->finalist_count && rounds == 0; i++) { /* what there is when rounds are impossible */
        results[i] = (struct measure_result){.microseconds = t->finalists[i].quick};
    }
    bool has_default = t->finalists[0].place == 0;
    *winner = measure_choose(results, t->finalist_count, has_default ? 0 : -1, tie_band);
    if (*winner < 0) {
        return error_set(error, ATTUNE_DEVICE_FAILED, "%s gave no usable time in %d rounds", t->facts.device.name,
                         rounds);
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
