/* measurer_worker.c - the watchdog.
 *
 * Limits are of steps, which the worker announces: only what a candidate does is held against it, never the making of
 * references on a busy machine.
 */
#include "autotune/measurer_worker.h"

#include "autotune/measurer_protocol.h"
#include "base/environment.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_KEPT = 65536, WORDS_TOLD = 240 };
static const double hello_seconds = 60.0, transfer_seconds = 10.0, look_seconds = 0.2, stop_seconds = 5.0,
                    standstill_seconds = 1.0;

attune_status measurer_worker_find(char *program, size_t bytes, struct error *error)
{
    const char *named = environment_get("ATTUNE_MEASURE");
    struct error why = {0};
    if (named != NULL && named[0] != '\0') {
        return strchr(named, '/') != NULL && program_find(named, program, bytes, NULL) == ATTUNE_OK
                   ? ATTUNE_OK
                   : error_set(error, ATTUNE_NO_TOOLCHAIN,
                               "ATTUNE_MEASURE=%s cannot be run: give the path of attune-measure, or none to run "
                               "candidates in the program's own process",
                               named);
    }
    if (program_beside("attune-measure", "autotune", program, bytes, &why) != ATTUNE_OK) {
        return error_set(error, ATTUNE_NO_TOOLCHAIN,
                         "attune-measure, which runs candidates, is missing (%s): install it or set ATTUNE_MEASURE to "
                         "its path",
                         why.message);
    }
    return ATTUNE_OK;
}

/* keeps the end of what it writes */
static void hear(struct measurer_worker *worker)
{
    process_errors(&worker->process, &worker->words, WORDS_KEPT);
    if (worker->words.length > 2 * (size_t)WORDS_KEPT) {
        memmove(worker->words.data, worker->words.data + worker->words.length - WORDS_KEPT, WORDS_KEPT);
        worker->words.length = WORDS_KEPT;
        worker->words.data[WORDS_KEPT] = '\0';
    }
}

/* the end of its last words on one line, "" when it said nothing */
static void last_words(const struct measurer_worker *worker, char text[WORDS_TOLD + 32])
{
    const char *words = buffer_string(&worker->words);
    size_t length = worker->words.length;
    while (length > 0 && (unsigned char)words[length - 1] <= ' ') {
        length--;
    }
    size_t begin = length > WORDS_TOLD ? length - WORDS_TOLD : 0;
    int used = length > 0
                   ? snprintf(text, WORDS_TOLD + 32, "; its last words: %.*s", (int)(length - begin), words + begin)
                   : 0;
    text[used] = '\0';
    for (char *c = text; *c != '\0'; c++) {
        *c = (unsigned char)*c < ' ' ? ' ' : *c;
    }
}

static void enter_step(struct measurer_worker *worker, const char *what, bool in_candidate)
{
    double now = clock_seconds();
    if (worker->in_candidate && now - worker->step_begin > worker->longest) {
        worker->longest = now - worker->step_begin;
    }
    worker->in_candidate = in_candidate;
    worker->step_begin = now;
    if (in_candidate) { /* what comes after it was caused by it */
        snprintf(worker->step, sizeof worker->step, "%s", what);
    }
}

/* ATTUNE_OK when there is something to read or the pipe is closed */
static attune_status await(struct measurer_worker *worker, const struct measurer_limits *limits,
                           enum measurer_fate *fate, struct error *error)
{
    double stopped = 0.0, next_look = clock_seconds() + look_seconds;
    for (;;) {
        double now = clock_seconds();
        double limit = worker->in_candidate ? limits->candidate_seconds : limits->own_seconds;
        if (now - worker->step_begin >= limit) {
            *fate = worker->in_candidate ? MEASURER_HUNG : MEASURER_LOST;
            return error_set(error, ATTUNE_TIMEOUT, "%s did not end within %.3g s",
                             worker->in_candidate ? "it" : "the measuring program's own work", limit);
        }
        stopped = stopped == 0.0 && limits->stop != NULL && *limits->stop != 0 ? now : stopped;
        if ((limits->deadline > 0.0 && now >= limits->deadline) || (stopped > 0.0 && now - stopped > stop_seconds)) {
            *fate = MEASURER_INTERRUPTED;
            return error_set(error, ATTUNE_TIMEOUT, "%s while it ran",
                             stopped > 0.0 ? "the run was stopped" : "the budget ended");
        }
        if (limits->rss_bytes > 0 && now >= next_look) {
            uint64_t used = process_group_rss(worker->process.pid);
            if (used > limits->rss_bytes) {
                *fate = MEASURER_CRASHED;
                return error_set(error, ATTUNE_DEVICE_FAILED, "out of memory: it held %llu MiB, the limit is %llu MiB",
                                 (unsigned long long)(used >> 20), (unsigned long long)(limits->rss_bytes >> 20));
            }
            next_look = now + look_seconds;
        }
        double wait = worker->step_begin + limit - now;
        struct pollfd files[2] = {{worker->process.from_child, POLLIN, 0}, {worker->process.errors, POLLIN, 0}};
        wait = wait < look_seconds ? wait : look_seconds;
        poll(files, 2, 1 + (int)(1e3 * wait));
        double late = clock_seconds() - now - wait;
        if (late > standstill_seconds) { /* who watches was stopped, and the worker perhaps with it: no fault of its */
            worker->step_begin += late;
        }
        if (files[1].revents != 0) {
            hear(worker);
        }
        if (files[0].revents != 0) {
            return ATTUNE_OK;
        }
    }
}

