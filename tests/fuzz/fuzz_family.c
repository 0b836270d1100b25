/* A family's Lua file, then a line `%%%%` and its template: loaded as a folder of ATTUNE_TEMPLATE_PATH holds it, then
 * used for all that a family is for, with small limits. Whatever the texts, each call ends with an answer or a refusal,
 * and what was accepted gives the same bytes twice. */
#include "base/files.h"
#include "generator/generator.h"
#include "tests/fuzz/problem_properties.h"

#include <fcntl.h>
#include <unistd.h>

enum { INSTRUCTIONS = 50000, MEMORY = 2 << 20, ELEMENTS_MAX = 256, POINTS_MAX = 256, TENSORS = 32 };

/* files of the same names keep the embedded families out: they are not what is tried here, and loading them takes
 * longer
 */
static const char *const embedded[] = {"attention_compare.lua", "attention_forward.lua", "attention_judge.lua",
                                       "attention_reference.lua"};

static char folder[4096];

static void remove_folder(void)
{
    folder_remove(folder);
}

static void put(const char *name, const char *text, size_t length)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    HOLDS(file >= 0 && write(file, text, length) == (ssize_t)length, "%s cannot be written", path);
    close(file);
}

static void open_folder(void)
{
    static const char library[] = "return {add = function(a, b) return a + b end, list = {1, 2, 3}, name = nil}";
    struct error error;
    HOLDS(folder_temporary(folder, sizeof folder, &error) == ATTUNE_OK, "%s", error.message);
    atexit(remove_folder);
    for (size_t i = 0; i < sizeof embedded / sizeof embedded[0]; i++) {
        put(embedded[i], "return {}", 9);
    }
    put("lib.lua", library, sizeof library - 1);
}

/* a problem of the schema with every required field at its least, or the first choice */
static bool least_problem(const struct schema *schema, struct problem *problem)
{
    struct error error = {.message = ""};
    problem_defaults(schema, problem);
    for (int i = 0; i < schema->field_count; i++) {
        if (schema->fields[i].required && schema->fields[i].kind == FIELD_REAL) {
            problem->values[i].real = schema->fields[i].real_minimum;
        } else if (schema->fields[i].required) {
            problem->values[i].integer = schema->fields[i].kind == FIELD_CHOICE ? 0
                                         : schema->fields[i].minimum > 4        ? schema->fields[i].minimum
                                                                                : 4;
        }
    }
    attune_status status = problem_check(problem, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        fuzz_check_problem(problem);
    }
    return status == ATTUNE_OK;
}

static void check_candidate(struct generator *generator, const struct candidate *candidate,
                            const struct problem *problem, const struct target *target)
{
    char text[CANDIDATE_TEXT_BYTES], again[CANDIDATE_TEXT_BYTES];
    struct candidate second;
    struct error error = {.message = ""};
    struct expansion expansions[2] = {0};
    candidate_format(candidate, text);
    attune_status status = candidate_parse(generator, text, problem, target, &second, &error);
    HOLDS(status == ATTUNE_OK, "'%s' is not read back: %s", text, error.message);
    candidate_format(&second, again);
    HOLDS(strcmp(text, again) == 0, "'%s' becomes '%s'", text, again);
    for (int i = 0; i < 2 && status == ATTUNE_OK; i++) {
        status = candidate_expand(generator, candidate, problem, target, &expansions[i], &error);
        fuzz_check_error(status, &error);
    }
    if (status == ATTUNE_OK) {
        HOLDS(expansions[0].shown.length > 0 && expansions[0].compile.length > 0, "an empty expansion");
        HOLDS(memcmp(&expansions[0].template_digest, &expansions[1].template_digest, DIGEST_BYTES) == 0, "two digests");
        HOLDS(expansions[0].launch.threads >= 1 && expansions[0].launch.threads <= 1024, "%u threads",
              expansions[0].launch.threads);
    }
    expansion_free(&expansions[0]);
    expansion_free(&expansions[1]);
}

/* every value of every parameter is alive or dead with its reason; none gets lost on the way into JSON */
static void check_report(struct generator *generator, const struct problem *problem, const struct target *target)
{
    struct error error = {.message = ""};
    json_t *params = NULL, *of, *parameter;
    size_t at, i;
    attune_status status = generator_params(generator, problem->schema->family, problem, target, &params, &error);
    fuzz_check_error(status, &error);
    json_array_foreach(json_object_get(params, "templates"), at, of)
    {
        json_array_foreach(json_object_get(of, "parameters"), i, parameter)
        {
            HOLDS(!json_is_true(json_object_get(of, "supported")) ||
                      json_array_size(json_object_get(parameter, "live")) +
                              json_array_size(json_object_get(parameter, "dead")) ==
                          json_array_size(json_object_get(parameter, "domain")),
                  "a value is neither alive nor dead");
        }
    }
    json_decref(params);
}

