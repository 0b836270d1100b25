/* reference.c - fp64 attention, row block by row block.
 *
 * A work item is a block of rows that share one KV head. It walks the keys in tiles twice, once for scores and once for
 * P V, converting each tile from the tensors as it goes; items share nothing, so they run in parallel without locks.
 * The inner loops run over keys (scores) or columns (P V) of a tile without dependencies, for the sake of vector units.
 */
#include "autotune/reference.h"

#include "autotune/parallel.h"
#include "autotune/philox.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 16, TILE = 128 };

/* AVX2 where the CPU has it; the operations and their order are the same, so the bits are too. Not under sanitizers,
 * whose run-time is not ready when the loader resolves such functions. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

struct block {
    size_t begin, end; /* rows of the list */
};

struct computing {
    const struct attention *a;
    const char *q, *k, *v;
    const struct reference_rows *rows;
    struct reference *out;
    struct block *blocks;
    atomic_bool failed; /* an item found no memory */
};

/* what one item works on */
struct scratch {
    int64_t keys, dim_qk, dim_v; /* keys: the most that a row of the block sees */
    int64_t visible[ROWS_MAX];
    double *q;           /* ROWS_MAX x dim_qk */
    float *naive_q;      /* the same as the naive algorithm takes it */
    double *scores;      /* ROWS_MAX x keys, then P */
    float *naive_scores; /* likewise in fp32, P rounded to V's type */
    double *tile;        /* TILE x dim: K transposed, or V */
    float *naive_tile;
    float *line; /* one row before it is transposed */
    double *o;   /* ROWS_MAX x dim_v */
    float *naive_o;
    uint8_t *keep; /* dropout, keys */
    double norms[TILE];
    double losses[TILE];       /* of keys: |k_j - k_j'|^2 */
    double key_norm[ROWS_MAX]; /* largest |k_j|^2 seen */
    double key_loss[ROWS_MAX];
    double squares[ROWS_MAX]; /* sum P^2 |V_j|^2 */
    double score_limit[ROWS_MAX];
};

static void scratch_free(struct scratch *s)
{
    free(s->q);
    free(s->naive_q);
    free(s->scores);
    free(s->naive_scores);
    free(s->tile);
    free(s->naive_tile);
    free(s->line);
    free(s->o);
    free(s->naive_o);
    free(s->keep);
}

static bool scratch_make(struct scratch *s, const struct attention *a)
{
    size_t keys = (size_t)s->keys + 1, qk = (size_t)s->dim_qk, dv = (size_t)s->dim_v, dim = qk > dv ? qk : dv;
    s->q = malloc(ROWS_MAX * qk * sizeof *s->q);
    s->naive_q = malloc(ROWS_MAX * qk * sizeof *s->naive_q);
    s->scores = malloc(ROWS_MAX * keys * sizeof *s->scores);
    s->naive_scores = malloc(ROWS_MAX * keys * sizeof *s->naive_scores);
    s->tile = malloc(TILE * dim * sizeof *s->tile);
    s->naive_tile = malloc(TILE * dim * sizeof *s->naive_tile);
    s->line = malloc(dim * sizeof *s->line);
    s->o = calloc(ROWS_MAX * dv, sizeof *s->o);
    s->naive_o = calloc(ROWS_MAX * dv, sizeof *s->naive_o);
    s->keep = a->dropout ? malloc(keys) : NULL;
    return s->q && s->naive_q && s->scores && s->naive_scores && s->tile && s->naive_tile && s->line && s->o &&
           s->naive_o && (s->keep || !a->dropout);
}

/* below this an element counts as zero in the naive algorithm; 0: nothing does */
static float flush_limit(const struct attention *a, enum dtype dtype)
{
    return a->flushes && dtype != DTYPE_F32 ? dtype_least_normal(dtype) : 0.0f;
}

static float flush(float value, float limit)
{
    return fabsf(value) < limit ? 0.0f : value;
}

