/* fake.c - see fake.h */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char fake_identity[65] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const char fake_other_identity[65] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

void fake_attention_launch(struct launch *launch)
{
    static const struct launch_argument arguments[] = {
        {"q", ARGUMENT_POINTER},
        {"k", ARGUMENT_POINTER},
        {"v", ARGUMENT_POINTER},
        {"o", ARGUMENT_POINTER},
        {"lse", ARGUMENT_POINTER},
        {"seed_pointer", ARGUMENT_POINTER},
        {"offset_pointer", ARGUMENT_POINTER},
        {"batch", ARGUMENT_I32},
        {"heads", ARGUMENT_I32},
        {"kv_heads", ARGUMENT_I32},
        {"seqlen_q", ARGUMENT_I32},
        {"seqlen_k", ARGUMENT_I32},
        {"q_batch_stride", ARGUMENT_I64},
        {"q_seq_stride", ARGUMENT_I64},
        {"q_head_stride", ARGUMENT_I64},
        {"k_batch_stride", ARGUMENT_I64},
        {"k_seq_stride", ARGUMENT_I64},
        {"k_head_stride", ARGUMENT_I64},
        {"v_batch_stride", ARGUMENT_I64},
        {"v_seq_stride", ARGUMENT_I64},
        {"v_head_stride", ARGUMENT_I64},
        {"o_batch_stride", ARGUMENT_I64},
        {"o_seq_stride", ARGUMENT_I64},
        {"o_head_stride", ARGUMENT_I64},
        {"scale", ARGUMENT_F32},
        {"dropout_threshold", ARGUMENT_U32},
        {"dropout_scale", ARGUMENT_F32},
        {"seed", ARGUMENT_U64},
        {"offset", ARGUMENT_U64},
        {"head_dim_qk", ARGUMENT_I32},
        {"head_dim_v", ARGUMENT_I32},
        {"origin_x", ARGUMENT_U32},
        {"origin_y", ARGUMENT_U32},
        {"origin_z", ARGUMENT_U32},
        {"workspace", ARGUMENT_POINTER},
    };
    memset(launch, 0, sizeof *launch);
    strcpy(launch->kernel, "attention_forward");
    launch->argument_count = sizeof arguments / sizeof arguments[0];
    memcpy(launch->arguments, arguments, sizeof arguments);
    launch->threads = 32;
    launch->grid[0] = (struct launch_dimension){1, {{"seqlen_q", 32}}};
    launch->grid[1] = (struct launch_dimension){1, {{"heads", 1}}};
    launch->grid[2] = (struct launch_dimension){1, {{"batch", 1}}};
}

void fake_jit_init(struct fake_jit *jit)
{
    memset(jit, 0, sizeof *jit);
    jit->object = "fake object";
    jit->object_bytes = 11;
    jit->target = "gfx906";
    jit->identity = fake_identity;
    fake_attention_launch(&jit->launch);
}

/* ------------------------------------------------------------------------------------------------ handler */

static attune_status publish(struct fake_jit *jit, const struct jit_request *request, enum record_kind kind,
                             struct record *record, struct error *error)
{
    struct object_header header = {0};
    struct object_key key = {.options = "", .identity = jit->identity};
    char target[TARGET_TEXT_BYTES], object[TARGET_TEXT_BYTES + 64] = "\177ELF";
    const char *candidate = request->candidate != NULL ? request->candidate : "fake/default a=1";
    char shown[2048];
    memset(record, 0, sizeof *record);
    record->kind = kind;
    attune_status status = problem_format(request->problem, record->problem, error);
    if (status != ATTUNE_OK ||
        (status = problem_specialisation(request->problem, record->specialisation, error)) != ATTUNE_OK ||
        (status = problem_shape(request->problem, record->shape, error)) != ATTUNE_OK) {
        return status;
    }
    target_format(&request->device->target, target);
    if (jit->target != NULL) {
        strcpy(target, jit->target);
    }
    snprintf(object + 8, sizeof object - 8, "code for %s", target); /* what a driver takes; each target's is its own */
    strcpy(record->device.target, target);
    if (kind == RECORD_TUNED) {
        target_format(&request->device->target, record->device.target);
        record->device.compute_units = request->device->compute_units;
        record->device.shared_bytes = request->device->shared_bytes;
        record->device.memory_bytes = request->device->memory_bytes;
        strcpy(record->device.driver, request->device->driver_version);
        record->device.power_limit_watts = request->device->power_limit_watts;
    }
    strcpy(record->candidate, candidate);
    key.shown = shown;
    key.shown_bytes = (size_t)snprintf(shown, sizeof shown, "%s %s", record->specialisation, candidate);
    target_parse(target, &key.target, NULL);
    object_key_digest(&key, &record->object, &header.source);
    strcpy(header.target, target);
    strcpy(header.compiler, "fake 1");
    strcpy(header.identity, jit->identity);
    strcpy(header.kernel, jit->launch.kernel);
    strcpy(record->compiler, header.compiler);
    strcpy(record->identity, header.identity);
    record->launch = jit->launch;
    record_new_run(record->run);
    record->complete = true;
    record->created = (int64_t)time(NULL);
    if (jit->schema != NULL) {
        record->schema = malloc(sizeof *record->schema);
        *record->schema = *jit->schema;
    }
    if (!jit->keep_nothing) {
        status = jit->object != NULL
                     ? store_object_put(request->store, &record->object, &header, jit->object, jit->object_bytes, error)
                     : store_object_put(request->store, &record->object, &header, object, sizeof object, error);
    }
    if (status == ATTUNE_OK && request->candidate == NULL && !jit->keep_nothing) {
        status = store_record_put(request->store, record, error);
    }
    return status;
}

