/* tuner_family.h - the family twice/ with the modes of a test: its candidates misbehave by name. */
#ifndef TESTS_PROOF_TUNER_FAMILY_H
#define TESTS_PROOF_TUNER_FAMILY_H

#include "tests/autotune/parts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* appends the text with the line that begins with `line` replaced */
static inline void tuner_family_replace(struct buffer *text, const char *line, const char *by)
{
    struct buffer changed = BUFFER_INIT;
    char *at = strstr(buffer_string(text), line);
    assert_non_null(at);
    buffer_append(&changed, text->data, (size_t)(at - text->data));
    buffer_text(&changed, by);
    buffer_text(&changed, strchr(at, '\n'));
    buffer_free(text);
    *text = changed;
}

/* A generator that knows the family, written into `folder`: `modes` as "right forever", the first one the default; the
 * reference's factor; `comment` in the kernels' source. */
static inline struct generator *tuner_family(const char *folder, const char *modes, const char *factor,
                                             const char *comment)
{
    /* a build may be run elsewhere, from the root of the tree */
    const char *files = access(TEST_SOURCE_DIR "/tests/proof/twice/twice.lua", R_OK) == 0 ? TEST_SOURCE_DIR
                            "/tests/proof/twice/"
                                                                                          : "tests/proof/twice/";
    char path[600], line[2048] = "local modes = { ", copy[1024];
    struct buffer lua = BUFFER_INIT, hip = BUFFER_INIT;
    struct generator *generator;
    struct error error = {0};
    snprintf(path, sizeof path, "%stwice.lua", files);
    assert_int_equal(file_read(path, 1 << 16, &lua, &error), ATTUNE_OK);
    snprintf(path, sizeof path, "%stwice.hip", files);
    assert_int_equal(file_read(path, 1 << 16, &hip, &error), ATTUNE_OK);
    snprintf(copy, sizeof copy, "%s", modes);
    for (char *rest = copy, *mode; (mode = strtok_r(rest, " ", &rest)) != NULL;) {
        snprintf(line + strlen(line), sizeof line - strlen(line), "\"%s\", ", mode);
    }
    strcat(line, "}");
    tuner_family_replace(&lua, "local modes = ", line);
    snprintf(line, sizeof line, "local factor = %s", factor);
    tuner_family_replace(&lua, "local factor = ", line);
    buffer_format(&hip, "// %s\n", comment);
    assert_int_equal(path_join(path, sizeof path, folder, "twice.lua", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, lua.data, lua.length, &error), ATTUNE_OK);
    assert_int_equal(path_join(path, sizeof path, folder, "twice.hip", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, hip.data, hip.length, &error), ATTUNE_OK);
    buffer_free(&lua);
    buffer_free(&hip);
    if (generator_create(&(struct generator_options){.template_path = folder}, &generator, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return generator;
}

#endif
