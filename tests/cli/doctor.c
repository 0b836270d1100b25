/* doctor.c - what `attune doctor` makes of the kernel's word about AMD GPUs and the driver's. The driver is the tests'
 * stand-in for libamdhip64, /sys a folder of ours. */
#include "program.h"

#include "base/files.h"
#include "cli/kfd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* as Linux 6.1 prints a node, ours among others */
static const char *const cpu_node =
    "cpu_cores_count 16\nsimd_count 0\nmem_banks_count 1\ncaches_count 24\nio_links_count 1\n"
    "max_waves_per_simd 0\nlds_size_in_kb 0\nwave_front_size 0\ngfx_target_version 0\n"
    "vendor_id 0\nlocation_id 0\ndomain 0\n";

struct card {
    const char *name;
    int version, simds, simds_a_unit, waves, wave, lds_kb, location;
};
static const struct card mi50 = {"MI50", 90006, 240, 4, 10, 64, 64, 3 << 8};
static const struct card mi100 = {"MI100", 90008, 480, 4, 10, 64, 64, 3 << 8};
static const struct card rx6600 = {"RX 6600", 100302, 56, 2, 16, 32, 64, 3 << 8};
static const struct card radeon780m = {"Radeon 780M", 110003, 24, 2, 16, 32, 64, 3 << 8};

static const char *node_text(const struct card *card)
{
    static char text[2048];
    snprintf(
        text, sizeof text,
        "cpu_cores_count 0\nsimd_count %d\nmem_banks_count 1\ncaches_count 76\nio_links_count 1\np2p_links_count 0\n"
        "cpu_core_id_base 0\nsimd_id_base 2147487744\nmax_waves_per_simd %d\nlds_size_in_kb %d\ngds_size_in_kb 0\n"
        "num_gws 64\nwave_front_size %d\narray_count 4\nsimd_arrays_per_engine 1\ncu_per_simd_array 16\n"
        "simd_per_cu %d\nmax_slots_scratch_cu 32\ngfx_target_version %d\nvendor_id 4098\ndevice_id 26273\n"
        "location_id %d\ndomain 0\ndrm_render_minor 128\nhive_id 0\nnum_sdma_engines 2\nnum_cp_queues 24\n"
        "max_engine_clk_fcompute 1725\nlocal_mem_size 17163091968\nfw_version 435\ncapability 743061120\n"
        "sdma_fw_version 145\nunique_id 18446744073709551615\nnum_xcc 1\nmax_engine_clk_ccompute 3800\n",
        card->simds, card->waves, card->lds_kb, card->wave, card->simds_a_unit, card->version, card->location);
    return text;
}

/* a /sys whose topology has a CPU and a node with that text; gives its path */
static const char *make_sys(const char *name, const char *text)
{
    struct error error = {.message = ""};
    char path[4200];
    const char *root = scratch(name);
    for (int node = 0; node < 2; node++) {
        snprintf(path, sizeof path, "%s/class/kfd/kfd/topology/nodes/%d", root, node);
        assert_int_equal(folder_make(path, &error), ATTUNE_OK);
        strcat(path, "/properties");
        const char *own = node == 0 ? cpu_node : text;
        assert_int_equal(file_write(path, own, strlen(own), &error), ATTUNE_OK);
    }
    return root;
}

