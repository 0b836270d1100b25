/* prepare.c - from a problem to a plan: the store first, then the compiling half, once for all who wait.
 *
 * A *flight* is one request to the jit handler in progress. Its key says what is being made; who comes with the same
 * key waits for it and takes its result, or its failure. Nothing of a flight remains when the last one who waited has
 * left, so a later call tries again.
 */
#include "runtime/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = PROBLEM_TEXT_BYTES + RECORD_CANDIDATE_BYTES + 32, ROUNDS_MAX = 4 };

struct flight {
    struct flight *next;
    char key[KEY_BYTES];
    bool done;
    int waiting;
    attune_status status;
    bool has_record;
    struct record record; /* schema NULL */
    struct error error;
};

struct request {
    attune_device *device;
    const struct problem *problem;
    char specialisation[PROBLEM_TEXT_BYTES];
    attune_rung lowest;
    const char *candidate; /* NULL: the best */
    bool own_compiler;     /* what another compiler made does not serve */
    int broken;            /* records that would serve, were their objects there */
    int blocked;           /* records that are passed over: choices' */
    char why_blocked[768];
};

/* ------------------------------------------------------------------------------------------------ store */

/* ask the handler for exactly the candidate of a record whose object is gone, or does not load */
static attune_status rebuild(const struct request *request, const struct choice *choice, bool own_compiler,
                             struct record *record, struct error *error);

/* ATTUNE_STALE=accept keeps serving what another compiler made, and says so: in the plan's note, and here once */
static void tell_compiler(const struct record *record)
{
    char key[DIGEST_HEX_BYTES + 16];
    snprintf(key, sizeof key, "compiler %s", record->identity);
    warn_once(key,
              "stored kernels of another build of %s than is here are used (the plan's note says which); "
              "ATTUNE_STALE=retune makes them anew",
              record->compiler);
}

/* by another compiler than the one here? Asked only when it matters: the answer may start a program */
static bool made_by_another(const attune_context *context, const struct request *request, const struct record *record)
{
    char identity[DIGEST_HEX_BYTES];
    return context->has_jit && context->mode != ATTUNE_JIT_FORBID && context->jit.identity != NULL &&
           context->jit.identity(context->jit.data, &request->device->facts.target, identity, NULL) == ATTUNE_OK &&
           strcmp(identity, record->identity) != 0;
}

static attune_status plan_choice(const struct request *request, const struct choice *choice, attune_plan **plan,
                                 struct error *error)
{
    attune_context *context = request->device->context;
    attune_status status = plan_create(request->device, request->problem, &choice->record, choice->rung, choice->stale,
                                       choice->note, plan, error);
    if (status == ATTUNE_OK && choice->other_compiler) {
        tell_compiler(&choice->record);
    }
    /* a driver may be too old for what another compiler made, and take what the one here makes */
    bool does_not_load = status == ATTUNE_DEVICE_FAILED && made_by_another(context, request, &choice->record);
    if ((status != ATTUNE_NOT_FOUND && !does_not_load) || !context->has_jit || context->mode == ATTUNE_JIT_FORBID) {
        return status;
    }
    struct error first = error != NULL ? *error : (struct error){.message = ""};
    struct record *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    status = rebuild(request, choice, does_not_load, made, error);
    if (status != ATTUNE_OK && does_not_load) { /* the driver's word, not that nothing else could be made */
        status = error_set(error, ATTUNE_DEVICE_FAILED, "%s", first.message);
    } else if (status == ATTUNE_OK) {
        /* the object may have another name now (another compiler); what was measured stays */
        made->winner_microseconds = choice->record.winner_microseconds;
        made->default_microseconds = choice->record.default_microseconds;
        status = plan_create(request->device, request->problem, made, choice->rung, choice->stale, choice->note, plan,
                             error);
        record_free(made);
    }
    free(made);
    return status;
}

/* The candidate that a miss would compile for the problem, "" where nobody can compile. A default record was made for
 * another problem perhaps: it serves here if it is of this candidate, or when any right kernel is better than none. */
static void default_here(const struct request *request, char candidate[RECORD_CANDIDATE_BYTES])
{
    const attune_device *device = request->device;
    const attune_context *context = device->context;
    if (request->candidate != NULL || !context->has_jit || context->mode == ATTUNE_JIT_FORBID ||
        context->jit.default_candidate == NULL ||
        context->jit.default_candidate(context->jit.data, request->problem, &device->facts.target, candidate, NULL) !=
            ATTUNE_OK) {
        candidate[0] = '\0';
    }
}

