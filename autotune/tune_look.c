/* tune_look.c - a candidate: screened, verified, looked at once; the best stay loaded. */
#include "autotune/tune_private.h"

#include "autotune/publish.h"
#include "autotune/screen.h"
#include "base/process.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double give_up_factor = 3.0, pace_noise = 0.05;

bool tuning_is_interrupted(const struct tuning *t)
{
    return t->options->stop != NULL && *t->options->stop != 0;
}

bool tuning_has_count(const struct tuning *t)
{
    const int count = t->options->budget_candidates;
    return count > 0 && t->result->counts.looks + t->uncompiled >= count;
}

bool tuning_out_of_budget(const struct tuning *t)
{
    if (tuning_is_interrupted(t)) {
        return true;
    }
    /* the finals need their share */
    double budget = t->options->budget_seconds, reserve = fmin(6.0, 0.15 * budget);
    return t->deadline > 0.0 && clock_seconds() >= t->deadline - (t->facts.timed ? reserve : 0.0);
}

/* the next process neither tries this object again nor serves it */
static void block(struct tuning *t, const struct object_job *job, const struct tune_outcome *outcome)
{
    object_block(t->store, &t->road.target, job, outcome->outcome, outcome->reason);
}

void tuning_fail(struct tuning *t, const struct object_job *job, struct tune_outcome *outcome, const char *reason)
{
    static const char *const names[] = {[MEASURER_WELL] = "launch-failed",
                                        [MEASURER_HUNG] = "hung",
                                        [MEASURER_CRASHED] = "crashed",
                                        [MEASURER_INTERRUPTED] = "not-tried",
                                        [MEASURER_LOST] = "not-tried"};
    enum measurer_fate fate = measurer_fate(t->measurer);
    bool tried = fate != MEASURER_INTERRUPTED && fate != MEASURER_LOST;
    tuning_set_outcome(outcome, names[fate], reason);
    t->result->counts.failed += tried;
    t->stopped |= !tried;
    t->device_dead |= fate == MEASURER_LOST;
    if (fate == MEASURER_HUNG || fate == MEASURER_CRASHED) {
        block(t, job, outcome);
    }
}

int tuning_free_slot(const struct tuning *t)
{
    int slot = 0;
    for (int i = 0; i < t->finalist_count; i++) {
        if (t->finalists[i].slot == slot) {
            slot++;
            i = -1;
        }
    }
    return slot;
}

/* Keeps the first right one, the yardstick, the default, and of the others the best. Without times the first in order
 * alone is kept. */
void tuning_keep(struct tuning *t, const struct object_job *job, const struct contender *contender)
{
    struct contender kept = *contender;
    int room = t->facts.timed ? TUNING_FINALISTS + 1 : 1, worst = -1;
    kept.facts = *job;
    kept.facts.bytes = kept.facts.log = (struct buffer)BUFFER_INIT;
    kept.facts.source = NULL;
    tuning_forget_gap(t, kept.slot);
    if (t->finalist_count < room) {
        t->finalists[t->finalist_count++] = kept;
        return;
    }
    if (!t->facts.timed) {
        t->finalists[0] = kept.place < t->finalists[0].place ? kept : t->finalists[0];
        return;
    }
    for (int i = 1; i < t->finalist_count; i++) {
        if (t->finalists[i].place != 0 && (worst < 0 || t->finalists[i].quick > t->finalists[worst].quick)) {
            worst = i;
        }
    }
    int dropped = kept.slot;
    if (kept.place == 0 || kept.quick < t->finalists[worst].quick) {
        dropped = t->finalists[worst].slot;
        t->finalists[worst] = kept;
    }
    measurer_drop(t->measurer, dropped, NULL);
}

/* Clocks and other work change while a sweep lasts. A look stands between two samples of the yardstick, the first
 * candidate that was right, and counts by the yardstick's time now against that at its own look. What is within the
 * noise of one sample changes nothing. */
static double yardstick_now(struct tuning *t)
{
    struct error why = {0};
    attune_status status = ATTUNE_OK;
    double now = NAN;
    for (int attempt = 0; attempt < 3 && t->finalist_count > 0 && status == ATTUNE_OK; attempt++) {
        status = measurer_sample(t->measurer, t->finalists[0].slot, &now, &why);
        if (status == ATTUNE_OK && isfinite(now) && now > 0.0) { /* timers may give nonsense now and then */
            t->yardstick_begin = t->yardstick_begin > 0.0 ? t->yardstick_begin : now;
            return now / t->finalists[0].quick;
        }
    }
    enum measurer_fate fate = measurer_fate(t->measurer);
    if (status != ATTUNE_OK && (fate == MEASURER_HUNG || fate == MEASURER_CRASHED)) {
        tuning_drop_finalist(t, 0, why.message); /* the next one takes its place */
    }
    return NAN;
}

