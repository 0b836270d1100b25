/* target.c - parsing, printing and compatibility of target IDs. */
#include "base/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const examples = "expected gfx906, gfx90a:sramecc+:xnack-, sm_80, sm_90a, host or host-gfx906";

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* gfx + 3 to 5 of 0-9a-f, the first a digit: major, minor, stepping */
static bool is_amd_processor(const char *text)
{
    if (strncmp(text, "gfx", 3) != 0 || !is_digit(text[3])) {
        return false;
    }
    size_t digits = strspn(text + 3, "0123456789abcdef");
    return digits >= 3 && digits <= 5 && text[3 + digits] == '\0';
}

/* sm_ + 2 or 3 digits + an optional a or f */
static bool is_nvidia_processor(const char *text)
{
    if (strncmp(text, "sm_", 3) != 0 || text[3] == '0') {
        return false;
    }
    size_t digits = strspn(text + 3, "0123456789");
    const char *suffix = text + 3 + digits;
    return digits >= 2 && digits <= 3 &&
           (suffix[0] == '\0' || ((suffix[0] == 'a' || suffix[0] == 'f') && suffix[1] == '\0'));
}

static attune_status parse_feature(const char *text, size_t length, const char *whole, struct target *target,
                                   struct error *error)
{
    char sign = length ? text[length - 1] : '\0';
    enum target_feature *feature = NULL;
    if (length == 8 && strncmp(text, "sramecc", 7) == 0) {
        feature = &target->sramecc;
    } else if (length == 6 && strncmp(text, "xnack", 5) == 0) {
        feature = &target->xnack;
    }
    if (!feature || (sign != '+' && sign != '-')) {
        return error_set(error, ATTUNE_INVALID,
                         "target %.80s: unknown feature \"%.*s\"; known: sramecc+ sramecc- xnack+ xnack-", whole,
                         (int)(length > 40 ? 40 : length), text);
    }
    if (*feature != TARGET_FEATURE_ANY) {
        return error_set(error, ATTUNE_INVALID, "target %.80s: feature %.*s is given twice", whole, (int)length - 1,
                         text);
    }
    *feature = sign == '+' ? TARGET_FEATURE_ON : TARGET_FEATURE_OFF;
    return ATTUNE_OK;
}

attune_status target_parse(const char *text, struct target *target, struct error *error)
{
    struct target parsed = {0};
    size_t length = strcspn(text, ":");
    if (length == 0 || length >= sizeof parsed.processor) {
        return error_set(error, ATTUNE_INVALID, "target \"%.80s\" is not a target; %s", text, examples);
    }
    memcpy(parsed.processor, text, length);
    if (is_amd_processor(parsed.processor)) {
        parsed.vendor = TARGET_AMD;
    } else if (is_nvidia_processor(parsed.processor)) {
        parsed.vendor = TARGET_NVIDIA;
    } else if (strcmp(parsed.processor, "host") == 0 ||
               (strncmp(parsed.processor, "host-", 5) == 0 &&
                (is_amd_processor(parsed.processor + 5) || is_nvidia_processor(parsed.processor + 5)))) {
        parsed.vendor = TARGET_HOST;
    } else {
        return error_set(error, ATTUNE_INVALID, "target \"%.80s\" is not a target; %s", text, examples);
    }
    for (const char *rest = text + length; *rest == ':';) {
        rest++;
        size_t feature = strcspn(rest, ":");
        if (parsed.vendor != TARGET_AMD) {
            return error_set(error, ATTUNE_INVALID, "target %.80s: only gfx targets have features; use %s", text,
                             parsed.processor);
        }
        attune_status status = parse_feature(rest, feature, text, &parsed, error);
        if (status != ATTUNE_OK) {
            return status;
        }
        rest += feature;
    }
    *target = parsed;
    return ATTUNE_OK;
}

static const char *feature_text(enum target_feature feature, const char *on, const char *off)
{
    return feature == TARGET_FEATURE_ON ? on : feature == TARGET_FEATURE_OFF ? off : "";
}

void target_format(const struct target *target, char text[TARGET_TEXT_BYTES])
{
    snprintf(text, TARGET_TEXT_BYTES, "%s%s%s", target->processor,
             feature_text(target->sramecc, ":sramecc+", ":sramecc-"),
             feature_text(target->xnack, ":xnack+", ":xnack-"));
}

static attune_status refuse(const struct target *device, const struct target *code, const char *part,
                            struct error *error)
{
    char device_text[TARGET_TEXT_BYTES], code_text[TARGET_TEXT_BYTES];
    target_format(device, device_text);
    target_format(code, code_text);
    return error_set(error, ATTUNE_UNSUPPORTED, "code for %s does not run on a %s device: %s differs", code_text,
                     device_text, part);
}

/* number and suffix of sm_90a: 90 and 'a' */
static int nvidia_number(const struct target *target, char *suffix)
{
    char *end;
    long number = strtol(target->processor + 3, &end, 10);
    *suffix = *end;
    return (int)number;
}

static attune_status accept_nvidia(const struct target *device, const struct target *code, struct error *error)
{
    char device_suffix, code_suffix;
    int device_number = nvidia_number(device, &device_suffix);
    int code_number = nvidia_number(code, &code_suffix);
    if (device_number / 10 != code_number / 10) {
        return refuse(device, code, "the major compute capability", error);
    }
    if (code_suffix == 'a' && (code_number != device_number || device_suffix != 'a')) {
        return refuse(device, code, "the architecture that an a suffix pins", error);
    }
    if (code_number % 10 > device_number % 10) {
        return refuse(device, code, "the minor compute capability (the code's is newer)", error);
    }
    return ATTUNE_OK;
}

attune_status target_accepts(const struct target *device, const struct target *code, struct error *error)
{
    if (device->vendor != code->vendor) {
        return refuse(device, code, "the vendor", error);
    }
    if (device->vendor == TARGET_NVIDIA) {
        return accept_nvidia(device, code, error);
    }
    bool plain_host = device->vendor == TARGET_HOST && strcmp(device->processor, "host") == 0;
    if (!plain_host && strcmp(device->processor, code->processor) != 0) {
        return refuse(device, code, "the processor", error);
    }
    if (code->sramecc != TARGET_FEATURE_ANY && code->sramecc != device->sramecc) {
        return refuse(device, code, "the feature sramecc", error);
    }
    if (code->xnack != TARGET_FEATURE_ANY && code->xnack != device->xnack) {
        return refuse(device, code, "the feature xnack", error);
    }
    return ATTUNE_OK;
}

const char *target_emulated(const struct target *target)
{
    return target->vendor == TARGET_HOST && strncmp(target->processor, "host-", 5) == 0 ? target->processor + 5 : "";
}

bool target_flushes(const struct target *target)
{
    return strcmp(target->vendor == TARGET_HOST ? target_emulated(target) : target->processor, "gfx90a") == 0;
}

void target_from_compute_capability(int major, int minor, struct target *target)
{
    *target = (struct target){.vendor = TARGET_NVIDIA};
    /* architecture-specific instructions (wgmma, tcgen05) exist from 9.0 on */
    snprintf(target->processor, sizeof target->processor, "sm_%d%d%s", major, minor, major >= 9 ? "a" : "");
}
