/* What is wrong on the command line is refused by name, with the right exit code, and leaves nothing behind. */
#include "program.h"

#include <string.h>
#include <unistd.h>

#define SMALL "attention.forward dtype=f16 batch=1 heads=4 kv_heads=2 seqlen_q=64 head_dim=64"

static void every_command_explains_itself(void **state)
{
    (void)state;
    static const char *const commands[] = {"devices", "doctor", "families", "target", "params",  "show", "compile",
                                           "tune",    "bench",  "verify",   "run",    "explain", "cache"};
    attune("--help", NULL);
    exits_with(EXIT_IS_DONE);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        attune("--help", NULL);
        says(commands[i]);
        attune(commands[i], "--help", NULL);
        exits_with(EXIT_IS_DONE);
        says("usage: attune ");
        says("--json");
    }
}

static void usage_errors_name_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *words[10];
        const char *named;
    } cases[] = {
        {{"verfy"}, "did you mean `attune verify`?"},
        {{"params"}, "an argument is missing"},
        {{"params", "attention.forward", "extra"}, "'extra' is one argument too many"},
        {{"params", "attention.forwards"}, "unknown family 'attention.forwards'"},
        {{"params", "attention.forward", "--problem", SMALL}, "--target is missing"},
        {{"params", "attention.forward", "--targt", "gfx906"}, "did you mean --target?"},
        {{"show"}, "name a FAMILY"},
        {{"show", "--problem", SMALL}, "--target is missing"},
        {{"show", "--problem", SMALL, "--target", "x y"}, "x y"},
        {{"compile", "--problem", SMALL, "--target", "host"}, "nothing to do with the object"},
        {{"compile", "--defaults", "--space", "--problem", SMALL, "--target", "host"}, "leave --defaults out"},
        {{"compile", "--defaults", "--problem", SMALL, "--target", "host", "-o", "one"}, "--output"},
        {{"compile", "--defaults", "--problem", SMALL, "--target", "host", "threads=64"}, "threads=64"},
        {{"compile", "--problem", SMALL, "--target", "host", "--store", "here"}, "--defaults"},
        {{"compile", "--problem", SMALL, "--target", "host", "--target", "gfx906", "-o", "one"},
         "one file for 2 targets"},
        {{"compile", "--problem", SMALL, "--target", "gfx906", "--asm", "--sanitize", "address"},
         "works for host targets"},
        {{"tune", "--problem", SMALL, "--budget", "soon"}, "'soon' is no duration"},
        {{"tune", "--problem", SMALL, "--problems", "x"}, "give one of them"},
        {{"tune"}, "--problem is missing"},
        {{"verify", "--problem", SMALL, "--cover", "0"}, "--cover: '0'"},
        {{"verify", "--problem", SMALL, "--schedule", "random"}, "random"},
        {{"verify", "--problem", SMALL, "--cover", "3", "--all-candidates"}, "give one of them"},
        {{"cache", "list"}, "ls, info, journals, report, verify or prune"},
        {{"cache", "prune"}, "prune needs a rule"},
        {{"cache", "ls", "--dry-run"}, "--dry-run does not go with `cache ls`"},
        {{"target", "gfx803"}, "'gfx803' has no facts; known are gfx900, gfx906"},
        {{"target", "RDNA2"}, "target \"RDNA2\" is not a target"},
        {{"target", "gfx90"}, "did you mean gfx900?"},
        {{"tune", "--problem", SMALL, "--target", "gfx906"}, "`attune verify --target T --cover N` proves them"},
        {{"bench", "--problem", SMALL, "--target=gfx906"}, "--target is no option of this command"},
        {{"verify", "--problem", SMALL, "--device", "host-gfx906"}, "--device host --target gfx906"},
        {{"verify", "--problem", SMALL, "--target", "gfx907"}, "'gfx907' has no facts"},
        {{"explain", "--problem", SMALL, "--device", "sim:gfx9999"},
         "--device sim:gfx9999: target 'gfx9999' has no facts"},
        {{"verify", "--problem", SMALL, "--device", "sim:gfx9999"},
         "--device sim:gfx9999: target 'gfx9999' has no facts"},
        {{"show", "--problem", "heads=2 seqlen_q=16 head_dim=64", "--target", "gfx90a", "tile_q=4"},
         "attention.forward/portable has it"},
        {{"show", "--problem", "heads=2 seqlen_q=16 head_dim=64", "--target", "gfx90a", "multiply=dot2"},
         "on gfx90a mfma_32x32x8, mfma_16x16x16, dot2_16, dot2_8, fma; elsewhere mfma_32x32x16, mfma_16x16x32"},
        {{"devices", "--json=1"}, "--json takes no value"},
        {{"explain", "--problem", SMALL, "--device", ""}, "--device is empty"},
        {{"cache", "ls", "--store="}, "--store is empty"},

    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *w = cases[i].words;
        attune(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], NULL);
        exits_with(EXIT_IS_USAGE);
        complains(cases[i].named);
    }
}