bool tuning_note_pace(struct tuning *t, double before, double after)
{
    bool steady = !(fabs(before - after) > pace_noise * fmin(before, after)); /* NaN: nothing is known */
    double pace = 0.5 * (before + after);
    if (isfinite(pace)) {
        t->pace = fabs(pace - 1.0) > pace_noise ? pace : 1.0;
    }
    return steady;
}

/* The first impression of a right candidate's speed. A failing launch here is a failed candidate. */
static attune_status look_quickly(struct tuning *t, struct object_job *job, const struct kernel_object *object,
                                  struct contender *contender, struct tune_outcome *outcome)
{
    struct tune_progress *counts = &t->result->counts;
    struct error reason = {0};
    bool steady = false;
    for (int attempt = 0; attempt < 3 && !steady; attempt++) {
        double before = yardstick_now(t);
        contender->slot = tuning_free_slot(t);
        double give_up = contender->place == 0 ? 0.0 : counts->best_microseconds * give_up_factor * t->pace;
        attune_status status = measurer_look(t->measurer, contender->slot, object, give_up, &contender->quick, &reason);
        if (status != ATTUNE_OK) {
            tuning_fail(t, job, outcome, reason.message);
            return status;
        }
        steady = tuning_note_pace(t, before, yardstick_now(t));
    }
    contender->quick /= t->pace;
    tuning_set_outcome(outcome, "slower", "");
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
        patience = counts->best_microseconds * give_up_factor * t->pace + 300.0;
    }
    /* On the host device the first right one wins: it answers for other sizes, and is checked at them. For those after
     * it that would cost seconds each; but none loses its note by less than what may have given it one. */
    struct blocked note;
    bool companions =
        t->facts.timed || t->finalist_count == 0 || place < t->finalists[0].place ||
        (t->options->retry_blocked && store_blocked_get(t->store, &job->object, &note, NULL) == ATTUNE_OK);
    attune_status status =
        measurer_check(t->measurer, &object, HOST_ROUND_ROBIN, companions, patience, &verdict, &reason);
    enum measurer_fate fate = measurer_fate(t->measurer);
    counts->looks += fate != MEASURER_INTERRUPTED && fate != MEASURER_LOST;
    if (status == ATTUNE_NO_MEMORY && fate == MEASURER_WELL) {
        tuning_set_outcome(outcome, "launch-failed", reason.message);
        return error_set(error, status, "%s", reason.message);
    }
    if (status != ATTUNE_OK) {
        tuning_fail(t, job, outcome, reason.message);
        return ATTUNE_OK;
    }
    if (verdict.too_slow) {
        tuning_set_outcome(outcome, "slower", verdict.reason);
        counts->screened_out++;
        return ATTUNE_OK;
    }
    if (!verdict.right) {
        tuning_set_outcome(outcome, "wrong", verdict.reason);
        counts->wrong++;
        block(t, job, outcome);
        return ATTUNE_OK;
    }
    counts->verified++;
    tuning_set_outcome(outcome, "right", "");
    outcome->companions = companions;
    if (t->options->retry_blocked) {
        store_blocked_remove(t->store, &job->object);
    }
    if (!t->facts.timed || look_quickly(t, job, &object, &contender, outcome) == ATTUNE_OK) {
        tuning_keep(t, job, &contender);
    }
    return ATTUNE_OK;
}

static void name_object(const struct object_job *job, struct tune_outcome *outcome)
{
    static const struct digest unknown;
    struct digest binary = job->binary; /* a job that no pipeline made has none yet */
    if (job->source_bytes > 0) {
        outcome->fixed = job->launch.fixed_count > 0;
        digest_hex(&job->object, outcome->object);
    }
    if (job->status == ATTUNE_OK &&
        (memcmp(&binary, &unknown, sizeof binary) != 0 || object_binary(job, &binary) == ATTUNE_OK)) {
        digest_hex(&binary, outcome->binary);
    }
}

