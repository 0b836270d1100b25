/* tune.c - the tuner: objects from the pipeline are screened, verified and looked at once, in order; the best dozen and
 * the default then meet in interleaved rounds.
 *
 * The device is the measurer's; here candidates are compiled ahead, outcomes written down and the winner published.
 * Whatever ends the run early - budget, stop flag, a device that no longer answers - the best verified candidate so far
 * is published.
 */
#include "autotune/journal.h"
#include "autotune/measure.h"
#include "autotune/measurer.h"
#include "autotune/objects.h"
#include "autotune/plan_order.h"
#include "autotune/publish.h"
#include "autotune/screen.h"
#include "autotune/tune_on.h"
#include "base/process.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINALISTS = 12, ROUNDS = 15 };
static const double tie_band = 0.01, warm_milliseconds = 200.0, give_up_factor = 3.0;

/* a right candidate that may win */
struct contender {
    struct object_job facts; /* no bytes */
    int slot;                /* of the measurer, where it stays loaded */
    int place;               /* in the order of candidates: 0 is the default */
    double quick;
};

struct tuning {
    const struct tune_options *options;
    struct store *store;
    const struct problem *problem;
    tune_report report;
    void *data;
    struct tune_result *result;

    struct measurer *measurer;
    struct measurer_facts facts;
    struct object_road road;
    struct candidate_list list;

    struct contender finalists[FINALISTS + 1];
    int finalist_count;
    int spare;              /* slot of the next look */
    int sampled;            /* finalist of the last request in the rounds */
    double begin, deadline; /* deadline 0: none */
    bool stopped;           /* not every candidate was looked at */
    bool device_dead;
    struct journal journal;
    char run[33];
};

static void tell(struct tuning *t, enum tune_stage stage)
{
    struct tune_progress *p = &t->result->counts;
    double now = clock_seconds();
    int looked = p->failed + p->screened_out + p->wrong + p->verified;
    p->stage = stage;
    p->elapsed_seconds = now - t->begin;
    p->left_seconds = looked > 0 ? p->elapsed_seconds / looked * (p->candidates - looked) : -1.0;
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

static attune_status open_journal(struct tuning *t, struct error *error)
{
    record_new_run(t->run);
    attune_status status = journal_open(&t->journal, t->store, t->run, error);
    if (status != ATTUNE_OK) {
        warn_once("journal", "tuning goes on without a journal: %s", error != NULL ? error->message : "");
    }
    snprintf(t->result->journal, sizeof t->result->journal, "%s", t->journal.path);
    char problem[PROBLEM_TEXT_BYTES], target[TARGET_TEXT_BYTES];
    status = problem_format(t->problem, problem, error);
    target_format(&t->facts.device.target, target);
    journal_write(&t->journal, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:I}", "kind", "begin", "run", t->run,
                                         "problem", problem, "device", t->facts.device.name, "target", target, "driver",
                                         t->facts.device.driver_version, "candidates", t->list.count, "seed",
                                         (json_int_t)t->options->seed));
    return status;
}

/* Bytes are said before they are taken. */
static attune_status open_device(struct tuning *t, struct generator *generator, struct compiler_pool *pool,
                                 struct error *error)
{
    const struct tune_options *options = t->options;
    struct tune_progress *counts = &t->result->counts;
    attune_status status = measurer_open(t->measurer, &t->facts, error);
    if (status == ATTUNE_OK) {
        status = plan_order(generator, t->problem, &t->facts.device.target, options->strategy, options->candidates,
                            options->seed, options->budget_candidates, &t->list, error);
    }
    if (status == ATTUNE_OK) {
        status =
            road_open(&t->road, pool, t->store, &t->facts.device.target, SANITIZE_NONE, options->accept_stored, error);
    }
    if (status == ATTUNE_OK) {
        counts->candidates = t->list.count;
        counts->device_bytes = t->facts.bytes;
        status = list_outcomes(t, error);
    }
    if (status == ATTUNE_OK) {
        status = open_journal(t, error);
    }
    if (status == ATTUNE_OK) {
        tell(t, TUNE_COMPILE);
        status = measurer_begin(t->measurer, &t->facts, generator, &t->road, t->problem, error);
    }
    return status;
}