static void wrong_problems_are_refused_by_field(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        const char *named;
    } cases[] = {
        {"dtype=f16 heads=4 seqlen_q=64 head_dim=64 colour=red", "colour"},
        {"dtype=f17 heads=4 seqlen_q=64 head_dim=64", "f17"},
        {"dtype=f16 heads=6 kv_heads=4 seqlen_q=64 head_dim=64", "kv_heads"},
        {"dtype=f16 heads=-4 seqlen_q=64 head_dim=64", "heads"},
        {"dtype=f16 heads=4 seqlen_q=-1 head_dim=64", "seqlen_q"},
        {"dtype=f16 heads=4 seqlen_q=64 head_dim=257", "head_dim"},
        {"dtype=f16 heads=4 seqlen_q=64 head_dim=0", "head_dim"},
        {"dtype=f16 heads=4 seqlen_q=99999999999999999999 head_dim=64", "seqlen_q"},
        {"dtype=f16 heads=4 seqlen_q=64 head_dim=64 dropout=1.5", "dropout"},
        {"dtype=f16 heads=4 seqlen_q=64 head_dim=64 dropout=nan", "dropout"},
        {"dtype=f16 heads=4 heads=8 seqlen_q=64 head_dim=64", "heads"},
        {"dtype=f16 seqlen_q=64 head_dim=64", "heads"},
        {"attention.sideways heads=4", "attention.sideways"},
        {"test.scale elements=0", "elements"},
        {"", "--problem is empty"},
        {" ", "heads"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        attune("show", "--problem", cases[i].problem, "--target", "host", NULL);
        exits_with(EXIT_IS_USAGE);
        complains(cases[i].named);
        attune("tune", "--problem", cases[i].problem, "--device", "host", NULL);
        exits_with(EXIT_IS_USAGE);
        complains("--problem");
    }
}

static void a_strategy_that_is_none_or_needs_times_is_refused(void **state)
{
    (void)state;
    attune("tune", "--problem", "test.scale elements=100", "--device", "host", "--strategy", "sweep", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("sweep: use model, exhaustive, random, local, cover or default");
    static const char *const timed[] = {"model", "local"};
    for (int i = 0; i < 2; i++) {
        attune("tune", "--problem", "test.scale elements=100", "--device", "host", "--strategy", timed[i], NULL);
        exits_with(EXIT_IS_USAGE);
        complains(timed[i]);
        complains("nothing is timed on this device: use exhaustive, random, cover or default");
    }
}

static void wrong_parameters_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *words[3];
        const char *named;
    } cases[] = {
        {{"colour=red"}, "colour"},
        {{"threads=65"}, "65"},
        {{"threads=many"}, "many"},
        {{"threads"}, "threads"},
        {{"threads=64", "threads=128"}, "threads"},
        {{"unroll=2", "nonsense"}, "'nonsense' is no parameter"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *w = cases[i].words;
        attune("show", "--problem", "test.scale elements=100", "--target", "host", w[0], w[1], w[2], NULL);
        exits_with(EXIT_IS_USAGE);
        complains(cases[i].named);
    }
}

