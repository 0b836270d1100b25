/* kit.h - a simulated device with a shell script as its simulator, and one small launch on it. */
#ifndef TESTS_SIMULATOR_KIT_H
#define TESTS_SIMULATOR_KIT_H

#include "base/buffer.h"
#include "runtime/driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KIT_DEVICE "sim:gfx906"
enum { KIT_THREADS = 128, KIT_BYTES = 64, KIT_ARGUMENT_BYTES = 36 };

/* group fixtures: a private folder with blanks in its name, in it TMPDIR, empty between launches */
int kit_set_up(void **state);
int kit_tear_down(void **state);
const char *kit_path(const char *name); /* a path in the private folder; valid for the next 7 calls */
int kit_files(const char *folder);      /* how many entries a folder has */
bool kit_left_nothing(void);            /* TMPDIR is empty */

/* may other users reach TMPDIR, make folders there and run simulators? No, until it is said */
void kit_open_to_others(bool open);

/* writes an executable script, whose first argument is the folder, and makes it the simulator */
void kit_simulate(const char *name, const char *text);
const struct driver *kit_driver(const char *device);

/* kernel attention_forward of tests/base/data: blocks of 128, 36 bytes of arguments. Its parameters do not matter to a
 * script: pointers are at 0, 8 and 16. */
struct kit_launch {
    const struct driver *driver;
    driver_module module;
    driver_function function;
    char *buffers[2]; /* KIT_BYTES each; the first holds 'a', the second 'b' */
    unsigned char arguments[KIT_ARGUMENT_BYTES];
};
void kit_begin(struct kit_launch *launch, const struct driver *driver);
void kit_point(struct kit_launch *launch, int index, const void *pointer);
attune_status kit_run(struct kit_launch *launch, struct error *error);
void kit_end(struct kit_launch *launch);

struct buffer kit_object(const char *name); /* of tests/base/data */
void kit_says(const struct error *error, const char *part);

#endif
