/* tune_results.c - see tune_results.h. */
#include "cli/tune_results.h"

#include "cli/cli.h"
#include "cli/table.h"
#include "cli/tune_ranks.h"

#include <string.h>

enum { REASONS_MAX = 12 };

/* outcomes that are no rejection */
static bool is_rejection(const char *outcome)
{
    static const char *const fine[] = {"timed", "slower", "right", "same", "not-tried"};
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        if (strcmp(outcome, fine[i]) == 0) {
            return false;
        }
    }
    return true;
}

/* how many candidates had each outcome, in order of first appearance: {"timed": 12, "slower": 200, ...} */
static json_t *count_outcomes(const struct tune_result *result)
{
    json_t *counts = json_object();
    for (int i = 0; i < result->outcome_count; i++) {
        const char *outcome = result->outcomes[i].outcome;
        json_set_whole(counts, outcome, 1 + json_integer_value(json_object_get(counts, outcome)));
    }
    return counts;
}

static size_t number_at(const char *text)
{
    return strspn(text, "0123456789.");
}

/* equal but for the numbers in them: "72 bytes of scratch" and "16 bytes of scratch" are one kind of reason */
static bool same_kind(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        size_t in_a = number_at(a), in_b = number_at(b);
        if ((in_a == 0) != (in_b == 0) || (in_a == 0 && *a != *b)) {
            return false;
        }
        a += in_a > 0 ? in_a : 1;
        b += in_b > 0 ? in_b : 1;
    }
    return *a == *b;
}

static json_t *find_rejection(const json_t *rows, const struct tune_outcome *outcome)
{
    size_t index;
    json_t *row;
    json_array_foreach(rows, index, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "outcome")), outcome->outcome) == 0 &&
            same_kind(json_string_value(json_object_get(row, "reason")), outcome->reason)) {
            return row;
        }
    }
    return NULL;
}

/* rejected candidates by outcome and kind of reason, the first of each as the example, in order of first appearance;
 * past REASONS_MAX kinds, the counts by outcome and the journal are what is left */
static json_t *collect_rejections(const struct tune_result *result)
{
    json_t *rows = json_array();
    for (int i = 0; i < result->outcome_count; i++) {
        const struct tune_outcome *outcome = &result->outcomes[i];
        if (!is_rejection(outcome->outcome)) {
            continue;
        }
        json_t *row = find_rejection(rows, outcome);
        if (row != NULL) {
            json_set_whole(row, "count", json_integer_value(json_object_get(row, "count")) + 1);
        } else if (json_array_size(rows) < REASONS_MAX) {
            row = json_object();
            json_set_text(row, "outcome", outcome->outcome);
            json_set_text(row, "reason", outcome->reason);
            json_set_text(row, "example", outcome->candidate);
            json_set_whole(row, "count", 1);
            json_array_append_new(rows, row);
        }
    }
    return rows;
}

static double tflops(double operations, double microseconds)
{
    return microseconds > 0 ? operations / microseconds * 1e-6 : 0;
}

/* what this run did itself, of the time that this process tuned */
static double per_minute(int count, int held, const struct tune_result *result)
{
    const double seconds = result->counts.elapsed_seconds - result->waited_seconds;
    return seconds > 0 ? 60.0 * (count > held ? count - held : 0) / seconds : 0;
}