static bool out_of_budget(const struct tuning *t)
{
    if (t->options->stop != NULL && *t->options->stop != 0) {
        return true;
    }
    /* the finals need their share */
    double budget = t->options->budget_seconds, reserve = fmin(6.0, 0.15 * budget);
    return t->deadline > 0.0 && clock_seconds() >= t->deadline - (t->facts.timed ? reserve : 0.0);
}

static void set_outcome(struct tune_outcome *outcome, const char *what, const char *reason)
{
    snprintf(outcome->outcome, sizeof outcome->outcome, "%s", what);
    snprintf(outcome->reason, sizeof outcome->reason, "%.500s", reason);
}

/* the outcome of a candidate whose request failed, by what became of the device */
static void fail(struct tuning *t, struct tune_outcome *outcome, const char *reason)
{
    static const char *const names[] = {[MEASURER_WELL] = "launch-failed",
                                        [MEASURER_HUNG] = "hung",
                                        [MEASURER_CRASHED] = "crashed",
                                        [MEASURER_INTERRUPTED] = "not-tried",
                                        [MEASURER_LOST] = "crashed"};
    enum measurer_fate fate = measurer_fate(t->measurer);
    set_outcome(outcome, names[fate], reason);
    t->result->counts.failed += fate != MEASURER_INTERRUPTED;
    t->stopped |= fate == MEASURER_INTERRUPTED;
    t->device_dead |= fate == MEASURER_LOST;
}

/* Keeps the default and the FINALISTS best others; the contender sits in the spare slot. Without times only the first
 * right candidate is kept: the default if it is right. */
static void keep(struct tuning *t, struct contender *contender)
{
    int room = t->facts.timed ? FINALISTS + 1 : 1, worst = -1;
    contender->slot = t->spare;
    if (t->finalist_count < room) {
        t->finalists[t->finalist_count++] = *contender;
        t->spare = t->finalist_count;
        return;
    }
    for (int i = 0; i < t->finalist_count && t->facts.timed; i++) {
        if (t->finalists[i].place != 0 && (worst < 0 || t->finalists[i].quick > t->finalists[worst].quick)) {
            worst = i;
        }
    }
    if (worst >= 0 && contender->quick < t->finalists[worst].quick) {
        t->spare = t->finalists[worst].slot;
        t->finalists[worst] = *contender;
    }
    if (t->facts.timed) {
        measurer_drop(t->measurer, t->spare, NULL);
    }
}

/* The first impression of a right candidate's speed. A failing launch here is a failed candidate. */
static attune_status look_quickly(struct tuning *t, struct object_job *job, const struct kernel_object *object,
                                  struct contender *contender, struct tune_outcome *outcome)
{
    struct tune_progress *counts = &t->result->counts;
    struct error reason = {0};
    double give_up = contender->place == 0 ? 0.0 : counts->best_microseconds * give_up_factor;
    attune_status status = measurer_look(t->measurer, t->spare, object, give_up, &contender->quick, &reason);
    if (status != ATTUNE_OK) {
        fail(t, outcome, reason.message);
        return status;
    }
    set_outcome(outcome, "slower", "");
    outcome->microseconds = contender->quick;
    counts->timed++;
    if (counts->best_microseconds == 0.0 || contender->quick < counts->best_microseconds) {
        counts->best_microseconds = contender->quick;
        memcpy(counts->best, job->name, sizeof counts->best);
    }
    if (contender->place == 0) {
        counts->default_microseconds = contender->quick;
    }
    return ATTUNE_OK;
}

