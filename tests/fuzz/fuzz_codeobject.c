/* Compiled binaries: AMD code objects, cubins and host objects, and the ELF reader under them. */
#include "base/codeobject.h"
#include "base/elf_reader.h"
#include "tests/fuzz/fuzz.h"

static void check_inside(const struct elf *elf, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    HOLDS(at >= elf->bytes && at <= elf->bytes + elf->length && length <= (size_t)(elf->bytes + elf->length - at),
          "%zu bytes past the file", length);
}

static void walk_elf(const uint8_t *bytes, size_t size)
{
    struct elf elf;
    Elf64_Shdr section;
    Elf64_Sym symbol;
    const char *name;
    const uint8_t *contents;
    size_t length;
    struct elf_note note = {0};
    if (!elf_open(&elf, bytes, size)) {
        return;
    }
    for (unsigned i = 0; elf_section(&elf, i, &section, &name); i++) {
        if (name[0] != '\0') {
            check_inside(&elf, name, strlen(name) + 1);
        }
        if (elf_contents(&elf, &section, &contents, &length)) {
            check_inside(&elf, contents, length);
            for (uint64_t at = 0; at < 8 && elf_symbol(&elf, &section, at, &symbol, &name); at++) {
                HOLDS(strlen(name) < size, "a symbol's name is longer than the file");
            }
        }
    }
    size_t walked = 0;
    while (elf_next_note(&elf, &note)) {
        check_inside(&elf, note.bytes, note.length);
        check_inside(&elf, note.owner, strlen(note.owner) + 1);
        walked += sizeof(Elf64_Nhdr) + note.length;
        HOLDS(walked <= 3 * size, "notes of %zu bytes in a file of %zu", walked, size);
    }
}

static void check_resources(const struct resources *resources)
{
    struct target target;
    char canonical[TARGET_TEXT_BYTES];
    HOLDS(target_parse(resources->target, &target, NULL) == ATTUNE_OK, "target '%s'", resources->target);
    target_format(&target, canonical);
    HOLDS(strcmp(canonical, resources->target) == 0, "target '%s' is not canonical", resources->target);
    HOLDS(resources->kernel[0] != '\0', "no kernel");
    for (const char *c = resources->kernel; *c != '\0'; c++) {
        HOLDS(*c > ' ' && *c <= '~', "byte %02x in a kernel's name", (unsigned char)*c);
    }
    HOLDS(resources->vector_registers >= -1 && resources->accumulator_registers >= 0 &&
              resources->scalar_registers >= -1 && resources->spilled_registers >= -1,
          "registers of %s", resources->kernel);
    HOLDS(resources->shared_bytes >= 0 && resources->scratch_bytes >= 0 && resources->argument_bytes >= 0,
          "bytes of %s", resources->kernel);
    HOLDS(resources->wave_size >= 1 && resources->wave_size <= 64, "wave of %d", resources->wave_size);
    HOLDS(resources->max_threads == -1 || (resources->max_threads >= 1 && resources->max_threads <= 1024), "%d threads",
          resources->max_threads);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = fuzz_bytes(data, size);
    struct resources resources, named;
    struct error error = {.message = ""};
    char hex[129];
    walk_elf(bytes, size);
    attune_status status = codeobject_resources(bytes, size, NULL, &resources, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        check_resources(&resources);
        HOLDS(codeobject_resources(bytes, size, resources.kernel, &named, &error) == ATTUNE_OK,
              "kernel %s is not found by its name: %s", resources.kernel, error.message);
        HOLDS(strcmp(named.kernel, resources.kernel) == 0, "%s is found as %s", resources.kernel, named.kernel);
    }
    error = (struct error){.message = ""};
    status = codeobject_build_id(bytes, size, hex, sizeof hex, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        HOLDS(strspn(hex, "0123456789abcdef") == strlen(hex) && strlen(hex) >= 2, "build ID '%s'", hex);
    }
    free(bytes);
    return 0;
}
