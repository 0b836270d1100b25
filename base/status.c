/* status.c - names of the public status codes. */
#include "base/attune_status.h"

static const char *const names[] = {
    [ATTUNE_OK] = "ok",
    [ATTUNE_INVALID] = "invalid argument",
    [ATTUNE_UNSUPPORTED] = "unsupported",
    [ATTUNE_NOT_FOUND] = "not found",
    [ATTUNE_NO_DEVICE] = "no device",
    [ATTUNE_NO_TOOLCHAIN] = "no toolchain",
    [ATTUNE_FORBIDDEN] = "forbidden by ATTUNE_JIT",
    [ATTUNE_COMPILE_FAILED] = "compile failed",
    [ATTUNE_WRONG] = "wrong numbers",
    [ATTUNE_CORRUPT] = "corrupt data",
    [ATTUNE_IO] = "input or output failed",
    [ATTUNE_NO_MEMORY] = "out of memory",
    [ATTUNE_DEVICE_FAILED] = "device failed",
    [ATTUNE_TIMEOUT] = "time limit passed",
    [ATTUNE_INTERNAL] = "internal error",
};

const char *attune_status_name(attune_status status)
{
    int index = (int)status;
    if (index < 0 || index >= (int)(sizeof names / sizeof names[0])) {
        return "unknown status";
    }
    return names[index];
}
