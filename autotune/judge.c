/* judge.c - compiling, feeding and reading the two kernels that judge attention.forward on the device. */
#include "autotune/judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct judge {
    const struct driver *driver;
    int ordinal;
    struct driver_device device;
    struct kernel reference, compare;
    const struct schema *reference_schema, *compare_schema;
    char reference_fields[256], compare_fields[128]; /* the compiled-in part of their problems */
};

static attune_status load(struct generator *generator, const struct object_road *road, const struct judge *judge,
                          const struct schema *schema, const char *fields, const char *sizes, struct kernel *kernel,
                          struct error *error)
{
    struct expansion scratch = {0};
    struct object_job job = {0};
    struct candidate candidate;
    struct problem problem;
    char text[PROBLEM_TEXT_BYTES];
    snprintf(text, sizeof text, "%s %s", fields, sizes);
    attune_status status = problem_parse(schema, text, &problem, error);
    if (status == ATTUNE_OK) {
        status = candidate_default(generator, &problem, &road->target, &candidate, error);
    }
    if (status == ATTUNE_OK) {
        status = object_expand(generator, road, &candidate, &problem, &scratch, &job, error);
    }
    if (status == ATTUNE_OK) {
        status = object_obtain(road, &job, error);
    }
    if (status == ATTUNE_OK) {
        status =
            kernel_load(kernel, judge->driver, &judge->device, job.bytes.data, job.bytes.length, &job.launch, error);
    }
    if (status != ATTUNE_OK) {
        error_prefix(error, "%s", schema->family);
    }
    object_job_free(&job);
    expansion_free(&scratch);
    return status;
}

attune_status judge_create(struct generator *generator, const struct object_road *road, const struct problem *problem,
                           const struct driver *driver, int ordinal, struct judge **judge, struct error *error)
{
    struct object_road with_bytes = *road;
    struct judge *made = calloc(1, sizeof *made);
    *judge = NULL;
    if (made == NULL) {
        return error_no_memory(error);
    }
    with_bytes.keep_bytes = true;
    made->driver = driver;
    made->ordinal = ordinal;
    made->reference_schema = generator_schema(generator, "attention.reference");
    made->compare_schema = generator_schema(generator, "attention.compare");
    if (made->reference_schema == NULL || made->compare_schema == NULL) {
        free(made);
        return error_set(error, ATTUNE_NOT_FOUND, "the families attention.reference and attention.compare are missing");
    }
    snprintf(made->reference_fields, sizeof made->reference_fields,
             "q_dtype=%s k_dtype=%s v_dtype=%s o_dtype=%s head_dim_qk=%lld head_dim_v=%lld causal=%s dropout=%d",
             problem_choice(problem, "q_dtype"), problem_choice(problem, "k_dtype"), problem_choice(problem, "v_dtype"),
             problem_choice(problem, "o_dtype"), (long long)problem_integer(problem, "head_dim_qk"),
             (long long)problem_integer(problem, "head_dim_v"), problem_choice(problem, "causal"),
             problem_real(problem, "dropout") > 0.0);
    snprintf(made->compare_fields, sizeof made->compare_fields, "o_dtype=%s head_dim_v=%lld lse=%d",
             problem_choice(problem, "o_dtype"), (long long)problem_integer(problem, "head_dim_v"),
             problem_integer(problem, "lse") != 0);
    attune_status status = driver->describe(driver, ordinal, &made->device, error);
    if (status != ATTUNE_OK) {
        free(made);
        return status;
    }
    status = load(generator, &with_bytes, made, made->reference_schema, made->reference_fields,
                  "batch=1 heads=1 kv_heads=1 seqlen_q=1 seqlen_k=1", &made->reference, error);
    if (status == ATTUNE_OK) {
        status = load(generator, &with_bytes, made, made->compare_schema, made->compare_fields,
                      "batch=1 heads=1 seqlen_q=1", &made->compare, error);
    }
    if (status != ATTUNE_OK) {
        judge_destroy(made);
        return status;
    }
    *judge = made;
    return ATTUNE_OK;
}

void judge_destroy(struct judge *judge)
{
    if (judge != NULL) {
        kernel_unload(&judge->reference);
        kernel_unload(&judge->compare);
        free(judge);
    }
}

