/* tune_ranks.h - `attune tune` as one rank of a job: which part is ours, and what the others did.
 *
 * A list of at least as many problems as ranks is dealt out: a problem is tuned whole by one rank, and every rank then
 * takes the others' choices from the cache, or does the work of one that died. Otherwise each problem's candidates are
 * divided, and tune_run lets all ranks agree.
 */
#ifndef CLI_TUNE_RANKS_H
#define CLI_TUNE_RANKS_H

#include "autotune/ranks.h"
#include "autotune/tune.h"
#include "cli/cli.h"

#define CLI_OPTIONS_RANKS                                                                                              \
    {"rank", 0,     OPTION_TEXT,                                                                                       \
     false,  "R/N", "be rank R of N that tune together in one cache folder; mpirun and srun say it themselves"},       \
        {"job", 0, OPTION_TEXT, false, "NAME", "of the ranks, another one for each job; needed with --rank"},          \
    {                                                                                                                  \
        "peer-limit", 0, OPTION_DURATION, false, "TIME",                                                               \
            "how long a rank is waited for whose journal nobody writes (default 30s)"                                  \
    }

struct tune_team {
    struct ranks ranks; /* size 1: alone, and all problems are ours */
    struct tune_share share;
    bool *ours;     /* by problem */
    bool *left_out; /* by problem: it need not be tuned, or cannot be, by any rank; the caller's to say */
    int count;      /* of problems */
    char device[32];
};

/* Who we are, and what is ours of the problems. On failure nothing needs closing. */
attune_status tune_team_open(const struct options *given, const struct problem_list *problems, struct tune_team *team,
                             struct error *error);
void tune_team_close(struct tune_team *team);

/* The value of --device for this rank: what was given, or the GPU that its local rank picks. Points into `team` or
 * argv; NULL: best. Several devices for one rank are refused. */
attune_status tune_team_device(struct tune_team *team, const char *given, const char **device, struct error *error);

/* Compiling processes for this rank: its part of the machine's cores, and no more than it may run on. 0 when alone: as
 * compiler_options has it. */
int tune_team_workers(const struct tune_team *team);

/* for tune_options.share: NULL when alone */
const struct tune_share *tune_team_share(const struct tune_team *team);

/* Before a problem of ours begins: false when another rank took it over meanwhile, since we were late. It is not ours
 * any more then, and tune_team_collect takes what is found of it. */
bool tune_team_begins(struct tune_team *team, struct store *store, const struct problem_list *problems, int number);

/* one line on stderr, of who we are; nothing when alone */
void tune_team_say(const struct tune_team *team);

/* "ranks" of the whole answer, and of a row: who answered, what was merged, whether tune_run made the result `here`.
 * Nothing when alone. */
void tune_team_describe(const struct tune_team *team, json_t *answer);
void tune_team_describe_row(const struct tune_team *team, const struct tune_result *result, bool here, json_t *row);
/* of a row, for people */
void tune_team_print_row(const json_t *row);

/* what tune_team_collect needs of the command; all as tune_run takes it */
struct tune_work {
    struct generator *generator;
    struct compiler_pool *pool;
    struct store *store;
    const struct tune_options *settings;
    bool take_over; /* problems that another rank did not begin or end are tuned; else they are counted */
    bool named;     /* the problems' names are the user's, and for the journals */
    void (*describe)(json_t *row, const struct tune_result *result);
};

/* After our own problems: waits for those that others tune, and tunes what nobody will. `rows` (by problem; new
 * references) gets theirs; what cannot be had is added to `failures`, what nobody ended is counted. */
attune_status tune_team_collect(struct tune_team *team, const struct tune_work *work,
                                const struct problem_list *problems, json_t **rows, struct failures *failures,
                                int *not_begun, struct error *error);

#endif
