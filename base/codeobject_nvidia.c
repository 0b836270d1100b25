/* codeobject_nvidia.c - CUDA cubins.
 *
 * The format is not published; what follows was read off cubins of CUDA 13 for sm_75 to sm_120 beside cuobjdump's and
 * ptxas's own answers (tests/base/data holds some).
 *
 *   .nv.info         records for the whole file: registers and stack, by symbol index
 *   .nv.info.KERNEL  records of one kernel: parameters, launch bound
 *   .nv.shared.KERNEL  its size is the static shared memory; from sm_90 on with the 1 KiB that the system keeps for
 * itself .nv.compat       records; attribute 9 tells sm_90a (1) from sm_90 (0), which the flags do not A record is
 * format, attribute, 16-bit value; with format 4 the value counts the bytes that follow.
 */
#include "base/codeobject_private.h"

#include <stdio.h>
#include <string.h>

enum { FORMAT_LONG = 4 };
enum {
    ATTRIBUTE_MAX_THREADS = 0x05,      /* 3 x u32, from __launch_bounds__ */
    ATTRIBUTE_REQUIRED_THREADS = 0x10, /* 3 x u32 */
    ATTRIBUTE_FRAME_BYTES = 0x11,      /* symbol, bytes */
    ATTRIBUTE_STACK_BYTES = 0x12,      /* symbol, bytes: with callees */
    ATTRIBUTE_PARAMETER_BYTES = 0x19,  /* 16-bit value */
    ATTRIBUTE_REGISTERS = 0x2f,        /* symbol, count */
    COMPAT_SPECIFIC = 0x09
};
enum { ENTRY_SYMBOL = 0x10, ABI_CUDA_13 = 8, RESERVED_SHARED_BYTES = 1024 };

struct record {
    uint8_t format, attribute;
    uint16_t value;
    uint32_t words[3]; /* the first ones of a long record, else 0 */
};

/* takes a record off the front of *bytes; false at the end or when it is cut */
static bool next_record(const uint8_t **bytes, size_t *length, struct record *record)
{
    if (*length < 4) {
        return false;
    }
    *record = (struct record){.format = (*bytes)[0], .attribute = (*bytes)[1]};
    record->value = (uint16_t)((*bytes)[2] | (*bytes)[3] << 8);
    size_t follows = record->format == FORMAT_LONG ? record->value : 0;
    if (follows > *length - 4) {
        return false;
    }
    memcpy(record->words, *bytes + 4, follows < sizeof record->words ? follows : sizeof record->words);
    *bytes += 4 + follows;
    *length -= 4 + follows;
    return true;
}

struct kernel {
    uint64_t symbol;
    Elf64_Sym facts;
    const char *name;
};

/* the first entry point, or the one wanted */
static bool find_kernel(const struct elf *elf, const char *wanted, struct kernel *kernel)
{
    Elf64_Shdr table;
    if (!elf_find_section(elf, ".symtab", &table)) {
        return false;
    }
    for (kernel->symbol = 0; elf_symbol(elf, &table, kernel->symbol, &kernel->facts, &kernel->name); kernel->symbol++) {
        if (ELF64_ST_TYPE(kernel->facts.st_info) == STT_FUNC && (kernel->facts.st_other & ENTRY_SYMBOL) &&
            (!wanted || strcmp(kernel->name, wanted) == 0)) {
            return true;
        }
    }
    return false;
}

static bool find_kernel_section(const struct elf *elf, const char *prefix, const char *kernel, Elf64_Shdr *section)
{
    char name[128];
    int length = snprintf(name, sizeof name, "%s%s", prefix, kernel);
    return length > 0 && (size_t)length < sizeof name && elf_find_section(elf, name, section);
}

static bool read_file_records(const struct elf *elf, uint64_t symbol, struct resources *resources)
{
    Elf64_Shdr section;
    const uint8_t *bytes;
    size_t length;
    struct record record;
    if (!elf_find_section(elf, ".nv.info", &section) || !elf_contents(elf, &section, &bytes, &length)) {
        return false;
    }
    while (next_record(&bytes, &length, &record)) {
        if (record.format != FORMAT_LONG || record.value < 8 || record.words[0] != symbol ||
            record.words[1] > INT32_MAX) {
            continue;
        }
        int32_t value = (int32_t)record.words[1];
        if (record.attribute == ATTRIBUTE_REGISTERS) {
            resources->vector_registers = value;
        } else if (record.attribute == ATTRIBUTE_FRAME_BYTES || record.attribute == ATTRIBUTE_STACK_BYTES) {
            resources->scratch_bytes = value > resources->scratch_bytes ? value : resources->scratch_bytes;
        }
    }
    return resources->vector_registers >= 0;
}

