/* problem_api.c - problems from the C struct and from text. */
#include "runtime/context.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* by index: the struct's zero means "follow the other field" where the schema has that rule */
static attune_status set_integer(struct problem *problem, const char *field, int64_t value, struct error *error)
{
    if (value == INT64_MIN) { /* the schema's own mark for "not given" */
        return error_set(error, ATTUNE_INVALID, "%s=%lld is outside its domain", field, (long long)value);
    }
    return problem_set_integer(problem, field, value, error);
}

static attune_status set_real(struct problem *problem, const char *field, double value, struct error *error)
{
    if (isnan(value)) {
        return error_set(error, ATTUNE_INVALID, "%s is NaN; give a number", field);
    }
    return problem_set_real(problem, field, value, error);
}

static attune_status set_dtype(struct problem *problem, const char *field, attune_dtype dtype, struct error *error)
{
    static const char *const names[] = {[ATTUNE_F16] = "f16", [ATTUNE_BF16] = "bf16", [ATTUNE_F32] = "f32"};
    int index = (int)dtype;
    if (index < ATTUNE_F16 || index > ATTUNE_F32) {
        return error_set(error, ATTUNE_INVALID, "%s=%d is no dtype; use ATTUNE_F16, ATTUNE_BF16 or ATTUNE_F32", field,
                         index);
    }
    return problem_set_choice(problem, field, names[index], error);
}

static attune_status set_dtypes(const attune_attention *a, struct problem *problem, struct error *error)
{
    const struct {
        const char *field;
        attune_dtype dtype;
    } dtypes[] = {{"k_dtype", a->k_dtype}, {"v_dtype", a->v_dtype}, {"o_dtype", a->o_dtype}};
    attune_status status = set_dtype(problem, "q_dtype", a->q_dtype != 0 ? a->q_dtype : ATTUNE_F16, error);
    for (int i = 0; i < 3 && status == ATTUNE_OK; i++) {
        if (dtypes[i].dtype != 0) {
            status = set_dtype(problem, dtypes[i].field, dtypes[i].dtype, error);
        }
    }
    return status;
}

static attune_status set_options(const attune_attention *a, struct problem *problem, struct error *error)
{
    static const char *const causal[] = {"none", "top_left", "bottom_right"};
    attune_status status;
    if ((int)a->causal < 0 || (int)a->causal > ATTUNE_CAUSAL_BOTTOM_RIGHT) {
        return error_set(error, ATTUNE_INVALID,
                         "causal=%d is no mask; use ATTUNE_CAUSAL_NONE, _TOP_LEFT or _BOTTOM_RIGHT", (int)a->causal);
    }
    if ((a->window_left != 0 || a->window_right != 0) && (a->window_left != -1 || a->window_right != -1)) {
        return error_set(
            error, ATTUNE_UNSUPPORTED,
            "window_left=%lld window_right=%lld: the struct serves no window yet; leave both 0 (unlimited)",
            (long long)a->window_left, (long long)a->window_right);
    }
    if (a->wide_index != 0 && a->wide_index != 1) {
        return error_set(error, ATTUNE_INVALID, "wide_index=%d is neither 0 nor 1", a->wide_index);
    }
    if ((status = problem_set_choice(problem, "causal", causal[a->causal], error)) != ATTUNE_OK ||
        (status = problem_set_choice(problem, "index", a->wide_index ? "wide" : "narrow", error)) != ATTUNE_OK ||
        (status = set_real(problem, "scale", a->scale, error)) != ATTUNE_OK ||
        (status = set_real(problem, "dropout", a->dropout, error)) != ATTUNE_OK ||
        (status = set_real(problem, "softcap", a->softcap, error)) != ATTUNE_OK ||
        (status = set_integer(problem, "lse", a->lse, error)) != ATTUNE_OK ||
        (status = set_integer(problem, "strict_nan", a->strict_nan, error)) != ATTUNE_OK ||
        (status = set_integer(problem, "batch_invariant", a->batch_invariant, error)) != ATTUNE_OK) {
        return status;
    }
    return a->alignment_bytes != 0 ? set_integer(problem, "alignment", a->alignment_bytes, error) : ATTUNE_OK;
}

