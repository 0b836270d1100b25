/* test_search_parts.c - what the model of a search is made of: rows of codes, the Gaussian process against its
 * textbook form, effects found by name, what resources teach, blocks that a unit holds. */
#include "autotune/inputs.h"
#include "autotune/screen.h"
#include "autotune/search_gauss.h"
#include "autotune/search_prior.h"
#include "autotune/search_traits.h"
#include "tests/comma_locale.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* candidates of two templates: `wide` has a parameter more */
static struct candidate_list two_templates(void)
{
    struct candidate_list list = {.count = 24};
    list.items = calloc((size_t)list.count, sizeof *list.items);
    assert_non_null(list.items);
    for (int i = 0; i < list.count; i++) {
        struct candidate *one = &list.items[i];
        bool wide = i >= 12;
        strcpy(one->family, "made.up");
        strcpy(one->template_name, wide ? "wide" : "plain");
        one->parameter_count = wide ? 3 : 2;
        strcpy(one->parameters[0].name, "layout");
        strcpy(one->parameters[0].value, i % 2 == 0 ? "row" : "xor");
        strcpy(one->parameters[1].name, "tile");
        snprintf(one->parameters[1].value, CANDIDATE_VALUE_BYTES, "%d", 1 << i / 2 % 3);
        strcpy(one->parameters[2].name, "scale");
        strcpy(one->parameters[2].value, i / 6 % 2 == 0 ? "0.5" : "2.0");
    }
    return list;
}

static void rows_have_a_column_for_every_parameter_of_every_template(void **state)
{
    (void)state;
    struct candidate_list list = two_templates();
    struct search_space space;
    struct error error;
    assert_int_equal(search_space_create(&list, &space, &error), ATTUNE_OK);
    assert_int_equal(space.columns, 4);
    assert_string_equal(space.column[3].name, "scale");
    assert_false(space.column[0].ordered);
    assert_false(space.column[1].ordered);
    assert_true(space.column[2].ordered);
    assert_int_equal(search_space_row(&space, 0)[3], SEARCH_ABSENT);
    assert_int_not_equal(search_space_row(&space, 12)[3], SEARCH_ABSENT);
    assert_int_equal(search_space_distance(&space, 0, 1), 1);
    assert_int_equal(search_space_distance(&space, 0, 3), 2);
    const uint8_t *one = search_space_row(&space, 0), *four = search_space_row(&space, 4);
    assert_true(fabs(search_space_step(&space.column[2], one[2], four[2]) - 2.0) < 1e-12); /* 1 and 4 */
    assert_true(search_space_step(&space.column[1], 1, 2) == 1.0);
    assert_true(search_space_step(&space.column[3], SEARCH_ABSENT, 1) == 1.0);
    search_space_free(&space);
    candidate_list_free(&list);
}

static void numbers_are_read_with_points_whatever_the_locale(void **state)
{
    (void)state;
    struct candidate_list list = two_templates();
    struct search_space space;
    struct error error;
    if (!comma_locale_enter()) {
        candidate_list_free(&list);
        skip();
    }
    assert_int_equal(search_space_create(&list, &space, &error), ATTUNE_OK);
    assert_true(space.column[3].ordered);
    assert_true(fabs(search_space_step(&space.column[3], 1, 2) - 2.0) < 1e-12);
    search_space_free(&space);
    candidate_list_free(&list);
    setlocale(LC_ALL, "C");
}

/* ---- the process ---- */

enum { KNOWN = 9 };
static const int known_rows[KNOWN] = {3, 20, 7, 0, 15, 11, 18, 5, 13};

static double made_up(int row)
{
    return sin(row * 1.7) + 0.1 * row;
}

