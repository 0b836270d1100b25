/* kit.c - the parts a proof stands on, its candidates and their kernels. */
#include "kit_private.h"

#include "autotune/guarded.h"
#include "autotune/screen.h"
#include "base/files.h"
#include "runtime/host_device.h"

#include <jansson.h>

void proof_arguments(int argc, char **argv)
{
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
}

struct generator *proof_generator(struct proof *proof)
{
    return proof->generator;
}
const struct target *proof_target(const struct proof *proof)
{
    return &proof->target;
}
const struct driver_device *proof_device(const struct proof *proof)
{
    return &proof->device;
}

static attune_status open_target(struct proof *proof, struct error *error)
{
    const char *text = getenv("ATTUNE_TEST_TARGET");
    char name[TARGET_TEXT_BYTES];
    proof->target = proof->device.target;
    if (text == NULL || text[0] == '\0') {
        return ATTUNE_OK;
    }
    if (proof->device.target.vendor != TARGET_HOST) {
        return error_set(error, ATTUNE_INVALID, "ATTUNE_TEST_TARGET=%s: only the host device runs other targets", text);
    }
    snprintf(name, sizeof name, "host-%s", text);
    return target_parse(name, &proof->target, error);
}

static attune_status find_wave(struct proof *proof, struct error *error)
{
    json_t *facts = NULL;
    attune_status status = generator_target_facts(proof->generator, &proof->target, &facts, error);
    if (status == ATTUNE_OK) {
        proof->wave = (int)json_integer_value(json_object_get(facts, "wave"));
        assert_true(proof->wave > 0);
    }
    json_decref(facts);
    return status;
}

static attune_status open_public_road(struct proof *proof)
{
    if (target_emulated(&proof->target)[0] != '\0') {
        return ATTUNE_OK; /* a plan is always for the device's own target */
    }
    const attune_context_options options = {.size = sizeof options, .store = proof->folder, .jit = ATTUNE_JIT_COMPILE};
    attune_status status = attune_context_create(&options, &proof->context);
    if (status == ATTUNE_OK) {
        status = attune_jit_register(proof->context);
    }
    return status == ATTUNE_OK ? attune_device_open(proof->context, proof->device_name, &proof->public_device) : status;
}

