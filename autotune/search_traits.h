/* search_traits.h - what an object's resources say of its time, beyond what its parameters say: registers, resident
 * waves, blocks against compute units, shared memory. How much each matters is learnt while searching, from nothing:
 * by ridge regression of what the model did not foresee.
 */
#ifndef AUTOTUNE_SEARCH_TRAITS_H
#define AUTOTUNE_SEARCH_TRAITS_H

#include "autotune/screen.h"
#include "base/codeobject.h"
#include "base/launch.h"
#include "runtime/driver.h"

enum { TRAITS = 5 };

struct traits {
    double moments[TRAITS][TRAITS], products[TRAITS]; /* sums over what was learnt */
    double effect[TRAITS];
    double squares; /* of what was not foreseen */
    int count;
};

/* The traits of a compiled candidate: a constant, then logarithms to base 2 of registers a thread, resident waves,
 * rounds of blocks over full rounds (1: the last round is full), bytes of shared memory. What the device or object does
 * not say is 0; unit may be NULL. */
void traits_of(const struct driver_device *device, const struct screen_unit *unit, const struct problem *problem,
               const struct resources *resources, const struct launch *launch, double trait[TRAITS]);
void traits_learn(struct traits *traits, const double trait[TRAITS], double unforeseen);
/* to be added to the log time that parameters foretell */
double traits_expect(const struct traits *traits, const double trait[TRAITS]);
/* of log times around what was foretold with the traits */
double traits_variance(const struct traits *traits);

#endif
