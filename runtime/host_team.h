/* host_team.h - the fibers that run one block after another on one CPU thread; private to the host device.
 *
 * A team serves one CPU thread at a time and keeps its stacks from block to block and launch to launch.
 */
#ifndef RUNTIME_HOST_TEAM_H
#define RUNTIME_HOST_TEAM_H

#include "runtime/host_device.h"

#include <stdbool.h>

enum { HOST_MAX_THREADS = 1024, HOST_MAX_WAVE = 64, HOST_FAILURE_BYTES = 640 };

struct host_team; /* opaque */

struct host_team *host_team_create(void); /* NULL without memory */
void host_team_destroy(struct host_team *team);

/* an address that is the launch's own: ThreadSanitizer sees what came before the launch through it */
struct host_launch_order {
    char start, end;
};

/* Run block number `block` (x fastest) of the launch to its end; `traced` blocks were told to its trace before. false:
 * a strict check fired and `failure` says what, where; the block's fibers are abandoned, its shared arrays are freed,
 * and the team is ready for another block. */
bool host_team_run(struct host_team *team, const struct host_launch *launch, struct host_launch_order *order,
                   uint64_t block, uint32_t traced, char failure[HOST_FAILURE_BYTES]);

/* enough stacks for `threads`; false without memory */
bool host_team_reserve(struct host_team *team, uint32_t threads);

#endif
