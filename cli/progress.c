/* progress.c - the progress line; see progress.h. */
#include "cli/progress.h"

#include "base/process.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_WIDTH = 20, LINE_BYTES = 512, COLUMNS_ASSUMED = 80 };

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
