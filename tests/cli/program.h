/* program.h - runs the real `attune` program and holds what it says against expectations and golden files.
 *
 * The program runs with an environment of its own: a private cache folder, templates from tests/cli/templates, no
 * user's settings. With ATTUNE_GOLDEN_WRITE=1 golden files are written instead of compared.
 */
#ifndef TESTS_CLI_PROGRAM_H
#define TESTS_CLI_PROGRAM_H

#include "base/process.h"

#include <jansson.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { EXIT_IS_DONE = 0, EXIT_IS_FAILED = 1, EXIT_IS_USAGE = 2, EXIT_IS_MISSING = 3, EXIT_IS_WRONG = 4 };

int program_setup(void **state); /* group fixtures: the private folder */
int program_teardown(void **state);

/* a path inside the private folder; valid for the next 15 calls */
const char *scratch(const char *name);

/* words end with NULL; the result is freed by the next call */
const struct process_result *attune(const char *word, ...) __attribute__((sentinel));

/* the same through `sh -c`, where "$0" is the program: for odd standard streams and limits */
const struct process_result *attune_in_shell(const char *script);

/* the last run ended with this code, else the test fails with all it said */
void exits_with(int code);
void says(const char *text);      /* on stdout */
void complains(const char *text); /* on stderr */

/* stdout is one JSON object: borrowed until the next run */
const json_t *answer(void);

/* stdout's object equals tests/cli/golden/NAME.json; the values of keys that change from build to build are "*" in both
 */
void matches_golden(const char *name);

#endif
