/* markup.c - any bytes as text of HTML and XML. */
#include "generator/dialect.h"

#include <stdint.h>

/* length of the UTF-8 character at `at`, 0 for what is none (too long a form, a surrogate, past U+10FFFF, cut off) */
static size_t character(const unsigned char *at, size_t left, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
    if (length == 0 || length > left) {
        return 0;
    }
    *code = length == 1 ? at[0] : at[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if (at[i] >> 6 != 2) {
            return 0;
        }
        *code = *code << 6 | (at[i] & 0x3f);
    }
    return *code < least[length] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : length;
}

/* neither a control character, of writing direction too (control.h), nor one that is for no text */
static bool is_legal(uint32_t code)
{
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) {
        return code == '\n' || code == '\t';
    }
    if (code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
        (code >= 0x2066 && code <= 0x2069)) {
        return false;
    }
    return (code & 0xfffe) != 0xfffe && !(code >= 0xfdd0 && code <= 0xfdef);
}

void markup_escape(const char *text, size_t length, struct buffer *into)
{
    static const char replacement[] = "\xef\xbf\xbd";
    static const struct {
        char is;
        const char *as;
    } special[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
    for (size_t at = 0; at < length;) {
        uint32_t code = 0;
        size_t bytes = character((const unsigned char *)text + at, length - at, &code);
        const char *as = bytes == 0 || !is_legal(code) ? replacement : NULL;
        for (size_t i = 0; i < sizeof special / sizeof special[0] && bytes == 1; i++) {
            as = text[at] == special[i].is ? special[i].as : as;
        }
        bytes = bytes > 0 ? bytes : 1;
        if (as != NULL) {
            buffer_text(into, as);
        } else {
            buffer_append(into, text + at, bytes);
        }
        at += bytes;
    }
}
