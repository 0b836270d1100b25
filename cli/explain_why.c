/* explain_why.c - why of all stored records this one serves, in one sentence: the rules are runtime/choose.c's. */
#include "cli/explain_run.h"

#include <string.h>

/* records that differ from the served one in nothing but their runs */
struct equals {
    int count, complete, before; /* itself included; of them complete ones; of all those that come before it */
};

static struct equals equals_of(const struct choices *choices, int served)
{
    const struct choice *its = choices->items[served];
    struct equals equals = {.before = served};
    for (int i = 0; i < choices->count; i++) {
        const struct choice *other = choices->items[i];
        if (other->rung == its->rung && other->distance == its->distance &&
            strcmp(other->record.shape, its->record.shape) == 0) {
            equals.count++;
            equals.complete += other->record.complete;
        }
    }
    return equals;
}

/* which of several runs of the same shape, and whether it came to its end */
static void say_run(const struct choices *choices, int served, struct buffer *text)
{
    const struct equals equals = equals_of(choices, served);
    const bool complete = choices->items[served]->record.complete;
    if (equals.count == 1) {
        buffer_text(text, complete ? "" : ", by a run that was stopped before its search came to its end");
    } else if (equals.before > 0 &&
               strcmp(choices->items[0]->record.shape, choices->items[served]->record.shape) == 0) {
        buffer_format(text, "; of %d runs the first one below whose object can be had", equals.count);
    } else if (!complete) {
        buffer_format(text,
                      "; of %d runs, none of which came to its end, the one that tried most, of equals the newest",
                      equals.count);
    } else if (equals.complete == 1) {
        buffer_format(text, "; of %d runs the only one that came to its end", equals.count);
    } else {
        buffer_format(text, "; of %d runs, %d of which came to their end, the newest of these", equals.count,
                      equals.complete);
    }
}

void explain_why(const struct choices *choices, int served, attune_rung rung, struct buffer *text)
{
    const struct choice *choice = served >= 0 ? choices->items[served] : NULL;
    switch (rung) {
    case ATTUNE_RUNG_EXACT:
        buffer_text(text, "tuned on this device for this problem");
        break;
    case ATTUNE_RUNG_NEAR:
        buffer_text(text,
                    choice != NULL && choice->stale && choice->distance == 0
                        ? "tuned on this device for this shape, but under another driver or power limit"
                        : "not tuned for this problem; the nearest shape of the same specialisation on this device");
        break;
    case ATTUNE_RUNG_DEFAULT:
        buffer_text(text,
                    choices->blocked > 0
                        ? "what was tuned of this specialisation on this device is blocked, if anything was; the "
                          "default candidate is stored"
                        : "nothing of this specialisation was tuned on this device; the default candidate is stored");
        return;
    }
    if (choice != NULL) {
        say_run(choices, served, text);
    }
}