void tune_results_describe(json_t *row, const struct tune_result *result)
{
    const struct record *record = &result->record;
    const struct tune_progress *counts = &result->counts;
    const bool divided = result->peer_count > 0;
    char object[DIGEST_HEX_BYTES], id[CANDIDATE_ID_BYTES] = "";
    digest_hex(&record->object, object);
    for (int i = 0; i < result->outcome_count; i++) {
        if (strcmp(result->outcomes[i].candidate, record->candidate) == 0) {
            snprintf(id, sizeof id, "%s", result->outcomes[i].id);
        }
    }
    json_set_text(row, "problem", record->problem);
    json_set_text(row, "device_name", record->device_name);
    json_set_text(row, "target", record->device.target);
    json_set_text(row, "driver", record->device.driver);
    json_set_text(row, "winner", record->candidate);
    json_set_text(row, "winner_id", id);
    json_set_text(row, "object", object);
    json_set_text(row, "compiler", record->compiler);
    json_set_whole(row, "candidates", result->listed);
    json_set_text(row, "strategy", result->strategy);
    json_set_whole(row, "looks", counts->looks);
    json_set_whole(row, "tried", divided ? result->all.tried : record->tried);
    json_set_whole(row, "verified", divided ? result->all.verified : record->verified);
    json_set_whole(row, "rejected", divided ? result->all.rejected : record->rejected);
    json_set_whole(row, "timed", divided ? result->all.timed : record->timed);
    json_set_whole(row, "from_store", counts->reused);
    json_set_whole(row, "from_other_compiler", counts->other_compiler);
    json_set_flag(row, "resumed", counts->resumed);
    json_set_whole(row, "held", counts->held);
    json_set_whole(row, "held_looks", counts->held_looks);
    json_set_whole(row, "invalid", counts->invalid);
    json_set_flag(row, "kept", result->kept);
    json_set_flag(row, "already_done", result->already_done);
    json_set_flag(row, "complete", record->complete);
    json_set_text(row, "ending", tune_ending_name(result->ending));
    json_set_real(row, "operations", result->operations);
    json_set_real(row, "winner_microseconds", record->winner_microseconds);
    json_set_real(row, "default_microseconds", record->default_microseconds);
    json_set_real(row, "winner_tflops", tflops(result->operations, record->winner_microseconds));
    json_set_real(row, "default_tflops", tflops(result->operations, record->default_microseconds));
    json_set_real(row, "seconds", counts->elapsed_seconds);
    json_set_real(row, "compiled_per_minute", per_minute(counts->compiled, 0, result));
    json_set_real(row, "verified_per_minute", per_minute(counts->verified, counts->held_verified, result));
    json_set_real(row, "timed_per_minute", per_minute(counts->timed, counts->held_timed, result));
    json_set_real(row, "between_seconds", result->between_seconds);
    json_set_whole(row, "between_samples", result->between_samples);
    if (result->worker_idle >= 0.0) {
        json_set_real(row, "worker_idle", result->worker_idle);
    } else { /* it took less than the time that does not count */
        json_object_set_new(row, "worker_idle", json_null());
    }
    json_set_real(row, "drift", result->drift);
    json_object_set_new(row, "outcomes", count_outcomes(result));
    json_object_set_new(row, "rejections", collect_rejections(result));
    json_set_text(row, "journal", result->journal);
}

/* a problem's own name, or "problem 2" */
static void add_label(struct table *table, const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    if (name != NULL) {
        table_cell(table, "%s", name);
    } else {
        table_cell(table, "problem %lld", (long long)json_integer_value(json_object_get(row, "number")));
    }
}

static void print_counts(const json_t *results, bool timed)
{
    static const char *const counts[] = {"tried", "verified", "rejected"};
    struct table table;
    struct buffer headings = BUFFER_INIT;
    size_t index;
    json_t *row;
    const json_t *first = json_array_get(results, 0);
    const bool several = json_object_get(first, "device") != NULL, of_trace = json_object_get(first, "calls") != NULL;
    buffer_format(&headings, "%sproblem|%starget|%s>tried|>verified|>rejected|>seconds|%swinner",
                  of_trace ? ">number|" : "", several ? "device|" : "", of_trace ? ">calls|>share %|" : "",
                  timed ? ">default µs|>winner µs|>TFLOP/s|>speed-up|" : "");
    table_begin(&table, buffer_string(&headings));
    buffer_free(&headings);
    json_array_foreach(results, index, row)
    {
        double winner = json_real_value(json_object_get(row, "winner_microseconds"));
        double fallback = json_real_value(json_object_get(row, "default_microseconds"));
        if (of_trace) {
            table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(row, "number")));
        }
        add_label(&table, row);
        if (several) {
            table_cell(&table, "%s", json_string_value(json_object_get(row, "device")));
        }
        table_cell(&table, "%s", json_string_value(json_object_get(row, "target")));
        if (of_trace) {
            table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(row, "calls")));
            table_cell(&table, "%.2f", 100 * json_real_value(json_object_get(row, "share")));
        }
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(row, counts[i])));
        }
        table_cell(&table, "%.1f", json_real_value(json_object_get(row, "seconds")));
        if (timed) {
            table_cell(&table, "%.1f", fallback);
            table_cell(&table, "%.1f", winner);
            table_cell(&table, "%.1f", json_real_value(json_object_get(row, "winner_tflops")));
            table_cell(&table, "%.2f", winner > 0 ? fallback / winner : 0.0);
        }
        table_cell(&table, "%s", json_string_value(json_object_get(row, "winner_id")));
    }
    table_end(&table, stdout);
}

