/* explain_lds.c - `attune explain --lds`: the bank conflicts of one candidate's accesses to shared memory. */
#include "cli/explain_lds.h"

#include "autotune/lds_count.h"
#include "cli/table.h"
#include "runtime/driver.h"

#include <string.h>

/* The first, the middle and the last block: with a causal mask those differ, and the kernel's ends are among them. */
enum { BLOCKS_RUN = 3, SOURCE_TEXT_BYTES = 128 };

static attune_status refuse_options(const struct cli *cli, struct error *error)
{
    if (options_has(&cli->options, "store")) {
        return error_set(error, ATTUNE_INVALID, "--lds looks at a candidate, not into a store: leave --store out");
    }
    if (options_has(&cli->options, "device") && options_has(&cli->options, "target")) {
        return error_set(error, ATTUNE_INVALID, "--target and --device both say what to look at: give one of them");
    }
    if (options_has(&cli->options, "candidate") && cli->options.positional_count > 0) {
        return error_set(error, ATTUNE_INVALID, "'%s' and --candidate both choose a candidate: give one of them",
                         cli->options.positionals[0]);
    }
    return ATTUNE_OK;
}

/* --target, else the device's */
static attune_status choose_target(struct cli *cli, struct target *target, struct error *error)
{
    const struct driver *driver;
    struct driver_device device;
    int ordinal;
    if (options_has(&cli->options, "target")) {
        return cli_target(cli, options_text(&cli->options, "target"), target, error);
    }
    const char *name = options_text(&cli->options, "device");
    attune_status status = driver_parse_device(name != NULL ? name : "best", &driver, &ordinal, error);
    if (status == ATTUNE_OK) {
        status = driver->describe(driver, ordinal, &device, error);
    }
    if (status == ATTUNE_OK) {
        *target = device.target;
        status = cli_generator(cli, error);
    }
    return status;
}

static attune_status choose_candidate(struct cli *cli, const struct problem *problem, const struct target *target,
                                      struct candidate *candidate, struct error *error)
{
    char parameters[CANDIDATE_TEXT_BYTES];
    const char *asked = options_text(&cli->options, "candidate");
    attune_status status = cli_parameters(cli, 0, parameters, error);
    return status == ATTUNE_OK
               ? cli_candidate(cli, asked != NULL ? asked : parameters, problem, target, candidate, error)
               : status;
}

/* ---- the result ---- */

struct sum {
    uint64_t count, ideal, cycles;
};

static void add(struct sum *sum, const struct lds_line *line)
{
    sum->count += line->count;
    sum->ideal += line->ideal;
    sum->cycles += line->cycles;
}

static bool is_read(const struct lds_line *line)
{
    return line->kind == HOST_ACCESS_READ || line->kind == HOST_ACCESS_ROWS;
}

static json_t *numbers(uint64_t count, uint64_t ideal, uint64_t cycles)
{
    json_t *row = json_object();
    json_set_whole(row, "count", (int64_t)count);
    json_set_whole(row, "ideal", (int64_t)ideal);
    json_set_whole(row, "cycles", (int64_t)cycles);
    json_set_whole(row, "conflicts", (int64_t)(cycles - ideal));
    return row;
}

static json_t *describe_line(const struct lds_count *count, const struct lds_line *line)
{
    char text[SOURCE_TEXT_BYTES];
    json_t *row = numbers(line->count, line->ideal, line->cycles);
    lds_count_text(count, line->line, text, sizeof text);
    json_set_whole(row, "line", line->line);
    json_set_text(row, "source", text);
    json_set_text(row, "access", lds_access_name(line->kind));
    json_set_whole(row, "bytes", line->bytes);
    json_set_flag(row, "inner", line->inner);
    json_set_text(row, "known", line->known);
    return row;
}

static void describe_totals(json_t *result, const struct lds_count *count)
{
    static const char *const names[2][2] = {{"once_writes", "once_reads"}, {"inner_writes", "inner_reads"}};
    struct sum sums[2][2] = {{{0, 0, 0}}};
    json_t *totals = json_object(), *accesses = json_array();
    for (int i = 0; i < count->line_count; i++) {
        add(&sums[count->lines[i].inner][is_read(&count->lines[i])], &count->lines[i]);
        json_array_append_new(accesses, describe_line(count, &count->lines[i]));
    }
    for (int inner = 1; inner >= 0; inner--) {
        for (int read = 1; read >= 0; read--) {
            const struct sum *sum = &sums[inner][read];
            json_object_set_new(totals, names[inner][read], numbers(sum->count, sum->ideal, sum->cycles));
        }
    }
    json_object_set_new(result, "accesses", accesses);
    json_object_set_new(result, "totals", totals);
}

