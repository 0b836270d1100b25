/* size.h - how much a test does: $ATTUNE_TEST_SIZE is `ci` (the default) or `full`.
 *
 * A test in size ci shows the behaviour in seconds on two cores; the same test in size full repeats it over more
 * candidates, seeds, rounds or places. Both sizes can fail for the same reasons: full only looks longer.
 */
#ifndef TESTS_SIZE_H
#define TESTS_SIZE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `ci` or `full` of what there is to do. Another word in the variable ends the program: a typing error must not pass as
 * the small size. */
static inline int test_size(int ci, int full)
{
    const char *size = getenv("ATTUNE_TEST_SIZE");
    if (size == NULL || strcmp(size, "ci") == 0) {
        return ci;
    }
    if (strcmp(size, "full") == 0) {
        return full;
    }
    fprintf(stderr, "ATTUNE_TEST_SIZE is '%s'; it may be ci or full\n", size);
    exit(1);
}

#endif
