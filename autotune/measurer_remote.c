/* measurer_remote.c - a measurer whose device is another process's.
 *
 * What a new worker needs to be where the last one was is kept here: the frames of open and begin, and the objects in
 * the slots, which are loaded again when they are next asked for.
 */
#include "autotune/measurer_protocol.h"
#include "autotune/measurer_worker.h"
#include "base/environment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEATHS_BEFORE_PROBE = 3, DEATHS_MAX = 10 };
static const double first_seconds = 120.0, least_seconds = 10.0, slowness = 20.0, own_seconds = 600.0;

struct kept {
    bool used, loaded;
    bool ended;   /* a worker ended or was stopped while it was sampled */
    bool checked; /* in this run */
    struct buffer bytes;
    struct launch launch;
};

struct remote {
    struct measurer base;
    double candidate_seconds, deadline;
    const volatile int *stop;
    char program[4096];
    struct measurer_worker worker;
    struct buffer open_frame, begin_frame; /* empty until sent */
    struct buffer frame, payload;
    struct message reply;
    struct measurer_facts facts;
    bool opened; /* facts are known */
    struct kept slots[MEASURER_SLOTS];
    struct kept good; /* the first candidate that was right, in this run or an earlier one */
    double baseline;  /* seconds of the first checked candidate's slowest step */
    int deaths;       /* in a row */
    bool lost;
    char why_lost[ERROR_MESSAGE_BYTES];
};

static struct remote *remote_of(struct measurer *measurer)
{
    return (struct remote *)measurer;
}

bool measurer_is_local(void)
{
    const char *named = environment_get("ATTUNE_MEASURE");
    return named != NULL && strcmp(named, "none") == 0;
}

static void keep(struct kept *kept, const struct kernel_object *object)
{
    buffer_clear(&kept->bytes);
    buffer_append(&kept->bytes, object->bytes, object->length);
    kept->launch = *object->launch;
    kept->used = kept->loaded = buffer_ok(&kept->bytes, NULL) == ATTUNE_OK;
    kept->ended = false;
}

static void forget(struct kept *kept)
{
    buffer_free(&kept->bytes);
    kept->used = kept->loaded = false;
}

/* four times what the worker says it takes, twice for inputs and answers, and what a driver takes; never all of the
 * machine */
static uint64_t rss_limit(const struct remote *remote)
{
    uint64_t limit = ((uint64_t)4 << 30) + 8 * remote->facts.bytes;
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t here = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes / 4 * 3 : limit;
    return limit < here ? limit : here;
}

static double candidate_limit(const struct remote *remote)
{
    if (remote->candidate_seconds > 0.0) {
        return remote->candidate_seconds;
    }
    return remote->baseline > 0.0 ? fmax(least_seconds, slowness * remote->baseline) : first_seconds;
}

static attune_status lose(struct remote *remote, const char *what, const char *why, struct error *error)
{
    remote->lost = true;
    remote->base.fate = MEASURER_LOST;
    if (why != remote->why_lost) {
        snprintf(remote->why_lost, sizeof remote->why_lost, "%.200s%.800s", what, why);
    }
    return error_set(error, ATTUNE_DEVICE_FAILED, "%s", remote->why_lost);
}

/* One frame to a running worker. The reply's own status is the result when it answers. */
static attune_status ask(struct remote *remote, struct buffer *frame, bool bounded, struct error *error)
{
    const struct measurer_limits limits = {.candidate_seconds = candidate_limit(remote),
                                           .own_seconds = own_seconds,
                                           .deadline = bounded && remote->good.used ? remote->deadline : 0.0,
                                           .stop = remote->stop,
                                           .rss_bytes = rss_limit(remote)};
    attune_status status = measurer_worker_ask(&remote->worker, frame, &limits, &remote->payload, &remote->reply,
                                               &remote->base.fate, error);
    if (status == ATTUNE_OK && (status = measure_status(&remote->reply, error)) != ATTUNE_OK) {
        /* the next candidate gets a new process, and with it a new context and all of the memory */
        if (message_integer(&remote->reply, MEASURE_KEY_LOST) != 0 ||
            (status == ATTUNE_NO_MEMORY && remote->good.used)) {
            remote->base.fate = MEASURER_CRASHED;
            measurer_worker_stop(&remote->worker);
        }
    }
    return status;
}

