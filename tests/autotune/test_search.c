/* test_search.c - every strategy over made-up spaces: each candidate is given once, looks stay within their bound,
 * answers may come late and in any order, and the same calls have the same answers. */
#include "autotune/search.h"

#include "autotune/inputs.h"
#include "tests/size.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STRATEGIES = 4, AHEAD = 24 };

/* a full product of parameters with `values` values each, at most `most` of its points */
static struct candidate_list product(int parameters, int values, int most)
{
    struct candidate_list list = {0};
    int points = 1;
    for (int p = 0; p < parameters; p++) {
        points *= values;
    }
    list.count = points < most ? points : most;
    list.items = calloc((size_t)list.count, sizeof *list.items);
    assert_non_null(list.items);
    for (int i = 0; i < list.count; i++) {
        struct candidate *one = &list.items[i];
        strcpy(one->family, "made.up");
        strcpy(one->template_name, "plain");
        one->parameter_count = parameters;
        for (int p = 0, rest = i; p < parameters; p++, rest /= values) {
            snprintf(one->parameters[p].name, sizeof one->parameters[p].name, "p%d", p);
            snprintf(one->parameters[p].value, sizeof one->parameters[p].value, p % 2 == 0 ? "%d" : "v%d",
                     1 << rest % values);
        }
    }
    return list;
}

/* one best point, a smooth way there, pairs that matter, and texture that no model knows */
static double time_of(const struct candidate *one, uint64_t texture)
{
    double time = 0.0, before = 0.0;
    uint64_t name = texture;
    for (int p = 0; p < one->parameter_count; p++) {
        double level = log2(atof(one->parameters[p].value + (p % 2)));
        double off = level - (p + (int)texture) % 3;
        time += 0.08 * off * off + 0.05 * (p > 0) * fabs(level - before);
        before = level;
        name = hash_mix(name + (uint64_t)level + 1);
    }
    return 100.0 * exp(time + 0.02 * (double)(name % 1000) / 1000.0);
}

/* what becomes of candidates in a replay */
struct world {
    int out_of_ten;    /* so many of ten do not run */
    bool unlooked;     /* and are out before they cost a look */
    int ahead;         /* under way at once */
    uint64_t disorder; /* 0: answers in the order of questions */
};

struct replay {
    int given[32768], count, looks, best_index;
    double best;
};

/* Runs a search to its end. Fails the test when an index comes twice, the bound is passed or it never ends. */
static void replay(const struct search_options *options, const struct world *world, struct replay *result)
{
    static unsigned char seen[32768];
    int under_way[AHEAD], waiting = 0;
    struct search *search;
    struct error error;
    memset(seen, 0, sizeof seen);
    *result = (struct replay){.best = INFINITY, .best_index = -1};
    assert_int_equal(search_create(options, &search, &error), ATTUNE_OK);
    int bound = search_looks(search);
    uint64_t state = world->disorder;
    for (;;) {
        int index = waiting < world->ahead ? search_next(search) : -1;
        if (index >= 0) {
            assert_in_range(index, 0, options->list->count - 1);
            assert_int_equal(seen[index], 0);
            seen[index] = 1;
            result->given[result->count++] = index;
            under_way[waiting++] = index;
            continue;
        }
        if (waiting == 0) {
            assert_true(search_is_over(search));
            break;
        }
        int which = 0;
        if (world->disorder != 0) {
            state = hash_mix(state + 1);
            which = (int)(state % (uint64_t)waiting);
        }
        index = under_way[which];
        memmove(&under_way[which], &under_way[which + 1], (size_t)(--waiting - which) * sizeof under_way[0]);
        const struct candidate *one = &options->list->items[index];
        struct search_answer answer = {0};
        char reason[SEARCH_REASON_BYTES];
        struct resources resources = {.vector_registers = 64, .max_threads = 128};
        struct launch launch = {.threads = 128};
        bool runs = (int)(hash_mix((uint64_t)index + 77) % 10) >= world->out_of_ten;
        answer.resources = &resources;
        if ((runs || !world->unlooked) && search_wants(search, index, &resources, &launch, reason)) {
            answer.looked = true;
            answer.microseconds = runs ? time_of(one, 0) : 0.0;
        }
        result->looks += answer.looked;
        if (answer.microseconds > 0.0 && answer.microseconds < result->best) {
            result->best = answer.microseconds;
            result->best_index = index;
        }
        search_tell(search, index, &answer);
        assert_true(result->looks <= bound);
    }
    search_destroy(search);
}

