/* A stored object's file: the input as it is, then with lengths and digests put right. An accepted file is the only one
 * with its content: written again it is the same bytes. */
#include "base/digest.h"
#include "cache/object_file.h"
#include "tests/fuzz/fuzz.h"

enum { AT_HEADER_BYTES = 12, AT_PAYLOAD_BYTES = 16, AT_PAYLOAD_DIGEST = 24, AT_NAME = 56, AT_HEADER_DIGEST = 416 };

static void read_object(const struct digest *name, const char *file, size_t size)
{
    struct object_header header;
    const char *payload = NULL;
    size_t payload_bytes = 0;
    struct error error = {.message = ""};
    attune_status status = object_file_decode(name, file, size, &header, &payload, &payload_bytes, &error);
    fuzz_check_error(status, &error);
    HOLDS(status == ATTUNE_OK || status == ATTUNE_CORRUPT, "status %d", (int)status);
    if (status != ATTUNE_OK) {
        return;
    }
    struct buffer again = BUFFER_INIT;
    HOLDS(payload >= file && payload_bytes <= size && payload + payload_bytes == file + size, "a payload outside");
    HOLDS(payload_bytes > 0, "an empty object");
    HOLDS(object_file_encode(name, &header, payload, payload_bytes, &again, &error) == ATTUNE_OK, "not written: %s",
          error.message);
    HOLDS(again.length == size && memcmp(again.data, file, size) == 0, "two files hold the same object");
    buffer_free(&again);
}

static void put(uint8_t *at, uint64_t value, int count)
{
    for (int i = 0; i < count; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct digest name = {.bytes = {0}};
    uint8_t *file = fuzz_bytes(data, size);
    if (size >= AT_NAME + DIGEST_BYTES) {
        memcpy(name.bytes, file + AT_NAME, DIGEST_BYTES);
    }
    read_object(&name, (const char *)file, size);
    if (size >= OBJECT_FILE_HEADER_BYTES) {
        struct digest digest;
        put(file + AT_HEADER_BYTES, OBJECT_FILE_HEADER_BYTES, 4);
        put(file + AT_PAYLOAD_BYTES, size - OBJECT_FILE_HEADER_BYTES, 8);
        digest_of(file + OBJECT_FILE_HEADER_BYTES, size - OBJECT_FILE_HEADER_BYTES, &digest);
        memcpy(file + AT_PAYLOAD_DIGEST, digest.bytes, DIGEST_BYTES);
        digest_of(file, AT_HEADER_DIGEST, &digest);
        memcpy(file + AT_HEADER_DIGEST, digest.bytes, DIGEST_BYTES);
        read_object(&name, (const char *)file, size);
    }
    free(file);
    return 0;
}
