/* inputs.c - input tensors by counter: any element can be made alone, so rows are made in parallel. */
#include "autotune/inputs.h"

#include "autotune/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_Q = 1, STREAM_K = 2, STREAM_V = 3, STREAM_CHOICE = 4, LOW_KEY = 32 };

const char *input_kind_name(int kind)
{
    static const char *const names[] = {"normal", "peaked", "structured"};
    return kind >= 0 && kind < INPUT_KINDS ? names[kind] : "unknown";
}

uint64_t hash_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void normal_table(float table[NORMAL_ENTRIES])
{
    /* Newton's method on the tail probability, from the previous quantile outwards: a few steps each */
    double x = 0.0;
    for (int i = NORMAL_ENTRIES / 2; i < NORMAL_ENTRIES; i++) {
        double tail = 1.0 - ((double)i + 0.5) / NORMAL_ENTRIES;
        for (int step = 0; step < 20; step++) {
            double difference = 0.5 * erfc(x * M_SQRT1_2) - tail;
            double slope = exp(-0.5 * x * x) / sqrt(2.0 * M_PI);
            double move = difference / slope;
            x += move;
            if (fabs(move) < 1e-12) {
                break;
            }
        }
        table[i] = (float)x;
        table[NORMAL_ENTRIES - 1 - i] = (float)-x;
    }
}

struct making {
    const struct attention *attention;
    int kind;
    uint64_t seed;
    float *table;
    float code_gain; /* structured: a query is this times a code */
    float low;       /* structured: the first element of a query that scores far below zero with every key */
    const struct attention_tensor *tensor;
    int64_t seqlen, heads, dim;
    int stream;
    char *elements;
};

/* rows are numbered (batch, seq, head), head fastest */
static uint64_t row_seed(const struct making *making, int stream, int64_t batch, int64_t position, int64_t head)
{
    uint64_t row = hash_mix(hash_mix((uint64_t)batch) ^ (uint64_t)position) ^ (uint64_t)head;
    return hash_mix(making->seed ^ hash_mix((uint64_t)stream << 56 ^ row));
}

static void row_normal(const struct making *making, uint64_t seed, float gain, float *row)
{
    for (int64_t c = 0; c < making->dim; c += 4) {
        uint64_t bits = hash_mix(seed + (uint64_t)c);
        for (int64_t e = c; e < c + 4 && e < making->dim; e++, bits >>= 16) {
            row[e] = gain * making->table[bits & 0xffff];
        }
    }
}

/* the first column is not the code's, unless there is no other */
static void add_code(const struct making *making, int64_t batch, int64_t key, int64_t kv_head, float gain, float *row)
{
    float first = row[0];
    uint64_t seed = row_seed(making, STREAM_K, batch, key, kv_head);
    for (int64_t c = 0; c < making->dim; c += 64) {
        uint64_t bits = hash_mix(seed + (uint64_t)c);
        for (int64_t e = c; e < c + 64 && e < making->dim; e++, bits >>= 1) {
            row[e] += bits & 1 ? gain : -gain;
        }
    }
    row[0] = making->dim > 1 ? first : row[0];
}

static void row_query(const struct making *making, int64_t batch, int64_t query, int64_t head, float *row)
{
    const struct attention *a = making->attention;
    int64_t visible = attention_visible(a, query);
    int64_t kv_head = head / (a->heads / a->kv_heads);
    uint64_t choice = row_seed(making, STREAM_CHOICE, batch, query, head);
    memset(row, 0, (size_t)making->dim * sizeof *row);
    if (query % 8 == 7 || a->seqlen_k == 0) {
        return;
    }
    if (query % 8 == 3 && making->dim > 1) {
        row[0] = making->low;
        return;
    }
    if (visible > 0) {
        int64_t key = (int64_t)(choice >> 8) % visible;
        key = choice % 4 == 0 ? visible - 1 : choice % 4 == 1 ? 0 : key < 0 ? -key : key;
        add_code(making, batch, key, kv_head, making->code_gain, row);
    }
    if (query % 4 == 1 && visible < a->seqlen_k) {
        add_code(making, batch, visible, kv_head, 2.0f * making->code_gain, row);
    }
}

