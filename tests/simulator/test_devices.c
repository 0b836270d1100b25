/* test_devices.c - devices sim:TARGET: what they are called, what they say of themselves, who is offered one. */
#include "kit.h"

#include "generator/generator.h"
#include "runtime/attune.h"
#include "runtime/simulator.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static attune_status parse(const char *device, struct error *error)
{
    const struct driver *driver;
    int ordinal;
    return driver_parse_device(device, &driver, &ordinal, error);
}

static void names_that_are_no_simulated_device_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        attune_status status;
        const char *part;
    } cases[] = {
        {"sim", ATTUNE_INVALID, "lacks its target"},
        {"sim:", ATTUNE_INVALID, "lacks its target"},
        {"sim:host", ATTUNE_INVALID, "--device host"},
        {"sim:host-gfx906", ATTUNE_INVALID, "--device host"},
        {"sim:0", ATTUNE_INVALID, "sim:0"},
        {"sim:gfx906:frob+", ATTUNE_INVALID, "frob"},
        {"sim:gfx803", ATTUNE_UNSUPPORTED, "gfx9 to gfx12"},
        {"sim:sm_60", ATTUNE_UNSUPPORTED, "sm_75"},
        {"simulator", ATTUNE_INVALID, "sim:TARGET"},
    };
    kit_simulate("is not reached", "exit 0");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = {0};
        assert_int_equal(parse(cases[i].device, &error), cases[i].status);
        kit_says(&error, cases[i].part);
    }
}

static void simulator_that_cannot_be_run_is_told_at_once(void **state)
{
    (void)state;
    struct error error = {0};
    unsetenv("ATTUNE_SIMULATOR");
    assert_int_equal(parse("sim:gfx906", &error), ATTUNE_NO_DEVICE);
    kit_says(&error, "ATTUNE_SIMULATOR is not set");
    static const char *const programs[] = {"/nonexistent/simulator", "no-simulator-of-this-name", "/tmp",
                                           "/etc/passwd"};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        setenv("ATTUNE_SIMULATOR", programs[i], 1);
        assert_int_equal(parse("sim:gfx906", &error), ATTUNE_NO_DEVICE);
        kit_says(&error, programs[i]);
    }
    setenv("ATTUNE_SIMULATOR", "true", 1); /* PATH has it */
    assert_int_equal(parse("sim:gfx906", &error), ATTUNE_OK);
}

static void settings_that_make_no_sense_are_named(void **state)
{
    (void)state;
    static const char *const limits[] = {"0", "-1", "1.5", "ten", "10s", " 10", "1000001", "99999999999999999999"};
    struct error error = {0};
    kit_simulate("is not reached", "exit 0");
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        setenv("ATTUNE_SIMULATOR_SECONDS", limits[i], 1);
        assert_int_equal(parse("sim:gfx906", &error), ATTUNE_INVALID);
        kit_says(&error, limits[i]);
    }
    setenv("ATTUNE_SIMULATOR_SECONDS", "1000000", 1);
    assert_int_equal(parse("sim:gfx906", &error), ATTUNE_OK);
    unsetenv("ATTUNE_SIMULATOR_SECONDS");
    setenv("ATTUNE_SIMULATOR_KEEP", "yes", 1);
    assert_int_equal(parse("sim:gfx906", &error), ATTUNE_INVALID);
    kit_says(&error, "ATTUNE_SIMULATOR_KEEP=\"yes\"");
    unsetenv("ATTUNE_SIMULATOR_KEEP");
}

static void same_device_is_the_same_driver_until_a_setting_changes(void **state)
{
    (void)state;
    kit_simulate("one", "exit 0");
    const struct driver *first = kit_driver("sim:gfx906");
    assert_ptr_equal(kit_driver("sim:gfx906"), first);
    assert_ptr_not_equal(kit_driver("sim:gfx908"), first);
    assert_ptr_not_equal(kit_driver("sim:gfx906:xnack-"), first);
    assert_ptr_equal(kit_driver("sim:gfx906:xnack-:sramecc+"), kit_driver("sim:gfx906:sramecc+:xnack-"));
    kit_simulate("other", "exit 0");
    assert_ptr_not_equal(kit_driver("sim:gfx906"), first);
    kit_simulate("one", "exit 0");
    assert_ptr_equal(kit_driver("sim:gfx906"), first);
}

