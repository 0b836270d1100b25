/* cmd_params.c - `attune params`: a family's parameters, what is alive for a problem and target, and why the rest is
 * not. */
#include "autotune/plan_order.h"
#include "cli/cli.h"
#include "cli/table.h"

#include <string.h>

static const struct option options[] = {
    CLI_OPTION_PROBLEM,
    CLI_OPTION_TARGET,
    {"list", 0, OPTION_FLAG, false, NULL,
     "candidate names, one a line, in the order in which `tune --strategy exhaustive` tries them"},
    {"count", 0, OPTION_COUNT, false, "N", "with --list: the first N"},
    {"seed", 0, OPTION_SEED, false, "S", "with --list: tune's seed (default 1)"},
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    {0},
};

/* a JSON scalar as people write it */
static void append_scalar(struct buffer *text, const json_t *value)
{
    if (json_is_string(value)) {
        buffer_text(text, json_string_value(value));
    } else if (json_is_integer(value)) {
        buffer_format(text, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        buffer_format(text, "%g", json_real_value(value));
    } else if (json_is_boolean(value)) {
        buffer_text(text, json_is_true(value) ? "true" : "false");
    }
}

static void append_list(struct buffer *text, const json_t *list)
{
    size_t index;
    json_t *value;
    json_array_foreach(list, index, value)
    {
        buffer_text(text, index > 0 ? " " : "");
        append_scalar(text, value);
    }
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static void print_parameters(const json_t *parameters, bool judged)
{
    struct table table;
    struct buffer cell = BUFFER_INIT;
    size_t index;
    json_t *parameter;
    table_begin(&table,
                judged ? "  parameter|values (alive)|default|what it is" : "  parameter|values|default|what it is");
    json_array_foreach(parameters, index, parameter)
    {
        table_cell(&table, "  %s", text_of(parameter, "name"));
        buffer_clear(&cell);
        append_list(&cell, json_object_get(parameter, judged ? "live" : "domain"));
        table_cell(&table, "%s", buffer_string(&cell));
        buffer_clear(&cell);
        append_scalar(&cell, json_object_get(parameter, "default"));
        table_cell(&table, "%s", cell.length > 0 ? buffer_string(&cell) : "-");
        table_cell(&table, "%s", text_of(parameter, "doc"));
    }
    table_end(&table, stdout);
    json_array_foreach(parameters, index, parameter)
    {
        size_t at;
        json_t *dead;
        json_array_foreach(json_object_get(parameter, "dead"), at, dead)
        {
            buffer_clear(&cell);
            append_scalar(&cell, json_object_get(dead, "value"));
            printf("  %s=%s is out: %s\n", text_of(parameter, "name"), buffer_string(&cell), text_of(dead, "reason"));
        }
    }
    buffer_free(&cell);
}

static void print_template(const json_t *template, bool judged)
{
    printf("\ntemplate %s - %s\n", text_of(template, "name"), text_of(template, "doc"));
    const char *refused = json_string_value(json_object_get(template, "reason"));
    if (refused != NULL) {
        printf("  cannot serve this problem: %s\n", refused);
        return;
    }
    print_parameters(json_object_get(template, "parameters"), judged);
    if (!judged) {
        return;
    }
    printf("  %lld points, %lld valid\n", (long long)json_integer_value(json_object_get(template, "points")),
           (long long)json_integer_value(json_object_get(template, "valid")));
    const json_t *rejected = json_object_get(template, "rejected");
    if (json_array_size(rejected) == 0) {
        return;
    }
    struct table table;
    size_t index;
    json_t *row;
    table_begin(&table, ">  rejected|because|for example");
    json_array_foreach(rejected, index, row)
    {
        table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(row, "count")));
        table_cell(&table, "%s", text_of(row, "reason"));
        table_cell(&table, "%s", text_of(json_object_get(row, "example"), "reason"));
    }
    table_end(&table, stdout);
}

