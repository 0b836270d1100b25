/* Verification and tuning end to end on the host device: generated text, compiled, run on fibers, checked, recorded. */
#include "autotune/journal.h"
#include "autotune/tune.h"
#include "autotune/verify.h"
#include "base/files.h"
#include "parts.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void parse(struct parts *parts, const char *text, struct problem *problem)
{
    char family[FAMILY_NAME_BYTES];
    struct error error = {0};
    assert_int_equal(problem_family(text, family, &error), ATTUNE_OK);
    const struct schema *schema = generator_schema(parts->generator, family);
    assert_non_null(schema);
    if (problem_parse(schema, text, problem, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

struct tally {
    int right, others;
    char first[600];
};

static void count(void *data, const struct verify_outcome *outcome, int done, int total)
{
    struct tally *tally = data;
    assert_true(done >= 1 && done <= total);
    if (strcmp(outcome->outcome, "right") == 0) {
        tally->right++;
    } else if (tally->others++ == 0) {
        snprintf(tally->first, sizeof tally->first, "%s (%s) %s: %.400s", outcome->id, outcome->schedule,
                 outcome->outcome, outcome->reason);
    }
}

static void verify(struct parts *parts, const char *text, const struct verify_options *options, int at_least)
{
    struct problem problem;
    struct tally tally = {0};
    struct error error = {0};
    int right, total;
    parse(parts, text, &problem);
    attune_status status =
        verify_run(parts->generator, parts->pool, &problem, options, count, &tally, &right, &total, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error.message);
        skip();
    }
    if (status != ATTUNE_OK || tally.others > 0) {
        fail_msg("%s: %s; %s", text, error.message, tally.first);
    }
    assert_int_equal(right, tally.right);
    assert_int_equal(total, right);
    assert_true(right >= at_least);
}

static void default_candidates_are_right(void **state)
{
    static const char *const texts[] = {
        "attention.forward dtype=f16 heads=2 seqlen_q=70 head_dim=64 causal=1 lse=1",
        "attention.forward dtype=bf16 heads=4 kv_heads=2 seqlen_q=33 seqlen_k=90 head_dim=40",
        "attention.forward dtype=f32 heads=1 seqlen_q=17 seqlen_k=5 head_dim=16 causal=1 lse=1",
        "attention.forward q_dtype=f32 k_dtype=f16 v_dtype=f16 o_dtype=f32 heads=2 seqlen_q=1 seqlen_k=150 head_dim=64",
        "attention.forward q_dtype=f32 k_dtype=f16 v_dtype=bf16 o_dtype=f32 heads=2 seqlen_q=9 seqlen_k=40 head_dim=33",
        "attention.forward dtype=f16 heads=2 batch=2 seqlen_q=40 head_dim_qk=24 head_dim_v=32 causal=top_left",
        "attention.forward dtype=f16 heads=2 seqlen_q=48 head_dim=32 dropout=0.2",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        verify(*state, texts[i], &(struct verify_options){.device = "host", .seed = 1, .schedules = {true, true, true}},
               3);
    }
}

static void emulated_targets_are_right(void **state)
{
    static const char *const targets[] = {"gfx906", "gfx90a", "gfx1100", "sm_90a"};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        verify(*state, "attention.forward dtype=f16 heads=2 seqlen_q=37 seqlen_k=83 head_dim=64 causal=1",
               &(struct verify_options){.device = "host", .target = targets[i], .seed = 1}, 1);
    }
}

static void a_small_cover_is_right(void **state)
{
    verify(*state, "attention.forward dtype=f16 heads=2 seqlen_q=33 seqlen_k=70 head_dim=32 causal=1",
           &(struct verify_options){.device = "host", .cover = 6, .seed = 1}, 6);
}

static void unknown_targets_are_refused_by_name(void **state)
{
    struct parts *parts = *state;
    struct problem problem;
    struct error error = {0};
    int right, total;
    parse(parts, "attention.forward heads=1 seqlen_q=4 head_dim=16", &problem);
    const struct verify_options options = {.device = "host", .target = "gfx000"};
    assert_int_not_equal(
        verify_run(parts->generator, parts->pool, &problem, &options, NULL, NULL, &right, &total, &error), ATTUNE_OK);
    assert_non_null(strstr(error.message, "gfx000"));
}

static void sanitized_candidates_run_in_the_runner(void **state)
{
    verify(*state, "attention.forward dtype=f16 heads=1 seqlen_q=17 seqlen_k=35 head_dim=16 causal=1",
           &(struct verify_options){.device = "host", .seed = 1, .sanitize = SANITIZE_ADDRESS}, 1);
}

static int journal_lines(const char *path, const char *kind, const char *stage)
{
    FILE *file = fopen(path, "re");
    char line[8192];
    int lines = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *json = json_loads(line, 0, NULL);
        assert_non_null(json);
        const char *of = json_string_value(json_object_get(json, "stage"));
        lines += strcmp(json_string_value(json_object_get(json, "kind")), kind) == 0 &&
                 (stage == NULL || (of != NULL && strcmp(of, stage) == 0));
        json_decref(json);
    }
    fclose(file);
    return lines;
}

