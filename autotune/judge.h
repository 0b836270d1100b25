/* judge.h - attention.forward judged on the device: attention.reference computes every row's right answer in fp64,
 * attention.compare measures an output against it. For problems whose whole reference would take the CPU too long; the
 * CPU's reference judges these two kernels in the tests.
 */
#ifndef AUTOTUNE_JUDGE_H
#define AUTOTUNE_JUDGE_H

#include "autotune/objects.h"
#include "autotune/oracle.h"

/* Both kernels compiled for a specialisation and loaded on a device. Immutable once made. */
struct judge;

/* `road` says for which target and where objects are kept. Belongs to the generator's thread while it is made. */
attune_status judge_create(struct generator *generator, const struct object_road *road, const struct problem *problem,
                           const struct driver *driver, int ordinal, struct judge **judge, struct error *error);
void judge_destroy(struct judge *judge); /* NULL is legal */
/* A judge for an oracle's large cases, set; NULL when it has none, or with a warning when the judge cannot be compiled:
 * then the CPU samples rows. */
struct judge *judge_for_oracle(struct generator *generator, const struct object_road *road, struct oracle *oracle,
                               const struct driver *driver, int ordinal);

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
