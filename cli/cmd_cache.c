/* cmd_cache.c - `attune cache ls|info|journals|report|verify|prune`. */
#include "cli/cmd_cache.h"
#include "base/digest.h"
#include "base/files.h"
#include "cache/store.h"
#include "cli/table.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct option options[] = {
    CLI_OPTION_STORE,
    {"all", 0, OPTION_FLAG, false, NULL, "ls: objects, journals and what was set aside as well"},
    {"output", 'o', OPTION_TEXT, false, "FILE", "report: the page, one HTML file; - is stdout"},
    {"problem", 0, OPTION_TEXT, false, "TEXT", "report, journals: this problem alone"},
    {"repair", 0, OPTION_FLAG, false, NULL, "verify: set bad entries aside"},
    {"older-than", 0, OPTION_DURATION, false, "TIME", "prune: entries older than 30d, 12h ..."},
    {"keep", 0, OPTION_BYTES, false, "SIZE",
     "prune: oldest unreferenced objects until the store is below 500MiB, 2GiB ..."},
    {"unreferenced", 0, OPTION_FLAG, false, NULL, "prune: objects that no record names"},
    {"blocked", 0, OPTION_FLAG, false, NULL,
     "prune: what is known of candidates that were wrong, hung or crashed: they are tried again"},
    {"rejected", 0, OPTION_FLAG, false, NULL, "prune: what was set aside, and old temporaries"},
    {"dry-run", 0, OPTION_FLAG, false, NULL, "prune: only tell what would go"},
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    {0},
};

static const char *const kind_names[] = {
    [STORE_OBJECT] = "object",   [STORE_RECORD] = "record",     [STORE_JOURNAL] = "journal",
    [STORE_BLOCKED] = "blocked", [STORE_REJECTED] = "rejected", [STORE_TEMPORARY] = "temporary",
};

struct listing {
    struct store *store;
    bool all;
    json_t *entries;
    int64_t counts[STORE_TEMPORARY + 1];
    uint64_t bytes[STORE_TEMPORARY + 1];
};

/* what a record says, added to its row; a record that cannot be read keeps its path and the reason */
static void add_record(struct listing *listing, const char *relative, json_t *row)
{
    char path[4096], object[DIGEST_HEX_BYTES];
    struct buffer text = BUFFER_INIT;
    struct record record = {0};
    struct error error = {0};
    attune_status status = path_join(path, sizeof path, store_path(listing->store), relative, &error);
    if (status == ATTUNE_OK) {
        status = file_read(path, RECORD_BYTES_MAX, &text, &error);
    }
    if (status == ATTUNE_OK) {
        status = record_from_json(buffer_string(&text), text.length, &record, &error);
    }
    if (status == ATTUNE_OK) {
        digest_hex(&record.object, object);
        json_set_text(row, "record", record.kind == RECORD_TUNED ? "tuned" : "default");
        json_set_text(row, "problem", record.kind == RECORD_TUNED ? record.problem : record.specialisation);
        json_set_text(row, "target", record.device.target);
        json_set_text(row, "candidate", record.candidate);
        json_set_text(row, "object", object);
        json_set_text(row, "run", record.run);
        json_set_real(row, "winner_microseconds", record.winner_microseconds);
        json_set_real(row, "default_microseconds", record.default_microseconds);
        record_free(&record);
    } else {
        json_set_text(row, "reason", error.message);
    }
    buffer_free(&text);
}

static attune_status add_entry(void *data, const struct store_entry *entry, struct error *error)
{
    struct listing *listing = data;
    (void)error;
    listing->counts[entry->kind]++;
    listing->bytes[entry->kind] += entry->bytes;
    if (listing->entries == NULL || (entry->kind != STORE_RECORD && !listing->all)) {
        return ATTUNE_OK;
    }
    json_t *row = json_object();
    json_set_text(row, "kind", kind_names[entry->kind]);
    json_set_text(row, "path", entry->path);
    json_set_whole(row, "bytes", (int64_t)entry->bytes);
    json_set_whole(row, "modified", entry->modified);
    if (entry->kind == STORE_RECORD) {
        add_record(listing, entry->path, row);
    }
    json_array_append_new(listing->entries, row);
    return ATTUNE_OK;
}

