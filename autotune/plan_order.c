/* plan_order.c - strategies' names, and ordering candidates. */
#include "autotune/plan_order.h"

#include "autotune/inputs.h"
#include "base/files.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 16 << 20 };

static bool contains(const struct candidate *items, int count, const struct candidate *one)
{
    char wanted[CANDIDATE_TEXT_BYTES], name[CANDIDATE_TEXT_BYTES];
    candidate_format(one, wanted);
    for (int i = 0; i < count; i++) {
        candidate_format(&items[i], name);
        if (strcmp(name, wanted) == 0) {
            return true;
        }
    }
    return false;
}

static attune_status append(struct candidate_list *list, const struct candidate *one, struct error *error)
{
    if ((list->count & (list->count - 1)) == 0) { /* capacity doubles at powers of two */
        size_t capacity = list->count == 0 ? 1 : (size_t)list->count * 2;
        struct candidate *items = realloc(list->items, capacity * sizeof *items);
        if (items == NULL) {
            return error_no_memory(error);
        }
        list->items = items;
    }
    list->items[list->count++] = *one;
    return ATTUNE_OK;
}

static attune_status read_line(struct generator *generator, const struct problem *problem, const struct target *target,
                               const char *path, int number, const char *line, struct candidate_list *list,
                               struct error *error)
{
    struct candidate one;
    attune_status status = candidate_parse(generator, line, problem, target, &one, error);
    if (status == ATTUNE_OK) {
        status = candidate_check(generator, &one, problem, target, error);
    }
    if (status != ATTUNE_OK) {
        return error != NULL ? error_prefix(error, "%s:%d", path, number) : status;
    }
    return contains(list->items, list->count, &one) ? ATTUNE_OK : append(list, &one, error);
}

static attune_status read_file(struct generator *generator, const struct problem *problem, const struct target *target,
                               const char *path, struct candidate_list *list, struct error *error)
{
    struct buffer text = BUFFER_INIT;
    struct candidate standard;
    attune_status status = candidate_default(generator, problem, target, &standard, error);
    if (status == ATTUNE_OK) {
        status = append(list, &standard, error);
    }
    if (status == ATTUNE_OK) {
        status = file_read_text(path, FILE_BYTES_MAX, &text, error);
    }
    int number = 0, named = 0;
    char *rest = text.data;
    while (status == ATTUNE_OK && rest != NULL && *rest != '\0') {
        char *line = rest, *end = strchr(rest, '\n');
        rest = end != NULL ? end + 1 : rest + strlen(rest);
        if (end != NULL) {
            *end = '\0';
        }
        number++;
        line[strcspn(line, "#")] = '\0'; /* a carriage return before the newline is a blank, elsewhere a wrong word */
        line += strspn(line, " \t");
        for (size_t length = strlen(line); length > 0 && isspace((unsigned char)line[length - 1]); length--) {
            line[length - 1] = '\0';
        }
        if (*line != '\0') {
            named++;
            status = read_line(generator, problem, target, path, number, line, list, error);
        }
    }
    if (status == ATTUNE_OK && named == 0) {
        status = error_set(error, ATTUNE_INVALID, "'%s' names no candidate: write one a line", path);
    }
    buffer_free(&text);
    list->points = list->count;
    return status;
}

static void shuffle(struct candidate *items, int count, uint64_t seed)
{
    for (int i = count - 1; i > 0; i--) {
        seed = hash_mix(seed);
        int other = (int)(seed % (uint64_t)(i + 1));
        struct candidate kept = items[i];
        items[i] = items[other];
        items[other] = kept;
    }
}

/* the cover, then what the whole space has besides */
static attune_status sweep(struct generator *generator, const struct problem *problem, const struct target *target,
                           uint64_t seed, struct candidate_list *list, struct error *error)
{
    struct candidate_list all = {0};
    attune_status status = candidate_enumerate(generator, problem, target, &all, error);
    int covered = list->count;
    shuffle(all.items, all.count, hash_mix(seed));
    for (int i = 0; i < all.count && status == ATTUNE_OK; i++) {
        if (!contains(list->items, covered, &all.items[i])) {
            status = append(list, &all.items[i], error);
        }
    }
    list->points = all.points;
    list->rejected = all.rejected;
    candidate_list_free(&all);
    return status;
}

