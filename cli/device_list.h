/* device_list.h - the devices that --device names: one, several with commas between them, or `all`. */
#ifndef CLI_DEVICE_LIST_H
#define CLI_DEVICE_LIST_H

#include "base/error.h"
#include "runtime/driver.h"

enum { DEVICES_MAX = 64 };

struct listed_device {
    char name[32]; /* driver_parse_device text: "cuda:0", "host", "best" */
    struct driver_device facts;
    int group; /* devices with the same have the same fingerprint: a record of one serves the others */
};

struct device_list {
    struct listed_device items[DEVICES_MAX];
    int count;
    int groups;
};

/* `text` NULL: best. `all` are all GPUs, the host where there is none. A GPU named twice is refused: it would be
 * measured by two at once. Their drivers are started, so "best" has a name afterwards. */
attune_status device_list_read(const char *text, struct device_list *list, struct error *error);

#endif
