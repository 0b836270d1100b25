/* test_mutants.c - mistakes planted in expanded kernels: the checks that the product makes must reject each.
 *
 * Of every problem of the list, candidates of a cover are expanded, a table plants its mistakes in their text, and
 * what comes of it goes the way of any candidate: compiled for the host device, run by the verifier under each
 * schedule, and, if it still passes, in the sanitizers' runners. The text as it is runs first and must pass everything.
 *
 * A mutant may read and write anywhere, or never end: each check is made by a child process with a time limit, so that
 * its death is one more way of being caught. The parent never launches anything: a child inherits prepared cases and no
 * threads.
 *
 * ATTUNE_MUTANTS_TABLE=FILE writes the table as Markdown; ATTUNE_MUTANTS_COVER=N sets the candidates of each problem,
 * ATTUNE_MUTANTS_EACH=N on how many of them each mistake is tried, ATTUNE_MUTANTS_ONLY=TEXT looks at some mistakes
 * alone.
 */
#include "autotune/objects.h"
#include "autotune/oracle.h"
#include "autotune/parallel.h"
#include "child.h"
#include "runtime/runner.h"
#include "table.h"
#include "tests/size.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { CHECK_SECONDS = 120, ROWS_MAX = 512, WAYS_MAX = 24, ROADS = 3 };

/* MUTANTS_TEMPLATE and MUTANTS_TABLE: of which template this program tries the mistakes, and its table */

/* Every specialisation that has text of its own; the companions bring the lengths, so these are small. In size ci
 * `candidates` are tried where there are some, else the cover. */
static const struct {
    const char *of, *problem, *target, *candidates[3];
} problems[] = {
    {"portable",
     "dtype=f16 batch=2 heads=4 kv_heads=2 seqlen_q=70 seqlen_k=135 head_dim=40 causal=bottom_right lse=1",
     "host",
     {NULL}},
    {"portable",
     "dtype=f16 batch=2 heads=4 kv_heads=2 seqlen_q=67 seqlen_k=97 head_dim_qk=32 head_dim_v=24 causal=top_left lse=1 "
     "dropout=0.3",
     "host",
     {NULL}},
    {"portable",
     "dtype=bf16 batch=2 heads=6 kv_heads=2 seqlen_q=37 seqlen_k=161 head_dim_qk=33 head_dim_v=50 alignment=2",
     "host",
     {NULL}},
    {"portable",
     "q_dtype=f32 k_dtype=f16 v_dtype=f16 o_dtype=f32 batch=2 heads=8 kv_heads=2 seqlen_q=1 seqlen_k=300 head_dim=64 "
     "lse=1",
     "host",
     {NULL}},
    {"portable",
     "dtype=f32 batch=2 heads=2 seqlen_q=90 seqlen_k=45 head_dim=20 causal=bottom_right lse=1 index=wide",
     "host",
     {NULL}},
    {"portable",
     "dtype=f16 batch=2 heads=4 kv_heads=2 seqlen_q=3 seqlen_k=200 head_dim=64 causal=bottom_right dropout=0.2",
     "host-gfx906",
     {NULL}},
    {"fragments",
     "dtype=f16 batch=2 heads=4 kv_heads=2 seqlen_q=70 seqlen_k=135 head_dim=40 causal=bottom_right lse=1",
     "host-gfx942",
     {"masking=peeled", "prefetch=off"}},
    {"fragments",
     "dtype=f16 batch=2 heads=4 kv_heads=2 seqlen_q=67 seqlen_k=197 head_dim=40 causal=top_left lse=1 dropout=0.3",
     "host-sm_80",
     {"prefetch=async3", "prefetch=async1"}},
    {"fragments",
     "dtype=f16 batch=2 heads=6 kv_heads=2 seqlen_q=37 seqlen_k=161 head_dim_qk=33 head_dim_v=50 alignment=2",
     "host-gfx906",
     {"prefetch=registers", "kv_buffers=1"}},
    {"fragments",
     "dtype=bf16 batch=2 heads=2 seqlen_q=90 seqlen_k=145 head_dim=64 causal=bottom_right lse=1 dropout=0.2",
     "host-gfx1100",
     {"masking=peeled"}},
    {"fragments",
     "dtype=f16 batch=2 heads=2 seqlen_q=90 seqlen_k=145 head_dim=64 causal=bottom_right",
     "host-gfx950",
     {"prefetch=direct"}},
};

