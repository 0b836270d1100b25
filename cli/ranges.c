/* ranges.c - see ranges.h.
 *
 * Words are separated by blanks. Every value of a field with several is written out once, NUL behind NUL; what is
 * between those fields is copied as it stands, so that messages of the parser quote what the user wrote.
 */
#include "cli/ranges.h"

#include "base/buffer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ranged {
    const char *word; /* in the text: "batch=1,2,8" */
    int length, name_length;
    struct buffer values; /* NUL behind each */
    int64_t count;
    const char *at; /* the value of the problem at hand */
    int index;
};

struct ranges {
    struct ranged fields[RANGE_FIELDS_MAX];
    int count;
};

static const char blanks[] = " \t\r\n";

static bool has_several(const char *value, int length)
{
    for (int i = 0; i < length; i++) {
        if (value[i] == ',' || (value[i] == '.' && i + 1 < length && value[i + 1] == '.')) {
            return true;
        }
    }
    return false;
}

/* the next word from `text` on that has several values; NULL behind the last */
static const char *next_range(const char *text, int *length, int *name_length)
{
    for (;;) {
        text += strspn(text, blanks);
        *length = (int)strcspn(text, blanks);
        if (*length == 0) {
            return NULL;
        }
        const char *equal = memchr(text, '=', (size_t)*length);
        if (equal != NULL) {
            *name_length = (int)(equal - text);
            if (has_several(equal + 1, *length - *name_length - 1)) {
                return text;
            }
        }
        text += *length;
    }
}

/* digits with a sign at most, to 64 bits; *end is behind them. False with `why` */
static bool read_whole(const char *text, int64_t *value, const char **end, const char **why)
{
    char *behind;
    *why = "is not of whole numbers";
    const char *digits = text + (*text == '-');
    if (*digits < '0' || *digits > '9') {
        return false;
    }
    errno = 0;
    *value = strtoll(text, &behind, 10);
    *end = behind;
    *why =
        errno != 0 ? "has a number beyond 64 bits: the limits are -9223372036854775808 and 9223372036854775807" : *why;
    return errno == 0;
}

/* how many numbers there are, 0 for a range that is none, with `why`; at most INT64_MAX */
static int64_t count_numbers(int64_t first, int64_t last, char kind, int64_t step, const char **why)
{
    if (first > last) {
        *why = "begins past its end";
        return 0;
    }
    if (kind == '+') {
        if (step < 1) {
            *why = "has a step below 1";
            return 0;
        }
        uint64_t steps = ((uint64_t)last - (uint64_t)first) / (uint64_t)step;
        return steps < INT64_MAX ? (int64_t)steps + 1 : INT64_MAX;
    }
    if (first < 1 || step < 2) {
        *why = first < 1 ? "begins below 1, which no factor leads away from" : "has a factor below 2";
        return 0;
    }
    int64_t count = 1;
    for (int64_t value = first; !__builtin_mul_overflow(value, step, &value) && value <= last;) {
        count++;
    }
    return count;
}

static attune_status refuse_item(const struct ranged *field, const char *item, int length, const char *why,
                                 struct error *error)
{
    return error_set(error, ATTUNE_INVALID, "%.*s: the range '%.*s' %s; write %.*s=512..16384*2 or 1000..2000+250",
                     field->name_length, field->word, length, item, why, field->name_length, field->word);
}

/* Adds an item's values. Those past `limit` are counted and not written: the text is refused anyway. */
static attune_status add_item(struct ranged *field, const char *item, int length, int limit, struct error *error)
{
    int64_t first, last, step;
    const char *at = item, *why;
    char kind;
    if (length == 0) {
        return error_set(error, ATTUNE_INVALID, "%.*s: a value is missing beside a comma", field->length, field->word);
    }
    if (!has_several(item, length)) {
        field->count++;
        buffer_append(&field->values, item, (size_t)length);
        buffer_append(&field->values, "", 1);
        return buffer_ok(&field->values, error);
    }
    if (!read_whole(at, &first, &at, &why) || strncmp(at, "..", 2) != 0 || !read_whole(at + 2, &last, &at, &why)) {
        return refuse_item(field, item, length, why, error);
    }
    kind = *at;
    if (at == item + length || (kind != '*' && kind != '+')) {
        return refuse_item(field, item, length, "lacks its factor or step", error);
    }
    if (!read_whole(at + 1, &step, &at, &why) || at != item + length) {
        return refuse_item(field, item, length, why, error);
    }
    int64_t count = count_numbers(first, last, kind, step, &why);
    if (count == 0) {
        return refuse_item(field, item, length, why, error);
    }
    for (int64_t i = 0, value = first; i < count && i <= limit; i++) {
        buffer_format(&field->values, "%" PRId64, value);
        buffer_append(&field->values, "", 1);
        if (i + 1 < count) {
            value = kind == '+' ? value + step : value * step;
        }
    }
    field->count = __builtin_add_overflow(field->count, count, &field->count) ? INT64_MAX : field->count;
    return buffer_ok(&field->values, error);
}

