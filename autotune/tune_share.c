/* tune_share.c - a rank's part of a job: its share of the candidates, and one record for all ranks.
 *
 * Whoever has all journals chooses from them, and the first to publish decides: all others take what is there, also
 * those that come late and those who saw fewer journals. So all ranks end with the same choice, whatever died
 * meanwhile.
 */
#include "autotune/tune_private.h"

#include "autotune/publish.h"
#include "autotune/rank_wait.h"
#include "autotune/ranks.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

attune_status tune_claim(struct store *store, const struct problem *problem, const struct tune_share *share, bool *ours,
                         struct error *error)
{
    char text[PROBLEM_TEXT_BYTES], run[RANKS_RUN_BYTES], path[512];
    *ours = false;
    if (store_path(store)[0] == '\0') {
        return error_set(error, ATTUNE_INVALID,
                         "ranks of one job meet in the cache folder, and the cache is in memory: %s",
                         store_memory_reason(store));
    }
    attune_status status = problem_format(problem, text, error);
    if (status == ATTUNE_OK) {
        ranks_journal_run(share->ranks, text, share->rank, share->turn, run);
        status = store_journal_path(store, run, path, sizeof path, error);
    }
    if (status != ATTUNE_OK) {
        return error_prefix(error, "ranks of one job meet in the cache folder");
    }
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0 && errno != EEXIST) {
        return error_errno(error, errno, "%s cannot be written", path);
    }
    *ours = file >= 0;
    if (file >= 0) {
        close(file);
    }
    return ATTUNE_OK;
}

