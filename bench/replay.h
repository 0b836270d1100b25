/* replay.h - a search over a space whose every candidate was measured before, from the journal of that run.
 *
 * A look costs nothing but is counted, and says what the journal's first look said, noise included. Duplicates of a
 * binary are looked at once, as the tuner does. In the end the best dozen by first look and the default meet, and the
 * winner is chosen among their final times as the tuner chooses.
 */
#ifndef BENCH_REPLAY_H
#define BENCH_REPLAY_H

#include "autotune/search.h"

enum {
    REPLAY_AHEAD = 33
}; /* candidates under way at once: two a compiler on 16 cores, as tune_loop.c has it, and the one that is looked at */

struct replay_entry {
    double first; /* microseconds at the first look, 0: none */
    double truth; /* in the finals where it was there, else at the first look */
    bool looked;  /* the device saw it */
    int binary;   /* the first entry of the same binary; itself */
    struct resources resources;
    bool expanded;
    struct launch launch; /* once expanded */
};

struct replay_space {
    char name[64]; /* of the file */
    struct problem problem;
    struct driver_device device;
    struct candidate_list list;
    struct replay_entry *entries;
    int looks;   /* that the exhaustive search takes: one for each binary that the device saw */
    int timed;   /* binaries with a time */
    double best; /* least truth */
    int within;  /* binaries within 2 % of it */
};

/* Reads a journal. `generator` knows the templates that the candidates are of; it is used again by replay_run. */
attune_status replay_load(const char *path, struct generator *generator, struct replay_space *space,
                          struct error *error);
void replay_free(struct replay_space *space);

struct replay_result {
    int choice;
    double regret; /* truth of the choice over the best, less 1 */
    double found;  /* the same of the best finalist: what the band of ties did not give away */
    int looks;
    int compiles;   /* candidates given */
    int refused;    /* compiled, but the search did not want them */
    double seconds; /* of the search itself, all proposals together */
};
/* options: strategy, seed, evaluations and prior are the caller's. `start` is the candidate that takes the default's
 * place: 0 is the default, which may be the best; see replay_start. */
attune_status replay_run(struct replay_space *space, struct generator *generator, const struct search_options *options,
                         int start, struct replay_result *result, struct error *error);
/* a right candidate by lot, for a search that a good default does not help */
int replay_start(const struct replay_space *space, uint64_t seed);

#endif
