/* search.c - how good is searching? Replays journals of whole spaces.
 *
 *   bench_search score [--seeds=N] [--share=PERCENT] [--prior=others|none] [--start=default|any] JOURNAL...
 *       a table. Of each strategy, at most so many looks: median / 90th percentile over the seeds of the regret of its
 *       choice in percent, and in brackets the 90th percentile before ties go to the first. The prior of a problem is
 *       fitted on the other journals
 *   bench_search fit JOURNAL... >autotune/search_prior_table.c
 *
 * The templates are those of the journals: ATTUNE_TEMPLATE_PATH=bench/spaces.
 */
#include "bench/fit.h"
#include "bench/replay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 1000, JOURNALS_MAX = PRIOR_SOURCES_MAX };

struct scoring {
    struct generator *generator;
    struct replay_space spaces[JOURNALS_MAX];
    int count;
    int seeds;
    double share;
    bool with_prior;
    bool any_start; /* a candidate by lot in the default's place */
};

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double quantile(double *values, int count, double part)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    int index = (int)ceil(part * count) - 1;
    return values[index < 0 ? 0 : index];
}

static attune_status score_strategy(struct scoring *scoring, struct replay_space *space,
                                    const struct search_options *base, struct error *error)
{
    double regrets[SEEDS_MAX], found[SEEDS_MAX], seconds = 0.0;
    int compiles = 0, refused = 0, looks = 0;
    for (int seed = 0; seed < scoring->seeds; seed++) {
        struct search_options options = *base;
        struct replay_result result;
        options.seed = (uint64_t)seed + 1;
        int start = scoring->any_start ? replay_start(space, options.seed) : 0;
        attune_status status = replay_run(space, scoring->generator, &options, start, &result, error);
        if (status != ATTUNE_OK) {
            return status;
        }
        regrets[seed] = 100.0 * result.regret;
        found[seed] = 100.0 * result.found;
        seconds += result.seconds;
        compiles += result.compiles;
        refused += result.refused;
        looks += result.looks;
    }
    int n = scoring->seeds;
    printf(" %.2f / %.2f (%.2f) |", quantile(regrets, n, 0.5), quantile(regrets, n, 0.9), quantile(found, n, 0.9));
    if (base->strategy == SEARCH_MODEL) {
        printf(" %.0f | %.0f | %.0f | %.2f |", (double)looks / n, (double)compiles / n, (double)refused / n,
               1e3 * seconds / compiles);
    }
    fflush(stdout);
    return ATTUNE_OK;
}

static attune_status score(struct scoring *scoring, struct error *error)
{
    static const enum search_strategy strategies[] = {SEARCH_MODEL, SEARCH_LOCAL, SEARCH_RANDOM};
    struct search_prior all;
    attune_status status = fit_prior(scoring->spaces, scoring->count, &all, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    printf("| problem | candidates | looks of all | timed | within 2 %% | best, µs | most looks | model | its looks | "
           "compiled | refused | ms a proposal | local | random "
           "|\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < scoring->count && status == ATTUNE_OK; i++) {
        struct replay_space *space = &scoring->spaces[i];
        struct search_prior prior = {.family = ""};
        int evaluations = (int)ceil(scoring->share * space->looks);
        printf("| %s | %d | %d | %d | %d | %.1f | %d |", space->name, space->list.count, space->looks, space->timed,
               space->within, space->best, evaluations);
        if (scoring->with_prior) {
            status = fit_without(&all, i, &prior, error);
        }
        for (size_t s = 0; s < sizeof strategies / sizeof strategies[0] && status == ATTUNE_OK; s++) {
            const struct search_options options = {
                .strategy = strategies[s], .prior = &prior, .evaluations = evaluations};
            status = score_strategy(scoring, space, &options, error);
        }
        printf("\n");
        fit_free(&prior);
    }
    fit_free(&all);
    return status;
}

static attune_status fit(struct scoring *scoring, struct error *error)
{
    struct search_prior prior;
    attune_status status = fit_prior(scoring->spaces, scoring->count, &prior, error);
    if (status == ATTUNE_OK) {
        fit_print(&prior, scoring->spaces, stdout);
        fit_free(&prior);
    }
    return status;
}

static attune_status read_arguments(int argc, char **argv, struct scoring *scoring, struct error *error)
{
    struct search_prior all;
    attune_status status = fit_prior(scoring->spaces, scoring->count, &all, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    for (int i = 2; i < argc && status == ATTUNE_OK; i++) {
        if (strncmp(argv[i], "--seeds=", 8) == 0) {
            scoring->seeds = atoi(argv[i] + 8);
        } else if (strncmp(argv[i], "--share=", 8) == 0) {
            scoring->share = atof(argv[i] + 8) / 100.0;
        } else if (strncmp(argv[i], "--prior=", 8) == 0) {
            scoring->with_prior = strcmp(argv[i] + 8, "none") != 0;
        } else if (strncmp(argv[i], "--start=", 8) == 0) {
            scoring->any_start = strcmp(argv[i] + 8, "any") == 0;
        } else if (scoring->count == JOURNALS_MAX) {
            status = error_set(error, ATTUNE_INVALID, "at most %d journals", JOURNALS_MAX);
        } else {
            status = replay_load(argv[i], scoring->generator, &scoring->spaces[scoring->count], error);
            scoring->count += status == ATTUNE_OK;
        }
    }
    if (status == ATTUNE_OK && (scoring->seeds < 1 || scoring->seeds > SEEDS_MAX || !(scoring->share > 0.0))) {
        status = error_set(error, ATTUNE_INVALID, "--seeds=1..%d, --share above 0", SEEDS_MAX);
    }
    return status;
}

int main(int argc, char **argv)
{
    static struct scoring scoring = {.seeds = 20, .share = 0.15, .with_prior = true};
    struct error error;
    const struct generator_options how = {0};
    bool scores = argc > 2 && strcmp(argv[1], "score") == 0, fits = argc > 2 && strcmp(argv[1], "fit") == 0;
    if (!scores && !fits) {
        fprintf(
            stderr,
            "bench_search score [--seeds=N] [--share=PERCENT] [--prior=others|none] [--start=default|any] JOURNAL...\n"
            "bench_search fit JOURNAL...\n");
        return 2;
    }
    attune_status status = generator_create(&how, &scoring.generator, &error);
    if (status == ATTUNE_OK) {
        status = read_arguments(argc, argv, &scoring, &error);
    }
    if (status == ATTUNE_OK) {
        status = scores ? score(&scoring, &error) : fit(&scoring, &error);
    }
    for (int i = 0; i < scoring.count; i++) {
        replay_free(&scoring.spaces[i]);
    }
    generator_destroy(scoring.generator);
    if (status != ATTUNE_OK) {
        fprintf(stderr, "bench_search: %s\n", error.message);
        return 1;
    }
    return 0;
}