/* what became of one mutant over all candidates */
struct row {
    char kind[48], name[128], says[160], equivalent[320];
    int tried, caught, passed, passed_free, equivalents;
    int here; /* candidates of this problem */
    struct {
        char name[48];
        int count;
    } ways[WAYS_MAX];
    int way_count;
};

struct bench {
    struct generator *generator;
    struct compiler_pool *pool;
    struct table *table;
    struct row rows[ROWS_MAX];
    int row_count;
    int problems; /* stale or broken mutants, equivalents that are caught, mutants that pass */
    int each;     /* candidates of each problem that a mutant is tried on; 0: one in all */
    bool whole;   /* every schedule and sanitizer for what passes the first */
};

/* one mutant of one candidate on its way */
struct trial {
    struct mutant *mutant;
    struct row *row;
    struct object_job job;
    bool done;   /* nothing further is tried */
    bool caught; /* by something, or broken */
};

/* one way to make and run objects: plain under every schedule, or in a sanitizer's runner */
struct road {
    const char *name; /* "" plain */
    bool open;
    struct object_road objects;
    struct driver *runner; /* NULL plain */
    struct oracle_device *device;
    int schedules;
};

/* a problem with its answers */
struct setting {
    struct bench *bench;
    struct problem problem;
    const char *text;
    struct oracle *oracle;
    struct road roads[ROADS];
};