/* rows j0 .. j0+count of K, transposed to dim x TILE, and their squared norms */
static void load_keys(struct scratch *s, const struct attention *a, const char *k, int64_t j0, int64_t count)
{
    float limit = flush_limit(a, a->k.dtype);
    for (int64_t t = 0; t < TILE; t++) {
        double norm = 0.0, loss = 0.0;
        if (t < count) {
            convert_to_float(a->k.dtype, k + (size_t)((j0 + t) * a->k.seq_stride) * dtype_size(a->k.dtype), s->line,
                             (size_t)s->dim_qk);
        } else {
            memset(s->line, 0, (size_t)s->dim_qk * sizeof *s->line);
        }
        for (int64_t c = 0; c < s->dim_qk; c++) {
            s->tile[c * TILE + t] = (double)s->line[c];
            float naive = s->naive_tile[c * TILE + t] = flush(s->line[c], limit);
            norm += (double)s->line[c] * (double)s->line[c];
            loss += naive == 0.0f ? (double)s->line[c] * (double)s->line[c] : 0.0;
        }
        s->norms[t] = norm;
        s->losses[t] = loss;
    }
}

static void load_values(struct scratch *s, const struct attention *a, const char *v, int64_t j0, int64_t count)
{
    float limit = flush_limit(a, a->v.dtype);
    for (int64_t t = 0; t < count; t++) {
        double norm = 0.0;
        float *row = s->naive_tile + t * s->dim_v;
        convert_to_float(a->v.dtype, v + (size_t)((j0 + t) * a->v.seq_stride) * dtype_size(a->v.dtype), row,
                         (size_t)s->dim_v);
        for (int64_t c = 0; c < s->dim_v; c++) {
            s->tile[t * s->dim_v + c] = (double)row[c];
            norm += (double)row[c] * (double)row[c];
            row[c] = flush(row[c], limit);
        }
        s->norms[t] = norm;
    }
}

WIDE static void dot_tile(const double *q, const float *naive_q, const double *tile, const float *naive_tile,
                          int64_t dim, double *restrict out, float *restrict naive_out)
{
    double sums[TILE] = {0};
    float naive_sums[TILE] = {0};
    for (int64_t c = 0; c < dim; c++) {
        const double *line = tile + c * TILE;
        const float *naive_line = naive_tile + c * TILE;
        double factor = q[c];
        float naive_factor = naive_q[c];
        for (int t = 0; t < TILE; t++) {
            sums[t] += factor * line[t];
        }
        for (int t = 0; t < TILE; t++) {
            naive_sums[t] += naive_factor * naive_line[t];
        }
    }
    memcpy(out, sums, sizeof sums);
    memcpy(naive_out, naive_sums, sizeof naive_sums);
}

WIDE static void accumulate(double p, float naive_p, const double *row, const float *naive_row, int64_t dim,
                            double *restrict o, float *restrict naive_o)
{
    for (int64_t c = 0; c < dim; c++) {
        o[c] += p * row[c];
    }
    for (int64_t c = 0; c < dim; c++) {
        naive_o[c] += naive_p * naive_row[c];
    }
}

static void score_rows(struct scratch *s, const struct attention *a, const char *k, int rows)
{
    for (int64_t j0 = 0; j0 < s->keys; j0 += TILE) {
        int64_t count = s->keys - j0 < TILE ? s->keys - j0 : TILE;
        load_keys(s, a, k, j0, count);
        for (int r = 0; r < rows; r++) {
            int64_t here = s->visible[r] - j0 < count ? s->visible[r] - j0 : count;
            if (here <= 0) {
                continue;
            }
            double sums[TILE];
            float naive_sums[TILE];
            dot_tile(s->q + r * s->dim_qk, s->naive_q + r * s->dim_qk, s->tile, s->naive_tile, s->dim_qk, sums,
                     naive_sums);
            for (int64_t t = 0; t < here; t++) {
                double score = sums[t] * (double)a->scale;
                s->scores[r * s->keys + j0 + t] = score;
                s->naive_scores[r * s->keys + j0 + t] = naive_sums[t] * a->scale;
                s->score_limit[r] = fmax(s->score_limit[r], fabs(score));
                s->key_norm[r] = fmax(s->key_norm[r], s->norms[t]);
                s->key_loss[r] = fmax(s->key_loss[r], s->losses[t]);
            }
        }
    }
}

