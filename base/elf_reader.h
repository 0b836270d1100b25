/* elf_reader.h - little-endian ELF64 files in memory, read without trust: every offset, size and name is checked
 * against the bytes that are there; a part that does not fit reads as absent. Nothing is copied, nothing is allocated.
 */
#ifndef BASE_ELF_READER_H
#define BASE_ELF_READER_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf {
    const uint8_t *bytes;
    size_t length;
    Elf64_Ehdr header;
};

/* false when the bytes are no such file */
bool elf_open(struct elf *elf, const void *bytes, size_t length);

/* header of section `index`, and its name ("" when the table does not give one); false past the end */
bool elf_section(const struct elf *elf, unsigned index, Elf64_Shdr *section, const char **name);

/* first section of that name */
bool elf_find_section(const struct elf *elf, const char *name, Elf64_Shdr *section);

/* where a section's bytes are; false when it has none in the file or they are not all there */
bool elf_contents(const struct elf *elf, const Elf64_Shdr *section, const uint8_t **bytes, size_t *length);

/* symbol `index` of a symbol table; false past the end or when the table is broken */
bool elf_symbol(const struct elf *elf, const Elf64_Shdr *table, uint64_t index, Elf64_Sym *symbol, const char **name);

/* Notes of all PT_NOTE segments, then of all SHT_NOTE sections (so one may come twice). It ends when twice the file's
 * bytes were walked: thousands of headers that all name the same bytes are nobody's honest file.
 *   struct elf_note note = {0};
 *   while (elf_next_note(&elf, &note)) ... */
struct elf_note {
    const char *owner; /* NUL-terminated */
    uint32_t type;
    const uint8_t *bytes;
    size_t length;
    unsigned part; /* iteration: segments, then sections */
    size_t offset; /* of the next note within the part */
    size_t walked; /* bytes of notes given so far */
};
bool elf_next_note(const struct elf *elf, struct elf_note *note);

#endif
