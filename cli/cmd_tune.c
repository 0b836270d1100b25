/* cmd_tune.c - `attune tune`: find the fastest right candidate and keep it in the store. */
#include "cli/cli.h"
#include "cli/device_list.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/tune_jobs.h"
#include "cli/tune_plan.h"
#include "cli/tune_ranks.h"
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
     "go on with the newest run of the same problem, device and seed, however it ended"},
    CLI_OPTIONS_RANKS,
    CLI_OPTION_STORE,
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    {0},
};

enum { REASONS_MAX = 12 };
static const double drift_told = 0.03;

/* outcomes that are no rejection */
static bool is_rejection(const char *outcome)
{
    static const char *const fine[] = {"timed", "slower", "right", "same", "not-tried"};
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        if (strcmp(outcome, fine[i]) == 0) {
            return false;
        }
    }
    return true;
}

/* how many candidates had each outcome, in order of first appearance: {"timed": 12, "slower": 200, ...} */
static json_t *count_outcomes(const struct tune_result *result)
{
    json_t *counts = json_object();
    for (int i = 0; i < result->outcome_count; i++) {
        const char *outcome = result->outcomes[i].outcome;
        json_set_whole(counts, outcome, 1 + json_integer_value(json_object_get(counts, outcome)));
    }
    return counts;
}

static size_t number_at(const char *text)
{
    return strspn(text, "0123456789.");
}

/* equal but for the numbers in them: "72 bytes of scratch" and "16 bytes of scratch" are one kind of reason */
static bool same_kind(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        size_t in_a = number_at(a), in_b = number_at(b);
        if ((in_a == 0) != (in_b == 0) || (in_a == 0 && *a != *b)) {
            return false;
        }
        a += in_a > 0 ? in_a : 1;
        b += in_b > 0 ? in_b : 1;
    }
    return *a == *b;
}

static json_t *find_rejection(const json_t *rows, const struct tune_outcome *outcome)
{
    size_t index;
    json_t *row;
    json_array_foreach(rows, index, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "outcome")), outcome->outcome) == 0 &&
            same_kind(json_string_value(json_object_get(row, "reason")), outcome->reason)) {
            return row;
        }
    }
    return NULL;
}

/* rejected candidates by outcome and kind of reason, the first of each as the example, in order of first appearance;
 * past REASONS_MAX kinds, the counts by outcome and the journal are what is left */
static json_t *collect_rejections(const struct tune_result *result)
{
    json_t *rows = json_array();
    for (int i = 0; i < result->outcome_count; i++) {
        const struct tune_outcome *outcome = &result->outcomes[i];
        if (!is_rejection(outcome->outcome)) {
            continue;
        }
        json_t *row = find_rejection(rows, outcome);
        if (row != NULL) {
            json_set_whole(row, "count", json_integer_value(json_object_get(row, "count")) + 1);
        } else if (json_array_size(rows) < REASONS_MAX) {
            row = json_object();
            json_set_text(row, "outcome", outcome->outcome);
            json_set_text(row, "reason", outcome->reason);
            json_set_text(row, "example", outcome->candidate);
            json_set_whole(row, "count", 1);
            json_array_append_new(rows, row);
        }
    }
    return rows;
}

static double tflops(double operations, double microseconds)
{
    return microseconds > 0 ? operations / microseconds * 1e-6 : 0;
}

static double per_minute(int count, double seconds)
{
    return seconds > 0 ? 60.0 * count / seconds : 0;
}