/* ATTUNE_NOT_FOUND: nothing stored serves, `error` says what came nearest */
static attune_status plan_from_store(struct request *request, attune_plan **plan, struct error *error)
{
    struct choices choices;
    attune_context *context = request->device->context;
    char standard[RECORD_CANDIDATE_BYTES];
    bool asked = false; /* the generator, once and only when a default record comes up */
    attune_status status =
        choose_records(request->device, request->problem, request->lowest, request->candidate, &choices, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    request->broken = 0;
    request->blocked = choices.blocked;
    memcpy(request->why_blocked, choices.why_blocked, sizeof request->why_blocked);
    status = error_set(error, ATTUNE_NOT_FOUND, "nothing stored serves it%s",
                       choices.best_dropped != 0 ? " (only plans below the lowest rung asked for)" : "");
    for (int i = 0; i < choices.count && status != ATTUNE_OK; i++) {
        /* a stored default is no reason not to tune, when tuning is what a miss is for */
        if (choices.items[i]->rung == ATTUNE_RUNG_DEFAULT && context->mode == ATTUNE_JIT_TUNE && context->has_jit &&
            context->jit.tune != NULL && request->candidate == NULL) {
            break;
        }
        if (choices.items[i]->rung == ATTUNE_RUNG_DEFAULT) {
            if (!asked) {
                default_here(request, standard);
                asked = true;
            }
            if (standard[0] != '\0' && strcmp(standard, choices.items[i]->record.candidate) != 0) {
                continue;
            }
        }
        status = plan_choice(request, choices.items[i], plan, error);
        request->broken += status == ATTUNE_NOT_FOUND;
        if (status == ATTUNE_NO_MEMORY || status == ATTUNE_DEVICE_FAILED) {
            choices_free(&choices);
            return status;
        }
    }
    choices_free(&choices);
    return status == ATTUNE_OK ? ATTUNE_OK : ATTUNE_NOT_FOUND;
}

/* ------------------------------------------------------------------------------------------------ flights */

/* the flight with this key: a new one (true: ours to fly), or the one in progress */
static bool flight_join(attune_device *device, const char *key, struct flight **flight)
{
    pthread_mutex_lock(&device->lock);
    struct flight *f = device->flights;
    while (f != NULL && (f->done || strcmp(f->key, key) != 0)) {
        f = f->next;
    }
    bool ours = f == NULL;
    if (ours && (f = calloc(1, sizeof *f)) != NULL) {
        snprintf(f->key, sizeof f->key, "%s", key);
        f->next = device->flights;
        device->flights = f;
    }
    if (f != NULL) {
        f->waiting++;
    }
    pthread_mutex_unlock(&device->lock);
    *flight = f;
    return ours;
}

static void flight_wait(attune_device *device, struct flight *flight)
{
    pthread_mutex_lock(&device->lock);
    while (!flight->done) {
        pthread_cond_wait(&device->landed, &device->lock);
    }
    pthread_mutex_unlock(&device->lock);
}

static void flight_land(attune_device *device, struct flight *flight, attune_status status)
{
    pthread_mutex_lock(&device->lock);
    flight->status = status;
    flight->done = true;
    pthread_cond_broadcast(&device->landed);
    pthread_mutex_unlock(&device->lock);
}

static void flight_leave(attune_device *device, struct flight *flight)
{
    pthread_mutex_lock(&device->lock);
    bool last = --flight->waiting == 0;
    if (last) {
        struct flight **link = &device->flights;
        while (*link != flight) {
            link = &(*link)->next;
        }
        *link = flight->next;
    }
    pthread_mutex_unlock(&device->lock);
    if (last) {
        free(flight);
    }
}

static void fill_jit_request(const struct request *request, const char *candidate, struct jit_request *jit)
{
    memset(jit, 0, sizeof *jit);
    jit->problem = request->problem;
    jit->driver = request->device->driver;
    jit->ordinal = request->device->ordinal;
    jit->device = &request->device->facts;
    jit->store = request->device->context->store;
    jit->tune_seconds = request->device->context->tune_seconds;
    jit->candidate = candidate;
    jit->own_compiler = request->own_compiler;
}

/* calls the handler; the record of a success owns nothing */
static attune_status call_handler(const struct request *request, bool tune, const char *candidate,
                                  struct record *record, struct error *error)
{
    const struct jit_handler *handler = &request->device->context->jit;
    struct jit_request jit;
    fill_jit_request(request, candidate, &jit);
    memset(record, 0, sizeof *record);
    attune_status status =
        tune ? handler->tune(handler->data, &jit, record, error) : handler->compile(handler->data, &jit, record, error);
    record_free(record);
    if (status == ATTUNE_OK) {
        status = choice_fits(request->device, record, request->problem, error);
    }
    return status;
}

/* Tuning that cannot be done here - the caller has the device's memory, or the device serves one process - is no reason
 * to have no plan. What tuning found wrong or hanging is blocked by then: the handler does not make it. */
static attune_status serve_default(const struct request *request, struct flight *flight, attune_status failed)
{
    struct error why = flight->error, again = {.message = ""};
    attune_status status = call_handler(request, false, NULL, &flight->record, &again);
    if (status != ATTUNE_OK) {
        return failed; /* flight->error tells why there was no tuning */
    }
    warn_once(why.message, "\"%s\" is not tuned, the default candidate serves it: %s", request->specialisation,
              why.message);
    return ATTUNE_OK;
}

/* who leads looks into the store once more: another flight may have landed between its look and its take-off */
static attune_status fly(struct request *request, bool tune, const char *candidate, bool look_again,
                         struct flight *flight, attune_plan **plan)
{
    attune_status status = ATTUNE_NOT_FOUND;
    if (look_again) {
        status = plan_from_store(request, plan, &flight->error);
        if (status == ATTUNE_OK) {
            return status;
        }
    }
    status = call_handler(request, tune, candidate, &flight->record, &flight->error);
    if (status != ATTUNE_OK && tune && request->lowest <= ATTUNE_RUNG_DEFAULT) {
        status = serve_default(request, flight, status);
    }
    flight->has_record = status == ATTUNE_OK;
    return status;
}

static attune_status rebuild(const struct request *request, const struct choice *choice, bool own_compiler,
                             struct record *record, struct error *error)
{
    struct flight *flight = NULL;
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "rebuild%s %s %s", own_compiler ? " own" : "", request->specialisation,
             choice->record.candidate);
    if (flight_join(request->device, key, &flight)) {
        if (flight == NULL) {
            return error_no_memory(error);
        }
        struct request alone = *request;
        alone.own_compiler = own_compiler;
        flight_land(request->device, flight, fly(&alone, false, choice->record.candidate, false, flight, NULL));
    } else {
        flight_wait(request->device, flight);
    }
    attune_status status = flight->status;
    if (status == ATTUNE_OK) {
        *record = flight->record;
    } else {
        error_set(error, status, "%s", flight->error.message);
    }
    flight_leave(request->device, flight);
    return status;
}

