/* kit.h - one attention call with tensors of the test's own, run on every candidate of a cover.
 *
 *   struct proof_call call;
 *   proof_call_make(&call, "empty rows", "dtype=f16 heads=2 seqlen_q=4 seqlen_k=2 head_dim=64 causal=1 lse=1");
 *   proof_fill(&call, PROOF_V, value_of, NULL);
 *   for (struct proof_run run = proof_start(proof, &call); proof_next(&run);) {
 *       ... proof_o(&call, b, h, i, c), proof_lse(&call, b, h, i); proof_fail(&call, "...") names case and candidate
 *   }
 *
 * Candidates: the defaults for many queries, for four and for one, then so many that each value of each parameter and
 * each number of key splits occurs, both kinds of multiply with and without splits (ATTUNE_TEST_SIZE=full: a pairwise
 * cover); last, when the target is the device's own, the plan that attune_prepare chooses, launched by
 * attune_launch_attention. Every candidate's object is compiled into a store that was empty and taken out of it again;
 * the second must be reused and give the same bits.
 *
 * Every run: fresh outputs filled with 0xff (NaN), guard zones around all tensors, and afterwards: no error of the
 * launch, guards whole, nothing between the rows of o written, every element of every row and of lse written. Inputs
 * hold 0xff wherever no element is, so that a stray read gives NaN. Expectations are the test's own: nothing here knows
 * the reference.
 *
 * ATTUNE_TEST_DEVICE names the device ("cuda:0"; default host), ATTUNE_TEST_TARGET a target that the host device
 * emulates ("gfx906"). Failures are cmocka's; one proof belongs to one thread.
 */
#ifndef TESTS_PROOF_KIT_H
#define TESTS_PROOF_KIT_H

#include "autotune/attention.h"
#include "autotune/kernel.h"
#include "autotune/objects.h"
#include "runtime/attune.h"
#include "tests/size.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct proof;

/* group fixtures; *state becomes the proof. Without device or compiler the program ends with 77 and the reason */
int proof_set_up(void **state);
int proof_tear_down(void **state);
/* a program's argument is a pattern: only the tests whose names match run */
void proof_arguments(int argc, char **argv);
struct generator *proof_generator(struct proof *proof);
const struct target *proof_target(const struct proof *proof);
const struct driver_device *proof_device(const struct proof *proof);

/* ------------------------------------------------------------------------------------------------ calls */

enum proof_tensor { PROOF_Q, PROOF_K, PROOF_V, PROOF_O, PROOF_TENSORS };

struct proof_call {
    const char *label; /* names the case in failures */
    char text[256];    /* the problem as given, likewise */
    struct problem problem;
    struct attention a;             /* sizes, types, strides, scale, dropout's constants, seed, offset */
    int64_t offsets[PROOF_TENSORS]; /* elements between the start of the memory and the first element */
    bool seed_by_pointer;           /* seed and offset from device memory; the plain arguments are wrong then */
    double probability;             /* of dropout, for attune_launch_attention */
    void *tensors[PROOF_TENSORS];   /* here; o: what the last run left */
    float *lse;                     /* likewise; NULL without lse */
    char candidate[CANDIDATE_TEXT_BYTES + 16]; /* of the last run */
};

/* Contiguous tensors of NaN; the problem's text as problem_parse takes it. Free it with proof_call_free. */
void proof_call_make(struct proof_call *call, const char *label, const char *problem_text);
void proof_call_free(struct proof_call *call);
/* after strides in `a`, or `offsets`, were changed: the spans are computed and the memory made anew, all NaN */
void proof_call_layout(struct proof_call *call);
/* another probability to drop of the same specialisation: the threshold and the factor that the kernel gets */
void proof_call_dropout(struct proof_call *call, double probability);

/* sets every element of q, k or v: sequence, position in it, head (of k and v: KV head), column -> value */
typedef double (*proof_value)(const void *data, int64_t b, int64_t s, int64_t h, int64_t c);
void proof_fill(struct proof_call *call, enum proof_tensor tensor, proof_value value, const void *data);
double proof_constant(const void *data, int64_t b, int64_t s, int64_t h, int64_t c); /* data: a double */
void proof_set(struct proof_call *call, enum proof_tensor tensor, int64_t b, int64_t s, int64_t h, int64_t c,
               double value);
