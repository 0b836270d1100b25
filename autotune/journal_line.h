/* journal_line.h - one line of a journal between its text and its struct; nobody but the journal's files includes it.
 */
#ifndef AUTOTUNE_JOURNAL_LINE_H
#define AUTOTUNE_JOURNAL_LINE_H

#include "autotune/journal.h"

enum journal_kind { JOURNAL_BEGIN, JOURNAL_CONSTRAINT, JOURNAL_RESUME, JOURNAL_OUTCOME, JOURNAL_END, JOURNAL_KINDS };

union journal_line {
    struct journal_begin begin;
    struct journal_constraint constraint;
    struct journal_resume resume;
    struct journal_outcome outcome;
    struct journal_end end;
};

/* appends the line with its newline; `values` is the kind's struct. What no line can hold is written as what comes
 * nearest: bytes that are no text as '?', a time that is none as 0. False without memory. */
bool journal_line_format(enum journal_kind kind, const void *values, struct buffer *text);
/* false for what is no line of a journal, whatever it is */
bool journal_line_parse(const char *text, size_t length, enum journal_kind *kind, union journal_line *line);

#endif
