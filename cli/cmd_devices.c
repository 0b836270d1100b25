/* cmd_devices.c - `attune devices`: the devices present, and per driver why there are none. */
#include "cli/cli.h"
#include "cli/devices.h"
#include "cli/table.h"

static const struct option options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, {0}};

static attune_status run(struct cli *cli, struct error *error)
{
    (void)error;
    json_t *drivers = survey_drivers();
    json_object_set_new(cli->result, "drivers", drivers);
    if (!cli->json) {
        print_drivers(drivers);
    }
    return ATTUNE_OK;
}

const struct command command_devices = {
    .name = "devices",
    .usage = "",
    .summary = "the devices present",
    .help = "Lists the devices of every driver, and for a driver without devices the reason.\n",
    .options = options,
    .run = run,
};