/* scores -> P in place, dropout included; the row's LSE */
static double soften_row(struct scratch *s, const struct attention *a, int r, const struct reference_row *row)
{
    double *p = s->scores + r * s->keys;
    float *naive = s->naive_scores + r * s->keys;
    int64_t count = s->visible[r];
    double largest = -INFINITY, sum = 0.0;
    float naive_largest = -INFINITY, naive_sum = 0.0f;
    bool bad = false;
    for (int64_t j = 0; j < count; j++) {
        bad |= isnan(p[j]) != 0;
        largest = fmax(largest, p[j]);
        naive_largest = fmaxf(naive_largest, naive[j]);
    }
    largest = bad ? NAN : largest; /* one NaN score makes the row NaN */
    for (int64_t j = 0; j < count; j++) {
        p[j] = exp(p[j] - largest);
        sum += p[j];
        naive[j] = expf(naive[j] - naive_largest);
        naive_sum += naive[j];
    }
    if (a->dropout) {
        dropout_row(a->seed, a->offset, (uint32_t)(row->batch * a->heads + row->head), (uint32_t)row->query,
                    a->dropout_threshold, s->keep, count);
    }
    for (int64_t j = 0; j < count; j++) {
        double factor = !a->dropout ? 1.0 : s->keep[j] ? (double)a->dropout_scale : 0.0;
        p[j] = p[j] / sum * factor;
        naive[j] = dtype_round(a->v.dtype, naive[j] / naive_sum * (float)factor);
    }
    return largest + log(sum);
}

static void weigh_rows(struct scratch *s, const struct attention *a, const char *v, int rows)
{
    for (int64_t j0 = 0; j0 < s->keys; j0 += TILE) {
        int64_t count = s->keys - j0 < TILE ? s->keys - j0 : TILE;
        load_values(s, a, v, j0, count);
        for (int r = 0; r < rows; r++) {
            for (int64_t t = 0; t < count && j0 + t < s->visible[r]; t++) {
                double p = s->scores[r * s->keys + j0 + t];
                accumulate(p, s->naive_scores[r * s->keys + j0 + t], s->tile + t * s->dim_v,
                           s->naive_tile + t * s->dim_v, s->dim_v, s->o + r * s->dim_v, s->naive_o + r * s->dim_v);
                s->squares[r] += p * p * s->norms[t];
            }
        }
    }
}

static void finish_row(struct computing *work, struct scratch *s, int r, size_t index, double lse)
{
    const struct attention *a = work->a;
    struct reference *out = work->out;
    double unit = fmax(dtype_unit(a->v.dtype), dtype_unit(a->o.dtype));
    double norm = 0.0, difference = 0.0, query_norm = 0.0, query_loss = 0.0;
    for (int64_t c = 0; c < s->dim_v; c++) {
        double exact = s->o[r * s->dim_v + c];
        float naive = dtype_round(a->o.dtype, s->naive_o[r * s->dim_v + c]);
        out->o[index * (size_t)s->dim_v + (size_t)c] = exact;
        if (out->naive != NULL) {
            out->naive[index * (size_t)s->dim_v + (size_t)c] = naive;
        }
        norm += exact * exact;
        difference += ((double)naive - exact) * ((double)naive - exact);
    }
    for (int64_t c = 0; c < s->dim_qk; c++) {
        double element = s->q[r * s->dim_qk + c];
        query_norm += element * element;
        query_loss += s->naive_q[r * s->dim_qk + c] == 0.0f ? element * element : 0.0;
    }
    out->empty[index] = s->visible[r] == 0;
    out->lse[index] = out->empty[index] ? -INFINITY : lse;
    /* The last term: weights below 2^-126 of the row's largest may be 0 in fp32, which shows when dropout removes all
     * larger ones. */
    out->allowed[index] = 2.0 * sqrt(difference) +
                          (unit + 0x1p-22 * (1.0 + s->score_limit[r])) * (sqrt(norm) + sqrt(s->squares[r])) + 0x1p-110;
    double scale = fabs((double)a->scale);
    out->lse_allowed[index] = 0x1p-20 * fmax(1.0, scale * sqrt(query_norm) * sqrt(s->key_norm[r])) +
                              scale * (sqrt(query_loss * s->key_norm[r]) + sqrt(query_norm * s->key_loss[r]));
}

