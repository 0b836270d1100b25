/* host_device.c - launches on the host device: checks, the pool of workers and their teams of fibers.
 *
 * Blocks are claimed in index order from one counter, and a claimed block runs to its end: so a block may wait for
 * blocks of lower index. The thread that launches works too; pool threads only help, and a launch never waits for one
 * that has not begun, so a process that lost its pool to fork() still launches. The pool and its stacks live as long as
 * the process.
 */
#include "runtime/host_device.h"

#include "base/environment.h"
#include "base/thread.h"
#include "runtime/host_team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HOST_FIBER_THREAD
void __tsan_release(void *address);
void __tsan_acquire(void *address);
#endif

/* ------------------------------------------------------------------------------------------------ schedule */

static const char *const schedule_names[] = {
    [HOST_ROUND_ROBIN] = "round-robin", [HOST_GREEDY] = "greedy", [HOST_REVERSE] = "reverse"};

const char *host_schedule_name(enum host_schedule schedule)
{
    return schedule_names[schedule];
}

attune_status host_schedule_parse(const char *text, enum host_schedule *schedule, struct error *error)
{
    for (int i = 0; i < (int)(sizeof schedule_names / sizeof schedule_names[0]); i++) {
        if (strcmp(text, schedule_names[i]) == 0) {
            *schedule = (enum host_schedule)i;
            return ATTUNE_OK;
        }
    }
    return error_set(error, ATTUNE_INVALID, "schedule \"%s\" is unknown; use round-robin, greedy or reverse", text);
}

static atomic_int chosen_schedule = -1; /* enum host_schedule once set */

void host_device_set_schedule(enum host_schedule schedule)
{
    atomic_store(&chosen_schedule, (int)schedule);
}

