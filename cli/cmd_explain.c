/* cmd_explain.c - `attune explain`: which plan a call would get, and why. Asks the runtime's own choice, compiles
 * nothing. */
#include "autotune/objects.h"
#include "base/digest.h"
#include "cli/explain_lds.h"
#include "cli/explain_run.h"
#include "cli/session.h"
#include "cli/table.h"
#include "runtime/context.h"

#include <string.h>

static const struct option options[] = {
    CLI_OPTION_PROBLEM,
    {"candidate", 0, OPTION_TEXT, false, "TEXT",
     "why this one is out, or where it stands: a name, name=value words, an id or its first digits"},
    CLI_OPTION_DEVICE,
    {"target", 0, OPTION_TEXT, false, "T",
     "in place of --device: a device of this target as the store's records describe it, which need not be here"},
    {"lds", 0, OPTION_FLAG, false, NULL,
     "instead: the bank conflicts of a candidate's accesses to shared memory; with --target or --device for which GPU"},
    CLI_OPTION_STORE,
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    {0},
};

/* the device is what the store's records say of it */
static bool is_absent(const struct session *session)
{
    return session->driver == NULL;
}

static json_t *describe_choice(const struct choice *choice)
{
    const struct record *record = &choice->record;
    char object[DIGEST_HEX_BYTES];
    json_t *row = json_object();
    digest_hex(&record->object, object);
    json_set_text(row, "rung", rung_name(choice->rung));
    json_set_real(row, "distance", choice->distance);
    json_set_text(row, "problem", record->problem);
    json_set_text(row, "candidate", record->candidate);
    json_set_text(row, "object", object);
    json_set_text(row, "compiler", record->compiler);
    json_set_real(row, "winner_microseconds", record->winner_microseconds);
    json_set_real(row, "default_microseconds", record->default_microseconds);
    json_set_whole(row, "tried", record->tried);
    json_set_flag(row, "complete", record->complete);
    json_set_whole(row, "created", record->created);
    json_set_text(row, "run", record->run);
    json_set_text(row, "note", choice->note);
    return row;
}

static json_t *describe_blocked(const struct blocked *blocked)
{
    json_t *row = json_object();
    json_set_text(row, "outcome", blocked->outcome);
    json_set_text(row, "reason", blocked->reason);
    return row;
}

static json_t *describe_passed(const struct passed_over *passed)
{
    json_t *row = describe_blocked(&passed->blocked);
    json_set_text(row, "problem", passed->record.problem);
    json_set_text(row, "candidate", passed->record.candidate);
    json_set_text(row, "record", passed->record.kind == RECORD_TUNED ? "tuned" : "default");
    json_set_text(row, "run", passed->record.run);
    json_set_real(row, "winner_microseconds", passed->record.winner_microseconds);
    return row;
}

/* Would a compile of the candidate be refused, for what its object did before? The object's name depends on the
 * compiler that is here; where there is none, on what another made of the same source. */
static bool is_blocked(struct cli *cli, const struct session *session, const struct problem *problem,
                       const struct candidate *candidate, struct blocked *blocked)
{
    const attune_context *context = session->context;
    const struct target *target = &session->device->facts.target;
    struct object_road road = {.store = context->store, .target = *target};
    struct object_job job = {0};
    struct expansion scratch = {0};
    bool known = context->has_jit && context->jit.identity != NULL &&
                 context->jit.identity(context->jit.data, target, road.identity, NULL) == ATTUNE_OK;
    bool found = object_expand(cli->generator, &road, candidate, problem, &scratch, &job, NULL) == ATTUNE_OK;
    if (found && !known) {
        found = store_object_find_source(context->store, &job.source_key, &job.object, NULL) == ATTUNE_OK;
    }
    found = found && store_blocked_get(context->store, &job.object, blocked, NULL) == ATTUNE_OK;
    expansion_free(&scratch);
    object_job_free(&job);
    return found;
}