/* the candidate of the same binary that this run has looked at; NULL: none */
static const struct tune_outcome *twin_of(const struct tuning *t, const struct tune_outcome *outcome)
{
    for (int i = 0; i < t->result->outcome_count && outcome->binary[0] != '\0'; i++) {
        const struct tune_outcome *other = &t->result->outcomes[i];
        if (other != outcome && other->looked && strcmp(other->binary, outcome->binary) == 0) {
            return other;
        }
    }
    return NULL;
}

/* What holds of a binary holds of the candidate, whatever its name. */
static void take_after(struct tuning *t, const struct object_job *job, const struct tune_outcome *twin,
                       struct tune_outcome *outcome)
{
    enum { SLOWER = 4 };
    static const struct {
        const char *outcome, *told;
        bool blocks;
    } bad[] = {{"wrong", ", which is wrong", true},
               {"hung", ", which hung", true},
               {"crashed", ", which crashed", true},
               {"launch-failed", ", which failed to launch", false},
               [SLOWER] = {"slower", ", which is slower, unverified", false}};
    const char *told = "";
    bool right = true;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        /* who is slower and has a time was verified */
        if (strcmp(twin->outcome, bad[i].outcome) == 0 && (i < SLOWER || twin->microseconds == 0.0)) {
            right = false;
            told = bad[i].told;
            if (bad[i].blocks) {
                block(t, job, twin);
            }
        }
    }
    if (right && t->options->retry_blocked) {
        store_blocked_remove(t->store, &job->object);
    }
    tuning_set_outcome(outcome, "same", "");
    snprintf(outcome->reason, sizeof outcome->reason, "the same binary as %s%s", twin->id, told);
    outcome->microseconds = right ? twin->microseconds : 0.0;
    t->result->counts.same++;
}

void tuning_publish_default(struct tuning *t, const struct object_job *job)
{
    struct record record;
    if (publish_default(t->store, &t->road.target, t->problem, job, &record, NULL) == ATTUNE_OK) {
        record_free(&record);
    }
}

attune_status tuning_look_at(struct tuning *t, struct search *search, struct object_job *job, int place,
                             struct error *error)
{
    struct tune_progress *counts = &t->result->counts;
    struct tune_outcome *outcome = &t->result->outcomes[place];
    const struct tune_outcome *twin;
    char reason[SCREEN_REASON_BYTES], unwanted[SEARCH_REASON_BYTES];
    attune_status status = ATTUNE_OK;
    outcome->registers = job->resources.vector_registers;
    outcome->scratch_bytes = job->resources.scratch_bytes;
    outcome->shared_bytes = job->resources.shared_bytes >= 0
                                ? job->resources.shared_bytes + (int)job->launch.dynamic_shared_bytes
                                : (int)(job->launch.static_shared_bytes + job->launch.dynamic_shared_bytes);
    name_object(job, outcome);
    if (job->blocked) {
        tuning_set_outcome(outcome, "blocked", job->message);
        counts->screened_out++;
    } else if (job->status != ATTUNE_OK) {
        tuning_set_outcome(outcome, job->status == ATTUNE_IO ? "not-compiled" : "compile-error", job->message);
        counts->failed++;
        t->uncompiled++;
        t->stopped |= tuning_compilers_fail(t, outcome);
        if (job->status == ATTUNE_TIMEOUT || job->status == ATTUNE_NO_MEMORY) {
            block(t, job, outcome);
        }
    } else {
        counts->compiled += !job->reused;
        counts->reused += job->reused;
        counts->other_compiler += job->other_compiler;
        if (!screen_fits(&t->facts.device, &job->launch, &job->resources, reason) ||
            (place != 0 && !screen_pays(t->facts.device.target.vendor, &job->resources, reason))) {
            tuning_set_outcome(outcome, "resources", reason);
            counts->screened_out++;
        } else if ((twin = twin_of(t, outcome)) != NULL) {
            take_after(t, job, twin, outcome);
        } else if (place != 0 && search != NULL &&
                   !search_wants(search, place, &job->resources, &job->launch, unwanted)) {
            tuning_set_outcome(outcome, "screened", unwanted);
            counts->screened_out++;
        } else {
            status = check(t, job, place, outcome, error);
        }
        bool right = strcmp(outcome->outcome, "right") == 0 || strcmp(outcome->outcome, "slower") == 0;
        if (place == 0 && right) { /* other shapes find it without a check */
            tuning_publish_default(t, job);
        }
    }
    journal_append_outcome(&t->journal, JOURNAL_FIRST, outcome);
    return status;
}
