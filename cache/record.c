/* record.c - records as JSON. What is written is read back and compared with what the problem itself says: the texts,
 * the specialisation and the shape of a record cannot disagree. */
#include "cache/record.h"

#include "base/control.h"
#include "base/locale.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { RECORD_VERSION = 1, RECORD_BUILT_IN_BYTES_MAX = 4096 };

static const char *const kind_names[] = {[RECORD_TUNED] = "tuned", [RECORD_DEFAULT] = "default"};

void record_free(struct record *record)
{
    free(record->schema);
    record->schema = NULL;
}

void record_new_run(char run[33])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        /* no source of randomness: time, process and a stack address still tell runs apart */
        struct timespec now;
        struct digest digest;
        clock_gettime(CLOCK_REALTIME, &now);
        uint64_t facts[4] = {(uint64_t)now.tv_sec, (uint64_t)now.tv_nsec, (uint64_t)getpid(),
                             (uint64_t)(uintptr_t)&now};
        digest_of(facts, sizeof facts, &digest);
        memcpy(bytes, digest.bytes, sizeof bytes);
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(run + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* ------------------------------------------------------------------------------------------------ folders */

/* ':' starts a feature, '+' and '-' end it: `gfx90a:sramecc+:xnack-` becomes `gfx90a_sramecc_on_xnack_off` */
static void target_for_file(const char *target, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    bool in_feature = false;
    for (const char *c = target; *c != '\0' && used + 5 < bytes; c++) {
        const char *put = NULL;
        if (*c == ':') {
            put = "_";
            in_feature = true;
        } else if (*c == '+') {
            put = "_on";
        } else if (*c == '-' && in_feature) {
            put = "_off";
        }
        if (put != NULL) {
            used += (size_t)snprintf(text + used, bytes - used, "%s", put);
        } else {
            text[used++] = *c;
            text[used] = '\0';
        }
    }
}

void fingerprint_folder(const struct fingerprint *fingerprint, char folder[128])
{
    char target[88];
    const uint64_t gib = (uint64_t)1 << 30;
    target_for_file(fingerprint->target, target, sizeof target);
    snprintf(folder, 128, "%s-%dcu-%lluk-%llug", target, (int)fingerprint->compute_units,
             (unsigned long long)(fingerprint->shared_bytes / 1024),
             (unsigned long long)(fingerprint->memory_bytes / gib + (fingerprint->memory_bytes % gib >= gib / 2)));
}

void default_folder(const struct target *target, char folder[128])
{
    char text[TARGET_TEXT_BYTES], name[88];
    target_format(target, text);
    target_for_file(text, name, sizeof name);
    snprintf(folder, 128, "default-%s", name);
}

void record_device_folder(const struct record *record, char folder[128])
{
    if (record->kind == RECORD_TUNED) {
        fingerprint_folder(&record->device, folder);
        return;
    }
    char name[88];
    target_for_file(record->device.target, name, sizeof name);
    snprintf(folder, 128, "default-%s", name);
}

/* ------------------------------------------------------------------------------------------------ checks */

static attune_status bad(struct error *error, const char *field, const char *why)
{
    return error_set(error, ATTUNE_CORRUPT, "record: %s %s", field, why);
}

static bool is_hex(const char *text, size_t length)
{
    return strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

static bool is_printable(const char *text)
{
    while (*text != '\0' && control_length(text) == 0) {
        text++;
    }
    return *text == '\0';
}

/* a shape goes into a file name */
static bool shape_is_safe(const char *shape)
{
    return shape[0] != '.' &&
           strspn(shape, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == strlen(shape);
}

static attune_status check_times(const struct record *record, struct error *error)
{
    const double times[] = {record->winner_microseconds, record->default_microseconds};
    for (int i = 0; i < 2; i++) {
        if (times[i] != 0 && !(times[i] >= 1e-3 && times[i] <= 1e12)) { /* what no device takes, NaN too */
            return bad(error, i == 0 ? "winner_microseconds" : "default_microseconds",
                       "is neither 0, for not timed, nor a time from 1e-3 to 1e12");
        }
    }
    const int counts[] = {record->tried, record->verified, record->rejected, record->timed};
    for (int i = 0; i < 4; i++) {
        if (counts[i] < 0 || counts[i] > 1000000000) {
            return bad(error, "counts", "are not from 0 to 1e9");
        }
    }
    return record->created >= 0 ? ATTUNE_OK : bad(error, "created", "is negative");
}

static attune_status check_device(const struct record *record, struct error *error)
{
    struct target target;
    char text[TARGET_TEXT_BYTES];
    if (target_parse(record->device.target, &target, NULL) != ATTUNE_OK) {
        return bad(error, "target", "is malformed");
    }
    target_format(&target, text);
    if (strcmp(text, record->device.target) != 0) {
        return bad(error, "target", "is not canonical");
    }
    if (record->device.compute_units < 0 || record->device.power_limit_watts < 0 ||
        !is_printable(record->device.driver) || !is_printable(record->device_name)) {
        return bad(error, "device", "is malformed");
    }
    return ATTUNE_OK;
}

/* the problem's own words against the record's */
static attune_status check_problem(const struct record *record, const struct schema *schema, struct error *error)
{
    struct problem problem;
    char text[PROBLEM_TEXT_BYTES];
    attune_status status = problem_parse(schema, record->problem, &problem, error);
    if (status == ATTUNE_OK) {
        status = problem_format(&problem, text, error);
    }
    if (status != ATTUNE_OK) {
        error_prefix(error, "record: problem");
        return status == ATTUNE_NO_MEMORY ? status : ATTUNE_CORRUPT;
    }
    if (strcmp(text, record->problem) != 0) {
        return bad(error, "problem", "is not in canonical form");
    }
    status = problem_specialisation(&problem, text, error);
    if (status != ATTUNE_OK || strcmp(text, record->specialisation) != 0) {
        return bad(error, "specialisation", "is not the problem's");
    }
    status = problem_shape(&problem, text, error);
    if (status != ATTUNE_OK || strcmp(text, record->shape) != 0 || !shape_is_safe(text)) {
        return bad(error, "shape", "is not the problem's");
    }
    for (int i = 0; i < record->launch.fixed_count; i++) {
        int field = schema_find(schema, record->launch.fixed[i].field);
        if (field < 0 || schema->fields[field].kind == FIELD_REAL ||
            problem.values[field].integer != record->launch.fixed[i].value) {
            return bad(error, "launch", "fixes a value that the problem does not have");
        }
    }
    return ATTUNE_OK;
}

static attune_status check_record(const struct record *record, struct error *error)
{
    char family[FAMILY_NAME_BYTES];
    attune_status status;
    if (record->kind != RECORD_TUNED && record->kind != RECORD_DEFAULT) {
        return bad(error, "kind", "is neither tuned nor default");
    }
    if (problem_family(record->problem, family, error) != ATTUNE_OK) {
        return bad(error, "problem", "names no family");
    }
    const struct schema *schema = schema_built_in(family);
    if (schema != NULL && record->schema != NULL) {
        return bad(error, "schema", "must not be there for a built-in family");
    }
    if (schema == NULL && (schema = record->schema) == NULL) {
        return bad(error, "schema", "is missing: the family is not a built-in one");
    }
    if (strcmp(schema->family, family) != 0) {
        return bad(error, "schema", "belongs to another family");
    }
    if (record->candidate[0] == '\0' || !is_printable(record->candidate) || !is_printable(record->compiler)) {
        return bad(error, "candidate", "or compiler is malformed");
    }
    if (!is_hex(record->run, 32) || (record->identity[0] != '\0' && !is_hex(record->identity, 64)) ||
        (record->template_digest[0] != '\0' && !is_hex(record->template_digest, 64))) {
        return bad(error, "run", "or identity or template is not hex");
    }
    if ((status = check_times(record, error)) != ATTUNE_OK || (status = check_device(record, error)) != ATTUNE_OK) {
        return status;
    }
    return check_problem(record, schema, error);
}

/* ------------------------------------------------------------------------------------------------ seal */

/* The last member of the object, `,"check":"<digest of the text without it>"}`, always of this length: a flipped bit in
 * a grid's divisor would be legal JSON, and a wrong launch. */
static const char seal_head[] = ",\"check\":\"";
enum { SEAL_BYTES = sizeof seal_head - 1 + DIGEST_HEX_BYTES - 1 + 2 };

static void seal_make(const char *text, size_t length, char seal[SEAL_BYTES + 1])
{
    struct digest digest;
    char hex[DIGEST_HEX_BYTES];
    digest_of(text, length, &digest);
    digest_hex(&digest, hex);
    snprintf(seal, SEAL_BYTES + 1, "%s%s\"}", seal_head, hex);
}

static bool seal_is_right(const char *json, size_t bytes)
{
    if (bytes > 0 && json[bytes - 1] == '\n') {
        bytes--;
    }
    if (bytes <= SEAL_BYTES) {
        return false;
    }
    struct digest_state state;
    struct digest digest;
    char hex[DIGEST_HEX_BYTES], seal[SEAL_BYTES + 1];
    digest_begin(&state);
    digest_update(&state, json, bytes - SEAL_BYTES);
    digest_update(&state, "}", 1);
    digest_end(&state, &digest);
    digest_hex(&digest, hex);
    snprintf(seal, sizeof seal, "%s%s\"}", seal_head, hex);
    return memcmp(json + bytes - SEAL_BYTES, seal, SEAL_BYTES) == 0;
}

/* ------------------------------------------------------------------------------------------------ writing */

attune_status record_to_json(const struct record *record, struct buffer *json, struct error *error)
{
    char object[DIGEST_HEX_BYTES];
    attune_status status = check_record(record, error);
    if (status != ATTUNE_OK) {
        error_prefix(error, "cannot be written");
        if (error != NULL && status == ATTUNE_CORRUPT) {
            error->status = ATTUNE_INVALID;
        }
        return status == ATTUNE_CORRUPT ? ATTUNE_INVALID : status;
    }
    locale_t previous = locale_enter();
    char *text = NULL;
    digest_hex(&record->object, object);
    json_t *root = json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:{s:s, s:i, s:I, s:I, s:s, s:i, s:s}, s:s, s:s, s:s, s:s, s:s, s:o}", "record",
        RECORD_VERSION, "kind", kind_names[record->kind], "problem", record->problem, "specialisation",
        record->specialisation, "shape", record->shape, "device", "target", record->device.target, "compute_units",
        (int)record->device.compute_units, "shared_bytes", (json_int_t)record->device.shared_bytes, "memory_bytes",
        (json_int_t)record->device.memory_bytes, "driver", record->device.driver, "power_limit_watts",
        (int)record->device.power_limit_watts, "name", record->device_name, "candidate", record->candidate, "object",
        object, "compiler", record->compiler, "identity", record->identity, "template", record->template_digest,
        "launch", launch_to_json(&record->launch));
    json_t *rest =
        json_pack("{s:f, s:f, s:i, s:i, s:i, s:i, s:s, s:b, s:I}", "winner_microseconds", record->winner_microseconds,
                  "default_microseconds", record->default_microseconds, "tried", record->tried, "verified",
                  record->verified, "rejected", record->rejected, "timed", record->timed, "run", record->run,
                  "complete", (int)record->complete, "created", (json_int_t)record->created);
    bool good = root != NULL && rest != NULL && json_object_update(root, rest) == 0;
    if (good && record->schema != NULL) {
        good = json_object_set_new(root, "schema", schema_to_json(record->schema)) == 0;
    }
    if (good) {
        text = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER);
    }
    json_decref(root);
    json_decref(rest);
    locale_leave(previous);
    if (text == NULL) {
        return error_set(error, ATTUNE_NO_MEMORY,
                         "record: cannot be put into JSON (no memory, or a text that is not UTF-8)");
    }
    char check[SEAL_BYTES + 1];
    size_t length = strlen(text) - 1 + SEAL_BYTES,
           limit = record->schema != NULL ? RECORD_BYTES_MAX : RECORD_BUILT_IN_BYTES_MAX;
    if (length + 1 > limit) {
        status = error_set(error, ATTUNE_INVALID,
                           "record of %zu bytes: the limit is %zu; shorten the candidate or the launch "
                           "descriptor",
                           length + 1, limit);
    } else {
        seal_make(text, strlen(text), check);
        buffer_append(json, text, strlen(text) - 1);
        buffer_append(json, check, SEAL_BYTES);
        buffer_append(json, "\n", 1);
        status = buffer_ok(json, error);
    }
    free(text);
    return status;
}

