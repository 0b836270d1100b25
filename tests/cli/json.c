/* What --json prints is held by golden files, for a family of the tests' own whose space is fixed. */
#include "program.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBLEM "test.scale elements=1000 factor=3"

static json_t *row_named(const json_t *rows, const char *key, const char *name)
{
    size_t index;
    json_t *row;
    json_array_foreach(rows, index, row)
    {
        const char *text = json_string_value(json_object_get(row, key));
        if (text != NULL && strcmp(text, name) == 0) {
            return row;
        }
    }
    fail_msg("no row whose %s is %s", key, name);
    return NULL;
}

static void families_from_the_template_path_are_listed(void **state)
{
    (void)state;
    attune("families", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *families = json_object_get(answer(), "families");
    assert_non_null(row_named(families, "family", "attention.forward"));
    assert_non_null(row_named(families, "family", "test.scale"));
    attune("families", NULL);
    exits_with(EXIT_IS_DONE);
    says("test.scale - y = factor x");
}

static void params_declared(void **state)
{
    (void)state;
    attune("params", "test.scale", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    matches_golden("params_declared");
}

static void params_judged(void **state)
{
    (void)state;
    attune("params", "test.scale", "--problem", PROBLEM, "--target", "gfx906", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    matches_golden("params_judged");
    attune("params", "test.scale", "--problem", PROBLEM, "--target", "gfx906", NULL);
    exits_with(EXIT_IS_DONE);
    says("9 points, 8 valid");
    says("threads*unroll");
}

static void show(void **state)
{
    (void)state;
    attune("show", "--problem", PROBLEM, "--target", "gfx906", "unroll=2", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    matches_golden("show");
    attune("show", "--problem", PROBLEM, "--target", "gfx906", "unroll=2", NULL);
    says("constexpr int THREADS = 64, UNROLL = 2;");
    attune("show", "test.scale", "--target", "sm_90a", NULL);
    exits_with(EXIT_IS_DONE);
    complains("no --problem given, so for example: test.scale elements=64");
}

static void devices_always_have_the_host(void **state)
{
    (void)state;
    attune("devices", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    json_t *host = row_named(json_object_get(answer(), "drivers"), "driver", "host");
    assert_true(json_is_true(json_object_get(host, "usable")));
    json_t *device = json_array_get(json_object_get(host, "devices"), 0);
    assert_string_equal(json_string_value(json_object_get(device, "device")), "host:0");
    assert_string_equal(json_string_value(json_object_get(device, "target")), "host");
}

static void doctor_tells_every_part(void **state)
{
    (void)state;
    static const char *const parts[] = {"drivers",       "compilers", "targets",   "cache",
                                        "template_path", "runners",   "simulator", "environment"};
    attune("doctor", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        assert_non_null(json_object_get(answer(), parts[i]));
    }
    json_t *cache = row_named(json_object_get(answer(), "environment"), "name", "ATTUNE_CACHE");
    assert_non_null(json_string_value(json_object_get(cache, "value")));
    attune("doctor", NULL);
    exits_with(EXIT_IS_DONE);
    says("cache: ");
}

static void targets_tell_their_facts_with_sources(void **state)
{
    (void)state;
    attune("target", NULL);
    exits_with(EXIT_IS_DONE);
    says("gfx906   GCN 5.1 (Vega 20)");
    attune("target", "gfx906", NULL);
    exits_with(EXIT_IS_DONE);
    says("Instinct MI50     60   16 GB  HBM2  1024  1725                 26.5");
    says("0-3 20-23 | 4-7 16-19");
    attune("target", "gfx906", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    matches_golden("target");
    attune("target", "--json", NULL);
    assert_true(json_array_size(json_object_get(answer(), "targets")) > 30);
}

/* what the sources read is what doctor lists, and the other way about for attune's own */
static void doctor_lists_every_variable_that_is_read(void **state)
{
    (void)state;
    char read[8192];
    int length = snprintf(
        read, sizeof read, "\n%s",
        buffer_string(
            &attune_in_shell("cd '" TEST_SOURCE_DIR "' && grep -rhoE --exclude=environment.c '\"ATTUNE_[A-Z_]+\"|"
                             "environment_get\\(\"[A-Z_]+\"|, \"[A-Z]+_OPTIONS\"' base cache generator runtime "
                             "autotune cli | grep -oE '[A-Z_]{3,}' | sort -u")
                 ->output));
    assert_in_range(length, 200, sizeof read - 1);
    attune("doctor", "--json", NULL);
    const json_t *rows = json_object_get(answer(), "environment");
    char *rest = NULL, again[8192], line[64];
    snprintf(again, sizeof again, "%s", read);
    for (char *name = strtok_r(again, "\n", &rest); name != NULL; name = strtok_r(NULL, "\n", &rest)) {
        row_named(rows, "name", name);
    }
    size_t index;
    json_t *row;
    json_array_foreach(rows, index, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        snprintf(line, sizeof line, "\n%s\n", name);
        if (strncmp(name, "ATTUNE_", 7) == 0 && strstr(read, line) == NULL) {
            fail_msg("doctor lists %s, which nothing reads", name);
        }
    }
}

/* compile, tune, look into the cache: the host compiler is all it needs, and the test is skipped by name without it */
static bool host_compiler_is_there(void)
{
    attune("doctor", "--json", NULL);
    size_t index;
    json_t *row;
    json_array_foreach(json_object_get(answer(), "compilers"), index, row)
    {
        json_t *targets = json_object_get(row, "targets");
        size_t at;
        json_t *target;
        json_array_foreach(targets, at, target)
        {
            if (json_is_true(json_object_get(row, "found")) && strcmp(json_string_value(target), "host") == 0) {
                return true;
            }
        }
    }
    print_message("skipped: no C++ compiler for the host device\n");
    return false;
}

/* numbers are the compiler's; that there are some, and of what, is ours */
static void compile_tells_of_the_hottest_loop(void **state)
{
    (void)state;
    const char *problem = "dtype=f16 batch=1 heads=2 seqlen_q=512 head_dim=64";
    if (attune("compile", "--problem", problem, "--target", "gfx906", "--asm", "--loop", "--json", NULL)->exit_code ==
        EXIT_IS_MISSING) {
        print_message("skipped: no compiler or disassembler for gfx906\n");
        skip();
    }
    exits_with(EXIT_IS_DONE);
    const json_t *object = json_array_get(json_object_get(answer(), "objects"), 0);
    const json_t *loop = json_object_get(object, "loop");
    static const char *const keys[] = {"generation",  "peak_products_a_clock",
                                       "peak_source", "why",
                                       "hottest",     "loops",
                                       "multiply",    "products",
                                       "iteration",   "bound",
                                       "waves_a_simd"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (json_object_get(loop, keys[i]) == NULL) {
            fail_msg("no %s", keys[i]);
        }
    }
    assert_null(json_object_get(object, "asm")); /* the loop stands for the listing */
    assert_string_equal(json_string_value(json_object_get(loop, "multiply")), "dot2");
    double share = json_number_value(json_object_get(json_object_get(loop, "bound"), "share_of_peak"));
    assert_true(share > 0.2 && share <= 1);
    attune("compile", "--problem", problem, "--target", "gfx906", "--asm", "--loop", NULL);
    exits_with(EXIT_IS_DONE);
    says("gfx906 (GCN 5.1");
    says("dot2");
    says("waves a SIMD");
    says("of the target's peak");
    assert_null(strstr(
        buffer_string(&attune("compile", "--problem", problem, "--target", "gfx906", "--asm", "--loop", NULL)->output),
        "v_dot2_f32_f16"));
}

/* a rate of H100's tensor cores is no whole number of clocks: JSON has it all, people one decimal */
static void cycles_of_a_loop_are_read_without_digits_that_mean_nothing(void **state)
{
    (void)state;
    const char *problem = "dtype=f16 batch=1 heads=2 seqlen_q=512 head_dim=64";
    char rounded[32], exact[32];
    if (attune("compile", "--problem", problem, "--target", "sm_90", "--asm", "--loop", "--json", NULL)->exit_code ==
        EXIT_IS_MISSING) {
        print_message("skipped: no compiler or disassembler for sm_90\n");
        skip();
    }
    exits_with(EXIT_IS_DONE);
    const json_t *loop = json_object_get(json_array_get(json_object_get(answer(), "objects"), 0), "loop");
    const json_t *iteration = json_object_get(loop, "iteration");
    double cycles = json_number_value(json_object_get(json_object_get(iteration, "unit_cycles"), "matrix"));
    snprintf(rounded, sizeof rounded, " %.1f ", cycles);
    snprintf(exact, sizeof exact, "%.4f", cycles);
    assert_true(cycles > 1 && strcmp(exact + strlen(exact) - 4, "0000") != 0);
    exact[strlen(exact) - 2] = '\0';
    const struct process_result *table =
        attune("compile", "--problem", problem, "--target", "sm_90", "--asm", "--loop", NULL);
    assert_null(strstr(buffer_string(&table->output), exact));
    says(rounded);
}

static void compile_writes_objects(void **state)
{
    (void)state;
    if (!host_compiler_is_there()) {
        skip();
    }
    attune("compile", "--problem", PROBLEM, "--target", "host", "--target", "host-gfx906", "--resources", "-o",
           scratch("objects/"), "--json", NULL);
    exits_with(EXIT_IS_DONE);
    matches_golden("compile");
}

static void tune_fills_the_cache(void **state)
{
    (void)state;
    if (!host_compiler_is_there()) {
        skip();
    }
    attune("tune", "--problem", PROBLEM, "--device", "host", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    matches_golden("tune");
    attune("cache", "ls", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    assert_non_null(row_named(json_object_get(answer(), "entries"), "record", "tuned"));
    attune("cache", "verify", NULL);
    exits_with(EXIT_IS_DONE);
    attune("explain", "--problem", PROBLEM, "--device", "host", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    assert_string_equal(json_string_value(json_object_get(json_object_get(answer(), "plan"), "rung")), "exact");
    attune("explain", "--problem", "test.scale elements=2000", "--device", "host", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    assert_string_equal(json_string_value(json_object_get(json_object_get(answer(), "plan"), "rung")), "near");
    attune("cache", "prune", "--older-than", "1d", "--dry-run", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    assert_int_equal(json_integer_value(json_object_get(answer(), "removed")), 0);
}

/* the only journal of the folder's cache */
static void journal_place(char path[4096])
{
    attune("cache", "journals", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *runs = json_object_get(answer(), "runs");
    assert_int_equal(json_array_size(runs), 1);
    snprintf(path, 4096, "%s/%s", json_string_value(json_object_get(answer(), "store")),
             json_string_value(json_object_get(json_array_get(runs, 0), "path")));
}

static void append(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char *state_of_the_run(void)
{
    attune("cache", "journals", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    return json_string_value(json_object_get(json_array_get(json_object_get(answer(), "runs"), 0), "state"));
}

/* after tune_fills_the_cache: that run, then the same as kill -9 leaves it, then files that are not to be trusted */
static void journals_tell_how_each_run_went(void **state)
{
    (void)state;
    char path[4096], other[4200];
    struct stat facts;
    if (!host_compiler_is_there()) {
        skip();
    }
    journal_place(path);
    matches_golden("journals");
    attune("cache", "journals", NULL);
    exits_with(EXIT_IS_DONE);
    says("8 of 8");
    says("8 right");
    assert_int_equal(stat(path, &facts), 0);
    append(path, "{\"kind\":\"outcome\",\"stage\":\"first\",\"id\":\"edceeb3f92a1\",\"candidate\":\"t/a x=1\","
                 "\"outcome\":\"not-tried\",\"reason\":\"\",\"microseconds\":0.0,\"spread\":0.0,\"registers\":0,"
                 "\"scratch_bytes\":0,\"shared_bytes\":0}\n");
    attune("cache", "journals", NULL);
    exits_with(EXIT_IS_DONE);
    says("  8 of 8      8  8 right, 1 not-tried        1        -  ");
    assert_int_equal(truncate(path, facts.st_size - 1), 0);
    assert_string_equal(state_of_the_run(), "killed");
    assert_true(json_is_true(json_object_get(json_array_get(json_object_get(answer(), "runs"), 0), "torn")));
    assert_int_equal(chmod(path, 0622), 0);
    assert_string_equal(state_of_the_run(), "unreadable");
    attune("cache", "journals", NULL);
    exits_with(EXIT_IS_DONE);
    says("unreadable");
    assert_int_equal(chmod(path, 0600), 0);
    assert_string_equal(state_of_the_run(), "killed");
    snprintf(other, sizeof other, "%s.moved", path);
    assert_int_equal(rename(path, other), 0);
    assert_string_equal(state_of_the_run(), "unreadable"); /* no journal's name */
    assert_int_equal(symlink(other, path), 0);
    assert_string_equal(state_of_the_run(), "unreadable"); /* a link, and what it leads to */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(other, path), 0);
}

/* a run is seen while it goes on; kill -9 leaves what it had learnt */
static void a_killed_run_keeps_its_outcomes(void **state)
{
    (void)state;
    if (!host_compiler_is_there()) {
        skip();
    }
    /* a minute's work at least, killed as soon as there is an outcome; each of the two tables has one row */
    attune_in_shell("export ATTUNE_CACHE=\"$ATTUNE_CACHE.killed\"\n"
                    "\"$0\" tune --problem 'attention.forward heads=2 seqlen_q=128 head_dim=64' --device host "
                    ">/dev/null 2>&1 & run=$!\n"
                    "tries=0\n"
                    "while [ $tries -lt 600 ] && ! \"$0\" cache journals | grep -q 'running .* [1-9][0-9]* right'; do\n"
                    "  sleep 0.1; tries=$((tries + 1))\n"
                    "done\n"
                    "\"$0\" cache journals\n"
                    "kill -9 $run; wait $run\n"
                    "\"$0\" cache journals --json >\"$ATTUNE_CACHE.json\"\n"
                    "\"$0\" cache journals");
    exits_with(EXIT_IS_DONE);
    says("  running  ");
    says("  killed  ");
    json_t *after = json_load_file(scratch("cache.killed.json"), 0, NULL);
    const json_t *run = json_array_get(json_object_get(after, "runs"), 0);
    assert_string_equal(json_string_value(json_object_get(run, "state")), "killed");
    assert_true(json_integer_value(json_object_get(json_object_get(run, "outcomes"), "right")) > 0);
    assert_true(json_integer_value(json_object_get(run, "looks")) <
                json_integer_value(json_object_get(run, "candidates")));
    json_decref(after);
}

/* --count leaves candidates, and the run says so wherever it is told of */
static void a_count_is_told_of_all_there_are(void **state)
{
    (void)state;
    if (!host_compiler_is_there()) {
        skip();
    }
    attune_in_shell("export ATTUNE_CACHE=\"$ATTUNE_CACHE.count\"\n"
                    "\"$0\" tune --problem '" PROBLEM "' --device host --count 2 && \"$0\" cache journals");
    exits_with(EXIT_IS_DONE);
    says("looked at 2 of 8 candidates, strategy exhaustive: --count asks for no more");
    says("  stopped  ");
    says("  2 of 8      2  2 right         1        -  ");
}

/* a run goes on in its own journal, and says what it found of it; with nothing left the device is not even used */
static void a_run_goes_on_when_asked(void **state)
{
    (void)state;
    if (!host_compiler_is_there()) {
        skip();
    }
    attune_in_shell("export ATTUNE_CACHE=\"$ATTUNE_CACHE.resume\"\n"
                    "tune() { \"$0\" tune --problem '" PROBLEM "' --device host --resume \"$@\"; }\n"
                    "tune --count 2 && tune --count 3 && tune && tune --json >\"$ATTUNE_CACHE.json\"\n"
                    "tune | grep -q minute && exit 9\n"
                    "\"$0\" cache journals --json >\"$ATTUNE_CACHE.journals.json\"");
    exits_with(EXIT_IS_DONE);
    complains("no run to go on with: begins a new one");
    complains("goes on: 2 outcomes hold\n");
    complains("goes on: 3 outcomes hold");
    complains("nothing is left to do: 8 outcomes hold, and the record is there");
    says("looked at 3 of 8 candidates (2 before, 1 now), strategy exhaustive: --count asks for no more");
    json_t *last = json_load_file(scratch("cache.resume.json"), 0, NULL);
    const json_t *row = json_array_get(json_object_get(last, "results"), 0);
    assert_true(json_is_true(json_object_get(row, "already_done")));
    assert_int_equal(json_integer_value(json_object_get(row, "held")), 8);
    assert_true(json_real_value(json_object_get(row, "verified_per_minute")) == 0); /* what is held took no time */
    assert_string_equal(json_string_value(json_object_get(row, "ending")), "complete");
    json_t *journals = json_load_file(scratch("cache.resume.journals.json"), 0, NULL);
    const json_t *runs = json_object_get(journals, "runs"), *run = json_array_get(runs, 0);
    assert_int_equal(json_array_size(runs), 1);
    assert_string_equal(json_string_value(json_object_get(run, "state")), "ended");
    assert_int_equal(json_integer_value(json_object_get(run, "resumed")), 2);
    assert_string_equal(json_string_value(json_object_get(row, "winner")),
                        json_string_value(json_object_get(run, "best")));
    json_decref(journals);
    json_decref(last);
    /* two processes do not go on with one run */
    attune_in_shell("export ATTUNE_CACHE=\"$ATTUNE_CACHE.resume\"\n"
                    "for journal in \"$ATTUNE_CACHE\"/journals/*.jsonl; do\n"
                    "  flock \"$journal\" \"$0\" tune --problem '" PROBLEM "' --device host --resume\n"
                    "done");
    exits_with(EXIT_IS_FAILED);
    complains("cache.resume/journals/");
    complains("is being written by another process that tunes this problem: wait for its end, or leave out --resume");
}

/* what was found is kept, but who reads the exit code must not take the list for done */
static void an_interrupted_list_tells_what_was_not_begun(void **state)
{
    (void)state;
    if (!host_compiler_is_there()) {
        skip();
    }
    const struct process_result *result = attune_in_shell(
        "export ATTUNE_CACHE=\"$ATTUNE_CACHE.list\"\n"
        "for n in 64 96 128; do echo \"n$n: attention.forward heads=2 seqlen_q=$n head_dim=64\"; done "
        ">\"$ATTUNE_CACHE.txt\"\n"
        "\"$0\" tune --problems \"$ATTUNE_CACHE.txt\" --device host & run=$!\n"
        "tries=0\n"
        "while [ $tries -lt 600 ] && ! \"$0\" cache journals | grep -q 'running .* [1-9][0-9]* right'; do\n"
        "  sleep 0.1; tries=$((tries + 1))\n"
        "done\n"
        "kill -INT $run; wait $run");
    exits_with(EXIT_IS_FAILED);
    complains("interrupted: n64 stopped before the search's end; not begun: n96, n128; the same command with --resume "
              "goes on");
    assert_non_null(strstr(buffer_string(&result->output), "stopped before the others"));
}

/* without a budget there is none that could have ended; a candidate in the middle is not one looked at */
static void an_interrupted_run_says_that_it_was_stopped(void **state)
{
    (void)state;
    if (!host_compiler_is_there()) {
        skip();
    }
    const struct process_result *result = attune_in_shell(
        "export ATTUNE_CACHE=\"$ATTUNE_CACHE.stopped\"\n"
        "\"$0\" tune --problem 'attention.forward heads=2 seqlen_q=128 head_dim=64' --device host & run=$!\n"
        "tries=0\n"
        "while [ $tries -lt 600 ] && ! \"$0\" cache journals | grep -q 'running .* [1-9][0-9]* right'; do\n"
        "  sleep 0.1; tries=$((tries + 1))\n"
        "done\n"
        "kill -INT $run; wait $run; code=$?\n"
        "\"$0\" cache journals --json >\"$ATTUNE_CACHE.json\"; exit $code");
    exits_with(EXIT_IS_FAILED); /* not all was done that was asked */
    complains("interrupted: problem 1 stopped before the search's end; the same command with --resume goes on");
    says("candidates, strategy exhaustive: stopped before the others");
    assert_null(strstr(buffer_string(&result->output), "budget"));
    json_t *after = json_load_file(scratch("cache.stopped.json"), 0, NULL);
    const json_t *run = json_array_get(json_object_get(after, "runs"), 0), *kinds = json_object_get(run, "outcomes");
    json_int_t right = json_integer_value(json_object_get(kinds, "right"));
    json_int_t resources = json_integer_value(json_object_get(kinds, "resources"));
    assert_string_equal(json_string_value(json_object_get(run, "state")), "stopped");
    assert_true(right > 0);
    assert_int_equal(json_integer_value(json_object_get(run, "tried")), right + resources);
    assert_int_equal(json_integer_value(json_object_get(run, "looks")), right);
    json_decref(after);
}

/* /proc takes no folders, whoever asks */
static void a_store_that_cannot_be_written_is_told(void **state)
{
    (void)state;
    if (!host_compiler_is_there()) {
        skip();
    }
    attune("tune", "--problem", PROBLEM, "--device", "host", "--count", "1", "--store", "/proc/attune", NULL);
    exits_with(EXIT_IS_FAILED); /* an overnight's result would be lost */
    says("cached in memory only");
    complains("run this again");
    complains("/proc/attune");
    attune("compile", "--space", "--problem", PROBLEM, "--target", "host", "--store", "/proc/attune", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("/proc/attune");
}

static void verify_counts_candidates(void **state)
{
    (void)state;
    if (!host_compiler_is_there()) {
        skip();
    }
    attune("verify", "--problem", PROBLEM, "--device", "host", "--all-candidates", "--schedule", "all", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    const json_t *result = json_array_get(json_object_get(answer(), "results"), 0);
    assert_int_equal(json_integer_value(json_object_get(result, "total")), 24);
    assert_int_equal(json_integer_value(json_object_get(result, "right")), 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_from_the_template_path_are_listed),
        cmocka_unit_test(params_declared),
        cmocka_unit_test(params_judged),
        cmocka_unit_test(show),
        cmocka_unit_test(devices_always_have_the_host),
        cmocka_unit_test(doctor_tells_every_part),
        cmocka_unit_test(targets_tell_their_facts_with_sources),
        cmocka_unit_test(doctor_lists_every_variable_that_is_read),
        cmocka_unit_test(compile_tells_of_the_hottest_loop),
        cmocka_unit_test(cycles_of_a_loop_are_read_without_digits_that_mean_nothing),
        cmocka_unit_test(compile_writes_objects),
        cmocka_unit_test(tune_fills_the_cache),
        cmocka_unit_test(journals_tell_how_each_run_went),
        cmocka_unit_test(a_killed_run_keeps_its_outcomes),
        cmocka_unit_test(a_count_is_told_of_all_there_are),
        cmocka_unit_test(a_run_goes_on_when_asked),
        cmocka_unit_test(an_interrupted_run_says_that_it_was_stopped),
        cmocka_unit_test(an_interrupted_list_tells_what_was_not_begun),
        cmocka_unit_test(a_store_that_cannot_be_written_is_told),
        cmocka_unit_test(verify_counts_candidates),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
