/* replay.c - journals as worlds for a search. */
#include "bench/replay.h"

#include "autotune/inputs.h"
#include "autotune/journal.h"
#include "autotune/measure.h"
#include "autotune/screen.h"
#include "autotune/ties.h"
#include "base/files.h"
#include "base/process.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINALISTS = 12, JOURNAL_BYTES_MAX = 64 << 20 };
static const double tie_band = 0.01, close_to_best = 0.02;

/* what a journal does not say of its device */
static const struct {
    const char *name;
    struct driver_device facts;
} devices[] = {
    {"NVIDIA H200", {.compute_units = 132, .wave_size = 32, .max_threads = 1024, .shared_bytes = 227 * 1024}},
};

static attune_status find_device(const struct journal_begin *begin, struct driver_device *device, struct error *error)
{
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        if (strcmp(devices[i].name, begin->device) == 0) {
            *device = devices[i].facts;
            snprintf(device->name, sizeof device->name, "%s", begin->device);
            return target_parse(begin->target, &device->target, error);
        }
    }
    return error_set(error, ATTUNE_INVALID, "device '%s': add its compute units to bench/replay.c", begin->device);
}

static bool was_looked_at(const struct tune_outcome *what)
{
    static const char *const unlooked[] = {"compile-error", "not-compiled", "resources", "blocked", "not-tried"};
    for (size_t i = 0; i < sizeof unlooked / sizeof unlooked[0]; i++) {
        if (strcmp(what->outcome, unlooked[i]) == 0) {
            return false;
        }
    }
    return true;
}

static void read_entry(const struct tune_outcome *what, struct replay_entry *entry)
{
    entry->first = entry->truth = what->microseconds;
    entry->looked = was_looked_at(what);
    entry->resources = (struct resources){.vector_registers = what->registers,
                                          .scalar_registers = -1,
                                          .spilled_registers = -1,
                                          .shared_bytes = -1, /* as the launch says */
                                          .scratch_bytes = what->scratch_bytes,
                                          .max_threads = -1};
}

/* Entries of first looks; finals correct their truth. `binaries` has the digest of each entry. */
static attune_status read_outcomes(const struct journal_reading *reading, struct generator *generator,
                                   struct replay_space *space, const char **binaries, struct error *error)
{
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct tune_outcome *what = &reading->outcomes[i].what;
        if (reading->outcomes[i].stage == JOURNAL_FINAL || strcmp(what->outcome, "not-tried") == 0) {
            continue;
        }
        int n = space->list.count;
        attune_status status = candidate_parse(generator, what->candidate, &space->problem, &space->device.target,
                                               &space->list.items[n], error);
        if (status != ATTUNE_OK) {
            return status;
        }
        read_entry(what, &space->entries[n]);
        binaries[n] = what->binary;
        space->entries[n].binary = n;
        for (int j = 0; j < n && what->binary[0] != '\0'; j++) {
            if (strcmp(binaries[j], what->binary) == 0) {
                space->entries[n].binary = j;
                break;
            }
        }
        space->list.count++;
    }
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct tune_outcome *what = &reading->outcomes[i].what;
        struct candidate one;
        char name[CANDIDATE_TEXT_BYTES];
        if (reading->outcomes[i].stage != JOURNAL_FINAL || !(what->microseconds > 0.0) ||
            candidate_parse(generator, what->candidate, &space->problem, &space->device.target, &one, error) !=
                ATTUNE_OK) {
            continue;
        }
        for (int n = 0; n < space->list.count; n++) {
            candidate_format(&space->list.items[n], name);
            if (strcmp(name, what->candidate) == 0) {
                space->entries[space->entries[n].binary].truth = what->microseconds;
            }
        }
    }
    return space->list.count > 0 ? ATTUNE_OK : error_set(error, ATTUNE_INVALID, "no candidate was looked at");
}

static void count(struct replay_space *space)
{
    space->best = INFINITY;
    for (int i = 0; i < space->list.count; i++) {
        const struct replay_entry *entry = &space->entries[i];
        bool own = entry->binary == i;
        space->looks += own && entry->looked;
        space->timed += own && entry->truth > 0.0;
        if (own && entry->truth > 0.0 && entry->truth < space->best) {
            space->best = entry->truth;
        }
    }
    for (int i = 0; i < space->list.count; i++) {
        const struct replay_entry *entry = &space->entries[i];
        space->within += entry->binary == i && entry->truth > 0.0 && entry->truth <= space->best * (1 + close_to_best);
    }
}

