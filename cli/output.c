/* output.c - the JSON object of --json and a few shared forms. */
#include "cli/cli.h"

#include "base/text_json.h"
#include "cache/store.h"

#include <stdlib.h>
#include <string.h>

void json_set_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, text_to_json(text));
}

void json_set_whole(json_t *object, const char *key, int64_t value)
{
    json_object_set_new(object, key, json_integer(value));
}

void json_set_real(json_t *object, const char *key, double value)
{
    json_t *number = json_real(value); /* NULL for NaN and infinity, which JSON has not */
    json_object_set_new(object, key, number != NULL ? number : json_null());
}

void json_set_flag(json_t *object, const char *key, bool value)
{
    json_object_set_new(object, key, json_boolean(value));
}

void cli_print_json(const struct cli *cli, attune_status status, const struct error *error, FILE *out)
{
    if (status != ATTUNE_OK) {
        json_t *failure = json_object();
        json_set_text(failure, "status", attune_status_name(status));
        json_set_text(failure, "message", error->message);
        json_object_set_new(cli->result, "error", failure);
    }
    json_dumpf(cli->result, out, JSON_INDENT(1));
    fputc('\n', out);
}

void format_bytes(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(text, 32, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

const char *plural(int64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

attune_status cli_no_folder(const struct store *store, struct error *error)
{
    return error_set(
        error, ATTUNE_NOT_FOUND,
        "there is no cache folder to read (%s): set ATTUNE_CACHE to a folder of yours or give --store FOLDER",
        store_memory_reason(store));
}
