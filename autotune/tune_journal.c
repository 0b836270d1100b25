/* tune_journal.c - how a run's journal begins or goes on: whose it is, and why points of the space are no candidates.
 */
#include "autotune/publish.h"
#include "autotune/ranks.h"
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

static attune_status describe_run(const struct tuning *t, struct journal_begin *begin, struct error *error)
{
    struct fingerprint device;
    *begin = (struct journal_begin){
        .candidates = t->result->listed, .seed = t->options->seed, .started = (int64_t)time(NULL)};
    target_format(&t->facts.device.target, begin->target);
    snprintf(begin->run, sizeof begin->run, "%s", t->run);
    snprintf(begin->device, sizeof begin->device, "%s", t->facts.device.name);
    snprintf(begin->driver, sizeof begin->driver, "%s", t->facts.device.driver_version);
    device_fingerprint(&t->facts.device, &device);
    fingerprint_folder(&device, begin->fingerprint);
    snprintf(begin->name, sizeof begin->name, "%s", t->options->name != NULL ? t->options->name : "");
    snprintf(begin->strategy, sizeof begin->strategy, "%s", t->plan.name);
    begin->space = t->order.count;
    if (t->options->share != NULL) {
        const struct tune_share *share = t->options->share;
        snprintf(begin->rank, sizeof begin->rank, "%d/%d %s", share->rank, share->ranks->size, share->ranks->job);
    }
    return problem_format(t->problem, begin->problem, error);
}

static bool are_the_same(const struct journal_constraint *constraints, int count, const struct journal_reading *reading)
{
    bool same = count == reading->constraint_count;
    for (int i = 0; i < count && same; i++) {
        const struct journal_constraint *now = &constraints[i], *then = &reading->constraints[i];
        same = strcmp(now->reason, then->reason) == 0 && now->count == then->count &&
               strcmp(now->example, then->example) == 0 && strcmp(now->because, then->because) == 0;
    }
    return same;
}

/* ATTUNE_NOT_FOUND: no run to go on with */
static attune_status continue_journal(struct tuning *t, struct generator *generator,
                                      const struct journal_constraint *constraints, int count, struct error *error)
{
    struct journal_begin begin;
    struct journal_reading reading;
    attune_status status = describe_run(t, &begin, error);
    if (status == ATTUNE_OK) {
        status = tuning_resume(t, generator, &begin, &reading, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    snprintf(t->result->run, sizeof t->result->run, "%s", t->run);
    snprintf(t->result->journal, sizeof t->result->journal, "%s", t->journal.path);
    if (t->result->already_done) {
        journal_close(&t->journal);
    } else {
        struct journal_resume goes_on = {
            .started = begin.started, .held = t->result->counts.held, .invalid = t->result->counts.invalid};
        memcpy(goes_on.driver, begin.driver, sizeof goes_on.driver);
        journal_write_resume(&t->journal, &goes_on);
        if (!are_the_same(constraints, count, &reading)) {
            journal_write_constraints(&t->journal, constraints, count);
        }
    }
    journal_reading_free(&reading);
    return ATTUNE_OK;
}

static attune_status begin_journal(struct tuning *t, const struct journal_constraint *constraints, int count,
                                   struct error *error)
{
    struct journal_begin begin;
    struct error why = {.message = ""};
    attune_status status = ATTUNE_OK;
    if (t->options->share != NULL) {
        status = tuning_share_begin(t, error);
    } else {
        record_new_run(t->run);
    }
    if (status == ATTUNE_OK) {
        status = describe_run(t, &begin, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    if (journal_open(&t->journal, t->store, t->run, &why) != ATTUNE_OK) {
        store_warn_memory(t->store, &why); /* tuning goes on without a journal, as it does without files */
    }
    snprintf(t->result->run, sizeof t->result->run, "%s", t->run);
    snprintf(t->result->journal, sizeof t->result->journal, "%s", t->journal.path);
    journal_write_begin(&t->journal, &begin);
    journal_write_constraints(&t->journal, constraints, count);
    return ATTUNE_OK;
}

attune_status tuning_open_journal(struct tuning *t, struct generator *generator, struct error *error)
{
    struct journal_constraint *constraints;
    int count;
    attune_status status = list_constraints(t, generator, &constraints, &count, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (t->options->resume) {
        status = continue_journal(t, generator, constraints, count, error);
    }
    if (!t->options->resume || status == ATTUNE_NOT_FOUND) {
        status = begin_journal(t, constraints, count, error);
    }
    free(constraints);
    return status;
}
