/* kit_call.c - calls: tensors of a test's own, and what it says about results. */
#include "kit.h"

#include "autotune/philox.h"

static int64_t dimension_of(const struct attention *a, enum proof_tensor tensor)
{
    return tensor == PROOF_Q || tensor == PROOF_K ? a->head_dim_qk : a->head_dim_v;
}
static int64_t heads_of(const struct attention *a, enum proof_tensor tensor)
{
    return tensor == PROOF_Q || tensor == PROOF_O ? a->heads : a->kv_heads;
}
static int64_t length_of(const struct attention *a, enum proof_tensor tensor)
{
    return tensor == PROOF_Q || tensor == PROOF_O ? a->seqlen_q : a->seqlen_k;
}

static struct attention_tensor *tensor_of(struct attention *a, enum proof_tensor tensor)
{
    struct attention_tensor *const tensors[] = {&a->q, &a->k, &a->v, &a->o};
    return tensors[tensor];
}
static const struct attention_tensor *tensor_in(const struct attention *a, enum proof_tensor tensor)
{
    const struct attention_tensor *const tensors[] = {&a->q, &a->k, &a->v, &a->o};
    return tensors[tensor];
}

void proof_call_make(struct proof_call *call, const char *label, const char *problem_text)
{
    struct error error = {0};
    *call = (struct proof_call){.label = label};
    snprintf(call->text, sizeof call->text, "%s", problem_text);
    if (problem_parse(schema_attention_forward(), problem_text, &call->problem, &error) != ATTUNE_OK ||
        attention_from_problem(&call->problem, &call->a, &error) != ATTUNE_OK) {
        fail_msg("%s: %s: %s", label, problem_text, error.message);
    }
    call->probability = problem_real(&call->problem, "dropout");
    proof_call_layout(call);
}

void proof_call_free(struct proof_call *call)
{
    for (int i = 0; i < PROOF_TENSORS; i++) {
        free(call->tensors[i]);
        call->tensors[i] = NULL;
    }
    free(call->lse);
    call->lse = NULL;
}

void proof_call_layout(struct proof_call *call)
{
    struct attention *a = &call->a;
    proof_call_free(call);
    for (enum proof_tensor i = PROOF_Q; i < PROOF_TENSORS; i++) {
        struct attention_tensor *tensor = tensor_of(a, i);
        int64_t length = length_of(a, i);
        tensor->span = a->batch == 0 || length == 0
                           ? 0
                           : (a->batch - 1) * tensor->batch_stride + (length - 1) * tensor->seq_stride +
                                 (heads_of(a, i) - 1) * tensor->head_stride + dimension_of(a, i);
        size_t bytes = (size_t)(call->offsets[i] + tensor->span) * dtype_size(tensor->dtype);
        call->tensors[i] = malloc(bytes + 1);
        assert_non_null(call->tensors[i]);
        memset(call->tensors[i], 0xff, bytes);
    }
    if (a->lse) {
        call->lse = calloc((size_t)(a->batch * a->heads * a->seqlen_q) + 1, sizeof *call->lse);
        assert_non_null(call->lse);
    }
}

void proof_call_dropout(struct proof_call *call, double probability)
{
    call->probability = probability;
    dropout_constants(probability, &call->a.dropout_threshold, &call->a.dropout_scale);
}

static char *element(const struct proof_call *call, enum proof_tensor tensor, int64_t b, int64_t s, int64_t h,
                     int64_t c)
{
    const struct attention_tensor *t = tensor_in(&call->a, tensor);
    int64_t index = call->offsets[tensor] + b * t->batch_stride + s * t->seq_stride + h * t->head_stride + c;
    return (char *)call->tensors[tensor] + (size_t)index * dtype_size(t->dtype);
}

void proof_set(struct proof_call *call, enum proof_tensor tensor, int64_t b, int64_t s, int64_t h, int64_t c,
               double value)
{
    convert_from_double(tensor_in(&call->a, tensor)->dtype, &value, element(call, tensor, b, s, h, c), 1);
}

double proof_get(const struct proof_call *call, enum proof_tensor tensor, int64_t b, int64_t s, int64_t h, int64_t c)
{
    double value;
    convert_to_double(tensor_in(&call->a, tensor)->dtype, element(call, tensor, b, s, h, c), &value, 1);
    return value;
}