static void tuning_on_host_verifies_and_records(void **state)
{
    struct parts *parts = *state;
    struct problem problem;
    struct tune_result result;
    struct error error = {0};
    parse(parts, "attention.forward dtype=f16 heads=1 seqlen_q=17 seqlen_k=40 head_dim=16 causal=1", &problem);
    const struct tune_options options = {.device = "host", .budget_candidates = 5, .seed = 1};
    attune_status status =
        tune_run(parts->generator, parts->pool, parts->store, &problem, &options, NULL, NULL, &result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error.message);
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    struct candidate standard;
    struct target target;
    char name[CANDIDATE_TEXT_BYTES], folder[128];
    assert_int_equal(target_parse("host", &target, NULL), ATTUNE_OK);
    assert_int_equal(candidate_default(parts->generator, &problem, &target, &standard, NULL), ATTUNE_OK);
    candidate_format(&standard, name);
    assert_string_equal(result.record.candidate, name); /* nothing is timed: the default wins */
    assert_string_equal(result.outcomes[0].candidate, name);
    assert_int_equal(result.outcome_count, 5);
    assert_int_equal(result.counts.verified, 5);
    assert_int_equal(result.record.verified, 5);
    assert_true(result.record.winner_microseconds == 0.0 && result.record.default_microseconds == 0.0);
    assert_true(result.operations > 0.0);
    assert_int_equal(journal_lines(result.journal, "begin", NULL), 1);
    assert_int_equal(journal_lines(result.journal, "outcome", "first"), 5);
    assert_int_equal(journal_lines(result.journal, "end", NULL), 1);

    struct record *records;
    int records_count;
    record_device_folder(&result.record, folder);
    assert_int_equal(store_records(parts->store, folder, result.record.specialisation, &records, &records_count, NULL),
                     ATTUNE_OK);
    assert_int_equal(records_count, 1);
    assert_string_equal(records[0].run, result.record.run);
    assert_true(store_object_has(parts->store, &records[0].object));
    record_free(&records[0]);
    free(records);
    default_folder(&target, folder);
    assert_int_equal(store_records(parts->store, folder, result.record.specialisation, &records, &records_count, NULL),
                     ATTUNE_OK);
    assert_int_equal(records_count, 1); /* the default's own record came along */
    record_free(&records[0]);
    free(records);
    tune_result_free(&result);

    /* again: everything is in the store */
    assert_int_equal(
        tune_run(parts->generator, parts->pool, parts->store, &problem, &options, NULL, NULL, &result, &error),
        ATTUNE_OK);
    assert_int_equal(result.counts.reused, 5);
    assert_int_equal(result.counts.compiled, 0);
    tune_result_free(&result);
}

