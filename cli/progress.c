/* progress.c - the progress line; see progress.h. */
#include "cli/progress.h"

#include "base/process.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_WIDTH = 20, SHORT_BAR_WIDTH = 10, LINE_BYTES = 512, COLUMNS_ASSUMED = 80 };

void progress_begin(struct progress *progress)
{
    *progress = (struct progress){.on = isatty(STDERR_FILENO) == 1};
}

static int terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    return COLUMNS_ASSUMED;
}

/* bytes of the longest prefix of at most `columns` code points */
static int prefix_bytes(const char *text, int columns)
{
    int bytes = 0;
    for (int seen = 0; text[bytes] != '\0'; bytes++) {
        seen += ((unsigned char)text[bytes] & 0xc0) != 0x80;
        if (seen > columns) {
            break;
        }
    }
    return bytes;
}

void progress_update(struct progress *progress, int done, int total, double left_seconds, const char *format, ...)
{
    double now = progress->on ? clock_seconds() : 0;
    if (!progress->on || (now - progress->drawn < 0.1 && done != total)) {
        return;
    }
    progress->drawn = now;
    char bar[BAR_WIDTH + 1];
    int filled = total > 0 ? (int)((long long)done * BAR_WIDTH / total) : 0;
    for (int i = 0; i < BAR_WIDTH; i++) {
        bar[i] = i < filled ? '#' : '.';
    }
    bar[BAR_WIDTH] = '\0';
    char line[LINE_BYTES];
    int length = snprintf(line, sizeof line, "[%s] %d/%d ", bar, done, total);
    if (left_seconds >= 0 && length < LINE_BYTES) {
        int left = (int)(left_seconds + 0.5);
        length += snprintf(line + length, sizeof line - (size_t)length, "%d:%02d left ", left / 60, left % 60);
    }
    if (length < LINE_BYTES) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(line + length, sizeof line - (size_t)length, format, arguments);
        va_end(arguments);
    }
    fprintf(stderr, "\r%.*s\033[K", prefix_bytes(line, terminal_columns() - 1), line);
    fflush(stderr);
}

static int columns_of(const char *text)
{
    int columns = 0;
    for (; *text != '\0'; text++) {
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return columns;
}

/* appends it where all of it fits */
static bool add_part(char *line, size_t bytes, int *taken, int columns, const char *before, const char *part)
{
    const size_t used = strlen(line);
    const int wanted = columns_of(before) + columns_of(part);
    if (part[0] == '\0' || *taken + wanted > columns || used + strlen(before) + strlen(part) >= bytes) {
        return false;
    }
    snprintf(line + used, bytes - used, "%s%s", before, part);
    *taken += wanted;
    return true;
}

int progress_line(char *line, size_t bytes, int columns, const char *lead, int done, int total, double left_seconds,
                  const char *const *parts, int count)
{
    char facts[64], bar[SHORT_BAR_WIDTH + 1];
    int taken = 0, length = snprintf(facts, sizeof facts, "%d/%d", done, total);
    if (left_seconds >= 0 && left_seconds < 1e6) {
        int left = (int)(left_seconds + 0.5);
        length += snprintf(facts + length, sizeof facts - (size_t)length, " %d:%02d left", left / 60, left % 60);
    }
    int filled = total > 0 && done > 0 ? (int)((long long)(done < total ? done : total) * SHORT_BAR_WIDTH / total) : 0;
    memset(bar, '.', SHORT_BAR_WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[SHORT_BAR_WIDTH] = '\0';
    line[0] = '\0';
    /* what always stands is kept room for */
    (void)add_part(line, bytes, &taken, columns - SHORT_BAR_WIDTH - 3 - length, "", lead);
    if (add_part(line, bytes, &taken, columns - length - 2, taken > 0 ? " [" : "[", bar)) {
        (void)add_part(line, bytes, &taken, columns, "] ", facts);
    }
    for (int i = 0; i < count; i++) {
        (void)add_part(line, bytes, &taken, columns, ", ", parts[i]);
    }
    return taken;
}

void progress_show(struct progress *progress, const char *lead, int done, int total, double left_seconds,
                   const char *const *parts, int count)
{
    char line[LINE_BYTES];
    double now = progress->on ? clock_seconds() : 0;
    if (progress->on && (now - progress->drawn >= 0.1 || done == total)) {
        progress->drawn = now;
        progress_line(line, sizeof line, terminal_columns() - 1, lead, done, total, left_seconds, parts, count);
        fprintf(stderr, "\r%s\033[K", line);
        fflush(stderr);
    }
}

void progress_wipe(struct progress *progress)
{
    if (progress->on && progress->drawn > 0) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress->drawn = 0;
    }
}

void progress_end(struct progress *progress)
{
    progress_wipe(progress);
    progress->on = false;
}
