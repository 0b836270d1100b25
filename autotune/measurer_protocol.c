/* measurer_protocol.c - numbers and objects in frames. */
#include "autotune/measurer_protocol.h"

#include "base/locale.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void measure_add_number(struct buffer *frame, uint32_t key, double number)
{
    message_add(frame, key, &number, sizeof number);
}

double measure_number(const struct message *message, uint32_t key)
{
    const struct message_field *field = message_find(message, key);
    double number = 0.0;
    if (field != NULL && field->length == sizeof number) {
        memcpy(&number, field->bytes, sizeof number);
    }
    return number;
}

attune_status measure_add_object(struct buffer *frame, uint32_t key, const struct kernel_object *object,
                                 struct error *error)
{
    json_t *json = launch_to_json(object->launch);
    locale_t previous = locale_enter();
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    locale_leave(previous);
    json_decref(json);
    if (text == NULL) {
        return error_no_memory(error);
    }
    message_add(frame, key, object->bytes, object->length);
    message_add_text(frame, key + 1, text);
    free(text);
    return ATTUNE_OK;
}

attune_status measure_object(const struct message *message, uint32_t key, struct launch *launch,
                             struct kernel_object *object, struct error *error)
{
    const struct message_field *bytes = message_find(message, key), *text = message_find(message, key + 1);
    if (bytes == NULL || text == NULL) {
        return error_set(error, ATTUNE_CORRUPT, "a request names no object");
    }
    locale_t previous = locale_enter();
    json_t *json = json_loadb(text->bytes, text->length, JSON_REJECT_DUPLICATES, NULL);
    locale_leave(previous);
    attune_status status = launch_from_json(json, launch, error);
    json_decref(json);
    *object = (struct kernel_object){bytes->bytes, bytes->length, launch};
    return status;
}

attune_status measure_status(const struct message *reply, struct error *error)
{
    const char *text = message_text(reply, MEASURE_KEY_TEXT);
    int64_t status = message_integer(reply, MEASURE_KEY_STATUS);
    if (status == ATTUNE_OK) {
        return ATTUNE_OK;
    }
    if (status < 0 || status > ATTUNE_INTERNAL) {
        return error_set(error, ATTUNE_CORRUPT, "the measuring program answered with status %lld", (long long)status);
    }
    return error_set(error, (attune_status)status, "%s",
                     text[0] != '\0' ? text : "the measuring program refused without a reason");
}

static bool ended(const char *text, size_t bytes)
{
    return memchr(text, '\0', bytes) != NULL;
}

attune_status measure_facts(const struct message *reply, struct measurer_facts *facts, struct error *error)
{
    const struct message_field *field = message_find(reply, MEASURE_KEY_FACTS);
    struct measurer_facts read;
    if (field == NULL || field->length != sizeof read) {
        return error_set(error, ATTUNE_UNSUPPORTED,
                         "attune-measure is of another build: install it and the library of the same release");
    }
    memcpy(&read, field->bytes, sizeof read);
    const struct driver_device *device = &read.device;
    char text[TARGET_TEXT_BYTES];
    struct target target;
    unsigned char flags[2];
    memcpy(&flags[0], &((const char *)field->bytes)[offsetof(struct measurer_facts, timed)], 1);
    memcpy(&flags[1], &((const char *)field->bytes)[offsetof(struct measurer_facts, wants_judge)], 1);
    bool good = ended(device->name, sizeof device->name) &&
                ended(device->driver_version, sizeof device->driver_version) &&
                ended(device->target.processor, sizeof device->target.processor) && flags[0] <= 1 && flags[1] <= 1 &&
                device->sharing >= DRIVER_SHARED && device->sharing <= DRIVER_PROHIBITED && isfinite(read.operations) &&
                read.operations >= 0;
    if (good) {
        target_format(&device->target, text);
        good = target_parse(text, &target, NULL) == ATTUNE_OK && target.vendor == device->target.vendor;
    }
    if (!good) {
        return error_set(error, ATTUNE_CORRUPT, "the measuring program describes no device");
    }
    *facts = read;
    return ATTUNE_OK;
}
