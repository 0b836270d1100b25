/* embed.c - attention in an engine: context, device, plan, launch. Links libattune alone and reads a filled cache;
 * built with EMBED_JIT it links libattune-jit as well, so that a first call may compile what the cache lacks. */
#include <attune.h>

#include "device_memory.h"

#include <math.h>

enum { HEADS = 4, KV_HEADS = 2, SEQLEN = 128, DIM = 64 };
static float q[SEQLEN][HEADS][DIM], k[SEQLEN][KV_HEADS][DIM], v[SEQLEN][KV_HEADS][DIM], o[SEQLEN][HEADS][DIM];

static int fail(attune_context *context, const char *what)
{
    char message[4096];
    attune_last_error(context, message, sizeof message);
    fprintf(stderr, "embed: %s: %s\n", what, message);
    return 1;
}

static void fill(float *values, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / (1 << 23) - 1.0f;
    }
}

/* one row of causal attention in plain C; the largest difference to what the kernel wrote */
static double check_row(int query, int head)
{
    int kv = head / (HEADS / KV_HEADS);
    double weights[SEQLEN], sum = 0, worst = 0;
    for (int j = 0; j <= query; j++) {
        double score = 0;
        for (int d = 0; d < DIM; d++) {
            score += (double)q[query][head][d] * k[j][kv][d];
        }
        sum += weights[j] = exp(score / sqrt(DIM));
    }
    for (int d = 0; d < DIM; d++) {
        double value = 0;
        for (int j = 0; j <= query; j++) {
            value += weights[j] / sum * v[j][kv][d];
        }
        worst = fmax(worst, fabs(value - o[query][head][d]));
    }
    return worst;
}

int main(int argc, char **argv)
{
    attune_context *context = NULL;
    attune_device *device = NULL;
    attune_problem *problem = NULL;
    attune_plan *plan = NULL;
    if (attune_context_create(NULL, &context) != ATTUNE_OK) {
        return fail(NULL, "context");
    }
#ifdef EMBED_JIT
    if (attune_jit_register(context) != ATTUNE_OK) {
        return fail(context, "jit");
    }
#endif
    attune_device_info device_info = {.size = sizeof device_info};
    if (attune_device_open(context, argc > 1 ? argv[1] : "best", &device) != ATTUNE_OK ||
        attune_device_describe(device, &device_info) != ATTUNE_OK) {
        return fail(context, "device");
    }
    const attune_attention attention = {.size = sizeof attention,
                                        .q_dtype = ATTUNE_F32,
                                        .batch = 1,
                                        .heads = HEADS,
                                        .kv_heads = KV_HEADS,
                                        .seqlen_q = SEQLEN,
                                        .head_dim_qk = DIM,
                                        .causal = ATTUNE_CAUSAL_BOTTOM_RIGHT,
                                        .lse = 1};
    attune_plan_info info = {.size = sizeof info};
    if (attune_problem_attention(context, &attention, &problem) != ATTUNE_OK ||
        attune_prepare(device, problem, NULL, &plan) != ATTUNE_OK || attune_plan_describe(plan, &info) != ATTUNE_OK) {
        return fail(context, "prepare");
    }
    static const char *const rungs[] = {"", "default", "near", "exact"};
    printf("%s (%s): %s plan %s\n  %s\n  compiled by %s\n", device_info.name, device_info.target, rungs[info.rung],
           info.candidate_id, info.candidate, info.compiler);

    struct device_memory memory;
    attune_attention_arguments arguments = {.size = sizeof arguments};
    void *workspace = NULL;
    fill(&q[0][0][0], sizeof q / sizeof(float), 1);
    fill(&k[0][0][0], sizeof k / sizeof(float), 2);
    fill(&v[0][0][0], sizeof v / sizeof(float), 3);
    if (device_memory_open(&memory, device_info.target) != 0 ||
        device_memory_new(&memory, (void **)&arguments.q, q, sizeof q) != 0 ||
        device_memory_new(&memory, (void **)&arguments.k, k, sizeof k) != 0 ||
        device_memory_new(&memory, (void **)&arguments.v, v, sizeof v) != 0 ||
        device_memory_new(&memory, &arguments.o, NULL, sizeof o) != 0 ||
        device_memory_new(&memory, (void **)&arguments.lse, NULL, sizeof(float) * HEADS * SEQLEN) != 0 ||
        (info.workspace_bytes > 0 && device_memory_new(&memory, &workspace, NULL, info.workspace_bytes) != 0)) {
        fprintf(stderr, "embed: no device memory\n");
        return 1;
    }
    if (attune_launch_attention(plan, &arguments, NULL, workspace, info.workspace_bytes) != ATTUNE_OK) {
        return fail(context, "launch");
    }
    if (device_memory_read(&memory, o, arguments.o, sizeof o) != 0) {
        fprintf(stderr, "embed: the device failed\n");
        return 1;
    }
    double first = check_row(0, 0), last = check_row(SEQLEN - 1, HEADS - 1);
    printf("largest difference to plain C: %.1e in the first row, %.1e in the last\n", first, last);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    attune_context_destroy(context);
    return fmax(first, last) < 1e-5 ? 0 : 1;
}
