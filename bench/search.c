/* search.c - how good is searching? `bench_search score JOURNAL...` replays journals of whole spaces. */
#include "bench/replay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 100, JOURNALS_MAX = 64 };
static const double share = 0.15;

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double quantile(double *sorted, int count, double part)
{
    int index = (int)ceil(part * count) - 1;
    return sorted[index < 0 ? 0 : index];
}

static attune_status score(struct replay_space *space, struct generator *generator, int seeds, struct error *error)
{
    static const enum search_strategy strategies[] = {SEARCH_MODEL, SEARCH_LOCAL, SEARCH_RANDOM};
    double regrets[SEEDS_MAX];
    int evaluations = (int)ceil(share * space->looks);
    printf("| %s | %d | %d | %.1f | %d |", space->name, space->timed, space->within, space->best, evaluations);
    for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++) {
        double seconds = 0.0;
        int compiles = 0, refused = 0;
        for (int seed = 0; seed < seeds; seed++) {
            struct search_options options = {
                .strategy = strategies[s], .seed = (uint64_t)seed + 1, .evaluations = evaluations};
            struct replay_result result;
            attune_status status = replay_run(space, generator, &options, REPLAY_AHEAD, &result, error);
            if (status != ATTUNE_OK) {
                return status;
            }
            regrets[seed] = result.regret;
            seconds += result.seconds;
            compiles += result.compiles;
            refused += result.refused;
        }
        qsort(regrets, (size_t)seeds, sizeof regrets[0], compare);
        printf(" %.2f / %.2f |", 100.0 * quantile(regrets, seeds, 0.5), 100.0 * quantile(regrets, seeds, 0.9));
        if (s == 0) {
            printf(" %.0f | %.0f | %.2f |", (double)compiles / seeds, (double)refused / seeds,
                   1e3 * seconds / compiles);
        }
        fflush(stdout);
    }
    printf("\n");
    return ATTUNE_OK;
}

int main(int argc, char **argv)
{
    struct generator *generator;
    struct error error;
    int seeds = 20;
    struct generator_options how = {0};
    attune_status status = generator_create(&how, &generator, &error);
    for (int i = 2; i < argc && status == ATTUNE_OK; i++) {
        struct replay_space space;
        if (strncmp(argv[i], "--seeds=", 8) == 0) {
            seeds = atoi(argv[i] + 8);
            continue;
        }
        status = replay_load(argv[i], generator, &space, &error);
        if (status == ATTUNE_OK) {
            status = score(&space, generator, seeds, &error);
            replay_free(&space);
        }
    }
    if (status != ATTUNE_OK) {
        fprintf(stderr, "bench_search: %s\n", error.message);
        return 1;
    }
    generator_destroy(generator);
    return 0;
}
