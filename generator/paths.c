/* paths.c - which of a template's pieces of text the candidates of a space have, by the names that the template gives
 * them. A cover takes candidates first that together have all of them.
 */
#include "generator/generator_private.h"

#include <stdlib.h>
#include <string.h>

enum { PATHS_MAX = 64 };

struct names {
    struct call call;
    const struct space *space;
    uint64_t *masks;
    int count;
    char names[PATHS_MAX][CANDIDATE_TEXT_BYTES / 8];
};

static int name_bit(lua_State *L, struct names *names, const char *name)
{
    if (name == NULL || strlen(name) >= sizeof names->names[0]) {
        return sandbox_raise(L, ATTUNE_INVALID,
                             "templates/%s: template %s: paths() must return a list of texts of at most %zu bytes",
                             names->call.family->file, names->space->of->name, sizeof names->names[0] - 1);
    }
    for (int i = 0; i < names->count; i++) {
        if (strcmp(names->names[i], name) == 0) {
            return i;
        }
    }
    if (names->count == PATHS_MAX) {
        return sandbox_raise(L, ATTUNE_INVALID, "templates/%s: template %s: paths() names more than %d paths",
                             names->call.family->file, names->space->of->name, PATHS_MAX);
    }
    strcpy(names->names[names->count], name);
    return names->count++;
}

/* the paths of generator->point */
static uint64_t mask_of_point(lua_State *L, struct names *names, int p, int t)
{
    struct generator *generator = names->call.generator;
    uint64_t mask = 0;
    sandbox_refill(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, names->space->of->paths);
    push_candidate(L, generator);
    lua_pushvalue(L, p);
    lua_pushvalue(L, t);
    lua_call(L, 3, 1);
    lua_Integer count = lua_type(L, -1) == LUA_TTABLE ? (lua_Integer)lua_rawlen(L, -1) : 0;
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, -1, i);
        mask |= UINT64_C(1) << name_bit(L, names, lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return mask;
}

static int name_all(lua_State *L)
{
    struct names *names = lua_touserdata(L, 1);
    const struct kernel_template *of = names->space->of;
    struct point *point = &names->call.generator->point;
    push_problem(L, names->call.generator, names->call.problem);
    push_target(L, names->call.generator, names->call.target);
    int p = lua_gettop(L) - 1, t = p + 1;
    for (size_t row = 0; row < names->space->valid_count; row++) {
        *point = (struct point){.of = of, .deepest_read = -1};
        memcpy(point->index, names->space->points + row * (size_t)of->parameter_count, (size_t)of->parameter_count);
        names->masks[row] = mask_of_point(L, names, p, t);
    }
    return 0;
}

attune_status space_name_paths(struct generator *generator, const struct family *family, const struct problem *problem,
                               const struct target *target, struct space *space, struct error *error)
{
    attune_status status = ATTUNE_OK;
    struct names *names = calloc(1, sizeof *names);
    space->paths = calloc(space->valid_count + 1, sizeof *space->paths);
    if (names == NULL || space->paths == NULL) {
        status = error_no_memory(error);
    } else if (space->of->paths != LUA_NOREF) {
        names->call = (struct call){generator, family, space->of, problem, target, NULL, error};
        names->space = space;
        names->masks = space->paths;
        generator->importing = family;
        status = sandbox_protect(&generator->sandbox, name_all, names, error);
    }
    free(names);
    return status;
}
