/* Command lines, a word a line: of each kind of option one. What is accepted is within the kind's range. */
#include "cli/options.h"
#include "tests/fuzz/fuzz.h"

enum { WORDS_MAX = 64 };

static const struct option table[] = {
    {"flag", 'f', OPTION_FLAG, false, NULL, "a flag"},   {"text", 't', OPTION_TEXT, true, "TEXT", "texts"},
    {"count", 'n', OPTION_COUNT, false, "N", "a count"}, {"seed", 0, OPTION_SEED, false, "N", "a seed"},
    {"real", 0, OPTION_REAL, false, "X", "a number"},    {"budget", 'b', OPTION_DURATION, false, "TIME", "a duration"},
    {"bytes", 0, OPTION_BYTES, false, "SIZE", "a size"}, {NULL, 0, OPTION_FLAG, false, NULL, NULL},
};

static void check_value(const struct option_value *value)
{
    HOLDS(value->option >= table && value->option < table + sizeof table / sizeof table[0], "an unknown option");
    bool whole = value->option->kind == OPTION_COUNT || value->option->kind == OPTION_SEED;
    if (whole && value->text[strspn(value->text, "0123456789")] == '\0') {
        HOLDS(value->whole == strtoull(value->text, NULL, 10), "%s is %llu", value->text,
              (unsigned long long)value->whole);
    }
    if (value->option->kind == OPTION_COUNT) {
        HOLDS(value->whole >= 1, "count %llu", (unsigned long long)value->whole);
    } else if (value->option->kind == OPTION_REAL) {
        HOLDS(value->real - value->real == 0, "real %g", value->real);
    } else if (value->option->kind == OPTION_DURATION) {
        HOLDS(value->real > 0 && value->real - value->real == 0, "duration %g", value->real);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *rest = text, *words[WORDS_MAX + 1] = {NULL};
    int count = 0;
    struct options options;
    struct error error = {.message = ""};
    for (char *word; count < WORDS_MAX && (word = strsep(&rest, "\n")) != NULL;) {
        words[count++] = word;
    }
    attune_status status = options_parse(&options, table, count, words, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        HOLDS(options.count + options.positional_count <= count, "more values than words");
        for (int i = 0; i < options.count; i++) {
            check_value(&options.values[i]);
        }
        options_free(&options);
    }
    double seconds;
    uint64_t bytes;
    error = (struct error){.message = ""};
    fuzz_check_error(parse_duration(text, &seconds, &error), &error);
    error = (struct error){.message = ""};
    fuzz_check_error(parse_bytes(text, &bytes, &error), &error);
    free(text);
    return 0;
}
