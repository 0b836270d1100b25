/* measure.c - interleaved rounds, medians of ratios, fixed tie-break. */
#include "autotune/measure.h"

#include "base/process.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const double unsteady = 0.05;

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

/* one round: every entry's ratio to the baseline beside it, NaN where a sample was no time */
struct round {
    double baseline;
    double *ratios;
    bool *steady; /* the baseline's samples before and after it agree: nothing changed meanwhile */
};

static void compare(double before, double entry, double after, double *ratio, bool *steady)
{
    *steady = good(before) && good(after) && fabs(before - after) <= unsteady * fmin(before, after);
    if (good(entry) && (good(before) || good(after))) {
        double yardstick = !good(after) ? before : !good(before) ? after : 0.5 * (before + after);
        *ratio = entry / yardstick;
    }
}

static attune_status take_round(const struct measure_source *source, int count, int baseline, int number,
                                struct round *round, struct error *error)
{
    double *yardsticks = malloc(((size_t)count + 1) * sizeof *yardsticks), before = NAN;
    int n = 0;
    if (yardsticks == NULL) {
        return error_no_memory(error);
    }
    attune_status status = source->sample(source->data, baseline, &before, error);
    if (status == ATTUNE_OK && good(before)) {
        yardsticks[n++] = before;
    }
    for (int i = 0; i < count && status == ATTUNE_OK; i++) {
        int entry = (i + number) % count; /* every round begins elsewhere */
        double sample = NAN, after = NAN;
        if (entry == baseline) {
            continue;
        }
        status = source->sample(source->data, entry, &sample, error);
        if (status == ATTUNE_OK) {
            status = source->sample(source->data, baseline, &after, error);
        }
        if (status == ATTUNE_OK) {
            compare(before, sample, after, &round->ratios[entry], &round->steady[entry]);
            before = after;
        }
        if (status == ATTUNE_OK && good(after)) {
            yardsticks[n++] = after;
        }
    }
    round->baseline = n > 0 ? median_of(yardsticks, n) : (double)NAN;
    free(yardsticks);
    return status;
}

/* of an entry's ratios those taken while nothing changed, all of them where there is no such */
static int usable_ratios(const struct round *rounds, int done, int entry, double values[MEASURE_ROUNDS_MAX])
{
    int n = 0;
    for (int r = 0; r < done; r++) {
        if (good(rounds[r].ratios[entry]) && rounds[r].steady[entry]) {
            values[n++] = rounds[r].ratios[entry];
        }
    }
    for (int r = 0; r < done && n == 0; r++) {
        if (good(rounds[r].ratios[entry])) {
            values[n++] = rounds[r].ratios[entry];
        }
    }
    return n;
}

static void summarise(double *values, int n, struct measure_result *result)
{
    result->samples = n;
    result->microseconds = median_of(values, n);
    for (int i = 0; i < n; i++) {
        values[i] = fabs(values[i] - result->microseconds);
    }
    result->spread = median_of(values, n);
}

static void summarise_all(const struct round *rounds, int done, int count, int baseline, struct measure_result *results)
{
    double values[MEASURE_ROUNDS_MAX];
    int n = 0;
    for (int r = 0; r < done; r++) {
        if (good(rounds[r].baseline)) {
            values[n++] = rounds[r].baseline;
        }
    }
    summarise(values, n, &results[baseline]);
    for (int i = 0; i < count; i++) {
        if (i != baseline) {
            n = usable_ratios(rounds, done, i, values);
            for (int v = 0; v < n; v++) {
                values[v] *= results[baseline].microseconds;
            }
            summarise(values, n, &results[i]);
        }
    }
}

attune_status measure_rounds(const struct measure_source *source, int count, int baseline, int rounds, double deadline,
                             struct measure_result *results, int *done, struct error *error)
{
    struct round taken[MEASURE_ROUNDS_MAX];
    attune_status status = ATTUNE_OK;
    rounds = rounds > MEASURE_ROUNDS_MAX ? MEASURE_ROUNDS_MAX : rounds;
    *done = 0;
    size_t cells = (size_t)count * (size_t)rounds;
    double *ratios = malloc((cells + 1) * sizeof *ratios);
    bool *steady = calloc(cells + 1, sizeof *steady);
    if (ratios == NULL || steady == NULL) {
        free(ratios);
        free(steady);
        return error_no_memory(error);
    }
    while (*done < rounds && status == ATTUNE_OK) {
        double now = source->now != NULL ? source->now(source->data) : clock_seconds();
        if (*done > 0 && deadline > 0.0 && now >= deadline) {
            break;
        }
        size_t first = (size_t)*done * (size_t)count;
        struct round *round = &taken[*done];
        *round = (struct round){.ratios = ratios + first, .steady = steady + first};
        for (int i = 0; i < count; i++) {
            round->ratios[i] = NAN;
        }
        status = take_round(source, count, baseline, *done, round, error);
        *done += status == ATTUNE_OK;
    }
    summarise_all(taken, *done, count, baseline, results);
    free(ratios);
    free(steady);
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