void format_minute(int64_t seconds, char text[32])
{
    time_t when = (time_t)seconds;
    struct tm parts;
    if (gmtime_r(&when, &parts) == NULL || strftime(text, 32, "%Y-%m-%d %H:%M", &parts) == 0) {
        text[0] = '\0';
    }
}

static int compare_texts(const json_t *a, const json_t *b, const char *key)
{
    const char *left = json_string_value(json_object_get(a, key)), *right = json_string_value(json_object_get(b, key));
    return strcmp(left != NULL ? left : "", right != NULL ? right : "");
}

/* by kind, target, problem, and of one problem the newest first; paths tell the rest apart */
static int by_problem(const void *a, const void *b)
{
    static const char *const keys[] = {"kind", "record", "target", "problem"};
    const json_t *left = *(json_t *const *)a, *right = *(json_t *const *)b;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int order = compare_texts(left, right, keys[i]);
        if (order != 0) {
            return order;
        }
    }
    json_int_t first = json_integer_value(json_object_get(left, "modified")),
               second = json_integer_value(json_object_get(right, "modified"));
    return first != second ? (first > second ? -1 : 1) : compare_texts(left, right, "path");
}

/* the same rows in order; without memory as they are. Takes the array and gives a reference */
static json_t *sorted(json_t *entries)
{
    size_t count = json_array_size(entries);
    json_t **rows = calloc(count + 1, sizeof(json_t *)), *ordered = json_array();
    if (rows == NULL || ordered == NULL) {
        free(rows);
        json_decref(ordered);
        return entries;
    }
    for (size_t i = 0; i < count; i++) {
        rows[i] = json_array_get(entries, i);
    }
    qsort(rows, count, sizeof(json_t *), by_problem);
    for (size_t i = 0; i < count; i++) {
        json_array_append(ordered, rows[i]);
    }
    free(rows);
    json_decref(entries);
    return ordered;
}

/* "portable 6af8c00f6279": template and id, of which explain and bench tell more. One specialisation can have a default
 * for decoding and another for longer queries, which nothing else in the row tells apart. */
static void candidate_cell(struct table *table, const char *candidate)
{
    char id[DIGEST_SHORT_BYTES];
    const char *slash = candidate != NULL ? strchr(candidate, '/') : NULL;
    if (slash == NULL) {
        table_cell(table, "-");
        return;
    }
    digest_short(candidate, id);
    table_cell(table, "%.*s %s", (int)strcspn(slash + 1, " "), slash + 1, id);
}

static void print_records(const json_t *entries)
{
    struct table table;
    struct buffer problem = BUFFER_INIT;
    size_t index;
    json_t *row;
    table_begin(&table, "kind|target|>winner µs|>default µs|>bytes|modified|run|candidate|problem, or path");
    json_array_foreach(entries, index, row)
    {
        const char *record = json_string_value(json_object_get(row, "record"));
        const char *target = json_string_value(json_object_get(row, "target"));
        const char *run = json_string_value(json_object_get(row, "run"));
        double winner = json_real_value(json_object_get(row, "winner_microseconds"));
        char date[32];
        format_minute(json_integer_value(json_object_get(row, "modified")), date);
        table_cell(&table, "%s", record != NULL ? record : json_string_value(json_object_get(row, "kind")));
        table_cell(&table, "%s", target != NULL ? target : "-");
        if (winner > 0) {
            table_cell(&table, "%.1f", winner);
            table_cell(&table, "%.1f", json_real_value(json_object_get(row, "default_microseconds")));
        } else {
            table_cell(&table, "-");
            table_cell(&table, "-");
        }
        table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(row, "bytes")));
        table_cell(&table, "%s", date);
        table_cell(&table, "%.12s", run != NULL ? run : "-");
        candidate_cell(&table, json_string_value(json_object_get(row, "candidate")));
        buffer_clear(&problem);
        problem_short(json_string_value(json_object_get(row, record != NULL ? "problem" : "path")), &problem);
        table_cell(&table, "%s", buffer_string(&problem));
    }
    table_end(&table, stdout);
    buffer_free(&problem);
}