void proof_fill(struct proof_call *call, enum proof_tensor tensor, proof_value value, const void *data)
{
    const struct attention *a = &call->a;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t s = 0; s < length_of(a, tensor); s++) {
            for (int64_t h = 0; h < heads_of(a, tensor); h++) {
                for (int64_t c = 0; c < dimension_of(a, tensor); c++) {
                    proof_set(call, tensor, b, s, h, c, value(data, b, s, h, c));
                }
            }
        }
    }
}

double proof_constant(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)b, (void)s, (void)h, (void)c;
    return *(const double *)data;
}

double proof_o(const struct proof_call *call, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return proof_get(call, PROOF_O, b, i, h, c);
}

static size_t row_index(const struct attention *a, int64_t b, int64_t h, int64_t i)
{
    return (size_t)((b * a->heads + h) * a->seqlen_q + i);
}

double proof_lse(const struct proof_call *call, int64_t b, int64_t h, int64_t i)
{
    assert_non_null(call->lse);
    return (double)call->lse[row_index(&call->a, b, h, i)];
}

/* ------------------------------------------------------------------------------------------------ judgements */

void proof_fail(const struct proof_call *call, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fail_msg("%s (%s): %s: %s", call->label, call->text, call->candidate, text);
    abort(); /* fail_msg does not return, but is not declared so */
}

void proof_near(const struct proof_call *call, const char *what, int64_t b, int64_t h, int64_t i, int64_t c,
                double value, double wanted, double allowed)
{
    bool same = value == wanted; /* infinities too */
    if (!same && !(fabs(value - wanted) <= allowed)) {
        proof_fail(call, "%s of batch %lld, head %lld, query %lld, column %lld is %.9g, wanted %.9g within %.3g", what,
                   (long long)b, (long long)h, (long long)i, (long long)c, value, wanted, allowed);
    }
}

struct proof_bits proof_bits(const struct proof_call *call)
{
    const struct attention *a = &call->a;
    size_t rows = (size_t)(a->batch * a->heads * a->seqlen_q);
    size_t row_bytes = (size_t)a->head_dim_v * dtype_size(a->o.dtype), lse_bytes = a->lse ? rows * sizeof(float) : 0;
    struct proof_bits bits = {.bytes = rows * row_bytes + lse_bytes,
                              .batch = a->batch,
                              .heads = a->heads,
                              .seqlen_q = a->seqlen_q,
                              .row_bytes = row_bytes};
    bits.rows = malloc(bits.bytes + 1);
    assert_non_null(bits.rows);
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < a->seqlen_q; i++) {
                memcpy(bits.rows + row_index(a, b, h, i) * row_bytes, element(call, PROOF_O, b, i, h, 0), row_bytes);
            }
        }
    }
    if (a->lse) {
        memcpy(bits.rows + rows * row_bytes, call->lse, lse_bytes);
    }
    return bits;
}

void proof_bits_free(struct proof_bits *bits)
{
    free(bits->rows);
    bits->rows = NULL;
}

bool proof_equal_bits(const struct proof_bits *a, const struct proof_bits *b)
{
    return a->bytes == b->bytes && memcmp(a->rows, b->rows, a->bytes) == 0;
}

void proof_same_bits(const struct proof_call *call, const struct proof_bits *bits, const char *what)
{
    struct proof_bits now = proof_bits(call);
    if (proof_equal_bits(&now, bits)) {
        proof_bits_free(&now);
        return;
    }
    assert_int_equal(now.bytes, bits->bytes);
    size_t at = 0;
    while (now.rows[at] == bits->rows[at]) {
        at++;
    }
    size_t rows = (size_t)(bits->batch * bits->heads * bits->seqlen_q), o_bytes = rows * bits->row_bytes;
    bool in_o = at < o_bytes;
    size_t row = in_o ? at / bits->row_bytes : (at - o_bytes) / sizeof(float);
    proof_bits_free(&now);
    proof_fail(call, "%s: other bits in %s of batch %zu, head %zu, query %zu", what, in_o ? "o" : "lse",
               row / (size_t)(bits->heads * bits->seqlen_q), row / (size_t)bits->seqlen_q % (size_t)bits->heads,
               row % (size_t)bits->seqlen_q);
}
