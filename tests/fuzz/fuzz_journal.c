/* Journals: the input as it is, then with the ids that belong to its candidates, since no mutation finds a digest. */
#include "autotune/history.h"
#include "base/digest.h"
#include "tests/fuzz/foreign_locale.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static bool near(double a, double b) /* nine digits are written */
{
    return fabs(a - b) <= 1e-8 * fabs(a);
}

static void check_text(const char *text, size_t bytes)
{
    size_t length = strnlen(text, bytes);
    HOLDS(length < bytes, "a text without end");
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i], next = (unsigned char)text[i + 1];
        HOLDS(c >= ' ' && c != 0x7f && !(c == 0xc2 && next >= 0x80 && next < 0xa0), "a control character: %s", text);
    }
}

static void check_real(double real)
{
    HOLDS(isfinite(real) && real >= 0.0 && real <= 1e15, "%g", real);
}

static void check_bounds(const struct journal_reading *reading, size_t length)
{
    HOLDS(reading->outcome_count >= 0 && reading->damaged >= 0 && reading->repeated >= 0, "negative counts");
    int lines = reading->outcome_count + reading->damaged + reading->repeated + reading->constraint_count +
                reading->resume_count;
    HOLDS(reading->constraint_count >= 0 && reading->resume_count >= 0, "negative counts");
    HOLDS((size_t)lines <= length, "more lines than bytes");
    HOLDS(lines <= JOURNAL_LINES_MAX, "too many lines");
    for (int i = 0; i < reading->constraint_count; i++) {
        const struct journal_constraint *constraint = &reading->constraints[i];
        check_text(constraint->example, sizeof constraint->example);
        HOLDS(strnlen(constraint->reason, sizeof constraint->reason) < sizeof constraint->reason &&
                  strnlen(constraint->because, sizeof constraint->because) < sizeof constraint->because,
              "a reason without end");
        HOLDS(constraint->count >= 0, "negative");
    }
    for (int i = 0; i < reading->resume_count; i++) {
        check_text(reading->resumes[i].driver, sizeof reading->resumes[i].driver);
        HOLDS(reading->resumes[i].started >= 0 && reading->resumes[i].held >= 0 && reading->resumes[i].invalid >= 0,
              "negative");
    }
    check_text(reading->begin.run, sizeof reading->begin.run);
    check_text(reading->begin.problem, sizeof reading->begin.problem);
    check_text(reading->begin.device, sizeof reading->begin.device);
    check_text(reading->begin.target, sizeof reading->begin.target);
    check_text(reading->begin.driver, sizeof reading->begin.driver);
    check_text(reading->begin.name, sizeof reading->begin.name);
    HOLDS(reading->begin.candidates >= 0 && reading->begin.started >= 0 && reading->begin.space >= 0, "negative");
    for (int i = 0; i < reading->outcome_count; i++) {
        const struct tune_outcome *outcome = &reading->outcomes[i].what;
        check_text(outcome->candidate, sizeof outcome->candidate);
        check_text(outcome->id, sizeof outcome->id);
        check_text(outcome->outcome, sizeof outcome->outcome);
        HOLDS(outcome->outcome[0] != '\0' && strlen(outcome->id) == CANDIDATE_ID_BYTES - 1, "empty");
        HOLDS(strnlen(outcome->reason, sizeof outcome->reason) < sizeof outcome->reason, "a reason without end");
        check_real(outcome->microseconds);
        check_real(outcome->spread);
        HOLDS(outcome->registers >= -1 && outcome->scratch_bytes >= -1 && outcome->shared_bytes >= -1, "negative");
        HOLDS(reading->outcomes[i].stage == JOURNAL_FIRST || reading->outcomes[i].stage == JOURNAL_FINAL, "stage %d",
              (int)reading->outcomes[i].stage);
    }
    for (int i = 0; i < reading->outcome_count && reading->outcome_count <= 64; i++) {
        int counting = 0;
        for (int j = 0; j < reading->outcome_count; j++) {
            counting += reading->outcomes[j].counts &&
                        strcmp(reading->outcomes[i].what.candidate, reading->outcomes[j].what.candidate) == 0;
        }
        HOLDS(counting == 1, "%d outcomes of %s count", counting, reading->outcomes[i].what.candidate);
    }
    check_text(reading->end.winner, sizeof reading->end.winner);
    check_real(reading->end.seconds);
    check_real(reading->end.winner_microseconds);
    check_real(reading->end.default_microseconds);
    HOLDS(reading->end.tried >= 0 && reading->end.verified >= 0 && reading->end.rejected >= 0, "negative");
}