static void pause_for(int milliseconds)
{
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

static attune_status fake_compile(void *data, const struct jit_request *request, struct record *record,
                                  struct error *error)
{
    struct fake_jit *jit = data;
    atomic_fetch_add(&jit->compiles, 1);
    pause_for(jit->delay_milliseconds);
    if (jit->fail != ATTUNE_OK) {
        return error_set(error, jit->fail, "the fake compiler refuses");
    }
    return publish(jit, request, RECORD_DEFAULT, record, error);
}

static attune_status fake_tune(void *data, const struct jit_request *request, struct record *record,
                               struct error *error)
{
    struct fake_jit *jit = data;
    atomic_fetch_add(&jit->tunes, 1);
    pause_for(jit->delay_milliseconds);
    if (jit->fail != ATTUNE_OK) {
        return error_set(error, jit->fail, "the fake tuner refuses");
    }
    if (jit->untuned != ATTUNE_OK) {
        return error_set(error, jit->untuned, "the fake device serves one process");
    }
    return publish(jit, request, RECORD_TUNED, record, error);
}

static const struct schema *fake_schema(void *data, const char *family)
{
    struct fake_jit *jit = data;
    return jit->schema != NULL && strcmp(jit->schema->family, family) == 0 ? jit->schema : NULL;
}

static attune_status fake_identity_now(void *data, const struct target *target, char identity[DIGEST_HEX_BYTES],
                                       struct error *error)
{
    struct fake_jit *jit = data;
    (void)target, (void)error;
    strcpy(identity, jit->identity);
    return ATTUNE_OK;
}

static void fake_destroy(void *data)
{
    atomic_fetch_add(&((struct fake_jit *)data)->destroyed, 1);
}

void fake_jit_register(struct fake_jit *jit, attune_context *context)
{
    struct jit_handler handler = {.data = jit,
                                  .destroy = fake_destroy,
                                  .compile = fake_compile,
                                  .tune = fake_tune,
                                  .schema = fake_schema,
                                  .identity = fake_identity_now};
    assert_int_equal(context_set_jit(context, &handler), ATTUNE_OK);
}

void fake_publish(struct store *store, const struct fake_record *what)
{
    struct problem problem;
    struct record record;
    struct error error = {0};
    struct fake_jit jit;
    struct driver_device facts = {.compute_units = 60,
                                  .shared_bytes = 65536,
                                  .memory_bytes = (uint64_t)16 << 30,
                                  .power_limit_watts = what->power != 0 ? what->power : 225};
    struct jit_request request = {.problem = &problem, .device = &facts, .candidate = what->candidate};
    fake_jit_init(&jit);
    jit.target = what->target != NULL ? what->target : "gfx906";
    jit.identity = what->identity != NULL ? what->identity : fake_identity;
    if (what->fixed_seqlen_q != 0) {
        jit.launch.fixed_count = 1;
        jit.launch.fixed[0] = (struct launch_fixed){"seqlen_q", what->fixed_seqlen_q};
    }
    jit.keep_nothing = what->no_object;
    strcpy(facts.driver_version, what->driver != NULL ? what->driver : "HIP fake");
    target_parse("gfx906", &facts.target, NULL);
    if (problem_parse(schema_attention_forward(), what->problem, &problem, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    request.store = store;
    if (publish(&jit, &request, what->kind, &record, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    record.created = what->created;
    record.complete = !what->incomplete;
    record.tried = what->tried != 0 ? what->tried : record.tried;
    if (store_record_put(store, &record, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
}

/* ------------------------------------------------------------------------------------------------ driver */

static struct fake_device device_state;

static attune_status fake_count(const struct driver *driver, int *count, struct error *error)
{
    (void)driver, (void)error;
    *count = 1;
    return ATTUNE_OK;
}

static attune_status fake_describe(const struct driver *driver, int ordinal, struct driver_device *device,
                                   struct error *error)
{
    (void)driver;
    if (ordinal != 0) {
        return error_set(error, ATTUNE_NO_DEVICE, "fake: no device %d", ordinal);
    }
    *device = device_state.facts;
    return ATTUNE_OK;
}

static attune_status fake_load(const struct driver *driver, int ordinal, const void *object, size_t bytes,
                               const char *kernel, uint32_t dynamic_shared_bytes, driver_module *module,
                               driver_function *function, struct error *error)
{
    (void)driver, (void)ordinal, (void)kernel, (void)dynamic_shared_bytes;
    const char *refused = device_state.load_refuses;
    if (refused != NULL && bytes >= strlen(refused) && memcmp(object, refused, strlen(refused)) == 0) {
        return error_set(error, ATTUNE_DEVICE_FAILED, "fake: the driver is too old for \"%s\"", refused);
    }
    if (device_state.load_fails != ATTUNE_OK) {
        return error_set(error, device_state.load_fails, "fake: the driver cannot load %zu bytes", bytes);
    }
    atomic_fetch_add(&device_state.loads, 1);
    *module = &device_state;
    *function = &device_state;
    return ATTUNE_OK;
}

static attune_status fake_unload(const struct driver *driver, int ordinal, driver_module module, struct error *error)
{
    (void)driver, (void)ordinal, (void)module, (void)error;
    atomic_fetch_add(&device_state.unloads, 1);
    return ATTUNE_OK;
}

static attune_status fake_launch_kernel(const struct driver *driver, int ordinal, const struct driver_launch *launch,
                                        driver_stream stream, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    int n = atomic_fetch_add(&device_state.launches, 1);
    if (n < FAKE_LAUNCHES_MAX) {
        struct fake_launch *r = &device_state.recorded[n];
        memcpy(r->grid, launch->grid, sizeof r->grid);
        r->threads = launch->threads;
        r->dynamic_shared_bytes = launch->dynamic_shared_bytes;
        r->argument_bytes = launch->argument_bytes;
        memcpy(r->arguments, launch->arguments, launch->argument_bytes);
        r->stream = stream;
    }
    return ATTUNE_OK;
}

static void fake_relax(const struct driver *driver, bool begin)
{
    (void)driver;
    atomic_fetch_add(&device_state.relaxed, begin ? 1 : -1);
}

const struct driver *fake_driver(struct fake_device **state)
{
    static const struct driver table = {
        .name = "fake",
        .count = fake_count,
        .describe = fake_describe,
        .load = fake_load,
        .unload = fake_unload,
        .launch = fake_launch_kernel,
        .relax_capture = fake_relax,
    };
    memset(&device_state, 0, sizeof device_state);
    target_parse("gfx906", &device_state.facts.target, NULL);
    strcpy(device_state.facts.name, "Fake MI50");
    strcpy(device_state.facts.driver_version, "HIP fake");
    device_state.facts.compute_units = 60;
    device_state.facts.wave_size = 64;
    device_state.facts.max_threads = 1024;
    device_state.facts.shared_bytes = 65536;
    device_state.facts.memory_bytes = (uint64_t)16 << 30;
    device_state.facts.power_limit_watts = 225;
    device_state.facts.grid = (struct grid_limits){{0x7fffffff, 65535, 65535}, (uint64_t)1 << 32};
    *state = &device_state;
    return &table;
}

attune_context *fake_context(const char *folder, attune_jit_mode mode)
{
    attune_context *context = NULL;
    attune_context_options options = {.size = sizeof options, .store = folder, .jit = mode};
    char error[512];
    if (folder == NULL) {
        setenv("ATTUNE_CACHE", "in-memory", 1); /* relative: not used */
    }
    if (attune_context_create(&options, &context) != ATTUNE_OK) {
        attune_last_error(NULL, error, sizeof error);
        fail_msg("%s", error);
    }
    return context;
}

attune_device *fake_open(attune_context *context, struct fake_device **state)
{
    attune_device *device = NULL;
    struct error error = {0};
    if (context_open_device(context, fake_driver(state), 0, &device, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return device;
}

const char *fake_last_error(attune_context *context)
{
    static _Thread_local char message[ERROR_MESSAGE_BYTES];
    attune_last_error(context, message, sizeof message);
    return message;
}

void fake_expect(attune_context *context, attune_status expected, attune_status status, ...)
{
    const char *message = status != ATTUNE_OK ? fake_last_error(context) : "";
    va_list texts;
    if (status != expected) {
        fail_msg("status %s, expected %s: %s", attune_status_name(status), attune_status_name(expected), message);
    }
    va_start(texts, status);
    for (const char *text; (text = va_arg(texts, const char *)) != NULL;) {
        if (strstr(message, text) == NULL) {
            fail_msg("\"%s\" is not in: %s", text, message);
        }
    }
    va_end(texts);
}

attune_problem *fake_problem(attune_context *context, const char *text)
{
    attune_problem *problem = NULL;
    fake_expect(context, ATTUNE_OK, attune_problem_parse(context, text, &problem), NULL);
    return problem;
}