attune_status replay_load(const char *path, struct generator *generator, struct replay_space *space,
                          struct error *error)
{
    struct buffer text = BUFFER_INIT;
    struct journal_reading reading = {0};
    const char **binaries = NULL, *name = strrchr(path, '/');
    *space = (struct replay_space){0};
    snprintf(space->name, sizeof space->name, "%s", name != NULL ? name + 1 : path);
    char *end = strrchr(space->name, '.');
    if (end != NULL) {
        *end = '\0';
    }
    attune_status status = file_read_text(path, JOURNAL_BYTES_MAX, &text, error);
    if (status == ATTUNE_OK) {
        status = journal_read(text.data, text.length, &reading, error);
    }
    if (status == ATTUNE_OK && !reading.has_begin) {
        status = error_set(error, ATTUNE_CORRUPT, "there is no begin line");
    }
    if (status == ATTUNE_OK) {
        status = find_device(&reading.begin, &space->device, error);
    }
    if (status == ATTUNE_OK) {
        char family[FAMILY_NAME_BYTES];
        status = problem_family(reading.begin.problem, family, error);
        const struct schema *schema = status == ATTUNE_OK ? generator_schema(generator, family) : NULL;
        if (status == ATTUNE_OK && schema == NULL) {
            status = error_set(error, ATTUNE_NOT_FOUND, "there is no family '%s'", family);
        } else if (status == ATTUNE_OK) {
            status = problem_parse(schema, reading.begin.problem, &space->problem, error);
        }
    }
    if (status == ATTUNE_OK) {
        size_t room = (size_t)reading.outcome_count + 1;
        space->list.items = calloc(room, sizeof *space->list.items);
        space->entries = calloc(room, sizeof *space->entries);
        binaries = calloc(room, sizeof *binaries);
        status = space->list.items != NULL && space->entries != NULL && binaries != NULL
                     ? read_outcomes(&reading, generator, space, binaries, error)
                     : error_no_memory(error);
    }
    if (status == ATTUNE_OK) {
        count(space);
    } else {
        replay_free(space);
        error_prefix(error, "%s", path);
    }
    free(binaries);
    journal_reading_free(&reading);
    buffer_free(&text);
    return status;
}

void replay_free(struct replay_space *space)
{
    candidate_list_free(&space->list);
    free(space->entries);
    *space = (struct replay_space){0};
}

/* ---- running ---- */

struct runner {
    struct replay_space *space;
    struct generator *generator;
    struct search *search;
    struct expansion expansion;
    int start;  /* this entry and the first have changed places in the search's list */
    bool *seen; /* binaries that the device saw, by their first entry */
    struct replay_result *result;
};

/* An object on its way to the device: the launch is known once it was expanded. */
static attune_status expand(struct runner *run, int index, struct error *error)
{
    struct replay_entry *entry = &run->space->entries[index];
    attune_status status = ATTUNE_OK;
    if (!entry->expanded) {
        status = candidate_expand(run->generator, &run->space->list.items[index], &run->space->problem,
                                  &run->space->device.target, &run->expansion, error);
        entry->launch = run->expansion.launch;
        entry->expanded = true;
    }
    return status;
}

/* index of the search's list <-> entry */
static int swapped(const struct runner *run, int index)
{
    return index == 0 ? run->start : index == run->start ? 0 : index;
}