static void check_same(const struct journal_outcome *a, const struct journal_outcome *b)
{
    HOLDS(a->stage == b->stage && strcmp(a->what.candidate, b->what.candidate) == 0 &&
              strcmp(a->what.outcome, b->what.outcome) == 0 && strcmp(a->what.reason, b->what.reason) == 0,
          "%s %s becomes %s %s", a->what.candidate, a->what.outcome, b->what.candidate, b->what.outcome);
    HOLDS(near(a->what.microseconds, b->what.microseconds) && near(a->what.spread, b->what.spread), "%.17g and %.17g",
          a->what.microseconds, b->what.microseconds);
    HOLDS(a->what.registers == b->what.registers && a->what.scratch_bytes == b->what.scratch_bytes &&
              a->what.shared_bytes == b->what.shared_bytes,
          "other resources");
}

/* what is accepted, written and read again, is the same and is written to the same bytes */
static void check_written(const struct journal_reading *reading)
{
    struct journal_reading second;
    struct buffer written = BUFFER_INIT, again = BUFFER_INIT;
    struct error error = {.message = ""};
    HOLDS(journal_format(reading, &written, &error) == ATTUNE_OK, "not written: %s", error.message);
    HOLDS(journal_read(buffer_string(&written), written.length, &second, &error) == ATTUNE_OK, "not read back: %s",
          error.message);
    HOLDS(second.damaged == 0 && second.repeated == 0 && !second.torn, "%d damaged in %s", second.damaged,
          buffer_string(&written));
    HOLDS(second.has_begin == reading->has_begin && second.has_end == reading->has_end &&
              second.outcome_count == reading->outcome_count && second.constraint_count == reading->constraint_count &&
              second.resume_count == reading->resume_count,
          "lines were lost");
    HOLDS(second.begin.seed == reading->begin.seed && second.begin.started == reading->begin.started &&
              second.begin.candidates == reading->begin.candidates,
          "another begin");
    for (int i = 0; i < second.outcome_count; i++) {
        check_same(&reading->outcomes[i], &second.outcomes[i]);
        HOLDS(reading->outcomes[i].counts == second.outcomes[i].counts, "outcome %d counts no more", i);
    }
    HOLDS(journal_format(&second, &again, &error) == ATTUNE_OK, "not written again: %s", error.message);
    HOLDS(written.length == again.length &&
              (written.length == 0 || memcmp(written.data, again.data, again.length) == 0),
          "it becomes another journal: %s", buffer_string(&again));
    journal_reading_free(&second);
    buffer_free(&written);
    buffer_free(&again);
}

/* a journal cut anywhere is the beginning of it; without repeated outcomes that is plain to see */
static void check_cut(const char *text, size_t at, const struct journal_reading *whole)
{
    struct journal_reading cut;
    struct error error = {.message = ""};
    char *bytes = (char *)fuzz_bytes((const uint8_t *)text, at);
    HOLDS(journal_read(bytes, at, &cut, &error) == ATTUNE_OK, "cut at %zu: %s", at, error.message);
    free(bytes);
    HOLDS(cut.torn == (at > 0 && text[at - 1] != '\n'), "cut at %zu: torn %d", at, (int)cut.torn);
    HOLDS(cut.damaged <= whole->damaged && cut.repeated <= whole->repeated && (whole->has_begin || !cut.has_begin),
          "cut at %zu: more than the whole says", at);
    HOLDS(cut.outcome_count <= whole->outcome_count + whole->repeated, "%d outcomes of %d", cut.outcome_count,
          whole->outcome_count);
    for (int i = 0; i < cut.outcome_count && whole->repeated == 0; i++) {
        check_same(&cut.outcomes[i], &whole->outcomes[i]);
    }
    journal_reading_free(&cut);
}

