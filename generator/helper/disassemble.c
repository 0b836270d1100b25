/* disassemble.c - machine code as text: LLVM's C interface for AMD and x86-64, NVIDIA's programs for cubins.
 *
 * The functions are declared here by hand, so that building needs no LLVM. AMD's comgr knows only its own targets; a
 * plain libLLVM knows all of its release's. Branch targets are computed from the operand and shown as addresses;
 * DisInfo stays NULL because LLVM's AMDGPU symbolizer takes it for a C++ object of its own.
 */
#include "generator/helper/helper.h"

#include "base/elf_reader.h"
#include "base/environment.h"
#include "base/files.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *llvm_context;

struct disassembler {
    void *library;
    char name[64];
    bool has_amd;
    bool has_x86;
    llvm_context (*create)(const char *triple, const char *processor, const char *features, void *info, int tag,
                           void *operand, void *symbol);
    size_t (*instruction)(llvm_context, const uint8_t *bytes, uint64_t size, uint64_t address, char *text,
                          size_t text_bytes);
    int (*options)(llvm_context, uint64_t);
    void (*dispose)(llvm_context);
};

enum { OLDEST_LLVM = 14, NEWEST_LLVM = 30, PRINT_HEXADECIMAL = 2, LISTING_BYTES = 32 << 20 };

static bool initialise(void *library, const char *architecture)
{
    static const char *const parts[] = {"TargetInfo", "TargetMC", "Disassembler"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[96];
        void (*function)(void) = NULL;
        (void)snprintf(name, sizeof name, "LLVMInitialize%s%s", architecture, parts[i]);
        *(void **)&function = dlsym(library, name);
        if (function == NULL) {
            return false;
        }
        function();
    }
    return true;
}

static void *open_llvm(char *name, size_t bytes)
{
    static const char *const forms[] = {"libLLVM.so.%d.1", "libLLVM-%d.so.1", "libLLVM-%d.so"};
    for (int version = NEWEST_LLVM; version >= OLDEST_LLVM; version--) {
        for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
            char file[64];
            (void)snprintf(file, sizeof file, forms[i], version);
            void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
            if (library != NULL) {
                (void)snprintf(name, bytes, "%s", file);
                return library;
            }
        }
    }
    (void)snprintf(name, bytes, "libLLVM.so");
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static struct disassembler *load(struct helper *helper)
{
    if (helper->disassembler != NULL) {
        return helper->disassembler;
    }
    struct disassembler *llvm = calloc(1, sizeof *llvm);
    if (llvm == NULL) {
        return NULL;
    }
    helper->disassembler = llvm;
    llvm->library = open_llvm(llvm->name, sizeof llvm->name);
    if (llvm->library == NULL) {
        llvm->name[0] = '\0';
        return llvm;
    }
    *(void **)&llvm->create = dlsym(llvm->library, "LLVMCreateDisasmCPUFeatures");
    *(void **)&llvm->instruction = dlsym(llvm->library, "LLVMDisasmInstruction");
    *(void **)&llvm->options = dlsym(llvm->library, "LLVMSetDisasmOptions");
    *(void **)&llvm->dispose = dlsym(llvm->library, "LLVMDisasmDispose");
    if (llvm->create != NULL && llvm->instruction != NULL && llvm->options != NULL && llvm->dispose != NULL) {
        llvm->has_amd = initialise(llvm->library, "AMDGPU");
        llvm->has_x86 = initialise(llvm->library, "X86");
    }
    return llvm;
}

/* ---- the object ---- */

struct region {
    const char *name; /* of the function, or of the section */
    const uint8_t *bytes;
    uint64_t size;
    uint64_t address;
};

static bool code_region(const struct elf *elf, unsigned index, uint64_t address, uint64_t size, struct region *region)
{
    Elf64_Shdr section;
    const char *name;
    const uint8_t *bytes;
    size_t length;
    if (!elf_section(elf, index, &section, &name) || (section.sh_flags & SHF_EXECINSTR) == 0 ||
        !elf_contents(elf, &section, &bytes, &length) || address < section.sh_addr ||
        address - section.sh_addr > length || size > length - (address - section.sh_addr)) {
        return false;
    }
    region->bytes = bytes + (address - section.sh_addr);
    region->size = size;
    region->address = address;
    return true;
}

static int compare_regions(const void *left, const void *right)
{
    const struct region *a = left;
    const struct region *b = right;
    return a->address < b->address ? -1 : a->address > b->address ? 1 : strcmp(a->name, b->name);
}