/* the program on a machine like that: device is what the stand-in says ("": no library), override the variable */
static const json_t *examine(const char *sys, const char *device, const char *override)
{
    setenv("ATTUNE_SYS", sys, 1);
    setenv("ATTUNE_HIP_LIBRARY", device[0] != '\0' ? FAKE_HIP : "/nonexistent/libamdhip64.so", 1);
    setenv("FAKE_HIP_DEVICE", device, 1);
    if (override != NULL) {
        setenv("HSA_OVERRIDE_GFX_VERSION", override, 1);
    } else {
        unsetenv("HSA_OVERRIDE_GFX_VERSION");
    }
    attune("doctor", "--json", NULL);
    exits_with(EXIT_IS_MISSING);
    const json_t *kernel = json_object_get(answer(), "kernel");
    assert_non_null(kernel);
    return kernel;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* one finding, with this verdict and these words */
static void finds(const json_t *kernel, const char *verdict, const char *words)
{
    const json_t *findings = json_object_get(kernel, "findings"), *first = json_array_get(findings, 0);
    if (json_array_size(findings) != 1 || strcmp(text_of(first, "verdict"), verdict) != 0 ||
        strstr(text_of(first, "text"), words) == NULL) {
        char *all = json_dumps(kernel, JSON_INDENT(1));
        fail_msg("not %s, '%s': %s", verdict, words, all);
    }
}

static void driver_and_kernel_that_agree_are_said_to(void **state)
{
    (void)state;
    const json_t *kernel =
        examine(make_sys("mi50", node_text(&mi50)), "gfx906:sramecc+:xnack- 60 64 0000:03:00.0", NULL);
    finds(kernel, "agrees", "gfx906, 60 compute units, waves of 64");
    const json_t *node = json_array_get(json_object_get(kernel, "nodes"), 0);
    assert_string_equal(text_of(node, "pci"), "0000:03:00.0");
    assert_int_equal(json_integer_value(json_object_get(node, "node")), 1);
    assert_int_equal(json_integer_value(json_object_get(node, "lds_bytes")), 65536);
    kernel = examine(make_sys("mi100", node_text(&mi100)), "gfx908:sramecc+:xnack- 120 64 0000:03:00.0", NULL);
    finds(kernel, "agrees", "gfx908, 120 compute units");
    /* HIP counts pairs of compute units on RDNA; without an address the place decides */
    kernel = examine(make_sys("780m", node_text(&radeon780m)), "gfx1103 6 32 -", NULL);
    finds(kernel, "agrees", "gfx1103, 12 compute units");
    attune("doctor", NULL);
    says("AMD GPUs as the kernel sees them: 1\n  hip:0 agrees: driver and kernel say the same: gfx1103");
}

static void an_override_within_one_instruction_set_is_legitimate(void **state)
{
    (void)state;
    const json_t *kernel = examine(make_sys("rx6600", node_text(&rx6600)), "gfx1030 14 32 0000:03:00.0", "10.3.0");
    finds(kernel, "same_isa", "HSA_OVERRIDE_GFX_VERSION=10.3.0 makes the driver say gfx1030 of a gfx1032: legitimate");
    finds(kernel, "same_isa", "makes code for gfx1032 itself");
}

static void an_override_to_another_processor_is_explained(void **state)
{
    (void)state;
    const json_t *kernel = examine(make_sys("other", node_text(&radeon780m)), "gfx1100 6 32 0000:03:00.0", "11.0.0");
    finds(kernel, "related", "HSA_OVERRIDE_GFX_VERSION=11.0.0 makes the driver say gfx1100 of a gfx1103");
    finds(kernel, "related", "Unset HSA_OVERRIDE_GFX_VERSION (and HSA_OVERRIDE_GFX_VERSION_1)");
    kernel = examine(make_sys("mi50too", node_text(&mi50)), "gfx1030 60 64 0000:03:00.0", "10.3.0");
    finds(kernel, "foreign", "gfx1030 of a gfx906, whose instructions are others");
    kernel = examine(scratch("mi50too"), "gfx1030 60 64 0000:03:00.0", NULL);
    finds(kernel, "foreign", "though HSA_OVERRIDE_GFX_VERSION is not set here");
    attune("doctor", NULL);
    says("hip:0 foreign: ");
}

static void an_override_that_is_no_version_is_told(void **state)
{
    (void)state;
    const json_t *kernel = examine(make_sys("odd", node_text(&mi50)), "", "10.3");
    const json_t *findings = json_object_get(kernel, "findings");
    assert_int_equal(json_array_size(findings), 2);
    assert_string_equal(text_of(json_array_get(findings, 0), "verdict"), "unseen");
    assert_string_equal(text_of(json_array_get(findings, 1), "verdict"), "override");
    assert_non_null(strstr(text_of(json_array_get(findings, 1), "text"), "'10.3' is no version"));
}

static void numbers_that_differ_are_told(void **state)
{
    (void)state;
    const json_t *kernel =
        examine(make_sys("cut", node_text(&mi50)), "gfx906:sramecc+:xnack- 30 64 0000:03:00.0", NULL);
    finds(kernel, "differs", "gives 30 of the kernel's 60 compute units");
    kernel = examine(scratch("cut"), "gfx906:sramecc+:xnack- 60 32 0000:03:00.0", NULL);
    finds(kernel, "differs", "waves of 32, the kernel 64");
}

static void what_only_one_side_has_is_told(void **state)
{
    (void)state;
    const json_t *kernel = examine(make_sys("alone", node_text(&mi50)), "", NULL);
    finds(kernel, "unseen", "the kernel has a gfx906 at 0000:03:00.0 that no driver lists: libamdhip64 is missing");
    kernel = examine(scratch("alone"), "gfx906 60 64 0000:44:00.0", NULL);
    finds(kernel, "unmatched", "cannot be told");
    setenv("ROCR_VISIBLE_DEVICES", "1", 1);
    kernel = examine(scratch("alone"), "", NULL);
    unsetenv("ROCR_VISIBLE_DEVICES");
    finds(kernel, "unseen", "ROCR_VISIBLE_DEVICES or GPU_DEVICE_ORDINAL hides it");
}

static void a_machine_without_topology_is_told_why(void **state)
{
    (void)state;
    const json_t *kernel = examine("/nonexistent", "", NULL);
    assert_non_null(strstr(text_of(kernel, "reason"), "/nonexistent/class/kfd/kfd/topology/nodes is not there"));
    attune("doctor", NULL);
    says("AMD GPUs as the kernel sees them: /nonexistent/");
}

static void files_that_are_not_understood_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "no simd_count in its 0 lines"},
        {"simd_count", "line 1 is not `name number`"},
        {"vendor_id 1\nsimd_count  4\n", "line 2 is not `name number`"},
        {"simd_count 4\nsimd_count 4\n", "line 2: simd_count is there twice"},
        {"simd_count 4294967296\n", "larger than any GPU's"},
        {"simd_count 99999999999999999999\n", "line 1 is not `name number`"},
        {"simd_count 4\ngfx_target_version 99\n", "gfx_target_version 99 is no processor"},
        {"simd_count 4\ngfx_target_version 91699\n", "gfx_target_version 91699 is no processor"},
        {"simd_count -4\n", "line 1 is not `name number`"},
        {"\x1b[2J 4\n", "line 1 is not `name number`"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kfd_node node;
        struct error error = {.message = ""};
        bool gpu = true;
        assert_int_equal(kfd_parse(cases[i].text, strlen(cases[i].text), &node, &gpu, &error), ATTUNE_CORRUPT);
        if (strstr(error.message, cases[i].words) == NULL) {
            fail_msg("'%s' is not in: %s", cases[i].words, error.message);
        }
        assert_false(gpu);
    }
    const json_t *kernel = examine(make_sys("bad", "simd_count many\n"), "", NULL);
    assert_int_equal(json_integer_value(json_object_get(kernel, "unreadable")), 1);
    assert_non_null(strstr(text_of(kernel, "trouble"), "node 1: line 1 is not `name number`: 'simd_count many'"));
    /* a whole disk's worth, a folder and a FIFO in place of a file */
    char path[4200];
    struct error error = {.message = ""};
    snprintf(path, sizeof path, "%s/class/kfd/kfd/topology/nodes/2/properties", scratch("bad"));
    assert_int_equal(folder_make(path, &error), ATTUNE_OK);
    snprintf(path, sizeof path, "%s/class/kfd/kfd/topology/nodes/3", scratch("bad"));
    assert_int_equal(folder_make(path, &error), ATTUNE_OK);
    strcat(path, "/properties");
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/class/kfd/kfd/topology/nodes/4", scratch("bad"));
    assert_int_equal(folder_make(path, &error), ATTUNE_OK);
    strcat(path, "/properties");
    char *large = calloc(1, KFD_FILE_MAX + 2);
    memset(large, '\n', KFD_FILE_MAX + 1);
    assert_int_equal(file_write(path, large, KFD_FILE_MAX + 1, &error), ATTUNE_OK);
    free(large);
    kernel = examine(scratch("bad"), "", NULL);
    assert_int_equal(json_integer_value(json_object_get(kernel, "unreadable")), 4);
    attune("doctor", NULL);
    says("not understood: node ");
    says("nor 3 more nodes");
}

