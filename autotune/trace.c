/* trace.c - see trace.h. Lines are kept as they come, then sorted by text and equal ones summed up. */
#include "autotune/trace.h"

#include "base/files.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t add_up(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* {"calls":n,"problem":"..."}: other keys are a later release's, and no harm */
static bool read_line(const char *line, size_t length, int64_t *calls, char text[PROBLEM_TEXT_BYTES])
{
    json_t *json = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    const json_t *count = json_object_get(json, "calls"), *problem = json_object_get(json, "problem");
    bool good = false;
    if (json_is_integer(count) && json_integer_value(count) > 0 && json_is_string(problem) &&
        json_string_length(problem) > 0 && json_string_length(problem) < PROBLEM_TEXT_BYTES) {
        memcpy(text, json_string_value(problem), json_string_length(problem) + 1);
        *calls = json_integer_value(count);
        good = true;
    }
    json_decref(json);
    return good;
}

static attune_status keep(struct trace *trace, const char *text, int64_t calls, struct error *error)
{
    if ((trace->count & (trace->count + 1)) == 0) { /* room for twice as many, and one */
        struct traced_problem *problems = realloc(trace->problems, (2 * (size_t)trace->count + 1) * sizeof *problems);
        if (problems == NULL) {
            return error_no_memory(error);
        }
        trace->problems = problems;
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        return error_no_memory(error);
    }
    trace->problems[trace->count++] = (struct traced_problem){.text = copy, .calls = calls};
    trace->calls = add_up(trace->calls, calls);
    return ATTUNE_OK;
}

attune_status trace_add(struct trace *trace, const char *bytes, size_t length, struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (const char *line = bytes, *end = bytes + length; line < end && status == ATTUNE_OK;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        const size_t size = (size_t)((stop != NULL ? stop : end) - line);
        char text[PROBLEM_TEXT_BYTES];
        int64_t calls;
        if (size > 0) {
            trace->lines++;
            if (read_line(line, size, &calls, text)) {
                status = keep(trace, text, calls, error);
            } else {
                trace->unreadable++;
            }
        }
        line = stop != NULL ? stop + 1 : end;
    }
    return status;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct traced_problem *)a)->text, ((const struct traced_problem *)b)->text);
}

void trace_sum(struct trace *trace)
{
    int kept = 0;
    if (trace->count > 0) {
        qsort(trace->problems, (size_t)trace->count, sizeof *trace->problems, by_text);
    }
    for (int i = 0; i < trace->count; i++) {
        struct traced_problem *problem = &trace->problems[i];
        if (kept > 0 && strcmp(trace->problems[kept - 1].text, problem->text) == 0) {
            trace->problems[kept - 1].calls = add_up(trace->problems[kept - 1].calls, problem->calls);
            free(problem->text);
        } else {
            trace->problems[kept++] = *problem;
        }
    }
    trace->count = kept;
}

attune_status trace_add_file(struct trace *trace, const char *path, struct error *error)
{
    struct buffer file = BUFFER_INIT;
    const int64_t lines = trace->lines, unreadable = trace->unreadable;
    attune_status status = file_read(path, TRACE_FILE_BYTES_MAX, &file, error);
    if (status == ATTUNE_OK) {
        status = trace_add(trace, buffer_string(&file), file.length, error);
    }
    buffer_free(&file);
    if (status == ATTUNE_OK && trace->lines > lines && trace->unreadable - unreadable == trace->lines - lines) {
        status = error_set(error, ATTUNE_INVALID,
                           "'%s' is no trace: none of its %lld lines is {\"calls\":n,\"problem\":\"...\"}, as "
                           "ATTUNE_TRACE writes them",
                           path, (long long)(trace->lines - lines));
    }
    return status;
}

void trace_free(struct trace *trace)
{
    for (int i = 0; i < trace->count; i++) {
        free(trace->problems[i].text);
    }
    free(trace->problems);
    *trace = (struct trace){0};
}

/* ------------------------------------------------------------------------------------------------ costs */

static double bytes_of(const char *dtype)
{
    const int bytes = dtype_bytes(dtype);
    return bytes > 0 ? bytes : 1; /* blocks of 8-bit numbers and their scales: about one */
}

/* pairs of a query and a key that the causal mask lets through; windows are not looked at */
static double visible_pairs(const struct problem *problem, double queries, double keys)
{
    const char *causal = problem_choice(problem, "causal");
    if (strcmp(causal, "none") == 0) {
        return queries * keys;
    }
    /* query i sees i + shift keys, at least none and at most all */
    const double shift = 1 + (strcmp(causal, "bottom_right") == 0 ? keys - queries : 0);
    const double first = fmin(queries, fmax(0, 1 - shift)), full = fmax(first, fmin(queries, keys - shift));
    return (full - first) * (first + shift + full - 1 + shift) / 2 + (queries - full) * keys;
}

static void attention_cost(const struct problem *problem, double *operations, double *bytes, bool *wide)
{
    const double batch = (double)problem_integer(problem, "batch"), heads = (double)problem_integer(problem, "heads"),
                 kv_heads = (double)problem_integer(problem, "kv_heads"),
                 queries = (double)problem_integer(problem, "seqlen_q"),
                 keys = (double)problem_integer(problem, "seqlen_k"),
                 qk = (double)problem_integer(problem, "head_dim_qk"),
                 v = (double)problem_integer(problem, "head_dim_v");
    *bytes =
        batch *
        (heads * queries *
             (qk * bytes_of(problem_choice(problem, "q_dtype")) + v * bytes_of(problem_choice(problem, "o_dtype"))) +
         kv_heads * keys *
             (qk * bytes_of(problem_choice(problem, "k_dtype")) + v * bytes_of(problem_choice(problem, "v_dtype"))));
    *operations = 2 * (qk + v) * batch * heads * visible_pairs(problem, queries, keys);
    *wide = strcmp(problem_choice(problem, "q_dtype"), "f32") == 0;
}

static void family_cost(struct generator *generator, const struct problem *problem, double *operations, double *bytes,
                        bool *wide)
{
    enum { TENSORS_MAX = 32 };
    struct tensor_spec specs[TENSORS_MAX];
    int count = 0;
    *operations = generator_operations(generator, problem);
    *bytes = 0;
    *wide = false;
    if (generator_tensors(generator, problem, specs, TENSORS_MAX, &count, NULL) != ATTUNE_OK) {
        return;
    }
    for (int i = 0; i < count && i < TENSORS_MAX; i++) {
        *bytes += (double)specs[i].elements * bytes_of(specs[i].dtype);
        *wide = *wide || strcmp(specs[i].dtype, "f32") == 0;
    }
}

static void cost_of(struct generator *generator, const struct problem *problem, double *operations, double *bytes,
                    bool *wide)
{
    if (strcmp(problem->schema->family, "attention.forward") == 0) {
        attention_cost(problem, operations, bytes, wide);
    } else {
        family_cost(generator, problem, operations, bytes, wide);
    }
}

double trace_call_bytes(struct generator *generator, const struct problem *problem)
{
    double operations, bytes;
    bool wide;
    cost_of(generator, problem, &operations, &bytes, &wide);
    return bytes;
}

double trace_call_cost(struct generator *generator, const struct problem *problem)
{
    static const double launching = 4, bytes_a_microsecond = 1e6, narrow_rate = 1e8, wide_rate = 2e7;
    double operations, bytes;
    bool wide;
    cost_of(generator, problem, &operations, &bytes, &wide);
    return launching + fmax(operations / (wide ? wide_rate : narrow_rate), bytes / bytes_a_microsecond);
}
