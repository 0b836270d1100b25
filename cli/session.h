/* session.h - a context with one device, for the commands that run plans: run, bench, explain. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/cli.h"
#include "runtime/attune.h"
#include "runtime/driver.h"

struct session {
    attune_context *context;
    attune_device *device;
    const struct driver *driver; /* the same device, for memory and events */
    int ordinal;
    char device_name[DRIVER_DEVICE_BYTES]; /* "cuda:0" */
};

/* --device and --store decide; on failure nothing needs closing */
attune_status session_open(struct cli *cli, attune_jit_mode mode, struct session *session, struct error *error);
void session_close(struct session *session);

/* the context's message as our error */
attune_status session_error(const struct session *session, attune_status status, struct error *error);

/* plan for a problem: the best stored one, or with `candidate` (name or k=v ...) exactly that */
attune_status session_prepare(const struct session *session, const struct problem *problem, const char *candidate,
                              attune_plan **plan, attune_plan_info *info, struct error *error);

const char *rung_name(attune_rung rung);
/* rung, candidate, id, object, compiler... as JSON: new reference */
json_t *describe_plan(const attune_plan_info *info);

#endif