/* ------------------------------------------------------------------------------------------------ reading */

static attune_status read_text(const json_t *object, const char *key, char *into, size_t bytes, struct error *error)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) {
        return bad(error, key, "is missing or not a text");
    }
    if (json_string_length(value) >= bytes || json_string_length(value) != strlen(json_string_value(value))) {
        return bad(error, key, "is too long or holds a NUL");
    }
    memcpy(into, json_string_value(value), json_string_length(value) + 1);
    return ATTUNE_OK;
}

static attune_status read_integer(const json_t *object, const char *key, int64_t maximum, int64_t *into,
                                  struct error *error)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > maximum) {
        return bad(error, key, "is missing, not an integer, or out of range");
    }
    *into = json_integer_value(value);
    return ATTUNE_OK;
}

static attune_status read_count(const json_t *object, const char *key, int *into, struct error *error)
{
    int64_t value = 0;
    attune_status status = read_integer(object, key, 1000000000, &value, error);
    *into = (int)value;
    return status;
}

static attune_status read_real(const json_t *object, const char *key, double *into, struct error *error)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) {
        return bad(error, key, "is missing or not a number");
    }
    *into = json_number_value(value);
    return ATTUNE_OK;
}

static attune_status read_device(const json_t *device, struct record *record, struct error *error)
{
    int64_t value = 0;
    attune_status status;
    if ((status = read_text(device, "target", record->device.target, sizeof record->device.target, error)) !=
            ATTUNE_OK ||
        (status = read_text(device, "driver", record->device.driver, sizeof record->device.driver, error)) !=
            ATTUNE_OK ||
        (status = read_text(device, "name", record->device_name, sizeof record->device_name, error)) != ATTUNE_OK ||
        (status = read_integer(device, "compute_units", INT32_MAX, &value, error)) != ATTUNE_OK) {
        return status;
    }
    record->device.compute_units = (int32_t)value;
    if ((status = read_integer(device, "power_limit_watts", INT32_MAX, &value, error)) != ATTUNE_OK) {
        return status;
    }
    record->device.power_limit_watts = (int32_t)value;
    if ((status = read_integer(device, "shared_bytes", INT64_MAX, &value, error)) != ATTUNE_OK) {
        return status;
    }
    record->device.shared_bytes = (uint64_t)value;
    status = read_integer(device, "memory_bytes", INT64_MAX, &value, error);
    record->device.memory_bytes = (uint64_t)value;
    return status;
}