attune_status tuning_share_begin(struct tuning *t, struct error *error)
{
    const struct tune_share *share = t->options->share;
    char text[PROBLEM_TEXT_BYTES];
    bool ours = true;
    attune_status status = problem_format(t->problem, text, error);
    if (status == ATTUNE_OK && !share->claimed && !t->joined) {
        status = tune_claim(t->store, t->problem, share, &ours, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    ranks_journal_run(share->ranks, text, share->rank, share->turn, t->run);
    if (!ours) {
        return error_set(
            error, ATTUNE_INVALID,
            "rank %d of %d of job '%s' has a journal of this problem already, %s: another process is the "
            "same rank, or the job ran before; --resume goes on with it, --job NAME gives it a name of its own",
            share->rank, share->ranks->size, share->ranks->job, t->run);
    }
    t->joined = true;
    return ATTUNE_OK;
}

/* nothing is in it: who claimed it was killed before it began */
static bool is_empty(struct store *store, const char *run)
{
    struct buffer text = BUFFER_INIT;
    bool empty = store_journal_read(store, run, &text, NULL) == ATTUNE_OK && text.length == 0;
    buffer_free(&text);
    return empty;
}

attune_status tuning_share_continue(struct tuning *t, struct journal_reading *reading, struct error *error)
{
    const struct tune_share *share = t->options->share;
    const struct timespec pause = {0, 20000000};
    char text[PROBLEM_TEXT_BYTES];
    bool ours = false, written = true;
    attune_status status = problem_format(t->problem, text, error);
    if (status == ATTUNE_OK) {
        status = tune_claim(t->store, t->problem, share, &ours, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    ranks_journal_run(share->ranks, text, share->rank, share->turn, t->run);
    if (ours || is_empty(t->store, t->run)) {
        t->joined = true;
        return ATTUNE_NOT_FOUND;
    }
    /* a rank that watches ours holds it for a moment now and then */
    for (int attempt = 0; attempt < 20 && written; attempt++) {
        if (attempt > 0) {
            nanosleep(&pause, NULL);
        }
        status = journal_continue(&t->journal, t->store, t->run, reading, &written, error);
    }
    t->joined = status == ATTUNE_OK;
    return status == ATTUNE_NOT_FOUND ? ATTUNE_IO : status;
}

attune_status tuning_share_divide(struct tuning *t, struct error *error)
{
    const struct ranks *ranks = t->options->share->ranks;
    int kept = 0;
    t->order.ids = calloc((size_t)t->list.count + 1, sizeof *t->order.ids);
    if (t->order.ids == NULL) {
        return error_no_memory(error);
    }
    t->order.count = t->list.count;
    for (int i = 0; i < t->list.count; i++) {
        candidate_id(&t->list.items[i], t->order.ids[i]);
        if (i == 0 || ranks_owner_of_candidate(ranks, t->order.ids[i]) == ranks->rank) {
            t->list.items[kept++] = t->list.items[i];
        }
    }
    t->list.count = kept;
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ choosing */

struct meeting {
    struct tuning *t;
    struct generator *generator;
    const struct ranks *ranks;
    struct rank_watch *watches; /* of every rank, ours too */
    struct journal_reading *readings;
    int reading_count;
    bool complete; /* every rank looked at all of its share */
};

/* Journals that take part are moved from their watches into the readings. */
static void gather(struct meeting *m)
{
    m->complete = true;
    for (int i = 0; i < m->ranks->size; i++) {
        struct rank_watch *watch = &m->watches[i];
        m->complete &= watch->state == RANK_ANSWERED && watch->reading.end.complete;
        if (watch->state != RANK_ELSEWHERE && watch->has_reading && watch->reading.has_begin) {
            m->readings[m->reading_count++] = watch->reading;
            watch->has_reading = false;
        }
    }
}

static attune_status list_peers(const struct meeting *m, struct error *error)
{
    struct tune_result *result = m->t->result;
    result->peers = calloc((size_t)m->ranks->size, sizeof *result->peers);
    if (result->peers == NULL) {
        return error_no_memory(error);
    }
    for (int i = 0; i < m->ranks->size; i++) {
        const struct rank_watch *watch = &m->watches[i];
        if (i != m->ranks->rank) {
            struct tune_peer *peer = &result->peers[result->peer_count++];
            *peer = (struct tune_peer){.rank = i, .state = rank_state_name(watch->state)};
            peer->merged = watch->state != RANK_ELSEWHERE && watch->has_reading && watch->reading.has_begin;
            snprintf(peer->journal, sizeof peer->journal, "%s", watch->run);
        }
    }
    return ATTUNE_OK;
}

/* The store's object of that name, if it is of the same source: made by another rank's compiler. */
static attune_status take_named(const struct tuning *t, const char *name, struct object_job *job, struct error *error)
{
    struct object_header header;
    struct buffer bytes = BUFFER_INIT;
    struct digest source = job->source_key;
    attune_status status = digest_from_hex(name, strlen(name), &job->object);
    if (status == ATTUNE_OK) {
        status = store_object_get(t->store, &job->object, &header, &bytes, NULL);
    }
    buffer_free(&bytes);
    if (status != ATTUNE_OK || memcmp(&header.source, &source, sizeof source) != 0) {
        return error_set(error, ATTUNE_UNSUPPORTED,
                         "%s is right as object %s, which is not in the cache or is of another source: the ranks' "
                         "templates differ",
                         job->name, name);
    }
    memcpy(job->compiler, header.compiler, sizeof job->compiler);
    memcpy(job->identity, header.identity, sizeof job->identity);
    return ATTUNE_OK;
}

/* What a rank found right is what is published: its object, with the launch that its source says. */
static attune_status obtain(struct meeting *m, const struct rank_choice *choice, struct object_job *job,
                            struct error *error)
{
    const struct tuning *t = m->t;
    struct expansion *scratch = calloc(1, sizeof *scratch);
    char name[DIGEST_HEX_BYTES];
    attune_status status = scratch != NULL ? ATTUNE_OK : error_no_memory(error);
    if (status == ATTUNE_OK) {
        status = candidate_parse(m->generator, choice->candidate, t->problem, &t->road.target, &job->candidate, error);
    }
    if (status == ATTUNE_OK) {
        status = object_expand(m->generator, &t->road, &job->candidate, t->problem, scratch, job, error);
    }
    if (status == ATTUNE_OK) {
        status = object_obtain(&t->road, job, error);
    }
    if (status == ATTUNE_OK) {
        digest_hex(&job->object, name);
        status = strcmp(name, choice->object) == 0 ? ATTUNE_OK : take_named(t, choice->object, job, error);
    }
    if (scratch != NULL) {
        expansion_free(scratch);
    }
    free(scratch);
    return status;
}

static void describe(const struct meeting *m, const struct rank_choice *choice, struct record *record)
{
    const struct tuning *t = m->t;
    record_set_device(record, &t->facts.device);
    ranks_record_run(m->ranks, record->problem, record->run);
    record->winner_microseconds = choice->microseconds;
    record->default_microseconds = choice->default_microseconds;
    record->tried = choice->tried;
    record->verified = choice->verified;
    record->rejected = choice->rejected;
    record->timed = choice->timed;
    record->complete = m->complete;
}

/* what cannot be had as a rank found it is none of the candidates */
static void rule_out(struct meeting *m, const struct rank_choice *choice, const char *reason)
{
    warn_once(choice->id, "candidate %s, the best of all ranks, is passed over: %s", choice->id, reason);
    for (int j = 0; j < m->reading_count; j++) {
        for (int i = 0; i < m->readings[j].outcome_count; i++) {
            struct tune_outcome *outcome = &m->readings[j].outcomes[i].what;
            if (strcmp(outcome->id, choice->id) == 0) {
                tuning_set_outcome(outcome, "blocked", reason);
            }
        }
    }
}

/* The best that can be had, published unless another rank was first. `own`: see tuning_share_settle. */
static attune_status decide(struct meeting *m, attune_status own, struct rank_choice *choice, struct error *error)
{
    struct tuning *t = m->t;
    for (;;) {
        attune_status status = rank_choose(m->readings, m->reading_count, &t->order, t->facts.timed, choice, error);
        if (status != ATTUNE_OK) {
            return status;
        }
        if (!choice->found) {
            return own != ATTUNE_OK
                       ? own
                       : error_set(error, ATTUNE_IO,
                                   "the winner is in no journal: that of this rank, %s, could not be written "
                                   "to its end",
                                   t->run);
        }
        struct object_job *job = calloc(1, sizeof *job);
        struct record *record = calloc(1, sizeof *record);
        struct error why = {.message = ""};
        bool first = false, made = false;
        status = job != NULL && record != NULL ? ATTUNE_OK : error_no_memory(error);
        if (status == ATTUNE_OK) {
            made = obtain(m, choice, job, &why) == ATTUNE_OK;
            status = made ? record_describe(record, RECORD_TUNED, t->problem, job, error) : ATTUNE_OK;
        }
        if (status == ATTUNE_OK && made) {
            describe(m, choice, record);
            record_free(&t->result->record);
            status = store_record_put_first(t->store, record, &t->result->record, &first, error);
            t->result->adopted = !first;
            record_free(record);
        }
        if (job != NULL) {
            object_job_free(job);
        }
        free(job);
        free(record);
        if (status != ATTUNE_OK || made) {
            return status;
        }
        rule_out(m, choice, why.message);
        free(choice->outcomes);
        choice->outcomes = NULL;
    }
}

/* the result is that of all ranks */
static void take_over(struct tuning *t, struct rank_choice *choice)
{
    const struct record *record = &t->result->record;
    free(t->result->outcomes);
    t->result->outcomes = choice->outcomes;
    t->result->outcome_count = choice->outcome_count;
    choice->outcomes = NULL;
    t->result->listed = t->order.count;
    t->result->counts.looks = choice->looks;
    t->result->all.tried = choice->tried;
    t->result->all.verified = choice->verified;
    t->result->all.rejected = choice->rejected;
    t->result->all.timed = choice->timed;
    snprintf(t->result->counts.best, sizeof t->result->counts.best, "%s", record->candidate);
    t->result->counts.best_microseconds = record->winner_microseconds;
    t->result->counts.default_microseconds = record->default_microseconds;
}

attune_status tuning_share_publish(struct tuning *t, struct error *error)
{
    bool first;
    struct record *kept = calloc(1, sizeof *kept);
    if (kept == NULL) {
        return error_no_memory(error);
    }
    ranks_record_run(t->options->share->ranks, t->result->record.problem, t->result->record.run);
    attune_status status = store_record_put_first(t->store, &t->result->record, kept, &first, error);
    if (status == ATTUNE_OK) {
        t->result->adopted = !first;
        record_free(&t->result->record);
        t->result->record = *kept;
    }
    free(kept);
    return status;
}

attune_status tuning_share_settle(struct tuning *t, struct generator *generator, attune_status own, struct error *error)
{
    const struct ranks *ranks = t->options->share->ranks;
    struct meeting m = {.t = t, .generator = generator, .ranks = ranks};
    struct rank_choice *choice = calloc(1, sizeof *choice);
    char text[PROBLEM_TEXT_BYTES], kind[128];
    struct fingerprint device;
    int awaited = 0;
    m.watches = calloc((size_t)ranks->size, sizeof *m.watches);
    m.readings = calloc((size_t)ranks->size, sizeof *m.readings);
    attune_status status = choice != NULL && m.watches != NULL && m.readings != NULL
                               ? problem_format(t->problem, text, error)
                               : error_no_memory(error);
    if (status != ATTUNE_OK) {
        goto out;
    }
    device_fingerprint(&t->facts.device, &device);
    fingerprint_folder(&device, kind);
    for (int i = 0; i < ranks->size; i++) {
        rank_watch_begin(&m.watches[i], ranks, text, i, 0);
        rank_watch_look(&m.watches[i], t->store, &ranks->patience, kind);
        awaited += m.watches[i].state == RANK_AWAITED;
    }
    if (awaited > 0) {
        tuning_tell(t, TUNE_WAIT);
    }
    const double waits = clock_seconds();
    rank_watch_all(m.watches, ranks->size, t->store, &ranks->patience, kind, t->options->stop);
    t->result->waited_seconds = clock_seconds() - waits;
    status = list_peers(&m, error);
    if (status == ATTUNE_OK) {
        gather(&m);
        status = decide(&m, own, choice, error);
    }
    if (status == ATTUNE_OK) {
        take_over(t, choice);
    }
out:
    for (int i = 0; i < ranks->size && m.watches != NULL; i++) {
        rank_watch_free(&m.watches[i]);
    }
    for (int i = 0; i < m.reading_count; i++) {
        journal_reading_free(&m.readings[i]);
    }
    if (choice != NULL) {
        free(choice->outcomes);
    }
    free(choice);
    free(m.watches);
    free(m.readings);
    return status;
}
