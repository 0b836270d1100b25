/* search.h - which candidates of a space are looked at, and in which order, from what is known so far.
 *
 * Pure: it knows no device, no clock and no file, so that a journal replays it (bench/search). Whoever runs it asks for
 * candidates, has them compiled, asks again whether each is worth the device, and tells what came of it. Answers may
 * come late and in any order: several candidates are under way at once. Deterministic: the same calls, the same
 * answers. One thread.
 *
 * A look is what is bounded: a candidate that compiling or its resources rule out, or whose binary is another's, costs
 * none. Looks and candidates under way together never exceed the bound.
 */
#ifndef AUTOTUNE_SEARCH_H
#define AUTOTUNE_SEARCH_H

#include "base/codeobject.h"
#include "generator/generator.h"
#include "runtime/driver.h"

#include <stdbool.h>
#include <stdint.h>

enum search_strategy {
    SEARCH_MODEL,      /* the default: by a model of the space that learns while it goes */
    SEARCH_EXHAUSTIVE, /* default, a pairwise cover, then all the rest in seeded order */
    SEARCH_RANDOM,     /* default, then seeded order until as many were looked at as SEARCH_MODEL would */
    SEARCH_LOCAL       /* default, then neighbours of the best by one parameter, with restarts */
};

struct search_prior;
struct screen_unit;

struct search_options {
    enum search_strategy strategy;
    uint64_t seed;
    const struct candidate_list *list; /* the space; items[0] is the default. Not owned, unchanged meanwhile */
    int covered; /* items[0..covered) begin SEARCH_EXHAUSTIVE's order as they stand: the default and a cover. The others
                    begin with the default alone */
    const struct problem *problem;      /* not owned */
    const struct driver_device *device; /* not owned; its compute units tell the rounds of a grid */
    const struct screen_unit *unit;     /* what bounds the blocks of one of them; NULL: not known. Not owned */
    const struct search_prior *prior;   /* what other problems taught SEARCH_MODEL (search_prior.h); NULL: the committed
                                           table.   Not owned */
    int evaluations; /* at most so many looks; 0: the strategy's own share, search_share (SEARCH_EXHAUSTIVE: all) */
};

/* what came of a candidate */
struct search_answer {
    double microseconds;               /* 0: it is out, whatever the reason */
    bool looked;                       /* it cost the device a look: it was checked or timed */
    const struct resources *resources; /* NULL: never compiled */
};

/* Looks that a space of so many candidates is worth: all of up to 200, else 15 %, at least 48. */
int search_share(int candidates);

struct search;
/* ATTUNE_INVALID for an empty list, ATTUNE_NO_MEMORY. Nothing later fails or allocates. */
attune_status search_create(const struct search_options *options, struct search **search, struct error *error);
void search_destroy(struct search *search);

/* The next candidate to compile, an index of the list that was neither given nor told before; -1: none now. Ask again
 * after the next search_tell, unless search_is_over. */
int search_next(struct search *search);
/* Nothing will be given any more, whatever comes of those under way. */
bool search_is_over(const struct search *search);

/* Compiled: is it worth a look? False with the reason when the model, which now knows its resources, expects nothing of
 * it; search_tell must follow in both cases. */
enum { SEARCH_REASON_BYTES = 256 };
bool search_wants(struct search *search, int index, const struct resources *resources, const struct launch *launch,
                  char reason[SEARCH_REASON_BYTES]);
/* Once for every index that was given. One that was not may be told too: it is known from elsewhere, such as an earlier
 * run's journal, and is not given; its look counts if it says `looked`. */
void search_tell(struct search *search, int index, const struct search_answer *answer);

/* looks that the strategy will spend at most, for progress */
int search_looks(const struct search *search);

/* "model", "exhaustive", "random", "local" */
const char *search_strategy_name(enum search_strategy strategy);
/* by name, or by NULL and "" for the default; ATTUNE_INVALID with the names there are */
attune_status search_strategy_parse(const char *name, enum search_strategy *strategy, struct error *error);

#endif
