/* driver_library.c - finding vendor libraries and their functions. */
#include "runtime/driver_library.h"

#include "base/environment.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

attune_status driver_library_open(const char *variable, const char *const *names, void **library, char *path,
                                  size_t path_bytes, struct error *error)
{
    const char *chosen = environment_get(variable);
    if (chosen != NULL && chosen[0] != '\0') {
        *library = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
        if (*library == NULL) {
            return error_set(error, ATTUNE_NO_DEVICE, "%s=%s cannot be loaded: %s", variable, chosen, dlerror());
        }
        snprintf(path, path_bytes, "%s", chosen);
        return ATTUNE_OK;
    }
    char reason[512] = "";
    for (int i = 0; names[i] != NULL; i++) {
        *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (*library != NULL) {
            snprintf(path, path_bytes, "%s", names[i]);
            return ATTUNE_OK;
        }
        /* a library that is there but broken explains more than one that is not there */
        const char *text = dlerror();
        if (reason[0] == '\0' || strstr(reason, "No such file") != NULL) {
            snprintf(reason, sizeof reason, "%s", text);
        }
    }
    return error_set(error, ATTUNE_NO_DEVICE, "the driver's library is not here (%s); %s names another path", reason,
                     variable);
}

attune_status driver_library_resolve(void *library, const char *path, const struct driver_symbol *symbols, size_t count,
                                     void *table, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        const struct driver_symbol *symbol = &symbols[i];
        void *function = NULL;
        for (int n = 0; n < 3 && symbol->names[n] != NULL && function == NULL; n++) {
            function = dlsym(library, symbol->names[n]);
        }
        if (function == NULL && !symbol->optional) {
            return error_set(error, ATTUNE_NO_DEVICE,
                             "%s has no function %s: the driver is too old or not what it seems", path,
                             symbol->names[0]);
        }
        memcpy((char *)table + symbol->offset, &function, sizeof function);
    }
    return ATTUNE_OK;
}
