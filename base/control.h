/* control.h - what a text from outside may not do to a terminal or a page: characters that move, colour, hide or turn
 * round what stands beside them. One list for all who replace or refuse them. */
#ifndef BASE_CONTROL_H
#define BASE_CONTROL_H

#include <stddef.h>

/* Bytes of the control character at `at`, 0 when there is none or the text ends there: C0, DEL, C1 in UTF-8's form, and
 * the controls of writing direction (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069). Newlines and tabs are
 * among them. Reads no byte past the terminating NUL. */
static inline size_t control_length(const char *at)
{
    const unsigned char *byte = (const unsigned char *)at;
    if (byte[0] < 0x20 || byte[0] == 0x7f) {
        return byte[0] != 0;
    }
    if ((byte[0] == 0xc2 && byte[1] >= 0x80 && byte[1] < 0xa0) || (byte[0] == 0xd8 && byte[1] == 0x9c)) {
        return 2;
    }
    if (byte[0] == 0xe2 && byte[1] == 0x80) {
        return byte[2] == 0x8e || byte[2] == 0x8f || (byte[2] >= 0xaa && byte[2] <= 0xae) ? 3 : 0;
    }
    return byte[0] == 0xe2 && byte[1] == 0x81 && byte[2] >= 0xa6 && byte[2] <= 0xa9 ? 3 : 0;
}

#endif
