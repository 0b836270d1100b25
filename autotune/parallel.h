/* parallel.h - a loop over independent items on all cores, for work on the CPU that takes milliseconds or more. */
#ifndef AUTOTUNE_PARALLEL_H
#define AUTOTUNE_PARALLEL_H

#include <stddef.h>

/* Calls item(data, index) once for each index below count, from several threads at once, and returns when all are done.
 * Items are handed out in order. Threads that cannot be started are done without: the caller's own thread always works.
 */
void parallel_for(size_t count, void (*item)(void *data, size_t index), void *data);

int parallel_width(void); /* threads that a loop may use: the online cores, at most 64 */

#endif
