/* search_model.c - proposals by expected improvement over a Gaussian process of log times. */
#include "autotune/search_model.h"

#include "autotune/inputs.h"
#include "autotune/search_process.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS_MAX = 512,   /* that the process holds; beyond it the slower half is forgotten */
    SPREAD_ANSWERS = 8, /* before so many are known, points are spread */
    SPREAD_SAMPLE = 24, /* each the best of so many random ones */
    EXPLORE_EVERY = 6,  /* of the proposals one goes where least is known */
    FIT_POINTS = 128
};
static const double slow_limit = 1.1; /* log; what is slower than three times the best is merely slow */

struct search_model {
    struct process process;
    double *logs;   /* log time of every told row; INFINITY: it failed on the device; NAN: not known */
    double *sorted; /* work of a rebuild */
    double level;   /* subtracted from all values */
    int known;      /* rows that are known */
    int fitted;     /* of them at the last fit */
    int proposals;
    uint64_t random;
};

attune_status search_model_create(const struct search *search, struct search_model **model, struct error *error)
{
    struct search_model *m = calloc(1, sizeof *m);
    int count = search->space.count, capacity = count < POINTS_MAX ? count : POINTS_MAX;
    *model = NULL;
    if (m == NULL) {
        return error_no_memory(error);
    }
    m->random = hash_mix(search->options.seed + 1);
    m->logs = calloc((size_t)count, sizeof *m->logs);
    m->sorted = calloc((size_t)count, sizeof *m->sorted);
    attune_status status = process_create(&search->space, capacity, &m->process, error);
    if (status == ATTUNE_OK && (m->logs == NULL || m->sorted == NULL)) {
        status = error_no_memory(error);
    }
    if (status != ATTUNE_OK) {
        search_model_destroy(m);
        return status;
    }
    for (int i = 0; i < count; i++) {
        m->logs[i] = NAN;
    }
    m->process.amplitude = 0.1;
    process_clear(&m->process);
    *model = m;
    return ATTUNE_OK;
}

void search_model_destroy(struct search_model *model)
{
    if (model != NULL) {
        process_free(&model->process);
        free(model->logs);
        free(model->sorted);
        free(model);
    }
}

static uint64_t draw(struct search_model *model)
{
    return model->random = hash_mix(model->random + 1);
}

static double best_log(const struct search *search)
{
    return search->best >= 0 ? log(search->microseconds[search->best]) : 0.0;
}

/* a row's value for the process: bounded above, since nobody asks how slow the slow are */
static double value_of(const struct search *search, int row)
{
    const struct search_model *model = search->model;
    return fmin(model->logs[row], best_log(search) + slow_limit) - model->level;
}

