/* search_model.c - proposals by expected improvement over a Gaussian process of log times. docs/search.md tells why. */
#include "autotune/search_model.h"

#include "autotune/inputs.h"
#include "autotune/search_gauss.h"
#include "autotune/search_prior.h"
#include "autotune/search_traits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS_MAX = 512,   /* that the process holds; beyond it the slower half is forgotten */
    SPREAD_ANSWERS = 8, /* before so many are known, points are spread */
    SPREAD_SAMPLE = 24, /* each the best of so many random ones */
    EXPLORE_EVERY = 6,  /* of the proposals one goes where least is known */
    FIT_POINTS = 128,
    HOPELESS_IN_A_ROW = 32 /* proposals without promise that end the search; more than are under way at once */
};
static const double slow_limit = 1.1;     /* log; what is slower than three times the best is merely slow */
static const double first_variance = 0.1; /* of log times, before there are any */
static const double least_promise = 1e-4; /* log; an expected improvement by less is none */
static const double doubts = 3.0;         /* standard deviations that must not reach the best for a refusal */

struct search_model {
    struct gauss gauss;
    struct traits traits;
    double *logs;     /* log time of every told row; INFINITY: it failed on the device; NAN: not known */
    double *doubt;    /* standard deviation of its expectation when a row was proposed; INFINITY: to explore */
    double *forecast; /* what was expected of a row when its object was there; NAN: it was not asked about */
    double (*trait)[TRAITS];
    float *prior;   /* expected log time of every row, but for a constant */
    double *sorted; /* work of a rebuild */
    double level;   /* subtracted from all values */
    int known;      /* rows that are known */
    int fitted;     /* of them at the last fit */
    int proposals, refused;
    int hopeless; /* refused since the last that was not */
    uint64_t random;
};

/* A feature of the process for each source of the prior, and their mean for what is expected first. */
static attune_status open_prior(const struct search *search, struct search_model *m, struct error *error)
{
    const struct search_prior *prior = search->options.prior != NULL ? search->options.prior : &search_prior_table;
    struct gauss *gauss = &m->gauss;
    size_t count = (size_t)search->space.count;
    for (; gauss->features < prior->sources; gauss->features++) {
        float *values = calloc(count, sizeof *values);
        if (values == NULL) {
            return error_no_memory(error);
        }
        gauss->feature[gauss->features] = values;
    }
    if (!search_prior_values(prior, search->options.list->items[0].family, &search->space, gauss->feature)) {
        while (gauss->features > 0) {
            free(gauss->feature[--gauss->features]);
        }
    }
    for (int f = 0; f < gauss->features; f++) {
        for (size_t i = 0; i < count; i++) {
            m->prior[i] += gauss->feature[f][i] / (float)gauss->features;
        }
    }
    return ATTUNE_OK;
}

attune_status search_model_create(const struct search *search, struct search_model **model, struct error *error)
{
    struct search_model *m = calloc(1, sizeof *m);
    size_t count = (size_t)search->space.count;
    *model = NULL;
    if (m == NULL) {
        return error_no_memory(error);
    }
    m->random = hash_mix(search->options.seed + 1);
    m->logs = calloc(count, sizeof *m->logs);
    m->doubt = calloc(count, sizeof *m->doubt);
    m->forecast = calloc(count, sizeof *m->forecast);
    m->trait = calloc(count, sizeof *m->trait);
    m->prior = calloc(count, sizeof *m->prior);
    m->sorted = calloc(count, sizeof *m->sorted);
    bool whole = m->logs != NULL && m->doubt != NULL && m->forecast != NULL && m->trait != NULL && m->prior != NULL &&
                 m->sorted != NULL;
    attune_status status = whole ? ATTUNE_OK : error_no_memory(error);
    if (whole) {
        status = gauss_create(&search->space, count < POINTS_MAX ? (int)count : POINTS_MAX, &m->gauss, error);
    }
    if (status == ATTUNE_OK) {
        status = open_prior(search, m, error);
    }
    if (status != ATTUNE_OK) {
        search_model_destroy(m);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        m->logs[i] = m->forecast[i] = NAN;
    }
    m->gauss.amplitude = first_variance;
    gauss_clear(&m->gauss);
    *model = m;
    return ATTUNE_OK;
}