/* an object of the same source by another compiler serves when accepted, and is told apart */
static void objects_of_another_compiler_are_used_only_when_accepted(void **state)
{
    struct parts *parts = *state;
    struct problem problem;
    struct tune_result result;
    struct error error = {0};
    struct object_header header;
    struct buffer object = BUFFER_INIT;
    char folder[600];
    struct store *other;
    parse(parts, "attention.forward dtype=f16 heads=1 seqlen_q=17 seqlen_k=40 head_dim=24", &problem);
    struct tune_options options = {.device = "host", .strategy = "default", .accept_stored = true};
    attune_status status =
        tune_run(parts->generator, parts->pool, parts->store, &problem, &options, NULL, NULL, &result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        skip();
    }
    assert_int_equal(status, ATTUNE_OK);
    assert_int_equal(result.counts.compiled, 1);
    assert_int_equal(store_object_get(parts->store, &result.record.object, &header, &object, NULL), ATTUNE_OK);
    tune_result_free(&result);

    struct digest name;
    assert_int_equal(path_join(folder, sizeof folder, parts->folder, "other", NULL), ATTUNE_OK);
    assert_int_equal(store_open(folder, &other, NULL), ATTUNE_OK);
    memset(header.identity, 'a', sizeof header.identity - 1);
    snprintf(header.compiler, sizeof header.compiler, "another 1.0");
    digest_of("another", 7, &name);
    assert_int_equal(store_object_put(other, &name, &header, object.data, object.length, NULL), ATTUNE_OK);
    buffer_free(&object);
    assert_int_equal(tune_run(parts->generator, parts->pool, other, &problem, &options, NULL, NULL, &result, &error),
                     ATTUNE_OK);
    assert_int_equal(result.counts.compiled, 0);
    assert_int_equal(result.counts.other_compiler, 1);
    assert_string_equal(result.record.compiler, "another 1.0");
    assert_memory_equal(&result.record.object, &name, sizeof name);
    tune_result_free(&result);
    options.accept_stored = false;
    assert_int_equal(tune_run(parts->generator, parts->pool, other, &problem, &options, NULL, NULL, &result, &error),
                     ATTUNE_OK);
    assert_int_equal(result.counts.compiled, 1);
    assert_int_equal(result.counts.other_compiler, 0);
    tune_result_free(&result);
    store_close(other);
}

static void a_space_is_compiled_into_the_store_once(void **state)
{
    struct parts *parts = *state;
    struct problem problem;
    struct target target;
    struct candidate_list cover;
    struct space_result result;
    struct error error = {0};
    char list[600], name[CANDIDATE_TEXT_BYTES];
    parse(parts, "attention.forward dtype=f16 heads=1 seqlen_q=17 seqlen_k=40 head_dim=32", &problem);
    assert_int_equal(target_parse("host", &target, NULL), ATTUNE_OK);
    assert_int_equal(candidate_cover(parts->generator, &problem, &target, 3, 9, &cover, NULL), ATTUNE_OK);
    struct buffer lines = BUFFER_INIT;
    buffer_text(&lines, "# a comment\n\n");
    for (int i = 0; i < cover.count; i++) {
        candidate_format(&cover.items[i], name);
        buffer_format(&lines, "  %s # number %d\n", name, i);
    }
    assert_int_equal(path_join(list, sizeof list, parts->folder, "list.txt", NULL), ATTUNE_OK);
    assert_int_equal(file_write(list, lines.data, lines.length, NULL), ATTUNE_OK);
    buffer_free(&lines);
    for (int again = 0; again < 2; again++) {
        attune_status status = tune_compile_space(parts->generator, parts->pool, parts->store, &problem, &target, list,
                                                  NULL, NULL, &result, &error);
        if (status == ATTUNE_NO_TOOLCHAIN) {
            skip();
        }
        if (status != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        assert_int_equal(result.candidates, cover.count); /* the default was among them and is not doubled */
        assert_int_equal(again ? result.reused : result.compiled, cover.count);
    }
    candidate_list_free(&cover);
    char specialisation[PROBLEM_TEXT_BYTES], folder[128];
    struct record *records = NULL;
    int count = 0;
    default_folder(&target, folder);
    assert_int_equal(problem_specialisation(&problem, specialisation, NULL), ATTUNE_OK);
    assert_int_equal(store_records(parts->store, folder, specialisation, &records, &count, NULL), ATTUNE_OK);
    assert_int_equal(count, 1); /* the default's: such a store serves where nobody may compile */
    assert_int_equal(records[0].kind, RECORD_DEFAULT);
    record_free(&records[0]);
    free(records);
    static const char wrong[] = "block_q=64\n\nblock_q=17\n";
    assert_int_equal(file_write(list, wrong, sizeof wrong - 1, NULL), ATTUNE_OK);
    assert_int_equal(tune_compile_space(parts->generator, parts->pool, parts->store, &problem, &target, list, NULL,
                                        NULL, &result, &error),
                     ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "list.txt:3"));
}

