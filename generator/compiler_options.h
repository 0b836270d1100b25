/* compiler_options.h - the flags of every compiler, in one table that the object key and the helper both read.
 *
 * The helper splits the text at blanks and passes exactly these words (plus the target, input and output), so equal
 * text means equal flags. No flag here assumes finite numbers: masking needs its guards on infinities.
 */
#ifndef GENERATOR_COMPILER_OPTIONS_H
#define GENERATOR_COMPILER_OPTIONS_H

#include "generator/compiler.h"

/* flags of one concrete compiler (not COMPILER_AUTO). `code_object`: 0 for the compiler's own choice, else 4, 5 or 6;
 * other compilers than AMD's ignore it. Static text. */
const char *compiler_flags(enum compiler_kind kind, enum sanitize sanitize, int code_object);

/* words after the object file in the host link command */
const char *compiler_link_flags(enum sanitize sanitize);

/* `requested`, or $ATTUNE_CODE_OBJECT when that is 0; ATTUNE_INVALID for anything but 0, 4, 5, 6 */
attune_status compiler_code_object(int requested, int *code_object, struct error *error);

#endif
