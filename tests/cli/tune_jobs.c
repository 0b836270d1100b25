/* Who tunes which problem, and for how long, with a runner that tells instead of tuning. */
#include "cli/tune_jobs.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { NAMES_MAX = 16 };

/* The one script of a test: what the runner does, and what it saw. */
static struct script {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *lost;          /* device whose every run ends with the device */
    attune_status lost_status; /* ATTUNE_OK: with a result so far */
    const char *failing;       /* problem that no device can tune */
    const char *stop_at;       /* problem during which the user presses Ctrl-C */
    int together;              /* the first so many runs wait for each other */
    int lost_after;            /* the device is lost when so many jobs ended */
    atomic_int ended;
    int begun, failed, given_back;
    volatile int stop;
    struct {
        char problem[PROBLEM_NAME_BYTES], device[32];
        double seconds;
    } runs[NAMES_MAX];
} script;

static attune_status run_script(struct generator *generator, struct compiler_pool *pool, struct store *store,
                                const struct problem *problem, const struct tune_options *options, tune_report report,
                                void *data, struct tune_result *result, struct error *error)
{
    const struct tune_progress progress = {.candidates = 1};
    const char *name =
        ((const struct named_problem *)((const char *)problem - offsetof(struct named_problem, problem)))->name;
    (void)pool;
    (void)store;
    assert_non_null(generator);
    memset(result, 0, sizeof *result);
    report(data, &progress);
    pthread_mutex_lock(&script.lock);
    const int mine = script.begun++;
    assert_in_range(mine, 0, NAMES_MAX - 1);
    snprintf(script.runs[mine].problem, sizeof script.runs[mine].problem, "%s", name);
    snprintf(script.runs[mine].device, sizeof script.runs[mine].device, "%s", options->device);
    script.runs[mine].seconds = options->budget_seconds;
    pthread_cond_broadcast(&script.changed);
    while (mine < script.together && script.begun < script.together) {
        pthread_cond_wait(&script.changed, &script.lock);
    }
    pthread_mutex_unlock(&script.lock);
    if (script.stop_at != NULL && strcmp(script.stop_at, name) == 0) {
        script.stop = 1;
    }
    if (script.failing != NULL && strcmp(script.failing, name) == 0) {
        result->listed = 1;
        return error_set(error, ATTUNE_COMPILE_FAILED, "as the script says");
    }
    if (script.lost != NULL && strcmp(script.lost, options->device) == 0) {
        while (script.ended < script.lost_after) {
            usleep(1000);
        }
        result->ending = TUNE_DEVICE_LOST;
        return script.lost_status == ATTUNE_OK ? ATTUNE_OK : error_set(error, script.lost_status, "gone");
    }
    return ATTUNE_OK;
}

static void hear_end(void *data, int device, int job, attune_status status, const struct tune_result *result,
                     struct error *error)
{
    struct tune_jobs *jobs = data;
    assert_non_null(result);
    assert_int_equal(jobs->jobs[job].device, device);
    assert_true(status == ATTUNE_OK || error->message[0] != '\0');
    script.ended++;
    script.failed += status != ATTUNE_OK;
}

static void hear_loss(void *data, int device, int job, const struct error *error)
{
    struct tune_jobs *jobs = data;
    assert_int_equal(jobs->jobs[job].state, TUNE_JOB_WAITING);
    assert_true(jobs->devices[device].lost);
    assert_true(error->message[0] != '\0');
    script.given_back++;
}

/* problems a, b, c ... for groups 0 .. groups-1; devices d0, d1 ... of the groups given */
static struct named_problem problems[8];
static struct tune_job jobs_of[NAMES_MAX];
static struct tune_device devices_of[4];
static struct tune_options settings;

static struct tune_jobs make_jobs(int problem_count, const int *groups, int device_count, int group_count)
{
    static const char *const names[] = {"d0", "d1", "d2", "d3"};
    struct tune_jobs jobs = {.settings = &settings, .jobs = jobs_of, .devices = devices_of, .run = run_script};
    memset(&script, 0, sizeof script);
    pthread_mutex_init(&script.lock, NULL);
    pthread_cond_init(&script.changed, NULL);
    settings = (struct tune_options){.stop = &script.stop};
    for (int i = 0; i < problem_count; i++) {
        snprintf(problems[i].name, sizeof problems[i].name, "%c", 'a' + i);
        for (int group = 0; group < group_count; group++) {
            jobs_of[jobs.job_count++] = (struct tune_job){.problem = &problems[i], .group = group, .share = 1};
        }
    }
    for (int i = 0; i < device_count; i++) {
        devices_of[jobs.device_count++] = (struct tune_device){.name = names[i], .group = groups[i]};
    }
    return jobs;
}

