/* oracle_device.c - running a candidate on a device and looking at what it wrote.
 *
 * Inputs are uploaded once a case and stay; outputs are filled with NaN before every launch, so a right result of an
 * earlier candidate can never be taken for this one's.
 */
#include "autotune/judge.h"
#include "autotune/oracle.h"
#include "autotune/timing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_GUARD = 0xff, INPUTS_COMPARED_BYTES = 4 << 20, OPERATIONS_SANITIZED = 100000000 };

struct case_memory {
    bool made;
    struct guarded tensors[ORACLE_TENSORS_MAX];
    struct guarded dropout;       /* two words: seed and offset, for scattered cases */
    struct judge_answers answers; /* of judged cases */
};

struct oracle_device {
    struct oracle *oracle;
    const struct driver *driver;
    int ordinal;
    struct driver_device facts;
    double patience_microseconds; /* 0: endless */
    driver_event begin, end;      /* made when there is a patience */
    oracle_step step;             /* NULL: nobody wants to know */
    void *step_data;
    bool guards;
    bool companions; /* small cases before the problem's own: on real devices, and where they are asked for */
    struct guarded workspace;
    struct case_memory memory[ORACLE_CASES_MAX];
    void *outputs[ORACLE_TENSORS_MAX]; /* host copies, as large as the largest case needs */
    size_t output_bytes[ORACLE_TENSORS_MAX];
};

attune_status oracle_device_create(struct oracle *oracle, const struct driver *driver, int ordinal, bool guards,
                                   struct oracle_device **device, struct error *error)
{
    struct oracle_device *made = calloc(1, sizeof *made);
    *device = made;
    if (made == NULL) {
        return error_no_memory(error);
    }
    made->oracle = oracle;
    made->driver = driver;
    made->ordinal = ordinal;
    made->guards = guards;
    made->companions = guards && driver_has_times(driver);
    attune_status status = driver->describe(driver, ordinal, &made->facts, error);
    if (status != ATTUNE_OK) {
        oracle_device_destroy(made);
        *device = NULL;
    }
    return status;
}

void oracle_device_companions(struct oracle_device *device, bool companions)
{
    device->companions = companions;
}

attune_status oracle_device_patience(struct oracle_device *device, double microseconds, struct error *error)
{
    const struct driver *driver = device->driver;
    attune_status status = ATTUNE_OK;
    if (device->begin == NULL && microseconds > 0.0) {
        status = driver->event_create(driver, device->ordinal, &device->begin, error);
    }
    if (status == ATTUNE_OK && device->end == NULL && microseconds > 0.0) {
        status = driver->event_create(driver, device->ordinal, &device->end, error);
    }
    device->patience_microseconds = status == ATTUNE_OK ? microseconds : 0.0;
    return status;
}

void oracle_device_watch(struct oracle_device *device, oracle_step step, void *data)
{
    device->step = step;
    device->step_data = data;
}

static void tell(const struct oracle_device *device, const char *what)
{
    if (device->step != NULL) {
        device->step(device->step_data, what);
    }
}

void oracle_device_destroy(struct oracle_device *device)
{
    if (device == NULL) {
        return;
    }
    for (int c = 0; c < ORACLE_CASES_MAX; c++) {
        for (int t = 0; t < ORACLE_TENSORS_MAX; t++) {
            guarded_free(&device->memory[c].tensors[t]);
        }
        guarded_free(&device->memory[c].dropout);
        judge_answers_free(&device->memory[c].answers);
    }
    guarded_free(&device->workspace);
    if (device->begin != NULL) {
        device->driver->event_destroy(device->driver, device->ordinal, device->begin, NULL);
    }
    if (device->end != NULL) {
        device->driver->event_destroy(device->driver, device->ordinal, device->end, NULL);
    }
    for (int t = 0; t < ORACLE_TENSORS_MAX; t++) {
        free(device->outputs[t]);
    }
    free(device);
}

