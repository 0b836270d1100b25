/* compiler_pool.c - who compiles next: workers, waiting, recycling, remembered identities.
 *
 * Invariants: a busy worker belongs to the thread that took it and to nobody else; `mutex` guards the flags and the
 * identities, never a conversation. A worker that failed is gone before the next request is served.
 */
#include "generator/compiler.h"
#include "generator/compiler_options.h"
#include "generator/compiler_protocol.h"
#include "generator/compiler_worker.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WORKERS_MAX = 64,
    RECYCLE_AFTER = 200,
    IDENTITIES_MAX = 128,
    LINE_BYTES = 1100,
    QUESTION_BYTES = TARGET_TEXT_BYTES + 32
};

static const double default_seconds = 120;
static const uint64_t default_rss_bytes = (uint64_t)4 << 30;

struct identity_entry {
    char question[QUESTION_BYTES];
    char compiler[64];
    char identity[DIGEST_HEX_BYTES];
};

struct compiler_pool {
    pthread_mutex_t mutex;
    pthread_cond_t freed;
    char helper[PATH_MAX];
    struct worker_limits limits;
    int count;
    bool busy[WORKERS_MAX];
    struct worker workers[WORKERS_MAX];
    int identity_count;
    struct identity_entry identities[IDENTITIES_MAX];
};

attune_status compiler_pool_create(const struct compiler_options *options, struct compiler_pool **pool,
                                   struct error *error)
{
    struct compiler_options chosen = {0};
    if (options != NULL) {
        chosen = *options;
    }
    *pool = NULL;
    if (chosen.workers < 0 || chosen.workers > WORKERS_MAX) {
        return error_set(error, ATTUNE_INVALID, "workers=%d is not between 0 and %d", chosen.workers, WORKERS_MAX);
    }
    if (!(chosen.seconds >= 0)) {
        return error_set(error, ATTUNE_INVALID, "seconds=%g is not a time limit", chosen.seconds);
    }
    struct compiler_pool *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    attune_status status = worker_find_helper(chosen.helper, made->helper, sizeof made->helper, error);
    if (status != ATTUNE_OK) {
        free(made);
        return status;
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores < 1) {
        cores = 1;
    }
    made->count = chosen.workers > 0 ? chosen.workers : cores > WORKERS_MAX ? WORKERS_MAX : (int)cores;
    made->limits.seconds = chosen.seconds > 0 ? chosen.seconds : default_seconds;
    made->limits.rss_bytes = chosen.rss_bytes > 0 ? chosen.rss_bytes : default_rss_bytes;
    (void)pthread_mutex_init(&made->mutex, NULL);
    (void)pthread_cond_init(&made->freed, NULL);
    *pool = made;
    return ATTUNE_OK;
}

