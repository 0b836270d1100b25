/* tune_loop.c - which candidate is next: the search is asked ahead, what it names is compiled meanwhile and looked at
 * in order, and the search is told what came of it.
 *
 * The device is not kept waiting: what a look leaves to do - its line to the disk, the search's choosing, the expansion
 * of what it chose - is done while the device is busy with the next one. What the search was told before it is asked
 * does not depend on how long a compile takes: the order of candidates is the same in every run whose times are.
 */
#include "autotune/screen.h"
#include "autotune/tune_private.h"

#include <limits.h>
#include <string.h>

struct loop {
    struct tuning *t;
    struct search *search;
    struct pipeline *pipeline;
    struct screen_unit unit; /* of the device; the search looks at it */
    int ahead;               /* so many are under way */
};

/* --count, or one more where as many are known without the default: no winner may lose to it */
static int looks_asked_for(const struct tuning *t)
{
    const int wanted = t->options->budget_candidates, known = t->result->counts.looks;
    return wanted > 0 && t->known != NULL && !t->known[0].holds && known >= wanted ? known + 1 : wanted;
}

static attune_status open_loop(struct loop *loop, struct generator *generator, struct compiler_pool *pool,
                               struct error *error)
{
    struct tuning *t = loop->t;
    int workers = compiler_pool_workers(pool);
    if (screen_unit_of(generator, &t->facts.device.target, &loop->unit, NULL) != ATTUNE_OK) {
        memset(&loop->unit, 0, sizeof loop->unit); /* not known: the search learns without */
    }
    const struct search_options options = {.strategy = t->plan.search,
                                           .seed = t->options->seed,
                                           .list = &t->list,
                                           .covered = t->list.count, /* SEARCH_EXHAUSTIVE goes by the list's order */
                                           .problem = t->problem,
                                           .device = &t->facts.device,
                                           .unit = &loop->unit,
                                           .evaluations = looks_asked_for(t)};
    attune_status status = search_create(&options, &loop->search, error);
    if (status == ATTUNE_OK) {
        t->looks_planned = search_looks(loop->search);
        tuning_tell_known(t, loop->search);
        status = pipeline_create(generator, &t->road, t->problem, NULL, 0, workers, &loop->pipeline, error);
    }
    /* Compiles differ in length, and the order is kept: with fewer the device would wait for long ones. But a search
     * that learns chooses the worse the more it has chosen already. */
    bool learns = t->plan.search == SEARCH_MODEL || t->plan.search == SEARCH_LOCAL;
    loop->ahead = learns ? 2 * workers : INT_MAX; /* as many as there is room for */
    return status;
}

/* asked for: not tried until it has another outcome */
static void ask_ahead(struct loop *loop)
{
    struct tuning *t = loop->t;
    int place;
    while (pipeline_under_way(loop->pipeline) < loop->ahead && pipeline_has_room(loop->pipeline) &&
           (place = search_next(loop->search)) >= 0) {
        (void)pipeline_add(loop->pipeline, &t->list.items[place], place); /* there is room */
        tuning_set_outcome(&t->result->outcomes[place], "not-tried", "");
    }
}

static void settle(void *data)
{
    struct loop *loop = data;
    journal_sync(&loop->t->journal);
    ask_ahead(loop);
}

static attune_status look(struct loop *loop, struct object_job *job, int place, struct error *error)
{
    struct tuning *t = loop->t;
    struct tune_outcome *outcome = &t->result->outcomes[place];
    const int looks = t->result->counts.looks;
    measurer_meanwhile(t->measurer, settle, loop);
    attune_status status = tuning_look_at(t, loop->search, job, place, error);
    measurer_catch_up(t->measurer); /* it took no request */
    outcome->looked = t->result->counts.looks > looks;
    const struct search_answer answer = {.microseconds = outcome->microseconds,
                                         .looked = outcome->looked,
                                         .resources = job->status == ATTUNE_OK ? &job->resources : NULL};
    search_tell(loop->search, place, &answer);
    return status;
}

/* The next job. NULL: nothing is under way, and the search has nothing more. */
static struct object_job *take(struct loop *loop, int *place)
{
    if (pipeline_under_way(loop->pipeline) == 0 || !pipeline_is_ready(loop->pipeline)) {
        settle(loop); /* no look is there to do it meanwhile */
    }
    while (!pipeline_is_ready(loop->pipeline) && !tuning_out_of_budget(loop->t) && tuning_use_gap(loop->t)) {
    }
    return pipeline_take(loop->pipeline, place);
}

static void say_why_not_tried(struct tuning *t)
{
    const char *reason = t->device_dead             ? "the device stopped answering"
                         : t->compilers_fail        ? "compiling fails"
                         : tuning_has_count(t)      ? "as many as were to be looked at"
                         : tuning_is_interrupted(t) ? "stopped"
                                                    : "budget";
    for (int i = 0; i < t->result->outcome_count; i++) {
        struct tune_outcome *outcome = &t->result->outcomes[i];
        if (strcmp(outcome->outcome, "not-tried") == 0 && outcome->reason[0] == '\0') {
            tuning_set_outcome(outcome, "not-tried", reason);
        }
    }
}

attune_status tuning_search(struct tuning *t, struct generator *generator, struct compiler_pool *pool,
                            struct error *error)
{
    struct loop loop = {.t = t};
    attune_status status = open_loop(&loop, generator, pool, error);
    bool begun = false; /* one candidate is looked at, whatever the budget */
    while (status == ATTUNE_OK && !t->searched && !t->stopped) {
        int place = 0;
        if (t->device_dead || (begun && tuning_out_of_budget(t))) {
            t->stopped = true;
            break;
        }
        if (begun && tuning_has_count(t)) { /* a search knows of looks alone */
            t->searched = true;
            break;
        }
        struct object_job *job = take(&loop, &place);
        if (job == NULL) {
            t->searched = true;
            break;
        }
        status = look(&loop, job, place, error);
        begun = true;
        tuning_tell(t, t->facts.timed ? TUNE_TIME : TUNE_VERIFY);
    }
    journal_sync(&t->journal);
    say_why_not_tried(t);
    pipeline_destroy(loop.pipeline);
    search_destroy(loop.search);
    return status;
}
