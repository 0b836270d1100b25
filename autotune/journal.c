/* journal.c - append-only JSON lines. */
#include "autotune/journal.h"

#include "base/files.h"
#include "base/locale.h"
#include "base/text_json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    return ATTUNE_OK;
}

void journal_write(struct journal *journal, json_t *line)
{
    if (journal->file >= 0 && line != NULL) {
        locale_t previous = locale_enter();
        char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
        locale_leave(previous);
        struct buffer bytes = BUFFER_INIT; /* one write a line: a reader never sees half of two */
        buffer_text(&bytes, text != NULL ? text : "{}");
        buffer_text(&bytes, "\n");
        free(text);
        if (buffer_ok(&bytes, NULL) != ATTUNE_OK || file_write_fully(journal->file, bytes.data, bytes.length) != 0 ||
            fdatasync(journal->file) != 0) {
            warn_once(journal->path, "the journal %s ends here: %s", journal->path, strerror(errno));
            journal_close(journal);
        }
        buffer_free(&bytes);
    }
    json_decref(line);
}

void journal_outcome(struct journal *journal, const char *stage, const struct tune_outcome *outcome)
{
    journal_write(journal, json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:f, s:f, s:i, s:i, s:i}", "kind", "outcome",
                                     "stage", stage, "id", outcome->id, "candidate", outcome->candidate, "outcome",
                                     outcome->outcome, "reason", text_to_json(outcome->reason), "microseconds",
                                     outcome->microseconds, "spread", outcome->spread, "registers", outcome->registers,
                                     "scratch_bytes", outcome->scratch_bytes, "shared_bytes", outcome->shared_bytes));
}

void journal_close(struct journal *journal)
{
    if (journal->file >= 0) {
        close(journal->file);
        journal->file = -1;
    }
}
