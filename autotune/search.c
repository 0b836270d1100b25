/* search.c - the books of a search: what was given, told and looked at; the strategies that need no model. */
#include "autotune/search_model.h"
#include "autotune/search_private.h"

#include "autotune/inputs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* a small space takes seconds as a whole, and the model saves none of them where it errs */
enum { SMALL_SPACE = 200, LEAST_LOOKS = 48 };
static const double share_of_space = 0.15;

static const char *const strategy_names[] = {
    [SEARCH_MODEL] = "model", [SEARCH_EXHAUSTIVE] = "exhaustive", [SEARCH_RANDOM] = "random", [SEARCH_LOCAL] = "local"};

const char *search_strategy_name(enum search_strategy strategy)
{
    return strategy_names[strategy];
}

attune_status search_strategy_parse(const char *name, enum search_strategy *strategy, struct error *error)
{
    *strategy = SEARCH_MODEL;
    if (name == NULL || name[0] == '\0') {
        return ATTUNE_OK;
    }
    for (size_t i = 0; i < sizeof strategy_names / sizeof strategy_names[0]; i++) {
        if (strcmp(name, strategy_names[i]) == 0) {
            *strategy = (enum search_strategy)i;
            return ATTUNE_OK;
        }
    }
    return error_set(error, ATTUNE_INVALID, "strategy '%s' is none: use model, exhaustive, random or local", name);
}

int search_share(int candidates)
{
    int share = (int)(share_of_space * candidates + 0.5);
    if (candidates <= SMALL_SPACE) {
        return candidates;
    }
    return share > LEAST_LOOKS ? share : LEAST_LOOKS;
}

/* order[kept..) is shuffled */
static void shuffle(int *order, int kept, int count, uint64_t seed)
{
    uint64_t state = hash_mix(seed);
    for (int i = count - 1; i > kept; i--) {
        state = hash_mix(state + 1);
        int other = kept + (int)(state % (uint64_t)(i - kept + 1)), moved = order[i];
        order[i] = order[other];
        order[other] = moved;
    }
}

attune_status search_create(const struct search_options *options, struct search **search, struct error *error)
{
    int count = options->list->count;
    *search = NULL;
    if (count < 1) {
        return error_set(error, ATTUNE_INVALID, "the list of candidates is empty: there is nothing to search");
    }
    struct search *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return error_no_memory(error);
    }
    s->options = *options;
    s->unseen = count;
    s->best = s->center = -1;
    s->states = calloc((size_t)count, sizeof *s->states); /* POINT_UNSEEN */
    s->microseconds = calloc((size_t)count, sizeof *s->microseconds);
    s->order = calloc((size_t)count, sizeof *s->order);
    attune_status status = search_space_create(options->list, &s->space, error);
    if (status == ATTUNE_OK && (s->states == NULL || s->microseconds == NULL || s->order == NULL)) {
        status = error_no_memory(error);
    }
    if (status != ATTUNE_OK) {
        search_destroy(s);
        return status;
    }
    bool whole = options->strategy == SEARCH_EXHAUSTIVE;
    int kept = whole && options->covered > 1 ? options->covered : 1;
    for (int i = 0; i < count; i++) {
        s->order[i] = i;
    }
    shuffle(s->order, kept < count ? kept : count, count, options->seed);
    s->limit = options->evaluations > 0 ? options->evaluations : whole ? count : search_share(count);
    s->limit = s->limit < count ? s->limit : count;
    if (options->strategy == SEARCH_MODEL) {
        status = search_model_create(s, &s->model, error);
        if (status != ATTUNE_OK) {
            search_destroy(s);
            return status;
        }
    }
    *search = s;
    return ATTUNE_OK;
}

void search_destroy(struct search *search)
{
    if (search != NULL) {
        search_model_destroy(search->model);
        search_space_free(&search->space);
        free(search->states);
        free(search->microseconds);
        free(search->order);
        free(search);
    }
}

int search_first_unseen(struct search *search)
{
    while (search->cursor < search->space.count) {
        int index = search->order[search->cursor];
        if (search->states[index] == POINT_UNSEEN) {
            return index;
        }
        search->cursor++;
    }
    return -1;
}

bool search_is_over(const struct search *search)
{
    return search->ended || search->unseen == 0 || search->looks >= search->limit;
}

int search_next(struct search *search)
{
    if (search_is_over(search) || search->looks + search->under_way >= search->limit) {
        return -1;
    }
    int index = search->options.strategy == SEARCH_LOCAL   ? search_pick_local(search)
                : search->options.strategy == SEARCH_MODEL ? search_model_pick(search)
                                                           : search_first_unseen(search);
    if (index >= 0) {
        search->states[index] = POINT_UNDER_WAY;
        search->under_way++;
        search->unseen--;
    }
    return index;
}

bool search_wants(struct search *search, int index, const struct resources *resources, const struct launch *launch,
                  char reason[SEARCH_REASON_BYTES])
{
    reason[0] = '\0';
    return search->model == NULL || search_model_wants(search, index, resources, launch, reason);
}

void search_tell(struct search *search, int index, const struct search_answer *answer)
{
    assert(index >= 0 && index < search->space.count);
    uint8_t *state = &search->states[index];
    if (*state == POINT_UNSEEN) {
        search->unseen--;
    } else if (*state == POINT_UNDER_WAY) {
        search->under_way--;
    } else {
        return;
    }
    search->looks += answer->looked;
    *state = answer->microseconds > 0.0 ? POINT_TIMED : POINT_OUT;
    if (*state == POINT_TIMED) {
        search->microseconds[index] = answer->microseconds;
        if (search->best < 0 || answer->microseconds < search->microseconds[search->best]) {
            search->best = index;
        }
    }
    if (search->model != NULL) {
        search_model_learn(search, index, answer);
    }
}

int search_looks(const struct search *search)
{
    return search->limit;
}
