/* embed.c - attention in an engine: context, device, plan, launch. Links libattune alone and reads a filled cache;
 * built with EMBED_JIT it links libattune-jit as well, so that a first call may compile what the cache lacks. */
#include <attune.h>

#include "device_memory.h"
#include "plain.h"

enum { HEADS = 4, KV_HEADS = 2, SEQLEN = 128, DIM = 64 };
static float q[SEQLEN * HEADS * DIM], k[SEQLEN * KV_HEADS * DIM], v[SEQLEN * KV_HEADS * DIM], o[SEQLEN * HEADS * DIM];
static attune_context *context;

static void check(attune_status status, const char *what)
{
    char message[4096];
    if (status != ATTUNE_OK) {
        attune_last_error(context, message, sizeof message);
        fprintf(stderr, "embed: %s: %s\n", what, message);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    attune_device *device;
    attune_problem *problem;
    attune_plan *plan;
    attune_device_info about = {.size = sizeof about};
    attune_plan_info info = {.size = sizeof info};
    check(attune_context_create(NULL, &context), "context");
#ifdef EMBED_JIT
    check(attune_jit_register(context), "jit");
#endif
    check(attune_device_open(context, argc > 1 ? argv[1] : "best", &device), "device");
    check(attune_device_describe(device, &about), "device");
    check(attune_problem_attention(context,
                                   &(attune_attention){.size = sizeof(attune_attention),
                                                       .q_dtype = ATTUNE_F32,
                                                       .batch = 1,
                                                       .heads = HEADS,
                                                       .kv_heads = KV_HEADS,
                                                       .seqlen_q = SEQLEN,
                                                       .head_dim_qk = DIM,
                                                       .causal = ATTUNE_CAUSAL_BOTTOM_RIGHT,
                                                       .lse = 1},
                                   &problem),
          "problem");
    check(attune_prepare(device, problem, NULL, &plan), "prepare");
    check(attune_plan_describe(plan, &info), "plan");
    printf("%s (%s): %s, rung %d of 3, compiled by %s\n", about.name, about.target, info.candidate, (int)info.rung,
           info.compiler);

    struct device_memory memory;
    plain_fill(q, sizeof q / sizeof(float), 1);
    plain_fill(k, sizeof k / sizeof(float), 2);
    plain_fill(v, sizeof v / sizeof(float), 3);
    if (device_memory_open(&memory, about.target) != 0) {
        return 1;
    }
    attune_attention_arguments arguments = {.size = sizeof arguments,
                                            .q = device_memory_new(&memory, q, sizeof q),
                                            .k = device_memory_new(&memory, k, sizeof k),
                                            .v = device_memory_new(&memory, v, sizeof v),
                                            .o = device_memory_new(&memory, NULL, sizeof o),
                                            .lse = device_memory_new(&memory, NULL, sizeof(float) * HEADS * SEQLEN)};
    void *workspace = info.workspace_bytes > 0 ? device_memory_new(&memory, NULL, info.workspace_bytes) : NULL;
    check(attune_launch_attention(plan, &arguments, NULL, workspace, info.workspace_bytes), "launch");
    if (device_memory_read(&memory, o, arguments.o, sizeof o) != 0) {
        fprintf(stderr, "embed: the device failed\n");
        return 1;
    }
    double first = plain_difference(HEADS, KV_HEADS, DIM, q, k, v, o, 0, 0);
    double last = plain_difference(HEADS, KV_HEADS, DIM, q, k, v, o, SEQLEN - 1, HEADS - 1);
    printf("largest difference to plain C: %.1e in the first row, %.1e in the last\n", first, last);
    attune_plan_destroy(plan);
    attune_problem_destroy(problem);
    attune_context_destroy(context);
    return fmax(first, last) < 1e-5 ? 0 : 1;
}