double proof_get(const struct proof_call *call, enum proof_tensor tensor, int64_t b, int64_t s, int64_t h, int64_t c);

/* results of the last run: sequence, query head, query, column */
double proof_o(const struct proof_call *call, int64_t b, int64_t h, int64_t i, int64_t c);
double proof_lse(const struct proof_call *call, int64_t b, int64_t h, int64_t i);

/* ------------------------------------------------------------------------------------------------ runs */

struct proof_run {
    struct proof *proof;
    struct proof_call *call;
    int index;                  /* of the candidate */
    struct candidate candidate; /* the default for this problem when `public_road` */
    bool public_road;           /* this is attune_prepare's plan */
    int taken;                  /* candidates so far */
};

struct proof_run proof_start(struct proof *proof, struct proof_call *call);
/* The next candidate on the call; false after the last, which fails when there were fewer than two. Candidates that the
 * device cannot run (screen.h) are passed over. */
bool proof_next(struct proof_run *run);
/* the candidate of proof_next on another call, which may be of another specialisation */
void proof_also(struct proof_run *run, struct proof_call *other);

/* attune.h's ways to launch, on a call without dropout; false for an emulated target, which has no plans */
enum proof_entry { PROOF_LAUNCH_ATTENTION, PROOF_LAUNCH_BY_NAME, PROOF_ATTENTION_FORWARD, PROOF_ENTRIES };
bool proof_enter(struct proof *proof, enum proof_entry entry, struct proof_call *call);

/* value of one of the candidate's parameters, "" when it has none of that name */
const char *proof_parameter(const struct proof_run *run, const char *name);
/* sets of waves that share a row's keys: > 1 means that the row is merged from parts */
int proof_splits(const struct proof_run *run);

/* What shared memory holds when a block starts, for runs from now on: every byte `byte`. The host device does it by
 * itself; on a GPU a kernel that fills the shared memory of every compute unit runs before each launch. */
void proof_shared_fill(struct proof *proof, uint8_t byte);

/* ------------------------------------------------------------------------------------------------ judgements */

/* fail_msg with case, candidate and text */
void proof_fail(const struct proof_call *call, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));

/* bits of all rows of o, and of lse, gathered in the order batch, head, query: for comparing runs. free() it */
struct proof_bits {
    unsigned char *rows; /* o's rows back to back, then lse */
    size_t bytes;
    int64_t batch, heads, seqlen_q;
    size_t row_bytes;
};
struct proof_bits proof_bits(const struct proof_call *call);
void proof_bits_free(struct proof_bits *bits);
/* fails, naming the first row that differs */
void proof_same_bits(const struct proof_call *call, const struct proof_bits *bits, const char *what);
bool proof_equal_bits(const struct proof_bits *a, const struct proof_bits *b);

/* |value - wanted| <= allowed, NaN never; else fails with the row */
void proof_near(const struct proof_call *call, const char *what, int64_t b, int64_t h, int64_t i, int64_t c,
                double value, double wanted, double allowed);

/* What attention.forward means, computed in fp64 row by row from the call's own elements (dropout is not looked at):
 * for inputs without a closed form. `allowed` is what a row's elements may be off by: the roundings of the weights and
 * of o, and of scores in fp32. */
struct proof_answers {
    double *o, *lse, *allowed; /* [batch, heads, seqlen_q] rows; of o with head_dim_v columns */
};
struct proof_answers proof_answers(const struct proof_call *call);
void proof_answers_free(struct proof_answers *answers);
void proof_check_answers(const struct proof_call *call, const struct proof_answers *answers);

/* The status must be ATTUNE_UNSUPPORTED or ATTUNE_INVALID and both the generator's and the C API's message must have
 * the word: an option that is not built yet is refused by its name. */
void proof_refused(struct proof *proof, const char *problem_text, const char *word);

/* the same for the struct of attune.h */
void proof_struct_refused(struct proof *proof, const attune_attention *attention, const char *word);

/* A launch of the problem's plan with these arguments, whose tensors are put in here, must be refused with the word in
 * its message, o and lse untouched. Nothing is tried for an emulated target, which has no plans. */
void proof_launch_refused(struct proof *proof, const char *problem_text, const attune_attention_arguments *arguments,
                          const char *word);

#endif
