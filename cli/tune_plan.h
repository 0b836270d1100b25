/* tune_plan.h - what `attune tune` is to tune: problems of the command line, of a file or of a trace, with the share of
 * the time that each is worth. */
#ifndef CLI_TUNE_PLAN_H
#define CLI_TUNE_PLAN_H

#include "autotune/trace.h"
#include "cli/cli.h"
#include "cli/device_list.h"
#include "cli/tune_jobs.h"

struct tune_plan {
    struct problem_list problems; /* of a trace: largest share first */
    char **refusals;              /* by problem: why no device can tune it; NULL where one can */
    int refused;
    int repeated;   /* left out of the list: they were in it already */
    double *shares; /* by problem, of 1 in all: of a trace by calls times trace_call_cost, else equal */
    /* of a trace alone */
    bool of_trace;
    int64_t *calls; /* by problem */
    int64_t lines, unreadable;
    int foreign;           /* texts that are no problem here: another release's, or another's family */
    int left_out;          /* problems behind the first TUNE_PLAN_PROBLEMS_MAX */
    double left_out_share; /* of 1 */
    struct error first_foreign, first_refusal;
};

enum { TUNE_PLAN_PROBLEMS_MAX = 4096 };

/* whichever of --problem, --problems and --trace is given */
attune_status tune_plan_read(struct cli *cli, struct tune_plan *plan, struct error *error);
void tune_plan_free(struct tune_plan *plan);

/* a problem's name, or "problem 3" written into `label` */
const char *tune_plan_label(const struct tune_plan *plan, int number, char label[PROBLEM_NAME_BYTES]);

/* What can be told before anything is tuned: no template serves a problem, there is no
 * reference for it, or it is too large for the host device. A
 * problem that no group of devices can tune is refused; each is said in a line on stderr where there are several. Of a
 * list that has one nothing is tuned: tune_plan_refusal. Of a trace the others are. */
attune_status tune_plan_check(struct cli *cli, struct tune_plan *plan, const struct device_list *devices,
                              struct error *error);
/* ATTUNE_OK where nothing is refused, or of a trace not all */
attune_status tune_plan_refusal(const struct tune_plan *plan, struct error *error);

/* Seconds that each job would get of jobs->seconds, or of the settings' budget where that is 0 (0: no limit), if all
 * took what they got: "plan" of the answer, and for people without --json. */
void tune_plan_show(struct cli *cli, const struct tune_plan *plan, const struct tune_jobs *jobs,
                    const struct device_list *devices);
/* "trace" of the answer: what it held and what of it is not tuned; the same in a line or two on stderr. Nothing without
 * a trace. `tuned_already`: problems that were left out for that. */
void tune_plan_describe(struct cli *cli, const struct tune_plan *plan, int tuned_already);

#endif
