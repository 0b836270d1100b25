/* journal_read.c - a journal's bytes, split into lines and put in order. */
#include "autotune/journal_line.h"

#include <stdlib.h>
#include <string.h>

struct lines {
    struct journal_reading *reading;
    int count; /* whole lines so far */
    int outcome_capacity, constraint_capacity, resume_capacity;
    enum journal_kind last; /* of the last good line */
    bool foreign;           /* a second begin line was there */
};

/* the array with room for one more of `bytes` each; NULL without memory, and the array is as it was */
static void *grow(void *items, int count, int *capacity, size_t bytes)
{
    if (count < *capacity) {
        return items;
    }
    int wanted = *capacity > 0 ? 2 * *capacity : 16;
    void *grown = realloc(items, (size_t)wanted * bytes);
    *capacity = grown != NULL ? wanted : *capacity;
    return grown;
}

static bool add_outcome(struct lines *lines, const struct journal_outcome *outcome)
{
    struct journal_reading *reading = lines->reading;
    struct journal_outcome *items =
        grow(reading->outcomes, reading->outcome_count, &lines->outcome_capacity, sizeof *items);
    if (items == NULL) {
        return false;
    }
    reading->outcomes = items;
    items[reading->outcome_count++] = *outcome;
    return true;
}

static bool add_constraint(struct lines *lines, const struct journal_constraint *constraint)
{
    struct journal_reading *reading = lines->reading;
    struct journal_constraint *items =
        grow(reading->constraints, reading->constraint_count, &lines->constraint_capacity, sizeof *items);
    if (items == NULL) {
        return false;
    }
    reading->constraints = items;
    items[reading->constraint_count++] = *constraint;
    return true;
}

static bool add_resume(struct lines *lines, const struct journal_resume *resume)
{
    struct journal_reading *reading = lines->reading;
    struct journal_resume *items =
        grow(reading->resumes, reading->resume_count, &lines->resume_capacity, sizeof *items);
    if (items == NULL) {
        return false;
    }
    reading->resumes = items;
    items[reading->resume_count++] = *resume;
    return true;
}

/* false without memory */
static bool take_line(struct lines *lines, const char *text, size_t length)
{
    struct journal_reading *reading = lines->reading;
    enum journal_kind kind;
    union journal_line line;
    bool good = journal_line_parse(text, length, &kind, &line), first = lines->count++ == 0;
    lines->foreign |= good && kind == JOURNAL_BEGIN && !first;
    if (!good || lines->foreign) {
        reading->damaged++;
        return true;
    }
    enum journal_kind before = lines->last;
    lines->last = kind;
    switch (kind) {
    case JOURNAL_BEGIN:
        reading->begin = line.begin;
        reading->has_begin = true;
        return true;
    case JOURNAL_CONSTRAINT:
        if (before != JOURNAL_CONSTRAINT) { /* another block */
            reading->constraint_count = 0;
        }
        return add_constraint(lines, &line.constraint);
    case JOURNAL_RESUME:
        reading->has_end = false;
        return add_resume(lines, &line.resume);
    case JOURNAL_OUTCOME:
        reading->has_end = false;
        return add_outcome(lines, &line.outcome);
    case JOURNAL_END:
        reading->end = line.end;
        reading->has_end = true;
        return true;
    case JOURNAL_KINDS:
        break;
    }
    return true;
}

/* by candidate, then stage; of the same the later one first */
static int by_candidate(const void *a, const void *b)
{
    const struct journal_outcome *left = *(const struct journal_outcome *const *)a;
    const struct journal_outcome *right = *(const struct journal_outcome *const *)b;
    int order = strcmp(left->what.candidate, right->what.candidate);
    if (order == 0) {
        order = (left->stage > right->stage) - (left->stage < right->stage);
    }
    return order != 0 ? order : (left < right) - (left > right);
}

/* leaves one outcome a candidate and stage, the last; false without memory */
static bool settle(struct journal_reading *reading)
{
    int count = reading->outcome_count;
    struct journal_outcome **sorted = malloc((size_t)count * sizeof(struct journal_outcome *) + 1);
    if (sorted == NULL) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        sorted[i] = &reading->outcomes[i];
        sorted[i]->counts = true;
    }
    qsort(sorted, (size_t)count, sizeof(struct journal_outcome *), by_candidate);
    for (int i = 1; i < count; i++) {
        struct journal_outcome *before = sorted[i - 1], *now = sorted[i];
        if (strcmp(before->what.candidate, now->what.candidate) != 0) {
            continue;
        }
        if (before->stage == now->stage) { /* the later one stands first: the empty outcome marks what goes */
            now->what.outcome[0] = '\0';
            sorted[i] = before;
        } else { /* a run that goes on looks again at who is not what was in the finals any more */
            (before < now ? before : now)->counts = false;
        }
    }
    free(sorted);
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (reading->outcomes[i].what.outcome[0] != '\0') {
            if (kept != i) {
                reading->outcomes[kept] = reading->outcomes[i];
            }
            kept++;
        }
    }
    reading->outcome_count = kept;
    reading->repeated = count - kept;
    return true;
}

attune_status journal_read(const char *bytes, size_t length, struct journal_reading *reading, struct error *error)
{
    struct lines lines = {.reading = reading};
    *reading = (struct journal_reading){0};
    if (length > STORE_JOURNAL_BYTES_MAX) {
        return error_set(error, ATTUNE_CORRUPT, "%zu bytes are no journal: the limit is %d", length,
                         STORE_JOURNAL_BYTES_MAX);
    }
    while (length > 0) {
        const char *newline = memchr(bytes, '\n', length);
        size_t line = newline != NULL ? (size_t)(newline - bytes) : length;
        if (newline == NULL) {
            reading->torn = true;
            break;
        }
        if (lines.count == JOURNAL_LINES_MAX) {
            journal_reading_free(reading);
            return error_set(error, ATTUNE_CORRUPT, "more than %d lines are no journal", JOURNAL_LINES_MAX);
        }
        if (!take_line(&lines, bytes, line)) {
            journal_reading_free(reading);
            return error_no_memory(error);
        }
        bytes += line + 1;
        length -= line + 1;
    }
    if (!settle(reading)) {
        journal_reading_free(reading);
        return error_no_memory(error);
    }
    return ATTUNE_OK;
}

void journal_reading_free(struct journal_reading *reading)
{
    free(reading->outcomes);
    free(reading->constraints);
    free(reading->resumes);
    reading->outcomes = NULL;
    reading->constraints = NULL;
    reading->resumes = NULL;
    reading->outcome_count = reading->constraint_count = reading->resume_count = 0;
}

attune_status journal_format(const struct journal_reading *reading, struct buffer *text, struct error *error)
{
    bool good = !reading->has_begin || journal_line_format(JOURNAL_BEGIN, &reading->begin, text);
    for (int i = 0; i < reading->constraint_count && good; i++) {
        good = journal_line_format(JOURNAL_CONSTRAINT, &reading->constraints[i], text);
    }
    for (int i = 0; i < reading->resume_count && good; i++) {
        good = journal_line_format(JOURNAL_RESUME, &reading->resumes[i], text);
    }
    for (int i = 0; i < reading->outcome_count && good; i++) {
        good = journal_line_format(JOURNAL_OUTCOME, &reading->outcomes[i], text);
    }
    good = good && (!reading->has_end || journal_line_format(JOURNAL_END, &reading->end, text));
    return good ? ATTUNE_OK : error_no_memory(error);
}
