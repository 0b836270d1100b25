/* support.h - temporary families and generators for the generator's tests. Include after cmocka.h. */
#ifndef TESTS_GENERATOR_SUPPORT_H
#define TESTS_GENERATOR_SUPPORT_H

#include "base/files.h"
#include "generator/generator.h"

#include <stdio.h>
#include <string.h>

#define TOY_FOLDER TEST_SOURCE_DIR "/tests/generator/data/toy"
#define TOY_PROBLEM "toy.scale count=1000"

static inline struct generator *open_generator(const char *path)
{
    struct generator_options options = {.template_path = path};
    struct generator *generator = NULL;
    struct error error = {.message = ""};
    if (generator_create(&options, &generator, &error) != ATTUNE_OK) {
        fail_msg("generator_create: %s", error.message);
    }
    return generator;
}

static inline void put_file(const char *folder, const char *name, const char *text)
{
    char path[4096];
    struct error error;
    assert_int_equal(path_join(path, sizeof path, folder, name, &error), ATTUNE_OK);
    assert_int_equal(file_write(path, text, strlen(text), &error), ATTUNE_OK);
}

/* runs `lua` as a family file; it never returns a good family, so the call always fails: the message tells how far it
 * came */
static inline attune_status run_lua(const char *lua, struct error *error)
{
    char folder[4096];
    struct generator_options options = {
        .instruction_limit = 2000000, .memory_limit = 16 << 20, .template_path = folder};
    struct generator *generator = NULL;
    assert_int_equal(folder_temporary(folder, sizeof folder, error), ATTUNE_OK);
    put_file(folder, "probe.lua", lua);
    memset(error, 0, sizeof *error);
    attune_status status = generator_create(&options, &generator, error);
    assert_null(generator);
    folder_remove(folder);
    return status;
}

static inline void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' is not in: %s", part, text);
    }
}

static inline void toy_setup(struct generator *generator, const char *problem_text, const char *target_text,
                             struct problem *problem, struct target *target)
{
    struct error error = {.message = ""};
    char family[FAMILY_NAME_BYTES];
    assert_int_equal(problem_family(problem_text, family, &error), ATTUNE_OK);
    const struct schema *schema = generator_schema(generator, family);
    assert_non_null(schema);
    if (problem_parse(schema, problem_text, problem, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(target_parse(target_text, target, &error), ATTUNE_OK);
}

#endif
