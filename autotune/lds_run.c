/* lds_run.c - a candidate's kernel on the host device with its accesses told. */
#include "autotune/lds_count.h"
#include "autotune/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tile of keys has at most 1024: two of them at least, so that what is done for each tile is seen twice. */
enum { KEYS_LEAST = 2048, KEYS_MOST = 4096, QUERIES_MOST = 512 };

static attune_status set_sizes(struct problem *run, struct error *error)
{
    const int64_t ratio = problem_integer(run, "heads") / problem_integer(run, "kv_heads");
    const int64_t queries = problem_integer(run, "seqlen_q"), keys = problem_integer(run, "seqlen_k");
    const bool keys_fit = keys >= KEYS_LEAST && keys <= KEYS_MOST;
    /* under this mask query i sees i + 1 keys */
    const bool top_left = strcmp(problem_choice(run, "causal"), "top_left") == 0;
    const struct {
        const char *field;
        int64_t value;
    } sizes[] = {{"batch", 1},
                 {"heads", ratio},
                 {"kv_heads", 1},
                 {"seqlen_q", top_left                 ? KEYS_LEAST
                              : queries < 1            ? 1
                              : queries > QUERIES_MOST ? QUERIES_MOST
                                                       : queries},
                 {"seqlen_k", keys_fit ? keys : KEYS_LEAST}};
    attune_status status = ATTUNE_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && status == ATTUNE_OK; i++) {
        status = problem_set_integer(run, sizes[i].field, sizes[i].value, error);
    }
    return status == ATTUNE_OK ? problem_check(run, error) : status;
}

attune_status lds_problem(const struct problem *given, struct problem *run, struct error *error)
{
    *run = *given;
    return oracle_has_companions(given) ? set_sizes(run, error) : ATTUNE_OK;
}

/* ---- the traced object ---- */

static attune_status host_target(const struct target *target, struct target *host, struct error *error)
{
    char text[TARGET_TEXT_BYTES + 8], name[TARGET_TEXT_BYTES];
    *host = *target;
    if (target->vendor == TARGET_HOST) {
        return ATTUNE_OK;
    }
    target_format(target, name);
    snprintf(text, sizeof text, "host-%.*s", (int)strcspn(name, ":"), name);
    return target_parse(text, host, error);
}

/* vocabulary with its accesses told, then the text that people are shown, whose lines are counted from 1 */
static attune_status traced_source(const struct expansion *expansion, struct buffer *source, struct error *error)
{
    buffer_text(source, "#define ATTUNE_TRACE_LDS 1\n");
    buffer_append(source, expansion->compile.data + expansion->vocabulary_begin, expansion->vocabulary_bytes);
    buffer_text(source, "#line 1 \"kernel\"\n");
    buffer_append(source, expansion->shown.data, expansion->shown.length);
    return buffer_ok(source, error);
}

static attune_status compile_traced(struct compiler_pool *pool, const struct target *host,
                                    const struct expansion *expansion, struct compile_result *result,
                                    struct error *error)
{
    struct buffer source = BUFFER_INIT;
    attune_status status = traced_source(expansion, &source, error);
    if (status == ATTUNE_OK) {
        const struct compile_request request = {
            .target = *host, .source = buffer_string(&source), .source_bytes = source.length};
        status = compiler_compile(pool, &request, result, error);
    }
    buffer_free(&source);
    return status;
}

/* ---- the launch ---- */

struct running {
    const struct driver *driver;
    struct driver_device device;
    struct kernel kernel;
    const struct oracle_case *test;
    struct guarded tensors[ORACLE_TENSORS_MAX];
    struct guarded workspace;
    struct kernel_call call;
};

static attune_status make_tensors(struct running *running, struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (int t = 0; t < running->test->tensor_count && status == ATTUNE_OK; t++) {
        const struct oracle_tensor *tensor = &running->test->tensors[t];
        const size_t bytes = (size_t)tensor->elements * dtype_size(tensor->dtype);
        struct guarded *memory = &running->tensors[t];
        status = guarded_make(memory, running->driver, 0, bytes, false, 0, error);
        if (status == ATTUNE_OK && !tensor->output && bytes > 0) {
            status = running->driver->copy_in(running->driver, 0, memory->data, tensor->host, bytes, error);
        }
    }
    return status;
}

static attune_status bind(struct running *running, bool is_attention, struct error *error)
{
    const struct oracle_case *test = running->test;
    struct named_value values[ATTENTION_VALUES];
    void *pointers[ORACLE_TENSORS_MAX];
    int count = test->tensor_count;
    for (int t = 0; t < test->tensor_count; t++) {
        pointers[t] = running->tensors[t].data;
        values[t] = (struct named_value){.name = test->tensors[t].name, .kind = NAMED_POINTER, .pointer = pointers[t]};
    }
    if (is_attention) {
        count = attention_case_values(test, pointers, NULL, NULL, values);
    }
    uint64_t workspace = 0;
    attune_status status = launch_workspace(&running->kernel.launch, &test->problem, &workspace, error);
    if (status == ATTUNE_OK && workspace > 0) {
        status = guarded_make(&running->workspace, running->driver, 0, workspace, false, 0, error);
    }
    return status == ATTUNE_OK ? kernel_bind(&running->kernel, &test->problem, values, count, running->workspace.data,
                                             &running->call, error)
                               : status;
}

