/* cmd_target.c - `attune target`: what attune knows of each processor, how it is known and where from. */
#include "cli/cli.h"
#include "cli/table.h"

#include <string.h>

static const struct option options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, {0}};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static int64_t whole_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* "64 KiB", "yes", "1024", "mfma" */
static void format_value(const json_t *value, const char *unit, char text[64])
{
    if (json_is_boolean(value)) {
        snprintf(text, 64, "%s", json_is_true(value) ? "yes" : "no");
    } else if (!json_is_integer(value)) {
        snprintf(text, 64, "%s", json_string_value(value));
    } else if (strcmp(unit, "bytes") == 0 && json_integer_value(value) >= 1024) {
        char bytes[32];
        format_bytes((uint64_t)json_integer_value(value), bytes);
        snprintf(text, 64, "%s", bytes);
    } else {
        snprintf(text, 64, "%lld%s%s", (long long)json_integer_value(value), unit[0] != '\0' ? " " : "", unit);
    }
}

/* ---- all targets ---- */

static void add_row(struct table *table, const json_t *facts)
{
    char shared[32], prefetch[64] = "registers";
    format_bytes((uint64_t)whole_of(facts, "lds_bytes"), shared);
    if (whole_of(facts, "async_copy") > 0) {
        snprintf(prefetch, sizeof prefetch, "registers, cp.async");
    } else if (whole_of(facts, "direct_lds") > 0) {
        snprintf(prefetch, sizeof prefetch, "registers, direct LDS %lld bytes",
                 (long long)whole_of(facts, "direct_lds"));
    }
    table_cell(table, "%s", text_of(facts, "name"));
    table_cell(table, "%s", text_of(facts, "generation"));
    table_cell(table, "%lld", (long long)whole_of(facts, "wave"));
    table_cell(table, "%s", shared);
    table_cell(table, "%lld", (long long)whole_of(facts, "registers"));
    table_cell(table, "%s%s", text_of(facts, "matrix"), json_is_true(json_object_get(facts, "wgmma")) ? " wgmma" : "");
    table_cell(table, "%s",
               json_is_true(json_object_get(facts, "dot2"))
                   ? json_is_true(json_object_get(facts, "dot2_bf16")) ? "f16 bf16" : "f16"
                   : "no");
    table_cell(table, "%s", prefetch);
}

static attune_status list_all(struct cli *cli, struct error *error)
{
    json_t *rows = json_array();
    struct table table;
    attune_status status = ATTUNE_OK;
    table_begin(&table, "target|generation|>wave|>shared|>registers|matrix|dot2|prefetch by");
    for (int i = 0; i < generator_target_count(cli->generator) && status == ATTUNE_OK; i++) {
        struct target target;
        json_t *facts = NULL;
        status = target_parse(generator_target_name(cli->generator, i), &target, error);
        if (status == ATTUNE_OK) {
            status = generator_target_facts(cli->generator, &target, &facts, error);
        }
        if (status == ATTUNE_OK) {
            add_row(&table, facts);
            json_array_append(rows, facts);
        }
        json_decref(facts);
    }
    table_end(&table, status == ATTUNE_OK && !cli->json ? stdout : NULL);
    json_object_set_new(cli->result, "targets", rows);
    return status;
}

/* ---- one target ---- */

/* the source's number in `sources`, which gets it when it is new */
static size_t number_of(json_t *sources, const char *source)
{
    size_t index;
    json_t *known;
    json_array_foreach(sources, index, known)
    {
        if (strcmp(json_string_value(known), source) == 0) {
            return index + 1;
        }
    }
    json_array_append_new(sources, json_string(source));
    return index + 1;
}

static void print_facts(const json_t *facts, json_t *sources)
{
    struct table table;
    size_t index;
    json_t *fact;
    table_begin(&table, "fact|value|known|>source|what it is");
    json_array_foreach(json_object_get(facts, "facts"), index, fact)
    {
        char value[64];
        format_value(json_object_get(fact, "value"), text_of(fact, "unit"), value);
        table_cell(&table, "%s", text_of(fact, "name"));
        table_cell(&table, "%s", value);
        table_cell(&table, "%s", text_of(fact, "known"));
        table_cell(&table, "[%zu]", number_of(sources, text_of(fact, "source")));
        table_cell(&table, "%s", text_of(fact, "doc"));
    }
    table_end(&table, stdout);
}

/* lanes 0 1 2 3 20 21 22 23 as "0-3 20-23" */
static void format_lanes(const json_t *lanes, struct buffer *text)
{
    size_t count = json_array_size(lanes);
    for (size_t first = 0, last; first < count; first = last + 1) {
        int64_t lane = json_integer_value(json_array_get(lanes, first));
        for (last = first; last + 1 < count &&
                           json_integer_value(json_array_get(lanes, last + 1)) == lane + (int64_t)(last + 1 - first);) {
            last++;
        }
        buffer_format(text, "%s%lld", first > 0 ? " " : "", (long long)lane);
        if (last > first) {
            buffer_format(text, "-%lld", (long long)lane + (long long)(last - first));
        }
    }
}

