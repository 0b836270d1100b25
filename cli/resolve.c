/* resolve.c - from the command line's words to problems, targets and candidates. */
#include "cli/cli.h"

#include "base/control.h"
#include "base/files.h"
#include "runtime/simulator.h"

#include <stdlib.h>
#include <string.h>

enum { PROBLEMS_FILE_BYTES_MAX = 1 << 20, PROBLEMS_MAX = 4096 };
#define DEFAULT_FAMILY "attention.forward"

attune_status cli_generator(struct cli *cli, struct error *error)
{
    if (cli->generator != NULL) {
        return ATTUNE_OK;
    }
    return generator_create(NULL, &cli->generator, error);
}

/* the family of a text: its first word, unless that is already a field=value */
static attune_status family_of(const char *text, char family[FAMILY_NAME_BYTES], struct error *error)
{
    size_t blanks = strspn(text, " \t\r\n");
    size_t word = strcspn(text + blanks, " \t\r\n");
    if (word == 0 || memchr(text + blanks, '=', word) != NULL) {
        snprintf(family, FAMILY_NAME_BYTES, "%s", DEFAULT_FAMILY);
        return ATTUNE_OK;
    }
    return problem_family(text, family, error);
}

static attune_status refuse_family(struct cli *cli, const char *family, struct error *error)
{
    const char *names[65] = {NULL};
    for (int i = 0; i < generator_family_count(cli->generator) && i < 64; i++) {
        names[i] = generator_family_name(cli->generator, i);
    }
    const char *near = nearest_name(family, names);
    return error_set(error, ATTUNE_INVALID, "unknown family '%s'%s%s%s: `attune families` lists those there are",
                     family, near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
                     near != NULL ? "'?)" : "");
}

