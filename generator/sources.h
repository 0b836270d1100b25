/* sources.h - where template files come from: folders of ATTUNE_TEMPLATE_PATH, then the table embedded at build.
 *
 * Names are relative to templates/ ("attention_forward.lua", "vocabulary/amd.h") and are the same for both origins;
 * messages and #line name them templates/NAME. A name never leaves its folder: no "..", no leading slash.
 */
#ifndef GENERATOR_SOURCES_H
#define GENERATOR_SOURCES_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct embedded_file {
    const char *name; /* NULL ends a table */
    const unsigned char *bytes;
    size_t length;
};

extern const struct embedded_file attune_embedded_templates[]; /* templates/, all files, sorted by name */
extern const struct embedded_file attune_embedded_lua[];       /* generator/lua/: our own, never overridden */

enum { SOURCE_NAME_BYTES = 96, SOURCE_FOLDERS_MAX = 16, SOURCE_EMBEDDED = -1 };

struct sources {
    char *path; /* the colon-separated text, cut in place */
    const char *folders[SOURCE_FOLDERS_MAX];
    int folder_count;
};

/* path NULL: $ATTUNE_TEMPLATE_PATH; "": none. A folder that cannot be read is refused by name. */
attune_status sources_open(struct sources *sources, const char *path, struct error *error);
void sources_close(struct sources *sources);

bool source_name_legal(const char *name);

/* Reads a file: from `preferred` (a folder's index) first, then from the folders in order, then the embedded one.
 * *origin is the folder's index or SOURCE_EMBEDDED. ATTUNE_NOT_FOUND names the file and the places searched. */
attune_status sources_read(const struct sources *sources, const char *name, int preferred, struct buffer *bytes,
                           int *origin, struct error *error);

/* Names of the *.lua files directly in a folder (or embedded at top level), sorted. visit's failure ends the walk. */
typedef attune_status (*source_visitor)(void *data, const char *name, int origin, struct error *error);
attune_status sources_families(const struct sources *sources, int origin, source_visitor visit, void *data,
                               struct error *error);

#endif
