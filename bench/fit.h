/* fit.h - effects of parameters from journals: the table of autotune/search_prior.h. */
#ifndef BENCH_FIT_H
#define BENCH_FIT_H

#include "autotune/search_prior.h"
#include "bench/replay.h"

#include <stdio.h>

/* A ridge regression of log times on parameters and pairs of them, each space by itself; terms that are next to nothing
 * everywhere are left out. fit_free */
attune_status fit_prior(const struct replay_space *spaces, int count, struct search_prior *prior, struct error *error);
/* the same as if there had been no such source: nothing of it is in what it gives */
attune_status fit_without(const struct search_prior *prior, int source, struct search_prior *others,
                          struct error *error);
void fit_free(struct search_prior *prior);

/* the table as C source */
void fit_print(const struct search_prior *prior, const struct replay_space *spaces, FILE *file);

#endif
