/* elf_reader.c - see the header. Structures are copied out, since nothing is aligned in untrusted bytes. */
#include "base/elf_reader.h"

#include <string.h>

enum { NAME_BYTES_MAX = 4096 };

static bool inside(const struct elf *elf, uint64_t offset, uint64_t size)
{
    return offset <= elf->length && size <= elf->length - offset;
}

bool elf_open(struct elf *elf, const void *bytes, size_t length)
{
    *elf = (struct elf){.bytes = bytes, .length = length};
    if (length < sizeof elf->header) {
        return false;
    }
    memcpy(&elf->header, bytes, sizeof elf->header);
    return memcmp(elf->header.e_ident, ELFMAG, SELFMAG) == 0 && elf->header.e_ident[EI_CLASS] == ELFCLASS64 &&
           elf->header.e_ident[EI_DATA] == ELFDATA2LSB;
}

/* A NUL-terminated string at `offset` of a string table, or NULL. Longer names than any of ours read as absent: else a
 * table of symbols that all name one text of megabytes takes hours to look through. */
static const char *table_string(const uint8_t *table, size_t length, uint64_t offset)
{
    if (offset >= length) {
        return NULL;
    }
    size_t left = length - (size_t)offset;
    if (!memchr(table + offset, '\0', left < NAME_BYTES_MAX ? left : NAME_BYTES_MAX)) {
        return NULL;
    }
    return (const char *)table + offset;
}

static bool read_section(const struct elf *elf, unsigned index, Elf64_Shdr *section)
{
    uint64_t skip = (uint64_t)index * sizeof *section; /* below 2^38 */
    if (index >= elf->header.e_shnum || elf->header.e_shentsize != sizeof *section ||
        elf->header.e_shoff > elf->length || !inside(elf, elf->header.e_shoff + skip, sizeof *section)) {
        return false;
    }
    memcpy(section, elf->bytes + elf->header.e_shoff + skip, sizeof *section);
    return true;
}

bool elf_contents(const struct elf *elf, const Elf64_Shdr *section, const uint8_t **bytes, size_t *length)
{
    if (section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL ||
        !inside(elf, section->sh_offset, section->sh_size)) {
        return false;
    }
    *bytes = elf->bytes + section->sh_offset;
    *length = (size_t)section->sh_size;
    return true;
}

bool elf_section(const struct elf *elf, unsigned index, Elf64_Shdr *section, const char **name)
{
    Elf64_Shdr names;
    const uint8_t *table;
    size_t length;
    if (!read_section(elf, index, section)) {
        return false;
    }
    *name = NULL;
    if (read_section(elf, elf->header.e_shstrndx, &names) && elf_contents(elf, &names, &table, &length)) {
        *name = table_string(table, length, section->sh_name);
    }
    if (!*name) {
        *name = "";
    }
    return true;
}

bool elf_find_section(const struct elf *elf, const char *name, Elf64_Shdr *section)
{
    const char *found;
    for (unsigned i = 0; elf_section(elf, i, section, &found); i++) {
        if (strcmp(found, name) == 0) {
            return true;
        }
    }
    return false;
}

bool elf_symbol(const struct elf *elf, const Elf64_Shdr *table, uint64_t index, Elf64_Sym *symbol, const char **name)
{
    Elf64_Shdr names;
    const uint8_t *bytes, *strings;
    size_t length, strings_length;
    if (!elf_contents(elf, table, &bytes, &length) || index >= length / sizeof *symbol) {
        return false;
    }
    memcpy(symbol, bytes + index * sizeof *symbol, sizeof *symbol);
    *name = NULL;
    if (read_section(elf, table->sh_link, &names) && elf_contents(elf, &names, &strings, &strings_length)) {
        *name = table_string(strings, strings_length, symbol->st_name);
    }
    if (!*name) {
        *name = "";
    }
    return true;
}

/* bytes and alignment of the part-th place that holds notes; false past the last. Empty when the part is something
 * else. */
static bool note_part(const struct elf *elf, unsigned part, const uint8_t **bytes, size_t *length, size_t *alignment)
{
    Elf64_Phdr segment;
    Elf64_Shdr section;
    *length = 0;
    if (part < elf->header.e_phnum) {
        uint64_t skip = (uint64_t)part * sizeof segment;
        if (elf->header.e_phentsize != sizeof segment || elf->header.e_phoff > elf->length ||
            !inside(elf, elf->header.e_phoff + skip, sizeof segment)) {
            return true;
        }
        memcpy(&segment, elf->bytes + elf->header.e_phoff + skip, sizeof segment);
        if (segment.p_type == PT_NOTE && inside(elf, segment.p_offset, segment.p_filesz)) {
            *bytes = elf->bytes + segment.p_offset;
            *length = (size_t)segment.p_filesz;
            *alignment = segment.p_align == 8 ? 8 : 4;
        }
        return true;
    }
    if (!read_section(elf, part - elf->header.e_phnum, &section)) {
        return false;
    }
    if (section.sh_type == SHT_NOTE && elf_contents(elf, &section, bytes, length)) {
        *alignment = section.sh_addralign == 8 ? 8 : 4;
    }
    return true;
}

/* one note of a part at note->offset */
static bool read_note(const uint8_t *bytes, size_t length, size_t alignment, struct elf_note *note)
{
    Elf64_Nhdr header;
    size_t at = note->offset;
    if (at > length || length - at < sizeof header) {
        return false;
    }
    memcpy(&header, bytes + at, sizeof header);
    at += sizeof header;
    size_t left = length - at;
    size_t owner_size =
        ((size_t)header.n_namesz + alignment - 1) / alignment * alignment; /* 32-bit values: no overflow */
    if (alignment == 8) { /* 8-aligned notes align the descriptor's offset, header included */
        owner_size = (sizeof header + (size_t)header.n_namesz + 7) / 8 * 8 - sizeof header;
    }
    if (header.n_namesz == 0 || owner_size > left || header.n_descsz > left - owner_size ||
        bytes[at + header.n_namesz - 1] != '\0') {
        return false;
    }
    note->owner = (const char *)bytes + at;
    note->type = header.n_type;
    note->bytes = bytes + at + owner_size;
    note->length = header.n_descsz;
    size_t padded = ((size_t)header.n_descsz + alignment - 1) / alignment * alignment;
    note->offset = at + owner_size + padded;
    return true;
}

bool elf_next_note(const struct elf *elf, struct elf_note *note)
{
    const uint8_t *bytes = NULL;
    size_t length, alignment = 4;
    while (note_part(elf, note->part, &bytes, &length, &alignment)) {
        size_t begin = note->offset;
        if (length > 0 && note->walked < 2 * elf->length && read_note(bytes, length, alignment, note)) {
            note->walked += note->offset - begin;
            return true;
        }
        note->part++;
        note->offset = 0;
    }
    return false;
}