static attune_status make_check(struct buffer *frame, const struct kernel_object *object, enum host_schedule schedule,
                                bool companions, double patience, struct error *error)
{
    message_begin(frame, MEASURE_CHECK);
    message_add_integer(frame, MEASURE_KEY_SCHEDULE, schedule);
    message_add_integer(frame, MEASURE_KEY_COMPANIONS, companions);
    measure_add_number(frame, MEASURE_KEY_NUMBER, patience);
    attune_status status = measure_add_object(frame, MEASURE_KEY_OBJECT, object, error);
    return status == ATTUNE_OK ? message_end(frame, error) : status;
}

static struct kernel_object object_of(const struct kept *kept)
{
    return (struct kernel_object){kept->bytes.data, kept->bytes.length, &kept->launch};
}

/* Several workers ended one after another: is it the candidates, or the device? */
static attune_status probe(struct remote *remote, struct error *error)
{
    struct buffer frame = BUFFER_INIT;
    struct error why = {0};
    if (!remote->good.used) {
        return remote->deaths < DEATHS_MAX ? ATTUNE_OK
                                           : lose(remote, "ten measuring processes ended one after another", "", error);
    }
    const struct kernel_object object = object_of(&remote->good);
    attune_status status = make_check(&frame, &object, HOST_ROUND_ROBIN, false, 0.0, &why);
    if (status == ATTUNE_OK) {
        status = ask(remote, &frame, false, &why);
    }
    buffer_free(&frame);
    if (remote->base.fate == MEASURER_INTERRUPTED) {
        return error_set(error, status, "%s", why.message);
    }
    if (status != ATTUNE_OK || message_integer(&remote->reply, MEASURE_KEY_RIGHT) == 0) {
        return lose(remote, "a candidate that was right before is not any more: ", why.message, error);
    }
    remote->deaths = 0;
    return ATTUNE_OK;
}

/* started, and told all that the last one knew */
static attune_status bring_up(struct remote *remote, struct error *error)
{
    attune_status status = measurer_worker_start(&remote->worker, remote->program, remote->stop, error);
    if (status == ATTUNE_OK && remote->opened) {
        status = ask(remote, &remote->open_frame, false, error);
    }
    if (status == ATTUNE_OK && remote->begin_frame.length > 0) {
        status = ask(remote, &remote->begin_frame, false, error);
    }
    return status;
}

/* A worker that is as the last one was. One that ends while it comes up may have been ended by others: it takes two. */
static attune_status revive(struct remote *remote, struct error *error)
{
    struct error why = {0};
    if (remote->lost) {
        return lose(remote, "", remote->why_lost, error);
    }
    if (measurer_worker_ready(&remote->worker)) {
        return ATTUNE_OK;
    }
    const bool again = remote->opened;
    for (int i = 0; i < MEASURER_SLOTS; i++) {
        remote->slots[i].loaded = false;
    }
    attune_status status = bring_up(remote, &why);
    if (status != ATTUNE_OK && remote->worker.broke && remote->base.fate != MEASURER_INTERRUPTED) {
        measurer_worker_stop(&remote->worker);
        status = bring_up(remote, &why);
    }
    if (status != ATTUNE_OK && remote->base.fate != MEASURER_INTERRUPTED && again) {
        measurer_worker_stop(&remote->worker);
        return lose(remote, "a new measuring process does not come up: ", why.message, error);
    }
    if (status != ATTUNE_OK) {
        return error_set(error, status, "%s", why.message);
    }
    return remote->deaths >= DEATHS_BEFORE_PROBE ? probe(remote, error) : ATTUNE_OK;
}

