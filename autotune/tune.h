/* tune.h - find the fastest right candidate for a problem on a device: search the space, compile in parallel, screen by
 * resources, verify, time in interleaved rounds, write journal and record. On the host device nothing is timed: the
 * default wins among those verified and the record says so (times 0). */
#ifndef AUTOTUNE_TUNE_H
#define AUTOTUNE_TUNE_H

#include "cache/record.h"
#include "cache/store.h"
#include "generator/compiler.h"
#include "generator/generator.h"
#include "runtime/driver.h"

struct ranks;

/* this process's part of a job of several ranks (ranks.h) */
struct tune_share {
    const struct ranks *ranks;
    bool divided; /* the candidates are: ours are tuned, the others' journals waited for, and the best of all published.
                     Else the whole problem is ours, and the others will find our journal and record */
    int rank;     /* whose journal it is: ours, or of the one whose work we take over */
    int turn;     /* 0, or the how manieth take-over */
    bool claimed; /* tune_claim was called for the journal */
};
struct tune_options {
    const char *device;     /* NULL best */
    const char *name;       /* of the problem, for people: kept in the journal; NULL: none */
    double budget_seconds;  /* 0: no limit */
    int budget_candidates;  /* candidates checked or timed, and those that do not compile; 0: as many as the strategy
                               wants */
    const char *strategy;   /* "model", "exhaustive", "random", "local", "cover", "default"; NULL: model, and exhaustive
                               where nothing is timed or `candidates` says which */
    const char *candidates; /* file of candidate names, one a line; NULL: the space */
    uint64_t seed;
    double candidate_seconds; /* limit of one step of a candidate; 0: from the default's (measurer.h) */
    bool retry_blocked;       /* what was wrong, hung, crashed or never finished compiling before is tried again */
    bool resume;        /* an earlier run of this problem that nobody is at goes on; a new one when there is none */
    bool accept_stored; /* objects of the same source by another compiler are used, and counted */
    bool device_in_use; /* the calling process has a context on the device: one that serves a single process cannot be
                           tuned then */
    const struct tune_share *share; /* NULL: this process tunes alone */
    const volatile int
        *stop; /* set to non-zero by a signal handler or another thread: as if the budget ended; may be NULL */
};

/* of the inputs and the order where nobody names one; also of tuning on a miss, so that --resume finds its runs */
enum { TUNE_SEED = 1 };

enum tune_stage { TUNE_COMPILE, TUNE_VERIFY, TUNE_TIME, TUNE_WAIT /* for other ranks */, TUNE_DONE };
struct tune_progress {
    enum tune_stage stage;
    int candidates, compiled, verified, wrong, failed, timed;
    int screened_out;  /* by resources or the search's model, or so slow at the first launch that neither verification
                          nor timing went on, or blocked */
    int same;          /* the binary of one that was looked at before: not looked at again */
    int looks;         /* candidates that were checked or timed */
    int done, total;   /* of the run's candidates or looks, whichever comes to its end first */
    bool resumed;      /* an earlier run goes on */
    int held, invalid; /* its outcomes: taken over when it went on; of other objects than today's */
    int held_verified, held_timed, held_looks; /* of those above: its, not this run's own */
    int reused;                                /* stored objects used without compiling */
    int other_compiler;                        /* of them made by another compiler */
    double best_microseconds, default_microseconds;
    double elapsed_seconds, left_seconds; /* left < 0: unknown */
    uint64_t device_bytes; /* device memory that verification and timing take, known from the first report on */
    char best[CANDIDATE_TEXT_BYTES];
};
typedef void (*tune_report)(void *data, const struct tune_progress *progress);

struct tune_outcome { /* one line of the journal */
    char candidate[CANDIDATE_TEXT_BYTES];
    char id[CANDIDATE_ID_BYTES];
    char outcome[24]; /* timed, slower, right, wrong, compile-error, not-compiled, resources, screened, same,
                         launch-failed, hung, crashed, blocked, not-tried */
    char reason[512];
    bool looked;                 /* it was checked or timed */
    bool fixed;                  /* has a size compiled in: serves problems of that size alone */
    bool companions;             /* right at the companions' sizes too, where there are any */
    double microseconds, spread; /* median and MAD over rounds; 0 when not timed */
    int registers, scratch_bytes, shared_bytes;
    char object[DIGEST_HEX_BYTES]; /* name in the store: source and compiler; "" when it was not expanded */
    char binary[DIGEST_HEX_BYTES]; /* of the object's bytes and launch: equal where nothing differs; "" not compiled */
};

