/* tune.c - the tuner: what the search asks for is compiled, screened, verified and looked at once; the best dozen and
 * the default then meet in interleaved rounds.
 *
 * The device is the measurer's; here candidates are compiled ahead, outcomes written down and the winner published.
 * Whatever ends the run early - budget, stop flag, a device that no longer answers - the best verified candidate so far
 * is published.
 */
#include "autotune/publish.h"
#include "autotune/tune_on.h"
#include "autotune/tune_private.h"
#include "base/process.h"
#include "runtime/simulator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rejected(const struct tune_progress *counts)
{
    return counts->failed + counts->screened_out + counts->wrong;
}

static int tried(const struct tune_progress *counts)
{
    return rejected(counts) + counts->verified + counts->same;
}

void tuning_tell(struct tuning *t, enum tune_stage stage)
{
    struct tune_progress *p = &t->result->counts;
    double now = clock_seconds();
    int settled = tried(p);
    /* the run ends when all candidates have an outcome, or when there were as many looks as the strategy spends */
    bool by_looks = (double)p->looks * p->candidates > (double)settled * t->looks_planned;
    p->done = by_looks ? p->looks : settled;
    p->total = by_looks ? t->looks_planned : p->candidates;
    p->stage = stage;
    p->elapsed_seconds = now - t->begin;
    int here = p->done - (by_looks ? t->looks_before : t->settled_before);
    p->left_seconds = here > 0 ? p->elapsed_seconds / here * (p->total - p->done) : -1.0;
    if (t->deadline > 0.0 && (p->left_seconds < 0.0 || p->left_seconds > t->deadline - now)) {
        p->left_seconds = fmax(0.0, t->deadline - now);
    }
    if (stage == TUNE_DONE) {
        p->left_seconds = 0.0;
    }
    if (t->report != NULL) {
        t->report(t->data, p);
    }
}

void tuning_set_outcome(struct tune_outcome *outcome, const char *what, const char *reason)
{
    snprintf(outcome->outcome, sizeof outcome->outcome, "%s", what);
    snprintf(outcome->reason, sizeof outcome->reason, "%.500s", reason);
}

/* from here on counts are this run's own */
static void note_held(struct tuning *t)
{
    struct tune_progress *counts = &t->result->counts;
    t->settled_before = tried(counts);
    t->looks_before = counts->held_looks = counts->looks;
    counts->held_verified = counts->verified;
    counts->held_timed = counts->timed;
}

static bool is_divided(const struct tuning *t)
{
    return t->options->share != NULL && t->options->share->divided;
}

static attune_status list_outcomes(struct tuning *t, struct error *error)
{
    t->result->outcomes = calloc((size_t)t->list.count + 1, sizeof *t->result->outcomes);
    if (t->result->outcomes == NULL) {
        return error_no_memory(error);
    }
    t->result->outcome_count = t->list.count;
    for (int i = 0; i < t->list.count; i++) {
        candidate_format(&t->list.items[i], t->result->outcomes[i].candidate);
        candidate_id(&t->list.items[i], t->result->outcomes[i].id);
    }
    return ATTUNE_OK;
}

/* Said before any memory is taken: a measuring process needs the device beside whoever has it. */
static attune_status check_sharing(const struct tuning *t, struct error *error)
{
    const struct driver_device *device = &t->facts.device;
    const double mib = 1024.0 * 1024.0;
    if (device->sharing == DRIVER_PROHIBITED) {
        return error_set(
            error, ATTUNE_DEVICE_FAILED,
            "%s is in compute mode \"prohibited\": no process may use it; `nvidia-smi -c DEFAULT` allows it",
            device->name);
    }
    if (device->sharing == DRIVER_EXCLUSIVE && t->options->device_in_use) {
        return error_set(
            error, ATTUNE_DEVICE_FAILED,
            "%s is in compute mode \"exclusive process\" and this process has it: measuring takes a process "
            "of its own and %.1f MiB of device memory; tune before with `attune tune`, or allow several "
            "processes with `nvidia-smi -c DEFAULT`",
            device->name, (double)t->facts.bytes / mib);
    }
    return ATTUNE_OK;
}

