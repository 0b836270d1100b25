/* Records: the input as it is, then with the check that belongs to it, since no mutation finds a digest. */
#include "base/digest.h"
#include "cache/record.h"
#include "tests/fuzz/foreign_locale.h"
#include "tests/fuzz/problem_properties.h"

static void read_record(const char *json, size_t length)
{
    struct record record, second;
    struct error error = {.message = ""};
    struct buffer written = BUFFER_INIT, again = BUFFER_INIT;
    attune_status status = record_from_json(json, length, &record, &error);
    fuzz_check_error(status, &error);
    if (status != ATTUNE_OK) {
        HOLDS(record.schema == NULL, "a refused record keeps memory");
        return;
    }
    char folder[128];
    record_device_folder(&record, folder);
    HOLDS(folder[0] != '\0' && strpbrk(folder, "/:+ ") == NULL, "folder '%s'", folder);
    HOLDS(record.launch.threads >= 1 && record.launch.threads <= 1024, "%u threads", record.launch.threads);
    status = record_to_json(&record, &written, &error);
    if (status == ATTUNE_OK) { /* a built-in family's limit is smaller when writing; nothing else may differ */
        HOLDS(record_from_json(written.data, written.length, &second, &error) == ATTUNE_OK, "not read back: %s",
              error.message);
        HOLDS(record_to_json(&second, &again, &error) == ATTUNE_OK, "not written again: %s", error.message);
        HOLDS(written.length == again.length && memcmp(written.data, again.data, written.length) == 0,
              "it becomes another record: %s", again.data);
        record_free(&second);
    } else {
        HOLDS(strstr(error.message, "the limit is") != NULL, "read, but not written: %s", error.message);
    }
    record_free(&record);
    buffer_free(&written);
    buffer_free(&again);
}

/* {...} -> {...,"check":"<digest of the text before>"} */
static void read_sealed(const char *json, size_t length)
{
    struct digest digest;
    char hex[DIGEST_HEX_BYTES];
    struct buffer sealed = BUFFER_INIT;
    while (length > 0 && (json[length - 1] == '\n' || json[length - 1] == ' ')) {
        length--;
    }
    if (length == 0 || json[length - 1] != '}') {
        return;
    }
    digest_of(json, length, &digest);
    digest_hex(&digest, hex);
    buffer_append(&sealed, json, length - 1);
    buffer_format(&sealed, ",\"check\":\"%s\"}\n", hex);
    read_record(sealed.data, sealed.length);
    buffer_free(&sealed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_foreign_locale();
    uint8_t *bytes = fuzz_bytes(data, size);
    read_record((const char *)bytes, size);
    read_sealed((const char *)bytes, size);
    free(bytes);
    return 0;
}
