/* Families: what is read from Lua, which files count, what wrong ones are told, and a user family's own functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support.h"

#include <math.h>
#include <stdlib.h>

#define FIELDS "fields = {{ name = 'n', kind = 'integer', role = 'size', required = true, min = 0, max = 9 }}, "
#define LAUNCH "launch = function() return {} end"
#define TEMPLATE "name = 'a', file = 'a.hip', default = function() return {} end, " LAUNCH

static void assert_family_refused(const char *lua, const char *part)
{
    struct error error;
    attune_status status = run_lua(lua, &error);
    if (status != ATTUNE_INVALID) {
        fail_msg("%s: status %d: %s", lua, (int)status, error.message);
    }
    assert_contains(error.message, "templates/probe.lua");
    assert_contains(error.message, part);
}

static void wrong_families_are_told_what_is_wrong(void **state)
{
    (void)state;
    assert_family_refused("return 7", "must return the family's table, it returns a number");
    assert_family_refused("return", "returns a nil value");
    assert_family_refused("local x = ", "templates/probe.lua:1: unexpected symbol near <eof>");
    assert_family_refused("return { name = 'x y' }", "name = 'x y' may hold letters, digits");
    assert_family_refused("return { templates = {} }", "name must be a text, it is a nil value");
    assert_family_refused("return { name = 'x' }", "must say its problem's fields");
    assert_family_refused("return { name = 'attention.forward', fields = {} }", "are built in");
    assert_family_refused("return { name = 'x', fields = {{ name = 'n' }} }", "kind must be integer, real or choice");
    assert_family_refused("return { name = 'x', fields = {{ name = error }} }",
                          "fields must be a list of plain values");
    assert_family_refused("return { name = 'x', " FIELDS "}", "templates must be a list");
    assert_family_refused("return { name = 'x', " FIELDS "templates = {} }", "templates must have 1 to 16 entries");
    assert_family_refused("return { name = 'x', " FIELDS "reference = 3, templates = {} }",
                          "reference must be a function");
    assert_family_refused("return { name = 'x', " FIELDS "templates = {{ name = 'a' }} }",
                          "template a: file must be a text");
    assert_family_refused("return { name = 'x', " FIELDS "templates = {{ name = 'a', file = '../a' }} }",
                          "file = '../a' must be a name relative to templates/");
    assert_family_refused("return { name = 'x', " FIELDS "templates = {{ name = 'a', file = 'a.hip' }} }",
                          "template a: default must be a function");
    assert_family_refused("return { name = 'x', " FIELDS "templates = {{ " TEMPLATE " }, { " TEMPLATE " }} }",
                          "two templates are named a");
    assert_family_refused("return { name = 'x', " FIELDS "templates = {{ " TEMPLATE
                          ", parameters = {{ name = 'k' }} }} }",
                          "template a, parameter k: doc must be a text");
    assert_family_refused("return { name = 'x', " FIELDS "templates = {{ " TEMPLATE
                          ", parameters = {{ name = 'k', doc = 'd', values = { 1, 0.5 } }} }} }",
                          "template a, parameter k: the value 0.5 is neither an integer nor a text");
    assert_family_refused("return { name = 'x', " FIELDS "templates = {{ " TEMPLATE
                          ", parameters = {{ name = 'k', doc = 'd', values = { 1, '1' } }} }} }",
                          "the value 1 occurs twice");
    assert_family_refused("return { name = 'x', " FIELDS "templates = {{ " TEMPLATE
                          ", constraints = {{ doc = 'd' }} }} }",
                          "template a, constraint 1: check must be a function");
    assert_family_refused("local t = {} t.t = t\nreturn { name = 'x', fields = t }",
                          "fields must be a list of plain values");
}

static void a_template_path_adds_and_overrides(void **state)
{
    (void)state;
    char first[4096], second[4096], path[9000];
    struct error error = {.message = ""};
    assert_int_equal(folder_temporary(first, sizeof first, &error), ATTUNE_OK);
    assert_int_equal(folder_temporary(second, sizeof second, &error), ATTUNE_OK);
    put_file(first, "one.lua", "return { name = 'probe', doc = 'first', " FIELDS "templates = {{ " TEMPLATE " }} }");
    put_file(second, "two.lua", "return { name = 'probe', doc = 'second', " FIELDS "templates = {{ " TEMPLATE " }} }");
    put_file(second, "helper.lua", "return { helps = true }");
    put_file(second, "ours.lua", "return { name = 'attention.forward', doc = 'ours', templates = {{ " TEMPLATE " }} }");
    snprintf(path, sizeof path, "%s::%s", first, second);
    struct generator *generator = open_generator(path);
    struct generator *plain = open_generator("");
    int found = 0;
    for (int i = 0; i < generator_family_count(generator); i++) {
        const char *name = generator_family_name(generator, i), *doc = generator_family_doc(generator, i);
        found += strcmp(name, "probe") == 0 && strcmp(doc, "first") == 0;
        found += strcmp(name, "attention.forward") == 0 && strcmp(doc, "ours") == 0;
    }
    assert_int_equal(found, 2);
    assert_int_equal(generator_family_count(generator), generator_family_count(plain) + 1);
    assert_ptr_equal(generator_schema(generator, "attention.forward"), schema_attention_forward());
    assert_null(generator_schema(plain, "probe"));
    assert_null(generator_family_name(generator, generator_family_count(generator)));
    generator_destroy(generator);
    generator_destroy(plain);
    folder_remove(first);
    folder_remove(second);
}

static void a_bad_template_path_is_named(void **state)
{
    (void)state;
    struct generator_options options = {.template_path = TOY_FOLDER ":/nowhere at all"};
    struct generator *generator = NULL;
    struct error error = {.message = ""};
    assert_int_equal(generator_create(&options, &generator, &error), ATTUNE_NOT_FOUND);
    assert_contains(error.message, "ATTUNE_TEMPLATE_PATH: folder '/nowhere at all'");
    options.template_path = TOY_FOLDER "/toy.lua";
    assert_int_equal(generator_create(&options, &generator, &error), ATTUNE_INVALID);
    assert_contains(error.message, "is not a folder");
    setenv("ATTUNE_TEMPLATE_PATH", "/nowhere either", 1);
    assert_int_equal(generator_create(NULL, &generator, &error), ATTUNE_NOT_FOUND);
    assert_contains(error.message, "folder '/nowhere either'");
    setenv("ATTUNE_TEMPLATE_PATH", TOY_FOLDER, 1);
    assert_int_equal(generator_create(NULL, &generator, &error), ATTUNE_OK);
    assert_non_null(generator_schema(generator, "toy.scale"));
    generator_destroy(generator);
    unsetenv("ATTUNE_TEMPLATE_PATH");
}

static void a_failing_import_or_template_file_names_the_family(void **state)
{
    (void)state;
    char folder[4096];
    struct error error = {.message = ""};
    struct generator_options options = {.template_path = folder};
    struct generator *generator = NULL;
    struct problem problem;
    struct target target;
    struct candidate candidate;
    struct expansion expansion = {.shown = BUFFER_INIT, .compile = BUFFER_INIT};
    assert_int_equal(folder_temporary(folder, sizeof folder, &error), ATTUNE_OK);
    put_file(folder, "probe.lua", "local a = import('ring')\nreturn {}");
    put_file(folder, "ring.lua", "return import('ring')");
    assert_int_equal(generator_create(&options, &generator, &error), ATTUNE_INVALID);
    assert_contains(error.message, "templates/ring.lua imports itself");
    put_file(folder, "ring.lua", "return { a = 1, b = { 2 } }");
    put_file(folder, "probe.lua", "local a = import('ring')\na.b[1] = 3");
    assert_int_equal(generator_create(&options, &generator, &error), ATTUNE_INVALID);
    assert_contains(error.message, "templates/probe.lua:2: this table is read-only");
    put_file(folder, "probe.lua", "return { name = 'probe', " FIELDS "templates = {{ " TEMPLATE " }} }");
    assert_int_equal(generator_create(&options, &generator, &error), ATTUNE_OK);
    toy_setup(generator, "probe n=3", "host", &problem, &target);
    assert_int_equal(candidate_default(generator, &problem, &target, &candidate, &error), ATTUNE_OK);
    assert_int_equal(candidate_expand(generator, &candidate, &problem, &target, &expansion, &error), ATTUNE_NOT_FOUND);
    assert_contains(error.message, "family probe, template a: templates/a.hip is not there");
    put_file(folder, "a.hip", "x\n");
    assert_int_equal(candidate_expand(generator, &candidate, &problem, &target, &expansion, &error), ATTUNE_INVALID);
    assert_contains(error.message, "templates/probe.lua: template a: launch(): ");
    expansion_free(&expansion);
    generator_destroy(generator);
    folder_remove(folder);
}

static void unknown_families_and_targets_are_answered_with_lists(void **state)
{
    (void)state;
    struct generator *generator = open_generator(TOY_FOLDER);
    struct target target;
    struct error error = {.message = ""};
    json_t *json = NULL;
    assert_int_equal(generator_params(generator, "attention", NULL, NULL, &json, &error), ATTUNE_NOT_FOUND);
    assert_contains(error.message, "there is no family 'attention'; families are: ");
    assert_contains(error.message, "toy.scale");
    assert_int_equal(target_parse("gfx803", &target, &error), ATTUNE_OK);
    assert_int_equal(generator_target_facts(generator, &target, &json, &error), ATTUNE_UNSUPPORTED);
    assert_contains(error.message, "'gfx803' has no facts; known are gfx900, gfx906");
    assert_null(json);
    generator_destroy(generator);
}

static void facts_come_with_every_listed_target(void **state)
{
    (void)state;
    struct generator *generator = open_generator("");
    struct error error = {.message = ""};
    assert_true(generator_target_count(generator) > 10);
    for (int i = 0; i < generator_target_count(generator); i++) {
        for (int emulated = 0; emulated < 2; emulated++) {
            char name[TARGET_TEXT_BYTES + 8];
            struct target target;
            json_t *json = NULL;
            const char *plain = generator_target_name(generator, i);
            if (emulated && strcmp(plain, "host") == 0) {
                continue;
            }
            snprintf(name, sizeof name, "%s%s", emulated ? "host-" : "", plain);
            assert_int_equal(target_parse(name, &target, &error), ATTUNE_OK);
            assert_int_equal(generator_target_facts(generator, &target, &json, &error), ATTUNE_OK);
            int64_t wave = json_integer_value(json_object_get(json, "wave"));
            assert_true(wave == 32 || wave == 64);
            assert_string_equal(json_string_value(json_object_get(json, "name")), name);
            if (emulated) {
                assert_string_equal(json_string_value(json_object_get(json, "emulates")), plain);
                assert_string_equal(json_string_value(json_object_get(json, "vocabulary")), "host");
            }
            json_decref(json);
        }
    }
    assert_null(generator_target_name(generator, -1));
    generator_destroy(generator);
}

static void lua_references_inputs_and_counts_are_called(void **state)
{
    (void)state;
    struct generator *generator = open_generator(TOY_FOLDER);
    struct problem problem;
    struct target target;
    struct tensor_spec specs[4];
    struct error error = {.message = ""};
    int count = 0;
    double x[1000], again[1000], y[1000], tolerance[1000];
    toy_setup(generator, "toy.scale count=1000 factor=-2", "host", &problem, &target);
    assert_true(generator_has_reference(generator, "toy.scale"));
    assert_false(generator_has_reference(generator, "attention.forward"));
    assert_int_equal(generator_tensors(generator, &problem, specs, 4, &count, &error), ATTUNE_OK);
    assert_int_equal(count, 2);
    assert_string_equal(specs[0].name, "x");
    assert_string_equal(specs[1].dtype, "f32");
    assert_true(specs[1].output && !specs[0].output);
    assert_int_equal(specs[0].elements, 1000);
    assert_int_equal(generator_tensors(generator, &problem, specs, 1, &count, &error), ATTUNE_INVALID);
    assert_int_equal(generator_inputs(generator, &problem, 0, 0, 5, x, &error), ATTUNE_OK);
    assert_int_equal(generator_inputs(generator, &problem, 0, 0, 5, again, &error), ATTUNE_OK);
    assert_memory_equal(x, again, sizeof x);
    assert_int_equal(generator_inputs(generator, &problem, 0, 0, 6, again, &error), ATTUNE_OK);
    assert_memory_not_equal(x, again, sizeof x);
    double sum = 0, squares = 0;
    for (int i = 0; i < 1000; i++) {
        sum += x[i] / 1000;
        squares += x[i] * x[i] / 1000;
    }
    assert_true(fabs(sum) < 0.2 && fabs(squares - 1) < 0.25);
    double *tensors[] = {x, y}, *tolerances[] = {NULL, tolerance};
    assert_int_equal(generator_reference(generator, &problem, tensors, tolerances, &error), ATTUNE_OK);
    for (int i = 0; i < 1000; i++) {
        assert_true(y[i] == -2 * x[i] && tolerance[i] == 0.001);
    }
    assert_true(generator_operations(generator, &problem) == 1000);
    assert_int_equal(generator_inputs(generator, &problem, 2, 0, 5, x, &error), ATTUNE_INVALID);
    generator_destroy(generator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_families_are_told_what_is_wrong),
        cmocka_unit_test(a_template_path_adds_and_overrides),
        cmocka_unit_test(a_bad_template_path_is_named),
        cmocka_unit_test(a_failing_import_or_template_file_names_the_family),
        cmocka_unit_test(unknown_families_and_targets_are_answered_with_lists),
        cmocka_unit_test(facts_come_with_every_listed_target),
        cmocka_unit_test(lua_references_inputs_and_counts_are_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
