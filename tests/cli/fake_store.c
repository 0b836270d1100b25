/* fake_store.c - see fake_store.h. The times follow a simple law of the parameters, with noise from the name's digest:
 * the same call, the same bytes. */
#include "fake_store.h"

#include "base/problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *values[5];
} parameters[] = {
    {"index", {"narrow"}},
    {"multiply", {"dot2", "fma", "matrix"}},
    {"lds_layout", {"padded", "swizzled", "plain"}},
    {"prefetch", {"off", "registers", "async"}},
    {"block_q", {"64", "16", "32", "128"}},
    {"block_k", {"64", "16", "32", "128"}},
    {"threads", {"256", "64", "128", "512"}},
};
enum { PARAMETERS = sizeof parameters / sizeof parameters[0] };

static int values_of(int parameter)
{
    int count = 0;
    while (count < 5 && parameters[parameter].values[count] != NULL) {
        count++;
    }
    return count;
}

/* which value of each parameter: the index in mixed radix, walked with a step that is prime to the space's size */
static void choose(int index, int chosen[PARAMETERS])
{
    int space = 1;
    for (int i = 0; i < PARAMETERS; i++) {
        space *= values_of(i);
    }
    long at = (long)index * 997 % space;
    for (int i = 0; i < PARAMETERS; i++) {
        chosen[i] = (int)(at % values_of(i));
        at /= values_of(i);
    }
}

void fake_candidate(int index, char name[CANDIDATE_TEXT_BYTES])
{
    int chosen[PARAMETERS];
    choose(index, chosen);
    int length = snprintf(name, CANDIDATE_TEXT_BYTES, "attention.forward/portable");
    for (int i = 0; i < PARAMETERS; i++) {
        length += snprintf(name + length, CANDIDATE_TEXT_BYTES - (size_t)length, " %s=%s", parameters[i].name,
                           parameters[i].values[chosen[i]]);
    }
}

static double time_of(int index, double fastest, const struct digest *digest)
{
    static const double factors[PARAMETERS][5] = {
        {1},
        {1.15, 1.9, 1.0},
        {1.02, 1.0, 1.2},
        {1.12, 1.0, 1.05},
        {1.0, 2.2, 1.35, 1.08},
        {1.05, 1.7, 1.2, 1.0},
        {1.0, 1.5, 1.1, 1.3},
    };
    int chosen[PARAMETERS];
    double time = fastest;
    choose(index, chosen);
    for (int i = 0; i < PARAMETERS; i++) {
        time *= factors[i][chosen[i]];
    }
    return time * (1.0 + 0.12 * digest->bytes[5] / 255.0);
}

/* one in eleven is out, of different kinds */
static void outcome_of(const struct fake_run *run, int index, struct tune_outcome *what)
{
    static const char *const kinds[] = {"wrong", "resources", "compile-error", "hung", "crashed", "launch-failed"};
    struct digest digest;
    *what = (struct tune_outcome){.registers = 40 + 8 * (index * 7 % 23), .shared_bytes = 4096 * (1 + index % 11)};
    fake_candidate(index, what->candidate);
    digest_of(what->candidate, strlen(what->candidate), &digest);
    digest_short(what->candidate, what->id);
    snprintf(what->outcome, sizeof what->outcome, "%s", run->fastest > 0 ? "slower" : "right");
    what->microseconds = run->fastest > 0 ? time_of(index, run->fastest, &digest) : 0;
    what->spread = what->microseconds * 0.002;
    if (run->looked_at > 0 && index >= run->looked_at) {
        snprintf(what->outcome, sizeof what->outcome, "not-tried");
        snprintf(what->reason, sizeof what->reason, "the budget ended before");
    } else if (index > 0 && index % 11 == 5) {
        int kind = index / 11 % 6;
        snprintf(what->outcome, sizeof what->outcome, "%s", kinds[kind]);
        if (run->reason != NULL) {
            snprintf(what->reason, sizeof what->reason, "%s", run->reason);
        } else if (kind == 1) {
            snprintf(what->reason, sizeof what->reason, "uses %d bytes of scratch memory", 16 + index);
        } else if (kind == 2) {
            snprintf(what->reason, sizeof what->reason,
                     "templates/attention_forward_portable.hip:%d: no member named 'x'", index);
        } else {
            snprintf(what->reason, sizeof what->reason, "batch 0, head %d, row %d: error %.3g, the bound is 0.0012",
                     index % 7, index, 0.01 * index);
        }
    }
    if (what->reason[0] != '\0') {
        what->microseconds = what->spread = 0;
    }
}

static bool by_time(const struct tune_outcome *a, const struct tune_outcome *b)
{
    return a->microseconds > 0 && (b == NULL || a->microseconds < b->microseconds);
}