struct judge *judge_for_oracle(struct generator *generator, const struct object_road *road, struct oracle *oracle,
                               const struct driver *driver, int ordinal)
{
    struct judge *judge = NULL;
    struct error error = {.message = ""};
    bool large = false;
    for (int i = 0; i < oracle->case_count && oracle->is_attention; i++) {
        large |= attention_case_is_large(&oracle->cases[i]);
    }
    if (!large) {
        return NULL;
    }
    if (judge_create(generator, road, &oracle->problem, driver, ordinal, &judge, &error) != ATTUNE_OK) {
        warn_once("judge", "rows are sampled instead of all checked: %s", error.message);
        return NULL;
    }
    oracle_set_judge(oracle, judge);
    return judge;
}

static size_t row_count(const struct attention *a)
{
    return (size_t)(a->batch * a->heads * a->seqlen_q);
}

uint64_t judge_answer_bytes(const struct attention *a)
{
    return row_count(a) * ((uint64_t)a->head_dim_v * sizeof(double) + 3 * sizeof(double) + sizeof(float));
}

void judge_answers_free(struct judge_answers *answers)
{
    guarded_free(&answers->o);
    guarded_free(&answers->lse);
    guarded_free(&answers->allowed);
    guarded_free(&answers->lse_allowed);
    guarded_free(&answers->ratios);
    *answers = (struct judge_answers){0};
}

static attune_status allocate(const struct judge *judge, const struct attention *a, struct judge_answers *answers,
                              struct error *error)
{
    size_t rows = row_count(a);
    const struct {
        struct guarded *memory;
        size_t bytes;
    } parts[] = {{&answers->o, rows * (size_t)a->head_dim_v * sizeof(double)},
                 {&answers->lse, rows * sizeof(double)},
                 {&answers->allowed, rows * sizeof(double)},
                 {&answers->lse_allowed, rows * sizeof(double)},
                 {&answers->ratios, rows * sizeof(float)}};
    attune_status status = ATTUNE_OK;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == ATTUNE_OK; i++) {
        status = guarded_make(parts[i].memory, judge->driver, judge->ordinal, parts[i].bytes, true, GUARD_BYTE, error);
        if (status == ATTUNE_OK && parts[i].bytes > 0) { /* what a kernel leaves out is NaN, which passes nothing */
            status =
                judge->driver->fill(judge->driver, judge->ordinal, parts[i].memory->data, 0xff, parts[i].bytes, error);
        }
    }
    return status;
}

static attune_status run(const struct kernel *kernel, const struct problem *problem, const struct named_value *values,
                         int count, struct error *error)
{
    struct kernel_call call;
    attune_status status = kernel_bind(kernel, problem, values, count, NULL, &call, error);
    if (status == ATTUNE_OK) {
        status = kernel_launch(&call, NULL, error);
    }
    return status == ATTUNE_OK ? kernel->driver->synchronize(kernel->driver, kernel->ordinal, NULL, error) : status;
}

static struct named_value pointer_value(const char *name, void *pointer)
{
    return (struct named_value){.name = name, .kind = NAMED_POINTER, .pointer = pointer};
}

static struct named_value integer_value(const char *name, int64_t integer)
{
    return (struct named_value){.name = name, .kind = NAMED_INTEGER, .integer = integer};
}

