/* tune_known.c - what an earlier run knows, put to use in this one: counted, told to the search, and the best of it
 * loaded for the finals.
 *
 * Times of first looks are all on the scale of the first run's yardstick. The yardstick of this run is one of those
 * that are known: its look now against its recorded time says how fast the device's clock is today. Kernels that were
 * right need no check again, only a look, in which they are loaded; where an object is not what it was, it is a
 * candidate like any other.
 */
#include "autotune/tune_private.h"

#include "autotune/publish.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* right, and timed where the device is */
static bool may_win(const struct tuning *t, const struct tune_outcome *outcome)
{
    return t->facts.timed ? strcmp(outcome->outcome, "slower") == 0 && outcome->microseconds > 0.0
                          : strcmp(outcome->outcome, "right") == 0;
}

static void count_outcome(struct tuning *t, const struct tune_outcome *outcome)
{
    struct tune_progress *p = &t->result->counts;
    const struct {
        const char *outcome;
        int *count;
    } kinds[] = {{"right", &p->verified},         {"wrong", &p->wrong},         {"compile-error", &p->failed},
                 {"not-compiled", &p->failed},    {"hung", &p->failed},         {"crashed", &p->failed},
                 {"resources", &p->screened_out}, {"same", &p->same},           {"slower", NULL},
                 {"screened", &p->screened_out},  {"blocked", &p->screened_out}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(outcome->outcome, kinds[i].outcome) == 0 && kinds[i].count != NULL) {
            ++*kinds[i].count;
        }
    }
    if (strcmp(outcome->outcome, "slower") == 0) { /* without a time it was left after one launch, unverified */
        bool timed = outcome->microseconds > 0.0;
        p->verified += timed;
        p->timed += timed;
        p->screened_out += !timed;
    }
    p->looks += outcome->looked;
    t->uncompiled += strcmp(outcome->outcome, "compile-error") == 0;
    if (may_win(t, outcome) && t->facts.timed &&
        (p->best_microseconds == 0.0 || outcome->microseconds < p->best_microseconds)) {
        p->best_microseconds = outcome->microseconds;
        memcpy(p->best, outcome->candidate, sizeof p->best);
    }
}

static void uncount_right(struct tuning *t)
{
    t->result->counts.verified--;
    t->result->counts.timed -= t->facts.timed;
}

/* What was known of it does not hold: a candidate like any other. */
static void forget(struct tuning *t, int place)
{
    struct tune_outcome *outcome = &t->result->outcomes[place], plain = {.looked = false};
    memcpy(plain.candidate, outcome->candidate, sizeof plain.candidate);
    memcpy(plain.id, outcome->id, sizeof plain.id);
    uncount_right(t);
    t->result->counts.looks--;
    *outcome = plain;
    t->known[place].holds = false;
}

/* the binary of a known candidate, from the store or compiled again; false when it is another than was looked at */
static bool obtain(struct tuning *t, struct generator *generator, struct expansion *scratch, int place,
                   struct object_job *job)
{
    char hex[DIGEST_HEX_BYTES];
    struct digest binary;
    if (object_expand(generator, &t->road, &t->list.items[place], t->problem, scratch, job, NULL) != ATTUNE_OK ||
        object_obtain(&t->road, job, NULL) != ATTUNE_OK || object_binary(job, &binary) != ATTUNE_OK) {
        return false;
    }
    digest_hex(&binary, hex);
    return strcmp(hex, t->result->outcomes[place].binary) == 0;
}