bool oracle_device_is(const struct oracle_device *device, const struct driver *driver, int ordinal)
{
    return device->driver == driver && device->ordinal == ordinal;
}

static size_t tensor_bytes(const struct oracle_tensor *tensor)
{
    return (size_t)tensor->elements * dtype_size(tensor->dtype);
}

static attune_status upload(struct oracle_device *device, const struct oracle_case *test, struct case_memory *memory,
                            struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (int t = 0; t < test->tensor_count && status == ATTUNE_OK; t++) {
        const struct oracle_tensor *tensor = &test->tensors[t];
        size_t bytes = tensor_bytes(tensor);
        status = guarded_make(&memory->tensors[t], device->driver, device->ordinal, bytes, device->guards,
                              tensor->output ? GUARD_BYTE : INPUT_GUARD, error);
        if (status == ATTUNE_OK && !tensor->output && bytes > 0) {
            status = device->driver->copy_in(device->driver, device->ordinal, memory->tensors[t].data, tensor->host,
                                             bytes, error);
        }
    }
    if (status == ATTUNE_OK && test->scattered && test->attention.dropout) {
        uint64_t words[2] = {test->attention.seed, test->attention.offset};
        status = guarded_make(&memory->dropout, device->driver, device->ordinal, sizeof words, device->guards,
                              INPUT_GUARD, error);
        if (status == ATTUNE_OK) {
            status = device->driver->copy_in(device->driver, device->ordinal, memory->dropout.data, words, sizeof words,
                                             error);
        }
    }
    memory->made = status == ATTUNE_OK;
    if (!memory->made) {
        for (int t = 0; t < test->tensor_count; t++) {
            guarded_free(&memory->tensors[t]);
        }
        guarded_free(&memory->dropout);
    }
    return status;
}

static attune_status make_workspace(struct oracle_device *device, const struct kernel *kernel,
                                    const struct oracle_case *test, struct error *error)
{
    uint64_t bytes;
    attune_status status = launch_workspace(&kernel->launch, &test->problem, &bytes, error);
    if (status != ATTUNE_OK || bytes == 0) {
        return status;
    }
    if (device->workspace.base == NULL || device->workspace.bytes != bytes) {
        guarded_free(&device->workspace);
        status =
            guarded_make(&device->workspace, device->driver, device->ordinal, bytes, device->guards, GUARD_BYTE, error);
        if (status == ATTUNE_NO_MEMORY) { /* the candidate's own wish: others go on */
            status = error_set(error, ATTUNE_UNSUPPORTED, "its workspace of %llu bytes cannot be had",
                               (unsigned long long)bytes);
        }
    }
    return status == ATTUNE_OK
               ? device->driver->fill(device->driver, device->ordinal, device->workspace.data, 0xff, bytes, error)
               : status;
}

static attune_status poison_outputs(struct oracle_device *device, const struct oracle_case *test,
                                    struct case_memory *memory, struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (int t = 0; t < test->tensor_count && status == ATTUNE_OK; t++) {
        if (test->tensors[t].output && memory->tensors[t].bytes > 0) {
            status = device->driver->fill(device->driver, device->ordinal, memory->tensors[t].data, 0xff,
                                          memory->tensors[t].bytes, error);
        }
    }
    return status;
}

/* A damaged guard zone is reported once: it is made anew for the next candidate. */
static attune_status check_guard(const char *name, struct guarded *memory, struct verdict *verdict, struct error *error)
{
    const char *place;
    attune_status status = guarded_check(memory, GUARD_BYTE, &place, error);
    if (status != ATTUNE_OK || place == NULL) {
        return status;
    }
    verdict->right = false;
    verdict->worst_ratio = (double)INFINITY;
    snprintf(verdict->reason, sizeof verdict->reason, "guard zone %s %s was overwritten", place, name);
    status = memory->driver->fill(memory->driver, memory->ordinal, memory->base, GUARD_BYTE, memory->guard, error);
    return status != ATTUNE_OK
               ? status
               : memory->driver->fill(memory->driver, memory->ordinal, (char *)memory->data + memory->bytes, GUARD_BYTE,
                                      memory->guard, error);
}