static struct driver_device device;
static struct problem problem;

static struct search_options options_of(int strategy, const struct candidate_list *list, uint64_t seed)
{
    return (struct search_options){.strategy = (enum search_strategy)strategy,
                                   .seed = seed,
                                   .list = list,
                                   .covered = 1,
                                   .problem = &problem,
                                   .device = &device};
}

static void every_strategy_ends_within_its_looks_in_any_order_of_answers(void **state)
{
    (void)state;
    struct candidate_list list = product(4, 4, 256);
    static struct replay result;
    const struct world worlds[] = {{.ahead = 1},
                                   {.ahead = AHEAD},
                                   {.ahead = AHEAD, .disorder = 3},
                                   {.ahead = 5, .disorder = 9, .out_of_ten = 4},
                                   {.ahead = AHEAD, .disorder = 5, .out_of_ten = 4, .unlooked = true}};
    for (int strategy = 0; strategy < STRATEGIES; strategy++) {
        for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
            for (int seed = 0; seed < test_size(2, 20); seed++) {
                struct search_options options = options_of(strategy, &list, (uint64_t)seed);
                replay(&options, &worlds[w], &result);
                assert_int_equal(result.given[0], 0);
                assert_true(result.best_index >= 0);
                assert_int_equal(result.looks <= (strategy == SEARCH_EXHAUSTIVE ? 256 : search_share(256)), 1);
                assert_true(strategy != SEARCH_EXHAUSTIVE || result.count == 256);
                /* all looks are spent, but for a model that expects nothing of the rest */
                assert_true(strategy == SEARCH_EXHAUSTIVE || strategy == SEARCH_MODEL ||
                            result.looks == search_share(256));
            }
        }
    }
    candidate_list_free(&list);
}

static void the_same_seed_and_answers_give_the_same_candidates_and_another_seed_others(void **state)
{
    (void)state;
    struct candidate_list list = product(5, 3, 243);
    static struct replay once, again, other;
    const struct world world = {.ahead = AHEAD, .disorder = 11, .out_of_ten = 2};
    for (int strategy = 0; strategy < STRATEGIES; strategy++) {
        struct search_options options = options_of(strategy, &list, 5);
        replay(&options, &world, &once);
        replay(&options, &world, &again);
        options.seed = 6;
        replay(&options, &world, &other);
        assert_int_equal(once.count, again.count);
        assert_memory_equal(once.given, again.given, sizeof once.given);
        assert_memory_not_equal(once.given, other.given, sizeof once.given);
    }
    candidate_list_free(&list);
}

static void a_small_space_is_looked_at_whole_and_any_that_is_asked_for_whole(void **state)
{
    (void)state;
    static struct replay result;
    const struct world world = {.ahead = AHEAD, .disorder = 2};
    for (int count = 1; count <= 60; count += count < 4 ? 1 : 28) {
        struct candidate_list small = product(3, 4, count);
        for (int strategy = 0; strategy < STRATEGIES; strategy++) {
            struct search_options options = options_of(strategy, &small, 1);
            replay(&options, &world, &result);
            assert_int_equal(result.looks, count);
        }
        candidate_list_free(&small);
    }
    struct candidate_list list = product(4, 4, 256);
    for (int strategy = 0; strategy < STRATEGIES; strategy++) { /* asked for whole: nobody ends before */
        struct search_options options = options_of(strategy, &list, 1);
        options.evaluations = 1000;
        replay(&options, &world, &result);
        assert_int_equal(result.looks, 256);
    }
    candidate_list_free(&list);
    assert_int_equal(search_share(200), 200);
    assert_int_equal(search_share(201), 48);
    assert_int_equal(search_share(1000), 150);
}

static void a_space_where_nothing_runs_ends(void **state)
{
    (void)state;
    struct candidate_list list = product(4, 4, 256);
    static struct replay result;
    for (int unlooked = 0; unlooked < 2; unlooked++) {
        const struct world world = {.ahead = AHEAD, .out_of_ten = 10, .unlooked = unlooked};
        for (int strategy = 0; strategy < STRATEGIES; strategy++) {
            struct search_options options = options_of(strategy, &list, 1);
            replay(&options, &world, &result);
            assert_int_equal(result.best_index, -1);
            assert_int_equal(result.looks, unlooked ? 0 : strategy == SEARCH_EXHAUSTIVE ? 256 : search_share(256));
            /* what costs no look is tried to the last: one of them may run */
            assert_true(!unlooked || result.count == 256);
        }
    }
    candidate_list_free(&list);
}

