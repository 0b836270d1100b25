/* render.c - pages: a template of the same language, with data from outside in place of a candidate. */
#include "generator/generator_private.h"

struct rendering {
    struct dialect_program *program;
    const json_t *data;
    struct buffer text;
};

static int render(lua_State *L)
{
    struct rendering *rendering = lua_touserdata(L, 1);
    struct dialect_output output = {.program = rendering->program, .shown = &rendering->text, .markup = true};
    dialect_load(L, rendering->program);
    lua_pushnil(L);
    lua_pushnil(L);
    lua_pushnil(L);
    push_json(L, rendering->data);
    dialect_run(L, &output);
    return 0;
}

static int forget(lua_State *L)
{
    const struct dialect_program *program = lua_touserdata(L, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, program->function); /* LUA_NOREF is legal */
    return 0;
}

attune_status generator_render(struct generator *generator, const char *file, const json_t *data, struct buffer *text,
                               struct error *error)
{
    struct rendering rendering = {.data = data, .text = BUFFER_INIT};
    struct buffer bytes = BUFFER_INIT;
    int origin;
    generator->importing = NULL;
    attune_status status = sources_read(&generator->sources, file, SOURCE_EMBEDDED, &bytes, &origin, error);
    if (status == ATTUNE_OK) {
        status = dialect_translate(buffer_string(&bytes), bytes.length, file, &rendering.program, error);
    }
    if (status == ATTUNE_OK) {
        status = sandbox_protect(&generator->sandbox, render, &rendering, error);
        (void)sandbox_protect(&generator->sandbox, forget, rendering.program, NULL);
    }
    if (status == ATTUNE_OK) {
        buffer_append(text, buffer_string(&rendering.text), rendering.text.length);
        status = buffer_ok(text, error);
    }
    dialect_free(rendering.program);
    buffer_free(&rendering.text);
    buffer_free(&bytes);
    return status;
}