static void overrides_are_read_as_the_runtime_reads_them(void **state)
{
    (void)state;
    static const struct {
        const char *value, *processor;
    } cases[] = {{"10.3.0", "gfx1030"}, {"9.0.10", "gfx90a"}, {"11.0.3", "gfx1103"}, {"9.4.2", "gfx942"}};
    static const char *const refused[] = {"",       "10.3",    "10.3.0.", "10.3.0.1", "gfx1030",
                                          "10.3.x", "10.16.0", "0.0.0",   " 10.3.0"};
    char processor[TARGET_TEXT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(kfd_override(cases[i].value, processor));
        assert_string_equal(processor, cases[i].processor);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_false(kfd_override(refused[i], processor));
    }
}

/* no compilers are asked, which takes long; the kernel's word is told all the same */
static int setup(void **state)
{
    setenv("ATTUNE_HELPER", "/nonexistent/attune-helper", 1);
    return program_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driver_and_kernel_that_agree_are_said_to),
        cmocka_unit_test(an_override_within_one_instruction_set_is_legitimate),
        cmocka_unit_test(an_override_to_another_processor_is_explained),
        cmocka_unit_test(an_override_that_is_no_version_is_told),
        cmocka_unit_test(numbers_that_differ_are_told),
        cmocka_unit_test(what_only_one_side_has_is_told),
        cmocka_unit_test(a_machine_without_topology_is_told_why),
        cmocka_unit_test(files_that_are_not_understood_are_named),
        cmocka_unit_test(overrides_are_read_as_the_runtime_reads_them),
    };
    return cmocka_run_group_tests(tests, setup, program_teardown);
}
