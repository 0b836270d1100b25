/* schema_attention.c - the fields of attention.forward and the rules between them. */
#include "base/problem_private.h"

#include <float.h>
#include <string.h>

enum {
    Q_DTYPE,
    K_DTYPE,
    V_DTYPE,
    O_DTYPE,
    BATCH,
    HEADS,
    KV_HEADS,
    SEQLEN_Q,
    SEQLEN_K,
    HEAD_DIM_QK,
    HEAD_DIM_V,
    CAUSAL,
    WINDOW_LEFT,
    WINDOW_RIGHT,
    SOFTCAP,
    ALIBI,
    SINKS,
    BIAS,
    MASK,
    VARLEN,
    PAGED,
    PAGE_SIZE,
    DROPOUT,
    SCALE,
    LSE,
    ALIGNMENT,
    INDEX,
    STRICT_NAN,
    BATCH_INVARIANT,
    FIELD_COUNT
};

#define DTYPE(text, leader, help)                                                                                      \
    {                                                                                                                  \
        .name = text, .kind = FIELD_CHOICE, .role = FIELD_COMPILED, .always = true, .choice_count = 6,                 \
        .choices = {"f16", "bf16", "f32", "e4m3", "e5m2", "q8_0"}, .follows = leader, .doc = help                      \
    }
#define INTEGER(text, part, low, high, value, help)                                                                    \
    {                                                                                                                  \
        .name = text, .kind = FIELD_INTEGER, .role = part, .minimum = low, .maximum = high,                            \
        .fallback = {.integer = value}, .doc = help                                                                    \
    }
#define SIZE(text, low, high, must, value, leader, help)                                                               \
    {                                                                                                                  \
        .name = text, .kind = FIELD_INTEGER, .role = FIELD_SIZE, .always = true, .required = must, .minimum = low,     \
        .maximum = high, .fallback = {.integer = value}, .follows = leader, .doc = help                                \
    }
#define REAL(text, part, low, high, help)                                                                              \
    {                                                                                                                  \
        .name = text, .kind = FIELD_REAL, .role = part, .real_minimum = low, .real_maximum = high, .doc = help         \
    }