/* functions of the first symbol table of a kind */
static int functions(const struct elf *elf, uint32_t table_type, struct region *regions, int capacity)
{
    Elf64_Shdr table;
    Elf64_Sym symbol;
    const char *name;
    int count = 0;
    for (unsigned s = 0; elf_section(elf, s, &table, &name); s++) {
        if (table.sh_type != table_type) {
            continue;
        }
        for (uint64_t i = 0; count < capacity && elf_symbol(elf, &table, i, &symbol, &name); i++) {
            if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_size > 0 &&
                code_region(elf, symbol.st_shndx, symbol.st_value, symbol.st_size, &regions[count])) {
                regions[count++].name = name;
            }
        }
    }
    return count;
}

/* without any function the executable sections, whole */
static int find_code(const struct elf *elf, struct region *regions, int capacity)
{
    Elf64_Shdr section;
    const char *name;
    int count = functions(elf, SHT_SYMTAB, regions, capacity);
    if (count == 0) {
        count = functions(elf, SHT_DYNSYM, regions, capacity);
    }
    bool whole = count == 0;
    for (unsigned s = 0; whole && count < capacity && elf_section(elf, s, &section, &name); s++) {
        if (code_region(elf, s, section.sh_addr, section.sh_size, &regions[count])) {
            regions[count++].name = name;
        }
    }
    qsort(regions, (size_t)count, sizeof regions[0], compare_regions);
    return count;
}

/* ---- printing ---- */

/* the address a branch goes to, from LLVM's text: AMD counts words from the next instruction, x86 bytes */
static bool branch_target(bool amd, const char *text, uint64_t next, uint64_t *target)
{
    const char *operand = strpbrk(text, " \t");
    char *end = NULL;
    if (operand == NULL) {
        return false;
    }
    size_t length = (size_t)(operand - text);
    operand += strspn(operand, " \t");
    if (amd ? strncmp(text, "s_cbranch", 9) != 0 && strncmp(text, "s_branch", 8) != 0
            : text[0] != 'j' && !(length >= 4 && strncmp(text, "call", 4) == 0)) {
        return false;
    }
    long long value = strtoll(operand, &end, 0);
    if (end == operand || (*end != '\0' && *end != ' ')) {
        return false;
    }
    *target = amd ? next + (uint64_t)(4 * (int64_t)(int16_t)value) : next + (uint64_t)value;
    return true;
}

static void print_region(const struct disassembler *llvm, llvm_context context, bool amd, const struct region *region,
                         struct buffer *text)
{
    buffer_format(text, "%016llx <%s>:\n", (unsigned long long)region->address, region->name);
    for (uint64_t at = 0; at < region->size;) {
        char line[512];
        uint64_t target = 0;
        uint64_t address = region->address + at;
        size_t used = llvm->instruction(context, region->bytes + at, region->size - at, address, line, sizeof line);
        if (used == 0) {
            used = amd ? 4 : 1;
            if (used > region->size - at) {
                used = (size_t)(region->size - at);
            }
            buffer_format(text, "  %8llx:  .byte", (unsigned long long)address);
            for (size_t i = 0; i < used; i++) {
                buffer_format(text, " 0x%02x", region->bytes[at + i]);
            }
            buffer_text(text, "\n");
        } else {
            const char *begin = line + strspn(line, " \t");
            buffer_format(text, "  %8llx:  %s", (unsigned long long)address, begin);
            if (branch_target(amd, begin, address + used, &target)) {
                buffer_format(text, "  ; to %llx", (unsigned long long)target);
                if (target - region->address < region->size) {
                    buffer_format(text, " <%s+0x%llx>", region->name, (unsigned long long)(target - region->address));
                }
            }
            buffer_text(text, "\n");
        }
        at += used;
    }
    buffer_text(text, "\n");
}

static attune_status with_llvm(const struct disassembler *llvm, const struct target *target, const char *object,
                               size_t bytes, struct buffer *text, struct error *error)
{
    enum { REGIONS_MAX = 4096 };
    bool amd = target->vendor == TARGET_AMD;
    struct elf elf;
    llvm_context context = NULL;
    attune_status status = ATTUNE_OK;
    struct region *regions = calloc(REGIONS_MAX, sizeof *regions);
    if (regions == NULL) {
        status = error_no_memory(error);
        goto out;
    }
    if (!elf_open(&elf, object, bytes)) {
        status = error_set(error, ATTUNE_CORRUPT, "the object to disassemble is no whole 64-bit ELF file");
        goto out;
    }
    context = llvm->create(amd ? "amdgcn-amd-amdhsa" : "x86_64-pc-linux-gnu", amd ? target->processor : "", "", NULL, 0,
                           NULL, NULL);
    if (context == NULL) {
        status = error_set(error, ATTUNE_NO_TOOLCHAIN, "%s cannot disassemble %s", llvm->name, target->processor);
    } else {
        (void)llvm->options(context, PRINT_HEXADECIMAL);
        int count = find_code(&elf, regions, REGIONS_MAX);
        for (int i = 0; i < count; i++) {
            print_region(llvm, context, amd, &regions[i], text);
        }
        llvm->dispose(context);
    }
out:
    free(regions);
    return status == ATTUNE_OK ? buffer_ok(text, error) : status;
}

