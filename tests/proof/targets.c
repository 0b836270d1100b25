/* targets.c - proof_targets: code of one GPU never reaches another (B13, B14).
 *
 * HIP calls gfx900, gfx906 and gfx908 all "9.0": every name here is made of the full target ID. Objects planted under
 * another target's name are real code objects, whose e_flags and notes are the only witnesses.
 */
#include "tests/runtime/fake.h"

#include "base/files.h"
#include "cache/object_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* B13's eight, the features of B14, and what else has facts nearby */
static const char *const targets[] = {
    "gfx900",
    "gfx906",
    "gfx908",
    "gfx90a",
    "gfx1030",
    "gfx1032",
    "gfx1100",
    "gfx1101",
    "gfx906:xnack-",
    "gfx906:xnack+",
    "gfx906:sramecc+",
    "gfx906:sramecc-",
    "gfx906:sramecc+:xnack-",
    "gfx906:sramecc-:xnack-",
    "gfx906:sramecc+:xnack+",
    "gfx906:sramecc-:xnack+",
    "gfx90a:sramecc+:xnack-",
    "gfx942",
    "gfx950",
    "sm_80",
    "sm_86",
    "sm_90",
    "sm_90a",
    "host",
    "host-gfx906",
    "host-gfx900",
};
enum { TARGETS = sizeof targets / sizeof targets[0] };

static void parse(const char *text, struct target *target)
{
    assert_int_equal(target_parse(text, target, NULL), ATTUNE_OK);
}

/* object names, source keys, folders of default and of tuned records */
static void every_target_has_names_of_its_own(void **state)
{
    (void)state;
    struct digest objects[TARGETS], sources[TARGETS];
    char defaults[TARGETS][128], tuned[TARGETS][128];
    for (int i = 0; i < TARGETS; i++) {
        struct object_key key = {.shown = "kernel", .shown_bytes = 6, .options = "-O3", .identity = fake_identity};
        struct fingerprint fingerprint = {
            .compute_units = 60, .shared_bytes = 65536, .memory_bytes = (uint64_t)16 << 30};
        parse(targets[i], &key.target);
        object_key_digest(&key, &objects[i], &sources[i]);
        default_folder(&key.target, defaults[i]);
        target_format(&key.target, fingerprint.target);
        fingerprint_folder(&fingerprint, tuned[i]);
        /* names that shares and tools take as they are */
        assert_int_equal(strcspn(defaults[i], ":+/\\ "), strlen(defaults[i]));
        assert_int_equal(strcspn(tuned[i], ":+/\\ "), strlen(tuned[i]));
        for (int j = 0; j < i; j++) {
            assert_memory_not_equal(objects[i].bytes, objects[j].bytes, DIGEST_BYTES);
            assert_memory_not_equal(sources[i].bytes, sources[j].bytes, DIGEST_BYTES);
            assert_string_not_equal(defaults[i], defaults[j]);
            assert_string_not_equal(tuned[i], tuned[j]);
        }
    }
}

/* B14: other orders are other spellings of one target */
static void the_order_of_features_is_no_difference(void **state)
{
    (void)state;
    static const char *const spellings[][2] = {{"gfx906:sramecc+:xnack-", "gfx906:xnack-:sramecc+"},
                                               {"gfx906:sramecc-:xnack+", "gfx906:xnack+:sramecc-"},
                                               {"gfx90a:sramecc+:xnack+", "gfx90a:xnack+:sramecc+"}};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        struct digest digests[2];
        char folders[2][128];
        for (int s = 0; s < 2; s++) {
            struct object_key key = {.shown = "kernel", .shown_bytes = 6, .options = "-O3", .identity = fake_identity};
            parse(spellings[i][s], &key.target);
            object_key_digest(&key, &digests[s], NULL);
            default_folder(&key.target, folders[s]);
        }
        assert_memory_equal(digests[0].bytes, digests[1].bytes, DIGEST_BYTES);
        assert_string_equal(folders[0], folders[1]);
    }
}

struct scene {
    char folder[512];
    attune_context *context;
    attune_device *device;
    struct fake_device *gpu;
    struct fake_jit jit;
};

static void scene_open(struct scene *scene, const char *target)
{
    scene->context = fake_context(scene->folder, ATTUNE_JIT_COMPILE);
    scene->device = fake_open(scene->context, &scene->gpu);
    parse(target, &scene->device->facts.target);
    fake_jit_register(&scene->jit, scene->context);
}

static void prepare(struct scene *scene, char object[72])
{
    attune_problem *problem = fake_problem(scene->context, FAKE_PROBLEM "seqlen_q=64 seqlen_k=64");
    attune_plan *plan = NULL;
    attune_plan_info info = {.size = sizeof info};
    attune_status status = attune_prepare(scene->device, problem, NULL, &plan);
    if (status != ATTUNE_OK) {
        fail_msg("%s", fake_last_error(scene->context));
    }
    assert_int_equal(attune_plan_describe(plan, &info), ATTUNE_OK);
    snprintf(object, 72, "%s", info.object);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
}

