/* judge_trial.c - see judge_trial.h. */
#include "judge_trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *const judge_problems[JUDGE_PROBLEMS] = {
    "dtype=f16 batch=2 heads=4 kv_heads=2 seqlen_q=37 seqlen_k=150 head_dim=40 lse=1 causal=bottom_right",
    ("dtype=bf16 batch=1 heads=2 seqlen_q=60 seqlen_k=45 head_dim_qk=33 head_dim_v=130 lse=1 causal=bottom_right "
     "alignment=2"),
    "q_dtype=f32 k_dtype=f16 v_dtype=f16 o_dtype=f32 batch=1 heads=2 seqlen_q=9 seqlen_k=300 head_dim=64 lse=1",
    "dtype=f16 batch=2 heads=3 seqlen_q=21 seqlen_k=130 head_dim=16 dropout=0.3 lse=1 causal=top_left",
    "dtype=f32 batch=1 heads=1 seqlen_q=17 seqlen_k=33 head_dim=8",
};

/* the device's memory, which can be read and written here */
static void *allocate(const struct trial *t, size_t bytes)
{
    void *memory;
    assert_int_equal(t->driver->allocate(t->driver, 0, bytes, &memory, NULL), ATTUNE_OK);
    return memory;
}

static void make_tiny(const struct attention_tensor *tensor, void *elements)
{
    float *values = malloc((size_t)tensor->span * sizeof *values);
    convert_to_float(tensor->dtype, elements, values, (size_t)tensor->span);
    for (int64_t i = 0; i < tensor->span; i++) {
        values[i] *= 0x1p-13f;
    }
    convert_from_float(tensor->dtype, values, elements, (size_t)tensor->span);
    free(values);
}

bool trial_begin(struct bench *b, const char *text, int kind, struct trial *t)
{
    struct problem problem;
    memset(t, 0, sizeof *t);
    assert_int_equal(problem_parse(schema_attention_forward(), text, &problem, &b->error), ATTUNE_OK);
    assert_int_equal(attention_from_problem(&problem, &t->a, &b->error), ATTUNE_OK);
    attention_scattered(&t->a);
    t->driver = b->host;
    t->q = allocate(t, (size_t)t->a.q.span * dtype_size(t->a.q.dtype));
    t->k = allocate(t, (size_t)t->a.k.span * dtype_size(t->a.k.dtype));
    t->v = allocate(t, (size_t)t->a.v.span * dtype_size(t->a.v.dtype));
    assert_int_equal(inputs_attention(&t->a, kind, 7, t->q, t->k, t->v, &b->error), ATTUNE_OK);
    if (b->tiny) {
        t->a.flushes = true;
        make_tiny(&t->a.q, t->q);
        make_tiny(&t->a.k, t->k);
        make_tiny(&t->a.v, t->v);
    }
    assert_int_equal(reference_choose_rows(&t->a, 1e12, 7, &t->rows, &b->error), ATTUNE_OK);
    assert_int_equal(reference_compute(&t->a, t->q, t->k, t->v, &t->rows, true, &t->cpu, &b->error), ATTUNE_OK);
    struct judge_code code;
    struct judge_objects objects;
    attune_status status = judge_compile(b->generator, &b->road, &problem, &code, &b->error);
    judge_code_objects(&code, &objects);
    if (status == ATTUNE_OK) {
        status = judge_load(b->generator, &objects, &problem, b->host, 0, &t->judge, &b->error);
    }
    judge_code_free(&code);
    if (status == ATTUNE_OK) {
        status = judge_answer(t->judge, &t->a, t->q, t->k, t->v, &t->answers, &b->error);
    }
    if (status != ATTUNE_OK) {
        return false;
    }

    t->o = allocate(t, (size_t)t->a.o.span * dtype_size(t->a.o.dtype));
    t->lse = allocate(t, t->cpu.count * sizeof *t->lse + 1);
    for (size_t i = 0; i < t->cpu.count; i++) {
        const struct reference_row *row = &t->rows.rows[i];
        int64_t start =
            row->batch * t->a.o.batch_stride + row->query * t->a.o.seq_stride + row->head * t->a.o.head_stride;
        convert_from_float(t->a.o.dtype, t->cpu.naive + i * (size_t)t->a.head_dim_v,
                           t->o + (size_t)start * dtype_size(t->a.o.dtype), (size_t)t->a.head_dim_v);
        t->lse[i] = (float)t->cpu.lse[i];
    }
    return true;
}

