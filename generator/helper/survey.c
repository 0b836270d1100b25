/* survey.c - every compiler that is here, for `attune doctor`. */
#include "generator/helper/helper.h"

#include <stdlib.h>
#include <string.h>

json_t *survey_entry(const char *compiler, bool found, const char *version, const struct identity *identity,
                     json_t *targets, const char *note)
{
    json_t *entry = json_object();
    json_object_set_new(entry, "compiler", json_string(compiler));
    json_object_set_new(entry, "found", json_boolean(found));
    json_object_set_new(entry, "version", json_string(version));
    json_object_set_new(entry, "files", identity != NULL ? identity_to_json(identity) : json_array());
    json_object_set_new(entry, "targets", targets);
    json_object_set_new(entry, "note", json_string(note != NULL ? note : ""));
    return entry;
}

attune_status survey(struct helper *helper, struct buffer *json, struct error *error)
{
    json_t *list = json_array();
    json_array_append_new(list, hiprtc_survey(helper));
    clang_survey(helper, list);
    json_array_append_new(list, nvrtc_survey(helper));
    json_array_append_new(list, host_survey(helper));
    json_array_append_new(list, disassembler_survey(helper));
    char *text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    if (text == NULL) {
        return error_no_memory(error);
    }
    buffer_text(json, text);
    free(text);
    return buffer_ok(json, error);
}
