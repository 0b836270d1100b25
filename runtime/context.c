/* context.c - contexts: options, environment, errors by thread, schemas, the jit handler. */
#include "runtime/context.h"

#include "base/environment.h"
#include "runtime/tracing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREAD_ERRORS_MAX = 256, STRUCT_BYTES_MAX = 1 << 20 };

struct thread_error {
    struct thread_error *next;
    pid_t thread;
    char message[ERROR_MESSAGE_BYTES];
};

struct schema_node {
    struct schema_node *next;
    struct schema schema;
};

/* The one thread-local: the message of a call that had no context to keep it. */
static _Thread_local char orphan_message[ERROR_MESSAGE_BYTES];

const char *attune_version(void)
{
#define TEXT(x) #x
#define DOTTED(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)
    return DOTTED(ATTUNE_VERSION_MAJOR, ATTUNE_VERSION_MINOR, ATTUNE_VERSION_PATCH);
#undef DOTTED
#undef TEXT
}

/* ------------------------------------------------------------------------------------------------ errors */

attune_status context_report(attune_context *context, attune_status status, const struct error *error)
{
    if (status == ATTUNE_OK) {
        return status;
    }
    if (context == NULL) {
        memcpy(orphan_message, error->message, sizeof orphan_message);
        return status;
    }
    pid_t thread = gettid();
    pthread_mutex_lock(&context->error_lock);
    struct thread_error **link = &context->errors, **last = NULL;
    int count = 0;
    while (*link != NULL && (*link)->thread != thread) {
        last = link;
        link = &(*link)->next;
        count++;
    }
    struct thread_error *entry = *link;
    if (entry != NULL) {
        *link = entry->next;
    } else if (count >= THREAD_ERRORS_MAX) { /* the failure longest ago gives its place */
        entry = *last;
        *last = NULL;
    } else {
        entry = malloc(sizeof *entry);
    }
    if (entry != NULL) {
        entry->thread = thread;
        memcpy(entry->message, error->message, sizeof entry->message);
        entry->next = context->errors;
        context->errors = entry;
    }
    pthread_mutex_unlock(&context->error_lock);
    return status;
}

size_t attune_last_error(attune_context *context, char *message, size_t bytes)
{
    size_t length = 0;
    const char *text = orphan_message;
    if (context != NULL) {
        pid_t thread = gettid();
        pthread_mutex_lock(&context->error_lock);
        struct thread_error *entry = context->errors;
        while (entry != NULL && entry->thread != thread) {
            entry = entry->next;
        }
        text = entry != NULL ? entry->message : "";
    }
    length = strlen(text);
    if (message != NULL && bytes > 0) {
        size_t copied = length < bytes - 1 ? length : bytes - 1;
        memcpy(message, text, copied);
        message[copied] = '\0';
    }
    if (context != NULL) {
        pthread_mutex_unlock(&context->error_lock);
    }
    return length;
}

/* ------------------------------------------------------------------------------------------------ sized structs */

static attune_status check_size(const void *from, size_t first_bytes, const char *name, size_t *size,
                                struct error *error)
{
    if (from == NULL) {
        return error_set(error, ATTUNE_INVALID, "%s is NULL", name);
    }
    memcpy(size, from, sizeof *size);
    if (*size < first_bytes || *size > STRUCT_BYTES_MAX) {
        return error_set(error, ATTUNE_INVALID,
                         "%s.size=%zu is not the size of the struct; set it to sizeof (%zu here)", name, *size,
                         first_bytes);
    }
    return ATTUNE_OK;
}

