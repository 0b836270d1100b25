/* search_traits.c - a small ridge regression on resources. */
#include "autotune/search_traits.h"

#include "autotune/screen.h"

#include <math.h>
#include <string.h>

static const double ridge = 4.0, first_variance = 0.01;

void traits_of(const struct driver_device *device, const struct screen_unit *unit, const struct problem *problem,
               const struct resources *resources, const struct launch *launch, double trait[TRAITS])
{
    int64_t shared = (resources->shared_bytes >= 0 ? resources->shared_bytes : (int64_t)launch->static_shared_bytes) +
                     launch->dynamic_shared_bytes;
    int resident = unit != NULL ? screen_resident_blocks(unit, launch, resources) : 0;
    uint64_t grid[3];
    memset(trait, 0, TRAITS * sizeof trait[0]);
    trait[0] = 1.0;
    trait[1] = resources->vector_registers > 0 ? log2(resources->vector_registers) - 7.0 : 0.0;
    trait[4] = log2((double)shared + 4096.0) - 15.0;
    if (resident > 0) {
        trait[2] = log2((double)resident * launch->threads / unit->wave) - 3.0;
    }
    if (resident > 0 && device->compute_units > 0 &&
        launch_grid(launch, problem, device->compute_units, grid, NULL) == ATTUNE_OK) {
        double rounds = (double)grid[0] * (double)grid[1] * (double)grid[2] / device->compute_units / resident;
        trait[3] = rounds > 0.0 ? log2(ceil(rounds) / rounds) : 0.0;
    }
}

/* (moments + ridge) effect = products, by elimination: the matrix is positive definite */
static void solve(struct traits *traits)
{
    double matrix[TRAITS][TRAITS], *x = traits->effect;
    memcpy(matrix, traits->moments, sizeof matrix);
    memcpy(x, traits->products, sizeof traits->products);
    for (int i = 0; i < TRAITS; i++) {
        matrix[i][i] += ridge;
    }
    for (int i = 0; i < TRAITS; i++) {
        for (int j = i + 1; j < TRAITS; j++) {
            double factor = matrix[j][i] / matrix[i][i];
            for (int k = i; k < TRAITS; k++) {
                matrix[j][k] -= factor * matrix[i][k];
            }
            x[j] -= factor * x[i];
        }
    }
    for (int i = TRAITS - 1; i >= 0; i--) {
        for (int k = i + 1; k < TRAITS; k++) {
            x[i] -= matrix[i][k] * x[k];
        }
        x[i] /= matrix[i][i];
    }
}

void traits_learn(struct traits *traits, const double trait[TRAITS], double unforeseen)
{
    double rest = unforeseen - traits_expect(traits, trait);
    traits->squares += rest * rest;
    traits->count++;
    for (int i = 0; i < TRAITS; i++) {
        for (int j = 0; j < TRAITS; j++) {
            traits->moments[i][j] += trait[i] * trait[j];
        }
        traits->products[i] += trait[i] * unforeseen;
    }
    solve(traits);
}

double traits_expect(const struct traits *traits, const double trait[TRAITS])
{
    double sum = 0.0;
    for (int i = 0; i < TRAITS; i++) {
        sum += traits->effect[i] * trait[i];
    }
    return sum;
}

double traits_variance(const struct traits *traits)
{
    return (traits->squares + 4.0 * first_variance) / (traits->count + 4.0);
}