static int set_up(void **state)
{
    static struct bench bench;
    struct error error;
    const struct generator_options options = {.template_path = ""};
    if (generator_create(&options, &bench.generator, &error) != ATTUNE_OK ||
        compiler_pool_create(NULL, &bench.pool, &error) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    bench.table = table_open(TEST_SOURCE_DIR "/tests/mutation/" MUTANTS_TABLE);
    const char *each = getenv("ATTUNE_MUTANTS_EACH");
    bench.whole = test_size(0, 1) != 0;
    bench.each = each != NULL ? atoi(each) : test_size(0, INT_MAX);
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    table_close(bench->table);
    compiler_pool_destroy(bench->pool);
    generator_destroy(bench->generator);
    return 0;
}

static struct row *row_of(struct bench *bench, const struct mutant *mutant)
{
    for (int i = 0; i < bench->row_count; i++) {
        if (strcmp(bench->rows[i].name, mutant->name) == 0 && strcmp(bench->rows[i].kind, mutant->kind) == 0) {
            return &bench->rows[i];
        }
    }
    assert_true(bench->row_count < ROWS_MAX);
    struct row *row = &bench->rows[bench->row_count++];
    memcpy(row->kind, mutant->kind, sizeof row->kind);
    memcpy(row->name, mutant->name, sizeof row->name);
    memcpy(row->says, mutant->says, sizeof row->says);
    return row;
}

static void complain(struct setting *setting, const struct trial *trial, const char *what, const char *detail)
{
    setting->bench->problems++;
    print_error("%s: %s: %s\n  %s\n  %s\n  %s\n", trial->mutant->kind, trial->mutant->name, what, trial->job.name,
                setting->text, detail);
}

/* ---- one check in a child ---- */

struct finding {
    attune_status status;
    struct verdict verdict;
    char message[256]; /* of a status that is not ATTUNE_OK */
};

static void check_in_child(const struct road *road, const struct object_job *job, enum host_schedule schedule, int to)
{
    struct finding finding = {0};
    struct error error = {0};
    child_dies_alone();
    alarm(CHECK_SECONDS);
    host_device_set_schedule(schedule);
    finding.status =
        oracle_device_check(road->device, job->bytes.data, job->bytes.length, &job->launch, &finding.verdict, &error);
    snprintf(finding.message, sizeof finding.message, "%.250s", error.message);
    ssize_t written = write(to, &finding, sizeof finding);
    _exit(written == (ssize_t)sizeof finding ? 0 : 1);
}

/* false when the child died; `ended` is its status then */
static bool read_finding(int from, pid_t child, struct finding *finding, int *ended)
{
    size_t got = 0;
    ssize_t part;
    while (got < sizeof *finding && (part = read(from, (char *)finding + got, sizeof *finding - got)) > 0) {
        got += (size_t)part;
    }
    assert_int_equal(waitpid(child, ended, 0), child);
    return got == sizeof *finding;
}

struct catch
{
    char way[48]; /* "" when the check passed */
    char detail[800];
};

static void describe_wrong(const char *reason, enum host_schedule schedule, char way[48])
{
    static const char *const kinds[] = {"structured", "normal", "peaked"};
    const char *kind = strstr(reason, "guard zone") != NULL ? "guard zone" : "?", *suffix = "";
    for (size_t i = 0; i < 3 && kind[0] != 'g'; i++) {
        kind = strncmp(reason, kinds[i], strlen(kinds[i])) == 0 ? kinds[i] : kind;
    }
    if (schedule != HOST_ROUND_ROBIN) {
        suffix = schedule == HOST_GREEDY ? ", greedy" : ", reverse";
    }
    bool companion = kind[0] != 'g' && strstr(reason, " inputs, lengths ") != NULL;
    snprintf(way, 48, "%s%s%s", kind, companion ? ", companion" : "", suffix);
}

static void check(const struct road *road, const struct object_job *job, enum host_schedule schedule,
                  struct catch *caught)
{
    struct finding finding = {0};
    int ends[2], ended;
    *caught = (struct catch){0};
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        check_in_child(road, job, schedule, ends[1]);
    }
    close(ends[1]);
    bool lived = read_finding(ends[0], child, &finding, &ended);
    close(ends[0]);
    if (!lived) {
        int signal_number = WIFSIGNALED(ended) ? WTERMSIG(ended) : 0;
        snprintf(caught->way, sizeof caught->way, "%s", signal_number == SIGALRM ? "never ends" : "crash");
        snprintf(caught->detail, sizeof caught->detail, "the check died by signal %d", signal_number);
    } else if (finding.status != ATTUNE_OK) {
        snprintf(caught->way, sizeof caught->way, "%s", road->runner != NULL ? road->name : "strict host device");
        memcpy(caught->detail, finding.message, sizeof finding.message);
    } else if (!finding.verdict.right) {
        describe_wrong(finding.verdict.reason, schedule, caught->way);
        memcpy(caught->detail, finding.verdict.reason, sizeof finding.verdict.reason);
    }
}

/* ---- from mutants to rows ---- */

struct batch {
    struct trial *trials;
    int count;
    const struct object_road *road;
};

static void obtain(void *data, size_t index)
{
    struct batch *batch = data;
    struct trial *trial = &batch->trials[index];
    if (!trial->done) {
        object_obtain(batch->road, &trial->job, NULL);
    }
}

static void note_way(struct row *row, const char *way)
{
    int i = 0;
    while (i < row->way_count && strcmp(row->ways[i].name, way) != 0) {
        i++;
    }
    assert_true(i < WAYS_MAX);
    if (i == row->way_count) {
        snprintf(row->ways[row->way_count++].name, sizeof row->ways[0].name, "%s", way);
    }
    row->ways[i].count++;
}

