/* attune.h - attention kernels tuned to the GPU they run on: the runtime's whole interface.
 *
 * Road of a call: describe a problem -> attune_prepare gives a plan (reads a store; with libattune-jit registered it
 * may compile or tune) -> attune_launch_* runs it, any number of times, with new sizes, strides and pointers.
 *
 * Conventions
 *
 * Shapes: q [batch, seqlen_q, heads, head_dim_qk], k [batch, seqlen_k, kv_heads, head_dim_qk], v [batch, seqlen_k,
 * kv_heads, head_dim_v], o [batch, seqlen_q, heads, head_dim_v]; any order of the first three axes by strides; lse
 * [batch, heads, seqlen_q], fp32, natural logarithm.
 *
 * Strides: in elements, int64; the head dimension is contiguous (stride 1); 0 is legal for inputs.
 *
 * Sizes: in elements; names ending in _bytes are bytes.
 *
 * Strings: end with NUL, and are copied: they may go when the call returns.
 *
 * Ownership: what a function creates, its *_destroy frees; memory and streams are always the caller's.
 *
 * Errors: every call that can fail returns attune_status; the sentence is in attune_last_error(). A failed call
 * launches nothing and leaves its outputs untouched, except that handles it would have created are set to NULL.
 *
 * Threads: contexts, devices and plans may be used from any number of threads at once. Problems are immutable once
 * made.
 *
 * Versions: structs start with size: set it with sizeof. Fields are only ever added at the end; zero means default.
 *
 * There are no globals: two contexts share nothing.
 */
#ifndef ATTUNE_H
#define ATTUNE_H

#include "attune_status.h"

#include <stddef.h>
#include <stdint.h>

#define ATTUNE_VERSION_MAJOR 0
#define ATTUNE_VERSION_MINOR 1
#define ATTUNE_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attune_context attune_context;
typedef struct attune_device attune_device;
typedef struct attune_problem attune_problem;
typedef struct attune_plan attune_plan;

/* "0.1.0"; static */
const char *attune_version(void);

/* ------------------------------------------------------------------------------------------------ context */

typedef enum attune_jit_mode {
    ATTUNE_JIT_FROM_ENVIRONMENT = 0, /* $ATTUNE_JIT: forbid, compile or tune; compile when unset */
    ATTUNE_JIT_FORBID = 1,  /* a miss is ATTUNE_FORBIDDEN with the key that is missing and the paths searched */
    ATTUNE_JIT_COMPILE = 2, /* a miss compiles the default candidate (needs attune_jit_register) */
    ATTUNE_JIT_TUNE = 3     /* a miss tunes (seconds to minutes) */
} attune_jit_mode;

typedef struct attune_context_options {
    size_t size;
    const char *store; /* folder; NULL: $ATTUNE_CACHE, $XDG_CACHE_HOME/attune, $HOME/.cache/attune, else memory only */
    attune_jit_mode jit;
    double tune_seconds; /* budget of one tuning in mode tune; 0: 60 */
} attune_context_options;

/* options may be NULL. Opens the store; loads no driver yet. ATTUNE_INVALID for a bad option, and for a bad $ATTUNE_JIT
 * (when jit is FROM_ENVIRONMENT) or $ATTUNE_STALE (accept, the default: results of other toolchains are used; retune:
 * they are not). $ATTUNE_TRACE names a file to which the context appends which problems are launched how often, for
 * `attune tune --trace`; one that is not safe to write is ATTUNE_INVALID or ATTUNE_IO. */
attune_status attune_context_create(const attune_context_options *options, attune_context **context);
/* destroys its devices too; problems and plans of the context must be destroyed before. NULL is legal. */
void attune_context_destroy(attune_context *context);

/* The message of the calling thread's most recent failed call on this context, copied NUL-terminated and cut to bytes;
 * returns its whole length without the NUL, 0 when there was none. A call that succeeds leaves it as it is. A context
 * keeps the messages of the 256 threads that failed last. context NULL: the message of the thread's last failed call
 * that had no context to keep it (attune_context_create, a NULL handle). message may be NULL when bytes is 0. */
size_t attune_last_error(attune_context *context, char *message, size_t bytes);

/* Links the compiling half: after this a miss may compile or tune as the mode says. Declared here, defined in
 * libattune-jit. */
attune_status attune_jit_register(attune_context *context);

/* ------------------------------------------------------------------------------------------------ devices */

/* name: "cuda:0", "hip:1", "host", "sim:gfx906" (each launch is run by the program that ATTUNE_SIMULATOR names, and is
 * finished when it returns), or NULL/"best" (first GPU, else host). The handle lives as long as the context; the
 * same name gives the same handle. ATTUNE_NO_DEVICE with the driver's reason. */
