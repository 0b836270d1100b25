/* kills.c - `attune tune --resume` killed again and again, by SIGKILL: at random moments, at each call that leaves
 * something on disk (kill_at.c), and its measuring process or compilers alone.
 *
 * After each kill: what the journal had it has, byte by byte, and each line is whole but the last; no candidate has two
 * outcomes; no candidate that had an outcome was launched again, and at most one was launched that has none; the store
 * has no bad file, and each record's object is there. At the end of each life of a store the choice and all outcomes
 * are those of a run that nobody disturbed.
 *
 * Launches are counted by the kernels themselves, which append the candidate's mode to a file by system calls.
 */
#include "autotune/journal.h"
#include "base/files.h"
#include "base/process.h"
#include "cache/store.h"
#include "tests/proof/tuner_family.h"
#include "tests/size.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(__x86_64__)
int main(void)
{
    printf("skipped: kernels count their launches by system calls of x86-64\n");
    return 77;
}
#else

enum { MODES_MAX = 32, CALLS_MAX = 4096 };
/* right but for four; the first is the default. `broken` does not compile. */
static const char modes[] = "half right r01 r02 broken r03 r04 fault r05 r06 r07 early r08 r09 r10 r11";

static struct {
    char folder[512], templates[600], store[600], launches[600], calls[600], output[600], temporary[600];
    char winner[CANDIDATE_TEXT_BYTES]; /* of the undisturbed run */
    char outcomes[MODES_MAX][64];      /* "mode outcome" of the undisturbed run */
    int mode_count;
    double seconds; /* of the undisturbed run */
    int call_count;
    uint64_t state; /* of the random numbers */
} campaign;

static struct {
    int rounds, done, before_begin, in_launch, torn, half_written, after_looks, after_end, between, lives;
    int outcomes, repeated, worker_kills, helper_kills;
} told;

static uint32_t draw(uint32_t below)
{
    campaign.state = campaign.state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(campaign.state >> 33) % below;
}

/* ------------------------------------------------------------------------------------------------ the family */

/* every launch leaves a line: its mode */
static void write_family(void)
{
    char path[700];
    struct buffer text = BUFFER_INIT, changed = BUFFER_INIT;
    generator_destroy(tuner_family(campaign.templates, modes, "2", "killed"));
    assert_int_equal(path_join(path, sizeof path, campaign.templates, "twice.hip", NULL), ATTUNE_OK);
    assert_int_equal(file_read(path, 1 << 16, &text, NULL), ATTUNE_OK);
    char *mark = strstr(text.data, "    if (i == 0) {");
    assert_non_null(mark);
    buffer_append(&changed, text.data, (size_t)(mark - text.data));
    buffer_format(&changed,
                  "%% if c.mode == \"broken\" then\n#error \"broken\"\n%% end\n"
                  "    if (i == 0) {\n"
                  "        long file, done;\n"
                  "        asm volatile(\"syscall\" : \"=a\"(file) : \"a\"(2), \"D\"(\"%s\"), \"S\"(02001), \"d\"(0)"
                  " : \"rcx\", \"r11\", \"memory\");\n"
                  "        asm volatile(\"syscall\" : \"=a\"(done) : \"a\"(1), \"D\"(file), \"S\"(\"${c.mode}\\n\"),"
                  " \"d\"(sizeof(\"${c.mode}\")) : \"rcx\", \"r11\", \"memory\");\n"
                  "        asm volatile(\"syscall\" : \"=a\"(done) : \"a\"(3), \"D\"(file)"
                  " : \"rcx\", \"r11\", \"memory\");\n"
                  "    }\n",
                  campaign.launches);
    buffer_text(&changed, mark);
    assert_int_equal(file_write(path, changed.data, changed.length, NULL), ATTUNE_OK);
    buffer_free(&changed);
    buffer_free(&text);
}

/* ------------------------------------------------------------------------------------------------ the program */

