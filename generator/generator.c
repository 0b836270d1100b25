/* generator.c - a generator's life, and what it tells of families and targets. */
#include "generator/generator_private.h"

#include <stdlib.h>
#include <string.h>

static int open_state(lua_State *L)
{
    struct generator *generator = lua_touserdata(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, generator->sandbox.globals);
    families_open_import(L, generator);
    values_open(L, generator);
    values_load_targets(L, generator);
    return 0;
}

attune_status generator_create(const struct generator_options *options, struct generator **result, struct error *error)
{
    static const struct generator_options defaults;
    struct generator *generator = calloc(1, sizeof *generator);
    *result = NULL;
    if (generator == NULL) {
        return error_no_memory(error);
    }
    options = options != NULL ? options : &defaults;
    attune_status status = sandbox_open(&generator->sandbox, options->instruction_limit, options->memory_limit, error);
    if (status == ATTUNE_OK) {
        status = sandbox_protect(&generator->sandbox, open_state, generator, error);
    }
    if (status == ATTUNE_OK) {
        status = sources_open(&generator->sources, options->template_path, error);
    }
    if (status == ATTUNE_OK) {
        status = families_load(generator, error);
    }
    if (status != ATTUNE_OK) {
        generator_destroy(generator);
        return status;
    }
    *result = generator;
    return ATTUNE_OK;
}

void generator_destroy(struct generator *generator)
{
    if (generator == NULL) {
        return;
    }
    sandbox_close(&generator->sandbox);
    families_free(generator);
    sources_close(&generator->sources);
    for (int i = 0; i < VOCABULARIES_MAX; i++) {
        buffer_free(&generator->vocabularies[i].text);
    }
    buffer_free(&generator->scratch);
    free(generator->target_names);
    free(generator);
}

void generator_template_path(const struct generator *generator, struct buffer *path)
{
    for (int i = 0; i < generator->sources.folder_count; i++) {
        buffer_format(path, "%s%s", i > 0 ? ":" : "", generator->sources.folders[i]);
    }
}

int generator_family_count(const struct generator *generator)
{
    return generator->family_count;
}

const char *generator_family_name(const struct generator *generator, int index)
{
    return index >= 0 && index < generator->family_count ? generator->families[index]->name : NULL;
}

const char *generator_family_doc(const struct generator *generator, int index)
{
    return index >= 0 && index < generator->family_count ? generator->families[index]->doc : NULL;
}

const struct schema *generator_schema(struct generator *generator, const char *name)
{
    struct family *family;
    return family_find(generator, name, &family, NULL) == ATTUNE_OK ? family->schema : NULL;
}

int generator_target_count(struct generator *generator)
{
    return generator->target_count;
}

const char *generator_target_name(struct generator *generator, int index)
{
    return index >= 0 && index < generator->target_count ? generator->target_names[index] : NULL;
}

static int read_facts(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    push_target_description(L, call->generator, call->target);
    *(json_t **)call->result = value_to_json(L, -1);
    return 0;
}

attune_status generator_target_facts(struct generator *generator, const struct target *target, json_t **json,
                                     struct error *error)
{
    struct call call = {generator, NULL, NULL, NULL, target, json, error};
    *json = NULL;
    attune_status status = sandbox_protect(&generator->sandbox, read_facts, &call, error);
    return status == ATTUNE_OK && *json == NULL ? error_no_memory(error) : status;
}