static const struct schema attention_forward =
    {
        .family = "attention.forward",
        .built_in = true,
        .field_count = FIELD_COUNT,
        .fields =
            {
                [Q_DTYPE] = DTYPE("q_dtype", "", "element type of q"),
                [K_DTYPE] = DTYPE("k_dtype", "q_dtype", "element type of k"),
                [V_DTYPE] = DTYPE("v_dtype", "q_dtype", "element type of v"),
                [O_DTYPE] = DTYPE("o_dtype", "q_dtype", "element type of o"),
                [BATCH] = SIZE("batch", 0, INT32_MAX, false, 1, "", "sequences"),
                [HEADS] = SIZE("heads", 1, INT32_MAX, true, 0, "", "query heads"),
                [KV_HEADS] =
                    SIZE("kv_heads", 1, INT32_MAX, false, 0, "heads", "key and value heads; must divide heads"),
                [SEQLEN_Q] = SIZE("seqlen_q", 0, ATTENTION_LENGTH_MAX, true, 0, "", "queries a sequence"),
                [SEQLEN_K] = SIZE("seqlen_k", 0, ATTENTION_LENGTH_MAX, false, 0, "seqlen_q", "keys a sequence"),
                [HEAD_DIM_QK] = {.name = "head_dim_qk",
                                 .kind = FIELD_INTEGER,
                                 .role = FIELD_COMPILED,
                                 .always = true,
                                 .required = true,
                                 .minimum = 1,
                                 .maximum = 256,
                                 .doc = "elements of a q or k row"},
                [HEAD_DIM_V] = {.name = "head_dim_v",
                                .kind = FIELD_INTEGER,
                                .role = FIELD_COMPILED,
                                .always = true,
                                .minimum = 1,
                                .maximum = 256,
                                .follows = "head_dim_qk",
                                .doc = "elements of a v or o row"},
                [CAUSAL] = {.name = "causal",
                            .kind = FIELD_CHOICE,
                            .role = FIELD_COMPILED,
                            .choice_count = 3,
                            .choices = {"none", "top_left", "bottom_right"},
                            .on_choice = 2,
                            .doc = "key j visible to query i iff j <= i (+ seqlen_k - seqlen_q: bottom_right)"},
                [WINDOW_LEFT] =
                    INTEGER("window_left", FIELD_OPTION, -1, INT32_MAX, -1, "keys to the left; -1 unlimited"),
                [WINDOW_RIGHT] =
                    INTEGER("window_right", FIELD_OPTION, -1, INT32_MAX, -1, "keys to the right; -1 unlimited"),
                [SOFTCAP] = REAL("softcap", FIELD_OPTION,
                                 0, FLT_MAX, "c tanh(score / c) before masks and bias; 0 none"),
                [ALIBI] = INTEGER("alibi", FIELD_COMPILED, 0, 1, 0, "1: a slope per query head"),
                [SINKS] = INTEGER("sinks", FIELD_COMPILED, 0, 1, 0, "1: a sink logit per query head"),
                [BIAS] = {.name = "bias",
                          .kind = FIELD_CHOICE,
                          .role = FIELD_COMPILED,
                          .choice_count = 4,
                          .choices = {"none", "f16", "bf16", "f32"},
                          .doc = "additive bias tensor and its type"},
                [MASK] = {.name = "mask",
                          .kind = FIELD_CHOICE,
                          .role = FIELD_COMPILED,
                          .choice_count = 2,
                          .choices = {"none", "bool"},
                          .on_choice = 1,
                          .doc = "boolean mask tensor"},
                [VARLEN] = INTEGER("varlen", FIELD_COMPILED, 0, 1, 0, "1: packed sequences of different lengths"),
                [PAGED] = INTEGER("paged", FIELD_COMPILED, 0, 1, 0, "1: k and v in pages of page_size tokens"),
                [PAGE_SIZE] = INTEGER("page_size", FIELD_COMPILED, 0, 65536, 0, "tokens a page with paged=1"),
                [DROPOUT] = REAL("dropout", FIELD_OPTION, 0, 1, "probability to drop a weight; 0 none"),
                [SCALE] = REAL("scale", FIELD_SCALAR, -FLT_MAX, FLT_MAX, "of scores; 0: 1/sqrt(head_dim_qk)"),
                [LSE] = INTEGER("lse", FIELD_COMPILED, 0, 1, 0, "1: the log-sum-exp of each row is written"),
                [ALIGNMENT] =
                    INTEGER("alignment", FIELD_COMPILED, 2, 16, 0,
                            "bytes that pointers and strides keep: 2, 4, 8, 16; default: as contiguous rows"),
                [INDEX] = {.name = "index",
                           .kind = FIELD_CHOICE,
                           .role = FIELD_COMPILED,
                           .choice_count = 2,
                           .choices = {"narrow", "wide"},
                           .doc = "wide: a tile may span 2^31 bytes or more"},
                [STRICT_NAN] =
                    INTEGER("strict_nan", FIELD_COMPILED, 0, 1, 0, "1: NaN in V at masked keys reaches no row"),
                [BATCH_INVARIANT] =
                    INTEGER("batch_invariant", FIELD_COMPILED, 0, 1, 0, "1: batch stays out of the choice"),
            },
        .ratio_count = 1,
        .ratios = {{.name = "head_ratio", .numerator = HEADS, .denominator = KV_HEADS}},
        .shorthand_count = 2,
        .shorthands = {{.name = "dtype", .field_count = 4, .fields = {Q_DTYPE, K_DTYPE, V_DTYPE, O_DTYPE}},
                       {.name = "head_dim", .field_count = 2, .fields = {HEAD_DIM_QK, HEAD_DIM_V}}},
};

const struct schema *schema_attention_forward(void)
{
    return &attention_forward;
}

const struct schema *schema_built_in(const char *family)
{
    return strcmp(family, attention_forward.family) == 0 ? &attention_forward : NULL;
}

int schema_find(const struct schema *schema, const char *field)
{
    for (int i = 0; i < schema->field_count; i++) {
        if (strcmp(schema->fields[i].name, field) == 0) {
            return i;
        }
    }
    return -1;
}

