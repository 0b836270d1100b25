/* cmd_cache.h - actions of `attune cache` that have a file of their own. */
#ifndef CLI_CMD_CACHE_H
#define CLI_CMD_CACHE_H

#include "cli/cli.h"

attune_status cache_journals(struct cli *cli, struct store *store, struct error *error);
attune_status cache_report(struct cli *cli, struct store *store, struct error *error);

/* seconds since 1970 as "2026-01-31 23:59", UTC; "" when there is no such date */
void format_minute(int64_t seconds, char text[32]);

#endif
