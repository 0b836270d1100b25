/* runner_program.c - a runner program on one folder: its environment, its limits, and what its end means. */
#include "base/environment.h"
#include "base/files.h"
#include "base/process.h"
#include "runtime/runner_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { REPORT_BYTES = 2500, REPORT_LINES = 24, REPORT_LINE_BYTES = 240 };

/* An exit code alone may come from a program that did nothing: buffers that it never touched would pass for results. */
static attune_status check_done(const char *folder, struct error *error)
{
    char path[1024];
    struct stat facts;
    attune_status status = path_join(path, sizeof path, folder, RUNNER_DONE, error);
    if (status != ATTUNE_OK || lstat(path, &facts) == 0) {
        return status;
    }
    if (errno != ENOENT && errno != ENOTDIR) {
        error_errno(error, errno, "its file %s cannot be looked for: the folder must stay ours to read and write",
                    RUNNER_DONE);
    } else {
        error_set(error, ATTUNE_DEVICE_FAILED,
                  "it did not say that it ran the kernel: its last act must be an empty file %s in the folder",
                  RUNNER_DONE);
    }
    return ATTUNE_DEVICE_FAILED;
}

static size_t without_trailing_blanks(const char *text, size_t length)
{
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' ')) {
        length--;
    }
    return length;
}

/* The lines that explain: from the sanitizer's headline on where there is one, else from the start; bounded. */
static void first_lines(const char *text, char report[REPORT_BYTES])
{
    static const char *const headlines[] = {"ERROR: AddressSanitizer", "WARNING: ThreadSanitizer",
                                            "runtime error:", "FATAL: ThreadSanitizer"};
    const char *start = NULL;
    for (size_t i = 0; i < sizeof headlines / sizeof headlines[0]; i++) {
        const char *found = strstr(text, headlines[i]);
        if (found != NULL && (start == NULL || found < start)) {
            start = found;
        }
    }
    if (start == NULL) {
        start = text;
    }
    while (start > text && start[-1] != '\n') {
        start--;
    }
    size_t length = 0;
    for (int lines = 0; start[length] != '\0' && length < REPORT_BYTES - 1 && lines < REPORT_LINES; length++) {
        lines += start[length] == '\n';
    }
    length = without_trailing_blanks(start, length);
    memcpy(report, start, length);
    report[length] = '\0';
}

/* A simulator tells much before it stops, and why it stopped last: the last line, which must survive where reports are
 * cut short, then those before it; bounded. */
static void last_lines(const char *text, size_t bytes, char report[REPORT_BYTES])
{
    size_t end = without_trailing_blanks(text, bytes), last = end, start;
    while (last > 0 && text[last - 1] != '\n') {
        last--;
    }
    if (end - last > REPORT_LINE_BYTES) {
        end = last + REPORT_LINE_BYTES;
    }
    start = last;
    for (int lines = 0; start > 0 && last - start < REPORT_BYTES - REPORT_LINE_BYTES - 64; start--) {
        lines += text[start - 1] == '\n';
        if (lines > REPORT_LINES) {
            break;
        }
    }
    size_t before = without_trailing_blanks(text + start, last - start);
    snprintf(report, REPORT_BYTES, "%.*s%s%.*s", (int)(end - last), text + last, before > 0 ? "\nbefore that:\n" : "",
             (int)before, text + start);
}

static void sanitizer_variable(char *text, size_t bytes, const char *name, const char *ours)
{
    const char *theirs = environment_get(name); /* the user's options come last and win */
    snprintf(text, bytes, "%s=%s%s%s", name, ours, theirs && theirs[0] ? ":" : "", theirs ? theirs : "");
}

static attune_status run_sanitizer(const struct runner *runner, const char *folder, const struct process_guard *guard,
                                   bool fixed_addresses, struct process_result *result, struct error *error)
{
    char address[1024], undefined[1024], thread[1024];
    sanitizer_variable(address, sizeof address, "ASAN_OPTIONS",
                       "detect_leaks=0:halt_on_error=1:exitcode=99:abort_on_error=0:detect_stack_use_after_return=0");
    sanitizer_variable(undefined, sizeof undefined, "UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1:exitcode=99");
    sanitizer_variable(thread, sizeof thread, "TSAN_OPTIONS",
                       "atexit_sleep_ms=0:halt_on_error=1:exitcode=99:report_thread_leaks=0");
    /* one worker: blocks in index order, so that a report is the same every time */
    const char *environment[] = {address, undefined, thread, "ATTUNE_HOST_WORKERS=1", NULL};
    const char *plain[] = {runner->program, folder, NULL};
    const char *fixed[] = {"setarch", "-R", runner->program, folder, NULL};
    struct process_options options = {
        .argv = fixed_addresses ? fixed : plain,
        .environment = environment,
        .seconds = runner->seconds,
        .guard = guard,
    };
    return process_run(&options, result, error);
}

