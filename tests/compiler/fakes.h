/* fakes.h - stand-ins for compilers, and a folder and an environment that tests may spoil.
 *
 * The fakes are shell scripts named by ATTUNE_CXX or ATTUNE_CLANG; questions such as --version they pass on to c++.
 */
#ifndef TESTS_COMPILER_FAKES_H
#define TESTS_COMPILER_FAKES_H

#include "tests/compiler/fixture.h"

extern char folder[1024]; /* of this test program, removed at its end */

/* $ATTUNE_HELPER as the test was started, else the build tree's */
const char *helper_path(void);

/* an executable script of that name in `folder`; in `body`, $out is the output file */
void write_script(const char *name, const char *body, char path[4096]);
/* compile for `host`; `log` may be NULL */
attune_status compile_with(struct compiler_pool *pool, const char *source, struct error *error, struct buffer *log);
int entries_in(const char *path, const char *prefix);

/* group set-up, test tear-down (the environment as it was), group tear-down */
int fakes_open(void **state);
int fakes_restore(void **state);
int fakes_close(void **state);

#define TEST(name) cmocka_unit_test_teardown(name, fakes_restore)

#endif
