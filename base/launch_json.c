/* launch_json.c - launch descriptors as JSON, in the shape a template's Lua table has:
 *
 *   {"kernel":"f", "threads":256, "static_shared_bytes":0, "dynamic_shared_bytes":0,
 *    "arguments":[["q","pointer"],["seqlen_q","i32"]],
 *    "grid":[[["seqlen_q",64]],[["heads",1]],[["batch",1]]],          three lists of [field, divisor]
 *    "blocks_per_unit":0, "workspace":{"constant":0,"factor":0,"dims":[]}, "fixed":[["seqlen_q",4096]],
 *    "limits":[["q_seq_stride",32,2147483648]]}
 *
 * The last four may be missing. Reading trusts nothing, and refuses keys it does not know: a descriptor that asks for
 * something newer must not be launched without it.
 */
#include "base/launch.h"

#include <string.h>

static const char *const type_names[] = {
    [ARGUMENT_POINTER] = "pointer", [ARGUMENT_I32] = "i32", [ARGUMENT_U32] = "u32",
    [ARGUMENT_I64] = "i64",         [ARGUMENT_U64] = "u64", [ARGUMENT_F32] = "f32",
};
enum { TYPE_COUNT = sizeof type_names / sizeof type_names[0], THREADS_MAX = 1024, SHARED_BYTES_MAX = 1 << 20 };

static json_t *dimension_to_json(const struct launch_dimension *dimension)
{
    json_t *list = json_array();
    for (int i = 0; i < dimension->factor_count; i++) {
        json_array_append_new(
            list, json_pack("[s,I]", dimension->factors[i].field, (json_int_t)dimension->factors[i].divisor));
    }
    return list;
}

json_t *launch_to_json(const struct launch *launch)
{
    json_t *arguments = json_array();
    json_t *fixed = json_array();
    json_t *limits = json_array();
    for (int i = 0; i < launch->argument_count; i++) {
        json_array_append_new(arguments,
                              json_pack("[s,s]", launch->arguments[i].name, type_names[launch->arguments[i].type]));
    }
    for (int i = 0; i < launch->fixed_count; i++) {
        json_array_append_new(fixed, json_pack("[s,I]", launch->fixed[i].field, (json_int_t)launch->fixed[i].value));
    }
    for (int i = 0; i < launch->limit_count; i++) {
        json_array_append_new(limits,
                              json_pack("[s,I,I]", launch->limits[i].name, (json_int_t)launch->limits[i].multiplier,
                                        (json_int_t)launch->limits[i].limit));
    }
    json_t *json = json_pack(
        "{s:s, s:I, s:I, s:I, s:o, s:[o,o,o], s:I, s:{s:I, s:I, s:o}, s:o, s:o}", "kernel", launch->kernel, "threads",
        (json_int_t)launch->threads, "static_shared_bytes", (json_int_t)launch->static_shared_bytes,
        "dynamic_shared_bytes", (json_int_t)launch->dynamic_shared_bytes, "arguments", arguments, "grid",
        dimension_to_json(&launch->grid[0]), dimension_to_json(&launch->grid[1]), dimension_to_json(&launch->grid[2]),
        "blocks_per_unit", (json_int_t)launch->blocks_per_unit, "workspace", "constant",
        (json_int_t)launch->workspace_constant_bytes, "factor", (json_int_t)launch->workspace_factor_bytes, "dims",
        dimension_to_json(&launch->workspace), "fixed", fixed, "limits", limits);
    return json;
}

/* what remains of a read: the first complaint stops all later ones */
struct reader {
    struct error *error;
    attune_status status;
};

static void complain(struct reader *reader, const char *what, const char *expected)
{
    if (reader->status == ATTUNE_OK) {
        reader->status = error_set(reader->error, ATTUNE_CORRUPT, "launch descriptor: %s must be %s", what, expected);
    }
}