static void exhaustive_begins_with_the_cover_as_it_stands(void **state)
{
    (void)state;
    struct candidate_list list = product(4, 4, 256);
    static struct replay result;
    const struct world world = {.ahead = AHEAD};
    struct search_options options = options_of(SEARCH_EXHAUSTIVE, &list, 1);
    options.covered = 20;
    replay(&options, &world, &result);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(result.given[i], i);
    }
    int in_place = 0;
    for (int i = 20; i < 256; i++) {
        in_place += result.given[i] == i;
    }
    assert_in_range(in_place, 0, 20);
    candidate_list_free(&list);
}

static int differences(const struct candidate *a, const struct candidate *b)
{
    int differ = 0;
    for (int p = 0; p < a->parameter_count; p++) {
        differ += strcmp(a->parameters[p].value, b->parameters[p].value) != 0;
    }
    return differ;
}

static void local_search_walks_to_the_best_where_the_way_is_smooth(void **state)
{
    (void)state;
    struct candidate_list list = product(4, 4, 256);
    static struct replay result;
    const struct world world = {.ahead = 1};
    double best = INFINITY;
    for (int i = 0; i < list.count; i++) {
        best = fmin(best, time_of(&list.items[i], 0));
    }
    struct search_options options = options_of(SEARCH_LOCAL, &list, 1);
    options.evaluations = 60;
    replay(&options, &world, &result);
    assert_true(result.best <= 1.02 * best);
    /* the default's neighbours come first, then those of the best of them */
    int center = 0;
    for (int i = 1; i < 18; i++) {
        assert_int_equal(differences(&list.items[i < 13 ? 0 : center], &list.items[result.given[i]]), 1);
        if (i < 13 && time_of(&list.items[result.given[i]], 0) < time_of(&list.items[center], 0)) {
            center = result.given[i];
        }
    }
    candidate_list_free(&list);
}

static void what_is_known_from_elsewhere_is_not_given_and_its_look_counts(void **state)
{
    (void)state;
    struct candidate_list list = product(4, 4, 256);
    struct error error;
    for (int strategy = 0; strategy < STRATEGIES; strategy++) {
        struct search_options options = options_of(strategy, &list, 1);
        struct search *search;
        options.evaluations = 40;
        assert_int_equal(search_create(&options, &search, &error), ATTUNE_OK);
        for (int i = 0; i < 30; i++) {
            const struct search_answer answer = {.microseconds = time_of(&list.items[i * 3], 0), .looked = i % 3 != 0};
            search_tell(search, i * 3, &answer);
        }
        int looks = 20, index;
        while ((index = search_next(search)) >= 0) {
            assert_true(index % 3 != 0 || index >= 90);
            const struct search_answer answer = {.microseconds = time_of(&list.items[index], 0), .looked = true};
            search_tell(search, index, &answer);
            looks++;
        }
        assert_int_equal(looks, 40);
        assert_true(search_is_over(search));
        search_destroy(search);
    }
    candidate_list_free(&list);
}

static void twenty_thousand_candidates_are_searched(void **state)
{
    (void)state;
    struct candidate_list list = product(7, 5, 20000);
    static struct replay result;
    const struct world world = {.ahead = AHEAD, .disorder = 1}, failing = {.ahead = AHEAD, .out_of_ten = 10};
    double best = INFINITY;
    for (int i = 0; i < list.count; i++) {
        best = fmin(best, time_of(&list.items[i], 0));
    }
    for (int strategy = 0; strategy < STRATEGIES; strategy++) {
        struct search_options options = options_of(strategy, &list, 1);
        options.evaluations = test_size(200, 3000);
        replay(&options, &world, &result);
        assert_true(strategy == SEARCH_MODEL ? result.best <= 1.02 * best : result.looks == options.evaluations);
        replay(&options, &failing, &result);
        assert_int_equal(result.looks, options.evaluations);
    }
    assert_int_equal(search_share(20000), 3000);
    candidate_list_free(&list);
}

