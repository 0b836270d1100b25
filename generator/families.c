/* families.c - reading family files: Lua tables checked and copied into C, with the file and the place of whatever is
 * wrong. */
#include "generator/generator_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGEST_FILES_MAX = 64 };

/* ---- look-up ---- */

attune_status family_find(const struct generator *generator, const char *name, struct family **family,
                          struct error *error)
{
    struct buffer list = BUFFER_INIT;
    for (int i = 0; i < generator->family_count; i++) {
        if (strcmp(generator->families[i]->name, name) == 0) {
            *family = generator->families[i];
            buffer_free(&list);
            return ATTUNE_OK;
        }
        buffer_format(&list, "%s%s", i > 0 ? ", " : "", generator->families[i]->name);
    }
    error_set(error, ATTUNE_NOT_FOUND, "there is no family '%s'; families are: %s", name,
              list.length > 0 ? buffer_string(&list) : "none");
    buffer_free(&list);
    return ATTUNE_NOT_FOUND;
}

attune_status template_find(const struct family *family, const char *name, struct kernel_template **result,
                            struct error *error)
{
    struct buffer list = BUFFER_INIT;
    for (int i = 0; i < family->template_count; i++) {
        if (strcmp(family->templates[i].name, name) == 0) {
            *result = &family->templates[i];
            buffer_free(&list);
            return ATTUNE_OK;
        }
        buffer_format(&list, "%s%s", i > 0 ? ", " : "", family->templates[i].name);
    }
    error_set(error, ATTUNE_NOT_FOUND, "family %s has no template '%s'; its templates are: %s", family->name, name,
              buffer_string(&list));
    buffer_free(&list);
    return ATTUNE_NOT_FOUND;
}

