/* cmd_tune.c - `attune tune`: find the fastest right candidate and keep it in the store. */
#include "autotune/tune.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/table.h"

#include <signal.h>
#include <string.h>

static const struct option options[] = {
    CLI_OPTION_PROBLEM,
    {"problems", 0, OPTION_TEXT, false, "FILE", "a problem a line, # comments"},
    CLI_OPTION_DEVICE,
    {"budget", 0, OPTION_DURATION, false, "TIME", "time for each problem: 60s, 5m, 1h"},
    {"count", 0, OPTION_COUNT, false, "N", "at most N candidates for each problem"},
    {"candidate-limit", 0, OPTION_DURATION, false, "TIME",
     "of one launch of a candidate (default: 20 times the default candidate's, at least 10s)"},
    {"strategy", 0, OPTION_TEXT, false, "S", "sweep (default first, a cover, the rest), cover or default"},
    {"candidates", 0, OPTION_TEXT, false, "FILE", "only the candidates named in FILE, one a line"},
    {"seed", 0, OPTION_SEED, false, "S", "order of the sweep and the inputs (default 1)"},
    {"retry-blocked", 0, OPTION_FLAG, false, NULL,
     "try again what was wrong, hung, crashed or never finished compiling before"},
    {"own-compiler", 0, OPTION_FLAG, false, NULL, "compile again what the store has from another compiler"},
    {"resume", 0, OPTION_FLAG, false, NULL, "refused: continuing an interrupted run is not there yet"},
    CLI_OPTION_STORE,
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    {0},
};

enum { REASONS_MAX = 12 };

/* outcomes that are no rejection */
static bool is_rejection(const char *outcome)
{
    static const char *const fine[] = {"timed", "slower", "right", "not-tried"};
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

static void describe(json_t *row, const struct tune_result *result)
{
    const struct record *record = &result->record;
    const struct tune_progress *counts = &result->counts;
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
    json_set_whole(row, "tried", record->tried);
    json_set_whole(row, "verified", record->verified);
    json_set_whole(row, "rejected", record->rejected);
    json_set_whole(row, "timed", record->timed);
    json_set_whole(row, "from_store", counts->reused);
    json_set_whole(row, "from_other_compiler", counts->other_compiler);
    json_set_flag(row, "complete", record->complete);
    json_set_text(row, "ending", tune_ending_name(result->ending));
    json_set_real(row, "operations", result->operations);
    json_set_real(row, "winner_microseconds", record->winner_microseconds);
    json_set_real(row, "default_microseconds", record->default_microseconds);
    json_set_real(row, "winner_tflops", tflops(result->operations, record->winner_microseconds));
    json_set_real(row, "default_tflops", tflops(result->operations, record->default_microseconds));
    json_set_real(row, "seconds", counts->elapsed_seconds);
    json_object_set_new(row, "outcomes", count_outcomes(result));
    json_object_set_new(row, "rejections", collect_rejections(result));
    json_set_text(row, "journal", result->journal);
}

/* Ctrl-C ends the budget: what was timed so far still gives a record. A second one ends the program. */
static volatile int interrupted;

static void interrupt(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL);
}

struct watch {
    struct progress progress;
    bool told_bytes;
    const char *name; /* of the problem, "" when it has none */
};

static void report(void *data, const struct tune_progress *now)
{
    struct watch *watch = data;
    if (!watch->told_bytes && now->device_bytes > 0) {
        char bytes[32];
        format_bytes(now->device_bytes, bytes);
        fprintf(stderr, "attune tune: %s%stakes %s of device memory for itself\n", watch->name,
                watch->name[0] != '\0' ? ": " : "", bytes);
        watch->told_bytes = true;
    }
    static const char *const stages[] = {
        [TUNE_COMPILE] = "compile", [TUNE_VERIFY] = "verify", [TUNE_TIME] = "time", [TUNE_DONE] = "done"};
    char best[64] = "";
    if (now->best_microseconds > 0) {
        snprintf(best, sizeof best, ", best %.1f µs (default %.1f)", now->best_microseconds, now->default_microseconds);
    }
    progress_update(&watch->progress, now->compiled + now->failed + now->screened_out, now->candidates,
                    now->left_seconds, "%s: compiled %d, right %d, wrong %d, failed %d, out %d, timed %d%s",
                    stages[now->stage], now->compiled, now->verified, now->wrong, now->failed, now->screened_out,
                    now->timed, best);
}

/* a problem's own name, or "problem 2" */
static void add_label(struct table *table, const json_t *row, size_t index)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    if (name != NULL) {
        table_cell(table, "%s", name);
    } else {
        table_cell(table, "problem %zu", index + 1);
    }
}

static void print_counts(const json_t *results, bool timed)
{
    static const char *const counts[] = {"tried", "verified", "rejected"};
    struct table table;
    size_t index;
    json_t *row;
    table_begin(&table, timed ? "problem|target|>tried|>verified|>rejected|>default µs|>winner "
                                "µs|>TFLOP/s|>speed-up|winner"
                              : "problem|target|>tried|>verified|>rejected|winner");
    json_array_foreach(results, index, row)
    {
        double winner = json_real_value(json_object_get(row, "winner_microseconds"));
        double fallback = json_real_value(json_object_get(row, "default_microseconds"));
        add_label(&table, row, index);
        table_cell(&table, "%s", json_string_value(json_object_get(row, "target")));
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(row, counts[i])));
        }
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
    } texts[] = {{"count", "as many as --count says"},
                 {"budget", "the budget ended before the others"},
                 {"interrupted", "stopped before the others"},
                 {"device-lost", "the device stopped answering before the others"}};
    const char *ending = json_string_value(json_object_get(row, "ending"));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(ending, texts[i].ending) == 0) {
            printf("  %lld of %lld candidates were looked at: %s\n",
                   (long long)json_integer_value(json_object_get(row, "tried")),
                   (long long)json_integer_value(json_object_get(row, "candidates")), texts[i].text);
        }
    }
}

