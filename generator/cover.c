/* cover.c - lists of candidates: all valid ones, and pairwise covers of them.
 *
 * A cover begins with the default and candidates that together have every path of the templates' text, so that a small
 * one holds all that could be wrong in its own way. From there it is greedy: the next candidate is the one with the
 * most pairs of values that no earlier one has. Gains only shrink, so candidates wait in buckets by the last gain known
 * and are looked at again only when their bucket's turn comes. Ties go by an order shuffled from the seed.
 */
#include "generator/generator_private.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

void candidate_list_free(struct candidate_list *list)
{
    free(list->items);
    memset(list, 0, sizeof *list);
}

/* ---- the valid points of a problem: one space per template that supports it ---- */

struct spaces {
    struct family *family;
    int count;
    struct space items[TEMPLATES_MAX];
    struct point fallback; /* the default candidate */
    int fallback_space;
    size_t fallback_row;
    size_t valid_count;
    uint64_t points, rejected;
};

static void spaces_free(struct spaces *spaces)
{
    for (int i = 0; i < spaces->count; i++) {
        space_free(&spaces->items[i]);
    }
    free(spaces);
}

struct support {
    struct buffer reason;
    bool supported;
};

static int ask_support(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    struct support *support = call->result;
    support->supported =
        template_supports(L, call->generator, call->family, call->of, call->problem, call->target, &support->reason);
    return 0;
}

static attune_status walk_all(struct generator *generator, const struct problem *problem, const struct target *target,
                              struct spaces *spaces, struct error *error)
{
    attune_status status = ATTUNE_OK;
    struct support support = {.reason = BUFFER_INIT};
    for (int i = 0; i < spaces->family->template_count && status == ATTUNE_OK; i++) {
        struct kernel_template *of = &spaces->family->templates[i];
        struct call call = {generator, spaces->family, of, problem, target, &support, error};
        generator->importing = spaces->family;
        status = sandbox_protect(&generator->sandbox, ask_support, &call, error);
        if (status != ATTUNE_OK || !support.supported) {
            continue;
        }
        struct space *space = &spaces->items[spaces->count];
        status = space_walk(generator, spaces->family, of, problem, target, space, error);
        if (status == ATTUNE_OK) {
            spaces->count++;
            spaces->valid_count += space->valid_count;
            spaces->points += space->total;
            spaces->rejected += space->rejected;
        }
    }
    buffer_free(&support.reason);
    return status;
}

static const uint8_t *space_row(const struct space *space, size_t row)
{
    return space->points + row * (size_t)space->of->parameter_count;
}

static attune_status find_fallback(struct spaces *spaces, struct error *error)
{
    for (int i = 0; i < spaces->count; i++) {
        const struct space *space = &spaces->items[i];
        for (size_t row = 0; space->of == spaces->fallback.of && row < space->valid_count; row++) {
            if (memcmp(space_row(space, row), spaces->fallback.index, (size_t)space->of->parameter_count) == 0) {
                spaces->fallback_space = i;
                spaces->fallback_row = row;
                return ATTUNE_OK;
            }
        }
    }
    return error_set(error, ATTUNE_INVALID,
                     "templates/%s: the default candidate passes its constraints alone but not in the "
                     "space: a constraint changes its mind between calls",
                     spaces->family->file);
}

static attune_status open_spaces(struct generator *generator, const struct problem *problem,
                                 const struct target *target, struct spaces **result, struct error *error)
{
    struct candidate fallback;
    struct kernel_template *of;
    struct spaces *spaces = calloc(1, sizeof *spaces);
    *result = NULL;
    if (spaces == NULL) {
        return error_no_memory(error);
    }
    attune_status status = candidate_default(generator, problem, target, &fallback, error);
    if (status == ATTUNE_OK) {
        status = family_find(generator, fallback.family, &spaces->family, error);
    }
    if (status == ATTUNE_OK) {
        status = template_find(spaces->family, fallback.template_name, &of, error);
    }
    if (status == ATTUNE_OK) {
        status = point_of_candidate(&fallback, spaces->family, of, &spaces->fallback, error);
    }
    if (status == ATTUNE_OK) {
        status = walk_all(generator, problem, target, spaces, error);
    }
    if (status == ATTUNE_OK) {
        status = find_fallback(spaces, error);
    }
    if (status != ATTUNE_OK) {
        spaces_free(spaces);
        return status;
    }
    *result = spaces;
    return ATTUNE_OK;
}

static int clamp(uint64_t count)
{
    return count > INT_MAX ? INT_MAX : (int)count;
}