/* covariance as search_gauss.h describes it */
static double covariance(const struct gauss *gauss, int a, int b)
{
    const uint8_t *left = search_space_row(gauss->space, a), *right = search_space_row(gauss->space, b);
    double distance = 0.0, sum = gauss->constant;
    for (int c = 0; c < gauss->space->columns; c++) {
        distance += gauss->weight[c] * search_space_step(&gauss->space->column[c], left[c], right[c]);
    }
    for (int f = 0; f < gauss->features; f++) {
        sum += gauss->slope[f] * gauss->feature[f][a] * gauss->feature[f][b];
    }
    return sum + exp(-distance);
}

/* by elimination with the whole matrix: (K + noise) x = right */
static void solve(const struct gauss *gauss, const double *right, double *x)
{
    double matrix[KNOWN][KNOWN];
    for (int i = 0; i < KNOWN; i++) {
        x[i] = right[i];
        for (int j = 0; j < KNOWN; j++) {
            matrix[i][j] = covariance(gauss, known_rows[i], known_rows[j]) + (i == j ? gauss->noise : 0.0);
        }
    }
    for (int i = 0; i < KNOWN; i++) {
        for (int j = i + 1; j < KNOWN; j++) {
            double factor = matrix[j][i] / matrix[i][i];
            for (int k = i; k < KNOWN; k++) {
                matrix[j][k] -= factor * matrix[i][k];
            }
            x[j] -= factor * x[i];
        }
    }
    for (int i = KNOWN - 1; i >= 0; i--) {
        for (int k = i + 1; k < KNOWN; k++) {
            x[i] -= matrix[i][k] * x[k];
        }
        x[i] /= matrix[i][i];
    }
}

static void open_gauss(struct candidate_list *list, struct search_space *space, struct gauss *gauss)
{
    struct error error;
    *list = two_templates();
    assert_int_equal(search_space_create(list, space, &error), ATTUNE_OK);
    assert_int_equal(gauss_create(space, 16, gauss, &error), ATTUNE_OK);
    gauss->noise = 0.01;
    gauss->features = 1;
    gauss->feature[0] = calloc((size_t)space->count, sizeof *gauss->feature[0]);
    assert_non_null(gauss->feature[0]);
    for (int i = 0; i < space->count; i++) {
        gauss->feature[0][i] = (float)(i % 5 - 2) * 0.3f;
    }
    gauss_clear(gauss);
}

static void close_gauss(struct candidate_list *list, struct search_space *space, struct gauss *gauss)
{
    gauss_free(gauss);
    search_space_free(space);
    candidate_list_free(list);
}

static void the_process_expects_what_the_whole_matrix_says_in_any_order_of_values(void **state)
{
    (void)state;
    struct candidate_list list;
    struct search_space space;
    struct gauss gauss;
    double values[KNOWN], weights[KNOWN], right[KNOWN], back[KNOWN];
    open_gauss(&list, &space, &gauss);
    for (int i = 0; i < KNOWN; i++) {
        assert_true(gauss_add(&gauss, known_rows[i]));
        values[i] = made_up(known_rows[i]);
    }
    for (int i = KNOWN - 1; i >= 0; i--) {
        gauss_know(&gauss, known_rows[i], values[i]);
    }
    gauss_expect(&gauss);
    solve(&gauss, values, weights);
    for (int row = 0; row < space.count; row++) {
        double mean = 0.0, variance = covariance(&gauss, row, row);
        for (int i = 0; i < KNOWN; i++) {
            right[i] = covariance(&gauss, row, known_rows[i]);
            mean += right[i] * weights[i];
        }
        solve(&gauss, right, back);
        for (int i = 0; i < KNOWN; i++) {
            variance -= right[i] * back[i];
        }
        assert_true(fabs(gauss.mean[row] - mean) < 1e-4);
        assert_true(fabs(gauss.variance[row] - variance) < 1e-3);
    }
    close_gauss(&list, &space, &gauss);
}

