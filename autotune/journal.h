/* journal.h - the run's outcomes as JSON lines, on disk as soon as they are known: a killed run keeps what it learnt,
 * and is continued in the same file.
 *
 *   {"kind":"begin", "run", "problem", "device", "target", "driver", "candidates", "seed", "started", ...}
 *   {"kind":"constraint", "reason", "count", "example", "because"}          points that are no candidates
 *   {"kind":"outcome", "stage":"first"|"final", "id", "candidate", "outcome", "reason", "microseconds", ...}
 *   {"kind":"end", "winner", "complete", "seconds", ...}
 *   {"kind":"resume", "started", "driver", "held", "invalid"}               then outcomes and an end again
 *
 * Both directions go by the tables of journal_line.c. The writer appends whole lines and holds a lock on the file,
 * which the system takes from a process that is killed. The reader trusts nothing: what it returns is within the bounds
 * below, numbers are finite, texts but reasons are free of control characters, and each id belongs to its candidate.
 */
#ifndef AUTOTUNE_JOURNAL_H
#define AUTOTUNE_JOURNAL_H

#include "autotune/tune.h"
#include "base/buffer.h"

enum {
    JOURNAL_LINE_BYTES_MAX = 16384, /* what the writer can write is shorter */
    JOURNAL_LINES_MAX = 1 << 16
};

struct journal_begin {
    char run[33]; /* hex */
    char problem[PROBLEM_TEXT_BYTES];
    char device[128];
    char target[TARGET_TEXT_BYTES];
    char driver[64];
    int candidates; /* there are, whatever the budget */
    uint64_t seed;
    int64_t started;       /* seconds since 1970; 0: not said */
    char rank[320];        /* of a rank of a job: "R/N JOB"; "" else */
    char fingerprint[128]; /* folder of the device's records, equal where they are shared; "" of older writers */
    char name[320];        /* what the list of problems calls it; "": nothing */
    char strategy[24];     /* the plan's; "" of older writers */
    int space;             /* of a rank that has a share of the candidates: how many all ranks have; 0 else */
};

struct journal_constraint {
    char reason[512]; /* the constraint's, whatever the point */
    int count;        /* points of the space that it refused */
    char example[CANDIDATE_TEXT_BYTES];
    char because[512]; /* what it said of the example */
};

/* a run that goes on after it was killed, or had come to its end before all was looked at */
struct journal_resume {
    int64_t started; /* as begin's */
    char driver[64];
    int held;    /* outcomes taken over */
    int invalid; /* outcomes whose object is another by now */
};

enum journal_stage { JOURNAL_FIRST, JOURNAL_FINAL };
struct journal_outcome {
    enum journal_stage stage;
    bool counts; /* the last one of its candidate, whatever the stage; not in the file */
    struct tune_outcome what;
};

struct journal_end {
    char winner[CANDIDATE_TEXT_BYTES];                         /* "": none was usable, or the run failed */
    bool complete;                                             /* the strategy came to its end */
    double seconds, winner_microseconds, default_microseconds; /* times 0 when not timed */
    int tried, verified, rejected;
    char strategy[24]; /* "": not said */
    int looks;         /* candidates checked or timed, of those there are; 0: not said */
    double drift;      /* of the yardstick's time while the run lasted, tune.h; 0: not said */
};

struct journal_reading;

/* ---- writing ---- */
struct journal {
    int file;      /* -1: there is none, writes do nothing */
    bool unsynced; /* lines were appended that may not be on disk yet */
    char path[512];
};

/* A store without a folder gives a journal that keeps nothing. */
attune_status journal_open(struct journal *journal, struct store *store, const char *run, struct error *error);
/* The journal of a run that has one, for appending, and what is in it (journal_reading_free): nobody else writes it
 * from before it is read until it is closed, where the file system has locks. A torn last line is ended. *written:
 * somebody writes it now. ATTUNE_NOT_FOUND, ATTUNE_CORRUPT for what is no journal of this run; after any error nothing
 * is open. */
attune_status journal_continue(struct journal *journal, struct store *store, const char *run,
                               struct journal_reading *reading, bool *written, struct error *error);
/* Each appends one line and has it on disk when it returns. The first failure warns and ends the journal: tuning goes
 * on. */
void journal_write_begin(struct journal *journal, const struct journal_begin *begin);
/* all at once, with one sync */
void journal_write_constraints(struct journal *journal, const struct journal_constraint *constraints, int count);
void journal_write_resume(struct journal *journal, const struct journal_resume *resume);
void journal_write_outcome(struct journal *journal, enum journal_stage stage, const struct tune_outcome *outcome);
/* The same in two steps, for who has something better to do than to wait for the disk. After the first the line is in
 * the file, and stays there if this process is killed; a machine that loses its power may lose it until the second, or
 * until any other line is written. */
void journal_append_outcome(struct journal *journal, enum journal_stage stage, const struct tune_outcome *outcome);
void journal_sync(struct journal *journal);
void journal_write_end(struct journal *journal, const struct journal_end *end);
void journal_close(struct journal *journal);

/* ---- reading ---- */
struct journal_reading {
    bool has_begin; /* false: its first line is missing or damaged, and nobody knows what the outcomes are of */
    bool has_end;   /* the run came to its end; false when an outcome or a resume line follows it */
    bool torn;      /* the last line is not whole: its writer was killed. Who appends ends that line first */
    struct journal_begin begin;
    struct journal_end end;
    struct journal_constraint *constraints; /* of the last block of such lines: a resumed run may write another */
    int constraint_count;
    struct journal_resume *resumes; /* in order */
    int resume_count;
    struct journal_outcome *outcomes; /* in order; one a candidate and stage */
    int outcome_count;
    int damaged;  /* whole lines that say nothing; all from a second begin line on are another run's */
    int repeated; /* outcomes left out, since the same stage of the same candidate comes again later */
};

/* Any bytes make a reading: a journal cut anywhere is read up to the last whole line. ATTUNE_CORRUPT for more than
 * JOURNAL_LINES_MAX lines or STORE_JOURNAL_BYTES_MAX bytes, ATTUNE_NO_MEMORY; both leave nothing to free. */
attune_status journal_read(const char *bytes, size_t length, struct journal_reading *reading, struct error *error);
void journal_reading_free(struct journal_reading *reading);
/* appends the journal that reads as this one, but without what was torn, damaged or repeated */
attune_status journal_format(const struct journal_reading *reading, struct buffer *text, struct error *error);

/* The first line of the file, if it is a journal's, of a file that is ours alone: for choosing among many. */
bool journal_peek(const char *path, struct journal_begin *begin);

/* is somebody writing it now? False where the file system has no locks */
bool journal_is_written(const char *path);

#endif
