/* driver_library.h - a vendor's library by dlopen, its functions by a table of names; private to the drivers.
 *
 * An opened library is never closed: vendor libraries start threads and register exit handlers.
 */
#ifndef RUNTIME_DRIVER_LIBRARY_H
#define RUNTIME_DRIVER_LIBRARY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct driver_symbol {
    size_t offset;        /* of the function pointer in the driver's table */
    bool optional;        /* absence leaves NULL */
    const char *names[3]; /* tried in order; NULL past the last */
};

/* `variable` names an environment variable that, when set, is the one path to load; else each of `names` is tried.
 * `path` receives what was loaded. ATTUNE_NO_DEVICE with the loader's reason. */
attune_status driver_library_open(const char *variable, const char *const *names, void **library, char *path,
                                  size_t path_bytes, struct error *error);

/* fill the table; ATTUNE_NO_DEVICE names a required function that is missing */
attune_status driver_library_resolve(void *library, const char *path, const struct driver_symbol *symbols, size_t count,
                                     void *table, struct error *error);

#endif
