/* tune_failures.c - why a run has nothing to publish, and what would help. */
#include "autotune/tune_private.h"

#include <string.h>

struct kind {
    const char *outcome;
    attune_status status;
    const char *helps; /* NULL: nothing that a user could be told */
};

/* the first that occurred gives the status */
static const struct kind kinds[] = {
    {"wrong", ATTUNE_WRONG, NULL},
    {"compile-error", ATTUNE_COMPILE_FAILED, NULL},
    {"not-compiled", ATTUNE_IO, "see to memory, disk and limits of the compilers, and run this again"},
    {"launch-failed", ATTUNE_DEVICE_FAILED, NULL},
    {"hung", ATTUNE_DEVICE_FAILED, NULL},
    {"crashed", ATTUNE_DEVICE_FAILED, NULL},
    {"blocked", ATTUNE_DEVICE_FAILED, "`--retry-blocked` tries again what is blocked"},
    {"not-tried", ATTUNE_DEVICE_FAILED, NULL},
    {"screened", ATTUNE_UNSUPPORTED, NULL},
    {"resources", ATTUNE_UNSUPPORTED, NULL},
};

/* the default, and so many others */
enum { ALIKE_MAX = 1 + 16 };

/* The same but for numbers and digests, up to where the source is kept. */
static bool are_alike(const char *a, const char *b)
{
    static const char skipped[] = "0123456789abcdef";
    while (*a != '\0' && *b != '\0' && strncmp(a, "; its source", 12) != 0) {
        const bool numbers = strchr(skipped, *a) != NULL && strchr(skipped, *b) != NULL;
        if (*a != *b && !numbers) {
            return false;
        }
        a += numbers ? strspn(a, skipped) : 1;
        b += numbers ? strspn(b, skipped) : 1;
    }
    return *a == *b;
}

bool tuning_compilers_fail(struct tuning *t, const struct tune_outcome *outcome)
{
    const struct tune_progress *counts = &t->result->counts;
    const bool none = counts->compiled + counts->reused == 0 && t->known == NULL;
    if (none && are_alike(outcome->reason, t->result->outcomes[0].reason)) {
        t->alike++;
    }
    t->compilers_fail = none && t->alike == t->uncompiled && t->alike >= ALIKE_MAX;
    return t->compilers_fail;
}

/* of this kind, and the first of them */
static int count_kind(const struct tuning *t, const struct kind *kind, const struct tune_outcome **first)
{
    int count = 0;
    *first = NULL;
    for (int i = 0; i < t->result->outcome_count; i++) {
        const struct tune_outcome *outcome = &t->result->outcomes[i];
        if (strcmp(outcome->outcome, kind->outcome) == 0) {
            *first = *first == NULL ? outcome : *first;
            count++;
        }
    }
    return count;
}

/* of a run that went on: what failed to compile then was not compiled now */
static bool has_held_error(const struct tuning *t)
{
    for (int i = 0; t->known != NULL && i < t->list.count; i++) {
        if (t->known[i].holds && strcmp(t->result->outcomes[i].outcome, "compile-error") == 0) {
            return true;
        }
    }
    return false;
}

attune_status tuning_tell_failure(const struct tuning *t, struct error *error)
{
    struct buffer text = BUFFER_INIT, help = BUFFER_INIT;
    attune_status status = ATTUNE_TIMEOUT;
    for (int k = (int)(sizeof kinds / sizeof kinds[0]) - 1; k >= 0; k--) {
        const struct tune_outcome *first;
        int count = count_kind(t, &kinds[k], &first);
        if (count == 0) {
            continue;
        }
        buffer_format(&text, "; %d %s (%s: %s)", count, kinds[k].outcome, first->id, first->reason);
        if (kinds[k].helps != NULL) {
            buffer_format(&help, "; %s", kinds[k].helps);
        }
        const bool was_wrong = strcmp(kinds[k].outcome, "blocked") == 0 && strncmp(first->reason, "wrong ", 6) == 0;
        status = was_wrong ? ATTUNE_WRONG : kinds[k].status;
    }
    if (has_held_error(t)) {
        buffer_text(&help, "; `--retry-blocked` compiles again what did not compile before");
    }
    if (t->road.toolchain != ATTUNE_OK) {
        status = t->road.toolchain;
    }
    if (t->compilers_fail) {
        buffer_text(&help,
                    "; the first of them all fail alike, so the others were not tried: `attune doctor` tells of the "
                    "compilers, `attune show` prints a source");
    }
    error_set(error, status, "none of %d candidates is usable%s%s", t->list.count, buffer_string(&text),
              buffer_string(&help));
    buffer_free(&text);
    buffer_free(&help);
    return status;
}
