/* judge.h - attention.forward judged on the device: attention.reference computes every row's right answer in fp64,
 * attention.compare measures an output against it. For problems whose whole reference would take the CPU too long; the
 * CPU's reference judges these two kernels in the tests.
 */
#ifndef AUTOTUNE_JUDGE_H
#define AUTOTUNE_JUDGE_H

#include "autotune/objects.h"
#include "autotune/oracle.h"

/* both kernels compiled for a specialisation */
struct judge_code {
    struct object_job reference, compare;
};
/* the same as it is loaded; owns nothing */
struct judge_objects {
    struct kernel_object reference, compare;
};

/* `road` says for which target and where objects are kept. *code must be freed also after an error. */
attune_status judge_compile(struct generator *generator, const struct object_road *road, const struct problem *problem,
                            struct judge_code *code, struct error *error);
void judge_code_objects(const struct judge_code *code, struct judge_objects *objects);
void judge_code_free(struct judge_code *code);

/* Both kernels loaded on a device. Immutable once made; the generator lends it two schemas. */
struct judge;
attune_status judge_load(struct generator *generator, const struct judge_objects *objects,
                         const struct problem *problem, const struct driver *driver, int ordinal, struct judge **judge,
                         struct error *error);
void judge_destroy(struct judge *judge); /* NULL is legal */

/* Answers of one case in device memory; zero it before the first use. Rows are ordered [batch, head, query]. */
struct judge_answers {
    bool made;
    struct guarded o;           /* fp64 [rows, head_dim_v] */
    struct guarded lse;         /* fp64 [rows] */
    struct guarded allowed;     /* fp64 [rows] */
    struct guarded lse_allowed; /* fp64 [rows] */
    struct guarded ratios;      /* fp32 [rows]: of the last comparison */
};
uint64_t judge_answer_bytes(const struct attention *attention);
attune_status judge_answer(const struct judge *judge, const struct attention *attention, void *q, void *k, void *v,
                           struct judge_answers *answers, struct error *error);
void judge_answers_free(struct judge_answers *answers);

/* Compare an output in device memory; `lse` NULL without. Fills right, worst_ratio and the reason. */
attune_status judge_compare(const struct judge *judge, const struct attention *attention,
                            const struct judge_answers *answers, void *o, void *lse, struct verdict *verdict,
                            struct error *error);

#endif
