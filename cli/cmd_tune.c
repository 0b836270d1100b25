/* cmd_tune.c - `attune tune`: find the fastest right candidate and keep it in the store. */
#include "cli/cli.h"
#include "cli/device_list.h"
#include "cli/progress.h"
#include "cli/tune_check.h"
#include "cli/tune_jobs.h"
#include "cli/tune_line.h"
#include "cli/tune_plan.h"
#include "cli/tune_ranks.h"
#include "cli/tune_results.h"
#include "cli/tuned.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const struct option options[] = {
    CLI_OPTION_PROBLEM,
    {"problems", 0, OPTION_TEXT, false, "FILE", "a problem a line, # comments"},
    {"trace", 0, OPTION_TEXT, true, "FILE", "what ATTUNE_TRACE noted: largest share of the time first; repeatable"},
    {"retune", 0, OPTION_FLAG, false, NULL, "also what is tuned already, of a trace"},
    {"dry-run", 0, OPTION_FLAG, false, NULL, "only tell what would be tuned, and for how long"},
    {"device", 0, OPTION_TEXT, false, "D,...",
     "cuda:0, hip:1, host, several with commas between them, or all; the first GPU, else host, when left out"},
    {"budget", 0, OPTION_DURATION, false, "TIME", "time for each problem, of a trace for all: 60s, 5m, 1h"},
    {"count", 0, OPTION_COUNT, false, "N", "check and time at most N candidates for each problem"},
    {"candidate-limit", 0, OPTION_DURATION, false, "TIME",
     "of one launch of a candidate (default: 20 times the default candidate's, at least 10s)"},
    {"strategy", 0, OPTION_TEXT, false, "S",
     "model, exhaustive, random, local, cover or default (default: model, on the host device exhaustive)"},
    {"candidates", 0, OPTION_TEXT, false, "FILE", "only the candidates named in FILE, one a line"},
    {"seed", 0, OPTION_SEED, false, "S", "order of candidates and the inputs (default 1)"},
    {"retry-blocked", 0, OPTION_FLAG, false, NULL,
     "try again what was wrong, hung, crashed or never finished compiling before"},
    {"own-compiler", 0, OPTION_FLAG, false, NULL, "compile again what the store has from another compiler"},
    {"resume", 0, OPTION_FLAG, false, NULL,
     "go on with an earlier run of the same problem, device and seed, however it ended"},
    {"target", 0, OPTION_ELSEWHERE, false, NULL,
     "candidates are timed on the GPU that is here; for another, `attune verify --target T --cover N` proves them on "
     "the "
     "CPU and `attune compile --space --target T` compiles them"},
    CLI_OPTIONS_RANKS,
    CLI_OPTION_STORE,
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    {0},
};

/* Ctrl-C ends the budget: what was timed so far still gives a record. A second one ends the program. */
static volatile int interrupted;

static void interrupt(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL);
}

enum { NAMED_MAX = 5 }; /* problems in a sentence */

/* what is shown while devices work, and kept of what they found */
struct watch {
    const struct device_list *devices;
    const struct tune_plan *plan;
    const struct tune_jobs *jobs;
    struct tune_team *team;
    json_t **others; /* by problem; of those that other ranks tuned */
    json_t **rows;   /* by job; NULL: no result */
    json_t *failed;  /* problem and why, of those that could not be tuned */
    int ended;       /* jobs */
    int unkept;      /* results that the store did not take */
    struct failures failures;
    struct progress progress;
    int told_bytes[DEVICES_MAX];  /* 1 + the job whose bytes were said last */
    char now[DEVICES_MAX][96];    /* what each of several devices is at */
    char shown[DEVICES_MAX][160]; /* the same with its name */
};

static bool has_several(const struct watch *watch)
{
    return watch->devices->count > 1;
}

static int number_of(const struct watch *watch, int job)
{
    return (int)(watch->jobs->jobs[job].problem - watch->plan->problems.items);
}