static attune_status read_fields(const json_t *root, struct record *record, struct error *error)
{
    const struct {
        const char *key;
        char *into;
        size_t bytes;
    } texts[] = {
        {"problem", record->problem, sizeof record->problem},
        {"specialisation", record->specialisation, sizeof record->specialisation},
        {"shape", record->shape, sizeof record->shape},
        {"candidate", record->candidate, sizeof record->candidate},
        {"compiler", record->compiler, sizeof record->compiler},
        {"identity", record->identity, sizeof record->identity},
        {"template", record->template_digest, sizeof record->template_digest},
        {"run", record->run, sizeof record->run},
    };
    attune_status status = ATTUNE_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == ATTUNE_OK; i++) {
        status = read_text(root, texts[i].key, texts[i].into, texts[i].bytes, error);
    }
    if (status == ATTUNE_OK) {
        status = read_device(json_object_get(root, "device"), record, error);
    }
    if (status == ATTUNE_OK &&
        ((status = read_real(root, "winner_microseconds", &record->winner_microseconds, error)) != ATTUNE_OK ||
         (status = read_real(root, "default_microseconds", &record->default_microseconds, error)) != ATTUNE_OK ||
         (status = read_count(root, "tried", &record->tried, error)) != ATTUNE_OK ||
         (status = read_count(root, "verified", &record->verified, error)) != ATTUNE_OK ||
         (status = read_count(root, "rejected", &record->rejected, error)) != ATTUNE_OK ||
         (status = read_count(root, "timed", &record->timed, error)) != ATTUNE_OK)) {
        return status;
    }
    return status == ATTUNE_OK ? read_integer(root, "created", INT64_MAX, &record->created, error) : status;
}

