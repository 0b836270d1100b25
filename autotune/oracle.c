/* oracle.c - making, preparing and freeing the cases of a problem. */
#include "autotune/oracle.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void oracle_case_free(struct oracle_case *test)
{
    for (int i = 0; i < test->tensor_count; i++) {
        free(test->tensors[i].host);
        if (test->expected != NULL) {
            free(test->expected[i]);
        }
        if (test->tolerance != NULL) {
            free(test->tolerance[i]);
        }
    }
    free(test->expected);
    free(test->tolerance);
    free(test->rows.rows);
    reference_free(&test->reference);
    *test = (struct oracle_case){0};
}

bool oracle_has_companions(const struct problem *problem)
{
    return strcmp(problem->schema->family, "attention.forward") == 0 && problem->schema->built_in;
}

attune_status oracle_create(struct generator *generator, const struct problem *problem, uint64_t seed,
                            struct oracle **oracle, struct error *error)
{
    *oracle = NULL;
    struct oracle *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return error_no_memory(error);
    }
    if (pthread_mutex_init(&made->lock, NULL) != 0) {
        free(made);
        return error_no_memory(error);
    }
    made->problem = *problem;
    made->seed = seed;
    made->is_attention = oracle_has_companions(problem);
    attune_status status =
        made->is_attention ? attention_cases_list(made, error) : family_cases_list(generator, made, error);
    if (status != ATTUNE_OK) {
        oracle_destroy(made);
        return status;
    }
    *oracle = made;
    return ATTUNE_OK;
}

void oracle_destroy(struct oracle *oracle)
{
    if (oracle == NULL) {
        return;
    }
    oracle_device_destroy(oracle->device);
    for (int i = 0; i < oracle->case_count; i++) {
        oracle_case_free(&oracle->cases[i]);
    }
    pthread_mutex_destroy(&oracle->lock);
    free(oracle);
}

static attune_status make_inputs(struct oracle *oracle, struct oracle_case *test, struct error *error)
{
    attune_status status = ATTUNE_OK;
    if (!test->has_inputs) {
        status = oracle->is_attention ? attention_case_inputs(oracle, test, error)
                                      : error_set(error, ATTUNE_INTERNAL, "case %s was not prepared", test->label);
        test->has_inputs = status == ATTUNE_OK;
    }
    return status;
}

attune_status oracle_prepare_case(struct oracle *oracle, struct oracle_case *test, struct error *error)
{
    attune_status status = ATTUNE_OK;
    pthread_mutex_lock(&oracle->lock);
    if (!test->ready) {
        status = make_inputs(oracle, test, error);
        test->judged = oracle->judge != NULL && oracle->is_attention && attention_case_is_large(test);
        if (status == ATTUNE_OK && !test->judged) {
            status = attention_case_answers(oracle, test, error);
        }
        test->ready = status == ATTUNE_OK;
    }
    pthread_mutex_unlock(&oracle->lock);
    return status;
}

attune_status oracle_timed_case(struct oracle *oracle, struct oracle_case **test, struct error *error)
{
    for (int i = 0; i < oracle->case_count; i++) {
        struct oracle_case *one = &oracle->cases[i];
        if (one->kind == INPUT_NORMAL && !one->companion && !one->scattered && !one->twin) {
            *test = one;
            pthread_mutex_lock(&oracle->lock);
            attune_status status = make_inputs(oracle, one, error);
            pthread_mutex_unlock(&oracle->lock);
            return status;
        }
    }
    return error_set(error, ATTUNE_INTERNAL, "the oracle has no case to time");
}