/* "cuda:1: llama: ", as far as there are several devices, and a name or several problems */
static void say_where(const struct watch *watch, int device, int job)
{
    char label[PROBLEM_NAME_BYTES];
    const char *name = tune_plan_label(watch->plan, number_of(watch, job), label);
    const bool alone = watch->plan->problems.count == 1 && name == label;
    fprintf(stderr, "attune tune: %s%s%s%s", has_several(watch) ? watch->devices->items[device].name : "",
            has_several(watch) ? ": " : "", alone ? "" : name, alone ? "" : ": ");
}

/* what --resume found */
static void say_resumed(struct watch *watch, int device, int job, const struct tune_progress *now, bool already_done)
{
    if (!watch->jobs->settings->resume) {
        return;
    }
    progress_wipe(&watch->progress);
    say_where(watch, device, job);
    if (already_done) {
        fprintf(stderr, "nothing is left to do: %d %s, and the record is there\n", now->held,
                plural(now->held, "outcome holds", "outcomes hold"));
    } else if (now->resumed) {
        fprintf(stderr, "goes on: %d %s", now->held, plural(now->held, "outcome holds", "outcomes hold"));
        if (now->invalid > 0) {
            fprintf(stderr, ", %d of other objects than today's %s not", now->invalid,
                    plural(now->invalid, "does", "do"));
        }
        fprintf(stderr, "\n");
    } else {
        fprintf(stderr, "no run to go on with: begins a new one\n");
    }
}

static void say_bytes(struct watch *watch, int device, int job, const struct tune_progress *now)
{
    if (watch->told_bytes[device] != job + 1 && now->device_bytes > 0) {
        char bytes[32];
        format_bytes(now->device_bytes, bytes);
        say_resumed(watch, device, job, now, false);
        progress_wipe(&watch->progress);
        say_where(watch, device, job);
        fprintf(stderr, "takes %s of device memory for itself\n", bytes);
        watch->told_bytes[device] = job + 1;
    }
}

/* one line for all: how many problems are done, and what each device is at */
static void show_devices(struct watch *watch)
{
    const char *parts[DEVICES_MAX];
    for (int i = 0; i < watch->devices->count; i++) {
        snprintf(watch->shown[i], sizeof watch->shown[i], "%s %s", watch->devices->items[i].name,
                 watch->jobs->devices[i].lost ? "lost" : watch->now[i]);
        parts[i] = watch->shown[i];
    }
    progress_show(&watch->progress, "", watch->ended, watch->jobs->job_count, -1, parts, watch->devices->count);
}

static void report(void *data, int device, int job, const struct tune_progress *now)
{
    struct watch *watch = data;
    say_bytes(watch, device, job, now);
    if (now->stage == TUNE_WAIT) { /* a line of its own, also where no progress is drawn: it may take long */
        progress_wipe(&watch->progress);
        say_where(watch, device, job);
        fprintf(stderr, "our share is done, waits for the other ranks\n");
    }
    if (has_several(watch)) {
        const char *name = watch->jobs->jobs[job].problem->name;
        const bool fits = name[0] != '\0' && strlen(name) <= TUNE_LINE_NAME;
        int length = snprintf(watch->now[device], sizeof watch->now[device], "%s%s%d/%d", fits ? name : "",
                              fits ? " " : "", now->done, now->total);
        if (now->best_microseconds > 0) {
            snprintf(watch->now[device] + length, sizeof watch->now[device] - (size_t)length, " best %.1f µs",
                     now->best_microseconds);
        }
        show_devices(watch);
    } else {
        tune_line_show(&watch->progress, job, watch->jobs->job_count, watch->jobs->jobs[job].problem->name, now);
    }
}

/* what a trace says of the problem */
static void describe_worth(const struct tune_plan *plan, int number, json_t *row)
{
    if (plan->of_trace) {
        json_set_whole(row, "calls", plan->calls[number]);
        json_set_real(row, "share", plan->shares[number]);
    }
}

static bool wanted(void *data, int job)
{
    struct watch *watch = data;
    return tune_team_begins(watch->team, watch->jobs->store, &watch->plan->problems, number_of(watch, job));
}