static void run(struct tune_jobs *jobs)
{
    struct error error = {.message = ""};
    jobs->listener = (struct tune_listener){.data = jobs, .ended = hear_end, .lost = hear_loss};
    assert_int_equal(tune_jobs_run(jobs, &error), ATTUNE_OK);
}

static int runs_of(const char *problem, const char *device)
{
    int count = 0;
    for (int i = 0; i < script.begun; i++) {
        count += (problem == NULL || strcmp(script.runs[i].problem, problem) == 0) &&
                 (device == NULL || strcmp(script.runs[i].device, device) == 0);
    }
    return count;
}

static int jobs_in(const struct tune_jobs *jobs, enum tune_job_state state)
{
    int count = 0;
    for (int i = 0; i < jobs->job_count; i++) {
        count += jobs->jobs[i].state == state;
    }
    return count;
}

static void one_device_takes_all_in_order(void **state)
{
    (void)state;
    struct tune_jobs jobs = make_jobs(4, (int[]){0}, 1, 1);
    settings.budget_seconds = 7;
    run(&jobs);
    assert_int_equal(script.begun, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(script.runs[i].problem[0], 'a' + i);
        assert_true(script.runs[i].seconds == 7); /* a budget of each problem */
    }
    assert_int_equal(jobs_in(&jobs, TUNE_JOB_DONE), 4);
}

static bool want_no_b(void *data, int job)
{
    const struct tune_jobs *jobs = data;
    return jobs->jobs[job].problem->name[0] != 'b';
}

static void what_is_wanted_no_more_is_left(void **state)
{
    (void)state;
    struct error error = {.message = ""};
    struct tune_jobs jobs = make_jobs(3, (int[]){0}, 1, 1);
    jobs.listener = (struct tune_listener){.data = &jobs, .wanted = want_no_b, .ended = hear_end};
    assert_int_equal(tune_jobs_run(&jobs, &error), ATTUNE_OK);
    assert_int_equal(script.begun, 2);
    assert_int_equal(runs_of("b", NULL), 0);
    assert_int_equal(jobs.jobs[1].state, TUNE_JOB_LEFT);
    assert_int_equal(jobs_in(&jobs, TUNE_JOB_DONE), 2);
}

static void equal_devices_share_the_list(void **state)
{
    (void)state;
    struct tune_jobs jobs = make_jobs(6, (int[]){0, 0}, 2, 1);
    script.together = 2;
    run(&jobs);
    assert_int_equal(script.begun, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(runs_of(problems[i].name, NULL), 1);
    }
    assert_true(runs_of(NULL, "d0") > 0 && runs_of(NULL, "d1") > 0);
}

static void different_devices_tune_everything(void **state)
{
    (void)state;
    struct tune_jobs jobs = make_jobs(3, (int[]){0, 1, 1}, 3, 2);
    run(&jobs);
    assert_int_equal(script.begun, 6);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(runs_of(problems[i].name, "d0"), 1);
        assert_int_equal(runs_of(problems[i].name, NULL), 2);
    }
    assert_int_equal(jobs_in(&jobs, TUNE_JOB_DONE), 6);
}

static void a_lost_device_gives_its_problem_back(void **state)
{
    (void)state;
    static const attune_status endings[] = {ATTUNE_OK, ATTUNE_DEVICE_FAILED, ATTUNE_NO_DEVICE};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        struct tune_jobs jobs = make_jobs(5, (int[]){0, 0}, 2, 1);
        script.together = 2;
        script.lost = "d1";
        script.lost_status = endings[i];
        run(&jobs);
        assert_int_equal(runs_of(NULL, "d1"), 1);
        assert_int_equal(runs_of(NULL, "d0"), 5);
        assert_int_equal(script.given_back, 1);
        assert_int_equal(script.ended, 5);
        assert_int_equal(script.failed, 0);
        assert_int_equal(jobs_in(&jobs, TUNE_JOB_DONE), 5);
    }
}

/* the others have long run out of work by then */
static void a_device_lost_last_of_all_is_replaced_too(void **state)
{
    (void)state;
    struct tune_jobs jobs = make_jobs(3, (int[]){0, 0}, 2, 1);
    script.together = 2;
    script.lost = "d1";
    script.lost_after = 2;
    run(&jobs);
    assert_int_equal(runs_of(NULL, "d0"), 3);
    assert_int_equal(script.given_back, 1);
    assert_int_equal(jobs_in(&jobs, TUNE_JOB_DONE), 3);
}

