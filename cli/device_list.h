/* device_list.h - the devices that --device names: one, several with commas between them, or `all`. */
#ifndef CLI_DEVICE_LIST_H
#define CLI_DEVICE_LIST_H

#include "base/error.h"
#include "runtime/driver.h"

enum { DEVICES_MAX = 64 };

struct listed_device {
    char name[32];              /* driver_parse_device text: "cuda:0", "host", "best" */
    struct driver_device facts; /* described lists only */
    int group;                  /* devices with the same have the same fingerprint: a record of one serves the others */
};

struct device_list {
    struct listed_device items[DEVICES_MAX];
    int count;
    int groups;
    bool described;
};

/* `text` NULL: best. `all` are all GPUs, the host where there is none. A GPU named twice is refused: it would be
 * measured by two at once. A list of one is described only when `describe` says so, as that starts its driver. */
attune_status device_list_read(const char *text, bool describe, struct device_list *list, struct error *error);

#endif
