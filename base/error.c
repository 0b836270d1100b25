/* error.c - errors and one-time warnings. */
#include "base/error.h"

#include "base/control.h"
#include "base/environment.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a message quotes may come from a foreign file, and messages end on terminals: control characters are written as
 * \x1b, C1's by their second byte. Lines and tabs stay, for compilers' logs. Cut at the end when it
 * grows too long. */
static void make_printable(char text[ERROR_MESSAGE_BYTES])
{
    char shown[ERROR_MESSAGE_BYTES];
    size_t used = 0;
    for (const char *c = text; *c != '\0'; c++) {
        const size_t control = *c != '\n' && *c != '\t' ? control_length(c) : 0, first = (unsigned char)*c == 0xc2;
        if (used + (control > 0 ? 4 * control : 1) >= sizeof shown) {
            break;
        }
        for (size_t i = first; i < control; i++) {
            used += (size_t)snprintf(shown + used, sizeof shown - used, "\\x%02x", (unsigned char)c[i]);
        }
        if (control > 0) {
            c += control - 1;
        } else {
            shown[used++] = *c;
        }
    }
    shown[used] = '\0';
    memcpy(text, shown, used + 1);
}

static void set_message(struct error *error, attune_status status, const char *format, va_list arguments)
{
    if (!error) {
        return;
    }
    /* by way of a local: arguments may point into error->message */
    char message[ERROR_MESSAGE_BYTES];
    if (vsnprintf(message, sizeof message, format, arguments) < 0) {
        snprintf(message, sizeof message, "%s", format);
    }
    make_printable(message);
    error->status = status;
    memcpy(error->message, message, strlen(message) + 1);
}

attune_status error_set(struct error *error, attune_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_message(error, status, format, arguments);
    va_end(arguments);
    return status;
}

attune_status error_prefix(struct error *error, const char *format, ...)
{
    if (!error) {
        return ATTUNE_INTERNAL;
    }
    char prefix[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    if (length < 0) {
        return error->status;
    }
    make_printable(prefix);
    size_t used = strlen(prefix);
    size_t room = sizeof prefix - 1 - used;
    size_t separator = room < 2 ? room : 2;
    memcpy(prefix + used, ": ", separator);
    size_t kept = strnlen(error->message, room - separator); /* a long message loses its end */
    memcpy(prefix + used + separator, error->message, kept);
    prefix[used + separator + kept] = '\0';
    memcpy(error->message, prefix, used + separator + kept + 1);
    return error->status;
}

attune_status error_errno(struct error *error, int errno_value, const char *format, ...)
{
    attune_status status = errno_value == ENOMEM ? ATTUNE_NO_MEMORY : ATTUNE_IO;
    if (!error) {
        return status;
    }
    va_list arguments;
    va_start(arguments, format);
    set_message(error, status, format, arguments);
    va_end(arguments);
    char reason[128];
    const char *text = strerror_r(errno_value, reason, sizeof reason); /* GNU form: may be a static string */
    size_t used = strlen(error->message);
    snprintf(error->message + used, sizeof error->message - used, ": %s", text);
    return status;
}

attune_status error_no_memory(struct error *error)
{
    return error_set(error, ATTUNE_NO_MEMORY, "out of memory");
}

/* The one piece of process-wide state that "once a process" needs: keys already warned about. */
enum { WARNED_MAX = 256, WARNED_KEY_BYTES = 96 };
static pthread_mutex_t warned_mutex = PTHREAD_MUTEX_INITIALIZER;
static char warned_keys[WARNED_MAX][WARNED_KEY_BYTES];
static int warned_count;

static bool first_warning(const char *key)
{
    char cut[WARNED_KEY_BYTES];
    snprintf(cut, sizeof cut, "%s", key);
    bool first = true;
    pthread_mutex_lock(&warned_mutex);
    for (int i = 0; i < warned_count && first; i++) {
        first = strcmp(warned_keys[i], cut) != 0;
    }
    if (first && warned_count == WARNED_MAX) {
        first = false; /* full: silence is better than a flood */
    } else if (first) {
        memcpy(warned_keys[warned_count++], cut, sizeof cut);
    }
    pthread_mutex_unlock(&warned_mutex);
    return first;
}

static bool is_quiet(void)
{
    const char *quiet = environment_get("ATTUNE_QUIET");
    return quiet && strcmp(quiet, "1") == 0;
}

static void print_line(const char *kind, const char *format, va_list arguments)
{
    char message[ERROR_MESSAGE_BYTES];
    vsnprintf(message, sizeof message, format, arguments);
    make_printable(message);
    for (char *c = message; *c; c++) { /* one line, whatever a path or a driver put in */
        if (*c == '\n' || *c == '\t') {
            *c = ' ';
        }
    }
    fprintf(stderr, "attune: %s%s\n", kind, message);
}

void warn_once(const char *key, const char *format, ...)
{
    if (!is_quiet() && first_warning(key)) {
        va_list arguments;
        va_start(arguments, format);
        print_line("warning: ", format, arguments);
        va_end(arguments);
    }
}

void tell_line(const char *format, ...)
{
    if (!is_quiet()) {
        va_list arguments;
        va_start(arguments, format);
        print_line("", format, arguments);
        va_end(arguments);
    }
}
