/* tune_results.h - what `attune tune` found: a row of JSON for each problem, from which what people read is printed. */
#ifndef CLI_TUNE_RESULTS_H
#define CLI_TUNE_RESULTS_H

#include "autotune/tune.h"

#include <jansson.h>

/* all of a result but its name, device and part in a job */
void tune_results_describe(json_t *row, const struct tune_result *result);

/* a table of all rows, then each with its winner and what became of the others; `store` is where they are kept, "" for
 * memory alone */
void tune_results_print(const json_t *results, const char *store);

#endif
