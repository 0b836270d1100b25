/* space.c - walking a template's space.
 *
 * Constraints are pure functions of the candidate, so a verdict depends only on the parameters that were read. The walk
 * counts like an odometer over the declared order; a constraint is asked again only when a parameter up to the last one
 * it read has changed, and a rejection skips every point that shares those parameters.
 */
#include "generator/generator_private.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE_VERDICTS_MAX 20000000 /* points looked at one by one, after skipping */

struct walk {
    struct call call;
    struct space *space;
    int deepest[CONSTRAINTS_MAX]; /* last parameter that the last verdict of a constraint read */
    int changed[CONSTRAINTS_MAX]; /* first parameter that changed since */
};

static void keep_point(lua_State *L, struct space *space, const uint8_t *index)
{
    size_t width = (size_t)space->of->parameter_count;
    if (space->valid_count == space->capacity) {
        size_t larger = space->capacity == 0 ? 256 : space->capacity * 2;
        uint8_t *fresh = realloc(space->points, larger * (width + 1));
        if (fresh == NULL) {
            sandbox_raise(L, ATTUNE_NO_MEMORY, "no memory for %zu candidates", larger);
        }
        space->points = fresh;
        space->capacity = larger;
    }
    memcpy(space->points + space->valid_count * width, index, width);
    space->valid_count++;
}

/* points from this one to the last that shares its parameters up to `depth` */
static uint64_t points_skipped(const struct kernel_template *of, const uint8_t *index, int depth)
{
    uint64_t size = 1, rank = 0;
    for (int i = depth + 1; i < of->parameter_count; i++) {
        size *= (uint64_t)of->parameters[i].value_count;
        rank = rank * (uint64_t)of->parameters[i].value_count + index[i];
    }
    return size - rank;
}

/* the next point after all that share the parameters up to `depth`; returns the first changed parameter, -1 at the end
 */
static int advance(const struct kernel_template *of, uint8_t *index, int depth)
{
    int first = depth;
    while (first >= 0 && index[first] + 1 == of->parameters[first].value_count) {
        first--;
    }
    if (first >= 0) {
        index[first]++;
        memset(index + first + 1, 0, (size_t)(of->parameter_count - first - 1));
    }
    return first;
}

/* the first constraint that refuses the point, or -1; its reason is then on the stack */
static int first_refusal(lua_State *L, struct walk *walk, int p, int t)
{
    struct generator *generator = walk->call.generator;
    for (int i = 0; i < walk->space->of->constraint_count; i++) {
        if (walk->changed[i] > walk->deepest[i]) {
            continue;
        }
        generator->point.deepest_read = -1;
        bool holds = constraint_holds(L, generator, walk->call.family, i, p, t);
        walk->deepest[i] = generator->point.deepest_read;
        walk->changed[i] = INT_MAX;
        if (!holds) {
            return i;
        }
    }
    return -1;
}

static void note_rejection(lua_State *L, struct rejection *rejection, const struct point *point, uint64_t count)
{
    if (rejection->count == 0) {
        snprintf(rejection->reason, sizeof rejection->reason, "%s", lua_tostring(L, -1));
        rejection->example = *point;
    }
    rejection->count += count;
}

static int walk_space(lua_State *L)
{
    struct walk *walk = lua_touserdata(L, 1);
    struct space *space = walk->space;
    const struct kernel_template *of = space->of;
    struct generator *generator = walk->call.generator;
    struct point *point = &generator->point;
    uint64_t verdicts = 0;
    *point = (struct point){.of = of, .deepest_read = -1};
    push_problem(L, generator, walk->call.problem);
    push_target(L, generator, walk->call.target);
    int p = lua_gettop(L) - 1, t = p + 1;
    for (;;) {
        int depth = of->parameter_count - 1;
        if (++verdicts > SPACE_VERDICTS_MAX) {
            sandbox_raise(L, ATTUNE_INVALID,
                          "templates/%s: template %s: its space has %llu points, too many to look at; give it "
                          "constraints on the parameters declared first",
                          walk->call.family->file, of->name, (unsigned long long)space->total);
        }
        int refusal = first_refusal(L, walk, p, t);
        if (refusal < 0) {
            keep_point(L, space, point->index);
        } else {
            depth = walk->deepest[refusal];
            uint64_t count = points_skipped(of, point->index, depth);
            note_rejection(L, &space->rejections[refusal], point, count);
            space->rejected += count;
            walk->changed[refusal] = -1; /* a refusal is asked again at the next point */
            lua_settop(L, t);
        }
        int changed = advance(of, point->index, depth);
        for (int i = 0; i < of->constraint_count; i++) {
            walk->changed[i] = walk->changed[i] < changed ? walk->changed[i] : changed;
        }
        if (changed < 0) {
            return 0;
        }
    }
}

attune_status space_walk(struct generator *generator, const struct family *family, const struct kernel_template *of,
                         const struct problem *problem, const struct target *target, struct space *space,
                         struct error *error)
{
    struct walk walk = {.call = {generator, family, of, problem, target, NULL, error}, .space = space};
    memset(space, 0, sizeof *space);
    space->of = of;
    space->total = 1;
    for (int i = 0; i < of->parameter_count; i++) {
        uint64_t count = (uint64_t)of->parameters[i].value_count;
        if (space->total > (uint64_t)INT_MAX * 1000 / count) {
            return error_set(error, ATTUNE_INVALID, "templates/%s: template %s: its space has more than 10^12 points",
                             family->file, of->name);
        }
        space->total *= count;
    }
    for (int i = 0; i < CONSTRAINTS_MAX; i++) {
        walk.deepest[i] = INT_MAX;
        walk.changed[i] = 0;
    }
    generator->importing = family;
    attune_status status = sandbox_protect(&generator->sandbox, walk_space, &walk, error);
    if (status != ATTUNE_OK) {
        space_free(space);
    }
    return status;
}

void space_free(struct space *space)
{
    free(space->points);
    free(space->paths);
    space->points = NULL;
    space->paths = NULL;
    space->valid_count = space->capacity = 0;
}
