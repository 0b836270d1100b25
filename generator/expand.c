/* expand.c - from a candidate to source text and launch descriptor.
 *
 * Order of the text: head comment, vocabulary, the template's output. `shown` names the vocabulary with its digest
 * instead of holding it and has no #line: it is what people read. Object keys hash the same but for the digest of the
 * template's files, so that an edit makes other objects of those candidates alone whose text or launch it changes.
 */
#include "generator/generator_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMENT_COLUMNS = 118, DIGEST_SHOWN = 16 };

void expansion_free(struct expansion *expansion)
{
    buffer_free(&expansion->shown);
    buffer_free(&expansion->keyed);
    buffer_free(&expansion->compile);
}

static void append_comment(struct expansion *expansion, const char *text)
{
    size_t column = 2;
    buffer_text(&expansion->shown, "//");
    for (const char *word = text; *word != '\0';) {
        size_t length = strcspn(word, " ");
        if (column + 1 + length > COMMENT_COLUMNS && column > 4) {
            buffer_text(&expansion->shown, "\n//  ");
            column = 4;
        }
        buffer_text(&expansion->shown, " ");
        buffer_append(&expansion->shown, word, length);
        column += 1 + length;
        word += length;
        word += strspn(word, " ");
    }
    buffer_text(&expansion->shown, "\n");
}

