/* ties.h - whom a tie goes to, the same for the finals of one run, the choice of several ranks and the replay of whole
 * spaces: an order that no seed, clock or journal changes. */
#ifndef AUTOTUNE_TIES_H
#define AUTOTUNE_TIES_H

#include <stdbool.h>
#include <string.h>

struct tie {
    bool standard;    /* the default candidate */
    bool fixed;       /* has a length or other size compiled in: serves problems of that size alone */
    const char *name; /* the candidate's text */
};

/* below 0: a tie goes to `a`. The default, then who serves every length, then by name. */
static inline int tie_compare(const struct tie *a, const struct tie *b)
{
    if (a->standard != b->standard) {
        return a->standard ? -1 : 1;
    }
    if (a->fixed != b->fixed) {
        return a->fixed ? 1 : -1;
    }
    return strcmp(a->name, b->name);
}

#endif
