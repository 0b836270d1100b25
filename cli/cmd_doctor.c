/* cmd_doctor.c - `attune doctor`: everything that decides whether kernels can be made, kept and run here. */
#include "base/environment.h"
#include "base/files.h"
#include "cache/store.h"
#include "cli/cli.h"
#include "cli/devices.h"
#include "cli/kfd_check.h"
#include "cli/table.h"
#include "runtime/runner.h"
#include "runtime/simulator.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option options[] = {CLI_OPTION_STORE, CLI_OPTION_JSON, CLI_OPTION_HELP, {0}};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static json_t *survey_environment(void)
{
    json_t *rows = json_array();
    const struct environment_variable *variable;
    for (size_t i = 0; (variable = environment_variable(i)) != NULL; i++) {
        const char *value = environment_get(variable->name);
        json_t *row = json_object();
        json_set_text(row, "name", variable->name);
        if (value != NULL) {
            json_set_text(row, "value", value);
        } else {
            json_object_set_new(row, "value", json_null());
        }
        json_set_text(row, "doc", variable->doc);
        json_array_append_new(rows, row);
    }
    return rows;
}

/* the drivers' answer about AMD GPUs against the kernel's */
static json_t *survey_kernel(struct cli *cli, const json_t *drivers)
{
    static const char *const hiding[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"};
    struct kfd_topology *topology = malloc(sizeof *topology);
    struct error error = {.message = ""};
    json_t *kfd = NULL;
    bool hidden = false;
    const char *sys = environment_get("ATTUNE_SYS");
    for (size_t i = 0; i < sizeof hiding / sizeof hiding[0]; i++) {
        hidden = hidden || environment_get(hiding[i]) != NULL;
    }
    attune_status status = topology != NULL ? kfd_read(sys != NULL && sys[0] != '\0' ? sys : "/sys", topology, &error)
                                            : error_no_memory(&error);
    if (status == ATTUNE_OK) {
        kfd = kfd_check(cli->generator, drivers, topology, environment_get("HSA_OVERRIDE_GFX_VERSION"), hidden);
    } else {
        kfd = json_object();
        json_set_text(kfd, "reason", error.message);
    }
    free(topology);
    return kfd;
}

static attune_status survey_compilers(json_t **compilers, struct error *error)
{
    struct compiler_pool *pool = NULL;
    struct buffer text = BUFFER_INIT;
    struct compiler_options settings = {.workers = 1};
    attune_status status = compiler_pool_create(&settings, &pool, error);
    if (status == ATTUNE_OK) {
        status = compiler_survey(pool, &text, error);
    }
    if (status == ATTUNE_OK) {
        *compilers = json_loadb(buffer_string(&text), text.length, 0, NULL);
        if (*compilers == NULL) {
            status = error_set(error, ATTUNE_INTERNAL, "the helper's survey is no JSON");
        }
    }
    if (pool != NULL) {
        compiler_pool_destroy(pool);
    }
    buffer_free(&text);
    return status;
}

static json_t *survey_runners(void)
{
    static const char *const sanitizers[] = {"address", "thread"};
    json_t *rows = json_array();
    for (int i = 0; i < 2; i++) {
        char path[4096];
        struct error error = {0};
        json_t *row = json_object();
        json_set_text(row, "sanitizer", sanitizers[i]);
        if (runner_find(sanitizers[i], path, sizeof path, &error) == ATTUNE_OK) {
            json_set_text(row, "program", path);
        } else {
            json_set_text(row, "reason", error.message);
        }
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *survey_simulator(void)
{
    char path[4096];
    struct error error = {0};
    json_t *row = json_object();
    if (simulator_find(path, sizeof path, &error) == ATTUNE_OK) {
        json_set_text(row, "program", path);
    } else {
        json_set_text(row, "reason", error.message);
    }
    return row;
}

static json_t *survey_targets(struct cli *cli)
{
    json_t *names = json_array();
    for (int i = 0; i < generator_target_count(cli->generator); i++) {
        json_array_append_new(names, json_string(generator_target_name(cli->generator, i)));
    }
    return names;
}

struct cache_totals {
    int64_t objects, records, journals, blocked, rejected, temporaries;
    uint64_t bytes;
};

static attune_status count_entry(void *data, const struct store_entry *entry, struct error *error)
{
    struct cache_totals *totals = data;
    (void)error;
    totals->bytes += entry->bytes;
    switch (entry->kind) {
    case STORE_OBJECT:
        totals->objects++;
        break;
    case STORE_RECORD:
        totals->records++;
        break;
    case STORE_JOURNAL:
        totals->journals++;
        break;
    case STORE_BLOCKED:
        totals->blocked++;
        break;
    case STORE_REJECTED:
        totals->rejected++;
        break;
    case STORE_TEMPORARY:
        totals->temporaries++;
        break;
    }
    return ATTUNE_OK;
}

static json_t *survey_cache(struct cli *cli)
{
    json_t *row = json_object();
    struct store *store = NULL;
    struct error error = {0};
    struct cache_totals totals = {0};
    attune_status status = store_open(options_text(&cli->options, "store"), &store, &error);
    if (status == ATTUNE_OK) {
        const char *path = store_path(store);
        json_set_text(row, "path", path);
        json_set_flag(row, "in_memory", path[0] == '\0');
        bool exists = path[0] != '\0' && access(path, F_OK) == 0;
        json_set_flag(row, "exists", exists);
        json_set_flag(row, "writable", exists && access(path, W_OK) == 0);
        if (exists) {
            status = store_walk(store, count_entry, &totals, &error);
        }
        json_set_whole(row, "objects", totals.objects);
        json_set_whole(row, "records", totals.records);
        json_set_whole(row, "blocked", totals.blocked);
        json_set_whole(row, "rejected", totals.rejected);
        json_set_whole(row, "bytes", (int64_t)totals.bytes);
    }
    if (status != ATTUNE_OK) {
        json_set_text(row, "reason", error.message);
    }
    store_close(store);
    return row;
}

/* does a compiler's list have the target? NVRTC lists sm_90 and takes sm_90a; a compiler of `host` makes all host-* */
static bool lists_target(const json_t *targets, const char *name)
{
    size_t index, length = strlen(name);
    json_t *listed;
    json_array_foreach(targets, index, listed)
    {
        const char *text = json_string_value(listed);
        if (strcmp(text, name) == 0 || (strncmp(name, "sm_", 3) == 0 && name[length - 1] == 'a' &&
                                        strlen(text) == length - 1 && strncmp(text, name, length - 1) == 0)) {
            return true;
        }
    }
    return false;
}

/* of the targets there are facts for, those that a compiler makes */
static void print_compilers(const json_t *compilers, const json_t *known)
{
    struct table table;
    size_t index, at;
    json_t *row, *target;
    table_begin(&table, "compiler|version|for|note");
    json_array_foreach(compilers, index, row)
    {
        struct buffer makes = BUFFER_INIT;
        bool found = json_is_true(json_object_get(row, "found"));
        bool lists_vendors = strcmp(text_of(row, "compiler"), "disassembler") == 0;
        json_array_foreach(lists_vendors ? json_object_get(row, "targets") : known, at, target)
        {
            const char *name = json_string_value(target);
            if (lists_vendors || (found && lists_target(json_object_get(row, "targets"), name))) {
                buffer_format(&makes, "%s%s", makes.length > 0 ? " " : "", name);
            }
        }
        table_cell(&table, "%s", text_of(row, "compiler"));
        table_cell(&table, "%s", found ? text_of(row, "version") : "absent");
        table_cell(&table, "%s", makes.length > 0 ? buffer_string(&makes) : "-");
        table_cell(&table, "%s", text_of(row, "note"));
        buffer_free(&makes);
    }
    table_end(&table, stdout);
}

static void print_rest(const json_t *result)
{
    const json_t *cache = json_object_get(result, "cache");
    size_t index;
    json_t *row;
    char bytes[32];
    format_bytes((uint64_t)json_integer_value(json_object_get(cache, "bytes")), bytes);
    if (json_object_get(cache, "reason") != NULL) {
        printf("\ncache: %s\n", text_of(cache, "reason"));
    } else if (json_is_true(json_object_get(cache, "in_memory"))) {
        printf("\ncache: in memory only (set ATTUNE_CACHE to a folder of yours to keep results)\n");
    } else {
        long long objects = json_integer_value(json_object_get(cache, "objects"));
        long long records = json_integer_value(json_object_get(cache, "records"));
        printf("\ncache: %s, %s, %lld %s, %lld %s, %lld set aside, %s\n", text_of(cache, "path"),
               json_is_true(json_object_get(cache, "writable")) ? "writable"
               : json_is_true(json_object_get(cache, "exists")) ? "not writable"
                                                                : "made on first use",
               objects, plural(objects, "object", "objects"), records, plural(records, "record", "records"),
               (long long)json_integer_value(json_object_get(cache, "rejected")), bytes);
    }
    printf("templates: %s\n", text_of(result, "template_path"));
    json_array_foreach(json_object_get(result, "runners"), index, row)
    {
        const char *program = json_string_value(json_object_get(row, "program"));
        printf("sanitizer %s: %s\n", text_of(row, "sanitizer"), program != NULL ? program : text_of(row, "reason"));
    }
    const json_t *simulator = json_object_get(result, "simulator");
    bool simulates = json_object_get(simulator, "program") != NULL;
    printf("simulator for sim:TARGET: %s\n", text_of(simulator, simulates ? "program" : "reason"));
    struct table table;
    printf("\n");
    table_begin(&table, "environment|value|what it does");
    json_array_foreach(json_object_get(result, "environment"), index, row)
    {
        const char *value = json_string_value(json_object_get(row, "value"));
        table_cell(&table, "%s", text_of(row, "name"));
        table_cell(&table, "%s", value != NULL ? value : "(unset)");
        table_cell(&table, "%s", text_of(row, "doc"));
    }
    table_end(&table, stdout);
}

static attune_status run(struct cli *cli, struct error *error)
{
    json_t *compilers = NULL;
    attune_status status = cli_generator(cli, error);
    if (status != ATTUNE_OK) {
        return error_prefix(error, "templates");
    }
    struct error compiler_error = {0};
    attune_status compiler_status = survey_compilers(&compilers, &compiler_error);
    const char *path = environment_get("ATTUNE_TEMPLATE_PATH");
    json_object_set_new(cli->result, "drivers", survey_drivers());
    json_object_set_new(cli->result, "kernel", survey_kernel(cli, json_object_get(cli->result, "drivers")));
    json_object_set_new(cli->result, "compilers", compilers != NULL ? compilers : json_array());
    json_object_set_new(cli->result, "targets", survey_targets(cli));
    json_object_set_new(cli->result, "cache", survey_cache(cli));
    json_set_text(cli->result, "template_path", path != NULL && path[0] != '\0' ? path : "embedded only");
    json_object_set_new(cli->result, "runners", survey_runners());
    json_object_set_new(cli->result, "simulator", survey_simulator());
    json_object_set_new(cli->result, "environment", survey_environment());
    if (!cli->json) {
        print_drivers(json_object_get(cli->result, "drivers"));
        print_kfd(json_object_get(cli->result, "kernel"));
        printf("\n");
        print_compilers(json_object_get(cli->result, "compilers"), json_object_get(cli->result, "targets"));
        print_rest(cli->result);
    }
    if (compiler_status != ATTUNE_OK) {
        return error_set(error, ATTUNE_NO_TOOLCHAIN, "nothing can be compiled: %.3000s", compiler_error.message);
    }
    return ATTUNE_OK;
}

const struct command command_doctor = {
    .name = "doctor",
    .usage = "[--store FOLDER]",
    .summary = "what is found here and what is missing: drivers, compilers, cache, environment",
    .help = "Looks at everything that decides whether kernels can be made, kept and run on this machine, and says why\n"
            "not where something is missing. Run it first when something does not work.\n",
    .options = options,
    .run = run,
};