static void check_space(struct generator *generator, const struct problem *problem, const struct target *target)
{
    struct candidate candidate;
    struct candidate_list list = {0};
    struct error error = {.message = ""};
    json_t *params = NULL;
    uint64_t points = 1;
    attune_status status = candidate_default(generator, problem, target, &candidate, &error);
    fuzz_check_error(status, &error);
    if (status != ATTUNE_OK) {
        return;
    }
    check_candidate(generator, &candidate, problem, target);
    status = generator_params(generator, problem->schema->family, NULL, NULL, &params, &error);
    fuzz_check_error(status, &error);
    HOLDS(status == ATTUNE_OK, "the parameters of a family that was read are not told: %s", error.message);
    size_t at, parameter;
    json_t *of, *value;
    json_array_foreach(json_object_get(params, "templates"), at, of)
    {
        json_array_foreach(json_object_get(of, "parameters"), parameter, value)
        {
            size_t count = json_array_size(json_object_get(value, "domain"));
            points = points > POINTS_MAX ? points : points * (count > 0 ? count : 1);
        }
    }
    json_decref(params);
    if (points > POINTS_MAX) { /* a walk of a large space is bounded in points, not in seconds */
        return;
    }
    check_report(generator, problem, target);
    status = candidate_cover(generator, problem, target, 3, 7, &list, &error);
    fuzz_check_error(status, &error);
    for (int i = 0; i < list.count && status == ATTUNE_OK; i++) {
        check_candidate(generator, &list.items[i], problem, target);
    }
    candidate_list_free(&list);
}

static void check_tensors(struct generator *generator, const struct problem *problem)
{
    struct tensor_spec specs[TENSORS];
    double *tensors[TENSORS] = {NULL}, *tolerance[TENSORS] = {NULL};
    int count = 0;
    struct error error = {.message = ""};
    attune_status status = generator_tensors(generator, problem, specs, TENSORS, &count, &error);
    fuzz_check_error(status, &error);
    HOLDS(count <= TENSORS, "%d tensors", count);
    bool small = true;
    for (int i = 0; i < count; i++) {
        HOLDS(specs[i].elements >= 0 && specs[i].name[0] != '\0', "tensor %d", i);
        small = small && specs[i].elements <= ELEMENTS_MAX;
    }
    for (int i = 0; i < count && small; i++) {
        tensors[i] = calloc((size_t)specs[i].elements + 1, sizeof(double));
        tolerance[i] = calloc((size_t)specs[i].elements + 1, sizeof(double));
        if (status == ATTUNE_OK && !specs[i].output) {
            status = generator_inputs(generator, problem, i, i % 3, 5, tensors[i], &error);
            fuzz_check_error(status, &error);
        }
    }
    if (status == ATTUNE_OK && count > 0 && small) {
        fuzz_check_error(generator_reference(generator, problem, tensors, tolerance, &error), &error);
    }
    for (int i = 0; i < count; i++) {
        free(tensors[i]);
        free(tolerance[i]);
    }
    double operations = generator_operations(generator, problem);
    HOLDS(operations - operations == 0, "operations are not finite");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char mark[] = "\n%%%%\n";
    static const char *const targets[] = {"host", "gfx906"};
    struct generator_options options = {
        .template_path = folder, .instruction_limit = INSTRUCTIONS, .memory_limit = MEMORY};
    struct generator *generator = NULL;
    struct error error = {.message = ""};
    if (folder[0] == '\0') {
        open_folder();
    }
    const uint8_t *split = memmem(data, size, mark, sizeof mark - 1);
    size_t lua = split != NULL ? (size_t)(split - data) : size;
    size_t rest = split != NULL ? lua + sizeof mark - 1 : size;
    put("fuzz.lua", (const char *)data, lua);
    put("fuzz.hip", (const char *)data + rest, size - rest);
    attune_status status = generator_create(&options, &generator, &error);
    fuzz_check_error(status, &error);
    HOLDS(status != ATTUNE_INVALID || strstr(error.message, "templates/fuzz.lua") != NULL ||
              strstr(error.message, "import") != NULL,
          "a refusal that does not name the file: %s", error.message);
    for (int i = 0; status == ATTUNE_OK && i < generator_family_count(generator); i++) {
        const struct schema *schema = generator_schema(generator, generator_family_name(generator, i));
        struct problem problem;
        struct target target;
        if (schema == NULL || schema->built_in || !least_problem(schema, &problem)) {
            continue;
        }
        check_tensors(generator, &problem);
        for (size_t j = 0; j < sizeof targets / sizeof targets[0]; j++) {
            target_parse(targets[j], &target, NULL);
            check_space(generator, &problem, &target);
        }
    }
    generator_destroy(generator);
    return 0;
}
