/* tune_jobs.c - the queue, the budget and the threads; see tune_jobs.h.
 *
 * One lock guards the states of jobs and devices, and is held while the listener is told. A device's thread sleeps on
 * `changed` while it has nothing to take but others of its group still work: theirs may come back.
 */
#include "cli/tune_jobs.h"

#include "base/process.h"
#include "base/thread.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

struct crew {
    struct tune_jobs *jobs;
    double deadline; /* clock_seconds; 0: none */
    double *shares;  /* of waiting jobs: scratch of allot_time */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job ended or came back */
};

struct hand { /* a device's thread */
    struct crew *crew;
    int device, job;
    struct generator *generator;
    pthread_t thread;
    bool started;
};

double tune_jobs_allot(const double *shares, int count, double seconds)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += shares[i];
    }
    /* the last ones fall below the least, one after the other, until the first `kept` can share what is left */
    for (int kept = count; kept > 0; kept--) {
        double left = seconds - (count - kept) * TUNE_JOB_SECONDS;
        if (left * shares[kept - 1] >= TUNE_JOB_SECONDS * sum) {
            return left * shares[0] / sum;
        }
        sum -= shares[kept - 1];
    }
    return fmin(TUNE_JOB_SECONDS, seconds);
}

static bool is_stopped(const struct crew *crew)
{
    const volatile int *stop = crew->jobs->settings->stop;
    return stop != NULL && *stop != 0;
}

/* device time that the group has from `now` to the deadline, without what running jobs may still take */
static double time_of_group(const struct crew *crew, int group, double now)
{
    const struct tune_jobs *jobs = crew->jobs;
    double seconds = 0;
    for (int i = 0; i < jobs->device_count; i++) {
        seconds += jobs->devices[i].group == group && !jobs->devices[i].lost ? crew->deadline - now : 0;
    }
    for (int i = 0; i < jobs->job_count; i++) {
        const struct tune_job *job = &jobs->jobs[i];
        seconds -= job->group == group && job->state == TUNE_JOB_RUNNING ? fmax(0, job->until - now) : 0;
    }
    return seconds;
}

/* seconds for a waiting job, the group's first: its part of what the group has left, at most until the deadline */
static double allot_time(struct crew *crew, int first, double now)
{
    const struct tune_jobs *jobs = crew->jobs;
    const int group = jobs->jobs[first].group;
    int count = 0;
    for (int i = first; i < jobs->job_count; i++) {
        if (jobs->jobs[i].group == group && jobs->jobs[i].state == TUNE_JOB_WAITING) {
            crew->shares[count++] = jobs->jobs[i].share;
        }
    }
    return fmin(tune_jobs_allot(crew->shares, count, time_of_group(crew, group, now)), crew->deadline - now);
}

/* Under the lock: the next job for the device, with the seconds it may take (0: no limit); -1: there is none any more.
 */
static int take_job(struct crew *crew, int device, double *seconds)
{
    struct tune_jobs *jobs = crew->jobs;
    while (!is_stopped(crew) && !jobs->devices[device].lost) {
        bool others_work = false;
        for (int i = 0; i < jobs->job_count; i++) {
            struct tune_job *job = &jobs->jobs[i];
            if (job->group != jobs->devices[device].group) {
                continue;
            }
            others_work = others_work || job->state == TUNE_JOB_RUNNING;
            if (job->state != TUNE_JOB_WAITING) {
                continue;
            }
            if (jobs->listener.wanted != NULL && !jobs->listener.wanted(jobs->listener.data, i)) {
                job->state = TUNE_JOB_LEFT;
                continue;
            }
            double now = clock_seconds();
            *seconds = crew->deadline > 0 ? allot_time(crew, i, now) : jobs->settings->budget_seconds;
            if (crew->deadline > 0 && *seconds <= 0) {
                return -1;
            }
            job->state = TUNE_JOB_RUNNING;
            job->device = device;
            job->until = crew->deadline > 0 ? now + *seconds : 0;
            return i;
        }
        if (!others_work) {
            return -1;
        }
        pthread_cond_wait(&crew->changed, &crew->lock);
    }
    return -1;
}

static void tell_progress(void *data, const struct tune_progress *progress)
{
    struct hand *hand = data;
    struct crew *crew = hand->crew;
    const struct tune_listener *listener = &crew->jobs->listener;
    if (listener->progress != NULL) {
        pthread_mutex_lock(&crew->lock);
        listener->progress(listener->data, hand->device, hand->job, progress);
        pthread_mutex_unlock(&crew->lock);
    }
}

