/* tune_check.c - see tune_check.h. */
#include "cli/tune_check.h"

#include "autotune/plan_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------ the list */

struct listed {
    char text[PROBLEM_TEXT_BYTES];
    int index;
};

static int by_text(const void *a, const void *b)
{
    const struct listed *left = *(const struct listed *const *)a, *right = *(const struct listed *const *)b;
    const int order = strcmp(left->text, right->text);
    return order != 0 ? order : left->index - right->index;
}

attune_status tune_check_repeated(struct problem_list *problems, int *repeated, struct error *error)
{
    const size_t count = (size_t)problems->count;
    struct listed *listed = calloc(count + 1, sizeof *listed);
    struct listed **sorted = calloc(count + 1, sizeof(struct listed *));
    bool *again = calloc(count + 1, sizeof *again);
    attune_status status = listed != NULL && sorted != NULL && again != NULL ? ATTUNE_OK : error_no_memory(error);
    for (int i = 0; i < problems->count && status == ATTUNE_OK; i++) {
        listed[i].index = i;
        sorted[i] = &listed[i];
        status = problem_format(&problems->items[i].problem, listed[i].text, error);
    }
    if (status == ATTUNE_OK) {
        qsort(sorted, count, sizeof(struct listed *), by_text);
        for (size_t i = 1; i < count; i++) {
            again[sorted[i]->index] = strcmp(sorted[i - 1]->text, sorted[i]->text) == 0;
        }
        int kept = 0;
        for (int i = 0; i < problems->count; i++) {
            if (!again[i]) {
                problems->items[kept++] = problems->items[i];
            }
        }
        *repeated = problems->count - kept;
        problems->count = kept;
    }
    free(again);
    free(sorted);
    free(listed);
    return status;
}

/* ------------------------------------------------------------------------------------------------ devices */

attune_status tune_check_strategy(const struct tune_options *settings, const struct device_list *devices,
                                  struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < devices->count && status == ATTUNE_OK; i++) {
        struct plan plan;
        status = plan_named(settings->strategy, devices->items[i].facts.target.vendor != TARGET_HOST,
                            settings->candidates, &plan, error);
    }
    if (status == ATTUNE_OK && settings->candidates != NULL && access(settings->candidates, R_OK) != 0) {
        status = error_errno(error, errno, "--candidates %s", settings->candidates);
    }
    return status;
}