static void keep_failure(struct watch *watch, const struct named_problem *item, const struct error *error)
{
    char text[PROBLEM_TEXT_BYTES] = "";
    json_t *row = json_object();
    problem_format(&item->problem, text, NULL);
    if (item->name[0] != '\0') {
        json_set_text(row, "name", item->name);
    }
    json_set_text(row, "problem", text);
    json_set_text(row, "status", attune_status_name(error->status));
    json_set_text(row, "message", error->message);
    json_array_append_new(watch->failed, row);
}

static void ended(void *data, int device, int job, attune_status status, const struct tune_result *result,
                  struct error *error)
{
    struct watch *watch = data;
    const struct named_problem *item = watch->jobs->jobs[job].problem;
    watch->ended++;
    watch->now[device][0] = '\0';
    progress_wipe(&watch->progress);
    if (status != ATTUNE_OK) {
        if (has_several(watch)) {
            error_prefix(error, "%s", watch->devices->items[device].name);
        }
        keep_failure(watch, item, error);
        if (item->name[0] == '\0' && watch->jobs->job_count > 1) {
            char label[PROBLEM_NAME_BYTES];
            error_prefix(error, "%s", tune_plan_label(watch->plan, number_of(watch, job), label));
        }
        failures_add(&watch->failures, "tune", watch->jobs->job_count, item, error);
        return;
    }
    if (result->already_done) {
        say_resumed(watch, device, job, &result->counts, true);
    }
    watch->unkept += !result->kept;
    json_t *row = json_object();
    if (item->name[0] != '\0') {
        json_set_text(row, "name", item->name);
    }
    if (has_several(watch)) {
        json_set_text(row, "device", watch->devices->items[device].name);
    }
    describe_worth(watch->plan, (int)(item - watch->plan->problems.items), row);
    tune_results_describe(row, result);
    tune_team_describe_row(watch->team, result, true, row);
    watch->rows[job] = row;
}

static void lost(void *data, int device, int job, const struct error *error)
{
    struct watch *watch = data;
    progress_wipe(&watch->progress);
    say_where(watch, device, job);
    fprintf(stderr, "%s; the device is left out from now on, another one takes the problem\n", error->message);
}

/* the first device of a group: what holds for it holds for all */
static const struct listed_device *device_of_group(const struct device_list *devices, int group)
{
    int i = 0;
    while (devices->items[i].group != group) {
        i++;
    }
    return &devices->items[i];
}

/* Every problem of ours for every group of devices; `known` (may be NULL) are left out and counted. */
static attune_status list_jobs(const struct tune_plan *plan, const struct device_list *devices, struct tuned *known,
                               struct tune_team *team, struct tune_jobs *jobs, int *left_out, struct error *error)
{
    const struct problem_list *problems = &plan->problems;
    jobs->jobs = calloc((size_t)problems->count * (size_t)devices->groups, sizeof *jobs->jobs);
    jobs->devices = calloc((size_t)devices->count, sizeof *jobs->devices);
    if (jobs->jobs == NULL || jobs->devices == NULL) {
        return error_no_memory(error);
    }
    for (int i = 0; i < devices->count; i++) {
        jobs->devices[i] = (struct tune_device){.name = devices->items[i].name, .group = devices->items[i].group};
    }
    jobs->device_count = devices->count;
    for (int i = 0; i < problems->count; i++) {
        for (int group = 0; group < devices->groups; group++) {
            if (plan->refusals[i] != NULL && plan->of_trace) {
                team->left_out[i] = true;
                continue;
            }
            if (known != NULL && tuned_has(known, device_of_group(devices, group), &problems->items[i].problem)) {
                ++*left_out;
                team->left_out[i] = true;
                continue;
            }
            if (!team->ours[i]) {
                continue;
            }
            jobs->jobs[jobs->job_count++] =
                (struct tune_job){.problem = &problems->items[i], .group = group, .share = plan->shares[i]};
            if (!plan->of_trace && problems->items[i].name[0] != '\0') { /* a trace's names are the problems' texts */
                jobs->jobs[jobs->job_count - 1].name = problems->items[i].name;
            }
        }
    }
    return ATTUNE_OK;
}

static bool group_is_lost(const struct tune_jobs *jobs, int group)
{
    for (int i = 0; i < jobs->device_count; i++) {
        if (jobs->devices[i].group == group && !jobs->devices[i].lost) {
            return false;
        }
    }
    return true;
}

