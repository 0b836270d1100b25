/* codeobject_amd.c - AMDGPU code objects v4 and later.
 *
 * Source: LLVM "User Guide for AMDGPU Backend", code object metadata: a note, owner AMDGPU, type 32, holds a
 * MessagePack map
 *   {"amdhsa.kernels": [{".name": ..., ".vgpr_count": ...}, ...], "amdhsa.target": "amdgcn-amd-amdhsa--gfx906", ...}
 */
#include "base/codeobject_private.h"
#include "base/msgpack.h"

#include <string.h>

enum { METADATA_NOTE = 32 };

static bool text_is(const char *text, size_t length, const char *expected)
{
    return length == strlen(expected) && memcmp(text, expected, length) == 0;
}

/* the metadata's integers and where they go */
struct numbers {
    int64_t vgpr_count, agpr_count, sgpr_count, vgpr_spill_count, group_bytes, private_bytes, wave, arguments, threads;
    int64_t hidden; /* entries of .args whose .value_kind begins with "hidden_" */
    const char *name;
    size_t name_length;
};

static int64_t *number_of(struct numbers *numbers, const char *key, size_t length)
{
    const struct {
        const char *key;
        int64_t *number;
    } table[] = {
        {".vgpr_count", &numbers->vgpr_count},
        {".agpr_count", &numbers->agpr_count},
        {".sgpr_count", &numbers->sgpr_count},
        {".vgpr_spill_count", &numbers->vgpr_spill_count},
        {".group_segment_fixed_size", &numbers->group_bytes},
        {".private_segment_fixed_size", &numbers->private_bytes},
        {".wavefront_size", &numbers->wave},
        {".kernarg_segment_size", &numbers->arguments},
        {".max_flat_workgroup_size", &numbers->threads},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (text_is(key, length, table[i].key)) {
            return table[i].number;
        }
    }
    return NULL;
}

static bool read_hidden(struct msgpack *cursor)
{
    static const char hidden[] = "hidden_";
    const size_t prefix = sizeof hidden - 1;
    uint32_t pairs = 0;
    bool is_hidden = false;
    msgpack_map(cursor, &pairs);
    for (uint32_t i = 0; i < pairs && !cursor->broken; i++) {
        const char *key = "", *kind = "";
        size_t length = 0, kind_length = 0;
        msgpack_string(cursor, &key, &length);
        if (text_is(key, length, ".value_kind")) {
            msgpack_string(cursor, &kind, &kind_length);
            is_hidden = kind_length >= prefix && memcmp(kind, hidden, prefix) == 0;
        } else {
            msgpack_skip(cursor);
        }
    }
    return is_hidden;
}

static int64_t count_hidden(struct msgpack *cursor)
{
    uint32_t count = 0;
    int64_t hidden = 0;
    msgpack_array(cursor, &count);
    for (uint32_t i = 0; i < count && !cursor->broken; i++) {
        hidden += read_hidden(cursor);
    }
    return hidden;
}

static void read_kernel(struct msgpack *cursor, struct numbers *numbers)
{
    uint32_t pairs = 0;
    /* what must be there starts impossible */
    *numbers = (struct numbers){.vgpr_count = -1,
                                .sgpr_count = -1,
                                .group_bytes = -1,
                                .private_bytes = -1,
                                .wave = -1,
                                .arguments = -1,
                                .threads = -1};
    if (!msgpack_map(cursor, &pairs)) {
        return;
    }
    for (uint32_t i = 0; i < pairs && !cursor->broken; i++) {
        const char *key = "";
        size_t length = 0;
        msgpack_string(cursor, &key, &length);
        int64_t *number = number_of(numbers, key, length);
        if (number) {
            msgpack_integer(cursor, number);
        } else if (text_is(key, length, ".name")) {
            msgpack_string(cursor, &numbers->name, &numbers->name_length);
        } else if (text_is(key, length, ".args")) {
            numbers->hidden = count_hidden(cursor);
        } else {
            msgpack_skip(cursor);
        }
    }
}

/* the list of kernels: keeps the wanted one, or the first */
static void read_kernels(struct msgpack *cursor, const char *kernel, struct numbers *kept, bool *found)
{
    uint32_t count = 0;
    if (!msgpack_array(cursor, &count)) {
        return;
    }
    for (uint32_t i = 0; i < count && !cursor->broken; i++) {
        struct numbers numbers;
        read_kernel(cursor, &numbers);
        if (!*found && numbers.name && (!kernel || text_is(numbers.name, numbers.name_length, kernel))) {
            *kept = numbers;
            *found = true;
        }
    }
}

/* "amdgcn-amd-amdhsa--gfx906:sramecc+" without its triple */
static bool read_target(const char *text, size_t length, struct target *target)
{
    static const char triple[] = "amdgcn-amd-amdhsa--";
    char id[TARGET_TEXT_BYTES];
    size_t skip = sizeof triple - 1;
    if (!text || length <= skip || length - skip >= sizeof id || memcmp(text, triple, skip) != 0 ||
        memchr(text, '\0', length)) {
        return false;
    }
    memcpy(id, text + skip, length - skip);
    id[length - skip] = '\0';
    return target_parse(id, target, NULL) == ATTUNE_OK && target->vendor == TARGET_AMD;
}

/* The driver goes by e_flags, readers of metadata by the note: they must agree (LLVM AMDGPU usage, e_flags of code
 * object V4 and later: two bits a feature, 0 unsupported, 1 any, 2 off, 3 on). */
