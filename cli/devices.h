/* devices.h - what `devices` and `doctor` both tell about drivers. */
#ifndef CLI_DEVICES_H
#define CLI_DEVICES_H

#include <jansson.h>

/* [{"driver","usable","reason"?,"devices":[{"device","target","name",...}]}]: new reference */
json_t *survey_drivers(void);
void print_drivers(const json_t *drivers);

#endif
