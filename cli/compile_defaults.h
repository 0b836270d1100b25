/* compile_defaults.h - `attune compile --defaults`: the warm-up of a store without a device. */
#ifndef CLI_COMPILE_DEFAULTS_H
#define CLI_COMPILE_DEFAULTS_H

#include "cli/cli.h"

/* The default candidate of each problem for each target, with its record, into --store; every object is listed. The
 * first failure is what the command reports, after all were tried. */
attune_status compile_defaults(struct cli *cli, struct compiler_pool *pool, const struct problem_list *problems,
                               const struct target *targets, int count, struct error *error);

#endif
