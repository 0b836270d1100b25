/* text_json.c - see the header. */
#include "base/text_json.h"

#include <stdlib.h>
#include <string.h>

json_t *text_to_json(const char *text)
{
    json_t *json = json_string(text);
    if (json != NULL) {
        return json;
    }
    char *plain = strdup(text);
    for (char *at = plain; at != NULL && *at != '\0'; at++) {
        if ((unsigned char)*at >= 0x80) {
            *at = '?';
        }
    }
    json = plain != NULL ? json_string(plain) : NULL;
    free(plain);
    return json;
}
