/* cmd_compile.c - `attune compile`: candidates to objects, for any targets, without a device. */
#include "autotune/tune.h"
#include "base/codeobject.h"
#include "base/files.h"
#include "cache/store.h"
#include "cli/cli.h"
#include "cli/compile_defaults.h"
#include "cli/compile_loop.h"
#include "cli/progress.h"
#include "cli/table.h"

#include <string.h>
#include <sys/stat.h>

enum { TARGETS_MAX = 64 };

static const struct option options[] = {
    CLI_OPTION_PROBLEM,
    {"problems", 0, OPTION_TEXT, false, "FILE", "with --space or --defaults: a problem a line, # comments"},
    {"target", 0, OPTION_TEXT, true, "T", "what to make code for: gfx906, sm_90a, host, host-gfx906"},
    {"output", 'o', OPTION_TEXT, false, "PATH", "file, or folder for several targets (existing, or ends in /)"},
    {"asm", 0, OPTION_FLAG, false, NULL, "disassemble: to stdout, or beside each object with -o"},
    {"loop", 0, OPTION_FLAG, false, NULL, "with --asm: the hottest loop's instructions and cycles, not the listing"},
    {"resources", 0, OPTION_FLAG, false, NULL, "registers, shared memory, scratch... read from the object"},
    {"space", 0, OPTION_FLAG, false, NULL, "all candidates, in parallel, into the store"},
    {"defaults", 0, OPTION_FLAG, false, NULL, "the default candidate of each problem, with its record, into the store"},
    {"candidates", 0, OPTION_TEXT, false, "FILE", "with --space: only the candidates named in FILE, one a line"},
    {"sanitize", 0, OPTION_TEXT, false, "S", "none, address or thread; host targets only"},
    CLI_OPTION_STORE,
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    {0},
};

static const char *suffix_of(const struct target *target)
{
    switch (target->vendor) {
    case TARGET_AMD:
        return "hsaco";
    case TARGET_NVIDIA:
        return "cubin";
    case TARGET_HOST:
        break;
    }
    return "so";
}

/* ---- one candidate for each target ---- */

struct work {
    struct cli *cli;
    struct compiler_pool *pool;
    const struct problem *problem;
    const char *parameters;
    enum sanitize sanitize;
    bool into_folder;
    json_t *objects;
};