attune_status struct_read(void *into, size_t bytes, size_t first_bytes, const void *from, const char *name,
                          struct error *error)
{
    size_t size = 0;
    attune_status status = check_size(from, first_bytes, name, &size, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    for (size_t i = bytes; i < size; i++) {
        if (((const unsigned char *)from)[i] != 0) {
            return error_set(
                error, ATTUNE_INVALID,
                "%s.size=%zu: it sets a field that this release (%zu bytes) does not know; update libattune", name,
                size, bytes);
        }
    }
    memset(into, 0, bytes);
    memcpy(into, from, size < bytes ? size : bytes);
    return ATTUNE_OK;
}

attune_status struct_write(void *into, const void *from, size_t bytes, size_t first_bytes, const char *name,
                           struct error *error)
{
    size_t size = 0;
    attune_status status = check_size(into, first_bytes, name, &size, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    memset(into, 0, size);
    memcpy(into, from, size < bytes ? size : bytes);
    memcpy(into, &size, sizeof size);
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ context */

static attune_status read_mode(attune_jit_mode asked, attune_jit_mode *mode, struct error *error)
{
    static const struct {
        const char *name;
        attune_jit_mode mode;
    } modes[] = {{"forbid", ATTUNE_JIT_FORBID}, {"compile", ATTUNE_JIT_COMPILE}, {"tune", ATTUNE_JIT_TUNE}};
    if (asked != ATTUNE_JIT_FROM_ENVIRONMENT) {
        *mode = asked;
        return asked >= ATTUNE_JIT_FORBID && asked <= ATTUNE_JIT_TUNE
                   ? ATTUNE_OK
                   : error_set(error, ATTUNE_INVALID,
                               "options.jit=%d is not a mode; use ATTUNE_JIT_FORBID, _COMPILE or _TUNE", (int)asked);
    }
    const char *text = environment_get("ATTUNE_JIT");
    *mode = ATTUNE_JIT_COMPILE;
    if (text == NULL || text[0] == '\0') {
        return ATTUNE_OK;
    }
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(text, modes[i].name) == 0) {
            *mode = modes[i].mode;
            return ATTUNE_OK;
        }
    }
    return error_set(error, ATTUNE_INVALID, "ATTUNE_JIT=\"%.100s\" is not a mode; use forbid, compile or tune", text);
}

static attune_status read_stale(bool *retune, struct error *error)
{
    const char *text = environment_get("ATTUNE_STALE");
    *retune = text != NULL && strcmp(text, "retune") == 0;
    if (text == NULL || text[0] == '\0' || *retune || strcmp(text, "accept") == 0) {
        return ATTUNE_OK;
    }
    return error_set(error, ATTUNE_INVALID, "ATTUNE_STALE=\"%.100s\" is not a rule; use accept or retune", text);
}

static attune_status create(const attune_context_options *given, attune_context **context, struct error *error)
{
    attune_context_options options = {.size = sizeof options};
    attune_context *made = NULL;
    attune_status status = ATTUNE_OK;
    if (context == NULL) {
        return error_set(error, ATTUNE_INVALID, "context is NULL; pass where to put the handle");
    }
    *context = NULL;
    if (given != NULL) {
        status = struct_read(&options, sizeof options, sizeof options, given, "options", error);
    }
    if (status == ATTUNE_OK && !(options.tune_seconds >= 0 && options.tune_seconds <= 1e9)) {
        status = error_set(error, ATTUNE_INVALID, "options.tune_seconds=%g is not a time from 0 to 1e9 seconds",
                           options.tune_seconds);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    made->tune_seconds = options.tune_seconds > 0 ? options.tune_seconds : 60;
    if ((status = read_mode(options.jit, &made->mode, error)) != ATTUNE_OK ||
        (status = read_stale(&made->retune, error)) != ATTUNE_OK ||
        (status = tracing_open(&made->tracing, error)) != ATTUNE_OK ||
        (status = store_open(options.store, &made->store, error)) != ATTUNE_OK) {
        tracing_close(made->tracing);
        free(made);
        return status;
    }
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->error_lock, NULL);
    *context = made;
    return ATTUNE_OK;
}

attune_status attune_context_create(const attune_context_options *options, attune_context **context)
{
    struct error error = {0};
    return context_report(NULL, create(options, context, &error), &error);
}

void attune_context_destroy(attune_context *context)
{
    if (context == NULL) {
        return;
    }
    while (context->devices != NULL) {
        attune_device *device = context->devices;
        context->devices = device->next;
        device_destroy(device);
    }
    if (context->has_jit && context->jit.destroy != NULL) {
        context->jit.destroy(context->jit.data);
    }
    while (context->schemas != NULL) {
        struct schema_node *node = context->schemas;
        context->schemas = node->next;
        free(node);
    }
    while (context->errors != NULL) {
        struct thread_error *entry = context->errors;
        context->errors = entry->next;
        free(entry);
    }
    tracing_close(context->tracing);
    store_close(context->store);
    pthread_mutex_destroy(&context->lock);
    pthread_mutex_destroy(&context->error_lock);
    free(context);
}

attune_status context_set_jit(attune_context *context, const struct jit_handler *handler)
{
    struct error error = {0};
    if (context == NULL || handler == NULL || handler->compile == NULL) {
        return context_report(
            context, error_set(&error, ATTUNE_INVALID, "context or handler is NULL, or it cannot compile"), &error);
    }
    pthread_mutex_lock(&context->lock);
    struct jit_handler old = context->jit;
    bool had = context->has_jit;
    context->jit = *handler;
    context->has_jit = true;
    pthread_mutex_unlock(&context->lock);
    if (had && old.destroy != NULL) {
        old.destroy(old.data);
    }
    return ATTUNE_OK;
}

const struct schema *context_intern_schema(attune_context *context, const struct schema *schema)
{
    if (schema->built_in) {
        return schema;
    }
    pthread_mutex_lock(&context->lock);
    struct schema_node *node = context->schemas;
    while (node != NULL && memcmp(&node->schema, schema, sizeof *schema) != 0) {
        node = node->next;
    }
    if (node == NULL && (node = malloc(sizeof *node)) != NULL) {
        memcpy(&node->schema, schema, sizeof *schema); /* padding too: equal copies compare equal */
        node->next = context->schemas;
        context->schemas = node;
    }
    pthread_mutex_unlock(&context->lock);
    return node != NULL ? &node->schema : NULL;
}