attune_status attune_device_open(attune_context *context, const char *name, attune_device **device);

typedef struct attune_device_info {
    size_t size;
    char name[128];
    char target[64]; /* full target ID: gfx90a:sramecc+:xnack-, sm_90a, host */
    char driver[64];
    int32_t compute_units;
    int32_t wave_size;
    uint64_t shared_bytes; /* a block's limit */
    uint64_t memory_bytes;
} attune_device_info;
attune_status attune_device_describe(attune_device *device, attune_device_info *info);

/* ------------------------------------------------------------------------------------------------ problems */

typedef enum attune_dtype { ATTUNE_F16 = 1, ATTUNE_BF16 = 2, ATTUNE_F32 = 3 } attune_dtype;
typedef enum attune_causal {
    ATTUNE_CAUSAL_NONE = 0,
    ATTUNE_CAUSAL_TOP_LEFT = 1,
    ATTUNE_CAUSAL_BOTTOM_RIGHT = 2
} attune_causal;

/* attention.forward: o = softmax(scale q k^T, masked) v per head; query head h reads KV head h / (heads / kv_heads).
 * Causal bottom_right: key j is visible to query i iff j <= i + seqlen_k - seqlen_q; top_left: iff j <= i. A row that
 * sees no key: o exactly 0, lse exactly -infinity. Keys past seqlen_k never reach the output. NaN or Inf in V at keys
 * hidden by the causal mask may reach other rows of the same tile. Options that no template honours yet are refused by
 * name. */
typedef struct attune_attention {
    size_t size;
    attune_dtype q_dtype, k_dtype, v_dtype, o_dtype; /* 0: q f16; others as q */
    int64_t batch, heads, kv_heads;                  /* batch 0: no sequence, nothing to do; kv_heads 0: heads, which
                                                        it must divide */
    int64_t seqlen_q, seqlen_k;                      /* at most 2^31 - 2^16; seqlen_k 0 with seqlen_q > 0: seqlen_q */
    int64_t head_dim_qk, head_dim_v;                 /* 1-256; head_dim_v 0: head_dim_qk */
    attune_causal causal;
    double scale;                      /* 0: 1/sqrt(head_dim_qk) */
    double dropout;                    /* probability to drop, 0-1; > 0 compiles dropout in */
    int32_t lse;                       /* 1: the plan writes lse */
    int32_t alignment_bytes;           /* what pointers and strides keep: 2, 4, 8, 16; 0: from the head sizes */
    int32_t wide_index;                /* 1: one tile may span 2^31 bytes or more */
    int64_t window_left, window_right; /* 0/0 here means unlimited; others refused for now: use the text form */
    double softcap;                    /* 0 none */
    int32_t strict_nan, batch_invariant;
} attune_attention;

attune_status attune_problem_attention(attune_context *context, const attune_attention *attention,
                                       attune_problem **problem);
/* the same from text: "attention.forward dtype=f16 heads=32 ...", or any family of the registered generator */
attune_status attune_problem_parse(attune_context *context, const char *text, attune_problem **problem);
/* canonical text, cut to bytes; returns the whole length */
size_t attune_problem_text(const attune_problem *problem, char *text, size_t bytes);
void attune_problem_destroy(attune_problem *problem);

/* ------------------------------------------------------------------------------------------------ plans */

typedef enum attune_rung {
    ATTUNE_RUNG_DEFAULT = 1, /* the default candidate: correct, not tuned here */
    ATTUNE_RUNG_NEAR = 2,    /* tuned on this device for another shape of the same specialisation */
    ATTUNE_RUNG_EXACT = 3    /* tuned on this device for this problem */
} attune_rung;

typedef struct attune_prepare_options {
    size_t size;
    attune_rung lowest_rung; /* 0: any; a plan below is ATTUNE_NOT_FOUND */
    const char *candidate;   /* NULL: chosen as told below; else exactly this one (needs the jit half unless stored) */
} attune_prepare_options;

/* Does all that allocates, loads, compiles or synchronises; never called for you inside a launch. options may be NULL.
 * The calling thread needs 128 KiB of stack. Looks for a record of this problem, then the nearest of the same
 * specialisation on this device, then the default candidate's record, then asks libattune-jit as the mode says:
 * compile makes the default candidate; tune tunes unless an exact or near record is there. Threads that prepare the
 * same specialisation at once share one compile, and its failure; a later call tries again. ATTUNE_FORBIDDEN or
 * ATTUNE_NOT_FOUND on a miss that may not or cannot be compiled: the message has the specialisation, the device and
 * the paths searched. */
