/* tune_line.h - the progress line of one problem that is tuned on one device. */
#ifndef CLI_TUNE_LINE_H
#define CLI_TUNE_LINE_H

#include "autotune/tune.h"
#include "cli/progress.h"

enum { TUNE_LINE_NAME = 24 }; /* bytes of a problem's name; a longer one is left out */

/* "3/40 llama [####......] 12/48 1:20 left, time, best 12.3 µs, ..."; `job` counts from 0 */
void tune_line_show(struct progress *progress, int job, int job_count, const char *name,
                    const struct tune_progress *now);

#endif