static attune_status append_head(const struct kernel_template *of, const struct candidate *candidate,
                                 const struct problem *problem, const struct target *target,
                                 struct expansion *expansion, struct error *error)
{
    char name[CANDIDATE_TEXT_BYTES], id[CANDIDATE_ID_BYTES], target_text[TARGET_TEXT_BYTES];
    char specialisation[PROBLEM_TEXT_BYTES], line[256];
    attune_status status = problem_specialisation(problem, specialisation, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    candidate_format(candidate, name);
    candidate_id(candidate, id);
    target_format(target, target_text);
    append_comment(expansion, name);
    snprintf(line, sizeof line, "candidate %s for %s", id, target_text);
    append_comment(expansion, line);
    append_comment(expansion, specialisation);
    buffer_append(&expansion->keyed, expansion->shown.data, expansion->shown.length);
    snprintf(line, sizeof line, "templates/%s %.*s", of->file, DIGEST_SHOWN, of->digest_hex);
    append_comment(expansion, line);
    buffer_append(&expansion->compile, expansion->shown.data, expansion->shown.length);
    return ATTUNE_OK;
}

/* after the head's part, which is there: the rest of `shown`, and the launch */
static attune_status append_keyed(struct expansion *expansion, size_t head_bytes, struct error *error)
{
    json_t *launch = launch_to_json(&expansion->launch);
    char *text = launch != NULL ? json_dumps(launch, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(launch);
    if (text == NULL) {
        return error_no_memory(error);
    }
    buffer_append(&expansion->keyed, expansion->shown.data + head_bytes, expansion->shown.length - head_bytes);
    buffer_text(&expansion->keyed, text);
    free(text);
    return buffer_ok(&expansion->keyed, error);
}

/* ---- vocabularies: read once, by the name that the target's facts give ---- */

static const struct vocabulary *vocabulary_find(lua_State *L, struct generator *generator, const char *name)
{
    struct error error = {.message = ""};
    char file[SOURCE_NAME_BYTES];
    int origin;
    for (int i = 0; i < generator->vocabulary_count; i++) {
        if (strcmp(generator->vocabularies[i].name, name) == 0) {
            return &generator->vocabularies[i];
        }
    }
    struct vocabulary *vocabulary = &generator->vocabularies[generator->vocabulary_count];
    if (generator->vocabulary_count == VOCABULARIES_MAX || strlen(name) >= sizeof vocabulary->name) {
        sandbox_raise(L, ATTUNE_INTERNAL, "vocabulary '%s': more than %d vocabularies, or too long a name", name,
                      VOCABULARIES_MAX);
    }
    snprintf(file, sizeof file, "vocabulary/%s.h", name);
    if (sources_read(&generator->sources, file, SOURCE_EMBEDDED, &generator->scratch, &origin, &error) != ATTUNE_OK) {
        sandbox_raise_error(L, &error);
    }
    digest_of(generator->scratch.data, generator->scratch.length, &vocabulary->digest);
    digest_hex(&vocabulary->digest, vocabulary->digest_hex);
    buffer_clear(&vocabulary->text);
    buffer_format(&vocabulary->text, "#line 1 \"templates/%s\"\n", file);
    buffer_append(&vocabulary->text, generator->scratch.data, generator->scratch.length);
    if (vocabulary->text.length > 0 && vocabulary->text.data[vocabulary->text.length - 1] != '\n') {
        buffer_text(&vocabulary->text, "\n");
    }
    if (buffer_ok(&vocabulary->text, &error) != ATTUNE_OK) {
        sandbox_raise_error(L, &error);
    }
    strcpy(vocabulary->name, name);
    generator->vocabulary_count++;
    return vocabulary;
}

static void append_vocabulary(lua_State *L, struct generator *generator, int t, struct expansion *expansion)
{
    char line[256];
    if (lua_getfield(L, t, "vocabulary") != LUA_TSTRING) {
        sandbox_raise(L, ATTUNE_INTERNAL, "generator/lua/targets.lua: a target without vocabulary");
    }
    const struct vocabulary *vocabulary = vocabulary_find(L, generator, lua_tostring(L, -1));
    lua_pop(L, 1);
    snprintf(line, sizeof line, "templates/vocabulary/%s.h %.*s", vocabulary->name, DIGEST_SHOWN,
             vocabulary->digest_hex);
    append_comment(expansion, line);
    buffer_text(&expansion->shown, "\n");
    expansion->vocabulary_begin = expansion->compile.length;
    expansion->vocabulary_bytes = vocabulary->text.length;
    buffer_append(&expansion->compile, vocabulary->text.data, vocabulary->text.length);
    expansion->vocabulary_digest = vocabulary->digest;
}

/* ---- derive, launch, template; all inside ---- */

struct expanding {
    struct call call;
    struct expansion *expansion;
    json_t *launch;
};

/* pushes d: derive's table, or an empty one */
static void push_derived(lua_State *L, const struct call *call, int p, int t)
{
    if (call->of->derive == LUA_NOREF) {
        lua_createtable(L, 0, 1);
        return;
    }
    sandbox_refill(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->of->derive);
    push_candidate(L, call->generator);
    lua_pushvalue(L, p);
    lua_pushvalue(L, t);
    lua_call(L, 3, 1);
    if (lua_type(L, -1) != LUA_TTABLE) {
        sandbox_raise(L, ATTUNE_INVALID, "templates/%s: template %s: derive() returned a %s value, not a table",
                      call->family->file, call->of->name, luaL_typename(L, -1));
    }
}

/* launch()'s table into the descriptor and into d.launch */
static void make_launch(lua_State *L, struct expanding *expanding, int p, int t, int d)
{
    const struct call *call = &expanding->call;
    struct error error = {.message = ""};
    sandbox_refill(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->of->launch);
    push_candidate(L, call->generator);
    lua_pushvalue(L, p);
    lua_pushvalue(L, t);
    lua_pushvalue(L, d);
    lua_call(L, 4, 1);
    if (lua_type(L, -1) != LUA_TTABLE) {
        sandbox_raise(L, ATTUNE_INVALID, "templates/%s: template %s: launch() returned a %s value, not a table",
                      call->family->file, call->of->name, luaL_typename(L, -1));
    }
    expanding->launch = value_to_json(L, -1);
    if (expanding->launch == NULL) {
        sandbox_raise(
            L, ATTUNE_INVALID,
            "templates/%s: template %s: launch() returned more than plain numbers, texts and lists, or more than "
            "%d of them",
            call->family->file, call->of->name, VALUE_JSON_MAX);
    }
    if (launch_from_json(expanding->launch, &expanding->expansion->launch, &error) != ATTUNE_OK) {
        sandbox_raise(L, ATTUNE_INVALID, "templates/%s: template %s: launch(): %s", call->family->file, call->of->name,
                      error.message);
    }
    lua_setfield(L, d, "launch");
}

static int expand(lua_State *L)
{
    struct expanding *expanding = lua_touserdata(L, 1);
    struct call *call = &expanding->call;
    struct expansion *expansion = expanding->expansion;
    template_require(L, call);
    push_problem(L, call->generator, call->problem);
    push_target(L, call->generator, call->target);
    int t = lua_gettop(L), p = t - 1, d = t + 1;
    point_check(L, call->generator, call->family, p, t);
    append_vocabulary(L, call->generator, t, expansion);
    push_derived(L, call, p, t);
    make_launch(L, expanding, p, t, d);
    struct dialect_output output = {
        .program = call->of->program, .shown = &expansion->shown, .compile = &expansion->compile};
    push_candidate(L, call->generator);
    lua_pushvalue(L, p);
    lua_pushvalue(L, t);
    lua_pushvalue(L, d);
    dialect_run(L, &output);
    return 0;
}

attune_status candidate_expand(struct generator *generator, const struct candidate *candidate,
                               const struct problem *problem, const struct target *target, struct expansion *expansion,
                               struct error *error)
{
    struct family *family;
    struct kernel_template *of;
    struct expanding expanding = {.expansion = expansion};
    buffer_clear(&expansion->shown);
    buffer_clear(&expansion->keyed);
    buffer_clear(&expansion->compile);
    size_t head_bytes = 0;
    attune_status status = family_find(generator, candidate->family, &family, error);
    if (status == ATTUNE_OK && strcmp(problem->schema->family, family->name) != 0) {
        status = error_set(error, ATTUNE_INVALID, "the candidate is of family %s, the problem of %s", family->name,
                           problem->schema->family);
    }
    if (status == ATTUNE_OK) {
        status = template_find(family, candidate->template_name, &of, error);
    }
    if (status == ATTUNE_OK) {
        status = point_of_candidate(candidate, family, of, &generator->point, error);
    }
    if (status == ATTUNE_OK) {
        generator->importing = family;
        status = template_prepare(generator, family, of, error);
    }
    if (status == ATTUNE_OK) {
        status = append_head(of, candidate, problem, target, expansion, error);
        head_bytes = expansion->shown.length;
    }
    if (status == ATTUNE_OK) {
        expanding.call = (struct call){generator, family, of, problem, target, NULL, error};
        expansion->template_digest = of->digest;
        status = sandbox_protect(&generator->sandbox, expand, &expanding, error);
    }
    if (status == ATTUNE_OK) {
        status = buffer_ok(&expansion->shown, error);
    }
    if (status == ATTUNE_OK) {
        status = buffer_ok(&expansion->compile, error);
    }
    if (status == ATTUNE_OK) {
        status = append_keyed(expansion, head_bytes, error);
    }
    json_decref(expanding.launch);
    if (status != ATTUNE_OK) {
        buffer_clear(&expansion->shown);
        buffer_clear(&expansion->keyed);
        buffer_clear(&expansion->compile);
    }
    return status;
}
