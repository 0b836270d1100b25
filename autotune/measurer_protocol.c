/* measurer_protocol.c - numbers and objects in frames. */
#include "autotune/measurer_protocol.h"

#include "base/locale.h"

#include <jansson.h>
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