/* ------------------------------------------------------------------------------------------------ misses */

/* what a miss is told when nothing may or can be made */
static attune_status refuse(const struct request *request, attune_status status, const char *reason,
                            struct error *error)
{
    struct buffer text = BUFFER_INIT;
    char target[TARGET_TEXT_BYTES];
    target_format(&request->device->facts.target, target);
    buffer_format(&text, "no kernel is stored for \"%s\"", request->specialisation);
    if (request->candidate != NULL) {
        buffer_format(&text, " with candidate \"%s\"", request->candidate);
    }
    if (request->broken > 0) {
        buffer_format(&text, " (%d records are, but their objects are gone or damaged)", request->broken);
    }
    if (request->blocked > 0) {
        buffer_format(&text, " (%d records are passed over: %s; `attune cache prune --blocked` forgets that)",
                      request->blocked, request->why_blocked);
    }
    buffer_format(&text, " on %s (%s), and %s; searched: ", target, request->device->facts.name, reason);
    choose_paths(request->device, request->specialisation, &text);
    error_set(error, status, "%s", buffer_string(&text));
    buffer_free(&text);
    return status;
}

static const char *rung_name(attune_rung rung)
{
    return rung == ATTUNE_RUNG_EXACT ? "exact" : rung == ATTUNE_RUNG_NEAR ? "near" : "default";
}

/* may this miss go to the handler? */
static attune_status check_miss(const struct request *request, bool *tune, struct error *error)
{
    const attune_context *context = request->device->context;
    *tune = context->mode == ATTUNE_JIT_TUNE && context->jit.tune != NULL && request->candidate == NULL;
    if (context->mode == ATTUNE_JIT_FORBID) {
        char target[TARGET_TEXT_BYTES], reason[256];
        target_format(&request->device->facts.target, target);
        snprintf(reason, sizeof reason,
                 "ATTUNE_JIT=forbid: fill the store beforehand with `attune compile --defaults --problem P --target "
                 "%s` or `attune tune --problem P`",
                 target);
        return refuse(request, ATTUNE_FORBIDDEN, reason, error);
    }
    if (!context->has_jit) {
        return refuse(request, ATTUNE_NOT_FOUND,
                      "libattune-jit is not registered: call attune_jit_register, or deploy a store that holds it",
                      error);
    }
    if (request->lowest > ATTUNE_RUNG_DEFAULT && !*tune) {
        char reason[128];
        snprintf(reason, sizeof reason,
                 "the lowest rung asked for is %s: tune it with `attune tune` or ATTUNE_JIT=tune",
                 rung_name(request->lowest));
        return refuse(request, ATTUNE_NOT_FOUND, reason, error);
    }
    return ATTUNE_OK;
}

