/* tune_resume.c - which earlier run goes on, and what of it still holds.
 *
 * An outcome holds while its object would have the same name today: the same source, options and compiler. It does not
 * when nothing is known by it (not-tried, not-compiled, launch-failed: the machine or the device may have been the
 * reason) or when the user took its note back (blocked/ is where wrong, hung and crashed objects are remembered). All
 * else is made again.
 */
#include "autotune/history.h"
#include "autotune/ranks.h"
#include "autotune/tune_private.h"

#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------------------------------------ which run */

struct earlier {
    char run[sizeof((struct journal_begin *)0)->run];
    int64_t started;
    struct timespec written; /* last; many runs may start within a second */
    int knows;               /* outcomes, of an incomplete run that today's default is from; else 0 */
};

struct search_for {
    const struct tuning *t;
    struct journal_begin wanted; /* problem, device, target and seed */
    struct earlier *items;
    int count, capacity;
};

static bool is_of_this_problem(const struct journal_begin *begin, const struct journal_begin *wanted)
{
    return strcmp(begin->rank, wanted->rank) == 0 && strcmp(begin->problem, wanted->problem) == 0 &&
           strcmp(begin->device, wanted->device) == 0 && strcmp(begin->target, wanted->target) == 0 &&
           begin->seed == wanted->seed &&
           (begin->fingerprint[0] == '\0' || strcmp(begin->fingerprint, wanted->fingerprint) == 0);
}

/* It may have been the run that was meant: said once a file, and the search goes on. */
static void say_passed_over(const char *path, const char *why)
{
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    char key[96];
    snprintf(key, sizeof key, "resume %.80s", name);
    warn_once(key, "--resume passes over journals/%s: %s", name, why);
}

/* Of this problem, as far as its first line tells, and in its own place; says why not where that is no other's. */
static bool is_candidate(const struct search_for *search, const struct store_entry *entry, const char *path,
                         const struct stat *facts, struct journal_begin *begin)
{
    char own[4096];
    if (entry->kind != STORE_JOURNAL || (S_ISREG(facts->st_mode) && facts->st_size == 0)) {
        return false; /* claimed by a rank, and not begun */
    }
    if (!S_ISREG(facts->st_mode)) {
        say_passed_over(path, "it is no plain file");
        return false;
    }
    if (!journal_peek(path, begin)) {
        say_passed_over(path, "its first line is not that of a journal, or cannot be read");
        return false;
    }
    if (!is_of_this_problem(begin, &search->wanted)) {
        return false;
    }
    bool in_place =
        store_journal_path(search->t->store, begin->run, own, sizeof own, NULL) == ATTUNE_OK && strcmp(path, own) == 0;
    if (!in_place) {
        say_passed_over(path, "it is the journal of another run than its name says");
    }
    return in_place;
}

static attune_status note_run(void *data, const struct store_entry *entry, struct error *error)
{
    struct search_for *search = data;
    struct journal_begin begin;
    char path[4096];
    struct stat facts;
    if (path_join(path, sizeof path, store_path(search->t->store), entry->path, NULL) != ATTUNE_OK ||
        lstat(path, &facts) != 0 || !is_candidate(search, entry, path, &facts, &begin)) {
        return ATTUNE_OK;
    }
    if (search->count == search->capacity) {
        int capacity = search->capacity > 0 ? 2 * search->capacity : 16;
        struct earlier *grown = realloc(search->items, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            return error_no_memory(error);
        }
        search->items = grown;
        search->capacity = capacity;
    }
    struct earlier *item = &search->items[search->count++];
    *item = (struct earlier){.started = begin.started, .written = facts.st_mtim};
    memcpy(item->run, begin.run, sizeof item->run);
    return ATTUNE_OK;
}

static int newest_first(const void *a, const void *b)
{
    const struct earlier *left = a, *right = b;
    if (left->written.tv_sec != right->written.tv_sec) {
        return left->written.tv_sec > right->written.tv_sec ? -1 : 1;
    }
    if (left->written.tv_nsec != right->written.tv_nsec) {
        return left->written.tv_nsec > right->written.tv_nsec ? -1 : 1;
    }
    if (left->started != right->started) { /* copies may all be of one moment */
        return left->started > right->started ? -1 : 1;
    }
    return strcmp(left->run, right->run);
}

/* the name that the object has, or would have, today */
static bool is_named(const struct object_road *road, const struct object_job *job, const char *recorded)
{
    char hex[DIGEST_HEX_BYTES];
    struct digest other;
    digest_hex(&job->object, hex);
    if (strcmp(hex, recorded) == 0) {
        return true;
    }
    if (!road->accept_other || store_object_has(road->store, &job->object) ||
        store_object_find_source(road->store, &job->source_key, &other, NULL) != ATTUNE_OK) {
        return false;
    }
    digest_hex(&other, hex);
    return strcmp(hex, recorded) == 0;
}

