/* error.h - a status with the sentence that explains it.
 *
 * Every function that can fail takes a `struct error *` last and returns the status. The message names the argument,
 * the value, the limit and the fix. `error` may be NULL where a caller does not care for the text. A function that
 * returns ATTUNE_OK leaves the error untouched. Control characters but newline and tab are shown as '?': what is quoted
 * may be a foreign file's.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/attune_status.h"

#include <stddef.h>

enum { ERROR_MESSAGE_BYTES = 4096 };

struct error {
    attune_status status;
    char message[ERROR_MESSAGE_BYTES]; /* NUL-terminated; cut at the end (whole UTF-8 not guaranteed) when longer */
};

/* store status and message; returns status so that `return error_set(...)` reads well */
attune_status error_set(struct error *error, attune_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* put "context: " before the message that is there; returns the stored status */
attune_status error_prefix(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ": <strerror>" is appended; status ATTUNE_IO, or ATTUNE_NO_MEMORY for ENOMEM. `errno_value` is taken first, so that
 * the callers need not save it */
attune_status error_errno(struct error *error, int errno_value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

attune_status error_no_memory(struct error *error);

/* one line on stderr, "attune: warning: ...", at most once a process for each `key`; thread-safe. ATTUNE_QUIET=1 mutes
 */
void warn_once(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* the same each time and without "warning": what begins now and may take long */
void tell_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
