/* compiler_worker.c - starting, talking to and burying one attune-helper.
 *
 * The helper leads its own process group and its compilers stay in it, so one kill ends all. It notices our end by end
 * of file on its stdin, not by PR_SET_PDEATHSIG: that signal follows the starting thread, and workers outlive threads.
 */
#include "generator/compiler_worker.h"

#include "base/environment.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

static const double hello_seconds = 30;
static const double poll_seconds = 0.1;
static const uint64_t nearly_full_bytes = 1 << 20;

static atomic_uint_least64_t starts;

uint64_t worker_starts(void)
{
    return atomic_load(&starts);
}

/* ---- finding the program ---- */

attune_status worker_find_helper(const char *path, char *helper, size_t bytes, struct error *error)
{
    const char *named = path != NULL ? path : environment_get("ATTUNE_HELPER");
    if (named != NULL && *named != '\0') {
        if (access(named, X_OK) != 0) {
            return error_set(error, ATTUNE_NO_TOOLCHAIN, "the helper program %s (%s) cannot be run: %s", named,
                             path != NULL ? "named by the caller" : "from ATTUNE_HELPER", strerror(errno));
        }
        if ((size_t)snprintf(helper, bytes, "%s", named) >= bytes) {
            return error_set(error, ATTUNE_INVALID, "the helper's path is longer than %zu bytes", bytes);
        }
        return ATTUNE_OK;
    }
    struct error why = {0};
    if (program_beside("attune-helper", "generator", helper, bytes, &why) != ATTUNE_OK) {
        return error_set(error, ATTUNE_NO_TOOLCHAIN,
                         "attune-helper, which runs the compilers, is missing (%s): install it or set ATTUNE_HELPER to "
                         "its path",
                         why.message);
    }
    return ATTUNE_OK;
}

/* ---- its folder ---- */

/* a folder is of use only if a file of some size fits: a full file system answers mkdir happily */
static bool folder_has_room(const char *folder)
{
    char path[PATH_MAX];
    char block[4096] = {0};
    if (path_join(path, sizeof path, folder, "room", NULL) != ATTUNE_OK) {
        return false;
    }
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) {
        return false;
    }
    bool room = true;
    for (int i = 0; i < 64 && room; i++) {
        int failed = file_write_fully(file, block, sizeof block);
        /* a file size limit of the caller's says nothing of the folder, and is not the compilers' */
        room = failed == 0 || failed == EFBIG;
    }
    room = close(file) == 0 && room;
    (void)unlink(path);
    return room;
}

static attune_status worker_folder(char *folder, size_t bytes, struct error *error)
{
    const char *wanted = environment_get("TMPDIR");
    const char *others[] = {"/tmp", "/var/tmp", environment_get("HOME")};
    if (wanted == NULL || *wanted == '\0') {
        wanted = "/tmp";
    }
    if (folder_temporary(folder, bytes, error) == ATTUNE_OK) {
        bool room = folder_has_room(folder);
        bool there = strncmp(folder, wanted, strlen(wanted)) == 0;
        if (!room) {
            folder_remove(folder);
        } else {
            if (!there) {
                warn_once("TMPDIR", "TMPDIR=%s cannot be used for the compilers' files; using %s", wanted, folder);
            }
            return ATTUNE_OK;
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i] == NULL || path_join(folder, bytes, others[i], "attune-XXXXXX", NULL) != ATTUNE_OK ||
            mkdtemp(folder) == NULL) {
            continue;
        }
        if (folder_has_room(folder)) {
            warn_once("TMPDIR", "TMPDIR=%s is full or missing; the compilers' files go to %s", wanted, folder);
            return ATTUNE_OK;
        }
        folder_remove(folder);
    }
    folder[0] = '\0';
    return error_set(
        error, ATTUNE_IO,
        "no folder for the compilers' temporary files: TMPDIR=%s, /tmp, /var/tmp and HOME are missing, full or "
        "not writable; set TMPDIR to a folder with 100 MiB free",
        wanted);
}

static bool folder_is_full(const struct worker *worker)
{
    struct statvfs facts;
    return worker->folder[0] != '\0' && statvfs(worker->folder, &facts) == 0 &&
           (uint64_t)facts.f_bavail * facts.f_frsize < nearly_full_bytes;
}