/* A device that ended under a candidate, is not there, or did not get as far as its first candidate: the next problem
 * would fare no better. */
static bool is_lost(attune_status status, const struct tune_result *result)
{
    return result->ending == TUNE_DEVICE_LOST || status == ATTUNE_NO_DEVICE ||
           (status == ATTUNE_DEVICE_FAILED && result->listed == 0);
}

static bool group_has_device(const struct tune_jobs *jobs, int group)
{
    for (int i = 0; i < jobs->device_count; i++) {
        if (jobs->devices[i].group == group && !jobs->devices[i].lost) {
            return true;
        }
    }
    return false;
}

/* under the lock */
static void end_job(struct hand *hand, attune_status status, const struct tune_result *result, struct error *error)
{
    struct tune_jobs *jobs = hand->crew->jobs;
    struct tune_job *job = &jobs->jobs[hand->job];
    const struct tune_listener *listener = &jobs->listener;
    if (is_lost(status, result)) {
        jobs->devices[hand->device].lost = true;
        if (status == ATTUNE_OK) {
            error_set(error, ATTUNE_DEVICE_FAILED, "the device stopped answering");
        }
        if (group_has_device(jobs, job->group)) {
            job->state = TUNE_JOB_WAITING;
            if (listener->lost != NULL) {
                listener->lost(listener->data, hand->device, hand->job, error);
            }
            return;
        }
    }
    job->state = status == ATTUNE_OK ? TUNE_JOB_DONE : TUNE_JOB_FAILED;
    if (listener->ended != NULL) {
        listener->ended(listener->data, hand->device, hand->job, status, result, error);
    }
}

static void *work(void *data)
{
    struct hand *hand = data;
    struct crew *crew = hand->crew;
    const struct tune_jobs *jobs = crew->jobs;
    const tune_runner run = jobs->run != NULL ? jobs->run : tune_run;
    struct tune_options options = *jobs->settings;
    options.device = jobs->devices[hand->device].name;
    pthread_mutex_lock(&crew->lock);
    while ((hand->job = take_job(crew, hand->device, &options.budget_seconds)) >= 0) {
        const struct problem *problem = &jobs->jobs[hand->job].problem->problem;
        options.name = jobs->jobs[hand->job].name;
        struct tune_result result = {0};
        struct error error = {.message = ""};
        pthread_mutex_unlock(&crew->lock);
        attune_status status =
            run(hand->generator, jobs->pool, jobs->store, problem, &options, tell_progress, hand, &result, &error);
        pthread_mutex_lock(&crew->lock);
        end_job(hand, status, &result, &error);
        pthread_cond_broadcast(&crew->changed);
        if (status == ATTUNE_OK) {
            tune_result_free(&result);
        }
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

attune_status tune_jobs_run(struct tune_jobs *jobs, struct error *error)
{
    struct crew crew = {.jobs = jobs};
    struct hand *hands = calloc((size_t)jobs->device_count, sizeof *hands);
    attune_status status = ATTUNE_OK;
    crew.shares = calloc((size_t)jobs->job_count + 1, sizeof *crew.shares);
    if (hands == NULL || crew.shares == NULL) {
        status = error_no_memory(error);
    }
    for (int i = 0; i < jobs->device_count && status == ATTUNE_OK; i++) {
        hands[i] = (struct hand){.crew = &crew, .device = i};
        jobs->devices[i].lost = false;
        status = generator_create(NULL, &hands[i].generator, error);
    }
    if (status == ATTUNE_OK) {
        crew.deadline = jobs->seconds > 0 ? clock_seconds() + jobs->seconds : 0;
        pthread_mutex_init(&crew.lock, NULL);
        pthread_cond_init(&crew.changed, NULL);
        for (int i = 1; i < jobs->device_count; i++) {
            hands[i].started = thread_start(&hands[i].thread, work, &hands[i]);
        }
        for (int i = 0; i < jobs->device_count; i++) { /* a device without a thread has its turn here */
            if (!hands[i].started) {
                work(&hands[i]);
            }
        }
        for (int i = 1; i < jobs->device_count; i++) {
            if (hands[i].started) {
                pthread_join(hands[i].thread, NULL);
            }
        }
        pthread_cond_destroy(&crew.changed);
        pthread_mutex_destroy(&crew.lock);
    }
    for (int i = 0; hands != NULL && i < jobs->device_count; i++) {
        generator_destroy(hands[i].generator);
    }
    free(crew.shares);
    free(hands);
    return status;
}
