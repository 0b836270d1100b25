/* journal_line.c - the fields of each kind of line, once for both directions. A reader takes a line only when every
 * field but those that older writers lack is there and within its range; fields that it does not know are passed over.
 */
#include "autotune/journal_line.h"

#include "base/control.h"
#include "base/digest.h"
#include "base/locale.h"
#include "base/text_json.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum value_kind {
    VALUE_HEX,    /* char[], lower-case hex; empty only where optional: the line has no such field then */
    VALUE_WORD,   /* char[], lower-case letters and '-'; empty only where optional, as above */
    VALUE_TEXT,   /* char[], one line without control characters; where it is optional and empty, as above */
    VALUE_PROSE,  /* char[], anything but a NUL */
    VALUE_STAGE,  /* enum journal_stage */
    VALUE_COUNT,  /* int, 0 and above */
    VALUE_SHARE,  /* int, above 0; the line has no such field where it is 0 */
    VALUE_AMOUNT, /* int, -1: unknown */
    VALUE_TIME,   /* int64_t, 0 and above */
    VALUE_BITS,   /* uint64_t, as the integer of the same bits */
    VALUE_REAL,   /* double, 0 to real_max */
    VALUE_TIMED,  /* double, microseconds: time_min to real_max, or 0: not timed */
    VALUE_FLAG    /* bool */
};

struct line_field {
    const char *name;
    enum value_kind kind;
    size_t offset, bytes;
    bool optional;
};

static const double real_max = 1e15; /* thirty years in microseconds */
static const double time_min = 1e-3; /* a few clocks: no kernel is launched in it */
static const char *const stages[] = {[JOURNAL_FIRST] = "first", [JOURNAL_FINAL] = "final"};

#define ROW(type, member, name, kind, optional)                                                                        \
    {                                                                                                                  \
        name, kind, offsetof(struct type, member), sizeof(((struct type *)0)->member), optional                        \
    }

static const struct line_field begin_fields[] = {
    ROW(journal_begin, run, "run", VALUE_HEX, false),
    ROW(journal_begin, problem, "problem", VALUE_TEXT, false),
    ROW(journal_begin, device, "device", VALUE_TEXT, false),
    ROW(journal_begin, target, "target", VALUE_TEXT, false),
    ROW(journal_begin, driver, "driver", VALUE_TEXT, false),
    ROW(journal_begin, candidates, "candidates", VALUE_COUNT, false),
    ROW(journal_begin, seed, "seed", VALUE_BITS, false),
    ROW(journal_begin, started, "started", VALUE_TIME, true),
    ROW(journal_begin, rank, "rank", VALUE_TEXT, true),
    ROW(journal_begin, fingerprint, "fingerprint", VALUE_TEXT, true),
    ROW(journal_begin, name, "name", VALUE_TEXT, true),
    ROW(journal_begin, strategy, "strategy", VALUE_WORD, true),
    ROW(journal_begin, space, "space", VALUE_SHARE, true),
    {0},
};
static const struct line_field constraint_fields[] = {
    ROW(journal_constraint, reason, "reason", VALUE_PROSE, false),
    ROW(journal_constraint, count, "count", VALUE_COUNT, false),
    ROW(journal_constraint, example, "example", VALUE_TEXT, false),
    ROW(journal_constraint, because, "because", VALUE_PROSE, false),
    {0},
};
static const struct line_field resume_fields[] = {
    ROW(journal_resume, started, "started", VALUE_TIME, false),
    ROW(journal_resume, driver, "driver", VALUE_TEXT, false),
    ROW(journal_resume, held, "held", VALUE_COUNT, false),
    ROW(journal_resume, invalid, "invalid", VALUE_COUNT, false),
    {0},
};
static const struct line_field outcome_fields[] = {
    ROW(journal_outcome, stage, "stage", VALUE_STAGE, false),
    ROW(journal_outcome, what.id, "id", VALUE_HEX, false),
    ROW(journal_outcome, what.candidate, "candidate", VALUE_TEXT, false),
    ROW(journal_outcome, what.outcome, "outcome", VALUE_WORD, false),
    ROW(journal_outcome, what.reason, "reason", VALUE_PROSE, false),
    ROW(journal_outcome, what.microseconds, "microseconds", VALUE_TIMED, false),
    ROW(journal_outcome, what.spread, "spread", VALUE_REAL, false),
    ROW(journal_outcome, what.registers, "registers", VALUE_AMOUNT, false),
    ROW(journal_outcome, what.scratch_bytes, "scratch_bytes", VALUE_AMOUNT, false),
    ROW(journal_outcome, what.shared_bytes, "shared_bytes", VALUE_AMOUNT, false),
    ROW(journal_outcome, what.companions, "companions", VALUE_FLAG, true),
    ROW(journal_outcome, what.fixed, "fixed", VALUE_FLAG, true),
    ROW(journal_outcome, what.object, "object", VALUE_HEX, true),
    ROW(journal_outcome, what.binary, "binary", VALUE_HEX, true),
    {0},
};
static const struct line_field end_fields[] = {
    ROW(journal_end, winner, "winner", VALUE_TEXT, false),
    ROW(journal_end, complete, "complete", VALUE_FLAG, false),
    ROW(journal_end, seconds, "seconds", VALUE_REAL, false),
    ROW(journal_end, winner_microseconds, "winner_microseconds", VALUE_TIMED, false),
    ROW(journal_end, default_microseconds, "default_microseconds", VALUE_TIMED, false),
    ROW(journal_end, tried, "tried", VALUE_COUNT, false),
    ROW(journal_end, verified, "verified", VALUE_COUNT, false),
    ROW(journal_end, rejected, "rejected", VALUE_COUNT, false),
    ROW(journal_end, strategy, "strategy", VALUE_WORD, true),
    ROW(journal_end, looks, "looks", VALUE_COUNT, true),
    ROW(journal_end, drift, "drift", VALUE_REAL, true),
    {0},
};
static const struct {
    const char *name;
    const struct line_field *fields;
} kinds[JOURNAL_KINDS] = {
    [JOURNAL_BEGIN] = {"begin", begin_fields},    [JOURNAL_CONSTRAINT] = {"constraint", constraint_fields},
    [JOURNAL_RESUME] = {"resume", resume_fields}, [JOURNAL_OUTCOME] = {"outcome", outcome_fields},
    [JOURNAL_END] = {"end", end_fields},
};