/* the first is the one that knows most; of equals the newest */
static int most_known_first(const void *a, const void *b)
{
    const struct earlier *left = a, *right = b;
    return left->knows != right->knows ? (left->knows > right->knows ? -1 : 1) : newest_first(a, b);
}

/* Outcomes that count, of a run whose default has the object that it would have today: from another template or
 * compiler nothing may hold. */
static int count_known(const struct tuning *t, const struct object_job *standard, const struct journal_reading *reading)
{
    int known = 0;
    bool todays = false;
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct journal_outcome *outcome = &reading->outcomes[i];
        known += outcome->counts && strcmp(outcome->what.outcome, "not-tried") != 0;
        todays = todays || (strcmp(outcome->what.candidate, standard->name) == 0 &&
                            is_named(&t->road, standard, outcome->what.object));
    }
    return todays ? known : 0;
}

/* The runs are newest first. Those before the newest complete one: a short one that was begun and left does not hide
 * one that got further. */
static void prefer_who_knows_most(struct search_for *search, struct generator *generator)
{
    const struct tuning *t = search->t;
    struct expansion scratch = {0};
    struct object_job standard = {0};
    int incomplete = 0;
    bool complete = false;
    if (search->count > 1 && t->list.count > 0 &&
        object_expand(generator, &t->road, &t->list.items[0], t->problem, &scratch, &standard, NULL) == ATTUNE_OK) {
        while (incomplete < search->count && !complete) {
            struct earlier *run = &search->items[incomplete];
            struct journal_reading reading;
            if (history_outcomes(t->store, run->run, &reading, NULL) == ATTUNE_OK) {
                complete = reading.has_end && reading.end.complete;
                run->knows = count_known(t, &standard, &reading);
                journal_reading_free(&reading);
            }
            incomplete += !complete;
        }
        qsort(search->items, (size_t)incomplete, sizeof search->items[0], most_known_first);
    }
    expansion_free(&scratch);
    object_job_free(&standard);
}

/* Opens the first journal of these that nobody writes; ATTUNE_NOT_FOUND when there is none, ATTUNE_IO when all are
 * written. */
static attune_status open_earlier(struct tuning *t, struct generator *generator, const struct journal_begin *wanted,
                                  struct journal_reading *reading, struct error *error)
{
    struct search_for search = {.t = t, .wanted = *wanted};
    struct error why = {.message = ""}, first = {.message = ""};
    attune_status status = store_walk_journals(t->store, note_run, &search, error);
    bool found = false;
    if (status == ATTUNE_OK && search.count > 0) {
        qsort(search.items, (size_t)search.count, sizeof search.items[0], newest_first);
        prefer_who_knows_most(&search, generator);
    }
    for (int i = 0; i < search.count && status == ATTUNE_OK && !found; i++) {
        bool written;
        attune_status opened = journal_continue(&t->journal, t->store, search.items[i].run, reading, &written, &why);
        found = opened == ATTUNE_OK;
        if (found) {
            memcpy(t->run, search.items[i].run, sizeof t->run);
        } else if (written && first.message[0] == '\0') {
            first = why;
        } else if (opened == ATTUNE_NO_MEMORY) {
            status = error_no_memory(error);
        } else if (!written) {
            char name[64];
            snprintf(name, sizeof name, "%s.jsonl", search.items[i].run);
            say_passed_over(name, why.message);
        }
    }
    free(search.items);
    if (status == ATTUNE_OK && !found) {
        status = first.message[0] != '\0'
                     ? error_set(error, ATTUNE_IO, "%s: wait for its end, or leave out --resume", first.message)
                     : ATTUNE_NOT_FOUND;
    }
    return status;
}

