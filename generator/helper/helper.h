/* helper.h - inside attune-helper: what its parts share.
 *
 * One thread serves one request at a time. hiprtc is a library that runs in this process and may end it; the others are
 * programs in its process group, NVRTC by this program started once more. Everything found is kept in `struct helper`
 * for the next request.
 */
#ifndef GENERATOR_HELPER_HELPER_H
#define GENERATOR_HELPER_HELPER_H

#include "base/buffer.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/target.h"
#include "generator/compiler.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum {
    IDENTITY_FILES_MAX = 48,
    BUILD_ID_BYTES = 129,
    CLANGS_MAX = 24,
    CLANG_WITH_CONFIG = 16 /* reads configuration files by itself since then */
};

/* files that a compiler consists of */
struct identity {
    int count;
    struct identity_file {
        char path[PATH_MAX];
        char id[BUILD_ID_BYTES];  /* GNU build ID, or "blake2b:..." of the content where a file has none */
        struct timespec modified; /* of the file when it was looked at, with inode and size */
        uint64_t inode, bytes;
    } files[IDENTITY_FILES_MAX];
};

struct hiprtc;
struct nvrtc;
struct clang;
struct host_compiler;
struct disassembler;

struct helper {
    const char *folder; /* private temporary folder */
    struct hiprtc *hiprtc;
    struct nvrtc *nvrtc;
    struct clang *clangs[CLANGS_MAX];
    int clang_count;
    bool clang_searched;
    struct host_compiler *host[3]; /* by enum sanitize */
    struct disassembler *disassembler;
};

struct job {
    struct target target;
    char target_text[TARGET_TEXT_BYTES];
    enum compiler_kind kind; /* AUTO until choose_compiler */
    enum sanitize sanitize;
    int code_object; /* 0: the compiler's own choice */
    const char *source;
    size_t source_bytes;
};

struct message;
/* ---- job.c ---- */
/* the source stays the message's. ATTUNE_INVALID for what is out of range, target_parse's refusals */
attune_status job_read(const struct message *request, struct job *job, struct error *error);

struct output {
    struct buffer object;
    struct buffer log;
    char compiler[64];
    struct identity identity;
};

/* ---- run.c: programs ---- */
struct run {
    const char *const *argv;
    const char *input; /* NULL: /dev/null */
    size_t input_bytes;
    struct buffer *output; /* stdout; what is over kept_bytes is drained and dropped; NULL: all of it */
    struct buffer *errors; /* stderr; may be the same buffer */
    size_t kept_bytes;     /* of each; 0: RUN_KEPT_BYTES */
    bool alone;            /* an environment and a stack limit that are always the same: see nvrtc.c */
    int exit_code;         /* -1 when a signal ended it */
    int signal;
};
enum { RUN_KEPT_BYTES = 16 << 20, RUN_WORDS_MAX = 64 };
/* the program runs in `/`, in our process group, dies with us, writes files of at most 256 MiB and no core */
attune_status run_program(struct run *run, struct error *error);
/* first line of what `program argument` prints on stdout, without the newline; false when it fails */
bool run_line(const char *program, const char *argument, char *line, size_t bytes);
/* split `text` at blanks into argv[*count...]; `words` holds the characters */
void run_split(const char *text, char *words, size_t bytes, const char **argv, int *count);
/* "" for a clean exit, else " (exit status 1)" or " (ended by signal 6, Aborted)" */
void run_describe(const struct run *run, char *text, size_t bytes);
/* The status of a compile whose program failed: ATTUNE_COMPILE_FAILED, or ATTUNE_IO where it was another process, a
 * limit or the disk that ended it, by the signal or by what is in `log`: that says nothing of the source. */
attune_status run_blame(const struct run *run, const struct buffer *log);
/* a program by path, or by name in PATH; resolved with realpath into `real` when not NULL */
bool run_find(const char *name, char path[PATH_MAX], char *real);
bool run_is_file(const char *path);

/* ---- identity.c ---- */
/* a file that is known already; once for each ID */
void identity_put(struct identity *identity, const char *path, const char *id);
void identity_add_file(struct identity *identity, const char *path);
/* libraries in this process whose file name contains one of `parts` (NULL-terminated) */
void identity_add_loaded(struct identity *identity, const char *const *parts);
/* has one of the files been replaced since it was looked at? A long tuning outlives an upgrade of its compilers */
bool identity_outdated(const struct identity *identity);
/* everything that `argv` (a compiler told to read stdin) maps while it waits for input */
void identity_add_process(struct identity *identity, const char *const *argv);
/* digest of the sorted IDs: no paths, no order of loading */
void identity_digest(const struct identity *identity, char hex[DIGEST_HEX_BYTES]);
json_t *identity_to_json(const struct identity *identity);

/* ---- libraries and programs that compile ---- */
/* does hiprtc exist, and does its comgr list the processor? The answer comes before any compile: an unknown one aborts.
 */
bool hiprtc_knows(struct helper *helper, const struct target *target, struct error *error);
/* can it make this code object version? */
bool hiprtc_makes(struct helper *helper, int code_object, struct error *error);
attune_status hiprtc_compile(struct helper *helper, const struct job *job, struct output *output, struct error *error);
attune_status hiprtc_identify(struct helper *helper, struct output *output, struct error *error);
json_t *hiprtc_survey(struct helper *helper);

attune_status nvrtc_compile(struct helper *helper, const struct job *job, struct output *output, struct error *error);
attune_status nvrtc_identify(struct helper *helper, struct output *output, struct error *error);
json_t *nvrtc_survey(struct helper *helper);
int nvrtc_alone(void); /* main of the process that holds one compile by NVRTC */

attune_status clang_compile(struct helper *helper, const struct job *job, struct output *output, struct error *error);
attune_status clang_identify(struct helper *helper, const struct target *target, struct output *output,
                             struct error *error);
void clang_survey(struct helper *helper, json_t *list);

attune_status host_compile(struct helper *helper, const struct job *job, struct output *output, struct error *error);
attune_status host_identify(struct helper *helper, enum sanitize sanitize, struct output *output, struct error *error);
json_t *host_survey(struct helper *helper);

/* code object version of an AMD ELF file, 0 when it is none */
int amd_code_object_version(const void *bytes, size_t length);
/* after an AMD compile: an ELF file of the version that was asked for */
attune_status amd_check_object(const struct job *job, const struct output *output, struct error *error);
/* read what a program left at `path` and remove it; ATTUNE_COMPILE_FAILED when it left nothing or no ELF file */
attune_status take_object(const char *path, const char *compiler, struct buffer *object, struct error *error);

/* ---- disassemble.c, survey.c ---- */
attune_status disassemble(struct helper *helper, const struct target *target, const char *object, size_t bytes,
                          struct buffer *text, struct error *error);
json_t *disassembler_survey(struct helper *helper);
attune_status survey(struct helper *helper, struct buffer *json, struct error *error);
/* {"compiler","found","version","files","targets","note"}; identity and note may be NULL; steals `targets` */
json_t *survey_entry(const char *compiler, bool found, const char *version, const struct identity *identity,
                     json_t *targets, const char *note);

#endif
