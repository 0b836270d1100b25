/* journal.c - the file of a journal: append-only, one write a line, locked while it is open. */
#include "autotune/journal_line.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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
    (void)flock(journal->file, LOCK_EX | LOCK_NB); /* for journal_is_written alone: no harm where there are no locks */
    return ATTUNE_OK;
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

static void write_line(struct journal *journal, enum journal_kind kind, const void *values)
{
    if (journal->file < 0) {
        return;
    }
    struct buffer line = BUFFER_INIT; /* one write a line: a reader never sees half of two */
    int failure = journal_line_format(kind, values, &line) ? 0 : ENOMEM;
    if (failure == 0) {
        failure = file_write_fully(journal->file, line.data, line.length);
    }
    if (failure == 0 && fdatasync(journal->file) != 0) {
        failure = errno;
    }
    if (failure != 0) {
        warn_once(journal->path, "the journal %s ends here: %s", journal->path, strerror(failure));
        journal_close(journal);
    }
    buffer_free(&line);
}

void journal_write_begin(struct journal *journal, const struct journal_begin *begin)
{
    write_line(journal, JOURNAL_BEGIN, begin);
}

void journal_write_outcome(struct journal *journal, enum journal_stage stage, const struct tune_outcome *outcome)
{
    const struct journal_outcome line = {.stage = stage, .what = *outcome};
    write_line(journal, JOURNAL_OUTCOME, &line);
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
