/* kit_run.c - one candidate on one call: device memory, the launch, what every run must leave behind. */
#include "kit_private.h"
#include "tests/autotune/public_arguments.h"

#include "autotune/guarded.h"

enum { NAMED_VALUES = 32 };

/* the call's tensors on the device, while a run lasts */
struct loaded {
    struct guarded tensors[PROOF_TENSORS], lse, words; /* words: seed and offset */
    void *pointers[PROOF_TENSORS];                     /* of first elements */
    uint64_t *seed, *offset;                           /* NULL: by value */
};

static void must(const struct proof_call *call, const char *what, attune_status status, const struct error *error)
{
    if (status != ATTUNE_OK) {
        proof_fail(call, "%s: %s", what, error->message);
    }
}

static void make(const struct proof *proof, const struct proof_call *call, struct guarded *memory, size_t bytes,
                 bool output)
{
    struct error error = {0};
    must(call, "memory",
         guarded_make(memory, proof->driver, proof->ordinal, bytes, true, output ? GUARD_BYTE : 0xff, &error), &error);
    if (output) {
        must(call, "memory", proof->driver->fill(proof->driver, proof->ordinal, memory->data, 0xff, bytes, &error),
             &error);
    }
}

static void upload(const struct proof *proof, const struct proof_call *call, struct loaded *loaded)
{
    struct error error = {0};
    const struct driver *driver = proof->driver;
    const struct attention *a = &call->a;
    const struct attention_tensor *tensors[] = {&a->q, &a->k, &a->v, &a->o};
    *loaded = (struct loaded){0};
    for (int i = 0; i < PROOF_TENSORS; i++) {
        size_t size = dtype_size(tensors[i]->dtype), bytes = (size_t)(call->offsets[i] + tensors[i]->span) * size;
        struct guarded *memory = &loaded->tensors[i];
        make(proof, call, memory, bytes, i == PROOF_O);
        if (i != PROOF_O && bytes > 0) {
            must(call, "memory", driver->copy_in(driver, proof->ordinal, memory->data, call->tensors[i], bytes, &error),
                 &error);
        }
        loaded->pointers[i] = (char *)memory->data + (size_t)call->offsets[i] * size;
    }
    if (a->lse) {
        make(proof, call, &loaded->lse, (size_t)(a->batch * a->heads * a->seqlen_q) * sizeof(float), true);
    }
    if (call->seed_by_pointer) {
        const uint64_t words[2] = {a->seed, a->offset};
        make(proof, call, &loaded->words, sizeof words, false);
        must(call, "memory", driver->copy_in(driver, proof->ordinal, loaded->words.data, words, sizeof words, &error),
             &error);
        loaded->seed = loaded->words.data;
        loaded->offset = loaded->seed + 1;
    }
}

static void unload(struct loaded *loaded)
{
    for (int i = 0; i < PROOF_TENSORS; i++) {
        guarded_free(&loaded->tensors[i]);
    }
    guarded_free(&loaded->lse);
    guarded_free(&loaded->words);
}

static void guards_whole(const struct proof_call *call, const char *what, const struct guarded *memory, uint8_t byte)
{
    const char *place;
    struct error error = {0};
    if (memory->base == NULL) {
        return;
    }
    must(call, what, guarded_check(memory, byte, &place, &error), &error);
    if (place != NULL) {
        proof_fail(call, "memory %s %s was written", place, what);
    }
}

/* every element of o's rows written, everything between them as it was */
static void rows_written(struct proof_call *call)
{
    const struct attention *a = &call->a;
    int64_t elements = call->offsets[PROOF_O] + a->o.span;
    unsigned char *row = calloc(1, (size_t)elements + 1);
    assert_non_null(row);
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t i = 0; i < a->seqlen_q; i++) {
            for (int64_t h = 0; h < a->heads; h++) {
                int64_t at =
                    call->offsets[PROOF_O] + b * a->o.batch_stride + i * a->o.seq_stride + h * a->o.head_stride;
                memset(row + at, 1, (size_t)a->head_dim_v);
            }
        }
    }
    for (int64_t i = 0; i < elements; i++) {
        if (convert_is_poison(a->o.dtype, call->tensors[PROOF_O], (size_t)i) == (row[i] != 0)) {
            proof_fail(call, "o: element %lld %s", (long long)i,
                       row[i] ? "was never written" : "between the rows was written");
        }
    }
    free(row);
    int64_t rows = call->lse == NULL ? 0 : a->batch * a->heads * a->seqlen_q;
    for (int64_t i = 0; i < rows; i++) {
        if (convert_is_poison(DTYPE_F32, call->lse, (size_t)i)) {
            proof_fail(call, "lse: row %lld was never written", (long long)i);
        }
    }
}

