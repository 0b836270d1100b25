/* tune_plan.c - see tune_plan.h. */
#include "cli/tune_plan.h"

#include "autotune/oracle.h"
#include "cli/table.h"
#include "cli/tune_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* a problem of a trace, before the largest are chosen */
struct traced_row {
    int index; /* in the trace */
    double weight;
};

/* larger weights first; the trace is sorted by text, which decides between equal ones */
static int by_weight(const void *a, const void *b)
{
    const struct traced_row *x = a, *y = b;
    if (x->weight != y->weight) {
        return x->weight > y->weight ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

static attune_status make_room(struct tune_plan *plan, int count, struct error *error)
{
    plan->problems.items = calloc((size_t)count + 1, sizeof *plan->problems.items);
    plan->shares = calloc((size_t)count + 1, sizeof *plan->shares);
    plan->calls = calloc((size_t)count + 1, sizeof *plan->calls);
    return plan->problems.items != NULL && plan->shares != NULL && plan->calls != NULL ? ATTUNE_OK
                                                                                       : error_no_memory(error);
}

/* the weights of all that can be parsed; *count of them */
static void weigh(struct cli *cli, const struct trace *trace, struct tune_plan *plan, struct traced_row *rows,
                  int *count, double *sum)
{
    *count = 0;
    *sum = 0;
    for (int i = 0; i < trace->count; i++) {
        struct problem problem;
        struct error why = {.message = ""};
        if (cli_parse_problem(cli, trace->problems[i].text, &problem, &why) != ATTUNE_OK) {
            if (plan->foreign++ == 0) {
                plan->first_foreign = why;
            }
            continue;
        }
        const double weight = (double)trace->problems[i].calls * trace_call_cost(cli->generator, &problem);
        rows[(*count)++] = (struct traced_row){i, weight};
        *sum += weight;
    }
}

/* Would one record serve both? Scalars and the values of options that are on are no part of it. */
static bool is_one_record(const struct problem *a, const struct problem *b)
{
    const struct schema *schema = a->schema;
    for (int i = 0; i < schema->field_count && schema == b->schema; i++) {
        const struct field *field = &schema->fields[i];
        if (field->role == FIELD_SCALAR) {
            continue;
        }
        /* reals are compared by their bits, as whole numbers are */
        const int64_t off = field->fallback.integer, x = a->values[i].integer, y = b->values[i].integer;
        if (field->role == FIELD_OPTION ? (x == off) != (y == off) : x != y) {
            return false;
        }
    }
    return schema == b->schema;
}

/* Several texts may be one tuning: they differ in scalars, or an older release wrote defaults differently. The first
 * one, which has the largest share, takes the others'. */
static bool join_equal(struct tune_plan *plan, const struct problem *problem, int64_t calls, double share)
{
    for (int i = 0; i < plan->problems.count; i++) {
        if (is_one_record(&plan->problems.items[i].problem, problem)) {
            plan->calls[i] = plan->calls[i] > INT64_MAX - calls ? INT64_MAX : plan->calls[i] + calls;
            plan->shares[i] += share;
            for (int at = i; at > 0 && plan->shares[at] > plan->shares[at - 1]; at--) {
                const struct named_problem item = plan->problems.items[at];
                const double moved = plan->shares[at];
                const int64_t counted = plan->calls[at];
                plan->problems.items[at] = plan->problems.items[at - 1];
                plan->shares[at] = plan->shares[at - 1];
                plan->calls[at] = plan->calls[at - 1];
                plan->problems.items[at - 1] = item;
                plan->shares[at - 1] = moved;
                plan->calls[at - 1] = counted;
            }
            return true;
        }
    }
    return false;
}

/* a trace has no names */
static void name_by_what_it_is(struct named_problem *item)
{
    char text[PROBLEM_TEXT_BYTES] = "";
    struct buffer words = BUFFER_INIT;
    (void)problem_format(&item->problem, text, NULL);
    problem_short(text, &words);
    if (words.length < sizeof item->name) {
        snprintf(item->name, sizeof item->name, "%s", buffer_string(&words));
    }
    buffer_free(&words);
}

static attune_status choose_largest(struct cli *cli, const struct trace *trace, struct tune_plan *plan,
                                    struct error *error)
{
    int count = 0;
    double sum = 0;
    struct traced_row *rows = calloc((size_t)trace->count + 1, sizeof *rows);
    if (rows == NULL) {
        return error_no_memory(error);
    }
    weigh(cli, trace, plan, rows, &count, &sum);
    qsort(rows, (size_t)count, sizeof *rows, by_weight);
    attune_status status = make_room(plan, count < TUNE_PLAN_PROBLEMS_MAX ? count : TUNE_PLAN_PROBLEMS_MAX, error);
    for (int i = 0; i < count && status == ATTUNE_OK; i++) {
        const struct traced_problem *traced = &trace->problems[rows[i].index];
        const double share = rows[i].weight / sum;
        if (plan->problems.count == TUNE_PLAN_PROBLEMS_MAX) {
            plan->left_out++;
            plan->left_out_share += share;
            continue;
        }
        struct named_problem *item = &plan->problems.items[plan->problems.count];
        struct problem problem;
        status = cli_parse_problem(cli, traced->text, &problem, error);
        if (status == ATTUNE_OK && !join_equal(plan, &problem, traced->calls, share)) {
            item->problem = problem;
            name_by_what_it_is(item);
            plan->calls[plan->problems.count] = traced->calls;
            plan->shares[plan->problems.count++] = share;
        }
    }
    free(rows);
    return status;
}

#define FOREIGN "problem is not known here", "problems are not known here, the first"

static attune_status read_traces(struct cli *cli, struct tune_plan *plan, struct error *error)
{
    struct trace trace = {0};
    const char *path;
    attune_status status = cli_generator(cli, error);
    for (int i = 0; status == ATTUNE_OK && (path = options_nth(&cli->options, "trace", i)) != NULL; i++) {
        status = i < TRACE_FILES_MAX ? trace_add_file(&trace, path, error)
                                     : error_set(error, ATTUNE_INVALID, "more than %d files", TRACE_FILES_MAX);
    }
    if (status == ATTUNE_OK) {
        trace_sum(&trace);
        plan->of_trace = true;
        plan->lines = trace.lines;
        plan->unreadable = trace.unreadable;
        status = choose_largest(cli, &trace, plan, error);
    }
    if (status == ATTUNE_OK && plan->problems.count == 0) {
        status = plan->foreign > 0 ? error_set(error, plan->first_foreign.status, "%d %s: %s", plan->foreign,
                                               plural(plan->foreign, FOREIGN), plan->first_foreign.message)
                                   : error_set(error, ATTUNE_INVALID, "no launch is noted there yet");
    }
    trace_free(&trace);
    return status == ATTUNE_OK ? ATTUNE_OK : error_prefix(error, "--trace");
}

attune_status tune_plan_read(struct cli *cli, struct tune_plan *plan, struct error *error)
{
    const struct options *given = &cli->options;
    *plan = (struct tune_plan){.of_trace = false};
    if (!options_has(given, "trace")) {
        if (options_has(given, "retune")) {
            return error_set(error, ATTUNE_INVALID,
                             "--retune goes with --trace: problems of --problem and --problems are always tuned");
        }
        attune_status status = cli_problems(cli, &plan->problems, error);
        if (status == ATTUNE_OK) {
            status = tune_check_repeated(&plan->problems, &plan->repeated, error);
        }
        if (status == ATTUNE_OK &&
            (plan->shares = calloc((size_t)plan->problems.count, sizeof *plan->shares)) == NULL) {
            status = error_no_memory(error);
        }
        for (int i = 0; i < plan->problems.count && status == ATTUNE_OK; i++) {
            plan->shares[i] = 1.0 / plan->problems.count;
        }
        return status;
    }
    if (options_has(given, "problem") || options_has(given, "problems")) {
        return error_set(error, ATTUNE_INVALID, "--trace names the problems: leave --%s out",
                         options_has(given, "problem") ? "problem" : "problems");
    }
    return read_traces(cli, plan, error);
}

void tune_plan_free(struct tune_plan *plan)
{
    for (int i = 0; plan->refusals != NULL && i < plan->problems.count; i++) {
        free(plan->refusals[i]);
    }
    free(plan->refusals);
    problem_list_free(&plan->problems);
    free(plan->shares);
    free(plan->calls);
    *plan = (struct tune_plan){.of_trace = false};
}

/* ------------------------------------------------------------------------------------------------ refusing */

static attune_status check_on(struct cli *cli, const struct listed_device *device, const struct problem *problem,
                              struct error *why)
{
    struct candidate standard;
    attune_status status = candidate_default(cli->generator, problem, &device->facts.target, &standard, why);
    if (status == ATTUNE_OK) {
        status = oracle_check_reference(cli->generator, problem, why);
    }
    return status == ATTUNE_OK && strcmp(device->name, "host") == 0
               ? oracle_check_host_problem(cli->generator, problem, why)
               : status;
}

/* could any of the devices tune it? `why` is the last one's that could not */
static bool any_can(struct cli *cli, const struct device_list *devices, const struct problem *problem,
                    struct error *why)
{
    for (int i = 0; i < devices->count; i++) {
        bool of_another = false; /* what holds for the first of a group holds for all */
        for (int earlier = 0; earlier < i; earlier++) {
            of_another = of_another || devices->items[earlier].group == devices->items[i].group;
        }
        if (!of_another && check_on(cli, &devices->items[i], problem, why) == ATTUNE_OK) {
            return true;
        }
    }
    return false;
}

attune_status tune_plan_check(struct cli *cli, struct tune_plan *plan, const struct device_list *devices,
                              struct error *error)
{
    plan->refusals = calloc((size_t)plan->problems.count + 1, sizeof *plan->refusals);
    if (plan->refusals == NULL) {
        return error_no_memory(error);
    }
    for (int i = 0; i < plan->problems.count; i++) {
        const struct named_problem *item = &plan->problems.items[i];
        struct error why = {.message = ""};
        if (any_can(cli, devices, &item->problem, &why)) {
            continue;
        }
        if (plan->refused++ == 0) {
            plan->first_refusal = why;
        }
        if ((plan->refusals[i] = strdup(why.message)) == NULL) {
            return error_no_memory(error);
        }
        if (plan->problems.count > 1) {
            char label[PROBLEM_NAME_BYTES];
            fprintf(stderr, "attune tune: %s: %s\n", tune_plan_label(plan, i, label), why.message);
        }
    }
    return ATTUNE_OK;
}

attune_status tune_plan_refusal(const struct tune_plan *plan, struct error *error)
{
    if (plan->refused == 0 || (plan->of_trace && plan->refused < plan->problems.count)) {
        return ATTUNE_OK;
    }
    return plan->problems.count == 1
               ? error_set(error, plan->first_refusal.status, "%s", plan->first_refusal.message)
               : error_set(error, plan->first_refusal.status,
                           "%d of %d problems cannot be tuned here; why is told above. Nothing was tuned: leave them "
                           "out, or change them",
                           plan->refused, plan->problems.count);
}

/* ------------------------------------------------------------------------------------------------ telling */

const char *tune_plan_label(const struct tune_plan *plan, int number, char label[PROBLEM_NAME_BYTES])
{
    const char *name = plan->problems.items[number].name;
    snprintf(label, PROBLEM_NAME_BYTES, "problem %d", number + 1);
    return name[0] != '\0' ? name : label;
}

/* by job, if each took all it got; 0: no limit */
static void give_seconds(const struct tune_jobs *jobs, int group, double *seconds)
{
    double left = 0, *shares = calloc((size_t)jobs->job_count + 1, sizeof *shares);
    int count = 0, first = 0;
    for (int i = 0; i < jobs->device_count; i++) {
        left += jobs->devices[i].group == group ? jobs->seconds : 0;
    }
    for (int i = 0; shares != NULL && i < jobs->job_count; i++) {
        if (jobs->jobs[i].group == group) {
            shares[count++] = jobs->jobs[i].share;
        }
    }
    for (int i = 0; i < jobs->job_count; i++) {
        if (jobs->jobs[i].group != group) {
            continue;
        }
        seconds[i] = jobs->settings->budget_seconds;
        if (jobs->seconds > 0 && shares != NULL) {
            seconds[i] = fmax(0, fmin(jobs->seconds, tune_jobs_allot(shares + first, count - first, left)));
            left -= seconds[i];
            first++;
        }
    }
    free(shares);
}

static json_t *plan_row(const struct tune_plan *plan, const struct tune_jobs *jobs, const struct device_list *devices,
                        int job, double seconds)
{
    const struct named_problem *item = jobs->jobs[job].problem;
    const int problem = (int)(item - plan->problems.items);
    char text[PROBLEM_TEXT_BYTES] = "";
    json_t *row = json_object(), *names = json_array();
    problem_format(&item->problem, text, NULL);
    json_set_whole(row, "number", problem + 1);
    if (item->name[0] != '\0') {
        json_set_text(row, "name", item->name);
    }
    json_set_text(row, "problem", text);
    for (int i = 0; i < devices->count; i++) {
        if (devices->items[i].group == jobs->jobs[job].group) {
            json_array_append_new(names, json_string(devices->items[i].name));
        }
    }
    json_object_set_new(row, "devices", names);
    if (plan->of_trace) {
        json_set_whole(row, "calls", plan->calls[problem]);
    }
    json_set_real(row, "share", plan->shares[problem]);
    if (seconds > 0 || jobs->seconds > 0) {
        json_set_real(row, "seconds", seconds);
    }
    if (jobs->settings->budget_candidates > 0) {
        json_set_whole(row, "count", jobs->settings->budget_candidates);
    }
    if (plan->refusals != NULL && plan->refusals[problem] != NULL) {
        json_set_text(row, "refused", plan->refusals[problem]);
    }
    return row;
}

/* "60.0 s, 5 looks", "none", "refused" */
static void add_limit(struct table *table, const json_t *row)
{
    const json_t *seconds = json_object_get(row, "seconds"), *count = json_object_get(row, "count");
    struct buffer limit = BUFFER_INIT;
    if (json_object_get(row, "refused") != NULL) {
        buffer_text(&limit, "refused");
    } else if (seconds == NULL && count == NULL) {
        buffer_text(&limit, "none");
    }
    if (seconds != NULL && limit.length == 0) {
        buffer_format(&limit, "%.1f s%s", json_real_value(seconds), count != NULL ? ", " : "");
    }
    if (count != NULL && json_object_get(row, "refused") == NULL) {
        const long long looks = (long long)json_integer_value(count);
        buffer_format(&limit, "%lld %s", looks, plural(looks, "look", "looks"));
    }
    table_cell(table, "%s", buffer_string(&limit));
    buffer_free(&limit);
}

static void print_plan(const json_t *rows, bool of_trace)
{
    struct table table;
    size_t index, at;
    json_t *row, *name;
    table_begin(&table,
                of_trace ? ">number|>calls|>share %|>limit|devices|problem" : ">number|name|>limit|devices|problem");
    json_array_foreach(rows, index, row)
    {
        const char *label = json_string_value(json_object_get(row, "name"));
        struct buffer names = BUFFER_INIT;
        table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(row, "number")));
        if (of_trace) {
            table_cell(&table, "%lld", (long long)json_integer_value(json_object_get(row, "calls")));
            table_cell(&table, "%.2f", 100 * json_real_value(json_object_get(row, "share")));
        } else {
            table_cell(&table, "%s", label != NULL ? label : "");
        }
        add_limit(&table, row);
        json_array_foreach(json_object_get(row, "devices"), at, name)
        {
            buffer_format(&names, "%s%s", at > 0 ? "," : "", json_string_value(name));
        }
        table_cell(&table, "%s", buffer_string(&names));
        table_cell(&table, "%s", json_string_value(json_object_get(row, "problem")));
        buffer_free(&names);
    }
    table_end(&table, stdout);
}

