/* job.c - a request's fields as a job. The library checks what it asks for, but a number out of range would pick a row
 * of a table here, so each is held against its range again. */
#include "generator/compiler_protocol.h"
#include "generator/helper/helper.h"

attune_status job_read(const struct message *request, struct job *job, struct error *error)
{
    const struct message_field *source = message_find(request, KEY_SOURCE);
    int64_t kind = message_integer(request, KEY_COMPILER);
    int64_t sanitize = message_integer(request, KEY_SANITIZE);
    int64_t code_object = message_integer(request, KEY_CODE_OBJECT);
    if (kind < COMPILER_AUTO || kind > COMPILER_HOST || sanitize < SANITIZE_NONE || sanitize > SANITIZE_THREAD) {
        return error_set(error, ATTUNE_INVALID, "compiler %lld or sanitizer %lld is out of range", (long long)kind,
                         (long long)sanitize);
    }
    if (code_object != 0 && (code_object < 4 || code_object > 6)) {
        return error_set(error, ATTUNE_INVALID, "code object version %lld: 4, 5 or 6, or 0 for the compiler's choice",
                         (long long)code_object);
    }
    if (source != NULL && source->length > PROTOCOL_SOURCE_BYTES) {
        return error_set(error, ATTUNE_INVALID, "a source of %u bytes: the limit is %d", source->length,
                         PROTOCOL_SOURCE_BYTES);
    }
    job->kind = (enum compiler_kind)kind;
    job->sanitize = (enum sanitize)sanitize;
    job->code_object = (int)code_object;
    job->source = source != NULL ? source->bytes : "";
    job->source_bytes = source != NULL ? source->length : 0;
    attune_status status = target_parse(message_text(request, KEY_TARGET), &job->target, error);
    if (status == ATTUNE_OK) {
        target_format(&job->target, job->target_text);
    }
    return status;
}