static void open_road(struct setting *setting, int number, const struct target *target)
{
    static const enum sanitize sanitizers[ROADS] = {SANITIZE_NONE, SANITIZE_ADDRESS, SANITIZE_THREAD};
    static const char *const names[ROADS] = {"", "address", "thread"};
    struct road *road = &setting->roads[number];
    const struct driver *host;
    struct error error = {0};
    char program[1024];
    road->name = names[number];
    road->schedules = number == 0 ? 3 : 1;
    attune_status status = driver_get("host", &host, &error);
    if (status == ATTUNE_OK) {
        status = road_open(&road->objects, setting->bench->pool, NULL, target, sanitizers[number], false, &error);
    }
    if (status == ATTUNE_OK && number > 0) {
        struct runner_options options = {.program = program};
        status = runner_find(road->name, program, sizeof program, &error);
        if (status == ATTUNE_OK) {
            status = host->describe(host, 0, &options.device, &error);
        }
        if (status == ATTUNE_OK) {
            status = runner_create(&options, &road->runner, &error);
        }
    }
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("%s: %s\n", number == 0 ? "skipped" : "left out", error.message);
        if (number == 0) {
            exit(77);
        }
        return;
    }
    if (status == ATTUNE_OK) {
        status = oracle_device_create(setting->oracle, number == 0 ? host : road->runner, 0, number == 0, &road->device,
                                      &error);
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s: %s", setting->text, error.message);
    }
    oracle_device_companions(road->device, true);
    road->open = true;
}

static void close_road(struct road *road)
{
    oracle_device_destroy(road->device);
    if (road->runner != NULL) {
        runner_destroy(road->runner);
    }
}