/* in a process group of its own; `at` as KILL_AT */
static pid_t start(int at)
{
    char number[16];
    (void)unlink(campaign.output);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)setpgid(0, 0);
        int out = open(campaign.output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        snprintf(number, sizeof number, "%d", at);
        setenv("KILL_AT", number, 1);
        setenv("KILL_AT_FOLDER", campaign.store, 1);
        setenv("KILL_AT_LOG", campaign.calls, 1);
        setenv("TMPDIR", campaign.temporary, 1); /* for what a killed process cannot take away */
        setenv("LD_PRELOAD", KILL_AT_LIBRARY, 1);
        setenv("ATTUNE_TEMPLATE_PATH", campaign.templates, 1);
        if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) {
            _exit(98);
        }
        execl(ATTUNE_PROGRAM, "attune", "tune", "--device", "host", "--problem", "twice n=70", "--resume", "--store",
              campaign.store, "--candidate-limit", "20s", (char *)NULL);
        _exit(97);
    }
    (void)setpgid(child, child);
    return child;
}

/* waits for the program and then for all that it left behind, which is this process's by now */
static int finish(pid_t child)
{
    int status = 0, ignored;
    assert_int_equal(waitpid(child, &status, 0), child);
    double limit = clock_seconds() + 60.0;
    for (pid_t left; (left = waitpid(-1, &ignored, WNOHANG)) != -1;) {
        if (left == 0) {
            if (clock_seconds() > limit) {
                fail_msg("what a killed attune started still runs after a minute");
            }
            usleep(2000);
        }
    }
    assert_int_equal(errno, ECHILD);
    return status;
}

static void show_output(void)
{
    struct buffer text = BUFFER_INIT;
    if (file_read(campaign.output, 1 << 20, &text, NULL) == ATTUNE_OK) {
        print_message("%s\n", buffer_string(&text));
    }
    buffer_free(&text);
}

/* a child of `parent` whose program is called that; 0: none */
static pid_t child_named(pid_t parent, const char *name)
{
    pid_t found = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
        char path[300], line[512] = "", program[64] = "", state;
        int pid = 0, of = 0;
        snprintf(path, sizeof path, "/proc/%.16s/stat", entry->d_name);
        FILE *file = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (file != NULL) {
            if (fgets(line, sizeof line, file) != NULL &&
                sscanf(line, "%d (%63[^)]) %c %d", &pid, program, &state, &of) == 4 && of == parent &&
                strcmp(program, name) == 0 && state != 'Z') {
                found = pid;
            }
            fclose(file);
        }
    }
    if (processes != NULL) {
        closedir(processes);
    }
    return found;
}

/* ------------------------------------------------------------------------------------------------ what is on disk */

struct state {
    struct buffer journal; /* of the run, or empty */
    struct journal_reading reading;
    size_t launches; /* bytes of the file */
    int temporaries;
};

static void free_state(struct state *state)
{
    buffer_free(&state->journal);
    journal_reading_free(&state->reading);
}

static attune_status take_entry(void *data, const struct store_entry *entry, struct error *error)
{
    struct state *state = data;
    char path[2048];
    struct buffer text = BUFFER_INIT;
    struct journal_reading reading;
    (void)error;
    state->temporaries += entry->kind == STORE_TEMPORARY;
    if (entry->kind == STORE_REJECTED) {
        assert_non_null(strstr(entry->path, ".txt")); /* the source that does not compile is kept for people */
    }
    if (entry->kind != STORE_JOURNAL) {
        return ATTUNE_OK;
    }
    snprintf(path, sizeof path, "%s/%s", campaign.store, entry->path);
    assert_int_equal(file_read_private(path, STORE_JOURNAL_BYTES_MAX, &text, NULL), ATTUNE_OK);
    assert_int_equal(journal_read(buffer_string(&text), text.length, &reading, NULL), ATTUNE_OK);
    if (reading.has_begin) { /* one that was killed before its first line was whole is nobody's */
        assert_int_equal(state->journal.length, 0);
        state->journal = text;
        state->reading = reading;
        return ATTUNE_OK;
    }
    assert_int_equal(reading.outcome_count, 0);
    journal_reading_free(&reading);
    buffer_free(&text);
    return ATTUNE_OK;
}

static attune_status check_record(void *data, const struct store_entry *entry, struct error *error)
{
    struct store *store = data;
    struct buffer json = BUFFER_INIT, bytes = BUFFER_INIT;
    struct record record;
    struct object_header header;
    char path[2048];
    if (entry->kind == STORE_RECORD) {
        snprintf(path, sizeof path, "%s/%s", store_path(store), entry->path);
        assert_int_equal(file_read(path, RECORD_BYTES_MAX, &json, error), ATTUNE_OK);
        assert_int_equal(record_from_json(json.data, json.length, &record, error), ATTUNE_OK);
        assert_int_equal(store_object_get(store, &record.object, &header, &bytes, error), ATTUNE_OK);
        assert_true(record.kind == RECORD_DEFAULT || campaign.winner[0] == '\0' ||
                    strcmp(record.candidate, campaign.winner) == 0);
        record_free(&record);
    }
    buffer_free(&json);
    buffer_free(&bytes);
    return ATTUNE_OK;
}