static void download(const struct proof *proof, struct proof_call *call, struct loaded *loaded)
{
    static const char *const names[] = {"q", "k", "v", "o"};
    struct error error = {0};
    const struct driver *driver = proof->driver;
    must(call, "kernel", driver->synchronize(driver, proof->ordinal, NULL, &error), &error);
    const struct guarded *o = &loaded->tensors[PROOF_O], *lse = &loaded->lse;
    if (o->bytes > 0) {
        must(call, "o", driver->copy_out(driver, proof->ordinal, call->tensors[PROOF_O], o->data, o->bytes, &error),
             &error);
    }
    if (lse->bytes > 0) {
        must(call, "lse", driver->copy_out(driver, proof->ordinal, call->lse, lse->data, lse->bytes, &error), &error);
    }
    for (int i = 0; i < PROOF_TENSORS; i++) {
        guards_whole(call, names[i], &loaded->tensors[i], i == PROOF_O ? GUARD_BYTE : 0xff);
    }
    guards_whole(call, "lse", lse, GUARD_BYTE);
    rows_written(call);
}

/* ------------------------------------------------------------------------------------------------ through a kernel */

static struct named_value integer(const char *name, int64_t value)
{
    return (struct named_value){.name = name, .kind = NAMED_INTEGER, .integer = value};
}
static struct named_value pointer(const char *name, void *value)
{
    return (struct named_value){.name = name, .kind = NAMED_POINTER, .pointer = value};
}
static struct named_value real(const char *name, double value)
{
    return (struct named_value){.name = name, .kind = NAMED_REAL, .real = value};
}

static int name_values(const struct proof_call *call, const struct loaded *loaded, struct named_value *values)
{
    const struct attention *a = &call->a;
    int n = 0;
    values[n++] = pointer("q", loaded->pointers[PROOF_Q]);
    values[n++] = pointer("k", loaded->pointers[PROOF_K]);
    values[n++] = pointer("v", loaded->pointers[PROOF_V]);
    values[n++] = pointer("o", loaded->pointers[PROOF_O]);
    values[n++] = pointer("lse", loaded->lse.data);
    values[n++] = integer("q_batch_stride", a->q.batch_stride);
    values[n++] = integer("q_seq_stride", a->q.seq_stride);
    values[n++] = integer("q_head_stride", a->q.head_stride);
    values[n++] = integer("k_batch_stride", a->k.batch_stride);
    values[n++] = integer("k_seq_stride", a->k.seq_stride);
    values[n++] = integer("k_head_stride", a->k.head_stride);
    values[n++] = integer("v_batch_stride", a->v.batch_stride);
    values[n++] = integer("v_seq_stride", a->v.seq_stride);
    values[n++] = integer("v_head_stride", a->v.head_stride);
    values[n++] = integer("o_batch_stride", a->o.batch_stride);
    values[n++] = integer("o_seq_stride", a->o.seq_stride);
    values[n++] = integer("o_head_stride", a->o.head_stride);
    values[n++] = real("scale", (double)a->scale);
    values[n++] = integer("dropout_threshold", a->dropout_threshold);
    values[n++] = real("dropout_scale", (double)a->dropout_scale);
    /* with pointers the plain values are wrong on purpose: a kernel that reads them fails */
    values[n++] = integer("seed", (int64_t)(loaded->seed != NULL ? ~a->seed : a->seed));
    values[n++] = integer("offset", (int64_t)(loaded->offset != NULL ? a->offset ^ 1 : a->offset));
    values[n++] = pointer("seed_pointer", loaded->seed);
    values[n++] = pointer("offset_pointer", loaded->offset);
    return n;
}

static void run_kernel(struct proof *proof, const struct kernel *kernel, struct proof_call *call)
{
    struct loaded loaded;
    struct named_value values[NAMED_VALUES];
    struct kernel_call bound;
    struct error error = {0};
    upload(proof, call, &loaded);
    int count = name_values(call, &loaded, values);
    must(call, "arguments", kernel_bind(kernel, &call->problem, values, count, NULL, &bound, &error), &error);
    proof_fill_launch(proof);
    must(call, "launch", kernel_launch(&bound, NULL, &error), &error);
    download(proof, call, &loaded);
    unload(&loaded);
}