/* A family whose template can be wrong in the ways of a careless author; its default is. %s: the reference's factor. */
static const char family_lua[] =
    "local kernel = import(\"kernel\")\n"
    "return { name = \"double\", doc = \"y = 2 x\",\n"
    "  fields = { { name = \"n\", kind = \"integer\", role = \"size\", required = true, always = true, min = 0, max = "
    "100000 } },\n"
    "  tensors = function(p) return { { name = \"x\", dtype = \"f32\", output = false, elements = p.n },\n"
    "    { name = \"y\", dtype = \"f32\", output = true, elements = p.n } } end,\n"
    "  inputs = function(p, name, kind, random) local x = {} for i = 1, p.n do x[i] = random() end return x end,\n"
    "  reference = function(p, t) local y, allowed = {}, {}\n"
    "    for i = 1, p.n do y[i] = %s * t.x[i] allowed[i] = 0 end return { y = y }, { y = allowed } end,\n"
    "  operations = function(p) return p.n end,\n"
    "  templates = { { name = \"plain\", file = \"double.hip\", doc = \"one thread an element\",\n"
    "    supports = function(p, t) return true end,\n"
    "    parameters = { { name = \"mode\", doc = \"how wrong\", values = { \"early\", \"half\", \"off\", \"right\" } } "
    "},\n"
    "    constraints = {}, default = function(p, t) return { mode = \"early\" } end,\n"
    "    launch = function(c, p, t, d) return { kernel = \"double_it\", threads = 64, static_shared_bytes = 0,\n"
    "      dynamic_shared_bytes = 0, arguments = { { \"x\", \"pointer\" }, { \"y\", \"pointer\" }, { \"n\", \"i32\" "
    "},\n"
    "      { \"origin_x\", \"u32\" } }, grid = { { { \"n\", 64 } }, {}, {} } } end } } }\n";
static const char family_hip[] = "% local kernel = import(\"kernel\")\n"
                                 "constexpr int WAVE = ${t.wave}, THREADS = 64;\n"
                                 "${kernel.entry(t, d.launch, {x = \"const float *\", y = \"float *\"})}\n"
                                 "    const int i = (int)(origin_x + block_index_x()) * THREADS + thread_index();\n"
                                 "% if c.mode == \"early\" then\n"
                                 "    return;\n"
                                 "% elseif c.mode == \"half\" then\n"
                                 "    if (i < n / 2) y[i] = 2.0f * x[i];\n"
                                 "% elseif c.mode == \"off\" then\n"
                                 "    if (i < n) y[i] = 2.0f * x[i > 0 ? i - 1 : 0];\n"
                                 "% else\n"
                                 "    if (i < n) y[i] = 2.0f * x[i];\n"
                                 "% end\n"
                                 "}\n"
                                 "${kernel.note(t, d.launch)}\n";