/* why a run ended */
enum tune_ending {
    TUNE_COMPLETE,    /* the strategy came to its end */
    TUNE_COUNT,       /* budget_candidates */
    TUNE_BUDGET,      /* budget_seconds */
    TUNE_INTERRUPTED, /* the stop flag */
    TUNE_DEVICE_LOST,
    TUNE_NARROWER, /* the strategy came to its end, which is not that of the run it went on with */
    TUNE_UNKNOWN   /* another process's run that did not come to the end of its strategy */
};
const char *tune_ending_name(enum tune_ending ending);

/* another rank of the job, and what became of it */
struct tune_peer {
    int rank;
    const char *state; /* "answered", "lost": its journal has no end, "absent": it has none, "elsewhere": its device is
                          of another kind, "awaited": we were stopped */
    char journal[33];  /* run id */
    bool merged;       /* its outcomes took part in the choice */
};

/* a drift past it is told */
#define TUNE_DRIFT_MAX 0.03
struct tune_result {
    struct record record;          /* record_free */
    struct tune_progress counts;   /* of a divided problem: of our share, but `looks` and the best are of all ranks */
    struct tune_outcome *outcomes; /* of the candidates that the strategy asked for, in the order of the list; free() */
    int outcome_count;
    int listed;              /* candidates there are */
    const char *strategy;    /* static */
    bool kept;               /* the record is in the store's folder, and its object: others find it */
    bool already_done;       /* of the run that was to go on: the record is the one it left, the device was not used */
    enum tune_ending ending; /* also of a run that failed */
    double operations;       /* floating-point operations of the problem */
    double worker_idle;      /* share of its time that the measurer waited for requests, after the first 10 s; below 0:
                                the run was shorter */
    double between_seconds;  /* in which nothing compiled waited for the device and the best were timed again */
    int between_samples;     /* of them that counted */
    double drift;            /* relative change of the yardstick's time: from the run's begin to the finals, or within
                                them, whichever is more. Order is by ratios, which it does not touch; times are */
    char journal[512];
    char run[33];            /* the journal's name */
    double waited_seconds;   /* for other ranks, of counts.elapsed_seconds */
    struct tune_peer *peers; /* of a divided problem: all ranks but ours; free() */
    int peer_count;
    struct {
        int tried, verified, rejected, timed;
    } all;        /* of a divided problem: candidates of all journals; the record knows those of whoever published it */
    bool adopted; /* another rank was first to publish the job's record: this is it */
};

/* ATTUNE_UNSUPPORTED for a simulator: its times would choose nothing, and what it finds wrong must not keep a candidate
 * from the real device. tune_run asks by itself; NULL is the best device. */
attune_status tune_accepts_device(const char *device, struct error *error);

attune_status tune_run(struct generator *generator, struct compiler_pool *pool, struct store *store,
                       const struct problem *problem, const struct tune_options *options, tune_report report,
                       void *data, struct tune_result *result, struct error *error);
void tune_result_free(struct tune_result *result);

/* Makes a rank's journal, empty, so that nobody else does the same work: *ours is false when it is there already. */
attune_status tune_claim(struct store *store, const struct problem *problem, const struct tune_share *share, bool *ours,
                         struct error *error);

/* Compile every candidate of a problem for a target into the store, in parallel (`attune compile --space`). Needs no
 * device. The default candidate also gets its default record: the store then serves where nobody may compile. */
enum { SPACE_VALUES_MAX = 128 };
struct space_result {
    int candidates, compiled, reused, failed;
    int distinct; /* different objects, byte by byte */
    int spilling; /* objects that use scratch */
    double seconds;
    int value_count; /* every parameter value that occurs, with the objects that have it */
    struct {
        char name[FIELD_NAME_BYTES];
        char value[CANDIDATE_VALUE_BYTES];
        int objects;
    } values[SPACE_VALUES_MAX];
};
attune_status tune_compile_space(struct generator *generator, struct compiler_pool *pool, struct store *store,
                                 const struct problem *problem, const struct target *target,
                                 const char *candidates_file, tune_report report, void *data,
                                 struct space_result *result, struct error *error);

/* Median time of one plan's launches (`attune bench`): rotated buffers, warm clocks, rounds. Not on host. */
struct bench_result {
    double microseconds, spread, operations, bytes;
    int rounds;
};
attune_status bench_run(struct generator *generator, const struct problem *problem, const struct driver *driver,
                        int ordinal, const void *object, size_t object_bytes, const struct launch *launch,
                        struct bench_result *result, struct error *error);

#endif