/* Bytes are said before they are taken. */
static attune_status open_device(struct tuning *t, struct generator *generator, struct compiler_pool *pool,
                                 struct error *error)
{
    const struct tune_options *options = t->options;
    struct tune_progress *counts = &t->result->counts;
    attune_status status = measurer_open(t->measurer, &t->facts, error);
    if (status == ATTUNE_OK) {
        status = check_sharing(t, error);
    }
    if (status == ATTUNE_OK) {
        status = plan_named(options->strategy, t->facts.timed, options->candidates, &t->plan, error);
    }
    if (status == ATTUNE_OK) {
        status = plan_order(generator, t->problem, &t->facts.device.target, t->plan.scope, options->candidates,
                            options->seed, 0, &t->list, error);
        t->result->listed = t->list.count;
        t->result->strategy = t->plan.name;
    }
    if (status == ATTUNE_OK && is_divided(t)) {
        status = tuning_share_divide(t, error);
        t->result->listed = t->list.count; /* of our share */
    }
    t->planned = t->list.count;
    if (status == ATTUNE_OK) {
        status =
            road_open(&t->road, pool, t->store, &t->facts.device.target, SANITIZE_NONE, options->accept_stored, error);
        t->road.heed_blocked = !options->retry_blocked;
    }
    if (status == ATTUNE_OK) {
        counts->candidates = t->list.count;
        counts->device_bytes = t->facts.bytes;
        status = list_outcomes(t, error);
    }
    if (status == ATTUNE_OK) {
        status = tuning_open_journal(t, generator, error);
    }
    if (status == ATTUNE_OK && !t->result->already_done) {
        tuning_tell(t, TUNE_COMPILE);
        status = measurer_begin(t->measurer, &t->facts, generator, &t->road, t->problem, error);
    }
    return status;
}

const char *tune_ending_name(enum tune_ending ending)
{
    static const char *const names[] = {[TUNE_COMPLETE] = "complete",       [TUNE_COUNT] = "count",
                                        [TUNE_BUDGET] = "budget",           [TUNE_INTERRUPTED] = "interrupted",
                                        [TUNE_DEVICE_LOST] = "device-lost", [TUNE_NARROWER] = "narrower",
                                        [TUNE_UNKNOWN] = "unknown"};
    return names[ending];
}

static bool plan_is_whole(const struct tuning *t)
{
    return t->plan.scope == PLAN_SPACE && t->options->candidates == NULL;
}

static enum tune_ending ending_of(const struct tuning *t)
{
    if (!t->stopped) {
        if (tuning_has_count(t) && tried(&t->result->counts) < t->result->listed) {
            return TUNE_COUNT;
        }
        return t->narrower && !(plan_is_whole(t) && tried(&t->result->counts) >= t->planned) ? TUNE_NARROWER
                                                                                             : TUNE_COMPLETE;
    }
    if (t->device_dead) {
        return TUNE_DEVICE_LOST;
    }
    return tuning_is_interrupted(t) ? TUNE_INTERRUPTED : TUNE_BUDGET;
}

/* the journal's last line, of a run without a winner too: only who was killed leaves none */
static void end_journal(struct tuning *t, bool won)
{
    const struct tune_progress *counts = &t->result->counts;
    const struct record *record = &t->result->record;
    struct journal_end end = {.seconds = clock_seconds() - t->begin,
                              .tried = tried(counts),
                              .rejected = rejected(counts),
                              .verified = counts->verified,
                              .looks = counts->looks,
                              .drift = t->result->drift};
    end.complete = ending_of(t) == TUNE_COMPLETE && t->searched;
    snprintf(end.strategy, sizeof end.strategy, "%s", t->plan.name != NULL ? t->plan.name : "");
    if (won) {
        snprintf(end.winner, sizeof end.winner, "%s", record->candidate);
        end.winner_microseconds = record->winner_microseconds;
        end.default_microseconds = record->default_microseconds;
    }
    journal_write_end(&t->journal, &end);
}

