/* kfd.c - see kfd.h. */
#include "cli/kfd.h"

#include "base/files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NODES "class/kfd/kfd/topology/nodes"

/* ---- one node ---- */

enum property { SIMD_COUNT, SIMD_PER_CU, MAX_WAVES, LDS_KB, WAVE_SIZE, VERSION, LOCATION, DOMAIN, PROPERTY_COUNT };
static const char *const property_names[PROPERTY_COUNT] = {
    [SIMD_COUNT] = "simd_count",        [SIMD_PER_CU] = "simd_per_cu",
    [MAX_WAVES] = "max_waves_per_simd", [LDS_KB] = "lds_size_in_kb",
    [WAVE_SIZE] = "wave_front_size",    [VERSION] = "gfx_target_version",
    [LOCATION] = "location_id",         [DOMAIN] = "domain",
};
/* the largest that means anything: what is above comes from no kernel */
static const uint64_t property_limits[PROPERTY_COUNT] = {
    [SIMD_COUNT] = 1 << 20, [SIMD_PER_CU] = 64,     [MAX_WAVES] = 1024,  [LDS_KB] = 1 << 20,
    [WAVE_SIZE] = 1024,     [VERSION] = 99 * 10000, [LOCATION] = 0xffff, [DOMAIN] = 0xffffffff,
};

struct reading {
    uint64_t values[PROPERTY_COUNT];
    bool given[PROPERTY_COUNT];
};

/* `name value`, both without blanks in them, the value decimal: others than ours are not looked at */
static attune_status read_line(const char *line, size_t length, int number, struct reading *reading,
                               struct error *error)
{
    size_t name = 0, at;
    uint64_t value = 0;
    while (name < length && ((line[name] >= 'a' && line[name] <= 'z') || line[name] == '_' ||
                             (line[name] >= '0' && line[name] <= '9'))) {
        name++;
    }
    at = name + 1;
    bool good = name > 0 && at < length && line[name] == ' ';
    for (; good && at < length; at++) {
        unsigned digit = (unsigned char)line[at] - (unsigned)'0';
        good = digit <= 9 && value <= (UINT64_MAX - digit) / 10;
        value = value * 10 + digit;
    }
    if (!good) {
        return error_set(error, ATTUNE_CORRUPT, "line %d is not `name number`: '%.*s'", number,
                         (int)(length < 60 ? length : 60), line);
    }
    for (int i = 0; i < PROPERTY_COUNT; i++) {
        if (strlen(property_names[i]) != name || strncmp(property_names[i], line, name) != 0) {
            continue;
        }
        if (reading->given[i] || value > property_limits[i]) {
            return error_set(error, ATTUNE_CORRUPT, "line %d: %s %s", number, property_names[i],
                             reading->given[i] ? "is there twice" : "is larger than any GPU's");
        }
        reading->given[i] = true;
        reading->values[i] = value;
    }
    return ATTUNE_OK;
}

/* 90010 is 9.0.10, gfx90a: minor and stepping are one hexadecimal digit each */
static bool format_processor(uint64_t major, uint64_t minor, uint64_t stepping, char processor[TARGET_TEXT_BYTES])
{
    if (major < 1 || major > 99 || minor > 15 || stepping > 15) {
        return false;
    }
    snprintf(processor, TARGET_TEXT_BYTES, "gfx%d%x%x", (int)major, (unsigned)minor, (unsigned)stepping);
    return true;
}

attune_status kfd_parse(const char *text, size_t length, struct kfd_node *node, bool *gpu, struct error *error)
{
    struct reading reading = {.given = {false}};
    *node = (struct kfd_node){.number = 0};
    *gpu = false;
    int number = 0;
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t line = end != NULL ? (size_t)(end - text) - at : length - at;
        number++;
        attune_status status = line > 0 ? read_line(text + at, line, number, &reading, error) : ATTUNE_OK;
        if (status != ATTUNE_OK) {
            return status;
        }
        at += line + 1;
    }
    const uint64_t *values = reading.values;
    if (!reading.given[SIMD_COUNT]) {
        return error_set(error, ATTUNE_CORRUPT, "there is no simd_count in its %d lines", number);
    }
    if (values[SIMD_COUNT] == 0) {
        return ATTUNE_OK;
    }
    uint64_t version = values[VERSION];
    if (version != 0 && !format_processor(version / 10000, version / 100 % 100, version % 100, node->processor)) {
        return error_set(error, ATTUNE_CORRUPT, "gfx_target_version %llu is no processor", (unsigned long long)version);
    }
    *gpu = true;
    node->compute_units = values[SIMD_PER_CU] > 0 ? (int64_t)(values[SIMD_COUNT] / values[SIMD_PER_CU]) : 0;
    node->wave_size = (int64_t)values[WAVE_SIZE];
    node->lds_bytes = (int64_t)values[LDS_KB] * 1024;
    node->max_waves = (int64_t)values[MAX_WAVES];
    if (reading.given[LOCATION] && values[DOMAIN] <= 0xffff) {
        unsigned location = (unsigned)values[LOCATION];
        snprintf(node->pci, sizeof node->pci, "%04x:%02x:%02x.%x", (unsigned)values[DOMAIN], location >> 8 & 0xff,
                 location >> 3 & 0x1f, location & 7);
    }
    return ATTUNE_OK;
}

/* ---- all nodes ---- */

static void note_trouble(struct kfd_topology *topology, int number, const char *message)
{
    if (topology->troubles++ == 0) {
        snprintf(topology->trouble, sizeof topology->trouble, "node %d: %.400s", number, message);
    }
}

static bool folder_exists(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

attune_status kfd_read(const char *sys, struct kfd_topology *topology, struct error *error)
{
    char path[4096];
    memset(topology, 0, sizeof *topology);
    int length = snprintf(path, sizeof path, "%s/" NODES, sys);
    if (length < 0 || (size_t)length >= sizeof path - 32 || !folder_exists(path)) {
        return error_set(error, ATTUNE_NOT_FOUND,
                         "%.200s/" NODES " is not there: no amdgpu kernel driver, or a container without its /sys",
                         sys);
    }
    for (int number = 0; number < KFD_NODES_MAX; number++) { /* they are numbered without gaps */
        struct buffer text = BUFFER_INIT;
        struct error trouble = {.message = ""};
        struct kfd_node node;
        bool gpu = false;
        snprintf(path + length, sizeof path - (size_t)length, "/%d", number);
        if (!folder_exists(path)) {
            break;
        }
        snprintf(path + length, sizeof path - (size_t)length, "/%d/properties", number);
        attune_status status = file_read_text(path, KFD_FILE_MAX, &text, &trouble);
        if (status == ATTUNE_OK) {
            status = kfd_parse(buffer_string(&text), text.length, &node, &gpu, &trouble);
        }
        if (status != ATTUNE_OK) {
            note_trouble(topology, number, trouble.message);
        } else if (gpu) {
            node.number = number;
            topology->nodes[topology->count++] = node;
        }
        buffer_free(&text);
    }
    return ATTUNE_OK;
}

bool kfd_override(const char *value, char processor[TARGET_TEXT_BYTES])
{
    unsigned parts[3] = {0, 0, 0};
    const char *at = value;
    for (int i = 0; i < 3; i++) {
        size_t digits = strspn(at, "0123456789");
        if (digits < 1 || digits > 3 || sscanf(at, "%u", &parts[i]) != 1) {
            return false;
        }
        at += digits;
        if (*at != (i < 2 ? '.' : '\0')) {
            return false;
        }
        at += i < 2;
    }
    return format_processor(parts[0], parts[1], parts[2], processor);
}