static attune_status check(struct tuning *t, struct object_job *job, int place, struct tune_outcome *outcome,
                           struct error *error)
{
    struct tune_progress *counts = &t->result->counts;
    struct verdict verdict;
    struct error reason = {0};
    struct contender contender = {.place = place};
    const struct kernel_object object = {job->bytes.data, job->bytes.length, &job->launch};
    double patience = 0.0;
    if (t->facts.timed && place != 0 &&
        counts->best_microseconds > 0.0) { /* a first launch may load code: some slack */
        patience = counts->best_microseconds * give_up_factor + 300.0;
    }
    attune_status status = measurer_check(t->measurer, &object, HOST_ROUND_ROBIN, patience, &verdict, &reason);
    if (status == ATTUNE_NO_MEMORY && measurer_fate(t->measurer) == MEASURER_WELL) {
        set_outcome(outcome, "launch-failed", reason.message);
        return error_set(error, status, "%s", reason.message);
    }
    if (status != ATTUNE_OK) {
        fail(t, outcome, reason.message);
        return ATTUNE_OK;
    }
    if (verdict.too_slow) {
        set_outcome(outcome, "slower", verdict.reason);
        counts->screened_out++;
        return ATTUNE_OK;
    }
    if (!verdict.right) {
        set_outcome(outcome, "wrong", verdict.reason);
        counts->wrong++;
        return ATTUNE_OK;
    }
    counts->verified++;
    set_outcome(outcome, "right", "");
    contender.facts = *job;
    contender.facts.bytes = contender.facts.log = (struct buffer)BUFFER_INIT;
    contender.facts.source = NULL;
    if (!t->facts.timed || look_quickly(t, job, &object, &contender, outcome) == ATTUNE_OK) {
        keep(t, &contender);
    }
    return ATTUNE_OK;
}

static attune_status look_at(struct tuning *t, struct object_job *job, int place, struct error *error)
{
    struct tune_progress *counts = &t->result->counts;
    struct tune_outcome *outcome = &t->result->outcomes[place];
    char reason[SCREEN_REASON_BYTES];
    attune_status status = ATTUNE_OK;
    outcome->registers = job->resources.vector_registers;
    outcome->scratch_bytes = job->resources.scratch_bytes;
    outcome->shared_bytes = job->resources.shared_bytes >= 0
                                ? job->resources.shared_bytes + (int)job->launch.dynamic_shared_bytes
                                : (int)(job->launch.static_shared_bytes + job->launch.dynamic_shared_bytes);
    if (job->status != ATTUNE_OK) {
        set_outcome(outcome, "compile-error", job->message);
        counts->failed++;
    } else {
        counts->compiled += !job->reused;
        counts->reused += job->reused;
        counts->other_compiler += job->other_compiler;
        if (!screen_fits(&t->facts.device, &job->launch, &job->resources, reason) ||
            (place != 0 && !screen_pays(&job->resources, reason))) {
            set_outcome(outcome, "resources", reason);
            counts->screened_out++;
        } else {
            status = check(t, job, place, outcome, error);
        }
        if (place == 0 && status == ATTUNE_OK) {
            struct record record;
            if (publish_default(t->store, &t->road.target, t->problem, job, &record, NULL) == ATTUNE_OK) {
                record_free(&record);
            }
        }
    }
    journal_outcome(&t->journal, "first", outcome);
    return status;
}

static attune_status look_at_all(struct tuning *t, struct generator *generator, struct compiler_pool *pool,
                                 struct error *error)
{
    struct pipeline *pipeline;
    attune_status status = pipeline_create(generator, &t->road, t->problem, t->list.items, t->list.count,
                                           compiler_pool_workers(pool), &pipeline, error);
    int place = 0;
    for (; place < t->list.count && status == ATTUNE_OK; place++) {
        if ((place > 0 && out_of_budget(t)) || t->device_dead || t->stopped) {
            t->stopped = true;
            break;
        }
        status = look_at(t, pipeline_next(pipeline), place, error);
        tell(t, t->facts.timed ? TUNE_TIME : TUNE_VERIFY);
    }
    for (; place < t->list.count; place++) {
        set_outcome(&t->result->outcomes[place], "not-tried",
                    t->device_dead ? "the device stopped answering" : "budget");
    }
    pipeline_destroy(pipeline);
    return status;
}