/* jobs of the mutants' text for those that nothing has caught yet */
static void make_objects(struct setting *setting, const struct road *road, const struct candidate *candidate,
                         struct trial *trials, int count)
{
    struct expansion scratch = {0};
    struct error error = {0};
    struct batch batch = {trials, count, &road->objects};
    for (int i = 0; i < count; i++) {
        struct object_job *job = &trials[i].job;
        if (trials[i].done) {
            continue;
        }
        object_job_free(job);
        if (object_expand(setting->bench->generator, &road->objects, candidate, &setting->problem, &scratch, job,
                          &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        free(job->source);
        job->source = strdup(trials[i].mutant->text);
        job->source_bytes = strlen(job->source);
    }
    expansion_free(&scratch);
    parallel_for((size_t)count, obtain, &batch);
}

static void note_catch(struct setting *setting, struct trial *trial, const struct catch *caught)
{
    trial->done = trial->caught = true;
    trial->row->caught++;
    note_way(trial->row, caught->way);
    if (getenv("ATTUNE_MUTANTS_VERBOSE") != NULL) {
        print_message("  %s: %s: %s: %s\n", trial->mutant->kind, trial->mutant->name, caught->way, caught->detail);
    }
    if (trial->mutant->equivalent[0] != '\0') {
        complain(setting, trial, "is caught, but the table says that it cannot be", caught->detail);
    }
}

/* everything that a road has for the trials that nothing has caught yet */
static void pass_road(struct setting *setting, const struct road *road, const struct candidate *candidate,
                      struct trial *trials, int count)
{
    make_objects(setting, road, candidate, trials, count);
    for (int i = 0; i < count; i++) {
        struct trial *trial = &trials[i];
        struct catch caught = {0};
        if (!trial->done && trial->job.status != ATTUNE_OK) {
            complain(setting, trial, "does not compile", trial->job.message);
            trial->done = trial->caught = true;
        }
        bool quick = !setting->bench->whole && strcmp(trial->mutant->kind, "barrier removed") != 0 &&
                     strcmp(trial->mutant->kind, "wait removed") != 0;
        for (int schedule = 0; schedule < (quick ? 1 : road->schedules) && !trial->done; schedule++) {
            check(road, &trial->job, (enum host_schedule)schedule, &caught);
            if (caught.way[0] != '\0') {
                note_catch(setting, trial, &caught);
            }
        }
    }
}

/* a candidate's mutants, those alone that are still wanted */
static void try_candidate(struct setting *setting, const struct candidate *candidate)
{
    struct bench *bench = setting->bench;
    struct object_job plain = {0};
    struct expansion scratch = {0};
    struct error error = {0};
    if (object_expand(bench->generator, &setting->roads[0].objects, candidate, &setting->problem, &scratch, &plain,
                      &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    struct mutants mutants = table_plan(bench->table, plain.source, candidate, &setting->problem);
    struct trial *trials = calloc((size_t)mutants.count, sizeof *trials);
    int count = 0;
    const char *only = getenv("ATTUNE_MUTANTS_ONLY");
    for (int i = 0; i < mutants.count; i++) {
        struct mutant *mutant = &mutants.items[i];
        struct row *row = row_of(bench, mutant);
        struct trial *trial = &trials[count];
        *trial = (struct trial){.mutant = mutant, .row = row};
        if (mutant->text == NULL) {
            memcpy(trial->job.name, plain.name, sizeof trial->job.name);
            complain(setting, trial, "is stale: its place is not in the text", "");
            continue;
        }
        bool none = strcmp(mutant->kind, "none") == 0;
        bool settled = bench->each > 0 ? row->here >= bench->each
                                       : (mutant->equivalent[0] != '\0' ? row->equivalents : row->caught) > 0;
        if ((settled && !none) || (only != NULL && !none && strstr(mutant->name, only) == NULL)) {
            continue;
        }
        count++;
    }
    count = count > 1 ? count : 0; /* the text as it is alone shows nothing */
    for (int i = 0; i < count; i++) {
        struct row *row = trials[i].row;
        row->tried++;
        row->here++;
        if (trials[i].mutant->equivalent[0] != '\0') {
            row->equivalents++;
            memcpy(row->equivalent, trials[i].mutant->equivalent, sizeof row->equivalent);
        }
    }
    for (int road = 0; road < ROADS; road++) {
        for (int i = 0; i < count; i++) {
            trials[i].done |= road > 0 && !bench->whole && trials[i].mutant->equivalent[0] != '\0';
        }
        if (setting->roads[road].open) {
            pass_road(setting, &setting->roads[road], candidate, trials, count);
        }
    }
    for (int i = 0; i < count; i++) {
        struct trial *trial = &trials[i];
        if (!trial->caught && trial->mutant->equivalent[0] == '\0') {
            trial->row->passed++;
            trial->row->passed_free += trial->mutant->free;
            if (!trial->mutant->free) {
                complain(setting, trial, "passes everything", "");
            }
        }
        object_job_free(&trial->job);
    }
    free(trials);
    mutants_free(&mutants);
    object_job_free(&plain);
    expansion_free(&scratch);
}

/* the candidates named, or else a cover's */
static attune_status choose(struct setting *setting, const struct target *target, const char *const *named, int cover,
                            struct candidate_list *list, struct error *error)
{
    struct generator *generator = setting->bench->generator;
    attune_status status = ATTUNE_OK;
    if (named[0] == NULL || setting->bench->whole || getenv("ATTUNE_MUTANTS_COVER") != NULL) {
        return candidate_cover(generator, &setting->problem, target, cover, 1, list, error);
    }
    *list = (struct candidate_list){.items = calloc(3, sizeof *list->items)};
    assert_non_null(list->items);
    for (int i = 0; i < 3 && named[i] != NULL && status == ATTUNE_OK; i++) {
        status = candidate_parse(generator, named[i], &setting->problem, target, &list->items[list->count++], error);
        if (status == ATTUNE_OK) {
            status = candidate_check(generator, &list->items[i], &setting->problem, target, error);
        }
    }
    return status;
}

static void try_problem(struct bench *bench, const char *text, const char *target_text, const char *const *named,
                        int cover)
{
    struct setting setting = {.bench = bench, .text = text};
    struct candidate_list list;
    struct target target;
    struct error error = {0};
    if (problem_parse(schema_attention_forward(), text, &setting.problem, &error) != ATTUNE_OK ||
        target_parse(target_text, &target, &error) != ATTUNE_OK ||
        oracle_create(bench->generator, &setting.problem, 1, &setting.oracle, &error) != ATTUNE_OK ||
        oracle_prepare(setting.oracle, true, &error) != ATTUNE_OK ||
        choose(&setting, &target, named, cover, &list, &error) != ATTUNE_OK) {
        fail_msg("%s: %s", text, error.message);
    }
    for (int road = 0; road < ROADS; road++) {
        open_road(&setting, road, &target);
    }
    for (int i = 0; i < bench->row_count; i++) {
        bench->rows[i].here = 0;
    }
    for (int i = 0; i < list.count; i++) {
        if (strcmp(list.items[i].template_name, MUTANTS_TEMPLATE) == 0) {
            try_candidate(&setting, &list.items[i]);
        }
    }
    candidate_list_free(&list);
    for (int road = 0; road < ROADS; road++) {
        close_road(&setting.roads[road]);
    }
    oracle_destroy(setting.oracle);
}

/* ---- the table ---- */

static void write_row(FILE *file, const struct row *row)
{
    char caught[512] = "";
    size_t used = 0;
    for (int i = 0; i < row->way_count; i++) {
        used += (size_t)snprintf(caught + used, used < sizeof caught ? sizeof caught - used : 0, "%s%s %d",
                                 used > 0 ? "; " : "", row->ways[i].name, row->ways[i].count);
    }
    if (row->passed > row->passed_free) {
        used += (size_t)snprintf(caught + used, used < sizeof caught ? sizeof caught - used : 0, "%s**passes %d**",
                                 used > 0 ? "; " : "", row->passed - row->passed_free);
    }
    if (row->passed_free > 0) {
        used += (size_t)snprintf(caught + used, used < sizeof caught ? sizeof caught - used : 0, "%smay pass there %d",
                                 used > 0 ? "; " : "", row->passed_free);
    }
    if (row->equivalents > 0) {
        snprintf(caught + used, used < sizeof caught ? sizeof caught - used : 0, "%sequivalent %d: %s",
                 used > 0 ? "; " : "", row->equivalents, row->equivalent);
    }
    /* a name may hold code */
    char name[2 * sizeof row->name];
    size_t length = 0;
    for (const char *c = row->name; *c != '\0'; c++) {
        if (*c == '|') {
            name[length++] = '\\';
        }
        name[length++] = *c;
    }
    name[length] = '\0';
    fprintf(file, "| %s | %s | %s | %d | %s |\n", row->kind, name, row->says, row->tried, caught);
}

static void write_table(const struct bench *bench, FILE *file)
{
    fprintf(file, "| mistake | where | what it does | candidates | caught by |\n|---|---|---|---|---|\n");
    for (int i = 0; i < bench->row_count; i++) {
        bool first = true;
        for (int j = 0; j < i; j++) {
            first &= strcmp(bench->rows[i].kind, bench->rows[j].kind) != 0;
        }
        for (int j = i; first && j < bench->row_count; j++) {
            if (strcmp(bench->rows[i].kind, bench->rows[j].kind) == 0) {
                write_row(file, &bench->rows[j]);
            }
        }
    }
}

static void every_planted_mistake_is_rejected(void **state)
{
    struct bench *bench = *state;
    const char *cover_text = getenv("ATTUNE_MUTANTS_COVER"), *path = getenv("ATTUNE_MUTANTS_TABLE");
    int cover = cover_text != NULL ? atoi(cover_text) : 8;
    const char *alone = getenv("ATTUNE_MUTANTS_PROBLEM");
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        if (strcmp(problems[i].of, MUTANTS_TEMPLATE) != 0 || (alone != NULL && atoi(alone) != (int)i)) {
            continue;
        }
        try_problem(bench, problems[i].problem, problems[i].target, problems[i].candidates, cover);
    }
    write_table(bench, stdout);
    if (path != NULL) {
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        write_table(bench, file);
        assert_int_equal(fclose(file), 0);
    }
    for (int i = 0; i < bench->row_count; i++) {
        const struct row *row = &bench->rows[i];
        if (row->caught == 0 && row->equivalents == 0 && (alone == NULL || row->passed_free < row->tried)) {
            print_error("%s: %s: nothing caught it\n", row->kind, row->name);
            bench->problems++;
        }
    }
    assert_int_equal(bench->problems, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_planted_mistake_is_rejected),
    };
    return cmocka_run_group_tests_name("mutants", tests, set_up, tear_down);
}
