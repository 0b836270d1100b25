/* Files of problems, one a line with a name and comments. A list that was read is written line by line and read again.
 */
#include "cli/cli.h"
#include "tests/fuzz/problem_properties.h"

static struct cli *program(void)
{
    static struct cli kept;
    struct error error = {.message = ""};
    const struct generator_options options = {.template_path = ""};
    if (kept.generator == NULL) {
        HOLDS(generator_create(&options, &kept.generator, &error) == ATTUNE_OK, "%s", error.message);
    }
    return &kept;
}

static void check_list(const struct problem_list *list)
{
    struct problem_list second;
    struct buffer text = BUFFER_INIT;
    struct error error = {.message = ""};
    for (int i = 0; i < list->count; i++) {
        const struct named_problem *item = &list->items[i];
        char line[PROBLEM_TEXT_BYTES];
        HOLDS(memchr(item->name, '\0', sizeof item->name) != NULL, "a name without end");
        fuzz_check_problem(&item->problem);
        problem_format(&item->problem, line, NULL);
        buffer_format(&text, "%s%s%s\n", item->name, item->name[0] != '\0' ? ": " : "", line);
    }
    HOLDS(problems_parse(program(), text.data, "again", &second, &error) == ATTUNE_OK, "not read back: %s",
          error.message);
    HOLDS(second.count == list->count, "%d problems become %d", list->count, second.count);
    for (int i = 0; i < list->count; i++) {
        HOLDS(strcmp(list->items[i].name, second.items[i].name) == 0, "'%s' becomes '%s'", list->items[i].name,
              second.items[i].name);
    }
    problem_list_free(&second);
    buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct problem_list list;
    struct error error = {.message = ""};
    attune_status status = problems_parse(program(), text, "file", &list, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        HOLDS(list.count > 0, "an empty list");
        check_list(&list);
        problem_list_free(&list);
    } else {
        HOLDS(strncmp(error.message, "'file'", 6) == 0, "no place: %s", error.message);
        HOLDS(list.items == NULL, "a refused list keeps memory");
    }
    free(text);
    return 0;
}