/* the record of our own winner; in the store too unless it is to be chosen among several ranks' */
static attune_status publish(struct tuning *t, int winner, struct error *error)
{
    struct tune_progress *counts = &t->result->counts;
    struct contender *best = &t->finalists[winner];
    struct record *record = &t->result->record;
    attune_status status = record_describe(record, RECORD_TUNED, t->problem, &best->facts, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    record_set_device(record, &t->facts.device);
    snprintf(record->run, sizeof record->run, "%s", t->run);
    memcpy(counts->best, best->facts.name, sizeof counts->best);
    record->winner_microseconds = t->facts.timed ? counts->best_microseconds : 0.0;
    record->default_microseconds = t->facts.timed ? counts->default_microseconds : 0.0;
    record->tried = tried(counts);
    record->verified = counts->verified;
    record->rejected = rejected(counts);
    record->timed = counts->timed;
    t->result->ending = ending_of(t);
    record->complete = t->result->ending == TUNE_COMPLETE;
    if (t->options->share == NULL) { /* a store that cannot keep it warns by itself; the caller has the record */
        store_record_put(t->store, record, NULL);
    } else if (!is_divided(t)) {
        status = tuning_share_publish(t, error);
    }
    return status;
}

/* the caller gets the outcomes of those that the strategy asked for */
static void keep_known(struct tune_result *result)
{
    int known = 0;
    for (int i = 0; i < result->outcome_count; i++) {
        if (result->outcomes[i].outcome[0] != '\0') {
            result->outcomes[known++] = result->outcomes[i];
        }
    }
    result->outcome_count = known;
}

/* the device is open, its memory taken */
static attune_status look_and_choose(struct tuning *t, struct generator *generator, struct compiler_pool *pool,
                                     struct error *error)
{
    int winner = 0;
    attune_status status = tuning_take_over(t, generator, error);
    note_held(t);
    if (status == ATTUNE_OK) {
        status = tuning_search(t, generator, pool, error);
    }
    if (status == ATTUNE_OK) {
        status = tuning_promote(t, generator, error);
    }
    if (status == ATTUNE_OK) {
        status = t->finalist_count > 0 ? tuning_hold_finals(t, &winner, error) : ATTUNE_OK;
    }
    if (status == ATTUNE_OK && t->finalist_count == 0) {
        status = tuning_tell_failure(t, error);
    }
    return status == ATTUNE_OK ? publish(t, winner, error) : status;
}

/* takes the measurer */
static attune_status tune_with(struct measurer *measurer, struct generator *generator, struct compiler_pool *pool,
                               struct store *store, const struct problem *problem, const struct tune_options *options,
                               tune_report report, void *data, struct tune_result *result, struct error *error)
{
    struct tuning *t = calloc(1, sizeof *t);
    if (t == NULL) {
        measurer_close(measurer);
        return error_no_memory(error);
    }
    t->measurer = measurer;
    t->options = options;
    t->store = store;
    t->problem = problem;
    t->report = report;
    t->data = data;
    t->result = result;
    t->journal.file = -1;
    t->pace = 1.0;
    t->begin = clock_seconds();
    t->deadline = options->budget_seconds > 0.0 ? t->begin + options->budget_seconds : 0.0;
    attune_status status = open_device(t, generator, pool, error);
    if (result->already_done) { /* all is as the run left it */
        tuning_count_known(t);
        note_held(t);
        result->ending = result->record.complete ? TUNE_COMPLETE : ending_of(t);
        result->counts.device_bytes = 0;
        result->counts.best_microseconds = result->record.winner_microseconds;
        result->counts.default_microseconds = result->record.default_microseconds;
    } else {
        if (status == ATTUNE_OK) {
            status = look_and_choose(t, generator, pool, error);
        }
        result->worker_idle = measurer_idle(t->measurer);
        result->ending = ending_of(t); /* of a run without a winner too: the device may be lost */
        end_journal(t, status == ATTUNE_OK);
    }
    keep_known(result);
    if (is_divided(t) && t->joined) {
        measurer_close(t->measurer); /* nobody's device is held for waiting */
        t->measurer = NULL;
        status = tuning_share_settle(t, generator, status, error);
    }
    if (status == ATTUNE_OK) {
        result->operations = t->facts.operations;
        result->kept = store_record_is_kept(store, &result->record);
        tuning_tell(t, TUNE_DONE);
    }
    measurer_close(t->measurer);
    candidate_list_free(&t->list);
    free(t->order.ids);
    free(t->known);
    journal_close(&t->journal);
    free(t);
    if (status != ATTUNE_OK) {
        tune_result_free(result);
    }
    return status;
}

attune_status tune_accepts_device(const char *device, struct error *error)
{
    return simulator_is_named(device)
               ? error_set(error, ATTUNE_NO_DEVICE,
                           "%.100s is a simulator, whose times say nothing: tune on the GPU itself; `attune verify` "
                           "checks candidates on a simulator",
                           device)
               : ATTUNE_OK;
}

attune_status tune_run(struct generator *generator, struct compiler_pool *pool, struct store *store,
                       const struct problem *problem, const struct tune_options *options, tune_report report,
                       void *data, struct tune_result *result, struct error *error)
{
    struct measurer *measurer;
    memset(result, 0, sizeof *result);
    attune_status accepted = tune_accepts_device(options->device, error);
    if (accepted != ATTUNE_OK) {
        return accepted;
    }
    if (measurer_is_local()) {
        const struct driver *driver;
        int ordinal;
        attune_status status =
            driver_parse_device(options->device != NULL ? options->device : "best", &driver, &ordinal, error);
        return status == ATTUNE_OK
                   ? tune_run_on(driver, ordinal, generator, pool, store, problem, options, report, data, result, error)
                   : status;
    }
    const struct measurer_remote_options remote = {
        .generator = generator,
        .device = options->device,
        .problem = problem,
        .seed = options->seed,
        .timing = true,
        .companions = true,
        .candidate_seconds = options->candidate_seconds,
        .deadline = options->budget_seconds > 0.0 ? clock_seconds() + options->budget_seconds : 0.0,
        .stop = options->stop};
    attune_status status = measurer_remote(&remote, &measurer, error);
    return status == ATTUNE_OK
               ? tune_with(measurer, generator, pool, store, problem, options, report, data, result, error)
               : status;
}

attune_status tune_run_on(const struct driver *driver, int ordinal, struct generator *generator,
                          struct compiler_pool *pool, struct store *store, const struct problem *problem,
                          const struct tune_options *options, tune_report report, void *data,
                          struct tune_result *result, struct error *error)
{
    const struct measurer_local_options local = {.generator = generator,
                                                 .problem = problem,
                                                 .seed = options->seed,
                                                 .driver = driver,
                                                 .ordinal = ordinal,
                                                 .timing = true,
                                                 .companions = true};
    struct measurer *measurer;
    memset(result, 0, sizeof *result);
    attune_status status = measurer_local(&local, &measurer, error);
    return status == ATTUNE_OK
               ? tune_with(measurer, generator, pool, store, problem, options, report, data, result, error)
               : status;
}

void tune_result_free(struct tune_result *result)
{
    record_free(&result->record);
    free(result->outcomes);
    result->outcomes = NULL;
    result->outcome_count = 0;
    free(result->peers);
    result->peers = NULL;
    result->peer_count = 0;
}
