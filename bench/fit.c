/* fit.c - ridge regression of whole spaces, in its dual form: as many unknowns as candidates. */
#include "bench/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double single_variance = 0.04, pair_variance = 0.01, noise_variance = 0.002, slow_limit = 1.1;
static const float least_effect = 0.01f;

struct terms {
    int count, room;
    struct search_prior_term *items;
    char (*names)[PRIOR_TERM_BYTES];
};

/* the term of that name, made when it is new; -1 without memory */
static int find_term(struct terms *terms, const char *name)
{
    for (int i = 0; i < terms->count; i++) {
        if (strcmp(terms->names[i], name) == 0) {
            return i;
        }
    }
    if (terms->count == terms->room) {
        int room = terms->room > 0 ? terms->room * 2 : 1024;
        void *items = realloc(terms->items, (size_t)room * sizeof *terms->items);
        terms->items = items != NULL ? items : terms->items;
        void *names = realloc(terms->names, (size_t)room * sizeof *terms->names);
        terms->names = names != NULL ? names : terms->names;
        if (items == NULL || names == NULL) {
            return -1;
        }
        terms->room = room;
    }
    snprintf(terms->names[terms->count], PRIOR_TERM_BYTES, "%s", name);
    terms->items[terms->count] = (struct search_prior_term){0};
    return terms->count++;
}

/* a space's candidates that the device saw, as lists of terms; what has no time was given up as slow */
struct problem_of_fit {
    int rows, width;
    int *term; /* rows x width: terms of each row, singles first */
    int singles;
    double *value, *weights, *matrix;
};

static bool read_rows(const struct replay_space *space, struct problem_of_fit *fit, struct terms *terms)
{
    int parameters = space->list.items[0].parameter_count;
    double sum = 0.0;
    fit->singles = parameters;
    fit->width = parameters + parameters * (parameters - 1) / 2;
    fit->term = calloc((size_t)space->list.count * (size_t)fit->width, sizeof *fit->term);
    fit->value = calloc((size_t)space->list.count, sizeof *fit->value);
    if (fit->term == NULL || fit->value == NULL) {
        return false;
    }
    for (int i = 0; i < space->list.count; i++) {
        const struct replay_entry *entry = &space->entries[i];
        const struct candidate *one = &space->list.items[i];
        if (entry->binary != i || !entry->looked || one->parameter_count != parameters) {
            continue;
        }
        int *term = fit->term + (size_t)fit->rows * (size_t)fit->width, at = 0;
        char name[PRIOR_TERM_BYTES];
        for (int p = 0; p < parameters; p++) {
            snprintf(name, sizeof name, "%s %s=%s", one->template_name, one->parameters[p].name,
                     one->parameters[p].value);
            term[at++] = find_term(terms, name);
        }
        for (int p = 0; p < parameters; p++) {
            for (int q = p + 1; q < parameters; q++) {
                snprintf(name, sizeof name, "%s %s=%s %s=%s", one->template_name, one->parameters[p].name,
                         one->parameters[p].value, one->parameters[q].name, one->parameters[q].value);
                term[at++] = find_term(terms, name);
            }
        }
        for (int t = 0; t < at; t++) {
            if (term[t] < 0) {
                return false;
            }
        }
        fit->value[fit->rows] = entry->truth > 0.0 ? fmin(log(entry->truth / space->best), slow_limit) : slow_limit;
        sum += fit->value[fit->rows++];
    }
    for (int i = 0; i < fit->rows; i++) {
        fit->value[i] -= sum / fit->rows;
    }
    return true;
}

/* (K + noise) weights = values, by Cholesky in place */
static bool solve(struct problem_of_fit *fit)
{
    int n = fit->rows;
    fit->matrix = calloc((size_t)n * (size_t)n, sizeof *fit->matrix);
    fit->weights = calloc((size_t)n, sizeof *fit->weights);
    if (fit->matrix == NULL || fit->weights == NULL) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        double *line = fit->matrix + (size_t)i * (size_t)n, rest = fit->value[i];
        const int *left = fit->term + (size_t)i * (size_t)fit->width;
        for (int j = 0; j <= i; j++) {
            const int *right = fit->term + (size_t)j * (size_t)fit->width;
            const double *other = fit->matrix + (size_t)j * (size_t)n;
            double sum = i == j ? noise_variance : 0.0;
            for (int t = 0; t < fit->width; t++) {
                sum += left[t] == right[t] ? (t < fit->singles ? single_variance : pair_variance) : 0.0;
            }
            for (int k = 0; k < j; k++) {
                sum -= line[k] * other[k];
            }
            line[j] = i == j ? sqrt(sum) : sum / other[j];
        }
        for (int j = 0; j < i; j++) {
            rest -= line[j] * fit->weights[j];
        }
        fit->weights[i] = rest / line[i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++) {
            fit->weights[i] -= fit->matrix[(size_t)j * (size_t)n + (size_t)i] * fit->weights[j];
        }
        fit->weights[i] /= fit->matrix[(size_t)i * (size_t)n + (size_t)i];
    }
    return true;
}

