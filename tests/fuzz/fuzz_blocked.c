/* Notes of blocked objects: the input as the note of one fixed object, then of the object that it names itself. What is
 * accepted is within the note's texts, and is, written and read again, the same. */
#include "cache/store_internal.h"
#include "tests/fuzz/foreign_locale.h"
#include "tests/fuzz/fuzz.h"

static void read_note(const struct buffer *file, const struct digest *object)
{
    struct blocked blocked, second;
    struct buffer again = BUFFER_INIT;
    if (!store_blocked_decode(file, object, &blocked)) {
        return;
    }
    struct digest other = *object;
    other.bytes[0] ^= 1;
    HOLDS(memcmp(&blocked.object, object, sizeof *object) == 0, "a note of another object");
    HOLDS(!store_blocked_decode(file, &other, &second), "a note of two objects");
    HOLDS(strnlen(blocked.target, sizeof blocked.target) < sizeof blocked.target &&
              strnlen(blocked.candidate, sizeof blocked.candidate) < sizeof blocked.candidate &&
              strnlen(blocked.outcome, sizeof blocked.outcome) < sizeof blocked.outcome &&
              strnlen(blocked.reason, sizeof blocked.reason) < sizeof blocked.reason,
          "a text without end");
    HOLDS(blocked.created >= 0, "created %lld", (long long)blocked.created);
    char *text = store_blocked_encode(&blocked);
    HOLDS(text != NULL, "not written");
    buffer_text(&again, text);
    HOLDS(store_blocked_decode(&again, object, &second), "not read back: %s", text);
    HOLDS(strcmp(blocked.target, second.target) == 0 && strcmp(blocked.candidate, second.candidate) == 0 &&
              strcmp(blocked.outcome, second.outcome) == 0 && strcmp(blocked.reason, second.reason) == 0 &&
              blocked.created == second.created,
          "it becomes another note: %s", text);
    HOLDS(again.length <= STORE_BLOCKED_BYTES_MAX, "a note of %zu bytes would not be read", again.length);
    free(text);
    buffer_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char key[] = "\"object\":\"";
    struct digest object = {{0}};
    struct buffer file = BUFFER_INIT;
    fuzz_foreign_locale();
    if (size > STORE_BLOCKED_BYTES_MAX) {
        return 0; /* the store reads no longer file */
    }
    buffer_append(&file, data, size);
    read_note(&file, &object);
    const char *named = size > 0 ? memmem(file.data, file.length, key, strlen(key)) : NULL;
    if (named != NULL && (size_t)(named - file.data) + strlen(key) + DIGEST_HEX_BYTES - 1 <= size &&
        digest_from_hex(named + strlen(key), DIGEST_HEX_BYTES - 1, &object) == ATTUNE_OK) {
        read_note(&file, &object);
    }
    buffer_free(&file);
    return 0;
}
