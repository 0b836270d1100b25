/* cmd_families.c - `attune families`: what can be computed, and the fields of a problem. */
#include "cli/cli.h"
#include "cli/table.h"

#include <string.h>

static const struct option options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, {0}};

static const char *role_name(enum field_role role)
{
    static const char *const names[] = {
        [FIELD_COMPILED] = "compiled", [FIELD_OPTION] = "option", [FIELD_SIZE] = "size", [FIELD_SCALAR] = "scalar"};
    return names[role];
}

/* reals up to fp32's largest are as good as unbounded */
#define UNBOUNDED 3.4e38

/* "1..256", "f16 bf16 f32", "0..1", "0.." */
static void format_domain(const struct field *field, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    if (field->kind == FIELD_INTEGER) {
        snprintf(text, bytes, "%lld..%lld", (long long)field->minimum, (long long)field->maximum);
    } else if (field->kind == FIELD_REAL) {
        char minimum[32] = "", maximum[32] = "";
        if (field->real_minimum > -UNBOUNDED) {
            snprintf(minimum, sizeof minimum, "%g", field->real_minimum);
        }
        if (field->real_maximum < UNBOUNDED) {
            snprintf(maximum, sizeof maximum, "%g", field->real_maximum);
        }
        snprintf(text, bytes, "%s..%s", minimum, maximum);
    }
    for (int i = 0; field->kind == FIELD_CHOICE && i < field->choice_count && used < bytes; i++) {
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i > 0 ? " " : "", field->choices[i]);
    }
}

static void format_fallback(const struct field *field, char *text, size_t bytes)
{
    if (field->required) {
        snprintf(text, bytes, "required");
    } else if (field->follows[0] != '\0') {
        snprintf(text, bytes, "%s's", field->follows);
    } else if (field->kind == FIELD_INTEGER && field->fallback.integer < field->minimum) {
        snprintf(text, bytes, "computed");
    } else if (field->kind == FIELD_CHOICE) {
        snprintf(text, bytes, "%s", field->choices[field->fallback.integer]);
    } else if (field->kind == FIELD_REAL) {
        snprintf(text, bytes, "%g", field->fallback.real);
    } else {
        snprintf(text, bytes, "%lld", (long long)field->fallback.integer);
    }
}

static void print_family(const char *name, const char *doc, const struct schema *schema)
{
    struct table table;
    printf("%s - %s\n\n", name, doc);
    table_begin(&table, "  field|role|domain|default|what it is");
    for (int i = 0; i < schema->field_count; i++) {
        char domain[256], fallback[FIELD_NAME_BYTES + 2];
        format_domain(&schema->fields[i], domain, sizeof domain);
        format_fallback(&schema->fields[i], fallback, sizeof fallback);
        table_cell(&table, "  %s", schema->fields[i].name);
        table_cell(&table, "%s", role_name(schema->fields[i].role));
        table_cell(&table, "%s", domain);
        table_cell(&table, "%s", fallback);
        table_cell(&table, "%s", schema->fields[i].doc);
    }
    table_end(&table, stdout);
    for (int i = 0; i < schema->ratio_count; i++) {
        const struct schema_ratio *ratio = &schema->ratios[i];
        printf("  %s = %s / %s, compiled in; must divide\n", ratio->name, schema->fields[ratio->numerator].name,
               schema->fields[ratio->denominator].name);
    }
    putchar('\n');
}

static attune_status run(struct cli *cli, struct error *error)
{
    attune_status status = cli_generator(cli, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    json_t *families = json_array();
    for (int i = 0; i < generator_family_count(cli->generator); i++) {
        const char *name = generator_family_name(cli->generator, i);
        const struct schema *schema = generator_schema(cli->generator, name);
        json_t *family = json_object();
        json_set_text(family, "family", name);
        json_set_text(family, "doc", generator_family_doc(cli->generator, i));
        json_set_flag(family, "built_in", schema->built_in);
        json_t *described = schema_to_json(schema);
        json_object_set(family, "fields", json_object_get(described, "fields"));
        json_object_set(family, "ratios", json_object_get(described, "ratios"));
        json_decref(described);
        json_array_append_new(families, family);
        if (!cli->json) {
            print_family(name, generator_family_doc(cli->generator, i), schema);
        }
    }
    json_object_set_new(cli->result, "families", families);
    return ATTUNE_OK;
}

const struct command command_families = {
    .name = "families",
    .usage = "",
    .summary = "kernel families and the fields of their problems",
    .help = "Lists the families, embedded ones and those found in ATTUNE_TEMPLATE_PATH, with every field of their\n"
            "problems: its role (compiled in, option, run-time size or scalar), domain and default.\n",
    .options = options,
    .run = run,
};
