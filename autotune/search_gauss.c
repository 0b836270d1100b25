/* search_gauss.c - Gaussian-process regression with an incremental Cholesky factor. */
#include "autotune/search_gauss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIT_MAX = 128, FIT_SWEEPS = 2 };
static const double first_weight = 0.15, first_noise = 1e-3, first_slope = 1.0, first_constant = 4.0;

attune_status gauss_create(const struct search_space *space, int capacity, struct gauss *gauss, struct error *error)
{
    *gauss = (struct gauss){.space = space, .capacity = capacity};
    size_t points = (size_t)capacity, rows = (size_t)space->count;
    size_t fit = FIT_MAX * (FIT_MAX + 1);
    gauss->point = calloc(points, sizeof *gauss->point);
    gauss->known = calloc(points, sizeof *gauss->known);
    gauss->value = calloc(points, sizeof *gauss->value);
    gauss->solved = calloc(points, sizeof *gauss->solved);
    gauss->factor = calloc(points * points > fit ? points * points : fit, sizeof *gauss->factor);
    gauss->rows = calloc(points * rows, sizeof *gauss->rows);
    gauss->mean = calloc(rows, sizeof *gauss->mean);
    gauss->variance = calloc(rows, sizeof *gauss->variance);
    gauss->work = calloc(rows, sizeof *gauss->work);
    if (gauss->point == NULL || gauss->known == NULL || gauss->value == NULL || gauss->solved == NULL ||
        gauss->factor == NULL || gauss->rows == NULL || gauss->mean == NULL || gauss->variance == NULL ||
        gauss->work == NULL) {
        gauss_free(gauss);
        return error_no_memory(error);
    }
    for (int c = 0; c < space->columns; c++) {
        gauss->weight[c] = space->column[c].codes > 2 ? first_weight : 0.0; /* one value and ABSENT */
    }
    gauss->noise = first_noise;
    gauss->amplitude = 1.0;
    gauss->constant = first_constant;
    for (int f = 0; f < GAUSS_FEATURES_MAX; f++) {
        gauss->slope[f] = first_slope;
    }
    return ATTUNE_OK;
}

void gauss_free(struct gauss *gauss)
{
    for (int f = 0; f < gauss->features; f++) {
        free(gauss->feature[f]);
    }
    free(gauss->point);
    free(gauss->known);
    free(gauss->value);
    free(gauss->solved);
    free(gauss->factor);
    free(gauss->rows);
    free(gauss->mean);
    free(gauss->variance);
    free(gauss->work);
    *gauss = (struct gauss){0};
}

/* variance of the value at a row before anything is known */
static double own_variance(const struct gauss *gauss, int row)
{
    double variance = 1.0 + gauss->constant;
    for (int f = 0; f < gauss->features; f++) {
        variance += gauss->slope[f] * gauss->feature[f][row] * gauss->feature[f][row];
    }
    return variance;
}