static attune_status arrive(struct runner *run, int place, struct error *error)
{
    int index = swapped(run, place);
    struct replay_entry *entry = &run->space->entries[index];
    struct search_answer answer = {.resources = &entry->resources};
    char reason[SEARCH_REASON_BYTES];
    attune_status status = expand(run, index, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (entry->looked && run->seen[entry->binary]) {
        answer.microseconds = run->space->entries[entry->binary].first;
    } else if (entry->looked) {
        double before = clock_seconds();
        bool wanted = search_wants(run->search, place, &entry->resources, &entry->launch, reason);
        run->result->seconds += clock_seconds() - before;
        run->result->refused += !wanted;
        if (wanted) {
            run->seen[entry->binary] = true;
            answer.looked = true;
            answer.microseconds = run->space->entries[entry->binary].first;
        }
    }
    run->result->looks += answer.looked;
    double before = clock_seconds();
    search_tell(run->search, place, &answer);
    run->result->seconds += clock_seconds() - before;
    return ATTUNE_OK;
}

/* the run's start stands for the default */
static struct tie tie_of(struct runner *run, int index, char name[CANDIDATE_TEXT_BYTES])
{
    (void)expand(run, index, NULL); /* it was when it arrived, or another one of the same binary was */
    candidate_format(&run->space->list.items[index], name);
    return (struct tie){.standard = index == run->space->entries[run->start].binary,
                        .fixed = run->space->entries[index].launch.fixed_count > 0,
                        .name = name};
}

static bool is_before(struct runner *run, int a, int b)
{
    char names[2][CANDIDATE_TEXT_BYTES];
    const struct tie left = tie_of(run, a, names[0]), right = tie_of(run, b, names[1]);
    return tie_compare(&left, &right) < 0;
}

/* The dozen of the best first looks and the default, in the order of ties; the tuner's choice among their true times.
 */
static void hold_finals(struct runner *run)
{
    const struct replay_space *space = run->space;
    int chosen[FINALISTS + 1] = {0}, finalists = 0;
    for (int n = 0; n < FINALISTS + 1; n++) {
        int best = -1;
        for (int i = 0; i < space->list.count; i++) {
            const struct replay_entry *entry = &space->entries[i];
            bool taken = false;
            for (int f = 0; f < finalists; f++) {
                taken |= chosen[f] == i;
            }
            if (entry->binary == i && run->seen[i] && entry->first > 0.0 && !taken &&
                (n == 0 ? i == space->entries[run->start].binary
                        : best < 0 || entry->first < space->entries[best].first)) {
                best = i;
            }
        }
        if (best >= 0) {
            chosen[finalists++] = best;
        }
    }
    struct measure_result results[FINALISTS + 1] = {{0}};
    for (int f = 1; f < finalists; f++) {
        for (int g = f; g > 0 && is_before(run, chosen[g], chosen[g - 1]); g--) {
            int moved = chosen[g];
            chosen[g] = chosen[g - 1];
            chosen[g - 1] = moved;
        }
    }
    double best = INFINITY;
    for (int f = 0; f < finalists; f++) {
        results[f].microseconds = space->entries[chosen[f]].truth;
        best = fmin(best, results[f].microseconds);
    }
    run->result->found = best / space->best - 1.0;
    int winner = measure_choose(results, finalists, finalists > 0 && chosen[0] == run->start ? 0 : -1, tie_band);
    run->result->choice = winner >= 0 ? chosen[winner] : -1;
    run->result->regret = winner >= 0 ? space->entries[chosen[winner]].truth / space->best - 1.0 : INFINITY;
}

int replay_start(const struct replay_space *space, uint64_t seed)
{
    for (;;) {
        seed = hash_mix(seed + 1);
        int index = (int)(seed % (uint64_t)space->list.count);
        if (space->entries[index].binary == index && space->entries[index].first > 0.0) {
            return index;
        }
    }
}

attune_status replay_run(struct replay_space *space, struct generator *generator, const struct search_options *options,
                         int start, struct replay_result *result, struct error *error)
{
    struct search_options own = *options;
    struct runner run = {.space = space, .generator = generator, .start = start, .result = result};
    struct candidate_list list = space->list;
    struct screen_unit unit;
    int under_way[REPLAY_AHEAD], waiting = 0;
    if (screen_unit_of(generator, &space->device.target, &unit, NULL) != ATTUNE_OK) {
        memset(&unit, 0, sizeof unit);
    }
    own.list = &list;
    own.covered = 1;
    own.problem = &space->problem;
    own.device = &space->device;
    own.unit = &unit;
    *result = (struct replay_result){.choice = -1};
    run.seen = calloc((size_t)list.count, sizeof *run.seen);
    list.items = malloc((size_t)list.count * sizeof *list.items);
    attune_status status = run.seen == NULL || list.items == NULL ? error_no_memory(error) : ATTUNE_OK;
    if (status == ATTUNE_OK) {
        memcpy(list.items, space->list.items, (size_t)list.count * sizeof *list.items);
        list.items[0] = space->list.items[start];
        list.items[start] = space->list.items[0];
        status = search_create(&own, &run.search, error);
    }
    while (status == ATTUNE_OK) {
        double before = clock_seconds();
        int index = waiting < REPLAY_AHEAD ? search_next(run.search) : -1;
        result->seconds += clock_seconds() - before;
        if (index >= 0) {
            under_way[waiting++] = index;
            result->compiles++;
        } else if (waiting > 0) {
            index = under_way[0];
            memmove(under_way, under_way + 1, (size_t)--waiting * sizeof under_way[0]);
            status = arrive(&run, index, error);
        } else {
            break;
        }
    }
    if (status == ATTUNE_OK) {
        hold_finals(&run);
    }
    search_destroy(run.search);
    expansion_free(&run.expansion);
    free(list.items);
    free(run.seen);
    return status;
}