static attune_status check_guards(struct oracle_device *device, const struct oracle_case *test,
                                  struct case_memory *memory, struct verdict *verdict, struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (int t = 0; t < test->tensor_count && status == ATTUNE_OK; t++) {
        if (test->tensors[t].output) {
            status = check_guard(test->tensors[t].name, &memory->tensors[t], verdict, error);
        }
    }
    if (status == ATTUNE_OK && device->workspace.base != NULL) {
        status = check_guard("workspace", &device->workspace, verdict, error);
    }
    return status;
}

static attune_status fetch(struct oracle_device *device, const struct oracle_case *test, struct case_memory *memory,
                           int t, struct error *error)
{
    size_t bytes = tensor_bytes(&test->tensors[t]);
    if (device->output_bytes[t] < bytes + 1) {
        free(device->outputs[t]);
        device->outputs[t] = malloc(bytes + 1);
        device->output_bytes[t] = device->outputs[t] != NULL ? bytes + 1 : 0;
        if (device->outputs[t] == NULL) {
            return error_no_memory(error);
        }
    }
    return bytes == 0 ? ATTUNE_OK
                      : device->driver->copy_out(device->driver, device->ordinal, device->outputs[t],
                                                 memory->tensors[t].data, bytes, error);
}

/* inputs of small cases must be as they were */
static attune_status check_inputs(struct oracle_device *device, const struct oracle_case *test,
                                  struct case_memory *memory, struct verdict *verdict, struct error *error)
{
    for (int t = 0; t < test->tensor_count; t++) {
        const struct oracle_tensor *tensor = &test->tensors[t];
        if (tensor->output || tensor_bytes(tensor) > INPUTS_COMPARED_BYTES) {
            continue;
        }
        attune_status status = fetch(device, test, memory, t, error);
        if (status != ATTUNE_OK) {
            return status;
        }
        if (memcmp(device->outputs[t], tensor->host, tensor_bytes(tensor)) != 0) {
            verdict->right = false;
            verdict->worst_ratio = (double)INFINITY;
            snprintf(verdict->reason, sizeof verdict->reason, "the input %s was written", tensor->name);
            return device->driver->copy_in(device->driver, device->ordinal, memory->tensors[t].data, tensor->host,
                                           tensor_bytes(tensor), error);
        }
    }
    return ATTUNE_OK;
}

static int case_values(const struct oracle_device *device, const struct oracle_case *test, struct case_memory *memory,
                       struct named_value *values)
{
    void *pointers[ORACLE_TENSORS_MAX];
    for (int t = 0; t < test->tensor_count; t++) {
        pointers[t] = memory->tensors[t].data;
    }
    if (device->oracle->is_attention) {
        void *words = memory->dropout.data;
        return attention_case_values(test, pointers, words, words != NULL ? (char *)words + 8 : NULL, values);
    }
    for (int t = 0; t < test->tensor_count; t++) {
        values[t] = (struct named_value){.name = test->tensors[t].name, .kind = NAMED_POINTER, .pointer = pointers[t]};
    }
    return test->tensor_count;
}

/* o in device memory against the judge's answers */
static attune_status compare_judged(struct oracle_device *device, const struct oracle_case *test,
                                    struct case_memory *memory, struct verdict *verdict, struct error *error)
{
    const struct judge *judge = device->oracle->judge;
    void *data[ORACLE_TENSORS_MAX] = {NULL};
    attune_status status = ATTUNE_OK;
    for (int t = 0; t < test->tensor_count; t++) {
        data[t] = memory->tensors[t].data;
    }
    if (!memory->answers.made) {
        status = judge_answer(judge, &test->attention, data[0], data[1], data[2], &memory->answers, error);
    }
    return status == ATTUNE_OK
               ? judge_compare(judge, &test->attention, &memory->answers, data[3], data[4], verdict, error)
               : status;
}