static attune_status read_message(struct measurer_worker *worker, const struct measurer_limits *limits,
                                  struct buffer *payload, struct message *message, enum measurer_fate *fate,
                                  struct error *error)
{
    unsigned char header[PROTOCOL_HEADER_BYTES];
    struct message_head head = {0};
    attune_status status = await(worker, limits, fate, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    *fate = MEASURER_CRASHED; /* of whatever fails from here on */
    worker->broke = true;
    double deadline = clock_seconds() + transfer_seconds;
    status = process_read(&worker->process, header, sizeof header, deadline, 0, error);
    if (status == ATTUNE_OK) {
        status = message_header(header, &head, error);
    }
    if (status == ATTUNE_OK) {
        buffer_clear(payload);
        status = buffer_reserve(payload, (size_t)head.payload_bytes + 1) ? ATTUNE_OK : error_no_memory(error);
    }
    if (status == ATTUNE_OK) {
        status = process_read(&worker->process, payload->data, head.payload_bytes, deadline, 0, error);
    }
    if (status == ATTUNE_OK) {
        payload->length = head.payload_bytes;
        status = message_parse(head.kind, payload->data, head.payload_bytes, message, error);
    }
    *fate = status == ATTUNE_OK ? MEASURER_WELL : *fate;
    worker->broke = status != ATTUNE_OK;
    return status;
}

attune_status measurer_worker_start(struct measurer_worker *worker, const char *program, const volatile int *stop,
                                    struct error *error)
{
    const char *const argv[] = {program, "--serve", NULL};
    const struct process_options options = {.argv = argv};
    const struct measurer_limits limits = {.own_seconds = hello_seconds, .stop = stop};
    struct buffer payload = BUFFER_INIT;
    struct message hello;
    enum measurer_fate fate;
    char words[WORDS_TOLD + 32];
    attune_status status = process_start(&options, &worker->process, error);
    if (status != ATTUNE_OK) {
        worker->broke = false;
        return error != NULL ? error_prefix(error, "starting %s", program) : status;
    }
    worker->running = true;
    worker->broke = false;
    worker->in_candidate = false;
    worker->step_begin = clock_seconds();
    worker->step[0] = '\0';
    struct error why = {0};
    status = read_message(worker, &limits, &payload, &hello, &fate, &why);
    if (status == ATTUNE_OK && hello.kind != MEASURE_HELLO) {
        status = error_set(&why, ATTUNE_CORRUPT, "its first message is of kind %u", hello.kind);
    }
    if (status != ATTUNE_OK) {
        hear(worker);
        last_words(worker, words);
        status = error_set(error, ATTUNE_NO_TOOLCHAIN, "%s is not a working attune-measure of this release: %s%s",
                           program, why.message, words);
        measurer_worker_stop(worker);
    }
    buffer_free(&payload);
    return status;
}

void measurer_worker_stop(struct measurer_worker *worker)
{
    if (worker->running) {
        process_kill(&worker->process);
        worker->running = false;
    }
    buffer_free(&worker->words);
}

bool measurer_worker_ready(struct measurer_worker *worker)
{
    struct pollfd file = {worker->running ? worker->process.from_child : -1, POLLIN, 0};
    if (worker->running && poll(&file, 1, 0) != 0) { /* between requests it has nothing to say */
        measurer_worker_stop(worker);
    }
    return worker->running;
}

/* warnings of a worker in good health are the user's to see */
static void pass_on_words(struct measurer_worker *worker)
{
    hear(worker);
    if (worker->words.length > 0) {
        fputs(buffer_string(&worker->words), stderr);
        buffer_clear(&worker->words);
    }
}

attune_status measurer_worker_ask(struct measurer_worker *worker, const struct buffer *frame,
                                  const struct measurer_limits *limits, struct buffer *payload, struct message *reply,
                                  enum measurer_fate *fate, struct error *error)
{
    struct error why = {0};
    char words[WORDS_TOLD + 32];
    worker->longest = 0.0;
    worker->in_candidate = false;
    worker->step[0] = '\0';
    worker->broke = false;
    *fate = MEASURER_CRASHED;
    attune_status status =
        process_write(&worker->process, frame->data, frame->length, clock_seconds() + transfer_seconds, &why);
    worker->broke = status != ATTUNE_OK;
    worker->step_begin = clock_seconds();
    if (status == ATTUNE_OK && worker->owner != NULL) {
        measurer_catch_up(worker->owner);
    }
    while (status == ATTUNE_OK) {
        status = read_message(worker, limits, payload, reply, fate, &why);
        if (status != ATTUNE_OK || reply->kind != MEASURE_STEP) {
            break;
        }
        enter_step(worker, message_text(reply, MEASURE_KEY_TEXT), message_integer(reply, MEASURE_KEY_CANDIDATE) != 0);
    }
    if (status == ATTUNE_OK && reply->kind != MEASURE_REPLY) {
        *fate = MEASURER_CRASHED;
        status = error_set(&why, ATTUNE_CORRUPT, "it answered with a message of kind %u", reply->kind);
    }
    if (status == ATTUNE_OK) {
        pass_on_words(worker);
        return ATTUNE_OK;
    }
    hear(worker);
    last_words(worker, words);
    if (worker->broke && limits->stop != NULL &&
        *limits->stop != 0) { /* what stops a run often ends its children too */
        *fate = MEASURER_INTERRUPTED;
    }
    status = *fate == MEASURER_CRASHED ? ATTUNE_DEVICE_FAILED : ATTUNE_TIMEOUT;
    error_set(error, status, "%s%s%s%s", worker->step, worker->step[0] != '\0' ? ": " : "", why.message, words);
    measurer_worker_stop(worker);
    return status;
}
