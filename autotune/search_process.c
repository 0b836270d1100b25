/* search_process.c - Gaussian-process regression with an incremental Cholesky factor. */
#include "autotune/search_process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIT_MAX = 128, FIT_SWEEPS = 2 };
static const double first_weight = 0.15, first_noise = 1e-3, first_slope = 1.0, first_constant = 4.0;

attune_status process_create(const struct search_space *space, int capacity, struct process *process,
                             struct error *error)
{
    *process = (struct process){.space = space, .capacity = capacity};
    size_t points = (size_t)capacity, rows = (size_t)space->count;
    size_t fit = FIT_MAX * (FIT_MAX + 1);
    process->point = calloc(points, sizeof *process->point);
    process->known = calloc(points, sizeof *process->known);
    process->value = calloc(points, sizeof *process->value);
    process->solved = calloc(points, sizeof *process->solved);
    process->factor = calloc(points * points > fit ? points * points : fit, sizeof *process->factor);
    process->rows = calloc(points * rows, sizeof *process->rows);
    process->mean = calloc(rows, sizeof *process->mean);
    process->variance = calloc(rows, sizeof *process->variance);
    process->work = calloc(rows, sizeof *process->work);
    if (process->point == NULL || process->known == NULL || process->value == NULL || process->solved == NULL ||
        process->factor == NULL || process->rows == NULL || process->mean == NULL || process->variance == NULL ||
        process->work == NULL) {
        process_free(process);
        return error_no_memory(error);
    }
    for (int c = 0; c < space->columns; c++) {
        process->weight[c] = space->column[c].codes > 2 ? first_weight : 0.0; /* one value and ABSENT */
    }
    process->noise = first_noise;
    process->amplitude = 1.0;
    process->constant = first_constant;
    for (int f = 0; f < PROCESS_FEATURES_MAX; f++) {
        process->slope[f] = first_slope;
    }
    return ATTUNE_OK;
}

void process_free(struct process *process)
{
    for (int f = 0; f < process->features; f++) {
        free(process->feature[f]);
    }
    free(process->point);
    free(process->known);
    free(process->value);
    free(process->solved);
    free(process->factor);
    free(process->rows);
    free(process->mean);
    free(process->variance);
    free(process->work);
    *process = (struct process){0};
}

/* variance of the value at a row before anything is known */
static double own_variance(const struct process *process, int row)
{
    double variance = 1.0 + process->constant;
    for (int f = 0; f < process->features; f++) {
        variance += process->slope[f] * process->feature[f][row] * process->feature[f][row];
    }
    return variance;
}

/* covariance of one row with all, into work */
static void covariances(struct process *process, int row)
{
    const struct search_space *space = process->space;
    const uint8_t *one = search_space_row(space, row);
    float table[SEARCH_COLUMNS_MAX][SEARCH_CODES_MAX];
    int live[SEARCH_COLUMNS_MAX], lives = 0;
    for (int c = 0; c < space->columns; c++) {
        if (process->weight[c] > 0.0) {
            for (int code = 0; code < space->column[c].codes; code++) {
                table[c][code] = (float)(process->weight[c] * search_space_step(&space->column[c], one[c], code));
            }
            live[lives++] = c;
        }
    }
    for (int i = 0; i < space->count; i++) {
        const uint8_t *other = search_space_row(space, i);
        float distance = 0.0f;
        for (int l = 0; l < lives; l++) {
            distance += table[live[l]][other[live[l]]];
        }
        process->work[i] = expf(-distance) + (float)process->constant;
    }
    for (int f = 0; f < process->features; f++) {
        float by = (float)process->slope[f] * process->feature[f][row];
        const float *feature = process->feature[f];
        for (int i = 0; i < space->count; i++) {
            process->work[i] += by * feature[i];
        }
    }
}

void process_clear(struct process *process)
{
    process->points = 0;
    for (int i = 0; i < process->space->count; i++) {
        process->mean[i] = 0.0f;
        process->variance[i] = (float)own_variance(process, i);
    }
    process->stale = false;
}

bool process_add(struct process *process, int row)
{
    int n = process->points;
    size_t count = (size_t)process->space->count;
    if (n == process->capacity) {
        return false;
    }
    covariances(process, row);
    double *factor = process->factor + (size_t)n * (size_t)process->capacity;
    float *solution = process->rows + (size_t)n * count;
    double rest = own_variance(process, row) + process->noise;
    memcpy(solution, process->work, count * sizeof *solution);
    for (int j = 0; j < n; j++) {
        const float *before = process->rows + (size_t)j * count;
        float by = before[row];
        factor[j] = by;
        rest -= (double)by * by;
        for (size_t i = 0; i < count; i++) {
            solution[i] -= by * before[i];
        }
    }
    factor[n] = sqrt(fmax(rest, 0.5 * process->noise)); /* rounding may leave nothing of twins */
    float scale = (float)(1.0 / factor[n]);
    for (size_t i = 0; i < count; i++) {
        solution[i] *= scale;
        process->variance[i] = fmaxf(process->variance[i] - solution[i] * solution[i], 0.0f);
    }
    process->point[n] = row;
    process->known[n] = false;
    process->points++;
    return true;
}

