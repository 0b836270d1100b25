/* Problem texts of attention.forward. */
#include "tests/fuzz/foreign_locale.h"
#include "tests/fuzz/problem_properties.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_foreign_locale();
    char *text = fuzz_text(data, size);
    char family[FAMILY_NAME_BYTES];
    struct problem problem;
    struct error error = {.message = ""};
    attune_status status = problem_family(text, family, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        HOLDS(strlen(family) > 0 && strpbrk(family, "= \t\r\n") == NULL, "family '%s'", family);
    }
    error = (struct error){.message = ""};
    status = problem_parse(schema_attention_forward(), text, &problem, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        fuzz_check_problem(&problem);
    }
    free(text);
    return 0;
}
