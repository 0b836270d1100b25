/* measurer.c - the requests' way to either kind of measurer. */
#include "autotune/measurer.h"

#include <assert.h>

attune_status measurer_open(struct measurer *measurer, struct measurer_facts *facts, struct error *error)
{
    measurer->fate = MEASURER_WELL;
    return measurer->kind->open(measurer, facts, error);
}

attune_status measurer_begin(struct measurer *measurer, const struct measurer_facts *facts, struct generator *generator,
                             const struct object_road *road, const struct problem *problem, struct error *error)
{
    struct judge_code code = {0};
    struct judge_objects objects;
    struct error why = {0};
    bool judged = facts->wants_judge && judge_compile(generator, road, problem, &code, &why) == ATTUNE_OK;
    if (facts->wants_judge && !judged) {
        warn_once("judge", "rows are sampled instead of all checked: %s", why.message);
    }
    judge_code_objects(&code, &objects);
    measurer->fate = MEASURER_WELL;
    attune_status status = measurer->kind->begin(measurer, judged ? &objects : NULL, error);
    judge_code_free(&code);
    return status;
}

attune_status measurer_check(struct measurer *measurer, const struct kernel_object *object, enum host_schedule schedule,
                             bool companions, double patience, struct verdict *verdict, struct error *error)
{
    measurer->fate = MEASURER_WELL;
    return measurer->kind->check(measurer, object, schedule, companions, patience, verdict, error);
}

attune_status measurer_look(struct measurer *measurer, int slot, const struct kernel_object *object, double give_up,
                            double *microseconds, struct error *error)
{
    assert(slot >= 0 && slot < MEASURER_SLOTS);
    measurer->fate = MEASURER_WELL;
    return measurer->kind->look(measurer, slot, object, give_up, microseconds, error);
}

attune_status measurer_drop(struct measurer *measurer, int slot, struct error *error)
{
    assert(slot >= 0 && slot < MEASURER_SLOTS);
    measurer->fate = MEASURER_WELL;
    return measurer->kind->drop(measurer, slot, error);
}

attune_status measurer_warm(struct measurer *measurer, int slot, double milliseconds, struct error *error)
{
    assert(slot >= 0 && slot < MEASURER_SLOTS);
    measurer->fate = MEASURER_WELL;
    return measurer->kind->warm(measurer, slot, milliseconds, error);
}

attune_status measurer_sample(struct measurer *measurer, int slot, double *microseconds, struct error *error)
{
    assert(slot >= 0 && slot < MEASURER_SLOTS);
    measurer->fate = MEASURER_WELL;
    return measurer->kind->sample(measurer, slot, microseconds, error);
}

enum measurer_fate measurer_fate(const struct measurer *measurer)
{
    return measurer->fate;
}

void measurer_close(struct measurer *measurer)
{
    if (measurer != NULL) {
        measurer->kind->close(measurer);
    }
}
