/* search_prior.h - what was learnt of parameters on other problems: a table of effects, each known by name.
 *
 * A source is a problem whose whole space was measured. A term is a parameter's value, or two together, of a template;
 * its effect for a source is what it adds there to the log of the time. Names that a space does not have say nothing,
 * so the table only adds. It is fitted by bench_search.
 */
#ifndef AUTOTUNE_SEARCH_PRIOR_H
#define AUTOTUNE_SEARCH_PRIOR_H

#include "autotune/search_space.h"

enum { PRIOR_SOURCES_MAX = 12, PRIOR_TERM_BYTES = 160 };

struct search_prior_term {
    const char *name; /* "template parameter=value" or "template parameter=value parameter=value" */
    float effect[PRIOR_SOURCES_MAX];
};

struct search_prior {
    const char *family;
    int sources, count;
    const struct search_prior_term *terms;
};

/* the committed one, of attention.forward */
extern const struct search_prior search_prior_table;

/* values[row] of every source, less their mean over the rows; false when no term is of this space: nothing is known */
bool search_prior_values(const struct search_prior *prior, const char *family, const struct search_space *space,
                         float *const values[]);

#endif