static attune_status request(struct remote *remote, bool bounded, struct error *error)
{
    attune_status status = message_end(&remote->frame, error);
    if (status == ATTUNE_OK) {
        status = revive(remote, error);
    }
    if (status == ATTUNE_OK) {
        status = ask(remote, &remote->frame, bounded, error);
        remote->deaths += remote->base.fate == MEASURER_HUNG || remote->base.fate == MEASURER_CRASHED;
    }
    return status;
}

/* A request that holds all it is about. A worker can be ended or stopped by others - memory ran out elsewhere, an
 * operator, a limit on its processor time - so a candidate is only held responsible for an end or a hang that comes
 * twice, or after which no worker comes up. */
static attune_status request_candidate(struct remote *remote, bool bounded, struct error *error)
{
    struct error first = {0}, again = {0};
    attune_status status = request(remote, bounded, &first);
    const enum measurer_fate fate = remote->base.fate;
    if (status == ATTUNE_OK || !(fate == MEASURER_HUNG || (fate == MEASURER_CRASHED && remote->worker.broke))) {
        return status == ATTUNE_OK ? status : error_set(error, status, "%s", first.message);
    }
    attune_status came_up = revive(remote, &again);
    if (came_up != ATTUNE_OK && remote->base.fate != MEASURER_INTERRUPTED) {
        remote->base.fate = fate; /* the next request meets the loss */
        return error_set(error, status, "%s", first.message);
    }
    status = came_up == ATTUNE_OK ? ask(remote, &remote->frame, bounded, &again) : came_up; /* one death for both */
    return status == ATTUNE_OK ? status : error_set(error, status, "%s", again.message);
}

/* the requests that make a worker ready: once more in a new one when the first was ended, which revive makes */
static attune_status ask_to_prepare(struct remote *remote, struct buffer *frame, struct error *error)
{
    struct error why = {0};
    attune_status status = ask(remote, frame, false, &why);
    if (status != ATTUNE_OK && remote->base.fate == MEASURER_CRASHED && remote->worker.broke) {
        status = revive(remote, &why);
        if (status == ATTUNE_OK && !remote->opened) {
            status = ask(remote, frame, false, &why);
        }
        if (status != ATTUNE_OK) {
            error_prefix(&why, "%s ended before any candidate ran", remote->program);
        }
    }
    return status == ATTUNE_OK ? status : error_set(error, status, "%s", why.message);
}