/* *again: what was made is gone already, or serves others only: look at the store once more */
static attune_status plan_by_jit(struct request *request, attune_plan **plan, bool *again, struct error *error)
{
    char key[KEY_BYTES], text[PROBLEM_TEXT_BYTES];
    struct flight *flight = NULL;
    bool tune = false;
    *again = false;
    /* tuning is for a problem, a compile for all problems of a specialisation */
    attune_status status = check_miss(request, &tune, error);
    if (status == ATTUNE_OK) {
        status = problem_format(request->problem, text, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    snprintf(key, sizeof key, "%s %s %s", tune ? "tune" : "compile", tune ? text : request->specialisation,
             request->candidate != NULL ? request->candidate : "");
    if (flight_join(request->device, key, &flight)) {
        if (flight == NULL) {
            return error_no_memory(error);
        }
        flight_land(request->device, flight, fly(request, tune, request->candidate, true, flight, plan));
    } else {
        flight_wait(request->device, flight);
    }
    status = flight->status;
    if (status != ATTUNE_OK) {
        error_set(error, status, "%s", flight->error.message);
    } else if (*plan == NULL) {
        status = error_set(error, ATTUNE_NOT_FOUND, "what was just made for it is no longer in the store");
        if (flight->has_record && choice_fits(request->device, &flight->record, request->problem, NULL) == ATTUNE_OK) {
            attune_rung rung = flight->record.kind == RECORD_TUNED ? ATTUNE_RUNG_EXACT : ATTUNE_RUNG_DEFAULT;
            char note[CHOICE_NOTE_BYTES] = "";
            bool other = choose_note_compiler(request->device, &flight->record, note);
            status = plan_create(request->device, request->problem, &flight->record, rung, false, note, plan, error);
            if (status == ATTUNE_OK && other) {
                tell_compiler(&flight->record);
            }
        }
        *again = status == ATTUNE_NOT_FOUND;
    }
    flight_leave(request->device, flight);
    return status;
}

/* ------------------------------------------------------------------------------------------------ prepare */

static attune_status read_options(const attune_prepare_options *given, attune_prepare_options *options,
                                  struct error *error)
{
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    if (given == NULL) {
        return ATTUNE_OK;
    }
    attune_status status = struct_read(options, sizeof *options, sizeof *options, given, "options", error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if ((int)options->lowest_rung < 0 || (int)options->lowest_rung > ATTUNE_RUNG_EXACT) {
        return error_set(error, ATTUNE_INVALID,
                         "options.lowest_rung=%d is no rung; use 0 or ATTUNE_RUNG_DEFAULT, _NEAR, _EXACT",
                         (int)options->lowest_rung);
    }
    if (options->candidate != NULL && (options->candidate[0] == '\0' ||
                                       strnlen(options->candidate, RECORD_CANDIDATE_BYTES) == RECORD_CANDIDATE_BYTES)) {
        return error_set(error, ATTUNE_INVALID,
                         "options.candidate is empty or longer than %d bytes; name one as `attune params` "
                         "does, or pass NULL",
                         RECORD_CANDIDATE_BYTES - 1);
    }
    return ATTUNE_OK;
}

attune_status plan_prepare(attune_device *device, const struct problem *problem, const attune_prepare_options *given,
                           attune_plan **plan, struct error *error)
{
    attune_prepare_options options;
    struct request request = {.device = device, .problem = problem};
    *plan = NULL;
    attune_status status = read_options(given, &options, error);
    if (status == ATTUNE_OK) {
        status = problem_specialisation(problem, request.specialisation, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    request.lowest = options.lowest_rung;
    request.candidate = options.candidate;
    /* a store may be emptied under our hands: what was published and is gone again is made again, a few times */
    bool again = true;
    for (int round = 0; round < ROUNDS_MAX && again; round++) {
        again = false;
        status = plan_from_store(&request, plan, error);
        if (status == ATTUNE_NOT_FOUND) {
            status = plan_by_jit(&request, plan, &again, error);
        }
    }
    return status;
}

attune_status attune_prepare(attune_device *device, const attune_problem *problem,
                             const attune_prepare_options *options, attune_plan **plan)
{
    struct error error = {0};
    if (plan != NULL) {
        *plan = NULL;
    }
    if (device == NULL || problem == NULL || plan == NULL) {
        const char *name = device == NULL ? "device" : problem == NULL ? "problem" : "plan";
        return context_report(device != NULL ? device->context : NULL,
                              error_set(&error, ATTUNE_INVALID, "%s is NULL", name), &error);
    }
    if (problem->context != device->context) {
        return context_report(
            device->context,
            error_set(&error, ATTUNE_INVALID, "problem and device are of two contexts; make both in one"), &error);
    }
    device_relax(device->driver, true);
    attune_status status = plan_prepare(device, &problem->problem, options, plan, &error);
    device_relax(device->driver, false);
    return context_report(device->context, status, &error);
}