static void run_candidate(struct proof *proof, const struct candidate *candidate, struct proof_kernel *kernel,
                          struct proof_call *call)
{
    candidate_format(candidate, call->candidate);
    run_kernel(proof, &kernel->fresh, call);
    if (kernel->compared && test_size(1, 0)) {
        return;
    }
    struct proof_bits bits = proof_bits(call);
    run_kernel(proof, &kernel->warm, call);
    proof_same_bits(call, &bits, "from the store");
    proof_bits_free(&bits);
    kernel->compared = true;
}

/* ------------------------------------------------------------------------------------------------ through attune.h */

static void must_public(const struct proof *proof, const struct proof_call *call, const char *what,
                        attune_status status)
{
    char message[1024] = "";
    if (status != ATTUNE_OK) {
        attune_last_error(proof->context, message, sizeof message);
        proof_fail(call, "%s: %s", what, message);
    }
}

static attune_plan *prepare(struct proof *proof, struct proof_call *call)
{
    char text[PROBLEM_TEXT_BYTES];
    attune_problem *problem = NULL;
    attune_plan *plan = NULL;
    snprintf(call->candidate, sizeof call->candidate, "attune_prepare");
    assert_int_equal(problem_format(&call->problem, text, NULL), ATTUNE_OK);
    must_public(proof, call, "attune_problem_parse", attune_problem_parse(proof->context, text, &problem));
    must_public(proof, call, "attune_prepare", attune_prepare(proof->public_device, problem, NULL, &plan));
    attune_problem_destroy(problem);
    proof->public_ran = true;
    attune_plan_info info = {.size = sizeof info};
    must_public(proof, call, "attune_plan_describe", attune_plan_describe(plan, &info));
    assert_int_equal(info.workspace_bytes, 0); /* no template takes one yet; the kit would have to give it */
    snprintf(call->candidate, sizeof call->candidate, "plan %s", info.candidate);
    return plan;
}

static attune_attention_arguments arguments_of(const struct proof_call *call, const struct loaded *loaded)
{
    const struct attention *a = &call->a;
    attune_attention_arguments arguments = public_arguments(a);
    arguments.q = loaded->pointers[PROOF_Q];
    arguments.k = loaded->pointers[PROOF_K];
    arguments.v = loaded->pointers[PROOF_V];
    arguments.o = loaded->pointers[PROOF_O];
    arguments.lse = loaded->lse.data;
    arguments.scale = (double)a->scale;
    arguments.dropout = call->probability;
    arguments.explicit_dropout = 1;
    arguments.seed = loaded->seed != NULL ? ~a->seed : a->seed;
    arguments.offset = loaded->offset != NULL ? a->offset ^ 1 : a->offset;
    arguments.seed_pointer = loaded->seed;
    arguments.offset_pointer = loaded->offset;
    return arguments;
}

static void run_public(struct proof *proof, struct proof_call *call)
{
    struct loaded loaded;
    attune_plan *plan = prepare(proof, call);
    upload(proof, call, &loaded);
    const attune_attention_arguments arguments = arguments_of(call, &loaded);
    proof_fill_launch(proof);
    must_public(proof, call, "attune_launch_attention", attune_launch_attention(plan, &arguments, NULL, NULL, 0));
    download(proof, call, &loaded);
    unload(&loaded);
    attune_plan_destroy(plan);
}

static attune_status launch_by_name(struct proof *proof, struct proof_call *call, const struct loaded *loaded)
{
    struct named_value values[NAMED_VALUES];
    attune_argument arguments[NAMED_VALUES];
    size_t count = 0;
    int all = name_values(call, loaded, values);
    attune_plan *plan = prepare(proof, call);
    for (int i = 0; i < all; i++) {
        const struct named_value *value = &values[i];
        if (strncmp(value->name, "dropout", 7) == 0 || strncmp(value->name, "seed", 4) == 0 ||
            strncmp(value->name, "offset", 6) == 0 || (strcmp(value->name, "lse") == 0 && !call->a.lse)) {
            continue; /* the kernel has no such argument */
        }
        arguments[count++] = (attune_argument){.name = value->name,
                                               .kind = value->kind == NAMED_POINTER   ? ATTUNE_ARGUMENT_POINTER
                                                       : value->kind == NAMED_INTEGER ? ATTUNE_ARGUMENT_INTEGER
                                                                                      : ATTUNE_ARGUMENT_REAL,
                                               .pointer = value->pointer,
                                               .integer = value->integer,
                                               .real = value->real};
    }
    attune_status status = attune_launch(plan, arguments, count, NULL, NULL, 0);
    attune_plan_destroy(plan);
    return status;
}