int parameter_find(const struct kernel_template *of, const char *name)
{
    for (int i = 0; i < of->parameter_count; i++) {
        if (strcmp(of->parameters[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int parameter_value_find(const struct parameter *parameter, const char *text)
{
    for (int i = 0; i < parameter->value_count; i++) {
        if (strcmp(parameter->values[i].text, text) == 0) {
            return i;
        }
    }
    return -1;
}

void parameter_domain(const struct parameter *parameter, struct buffer *text)
{
    for (int i = 0; i < parameter->value_count; i++) {
        buffer_format(text, "%s%s", i > 0 ? ", " : "", parameter->values[i].text);
    }
}

/* ---- reading a family's table; all inside ---- */

struct reading {
    struct generator *generator;
    struct family *family;
    bool library; /* the file defines no family */
    struct error error;
    json_t *json;
};

static int wrong(lua_State *L, const struct family *family, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int wrong(lua_State *L, const struct family *family, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return sandbox_raise(L, ATTUNE_INVALID, "templates/%s: %s", family->file, text);
}

static bool legal_name(const char *name, const char *extra)
{
    size_t letters = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    while (name[letters] != '\0' && strchr(extra, name[letters]) != NULL) {
        letters++;
        letters += strspn(name + letters, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    }
    return letters > 0 && name[letters] == '\0';
}

/* a text of the table on top, copied; `extra` are the characters beside letters, digits and _, NULL for any text */
static void read_text(lua_State *L, const struct family *family, const char *where, const char *key, bool required,
                      const char *extra, char *into, size_t bytes)
{
    size_t length = 0;
    int type = lua_getfield(L, -1, key);
    const char *text = type == LUA_TSTRING ? lua_tolstring(L, -1, &length) : NULL;
    if (type == LUA_TNIL && !required) {
        into[0] = '\0';
    } else if (text == NULL) {
        wrong(L, family, "%s: %s must be a text, it is a %s value", where, key, luaL_typename(L, -1));
    } else if (length >= bytes || strlen(text) != length) {
        wrong(L, family, "%s: %s must be shorter than %zu bytes, it has %zu", where, key, bytes, length);
    } else if (extra != NULL && !legal_name(text, extra)) {
        wrong(L, family, "%s: %s = '%s' may hold letters, digits, _ and '%s' only", where, key, text, extra);
    } else {
        memcpy(into, text, length + 1);
    }
    lua_pop(L, 1);
}

static int read_function(lua_State *L, const struct family *family, const char *where, const char *key, bool required)
{
    int type = lua_getfield(L, -1, key);
    if (type == LUA_TFUNCTION) {
        return luaL_ref(L, LUA_REGISTRYINDEX);
    }
    if (type != LUA_TNIL || required) {
        wrong(L, family, "%s: %s must be a function, it is a %s value", where, key, luaL_typename(L, -1));
    }
    lua_pop(L, 1);
    return LUA_NOREF;
}

/* leaves the list on the stack and returns its length */
static int read_list(lua_State *L, const struct family *family, const char *where, const char *key, bool required,
                     int most)
{
    int type = lua_getfield(L, -1, key);
    if (type == LUA_TNIL && !required) {
        return 0;
    }
    if (type != LUA_TTABLE) {
        wrong(L, family, "%s: %s must be a list, it is a %s value", where, key, luaL_typename(L, -1));
    }
    lua_Integer count = luaL_len(L, -1);
    if (count > most || (required && count < 1)) {
        wrong(L, family, "%s: %s must have %d to %d entries, it has %lld", where, key, required ? 1 : 0, most,
              (long long)count);
    }
    return (int)count;
}

static void read_value(lua_State *L, const struct family *family, const char *where, struct parameter *parameter)
{
    struct value *value = &parameter->values[parameter->value_count];
    int is_integer = 0;
    if (lua_type(L, -1) == LUA_TNUMBER) {
        value->number = lua_tointegerx(L, -1, &is_integer);
        value->integer = true;
        if (!is_integer) {
            wrong(L, family, "%s: the value %g is neither an integer nor a text", where, lua_tonumber(L, -1));
        }
        snprintf(value->text, sizeof value->text, "%lld", (long long)value->number);
    } else if (lua_type(L, -1) == LUA_TSTRING) {
        const char *text = lua_tostring(L, -1);
        if (lua_rawlen(L, -1) >= sizeof value->text || !legal_name(text, "-.+")) {
            wrong(L, family, "%s: the value '%s' must be at most %zu letters, digits and _-.+", where, text,
                  sizeof value->text - 1);
        }
        strcpy(value->text, text);
    } else {
        wrong(L, family, "%s: a value must be an integer or a text, it is a %s value", where, luaL_typename(L, -1));
    }
    if (parameter_value_find(parameter, value->text) >= 0) {
        wrong(L, family, "%s: the value %s occurs twice", where, value->text);
    }
    parameter->value_count++;
}

static void read_parameters(lua_State *L, const struct family *family, struct kernel_template *of)
{
    char where[160];
    snprintf(where, sizeof where, "template %s", of->name);
    int count = read_list(L, family, where, "parameters", false, CANDIDATE_PARAMETERS_MAX);
    lua_createtable(L, 0, count);
    for (int i = 0; i < count; i++) {
        struct parameter *parameter = &of->parameters[of->parameter_count];
        snprintf(where, sizeof where, "template %s, parameter %d", of->name, i + 1);
        if (lua_geti(L, -2, i + 1) != LUA_TTABLE) {
            wrong(L, family, "%s must be a table {name=, doc=, values={}}", where);
        }
        read_text(L, family, where, "name", true, "", parameter->name, sizeof parameter->name);
        snprintf(where, sizeof where, "template %s, parameter %s", of->name, parameter->name);
        read_text(L, family, where, "doc", true, NULL, parameter->doc, sizeof parameter->doc);
        parameter->here = read_function(L, family, where, "here", false);
        if (parameter_find(of, parameter->name) >= 0) {
            wrong(L, family, "%s is declared twice", where);
        }
        of->parameter_count++;
        int values = read_list(L, family, where, "values", true, PARAMETER_VALUES_MAX);
        parameter->values = calloc((size_t)values, sizeof *parameter->values);
        if (parameter->values == NULL) {
            sandbox_raise(L, ATTUNE_NO_MEMORY, "no memory for a parameter's values");
        }
        for (int j = 0; j < values; j++) {
            lua_geti(L, -1, j + 1);
            read_value(L, family, where, parameter);
            lua_pop(L, 1);
        }
        lua_pop(L, 2);
        lua_pushinteger(L, i);
        lua_setfield(L, -2, parameter->name);
    }
    of->names = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pop(L, 1);
}

static void read_constraints(lua_State *L, const struct family *family, struct kernel_template *of)
{
    char where[160];
    snprintf(where, sizeof where, "template %s", of->name);
    int count = read_list(L, family, where, "constraints", false, CONSTRAINTS_MAX);
    for (int i = 0; i < count; i++) {
        struct constraint *constraint = &of->constraints[of->constraint_count++];
        snprintf(where, sizeof where, "template %s, constraint %d", of->name, i + 1);
        if (lua_geti(L, -1, i + 1) != LUA_TTABLE) {
            wrong(L, family, "%s must be a table {doc=, check=function(c, p, t)}", where);
        }
        read_text(L, family, where, "doc", true, NULL, constraint->doc, sizeof constraint->doc);
        constraint->check = read_function(L, family, where, "check", true);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void read_template(lua_State *L, const struct family *family, struct kernel_template *of, int index)
{
    char where[160];
    snprintf(where, sizeof where, "template %d", index + 1);
    if (lua_type(L, -1) != LUA_TTABLE) {
        wrong(L, family, "%s must be a table, it is a %s value", where, luaL_typename(L, -1));
    }
    read_text(L, family, where, "name", true, "", of->name, sizeof of->name);
    snprintf(where, sizeof where, "template %s", of->name);
    read_text(L, family, where, "doc", false, NULL, of->doc, sizeof of->doc);
    read_text(L, family, where, "file", true, NULL, of->file, sizeof of->file);
    if (!source_name_legal(of->file)) {
        wrong(L, family, "%s: file = '%s' must be a name relative to templates/", where, of->file);
    }
    of->supports = read_function(L, family, where, "supports", false);
    of->fallback = read_function(L, family, where, "default", true);
    of->derive = read_function(L, family, where, "derive", false);
    of->launch = read_function(L, family, where, "launch", true);
    of->paths = read_function(L, family, where, "paths", false);
    read_parameters(L, family, of);
    read_constraints(L, family, of);
}

static void read_schema(lua_State *L, struct reading *reading)
{
    struct family *family = reading->family;
    static const char *const keys[] = {"fields", "ratios", "shorthands"};
    family->schema = schema_built_in(family->name);
    if (lua_getfield(L, -1, "fields") == LUA_TNIL) {
        if (family->schema == NULL) {
            wrong(L, family, "family %s must say its problem's fields: fields = {{name=, kind=, role=, ...}, ...}",
                  family->name);
        }
        lua_pop(L, 1);
        return;
    }
    if (family->schema != NULL) {
        wrong(L, family, "the fields of %s are built in; leave out `fields`", family->name);
    }
    lua_pop(L, 1);
    reading->json = json_pack("{s:s}", "family", family->name);
    for (int i = 0; i < 3; i++) {
        if (lua_getfield(L, -1, keys[i]) != LUA_TNIL) {
            json_t *list = value_to_json(L, -1);
            if (list == NULL || json_object_set_new(reading->json, keys[i], list) != 0) {
                wrong(L, family, "%s must be a list of plain values, at most %d in all", keys[i], VALUE_JSON_MAX);
            }
        }
        lua_pop(L, 1);
    }
    if (schema_from_json(reading->json, &family->own_schema, &reading->error) != ATTUNE_OK) {
        wrong(L, family, "%s", reading->error.message);
    }
    json_decref(reading->json);
    reading->json = NULL;
    family->schema = family->own_schema;
}

/* a function, or a table that claims nothing of a family's: it is there for import() */
static bool is_library(lua_State *L)
{
    if (lua_type(L, -1) != LUA_TTABLE) {
        return lua_type(L, -1) == LUA_TFUNCTION;
    }
    bool claims = lua_getfield(L, -1, "name") != LUA_TNIL;
    claims = lua_getfield(L, -2, "templates") != LUA_TNIL || claims;
    lua_pop(L, 2);
    return !claims;
}

static int read_family(lua_State *L)
{
    struct reading *reading = lua_touserdata(L, 1);
    struct family *family = reading->family;
    char name[128];
    snprintf(name, sizeof name, "templates/%s", family->file);
    reading->generator->importing = family;
    sandbox_load(L, buffer_string(&family->bytes), family->bytes.length, name);
    lua_call(L, 0, 1);
    if (is_library(L)) {
        reading->library = true;
        return 0;
    }
    if (lua_type(L, -1) != LUA_TTABLE) {
        wrong(L, family, "must return the family's table, it returns a %s value", luaL_typename(L, -1));
    }
    read_text(L, family, "family", "name", true, ".", family->name, sizeof family->name);
    read_text(L, family, family->name, "doc", false, NULL, family->doc, sizeof family->doc);
    read_schema(L, reading);
    family->tensors = read_function(L, family, family->name, "tensors", false);
    family->inputs = read_function(L, family, family->name, "inputs", false);
    family->reference = read_function(L, family, family->name, "reference", false);
    family->operations = read_function(L, family, family->name, "operations", false);
    family->templates = calloc(TEMPLATES_MAX, sizeof *family->templates);
    if (family->templates == NULL) {
        sandbox_raise(L, ATTUNE_NO_MEMORY, "no memory for a family's templates");
    }
    int count = read_list(L, family, family->name, "templates", true, TEMPLATES_MAX);
    for (int i = 0; i < count; i++) {
        struct kernel_template *of = &family->templates[i];
        lua_geti(L, -1, i + 1);
        family->template_count++;
        read_template(L, family, of, i);
        for (int j = 0; j < i; j++) {
            if (strcmp(family->templates[j].name, of->name) == 0) {
                wrong(L, family, "two templates are named %s", of->name);
            }
        }
        lua_pop(L, 1);
    }
    return 0;
}

static void family_free(struct family *family)
{
    for (int i = 0; family->templates != NULL && i < family->template_count; i++) {
        struct kernel_template *of = &family->templates[i];
        for (int j = 0; j < of->parameter_count; j++) {
            free(of->parameters[j].values);
        }
        dialect_free(of->program);
    }
    free(family->templates);
    free(family->own_schema);
    buffer_free(&family->bytes);
    free(family);
}

/* ---- loading all ---- */

/* A file of the same name in an earlier folder, or in any folder for embedded ones, is what this file stands for */
static attune_status load_file(void *data, const char *name, int origin, struct error *error)
{
    struct generator *generator = data;
    struct reading reading = {.generator = generator, .family = calloc(1, sizeof(struct family))};
    struct family *family = reading.family;
    attune_status status = ATTUNE_OK;
    if (family == NULL) {
        return error_no_memory(error);
    }
    int found = origin;
    status = sources_read(&generator->sources, name, origin, &family->bytes, &found, error);
    if (status != ATTUNE_OK || found != origin) {
        goto out; /* overridden: the folder's own turn comes */
    }
    snprintf(family->file, sizeof family->file, "%s", name);
    family->origin = origin;
    status = sandbox_protect(&generator->sandbox, read_family, &reading, error);
    json_decref(reading.json);
    if (status != ATTUNE_OK) {
        if (origin != SOURCE_EMBEDDED && error != NULL) {
            error_prefix(error, "in '%s' (ATTUNE_TEMPLATE_PATH)", generator->sources.folders[origin]);
        }
        goto out;
    }
    if (reading.library) {
        goto out;
    }
    for (int i = 0; i < generator->family_count; i++) {
        if (strcmp(generator->families[i]->name, family->name) != 0) {
            continue;
        }
        if (generator->families[i]->origin == origin) {
            status = error_set(error, ATTUNE_INVALID, "templates/%s and templates/%s both define the family %s",
                               generator->families[i]->file, name, family->name);
        }
        goto out; /* folders are read before the embedded files, in order: the first one stands */
    }
    if (generator->family_count == FAMILIES_MAX) {
        status = error_set(error, ATTUNE_INVALID, "templates/%s: more than %d families", name, FAMILIES_MAX);
        goto out;
    }
    generator->families[generator->family_count++] = family;
    family = NULL;
out:
    if (family != NULL) {
        family_free(family);
    }
    return status;
}

static int compare_families(const void *a, const void *b)
{
    return strcmp((*(struct family *const *)a)->name, (*(struct family *const *)b)->name);
}

attune_status families_load(struct generator *generator, struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < generator->sources.folder_count && status == ATTUNE_OK; i++) {
        status = sources_families(&generator->sources, i, load_file, generator, error);
    }
    if (status == ATTUNE_OK) {
        status = sources_families(&generator->sources, SOURCE_EMBEDDED, load_file, generator, error);
    }
    qsort(generator->families, (size_t)generator->family_count, sizeof *generator->families, compare_families);
    return status;
}

void families_free(struct generator *generator)
{
    for (int i = 0; i < generator->family_count; i++) {
        family_free(generator->families[i]);
    }
    generator->family_count = 0;
}

/* ---- import ---- */

static int import(lua_State *L)
{
    struct generator *generator = lua_touserdata(L, lua_upvalueindex(1));
    const char *library = luaL_checkstring(L, 1);
    char name[SOURCE_NAME_BYTES], chunk[128];
    struct error error = {.message = ""};
    int origin = SOURCE_EMBEDDED;
    if (snprintf(name, sizeof name, "%s.lua", library) >= (int)sizeof name) {
        return luaL_error(L, "import: the name '%s' is too long", library);
    }
    int preferred = generator->importing != NULL ? generator->importing->origin : SOURCE_EMBEDDED;
    if (sources_read(&generator->sources, name, preferred, &generator->scratch, &origin, &error) != ATTUNE_OK) {
        return luaL_error(L, "import: %s", error.message);
    }
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, generator->imports);
    lua_pushfstring(L, "%d:%s", origin, name);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, 1) == LUA_TBOOLEAN) {
        return luaL_error(L, "import: templates/%s imports itself, directly or through others", name);
    }
    if (!lua_isnil(L, -1)) {
        return 1;
    }
    lua_pop(L, 1);
    lua_pushvalue(L, 2);
    lua_pushboolean(L, 0);
    lua_rawset(L, 1);
    snprintf(chunk, sizeof chunk, "templates/%s", name);
    sandbox_load(L, buffer_string(&generator->scratch), generator->scratch.length, chunk);
    lua_call(L, 0, 1);
    if (lua_type(L, -1) == LUA_TTABLE) {
        sandbox_freeze(L, NULL);
    } else if (lua_type(L, -1) != LUA_TFUNCTION) {
        return luaL_error(L, "import: templates/%s must return a table or a function, it returns a %s value", name,
                          luaL_typename(L, -1));
    }
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
}

void families_open_import(lua_State *L, struct generator *generator)
{
    lua_pushlightuserdata(L, generator);
    lua_pushcclosure(L, import, 1);
    lua_setfield(L, -2, "import");
    lua_createtable(L, 0, 8);
    generator->imports = luaL_ref(L, LUA_REGISTRYINDEX);
}

/* ---- template files ---- */

struct digest_files {
    const struct sources *sources;
    int origin;
    int count;
    char names[DIGEST_FILES_MAX][SOURCE_NAME_BYTES];
};

/* the next literal import in the text: import("name") or import "name" */
static const char *next_import(const char *at, char name[SOURCE_NAME_BYTES])
{
    while ((at = strstr(at, "import")) != NULL) {
        at += strlen("import");
        const char *quote = at + strspn(at, " \t(");
        if (*quote != '"' && *quote != '\'') {
            continue;
        }
        size_t length = strcspn(quote + 1, "\"'\n");
        if (length > 0 && length + 5 < SOURCE_NAME_BYTES) {
            snprintf(name, SOURCE_NAME_BYTES, "%.*s.lua", (int)length, quote + 1);
            return at;
        }
    }
    return NULL;
}

/* Adds the libraries that a text imports, and theirs: what a template's digest stands for. One that is not there fails
 * when it is imported, not here. */
static void digest_imports(struct digest_state *state, struct digest_files *files, const char *text)
{
    char name[SOURCE_NAME_BYTES];
    for (const char *at = next_import(text, name); at != NULL; at = next_import(at, name)) {
        struct buffer bytes = BUFFER_INIT;
        int origin;
        bool known = files->count == DIGEST_FILES_MAX;
        for (int i = 0; i < files->count; i++) {
            known = known || strcmp(files->names[i], name) == 0;
        }
        if (!known && sources_read(files->sources, name, files->origin, &bytes, &origin, NULL) == ATTUNE_OK) {
            strcpy(files->names[files->count++], name);
            digest_field(state, name, strlen(name));
            digest_field(state, bytes.data, bytes.length);
            digest_imports(state, files, buffer_string(&bytes));
        }
        buffer_free(&bytes);
    }
}

static int load_program(lua_State *L)
{
    dialect_load(L, lua_touserdata(L, 1));
    return 0;
}

attune_status template_prepare(struct generator *generator, const struct family *family, struct kernel_template *of,
                               struct error *error)
{
    struct buffer bytes = BUFFER_INIT;
    struct dialect_program *program = NULL;
    struct digest_files *files = NULL;
    struct digest_state state;
    int origin;
    if (of->program != NULL) {
        return ATTUNE_OK;
    }
    attune_status status = sources_read(&generator->sources, of->file, family->origin, &bytes, &origin, error);
    if (status != ATTUNE_OK) {
        error_prefix(error, "family %s, template %s", family->name, of->name);
        goto out;
    }
    status = dialect_translate(buffer_string(&bytes), bytes.length, of->file, &program, error);
    if (status == ATTUNE_OK) {
        status = sandbox_protect(&generator->sandbox, load_program, program, error);
    }
    if (status != ATTUNE_OK) {
        goto out;
    }
    files = calloc(1, sizeof *files);
    if (files == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    files->sources = &generator->sources;
    files->origin = family->origin;
    digest_begin(&state);
    digest_field(&state, family->bytes.data, family->bytes.length);
    digest_field(&state, bytes.data, bytes.length);
    digest_imports(&state, files, buffer_string(&family->bytes));
    digest_imports(&state, files, buffer_string(&bytes));
    digest_end(&state, &of->digest);
    digest_hex(&of->digest, of->digest_hex);
    of->program = program;
    program = NULL;
out:
    dialect_free(program);
    buffer_free(&bytes);
    free(files);
    return status;
}