static attune_status remote_open(struct measurer *measurer, struct measurer_facts *facts, struct error *error)
{
    struct remote *remote = remote_of(measurer);
    attune_status status = revive(remote, error);
    if (status == ATTUNE_OK) {
        status = ask_to_prepare(remote, &remote->open_frame, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    status = measure_facts(&remote->reply, facts, error);
    if (status != ATTUNE_OK) {
        return error_prefix(error, "%s", remote->program);
    }
    remote->facts = *facts;
    remote->opened = true;
    return ATTUNE_OK;
}

static attune_status remote_begin(struct measurer *measurer, const struct judge_objects *judge, struct error *error)
{
    struct remote *remote = remote_of(measurer);
    struct buffer *frame = &remote->begin_frame;
    attune_status status = ATTUNE_OK;
    message_begin(frame, MEASURE_BEGIN);
    if (judge != NULL) {
        status = measure_add_object(frame, MEASURE_KEY_REFERENCE, &judge->reference, error);
        if (status == ATTUNE_OK) {
            status = measure_add_object(frame, MEASURE_KEY_COMPARE, &judge->compare, error);
        }
    }
    if (status == ATTUNE_OK) {
        status = message_end(frame, error);
    }
    return status == ATTUNE_OK ? ask_to_prepare(remote, frame, error) : status;
}

static attune_status remote_check(struct measurer *measurer, const struct kernel_object *object,
                                  enum host_schedule schedule, bool companions, double patience,
                                  struct verdict *verdict, struct error *error)
{
    struct remote *remote = remote_of(measurer);
    const struct message *reply = &remote->reply;
    *verdict = (struct verdict){.right = false};
    attune_status status = make_check(&remote->frame, object, schedule, companions, patience, error);
    if (status == ATTUNE_OK) {
        status = request_candidate(remote, true, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    verdict->right = message_integer(reply, MEASURE_KEY_RIGHT) != 0;
    verdict->too_slow = message_integer(reply, MEASURE_KEY_TOO_SLOW) != 0;
    verdict->kind = (int)message_integer(reply, MEASURE_KEY_INPUTS);
    verdict->worst_ratio = measure_number(reply, MEASURE_KEY_RATIO);
    verdict->calls = (int)message_integer(reply, MEASURE_KEY_CALLS);
    verdict->companions = (int)message_integer(reply, MEASURE_KEY_COMPANION_CALLS);
    snprintf(verdict->reason, sizeof verdict->reason, "%s", message_text(reply, MEASURE_KEY_TEXT));
    remote->deaths = 0;
    if (verdict->right && !remote->good.checked) {
        remote->baseline = remote->worker.longest;
        keep(&remote->good, object);
        remote->good.checked = true;
    }
    return ATTUNE_OK;
}

static void remote_vouch(struct measurer *measurer, const struct kernel_object *object)
{
    struct remote *remote = remote_of(measurer);
    if (!remote->good.used) {
        remote->baseline = remote->worker.longest;
        keep(&remote->good, object);
    }
}

static attune_status load_slot(struct remote *remote, int slot, const struct kernel_object *object, double give_up,
                               bool bounded, double *microseconds, struct error *error)
{
    message_begin(&remote->frame, MEASURE_LOOK);
    message_add_integer(&remote->frame, MEASURE_KEY_SLOT, slot);
    measure_add_number(&remote->frame, MEASURE_KEY_NUMBER, give_up);
    attune_status status = measure_add_object(&remote->frame, MEASURE_KEY_OBJECT, object, error);
    if (status == ATTUNE_OK) {
        status = request_candidate(remote, bounded, error);
    }
    if (status == ATTUNE_OK) {
        *microseconds = measure_number(&remote->reply, MEASURE_KEY_NUMBER);
    }
    return status;
}

static attune_status remote_look(struct measurer *measurer, int slot, const struct kernel_object *object,
                                 double give_up, double *microseconds, struct error *error)
{
    struct remote *remote = remote_of(measurer);
    forget(&remote->slots[slot]);
    attune_status status = load_slot(remote, slot, object, give_up, true, microseconds, error);
    if (status == ATTUNE_OK) {
        keep(&remote->slots[slot], object);
    }
    return status;
}

/* a request about a slot, whose kernel is loaded first where the worker is a new one */
static attune_status try_slot(struct remote *remote, enum measure_kind kind, int slot, double number,
                              struct error *error)
{
    struct kept *kept = &remote->slots[slot];
    double ignored;
    if (!kept->used) {
        return error_set(error, ATTUNE_INVALID, "slot %d is empty", slot);
    }
    attune_status status = revive(remote, error);
    if (status == ATTUNE_OK && !kept->loaded) {
        const struct kernel_object object = object_of(kept);
        status = load_slot(remote, slot, &object, 0.0, false, &ignored, error);
        kept->loaded = status == ATTUNE_OK;
    }
    if (status == ATTUNE_OK) {
        message_begin(&remote->frame, kind);
        message_add_integer(&remote->frame, MEASURE_KEY_SLOT, slot);
        measure_add_number(&remote->frame, MEASURE_KEY_NUMBER, number);
        status = request(remote, false, error);
    }
    return status;
}

/* As with request_candidate the first end or hang in a slot's hands may be others' doing; the second is its own,
 * however far apart the two are. */
static attune_status slot_request(struct remote *remote, enum measure_kind kind, int slot, double number,
                                  struct error *error)
{
    struct kept *kept = &remote->slots[slot];
    attune_status status = try_slot(remote, kind, slot, number, error);
    const enum measurer_fate fate = remote->base.fate;
    if (status == ATTUNE_OK || !kept->used ||
        !(fate == MEASURER_HUNG || (fate == MEASURER_CRASHED && remote->worker.broke))) {
        return status;
    }
    if (kept->ended) {
        return status;
    }
    kept->ended = true;
    remote->deaths--; /* one death for both */
    return try_slot(remote, kind, slot, number, error);
}

static attune_status remote_drop(struct measurer *measurer, int slot, struct error *error)
{
    struct remote *remote = remote_of(measurer);
    bool loaded = remote->slots[slot].loaded && measurer_worker_ready(&remote->worker);
    attune_status status = loaded ? slot_request(remote, MEASURE_DROP, slot, 0.0, error) : ATTUNE_OK;
    forget(&remote->slots[slot]);
    return status;
}

static attune_status remote_warm(struct measurer *measurer, int slot, double milliseconds, struct error *error)
{
    return slot_request(remote_of(measurer), MEASURE_WARM, slot, milliseconds, error);
}

static attune_status remote_sample(struct measurer *measurer, int slot, double *microseconds, struct error *error)
{
    struct remote *remote = remote_of(measurer);
    attune_status status = slot_request(remote, MEASURE_SAMPLE, slot, 0.0, error);
    *microseconds = status == ATTUNE_OK ? measure_number(&remote->reply, MEASURE_KEY_NUMBER) : (double)NAN;
    return status;
}

static void remote_close(struct measurer *measurer)
{
    struct remote *remote = remote_of(measurer);
    measurer_worker_stop(&remote->worker);
    for (int i = 0; i < MEASURER_SLOTS; i++) {
        forget(&remote->slots[i]);
    }
    forget(&remote->good);
    buffer_free(&remote->open_frame);
    buffer_free(&remote->begin_frame);
    buffer_free(&remote->frame);
    buffer_free(&remote->payload);
    free(remote);
}

static attune_status make_open(struct remote *remote, const struct measurer_remote_options *options,
                               struct error *error)
{
    char problem[PROBLEM_TEXT_BYTES];
    struct buffer templates = BUFFER_INIT;
    attune_status status = problem_format(options->problem, problem, error);
    generator_template_path(options->generator, &templates);
    message_begin(&remote->open_frame, MEASURE_OPEN);
    message_add_text(&remote->open_frame, MEASURE_KEY_DEVICE, options->device != NULL ? options->device : "best");
    message_add_text(&remote->open_frame, MEASURE_KEY_PROBLEM, problem);
    message_add_text(&remote->open_frame, MEASURE_KEY_TEMPLATES, buffer_string(&templates));
    message_add_integer(&remote->open_frame, MEASURE_KEY_SEED, (int64_t)options->seed);
    message_add_integer(&remote->open_frame, MEASURE_KEY_TIMING, options->timing);
    message_add_integer(&remote->open_frame, MEASURE_KEY_COMPANIONS, options->companions);
    message_add_integer(&remote->open_frame, MEASURE_KEY_FLUSHES, options->flushes);
    buffer_free(&templates);
    return status == ATTUNE_OK ? message_end(&remote->open_frame, error) : status;
}

attune_status measurer_remote(const struct measurer_remote_options *options, struct measurer **measurer,
                              struct error *error)
{
    static const struct measurer_kind kind = {.overlaps = true,
                                              .open = remote_open,
                                              .begin = remote_begin,
                                              .check = remote_check,
                                              .look = remote_look,
                                              .vouch = remote_vouch,
                                              .drop = remote_drop,
                                              .warm = remote_warm,
                                              .sample = remote_sample,
                                              .close = remote_close};
    struct remote *made = calloc(1, sizeof *made);
    *measurer = NULL;
    if (made == NULL) {
        return error_no_memory(error);
    }
    made->base.kind = &kind;
    made->worker.owner = &made->base;
    made->candidate_seconds = options->candidate_seconds;
    made->deadline = options->deadline;
    made->stop = options->stop;
    attune_status status = measurer_worker_find(made->program, sizeof made->program, error);
    if (status == ATTUNE_OK) {
        status = make_open(made, options, error);
    }
    if (status != ATTUNE_OK) {
        remote_close(&made->base);
        return status;
    }
    *measurer = &made->base;
    return ATTUNE_OK;
}