/* o on the host against the CPU's answers */
static attune_status compare_fetched(struct oracle_device *device, const struct oracle_case *test,
                                     struct case_memory *memory, struct verdict *verdict, struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (int t = 0; t < test->tensor_count && status == ATTUNE_OK; t++) {
        status = test->tensors[t].output ? fetch(device, test, memory, t, error) : ATTUNE_OK;
    }
    if (status == ATTUNE_OK) {
        verdict->right = device->oracle->is_attention ? attention_case_compare(test, device->outputs, verdict)
                                                      : family_case_compare(test, device->outputs, verdict);
        if (device->oracle->is_attention && isnan(verdict->worst_ratio)) {
            status = error_set(error, ATTUNE_NO_MEMORY, "%s", verdict->reason);
        }
    }
    return status;
}

/* launch and wait; *milliseconds by device events when they are wanted */
static attune_status launch_once(const struct oracle_device *device, const struct kernel_call *call, bool timed,
                                 double *milliseconds, struct error *error)
{
    const struct driver *driver = device->driver;
    attune_status status = ATTUNE_OK;
    *milliseconds = 0.0;
    if (timed) {
        status = driver->event_record(driver, device->ordinal, device->begin, NULL, error);
    }
    if (status == ATTUNE_OK) {
        status = kernel_launch(call, NULL, error);
    }
    if (status == ATTUNE_OK && timed) {
        status = driver->event_record(driver, device->ordinal, device->end, NULL, error);
    }
    if (status == ATTUNE_OK) {
        status = driver->synchronize(driver, device->ordinal, NULL, error);
    }
    if (status == ATTUNE_OK && timed) {
        status = driver->event_elapsed(driver, device->ordinal, device->begin, device->end, milliseconds, error);
    }
    return status;
}

/* Runs the case; notes a launch at the problem's own sizes that outlasts the patience. A first launch may load code or
 * meet a stall: unless it is far too slow a second one decides. */
static attune_status run_call(struct oracle_device *device, const struct oracle_case *test, struct case_memory *memory,
                              const struct kernel_call *call, struct verdict *verdict, struct error *error)
{
    bool timed = device->patience_microseconds > 0.0 && !test->companion;
    double patience = device->patience_microseconds * 1e-3, milliseconds;
    attune_status status = launch_once(device, call, timed, &milliseconds, error);
    if (status == ATTUNE_OK && timed && milliseconds > patience && milliseconds < TIMING_FIRST_LAUNCH * patience) {
        status = poison_outputs(device, test, memory, error); /* what the first one wrote is not the second one's */
        if (status == ATTUNE_OK && device->workspace.base != NULL) {
            status = device->driver->fill(device->driver, device->ordinal, device->workspace.data, 0xff,
                                          device->workspace.bytes, error);
        }
        status = status == ATTUNE_OK ? launch_once(device, call, timed, &milliseconds, error) : status;
    }
    if (status == ATTUNE_OK && timed && milliseconds > patience) {
        verdict->too_slow = true;
        verdict->right = false;
        snprintf(verdict->reason, sizeof verdict->reason, "%.0f us at its first launches; not looked at longer",
                 milliseconds * 1e3);
    }
    return status;
}