static attune_status read_field(struct ranged *field, int limit, struct error *error)
{
    const char *end = field->word + field->length;
    attune_status status = ATTUNE_OK;
    for (const char *item = field->word + field->name_length + 1; item <= end && status == ATTUNE_OK;) {
        const char *comma = memchr(item, ',', (size_t)(end - item));
        const int length = (int)((comma != NULL ? comma : end) - item);
        status = add_item(field, item, length, limit, error);
        item += length + 1;
    }
    field->at = buffer_string(&field->values);
    return status;
}

static attune_status read_ranges(const char *text, int limit, struct ranges *ranges, struct error *error)
{
    int length, name_length;
    int64_t problems = 1;
    attune_status status = ATTUNE_OK;
    for (const char *word = text; status == ATTUNE_OK && (word = next_range(word, &length, &name_length)) != NULL;
         word += length) {
        if (ranges->count == RANGE_FIELDS_MAX) {
            return error_set(error, ATTUNE_INVALID, "more than %d fields have several values", RANGE_FIELDS_MAX);
        }
        struct ranged *field = &ranges->fields[ranges->count++];
        *field = (struct ranged){.word = word, .length = length, .name_length = name_length, .values = BUFFER_INIT};
        status = read_field(field, limit, error);
        if (status == ATTUNE_OK && __builtin_mul_overflow(problems, field->count, &problems)) {
            problems = INT64_MAX;
        }
    }
    if (status == ATTUNE_OK && problems > limit) {
        status = error_set(error, ATTUNE_INVALID,
                           "this stands for %s%" PRId64 " problems, more than the %d that the list still takes",
                           problems == INT64_MAX ? "at least " : "", problems, limit);
    }
    if (status == ATTUNE_OK && ranges->count > 0 && strlen(text) >= RANGE_TEXT_BYTES) {
        status = error_set(error, ATTUNE_INVALID, "a problem with ranges of %zu bytes: at most %d are taken",
                           strlen(text), RANGE_TEXT_BYTES - 1);
    }
    return status;
}

/* the text with the values at hand, and what tells it from the others */
static attune_status write_problem(const char *text, const struct ranges *ranges, struct buffer *whole,
                                   struct buffer *suffix, struct error *error)
{
    buffer_clear(whole);
    buffer_clear(suffix);
    for (int i = 0; i < ranges->count; i++) {
        const struct ranged *field = &ranges->fields[i];
        buffer_append(whole, text, (size_t)(field->word - text));
        buffer_format(whole, "%.*s=%s", field->name_length, field->word, field->at);
        buffer_format(suffix, "%s%.*s=%s", i == 0 ? "[" : ",", field->name_length, field->word, field->at);
        text = field->word + field->length;
    }
    if (ranges->count > 0) {
        buffer_format(suffix, "]");
    }
    buffer_format(whole, "%s", text);
    if (buffer_ok(whole, error) != ATTUNE_OK || buffer_ok(suffix, error) != ATTUNE_OK) {
        return ATTUNE_NO_MEMORY;
    }
    if (suffix->length >= RANGE_SUFFIX_BYTES) {
        return error_set(error, ATTUNE_INVALID, "the values of \"%.60s...\" have %zu bytes: at most %d are taken",
                         buffer_string(suffix), suffix->length, RANGE_SUFFIX_BYTES - 1);
    }
    return ATTUNE_OK;
}

/* the last field's next value, else the one's before it and the last one's first again; false behind the last */
static bool advance(struct ranges *ranges)
{
    for (int i = ranges->count - 1; i >= 0; i--) {
        struct ranged *field = &ranges->fields[i];
        if (++field->index < field->count) {
            field->at += strlen(field->at) + 1;
            return true;
        }
        field->index = 0;
        field->at = buffer_string(&field->values);
    }
    return false;
}

attune_status ranges_visit(const char *text, int limit, range_visitor visit, void *data, struct error *error)
{
    struct ranges ranges = {.count = 0};
    struct buffer whole = BUFFER_INIT, suffix = BUFFER_INIT;
    attune_status status = read_ranges(text, limit, &ranges, error);
    if (status == ATTUNE_OK) {
        do {
            status = write_problem(text, &ranges, &whole, &suffix, error);
            if (status == ATTUNE_OK) {
                status = visit(data, buffer_string(&whole), buffer_string(&suffix), error);
            }
        } while (status == ATTUNE_OK && advance(&ranges));
    }
    for (int i = 0; i < ranges.count; i++) {
        buffer_free(&ranges.fields[i].values);
    }
    buffer_free(&suffix);
    buffer_free(&whole);
    return status;
}

attune_status ranges_refuse(const char *text, struct error *error)
{
    int length, name_length;
    const char *word = next_range(text, &length, &name_length);
    return word == NULL ? ATTUNE_OK
                        : error_set(error, ATTUNE_INVALID,
                                    "'%.*s' stands for several problems, and one is wanted here: give %.*s one value",
                                    length < 200 ? length : 200, word, name_length < 60 ? name_length : 60, word);
}