void tune_plan_show(struct cli *cli, const struct tune_plan *plan, const struct tune_jobs *jobs,
                    const struct device_list *devices)
{
    double *seconds = calloc((size_t)jobs->job_count + 1, sizeof *seconds);
    json_t *rows = json_array();
    for (int group = 0; seconds != NULL && group < devices->groups; group++) {
        give_seconds(jobs, group, seconds);
    }
    for (int i = 0; seconds != NULL && i < jobs->job_count; i++) {
        json_array_append_new(rows, plan_row(plan, jobs, devices, i, seconds[i]));
    }
    if (!cli->json && json_array_size(rows) > 0) {
        print_plan(rows, plan->of_trace);
    }
    json_object_set_new(cli->result, "plan", rows);
    free(seconds);
}

void tune_plan_describe(struct cli *cli, const struct tune_plan *plan, int tuned_already)
{
    if (plan->repeated > 0) {
        json_set_whole(cli->result, "repeated", plan->repeated);
        fprintf(stderr, "attune tune: %d %s in the list already, and %s tuned once\n", plan->repeated,
                plural(plan->repeated, "problem is", "problems are"), plural(plan->repeated, "is", "are"));
    }
    if (!plan->of_trace) {
        return;
    }
    json_t *trace = json_object();
    json_set_whole(trace, "lines", plan->lines);
    json_set_whole(trace, "unreadable", plan->unreadable);
    json_set_whole(trace, "problems", plan->problems.count + plan->left_out);
    json_set_whole(trace, "foreign", plan->foreign);
    json_set_whole(trace, "left_out", plan->left_out);
    json_set_whole(trace, "tuned_already", tuned_already);
    json_set_whole(trace, "refused", plan->refused);
    json_object_set_new(cli->result, "trace", trace);
    if (plan->unreadable > 0) {
        fprintf(stderr, "attune tune: --trace: %lld of %lld lines could not be read and do not count\n",
                (long long)plan->unreadable, (long long)plan->lines);
    }
    if (plan->foreign > 0) {
        fprintf(stderr, "attune tune: --trace: %d %s: %s\n", plan->foreign, plural(plan->foreign, FOREIGN),
                plan->first_foreign.message);
    }
    if (plan->left_out > 0) {
        fprintf(stderr, "attune tune: --trace: %d %s with %.2f %% of the time %s behind the first %d\n", plan->left_out,
                plural(plan->left_out, "problem", "problems"), 100 * plan->left_out_share,
                plural(plan->left_out, "is", "are"), TUNE_PLAN_PROBLEMS_MAX);
    }
    if (tuned_already > 0) {
        fprintf(stderr, "attune tune: --trace: %d %s tuned already; --retune does it again\n", tuned_already,
                plural(tuned_already, "problem is", "problems are"));
    }
}
