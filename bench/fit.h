/* fit.h - effects of parameters from journals: the table of autotune/search_prior.h. */
#ifndef BENCH_FIT_H
#define BENCH_FIT_H

#include "autotune/search_prior.h"
#include "bench/replay.h"

#include <stdio.h>

/* A ridge regression of log times on parameters and pairs of them for each space but `left_out` (-1: for all).
 * fit_free */
attune_status fit_prior(const struct replay_space *spaces, int count, int left_out, struct search_prior *prior,
                        struct error *error);
void fit_free(struct search_prior *prior);

/* the table as C source; terms that are nothing everywhere are left out */
void fit_print(const struct search_prior *prior, const struct replay_space *spaces, FILE *file);

#endif