static attune_status forward(struct proof *proof, const struct proof_call *call, const struct loaded *loaded)
{
    static const attune_dtype types[] = {
        [DTYPE_F16] = ATTUNE_F16, [DTYPE_BF16] = ATTUNE_BF16, [DTYPE_F32] = ATTUNE_F32};
    static const attune_causal rules[] = {[CAUSAL_NONE] = ATTUNE_CAUSAL_NONE,
                                          [CAUSAL_TOP_LEFT] = ATTUNE_CAUSAL_TOP_LEFT,
                                          [CAUSAL_BOTTOM_RIGHT] = ATTUNE_CAUSAL_BOTTOM_RIGHT};
    const struct attention *a = &call->a;
    const attune_attention attention = {.size = sizeof attention,
                                        .q_dtype = types[a->q.dtype],
                                        .k_dtype = types[a->k.dtype],
                                        .v_dtype = types[a->v.dtype],
                                        .o_dtype = types[a->o.dtype],
                                        .batch = a->batch,
                                        .heads = a->heads,
                                        .kv_heads = a->kv_heads,
                                        .seqlen_q = a->seqlen_q,
                                        .seqlen_k = a->seqlen_k,
                                        .head_dim_qk = a->head_dim_qk,
                                        .head_dim_v = a->head_dim_v,
                                        .causal = rules[a->causal],
                                        .lse = a->lse};
    attune_attention_arguments arguments = arguments_of(call, loaded);
    arguments.explicit_sizes = 0; /* sizes come from `attention` here */
    proof->public_ran = true;
    return attune_attention_forward(proof->public_device, &attention, &arguments, NULL, NULL, 0);
}

bool proof_enter(struct proof *proof, enum proof_entry entry, struct proof_call *call)
{
    struct loaded loaded;
    if (proof->context == NULL) {
        return false;
    }
    if (entry == PROOF_LAUNCH_ATTENTION) {
        run_public(proof, call);
        return true;
    }
    upload(proof, call, &loaded);
    proof_fill_launch(proof);
    snprintf(call->candidate, sizeof call->candidate, "attune_attention_forward");
    must_public(proof, call, "launch",
                entry == PROOF_LAUNCH_BY_NAME ? launch_by_name(proof, call, &loaded) : forward(proof, call, &loaded));
    download(proof, call, &loaded);
    unload(&loaded);
    return true;
}

/* ------------------------------------------------------------------------------------------------ every candidate */

struct proof_run proof_start(struct proof *proof, struct proof_call *call)
{
    return (struct proof_run){.proof = proof, .call = call};
}

bool proof_next(struct proof_run *run)
{
    struct proof *proof = run->proof;
    const struct proof_set *set = set_of(proof, &run->call->problem);
    while (run->index < set->count) {
        run->candidate = set->candidates[run->index++];
        struct proof_kernel *kernel = kernel_of(proof, &run->candidate, &run->call->problem);
        if (kernel->fits) {
            run_candidate(proof, &run->candidate, kernel, run->call);
            run->taken++;
            return true;
        }
    }
    assert_true(run->taken >= 2);
    if (run->public_road || proof->context == NULL) {
        return false;
    }
    struct error error = {0};
    if (candidate_default(proof->generator, &run->call->problem, &proof->target, &run->candidate, &error) !=
        ATTUNE_OK) {
        fail_msg("%s: %s", run->call->label, error.message);
    }
    run->public_road = true;
    run_public(proof, run->call);
    return true;
}

void proof_also(struct proof_run *run, struct proof_call *other)
{
    if (run->public_road) {
        run_public(run->proof, other);
        return;
    }
    struct proof_kernel *kernel = kernel_of(run->proof, &run->candidate, &other->problem);
    if (!kernel->fits) {
        fail_msg("%s: the candidate of %s does not fit the device for this case", other->label, run->call->label);
    }
    run_candidate(run->proof, &run->candidate, kernel, other);
}

const char *proof_parameter(const struct proof_run *run, const char *name)
{
    return candidate_value(&run->candidate, name);
}

int proof_splits(const struct proof_run *run)
{
    return candidate_splits(run->proof, &run->candidate);
}
