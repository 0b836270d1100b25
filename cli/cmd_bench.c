/* cmd_bench.c - `attune bench`: time of the default candidate and of the plan that a caller would get. */
#include "autotune/tune.h"
#include "cache/store.h"
#include "cli/session.h"
#include "cli/table.h"
#include "runtime/simulator.h"

#include <string.h>

static const struct option options[] = {
    CLI_OPTION_PROBLEM,
    {"problems", 0, OPTION_TEXT, false, "FILE", "a problem a line, # comments"},
    CLI_OPTION_DEVICE,
    {"target", 0, OPTION_ELSEWHERE, false, NULL,
     "times are those of the GPU that is here; `attune compile --target T --asm --loop` tells what a loop costs by "
     "published rates"},
    CLI_OPTION_STORE,
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    {0},
};

struct bench {
    struct cli *cli;
    struct session session;
    struct store *store;
    struct target target;
    json_t *rows; /* of the problem at hand */
};

/* The plan names its object; the launch descriptor comes from the same candidate's expansion. */
static attune_status time_plan(struct bench *bench, const struct problem *problem, const attune_plan_info *info,
                               struct bench_result *result, struct error *error)
{
    struct digest object;
    struct object_header header;
    struct buffer bytes = BUFFER_INIT;
    struct candidate candidate;
    struct expansion expansion = {0};
    attune_status status = ATTUNE_OK;
    if (digest_from_hex(info->object, strlen(info->object), &object) != ATTUNE_OK) {
        return error_set(error, ATTUNE_INTERNAL, "the plan's object name '%s' is no digest", info->object);
    }
    status = store_object_get(bench->store, &object, &header, &bytes, error);
    if (status == ATTUNE_OK) {
        status = candidate_parse(bench->cli->generator, info->candidate, problem, &bench->target, &candidate, error);
    }
    if (status == ATTUNE_OK) {
        status = candidate_expand(bench->cli->generator, &candidate, problem, &bench->target, &expansion, error);
    }
    if (status == ATTUNE_OK) {
        status = bench_run(bench->cli->generator, problem, bench->session.driver, bench->session.ordinal, bytes.data,
                           bytes.length, &expansion.launch, result, error);
    }
    expansion_free(&expansion);
    buffer_free(&bytes);
    return status;
}

static attune_status bench_candidate(struct bench *bench, const struct problem *problem, const char *what,
                                     const char *candidate, struct error *error)
{
    attune_plan *plan = NULL;
    attune_plan_info info;
    struct bench_result result = {0};
    attune_status status = session_prepare(&bench->session, problem, candidate, &plan, &info, error);
    if (status == ATTUNE_OK) {
        status = time_plan(bench, problem, &info, &result, error);
    }
    attune_plan_destroy(plan);
    if (status != ATTUNE_OK) {
        return status;
    }
    json_t *row = json_object();
    json_set_text(row, "what", what);
    json_object_set_new(row, "plan", describe_plan(&info));
    json_set_real(row, "microseconds", result.microseconds);
    json_set_real(row, "spread_microseconds", result.spread);
    json_set_whole(row, "rounds", result.rounds);
    json_set_real(row, "operations", result.operations);
    json_set_real(row, "bytes", result.bytes);
    json_set_real(row, "tflops", result.operations / result.microseconds * 1e-6);
    json_set_real(row, "gigabytes_per_second", result.bytes / result.microseconds * 1e-3);
    json_array_append_new(bench->rows, row);
    return ATTUNE_OK;
}

static attune_status bench_problem(struct bench *bench, const struct problem *problem, const char *parameters,
                                   struct error *error)
{
    if (parameters[0] != '\0') {
        return bench_candidate(bench, problem, "given", parameters, error);
    }
    struct candidate candidate;
    char name[CANDIDATE_TEXT_BYTES];
    attune_status status = candidate_default(bench->cli->generator, problem, &bench->target, &candidate, error);
    if (status == ATTUNE_OK) {
        candidate_format(&candidate, name);
        status = bench_candidate(bench, problem, "default", name, error);
    }
    return status == ATTUNE_OK ? bench_candidate(bench, problem, "plan", NULL, error) : status;
}