static void describe(json_t *row, const struct tune_result *result)
{
    const struct record *record = &result->record;
    const struct tune_progress *counts = &result->counts;
    char object[DIGEST_HEX_BYTES], id[CANDIDATE_ID_BYTES] = "";
    digest_hex(&record->object, object);
    for (int i = 0; i < result->outcome_count; i++) {
        if (strcmp(result->outcomes[i].candidate, record->candidate) == 0) {
            snprintf(id, sizeof id, "%s", result->outcomes[i].id);
        }
    }
    json_set_text(row, "problem", record->problem);
    json_set_text(row, "device_name", record->device_name);
    json_set_text(row, "target", record->device.target);
    json_set_text(row, "driver", record->device.driver);
    json_set_text(row, "winner", record->candidate);
    json_set_text(row, "winner_id", id);
    json_set_text(row, "object", object);
    json_set_text(row, "compiler", record->compiler);
    json_set_whole(row, "candidates", result->listed);
    json_set_text(row, "strategy", result->strategy);
    json_set_whole(row, "looks", counts->looks);
    json_set_whole(row, "tried", record->tried);
    json_set_whole(row, "verified", record->verified);
    json_set_whole(row, "rejected", record->rejected);
    json_set_whole(row, "timed", record->timed);
    json_set_whole(row, "from_store", counts->reused);
    json_set_whole(row, "from_other_compiler", counts->other_compiler);
    json_set_flag(row, "resumed", counts->resumed);
    json_set_whole(row, "held", counts->held);
    json_set_whole(row, "invalid", counts->invalid);
    json_set_flag(row, "already_done", result->already_done);
    json_set_flag(row, "complete", record->complete);
    json_set_text(row, "ending", tune_ending_name(result->ending));
    json_set_real(row, "operations", result->operations);
    json_set_real(row, "winner_microseconds", record->winner_microseconds);
    json_set_real(row, "default_microseconds", record->default_microseconds);
    json_set_real(row, "winner_tflops", tflops(result->operations, record->winner_microseconds));
    json_set_real(row, "default_tflops", tflops(result->operations, record->default_microseconds));
    json_set_real(row, "seconds", counts->elapsed_seconds);
    json_set_real(row, "compiled_per_minute", per_minute(counts->compiled, counts->elapsed_seconds));
    json_set_real(row, "verified_per_minute", per_minute(counts->verified, counts->elapsed_seconds));
    json_set_real(row, "timed_per_minute", per_minute(counts->timed, counts->elapsed_seconds));
    if (result->worker_idle >= 0.0) {
        json_set_real(row, "worker_idle", result->worker_idle);
    } else { /* it took less than the time that does not count */
        json_object_set_new(row, "worker_idle", json_null());
    }
    json_set_real(row, "drift", result->drift);
    json_object_set_new(row, "outcomes", count_outcomes(result));
    json_object_set_new(row, "rejections", collect_rejections(result));
    json_set_text(row, "journal", result->journal);
}

/* Ctrl-C ends the budget: what was timed so far still gives a record. A second one ends the program. */
static volatile int interrupted;

static void interrupt(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL);
}

/* what is shown while devices work, and kept of what they found */
struct watch {
    const struct device_list *devices;
    const struct tune_plan *plan;
    const struct tune_jobs *jobs;
    struct tune_team *team;
    json_t **others; /* by problem; of those that other ranks tuned */
    json_t **rows;   /* by job; NULL: no result */
    int ended;       /* jobs */
    struct failures failures;
    struct progress progress;
    int told_bytes[DEVICES_MAX]; /* 1 + the job whose bytes were said last */
    char now[DEVICES_MAX][160];  /* what each of several devices is at */
};

static bool has_several(const struct watch *watch)
{
    return watch->devices->count > 1;
}

/* "cuda:1: llama: ", as far as there are several devices and the problem has a name */
static void say_where(const struct watch *watch, int device, int job)
{
    const char *name = watch->jobs->jobs[job].problem->name;
    fprintf(stderr, "attune tune: %s%s%s%s", has_several(watch) ? watch->devices->items[device].name : "",
            has_several(watch) ? ": " : "", name, name[0] != '\0' ? ": " : "");
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
        fprintf(stderr, "goes on: %d %s, %d of other objects than today's are made again\n", now->held,
                plural(now->held, "outcome holds", "outcomes hold"), now->invalid);
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
    struct buffer line = BUFFER_INIT;
    for (int i = 0; i < watch->devices->count; i++) {
        buffer_format(&line, "%s%s %s", i > 0 ? " | " : "", watch->devices->items[i].name,
                      watch->jobs->devices[i].lost ? "lost" : watch->now[i]);
    }
    progress_update(&watch->progress, watch->ended, watch->jobs->job_count, -1, "%s", buffer_string(&line));
    buffer_free(&line);
}

