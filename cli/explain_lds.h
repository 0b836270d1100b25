/* explain_lds.h - `attune explain --lds`: the bank conflicts of one candidate's accesses to shared memory. */
#ifndef CLI_EXPLAIN_LDS_H
#define CLI_EXPLAIN_LDS_H

#include "cli/cli.h"

/* Chooses target and candidate from the options, counts, fills the result {"problem", "target", "candidate", "id",
 * "rule", "run", "blocks", "grid_blocks", "accesses": [...], "totals"} and prints it unless --json is given. */
attune_status explain_lds(struct cli *cli, const struct problem *problem, struct error *error);

#endif
