/* codeobject.c - which reader an object needs; notes of host objects; build IDs. */
#include "base/codeobject_private.h"

#include <stdio.h>
#include <string.h>

enum { MACHINE_NVIDIA = 190, MACHINE_AMDGPU = 224, HOST_NOTE_TYPE = 1, BUILD_ID_BYTES_MAX = 64 };

static bool is_printable(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return true;
}

attune_status codeobject_set_kernel(struct resources *resources, const char *name, size_t length, struct error *error)
{
    if (length == 0 || length >= sizeof resources->kernel || memchr(name, '\0', length)) {
        return error_set(error, ATTUNE_CORRUPT, "code object: a kernel's name of %zu bytes, 1 to %zu are legal", length,
                         sizeof resources->kernel - 1);
    }
    if (!is_printable(name, length)) {
        return error_set(error, ATTUNE_CORRUPT, "code object: a kernel's name holds more than printable ASCII");
    }
    memcpy(resources->kernel, name, length);
    resources->kernel[length] = '\0';
    return ATTUNE_OK;
}

static bool find_host_note(const struct elf *elf, struct host_note *note)
{
    struct elf_note found = {0};
    while (elf_next_note(elf, &found)) {
        if (strcmp(found.owner, "attune") == 0 && found.type == HOST_NOTE_TYPE && found.length == sizeof *note) {
            memcpy(note, found.bytes, sizeof *note);
            return true;
        }
    }
    return false;
}

static attune_status read_host(const struct elf *elf, const char *kernel, struct resources *resources,
                               struct error *error)
{
    struct host_note note;
    struct target target;
    if (!find_host_note(elf, &note)) {
        return error_set(error, ATTUNE_CORRUPT,
                         "code object: machine %u and no note of ours: neither AMD, NVIDIA nor host code",
                         elf->header.e_machine);
    }
    if (note.version != 1) {
        return error_set(error, ATTUNE_UNSUPPORTED, "host object: its note has version %u, this library reads 1",
                         note.version);
    }
    if (note.wave_size < 1 || note.wave_size > 64 || note.threads < 1 || note.threads > CODEOBJECT_THREADS_MAX ||
        note.shared_bytes > INT32_MAX || note.argument_bytes > INT32_MAX ||
        !memchr(note.kernel, '\0', sizeof note.kernel) || !memchr(note.target, '\0', sizeof note.target) ||
        target_parse(note.target, &target, NULL) != ATTUNE_OK || target.vendor != TARGET_HOST) {
        return error_set(error, ATTUNE_CORRUPT, "host object: its note holds impossible values");
    }
    if (kernel && strcmp(kernel, note.kernel) != 0) {
        return error_set(error, ATTUNE_NOT_FOUND, "host object: no kernel %s in it, only %s", kernel, note.kernel);
    }
    attune_status status = codeobject_set_kernel(resources, note.kernel, strlen(note.kernel), error);
    if (status != ATTUNE_OK) {
        return status;
    }
    Elf64_Shdr text;
    target_format(&target, resources->target);
    resources->vector_registers = -1;
    resources->scalar_registers = -1;
    resources->shared_bytes = (int32_t)note.shared_bytes;
    resources->wave_size = (int32_t)note.wave_size;
    resources->argument_bytes = (int32_t)note.argument_bytes;
    resources->max_threads = (int32_t)note.threads;
    resources->code_bytes = elf_find_section(elf, ".text", &text) ? text.sh_size : 0;
    return ATTUNE_OK;
}

attune_status codeobject_resources(const void *bytes, size_t length, const char *kernel, struct resources *resources,
                                   struct error *error)
{
    struct elf elf;
    struct resources read = {0};
    if (!elf_open(&elf, bytes, length)) {
        return error_set(error, ATTUNE_CORRUPT, "code object: %zu bytes that are no 64-bit little-endian ELF file",
                         length);
    }
    attune_status status;
    if (elf.header.e_machine == MACHINE_AMDGPU) {
        status = codeobject_read_amd(&elf, kernel, &read, error);
    } else if (elf.header.e_machine == MACHINE_NVIDIA) {
        status = codeobject_read_nvidia(&elf, kernel, &read, error);
    } else {
        status = read_host(&elf, kernel, &read, error);
    }
    if (status == ATTUNE_OK) {
        *resources = read;
    }
    return status;
}

attune_status codeobject_build_id(const void *bytes, size_t length, char *hex, size_t hex_bytes, struct error *error)
{
    struct elf elf;
    struct elf_note note = {0};
    if (!elf_open(&elf, bytes, length)) {
        return error_set(error, ATTUNE_CORRUPT, "build ID: %zu bytes that are no 64-bit little-endian ELF file",
                         length);
    }
    while (elf_next_note(&elf, &note)) {
        if (strcmp(note.owner, "GNU") != 0 || note.type != NT_GNU_BUILD_ID || note.length == 0 ||
            note.length > BUILD_ID_BYTES_MAX) {
            continue;
        }
        if (2 * note.length >= hex_bytes) {
            return error_set(error, ATTUNE_INVALID, "build ID: %zu digits do not fit %zu bytes", 2 * note.length,
                             hex_bytes);
        }
        for (size_t i = 0; i < note.length; i++) {
            snprintf(hex + 2 * i, 3, "%02x", note.bytes[i]);
        }
        return ATTUNE_OK;
    }
    return error_set(error, ATTUNE_NOT_FOUND, "build ID: the file has no GNU build ID note");
}