static bool put_record(struct store *store, const struct fake_run *run, const struct problem *problem,
                       const struct tune_outcome *winner, const struct tune_outcome *standard, struct error *error)
{
    struct record record = {.kind = RECORD_TUNED,
                            .tried = run->looked_at > 0 ? run->looked_at : run->candidates,
                            .complete = run->looked_at == 0};
    attune_status status = problem_format(problem, record.problem, error);
    if (status == ATTUNE_OK) {
        status = problem_specialisation(problem, record.specialisation, error);
    }
    if (status == ATTUNE_OK) {
        status = problem_shape(problem, record.shape, error);
    }
    snprintf(record.device.target, sizeof record.device.target, "%s", run->target);
    record.device.compute_units = 132;
    record.device.shared_bytes = 65536;
    record.device.memory_bytes = (uint64_t)16 << 30;
    record.device.power_limit_watts = run->fastest > 0 ? 700 : 0;
    snprintf(record.device.driver, sizeof record.device.driver, "%s", run->driver);
    snprintf(record.device_name, sizeof record.device_name, "%s", run->device);
    snprintf(record.candidate, sizeof record.candidate, "%s", winner->candidate);
    record.winner_microseconds = winner->microseconds;
    record.default_microseconds = standard->microseconds;
    digest_of(run->run, strlen(run->run), &record.object);
    snprintf(record.compiler, sizeof record.compiler, "a compiler 1.2");
    digest_hex(&record.object, record.identity);
    snprintf(record.launch.kernel, sizeof record.launch.kernel, "attention_forward");
    record.launch.argument_count = 1;
    record.launch.arguments[0] = (struct launch_argument){"q", ARGUMENT_POINTER};
    record.launch.threads = 256;
    record.launch.grid[0] = (struct launch_dimension){1, {{"seqlen_q", 64}}};
    snprintf(record.run, sizeof record.run, "%s", run->run);
    record.created = run->started + 60;
    return status == ATTUNE_OK && store_record_put(store, &record, error) == ATTUNE_OK;
}

bool fake_run_write(struct store *store, const struct fake_run *run)
{
    struct error error = {.message = ""};
    struct problem problem;
    struct journal journal = {.file = -1};
    struct journal_begin begin = {.candidates = run->candidates, .seed = 7, .started = run->started};
    struct tune_outcome *all = calloc((size_t)run->candidates, sizeof *all);
    const struct tune_outcome *winner = all;
    bool good = all != NULL && problem_parse(schema_attention_forward(), run->problem, &problem, &error) == ATTUNE_OK &&
                problem_format(&problem, begin.problem, &error) == ATTUNE_OK &&
                journal_open(&journal, store, run->run, &error) == ATTUNE_OK;
    snprintf(begin.run, sizeof begin.run, "%s", run->run);
    snprintf(begin.device, sizeof begin.device, "%s", run->device);
    snprintf(begin.target, sizeof begin.target, "%s", run->target);
    snprintf(begin.driver, sizeof begin.driver, "%s", run->driver);
    snprintf(begin.name, sizeof begin.name, "%s", run->name != NULL ? run->name : "");
    if (good) {
        journal_write_begin(&journal, &begin);
    }
    for (int i = 0; i < run->candidates && good; i++) {
        outcome_of(run, i, &all[i]);
        journal_write_outcome(&journal, JOURNAL_FIRST, &all[i]);
        winner = by_time(&all[i], winner) ? &all[i] : winner;
    }
    for (int i = 0; i < run->candidates && good && run->ended; i++) {
        if (all[i].microseconds > 0 && (i == 0 || all[i].microseconds <= winner->microseconds * 1.08)) {
            snprintf(all[i].outcome, sizeof all[i].outcome, "timed");
            journal_write_outcome(&journal, JOURNAL_FINAL, &all[i]);
        }
    }
    if (good && run->ended) {
        struct journal_end end = {.complete = run->looked_at == 0, .seconds = 60, .tried = run->candidates};
        snprintf(end.winner, sizeof end.winner, "%s", winner->candidate);
        end.winner_microseconds = winner->microseconds;
        end.default_microseconds = all[0].microseconds;
        journal_write_end(&journal, &end);
    }
    journal_close(&journal);
    good = good && (!run->record || put_record(store, run, &problem, winner, &all[0], &error));
    if (!good) {
        fprintf(stderr, "fake store: %s\n", error.message);
    }
    free(all);
    return good;
}

bool fake_store_make(const char *folder, int candidates)
{
    static const struct {
        int batch, length, causal;
        double fastest;
    } shapes[] = {{1, 1024, 1, 42},  {1, 2048, 1, 131},  {1, 4096, 1, 452}, {4, 1024, 1, 118},
                  {4, 2048, 1, 421}, {4, 4096, 1, 1630}, {1, 1024, 0, 61}};
    struct store *store = NULL;
    struct error error = {.message = ""};
    bool good = store_open(folder, &store, &error) == ATTUNE_OK;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] && good; i++) {
        char problem[256], id[33];
        snprintf(problem, sizeof problem, "dtype=f16 batch=%d heads=32 kv_heads=8 seqlen_q=%d head_dim=128 causal=%d",
                 shapes[i].batch, shapes[i].length, shapes[i].causal);
        snprintf(id, sizeof id, "%032zx", i + 1);
        struct fake_run run = {.problem = problem,
                               .device = "An Invented GPU 140GB",
                               .target = "sm_90a",
                               .driver = "580.1",
                               .run = id,
                               .candidates = candidates,
                               .fastest = shapes[i].fastest,
                               .ended = i != 6,
                               .record = i < 5,
                               .started = 1790000000 + 3600 * (int64_t)i};
        run.looked_at = i == 3 ? 90 : 0;
        good = fake_run_write(store, &run);
    }
    struct fake_run host = {.problem = "dtype=bf16 heads=4 seqlen_q=96 head_dim=64",
                            .device = "host",
                            .target = "host",
                            .driver = "1",
                            .run = "000000000000000000000000000000aa",
                            .candidates = 40,
                            .ended = true,
                            .record = true,
                            .started = 1790100000};
    good = good && fake_run_write(store, &host);
    store_close(store);
    return good;
}
