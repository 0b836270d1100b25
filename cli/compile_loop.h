/* compile_loop.h - `attune compile --asm --loop`: what a kernel's hottest loop is made of. */
#ifndef CLI_COMPILE_LOOP_H
#define CLI_COMPILE_LOOP_H

#include "base/buffer.h"
#include "base/codeobject.h"
#include "base/launch.h"
#include "cli/cli.h"

/* `listing` is the disassembly. Adds "loop" to `row`, and without --json prints it as tables. ATTUNE_UNSUPPORTED for a
 * target without published issue rates. */
attune_status compile_loop(struct cli *cli, const struct target *target, const struct buffer *listing,
                           const struct launch *launch, const struct resources *resources, json_t *row,
                           struct error *error);

#endif