static attune_status list(struct cli *cli, struct store *store, struct error *error)
{
    struct listing listing = {.store = store, .all = options_has(&cli->options, "all"), .entries = json_array()};
    attune_status status = store_walk(store, add_entry, &listing, error);
    json_object_set_new(cli->result, "entries", sorted(listing.entries));
    if (status == ATTUNE_OK && !cli->json) {
        print_records(json_object_get(cli->result, "entries"));
    }
    return status;
}

static attune_status info(struct cli *cli, struct store *store, struct error *error)
{
    struct listing listing = {.store = store};
    attune_status status = store_walk(store, add_entry, &listing, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct table table;
    table_begin(&table, "kind|>count|>size");
    for (int i = 0; i <= STORE_TEMPORARY; i++) {
        char size[32];
        json_t *row = json_object();
        json_set_whole(row, "count", listing.counts[i]);
        json_set_whole(row, "bytes", (int64_t)listing.bytes[i]);
        json_object_set_new(cli->result, kind_names[i], row);
        format_bytes(listing.bytes[i], size);
        table_cell(&table, "%s", kind_names[i]);
        table_cell(&table, "%lld", (long long)listing.counts[i]);
        table_cell(&table, "%s", size);
    }
    if (!cli->json) {
        printf("%s\n", store_path(store));
    }
    table_end(&table, cli->json ? NULL : stdout);
    return ATTUNE_OK;
}

static void note_bad(void *data, const char *path, const char *reason)
{
    json_t *row = json_object();
    json_set_text(row, "path", path);
    json_set_text(row, "reason", reason);
    json_array_append_new(data, row);
}

static void print_verdict(const struct store_verdict *verdict, const json_t *bad, bool repaired)
{
    size_t index;
    json_t *row;
    json_array_foreach(bad, index, row)
    {
        char line[2048];
        snprintf(line, sizeof line, "%s: %s", json_string_value(json_object_get(row, "path")),
                 json_string_value(json_object_get(row, "reason")));
        text_make_plain(line);
        printf("%s\n", line);
    }
    printf("%d %s, %d %s and %d %s of blocked objects, %d bad%s, %d %s whose object is missing\n", verdict->objects,
           plural(verdict->objects, "object", "objects"), verdict->records,
           plural(verdict->records, "record", "records"), verdict->blocked, plural(verdict->blocked, "note", "notes"),
           verdict->bad, repaired && verdict->bad > 0 ? " (set aside)" : "", verdict->missing_objects,
           plural(verdict->missing_objects, "record", "records"));
}

static attune_status verify(struct cli *cli, struct store *store, struct error *error)
{
    struct store_verdict verdict = {0};
    bool repair = options_has(&cli->options, "repair");
    json_t *bad = json_array();
    attune_status status = store_verify_telling(store, repair, note_bad, bad, &verdict, error);
    json_object_set_new(cli->result, "bad_entries", bad);
    if (status != ATTUNE_OK) {
        return status;
    }
    json_set_whole(cli->result, "objects", verdict.objects);
    json_set_whole(cli->result, "records", verdict.records);
    json_set_whole(cli->result, "blocked", verdict.blocked);
    json_set_whole(cli->result, "bad", verdict.bad);
    json_set_whole(cli->result, "missing_objects", verdict.missing_objects);
    if (!cli->json) {
        print_verdict(&verdict, bad, repair);
    }
    if (verdict.bad > 0 && !repair) {
        return error_set(
            error, ATTUNE_CORRUPT,
            "'%s' has %d bad %s, the first is %s: `attune cache verify --repair` sets aside what is bad, and it is "
            "made again when needed",
            store_path(store), verdict.bad, plural(verdict.bad, "entry", "entries"),
            json_string_value(json_object_get(json_array_get(bad, 0), "path")));
    }
    return ATTUNE_OK;
}

static attune_status prune(struct cli *cli, struct store *store, struct error *error)
{
    const struct options *given = &cli->options;
    struct store_prune rule = {
        .older_than_seconds = (int64_t)options_real(given, "older-than", 0),
        .keep_bytes = options_whole(given, "keep", 0),
        .unreferenced = options_has(given, "unreferenced"),
        .blocked = options_has(given, "blocked"),
        .rejected = options_has(given, "rejected"),
        .dry_run = options_has(given, "dry-run"),
    };
    if (rule.older_than_seconds == 0 && rule.keep_bytes == 0 && !rule.unreferenced && !rule.blocked && !rule.rejected) {
        return error_set(error, ATTUNE_INVALID,
                         "prune needs a rule: --older-than TIME, --keep SIZE, --unreferenced, --blocked or --rejected");
    }
    int removed = 0;
    uint64_t bytes = 0;
    attune_status status = store_prune(store, &rule, &removed, &bytes, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    json_set_flag(cli->result, "dry_run", rule.dry_run);
    json_set_whole(cli->result, "removed", removed);
    json_set_whole(cli->result, "bytes", (int64_t)bytes);
    if (!cli->json) {
        char size[32];
        format_bytes(bytes, size);
        printf("%s %d %s, %s\n", rule.dry_run ? "would remove" : "removed", removed,
               plural(removed, "entry", "entries"), size);
    }
    return ATTUNE_OK;
}

static const struct action {
    const char *name;
    const char *const *options; /* that it takes beside the common ones; NULL-terminated */
    attune_status (*run)(struct cli *cli, struct store *store, struct error *error);
} actions[] = {
    {"ls", (const char *const[]){"all", NULL}, list},
    {"info", (const char *const[]){NULL}, info},
    {"journals", (const char *const[]){"problem", NULL}, cache_journals},
    {"report", (const char *const[]){"output", "problem", NULL}, cache_report},
    {"verify", (const char *const[]){"repair", NULL}, verify},
    {"prune", (const char *const[]){"older-than", "keep", "unreferenced", "blocked", "rejected", "dry-run", NULL},
     prune},
};

/* an option of another action is refused, not ignored */
static attune_status check_options(const struct cli *cli, const struct action *action, struct error *error)
{
    static const char *const common[] = {"store", "json", "help", NULL};
    for (int i = 0; i < cli->options.count; i++) {
        const char *name = cli->options.values[i].option->name;
        bool known = false;
        for (int j = 0; common[j] != NULL; j++) {
            known |= strcmp(common[j], name) == 0;
        }
        for (int j = 0; action->options[j] != NULL; j++) {
            known |= strcmp(action->options[j], name) == 0;
        }
        if (!known) {
            return error_set(error, ATTUNE_INVALID, "--%s does not go with `cache %s`: see `attune cache --help`", name,
                             action->name);
        }
    }
    return ATTUNE_OK;
}

static attune_status run(struct cli *cli, struct error *error)
{
    const char *name = cli->options.positionals[0];
    const struct action *action = NULL;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        action = strcmp(actions[i].name, name) == 0 ? &actions[i] : action;
    }
    if (action == NULL) {
        return error_set(error, ATTUNE_INVALID, "unknown action '%s': ls, info, journals, report, verify or prune",
                         name);
    }
    attune_status status = check_options(cli, action, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct store *store = NULL;
    status = store_open(options_text(&cli->options, "store"), &store, error);
    if (status == ATTUNE_OK && store_path(store)[0] == '\0') {
        status = cli_no_folder(store, error);
    }
    if (status == ATTUNE_OK) {
        json_set_text(cli->result, "action", name);
        json_set_text(cli->result, "store", store_path(store));
        status = action->run(cli, store, error);
    }
    store_close(store);
    return status;
}

const struct command command_cache = {
    .name = "cache",
    .usage = "ls|info|journals|report|verify|prune",
    .summary = "what the cache holds, whether it is intact, and making it smaller",
    .help = "ls        records: problem, target, times (--all: every entry)\n"
            "info      how much of what, and where\n"
            "journals  tuning runs: how far each came, its outcomes and the best candidate\n"
            "report    what tuning found, as a page to look at or print: winners, candidates, parameters, failures\n"
            "          (-o FILE; --json prints what it is made of)\n"
            "verify    checks every object and record; exit code 1 when one is bad\n"
            "prune     removes by age, size or use; records' objects stay unless older than asked\n",
    .options = options,
    .positional_minimum = 1,
    .positional_maximum = 1,
    .run = run,
};