static bool is_folder(const char *path)
{
    struct stat info;
    return path[strlen(path) - 1] == '/' || (stat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

/* where the object goes: the file asked for, or FOLDER/<id>-<target>.<suffix>, ':' being no good in file names */
static attune_status object_path(const struct work *work, const char *id, const struct target *target, char *path,
                                 size_t bytes, struct error *error)
{
    const char *output = options_text(&work->cli->options, "output");
    if (!work->into_folder) {
        return snprintf(path, bytes, "%s", output) < (int)bytes
                   ? ATTUNE_OK
                   : error_set(error, ATTUNE_INVALID, "--output '%s' is longer than %zu bytes", output, bytes - 1);
    }
    char text[TARGET_TEXT_BYTES], name[TARGET_TEXT_BYTES + 64];
    target_format(target, text);
    for (char *at = text; *at != '\0'; at++) {
        if (*at == ':') {
            *at = '_';
        }
    }
    snprintf(name, sizeof name, "%s-%s.%s", id, text, suffix_of(target));
    attune_status status = folder_make(output, error);
    return status == ATTUNE_OK ? path_join(path, bytes, output, name, error) : status;
}

/* what the object says, and the shared memory that a launch adds to the object's own */
static json_t *describe_resources(const struct resources *resources, const struct launch *launch)
{
    json_t *row = json_object();
    json_set_text(row, "kernel", resources->kernel);
    json_set_text(row, "target", resources->target);
    json_set_whole(row, "vector_registers", resources->vector_registers);
    json_set_whole(row, "accumulator_registers", resources->accumulator_registers);
    json_set_whole(row, "scalar_registers", resources->scalar_registers);
    json_set_whole(row, "spilled_registers", resources->spilled_registers);
    json_set_whole(row, "shared_bytes", resources->shared_bytes);
    json_set_whole(row, "dynamic_shared_bytes", launch->dynamic_shared_bytes);
    json_set_whole(row, "scratch_bytes", resources->scratch_bytes);
    json_set_whole(row, "wave_size", resources->wave_size);
    json_set_whole(row, "argument_bytes", resources->argument_bytes);
    json_set_whole(row, "max_threads", resources->max_threads);
    json_set_whole(row, "code_bytes", (int64_t)resources->code_bytes);
    return row;
}

/* the listing goes beside the object, into the JSON, or to stdout; with --loop what it says takes the place of the
 * latter two */
static attune_status add_listing(const struct work *work, const struct target *target, const struct launch *launch,
                                 const struct resources *resources, const struct compile_result *result,
                                 const char *path, json_t *row, struct error *error)
{
    struct buffer text = BUFFER_INIT;
    bool loop = options_has(&work->cli->options, "loop");
    attune_status status =
        compiler_disassemble(work->pool, target, result->object.data, result->object.length, &text, error);
    if (status == ATTUNE_OK && path != NULL) {
        char listing[4096];
        if (snprintf(listing, sizeof listing, "%s.s", path) >= (int)sizeof listing) {
            status = error_set(error, ATTUNE_INVALID, "--output '%s' is too long", path);
        } else {
            status = file_write(listing, text.data, text.length, error);
            if (status == ATTUNE_OK) {
                json_set_text(row, "asm_path", listing);
            }
        }
    } else if (status == ATTUNE_OK && !loop && work->cli->json) {
        json_set_text(row, "asm", buffer_string(&text));
    } else if (status == ATTUNE_OK && !loop) {
        fwrite(buffer_string(&text), 1, text.length, stdout);
    }
    if (status == ATTUNE_OK && loop) {
        status = compile_loop(work->cli, target, &text, launch, resources, row, error);
    }
    buffer_free(&text);
    return status;
}

static attune_status keep_object(const struct work *work, const struct target *target, const char *id,
                                 const struct launch *launch, const struct compile_result *result, json_t *row,
                                 struct error *error)
{
    char path[4096];
    bool to_file = options_has(&work->cli->options, "output");
    struct resources resources;
    attune_status status =
        codeobject_resources(result->object.data, result->object.length, launch->kernel, &resources, error);
    if (status == ATTUNE_OK) {
        json_object_set_new(row, "resources", describe_resources(&resources, launch));
    }
    if (status == ATTUNE_OK && to_file) {
        status = object_path(work, id, target, path, sizeof path, error);
    }
    if (status == ATTUNE_OK && to_file) {
        status = file_write(path, result->object.data, result->object.length, error);
        if (status == ATTUNE_OK) {
            json_set_text(row, "path", path);
        }
    }
    if (status == ATTUNE_OK && options_has(&work->cli->options, "asm")) {
        status = add_listing(work, target, launch, &resources, result, to_file ? path : NULL, row, error);
    }
    return status;
}

/* a single file that cannot be written is refused before the compiler starts */
static attune_status check_output(const struct work *work, struct error *error)
{
    const char *output = options_text(&work->cli->options, "output");
    attune_status status = output != NULL && !work->into_folder ? file_check_output(output, error) : ATTUNE_OK;
    return status == ATTUNE_OK ? ATTUNE_OK : error_prefix(error, "--output");
}

static attune_status compile_target(struct work *work, const struct target *target, struct error *error)
{
    struct candidate candidate;
    struct expansion expansion = {0};
    struct compile_result result = {0};
    char name[CANDIDATE_TEXT_BYTES], id[CANDIDATE_ID_BYTES], text[TARGET_TEXT_BYTES];
    attune_status status = cli_candidate(work->cli, work->parameters, work->problem, target, &candidate, error);
    if (status == ATTUNE_OK) {
        status = candidate_expand(work->cli->generator, &candidate, work->problem, target, &expansion, error);
    }
    if (status == ATTUNE_OK) {
        struct compile_request request = {
            .target = *target,
            .sanitize = work->sanitize,
            .source = expansion.compile.data,
            .source_bytes = expansion.compile.length,
        };
        status = compiler_compile(work->pool, &request, &result, error);
    }
    target_format(target, text);
    if (status == ATTUNE_OK) {
        json_t *row = json_object();
        candidate_format(&candidate, name);
        candidate_id(&candidate, id);
        json_set_text(row, "target", text);
        json_set_text(row, "candidate", name);
        json_set_text(row, "id", id);
        json_set_text(row, "compiler", result.compiler);
        json_set_text(row, "identity", result.identity);
        json_set_whole(row, "bytes", (int64_t)result.object.length);
        json_set_real(row, "seconds", result.seconds);
        status = keep_object(work, target, id, &expansion.launch, &result, row, error);
        if (status == ATTUNE_OK || json_object_get(row, "path") != NULL) { /* there is something to tell of */
            json_array_append(work->objects, row);
        }
        json_decref(row);
    }
    compile_result_free(&result);
    expansion_free(&expansion);
    return status == ATTUNE_OK ? ATTUNE_OK : error_prefix(error, "%s", text);
}

static long long count_of(const json_t *resources, const char *key)
{
    return (long long)json_integer_value(json_object_get(resources, key));
}

static void print_count(struct table *table, const json_t *resources, const char *key)
{
    long long value = count_of(resources, key);
    if (strcmp(key, "shared_bytes") == 0) {
        value += count_of(resources, "dynamic_shared_bytes");
    }
    if (value < 0) {
        table_cell(table, "-");
    } else {
        table_cell(table, "%lld", value);
    }
}

static void print_objects(const json_t *objects, bool resources)
{
    static const char *const keys[] = {"vector_registers", "accumulator_registers", "scalar_registers",
                                       "shared_bytes",     "scratch_bytes",         "wave_size",
                                       "max_threads",      "argument_bytes",        "code_bytes"};
    struct table table;
    size_t index;
    json_t *row;
    table_begin(&table, resources ? "target|id|compiler|>registers|>accumulator|>scalar|>shared B|>scratch "
                                    "B|>wave|>threads|>argument B|>code B|file"
                                  : "target|id|compiler|>bytes|>seconds|file");
    json_array_foreach(objects, index, row)
    {
        const char *path = json_string_value(json_object_get(row, "path"));
        table_cell(&table, "%s", json_string_value(json_object_get(row, "target")));
        table_cell(&table, "%s", json_string_value(json_object_get(row, "id")));
        table_cell(&table, "%s", json_string_value(json_object_get(row, "compiler")));
        for (size_t i = 0; resources && i < sizeof keys / sizeof keys[0]; i++) {
            print_count(&table, json_object_get(row, "resources"), keys[i]);
        }
        if (!resources) {
            table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(row, "bytes")));
            table_cell(&table, "%.2f", json_real_value(json_object_get(row, "seconds")));
        }
        table_cell(&table, "%s", path != NULL ? path : "-");
    }
    table_end(&table, stdout);
}

