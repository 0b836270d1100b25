/* B29: what a tuner or a verification found wrong, at whatever sizes, reaches no caller: neither as a record nor
 * through a compile on a miss. */
#include "autotune/verify.h"
#include "runtime/attune.h"
#include "tests/proof/tuner_place.h"

static attune_status count_records(void *data, const struct store_entry *entry, struct error *error)
{
    (void)error;
    *(int *)data += entry->kind == STORE_RECORD;
    return ATTUNE_OK;
}

/* a miss for the problem is refused, and the reason names the candidate and what it did; nothing is recorded of it */
static void expect_refusal(struct place *place, const char *problem, const char *candidate, const char *reason)
{
    attune_context_options options = {.size = sizeof options, .store = place->store_folder, .jit = ATTUNE_JIT_COMPILE};
    attune_context *context;
    attune_device *device;
    attune_problem *wanted;
    attune_plan *plan = NULL;
    int records = 0;
    char message[1024];
    assert_int_equal(setenv("ATTUNE_TEMPLATE_PATH", place->templates, 1), 0);
    assert_int_equal(attune_context_create(&options, &context), ATTUNE_OK);
    assert_int_equal(attune_jit_register(context), ATTUNE_OK);
    assert_int_equal(attune_device_open(context, "host", &device), ATTUNE_OK);
    assert_int_equal(attune_problem_parse(context, problem, &wanted), ATTUNE_OK);
    attune_status status = attune_prepare(device, wanted, NULL, &plan);
    attune_last_error(context, message, sizeof message);
    if (status != ATTUNE_UNSUPPORTED || strstr(message, candidate) == NULL || strstr(message, reason) == NULL ||
        strstr(message, "cache prune --blocked") == NULL) {
        fail_msg("status %d: %s", (int)status, message);
    }
    assert_null(plan);
    attune_problem_destroy(wanted);
    attune_context_destroy(context);
    assert_int_equal(unsetenv("ATTUNE_TEMPLATE_PATH"), 0);
    struct store *store;
    assert_int_equal(store_open(place->store_folder, &store, NULL), ATTUNE_OK);
    assert_int_equal(store_walk(store, count_records, &records, NULL), ATTUNE_OK);
    assert_int_equal(records, 0);
    store_close(store);
}

/* B29: what a tuner or a verification found wrong reaches no caller through a miss, at any size */
static void a_default_known_to_be_wrong_is_not_served(void **state)
{
    for (int by_verify = 0; by_verify < 2; by_verify++) {
        struct place place;
        struct tune_result result;
        struct error error = {0};
        struct problem problem;
        struct store *store;
        int right, total;
        open_place(&place, *state);
        if (by_verify) {
            struct generator *generator = tuner_family(place.templates, "half", "2", place.comment);
            assert_int_equal(store_open(place.store_folder, &store, NULL), ATTUNE_OK);
            const struct verify_options options = {.device = "host", .seed = 1, .notes = store};
            assert_int_equal(problem_parse(generator_schema(generator, "twice"), "twice n=300", &problem, NULL),
                             ATTUNE_OK);
            attune_status status =
                verify_run(generator, place.parts->pool, &problem, &options, NULL, NULL, &right, &total, &error);
            assert_int_equal(status, ATTUNE_WRONG);
            store_close(store);
            generator_destroy(generator);
        } else {
            assert_int_equal(tune(&place, "half", "2", (struct tune_options){0}, &result, &error), ATTUNE_WRONG);
        }
        expect_refusal(&place, "twice n=300", "twice/plain mode=half", "wrong before: ");
        expect_refusal(&place, "twice n=77", "twice/plain mode=half", "never written");
        folder_remove(place.folder);
    }
}

/* B29: a kernel answers for every size: one that is right at the tuned problem's alone is no winner, on the host device
 * either */
static void a_kernel_wrong_at_other_sizes_is_not_published(void **state)
{
    static const char line[] = "    const int keys_end = seqlen_k, keys_unmasked = seqlen_k;\n";
    static const char broken[] = "    const int keys_end = minimum(seqlen_k, 96), keys_unmasked = keys_end;\n";
    static const char text[] = "attention.forward dtype=f32 batch=1 heads=1 seqlen_q=32 head_dim=16";
    const char *from = access(TEST_SOURCE_DIR "/templates", R_OK) == 0 ? TEST_SOURCE_DIR
                           "/templates/attention_forward_portable.hip"
                                                                       : "templates/attention_forward_portable.hip";
    struct place place;
    struct tune_result result;
    struct error error = {0};
    struct generator *generator;
    struct problem problem;
    struct store *store;
    struct buffer hip = BUFFER_INIT, changed = BUFFER_INIT;
    char path[700];
    open_place(&place, *state);
    assert_int_equal(file_read(from, 1 << 20, &hip, &error), ATTUNE_OK);
    const char *at = strstr(buffer_string(&hip), line);
    assert_non_null(at);
    buffer_append(&changed, hip.data, (size_t)(at - hip.data));
    buffer_text(&changed, broken);
    buffer_text(&changed, at + strlen(line));
    assert_int_equal(path_join(path, sizeof path, place.templates, "attention_forward_portable.hip", NULL), ATTUNE_OK);
    assert_int_equal(file_write(path, changed.data, changed.length, &error), ATTUNE_OK);
    buffer_free(&hip);
    buffer_free(&changed);
    assert_int_equal(
        generator_create(&(struct generator_options){.template_path = place.templates}, &generator, &error), ATTUNE_OK);
    assert_int_equal(problem_parse(generator_schema(generator, "attention.forward"), text, &problem, NULL), ATTUNE_OK);
    assert_int_equal(store_open(place.store_folder, &store, NULL), ATTUNE_OK);
    const struct tune_options options = {.device = "host", .seed = 1, .strategy = "default"};
    attune_status status =
        tune_run(generator, place.parts->pool, store, &problem, &options, NULL, NULL, &result, &error);
    store_close(store);
    generator_destroy(generator);
    if (status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error.message);
        folder_remove(place.folder);
        skip();
    }
    assert_int_equal(status, ATTUNE_WRONG);
    if (strstr(error.message, "inputs, lengths ") == NULL) {
        fail_msg("%s", error.message);
    }
    expect_refusal(&place, text, "attention.forward/portable", "inputs, lengths ");
    folder_remove(place.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_default_known_to_be_wrong_is_not_served),
        cmocka_unit_test(a_kernel_wrong_at_other_sizes_is_not_published),
    };
    return cmocka_run_group_tests_name("tuner_wrong", tests, parts_set_up, parts_tear_down);
}
