/* journal.c - the file of a journal: append-only, one write a line, locked while it is open. */
#include "autotune/journal_line.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* the file's name too is on disk before its lines are; some file systems refuse */
static void sync_folder(const char *path)
{
    char folder[sizeof((struct journal *)0)->path];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL) {
        *slash = '\0';
        int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (file >= 0) {
            (void)fsync(file);
            close(file);
        }
    }
}

/* Until the file is closed; false when another process keeps it so long. Who only asks whether it is taken holds it for
 * a moment. Where there are no locks nobody has one: no harm. */
static bool take_lock(int file, double seconds)
{
    for (int attempt = 0; attempt < seconds / 0.02; attempt++) {
        if (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
            return true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return false;
}

attune_status journal_open(struct journal *journal, struct store *store, const char *run, struct error *error)
{
    *journal = (struct journal){.file = -1};
    if (store_path(store)[0] == '\0') {
        return ATTUNE_OK;
    }
    attune_status status = store_journal_path(store, run, journal->path, sizeof journal->path, error);
    if (status != ATTUNE_OK) {
        journal->path[0] = '\0';
        return status;
    }
    journal->file = open(journal->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (journal->file < 0) {
        attune_status failed = error_errno(error, errno, "%s cannot be written", journal->path);
        journal->path[0] = '\0';
        return failed;
    }
    sync_folder(journal->path);
    (void)take_lock(journal->file, 1.0); /* tells others that the run lives */
    return ATTUNE_OK;
}

static attune_status end_torn_line(struct journal *journal, const struct journal_reading *reading, struct error *error)
{
    int failure = reading->torn ? file_write_fully(journal->file, "\n", 1) : 0;
    return failure == 0 ? ATTUNE_OK : error_errno(error, failure, "%s cannot be written", journal->path);
}

attune_status journal_continue(struct journal *journal, struct store *store, const char *run,
                               struct journal_reading *reading, bool *written, struct error *error)
{
    struct buffer text = BUFFER_INIT;
    *journal = (struct journal){.file = -1};
    *reading = (struct journal_reading){0};
    *written = false;
    attune_status status = store_journal_read(store, run, &text, error); /* refuses what is not a file of ours alone */
    if (status == ATTUNE_OK) {
        status = store_journal_path(store, run, journal->path, sizeof journal->path, error);
    }
    if (status != ATTUNE_OK) {
        goto out;
    }
    journal->file = open(journal->path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (journal->file < 0) {
        status = error_errno(error, errno, "%s cannot be written", journal->path);
        goto out;
    }
    if (!take_lock(journal->file, 0.1)) {
        *written = true;
        status = error_set(error, ATTUNE_IO, "%s is being written by another process that tunes this problem",
                           journal->path);
        goto out;
    }
    buffer_clear(&text); /* again, since it was another's until now */
    status = store_journal_read(store, run, &text, error);
    if (status == ATTUNE_OK) {
        status = journal_read(buffer_string(&text), text.length, reading, error);
    }
    if (status == ATTUNE_OK && (!reading->has_begin || strcmp(reading->begin.run, run) != 0)) {
        status = error_set(error, ATTUNE_CORRUPT, "%s is not the journal of run %s", journal->path, run);
    }
    if (status == ATTUNE_OK) {
        status = end_torn_line(journal, reading, error);
    }
out:
    buffer_free(&text);
    if (status != ATTUNE_OK) {
        journal_close(journal);
        journal_reading_free(reading);
    }
    return status;
}

bool journal_peek(const char *path, struct journal_begin *begin)
{
    char *line = malloc(JOURNAL_LINE_BYTES_MAX + 1);
    struct stat facts;
    union journal_line parsed;
    enum journal_kind kind;
    bool good = false;
    if (line == NULL || lstat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        free(line);
        return false;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    ssize_t got = file >= 0 ? pread(file, line, JOURNAL_LINE_BYTES_MAX + 1, 0) : 0;
    const char *end = got > 0 ? memchr(line, '\n', (size_t)got) : NULL;
    if (end != NULL) {
        good = journal_line_parse(line, (size_t)(end - line), &kind, &parsed) && kind == JOURNAL_BEGIN;
    }
    if (good) {
        *begin = parsed.begin;
    }
    if (file >= 0) {
        close(file);
    }
    free(line);
    return good;
}

bool journal_is_written(const char *path)
{
    struct stat facts; /* before opening: to open a device may already do something */
    if (lstat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        return false;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    bool written = file >= 0 && flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (file >= 0) {
        close(file);
    }
    return written;
}

static void end_unless_good(struct journal *journal, int failure)
{
    if (failure != 0) {
        warn_once(journal->path, "the journal %s ends here: %s", journal->path, strerror(failure));
        journal_close(journal);
    }
}

/* whole lines, in one write: a reader never sees half of two */
static void append_lines(struct journal *journal, const struct buffer *lines, bool good)
{
    journal->unsynced = true;
    end_unless_good(journal, good ? file_write_fully(journal->file, lines->data, lines->length) : ENOMEM);
}

void journal_sync(struct journal *journal)
{
    if (journal->file >= 0 && journal->unsynced) {
        journal->unsynced = false;
        end_unless_good(journal, fdatasync(journal->file) != 0 ? errno : 0);
    }
}

static void append_line(struct journal *journal, enum journal_kind kind, const void *values)
{
    if (journal->file < 0) {
        return;
    }
    struct buffer line = BUFFER_INIT;
    bool good = journal_line_format(kind, values, &line);
    append_lines(journal, &line, good);
    buffer_free(&line);
}

static void write_line(struct journal *journal, enum journal_kind kind, const void *values)
{
    append_line(journal, kind, values);
    journal_sync(journal);
}

void journal_write_begin(struct journal *journal, const struct journal_begin *begin)
{
    write_line(journal, JOURNAL_BEGIN, begin);
}

void journal_write_constraints(struct journal *journal, const struct journal_constraint *constraints, int count)
{
    struct buffer lines = BUFFER_INIT;
    bool good = true;
    for (int i = 0; i < count; i++) {
        good &= journal_line_format(JOURNAL_CONSTRAINT, &constraints[i], &lines);
    }
    if (journal->file >= 0 && count > 0) {
        append_lines(journal, &lines, good);
        journal_sync(journal);
    }
    buffer_free(&lines);
}

void journal_write_resume(struct journal *journal, const struct journal_resume *resume)
{
    write_line(journal, JOURNAL_RESUME, resume);
}

void journal_append_outcome(struct journal *journal, enum journal_stage stage, const struct tune_outcome *outcome)
{
    const struct journal_outcome line = {.stage = stage, .what = *outcome};
    append_line(journal, JOURNAL_OUTCOME, &line);
}

void journal_write_outcome(struct journal *journal, enum journal_stage stage, const struct tune_outcome *outcome)
{
    journal_append_outcome(journal, stage, outcome);
    journal_sync(journal);
}

void journal_write_end(struct journal *journal, const struct journal_end *end)
{
    write_line(journal, JOURNAL_END, end);
}

void journal_close(struct journal *journal)
{
    if (journal->file >= 0) {
        close(journal->file);
        journal->file = -1;
    }
}
