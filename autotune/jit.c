/* jit.c - the miss handler of a context: what libattune asks for when its stores do not have it.
 *
 * One generator behind a lock (expansion takes a millisecond, compiles run outside it) and one pool of compilers, both
 * made on first need and kept. Tuning holds the generator for its whole run.
 */
#include "runtime/jit.h"
#include "autotune/measurer.h"
#include "autotune/objects.h"
#include "autotune/publish.h"
#include "autotune/tune.h"
#include "runtime/context.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct jit {
    pthread_mutex_t generator_lock;
    struct generator *generator; /* NULL until first needed */
    pthread_mutex_t pool_lock;
    struct compiler_pool *pool; /* likewise */
};

/* takes the lock; the caller releases it, also after an error */
static attune_status enter_generator(struct jit *jit, struct error *error)
{
    pthread_mutex_lock(&jit->generator_lock);
    return jit->generator != NULL ? ATTUNE_OK : generator_create(NULL, &jit->generator, error);
}

static attune_status take_pool(struct jit *jit, struct compiler_pool **pool, struct error *error)
{
    pthread_mutex_lock(&jit->pool_lock);
    attune_status status = jit->pool != NULL ? ATTUNE_OK : compiler_pool_create(NULL, &jit->pool, error);
    *pool = jit->pool;
    pthread_mutex_unlock(&jit->pool_lock);
    return status;
}

/* the wanted candidate, and whether it is the default one */
static attune_status choose(struct generator *generator, const struct jit_request *request, struct candidate *candidate,
                            bool *is_default, struct error *error)
{
    const struct target *target = &request->device->target;
    *is_default = request->candidate == NULL;
    if (request->candidate == NULL) {
        return candidate_default(generator, request->problem, target, candidate, error);
    }
    attune_status status = candidate_parse(generator, request->candidate, request->problem, target, candidate, error);
    if (status == ATTUNE_OK) {
        status = candidate_check(generator, candidate, request->problem, target, error);
    }
    if (status == ATTUNE_OK) {
        struct candidate standard;
        char name[CANDIDATE_TEXT_BYTES], wanted[CANDIDATE_TEXT_BYTES];
        candidate_format(candidate, wanted);
        if (candidate_default(generator, request->problem, target, &standard, NULL) == ATTUNE_OK) {
            candidate_format(&standard, name);
            *is_default = strcmp(name, wanted) == 0;
        }
    }
    return status;
}