static bool flag_is(uint32_t bits, enum target_feature feature)
{
    return feature == TARGET_FEATURE_ON ? bits == 3 : feature == TARGET_FEATURE_OFF ? bits == 2 : bits <= 1;
}

static attune_status check_flags(uint32_t flags, const struct target *target, struct error *error)
{
    char text[TARGET_TEXT_BYTES];
    if (flag_is(flags >> 8 & 3, target->xnack) && flag_is(flags >> 10 & 3, target->sramecc)) {
        return ATTUNE_OK;
    }
    target_format(target, text);
    return error_set(error, ATTUNE_CORRUPT, "AMD code object: its metadata says %s, its e_flags 0x%x another target",
                     text, flags);
}

/* From gfx90a on AGPRs are the upper part of one register file and the count is of both */
static bool unified_registers(const struct target *target)
{
    return strcmp(target->processor, "gfx90a") == 0 || strncmp(target->processor, "gfx94", 5) == 0 ||
           strncmp(target->processor, "gfx95", 5) == 0;
}

static bool fits(int64_t value)
{
    return value >= 0 && value <= INT32_MAX;
}

static uint64_t symbol_size(const struct elf *elf, const char *name)
{
    Elf64_Shdr section;
    Elf64_Sym symbol;
    const char *found;
    if (!elf_find_section(elf, ".dynsym", &section)) {
        return 0;
    }
    for (uint64_t i = 0; elf_symbol(elf, &section, i, &symbol, &found); i++) {
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && strcmp(found, name) == 0) {
            return symbol.st_size;
        }
    }
    return 0;
}

static attune_status fill(const struct numbers *numbers, const struct target *target, struct resources *resources,
                          struct error *error)
{
    if (!fits(numbers->vgpr_count) || !fits(numbers->agpr_count) || !fits(numbers->sgpr_count) ||
        !fits(numbers->vgpr_spill_count) || !fits(numbers->group_bytes) || !fits(numbers->private_bytes) ||
        (numbers->wave != 32 && numbers->wave != 64) || !fits(numbers->arguments) || !fits(numbers->hidden) ||
        numbers->threads < 1 || numbers->threads > CODEOBJECT_THREADS_MAX) {
        return error_set(error, ATTUNE_CORRUPT,
                         "AMD code object: the metadata of kernel %s lacks values or has impossible ones",
                         resources->kernel);
    }
    int64_t vector = numbers->vgpr_count - (unified_registers(target) ? numbers->agpr_count : 0);
    if (vector < 0) {
        return error_set(error, ATTUNE_CORRUPT, "AMD code object: kernel %s has more accumulators than registers",
                         resources->kernel);
    }
    target_format(target, resources->target);
    resources->vector_registers = (int32_t)vector;
    resources->accumulator_registers = (int32_t)numbers->agpr_count;
    resources->scalar_registers = (int32_t)numbers->sgpr_count;
    resources->spilled_registers = (int32_t)numbers->vgpr_spill_count;
    resources->shared_bytes = (int32_t)numbers->group_bytes;
    resources->scratch_bytes = (int32_t)numbers->private_bytes;
    resources->wave_size = (int32_t)numbers->wave;
    resources->argument_bytes = (int32_t)numbers->arguments;
    resources->hidden_arguments = (int32_t)numbers->hidden;
    resources->max_threads = (int32_t)numbers->threads;
    return ATTUNE_OK;
}

attune_status codeobject_read_amd(const struct elf *elf, const char *kernel, struct resources *resources,
                                  struct error *error)
{
    struct elf_note note = {0};
    bool present = false;
    while (!present && elf_next_note(elf, &note)) {
        present = strcmp(note.owner, "AMDGPU") == 0 && note.type == METADATA_NOTE;
    }
    if (!present) {
        return error_set(error, ATTUNE_CORRUPT,
                         "AMD code object: no metadata note; compile for code object version 4 or later");
    }
    struct msgpack cursor = {note.bytes, note.bytes + note.length, false};
    struct numbers numbers = {0};
    const char *target_text = NULL;
    size_t target_length = 0;
    uint32_t pairs = 0;
    bool found = false;
    msgpack_map(&cursor, &pairs);
    for (uint32_t i = 0; i < pairs && !cursor.broken; i++) {
        const char *key = "";
        size_t length = 0;
        msgpack_string(&cursor, &key, &length);
        if (text_is(key, length, "amdhsa.kernels")) {
            read_kernels(&cursor, kernel, &numbers, &found);
        } else if (text_is(key, length, "amdhsa.target")) {
            msgpack_string(&cursor, &target_text, &target_length);
        } else {
            msgpack_skip(&cursor);
        }
    }
    struct target target;
    if (cursor.broken || !read_target(target_text, target_length, &target)) {
        return error_set(
            error, ATTUNE_CORRUPT,
            "AMD code object: its metadata is damaged or names no target; code object version 4 or later is needed");
    }
    if (!found) {
        return error_set(error, ATTUNE_NOT_FOUND, "AMD code object: no kernel %s in it", kernel ? kernel : "at all");
    }
    attune_status status = check_flags(elf->header.e_flags, &target, error);
    if (status == ATTUNE_OK) {
        status = codeobject_set_kernel(resources, numbers.name, numbers.name_length, error);
    }
    if (status == ATTUNE_OK) {
        status = fill(&numbers, &target, resources, error);
    }
    if (status == ATTUNE_OK) {
        resources->code_bytes = symbol_size(elf, resources->kernel);
    }
    return status;
}
