/* objects.c - from a candidate to a binary. */
#include "autotune/objects.h"

#include "base/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

attune_status road_open(struct object_road *road, struct compiler_pool *pool, struct store *store,
                        const struct target *target, enum sanitize sanitize, bool accept_other, struct error *error)
{
    struct error reason = {0};
    *road = (struct object_road){.pool = pool,
                                 .store = store,
                                 .target = *target,
                                 .sanitize = sanitize,
                                 .accept_other = accept_other,
                                 .keep_bytes = true};
    road->toolchain = compiler_identity(pool, target, COMPILER_AUTO, sanitize, road->compiler, road->identity, &reason);
    if (road->toolchain == ATTUNE_OK) {
        return ATTUNE_OK;
    }
    road->identity[0] = '\0';
    snprintf(road->toolchain_message, sizeof road->toolchain_message, "%.500s", reason.message);
    if (road->toolchain == ATTUNE_NO_TOOLCHAIN && store != NULL && accept_other) {
        return ATTUNE_OK;
    }
    return error_set(error, road->toolchain, "%s", reason.message);
}

attune_status stale_accepted(bool *accepted, struct error *error)
{
    const char *text = environment_get("ATTUNE_STALE");
    *accepted = text == NULL || text[0] == '\0' || strcmp(text, "accept") == 0;
    if (!*accepted && strcmp(text, "retune") != 0) {
        return error_set(error, ATTUNE_INVALID, "ATTUNE_STALE=%s: use accept or retune", text);
    }
    return ATTUNE_OK;
}

static attune_status job_fails(struct object_job *job, attune_status status, const struct error *reason,
                               struct error *error)
{
    job->status = status;
    snprintf(job->message, sizeof job->message, "%.500s", reason->message);
    return error_set(error, status, "%s", reason->message);
}

attune_status object_expand(struct generator *generator, const struct object_road *road,
                            const struct candidate *candidate, const struct problem *problem, struct expansion *scratch,
                            struct object_job *job, struct error *error)
{
    struct error reason = {0};
    *job = (struct object_job){.candidate = *candidate};
    job->resources.vector_registers = job->resources.scratch_bytes = job->resources.shared_bytes = -1;
    candidate_format(candidate, job->name);
    candidate_id(candidate, job->id);
    attune_status status = candidate_expand(generator, candidate, problem, &road->target, scratch, &reason);
    if (status != ATTUNE_OK) {
        return job_fails(job, status, &reason, error);
    }
    job->launch = scratch->launch;
    job->template_digest = scratch->template_digest;
    const struct object_key key = {
        .shown = buffer_string(&scratch->keyed),
        .shown_bytes = scratch->keyed.length,
        .vocabulary = scratch->vocabulary_digest,
        .options = compiler_options_text(&road->target, COMPILER_AUTO, road->sanitize, 0),
        .target = road->target,
        .identity = road->identity,
    };
    object_key_digest(&key, &job->object, &job->source_key);
    job->source_bytes = scratch->compile.length;
    job->source = malloc(job->source_bytes + 1);
    if (job->source == NULL) {
        error_no_memory(&reason);
        return job_fails(job, ATTUNE_NO_MEMORY, &reason, error);
    }
    memcpy(job->source, buffer_string(&scratch->compile), job->source_bytes + 1);
    return ATTUNE_OK;
}

static attune_status take_stored(const struct object_road *road, struct object_job *job, const struct digest *object)
{
    struct object_header header;
    attune_status status = store_object_get(road->store, object, &header, &job->bytes, NULL);
    if (status != ATTUNE_OK) {
        buffer_clear(&job->bytes);
        return status;
    }
    char wanted[TARGET_TEXT_BYTES];
    target_format(&road->target, wanted);
    if (strcmp(header.target, wanted) != 0) { /* the key has the target in it: somebody else's under this name */
        char reason[2 * TARGET_TEXT_BYTES + 64];
        snprintf(reason, sizeof reason, "it is for %s, its name says %s", header.target, wanted);
        store_object_reject(road->store, object, reason);
        buffer_clear(&job->bytes);
        return ATTUNE_NOT_FOUND;
    }
    job->object = *object;
    job->reused = true;
    job->other_compiler = strcmp(header.identity, road->identity) != 0;
    snprintf(job->compiler, sizeof job->compiler, "%s", header.compiler);
    snprintf(job->identity, sizeof job->identity, "%s", header.identity);
    return ATTUNE_OK;
}

/* ATTUNE_NOT_FOUND when nothing fits */
static attune_status look_up(const struct object_road *road, struct object_job *job)
{
    struct digest other;
    struct blocked blocked;
    if (road->store == NULL) {
        return ATTUNE_NOT_FOUND;
    }
    if (road->identity[0] != '\0' && take_stored(road, job, &job->object) == ATTUNE_OK) {
        return ATTUNE_OK;
    }
    if (road->accept_other && store_object_find_source(road->store, &job->source_key, &other, NULL) == ATTUNE_OK &&
        !(road->heed_blocked && store_blocked_get(road->store, &other, &blocked, NULL) == ATTUNE_OK)) {
        return take_stored(road, job, &other);
    }
    return ATTUNE_NOT_FOUND;
}