/* a list in the form that append keeps */
static attune_status copy_list(const struct candidate_list *from, struct candidate_list *to, struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < from->count && status == ATTUNE_OK; i++) {
        status = append(to, &from->items[i], error);
    }
    to->points = from->points;
    to->rejected = from->rejected;
    return status;
}

attune_status plan_named(const char *strategy, bool timed, const char *file, struct plan *plan, struct error *error)
{
    static const struct plan plans[] = {
        {"model", PLAN_SPACE, SEARCH_MODEL},      {"exhaustive", PLAN_SPACE, SEARCH_EXHAUSTIVE},
        {"random", PLAN_SPACE, SEARCH_RANDOM},    {"local", PLAN_SPACE, SEARCH_LOCAL},
        {"cover", PLAN_COVER, SEARCH_EXHAUSTIVE}, {"default", PLAN_DEFAULT, SEARCH_EXHAUSTIVE}};
    if (strategy == NULL || strategy[0] == '\0') {
        strategy = timed && file == NULL ? "model" : "exhaustive";
    }
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        if (strcmp(strategy, plans[i].name) != 0) {
            continue;
        }
        *plan = plans[i];
        if (!timed && (plan->search == SEARCH_MODEL || plan->search == SEARCH_LOCAL)) {
            return error_set(error, ATTUNE_INVALID,
                             "strategy %s goes by times, and nothing is timed on this device: use exhaustive, random, "
                             "cover or default",
                             strategy);
        }
        if (file != NULL && plan->scope != PLAN_SPACE) {
            return error_set(error, ATTUNE_INVALID,
                             "strategy %s is of the whole space, and '%s' says which candidates: use model, "
                             "exhaustive, random or local",
                             strategy, file);
        }
        return ATTUNE_OK;
    }
    return error_set(error, ATTUNE_INVALID, "strategy %s: use model, exhaustive, random, local, cover or default",
                     strategy);
}

static attune_status order_cover(struct generator *generator, const struct problem *problem,
                                 const struct target *target, uint64_t seed, struct candidate_list *list,
                                 struct error *error)
{
    struct candidate_list cover = {0};
    attune_status status = candidate_cover(generator, problem, target, 0, seed, &cover, error);
    if (status == ATTUNE_OK) {
        status = copy_list(&cover, list, error);
    }
    candidate_list_free(&cover);
    return status;
}

static attune_status order_default(struct generator *generator, const struct problem *problem,
                                   const struct target *target, struct candidate_list *list, struct error *error)
{
    struct candidate standard;
    attune_status status = candidate_default(generator, problem, target, &standard, error);
    if (status == ATTUNE_OK) {
        status = append(list, &standard, error);
    }
    list->points = 1;
    return status;
}

attune_status plan_order(struct generator *generator, const struct problem *problem, const struct target *target,
                         enum plan_scope scope, const char *file, uint64_t seed, int limit, struct candidate_list *list,
                         struct error *error)
{
    *list = (struct candidate_list){0};
    attune_status status = file != NULL            ? read_file(generator, problem, target, file, list, error)
                           : scope == PLAN_DEFAULT ? order_default(generator, problem, target, list, error)
                                                   : order_cover(generator, problem, target, seed, list, error);
    if (status == ATTUNE_OK && file == NULL && scope == PLAN_SPACE) {
        status = sweep(generator, problem, target, seed, list, error);
    }
    if (limit > 0 && list->count > limit) {
        list->count = limit;
    }
    if (status != ATTUNE_OK) {
        candidate_list_free(list);
        *list = (struct candidate_list){0};
    }
    return status;
}