attune_status host_device_schedule(enum host_schedule *schedule, struct error *error)
{
    int chosen = atomic_load(&chosen_schedule);
    if (chosen >= 0) {
        *schedule = (enum host_schedule)chosen;
        return ATTUNE_OK;
    }
    const char *text = environment_get("ATTUNE_HOST_SCHEDULE");
    if (text == NULL || text[0] == '\0') {
        *schedule = HOST_ROUND_ROBIN;
        return ATTUNE_OK;
    }
    if (host_schedule_parse(text, schedule, error) != ATTUNE_OK) {
        return error_prefix(error, "ATTUNE_HOST_SCHEDULE");
    }
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ shared memory */

static atomic_uchar shared_fill = HOST_SHARED_POISON;

void host_device_set_shared_fill(uint8_t byte)
{
    atomic_store(&shared_fill, byte);
}

uint8_t host_device_shared_fill(void)
{
    return atomic_load(&shared_fill);
}

/* ------------------------------------------------------------------------------------------------ trace */

/* of later launches by this thread; a launch reads it once, before it begins */
static _Thread_local struct host_trace *chosen_trace;

void host_device_set_trace(struct host_trace *trace)
{
    chosen_trace = trace;
}

struct host_trace *host_device_trace(void)
{
    return chosen_trace;
}

/* Blocks from the grid's first to its last, evenly, as many as the trace wants; in order, by this thread alone. */
static bool run_traced(struct host_team *team, const struct host_launch *launch, struct host_launch_order *order,
                       uint64_t blocks, char failure[HOST_FAILURE_BYTES])
{
    struct host_trace *trace = launch->trace;
    const uint64_t wanted = trace->blocks_max > 0 && trace->blocks_max < blocks ? trace->blocks_max : blocks;
    trace->grid_blocks = blocks;
    for (trace->blocks = 0; trace->blocks < wanted; trace->blocks++) {
        const uint64_t i = trace->blocks;
        const uint64_t block =
            wanted == 1 ? 0 : (blocks - 1) / (wanted - 1) * i + (blocks - 1) % (wanted - 1) * i / (wanted - 1);
        if (!host_team_run(team, launch, order, block, (uint32_t)i, failure)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ pool */

struct job {
    const struct host_launch *launch;
    struct host_launch_order order;
    uint64_t blocks;
    atomic_uint_fast64_t next; /* first block that nobody claimed */
    atomic_bool failed;
    /* under pool.mutex */
    int helpers;
    uint64_t failed_block;
    char failure[HOST_FAILURE_BYTES];
    struct job *following;
};

struct idle_team {
    struct host_team *team;
    struct idle_team *following;
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t work;     /* a job with unclaimed blocks was added */
    pthread_cond_t finished; /* some job lost a helper */
    bool started;
    int threads; /* helpers, the launching threads not counted */
    struct job *jobs;
    struct idle_team *idle; /* teams that nobody uses */
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .finished = PTHREAD_COND_INITIALIZER};

enum { WORKERS_MAX = 64 };

/* an idle team or a new one, with enough stacks; NULL without memory */
static struct idle_team *team_acquire(uint32_t threads)
{
    pthread_mutex_lock(&pool.mutex);
    struct idle_team *holder = pool.idle;
    if (holder != NULL) {
        pool.idle = holder->following;
    }
    pthread_mutex_unlock(&pool.mutex);
    if (holder == NULL) {
        holder = calloc(1, sizeof *holder);
        if (holder == NULL) {
            return NULL;
        }
        holder->team = host_team_create();
    }
    if (holder->team == NULL || !host_team_reserve(holder->team, threads)) {
        host_team_destroy(holder->team);
        free(holder);
        return NULL;
    }
    return holder;
}

static void team_release(struct idle_team *holder)
{
    pthread_mutex_lock(&pool.mutex);
    holder->following = pool.idle;
    pool.idle = holder;
    pthread_mutex_unlock(&pool.mutex);
}

static void job_work(struct job *job, struct host_team *team)
{
    while (!atomic_load(&job->failed)) {
        uint64_t block = atomic_fetch_add(&job->next, 1);
        if (block >= job->blocks) {
            return;
        }
        char failure[HOST_FAILURE_BYTES];
        if (host_team_run(team, job->launch, &job->order, block, 0, failure)) {
            continue;
        }
        /* every lower block was claimed before and ends by itself: the lowest failure is always the one reported */
        pthread_mutex_lock(&pool.mutex);
        if (!atomic_load(&job->failed) || block < job->failed_block) {
            job->failed_block = block;
            memcpy(job->failure, failure, sizeof failure);
        }
        atomic_store(&job->failed, true);
        pthread_mutex_unlock(&pool.mutex);
    }
}

static struct job *job_unclaimed(void)
{
    for (struct job *job = pool.jobs; job != NULL; job = job->following) {
        if (atomic_load(&job->next) < job->blocks && !atomic_load(&job->failed)) {
            return job;
        }
    }
    return NULL;
}

static void *helper_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.mutex);
    for (;;) {
        struct job *job = job_unclaimed();
        if (job == NULL) {
            pthread_cond_wait(&pool.work, &pool.mutex);
            continue;
        }
        job->helpers++;
        pthread_mutex_unlock(&pool.mutex);
        struct idle_team *holder = team_acquire(job->launch->threads);
        if (holder != NULL) {
            job_work(job, holder->team);
            team_release(holder);
        }
        pthread_mutex_lock(&pool.mutex);
        job->helpers--;
        pthread_cond_broadcast(&pool.finished);
        if (holder == NULL) {
            pthread_cond_wait(&pool.work, &pool.mutex); /* without memory: leave this job to the others */
        }
    }
    return NULL;
}

static int workers_wanted(void)
{
    const char *text = environment_get("ATTUNE_HOST_WORKERS");
    if (text != NULL && text[0] != '\0') {
        char *end;
        long value = strtol(text, &end, 10);
        if (*end == '\0' && value >= 1 && value <= WORKERS_MAX) {
            return (int)value;
        }
        warn_once("ATTUNE_HOST_WORKERS", "ATTUNE_HOST_WORKERS=%s is not a number from 1 to %d; using the online CPUs",
                  text, WORKERS_MAX);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > WORKERS_MAX ? WORKERS_MAX : (int)online;
}

/* under pool.mutex */
static void pool_start(void)
{
    pool.started = true;
    int wanted = workers_wanted() - 1;
    for (pool.threads = 0; pool.threads < wanted; pool.threads++) {
        pthread_t thread;
        if (!thread_start(&thread, helper_main, NULL)) {
            break;
        }
        pthread_detach(thread);
    }
}

static void job_publish(struct job *job)
{
    pthread_mutex_lock(&pool.mutex);
    if (!pool.started) {
        pool_start();
    }
    job->following = pool.jobs;
    pool.jobs = job;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.mutex);
}

static void job_withdraw(struct job *job)
{
    pthread_mutex_lock(&pool.mutex);
    struct job **link = &pool.jobs;
    while (*link != job) {
        link = &(*link)->following;
    }
    *link = job->following;
    while (job->helpers > 0) {
        pthread_cond_wait(&pool.finished, &pool.mutex);
    }
    pthread_mutex_unlock(&pool.mutex);
}

/* ------------------------------------------------------------------------------------------------ launch */

static attune_status launch_check(const struct host_launch *launch, struct error *error)
{
    if (launch->entry == NULL) {
        return error_set(error, ATTUNE_INVALID, "host device: entry is NULL");
    }
    if (launch->threads < 1 || launch->threads > HOST_MAX_THREADS) {
        return error_set(error, ATTUNE_INVALID, "host device: threads is %u; a block has 1 to %d", launch->threads,
                         HOST_MAX_THREADS);
    }
    if (launch->wave < 1 || launch->wave > HOST_MAX_WAVE) {
        return error_set(error, ATTUNE_INVALID, "host device: wave is %u lanes; waves have 1 to %d", launch->wave,
                         HOST_MAX_WAVE);
    }
    for (int i = 0; i < 3; i++) {
        if (launch->grid[i] == 0) {
            return error_set(error, ATTUNE_INVALID, "host device: grid %u x %u x %u has no blocks", launch->grid[0],
                             launch->grid[1], launch->grid[2]);
        }
    }
    return ATTUNE_OK;
}

attune_status host_device_run(const struct host_launch *launch, struct error *error)
{
    attune_status status = launch_check(launch, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    uint64_t plane = (uint64_t)launch->grid[0] * launch->grid[1];
    if (plane > UINT64_MAX / 2 / launch->grid[2]) {
        return error_set(error, ATTUNE_INVALID, "host device: grid %u x %u x %u has more than 2^63 blocks",
                         launch->grid[0], launch->grid[1], launch->grid[2]);
    }
    struct idle_team *holder = team_acquire(launch->threads);
    if (holder == NULL) {
        return error_set(error, ATTUNE_NO_MEMORY, "host device: no memory for the stacks of %u threads",
                         launch->threads);
    }
    struct job job = {.launch = launch, .blocks = plane * launch->grid[2]};
#ifdef HOST_FIBER_THREAD
    __tsan_release(&job.order.start);
#endif
    bool alone = job.blocks == 1 || launch->trace != NULL;
    if (!alone) {
        job_publish(&job);
    }
    if (launch->trace != NULL) {
        atomic_store(&job.failed, !run_traced(holder->team, launch, &job.order, job.blocks, job.failure));
    } else {
        job_work(&job, holder->team);
    }
    if (!alone) {
        job_withdraw(&job);
    }
    team_release(holder);
#ifdef HOST_FIBER_THREAD
    __tsan_acquire(&job.order.end);
#endif
    if (atomic_load(&job.failed)) {
        return error_set(error, ATTUNE_DEVICE_FAILED, "host device: %s", job.failure);
    }
    return ATTUNE_OK;
}
