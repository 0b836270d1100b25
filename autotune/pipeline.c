/* pipeline.c - objects made ahead of their reader.
 *
 * Jobs live in a ring of `window` slots. Adding expands a candidate into the next free slot (the generator is the
 * caller's), threads turn expanded jobs into objects, the reader takes them in order. The slot of the job that the
 * reader has is free again at its next call. Every position counts from the first candidate added.
 */
#include "autotune/objects.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS_MAX = 64 };
enum slot_state { SLOT_EMPTY, SLOT_EXPANDED, SLOT_WORKING, SLOT_DONE };

struct slot {
    enum slot_state state;
    int place;
    struct object_job job;
};

struct pipeline {
    struct generator *generator;
    const struct object_road *road;
    const struct problem *problem;
    const struct candidate *candidates; /* added by the reader's calls as slots become free */
    int count;
    int listed; /* of them were added */
    int window;
    struct slot *slots;
    struct expansion scratch;
    int added;
    int read;      /* jobs handed to the reader */
    int next_work; /* first job that no thread has taken */
    bool stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[THREADS_MAX];
    int thread_count;
};

static struct slot *slot_of(struct pipeline *pipeline, int position)
{
    return &pipeline->slots[position % pipeline->window];
}

static void *work(void *data)
{
    struct pipeline *pipeline = data;
    pthread_mutex_lock(&pipeline->lock);
    while (!pipeline->stop) {
        if (pipeline->next_work >= pipeline->added) {
            pthread_cond_wait(&pipeline->changed, &pipeline->lock);
            continue;
        }
        struct slot *slot = slot_of(pipeline, pipeline->next_work++);
        if (slot->state != SLOT_EXPANDED) {
            continue; /* its expansion failed */
        }
        slot->state = SLOT_WORKING;
        pthread_mutex_unlock(&pipeline->lock);
        if (object_obtain(pipeline->road, &slot->job, NULL) == ATTUNE_OK) {
            (void)object_binary(&slot->job, &slot->job.binary); /* zero again when memory ran out */
        }
        pthread_mutex_lock(&pipeline->lock);
        slot->state = SLOT_DONE;
        pthread_cond_broadcast(&pipeline->changed);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return NULL;
}

attune_status pipeline_create(struct generator *generator, const struct object_road *road,
                              const struct problem *problem, const struct candidate *candidates, int count, int threads,
                              struct pipeline **pipeline, struct error *error)
{
    *pipeline = NULL;
    struct pipeline *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    made->generator = generator;
    made->road = road;
    made->problem = problem;
    made->candidates = candidates;
    made->count = count;
    threads = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
    threads = count > 0 && threads > count ? count : threads;
    made->window = 3 * threads + 8;
    made->slots = calloc((size_t)made->window, sizeof *made->slots);
    if (made->slots == NULL || pthread_mutex_init(&made->lock, NULL) != 0) {
        free(made->slots);
        free(made);
        return error_no_memory(error);
    }
    pthread_cond_init(&made->changed, NULL);
    while (made->thread_count < threads && thread_start(&made->threads[made->thread_count], work, made)) {
        made->thread_count++;
    }
    if (made->thread_count == 0) {
        pipeline_destroy(made);
        return error_set(error, ATTUNE_NO_MEMORY,
                         "no thread could be started for compiling: raise the limit on processes");
    }
    *pipeline = made;
    return ATTUNE_OK;
}

/* the slot before `read` is still the reader's */
bool pipeline_has_room(const struct pipeline *pipeline)
{
    return pipeline->added < pipeline->read + pipeline->window - 1;
}

bool pipeline_add(struct pipeline *pipeline, const struct candidate *candidate, int place)
{
    if (!pipeline_has_room(pipeline)) {
        return false;
    }
    struct slot *slot = slot_of(pipeline, pipeline->added);
    /* outside the lock: an empty slot is no other thread's */
    attune_status status = object_expand(pipeline->generator, pipeline->road, candidate, pipeline->problem,
                                         &pipeline->scratch, &slot->job, NULL);
    slot->place = place;
    pthread_mutex_lock(&pipeline->lock);
    slot->state = status == ATTUNE_OK ? SLOT_EXPANDED : SLOT_DONE;
    pipeline->added++;
    pthread_cond_broadcast(&pipeline->changed);
    pthread_mutex_unlock(&pipeline->lock);
    return true;
}

int pipeline_under_way(const struct pipeline *pipeline)
{
    return pipeline->added - pipeline->read; /* both are the caller's thread's */
}

bool pipeline_is_ready(struct pipeline *pipeline)
{
    pthread_mutex_lock(&pipeline->lock);
    bool ready = pipeline_under_way(pipeline) == 0 || slot_of(pipeline, pipeline->read)->state == SLOT_DONE;
    pthread_mutex_unlock(&pipeline->lock);
    return ready;
}

/* What the list still has, as far as there is room. When the reader has something to do the rest waits for its next
 * call. */
static void add_listed(struct pipeline *pipeline)
{
    bool ready = false;
    while (!ready && pipeline->listed < pipeline->count &&
           pipeline_add(pipeline, &pipeline->candidates[pipeline->listed], pipeline->listed)) {
        pipeline->listed++;
        ready = pipeline_is_ready(pipeline);
    }
}

static void free_last(struct pipeline *pipeline)
{
    struct slot *last = pipeline->read > 0 ? slot_of(pipeline, pipeline->read - 1) : NULL;
    pthread_mutex_lock(&pipeline->lock);
    if (last != NULL && last->state != SLOT_EMPTY) {
        object_job_free(&last->job);
        last->state = SLOT_EMPTY;
    }
    pthread_mutex_unlock(&pipeline->lock);
}

struct object_job *pipeline_take(struct pipeline *pipeline, int *place)
{
    free_last(pipeline);
    add_listed(pipeline);
    if (pipeline_under_way(pipeline) == 0) {
        return NULL;
    }
    struct slot *slot = slot_of(pipeline, pipeline->read);
    pthread_mutex_lock(&pipeline->lock);
    while (slot->state != SLOT_DONE) {
        pthread_cond_wait(&pipeline->changed, &pipeline->lock);
    }
    pipeline->read++;
    pthread_mutex_unlock(&pipeline->lock);
    *place = slot->place;
    return &slot->job;
}

struct object_job *pipeline_next(struct pipeline *pipeline)
{
    int place;
    return pipeline_take(pipeline, &place);
}

void pipeline_destroy(struct pipeline *pipeline)
{
    if (pipeline == NULL) {
        return;
    }
    pthread_mutex_lock(&pipeline->lock);
    pipeline->stop = true;
    pthread_cond_broadcast(&pipeline->changed);
    pthread_mutex_unlock(&pipeline->lock);
    for (int i = 0; i < pipeline->thread_count; i++) {
        pthread_join(pipeline->threads[i], NULL);
    }
    for (int i = 0; i < pipeline->window; i++) {
        if (pipeline->slots[i].state != SLOT_EMPTY) {
            object_job_free(&pipeline->slots[i].job);
        }
    }
    expansion_free(&pipeline->scratch);
    pthread_cond_destroy(&pipeline->changed);
    pthread_mutex_destroy(&pipeline->lock);
    free(pipeline->slots);
    free(pipeline);
}