static void print_rule(const json_t *lds, json_t *sources)
{
    static const char *const ways[] = {"read", "write"}, *const widths[] = {"4", "8", "16"};
    struct table table;
    printf("\nlanes served together by shared memory, rule %s [%zu], %lld banks of 4 bytes\n", text_of(lds, "name"),
           number_of(sources, text_of(lds, "source")), (long long)whole_of(lds, "banks"));
    table_begin(&table, "access|bytes a lane|known|phases");
    for (int way = 0; way < 2; way++) {
        for (int width = 0; width < 3; width++) {
            struct buffer text = BUFFER_INIT;
            size_t index;
            json_t *phase;
            json_array_foreach(json_object_get(json_object_get(lds, ways[way]), widths[width]), index, phase)
            {
                buffer_format(&text, "%s", index > 0 ? " | " : "");
                format_lanes(phase, &text);
            }
            table_cell(&table, "%s", ways[way]);
            table_cell(&table, "%s", widths[width]);
            table_cell(&table, "%s", text_of(json_object_get(json_object_get(lds, "known"), ways[way]), widths[width]));
            table_cell(&table, "%s", buffer_string(&text));
            buffer_free(&text);
        }
    }
    table_end(&table, stdout);
    printf("note: %s\n", text_of(lds, "note"));
}

/* multiply-adds with fp32 accumulation that a unit starts a clock, by its fastest means for f16 */
static int64_t fastest_macs(const json_t *facts)
{
    int64_t matrix = whole_of(facts, "matrix_macs"), lanes = whole_of(facts, "fp32_lanes");
    int64_t vector = json_is_true(json_object_get(facts, "dot2")) ? 2 * lanes : lanes;
    return matrix > vector ? matrix : vector;
}

static void print_rest(const json_t *facts)
{
    struct table table;
    size_t index;
    json_t *row;
    printf("\nwaves a SIMD by registers a lane:");
    json_array_foreach(json_object_get(facts, "waves"), index, row)
    {
        printf("%s %lld at %lld", index > 0 ? "," : "", (long long)whole_of(row, "per_simd"),
               (long long)whole_of(row, "registers"));
    }
    printf("\nfastest f16 multiply-adds with fp32 accumulation: %lld a clock and unit\n",
           (long long)fastest_macs(facts));
    if (json_array_size(json_object_get(facts, "boards")) == 0) {
        return;
    }
    printf("\n");
    table_begin(&table, "board|>units|>memory|kind|>GB/s|>MHz|>f16 TFLOP/s at most");
    json_array_foreach(json_object_get(facts, "boards"), index, row)
    {
        double flops = 2e6 * (double)(fastest_macs(facts) * whole_of(row, "units") * whole_of(row, "mhz"));
        table_cell(&table, "%s", text_of(row, "name"));
        table_cell(&table, "%lld", (long long)whole_of(row, "units"));
        table_cell(&table, "%lld GB", (long long)whole_of(row, "memory_gb"));
        table_cell(&table, "%s", text_of(row, "memory"));
        table_cell(&table, "%lld", (long long)whole_of(row, "gb_a_second"));
        table_cell(&table, "%lld", (long long)whole_of(row, "mhz"));
        table_cell(&table, "%.1f", flops / 1e12);
    }
    table_end(&table, stdout);
}

static void print_sources(const json_t *sources)
{
    size_t index;
    json_t *source;
    printf("\nsources\n");
    json_array_foreach(sources, index, source)
    {
        printf("[%zu] %s\n", index + 1, json_string_value(source));
    }
}

static attune_status show_one(struct cli *cli, const char *name, struct error *error)
{
    struct target target;
    json_t *facts = NULL;
    attune_status status = cli_known_target(cli, name, &target, error);
    if (status == ATTUNE_OK) {
        status = generator_target_facts(cli->generator, &target, &facts, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    if (!cli->json) {
        json_t *sources = json_array();
        printf("%s - %s\n\n", text_of(facts, "name"), text_of(facts, "generation"));
        print_facts(facts, sources);
        print_rest(facts);
        print_rule(json_object_get(facts, "lds"), sources);
        print_sources(sources);
        json_decref(sources);
    }
    json_object_set_new(cli->result, "target", facts);
    return ATTUNE_OK;
}

static attune_status run(struct cli *cli, struct error *error)
{
    attune_status status = cli_generator(cli, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    return cli->options.positional_count > 0 ? show_one(cli, cli->options.positionals[0], error) : list_all(cli, error);
}

const struct command command_target = {
    .name = "target",
    .usage = "[NAME]",
    .summary = "what is known of the processors, and where from",
    .help =
        "Lists the targets that there are facts for. With a NAME (gfx906, sm_90a, host-gfx906) all of its facts: "
        "waves,\n"
        "registers, shared memory, rates, matrix instructions; each published, measured or assumed, with its source;\n"
        "which lanes shared memory serves together; waves a SIMD by registers; and boards that carry it.\n",
    .options = options,
    .positional_maximum = 1,
    .run = run,
};
