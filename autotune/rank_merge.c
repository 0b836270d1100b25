/* rank_merge.c - see rank_merge.h */
#include "autotune/rank_merge.h"

#include "autotune/history.h"
#include "autotune/measure.h"
#include "autotune/ties.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double tie_band = 0.01;

/* an outcome in one journal */
struct entry {
    const struct tune_outcome *what;
    int journal;
    int place;     /* in the order; after all of it for candidates that it lacks */
    bool default_; /* the order's first */
    bool looked;   /* in some journal */
    double ratio;  /* 0: has no time that counts */
};

static bool is(const struct tune_outcome *outcome, const char *name)
{
    return strcmp(outcome->outcome, name) == 0;
}

/* verified, as opposed to left after one slow launch */
static bool is_right(const struct tune_outcome *outcome)
{
    return is(outcome, "right") || is(outcome, "timed") || (is(outcome, "slower") && outcome->microseconds > 0.0);
}

/* What one rank of the same kind of device found wrong is served by none: not even where another found it right. That
 * something was not compiled or looked at says nothing of it. */
static int grade(const struct tune_outcome *outcome)
{
    static const char *const nothing[] = {"slower", "compile-error", "not-compiled", "screened", "same"};
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        if (is(outcome, nothing[i]) && !is_right(outcome)) {
            return 2;
        }
    }
    return is_right(outcome) ? 1 : 0;
}

static int place_of(const struct rank_order *order, const char *id)
{
    for (int i = 0; i < order->count; i++) {
        if (strcmp(order->ids[i], id) == 0) {
            return i;
        }
    }
    return order->count;
}

/* the plan's order, then by id; of one candidate first what rules it out, then where it was right, then by journal */
static int by_place(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->place != y->place) {
        return x->place < y->place ? -1 : 1;
    }
    int names = strcmp(x->what->id, y->what->id);
    if (names != 0) {
        return names;
    }
    if (grade(x->what) != grade(y->what)) {
        return grade(x->what) - grade(y->what);
    }
    return (x->journal > y->journal) - (x->journal < y->journal);
}

static bool has_finals(const struct journal_reading *reading)
{
    for (int i = 0; i < reading->outcome_count; i++) {
        if (reading->outcomes[i].stage == JOURNAL_FINAL && is(&reading->outcomes[i].what, "timed")) {
            return true;
        }
    }
    return false;
}

/* the time of an outcome that may win; 0 for none */
static double time_that_counts(const struct journal_outcome *outcome, bool finals)
{
    const bool at_stage = !finals || (outcome->stage == JOURNAL_FINAL && is(&outcome->what, "timed"));
    return at_stage && is_right(&outcome->what) ? outcome->what.microseconds : 0.0;
}

/* the default's time in each journal, 0 where it has none */
static void find_yardsticks(const struct journal_reading *readings, int count, const struct rank_order *order,
                            double *yardsticks)
{
    for (int j = 0; j < count; j++) {
        bool finals = has_finals(&readings[j]);
        yardsticks[j] = 0.0;
        for (int i = 0; i < readings[j].outcome_count && order->count > 0; i++) {
            const struct journal_outcome *outcome = &readings[j].outcomes[i];
            if (outcome->counts && strcmp(outcome->what.id, order->ids[0]) == 0) {
                yardsticks[j] = time_that_counts(outcome, finals);
            }
        }
    }
}

/* what stands in for a default without a time */
static double common_yardstick(const double *yardsticks, int count, double *scratch)
{
    int known = 0;
    for (int j = 0; j < count; j++) {
        if (yardsticks[j] > 0.0) {
            scratch[known++] = yardsticks[j];
        }
    }
    return known > 0 ? median_of(scratch, known) : 1.0;
}

static int collect(const struct journal_reading *readings, int count, const struct rank_order *order,
                   const double *yardsticks, double common, struct entry *entries)
{
    int n = 0;
    for (int j = 0; j < count; j++) {
        bool finals = has_finals(&readings[j]);
        for (int i = 0; i < readings[j].outcome_count; i++) {
            const struct journal_outcome *outcome = &readings[j].outcomes[i];
            if (!outcome->counts || is(&outcome->what, "not-tried")) {
                continue;
            }
            double yardstick = yardsticks[j] > 0.0 ? yardsticks[j] : common;
            struct entry *entry = &entries[n++];
            *entry = (struct entry){.what = &outcome->what, .journal = j, .place = place_of(order, outcome->what.id)};
            entry->default_ = entry->place == 0 && order->count > 0;
            entry->looked = outcome_was_looked_at(&outcome->what);
            entry->ratio = time_that_counts(outcome, finals) / yardstick;
        }
    }
    qsort(entries, (size_t)n, sizeof *entries, by_place);
    return n;
}