/* every candidate that counts has one place: among those that stand, in order, or in one kind with one reason */
static void check_standings(const struct journal_reading *reading)
{
    struct standings standings;
    struct error error = {.message = ""};
    HOLDS(standings_make(reading, &standings, &error) == ATTUNE_OK, "%s", error.message);
    int counting = 0, placed = standings.fastest_count;
    for (int i = 0; i < reading->outcome_count; i++) {
        counting += reading->outcomes[i].counts;
    }
    for (int i = 1; i < standings.timed; i++) {
        HOLDS(standings.fastest[i - 1]->microseconds <= standings.fastest[i]->microseconds, "place %d", i);
    }
    for (int i = 0; i < standings.out_count; i++) {
        const struct history_kind *kind = &standings.out[i];
        int reasons = 0;
        for (int k = 0; k < kind->reason_count; k++) {
            HOLDS(strcmp(kind->reasons[k].example->outcome, kind->outcome) == 0, "an example of %s", kind->outcome);
            reasons += kind->reasons[k].count;
        }
        HOLDS(reasons == kind->count && kind->count > 0, "%d of %d %s", reasons, kind->count, kind->outcome);
        placed += kind->count;
    }
    HOLDS(placed == counting, "%d of %d have a place", placed, counting);
    standings_free(&standings);
}

static void read_journal(const char *text, size_t length)
{
    struct journal_reading reading;
    struct error error = {.message = ""};
    attune_status status = journal_read(text, length, &reading, &error);
    fuzz_check_error(status, &error);
    HOLDS(status == ATTUNE_OK || length > JOURNAL_LINES_MAX, "refused: %s", error.message);
    if (status != ATTUNE_OK) {
        HOLDS(reading.outcomes == NULL, "a refused journal keeps memory");
        return;
    }
    check_bounds(&reading, length);
    check_written(&reading);
    check_standings(&reading);
    size_t step = length / 16 + 1;
    for (size_t at = length % step; at < length; at += step) {
        check_cut(text, at, &reading);
    }
    journal_reading_free(&reading);
}

/* appends the line with the candidate's own id behind "id":" */
static void seal_line(const char *line, size_t length, struct buffer *sealed)
{
    static const char id_key[] = "\"id\":\"", candidate_key[] = "\"candidate\":\"";
    const char *id = memmem(line, length, id_key, strlen(id_key));
    const char *candidate = memmem(line, length, candidate_key, strlen(candidate_key)), *end = line + length;
    const char *quote = NULL, *close = NULL;
    if (candidate != NULL) {
        candidate += strlen(candidate_key);
        quote = memchr(candidate, '"', (size_t)(end - candidate));
    }
    if (id != NULL) {
        id += strlen(id_key);
        close = memchr(id, '"', (size_t)(end - id));
    }
    if (quote == NULL || close == NULL) {
        buffer_append(sealed, line, length);
        return;
    }
    struct digest digest;
    char hex[DIGEST_HEX_BYTES];
    digest_of(candidate, (size_t)(quote - candidate), &digest);
    digest_hex(&digest, hex);
    buffer_append(sealed, line, (size_t)(id - line));
    buffer_append(sealed, hex, CANDIDATE_ID_BYTES - 1);
    buffer_append(sealed, close, (size_t)(end - close));
}

static void read_sealed(const char *text, size_t length)
{
    struct buffer sealed = BUFFER_INIT;
    while (length > 0) {
        const char *newline = memchr(text, '\n', length);
        size_t line = newline != NULL ? (size_t)(newline - text) + 1 : length;
        seal_line(text, line, &sealed);
        text += line;
        length -= line;
    }
    if (sealed.length > 0) {
        read_journal(sealed.data, sealed.length);
    }
    buffer_free(&sealed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_foreign_locale();
    uint8_t *bytes = fuzz_bytes(data, size);
    read_journal((const char *)bytes, size);
    read_sealed((const char *)bytes, size);
    free(bytes);
    return 0;
}
