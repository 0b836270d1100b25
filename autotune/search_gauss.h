/* search_gauss.h - a Gaussian process over a table of rows, grown one point at a time.
 *
 * Values are a prior mean, plus a line through each of a few features, plus a smooth function of the row's columns,
 * plus noise. Points are added when they are asked about and get their values later, in any order, or never: until then
 * a point's value is what is expected of it, which changes no expectation and leaves less to be learnt nearby. Adding a
 * point costs points x rows operations. Nothing but gauss_create allocates.
 */
#ifndef AUTOTUNE_SEARCH_GAUSS_H
#define AUTOTUNE_SEARCH_GAUSS_H

#include "autotune/search_space.h"

enum { GAUSS_FEATURES_MAX = 16 };

struct gauss {
    const struct search_space *space; /* not owned */
    int capacity, points;

    /* what is believed of the function */
    double weight[SEARCH_COLUMNS_MAX]; /* of a step in a column: larger is rougher; 0: the column does not matter */
    double noise;                      /* variance of a value, of the smooth function's variance */
    double amplitude;                  /* the smooth function's variance */
    double constant;                   /* variance of its level, of the smooth function's */
    int features;
    float *feature[GAUSS_FEATURES_MAX]; /* a value a row, centred by the caller; set before the first point */
    double slope[GAUSS_FEATURES_MAX];   /* variance of the line's slope, of the smooth function's */

    /* what is known */
    int *point;    /* row of each point */
    bool *known;   /* has it a value */
    double *value; /* less the prior mean */
    double *solved;
    double *factor;  /* Cholesky factor of the points' covariance, row by row */
    float *rows;     /* the factor's solution against every row of the space: points x space */
    float *mean;     /* expected value of each row, less the prior mean; gauss_expect */
    float *variance; /* of it, of the smooth function's variance */
    float *work;
    bool stale; /* mean is older than the values */
};

attune_status gauss_create(const struct search_space *space, int capacity, struct gauss *gauss, struct error *error);
void gauss_free(struct gauss *gauss);

/* forgets the points and starts with the weights as they are */
void gauss_clear(struct gauss *gauss);
/* adds a row as a point without a value; false when there is no room */
bool gauss_add(struct gauss *gauss, int row);
/* the value of a row that was added; else nothing happens */
void gauss_know(struct gauss *gauss, int row, double value);
/* brings mean up to date */
void gauss_expect(struct gauss *gauss);

/* Fits weights, noise, slopes and amplitude to the known values, by coordinates from where they are; uses at most
 * `most` of the points, the last ones. The points must be added again. */
void gauss_fit(struct gauss *gauss, int most);

#endif