static attune_status run_case(struct oracle_device *device, struct kernel *kernel, struct oracle_case *test,
                              struct case_memory *memory, struct verdict *verdict, struct error *error)
{
    struct named_value values[ATTENTION_VALUES];
    struct kernel_call call;
    attune_status status = oracle_prepare_case(device->oracle, test, error);
    if (status == ATTUNE_OK && !memory->made) {
        status = upload(device, test, memory, error);
    }
    if (status == ATTUNE_OK) {
        status = make_workspace(device, kernel, test, error);
    }
    if (status == ATTUNE_OK) {
        status = poison_outputs(device, test, memory, error);
    }
    if (status == ATTUNE_OK) {
        int count = case_values(device, test, memory, values);
        status = kernel_bind(kernel, &test->problem, values, count, device->workspace.data, &call, error);
    }
    if (status == ATTUNE_OK) {
        tell(device, test->label);
        status = run_call(device, test, memory, &call, verdict, error);
        tell(device, NULL);
    }
    if (verdict->too_slow) {
        return status;
    }
    if (status == ATTUNE_OK) {
        status = check_guards(device, test, memory, verdict, error);
    }
    if (status == ATTUNE_OK && verdict->right) {
        status = test->judged ? compare_judged(device, test, memory, verdict, error)
                              : compare_fetched(device, test, memory, verdict, error);
    }
    if (status == ATTUNE_OK && verdict->right) {
        status = check_inputs(device, test, memory, verdict, error);
    }
    return status;
}

/* without guards: in a sanitizer's runner, which takes seconds for what the device does in a moment */
static bool is_too_long(const struct oracle_device *device, const struct oracle_case *test)
{
    return !device->guards && attention_operations(&test->attention) > OPERATIONS_SANITIZED;
}

/* Is the case for a kernel that has these values compiled in? */
static bool serves(const struct oracle_device *device, const struct oracle_case *test, const struct launch *launch)
{
    bool strides = false, sizes = false;
    for (int i = 0; i < launch->fixed_count; i++) {
        size_t length = strlen(launch->fixed[i].field);
        bool stride = length > 7 && strcmp(launch->fixed[i].field + length - 7, "_stride") == 0;
        strides |= stride;
        sizes |= !stride;
    }
    if (test->companion && (!device->companions || sizes || strides || is_too_long(device, test))) {
        return false;
    }
    return strides ? !test->scattered : !test->twin;
}

attune_status oracle_device_check(struct oracle_device *device, const void *object, size_t object_bytes,
                                  const struct launch *launch, struct verdict *verdict, struct error *error)
{
    struct oracle *oracle = device->oracle;
    struct kernel kernel;
    *verdict = (struct verdict){.right = true};
    tell(device, "loading");
    attune_status status = kernel_load(&kernel, device->driver, &device->facts, object, object_bytes, launch, error);
    tell(device, NULL);
    for (int c = 0; c < oracle->case_count && status == ATTUNE_OK && verdict->right; c++) {
        struct oracle_case *test = &oracle->cases[c];
        if (!serves(device, test, launch)) {
            continue;
        }
        verdict->calls++;
        verdict->companions += test->companion;
        status = run_case(device, &kernel, test, &device->memory[c], verdict, error);
        if (status == ATTUNE_OK && !verdict->right && !verdict->too_slow) {
            char reason[sizeof verdict->reason];
            memcpy(reason, verdict->reason, sizeof reason);
            snprintf(verdict->reason, sizeof verdict->reason, "%s: %.*s", test->label,
                     (int)(sizeof reason - sizeof test->label - 3), reason);
            verdict->kind = test->kind;
        } else if (status != ATTUNE_OK) {
            error_prefix(error, "%s", test->label);
        }
    }
    kernel_unload(&kernel);
    return status;
}

uint64_t oracle_device_bytes(const struct oracle_device *device, bool judged)
{
    uint64_t total = 0;
    for (int c = 0; c < device->oracle->case_count; c++) {
        const struct oracle_case *test = &device->oracle->cases[c];
        if (test->twin || (test->companion && !device->companions)) {
            continue;
        }
        for (int t = 0; t < test->tensor_count; t++) {
            total += tensor_bytes(&test->tensors[t]) + (device->guards ? 2 * GUARD_BYTES : 0);
        }
        if (judged && attention_case_is_large(test)) {
            total += judge_answer_bytes(&test->attention);
        }
    }
    return total;
}