static void report(void *data, int device, int job, const struct tune_progress *now)
{
    struct watch *watch = data;
    char best[64] = "";
    say_bytes(watch, device, job, now);
    if (now->best_microseconds > 0) {
        snprintf(best, sizeof best, ", best %.1f µs (default %.1f)", now->best_microseconds, now->default_microseconds);
    }
    if (has_several(watch)) {
        snprintf(watch->now[device], sizeof watch->now[device], "%.40s %d/%d%s", watch->jobs->jobs[job].problem->name,
                 now->done, now->total, best);
        show_devices(watch);
        return;
    }
    static const char *const stages[] = {[TUNE_COMPILE] = "compile",
                                         [TUNE_VERIFY] = "verify",
                                         [TUNE_TIME] = "time",
                                         [TUNE_WAIT] = "wait for other ranks",
                                         [TUNE_DONE] = "done"};
    progress_update(&watch->progress, now->done, now->total, now->left_seconds,
                    "%s: compiled %d, right %d, wrong %d, failed %d, out %d, timed %d%s", stages[now->stage],
                    now->compiled, now->verified, now->wrong, now->failed, now->screened_out, now->timed, best);
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
        failures_add(&watch->failures, "tune", watch->jobs->job_count, item, error);
        return;
    }
    if (result->already_done) {
        say_resumed(watch, device, job, &result->counts, true);
    }
    json_t *row = json_object();
    if (item->name[0] != '\0') {
        json_set_text(row, "name", item->name);
    }
    if (has_several(watch)) {
        json_set_text(row, "device", watch->devices->items[device].name);
    }
    if (watch->plan->of_trace) {
        json_set_whole(row, "calls", watch->plan->calls[item - watch->plan->problems.items]);
        json_set_real(row, "share", watch->plan->shares[item - watch->plan->problems.items]);
    }
    describe(row, result);
    tune_team_describe_row(watch->team, result, row);
    watch->rows[job] = row;
}

static void lost(void *data, int device, int job, const struct error *error)
{
    struct watch *watch = data;
    progress_wipe(&watch->progress);
    say_where(watch, device, job);
    fprintf(stderr, "%s; the device is left out from now on, another one takes the problem\n", error->message);
}

/* a problem's own name, or "problem 2" */
static void add_label(struct table *table, const json_t *row, size_t index)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    if (name != NULL) {
        table_cell(table, "%s", name);
    } else {
        table_cell(table, "problem %zu", index + 1);
    }
}

static void print_counts(const json_t *results, bool timed)
{
    static const char *const counts[] = {"tried", "verified", "rejected"};
    struct table table;
    size_t index;
    json_t *row;
    const bool several = json_object_get(json_array_get(results, 0), "device") != NULL;
    table_begin(&table,
                timed && several
                    ? "problem|device|target|>tried|>verified|>rejected|>default µs|>winner µs|>TFLOP/s|>speed-up"
                      "|winner"
                : timed   ? "problem|target|>tried|>verified|>rejected|>default µs|>winner µs|>TFLOP/s|>speed-up"
                            "|winner"
                : several ? "problem|device|target|>tried|>verified|>rejected|winner"
                          : "problem|target|>tried|>verified|>rejected|winner");
    json_array_foreach(results, index, row)
    {
        double winner = json_real_value(json_object_get(row, "winner_microseconds"));
        double fallback = json_real_value(json_object_get(row, "default_microseconds"));
        add_label(&table, row, index);
        if (several) {
            table_cell(&table, "%s", json_string_value(json_object_get(row, "device")));
        }
        table_cell(&table, "%s", json_string_value(json_object_get(row, "target")));
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(row, counts[i])));
        }
        if (timed) {
            table_cell(&table, "%.1f", fallback);
            table_cell(&table, "%.1f", winner);
            table_cell(&table, "%.1f", json_real_value(json_object_get(row, "winner_tflops")));
            table_cell(&table, "%.2f", winner > 0 ? fallback / winner : 0.0);
        }
        table_cell(&table, "%s", json_string_value(json_object_get(row, "winner_id")));
    }
    table_end(&table, stdout);
}

