/* tracing.c - see tracing.h.
 *
 * Problems lie in order of appearance; an open-addressed table of twice as many places finds them by their values. A
 * problem's schema belongs to the context, so that its address names the family.
 */
#include "runtime/tracing.h"

#include "base/environment.h"
#include "base/files.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLACES = 2 * TRACING_PROBLEMS_MAX };

struct traced {
    struct problem problem;
    uint64_t written, pending; /* calls */
};

struct tracing {
    pthread_mutex_t lock;
    int file; /* -1 once it could not be written to */
    struct traced *problems;
    int count, room;
    uint16_t places[PLACES]; /* 1 + index into problems; 0: free */
};

static uint32_t first_place(const struct problem *problem)
{
    uint64_t hash = (uint64_t)(uintptr_t)problem->schema;
    for (int i = 0; i < problem->schema->field_count; i++) {
        hash = (hash ^ (uint64_t)problem->values[i].integer) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return (uint32_t)(hash % PLACES);
}

static bool is_same(const struct problem *a, const struct problem *b)
{
    return a->schema == b->schema &&
           memcmp(a->values, b->values, (size_t)a->schema->field_count * sizeof a->values[0]) == 0;
}

/* the problem's place in the table: its own, or the free one that it would take */
static uint16_t *find(struct tracing *tracing, const struct problem *problem)
{
    for (uint32_t place = first_place(problem);; place = (place + 1) % PLACES) {
        uint16_t *index = &tracing->places[place];
        if (*index == 0 || is_same(&tracing->problems[*index - 1].problem, problem)) {
            return index;
        }
    }
}

static void stop(struct tracing *tracing, const char *why)
{
    warn_once("trace", "ATTUNE_TRACE is written no further: %s", why);
    close(tracing->file);
    tracing->file = -1;
}

/* others append to it too */
static int64_t size_of(int file)
{
    struct stat facts;
    return fstat(file, &facts) == 0 ? (int64_t)facts.st_size : 0;
}

static void append(struct tracing *tracing, struct traced *traced)
{
    char text[PROBLEM_TEXT_BYTES];
    if (problem_format(&traced->problem, text, NULL) != ATTUNE_OK) {
        traced->pending = 0; /* no problem that anybody could read again */
        return;
    }
    json_t *line = json_pack("{s:I, s:s}", "calls", (json_int_t)traced->pending, "problem", text);
    char *json = line != NULL ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    if (json == NULL) {
        stop(tracing, "a line cannot be made, for want of memory");
        return;
    }
    const size_t length = strlen(json);
    json[length] = '\n'; /* the NUL's place: bytes from here on, not a text */
    if (size_of(tracing->file) + (int64_t)length >= TRACING_FILE_BYTES_MAX) {
        stop(tracing, "the file has grown to 64 MiB; tune with it and begin another");
    } else {
        const int failure = file_write_fully(tracing->file, json, length + 1);
        if (failure != 0) {
            stop(tracing, strerror(failure));
        }
    }
    free(json);
    traced->written += traced->pending;
    traced->pending = 0;
}

static void append_pending(struct tracing *tracing)
{
    for (int i = 0; i < tracing->count && tracing->file >= 0; i++) {
        if (tracing->problems[i].pending > 0) {
            append(tracing, &tracing->problems[i]);
        }
    }
}

/* a problem not seen before, at a free place; NULL without memory */
static struct traced *add(struct tracing *tracing, const struct problem *problem, uint16_t *place)
{
    if (tracing->count == tracing->room) {
        const int room = tracing->room > 0 ? 2 * tracing->room : 16;
        struct traced *problems = realloc(tracing->problems, (size_t)room * sizeof *problems);
        if (problems == NULL) {
            return NULL;
        }
        tracing->problems = problems;
        tracing->room = room;
    }
    struct traced *traced = &tracing->problems[tracing->count++];
    *traced = (struct traced){.problem = *problem};
    *place = (uint16_t)tracing->count;
    return traced;
}

void tracing_note(struct tracing *tracing, const struct problem *sizes)
{
    pthread_mutex_lock(&tracing->lock);
    if (tracing->file >= 0) {
        uint16_t *place = find(tracing, sizes);
        if (*place == 0 && tracing->count == TRACING_PROBLEMS_MAX) {
            append_pending(tracing);
            memset(tracing->places, 0, sizeof tracing->places);
            tracing->count = 0;
            place = find(tracing, sizes);
        }
        struct traced *traced = *place != 0 ? &tracing->problems[*place - 1] : add(tracing, sizes, place);
        if (traced == NULL) {
            stop(tracing, "memory is exhausted");
        } else if (++traced->pending >= traced->written && tracing->file >= 0) {
            append(tracing, traced);
        }
    }
    pthread_mutex_unlock(&tracing->lock);
}

/* A writer that was killed or ran out of room left half a line: ours begins a new one. */
static int end_torn_line(int file)
{
    const int64_t bytes = size_of(file);
    char last = '\n';
    return bytes > 0 && pread(file, &last, 1, bytes - 1) == 1 && last != '\n' ? file_write_fully(file, "\n", 1) : 0;
}

attune_status tracing_open(struct tracing **tracing, struct error *error)
{
    const char *path = environment_get("ATTUNE_TRACE");
    int file;
    *tracing = NULL;
    if (path == NULL || path[0] == '\0') {
        return ATTUNE_OK;
    }
    attune_status status = file_open_append(path, &file, error);
    if (status != ATTUNE_OK) {
        return error_prefix(error, "ATTUNE_TRACE");
    }
    struct tracing *made = calloc(1, sizeof *made);
    if (made == NULL) {
        close(file);
        return error_no_memory(error);
    }
    pthread_mutex_init(&made->lock, NULL);
    made->file = file;
    const int failure = end_torn_line(file);
    if (failure != 0) {
        tracing_close(made);
        return error_errno(error, failure, "ATTUNE_TRACE: %s", path);
    }
    *tracing = made;
    return ATTUNE_OK;
}

void tracing_close(struct tracing *tracing)
{
    if (tracing == NULL) {
        return;
    }
    append_pending(tracing);
    if (tracing->file >= 0) {
        close(tracing->file);
    }
    pthread_mutex_destroy(&tracing->lock);
    free(tracing->problems);
    free(tracing);
}