static void a_point_without_a_value_changes_no_expectation_and_leaves_less_to_learn(void **state)
{
    (void)state;
    struct candidate_list list;
    struct search_space space;
    struct gauss gauss;
    float before[24], doubt[24];
    open_gauss(&list, &space, &gauss);
    for (int i = 0; i < 4; i++) {
        gauss_add(&gauss, known_rows[i]);
        gauss_know(&gauss, known_rows[i], made_up(known_rows[i]));
    }
    gauss_expect(&gauss);
    memcpy(before, gauss.mean, sizeof before);
    memcpy(doubt, gauss.variance, sizeof doubt);
    gauss_add(&gauss, 15);
    gauss.stale = true;
    gauss_expect(&gauss);
    for (int row = 0; row < space.count; row++) {
        assert_true(fabsf(gauss.mean[row] - before[row]) < 1e-6f);
        assert_true(gauss.variance[row] <= doubt[row] + 1e-6f);
    }
    assert_true(gauss.variance[15] < 0.1f * doubt[15]);
    assert_true(gauss.variance[14] < doubt[14] - 1e-3f);
    /* and goes on as if it were what was expected of it */
    float expected = gauss.mean[15];
    gauss_add(&gauss, 16);
    gauss_know(&gauss, 16, 3.0);
    gauss_expect(&gauss);
    memcpy(before, gauss.mean, sizeof before);
    gauss_know(&gauss, 15, (double)expected);
    gauss_expect(&gauss);
    for (int row = 0; row < space.count; row++) {
        assert_true(fabsf(gauss.mean[row] - before[row]) < 1e-4f);
    }
    close_gauss(&list, &space, &gauss);
}

static void points_beyond_the_room_are_refused_and_twins_are_borne(void **state)
{
    (void)state;
    struct candidate_list list;
    struct search_space space;
    struct gauss gauss;
    open_gauss(&list, &space, &gauss);
    gauss.noise = 1e-5;
    gauss_clear(&gauss);
    for (int i = 0; i < 16; i++) {
        assert_true(gauss_add(&gauss, i % 4)); /* each four times */
        gauss_know(&gauss, i % 4, 1.0);
    }
    assert_false(gauss_add(&gauss, 9));
    gauss_expect(&gauss);
    for (int row = 0; row < space.count; row++) {
        assert_true(isfinite(gauss.mean[row]) && isfinite(gauss.variance[row]) && gauss.variance[row] >= 0.0f);
    }
    assert_true(fabsf(gauss.mean[2] - 1.0f) < 0.01f);
    close_gauss(&list, &space, &gauss);
}

static void fitting_finds_which_columns_matter(void **state)
{
    (void)state;
    struct candidate_list list;
    struct search_space space;
    struct gauss gauss;
    open_gauss(&list, &space, &gauss);
    gauss.noise = 1e-3;
    gauss_clear(&gauss);
    for (int i = 0; i < 16; i++) { /* the layout decides, the tile says nothing */
        int row = i * 3 % 24;
        gauss_add(&gauss, row);
        gauss_know(&gauss, row, strcmp(list.items[row].parameters[0].value, "xor") == 0 ? 1.0 : -1.0);
    }
    gauss_fit(&gauss, 16);
    assert_true(gauss.weight[1] > 10.0 * gauss.weight[2]);
    assert_true(gauss.amplitude > 0.0);
    close_gauss(&list, &space, &gauss);
}

/* ---- effects by name ---- */

