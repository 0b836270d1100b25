/* rows.c - which rows of an attention problem are checked, and the check. */
#include "autotune/inputs.h"
#include "autotune/parallel.h"
#include "autotune/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_PER_HEAD = 64, EDGE_UNIT = 16, ROW_ELEMENTS_MAX = 1 << 27 };

static attune_status all_rows(const struct attention *a, struct reference_rows *rows, struct error *error)
{
    size_t count = (size_t)(a->batch * a->heads * a->seqlen_q), next = 0;
    rows->rows = malloc((count + 1) * sizeof *rows->rows);
    if (rows->rows == NULL) {
        return error_no_memory(error);
    }
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < a->seqlen_q; i++) {
                rows->rows[next++] = (struct reference_row){(int32_t)b, (int32_t)h, i};
            }
        }
    }
    rows->count = count;
    rows->complete = true;
    return ATTUNE_OK;
}

/* Rows of one head: first and last, beside multiples of 16 (a quarter of the sample, drawn), and any (the rest, drawn).
 * Duplicates are taken out; the result is ascending. `marks` has seqlen_q entries, all 0 before and after. */
static size_t sample_head(const struct attention *a, int64_t b, int64_t h, uint64_t seed, bool every, uint8_t *marks,
                          struct reference_row *into)
{
    int64_t n = a->seqlen_q;
    size_t count = 0;
    if (every || n <= ROWS_PER_HEAD) {
        memset(marks, 1, (size_t)n);
    } else {
        uint64_t state = hash_mix(seed ^ hash_mix((uint64_t)(b * a->heads + h)));
        marks[0] = marks[1] = marks[n - 1] = marks[n - 2] = 1;
        for (int drawn = 0; drawn < ROWS_PER_HEAD; drawn++) {
            state = hash_mix(state);
            int64_t row = (int64_t)((state >> 8) % (uint64_t)n);
            if (drawn < ROWS_PER_HEAD / 4) {
                row = row / EDGE_UNIT * EDGE_UNIT - (int64_t)(state & 1);
                row = row < 0 ? 0 : row;
            }
            marks[row] = 1;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        if (marks[i]) {
            into[count++] = (struct reference_row){(int32_t)b, (int32_t)h, i};
        }
    }
    memset(marks, 0, (size_t)n);
    return count;
}

attune_status reference_choose_rows(const struct attention *a, double operations, uint64_t seed,
                                    struct reference_rows *rows, struct error *error)
{
    *rows = (struct reference_rows){0};
    int64_t lanes = a->batch * a->heads;
    double whole = attention_operations(a);
    if (lanes == 0 || a->seqlen_q == 0 ||
        (whole <= operations && lanes * a->seqlen_q * a->head_dim_v <= ROW_ELEMENTS_MAX)) {
        return all_rows(a, rows, error);
    }
    /* With very many heads only every `step`-th is sampled, so that the cost stays bounded. */
    double sample_cost = whole / (double)(lanes * a->seqlen_q) * (ROWS_PER_HEAD + 4);
    double head_cost = whole / (double)lanes;
    int64_t step = (int64_t)fmax(1.0, ceil(sample_cost * (double)lanes / operations));
    bool dense = 2.0 * head_cost + sample_cost * (double)lanes <= 1.25 * operations;
    size_t capacity = (size_t)(lanes / step + 3) * (ROWS_PER_HEAD + 4) + (dense ? 2 * (size_t)a->seqlen_q : 0);
    uint8_t *marks = calloc((size_t)a->seqlen_q, 1);
    rows->rows = malloc(capacity * sizeof *rows->rows);
    if (marks == NULL || rows->rows == NULL) {
        free(marks);
        free(rows->rows);
        *rows = (struct reference_rows){0};
        return error_no_memory(error);
    }
    for (int64_t lane = 0; lane < lanes; lane++) {
        bool edge = lane == 0 || lane == lanes - 1;
        if (edge || lane % step == 0) {
            rows->count +=
                sample_head(a, lane / a->heads, lane % a->heads, seed, edge && dense, marks, rows->rows + rows->count);
        }
    }
    free(marks);
    return ATTUNE_OK;
}

struct comparing {
    const struct attention *a;
    double *row;
    double ratio;
    char *reason;
    size_t reason_bytes;
    bool right;
};

/* the first failure is described; the largest ratio is kept */
static void note(struct comparing *state, const struct reference_row *at, double ratio, const char *what, double found,
                 double expected)
{
    state->ratio = ratio > state->ratio ? ratio : state->ratio;
    if (ratio <= 1.0) {
        return;
    }
    if (state->right && state->reason_bytes > 0) {
        snprintf(state->reason, state->reason_bytes, "batch %d, head %d, query %lld: %s: %.6g, expected %.6g",
                 at->batch, at->head, (long long)at->query, what, found, expected);
    }
    state->right = false;
}

static void compare_output(struct comparing *state, const struct reference_row *at, const double *expected,
                           double allowed, bool empty)
{
    const struct attention *a = state->a;
    double norm = 0.0, largest = -1.0;
    int64_t worst = 0;
    for (int64_t c = 0; c < a->head_dim_v; c++) {
        double found = state->row[c];
        if (isnan(found) || isnan(expected[c])) {
            if (isnan(found) != isnan(expected[c])) {
                note(state, at, INFINITY, "o is NaN on one side only", found, expected[c]);
                return;
            }
            continue;
        }
        double difference = found == expected[c] ? 0.0 : fabs(found - expected[c]); /* inf equals inf */
        norm += difference * difference;
        if (difference > largest) {
            largest = difference;
            worst = c;
        }
    }
    if (empty ? norm != 0.0 : !(sqrt(norm) <= allowed)) {
        char what[128];
        if (empty) {
            snprintf(what, sizeof what, "o of a row without keys is not 0 (column %lld)", (long long)worst);
        } else {
            snprintf(what, sizeof what, "o: error norm %.3g above %.3g; column %lld", sqrt(norm), allowed,
                     (long long)worst);
        }
        double ratio = empty || !(allowed > 0.0) ? INFINITY : sqrt(norm) / allowed;
        note(state, at, isnan(ratio) ? INFINITY : ratio, what, state->row[worst], expected[worst]);
        return;
    }
    note(state, at, allowed > 0.0 ? sqrt(norm) / allowed : 0.0, "", 0.0, 0.0);
}

static void compare_lse(struct comparing *state, const struct reference_row *at, double found, double expected,
                        double allowed)
{
    if (found == expected || (isnan(found) && isnan(expected))) {
        return;
    }
    double ratio = fabs(found - expected) / allowed;
    note(state, at, isfinite(ratio) ? ratio : INFINITY, "lse", found, expected);
}

enum { COMPARE_ROWS = 512 };

/* one work item: a stretch of rows, with its own result, so that items share nothing */
struct stretch {
    double ratio;
    bool right;
    char reason[256];
};

struct comparison {
    const struct attention *a;
    const struct reference_rows *rows;
    const struct reference *reference;
    const char *o;
    const float *lse;
    struct stretch *stretches;
};

static void compare_stretch(void *data, size_t index)
{
    const struct comparison *work = data;
    const struct attention *a = work->a;
    struct stretch *result = &work->stretches[index];
    double row[ATTENTION_HEAD_DIM_MAX];
    struct comparing state = {
        .a = a, .row = row, .reason = result->reason, .reason_bytes = sizeof result->reason, .right = true};
    size_t begin = index * COMPARE_ROWS;
    size_t end = work->rows->count - begin < COMPARE_ROWS ? work->rows->count : begin + COMPARE_ROWS;
    for (size_t i = begin; i < end; i++) {
        const struct reference_row *at = &work->rows->rows[i];
        int64_t start = at->batch * a->o.batch_stride + at->query * a->o.seq_stride + at->head * a->o.head_stride;
        convert_to_double(a->o.dtype, work->o + (size_t)start * dtype_size(a->o.dtype), row, (size_t)a->head_dim_v);
        compare_output(&state, at, work->reference->o + i * (size_t)a->head_dim_v, work->reference->allowed[i],
                       work->reference->empty[i]);
        if (work->lse != NULL) {
            size_t place = (size_t)((at->batch * a->heads + at->head) * a->seqlen_q + at->query);
            compare_lse(&state, at, (double)work->lse[place], work->reference->lse[i], work->reference->lse_allowed[i]);
        }
    }
    result->ratio = state.ratio;
    result->right = state.right;
}

bool reference_compare(const struct attention *a, const struct reference_rows *rows, const struct reference *reference,
                       const void *o, const float *lse, double *ratio, char *reason, size_t reason_bytes)
{
    size_t count = (rows->count + COMPARE_ROWS - 1) / COMPARE_ROWS;
    struct comparison work = {.a = a, .rows = rows, .reference = reference, .o = o, .lse = lse};
    bool right = true;
    *ratio = 0.0;
    if (reason_bytes > 0) {
        reason[0] = '\0';
    }
    work.stretches = calloc(count + 1, sizeof *work.stretches);
    if (work.stretches == NULL) {
        snprintf(reason, reason_bytes, "no memory for the comparison");
        *ratio = (double)NAN;
        return false;
    }
    parallel_for(count, compare_stretch, &work);
    for (size_t i = 0; i < count; i++) {
        *ratio = fmax(*ratio, work.stretches[i].ratio);
        if (right && !work.stretches[i].right) {
            right = false;
            snprintf(reason, reason_bytes, "%s", work.stretches[i].reason);
        }
    }
    free(work.stretches);
    return right;
}
