/* compile_defaults.c - see compile_defaults.h. What is listed here is what a program with ATTUNE_JIT=forbid finds. */
#include "cli/compile_defaults.h"
#include "autotune/publish.h"
#include "cli/table.h"

#include <string.h>

static attune_status make_one(struct cli *cli, struct compiler_pool *pool, struct store *store,
                              const struct problem *problem, const struct target *target, struct object_job *job,
                              struct error *error)
{
    struct object_road road;
    struct candidate candidate;
    struct expansion scratch = {0};
    struct record record = {0};
    attune_status status = road_open(&road, pool, store, target, SANITIZE_NONE, false, error);
    if (status == ATTUNE_OK) {
        status = candidate_default(cli->generator, problem, target, &candidate, error);
    }
    if (status == ATTUNE_OK) {
        status = object_expand(cli->generator, &road, &candidate, problem, &scratch, job, error);
    }
    if (status == ATTUNE_OK) {
        status = object_obtain(&road, job, error);
    }
    if (status == ATTUNE_OK) {
        status = publish_default(store, target, problem, job, &record, error);
    }
    record_free(&record);
    expansion_free(&scratch);
    return status;
}

static void list_one(const struct problem *problem, const struct target *target, const struct object_job *job,
                     struct table *table, json_t *objects)
{
    char text[PROBLEM_TEXT_BYTES] = "", name[TARGET_TEXT_BYTES], object[DIGEST_HEX_BYTES];
    json_t *row = json_object();
    target_format(target, name);
    problem_format(problem, text, NULL);
    digest_hex(&job->object, object);
    json_set_text(row, "problem", text);
    json_set_text(row, "target", name);
    json_set_text(row, "candidate", job->name);
    json_set_text(row, "id", job->id);
    json_set_text(row, "object", object);
    json_set_text(row, "compiler", job->compiler);
    json_set_text(row, "identity", job->identity);
    json_set_flag(row, "reused", job->reused);
    json_set_real(row, "seconds", job->seconds);
    json_array_append_new(objects, row);
    table_cell(table, "%s", name);
    table_cell(table, "%s", job->id);
    table_cell(table, "%.16s", object);
    table_cell(table, "%s", job->compiler);
    table_cell(table, "%s", job->reused ? "in the store" : "compiled");
    table_cell(table, "%s", text);
}

attune_status compile_defaults(struct cli *cli, struct compiler_pool *pool, const struct problem_list *problems,
                               const struct target *targets, int count, struct error *error)
{
    struct store *store = NULL;
    struct table table;
    struct failures failures = {0};
    int total = problems->count * count;
    attune_status status = store_open(options_text(&cli->options, "store"), &store, error);
    if (status == ATTUNE_OK && store_path(store)[0] == '\0') {
        status = error_set(error, ATTUNE_IO, "--defaults needs a folder to keep objects in: give --store FOLDER");
    }
    json_t *objects = json_array();
    table_begin(&table, "target|id|object|compiler|state|problem");
    for (int i = 0; i < total && status == ATTUNE_OK; i++) {
        struct object_job job = {0};
        struct error failure = {.message = ""};
        const struct problem *problem = &problems->items[i / count].problem;
        const struct target *target = &targets[i % count];
        if (make_one(cli, pool, store, problem, target, &job, &failure) == ATTUNE_OK) {
            list_one(problem, target, &job, &table, objects);
        } else {
            failures_add(&failures, "compile", total, &problems->items[i / count], &failure);
        }
        object_job_free(&job);
    }
    json_object_set_new(cli->result, "objects", objects);
    if (status == ATTUNE_OK) {
        json_set_text(cli->result, "store", cli_store_place(store));
        status = failures_status(&failures, total, "defaults could not be compiled", error);
    }
    if (status == ATTUNE_OK) {
        status = cli_store_took_all(store, error);
    }
    table_end(&table, cli->json ? NULL : stdout);
    store_close(store);
    return status;
}
