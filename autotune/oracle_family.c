/* oracle_family.c - the cases of a family whose inputs and reference are Lua functions.
 *
 * The reference sees the inputs as the kernel does, rounded to the tensor's type. All is made at creation: the
 * generator belongs to one thread.
 */
#include "autotune/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static attune_status make_case(struct generator *generator, const struct oracle *oracle, int kind,
                               const struct tensor_spec *specs, int count, struct oracle_case *test,
                               struct error *error)
{
    double *values[ORACLE_TENSORS_MAX] = {0};
    attune_status status = ATTUNE_OK;
    test->problem = oracle->problem;
    test->kind = kind;
    test->tensor_count = count;
    snprintf(test->label, sizeof test->label, "%s inputs", input_kind_name(kind));
    test->expected = calloc((size_t)count + 1, sizeof *test->expected);
    test->tolerance = calloc((size_t)count + 1, sizeof *test->tolerance);
    if (test->expected == NULL || test->tolerance == NULL) {
        return error_no_memory(error);
    }
    for (int i = 0; i < count && status == ATTUNE_OK; i++) {
        struct oracle_tensor *tensor = &test->tensors[i];
        size_t elements = (size_t)specs[i].elements;
        memcpy(tensor->name, specs[i].name, sizeof tensor->name);
        tensor->output = specs[i].output;
        tensor->elements = specs[i].elements;
        if (!dtype_parse(specs[i].dtype, &tensor->dtype)) {
            return error_set(error, ATTUNE_UNSUPPORTED, "%s: tensor %s has the type %s; checks know f16, bf16 and f32",
                             oracle->problem.schema->family, specs[i].name, specs[i].dtype);
        }
        tensor->host = malloc(elements * dtype_size(tensor->dtype) + 1);
        values[i] = calloc(elements + 1, sizeof **values);
        if (tensor->output) {
            test->expected[i] = values[i];
            test->tolerance[i] = calloc(elements + 1, sizeof **test->tolerance);
        }
        if (tensor->host == NULL || values[i] == NULL || (tensor->output && test->tolerance[i] == NULL)) {
            status = error_no_memory(error);
        } else if (!tensor->output) {
            status = generator_inputs(generator, &oracle->problem, i, kind, oracle->seed, values[i], error);
            convert_from_double(tensor->dtype, values[i], tensor->host, elements);
            convert_to_double(tensor->dtype, tensor->host, values[i], elements);
        }
    }
    if (status == ATTUNE_OK) {
        status = generator_reference(generator, &oracle->problem, values, test->tolerance, error);
    }
    for (int i = 0; i < count; i++) {
        if (test->expected[i] == NULL) {
            free(values[i]);
        }
    }
    test->has_inputs = test->ready = status == ATTUNE_OK;
    return status;
}

attune_status family_check_reference(struct generator *generator, const char *family, struct error *error)
{
    return generator_has_reference(generator, family)
               ? ATTUNE_OK
               : error_set(error, ATTUNE_UNSUPPORTED,
                           "%s brings no `reference` and `inputs` functions, so nothing can be verified: add them to "
                           "its family file",
                           family);
}

attune_status family_cases_list(struct generator *generator, struct oracle *oracle, struct error *error)
{
    struct tensor_spec specs[ORACLE_TENSORS_MAX];
    int count = 0;
    attune_status status = family_check_reference(generator, oracle->problem.schema->family, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = generator_tensors(generator, &oracle->problem, specs, ORACLE_TENSORS_MAX, &count, error);
    for (int kind = 0; kind < ORACLE_KINDS && status == ATTUNE_OK; kind++) {
        oracle->case_count++;
        status = make_case(generator, oracle, kind, specs, count, &oracle->cases[kind], error);
    }
    if (status == ATTUNE_OK) {
        oracle->operations = generator_operations(generator, &oracle->problem);
    }
    return status;
}

static double element(const struct oracle_tensor *tensor, const void *elements, int64_t index)
{
    double value;
    convert_to_double(tensor->dtype, (const char *)elements + (size_t)index * dtype_size(tensor->dtype), &value, 1);
    return value;
}

bool family_case_compare(const struct oracle_case *test, void *const *outputs, struct verdict *verdict)
{
    bool right = true;
    for (int t = 0; t < test->tensor_count; t++) {
        const struct oracle_tensor *tensor = &test->tensors[t];
        if (!tensor->output) {
            continue;
        }
        for (int64_t i = 0; i < tensor->elements; i++) {
            double found = element(tensor, outputs[t], i), expected = test->expected[t][i];
            double allowed = test->tolerance[t][i];
            if (found == expected || (isnan(found) && isnan(expected))) {
                continue;
            }
            double difference = fabs(found - expected);
            double ratio = difference <= allowed                   ? difference / allowed
                           : allowed > 0.0 && isfinite(difference) ? difference / allowed
                                                                   : (double)INFINITY;
            verdict->worst_ratio = fmax(verdict->worst_ratio, ratio);
            if (right && !(difference <= allowed)) {
                bool poison = convert_is_poison(tensor->dtype, outputs[t], (size_t)i);
                snprintf(verdict->reason, sizeof verdict->reason, "%s: element %lld: %s%.6g, expected %.6g within %.3g",
                         tensor->name, (long long)i, poison ? "never written: " : "", found, expected, allowed);
                right = false;
            }
        }
    }
    return right;
}
