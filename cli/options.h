/* options.h - the command line's options as data.
 *
 * A command lists what it takes in a table; parsing, refusal of what is not in the table (with the nearest name) and
 * the help text come from the table alone, so that no option can be accepted and ignored by accident. Long options are
 * `--name value` or `--name=value`; `--` ends them; what is left is positional.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_COUNT,    /* whole number >= 1 */
    OPTION_SEED,     /* whole number, 64 bits unsigned */
    OPTION_REAL,     /* finite number */
    OPTION_DURATION, /* 60, 60s, 500ms, 5m, 1h, 30d: seconds > 0 */
    OPTION_BYTES,    /* 4096, 64KiB, 500MiB, 2GiB */
    OPTION_ELSEWHERE /* no option of this command though one expects it: refused with `doc`, and not in its help */
};

struct option {
    const char *name; /* without dashes; NULL ends a table */
    char letter;      /* short form, or 0 */
    enum option_kind kind;
    bool repeated;
    const char *argument; /* how help names the value: "FILE"; NULL for flags */
    const char *doc;
};

struct option_value {
    const struct option *option;
    const char *text; /* points into argv; "" for flags */
    uint64_t whole;   /* OPTION_COUNT, OPTION_SEED, OPTION_BYTES */
    double real;      /* OPTION_REAL, OPTION_DURATION (seconds) */
};

struct options {
    const struct option *table;
    struct option_value *values;
    int count;
    const char **positionals;
    int positional_count;
};

/* argv without the program and command names. On failure nothing needs freeing. */
attune_status options_parse(struct options *options, const struct option *table, int argc, char **argv,
                            struct error *error);
void options_free(struct options *options);

/* all assert that the table has the option */
bool options_has(const struct options *options, const char *name);
const char *options_text(const struct options *options, const char *name); /* the only or last value, or NULL */
uint64_t options_whole(const struct options *options, const char *name, uint64_t fallback);
double options_real(const struct options *options, const char *name, double fallback);
/* i-th value of a repeated option, NULL past the end */
const char *options_nth(const struct options *options, const char *name, int index);

void options_help(const struct option *table, FILE *out);

/* the name of `names` nearest to `text` by edit distance, or NULL when none is near; NULL-terminated list */
const char *nearest_name(const char *text, const char *const *names);

/* "60s" -> 60; shared with the parser, for tests */
attune_status parse_duration(const char *text, double *seconds, struct error *error);
attune_status parse_bytes(const char *text, uint64_t *bytes, struct error *error);

#endif