/* every target is tried; the first failure is what the command reports */
static attune_status compile_candidates(struct work *work, const struct target *targets, int count, struct error *error)
{
    attune_status first = check_output(work, error);
    if (first != ATTUNE_OK) {
        return first;
    }
    for (int i = 0; i < count; i++) {
        struct error failure = {0};
        attune_status status = compile_target(work, &targets[i], &failure);
        if (status != ATTUNE_OK && first == ATTUNE_OK) {
            first = error_set(error, status, "%s", failure.message);
        } else if (status != ATTUNE_OK) {
            fprintf(stderr, "attune compile: %s\n", failure.message);
        }
    }
    json_object_set(work->cli->result, "objects", work->objects);
    bool listing_on_stdout = options_has(&work->cli->options, "asm") && !options_has(&work->cli->options, "output");
    if (!work->cli->json && json_array_size(work->objects) > 0 && !listing_on_stdout) {
        print_objects(work->objects, options_has(&work->cli->options, "resources"));
    }
    return first;
}

/* ---- the whole space, into the store ---- */

static void report_space(void *data, const struct tune_progress *now)
{
    progress_update(data, now->compiled + now->failed, now->candidates, now->left_seconds,
                    "compiled %d, failed %d, from the store %d", now->compiled, now->failed, now->reused);
}

/* [{"name", "value", "objects"}] */
static json_t *space_values(const struct space_result *space)
{
    json_t *values = json_array();
    for (int i = 0; i < space->value_count; i++) {
        json_array_append_new(values, json_pack("{s:s, s:s, s:i}", "name", space->values[i].name, "value",
                                                space->values[i].value, "objects", space->values[i].objects));
    }
    return values;
}

/* the parameter value that fewest objects have: "tile_k=1 in 12" */
static void rarest_value(const struct space_result *space, char *text, size_t bytes)
{
    int rarest = 0;
    for (int i = 1; i < space->value_count; i++) {
        rarest = space->values[i].objects < space->values[rarest].objects ? i : rarest;
    }
    if (space->value_count == 0) {
        snprintf(text, bytes, "-");
    } else {
        snprintf(text, bytes, "%s=%s in %d", space->values[rarest].name, space->values[rarest].value,
                 space->values[rarest].objects);
    }
}

