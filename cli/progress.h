/* progress.h - one line on stderr that is redrawn in place, only when stderr is a terminal. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>

struct progress {
    bool on;
    double drawn; /* CLOCK_MONOTONIC seconds of the last drawing: at most ten a second */
};

void progress_begin(struct progress *progress);
/* left_seconds < 0: unknown, estimated from nothing and not shown */
void progress_update(struct progress *progress, int done, int total, double left_seconds, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void progress_wipe(struct progress *progress); /* before anything else is said on stderr; the next update draws anew */
void progress_end(struct progress *progress);  /* wipes the line */

#endif
