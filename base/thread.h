/* thread.h - threads of our own: their stacks do not follow the caller's `ulimit -s`. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* false when the system gives no more threads */
bool thread_start(pthread_t *thread, void *(*run)(void *data), void *data);

/* For main() of our programs: a small `ulimit -s` becomes the usual one, for us and for what we start, as far as the
 * hard limit allows. A library leaves its caller's limits alone. */
void thread_usual_stack(void);

#endif