attune_status attune_prepare(attune_device *device, const attune_problem *problem,
                             const attune_prepare_options *options, attune_plan **plan);
/* the plan must have no launch in flight. NULL is legal. */
void attune_plan_destroy(attune_plan *plan);

typedef struct attune_plan_info {
    size_t size;
    attune_rung rung;
    char candidate[1024];
    char candidate_id[16];
    char object[72]; /* hex name in the store */
    char compiler[64];
    uint64_t workspace_bytes; /* for the problem it was prepared with */
    uint32_t threads;
    uint32_t shared_bytes;
    double winner_microseconds, default_microseconds; /* 0: not timed */
    int32_t stale;                                    /* 1: recorded under another driver or power limit, see note */
    char note[256]; /* why the rung is lower than it might be, or that another build of the compiler made it; else "" */
} attune_plan_info;
attune_status attune_plan_describe(const attune_plan *plan, attune_plan_info *info);

/* Arguments of one launch. Sizes may differ from the problem's as long as the specialisation is the same: head ratio,
 * alignment class, index width. Zero sizes are taken from the plan's problem; zero *strides with all of one tensor's
 * three strides zero* mean contiguous [batch, seq, heads, dim]; to mean a real stride of 0, set `explicit_strides`. */
typedef struct attune_attention_arguments {
    size_t size;
    const void *q, *k, *v; /* device pointers, aligned as declared */
    void *o;
    float *lse; /* required iff the problem has lse=1 */
    int64_t batch, heads, kv_heads, seqlen_q, seqlen_k;
    int64_t q_batch_stride, q_seq_stride, q_head_stride;
    int64_t k_batch_stride, k_seq_stride, k_head_stride;
    int64_t v_batch_stride, v_seq_stride, v_head_stride;
    int64_t o_batch_stride, o_seq_stride, o_head_stride;
    int32_t explicit_strides; /* 1: all strides are taken as they are */
    int32_t explicit_sizes;   /* 1: all sizes are taken as they are, 0 included (nothing to do) */
    double scale;             /* 0: the problem's */
    double dropout;           /* used when explicit_dropout or > 0, else the problem's; > 0 needs a plan with dropout */
    int32_t explicit_dropout; /* 1: dropout is taken as it is, 0 included */
    uint64_t seed, offset;    /* dropout; offset < 2^32, the caller advances it */
    const uint64_t *seed_pointer;   /* device memory, read by the kernel instead of seed when not NULL */
    const uint64_t *offset_pointer; /* likewise */
} attune_attention_arguments;

/* Asynchronous on `stream` (CUstream, hipStream_t; NULL: default stream; host: runs at once). Neither allocates,
 * compiles, loads nor synchronises, and may be captured. workspace: device memory of at least the plan's bytes for
 * these sizes, NULL when 0. */
attune_status attune_launch_attention(const attune_plan *plan, const attune_attention_arguments *arguments,
                                      void *stream, void *workspace, size_t workspace_bytes);
/* workspace for these sizes; nothing else of arguments is looked at */
attune_status attune_workspace_attention(const attune_plan *plan, const attune_attention_arguments *arguments,
                                         size_t *bytes);

/* Any family: arguments by name, as its launch descriptor lists them (attention.forward: as the fields of
 * attune_attention_arguments are called); run-time sizes by their field names, those not given are the plan's
 * problem's. Every pointer must be given; unknown, repeated and ill-typed names are refused. */
typedef enum attune_argument_kind {
    ATTUNE_ARGUMENT_POINTER = 1,
    ATTUNE_ARGUMENT_INTEGER = 2,
    ATTUNE_ARGUMENT_REAL = 3
} attune_argument_kind;
typedef struct attune_argument {
    const char *name;
    attune_argument_kind kind;
    const void *pointer;
    int64_t integer;
    double real;
} attune_argument;
attune_status attune_launch(const attune_plan *plan, const attune_argument *arguments, size_t count, void *stream,
                            void *workspace, size_t workspace_bytes);

/* Prepare (once per distinct problem, remembered by the device) and launch. Sizes come from `attention`; arguments'
 * sizes must be zero or equal. The first call of a problem may compile. On a stream that is being captured a problem
 * without a remembered plan is ATTUNE_INVALID, and the capture goes on: call once before it, or launch a plan of
 * attune_prepare. */
attune_status attune_attention_forward(attune_device *device, const attune_attention *attention,
                                       const attune_attention_arguments *arguments, void *stream, void *workspace,
                                       size_t workspace_bytes);

#ifdef __cplusplus
}
#endif

#endif
