/* standings.c - a run's outcomes in order: the fastest, and the others by what kept them out. */
#include "autotune/history.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN_BYTES = 512 };

static const struct {
    const char *outcome, *meaning;
    bool stands, looked;
} outcomes[] = {
    {"timed", "right, and in the finals", true, true},
    {"slower", "right or left unchecked, but not among the fastest", true, true},
    {"right", "right; nothing is timed on this device", true, true},
    {"same", "its binary is that of a candidate looked at before", true, false},
    {"wrong", "gave wrong results", false, true},
    {"compile-error", "was not compiled", false, false},
    {"not-compiled", "its compiler was ended from outside, or had no room", false, false},
    {"resources", "does not fit the device, or spills registers", false, false},
    {"constraint", "ruled out before compiling, by a constraint of its template", false, false},
    {"screened", "the search's model expects nothing of it", false, false},
    {"launch-failed", "could not be launched", false, true},
    {"hung", "did not end in time", false, true},
    {"crashed", "took its process or the device's context with it", false, true},
    {"blocked", "was wrong, hung, crashed or never finished compiling in an earlier run", false, false},
    {"not-tried", "the run ended before, or the search did without it", false, false},
};

/* the place of an outcome's name in the table; -1: this version does not know it */
static int place_of(const char *name)
{
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        if (strcmp(outcomes[i].outcome, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

bool outcome_stands(const struct tune_outcome *outcome)
{
    int place = place_of(outcome->outcome);
    return place >= 0 && outcomes[place].stands &&
           (strcmp(outcome->outcome, "same") != 0 || outcome->microseconds > 0.0);
}

bool outcome_was_looked_at(const struct tune_outcome *outcome)
{
    int place = place_of(outcome->outcome);
    return place >= 0 && outcomes[place].looked;
}

const char *outcome_meaning(const char *outcome)
{
    int place = place_of(outcome);
    return place >= 0 ? outcomes[place].meaning : "";
}

/* Where nothing is timed: the same binary as one that is right. */
static bool has_right_twin(const struct journal_reading *reading, const struct tune_outcome *what)
{
    for (int i = 0; i < reading->outcome_count && strcmp(what->outcome, "same") == 0; i++) {
        const struct tune_outcome *twin = &reading->outcomes[i].what;
        if (strcmp(twin->outcome, "right") == 0 && what->binary[0] != '\0' && strcmp(twin->binary, what->binary) == 0) {
            return true;
        }
    }
    return false;
}

/* the text with every number as '#', so that "row 7" and "row 19" are one reason */
static void pattern_of(const char *text, char pattern[PATTERN_BYTES])
{
    size_t length = 0;
    while (*text != '\0' && length + 1 < PATTERN_BYTES) {
        if (isdigit((unsigned char)*text)) {
            while (isalnum((unsigned char)*text) || *text == '.' ||
                   ((*text == '-' || *text == '+') && (text[-1] == 'e' || text[-1] == 'E'))) {
                text++;
            }
            pattern[length++] = '#';
        } else {
            pattern[length++] = *text++;
        }
    }
    pattern[length] = '\0';
}

/* one outcome on its way to a place */
struct filed {
    const struct tune_outcome *what;
    char pattern[PATTERN_BYTES];
};

static int by_kind(const void *a, const void *b)
{
    const struct filed *left = *(const struct filed *const *)a, *right = *(const struct filed *const *)b;
    int order = strcmp(left->what->outcome, right->what->outcome);
    order = order != 0 ? order : strcmp(left->pattern, right->pattern);
    return order != 0 ? order : (left > right) - (left < right); /* the journal's order */
}

static int more_reasons_first(const void *a, const void *b)
{
    const struct history_reason *left = a, *right = b;
    if (left->count != right->count) {
        return left->count > right->count ? -1 : 1;
    }
    return (left->example > right->example) - (left->example < right->example);
}

static int more_kinds_first(const void *a, const void *b)
{
    const struct history_kind *left = a, *right = b;
    return left->count != right->count ? (left->count > right->count ? -1 : 1) : strcmp(left->outcome, right->outcome);
}

static int faster_first(const void *a, const void *b)
{
    const struct tune_outcome *left = *(const struct tune_outcome *const *)a;
    const struct tune_outcome *right = *(const struct tune_outcome *const *)b;
    bool left_timed = left->microseconds > 0.0, right_timed = right->microseconds > 0.0;
    int order = left_timed != right_timed ? (left_timed ? -1 : 1) : 0;
    if (order == 0 && left->microseconds != right->microseconds) {
        order = left->microseconds < right->microseconds ? -1 : 1;
    }
    return order != 0 ? order : (left > right) - (left < right);
}

/* what a filed outcome brings to the last kind, or to a new one; both arrays have room for all */
static void file_one(struct standings *standings, const struct filed *before, const struct filed *now)
{
    bool same_kind = before != NULL && strcmp(before->what->outcome, now->what->outcome) == 0;
    bool same_reason = same_kind && strcmp(before->pattern, now->pattern) == 0;
    if (!same_kind) {
        struct history_reason *reasons = standings->out_count == 0
                                             ? standings->out[0].reasons
                                             : standings->out[standings->out_count - 1].reasons +
                                                   standings->out[standings->out_count - 1].reason_count;
        standings->out[standings->out_count++] =
            (struct history_kind){.outcome = now->what->outcome, .reasons = reasons};
    }
    struct history_kind *kind = &standings->out[standings->out_count - 1];
    if (!same_reason) {
        kind->reasons[kind->reason_count++] = (struct history_reason){.example = now->what};
    }
    kind->count++;
    kind->reasons[kind->reason_count - 1].count++;
}

static void file_all(struct standings *standings, struct filed **sorted, int count)
{
    qsort(sorted, (size_t)count, sizeof *sorted, by_kind);
    for (int i = 0; i < count; i++) {
        file_one(standings, i > 0 ? sorted[i - 1] : NULL, sorted[i]);
    }
    for (int i = 0; i < standings->out_count; i++) {
        struct history_kind *kind = &standings->out[i];
        qsort(kind->reasons, (size_t)kind->reason_count, sizeof *kind->reasons, more_reasons_first);
    }
    qsort(standings->out, (size_t)standings->out_count, sizeof *standings->out, more_kinds_first);
}

attune_status standings_make(const struct journal_reading *reading, struct standings *standings, struct error *error)
{
    size_t room = (size_t)reading->outcome_count + 1;
    *standings = (struct standings){.fastest = calloc(room, sizeof *standings->fastest),
                                    .out = calloc(room, sizeof *standings->out),
                                    .reasons = calloc(room, sizeof *standings->reasons)};
    struct filed *filed = malloc(room * sizeof *filed);
    struct filed **sorted = malloc(room * sizeof(struct filed *));
    attune_status status = ATTUNE_OK;
    int others = 0;
    if (standings->fastest == NULL || standings->out == NULL || standings->reasons == NULL || filed == NULL ||
        sorted == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct tune_outcome *what = &reading->outcomes[i].what;
        if (!reading->outcomes[i].counts) {
            continue;
        }
        standings->tried += strcmp(what->outcome, "not-tried") != 0;
        standings->looks += outcome_was_looked_at(what);
        if (outcome_stands(what) || has_right_twin(reading, what)) {
            standings->fastest[standings->fastest_count++] = what;
            standings->timed += what->microseconds > 0.0;
        } else {
            filed[others].what = what;
            pattern_of(what->reason, filed[others].pattern);
            sorted[others] = &filed[others];
            others++;
        }
    }
    qsort(standings->fastest, (size_t)standings->fastest_count, sizeof *standings->fastest, faster_first);
    standings->out[0].reasons = standings->reasons;
    file_all(standings, sorted, others);
out:
    free(filed);
    free(sorted);
    if (status != ATTUNE_OK) {
        standings_free(standings);
    }
    return status;
}

void standings_free(struct standings *standings)
{
    free(standings->fastest);
    free(standings->out);
    free(standings->reasons);
    *standings = (struct standings){0};
}

const struct tune_outcome *standings_find(const struct journal_reading *reading, const char *candidate)
{
    const struct tune_outcome *found = NULL;
    size_t length = strlen(candidate);
    bool digits = length > 0 && length < CANDIDATE_ID_BYTES && strspn(candidate, "0123456789abcdef") == length;
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct tune_outcome *what = &reading->outcomes[i].what;
        if (reading->outcomes[i].counts &&
            (strcmp(what->candidate, candidate) == 0 || (digits && strncmp(what->id, candidate, length) == 0))) {
            if (found != NULL) {
                return NULL;
            }
            found = what;
        }
    }
    return found;
}