/* ------------------------------------------------------------------------------------------------ writing */

static json_t *text_value(const struct line_field *field, const char *text)
{
    json_t *value = text_to_json(text);
    if (value == NULL || field->kind == VALUE_PROSE) {
        return value;
    }
    char *plain = strdup(json_string_value(value)); /* UTF-8 by now */
    for (char *at = plain; at != NULL && *at != '\0'; at++) {
        memset(at, '?', control_length(at));
    }
    json_decref(value);
    value = plain != NULL ? json_string(plain) : NULL;
    free(plain);
    return value;
}

static json_t *field_value(const struct line_field *field, const void *at)
{
    switch (field->kind) {
    case VALUE_HEX:
    case VALUE_WORD:
    case VALUE_TEXT:
    case VALUE_PROSE:
        return text_value(field, at);
    case VALUE_STAGE:
        return json_string(stages[*(const enum journal_stage *)at]);
    case VALUE_COUNT:
    case VALUE_SHARE:
    case VALUE_AMOUNT: {
        int least = field->kind == VALUE_AMOUNT ? -1 : 0, whole = *(const int *)at;
        return json_integer(whole > least ? whole : least);
    }
    case VALUE_TIME:
        return json_integer(*(const int64_t *)at);
    case VALUE_BITS:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case VALUE_REAL:
    case VALUE_TIMED: {
        double real = *(const double *)at, least = field->kind == VALUE_TIMED ? time_min : 0.0;
        return json_real(isfinite(real) && real >= least ? fmin(real, real_max) : 0.0);
    }
    case VALUE_FLAG:
        return json_boolean(*(const bool *)at);
    }
    return NULL;
}

/* an optional field that says nothing */
static bool is_left_out(const struct line_field *field, const char *at)
{
    bool word = field->kind == VALUE_HEX || field->kind == VALUE_WORD || field->kind == VALUE_TEXT;
    return word ? *at == '\0' : field->kind == VALUE_SHARE && *(const int *)(const void *)at <= 0;
}

