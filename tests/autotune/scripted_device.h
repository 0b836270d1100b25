/* scripted_device.h - the host device behind a driver that is called "scripted", whose events tell times that the test
 * writes: what each launch takes is known. One such device; a driver's functions get no data of their own. */
#ifndef TESTS_AUTOTUNE_SCRIPTED_DEVICE_H
#define TESTS_AUTOTUNE_SCRIPTED_DEVICE_H

#include "runtime/driver.h"

enum { SCRIPTED_LOADS_MAX = 8192 };

/* microseconds of a launch of this object */
typedef double (*scripted_truth)(const char *kernel, const void *object, size_t bytes);

struct scripted {
    const struct driver *host;
    scripted_truth truth;
    struct {
        driver_function function;
        double microseconds;
        int launches;
    } loads[SCRIPTED_LOADS_MAX];
    int load_count;
    double passed;   /* device time since the start */
    double times[2]; /* at the two events */
    int events, launches;
    /* factor on a launch's time: by its number on the device and among its function's launches; NULL: 1 */
    double (*pace)(int launch, int of_function);
    bool bad_times; /* every third answer is unusable */
    int answers;
    bool dead; /* from now on every call fails */
    int die_after;
    /* limits of the device that it pretends to be; 0: the host's */
    uint64_t shared_bytes;
    int32_t max_threads;
    int32_t sharing;
    int refused; /* launches past these limits: a real device would keep an error */
};
extern struct scripted scripted;

/* everything at its start */
struct driver scripted_driver(scripted_truth truth);

#endif
