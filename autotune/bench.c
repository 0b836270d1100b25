/* bench.c - `attune bench`: one object's time, measured as finalists are. */
#include "autotune/measure.h"
#include "autotune/timing.h"
#include "autotune/tune.h"

#include <string.h>

enum { BENCH_ROUNDS = 30 };

struct benching {
    struct timing *timing;
    struct timed_kernel timed;
};

static attune_status sample(void *data, int entry, double *microseconds, struct error *error)
{
    struct benching *bench = data;
    (void)entry;
    return timed_sample(bench->timing, &bench->timed, bench->timed.launches, microseconds, error);
}

attune_status bench_run(struct generator *generator, const struct problem *problem, const struct driver *driver,
                        int ordinal, const void *object, size_t object_bytes, const struct launch *launch,
                        struct bench_result *result, struct error *error)
{
    struct benching bench = {0};
    struct oracle *oracle = NULL;
    struct measure_result measured = {0};
    const struct measure_source source = {.data = &bench, .sample = sample};
    double quick;
    memset(result, 0, sizeof *result);
    if (!driver_has_times(driver)) {
        return error_set(error, ATTUNE_UNSUPPORTED, "a device of driver %s says nothing about speed: bench needs a GPU",
                         driver->name);
    }
    attune_status status = oracle_create(generator, problem, 0, &oracle, error);
    if (status == ATTUNE_OK) {
        status = timing_create(oracle, driver, ordinal, &bench.timing, error);
    }
    if (status == ATTUNE_OK) {
        status = timed_open(bench.timing, object, object_bytes, launch, &bench.timed, error);
    }
    if (status == ATTUNE_OK) {
        status = timed_quick(bench.timing, &bench.timed, 0.0, &quick, error);
    }
    if (status == ATTUNE_OK) {
        status = timed_warm(bench.timing, &bench.timed, 200.0, error);
    }
    if (status == ATTUNE_OK) {
        status = measure_rounds(&source, 1, 0, BENCH_ROUNDS, 0.0, &measured, &result->rounds, error);
    }
    if (status == ATTUNE_OK && measured.samples == 0) {
        status = error_set(error, ATTUNE_DEVICE_FAILED, "the device gave no usable time in %d rounds", result->rounds);
    }
    if (status == ATTUNE_OK) {
        result->microseconds = measured.microseconds;
        result->spread = measured.spread;
        result->operations = oracle_operations(oracle);
        result->bytes = timing_set_bytes(bench.timing);
    }
    timed_close(&bench.timed);
    timing_destroy(bench.timing);
    oracle_destroy(oracle);
    return status;
}