static void no_list_of_devices_has_a_simulator(void **state)
{
    (void)state;
    const struct driver *driver;
    int ordinal;
    kit_simulate("is not reached", "exit 0");
    assert_int_equal(driver_parse_device("best", &driver, &ordinal, NULL), ATTUNE_OK);
    assert_string_not_equal(driver->name, "sim");
    for (int i = 0; driver_name(i) != NULL; i++) {
        assert_string_not_equal(driver_name(i), "sim");
    }
}

static void devices_describe_themselves_and_open_by_their_name(void **state)
{
    (void)state;
    char text[DRIVER_DEVICE_BYTES];
    struct driver_device device;
    attune_context *context;
    attune_device *handle;
    attune_device_info info = {.size = sizeof info};
    attune_context_options options = {.size = sizeof options, .store = kit_path("store"), .jit = ATTUNE_JIT_FORBID};
    kit_simulate("is not reached", "exit 0");
    const struct driver *driver = kit_driver("sim:gfx90a:xnack-:sramecc+");
    driver_format_device(driver, 0, text);
    assert_string_equal(text, "sim:gfx90a:sramecc+:xnack-");
    assert_ptr_equal(kit_driver(text), driver);
    assert_false(driver_has_times(driver));
    assert_int_equal(driver->describe(driver, 0, &device, NULL), ATTUNE_OK);
    assert_string_equal(device.name, "simulated gfx90a:sramecc+:xnack-");
    assert_true(device.compute_units == 1 && device.wave_size == 64 && device.shared_bytes == 64 << 10);
    assert_true(device.memory_bytes > 0 && device.cache_bytes == 0);
    assert_int_equal(attune_context_create(&options, &context), ATTUNE_OK);
    assert_int_equal(attune_device_open(context, text, &handle), ATTUNE_OK);
    assert_int_equal(attune_device_describe(handle, &info), ATTUNE_OK);
    assert_string_equal(info.target, "gfx90a:sramecc+:xnack-");
    assert_string_equal(info.driver, "simulator");
    attune_context_destroy(context);
}

/* the driver has no Lua to ask: its few facts are those of the table, for every target in it */
static void facts_are_those_of_the_target_table(void **state)
{
    (void)state;
    struct generator *generator;
    struct generator_options options = {.template_path = ""};
    struct error error = {0};
    int compared = 0;
    assert_int_equal(generator_create(&options, &generator, &error), ATTUNE_OK);
    for (int i = 0; i < generator_target_count(generator); i++) {
        const char *name = generator_target_name(generator, i);
        struct target target;
        struct driver_device device;
        json_t *facts;
        assert_int_equal(target_parse(name, &target, &error), ATTUNE_OK);
        if (target.vendor == TARGET_HOST) {
            continue;
        }
        if (generator_target_facts(generator, &target, &facts, &error) != ATTUNE_OK ||
            simulator_describe(name, &device, &error) != ATTUNE_OK) {
            fail_msg("%s", error.message);
        }
        if (json_integer_value(json_object_get(facts, "wave")) != device.wave_size ||
            json_integer_value(json_object_get(facts, "lds_bytes")) != (json_int_t)device.shared_bytes ||
            json_integer_value(json_object_get(facts, "max_threads")) != device.max_threads) {
            fail_msg("%s: the simulator driver says waves of %d, %llu bytes of shared memory", name, device.wave_size,
                     (unsigned long long)device.shared_bytes);
        }
        json_decref(facts);
        compared++;
    }
    assert_true(compared > 20);
    generator_destroy(generator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_no_simulated_device_are_refused),
        cmocka_unit_test(simulator_that_cannot_be_run_is_told_at_once),
        cmocka_unit_test(settings_that_make_no_sense_are_named),
        cmocka_unit_test(same_device_is_the_same_driver_until_a_setting_changes),
        cmocka_unit_test(no_list_of_devices_has_a_simulator),
        cmocka_unit_test(devices_describe_themselves_and_open_by_their_name),
        cmocka_unit_test(facts_are_those_of_the_target_table),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
