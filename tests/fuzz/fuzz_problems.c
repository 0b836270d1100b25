/* Files of problems, one a line with a name, ranges and comments. A list that was read is written line by line and read
 * again. */
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

/* a range gives thousands, one like the other */
enum { CHECKED = 64, PROBLEMS_MAX = 4096 };

static void check_list(const struct problem_list *list)
{
    struct problem_list second;
    const int step = list->count / CHECKED + 1;
    struct buffer text = BUFFER_INIT;
    struct error error = {.message = ""};
    for (int i = 0; i < list->count; i += step) {
        const struct named_problem *item = &list->items[i];
        char line[PROBLEM_TEXT_BYTES];
        HOLDS(memchr(item->name, '\0', sizeof item->name) != NULL, "a name without end");
        fuzz_check_problem(&item->problem);
        problem_format(&item->problem, line, NULL);
        buffer_format(&text, "%s%s%s\n", item->name, item->name[0] != '\0' ? ": " : "", line);
    }
    HOLDS(problems_parse(program(), text.data, "again", &second, &error) == ATTUNE_OK, "not read back: %s",
          error.message);
    HOLDS(second.count == (list->count + step - 1) / step, "%d problems, each %d., become %d", list->count, step,
          second.count);
    for (int i = 0; i < second.count; i++) {
        const struct named_problem *first = &list->items[i * step], *again = &second.items[i];
        char one[PROBLEM_TEXT_BYTES], other[PROBLEM_TEXT_BYTES];
        problem_format(&first->problem, one, NULL);
        problem_format(&again->problem, other, NULL);
        HOLDS(strcmp(first->name, again->name) == 0, "'%s' becomes '%s'", first->name, again->name);
        HOLDS(strcmp(one, other) == 0, "'%s' becomes '%s'", one, other);
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
        HOLDS(list.count > 0 && list.count <= PROBLEMS_MAX, "a list of %d", list.count);
        check_list(&list);
        problem_list_free(&list);
    } else {
        HOLDS(strncmp(error.message, "'file'", 6) == 0, "no place: %s", error.message);
        HOLDS(list.items == NULL, "a refused list keeps memory");
    }
    free(text);
    return 0;
}