static bool fit_space(const struct replay_space *space, int source, struct terms *terms)
{
    struct problem_of_fit fit = {0};
    bool done = read_rows(space, &fit, terms) && solve(&fit);
    for (int i = 0; i < fit.rows && done; i++) {
        for (int t = 0; t < fit.width; t++) {
            double variance = t < fit.singles ? single_variance : pair_variance;
            terms->items[fit.term[(size_t)i * (size_t)fit.width + (size_t)t]].effect[source] +=
                (float)(variance * fit.weights[i]);
        }
    }
    free(fit.term);
    free(fit.value);
    free(fit.weights);
    free(fit.matrix);
    return done;
}

static float largest(const struct search_prior_term *term, int sources)
{
    float most = 0.0f;
    for (int s = 0; s < sources; s++) {
        most = fmaxf(most, fabsf(term->effect[s]));
    }
    return most;
}

/* keeps the terms that matter; the prior owns them then */
static void hand_over(struct terms *terms, const char *family, int sources, struct search_prior *prior)
{
    int kept = 0;
    for (int t = 0; t < terms->count; t++) {
        if (largest(&terms->items[t], sources) >= least_effect) {
            terms->items[kept] = terms->items[t];
            memmove(terms->names[kept], terms->names[t], PRIOR_TERM_BYTES);
            terms->items[kept].name = terms->names[kept];
            kept++;
        }
    }
    *prior = (struct search_prior){.family = family, .sources = sources, .count = kept, .terms = terms->items};
    if (kept == 0) { /* else the first term's name is where they begin */
        free(terms->names);
    }
}

attune_status fit_prior(const struct replay_space *spaces, int count, struct search_prior *prior, struct error *error)
{
    struct terms terms = {0};
    attune_status status = ATTUNE_OK;
    *prior = (struct search_prior){.family = ""};
    if (count > PRIOR_SOURCES_MAX) {
        return error_set(error, ATTUNE_INVALID, "%d journals: more than %d, raise PRIOR_SOURCES_MAX", count,
                         PRIOR_SOURCES_MAX);
    }
    for (int s = 0; s < count && status == ATTUNE_OK; s++) {
        status = fit_space(&spaces[s], s, &terms) ? ATTUNE_OK : error_no_memory(error);
    }
    if (status != ATTUNE_OK) {
        free(terms.items);
        free(terms.names);
        return status;
    }
    hand_over(&terms, count > 0 ? spaces[0].list.items[0].family : "", count, prior);
    return ATTUNE_OK;
}

attune_status fit_without(const struct search_prior *prior, int source, struct search_prior *others,
                          struct error *error)
{
    struct terms terms = {0};
    for (int t = 0; t < prior->count; t++) {
        int at = find_term(&terms, prior->terms[t].name);
        if (at < 0) {
            free(terms.items);
            free(terms.names);
            return error_no_memory(error);
        }
        for (int s = 0, to = 0; s < prior->sources; s++) {
            if (s != source) {
                terms.items[at].effect[to++] = prior->terms[t].effect[s];
            }
        }
    }
    hand_over(&terms, prior->family, prior->sources - 1, others);
    return ATTUNE_OK;
}

void fit_free(struct search_prior *prior)
{
    if (prior->count > 0) {
        free((void *)(uintptr_t)prior->terms[0].name);
    }
    free((void *)(uintptr_t)prior->terms);
    *prior = (struct search_prior){0};
}

void fit_print(const struct search_prior *prior, const struct replay_space *spaces, FILE *file)
{
    fprintf(file, "/* search_prior_table.c - made by `bench_search fit`; do not edit.\n *\n * Sources, in order:\n");
    for (int s = 0; s < prior->sources; s++) {
        fprintf(file, " *   %s on %s, %d binaries\n", spaces[s].name, spaces[s].device.name, spaces[s].looks);
    }
    fprintf(file, " */\n#include \"autotune/search_prior.h\"\n\n/* clang-format off */\n"
                  "static const struct search_prior_term terms[] = {\n");
    for (int t = 0; t < prior->count; t++) {
        fprintf(file, "    {\"%s\", {", prior->terms[t].name);
        for (int s = 0; s < prior->sources; s++) {
            fprintf(file, "%s%.4ff", s > 0 ? ", " : "", prior->terms[t].effect[s]);
        }
        fprintf(file, "}},\n");
    }
    fprintf(file,
            "};\n/* clang-format on */\n\nconst struct search_prior search_prior_table = {\"%s\", %d, %d, terms};\n",
            prior->family, prior->sources, prior->count);
}