attune_status cli_parse_problem(struct cli *cli, const char *text, struct problem *problem, struct error *error)
{
    char family[FAMILY_NAME_BYTES];
    attune_status status = cli_generator(cli, error);
    if (status == ATTUNE_OK) {
        status = family_of(text, family, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    const struct schema *schema = generator_schema(cli->generator, family);
    if (schema == NULL) {
        return refuse_family(cli, family, error);
    }
    return problem_parse(schema, text, problem, error);
}

static attune_status problem_text(const struct cli *cli, const char **text, struct error *error)
{
    *text = options_text(&cli->options, "problem");
    return *text != NULL ? ATTUNE_OK
                         : error_set(error, ATTUNE_INVALID,
                                     "--problem is missing: --problem \"attention.forward dtype=f16 batch=1 heads=32 "
                                     "seqlen_q=2048 head_dim=128 causal=1\"");
}

attune_status cli_problem(struct cli *cli, struct problem *problem, struct error *error)
{
    const char *text;
    attune_status status = problem_text(cli, &text, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = ranges_refuse(text, error);
    if (status == ATTUNE_OK) {
        status = cli_parse_problem(cli, text, problem, error);
    }
    return status == ATTUNE_OK ? ATTUNE_OK : error_prefix(error, "--problem");
}

static const char *nearest_target(struct cli *cli, const char *text)
{
    const char *names[129] = {NULL};
    for (int i = 0; i < generator_target_count(cli->generator) && i < 128; i++) {
        names[i] = generator_target_name(cli->generator, i);
    }
    return nearest_name(text, names);
}

attune_status cli_known_target(struct cli *cli, const char *text, struct target *target, struct error *error)
{
    attune_status status = cli_generator(cli, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = target_parse(text, target, error);
    if (status == ATTUNE_OK) {
        json_t *facts = NULL;
        status = generator_target_facts(cli->generator, target, &facts, error);
        json_decref(facts);
    }
    if (status == ATTUNE_UNSUPPORTED ||
        status == ATTUNE_INVALID) { /* a wrong word on the command line, not a failure */
        const char *near = nearest_target(cli, text);
        error_set(error, status = ATTUNE_INVALID, "%s%s%s%s", error->message, near != NULL ? "; did you mean " : "",
                  near != NULL ? near : "", near != NULL ? "?" : "");
    }
    return status;
}

attune_status cli_known_device(struct cli *cli, const char *device, struct error *error)
{
    struct target target;
    if (!simulator_is_named(device) || device[3] != ':') {
        return ATTUNE_OK;
    }
    attune_status status = cli_known_target(cli, device + 4, &target, error);
    return status == ATTUNE_OK ? ATTUNE_OK : error_prefix(error, "--device %.100s", device);
}

attune_status cli_target(struct cli *cli, const char *text, struct target *target, struct error *error)
{
    if (text == NULL) {
        return error_set(error, ATTUNE_INVALID,
                         "--target is missing: --target gfx906, sm_90a or host (`attune target` lists the targets)");
    }
    attune_status status = cli_known_target(cli, text, target, error);
    return status == ATTUNE_OK ? ATTUNE_OK : error_prefix(error, "--target");
}

attune_status cli_parameters(struct cli *cli, int first, char text[CANDIDATE_TEXT_BYTES], struct error *error)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = first; i < cli->options.positional_count; i++) {
        const char *word = cli->options.positionals[i];
        if (strchr(word, '=') == NULL && i != first) {
            return error_set(error, ATTUNE_INVALID, "'%s' is no parameter: write name=value, such as block_q=64", word);
        }
        int length = snprintf(text + used, CANDIDATE_TEXT_BYTES - used, "%s%s", used > 0 ? " " : "", word);
        if (length < 0 || used + (size_t)length >= CANDIDATE_TEXT_BYTES) {
            return error_set(error, ATTUNE_INVALID, "the parameters are longer than %d bytes",
                             CANDIDATE_TEXT_BYTES - 1);
        }
        used += (size_t)length;
    }
    return ATTUNE_OK;
}

attune_status cli_candidate(struct cli *cli, const char *parameters, const struct problem *problem,
                            const struct target *target, struct candidate *candidate, struct error *error)
{
    if (parameters[0] == '\0') {
        return candidate_default(cli->generator, problem, target, candidate, error);
    }
    attune_status status = candidate_parse(cli->generator, parameters, problem, target, candidate, error);
    return status == ATTUNE_OK ? candidate_check(cli->generator, candidate, problem, target, error) : status;
}

/* "name: text" -> name; a colon inside a target or family never stands before a blank. What a range's problem is called
 * is a name too: its values, in brackets at the end, are the only place for an equal sign. */
static attune_status split_name(char *line, char name[PROBLEM_NAME_BYTES], const char **text, struct error *error)
{
    char *colon = strstr(line, ": ");
    name[0] = '\0';
    *text = line;
    if (colon == NULL) {
        return ATTUNE_OK;
    }
    size_t length = (size_t)(colon - line);
    const char *equal = memchr(line, '=', length);
    const bool of_range = length > 0 && colon[-1] == ']' && memchr(line, '[', length) != NULL;
    if (equal != NULL && !(of_range && memchr(line, '[', (size_t)(equal - line)) != NULL)) {
        return ATTUNE_OK;
    }
    for (size_t i = 0; i < length; i++) {
        if (control_length(line + i) > 0) {
            return error_set(error, ATTUNE_INVALID, "the name before the colon holds a control character");
        }
    }
    const size_t most = of_range ? PROBLEM_NAME_BYTES - 1 : 63;
    if (length > most) {
        return error_set(error, ATTUNE_INVALID, "the name \"%.40s...\" has %zu bytes: at most %zu are kept", line,
                         length, most);
    }
    memcpy(name, line, length);
    name[length] = '\0';
    *text = colon + 2;
    return ATTUNE_OK;
}

struct adding {
    struct cli *cli;
    struct problem_list *list;
    const char *name; /* of the line */
};

static attune_status add_problem(void *data, const char *text, const char *suffix, struct error *error)
{
    struct adding *adding = data;
    struct problem_list *list = adding->list;
    if ((list->count & (list->count + 1)) == 0) { /* room for twice as many, and one */
        struct named_problem *items = realloc(list->items, (2 * (size_t)list->count + 1) * sizeof *items);
        if (items == NULL) {
            return error_no_memory(error);
        }
        list->items = items;
    }
    struct named_problem *item = &list->items[list->count];
    int length = snprintf(item->name, sizeof item->name, "%s%s", adding->name, suffix);
    if (length >= (int)sizeof item->name) {
        return error_set(error, ATTUNE_INVALID, "the name \"%.40s...%s\" has %d bytes: at most %zu are kept",
                         adding->name, suffix, length, sizeof item->name - 1);
    }
    attune_status status = cli_parse_problem(adding->cli, text, &item->problem, error);
    list->count += status == ATTUNE_OK;
    return status == ATTUNE_OK || suffix[0] == '\0' ? status : error_prefix(error, "%s", suffix);
}

static attune_status add_text(struct cli *cli, const char *name, const char *text, struct problem_list *list,
                              struct error *error)
{
    struct adding adding = {.cli = cli, .list = list, .name = name};
    return list->count < PROBLEMS_MAX ? ranges_visit(text, PROBLEMS_MAX - list->count, add_problem, &adding, error)
                                      : error_set(error, ATTUNE_INVALID, "more than %d problems", PROBLEMS_MAX);
}

static attune_status add_line(struct cli *cli, char *line, struct problem_list *list, struct error *error)
{
    char name[PROBLEM_NAME_BYTES];
    const char *text;
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, " \t\r"); /* a carriage return is a blank, wherever it stands: nothing behind it is lost */
    if (*line == '\0') {
        return ATTUNE_OK;
    }
    attune_status status = split_name(line, name, &text, error);
    return status == ATTUNE_OK ? add_text(cli, name, text, list, error) : status;
}

attune_status problems_parse(struct cli *cli, char *text, const char *path, struct problem_list *list,
                             struct error *error)
{
    attune_status status = ATTUNE_OK;
    int number = 0;
    *list = (struct problem_list){0};
    for (char *line; status == ATTUNE_OK && (line = strsep(&text, "\n")) != NULL;) {
        number++;
        status = add_line(cli, line, list, error);
        if (status != ATTUNE_OK) {
            error_prefix(error, "'%s' line %d", path, number);
        }
    }
    if (status == ATTUNE_OK && list->count == 0) {
        status = error_set(error, ATTUNE_INVALID, "'%s' holds no problem: write one a line", path);
    }
    if (status != ATTUNE_OK) {
        problem_list_free(list);
    }
    return status;
}

attune_status problems_read(struct cli *cli, const char *path, struct problem_list *list, struct error *error)
{
    struct buffer file = BUFFER_INIT;
    *list = (struct problem_list){0};
    attune_status status = file_read_text(path, PROBLEMS_FILE_BYTES_MAX, &file, error);
    if (status == ATTUNE_OK) {
        status = problems_parse(cli, file.data, path, list, error);
    }
    buffer_free(&file);
    return status;
}

attune_status cli_problems(struct cli *cli, struct problem_list *list, struct error *error)
{
    const char *path = options_text(&cli->options, "problems");
    *list = (struct problem_list){0};
    if (path != NULL && options_has(&cli->options, "problem")) {
        return error_set(error, ATTUNE_INVALID, "--problem and --problems are both given: give one of them");
    }
    if (path != NULL) {
        attune_status status = problems_read(cli, path, list, error);
        return status == ATTUNE_OK ? ATTUNE_OK : error_prefix(error, "--problems");
    }
    const char *text;
    attune_status status = problem_text(cli, &text, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = add_text(cli, "", text, list, error);
    if (status != ATTUNE_OK) {
        problem_list_free(list);
        return error_prefix(error, "--problem");
    }
    return ATTUNE_OK;
}

void problem_list_free(struct problem_list *list)
{
    free(list->items);
    *list = (struct problem_list){0};
}

const char *cli_store_place(const struct store *store)
{
    const char *path = store_path(store);
    return path[0] != '\0' && !store_is_volatile(store) ? path : "";
}

attune_status cli_store_took_all(const struct store *store, struct error *error)
{
    return cli_store_place(store)[0] != '\0'
               ? ATTUNE_OK
               : error_set(
                     error, ATTUNE_IO,
                     "the store '%s' did not take every object: make room, or see that it can be written, and run "
                     "this again",
                     store_path(store));
}

attune_status cli_sanitize(const char *text, enum sanitize *sanitize, struct error *error)
{
    static const char *const names[] = {
        [SANITIZE_NONE] = "none", [SANITIZE_ADDRESS] = "address", [SANITIZE_THREAD] = "thread"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(text != NULL ? text : "none", names[i]) == 0) {
            *sanitize = (enum sanitize)i;
            return ATTUNE_OK;
        }
    }
    return error_set(error, ATTUNE_INVALID, "--sanitize '%s' is not known: none, address or thread", text);
}

void failures_add(struct failures *failures, const char *command, int total, const struct named_problem *item,
                  struct error *failure)
{
    if (item->name[0] != '\0') {
        error_prefix(failure, "%s", item->name);
    }
    if (failures->count++ == 0) {
        failures->first = *failure;
    }
    const size_t used = strlen(failures->names), left = sizeof failures->names - used;
    if (item->name[0] == '\0' || strlen(item->name) + 3 > left) {
        failures->unnamed++;
    } else {
        snprintf(failures->names + used, left, "%s%s", used > 0 ? ", " : "", item->name);
    }
    if (total > 1) {
        fprintf(stderr, "attune %s: %s\n", command, failure->message);
    }
}

attune_status failures_status(const struct failures *failures, int total, const char *what, struct error *error)
{
    const struct error *first = &failures->first;
    if (failures->count == 0) {
        return ATTUNE_OK;
    }
    if (total == 1) {
        return error_set(error, first->status, "%s", first->message);
    }
    /* usage means that nothing was done */
    const bool some_done = failures->count < total && first->status == ATTUNE_INVALID;
    char others[32] = "";
    if (failures->unnamed > 0 && failures->names[0] != '\0') {
        snprintf(others, sizeof others, " and %d more", failures->unnamed);
    }
    return error_set(error, some_done ? ATTUNE_UNSUPPORTED : first->status, "%d of %d %s%s%s%s; why is told above",
                     failures->count, total, what, failures->names[0] != '\0' ? ": " : "", failures->names, others);
}