static void a_violated_constraint_tells_its_reason(void **state)
{
    (void)state;
    attune("show", "--problem", "test.scale elements=100", "--target", "host", "threads=128", "unroll=4", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("threads*unroll = 512 is over 256");
}

static void an_unknown_target_is_refused_with_the_known_ones(void **state)
{
    (void)state;
    static const char *const targets[] = {"gfx9999", "gfx10", "sm_1", "host-gfx9999"};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        attune("show", "--problem", SMALL, "--target", targets[i], NULL);
        exits_with(EXIT_IS_USAGE);
        complains(targets[i]);
        complains("gfx906");
        attune("compile", "--problem", SMALL, "--target", targets[i], "-o", scratch("object"), NULL);
        exits_with(EXIT_IS_USAGE);
        attune("params", "attention.forward", "--problem", SMALL, "--target", targets[i], NULL);
        exits_with(EXIT_IS_USAGE);
        attune("verify", "--problem", SMALL, "--device", "host", "--target", targets[i], NULL);
        exits_with(EXIT_IS_USAGE);
        attune("tune", "--problem", SMALL, "--device", "host", "--target", targets[i], NULL);
        exits_with(EXIT_IS_USAGE);
    }
}

/* --loop reads a disassembly, for targets whose issue rates are published */
static void loops_are_looked_for_where_they_can_be(void **state)
{
    (void)state;
    attune("compile", "--problem", SMALL, "--target", "gfx906", "--loop", "-o", scratch("object"), NULL);
    exits_with(EXIT_IS_USAGE);
    complains("--loop goes with --asm");
    attune("compile", "--problem", SMALL, "--target", "gfx906", "--space", "--loop", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("--loop");
    attune("compile", "--problem", SMALL, "--target", "host", "--asm", "--loop", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("--loop: no published issue rates for host");
}

static void an_option_without_template_is_refused_by_name(void **state)
{
    (void)state;
    attune("show", "--problem", "test.scale elements=100 square=1", "--target", "host", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("square=1");
    static const char *const options[] = {"window_left=128", "softcap=30", "alibi=1",  "sinks=1",
                                          "bias=f16",        "mask=bool",  "varlen=1", "paged=1 page_size=16"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char problem[256];
        snprintf(problem, sizeof problem, SMALL " %s", options[i]);
        attune("show", "--problem", problem, "--target", "gfx906", NULL);
        exits_with(EXIT_IS_FAILED);
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(options[i], "="), options[i]);
        complains(name);
        attune("tune", "--problem", problem, "--device", "host", "--count", "1", NULL);
        exits_with(EXIT_IS_FAILED);
        complains(name);
    }
}

static void errors_are_json_when_asked(void **state)
{
    (void)state;
    attune("show", "--json", "--problem", "test.scale elements=0", "--target", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    matches_golden("error");
    attune("params", "--json", "--nonsense", NULL);
    exits_with(EXIT_IS_USAGE);
    assert_string_equal(json_string_value(json_object_get(json_object_get(answer(), "error"), "status")),
                        "invalid argument");
}

static void missing_devices_have_their_own_exit_code(void **state)
{
    (void)state;
    attune("bench", "--problem", SMALL, "--device", "host", NULL);
    exits_with(EXIT_IS_MISSING);
    complains("host device");
    attune("verify", "--problem", SMALL, "--device", "cuda:97", NULL);
    exits_with(EXIT_IS_MISSING);
    attune("verify", "--problem", SMALL, "--device", "abacus:0", NULL);
    assert_int_not_equal(0, attune("verify", "--problem", SMALL, "--device", "abacus:0", NULL)->exit_code);
    complains("abacus");
}

static void a_problems_file_is_refused_with_its_line(void **state)
{
    (void)state;
    const char *path = scratch("problems.txt");
    FILE *file = fopen(path, "w");
    fputs("# two\nfine: test.scale elements=10\n\nwrong: test.scale elements=0 # too few\n", file);
    fclose(file);
    attune("tune", "--problems", path, "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("line 4");
    complains("elements");
    attune("tune", "--problems", scratch("missing.txt"), "--device", "host", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("missing.txt");
}

static void put(const char *path, const char *bytes, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* a failing problem among others: told by name, exit 1, and the others are done */
static void one_bad_problem_leaves_the_others_done(void **state)
{
    (void)state;
    const char *path = scratch("two.txt"), *list = scratch("one-candidate.txt"), *store = scratch("two-store");
    put(path, "bad: heads=1 seqlen_q=8 head_dim=16 softcap=2\ngood: heads=1 seqlen_q=8 head_dim=16\n", 83);
    put(list, "block_q=64\n", 11);
    const struct process_result *result = attune("compile", "--space", "--problems", path, "--target", "host",
                                                 "--candidates", list, "--store", store, NULL);
    if (result->exit_code == EXIT_IS_MISSING) {
        skip();
    }
    exits_with(EXIT_IS_FAILED);
    complains("softcap");
    says("good");
}

/* what can be told beforehand is, of all of them, before hours are spent on the others */
static void a_list_with_what_cannot_be_tuned_is_not_begun(void **state)
{
    (void)state;
    static const char text[] = "soft: heads=1 seqlen_q=8 head_dim=16 softcap=2\ngood: heads=1 seqlen_q=8 head_dim=16\n"
                               "large: heads=64 seqlen_q=16384 head_dim=128\n";
    const char *path = scratch("three.txt"), *store = scratch("three-store");
    put(path, text, sizeof text - 1);
    for (int dry = 0; dry < 2; dry++) {
        attune("tune", "--problems", path, "--device", "host", "--count", "5", "--store", store,
               dry ? "--dry-run" : NULL, NULL);
        exits_with(EXIT_IS_FAILED);
        complains("attune tune: soft: attention.forward on host: no template serves this problem: ");
        complains("portable: softcap=2");
        complains("attune tune: large: the problem takes ");
        complains("2 of 3 problems cannot be tuned here; why is told above. Nothing was tuned");
        if (dry) {
            says("  good   5 looks  host ");
            says("  large  refused  host ");
        }
    }
    char journals[1024];
    snprintf(journals, sizeof journals, "%s/journals", store);
    assert_int_equal(access(journals, F_OK), -1);
    attune("tune", "--problem", "heads=64 seqlen_q=16384 head_dim=128", "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("the problem takes ");
}

/* nothing of a line is lost: not behind a carriage return (files whose lines end in it alone), not of a long name */
static void nothing_of_a_list_is_dropped(void **state)
{
    (void)state;
    static const char returns[] = "heads=1 seqlen_q=8\rhead_dim=16 softcap=2\r\n";
    static const char two[] = "heads=1 seqlen_q=8 head_dim=16\rheads=2 seqlen_q=8 head_dim=16\r";
    static const char candidates[] = "block_q=64\rblock_k=1\n";
    char named[256];
    const char *path = scratch("lines.txt");
    put(path, returns, sizeof returns - 1);
    attune("tune", "--problems", path, "--device", "host", NULL);
    complains("softcap");
    put(path, two, sizeof two - 1);
    attune("tune", "--problems", path, "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("heads is given twice");
    put(path, candidates, sizeof candidates - 1);
    attune("tune", "--problem", SMALL, "--device", "host", "--candidates", path, NULL);
    exits_with(EXIT_IS_USAGE);
    complains("block_k=1");
    int length = snprintf(named, sizeof named, "%064d: %s\n", 0, SMALL);
    put(path, named, (size_t)length);
    attune("tune", "--problems", path, "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("at most 63");
}

/* a NUL byte would end a line unseen, and what follows it would be ignored */
static void files_that_are_no_text_are_refused(void **state)
{
    (void)state;
    static const char nul[] = "\n" SMALL "\0 lse=1\n", mark[] = "\xef\xbb\xbf" SMALL "\n";
    const char *path = scratch("no-text.txt");
    put(path, nul, sizeof nul - 1);
    attune("tune", "--problems", path, "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("line 2 holds a NUL byte");
    attune("tune", "--problem", SMALL, "--device", "host", "--candidates", path, NULL);
    exits_with(EXIT_IS_USAGE);
    complains("line 2 holds a NUL byte");
    put(path, mark, sizeof mark - 1);
    attune("tune", "--problems", path, "--device", "host", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("byte order mark");
    put(path, "# none\n", 7);
    attune("tune", "--problem", SMALL, "--device", "host", "--candidates", path, NULL);
    exits_with(EXIT_IS_USAGE);
    complains("names no candidate");
}

static void an_output_without_folder_is_refused_before_compiling(void **state)
{
    (void)state;
    attune("compile", "--problem", SMALL, "--target", "host", "-o", "/nowhere/x", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("--output: /nowhere/x: No such file");
    /* what looks as if it could be written, but cannot: an error, and no row as if it had been */
    const struct process_result *compiled =
        attune("compile", "--problem", SMALL, "--target", "host", "-o", "/proc/attune", NULL);
    if (compiled->exit_code != EXIT_IS_MISSING) {
        assert_int_equal(compiled->output.length, 0);
        exits_with(EXIT_IS_FAILED);
        complains("/proc/attune");
    }
    attune("compile", "--problem", SMALL, "--target", "host", "-o", "/dev/null/x", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("Not a directory");
}

/* promised memory that is not there would end the process, or another, when it is used */
static void problems_larger_than_memory_are_refused_with_both_sizes(void **state)
{
    (void)state;
    const char *problem = "dtype=f16 batch=1 heads=1 seqlen_q=2147418112 seqlen_k=0 head_dim=256";
    attune("verify", "--problem", problem, "--device", "host", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("GiB");
    complains("use shorter lengths");
    attune("tune", "--problem", problem, "--device", "host", "--count", "1", NULL);
    exits_with(EXIT_IS_FAILED);
    complains("use shorter lengths");
}

static void messages_bring_no_control_bytes(void **state)
{
    (void)state;
    attune("show", "--target", "host", "--problem", "a\x1b[31mb x=1", NULL);
    exits_with(EXIT_IS_USAGE);
    complains("a\\x1b[31mb");
    attune("show", "--json", "--target", "host", "--problem", "a\x1b\xff x=1", NULL);
    exits_with(EXIT_IS_USAGE);
    assert_non_null(json_object_get(json_object_get(answer(), "error"), "message"));
}

static void answers_that_cannot_be_written_are_failures(void **state)
{
    (void)state;
    static const char *const commands[] = {"--version",
                                           "--help",
                                           "show --help",
                                           "families",
                                           "families --json",
                                           "show --target host --problem 'test.scale elements=1'",
                                           "show --target gfx906 --problem '" SMALL "'"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char script[512];
        snprintf(script, sizeof script, "\"$0\" %s >/dev/full", commands[i]);
        attune_in_shell(script);
        exits_with(EXIT_IS_FAILED);
        complains("standard output cannot be written");
        snprintf(script, sizeof script, "\"$0\" %s >&-", commands[i]);
        attune_in_shell(script);
        exits_with(EXIT_IS_FAILED);
        complains("standard output cannot be written");
    }
}

/* all of the refusals above came before anything was made */
static void refusals_leave_nothing_behind(void **state)
{
    (void)state;
    attune("compile", "--problem", SMALL, "--target", "host", "-o", scratch("object"), "threads=banana", NULL);
    exits_with(EXIT_IS_USAGE);
    assert_int_not_equal(access(scratch("object"), F_OK), 0);
    attune("cache", "info", "--json", NULL);
    exits_with(EXIT_IS_DONE);
    static const char *const kinds[] = {"object", "record", "journal", "rejected"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_int_equal(json_integer_value(json_object_get(json_object_get(answer(), kinds[i]), "count")), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_explains_itself),
        cmocka_unit_test(usage_errors_name_what_is_wrong),
        cmocka_unit_test(wrong_problems_are_refused_by_field),
        cmocka_unit_test(a_strategy_that_is_none_or_needs_times_is_refused),
        cmocka_unit_test(wrong_parameters_are_refused_by_name),
        cmocka_unit_test(a_violated_constraint_tells_its_reason),
        cmocka_unit_test(an_unknown_target_is_refused_with_the_known_ones),
        cmocka_unit_test(loops_are_looked_for_where_they_can_be),
        cmocka_unit_test(an_option_without_template_is_refused_by_name),
        cmocka_unit_test(errors_are_json_when_asked),
        cmocka_unit_test(missing_devices_have_their_own_exit_code),
        cmocka_unit_test(a_problems_file_is_refused_with_its_line),
        cmocka_unit_test(one_bad_problem_leaves_the_others_done),
        cmocka_unit_test(a_list_with_what_cannot_be_tuned_is_not_begun),
        cmocka_unit_test(nothing_of_a_list_is_dropped),
        cmocka_unit_test(files_that_are_no_text_are_refused),
        cmocka_unit_test(an_output_without_folder_is_refused_before_compiling),
        cmocka_unit_test(problems_larger_than_memory_are_refused_with_both_sizes),
        cmocka_unit_test(messages_bring_no_control_bytes),
        cmocka_unit_test(answers_that_cannot_be_written_are_failures),
        cmocka_unit_test(refusals_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
