/* fuzz.h - what the fuzzers share.
 *
 * A fuzzer is one file with LLVMFuzzerTestOneInput. It feeds bytes to a parser and checks properties of what comes out:
 * a refusal has a status and a sentence, an accepted input is within the documented limits and survives being written
 * and read again. The same file is linked with libFuzzer (preset `fuzz`) and with replay.c, which reads the committed
 * corpus as an ordinary test.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include "base/error.h"

#include <ctype.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* a property that must hold for every input; the sentence goes where a sanitizer's report would go */
#define HOLDS(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fuzz_broken(__FILE__, __LINE__, #condition, __VA_ARGS__);                                                  \
        }                                                                                                              \
    } while (0)

_Noreturn static inline void fuzz_broken(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
_Noreturn static inline void fuzz_broken(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: property broken: %s: ", file, line, condition);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

/* A refusal's error holds the status that was returned and a sentence without control characters (a foreign file must
 * not write to the reader's terminal). An accepted input leaves the error as it was: zeros, from every caller here. */
static inline void fuzz_check_error(attune_status status, const struct error *error)
{
    size_t length = strnlen(error->message, sizeof error->message);
    HOLDS(length < sizeof error->message, "the message is not ended");
    if (status == ATTUNE_OK) {
        HOLDS(error->status == ATTUNE_OK && length == 0, "accepted, yet: %s", error->message);
        return;
    }
    HOLDS(status > ATTUNE_OK && status < ATTUNE_INTERNAL, "status %d: %s", (int)status, error->message);
    HOLDS(error->status == status, "returned %d, stored %d: %s", (int)status, (int)error->status, error->message);
    HOLDS(length >= 8, "a refusal that says nothing: '%s'", error->message);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)error->message[i];
        HOLDS((c >= ' ' && c != 0x7f) || c == '\n' || c == '\t', "byte %02x in: %s", c, error->message);
        HOLDS(c != 0xc2 || (unsigned char)error->message[i + 1] < 0x80 || (unsigned char)error->message[i + 1] >= 0xa0,
              "a control character in: %s", error->message);
    }
}

/* the input as a text: with the NUL that parsers of texts rely on, in a block of exactly that size; free() it */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL) {
        abort();
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    return text;
}

/* the input in a heap block of exactly its size, so that a byte read past it is seen; free() it */
static inline uint8_t *fuzz_bytes(const uint8_t *data, size_t size)
{
    uint8_t *bytes = calloc(1, size > 0 ? size : 1);
    if (bytes == NULL) {
        abort();
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    return bytes;
}

#endif