static attune_status launch_traced(struct running *running, uint32_t blocks, struct lds_count *count,
                                   struct error *error)
{
    struct host_trace trace = {.blocks_max = blocks, .access = lds_count_access, .data = count};
    const uint64_t grid = running->call.grid[0] * running->call.grid[1] * running->call.grid[2];
    if (grid == 0) {
        return error_set(error, ATTUNE_INVALID, "a size of the problem is 0: there is no block to look at");
    }
    host_device_set_trace(&trace);
    attune_status status = kernel_launch(&running->call, NULL, error);
    host_device_set_trace(NULL);
    count->blocks = trace.blocks;
    count->grid_blocks = trace.grid_blocks;
    if (status == ATTUNE_OK && count->failed) {
        return error_no_memory(error);
    }
    return status;
}

static attune_status run_traced(const struct oracle *oracle, const struct oracle_case *test,
                                const struct buffer *object, const struct launch *launch, uint32_t blocks,
                                struct lds_count *count, struct error *error)
{
    struct running running = {.test = test};
    attune_status status = driver_get("host", &running.driver, error);
    if (status == ATTUNE_OK) {
        status = running.driver->describe(running.driver, 0, &running.device, error);
    }
    if (status == ATTUNE_OK) {
        status =
            kernel_load(&running.kernel, running.driver, &running.device, object->data, object->length, launch, error);
    }
    if (status == ATTUNE_OK) {
        status = make_tensors(&running, error);
    }
    if (status == ATTUNE_OK) {
        status = bind(&running, oracle->is_attention, error);
    }
    if (status == ATTUNE_OK) {
        status = launch_traced(&running, blocks, count, error);
    }
    for (int t = 0; t < ORACLE_TENSORS_MAX; t++) {
        guarded_free(&running.tensors[t]);
    }
    guarded_free(&running.workspace);
    kernel_unload(&running.kernel);
    return status;
}

static int compare_lines(const void *first, const void *second)
{
    const struct lds_line *a = first, *b = second;
    const uint32_t keys[][2] = {{a->line, b->line}, {(uint32_t)a->kind, (uint32_t)b->kind}, {a->bytes, b->bytes}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i][0] != keys[i][1]) {
            return keys[i][0] < keys[i][1] ? -1 : 1;
        }
    }
    return 0;
}

static attune_status read_rule(struct generator *generator, const struct target *host, struct lds_rule *rule,
                               struct error *error)
{
    json_t *facts = NULL;
    attune_status status = generator_target_facts(generator, host, &facts, error);
    if (status == ATTUNE_OK) {
        status = lds_rule_read(facts, rule, error);
    }
    json_decref(facts);
    return status;
}

attune_status lds_count_candidate(struct generator *generator, struct compiler_pool *pool,
                                  const struct candidate *candidate, const struct problem *problem,
                                  const struct target *target, uint32_t blocks, struct lds_count *count,
                                  struct error *error)
{
    struct target host;
    struct expansion expansion = {0};
    struct compile_result compiled = {0};
    struct oracle *oracle = NULL;
    struct oracle_case *test = NULL;
    memset(count, 0, sizeof *count);
    attune_status status = host_target(target, &host, error);
    if (status == ATTUNE_OK) {
        status = read_rule(generator, &host, &count->rule, error);
    }
    if (status == ATTUNE_OK) {
        status = lds_problem(problem, &count->problem, error);
    }
    if (status == ATTUNE_OK) {
        status = oracle_check_host_problem(generator, &count->problem, error);
    }
    if (status == ATTUNE_OK) {
        status = candidate_expand(generator, candidate, &count->problem, &host, &expansion, error);
    }
    if (status == ATTUNE_OK) {
        status = oracle_create(generator, &count->problem, 1, &oracle, error);
    }
    if (status == ATTUNE_OK) {
        status = oracle_timed_case(oracle, &test, error);
    }
    if (status == ATTUNE_OK) {
        status = compile_traced(pool, &host, &expansion, &compiled, error);
    }
    if (status == ATTUNE_OK) {
        status = run_traced(oracle, test, &compiled.object, &expansion.launch, blocks, count, error);
    }
    if (status == ATTUNE_OK && count->line_count > 0) {
        qsort(count->lines, (size_t)count->line_count, sizeof *count->lines, compare_lines);
    }
    struct buffer shown = count->source;
    count->source = expansion.shown;
    expansion.shown = shown;
    oracle_destroy(oracle);
    compile_result_free(&compiled);
    expansion_free(&expansion);
    return status;
}