/* why nothing can be published: the counts and the first reason of each kind */
static attune_status nothing_left(const struct tuning *t, struct error *error)
{
    static const struct {
        const char *outcome;
        attune_status status;
    } kinds[] = {{"wrong", ATTUNE_WRONG},
                 {"compile-error", ATTUNE_COMPILE_FAILED},
                 {"launch-failed", ATTUNE_DEVICE_FAILED},
                 {"hung", ATTUNE_DEVICE_FAILED},
                 {"crashed", ATTUNE_DEVICE_FAILED},
                 {"resources", ATTUNE_UNSUPPORTED}};
    struct buffer text = BUFFER_INIT;
    attune_status status = ATTUNE_TIMEOUT;
    for (int k = (int)(sizeof kinds / sizeof kinds[0]) - 1; k >= 0; k--) {
        const struct tune_outcome *first = NULL;
        int count = 0;
        for (int i = 0; i < t->result->outcome_count; i++) {
            const struct tune_outcome *outcome = &t->result->outcomes[i];
            if (strcmp(outcome->outcome, kinds[k].outcome) == 0) {
                first = first == NULL ? outcome : first;
                count++;
            }
        }
        if (first != NULL) {
            buffer_format(&text, "; %d %s (%s: %s)", count, kinds[k].outcome, first->id, first->reason);
            status = kinds[k].status;
        }
    }
    if (t->road.toolchain != ATTUNE_OK) {
        status = t->road.toolchain;
    }
    error_set(error, status, "none of %d candidates is usable%s", t->list.count, buffer_string(&text));
    buffer_free(&text);
    return status;
}

static attune_status sample_finalist(void *data, int entry, double *microseconds, struct error *error)
{
    struct tuning *t = data;
    t->sampled = entry;
    return measurer_sample(t->measurer, t->finalists[entry].slot, microseconds, error);
}

static int by_place(const void *a, const void *b)
{
    return ((const struct contender *)a)->place - ((const struct contender *)b)->place;
}

/* a finalist that did not stand the rounds */
static void drop_finalist(struct tuning *t, int index, const char *reason)
{
    struct tune_outcome *outcome = &t->result->outcomes[t->finalists[index].place];
    fail(t, outcome, reason);
    journal_outcome(&t->journal, "final", outcome);
    t->result->counts.verified--;
    measurer_drop(t->measurer, t->finalists[index].slot, NULL);
    memmove(&t->finalists[index], &t->finalists[index + 1],
            (size_t)(t->finalist_count - index - 1) * sizeof t->finalists[0]);
    t->finalist_count--;
}

/* Rounds, begun again without a finalist that fails. *rounds 0: there were none, for want of time or device. */
static void hold_rounds(struct tuning *t, struct measure_result *results, int *rounds)
{
    const struct measure_source source = {.data = t, .sample = sample_finalist};
    *rounds = 0;
    while (t->finalist_count > 0 && !t->device_dead) {
        struct error why = {0};
        t->sampled = 0;
        attune_status status = measurer_warm(t->measurer, t->finalists[0].slot, warm_milliseconds, &why);
        if (status == ATTUNE_OK) {
            status = measure_rounds(&source, t->finalist_count, 0, ROUNDS, t->deadline, results, rounds, &why);
        }
        if (status == ATTUNE_OK) {
            return;
        }
        *rounds = 0;
        enum measurer_fate fate = measurer_fate(t->measurer);
        t->device_dead |= fate == MEASURER_LOST;
        t->stopped |= fate == MEASURER_LOST || fate == MEASURER_INTERRUPTED;
        if (fate == MEASURER_LOST || fate == MEASURER_INTERRUPTED) {
            return;
        }
        drop_finalist(t, t->sampled, why.message);
    }
}

