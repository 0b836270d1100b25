/* compiler.h - compiling in helper processes.
 *
 * All compilers run inside attune-helper (libexec/attune-helper, found beside the library or by $ATTUNE_HELPER): exec'd
 * workers that live on, one per core, started on first need, recycled after a fault or 200 compiles. GPUs are hidden
 * from them. A compiler that aborts, exits, hangs, eats memory or fills its folder is one failed compile with its log;
 * the caller lives.
 *
 * Which compiler: AMD: hiprtc where its comgr lists the target, else clang (newest that knows it). NVIDIA: NVRTC. host:
 * c++.
 *
 * Environment, read when a worker starts: ATTUNE_CLANG, ATTUNE_CXX (path or name of the one clang / C++ compiler to
 * use), ROCM_PATH, CUDA_HOME, CUDA_PATH (searched after the linker's own path), TMPDIR. ATTUNE_CODE_OBJECT (4, 5, 6) is
 * read at each compile. Variables that would change a compiler's output behind our back (AMD_COMGR_*, HIPRTC_*, CPATH,
 * ...) are removed in the worker. Sanitized host objects are made only by the compiler that built the runner programs.
 */
#ifndef GENERATOR_COMPILER_H
#define GENERATOR_COMPILER_H

#include "base/buffer.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/target.h"

enum compiler_kind { COMPILER_AUTO, COMPILER_HIPRTC, COMPILER_CLANG, COMPILER_NVRTC, COMPILER_HOST };
enum sanitize { SANITIZE_NONE, SANITIZE_ADDRESS, SANITIZE_THREAD }; /* address means address + undefined; host only */

struct compiler_pool;

struct compiler_options {
    const char *helper; /* NULL: $ATTUNE_HELPER, else beside the library */
    int workers;        /* 0: online cores, at most 64 */
    double seconds;     /* limit of one compile; 0: 120 */
    uint64_t rss_bytes; /* limit of one worker and its children; 0: 4 GiB */
};

attune_status compiler_pool_create(const struct compiler_options *options, struct compiler_pool **pool,
                                   struct error *error);
void compiler_pool_destroy(struct compiler_pool *pool); /* no compile may be in flight */
int compiler_pool_workers(const struct compiler_pool *pool);

struct compile_request {
    struct target target;
    enum compiler_kind compiler;
    enum sanitize sanitize;
    const char *source;
    size_t source_bytes;
    int code_object; /* AMD: 0 = $ATTUNE_CODE_OBJECT, else what the compiler does best (hiprtc 4; clang 5) */
};

struct compile_result {
    struct buffer object;
    struct buffer log;               /* also on success (warnings) */
    char compiler[64];               /* "hiprtc 5.2", "clang-22", "nvrtc 13.0", "g++ 12.2" : for people */
    char identity[DIGEST_HEX_BYTES]; /* digest of the build IDs of everything the compiler loaded */
    double seconds;
};
void compile_result_free(struct compile_result *result);

/* Thread-safe; waits for a free worker. ATTUNE_COMPILE_FAILED, ATTUNE_TIMEOUT, ATTUNE_NO_MEMORY (past its limit) or
 * ATTUNE_NO_TOOLCHAIN; ATTUNE_IO where twice another process, a limit of the machine or its disk ended the compiler,
 * which says nothing of the source;
 * the message holds the compiler's own first error line and `result->log` the whole log (bounded at 1 MiB). `result` is
 * overwritten, and freed by the caller also after a failure. Equal requests give equal bytes. */
attune_status compiler_compile(struct compiler_pool *pool, const struct compile_request *request,
                               struct compile_result *result, struct error *error);

/* Name and identity without compiling (asked of a worker once, then remembered by the pool). Part of object keys. */
attune_status compiler_identity(struct compiler_pool *pool, const struct target *target, enum compiler_kind kind,
                                enum sanitize sanitize, char compiler[64], char identity[DIGEST_HEX_BYTES],
                                struct error *error);

/* the same from memory: false when no worker was asked yet */
bool compiler_identity_known(struct compiler_pool *pool, const struct target *target, enum compiler_kind kind,
                             enum sanitize sanitize, char compiler[64], char identity[DIGEST_HEX_BYTES]);

/* options text that goes into the object key: equal text, equal flags */
const char *compiler_options_text(const struct target *target, enum compiler_kind kind, enum sanitize sanitize,
                                  int code_object);

/* the disassembly of an object: libLLVM for AMD and host, nvdisasm (a program) for NVIDIA */
attune_status compiler_disassemble(struct compiler_pool *pool, const struct target *target, const void *object,
                                   size_t bytes, struct buffer *text, struct error *error);

/* what `attune doctor` prints: [{"compiler","found","version","files":[{"path","build_id"}],"targets":[...],"note"}] as
 * JSON text made by a worker */
attune_status compiler_survey(struct compiler_pool *pool, struct buffer *json, struct error *error);

/* helper processes started by this process since its start: tests count them */
uint64_t compiler_helper_starts(void);

#endif