void compiler_pool_destroy(struct compiler_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    for (int i = 0; i < pool->count; i++) {
        worker_stop(&pool->workers[i]);
    }
    (void)pthread_cond_destroy(&pool->freed);
    (void)pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

int compiler_pool_workers(const struct compiler_pool *pool)
{
    return pool->count;
}

uint64_t compiler_helper_starts(void)
{
    return worker_starts();
}

/* ---- logs ---- */

static bool line_matches(const char *line, size_t length, const char *mark)
{
    return memmem(line, length, mark, strlen(mark)) != NULL;
}

/* the compiler's own first error line; without one the first line that says anything */
static void first_error_line(const char *log, char *line, size_t bytes)
{
    static const char *const marks[] = {"error:", "undefined reference", "ERROR", "rror", ""};
    line[0] = '\0';
    for (size_t m = 0; m < sizeof marks / sizeof marks[0]; m++) {
        for (const char *at = log; *at != '\0';) {
            size_t length = strcspn(at, "\n");
            if (length > 0 && line_matches(at, length, marks[m])) {
                (void)snprintf(line, bytes, "%.*s", (int)(length < 1024 ? length : 1024), at);
                return;
            }
            at += length + (at[length] == '\n');
        }
    }
}

/* ---- taking and giving back ---- */

/* a running worker before one that would have to be started */
static int find_free(const struct compiler_pool *pool)
{
    int found = -1;
    for (int i = 0; i < pool->count; i++) {
        if (!pool->busy[i] && (found < 0 || (pool->workers[i].running && !pool->workers[found].running))) {
            found = i;
        }
    }
    return found;
}

static int take_worker(struct compiler_pool *pool)
{
    (void)pthread_mutex_lock(&pool->mutex);
    int index = find_free(pool);
    while (index < 0) {
        (void)pthread_cond_wait(&pool->freed, &pool->mutex);
        index = find_free(pool);
    }
    pool->busy[index] = true;
    (void)pthread_mutex_unlock(&pool->mutex);
    return index;
}

static void give_back(struct compiler_pool *pool, int index)
{
    if (pool->workers[index].served >= RECYCLE_AFTER) {
        worker_stop(&pool->workers[index]);
    }
    (void)pthread_mutex_lock(&pool->mutex);
    pool->busy[index] = false;
    (void)pthread_cond_signal(&pool->freed);
    (void)pthread_mutex_unlock(&pool->mutex);
}

/* a worker that died says why on stderr, if at all */
static attune_status explain(attune_status status, const char *doing, const struct buffer *errors, struct error *error)
{
    char line[LINE_BYTES];
    first_error_line(buffer_string(errors), line, sizeof line);
    if (error != NULL) {
        struct error cause = *error;
        (void)error_set(error, status, "%s: %s%s%s", doing, cause.message, line[0] != '\0' ? ": " : "", line);
    }
    return status;
}

/* to a worker that is taken */
static attune_status ask_worker(struct compiler_pool *pool, struct worker *worker, struct buffer *frame,
                                struct buffer *payload, struct message *reply, struct buffer *errors,
                                struct error *error)
{
    attune_status status = ATTUNE_OK;
    if (worker->running && !worker_alive(worker)) {
        worker_stop(worker);
    }
    if (!worker->running) {
        status = worker_start(worker, pool->helper, pool->limits.seconds, error);
    }
    if (status == ATTUNE_OK) {
        status = worker_exchange(worker, frame, &pool->limits, payload, reply, errors, error);
    }
    return status;
}

/* what failed is the machine: its memory, its disk, its limits. Our own limits have statuses without a reply */
static bool blames_machine(const struct message *reply)
{
    const int64_t status = message_integer(reply, KEY_STATUS);
    return status == ATTUNE_IO || status == ATTUNE_NO_MEMORY;
}

/* One request to any worker. An idle worker that died meanwhile is replaced and costs nobody a failure. What others end
 * while it works - an operator, the system for want of memory, a limit, a full disk - is asked once more, and is never
 * held against the source: ATTUNE_IO. */
static attune_status ask(struct compiler_pool *pool, const char *doing, struct buffer *frame, struct buffer *payload,
                         struct message *reply, struct buffer *errors, struct error *error)
{
    int index = take_worker(pool);
    struct worker *worker = &pool->workers[index];
    attune_status status = ask_worker(pool, worker, frame, payload, reply, errors, error);
    if (status == ATTUNE_OK ? blames_machine(reply) : worker->ended_by_others) {
        buffer_clear(errors);
        status = ask_worker(pool, worker, frame, payload, reply, errors, error);
        status = status != ATTUNE_OK && worker->ended_by_others ? ATTUNE_IO : status;
    }
    give_back(pool, index);
    return status == ATTUNE_OK ? status : explain(status, doing, errors, error);
}

/* ---- questions ---- */

static attune_status check_reply(const struct message *reply, const struct buffer *log, struct error *error)
{
    char line[LINE_BYTES];
    int64_t status = message_integer(reply, KEY_STATUS);
    const char *text = message_text(reply, KEY_TEXT);
    if (status == ATTUNE_OK) {
        return ATTUNE_OK;
    }
    first_error_line(buffer_string(log), line, sizeof line);
    status = blames_machine(reply) ? ATTUNE_IO : status;
    return error_set(error, status > 0 && status <= ATTUNE_INTERNAL ? (attune_status)status : ATTUNE_INTERNAL, "%s%s%s",
                     text[0] != '\0' ? text : "attune-helper failed and does not say why", line[0] != '\0' ? ": " : "",
                     line);
}

static attune_status check_question(const struct target *target, enum compiler_kind kind, enum sanitize sanitize,
                                    struct error *error)
{
    static const char *const names[] = {"auto", "hiprtc", "clang", "nvrtc", "host"};
    char text[TARGET_TEXT_BYTES];
    target_format(target, text);
    bool fits = kind == COMPILER_AUTO ||
                (target->vendor == TARGET_AMD && (kind == COMPILER_HIPRTC || kind == COMPILER_CLANG)) ||
                (target->vendor == TARGET_NVIDIA && kind == COMPILER_NVRTC) ||
                (target->vendor == TARGET_HOST && kind == COMPILER_HOST);
    if ((int)kind < COMPILER_AUTO || kind > COMPILER_HOST || !fits) {
        return error_set(error, ATTUNE_INVALID, "compiler %s makes no code for %s: leave the choice to auto",
                         (int)kind >= 0 && kind <= COMPILER_HOST ? names[kind] : "(out of range)", text);
    }
    if (sanitize != SANITIZE_NONE && target->vendor != TARGET_HOST) {
        return error_set(error, ATTUNE_INVALID, "sanitizers work on host targets only, not on %s", text);
    }
    return ATTUNE_OK;
}

void compile_result_free(struct compile_result *result)
{
    buffer_free(&result->object);
    buffer_free(&result->log);
}

static attune_status compile_frame(const struct compile_request *request, struct buffer *frame, struct error *error)
{
    char target[TARGET_TEXT_BYTES];
    int code_object = 0;
    attune_status status = check_question(&request->target, request->compiler, request->sanitize, error);
    if (status == ATTUNE_OK) {
        status = compiler_code_object(request->code_object, &code_object, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    if (request->source == NULL || request->source_bytes > PROTOCOL_SOURCE_BYTES) {
        return error_set(error, ATTUNE_INVALID, "source of %zu bytes: between 0 and %d can be compiled",
                         request->source_bytes, PROTOCOL_SOURCE_BYTES);
    }
    if (memchr(request->source, '\0', request->source_bytes) != NULL) {
        return error_set(error, ATTUNE_INVALID,
                         "the source holds a NUL byte: compilers would read only what is before it");
    }
    target_format(&request->target, target);
    message_begin(frame, MESSAGE_COMPILE);
    message_add_text(frame, KEY_TARGET, target);
    message_add_integer(frame, KEY_COMPILER, request->compiler);
    message_add_integer(frame, KEY_SANITIZE, request->sanitize);
    message_add_integer(frame, KEY_CODE_OBJECT, code_object);
    message_add(frame, KEY_SOURCE, request->source, request->source_bytes);
    return message_end(frame, error);
}

/* ---- identities ---- */

static bool identity_recall(struct compiler_pool *pool, const char *question, char compiler[64],
                            char identity[DIGEST_HEX_BYTES])
{
    bool found = false;
    (void)pthread_mutex_lock(&pool->mutex);
    for (int i = 0; i < pool->identity_count && !found; i++) {
        if (strcmp(pool->identities[i].question, question) == 0) {
            memcpy(compiler, pool->identities[i].compiler, 64);
            memcpy(identity, pool->identities[i].identity, DIGEST_HEX_BYTES);
            found = true;
        }
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return found;
}

/* replaces what was known: the newest answer holds */
static void identity_remember(struct compiler_pool *pool, const char *question, const char *compiler,
                              const char *identity)
{
    (void)pthread_mutex_lock(&pool->mutex);
    int at = 0;
    while (at < pool->identity_count && strcmp(pool->identities[at].question, question) != 0) {
        at++;
    }
    if (at < IDENTITIES_MAX) {
        struct identity_entry *entry = &pool->identities[at];
        pool->identity_count += at == pool->identity_count;
        (void)snprintf(entry->question, sizeof entry->question, "%s", question);
        (void)snprintf(entry->compiler, sizeof entry->compiler, "%s", compiler);
        (void)snprintf(entry->identity, sizeof entry->identity, "%s", identity);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
}

static void identity_question(const struct target *target, enum compiler_kind kind, enum sanitize sanitize,
                              int code_object, char question[QUESTION_BYTES])
{
    char text[TARGET_TEXT_BYTES];
    target_format(target, text);
    (void)snprintf(question, QUESTION_BYTES, "%s %d %d %d", text, (int)kind, (int)sanitize, code_object);
}

/* ---- compiling ---- */

/* the compiler's own log after what it wrote to stderr, of which a flood leaves half of the room */
static void take_log(struct buffer *log, const char *bytes, size_t length)
{
    size_t theirs = length < PROTOCOL_LOG_BYTES / 2 ? length : PROTOCOL_LOG_BYTES / 2;
    if (log->length > PROTOCOL_LOG_BYTES - theirs) {
        log->length = PROTOCOL_LOG_BYTES - theirs;
        log->data[log->length] = '\0';
    }
    size_t room = PROTOCOL_LOG_BYTES - log->length;
    buffer_append(log, bytes, length < room ? length : room);
}

attune_status compiler_compile(struct compiler_pool *pool, const struct compile_request *request,
                               struct compile_result *result, struct error *error)
{
    struct buffer frame = BUFFER_INIT;
    struct buffer payload = BUFFER_INIT;
    struct message reply = {0};
    const struct message_field *object = NULL;
    char target[TARGET_TEXT_BYTES];
    char doing[TARGET_TEXT_BYTES + 32];
    char question[QUESTION_BYTES];
    int code_object = 0;
    memset(result, 0, sizeof *result);
    attune_status status = compile_frame(request, &frame, error);
    if (status != ATTUNE_OK) {
        goto out;
    }
    target_format(&request->target, target);
    (void)snprintf(doing, sizeof doing, "compiling for %s", target);
    /* stderr first: in-process compilers put the assembler's own words there and only a summary into their log */
    status = ask(pool, doing, &frame, &payload, &reply, &result->log, error);
    if (status != ATTUNE_OK) {
        goto out;
    }
    const struct message_field *log = message_find(&reply, KEY_LOG);
    if (log != NULL) {
        take_log(&result->log, log->bytes, log->length);
    }
    (void)snprintf(result->compiler, sizeof result->compiler, "%s", message_text(&reply, KEY_COMPILER));
    (void)snprintf(result->identity, sizeof result->identity, "%s", message_text(&reply, KEY_IDENTITY));
    result->seconds = (double)message_integer(&reply, KEY_MICROSECONDS) * 1e-6;
    status = check_reply(&reply, &result->log, error);
    if (status != ATTUNE_OK) {
        goto out;
    }
    object = message_find(&reply, KEY_OBJECT);
    if (object == NULL || object->length == 0) {
        status = error_set(error, ATTUNE_INTERNAL, "attune-helper reported success without an object");
        goto out;
    }
    buffer_append(&result->object, object->bytes, object->length);
    status = buffer_ok(&result->object, error);
    if (status == ATTUNE_OK && request->code_object == 0 && compiler_code_object(0, &code_object, NULL) == ATTUNE_OK) {
        /* a compiler that was replaced under a running pool is noticed by what it made */
        identity_question(&request->target, request->compiler, request->sanitize, code_object, question);
        identity_remember(pool, question, result->compiler, result->identity);
    }
out:
    buffer_free(&frame);
    buffer_free(&payload);
    return status;
}

bool compiler_identity_known(struct compiler_pool *pool, const struct target *target, enum compiler_kind kind,
                             enum sanitize sanitize, char compiler[64], char identity[DIGEST_HEX_BYTES])
{
    char question[QUESTION_BYTES];
    int code_object = 0;
    if (compiler_code_object(0, &code_object, NULL) != ATTUNE_OK) {
        return false;
    }
    identity_question(target, kind, sanitize, code_object, question);
    return identity_recall(pool, question, compiler, identity);
}

attune_status compiler_identity(struct compiler_pool *pool, const struct target *target, enum compiler_kind kind,
                                enum sanitize sanitize, char compiler[64], char identity[DIGEST_HEX_BYTES],
                                struct error *error)
{
    struct buffer frame = BUFFER_INIT;
    struct buffer payload = BUFFER_INIT;
    struct buffer errors = BUFFER_INIT;
    struct message reply = {0};
    char text[TARGET_TEXT_BYTES];
    char question[QUESTION_BYTES];
    int code_object = 0;
    attune_status status = check_question(target, kind, sanitize, error);
    if (status == ATTUNE_OK) {
        status = compiler_code_object(0, &code_object, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    target_format(target, text);
    identity_question(target, kind, sanitize, code_object, question);
    if (identity_recall(pool, question, compiler, identity)) {
        return ATTUNE_OK;
    }
    message_begin(&frame, MESSAGE_IDENTITY);
    message_add_text(&frame, KEY_TARGET, text);
    message_add_integer(&frame, KEY_COMPILER, kind);
    message_add_integer(&frame, KEY_SANITIZE, sanitize);
    message_add_integer(&frame, KEY_CODE_OBJECT, code_object);
    status = message_end(&frame, error);
    if (status == ATTUNE_OK) {
        status = ask(pool, "identifying a compiler", &frame, &payload, &reply, &errors, error);
    }
    if (status == ATTUNE_OK) {
        status = check_reply(&reply, &errors, error);
    }
    if (status == ATTUNE_OK) {
        (void)snprintf(compiler, 64, "%s", message_text(&reply, KEY_COMPILER));
        (void)snprintf(identity, DIGEST_HEX_BYTES, "%s", message_text(&reply, KEY_IDENTITY));
        identity_remember(pool, question, compiler, identity);
    }
    buffer_free(&frame);
    buffer_free(&payload);
    buffer_free(&errors);
    return status;
}

/* a question whose answer is one text */
static attune_status ask_text(struct compiler_pool *pool, const char *doing, struct buffer *frame, struct buffer *text,
                              struct error *error)
{
    struct buffer payload = BUFFER_INIT;
    struct buffer errors = BUFFER_INIT;
    struct message reply = {0};
    attune_status status = message_end(frame, error);
    buffer_clear(text);
    if (status == ATTUNE_OK) {
        status = ask(pool, doing, frame, &payload, &reply, &errors, error);
    }
    if (status == ATTUNE_OK) {
        status = check_reply(&reply, &errors, error);
    }
    if (status == ATTUNE_OK) {
        const struct message_field *field = message_find(&reply, KEY_TEXT);
        if (field != NULL) {
            buffer_append(text, field->bytes, field->length);
        }
        status = buffer_ok(text, error);
    }
    buffer_free(&payload);
    buffer_free(&errors);
    return status;
}

attune_status compiler_disassemble(struct compiler_pool *pool, const struct target *target, const void *object,
                                   size_t bytes, struct buffer *text, struct error *error)
{
    struct buffer frame = BUFFER_INIT;
    char name[TARGET_TEXT_BYTES];
    target_format(target, name);
    message_begin(&frame, MESSAGE_DISASSEMBLE);
    message_add_text(&frame, KEY_TARGET, name);
    message_add(&frame, KEY_OBJECT, object, bytes);
    attune_status status = ask_text(pool, "disassembling", &frame, text, error);
    buffer_free(&frame);
    return status;
}

attune_status compiler_survey(struct compiler_pool *pool, struct buffer *json, struct error *error)
{
    struct buffer frame = BUFFER_INIT;
    message_begin(&frame, MESSAGE_SURVEY);
    attune_status status = ask_text(pool, "looking for compilers", &frame, json, error);
    buffer_free(&frame);
    return status;
}