static void row_value(const struct making *making, int64_t batch, int64_t key, int64_t kv_head, float *row)
{
    memset(row, 0, (size_t)making->dim * sizeof *row);
    row[(key + 7 * kv_head + 13 * batch) % making->dim] = (float)(1 + key / making->dim % 120);
}

static void make_row(void *data, size_t index)
{
    const struct making *making = data;
    const struct attention_tensor *tensor = making->tensor;
    int64_t position = (int64_t)index % making->seqlen, batch = (int64_t)index / making->seqlen;
    float row[ATTENTION_HEAD_DIM_MAX];
    for (int64_t head = 0; head < making->heads; head++) {
        if (making->kind != INPUT_STRUCTURED) {
            float gain = making->kind == INPUT_PEAKED && making->stream != STREAM_V ? 8.0f : 1.0f;
            row_normal(making, row_seed(making, making->stream, batch, position, head), gain, row);
        } else if (making->stream == STREAM_Q) {
            row_query(making, batch, position, head, row);
        } else if (making->stream == STREAM_K) {
            memset(row, 0, (size_t)making->dim * sizeof *row);
            add_code(making, batch, position, head, 1.0f, row);
            row[0] = making->dim > 1 ? LOW_KEY : row[0];
        } else {
            row_value(making, batch, position, head, row);
        }
        int64_t start = batch * tensor->batch_stride + position * tensor->seq_stride + head * tensor->head_stride;
        convert_from_float(tensor->dtype, row, making->elements + (size_t)start * dtype_size(tensor->dtype),
                           (size_t)making->dim);
    }
}

static void make_tensor(struct making *making, const struct attention_tensor *tensor, int stream, int64_t seqlen,
                        int64_t heads, int64_t dim, void *elements)
{
    memset(elements, 0xff, (size_t)tensor->span * dtype_size(tensor->dtype));
    making->tensor = tensor;
    making->stream = stream;
    making->seqlen = seqlen;
    making->heads = heads;
    making->dim = dim;
    making->elements = elements;
    parallel_for((size_t)(making->attention->batch * seqlen), make_row, making);
}

attune_status inputs_attention(const struct attention *a, int kind, uint64_t seed, void *q, void *k, void *v,
                               struct error *error)
{
    if (a->head_dim_qk > ATTENTION_HEAD_DIM_MAX || a->head_dim_v > ATTENTION_HEAD_DIM_MAX) {
        return error_set(error, ATTUNE_UNSUPPORTED, "head_dim %lld: inputs are made up to %d",
                         (long long)(a->head_dim_qk > a->head_dim_v ? a->head_dim_qk : a->head_dim_v),
                         ATTENTION_HEAD_DIM_MAX);
    }
    struct making making = {.attention = a, .kind = kind, .seed = seed};
    making.table = malloc(NORMAL_ENTRIES * sizeof *making.table);
    if (making.table == NULL) {
        return error_no_memory(error);
    }
    normal_table(making.table);
    /* a chosen key then scores about 100 above an unrelated one; a power of two, so that codes stay exact in every type
     */
    double gain = exp2(rint(log2(100.0 / ((double)a->head_dim_qk * fmax(fabs((double)a->scale), 1e-30)))));
    making.code_gain = (float)fmin(fmax(gain, 0x1p-6), 0x1p8);
    /* about -2^17, as far as the largest f16 reaches: below every finite number that might stand for -infinity */
    gain = exp2(rint(log2(0x1p17 / ((double)LOW_KEY * fmax(fabs((double)a->scale), 1e-30)))));
    making.low = (float)-fmin(fmax(gain, 1.0), 0x1p15) * (a->scale < 0.0f ? -1.0f : 1.0f);
    make_tensor(&making, &a->q, STREAM_Q, a->seqlen_q, a->heads, a->head_dim_qk, q);
    make_tensor(&making, &a->k, STREAM_K, a->seqlen_k, a->kv_heads, a->head_dim_qk, k);
    make_tensor(&making, &a->v, STREAM_V, a->seqlen_k, a->kv_heads, a->head_dim_v, v);
    free(making.table);
    return ATTUNE_OK;
}
