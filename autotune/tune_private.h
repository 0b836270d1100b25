/* tune_private.h - what the files of the tuner share: tune.c opens and publishes, tune_journal.c begins the journal,
 * tune_resume.c finds the run that goes on and what of it holds, tune_others.c of candidates that are not listed now,
 * tune_known.c puts that to use, tune_loop.c goes
 * through the candidates that the search asks for, tune_look.c looks at one, tune_gaps.c uses the time between looks,
 * tune_finals.c lets the best meet, tune_failures.c says why there is none. */
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

/* what was sampled between looks (tune_gaps.c): ratios to the yardstick, of each slot the latest */
enum { GAP_RATIOS = 15 };
struct gaps {
    int yardstick; /* place of the finalist that the ratios are to */
    int turn;
    struct gap {
        int count; /* ever taken */
        double ratios[GAP_RATIOS];
    } of_slot[MEASURER_SLOTS];
};

/* of a candidate of the list, from an earlier run */
struct known {
    bool holds; /* its outcome is in the result's, and is not made again */
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
    int planned;         /* of the list, the plan's candidates; those behind are the earlier run's, which hold */
    bool narrower;       /* than the plan that the run was begun with: its end is not the run's */
    struct known *known; /* by place; NULL: no run goes on */
    int settled_before, looks_before; /* outcomes and looks that this run did not make itself */
    int looks_planned;
    bool joined;             /* the journal of this rank is ours */
    struct rank_order order; /* of a divided problem: all candidates, of which the list has our share */

    struct contender finalists[TUNING_FINALISTS + 1];
    int finalist_count;
    struct gaps gaps;
    double pace; /* the device's now: a first look's time by what it would have been at the yardstick's look */
    double yardstick_begin; /* the yardstick's first sample; 0: there was none */
    int sampled;            /* finalist of the last request in the rounds */
    double begin, deadline; /* deadline 0: none */
    int uncompiled;         /* candidates that did not compile: --count bounds them too, with the looks */
    int alike;              /* of them, from the first candidate on, those that failed as the first one did */
    bool compilers_fail;    /* all of them do, which ended the run */
    bool searched;          /* the strategy came to its end */
    bool stopped;           /* something else ended the run */
    bool device_dead;
    struct journal journal;
    char run[33];
};

/* The run's journal. A new one, begun: what run it is, and what the constraints refused of the space. Or that of the
 * run that goes on, whose outcomes are recalled; closed again when nothing is left to do. */
attune_status tuning_open_journal(struct tuning *t, struct generator *generator, struct error *error);

/* ---- a run that goes on ---- */

/* The journal like `wanted` (problem, device, target, seed) that nobody writes, opened for appending: the newest, or of
 * incomplete ones since the newest complete one that which knows most. Its outcomes that hold are put into the
 * result's, t->known says which. result->already_done: with the record then. *reading is the caller's
 * (journal_reading_free). ATTUNE_NOT_FOUND: there is none; ATTUNE_IO: other processes are at all there are. */
attune_status tuning_resume(struct tuning *t, struct generator *generator, const struct journal_begin *wanted,
                            struct journal_reading *reading, struct error *error);
/* Puts the candidates of the journal that the list lacks behind it. */
attune_status tuning_add_others(struct tuning *t, struct generator *generator, const struct journal_reading *reading,
                                struct error *error);
/* those of them of which nothing holds are out again; the others stay known */
void tuning_drop_others(struct tuning *t);
/* Would the plan, at its end, have left something that the one which the run was begun with asks for? Before others are
 * dropped. */
bool tuning_is_narrower(const struct tuning *t, const struct journal_begin *begin);
/* counts what is known and loads the best of it for the finals, the default among them; the measurer has begun */
attune_status tuning_take_over(struct tuning *t, struct generator *generator, struct error *error);
void tuning_count_known(struct tuning *t);
void tuning_tell_known(const struct tuning *t, struct search *search);
/* Without times only the first right one is held to the companions. Where it is not any more, the next one is now,
 * which was right before: after the search, while there is no finalist. */
attune_status tuning_promote(struct tuning *t, struct generator *generator, struct error *error);

void tuning_tell(struct tuning *t, enum tune_stage stage);
void tuning_set_outcome(struct tune_outcome *outcome, const char *what, const char *reason);

bool tuning_is_interrupted(const struct tuning *t);
/* the candidates that the search asks for, until it, the budget or the device ends */
attune_status tuning_search(struct tuning *t, struct generator *generator, struct compiler_pool *pool,
                            struct error *error);
/* Screens, checks and times one candidate, and writes its outcome down; the caller syncs the journal. `search` (its
 * place is the search's index) may say that it is not worth a look. */
attune_status tuning_look_at(struct tuning *t, struct search *search, struct object_job *job, int place,
                             struct error *error);
/* Times one finalist again while nothing waits for the device, some ten milliseconds; false when there is none to time,
 * or something failed: the caller waits then. */
bool tuning_use_gap(struct tuning *t);
void tuning_forget_gap(struct tuning *t, int slot); /* another kernel is in it */

/* a slot that no finalist has */
int tuning_free_slot(const struct tuning *t);
/* among the finalists, if it is good enough; else its slot is dropped */
void tuning_keep(struct tuning *t, const struct object_job *job, const struct contender *contender);
/* the device's pace before and after a look; false when they disagree: something changed meanwhile */
bool tuning_note_pace(struct tuning *t, double before, double after);
/* of the default, once it is right: other shapes find it without a check */
void tuning_publish_default(struct tuning *t, const struct object_job *job);
/* as many looks, and candidates that did not compile, as budget_candidates says */
bool tuning_has_count(const struct tuning *t);
bool tuning_out_of_budget(const struct tuning *t);
/* The outcome of a candidate whose request failed, by what became of the device. One that hung or crashed is noted in
 * the store: the next process does not try its object again, nor serve it. */
void tuning_fail(struct tuning *t, const struct object_job *job, struct tune_outcome *outcome, const char *reason);

/* a right candidate whose kernel failed when it was sampled */
void tuning_drop_finalist(struct tuning *t, int index, const char *reason);
/* the same after a failed sample, unless the device or the run ended with it: false, and nobody is to blame */
bool tuning_part_with(struct tuning *t, int index, const char *reason);
/* *winner is an index into finalists, which may be none afterwards */
attune_status tuning_hold_finals(struct tuning *t, int *winner, struct error *error);

/* of one more that did not compile: is it no use to go on, since all fail alike? */
bool tuning_compilers_fail(struct tuning *t, const struct tune_outcome *outcome);
/* why nothing can be published: counts and first reason of each kind, and what would help */
attune_status tuning_tell_failure(const struct tuning *t, struct error *error);

/* ---- ranks of one job (tune_share.c); none of these is called without options->share ---- */

/* t->run and the claim on its journal, unless the caller has claimed it */
attune_status tuning_share_begin(struct tuning *t, struct error *error);
/* The journal of this rank, opened to go on with; *reading is the caller's. ATTUNE_NOT_FOUND: it has none, and the
 * claim on it is ours now. ATTUNE_IO: another process writes it. */
attune_status tuning_share_continue(struct tuning *t, struct journal_reading *reading, struct error *error);
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
