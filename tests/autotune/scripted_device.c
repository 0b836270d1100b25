/* scripted_device.c - events that tell what the test wrote. */
#include "scripted_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct scripted scripted;

static attune_status dead(struct error *error)
{
    return error_set(error, ATTUNE_DEVICE_FAILED, "the scripted device is gone");
}

static attune_status describe(const struct driver *driver, int ordinal, struct driver_device *facts,
                              struct error *error)
{
    (void)driver;
    attune_status status = scripted.host->describe(scripted.host, ordinal, facts, error);
    facts->cache_bytes = 1 << 14;
    facts->shared_bytes = scripted.shared_bytes > 0 ? scripted.shared_bytes : facts->shared_bytes;
    facts->max_threads = scripted.max_threads > 0 ? scripted.max_threads : facts->max_threads;
    facts->sharing = scripted.sharing;
    return status;
}

static attune_status allocate(const struct driver *driver, int ordinal, size_t bytes, void **pointer,
                              struct error *error)
{
    (void)driver;
    return scripted.dead ? dead(error) : scripted.host->allocate(scripted.host, ordinal, bytes, pointer, error);
}

static attune_status load(const struct driver *driver, int ordinal, const void *object, size_t bytes,
                          const char *kernel, uint32_t dynamic, driver_module *module, driver_function *function,
                          struct error *error)
{
    (void)driver;
    attune_status status =
        scripted.host->load(scripted.host, ordinal, object, bytes, kernel, dynamic, module, function, error);
    if (status == ATTUNE_OK) {
        assert_true(scripted.load_count < SCRIPTED_LOADS_MAX);
        scripted.loads[scripted.load_count].function = *function;
        scripted.loads[scripted.load_count].launches = 0;
        scripted.loads[scripted.load_count++].microseconds = scripted.truth(kernel, object, bytes);
    }
    return status;
}

static attune_status launch(const struct driver *driver, int ordinal, const struct driver_launch *what,
                            driver_stream stream, struct error *error)
{
    (void)driver;
    scripted.launches++;
    if (scripted.die_after > 0 && scripted.launches >= scripted.die_after) {
        scripted.dead = true;
    }
    if (scripted.dead) {
        return dead(error);
    }
    if ((scripted.shared_bytes > 0 && what->dynamic_shared_bytes > scripted.shared_bytes) ||
        (scripted.max_threads > 0 && what->threads > (uint32_t)scripted.max_threads)) {
        scripted.refused++;
        return error_set(error, ATTUNE_DEVICE_FAILED, "the launch is past the device's limits");
    }
    for (int i = scripted.load_count - 1; i >= 0; i--) {
        if (scripted.loads[i].function == what->function) {
            double pace = scripted.pace != NULL ? scripted.pace(scripted.launches, scripted.loads[i].launches) : 1.0;
            scripted.passed += scripted.loads[i].microseconds * pace;
            scripted.loads[i].launches++;
            break;
        }
    }
    /* a timed launch would only repeat what verification ran */
    return stream != NULL ? ATTUNE_OK : scripted.host->launch(scripted.host, ordinal, what, stream, error);
}

static attune_status stream_create(const struct driver *driver, int ordinal, driver_stream *stream, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    *stream = &scripted;
    return ATTUNE_OK;
}

static attune_status stream_destroy(const struct driver *driver, int ordinal, driver_stream stream, struct error *error)
{
    (void)driver, (void)ordinal, (void)stream, (void)error;
    return ATTUNE_OK;
}

static attune_status synchronize(const struct driver *driver, int ordinal, driver_stream stream, struct error *error)
{
    (void)driver, (void)ordinal, (void)stream;
    return scripted.dead ? dead(error) : ATTUNE_OK;
}

static attune_status event_create(const struct driver *driver, int ordinal, driver_event *event, struct error *error)
{
    (void)driver, (void)ordinal, (void)error;
    *event = &scripted.times[scripted.events++ % 2];
    return ATTUNE_OK;
}

static attune_status event_destroy(const struct driver *driver, int ordinal, driver_event event, struct error *error)
{
    (void)driver, (void)ordinal, (void)event, (void)error;
    return ATTUNE_OK;
}

static attune_status event_record(const struct driver *driver, int ordinal, driver_event event, driver_stream stream,
                                  struct error *error)
{
    (void)driver, (void)ordinal, (void)stream, (void)error;
    *(double *)event = scripted.passed;
    return ATTUNE_OK;
}

static attune_status event_elapsed(const struct driver *driver, int ordinal, driver_event begin, driver_event end,
                                   double *milliseconds, struct error *error)
{
    static const double unusable[] = {0.0, -1.0, NAN};
    (void)driver, (void)ordinal, (void)error;
    *milliseconds = (*(double *)end - *(double *)begin) * 1e-3;
    if (scripted.bad_times && ++scripted.answers % 3 == 0) {
        *milliseconds = unusable[scripted.answers / 3 % 3];
    }
    return ATTUNE_OK;
}

struct driver scripted_driver(scripted_truth truth)
{
    memset(&scripted, 0, sizeof scripted);
    scripted.truth = truth;
    assert_int_equal(driver_get("host", &scripted.host, NULL), ATTUNE_OK);
    struct driver driver = *scripted.host;
    driver.name = "scripted";
    driver.describe = describe;
    driver.allocate = allocate;
    driver.load = load;
    driver.launch = launch;
    driver.stream_create = stream_create;
    driver.stream_destroy = stream_destroy;
    driver.synchronize = synchronize;
    driver.event_create = event_create;
    driver.event_destroy = event_destroy;
    driver.event_record = event_record;
    driver.event_elapsed = event_elapsed;
    return driver;
}
