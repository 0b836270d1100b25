/* thread.c - see thread.h */
#include "base/thread.h"

#include <stddef.h>
#include <sys/resource.h>

enum { THREAD_STACK_BYTES = 1 << 20, USUAL_STACK_BYTES = 8 << 20 };

bool thread_start(pthread_t *thread, void *(*run)(void *data), void *data)
{
    pthread_attr_t attributes;
    size_t usual = 0;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    /* a larger default stays: sanitizers count on it */
    if (pthread_attr_getstacksize(&attributes, &usual) != 0 || usual < THREAD_STACK_BYTES) {
        (void)pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    }
    bool started = pthread_create(thread, &attributes, run, data) == 0;
    (void)pthread_attr_destroy(&attributes);
    return started;
}

void thread_usual_stack(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < USUAL_STACK_BYTES) {
        limit.rlim_cur = USUAL_STACK_BYTES < limit.rlim_max ? USUAL_STACK_BYTES : limit.rlim_max;
        (void)setrlimit(RLIMIT_STACK, &limit);
    }
}
