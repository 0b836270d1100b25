/* listing.h - a disassembly as instructions: what compiler_disassemble makes of AMD objects (libLLVM) and cubins
 * (nvdisasm -c, cuobjdump -sass).
 *
 * Text in, borrowed slices out: mnemonic and operands point into the text, which must live as long as the listing. The
 * text may be anything; what is no instruction is passed over. Branches are resolved to instructions of the same
 * function; one that leaves it has no target.
 */
#ifndef GENERATOR_LISTING_H
#define GENERATOR_LISTING_H

#include "base/error.h"
#include "base/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LISTING_INSTRUCTIONS_MAX = 1 << 18 };
#define LISTING_NUMBER_MAX (1LL << 40) /* so that a few of them add up without overflow */

struct slice {
    const char *text; /* not ended by NUL */
    size_t length;
};

struct instruction {
    uint64_t address;
    struct slice mnemonic;  /* without a predicate; NOP when that never holds */
    struct slice operands;  /* trimmed; without comments and the closing ';' */
    struct slice predicate; /* "P0" or "!P0" of an NVIDIA instruction, empty: none */
    bool branches;          /* may go to `target` */
    bool falls_through;     /* may go to the next instruction */
    int target;             /* index, -1: none, or outside the function */
};

struct listing {
    struct instruction *items;
    int count;
};

/* `function` NULL: the first that has instructions. ATTUNE_NOT_FOUND where it has none, ATTUNE_UNSUPPORTED for a host's
 * code and past LISTING_INSTRUCTIONS_MAX. */
attune_status listing_parse(const char *text, size_t length, enum target_vendor vendor, const char *function,
                            struct listing *listing, struct error *error);
void listing_free(struct listing *listing);

bool slice_is(struct slice slice, const char *text);
bool slice_begins(struct slice slice, const char *text);
/* `*` in the pattern stands for any text */
bool slice_fits(const char *pattern, struct slice text);
/* the operand number `index`, from 0, operands being separated by commas outside brackets; trimmed, empty past the last
 */
struct slice slice_operand(struct slice operands, int index);
/* a whole number, decimal or 0x, perhaps negative, that is all of the slice, within LISTING_NUMBER_MAX;
 * 32-bit hexadecimal wraps to negative */
bool slice_number(struct slice slice, int64_t *value);

#endif
