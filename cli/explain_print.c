/* explain_print.c - what explain_run found, for people. */
#include "cli/explain_run.h"

#include "cli/cmd_cache.h"
#include "cli/table.h"

#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static double real_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static long long whole_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

/* "block_q=64 threads=128"; "the same" where nothing differs */
static void changed_words(const json_t *row, struct buffer *text)
{
    const char *name;
    json_t *value;
    buffer_clear(text);
    json_object_foreach(json_object_get(row, "changed"), name, value)
    {
        buffer_format(text, "%s%s=%s", text->length > 0 ? " " : "", name, json_string_value(value));
    }
    if (text->length == 0) {
        buffer_text(text, "nothing");
    }
}

static void print_nearest(const json_t *rows)
{
    struct table table;
    struct buffer words = BUFFER_INIT;
    size_t index;
    json_t *row;
    bool faster = false;
    if (json_array_size(rows) == 0) {
        return;
    }
    printf("\nnearest to it, of those that were measured\n");
    table_begin(&table, ">  µs|>spread|>to the winner|of|id|differs by");
    json_array_foreach(rows, index, row)
    {
        double time = real_of(row, "microseconds"), spread = real_of(row, "spread");
        faster |= strcmp(text_of(row, "outcome"), "timed") == 0 && real_of(row, "ratio") < 1.0;
        changed_words(row, &words);
        table_cell(&table, "  %.1f", time);
        if (spread > 0) {
            table_cell(&table, "%.1f %%", 100.0 * spread / time);
        } else {
            table_cell(&table, "-");
        }
        table_cell(&table, "%.3f", real_of(row, "ratio"));
        table_cell(&table, "%s",
                   strcmp(text_of(row, "outcome"), "timed") == 0  ? "finals"
                   : strcmp(text_of(row, "outcome"), "same") == 0 ? "its twin"
                                                                  : "first look");
        table_cell(&table, "%s", text_of(row, "id"));
        table_cell(&table, "%s", buffer_string(&words));
    }
    table_end(&table, stdout);
    if (faster) {
        printf("  the winner need not have the least time: the default wins ties of 1 %%; of others half a percent is "
               "one, "
               "which goes to who serves every length, then by name\n");
    }
    buffer_free(&words);
}

static void print_reasons(const json_t *kind)
{
    size_t index;
    json_t *reason;
    json_array_foreach(json_object_get(kind, "reasons"), index, reason)
    {
        const char *why = text_of(reason, "reason"), *because = text_of(reason, "because"), *id = text_of(reason, "id");
        bool more = because[0] != '\0' && strcmp(because, why) != 0;
        if (why[0] != '\0') {
            printf("    %lld: %s%s%s%s\n      such as %s%s%s\n", whole_of(reason, "count"), why, more ? " (" : "",
                   because, more ? ")" : "", id, id[0] != '\0' ? " " : "", text_of(reason, "candidate"));
        }
    }
    long long hidden =
        whole_of(kind, "distinct_reasons") - (long long)json_array_size(json_object_get(kind, "reasons"));
    if (hidden > 0) {
        printf("    and %lld other %s\n", hidden, plural(hidden, "reason", "reasons"));
    }
}

static void print_out(const json_t *tuning)
{
    const json_t *kinds = json_object_get(tuning, "out"), *constraints = json_object_get(tuning, "constraints");
    size_t index;
    json_t *kind;
    long long refused = whole_of(constraints, "count");
    if (json_array_size(kinds) == 0 && refused == 0) {
        return;
    }
    printf("\nwhy others were out\n");
    json_array_foreach(kinds, index, kind)
    {
        printf("  %lld %s: %s\n", whole_of(kind, "count"), text_of(kind, "outcome"), text_of(kind, "meaning"));
        print_reasons(kind);
    }
    if (refused > 0) {
        printf("  %lld %s refused by constraints%s\n", refused, plural(refused, "point", "points"),
               strcmp(text_of(constraints, "from"), "journal") == 0 ? "" : ", by the templates that are here");
        print_reasons(constraints);
    }
}

static void print_default(const json_t *tuning)
{
    const json_t *standard = json_object_get(tuning, "default");
    double time = real_of(standard, "microseconds");
    const char *which = json_is_true(json_object_get(standard, "current")) ? "" : " of then";
    if (standard == NULL) {
        return;
    }
    if (time > 0.0) {
        printf("the default%s would cost %.1f µs, %.3f times the winner's time\n", which, time,
               real_of(standard, "ratio"));
    } else {
        const char *reason = text_of(standard, "reason");
        printf("the default%s was %s%s%s\n", which, text_of(standard, "outcome"), reason[0] != '\0' ? ": " : "",
               reason);
    }
}

static void print_run(const json_t *tuning)
{
    const char *journal = text_of(tuning, "journal"), *run = text_of(tuning, "run");
    if (strcmp(journal, "none") == 0) {
        printf("\nno tuning of this problem on this device is in the store\n");
        return;
    }
    printf("\ntuning run %s", run);
    if (strcmp(journal, "gone") == 0) {
        printf(": its journal is gone, so nobody knows who else was measured or why others were out\n");
        return;
    }
    if (strcmp(journal, "unreadable") == 0) {
        printf(": its journal cannot be read: %s\n", text_of(tuning, "reason"));
        return;
    }
    char date[32];
    format_minute(whole_of(tuning, "started"), date);
    printf("%s%s, %s: looked at %lld of %lld candidates (%lld tried), %lld right",
           whole_of(tuning, "started") > 0 ? ", begun " : "", whole_of(tuning, "started") > 0 ? date : "",
           text_of(tuning, "state"), whole_of(tuning, "looks"), whole_of(tuning, "listed"), whole_of(tuning, "tried"),
           whole_of(tuning, "right"));
    printf(", %lld timed", whole_of(tuning, "timed"));
    if (whole_of(tuning, "journals") > 1) {
        printf(", by %lld ranks of one job", whole_of(tuning, "journals"));
    }
    printf("\nit tuned %s\n", text_of(tuning, "problem"));
    double drift = real_of(tuning, "drift");
    if (drift > TUNE_DRIFT_MAX) {
        printf("times drifted by %.1f %% while it ran: the order stands, since it is by ratios\n", 100.0 * drift);
    }
}

void explain_candidate_print(const json_t *result)
{
    const json_t *candidate = json_object_get(result, "candidate"), *tuning = json_object_get(result, "tuning");
    const double time = real_of(candidate, "microseconds"), spread = real_of(candidate, "spread");
    const char *run = text_of(tuning, "run");
    printf("candidate %s %s\n  %s\n", text_of(candidate, "id"), text_of(candidate, "candidate"),
           text_of(candidate, "standing"));
    if (time > 0.0) {
        printf("  %.1f µs", time);
        if (spread > 0.0) {
            printf(", spread %.1f %%", 100.0 * spread / time);
        }
        printf("\n");
    }
    if (json_object_size(json_object_get(candidate, "changed")) > 0) {
        struct buffer words = BUFFER_INIT;
        changed_words(candidate, &words);
        printf("  it differs from the winner by %s\n", buffer_string(&words));
        buffer_free(&words);
    }
    if (run[0] != '\0') {
        printf("tuning run %s of %s\n", run, text_of(result, "problem"));
    }
}

void explain_run_print(const json_t *result)
{
    const json_t *tuning = json_object_get(result, "tuning");
    print_run(tuning);
    print_default(tuning);
    print_nearest(json_object_get(tuning, "nearest"));
    print_out(tuning);
}
