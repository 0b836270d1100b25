/* environment.h - the one place where variables are read.
 *
 * In a process that has more rights than the user who started it (setuid, setgid, file capabilities: the kernel's
 * AT_SECURE) that user's variables would choose which programs run and which files are read and written with these
 * rights. There every variable is as if unset, and programs that we start get none but PATH.
 */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* where programs are searched without a PATH that can be trusted */
#define ENVIRONMENT_PATH "/usr/local/bin:/usr/bin:/bin"

bool environment_is_trusted(void);
const char *environment_get(const char *name); /* NULL when unset or not to be trusted */

/* every variable that attune reads, then those of its drivers that decide what is found; NULL behind the last. A name
 * that is read anywhere and is not here fails a test (cli_json). */
struct environment_variable {
    const char *name, *doc;
};
const struct environment_variable *environment_variable(size_t index);

#endif
