/* tune_private.h - what the files of the tuner share: tune.c opens and publishes, tune_journal.c begins the journal,
 * tune_loop.c goes through the candidates that the search asks for, tune_look.c looks at one, tune_finals.c lets the
 * best meet. */
#ifndef AUTOTUNE_TUNE_PRIVATE_H
#define AUTOTUNE_TUNE_PRIVATE_H

#include "autotune/journal.h"
#include "autotune/measurer.h"
#include "autotune/objects.h"
#include "autotune/plan_order.h"
#include "autotune/rank_merge.h"
#include "autotune/tune.h"

enum { TUNING_FINALISTS = 12 };

/* a right candidate that may win */
struct contender {
    struct object_job facts; /* no bytes */
    int slot;                /* of the measurer, where it stays loaded */
    int place;               /* in the order of candidates: 0 is the default */
    double quick;
};

struct tuning {
    const struct tune_options *options;
    struct store *store;
    const struct problem *problem;
    tune_report report;
    void *data;
    struct tune_result *result;

    struct measurer *measurer;
    struct measurer_facts facts;
    struct object_road road;
    struct plan plan;
    struct candidate_list list;
    int looks_planned;
    struct rank_order order; /* of a divided problem: all candidates, of which the list has our share */

    struct contender finalists[TUNING_FINALISTS + 1];
    int finalist_count;
    double pace; /* the device's now: a first look's time by what it would have been at the yardstick's look */
    double yardstick_begin; /* the yardstick's first sample; 0: there was none */
    int sampled;            /* finalist of the last request in the rounds */
    double begin, deadline; /* deadline 0: none */
    bool searched;          /* the strategy came to its end */
    bool stopped;           /* something else ended the run */
    bool device_dead;
    struct journal journal;
    char run[33];
};

/* A new journal, begun: what run it is, and what the constraints refused of the space. */
attune_status tuning_open_journal(struct tuning *t, struct generator *generator, struct error *error);

void tuning_tell(struct tuning *t, enum tune_stage stage);
void tuning_set_outcome(struct tune_outcome *outcome, const char *what, const char *reason);

bool tuning_is_interrupted(const struct tuning *t);
/* the candidates that the search asks for, until it, the budget or the device ends */
attune_status tuning_search(struct tuning *t, struct generator *generator, struct compiler_pool *pool,
                            struct error *error);
/* Screens, checks and times one candidate, and writes its outcome down. `search` (its place is the search's index) may
 * say that it is not worth a look. */
attune_status tuning_look_at(struct tuning *t, struct search *search, struct object_job *job, int place,
                             struct error *error);
bool tuning_out_of_budget(const struct tuning *t);
/* The outcome of a candidate whose request failed, by what became of the device. One that hung or crashed is noted in
 * the store: the next process does not try its object again, nor serve it. */
void tuning_fail(struct tuning *t, const struct object_job *job, struct tune_outcome *outcome, const char *reason);

/* a right candidate whose kernel failed when it was sampled */
void tuning_drop_finalist(struct tuning *t, int index, const char *reason);
/* *winner is an index into finalists, which may be none afterwards */
attune_status tuning_hold_finals(struct tuning *t, int *winner, struct error *error);

/* ---- ranks of one job (tune_share.c); none of these is called without options->share ---- */

/* t->run and the claim on its journal, unless the caller has claimed it */
attune_status tuning_share_begin(struct tuning *t, struct error *error);
/* of a divided problem: leaves our share in the list, the default always, and keeps the order of all */
attune_status tuning_share_divide(struct tuning *t, struct error *error);
/* of a whole problem: the record in result, as the job's, for the others to find */
attune_status tuning_share_publish(struct tuning *t, struct error *error);
/* Of a divided problem, after our own journal's end: waits for the others, chooses among all and publishes, or takes
 * what another published; either replaces the record in result. `own` is how our share ended, `error` its message: both
 * stay when nobody has a winner. */
attune_status tuning_share_settle(struct tuning *t, struct generator *generator, attune_status own,
                                  struct error *error);

#endif