/* one store for all: each device compiles once for itself and takes nothing of another's */
static void devices_of_one_version_number_share_a_store_and_no_code(void **state)
{
    (void)state;
    struct scene scene;
    char names[TARGETS][72];
    assert_int_equal(folder_temporary(scene.folder, sizeof scene.folder, NULL), ATTUNE_OK);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < TARGETS; i++) {
            char object[72];
            fake_jit_init(&scene.jit);
            scene.jit.target = targets[i];
            scene_open(&scene, targets[i]);
            /* code that leaves features open serves devices that set them: so bare names come last in the first round
             */
            prepare(&scene, object);
            bool may_share = strchr(targets[i], ':') != NULL || strncmp(targets[i], "sm_", 3) == 0 ||
                             strncmp(targets[i], "host", 4) == 0;
            if (round == 0) {
                assert_true(scene.jit.compiles == 1 || may_share);
                snprintf(names[i], sizeof names[i], "%s", object);
                for (int j = 0; j < i; j++) {
                    assert_true(strcmp(names[i], names[j]) != 0 || may_share);
                }
            } else {
                assert_int_equal(scene.jit.compiles, 0);
            }
            attune_context_destroy(scene.context);
        }
    }
    folder_remove(scene.folder);
}

/* ---- planted objects ---- */

static struct buffer code = BUFFER_INIT; /* gfx906:sramecc+:xnack-, as the device */

