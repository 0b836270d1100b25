/* cmd_show.c - `attune show`: the generated source of a candidate. */
#include "cli/cli.h"

#include <string.h>

static const struct option options[] = {
    CLI_OPTION_PROBLEM,
    CLI_OPTION_TARGET,
    {"compiled", 0, OPTION_FLAG, false, NULL, "the text a compiler gets: vocabulary in front and #line directives"},
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    {0},
};

/* A family shown without a problem: every required field gets a value that is legal for it. Run-time sizes do not reach
 * the text, so only the head size is a choice of ours, and it is told. */
static attune_status example_problem(struct cli *cli, const char *family, struct problem *problem, struct error *error)
{
    const struct schema *schema = generator_schema(cli->generator, family);
    if (schema == NULL) {
        return error_set(error, ATTUNE_INVALID, "unknown family '%s': `attune families` lists those there are", family);
    }
    struct buffer text = BUFFER_INIT;
    buffer_text(&text, family);
    for (int i = 0; i < schema->field_count; i++) {
        const struct field *field = &schema->fields[i];
        if (!field->required) {
            continue;
        }
        if (field->kind == FIELD_INTEGER) {
            int64_t value = field->minimum > 64 ? field->minimum : field->maximum < 64 ? field->maximum : 64;
            buffer_format(&text, " %s=%lld", field->name, (long long)value);
        } else if (field->kind == FIELD_REAL) {
            buffer_format(&text, " %s=%g", field->name, field->real_minimum);
        } else {
            buffer_format(&text, " %s=%s", field->name, field->choices[0]);
        }
    }
    attune_status status = buffer_ok(&text, error);
    if (status == ATTUNE_OK) {
        status = problem_parse(schema, buffer_string(&text), problem, error);
    }
    if (status == ATTUNE_OK && !cli->json) {
        fprintf(stderr, "attune show: no --problem given, so for example: %s\n", buffer_string(&text));
    }
    buffer_free(&text);
    return status;
}

/* FAMILY is the first positional unless that is already name=value */
static attune_status choose_problem(struct cli *cli, int *first_parameter, struct problem *problem, struct error *error)
{
    const char *first = cli->options.positional_count > 0 ? cli->options.positionals[0] : NULL;
    bool named = first != NULL && strchr(first, '=') == NULL && strchr(first, '/') == NULL;
    *first_parameter = named;
    if (!options_has(&cli->options, "problem")) {
        if (!named) {
            return error_set(error, ATTUNE_INVALID, "name a FAMILY (`attune families`) or give --problem");
        }
        return example_problem(cli, first, problem, error);
    }
    attune_status status = cli_problem(cli, problem, error);
    if (status == ATTUNE_OK && named && strcmp(first, problem->schema->family) != 0) {
        status = error_set(error, ATTUNE_INVALID, "--problem is of family %s, but FAMILY is %s: name the same",
                           problem->schema->family, first);
    }
    return status;
}

static attune_status show(struct cli *cli, const struct candidate *candidate, const struct problem *problem,
                          const struct target *target, struct error *error)
{
    struct expansion expansion = {0};
    attune_status status = candidate_expand(cli->generator, candidate, problem, target, &expansion, error);
    if (status == ATTUNE_OK) {
        const struct buffer *text = options_has(&cli->options, "compiled") ? &expansion.compile : &expansion.shown;
        char name[CANDIDATE_TEXT_BYTES], id[CANDIDATE_ID_BYTES], digest[DIGEST_HEX_BYTES];
        char problem_text[PROBLEM_TEXT_BYTES], target_text[TARGET_TEXT_BYTES];
        candidate_format(candidate, name);
        candidate_id(candidate, id);
        digest_hex(&expansion.template_digest, digest);
        target_format(target, target_text);
        problem_format(problem, problem_text, NULL);
        json_set_text(cli->result, "problem", problem_text);
        json_set_text(cli->result, "target", target_text);
        json_set_text(cli->result, "candidate", name);
        json_set_text(cli->result, "id", id);
        json_set_text(cli->result, "template_digest", digest);
        json_object_set_new(cli->result, "launch", launch_to_json(&expansion.launch));
        json_set_text(cli->result, "source", buffer_string(text));
        if (!cli->json) {
            fwrite(buffer_string(text), 1, text->length, stdout);
        }
    }
    expansion_free(&expansion);
    return status;
}

static attune_status run(struct cli *cli, struct error *error)
{
    struct problem problem;
    struct target target;
    struct candidate candidate;
    char parameters[CANDIDATE_TEXT_BYTES];
    int first_parameter = 0;
    attune_status status = cli_generator(cli, error);
    if (status == ATTUNE_OK) {
        status = choose_problem(cli, &first_parameter, &problem, error);
    }
    if (status == ATTUNE_OK) {
        status = cli_target(cli, options_text(&cli->options, "target"), &target, error);
    }
    if (status == ATTUNE_OK) {
        status = cli_parameters(cli, first_parameter, parameters, error);
    }
    if (status == ATTUNE_OK) {
        status = cli_candidate(cli, parameters, &problem, &target, &candidate, error);
    }
    return status == ATTUNE_OK ? show(cli, &candidate, &problem, &target, error) : status;
}

const struct command command_show = {
    .name = "show",
    .usage = "FAMILY|--problem P --target T [name=value ...]",
    .summary = "the generated source of a candidate",
    .help = "Prints the kernel that a candidate expands to: the default's, with the parameters given changed.\n\n"
            "  attune show attention.forward --target gfx906 prefetch=off\n",
    .options = options,
    .positional_minimum = 0,
    .positional_maximum = -1,
    .run = run,
};
