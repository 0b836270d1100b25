/* environment.c - see environment.h */
#include "base/environment.h"

#include <stdlib.h>
#include <sys/auxv.h>

bool environment_is_trusted(void)
{
    return getauxval(AT_SECURE) == 0;
}

const char *environment_get(const char *name)
{
    return environment_is_trusted() ? getenv(name) : NULL;
}