/* one entry a candidate: the first of each, or the fastest where all are right */
static int unite(struct entry *entries, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        struct entry *last = kept > 0 ? &entries[kept - 1] : NULL;
        if (last == NULL || strcmp(last->what->id, entries[i].what->id) != 0) {
            entries[kept++] = entries[i];
            continue;
        }
        bool looked = last->looked || entries[i].looked;
        if (grade(last->what) != 0 && entries[i].ratio > 0.0 &&
            (last->ratio == 0.0 || entries[i].ratio < last->ratio)) {
            *last = entries[i];
        }
        last->looked = looked;
    }
    return kept;
}

static void count_up(const struct entry *entries, int count, struct rank_choice *choice)
{
    for (int i = 0; i < count; i++) {
        bool right = is_right(entries[i].what);
        choice->outcomes[i] = *entries[i].what;
        choice->looks += entries[i].looked;
        choice->verified += right;
        choice->rejected += !right && !is(entries[i].what, "same");
        choice->timed += right && entries[i].what->microseconds > 0.0;
    }
    choice->outcome_count = choice->tried = count;
}

static int by_tie(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    const struct tie left = {.standard = x->default_, .fixed = x->what->fixed, .name = x->what->candidate};
    const struct tie right = {.standard = y->default_, .fixed = y->what->fixed, .name = y->what->candidate};
    return tie_compare(&left, &right);
}

/* an index into the entries, which are in the order of ties afterwards */
static int fastest(struct entry *entries, int count, struct measure_result *results)
{
    int standard = -1;
    qsort(entries, (size_t)count, sizeof *entries, by_tie);
    for (int i = 0; i < count; i++) {
        results[i] = (struct measure_result){.microseconds = entries[i].ratio, .samples = 1};
        standard = entries[i].default_ ? i : standard;
    }
    return measure_choose(results, count, standard, tie_band);
}

static int first_right(const struct entry *entries, int count)
{
    for (int i = 0; i < count; i++) {
        if (is_right(entries[i].what)) {
            return i;
        }
    }
    return -1;
}

attune_status rank_choose(const struct journal_reading *readings, int count, const struct rank_order *order, bool timed,
                          struct rank_choice *choice, struct error *error)
{
    size_t lines = 1;
    for (int j = 0; j < count; j++) {
        lines += (size_t)readings[j].outcome_count;
    }
    memset(choice, 0, sizeof *choice);
    struct entry *entries = calloc(lines, sizeof *entries);
    struct measure_result *results = calloc(lines, sizeof *results);
    double *yardsticks = calloc(2 * (size_t)count + 1, sizeof *yardsticks);
    choice->outcomes = calloc(lines, sizeof *choice->outcomes);
    attune_status status = ATTUNE_OK;
    if (entries == NULL || results == NULL || yardsticks == NULL || choice->outcomes == NULL) {
        free(choice->outcomes);
        choice->outcomes = NULL;
        status = error_no_memory(error);
        goto out;
    }
    find_yardsticks(readings, count, order, yardsticks);
    double common = common_yardstick(yardsticks, count, yardsticks + count);
    int n = unite(entries, collect(readings, count, order, yardsticks, common, entries));
    count_up(entries, n, choice);
    int winner = timed ? fastest(entries, n, results) : first_right(entries, n);
    if (winner >= 0) {
        const struct entry *best = &entries[winner];
        choice->found = 1;
        snprintf(choice->candidate, sizeof choice->candidate, "%s", best->what->candidate);
        snprintf(choice->id, sizeof choice->id, "%s", best->what->id);
        snprintf(choice->object, sizeof choice->object, "%s", best->what->object);
        if (timed) {
            choice->microseconds = best->what->microseconds;
            choice->default_microseconds = yardsticks[best->journal];
            choice->ratio = best->ratio;
        }
    }
out:
    free(entries);
    free(results);
    free(yardsticks);
    return status;
}
