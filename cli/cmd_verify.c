/* cmd_verify.c - `attune verify`: are candidates right? */
#include "autotune/verify.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/table.h"

#include <string.h>

static const struct option options[] = {
    CLI_OPTION_PROBLEM,
    {"problems", 0, OPTION_TEXT, false, "FILE", "a problem a line, # comments"},
    CLI_OPTION_DEVICE,
    {"target", 0, OPTION_TEXT, false, "T", "on host: run the text made for this target (gfx906, sm_90a)"},
    {"all-candidates", 0, OPTION_FLAG, false, NULL, "every valid candidate"},
    {"cover", 0, OPTION_COUNT, false, "N", "N candidates of a pairwise cover"},
    {"seed", 0, OPTION_SEED, false, "S", "chooses the cover and the inputs (default 1)"},
    {"schedule", 0, OPTION_TEXT, true, "S", "host: round-robin, greedy, reverse or all"},
    {"sanitize", 0, OPTION_TEXT, false, "S", "host: none, address or thread"},
    {"companions", 0, OPTION_FLAG, false, NULL,
     "host, sim:T: also the small calls that hold every edge; GPUs always get them"},
    {"candidate-limit", 0, OPTION_DURATION, false, "TIME",
     "of one launch of a candidate (default: 20 times the first right one's, at least 10s; of a simulator 600s)"},
    CLI_OPTION_STORE,
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    {0},
};

struct watch {
    struct cli *cli;
    struct progress progress;
    json_t *outcomes;
    int right, wrong, failed;
    int fewest, most, companions; /* calls of a right candidate; of them at other sizes, of the one with most */
    double worst_ratio;
};

static void report(void *data, const struct verify_outcome *outcome, int done, int total)
{
    struct watch *watch = data;
    bool right = strcmp(outcome->outcome, "right") == 0;
    bool wrong = strcmp(outcome->outcome, "wrong") == 0;
    watch->right += right;
    watch->wrong += wrong;
    watch->failed += !right && !wrong;
    if (right) {
        watch->fewest = watch->right == 1 || outcome->calls < watch->fewest ? outcome->calls : watch->fewest;
        watch->most = outcome->calls > watch->most ? outcome->calls : watch->most;
        watch->companions = outcome->companions > watch->companions ? outcome->companions : watch->companions;
    }
    if (outcome->worst_ratio > watch->worst_ratio) {
        watch->worst_ratio = outcome->worst_ratio;
    }
    json_t *row = json_object();
    json_set_text(row, "candidate", outcome->candidate);
    json_set_text(row, "id", outcome->id);
    json_set_text(row, "schedule", outcome->schedule);
    json_set_text(row, "outcome", outcome->outcome);
    json_set_real(row, "worst_ratio", outcome->worst_ratio);
    json_set_whole(row, "calls", outcome->calls);
    json_set_whole(row, "companions", outcome->companions);
    json_set_text(row, "reason", outcome->reason);
    json_array_append_new(watch->outcomes, row);
    progress_update(&watch->progress, done, total, -1, "right %d, wrong %d, failed %d", watch->right, watch->wrong,
                    watch->failed);
}

static attune_status parse_schedules(struct cli *cli, bool schedules[3], struct error *error)
{
    const char *text;
    for (int i = 0; (text = options_nth(&cli->options, "schedule", i)) != NULL; i++) {
        enum host_schedule schedule = HOST_ROUND_ROBIN;
        if (strcmp(text, "all") == 0) {
            schedules[0] = schedules[1] = schedules[2] = true;
            continue;
        }
        attune_status status = host_schedule_parse(text, &schedule, error);
        if (status != ATTUNE_OK) {
            return error_prefix(error, "--schedule");
        }
        schedules[schedule] = true;
    }
    return ATTUNE_OK;
}

