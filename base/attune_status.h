/* attune_status.h - what every attune function that can fail returns.
 *
 * Part of the public interface: installed beside attune.h.
 */
#ifndef ATTUNE_STATUS_H
#define ATTUNE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum attune_status {
    ATTUNE_OK = 0,
    ATTUNE_INVALID = 1,        /* an argument, field, parameter or option is wrong; nothing happened */
    ATTUNE_UNSUPPORTED = 2,    /* well formed, but no template, target or compiler here can serve it */
    ATTUNE_NOT_FOUND = 3,      /* a family, record, object, device or file that is not there */
    ATTUNE_NO_DEVICE = 4,      /* the device or its driver is missing */
    ATTUNE_NO_TOOLCHAIN = 5,   /* the compiler that the target needs is missing */
    ATTUNE_FORBIDDEN = 6,      /* would need a compile or a tuning that ATTUNE_JIT forbids */
    ATTUNE_COMPILE_FAILED = 7, /* the compiler refused, crashed or ran out of time; the log is in the message */
    ATTUNE_WRONG = 8,          /* a kernel's numbers failed verification */
    ATTUNE_CORRUPT = 9,        /* bytes read back fail their check */
    ATTUNE_IO = 10,            /* the operating system refused a file or process operation */
    ATTUNE_NO_MEMORY = 11,     /* host or device memory is exhausted */
    ATTUNE_DEVICE_FAILED = 12, /* the driver reported an error; its text is in the message */
    ATTUNE_TIMEOUT = 13,       /* a time limit passed */
    ATTUNE_INTERNAL = 14       /* a promise we made to ourselves is broken: please report it */
} attune_status;

/* a short English name for a status ("invalid argument"), never NULL; valid forever */
const char *attune_status_name(attune_status status);

#ifdef __cplusplus
}
#endif

#endif
