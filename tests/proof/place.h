/* place.h - whole programs in hostile places: a private folder, a user without rights, counted warnings and compiles.
 *
 * Everything lies under one fresh folder that any user may enter. The compiler of every run is a script that counts
 * what it compiles, so that "served from the store" and "compiled once" are facts, not guesses.
 */
#ifndef TESTS_PROOF_PLACE_H
#define TESTS_PROOF_PLACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "base/buffer.h"

enum { PLACE_PATH = 4096, PLACE_NOBODY = 65534, PLACE_OTHER = 65533, PLACE_WITHOUT_NAME = 12345 };

/* a problem whose kernel is compiled in a tenth of a second */
#define PLACE_PROBLEM "heads=2 seqlen_q=5 head_dim=16 causal=1"

int place_open(void **state); /* group fixtures */
int place_close(void **state);
const char *place_folder(void);
/* a path inside; one of 32 buffers */
const char *place(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* a folder inside, made anew, with this mode and owner (0: ours) */
const char *place_make(const char *name, mode_t mode, uid_t owner);

struct place_call {
    const char *const *argv;        /* {PLACE_ENGINE, ...} or {ATTUNE_PROGRAM, ...} */
    const char *const *environment; /* changes, "K=V" or "K" to unset; NULL: none */
    uid_t user;                     /* 0: as we are */
    uid_t real_user;                /* not 0: this real user, effective user as we are: what setuid makes */
    const char *directory;          /* NULL: the place */
    double seconds;                 /* 0: 120 */
    uint64_t file_bytes;            /* RLIMIT_FSIZE; 0: none */
};
struct place_result {
    int exit_code; /* -1: by signal */
    int signal;    /* of a run past its time: SIGALRM */
    int warnings;  /* lines "attune: warning: " */
    int compiles;  /* by the counting compiler */
    struct buffer output, errors;
};
/* runs to the end; the result is valid until the next call. The environment has no variable of ours but what is named
 */
const struct place_result *place_run(const struct place_call *call);
/* starts; waits with the same result */
pid_t place_start(const struct place_call *call, const char *log);

/* the engine with PLACE_PROBLEM, environment changes as given (NULL ends); `--calls 2` */
const struct place_result *place_engine(uid_t user, const char *change, ...) __attribute__((sentinel));

/* fails with all that the run said unless: exit code 0, so many warnings and compiles (-1: any) */
void place_right(int warnings, int compiles);
void place_says(const char *text); /* among the errors */
/* the last run's `plan` line without the rung: name of the object */
void place_object(char hex[65]);

bool place_is_root(void);  /* may become others; else prints why the test is skipped */
bool place_compiles(void); /* is there a C++ compiler? else prints why */

/* all files below: calls `visit` with the path relative to `root`; the number of them */
int place_walk(const char *root, void (*visit)(const char *root, const char *relative, void *data), void *data);
/* files below whose path has this part in it */
int place_count(const char *root, const char *part);
/* cp -a */
void place_copy(const char *from, const char *to);

#endif