void trial_end(struct trial *t)
{
    judge_answers_free(&t->answers);
    judge_destroy(t->judge);
    reference_free(&t->cpu);
    free(t->rows.rows);
    void *const all[] = {t->q, t->k, t->v, t->o, t->lse};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        t->driver->release(t->driver, 0, all[i], NULL);
    }
}

bool judged_right(struct bench *b, struct trial *t)
{
    struct verdict verdict = {.right = true};
    attune_status status =
        judge_compare(t->judge, &t->a, &t->answers, t->o, t->a.lse ? t->lse : NULL, &verdict, &b->error);
    assert_int_equal(status, ATTUNE_OK);
    return verdict.right;
}

const char *trial_difference(const struct trial *t)
{
    const double *o = t->answers.o.data, *lse = t->answers.lse.data, *allowed = t->answers.allowed.data;
    const double *lse_allowed = t->answers.lse_allowed.data;
    size_t dim = (size_t)t->a.head_dim_v;
    for (size_t r = 0; r < t->cpu.count; r++) {
        double norm = 0.0, difference = 0.0;
        for (size_t c = 0; c < dim; c++) {
            norm += t->cpu.o[r * dim + c] * t->cpu.o[r * dim + c];
            difference += pow(o[r * dim + c] - t->cpu.o[r * dim + c], 2.0);
        }
        if (!(sqrt(difference) <= 1e-11 * (sqrt(norm) + 1e-3))) {
            return "o";
        }
        if (!(lse[r] == t->cpu.lse[r] || fabs(lse[r] - t->cpu.lse[r]) <= 1e-11 * (1.0 + fabs(lse[r])))) {
            return "lse";
        }
        /* the naive algorithm's own sums are fp32 in another order; of a row without keys exactly 0 is asked */
        if (!(allowed[r] <= 1.3 * t->cpu.allowed[r]) ||
            !(t->cpu.empty[r] ? allowed[r] == 0.0 : t->cpu.allowed[r] <= 1.3 * allowed[r])) {
            return "the bound of o";
        }
        if (!(fabs(lse_allowed[r] - t->cpu.lse_allowed[r]) <= 1e-9 * lse_allowed[r])) {
            return "the bound of lse";
        }
    }
    return NULL;
}

void spoil(struct trial *t, int64_t batch, int64_t head, int64_t query, float factor)
{
    float row[256];
    int64_t start = batch * t->a.o.batch_stride + query * t->a.o.seq_stride + head * t->a.o.head_stride;
    char *at = t->o + (size_t)start * dtype_size(t->a.o.dtype);
    convert_to_float(t->a.o.dtype, at, row, (size_t)t->a.head_dim_v);
    for (int64_t c = 0; c < t->a.head_dim_v; c++) {
        row[c] *= factor;
    }
    convert_from_float(t->a.o.dtype, row, at, (size_t)t->a.head_dim_v);
}

int judge_trial_skip(void)
{
    struct compiler_pool *pool = NULL;
    struct target host;
    struct error error = {.message = ""};
    char compiler[64], identity[DIGEST_HEX_BYTES];
    if (target_parse("host", &host, &error) != ATTUNE_OK || compiler_pool_create(NULL, &pool, &error) != ATTUNE_OK ||
        compiler_identity(pool, &host, COMPILER_AUTO, SANITIZE_NONE, compiler, identity, &error) != ATTUNE_OK) {
        printf("skipped: no C++ compiler for the host device: %s\n", error.message);
        compiler_pool_destroy(pool);
        return 77;
    }
    compiler_pool_destroy(pool);
    return 0;
}