/* covariance of one row with all, into work */
static void covariances(struct gauss *gauss, int row)
{
    const struct search_space *space = gauss->space;
    const uint8_t *one = search_space_row(space, row);
    float table[SEARCH_COLUMNS_MAX][SEARCH_CODES_MAX];
    int live[SEARCH_COLUMNS_MAX], lives = 0;
    for (int c = 0; c < space->columns; c++) {
        if (gauss->weight[c] > 0.0) {
            for (int code = 0; code < space->column[c].codes; code++) {
                table[c][code] = (float)(gauss->weight[c] * search_space_step(&space->column[c], one[c], code));
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
        gauss->work[i] = expf(-distance) + (float)gauss->constant;
    }
    for (int f = 0; f < gauss->features; f++) {
        float by = (float)gauss->slope[f] * gauss->feature[f][row];
        const float *feature = gauss->feature[f];
        for (int i = 0; i < space->count; i++) {
            gauss->work[i] += by * feature[i];
        }
    }
}

void gauss_clear(struct gauss *gauss)
{
    gauss->points = 0;
    for (int i = 0; i < gauss->space->count; i++) {
        gauss->mean[i] = 0.0f;
        gauss->variance[i] = (float)own_variance(gauss, i);
    }
    gauss->stale = false;
}

bool gauss_add(struct gauss *gauss, int row)
{
    int n = gauss->points;
    size_t count = (size_t)gauss->space->count;
    if (n == gauss->capacity) {
        return false;
    }
    covariances(gauss, row);
    double *factor = gauss->factor + (size_t)n * (size_t)gauss->capacity;
    float *solution = gauss->rows + (size_t)n * count;
    double rest = own_variance(gauss, row) + gauss->noise;
    memcpy(solution, gauss->work, count * sizeof *solution);
    for (int j = 0; j < n; j++) {
        const float *before = gauss->rows + (size_t)j * count;
        float by = before[row];
        factor[j] = by;
        rest -= (double)by * by;
        for (size_t i = 0; i < count; i++) {
            solution[i] -= by * before[i];
        }
    }
    factor[n] = sqrt(fmax(rest, 0.5 * gauss->noise)); /* rounding may leave nothing of twins */
    float scale = (float)(1.0 / factor[n]);
    for (size_t i = 0; i < count; i++) {
        solution[i] *= scale;
        gauss->variance[i] = fmaxf(gauss->variance[i] - solution[i] * solution[i], 0.0f);
    }
    gauss->point[n] = row;
    gauss->known[n] = false;
    gauss->points++;
    return true;
}

void gauss_know(struct gauss *gauss, int row, double value)
{
    for (int n = 0; n < gauss->points; n++) {
        if (gauss->point[n] == row) {
            gauss->known[n] = true;
            gauss->value[n] = value;
            gauss->stale = true;
        }
    }
}

void gauss_expect(struct gauss *gauss)
{
    size_t count = (size_t)gauss->space->count;
    if (!gauss->stale) {
        return;
    }
    memset(gauss->mean, 0, count * sizeof *gauss->mean);
    for (int n = 0; n < gauss->points; n++) {
        const double *factor = gauss->factor + (size_t)n * (size_t)gauss->capacity;
        double rest = gauss->value[n];
        for (int j = 0; j < n; j++) {
            rest -= factor[j] * gauss->solved[j];
        }
        /* without a value: what the points before it expect, so nothing is left */
        gauss->solved[n] = gauss->known[n] ? rest / factor[n] : 0.0;
        if (gauss->known[n]) {
            const float *solution = gauss->rows + (size_t)n * count;
            float by = (float)gauss->solved[n];
            for (size_t i = 0; i < count; i++) {
                gauss->mean[i] += by * solution[i];
            }
        }
    }
    gauss->stale = false;
}

/* ---- fitting ---- */

struct fitting {
    struct gauss *gauss;
    int count;
    int row[FIT_MAX];
    double value[FIT_MAX];
    double amplitude; /* of the last evidence */
};

/* The log of how likely the values are, the amplitude being the likeliest. */
static double evidence(struct fitting *fit)
{
    struct gauss *p = fit->gauss;
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

void gauss_fit(struct gauss *gauss, int most)
{
    struct fitting fit = {.gauss = gauss};
    most = most < FIT_MAX ? most : FIT_MAX;
    for (int n = gauss->points - 1; n >= 0 && fit.count < most; n--) {
        if (gauss->known[n]) {
            fit.row[fit.count] = gauss->point[n];
            fit.value[fit.count++] = gauss->value[n];
        }
    }
    if (fit.count < 4) {
        return;
    }
    double best = evidence(&fit);
    for (int sweep = 0; sweep < FIT_SWEEPS; sweep++) {
        double before = best;
        for (int c = 0; c < gauss->space->columns; c++) {
            if (gauss->weight[c] > 0.0) {
                best = climb(&fit, &gauss->weight[c], first_weight, 1.5, 1e-3, 4.0, best);
            }
        }
        for (int f = 0; f < gauss->features; f++) {
            best = climb(&fit, &gauss->slope[f], first_slope, 2.0, 1e-3, 1e3, best);
        }
        best = climb(&fit, &gauss->noise, first_noise, 2.0, 1e-5, 0.5, best);
        if (best < before + 0.5) {
            break;
        }
    }
    evidence(&fit);
    gauss->amplitude = fit.amplitude;
}