static void load(struct tuning *t, struct generator *generator, struct expansion *scratch, int place)
{
    struct tune_outcome *outcome = &t->result->outcomes[place];
    struct tune_progress *counts = &t->result->counts;
    struct contender contender = {.place = place, .quick = outcome->microseconds};
    struct error why = {.message = ""};
    struct object_job job;
    double now = NAN;
    attune_status status = ATTUNE_OK;
    if (!obtain(t, generator, scratch, place, &job)) {
        forget(t, place);
        goto out;
    }
    counts->compiled += !job.reused;
    counts->reused += job.reused;
    counts->other_compiler += job.other_compiler;
    const struct kernel_object object = {job.bytes.data, job.bytes.length, &job.launch};
    if (t->facts.timed) {
        contender.slot = tuning_free_slot(t);
        status = measurer_look(t->measurer, contender.slot, &object, 0.0, &now, &why);
    }
    if (status != ATTUNE_OK) {
        uncount_right(t);
        tuning_fail(t, &job, outcome, why.message);
        journal_write_outcome(&t->journal, JOURNAL_FINAL, outcome);
        goto out;
    }
    if (t->finalist_count == 0) {
        measurer_vouch(t->measurer, &object);
        tuning_note_pace(t, now / contender.quick, now / contender.quick); /* without times it stays as it is */
    }
    tuning_keep(t, &job, &contender);
    if (place == 0) {
        counts->default_microseconds = contender.quick;
        tuning_publish_default(t, &job);
    }
out:
    object_job_free(&job);
}

struct ranked {
    int place;
    double rank;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *left = a, *right = b;
    return left->rank != right->rank ? (left->rank < right->rank ? -1 : 1) : left->place - right->place;
}

/* The default first, then by time; without times by place. */
static int rank_all(const struct tuning *t, struct ranked *ranked)
{
    int count = 0;
    for (int i = 0; i < t->list.count; i++) {
        const struct tune_outcome *outcome = &t->result->outcomes[i];
        if (t->known[i].holds && may_win(t, outcome) && (t->facts.timed || outcome->companions)) {
            ranked[count++] = (struct ranked){i, t->facts.timed && i > 0 ? outcome->microseconds : 0.0};
        }
    }
    qsort(ranked, (size_t)count, sizeof *ranked, by_rank);
    return count;
}

attune_status tuning_take_over(struct tuning *t, struct generator *generator, struct error *error)
{
    if (t->known == NULL) {
        return ATTUNE_OK;
    }
    struct ranked *ranked = malloc(((size_t)t->list.count + 1) * sizeof *ranked);
    struct expansion scratch = {0};
    if (ranked == NULL) {
        return error_no_memory(error);
    }
    tuning_count_known(t);
    int count = rank_all(t, ranked), room = t->facts.timed ? TUNING_FINALISTS + 1 : 1;
    for (int i = 0; i < count && t->finalist_count < room && !t->stopped && !t->device_dead; i++) {
        load(t, generator, &scratch, ranked[i].place);
    }
    expansion_free(&scratch);
    free(ranked);
    return ATTUNE_OK;
}

void tuning_count_known(struct tuning *t)
{
    for (int i = 0; i < t->list.count; i++) {
        if (t->known[i].holds) {
            count_outcome(t, &t->result->outcomes[i]);
        }
    }
}

void tuning_tell_known(const struct tuning *t, struct search *search)
{
    for (int i = 0; i < t->list.count && t->known != NULL; i++) {
        const struct tune_outcome *outcome = &t->result->outcomes[i];
        const struct resources resources = {.vector_registers = outcome->registers,
                                            .scratch_bytes = outcome->scratch_bytes,
                                            .shared_bytes = outcome->shared_bytes};
        const struct search_answer answer = {.microseconds = outcome->microseconds,
                                             .looked = outcome->looked,
                                             .resources = outcome->binary[0] != '\0' ? &resources : NULL};
        if (t->known[i].holds) {
            search_tell(search, i, &answer);
        }
    }
}

attune_status tuning_promote(struct tuning *t, struct generator *generator, struct error *error)
{
    struct expansion scratch = {0};
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < t->list.count && t->known != NULL && t->finalist_count == 0 && status == ATTUNE_OK; i++) {
        const struct tune_outcome *outcome = &t->result->outcomes[i];
        struct object_job job;
        if (t->facts.timed || t->stopped || t->device_dead || strcmp(outcome->outcome, "right") != 0) {
            continue;
        }
        forget(t, i);
        if (object_expand(generator, &t->road, &t->list.items[i], t->problem, &scratch, &job, NULL) == ATTUNE_OK) {
            (void)object_obtain(&t->road, &job, NULL); /* the job says what became of it */
        }
        status = tuning_look_at(t, NULL, &job, i, error);
        journal_sync(&t->journal);
        object_job_free(&job);
    }
    expansion_free(&scratch);
    return status;
}