static void a_search_without_promise_ends_before_its_looks_are_spent(void **state)
{
    (void)state;
    struct candidate_list list = product(5, 4, 1024);
    static struct replay result;
    const struct world world = {.ahead = AHEAD, .disorder = 4};
    double best = INFINITY;
    for (int i = 0; i < list.count; i++) {
        best = fmin(best, time_of(&list.items[i], 0));
    }
    for (int seed = 1; seed <= test_size(3, 30); seed++) {
        struct search_options options = options_of(SEARCH_MODEL, &list, (uint64_t)seed);
        options.evaluations = 1000;
        replay(&options, &world, &result);
        assert_in_range(result.looks, 40, 500);
        assert_true(result.best <= 1.01 * best);
    }
    candidate_list_free(&list);
}

static void a_compiled_candidate_is_refused_when_what_was_learnt_since_leaves_no_hope(void **state)
{
    (void)state;
    struct candidate_list list = product(5, 4, 1024);
    struct search_options options = options_of(SEARCH_MODEL, &list, 2);
    struct search *search;
    struct error error;
    char reason[SEARCH_REASON_BYTES] = "";
    const struct resources resources = {.vector_registers = 64};
    const struct launch launch = {.threads = 128};
    int under_way[2000], given = 0, refused = 0, best = 0;
    assert_int_equal(search_create(&options, &search, &error), ATTUNE_OK);
    for (int i = 1; i < list.count; i++) {
        best = time_of(&list.items[i], 0) < time_of(&list.items[best], 0) ? i : best;
    }
    /* answers to the first thirty; then forty are asked for before the best answer of all comes */
    for (int index; given < 70 && (index = search_next(search)) >= 0; given++) {
        under_way[given] = index;
        if (given < 30) {
            const struct search_answer answer = {.microseconds = 3.0 * time_of(&list.items[index], 0), .looked = true};
            search_tell(search, index, &answer);
        }
    }
    const struct search_answer answer = {.microseconds = 0.2 * time_of(&list.items[best], 0), .looked = true};
    search_tell(search, under_way[30], &answer);
    for (int i = 31; i < given; i++) {
        bool wanted = search_wants(search, under_way[i], &resources, &launch, reason);
        assert_true(wanted || strstr(reason, "expected to take") != NULL);
        refused += !wanted;
        const struct search_answer out = {.microseconds = 0.0, .resources = &resources};
        search_tell(search, under_way[i], &out);
    }
    assert_in_range(refused, 1, given - 31 - 4); /* those that explore are wanted all the same */
    search_destroy(search);
    candidate_list_free(&list);
}

static void names_of_strategies_are_read_and_others_refused(void **state)
{
    (void)state;
    struct error error;
    enum search_strategy strategy;
    for (int i = 0; i < STRATEGIES; i++) {
        const char *name = search_strategy_name((enum search_strategy)i);
        assert_int_equal(search_strategy_parse(name, &strategy, &error), ATTUNE_OK);
        assert_int_equal(strategy, i);
    }
    assert_int_equal(search_strategy_parse(NULL, &strategy, &error), ATTUNE_OK);
    assert_int_equal(strategy, SEARCH_MODEL);
    assert_int_equal(search_strategy_parse("annealing", &strategy, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "'annealing'"));
    assert_non_null(strstr(error.message, "exhaustive"));
}

static void an_empty_list_is_refused(void **state)
{
    (void)state;
    struct candidate_list list = {0};
    struct search_options options = options_of(SEARCH_RANDOM, &list, 1);
    struct search *search;
    struct error error;
    assert_int_equal(search_create(&options, &search, &error), ATTUNE_INVALID);
    assert_null(search);
    search_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_strategy_ends_within_its_looks_in_any_order_of_answers),
        cmocka_unit_test(the_same_seed_and_answers_give_the_same_candidates_and_another_seed_others),
        cmocka_unit_test(a_small_space_is_looked_at_whole_and_any_that_is_asked_for_whole),
        cmocka_unit_test(a_space_where_nothing_runs_ends),
        cmocka_unit_test(exhaustive_begins_with_the_cover_as_it_stands),
        cmocka_unit_test(local_search_walks_to_the_best_where_the_way_is_smooth),
        cmocka_unit_test(what_is_known_from_elsewhere_is_not_given_and_its_look_counts),
        cmocka_unit_test(twenty_thousand_candidates_are_searched),
        cmocka_unit_test(a_search_without_promise_ends_before_its_looks_are_spent),
        cmocka_unit_test(a_compiled_candidate_is_refused_when_what_was_learnt_since_leaves_no_hope),
        cmocka_unit_test(names_of_strategies_are_read_and_others_refused),
        cmocka_unit_test(an_empty_list_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