static void add_name(struct buffer *text, const struct tune_plan *plan, const struct named_problem *item)
{
    char label[PROBLEM_NAME_BYTES];
    buffer_text(text, tune_plan_label(plan, (int)(item - plan->problems.items), label));
}

/* "not begun: a, b and 3 more", of jobs that wait */
static void add_not_begun(struct buffer *text, const struct watch *watch, int waiting)
{
    const struct tune_jobs *jobs = watch->jobs;
    int named = 0;
    for (int i = 0; i < jobs->job_count && named < NAMED_MAX; i++) {
        if (jobs->jobs[i].state == TUNE_JOB_WAITING) {
            buffer_text(text, named++ == 0 ? "not begun: " : ", ");
            add_name(text, watch->plan, jobs->jobs[i].problem);
        }
    }
    if (waiting > named) {
        buffer_format(text, " and %d more", waiting - named);
    }
}

/* "a was stopped; not begun: b, c", "" when Ctrl-C left nothing undone */
static void add_undone(struct buffer *text, const struct watch *watch, int waiting)
{
    for (int i = 0; i < watch->jobs->job_count; i++) {
        const char *ending = json_string_value(json_object_get(watch->rows[i], "ending"));
        if (ending != NULL && strcmp(ending, tune_ending_name(TUNE_INTERRUPTED)) == 0) {
            buffer_text(text, text->length > 0 ? ", " : "");
            add_name(text, watch->plan, watch->jobs->jobs[i].problem);
        }
    }
    if (text->length > 0) {
        buffer_text(text, " stopped before the search's end");
    }
    if (waiting > 0) {
        buffer_text(text, text->length > 0 ? "; " : "");
        add_not_begun(text, watch, waiting);
    }
}

static int count_waiting(const struct tune_jobs *jobs, int *without_device)
{
    int waiting = 0;
    *without_device = 0;
    for (int i = 0; i < jobs->job_count; i++) {
        if (jobs->jobs[i].state == TUNE_JOB_WAITING) {
            waiting++;
            *without_device += group_is_lost(jobs, jobs->jobs[i].group);
        }
    }
    return waiting;
}

/* What was found is kept, but not all was done that was asked: that is no success. A budget that ended before did what
 * was asked. */
static attune_status judge(struct cli *cli, const struct watch *watch, struct error *error)
{
    const struct tune_jobs *jobs = watch->jobs;
    struct buffer undone = BUFFER_INIT;
    int without_device;
    const int waiting = count_waiting(jobs, &without_device);
    const int total = tune_team_share(watch->team) != NULL ? watch->team->count : jobs->job_count;
    attune_status status = failures_status(&watch->failures, total, "problems could not be tuned", error);
    if (waiting > 0) {
        json_set_whole(cli->result, "not_begun", waiting);
    }
    if (interrupted) {
        add_undone(&undone, watch, waiting);
        if (status != ATTUNE_OK) {
            error_prefix(error, "interrupted%s%s", undone.length > 0 ? ": " : "", buffer_string(&undone));
        } else if (undone.length > 0) {
            status = error_set(error, ATTUNE_TIMEOUT, "interrupted: %s; the same command with --resume goes on",
                               buffer_string(&undone));
        }
    } else if (waiting > 0) {
        add_not_begun(&undone, watch, waiting);
        if (status != ATTUNE_OK) {
            error_prefix(error, "%d of %d problems %s", waiting, jobs->job_count, buffer_string(&undone));
        } else if (without_device > 0) {
            status = error_set(error, ATTUNE_DEVICE_FAILED, "no device is left for %d of %d problems, %s",
                               without_device, jobs->job_count, buffer_string(&undone));
        } else {
            fprintf(stderr, "attune tune: the budget ended before the last %d of %d problems, %s\n", waiting,
                    jobs->job_count, buffer_string(&undone));
        }
    }
    buffer_free(&undone);
    if (status == ATTUNE_OK && watch->unkept > 0) {
        status =
            error_set(error, ATTUNE_IO,
                      "the store%s%s did not take %d of %d results, which are lost with this process: make room, or "
                      "see that it can be written, and run this again%s",
                      store_path(jobs->store)[0] != '\0' ? " " : "", store_path(jobs->store), watch->unkept,
                      watch->ended, store_path(jobs->store)[0] != '\0' ? " with --resume" : "");
    }
    return status;
}