/* tunes the family with a reference of this factor */
static attune_status tune_double(struct parts *parts, const char *factor, struct tune_result *result,
                                 struct error *error)
{
    char folder[512], path[600], text[4096];
    struct generator *generator;
    struct problem problem;
    assert_int_equal(folder_temporary(folder, sizeof folder, error), ATTUNE_OK);
    snprintf(text, sizeof text, family_lua, factor);
    assert_int_equal(path_join(path, sizeof path, folder, "double.lua", error), ATTUNE_OK);
    assert_int_equal(file_write(path, text, strlen(text), error), ATTUNE_OK);
    assert_int_equal(path_join(path, sizeof path, folder, "double.hip", error), ATTUNE_OK);
    assert_int_equal(file_write(path, family_hip, sizeof family_hip - 1, error), ATTUNE_OK);
    if (generator_create(&(struct generator_options){.template_path = folder}, &generator, error) != ATTUNE_OK) {
        fail_msg("%s", error->message);
    }
    if (problem_parse(generator_schema(generator, "double"), "double n=300", &problem, error) != ATTUNE_OK) {
        fail_msg("%s", error->message);
    }
    /* another reference makes no other objects: what was wrong by it is tried again when asked */
    const struct tune_options options = {.device = "host", .seed = 1, .retry_blocked = true};
    attune_status status =
        tune_run(generator, parts->pool, parts->store, &problem, &options, NULL, NULL, result, error);
    generator_destroy(generator);
    folder_remove(folder);
    return status;
}

static void a_wrong_candidate_never_wins(void **state)
{
    struct tune_result result;
    struct error error = {0};
    attune_status status = tune_double(*state, "2", &result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        skip();
    }
    if (status != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(result.record.candidate, "double/plain mode=right");
    assert_non_null(result.record.schema);
    assert_int_equal(result.counts.wrong, 3);
    assert_int_equal(result.counts.verified, 1);
    assert_int_equal(journal_lines(result.journal, "outcome", "first"), 4);
    for (int i = 0; i < result.outcome_count; i++) {
        bool right = strstr(result.outcomes[i].candidate, "right") != NULL;
        assert_string_equal(result.outcomes[i].outcome, right ? "right" : "wrong");
        assert_true(right || strlen(result.outcomes[i].reason) > 0);
    }
    tune_result_free(&result);
}

static void a_broken_reference_lets_nothing_win(void **state)
{
    struct tune_result result;
    struct error error = {0};
    attune_status status = tune_double(*state, "3", &result, &error);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        skip();
    }
    assert_int_equal(status, ATTUNE_WRONG);
    assert_non_null(strstr(error.message, "4 wrong"));
    /* a run without a winner is no killed one: its journal has an end */
    struct buffer text = BUFFER_INIT;
    struct journal_reading reading;
    assert_int_equal(file_read_private(result.journal, STORE_JOURNAL_BYTES_MAX, &text, &error), ATTUNE_OK);
    assert_int_equal(journal_read(text.data, text.length, &reading, &error), ATTUNE_OK);
    assert_true(reading.has_end && reading.end.complete);
    assert_string_equal(reading.end.winner, "");
    assert_int_equal(reading.end.tried, 4);
    assert_int_equal(reading.end.rejected, 4);
    assert_int_equal(reading.outcome_count, 4);
    journal_reading_free(&reading);
    buffer_free(&text);
}

static void the_example_family_is_verified_by_its_own_reference(void **state)
{
    struct parts *parts = *state, mine = *parts;
    struct error error = {0};
    const struct generator_options options = {.template_path = TEST_SOURCE_DIR "/examples/softmax"};
    if (generator_create(&options, &mine.generator, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    struct parts *pointer = &mine;
    verify(pointer, "softmax dtype=f16 rows=37 columns=100",
           &(struct verify_options){.device = "host", .cover = 4, .seed = 1}, 4);
    generator_destroy(mine.generator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_candidates_are_right),
        cmocka_unit_test(emulated_targets_are_right),
        cmocka_unit_test(a_small_cover_is_right),
        cmocka_unit_test(unknown_targets_are_refused_by_name),
        cmocka_unit_test(sanitized_candidates_run_in_the_runner),
        cmocka_unit_test(tuning_on_host_verifies_and_records),
        cmocka_unit_test(objects_of_another_compiler_are_used_only_when_accepted),
        cmocka_unit_test(a_space_is_compiled_into_the_store_once),
        cmocka_unit_test(a_wrong_candidate_never_wins),
        cmocka_unit_test(a_broken_reference_lets_nothing_win),
        cmocka_unit_test(the_example_family_is_verified_by_its_own_reference),
    };
    return cmocka_run_group_tests_name("host", tests, parts_set_up, parts_tear_down);
}
