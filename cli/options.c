/* options.c - parsing by table; see options.h. */
#include "cli/options.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 64, NAME_LENGTH_MAX = 63 };

static int distance(const char *a, const char *b)
{
    size_t columns = strlen(b);
    if (strlen(a) > NAME_LENGTH_MAX || columns > NAME_LENGTH_MAX) {
        return NAME_LENGTH_MAX;
    }
    int row[NAME_LENGTH_MAX + 1];
    for (size_t j = 0; j <= columns; j++) {
        row[j] = (int)j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        int diagonal = row[0];
        row[0] = (int)i + 1;
        for (size_t j = 0; j < columns; j++) {
            int best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j + 1] = best < diagonal + 1 ? best : diagonal + 1;
        }
    }
    return row[columns];
}

const char *nearest_name(const char *text, const char *const *names)
{
    const char *best = NULL;
    int best_distance = 0;
    for (int i = 0; names[i] != NULL; i++) {
        int d = distance(text, names[i]);
        if (strncmp(text, names[i], strlen(text)) == 0 && text[0] != '\0') {
            d = 1; /* a cut-off name is nearer than any misspelling but one letter */
        }
        if (best == NULL || d < best_distance) {
            best = names[i];
            best_distance = d;
        }
    }
    int limit = (int)strlen(text) / 2 > 3 ? 3 : (int)strlen(text) / 2;
    return best != NULL && best_distance <= (limit < 1 ? 1 : limit) ? best : NULL;
}

static const struct option *find_option(const struct option *table, const char *name, size_t length)
{
    for (; table->name != NULL; table++) {
        if (strlen(table->name) == length && memcmp(table->name, name, length) == 0) {
            return table;
        }
    }
    return NULL;
}

static attune_status refuse_unknown(const struct option *table, const char *name, size_t length, struct error *error)
{
    const char *names[NAMES_MAX + 1];
    int count = 0;
    for (; table->name != NULL && count < NAMES_MAX; table++) {
        if (table->kind != OPTION_ELSEWHERE) {
            names[count++] = table->name;
        }
    }
    names[count] = NULL;
    char text[NAME_LENGTH_MAX + 1];
    snprintf(text, sizeof text, "%.*s", (int)(length > NAME_LENGTH_MAX ? NAME_LENGTH_MAX : length), name);
    const char *near = nearest_name(text, names);
    if (near != NULL) {
        return error_set(error, ATTUNE_INVALID, "unknown option --%s: did you mean --%s?", text, near);
    }
    return error_set(error, ATTUNE_INVALID, "unknown option --%s: --help lists those there are", text);
}

/* decimal: no blanks before it, hexadecimal, infinities */
static bool plain_number(const char *text, size_t length)
{
    return strspn(text, "0123456789+-.eE") >= length;
}

attune_status parse_duration(const char *text, double *seconds, struct error *error)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    char *end = NULL;
    double number = strtod(text, &end);
    if (end != text && plain_number(text, (size_t)(end - text))) {
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
            double value = number * units[i].seconds;
            if (strcmp(end, units[i].unit) == 0 && value > 0 && value <= 1e9) {
                *seconds = value;
                return ATTUNE_OK;
            }
        }
    }
    return error_set(error, ATTUNE_INVALID, "'%s' is no duration: write 60s, 5m, 1h, 30d or 500ms", text);
}

static attune_status parse_whole(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *value,
                                 struct error *error)
{
    char *end = NULL;
    errno = 0;
    /* decimal, also with leading zeros: 010 is ten; seeds are pasted as 0x... too */
    bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    unsigned long long number = strtoull(text, &end, hexadecimal ? 16 : 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno == ERANGE || number < minimum || number > maximum) {
        return error_set(error, ATTUNE_INVALID, "'%s' is no whole number from %llu to %llu", text,
                         (unsigned long long)minimum, (unsigned long long)maximum);
    }
    *value = number;
    return ATTUNE_OK;
}

attune_status parse_bytes(const char *text, uint64_t *bytes, struct error *error)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && errno == 0) {
        for (int i = 0; i < (int)(sizeof units / sizeof units[0]); i++) {
            if (strcmp(end, units[i]) == 0 && number <= UINT64_MAX >> (10 * i)) {
                *bytes = (uint64_t)number << (10 * i);
                return ATTUNE_OK;
            }
        }
    }
    return error_set(error, ATTUNE_INVALID, "'%s' is no size: write 4096, 64KiB, 500MiB or 2GiB", text);
}

static attune_status convert(struct option_value *value, struct error *error)
{
    char *end = NULL;
    switch (value->option->kind) {
    case OPTION_FLAG:
    case OPTION_TEXT:
    case OPTION_ELSEWHERE:
        return ATTUNE_OK;
    case OPTION_COUNT:
        return parse_whole(value->text, 1, INT32_MAX, &value->whole, error);
    case OPTION_SEED:
        return parse_whole(value->text, 0, UINT64_MAX, &value->whole, error);
    case OPTION_REAL:
        value->real = strtod(value->text, &end);
        if (end == value->text || *end != '\0' || !isfinite(value->real) ||
            !plain_number(value->text, strlen(value->text))) {
            return error_set(error, ATTUNE_INVALID, "'%s' is no finite number", value->text);
        }
        return ATTUNE_OK;
    case OPTION_DURATION:
        return parse_duration(value->text, &value->real, error);
    case OPTION_BYTES:
        return parse_bytes(value->text, &value->whole, error);
    }
    return ATTUNE_OK;
}

