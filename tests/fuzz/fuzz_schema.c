/* A user family's field list as JSON, then a newline and a problem's text of that family: what a record of a family
 * without C code brings along. */
#include "tests/fuzz/foreign_locale.h"
#include "tests/fuzz/problem_properties.h"

static void check_schema(const struct schema *schema, const char *problem_text)
{
    struct error error = {.message = ""};
    struct problem problem;
    HOLDS(schema->field_count >= 1 && schema->field_count <= SCHEMA_FIELDS_MAX, "%d fields", schema->field_count);
    attune_status status = problem_parse(schema, problem_text, &problem, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        fuzz_check_problem(&problem);
    }
    error = (struct error){.message = ""};
    problem_defaults(schema, &problem);
    status = problem_check(&problem, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        fuzz_check_problem(&problem);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_foreign_locale();
    char *text = fuzz_text(data, size);
    char *problem_text = strchr(text, '\n');
    if (problem_text != NULL) {
        *problem_text++ = '\0';
    }
    json_t *json = json_loads(text, 0, NULL);
    struct schema *schema = NULL;
    struct error error = {.message = ""};
    if (json != NULL) {
        attune_status status = schema_from_json(json, &schema, &error);
        fuzz_check_error(status, &error);
    }
    if (schema != NULL) {
        struct schema *second = NULL;
        json_t *written = schema_to_json(schema);
        HOLDS(written != NULL, "family %s is not written", schema->family);
        HOLDS(schema_from_json(written, &second, &error) == ATTUNE_OK, "family %s is not read back: %s", schema->family,
              error.message);
        json_t *again = schema_to_json(second);
        HOLDS(json_equal(written, again), "family %s becomes another", schema->family);
        check_schema(schema, problem_text != NULL ? problem_text : "");
        json_decref(written);
        json_decref(again);
        free(second);
        free(schema);
    }
    json_decref(json);
    free(text);
    return 0;
}
