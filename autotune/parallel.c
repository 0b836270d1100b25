/* parallel.c - threads that draw items from one counter. */
#include "autotune/parallel.h"

#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { PARALLEL_WIDTH_MAX = 64 };

struct loop {
    atomic_size_t next;
    size_t count;
    void (*item)(void *data, size_t index);
    void *data;
};

static void *loop_run(void *data)
{
    struct loop *loop = data;
    for (;;) {
        size_t index = atomic_fetch_add(&loop->next, 1);
        if (index >= loop->count) {
            return NULL;
        }
        loop->item(loop->data, index);
    }
}

int parallel_width(void)
{
    cpu_set_t allowed;
    long cores =
        sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > PARALLEL_WIDTH_MAX ? PARALLEL_WIDTH_MAX : (int)cores;
}

void parallel_for(size_t count, void (*item)(void *data, size_t index), void *data)
{
    struct loop loop = {.count = count, .item = item, .data = data};
    pthread_t threads[PARALLEL_WIDTH_MAX];
    int width = parallel_width();
    int started = 0;
    atomic_init(&loop.next, 0);
    while (started + 1 < width && (size_t)started + 1 < count && thread_start(&threads[started], loop_run, &loop)) {
        started++;
    }
    loop_run(&loop);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
}