static void print_results(const json_t *results)
{
    struct table table;
    size_t index, at;
    json_t *result, *row;
    table_begin(&table, "problem|what|rung|>time µs|>± µs|>TFLOP/s|>GB/s|id|candidate");
    json_array_foreach(results, index, result)
    {
        const char *name = json_string_value(json_object_get(result, "name"));
        json_array_foreach(json_object_get(result, "times"), at, row)
        {
            const json_t *plan = json_object_get(row, "plan");
            if (name != NULL) {
                table_cell(&table, "%s", name);
            } else {
                table_cell(&table, "problem %zu", index + 1);
            }
            table_cell(&table, "%s", json_string_value(json_object_get(row, "what")));
            table_cell(&table, "%s", json_string_value(json_object_get(plan, "rung")));
            table_cell(&table, "%.1f", json_real_value(json_object_get(row, "microseconds")));
            table_cell(&table, "%.1f", json_real_value(json_object_get(row, "spread_microseconds")));
            table_cell(&table, "%.1f", json_real_value(json_object_get(row, "tflops")));
            table_cell(&table, "%.0f", json_real_value(json_object_get(row, "gigabytes_per_second")));
            table_cell(&table, "%s", json_string_value(json_object_get(plan, "id")));
            table_cell(&table, "%s", json_string_value(json_object_get(plan, "candidate")));
        }
    }
    table_end(&table, stdout);
}

static attune_status open_bench(struct bench *bench, struct error *error)
{
    struct driver_device device;
    const char *name = options_text(&bench->cli->options, "device");
    if (simulator_is_named(name)) { /* whether or not there is one */
        return error_set(error, ATTUNE_NO_DEVICE,
                         "%.100s says nothing about speed and is not timed: --device cuda:0 or hip:0", name);
    }
    attune_status status = session_open(bench->cli, ATTUNE_JIT_FROM_ENVIRONMENT, &bench->session, error);
    if (status == ATTUNE_OK && !driver_has_times(bench->session.driver)) {
        status = error_set(error, ATTUNE_NO_DEVICE,
                           "the host device says nothing about speed and is not timed: --device cuda:0 or hip:0");
    }
    if (status == ATTUNE_OK) {
        status = bench->session.driver->describe(bench->session.driver, bench->session.ordinal, &device, error);
    }
    if (status == ATTUNE_OK) {
        bench->target = device.target;
        status = store_open(options_text(&bench->cli->options, "store"), &bench->store, error);
    }
    if (status == ATTUNE_OK && store_path(bench->store)[0] == '\0') {
        status = cli_no_folder(bench->store, error);
    }
    return status;
}

static attune_status run(struct cli *cli, struct error *error)
{
    struct bench bench = {.cli = cli};
    struct problem_list problems = {0};
    char parameters[CANDIDATE_TEXT_BYTES];
    attune_status status = cli_problems(cli, &problems, error);
    if (status == ATTUNE_OK) {
        status = cli_parameters(cli, 0, parameters, error);
    }
    if (status == ATTUNE_OK) {
        status = open_bench(&bench, error);
    }
    json_t *results = json_array();
    for (int i = 0; i < problems.count && status == ATTUNE_OK; i++) {
        char text[PROBLEM_TEXT_BYTES] = "";
        json_t *row = json_object();
        problem_format(&problems.items[i].problem, text, NULL);
        if (problems.items[i].name[0] != '\0') {
            json_set_text(row, "name", problems.items[i].name);
        }
        json_set_text(row, "problem", text);
        bench.rows = json_array();
        json_object_set_new(row, "times", bench.rows);
        json_array_append_new(results, row);
        status = bench_problem(&bench, &problems.items[i].problem, parameters, error);
    }
    json_object_set_new(cli->result, "results", results);
    if (!cli->json && status == ATTUNE_OK) {
        print_results(results);
    }
    store_close(bench.store);
    session_close(&bench.session);
    problem_list_free(&problems);
    return status;
}

const struct command command_bench = {
    .name = "bench",
    .usage = "--problem P | --problems FILE [--device D] [name=value ...]",
    .summary = "time the default candidate and the plan that a caller would get",
    .help = "Median times over rounds with rotated buffers and warm clocks. With name=value only that candidate.\n"
            "GPUs only: the host device says nothing about speed.\n\n"
            "  attune bench --problems examples/problems/all.txt\n",
    .options = options,
    .positional_minimum = 0,
    .positional_maximum = -1,
    .run = run,
};