static attune_status read_options(struct cli *cli, struct verify_options *settings, struct error *error)
{
    const struct options *given = &cli->options;
    *settings = (struct verify_options){
        .device = options_text(given, "device"),
        .target = options_text(given, "target"),
        .all_candidates = options_has(given, "all-candidates"),
        .cover = (int)options_whole(given, "cover", 0),
        .seed = options_whole(given, "seed", 1),
        .companions = options_has(given, "companions"),
        .candidate_seconds = options_real(given, "candidate-limit", 0),
    };
    if (settings->all_candidates && settings->cover > 0) {
        return error_set(error, ATTUNE_INVALID, "--all-candidates and --cover are both given: give one of them");
    }
    if (given->positional_count > 0 && (settings->all_candidates || settings->cover > 0)) {
        return error_set(error, ATTUNE_INVALID, "'%s' chooses one candidate: leave out --all-candidates and --cover",
                         given->positionals[0]);
    }
    attune_status status = parse_schedules(cli, settings->schedules, error);
    if (status == ATTUNE_OK && settings->target != NULL) {
        struct target target;
        status = cli_target(cli, settings->target, &target, error);
    }
    if (status == ATTUNE_OK) {
        status = cli_known_device(cli, settings->device, error);
    }
    return status == ATTUNE_OK ? cli_sanitize(options_text(given, "sanitize"), &settings->sanitize, error) : status;
}

enum { REASON_SHOWN_BYTES = 400 };

/* the first lines of a compiler's or a sanitizer's report in one cell; --json has more of it */
static void add_reason(struct table *table, const char *reason)
{
    char shown[REASON_SHOWN_BYTES + 8];
    size_t length = 0;
    for (; *reason != '\0' && length < REASON_SHOWN_BYTES; reason++) {
        bool blank = *reason == '\n' || *reason == '\t' || *reason == ' ';
        if (!blank) {
            shown[length++] = *reason;
        } else if (length > 0 && shown[length - 1] != ' ') {
            shown[length++] = ' ';
        }
    }
    while (*reason != '\0' && length > 0 && ((unsigned char)shown[length - 1] & 0x80) != 0) {
        length--; /* no half of a character */
    }
    snprintf(shown + length, sizeof shown - length, "%s", *reason != '\0' ? "..." : "");
    table_cell(table, "%s", shown);
}

/* infinity is null in JSON; what never got as far as numbers has no error */
static void add_ratio(struct table *table, const json_t *row, const char *outcome)
{
    const json_t *ratio = json_object_get(row, "worst_ratio");
    if (strcmp(outcome, "wrong") != 0) {
        table_cell(table, "-");
    } else if (json_is_null(ratio)) {
        table_cell(table, "inf");
    } else {
        table_cell(table, "%.3g", json_real_value(ratio));
    }
}

static void print_failures(const json_t *outcomes)
{
    struct table table;
    size_t index;
    json_t *row;
    int rows = 0;
    table_begin(&table, "outcome|id|schedule|>error/allowed|reason|candidate");
    json_array_foreach(outcomes, index, row)
    {
        const char *outcome = json_string_value(json_object_get(row, "outcome"));
        if (strcmp(outcome, "right") != 0) {
            table_cell(&table, "%s", outcome);
            table_cell(&table, "%s", json_string_value(json_object_get(row, "id")));
            table_cell(&table, "%s", json_string_value(json_object_get(row, "schedule")));
            add_ratio(&table, row, outcome);
            add_reason(&table, json_string_value(json_object_get(row, "reason")));
            table_cell(&table, "%s", json_string_value(json_object_get(row, "candidate")));
            rows++;
        }
    }
    table_end(&table, rows > 0 ? stdout : NULL);
}

static void print_result(const struct watch *watch, const char *name, int right, int total)
{
    printf("%s: %d of %d right", name, right, total);
    if (watch->right + watch->wrong > 0) {
        printf(", largest error %.2g of what is allowed", watch->worst_ratio);
    }
    if (watch->most > 0) {
        char fewest[16] = "";
        if (watch->fewest < watch->most) {
            snprintf(fewest, sizeof fewest, "%d to ", watch->fewest);
        }
        printf(", %s%d calls a candidate", fewest, watch->most);
    }
    if (watch->companions > 0) {
        printf(", %d of them companions", watch->companions);
    }
    putchar('\n');
    print_failures(watch->outcomes);
}