static void print_ending(const json_t *row)
{
    static const struct {
        const char *ending, *text;
    } texts[] = {{"complete", ""},
                 {"count", ": --count asks for no more"},
                 {"budget", ": the budget ended before the others"},
                 {"interrupted", ": stopped before the others"},
                 {"device-lost", ": the device stopped answering before the others"},
                 {"narrower", ": less than what the run was begun with asks for"},
                 {"ranks", ": not every rank came to the end of its share"},
                 {"late", ": the choice was published before every rank had come to the end of its share"},
                 {"unknown", ": not all that was to be done"}};
    const char *ending = json_string_value(json_object_get(row, "ending"));
    const bool divided = json_array_size(json_object_get(json_object_get(row, "ranks"), "peers")) > 0;
    if (divided && strcmp(ending, "complete") == 0 && !json_is_true(json_object_get(row, "complete"))) {
        ending = json_integer_value(json_object_get(json_object_get(row, "ranks"), "lost")) > 0 ? "ranks" : "late";
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(ending, texts[i].ending) == 0) {
            const long long looks = (long long)json_integer_value(json_object_get(row, "looks"));
            const long long held = (long long)json_integer_value(json_object_get(row, "held_looks"));
            printf("  %slooked at %lld of %lld candidates", divided ? "all ranks together " : "", looks,
                   (long long)json_integer_value(json_object_get(row, "candidates")));
            if (held > 0 && !divided) {
                printf(" (%lld before, %lld now)", held, looks - held);
            }
            printf(", strategy %s%s\n", json_string_value(json_object_get(row, "strategy")), texts[i].text);
        }
    }
}

/* how fast it went, and whether it was the device that was waited for */
static void print_speed(const json_t *row)
{
    const json_t *idle = json_object_get(row, "worker_idle");
    double drift = json_real_value(json_object_get(row, "drift"));
    const bool divided = json_array_size(json_object_get(json_object_get(row, "ranks"), "peers")) > 0;
    const double compiled = json_real_value(json_object_get(row, "compiled_per_minute"));
    const double verified = json_real_value(json_object_get(row, "verified_per_minute"));
    const double in_time = json_real_value(json_object_get(row, "timed_per_minute"));
    if (compiled + verified + in_time <= 0) { /* nothing was left to do */
        return;
    }
    printf("  %sin a minute: %.0f compiled, %.0f verified, %.0f timed", divided ? "this rank " : "", compiled, verified,
           in_time);
    if (json_is_real(idle)) {
        printf("; the device's process waited for %.1f %% of the time", 100.0 * json_real_value(idle));
    }
    const long long samples = (long long)json_integer_value(json_object_get(row, "between_samples"));
    if (samples > 0) {
        printf("\n  nothing compiled was waiting for %.1f s: the best so far were timed again, %lld times",
               json_real_value(json_object_get(row, "between_seconds")), samples);
    }
    printf("\n");
    if (drift > TUNE_DRIFT_MAX) {
        printf("  times drifted by %.1f %% meanwhile: the order stands, since it is by ratios, but times of other runs "
               "may differ as much\n",
               100.0 * drift);
    }
}

/* "llama: attention.forward ..."; a trace's names say no more than the problem, so they go by number */
static void print_heading(const json_t *row, bool several)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    const long long number = (long long)json_integer_value(json_object_get(row, "number"));
    printf("\n");
    if (json_object_get(row, "calls") != NULL || (name == NULL && several)) {
        printf("problem %lld: ", number);
    } else if (name != NULL) {
        printf("%s: ", name);
    }
    printf("%s\n  winner: %s\n", json_string_value(json_object_get(row, "problem")),
           json_string_value(json_object_get(row, "winner")));
}

void tune_results_print(const json_t *results, const char *store)
{
    size_t index, at;
    json_t *row, *reason;
    bool timed = false;
    json_array_foreach(results, index, row)
    {
        timed = timed || json_real_value(json_object_get(row, "winner_microseconds")) > 0;
    }
    print_counts(results, timed);
    json_array_foreach(results, index, row)
    {
        print_heading(row, json_array_size(results) > 1);
        long long other = (long long)json_integer_value(json_object_get(row, "from_other_compiler"));
        if (other > 0) {
            printf("  %lld objects of the same source by another compiler were taken from the store\n", other);
        }
        print_ending(row);
        tune_team_print_row(row);
        print_speed(row);
        json_array_foreach(json_object_get(row, "rejections"), at, reason)
        {
            printf("  %lld %s, for example: %s\n", (long long)json_integer_value(json_object_get(reason, "count")),
                   json_string_value(json_object_get(reason, "outcome")),
                   json_string_value(json_object_get(reason, "reason")));
        }
    }
    if (!timed) {
        printf("\nnothing is timed on the host device: the default wins among the candidates verified\n");
    }
    printf("\ncached in %s\n",
           store[0] != '\0' ? store : "memory only, as the store did not take all of it: lost with this process");
}