static const struct tensor {
    const char *name;
    int dtype, dimension, heads, length;
} tensors[] = {
    {"q", Q_DTYPE, HEAD_DIM_QK, HEADS, SEQLEN_Q},
    {"k", K_DTYPE, HEAD_DIM_QK, KV_HEADS, SEQLEN_K},
    {"v", V_DTYPE, HEAD_DIM_V, KV_HEADS, SEQLEN_K},
    {"o", O_DTYPE, HEAD_DIM_V, HEADS, SEQLEN_Q},
};
enum { TENSOR_COUNT = sizeof tensors / sizeof tensors[0] };

static const char *dtype_name(const struct problem *problem, const struct tensor *tensor)
{
    return attention_forward.fields[tensor->dtype].choices[problem->values[tensor->dtype].integer];
}

/* of one row; q8_0 stores blocks of 32 elements in 34 bytes */
static int64_t row_bytes(const struct problem *problem, const struct tensor *tensor)
{
    int64_t dimension = problem->values[tensor->dimension].integer;
    int element = dtype_bytes(dtype_name(problem, tensor));
    return element ? dimension * element : (dimension + 31) / 32 * 34;
}

int64_t attention_alignment(const struct problem *problem)
{
    int64_t alignment = 16;
    for (int i = 0; i < TENSOR_COUNT; i++) {
        while (row_bytes(problem, &tensors[i]) % alignment != 0) {
            alignment /= 2;
        }
    }
    return alignment;
}

/* A class below the elements of some tensors is legal: each keeps at least its own elements' alignment. */
static attune_status check_alignment(const struct problem *problem, struct error *error)
{
    int64_t alignment = problem->values[ALIGNMENT].integer;
    int smallest = 0;
    if (alignment & (alignment - 1)) {
        return error_set(error, ATTUNE_INVALID,
                         "alignment=%lld (alignment_bytes) is no alignment class; use 2, 4, 8 or 16",
                         (long long)alignment);
    }
    for (int i = 0; i < TENSOR_COUNT; i++) {
        int bytes = dtype_bytes(dtype_name(problem, &tensors[i]));
        smallest = smallest == 0 || bytes < smallest ? bytes : smallest;
    }
    if (alignment < smallest) {
        return error_set(error, ATTUNE_INVALID,
                         "alignment=%lld (alignment_bytes) is below the %d bytes of the smallest elements (%s); use "
                         "alignment=%d or more",
                         (long long)alignment, smallest, dtype_name(problem, &tensors[0]), smallest);
    }
    return ATTUNE_OK;
}

/* bytes of each contiguous tensor, and of lse, must be counted in int64 */
static attune_status check_sizes(const struct problem *problem, struct error *error)
{
    int64_t batch = problem->values[BATCH].integer;
    for (int i = 0; i < TENSOR_COUNT; i++) {
        const struct tensor *tensor = &tensors[i];
        int64_t heads = problem->values[tensor->heads].integer;
        int64_t length = problem->values[tensor->length].integer;
        int64_t rows, bytes;
        if (__builtin_mul_overflow(batch, heads, &rows) || __builtin_mul_overflow(rows, length, &rows) ||
            __builtin_mul_overflow(rows, row_bytes(problem, tensor), &bytes) ||
            __builtin_mul_overflow(rows, 4, &bytes)) {
            return error_set(
                error, ATTUNE_INVALID,
                "%s would take more than 2^63 bytes: batch=%lld, %s=%lld, %s=%lld, %s=%lld; use smaller sizes",
                tensor->name, (long long)batch, attention_forward.fields[tensor->heads].name, (long long)heads,
                attention_forward.fields[tensor->length].name, (long long)length,
                attention_forward.fields[tensor->dimension].name,
                (long long)problem->values[tensor->dimension].integer);
        }
    }
    return ATTUNE_OK;
}

attune_status attention_check(const struct problem *problem, struct error *error)
{
    int64_t paged = problem->values[PAGED].integer;
    int64_t page_size = problem->values[PAGE_SIZE].integer;
    attune_status status = check_alignment(problem, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (paged && page_size == 0) {
        return error_set(error, ATTUNE_INVALID, "paged=1 needs page_size, the tokens of a page (1 to 65536)");
    }
    if (!paged && page_size != 0) {
        return error_set(error, ATTUNE_INVALID, "page_size=%lld means nothing without paged=1", (long long)page_size);
    }
    return check_sizes(problem, error);
}
