/* expand.c - expansions a second: `bench_expand [COUNT]` expands COUNT distinct (candidate, problem, target)
 * combinations of attention.forward on one core, digests every byte, and prints the rate. Nothing is remembered between
 * expansions but what the generator itself keeps. */
#include "base/digest.h"
#include "base/process.h"
#include "generator/generator.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const problems[] = {
    "attention.forward dtype=f16 heads=32 seqlen_q=2048 head_dim=128 causal=1",
    "attention.forward dtype=bf16 heads=32 kv_heads=8 seqlen_q=8192 head_dim=128 causal=1",
    "attention.forward dtype=f16 batch=8 heads=16 seqlen_q=577 head_dim=64 lse=1",
    "attention.forward dtype=f32 heads=4 seqlen_q=300 head_dim=96 dropout=0.1",
};
static const char *const targets[] = {"gfx906", "gfx90a", "gfx1100", "sm_80", "sm_90a", "host"};

enum { PROBLEMS = sizeof problems / sizeof problems[0], TARGETS = sizeof targets / sizeof targets[0] };

struct bench {
    struct generator *generator;
    struct expansion expansion;
    struct digest_state digest;
    struct error error;
    long wanted, done;
    uint64_t bytes;
    double expand_seconds, enumerate_seconds;
    uint64_t points;
};

static attune_status run_space(struct bench *bench, const struct problem *problem, const struct target *target,
                               long share)
{
    struct candidate_list list;
    double start = clock_seconds();
    attune_status status = candidate_enumerate(bench->generator, problem, target, &list, &bench->error);
    if (status != ATTUNE_OK) {
        return status;
    }
    bench->enumerate_seconds += clock_seconds() - start;
    bench->points += (uint64_t)list.points;
    start = clock_seconds();
    long count = share < list.count ? share : list.count;
    for (long i = 0; i < count && status == ATTUNE_OK; i++) {
        const struct candidate *candidate = &list.items[i * list.count / count];
        status = candidate_expand(bench->generator, candidate, problem, target, &bench->expansion, &bench->error);
        digest_update(&bench->digest, bench->expansion.shown.data, bench->expansion.shown.length);
        digest_update(&bench->digest, bench->expansion.compile.data, bench->expansion.compile.length);
        bench->bytes += bench->expansion.shown.length + bench->expansion.compile.length;
        bench->done++;
    }
    bench->expand_seconds += clock_seconds() - start;
    candidate_list_free(&list);
    return status;
}

static attune_status run_all(struct bench *bench)
{
    long left = PROBLEMS * TARGETS;
    for (int i = 0; i < PROBLEMS; i++) {
        for (int j = 0; j < TARGETS; j++, left--) {
            struct problem problem;
            struct target target;
            const struct schema *schema = schema_attention_forward();
            attune_status status = problem_parse(schema, problems[i], &problem, &bench->error);
            if (status == ATTUNE_OK) {
                status = target_parse(targets[j], &target, &bench->error);
            }
            if (status == ATTUNE_OK) {
                status = run_space(bench, &problem, &target, (bench->wanted - bench->done) / left);
            }
            if (status != ATTUNE_OK) {
                return status;
            }
        }
    }
    return ATTUNE_OK;
}

int main(int argc, char **argv)
{
    struct bench bench = {.wanted = argc > 1 ? atol(argv[1]) : 5000};
    struct generator_options options = {.template_path = ""};
    struct digest digest;
    char hex[DIGEST_HEX_BYTES];
    if (bench.wanted < PROBLEMS * TARGETS) {
        fprintf(stderr, "bench_expand: COUNT must be at least %d\n", PROBLEMS * TARGETS);
        return 2;
    }
    attune_status status = generator_create(&options, &bench.generator, &bench.error);
    digest_begin(&bench.digest);
    if (status == ATTUNE_OK) {
        status = run_all(&bench);
    }
    if (status != ATTUNE_OK) {
        fprintf(stderr, "bench_expand: %s\n", bench.error.message);
    } else {
        digest_end(&bench.digest, &digest);
        digest_hex(&digest, hex);
        printf("%ld expansions, %.1f MB in %.3f s: %.0f expansions/s (all bytes digested: %.16s)\n", bench.done,
               (double)bench.bytes / 1e6, bench.expand_seconds, (double)bench.done / bench.expand_seconds, hex);
        printf("%d spaces, %llu points enumerated in %.3f s: %.2f s for 100,000 points\n", PROBLEMS * TARGETS,
               (unsigned long long)bench.points, bench.enumerate_seconds,
               bench.enumerate_seconds * 1e5 / (double)bench.points);
    }
    expansion_free(&bench.expansion);
    generator_destroy(bench.generator);
    return status == ATTUNE_OK ? 0 : 1;
}