/* what was compiled of one problem for one target: a row of JSON and one of the table */
static void add_space(json_t *spaces, struct table *table, const struct named_problem *item,
                      const struct target *target, const struct space_result *space)
{
    char text[PROBLEM_TEXT_BYTES] = "", name[TARGET_TEXT_BYTES], rarest[80];
    json_t *row = json_object();
    target_format(target, name);
    problem_format(&item->problem, text, NULL);
    json_set_text(row, "problem", text);
    json_set_text(row, "target", name);
    json_set_whole(row, "candidates", space->candidates);
    json_set_whole(row, "compiled", space->compiled);
    json_set_whole(row, "reused", space->reused);
    json_set_whole(row, "failed", space->failed);
    json_set_whole(row, "distinct", space->distinct);
    json_set_whole(row, "spilling", space->spilling);
    json_object_set_new(row, "values", space_values(space));
    json_set_real(row, "seconds", space->seconds);
    json_array_append_new(spaces, row);
    table_cell(table, "%s", item->name[0] != '\0' ? item->name : text);
    table_cell(table, "%s", name);
    table_cell(table, "%d", space->candidates);
    table_cell(table, "%d", space->compiled);
    table_cell(table, "%d", space->reused);
    table_cell(table, "%d", space->failed);
    table_cell(table, "%d", space->distinct);
    table_cell(table, "%d", space->spilling);
    rarest_value(space, rarest, sizeof rarest);
    table_cell(table, "%s", rarest);
    table_cell(table, "%.1f", space->seconds);
}

static attune_status compile_space(struct cli *cli, struct compiler_pool *pool, const struct problem_list *problems,
                                   const struct target *targets, int count, struct error *error)
{
    struct store *store = NULL;
    struct table table;
    attune_status status = store_open(options_text(&cli->options, "store"), &store, error);
    if (status == ATTUNE_OK && store_path(store)[0] == '\0') {
        status = error_set(error, ATTUNE_IO, "--space needs a folder to keep objects in: give --store FOLDER");
    }
    struct failures failures = {0};
    int total = problems->count * count;
    json_t *spaces = json_array();
    table_begin(&table,
                "problem|target|>candidates|>compiled|>from store|>failed|>distinct|>spill|rarest value|>seconds");
    for (int i = 0; i < total && status == ATTUNE_OK; i++) {
        const struct problem *problem = &problems->items[i / count].problem;
        const struct target *target = &targets[i % count];
        struct space_result space = {0};
        struct progress progress;
        progress_begin(&progress);
        struct error failure = {.message = ""};
        attune_status one =
            tune_compile_space(cli->generator, pool, store, problem, target, options_text(&cli->options, "candidates"),
                               report_space, &progress, &space, &failure);
        progress_end(&progress);
        if (one != ATTUNE_OK) {
            failures_add(&failures, "compile", total, &problems->items[i / count], &failure);
            continue;
        }
        add_space(spaces, &table, &problems->items[i / count], target, &space);
    }
    json_object_set_new(cli->result, "spaces", spaces);
    if (status == ATTUNE_OK) {
        json_set_text(cli->result, "store", cli_store_place(store));
    }
    if (status == ATTUNE_OK) {
        status = failures_status(&failures, total, "spaces could not be compiled", error);
    }
    if (status == ATTUNE_OK) {
        status = cli_store_took_all(store, error);
    }
    table_end(&table, cli->json ? NULL : stdout);
    store_close(store);
    return status;
}