/* what other ranks tuned, and what they left to us */
static attune_status collect(struct cli *cli, struct watch *watch, struct error *error)
{
    struct tune_options settings = *watch->jobs->settings;
    int not_begun = 0;
    settings.device = watch->devices->items[0].name;
    const struct tune_work work = {.generator = cli->generator,
                                   .pool = watch->jobs->pool,
                                   .store = watch->jobs->store,
                                   .settings = &settings,
                                   .named = !watch->plan->of_trace,
                                   .take_over = watch->jobs->seconds == 0,
                                   .describe = tune_results_describe};
    watch->others = calloc((size_t)watch->plan->problems.count + 1, sizeof(json_t *));
    attune_status status = watch->others != NULL ? tune_team_collect(watch->team, &work, &watch->plan->problems,
                                                                     watch->others, &watch->failures, &not_begun, error)
                                                 : error_no_memory(error);
    for (int i = 0; watch->others != NULL && i < watch->plan->problems.count; i++) {
        if (watch->others[i] != NULL) {
            describe_worth(watch->plan, i, watch->others[i]);
        }
    }
    if (not_begun > 0) {
        json_set_whole(cli->result, "peers_not_begun", not_begun);
        fprintf(stderr, "attune tune: %d %s of other ranks %s not begun\n", not_begun,
                plural(not_begun, "problem", "problems"), plural(not_begun, "was", "were"));
    }
    return status;
}

/* in the order of the problems */
static json_t *list_results(const struct watch *watch)
{
    const struct problem_list *problems = &watch->plan->problems;
    json_t *results = json_array();
    int job = 0;
    for (int i = 0; i < problems->count; i++) {
        for (; job < watch->jobs->job_count && watch->jobs->jobs[job].problem == &problems->items[i]; job++) {
            if (watch->rows != NULL && watch->rows[job] != NULL) {
                json_set_whole(watch->rows[job], "number", i + 1);
                json_array_append_new(results, watch->rows[job]);
            }
        }
        if (watch->others != NULL && watch->others[i] != NULL) {
            json_set_whole(watch->others[i], "number", i + 1);
            json_array_append_new(results, watch->others[i]);
        }
    }
    return results;
}

/* the devices' work, and what came of it */
static attune_status do_jobs(struct cli *cli, struct tune_jobs *jobs, struct watch *watch, struct error *error)
{
    jobs->listener =
        (struct tune_listener){.data = watch, .wanted = wanted, .progress = report, .ended = ended, .lost = lost};
    watch->rows = calloc((size_t)jobs->job_count + 1, sizeof(json_t *));
    watch->failed = json_array();
    const struct compiler_options compilers = {.workers = tune_team_workers(watch->team)};
    attune_status status =
        watch->rows != NULL ? compiler_pool_create(&compilers, &jobs->pool, error) : error_no_memory(error);
    if (status == ATTUNE_OK) {
        signal(SIGINT, interrupt);
        progress_begin(&watch->progress);
        status = tune_jobs_run(jobs, error);
        progress_end(&watch->progress);
    }
    if (status == ATTUNE_OK) {
        status = collect(cli, watch, error);
    }
    if (status == ATTUNE_OK) {
        status = judge(cli, watch, error);
    }
    if (json_array_size(watch->failed) > 0) {
        json_object_set(cli->result, "failures", watch->failed);
    }
    json_decref(watch->failed);
    json_t *results = list_results(watch);
    json_object_set_new(cli->result, "results", results);
    const char *where = watch->unkept == 0 ? store_path(jobs->store) : "";
    json_set_text(cli->result, "store", where);
    if (!cli->json && json_array_size(results) > 0) {
        tune_results_print(results, where);
    }
    if (jobs->pool != NULL) {
        compiler_pool_destroy(jobs->pool);
    }
    free(watch->rows);
    free(watch->others);
    return status;
}

