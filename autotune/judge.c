/* judge.c - compiling, feeding and reading the two kernels that judge attention.forward on the device. */
#include "autotune/judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_BYTES = 256 };

struct judge {
    const struct driver *driver;
    int ordinal;
    struct driver_device device;
    struct kernel reference, compare;
    const struct schema *reference_schema, *compare_schema;
    char reference_fields[FIELDS_BYTES], compare_fields[FIELDS_BYTES]; /* the compiled-in part of their problems */
};

/* the compiled-in part of a problem of each family */
static void reference_fields(const struct problem *problem, char text[FIELDS_BYTES])
{
    snprintf(text, FIELDS_BYTES,
             "q_dtype=%s k_dtype=%s v_dtype=%s o_dtype=%s head_dim_qk=%lld head_dim_v=%lld causal=%s dropout=%d",
             problem_choice(problem, "q_dtype"), problem_choice(problem, "k_dtype"), problem_choice(problem, "v_dtype"),
             problem_choice(problem, "o_dtype"), (long long)problem_integer(problem, "head_dim_qk"),
             (long long)problem_integer(problem, "head_dim_v"), problem_choice(problem, "causal"),
             problem_real(problem, "dropout") > 0.0);
}

static void compare_fields(const struct problem *problem, char text[FIELDS_BYTES])
{
    snprintf(text, FIELDS_BYTES, "o_dtype=%s head_dim_v=%lld lse=%d", problem_choice(problem, "o_dtype"),
             (long long)problem_integer(problem, "head_dim_v"), problem_integer(problem, "lse") != 0);
}

static attune_status find_schema(struct generator *generator, const char *family, const struct schema **schema,
                                 struct error *error)
{
    *schema = generator_schema(generator, family);
    return *schema != NULL ? ATTUNE_OK : error_set(error, ATTUNE_NOT_FOUND, "the family %s is missing", family);
}

static attune_status compile(struct generator *generator, const struct object_road *road, const char *family,
                             const char *fields, const char *sizes, struct object_job *job, struct error *error)
{
    struct expansion scratch = {0};
    struct candidate candidate;
    struct problem problem;
    const struct schema *schema;
    char text[PROBLEM_TEXT_BYTES];
    snprintf(text, sizeof text, "%s %s", fields, sizes);
    attune_status status = find_schema(generator, family, &schema, error);
    if (status == ATTUNE_OK) {
        status = problem_parse(schema, text, &problem, error);
    }
    if (status == ATTUNE_OK) {
        status = candidate_default(generator, &problem, &road->target, &candidate, error);
    }
    if (status == ATTUNE_OK) {
        status = object_expand(generator, road, &candidate, &problem, &scratch, job, error);
    }
    if (status == ATTUNE_OK) {
        status = object_obtain(road, job, error);
    }
    if (status != ATTUNE_OK) {
        error_prefix(error, "%s", family);
    }
    expansion_free(&scratch);
    return status;
}

attune_status judge_compile(struct generator *generator, const struct object_road *road, const struct problem *problem,
                            struct judge_code *code, struct error *error)
{
    struct object_road with_bytes = *road;
    char fields[FIELDS_BYTES];
    memset(code, 0, sizeof *code);
    with_bytes.keep_bytes = true;
    reference_fields(problem, fields);
    attune_status status = compile(generator, &with_bytes, "attention.reference", fields,
                                   "batch=1 heads=1 kv_heads=1 seqlen_q=1 seqlen_k=1", &code->reference, error);
    if (status == ATTUNE_OK) {
        compare_fields(problem, fields);
        status = compile(generator, &with_bytes, "attention.compare", fields, "batch=1 heads=1 seqlen_q=1",
                         &code->compare, error);
    }
    return status;
}

static struct kernel_object object_of(const struct object_job *job)
{
    return (struct kernel_object){.bytes = job->bytes.data, .length = job->bytes.length, .launch = &job->launch};
}

void judge_code_objects(const struct judge_code *code, struct judge_objects *objects)
{
    *objects = (struct judge_objects){.reference = object_of(&code->reference), .compare = object_of(&code->compare)};
}

void judge_code_free(struct judge_code *code)
{
    object_job_free(&code->reference);
    object_job_free(&code->compare);
}

attune_status judge_load(struct generator *generator, const struct judge_objects *objects,
                         const struct problem *problem, const struct driver *driver, int ordinal, struct judge **judge,
                         struct error *error)
{
    struct judge *made = calloc(1, sizeof *made);
    *judge = NULL;
    if (made == NULL) {
        return error_no_memory(error);
    }
    made->driver = driver;
    made->ordinal = ordinal;
    reference_fields(problem, made->reference_fields);
    compare_fields(problem, made->compare_fields);
    attune_status status = find_schema(generator, "attention.reference", &made->reference_schema, error);
    if (status == ATTUNE_OK) {
        status = find_schema(generator, "attention.compare", &made->compare_schema, error);
    }
    if (status == ATTUNE_OK) {
        status = driver->describe(driver, ordinal, &made->device, error);
    }
    if (status == ATTUNE_OK) {
        status = kernel_load(&made->reference, driver, &made->device, objects->reference.bytes,
                             objects->reference.length, objects->reference.launch, error);
    }
    if (status == ATTUNE_OK) {
        status = kernel_load(&made->compare, driver, &made->device, objects->compare.bytes, objects->compare.length,
                             objects->compare.launch, error);
    }
    if (status != ATTUNE_OK) {
        judge_destroy(made);
        return error_prefix(error, "loading the judge");
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