void search_model_destroy(struct search_model *model)
{
    if (model != NULL) {
        gauss_free(&model->gauss);
        free(model->logs);
        free(model->doubt);
        free(model->forecast);
        free(model->trait);
        free(model->prior);
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

/* a told row's log time, bounded above, since nobody asks how slow the slow are */
static double bounded_log(const struct search *search, int row)
{
    return fmin(search->model->logs[row], best_log(search) + slow_limit);
}

/* the process's value of a row */
static double value_of(const struct search *search, int row)
{
    return bounded_log(search, row) - search->model->level - search->model->prior[row];
}

/* log time that is expected of a row */
static double expected_log(const struct search_model *model, int row)
{
    return model->gauss.mean[row] + model->level + model->prior[row];
}

static double spread_of(const struct search_model *model, int row)
{
    return sqrt(model->gauss.amplitude * model->gauss.variance[row] + 1e-12);
}

static int compare_values(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* the log time that rows must not exceed for half of the process's room to hold them */
static double cut(const struct search_model *model)
{
    int count = 0, room = model->gauss.capacity / 2;
    for (int i = 0; i < model->gauss.space->count; i++) {
        if (!isnan(model->logs[i])) {
            model->sorted[count++] = model->logs[i];
        }
    }
    if (count <= room) {
        return INFINITY;
    }
    qsort(model->sorted, (size_t)count, sizeof *model->sorted, compare_values);
    return model->sorted[room];
}

/* The process anew, from what is known and what is under way, with room for more. */
static void rebuild(struct search *search)
{
    struct search_model *model = search->model;
    struct gauss *gauss = &model->gauss;
    double sum = 0.0, limit = INFINITY;
    int taken = 0, room = gauss->capacity;
    if (model->known + search->under_way > gauss->capacity * 3 / 4) {
        limit = cut(model);
        room = gauss->capacity * 5 / 8; /* of equals the first */
    }
    model->level = 0.0;
    for (int i = 0; i < search->space.count; i++) {
        if (!isnan(model->logs[i])) {
            sum += value_of(search, i);
            taken++;
        }
    }
    model->level = taken > 0 ? sum / taken : 0.0;
    gauss_clear(gauss);
    for (int i = 0; i < search->space.count; i++) {
        if (!isnan(model->logs[i]) && model->logs[i] <= limit && gauss->points < room && gauss_add(gauss, i)) {
            gauss_know(gauss, i, value_of(search, i));
        }
    }
    for (int i = 0; i < search->space.count; i++) {
        if (search->states[i] == POINT_UNDER_WAY) {
            gauss_add(gauss, i);
        }
    }
}

static void refresh(struct search *search)
{
    struct search_model *model = search->model;
    struct gauss *gauss = &model->gauss;
    if (model->known >= SPREAD_ANSWERS && model->known >= model->fitted + (model->fitted + 3) / 4) {
        rebuild(search); /* with today's level */
        gauss_fit(gauss, FIT_POINTS);
        rebuild(search);
        model->fitted = model->known;
    } else if (gauss->points == gauss->capacity) {
        rebuild(search);
    }
    for (int n = 0; n < gauss->points; n++) { /* the bound of the slow moves with the best */
        int row = gauss->point[n];
        if (gauss->known[n]) {
            gauss_know(gauss, row, value_of(search, row));
        }
    }
    gauss_expect(gauss);
}

/* of a few random unseen rows the one that may be fastest for all that is known */
static int pick_spread(struct search *search)
{
    struct search_model *model = search->model;
    int best = -1;
    double least = INFINITY;
    for (int tries = 0, found = 0; tries < 50 * SPREAD_SAMPLE && found < SPREAD_SAMPLE; tries++) {
        int row = (int)(draw(model) % (uint64_t)search->space.count);
        if (search->states[row] == POINT_UNSEEN) {
            double score = expected_log(model, row) - 2.0 * spread_of(model, row);
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

/* *most is what the choice promises: an improvement, or a bound of one */
static int pick_best(const struct search *search, bool explore, double *most)
{
    const struct search_model *model = search->model;
    double best = best_log(search);
    int chosen = -1;
    *most = -INFINITY;
    for (int i = 0; i < search->space.count; i++) {
        if (search->states[i] != POINT_UNSEEN) {
            continue;
        }
        double spread = spread_of(model, i), gain = best - expected_log(model, i);
        double score = explore ? gain + 2.0 * spread : improvement(gain, spread);
        if (score > *most) {
            *most = score;
            chosen = i;
        }
    }
    return chosen;
}

int search_model_pick(struct search *search)
{
    struct search_model *model = search->model;
    int index = 0;
    bool explores = true;
    if (search->states[0] != POINT_UNSEEN) {
        refresh(search);
        model->proposals++;
        explores = model->known < SPREAD_ANSWERS || model->proposals % EXPLORE_EVERY == 0;
        double promise = INFINITY;
        index = model->known < SPREAD_ANSWERS ? pick_spread(search) : pick_best(search, explores, &promise);
        if (!explores && search->best >= 0) {
            bool hopeless = promise < least_promise;
            model->hopeless = hopeless ? model->hopeless + 1 : 0;
            search->ended = model->hopeless == HOPELESS_IN_A_ROW && search->limit < search->space.count;
            if (hopeless) {
                explores = true;
                index = pick_best(search, explores, &promise);
            }
        }
    }
    if (index >= 0) {
        model->doubt[index] = explores ? INFINITY : spread_of(model, index);
        gauss_add(&model->gauss, index);
    }
    return index;
}

bool search_model_wants(struct search *search, int index, const struct resources *resources,
                        const struct launch *launch, char reason[SEARCH_REASON_BYTES])
{
    struct search_model *model = search->model;
    if (search->best < 0 || model->known < SPREAD_ANSWERS || search->limit == search->space.count) {
        return true;
    }
    refresh(search); /* it was proposed when less was known */
    double forecast = expected_log(model, index), spread = model->doubt[index];
    traits_of(search->options.device, search->options.unit, search->options.problem, resources, launch,
              model->trait[index]);
    model->forecast[index] = forecast;
    forecast += traits_expect(&model->traits, model->trait[index]);
    spread = sqrt(spread * spread + traits_variance(&model->traits));
    double least = forecast - doubts * spread;
    if (least <= best_log(search) || model->refused >= search->limit / 2) {
        return true;
    }
    model->refused++;
    snprintf(reason, SEARCH_REASON_BYTES, "expected to take %.4g us, at least %.4g; the best takes %.4g", exp(forecast),
             exp(least), search->microseconds[search->best]);
    return false;
}

void search_model_learn(struct search *search, int index, const struct search_answer *answer)
{
    struct search_model *model = search->model;
    bool timed = answer->microseconds > 0.0;
    if (timed || answer->looked) {
        model->logs[index] = timed ? log(answer->microseconds) : INFINITY;
        model->known++;
        gauss_know(&model->gauss, index, value_of(search, index));
        if (!isnan(model->forecast[index])) {
            traits_learn(&model->traits, model->trait[index], bounded_log(search, index) - model->forecast[index]);
        }
    }
}