static void print_ending(const json_t *row)
{
    static const struct {
        const char *ending, *text;
    } texts[] = {{"complete", ""},
                 {"count", ": as many as --count says"},
                 {"budget", ": the budget ended before the others"},
                 {"interrupted", ": stopped before the others"},
                 {"device-lost", ": the device stopped answering before the others"}};
    const char *ending = json_string_value(json_object_get(row, "ending"));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(ending, texts[i].ending) == 0) {
            printf("  %lld of %lld candidates were checked or timed, strategy %s%s\n",
                   (long long)json_integer_value(json_object_get(row, "looks")),
                   (long long)json_integer_value(json_object_get(row, "candidates")),
                   json_string_value(json_object_get(row, "strategy")), texts[i].text);
        }
    }
}

/* how fast it went, and whether it was the device that was waited for */
static void print_speed(const json_t *row)
{
    const json_t *idle = json_object_get(row, "worker_idle");
    double drift = json_real_value(json_object_get(row, "drift"));
    printf("  in a minute: %.0f compiled, %.0f verified, %.0f timed",
           json_real_value(json_object_get(row, "compiled_per_minute")),
           json_real_value(json_object_get(row, "verified_per_minute")),
           json_real_value(json_object_get(row, "timed_per_minute")));
    if (json_is_real(idle)) {
        printf("; the device's process waited for %.1f %% of the time", 100.0 * json_real_value(idle));
    }
    printf("\n");
    if (drift > drift_told) {
        printf("  times drifted by %.1f %% meanwhile: the order stands, since it is by ratios, but times of other runs "
               "may differ as much\n",
               100.0 * drift);
    }
}

