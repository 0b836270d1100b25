/* oracle_attention.c - the cases of attention.forward. */
#include "autotune/oracle.h"
#include "autotune/parallel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* fp64 work on the CPU that one case may cost: about two seconds on 16 cores. More is sampled by rows. */
static const double operations_limit = 4e10;
/* where there is a judge, the CPU answers only what takes it a few milliseconds */
static const double operations_for_judge = 2e9;

enum { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_O, TENSOR_LSE };

static void set_tensor(struct oracle_case *test, const char *name, enum dtype dtype, bool output, int64_t elements)
{
    struct oracle_tensor *tensor = &test->tensors[test->tensor_count++];
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->dtype = dtype;
    tensor->output = output;
    tensor->elements = elements;
}

static attune_status add_case(struct oracle *oracle, const struct problem *problem, int kind, bool companion,
                              bool scattered, bool twin, struct error *error)
{
    struct oracle_case *test = &oracle->cases[oracle->case_count];
    struct attention *a = &test->attention;
    attune_status status = attention_from_problem(problem, a, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (scattered) {
        attention_scattered(a);
    }
    test->kind = kind;
    test->companion = companion;
    test->scattered = scattered;
    test->twin = twin;
    test->problem = *problem;
    int used = snprintf(test->label, sizeof test->label, "%s inputs", input_kind_name(kind));
    if (companion) {
        snprintf(test->label + used, sizeof test->label - (size_t)used, ", lengths %lld on %lld",
                 (long long)a->seqlen_q, (long long)a->seqlen_k);
    }
    set_tensor(test, "q", a->q.dtype, false, a->q.span);
    set_tensor(test, "k", a->k.dtype, false, a->k.span);
    set_tensor(test, "v", a->v.dtype, false, a->v.span);
    set_tensor(test, "o", a->o.dtype, true, a->o.span);
    if (a->lse) {
        set_tensor(test, "lse", DTYPE_F32, true, a->batch * a->heads * a->seqlen_q);
    }
    oracle->case_count++;
    return ATTUNE_OK;
}

/* Calls of the same specialisation at small sizes. A tile has at most 128 queries and, where the keys are split over
 * many waves, 1024 keys: every sort of end meets every tile. */
struct companion {
    int64_t seqlen_q, seqlen_k;
    int64_t groups; /* sequences, and KV heads of each */
    enum input_kind kind;
    unsigned masks; /* bits of attention_causal */
};

enum {
    NONE = 1 << CAUSAL_NONE,
    LEFT = 1 << CAUSAL_TOP_LEFT,
    RIGHT = 1 << CAUSAL_BOTTOM_RIGHT,
    ALL = NONE | LEFT | RIGHT
};

static const struct companion companions[] = {
    /* full blocks and a tail each way; a full block's last row sees just the first key of a tile */
    {289, 802, 2, INPUT_STRUCTURED, ALL},
    {289, 802, 1, INPUT_NORMAL, ALL},
    {289, 802, 1, INPUT_PEAKED, ALL},
    {5, 7, 2, INPUT_NORMAL, ALL}, /* less than one tile */
    {5, 0, 2, INPUT_NORMAL, ALL}, /* no row has a key */
    /* below the diagonal's end no row has a key, above it the last tile of 128 lacks one */
    {300, 127, 2, INPUT_NORMAL, LEFT | RIGHT},
    {1027, 1023, 1, INPUT_NORMAL, LEFT}, /* the same of 1024 */
    {4, 2049, 2, INPUT_NORMAL, ALL},     /* the last key is alone in its tile */
    {1, 2047, 2, INPUT_NORMAL, ALL},     /* the last tile lacks one key */
    {2, 2048, 2, INPUT_NORMAL, RIGHT},   /* the block's first query does not see the last tile's last key */
};

static attune_status add_companion(struct oracle *oracle, const struct companion *companion, struct error *error)
{
    struct problem small = oracle->problem;
    int64_t ratio = problem_integer(&small, "heads") / problem_integer(&small, "kv_heads");
    const struct {
        const char *field;
        int64_t value;
    } sizes[] = {{"batch", companion->groups},
                 {"heads", companion->groups * ratio},
                 {"kv_heads", companion->groups},
                 {"seqlen_q", companion->seqlen_q},
                 {"seqlen_k", companion->seqlen_k}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        attune_status status = problem_set_integer(&small, sizes[i].field, sizes[i].value, error);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    attune_status status = problem_check(&small, error);
    if (status == ATTUNE_OK) {
        status = add_case(oracle, &small, companion->kind, true, true, false, error);
    }
    /* for kernels that fix strides the largest dense one is enough */
    bool largest = companion->seqlen_q == 289 && companion->kind == INPUT_STRUCTURED;
    return status == ATTUNE_OK && largest ? add_case(oracle, &small, companion->kind, true, false, true, error)
                                          : status;
}

/* A wrong candidate then costs little. Equal costs keep their order: structured inputs catch most. */
static void cheapest_first(struct oracle *oracle)
{
    for (int i = 1; i < oracle->case_count; i++) {
        const struct oracle_case moving = oracle->cases[i];
        double cost = attention_operations(&moving.attention);
        int at = i;
        for (; at > 0 && attention_operations(&oracle->cases[at - 1].attention) > cost; at--) {
            oracle->cases[at] = oracle->cases[at - 1];
        }
        oracle->cases[at] = moving;
    }
}

attune_status attention_cases_list(struct oracle *oracle, struct error *error)
{
    const struct problem *problem = &oracle->problem;
    struct attention a;
    attune_status status = attention_from_problem(problem, &a, error);
    static const int order[] = {INPUT_STRUCTURED, INPUT_NORMAL, INPUT_PEAKED};
    for (size_t i = 0; i < sizeof companions / sizeof companions[0] && status == ATTUNE_OK; i++) {
        if (companions[i].masks >> a.causal & 1u) {
            status = add_companion(oracle, &companions[i], error);
        }
    }
    for (int i = 0; i < INPUT_KINDS && status == ATTUNE_OK; i++) {
        bool scattered = order[i] == INPUT_STRUCTURED;
        status = add_case(oracle, problem, order[i], false, scattered, false, error);
        if (status == ATTUNE_OK && scattered) {
            status = add_case(oracle, problem, order[i], false, false, true, error);
        }
    }
    if (status == ATTUNE_OK) {
        cheapest_first(oracle);
        oracle->operations = attention_operations(&a);
    }
    return status;
}

attune_status attention_case_inputs(const struct oracle *oracle, struct oracle_case *test, struct error *error)
{
    struct oracle_tensor *t = test->tensors;
    for (int i = 0; i < test->tensor_count; i++) {
        if (t[i].host == NULL && !t[i].output) {
            t[i].host = malloc((size_t)t[i].elements * dtype_size(t[i].dtype) + 1);
            if (t[i].host == NULL) {
                return error_no_memory(error);
            }
        }
    }
    return inputs_attention(&test->attention, test->kind, oracle->seed, t[TENSOR_Q].host, t[TENSOR_K].host,
                            t[TENSOR_V].host, error);
}

bool attention_case_is_large(const struct oracle_case *test)
{
    return !test->companion && attention_operations(&test->attention) > operations_for_judge;
}

attune_status attention_case_answers(const struct oracle *oracle, struct oracle_case *test, struct error *error)
{
    const struct oracle_tensor *t = test->tensors;
    attune_status status = ATTUNE_OK;
    if (test->rows.rows == NULL) {
        status = reference_choose_rows(&test->attention, operations_limit, oracle->seed, &test->rows, error);
    }
    return status == ATTUNE_OK ? reference_compute(&test->attention, t[TENSOR_Q].host, t[TENSOR_K].host,
                                                   t[TENSOR_V].host, &test->rows, false, &test->reference, error)
                               : status;
}

int attention_case_values(const struct oracle_case *test, void *const *pointers, void *seed_pointer,
                          void *offset_pointer, struct named_value *values)
{
    const struct attention *a = &test->attention;
    const struct attention_tensor *tensors[] = {&a->q, &a->k, &a->v, &a->o};
    static const char *const strides[4][3] = {{"q_batch_stride", "q_seq_stride", "q_head_stride"},
                                              {"k_batch_stride", "k_seq_stride", "k_head_stride"},
                                              {"v_batch_stride", "v_seq_stride", "v_head_stride"},
                                              {"o_batch_stride", "o_seq_stride", "o_head_stride"}};
    static const char *const names[] = {"q", "k", "v", "o", "lse"};
    int n = 0;
    for (int i = 0; i < 5; i++) {
        values[n++] = (struct named_value){
            .name = names[i], .kind = NAMED_POINTER, .pointer = i < test->tensor_count ? pointers[i] : NULL};
    }
    for (int i = 0; i < 4; i++) {
        const int64_t numbers[3] = {tensors[i]->batch_stride, tensors[i]->seq_stride, tensors[i]->head_stride};
        for (int s = 0; s < 3; s++) {
            values[n++] = (struct named_value){.name = strides[i][s], .kind = NAMED_INTEGER, .integer = numbers[s]};
        }
    }
    values[n++] = (struct named_value){.name = "scale", .kind = NAMED_REAL, .real = (double)a->scale};
    values[n++] =
        (struct named_value){.name = "dropout_threshold", .kind = NAMED_INTEGER, .integer = a->dropout_threshold};
    values[n++] = (struct named_value){.name = "dropout_scale", .kind = NAMED_REAL, .real = (double)a->dropout_scale};
    /* with pointers the plain values are wrong on purpose: a kernel that reads them fails */
    uint64_t seed = seed_pointer != NULL ? ~a->seed : a->seed;
    uint64_t offset = offset_pointer != NULL ? a->offset ^ 1 : a->offset;
    values[n++] = (struct named_value){.name = "seed", .kind = NAMED_INTEGER, .integer = (int64_t)seed};
    values[n++] = (struct named_value){.name = "offset", .kind = NAMED_INTEGER, .integer = (int64_t)offset};
    values[n++] = (struct named_value){.name = "seed_pointer", .kind = NAMED_POINTER, .pointer = seed_pointer};
    values[n++] = (struct named_value){.name = "offset_pointer", .kind = NAMED_POINTER, .pointer = offset_pointer};
    return n;
}

/* Every row of o written, nothing between rows touched. A work item is one (batch, outer) pair: outer is the slower of
 * query and head in memory, inner the faster; it owns the gaps behind its rows. */
struct scan {
    const struct oracle_case *test;
    const char *o;
    bool head_major;
    int64_t outer, inner;
    int64_t *bad; /* by item: element that is wrong, -1 none */
};

static int64_t row_start(const struct scan *scan, int64_t item, int64_t inner)
{
    const struct attention_tensor *o = &scan->test->attention.o;
    int64_t batch = item / scan->outer, outer = item % scan->outer;
    return batch * o->batch_stride + outer * (scan->head_major ? o->head_stride : o->seq_stride) +
           inner * (scan->head_major ? o->seq_stride : o->head_stride);
}

static void scan_item(void *data, size_t index)
{
    struct scan *scan = data;
    const struct attention *a = &scan->test->attention;
    int64_t item = (int64_t)index, items = a->batch * scan->outer;
    size_t size = dtype_size(a->o.dtype), dim = (size_t)a->head_dim_v;
    scan->bad[item] = -1;
    for (int64_t y = 0; y < scan->inner && scan->bad[item] < 0; y++) {
        int64_t start = row_start(scan, item, y), next = a->o.span;
        if (y + 1 < scan->inner) {
            next = row_start(scan, item, y + 1);
        } else if (item + 1 < items) {
            next = row_start(scan, item + 1, 0);
        }
        size_t nan = convert_find_nan(a->o.dtype, scan->o + (size_t)start * size, dim);
        if (nan < dim) {
            scan->bad[item] = start + (int64_t)nan;
        }
        for (int64_t i = start + a->head_dim_v; i < next && scan->bad[item] < 0; i++) {
            if (!convert_is_poison(a->o.dtype, scan->o, (size_t)i)) {
                scan->bad[item] = i;
            }
        }
    }
}

static void describe_element(const struct scan *scan, int64_t item, int64_t element, char *reason, size_t reason_bytes)
{
    const struct attention *a = &scan->test->attention;
    int64_t inner = 0;
    while (inner + 1 < scan->inner && row_start(scan, item, inner + 1) <= element) {
        inner++;
    }
    int64_t column = element - row_start(scan, item, inner), batch = item / scan->outer, outer = item % scan->outer;
    int64_t head = scan->head_major ? outer : inner, query = scan->head_major ? inner : outer;
    const char *what = "is NaN";
    if (column >= a->head_dim_v) {
        what = "was written, between rows";
    } else if (convert_is_poison(a->o.dtype, scan->o, (size_t)element)) {
        what = "was never written";
    }
    snprintf(reason, reason_bytes, "o: batch %lld, head %lld, query %lld: column %lld %s", (long long)batch,
             (long long)head, (long long)query, (long long)column, what);
}

/* *ratio: infinity when it is not, NaN when there was no memory to find out */
static bool rows_written(const struct oracle_case *test, const char *o, double *ratio, char *reason,
                         size_t reason_bytes)
{
    const struct attention *a = &test->attention;
    bool head_major = a->o.head_stride > a->o.seq_stride, right = true;
    struct scan scan = {.test = test,
                        .o = o,
                        .head_major = head_major,
                        .outer = head_major ? a->heads : a->seqlen_q,
                        .inner = head_major ? a->seqlen_q : a->heads};
    int64_t items = a->seqlen_q > 0 ? a->batch * scan.outer : 0;
    *ratio = (double)INFINITY;
    scan.bad = malloc((size_t)(items + 1) * sizeof *scan.bad);
    if (scan.bad == NULL) {
        snprintf(reason, reason_bytes, "no memory for the comparison");
        *ratio = (double)NAN;
        return false;
    }
    parallel_for((size_t)items, scan_item, &scan);
    for (int64_t item = 0; item < items && right; item++) {
        if (scan.bad[item] >= 0) {
            describe_element(&scan, item, scan.bad[item], reason, reason_bytes);
            right = false;
        }
    }
    free(scan.bad);
    return right;
}

static bool whole_written(const struct oracle_tensor *tensor, const void *elements, char *reason, size_t reason_bytes)
{
    size_t count = (size_t)tensor->elements, bad = convert_find_nan(tensor->dtype, elements, count);
    if (bad < count) {
        snprintf(reason, reason_bytes, "%.23s: element %zu is %s", tensor->name, bad,
                 convert_is_poison(tensor->dtype, elements, bad) ? "never written" : "NaN");
    }
    return bad == count;
}

bool attention_case_compare(const struct oracle_case *test, void *const *outputs, struct verdict *verdict)
{
    const void *o = outputs[TENSOR_O];
    const float *lse = test->attention.lse ? outputs[TENSOR_LSE] : NULL;
    double ratio = 0.0;
    char *reason = verdict->reason;
    size_t bytes = sizeof verdict->reason;
    bool right = rows_written(test, o, &ratio, reason, bytes);
    if (right && lse != NULL) {
        right = whole_written(&test->tensors[TENSOR_LSE], lse, reason, bytes);
    }
    if (right) {
        right = reference_compare(&test->attention, &test->rows, &test->reference, o, lse, &ratio, reason, bytes);
    }
    verdict->worst_ratio = isnan(ratio) || ratio > verdict->worst_ratio ? ratio : verdict->worst_ratio;
    return right;
}