static attune_status check_family(struct cli *cli, const char *family, const struct problem *problem,
                                  struct error *error)
{
    if (problem != NULL && strcmp(problem->schema->family, family) != 0) {
        return error_set(error, ATTUNE_INVALID, "--problem is of family %s, but FAMILY is %s: name the same",
                         problem->schema->family, family);
    }
    if (generator_schema(cli->generator, family) == NULL) {
        return error_set(error, ATTUNE_INVALID, "unknown family '%s': `attune families` lists those there are", family);
    }
    return ATTUNE_OK;
}

/* what `tune --candidates` and `compile --space --candidates` read */
static attune_status list_candidates(struct cli *cli, const struct problem *problem, const struct target *target,
                                     struct error *error)
{
    struct candidate_list list = {0};
    attune_status status =
        plan_order(cli->generator, problem, target, PLAN_SPACE, NULL, options_whole(&cli->options, "seed", 1),
                   (int)options_whole(&cli->options, "count", 0), &list, error);
    json_t *names = json_array();
    for (int i = 0; i < list.count && status == ATTUNE_OK; i++) {
        char name[CANDIDATE_TEXT_BYTES];
        candidate_format(&list.items[i], name);
        json_array_append_new(names, json_string(name));
        if (!cli->json) {
            printf("%s\n", name);
        }
    }
    json_object_set_new(cli->result, "candidates", names);
    candidate_list_free(&list);
    return status;
}

static attune_status check_options(const struct options *given, struct error *error)
{
    bool judged = options_has(given, "problem"), list = options_has(given, "list");
    if (judged != options_has(given, "target")) {
        return error_set(error, ATTUNE_INVALID, "--problem and --target go together: %s is missing",
                         judged ? "--target" : "--problem");
    }
    if (list && !judged) {
        return error_set(error, ATTUNE_INVALID, "--list needs --problem and --target");
    }
    if (!list && (options_has(given, "count") || options_has(given, "seed"))) {
        return error_set(error, ATTUNE_INVALID, "--count and --seed go with --list");
    }
    return ATTUNE_OK;
}

static attune_status run(struct cli *cli, struct error *error)
{
    const char *family = cli->options.positionals[0];
    struct problem problem;
    struct target target;
    bool judged = options_has(&cli->options, "problem");
    attune_status status = check_options(&cli->options, error);
    if (status == ATTUNE_OK) {
        status = cli_generator(cli, error);
    }
    if (status == ATTUNE_OK && judged) {
        status = cli_problem(cli, &problem, error);
    }
    if (status == ATTUNE_OK && judged) {
        status = cli_target(cli, options_text(&cli->options, "target"), &target, error);
    }
    if (status == ATTUNE_OK) {
        status = check_family(cli, family, judged ? &problem : NULL, error);
    }
    json_t *space = NULL;
    if (status == ATTUNE_OK && options_has(&cli->options, "list")) {
        return list_candidates(cli, &problem, &target, error);
    }
    if (status == ATTUNE_OK) {
        status =
            generator_params(cli->generator, family, judged ? &problem : NULL, judged ? &target : NULL, &space, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    if (judged) {
        char text[PROBLEM_TEXT_BYTES], name[TARGET_TEXT_BYTES];
        target_format(&target, name);
        if (problem_format(&problem, text, error) == ATTUNE_OK) {
            json_set_text(cli->result, "problem", text);
        }
        json_set_text(cli->result, "target", name);
    }
    json_object_update(cli->result, space);
    if (!cli->json) {
        size_t index;
        json_t *template;
        printf("%s\n", family);
        json_array_foreach(json_object_get(space, "templates"), index, template)
        {
            print_template(template, judged);
        }
    }
    json_decref(space);
    return ATTUNE_OK;
}

const struct command command_params = {
    .name = "params",
    .usage = "FAMILY [--problem P --target T [--list]]",
    .summary = "a family's parameters, which values are alive, and why others are not",
    .help =
        "Without a problem: the parameters of each template with their domains. With a problem and a target: which\n"
        "values some valid candidate has, how many candidates there are, and the reason of every rejection.\n\n"
        "  attune params attention.forward --target gfx906 \\\n"
        "    --problem \"dtype=f16 batch=1 heads=32 seqlen_q=2048 head_dim=128 causal=1\"\n",
    .options = options,
    .positional_minimum = 1,
    .positional_maximum = 1,
    .run = run,
};