static void print_results(const json_t *results, const char *store)
{
    size_t index, at;
    json_t *row, *reason;
    bool timed = false;
    json_array_foreach(results, index, row)
    {
        timed = timed || json_real_value(json_object_get(row, "winner_microseconds")) > 0;
    }
    print_counts(results, timed);
    json_array_foreach(results, index, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        printf("\n%s%s%s\n  winner: %s\n", name != NULL ? name : "", name != NULL ? ": " : "",
               json_string_value(json_object_get(row, "problem")), json_string_value(json_object_get(row, "winner")));
        long long other = (long long)json_integer_value(json_object_get(row, "from_other_compiler"));
        if (other > 0) {
            printf("  %lld objects of the same source by another compiler were taken from the store\n", other);
        }
        print_ending(row);
        tune_team_print_row(row);
        print_speed(row);
        json_array_foreach(json_object_get(row, "rejections"), at, reason)
        {
            printf("  %lld %s, for example: %s\n", (long long)json_integer_value(json_object_get(reason, "count")),
                   json_string_value(json_object_get(reason, "outcome")),
                   json_string_value(json_object_get(reason, "reason")));
        }
    }
    if (!timed) {
        printf("\nnothing is timed on the host device: the default wins among the candidates verified\n");
    }
    printf("\ncached in %s\n",
           store[0] != '\0' ? store : "memory only, as the store did not take all of it: lost with this process");
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

/* What was found is kept, but not all was done that was asked: that is no success. A budget for all that ended before
 * the last of them did what was asked. */
static attune_status judge(struct cli *cli, const struct watch *watch, struct error *error)
{
    const struct tune_jobs *jobs = watch->jobs;
    int waiting = 0, first = 0, without_device = 0;
    for (int i = jobs->job_count - 1; i >= 0; i--) {
        if (jobs->jobs[i].state == TUNE_JOB_WAITING) {
            waiting++;
            first = i;
            without_device += group_is_lost(jobs, jobs->jobs[i].group);
        }
    }
    const int total = tune_team_share(watch->team) != NULL ? watch->team->count : jobs->job_count;
    attune_status status = failures_status(&watch->failures, total, "problems could not be tuned", error);
    if (waiting == 0) {
        return status;
    }
    json_set_whole(cli->result, "not_begun", waiting);
    if (interrupted && status == ATTUNE_OK) {
        return error_set(error, ATTUNE_TIMEOUT,
                         "interrupted: %d of %d problems were not begun, the first of them number %d", waiting,
                         jobs->job_count, first + 1);
    }
    if (status == ATTUNE_OK && without_device == 0) {
        fprintf(stderr, "attune tune: the budget ended before the last %d of %d problems\n", waiting, jobs->job_count);
        return ATTUNE_OK;
    }
    return status != ATTUNE_OK
               ? error_prefix(error, "%d of %d problems were not begun", waiting, jobs->job_count)
               : error_set(error, ATTUNE_DEVICE_FAILED, "no device is left for %d of %d problems: they were not begun",
                           without_device, jobs->job_count);
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
                                   .take_over = watch->jobs->seconds == 0,
                                   .describe = describe};
    watch->others = calloc((size_t)watch->plan->problems.count + 1, sizeof(json_t *));
    attune_status status = watch->others != NULL ? tune_team_collect(watch->team, &work, &watch->plan->problems,
                                                                     watch->others, &watch->failures, &not_begun, error)
                                                 : error_no_memory(error);
    if (not_begun > 0) {
        json_set_whole(cli->result, "peers_not_begun", not_begun);
        fprintf(stderr, "attune tune: %d problems of other ranks were not begun\n", not_begun);
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
                json_array_append_new(results, watch->rows[job]);
            }
        }
        if (watch->others != NULL && watch->others[i] != NULL) {
            json_array_append_new(results, watch->others[i]);
        }
    }
    return results;
}

/* the devices' work, and what came of it */
static attune_status do_jobs(struct cli *cli, struct tune_jobs *jobs, struct watch *watch, struct error *error)
{
    jobs->listener = (struct tune_listener){.data = watch, .progress = report, .ended = ended, .lost = lost};
    watch->rows = calloc((size_t)jobs->job_count + 1, sizeof(json_t *));
    attune_status status =
        watch->rows != NULL ? compiler_pool_create(NULL, &jobs->pool, error) : error_no_memory(error);
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
    json_t *results = list_results(watch);
    tune_team_describe(watch->team, cli->result);
    json_object_set_new(cli->result, "results", results);
    json_set_text(cli->result, "store", cli_store_place(jobs->store));
    if (!cli->json && json_array_size(results) > 0) {
        print_results(results, cli_store_place(jobs->store));
    }
    if (jobs->pool != NULL) {
        compiler_pool_destroy(jobs->pool);
    }
    free(watch->rows);
    free(watch->others);
    return status;
}

static attune_status tune_all(struct cli *cli, const struct tune_plan *plan, const struct device_list *devices,
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
        status = list_jobs(plan, devices, known, team, &jobs, &tuned_already, error);
    }
    tuned_free(known);
    if (status == ATTUNE_OK) {
        tune_plan_describe(cli, plan, tuned_already);
        if (options_has(&cli->options, "dry-run")) {
            tune_plan_show(cli, plan, &jobs, devices);
        } else {
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
        .seed = options_whole(given, "seed", 1),
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
        status = device_list_read(device, plan.of_trace, &devices, error);
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
