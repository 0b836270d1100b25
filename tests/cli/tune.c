/* `attune tune` on many problems and devices: through the real program, on the host device. */
#include "program.h"

#include "cli/npy.h"

#include <stdio.h>
#include <string.h>

/* the host compiler is all it needs, and a test is skipped by name without it */
static void need_host_compiler(void)
{
    size_t index, at;
    json_t *row, *target;
    attune("doctor", "--json", NULL);
    json_array_foreach(json_object_get(answer(), "compilers"), index, row)
    {
        json_array_foreach(json_object_get(row, "targets"), at, target)
        {
            if (json_is_true(json_object_get(row, "found")) && strcmp(json_string_value(target), "host") == 0) {
                return;
            }
        }
    }
    print_message("skipped: no C++ compiler for the host device\n");
    skip();
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char *text_at(const json_t *rows, size_t index, const char *key)
{
    const char *text = json_string_value(json_object_get(json_array_get(rows, index), key));
    assert_non_null(text);
    return text;
}

static void several_devices_share_a_list(void **state)
{
    (void)state;
    need_host_compiler();
    write_file(scratch("several.txt"), "a: test.scale elements=100 factor=3\nb: test.scale elements=200 factor=3\n"
                                       "c: test.scale elements=300 factor=3\nd: test.scale elements=400 factor=3\n");
    attune("tune", "--problems", scratch("several.txt"), "--device", "host,host", "--store", scratch("several"),
           "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *results = json_object_get(answer(), "results");
    assert_int_equal(json_array_size(results), 4); /* each once, in the order of the file */
    for (size_t i = 0; i < 4; i++) {
        const char name[] = {(char)('a' + i), '\0'};
        assert_string_equal(text_at(results, i, "name"), name);
        assert_string_equal(text_at(results, i, "device"), "host");
        assert_string_equal(text_at(results, i, "ending"), "complete");
    }
    attune("cache", "ls", "--store", scratch("several"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    size_t index, tuned = 0;
    json_t *row;
    json_array_foreach(json_object_get(answer(), "entries"), index, row)
    {
        const char *record = json_string_value(json_object_get(row, "record"));
        tuned += record != NULL && strcmp(record, "tuned") == 0;
    }
    assert_int_equal(tuned, 4);
    attune("cache", "verify", "--store", scratch("several"), NULL);
    exits_with(EXIT_IS_DONE);
}

static void devices_are_named_and_checked(void **state)
{
    (void)state;
    static const struct {
        const char *devices, *named;
        int code;
    } cases[] = {
        {"host,", "'' is no device", EXIT_IS_USAGE},
        {",", "'' is no device", EXIT_IS_USAGE},
        {"host,abacus", "\"abacus\" is unknown", EXIT_IS_USAGE},
        {"host,host:1", "host", EXIT_IS_MISSING},
        {"host:1", "host", EXIT_IS_MISSING},
        {"host:-1", "not a device number", EXIT_IS_USAGE},
        {"ALL", "\"ALL\" is unknown", EXIT_IS_USAGE},
        {"host host", "\"host host\" is unknown", EXIT_IS_USAGE},
        {"host,all,host", "`all` stands alone", EXIT_IS_USAGE},
        {"host,all", "`all` stands alone", EXIT_IS_USAGE},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        attune("tune", "--problem", "test.scale elements=100", "--device", cases[i / 2].devices,
               i % 2 == 0 ? "--dry-run" : NULL, NULL);
        exits_with(cases[i / 2].code);
        complains(cases[i / 2].named);
    }
    attune("tune", "--problem", "test.scale elements=100", "--problems", "x", "--device", "host,host", NULL);
    exits_with(EXIT_IS_USAGE);
}

static void a_dry_run_refuses_what_a_run_would(void **state)
{
    (void)state;
    static const struct {
        const char *option, *value, *named;
        int code;
    } cases[] = {
        {"--strategy", "exhaustiv", "use model, exhaustive", EXIT_IS_USAGE},
        {"--strategy", "MODEL", "use model, exhaustive", EXIT_IS_USAGE},
        {"--strategy", "cover,random", "use model, exhaustive", EXIT_IS_USAGE},
        {"--strategy", "model", "nothing is timed on this device", EXIT_IS_USAGE},
        {"--candidates", "absent-candidates", "absent-candidates", EXIT_IS_FAILED},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        attune("tune", "--device", "host", "--problem", "test.scale elements=100", cases[i / 2].option,
               cases[i / 2].value, i % 2 == 0 ? "--dry-run" : NULL, NULL);
        exits_with(cases[i / 2].code);
        complains(cases[i / 2].named);
    }
}

/* whichever rank's it would be: no other waits for it */
static void what_has_no_reference_is_refused_by_every_rank(void **state)
{
    (void)state;
    static const char *const ranks[] = {"", "--rank 0/2 --job refused", "--rank 1/2 --job refused", "--dry-run"};
    write_file(scratch("refused.txt"), "test.fault elements=8\ntest.scale elements=9\n");
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        char script[4096];
        snprintf(script, sizeof script,
                 "mkdir -p '%s' && cp -r \"$ATTUNE_TEMPLATE_PATH\"/* '%s' && sed -i '/^    inputs/,/^    end/d; "
                 "/^    reference/,/^    end/d' '%s/fault.lua' && ATTUNE_TEMPLATE_PATH='%s' \"$0\" tune --device host "
                 "--problems '%s' %s --store '%s'",
                 scratch("unproven"), scratch("unproven"), scratch("unproven"), scratch("unproven"),
                 scratch("refused.txt"), ranks[i], scratch("refused"));
        attune_in_shell(script);
        exits_with(EXIT_IS_FAILED);
        complains("problem 1: test.fault brings no `reference`");
        complains("1 of 2 problems cannot be tuned here");
    }
}

static void a_problem_that_is_in_the_list_again_is_tuned_once(void **state)
{
    (void)state;
    write_file(scratch("twice.txt"), "a: test.scale elements=8,9,8\nb: test.scale elements=9\ntest.scale elements=7\n");
    attune("tune", "--device", "host", "--problems", scratch("twice.txt"), "--dry-run", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    complains("2 problems are in the list already, and are tuned once");
    const json_t *plan = json_object_get(answer(), "plan");
    assert_int_equal(json_array_size(plan), 3);
    assert_string_equal(text_at(plan, 0, "name"), "a[elements=8]");
    assert_string_equal(text_at(plan, 1, "name"), "a[elements=9]");
    assert_int_equal(json_integer_value(json_object_get(answer(), "repeated")), 2);
}

/* one of them may have been meant: a new run does not begin without a word */
static void journals_that_cannot_be_gone_on_with_are_named(void **state)
{
    (void)state;
    need_host_compiler();
#define RESUME                                                                                                         \
    "\"$0\" tune --problem 'test.scale elements=20' --device host --count 1 --resume --store \"$ATTUNE_CACHE.over\"\n" \
    "cd \"$ATTUNE_CACHE.over/journals\"\n"
    attune_in_shell(RESUME "for journal in *; do yes x | head -70000 >>$journal; done\n"
                           "ln -s $journal 11.jsonl && mkfifo 22.jsonl && echo '{}' >33.jsonl && : >44.jsonl\n" RESUME);
    exits_with(EXIT_IS_DONE);
    complains(".jsonl: more than 65536 lines are no journal");
    complains("--resume passes over journals/11.jsonl: it is no plain file");
    complains("--resume passes over journals/22.jsonl: it is no plain file");
    complains("--resume passes over journals/33.jsonl: its first line is not that of a journal");
    complains("no run to go on with: begins a new one");
    attune_in_shell("cd \"$ATTUNE_CACHE.over/journals\" && rm ??.jsonl && truncate -s 70M * && cd / && " RESUME);
    exits_with(EXIT_IS_DONE);
    complains("--resume passes over journals/");
    complains("no run to go on with: begins a new one");
    attune_in_shell("cd \"$ATTUNE_CACHE.over/journals\" && find . -size +60M -delete && cd / && " RESUME);
    exits_with(EXIT_IS_DONE);
    complains("nothing is left to do: 1 outcome holds");
}

/* on a stand-in for libcuda, which has two different GPUs */
static void plan_on(const char *devices, int code)
{
    char script[4096];
    snprintf(script, sizeof script,
             "ATTUNE_CUDA_LIBRARY='" FAKE_CUDA "' \"$0\" tune --problem 'test.scale elements=10,20' --dry-run --json "
             "--device %s",
             devices);
    attune_in_shell(script);
    exits_with(code);
}

static void gpus_are_grouped_by_what_they_are(void **state)
{
    (void)state;
    static const char *const wanted[][4] = {{"all", "cuda:0", "cuda:1", NULL},
                                            {"cuda:1,host,cuda", "cuda:1", "host", "cuda:0"},
                                            {"host,cuda:1,host", "host", "cuda:1", NULL}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        plan_on(wanted[i][0], EXIT_IS_DONE);
        const json_t *plan = json_object_get(answer(), "plan");
        const size_t groups = wanted[i][3] != NULL ? 3 : 2; /* each tunes both problems */
        assert_int_equal(json_array_size(plan), 2 * groups);
        for (size_t row = 0; row < 2 * groups; row++) {
            const json_t *devices = json_object_get(json_array_get(plan, row), "devices");
            assert_string_equal(json_string_value(json_array_get(devices, 0)), wanted[i][1 + row % groups]);
            /* the host named twice is one group of two */
            assert_int_equal(json_array_size(devices), i == 2 && row % groups == 0 ? 2 : 1);
        }
    }
    plan_on("cuda:0,cuda:1,cuda:0", EXIT_IS_USAGE);
    complains("cuda:0 twice");
    plan_on("cuda:0,cuda:2", EXIT_IS_MISSING);
}

static void ranges_are_problems_with_names(void **state)
{
    (void)state;
    need_host_compiler();
    write_file(scratch("ranges.txt"), "s: test.scale elements=100..400*2 factor=3\ntest.scale elements=7,9\n");
    attune("tune", "--problems", scratch("ranges.txt"), "--device", "host", "--count", "1", "--store",
           scratch("ranges"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    static const char *const names[] = {"s[elements=100]", "s[elements=200]", "s[elements=400]", "[elements=7]",
                                        "[elements=9]"};
    const json_t *results = json_object_get(answer(), "results");
    assert_int_equal(json_array_size(results), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(text_at(results, i, "name"), names[i]);
    }
    assert_non_null(strstr(text_at(results, 1, "problem"), "elements=200 "));
    attune("verify", "--problem", "test.scale elements=5..6+1", "--device", "host", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    assert_int_equal(json_array_size(json_object_get(answer(), "results")), 2);
    attune("compile", "--space", "--problem", "test.scale elements=5..6+1", "--target", "host", "--store",
           scratch("ranges"), NULL);
    exits_with(EXIT_IS_DONE);
    attune("compile", "--defaults", "--problem", "test.scale elements=5..6+1", "--target", "host", "--store",
           scratch("ranges"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
}

static void one_problem_commands_name_the_range(void **state)
{
    (void)state;
    static const char *const commands[][8] = {
        {"show", "--target", "host"}, {"params", "test.scale", "--target", "host"},   {"explain", "--device", "host"},
        {"run", "--device", "host"},  {"compile", "--target", "host", "--resources"},
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const char *const *w = commands[i];
        attune(w[0], "--problem", "test.scale elements=5..6+1", w[1], w[2], w[3], w[4], NULL);
        exits_with(EXIT_IS_USAGE);
        complains("'elements=5..6+1' stands for several problems");
    }
    attune("tune", "--problem", "test.scale elements=1..5000+1", "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("5000 problems");
    write_file(scratch("many.txt"), "test.scale elements=1..3000+1\ntest.scale elements=1..2000+1\n");
    attune("tune", "--problems", scratch("many.txt"), "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("line 2: this stands for 2000 problems, more than the 1096");
    attune("tune", "--problem", "test.scale elements=5,x", "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("[elements=x]");
}

/* ---- traces ---- */

/* three problems by calls, two of them in two lines, and what is none */
static void write_trace(const char *path)
{
    write_file(path, "{\"calls\":1,\"problem\":\"test.scale dtype=f32 elements=30\"}\n"
                     "{\"calls\":40,\"problem\":\"test.scale dtype=f32 elements=10\"}\n"
                     "{\"calls\":9,\"problem\":\"test.scale dtype=f32 elements=20\"}\n"
                     "{\"calls\":30,\"problem\":\"test.scale dtype=f32 elements=10 factor=7\"}\n"
                     "{\"calls\":20,\"problem\":\"test.scale dtype=f32 elements=10\"}\n"
                     "{\"calls\":5,\"problem\":\"test.other elements=10\"}\n"
                     "{\"calls\":5,\"prob");
}

static int whole_at(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);
    assert_true(json_is_integer(number));
    return (int)json_integer_value(number);
}

static double real_at(const json_t *rows, size_t index, const char *key)
{
    const json_t *number = json_object_get(json_array_get(rows, index), key);
    assert_true(json_is_number(number));
    return json_number_value(number);
}

static void a_trace_is_planned_by_share(void **state)
{
    (void)state;
    static const char *const elements[] = {"elements=10", "elements=20", "elements=30"};
    static const int calls[] = {90, 9, 1}, seconds[] = {80, 10, 10};
    write_trace(scratch("plan.jsonl"));
    attune("tune", "--trace", scratch("plan.jsonl"), "--device", "host", "--budget", "100s", "--dry-run", "--store",
           scratch("plan"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *plan = json_object_get(answer(), "plan"), *trace = json_object_get(answer(), "trace");
    assert_int_equal(json_array_size(plan), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_non_null(strstr(text_at(plan, i, "problem"), elements[i]));
        assert_true(real_at(plan, i, "calls") == calls[i]);
        assert_float_equal(real_at(plan, i, "share"), calls[i] / 100.0, 1e-3);
        assert_float_equal(real_at(plan, i, "seconds"), seconds[i], 1e-6);
    }
    assert_int_equal(whole_at(trace, "lines"), 7);
    assert_int_equal(whole_at(trace, "unreadable"), 1);
    assert_int_equal(whole_at(trace, "foreign"), 1);
    assert_int_equal(whole_at(trace, "tuned_already"), 0);
    assert_null(json_object_get(answer(), "results")); /* nothing was tuned */
    /* two files are one trace; without a budget there is no limit */
    write_file(scratch("more.jsonl"), "{\"calls\":1000,\"problem\":\"test.scale elements=30\"}\n");
    attune("tune", "--trace", scratch("plan.jsonl"), "--trace", scratch("more.jsonl"), "--device", "host", "--dry-run",
           "--store", scratch("plan"), NULL);
    exits_with(EXIT_IS_DONE);
    says("1001");
    says("   none  ");
    complains("1 of 8 lines");
    complains("test.other");
}

/* of a trace only what can be tuned is */
static void what_a_trace_has_that_cannot_be_tuned_is_left_out(void **state)
{
    (void)state;
    write_file(scratch("large.jsonl"),
               "{\"calls\":9,\"problem\":\"attention.forward dtype=f16 heads=64 seqlen_q=16384 head_dim=128\"}\n"
               "{\"calls\":1,\"problem\":\"test.scale dtype=f32 elements=10\"}\n");
    attune("tune", "--trace", scratch("large.jsonl"), "--device", "host", "--dry-run", "--store", scratch("plan"),
           "--json", NULL);
    exits_with(EXIT_IS_DONE);
    complains("the problem takes ");
    assert_int_equal(json_array_size(json_object_get(answer(), "plan")), 1);
    assert_int_equal(whole_at(json_object_get(answer(), "trace"), "refused"), 1);
    write_file(scratch("foreign.jsonl"), "{\"calls\":9,\"problem\":\"test.other a=1\"}\n"
                                         "{\"calls\":8,\"problem\":\"test.scale hue=1\"}\n"
                                         "{\"calls\":1,\"problem\":\"test.scale dtype=f32 elements=10\"}\n");
    attune("tune", "--trace", scratch("foreign.jsonl"), "--device", "host", "--dry-run", NULL);
    exits_with(EXIT_IS_DONE);
    complains("--trace: 2 problems are not known here, the first: ");
    write_file(scratch("large.jsonl"),
               "{\"calls\":9,\"problem\":\"attention.forward dtype=f16 heads=64 seqlen_q=16384 head_dim=128\"}\n");
    attune("tune", "--trace", scratch("large.jsonl"), "--device", "host", "--store", scratch("plan"), NULL);
    exits_with(EXIT_IS_USAGE);
    complains("the problem takes ");
}

/* how many problems the trace's plan has, and how many are known */
static void plan_has(const char *extra, int planned, int known)
{
    attune("tune", "--trace", scratch("tuned.jsonl"), "--device", "host", "--dry-run", "--store", scratch("tuned"),
           "--json", extra, NULL);
    exits_with(EXIT_IS_DONE);
    assert_int_equal(json_array_size(json_object_get(answer(), "plan")), planned);
    assert_int_equal(whole_at(json_object_get(answer(), "trace"), "tuned_already"), known);
}

static void what_is_tuned_is_left_out_until_asked_for(void **state)
{
    (void)state;
    need_host_compiler();
    char script[4096];
    write_trace(scratch("tuned.jsonl"));
    attune("tune", "--trace", scratch("tuned.jsonl"), "--device", "host,host", "--strategy", "default", "--store",
           scratch("tuned"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    plan_has(NULL, 3, 0); /* the default alone was looked at */
    plan_has("--strategy=default", 0, 3);
    attune("tune", "--problem", "test.scale elements=20", "--device", "host", "--count", "2", "--store",
           scratch("tuned"), NULL);
    exits_with(EXIT_IS_DONE);
    plan_has(NULL, 3, 0); /* incomplete */
    attune("tune", "--trace", scratch("tuned.jsonl"), "--device", "host,host", "--budget", "10m", "--store",
           scratch("tuned"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *results = json_object_get(answer(), "results");
    assert_int_equal(json_array_size(results), 3);
    assert_true(real_at(results, 0, "calls") == 90 && real_at(results, 2, "calls") == 1);
    assert_string_equal(text_at(results, 0, "ending"), "complete");
    plan_has(NULL, 0, 3);
    plan_has("--retune", 3, 0);
    attune("tune", "--trace", scratch("tuned.jsonl"), "--device", "host", "--store", scratch("tuned"), NULL);
    exits_with(EXIT_IS_DONE);
    complains("3 problems are tuned already; --retune");
    /* another template's record is none */
    snprintf(script, sizeof script,
             "mkdir -p '%s' && cp -r \"$ATTUNE_TEMPLATE_PATH\"/* '%s' && echo '// changed' >> '%s/scale.hip' && "
             "ATTUNE_TEMPLATE_PATH='%s' \"$0\" tune --trace '%s' --device host --dry-run --store '%s' --json",
             scratch("templates"), scratch("templates"), scratch("templates"), scratch("templates"),
             scratch("tuned.jsonl"), scratch("tuned"));
    attune_in_shell(script);
    exits_with(EXIT_IS_DONE);
    assert_int_equal(json_array_size(json_object_get(answer(), "plan")), 3);
    /* nor one whose object is gone */
    snprintf(script, sizeof script, "rm -r '%s/objects'", scratch("tuned"));
    attune_in_shell(script);
    exits_with(EXIT_IS_DONE);
    plan_has(NULL, 3, 0);
}

static void results_of_a_trace_are_numbered_and_named_as_planned(void **state)
{
    (void)state;
    need_host_compiler();
    write_trace(scratch("named.jsonl"));
    attune("tune", "--trace", scratch("named.jsonl"), "--device", "host", "--strategy", "default", "--store",
           scratch("named"), NULL);
    exits_with(EXIT_IS_DONE);
    says("  target  calls  share %  tried  verified  rejected  seconds  "
         "winner\n");
    says("     2  test.scale dtype=f32 elements=20  host        9 ");
    says("\nproblem 2: test.scale dtype=f32 elements=20");
    complains("attune tune: test.scale dtype=f32 elements=20: takes ");
    /* names of a list are the user's: for the journals too */
    write_file(scratch("named.txt"), "test.scale elements=3\nfour: test.scale elements=4\n");
    attune("tune", "--problems", scratch("named.txt"), "--device", "host", "--strategy", "default", "--store",
           scratch("named"), NULL);
    exits_with(EXIT_IS_DONE);
    says("problem 1  host ");
    says("\nproblem 1: test.scale dtype=f32 elements=3\n");
    says("\nfour: test.scale dtype=f32 elements=4\n");
    complains("attune tune: problem 1: takes ");
    attune("cache", "journals", "--store", scratch("named"), "--json", NULL);
    const json_t *runs = json_object_get(answer(), "runs");
    int names = 0;
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(runs, i), "name"));
        names += name != NULL && name[0] != '\0';
        assert_true(name == NULL || name[0] == '\0' || strcmp(name, "four") == 0);
    }
    assert_int_equal(json_array_size(runs), 5);
    assert_int_equal(names, 1);
}

/* its reason once, under a name; the others are tuned */
static void what_fails_of_a_list_is_named(void **state)
{
    (void)state;
    need_host_compiler();
    write_file(scratch("failing.txt"), "test.scale elements=3\ntest.fault elements=100 fault=compile\n");
    attune("tune", "--problems", scratch("failing.txt"), "--device", "host", "--store", scratch("failing"), "--json",
           NULL);
    exits_with(EXIT_IS_FAILED);
    complains("attune tune: problem 2: none of ");
    assert_int_equal(json_array_size(json_object_get(answer(), "results")), 1);
    const json_t *failures = json_object_get(answer(), "failures");
    assert_int_equal(json_array_size(failures), 1);
    assert_non_null(strstr(text_at(failures, 0, "problem"), "test.fault"));
    assert_non_null(strstr(text_at(failures, 0, "message"), "compile-error"));
    assert_string_equal(json_string_value(json_object_get(json_object_get(answer(), "error"), "message")),
                        "1 of 2 problems could not be tuned; why is told above");
}

static void a_budget_of_all_ends_before_the_last(void **state)
{
    (void)state;
    need_host_compiler();
    write_trace(scratch("short.jsonl"));
    attune("tune", "--trace", scratch("short.jsonl"), "--device", "host", "--budget", "100ms", "--store",
           scratch("short"), "--json", NULL);
    exits_with(EXIT_IS_DONE); /* the largest share had it all */
    assert_int_equal(json_array_size(json_object_get(answer(), "results")), 1);
    assert_int_equal(whole_at(answer(), "not_begun"), 2);
    complains("the budget ended before the last 2 of 3 problems, not begun: ");
}

/* from the launches of a program to the plan */
static void what_a_program_launches_is_what_is_planned(void **state)
{
    (void)state;
    enum { SEQLEN = 5, HEADS = 2, DIM = 16 };
    static const int64_t shape[] = {1, SEQLEN, HEADS, DIM};
    static const float zeros[SEQLEN * HEADS * DIM];
    char script[4096];
    need_host_compiler();
    assert_int_equal(npy_write(scratch("q.npy"), NPY_F4, 4, shape, zeros, NULL), ATTUNE_OK);
    snprintf(script, sizeof script,
             "for i in 1 2 3; do ATTUNE_TRACE='%s' \"$0\" run --device host --problem 'dtype=f32 heads=2 seqlen_q=5 "
             "head_dim=16 causal=1' --q '%s' --k '%s' --v '%s' --o '%s' || exit 9; done",
             scratch("run.jsonl"), scratch("q.npy"), scratch("q.npy"), scratch("q.npy"), scratch("o.npy"));
    attune_in_shell(script);
    exits_with(EXIT_IS_DONE);
    attune("tune", "--trace", scratch("run.jsonl"), "--device", "host", "--budget", "30", "--dry-run", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *plan = json_object_get(answer(), "plan");
    assert_int_equal(json_array_size(plan), 1);
    assert_true(real_at(plan, 0, "calls") == 3 && real_at(plan, 0, "seconds") == 30);
    assert_non_null(strstr(text_at(plan, 0, "problem"), " seqlen_q=5 "));
}

static void traces_that_cannot_be_tuned_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *named;
        int code;
    } cases[] = {
        {"", "no launch is noted there yet", EXIT_IS_USAGE},
        {"hello\n", "is no trace", EXIT_IS_USAGE},
        {"{\"calls\":1,\"problem\":\"test.other a=1\"}\n", "test.other", EXIT_IS_USAGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(scratch("refused.jsonl"), cases[i].text);
        attune("tune", "--trace", scratch("refused.jsonl"), "--device", "host", NULL);
        exits_with(cases[i].code);
        complains("--trace");
        complains(cases[i].named);
    }
    attune("tune", "--trace", scratch("none.jsonl"), NULL);
    exits_with(EXIT_IS_FAILED);
    complains("none.jsonl");
    attune("tune", "--trace", scratch("refused.jsonl"), "--problem", "test.scale elements=1", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("leave --problem out");
    attune("tune", "--retune", "--problem", "test.scale elements=1", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("--retune goes with --trace");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_devices_share_a_list),
        cmocka_unit_test(devices_are_named_and_checked),
        cmocka_unit_test(journals_that_cannot_be_gone_on_with_are_named),
        cmocka_unit_test(a_dry_run_refuses_what_a_run_would),
        cmocka_unit_test(what_has_no_reference_is_refused_by_every_rank),
        cmocka_unit_test(a_problem_that_is_in_the_list_again_is_tuned_once),
        cmocka_unit_test(gpus_are_grouped_by_what_they_are),
        cmocka_unit_test(ranges_are_problems_with_names),
        cmocka_unit_test(one_problem_commands_name_the_range),
        cmocka_unit_test(a_trace_is_planned_by_share),
        cmocka_unit_test(what_a_trace_has_that_cannot_be_tuned_is_left_out),
        cmocka_unit_test(what_is_tuned_is_left_out_until_asked_for),
        cmocka_unit_test(results_of_a_trace_are_numbered_and_named_as_planned),
        cmocka_unit_test(what_fails_of_a_list_is_named),
        cmocka_unit_test(a_budget_of_all_ends_before_the_last),
        cmocka_unit_test(what_a_program_launches_is_what_is_planned),
        cmocka_unit_test(traces_that_cannot_be_tuned_are_refused),
    };
    return cmocka_run_group_tests_name("cli_tune", tests, program_setup, program_teardown);
}