/* A rank goes on with its own journal alone: the others know it by its name. */
static attune_status open_rank(struct tuning *t, const struct journal_begin *wanted, struct journal_reading *reading,
                               struct error *error)
{
    attune_status status = tuning_share_continue(t, reading, error);
    if (status == ATTUNE_OK && !is_of_this_problem(&reading->begin, wanted)) {
        journal_close(&t->journal);
        journal_reading_free(reading);
        t->joined = false; /* it takes no part in the job */
        status =
            error_set(error, ATTUNE_INVALID,
                      "rank %d of job '%s' was begun with another seed or on another device than now: --resume goes "
                      "on where both are the same",
                      t->options->share->rank, t->options->share->ranks->job);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------ what holds */

static bool is_one_of(const char *outcome, const char *const *names)
{
    while (*names != NULL && strcmp(*names, outcome) != 0) {
        names++;
    }
    return *names != NULL;
}

static bool has_note(const struct tuning *t, const char *object)
{
    struct digest digest;
    struct blocked note;
    return digest_from_hex(object, strlen(object), &digest) == ATTUNE_OK &&
           store_blocked_get(t->store, &digest, &note, NULL) == ATTUNE_OK;
}

/* given that its object is the same */
static bool outcome_holds(const struct tuning *t, const struct tune_outcome *outcome)
{
    static const char *const good[] = {"right", "slower", "timed", NULL};
    static const char *const bad[] = {"wrong", "hung", "crashed", "blocked", NULL};
    static const char *const plain[] = {"resources", "screened", "same", NULL};
    if (strcmp(outcome->outcome, "compile-error") == 0) {
        return !t->options->retry_blocked && t->road.toolchain == ATTUNE_OK;
    }
    if (is_one_of(outcome->outcome, good)) {
        return !has_note(t, outcome->object); /* another run may have found something */
    }
    return is_one_of(outcome->outcome, plain) ||
           (is_one_of(outcome->outcome, bad) && !t->options->retry_blocked && has_note(t, outcome->object));
}

struct named_place {
    const char *name;
    int place;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named_place *)a)->name, ((const struct named_place *)b)->name);
}

/* the list's candidates sorted by name; free() */
static struct named_place *index_places(const struct tuning *t)
{
    struct named_place *places = malloc(((size_t)t->list.count + 1) * sizeof *places);
    for (int i = 0; places != NULL && i < t->list.count; i++) {
        places[i] = (struct named_place){t->result->outcomes[i].candidate, i};
    }
    if (places != NULL) {
        qsort(places, (size_t)t->list.count, sizeof *places, by_name);
    }
    return places;
}

/* First looks are on one scale, by the yardstick's clock; what the finals said is not. */
static void take(struct tuning *t, const struct journal_reading *reading, const struct journal_outcome *counting,
                 int place)
{
    struct tune_outcome *outcome = &t->result->outcomes[place];
    *outcome = counting->what;
    for (int i = 0; counting->stage == JOURNAL_FINAL && i < reading->outcome_count; i++) {
        const struct journal_outcome *other = &reading->outcomes[i];
        if (other->stage == JOURNAL_FIRST && strcmp(other->what.candidate, outcome->candidate) == 0 &&
            strcmp(other->what.object, outcome->object) == 0 && strcmp(outcome->outcome, "timed") == 0) {
            *outcome = other->what;
        }
    }
    outcome->looked = outcome_was_looked_at(outcome);
    t->known[place].holds = true;
}

/* Of the same binary one was looked at: where that does not hold, nor does this. */
static bool has_twin(const struct tuning *t, const struct tune_outcome *outcome)
{
    for (int i = 0; i < t->list.count; i++) {
        const struct tune_outcome *other = &t->result->outcomes[i];
        if (t->known[i].holds && other->looked && other->binary[0] != '\0' &&
            strcmp(other->binary, outcome->binary) == 0) {
            return true;
        }
    }
    return false;
}

static void drop_orphans(struct tuning *t)
{
    for (int i = 0; i < t->list.count; i++) {
        struct tune_outcome *outcome = &t->result->outcomes[i];
        if (t->known[i].holds && strcmp(outcome->outcome, "same") == 0 && !has_twin(t, outcome)) {
            struct tune_outcome plain = {.looked = false};
            memcpy(plain.candidate, outcome->candidate, sizeof plain.candidate);
            memcpy(plain.id, outcome->id, sizeof plain.id);
            *outcome = plain;
            t->known[i].holds = false;
        }
    }
}

