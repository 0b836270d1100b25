/* Any bytes as text of a page: nothing in them is markup, all of it is UTF-8 that HTML and XML allow, and what was such
 * text before is read back as it was. */
#include "generator/dialect.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>

/* the next character, which must be well-formed; its length */
static size_t character(const unsigned char *at, size_t left, uint32_t *code)
{
    static const unsigned char heads[] = {0x00, 0xc2, 0xe0, 0xf0};
    size_t length = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    HOLDS(length <= left, "cut off");
    HOLDS(length == 1 || at[0] >= heads[length - 1], "head byte %02x", at[0]);
    *code = length == 1 ? at[0] : at[0] & (0xffU >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        HOLDS((at[i] & 0xc0) == 0x80, "byte %02x inside a character", at[i]);
        *code = *code << 6 | (at[i] & 0x3fU);
    }
    HOLDS(*code <= 0x10ffff && !(*code >= 0xd800 && *code <= 0xdfff), "U+%X", *code);
    HOLDS(length < 3 || *code >= (length == 3 ? 0x800U : 0x10000U), "too long a form of U+%X", *code);
    return length;
}

/* the bytes that a reader of the page sees; references back to their characters */
static size_t unescape(const char *text, size_t length, char *into)
{
    static const struct {
        const char *reference;
        char is;
    } references[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}};
    size_t out = 0;
    for (size_t at = 0; at < length;) {
        size_t bytes = 1;
        into[out] = text[at];
        if (text[at] == '&') {
            bytes = 0;
            for (size_t i = 0; i < sizeof references / sizeof references[0]; i++) {
                size_t size = strlen(references[i].reference);
                if (length - at >= size && memcmp(text + at, references[i].reference, size) == 0) {
                    into[out] = references[i].is;
                    bytes = size;
                }
            }
            HOLDS(bytes > 0, "a bare &: %.20s", text + at);
        }
        out++;
        at += bytes;
    }
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer page = BUFFER_INIT;
    char *bytes = malloc(size + 1); /* of exactly that size for sanitizers, but for an empty one */
    bool plain = true;
    memcpy(bytes, data, size);
    markup_escape(bytes, size, &page);
    const char *text = buffer_string(&page);
    for (size_t at = 0; at < page.length;) {
        uint32_t code;
        size_t length = character((const unsigned char *)text + at, page.length - at, &code);
        HOLDS(strchr("<>\"'", (int)code) == NULL || code == 0 || code > 0x7f, "markup: %c", (int)code);
        HOLDS(code == '\n' || code == '\t' || (code >= 0x20 && code != 0x7f && !(code >= 0x80 && code < 0xa0)), "U+%X",
              code);
        HOLDS((code & 0xfffe) != 0xfffe && !(code >= 0xfdd0 && code <= 0xfdef), "U+%X", code);
        plain &= code != 0xfffd;
        at += length;
    }
    if (plain) { /* nothing was replaced */
        char *back = malloc(page.length + 1);
        size_t length = unescape(text, page.length, back);
        HOLDS(length == size && memcmp(back, bytes, size) == 0, "%zu bytes came back as %zu", size, length);
        free(back);
    }
    free(bytes);
    buffer_free(&page);
    return 0;
}