/* a refusal is for people to look into: they need the very text that the compiler got */
static void tell_source(const struct object_road *road, const struct object_job *job, struct error *error)
{
    char path[4096] = "", message[ERROR_MESSAGE_BYTES];
    if (road->store != NULL) {
        store_source_keep(road->store, &job->source_key, job->source, job->source_bytes, path, sizeof path);
    }
    snprintf(message, sizeof message, "%s", error->message);
    if (path[0] != '\0') {
        error_set(error, error->status, "%s; its source is kept as %s", message, path);
    } else {
        error_set(error, error->status, "%s; its source is kept nowhere (no folder for it): `attune show` prints it",
                  message);
    }
}

static attune_status compile(const struct object_road *road, struct object_job *job, struct error *error)
{
    struct compile_result result = {0};
    const struct compile_request request = {
        .target = road->target, .sanitize = road->sanitize, .source = job->source, .source_bytes = job->source_bytes};
    if (road->toolchain != ATTUNE_OK) {
        return error_set(error, road->toolchain, "%s", road->toolchain_message);
    }
    attune_status status = compiler_compile(road->pool, &request, &result, error);
    if (status == ATTUNE_OK) {
        struct object_header header = {.source = job->source_key};
        target_format(&road->target, header.target);
        snprintf(header.compiler, sizeof header.compiler, "%s", result.compiler);
        snprintf(header.identity, sizeof header.identity, "%s", result.identity);
        snprintf(header.kernel, sizeof header.kernel, "%s", job->launch.kernel);
        memcpy(job->compiler, header.compiler, sizeof job->compiler);
        memcpy(job->identity, header.identity, sizeof job->identity);
        if (strcmp(result.identity, road->identity) != 0) { /* the compiler was replaced since it was asked */
            object_name_digest(&job->source_key, result.identity, &job->object);
        }
        job->seconds = result.seconds;
        job->bytes = result.object;
        result.object = (struct buffer)BUFFER_INIT;
        if (road->store != NULL) { /* a store that cannot keep it warns by itself; the object still serves */
            store_object_put(road->store, &job->object, &header, job->bytes.data, job->bytes.length, NULL);
        }
    }
    if (status == ATTUNE_COMPILE_FAILED || status == ATTUNE_TIMEOUT) {
        tell_source(road, job, error);
    }
    job->log = result.log;
    result.log = (struct buffer)BUFFER_INIT;
    compile_result_free(&result);
    return status;
}

attune_status object_obtain(const struct object_road *road, struct object_job *job, struct error *error)
{
    struct error reason = {0};
    struct blocked blocked;
    if (road->heed_blocked && road->store != NULL &&
        store_blocked_get(road->store, &job->object, &blocked, NULL) == ATTUNE_OK) {
        job->blocked = true;
        error_set(&reason, ATTUNE_UNSUPPORTED, "%s before: %s", blocked.outcome, blocked.reason);
        return job_fails(job, ATTUNE_UNSUPPORTED, &reason, error);
    }
    if (!road->keep_bytes && road->store != NULL && road->identity[0] != '\0' &&
        store_object_has(road->store, &job->object)) {
        job->reused = true;
        return ATTUNE_OK;
    }
    attune_status status = look_up(road, job);
    if (status != ATTUNE_OK) {
        status = compile(road, job, &reason);
    }
    free(job->source);
    job->source = NULL;
    if (status != ATTUNE_OK) {
        return job_fails(job, status, &reason, error);
    }
    if (codeobject_resources(job->bytes.data, job->bytes.length, job->launch.kernel, &job->resources, NULL) !=
        ATTUNE_OK) {
        job->resources.vector_registers = job->resources.scratch_bytes = job->resources.shared_bytes = -1;
    }
    if (!road->keep_bytes) {
        buffer_free(&job->bytes);
    }
    return ATTUNE_OK;
}

void object_block(struct store *store, const struct target *target, const struct object_job *job, const char *outcome,
                  const char *reason)
{
    struct blocked blocked = {.object = job->object, .created = (int64_t)time(NULL)};
    struct error error;
    target_format(target, blocked.target);
    snprintf(blocked.candidate, sizeof blocked.candidate, "%s", job->name);
    snprintf(blocked.outcome, sizeof blocked.outcome, "%s", outcome);
    snprintf(blocked.reason, sizeof blocked.reason, "%.500s", reason);
    if (store_blocked_put(store, &blocked, &error) != ATTUNE_OK) {
        warn_once("blocked", "a candidate that was found %s cannot be noted down, the next run may use it again: %s",
                  outcome, error.message);
    }
}

attune_status object_binary(const struct object_job *job, struct digest *binary)
{
    struct digest_state state;
    json_t *launch = launch_to_json(&job->launch);
    char *text = launch != NULL ? json_dumps(launch, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(launch);
    if (text == NULL) {
        return ATTUNE_NO_MEMORY;
    }
    digest_begin(&state);
    digest_field(&state, job->bytes.data, job->bytes.length);
    digest_field(&state, text, strlen(text));
    digest_end(&state, binary);
    free(text);
    return ATTUNE_OK;
}

void object_job_free(struct object_job *job)
{
    free(job->source);
    buffer_free(&job->bytes);
    buffer_free(&job->log);
    job->source = NULL;
}
