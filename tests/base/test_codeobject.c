/* test_codeobject.c - facts read from real objects (tests/base/data) agree with the vendors' own tools, and damaged
 * bytes are refused without reading outside them (the sanitizer builds watch). */
#include "base/codeobject.h"
#include "base/elf_reader.h"
#include "base/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const objects[] = {"clang-gfx906-v5.hsaco",  "clang-gfx90a-v6.hsaco", "clang-gfx1100-v5.hsaco",
                                      "hiprtc-gfx906-v4.hsaco", "sm_80.cubin",           "sm_90.cubin",
                                      "sm_90a.cubin",           "sm_100a.cubin",         "host.so"};
enum { OBJECT_COUNT = sizeof objects / sizeof objects[0] };

static struct buffer load(const char *name)
{
    struct buffer bytes = BUFFER_INIT;
    struct error error = {0};
    char path[1024];
    assert_int_equal(path_join(path, sizeof path, TEST_SOURCE_DIR "/tests/base/data", name, &error), ATTUNE_OK);
    if (file_read(path, 1 << 20, &bytes, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    return bytes;
}

/* from llvm-readelf --notes, cuobjdump --dump-resource-usage and ptxas -v on the same files */
static const struct expected {
    const char *object, *kernel;
    struct resources facts;
} table[] = {
    {"clang-gfx906-v5.hsaco",
     "attention_forward",
     {.target = "gfx906:sramecc+:xnack-",
      .vector_registers = 5,
      .scalar_registers = 20,
      .shared_bytes = 1040,
      .scratch_bytes = 32,
      .wave_size = 64,
      .argument_bytes = 36,
      .max_threads = 128,
      .code_bytes = 228}},
    {"clang-gfx906-v5.hsaco",
     "second",
     {.target = "gfx906:sramecc+:xnack-",
      .vector_registers = 2,
      .scalar_registers = 6,
      .wave_size = 64,
      .argument_bytes = 8,
      .max_threads = 1024,
      .code_bytes = 32}},
    {"clang-gfx90a-v6.hsaco",
     "attention_forward",
     {.target = "gfx90a:sramecc+:xnack-",
      .vector_registers = 6,
      .scalar_registers = 20,
      .shared_bytes = 1040,
      .scratch_bytes = 32,
      .wave_size = 64,
      .argument_bytes = 36,
      .max_threads = 128,
      .code_bytes = 232}},
    {"clang-gfx90a-v6.hsaco",
     "second", /* 28 registers in one file: 20 and 8 accumulators */
     {.target = "gfx90a:sramecc+:xnack-",
      .vector_registers = 20,
      .accumulator_registers = 8,
      .scalar_registers = 6,
      .wave_size = 64,
      .argument_bytes = 8,
      .max_threads = 256,
      .code_bytes = 32}},
    {"clang-gfx1100-v5.hsaco",
     "attention_forward",
     {.target = "gfx1100",
      .vector_registers = 6,
      .scalar_registers = 10,
      .shared_bytes = 1040,
      .scratch_bytes = 32,
      .wave_size = 32,
      .argument_bytes = 36,
      .max_threads = 128,
      .code_bytes = 240}},
    {"hiprtc-gfx906-v4.hsaco",
     "attention_forward",
     {.target = "gfx906",
      .vector_registers = 6,
      .scalar_registers = 19,
      .shared_bytes = 1040,
      .scratch_bytes = 48,
      .wave_size = 64,
      .argument_bytes = 36,
      .max_threads = 128,
      .code_bytes = 268}},
    {"sm_80.cubin",
     "attention_forward",
     {.target = "sm_80",
      .vector_registers = 12,
      .scalar_registers = -1,
      .spilled_registers = -1,
      .shared_bytes = 1040,
      .scratch_bytes = 24,
      .wave_size = 32,
      .argument_bytes = 36,
      .max_threads = 128,
      .code_bytes = 640}},
    {"sm_80.cubin",
     "second",
     {.target = "sm_80",
      .vector_registers = 8,
      .scalar_registers = -1,
      .spilled_registers = -1,
      .wave_size = 32,
      .argument_bytes = 8,
      .max_threads = -1,
      .code_bytes = 384}},
    {"sm_90.cubin",
     "attention_forward",
     {.target = "sm_90",
      .vector_registers = 12,
      .scalar_registers = -1,
      .spilled_registers = -1,
      .shared_bytes = 1040,
      .scratch_bytes = 24,
      .wave_size = 32,
      .argument_bytes = 36,
      .max_threads = 128,
      .code_bytes = 768}},
    {"sm_90a.cubin",
     "attention_forward",
     {.target = "sm_90a",
      .vector_registers = 12,
      .scalar_registers = -1,
      .spilled_registers = -1,
      .shared_bytes = 1040,
      .scratch_bytes = 24,
      .wave_size = 32,
      .argument_bytes = 36,
      .max_threads = 128,
      .code_bytes = 768}},
    {"sm_100a.cubin",
     "attention_forward",
     {.target = "sm_100a",
      .vector_registers = 12,
      .scalar_registers = -1,
      .spilled_registers = -1,
      .shared_bytes = 1040,
      .scratch_bytes = 24,
      .wave_size = 32,
      .argument_bytes = 36,
      .max_threads = 128,
      .code_bytes = 768}},
    {"host.so",
     "attention_forward",
     {.target = "host-gfx906",
      .vector_registers = -1,
      .scalar_registers = -1,
      .shared_bytes = 1040,
      .wave_size = 64,
      .argument_bytes = 40,
      .max_threads = 128}},
};

static void facts_agree_with_the_vendors_tools(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct buffer bytes = load(table[i].object);
        struct resources read;
        struct error error = {0};
        const struct resources *facts = &table[i].facts;
        if (codeobject_resources(bytes.data, bytes.length, table[i].kernel, &read, &error) != ATTUNE_OK) {
            fail_msg("%s: %s", table[i].object, error.message);
        }
        assert_string_equal(read.kernel, table[i].kernel);
        assert_string_equal(read.target, facts->target);
        assert_int_equal(read.vector_registers, facts->vector_registers);
        assert_int_equal(read.accumulator_registers, facts->accumulator_registers);
        assert_int_equal(read.scalar_registers, facts->scalar_registers);
        assert_int_equal(read.spilled_registers, facts->spilled_registers);
        assert_int_equal(read.shared_bytes, facts->shared_bytes);
        assert_int_equal(read.scratch_bytes, facts->scratch_bytes);
        assert_int_equal(read.wave_size, facts->wave_size);
        assert_int_equal(read.argument_bytes, facts->argument_bytes);
        assert_int_equal(read.max_threads, facts->max_threads);
        if (facts->code_bytes) {
            assert_int_equal(read.code_bytes, facts->code_bytes);
        } else {
            assert_true(read.code_bytes > 0); /* host code varies with the compiler that made it */
        }
        buffer_free(&bytes);
    }
}

static void first_kernel_is_the_default_and_absent_ones_are_named(void **state)
{
    (void)state;
    for (int i = 0; i < OBJECT_COUNT; i++) {
        struct buffer bytes = load(objects[i]);
        struct resources read;
        struct error error = {0};
        assert_int_equal(codeobject_resources(bytes.data, bytes.length, NULL, &read, &error), ATTUNE_OK);
        assert_true(strcmp(read.kernel, "attention_forward") == 0 || strcmp(read.kernel, "second") == 0);
        assert_int_equal(codeobject_resources(bytes.data, bytes.length, "third", &read, &error), ATTUNE_NOT_FOUND);
        assert_non_null(strstr(error.message, "third"));
        buffer_free(&bytes);
    }
}

static void build_id_is_read_or_absent(void **state)
{
    (void)state;
    char hex[65];
    struct error error = {0};
    struct buffer host = load("host.so");
    assert_int_equal(codeobject_build_id(host.data, host.length, hex, sizeof hex, &error), ATTUNE_OK);
    assert_string_equal(hex, "0123456789abcdef0123456789abcdef01234567");
    assert_int_equal(codeobject_build_id(host.data, host.length, hex, 40, &error), ATTUNE_INVALID);
    buffer_free(&host);
    struct buffer amd = load("clang-gfx906-v5.hsaco");
    assert_int_equal(codeobject_build_id(amd.data, amd.length, hex, sizeof hex, &error), ATTUNE_NOT_FOUND);
    buffer_free(&amd);
    assert_int_equal(codeobject_build_id("not an ELF file", 15, hex, sizeof hex, &error), ATTUNE_CORRUPT);
}

/* any answer is legal for damaged bytes but one that breaks its own promises */
static void read_damaged(const char *bytes, size_t length)
{
    struct resources read = {.kernel = "untouched"};
    struct error error = {0};
    char hex[65];
    struct target target;
    attune_status status = codeobject_resources(bytes, length, NULL, &read, &error);
    if (status == ATTUNE_OK) {
        assert_true(memchr(read.kernel, '\0', sizeof read.kernel) && read.kernel[0]);
        assert_int_equal(target_parse(read.target, &target, &error), ATTUNE_OK);
        assert_true(read.shared_bytes >= 0 && read.scratch_bytes >= 0 && read.argument_bytes >= 0);
    } else {
        assert_true(status == ATTUNE_CORRUPT || status == ATTUNE_NOT_FOUND || status == ATTUNE_UNSUPPORTED);
        assert_true(error.message[0]);
        assert_string_equal(read.kernel, "untouched");
    }
    codeobject_build_id(bytes, length, hex, sizeof hex, &error);
}

static void truncation_at_every_length_is_survived(void **state)
{
    (void)state;
    for (int i = 0; i < OBJECT_COUNT; i++) {
        struct buffer bytes = load(objects[i]);
        for (size_t length = 0; length < bytes.length; length++) {
            char *exact = malloc(length ? length : 1); /* so that a byte too far is seen */
            assert_non_null(exact);
            memcpy(exact, bytes.data, length);
            read_damaged(exact, length);
            free(exact);
        }
        buffer_free(&bytes);
    }
}

static void random_damage_is_survived(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < OBJECT_COUNT; i++) {
        struct buffer bytes = load(objects[i]);
        char *exact = malloc(bytes.length);
        assert_non_null(exact);
        for (int round = 0; round < 4000; round++) {
            memcpy(exact, bytes.data, bytes.length);
            int flips = 1 + round % 8;
            for (int flip = 0; flip < flips; flip++) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                size_t where = round % 3 ? random % bytes.length : random % 0x400; /* headers more often */
                if (round % 2) {
                    exact[where] = (char)(exact[where] ^ (1 << (random >> 60 & 7)));
                } else {
                    exact[where] = (char)(random >> 48);
                }
            }
            read_damaged(exact, bytes.length);
        }
        free(exact);
        buffer_free(&bytes);
    }
}