/* the rule as the target's facts tell it, without the lists of lanes */
static attune_status describe_rule(struct cli *cli, const struct target *target, struct error *error)
{
    static const char *const keys[] = {"name", "status", "banks", "source", "note", "known"};
    json_t *facts = NULL, *rule = json_object();
    attune_status status = generator_target_facts(cli->generator, target, &facts, error);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && status == ATTUNE_OK; i++) {
        json_object_set(rule, keys[i], json_object_get(json_object_get(facts, "lds"), keys[i]));
    }
    json_object_set_new(cli->result, "rule", rule);
    json_decref(facts);
    return status;
}

static attune_status describe(struct cli *cli, const struct candidate *candidate, const struct problem *problem,
                              const struct target *target, const struct lds_count *count, struct error *error)
{
    char name[CANDIDATE_TEXT_BYTES], id[CANDIDATE_ID_BYTES], text[PROBLEM_TEXT_BYTES], target_text[TARGET_TEXT_BYTES];
    json_t *result = cli->result;
    candidate_format(candidate, name);
    candidate_id(candidate, id);
    target_format(target, target_text);
    attune_status status = problem_format(problem, text, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    json_set_text(result, "problem", text);
    json_set_text(result, "target", target_text);
    json_set_text(result, "candidate", name);
    json_set_text(result, "id", id);
    status = problem_format(&count->problem, text, error);
    json_set_text(result, "run", text);
    json_set_whole(result, "blocks", (int64_t)count->blocks);
    json_set_whole(result, "grid_blocks", (int64_t)count->grid_blocks);
    describe_totals(result, count);
    return status == ATTUNE_OK ? describe_rule(cli, target, error) : status;
}

/* ---- for people ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static long long whole_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static void add_numbers(struct table *table, const json_t *row)
{
    table_cell(table, "%lld", whole_of(row, "count"));
    table_cell(table, "%lld", whole_of(row, "ideal"));
    table_cell(table, "%lld", whole_of(row, "cycles"));
    table_cell(table, "%lld", whole_of(row, "conflicts"));
}

static void print(const json_t *result)
{
    static const struct {
        const char *key, *text;
    } totals[] = {{"inner_reads", "inner loop, reads"},
                  {"inner_writes", "inner loop, writes"},
                  {"once_reads", "elsewhere, reads"},
                  {"once_writes", "elsewhere, writes"}};
    const json_t *rule = json_object_get(result, "rule"), *accesses = json_object_get(result, "accesses");
    struct table table;
    size_t index;
    const json_t *row;
    printf("problem    %s\ntarget     %s\ncandidate  %s %s\nrun        %s\n           %lld of %lld blocks\n",
           text_of(result, "problem"), text_of(result, "target"), text_of(result, "id"), text_of(result, "candidate"),
           text_of(result, "run"), whole_of(result, "blocks"), whole_of(result, "grid_blocks"));
    printf("rule       %s, %s: %lld banks of 4 bytes; %s\n           %s\n\n", text_of(rule, "name"),
           text_of(rule, "status"), whole_of(rule, "banks"), text_of(rule, "source"), text_of(rule, "note"));
    table_begin(&table, ">line|access|>bytes|inner|>count|>ideal|>clocks|>conflicts|rule|source");
    json_array_foreach(accesses, index, row)
    {
        table_cell(&table, "%lld", whole_of(row, "line"));
        table_cell(&table, "%s", text_of(row, "access"));
        table_cell(&table, "%lld", whole_of(row, "bytes"));
        table_cell(&table, "%s", json_is_true(json_object_get(row, "inner")) ? "yes" : "no");
        add_numbers(&table, row);
        table_cell(&table, "%s", text_of(row, "known"));
        table_cell(&table, "%s", text_of(row, "source"));
    }
    table_end(&table, stdout);
    putchar('\n');
    table_begin(&table, "in all|>count|>ideal|>clocks|>conflicts");
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        table_cell(&table, "%s", totals[i].text);
        add_numbers(&table, json_object_get(json_object_get(result, "totals"), totals[i].key));
    }
    table_end(&table, stdout);
}

attune_status explain_lds(struct cli *cli, const struct problem *problem, struct error *error)
{
    struct target target;
    struct candidate candidate;
    struct compiler_pool *pool = NULL;
    struct lds_count count = {0};
    const struct compiler_options one = {.workers = 1};
    attune_status status = refuse_options(cli, error);
    if (status == ATTUNE_OK) {
        status = choose_target(cli, &target, error);
    }
    if (status == ATTUNE_OK) {
        status = choose_candidate(cli, problem, &target, &candidate, error);
    }
    if (status == ATTUNE_OK) {
        status = compiler_pool_create(&one, &pool, error);
    }
    if (status == ATTUNE_OK) {
        status = lds_count_candidate(cli->generator, pool, &candidate, problem, &target, BLOCKS_RUN, &count, error);
    }
    if (status == ATTUNE_OK) {
        status = describe(cli, &candidate, problem, &target, &count, error);
    }
    if (status == ATTUNE_OK && !cli->json) {
        print(cli->result);
    }
    lds_count_free(&count);
    compiler_pool_destroy(pool);
    return status;
}