static int compare_values(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* the value that rows must not exceed for half of the process's room to hold them */
static double cut(const struct search *search)
{
    const struct search_model *model = search->model;
    double *sorted = model->sorted;
    int count = 0, room = model->process.capacity / 2;
    for (int i = 0; i < search->space.count; i++) {
        if (!isnan(model->logs[i])) {
            sorted[count++] = model->logs[i];
        }
    }
    if (count <= room) {
        return INFINITY;
    }
    qsort(sorted, (size_t)count, sizeof *sorted, compare_values);
    return sorted[room];
}

/* The process anew, from what is known and what is under way. */
static void rebuild(struct search *search)
{
    struct search_model *model = search->model;
    struct process *process = &model->process;
    double sum = 0.0, limit = INFINITY;
    int taken = 0, under_way = 0;
    for (int i = 0; i < search->space.count; i++) {
        under_way += search->states[i] == POINT_UNDER_WAY;
    }
    if (model->known + under_way > process->capacity * 3 / 4) {
        limit = cut(search);
    }
    model->level = 0.0;
    for (int i = 0; i < search->space.count; i++) {
        if (!isnan(model->logs[i])) {
            sum += value_of(search, i);
            taken++;
        }
    }
    model->level = taken > 0 ? sum / taken : 0.0;
    process_clear(process);
    for (int i = 0; i < search->space.count; i++) {
        if (!isnan(model->logs[i]) && model->logs[i] <= limit && process_add(process, i)) {
            process_know(process, i, value_of(search, i));
        }
    }
    for (int i = 0; i < search->space.count; i++) {
        if (search->states[i] == POINT_UNDER_WAY) {
            process_add(process, i);
        }
    }
}

static void refresh(struct search *search)
{
    struct search_model *model = search->model;
    struct process *process = &model->process;
    if (model->known >= SPREAD_ANSWERS && model->known >= model->fitted + (model->fitted + 3) / 4) {
        rebuild(search); /* with today's level */
        process_fit(process, FIT_POINTS);
        rebuild(search);
        model->fitted = model->known;
    } else if (process->points == process->capacity) {
        rebuild(search);
    }
    for (int n = 0; n < process->points; n++) { /* the bound of the slow moves with the best */
        int row = process->point[n];
        if (process->known[n]) {
            process_know(process, row, value_of(search, row));
        }
    }
    process_expect(process);
}

/* of a few random unseen rows the one that may be fastest for all that is known */
static int pick_spread(struct search *search)
{
    const struct search_model *model = search->model;
    const struct process *process = &model->process;
    int best = -1;
    double least = INFINITY;
    for (int tries = 0, found = 0; tries < 50 * SPREAD_SAMPLE && found < SPREAD_SAMPLE; tries++) {
        int row = (int)(draw(search->model) % (uint64_t)search->space.count);
        if (search->states[row] == POINT_UNSEEN) {
            double spread = sqrt(process->amplitude * process->variance[row]);
            double score = process->mean[row] - 2.0 * spread;
            found++;
            if (score < least) {
                least = score;
                best = row;
            }
        }
    }
    return best >= 0 ? best : search_first_unseen(search);
}

/* how much faster than the best so far a normal variable is expected to be, where it is faster */
static double improvement(double gain, double spread)
{
    double z = gain / spread;
    return gain * 0.5 * erfc(-z * 0.7071067811865476) + spread * 0.3989422804014327 * exp(-0.5 * z * z);
}

static int pick_best(struct search *search, bool explore)
{
    const struct process *process = &search->model->process;
    double best = best_log(search) - search->model->level, most = -INFINITY;
    int chosen = -1;
    for (int i = 0; i < search->space.count; i++) {
        if (search->states[i] != POINT_UNSEEN) {
            continue;
        }
        double spread = sqrt(process->amplitude * process->variance[i] + 1e-12);
        double gain = best - process->mean[i];
        double score = explore ? gain + 2.0 * spread : improvement(gain, spread);
        if (score > most) {
            most = score;
            chosen = i;
        }
    }
    return chosen;
}

int search_model_pick(struct search *search)
{
    struct search_model *model = search->model;
    int index;
    if (search->states[0] == POINT_UNSEEN) {
        index = 0;
    } else {
        refresh(search);
        model->proposals++;
        index = model->known < SPREAD_ANSWERS ? pick_spread(search)
                                              : pick_best(search, model->proposals % EXPLORE_EVERY == 0);
    }
    if (index >= 0) {
        process_add(&model->process, index);
    }
    return index;
}

bool search_model_wants(struct search *search, int index, const struct resources *resources,
                        const struct launch *launch, char reason[SEARCH_REASON_BYTES])
{
    (void)search, (void)index, (void)resources, (void)launch;
    reason[0] = '\0';
    return true;
}

void search_model_learn(struct search *search, int index, const struct search_answer *answer)
{
    struct search_model *model = search->model;
    if (answer->microseconds > 0.0) {
        model->logs[index] = log(answer->microseconds);
    } else if (answer->looked) {
        model->logs[index] = INFINITY;
    } else {
        return;
    }
    model->known++;
    process_know(&model->process, index, value_of(search, index));
}
