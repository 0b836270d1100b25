/* main.c - the `attune` program: a table of commands and the road from words to exit code. */
#include "base/thread.h"
#include "cli/cli.h"
#include "runtime/attune.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const struct command *const commands[] = {
    &command_devices, &command_doctor,  &command_families, &command_target, &command_params,
    &command_show,    &command_compile, &command_tune,     &command_bench,  &command_verify,
    &command_run,     &command_explain, &command_cache,
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

enum cli_exit cli_exit_code(attune_status status)
{
    switch (status) {
    case ATTUNE_OK:
        return EXIT_DONE;
    case ATTUNE_INVALID:
        return EXIT_USAGE;
    case ATTUNE_NO_DEVICE:
    case ATTUNE_NO_TOOLCHAIN:
        return EXIT_MISSING;
    case ATTUNE_WRONG:
        return EXIT_WRONG;
    default:
        return EXIT_FAILED;
    }
}

static void print_usage(FILE *out)
{
    fputs("attune - attention kernels, tuned to the GPU they run on\n\nusage: attune COMMAND [options]\n\n", out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\n`attune COMMAND --help` tells a command's options; `attune --version` the version.\n"
          "Exit codes: 0 success, 1 failed, 2 usage, 3 device or toolchain missing, 4 wrong numbers.\n",
          out);
}

static void print_help(const struct command *command)
{
    printf("usage: attune %s%s%s\n\n%s\n", command->name, command->usage[0] != '\0' ? " " : "", command->usage,
           command->help);
    options_help(command->options, stdout);
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static int refuse_command(const char *name)
{
    const char *names[COMMAND_COUNT + 1];
    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i]->name;
    }
    names[COMMAND_COUNT] = NULL;
    const char *near = nearest_name(name, names);
    fprintf(stderr, "attune: unknown command '%s'", name);
    fprintf(stderr, near != NULL ? ": did you mean `attune %s`?\n" : ": `attune --help` lists the commands\n", near);
    return EXIT_USAGE;
}

static attune_status check_positionals(const struct cli *cli, struct error *error)
{
    const struct command *command = cli->command;
    int count = cli->options.positional_count;
    if (count < command->positional_minimum) {
        return error_set(error, ATTUNE_INVALID, "an argument is missing: attune %s %s", command->name, command->usage);
    }
    if (command->positional_maximum >= 0 && count > command->positional_maximum) {
        return error_set(error, ATTUNE_INVALID, "'%s' is one argument too many: attune %s %s",
                         cli->options.positionals[command->positional_maximum], command->name, command->usage);
    }
    return ATTUNE_OK;
}

/* does the command line ask for JSON, when it is too wrong to be parsed? */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            return true;
        }
    }
    return false;
}

/* all of it, also what was written long before the end */
static bool stdout_written(void)
{
    return fflush(stdout) == 0 && !ferror(stdout);
}

static int answered(void)
{
    if (!stdout_written()) {
        fputs("attune: standard output cannot be written\n", stderr);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

/* A file opened while a standard stream is closed would get its number, and what is printed with it. Closed ones become
 * /dev/null, opened so that printing is still an error. */
static void open_standard_streams(void)
{
    int file;
    do {
        file = open("/dev/null", O_RDONLY);
    } while (file >= 0 && file <= 2);
    if (file > 2) {
        close(file);
    }
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct cli cli = {.command = command, .result = json_object()};
    struct error error = {0};
    json_set_whole(cli.result, "attune", 1);
    json_set_text(cli.result, "command", command->name);
    cli.json = asks_for_json(argc, argv);
    attune_status status = options_parse(&cli.options, command->options, argc, argv, &error);
    if (status == ATTUNE_OK && options_has(&cli.options, "help")) {
        print_help(command);
        goto out;
    }
    if (status == ATTUNE_OK) {
        cli.json = options_has(&cli.options, "json");
        status = check_positionals(&cli, &error);
    }
    if (status == ATTUNE_OK) {
        status = command->run(&cli, &error);
    }
    if (cli.json) {
        cli_print_json(&cli, status, &error, stdout);
    }
    if (status != ATTUNE_OK) {
        fflush(stdout);
        fprintf(stderr, "attune %s: %s\n", command->name, error.message);
    }
out:
    if (!stdout_written() && status == ATTUNE_OK) {
        fprintf(stderr, "attune %s: standard output cannot be written\n", command->name);
        status = ATTUNE_IO;
    }
    generator_destroy(cli.generator);
    options_free(&cli.options);
    json_decref(cli.result);
    return cli_exit_code(status);
}

int main(int argc, char **argv)
{
    thread_usual_stack();
    open_standard_streams();
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        const struct command *command = argc > 2 ? find_command(argv[2]) : NULL;
        if (command != NULL) {
            print_help(command);
        } else {
            print_usage(stdout);
        }
        return answered();
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("attune %s\n", attune_version());
        return answered();
    }
    const struct command *command = find_command(argv[1]);
    return command != NULL ? run_command(command, argc - 2, argv + 2) : refuse_command(argv[1]);
}