static int64_t read_integer(struct reader *reader, const json_t *json, int64_t minimum, int64_t maximum,
                            const char *what)
{
    if (!json_is_integer(json) || json_integer_value(json) < minimum || json_integer_value(json) > maximum) {
        if (reader->status == ATTUNE_OK) {
            reader->status =
                error_set(reader->error, ATTUNE_CORRUPT, "launch descriptor: %s must be an integer, %lld to %lld", what,
                          (long long)minimum, (long long)maximum);
        }
        return minimum;
    }
    return json_integer_value(json);
}

/* a C identifier that fits; dots and dollars never occur in the names we make */
static void read_name(struct reader *reader, const json_t *json, char *name, size_t bytes, const char *what)
{
    const char *text = json_is_string(json) ? json_string_value(json) : "";
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (length == 0 || length >= bytes || text[length] != '\0' || json_string_length(json) != length ||
        (text[0] >= '0' && text[0] <= '9')) {
        complain(reader, what, "an identifier of legal length");
        return;
    }
    memcpy(name, text, length + 1);
}

/* a list of at most `maximum` lists with `width` entries each; its length, 0 after a complaint */
static int read_list(struct reader *reader, const json_t *json, int maximum, size_t width, const char *what)
{
    if (!json_is_array(json) || json_array_size(json) > (size_t)maximum) {
        complain(reader, what, "a list that is not too long");
        return 0;
    }
    size_t count = json_array_size(json);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(json, i);
        if (!json_is_array(entry) || json_array_size(entry) != width) {
            complain(reader, what, width == 2 ? "a list of pairs" : "a list of triples");
            return 0;
        }
    }
    return (int)count;
}

static void read_dimension(struct reader *reader, const json_t *json, struct launch_dimension *dimension,
                           const char *what)
{
    dimension->factor_count = read_list(reader, json, LAUNCH_FACTORS_MAX, 2, what);
    for (int i = 0; i < dimension->factor_count; i++) {
        const json_t *pair = json_array_get(json, (size_t)i);
        read_name(reader, json_array_get(pair, 0), dimension->factors[i].field, FIELD_NAME_BYTES, what);
        dimension->factors[i].divisor = read_integer(reader, json_array_get(pair, 1), 1, INT64_MAX, what);
    }
}

static void read_arguments(struct reader *reader, const json_t *json, struct launch *launch)
{
    launch->argument_count = read_list(reader, json, LAUNCH_ARGUMENTS_MAX, 2, "arguments");
    for (int i = 0; i < launch->argument_count; i++) {
        const json_t *pair = json_array_get(json, (size_t)i);
        struct launch_argument *argument = &launch->arguments[i];
        read_name(reader, json_array_get(pair, 0), argument->name, FIELD_NAME_BYTES, "an argument's name");
        const char *type = json_string_value(json_array_get(pair, 1));
        int index = 0;
        while (index < TYPE_COUNT && !(type && strcmp(type, type_names[index]) == 0)) {
            index++;
        }
        if (index == TYPE_COUNT) {
            complain(reader, "an argument's type", "pointer, i32, u32, i64, u64 or f32");
            index = 0;
        }
        argument->type = (enum argument_type)index;
        for (int earlier = 0; earlier < i; earlier++) {
            if (strcmp(launch->arguments[earlier].name, argument->name) == 0) {
                complain(reader, "an argument's name", "unique");
            }
        }
    }
}

static void read_workspace(struct reader *reader, const json_t *json, struct launch *launch)
{
    if (!json_is_object(json)) {
        complain(reader, "workspace", "an object");
        return;
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)json, key, value)
    {
        if (strcmp(key, "constant") == 0) {
            launch->workspace_constant_bytes = read_integer(reader, value, 0, INT64_MAX, "workspace.constant");
        } else if (strcmp(key, "factor") == 0) {
            launch->workspace_factor_bytes = read_integer(reader, value, 0, INT64_MAX, "workspace.factor");
        } else if (strcmp(key, "dims") == 0) {
            read_dimension(reader, value, &launch->workspace, "workspace.dims");
        } else {
            complain(reader, "workspace", "constant, factor and dims, nothing else");
        }
    }
}