/* A file of 4 MiB whose 65,535 section headers overlap all of it: the work must stay near the file's size. A broken
 * bound would show as this program's time limit. */
static void overlapping_parts_are_no_work_without_end(void **state)
{
    (void)state;
    enum { SECTIONS = 65535, BYTES = 1 << 23 };
    char *file = calloc(1, BYTES);
    assert_non_null(file);
    Elf64_Ehdr header = {.e_machine = 190, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = SECTIONS, .e_shstrndx = 1};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_shoff = BYTES / 2;
    memcpy(file, &header, sizeof header);
    for (size_t at = sizeof header; at < BYTES / 2; at += 16) { /* notes of 16 bytes, owner "A" */
        const Elf64_Nhdr note = {.n_namesz = 2, .n_descsz = 0, .n_type = 7};
        memcpy(file + at, &note, sizeof note);
        file[at + sizeof note] = 'A';
    }
    for (size_t i = 0; i < SECTIONS; i++) {
        Elf64_Shdr section = {.sh_type = SHT_NOTE, .sh_offset = sizeof header, .sh_size = BYTES / 2 - sizeof header};
        memcpy(file + BYTES / 2 + i * sizeof section, &section, sizeof section);
    }
    struct elf elf;
    struct elf_note note = {0};
    size_t notes = 0;
    assert_true(elf_open(&elf, file, BYTES));
    while (elf_next_note(&elf, &note)) {
        notes++;
    }
    assert_in_range(notes, 1, 2 * BYTES / 16);
    /* names: one text without end under every header */
    memset(file + sizeof header, 'n', BYTES / 2 - sizeof header - 1);
    Elf64_Shdr section;
    for (int i = 0; i < 50; i++) {
        assert_false(elf_find_section(&elf, "absent", &section));
    }
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_agree_with_the_vendors_tools),
        cmocka_unit_test(first_kernel_is_the_default_and_absent_ones_are_named),
        cmocka_unit_test(build_id_is_read_or_absent),
        cmocka_unit_test(truncation_at_every_length_is_survived),
        cmocka_unit_test(random_damage_is_survived),
        cmocka_unit_test(overlapping_parts_are_no_work_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