static void replace_text(struct buffer *bytes, const char *from, const char *to)
{
    char *at = memmem(bytes->data, bytes->length, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
}

/* 0: off, 1: on; -1: as it is */
static void set_features(struct buffer *bytes, int sramecc, int xnack, bool note, bool flags)
{
    uint32_t word;
    if (note && sramecc == 0) {
        replace_text(bytes, "gfx906:sramecc+", "gfx906:sramecc-");
    }
    if (note && xnack == 1) {
        replace_text(bytes, ":xnack-", ":xnack+");
    }
    memcpy(&word, bytes->data + 48, sizeof word); /* e_flags of a 64-bit ELF file */
    assert_int_equal(word & 0xf00, 0xe00);
    if (flags && sramecc == 0) {
        word = (word & ~0xc00U) | 0x800;
    }
    if (flags && xnack == 1) {
        word = (word & ~0x300U) | 0x300;
    }
    memcpy(bytes->data + 48, &word, sizeof word);
}

static void plant(const char *folder, const char *object, const char *header_target, const struct buffer *payload,
                  const char *kernel)
{
    char path[1024];
    struct digest name;
    struct object_header header = {.compiler = "fake 1"};
    struct buffer file = BUFFER_INIT;
    struct error error = {.message = ""};
    for (int i = 0; i < DIGEST_BYTES; i++) {
        unsigned value = 0;
        assert_int_equal(sscanf(object + 2 * i, "%2x", &value), 1);
        name.bytes[i] = (uint8_t)value;
    }
    strcpy(header.target, header_target);
    strcpy(header.kernel, kernel);
    strcpy(header.identity, fake_identity);
    if (object_file_encode(&name, &header, payload->data, payload->length, &file, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    snprintf(path, sizeof path, "%s/objects/%.2s/%s", folder, object, object);
    assert_int_equal(file_publish(path, file.data, file.length, NULL), ATTUNE_OK);
    buffer_free(&file);
}

/* whatever is planted under the device's own name, with right digests: compiled anew, the planted code never loaded */
static void planted_code_of_another_target_is_rebuilt(void **state)
{
    (void)state;
    static const char own[] = "gfx906:sramecc+:xnack-";
    static const struct {
        const char *what, *header, *kernel, *file;
        int sramecc, xnack;
        bool note, flags;
    } plants[] = {
        {"sramecc off, said so", "gfx906:sramecc-:xnack-", "attention_forward", NULL, 0, -1, true, true},
        {"sramecc off, called on", own, "attention_forward", NULL, 0, -1, true, true},
        {"xnack on, said so", "gfx906:sramecc+:xnack+", "attention_forward", NULL, -1, 1, true, true},
        {"xnack on, called off", own, "attention_forward", NULL, -1, 1, true, true},
        {"only e_flags: sramecc off", own, "attention_forward", NULL, 0, -1, false, true},
        {"only e_flags: xnack on", own, "attention_forward", NULL, -1, 1, false, true},
        {"only the note: xnack on", own, "attention_forward", NULL, -1, 1, true, false},
        {"gfx90a, said so", "gfx90a:sramecc+:xnack-", "attention_forward", "clang-gfx90a-v6.hsaco", -1, -1, false,
         false},
        {"gfx90a, called gfx906", own, "attention_forward", "clang-gfx90a-v6.hsaco", -1, -1, false, false},
        {"gfx1100, called gfx906", own, "attention_forward", "clang-gfx1100-v5.hsaco", -1, -1, false, false},
        {"NVIDIA's, called gfx906", own, "attention_forward", "sm_90a.cubin", -1, -1, false, false},
        {"the host's, called gfx906", own, "attention_forward", "host.so", -1, -1, false, false},
        {"another kernel", own, "no_such_kernel", NULL, -1, -1, false, false},
    };
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++) {
        struct scene scene;
        char object[72], again[72], path[1024];
        struct buffer planted = BUFFER_INIT, before = BUFFER_INIT, after = BUFFER_INIT;
        assert_int_equal(folder_temporary(scene.folder, sizeof scene.folder, NULL), ATTUNE_OK);
        fake_jit_init(&scene.jit);
        scene.jit.target = own;
        scene.jit.object = code.data;
        scene.jit.object_bytes = code.length;
        scene_open(&scene, own);
        prepare(&scene, object);
        assert_int_equal(scene.jit.compiles, 1);
        attune_context_destroy(scene.context);
        snprintf(path, sizeof path, "%s/objects/%.2s/%s", scene.folder, object, object);
        assert_int_equal(file_read(path, 1 << 20, &before, NULL), ATTUNE_OK);
        /* the good one is a hit: what follows is due to what is planted */
        scene_open(&scene, own);
        prepare(&scene, again);
        assert_int_equal(scene.jit.compiles, 1);
        attune_context_destroy(scene.context);
        if (plants[i].file != NULL) {
            char from[1024];
            snprintf(from, sizeof from, "%s/tests/base/data/%s", TEST_SOURCE_DIR, plants[i].file);
            assert_int_equal(file_read(from, 1 << 20, &planted, NULL), ATTUNE_OK);
        } else {
            buffer_append(&planted, code.data, code.length);
            set_features(&planted, plants[i].sramecc, plants[i].xnack, plants[i].note, plants[i].flags);
        }
        plant(scene.folder, object, plants[i].header, &planted, plants[i].kernel);
        scene_open(&scene, own);
        prepare(&scene, again);
        if (scene.jit.compiles != 2) {
            fail_msg("%s: served as it is", plants[i].what);
        }
        assert_string_equal(object, again);
        assert_int_equal(file_read(path, 1 << 20, &after, NULL), ATTUNE_OK);
        assert_int_equal(before.length, after.length);
        assert_memory_equal(before.data, after.data, before.length);
        attune_context_destroy(scene.context);
        scene_open(&scene, own);
        prepare(&scene, again);
        assert_int_equal(scene.jit.compiles, 2);
        attune_context_destroy(scene.context);
        folder_remove(scene.folder);
        buffer_free(&planted);
        buffer_free(&before);
        buffer_free(&after);
    }
}

/* B14: what the driver refuses is compiled by the compiler that is here, when another made it; else the driver's word
 * is the answer, and the store keeps what others can load */
static void what_does_not_load_is_rebuilt_by_the_compiler_here(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct scene scene;
        char object[72];
        assert_int_equal(folder_temporary(scene.folder, sizeof scene.folder, NULL), ATTUNE_OK);
        fake_jit_init(&scene.jit);
        scene.jit.object = "newer code";
        scene.jit.object_bytes = 10;
        scene.jit.identity = own ? fake_identity : fake_other_identity;
        scene_open(&scene, "gfx906");
        prepare(&scene, object);
        attune_context_destroy(scene.context);
        fake_jit_init(&scene.jit);
        scene_open(&scene, "gfx906");
        scene.gpu->load_refuses = "newer";
        if (own) {
            attune_problem *problem = fake_problem(scene.context, FAKE_PROBLEM "seqlen_q=64 seqlen_k=64");
            attune_plan *plan = NULL;
            fake_expect(scene.context, ATTUNE_DEVICE_FAILED, attune_prepare(scene.device, problem, NULL, &plan),
                        "too old", NULL);
            assert_int_equal(scene.jit.compiles, 0);
            attune_problem_destroy(problem);
        } else {
            prepare(&scene, object);
            assert_int_equal(scene.jit.compiles, 1);
            prepare(&scene, object);
        }
        scene.gpu->load_refuses = NULL;
        attune_context_destroy(scene.context);
        char rejected[600];
        snprintf(rejected, sizeof rejected, "%s/rejected", scene.folder);
        assert_int_equal(folder_check_private(rejected, NULL), ATTUNE_NOT_FOUND);
        folder_remove(scene.folder);
    }
}

static int read_code(void **state)
{
    (void)state;
    return file_read(TEST_SOURCE_DIR "/tests/base/data/clang-gfx906-v5.hsaco", 1 << 20, &code, NULL) == ATTUNE_OK ? 0
                                                                                                                  : -1;
}

static int free_code(void **state)
{
    (void)state;
    buffer_free(&code);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_target_has_names_of_its_own),
        cmocka_unit_test(the_order_of_features_is_no_difference),
        cmocka_unit_test(devices_of_one_version_number_share_a_store_and_no_code),
        cmocka_unit_test(planted_code_of_another_target_is_rebuilt),
        cmocka_unit_test(what_does_not_load_is_rebuilt_by_the_compiler_here),
    };
    return cmocka_run_group_tests_name("proof_targets", tests, read_code, free_code);
}
