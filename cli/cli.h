/* cli.h - the `attune` program: what its commands share.
 *
 * A command is a row of the table in main.c: name, options, help and a function. The function fills `result` (what
 * --json prints) and, without --json, prints tables to stdout; it returns a status, from which the exit code follows.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/error.h"
#include "base/problem.h"
#include "base/target.h"
#include "cache/store.h"
#include "cli/options.h"
#include "cli/ranges.h"
#include "generator/compiler.h"
#include "generator/generator.h"

#include <jansson.h>
#include <stdbool.h>

enum cli_exit { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_MISSING = 3, EXIT_WRONG = 4 };

struct cli {
    const struct command *command;
    struct options options;
    bool json;
    json_t *result;              /* "attune" and "command" are in it; the command adds the rest */
    struct generator *generator; /* made on first need by cli_generator */
};

struct command {
    const char *name;
    const char *usage;   /* after the name: "FAMILY [--problem P] [--target T]" */
    const char *summary; /* one line */
    const char *help;    /* what it does, with an example; ends in a newline */
    const struct option *options;
    int positional_minimum, positional_maximum; /* maximum -1: any number */
    attune_status (*run)(struct cli *cli, struct error *error);
};

extern const struct command command_devices, command_doctor, command_families, command_target, command_params,
    command_show, command_compile, command_tune, command_bench, command_verify, command_run, command_explain,
    command_cache;

enum cli_exit cli_exit_code(attune_status status);

/* Rows that many commands share, so that they read the same everywhere. */
#define CLI_OPTION_JSON                                                                                                \
    {                                                                                                                  \
        "json", 0, OPTION_FLAG, false, NULL, "print one JSON object instead of tables"                                 \
    }
#define CLI_OPTION_HELP                                                                                                \
    {                                                                                                                  \
        "help", 'h', OPTION_FLAG, false, NULL, "print this help"                                                       \
    }
#define CLI_OPTION_PROBLEM                                                                                             \
    {                                                                                                                  \
        "problem", 0, OPTION_TEXT, false, "TEXT", "a problem: \"attention.forward dtype=f16 batch=1 heads=32 ...\""    \
    }
#define CLI_OPTION_TARGET                                                                                              \
    {                                                                                                                  \
        "target", 0, OPTION_TEXT, false, "T", "what to make code for: gfx906, sm_90a, host, host-gfx906"               \
    }
#define CLI_OPTION_DEVICE                                                                                              \
    {                                                                                                                  \
        "device", 0, OPTION_TEXT, false, "D",                                                                          \
            "cuda:0, hip:1, host, sim:gfx906; the first GPU, else host, when left out"                                 \
    }
#define CLI_OPTION_STORE                                                                                               \
    {                                                                                                                  \
        "store", 0, OPTION_TEXT, false, "FOLDER", "the cache folder; $ATTUNE_CACHE or ~/.cache/attune when left out"   \
    }

/* ---- finding things named on the command line (resolve.c) ---- */

attune_status cli_generator(struct cli *cli, struct error *error);

/* text -> problem, by the family's schema; a text without family is attention.forward's */
attune_status cli_parse_problem(struct cli *cli, const char *text, struct problem *problem, struct error *error);
/* the value of --problem; refused when it was not given or stands for several */
attune_status cli_problem(struct cli *cli, struct problem *problem, struct error *error);
/* a target that there are facts for; else ATTUNE_INVALID with the nearest name */
attune_status cli_known_target(struct cli *cli, const char *text, struct target *target, struct error *error);
/* the same for the TARGET of a device "sim:TARGET"; ATTUNE_OK for every other device, and for none: NULL */
attune_status cli_known_device(struct cli *cli, const char *device, struct error *error);
/* the same for the value of --target, which may be missing: NULL */
attune_status cli_target(struct cli *cli, const char *text, struct target *target, struct error *error);

/* positionals from `first` on are name=value: joined by blanks, for candidate_parse; "" when there are none */
attune_status cli_parameters(struct cli *cli, int first, char text[CANDIDATE_TEXT_BYTES], struct error *error);
/* the candidate that `parameters` asks for ("" : the default), checked against problem and target */
attune_status cli_candidate(struct cli *cli, const char *parameters, const struct problem *problem,
                            const struct target *target, struct candidate *candidate, struct error *error);

/* problems with their names: --problem, or a file of one problem a line ("name: text", # comments). A text with ranges
 * (cli/ranges.h) is several problems, told apart by their names' endings: "name[seqlen_q=512]" */
enum { PROBLEM_NAME_BYTES = 64 + RANGE_SUFFIX_BYTES };
struct named_problem {
    char name[PROBLEM_NAME_BYTES]; /* "" when it has none */
    struct problem problem;
};
struct problem_list {
    struct named_problem *items; /* free() */
    int count;
};
/* `text` is cut up (NULL: nothing); `path` is for messages */
attune_status problems_parse(struct cli *cli, char *text, const char *path, struct problem_list *list,
                             struct error *error);
attune_status problems_read(struct cli *cli, const char *path, struct problem_list *list, struct error *error);
void problem_list_free(struct problem_list *list);
/* whichever of --problem and --problems is given; both or none are refused */
attune_status cli_problems(struct cli *cli, struct problem_list *list, struct error *error);

/* Appends a problem's text in the fewest words that mean the same: "dtype=f16 heads=8 seqlen_q=1024 head_dim=64". What
 * is no problem comes as it is. */
void problem_short(const char *text, struct buffer *into);

/* Failures of a command that goes on: one problem's trouble is no reason to leave the others undone. Zero it first. */
struct failures {
    int count;
    struct error first;
    char names[256]; /* of those that have one, with commas between, as far as there is room */
    int unnamed;     /* all others */
};
/* remembers the first, and where there are several problems says each at once, "attune COMMAND: NAME: message" */
void failures_add(struct failures *failures, const char *command, int total, const struct named_problem *item,
                  struct error *failure);
/* ATTUNE_OK without failures; a single problem's own message; else "2 of 6 WHAT: a, b; why is told above" with
 * the first one's status, but never ATTUNE_INVALID where some were done */
attune_status failures_status(const struct failures *failures, int total, const char *what, struct error *error);

/* the folder that results were kept in, "" when that was memory alone: a store falls back on its first failed write */
const char *cli_store_place(const struct store *store);
/* ATTUNE_IO, with what to do, for a store in files that could not take all it was given */
attune_status cli_store_took_all(const struct store *store, struct error *error);

/* NULL or "none", "address", "thread" */
attune_status cli_sanitize(const char *text, enum sanitize *sanitize, struct error *error);

/* ---- JSON (output.c) ---- */

/* json_object_set_new with text that may not be UTF-8: bytes that are not are replaced by '?' */
void json_set_text(json_t *object, const char *key, const char *text);
void json_set_whole(json_t *object, const char *key, int64_t value);
void json_set_real(json_t *object, const char *key, double value);
void json_set_flag(json_t *object, const char *key, bool value);
/* print result, with "error" when status is not ATTUNE_OK, as one object */
void cli_print_json(const struct cli *cli, attune_status status, const struct error *error, FILE *out);

/* "1.5 GiB", "12 B" */
void format_bytes(uint64_t bytes, char text[32]);
/* the word for `count` of something: 1 entry, 0 and 2 entries */
const char *plural(int64_t count, const char *one, const char *many);

struct store;
/* refusal of a command that reads a folder where the store is in memory only: says why it is */
attune_status cli_no_folder(const struct store *store, struct error *error);

#endif