static void look(struct state *state)
{
    struct store *store;
    struct store_verdict verdict;
    struct error error = {.message = ""};
    struct stat facts;
    *state = (struct state){.journal = BUFFER_INIT};
    assert_int_equal(stat(campaign.launches, &facts), 0);
    state->launches = (size_t)facts.st_size;
    assert_int_equal(store_open(campaign.store, &store, NULL), ATTUNE_OK);
    assert_int_equal(store_walk(store, take_entry, state, NULL), ATTUNE_OK);
    assert_int_equal(store_verify(store, false, &verdict, NULL), ATTUNE_OK);
    assert_int_equal(verdict.bad, 0);
    assert_int_equal(verdict.missing_objects, 0);
    if (store_walk(store, check_record, store, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    store_close(store);
}

static const struct tune_outcome *outcome_of(const struct state *state, const char *mode)
{
    for (int i = 0; i < state->reading.outcome_count; i++) {
        const struct tune_outcome *outcome = &state->reading.outcomes[i].what;
        if (strcmp(strrchr(outcome->candidate, '=') + 1, mode) == 0) {
            return outcome;
        }
    }
    return NULL;
}

/* Nothing is lost or changed, nothing settled was launched again. The number of candidates that were launched since and
 * have no outcome. */
static int compare(const struct state *before, const struct state *now)
{
    struct buffer launched = BUFFER_INIT;
    char pending[MODES_MAX][16];
    int pending_count = 0;
    assert_true(now->journal.length >= before->journal.length);
    if (before->journal.length > 0) {
        assert_memory_equal(now->journal.data, before->journal.data, before->journal.length);
    }
    assert_int_equal(now->reading.repeated, 0);
    int lines = -(int)before->reading.torn; /* whole ones that were written since, each a line of its own */
    for (size_t i = before->journal.length; i < now->journal.length; i++) {
        lines += now->journal.data[i] == '\n';
    }
    if (before->journal.length > 0 && lines > 0) {
        assert_int_equal(now->reading.resume_count, before->reading.resume_count + 1);
        assert_int_equal(now->reading.damaged, before->reading.damaged + before->reading.torn);
    }
    for (int i = 0; i < before->reading.outcome_count; i++) {
        const struct tune_outcome *was = &before->reading.outcomes[i].what;
        const struct tune_outcome *is = outcome_of(now, strrchr(was->candidate, '=') + 1);
        assert_non_null(is);
        assert_string_equal(is->outcome, was->outcome);
    }
    assert_int_equal(file_read(campaign.launches, 64 << 20, &launched, NULL), ATTUNE_OK);
    for (const char *line = buffer_string(&launched) + before->launches, *end; (end = strchr(line, '\n')) != NULL;
         line = end + 1) {
        char mode[16];
        snprintf(mode, sizeof mode, "%.*s", (int)(end - line), line);
        if (outcome_of(before, mode) != NULL) {
            fail_msg("%s has an outcome and was launched again", mode);
        }
        bool known = outcome_of(now, mode) != NULL;
        for (int i = 0; i < pending_count; i++) {
            known |= strcmp(pending[i], mode) == 0;
        }
        if (!known) {
            assert_true(pending_count < MODES_MAX);
            memcpy(pending[pending_count++], mode, sizeof mode);
        }
    }
    buffer_free(&launched);
    return pending_count;
}

/* ------------------------------------------------------------------------------------------------ lives of a store */

static void begin_life(void)
{
    folder_remove(campaign.store);
    assert_int_equal(file_write(campaign.launches, "", 0, NULL), ATTUNE_OK);
    told.lives++;
}

/* As in the undisturbed run. Killed between the note of what was wrong or crashed and its line, a run finds the note.
 */
static bool is_as_undisturbed(const struct tune_outcome *outcome)
{
    char line[64], noted[64] = "";
    bool found = false;
    const char *mode = strrchr(outcome->candidate, '=') + 1;
    snprintf(line, sizeof line, "%s %s", mode, outcome->outcome);
    const char *before = strstr(outcome->reason, " before: ");
    if (strcmp(outcome->outcome, "blocked") == 0 && before != NULL) {
        snprintf(noted, sizeof noted, "%s %.*s", mode, (int)(before - outcome->reason), outcome->reason);
    }
    for (int i = 0; i < campaign.mode_count; i++) {
        found |= strcmp(campaign.outcomes[i], line) == 0 || strcmp(campaign.outcomes[i], noted) == 0;
    }
    return found;
}

/* to the end, whatever is there; all is as in the undisturbed run */
static void complete_life(void)
{
    struct state before, now;
    look(&before);
    int status = finish(start(0));
    if (status != 0) {
        show_output();
    }
    assert_int_equal(status, 0);
    look(&now);
    assert_int_equal(compare(&before, &now), 0);
    assert_true(now.reading.has_end && now.reading.end.complete);
    assert_string_equal(now.reading.end.winner, campaign.winner);
    assert_int_equal(now.reading.outcome_count, campaign.mode_count);
    for (int i = 0; i < campaign.mode_count; i++) {
        const struct tune_outcome *outcome = &now.reading.outcomes[i].what;
        if (!is_as_undisturbed(outcome)) {
            fail_msg("%s is %s, as it was not when nobody disturbed: %s", outcome->candidate, outcome->outcome,
                     outcome->reason);
        }
    }
    told.outcomes += now.reading.outcome_count;
    free_state(&before);
    free_state(&now);
}

/* what the kill hit, for the counts that are told */
static void tell_stage(const struct state *before, const struct state *now, int pending, bool ended)
{
    told.rounds++;
    if (ended) {
        told.done++;
    } else if (now->journal.length == before->journal.length && now->launches == before->launches) {
        told.before_begin++;
    } else if (now->reading.torn && now->journal.length > before->journal.length) {
        told.torn++;
    } else if (pending > 0) {
        told.in_launch++;
    } else if (now->temporaries > before->temporaries) {
        told.half_written++;
    } else if (now->reading.has_end) {
        told.after_end++;
    } else if (now->reading.outcome_count == campaign.mode_count) {
        told.after_looks++;
    } else {
        told.between++;
    }
}

/* One kill. True when the run came to its end before it. */
static bool round_of_kill(bool at_a_call)
{
    struct state before, now;
    look(&before);
    int at = 0;
    if (at_a_call) { /* every third one a line of the journal */
        at = draw(3) == 0 ? -1 - (int)draw((uint32_t)campaign.mode_count / 2)
                          : 1 + (int)draw((uint32_t)campaign.call_count);
    }
    pid_t child = start(at);
    if (!at_a_call) {
        usleep((useconds_t)(draw(1000) * 0.75e3 * campaign.seconds));
        (void)kill(child, SIGKILL);
    }
    int status = finish(child);
    bool ended = WIFEXITED(status);
    if (ended && WEXITSTATUS(status) != 0) {
        show_output();
        fail_msg("attune ended with %d", WEXITSTATUS(status));
    }
    look(&now);
    int pending = compare(&before, &now);
    assert_true(pending <= (ended ? 0 : 1));
    told.repeated += pending;
    tell_stage(&before, &now, pending, ended);
    free_state(&before);
    free_state(&now);
    return ended;
}

static void tell(const char *what)
{
    print_message("%s: %d kills of attune in %d lives of a store; before anything was written %d, in a candidate's "
                  "launches %d, in a line of the journal %d, in another file %d, after the last look %d, after the end "
                  "line %d, elsewhere %d; came to its end first %d; candidates launched again %d; outcomes of complete "
                  "lives %d\n",
                  what, told.rounds - told.done, told.lives, told.before_begin, told.in_launch, told.torn,
                  told.half_written, told.after_looks, told.after_end, told.between, told.done, told.repeated,
                  told.outcomes);
}

static void run_rounds(bool at_calls, int kills)
{
    memset(&told, 0, sizeof told);
    begin_life();
    while (told.rounds - told.done < kills) {
        if (round_of_kill(at_calls)) {
            complete_life(); /* nothing is left to do, and it says so */
            begin_life();
        }
    }
    complete_life();
    tell(at_calls ? "at calls" : "at moments");
}

static void killed_at_any_moment_nothing_is_lost_or_repeated(void **state)
{
    (void)state;
    run_rounds(false, test_size(13, 500));
}

static void killed_at_any_write_nothing_is_lost_or_repeated(void **state)
{
    (void)state;
    run_rounds(true, test_size(12, 500));
}

/* Nobody is to blame when others end the measuring process or a compiler once: the run comes to the same outcomes. */
static void a_worker_or_a_helper_killed_alone_changes_nothing(void **state)
{
    (void)state;
    static const char *const programs[] = {"attune-measure", "exe"}; /* helpers run themselves anew by /proc/self/exe */
    int rounds = test_size(2, 60);
    memset(&told, 0, sizeof told);
    for (int round = 0; round < rounds; round++) {
        begin_life();
        pid_t child = start(0), victim;
        usleep((useconds_t)(draw(1000) * 0.4e3 * campaign.seconds));
        while ((victim = child_named(child, programs[round % 2])) == 0 && child_named(getpid(), "attune") == child) {
            usleep(1000);
        }
        bool killed = victim != 0 && kill(victim, SIGKILL) == 0;
        told.worker_kills += killed && round % 2 == 0;
        told.helper_kills += killed && round % 2 == 1;
        int status = finish(child);
        if (status != 0) {
            show_output();
        }
        assert_int_equal(status, 0);
        complete_life();
    }
    assert_true(rounds < 10 || (told.worker_kills > 0 && told.helper_kills > 0));
    print_message("alone: %d kills of the measuring process, %d of a helper; outcomes %d\n", told.worker_kills,
                  told.helper_kills, told.outcomes);
}

/* ------------------------------------------------------------------------------------------------ */

static int count_lines(const char *path)
{
    struct buffer text = BUFFER_INIT;
    int lines = 0;
    if (file_read(path, 1 << 20, &text, NULL) == ATTUNE_OK) {
        for (size_t i = 0; i < text.length; i++) {
            lines += text.data[i] == '\n';
        }
    }
    buffer_free(&text);
    return lines;
}

/* the run that nobody disturbs: what the others are held to */
static int open_campaign(void **state)
{
    struct error error = {.message = ""};
    struct state now;
    (void)state;
    if (folder_temporary(campaign.folder, sizeof campaign.folder, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    snprintf(campaign.templates, sizeof campaign.templates, "%s/templates", campaign.folder);
    snprintf(campaign.store, sizeof campaign.store, "%s/store", campaign.folder);
    snprintf(campaign.launches, sizeof campaign.launches, "%s/launches", campaign.folder);
    snprintf(campaign.calls, sizeof campaign.calls, "%s/calls", campaign.folder);
    snprintf(campaign.temporary, sizeof campaign.temporary, "%s/tmp", campaign.folder);
    assert_int_equal(mkdir(campaign.temporary, 0700), 0);
    snprintf(campaign.output, sizeof campaign.output, "%s/output", campaign.folder);
    assert_int_equal(mkdir(campaign.templates, 0700), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    campaign.state = 1;
    write_family();
    begin_life();
    double begin = clock_seconds();
    int status = finish(start(0));
    campaign.seconds = clock_seconds() - begin;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
        show_output();
        folder_remove(campaign.folder);
        exit(77); /* no compiler for the host */
    }
    if (status != 0) {
        show_output();
        return -1;
    }
    look(&now);
    snprintf(campaign.winner, sizeof campaign.winner, "%s", now.reading.end.winner);
    campaign.mode_count = now.reading.outcome_count;
    for (int i = 0; i < campaign.mode_count; i++) {
        const struct tune_outcome *outcome = &now.reading.outcomes[i].what;
        snprintf(campaign.outcomes[i], sizeof campaign.outcomes[i], "%s %s", strrchr(outcome->candidate, '=') + 1,
                 outcome->outcome);
    }
    assert_true(now.launches > 0);
    campaign.call_count = count_lines(campaign.calls);
    assert_true(campaign.call_count > 3 * campaign.mode_count && campaign.call_count < CALLS_MAX);
    print_message("undisturbed: %d outcomes, %d calls that write, %.1f s\n", campaign.mode_count, campaign.call_count,
                  campaign.seconds);
    free_state(&now);
    return 0;
}

static int close_campaign(void **state)
{
    (void)state;
    folder_remove(campaign.folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_any_moment_nothing_is_lost_or_repeated),
        cmocka_unit_test(killed_at_any_write_nothing_is_lost_or_repeated),
        cmocka_unit_test(a_worker_or_a_helper_killed_alone_changes_nothing),
    };
    return cmocka_run_group_tests(tests, open_campaign, close_campaign);
}
#endif
