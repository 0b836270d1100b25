/* pipeline.c - objects made ahead of their reader.
 *
 * Jobs live in a ring of `window` slots. The reader expands candidates into free slots (the generator is its own),
 * threads turn expanded jobs into objects, the reader takes them in order. A slot is free again at the reader's next
 * call.
 */
#include "autotune/objects.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS_MAX = 64 };
enum slot_state { SLOT_EMPTY, SLOT_EXPANDED, SLOT_WORKING, SLOT_DONE };

struct slot {
    enum slot_state state;
    struct object_job job;
};

struct pipeline {
    struct generator *generator;
    const struct object_road *road;
    const struct problem *problem;
    const struct candidate *candidates;
    int count;
    int window;
    struct slot *slots;
    struct expansion scratch;
    int expanded;  /* candidates put into slots */
    int read;      /* candidates handed to the reader */
    int next_work; /* first candidate that no thread has taken */
    bool stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[THREADS_MAX];
    int thread_count;
};

static struct slot *slot_of(struct pipeline *pipeline, int candidate)
{
    return &pipeline->slots[candidate % pipeline->window];
}

static void *work(void *data)
{
    struct pipeline *pipeline = data;
    pthread_mutex_lock(&pipeline->lock);
    while (!pipeline->stop) {
        if (pipeline->next_work >= pipeline->expanded) {
            pthread_cond_wait(&pipeline->changed, &pipeline->lock);
            continue;
        }
        struct slot *slot = slot_of(pipeline, pipeline->next_work++);
        if (slot->state != SLOT_EXPANDED) {
            continue; /* its expansion failed */
        }
        slot->state = SLOT_WORKING;
        pthread_mutex_unlock(&pipeline->lock);
        object_obtain(pipeline->road, &slot->job, NULL);
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
    threads = threads > count ? count : threads;
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
    if (made->thread_count == 0 && count > 0) {
        pipeline_destroy(made);
        return error_set(error, ATTUNE_NO_MEMORY,
                         "no thread could be started for compiling: raise the limit on processes");
    }
    *pipeline = made;
    return ATTUNE_OK;
}

/* Fills free slots. The slot before `read` is still the reader's. Expansion happens outside the lock: an empty slot is
 * no other thread's. */
static void expand_ahead(struct pipeline *pipeline)
{
    while (pipeline->expanded < pipeline->count && pipeline->expanded < pipeline->read + pipeline->window - 1) {
        struct slot *slot = slot_of(pipeline, pipeline->expanded);
        attune_status status =
            object_expand(pipeline->generator, pipeline->road, &pipeline->candidates[pipeline->expanded],
                          pipeline->problem, &pipeline->scratch, &slot->job, NULL);
        pthread_mutex_lock(&pipeline->lock);
        slot->state = status == ATTUNE_OK ? SLOT_EXPANDED : SLOT_DONE;
        pipeline->expanded++;
        bool ready = pipeline->read < pipeline->expanded && slot_of(pipeline, pipeline->read)->state == SLOT_DONE;
        pthread_cond_broadcast(&pipeline->changed);
        pthread_mutex_unlock(&pipeline->lock);
        if (ready) {
            break; /* the reader has something to do; the rest is expanded at its next call */
        }
    }
}

struct object_job *pipeline_next(struct pipeline *pipeline)
{
    if (pipeline->read > 0) {
        struct slot *last = slot_of(pipeline, pipeline->read - 1);
        pthread_mutex_lock(&pipeline->lock);
        if (last->state != SLOT_EMPTY) {
            object_job_free(&last->job);
            last->state = SLOT_EMPTY;
        }
        pthread_mutex_unlock(&pipeline->lock);
    }
    if (pipeline->read >= pipeline->count) {
        return NULL;
    }
    expand_ahead(pipeline);
    struct slot *slot = slot_of(pipeline, pipeline->read);
    pthread_mutex_lock(&pipeline->lock);
    while (slot->state != SLOT_DONE) {
        pthread_cond_wait(&pipeline->changed, &pipeline->lock);
    }
    pipeline->read++;
    pthread_mutex_unlock(&pipeline->lock);
    return &slot->job;
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