static void compute_block(void *data, size_t index)
{
    struct computing *work = data;
    const struct attention *a = work->a;
    struct block block = work->blocks[index];
    const struct reference_row *rows = work->rows->rows + block.begin;
    int count = (int)(block.end - block.begin);
    struct scratch s = {.dim_qk = a->head_dim_qk, .dim_v = a->head_dim_v};
    for (int r = 0; r < count; r++) {
        s.visible[r] = attention_visible(a, rows[r].query);
        s.keys = s.visible[r] > s.keys ? s.visible[r] : s.keys;
    }
    if (!scratch_make(&s, a)) {
        atomic_store(&work->failed, true);
        scratch_free(&s);
        return;
    }
    int64_t kv_head = rows[0].head / (a->heads / a->kv_heads);
    const char *k =
        work->k + (size_t)(rows[0].batch * a->k.batch_stride + kv_head * a->k.head_stride) * dtype_size(a->k.dtype);
    const char *v =
        work->v + (size_t)(rows[0].batch * a->v.batch_stride + kv_head * a->v.head_stride) * dtype_size(a->v.dtype);
    for (int r = 0; r < count; r++) {
        int64_t start =
            rows[r].batch * a->q.batch_stride + rows[r].query * a->q.seq_stride + rows[r].head * a->q.head_stride;
        const char *q = work->q + (size_t)start * dtype_size(a->q.dtype);
        convert_to_double(a->q.dtype, q, s.q + r * s.dim_qk, (size_t)s.dim_qk);
        convert_to_float(a->q.dtype, q, s.naive_q + r * s.dim_qk, (size_t)s.dim_qk);
        for (int64_t c = 0; c < s.dim_qk; c++) {
            s.naive_q[r * s.dim_qk + c] = flush(s.naive_q[r * s.dim_qk + c], flush_limit(a, a->q.dtype));
        }
    }
    score_rows(&s, a, k, count);
    double lse[ROWS_MAX];
    for (int r = 0; r < count; r++) {
        lse[r] = soften_row(&s, a, r, &rows[r]);
    }
    weigh_rows(&s, a, v, count);
    for (int r = 0; r < count; r++) {
        finish_row(work, &s, r, block.begin + (size_t)r, lse[r]);
    }
    scratch_free(&s);
}

/* consecutive rows of one batch index and KV head, at most ROWS_MAX */
static size_t cut_blocks(const struct attention *a, const struct reference_rows *rows, struct block *blocks)
{
    int64_t ratio = a->heads / a->kv_heads;
    size_t count = 0;
    for (size_t i = 0; i < rows->count;) {
        size_t end = i + 1;
        while (end < rows->count && end - i < ROWS_MAX && rows->rows[end].batch == rows->rows[i].batch &&
               rows->rows[end].head / ratio == rows->rows[i].head / ratio) {
            end++;
        }
        blocks[count++] = (struct block){i, end};
        i = end;
    }
    return count;
}

void reference_free(struct reference *reference)
{
    free(reference->o);
    free(reference->allowed);
    free(reference->lse);
    free(reference->lse_allowed);
    free(reference->empty);
    free(reference->naive);
    *reference = (struct reference){0};
}

attune_status reference_compute(const struct attention *a, const void *q, const void *k, const void *v,
                                const struct reference_rows *rows, bool keep_naive, struct reference *reference,
                                struct error *error)
{
    size_t count = rows->count, elements = count * (size_t)a->head_dim_v;
    struct computing work = {.a = a, .q = q, .k = k, .v = v, .rows = rows, .out = reference};
    attune_status status = ATTUNE_OK;
    atomic_init(&work.failed, false);
    *reference = (struct reference){.count = count};
    reference->o = malloc((elements + 1) * sizeof *reference->o);
    reference->allowed = malloc((count + 1) * sizeof *reference->allowed);
    reference->lse = malloc((count + 1) * sizeof *reference->lse);
    reference->lse_allowed = malloc((count + 1) * sizeof *reference->lse_allowed);
    reference->empty = malloc((count + 1) * sizeof *reference->empty);
    reference->naive = keep_naive ? malloc((elements + 1) * sizeof *reference->naive) : NULL;
    work.blocks = malloc((count + 1) * sizeof *work.blocks);
    if (!reference->o || !reference->allowed || !reference->lse || !reference->lse_allowed || !reference->empty ||
        (keep_naive && !reference->naive) || !work.blocks) {
        status = error_no_memory(error);
        goto out;
    }
    parallel_for(cut_blocks(a, rows, work.blocks), compute_block, &work);
    if (atomic_load(&work.failed)) {
        status = error_no_memory(error);
    }
out:
    free(work.blocks);
    if (status != ATTUNE_OK) {
        reference_free(reference);
    }
    return status;
}