/* ---- reading ---- */

/* what it wrote to stderr, the first mebibyte of it in all: a flood costs no memory */
static void hear(struct worker *worker, struct buffer *errors)
{
    process_errors(&worker->process, errors,
                   errors->length < PROTOCOL_LOG_BYTES ? PROTOCOL_LOG_BYTES - errors->length : 0);
}

static void describe_end(struct worker *worker, char *text, size_t bytes)
{
    siginfo_t info = {0};
    /* the pipe closes before the process can be waited for; on a busy machine long before */
    for (int i = 0; i < 1000; i++) {
        if (waitid(P_PID, (id_t)worker->process.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0) {
            break;
        }
        (void)usleep(10000);
    }
    if (info.si_pid == 0) {
        (void)snprintf(text, bytes, "closed its output");
    } else if (info.si_code == CLD_EXITED) {
        (void)snprintf(text, bytes, "exited with status %d", info.si_status);
    } else {
        worker->ended_by_others = !process_signal_is_fault(info.si_status); /* ours come with a limit */
        (void)snprintf(text, bytes, "was ended by signal %d (%s)", info.si_status, strsignal(info.si_status));
    }
}

/* read until `wanted` bytes are in `into`, draining stderr meanwhile */
static attune_status read_bytes(struct worker *worker, struct buffer *into, size_t wanted, double deadline,
                                const struct worker_limits *limits, struct buffer *errors, struct error *error)
{
    char how[128];
    double next_look = clock_seconds() + 2 * poll_seconds;
    attune_status status = ATTUNE_OK;
    if (!buffer_reserve(into, wanted + 1)) {
        return error_no_memory(error);
    }
    while (into->length < wanted) {
        struct pollfd files[2] = {{worker->process.from_child, POLLIN, 0}, {worker->process.errors, POLLIN, 0}};
        (void)poll(files, files[1].fd >= 0 ? 2 : 1, (int)(1000 * poll_seconds));
        if (files[1].revents != 0) {
            hear(worker, errors);
        }
        if ((files[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            /* straight into the buffer, which has the room: callers' threads may have small stacks */
            ssize_t got = read(worker->process.from_child, into->data + into->length, wanted - into->length);
            if (got > 0) {
                into->length += (size_t)got;
                into->data[into->length] = '\0';
            } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
                describe_end(worker, how, sizeof how);
                hear(worker, errors);
                return error_set(error, ATTUNE_COMPILE_FAILED, "the compiler's process %s", how);
            }
        }
        double now = clock_seconds();
        if (now > deadline) {
            status = error_set(error, ATTUNE_TIMEOUT, "the compiler was stopped: it ran past its limit of %.3g seconds",
                               limits->seconds);
            break;
        }
        if (limits->rss_bytes > 0 && now > next_look) {
            uint64_t used = process_group_rss(worker->process.pid);
            /* a look reads all of /proc: where that is slow, look less often, so that it stays near 2 % of a core */
            double cost = clock_seconds() - now;
            next_look = now + (50 * cost > poll_seconds ? 50 * cost : poll_seconds);
            if (used > limits->rss_bytes) {
                status = error_set(error, ATTUNE_NO_MEMORY,
                                   "the compiler was stopped: it held %llu MiB of memory, over its limit of %llu MiB",
                                   (unsigned long long)(used >> 20), (unsigned long long)(limits->rss_bytes >> 20));
                break;
            }
        }
    }
    hear(worker, errors);
    return status;
}

/* the next message, which must answer `request` */
static attune_status read_message(struct worker *worker, uint32_t request, const struct worker_limits *limits,
                                  struct buffer *payload, struct message *reply, struct buffer *errors,
                                  struct error *error)
{
    double deadline = clock_seconds() + limits->seconds;
    struct message_head head;
    buffer_clear(payload);
    attune_status status = read_bytes(worker, payload, PROTOCOL_HEADER_BYTES, deadline, limits, errors, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = message_header(payload->data, &head, error);
    if (status == ATTUNE_OK && head.request != request) {
        status = error_set(error, ATTUNE_CORRUPT, "attune-helper answered request %u, number %u was asked",
                           head.request, request);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    buffer_clear(payload);
    status = read_bytes(worker, payload, head.payload_bytes, deadline, limits, errors, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    return message_parse(head.kind, payload->data, payload->length, reply, error);
}

/* ---- life ---- */

attune_status worker_start(struct worker *worker, const char *helper, double seconds, struct error *error)
{
    struct buffer payload = BUFFER_INIT;
    struct buffer errors = BUFFER_INIT;
    struct message hello;
    const struct worker_limits limits = {seconds < hello_seconds ? seconds : hello_seconds, 0};
    memset(worker, 0, sizeof *worker);
    attune_status status = worker_folder(worker->folder, sizeof worker->folder, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    const char *const argv[] = {helper, "--serve", worker->folder, NULL};
    const struct process_options options = {.argv = argv, .directory = "/"};
    status = process_start(&options, &worker->process, error);
    if (status != ATTUNE_OK) {
        folder_remove(worker->folder);
        return error_prefix(error, "starting %s", helper);
    }
    worker->running = true;
    atomic_fetch_add(&starts, 1);
    status = read_message(worker, 0, &limits, &payload, &hello, &errors, error);
    if (status == ATTUNE_OK && hello.kind != MESSAGE_HELLO) {
        status = error_set(error, ATTUNE_CORRUPT, "its first message is of kind %u", hello.kind);
    }
    if (status != ATTUNE_OK) {
        struct error cause = {.message = ""};
        if (error != NULL) {
            cause = *error;
        }
        status = error_set(error, ATTUNE_NO_TOOLCHAIN, "%s is not a working attune-helper of this release: %s%s%.500s",
                           helper, cause.message, errors.length > 0 ? "; it wrote: " : "", buffer_string(&errors));
        worker_stop(worker);
    }
    buffer_free(&payload);
    buffer_free(&errors);
    return status;
}

void worker_stop(struct worker *worker)
{
    if (worker->running) {
        process_kill(&worker->process);
        worker->running = false;
    }
    if (worker->folder[0] != '\0') {
        folder_remove(worker->folder);
        worker->folder[0] = '\0';
    }
}

bool worker_alive(const struct worker *worker)
{
    if (!worker->running) {
        return false;
    }
    /* somebody cleaned the temporary folder: it cannot compile any more */
    if (access(worker->folder, W_OK | X_OK) != 0) {
        return false;
    }
    /* an idle worker has nothing to say: readable or hung up both mean that it is of no more use */
    struct pollfd file = {worker->process.from_child, POLLIN, 0};
    return poll(&file, 1, 0) == 0;
}

attune_status worker_exchange(struct worker *worker, struct buffer *frame, const struct worker_limits *limits,
                              struct buffer *payload, struct message *reply, struct buffer *errors, struct error *error)
{
    uint32_t request = ++worker->requests;
    char how[128];
    worker->ended_by_others = false;
    message_set_request(frame, request);
    attune_status status =
        process_write(&worker->process, frame->data, frame->length, clock_seconds() + limits->seconds, error);
    if (status == ATTUNE_OK) {
        status = read_message(worker, request, limits, payload, reply, errors, error);
        if (status == ATTUNE_OK && reply->kind != MESSAGE_REPLY) {
            status = error_set(error, ATTUNE_COMPILE_FAILED, "attune-helper answered with a message of kind %u",
                               reply->kind);
        }
    } else {
        hear(worker, errors);
        describe_end(worker, how, sizeof how);
        status = error_set(error, ATTUNE_COMPILE_FAILED, "the compiler's process no longer takes requests: it %s", how);
    }
    if (status == ATTUNE_CORRUPT || status == ATTUNE_UNSUPPORTED || status == ATTUNE_INVALID) {
        status = ATTUNE_COMPILE_FAILED;
        if (error != NULL) {
            error->status = status;
        }
    }
    worker->served++;
    bool failed = status != ATTUNE_OK || message_integer(reply, KEY_STATUS) != ATTUNE_OK;
    if (failed && folder_is_full(worker)) {
        buffer_format(errors, "error: the temporary folder %s is full: free space or set TMPDIR\n", worker->folder);
    }
    if (status != ATTUNE_OK) {
        worker_stop(worker);
    }
    return status;
}
