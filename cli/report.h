/* report.h - what `attune cache report` shows of a store, as JSON: printed by --json, and what the page is made of.
 *
 *   {"devices": [{"name", "target", "drivers": [..], "power_limits": ["700 W"..]}], "compilers": [..],
 *    "runs", "first", "last",              how many tuning runs, and when the first and the last began (0: unknown)
 *    "unreadable": [{"path", "reason"}], "unreadable_records",
 *    "results": [...]}                     one a problem and device, by device, specialisation and sizes
 * A result ("tried": candidates that came to an outcome; "looks": those of them that were checked or timed):
 *   {"problem", "specialisation", "sizes": [{"name", "value"}], "device", "target", "driver", "compiler", "timed",
 *    "run", "state", "started", "seed", "listed", "tried", "looks", "strategy", "complete", "drift", "drifted",
 * "journals", "runs": [{"run", "state", ...}], "winner", "winner_id", "default", "default_id", "winner_microseconds",
 * "default_microseconds", "winner_spread", "speed_up", "operations", "changed": [{"name", "winner", "default"}],
 * "candidates": [{"candidate", "id", "outcome", "microseconds", "spread", "look_microseconds", "registers",
 * "scratch_bytes", "shared_bytes"}], in the order in which they were tried; times 0: none taken "kinds": [{"outcome",
 * "meaning", "count", "stands", "reasons": [{"count", "reason", "candidate", "id"}]}], "parameters": [{"name",
 * "effect", "values":
 * [{"value", "tried", "timed", "best", "median", "ratio"}]}]} Nothing in it is of today: the same store gives the same
 * bytes, wherever it lies. Of several runs of one problem and device that one is shown whose record a call would get:
 * the newest complete one, else the newest.
 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "autotune/history.h"
#include "cli/cli.h"

/* into `data`, an object; `only` not NULL: this problem alone. ATTUNE_NOT_FOUND when there is nothing to report */
attune_status report_collect(struct cli *cli, struct store *store, const struct problem *only, json_t *data,
                             struct error *error);

/* a run's candidates, kinds and parameters, into a result's object (report_outcomes.c) */
void report_outcomes(const struct journal_reading *reading, const struct standings *standings, json_t *result);
/* new reference: the parameters in which two candidates' names differ, as [{"name", "winner", "default"}] */
json_t *report_changed(const char *winner, const char *standard);
/* {"outcome", "meaning", "count", "reasons": [...]} of one kind, at most `reasons` of them; new reference */
json_t *report_kind(const struct history_kind *kind, int reasons);
/* the same of what constraints refused before there was a candidate; reasons have "because" too, said of the example */
json_t *report_constraints(const struct journal_reading *reading, int reasons);
/* one candidate's row; new reference */
json_t *report_candidate(const struct tune_outcome *what);

#endif
