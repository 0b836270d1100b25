/* text_json.h - texts that others wrote (compilers, drivers, families), as JSON strings. */
#ifndef BASE_TEXT_JSON_H
#define BASE_TEXT_JSON_H

#include <jansson.h>

/* JSON strings are UTF-8, but a text may be cut in the middle of a character, or be no UTF-8 at all: then its bytes
 * from 0x80 on become '?'. New reference, NULL without memory alone. */
json_t *text_to_json(const char *text);

#endif