static attune_status tune_all(struct cli *cli, struct tune_plan *plan, const struct device_list *devices,
                              struct tune_team *team, const struct tune_options *settings, struct error *error)
{
    struct tune_jobs jobs = {.settings = settings, .seconds = plan->of_trace ? settings->budget_seconds : 0};
    struct watch watch = {.devices = devices, .plan = plan, .jobs = &jobs, .team = team};
    struct tuned *known = NULL;
    int tuned_already = 0;
    attune_status status = store_open(options_text(&cli->options, "store"), &jobs.store, error);
    const bool default_will_do = settings->strategy != NULL && strcmp(settings->strategy, "default") == 0;
    if (status == ATTUNE_OK && plan->of_trace && !options_has(&cli->options, "retune") &&
        (known = tuned_create(jobs.store, cli->generator, default_will_do)) == NULL) {
        status = error_no_memory(error);
    }
    if (status == ATTUNE_OK) {
        status = tune_plan_check(cli, plan, devices, error);
    }
    if (status == ATTUNE_OK) {
        status = list_jobs(plan, devices, known, team, &jobs, &tuned_already, error);
    }
    tuned_free(known);
    if (status == ATTUNE_OK) {
        tune_plan_describe(cli, plan, tuned_already);
        tune_team_describe(team, cli->result);
        if (options_has(&cli->options, "dry-run")) {
            tune_plan_show(cli, plan, &jobs, devices);
        }
        status = tune_plan_refusal(plan, error);
        if (status == ATTUNE_OK && !options_has(&cli->options, "dry-run")) {
            status = do_jobs(cli, &jobs, &watch, error);
        }
    }
    store_close(jobs.store);
    free(jobs.jobs);
    free(jobs.devices);
    return status;
}

static attune_status run(struct cli *cli, struct error *error)
{
    const struct options *given = &cli->options;
    struct tune_plan plan = {0};
    struct device_list devices;
    struct tune_team team = {0};
    const char *device = NULL;
    struct tune_options settings = {
        .budget_seconds = options_real(given, "budget", 0),
        .budget_candidates = (int)options_whole(given, "count", 0),
        .strategy = options_text(given, "strategy"),
        .candidates = options_text(given, "candidates"),
        .seed = options_whole(given, "seed", TUNE_SEED),
        .candidate_seconds = options_real(given, "candidate-limit", 0),
        .retry_blocked = options_has(given, "retry-blocked"),
        .resume = options_has(given, "resume"),
        .accept_stored = !options_has(given, "own-compiler"),
        .stop = &interrupted,
    };
    attune_status status = tune_plan_read(cli, &plan, error);
    if (status == ATTUNE_OK) {
        status = tune_team_open(given, &plan.problems, &team, error);
    }
    if (status == ATTUNE_OK) {
        status = tune_team_device(&team, options_text(given, "device"), &device, error);
    }
    if (status == ATTUNE_OK) {
        status = device_list_read(device, &devices, error);
    }
    if (status == ATTUNE_OK) {
        status = tune_check_strategy(&settings, &devices, error);
    }
    if (status == ATTUNE_OK) {
        settings.share = tune_team_share(&team);
        tune_team_say(&team);
        status = tune_all(cli, &plan, &devices, &team, &settings, error);
    }
    tune_team_close(&team);
    tune_plan_free(&plan);
    return status;
}

const struct command command_tune = {
    .name = "tune",
    .usage = "--problem P | --problems FILE | --trace FILE [--device D] [--budget TIME | --count N]",
    .summary = "find the fastest right candidate and keep it in the cache",
    .help =
        "Compiles candidates in parallel, screens them by resources, verifies each before it is timed, times the rest\n"
        "in interleaved rounds, and writes the winner's record and the journal of all outcomes into the cache.\n"
        "On the host device nothing is timed: the default wins among those verified.\n\n"
        "  attune tune --problems examples/problems/all.txt --budget 80s\n"
        "  attune tune --trace calls.jsonl --budget 1h --device all\n",
    .options = options,
    .run = run,
};
