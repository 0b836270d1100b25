/* judge_trial.h - the two kernels that judge attention.forward on a device, held against the CPU's reference: one call
 * with inputs, the CPU's answers, the judge's answers, and an output that can be spoiled. */
#ifndef TESTS_AUTOTUNE_JUDGE_TRIAL_H
#define TESTS_AUTOTUNE_JUDGE_TRIAL_H

#include "autotune/judge.h"

struct bench {
    struct generator *generator;
    struct compiler_pool *pool;
    const struct driver *host; /* or another device whose memory is this process's */
    struct object_road road;
    bool tiny; /* inputs times 2^-13, many of them subnormal in f16, for a road to a target that flushes */
    struct error error;
};

enum { JUDGE_PROBLEMS = 5 };
extern const char *const judge_problems[JUDGE_PROBLEMS];

struct trial {
    const struct driver *driver; /* owns q, k, v, o and lse */
    struct attention a;
    void *q, *k, *v;
    struct reference_rows rows;
    struct reference cpu;
    struct judge *judge;
    struct judge_answers answers;
    char *o; /* the naive algorithm's, which must pass */
    float *lse;
};

/* for main: 0, or 77 after the reason when nothing compiles for the host device here */
int judge_trial_skip(void);

/* false, with bench->error, when the judge's kernels do not compile, load or run */
bool trial_begin(struct bench *b, const char *text, int kind, struct trial *t);
void trial_end(struct trial *t);
/* NULL when the judge's answers and bounds are the CPU's, else what differs */
const char *trial_difference(const struct trial *t);
/* does the judge take the trial's output for right? */
bool judged_right(struct bench *b, struct trial *t);
/* multiplies a row of the output */
void spoil(struct trial *t, int64_t batch, int64_t head, int64_t query, float factor);

#endif