static attune_status recall(struct tuning *t, struct generator *generator, const struct journal_reading *reading,
                            struct error *error)
{
    struct tune_progress *counts = &t->result->counts;
    struct expansion scratch = {0};
    attune_status status = tuning_add_others(t, generator, reading, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    t->narrower = tuning_is_narrower(t, &reading->begin);
    struct named_place *places = index_places(t); /* of outcomes, which stay where they are from now on */
    t->known = calloc((size_t)t->list.count + 1, sizeof *t->known);
    if (places == NULL || t->known == NULL) {
        free(places);
        return error_no_memory(error);
    }
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct journal_outcome *earlier = &reading->outcomes[i];
        const struct named_place key = {.name = earlier->what.candidate};
        const struct named_place *found = bsearch(&key, places, (size_t)t->list.count, sizeof *places, by_name);
        struct object_job job;
        if (!earlier->counts || found == NULL || earlier->what.object[0] == '\0') {
            continue;
        }
        attune_status expanded =
            object_expand(generator, &t->road, &t->list.items[found->place], t->problem, &scratch, &job, NULL);
        if (expanded != ATTUNE_OK || !is_named(&t->road, &job, earlier->what.object)) {
            counts->invalid += found->place < t->planned; /* the others are not made again */
        } else if (outcome_holds(t, &earlier->what)) {
            take(t, reading, earlier, found->place);
        }
        object_job_free(&job);
    }
    drop_orphans(t);
    tuning_drop_others(t);
    for (int i = 0; i < t->list.count; i++) {
        counts->held += t->known[i].holds;
    }
    expansion_free(&scratch);
    free(places);
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ nothing left */

/* The record of `run` with its object; *record is filled then (record_free). */
static bool has_record(const struct tuning *t, const char *run, const char *device, struct record *record)
{
    struct record *known = NULL;
    struct object_header header;
    struct buffer bytes = BUFFER_INIT;
    char specialisation[PROBLEM_TEXT_BYTES];
    int count = 0;
    bool found = false;
    if (problem_specialisation(t->problem, specialisation, NULL) == ATTUNE_OK) {
        (void)store_records(t->store, device, specialisation, &known, &count, NULL);
    }
    for (int i = 0; i < count; i++) {
        char object[DIGEST_HEX_BYTES];
        digest_hex(&known[i].object, object);
        if (!found && strcmp(known[i].run, run) == 0 && !has_note(t, object) &&
            store_object_get(t->store, &known[i].object, &header, &bytes, NULL) == ATTUNE_OK) {
            *record = known[i];
            found = true;
        } else {
            record_free(&known[i]);
        }
    }
    free(known);
    buffer_free(&bytes);
    return found;
}

/* a counting outcome of a listed candidate that is made again */
static bool misses_any(const struct tuning *t, const struct journal_reading *reading)
{
    for (int place = 0; place < t->planned; place++) {
        for (int i = 0; i < reading->outcome_count && !t->known[place].holds; i++) {
            if (reading->outcomes[i].counts &&
                strcmp(reading->outcomes[i].what.id, t->result->outcomes[place].id) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* All of the list, or as many looks as are asked for, the default's among them; what an older template left of the
 * others is history. */
static bool holds_enough(const struct tuning *t)
{
    const int wanted = t->options->budget_candidates;
    int looks = 0;
    bool all = true;
    for (int i = 0; i < t->list.count; i++) {
        all &= t->known[i].holds;
        looks += t->known[i].holds && t->result->outcomes[i].looked;
    }
    return all || (wanted > 0 && looks >= wanted && t->known[0].holds);
}

/* The same strategy over as many candidates came to its own end, and all it went by holds: it would ask for no other.
 */
static bool came_to_its_end(const struct tuning *t, const struct journal_reading *reading)
{
    const struct journal_end *end = &reading->end;
    return end->complete && t->options->budget_candidates == 0 && t->plan.search != SEARCH_EXHAUSTIVE &&
           strcmp(end->strategy, t->plan.name) == 0 && reading->begin.candidates == t->planned &&
           !misses_any(t, reading);
}

/* what the record names is what holds, not what another template made under the same name */
static bool winner_holds(const struct tuning *t, const struct record *record)
{
    char object[DIGEST_HEX_BYTES];
    bool holds = false;
    digest_hex(&record->object, object);
    for (int i = 0; i < t->list.count && !holds; i++) {
        const struct tune_outcome *outcome = &t->result->outcomes[i];
        holds = t->known[i].holds && strcmp(outcome->candidate, record->candidate) == 0 &&
                strcmp(outcome->object, object) == 0;
    }
    return holds;
}

static bool is_done(struct tuning *t, const struct journal_reading *reading, const char *fingerprint, const char *run)
{
    const struct tune_share *share = t->options->share;
    struct record *record = &t->result->record;
    if (!reading->has_end || !(holds_enough(t) || came_to_its_end(t, reading))) {
        return false;
    }
    if (share != NULL && share->divided) { /* all ranks make the record together, from all that counts */
        return !misses_any(t, reading);
    }
    if (!has_record(t, run, fingerprint, record)) {
        return false;
    }
    if (!winner_holds(t, record)) {
        record_free(record);
        *record = (struct record){.created = 0};
        return false;
    }
    return true;
}

attune_status tuning_resume(struct tuning *t, struct generator *generator, const struct journal_begin *wanted,
                            struct journal_reading *reading, struct error *error)
{
    const struct tune_share *share = t->options->share;
    char run[sizeof t->run];
    attune_status status =
        share != NULL ? open_rank(t, wanted, reading, error) : open_earlier(t, generator, wanted, reading, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = recall(t, generator, reading, error);
    if (status == ATTUNE_OK) {
        memcpy(run, t->run, sizeof run);
        if (share != NULL) {
            ranks_record_run(share->ranks, wanted->problem, run);
        }
        t->result->counts.resumed = true;
        t->result->already_done = is_done(t, reading, wanted->fingerprint, run);
    }
    if (status != ATTUNE_OK) {
        journal_reading_free(reading);
    }
    return status;
}