static attune_status verify_one(struct cli *cli, struct compiler_pool *pool, const struct named_problem *item,
                                struct verify_options *settings, json_t *results, struct error *error)
{
    struct watch watch = {.cli = cli, .outcomes = json_array()};
    char text[PROBLEM_TEXT_BYTES] = "";
    int right = 0, total = 0;
    problem_format(&item->problem, text, NULL);
    progress_begin(&watch.progress);
    attune_status status =
        verify_run(cli->generator, pool, &item->problem, settings, report, &watch, &right, &total, error);
    progress_end(&watch.progress);
    json_t *row = json_object();
    if (item->name[0] != '\0') {
        json_set_text(row, "name", item->name);
    }
    json_set_text(row, "problem", text);
    json_set_whole(row, "right", right);
    json_set_whole(row, "total", total);
    json_set_real(row, "worst_ratio", watch.worst_ratio);
    json_object_set_new(row, "outcomes", watch.outcomes);
    if (status != ATTUNE_OK) {
        json_t *failure = json_object();
        json_set_text(failure, "status", attune_status_name(status));
        json_set_text(failure, "message", error->message);
        json_object_set_new(row, "error", failure);
    }
    json_array_append_new(results, row);
    if (!cli->json && json_array_size(watch.outcomes) > 0) {
        print_result(&watch, item->name[0] != '\0' ? item->name : text, right, total);
    }
    return status;
}

static attune_status run(struct cli *cli, struct error *error)
{
    struct verify_options settings;
    struct problem_list problems = {0};
    struct compiler_pool *pool = NULL;
    struct store *store = NULL;
    char parameters[CANDIDATE_TEXT_BYTES];
    attune_status status = read_options(cli, &settings, error);
    if (status == ATTUNE_OK) {
        status = cli_problems(cli, &problems, error);
    }
    if (status == ATTUNE_OK) {
        status = cli_parameters(cli, 0, parameters, error);
        settings.candidate = parameters[0] != '\0' ? parameters : NULL;
    }
    if (status == ATTUNE_OK) {
        status = store_open(options_text(&cli->options, "store"), &store, error);
        settings.notes = store; /* what is found wrong is served to nobody */
    }
    if (status == ATTUNE_OK) {
        status = compiler_pool_create(NULL, &pool, error);
    }
    for (int i = 0; i < problems.count && status == ATTUNE_OK; i++) {
        status = verify_accepts(&settings, &problems.items[i].problem, error);
    }
    struct failures failures = {0};
    bool wrong = false;
    json_t *results = json_array();
    for (int i = 0; i < problems.count && status == ATTUNE_OK; i++) {
        struct error failure = {0};
        attune_status one = verify_one(cli, pool, &problems.items[i], &settings, results, &failure);
        wrong |= one == ATTUNE_WRONG;
        if (one != ATTUNE_OK) {
            failures_add(&failures, "verify", problems.count, &problems.items[i], &failure);
        }
    }
    if (status == ATTUNE_OK) {
        status = failures_status(&failures, problems.count, "problems failed", error);
    }
    if (wrong) { /* whatever failed first */
        error->status = status = ATTUNE_WRONG;
    }
    json_object_set_new(cli->result, "results", results);
    if (pool != NULL) {
        compiler_pool_destroy(pool);
    }
    store_close(store);
    problem_list_free(&problems);
    return status;
}

const struct command command_verify = {
    .name = "verify",
    .usage = "--problem P [--device D] [--all-candidates | --cover N | name=value ...]",
    .summary = "are candidates right? against the fp64 reference, on poisoned and guarded outputs",
    .help =
        "Runs the default candidate, one that name=value choose, a pairwise cover, or all of them, on three kinds of\n"
        "inputs, and holds every row against the numerical contract. Exit code 4 when numbers are wrong.\n\n"
        "  attune verify --problem \"dtype=f16 batch=1 heads=4 seqlen_q=77 seqlen_k=201 head_dim=64 causal=1\" \\\n"
        "    --device host --target gfx906 --cover 60 --seed 1 --schedule all\n",
    .options = options,
    .positional_minimum = 0,
    .positional_maximum = -1,
    .run = run,
};