static bool read_kernel_records(const struct elf *elf, const char *kernel, struct resources *resources)
{
    Elf64_Shdr section;
    const uint8_t *bytes;
    size_t length;
    struct record record;
    if (!find_kernel_section(elf, ".nv.info.", kernel, &section) || !elf_contents(elf, &section, &bytes, &length)) {
        return false;
    }
    while (next_record(&bytes, &length, &record)) {
        bool threads = record.attribute == ATTRIBUTE_MAX_THREADS || record.attribute == ATTRIBUTE_REQUIRED_THREADS;
        if (record.attribute == ATTRIBUTE_PARAMETER_BYTES && record.format != FORMAT_LONG) {
            resources->argument_bytes = record.value;
        } else if (threads && record.format == FORMAT_LONG && record.value >= 12) {
            uint64_t product = 1;
            for (int i = 0; i < 3 && product <= CODEOBJECT_THREADS_MAX; i++) {
                product *= record.words[i];
            }
            if (product < 1 || product > CODEOBJECT_THREADS_MAX) {
                return false;
            }
            resources->max_threads = (int32_t)product;
        }
    }
    return true;
}

static bool architecture_specific(const struct elf *elf)
{
    Elf64_Shdr section;
    const uint8_t *bytes;
    size_t length;
    struct record record;
    if (!elf_find_section(elf, ".nv.compat", &section) || !elf_contents(elf, &section, &bytes, &length)) {
        return false;
    }
    while (next_record(&bytes, &length, &record)) {
        if (record.attribute == COMPAT_SPECIFIC && record.format != FORMAT_LONG) {
            return (record.value & 0xff) == 1;
        }
    }
    return false;
}

/* e_flags: the number of the architecture in bits 8-15 since CUDA 13, in bits 0-7 before, where bit 11 said `a` (LLVM's
 * BinaryFormat/ELF.h) */
static attune_status read_target(const struct elf *elf, int *number, char target[TARGET_TEXT_BYTES],
                                 struct error *error)
{
    bool current = elf->header.e_ident[EI_ABIVERSION] >= ABI_CUDA_13;
    uint32_t flags = elf->header.e_flags;
    *number = (int)(current ? flags >> 8 & 0xff : flags & 0xff);
    bool specific = current ? architecture_specific(elf) : (flags & 0x800) != 0;
    if (*number < 20) {
        return error_set(error, ATTUNE_CORRUPT, "cubin: flags %08x (ABI version %u) name no architecture", flags,
                         elf->header.e_ident[EI_ABIVERSION]);
    }
    snprintf(target, TARGET_TEXT_BYTES, "sm_%d%s", *number, specific ? "a" : "");
    return ATTUNE_OK;
}

attune_status codeobject_read_nvidia(const struct elf *elf, const char *wanted, struct resources *resources,
                                     struct error *error)
{
    struct kernel kernel;
    Elf64_Shdr section;
    int number;
    if (!find_kernel(elf, wanted, &kernel)) {
        return error_set(error, ATTUNE_NOT_FOUND, "cubin: no kernel %s in it", wanted ? wanted : "at all");
    }
    attune_status status = codeobject_set_kernel(resources, kernel.name, strlen(kernel.name), error);
    if (status == ATTUNE_OK) {
        status = read_target(elf, &number, resources->target, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    resources->vector_registers = -1;
    resources->scalar_registers = -1;
    resources->spilled_registers = -1;
    resources->wave_size = 32;
    resources->max_threads = -1;
    resources->code_bytes = kernel.facts.st_size;
    if (!read_file_records(elf, kernel.symbol, resources) || !read_kernel_records(elf, kernel.name, resources)) {
        return error_set(error, ATTUNE_CORRUPT, "cubin: the facts of kernel %s (.nv.info) are missing or damaged",
                         kernel.name);
    }
    if (find_kernel_section(elf, ".nv.shared.", kernel.name, &section)) {
        uint64_t bytes = section.sh_size;
        if (number >= 90 && bytes >= RESERVED_SHARED_BYTES) {
            bytes -= RESERVED_SHARED_BYTES;
        }
        if (bytes > INT32_MAX) {
            return error_set(error, ATTUNE_CORRUPT, "cubin: kernel %s has %llu bytes of shared memory", kernel.name,
                             (unsigned long long)bytes);
        }
        resources->shared_bytes = (int32_t)bytes;
    }
    return ATTUNE_OK;
}
