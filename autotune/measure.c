/* measure.c - interleaved rounds, medians of ratios, fewer entries from stage to stage, fixed tie-break. */
#include "autotune/measure.h"

#include "base/process.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

void measure_compare(double before, double entry, double after, double *ratio, bool *steady)
{
    *steady = good(before) && good(after) && fabs(before - after) <= unsteady * fmin(before, after);
    if (good(entry) && (good(before) || good(after))) {
        double yardstick = !good(after) ? before : !good(before) ? after : 0.5 * (before + after);
        *ratio = entry / yardstick;
    }
}

static attune_status take_round(const struct measure_source *source, const struct measure_result *results, int count,
                                int baseline, int number, struct round *round, struct error *error)
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
        if (entry == baseline || results[entry].left) {
            continue;
        }
        status = source->sample(source->data, entry, &sample, error);
        if (status == ATTUNE_OK) {
            status = source->sample(source->data, baseline, &after, error);
        }
        if (status == ATTUNE_OK) {
            measure_compare(before, sample, after, &round->ratios[entry], &round->steady[entry]);
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

/* The slower ones leave. An entry's time is its ratio to the baseline meanwhile. */
static void leave_slower(const struct round *rounds, int done, int count, int baseline, int keep, double tie,
                         struct measure_result *results)
{
    double values[MEASURE_ROUNDS_MAX], best = 1.0;
    for (int i = 0; i < count; i++) {
        if (i != baseline && !results[i].left) {
            int n = usable_ratios(rounds, done, i, values);
            results[i].microseconds = median_of(values, n);
            best = n > 0 ? fmin(best, results[i].microseconds) : best;
        }
    }
    for (int i = 0; i < count; i++) {
        int faster = 0;
        for (int other = 0; other < count; other++) {
            double difference = results[other].microseconds - results[i].microseconds;
            faster += other != baseline && !results[other].left && good(results[other].microseconds) &&
                      (difference < 0.0 || (difference == 0.0 && other < i));
        }
        /* who had no good sample has 0 here, and stays */
        results[i].left |= i != baseline && faster >= keep && results[i].microseconds > best * (1.0 + tie);
    }
}

attune_status measure_halving(const struct measure_source *source, int count, int baseline,
                              const struct measure_stage *stages, int stage_count, double tie, double deadline,
                              struct measure_result *results, struct measure_course *course, struct error *error)
{
    struct round taken[MEASURE_ROUNDS_MAX];
    attune_status status = ATTUNE_OK;
    int last = stages[stage_count - 1].rounds, done = 0, stage = 0;
    last = last > MEASURE_ROUNDS_MAX ? MEASURE_ROUNDS_MAX : last;
    memset(results, 0, (size_t)count * sizeof *results);
    *course = (struct measure_course){.rounds = 0};
    size_t cells = (size_t)count * (size_t)last;
    double *ratios = malloc((cells + 1) * sizeof *ratios);
    bool *steady = calloc(cells + 1, sizeof *steady);
    if (ratios == NULL || steady == NULL) {
        free(ratios);
        free(steady);
        return error_no_memory(error);
    }
    while (done < last && status == ATTUNE_OK) {
        double now = source->now != NULL ? source->now(source->data) : clock_seconds();
        if (done > 0 && deadline > 0.0 && now >= deadline) {
            break;
        }
        for (; done >= stages[stage].rounds; stage++) {
            leave_slower(taken, done, count, baseline, stages[stage].keep, tie, results);
        }
        size_t first = (size_t)done * (size_t)count;
        struct round *round = &taken[done];
        *round = (struct round){.ratios = ratios + first, .steady = steady + first};
        for (int i = 0; i < count; i++) {
            round->ratios[i] = NAN;
        }
        status = take_round(source, results, count, baseline, done, round, error);
        done += status == ATTUNE_OK;
    }
    summarise_all(taken, done, count, baseline, results);
    course->rounds = done;
    if (done > 0) {
        course->before = good(taken[0].baseline) ? taken[0].baseline : 0.0;
        course->after = good(taken[done - 1].baseline) ? taken[done - 1].baseline : 0.0;
    }
    free(ratios);
    free(steady);
    return status;
}

attune_status measure_rounds(const struct measure_source *source, int count, int baseline, int rounds, double deadline,
                             struct measure_result *results, int *done, struct error *error)
{
    const struct measure_stage all = {rounds, count};
    struct measure_course course;
    attune_status status = measure_halving(source, count, baseline, &all, 1, 0.0, deadline, results, &course, error);
    *done = course.rounds;
    return status;
}

int measure_choose(const struct measure_result *results, int count, int baseline, double tie)
{
    double best = INFINITY;
    for (int i = 0; i < count; i++) {
        if (!results[i].left && good(results[i].microseconds) && results[i].microseconds < best) {
            best = results[i].microseconds;
        }
    }
    if (baseline >= 0 && good(results[baseline].microseconds) && results[baseline].microseconds <= best * (1.0 + tie)) {
        return baseline;
    }
    for (int i = 0; i < count; i++) {
        if (!results[i].left && good(results[i].microseconds) && results[i].microseconds <= best * (1.0 + 0.5 * tie)) {
            return i;
        }
    }
    return -1;
}