attune_status oracle_prepare(struct oracle *oracle, bool companions, struct error *error)
{
    for (int i = 0; i < oracle->case_count; i++) {
        struct oracle_case *test = &oracle->cases[i];
        if (test->twin || (test->companion && !companions)) {
            continue;
        }
        attune_status status = oracle_prepare_case(oracle, test, error);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    return ATTUNE_OK;
}

bool oracle_wants_judge(const struct oracle *oracle)
{
    bool large = false;
    for (int i = 0; i < oracle->case_count && oracle->is_attention; i++) {
        large |= attention_case_is_large(&oracle->cases[i]);
    }
    return large;
}

void oracle_set_flushes(struct oracle *oracle, bool flushes)
{
    for (int i = 0; i < oracle->case_count; i++) {
        oracle->cases[i].attention.flushes = flushes;
    }
}

void oracle_set_judge(struct oracle *oracle, const struct judge *judge)
{
    oracle->judge = judge;
}

static attune_status check_operations(double operations, struct error *error)
{
    /* fibers on a few cores: of the order of 10^9 operations a second, four launches a candidate */
    static const double operations_limit = 4e9, operations_a_second = 1e9;
    if (operations <= operations_limit) {
        return ATTUNE_OK;
    }
    return error_set(
        error, ATTUNE_INVALID,
        "the problem takes %.2g operations, about %.0f s a launch on the host device, where the limit for "
        "checking candidates is %.2g: use shorter lengths, fewer heads or a smaller batch; the kernels are the "
        "same",
        operations, operations / operations_a_second, operations_limit);
}

attune_status oracle_check_host(const struct oracle *oracle, struct error *error)
{
    return check_operations(oracle->operations, error);
}

attune_status oracle_check_reference(struct generator *generator, const struct problem *problem, struct error *error)
{
    struct attention unused;
    return oracle_has_companions(problem) ? attention_from_problem(problem, &unused, error)
                                          : family_check_reference(generator, problem->schema->family, error);
}

attune_status oracle_check_host_problem(struct generator *generator, const struct problem *problem, struct error *error)
{
    struct attention a;
    if (!oracle_has_companions(problem)) {
        return check_operations(generator_operations(generator, problem), error);
    }
    attune_status status = attention_from_problem(problem, &a, error);
    return status == ATTUNE_OK ? check_operations(attention_operations(&a), error) : status;
}

attune_status oracle_check_memory(uint64_t bytes, const struct driver_device *device, struct error *error)
{
    const double gib = 1024.0 * 1024.0 * 1024.0;
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    double here = pages > 0 && page_bytes > 0 ? (double)pages * (double)page_bytes : 0.0;
    if (device->memory_bytes > 0 && bytes > device->memory_bytes) {
        return error_set(
            error, ATTUNE_NO_MEMORY,
            "checking takes %.1f GiB of device memory, %s has %.1f GiB: use shorter lengths, fewer heads or "
            "a smaller batch",
            (double)bytes / gib, device->name, (double)device->memory_bytes / gib);
    }
    if (device->target.vendor != TARGET_HOST && device->memory_free_bytes > 0 && bytes > device->memory_free_bytes) {
        return error_set(error, ATTUNE_NO_MEMORY,
                         "checking takes %.1f GiB of device memory, %s has %.1f GiB free: end what uses it, or use "
                         "shorter lengths, fewer heads or a smaller batch",
                         (double)bytes / gib, device->name, (double)device->memory_free_bytes / gib);
    }
    /* the host device's memory is this machine's, and inputs and answers are in it besides */
    if (device->target.vendor == TARGET_HOST && here > 0.0 && 2.0 * (double)bytes > here) {
        return error_set(
            error, ATTUNE_NO_MEMORY,
            "checking takes about %.1f GiB of memory, this machine has %.1f GiB: use shorter lengths, fewer "
            "heads or a smaller batch",
            2.0 * (double)bytes / gib, here / gib);
    }
    return ATTUNE_OK;
}

double oracle_operations(const struct oracle *oracle)
{
    return oracle->operations;
}

attune_status oracle_check(struct oracle *oracle, const struct driver *driver, int ordinal, const void *object,
                           size_t object_bytes, const struct launch *launch, struct verdict *verdict,
                           struct error *error)
{
    if (oracle->device == NULL || !oracle_device_is(oracle->device, driver, ordinal)) {
        oracle_device_destroy(oracle->device);
        oracle->device = NULL;
        attune_status status = oracle_device_create(oracle, driver, ordinal, true, &oracle->device, error);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    return oracle_device_check(oracle->device, object, object_bytes, launch, verdict, error);
}