static void effects_are_found_by_template_name_and_value_and_others_say_nothing(void **state)
{
    (void)state;
    static const struct search_prior_term terms[] = {
        {"plain layout=xor", {0.4f, -0.2f}},
        {"wide scale=2.0 tile=4", {1.0f, 0.0f}},
        {"wide layout=col", {9.0f, 9.0f}},
        {"absent layout=xor", {9.0f, 9.0f}},
        {"plain layout=xor nothing=1", {9.0f, 9.0f}},
        {"plain tile=16", {9.0f, 9.0f}},
        {"plain layout=xo", {9.0f, 9.0f}},
        {"plain", {9.0f, 9.0f}},
    };
    const struct search_prior prior = {"made.up", 2, sizeof terms / sizeof terms[0], terms};
    struct candidate_list list = two_templates();
    struct search_space space;
    struct error error;
    float first[24], second[24], *const values[] = {first, second};
    assert_int_equal(search_space_create(&list, &space, &error), ATTUNE_OK);
    assert_true(search_prior_values(&prior, "made.up", &space, values));
    double sum = 0.0;
    for (int i = 0; i < list.count; i++) {
        bool xor_plain = i < 12 && i % 2 == 1;
        bool scaled = i >= 12 && strcmp(list.items[i].parameters[2].value, "2.0") == 0 &&
                      strcmp(list.items[i].parameters[1].value, "4") == 0;
        double effect = xor_plain ? 0.4 : scaled ? 1.0 : 0.0;
        double other = i == 0 ? 0.0 : first[i] - first[0];
        assert_true(fabs(other - effect) < 1e-5);
        assert_true(fabs(second[i] - second[0] - (xor_plain ? -0.2 : 0.0)) < 1e-5);
        sum += first[i];
    }
    assert_true(fabs(sum) < 1e-4);
    assert_false(search_prior_values(&prior, "another.family", &space, values));
    assert_true(first[1] == 0.0f);
    search_space_free(&space);
    candidate_list_free(&list);
}

static void the_committed_table_is_of_a_family_and_finite(void **state)
{
    (void)state;
    const struct search_prior *table = &search_prior_table;
    assert_string_equal(table->family, "attention.forward");
    assert_in_range(table->sources, 1, PRIOR_SOURCES_MAX);
    assert_true(table->count > 100);
    for (int t = 0; t < table->count; t++) {
        assert_true(strncmp(table->terms[t].name, "portable ", 9) == 0);
        for (int s = 0; s < table->sources; s++) {
            assert_true(fabsf(table->terms[t].effect[s]) < 2.0f);
        }
    }
}

/* ---- resources ---- */

static struct screen_unit unit_of(const char *name)
{
    struct generator *generator = NULL;
    struct target target;
    struct screen_unit unit;
    struct error error = {.message = ""};
    assert_int_equal(generator_create(NULL, &generator, &error), ATTUNE_OK);
    assert_int_equal(target_parse(name, &target, &error), ATTUNE_OK);
    assert_int_equal(screen_unit_of(generator, &target, &unit, &error), ATTUNE_OK);
    generator_destroy(generator);
    return unit;
}

