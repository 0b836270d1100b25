/* progress.h - one line on stderr that is redrawn in place, only when stderr is a terminal. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

struct progress {
    bool on;
    double drawn; /* CLOCK_MONOTONIC seconds of the last drawing: at most ten a second */
};

void progress_begin(struct progress *progress);
/* left_seconds < 0: unknown, estimated from nothing and not shown */
void progress_update(struct progress *progress, int done, int total, double left_seconds, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The same of parts: "3/40 llama [####......] 12/48 1:20 left, best 12.3 µs, ...". `lead` (may be "") comes first; of
 * the parts as many as fit, in their order, and none is cut. */
void progress_show(struct progress *progress, const char *lead, int done, int total, double left_seconds,
                   const char *const *parts, int count);
/* its line in at most `columns` columns; returns the columns taken */
int progress_line(char *line, size_t bytes, int columns, const char *lead, int done, int total, double left_seconds,
                  const char *const *parts, int count);
void progress_wipe(struct progress *progress); /* before anything else is said on stderr; the next update draws anew */
void progress_end(struct progress *progress);  /* wipes the line */

#endif
