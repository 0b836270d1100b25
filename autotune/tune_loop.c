/* tune_loop.c - which candidate is next: the search is asked ahead, what it names is compiled meanwhile and looked at
 * in order, and the search is told what came of it.
 *
 * How many are under way depends on the number of compilers alone, so that what the search knows at each question, and
 * with it the order of candidates, does not depend on how long a compile takes.
 */
#include "autotune/tune_private.h"

#include <string.h>

struct loop {
    struct tuning *t;
    struct search *search;
    struct pipeline *pipeline;
    int ahead; /* so many are under way */
};

static attune_status open_loop(struct loop *loop, struct generator *generator, struct compiler_pool *pool,
                               struct error *error)
{
    struct tuning *t = loop->t;
    int workers = compiler_pool_workers(pool);
    const struct search_options options = {.strategy = t->plan.search,
                                           .seed = t->options->seed,
                                           .list = &t->list,
                                           .covered = t->list.count, /* SEARCH_EXHAUSTIVE goes by the list's order */
                                           .problem = t->problem,
                                           .device = &t->facts.device,
                                           .evaluations = t->options->budget_candidates};
    attune_status status = search_create(&options, &loop->search, error);
    if (status == ATTUNE_OK) {
        t->looks_planned = search_looks(loop->search);
        tuning_tell_known(t, loop->search);
        status = pipeline_create(generator, &t->road, t->problem, NULL, 0, workers, &loop->pipeline, error);
    }
    loop->ahead = workers + workers / 4 + 4; /* compiles differ in length, and the order is kept */
    return status;
}

/* asked for: not tried until it has another outcome */
static void ask_ahead(struct loop *loop)
{
    struct tuning *t = loop->t;
    int place;
    while (pipeline_under_way(loop->pipeline) < loop->ahead && (place = search_next(loop->search)) >= 0 &&
           pipeline_add(loop->pipeline, &t->list.items[place], place)) {
        tuning_set_outcome(&t->result->outcomes[place], "not-tried", "");
    }
}

static attune_status look_and_tell(struct loop *loop, struct object_job *job, int place, struct error *error)
{
    struct tuning *t = loop->t;
    struct tune_outcome *outcome = &t->result->outcomes[place];
    const int looks = t->result->counts.looks;
    attune_status status = tuning_look_at(t, loop->search, job, place, error);
    outcome->looked = t->result->counts.looks > looks;
    const struct search_answer answer = {.microseconds = outcome->microseconds,
                                         .looked = outcome->looked,
                                         .resources = job->status == ATTUNE_OK ? &job->resources : NULL};
    search_tell(loop->search, place, &answer);
    return status;
}

static void say_why_not_tried(struct tuning *t)
{
    const char *reason = t->device_dead             ? "the device stopped answering"
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
        ask_ahead(&loop);
        struct object_job *job = pipeline_take(loop.pipeline, &place);
        if (job == NULL) {
            t->searched = true;
            break;
        }
        status = look_and_tell(&loop, job, place, error);
        begun = true;
        tuning_tell(t, t->facts.timed ? TUNE_TIME : TUNE_VERIFY);
    }
    say_why_not_tried(t);
    pipeline_destroy(loop.pipeline);
    search_destroy(loop.search);
    return status;
}
