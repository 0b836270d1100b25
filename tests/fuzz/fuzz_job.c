/* What attune-helper makes of a request. The input is a frame's payload. */
#include "generator/compiler_protocol.h"
#include "generator/helper/helper.h"
#include "tests/fuzz/fuzz.h"

static void check_job(const struct message *message, const struct job *job, const uint8_t *payload, size_t size)
{
    struct target target = {0};
    HOLDS((int64_t)job->kind == message_integer(message, KEY_COMPILER) &&
              (int64_t)job->sanitize == message_integer(message, KEY_SANITIZE) &&
              (int64_t)job->code_object == message_integer(message, KEY_CODE_OBJECT),
          "another number than was asked for");
    HOLDS(job->kind >= COMPILER_AUTO && job->kind <= COMPILER_HOST, "compiler %d", (int)job->kind);
    HOLDS(job->sanitize >= SANITIZE_NONE && job->sanitize <= SANITIZE_THREAD, "sanitizer %d", (int)job->sanitize);
    HOLDS(job->code_object == 0 || (job->code_object >= 4 && job->code_object <= 6), "version %d", job->code_object);
    HOLDS(job->source[job->source_bytes] == '\0', "a source without end");
    HOLDS(job->source_bytes == 0 ||
              (job->source >= (const char *)payload && job->source + job->source_bytes < (const char *)payload + size),
          "a source outside the request");
    HOLDS(target_parse(job->target_text, &target, NULL) == ATTUNE_OK, "target '%s'", job->target_text);
    HOLDS(memcmp(&target, &job->target, sizeof target) == 0, "'%s' is another target", job->target_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct message message;
    struct error error = {.message = ""};
    uint8_t *payload = fuzz_bytes(data, size);
    attune_status status = message_parse(MESSAGE_COMPILE, payload, size, &message, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        struct job job = {.kind = COMPILER_AUTO};
        status = job_read(&message, &job, &error);
        fuzz_check_error(status, &error);
        if (status == ATTUNE_OK) {
            check_job(&message, &job, payload, size);
        }
    }
    free(payload);
    return 0;
}
