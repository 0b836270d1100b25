/* measurer.c - the requests' way to either kind of measurer. */
#include "autotune/measurer.h"

#include "base/process.h"

#include <assert.h>

static const double settling_seconds = 10.0; /* the first compiles keep everybody waiting */

void measurer_meanwhile(struct measurer *measurer, void (*run)(void *data), void *data)
{
    measurer->aside = run;
    measurer->aside_data = data;
}

void measurer_catch_up(struct measurer *measurer)
{
    void (*run)(void *data) = measurer->aside;
    measurer->aside = NULL;
    if (run != NULL) {
        run(measurer->aside_data);
    }
}

static void begin_request(struct measurer *measurer)
{
    if (!measurer->kind->overlaps) {
        measurer_catch_up(measurer);
    }
    measurer->fate = MEASURER_WELL;
    idle_request(&measurer->idle, clock_seconds());
}

static attune_status end_request(struct measurer *measurer, attune_status status)
{
    idle_reply(&measurer->idle, clock_seconds());
    return status;
}

attune_status measurer_open(struct measurer *measurer, struct measurer_facts *facts, struct error *error)
{
    idle_begin(&measurer->idle, clock_seconds(), settling_seconds);
    begin_request(measurer);
    return end_request(measurer, measurer->kind->open(measurer, facts, error));
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
    begin_request(measurer);
    attune_status status = end_request(measurer, measurer->kind->begin(measurer, judged ? &objects : NULL, error));
    judge_code_free(&code);
    return status;
}

attune_status measurer_check(struct measurer *measurer, const struct kernel_object *object, enum host_schedule schedule,
                             bool companions, double patience, struct verdict *verdict, struct error *error)
{
    begin_request(measurer);
    return end_request(measurer,
                       measurer->kind->check(measurer, object, schedule, companions, patience, verdict, error));
}

attune_status measurer_look(struct measurer *measurer, int slot, const struct kernel_object *object, double give_up,
                            double *microseconds, struct error *error)
{
    assert(slot >= 0 && slot < MEASURER_SLOTS);
    begin_request(measurer);
    return end_request(measurer, measurer->kind->look(measurer, slot, object, give_up, microseconds, error));
}

void measurer_vouch(struct measurer *measurer, const struct kernel_object *object)
{
    if (measurer->kind->vouch != NULL) {
        measurer->kind->vouch(measurer, object);
    }
}

attune_status measurer_drop(struct measurer *measurer, int slot, struct error *error)
{
    assert(slot >= 0 && slot < MEASURER_SLOTS);
    begin_request(measurer);
    return end_request(measurer, measurer->kind->drop(measurer, slot, error));
}

attune_status measurer_warm(struct measurer *measurer, int slot, double milliseconds, struct error *error)
{
    assert(slot >= 0 && slot < MEASURER_SLOTS);
    begin_request(measurer);
    return end_request(measurer, measurer->kind->warm(measurer, slot, milliseconds, error));
}

attune_status measurer_sample(struct measurer *measurer, int slot, double *microseconds, struct error *error)
{
    assert(slot >= 0 && slot < MEASURER_SLOTS);
    begin_request(measurer);
    return end_request(measurer, measurer->kind->sample(measurer, slot, microseconds, error));
}

bool measurer_is_aside(const struct measurer *measurer)
{
    return measurer->kind->overlaps;
}

enum measurer_fate measurer_fate(const struct measurer *measurer)
{
    return measurer->fate;
}

double measurer_idle(const struct measurer *measurer)
{
    return idle_share(&measurer->idle, clock_seconds());
}

void measurer_close(struct measurer *measurer)
{
    if (measurer != NULL) {
        measurer->kind->close(measurer);
    }
}