attune_status attention_to_problem(const attune_attention *a, struct problem *problem, struct error *error)
{
    const struct {
        const char *field;
        int64_t value;
        bool zero_follows; /* 0: as the field it follows */
    } sizes[] = {
        {"batch", a->batch, false},          {"heads", a->heads, false},      {"kv_heads", a->kv_heads, true},
        {"seqlen_q", a->seqlen_q, false},    {"seqlen_k", a->seqlen_k, true}, {"head_dim_qk", a->head_dim_qk, false},
        {"head_dim_v", a->head_dim_v, true},
    };
    problem_defaults(schema_attention_forward(), problem);
    attune_status status = set_dtypes(a, problem, error);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && status == ATTUNE_OK; i++) {
        if (sizes[i].value != 0 || !sizes[i].zero_follows) {
            status = set_integer(problem, sizes[i].field, sizes[i].value, error);
        }
    }
    if (status == ATTUNE_OK) {
        status = set_options(a, problem, error);
    }
    return status == ATTUNE_OK ? problem_check(problem, error) : status;
}

/* the handle, with the canonical text */
static attune_status finish(attune_context *context, const struct problem *problem, attune_problem **out,
                            struct error *error)
{
    attune_problem *made = malloc(sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    made->context = context;
    made->problem = *problem;
    attune_status status = problem_format(problem, made->text, error);
    if (status != ATTUNE_OK) {
        free(made);
        return status;
    }
    *out = made;
    return ATTUNE_OK;
}

attune_status attune_problem_attention(attune_context *context, const attune_attention *attention,
                                       attune_problem **problem)
{
    struct error error = {0};
    attune_attention a;
    struct problem values;
    if (problem != NULL) {
        *problem = NULL;
    }
    if (context == NULL || problem == NULL) {
        return context_report(
            context, error_set(&error, ATTUNE_INVALID, "%s is NULL", context == NULL ? "context" : "problem"), &error);
    }
    attune_status status = struct_read(&a, sizeof a, sizeof a, attention, "attention", &error);
    if (status == ATTUNE_OK) {
        status = attention_to_problem(&a, &values, &error);
    }
    if (status == ATTUNE_OK) {
        status = finish(context, &values, problem, &error);
    }
    return context_report(context, status, &error);
}

/* built in, else of the compiling half, else as the store's records tell; the context keeps it */
static attune_status find_schema(attune_context *context, const char *family, const struct schema **schema,
                                 struct error *error)
{
    struct schema *stored = NULL;
    *schema = schema_built_in(family);
    if (*schema != NULL) {
        return ATTUNE_OK;
    }
    pthread_mutex_lock(&context->lock);
    struct jit_handler jit = context->jit;
    bool has_jit = context->has_jit;
    pthread_mutex_unlock(&context->lock);
    if (has_jit && jit.schema != NULL) {
        *schema = jit.schema(jit.data, family);
    }
    if (*schema == NULL) {
        attune_status status = store_family_schema(context->store, family, &stored, error);
        if (status != ATTUNE_OK) {
            return status != ATTUNE_NOT_FOUND
                       ? status
                       : error_set(error, ATTUNE_NOT_FOUND,
                                   "family \"%s\" is not known: it is not attention.forward, %s, and no record in %s "
                                   "is of it; %s",
                                   family,
                                   has_jit ? "the generator has no such template" : "libattune-jit is not registered",
                                   store_path(context->store)[0] ? store_path(context->store) : "the store (in memory)",
                                   has_jit ? "put its folder into ATTUNE_TEMPLATE_PATH"
                                           : "call attune_jit_register, or deploy a store that was tuned for it");
        }
        *schema = stored;
    }
    *schema = context_intern_schema(context, *schema);
    free(stored);
    return *schema != NULL ? ATTUNE_OK : error_no_memory(error);
}

attune_status attune_problem_parse(attune_context *context, const char *text, attune_problem **problem)
{
    struct error error = {0};
    char family[FAMILY_NAME_BYTES];
    const struct schema *schema = NULL;
    struct problem values;
    if (problem != NULL) {
        *problem = NULL;
    }
    if (context == NULL || problem == NULL || text == NULL) {
        const char *name = context == NULL ? "context" : problem == NULL ? "problem" : "text";
        return context_report(context, error_set(&error, ATTUNE_INVALID, "%s is NULL", name), &error);
    }
    attune_status status = problem_family(text, family, &error);
    if (status == ATTUNE_OK) {
        status = find_schema(context, family, &schema, &error);
    }
    if (status == ATTUNE_OK) {
        status = problem_parse(schema, text, &values, &error);
    }
    if (status == ATTUNE_OK) {
        status = finish(context, &values, problem, &error);
    }
    return context_report(context, status, &error);
}

size_t attune_problem_text(const attune_problem *problem, char *text, size_t bytes)
{
    const char *whole = problem != NULL ? problem->text : "";
    size_t length = strlen(whole);
    if (text != NULL && bytes > 0) {
        size_t copied = length < bytes - 1 ? length : bytes - 1;
        memcpy(text, whole, copied);
        text[copied] = '\0';
    }
    return length;
}

void attune_problem_destroy(attune_problem *problem)
{
    free(problem);
}