static void a_unit_holds_as_many_blocks_as_registers_shared_memory_and_threads_allow(void **state)
{
    (void)state;
    const struct {
        const char *target;
        int registers, accumulators, shared;
        unsigned threads;
        int blocks;
    } cases[] = {
        {"sm_90a", 168, 0, 0, 128, 3},       /* registers */
        {"sm_90a", 32, 0, 0, 128, 16},       /* waves and registers: 64 */
        {"sm_86", 32, 0, 0, 128, 12},        /* waves: 48 */
        {"sm_86", 16, 0, 0, 32, 16},         /* blocks */
        {"sm_90a", 32, 0, 75 << 10, 128, 3}, /* shared memory, 1 KiB reserved for each */
        {"sm_75", 32, 0, 16 << 10, 128, 4},  /* which that one does not */
        {"sm_90a", 255, 0, 200 << 10, 256, 1},
        {"gfx906", 64, 0, 0, 256, 4},        /* 256 / 64 waves a SIMD, a block has one on each */
        {"gfx906", 24, 0, 0, 256, 10},       /* no more than 10 */
        {"gfx906", 24, 0, 0, 128, 16},       /* no more blocks of several waves */
        {"gfx906", 24, 0, 0, 64, 40},        /* but of one */
        {"gfx906", 64, 0, 20 << 10, 256, 3}, /* shared memory */
        {"gfx908", 64, 64, 0, 256, 4},       /* accumulators of their own */
        {"gfx90a", 64, 64, 0, 256, 4},       /* 512 / (64 + 64) */
        {"gfx90a", 24, 0, 0, 256, 8},
        {"gfx950", 64, 0, 50 << 10, 256, 3}, /* 160 KiB */
        {"gfx1030", 128, 0, 0, 128, 4},
        {"gfx1100", 128, 0, 0, 128, 5}, /* 1536 registers a lane, by 24 */
        {"gfx1103", 128, 0, 0, 128, 4}, /* 1024, by 16 */
        {"host", 64, 0, 0, 128, 0},     /* nobody knows */
        {"host-gfx906", 64, 0, 0, 128, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct screen_unit unit = unit_of(cases[i].target);
        const struct resources resources = {.vector_registers = cases[i].registers,
                                            .accumulator_registers = cases[i].accumulators,
                                            .shared_bytes = cases[i].shared};
        const struct launch launch = {.threads = cases[i].threads};
        int blocks = screen_resident_blocks(&unit, &launch, &resources);
        if (blocks != cases[i].blocks) {
            fail_msg("%s, %d registers, %d bytes, %u threads: %d blocks, not %d", cases[i].target, cases[i].registers,
                     cases[i].shared, cases[i].threads, blocks, cases[i].blocks);
        }
    }
}

static void resources_that_decide_are_learnt_and_those_that_do_not_are_left(void **state)
{
    (void)state;
    const struct driver_device device = {.compute_units = 100};
    const struct screen_unit unit = unit_of("sm_90a");
    struct problem problem = {0};
    struct traits traits = {.count = 0};
    double trait[TRAITS], before = traits_variance(&traits);
    uint64_t state_of_lot = 5;
    for (int i = 0; i < 80; i++) { /* half the resident waves: 10 % slower */
        state_of_lot = hash_mix(state_of_lot + 1);
        const struct resources resources = {.vector_registers = 40 + (int)(state_of_lot % 200), .shared_bytes = 0};
        const struct launch launch = {.threads = 64u << (state_of_lot >> 20) % 3};
        traits_of(&device, &unit, &problem, &resources, &launch, trait);
        traits_learn(&traits, trait, -0.1 * trait[2]);
    }
    const struct launch launch = {.threads = 128};
    const struct resources few = {.vector_registers = 64}, many = {.vector_registers = 252};
    double low[TRAITS];
    traits_of(&device, &unit, &problem, &many, &launch, low);
    traits_of(&device, &unit, &problem, &few, &launch, trait);
    assert_true(fabs(trait[2] - low[2] - 2.0) < 1e-9); /* 8 blocks, or 2 */
    assert_true(fabs(traits_expect(&traits, low) - traits_expect(&traits, trait) - 0.2) < 0.03);
    assert_true(traits_variance(&traits) < 0.3 * before);
    struct traits nothing = {.count = 0};
    assert_true(traits_expect(&nothing, trait) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_a_column_for_every_parameter_of_every_template),
        cmocka_unit_test(numbers_are_read_with_points_whatever_the_locale),
        cmocka_unit_test(the_process_expects_what_the_whole_matrix_says_in_any_order_of_values),
        cmocka_unit_test(a_point_without_a_value_changes_no_expectation_and_leaves_less_to_learn),
        cmocka_unit_test(points_beyond_the_room_are_refused_and_twins_are_borne),
        cmocka_unit_test(fitting_finds_which_columns_matter),
        cmocka_unit_test(effects_are_found_by_template_name_and_value_and_others_say_nothing),
        cmocka_unit_test(the_committed_table_is_of_a_family_and_finite),
        cmocka_unit_test(a_unit_holds_as_many_blocks_as_registers_shared_memory_and_threads_allow),
        cmocka_unit_test(resources_that_decide_are_learnt_and_those_that_do_not_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
