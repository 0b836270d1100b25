/* tune_jobs.h - many problems tuned on one or more devices side by side: who takes which, and for how long.
 *
 * A job is a problem for a group of devices. A device works at one job at a time, in a thread of its own with its own
 * generator and measuring process; compilers and store are shared. Devices of one group take their jobs from the list
 * in its order, whoever is free; groups know nothing of each other. A device that is lost gives its job back to the
 * others of its group, and takes no more.
 */
#ifndef CLI_TUNE_JOBS_H
#define CLI_TUNE_JOBS_H

#include "autotune/tune.h"
#include "cli/cli.h"

enum tune_job_state { TUNE_JOB_WAITING, TUNE_JOB_RUNNING, TUNE_JOB_DONE, TUNE_JOB_FAILED, TUNE_JOB_LEFT };

struct tune_job {
    const struct named_problem *problem; /* not owned */
    const char *name;                    /* for the journal; NULL: none */
    int group;                           /* of devices */
    double share;                        /* of the group's time, in any unit; more than 0 */
    /* tune_jobs_run's */
    enum tune_job_state state; /* WAITING at the end: not begun, or begun only by devices that were lost; LEFT: the
                                  listener wanted it no more */
    int device;                /* index of the one that took it last */
    double until;              /* RUNNING: clock_seconds when its time is over; 0: no limit */
};

struct tune_device {
    const char *name; /* driver_parse_device text; NULL: best */
    int group;
    bool lost; /* tune_jobs_run's: it no longer answers, or could not be opened */
};

/* tune_run, or what stands for it in tests */
typedef attune_status (*tune_runner)(struct generator *generator, struct compiler_pool *pool, struct store *store,
                                     const struct problem *problem, const struct tune_options *options,
                                     tune_report report, void *data, struct tune_result *result, struct error *error);

/* Told of progress and ends, by the devices' threads but one at a time. Indices are of the lists given. */
struct tune_listener {
    void *data;
    /* before a job begins: false leaves it; may be NULL, as may the others */
    bool (*wanted)(void *data, int job);
    void (*progress)(void *data, int device, int job, const struct tune_progress *progress);
    /* status ATTUNE_OK: `result` is filled and freed afterwards; else `error` says why there is none */
    void (*ended)(void *data, int device, int job, attune_status status, const struct tune_result *result,
                  struct error *error);
    /* the job goes back to the others of the group; `error` says what became of the device */
    void (*lost)(void *data, int device, int job, const struct error *error);
};

struct tune_jobs {
    struct compiler_pool *pool;
    struct store *store;
    const struct tune_options *settings; /* `device` is each job's own; budget_seconds is each job's when `seconds` is 0
                                          */
    double seconds; /* for all jobs together, of the clock; 0: no such limit. Shared out as tune_jobs_allot says: what a
                       job leaves goes to those after it, and jobs for which no time is left stay WAITING */
    struct tune_device *devices;
    int device_count;
    struct tune_job *jobs;
    int job_count;
    tune_runner run; /* NULL: tune_run */
    struct tune_listener listener;
};

/* Until every job is done, failed or out of time, the stop flag is set, or no device is left for it. ATTUNE_OK however
 * the jobs ended; else no job was begun. The first device works in the calling thread. */
attune_status tune_jobs_run(struct tune_jobs *jobs, struct error *error);

/* What the first of `count` jobs may take of `seconds` of device time, jobs sorted by share, largest first. Each gets
 * its share, but at least TUNE_JOB_SECONDS, at the cost of the others in proportion; when there is not so much for
 * every one, the first ones get that and the last none. */
#define TUNE_JOB_SECONDS 10.0
double tune_jobs_allot(const double *shares, int count, double seconds);

#endif