/* what a call without a stored plan would compile, and whether it would be refused */
static void describe_default(struct cli *cli, const struct session *session, const struct problem *problem)
{
    struct candidate candidate;
    struct error error = {0};
    char name[CANDIDATE_TEXT_BYTES];
    struct blocked blocked;
    if (candidate_default(cli->generator, problem, &session->device->facts.target, &candidate, &error) == ATTUNE_OK) {
        candidate_format(&candidate, name);
        json_set_text(cli->result, "default", name);
        if (is_blocked(cli, session, problem, &candidate, &blocked)) {
            json_object_set_new(cli->result, "default_blocked", describe_blocked(&blocked));
        }
    } else {
        json_set_text(cli->result, "default_refused", error.message);
    }
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* the host device is not timed */
static void print_microseconds(struct table *table, const json_t *time)
{
    double microseconds = json_real_value(time);
    if (microseconds > 0) {
        table_cell(table, "%.1f", microseconds);
    } else {
        table_cell(table, "-");
    }
}

/* default records are of no search */
static void print_search(struct table *table, const json_t *row)
{
    if (strcmp(text_of(row, "rung"), "default") == 0) {
        table_cell(table, "-");
        table_cell(table, "-");
    } else {
        table_cell(table, "%lld", (long long)json_integer_value(json_object_get(row, "tried")));
        table_cell(table, "%s", json_is_true(json_object_get(row, "complete")) ? "ended" : "stopped");
    }
}

static void print_records(const json_t *records)
{
    struct table table;
    size_t index;
    json_t *row;
    table_begin(&table, "  rung|>distance|>winner µs|>default µs|>tried|search|run|problem|note");
    json_array_foreach(records, index, row)
    {
        table_cell(&table, "  %s", text_of(row, "rung"));
        table_cell(&table, "%.2f", json_real_value(json_object_get(row, "distance")));
        print_microseconds(&table, json_object_get(row, "winner_microseconds"));
        print_microseconds(&table, json_object_get(row, "default_microseconds"));
        print_search(&table, row);
        table_cell(&table, "%.8s", text_of(row, "run"));
        table_cell(&table, "%s", text_of(row, "problem"));
        table_cell(&table, "%s", text_of(row, "note"));
    }
    table_end(&table, stdout);
}

static void print_passed(const json_t *passed)
{
    struct table table;
    size_t index;
    json_t *row;
    table_begin(&table, "  record|>winner µs|run|problem|why");
    json_array_foreach(passed, index, row)
    {
        table_cell(&table, "  %s", text_of(row, "record"));
        print_microseconds(&table, json_object_get(row, "winner_microseconds"));
        table_cell(&table, "%.8s", text_of(row, "run"));
        table_cell(&table, "%s", text_of(row, "problem"));
        table_cell(&table, "%s before: %s", text_of(row, "outcome"), text_of(row, "reason"));
    }
    table_end(&table, stdout);
}

/* --target: whose records these are */
static void print_absent(const json_t *result)
{
    const long long kinds = (long long)json_integer_value(json_object_get(result, "kinds"));
    if (json_object_get(result, "kinds") == NULL) {
        return;
    }
    if (kinds == 0) {
        printf("nothing was tuned on a device of this target: nothing but the target is known of it\n\n");
    } else {
        printf("as for %s, by the store's records%s; nothing is loaded\n\n", text_of(result, "device_name"),
               kinds > 1 ? ", the newest of several kinds of devices of this target" : "");
    }
}

static void print(const json_t *result)
{
    const json_t *plan = json_object_get(result, "plan");
    const json_t *records = json_object_get(result, "records");
    printf(
        "problem         %s\nspecialisation  %s\nshape           %s\ndevice          %s (%s)\nlooked in       %s\n\n",
        text_of(result, "problem"), text_of(result, "specialisation"), text_of(result, "shape"),
        text_of(result, "device"), text_of(result, "target"), text_of(result, "searched"));
    print_absent(result);
    if (plan != NULL) {
        printf("plan: %s, %s\n  %s\n  object %s\n  compiled by %s\nwhy: %s\n", text_of(plan, "rung"),
               text_of(plan, "id"), text_of(plan, "candidate"), text_of(plan, "object"), text_of(plan, "compiler"),
               text_of(result, "why"));
    } else {
        printf("no plan is stored: %s\n", text_of(result, "why"));
    }
    const json_t *blocked = json_object_get(result, "default_blocked"),
                 *passed = json_object_get(result, "passed_over");
    if (json_object_get(result, "default") != NULL) {
        printf("the default candidate is %s\n", text_of(result, "default"));
        if (blocked != NULL) {
            printf("  it is blocked, %s before: %s\n", text_of(blocked, "outcome"), text_of(blocked, "reason"));
        }
    } else {
        printf("there is no default candidate: %s\n", text_of(result, "default_refused"));
    }
    if (json_array_size(records) > 0) {
        printf("\nrecords considered, best first\n");
        print_records(records);
    }
    if (json_array_size(passed) > 0) {
        printf("\npassed over, since nobody should launch their objects\n");
        print_passed(passed);
    }
    explain_run_print(result);
}

/* The compiler for the device is asked who it is, so that the notes tell what another build made; without a compiler
 * they do not. */
static void ask_compiler(const struct session *session)
{
    const attune_context *context = session->context;
    char identity[DIGEST_HEX_BYTES];
    if (context->has_jit && context->jit.identity != NULL) {
        (void)context->jit.identity(context->jit.data, &session->device->facts.target, identity, NULL);
    }
}

/* why there is no plan where nobody compiles */
static void explain_miss(struct cli *cli)
{
    static const char nothing[] = "nothing is stored for this specialisation on this device";
    const json_t *blocked = json_object_get(cli->result, "default_blocked");
    struct buffer text = BUFFER_INIT;
    if (json_object_get(cli->result, "default") == NULL) {
        buffer_format(&text, "%s, and nothing can be compiled for it", nothing);
    } else if (blocked != NULL) {
        buffer_format(
            &text,
            "%s, and the default candidate is blocked: it was %s before (%s). A first call would be refused, or "
            "tune with ATTUNE_JIT=tune; `attune cache prune --blocked` lets the default be tried again",
            nothing, text_of(blocked, "outcome"), text_of(blocked, "reason"));
    } else {
        buffer_format(
            &text,
            "%s: a first call would compile the default candidate, or tune with ATTUNE_JIT=tune, or fail with "
            "ATTUNE_JIT=forbid",
            nothing);
    }
    json_set_text(cli->result, "why", buffer_string(&text));
    buffer_free(&text);
}

/* place of the record that a plan was made from; -1 without one */
static int place_of(const struct choices *choices, const attune_plan_info *info)
{
    for (int i = 0; i < choices->count; i++) {
        const struct record *record = &choices->items[i]->record;
        char object[DIGEST_HEX_BYTES];
        digest_hex(&record->object, object);
        if (choices->items[i]->rung == info->rung && strcmp(object, info->object) == 0 &&
            strcmp(record->candidate, info->candidate) == 0) {
            return i;
        }
    }
    return -1;
}

/* the best record as a plan, of a device that is not here: nothing is loaded */
static attune_status take_best(const struct choices *choices, attune_plan_info *info)
{
    if (choices->count == 0) {
        return ATTUNE_FORBIDDEN;
    }
    const struct choice *best = choices->items[0];
    const struct record *record = &best->record;
    *info = (attune_plan_info){.size = sizeof *info,
                               .rung = best->rung,
                               .threads = record->launch.threads,
                               .shared_bytes = record->launch.static_shared_bytes + record->launch.dynamic_shared_bytes,
                               .winner_microseconds = record->winner_microseconds,
                               .default_microseconds = record->default_microseconds,
                               .stale = best->stale};
    snprintf(info->candidate, sizeof info->candidate, "%s", record->candidate);
    digest_short(record->candidate, info->candidate_id);
    snprintf(info->compiler, sizeof info->compiler, "%s", record->compiler);
    digest_hex(&record->object, info->object);
    return ATTUNE_OK;
}

/* the plan that a call would get, or why it gets none; `info` stays empty then */
static attune_status explain_choice(struct cli *cli, struct session *session, const struct problem *problem,
                                    const struct choices *choices, attune_plan_info *info, struct error *error)
{
    attune_plan *plan = NULL;
    struct error missing = {0};
    struct buffer why = BUFFER_INIT;
    attune_status status =
        is_absent(session) ? take_best(choices, info) : session_prepare(session, problem, NULL, &plan, info, &missing);
    if (status == ATTUNE_OK) {
        json_object_set_new(cli->result, "plan", describe_plan(info));
        explain_why(choices, place_of(choices, info), info->rung, &why);
        json_set_text(cli->result, "why", buffer_string(&why));
        buffer_free(&why);
    } else if (status == ATTUNE_FORBIDDEN) { /* explaining compiles nothing: a miss is the answer */
        explain_miss(cli);
    } else if (status == ATTUNE_NOT_FOUND || status == ATTUNE_UNSUPPORTED) {
        json_set_text(cli->result, "why", missing.message);
    } else {
        return error_set(error, status, "%s", missing.message);
    }
    attune_plan_destroy(plan);
    return ATTUNE_OK;
}

static attune_status explain(struct cli *cli, struct session *session, const struct problem *problem,
                             struct choices *choices, struct error *error)
{
    char specialisation[PROBLEM_TEXT_BYTES], shape[PROBLEM_TEXT_BYTES], text[PROBLEM_TEXT_BYTES];
    char target[TARGET_TEXT_BYTES];
    struct buffer searched = BUFFER_INIT;
    attune_status status = problem_specialisation(problem, specialisation, error);
    if (status == ATTUNE_OK) {
        status = problem_shape(problem, shape, error);
    }
    if (status == ATTUNE_OK) {
        status = problem_format(problem, text, error);
    }
    if (status == ATTUNE_OK) {
        ask_compiler(session);
        status = choose_records(session->device, problem, 0, NULL, choices, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    choose_paths(session->device, specialisation, &searched);
    target_format(&session->device->facts.target, target);
    json_set_text(cli->result, "problem", text);
    json_set_text(cli->result, "specialisation", specialisation);
    json_set_text(cli->result, "shape", shape);
    json_set_text(cli->result, "device", session->device_name);
    json_set_text(cli->result, "target", target);
    json_set_text(cli->result, "searched", buffer_string(&searched));
    buffer_free(&searched);
    describe_default(cli, session, problem);
    json_t *records = json_array();
    for (int i = 0; i < choices->count; i++) {
        json_array_append_new(records, describe_choice(choices->items[i]));
    }
    json_object_set_new(cli->result, "records", records);
    json_t *passed = json_array();
    for (int i = 0; i < choices->blocked; i++) {
        json_array_append_new(passed, describe_passed(choices->passed[i]));
    }
    json_object_set_new(cli->result, "passed_over", passed);
    attune_plan_info info = {.candidate = ""};
    status = explain_choice(cli, session, problem, choices, &info, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    const int served = place_of(choices, &info);
    const struct record *record = served >= 0 ? &choices->items[served]->record : NULL;
    return explain_run(
        &(struct explained_run){
            .cli = cli,
            .store = session->context->store,
            .problem = problem,
            .device = &session->device->facts,
            .record = record != NULL && record->kind == RECORD_TUNED ? record : NULL,
            .served = info.candidate,
            .standard = text_of(cli->result, "default"),
            .asked = options_text(&cli->options, "candidate"),
        },
        error);
}

/* a context with a device in it that is not here; it serves those who read its facts and its context */
static attune_status open_absent(struct cli *cli, const struct problem *problem, attune_device *absent,
                                 struct session *session, struct error *error)
{
    struct target target;
    int kinds = 0;
    attune_context_options settings = {
        .size = sizeof settings, .store = options_text(&cli->options, "store"), .jit = ATTUNE_JIT_FORBID};
    *session = (struct session){0};
    if (options_has(&cli->options, "device")) {
        return error_set(error, ATTUNE_INVALID,
                         "--target is of a device that is not here, --device of one that is: give one of them");
    }
    attune_status status = cli_target(cli, options_text(&cli->options, "target"), &target, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = attune_context_create(&settings, &session->context);
    if (status == ATTUNE_OK) {
        status = attune_jit_register(session->context);
    }
    if (status != ATTUNE_OK) {
        session_error(session, status, error);
    } else {
        status = explain_target(session->context->store, &target, problem, &absent->facts, &kinds, error);
    }
    if (status != ATTUNE_OK) {
        session_close(session);
        return status;
    }
    absent->context = session->context;
    session->device = absent;
    snprintf(session->device_name, sizeof session->device_name, "not here");
    json_set_text(cli->result, "device_name", absent->facts.name);
    json_set_whole(cli->result, "kinds", kinds);
    return ATTUNE_OK;
}

static attune_status run(struct cli *cli, struct error *error)
{
    struct problem problem;
    struct session session;
    struct choices choices = {0};
    attune_device absent = {.facts = {.name = ""}};
    attune_status status = cli_problem(cli, &problem, error);
    if (status == ATTUNE_OK && options_has(&cli->options, "lds")) {
        return explain_lds(cli, &problem, error);
    }
    if (status == ATTUNE_OK && cli->options.positional_count > 0) {
        return error_set(error, ATTUNE_INVALID,
                         "'%s': name=value words go with --lds; without it --candidate takes them",
                         cli->options.positionals[0]);
    }
    if (status == ATTUNE_OK && options_has(&cli->options, "target")) {
        status = open_absent(cli, &problem, &absent, &session, error);
    } else if (status == ATTUNE_OK) {
        status = session_open(cli, ATTUNE_JIT_FORBID, &session, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    status = explain(cli, &session, &problem, &choices, error);
    choices_free(&choices);
    session_close(&session);
    if (status == ATTUNE_OK && !cli->json) {
        if (json_object_get(cli->result, "candidate") != NULL) {
            explain_candidate_print(cli->result);
        } else {
            print(cli->result);
        }
    }
    return status;
}

const struct command command_explain = {
    .name = "explain",
    .usage = "--problem P [--candidate C] [--device D | --target T] [--store FOLDER | --lds [name=value ...]]",
    .summary = "which plan a call would get, and why",
    .help =
        "Shows the rung (exact, near, default), the candidate and its object, every record considered, best first, "
        "and\n"
        "those passed over. From the tuning run that made the record: what the default would cost, the candidates\n"
        "nearest in time, and why others were out, each reason with an example.\n"
        "Distance: sum of |log2| of the ratios of batch times heads, seqlen_q and seqlen_k. Compiles nothing.\n\n"
        "With --lds a candidate's kernel, as it is made for the target, runs on a few blocks on the CPU, and the\n"
        "conflicts of each access are counted from its addresses by the target's rule of banks and phases:\n\n"
        "  attune explain --lds --problem \"dtype=f16 batch=1 heads=8 seqlen_q=1024 head_dim=64\" --target gfx942\n",
    .options = options,
    .positional_minimum = 0,
    .positional_maximum = -1,
    .run = run,
};
