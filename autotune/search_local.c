/* search_local.c - local search: all neighbours of a point, then the best of them, until none is better; then again
 * from another point. Neighbours differ in one parameter. What was known before costs nothing. */
#include "autotune/search_private.h"

/* The best neighbour that is known, itself included; or the next one to look at (`unseen`), or that there are some
 * under way. */
static int best_neighbour(const struct search *search, int center, int *unseen, bool *awaited)
{
    int best = center;
    *unseen = -1;
    *awaited = false;
    for (int i = 0; i < search->space.count; i++) {
        int one = search->order[i];
        if (search_space_distance(&search->space, center, one) != 1) {
            continue;
        }
        if (search->states[one] == POINT_UNSEEN) {
            *unseen = one;
            return best;
        }
        *awaited |= search->states[one] == POINT_UNDER_WAY;
        if (search->states[one] == POINT_TIMED && search->microseconds[one] < search->microseconds[best]) {
            best = one;
        }
    }
    return best;
}

int search_pick_local(struct search *search)
{
    for (;;) {
        int center = search->center, unseen;
        bool awaited;
        if (center < 0 || search->states[center] == POINT_OUT) {
            return search->center = search_first_unseen(search);
        }
        if (search->states[center] == POINT_UNDER_WAY) {
            return -1;
        }
        int best = best_neighbour(search, center, &unseen, &awaited);
        if (unseen >= 0) {
            return unseen;
        }
        if (awaited) {
            return -1;
        }
        search->center = best != center ? best : -1;
    }
}
