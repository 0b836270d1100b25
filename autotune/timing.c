/* timing.c - device events around runs of launches on rotated buffers. */
#include "autotune/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SETS_MAX = 64, CACHE_GUESS_BYTES = 64 << 20, LAUNCHES_MAX = 500 };
static const double sample_microseconds = 3000.0, quick_microseconds = 1000.0;

struct buffer_set {
    struct guarded tensors[ORACLE_TENSORS_MAX];
};

struct timing {
    const struct driver *driver;
    int ordinal;
    struct driver_device device;
    struct oracle *oracle;
    struct oracle_case *test;
    driver_stream stream;
    driver_event begin, end;
    struct buffer_set *sets;
    int set_count;
};

static uint64_t set_bytes(const struct oracle_case *test)
{
    uint64_t bytes = 0;
    for (int t = 0; t < test->tensor_count; t++) {
        bytes += (uint64_t)test->tensors[t].elements * dtype_size(test->tensors[t].dtype);
    }
    return bytes > 0 ? bytes : 1;
}

/* enough sets that a set is evicted before it is used again: twice the cache, and one more */
static int sets_wanted(const struct oracle_case *test, const struct driver_device *device)
{
    uint64_t cache = device->cache_bytes > 0 ? device->cache_bytes : CACHE_GUESS_BYTES;
    uint64_t bytes = set_bytes(test), sets = 2 * cache / bytes + 2;
    uint64_t memory = device->memory_free_bytes > 0 ? device->memory_free_bytes : device->memory_bytes;
    if (memory > 0 && sets * bytes > memory / 2) {
        sets = memory / 2 / bytes;
    }
    return sets < 1 ? 1 : sets > SETS_MAX ? SETS_MAX : (int)sets;
}

static void free_set(struct buffer_set *set)
{
    for (int t = 0; t < ORACLE_TENSORS_MAX; t++) {
        guarded_free(&set->tensors[t]);
    }
}

static attune_status fill_set(struct timing *timing, struct buffer_set *set, struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (int t = 0; t < timing->test->tensor_count && status == ATTUNE_OK; t++) {
        const struct oracle_tensor *tensor = &timing->test->tensors[t];
        size_t bytes = (size_t)tensor->elements * dtype_size(tensor->dtype);
        status = guarded_make(&set->tensors[t], timing->driver, timing->ordinal, bytes, false, 0, error);
        if (status == ATTUNE_OK && bytes > 0) {
            status = tensor->output
                         ? timing->driver->fill(timing->driver, timing->ordinal, set->tensors[t].data, 0, bytes, error)
                         : timing->driver->copy_in(timing->driver, timing->ordinal, set->tensors[t].data, tensor->host,
                                                   bytes, error);
        }
    }
    return status;
}

uint64_t timing_bytes_wanted(const struct oracle *oracle, const struct driver_device *device)
{
    for (int i = 0; i < oracle->case_count; i++) {
        const struct oracle_case *test = &oracle->cases[i];
        if (test->kind == INPUT_NORMAL && !test->companion && !test->scattered && !test->twin) {
            return (uint64_t)sets_wanted(test, device) * set_bytes(test);
        }
    }
    return 0;
}

attune_status timing_create(struct oracle *oracle, const struct driver *driver, int ordinal, struct timing **timing,
                            struct error *error)
{
    struct timing *made = calloc(1, sizeof *made);
    *timing = NULL;
    if (made == NULL) {
        return error_no_memory(error);
    }
    made->driver = driver;
    made->ordinal = ordinal;
    made->oracle = oracle;
    attune_status status = driver->describe(driver, ordinal, &made->device, error);
    if (status == ATTUNE_OK) {
        status = oracle_timed_case(oracle, &made->test, error);
    }
    if (status == ATTUNE_OK) {
        status = driver->stream_create(driver, ordinal, &made->stream, error);
    }
    if (status == ATTUNE_OK) {
        status = driver->event_create(driver, ordinal, &made->begin, error);
    }
    if (status == ATTUNE_OK) {
        status = driver->event_create(driver, ordinal, &made->end, error);
    }
    int wanted = status == ATTUNE_OK ? sets_wanted(made->test, &made->device) : 0;
    made->sets = calloc((size_t)wanted + 1, sizeof *made->sets);
    if (status == ATTUNE_OK && made->sets == NULL) {
        status = error_no_memory(error);
    }
    while (status == ATTUNE_OK && made->set_count < wanted) {
        attune_status filled = fill_set(made, &made->sets[made->set_count], error);
        if (filled != ATTUNE_OK) {
            free_set(&made->sets[made->set_count]);
            status = made->set_count > 0 && filled == ATTUNE_NO_MEMORY ? ATTUNE_OK : filled;
            break;
        }
        made->set_count++;
    }
    if (status != ATTUNE_OK) {
        timing_destroy(made);
        return status;
    }
    *timing = made;
    return ATTUNE_OK;
}

void timing_destroy(struct timing *timing)
{
    if (timing == NULL) {
        return;
    }
    const struct driver *driver = timing->driver;
    for (int s = 0; s < timing->set_count; s++) {
        free_set(&timing->sets[s]);
    }
    free(timing->sets);
    if (timing->end != NULL) {
        driver->event_destroy(driver, timing->ordinal, timing->end, NULL);
    }
    if (timing->begin != NULL) {
        driver->event_destroy(driver, timing->ordinal, timing->begin, NULL);
    }
    if (timing->stream != NULL) {
        driver->stream_destroy(driver, timing->ordinal, timing->stream, NULL);
    }
    free(timing);
}

double timing_set_bytes(const struct timing *timing)
{
    return (double)set_bytes(timing->test);
}