static attune_status start_list(struct candidate_list *list, const struct spaces *spaces, size_t count,
                                struct error *error)
{
    memset(list, 0, sizeof *list);
    if (count > INT_MAX / 2) {
        return error_no_memory(error);
    }
    list->items = calloc(count, sizeof *list->items);
    list->points = clamp(spaces->points);
    list->rejected = clamp(spaces->rejected);
    return list->items != NULL ? ATTUNE_OK : error_no_memory(error);
}

static void add_row(struct candidate_list *list, const struct spaces *spaces, int space, size_t row)
{
    struct point point = {.of = spaces->items[space].of};
    memcpy(point.index, space_row(&spaces->items[space], row), (size_t)point.of->parameter_count);
    candidate_of_point(spaces->family, &point, &list->items[list->count++]);
}

attune_status candidate_enumerate(struct generator *generator, const struct problem *problem,
                                  const struct target *target, struct candidate_list *list, struct error *error)
{
    struct spaces *spaces;
    memset(list, 0, sizeof *list);
    attune_status status = open_spaces(generator, problem, target, &spaces, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = start_list(list, spaces, spaces->valid_count, error);
    if (status == ATTUNE_OK) {
        add_row(list, spaces, spaces->fallback_space, spaces->fallback_row);
        for (int i = 0; i < spaces->count; i++) {
            for (size_t row = 0; row < spaces->items[i].valid_count; row++) {
                if (i != spaces->fallback_space || row != spaces->fallback_row) {
                    add_row(list, spaces, i, row);
                }
            }
        }
    }
    spaces_free(spaces);
    return status;
}

/* ---- covers ---- */

/* splitmix64 (Steele, Lea, Flood 2014): small, and the same everywhere */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct member {
    int space;
    uint32_t row;
    uint32_t next; /* in its bucket, 1-based; 0 ends */
};

enum { GAIN_MAX = CANDIDATE_PARAMETERS_MAX * (CANDIDATE_PARAMETERS_MAX + 1) / 2 };

struct cover {
    const struct spaces *spaces;
    struct member *members;
    size_t member_count;
    uint32_t first[GAIN_MAX + 1], last[GAIN_MAX + 1]; /* queues by gain */
    uint64_t seen[TEMPLATES_MAX];                     /* paths that the list has, by space */
    uint8_t *covered; /* a flag per template and unordered pair of (parameter, value), value alone included */
    int value_base[TEMPLATES_MAX][CANDIDATE_PARAMETERS_MAX]; /* numbering of all values over all templates */
    size_t value_total;
};

static int gain_of(struct cover *cover, const struct member *member, bool take)
{
    const struct space *space = &cover->spaces->items[member->space];
    const uint8_t *row = space_row(space, member->row);
    const int *base = cover->value_base[member->space];
    int gain = 0;
    for (int i = 0; i < space->of->parameter_count; i++) {
        uint8_t *flags = cover->covered + (size_t)(base[i] + row[i]) * cover->value_total;
        for (int j = i; j < space->of->parameter_count; j++) {
            gain += !flags[base[j] + row[j]];
            flags[base[j] + row[j]] |= take;
        }
    }
    return gain;
}

static void enqueue(struct cover *cover, uint32_t member, int gain)
{
    cover->members[member - 1].next = 0;
    if (cover->first[gain] == 0) {
        cover->first[gain] = member;
    } else {
        cover->members[cover->last[gain] - 1].next = member;
    }
    cover->last[gain] = member;
}

static void enqueue_all(struct cover *cover)
{
    memset(cover->first, 0, sizeof cover->first);
    for (size_t i = 0; i < cover->member_count; i++) {
        enqueue(cover, (uint32_t)i + 1, gain_of(cover, &cover->members[i], false));
    }
}

/* the member with the largest gain, taken out of the queues; 0 when none gains anything */
static uint32_t best_member(struct cover *cover)
{
    for (int gain = GAIN_MAX; gain > 0; gain--) {
        while (cover->first[gain] != 0) {
            uint32_t member = cover->first[gain];
            cover->first[gain] = cover->members[member - 1].next;
            int now = gain_of(cover, &cover->members[member - 1], false);
            if (now == gain) {
                return member;
            }
            enqueue(cover, member, now);
        }
    }
    return 0;
}

static attune_status open_cover(struct cover *cover, const struct spaces *spaces, uint64_t seed, struct error *error)
{
    memset(cover, 0, sizeof *cover);
    cover->spaces = spaces;
    for (int i = 0; i < spaces->count; i++) {
        for (int j = 0; j < spaces->items[i].of->parameter_count; j++) {
            cover->value_base[i][j] = (int)cover->value_total;
            cover->value_total += (size_t)spaces->items[i].of->parameters[j].value_count;
        }
    }
    cover->covered = calloc(cover->value_total * cover->value_total + 1, 1);
    cover->members = calloc(spaces->valid_count + 1, sizeof *cover->members);
    if (cover->covered == NULL || cover->members == NULL) {
        return error_no_memory(error);
    }
    for (int i = 0; i < spaces->count; i++) {
        for (size_t row = 0; row < spaces->items[i].valid_count; row++) {
            if (i != spaces->fallback_space || row != spaces->fallback_row) {
                cover->members[cover->member_count++] = (struct member){i, (uint32_t)row, 0};
            }
        }
    }
    for (size_t i = cover->member_count; i > 1; i--) {
        size_t other = (size_t)(next_random(&seed) % i);
        struct member swap = cover->members[i - 1];
        cover->members[i - 1] = cover->members[other];
        cover->members[other] = swap;
    }
    return ATTUNE_OK;
}

static uint64_t paths_of(const struct cover *cover, const struct member *member)
{
    return member->space < 0 ? 0 : cover->spaces->items[member->space].paths[member->row];
}

static void take_member(struct cover *cover, struct candidate_list *list, struct member *member)
{
    gain_of(cover, member, true);
    add_row(list, cover->spaces, member->space, member->row);
    cover->seen[member->space] |= paths_of(cover, member);
    member->space = -1;
}

/* the member that has most paths which none before it had, of those the one with most new pairs; NULL when all are had
 */
static struct member *most_paths(struct cover *cover)
{
    struct member *best = NULL;
    int most = 0, most_gain = 0;
    for (size_t i = 0; i < cover->member_count; i++) {
        struct member *member = &cover->members[i];
        int fresh = member->space < 0 ? 0 : __builtin_popcountll(paths_of(cover, member) & ~cover->seen[member->space]);
        if (fresh == 0 || fresh < most) {
            continue;
        }
        int gain = gain_of(cover, member, false);
        if (fresh > most || gain > most_gain) {
            best = member;
            most = fresh;
            most_gain = gain;
        }
    }
    return best;
}

static void drop_taken(struct cover *cover)
{
    size_t kept = 0;
    for (size_t i = 0; i < cover->member_count; i++) {
        if (cover->members[i].space >= 0) {
            cover->members[kept++] = cover->members[i];
        }
    }
    cover->member_count = kept;
}

/* Once every pair is covered and n leaves room, pairs are covered a second time, and so on */
static void fill_cover(struct cover *cover, struct candidate_list *list, size_t n, bool once)
{
    const struct spaces *spaces = cover->spaces;
    struct member fallback = {spaces->fallback_space, (uint32_t)spaces->fallback_row, 0};
    struct member *next;
    take_member(cover, list, &fallback);
    while ((size_t)list->count < n && (next = most_paths(cover)) != NULL) {
        take_member(cover, list, next);
    }
    drop_taken(cover);
    enqueue_all(cover);
    while ((size_t)list->count < n) {
        uint32_t best = best_member(cover);
        if (best != 0) {
            take_member(cover, list, &cover->members[best - 1]);
            continue;
        }
        if (once) {
            return;
        }
        drop_taken(cover);
        memset(cover->covered, 0, cover->value_total * cover->value_total);
        enqueue_all(cover);
        if (cover->member_count == 0) {
            return;
        }
    }
}

attune_status candidate_cover(struct generator *generator, const struct problem *problem, const struct target *target,
                              int n, uint64_t seed, struct candidate_list *list, struct error *error)
{
    struct spaces *spaces;
    memset(list, 0, sizeof *list);
    attune_status status = open_spaces(generator, problem, target, &spaces, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    for (int i = 0; i < spaces->count && status == ATTUNE_OK; i++) {
        status = space_name_paths(generator, spaces->family, problem, target, &spaces->items[i], error);
    }
    if (status != ATTUNE_OK) {
        spaces_free(spaces);
        return status;
    }
    struct cover *cover = calloc(1, sizeof *cover);
    size_t limit = n > 0 && (size_t)n < spaces->valid_count ? (size_t)n : spaces->valid_count;
    status = cover != NULL ? open_cover(cover, spaces, seed, error) : error_no_memory(error);
    if (status == ATTUNE_OK) {
        status = start_list(list, spaces, limit, error);
    }
    if (status == ATTUNE_OK) {
        fill_cover(cover, list, limit, n <= 0);
    }
    if (cover != NULL) {
        free(cover->covered);
        free(cover->members);
        free(cover);
    }
    spaces_free(spaces);
    return status;
}