/* *winner is an index into finalists */
static attune_status hold_finals(struct tuning *t, int *winner, struct error *error)
{
    struct measure_result results[FINALISTS + 1] = {{0}};
    int rounds = 0;
    qsort(t->finalists, (size_t)t->finalist_count, sizeof t->finalists[0], by_place);
    *winner = 0;
    if (!t->facts.timed) {
        return ATTUNE_OK;
    }
    hold_rounds(t, results, &rounds);
    if (t->finalist_count == 0) {
        return nothing_left(t, error);
    }
    for (int i = 0; i < t->finalist_count && rounds == 0; i++) { /* what there is when rounds are impossible */
        results[i] = (struct measure_result){.microseconds = t->finalists[i].quick};
    }
    bool has_default = t->finalists[0].place == 0;
    *winner = measure_choose(results, t->finalist_count, has_default ? 0 : -1, tie_band);
    if (*winner < 0) {
        return error_set(error, ATTUNE_DEVICE_FAILED, "%s gave no usable time in %d rounds", t->facts.device.name,
                         rounds);
    }
    for (int i = 0; i < t->finalist_count; i++) {
        struct tune_outcome *outcome = &t->result->outcomes[t->finalists[i].place];
        set_outcome(outcome, "timed", "");
        outcome->microseconds = results[i].microseconds;
        outcome->spread = results[i].spread;
        journal_outcome(&t->journal, "final", outcome);
    }
    t->result->counts.best_microseconds = results[*winner].microseconds;
    t->result->counts.default_microseconds = has_default ? results[0].microseconds : 0.0;
    return ATTUNE_OK;
}

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
    record->tried = counts->failed + counts->screened_out + counts->wrong + counts->verified;
    record->verified = counts->verified;
    record->rejected = counts->failed + counts->screened_out + counts->wrong;
    record->timed = counts->timed;
    record->complete = !t->stopped;
    /* a store that cannot keep it warns by itself; the caller has the record */
    store_record_put(t->store, record, NULL);
    journal_write(&t->journal,
                  json_pack("{s:s, s:s, s:b, s:f, s:f, s:f, s:i, s:i, s:i}", "kind", "end", "winner", record->candidate,
                            "complete", record->complete, "seconds", clock_seconds() - t->begin, "winner_microseconds",
                            record->winner_microseconds, "default_microseconds", record->default_microseconds, "tried",
                            record->tried, "verified", record->verified, "rejected", record->rejected));
    return ATTUNE_OK;
}

/* takes the measurer */
static attune_status tune_with(struct measurer *measurer, struct generator *generator, struct compiler_pool *pool,
                               struct store *store, const struct problem *problem, const struct tune_options *options,
                               tune_report report, void *data, struct tune_result *result, struct error *error)
{
    int winner = 0;
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
    t->begin = clock_seconds();
    t->deadline = options->budget_seconds > 0.0 ? t->begin + options->budget_seconds : 0.0;
    attune_status status = open_device(t, generator, pool, error);
    if (status == ATTUNE_OK) {
        status = look_at_all(t, generator, pool, error);
    }
    if (status == ATTUNE_OK && t->finalist_count == 0) {
        status = nothing_left(t, error);
    }
    if (status == ATTUNE_OK) {
        status = hold_finals(t, &winner, error);
    }
    if (status == ATTUNE_OK) {
        status = publish(t, winner, error);
    }
    if (status == ATTUNE_OK) {
        result->operations = t->facts.operations;
        tell(t, TUNE_DONE);
    }
    measurer_close(t->measurer);
    candidate_list_free(&t->list);
    journal_close(&t->journal);
    free(t);
    if (status != ATTUNE_OK) {
        tune_result_free(result);
    }
    return status;
}

attune_status tune_run(struct generator *generator, struct compiler_pool *pool, struct store *store,
                       const struct problem *problem, const struct tune_options *options, tune_report report,
                       void *data, struct tune_result *result, struct error *error)
{
    struct measurer *measurer;
    memset(result, 0, sizeof *result);
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
                                                 .timing = true};
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
}