static void read_fixed(struct reader *reader, const json_t *json, struct launch *launch)
{
    launch->fixed_count = read_list(reader, json, LAUNCH_FIXED_MAX, 2, "fixed");
    for (int i = 0; i < launch->fixed_count; i++) {
        const json_t *pair = json_array_get(json, (size_t)i);
        read_name(reader, json_array_get(pair, 0), launch->fixed[i].field, FIELD_NAME_BYTES, "a fixed field");
        launch->fixed[i].value = read_integer(reader, json_array_get(pair, 1), INT64_MIN, INT64_MAX, "a fixed value");
    }
}

static void read_limits(struct reader *reader, const json_t *json, struct launch *launch)
{
    launch->limit_count = read_list(reader, json, LAUNCH_LIMITS_MAX, 3, "limits");
    for (int i = 0; i < launch->limit_count; i++) {
        const json_t *triple = json_array_get(json, (size_t)i);
        read_name(reader, json_array_get(triple, 0), launch->limits[i].name, FIELD_NAME_BYTES, "a limit's name");
        launch->limits[i].multiplier =
            read_integer(reader, json_array_get(triple, 1), 0, INT64_MAX, "a limit's multiplier");
        launch->limits[i].limit = read_integer(reader, json_array_get(triple, 2), 0, INT64_MAX, "a limit");
    }
}

static void read_member(struct reader *reader, const char *key, const json_t *value, struct launch *launch)
{
    if (strcmp(key, "kernel") == 0) {
        read_name(reader, value, launch->kernel, LAUNCH_NAME_BYTES, "kernel");
    } else if (strcmp(key, "threads") == 0) {
        launch->threads = (uint32_t)read_integer(reader, value, 1, THREADS_MAX, "threads");
    } else if (strcmp(key, "static_shared_bytes") == 0) {
        launch->static_shared_bytes = (uint32_t)read_integer(reader, value, 0, SHARED_BYTES_MAX, key);
    } else if (strcmp(key, "dynamic_shared_bytes") == 0) {
        launch->dynamic_shared_bytes = (uint32_t)read_integer(reader, value, 0, SHARED_BYTES_MAX, key);
    } else if (strcmp(key, "arguments") == 0) {
        read_arguments(reader, value, launch);
    } else if (strcmp(key, "grid") == 0) {
        if (!json_is_array(value) || json_array_size(value) != 3) {
            complain(reader, "grid", "a list of three dimensions");
            return;
        }
        for (size_t d = 0; d < 3; d++) {
            read_dimension(reader, json_array_get(value, d), &launch->grid[d], "grid");
        }
    } else if (strcmp(key, "blocks_per_unit") == 0) {
        launch->blocks_per_unit = read_integer(reader, value, 0, INT32_MAX, key);
    } else if (strcmp(key, "workspace") == 0) {
        read_workspace(reader, value, launch);
    } else if (strcmp(key, "fixed") == 0) {
        read_fixed(reader, value, launch);
    } else if (strcmp(key, "limits") == 0) {
        read_limits(reader, value, launch);
    } else if (reader->status == ATTUNE_OK) {
        reader->status = error_set(reader->error, ATTUNE_CORRUPT, "launch descriptor: unknown key \"%.40s\"", key);
    }
}

attune_status launch_from_json(const json_t *json, struct launch *launch, struct error *error)
{
    static const char *const required[] = {"kernel",    "threads", "static_shared_bytes", "dynamic_shared_bytes",
                                           "arguments", "grid"};
    struct reader reader = {.error = error, .status = ATTUNE_OK};
    struct launch read = {0};
    if (!json_is_object(json)) {
        return error_set(error, ATTUNE_CORRUPT, "launch descriptor: not a JSON object");
    }
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        if (!json_object_get(json, required[i])) {
            return error_set(error, ATTUNE_CORRUPT, "launch descriptor: \"%s\" is missing", required[i]);
        }
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)json, key, value)
    {
        read_member(&reader, key, value, &read);
    }
    uint32_t offsets[LAUNCH_ARGUMENTS_MAX], bytes;
    if (reader.status == ATTUNE_OK) {
        reader.status = launch_layout(&read, offsets, &bytes, error);
    }
    if (reader.status == ATTUNE_OK) {
        *launch = read;
    }
    return reader.status;
}