attune_status timed_open(struct timing *timing, const void *object, size_t bytes, const struct launch *launch,
                         struct timed_kernel *timed, struct error *error)
{
    const struct oracle_case *test = timing->test;
    uint64_t workspace = 0;
    *timed = (struct timed_kernel){.launches = 1};
    attune_status status = kernel_load(&timed->kernel, timing->driver, &timing->device, object, bytes, launch, error);
    if (status == ATTUNE_OK) {
        status = launch_workspace(launch, &test->problem, &workspace, error);
    }
    if (status == ATTUNE_OK && workspace > 0) {
        status = guarded_make(&timed->workspace, timing->driver, timing->ordinal, workspace, false, 0, error);
    }
    timed->calls = calloc((size_t)timing->set_count, sizeof *timed->calls);
    if (status == ATTUNE_OK && timed->calls == NULL) {
        status = error_no_memory(error);
    }
    for (int s = 0; s < timing->set_count && status == ATTUNE_OK; s++) {
        struct named_value values[ATTENTION_VALUES];
        void *pointers[ORACLE_TENSORS_MAX];
        int count = test->tensor_count;
        for (int t = 0; t < test->tensor_count; t++) {
            pointers[t] = timing->sets[s].tensors[t].data;
            values[t] =
                (struct named_value){.name = test->tensors[t].name, .kind = NAMED_POINTER, .pointer = pointers[t]};
        }
        if (timing->oracle->is_attention) {
            count = attention_case_values(test, pointers, NULL, NULL, values);
        }
        status =
            kernel_bind(&timed->kernel, &test->problem, values, count, timed->workspace.data, &timed->calls[s], error);
    }
    if (status != ATTUNE_OK) {
        timed_close(timed);
        return status;
    }
    return ATTUNE_OK;
}

void timed_close(struct timed_kernel *timed)
{
    kernel_unload(&timed->kernel);
    guarded_free(&timed->workspace);
    free(timed->calls);
    *timed = (struct timed_kernel){0};
}

attune_status timed_sample(struct timing *timing, struct timed_kernel *timed, int launches, double *microseconds,
                           struct error *error)
{
    const struct driver *driver = timing->driver;
    double milliseconds = NAN;
    attune_status status = driver->event_record(driver, timing->ordinal, timing->begin, timing->stream, error);
    for (int i = 0; i < launches && status == ATTUNE_OK; i++) {
        /* calls refer to the kernel they were bound to; the struct may have moved since */
        struct kernel_call *call = &timed->calls[timed->next_set];
        call->kernel = &timed->kernel;
        timed->next_set = (timed->next_set + 1) % timing->set_count;
        status = kernel_launch(call, timing->stream, error);
    }
    if (status == ATTUNE_OK) {
        status = driver->event_record(driver, timing->ordinal, timing->end, timing->stream, error);
    }
    if (status == ATTUNE_OK) {
        status = driver->synchronize(driver, timing->ordinal, timing->stream, error);
    }
    if (status == ATTUNE_OK) {
        status = driver->event_elapsed(driver, timing->ordinal, timing->begin, timing->end, &milliseconds, error);
    }
    *microseconds = milliseconds * 1e3 / launches;
    return status;
}

static int launches_for(double microseconds, double one)
{
    double launches = one > 0.0 ? ceil(microseconds / one) : 1.0;
    return launches < 1.0 ? 1 : launches > LAUNCHES_MAX ? LAUNCHES_MAX : (int)launches;
}

/* a sample that is a time: timers may give nonsense now and then */
static attune_status good_sample(struct timing *timing, struct timed_kernel *timed, int launches, double *microseconds,
                                 struct error *error)
{
    for (int attempt = 0; attempt < 5; attempt++) {
        attune_status status = timed_sample(timing, timed, launches, microseconds, error);
        if (status != ATTUNE_OK || (isfinite(*microseconds) && *microseconds > 0.0)) {
            return status;
        }
    }
    return error_set(error, ATTUNE_DEVICE_FAILED, "five samples in a row were no times; the last: %g us",
                     *microseconds);
}

attune_status timed_quick(struct timing *timing, struct timed_kernel *timed, double give_up, double *microseconds,
                          struct error *error)
{
    double again;
    attune_status status = good_sample(timing, timed, 1, microseconds, error); /* loads code, warms up */
    if (status != ATTUNE_OK || (give_up > 0.0 && *microseconds > TIMING_FIRST_LAUNCH * give_up)) {
        return status;
    }
    status = good_sample(timing, timed, 1, microseconds, error);
    if (status != ATTUNE_OK || (give_up > 0.0 && *microseconds > give_up)) {
        return status;
    }
    int launches = launches_for(quick_microseconds, *microseconds);
    for (int i = 0; i < (launches > 1 ? 2 : 1) && status == ATTUNE_OK; i++) {
        status = good_sample(timing, timed, launches, &again, error);
        /* one launch says little of a short kernel: its first sample does not count */
        *microseconds =
            status == ATTUNE_OK && ((i == 0 && launches > 1) || again < *microseconds) ? again : *microseconds;
    }
    timed->launches = launches_for(sample_microseconds, *microseconds);
    return status;
}

attune_status timed_warm(struct timing *timing, struct timed_kernel *timed, double milliseconds, struct error *error)
{
    double spent = 0.0;
    for (int i = 0; i < 1000 && spent < milliseconds; i++) {
        double one;
        attune_status status = timed_sample(timing, timed, timed->launches, &one, error);
        if (status != ATTUNE_OK) {
            return status;
        }
        spent += one > 0.0 ? one * timed->launches * 1e-3 : 1.0;
    }
    return ATTUNE_OK;
}