void process_know(struct process *process, int row, double value)
{
    for (int n = 0; n < process->points; n++) {
        if (process->point[n] == row) {
            process->known[n] = true;
            process->value[n] = value;
            process->stale = true;
        }
    }
}

void process_expect(struct process *process)
{
    size_t count = (size_t)process->space->count;
    if (!process->stale) {
        return;
    }
    memset(process->mean, 0, count * sizeof *process->mean);
    for (int n = 0; n < process->points; n++) {
        const double *factor = process->factor + (size_t)n * (size_t)process->capacity;
        double rest = process->value[n];
        for (int j = 0; j < n; j++) {
            rest -= factor[j] * process->solved[j];
        }
        /* without a value: what the points before it expect, so nothing is left */
        process->solved[n] = process->known[n] ? rest / factor[n] : 0.0;
        if (process->known[n]) {
            const float *solution = process->rows + (size_t)n * count;
            float by = (float)process->solved[n];
            for (size_t i = 0; i < count; i++) {
                process->mean[i] += by * solution[i];
            }
        }
    }
    process->stale = false;
}

/* ---- fitting ---- */

struct fitting {
    struct process *process;
    int count;
    int row[FIT_MAX];
    double value[FIT_MAX];
    double amplitude; /* of the last evidence */
};

/* The log of how likely the values are, the amplitude being the likeliest. */
static double evidence(struct fitting *fit)
{
    struct process *p = fit->process;
    const struct search_space *space = p->space;
    double *factor = p->factor, squares = 0.0, logs = 0.0;
    double *solved = factor + (size_t)FIT_MAX * FIT_MAX;
    int n = fit->count;
    for (int i = 0; i < n; i++) {
        const uint8_t *left = search_space_row(space, fit->row[i]);
        double *line = factor + (size_t)i * FIT_MAX;
        double rest = fit->value[i];
        for (int j = 0; j <= i; j++) {
            const uint8_t *right = search_space_row(space, fit->row[j]);
            const double *other = factor + (size_t)j * FIT_MAX;
            double distance = 0.0;
            for (int c = 0; c < space->columns; c++) {
                if (p->weight[c] > 0.0 && left[c] != right[c]) {
                    distance += p->weight[c] * search_space_step(&space->column[c], left[c], right[c]);
                }
            }
            double sum = exp(-distance) + p->constant + (i == j ? p->noise : 0.0);
            for (int f = 0; f < p->features; f++) {
                sum += p->slope[f] * p->feature[f][fit->row[i]] * p->feature[f][fit->row[j]];
            }
            for (int k = 0; k < j; k++) {
                sum -= line[k] * other[k];
            }
            line[j] = i == j ? sqrt(fmax(sum, 0.1 * p->noise)) : sum / other[j];
        }
        for (int j = 0; j < i; j++) {
            rest -= line[j] * solved[j];
        }
        solved[i] = rest / line[i];
        squares += solved[i] * solved[i];
        logs += log(line[i]);
    }
    fit->amplitude = fmax(squares / n, 1e-12);
    return -0.5 * n * log(fit->amplitude) - logs;
}

/* Moves one number by factors while the evidence, less what is thought of such numbers, grows. */
static double climb(struct fitting *fit, double *number, double usual, double breadth, double least, double most,
                    double best)
{
    double off = log(*number / usual) / breadth, penalty = 0.5 * off * off;
    for (int direction = 0; direction < 2; direction++) {
        for (double factor = direction == 0 ? 2.5 : 1.0 / 2.5;;) {
            double before = *number, moved = before * factor;
            if (moved < least || moved > most) {
                break;
            }
            *number = moved;
            double off_now = log(moved / usual) / breadth, penalty_now = 0.5 * off_now * off_now;
            double now = evidence(fit);
            if (now - penalty_now <= best - penalty + 0.05) {
                *number = before;
                break;
            }
            best = now;
            penalty = penalty_now;
            direction = 1; /* not back again */
        }
    }
    return best;
}

void process_fit(struct process *process, int most)
{
    struct fitting fit = {.process = process};
    most = most < FIT_MAX ? most : FIT_MAX;
    for (int n = process->points - 1; n >= 0 && fit.count < most; n--) {
        if (process->known[n]) {
            fit.row[fit.count] = process->point[n];
            fit.value[fit.count++] = process->value[n];
        }
    }
    if (fit.count < 4) {
        return;
    }
    double best = evidence(&fit);
    for (int sweep = 0; sweep < FIT_SWEEPS; sweep++) {
        double before = best;
        for (int c = 0; c < process->space->columns; c++) {
            if (process->weight[c] > 0.0) {
                best = climb(&fit, &process->weight[c], first_weight, 1.5, 1e-3, 4.0, best);
            }
        }
        for (int f = 0; f < process->features; f++) {
            best = climb(&fit, &process->slope[f], first_slope, 2.0, 1e-3, 1e3, best);
        }
        best = climb(&fit, &process->noise, first_noise, 2.0, 1e-5, 0.5, best);
        if (best < before + 0.5) {
            break;
        }
    }
    evidence(&fit);
    process->amplitude = fit.amplitude;
}
