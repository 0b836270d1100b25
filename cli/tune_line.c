/* tune_line.c - see tune_line.h. */
#include "cli/tune_line.h"

#include <stdio.h>
#include <string.h>

enum { PART_BYTES = 64, PARTS_MAX = 16 };

/* what matters most first: the end of a narrow line is left out */
void tune_line_show(struct progress *progress, int job, int job_count, const char *name,
                    const struct tune_progress *now)
{
    static const char *const stages[] = {[TUNE_COMPILE] = "compile",
                                         [TUNE_VERIFY] = "verify",
                                         [TUNE_TIME] = "time",
                                         [TUNE_WAIT] = "wait for other ranks",
                                         [TUNE_DONE] = "done"};
    const struct {
        const char *name;
        int count;
    } counts[] = {{"wrong", now->wrong},      {"failed", now->failed}, {"right", now->verified},
                  {"out", now->screened_out}, {"timed", now->timed},   {"compiled", now->compiled}};
    char lead[64] = "", texts[PARTS_MAX][PART_BYTES];
    const char *parts[PARTS_MAX];
    int used = 0;
    const bool fits = name[0] != '\0' && strlen(name) <= TUNE_LINE_NAME;
    if (job_count > 1) {
        snprintf(lead, sizeof lead, "%d/%d%s%s", job + 1, job_count, fits ? " " : "", fits ? name : "");
    } else if (fits) {
        snprintf(lead, sizeof lead, "%s", name);
    }
    snprintf(texts[used++], PART_BYTES, "%s", stages[now->stage]);
    if (now->best_microseconds > 0) {
        snprintf(texts[used++], PART_BYTES, "best %.1f µs", now->best_microseconds);
    }
    if (now->default_microseconds > 0) {
        snprintf(texts[used++], PART_BYTES, "default %.1f", now->default_microseconds);
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (counts[i].count > 0) {
            snprintf(texts[used++], PART_BYTES, "%s %d", counts[i].name, counts[i].count);
        }
    }
    for (int i = 0; i < used; i++) {
        parts[i] = texts[i];
    }
    progress_show(progress, lead, now->done, now->total, now->left_seconds, parts, used);
}