static attune_status check_options(struct cli *cli, int targets, struct error *error)
{
    const struct options *given = &cli->options;
    bool space = options_has(given, "space"), defaults = options_has(given, "defaults");
    const char *fills = space ? "space" : "defaults";
    static const char *const only_one[] = {"output", "asm", "loop", "resources", "sanitize"};
    if (space && defaults) {
        return error_set(error, ATTUNE_INVALID, "--space makes the defaults too: leave --defaults out");
    }
    for (size_t i = 0; (space || defaults) && i < sizeof only_one / sizeof only_one[0]; i++) {
        if (options_has(given, only_one[i])) {
            return error_set(error, ATTUNE_INVALID,
                             "--%s fills the store and goes without --%s: compile single candidates for that", fills,
                             only_one[i]);
        }
    }
    if (options_has(given, "loop") && !options_has(given, "asm")) {
        return error_set(error, ATTUNE_INVALID, "--loop goes with --asm: it reads the disassembly");
    }
    if (defaults && given->positional_count > 0) {
        return error_set(error, ATTUNE_INVALID, "--defaults means the default candidate: '%s' would choose another",
                         given->positionals[0]);
    }
    if (space && given->positional_count > 0) {
        return error_set(error, ATTUNE_INVALID, "--space means every candidate: '%s' would choose one, leave it out",
                         given->positionals[0]);
    }
    if (!space && options_has(given, "candidates")) {
        return error_set(error, ATTUNE_INVALID, "--candidates goes with --space");
    }
    if (!space && !defaults && (options_has(given, "problems") || options_has(given, "store"))) {
        return error_set(error, ATTUNE_INVALID, "--problems and --store go with --space or --defaults");
    }
    const char *problem = options_text(given, "problem");
    if (!space && !defaults && problem != NULL && ranges_refuse(problem, error) != ATTUNE_OK) {
        return error_prefix(error, "--problem, without --space or --defaults");
    }
    if (!space && !defaults && !options_has(given, "output") && !options_has(given, "asm") &&
        !options_has(given, "resources")) {
        return error_set(error, ATTUNE_INVALID,
                         "nothing to do with the object: give -o FILE, --resources, --asm, --defaults or --space");
    }
    const char *output = options_text(given, "output");
    if (output != NULL && output[0] == '\0') {
        return error_set(error, ATTUNE_INVALID, "--output is empty: name a file or a folder");
    }
    if (output != NULL && targets > 1 && !is_folder(output)) {
        return error_set(error, ATTUNE_INVALID,
                         "--output '%s' is one file for %d targets: name a folder (ending in / when it is new)", output,
                         targets);
    }
    return ATTUNE_OK;
}

static attune_status run(struct cli *cli, struct error *error)
{
    struct target targets[TARGETS_MAX];
    char parameters[CANDIDATE_TEXT_BYTES];
    struct problem_list problems = {0};
    struct compiler_pool *pool = NULL;
    int count = 0;
    attune_status status = ATTUNE_OK;
    for (const char *text; (text = options_nth(&cli->options, "target", count)) != NULL || count == 0; count++) {
        if (count == TARGETS_MAX) {
            return error_set(error, ATTUNE_INVALID, "more than %d --target", TARGETS_MAX);
        }
        status = cli_target(cli, text, &targets[count], error);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    enum sanitize sanitize = SANITIZE_NONE;
    status = check_options(cli, count, error);
    if (status == ATTUNE_OK) {
        status = cli_sanitize(options_text(&cli->options, "sanitize"), &sanitize, error);
    }
    for (int i = 0; i < count && sanitize != SANITIZE_NONE && status == ATTUNE_OK; i++) {
        if (targets[i].vendor != TARGET_HOST) {
            status = error_set(error, ATTUNE_INVALID, "--sanitize works for host targets, not for %s: --target host-%s",
                               targets[i].processor, targets[i].processor);
        }
    }
    if (status == ATTUNE_OK) {
        status = cli_problems(cli, &problems, error);
    }
    if (status == ATTUNE_OK) {
        status = cli_parameters(cli, 0, parameters, error);
    }
    if (status == ATTUNE_OK) {
        status = compiler_pool_create(NULL, &pool, error);
    }
    if (status == ATTUNE_OK && options_has(&cli->options, "space")) {
        status = compile_space(cli, pool, &problems, targets, count, error);
    } else if (status == ATTUNE_OK && options_has(&cli->options, "defaults")) {
        status = compile_defaults(cli, pool, &problems, targets, count, error);
    } else if (status == ATTUNE_OK) {
        const char *output = options_text(&cli->options, "output");
        struct work work = {
            .cli = cli,
            .pool = pool,
            .problem = &problems.items[0].problem,
            .parameters = parameters,
            .sanitize = sanitize,
            .into_folder = output != NULL && is_folder(output),
            .objects = json_array(),
        };
        status = compile_candidates(&work, targets, count, error);
        json_decref(work.objects);
    }
    if (pool != NULL) {
        compiler_pool_destroy(pool);
    }
    problem_list_free(&problems);
    return status;
}

const struct command command_compile = {
    .name = "compile",
    .usage = "--problem P --target T ... [name=value ...] -o FILE-or-FOLDER",
    .summary = "candidates to objects, for any targets, without a device",
    .help = "Compiles the default candidate, or the one that name=value choose, for each --target.\n"
            "With --defaults they go into the store, which a program that may not compile can then use;\n"
            "with --space every candidate goes there, so that a GPU's minutes are not spent compiling.\n\n"
            "  attune compile --problem \"dtype=f16 batch=1 heads=32 seqlen_q=2048 head_dim=128\" \\\n"
            "    --target gfx906 --target gfx90a:sramecc+:xnack- --resources -o objects/\n",
    .options = options,
    .positional_minimum = 0,
    .positional_maximum = -1,
    .run = run,
};
