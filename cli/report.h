/* report.h - what `attune cache report` shows of a store, as JSON: printed by --json, and what the page is made of.
 *
 *   {"devices": [{"name", "target", "drivers": [..], "power_limits": ["700 W"..]}], "compilers": [..],
 *    "runs", "first", "last",              how many tuning runs, and when the first and the last began (0: unknown)
 *    "unreadable": [{"path", "reason"}], "unreadable_records",
 *    "results": [...]}                     one a problem and device, by device, specialisation and sizes
 * A result; "tried" counts the candidates that came to an outcome, "looks" those of them that were checked or timed:
 *   {"problem", "name", "specialisation", "sizes": [{"name", "value"}], "device", "target", "driver", "compiler",
 * "timed", "run", "state", "started", "seed", "listed", "tried", "looks", "seconds", "resumed", "strategy", "complete",
 *    "drift", "drifted",
 *    "journals", "runs": [{"run", "state", ...}],
 *    "winner", "winner_id", "default", "default_id", "winner_microseconds", "default_microseconds", "winner_spread",
 *    "speed_up", "operations", "bytes", "changed": [{"name", "winner", "default"}],
 *    "candidates": [..],                   in the order in which they were tried, as report_candidate makes them, with
 *                                          "look_microseconds"; times 0: none taken
 *    "kinds": [..],                        as report_kind makes them, with "stands"
 *    "parameters": [..]}                   as report_parameters makes them
 * "bytes": of all tensors, each once; 0 where nobody knows, as "operations".
 * Nothing in it is of today: the same store gives the same bytes, wherever it lies. Of several runs of one problem and
 * device that one is shown whose record a call would get: the newest complete one, else the one that tried most;
 * without records the one that came furthest.
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
/* "family/template k=v k=v": the words one by one, from *at on; false at the end */
bool report_next_word(const char **at, const char **word, size_t *length);
/* a word as parameter and value; the first word is the template */
bool report_split_word(const char *word, size_t length, bool first, char name[FIELD_NAME_BYTES],
                       char value[CANDIDATE_TEXT_BYTES]);
/* [{"name", "effect", "comparisons", "span", "values": [{"value", "tried", "timed", "few", "best", "median",
 * "ratio"}]}] "effect": the slowest by the fastest of candidates that are equal in all else, the median of so many
 * "comparisons"; 0 where these are too few. "span": the slowest value's best time by the best of all; 0 unless two
 * values were timed often enough. "few": timed so seldom that neither goes by this value. New reference
 * (report_parameters.c) */
json_t *report_parameters(const struct journal_reading *reading);
/* new reference: the parameters in which two candidates' names differ, as [{"name", "winner", "default"}] */
json_t *report_changed(const char *winner, const char *standard);
/* {"outcome", "meaning", "count", "reasons": [...]} of one kind, at most `reasons` of them; new reference */
json_t *report_kind(const struct history_kind *kind, int reasons);
/* the same of what constraints refused before there was a candidate; reasons have "because" too, said of the example */
json_t *report_constraints(const struct journal_reading *reading, int reasons);
/* one candidate's row; new reference */
json_t *report_candidate(const struct tune_outcome *what);

#endif
