/* tune_journal.c - how a run's journal begins: whose it is, and why points of the space are no candidates. */
#include "autotune/publish.h"
#include "autotune/tune_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A long reason loses its end, at a whole character. */
static void copy_text(char *into, size_t bytes, const json_t *text)
{
    const char *from = json_is_string(text) ? json_string_value(text) : "";
    snprintf(into, bytes, "%s", from);
    size_t length = strlen(into);
    while (length > 0 && from[length] != '\0' && ((unsigned char)from[length] & 0xc0) == 0x80) {
        length--;
    }
    into[length] = '\0';
}

static void describe(const json_t *row, struct journal_constraint *constraint)
{
    const json_t *example = json_object_get(row, "example");
    copy_text(constraint->reason, sizeof constraint->reason, json_object_get(row, "reason"));
    copy_text(constraint->example, sizeof constraint->example, json_object_get(example, "candidate"));
    copy_text(constraint->because, sizeof constraint->because, json_object_get(example, "reason"));
    json_int_t count = json_integer_value(json_object_get(row, "count"));
    constraint->count = count < INT32_MAX ? (int)count : INT32_MAX;
}

/* Every constraint that refused a point, template by template. free(); NULL and count 0 where candidates come from a
 * file or are the default alone: nothing was refused then. */
static attune_status list_constraints(const struct tuning *t, struct generator *generator,
                                      struct journal_constraint **constraints, int *count, struct error *error)
{
    json_t *params = NULL;
    size_t index, at, rows = 0;
    json_t *template, *row;
    *constraints = NULL;
    *count = 0;
    if (t->list.rejected == 0) {
        return ATTUNE_OK;
    }
    attune_status status =
        generator_params(generator, t->problem->schema->family, t->problem, &t->facts.device.target, &params, error);
    json_array_foreach(json_object_get(params, "templates"), index, template)
    {
        rows += json_array_size(json_object_get(template, "rejected"));
    }
    *constraints = status == ATTUNE_OK ? calloc(rows + 1, sizeof **constraints) : NULL;
    if (status == ATTUNE_OK && *constraints == NULL) {
        status = error_no_memory(error);
    }
    json_array_foreach(*constraints != NULL ? json_object_get(params, "templates") : NULL, index, template)
    {
        json_array_foreach(json_object_get(template, "rejected"), at, row)
        {
            describe(row, &(*constraints)[(*count)++]);
        }
    }
    json_decref(params);
    return status;
}

attune_status tuning_open_journal(struct tuning *t, struct generator *generator, struct error *error)
{
    struct journal_constraint *constraints;
    int count;
    struct fingerprint device;
    struct error why = {.message = ""};
    attune_status status = list_constraints(t, generator, &constraints, &count, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (t->options->share != NULL) {
        status = tuning_share_begin(t, error);
    } else {
        record_new_run(t->run);
    }
    if (status != ATTUNE_OK) {
        free(constraints);
        return status;
    }
    status = journal_open(&t->journal, t->store, t->run, &why);
    if (status != ATTUNE_OK) { /* tuning goes on without a journal, as it does without files */
        store_warn_memory(t->store, &why);
    }
    snprintf(t->result->journal, sizeof t->result->journal, "%s", t->journal.path);
    struct journal_begin begin = {
        .candidates = t->result->listed, .seed = t->options->seed, .started = (int64_t)time(NULL)};
    status = problem_format(t->problem, begin.problem, error);
    target_format(&t->facts.device.target, begin.target);
    snprintf(begin.run, sizeof begin.run, "%s", t->run);
    snprintf(begin.device, sizeof begin.device, "%s", t->facts.device.name);
    snprintf(begin.driver, sizeof begin.driver, "%s", t->facts.device.driver_version);
    device_fingerprint(&t->facts.device, &device);
    fingerprint_folder(&device, begin.fingerprint);
    journal_write_begin(&t->journal, &begin);
    journal_write_constraints(&t->journal, constraints, count);
    free(constraints);
    return status;
}
