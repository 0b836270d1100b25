/* search_model.h - a model of a space that learns while it is searched: what is fast, what is unknown, what fails.
 *
 * Works on the books that search.c keeps (search_private.h). Nothing but search_model_create allocates.
 */
#ifndef AUTOTUNE_SEARCH_MODEL_H
#define AUTOTUNE_SEARCH_MODEL_H

#include "autotune/search_private.h"

attune_status search_model_create(const struct search *search, struct search_model **model, struct error *error);
void search_model_destroy(struct search_model *model);

/* The most promising unseen candidate, or a telling one; -1 when none is unseen. It is expected to go under way. */
int search_model_pick(struct search *search);
bool search_model_wants(struct search *search, int index, const struct resources *resources,
                        const struct launch *launch, char reason[SEARCH_REASON_BYTES]);
/* after the books were changed */
void search_model_learn(struct search *search, int index, const struct search_answer *answer);

#endif