attune_status judge_answer(const struct judge *judge, const struct attention *a, void *q, void *k, void *v,
                           struct judge_answers *answers, struct error *error)
{
    char text[PROBLEM_TEXT_BYTES];
    struct problem problem;
    snprintf(text, sizeof text, "%s batch=%lld heads=%lld kv_heads=%lld seqlen_q=%lld seqlen_k=%lld",
             judge->reference_fields, (long long)a->batch, (long long)a->heads, (long long)a->kv_heads,
             (long long)a->seqlen_q, (long long)a->seqlen_k);
    attune_status status = problem_parse(judge->reference_schema, text, &problem, error);
    if (status == ATTUNE_OK) {
        status = allocate(judge, a, answers, error);
    }
    if (status == ATTUNE_OK && row_count(a) > 0) {
        const struct named_value values[] = {
            pointer_value("q", q),
            pointer_value("k", k),
            pointer_value("v", v),
            pointer_value("reference", answers->o.data),
            pointer_value("reference_lse", answers->lse.data),
            pointer_value("allowed", answers->allowed.data),
            pointer_value("lse_allowed", answers->lse_allowed.data),
            integer_value("q_batch_stride", a->q.batch_stride),
            integer_value("q_seq_stride", a->q.seq_stride),
            integer_value("q_head_stride", a->q.head_stride),
            integer_value("k_batch_stride", a->k.batch_stride),
            integer_value("k_seq_stride", a->k.seq_stride),
            integer_value("k_head_stride", a->k.head_stride),
            integer_value("v_batch_stride", a->v.batch_stride),
            integer_value("v_seq_stride", a->v.seq_stride),
            integer_value("v_head_stride", a->v.head_stride),
            integer_value("seed", (int64_t)a->seed),
            integer_value("offset", (int64_t)a->offset),
            integer_value("dropout_threshold", a->dropout_threshold),
            {.name = "scale", .kind = NAMED_REAL, .real = (double)a->scale},
            {.name = "dropout_scale", .kind = NAMED_REAL, .real = (double)a->dropout_scale},
        };
        status = run(&judge->reference, &problem, values, (int)(sizeof values / sizeof values[0]), error);
    }
    answers->made = status == ATTUNE_OK;
    if (status != ATTUNE_OK) {
        judge_answers_free(answers);
        error_prefix(error, "attention.reference on the device");
    }
    return status;
}

static void describe_worst(const struct attention *a, const float *ratios, size_t rows, struct verdict *verdict)
{
    size_t first = rows;
    double worst = 0.0;
    for (size_t i = 0; i < rows; i++) {
        double ratio = isnan(ratios[i]) ? (double)INFINITY : (double)ratios[i];
        worst = fmax(worst, ratio);
        if (ratio > 1.0 && first == rows) {
            first = i;
        }
    }
    verdict->worst_ratio = fmax(verdict->worst_ratio, worst);
    if (first < rows) {
        verdict->right = false;
        snprintf(verdict->reason, sizeof verdict->reason,
                 "batch %lld, head %lld, query %lld: error %.3g times the allowed one (o or lse; never written or NaN "
                 "when inf)",
                 (long long)first / a->seqlen_q / a->heads, (long long)first / a->seqlen_q % a->heads,
                 (long long)first % a->seqlen_q, (double)ratios[first]);
    }
}

attune_status judge_compare(const struct judge *judge, const struct attention *a, const struct judge_answers *answers,
                            void *o, void *lse, struct verdict *verdict, struct error *error)
{
    const struct driver *driver = judge->driver;
    size_t rows = row_count(a), bytes = rows * sizeof(float);
    char text[PROBLEM_TEXT_BYTES];
    struct problem problem;
    float *ratios = malloc(bytes + 1);
    if (ratios == NULL) {
        return error_no_memory(error);
    }
    snprintf(text, sizeof text, "%s batch=%lld heads=%lld seqlen_q=%lld", judge->compare_fields, (long long)a->batch,
             (long long)a->heads, (long long)a->seqlen_q);
    attune_status status = problem_parse(judge->compare_schema, text, &problem, error);
    if (status == ATTUNE_OK && rows > 0) {
        status = driver->fill(driver, judge->ordinal, answers->ratios.data, 0xff, bytes, error);
        if (status == ATTUNE_OK) {
            const struct named_value values[] = {
                pointer_value("o", o),
                pointer_value("lse", lse),
                pointer_value("reference", answers->o.data),
                pointer_value("reference_lse", answers->lse.data),
                pointer_value("allowed", answers->allowed.data),
                pointer_value("lse_allowed", answers->lse_allowed.data),
                pointer_value("ratios", answers->ratios.data),
                integer_value("o_batch_stride", a->o.batch_stride),
                integer_value("o_seq_stride", a->o.seq_stride),
                integer_value("o_head_stride", a->o.head_stride),
            };
            status = run(&judge->compare, &problem, values, (int)(sizeof values / sizeof values[0]), error);
        }
        if (status == ATTUNE_OK) {
            status = driver->copy_out(driver, judge->ordinal, ratios, answers->ratios.data, bytes, error);
        }
    }
    if (status == ATTUNE_OK) {
        describe_worst(a, ratios, rows, verdict);
    }
    free(ratios);
    return status;
}