static void print_results(const json_t *results, const char *store)
{
    size_t index, at;
    json_t *row, *reason;
    bool timed = json_real_value(json_object_get(json_array_get(results, 0), "winner_microseconds")) > 0;
    print_counts(results, timed);
    json_array_foreach(results, index, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        printf("\n%s%s%s\n  winner: %s\n", name != NULL ? name : "", name != NULL ? ": " : "",
               json_string_value(json_object_get(row, "problem")), json_string_value(json_object_get(row, "winner")));
        long long other = (long long)json_integer_value(json_object_get(row, "from_other_compiler"));
        if (other > 0) {
            printf("  %lld objects of the same source by another compiler were taken from the store\n", other);
        }
        print_ending(row);
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

static attune_status tune_one(struct cli *cli, struct compiler_pool *pool, struct store *store,
                              const struct named_problem *item, const struct tune_options *settings, json_t *results,
                              struct error *error)
{
    struct tune_result result = {0};
    struct watch watch = {.name = item->name};
    progress_begin(&watch.progress);
    attune_status status =
        tune_run(cli->generator, pool, store, &item->problem, settings, report, &watch, &result, error);
    progress_end(&watch.progress);
    if (status == ATTUNE_OK) {
        json_t *row = json_object();
        if (item->name[0] != '\0') {
            json_set_text(row, "name", item->name);
        }
        describe(row, &result);
        json_array_append_new(results, row);
        tune_result_free(&result);
    }
    return status;
}

static attune_status run(struct cli *cli, struct error *error)
{
    const struct options *given = &cli->options;
    struct problem_list problems = {0};
    struct compiler_pool *pool = NULL;
    struct store *store = NULL;
    struct tune_options settings = {
        .device = options_text(given, "device"),
        .budget_seconds = options_real(given, "budget", 0),
        .budget_candidates = (int)options_whole(given, "count", 0),
        .strategy = options_text(given, "strategy"),
        .candidates = options_text(given, "candidates"),
        .seed = options_whole(given, "seed", 1),
        .candidate_seconds = options_real(given, "candidate-limit", 0),
        .retry_blocked = options_has(given, "retry-blocked"),
        .accept_stored = !options_has(given, "own-compiler"),
        .stop = &interrupted,
    };
    if (options_has(given, "resume")) {
        return error_set(error, ATTUNE_UNSUPPORTED,
                         "--resume is not there yet: run the same command again; objects already compiled are taken "
                         "from the store");
    }
    attune_status status = cli_problems(cli, &problems, error);
    if (status == ATTUNE_OK) {
        status = store_open(options_text(given, "store"), &store, error);
    }
    if (status == ATTUNE_OK) {
        status = compiler_pool_create(NULL, &pool, error);
    }
    struct failures failures = {0};
    json_t *results = json_array();
    signal(SIGINT, interrupt);
    int begun = 0;
    for (; begun < problems.count && status == ATTUNE_OK && !interrupted; begun++) {
        const int i = begun;
        struct error failure = {.message = ""};
        if (tune_one(cli, pool, store, &problems.items[i], &settings, results, &failure) != ATTUNE_OK) {
            failures_add(&failures, "tune", problems.count, &problems.items[i], &failure);
        }
    }
    if (status == ATTUNE_OK) {
        status = failures_status(&failures, problems.count, "problems could not be tuned", error);
    }
    if (status == ATTUNE_OK &&
        begun < problems.count) { /* what was found is kept, but not all was done that was asked */
        json_set_whole(cli->result, "not_begun", problems.count - begun);
        status = error_set(error, ATTUNE_TIMEOUT,
                           "interrupted: %d of %d problems were not begun, the first of them number %d",
                           problems.count - begun, problems.count, begun + 1);
    }
    json_object_set_new(cli->result, "results", results);
    if (store != NULL) {
        json_set_text(cli->result, "store", cli_store_place(store));
    }
    if (!cli->json && json_array_size(results) > 0) {
        print_results(results, cli_store_place(store));
    }
    if (pool != NULL) {
        compiler_pool_destroy(pool);
    }
    store_close(store);
    problem_list_free(&problems);
    return status;
}

const struct command command_tune = {
    .name = "tune",
    .usage = "--problem P | --problems FILE [--device D] [--budget TIME | --count N]",
    .summary = "find the fastest right candidate and keep it in the cache",
    .help =
        "Compiles candidates in parallel, screens them by resources, verifies each before it is timed, times the rest\n"
        "in interleaved rounds, and writes the winner's record and the journal of all outcomes into the cache.\n"
        "On the host device nothing is timed: the default wins among those verified.\n\n"
        "  attune tune --problems examples/problems/all.txt --budget 80s\n",
    .options = options,
    .run = run,
};