static attune_status add_value(struct options *options, const struct option *option, const char *text,
                               struct error *error)
{
    for (int i = 0; i < options->count && !option->repeated; i++) {
        if (options->values[i].option == option) {
            return error_set(error, ATTUNE_INVALID, "--%s is given twice ('%s' and '%s'): give it once", option->name,
                             options->values[i].text, text);
        }
    }
    if (option->kind != OPTION_FLAG && text[0] == '\0') { /* an unset variable of a script, mostly */
        return error_set(error, ATTUNE_INVALID, "--%s is empty: --%s %s", option->name, option->name, option->argument);
    }
    struct option_value *value = &options->values[options->count++];
    *value = (struct option_value){.option = option, .text = text};
    attune_status status = convert(value, error);
    return status == ATTUNE_OK ? ATTUNE_OK : error_prefix(error, "--%s", option->name);
}

/* one argument that starts with a dash; takes the next one as value where it must */
static attune_status parse_option(struct options *options, int argc, char **argv, int *index, struct error *error)
{
    const char *argument = argv[*index];
    const struct option *option = NULL;
    const char *inline_value = NULL;
    if (argument[1] == '-') {
        const char *name = argument + 2;
        const char *equals = strchr(name, '=');
        size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
        option = find_option(options->table, name, length);
        if (option == NULL) {
            return refuse_unknown(options->table, name, length, error);
        }
        if (option->kind == OPTION_ELSEWHERE) {
            return error_set(error, ATTUNE_INVALID, "--%s is no option of this command: %s", option->name, option->doc);
        }
        inline_value = equals != NULL ? equals + 1 : NULL;
    } else {
        for (const struct option *at = options->table; at->name != NULL; at++) {
            if (at->letter != 0 && at->letter == argument[1]) {
                option = at;
            }
        }
        if (option == NULL) {
            return error_set(error, ATTUNE_INVALID, "unknown option %s: --help lists those there are", argument);
        }
        inline_value = argument[2] != '\0' ? argument + 2 : NULL;
    }
    if (option->kind == OPTION_FLAG) {
        if (inline_value != NULL) {
            return error_set(error, ATTUNE_INVALID, "--%s takes no value, got '%s'", option->name, inline_value);
        }
        return add_value(options, option, "", error);
    }
    if (inline_value == NULL) {
        if (*index + 1 >= argc) {
            return error_set(error, ATTUNE_INVALID, "--%s needs a value: --%s %s", option->name, option->name,
                             option->argument);
        }
        inline_value = argv[++*index];
    }
    return add_value(options, option, inline_value, error);
}

attune_status options_parse(struct options *options, const struct option *table, int argc, char **argv,
                            struct error *error)
{
    attune_status status = ATTUNE_OK;
    *options = (struct options){.table = table};
    options->values = calloc((size_t)argc + 1, sizeof *options->values);
    options->positionals = calloc((size_t)argc + 1, sizeof *options->positionals);
    if (options->values == NULL || options->positionals == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    bool only_positionals = false;
    for (int i = 0; i < argc && status == ATTUNE_OK; i++) {
        if (only_positionals || argv[i][0] != '-' || argv[i][1] == '\0') {
            options->positionals[options->positional_count++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            only_positionals = true;
        } else {
            status = parse_option(options, argc, argv, &i, error);
        }
    }
out:
    if (status != ATTUNE_OK) {
        options_free(options);
    }
    return status;
}

void options_free(struct options *options)
{
    free(options->values);
    free(options->positionals);
    *options = (struct options){0};
}

static const struct option_value *last_value(const struct options *options, const char *name)
{
    const struct option *option = find_option(options->table, name, strlen(name));
    assert(option != NULL);
    for (int i = options->count - 1; i >= 0; i--) {
        if (options->values[i].option == option) {
            return &options->values[i];
        }
    }
    return NULL;
}

bool options_has(const struct options *options, const char *name)
{
    return last_value(options, name) != NULL;
}

const char *options_text(const struct options *options, const char *name)
{
    const struct option_value *value = last_value(options, name);
    return value != NULL ? value->text : NULL;
}

uint64_t options_whole(const struct options *options, const char *name, uint64_t fallback)
{
    const struct option_value *value = last_value(options, name);
    return value != NULL ? value->whole : fallback;
}

double options_real(const struct options *options, const char *name, double fallback)
{
    const struct option_value *value = last_value(options, name);
    return value != NULL ? value->real : fallback;
}

const char *options_nth(const struct options *options, const char *name, int index)
{
    const struct option *option = find_option(options->table, name, strlen(name));
    assert(option != NULL && option->repeated);
    for (int i = 0; i < options->count; i++) {
        if (options->values[i].option == option && index-- == 0) {
            return options->values[i].text;
        }
    }
    return NULL;
}

void options_help(const struct option *table, FILE *out)
{
    size_t width = 0;
    for (const struct option *at = table; at->name != NULL; at++) {
        size_t length = strlen(at->name) + (at->argument != NULL ? strlen(at->argument) + 1 : 0);
        width = length > width ? length : width;
    }
    for (const struct option *at = table; at->name != NULL; at++) {
        if (at->kind == OPTION_ELSEWHERE) {
            continue;
        }
        char left[NAME_LENGTH_MAX * 2];
        snprintf(left, sizeof left, "%s%s%s", at->name, at->argument != NULL ? " " : "",
                 at->argument != NULL ? at->argument : "");
        char letter[] = {'-', at->letter, ',', ' ', '\0'};
        fprintf(out, "  %s--%-*s  %s%s\n", at->letter != 0 ? letter : "    ", (int)width, left, at->doc,
                at->repeated ? " (may be repeated)" : "");
    }
}
