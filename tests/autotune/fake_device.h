/* fake_device.h - a driver whose kernels are C functions: memory is malloc'ed, an object is the name of a behaviour.
 * For what no generated kernel would do (stray writes, unwritten rows) and for timers that the test scripts. */
#ifndef TESTS_AUTOTUNE_FAKE_DEVICE_H
#define TESTS_AUTOTUNE_FAKE_DEVICE_H

#include "base/launch.h"
#include "runtime/driver.h"

enum fake_behaviour {
    FAKE_RIGHT,
    FAKE_RETURNS_AT_ONCE,
    FAKE_HALF_OF_THE_ROWS,
    FAKE_NO_LSE,
    FAKE_WRITES_BEFORE_O,
    FAKE_WRITES_BEHIND_O,
    FAKE_WRITES_BETWEEN_ROWS,
    FAKE_WRITES_INPUT,
    FAKE_READS_PAST_K,    /* one key more than there are */
    FAKE_CONTIGUOUS_ONLY, /* ignores strides */
    FAKE_WRONG_KV_HEAD,
    FAKE_DROPS_LAST_KEY,
    FAKE_MASK_TOO_WIDE,
    FAKE_SEED_LOW_WORD, /* dropout with half of the seed */
    FAKE_IGNORES_SEED_POINTER,
    FAKE_BASE_2, /* lse */
    FAKE_FAILS,  /* the launch reports an error */
    FAKE_BEHAVIOURS
};
extern const char *const fake_names[FAKE_BEHAVIOURS];

/* the launch descriptor of fake attention kernels */
void fake_launch(struct launch *launch);
const struct driver *fake_driver(void);

int fake_allocations(void); /* blocks not released yet */

#endif