static void without_a_device_the_rest_waits(void **state)
{
    (void)state;
    struct tune_jobs jobs = make_jobs(3, (int[]){0, 1}, 2, 2);
    script.lost = "d0";
    script.lost_status = ATTUNE_DEVICE_FAILED;
    run(&jobs);
    assert_int_equal(runs_of(NULL, "d0"), 1);
    assert_int_equal(runs_of(NULL, "d1"), 3); /* the other group's work goes on */
    assert_int_equal(jobs_in(&jobs, TUNE_JOB_FAILED), 1);
    assert_int_equal(jobs_in(&jobs, TUNE_JOB_WAITING), 2);
    assert_int_equal(jobs_in(&jobs, TUNE_JOB_DONE), 3);
    jobs = make_jobs(3, (int[]){0}, 1, 1); /* what it had found by then is a result */
    script.lost = "d0";
    run(&jobs);
    assert_int_equal(jobs_in(&jobs, TUNE_JOB_DONE), 1);
    assert_int_equal(jobs_in(&jobs, TUNE_JOB_WAITING), 2);
    assert_int_equal(script.given_back, 0);
}

static void a_problem_that_fails_costs_no_other(void **state)
{
    (void)state;
    struct tune_jobs jobs = make_jobs(4, (int[]){0, 0}, 2, 1);
    script.failing = "b";
    run(&jobs);
    assert_int_equal(script.begun, 4);
    assert_int_equal(script.failed, 1);
    assert_int_equal(jobs_in(&jobs, TUNE_JOB_DONE), 3);
    assert_int_equal(jobs.jobs[1].state, TUNE_JOB_FAILED);
    assert_false(devices_of[0].lost || devices_of[1].lost);
}

static void nothing_begins_after_a_stop(void **state)
{
    (void)state;
    struct tune_jobs jobs = make_jobs(4, (int[]){0}, 1, 1);
    script.stop_at = "b";
    run(&jobs);
    assert_int_equal(script.begun, 2);
    assert_int_equal(jobs_in(&jobs, TUNE_JOB_WAITING), 2);
}

static void time_goes_by_share(void **state)
{
    (void)state;
    static const double equal[] = {1, 1, 1, 1}, steep[] = {90, 8, 1, 1}, one[] = {0.001};
    assert_float_equal(tune_jobs_allot(equal, 4, 400), 100, 1e-9);
    assert_float_equal(tune_jobs_allot(one, 1, 60), 60, 1e-9);
    assert_float_equal(tune_jobs_allot(steep, 4, 4000), 3600, 1e-9);
    /* the last three are raised to 10 s, at the cost of the first */
    assert_float_equal(tune_jobs_allot(steep, 4, 100), 70, 1e-9);
    assert_float_equal(tune_jobs_allot(steep + 1, 3, 30), 10, 1e-9);
    /* not enough for a least of each: the first ones have theirs */
    assert_float_equal(tune_jobs_allot(equal, 4, 25), 10, 1e-9);
    assert_float_equal(tune_jobs_allot(equal, 4, 5), 5, 1e-9);
}

static void what_is_left_goes_to_the_others(void **state)
{
    (void)state;
    struct tune_jobs jobs = make_jobs(3, (int[]){0}, 1, 1);
    static const double shares[] = {6, 3, 1};
    for (int i = 0; i < 3; i++) {
        jobs_of[i].share = shares[i];
    }
    jobs.seconds = 1000;
    run(&jobs); /* each ends at once */
    assert_float_equal(script.runs[0].seconds, 600, 50);
    assert_float_equal(script.runs[1].seconds, 750, 50);
    assert_float_equal(script.runs[2].seconds, 1000, 50);
}

static void two_devices_have_twice_the_time(void **state)
{
    (void)state;
    struct tune_jobs jobs = make_jobs(4, (int[]){0, 0}, 2, 1);
    jobs.seconds = 1000;
    script.together = 2;
    run(&jobs);
    assert_float_equal(script.runs[0].seconds, 500, 50);
    assert_float_equal(script.runs[1].seconds, 500, 50);
    jobs = make_jobs(1, (int[]){0, 0}, 2, 1); /* one problem is of one device: its time is the clock's */
    jobs.seconds = 1000;
    run(&jobs);
    assert_float_equal(script.runs[0].seconds, 1000, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_takes_all_in_order),
        cmocka_unit_test(what_is_wanted_no_more_is_left),
        cmocka_unit_test(equal_devices_share_the_list),
        cmocka_unit_test(different_devices_tune_everything),
        cmocka_unit_test(a_lost_device_gives_its_problem_back),
        cmocka_unit_test(a_device_lost_last_of_all_is_replaced_too),
        cmocka_unit_test(without_a_device_the_rest_waits),
        cmocka_unit_test(a_problem_that_fails_costs_no_other),
        cmocka_unit_test(nothing_begins_after_a_stop),
        cmocka_unit_test(time_goes_by_share),
        cmocka_unit_test(what_is_left_goes_to_the_others),
        cmocka_unit_test(two_devices_have_twice_the_time),
    };
    return cmocka_run_group_tests_name("cli_tune_jobs", tests, NULL, NULL);
}