int proof_set_up(void **state)
{
    struct proof *proof = calloc(1, sizeof *proof);
    struct error error = {0};
    const char *device = getenv("ATTUNE_TEST_DEVICE");
    assert_non_null(proof);
    snprintf(proof->device_name, sizeof proof->device_name, "%s", device == NULL || !device[0] ? "host" : device);
    attune_status status = driver_parse_device(proof->device_name, &proof->driver, &proof->ordinal, &error);
    if (status == ATTUNE_OK) {
        status = proof->driver->describe(proof->driver, proof->ordinal, &proof->device, &error);
    }
    if (status == ATTUNE_OK) {
        status = open_target(proof, &error);
    }
    if (status == ATTUNE_OK && (status = generator_create(NULL, &proof->generator, &error)) == ATTUNE_OK &&
        (status = compiler_pool_create(NULL, &proof->pool, &error)) == ATTUNE_OK &&
        (status = folder_temporary(proof->folder, sizeof proof->folder, &error)) == ATTUNE_OK &&
        (status = store_open(proof->folder, &proof->store, &error)) == ATTUNE_OK &&
        (status = find_wave(proof, &error)) == ATTUNE_OK) {
        status = road_open(&proof->road, proof->pool, proof->store, &proof->target, SANITIZE_NONE, false, &error);
    }
    if (status == ATTUNE_OK && open_public_road(proof) != ATTUNE_OK) {
        attune_last_error(proof->context, error.message, sizeof error.message);
        status = ATTUNE_INVALID;
    }
    *state = proof;
    if (status == ATTUNE_NO_DEVICE || status == ATTUNE_NO_TOOLCHAIN) {
        print_message("skipped: %s\n", error.message);
        proof_tear_down(state);
        exit(77);
    }
    if (status != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    return 0;
}

int proof_tear_down(void **state)
{
    struct proof *proof = *state;
    for (struct proof_kernel *kernel = proof->kernels, *next; kernel != NULL; kernel = next) {
        next = kernel->next;
        kernel_unload(&kernel->fresh);
        kernel_unload(&kernel->warm);
        free(kernel);
    }
    for (struct proof_set *set = proof->sets, *next; set != NULL; set = next) {
        next = set->next;
        free(set->candidates);
        free(set);
    }
    proof_fill_close(proof);
    attune_context_destroy(proof->context);
    store_close(proof->store);
    if (proof->folder[0] != '\0') {
        folder_remove(proof->folder);
    }
    compiler_pool_destroy(proof->pool);
    generator_destroy(proof->generator);
    free(proof);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ candidates */

const char *candidate_value(const struct candidate *candidate, const char *name)
{
    for (int i = 0; i < candidate->parameter_count; i++) {
        if (strcmp(candidate->parameters[i].name, name) == 0) {
            return candidate->parameters[i].value;
        }
    }
    return "";
}

int candidate_splits(const struct proof *proof, const struct candidate *candidate)
{
    int block_q = atoi(candidate_value(candidate, "block_q"));
    int lanes = block_q == 0 ? 0
                             : atoi(candidate_value(candidate, "threads")) *
                                   atoi(candidate_value(candidate, "tile_q")) / block_q;
    return lanes <= proof->wave ? 1 : lanes / proof->wave;
}

enum { FEATURES_MAX = 160, FEATURE_BYTES = 64 };

/* what a candidate has that the chosen ones must show: every parameter's value, and what becomes of a row's threads */
static int features_of(const struct proof *proof, const struct candidate *candidate, char (*features)[FEATURE_BYTES])
{
    int count = 0, splits = candidate_splits(proof, candidate);
    for (int i = 0; i < candidate->parameter_count; i++) {
        snprintf(features[count++], FEATURE_BYTES, "%s=%s", candidate->parameters[i].name,
                 candidate->parameters[i].value);
    }
    snprintf(features[count++], FEATURE_BYTES, "splits=%d", splits);
    snprintf(features[count++], FEATURE_BYTES, "merged=%d multiply=%s", splits > 1,
             candidate_value(candidate, "multiply"));
    return count;
}

struct shown {
    char features[FEATURES_MAX][FEATURE_BYTES];
    int count;
};

static int show(const struct proof *proof, struct shown *shown, const struct candidate *candidate, bool keep)
{
    char features[CANDIDATE_PARAMETERS_MAX + 2][FEATURE_BYTES];
    int count = features_of(proof, candidate, features), fresh = 0;
    for (int i = 0; i < count; i++) {
        int at = 0;
        while (at < shown->count && strcmp(shown->features[at], features[i]) != 0) {
            at++;
        }
        if (at == shown->count) {
            fresh++;
            if (keep) {
                assert_true(shown->count < FEATURES_MAX);
                memcpy(shown->features[shown->count++], features[i], FEATURE_BYTES);
            }
        }
    }
    return fresh;
}

static bool listed(const struct candidate *items, int count, const struct candidate *candidate)
{
    char name[CANDIDATE_TEXT_BYTES], other[CANDIDATE_TEXT_BYTES];
    candidate_format(candidate, name);
    for (int i = 0; i < count; i++) {
        candidate_format(&items[i], other);
        if (strcmp(name, other) == 0) {
            return true;
        }
    }
    return false;
}

static void take(const struct proof *proof, struct proof_set *set, struct shown *shown,
                 const struct candidate *candidate)
{
    if (!listed(set->candidates, set->count, candidate)) {
        show(proof, shown, candidate, true);
        set->candidates[set->count++] = *candidate;
    }
}

static void take_defaults(struct proof *proof, const struct problem *problem, struct proof_set *set,
                          struct shown *shown)
{
    static const int64_t lengths[] = {1024, 1, 4}; /* queries: the default has a shape for each */
    struct error error = {0};
    struct candidate candidate;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct problem sized = *problem;
        if (problem_set_integer(&sized, "seqlen_q", lengths[i], &error) != ATTUNE_OK ||
            candidate_default(proof->generator, &sized, &proof->target, &candidate, &error) != ATTUNE_OK) {
            fail_msg("default for seqlen_q=%lld: %s", (long long)lengths[i], error.message);
        }
        if (candidate_check(proof->generator, &candidate, problem, &proof->target, &error) == ATTUNE_OK) {
            take(proof, set, shown, &candidate);
        }
    }
}

/* The defaults; in size full a pairwise cover; then of all there are, greedily, what shows most that is new. */
static void choose(struct proof *proof, const struct problem *problem, struct proof_set *set)
{
    struct error error = {0};
    struct candidate_list all = {0}, cover = {0};
    struct shown *shown = calloc(1, sizeof *shown);
    attune_status status = candidate_enumerate(proof->generator, problem, &proof->target, &all, &error);
    if (status == ATTUNE_OK && test_size(0, 1)) {
        status = candidate_cover(proof->generator, problem, &proof->target, 0, 1, &cover, &error);
    }
    if (status != ATTUNE_OK) {
        fail_msg("space: %s", error.message);
    }
    set->candidates = calloc((size_t)all.count + 3, sizeof *set->candidates);
    assert_true(shown != NULL && set->candidates != NULL);
    take_defaults(proof, problem, set, shown);
    for (int i = 0; i < cover.count; i++) {
        take(proof, set, shown, &cover.items[i]);
    }
    for (int best = 0; best >= 0;) {
        int most = 0;
        best = -1;
        for (int i = 0; i < all.count; i++) {
            int fresh = show(proof, shown, &all.items[i], false);
            if (fresh > most) {
                most = fresh;
                best = i;
            }
        }
        if (best >= 0) {
            take(proof, set, shown, &all.items[best]);
        }
    }
    free(shown);
    candidate_list_free(&cover);
    candidate_list_free(&all);
}

struct proof_set *set_of(struct proof *proof, const struct problem *problem)
{
    char text[PROBLEM_TEXT_BYTES];
    struct error error = {0};
    if (problem_specialisation(problem, text, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    /* few queries have a space of their own: matrix instructions would not be filled */
    if (problem_integer(problem, "seqlen_q") <= 4 && strlen(text) + 5 < sizeof text) {
        strcat(text, " few");
    }
    for (struct proof_set *set = proof->sets; set != NULL; set = set->next) {
        if (strcmp(set->specialisation, text) == 0) {
            return set;
        }
    }
    struct proof_set *set = calloc(1, sizeof *set);
    assert_non_null(set);
    memcpy(set->specialisation, text, sizeof set->specialisation);
    set->next = proof->sets;
    proof->sets = set;
    choose(proof, problem, set);
    kernels_make(proof, problem, set->candidates, set->count);
    return set;
}

/* ------------------------------------------------------------------------------------------------ kernels */

/* a candidate with compiled lengths is another kernel for each problem */
static void kernel_key(const struct candidate *candidate, const struct problem *problem, char key[KERNEL_KEY_BYTES])
{
    char name[CANDIDATE_TEXT_BYTES], text[PROBLEM_TEXT_BYTES];
    bool exact = strcmp(candidate_value(candidate, "exact"), "lengths") == 0;
    candidate_format(candidate, name);
    attune_status status = exact ? problem_format(problem, text, NULL) : problem_specialisation(problem, text, NULL);
    assert_int_equal(status, ATTUNE_OK);
    snprintf(key, KERNEL_KEY_BYTES, "%s | %s", name, text);
}

static struct proof_kernel *kernel_known(const struct proof *proof, const char *key, const struct digest *object)
{
    for (struct proof_kernel *kernel = proof->kernels; kernel != NULL; kernel = kernel->next) {
        if (key != NULL ? strcmp(kernel->key, key) == 0 : memcmp(&kernel->object, object, sizeof *object) == 0) {
            return kernel;
        }
    }
    return NULL;
}

static void load(const struct proof *proof, const struct object_job *job, struct kernel *kernel)
{
    struct error error = {0};
    if (kernel_load(kernel, proof->driver, &proof->device, job->bytes.data, job->bytes.length, &job->launch, &error) !=
        ATTUNE_OK) {
        fail_msg("%s: %s", job->name, error.message);
    }
}

/* The job's object was compiled just now; it must also come out of the store, byte for byte. */
static void keep(struct proof *proof, const char *key, const struct problem *problem, const struct object_job *job)
{
    struct error error = {0};
    struct object_job again = {0};
    struct expansion scratch = {0};
    char reason[SCREEN_REASON_BYTES];
    if (job->status != ATTUNE_OK) {
        fail_msg("%s: %s", job->name, job->message);
    }
    if (job->reused && kernel_known(proof, NULL, &job->object) == NULL && !proof->public_ran) {
        fail_msg("%s: taken from a store that never had it", job->name);
    }
    if (object_expand(proof->generator, &proof->road, &job->candidate, problem, &scratch, &again, &error) !=
            ATTUNE_OK ||
        object_obtain(&proof->road, &again, &error) != ATTUNE_OK) {
        fail_msg("%s again: %s", job->name, error.message);
    }
    if (!again.reused || memcmp(&again.object, &job->object, sizeof again.object) != 0 ||
        again.bytes.length != job->bytes.length || memcmp(again.bytes.data, job->bytes.data, job->bytes.length) != 0) {
        fail_msg("%s: the store gave %s", job->name, again.reused ? "another object back" : "nothing back");
    }
    struct proof_kernel *kernel = calloc(1, sizeof *kernel);
    assert_non_null(kernel);
    snprintf(kernel->key, sizeof kernel->key, "%s", key);
    kernel->object = job->object;
    kernel->fits = screen_fits(&proof->device, &job->launch, &job->resources, reason);
    if (kernel->fits) {
        load(proof, job, &kernel->fresh);
        load(proof, &again, &kernel->warm);
    } else {
        print_message("%s: not for this device: %s\n", job->name, reason);
    }
    kernel->next = proof->kernels;
    proof->kernels = kernel;
    object_job_free(&again);
    expansion_free(&scratch);
}

void kernels_make(struct proof *proof, const struct problem *problem, const struct candidate *candidates, int count)
{
    struct error error = {0};
    struct pipeline *pipeline;
    struct object_job *job;
    char key[KERNEL_KEY_BYTES];
    if (pipeline_create(proof->generator, &proof->road, problem, candidates, count, 2, &pipeline, &error) !=
        ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    while ((job = pipeline_next(pipeline)) != NULL) {
        kernel_key(&job->candidate, problem, key);
        if (kernel_known(proof, key, NULL) == NULL) {
            keep(proof, key, problem, job);
        }
    }
    pipeline_destroy(pipeline);
}

struct proof_kernel *kernel_of(struct proof *proof, const struct candidate *candidate, const struct problem *problem)
{
    char key[KERNEL_KEY_BYTES];
    kernel_key(candidate, problem, key);
    struct proof_kernel *kernel = kernel_known(proof, key, NULL);
    if (kernel == NULL) {
        kernels_make(proof, problem, candidate, 1);
        kernel = kernel_known(proof, key, NULL);
    }
    assert_non_null(kernel);
    return kernel;
}

/* ------------------------------------------------------------------------------------------------ refusals */

static void must_say(const char *where, const char *problem_text, attune_status status, const char *message,
                     const char *word)
{
    bool refusal = status == ATTUNE_UNSUPPORTED || status == ATTUNE_INVALID;
    if (!refusal || strstr(message, word) == NULL) {
        fail_msg("%s, %s: status %d \"%s\", wanted a refusal that names \"%s\"", problem_text, where, (int)status,
                 status == ATTUNE_OK ? "" : message, word);
    }
}

/* the problem was refused with `status`, or attune_prepare must refuse it */
static void prepare_refused(struct proof *proof, const char *text, attune_status status, attune_problem *problem,
                            const char *word)
{
    char message[ERROR_MESSAGE_BYTES];
    attune_plan *plan = NULL;
    if (status == ATTUNE_OK) {
        status = attune_prepare(proof->public_device, problem, NULL, &plan);
        attune_problem_destroy(problem);
    } else {
        assert_null(problem);
    }
    assert_null(plan);
    attune_last_error(proof->context, message, sizeof message);
    must_say("attune.h", text, status, message, word);
}

void proof_refused(struct proof *proof, const char *problem_text, const char *word)
{
    struct error error = {0};
    struct problem problem;
    struct candidate candidate;
    attune_status status = problem_parse(schema_attention_forward(), problem_text, &problem, &error);
    if (status == ATTUNE_OK) {
        status = candidate_default(proof->generator, &problem, &proof->target, &candidate, &error);
    }
    must_say("generator", problem_text, status, error.message, word);
    if (proof->context == NULL) {
        return;
    }
    attune_problem *public_problem = NULL;
    char text[PROBLEM_TEXT_BYTES + 32];
    snprintf(text, sizeof text, "attention.forward %s", problem_text);
    status = attune_problem_parse(proof->context, text, &public_problem);
    prepare_refused(proof, problem_text, status, public_problem, word);
}

void proof_struct_refused(struct proof *proof, const attune_attention *attention, const char *word)
{
    attune_problem *problem = NULL;
    if (proof->context != NULL) {
        attune_status status = attune_problem_attention(proof->context, attention, &problem);
        prepare_refused(proof, "struct", status, problem, word);
    }
}

void proof_launch_refused(struct proof *proof, const char *problem_text, const attune_attention_arguments *arguments,
                          const char *word)
{
    enum { BYTES = 65536 };
    static unsigned char output[BYTES];
    char text[PROBLEM_TEXT_BYTES + 32], message[ERROR_MESSAGE_BYTES];
    struct error error = {0};
    attune_problem *problem = NULL;
    attune_plan *plan = NULL;
    void *memory = NULL;
    const struct driver *driver = proof->driver;
    if (proof->context == NULL) {
        return;
    }
    snprintf(text, sizeof text, "attention.forward %s", problem_text);
    if (attune_problem_parse(proof->context, text, &problem) != ATTUNE_OK ||
        attune_prepare(proof->public_device, problem, NULL, &plan) != ATTUNE_OK) {
        attune_last_error(proof->context, message, sizeof message);
        fail_msg("%s: %s", problem_text, message);
    }
    proof->public_ran = true;
    if (driver->allocate(driver, proof->ordinal, BYTES, &memory, &error) != ATTUNE_OK ||
        driver->fill(driver, proof->ordinal, memory, GUARD_BYTE, BYTES, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    attune_attention_arguments given = *arguments;
    given.q = given.k = given.v = given.o = memory;
    given.lse = strstr(problem_text, "lse=1") != NULL ? memory : NULL;
    attune_status status = attune_launch_attention(plan, &given, NULL, NULL, 0);
    attune_last_error(proof->context, message, sizeof message);
    must_say("launch", problem_text, status, message, word);
    if (driver->synchronize(driver, proof->ordinal, NULL, &error) != ATTUNE_OK ||
        driver->copy_out(driver, proof->ordinal, output, memory, BYTES, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    for (int i = 0; i < BYTES; i++) {
        assert_int_equal(output[i], GUARD_BYTE);
    }
    driver->release(driver, proof->ordinal, memory, NULL);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
}