bool journal_line_format(enum journal_kind kind, const void *values, struct buffer *text)
{
    locale_t previous = locale_enter();
    json_t *root = json_object();
    bool good = json_object_set_new(root, "kind", json_string(kinds[kind].name)) == 0;
    for (const struct line_field *field = kinds[kind].fields; field->name != NULL; field++) {
        const char *at = (const char *)values + field->offset;
        if (!field->optional || !is_left_out(field, at)) {
            good &= json_object_set_new(root, field->name, field_value(field, at)) == 0;
        }
    }
    char *line = good ? json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
    locale_leave(previous);
    if (line != NULL) {
        buffer_text(text, line);
        buffer_text(text, "\n");
    }
    good = line != NULL && !text->failed;
    free(line);
    json_decref(root);
    return good;
}

/* ------------------------------------------------------------------------------------------------ reading */

static bool read_text(const json_t *value, const struct line_field *field, char *into)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    if (text == NULL || length >= field->bytes || strlen(text) != length) {
        return false;
    }
    const char *only = field->kind == VALUE_HEX    ? "0123456789abcdef"
                       : field->kind == VALUE_WORD ? "abcdefghijklmnopqrstuvwxyz-"
                                                   : NULL;
    if (only != NULL && (length == 0 || strspn(text, only) != length)) {
        return false;
    }
    for (size_t i = 0; i < length && field->kind == VALUE_TEXT; i++) {
        if (control_length(text + i) > 0) {
            return false;
        }
    }
    memcpy(into, text, length + 1);
    return true;
}

static bool read_whole(const json_t *value, int64_t least, int64_t most, int64_t *whole)
{
    *whole = json_integer_value(value);
    return json_is_integer(value) && *whole >= least && *whole <= most;
}

static bool read_stage(const json_t *value, enum journal_stage *stage)
{
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        if (json_is_string(value) && strcmp(json_string_value(value), stages[i]) == 0) {
            *stage = (enum journal_stage)i;
            return true;
        }
    }
    return false;
}

static bool read_field(const json_t *value, const struct line_field *field, void *into)
{
    int64_t whole;
    double real = json_number_value(value);
    switch (field->kind) {
    case VALUE_HEX:
    case VALUE_WORD:
    case VALUE_TEXT:
    case VALUE_PROSE:
        return read_text(value, field, into);
    case VALUE_STAGE:
        return read_stage(value, into);
    case VALUE_COUNT:
    case VALUE_SHARE:
    case VALUE_AMOUNT:
        if (!read_whole(value, field->kind == VALUE_AMOUNT ? -1 : field->kind == VALUE_SHARE, INT32_MAX, &whole)) {
            return false;
        }
        *(int *)into = (int)whole;
        return true;
    case VALUE_TIME:
        return read_whole(value, 0, INT64_MAX, into);
    case VALUE_BITS:
        *(uint64_t *)into = (uint64_t)json_integer_value(value);
        return json_is_integer(value);
    case VALUE_REAL:
    case VALUE_TIMED:
        *(double *)into = real;
        return json_is_number(value) && real >= 0.0 && real <= real_max &&
               (field->kind == VALUE_REAL || real == 0.0 || real >= time_min);
    case VALUE_FLAG:
        *(bool *)into = json_is_true(value);
        return json_is_boolean(value);
    }
    return false;
}

/* a name that was damaged on the way does not get the outcome of another */
static bool id_fits(const struct tune_outcome *outcome)
{
    char id[CANDIDATE_ID_BYTES];
    digest_short(outcome->candidate, id);
    return strcmp(outcome->id, id) == 0;
}

bool journal_line_parse(const char *text, size_t length, enum journal_kind *kind, union journal_line *line)
{
    if (length > JOURNAL_LINE_BYTES_MAX) {
        return false;
    }
    locale_t previous = locale_enter();
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    locale_leave(previous);
    const char *named = json_string_value(json_object_get(root, "kind"));
    bool good = false;
    for (int i = 0; i < JOURNAL_KINDS && named != NULL; i++) {
        if (strcmp(kinds[i].name, named) == 0) {
            *kind = (enum journal_kind)i;
            good = true;
        }
    }
    memset(line, 0, sizeof *line);
    for (const struct line_field *field = good ? kinds[*kind].fields : NULL; good && field->name != NULL; field++) {
        const json_t *value = json_object_get(root, field->name);
        good = value == NULL ? field->optional : read_field(value, field, (char *)line + field->offset);
    }
    json_decref(root);
    return good && (*kind != JOURNAL_OUTCOME || id_fits(&line->outcome.what));
}
