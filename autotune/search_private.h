/* search_private.h - what the files of the search share: search.c keeps the books of candidates and looks,
 * search_local.c and search_model.c say which candidate is next. */
#ifndef AUTOTUNE_SEARCH_PRIVATE_H
#define AUTOTUNE_SEARCH_PRIVATE_H

#include "autotune/search.h"
#include "autotune/search_space.h"

enum point_state {
    POINT_UNSEEN,
    POINT_UNDER_WAY, /* given, not told yet */
    POINT_TIMED,
    POINT_OUT
};

struct search_model;

struct search {
    struct search_options options;
    struct search_space space;
    uint8_t *states;      /* enum point_state */
    double *microseconds; /* of those that are POINT_TIMED */
    int *order;           /* every index once, as the strategy without knowledge would take them */
    int cursor;           /* nothing in order[0..cursor) is unseen */
    int limit;            /* looks */
    int looks, under_way, unseen;
    int best;   /* the fastest, -1 */
    bool ended; /* the strategy expects nothing of what is left */

    int center;                 /* SEARCH_LOCAL: whose neighbours are looked at, -1 */
    struct search_model *model; /* SEARCH_MODEL */
};

/* the first unseen candidate of the order, -1 */
int search_first_unseen(struct search *search);

/* Steepest descent by one parameter from a point of the order; -1 while answers are awaited. */
int search_pick_local(struct search *search);

#endif