static attune_status read_record(const json_t *root, struct record *record, struct error *error)
{
    char text[DIGEST_HEX_BYTES];
    int64_t version = 0;
    attune_status status = read_integer(root, "record", INT32_MAX, &version, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (version != RECORD_VERSION) { /* sealed and whole: another release's, not ours to judge */
        return error_set(error, ATTUNE_UNSUPPORTED, "record: format version %lld; this release reads %d",
                         (long long)version, RECORD_VERSION);
    }
    if ((status = read_text(root, "kind", text, sizeof text, error)) != ATTUNE_OK) {
        return status;
    }
    if (strcmp(text, "tuned") != 0 && strcmp(text, "default") != 0) {
        return bad(error, "kind", "is neither tuned nor default");
    }
    record->kind = text[0] == 't' ? RECORD_TUNED : RECORD_DEFAULT;
    if ((status = read_fields(root, record, error)) != ATTUNE_OK ||
        (status = read_text(root, "object", text, sizeof text, error)) != ATTUNE_OK) {
        return status;
    }
    if (!is_hex(text, 64)) {
        return bad(error, "object", "is not 64 hex digits");
    }
    for (int i = 0; i < DIGEST_BYTES; i++) {
        unsigned byte = 0;
        sscanf(text + 2 * i, "%2x", &byte);
        record->object.bytes[i] = (uint8_t)byte;
    }
    const json_t *complete = json_object_get(root, "complete");
    if (!json_is_boolean(complete)) {
        return bad(error, "complete", "is missing or not a boolean");
    }
    record->complete = json_is_true(complete);
    if (!json_is_object(json_object_get(root, "launch"))) {
        return bad(error, "launch", "is missing or not an object");
    }
    if ((status = launch_from_json(json_object_get(root, "launch"), &record->launch, error)) != ATTUNE_OK) {
        error_prefix(error, "record: launch");
        return status == ATTUNE_NO_MEMORY ? status : ATTUNE_CORRUPT;
    }
    const json_t *schema = json_object_get(root, "schema");
    if (schema != NULL && (status = schema_from_json(schema, &record->schema, error)) != ATTUNE_OK) {
        error_prefix(error, "record: schema");
        return status == ATTUNE_NO_MEMORY ? status : ATTUNE_CORRUPT;
    }
    return check_record(record, error);
}

attune_status record_from_json(const char *json, size_t bytes, struct record *record, struct error *error)
{
    json_error_t where;
    memset(record, 0, sizeof *record);
    if (bytes > RECORD_BYTES_MAX) {
        return error_set(error, ATTUNE_CORRUPT, "record: %zu bytes are more than the limit of %d", bytes,
                         RECORD_BYTES_MAX);
    }
    if (!seal_is_right(json, bytes)) {
        return error_set(error, ATTUNE_CORRUPT, "record: its check is missing or differs from its text");
    }
    locale_t previous = locale_enter();
    json_t *root = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &where);
    attune_status status;
    if (root == NULL) {
        status = error_set(error, ATTUNE_CORRUPT, "record: not JSON: line %d: %s", where.line, where.text);
    } else if (!json_is_object(root)) {
        status = error_set(error, ATTUNE_CORRUPT, "record: the JSON is not an object");
    } else {
        status = read_record(root, record, error);
    }
    json_decref(root);
    locale_leave(previous);
    if (status != ATTUNE_OK) {
        record_free(record);
        if (error != NULL) {
            error->status = status;
        }
    }
    return status;
}