/* `program argument FILE` on the object written to our folder */
static attune_status with_program(struct helper *helper, const char *program, const char *argument, const char *object,
                                  size_t bytes, struct buffer *text, struct error *error)
{
    char path[PATH_MAX];
    char how[64];
    struct buffer errors = BUFFER_INIT;
    attune_status status = path_join(path, sizeof path, helper->folder, "object", error);
    if (status == ATTUNE_OK) {
        status = file_write(path, object, bytes, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    const char *const argv[] = {program, argument, path, NULL};
    struct run run = {.argv = argv, .output = text, .errors = &errors, .kept_bytes = LISTING_BYTES};
    status = run_program(&run, error);
    if (status == ATTUNE_OK && run.exit_code != 0) {
        run_describe(&run, how, sizeof how);
        status = error_set(error, ATTUNE_COMPILE_FAILED, "%s could not disassemble the object%s: %.300s", program, how,
                           buffer_string(&errors));
    }
    buffer_free(&errors);
    (void)remove(path);
    return status;
}

static bool find_cuda_program(const char *name, char path[PATH_MAX])
{
    const char *roots[] = {environment_get("CUDA_HOME"), environment_get("CUDA_PATH"), "/usr/local/cuda"};
    if (run_find(name, path, NULL)) {
        return true;
    }
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        char candidate[PATH_MAX];
        (void)snprintf(candidate, sizeof candidate, "%s/bin/%s", roots[i] != NULL ? roots[i] : "", name);
        if (roots[i] != NULL && run_find(candidate, path, NULL)) {
            return true;
        }
    }
    return false;
}

attune_status disassemble(struct helper *helper, const struct target *target, const char *object, size_t bytes,
                          struct buffer *text, struct error *error)
{
    char path[PATH_MAX];
    const struct disassembler *llvm = load(helper);
    if (target->vendor == TARGET_NVIDIA) {
        if (find_cuda_program("nvdisasm", path)) {
            return with_program(helper, path, "-c", object, bytes, text, error);
        }
        if (find_cuda_program("cuobjdump", path)) {
            return with_program(helper, path, "-sass", object, bytes, text, error);
        }
        return error_set(error, ATTUNE_NO_TOOLCHAIN,
                         "disassembling %s needs nvdisasm or cuobjdump in PATH or CUDA_HOME/bin: install CUDA's binary "
                         "utilities",
                         target->processor);
    }
    if (llvm != NULL && (target->vendor == TARGET_AMD ? llvm->has_amd : llvm->has_x86)) {
        return with_llvm(llvm, target, object, bytes, text, error);
    }
    if (target->vendor == TARGET_HOST && run_find("objdump", path, NULL)) {
        return with_program(helper, path, "-d", object, bytes, text, error);
    }
    return error_set(error, ATTUNE_NO_TOOLCHAIN, "disassembling %s needs libLLVM (Debian: libllvm19 or libllvm22)%s",
                     target->processor, target->vendor == TARGET_HOST ? " or objdump (binutils)" : "");
}

json_t *disassembler_survey(struct helper *helper)
{
    const struct disassembler *llvm = load(helper);
    const char *const parts[] = {llvm != NULL ? llvm->name : NULL, NULL};
    struct identity identity = {.count = 0};
    json_t *targets = json_array();
    char path[PATH_MAX];
    bool nvidia = find_cuda_program("nvdisasm", path) || find_cuda_program("cuobjdump", path);
    bool found = llvm != NULL && llvm->library != NULL;
    if (found) {
        identity_add_loaded(&identity, parts);
    }
    if (found && llvm->has_amd) {
        json_array_append_new(targets, json_string("amd"));
    }
    if ((found && llvm->has_x86) || run_find("objdump", path, NULL)) {
        json_array_append_new(targets, json_string("host"));
    }
    if (nvidia) {
        json_array_append_new(targets, json_string("nvidia"));
    }
    return survey_entry("disassembler", found, found ? llvm->name : "", &identity, targets,
                        !found    ? "install libLLVM to disassemble AMD code"
                        : !nvidia ? "install nvdisasm or cuobjdump to disassemble NVIDIA code"
                                  : NULL);
}
