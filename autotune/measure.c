/* measure.c - interleaved rounds, medians of ratios, fixed tie-break. */
#include "autotune/measure.h"

#include "base/process.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *values, int count)
{
    if (count == 0) {
        return 0.0;
    }
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 != 0 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

static bool good(double microseconds)
{
    return isfinite(microseconds) && microseconds > 0.0;
}

/* one round's samples; NaN where none was good */
struct round {
    double baseline;
    double *entries;
};

static attune_status take_round(const struct measure_source *source, int count, int baseline, int number,
                                struct round *round, struct error *error)
{
    double ends[2] = {NAN, NAN};
    attune_status status = source->sample(source->data, baseline, &ends[0], error);
    for (int i = 0; i < count && status == ATTUNE_OK; i++) {
        int entry = (i + number) % count; /* every round begins elsewhere */
        if (entry != baseline) {
            status = source->sample(source->data, entry, &round->entries[entry], error);
        }
    }
    if (status == ATTUNE_OK) {
        status = source->sample(source->data, baseline, &ends[1], error);
    }
    if (good(ends[0]) && good(ends[1])) {
        round->baseline = 0.5 * (ends[0] + ends[1]);
    } else {
        round->baseline = good(ends[0]) ? ends[0] : good(ends[1]) ? ends[1] : NAN;
    }
    round->entries[baseline] = round->baseline;
    return status;
}

static void summarise(const struct round *rounds, int done, int entry, int baseline, double baseline_median,
                      struct measure_result *result)
{
    double values[MEASURE_ROUNDS_MAX];
    int n = 0;
    for (int r = 0; r < done; r++) {
        if (good(rounds[r].entries[entry]) && good(rounds[r].baseline)) {
            values[n++] = entry == baseline ? rounds[r].baseline
                                            : rounds[r].entries[entry] / rounds[r].baseline * baseline_median;
        }
    }
    result->samples = n;
    result->microseconds = median_of(values, n);
    for (int i = 0; i < n; i++) {
        values[i] = fabs(values[i] - result->microseconds);
    }
    result->spread = median_of(values, n);
}

attune_status measure_rounds(const struct measure_source *source, int count, int baseline, int rounds, double deadline,
                             struct measure_result *results, int *done, struct error *error)
{
    struct round taken[MEASURE_ROUNDS_MAX];
    attune_status status = ATTUNE_OK;
    rounds = rounds > MEASURE_ROUNDS_MAX ? MEASURE_ROUNDS_MAX : rounds;
    *done = 0;
    double *samples = malloc((size_t)count * (size_t)rounds * sizeof *samples);
    if (samples == NULL) {
        return error_no_memory(error);
    }
    while (*done < rounds && status == ATTUNE_OK) {
        double now = source->now != NULL ? source->now(source->data) : clock_seconds();
        if (*done > 0 && deadline > 0.0 && now >= deadline) {
            break;
        }
        struct round *round = &taken[*done];
        round->entries = samples + (size_t)*done * (size_t)count;
        for (int i = 0; i < count; i++) {
            round->entries[i] = NAN;
        }
        status = take_round(source, count, baseline, *done, round, error);
        *done += status == ATTUNE_OK;
    }
    double values[MEASURE_ROUNDS_MAX];
    int n = 0;
    for (int r = 0; r < *done; r++) {
        if (good(taken[r].baseline)) {
            values[n++] = taken[r].baseline;
        }
    }
    double baseline_median = median_of(values, n);
    for (int i = 0; i < count; i++) {
        summarise(taken, *done, i, baseline, baseline_median, &results[i]);
    }
    free(samples);
    return status;
}

int measure_choose(const struct measure_result *results, int count, int baseline, double tie)
{
    double best = INFINITY;
    for (int i = 0; i < count; i++) {
        if (good(results[i].microseconds) && results[i].microseconds < best) {
            best = results[i].microseconds;
        }
    }
    if (baseline >= 0 && good(results[baseline].microseconds) && results[baseline].microseconds <= best * (1.0 + tie)) {
        return baseline;
    }
    for (int i = 0; i < count; i++) {
        if (good(results[i].microseconds) && results[i].microseconds <= best * (1.0 + tie)) {
            return i;
        }
    }
    return -1;
}
