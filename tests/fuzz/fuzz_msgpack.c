/* MessagePack: passing over a value and taking it apart must agree on where it ends and whether it is whole. */
#include "base/msgpack.h"
#include "tests/fuzz/fuzz.h"

/* every value that an outermost value holds, by the readers; `pending` as in the skipper, without recursion */
static void take_apart(struct msgpack *cursor)
{
    uint64_t pending = 1;
    while (pending > 0 && !cursor->broken) {
        const uint8_t *start = cursor->at;
        uint32_t count = 0;
        const char *text = NULL;
        size_t length = 0;
        int64_t number = 0;
        struct msgpack attempt = *cursor;
        pending--;
        if (msgpack_map(&attempt, &count)) {
            *cursor = attempt;
            pending += 2 * (uint64_t)count;
            continue;
        }
        struct msgpack after = attempt; /* not a map: it was passed over */
        attempt = *cursor;
        if (msgpack_array(&attempt, &count)) {
            *cursor = attempt;
            pending += count;
            continue;
        }
        attempt = *cursor;
        if (msgpack_string(&attempt, &text, &length)) {
            HOLDS((const uint8_t *)text > start && length <= (size_t)(cursor->end - (const uint8_t *)text),
                  "a string of %zu bytes past the end", length);
        } else {
            attempt = *cursor;
            (void)msgpack_integer(&attempt, &number);
        }
        HOLDS(attempt.at == after.at && attempt.broken == after.broken, "taken and passed over differ at %zu bytes",
              (size_t)(cursor->end - start));
        *cursor = attempt;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = fuzz_bytes(data, size);
    struct msgpack skipped = {bytes, bytes + size, false}, taken = skipped;
    msgpack_skip(&skipped);
    if (size <= 160) { /* taking apart passes over each map once more: quadratic */
        take_apart(&taken);
        HOLDS(skipped.broken == taken.broken && skipped.at == taken.at, "skipped to %zu, taken to %zu",
              (size_t)(skipped.at - bytes), (size_t)(taken.at - bytes));
    }
    HOLDS(!skipped.broken || skipped.at == skipped.end, "a broken cursor still gives values");
    free(bytes);
    return 0;
}
