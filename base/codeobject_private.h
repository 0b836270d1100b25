/* codeobject_private.h - one reader per kind of object, chosen by codeobject.c. */
#ifndef BASE_CODEOBJECT_PRIVATE_H
#define BASE_CODEOBJECT_PRIVATE_H

#include "base/codeobject.h"
#include "base/elf_reader.h"

/* each fills a `resources` that is zero, and answers ATTUNE_NOT_FOUND when `kernel` is not in the object */
attune_status codeobject_read_amd(const struct elf *elf, const char *kernel, struct resources *resources,
                                  struct error *error);
attune_status codeobject_read_nvidia(const struct elf *elf, const char *kernel, struct resources *resources,
                                     struct error *error);

/* a kernel of this name fits struct resources? */
attune_status codeobject_set_kernel(struct resources *resources, const char *name, size_t length, struct error *error);

#endif