static attune_status jit_compile(void *data, const struct jit_request *request, struct record *record,
                                 struct error *error)
{
    struct jit *jit = data;
    struct object_road road;
    struct object_job job = {0};
    struct expansion scratch = {0};
    struct candidate candidate;
    struct compiler_pool *pool = NULL;
    bool accepted = true, is_default = false;
    memset(record, 0, sizeof *record);
    attune_status status = stale_accepted(&accepted, error);
    if (status == ATTUNE_OK) { /* what no template supports is refused before anybody asks for a compiler */
        status = enter_generator(jit, error);
        if (status == ATTUNE_OK) {
            status = choose(jit->generator, request, &candidate, &is_default, error);
        }
        pthread_mutex_unlock(&jit->generator_lock);
    }
    if (status == ATTUNE_OK) {
        status = take_pool(jit, &pool, error);
    }
    if (status == ATTUNE_OK) {
        status = road_open(&road, pool, request->store, &request->device->target, SANITIZE_NONE,
                           accepted && !request->own_compiler, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    status = enter_generator(jit, error);
    if (status == ATTUNE_OK) {
        status = object_expand(jit->generator, &road, &candidate, request->problem, &scratch, &job, error);
    }
    pthread_mutex_unlock(&jit->generator_lock);
    road.heed_blocked = true; /* what hung in a measuring process would hang in the caller's */
    if (status == ATTUNE_OK) {
        status = object_obtain(&road, &job, error);
        if (job.blocked) {
            error_set(error, status, "%s %s; `attune cache prune --blocked` lets it be tried again", job.name,
                      job.message);
        }
    }
    if (status == ATTUNE_OK) {
        status = is_default ? publish_default(request->store, &road.target, request->problem, &job, record, error)
                            : record_describe(record, RECORD_DEFAULT, request->problem, &job, error);
    }
    if (status == ATTUNE_OK) {
        target_format(&road.target, record->device.target);
    } else {
        record_free(record);
    }
    expansion_free(&scratch);
    object_job_free(&job);
    return status;
}

/* a caller that seems to hang is told what it waits for */
static void tell_tuning(const struct problem *problem, const struct tune_options *options)
{
    char text[PROBLEM_TEXT_BYTES] = "";
    (void)problem_format(problem, text, NULL);
    tell_line("ATTUNE_JIT=tune: tunes on %s for %.3g s at most, nothing is recorded for \"%s\" (ATTUNE_QUIET=1 mutes "
              "this)",
              options->device, options->budget_seconds, text);
}

static attune_status jit_tune(void *data, const struct jit_request *request, struct record *record, struct error *error)
{
    struct jit *jit = data;
    struct compiler_pool *pool = NULL;
    struct tune_result result = {0};
    char device[DRIVER_DEVICE_BYTES] = "host";
    bool accepted = true;
    if (strcmp(request->driver->name, "host") != 0) {
        driver_format_device(request->driver, request->ordinal, device);
    }
    struct tune_options options = {.device = device,
                                   .seed = TUNE_SEED,
                                   .device_in_use = !measurer_is_local(),
                                   .budget_seconds = request->tune_seconds > 0.0 ? request->tune_seconds : 60.0};
    memset(record, 0, sizeof *record);
    attune_status status = stale_accepted(&accepted, error);
    options.accept_stored = accepted;
    if (status == ATTUNE_OK) {
        status = take_pool(jit, &pool, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    status = enter_generator(jit, error);
    if (status == ATTUNE_OK) {
        tell_tuning(request->problem, &options);
        status = tune_run(jit->generator, pool, request->store, request->problem, &options, NULL, NULL, &result, error);
    }
    pthread_mutex_unlock(&jit->generator_lock);
    if (status == ATTUNE_OK) {
        *record = result.record; /* with what it owns */
        memset(&result.record, 0, sizeof result.record);
        tune_result_free(&result);
    }
    return status;
}

static const struct schema *jit_schema(void *data, const char *family)
{
    struct jit *jit = data;
    const struct schema *schema =
        enter_generator(jit, NULL) == ATTUNE_OK ? generator_schema(jit->generator, family) : NULL;
    pthread_mutex_unlock(&jit->generator_lock);
    return schema; /* lives as long as the generator, that is the handler */
}

static attune_status jit_default_candidate(void *data, const struct problem *problem, const struct target *target,
                                           char name[RECORD_CANDIDATE_BYTES], struct error *error)
{
    struct jit *jit = data;
    struct candidate candidate;
    attune_status status = enter_generator(jit, error);
    if (status == ATTUNE_OK) {
        status = candidate_default(jit->generator, problem, target, &candidate, error);
    }
    pthread_mutex_unlock(&jit->generator_lock);
    if (status == ATTUNE_OK) {
        candidate_format(&candidate, name);
    }
    return status;
}

static attune_status jit_identity(void *data, const struct target *target, char identity[DIGEST_HEX_BYTES],
                                  struct error *error)
{
    struct compiler_pool *pool;
    char compiler[64];
    attune_status status = take_pool(data, &pool, error);
    return status == ATTUNE_OK
               ? compiler_identity(pool, target, COMPILER_AUTO, SANITIZE_NONE, compiler, identity, error)
               : status;
}

static attune_status jit_is_current(void *data, const struct problem *problem, const struct target *target,
                                    const char *candidate, const struct digest *object, bool *current,
                                    struct error *error)
{
    struct jit *jit = data;
    struct object_road road;
    struct object_job job = {0};
    struct expansion scratch = {0};
    struct candidate parsed;
    struct compiler_pool *pool = NULL;
    *current = false;
    attune_status status = take_pool(jit, &pool, error);
    if (status == ATTUNE_OK) {
        status = road_open(&road, pool, NULL, target, SANITIZE_NONE, false, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    status = enter_generator(jit, error);
    /* a candidate that the templates of today do not know is not current; that is no failure */
    if (status == ATTUNE_OK &&
        candidate_parse(jit->generator, candidate, problem, target, &parsed, NULL) == ATTUNE_OK &&
        object_expand(jit->generator, &road, &parsed, problem, &scratch, &job, NULL) == ATTUNE_OK) {
        *current = memcmp(&job.object, object, sizeof *object) == 0;
    }
    pthread_mutex_unlock(&jit->generator_lock);
    expansion_free(&scratch);
    object_job_free(&job);
    return status;
}

static bool jit_identity_known(void *data, const struct target *target, char identity[DIGEST_HEX_BYTES])
{
    struct jit *jit = data;
    char compiler[64];
    pthread_mutex_lock(&jit->pool_lock);
    struct compiler_pool *pool = jit->pool; /* once made it stays */
    pthread_mutex_unlock(&jit->pool_lock);
    return pool != NULL && compiler_identity_known(pool, target, COMPILER_AUTO, SANITIZE_NONE, compiler, identity);
}

static void jit_destroy(void *data)
{
    struct jit *jit = data;
    if (jit->pool != NULL) {
        compiler_pool_destroy(jit->pool);
    }
    if (jit->generator != NULL) {
        generator_destroy(jit->generator);
    }
    pthread_mutex_destroy(&jit->generator_lock);
    pthread_mutex_destroy(&jit->pool_lock);
    free(jit);
}

attune_status attune_jit_register(attune_context *context)
{
    struct error error = {0};
    if (context == NULL) {
        return context_report(NULL, error_set(&error, ATTUNE_INVALID, "context is NULL"), &error);
    }
    struct jit *jit = calloc(1, sizeof *jit);
    if (jit == NULL) {
        return context_report(context, error_no_memory(&error), &error);
    }
    if (pthread_mutex_init(&jit->generator_lock, NULL) != 0) {
        free(jit);
        return context_report(context, error_no_memory(&error), &error);
    }
    if (pthread_mutex_init(&jit->pool_lock, NULL) != 0) {
        pthread_mutex_destroy(&jit->generator_lock);
        free(jit);
        return context_report(context, error_no_memory(&error), &error);
    }
    const struct jit_handler handler = {.data = jit,
                                        .destroy = jit_destroy,
                                        .compile = jit_compile,
                                        .tune = jit_tune,
                                        .schema = jit_schema,
                                        .default_candidate = jit_default_candidate,
                                        .identity = jit_identity,
                                        .is_current = jit_is_current,
                                        .identity_known = jit_identity_known};
    attune_status status = context_set_jit(context, &handler);
    if (status != ATTUNE_OK) {
        jit_destroy(jit);
    }
    return status;
}
