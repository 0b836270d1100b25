/* cover_list.h - the lists in tests/covers: problems and targets of covers, one a line, which scripts/covers reads too.
 *
 * Needs TEST_SOURCE_DIR; include after cmocka.h.
 */
#ifndef TESTS_COVER_LIST_H
#define TESTS_COVER_LIST_H

#include "base/buffer.h"
#include "base/files.h"

#include <string.h>

enum { COVER_LIST_MAX = 32 };

struct cover_list {
    struct buffer text; /* what the items point into */
    int count;
    const char *items[COVER_LIST_MAX];
};

/* Lines of tests/covers/FILE without comments, blanks at their ends and the name that a problem has before ": ". A list
 * that cannot be read or is empty fails the test. Free with cover_list_free. */
static inline void cover_list_read(const char *file, struct cover_list *list)
{
    struct error error = {0};
    char path[1024];
    *list = (struct cover_list){.text = BUFFER_INIT};
    if (path_join(path, sizeof path, TEST_SOURCE_DIR "/tests/covers", file, &error) != ATTUNE_OK ||
        file_read_text(path, 1 << 16, &list->text, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    char *next = list->text.data;
    for (char *line = strsep(&next, "\n"); line != NULL; line = strsep(&next, "\n")) {
        line[strcspn(line, "#")] = '\0';
        const char *name = strstr(line, ": ");
        const char *text = name != NULL ? name + 2 : line;
        for (char *end = line + strlen(line); end > line && end[-1] == ' '; end--) {
            end[-1] = '\0';
        }
        if (*text != '\0') {
            assert_true(list->count < COVER_LIST_MAX);
            list->items[list->count++] = text;
        }
    }
    assert_true(list->count > 0);
}

static inline void cover_list_free(struct cover_list *list)
{
    buffer_free(&list->text);
}

#endif