static attune_status run_program(const struct runner *runner, const char *folder, const struct process_guard *guard,
                                 struct process_result *result, struct error *error)
{
    if (runner->simulates) {
        const char *words[] = {runner->program, folder, NULL};
        struct process_options options = {.argv = words, .seconds = runner->seconds, .keep_end = true, .guard = guard};
        return process_run(&options, result, error);
    }
    attune_status status = run_sanitizer(runner, folder, guard, false, result, error);
    /* ThreadSanitizer of older compilers cannot live with the address randomisation of newer kernels */
    if (status == ATTUNE_OK && result->exit_code != 0 &&
        strstr(buffer_string(&result->errors), "unexpected memory mapping") != NULL) {
        process_result_free(result);
        memset(result, 0, sizeof *result);
        status = run_sanitizer(runner, folder, guard, true, result, error);
    }
    return status;
}

/* Says what happened, and what the program printed: its errors, or its output when it has none. Where a sanitizer
 * reports, that is what happened. */
static attune_status blame(const struct runner *runner, const struct process_result *result, attune_status status,
                           const char *what, struct error *error)
{
    const struct buffer *said = result->errors.length > 0 ? &result->errors : &result->output;
    char report[REPORT_BYTES];
    const char *name = strrchr(runner->program, '/');
    name = name ? name + 1 : runner->program;
    if (runner->simulates) {
        last_lines(buffer_string(said), said->length, report);
    } else {
        first_lines(buffer_string(said), report);
    }
    if (report[0] == '\0') {
        return error_set(error, status, "%s %s; it printed nothing", name, what);
    }
    return !runner->simulates && result->exit_code > 0 ? error_set(error, status, "%s: %s", name, report)
                                                       : error_set(error, status, "%s %s: %s", name, what, report);
}

static attune_status check_result(const struct runner *runner, const struct process_result *result, struct error *error)
{
    char what[64];
    if (result->exit_code == 0) {
        return ATTUNE_OK;
    }
    if (result->exit_code < 0) {
        snprintf(what, sizeof what, "died by signal %d", result->signal);
    } else {
        snprintf(what, sizeof what, "ended with exit code %d", result->exit_code);
    }
    return blame(runner, result, ATTUNE_DEVICE_FAILED, what, error);
}

/* what the program left in the folder */
static attune_status check_folder(struct runner *runner, const char *folder, const struct launch_buffers *buffers,
                                  const struct process_result *result, struct error *error)
{
    char what[1024];
    struct error failure = {0};
    attune_status status = check_done(folder, &failure);
    if (status == ATTUNE_OK) {
        status = runner_read_folder(runner, folder, buffers, &failure);
    }
    if (status == ATTUNE_OK || status == ATTUNE_NO_MEMORY) {
        return status == ATTUNE_OK ? status : error_no_memory(error);
    }
    snprintf(what, sizeof what, "ended with exit code 0, but %.900s", failure.message);
    return blame(runner, result, status, what, error);
}

attune_status runner_run_folder(struct runner *runner, const char *folder, const struct process_guard *guard,
                                const struct launch_buffers *buffers, struct error *error)
{
    struct process_result result = {0};
    attune_status status = run_program(runner, folder, guard, &result, error);
    if (status == ATTUNE_TIMEOUT) {
        char what[64];
        snprintf(what, sizeof what, "did not end within %g seconds", runner->seconds);
        status = blame(runner, &result, status, what, error);
    } else if (status == ATTUNE_OK) {
        status = check_result(runner, &result, error);
        status = status == ATTUNE_OK ? check_folder(runner, folder, buffers, &result, error) : status;
    }
    process_result_free(&result);
    return status;
}
